// The stage put together: data comes in by `show`, the visitor's wishes go out by `host`.

import { asksWhatIf, createKnobs, differs } from './knobs.js';
import { captionAt, roundSentence } from './narrate.js';
import { createAlert } from './alert.js';
import { createAtlas } from './atlas.js';
import { createBar } from './bar.js';
import { createBrace } from './brace.js';
import { createColumns } from './columns.js';
import { createFlight } from './flight.js';
import { createGlossary } from './glossary.js';
import { createGuide } from './guide.js';
import { createLecture } from './lecture.js';
import { createMeters } from './meters.js';
import { createMicroscope } from './microscope.js';
import { createOthers } from './others.js';
import { createPlayer } from './player.js';
import { createRail } from './rail.js';
import { createRun, extendRun, locate, placeIn, reJudged } from './run.js';
import { createSentence, textOf } from './sentence.js';
import { createStrings, pickLanguage } from './strings.js';
import { createStrip } from './strip.js';
import { createTally } from './tally.js';
import { counts } from './counts.js';
import { createTransport } from './transport.js';
import { formatMean, formatMs } from './format.js';
import { createTools } from './tools.js';
import { frame } from './frame.js';
import { h, setData, setText } from './dom.js';
import { listenToKeys } from './keys.js';
import { linkTo, readLink, weightsOf } from './share.js';
import { recall, remember } from './memory.js';
import { PHASES } from './time.js';
import { stillOf } from './still.js';

// `fail(error)` is called where drawing fails. `kept` is what a stage in another language stood at, or null.
export function buildStage(root, host, fail, kept) {
  const { config } = host;
  const language = pickLanguage(config.strings, recall('language') ?? config.language);
  const t = createStrings(config.strings, language);
  const leaving = new AbortController();
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  const knobs = createKnobs(config.defaults);
  let run = null;
  let source = 'recorded';
  let busy = false;
  let known = config.status;
  let stopped = false; // updates of a stopped run that are still on their way are not shown
  let knobsMoved = false;
  let whatIf = null;
  let spoken = null;
  let link = null; // the shared link that the controls were last filled from

  const headline = h('h2', { class: 'headline' });
  const status = h('span', { class: 'status', tabindex: 0, role: 'status' });
  const { box: error, show: showError } = createAlert(t, root);
  const caption = h('p', { class: 'caption' });
  const phases = PHASES.map((name) => h('li', {}, t(`phase.${name}`)));
  const badge = h('span', { class: 'badge' });
  const live = h('div', { class: 'unseen', 'aria-live': 'polite' });
  const lecture = createLecture(root, leaving.signal, relayOut);

  const tools = createTools(t, {
    share: host.canDecode && (() => linkTo(location.href, knobs.prompt, knobs.settings, run?.trace.model)),
    save: () => JSON.stringify(run.trace),
    schema: config.schema,
    open: (trace) => start('opened', trace, 'opened'),
    refuse: (message) => showError({ message }),
    still,
    lecture,
    glossary: () => glossary.open(),
    language() {
      remember('language', language === 'en' ? 'zh' : 'en');
      host.rebuild({ status: known }, { run, source, at: player.t, busy, link, preset: atlas.preset, other: others.at, ...knobs });
    },
  });
  const bar = createBar(t, {
    config: { ...config, presets: config.presets.map((preset) => ({ ...preset, ...preset[language] })) }, knobs, tools, canDecode: host.canDecode, onStop: stop,
    onDecode: decode, onPreset: openPreset,
  });
  const sentence = createSentence(t);
  const atlas = createAtlas(t, { knobs, load: host.loadAtlas, still: () => calm.matches, changed: () => knobsMoved && retune() });
  sentence.box.append(atlas.whole.root);
  const others = createOthers(t, config.defaults, openOther);
  const tally = createTally(t, (kinds) => strip.light(kinds));
  const columns = createColumns(t, inspect);
  const microscope = createMicroscope(t);
  const glossary = createGlossary(t, config.glossary, language);
  const flight = createFlight(columns, sentence);
  const rail = createRail(t, { bounds: config.bounds, knobs });
  const brace = createBrace(t, { bounds: config.bounds, knobs });
  const meters = createMeters(t);
  const strip = createStrip(t, { seek: (at) => player.seek(at), colours });
  const player = createPlayer({ draw: guardedDraw, changed, still: () => calm.matches });
  const guide = createGuide(t, {
    root, player, columns, knobs, race: host.race, openSheet: bar.open, run: () => run, view: () => (whatIf ?? locate(run, player.t).pass).view,
    still: () => calm.matches, live: () => known?.live,
  });
  const transport = createTransport(t, player, strip, guide.buttons);

  root.lang = language;
  root.replaceChildren(
    h('div', { class: 'top' }, headline, status), bar.root, error,
    h('div', { class: 'story' }, sentence.box, tally.root),
    h('div', { class: 'now' }, h('ol', { class: 'phases', 'aria-label': t('phase.label') }, ...phases), caption, guide.line, h('div', { class: 'origin' }, badge, others.list, atlas.hold)),
    h('div', { class: 'board' }, rail.root, h('div', { class: 'field' }, brace.root, columns.root)),
    meters.root, transport.root, live, microscope.panel, glossary.panel);
  glossary.watch(root, leaving.signal);

  function slots() {
    const asked = knobs.settings.drafter === 'none' ? 0 : knobs.settings.num_draft_tokens;
    return Math.max(run.slots, asked);
  }

  function guardedDraw(pass, ms) {
    try {
      draw(pass, ms);
    } catch (error) {
      fail(error);
    }
  }

  function draw(pass, ms) {
    const shown = whatIf ?? pass;
    const state = frame(shown.view, shown.marks, whatIf ? shown.marks.end : ms);
    const { settings } = shown.view;
    rail.update(whatIf ? knobs.settings : settings, run.trace.settings);
    brace.update(Math.max(slots(), shown.view.drafts.length));
    columns.apply(shown, state, slots(), t('band', { n: shown.view.drafts.length, ms: formatMs(shown.view.seconds.verify) }));
    sentence.apply(shown, state);
    flight.apply(shown.view, state);
    meters.apply(shown, state);
    if (showsWhole()) tally.apply(run.passes.at(-1), { ...state, counted: true }, false);
    else tally.apply(pass, state, !whatIf);
    atlas.whole.at(pass.at);
    const place = placeOf(pass);
    strip.apply(pass, ms, place);
    transport.update(place);
    const guessed = shown.view.drafts.length > 0;
    phases.forEach((item, i) => setData(item, 'state', i === state.phase ? 'now' : !guessed && i !== 1 && i !== 4 ? 'skipped' : i < state.phase ? 'done' : 'later'));
    const said = guide.says();
    guide.update();
    setData(caption, 'said', said ? 'yes' : 'no');
    setText(caption, said ?? captionAt(t, shown, state));
    if (said) setText(live, said);
    else if (state.counted && spoken !== shown && (!player.playing || player.speed === 1)) {
      spoken = shown;
      setText(live, roundSentence(t, shown));
    }
  }

  function placeOf({ view }) {
    return t(view.kind === 'prefill' ? 'where.prefill' : 'where', { round: view.index + 1, rounds: run.trace.rounds.length });
  }

  function still() {
    const { pass } = locate(run, player.t);
    const before = [run.trace.prompt.text, ' ', ...run.passes.slice(0, pass.at).flatMap(({ view }) => textOf(view))].join('');
    return stillOf(t, whatIf ?? pass, before, whatIf ? `${placeOf(pass)} · ${t('whatif.badge')}` : placeOf(pass));
  }

  function inspect(i) {
    if (guide.took(i)) return;
    player.pause();
    microscope.open((whatIf ?? locate(run, player.t).pass).view, i);
  }

  // Playing or halting, or a knob moved: while halted, knobs that differ from the run ask a what-if of this round.
  function changed() {
    if (!run?.passes.length) return;
    guide.moved();
    const { pass } = locate(run, player.t);
    const asked = !player.playing && !guide.bet.asked && knobsMoved && pass.round && asksWhatIf(knobs.settings, run.trace.settings);
    whatIf = asked ? reJudged(run, pass, knobs.settings) : null;
    setData(root, 'whatif', whatIf ? 'yes' : 'no');
    setData(root, 'drafter', run.trace.settings.drafter);
    setData(root, 'atlas', showsWhole() ? 'yes' : 'no');
    if (!player.playing) atlas.fetch();
    setText(badge, whatIf ? t('whatif.badge') : atlas.label ?? origin());
    setData(badge, 'kind', whatIf ? 'whatif' : source);
    const n = run.trace.settings.drafter === 'none' ? 0 : run.trace.settings.num_draft_tokens;
    setText(headline, n ? t('headline', { n, number: t(`number.${n}`) }) : t('headline.plain'));
    bar.setChanged(differs(knobs.settings, run.trace.settings) || knobs.prompt !== run.trace.prompt.text);
    flight.forget();
  }
  // Between recorded runs of one prompt, how far each is from the trunk's law is what they are compared by.
  function origin() {
    const from = t(`source.${source}`);
    return others.list.hidden ? from : `${from} · ${t('atlas.drift', { tv: formatMean(counts(run.trace).mean_bias_tv) })}`;
  }
  knobs.onChange((field) => {
    knobsMoved = field !== 'load';
    if (knobsMoved && run?.passes.length) {
      guide.bet.drop();
      retune();
      guide.did(field);
    }
    bar.update();
  });

  // The knobs have moved: another recorded run takes the stage, halted where this one is; else this round is judged anew.
  function retune() {
    if (player.playing) player.pause();
    const trace = busy ? null : atlas.pick();
    if (trace) {
      const [before, at] = [run, player.t];
      begin(run.key, trace, 'recorded', !calm.matches);
      player.t = placeIn(run, before, at);
      atlas.show(run);
      setText(live, `${atlas.label}. ${atlas.whole.note}`);
    }
    changed();
    player.show();
  }

  function showsWhole() {
    return atlas.label !== null && !player.playing && !whatIf;
  }

  function begin(key, trace, from, morph = false) {
    run = createRun(key, trace);
    source = from;
    if (from !== 'recorded') onStage(null, null);
    player.waiting = from === 'live' && trace.finish_reason === null;
    sentence.begin(run);
    tally.begin(run);
    strip.begin(run, morph);
    player.run = run;
    player.t = 0;
  }

  async function openPreset(name) {
    guide.did('own');
    const trace = await host.loadPreset(name);
    onStage(config.presets.find((preset) => preset.name === name), trace);
    start(`recorded ${name}`, trace, 'recorded');
  }

  function onStage(preset, own, other = 0) {
    atlas.open(preset, own);
    others.open(preset, other);
  }

  // Another recorded run of the preset on the stage, halted where this one is.
  async function openOther(name) {
    const trace = await host.loadPreset(name);
    const [before, at] = [run, player.t];
    knobs.load(trace.prompt.text, trace.settings);
    begin(`recorded ${name}`, trace, 'recorded', !calm.matches);
    player.seek(placeIn(run, before, at));
  }

  // A stored run: its settings go to the knobs, and it plays from its start. A live one, which would take the stage back
  // at its next round, is stopped.
  function start(key, trace, from) {
    if (busy) stop();
    showError(null);
    knobs.load(trace.prompt.text, trace.settings);
    begin(key, trace, from);
    player.play();
    player.show();
  }

  function setBusy(now) {
    busy = now;
    bar.setBusy(now);
  }

  function decode() {
    guide.did('own');
    showError(null);
    setBusy(true);
    stopped = false;
    setText(badge, t('source.waiting'));
    setData(badge, 'kind', 'waiting');
    host.decode({ prompt: knobs.prompt, settings: { ...knobs.settings } });
  }

  function stop() {
    stopped = true;
    player.waiting = false;
    setBusy(false);
    changed();
    host.stop();
  }

  function show(value) {
    if (!value) return;
    if (value.status) {
      known = value.status;
      setText(status, value.status.text);
      setData(status, 'live', value.status.live ? 'yes' : 'no');
      status.title = value.status.text;
      knobs.drafters = value.status.drafters ?? null;
      bar.update();
    }
    if ('error' in value || value.trace) showError(value.error ?? foreignWeights(value));
    if (value.error) changed();
    if (stopped && value.run !== undefined) return;
    if (value.busy !== undefined) setBusy(value.busy);
    const { trace } = value;
    if (value.ahead !== undefined && !trace) setText(badge, value.ahead ? t('source.line', { n: value.ahead }) : t('source.waiting'));
    if (!trace) return;
    if (run?.key !== value.run || trace.rounds.length < run.trace.rounds.length) {
      begin(value.run, trace, value.source ?? 'live');
      if (run.passes.length) player.play();
    } else {
      const fresh = extendRun(run, trace);
      strip.append(fresh);
      if (fresh.length === run.passes.length) player.play();
    }
    player.waiting = Boolean(value.busy) && trace.finish_reason === null;
    if (trace.message) showError({ message: trace.message });
    player.resume();
    player.show();
  }

  // A link's tokens come back only on the weights that it was made on.
  function foreignWeights({ trace, source: from = 'live' }) {
    return ['live', 'kept'].includes(from) && link?.weights && link.weights !== weightsOf(trace.model) ? { message: t('share.weights') } : null;
  }

  // Fills the controls from the page's address. What is on the stage stays there until a new run begins.
  function openLink() {
    const read = host.canDecode && readLink(location.hash, config, knobs.prompt);
    if (!read) return;
    link = read;
    knobs.load(link.prompt, link.settings);
    showError(link.refused.length ? { message: t('share.refused', { names: link.refused.slice(0, 8).join(', ') }) } : null);
    if (run) changed();
  }

  function colours() {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    return { accepted: colour('--accepted'), rejected: colour('--rejected'), target: colour('--trunk'), muted: colour('--muted') };
  }

  function relayOut() {
    flight.forget();
    strip.redraw();
    player.show();
  }
  // A caption of another length changes the height alone, and the strip need not be drawn anew.
  let wide = 0;
  const sizes = new ResizeObserver(() => {
    if (wide === root.clientWidth) return flight.forget();
    wide = root.clientWidth;
    relayOut();
  });
  sizes.observe(root);
  const themes = new MutationObserver(relayOut);
  for (const element of [document.documentElement, document.body]) themes.observe(element, { attributes: true, attributeFilter: ['class'] });
  sentence.box.addEventListener('scroll', () => flight.forget());

  listenToKeys(root, leaving.signal, {
    presets: config.presets, guide, transport, openPreset, letters: { l: lecture, g: glossary.open, o: others.next },
  });
  root.addEventListener('keydown', atlas.key, { signal: leaving.signal });

  addEventListener('hashchange', () => {
    openLink();
    player.show();
  }, { signal: leaving.signal });

  setBusy(false);
  show({ status: config.status });
  if (kept?.run) {
    ({ link } = kept);
    knobs.load(kept.prompt, kept.settings);
    knobsMoved = true;
    begin(kept.run.key, kept.run.trace, kept.source);
    onStage(kept.preset, kept.run.trace, kept.other);
    setBusy(kept.busy);
    player.seek(kept.at);
    guide.restore();
    root.querySelector('.advanced-button').focus();
  } else if (config.first) {
    knobs.load(config.first.prompt.text, config.first.settings);
    begin('first', config.first, 'recorded');
    onStage(config.presets[0], config.first);
    openLink();
    guide.open(Boolean(link));
  } else {
    bar.update();
    openLink();
  }

  return {
    show,
    destroy() {
      leaving.abort();
      sizes.disconnect();
      themes.disconnect();
      player.destroy();
      root.replaceChildren();
    },
  };
}
