// How each family is wired: the newest three drafts from left to right, the trunk below, what each box reads as arrows.

import { h } from '../stage/dom.js';
import { FAMILIES, fileOf, headsOf, megabytes, millions, parametersOf } from './families.js';
import { arrow, label, s } from './svg.js';

const COLUMNS = [146, 220, 294];
const HALF = 28; // of a box's width
const CHIP = { top: 8, bottom: 34 };
const BOX = { top: 84, bottom: 116 };
const DRAWINGS = { parallel, hierarchical, mtp, adaptive };

export function createWiring(t, stored) {
  return h('div', { class: 'wirings' }, ...FAMILIES.map((family) => {
    const drawing = s('svg', { class: 'wiring', viewBox: '0 0 340 250', role: 'img', 'aria-label': t(`wiring.${family}`) }, ...DRAWINGS[family](t));
    return h('article', { class: 'family', 'data-family': family },
      drawing, h('div', {}, h('h3', {}, t(`family.${family}`)), h('p', {}, t(`wiring.${family}`)), sizeOf(t, stored, family)));
  }));
}

function sizeOf(t, stored, family) {
  const file = fileOf(stored, family);
  if (!file) return h('p', { class: 'missing' }, t(`missing.${family === 'adaptive' ? 'length' : 'file'}`));
  const values = { bytes: megabytes(file.bytes), ids: file.draft_ids.toLocaleString('en'), heads: headsOf(file) };
  if (family === 'adaptive') {
    const { cost, fitted } = file.length;
    return h('p', { class: 'figures' }, t('figures.adaptive', { cost, drafts: fitted?.drafts?.toLocaleString('en') ?? '–', error: fitted?.reliability?.expected_calibration_error ?? '–' }));
  }
  const own = parametersOf(file, 'blocks.', 'adapters.');
  if (own) Object.assign(values, { shared: millions(parametersOf(file) - own), own: millions(own / values.heads) });
  else values.all = millions(parametersOf(file));
  return h('p', { class: 'figures' }, t(own ? 'figures.heads' : 'figures.module', values));
}

function parallel(t) {
  return [
    ...trunk(t), box(62, BOX, 72, 'guesser', t('draw.shared')), arrow('state', [62, 152], [62, BOX.bottom]), state(62),
    ...COLUMNS.flatMap((x, i) => [
      arrow('state', [98, 100], [108, 100], [108, 128], [x, 128], [x, BOX.bottom]), // one line, and a branch to each
      box(x, BOX, 2 * HALF, 'guesser', t('draw.head', { n: i + 1 })), arrow('guess', [x, BOX.top], [x, CHIP.bottom]), chip(x, i),
    ]),
    label(220, 150, t('draw.blind'), { class: 'aside', 'text-anchor': 'middle' }),
  ];
}

function hierarchical(t) {
  return [
    ...trunk(t), ...chain(t, (i) => t('draw.head', { n: i + 1 })),
    label(220, 146, t('draw.sees'), { class: 'aside', 'text-anchor': 'middle' }),
  ];
}

function mtp(t) {
  const cells = Array.from({ length: 12 }, (_, i) => s('rect', { class: i < 6 ? 'kv true' : 'kv', x: 112 + i * 18, y: 138, width: 15, height: 12, rx: 2 }));
  return [
    s('rect', { class: 'same', x: COLUMNS[0] - HALF - 8, y: BOX.top - 9, width: 220, height: 50, rx: 12 }),
    ...trunk(t), ...chain(t, () => t('draw.module')), ...cells,
    ...COLUMNS.map((x) => arrow('reads', [x, 137], [x, BOX.bottom])), label(220, 166, t('draw.cache'), { class: 'aside', 'text-anchor': 'middle' }),
  ];
}

function adaptive(t) {
  const asks = COLUMNS.map((x, i) => s('g', { class: i === 2 ? 'ask no' : 'ask' },
    s('path', { d: `M${x} 44l15 14l-15 14l-15 -14z` }), label(x, 63, i === 2 ? '✗' : '✓', { 'text-anchor': 'middle' })));
  return [
    ...trunk(t), ...chain(t, () => t('draw.module'), 2), ...asks,
    label(220, 146, t('draw.ask'), { class: 'aside', 'text-anchor': 'middle' }),
  ];
}

// Boxes that hand a state on, each with the token drafted before it; `made` of the three drafts are made.
function chain(t, name, made = 3) {
  return [
    ...COLUMNS.flatMap((x, i) => [
      arrow('guess', [x, BOX.top], [x, i < made ? CHIP.bottom : 73]), box(x, BOX, 2 * HALF, 'guesser', name(i)),
      ...(i < made ? [chip(x, i)] : [s('rect', { class: 'token unmade', x: x - HALF, y: CHIP.top, width: 2 * HALF, height: 26, rx: 8 })]),
      ...(i ? [arrow('token', [COLUMNS[i - 1] + HALF, 24], [x - 37, 24], [x - 37, 92], [x - HALF, 92]), arrow('state', [COLUMNS[i - 1] + HALF, 108], [x - HALF, 108])] : []),
    ]),
    arrow('state', [62, 152], [62, 108], [COLUMNS[0] - HALF, 108]), state(62),
    arrow('token', [106, 204], [106, 92], [COLUMNS[0] - HALF, 92]),
  ];
}

// The trunk has read up to x_t and has drawn the next token, which is no guess any more.
function trunk(t) {
  return [
    s('rect', { class: 'model', x: 10, y: 164, width: 80, height: 30, rx: 7 }), label(50, 184, t('draw.trunk'), { class: 'on-trunk', 'text-anchor': 'middle' }),
    arrow('reads', [50, 208], [50, 195]), label(50, 226, 'x₀ … xₜ', { 'text-anchor': 'middle' }),
    s('rect', { class: 'token drawn', x: 94, y: 206, width: 56, height: 28, rx: 8 }), label(122, 225, 'xₜ₊₁', { 'text-anchor': 'middle' }),
    label(156, 218, t('draw.newest'), { class: 'aside' }), label(156, 234, t('draw.newest.more'), { class: 'aside' }),
  ];
}

function state(x) {
  return s('g', {}, s('circle', { class: 'state', cx: x, cy: 156, r: 4 }), label(x - 9, 146, 'hₜ', { 'text-anchor': 'end' }));
}

function box(x, { top, bottom }, width, kind, text) {
  return s('g', {}, s('rect', { class: kind, x: x - width / 2, y: top, width, height: bottom - top, rx: 7 }), label(x, (top + bottom) / 2 + 5, text, { 'text-anchor': 'middle' }));
}

function chip(x, i) {
  return s('g', {}, s('rect', { class: 'token made', x: x - HALF, y: CHIP.top, width: 2 * HALF, height: 26, rx: 8 }), label(x, 26, `+${i + 2}`, { 'text-anchor': 'middle', class: 'ahead-by' }));
}
