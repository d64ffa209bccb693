// Where figures come from: recorded or live, on which machine, and the command that makes them again.

import { h } from '../stage/dom.js';

export function sourceOf(t, provenance, live = false) {
  const { machine, cores, threads, device, dtype, model, load, date, version, command } = provenance;
  const busy = !live && load > Math.max(cores, threads) + 0.5; // its own threads are in the load
  return h('details', { class: 'source' },
    h('summary', {},
      h('span', { class: 'origin', 'data-live': live ? 'yes' : 'no' }, t(live ? 'source.live' : 'source.recorded', { date })),
      h('span', {}, t('source.machine', { machine: device === 'cpu' ? machine : device, cores, threads })),
      ...(busy ? [h('span', { class: 'busy' }, t('source.busy', { load: load.toFixed(1), cores }))] : [])),
    h('p', {}, `${model}, ${dtype}; ${version}`),
    h('pre', { tabindex: 0 }, h('code', {}, command)));
}
