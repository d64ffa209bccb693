// Glue between Gradio's component and the Measure page. `element`, `props`, `trigger`, `server` and `watch` are Gradio's.
// The component's value is one line of JSON: how far a measurement is, its result, or what went wrong.
async function connectMeasure() {
  // Gradio looks for the names of events in this text, in quotes.
  const halts = { lengths: 'halt_lengths', thresholds: 'halt_thresholds', memory: 'halt_memory', footprint: 'halt_footprint', tradeoff: 'halt_tradeoff' };
  const page = await mountMeasure(element.querySelector('.mtviz-measure'), {
    config: JSON.parse(props.config),
    results: async () => JSON.parse(await server.results(null)),
    actions: { race: (request) => trigger('race', request), costs: () => trigger('costs'), halt: () => trigger('halt'), again: (asked) => trigger(asked), stop: (asked) => trigger(halts[asked]) },
  });
  watch('value', () => { if (props.value) page.show(JSON.parse(props.value)); });
}
