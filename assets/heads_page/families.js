// The families of heads, and what their files say of their size.

export const FAMILIES = ['parallel', 'hierarchical', 'mtp', 'adaptive'];

// Parameters of the tensors whose name begins with one of `starts`; of all where none is given.
export function parametersOf({ shapes }, ...starts) {
  const counted = Object.entries(shapes).filter(([name]) => !starts.length || starts.some((start) => name.startsWith(start)));
  return counted.reduce((sum, [, shape]) => sum + shape.reduce((product, n) => product * n, 1), 0);
}

// How many heads have weights of their own.
export function headsOf({ shapes }) {
  return new Set(Object.keys(shapes).map((name) => /^(?:blocks|adapters)\.(\d+)\./.exec(name)?.[1]).filter(Boolean)).size;
}

export function millions(n) {
  return `${(n / 1e6).toFixed(2)} M`;
}

export function megabytes(n) {
  return `${(n / 1e6).toFixed(1)} MB`;
}

// The file that a family's weights lie in: adaptive chooses the length of `mtp`.
export function fileOf(stored, family) {
  return family === 'adaptive' ? (stored.mtp?.length && stored.mtp) : stored[family];
}
