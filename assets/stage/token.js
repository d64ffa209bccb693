// A token on a chip: every character visible. The running text shows the same token as ordinary text.

import { h } from './dom.js';
import { hexOf, tokenBytes } from './utf8.js';

const MARKS = { ' ': '␣', '\n': '⏎', '\r': '␍', '\t': '⇥', '\u00a0': '⍽' };
const BLANK = /^\s*|\s*$/g;
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// [kind, text] pairs, kind one of 'text', 'mark' (a visible sign for a blank) and 'hex' (bytes of an unfinished character).
export function chipParts(token) {
  if (token.bytes !== undefined) return [['hex', hexOf(tokenBytes(token))]];
  if (token.text === '') return [['mark', '∅']];
  const core = token.text.replace(BLANK, '');
  if (core === '') return [['mark', marked(token.text)]];
  const at = token.text.indexOf(core);
  const parts = [['mark', marked(token.text.slice(0, at))], ['text', inkOf(core)], ['mark', marked(token.text.slice(at + core.length))]];
  return parts.filter(([, text]) => text !== '');
}

export function fillChip(element, token) {
  element.replaceChildren(...chipParts(token).map(([kind, text]) => h('span', { class: kind }, text)));
}

// For sentences about a token: quoted, blanks visible, isolated so that its direction turns nothing around it.
export function quoted(token) {
  const parts = chipParts(token);
  const shown = parts.length > 1 ? parts.filter(([kind]) => kind !== 'mark') : parts;
  return `\u2068“${shorten(shown.map(([, text]) => text).join(''))}”\u2069`;
}

function marked(blanks) {
  return Array.from(blanks, (character) => MARKS[character] ?? codeName(character)).join('');
}

function inkOf(text) {
  return text.replace(INVISIBLE, (character) => MARKS[character] ?? codeName(character));
}

function codeName(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}

function shorten(text) {
  const characters = Array.from(text);
  return characters.length > 24 ? `${characters.slice(0, 22).join('')}…` : text;
}
