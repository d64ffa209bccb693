// One run: its passes laid end to end on a time line. Appending costs the new rounds only.

import { prefillView, roundView, whatIfView } from './view.js';
import { beatsOf, passMarks } from './time.js';

export function createRun(key, trace) {
  const run = { key, trace, passes: [], length: 0, slots: 0, longestSeconds: 0 };
  extendRun(run, trace);
  return run;
}

// Takes a longer version of the same Trace and returns the passes that are new.
export function extendRun(run, trace) {
  run.trace = trace;
  run.slots = trace.settings.drafter === 'none' ? 0 : trace.settings.num_draft_tokens;
  const known = run.passes.length;
  const last = trace.finish_reason === 'stop' ? trace.rounds.length - 1 : null;
  if (known === 0 && trace.prefill) append(run, prefillView(trace, last === -1), null);
  const offset = run.passes[0]?.view.kind === 'prefill' ? 1 : 0;
  for (let i = run.passes.length - offset; i < trace.rounds.length; i += 1) {
    const round = trace.rounds[i];
    append(run, roundView(round, trace.settings, run.passes.at(-1)?.view.left ?? [], i === last), round);
  }
  return run.passes.slice(known);
}

function append(run, view, round) {
  const before = run.passes.at(-1)?.totals ?? { emitted: 0, rounds: 0 };
  const marks = passMarks(view);
  const isRound = view.kind === 'round';
  run.passes.push({
    at: run.passes.length, view, marks, round, start: run.length,
    totals: {
      emitted: before.emitted + (isRound ? view.accepted + (view.emitted ? 1 : 0) : 0),
      rounds: before.rounds + (isRound ? 1 : 0),
    },
  });
  run.length += marks.rest;
}

// The pass at moment t, and the milliseconds since it began.
export function locate(run, t) {
  let low = 0;
  let high = run.passes.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (run.passes[middle].start <= t) low = middle;
    else high = middle - 1;
  }
  const pass = run.passes[low];
  return { pass, ms: Math.min(t - pass.start, pass.marks.rest) };
}

// The next (or, with direction -1, the last) moment at which a step halts.
export function nextBeat(run, t, direction) {
  const { pass, ms } = locate(run, t);
  const beats = beatsOf(pass.view, pass.marks);
  if (direction > 0) {
    const next = beats.find((beat) => beat > ms + 1);
    if (next !== undefined) return pass.start + next;
    const following = run.passes[pass.at + 1];
    return following ? following.start + beatsOf(following.view, following.marks)[0] : endOf(pass);
  }
  const last = beats.findLast((beat) => beat < ms - 1 && !(ms > pass.marks.end && beat === pass.marks.end));
  if (last !== undefined) return pass.start + last;
  const previous = run.passes[pass.at - 1];
  return previous ? endOf(previous) : pass.start;
}

export function endOf(pass) {
  return pass.start + pass.marks.end;
}

// The moment of `next` at which its text and its step stand where those of `run` stand at t.
export function placeIn(next, run, t) {
  const { pass, ms } = locate(run, t);
  const step = beatsOf(pass.view, pass.marks).findIndex((beat) => beat >= ms);
  const { start, view, marks } = next.passes.findLast(({ round }) => (round?.start ?? 0) <= (pass.round?.start ?? 0)) ?? next.passes[0];
  return start + (beatsOf(view, marks).at(step) ?? marks.end);
}

// The first pass worth showing to a newcomer: one in which some drafts hold and some do not, and so `later` passes on.
export function openingPass(run, later = 0) {
  const telling = (pass) => pass?.view.accepted > 0 && pass.view.judged > pass.view.accepted;
  return run.passes.find((pass) => telling(pass) && telling(run.passes[pass.at + later]))
    ?? run.passes.find(telling) ?? run.passes.find(({ view }) => view.kind === 'round') ?? run.passes[0];
}

export function reJudged(run, pass, settings) {
  const view = whatIfView(pass.round, settings, pass.view.pending);
  return { ...pass, view, marks: passMarks(view) };
}
