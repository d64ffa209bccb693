// Traces from files: good ones pass as they are, and each kind of damage is named by its place.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { checkTrace } from '../../assets/stage/check.js';
import { makeTrace } from './traces.js';

const schema = JSON.parse(readFileSync(new URL('../../assets/trace.schema.json', import.meta.url), 'utf8'));
const file = process.env.ENGINE_ANSWERS;

test('what the engine makes passes', { skip: file ? false : 'needs ENGINE_ANSWERS' }, () => {
  for (const { trace } of JSON.parse(readFileSync(file, 'utf8')).counted) if (trace.prefill || trace.rounds.length) checkTrace(trace, schema);
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
  'settings.threshold': (trace) => { trace.settings.threshold = 0; },
  'rounds[1].more': (trace) => { trace.rounds[1].more = 1; },
  'rounds[0].start': (trace) => { trace.rounds[0].start = 0.5; },
  'seconds.total': (trace) => { delete trace.seconds.total; },
};

for (const [place, damage] of Object.entries(DAMAGE)) {
  test(`a damaged ${place} is named`, () => {
    const trace = makeTrace();
    checkTrace(trace, schema);
    damage(trace);
    assert.throws(() => checkTrace(trace, schema), { message: place });
  });
}

test('what is no record at all is refused', () => {
  for (const junk of [null, [], 'x', 3, {}]) assert.throws(() => checkTrace(junk, schema));
});
