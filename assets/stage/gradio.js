// Glue between Gradio's component and the stage. `element`, `props`, `trigger`, `server` and `watch` are Gradio's.
//
// The component's value is text, one JSON value a line: first which run it is, then a Trace without rounds, one line a
// round, last how it ended (mtviz/views/stream.py). Text that only grows is sent as its new end, and is parsed once; a
// nested value would be compared and copied whole at every round.
function readGrowingTrace(onUpdate) {
  let head = '';
  let consumed = 0;
  let state = null;
  return (value) => {
    if (typeof value !== 'string') return;
    const firstLine = value.slice(0, value.indexOf('\n') + 1);
    if (firstLine !== head) {
      head = firstLine;
      consumed = 0;
      state = null;
    }
    const end = value.lastIndexOf('\n') + 1;
    if (end <= consumed) return;
    for (const line of value.slice(consumed, end).split('\n')) {
      if (!line) continue;
      const event = JSON.parse(line);
      if (event.round) appendRound(state.trace, event);
      else if (event.end) Object.assign(state.trace, event.end), (state.busy = false);
      else state = { ...state, ...event };
    }
    consumed = end;
    onUpdate(state);
  };
}

function appendRound(trace, { round, seconds }) {
  const accepted = round.drafts.filter((draft) => draft.verdict === 'accepted');
  trace.rounds.push(round);
  trace.output.tokens.push(...accepted.map((draft) => draft.token), ...(round.emitted ? [round.emitted.token] : []));
  trace.seconds = seconds;
}

// The Measure page's race, where this page has one: shown as soon as it is laid out.
function openRace() {
  [...document.querySelectorAll('#pages :is([role=tab], .overflow-dropdown button)')].find((tab) => tab.textContent.startsWith('Measure'))?.click();
  const look = (tries) => {
    const race = document.querySelector('#race');
    if (race?.getClientRects().length) race.scrollIntoView();
    else if (tries) setTimeout(look, 100, tries - 1);
  };
  look(50);
}

function connectStage() {
  const stage = mountStage(element.querySelector('.mtviz-stage'), {
    config: JSON.parse(props.config),
    canDecode: true,
    decode: (payload) => trigger('decode', payload),
    stop: () => trigger('halt'),
    loadPreset: async (name) => JSON.parse(await server.recorded(name)),
    race: openRace,
    loadAtlas: async (name) => JSON.parse(await server.atlas(name)),
  });
  const read = readGrowingTrace((update) => stage.show(update));
  watch('value', () => read(props.value));
  const askStatus = async () => {
    const status = await server.status(null);
    stage.show({ status });
    if (status.loading) setTimeout(askStatus, 1500);
  };
  askStatus();
}
