// How each family is wired: the newest three drafts from left to right, the trunk below, what each box reads as arrows.

import { h } from '../stage/dom.js';
import { FAMILIES, fileOf, megabytes, millions, parametersOf } from './families.js';
import { arrow, label, s } from './svg.js';

const COLUMNS = [152, 226, 300];
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
  const values = { bytes: megabytes(file.bytes), ids: file.draft_ids.toLocaleString('en'), heads: file.max_draft_tokens };
  if (family === 'adaptive') {
    const { cost, fitted } = file.length;
    return h('p', { class: 'figures' }, t('figures.adaptive', { cost, drafts: fitted?.drafts?.toLocaleString('en') ?? '–', error: fitted?.reliability?.expected_calibration_error ?? '–' }));
  }
  const own = parametersOf(file, 'blocks.', 'adapters.');
  if (own) Object.assign(values, { shared: millions(parametersOf(file) - own), own: millions(own / file.max_draft_tokens) });
  else values.all = millions(parametersOf(file));
  return h('p', { class: 'figures' }, t(own ? 'figures.heads' : 'figures.module', values));
}

function parallel(t) {
  return [
    ...trunk(t), box(66, BOX, 72, 'heads', t('draw.shared')), arrow('state', [66, 152], [66, BOX.bottom]), state(66),
    ...COLUMNS.flatMap((x, i) => [
      arrow('state', [102, 100], [x - HALF, 100]),
      box(x, BOX, 2 * HALF, 'heads', t('draw.head', { n: i + 1 })), arrow('draft', [x, BOX.top], [x, CHIP.bottom]), chip(x, i),
    ]).reverse(), // a line that goes on to the next head passes behind the boxes
    label(226, 146, t('draw.blind'), { class: 'soft', 'text-anchor': 'middle' }),
  ];
}

function hierarchical(t) {
  return [
    ...trunk(t), ...chain(t, (i) => t('draw.head', { n: i + 1 })),
    label(226, 146, t('draw.sees'), { class: 'soft', 'text-anchor': 'middle' }),
  ];
}

function mtp(t) {
  const cells = Array.from({ length: 12 }, (_, i) => s('rect', { class: i < 6 ? 'cell true' : 'cell', x: 116 + i * 18, y: 138, width: 15, height: 12, rx: 2 }));
  return [
    s('rect', { class: 'same', x: COLUMNS[0] - HALF - 8, y: BOX.top - 9, width: 226, height: 50, rx: 12 }),
    ...trunk(t), ...chain(t, () => t('draw.module')), ...cells,
    ...COLUMNS.map((x) => arrow('soft', [x, 137], [x, BOX.bottom])), label(226, 166, t('draw.cache'), { class: 'soft', 'text-anchor': 'middle' }),
  ];
}

function adaptive(t) {
  const asks = COLUMNS.map((x, i) => s('g', { class: i === 2 ? 'ask no' : 'ask' },
    s('path', { d: `M${x} 44l15 14l-15 14l-15 -14z` }), label(x, 63, i === 2 ? '✗' : '✓', { 'text-anchor': 'middle' })));
  return [
    ...trunk(t), ...chain(t, () => t('draw.module'), 2), ...asks,
    label(226, 146, t('draw.ask'), { class: 'soft', 'text-anchor': 'middle' }),
  ];
}

// Boxes that hand a state on, each with the token drafted before it; `made` of the three drafts are made.
function chain(t, name, made = 3) {
  return [
    ...COLUMNS.flatMap((x, i) => [
      arrow('draft', [x, BOX.top], [x, CHIP.bottom]), box(x, BOX, 2 * HALF, 'heads', name(i)),
      ...(i < made ? [chip(x, i)] : [s('rect', { class: 'chip none', x: x - HALF, y: CHIP.top, width: 2 * HALF, height: 26, rx: 8 })]),
      ...(i ? [arrow('token', [COLUMNS[i - 1] + HALF, 24], [x - 37, 24], [x - 37, 92], [x - HALF, 92]), arrow('state', [COLUMNS[i - 1] + HALF, 108], [x - HALF, 108])] : []),
    ]),
    arrow('state', [66, 152], [66, 108], [COLUMNS[0] - HALF, 108]), state(66),
    arrow('token', [110, 204], [110, 92], [COLUMNS[0] - HALF, 92]),
  ];
}

// The trunk has read up to x_t and has drawn the next token, which is no guess any more.
function trunk(t) {
  return [
    s('rect', { class: 'trunk', x: 14, y: 164, width: 80, height: 30, rx: 7 }), label(54, 184, t('draw.trunk'), { class: 'on-trunk', 'text-anchor': 'middle' }),
    arrow('soft', [54, 208], [54, 195]), label(54, 226, 'x₀ … xₜ', { 'text-anchor': 'middle' }),
    s('rect', { class: 'chip trunk', x: 98, y: 206, width: 56, height: 28, rx: 8 }), label(126, 225, 'xₜ₊₁', { 'text-anchor': 'middle' }),
    label(160, 218, t('draw.newest'), { class: 'soft' }), label(160, 234, t('draw.newest.more'), { class: 'soft' }),
  ];
}

function state(x) {
  return s('g', {}, s('circle', { class: 'state', cx: x, cy: 156, r: 4 }), label(x - 9, 146, 'hₜ', { 'text-anchor': 'end' }));
}

function box(x, { top, bottom }, width, kind, text) {
  return s('g', {}, s('rect', { class: kind, x: x - width / 2, y: top, width, height: bottom - top, rx: 7 }), label(x, (top + bottom) / 2 + 5, text, { 'text-anchor': 'middle' }));
}

function chip(x, i) {
  return s('g', {}, s('rect', { class: 'chip heads', x: x - HALF, y: CHIP.top, width: 2 * HALF, height: 26, rx: 8 }), label(x, 26, `+${i + 2}`, { 'text-anchor': 'middle', class: 'offset-name' }));
}
