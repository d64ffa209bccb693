// The sentence: prompt, then each round's text. The round on the stage is its tail, where guesses stand before they are
// judged. Words are plain inline spans, so that shaping and right-to-left order work as in any text.

import { h, setData } from './dom.js';
import { hexOf } from './utf8.js';

// So many passes keep their tint; what is further back is one piece of text, which costs little to lay out.
const TINTED = 32;
const TINTED_STEP = 16;

export function createSentence(t) {
  const prompt = h('span', { class: 'prompt' });
  const older = h('span', { class: 'older' });
  const tinted = h('span', {});
  const tail = h('span', { class: 'tail' });
  const ending = h('span', { class: 'ending', hidden: true });
  const root = h('p', { class: 'sentence', dir: 'auto' }, prompt, older, tinted, tail, ending);
  const box = h('div', { class: 'sentence-box', tabindex: 0, role: 'group', 'aria-label': t('sentence.label') }, root);
  let run = null;
  let drawn = null;
  let first = 0; // passes from here to `next` stand as tinted text, those before as older text
  let next = 0;
  let words = [];
  let emittedWord = null;
  let lead = null;

  function begin(started) {
    run = started;
    drawn = null;
    first = next = 0;
    older.textContent = '';
    tinted.replaceChildren();
    prompt.textContent = run.trace.prompt.text + (run.trace.settings.raw ? '' : '\n');
  }

  function fillTail({ view, at }) {
    lead = view.pending.length ? hexChip(view.pending) : null;
    words = view.pieces.map((piece) => wordOf(piece, 'word guess'));
    emittedWord = view.emittedPiece ? wordOf(view.emittedPiece, 'word emitted') : null;
    if (view.emitted && !emittedWord) emittedWord = h('span', { class: 'word emitted hex' }, t('emitted.redrawn'));
    tail.dataset.tint = at % 2;
    tail.replaceChildren(...[lead, ...words, emittedWord].filter(Boolean));
  }

  // Shows the passes before `at` as past text; a step forward costs one pass, any other move at most the tinted ones.
  function moveTo(at) {
    const start = Math.max(0, Math.floor((at - TINTED) / TINTED_STEP) * TINTED_STEP);
    if (start !== first || at < next) {
      older.textContent = run.passes.slice(0, start).map(({ view }) => textOf(view).join('')).join('');
      tinted.replaceChildren();
      first = next = start;
    }
    tinted.append(...run.passes.slice(next, at).map(pastSpan));
    next = Math.max(next, at);
  }

  return {
    box, begin,
    get words() { return words; },
    get emittedWord() { return emittedWord; },
    apply(pass, state) {
      const { view } = pass;
      if (drawn !== pass) {
        drawn = pass;
        moveTo(pass.at);
        fillTail(pass);
      }
      const chips = [lead];
      state.columns.forEach((now, i) => {
        const { verdict } = view.drafts[i];
        const word = words[i];
        const kept = verdict === 'accepted';
        word.hidden = !kept && now.leave === 1;
        setData(word, 'state', now.verdict > 0.3 ? verdict : 'guess');
        word.style.opacity = kept ? now.out : now.out * (1 - now.leave);
        if (now.out > 0 && !word.hidden) chips.push(word.querySelector('.hex'));
      });
      if (emittedWord) {
        emittedWord.hidden = state.ms < pass.marks.emit;
        emittedWord.style.opacity = Math.max(0, state.emitted.leave * 4 - 3);
        if (state.emitted.leave === 1) chips.push(emittedWord.querySelector('.hex'));
      }
      hideAllButLast(chips);
      const over = run.trace.finish_reason !== null && pass.at === run.passes.length - 1 && state.counted;
      if (over && ending.hidden) ending.textContent = t(`finish.${run.trace.finish_reason}`);
      ending.hidden = !over;
    },
  };
}

export function textOf(view) {
  return [view.pieces.slice(0, view.accepted).map(({ text }) => text).join(''), view.emittedPiece?.text ?? ''];
}

function pastSpan({ view, at }) {
  const [accepted, emitted] = textOf(view);
  return h('span', { class: 'round', 'data-tint': at % 2 }, h('span', { class: 'word accepted' }, accepted), h('span', { class: 'word emitted' }, emitted));
}

function wordOf(piece, name) {
  const word = h('span', { class: name }, piece.text);
  if (piece.sign) word.append(h('span', { class: 'end-sign' }, piece.sign));
  else if (piece.pending.length) word.append(hexChip(piece.pending));
  return word;
}

function hexChip(bytes) {
  return h('span', { class: 'hex' }, hexOf(bytes));
}

// Bytes of an unfinished character stand as a chip only until the next token goes on with them.
function hideAllButLast(chips) {
  chips.forEach((chip, i) => {
    if (chip) chip.hidden = i < chips.length - 1;
  });
}
