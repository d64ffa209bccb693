// A run as a film strip: a column of squares a round, what it emitted standing solid from the ground up. The same signs as on
// the stage's own strip.

import { clamp, h, setVar } from '../stage/dom.js';

const SIGNS = { recovered: '◆', bonus: '★', plain: '▶' };

// What a round put on the strip, from the ground up.
export function squaresOf({ drafts, emitted }) {
  const of = (wanted) => drafts.map(({ verdict }) => verdict).filter((verdict) => (verdict === 'accepted') === wanted);
  return [...of(true), ...(emitted ? [kindOf(drafts, emitted)] : []), ...of(false)];
}

// Without drafts nothing is a bonus.
function kindOf(drafts, emitted) {
  return drafts.length ? emitted.kind : 'plain';
}

// `choose(round)` is called with the index of a round that was pointed at or stepped to.
export function createFilm(label, choose) {
  const cells = h('div', { class: 'cells-of-film', 'aria-hidden': 'true' });
  const root = h('div', { class: 'film', role: 'slider', tabindex: 0, 'aria-label': label, 'aria-valuemin': 1, 'aria-valuenow': 1, 'aria-valuemax': 1 }, cells);
  let chosen = -1;

  const pick = (event) => {
    const box = cells.getBoundingClientRect();
    const wide = box.width / Number(cells.style.getPropertyValue('--capacity') || 1);
    if (cells.children.length) choose(clamp(Math.floor((event.clientX - box.left) / wide), 0, cells.children.length - 1));
  };
  root.addEventListener('pointerdown', (event) => {
    root.setPointerCapture(event.pointerId);
    pick(event);
  });
  root.addEventListener('pointermove', (event) => root.hasPointerCapture(event.pointerId) && pick(event));
  root.addEventListener('keydown', (event) => {
    const to = { ArrowRight: chosen + 1, ArrowUp: chosen + 1, ArrowLeft: chosen - 1, ArrowDown: chosen - 1, Home: 0, End: cells.children.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose(clamp(to, 0, cells.children.length - 1));
  });

  return {
    root,
    // Adds the rounds that are new; `capacity` is how many fit.
    draw(rounds, capacity) {
      setVar(cells, '--capacity', capacity);
      if (rounds.length < cells.children.length) cells.replaceChildren();
      for (const round of rounds.slice(cells.children.length)) {
        cells.append(h('i', { class: 'pass' }, ...squaresOf(round).map((kind) => h('b', { class: kind }, SIGNS[kind] ?? ''))));
      }
      root.setAttribute('aria-valuemax', Math.max(1, rounds.length));
    },
    mark(at, text) {
      cells.children[chosen]?.classList.remove('chosen');
      cells.children[at]?.classList.add('chosen');
      chosen = at;
      root.setAttribute('aria-valuenow', at + 1);
      root.setAttribute('aria-valuetext', text);
    },
  };
}

// One round's tokens as chips: the drafts with their verdicts, then what the trunk added. `fill(element, token)` writes one.
export function chipsOf(round, fill) {
  const shown = [...round.drafts.map(({ verdict, token }) => [verdict, token]), ...(round.emitted ? [[kindOf(round.drafts, round.emitted), round.emitted.token]] : [])];
  return shown.map(([kind, token]) => {
    const text = h('span', { class: 'piece' });
    fill(text, token);
    return h('li', { class: 'bit', 'data-kind': kind }, h('span', { class: 'verdict-sign' }, { accepted: '✓', rejected: '✗', ...SIGNS }[kind] ?? '–'), text);
  });
}
