// Survival by position of each family, from `python -m mtviz heads`, and a table of what was measured. What was not, says so.

import { h } from '../stage/dom.js';
import { formatMean } from '../stage/format.js';
import { percent, survivalChart } from './chart.js';
import { FAMILIES, fileOf, megabytes, millions } from './families.js';

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
    figure.replaceChildren(survivalChart(t, shown));
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
    results.results.some(({ replayed }) => replayed) ? h('p', { class: 'note' }, t('survival.replayed')) : '',
    h('p', { class: 'note' }, t('survival.on', { prompts: prompts.count, file: prompts.file, most, model, dtype, device, date: runs.at(-1)?.date ?? '', interval })));
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
