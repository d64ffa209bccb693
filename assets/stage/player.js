// The playhead: one number, t, in milliseconds at speed 1 on the run's time line.

import { clamp } from './dom.js';
import { endOf, locate, nextBeat } from './run.js';
import { beatsOf } from './time.js';

export const SPEEDS = ['auto', 0.5, 1, 2, 4, 8];
const END_STATES_ABOVE = 4;

// `draw(pass, ms)` is called with the moment to show; `changed()` when playing starts or stops.
export function createPlayer({ draw, changed, still }) {
  const player = { run: null, t: 0, playing: false, speed: 'auto', waiting: false };
  let from = 0; // round at which this playing began: `auto` shows it slowly, then faster
  let until = Infinity; // where playing halts
  let stepping = false;
  let last = 0;
  let request = 0;

  function speedNow(pass) {
    if (stepping) return 1;
    if (player.speed !== 'auto') return player.speed;
    const played = pass.view.index - from;
    return played < 1 ? 1 : played < 4 || until < Infinity ? 3 : 8;
  }

  function show() {
    if (!player.run?.passes.length) return;
    const { pass, ms } = locate(player.run, player.t);
    let shown = ms;
    if (player.playing && speedNow(pass) > END_STATES_ABOVE && until >= endOf(pass)) shown = Math.max(ms, pass.marks.end);
    else if (still()) shown = beatsOf(pass.view, pass.marks).find((beat) => beat >= ms) ?? pass.marks.end;
    draw(pass, shown);
  }

  function tick(now) {
    request = 0;
    if (!player.playing) return;
    const elapsed = Math.min(100, now - last);
    last = now;
    const limit = Math.min(until, player.run.length);
    player.t = Math.min(limit, player.t + elapsed * speedNow(locate(player.run, player.t).pass));
    show();
    if (player.t < limit) schedule();
    else if (until <= player.run.length || player.run.trace.finish_reason !== null || !player.waiting) player.pause();
  }

  function schedule() {
    if (!request) request = requestAnimationFrame(tick);
  }

  // Plays from t; `end` is where to halt, the run's end by default.
  player.play = (end = Infinity, asStep = false) => {
    if (!player.run?.passes.length) return;
    if (end === Infinity && !player.waiting && player.t >= endOf(player.run.passes.at(-1))) player.t = 0;
    until = end;
    stepping = asStep;
    from = Math.max(0, locate(player.run, player.t).pass.view.index);
    player.playing = true;
    last = performance.now();
    changed();
    schedule();
  };
  player.pause = () => {
    const was = player.playing;
    player.playing = stepping = false;
    until = Infinity;
    if (was) changed();
    show();
  };
  player.seek = (t) => {
    player.playing = stepping = false;
    until = Infinity;
    player.t = clamp(t, 0, player.run?.length ?? 0);
    changed();
    show();
  };
  // Forward, the next thing happens before one's eyes and halts; backward, the state before it is shown at once.
  player.step = (direction) => {
    if (!player.run?.passes.length) return;
    if (player.playing && stepping) player.t = until;
    const target = nextBeat(player.run, player.t, direction);
    if (direction < 0 || still()) return player.seek(target);
    const { pass } = locate(player.run, target);
    if (player.t < pass.start) player.t = pass.start;
    player.play(target, true);
  };
  player.stepPass = (direction) => {
    if (!player.run?.passes.length) return;
    const { pass, ms } = locate(player.run, player.t);
    const at = direction > 0 && ms < pass.marks.end ? pass.at : clamp(pass.at + direction, 0, player.run.passes.length - 1);
    player.seek(endOf(player.run.passes[at]));
  };
  player.load = (run, pass) => {
    player.run = run;
    player.seek(pass ? pass.start : 0);
  };
  player.show = show;
  player.resume = () => player.playing && schedule();
  player.destroy = () => cancelAnimationFrame(request);
  return player;
}
