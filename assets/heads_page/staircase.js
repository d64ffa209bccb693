// The label shift: each row is one position of a real sentence, and says which token each head is for there.

import { clamp, h, setText } from '../stage/dom.js';
import { fillChip, quoted } from '../stage/token.js';

// `state` is {heads, row}; the tutorial's `heads` count the trunk's own next-token head.
export function createStaircase(t, { preset, tokens }, state) {
  const body = h('tbody');
  const said = h('p', { class: 'telling', 'aria-live': 'polite' });
  const head = tokens.map((token) => {
    const piece = h('th', { scope: 'col' });
    fillChip(piece, token);
    return piece;
  });
  const heads = slider('heads', 1, 8);
  const row = slider('row', 0, tokens.length - 2);

  function slider(name, low, high) {
    const value = h('output');
    const input = h('input', { type: 'range', min: low, max: high, step: 1, 'data-field': `staircase-${name}` });
    input.addEventListener('input', () => {
      state[name] = Number(input.value);
      draw();
    });
    return { input, value, root: h('label', {}, h('span', {}, t(`staircase.${name}`)), input, value) };
  }

  function draw() {
    state.row = clamp(state.row, 0, tokens.length - 2);
    heads.input.value = state.heads;
    row.input.value = state.row;
    setText(heads.value, String(state.heads));
    setText(row.value, `t = ${state.row}`);
    body.replaceChildren(...tokens.slice(0, -1).map((_, at) => rowOf(at)));
    const last = Math.min(state.heads, tokens.length - 1 - state.row);
    const labels = Array.from({ length: last - 1 }, (_, i) => `+${i + 2} ${quoted(tokens[state.row + i + 2])}`);
    setText(said, [
      t('staircase.said', { read: quoted(tokens[state.row]), t: state.row, next: quoted(tokens[state.row + 1]) }),
      labels.length ? t('staircase.labels', { labels: labels.join(', ') }) : '',
      state.heads > last ? t('staircase.none', { n: state.heads - last }) : '',
    ].filter(Boolean).join(' '));
  }

  function rowOf(at) {
    const cells = tokens.map((_, column) => {
      const offset = column - at;
      if (offset <= 0) return h('td', { class: offset ? 'read' : 'read newest' });
      if (offset > state.heads) return h('td', {});
      return h('td', { class: offset === 1 ? 'label trunk' : 'label heads' }, `+${offset}`);
    });
    const without = Math.max(0, state.heads - (tokens.length - 1 - at));
    const line = h('tr', { 'aria-current': at === state.row ? 'true' : null }, h('th', { scope: 'row' }, `h${subscript(at)}`), ...cells,
      h('td', { class: 'without' }, without ? `${without} × −100` : ''));
    line.addEventListener('pointerenter', () => {
      if (state.row === at) return;
      state.row = at;
      draw();
    });
    return line;
  }

  draw();
  return h('div', { class: 'staircase' },
    h('div', { class: 'sliders' }, heads.root, row.root),
    h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': t('staircase.title') },
      h('table', {}, h('caption', {}, t('staircase.caption', { preset })), h('thead', {}, h('tr', {}, h('td'), ...head, h('td', { class: 'without' }, t('staircase.without')))), body)),
    said, h('p', { class: 'note' }, t('staircase.note')));
}

function subscript(n) {
  return Array.from(String(n), (digit) => '₀₁₂₃₄₅₆₇₈₉'[digit]).join('');
}
