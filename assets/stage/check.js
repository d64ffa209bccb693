// A Trace from a file, checked before anything of it is drawn: its shape, every number finite and in bounds (as in the
// published schema), and verdicts that can follow from one another. Throws an Error that names the place.

import { judgesByMatch } from './judge.js';

export const MOST_BYTES = 20_000_000;
const MOST = 2 ** 31 - 1;

const holds = (test) => (value, place) => {
  if (!test(value)) throw new Error(place);
};
const number = (low, high) => holds((value) => typeof value === 'number' && value >= low && value <= high);
const whole = (low, high) => holds((value) => Number.isInteger(value) && value >= low && value <= high);
const text = (most) => holds((value) => typeof value === 'string' && value.length <= most);
const oneOf = (...values) => holds((value) => values.includes(value));
const orNull = (check) => (value, place) => value === null || check(value, place);
const list = (check, most) => (value, place) => {
  holds((items) => Array.isArray(items) && items.length <= most)(value, place);
  value.forEach((item, i) => check(item, `${place}[${i}]`));
};
// A name that ends in `?` may be missing.
const record = (fields) => (value, place) => {
  holds((given) => typeof given === 'object' && given !== null && !Array.isArray(given))(value, place || 'trace');
  for (const [field, check] of Object.entries(fields)) {
    const name = field.replace('?', '');
    if (name === field || Object.hasOwn(value, name)) check(value[name], place ? `${place}.${name}` : name);
  }
};

const PROB = number(0, 1.000001);
const SECONDS = number(0, 1e9);
const COUNT = whole(0, MOST);
const FLAG = oneOf(true, false);
const TOKEN = record({ id: COUNT, text: text(4000), 'bytes?': holds((value) => /^([0-9a-f]{2}){1,4000}$/.test(value)) });
const TEXT = record({ text: text(400_000), tokens: list(TOKEN, 20_000) });
const TOP = list(record({ token: TOKEN, prob: PROB, raw_prob: PROB }), 8);
const DRAFT = record({
  position: whole(1, 8), offset: whole(2, 9), token: TOKEN, 'ends?': FLAG, draft_prob: PROB, target_prob: PROB, raw_draft_prob: PROB,
  raw_target_prob: PROB, ratio: orNull(number(0, Number.MAX_VALUE)), u: PROB, gate: orNull(PROB), entropy: number(0, 100),
  verdict: oneOf('accepted', 'rejected', 'unjudged', 'discarded'), bias_tv: orNull(PROB), trunk_token: TOKEN, top_draft: TOP, top_target: TOP,
  'residual?': list(record({ token: TOKEN, prob: PROB }), 8),
});
const ROUND = record({
  index: COUNT, start: COUNT, drafts: list(DRAFT, 8),
  after: record({ trunk_token: TOKEN, target_prob: PROB, raw_target_prob: PROB, entropy: number(0, 100), top_target: TOP }),
  emitted: orNull(record({ kind: oneOf('recovered', 'bonus'), token: TOKEN, prob: PROB })),
  cache: record({ before: COUNT, peak: COUNT, after: COUNT }), seconds: record({ draft: SECONDS, verify: SECONDS }),
});
const TRACE = record({
  schema: oneOf(1),
  model: record({ trunk: text(400), heads: orNull(text(400)), family: text(40), dtype: text(40), device: text(100), revision: text(100) }),
  settings: record({
    num_draft_tokens: whole(0, 8), rule: oneOf('ratio', 'speculative', 'match', 'typical'), threshold: number(0, 1), epsilon: number(0, 1),
    delta: number(0, 1), temperature: number(0, 2), top_k: whole(0, 1000), top_p: number(0, 1), seed: whole(0, 2 ** 32 - 1),
    max_new_tokens: whole(1, 1024), drafter: text(40), raw: FLAG,
  }),
  prompt: TEXT,
  prefill: orNull(record({ length: COUNT, token: TOKEN, prob: PROB, raw_prob: PROB, top_target: TOP, seconds: SECONDS })),
  rounds: list(ROUND, 2000), output: TEXT, finish_reason: oneOf('stop', 'length', 'context', 'cancelled', 'error', null), 'message?': text(2000),
  seconds: record({ load: SECONDS, prefill: SECONDS, draft: SECONDS, verify: SECONDS, total: SECONDS }), host: text(400), version: text(100),
});

export function checkTrace(trace) {
  TRACE(trace, '');
  const ungated = judgesByMatch(trace.settings.rule, trace.settings.temperature);
  trace.rounds.forEach(({ drafts, emitted }, i) => {
    const verdicts = drafts.map(({ verdict }) => verdict[0]).join('');
    holds((kind) => (verdicts.includes('r') ? /^a*ru*$/.test(verdicts) && kind === 'recovered' : kind ? /^a*$/.test(verdicts) && kind === 'bonus' : /^a+d*$/.test(verdicts)))(emitted?.kind, `rounds[${i}].emitted`);
    holds(() => drafts.every(({ gate }) => (gate === null) === ungated))(null, `rounds[${i}].drafts.gate`);
  });
  holds((rounds) => trace.prefill || rounds.length)(trace.rounds, 'rounds'); // a run of no pass shows nothing
  return trace;
}
