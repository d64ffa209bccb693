// A bet on a round that has halted with its gates shut: where does it stop? The answer is the round's own verdicts.

import { endOf } from './run.js';
import { scoreBet } from './score.js';
import { verdictSentence } from './narrate.js';

// After an accepted end token nothing is judged, and there is no place at which such a round stops.
export function canBet({ view }) {
  return view.drafts.length > 1 && view.drafts.every(({ verdict }) => verdict !== 'discarded');
}

// The first round from pass `at` on that can be bet on, round again from the start; undefined where there is none.
export function nextToBet(run, at) {
  return [...run.passes.slice(at), ...run.passes.slice(0, at)].find(canBet);
}

export const gatesShut = (pass) => pass.start + pass.marks.judge;

// `changed()` is called after a bet was asked, placed, or is over.
export function createBet(t, { player, columns, still, changed }) {
  const bet = { asked: null, told: null };
  let coming = null;

  function show(state, chosen = null) {
    columns.bet(state, chosen);
    changed();
  }

  // Goes to the moment when all that judges the round can be seen, at once or by playing, and halts there.
  bet.ask = (pass, atOnce) => {
    bet.drop();
    coming = pass;
    if (atOnce) player.seek(gatesShut(pass));
    else player.play(gatesShut(pass));
  };
  // The player halted, began, or was moved.
  bet.moved = () => {
    if (coming && !player.playing) {
      bet.asked = player.t === gatesShut(coming) ? coming : null;
      coming = null;
      if (bet.asked) show('asked');
    } else if (bet.asked && (player.playing || player.t !== gatesShut(bet.asked))) bet.drop();
    else if (bet.told && !player.playing && player.t !== endOf(bet.told.pass)) bet.drop();
  };
  // `at`: the draft at which the round is said to stop, or their number where all are said to stay.
  bet.place = (at) => {
    const pass = bet.asked;
    const right = at === pass.view.accepted;
    bet.asked = null;
    bet.told = { pass, right, score: scoreBet(right) };
    show('placed', at);
    if (still()) player.seek(endOf(pass));
    else player.play(endOf(pass), true);
  };
  bet.drop = () => {
    coming = null;
    if (!bet.asked && !bet.told) return;
    bet.asked = bet.told = null;
    show('none');
  };
  bet.question = () => t(matchMedia('(hover: none)').matches ? 'bet.ask.touch' : 'bet.ask', { last: bet.asked.view.drafts.length + 1 });
  bet.answer = () => {
    const { pass: { view }, right, score } = bet.told;
    const refused = view.drafts[view.accepted];
    const why = refused ? verdictSentence(t, refused, view.settings) : t('caption.keep', { n: view.accepted });
    return `${t(right ? 'bet.right' : 'bet.wrong')} ${why} ${t('bet.score', score)}`;
  };
  return bet;
}
