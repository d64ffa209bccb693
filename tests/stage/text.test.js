// Tokens as text and as chips: nothing lost, nothing invented, everything visible.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chipParts, quoted } from '../../assets/stage/token.js';
import { decodeToken } from '../../assets/stage/utf8.js';
import { formatPair, formatProb, formatRatio } from '../../assets/stage/format.js';
import { createStrings } from '../../assets/stage/strings.js';
import { roundView, whatIfView } from '../../assets/stage/view.js';
import { makeTrace } from './traces.js';

const hexToken = (bytes) => ({ id: 1, text: '', bytes: Buffer.from(bytes).toString('hex') });

function decodeAll(tokens) {
  let pending = [];
  let text = '';
  for (const token of tokens) {
    const piece = decodeToken(token, pending);
    text += piece.text;
    pending = piece.pending;
  }
  return { text, pending };
}

test('a character over several tokens appears when it is whole', () => {
  const bytes = Buffer.from('聪明 🙂');
  for (let cut = 1; cut < bytes.length; cut += 1) {
    assert.deepEqual(decodeAll([hexToken(bytes.subarray(0, cut)), hexToken(bytes.subarray(cut))]), { text: '聪明 🙂', pending: [] });
  }
});

test('an unfinished character is held back, and a rejection leaves what was before it', () => {
  const before = decodeToken({ id: 1, text: '聪' }, []);
  assert.deepEqual(decodeToken(hexToken([0xe6, 0x98]), before.pending), { text: '', pending: [0xe6, 0x98] });
  assert.deepEqual(decodeToken({ id: 2, text: '。' }, before.pending), { text: '。', pending: [] });
});

test('bytes that can become no character are written, never replaced', () => {
  assert.equal(decodeAll([hexToken([0xe8, 0x81]), { id: 2, text: 'x' }]).text, '\\xe8\\x81x');
  assert.equal(decodeAll([hexToken([0xff]), hexToken([0xc0, 0x80]), hexToken([0xed, 0xa0, 0x80])]).text, '\\xff\\xc0\\x80\\xed\\xa0\\x80');
});

test('six blank or spaced tokens are six visible chips', () => {
  const shown = [' Hello', '   ', '\n', '\n\n', '\t', 'world'].map((text) => chipParts({ id: 1, text }).map(([, part]) => part).join(''));
  assert.deepEqual(shown, ['␣Hello', '␣␣␣', '⏎', '⏎⏎', '⇥', 'world']);
});

test('markup and templates stay text', () => {
  for (const text of ['<restate here>', 'a<b & c>d', '<think>', '<|im_end|>', '<!--', '&amp;', '${alert(1)}', '${', '\\u', '{{x}}', '`']) {
    assert.deepEqual(chipParts({ id: 1, text }), [['text', text]]);
    assert.equal(createStrings({ en: { said: '{token} stays' } }, 'en')('said', { token: text }), `${text} stays`);
  }
});

test('invisible characters have names on chips', () => {
  assert.deepEqual(chipParts({ id: 1, text: '\u200b' }), [['text', 'U+200B']]);
  assert.deepEqual(chipParts({ id: 1, text: '' }), [['mark', '∅']]);
});

test('a quoted token is direction-isolated and short', () => {
  assert.equal(quoted({ id: 1, text: ' שלום' }), '\u2068“שלום”\u2069');
  assert.ok(quoted({ id: 1, text: 'x'.repeat(60) }).length < 30);
});

test('figures keep small numbers apart from nothing, and compared numbers apart from each other', () => {
  assert.deepEqual([0, 1e-5, 0.0123, 0.5, 0.998, 0.99999, 1].map(formatProb), ['0', '1e−5', '0.012', '0.50', '0.998', '>.999', '1.00']);
  assert.deepEqual([null, 0, 0.0007, 0.004, 0.87, 12.34, 340.2].map(formatRatio), ['–', '0.00', '7e−4', '0.004', '0.87', '12.3', '340']);
  assert.deepEqual(formatPair(0.4999, 0.5), ['0.4999', '0.5000']);
  assert.deepEqual(formatPair(0.5, 0.5), ['0.50', '0.50']);
});

test('a round of lookup-first bears the name of the one that made its drafts', () => {
  const { settings, rounds: [round] } = makeTrace({ rule: 'match', drafter: 'hybrid' });
  assert.equal(roundView(round, settings, [], false).drafter, 'adaptive');
  assert.equal(roundView({ ...round, copied: true }, settings, [], false).drafter, 'lookup');
  assert.equal(whatIfView({ ...round, copied: true }, settings, []).drafter, 'lookup');
  assert.equal(roundView(round, { ...settings, drafter: 'mtp' }, [], false).drafter, 'mtp');
});
