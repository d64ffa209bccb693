// What a visitor must not come to believe (docs/rubric.md lists all eleven): that the stage's own words prevent it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { captionAt } from '../../assets/stage/narrate.js';
import { createStrings } from '../../assets/stage/strings.js';
import { createRun } from '../../assets/stage/run.js';
import { formatProb } from '../../assets/stage/format.js';
import { frame } from '../../assets/stage/frame.js';
import { isForeign, judgeAgain } from '../../assets/stage/judge.js';
import { ownTokens } from '../../assets/stage/guide.js';
import { makeTrace } from './traces.js';

const tables = Object.fromEntries(['en', 'zh'].map((language) => [language, JSON.parse(readFileSync(new URL(`../../assets/i18n/${language}.json`, import.meta.url)))]));
const t = createStrings(tables, 'en');
const saidAt = (pass, ms) => captionAt(t, pass, frame(pass.view, pass.marks, ms));
const runOf = (options) => createRun('x', makeTrace(options));

test('rejected is not wrong: both numbers are named, and no word of truth stands in any language', () => {
  const pass = runOf({}).passes.find(({ view }) => view.accepted < view.judged);
  const refused = pass.view.drafts[pass.view.accepted];
  const said = saidAt(pass, pass.marks.decided);
  assert.ok(said.includes(formatProb(refused.target_prob)) && said.includes(formatProb(refused.gate)), said);
  for (const [language, table] of Object.entries(tables)) {
    for (const [key, text] of Object.entries(table)) {
      if (/^(verdict|caption|micro|emitted|count|rule)\./.test(key)) assert.ok(!/\b(in)?correct|\bwrong|正确|错误|错了/i.test(text), `${language} ${key}: ${text}`);
    }
  }
});

test('the rest were never judged: computed for a sentence that no longer exists', () => {
  const pass = runOf({ skill: 0.4 }).passes.find(({ view }) => view.judged && view.drafts.length - view.judged > 0 && view.accepted < view.judged);
  assert.match(saidAt(pass, pass.marks.rollback + 1), /one rejected, \d never judged: their sentence no longer exists/);
});

test('a round with no accepted draft still gives one token, and says so', () => {
  const pass = runOf({ skill: 0 }).passes.find(({ view }) => view.kind === 'round' && view.drafts.length && !view.accepted);
  assert.match(saidAt(pass, pass.marks.end), /^No guess stayed, and the round still gives a token/);
});

test('rolling back recomputes nothing: the pointer moves back in the pass that stands', () => {
  const { view, marks } = runOf({ skill: 0 }).passes.find(({ view: { drafts, accepted } }) => drafts.length && !accepted);
  assert.equal(frame(view, marks, marks.rollback).cache.pointer, view.cache.peak);
  assert.equal(frame(view, marks, marks.end).cache.pointer, view.cache.after);
  assert.ok(tables.en['cache.rolled'].includes('nothing recomputed') && tables.zh['cache.rolled'].includes('无须重算'));
});

test('threshold 1 is not exact: an accepted token that the trunk would not choose is named, and found by its numbers alone', () => {
  const trace = makeTrace({ threshold: 1, skill: 1 });
  const [round] = trace.rounds;
  Object.assign(round.drafts[0], { target_prob: 0.4, draft_prob: 0.3, trunk_token: { id: 1, text: ' sky' } });
  const [verdict] = judgeAgain(round, trace.settings).verdicts;
  Object.assign(round.drafts[0], { verdict, gate: 0.3 });
  assert.equal(verdict, 'accepted');
  assert.ok(isForeign(round.drafts[0], trace.settings));
  const pass = createRun('x', trace).passes[1];
  assert.match(saidAt(pass, pass.marks.judge + 10), /stays, though the trunk's own choice was .*sky/);
  const [own, all] = ownTokens([pass.view]);
  assert.equal(own, all - 1);
  assert.equal(judgeAgain(round, { ...trace.settings, rule: 'match' }).verdicts[0], 'rejected');
});

test('exact at temperature 0 is the trunk\'s own text, token for token', () => {
  const run = runOf({ rule: 'match' });
  const [own, all] = ownTokens(run.passes.map(({ view }) => view));
  assert.equal(own, all);
  assert.equal(all, run.trace.output.tokens.length);
});

test('acceptance is no speed, and what the heads are and are not, stand in both languages', () => {
  assert.match(tables.en['count.acceptance_rate.definition'], /no speed/);
  assert.match(tables.zh['count.acceptance_rate.definition'], /不是速度/);
  assert.match(tables.en['rail.heads.tip'], /not attention heads/);
  assert.match(tables.zh['rail.heads.tip'], /不是注意力头/);
});
