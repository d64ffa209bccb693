// The race: recorded ones play at once, and one of the visitor's own is measured on request.

import { h, setText } from '../stage/dom.js';
import { createLanes } from './lanes.js';
import { outcomeOf } from './outcome.js';
import { sourceOf } from './source.js';

const TOKENS = 64;

// actions: {race(request), halt()}; memory: {race, live, prompt, ...} is kept when the language changes.
export function createRace(t, { results, config, actions, memory }) {
  const recorded = Object.entries(results).filter(([, result]) => result.kind === 'race');
  const lanes = createLanes(t);
  const below = h('div', { class: 'race-below' });
  const chips = recorded.map(([name, race]) => h('button', {
    type: 'button', class: 'pick', 'data-race': name, onclick: () => open(name, race, false, true),
  }, titleOf(t, name, race)));
  const asked = h('p', { class: 'asked' });
  const form = createForm(t, config, actions, memory);

  function open(name, race, live, play) {
    Object.assign(memory, { name, race, live });
    chips.forEach((chip) => chip.setAttribute('aria-pressed', String(chip.dataset.race === name)));
    setText(asked, `“${race.prompt}”`);
    lanes.load(race, play);
    below.replaceChildren(outcomeOf(t, race), sourceOf(t, race.provenance, live));
  }

  const root = h('section', { class: 'page-part', id: 'race', 'aria-labelledby': 'race-title' },
    h('h3', { id: 'race-title', tabindex: -1 }, t('race.title')), h('p', { class: 'lead' }, t('race.lead')),
    h('div', { class: 'choices', role: 'group', 'aria-label': t('race.recorded') }, ...chips), asked, lanes.root, below, form.root);
  if (memory.race) open(memory.name, memory.race, memory.live, false);
  else if (recorded.length) open(...recorded[0], false, true);
  return {
    root,
    show(update) {
      form.show(update);
      if (update.kind === 'race') open(null, update, true, true);
    },
  };
}

function titleOf(t, name, race) {
  const title = t(`race.of.${name}`);
  return title === `race.of.${name}` ? race.prompt : title;
}

function createForm(t, config, actions, memory) {
  const typed = (memory.typed ??= { prompt: t('form.example'), drafter: config.drafters.includes('mtp') ? 'mtp' : config.drafters[0], length: '4', mode: 'exact' });
  const keep = (name) => (event) => { typed[name] = event.target.value; };
  const pick = (name, options) => h('select', { name, onchange: keep(name) }, ...options.map(([value, text]) => h('option', { value, selected: value === typed[name] }, text)));
  const longest = config.bounds.num_draft_tokens.high;
  const prompt = h('textarea', { name: 'prompt', rows: 2, maxlength: config.max_prompt_characters, oninput: keep('prompt') });
  const go = h('button', { type: 'submit', class: 'decode' }, t('form.go'));
  const stop = h('button', { type: 'button', class: 'quiet', hidden: true, onclick: halt }, t('form.stop'));
  const status = h('p', { class: 'form-status', role: 'status' });
  const error = h('p', { class: 'error', role: 'alert', hidden: true });
  prompt.value = typed.prompt;

  function busy(yes) {
    go.disabled = yes;
    stop.hidden = !yes;
  }

  function submit(event) {
    event.preventDefault();
    error.hidden = true;
    busy(true);
    setText(status, t('form.waiting'));
    const rule = typed.mode === 'exact' ? 'match' : 'ratio';
    const most = Math.min(TOKENS, config.bounds.max_new_tokens.high);
    actions.race({ prompt: typed.prompt, settings: { drafter: typed.drafter, num_draft_tokens: Number(typed.length), rule, max_new_tokens: most } });
  }

  function halt() {
    actions.halt();
    busy(false);
    setText(status, t('form.stopped'));
  }

  return {
    root: h('form', { class: 'race-form', onsubmit: submit }, h('h4', {}, t('form.title')), h('p', { class: 'note' }, t('form.note')),
      h('label', { class: 'wide' }, h('span', {}, t('form.prompt')), prompt),
      h('label', {}, h('span', {}, t('form.drafter')), pick('drafter', config.drafters.map((name) => [name, t(`drafter.${name}`)]))),
      h('label', {}, h('span', {}, t('form.length')), pick('length', Array.from({ length: longest }, (_, at) => [String(at + 1), String(at + 1)]))),
      h('label', {}, h('span', {}, t('form.mode')), pick('mode', [['exact', t('form.exact')], ['loose', t('form.loose')]])),
      h('div', { class: 'form-buttons' }, go, stop), status, error),
    show(update) {
      if (update.asked !== 'race') return;
      if (update.kind === 'waiting') setText(status, update.ahead ? t('form.ahead', { n: update.ahead }) : t('form.waiting'));
      else if (update.kind === 'progress') setText(status, t('form.progress', { plain: update.tokens[0], drafted: update.tokens[1] }));
      else busy(false);
      if (update.kind === 'race') setText(status, t('form.done'));
      if (update.kind === 'problem') {
        error.hidden = false;
        setText(error, update.message);
        setText(status, '');
      }
    },
  };
}
