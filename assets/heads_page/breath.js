// The adaptive length over the rounds of one run: a bracket as long as what was drafted, and what the predictor said before each draft.

import { clamp, h, setText, setVar } from '../stage/dom.js';
import { formatProb } from '../stage/format.js';
import { fillChip } from '../stage/token.js';
import { createFilm } from './film.js';

const BEAT = 900; // ms a round

// `state` is {round}; `run()` gives the adaptive Trace at hand, or nothing.
export function createBreath(t, { state, run, longest }) {
  const missing = h('p', { class: 'missing' });
  const film = createFilm(t('breath.film'), (round) => {
    pause();
    go(round);
  });
  const bracket = h('div', { class: 'bracket' }, h('span', {}));
  const slots = Array.from({ length: longest }, (_, i) => {
    const [bar, figure, piece, sign] = ['fill', 'chance', 'piece', 'verdict-sign'].map((name) => h('span', { class: name }));
    return { figure, piece, sign, root: h('li', { class: 'slot-of' }, h('span', { class: 'well' }, bar, figure), h('span', { class: 'bit' }, sign, piece), h('span', { class: 'ahead-by' }, `+${i + 2}`)) };
  });
  const said = h('p', { class: 'telling', 'aria-live': 'off' });
  const button = h('button', { type: 'button', class: 'key play', onclick: () => (timer ? pause() : play()) });
  const stage = h('div', { class: 'breathing' }, h('div', { class: 'line' }, button, film.root), h('div', { class: 'breath' }, bracket, h('ol', { class: 'slots' }, ...slots.map(({ root }) => root))), said);
  const root = h('div', {}, missing, stage);
  let timer = null;

  function play() {
    if (state.round >= run().rounds.length - 1) state.round = -1;
    timer = setInterval(() => {
      if (!root.isConnected || state.round >= run().rounds.length - 1) pause();
      else go(state.round + 1);
    }, BEAT);
    setButton();
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    setButton();
  }

  function setButton() {
    setText(button, timer ? '❚❚' : '▶');
    button.setAttribute('aria-label', t(timer ? 'breath.pause' : 'breath.play'));
  }

  function go(to) {
    const { rounds } = run();
    state.round = clamp(to, 0, rounds.length - 1);
    const round = rounds[state.round];
    const predicted = round.predicted_survival ?? [];
    const n = round.drafts.length;
    film.mark(state.round, t('compare.round', { round: state.round + 1, rounds: rounds.length }));
    setVar(bracket, '--length', n / longest);
    setText(bracket.firstChild, t('breath.bracket', { n }));
    slots.forEach(({ root: slot, figure, piece, sign }, i) => {
      const draft = round.drafts[i];
      slot.dataset.kind = draft?.verdict ?? (i < predicted.length ? 'stopped' : 'none');
      setVar(slot, '--share', predicted[i] ?? 0);
      setText(figure, i < predicted.length ? formatProb(predicted[i]) : '');
      setText(sign, draft ? { accepted: '✓', rejected: '✗' }[draft.verdict] ?? '–' : '');
      if (draft) fillChip(piece, draft.token);
      else piece.replaceChildren();
    });
    setText(said, [t('breath.round', { round: state.round + 1, rounds: rounds.length }),
      predicted.length > n ? t(n ? 'breath.stopped' : 'breath.nothing', { n, offset: `+${n + 2}`, share: formatProb(predicted[n]) }) : t('breath.full', { n })].join(' '));
  }

  return {
    root,
    draw() {
      const trace = run();
      stage.hidden = !trace?.rounds.length;
      missing.hidden = !stage.hidden;
      setText(missing, t('missing.breath'));
      if (stage.hidden) return pause();
      film.draw(trace.rounds, Math.max(24, trace.rounds.length));
      setButton();
      go(state.round);
    },
  };
}
