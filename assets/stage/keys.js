// The stage's keys: digits open presets, letters the rest, whatever else goes to the transport.

// `signal` ends the listening. A field that is being written in, and a button or slider that has a key of its own, keep theirs.
export function listenToKeys(root, signal, { presets, guide, transport, letters, openPreset }) {
  document.addEventListener('keydown', (event) => {
    const { target } = event;
    if (!root.getClientRects().length || (target !== document.body && !root.contains(target))) return;
    if (target.closest?.('input:not([type=range], [type=radio]), textarea, select, [popover]') || (event.key === ' ' && target.closest?.('button'))) return;
    if (/^ra/.test(target.type) && (event.key.length > 1 || event.key === ' ')) return; // a range's and a radio's own keys
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const preset = /^\d$/.test(event.key) && presets[(Number(event.key) + 9) % 10];
    if (guide.key(event)) event.preventDefault();
    else if (preset) openPreset(preset.name);
    else if (Object.hasOwn(letters, event.key)) letters[event.key]();
    else if (transport.key(event)) event.preventDefault();
  }, { signal });
}
