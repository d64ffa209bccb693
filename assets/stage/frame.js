// frame(view, marks, ms): everything that is visible at one moment, as numbers from 0 to 1. Pure, so that scrubbing,
// stepping and playing show exactly the same things.

import { clamp } from './dom.js';
import { BACK, CHIP, CHIP_APART, DIM, FALL, FLY, NOTCH, RISE, SHAKE, SWEEP, VERDICT, phaseAt } from './time.js';

export function frame(view, marks, ms) {
  const sweep = part(ms, marks.pass, SWEEP);
  const rise = easeOut(part(ms, marks.pass + 90, SWEEP - 90));
  const drop = easeOut(part(ms, marks.notch, NOTCH));
  const rolled = part(ms, marks.rollback, BACK);
  return {
    ms,
    phase: phaseAt(view, marks, ms),
    sweep,
    guessed: part(ms, 0, marks.pass),
    rise,
    drop,
    columns: view.drafts.map((draft, i) => columnFrame(draft, i, view, marks, ms, { rise, drop })),
    emitted: {
      out: easeOut(part(ms, marks.emit, RISE)),
      leave: easeInOut(part(ms, marks.land, FLY)),
    },
    cache: cacheFrame(view.cache, sweep, easeOut(rolled)),
    counted: ms >= marks.end,
  };
}

function columnFrame(draft, i, view, marks, ms, { rise, drop }) {
  const judgedAt = marks.judge + VERDICT * Math.min(i, view.judged);
  const judged = draft.verdict === 'accepted' || draft.verdict === 'rejected';
  const verdict = judged ? part(ms, judgedAt, VERDICT * 0.7) : part(ms, marks.decided, DIM);
  const leaving = { accepted: FLY, rejected: FALL, unjudged: BACK, discarded: BACK }[draft.verdict];
  return {
    out: easeOut(part(ms, CHIP_APART * i, CHIP)),
    rise,
    drop,
    judging: judged && ms > judgedAt && ms <= judgedAt + VERDICT,
    verdict: easeOut(verdict),
    shake: draft.verdict === 'rejected' ? wobble(part(ms, judgedAt + VERDICT * 0.4, SHAKE)) : 0,
    leave: draft.verdict === 'rejected' ? easeIn(part(ms, marks.rollback, leaving)) : easeInOut(part(ms, marks.rollback, leaving)),
  };
}

// The cache's pointer, in tokens: it grows with the pass and goes back with the rollback.
function cacheFrame({ before, peak, after }, sweep, rolled) {
  return { filled: before + (peak - before) * sweep, pointer: rolled > 0 ? peak + (after - peak) * rolled : before + (peak - before) * sweep, rolled };
}

function part(ms, from, length) {
  return clamp((ms - from) / length, 0, 1);
}

function easeOut(x) {
  return 1 - (1 - x) ** 3;
}

function easeIn(x) {
  return x * x;
}

function easeInOut(x) {
  return x < 0.5 ? 4 * x ** 3 : 1 - (2 - 2 * x) ** 3 / 2;
}

function wobble(x) {
  return Math.sin(x * Math.PI * 4) * (1 - x);
}
