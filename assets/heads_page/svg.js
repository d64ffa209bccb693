// SVG by elements. Text goes in as text nodes only.

export function s(tag, props = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(props)) if (value != null) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A line through points, each [x, y], with an arrowhead at its end.
export function arrow(kind, ...points) {
  const [[x0, y0], [x1, y1]] = points.slice(-2);
  const turn = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
  return s('g', { class: `arrow ${kind}` }, s('path', { class: 'line', d: `M${points.join('L')}` }),
    s('path', { class: 'tip', d: 'M0 0L-8 -4L-8 4Z', transform: `translate(${x1} ${y1}) rotate(${turn})` }));
}

export function label(x, y, text, props = {}) {
  return s('text', { x, y, ...props }, text);
}
