// Four blanks of the simulator, filled by choosing a line. Nothing that is chosen runs anywhere.

import { h, setData, setText } from '../stage/dom.js';

// `chosen` holds the number of the chosen line by the name of the blank, and is changed in place.
export function createBlanks(t, blanks, chosen, language) {
  const done = h('p', { class: 'done', role: 'status' });
  const items = blanks.map((blank) => createBlank(blank, chosen, language, () => {
    const right = blanks.every(({ name, choices }) => choices[chosen[name]]?.right);
    setText(done, right ? `✓ ${t('blanks.done')}` : '');
  }));
  items.forEach((item) => item.update());
  return h('details', { class: 'blanks' }, h('summary', {}, t('blanks')),
    h('p', { class: 'note' }, t('blanks.note'), ' ', h('code', {}, 'python exercises/check.py')),
    h('ol', {}, ...items.map((item) => item.root)), done);
}

function createBlank({ name, before, after, choices }, chosen, language, changed) {
  const hole = h('span', { class: 'hole' });
  const why = h('p', { class: 'answer', 'aria-live': 'polite' });
  const options = choices.map(({ code }, at) => {
    const input = h('input', { type: 'radio', name: `blank-${name}`, onchange: () => { chosen[name] = at; update(); } });
    input.checked = chosen[name] === at;
    return h('label', {}, input, h('code', {}, code));
  });
  const root = h('li', { 'data-blank': name }, h('pre', { tabindex: 0 }, h('code', {}, before, hole, after)),
    h('fieldset', {}, h('legend', { class: 'unseen' }, name), ...options), why);

  function update() {
    const choice = choices[chosen[name]];
    setText(hole, choice ? choice.code : '          ');
    setData(root, 'answer', choice ? (choice.right ? 'right' : 'wrong') : 'none');
    setText(why, choice ? `${choice.right ? '✓' : '✗'} ${choice.why[language]}` : '');
    changed();
  }
  return { root, update };
}
