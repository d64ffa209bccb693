// What one does with a run: share it. Stands at the top of the drawer.

import { h, setText } from './dom.js';

// `host` says what each tool does; a tool that it lacks is not drawn.
export function createTools(t, host) {
  const address = h('input', { class: 'address', readonly: true, hidden: true, 'aria-label': t('tool.share') });
  const note = h('p', { class: 'panel-note', role: 'status' });
  const tool = (name, action) => host[name] && h('button', { type: 'button', class: `tool ${name}`, title: t(`tool.${name}.tip`), onclick: action }, t(`tool.${name}`));

  // The address stands there too: a page without https may not write to the clipboard.
  async function share() {
    address.value = host.share();
    address.hidden = false;
    address.select();
    const copied = await navigator.clipboard?.writeText(address.value).then(() => true, () => false);
    setText(note, t(copied ? 'share.copied' : 'share.copy'));
  }

  return h('div', { class: 'tools' }, ...[tool('share', share), address, note].filter(Boolean));
}
