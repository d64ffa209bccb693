// Made-up Traces for tests and for looking at the stage: plausible in shape, from no model. Judged by the stage's rules.

import { gateOf, judgeAgain } from '../../assets/stage/judge.js';

export const SETTINGS = {
  num_draft_tokens: 4, rule: 'ratio', threshold: 0.5, epsilon: 0.09, delta: 0.3, temperature: 0, top_k: 0, top_p: 1, seed: 0,
  max_new_tokens: 64, drafter: 'mtp', raw: false,
};

const RAIN = 'Rain| forms| when| warm| air| rises| and| cools| down|.| As| it| cools|,| the| water| va|por| in| the| air| turns| into| tiny| '
  + 'drop|lets| that| gather| into| clouds|.| When| the| drop|lets| grow| too| heavy|,| they| fall| to| the| ground| as| rain|.| And| then| the| sun| '
  + 'warms| the| puddles|,| the| water| rises| again|,| and| the| whole| journey| starts| once| more|.|<|im_end|>';
export const RAIN_TOKENS = RAIN.replace('<|im_end|>', '<\u0001im_end\u0001>').split('|').map((text) => text.replaceAll('\u0001', '|'));
const OTHERS = [' the', ' a', ' is', ' very', ' small', ',', ' water', ' up', ' of', ' sky'];

export function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

// A piece is text, or an array of bytes that are no character alone.
function tokenOf(piece) {
  if (typeof piece === 'string') return { id: idOf(piece), text: piece };
  return { id: idOf(hex(piece)), text: '', bytes: hex(piece) };
}

function idOf(text) {
  let id = 7;
  for (const character of text) id = (id * 31 + character.codePointAt(0)) % 49152;
  return id;
}

export function makeTrace({ prompt = 'Explain to a child how rain forms.', pieces = RAIN_TOKENS, seed = 3, skill = 0.78, ...changes } = {}) {
  const settings = { ...SETTINGS, ...changes };
  const next = random(seed + 11);
  const text = pieces.slice(0, settings.max_new_tokens);
  const length = 31;
  const trace = {
    schema: 1,
    model: { trunk: 'made-up', heads: 'made-up', family: settings.drafter, dtype: 'float32', device: 'cpu', revision: 'none' },
    settings, prompt: { text: prompt, tokens: [{ id: 1, text: prompt }] },
    prefill: { length, token: tokenOf(text[0]), prob: 0.7, raw_prob: 0.7, top_target: [], seconds: 0.058 },
    rounds: [], output: { text: '', tokens: [tokenOf(text[0])] }, finish_reason: null,
    seconds: { load: 0, prefill: 0.058, draft: 0, verify: 0, total: 0.058 }, host: 'nowhere', version: '0',
  };
  let at = 1;
  while (at < text.length) {
    const asked = settings.drafter === 'none' ? 0 : Math.min(settings.num_draft_tokens, text.length - at - 1);
    const round = { index: trace.rounds.length, start: length + at, drafts: [], after: null, emitted: null,
      cache: { before: length + at - 1, peak: length + at + asked, after: 0 }, seconds: { draft: asked * (0.0021 + next() * 0.001), verify: 0.037 + next() * 0.012 } };
    for (let i = 0; i < asked; i += 1) {
      const right = next() < skill * 0.93 ** i;
      round.drafts.push(draftOf(i, right ? text[at + i] : OTHERS[Math.floor(next() * OTHERS.length)], text[at + i], right, next, settings, text.length === at + i + 1));
    }
    const last = tokenOf(text[at + asked] ?? '');
    round.after = { trunk_token: last, target_prob: 0.3 + next() * 0.6, raw_target_prob: 0.5, entropy: 1, top_target: [] };
    const judgement = judgeAgain(round, settings);
    round.drafts.forEach((draft, i) => { draft.verdict = judgement.verdicts[i]; draft.bias_tv = /ed$/.test(draft.verdict) && draft.verdict !== 'unjudged' ? next() * 0.2 : null; });
    const spot = round.drafts[judgement.accepted] ?? round.after;
    if (judgement.kind) round.emitted = { kind: judgement.kind, token: spot.trunk_token, prob: round.drafts[judgement.accepted] ? 0.4 + next() * 0.4 : round.after.target_prob };
    const said = [...round.drafts.slice(0, judgement.accepted).map(({ token }) => token), ...(round.emitted ? [round.emitted.token] : [])];
    round.cache.after = round.cache.before + said.length;
    trace.rounds.push(round);
    trace.output.tokens.push(...said);
    trace.seconds.draft += round.seconds.draft;
    trace.seconds.verify += round.seconds.verify;
    at += said.length;
  }
  trace.seconds.total = trace.seconds.prefill + trace.seconds.draft + trace.seconds.verify;
  trace.output.text = trace.output.tokens.map(({ text: piece }) => piece).join('');
  trace.finish_reason = 'length';
  return trace;
}

function draftOf(i, piece, truth, right, next, settings, ends) {
  const draftProb = settings.drafter === 'lookup' ? 1 : 0.15 + 0.8 * next() * (right ? 1 : 0.6);
  const targetProb = right ? Math.min(0.98, draftProb * (0.65 + next() * 0.6)) : draftProb * next() * 0.7;
  const draft = {
    position: i + 1, offset: i + 2, token: tokenOf(piece), draft_prob: draftProb, target_prob: targetProb, raw_draft_prob: draftProb, raw_target_prob: targetProb,
    ratio: targetProb / draftProb, u: next(), gate: null, entropy: 0.3 + next() * 2, verdict: 'unjudged', bias_tv: null, trunk_token: tokenOf(truth),
    top_draft: [], top_target: [],
  };
  if (ends && right) draft.ends = true;
  draft.gate = gateOf(draft, settings);
  return draft;
}
