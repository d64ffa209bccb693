// Measuring a part again: small, on the machine that serves this page. What comes out stands beside what was recorded.

import { h, setText } from '../stage/dom.js';
import { sourceOf } from './source.js';

// asked: the name of the measurement; takes: what it takes, in words; memory.fresh keeps its result when the language changes;
// draw() is called when there is a new one. Returns {root, show(update), source()}.
export function createAgain(t, { asked, takes, actions, memory, draw }) {
  const status = h('p', { class: 'form-status', role: 'status' });
  const go = h('button', { type: 'button', class: 'quiet again', onclick: ask }, t('again.go'));
  const stop = h('button', { type: 'button', class: 'quiet again', onclick: halt }, t('form.stop'));
  busy(Boolean(memory.busy));

  function busy(yes) {
    memory.busy = yes;
    go.disabled = yes;
    stop.hidden = !yes;
  }

  function ask() {
    busy(true);
    setText(status, t('form.waiting'));
    actions.again(asked);
  }

  function halt() {
    actions.stop(asked);
    busy(false);
    setText(status, t('form.stopped'));
  }

  function saying({ kind, ahead, what, done, of, message, seconds }) {
    if (kind === 'waiting') return ahead ? t('form.ahead', { n: ahead }) : t('form.waiting');
    if (kind === 'problem') return message;
    if (kind !== 'progress') return t('again.done');
    return [what ? t(`again.${what}`, { done: done + 1, of }) : t('again.starting'), seconds === undefined ? '' : t('again.seconds', { n: seconds })].join(' ');
  }

  return {
    root: h('div', { class: 'measure-again', 'data-asked': asked }, h('div', { class: 'ask' }, go, stop, h('p', { class: 'note' }, takes)), status),
    show(update) {
      if (update.asked !== asked || !memory.busy) return; // what comes after a stop is late
      setText(status, saying(update));
      if (['waiting', 'progress'].includes(update.kind)) return;
      busy(false);
      if (update.kind === 'problem') return;
      memory.fresh = update;
      draw();
    },
    // Where the fresh figures come from, and of how many runs they are.
    source: (note) => (memory.fresh ? [h('p', { class: 'note fresh' }, note), sourceOf(t, memory.fresh.provenance, true)] : []),
  };
}

// Seconds that a sweep of `prompts` × `tokens` takes at the recorded speeds.
export function secondsOf({ plain, control, rows }, { prompts, tokens }) {
  return [plain, control, ...rows].reduce((sum, row) => sum + (row.tokens_per_second ? (prompts * tokens) / row.tokens_per_second : 0), 0);
}
