// The other recorded runs of a preset: its prompt by another drafter, rule or seed. Chosen from a list, or one after another
// by the key O.

import { h } from './dom.js';
import { isExact } from './knobs.js';

// `go(name)` is asked to put a run on the stage.
export function createOthers(t, defaults, go) {
  const list = h('select', { class: 'others', 'aria-label': t('others.label'), title: t('others.tip'), hidden: true, onchange: () => go(list.value) });
  const named = {
    rule: (settings) => t(isExact(settings) ? 'mode.exact' : 'mode.loose'),
    drafter: ({ drafter }) => t(`drafter.${drafter}`),
    seed: ({ seed }) => `${t('field.seed')} ${seed}`,
  };

  return {
    list,
    get at() { return Math.max(0, list.selectedIndex); },
    // The preset that is on the stage, or null, and which of its runs.
    open(preset, at) {
      const runs = [{}, ...(preset?.others ?? [])].map((changes) => ({ ...defaults, ...preset?.settings, ...changes }));
      const varied = Object.keys(named).filter((field) => runs.some((run) => run[field] !== runs[0][field]));
      list.replaceChildren(...runs.map((run, i) => h('option', { value: i ? `${preset.name}.${i}` : preset?.name }, varied.map((field) => named[field](run)).join(' · '))));
      list.hidden = runs.length < 2;
      list.selectedIndex = at;
    },
    next() {
      if (list.hidden) return;
      list.selectedIndex = (list.selectedIndex + 1) % list.length;
      go(list.value);
    },
  };
}
