// The atlas of a preset as a heat map: every proposal length at every threshold, each cell a whole recorded run.

import { h } from '../stage/dom.js';
import { fixed } from './rows.js';

const MEASURES = ['tokens_per_round', 'speedup', 'tokens_per_second', 'mean_bias_tv'];

export function createHeat(t, { heat, memory }) {
  const names = Object.keys(heat);
  if (!names.length) return null;
  memory.preset ??= names[0];
  memory.measure ??= MEASURES[0];
  const known = MEASURES.filter((name) => heat[names[0]].cells.flat().some((cell) => cell[name] !== null));
  const body = h('div');
  const group = (label, options, chosen, choose) => h('div', { class: 'choices', role: 'group', 'aria-label': label },
    ...options.map(([value, text]) => h('button', { type: 'button', class: 'pick', 'aria-pressed': String(value === chosen), onclick: () => { choose(value); draw(); } }, text)));

  function draw() {
    const map = heat[memory.preset];
    const values = map.cells.flat().map((cell) => cell[memory.measure]).filter((value) => value !== null);
    const low = memory.measure === 'mean_bias_tv' ? 0 : Math.min(...values);
    const high = Math.max(...values);
    const best = memory.measure === 'mean_bias_tv' ? null : high;
    body.replaceChildren(
      ...(names.length > 1 ? [group(t('heat.presets'), names.map((name) => [name, heat[name].prompt]), memory.preset, (value) => { memory.preset = value; })] : []),
      group(t('heat.measures'), known.map((name) => [name, t(`heat.${name}`)]), memory.measure, (value) => { memory.measure = value; }),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': t('heat.title') }, h('table', { class: 'heat', 'data-measure': memory.measure },
        h('caption', {}, t(`heat.${memory.measure}.caption`)),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, t('heat.corner')), ...map.thresholds.map((value) => h('th', { scope: 'col' }, value === null ? t('form.exact') : String(value))))),
        h('tbody', {}, ...map.cells.map((row, at) => h('tr', {}, h('th', { scope: 'row' }, String(map.lengths[at])), ...row.map((cell) => {
          const value = cell[memory.measure];
          const share = value === null || high === low ? 0 : (value - low) / (high - low);
          return h('td', { style: `--share:${share.toFixed(3)}`, 'data-best': value === best ? 'yes' : null }, fixed(value, memory.measure === 'tokens_per_second' ? 1 : 2));
        })))))),
      h('p', { class: 'note' }, t('heat.note', { date: map.recorded.date ?? '', host: map.host })),
      ...(map.recorded.command ? [h('p', { class: 'note' }, t('heat.elsewhere', { n: map.cells.flat().length }))] : []),
      ...(map.recorded.command ? [h('pre', { tabindex: 0 }, h('code', {}, map.recorded.command))] : []));
  }

  draw();
  return { root: h('section', { class: 'page-part', id: 'measure-heat' }, h('h3', {}, t('heat.title')), h('p', { class: 'lead' }, t('heat.lead')), body) };
}
