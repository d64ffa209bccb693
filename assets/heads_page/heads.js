// The Heads page put together. What it draws comes from the server by `host`; the controls keep their values when the language changes.

import { h } from '../stage/dom.js';
import { createStrings, pickLanguage } from '../stage/strings.js';
import { createWiring } from './wiring.js';
import { createStaircase } from './staircase.js';
import { createCompare } from './compare.js';
import { createSurvival } from './survival.js';
import { createBreath } from './breath.js';
import { createSchedule } from './schedule.js';

// Returns {show(line)}: the lines of a live comparison, in order.
export function mountHeads(root, host) {
  const { config } = host;
  const [first] = config.comparison.prompts;
  const state = {
    staircase: { heads: 4, row: 1 }, survival: { rule: 'match' }, breath: { round: 0 }, schedule: { heads: 4, steps_per_head: 200 },
    compare: { name: first.name, prompt: first.prompt, source: 'recorded', traces: {}, problems: {}, problem: null, place: 1, busy: false },
  };
  const stage = document.querySelector('#stage .mtviz-stage'); // the page has one language: the stage's
  let facts = null;
  let page = null;
  let current = null; // the drafter whose run is growing
  let shown = 0; // the comparison at hand: what an older one still sends is left out

  function build() {
    const language = pickLanguage(config.strings, stage?.lang);
    const t = createStrings(config.strings, language);
    const compare = createCompare(t, { config, state: state.compare, open, start, stop });
    const breath = createBreath(t, { state: state.breath, run: () => state.compare.traces.adaptive, longest: config.schedule.bounds.heads.high });
    const section = (name, ...children) => h('section', { 'aria-label': t(`${name}.title`), class: `part part-${name}` }, h('h2', {}, t(`${name}.title`)), h('p', { class: 'lead' }, t(`${name}.lead`)), ...children);
    root.lang = language;
    root.replaceChildren(h('h2', { class: 'headline' }, t('headline')),
      section('wiring', createWiring(t, facts.stored)),
      section('staircase', createStaircase(t, facts.sentence, state.staircase)),
      section('compare', compare.root),
      section('survival', createSurvival(t, facts.results, facts.stored, state.survival)),
      section('breath', breath.root),
      section('schedule', createSchedule(t, { ...config.schedule, state: state.schedule, ask: host.progressive, stored: facts.stored })));
    page = { compare, breath };
    draw();
  }

  function draw() {
    page.compare.draw();
    page.breath.draw();
  }

  async function open(name) {
    if (state.compare.busy) stop();
    const traces = await host.compared(name);
    const { prompt } = config.comparison.prompts.find((entry) => entry.name === name);
    Object.assign(state.compare, { name, prompt, source: 'recorded', traces, problems: {}, problem: null });
    if (page) draw();
  }

  function start(prompt) {
    Object.assign(state.compare, { source: 'live', traces: {}, problems: {}, problem: null, busy: true, place: 1 });
    state.breath.round = 0;
    shown += 1;
    draw();
    host.compare({ prompt });
  }

  function stop() {
    state.compare.busy = false;
    draw();
    host.stop();
  }

  function show(line) {
    const { compare } = state;
    if (!compare.busy || line.run < shown) return;
    shown = line.run;
    if (line.drafter) current = line.drafter;
    else if (line.error?.field === 'drafter') compare.problems[current] = line.error.message;
    else if (line.error) compare.problem = line.error.message;
    else if (line.trace) compare.traces[current] = line.trace;
    else if (line.round) {
      const { rounds, output } = compare.traces[current];
      rounds.push(line.round);
      output.tokens.push(...line.round.drafts.filter(({ verdict }) => verdict === 'accepted').map(({ token }) => token), ...(line.round.emitted ? [line.round.emitted.token] : []));
    } else if (line.end) Object.assign(compare.traces[current], line.end);
    else if (line.done) compare.busy = false;
  }

  const ready = (async () => {
    facts = await host.facts();
    await open(first.name);
    build();
    if (stage) new MutationObserver(build).observe(stage, { attributes: true, attributeFilter: ['lang'] });
  })();
  return {
    ready,
    show(lines) {
      if (!page) return;
      lines.forEach(show);
      draw();
    },
  };
}

// Glue to Gradio's component: its value is text that grows, one JSON value a line.
export function connectHeads(root, { props, trigger, server, watch }) {
  let seen = '';
  let run = 0; // that the lines read last belong to
  const page = mountHeads(root, {
    config: JSON.parse(props.config),
    facts: () => server.facts(null),
    compared: async (name) => JSON.parse(await server.compared(name)),
    progressive: (asked) => server.progressive(asked),
    compare: (payload) => trigger('compare', payload),
    stop: () => trigger('halt'),
  });
  page.ready.catch((error) => root.replaceChildren(h('p', { class: 'error', role: 'alert' }, String(error?.message ?? error))));
  watch('value', () => {
    const { value } = props;
    if (typeof value !== 'string') return;
    if (!value.startsWith(seen)) seen = '';
    const end = value.lastIndexOf('\n') + 1;
    const lines = value.slice(seen.length, end).split('\n').filter(Boolean).map((line) => JSON.parse(line));
    for (const line of lines) line.run = run = line.run ?? run;
    seen = value.slice(0, end);
    page.show(lines);
  });
}
