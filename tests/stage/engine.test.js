// The stage judges and counts as the engine does. Its answers come from engine.py, by way of test_stage.py.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { counts } from '../../assets/stage/counts.js';
import { judgeAgain } from '../../assets/stage/judge.js';
import { createRun } from '../../assets/stage/run.js';

const file = process.env.ENGINE_ANSWERS;
const answers = file ? JSON.parse(readFileSync(file, 'utf8')) : null;
const skip = answers ? false : 'needs ENGINE_ANSWERS';

test('1,000 random rounds are judged as the engine judges them', { skip }, () => {
  for (const { round, settings, judgement } of answers.judged) assert.deepEqual(judgeAgain(round, settings), judgement);
});

test('counts are the engine\'s, to the last bit', { skip }, () => {
  for (const { trace, counts: expected } of answers.counted) assert.deepEqual(counts(trace), expected);
});

test('the text on the stage is the text of the output', { skip }, () => {
  for (const { trace } of answers.counted) {
    const shown = createRun('x', trace).passes.map(({ view }) => [...view.pieces.slice(0, view.accepted), view.emittedPiece].map((piece) => piece?.text ?? '').join(''));
    assert.equal(shown.join(''), trace.output.text);
  }
});
