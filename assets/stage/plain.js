// The rounds as plain readable text: what remains where the stage itself cannot be drawn.

import { h } from './dom.js';

const WORDS = { accepted: '✓', rejected: '✗', unjudged: '–', discarded: '⊘' };

export function showPlain(root, trace) {
  const rounds = trace.rounds.map(({ drafts, emitted }) => {
    const said = drafts.map(({ token, verdict }) => `${token.text || token.bytes} ${WORDS[verdict]}`);
    if (emitted) said.push(`${emitted.token.text || emitted.token.bytes} (${emitted.kind})`);
    return h('li', {}, said.join(' | '));
  });
  root.replaceChildren(h('p', {}, trace.prompt.text), h('p', {}, trace.output.text), h('ol', {}, ...rounds));
}
