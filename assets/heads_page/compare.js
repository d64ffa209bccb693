// The same prompt with every drafter: a film strip each, and the rounds that cover one place of the text stacked one above the
// other. Recorded runs at once, live ones on request.

import { clamp, h, setText } from '../stage/dom.js';
import { counts } from '../stage/counts.js';
import { formatMean } from '../stage/format.js';
import { fillChip } from '../stage/token.js';
import { survivalChart } from './chart.js';
import { chipsOf, createFilm } from './film.js';

// `state` is {name, prompt, source, traces: {drafter: Trace}, problems: {drafter: text}, place, busy}; `place` counts new tokens.
export function createCompare(t, { config, state, open, start, stop }) {
  const { prompts, settings } = config.comparison;
  const input = h('textarea', { class: 'own-prompt', rows: 1, maxlength: config.max_prompt_characters, 'aria-label': t('compare.prompt'), 'data-field': 'compare-prompt' });
  const go = h('button', { type: 'submit', class: 'decode' });
  const problem = h('p', { class: 'error', role: 'alert', hidden: true });
  const source = h('p', { class: 'note source', role: 'status' });
  const text = h('p', { class: 'passage' });
  const where = h('output');
  const chart = h('div', { class: 'chart' });
  const place = h('input', { type: 'range', min: 1, step: 1, 'data-field': 'compare-place', 'aria-label': t('compare.place') });
  const examples = prompts.map(({ name, title }) => h('button', { type: 'button', class: 'example-chip', 'data-example': name, onclick: () => open(name) }, title[t('language')] ?? title.en));
  const rows = config.drafters.map((drafter) => rowOf(drafter));
  input.value = state.prompt;
  input.addEventListener('input', () => { state.prompt = input.value; });
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    input.form.requestSubmit();
  });
  place.addEventListener('input', () => moveTo(Number(place.value)));

  function rowOf(drafter) {
    const film = createFilm(`${t('compare.film')}: ${t(`family.${drafter}`)}`, (round) => {
      const { rounds, prompt } = state.traces[drafter];
      moveTo(rounds[round].start - prompt.tokens.length);
    });
    const figures = h('p', { class: 'figures' });
    const chips = h('ol', { class: 'bits' });
    return {
      drafter, film, figures, chips,
      root: h('div', { class: 'run', 'data-family': drafter }, h('h3', {}, t(`family.${drafter}`)), film.root, figures),
      here: h('div', { class: 'stacked', 'data-family': drafter }, h('h4', {}, t(`family.${drafter}`)), chips),
    };
  }

  function moveTo(to) {
    state.place = to;
    drawPlace();
  }

  function drawPlace() {
    const most = Math.max(1, ...Object.values(state.traces).map((trace) => trace.output.tokens.length - 1));
    state.place = clamp(state.place, 1, most);
    place.max = most;
    place.value = state.place;
    setText(where, t('compare.token', { n: state.place + 1, of: most + 1 }));
    for (const { drafter, film, chips } of rows) {
      const trace = state.traces[drafter];
      const at = trace ? roundAt(trace, state.place) : -1;
      film.mark(at, at < 0 ? '' : t('compare.round', { round: at + 1, rounds: trace.rounds.length }));
      chips.replaceChildren(...(at < 0 ? [] : chipsOf(trace.rounds[at], fillChip)));
    }
    drawText();
  }

  function drawText() {
    const longest = Object.values(state.traces).sort((a, b) => b.output.tokens.length - a.output.tokens.length)[0];
    if (!longest) return text.replaceChildren();
    const { tokens } = longest.output;
    const part = (from, to, kind) => h('span', { class: kind }, tokens.slice(from, to).map((token) => token.text).join(''));
    text.replaceChildren(part(0, state.place, 'past'), part(state.place, state.place + 1, 'at'), part(state.place + 1, tokens.length, 'ahead'));
  }

  return {
    root: h('div', { class: 'compare' },
      h('div', { class: 'examples', role: 'group', 'aria-label': t('compare.recorded') }, ...examples),
      h('form', { class: 'ask', onsubmit: (event) => {
        event.preventDefault();
        if (state.busy) stop();
        else start(state.prompt);
      } }, input, go),
      problem, source, h('div', { class: 'runs' }, ...rows.map(({ root }) => root)),
      h('p', { class: 'note' }, t('compare.legend')),
      h('div', { class: 'place' }, h('label', {}, h('span', {}, t('compare.place')), place, where), text, h('div', { class: 'stack' }, ...rows.map(({ here }) => here))),
      h('details', {}, h('summary', {}, t('compare.survival')), chart),
      h('p', { class: 'note' }, t('compare.how', settings))),
    draw() {
      const traces = Object.values(state.traces);
      const capacity = Math.max(24, ...traces.map(({ rounds }) => rounds.length));
      problem.hidden = !state.problem;
      setText(problem, state.problem ?? '');
      setText(source, [t(`source.${state.source}`), state.busy ? t('compare.busy') : '', sameText(traces) ? '' : t('compare.differ')].filter(Boolean).join(' '));
      setText(go, t(state.busy ? 'stop' : 'compare.live'));
      go.classList.toggle('stop', state.busy);
      if (document.activeElement !== input) input.value = state.prompt;
      examples.forEach((button) => button.setAttribute('aria-pressed', String(state.source === 'recorded' && button.dataset.example === state.name)));
      for (const { drafter, film, figures, root, here } of rows) {
        const trace = state.traces[drafter];
        film.draw(trace?.rounds ?? [], capacity);
        film.root.hidden = !trace;
        here.hidden = !trace;
        root.classList.toggle('missing', !trace);
        setText(figures, trace ? figuresOf(t, trace) : state.problems[drafter] ?? t(state.busy ? 'compare.waiting' : `missing.run.${state.source}`));
      }
      chart.replaceChildren(survivalChart(t, Object.entries(state.traces).map(([family, trace]) => ({ family, survival: counts(trace).survival })).filter(({ survival }) => survival.length)));
      drawPlace();
    },
  };
}

function figuresOf(t, trace) {
  const { mean_acceptance_length: mean, rounds, drafted } = counts(trace);
  return t('compare.figures', { mean: formatMean(mean), rounds, drafted });
}

// The round that emitted the new token at `place`, -1 where there is none.
export function roundAt({ rounds, prompt, output }, place) {
  if (place >= output.tokens.length) return -1;
  return rounds.findLastIndex(({ start }) => start - prompt.tokens.length <= place);
}

// Whether the runs agree as far as they have come.
export function sameText(traces) {
  const [first, ...others] = traces.map(({ output }) => output.tokens.map(({ id }) => id));
  return others.every((ids) => ids.slice(0, first.length).every((id, i) => id === first[i]));
}
