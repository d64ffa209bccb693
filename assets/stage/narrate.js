// One plain sentence for the moment on the stage, and one for a whole round, read aloud by screen readers.

import { formatMs, formatPair, formatProb } from './format.js';
import { isForeign, judgesByMatch } from './judge.js';
import { quoted } from './token.js';
import { VERDICT } from './time.js';

export function captionAt(t, { view, marks }, state) {
  const n = view.drafts.length;
  const ms = formatMs(view.seconds.verify);
  if (view.kind === 'prefill') return t('caption.prefill', { ms, token: quoted(view.emitted.token) });
  if (!n) return t('caption.plain', { ms, token: view.emitted ? quoted(view.emitted.token) : '' });
  if (state.phase === 0) return t(`caption.propose.${view.drafter}`, { n });
  if (state.phase === 1) return t('caption.pass', { n, ms });
  if (state.phase === 2) {
    const at = Math.min(view.judged - 1, Math.max(0, Math.floor((state.ms - marks.judge - 1) / VERDICT)));
    return verdictSentence(t, view.drafts[at], view.settings);
  }
  const back = n - view.accepted;
  const discarded = view.drafts.filter(({ verdict }) => verdict === 'discarded').length;
  if (state.phase === 3) {
    if (discarded) return t('caption.discarded', { n: discarded });
    return back ? t(back === 1 ? 'caption.rollback.one' : 'caption.rollback', { n: back, unjudged: back - 1 }) : t('caption.keep', { n });
  }
  if (!view.emitted) return t('caption.ended');
  if (!view.emitted.token) return t('caption.redrawn');
  return t(`caption.${view.emitted.kind}${view.accepted ? '' : '.alone'}`, { n, token: quoted(view.emitted.token), instead: back ? quoted(view.drafts[view.accepted].token) : '' });
}

export function verdictSentence(t, draft, settings) {
  const passed = draft.verdict === 'accepted' ? 'yes' : 'no';
  const token = quoted(draft.token);
  if (judgesByMatch(settings.rule, settings.temperature)) return t(`caption.match.${passed}`, { token, trunk: quoted(draft.trunk_token) });
  const [target, gate] = formatPair(draft.target_prob, draft.gate, formatProb);
  return t(`caption.gate.${isForeign(draft, settings) ? 'foreign' : passed}`, { token, target, gate, trunk: quoted(draft.trunk_token) });
}

export function roundSentence(t, { view }) {
  if (view.kind === 'prefill') return t('caption.prefill', { ms: formatMs(view.seconds.verify), token: quoted(view.emitted.token) });
  const said = view.drafts.map(({ token, verdict }) => `${quoted(token)} ${t(`verdict.${verdict}`)}`);
  if (view.emitted?.token) said.push(`${quoted(view.emitted.token)} ${t(`emitted.${view.emitted.kind}`)}`);
  return `${t('round', { n: view.index + 1, round: view.index + 1 })}: ${said.join(', ')}.`;
}
