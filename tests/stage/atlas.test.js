// An atlas unpacks in the browser to what it unpacks to in Python, and knobs find the run that they ask for.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { cellOf, cellTrace } from '../../assets/stage/cells.js';
import { createRun, locate, placeIn } from '../../assets/stage/run.js';
import { matched, wordsOf } from '../../assets/stage/whole.js';
import { makeTrace } from './traces.js';

const file = process.env.ENGINE_ANSWERS;
const atlas = file ? JSON.parse(readFileSync(file, 'utf8')).atlas : null;
const skip = atlas ? false : 'needs ENGINE_ANSWERS';

test('all 80 runs unpack as the engine unpacks them', { skip }, () => {
  for (let row = 0; row < 8; row += 1) {
    assert.deepEqual(cellTrace(atlas.packed, { row, column: null }), atlas.exact[row]);
    for (let column = 0; column < 9; column += 1) assert.deepEqual(cellTrace(atlas.packed, { row, column }), atlas.ratio[row][column]);
  }
});

test('knobs find their run, the nearest threshold and its number', { skip }, () => {
  const of = (changes, prompt = 'Once') => cellOf(atlas.packed, prompt, { ...atlas.packed.settings, rule: 'ratio', ...changes });
  assert.deepEqual(of({ num_draft_tokens: 4, threshold: 0.5 }), { row: 3, column: 5, n: 33, of: 72 });
  assert.equal(of({ threshold: 0.58 }).column, 5);
  assert.equal(of({ threshold: 0.01 }).column, 0);
  assert.deepEqual(of({ num_draft_tokens: 8, rule: 'match' }), { row: 7, column: null, n: 8, of: 8 });
  assert.equal(of({ num_draft_tokens: 8, rule: 'speculative' }).column, null); // at temperature 0 the same rule
  for (const other of [{ rule: 'typical' }, { num_draft_tokens: 0 }, { temperature: 1 }, { drafter: 'lookup' }, { seed: 9 }, { threshold: null }]) assert.equal(of(other), null);
  assert.equal(of({}, 'Twice'), null);
});

test('a run that takes another\'s place stands where that stood', { skip }, () => {
  const [long, short] = [createRun('a', atlas.exact[7]), createRun('b', atlas.exact[0])];
  const { pass } = locate(long, long.length / 2);
  const at = placeIn(short, long, pass.start + pass.marks.judge);
  const there = locate(short, at);
  assert.ok(there.pass.round.start <= pass.round.start && short.passes[there.pass.at + 1].round.start > pass.round.start);
  assert.equal(there.ms, there.pass.marks.judge);
  assert.equal(locate(short, placeIn(short, long, long.length)).pass.at, short.passes.length - 1);
});

test('words are whole whatever tokens and rounds they lie in, and every letter is there', () => {
  const run = createRun('x', makeTrace({ prompt: 'p', skill: 9, num_draft_tokens: 2, pieces: ['so', 'me', ' thing', '\n', '\n', ' new', ' ', ' x', [0xe8, 0x81], [0xaa], '!'] }));
  const words = wordsOf(run);
  assert.deepEqual(words.map(({ lead, text }) => [lead, text]), [['', 'some'], [' ', 'thing'], ['\n\n ', 'new'], ['  ', 'x聪!']]);
  assert.ok(words.every(({ parts, text }) => parts.map((part) => part.text).join('') === text));
});

test('words are matched in order', () => {
  const words = (text) => text.split(' ').map((word) => ({ text: word }));
  assert.deepEqual(matched(words('a b c d'), words('a x c d e')), [0, -1, 2, 3, -1]);
  assert.deepEqual(matched([], words('a')), [-1]);
  assert.deepEqual(matched(words('a a'), words('a a')), [0, 1]);
});
