// Milliseconds of a pass by the tokens in it: the verification cost that decides everything.

import { h, setText } from '../stage/dom.js';
import { barRows, fixed } from './rows.js';
import { sourceOf } from './source.js';

export function createCost(t, { results, actions, memory }) {
  const body = h('div');
  const status = h('p', { class: 'form-status', role: 'status' });
  const go = h('button', { type: 'button', class: 'quiet again', onclick: ask }, t('cost.again'));
  const families = h('div', { class: 'choices', role: 'group', 'aria-label': t('cost.families') });
  let cost = memory.cost ?? results.pass_cost;

  function ask() {
    go.disabled = true;
    setText(status, t('form.waiting'));
    actions.costs();
  }

  function draw() {
    if (!cost) return body.replaceChildren(h('p', { class: 'note' }, t('unmeasured')));
    const names = Object.keys(cost.drafts);
    if (!names.includes(memory.family)) memory.family = names.includes('mtp') ? 'mtp' : names[0];
    families.replaceChildren(...names.map((name) => h('button', {
      type: 'button', class: 'pick', 'aria-pressed': String(name === memory.family), onclick: () => { memory.family = name; draw(); },
    }, t(`drafter.${name}`))));
    const drafts = new Map((cost.drafts[memory.family] ?? []).map((row) => [row.tokens, row]));
    const one = cost.passes[0].median;
    const max = Math.max(...cost.passes.map((row) => Math.max(row.high, row.median + (drafts.get(row.tokens - 1)?.median ?? 0))));
    body.replaceChildren(
      barRows(cost.passes.map((row) => {
        const draft = drafts.get(row.tokens - 1);
        return {
          label: t('cost.row', { n: row.tokens }), range: [row.low, row.high],
          parts: [{ value: row.median, kind: 'trunk', title: t('cost.pass', { ms: fixed(row.median, 1) }) },
            ...(draft ? [{ value: draft.median, kind: 'heads', title: t('cost.draft', { ms: fixed(draft.median, 1) }) }] : [])],
          text: h('span', {}, t('cost.text', { ms: fixed(row.median, 1), ratio: fixed(row.median / one) }), ...(draft ? [h('span', { class: 'of-drafts' }, ` + ${fixed(draft.median, 1)}`)] : [])),
        };
      }), max),
      h('p', { class: 'legend' }, h('span', { class: 'key-of trunk' }, t('cost.key.pass')), h('span', { class: 'key-of heads' }, t('cost.key.drafts', { family: t(`drafter.${memory.family}`) })),
        h('span', { class: 'key-of range' }, t('cost.key.range'))),
      h('p', {}, t('cost.said', { ratio: fixed(cost.passes.at(-1).median / one), n: cost.passes.at(-1).tokens, rounds: cost.passes[0].rounds, from: cost.context[0], to: cost.context[1] })),
      sourceOf(t, cost.provenance, cost === memory.cost));
  }

  draw();
  return {
    root: h('section', { class: 'page-part', id: 'measure-cost' }, h('div', { class: 'head-line' }, h('h3', {}, t('cost.title')), go), h('p', { class: 'lead' }, t('cost.lead')), status, families, body),
    show(update) {
      if (update.asked !== 'costs') return;
      if (update.kind === 'waiting') setText(status, update.ahead ? t('form.ahead', { n: update.ahead }) : t('form.waiting'));
      else if (update.kind === 'progress') setText(status, t('cost.progress', { done: update.done + 1, of: update.of }));
      else go.disabled = false;
      if (update.kind === 'problem') setText(status, update.message);
      if (update.kind === 'pass_cost') {
        memory.cost = cost = update;
        setText(status, t('cost.done'));
        draw();
      }
    },
  };
}
