// The tour: six things to do on the real page, each answered with what it did there. It can be left, resumed, and done
// in any order of one's own: a step that is passed over is simply not answered.

import { h, setData, setText } from './dom.js';
import { recall, remember } from './memory.js';

const STEPS = ['bet', 'threshold', 'length', 'race', 'exact', 'own'];
const OVER = STEPS.length;

// `ways` says how each step is begun (`begin(step)`), what it says (`ask(step)`, and `answer(step)` once done), which steps
// there are on this page (`has(step)`), and opens the race. `changed()` is called where the tour has something else to say.
export function createTour(t, ways, changed) {
  let at = Math.min(OVER, Number(recall('tour')) || 0);
  let away = recall('tour.left') === 'yes' || at === OVER;
  let done = false;

  const number = h('span', { class: 'tour-step' });
  const next = h('button', { type: 'button', class: 'tour-next', title: t('tour.next.tip'), onclick: () => tour.next() });
  const leave = h('button', { type: 'button', class: 'quiet tour-leave', 'aria-label': t('tour.leave'), title: t('tour.leave'), onclick: () => tour.leave() }, '✕');

  function keep() {
    remember('tour', at);
    remember('tour.left', away ? 'yes' : 'no');
    changed();
  }

  function go(to) {
    at = to;
    while (at < OVER && !ways.has(STEPS[at])) at += 1;
    done = false;
    away = at === OVER;
    keep();
    if (!away) ways.begin(STEPS[at]);
  }

  const tour = {
    line: h('div', { class: 'tour', role: 'group', 'aria-label': t('tour.label') }, number, next, leave),
    get step() { return away ? null : STEPS[at]; },
    get asks() { return !away && !done; },
    next() {
      if (STEPS[at] !== 'race' || done) return go(at + 1);
      ways.race();
      tour.did('race');
    },
    // From where it was left, or again from the start where it was finished.
    resume: () => go(at === OVER ? 0 : at + done),
    leave() {
      away = true;
      keep();
    },
    // The visitor did something; where the present step asked for it, the step is answered.
    did(what) {
      if (STEPS[at] !== what || away || done) return;
      done = true;
      if (what === 'own') {
        at = OVER;
        away = true;
      }
      keep();
    },
    says: () => (done ? ways.answer : ways.ask)(STEPS[at]),
    update(shown) {
      tour.line.hidden = away || !shown;
      setData(next, 'done', done ? 'yes' : 'no');
      setText(number, `${at + 1}/${OVER}`);
      setText(next, `${t(done ? 'tour.next' : STEPS[at] === 'race' ? 'tour.race.go' : 'tour.skip')} ›`);
    },
  };
  return tour;
}
