// Horizontal bars with their figures beside them.

import { h } from '../stage/dom.js';

// rows: [{label, parts: [{value, kind, title}], text, range: [low, high]}]; lengths are shares of `max`.
export function barRows(rows, max) {
  const percent = (value) => `${Math.min(100, (100 * value) / max).toFixed(2)}%`;
  return h('div', { class: 'rows', role: 'list' }, ...rows.map(({ label, parts, text, range }) => h('div', { class: 'row', role: 'listitem' },
    h('span', { class: 'row-label' }, label),
    h('span', { class: 'row-track' },
      ...parts.map(({ value, kind, title }) => h('span', { class: `part ${kind}`, title, style: `width:${percent(value)}` })),
      ...(range ? [h('span', { class: 'range', style: `left:${percent(range[0])};width:calc(${percent(range[1])} - ${percent(range[0])})` })] : [])),
    h('span', { class: 'row-text' }, text))));
}

// head: texts; body: rows of texts or elements, the first of each its heading. From column `fresh` on, figures were measured just now.
export function figureTable(caption, head, body, fresh = Infinity) {
  const mark = (at) => (at >= fresh ? 'fresh' : null);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, h('table', {},
    h('thead', {}, h('tr', {}, ...head.map((text, at) => h('th', { scope: 'col', class: mark(at) }, text)))),
    h('tbody', {}, ...body.map(([first, ...others]) => h('tr', {}, h('th', { scope: 'row' }, first), ...others.map((cell, at) => h('td', { class: mark(at + 1) }, cell)))))));
}

export function fixed(value, digits = 2) {
  return value === null || value === undefined ? '–' : value.toFixed(digits);
}

export function megabytes(bytes) {
  return bytes === null || bytes === undefined ? '–' : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
}
