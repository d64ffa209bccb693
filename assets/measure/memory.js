// What the trunk and each family of heads take: weights, keys and values, and the measured peak. Then the model of bytes.

import { h } from '../stage/dom.js';
import { createAgain } from './again.js';
import { barRows, figureTable, fixed, megabytes } from './rows.js';
import { sourceOf } from './source.js';

const CONTEXTS = [128, 1024, 8192];

export function createMemory(t, { results: { footprint, memory: bytes }, actions, memory }) {
  const parts = [...(footprint ? [createFootprint(t, footprint, actions, (memory.footprint ??= {}))] : []), ...(bytes ? [createBytes(t, bytes, actions, (memory.bytes ??= {}))] : [])];
  if (!parts.length) return null;
  return {
    root: h('section', { class: 'page-part', id: 'measure-memory' }, h('h3', {}, t('memory.title')), h('p', { class: 'lead' }, t('memory.lead')), ...parts.flatMap((part) => part.elements)),
    show: (update) => parts.forEach((part) => part.show(update)),
  };
}

function createFootprint(t, footprint, actions, memory) {
  const { rows } = footprint;
  const nameOf = (row) => (row.family === 'none' ? t('memory.trunk') : t(`drafter.${row.family}`));
  const largest = Math.max(...rows.map((row) => row.file_bytes));
  const body = h('div');
  const again = createAgain(t, { asked: 'footprint', takes: t('again.footprint', { n: rows.length }), actions, memory, draw });

  function draw() {
    const { fresh } = memory;
    const now = new Map((fresh?.rows ?? []).map((row) => [row.family, row]));
    const head = [t('memory.of'), t('memory.peak'), ...CONTEXTS.map((n) => t('memory.cache', { n }))];
    body.replaceChildren(
      figureTable(t('memory.title'), fresh ? [...head, t('again.column', { what: t('memory.peak') })] : head, rows.map((row) => [
        row.family === 'none' ? t('memory.alone') : nameOf(row), megabytes(row.peak_bytes), ...CONTEXTS.map((n) => megabytes(n * row.cache_bytes_per_token)), ...(fresh ? [megabytes(now.get(row.family)?.peak_bytes)] : []),
      ]), fresh ? head.length : undefined),
      h('p', { class: 'note' }, noteOf(footprint)), sourceOf(t, footprint.provenance), ...(fresh ? again.source(noteOf(fresh)) : []));
  }

  function noteOf(found) {
    return t('memory.note', { tokens: found.tokens, bytes: Math.round(found.rows[0].cache_bytes_per_token).toLocaleString('en') });
  }

  draw();
  const bars = barRows(rows.map((row) => ({
    label: nameOf(row), parts: [{ value: row.file_bytes, kind: row.family === 'none' ? 'trunk' : 'heads' }],
    text: t('memory.row', { millions: fixed(row.parameters / 1e6, 1), size: megabytes(row.file_bytes) }),
  })), largest);
  return { elements: [bars, body, again.root], show: again.show };
}

// The tutorial's own four: parameters, weights, keys and values, peak.
function createBytes(t, found, actions, memory) {
  const body = h('div');
  const again = createAgain(t, { asked: 'memory', takes: t('again.memory'), actions, memory, draw });

  function draw() {
    const { fresh } = memory;
    const head = ['bytes.of', 'bytes.parameters', 'bytes.weights', 'memory.peak'].map((key) => t(key));
    body.replaceChildren(
      figureTable(t('bytes.title'), fresh ? [...head, t('again.column', { what: t('memory.peak') })] : head, [['trunk', 'alone'], ['heads', 'heads']].map(([part, way]) => [
        t(`bytes.${part}`, { n: found.heads - 1 }), found.parameters[part].toLocaleString('en'), megabytes(found.weight_bytes[part]), megabytes(found.peak_bytes[way]), ...(fresh ? [megabytes(fresh.peak_bytes[way])] : []),
      ]), fresh ? head.length : undefined),
      h('p', { class: 'note' }, t('bytes.note', { each: Math.round(found.cache_bytes_per_token).toLocaleString('en'), all: megabytes(found.cache_bytes), n: Math.round(found.cache_bytes / found.cache_bytes_per_token) })),
      sourceOf(t, found.provenance), ...(fresh ? again.source(t('bytes.fresh')) : []));
  }

  draw();
  return { elements: [h('h4', { class: 'under' }, t('bytes.title')), body, again.root], show: again.show };
}
