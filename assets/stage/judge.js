// The acceptance rules and `judge_again` of the engine, in the same order of float64 operations, so that verdicts agree.

export function judgesByMatch(rule, temperature) {
  return rule === 'match' || (rule === 'speculative' && temperature === 0);
}

export function gateOf(draft, settings) {
  if (judgesByMatch(settings.rule, settings.temperature)) return null;
  if (settings.rule === 'ratio') return draft.draft_prob * settings.threshold;
  if (settings.rule === 'speculative') return draft.draft_prob * draft.u;
  return Math.min(settings.epsilon, settings.delta * Math.exp(-draft.entropy));
}

export function accepts(draft, settings) {
  const { draft_prob: draftProb, target_prob: targetProb } = draft;
  if (judgesByMatch(settings.rule, settings.temperature)) return draft.token.id === draft.trunk_token.id;
  if (settings.rule === 'typical') return targetProb >= gateOf(draft, settings);
  if (draftProb <= 0) return targetProb > 0;
  if (settings.rule === 'ratio') return targetProb >= draftProb * settings.threshold;
  return draft.u < Math.min(1, targetProb / draftProb);
}

// Accepted, though the trunk alone would have written something else: what no exact rule allows. Known at temperature 0
// only: above it the trunk's own draw is one of many.
export function isForeign({ verdict, token, trunk_token: own }, { temperature }) {
  return verdict === 'accepted' && temperature === 0 && token.id !== own.id;
}

// A stored round under other settings: {verdicts, accepted, kind, token}; token is null where it would be drawn again.
export function judgeAgain(round, settings) {
  const drafts = round.drafts.slice(0, settings.num_draft_tokens);
  let ended = false;
  let rejected = false;
  const verdicts = drafts.map((draft) => {
    if (ended || rejected) return ended ? 'discarded' : 'unjudged';
    const accepted = accepts(draft, settings);
    rejected = !accepted;
    ended = accepted && draft.ends === true;
    return accepted ? 'accepted' : 'rejected';
  });
  const accepted = verdicts.filter((verdict) => verdict === 'accepted').length;
  if (ended) return { verdicts, accepted, kind: null, token: null };
  if (rejected) {
    const stored = settings.rule === 'match' || settings.temperature === 0;
    return { verdicts, accepted, kind: 'recovered', token: stored ? drafts[accepted].trunk_token : null };
  }
  const later = round.drafts[drafts.length] ?? round.after;
  return { verdicts, accepted, kind: 'bonus', token: later.trunk_token };
}
