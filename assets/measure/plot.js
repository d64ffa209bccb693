// A line plot: the lines stretch with the page, and everything that is read stays ordinary text.

import { h } from '../stage/dom.js';

const SIDE = 1000; // of the picture, in its own units

function svg(tag, props) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  return element;
}

// lines: [{kind, name, points: [[x, y]], dots}]; ticks: [[value, text]]; `mark` is a horizontal line with a name.
export function createPlot({ label, x, y, xTicks, yTicks, xName, yName, lines, mark }) {
  const across = (value) => (value - x[0]) / (x[1] - x[0]);
  const up = (value) => 1 - (value - y[0]) / (y[1] - y[0]);
  const percent = (share) => `${(100 * share).toFixed(2)}%`;
  const picture = svg('svg', { viewBox: `0 0 ${SIDE} ${SIDE}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const rule = (kind, at) => picture.append(svg('line', { class: kind, x1: 0, x2: SIDE, y1: SIDE * up(at), y2: SIDE * up(at) }));
  for (const [value] of yTicks) rule('grid', value);
  if (mark) rule('level', mark.value);
  for (const { kind, points } of lines) {
    picture.append(svg('polyline', { class: `curve ${kind}`, points: points.map(([a, b]) => `${SIDE * across(a)},${SIDE * up(b)}`).join(' ') }));
  }
  const now = h('span', { class: 'now-line', hidden: true });
  const area = h('div', { class: 'plot-area' }, picture, now,
    ...yTicks.map(([value, text]) => h('span', { class: 'tick y', style: `top:${percent(up(value))}` }, text)),
    ...xTicks.map(([value, text]) => h('span', { class: 'tick x', style: `left:${percent(across(value))}` }, text)),
    ...lines.filter(({ dots }) => dots).flatMap(({ kind, points }) => points.map(([a, b]) => h('span', {
      class: `dot ${kind}`, style: `left:${percent(across(a))};top:${percent(up(b))}`,
    }))),
    ...(mark?.name ? [h('span', { class: 'level-name', style: `top:${percent(up(mark.value))}` }, mark.name)] : []));
  return {
    root: h('figure', { class: 'plot' },
      h('div', { class: 'axis-name' }, yName),
      h('div', { class: 'plot-frame', role: 'img', 'aria-label': label }, area),
      h('div', { class: 'axis-name x' }, xName),
      h('figcaption', { class: 'legend' }, ...lines.map(({ kind, name }) => h('span', { class: `key-of ${kind}` }, name)))),
    setNow(value) {
      now.hidden = value === null;
      if (value !== null) now.style.left = percent(Math.min(1, across(value)));
    },
  };
}

// At most `most` round values from 0 up to `top`.
export function ticksTo(top, most = 5) {
  const rough = top / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, at) => [at * step, (at * step).toFixed(digits)]);
}
