// One moment in, one picture out: the frame is pure, its parts come in order, and stepping lands where it says.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beatsOf, phaseAt } from '../../assets/stage/time.js';
import { createRun, endOf, extendRun, locate, nextBeat, openingPass, reJudged } from '../../assets/stage/run.js';
import { frame } from '../../assets/stage/frame.js';
import { asksWhatIf, createKnobs, differs } from '../../assets/stage/knobs.js';
import { makeTrace, SETTINGS } from './traces.js';

const run = createRun('a', makeTrace());
const pass = openingPass(run);

test('all of the trunk\'s bars rise together, after the last chip has left the heads', () => {
  for (let ms = 0; ms < pass.marks.rest; ms += 20) {
    const state = frame(pass.view, pass.marks, ms);
    assert.equal(new Set(state.columns.map(({ rise }) => rise)).size, 1);
    if (state.columns[0].rise > 0) assert.ok(state.columns.every(({ out }) => out === 1));
  }
});

test('propose, one pass, judge, roll back, emit: each begins when the one before is over', () => {
  const at = (ms) => frame(pass.view, pass.marks, ms);
  assert.equal(at(pass.marks.pass).sweep, 0);
  assert.equal(at(pass.marks.judge).drop, 1);
  assert.ok(at(pass.marks.judge).columns.every(({ verdict }) => verdict === 0));
  assert.ok(at(pass.marks.rollback).columns.every(({ leave }) => leave === 0));
  assert.ok(at(pass.marks.emit).columns.every(({ leave }) => leave === 1));
  assert.equal(at(pass.marks.emit).emitted.out, 0);
  assert.equal(at(pass.marks.end).emitted.leave, 1);
  assert.equal(at(pass.marks.end).cache.pointer, pass.view.cache.after);
});

test('verdicts fall left to right, those after the first rejection together', () => {
  const first = (i) => { let ms = 0; while (frame(pass.view, pass.marks, ms).columns[i].verdict === 0) ms += 1; return ms; };
  const moments = pass.view.drafts.map((_, i) => first(i));
  moments.slice(1, pass.view.judged).forEach((moment, i) => assert.ok(moment > moments[i]));
  assert.equal(new Set(moments.slice(pass.view.judged)).size, 1);
});

test('the same moment gives the same frame', () => {
  assert.deepEqual(frame(pass.view, pass.marks, 1234), frame(pass.view, pass.marks, 1234));
});

test('steps visit each phase once, forward and back', () => {
  const phases = [];
  let t = pass.start;
  for (let i = 0; i < 5; i += 1) {
    t = nextBeat(run, t, 1);
    const there = locate(run, t);
    phases.push(phaseAt(there.pass.view, there.pass.marks, there.ms));
  }
  assert.deepEqual(phases, [0, 1, 2, 3, 4]);
  assert.equal(t, endOf(pass));
  for (const beat of beatsOf(pass.view, pass.marks).slice(0, -1).reverse()) {
    t = nextBeat(run, t, -1);
    assert.equal(t, pass.start + beat);
  }
});

test('a growing Trace is appended to: old passes stay the same objects', () => {
  const whole = makeTrace();
  const growing = createRun('b', { ...whole, prefill: null, rounds: [] });
  assert.equal(growing.passes.length, 0);
  assert.equal(extendRun(growing, { ...whole, rounds: [] }).length, 1);
  const kept = growing.passes[0];
  assert.equal(extendRun(growing, { ...whole, rounds: whole.rounds.slice(0, 3) }).length, 3);
  assert.equal(extendRun(growing, whole).length, whole.rounds.length - 3);
  assert.equal(growing.passes[0], kept);
  assert.deepEqual(growing.passes.map(({ start }) => start), createRun('c', whole).passes.map(({ start }) => start));
});

test('every moment of a run lies in one pass', () => {
  for (let t = 0; t <= run.length; t += 333) {
    const { pass: there, ms } = locate(run, t);
    assert.ok(t >= there.start && ms >= 0 && ms <= there.marks.rest);
  }
});

test('knobs: Exact follows the temperature; a what-if needs the same laws and another judgement', () => {
  const knobs = createKnobs(SETTINGS);
  knobs.setExact(true);
  assert.equal(knobs.settings.rule, 'match');
  knobs.set('temperature', 1);
  assert.equal(knobs.settings.rule, 'speculative');
  assert.ok(asksWhatIf({ ...SETTINGS, threshold: 0.2 }, SETTINGS));
  assert.ok(!asksWhatIf({ ...SETTINGS, threshold: 0.2, temperature: 1 }, SETTINGS));
  assert.ok(!asksWhatIf(SETTINGS, SETTINGS));
  assert.ok(differs({ ...SETTINGS, seed: 3 }, SETTINGS));
});

test('a what-if changes only the judging, and a token that would be drawn again is not made up', () => {
  const strict = reJudged(run, pass, { ...SETTINGS, threshold: 1, temperature: 1 });
  assert.equal(strict.view.drafts[0].target_prob, pass.view.drafts[0].target_prob);
  assert.deepEqual([strict.view.emitted.kind, strict.view.emitted.token], ['recovered', null]);
});
