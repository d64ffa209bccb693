// Numbers as text. Only the digits are cut here; every comparison and every bar uses the unrounded number.

export function formatProb(value) {
  if (value === 0) return '0';
  if (value < 0.001) return value.toExponential(0).replace('e-', 'e−');
  if (value < 0.1) return value.toFixed(3);
  return value < 0.995 || value === 1 ? value.toFixed(2) : value.toFixed(3).replace('1.000', '>.999');
}

export function formatRatio(value) {
  if (value === null) return '–';
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  if (value > 0 && value < 0.001) return formatProb(value);
  return value === 0 || value >= 0.01 ? value.toFixed(2) : value.toPrecision(1);
}

// Two numbers that are compared: digits are added until they look different, where they are.
export function formatPair(left, right, format = formatRatio) {
  let pair = [format(left), format(right)];
  for (let digits = 3; left !== right && pair[0] === pair[1] && digits < 9; digits += 1) pair = [left.toFixed(digits), right.toFixed(digits)];
  return pair;
}

export function formatMs(seconds) {
  const ms = seconds * 1000;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 0.05 || ms === 0 ? ms.toFixed(1) : ms.toPrecision(1)} ms`;
}

export function formatMean(value) {
  return value === null ? '–' : value.toFixed(2);
}
