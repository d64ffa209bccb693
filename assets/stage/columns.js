// The board: a column for each draft, with the gate (heads' bar, trunk's bar, the notch that the trunk must reach), the
// trunk's one pass across all of them, and the column of the token that the trunk itself emits.

import { h, setData, setText, setVar } from './dom.js';
import { fillChip, quoted } from './token.js';
import { formatPair, formatProb, formatRatio } from './format.js';
import { isForeign, judgesByMatch } from './judge.js';

export const SIGNS = { accepted: '✓', rejected: '✗', unjudged: '–', discarded: '⊘', recovered: '◆', bonus: '★', first: '▶', plain: '▶' };
const ZOOMS = [1, 5, 20, 100, 1000];

// `inspect(i)` is called where the visitor asks for more of draft i, or, by the number after the last, of what was emitted.
export function createColumns(t, inspect) {
  const bandText = h('span', { class: 'band-text' });
  const band = h('div', { class: 'band' }, h('div', { class: 'band-fill' }), h('div', { class: 'band-light' }), bandText);
  const list = h('div', { class: 'columns', role: 'list', 'aria-label': t('board.label') }, band);
  let columns = [];
  let emitted = null;
  let drawn = null;

  function asking(root, place) {
    const ask = () => root.tabIndex === 0 && inspect(Math.min(place(), drawn.view.drafts.length));
    root.addEventListener('click', ask);
    root.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.target !== root) return;
      event.preventDefault(); // else the same key would press the button that the focus moves to
      ask();
    });
  }

  // Before the verdicts are shown, a bet's columns say nothing of them.
  function names(betting) {
    const { view } = drawn;
    columns.forEach(({ root }, i) => root.setAttribute('aria-label', nameOf(view.drafts[i], i, betting, t)));
    emitted.root.setAttribute('aria-label', betting ? t('bet.none.label') : view.emitted ? t('column.emitted', { kind: t(`emitted.${view.emitted.kind}`), token: view.emitted.token ? quoted(view.emitted.token) : '' }) : t('board.empty'));
    emitted.root.tabIndex = betting || view.emitted?.token ? 0 : -1;
  }

  // As many draft columns as are asked for, so that columns keep their place from round to round.
  function layOut(slots) {
    if (columns.length === slots && emitted) return;
    columns = Array.from({ length: slots }, createColumn);
    columns.forEach(({ root }, i) => {
      root.style.setProperty('--i', i);
      asking(root, () => i);
    });
    emitted = createEmitted(t);
    asking(emitted.root, () => Infinity);
    list.replaceChildren(band, ...columns.map(({ root }) => root), emitted.root);
    list.style.setProperty('--slots', slots + 1);
    setData(list, 'size', slots > 5 ? 'many' : 'few');
    drawn = null;
  }

  function fill(pass, slots) {
    const { view } = pass;
    layOut(Math.max(slots, view.drafts.length));
    drawn = pass;
    const byMatch = judgesByMatch(view.settings.rule, view.settings.temperature);
    setData(list, 'rule', byMatch ? 'match' : view.settings.rule);
    columns.forEach((column, i) => fillColumn(column, view.drafts[i], view, t));
    fillEmitted(emitted, view, t);
    names(list.dataset.bet === 'asked');
  }

  return {
    root: list,
    get columns() { return columns; },
    get emitted() { return emitted; },
    // A bet is 'asked', 'placed' (on column `chosen`), or 'none'.
    bet(state, chosen) {
      setData(list, 'bet', state);
      if (!drawn) return;
      names(state === 'asked');
      [...columns.slice(0, drawn.view.drafts.length), emitted].forEach(({ root }, i) => setData(root, 'stake', state === 'placed' && i === chosen ? 'yes' : 'no'));
    },
    apply(pass, state, slots, bandLabel) {
      if (drawn !== pass || Math.max(slots, pass.view.drafts.length) !== columns.length) fill(pass, slots);
      setText(bandText, bandLabel);
      setVar(list, '--sweep', state.sweep);
      setData(list, 'pass', state.sweep === 0 ? 'before' : state.sweep < 1 ? 'now' : 'done');
      state.columns.forEach((now, i) => applyColumn(columns[i], pass.view.drafts[i].verdict, now));
      applyEmitted(emitted, pass.view, state);
    },
  };
}

function createColumn() {
  const parts = {
    chip: h('div', { class: 'chip' }),
    print: h('div', { class: 'print', 'aria-hidden': 'true' }),
    other: h('div', { class: 'chip other' }),
    equal: h('span', { class: 'equal' }),
    draftBar: h('div', { class: 'bar draft' }),
    targetBar: h('div', { class: 'bar target' }),
    draftFigure: h('span', { class: 'figure draft' }),
    targetFigure: h('span', { class: 'figure target' }),
    notch: h('div', { class: 'notch' }),
    zoom: h('span', { class: 'zoom' }),
    sign: h('div', { class: 'sign' }),
    left: h('span', { class: 'left' }),
    relation: h('span', { class: 'relation' }),
    right: h('span', { class: 'right' }),
    offset: h('div', { class: 'offset' }),
    stake: h('div', { class: 'stake', 'aria-hidden': 'true' }, '?'),
  };
  parts.root = h('div', { class: 'column', role: 'listitem' },
    h('div', { class: 'slot' }, parts.print, h('div', { class: 'mover' }, parts.chip)),
    h('div', { class: 'facing' }, parts.equal, parts.other),
    h('div', { class: 'gauge' },
      h('div', { class: 'track draft' }, parts.draftBar), h('div', { class: 'track target' }, parts.targetBar),
      parts.draftFigure, parts.targetFigure, parts.notch, parts.zoom),
    parts.sign,
    h('div', { class: 'held' }, parts.left, parts.relation, parts.right),
    parts.offset, parts.stake);
  return parts;
}

function fillColumn(column, draft, view, t) {
  setData(column.root, 'empty', draft ? 'no' : 'yes');
  setData(column.root, 'shown', 'no');
  column.root.tabIndex = draft ? 0 : -1;
  if (!draft) return;
  fillChip(column.chip, draft.token);
  column.print.title = titleOf(draft.token);
  column.other.title = titleOf(draft.trunk_token);
  fillChip(column.print, draft.token);
  fillChip(column.other, draft.trunk_token);
  setText(column.equal, draft.token.id === draft.trunk_token.id ? '=' : '≠');
  setData(column.root, 'same', draft.token.id === draft.trunk_token.id ? 'yes' : 'no');
  setData(column.root, 'verdict', draft.verdict);
  const foreign = isForeign(draft, view.settings);
  setData(column.root, 'own', foreign ? 'no' : 'yes');
  column.sign.title = foreign ? t('column.foreign', { trunk: quoted(draft.trunk_token) }) : '';
  const tallest = Math.max(draft.draft_prob, draft.target_prob, draft.gate ?? 0);
  const zoom = ZOOMS.findLast((factor) => factor * tallest <= 1) ?? 1;
  setVar(column.root, '--draft', draft.draft_prob * zoom);
  setVar(column.root, '--target', draft.target_prob * zoom);
  setVar(column.root, '--gate', (draft.gate ?? 0) * zoom);
  setVar(column.root, '--target-label', labelPlace(draft.target_prob * zoom, (draft.gate ?? 0) * zoom, 0.13));
  setVar(column.root, '--row-label', labelPlace(draft.target_prob * zoom, (draft.gate ?? 0) * zoom, 0.42));
  setText(column.zoom, zoom === 1 ? '' : `×${zoom}`);
  setText(column.draftFigure, formatProb(draft.draft_prob));
  setText(column.targetFigure, formatProb(draft.target_prob));
  setText(column.sign, SIGNS[draft.verdict]);
  const held = comparison(draft, view.settings);
  setText(column.left, held.left);
  setText(column.relation, held.relation);
  setText(column.right, held.right);
  setText(column.offset, t('column.offset', { offset: `+${draft.offset}` }));
  setVar(column.root, '--fly-x', '0px');
  setVar(column.root, '--fly-y', '0px');
}

function nameOf(draft, i, betting, t) {
  if (!draft) return t('board.empty');
  return betting ? t('bet.column', { n: i + 1, token: quoted(draft.token) }) : `${quoted(draft.token)} ${t(`verdict.${draft.verdict}`)}, ${t('micro.open')}`;
}

function titleOf(token) {
  return `${quoted(token)} · ${token.id}`;
}

// A figure stands on its bar, and on the notch where that is just above the bar and would cross it.
// `room`: how much of the scale a figure takes up; more along a phone's row than over a column.
export function labelPlace(bar, notch, room) {
  return notch > bar - 0.02 && notch - bar < room ? notch + 0.02 : bar;
}

// What is written under a column: the number that is held against the rule's, and their relation where it was judged.
export function comparison(draft, settings) {
  const judged = draft.verdict === 'accepted' || draft.verdict === 'rejected';
  const passed = draft.verdict === 'accepted';
  if (judgesByMatch(settings.rule, settings.temperature)) return { left: formatRatio(draft.ratio), relation: '', right: '' };
  if (settings.rule === 'typical') {
    const [left, right] = formatPair(draft.target_prob, draft.gate, formatProb);
    return { left, relation: judged ? (passed ? '≥' : '<') : '·', right };
  }
  if (draft.ratio === null) return { left: formatProb(draft.target_prob), relation: judged ? (passed ? '>' : '≤') : '·', right: '0' };
  const ratioRule = settings.rule === 'ratio';
  const [left, right] = formatPair(draft.ratio, ratioRule ? settings.threshold : draft.u);
  return { left, relation: judged ? (ratioRule ? (passed ? '≥' : '<') : passed ? '>' : '≤') : '·', right: ratioRule ? right : `⚄ ${right}` };
}

function applyColumn(column, verdict, now) {
  const { root } = column;
  setVar(root, '--out', now.out);
  setVar(root, '--rise', now.rise);
  setVar(root, '--drop', now.drop);
  setVar(root, '--verdict', now.verdict);
  setVar(root, '--shake', now.shake);
  setVar(root, '--leave', now.leave);
  setData(root, 'shown', now.verdict > 0.3 ? 'yes' : 'no');
  setData(root, 'judging', now.judging ? 'yes' : 'no');
}

function createEmitted(t) {
  const parts = {
    chip: h('div', { class: 'chip trunk' }),
    print: h('div', { class: 'print trunk', 'aria-hidden': 'true' }),
    targetBar: h('div', { class: 'bar target' }),
    targetFigure: h('span', { class: 'figure target' }),
    sign: h('div', { class: 'sign' }),
    why: h('div', { class: 'why' }),
    kind: h('div', { class: 'offset' }),
    stake: h('div', { class: 'stake', 'aria-hidden': 'true' }, t('bet.none')),
  };
  parts.root = h('div', { class: 'column emitted', role: 'listitem' },
    h('div', { class: 'slot' }, parts.print, h('div', { class: 'mover' }, parts.chip)),
    h('div', { class: 'facing' }),
    h('div', { class: 'gauge' }, h('div', { class: 'track target' }, parts.targetBar), parts.targetFigure),
    parts.sign, parts.kind, parts.why, parts.stake);
  return parts;
}

function fillEmitted(emitted, view, t) {
  const { root } = emitted;
  const token = view.emitted?.token;
  setData(root, 'kind', view.emitted?.kind ?? 'none');
  for (const element of [emitted.chip, emitted.print]) {
    if (token) fillChip(element, token);
    else setText(element, view.emitted ? t('emitted.redrawn') : t('emitted.none'));
  }
  setVar(root, '--target', view.emitted?.prob ?? 0);
  setVar(root, '--target-label', view.emitted?.prob ?? 0);
  setVar(root, '--row-label', view.emitted?.prob ?? 0);
  setText(emitted.targetFigure, view.emitted?.prob == null ? '' : formatProb(view.emitted.prob));
  const kind = view.kind === 'round' && !view.drafts.length ? 'plain' : view.emitted?.kind;
  const instead = view.emitted?.kind === 'recovered' ? quoted(view.drafts[view.accepted].token) : '';
  setText(emitted.sign, view.emitted ? SIGNS[kind] : '');
  setText(emitted.kind, view.emitted ? t(`emitted.${kind}`) : '');
  setText(emitted.why, view.emitted ? t(`emitted.${kind}.why`, { instead }) : '');
  setVar(root, '--fly-x', '0px');
  setVar(root, '--fly-y', '0px');
}

function applyEmitted(emitted, view, state) {
  const now = state.emitted;
  setVar(emitted.root, '--out', view.emitted ? now.out : 0);
  setVar(emitted.root, '--leave', view.emitted ? now.leave : 0);
}
