// Each proposal length: the measured speedup, and the one that follows from survival and the cost of a pass.

import { h } from '../stage/dom.js';
import { createAgain, secondsOf } from './again.js';
import { createPlot, ticksTo } from './plot.js';
import { figureTable, fixed } from './rows.js';
import { sourceOf } from './source.js';

export function createLengths(t, { results: { lengths }, predicted, config, actions, memory }) {
  if (!lengths) return null;
  const guess = new Map(predicted.map((row) => [row.num_draft_tokens, row]));
  const rows = lengths.rows.filter((row) => row.speedup !== null);
  const body = h('div');
  const size = config.sweep;
  const takes = t('again.sweep', { ...size, ways: lengths.rows.length + 2, seconds: Math.round(secondsOf(lengths, size)) });
  const again = createAgain(t, { asked: 'lengths', takes, actions, memory, draw });

  function draw() {
    const { fresh } = memory;
    const now = new Map((fresh?.rows ?? []).map((row) => [row.num_draft_tokens, row]));
    const points = (found) => found.filter((row) => row.speedup !== null).map((row) => [row.num_draft_tokens, row.speedup]);
    const lines = [
      { kind: 'predicted', name: t('lengths.predicted'), points: predicted.map((row) => [row.num_draft_tokens, row.predicted]), dots: true },
      { kind: 'measured', name: t(fresh ? 'lengths.recorded' : 'lengths.measured'), points: points(rows), dots: true },
      ...(fresh ? [{ kind: 'newly', name: t('again.now'), points: points(fresh.rows), dots: true }] : []),
    ];
    const top = 1.15 * Math.max(1, ...lines.flatMap((line) => line.points.map(([, value]) => value)));
    const plot = createPlot({
      label: t('lengths.plot'), x: [0.5, rows.at(-1).num_draft_tokens + 0.5], y: [0, top], xTicks: rows.map((row) => [row.num_draft_tokens, String(row.num_draft_tokens)]), yTicks: ticksTo(top, 4),
      xName: t('axis.length'), yName: t('axis.speedup'), mark: { value: 1, name: t('lengths.even') }, lines,
    });
    const head = ['axis.length', 'lengths.tokens', 'lengths.cost', 'lengths.predicted', 'lengths.measured', 'lengths.rolled_back'].map((key) => t(key));
    const headNow = ['lengths.tokens', 'lengths.measured', 'lengths.rolled_back'].map((key) => t('again.column', { what: t(key) }));
    body.replaceChildren(
      h('div', { class: fresh ? 'stacked' : 'beside' }, plot.root, figureTable(t('lengths.title'), fresh ? [...head, ...headNow] : head, rows.map((row) => {
        const own = guess.get(row.num_draft_tokens);
        const live = now.get(row.num_draft_tokens);
        return [String(row.num_draft_tokens), fixed(row.mean_acceptance_length), fixed(own?.cost), `${fixed(own?.predicted)}×`, `${fixed(row.speedup)}×`, percent(row.rolled_back),
          ...(fresh ? [fixed(live?.mean_acceptance_length), `${fixed(live?.speedup)}×`, percent(live?.rolled_back)] : [])];
      }), fresh ? 6 : undefined)),
      h('p', { class: 'note' }, noteOf(lengths)), sourceOf(t, lengths.provenance),
      ...(fresh ? again.source(noteOf(fresh)) : []));
  }

  function noteOf(found) {
    return t('lengths.note', { prompts: found.prompts, tokens: found.max_new_tokens, control: fixed(found.control.speedup) });
  }

  draw();
  return {
    root: h('section', { class: 'page-part', id: 'measure-lengths' }, h('h3', {}, t('lengths.title')), h('p', { class: 'lead' }, t('lengths.lead', { family: t(`drafter.${rows[0].family}`) })), body, again.root),
    show: again.show,
  };
}

export function percent(share) {
  return share === null || share === undefined ? '–' : `${(100 * share).toFixed(0)} %`;
}
