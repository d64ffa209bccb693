// The strings table: flat keys, `{name}` placeholders, and a `_one` variant of a key where the count `n` is one.

export function createStrings(tables, language) {
  const english = tables?.en ?? {};
  const own = tables?.[language] ?? english;
  return function t(key, values = {}) {
    const text = (values.n === 1 && own[`${key}_one`]) || own[key] || english[key] || key;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
  };
}

export function pickLanguage(tables, wanted) {
  const codes = [wanted, ...(globalThis.navigator?.languages ?? [])].filter(Boolean).map((code) => code.slice(0, 2));
  return codes.find((code) => tables?.[code]) ?? 'en';
}
