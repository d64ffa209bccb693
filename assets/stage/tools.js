// What one does with a run: share it, save it, open another, draw it, teach with it. Stands at the top of the drawer.

import { MOST_BYTES, checkTrace } from './check.js';
import { h, setText } from './dom.js';

// `host` says what each tool does; a tool that it lacks is not drawn.
export function createTools(t, host) {
  const address = h('input', { class: 'address', readonly: true, hidden: true, 'aria-label': t('tool.share') });
  const note = h('p', { class: 'panel-note', role: 'status' });
  const file = h('input', { type: 'file', class: 'file', accept: '.json,application/json', hidden: true, onchange: open });
  const tool = (name, action) => host[name] && h('button', { type: 'button', class: `tool ${name}`, title: t(`tool.${name}.tip`), onclick: action }, t(`tool.${name}`));

  // The address stands there too: a page without https may not write to the clipboard.
  async function share() {
    address.value = host.share();
    address.hidden = false;
    address.select();
    const copied = await navigator.clipboard?.writeText(address.value).then(() => true, () => false);
    setText(note, t(copied ? 'share.copied' : 'share.copy'));
  }

  async function open() {
    const [chosen] = file.files;
    if (!chosen) return;
    file.value = ''; // so that the same file can be opened again
    try {
      if (chosen.size > MOST_BYTES) throw new Error(t('open.size', { mb: MOST_BYTES / 1e6 }));
      host.open(checkTrace(JSON.parse(await chosen.text()), host.schema));
    } catch (error) {
      host.refuse(t('open.refused', { why: error.message.slice(0, 200) }));
    }
  }

  return h('div', { class: 'tools' }, ...[
    tool('glossary', host.glossary), tool('share', share), tool('save', () => download('mtviz-trace.json', 'application/json', host.save())), tool('open', () => file.click()),
    tool('still', () => download('mtviz-round.svg', 'image/svg+xml', host.still())), tool('lecture', host.lecture), tool('language', host.language), file, address, note,
  ].filter(Boolean));
}

function download(name, type, text) {
  const link = h('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 9000);
}
