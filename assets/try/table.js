// The table and the two settings, as they are typed. Nothing is read or rounded here: the text goes to the server.

import { h, setText } from '../stage/dom.js';

const FIELDS = ['token', 'draft_prob', 'target_prob'];
const SETTINGS = ['max_proposal_len', 'min_accept_ratio'];

// `typed` is {rows, max_proposal_len, min_accept_ratio}; it is changed in place, and `changed()` is called.
export function createTable(t, typed, { bounds, maxRows, changed }) {
  const body = h('tbody');
  const add = h('button', { type: 'button', class: 'quiet add', onclick: addRow }, t('row.add'));
  const head = h('tr', {}, h('th', {}, '#'),
    ...FIELDS.map((field) => h('th', { scope: 'col', class: field, title: t(`field.${field}.tip`) }, t(`field.${field}`))), h('th'));
  const error = h('p', { class: 'error', role: 'alert', hidden: true });
  const settings = SETTINGS.map((field) => slider(field, bounds[field]));
  const root = h('div', { class: 'typed' },
    h('table', { 'aria-label': t('table') }, h('thead', {}, head), body), add, error,
    h('div', { class: 'settings' }, ...settings.map((one) => one.root)));

  function slider(field, { low, high, integer }) {
    const step = integer ? 1 : 0.01;
    const input = h('input', { type: 'range', min: integer ? low : low + step, max: high, step, name: field, 'data-field': field });
    const value = h('output', {});
    const show = () => {
      input.value = typed[field];
      setText(value, String(typed[field]));
    };
    input.addEventListener('input', () => {
      typed[field] = Number(input.value);
      show();
      changed();
    });
    return { show, root: h('label', {}, h('span', {}, t(`field.${field}`), h('code', {}, field)), input, value) };
  }

  function cell(at, field) {
    const input = h('input', {
      type: 'text', inputmode: field === 'token' ? 'numeric' : 'decimal', autocomplete: 'off', spellcheck: 'false', value: typed.rows[at][field],
      'aria-label': `${t('row', { row: at + 1 })}, ${t(`field.${field}`)}`, 'data-row': at + 1, 'data-field': field,
    });
    input.addEventListener('input', () => {
      typed.rows[at][field] = input.value;
      changed();
    });
    return h('td', { class: field }, input);
  }

  function addRow() {
    typed.rows.push({ token: '0', draft_prob: '0.5', target_prob: '0.5' });
    show();
    body.lastElementChild.querySelector('input').select();
    changed();
  }

  function removeRow(at) {
    typed.rows.splice(at, 1);
    show();
    (body.children[Math.min(at, typed.rows.length - 1)]?.querySelector('.remove') ?? add).focus();
    changed();
  }

  function show() {
    body.replaceChildren(...typed.rows.map((row, at) => h('tr', {},
      h('th', { scope: 'row' }, String(at + 1)), ...FIELDS.map((field) => cell(at, field)),
      h('td', {}, h('button', { type: 'button', class: 'quiet remove', 'aria-label': t('row.remove', { row: at + 1 }), onclick: () => removeRow(at) }, '×')))));
    add.hidden = typed.rows.length >= maxRows;
    settings.forEach((one) => one.show());
  }

  show();
  return {
    root, show,
    showProblem(problem, message) {
      error.hidden = !problem;
      setText(error, message);
      root.querySelectorAll('[aria-invalid]').forEach((input) => input.removeAttribute('aria-invalid'));
      const row = problem?.row ? `[data-row="${problem.row}"]` : '';
      if (problem) root.querySelector(`${row}[data-field="${problem.field}"]`)?.setAttribute('aria-invalid', 'true');
    },
  };
}
