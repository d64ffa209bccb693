// What the trunk and each family of heads take: weights, keys and values, and the measured peak.

import { h } from '../stage/dom.js';
import { barRows, figureTable, fixed, megabytes } from './rows.js';
import { sourceOf } from './source.js';

const CONTEXTS = [128, 1024, 8192];

export function createMemory(t, { results: { footprint } }) {
  if (!footprint) return null;
  const { rows } = footprint;
  const [trunk] = rows;
  const nameOf = (row) => (row.family === 'none' ? t('memory.trunk') : t(`drafter.${row.family}`));
  const largest = Math.max(...rows.map((row) => row.file_bytes));
  return {
    root: h('section', { class: 'page-part', id: 'measure-memory' }, h('h3', {}, t('memory.title')), h('p', { class: 'lead' }, t('memory.lead')),
      barRows(rows.map((row) => ({
        label: nameOf(row), parts: [{ value: row.file_bytes, kind: row.family === 'none' ? 'trunk' : 'heads' }],
        text: t('memory.row', { millions: fixed(row.parameters / 1e6, 1), size: megabytes(row.file_bytes) }),
      })), largest),
      figureTable(t('memory.title'), [t('memory.of'), t('memory.peak'), ...CONTEXTS.map((n) => t('memory.cache', { n }))],
        rows.map((row) => [row.family === 'none' ? t('memory.alone') : t('memory.with', { family: nameOf(row) }), megabytes(row.peak_bytes), ...CONTEXTS.map((n) => megabytes(n * row.cache_bytes_per_token))])),
      h('p', { class: 'note' }, t('memory.note', { tokens: footprint.tokens, bytes: Math.round(trunk.cache_bytes_per_token).toLocaleString('en') })),
      sourceOf(t, footprint.provenance)),
  };
}
