// What a lower threshold buys and what it costs: tokens a round and speed against perplexity and bias.

import { h } from '../stage/dom.js';
import { createAgain, secondsOf } from './again.js';
import { percent } from './lengths.js';
import { createPlot, ticksTo } from './plot.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

export function createThresholds(t, { results: { thresholds }, config, actions, memory }) {
  if (!thresholds) return null;
  const { rows } = thresholds;
  const body = h('div');
  const size = config.sweep;
  const takes = t('again.sweep', { ...size, ways: rows.length + 2, seconds: Math.round(secondsOf(thresholds, size)) });
  const again = createAgain(t, { asked: 'thresholds', takes, actions, memory, draw });
  const nameOf = (row) => (row.rule === 'match' ? t('form.exact') : String(row.threshold));

  // The fresh row of each recorded one.
  function freshRows() {
    return memory.fresh && rows.map((row) => memory.fresh.rows.find((other) => nameOf(other) === nameOf(row)));
  }

  function plotOf(field, kind) {
    const points = (found) => found.map((row, at) => [at, row?.[field] ?? null]).filter(([, value]) => value !== null);
    const now = freshRows();
    const lines = [{ kind, name: t(now ? 'lengths.recorded' : `thresholds.${field}`), points: points(rows), dots: true }, ...(now ? [{ kind: 'newly', name: t('again.now'), points: points(now), dots: true }] : [])];
    const top = 1.12 * Math.max(...lines.flatMap((line) => line.points.map(([, value]) => value)));
    return createPlot({
      label: t(`thresholds.${field}`), x: [-0.5, rows.length - 0.5], y: [0, top], xTicks: rows.map((row, at) => [at, nameOf(row)]), yTicks: ticksTo(top, 4),
      xName: t('axis.threshold'), yName: t(`thresholds.${field}`), lines,
    }).root;
  }

  function draw() {
    const { fresh } = memory;
    const now = freshRows();
    const head = ['axis.threshold', 'lengths.tokens', 'thresholds.speedup', 'thresholds.acceptance_rate', 'thresholds.mean_bias_tv', 'thresholds.perplexity', 'thresholds.identical'].map((key) => t(key));
    const headNow = ['lengths.tokens', 'thresholds.speedup', 'thresholds.mean_bias_tv', 'thresholds.perplexity'].map((key) => t('again.column', { what: t(key) }));
    body.replaceChildren(
      h('div', { class: 'pair' }, plotOf('speedup', 'measured'), plotOf('perplexity', 'loss')),
      figureTable(t('thresholds.title'), fresh ? [...head, ...headNow] : head, rows.map((row, at) => {
        const live = now?.[at];
        return [nameOf(row), fixed(row.mean_acceptance_length), `${fixed(row.speedup)}×`, percent(row.acceptance_rate), fixed(row.mean_bias_tv), fixed(row.perplexity), `${row.identical}/${thresholds.prompts}`,
          ...(now ? [fixed(live?.mean_acceptance_length), `${fixed(live?.speedup)}×`, fixed(live?.mean_bias_tv), fixed(live?.perplexity)] : [])];
      }), fresh ? 7 : undefined),
      h('p', { class: 'note' }, noteOf(thresholds)), sourceOf(t, thresholds.provenance),
      ...(fresh ? again.source(noteOf(fresh)) : []));
  }

  function noteOf(found) {
    return t('thresholds.note', { prompts: found.prompts, tokens: found.max_new_tokens, n: rows[0].num_draft_tokens, perplexity: fixed(found.plain.perplexity) });
  }

  draw();
  return {
    root: h('section', { class: 'page-part', id: 'measure-quality' }, h('h3', {}, t('thresholds.title')), h('p', { class: 'lead' }, t('thresholds.lead')), body, again.root),
    show: again.show,
  };
}
