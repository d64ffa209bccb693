// The tutorials' sentences, each with what was measured here and the verdict that follows from it.

import { h } from '../stage/dom.js';

const SIGNS = { holds: '✓', partly: '◐', fails: '✗', unmeasured: '–' };

export function createClaims(t, { claims, results }) {
  const counted = Object.keys(SIGNS).map((verdict) => [verdict, claims.filter((claim) => claim.verdict === verdict).length]).filter(([, n]) => n);
  return {
    root: h('section', { class: 'page-part', id: 'measure-claims' }, h('h3', {}, t('claims.title')), h('p', { class: 'lead' }, t('claims.lead')),
      h('p', { class: 'tallies' }, ...counted.map(([verdict, n]) => h('span', { class: 'tally-of', 'data-verdict': verdict }, `${SIGNS[verdict]} ${t(`verdict.${verdict}`)}: ${n}`))),
      h('p', { class: 'note' }, t('claims.elsewhere'), ' ', h('code', {}, 'python -m mtviz heads --replay'), ', ', h('code', {}, 'python -m mtviz bench')),
      h('ol', { class: 'claims' }, ...claims.map(({ name, source, files, verdict, figures }) => h('li', { class: 'claim', 'data-verdict': verdict, 'data-claim': name },
        h('p', { class: 'claim-source' }, t(`claims.${source}`)),
        h('p', { class: 'claim-text' }, t(`claim.${name}`)),
        h('p', { class: 'claim-verdict' }, h('span', { class: 'verdict-sign', 'aria-hidden': 'true' }, SIGNS[verdict]), ' ', h('strong', {}, t(`verdict.${verdict}`))),
        h('p', { class: 'claim-measured' }, verdict === 'unmeasured' ? t('claims.command', { files: files.map((file) => commandOf(file, results)).join('; ') }) : t(`claim.${name}.measured`, shown(figures))))))),
  };
}

function commandOf(file, results) {
  return results[file]?.provenance?.command ?? `assets/results/${file}.json`;
}

function shown(figures) {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, typeof value !== 'number' || Number.isInteger(value) ? value : value.toFixed(name.endsWith('percent') ? 0 : 2)]));
}
