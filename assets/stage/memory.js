// What this browser keeps for its visitor: the language chosen, the place in the tour, the bets. Where storage is blocked
// or full, until the page is left.

const here = new Map();
const own = (name) => `mtviz.${name}`;

export function recall(name) {
  try {
    return here.get(name) ?? localStorage.getItem(own(name));
  } catch {
    return null;
  }
}

export function remember(name, value) {
  here.set(name, String(value));
  try {
    localStorage.setItem(own(name), value);
  } catch { // kept in `here` alone
  }
}
