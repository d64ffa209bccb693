// The whole text of a recorded run. When another run takes its place, the words that stay glide to where they now stand
// and new ones fade in; a word that the exact text lacks carries a dot.

import { counts } from './counts.js';
import { formatMean } from './format.js';
import { h, scaleOf, setText, setVar } from './dom.js';
import { MORPH } from './time.js';
import { textOf } from './sentence.js';

export function createWhole(t, still) {
  const prompt = h('span', { class: 'prompt' });
  const said = h('span', {});
  const differing = h('span', { class: 'differing' });
  const meter = h('i', { class: 'law-bar' });
  const drift = h('span', {});
  const line = h('p', { class: 'drift', title: t('count.mean_bias_tv.definition') }, differing, drift, h('span', { class: 'bias' }, meter));
  const root = h('div', { class: 'whole' }, h('p', { class: 'sentence', dir: 'auto' }, prompt, said), line);
  let shown = [];
  let parts = new Map();
  let here = null;
  let glides = null; // begun once the words stand where they shall, and are scrolled to

  return {
    root,
    get note() { return `${differing.textContent} ${drift.textContent}`; },
    // `exact`: the words of the exact text.
    show(run, exact) {
      const before = new Map(shown.map(({ element }) => [element, element.getClientRects()[0]]));
      const words = wordsOf(run);
      const kept = matched(shown, words);
      const same = matched(exact, words);
      parts = new Map();
      here = null;
      words.forEach((word, i) => {
        const pieces = word.parts.map(({ text, kind, at }) => {
          const piece = h('span', { class: `word ${kind}`, 'data-tint': at % 2 }, text);
          parts.set(at, [...(parts.get(at) ?? []), piece]);
          return piece;
        });
        word.element = h('span', { class: `said round${same[i] < 0 ? ' differs' : ''}` }, ...pieces);
      });
      setText(prompt, run.trace.prompt.text + (run.trace.settings.raw ? '' : '\n'));
      said.replaceChildren(...words.flatMap(({ lead, element }) => [lead, element]));
      const differ = same.filter((at) => at < 0).length;
      const { mean_bias_tv: tv } = counts(run.trace);
      setText(differing, t(differ ? 'atlas.differ' : 'atlas.same', { n: differ, of: words.length }));
      setText(drift, t('atlas.drift', { tv: formatMean(tv) }));
      setVar(meter, '--share', tv ?? 0);
      const old = shown;
      glides = !still() && old.length && (() => words.forEach(({ element }, i) => glide(element, before.get(old[kept[i]]?.element), scaleOf(root))));
      shown = words;
    },
    // The pass that the board shows.
    at(pass) {
      if (pass === here) return;
      for (const at of [here, pass]) parts.get(at)?.forEach((piece) => piece.classList.toggle('here', at === pass));
      here = pass;
      toSight(parts.get(pass)?.[0]);
      if (glides) glides();
      glides = null;
    },
  };
}

// Scrolls its box alone, and only where it cannot be seen.
function toSight(piece) {
  if (!piece?.offsetParent) return;
  const box = piece.closest('.sentence-box');
  const [seen, at] = [box.getBoundingClientRect(), piece.getBoundingClientRect()];
  if (at.top < seen.top || at.bottom > seen.bottom) box.scrollBy(0, (at.top - seen.top - seen.height / 3) / scaleOf(box));
}

// Words stay inline, for the order of right-to-left text: what moves an inline box is its offset.
function glide(element, from, scale) {
  if (!from) return element.animate([{ opacity: 0 }, { opacity: 1 }], MORPH);
  const to = element.getClientRects()[0];
  const [x, y] = [(from.left - to.left) / scale, (from.top - to.top) / scale];
  if (Math.abs(x) + Math.abs(y) > 1) element.animate([{ left: `${x}px`, top: `${y}px` }, { left: 0, top: 0 }], MORPH);
}

// Words with the blanks that lead to them, each in parts by the pass that wrote them.
export function wordsOf(run) {
  const words = [];
  for (const { view, at } of run.passes) {
    textOf(view).forEach((text, i) => {
      for (const piece of text.match(/\s+|\S+/g) ?? []) {
        const blank = /\s/.test(piece);
        const last = words.at(-1);
        if (!last || (blank && last.parts.length)) words.push({ lead: '', text: '', parts: [] });
        const word = words.at(-1);
        if (blank) word.lead += piece;
        else {
          word.text += piece;
          word.parts.push({ text: piece, kind: i ? 'emitted' : 'accepted', at });
        }
      }
    });
  }
  return words;
}

// For each of b the index of the word of a that it is, in a longest common subsequence; -1 where it is new.
export function matched(a, b) {
  const long = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  const equal = (i, j) => a[i].text === b[j].text;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) long[i][j] = equal(i, j) ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
  }
  const from = Array(b.length).fill(-1);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (equal(i, j)) from[j++] = i++;
    else if (long[i + 1][j] >= long[i][j + 1]) i += 1;
    else j += 1;
  }
  return from;
}
