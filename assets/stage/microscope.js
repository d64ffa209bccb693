// The microscope: one draft token with every number that judged it, in words filled in for this place; or the token that
// the trunk emitted, with the law that it came from.

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

  function fill(view, at) {
    const draft = view.drafts[at];
    const drafter = t(`drafter.${view.drafter}`);
    head(draft.token, `${t('micro.place', { n: at + 1, offset: `+${draft.offset}` })} · ${SIGNS[draft.verdict]} ${t(`verdict.${draft.verdict}`)}`, at);
    show(
      h('p', { class: 'rule-words' }, ruleSentence(t, draft, view.settings, drafter)),
      h('p', { class: 'rule-typed', dir: 'ltr' }, typedRule(draft, view.settings)),
      /^[ud]/.test(draft.verdict) && h('p', {}, t(`micro.${draft.verdict}`)),
      laws(
        law(t, drafter, 'draft', draft.top_draft, draft, 'draft_prob'),
        law(t, t('rail.trunk'), 'target', draft.top_target, draft, 'target_prob'),
        draft.verdict === 'rejected' && !view.whatIf && draft.residual && law(t, t('micro.residual'), 'target', draft.residual, null)),
      h('p', { class: 'panel-note' }, t('micro.figures', { ratio: formatRatio(draft.ratio), u: formatRatio(draft.u), entropy: draft.entropy.toFixed(2), trunk: quoted(draft.trunk_token) })),
      !draft.top_draft.length && h('p', { class: 'panel-note' }, t('micro.few')),
      draft.bias_tv !== null && !view.whatIf && bias(t, draft, view.settings));
  }

  function fillEmitted(view) {
    const { kind, token, prob } = view.emitted;
    const refused = view.drafts[view.accepted];
    const plain = kind === 'bonus' && !view.drafts.length;
    head(token, `${SIGNS[plain ? 'plain' : kind]} ${t(`emitted.${plain ? 'plain' : kind}`)}`, view.accepted);
    show(
      h('p', { class: 'rule-words' }, t(`micro.emitted.${plain ? 'plain' : kind}`, { n: kind === 'bonus' ? view.drafts.length : view.accepted + 1 })),
      laws(
        refused && !view.whatIf && refused.residual && law(t, t('micro.residual'), 'target', refused.residual, null),
        law(t, t('rail.trunk'), 'target', (refused ?? view.after).top_target, null, null, token)),
      prob !== null && h('p', { class: 'panel-note' }, t('micro.emitted.prob', { prob: formatProb(prob) })));
  }

  function head(token, words, before) {
    const chip = h('span', { class: 'chip' });
    fillChip(chip, token);
    title.replaceChildren(chip, ` ${words}`);
    setText(given, before ? t('micro.given', { n: before }) : t('micro.given.text'));
  }

  const laws = (...tables) => h('div', { class: 'laws' }, ...tables.filter(Boolean));
  const show = (...rows) => content.replaceChildren(...rows.filter(Boolean));

  return {
    panel,
    // `view` as the stage shows it: of the run, or a what-if of it. `at`: the draft, or their number for what was emitted.
    open(view, at) {
      if (at < view.drafts.length) fill(view, at);
      else fillEmitted(view);
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

// The rule in its own terms, with the relation that holds.
function typedRule(draft, { rule, temperature, threshold, epsilon, delta }) {
  const { draft_prob: draftProb, target_prob: targetProb, gate, u, ratio, entropy } = draft;
  const sign = (left, right) => (left >= right ? '≥' : '<');
  if (judgesByMatch(rule, temperature)) {
    return `x ${draft.token.id === draft.trunk_token.id ? '=' : '≠'} ${temperature ? 'y ~ p' : 'argmax p'} : ${quoted(draft.token)} ${draft.token.id === draft.trunk_token.id ? '=' : '≠'} ${quoted(draft.trunk_token)}`;
  }
  if (rule === 'speculative' && ratio !== null) {
    const [left, right] = formatPair(u, ratio);
    return `u < p ÷ q : ${left} ${u < Math.min(1, ratio) ? '<' : '≥'} ${formatProb(targetProb)} ÷ ${formatProb(draftProb)} = ${right}`;
  }
  const [target, needed] = formatPair(targetProb, gate, formatProb);
  if (rule === 'typical') return `p ≥ min(ε, δ·e^−H) : ${target} ${sign(targetProb, gate)} min(${epsilon}, ${delta}·e^−${entropy.toFixed(2)}) = ${needed}`;
  if (ratio === null) return `q = 0, p > 0 : ${formatProb(targetProb)} ${targetProb > 0 ? '>' : '='} 0`;
  return `p ≥ τ·q : ${target} ${sign(targetProb, gate)} ${threshold} × ${formatProb(draftProb)} = ${needed}`;
}

// A law's most probable tokens. The drafted token stands among them, at its place or below; `draft` null: no such token,
// and `marked` stands out where it is listed.
function law(t, name, kind, top, draft, field, marked = draft?.token) {
  const listed = !draft || top.some(({ token }) => token.id === draft.token.id);
  const all = listed ? top : [...top, { token: draft.token, prob: draft[field], raw_prob: draft[`raw_${field}`] }];
  const rows = all.map(({ token, prob, raw_prob: raw }) => {
    const chip = h('span', { class: 'token' });
    fillChip(chip, token);
    const bar = h('i', { class: 'law-bar' });
    setVar(bar, '--share', prob);
    return h('tr', { class: marked?.id === token.id && 'here' }, h('th', { scope: 'row', title: `${quoted(token)} · ${token.id}` }, chip), h('td', {}, bar, formatProb(prob)), draft ? h('td', { class: 'raw' }, formatProb(raw)) : '');
  });
  if (!all.length) return ''; // an atlas keeps no such law
  const names = h('tr', {}, h('td', {}), h('td', {}, t('micro.prob')), draft ? h('td', { class: 'raw' }, t('micro.raw')) : '');
  return h('table', { class: `law ${kind}` }, h('caption', {}, name), names, ...rows);
}

// Of all probability, the part that stands where the trunk would have put it, and the part that does not.
function bias(t, draft, settings) {
  const line = h('div', { class: 'bias' }, h('i', { class: 'law-bar' }));
  setVar(line, '--share', draft.bias_tv);
  const exact = isExact(settings);
  return h('div', {}, h('p', {}, t(exact ? 'micro.exact' : 'micro.bias', { tv: formatProb(draft.bias_tv) })), line);
}
