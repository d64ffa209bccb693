// Models of bytes trained with 1, 2, 4, 8 heads on an equal budget.

import { h } from '../stage/dom.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

const COLUMNS = ['heads', 'perplexity', 'speedup', 'bytes_per_round', 'efficiency', 'bleu.verified', 'bleu.unverified', 'ppl.verified', 'ppl.unverified'];

export function createTradeoff(t, { results: { tradeoff } }) {
  if (!tradeoff) return null;
  return {
    root: h('section', { class: 'page-part', id: 'measure-tradeoff' }, h('h3', {}, t('tradeoff.title')), h('p', { class: 'lead' }, t('tradeoff.lead')),
      figureTable(t('tradeoff.title'), COLUMNS.map((name) => t(`tradeoff.${name}`)), tradeoff.rows.map(({ heads, quality, speed, efficiency }) => {
        const { alone, verified = alone, unverified } = quality.writing;
        return [String(heads), fixed(quality.perplexity, 3), speed.speedup === null ? '–' : `${fixed(speed.speedup)}×`, fixed(speed.bytes_per_round), fixed(efficiency, 3),
          fixed(verified?.bleu, 1), fixed(unverified?.bleu, 1), fixed(verified?.perplexity), fixed(unverified?.perplexity)];
      })),
      h('p', { class: 'note' }, t('tradeoff.note')),
      ...(tradeoff.provenance ? [sourceOf(t, tradeoff.provenance)] : [])),
  };
}
