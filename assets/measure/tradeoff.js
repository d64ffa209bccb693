// Models of bytes trained with 1, 2, 4, 8 heads on an equal budget.

import { h } from '../stage/dom.js';
import { createAgain } from './again.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

const COLUMNS = ['heads', 'perplexity', 'speedup', 'bytes_per_round', 'efficiency', 'bleu.verified', 'bleu.unverified', 'ppl.verified', 'ppl.unverified'];

export function createTradeoff(t, { results: { tradeoff }, config, actions, memory }) {
  if (!tradeoff) return null;
  const body = h('div');
  const again = createAgain(t, { asked: 'tradeoff', takes: t('again.tradeoff', { seconds: config.tradeoff.seconds }), actions, memory, draw });

  function tableOf({ rows }) {
    return figureTable(t('tradeoff.title'), COLUMNS.map((name) => t(`tradeoff.${name}`)), rows.map(({ heads, quality, speed, efficiency }) => {
      const { alone, verified = alone, unverified } = quality.writing;
      return [String(heads), fixed(quality.perplexity, 3), speed.speedup === null ? '–' : `${fixed(speed.speedup)}×`, fixed(speed.bytes_per_round), fixed(efficiency, 3),
        fixed(verified?.bleu, 1), fixed(unverified?.bleu, 1), fixed(verified?.perplexity), fixed(unverified?.perplexity)];
    }));
  }

  function sizeOf({ rows }) {
    const [{ training, quality, speed }] = rows;
    return t('tradeoff.size', { seconds: Math.round(training.seconds), bytes: quality.bytes.toLocaleString('en'), documents: quality.documents, prompts: speed.prompts, tokens: speed.max_new_tokens });
  }

  function draw() {
    const { fresh } = memory;
    body.replaceChildren(tableOf(tradeoff), h('p', { class: 'note' }, sizeOf(tradeoff)), ...(tradeoff.provenance ? [sourceOf(t, tradeoff.provenance)] : []),
      ...(fresh ? [h('h4', { class: 'fresh' }, t('again.now')), tableOf(fresh), ...again.source(`${sizeOf(fresh)} ${t('tradeoff.fresh')}`)] : []));
  }

  draw();
  return {
    root: h('section', { class: 'page-part', id: 'measure-tradeoff' }, h('h3', {}, t('tradeoff.title')), h('p', { class: 'lead' }, t('tradeoff.lead')), body, h('p', { class: 'note' }, t('tradeoff.note')), again.root),
    show: again.show,
  };
}
