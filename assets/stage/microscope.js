// The microscope: one draft token with every number that judged it, in words filled in for this place.

import { SIGNS } from './columns.js';
import { accepts, judgesByMatch } from './judge.js';
import { fillChip, quoted } from './token.js';
import { formatPair, formatProb, formatRatio } from './format.js';
import { h, setText, setVar } from './dom.js';
import { isExact } from './knobs.js';

export function createMicroscope(t) {
  const title = h('h3', {});
  const given = h('p', { class: 'panel-note' });
  const close = h('button', { type: 'button', class: 'quiet close', autofocus: true, 'aria-label': t('close') }, '✕');
  const content = h('div', {});
  const panel = h('div', { class: 'panel microscope', popover: 'auto', role: 'dialog', 'aria-label': t('micro.title') }, h('header', {}, title, close), given, content);
  close.addEventListener('click', () => panel.hidePopover());

  return {
    panel,
    // `view` as the stage shows it: of the run, or a what-if of it.
    open(view, at) {
      const draft = view.drafts[at];
      const drafter = t(`drafter.${view.settings.drafter}`);
      const chip = h('span', { class: 'chip' });
      fillChip(chip, draft.token);
      title.replaceChildren(chip, ` ${t('micro.place', { n: at + 1, offset: `+${draft.offset}` })} · ${SIGNS[draft.verdict]} ${t(`verdict.${draft.verdict}`)}`);
      setText(given, at ? t('micro.given', { n: at }) : t('micro.given.text'));
      const rows = [
        h('p', { class: 'rule-words' }, ruleSentence(t, draft, view.settings, drafter)),
        /^[ud]/.test(draft.verdict) && h('p', {}, t(`micro.${draft.verdict}`)),
        h('div', { class: 'laws' },
          law(t, drafter, 'draft', draft.top_draft, draft, 'draft_prob'),
          law(t, t('rail.trunk'), 'target', draft.top_target, draft, 'target_prob'),
          draft.verdict === 'rejected' && !view.whatIf && draft.residual ? law(t, t('micro.residual'), 'target', draft.residual, null) : ''),
        h('p', { class: 'panel-note' }, t('micro.figures', { ratio: formatRatio(draft.ratio), u: formatRatio(draft.u), entropy: draft.entropy.toFixed(2), trunk: quoted(draft.trunk_token) })),
        draft.bias_tv !== null && !view.whatIf && bias(t, draft, view.settings),
      ];
      content.replaceChildren(...rows.filter(Boolean));
      panel.showPopover();
    },
  };
}

// The rule with this place's numbers. `yes` or `no` is what it says of them, also where nobody asked it.
function ruleSentence(t, draft, settings, drafter) {
  const { rule, temperature, threshold, epsilon, delta } = settings;
  const answer = accepts(draft, settings) ? 'yes' : 'no';
  const token = quoted(draft.token);
  if (judgesByMatch(rule, temperature)) return t(`micro.match.${answer}`, { token, trunk: quoted(draft.trunk_token) });
  if (rule !== 'typical' && draft.draft_prob <= 0) return t(`micro.zero.${answer}`, { drafter, target: formatProb(draft.target_prob) });
  const [target, gate] = formatPair(draft.target_prob, draft.gate, formatProb);
  const [ratio, u] = formatPair(draft.ratio ?? 0, draft.u);
  return t(`micro.${rule}.${answer}`, { drafter, target, gate, ratio, u, threshold, epsilon, delta, draft: formatProb(draft.draft_prob), entropy: draft.entropy.toFixed(2) });
}

// A law's most probable tokens. The drafted token stands among them, at its place or below; `draft` null: no such token.
function law(t, name, kind, top, draft, field) {
  const listed = !draft || top.some(({ token }) => token.id === draft.token.id);
  const all = listed ? top : [...top, { token: draft.token, prob: draft[field], raw_prob: draft[`raw_${field}`] }];
  const rows = all.map(({ token, prob, raw_prob: raw }) => {
    const chip = h('span', { class: 'token' });
    fillChip(chip, token);
    const bar = h('i', { class: 'law-bar' });
    setVar(bar, '--share', prob);
    return h('tr', { class: draft?.token.id === token.id && 'here' }, h('th', { scope: 'row', title: `${quoted(token)} · ${token.id}` }, chip), h('td', {}, bar, formatProb(prob)), draft ? h('td', { class: 'raw' }, formatProb(raw)) : '');
  });
  const names = h('tr', {}, h('td', {}), h('td', {}, t('micro.prob')), draft ? h('td', { class: 'raw' }, t('micro.raw')) : '');
  return h('table', { class: `law ${kind}` }, h('caption', {}, name), names, ...rows);
}

function bias(t, draft, settings) {
  const line = h('div', { class: 'bias' }, h('i', { class: 'law-bar' }));
  setVar(line, '--share', draft.bias_tv);
  const exact = isExact(settings);
  return h('div', {}, h('p', {}, t(exact ? 'micro.exact' : 'micro.bias', { tv: formatProb(draft.bias_tv) })), exact ? '' : line);
}
