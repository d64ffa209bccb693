// What the stage draws of one trunk pass, read from the Trace: the prefill first, then each round.

import { judgeAgain, gateOf } from './judge.js';
import { decodeToken } from './utf8.js';

// `ends`: the token emitted here ended the text.
export function prefillView(trace, ends) {
  const { token, prob, seconds, length } = trace.prefill;
  return withPieces({
    kind: 'prefill', index: -1, settings: trace.settings, drafter: trace.settings.drafter, drafts: [], whatIf: false,
    after: { trunk_token: token, top_target: trace.prefill.top_target }, emitted: { kind: 'first', token, prob },
    cache: { before: 0, peak: length, after: length }, seconds: { draft: 0, verify: seconds },
  }, [], ends);
}

// `pending`: bytes of a character that the text before this round left unfinished.
export function roundView(round, settings, pending, ends) {
  return withPieces({
    kind: 'round', index: round.index, settings, drafter: drafterOf(round, settings), drafts: round.drafts, after: round.after, whatIf: false,
    emitted: round.emitted, cache: round.cache, seconds: round.seconds,
  }, pending, ends);
}

// Whose name a round bears: a drafter that copies or drafts does one of the two in each.
function drafterOf(round, settings) {
  if (round.copied) return 'lookup';
  return settings.drafter === 'hybrid' ? 'adaptive' : settings.drafter;
}

// The same round under other settings, from the stored numbers alone. A token that the engine would draw anew is null.
export function whatIfView(round, settings, pending) {
  const judgement = judgeAgain(round, settings);
  const drafts = judgement.verdicts.map((verdict, i) => ({ ...round.drafts[i], verdict, gate: gateOf(round.drafts[i], settings) }));
  const at = round.drafts[judgement.accepted] ?? round.after;
  const prob = judgement.token && at.top_target.find(({ token }) => token.id === judgement.token.id)?.prob;
  return withPieces({
    kind: 'round', index: round.index, settings, drafter: drafterOf(round, settings), drafts, after: round.drafts[drafts.length] ?? round.after, whatIf: true,
    emitted: judgement.kind && { kind: judgement.kind, token: judgement.token, prob: prob ?? null },
    cache: { ...round.cache, after: round.cache.before + judgement.accepted + (judgement.kind ? 1 : 0) },
    seconds: round.seconds,
  }, pending);
}

// Adds the counts that timing needs, and each token's text as it continues the text before it.
function withPieces(view, pending, ends = false) {
  const accepted = view.drafts.filter(({ verdict }) => verdict === 'accepted').length;
  const rejected = view.drafts.some(({ verdict }) => verdict === 'rejected');
  let held = pending;
  let kept = pending;
  const pieces = view.drafts.map((draft, i) => {
    const piece = pieceOf(draft.token, held, draft.ends);
    held = piece.pending;
    if (i < accepted) kept = held;
    return piece;
  });
  const emittedPiece = view.emitted?.token ? pieceOf(view.emitted.token, kept, ends) : null;
  return { ...view, accepted, judged: accepted + rejected, pieces, emittedPiece, pending, left: emittedPiece?.pending ?? kept };
}

// An end token is a sign, and no part of the text.
function pieceOf(token, held, ends) {
  return ends ? { text: '', pending: held, sign: token.text } : decodeToken(token, held);
}
