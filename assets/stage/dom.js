// Building and updating elements. Text goes in as text nodes only: nothing that a model wrote is ever parsed as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

const written = new WeakMap();

// Sets a CSS custom property, touching the element only where the value is new: a resting frame costs nothing.
export function setVar(element, name, value) {
  let known = written.get(element);
  if (!known) written.set(element, (known = {}));
  if (known[name] === value) return;
  known[name] = value;
  element.style.setProperty(name, value);
}

export function setData(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// How much larger an element is seen than it is laid out: more than 1 in lecture mode.
export function scaleOf(element) {
  return element.getBoundingClientRect().width / element.offsetWidth || 1;
}

export function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}
