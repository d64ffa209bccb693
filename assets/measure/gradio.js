// Glue between Gradio's component and the Measure page. `element`, `props`, `trigger`, `server` and `watch` are Gradio's.
// The component's value is one line of JSON: how far a measurement is, its result, or what went wrong.
async function connectMeasure() {
  const page = await mountMeasure(element.querySelector('.mtviz-measure'), {
    config: JSON.parse(props.config),
    results: async () => JSON.parse(await server.results(null)),
    actions: { race: (request) => trigger('race', request), costs: () => trigger('costs'), halt: () => trigger('halt') },
  });
  watch('value', () => { if (props.value) page.show(JSON.parse(props.value)); });
}
