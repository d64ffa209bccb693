// Where chips fly to: from their place on the board to their word in the sentence. Measured once a pass and size.

import { clamp, scaleOf, setVar } from './dom.js';

export function createFlight(columns, sentence) {
  let measured = new Map();

  function aim(column, word) {
    if (measured.has(column.root)) return;
    const from = column.print.getBoundingClientRect();
    const target = word.getClientRects()[0] ?? word.getBoundingClientRect();
    const box = sentence.box.getBoundingClientRect();
    measured.set(column.root, true);
    const x = clamp(target.left + target.width / 2, box.left, box.right) - (from.left + from.width / 2);
    const y = clamp(target.top + target.height / 2, box.top, box.bottom) - (from.top + from.height / 2);
    const scale = scaleOf(sentence.box);
    setVar(column.root, '--fly-x', `${Math.round(x / scale)}px`);
    setVar(column.root, '--fly-y', `${Math.round(y / scale)}px`);
  }

  return {
    forget() { measured = new Map(); },
    apply(view, state) {
      state.columns.forEach((now, i) => {
        if (now.leave > 0 && now.leave < 1 && view.drafts[i].verdict === 'accepted') aim(columns.columns[i], sentence.words[i]);
      });
      if (state.emitted.leave > 0 && state.emitted.leave < 1 && view.emitted && sentence.emittedWord) aim(columns.emitted, sentence.emittedWord);
    },
  };
}
