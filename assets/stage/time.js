// When things happen in one pass, in milliseconds at speed 1. Everything that moves is a function of these marks.

export const CHIP = 220;
export const CHIP_APART = 90;
export const SWEEP = 450;
export const NOTCH = 200;
export const VERDICT = 240;
export const SHAKE = 160;
export const DIM = 120;
export const FLY = 320;
export const FALL = 260;
export const BACK = 240;
export const RISE = 280;
const HOLD = 620;

// One recorded run takes another's place: the text and the film strip change over.
export const MORPH = { duration: 180, easing: 'ease-out' };

export function passMarks({ drafts, judged }) {
  const n = drafts.length;
  const pass = n ? Math.max(700, CHIP_APART * (n - 1) + CHIP + 60) : 200;
  const notch = pass + 600;
  const judge = n ? pass + 850 : pass + SWEEP;
  const decided = judge + VERDICT * judged;
  const rollback = decided + (n ? 100 : 0);
  const emit = decided + (n ? 600 : 0);
  const land = emit + RISE + 100;
  const end = land + FLY;
  return { pass, notch, judge, decided, rollback, emit, land, end, rest: end + HOLD };
}

// Moments at which a step halts, one for each thing that happens: propose, one pass, judge, roll back, emit.
export function beatsOf(view, marks) {
  if (!view.drafts.length) return [marks.judge, marks.end];
  return [marks.pass, marks.judge, marks.rollback, marks.emit, marks.end];
}

export const PHASES = ['propose', 'pass', 'judge', 'rollback', 'emit'];

// Index into PHASES. A moment that ends one phase belongs to it, so that a halted step shows its own name.
export function phaseAt(view, marks, ms) {
  if (ms <= marks.pass) return view.drafts.length ? 0 : 1;
  if (ms <= marks.judge) return 1;
  if (!view.drafts.length) return 4;
  if (ms <= marks.rollback) return 2;
  return ms <= marks.emit ? 3 : 4;
}
