// What went wrong, in words, with the controls that it is about marked.

import { h, setText } from './dom.js';

// `show(problem)`: its `message`, or the words for its `code`; `field` names the control. null clears both.
export function createAlert(t, root) {
  const box = h('div', { class: 'error', role: 'alert', hidden: true });

  function show(problem) {
    root.querySelectorAll('[aria-invalid]').forEach((element) => element.removeAttribute('aria-invalid'));
    box.hidden = !problem;
    setText(box, problem?.code ? t(`refused.${problem.code}`, problem) : problem?.message ?? '');
    if (problem?.field) root.querySelectorAll(`[data-field="${CSS.escape(problem.field)}"]`).forEach((element) => element.setAttribute('aria-invalid', 'true'));
  }

  return { box, show };
}
