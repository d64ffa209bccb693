// Counts of a Trace, with the definitions of `mtviz.trace.counts`: 0/0 is null, discarded drafts are counted nowhere.

export function counts(trace) {
  const longest = trace.rounds.reduce((most, round) => Math.max(most, round.drafts.length), 0);
  const [drafted, judged, accepted] = Array.from({ length: 3 }, () => Array(longest).fill(0));
  const biases = [];
  let emitted = 0;
  for (const round of trace.rounds) {
    emitted += round.emitted !== null;
    round.drafts.forEach(({ verdict, bias_tv: bias }, i) => {
      drafted[i] += verdict !== 'discarded';
      judged[i] += verdict === 'accepted' || verdict === 'rejected';
      accepted[i] += verdict === 'accepted';
      if (bias !== null) biases.push(bias);
    });
  }
  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  emitted += total(accepted);
  const newTokens = trace.output.tokens.length;
  return {
    new_tokens: newTokens,
    passes: trace.rounds.length + (trace.prefill !== null),
    rounds: trace.rounds.length,
    drafted: total(drafted),
    judged: total(judged),
    accepted: total(accepted),
    acceptance_rate: share(total(accepted), total(drafted)),
    mean_acceptance_length: share(emitted, trace.rounds.length),
    tokens_per_second: share(newTokens, trace.seconds.total),
    mean_bias_tv: share(exactSum(biases), biases.length),
    conditional_acceptance: accepted.map((number, i) => share(number, judged[i])),
    survival: accepted.map((number, i) => share(number, drafted[i])),
  };
}

export function share(part, whole) {
  return whole ? part / whole : null;
}

// Shewchuk's sum without rounding error, which Python's `math.fsum` is: equal to the last bit.
function exactSum(numbers) {
  const partials = [];
  for (let x of numbers) {
    let kept = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) partials[kept++] = low;
      x = high;
    }
    partials.length = kept;
    partials.push(x);
  }
  // The partials do not overlap: adding from the largest down, the first inexact step decides the rounding.
  let sum = 0;
  for (let i = partials.length - 1; i >= 0; i -= 1) {
    const before = sum;
    sum += partials[i];
    const lost = partials[i] - (sum - before);
    if (lost === 0) continue;
    const tie = i > 0 && ((lost < 0 && partials[i - 1] < 0) || (lost > 0 && partials[i - 1] > 0));
    const corrected = sum + lost * 2;
    if (tie && corrected - sum === lost * 2) sum = corrected;
    break;
  }
  return sum;
}
