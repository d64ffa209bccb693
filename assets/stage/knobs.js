// What the visitor has set: the prompt and the settings of the next run. `Exact` follows the temperature to its rule.

import { judgesByMatch } from './judge.js';

const LOSSLESS = ['match', 'speculative'];
export const JUDGING = ['rule', 'threshold', 'epsilon', 'delta', 'num_draft_tokens'];
const LAWS = ['temperature', 'top_k', 'top_p', 'drafter'];

export function createKnobs(defaults) {
  const knobs = { prompt: '', settings: { ...defaults } };
  const listeners = [];
  let chosen = false; // a rule picked by name in Advanced stays when the temperature changes

  knobs.onChange = (listener) => listeners.push(listener);
  const tell = (source) => listeners.forEach((listener) => listener(source));

  // Takes over a run's settings as they are.
  knobs.load = (prompt, settings) => {
    knobs.prompt = prompt;
    knobs.settings = { ...settings };
    chosen = false;
    tell('load');
  };
  knobs.set = (field, value) => {
    knobs.settings[field] = value;
    if (field === 'rule') chosen = true;
    if (field === 'temperature' && !chosen && isExact(knobs.settings)) knobs.settings.rule = exactRule(value);
    tell(field);
  };
  knobs.setExact = (exact) => {
    chosen = false;
    knobs.settings.rule = exact ? exactRule(knobs.settings.temperature) : 'ratio';
    tell('rule');
  };
  return knobs;
}

export function isExact(settings) {
  return LOSSLESS.includes(settings.rule);
}

function exactRule(temperature) {
  return temperature === 0 ? 'match' : 'speculative';
}

// Whether the knobs ask a what-if of a stored round: other judging, under the same laws.
export function asksWhatIf(knobs, recorded) {
  return LAWS.every((field) => knobs[field] === recorded[field]) && JUDGING.some((field) => knobs[field] !== recorded[field] && matters(field, knobs, recorded));
}

// Where the knobs differ from the run on the stage, in any setting that a new run would follow.
export function differs(knobs, recorded) {
  return Object.keys(recorded).some((field) => knobs[field] !== recorded[field] && matters(field, knobs, recorded));
}

function matters(field, knobs, recorded) {
  const rules = [knobs.rule, recorded.rule];
  if (field === 'threshold') return rules.includes('ratio');
  if (field === 'epsilon' || field === 'delta') return rules.includes('typical');
  if (field === 'rule') return rules.some((rule) => !judgesByMatch(rule, knobs.temperature));
  return true;
}
