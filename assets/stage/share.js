// A link that restores the controls, all of it behind the `#`, so that it reaches no server. What a link says is a
// stranger's word: each value is held against the bounds and choices of the settings.

const OWN_MODEL = /^own-[0-9a-f]{16}$/; // one that was trained on the Heads page

export function linkTo(address, prompt, settings, model) {
  return `${address.split('#')[0]}#${new URLSearchParams({ prompt, ...settings, weights: weightsOf(model) })}`;
}

// {prompt, settings, weights, refused: names of what was refused}; null where the address is no such link.
export function readLink(hash, config, prompt) {
  const link = { prompt, settings: { ...config.defaults }, weights: '', refused: [] };
  const known = (name) => name === 'prompt' || name === 'weights' || Object.hasOwn(config.defaults, name);
  const given = [...new URLSearchParams(hash.slice(1))];
  if (!given.some(([name]) => known(name))) return null;
  for (const [name, text] of given) {
    const value = known(name) ? checked(name, text, config) : undefined;
    if (value === undefined) link.refused.push(name.slice(0, 30));
    else if (name in link) link[name] = value;
    else link.settings[name] = value;
  }
  return link;
}

export function weightsOf(model) {
  return model?.revision.slice(0, 12) ?? '';
}

function checked(name, text, { bounds, choices, max_prompt_characters: longest }) {
  let good;
  let value = text;
  if (name === 'prompt') good = text.trim() !== '' && Array.from(text).length <= longest;
  else if (name === 'weights') good = /^\w{0,12}$/.test(text);
  else if (choices[name]) good = choices[name].includes(text) || (name === 'model' && OWN_MODEL.test(text));
  else if (bounds[name]) {
    const { low, high, integer, low_open: open } = bounds[name];
    value = /^\d+(\.\d+)?(e-\d+)?$/.test(text) ? Number(text) : NaN;
    good = value >= low && value <= high && !(open && value === low) && !(integer && !Number.isInteger(value));
  } else {
    good = text === 'true' || text === 'false';
    value = text === 'true';
  }
  return good ? value : undefined;
}
