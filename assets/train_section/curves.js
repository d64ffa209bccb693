// Curves of every head while it learns: the batches as lines, the held-out text as dots.

import { h } from '../stage/dom.js';

const [WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT] = [440, 190, 40, 22, 34];
const ns = 'http://www.w3.org/2000/svg';

function svg(tag, props, ...children) {
  const element = document.createElementNS(ns, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function createCurves(t) {
  const root = h('div', { class: 'curves' });
  // `points` are lines of the log, with figures of the batch, of the held-out text or both; a head that does not train yet has null.
  function draw(points, heads) {
    const losses = points.flatMap((point) => [...(point.losses ?? []), ...(point.held_losses ?? [])]).filter((value) => value !== null);
    const top = Math.max(2, Math.ceil(Math.max(0, ...losses)));
    root.replaceChildren(
      chart(t, 'losses', points, heads, [0, top], (value) => (Number.isInteger(value) ? String(value) : value.toFixed(1))),
      chart(t, 'accuracy', points, heads, [0, 1], (value) => `${Math.round(100 * value)}%`));
  }
  return { root, draw };
}

function chart(t, name, points, heads, [low, high], format) {
  const x = (progress) => LEFT + progress * (WIDTH - LEFT - RIGHT);
  const y = (value) => 10 + (1 - (value - low) / (high - low)) * (HEIGHT - 10 - BOTTOM);
  const drawn = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': t(`curve.${name}.label`, { last: lastOf(t, points, name, heads) }) });
  for (let i = 0; i <= 4; i += 1) {
    const value = low + ((high - low) * i) / 4;
    drawn.append(svg('path', { class: 'grid', d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }), svg('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)));
  }
  drawn.append(svg('text', { x: LEFT, y: HEIGHT - 5 }, '0%'), svg('text', { x: WIDTH - RIGHT, y: HEIGHT - 5, 'text-anchor': 'end' }, '100%'));
  const ends = [];
  for (let i = heads - 1; i >= 0; i -= 1) {
    const own = points.filter((point) => point[name]?.[i] != null);
    const kind = i ? 'draft' : 'own';
    if (own.length) drawn.append(svg('path', { class: `line ${kind}`, 'data-head': i, d: `M${own.map((point) => `${x(point.progress).toFixed(1)} ${y(point[name][i]).toFixed(1)}`).join('L')}`, style: `opacity:${1 - 0.09 * i}` }));
    for (const point of points) {
      const value = point[`held_${name}`]?.[i];
      if (value != null && own.length) drawn.append(svg('circle', { class: `dot ${kind}`, cx: x(point.progress), cy: y(value), r: 3 }));
    }
    if (own.length) ends.push({ i, at: y(own.at(-1)[name][i]), x: x(own.at(-1).progress) });
  }
  // The names at the ends of the lines, moved apart where they would cover each other.
  ends.sort((a, b) => a.at - b.at).forEach((end, n) => { if (n) end.at = Math.max(end.at, ends[n - 1].at + 12); });
  const below = Math.max(0, (ends.at(-1)?.at ?? 0) - (HEIGHT - BOTTOM - 4));
  ends.forEach((end) => {
    end.at -= below;
    drawn.append(svg('text', { class: end.i ? 'draft' : 'own', x: end.x + 5, y: end.at + 4 }, `+${end.i + 1}`));
  });
  return h('figure', {}, h('figcaption', {}, t(`curve.${name}`)), drawn);
}

function lastOf(t, points, name, heads) {
  const last = points.findLast((point) => point[name]);
  return last ? Array.from({ length: heads }, (_, i) => `+${i + 1} ${last[name][i]?.toFixed(2) ?? t('not.yet')}`).join(', ') : t('not.yet');
}
