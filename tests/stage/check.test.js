// Traces from files: good ones pass as they are, and each kind of damage is named by its place.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { checkTrace } from '../../assets/stage/check.js';
import { makeTrace } from './traces.js';

const file = process.env.ENGINE_ANSWERS;

test('what the engine makes passes', { skip: file ? false : 'needs ENGINE_ANSWERS' }, () => {
  for (const { trace } of JSON.parse(readFileSync(file, 'utf8')).counted) if (trace.prefill || trace.rounds.length) checkTrace(trace);
});

const DAMAGE = {
  schema: (trace) => { trace.schema = 2; },
  'rounds[0].drafts[0].u': (trace) => { trace.rounds[0].drafts[0].u = 1e999; },
  'rounds[0].drafts[0].token': (trace) => { trace.rounds[0].drafts[0].token = 'x'; },
  'rounds[0].drafts[0].token.bytes': (trace) => { trace.rounds[0].drafts[0].token.bytes = 'zz'; },
  'rounds[0].drafts': (trace) => { trace.rounds[0].drafts = { length: 2 }; },
  'rounds[0].drafts.gate': (trace) => { trace.rounds[0].drafts[0].gate = null; },
  'rounds[1].emitted': (trace) => { trace.rounds[1].emitted.kind = trace.rounds[1].emitted.kind === 'bonus' ? 'recovered' : 'bonus'; },
  rounds: (trace) => { trace.rounds = Array(2001).fill(trace.rounds[0]); },
  prefill: (trace) => { trace.prefill = 0; },
  'prompt.text': (trace) => { trace.prompt.text = null; },
  'settings.rule': (trace) => { trace.settings.rule = '__proto__'; },
  'seconds.total': (trace) => { delete trace.seconds.total; },
};

for (const [place, damage] of Object.entries(DAMAGE)) {
  test(`a damaged ${place} is named`, () => {
    const trace = makeTrace();
    checkTrace(trace);
    damage(trace);
    assert.throws(() => checkTrace(trace), { message: place });
  });
}

test('what is no record at all is refused', () => {
  for (const junk of [null, [], 'x', 3, {}]) assert.throws(() => checkTrace(junk));
});
