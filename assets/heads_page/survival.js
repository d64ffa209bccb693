// Survival by position of each family, from `python -m mtviz heads`, and a table of what was measured. What was not, says so.

import { h } from '../stage/dom.js';
import { formatMean } from '../stage/format.js';
import { FAMILIES, fileOf, megabytes, millions } from './families.js';
import { label, s } from './svg.js';

const [LEFT, TOP, WIDE, TALL] = [40, 12, 250, 190];
const SHAPES = {
  parallel: 'M-5 -5h10v10h-10z', hierarchical: 'M0 -6.5l6 11h-12z', mtp: 'M0 -5.5a5.5 5.5 0 1 0 .01 0z', adaptive: 'M0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z', lookup: 'M-5 -5l10 10M5 -5l-10 10',
};

// `state` is {rule}.
export function createSurvival(t, results, stored, state) {
  if (!results?.results.length) return h('p', { class: 'missing' }, t('missing.results'));
  const rules = [...new Set(results.results.map(({ rule }) => rule))];
  if (!rules.includes(state.rule)) [state.rule] = rules;
  const figure = h('div', { class: 'chart' });
  const table = h('div', { class: 'scroll' });
  const choices = rules.map((rule) => h('button', { type: 'button', class: 'example-chip', onclick: () => {
    state.rule = rule;
    draw();
  } }, t(`rule.${rule}`)));

  function draw() {
    choices.forEach((button, i) => button.setAttribute('aria-pressed', String(rules[i] === state.rule)));
    const rows = results.results.filter(({ rule }) => rule === state.rule);
    const longest = Math.max(...rows.map((row) => row.num_draft_tokens));
    const shown = rows.filter((row) => row.num_draft_tokens === longest);
    figure.replaceChildren(chartOf(t, shown));
    table.replaceChildren(tableOf(t, shown, stored, results, longest, rows));
  }

  draw();
  const { prompts, max_new_tokens: most, model, dtype, device, runs, interval } = results;
  const gains = (results.adaptive_against_fixed ?? []).map((row) => h('p', { class: 'telling' }, t(row.drafted <= 1 ? 'adaptive.saves' : 'adaptive.costs', {
    rule: t(`rule.${row.rule}`), n: row.num_draft_tokens, drafts: percent(Math.abs(1 - row.drafted)), length: percent(Math.abs(1 - row.mean_acceptance_length)),
    less: t(row.mean_acceptance_length <= 1 ? 'less' : 'more'),
  })));
  return h('div', { class: 'survival' }, rules.length > 1 ? h('div', { class: 'examples', role: 'group', 'aria-label': t('survival.rules') }, ...choices) : '',
    h('div', { class: 'measured' }, figure, table), ...gains,
    h('p', { class: 'note' }, t('survival.on', { prompts: prompts.count, file: prompts.file, most, model, dtype, device, date: runs.at(-1)?.date ?? '', interval })));
}

function chartOf(t, rows) {
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

function tableOf(t, shown, stored, results, longest, rows) {
  const found = new Map(shown.map((row) => [row.family, row]));
  const families = [...FAMILIES, ...[...found.keys()].filter((family) => !FAMILIES.includes(family))];
  const columns = ['mean', 'best', 'drafted', 'proposal', 'size', 'loops'];
  const line = (family) => {
    const row = found.get(family);
    const name = h('th', { scope: 'row', 'data-family': family }, t(`family.${family}`));
    if (!row) return h('tr', { class: 'missing' }, name, h('td', { colspan: columns.length }, t(fileOf(stored, family) ? 'missing.measured' : 'missing.file')));
    const [low, high] = row.mean_acceptance_length_interval ?? [null, null];
    const own = rows.filter((other) => other.family === family && other.mean_acceptance_length !== null);
    const best = own.reduce((a, b) => (b.mean_acceptance_length > a.mean_acceptance_length ? b : a), own[0]);
    const file = fileOf(stored, family);
    const old = row.heads_revision && file && file.fingerprint !== row.heads_revision;
    return h('tr', {}, name,
      h('td', {}, h('b', {}, formatMean(row.mean_acceptance_length)), low === null ? '' : h('small', {}, ` ${formatMean(low)}–${formatMean(high)}`), old ? h('small', { class: 'stale' }, ` ${t('survival.old')}`) : ''),
      h('td', {}, own.length > 1 ? `${formatMean(best.mean_acceptance_length)} ` : '–', own.length > 1 ? h('small', {}, t('survival.at', { n: best.num_draft_tokens })) : ''),
      h('td', {}, row.emitted ? formatMean(row.drafted / row.emitted) : '–'),
      h('td', {}, row.milliseconds_per_proposal === null ? '–' : row.milliseconds_per_proposal.toFixed(1)),
      h('td', {}, row.parameters ? `${millions(row.parameters)} · ${megabytes(row.bytes)}` : '–'),
      h('td', {}, `${row.looping_outputs}/${row.outputs}`, row.looping_mean_acceptance_length === null ? '' : h('small', {}, ` ${formatMean(row.looping_mean_acceptance_length)}`)));
  };
  return h('table', {}, h('caption', {}, t('table.caption', { n: longest })),
    h('thead', {}, h('tr', {}, h('th'), ...columns.map((name) => h('th', { scope: 'col', title: t(`table.${name}.tip`) }, t(`table.${name}`))))),
    h('tbody', {}, ...families.map(line)));
}

function percent(share) {
  return `${(100 * share).toFixed(0)}%`;
}
