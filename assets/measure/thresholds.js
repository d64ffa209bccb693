// What a lower threshold buys and what it costs: tokens a round and speed against perplexity and bias.

import { h } from '../stage/dom.js';
import { percent } from './lengths.js';
import { createPlot, ticksTo } from './plot.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

export function createThresholds(t, { results: { thresholds } }) {
  if (!thresholds) return null;
  const { rows } = thresholds;
  const nameOf = (row) => (row.rule === 'match' ? t('form.exact') : String(row.threshold));
  const plotOf = (field, kind) => {
    const known = rows.map((row, at) => [at, row[field]]).filter(([, value]) => value !== null);
    const top = 1.12 * Math.max(...known.map(([, value]) => value));
    return createPlot({
      label: t(`thresholds.${field}`), x: [-0.5, rows.length - 0.5], y: [0, top], xTicks: rows.map((row, at) => [at, nameOf(row)]), yTicks: ticksTo(top, 4),
      xName: t('axis.threshold'), yName: t(`thresholds.${field}`), lines: [{ kind, name: t(`thresholds.${field}`), points: known, dots: true }],
    }).root;
  };
  return {
    root: h('section', { class: 'page-part', id: 'measure-quality' }, h('h3', {}, t('thresholds.title')), h('p', { class: 'lead' }, t('thresholds.lead')),
      h('div', { class: 'pair' }, plotOf('speedup', 'measured'), plotOf('perplexity', 'loss')),
      figureTable(t('thresholds.title'), ['axis.threshold', 'lengths.tokens', 'thresholds.speedup', 'thresholds.acceptance_rate', 'thresholds.mean_bias_tv', 'thresholds.perplexity', 'thresholds.identical'].map((key) => t(key)),
        rows.map((row) => [nameOf(row), fixed(row.mean_acceptance_length), `${fixed(row.speedup)}×`, percent(row.acceptance_rate), fixed(row.mean_bias_tv), fixed(row.perplexity), `${row.identical}/${thresholds.prompts}`])),
      h('p', { class: 'note' }, t('thresholds.note', { prompts: thresholds.prompts, tokens: thresholds.max_new_tokens, n: rows[0].num_draft_tokens, perplexity: fixed(thresholds.plain.perplexity) })),
      sourceOf(t, thresholds.provenance)),
  };
}
