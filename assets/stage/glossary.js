// The glossary: a drawer of cards, and links to them from the words of the stage, wherever they appear in it.

import { h } from './dom.js';

// Words in these places lead to their cards; each card once a place.
const PLACES = '.caption, .phases li, .speaker, .knob-name, .knob-note, .held-name, .meter-name, .drift span, .emitted .offset, .counts :is(dt, dd.definition), '
  + '.microscope :is(.panel-note, .rule-words, p:not(.rule-typed)), .advanced legend';

export function createGlossary(t, cards = [], language = 'en') {
  const own = cards.map(({ id, paper, ...languages }) => ({ id, paper, ...(languages[language] ?? languages.en) }));
  const byWord = new Map(own.flatMap(({ id, words }) => words.map((word) => [word.toLowerCase(), id])));
  const words = [...byWord.keys()].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  // A quoted token, in its isolate, is no word of the stage.
  const pattern = RegExp(`\u2068[^\u2069]*\u2069|${language === 'zh' ? words.join('|') : `(?<![\\w-])(?:${words.join('|')})(?![\\w-])`}`, 'giu');
  const close = h('button', { type: 'button', class: 'quiet close', 'aria-label': t('close'), onclick: () => panel.hidePopover() }, '✕');
  const articles = new Map(own.map(({ id, term, text, paper }) => [id, h('article', { tabindex: -1, 'data-card': id }, h('h4', {}, term), h('p', {}, text),
    ...(paper ? [h('a', { href: paper[1], target: '_blank', rel: 'noopener' }, paper[0])] : []))]));
  const panel = h('div', { class: 'panel cards', popover: 'auto', role: 'dialog', 'aria-label': t('glossary.title') },
    h('header', {}, h('h3', {}, t('glossary.title')), close), ...articles.values());

  // From a link in another panel, which stays open behind this one where the browser can nest them.
  function open(id, source) {
    panel.showPopover(source && { source });
    const card = articles.get(id);
    articles.forEach((one) => one.classList.toggle('here', one === card));
    (card ?? close).focus({ preventScroll: true });
    (card ?? panel).scrollIntoView({ block: card ? 'center' : 'nearest' });
  }

  // On the stage the key G leads to the cards, and its many words are no stops of the Tab key; in a panel they are.
  function linkTo(id, text, tabindex) {
    return h('a', { class: 'term', href: `#glossary-${id}`, tabindex, onclick: (event) => {
      event.preventDefault();
      event.stopPropagation();
      open(id, event.currentTarget);
    } }, text);
  }

  function link(element) {
    const text = element.textContent;
    const linked = new Set();
    const parts = [];
    let from = 0;
    for (const match of text.matchAll(pattern)) {
      const id = byWord.get(match[0].toLowerCase());
      if (!id || linked.has(id)) continue;
      linked.add(id);
      parts.push(text.slice(from, match.index), linkTo(id, match[0], element.closest('[popover]') ? 0 : -1));
      from = match.index + match[0].length;
    }
    if (parts.length) element.replaceChildren(...parts, text.slice(from));
  }

  const linkAll = (elements) => elements.forEach((element) => element.childElementCount || link(element));

  return {
    panel, open,
    // Links the words under `root`, now and whenever one of its texts is written anew.
    watch(root, signal) {
      const observer = new MutationObserver((changes) => {
        const places = new Set();
        for (const target of new Set(changes.map((change) => change.target))) {
          const element = target.closest ? target : target.parentElement;
          const place = element?.closest(PLACES);
          if (place) places.add(place);
          else if (!element?.closest('.sentence')) element?.querySelectorAll(PLACES).forEach((one) => places.add(one)); // a text of many words, none of the stage's
        }
        linkAll(places);
      });
      linkAll(root.querySelectorAll(PLACES));
      observer.observe(root, { childList: true, characterData: true, subtree: true });
      signal.addEventListener('abort', () => observer.disconnect());
    },
  };
}
