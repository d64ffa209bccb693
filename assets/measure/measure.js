// The Measure page put together. What was recorded comes by `host.results`; what is measured now comes by `show`.

import { h } from '../stage/dom.js';
import { createStrings, pickLanguage } from '../stage/strings.js';
import { createClaims } from './claims.js';
import { createCost } from './cost.js';
import { createHeat } from './heat.js';
import { createLengths } from './lengths.js';
import { createMemory } from './memory.js';
import { createRace } from './race.js';
import { createThresholds } from './thresholds.js';
import { createTradeoff } from './tradeoff.js';

const PARTS = { race: createRace, cost: createCost, lengths: createLengths, heat: createHeat, thresholds: createThresholds, tradeoff: createTradeoff, memory: createMemory, claims: createClaims };

export async function mountMeasure(root, host) {
  const { config } = host;
  const stage = document.querySelector('.mtviz-stage'); // the page has one language: that of its first stage
  const kept = Object.fromEntries(Object.keys(PARTS).map((name) => [name, {}])); // survives a change of language
  let parts = [];

  const recorded = await host.results();
  build();
  if (stage !== root) new MutationObserver(build).observe(stage, { attributes: true, attributeFilter: ['lang'] });
  addEventListener('hashchange', openRace);
  openRace();

  // An address that ends in #race opens this page (see the tabs' script) at the race.
  function openRace() {
    if (location.hash !== '#race') return;
    requestAnimationFrame(() => {
      root.querySelector('#race').scrollIntoView();
      root.querySelector('#race-title').focus({ preventScroll: true });
    });
  }

  function build() {
    const language = pickLanguage(config.strings, stage === root ? undefined : stage.lang);
    const t = createStrings(config.strings, language);
    const made = Object.entries(PARTS).map(([name, create]) => [name, create(t, { ...recorded, config, actions: host.actions, memory: kept[name] })]).filter(([, part]) => part);
    parts = made.map(([, part]) => part);
    root.lang = language;
    root.replaceChildren(
      h('h2', { class: 'headline' }, t('headline')),
      h('nav', { class: 'contents', 'aria-label': t('contents') }, ...made.map(([name, part]) => h('a', {
        href: `#${part.root.id}`, onclick: (event) => { event.preventDefault(); part.root.scrollIntoView({ behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' }); },
      }, t(`contents.${name}`)))),
      ...parts.map((part) => part.root));
  }

  return { show: (update) => parts.forEach((part) => part.show?.(update)) };
}
