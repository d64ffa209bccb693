// The drawer: tools, then rules by name and every other setting, with the bounds that the settings declare.

import { h } from './dom.js';
import { createPanel } from './panel.js';
import { JUDGING } from './knobs.js';

const NUMBERS = ['num_draft_tokens', 'threshold', 'temperature', 'top_k', 'top_p', 'seed', 'max_new_tokens', 'epsilon', 'delta'];

// Where nothing can be decoded, only what judges a stored round anew.
export function createAdvanced(t, { choices, bounds, heads_of: headsOf }, knobs, tools, canDecode) {
  const numbers = NUMBERS.filter((field) => canDecode || JUDGING.includes(field));
  const inputs = {};
  const button = h('button', { type: 'button', class: 'quiet advanced-button' }, t('drawer.label'));
  const panel = createPanel(button, 'advanced', tools, h('h3', {}, t('advanced.label')),
    group('rule'), canDecode && choices.model ? models() : '', canDecode ? group('drafter', 'family') : '', h('div', { class: 'numbers' }, ...numbers.map(number)), canDecode ? raw() : '');

  function group(field, names = field, choose = (value) => knobs.set(field, value)) {
    const options = choices[field].map((value) => {
      const input = h('input', { type: 'radio', name: `mtviz-${field}`, value, onchange: () => choose(value) });
      (inputs[field] ??= []).push(input);
      return h('label', { class: 'choice' }, input, h('b', {}, t(`${names}.${value}`)), h('span', {}, t(`${names}.${value}.tip`)));
    });
    return h('fieldset', { 'data-field': field }, h('legend', {}, t(`field.${field}`)), ...options);
  }

  // Another trunk has other heads. One that was trained on the Heads page shows while it is chosen.
  function models() {
    const fieldset = group('model', 'model', (value) => {
      knobs.set('model', value);
      knobs.set('drafter', headsOf[value]);
    });
    const own = h('p', { class: 'own-model', hidden: true }, t('model.own'));
    inputs.own = own;
    fieldset.append(own);
    return fieldset;
  }

  function number(field) {
    const { low, high, step } = bounds[field];
    const input = h('input', { type: 'number', min: low, max: high, step: step < 1 ? 'any' : step, 'data-field': field,
      onchange: () => knobs.set(field, input.value === '' ? null : Number(input.value)) });
    inputs[field] = input;
    return h('label', { class: 'number', title: t(`field.${field}.tip`) }, h('span', {}, t(`field.${field}`)), input);
  }

  function raw() {
    const input = h('input', { type: 'checkbox', 'data-field': 'raw', onchange: () => knobs.set('raw', input.checked) });
    inputs.raw = input;
    return h('label', { class: 'choice' }, input, h('b', {}, t('field.raw')), h('span', {}, t('field.raw.tip')));
  }

  return {
    root: h('div', { class: 'advanced-box' }, button, panel),
    update() {
      for (const field of ['rule', 'drafter']) inputs[field]?.forEach((input) => { input.checked = input.value === knobs.settings[field]; });
      const { model = 'default' } = knobs.settings; // older traces name none
      const none = (drafter) => model === 'default' && knobs.drafters && !knobs.drafters.includes(drafter); // heads that this trunk lacks
      inputs.drafter?.forEach((input) => { input.disabled = Boolean(none(input.value)); });
      inputs.model?.forEach((input) => { input.checked = input.value === model; });
      if (inputs.own) inputs.own.hidden = choices.model.includes(model);
      for (const field of numbers) inputs[field].value = knobs.settings[field] ?? '';
      if (inputs.raw) inputs.raw.checked = knobs.settings.raw;
    },
  };
}
