// Panels that open over the page from a button, and close by Escape or a click elsewhere (the browser's own popover).

import { clamp, h, scaleOf } from './dom.js';

export function createPanel(button, name, ...content) {
  const panel = h('div', { class: `panel ${name}`, popover: 'auto', tabindex: 0 }, ...content);
  button.popoverTargetElement = panel;
  panel.addEventListener('toggle', (event) => {
    button.setAttribute('aria-expanded', event.newState === 'open');
    if (event.newState !== 'open') return;
    const anchor = button.getBoundingClientRect();
    const { width, height } = panel.getBoundingClientRect();
    const below = anchor.bottom + 6 + height <= innerHeight || anchor.top < height;
    const scale = scaleOf(panel);
    panel.style.left = `${clamp(anchor.right - width, 8, Math.max(8, innerWidth - width - 8)) / scale}px`;
    panel.style.top = `${(below ? Math.max(8, Math.min(anchor.bottom + 6, innerHeight - height - 8)) : anchor.top - height - 6) / scale}px`;
  });
  return panel;
}
