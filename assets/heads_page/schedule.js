// The progressive schedule as strips: which heads train at which step. The steps come from the training code itself.

import { h, setText, setVar } from '../stage/dom.js';

// `state` is {heads, steps_per_head}; `ask(state)` gives [step, heads from there on] at each change.
export function createSchedule(t, { bounds, steps, state, ask, stored }) {
  const strip = h('div', { class: 'schedule' });
  const sliders = Object.entries(bounds).map(([name, { low, high, step }]) => {
    const value = h('output', {}, String(state[name]));
    const input = h('input', { type: 'range', min: low, max: high, step, 'data-field': `schedule-${name}` });
    input.value = state[name];
    input.addEventListener('input', () => {
      state[name] = Number(input.value);
      setText(value, input.value);
      draw();
    });
    return h('label', {}, h('span', {}, t(`schedule.${name}`), h('code', {}, name)), input, value);
  });
  let asked = 0;

  async function draw() {
    const mine = (asked += 1);
    const changes = await ask({ ...state });
    if (mine === asked) strip.replaceChildren(stripOf(t, changes, steps));
  }

  draw();
  const shipped = Object.entries(stored).filter(([, file]) => file.depths).map(([family, { depths, schedule }]) => h('div', { class: 'shipped' },
    h('h3', {}, t('schedule.shipped', { family: t(`family.${family}`), steps: schedule.steps })), h('div', { class: 'schedule' }, stripOf(t, depths, schedule.steps))));
  return h('div', {}, h('div', { class: 'sliders' }, ...sliders), strip, ...shipped);
}

function stripOf(t, changes, steps) {
  const most = Math.max(...changes.map(([, heads]) => heads));
  const rows = Array.from({ length: most }, (_, i) => {
    const from = changes.find(([, heads]) => heads > i)[0];
    const bar = h('span', { class: 'fill' }, from ? h('span', {}, t('schedule.from', { step: from })) : '');
    setVar(bar, '--from', from / steps);
    return h('li', {}, h('span', { class: 'ahead-by' }, `+${i + 2}`), h('span', { class: 'lane' }, bar));
  });
  return h('div', {}, h('ol', {}, ...rows.reverse()), h('p', { class: 'axis' }, h('span', {}, t('schedule.step', { n: 0 })), h('span', {}, t('schedule.step', { n: steps }))));
}
