// The atlas on the page: while a preset's prompt and laws are untouched, the knobs choose among whole recorded runs.
// `This round only` holds the round on the stage instead, and the knobs judge it again.

import { cellOf, cellTrace } from './cells.js';
import { createRun } from './run.js';
import { createWhole, wordsOf } from './whole.js';
import { h } from './dom.js';

// `load(name)` fetches an atlas, where the page can; `changed` is called when one has come, or the round is held or let go.
export function createAtlas(t, { knobs, load, changed, still }) {
  const whole = createWhole(t, still);
  const hold = h('button', { type: 'button', class: 'quiet hold', 'aria-pressed': 'false', hidden: true, title: t('atlas.hold.tip'), onclick: () => press(!held) }, t('atlas.hold'));
  let preset = null;
  let home = null; // the preset's own Trace, which has more of each law than the atlas
  let asked = null;
  let data = null;
  let exact = null; // the words of the shortest exact run, which every other is compared with
  let cell = null;
  let held = false;

  function press(now) {
    held = now;
    hold.setAttribute('aria-pressed', held);
    changed();
  }

  async function fetch() {
    if (!load || !preset?.atlas || asked === preset.atlas) return;
    asked = preset.atlas;
    data = null;
    const loaded = await load(asked).catch(() => null); // a page that has none keeps its what-ifs
    if (asked !== preset?.atlas || !loaded) return;
    data = loaded;
    exact = wordsOf(createRun('exact', cellTrace(data, { row: 0, column: null })));
    hold.hidden = false;
    changed();
  }

  function trace(of) {
    const { rule, threshold, num_draft_tokens: length } = home.settings;
    const made = cellTrace(data, of);
    const own = made.settings.rule === rule && made.settings.num_draft_tokens === length && (rule === 'match' || made.settings.threshold === threshold);
    return own && String(made.output.tokens.map(({ id }) => id)) === String(home.output.tokens.map(({ id }) => id)) ? home : made;
  }

  return {
    whole, hold, fetch,
    get preset() { return preset; },
    get label() { return cell && t('atlas.run', cell); },
    // A preset with its Trace goes on the stage; null where something else does.
    open(next, own) {
      if (next?.atlas !== preset?.atlas) asked = data = null;
      preset = next;
      home = own;
      cell = null;
      held = false;
      hold.setAttribute('aria-pressed', 'false');
      hold.hidden = !data;
    },
    // The Trace that the knobs have come to, or null where it is the one on the stage already, or they left the atlas.
    pick() {
      const next = data && !held ? cellOf(data, knobs.prompt, knobs.settings) : null;
      if (next && next.column !== null) knobs.settings.threshold = data.thresholds[next.column];
      const moved = next && next.n + next.of !== cell?.n + cell?.of;
      cell = next;
      return moved ? trace(next) : null;
    },
    show(run) { whole.show(run, exact); },
    // Keys on a threshold's slider go from one recorded run to the next.
    key(event) {
      const { type, dataset } = event.target;
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -99, End: 99 }[event.key];
      if (!step || type !== 'range' || dataset.field !== 'threshold' || !cell || cell.column === null) return;
      event.preventDefault();
      knobs.set('threshold', data.thresholds[Math.min(data.thresholds.length - 1, Math.max(0, cell.column + step))]);
    },
  };
}
