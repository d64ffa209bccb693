// The one big number, tokens per trunk pass, and the panel with every count and its definition.

import { counts, share } from './counts.js';
import { h, setText, setVar } from './dom.js';
import { createPanel } from './panel.js';
import { formatMean } from './format.js';

const LISTED = ['mean_acceptance_length', 'acceptance_rate', 'accepted', 'judged', 'drafted', 'rounds', 'passes', 'new_tokens', 'tokens_per_second', 'mean_bias_tv'];

// Squares of the film strip that a count counts.
const COUNTED = {
  mean_acceptance_length: ['accepted', 'recovered', 'bonus', 'plain'],
  acceptance_rate: ['accepted'],
  accepted: ['accepted'],
  judged: ['accepted', 'rejected'],
  drafted: ['accepted', 'rejected', 'unjudged'],
  new_tokens: ['accepted', 'recovered', 'bonus', 'plain', 'first'],
};

// `light(kinds)` lights squares of the film strip; without kinds, all of them.
export function createTally(t, light) {
  const number = h('span', { class: 'big-number' });
  const gain = h('span', { class: 'gain', 'aria-hidden': 'true' });
  const source = h('span', { class: 'big-source' });
  const most = h('span', { class: 'big-most' });
  const button = h('button', { type: 'button', class: 'big', title: t('count.mean_acceptance_length.definition') },
    gain, number, h('span', { class: 'big-name' }, t('big.name')), source, most);
  const list = h('dl', {});
  const scope = h('p', { class: 'panel-note' });
  const panel = createPanel(button, 'counts', h('h3', {}, t('counts.title')), scope, list);
  let run = null;
  panel.addEventListener('beforetoggle', ({ newState }) => (newState === 'open' ? fill() : light()));
  panel.addEventListener('pointerover', ({ target }) => light(COUNTED[target.dataset.count]));

  function fill() {
    const all = counts(run.trace);
    setText(scope, t('counts.scope', { rounds: all.rounds }));
    const rows = LISTED.flatMap((name) => [
      h('dt', { 'data-count': name }, t(`count.${name}`)), h('dd', { class: 'value', 'data-count': name }, countText(name, all[name])),
      h('dd', { class: 'definition', 'data-count': name }, t(`count.${name}.definition`))]);
    for (const name of ['conditional_acceptance', 'survival']) {
      rows.push(h('dt', {}, t(`count.${name}`)), h('dd', { class: 'value' }, all[name].map(formatMean).join(' · ') || '–'), h('dd', { class: 'definition' }, t(`count.${name}.definition`)));
    }
    list.replaceChildren(...rows);
  }

  return {
    root: h('div', { class: 'big-box' }, button, panel),
    begin(next) { run = next; },
    // `asRecorded`: the state is the run's own, not a what-if of it.
    apply(pass, state, asRecorded) {
      const before = run.passes[pass.at - 1]?.totals ?? { emitted: 0, rounds: 0 };
      const { emitted, rounds } = state.counted ? pass.totals : before;
      setText(number, formatMean(share(emitted, rounds)));
      setText(gain, `+${pass.totals.emitted - before.emitted}`);
      setVar(gain, '--gain', asRecorded && pass.view.kind === 'round' ? state.emitted.leave : 0);
      number.classList.toggle('none', rounds === 0);
      setText(source, t('big.source', { emitted, rounds }));
      setText(most, t('big.most', { n: run.slots + 1, k: run.slots }));
    },
  };
}

function countText(name, value) {
  if (value === null) return '–';
  if (Number.isInteger(value)) return String(value);
  return name === 'mean_bias_tv' ? value.toPrecision(2) : value.toFixed(2);
}
