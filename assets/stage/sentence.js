// The sentence: prompt, then each round's text. The round on the stage is its tail, where guesses stand before they are
// judged. Words are plain inline spans, so that shaping and right-to-left order work as in any text.

import { h, setData } from './dom.js';
import { hexOf } from './utf8.js';

export function createSentence(t) {
  const prompt = h('span', { class: 'prompt' });
  const tail = h('span', { class: 'tail' });
  const ending = h('span', { class: 'ending', hidden: true });
  const root = h('p', { class: 'sentence', dir: 'auto' }, prompt, tail, ending);
  const box = h('div', { class: 'sentence-box', tabindex: 0, role: 'group', 'aria-label': t('sentence.label') }, root);
  let past = [];
  let run = null;
  let drawn = null;
  let shown = 0; // passes before this one are in view as past text
  let words = [];
  let emittedWord = null;
  let lead = null;

  function begin(next) {
    past.forEach((span) => span.remove());
    past = [];
    shown = 0;
    run = next;
    drawn = null;
    prompt.textContent = next.trace.prompt.text;
    setData(root, 'raw', next.trace.settings.raw ? 'yes' : 'no');
  }

  function append(passes) {
    for (const { view, at } of passes) {
      const span = h('span', { class: 'round', hidden: true, 'data-tint': at % 2 });
      const accepted = view.pieces.slice(0, view.accepted).map(({ text }) => text).join('');
      if (accepted) span.append(h('span', { class: 'word accepted' }, accepted));
      if (view.emittedPiece) span.append(h('span', { class: 'word emitted' }, view.emittedPiece.text));
      past.push(span);
      tail.before(span);
    }
  }

  function fillTail({ view, at }) {
    lead = view.pending.length ? hexChip(view.pending) : null;
    words = view.pieces.map((piece) => wordOf(piece, 'word guess'));
    emittedWord = view.emittedPiece ? wordOf(view.emittedPiece, 'word emitted') : null;
    if (view.emitted && !emittedWord) emittedWord = h('span', { class: 'word emitted hex' }, t('emitted.redrawn'));
    tail.dataset.tint = at % 2;
    tail.replaceChildren(...[lead, ...words, emittedWord].filter(Boolean));
  }

  // Shows the passes before `at` as past text; costs only those between the old place and the new.
  function moveTo(at) {
    for (; shown < at; shown += 1) past[shown].hidden = false;
    for (; shown > at; shown -= 1) past[shown - 1].hidden = true;
  }

  return {
    box, begin, append,
    get words() { return words; },
    get emittedWord() { return emittedWord; },
    apply(pass, state) {
      const { view } = pass;
      const fresh = drawn !== pass;
      if (fresh) {
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
      const endsNow = over && ending.hidden;
      ending.hidden = !over;
      if (endsNow) ending.textContent = t(`finish.${run.trace.finish_reason}`);
      if (fresh || endsNow) box.scrollTop = box.scrollHeight;
    },
  };
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
