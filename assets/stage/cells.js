// The cells of an atlas (mtviz/atlas.py): which recorded run the knobs ask for, and that run as a Trace.

import { decodeToken } from './utf8.js';
import { gateOf, judgesByMatch } from './judge.js';

const MOVABLE = ['rule', 'threshold', 'num_draft_tokens', 'epsilon', 'delta'];

// {row, column, n, of}: its threshold is the recorded one nearest to what is asked; column null is the exact rule.
// Null where prompt or settings are not those of the atlas.
export function cellOf(atlas, prompt, settings) {
  if (prompt !== atlas.prompt.text || Object.keys(settings).some((field) => !MOVABLE.includes(field) && settings[field] !== atlas.settings[field])) return null;
  const row = atlas.lengths.indexOf(settings.num_draft_tokens);
  if (row < 0) return null;
  if (judgesByMatch(settings.rule, settings.temperature)) return { row, column: null, n: row + 1, of: atlas.lengths.length };
  if (settings.rule !== 'ratio' || !Number.isFinite(settings.threshold)) return null;
  const distances = atlas.thresholds.map((threshold) => Math.abs(threshold - settings.threshold));
  const column = distances.indexOf(Math.min(...distances));
  return { row, column, n: row * distances.length + column + 1, of: atlas.lengths.length * distances.length };
}

export function cellTrace(atlas, { row, column }) {
  const run = atlas.runs[column === null ? atlas.exact[row] : atlas.ratio[row][column]];
  const settings = { ...atlas.settings, num_draft_tokens: atlas.lengths[row], ...(column === null ? { rule: 'match' } : { rule: 'ratio', threshold: atlas.thresholds[column] }) };
  const prefill = { ...atlas.prefill, token: tokenAt(atlas, atlas.prefill.token), top_target: [], seconds: run.seconds.prefill };
  const tokens = [prefill.token];
  const [position, later, die] = [run.positions, run.afters, run.uniforms].map(walk);
  const rounds = run.drafted.map((drafted, index) => {
    const start = prefill.length + tokens.length;
    const [at, from] = [later(), die()];
    const accepted = run.accepted[index];
    const drafts = Array.from({ length: drafted }, (_, i) => draftAt(atlas, position(), i, atlas.uniforms[from + i], settings));
    const ended = accepted > 0 && drafts[accepted - 1].ends === true;
    drafts.forEach((draft, i) => {
      draft.verdict = i < accepted ? 'accepted' : ended ? 'discarded' : i === accepted ? 'rejected' : 'unjudged';
      if (/^(acc|rej)/.test(draft.verdict)) draft.bias_tv = i < accepted && draft.token.id !== draft.trunk_token.id ? 1 : 0;
    });
    const after = placeAt(atlas, atlas.afters.trunk[at], atlas.afters.prob[at]);
    const source = accepted < drafted ? drafts[accepted] : after;
    const emitted = ended ? null : { kind: accepted < drafted ? 'recovered' : 'bonus', token: source.trunk_token, prob: source.top_target[0].prob };
    const said = [...drafts.slice(0, accepted).map(({ token }) => token), ...(emitted ? [emitted.token] : [])];
    tokens.push(...said);
    return {
      index, start, drafts,
      after: { ...after, target_prob: atlas.afters.prob[at], raw_target_prob: atlas.afters.prob[at], entropy: atlas.afters.entropy[at] },
      emitted, cache: { before: start - 1, peak: start + drafted, after: start + said.length - 1 },
      seconds: { draft: run.draft_ms[index] / 1000, verify: run.verify_ms[index] / 1000 },
      ...(drafted && settings.drafter === 'lookup' ? { copied: true } : {}),
    };
  });
  return {
    schema: atlas.schema, model: atlas.model, settings, prompt: atlas.prompt, prefill, rounds, output: { text: textOfTokens(tokens, atlas.ends), tokens },
    finish_reason: run.finish_reason, seconds: { load: 0, ...run.seconds }, host: atlas.host, version: atlas.version,
  };
}

function draftAt(atlas, at, i, u, settings) {
  const of = (name) => atlas.positions[name][at];
  const [draft_prob, target_prob] = [of('draft_prob'), of('target_prob')];
  const draft = {
    position: i + 1, offset: i + 2, token: tokenAt(atlas, of('token')), draft_prob, target_prob, raw_draft_prob: draft_prob, raw_target_prob: target_prob,
    ratio: draft_prob > 0 ? target_prob / draft_prob : null, u, entropy: of('entropy'), verdict: 'unjudged', bias_tv: null, top_draft: [], ...placeAt(atlas, of('trunk'), of('trunk_prob')),
  };
  if (atlas.ends.includes(draft.token.id)) draft.ends = true;
  return { ...draft, gate: gateOf(draft, settings) };
}

// Of the trunk's law an atlas keeps its first choice.
function placeAt(atlas, trunk, prob) {
  const token = tokenAt(atlas, trunk);
  return { trunk_token: token, top_target: [{ token, prob, raw_prob: prob }] };
}

function tokenAt({ tokens }, at) {
  const token = { id: tokens.id[at], text: tokens.text[at] };
  return at in tokens.bytes ? { ...token, bytes: tokens.bytes[at] } : token;
}

function textOfTokens(tokens, ends) {
  let pending = [];
  return tokens.filter(({ id }) => !ends.includes(id)).map((token) => {
    const piece = decodeToken(token, pending);
    ({ pending } = piece);
    return piece.text;
  }).join('');
}

// Indices from steps, each counted from the index that follows the one before.
function walk(steps) {
  let [at, index] = [0, -1];
  return () => (index += steps[at++] + 1);
}
