// A still of one round as SVG text: its board at rest, for slides and print. Built as elements, so that a token stays text.

import { SIGNS, comparison, labelPlace } from './columns.js';
import { quoted } from './token.js';
import { formatMs, formatProb } from './format.js';

const COLUMN = 132;
const INK = { accepted: '#009e73', rejected: '#d55e00', trunk: '#0072b2', heads: '#e69f00', plain: '#576071', dark: '#14181f' };
const LEFT = 24;
const TALL = 180; // of a probability of 1
const FOOT = 330;
const NO_XML = /[\0-\x1f\x7f\ufffe\uffff]|\p{Surrogate}/gu;

export function stillOf(t, { view }, before, place) {
  const width = LEFT * 2 + COLUMN * Math.max(4, view.drafts.length + 1);
  const root = s('svg', { width, height: 430, viewBox: `0 0 ${width} 430`, 'font-family': 'system-ui, sans-serif', 'font-size': 14, fill: INK.dark },
    s('rect', { width, height: 430, fill: '#fff' }), label(`… ${before.slice(-Math.floor(width / 11))}`, LEFT, 40, { 'font-size': 20 }), label(place, LEFT, 66, { fill: INK.plain }),
    s('rect', { x: LEFT, y: FOOT, width: width - 2 * LEFT, height: 22, rx: 6, fill: INK.trunk }),
    label(t('band', { n: view.drafts.length, ms: formatMs(view.seconds.verify) }), width / 2, FOOT + 16, { fill: '#fff', 'text-anchor': 'middle' }));
  view.drafts.forEach((draft, i) => {
    const { verdict, gate, draft_prob: draftProb, target_prob: targetProb } = draft;
    const held = comparison(draft, view.settings);
    const faint = { opacity: /^[ud]/.test(verdict) ? 0.45 : 1 };
    root.append(s('g', { transform: `translate(${LEFT + (i + 0.5) * COLUMN})`, 'text-anchor': 'middle' },
      ...chip(draft.token, INK[verdict] ?? INK.plain, verdict === 'accepted' ? '' : '5 3'),
      s('g', faint, bar(-40, draftProb, INK.heads, { fill: '#fdf1d8', stroke: INK.heads, 'stroke-dasharray': '4 3' }), bar(4, targetProb, INK.trunk, { fill: INK.trunk }, labelPlace(targetProb, gate ?? 0, 0.13)),
        ...(gate === null ? [] : [s('path', { d: `M-4 ${FOOT - gate * TALL}h52l8 -5v10l-8 -5`, stroke: INK.dark, 'stroke-width': 3 })])),
      label(`${SIGNS[verdict]} ${t(`verdict.${verdict}`)}`, 0, 376, { fill: INK[verdict] ?? INK.plain, 'font-weight': 700 }),
      label(gate === null ? (held.left === '–' ? '' : `${t('rail.facing')} ${quoted(draft.trunk_token)}`) : `${held.left} ${held.relation} ${held.right}`, 0, 398)));
  });
  if (view.emitted?.token) {
    const { kind, token, prob } = view.emitted;
    root.append(s('g', { transform: `translate(${LEFT + (view.drafts.length + 0.5) * COLUMN})`, 'text-anchor': 'middle' }, ...chip(token, INK.trunk, ''),
      ...(prob === null ? [] : [bar(-18, prob, INK.trunk, { fill: INK.trunk })]), label(`${SIGNS[kind]} ${t(`emitted.${kind}`)}`, 0, 376, { fill: INK.trunk, 'font-weight': 700 })));
  }
  return new XMLSerializer().serializeToString(root);
}

function chip(token, stroke, dashes) {
  const text = quoted(token).slice(2, -2);
  const width = COLUMN - 14;
  const tight = Array.from(text).length > 11 ? { textLength: width - 14, lengthAdjust: 'spacingAndGlyphs' } : {};
  return [s('rect', { x: -width / 2, y: 84, width, height: 36, rx: 9, fill: '#fff', stroke, 'stroke-width': 2, 'stroke-dasharray': dashes }), label(text, 0, 108, { 'font-size': 17, 'font-weight': 600, ...tight })];
}

function bar(x, prob, ink, look, labelAt = prob) {
  const height = Math.max(1, prob * TALL);
  return s('g', {}, s('rect', { x, y: FOOT - height, width: 36, height, ...look }), label(formatProb(prob), x + 18, FOOT - labelAt * TALL - 5, { fill: ink, 'font-size': 12 }));
}

function label(text, x, y, look = {}) {
  return s('text', { x, y, ...look }, text.replace(NO_XML, ' '));
}

function s(tag, props, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
