// The round in the stage's grammar (and its style): a bar for the heads, a bar for the trunk, the notch to be reached.

import { h, setData, setText, setVar } from '../stage/dom.js';
import { formatPair, formatProb, formatRatio } from '../stage/format.js';

const SIGNS = { accepted: '✓', rejected: '✗', unjudged: '–', unproposed: '' };
const ZOOMS = [1, 5, 20, 100, 1000];
const CALM = { '--out': 1, '--rise': 1, '--drop': 1, '--verdict': 1, '--shake': 0, '--leave': 0 };

// `place(at)` is called where a bet is placed on a row, or by the number of proposed rows on all of them.
export function createBoard(t, place) {
  const list = h('div', { class: 'columns', role: 'list', 'aria-label': t('board'), 'data-rule': 'ratio' });
  const suffix = h('div', { class: 'suffix' });
  const sentence = h('p', { class: 'caption', 'aria-live': 'polite' });
  const legend = h('p', { class: 'legend' },
    h('span', { class: 'swatch heads' }), t('legend.heads'), h('span', { class: 'swatch trunk' }), t('legend.trunk'),
    h('span', { class: 'swatch gate' }, '◀'), t('legend.gate'), h('span', { class: 'held-legend' }, t('legend.held')));
  const none = h('button', { type: 'button', class: 'stay', onclick: () => place(proposed) }, t('bet.none'));
  let columns = [];
  let proposed = 0;

  function createBettable(_, at) {
    const column = createColumn(_, at);
    const bet = () => list.dataset.bet === 'asked' && at < proposed && place(at);
    column.root.addEventListener('click', bet);
    column.root.addEventListener('keydown', ({ key }) => key === 'Enter' && bet());
    return column;
  }

  // Until a bet is placed, nothing here says how the round was judged.
  function showBet(round, bet) {
    const asked = bet?.chosen === null;
    setData(list, 'bet', asked ? 'asked' : bet ? 'placed' : 'none');
    none.hidden = !asked;
    columns.forEach(({ root }, at) => {
      root.tabIndex = asked && at < proposed ? 0 : -1;
      setData(root, 'shown', asked ? 'no' : 'yes');
      setData(root, 'stake', bet?.chosen === at ? 'yes' : 'no');
      if (asked) root.setAttribute('aria-label', t('bet.column', { row: at + 1, token: round.rows[at].token }));
    });
    const told = bet && !asked ? `${t(bet.right ? 'bet.right' : 'bet.wrong')} ${t('bet.score', bet.score)} ` : '';
    setText(sentence, asked ? t('bet.ask') : told + sentenceOf(round, t));
  }

  return {
    root: h('div', { class: 'round' }, h('div', { class: 'said-row' }, sentence, none), h('div', { class: 'board' }, list, suffix), legend),
    // `reveal`: the verdicts come one after the other, as they were given.
    draw(round, reveal, bet) {
      proposed = round.result.proposed_tokens.length;
      if (columns.length !== round.rows.length) {
        columns = round.rows.map(createBettable);
        list.replaceChildren(...columns.map(({ root }) => root));
        setVar(list, '--slots', columns.length);
        setData(list, 'size', columns.length > 5 ? 'many' : 'few');
      }
      round.rows.forEach((row, at) => fillColumn(columns[at], row, round.min_accept_ratio, t));
      list.getAnimations({ subtree: true }).forEach((animation) => animation.cancel());
      if (reveal) columns.forEach(({ sign }, at) => animateSign(sign, at));
      const rolledBack = round.result.rejected_suffix;
      setData(suffix, 'empty', rolledBack.length ? 'no' : 'yes');
      setText(suffix, `↩ ${t('suffix', { tokens: listed(rolledBack) })}`);
      setVar(suffix, '--from', round.result.rejected_at ?? 0);
      setVar(suffix, '--length', rolledBack.length);
      setVar(suffix, '--slots', columns.length);
      showBet(round, bet);
    },
  };
}

function createColumn(_, at) {
  const parts = {
    chip: h('div', { class: 'chip' }), draftFigure: h('span', { class: 'figure draft' }), targetFigure: h('span', { class: 'figure target' }),
    sign: h('div', { class: 'sign', 'aria-hidden': 'true' }), left: h('span', { class: 'left' }), relation: h('span', { class: 'relation' }), zoom: h('span', { class: 'zoom' }),
    right: h('span', { class: 'right' }), word: h('div', { class: 'word-of-verdict' }), stake: h('div', { class: 'stake', 'aria-hidden': 'true' }, '?'),
  };
  parts.root = h('div', { class: 'column', role: 'listitem', 'data-shown': 'yes' },
    h('div', { class: 'slot' }, h('div', { class: 'mover' }, parts.chip)),
    h('div', { class: 'gauge' },
      h('div', { class: 'track draft' }, h('div', { class: 'bar draft' })), h('div', { class: 'track target' }, h('div', { class: 'bar target' })),
      parts.draftFigure, parts.targetFigure, h('div', { class: 'notch' }), parts.zoom),
    parts.sign, h('div', { class: 'held' }, parts.left, parts.relation, parts.right), parts.word, parts.stake);
  for (const [name, value] of Object.entries({ ...CALM, '--i': at })) parts.root.style.setProperty(name, value);
  return parts;
}

function fillColumn(column, row, threshold, t) {
  const { root } = column;
  setData(root, 'verdict', row.verdict);
  const tallest = Math.max(row.draft_prob, row.target_prob);
  const zoom = tallest > 0 ? ZOOMS.findLast((factor) => factor * tallest <= 1) : 1;
  const [draft, target, gate] = [row.draft_prob, row.target_prob, row.gate].map((prob) => prob * zoom);
  setVar(root, '--draft', draft);
  setVar(root, '--target', target);
  setVar(root, '--gate', gate);
  setVar(root, '--target-label', labelPlace(target, gate, 0.13));
  setVar(root, '--row-label', labelPlace(target, gate, 0.42));
  setText(column.zoom, zoom === 1 ? '' : `×${zoom}`);
  setText(column.chip, String(row.token));
  setText(column.draftFigure, formatProb(row.draft_prob));
  setText(column.targetFigure, formatProb(row.target_prob));
  setText(column.sign, SIGNS[row.verdict]);
  const { left, relation, right } = comparison(row, threshold);
  setText(column.left, left);
  setText(column.relation, relation);
  setText(column.right, right);
  setText(column.word, t(`verdict.${row.verdict}`));
  root.setAttribute('aria-label', t('column', {
    token: row.token, verdict: t(`verdict.${row.verdict}`), target: formatProb(row.target_prob), draft: formatProb(row.draft_prob),
    gate: formatProb(row.gate), ratio: formatRatio(row.ratio),
  }));
}

// A figure stands on its bar, and on the notch where that would strike it out. `room`: the part of the scale that it takes up.
function labelPlace(bar, notch, room) {
  return notch > bar - 0.02 && notch - bar < room ? notch + 0.02 : bar;
}

function comparison({ ratio, target_prob: target, verdict }, threshold) {
  const judged = verdict === 'accepted' || verdict === 'rejected';
  const passed = verdict === 'accepted';
  if (verdict === 'unproposed') return { left: '', relation: '', right: '' };
  if (ratio === null) return { left: formatProb(target), relation: judged ? (passed ? '>' : '≤') : '·', right: '0' };
  const [left, right] = formatPair(ratio, threshold);
  return { left, relation: judged ? (passed ? '≥' : '<') : '·', right };
}

function animateSign(sign, at) {
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  sign.animate([{ transform: 'scale(0)', opacity: 0 }, { transform: 'scale(1.25)', opacity: 1 }, { transform: 'scale(1)', opacity: 1 }],
    { duration: 240, delay: at * 240, fill: 'backwards' });
}

function sentenceOf({ rows, result, min_accept_ratio: threshold }, t) {
  const accepted = listed(result.accepted_tokens);
  if (result.rejected_at === null) return t('sum.all', { n: result.accepted_len, accepted });
  const { token, draft_prob: draft, target_prob: prob, gate } = rows[result.rejected_at];
  const [target, needed] = formatPair(prob, gate, formatProb);
  return t(draft > 0 ? 'sum.rejected' : 'sum.zero', {
    accepted, token, target, threshold, draft: formatProb(draft), gate: needed, suffix: listed(result.rejected_suffix),
  });
}

function listed(tokens) {
  return `[${tokens.join(', ')}]`;
}
