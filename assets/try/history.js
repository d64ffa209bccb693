// What decode() returned so far, and the program that returns the newest.

import { h, setText } from '../stage/dom.js';

const KEYS = ['proposed_tokens', 'accepted_tokens', 'accepted_len', 'rejected_at', 'rejected_suffix'];

export function createHistory(t, entries) {
  const body = h('tbody');
  const none = h('p', { class: 'note' }, t('history.none'));
  const clear = h('button', { type: 'button', class: 'quiet clear', onclick: () => { entries.length = 0; show(); } }, t('history.clear'));
  const table = h('div', { class: 'scroll', tabindex: 0 },
    h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, '#'), ...KEYS.map((key) => h('th', { scope: 'col' }, ...breakable(key))))), body));

  function show() {
    body.replaceChildren(...entries.map((entry, at) => h('tr', {},
      h('th', { scope: 'row' }, String(at + 1)), ...KEYS.map((key) => h('td', {}, asPython(entry[key]))))));
    none.hidden = entries.length > 0;
    table.hidden = clear.hidden = !entries.length;
  }

  show();
  return {
    show,
    root: h('section', { class: 'history' }, h('div', { class: 'line' }, h('h3', {}, h('code', {}, t('history'))), clear),
      h('p', { class: 'note' }, t('history.note')), none, table),
  };
}

export function createProgram(t) {
  const code = h('code');
  const returns = h('code', { class: 'returns' });
  const copy = h('button', { type: 'button', class: 'quiet copy', onclick: copyCode }, t('code.copy'));

  async function copyCode() {
    try {
      await navigator.clipboard.writeText(code.textContent);
      setText(copy, t('code.copied'));
      setTimeout(() => setText(copy, t('code.copy')), 1500);
    } catch { // no clipboard outside https and localhost: it is selected instead
      getSelection().selectAllChildren(code);
    }
  }

  return {
    root: h('section', { class: 'program' }, h('div', { class: 'line' }, h('h3', {}, t('code')), copy),
      h('pre', { tabindex: 0 }, code), h('p', { class: 'note' }, t('code.returns')), h('pre', { tabindex: 0 }, returns)),
    show(round) {
      setText(code, round.code);
      setText(returns, round.returns);
    },
  };
}

// A name may break after its underscore.
function breakable(name) {
  return name.split(/(?<=_)/).flatMap((part, at) => (at ? [h('wbr'), part] : [part]));
}

function asPython(value) {
  if (value === null) return 'None';
  return Array.isArray(value) ? `[${value.join(', ')}]` : String(value);
}
