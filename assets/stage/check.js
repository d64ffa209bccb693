// A Trace from a file, before anything of it is drawn: held against the published schema, and its verdicts against one
// another. Throws an Error that names the place.

import { judgesByMatch } from './judge.js';

export const MOST_BYTES = 20_000_000;
const TYPES = {
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === 'string',
  number: Number.isFinite,
  integer: Number.isInteger,
  boolean: (value) => value === true || value === false,
};

export function checkTrace(trace, schema) {
  checkValue(trace, schema, '', schema.$defs);
  const ungated = judgesByMatch(trace.settings.rule, trace.settings.temperature);
  trace.rounds.forEach(({ drafts, emitted }, i) => {
    const verdicts = drafts.map(({ verdict }) => verdict[0]).join('');
    const order = { recovered: /^a*ru*$/, bonus: /^a*$/ }[emitted?.kind] ?? /^a+d*$/;
    demand(order.test(verdicts), `rounds[${i}].emitted`);
    demand(drafts.every(({ gate }) => (gate === null) === ungated), `rounds[${i}].drafts.gate`);
  });
  demand(trace.prefill || trace.rounds.length, 'rounds'); // a run of no pass shows nothing
  return trace;
}

// The part of JSON Schema that the Trace's uses; its `anyOf` is always something or null.
function checkValue(value, rule, place, defs) {
  if (rule.$ref) return checkValue(value, defs[rule.$ref.split('/').at(-1)], place, defs);
  if (rule.anyOf) return value === null || checkValue(value, rule.anyOf[0], place, defs);
  demand(!rule.type || TYPES[rule.type](value), place);
  demand((rule.enum ?? [rule.const ?? value]).includes(value), place);
  // Comparisons with a bound that is not there are false.
  demand(!(value < rule.minimum || value > rule.maximum || value <= rule.exclusiveMinimum || value >= rule.exclusiveMaximum), place);
  demand(!(value?.length > (rule.maxLength ?? rule.maxItems)) && !(rule.pattern && !RegExp(rule.pattern).test(value)), place);
  value?.forEach?.((item, i) => checkValue(item, rule.items, `${place}[${i}]`, defs));
  if (rule.type !== 'object') return true;
  for (const name of new Set([...rule.required, ...Object.keys(value)])) {
    const inner = place ? `${place}.${name}` : name;
    demand(Object.hasOwn(value, name) && Object.hasOwn(rule.properties, name), inner);
    checkValue(value[name], rule.properties[name], inner, defs);
  }
  return true;
}

function demand(holds, place) {
  if (!holds) throw new Error(place || 'trace');
}
