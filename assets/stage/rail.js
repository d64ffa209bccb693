// The left rail: who speaks in each row of the board, and the knob that sets the notch.

import { h, setData, setText, setVar } from './dom.js';
import { judgesByMatch } from './judge.js';

export function createRail(t, { bounds, knobs }) {
  const { low, high } = bounds.threshold;
  const slider = h('input', { type: 'range', class: 'threshold', min: low + 0.01, max: high, step: 0.01, 'data-field': 'threshold',
    'aria-label': t('field.threshold'), title: t('field.threshold.tip') });
  slider.addEventListener('input', () => knobs.set('threshold', Number(slider.value)));
  const name = h('span', { class: 'knob-name' });
  const value = h('b', { class: 'knob-value' });
  const note = h('span', { class: 'knob-note' });
  const tick = h('i', { class: 'recorded-tick', title: t('rail.recorded') });
  const heads = h('div', { class: 'speaker heads' });
  const trunk = h('div', { class: 'speaker trunk', title: t('rail.trunk.tip') }, t('rail.trunk'));
  const root = h('div', { class: 'rail' },
    heads,
    h('div', { class: 'rail-facing' }, t('rail.facing')),
    h('div', { class: 'knob' }, h('div', { class: 'knob-words' }, name, value, note), h('div', { class: 'knob-slider' }, slider, tick)),
    trunk,
    h('div', { class: 'rail-line' }, t('rail.verdict')),
    h('div', { class: 'rail-line held-name' }, ''));
  const heldName = root.lastChild;

  return {
    root,
    // `settings` are those that the board is drawn under, `recorded` those of the run.
    update(settings, recorded) {
      const rule = judgesByMatch(settings.rule, settings.temperature) ? 'match' : settings.rule;
      setData(root, 'rule', rule);
      setText(name, t(`rail.${rule}`));
      setText(value, { ratio: settings.threshold.toFixed(2), typical: settings.epsilon.toFixed(2), match: '=', speculative: '⚄' }[rule]);
      const drafter = t(`drafter.${recorded.drafter}`);
      setText(heads, drafter);
      heads.title = `${/lookup|none/.test(recorded.drafter) ? '' : t('rail.heads.tip')} ${t(`family.${recorded.drafter}.tip`)}`.trim();
      setText(note, t(rule === 'ratio' && settings.threshold === 1 ? 'rail.ratio.one' : `rail.${rule}.note`));
      setText(heldName, t(`rail.held.${rule}`, { drafter }));
      if (Number(slider.value) !== knobs.settings.threshold) slider.value = knobs.settings.threshold;
      slider.disabled = rule !== 'ratio';
      setVar(tick, '--at', recorded.threshold);
    },
  };
}
