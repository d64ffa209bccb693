// The brace over the drafts: how many are guessed a round, and the handle that pulls it longer or shorter.

import { clamp, h, scaleOf, setText, setVar } from './dom.js';

export function createBrace(t, { bounds, knobs }) {
  const { low, high } = bounds.num_draft_tokens;
  const label = h('span', { class: 'brace-label' });
  const handle = h('div', { class: 'brace-handle', role: 'slider', tabindex: 0, 'aria-label': t('field.num_draft_tokens'), 'aria-valuemin': low,
    'aria-valuemax': high, title: t('field.num_draft_tokens.tip'), 'data-field': 'num_draft_tokens' });
  const root = h('div', { class: 'brace' }, h('div', { class: 'brace-line' }, label, handle));
  const set = (length) => {
    const next = clamp(Math.round(length), low, high);
    if (next !== knobs.settings.num_draft_tokens) knobs.set('num_draft_tokens', next);
  };

  let grip = null;
  handle.addEventListener('pointerdown', (event) => {
    handle.setPointerCapture(event.pointerId);
    const slots = Number(root.style.getPropertyValue('--slots')) || 1;
    grip = { x: event.clientX, length: knobs.settings.num_draft_tokens, unit: (root.clientWidth * scaleOf(root)) / slots };
  });
  handle.addEventListener('pointermove', (event) => grip && set(grip.length + (event.clientX - grip.x) / grip.unit));
  handle.addEventListener('lostpointercapture', () => { grip = null; });
  handle.addEventListener('keydown', (event) => {
    const to = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: low - high, End: high - low }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    set(knobs.settings.num_draft_tokens + to);
  });

  return {
    root,
    update(slots) {
      const length = knobs.settings.num_draft_tokens;
      setVar(root, '--slots', slots + 1);
      setVar(root, '--length', length);
      setText(label, t('brace', { n: length }));
      handle.setAttribute('aria-valuenow', length);
    },
  };
}
