// The film strip: a column of squares for each pass, what it emitted standing solid from the ground up. One canvas, and new
// passes are added to what is drawn.

import { MORPH } from './time.js';
import { clamp, h, scaleOf, setVar } from './dom.js';

const WIDEST = 24;
const FIRST_CAPACITY = 44;

export function createStrip(t, { seek, colours }) {
  const canvas = h('canvas', { 'aria-hidden': 'true' });
  const before = h('canvas', { class: 'before', 'aria-hidden': 'true', hidden: true });
  const veil = h('div', { class: 'strip-veil' });
  const head = h('div', { class: 'strip-head' });
  const root = h('div', { class: 'strip', role: 'slider', tabindex: 0, 'aria-label': t('strip.label'), 'aria-valuemin': 0 }, canvas, before, veil, head);
  const pen = canvas.getContext('2d');
  let run = null;
  let capacity = FIRST_CAPACITY;
  let lit = null;
  let size = { height: 0, step: 0, wide: 0, tall: 0 };

  function measure() {
    const scale = Math.min(2, devicePixelRatio || 1);
    const { clientWidth: width, clientHeight: height } = root;
    if (!width || !run) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const rows = Math.max(run.slots + 1, ...run.passes.slice(0, 9).map(({ view }) => view.drafts.length + 1), 3);
    const step = Math.min(WIDEST, width / capacity);
    size = { height, step, wide: step - (step > 4 ? 2 : 0.5), tall: Math.min(14, (height - 2) / rows - 2) };
    run.passes.forEach(drawPass);
  }

  function drawPass({ view, at }) {
    const { step, wide, tall, height } = size;
    if (!step) return;
    const palette = colours();
    const x = at * step + (step - wide) / 2;
    const rejected = view.drafts.slice(view.accepted);
    const isPlain = view.kind === 'round' && !view.drafts.length;
    const kinds = [...Array(view.accepted).fill('accepted'), ...(view.emitted ? [isPlain ? 'plain' : view.emitted.kind] : []), ...rejected.map(({ verdict }) => verdict)];
    kinds.forEach((kind, row) => {
      pen.globalAlpha = !lit || lit.includes(kind) ? 1 : 0.18;
      drawSquare(pen, palette, kind, x, height - 1 - (row + 1) * (tall + 2) + 2, wide, tall);
    });
  }

  // What is drawn now fades away over what takes its place.
  function crossFade() {
    before.width = canvas.width;
    before.height = canvas.height;
    before.getContext('2d').drawImage(canvas, 0, 0);
    before.hidden = false;
    before.animate([{ opacity: 1 }, { opacity: 0 }], MORPH).onfinish = () => { before.hidden = true; };
    canvas.animate([{ opacity: 0 }, { opacity: 1 }], MORPH);
  }

  function seekAt(event) {
    const x = clamp((event.clientX - root.getBoundingClientRect().left) / scaleOf(root), 0, size.step * run.passes.length - 0.01);
    const pass = run.passes[Math.floor(x / size.step)];
    seek(pass.start + (x / size.step - pass.at) * pass.marks.rest);
  }

  root.addEventListener('pointerdown', (event) => {
    if (!run?.passes.length) return;
    root.setPointerCapture(event.pointerId);
    seekAt(event);
  });
  root.addEventListener('pointermove', (event) => root.hasPointerCapture(event.pointerId) && seekAt(event));

  return {
    root, redraw: measure,
    // Only squares of these kinds stand out; all of them where `kinds` is missing.
    light(kinds = null) {
      if (lit === kinds) return;
      lit = kinds;
      root.classList.toggle('lit', Boolean(lit));
      measure();
    },
    // `morph`: the run is another one of the same prompt, and takes the place of what is drawn before one's eyes.
    begin(next, morph) {
      if (morph) crossFade();
      run = next;
      capacity = FIRST_CAPACITY;
      while (capacity < run.passes.length) capacity *= 2;
      measure();
    },
    append(passes) {
      if (run.passes.length <= capacity) return passes.forEach(drawPass);
      while (capacity < run.passes.length) capacity *= 2;
      measure();
    },
    apply(pass, ms, text) {
      const x = (pass.at + clamp(ms / pass.marks.rest, 0, 1)) * size.step;
      setVar(root, '--x', `${x.toFixed(1)}px`);
      setVar(root, '--from', `${(pass.at * size.step).toFixed(1)}px`);
      root.setAttribute('aria-valuemax', run.passes.length);
      root.setAttribute('aria-valuenow', pass.at + 1);
      root.setAttribute('aria-valuetext', text);
    },
  };
}

// Sign and pattern tell the five verdicts apart without colour.
function drawSquare(pen, palette, kind, x, y, wide, tall) {
  const solid = { accepted: palette.accepted, rejected: null, unjudged: null, discarded: null }[kind];
  pen.setLineDash([]);
  pen.lineWidth = 1.2;
  if (solid !== null) {
    pen.fillStyle = solid ?? palette.target;
    pen.fillRect(x, y, wide, tall);
    if (solid || tall < 8 || wide < 8) return;
    pen.fillStyle = '#fff';
    pen.font = `${Math.round(tall * 0.85)}px sans-serif`;
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    pen.fillText({ recovered: '◆', bonus: '★', first: '▶', plain: '▶' }[kind], x + wide / 2, y + tall / 2 + 0.5);
    return;
  }
  pen.strokeStyle = kind === 'rejected' ? palette.rejected : palette.muted;
  if (kind !== 'rejected') pen.setLineDash([1.5, 2]);
  pen.strokeRect(x + 0.6, y + 0.6, wide - 1.2, tall - 1.2);
  if (kind !== 'rejected' || wide < 5) return;
  pen.beginPath();
  for (let d = 4; d < wide + tall; d += 4) {
    pen.moveTo(x + Math.max(0, d - tall), y + Math.min(tall, d));
    pen.lineTo(x + Math.min(wide, d), y + Math.max(0, d - wide));
  }
  pen.stroke();
}
