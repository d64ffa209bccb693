// Survival by position as curves: a colour, a mark and a name for each family.

import { label, s } from './svg.js';

const [LEFT, TOP, WIDE, TALL] = [40, 12, 250, 190];
const SHAPES = {
  parallel: 'M-5 -5h10v10h-10z', hierarchical: 'M0 -6.5l6 11h-12z', mtp: 'M0 -5.5a5.5 5.5 0 1 0 .01 0z', adaptive: 'M0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z', hybrid: 'M0 -7l2 5h5l-4 3.5l1.5 5.5l-4.5 -3.5l-4.5 3.5l1.5 -5.5l-4 -3.5h5z',
  lookup: 'M-5 -5l10 10M5 -5l-10 10',
};

// `rows` are {family, survival}: shares by position, null where nothing was drafted.
export function survivalChart(t, rows) {
  const offsets = Math.max(1, ...rows.map(({ survival }) => survival.length));
  const x = (i) => LEFT + (offsets === 1 ? WIDE / 2 : (i / (offsets - 1)) * WIDE);
  const most = Math.ceil(4 * Math.max(0.25, ...rows.flatMap(({ survival }) => survival))) / 4;
  const y = (share) => TOP + (1 - share / most) * TALL;
  const names = rows.map(({ family, survival }) => ({ family, survival, at: y(survival.findLast((share) => share !== null) ?? 0) })).sort((a, b) => a.at - b.at);
  names.forEach((name, i) => { if (i) name.at = Math.max(name.at, names[i - 1].at + 17); }); // names never lie on each other
  const over = Math.max(0, (names.at(-1)?.at ?? 0) - (TOP + TALL - 2));
  return s('svg', { viewBox: `0 0 412 ${TOP + TALL + 44}`, role: 'img', 'aria-label': t('survival.title') },
    ...[0, 0.25, 0.5, 0.75, 1].filter((share) => share <= most).map((share) => s('g', { class: 'grid' }, s('path', { d: `M${LEFT} ${y(share)}h${WIDE}` }), label(LEFT - 7, y(share) + 4, percent(share), { 'text-anchor': 'end' }))),
    ...Array.from({ length: offsets }, (_, i) => label(x(i), TOP + TALL + 20, `+${i + 2}`, { class: 'ahead-by', 'text-anchor': 'middle' })),
    label(LEFT + WIDE / 2, TOP + TALL + 40, t('survival.axis'), { class: 'aside', 'text-anchor': 'middle' }),
    ...names.map(({ family, survival, at }) => {
      const points = survival.flatMap((share, i) => (share === null ? [] : [[x(i), y(share)]]));
      return s('g', { class: 'curve', 'data-family': family }, s('path', { class: 'line', d: `M${points.join('L')}` }),
        ...points.map(([px, py]) => s('path', { class: 'point', d: SHAPES[family] ?? SHAPES.mtp, transform: `translate(${px} ${py})` })),
        label(LEFT + WIDE + 12, at - over + 5, t(`family.${family}`)));
    }));
}

export function percent(share) {
  return `${(100 * share).toFixed(0)}%`;
}
