// The form, the training while it runs, and what is done with the model.

import { h, setText, setVar } from '../stage/dom.js';
import { createStrings, pickLanguage } from '../stage/strings.js';
import { accept, fetchFile, newToken, sendFile } from './pieces.js';
import { createCurves } from './curves.js';

const SAMPLES_SHOWN = 4;

// Returns {show(lines)}. `host` trains, steers, sends and fetches.
export function mountTraining(root, host) {
  const { config } = host;
  const { bounds } = config;
  const stage = document.querySelector('#stage .mtviz-stage'); // the page has one language: the stage's
  const state = { text: '', bytes: null, sample: config.samples[0], heads: 4, kind: config.kinds[0], strategy: 'weighted', minutes: Math.min(2, bounds.minutes.high), phase: 'idle', points: [], model: null, problem: null };
  let page = null;

  function build() {
    const t = createStrings(config.strings, pickLanguage(config.strings, stage?.lang));
    root.lang = pickLanguage(config.strings, stage?.lang);
    const text = h('textarea', { rows: 6, 'aria-label': t('text.label'), placeholder: t('text.placeholder'), 'data-field': 'text', spellcheck: 'false' });
    text.value = state.text;
    text.addEventListener('input', () => { Object.assign(state, { text: text.value, bytes: null, sample: null }); draw(); });
    const file = h('input', { type: 'file', accept: 'text/*,.txt,.md,.csv,.py,.json', 'aria-label': t('text.file') });
    file.addEventListener('change', async () => {
      const [chosen] = file.files;
      if (!chosen) return;
      state.problem = null;
      if (chosen.size > bounds.text.high) state.problem = { field: 'text', message: t('text.large', { bytes: chosen.size.toLocaleString(), ...shownBounds() }) };
      else Object.assign(state, { bytes: new Uint8Array(await chosen.arrayBuffer()), text: '', sample: null });
      text.value = '';
      draw();
    });
    const chips = config.samples.map((name) => h('button', { type: 'button', class: 'chip-button', 'data-sample': name, onclick: () => {
      Object.assign(state, { sample: name, text: '', bytes: null, problem: null });
      text.value = '';
      file.value = '';
      draw();
    } }, t(`sample.${name}`)));
    const size = h('p', { class: 'note' });
    const numbers = ['heads', 'minutes'].map((name) => {
      const { low, high, step } = bounds[name];
      const input = h('input', { type: 'number', min: name === 'minutes' ? step : low, max: high, step: name === 'minutes' ? 'any' : step, 'data-field': name });
      input.value = state[name];
      input.addEventListener('input', () => { state[name] = input.value === '' ? null : Number(input.value); });
      return h('label', {}, h('span', {}, t(`field.${name}`)), input, h('small', {}, t(`field.${name}.tip`, { high })));
    });
    const radios = (field, values) => h('fieldset', { 'data-field': field }, h('legend', {}, t(`field.${field}`)), ...values.map((value) => {
      const input = h('input', { type: 'radio', name: `mtviz-${field}`, value, checked: state[field] === value, onchange: () => { state[field] = value; } });
      return h('label', {}, input, h('b', {}, t(`${field}.${value}`)), ' ', h('span', {}, t(`${field}.${value}.tip`)));
    }));
    const start = h('button', { type: 'submit', class: 'go start' }, t('start'));
    const problem = h('p', { class: 'refusal', role: 'alert', hidden: true });
    const form = h('form', { class: 'training-form', novalidate: true, onsubmit: (event) => { event.preventDefault(); train(); } },
      h('div', { class: 'source' }, h('div', { class: 'chips' }, ...chips), text, h('label', { class: 'file' }, h('span', {}, t('text.file')), file), size),
      h('div', { class: 'choices' }, ...numbers, radios('kind', config.kinds), radios('strategy', config.strategies), start));

    const bar = h('div', { class: 'progress', role: 'progressbar', 'aria-label': t('progress.label'), 'aria-valuemin': 0, 'aria-valuemax': 100 }, h('span', {}));
    const said = h('p', { class: 'said', role: 'status' });
    const pause = h('button', { type: 'button', class: 'quiet pause', onclick: () => steer(state.phase === 'paused' ? 'go_on' : 'pause') });
    const keep = h('button', { type: 'button', class: 'quiet keep', onclick: () => steer('stop') }, t('keep'));
    const drop = h('button', { type: 'button', class: 'quiet drop', onclick: discard }, t('drop'));
    const curves = createCurves(t);
    const samples = h('ol', { class: 'samples', 'aria-label': t('samples.label') });
    const running = h('div', { class: 'running', hidden: true }, said, bar, h('div', { class: 'buttons' }, pause, keep, drop), curves.root, samples);

    const decode = h('button', { type: 'button', class: 'go use', onclick: () => use(state.model, ownPrompt(), state.points.length ? headsOf(state.points) : 4, true) }, t('use'));
    const download = h('button', { type: 'button', class: 'quiet download', onclick: save }, t('download'));
    const named = h('p', { class: 'note' });
    const done = h('div', { class: 'finished', hidden: true }, named, h('div', { class: 'buttons' }, decode, download));
    const weights = h('input', { type: 'file', accept: '.safetensors', 'aria-label': t('load') });
    weights.addEventListener('change', () => load(weights));
    root.replaceChildren(h('section', { class: 'part', 'aria-label': t('title') }, h('h2', {}, t('title')), h('p', { class: 'lead' }, t('lead')),
      h('p', { class: 'shipped' }, t('shipped', { n: config.shipped.minutes }), ' ', h('button', { type: 'button', class: 'quiet use-shipped', onclick: () => use(config.shipped, t('shipped.prompt'), config.shipped.heads, false) }, t('shipped.use'))),
      form, problem, running, done, h('label', { class: 'file load' }, h('span', {}, t('load')), weights)));
    page = { t, form, chips, size, start, problem, running, bar, said, pause, keep, drop, curves, samples, done, named };
    draw();
  }

  function shownBounds() {
    return { low: bounds.text.low.toLocaleString(), high: bounds.text.high.toLocaleString() };
  }

  function draw() {
    const { t } = page;
    const busy = ['sending', 'waiting', 'running', 'paused', 'stopping'].includes(state.phase);
    page.chips.forEach((chip) => chip.setAttribute('aria-pressed', String(chip.dataset.sample === state.sample)));
    const length = state.bytes?.length ?? new TextEncoder().encode(state.text).length;
    setText(page.size, state.sample ? t('size.sample', { sample: t(`sample.${state.sample}`) }) : t('size', { bytes: length.toLocaleString(), ...shownBounds() }));
    page.start.disabled = busy;
    page.problem.hidden = !state.problem;
    setText(page.problem, state.problem?.message ?? '');
    root.querySelectorAll('[aria-invalid]').forEach((element) => element.removeAttribute('aria-invalid'));
    if (state.problem?.field) root.querySelectorAll(`[data-field="${CSS.escape(state.problem.field)}"]`).forEach((element) => element.setAttribute('aria-invalid', 'true'));
    page.running.hidden = !busy && !state.points.length;
    const last = state.points.at(-1);
    const progress = state.phase === 'done' && !state.cut ? 1 : last?.progress ?? 0;
    setVar(page.bar, '--done', progress);
    page.bar.setAttribute('aria-valuenow', Math.round(100 * progress));
    setText(page.said, saying(t, last));
    page.pause.hidden = page.keep.hidden = !['running', 'paused'].includes(state.phase);
    page.drop.hidden = !busy;
    setText(page.pause, t(state.phase === 'paused' ? 'go_on' : 'pause'));
    if (state.points.length) page.curves.draw(state.points, headsOf(state.points));
    const written = state.points.filter((point) => point.sample);
    page.samples.replaceChildren(...spread(written).map(({ progress: at, sample }) => h('li', {},
      h('b', {}, `${Math.round(100 * at)}%`), h('p', { dir: 'auto' }, h('span', { class: 'given' }, sample.prompt), h('span', { class: 'made' }, sample.text)))));
    page.done.hidden = !state.model;
    if (state.model) setText(page.named, t('made', { family: t(`kind.${state.model.family}`), kilobytes: Math.round(state.model.bytes / 1000).toLocaleString() }));
  }

  function saying(t, last) {
    if (state.phase === 'waiting') return state.ahead ? t('ahead', { n: state.ahead }) : t('starting');
    if (!last) return state.phase === 'sending' ? t('sending') : '';
    const values = { bytes: last.bytes.toLocaleString(), percent: Math.round(100 * last.progress) };
    if (state.phase === 'running') return t('running', { ...values, left: leftOf(t, last) });
    return t({ paused: 'paused', stopping: 'stopping', done: state.cut ? 'ended' : 'done' }[state.phase] ?? 'ended', values);
  }

  function leftOf(t, last) {
    const spent = (performance.now() - state.began - state.rested) / 1000;
    const seconds = Math.max(0, Math.round((spent * (1 - last.progress)) / Math.max(last.progress, 0.01)));
    return seconds < 90 ? t('seconds', { n: seconds }) : t('minutes', { n: Math.round(seconds / 60) });
  }

  async function train() {
    Object.assign(state, { phase: 'sending', points: [], model: null, problem: null, cut: false, name: newToken(), rested: 0, ahead: 0, began: null });
    draw();
    try {
      const bytes = state.bytes ?? new TextEncoder().encode(state.text);
      if (!state.sample && bytes.length > bounds.text.high) throw Object.assign(new Error(page.t('text.large', { bytes: bytes.length.toLocaleString(), ...shownBounds() })), { field: 'text' });
      const file = state.sample ? null : await sendFile(host.piece, bytes, config.piece_bytes);
      const { sample, heads, kind, strategy, minutes, name } = state;
      state.phase = 'waiting';
      host.train({ name, sample, file, heads, kind, strategy, minutes });
    } catch (error) {
      fail(error);
    }
    draw();
  }

  async function steer(to) {
    const now = performance.now();
    if (to === 'pause') state.pausedAt = now;
    if (to === 'go_on') state.rested += now - state.pausedAt;
    state.phase = { pause: 'paused', go_on: 'running', stop: 'stopping' }[to];
    draw();
    try {
      accept(await host.steer({ name: state.name, to }));
    } catch (error) {
      fail(error);
      draw();
    }
  }

  function discard() {
    host.stop();
    Object.assign(state, { phase: 'idle', points: [], name: null });
    draw();
  }

  function fail(error) {
    Object.assign(state, { phase: 'idle', problem: { field: error.field, message: error.message } });
  }

  async function load(input) {
    const [chosen] = input.files;
    if (!chosen) return;
    state.problem = null;
    try {
      if (chosen.size > config.most_model_bytes) throw new Error(page.t('load.large', { high: config.most_model_bytes.toLocaleString() }));
      const file = await sendFile(host.piece, new Uint8Array(await chosen.arrayBuffer()), config.piece_bytes);
      state.model = accept(await host.load({ file }));
    } catch (error) {
      fail(error);
    }
    draw();
  }

  async function save() {
    try {
      const address = URL.createObjectURL(await fetchFile(host.weights, state.model.name));
      h('a', { href: address, download: `${state.model.name}.safetensors` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      fail(error);
      draw();
    }
  }

  function ownPrompt() {
    const given = state.points.findLast((point) => point.sample)?.sample.prompt.replaceAll('\ufffd', '');
    return given?.trim() ? given : 'The ';
  }

  // The stage takes the model by a link, like anyone else's, and its first page is opened.
  function use({ name, family }, prompt, heads, raw) {
    const drafts = family === 'none' ? 0 : heads - 1;
    const link = { prompt, model: name, drafter: family, num_draft_tokens: drafts, rule: 'match', temperature: 0, raw, max_new_tokens: 96 };
    location.hash = new URLSearchParams(link);
    document.querySelector('#pages [role="tab"]').click();
    setTimeout(() => stage?.querySelector('form.bar')?.requestSubmit(), 100); // after the stage has read the link
  }

  function show(lines) {
    for (const line of lines) {
      if (!['waiting', 'running', 'paused', 'stopping'].includes(state.phase)) continue;
      if (line.ahead !== undefined) state.ahead = line.ahead;
      else if (line.event?.event === 'start') Object.assign(state, { phase: 'running', began: performance.now() });
      else if (line.event?.event === 'end') state.cut = !line.event.finished;
      else if (line.event?.event === 'killed') Object.assign(state, { cut: true, problem: { message: page.t('killed') } });
      else if (line.event?.message) state.problem = { message: page.t('diverged', { message: line.event.message }) };
      else if (line.point) state.points.push(line.point);
      else if (line.error) fail(line.error);
      else if (line.model) Object.assign(state, { phase: 'done', model: line.model });
    }
    draw();
  }

  build();
  if (stage) new MutationObserver(build).observe(stage, { attributes: true, attributeFilter: ['lang'] });
  return { show };
}

function headsOf([first]) {
  return (first.losses ?? first.held_losses).length;
}

// The first, the last, and some between.
function spread(items) {
  if (items.length <= SAMPLES_SHOWN) return items;
  return Array.from({ length: SAMPLES_SHOWN }, (_, i) => items[Math.round((i * (items.length - 1)) / (SAMPLES_SHOWN - 1))]);
}

// Glue to Gradio's component: its value is text that grows, one JSON value a line.
export function connectTraining(root, { props, trigger, server, watch }) {
  let seen = '';
  const page = mountTraining(root, {
    config: JSON.parse(props.config),
    piece: (asked) => server.piece(asked),
    steer: (asked) => server.steer(asked),
    load: (asked) => server.load(asked),
    weights: (asked) => server.weights(asked),
    train: (asked) => trigger('train', asked),
    stop: () => trigger('halt'),
  });
  watch('value', () => {
    const { value } = props;
    if (typeof value !== 'string') return;
    if (!value.startsWith(seen)) seen = '';
    const end = value.lastIndexOf('\n') + 1;
    page.show(value.slice(seen.length, end).split('\n').filter(Boolean).map((line) => JSON.parse(line)));
    seen = value.slice(0, end);
  });
}
