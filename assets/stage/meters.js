// Where the time goes (measured milliseconds of drafting and of the pass) and the trunk's cache around one round.

import { h, setData, setText, setVar } from './dom.js';
import { formatMs } from './format.js';

const CELLS = 9; // new cache entries that one pass can add: the last token and eight drafts

export function createMeters(t) {
  const draftText = h('span', { class: 'cost-text draft' });
  const passText = h('span', { class: 'cost-text target' });
  const costBar = h('div', { class: 'cost-bar' }, h('div', { class: 'cost draft' }), h('div', { class: 'cost target' }));
  const costSum = h('span', { class: 'meter-note' });
  const cost = h('div', { class: 'meter', title: t('cost.definition') }, h('span', { class: 'meter-name' }, t('cost.name')),
    draftText, costBar, passText, costSum);

  const old = h('div', { class: 'cells-old' });
  const cells = Array.from({ length: CELLS }, () => h('div', { class: 'cell' }));
  const pointer = h('div', { class: 'pointer' });
  const cacheNote = h('span', { class: 'meter-note' });
  const cache = h('div', { class: 'meter', title: t('cache.definition') }, h('span', { class: 'meter-name' }, t('cache.name')),
    h('div', { class: 'cells' }, old, ...cells, pointer), cacheNote);
  let drawn = null;

  function fill(view) {
    drawn = view;
    const { draft, verify } = view.seconds;
    const whole = draft + verify || 1;
    setVar(costBar, '--draft-share', draft / whole);
    setVar(costBar, '--target-share', verify / whole);
    setText(draftText, draft ? `${t(`drafter.${view.drafter}`)} ${formatMs(draft)}` : '');
    setText(passText, `${t('cost.pass')} ${formatMs(verify)}`);
    const tokens = view.accepted + (view.emitted ? 1 : 0);
    setText(costSum, view.whatIf ? t('whatif.badge') : t('cost.sum', { n: tokens, ms: formatMs(draft + verify) }));
    const { before, peak } = view.cache;
    setText(old, view.kind === 'prefill' ? '' : String(before));
    cells.forEach((cell, i) => { cell.hidden = view.kind === 'prefill' ? i > 0 : i >= peak - before; });
    setText(cells[0], view.kind === 'prefill' ? String(peak) : '');
    setData(cache, 'kind', view.kind);
  }

  return {
    root: h('div', { class: 'meters' }, cost, cache),
    apply({ view }, state) {
      if (drawn !== view) fill(view);
      const { before, peak, after } = view.cache;
      setVar(costBar, '--guessed', state.guessed);
      setVar(costBar, '--swept', state.sweep);
      costSum.classList.toggle('later', !state.counted); // how many tokens came of it is not known before
      const unit = view.kind === 'prefill' ? peak : 1;
      cells.forEach((cell, i) => {
        const place = before + (i + 1) * unit;
        const lit = state.cache.filled >= place;
        setData(cell, 'state', !lit ? 'free' : state.cache.rolled > 0 && place > after ? 'dropped' : 'lit');
      });
      setVar(pointer, '--at', (state.cache.pointer - before) / unit);
      setText(cacheNote, state.cache.rolled > 0 && after < peak
        ? t('cache.rolled', { peak, after, n: peak - after }) : t('cache.length', { n: Math.round(state.cache.pointer) }));
    },
  };
}
