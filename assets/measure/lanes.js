// The two lanes of a race and their replay. Everything shown is a function of one time, the race's own seconds.

import { h, setData, setText } from '../stage/dom.js';
import { decodeToken } from '../stage/utf8.js';
import { createPlot, ticksTo } from './plot.js';
import { fixed } from './rows.js';

const RATES = [4, 1, 0.5, 0.25];
const EVEN = 0.02; // a speed ratio this near to 1 is called even

export function createLanes(t) {
  const root = h('div', { class: 'race-show' });
  let show = null;

  return {
    root,
    load(race, play) {
      show?.stop();
      show = createReplay(t, race);
      root.replaceChildren(show.root);
      if (play && !matchMedia('(prefers-reduced-motion: reduce)').matches) show.play();
      else show.end();
    },
  };
}

// [{time, tokens: how many there are then}], the prefill first.
export function timeline(lane) {
  let time = lane.prefill.seconds;
  let tokens = 1;
  return [{ time, tokens }, ...lane.rounds.map((round) => {
    time += round.draft + round.verify;
    tokens += round.tokens.length;
    return { time, tokens };
  })];
}

function createReplay(t, race) {
  const lanes = race.lanes.map((lane, at) => createLane(t, lane, at, race.outcome));
  const length = Math.max(...lanes.map(({ steps }) => steps.at(-1).time));
  const plot = racePlot(t, race, length);
  const scrub = h('input', { type: 'range', class: 'scrub', min: 0, max: 1000, value: 0, 'aria-label': t('race.scrub'), oninput: () => { pause(); seek((scrub.value / 1000) * length); } });
  const button = h('button', { type: 'button', class: 'key play', onclick: () => (frame ? pause() : play()) });
  const rate = h('select', { class: 'rate', 'aria-label': t('race.rate') }, ...RATES.map((value) => h('option', { value, selected: value === 1 }, t(`race.rate.${value}`))));
  const clock = h('span', { class: 'race-clock' });
  const end = h('div', { class: 'race-end' }, ...(race.outcome.speed_ratio === null ? [] : [verdict(t, race.outcome)]), sameText(t, race));
  let now = 0;
  let frame = 0;
  let last = 0;

  function seek(time) {
    now = Math.min(time, length);
    for (const lane of lanes) lane.show(now);
    plot.setNow(now >= length ? null : now);
    setData(end, 'shown', now >= length ? 'yes' : 'no');
    setText(clock, t('race.clock', { now: now.toFixed(2), all: length.toFixed(2) }));
    if (document.activeElement !== scrub || frame) scrub.value = Math.round((now / length) * 1000);
    const label = t(frame ? 'race.pause' : 'race.play');
    setText(button, frame ? '❚❚' : '▶');
    if (button.title !== label) {
      button.title = label;
      button.setAttribute('aria-label', label);
    }
  }

  function tick(at) {
    if (!root.isConnected) return void (frame = 0);
    const next = now + ((at - last) / 1000) * Number(rate.value);
    last = at;
    frame = next < length ? requestAnimationFrame(tick) : 0;
    seek(next);
  }

  function play() {
    if (now >= length) now = 0;
    last = performance.now();
    frame = requestAnimationFrame(tick);
    seek(now);
  }

  function pause() {
    cancelAnimationFrame(frame);
    frame = 0;
    seek(now);
  }

  const root = h('div', { class: 'race-replay' },
    h('div', { class: 'race-lanes' }, ...lanes.map((lane) => lane.root)),
    h('p', { class: 'legend' }, h('span', { class: 'key-of spoken accepted' }, t('lane.key.accepted')), h('span', { class: 'key-of spoken' }, t('lane.key.trunk')), h('span', {}, t('lane.key.tint'))),
    h('div', { class: 'race-keys' }, button, scrub, clock, rate), end, plot.root);
  return { root, play, stop: pause, end: () => { pause(); seek(length); } };
}

function createLane(t, lane, at, outcome) {
  const steps = timeline(lane);
  const total = outcome.lanes[at].new_tokens;
  const spans = laneTokens(t, lane, outcome.difference?.token ?? -1);
  const text = h('div', { class: 'lane-text', tabindex: 0, role: 'group', 'aria-label': t('lane.text') }, ...spans);
  const counts = h('span', { class: 'lane-counts' });
  const done = h('span', { class: 'lane-done' });
  const fill = h('span', { class: 'lane-fill' });
  let shown = -1;
  return {
    steps,
    root: h('section', { class: `lane ${at ? 'drafted' : 'plain'}` },
      h('div', { class: 'lane-head' }, h('h4', {}, laneName(t, lane)), counts, done), h('div', { class: 'lane-bar' }, fill), text),
    show(now) {
      const passed = steps.filter(({ time }) => time <= now + 1e-9).length;
      if (passed === shown) return;
      shown = passed;
      const tokens = passed ? steps[passed - 1].tokens : 0;
      spans.forEach((span, place) => { span.hidden = place >= tokens; });
      setText(counts, t('lane.counts', { n: tokens, passes: passed }));
      fill.style.transform = `scaleX(${tokens / total})`;
      setText(done, passed === steps.length ? t('lane.done', { seconds: fixed(steps.at(-1).time) }) : '');
      text.scrollTop = text.scrollHeight;
    },
  };
}

export function laneName(t, lane) {
  return lane.family === 'none' ? t('lane.plain') : t('lane.drafted', { family: t(`drafter.${lane.family}`), n: lane.num_draft_tokens });
}

// One span a token, tinted by round; the accepted ones and the one that the trunk adds are told apart.
function laneTokens(t, lane, differsAt) {
  const rounds = [{ tokens: [lane.prefill.token], accepted: 0 }, ...lane.rounds];
  const last = rounds.reduce((count, { tokens }) => count + tokens.length, 0) - 1;
  let pending = [];
  let place = -1;
  return rounds.flatMap(({ tokens, accepted }, index) => tokens.map((token, position) => {
    place += 1;
    const ends = lane.finish_reason === 'stop' && place === last;
    const read = ends ? { text: ' ■', pending } : decodeToken(token, pending);
    pending = read.pending;
    const span = h('span', { class: position < accepted ? 'spoken accepted' : 'spoken', 'data-tint': String(index % 2), title: ends ? t('lane.end') : null }, read.text);
    if (place === differsAt) {
      setData(span, 'differs', 'yes');
      span.title = t('lane.differs');
    }
    return span;
  }));
}

function verdict(t, { speed_ratio: ratio }) {
  const word = ratio > 1 + EVEN ? 'faster' : ratio < 1 - EVEN ? 'slower' : 'even';
  return h('p', { class: 'race-verdict', 'data-word': word }, h('strong', {}, `${fixed(ratio)}×`), ' ', t(`outcome.${word}`));
}

function sameText(t, { outcome: { difference }, settings }) {
  if (!difference) return h('p', { class: 'same-text', 'data-same': 'yes' }, t('outcome.same'));
  const why = settings.temperature > 0 ? 'draws' : settings.rule === 'match' || settings.rule === 'speculative' ? 'tie' : 'loose';
  return h('p', { class: 'same-text', 'data-same': 'no' }, t('outcome.differs', { n: difference.token + 1 }), ' ',
    t(`outcome.differs.${why}`, { gap: difference.gap === null ? '–' : difference.gap.toPrecision(2) }));
}

// Tokens over time, and what the same rounds would have given with every guess right.
function racePlot(t, race, length) {
  const [plain, drafted] = race.lanes.map(timeline);
  const most = Math.max(...race.outcome.lanes.map((lane) => lane.new_tokens));
  const stairs = (steps) => steps.flatMap(({ time, tokens }, at) => [[time, at ? steps[at - 1].tokens : 0], [time, tokens]]);
  const ceiling = drafted.map(({ time }, at) => ({ time, tokens: 1 + at * race.outcome.ceiling }));
  const top = most * 1.04;
  return createPlot({
    label: t('race.plot', { plain: fixed(plain.at(-1).time), drafted: fixed(drafted.at(-1).time) }),
    x: [0, length], y: [0, top], xTicks: ticksTo(length), yTicks: ticksTo(top, 4), xName: t('axis.seconds'), yName: t('axis.tokens'),
    lines: [
      { kind: 'ceiling', name: t('race.ceiling', { n: race.outcome.ceiling }), points: stairs(ceiling.filter(({ tokens }, at) => !at || tokens - race.outcome.ceiling <= top)) },
      { kind: 'plain', name: laneName(t, race.lanes[0]), points: stairs(plain) },
      { kind: 'drafted', name: laneName(t, race.lanes[1]), points: stairs(drafted) },
    ],
  });
}
