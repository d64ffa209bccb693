// Each proposal length: the measured speedup, and the one that follows from survival and the cost of a pass.

import { h } from '../stage/dom.js';
import { createPlot, ticksTo } from './plot.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

export function createLengths(t, { results: { lengths }, predicted }) {
  if (!lengths) return null;
  const guess = new Map(predicted.map((row) => [row.num_draft_tokens, row]));
  const rows = lengths.rows.filter((row) => row.speedup !== null);
  const top = 1.15 * Math.max(1, ...rows.map((row) => row.speedup), ...predicted.map((row) => row.predicted));
  const longest = rows.at(-1).num_draft_tokens;
  const plot = createPlot({
    label: t('lengths.plot'), x: [0.5, longest + 0.5], y: [0, top], xTicks: rows.map((row) => [row.num_draft_tokens, String(row.num_draft_tokens)]), yTicks: ticksTo(top, 4),
    xName: t('axis.length'), yName: t('axis.speedup'), mark: { value: 1, name: t('lengths.even') },
    lines: [
      { kind: 'predicted', name: t('lengths.predicted'), points: predicted.map((row) => [row.num_draft_tokens, row.predicted]), dots: true },
      { kind: 'measured', name: t('lengths.measured'), points: rows.map((row) => [row.num_draft_tokens, row.speedup]), dots: true },
    ],
  });
  return {
    root: h('section', { class: 'page-part', id: 'measure-lengths' }, h('h3', {}, t('lengths.title')), h('p', { class: 'lead' }, t('lengths.lead', { family: t(`drafter.${rows[0].family}`) })), 
      h('div', { class: 'beside' }, plot.root, figureTable(t('lengths.title'), ['axis.length', 'lengths.tokens', 'lengths.cost', 'lengths.predicted', 'lengths.measured', 'lengths.rolled_back'].map((key) => t(key)), rows.map((row) => {
        const own = guess.get(row.num_draft_tokens);
        return [String(row.num_draft_tokens), fixed(row.mean_acceptance_length), fixed(own?.cost), `${fixed(own?.predicted)}×`, `${fixed(row.speedup)}×`, percent(row.rolled_back)];
      }))),
      h('p', { class: 'note' }, t('lengths.note', { prompts: lengths.prompts, tokens: lengths.max_new_tokens, control: fixed(lengths.control.speedup) })),
      sourceOf(t, lengths.provenance)),
  };
}

export function percent(share) {
  return share === null ? '–' : `${(100 * share).toFixed(0)} %`;
}
