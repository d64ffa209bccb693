// Who speaks beside the board while nothing plays: a bet, the tour, or (null) the caption of the moment itself.

import { h, setData } from './dom.js';
import { createBet, gatesShut, nextToBet } from './bet.js';
import { createTour } from './tour.js';
import { endOf, locate, openingPass } from './run.js';
import { isExact } from './knobs.js';
import { judgesByMatch } from './judge.js';

const OPENING_ROUNDS = 4;
const CONTROLS = { threshold: '[data-field=threshold]', length: '[data-field=num_draft_tokens]', exact: '.switch input:checked', own: '.prompt-input' };

// `stage` is {root, player, columns, knobs, run(), view(), still(), live(), openSheet(), race, canDecode}.
export function createGuide(t, stage) {
  const { root, player, columns, knobs } = stage;
  let fresh = true; // what the tour says has not been shown yet; it stands until the playhead is moved
  let heardAt = null;

  const bet = createBet(t, { player, columns, still: stage.still, changed: () => player.show() });
  const tour = createTour(t, { begin, has, ask, answer, race: stage.race }, refresh);
  const button = (name, action) => h('button', { type: 'button', class: `quiet ${name}-button`, title: t(`${name}.tip`), onclick: action }, t(name));
  const betButton = button('bet', askNext);
  const tourButton = button('tour', () => (tour.step && heard() ? tour.leave() : tour.resume()));

  function refresh() {
    fresh = true;
    player.show();
  }

  function heard() {
    if (player.playing) return false;
    if (fresh) heardAt = player.t;
    fresh = false;
    return player.t === heardAt;
  }

  // A round whose verdicts can already be seen is no bet: then it is the next one.
  function askNext() {
    const run = stage.run();
    const { pass } = locate(run, player.t);
    const next = nextToBet(run, pass.at + (player.t > gatesShut(pass)));
    if (next) bet.ask(next, next !== pass || stage.still());
  }

  function begin(step) {
    bet.drop();
    if (step === 'bet') askNext();
    if (step === 'threshold' && knobs.settings.rule !== 'ratio') knobs.setExact(false);
    if (['threshold', 'length', 'own'].includes(step)) stage.openSheet();
    [...root.querySelectorAll(CONTROLS[step] ?? 'none')].find((control) => control.getClientRects().length)?.focus();
  }

  function has(step) {
    const { drafter } = stage.run().trace.settings;
    return { race: Boolean(stage.race), bet: Boolean(nextToBet(stage.run(), 0)), threshold: drafter !== 'none', length: drafter !== 'none' }[step] ?? true;
  }

  function ask(step) {
    return t(`tour.${step === 'own' && !stage.live() ? 'example' : step}`, { n: stage.run().trace.settings.num_draft_tokens });
  }

  function answer(step) {
    if (step === 'bet') return bet.told && bet.answer();
    const view = stage.view();
    const { threshold, num_draft_tokens: n } = knobs.settings;
    if (step !== 'exact') return t(`tour.${step}.done`, { threshold, n, kept: view.accepted, drafts: view.drafts.length });
    return judgesByMatch(view.settings.rule, view.settings.temperature) ? identity(view) : t('tour.exact.law');
  }

  // That the text is the trunk's own is not said but counted: over the run, or over the round where it alone was judged anew.
  function identity(view) {
    const views = view.whatIf ? [view] : stage.run().passes.map((pass) => pass.view);
    const [same, all] = ownTokens(views);
    return t(same !== all ? 'tour.exact.not' : view.whatIf ? 'tour.exact.round' : 'tour.exact.done', { same, n: all });
  }

  return {
    bet, line: tour.line, buttons: [betButton, tourButton],
    // The opening: a round, three faster ones, and then the question, where the visitor has not met it yet.
    open(quiet) {
      const run = stage.run();
      const opening = openingPass(run, OPENING_ROUNDS);
      player.t = opening.start;
      fresh = !quiet;
      const question = !quiet && tour.step === 'bet' && nextToBet(run, opening.at + OPENING_ROUNDS);
      if (question) bet.ask(question, stage.still());
      else if (stage.still()) player.seek(endOf(opening));
      else player.play(endOf(run.passes[Math.min(opening.at + OPENING_ROUNDS, run.passes.length) - 1]));
    },
    // Another language: the question stands where it stood.
    restore() {
      const { pass } = locate(stage.run(), player.t);
      if (tour.step === 'bet' && player.t === gatesShut(pass)) bet.ask(pass, true);
    },
    moved: bet.moved,
    // Whether the choice of a column was a bet.
    took(at) {
      if (!bet.asked) return false;
      bet.place(at);
      tour.did('bet');
      return true;
    },
    did(what) {
      if (what !== 'load') bet.drop();
      if (what === 'rule' && !isExact(knobs.settings)) return;
      tour.did({ num_draft_tokens: 'length', rule: 'exact' }[what] ?? what);
      if (tour.step && !tour.asks) refresh(); // the knob goes on moving, and what is said of it with it
    },
    says() {
      if (player.playing) return null;
      if (bet.asked) return bet.question();
      if (bet.told) return bet.answer();
      return tour.step && heard() ? tour.says() : null;
    },
    update() {
      const speaks = Boolean(tour.step) && (Boolean(bet.asked) || heard());
      tour.update(speaks);
      setData(root, 'tour', speaks && tour.asks ? tour.step : 'none');
      betButton.setAttribute('aria-pressed', String(Boolean(bet.asked)));
      tourButton.setAttribute('aria-pressed', String(speaks));
    },
    key({ key }) {
      if (bet.asked && /^[1-9]$/.test(key) && Number(key) <= bet.asked.view.drafts.length + 1) this.took(Number(key) - 1);
      else if (key === 'b') askNext();
      else if (key === 't') tourButton.click();
      else if (key === 'n' && tour.step) tour.next();
      else return false;
      return true;
    },
  };
}

// [tokens that the trunk alone would have taken in their places, all tokens that were emitted].
export function ownTokens(views) {
  let [same, all] = [0, 0];
  for (const { drafts, accepted, emitted, after } of views) {
    const kept = drafts.slice(0, accepted).map(({ token, trunk_token: own }) => token.id === own.id);
    if (emitted?.token && after) kept.push(emitted.token.id === (drafts[accepted] ?? after).trunk_token.id);
    same += kept.filter(Boolean).length;
    all += kept.length;
  }
  return [same, all];
}
