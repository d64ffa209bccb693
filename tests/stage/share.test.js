// A link names the model, and what it says is a stranger's word.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linkTo, readLink } from '../../assets/stage/share.js';

const config = {
  defaults: { model: 'default', drafter: 'mtp', seed: 0, raw: false },
  choices: { model: ['default', 'bytes'], drafter: ['mtp', 'hierarchical'] },
  bounds: { seed: { low: 0, high: 9, integer: true } },
  max_prompt_characters: 100,
};

test('a link comes back with the model that it was made with', () => {
  for (const model of ['bytes', 'own-0123456789abcdef']) {
    const settings = { model, drafter: 'hierarchical', seed: 3, raw: true };
    const link = readLink(new URL(linkTo('http://x/', 'Once', settings, null)).hash, config, '');
    assert.deepEqual([link.settings, link.refused, link.prompt], [settings, [], 'Once']);
  }
});

test('any other name of a model is refused', () => {
  for (const model of ['gpt', 'own-0123', 'own-0123456789abcdefg', '<b>']) {
    const link = readLink(`#${new URLSearchParams({ model })}`, config, '');
    assert.deepEqual([link.settings.model, link.refused], ['default', ['model']]);
  }
});
