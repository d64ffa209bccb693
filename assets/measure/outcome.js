// What a race came to, and why: a round's cost in plain passes against the tokens that it yields.

import { h } from '../stage/dom.js';
import { laneName } from './lanes.js';
import { barRows, figureTable, fixed } from './rows.js';

export function outcomeOf(t, race) {
  const { outcome, lanes } = race;
  return h('div', { class: 'outcome' },
    figureTable(t('outcome.table'), ['', t('axis.tokens'), t('axis.passes'), t('axis.seconds'), t('axis.speed')],
      outcome.lanes.map((lane, at) => [laneName(t, lanes[at]), String(lane.new_tokens), String(lane.passes), fixed(lane.seconds), fixed(lane.tokens_per_second, 1)])),
    ...(outcome.round ? [why(t, outcome)] : []));
}

function why(t, { round, ceiling }) {
  const rate = round.tokens / round.cost;
  const max = Math.max(ceiling, round.cost, 1);
  const loses = rate < 1;
  return h('div', { class: 'why-speed' }, h('h4', {}, t(loses ? 'why.slower' : 'why.faster')),
    barRows([
      { label: t('why.costs'), text: t('why.passes', { n: fixed(round.cost) }), parts: [
        { value: round.draft, kind: 'heads', title: t('why.draft', { n: fixed(round.draft) }) }, { value: round.pass, kind: 'trunk', title: t('why.pass', { n: fixed(round.pass) }) }] },
      { label: t('why.yields'), text: t('why.tokens', { n: fixed(round.tokens) }), parts: [
        { value: round.tokens, kind: 'accepted' }, { value: Math.max(0, ceiling - round.tokens), kind: 'missed', title: t('race.ceiling', { n: ceiling }) }] },
    ], max),
    h('p', {}, t('why.sum', { draft: fixed(round.draft), pass: fixed(round.pass), cost: fixed(round.cost), tokens: fixed(round.tokens), rate: fixed(rate), ms: fixed(round.milliseconds_per_plain_pass, 1) })),
    h('p', {}, loses ? t('why.even', { cost: fixed(round.cost), missing: fixed(round.cost - round.tokens) }) : '',
      ' ', t('why.ceiling', { ceiling, limit: fixed(ceiling / round.cost) })));
}
