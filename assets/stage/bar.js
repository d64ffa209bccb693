// The bar: prompt with its examples, Exact or Loose, Decode. On a phone it is the sheet at the bottom edge.

import { h, setText } from './dom.js';
import { createAdvanced } from './advanced.js';
import { createPanel } from './panel.js';
import { isExact } from './knobs.js';

export function createBar(t, { config, knobs, tools, canDecode, onDecode, onStop, onPreset }) {
  const prompt = h('textarea', { class: 'prompt-input', rows: 1, 'aria-label': t('prompt.label'), placeholder: t('prompt.label'), readonly: !canDecode, 'data-field': 'prompt', spellcheck: 'false' });
  const examplesButton = h('button', { type: 'button', class: 'quiet examples-button', hidden: !config.presets.length, title: t('examples.title') }, t('examples.label'), ' ▾');
  const examples = createPanel(examplesButton, 'examples', ...config.presets.map((preset, i) => {
    const choice = h('button', { type: 'button', class: 'example', 'data-preset': preset.name }, h('kbd', { 'aria-hidden': 'true' }, i < 10 ? String((i + 1) % 10) : ''), h('b', {}, preset.title), h('span', {}, preset.teaches));
    choice.addEventListener('click', () => {
      examples.hidePopover();
      onPreset(preset.name);
    });
    return choice;
  }));
  const exact = radio('exact', t('mode.exact'), t('mode.exact.tip'));
  const loose = radio('loose', t('mode.loose'), t('mode.loose.tip'));
  const mode = h('div', { class: 'switch', role: 'radiogroup', 'aria-label': t('mode.label'), 'data-field': 'rule' }, exact.root, loose.root);
  exact.input.addEventListener('change', () => knobs.setExact(true));
  loose.input.addEventListener('change', () => knobs.setExact(false));

  const decode = h('button', { type: 'submit', class: 'decode', hidden: !canDecode });
  const advanced = createAdvanced(t, config, knobs, tools, canDecode);
  const more = h('button', { type: 'button', class: 'quiet sheet-button', 'aria-expanded': 'false' }, t('sheet.open'));
  const ranges = ['num_draft_tokens', 'threshold'].map((field) => range(t, field, config.bounds[field], knobs));
  const root = h('form', { class: 'bar' },
    h('div', { class: 'prompt-box' }, prompt, examplesButton, examples), h('div', { class: 'sheet-ranges' }, ...ranges.map((one) => one.root)),
    mode, advanced.root, more, decode);
  const open = (now) => more.setAttribute('aria-expanded', root.classList.toggle('open', now));
  more.addEventListener('click', () => open());

  let busy = false;
  root.addEventListener('submit', (event) => {
    event.preventDefault();
    if (busy) onStop();
    else if (canDecode) onDecode();
  });
  prompt.addEventListener('input', () => {
    knobs.prompt = prompt.value;
    fit();
  });
  prompt.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!busy && canDecode) onDecode();
  });
  function fit() {
    prompt.style.height = 'auto';
    prompt.style.height = `${Math.min(prompt.scrollHeight + 2, 110)}px`;
  }

  function update() {
    if (prompt.value !== knobs.prompt) {
      prompt.value = knobs.prompt;
      prompt.title = knobs.prompt;
    }
    exact.input.checked = isExact(knobs.settings);
    loose.input.checked = !exact.input.checked;
    advanced.update();
    ranges.forEach((one) => one.update());
  }

  return {
    root, update,
    open: () => open(true),
    setBusy(now) {
      busy = now;
      setText(decode, t(now ? 'stop' : 'decode'));
      decode.classList.toggle('stop', now);
    },
    setChanged(changed) { decode.classList.toggle('changed', changed); },
  };
}

// On a phone the rail and the brace have no room: the same two knobs as plain sliders in the sheet.
function range(t, field, { low, high, integer, step }, knobs) {
  const input = h('input', { type: 'range', min: integer || step >= 1 ? low : low + 0.01, max: high, step: integer || step >= 1 ? 1 : 0.01, 'data-field': field });
  const value = h('output', {});
  input.addEventListener('input', () => knobs.set(field, Number(input.value)));
  return {
    root: h('label', { title: t(`field.${field}.tip`) }, h('span', {}, t(`field.${field}`)), input, value),
    update() {
      input.value = knobs.settings[field];
      setText(value, String(knobs.settings[field]));
    },
  };
}

function radio(value, label, tip) {
  const input = h('input', { type: 'radio', name: 'mtviz-mode', value });
  return { input, root: h('label', { title: tip }, input, h('span', {}, label)) };
}
