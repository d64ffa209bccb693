// The Try page put together: what is typed goes out by `host.answer`, and what the simulator returned is drawn.

import { h, setData, setText } from '../stage/dom.js';
import { createStrings, pickLanguage } from '../stage/strings.js';
import { scoreBet } from '../stage/score.js';
import { createTable } from './table.js';
import { createBoard } from './board.js';
import { createHistory, createProgram } from './history.js';
import { createBlanks } from './blanks.js';

const ROWS_TO_BET_ON = 4;

export function mountTry(root, host) {
  const { config } = host;
  const state = { typed: structuredClone(config.examples[0]), history: [], chosen: {}, round: null, bet: null };
  const stage = document.querySelector('.mtviz-stage:not(.mtviz-try)'); // the page has one language: the stage's
  let asked = 0;
  let drawn = 0;
  let page = null;

  function build() {
    const language = pickLanguage(config.strings, stage?.lang);
    const t = createStrings(config.strings, language);
    const board = createBoard(t, place);
    const program = createProgram(t);
    const history = createHistory(t, state.history);
    const table = createTable(t, state.typed, { bounds: config.bounds, maxRows: config.max_rows, changed: judge });
    const decode = h('button', { type: 'submit', class: 'decode', title: t('decode.tip') }, t('decode'));
    const examples = config.examples.map((example) => h('button', {
      type: 'button', class: 'example-chip', title: example.teaches[language], 'data-example': example.name, onclick: () => open(example),
    }, example.title[language]));
    const bet = h('button', { type: 'button', class: 'example-chip bet', title: t('bet.tip'), onclick: askBet }, t('bet'));
    const teaches = h('p', { class: 'note teaches' });
    root.lang = language;
    root.replaceChildren(
      h('h2', { class: 'headline' }, t('headline')),
      h('div', { class: 'examples', role: 'group', 'aria-label': t('examples') }, ...examples, bet, teaches),
      h('div', { class: 'bench' },
        h('form', { class: 'hand', onsubmit: submit }, table.root, decode),
        h('div', { class: 'outcome' }, board.root)),
      h('p', { class: 'why-nothing' }, t('why.nothing')),
      h('div', { class: 'papers' }, history.root, program.root),
      createBlanks(t, config.blanks, state.chosen, language));

    function showProblem(problem) {
      setData(root, 'stale', problem ? 'yes' : 'no');
      table.showProblem(problem, problem ? `${messageOf(problem, config, t)} ${state.round ? t('problem.still') : ''}` : '');
    }

    return {
      table,
      show(answer, reveal) {
        const name = state.typed.name;
        examples.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.example === name)));
        setText(teaches, state.typed.teaches?.[language] ?? t('edited'));
        showProblem(answer?.problem ?? null);
        if (!state.round) return;
        setData(root, 'betting', state.bet?.chosen === null ? 'yes' : 'no');
        board.draw(state.round, reveal, state.bet);
        program.show(state.round);
        history.show();
      },
    };
  }

  function submit(event) {
    event.preventDefault();
    state.bet = null;
    ask(true);
  }

  // A round of random numbers, which the simulator judges, and nobody has seen judged.
  function askBet() {
    const { min_accept_ratio: threshold } = state.typed;
    const rows = Array.from({ length: ROWS_TO_BET_ON }, () => {
      const draft = 0.1 + 0.85 * Math.random();
      const target = draft * threshold * (Math.random() < 0.75 ? 1.05 + Math.random() : 0.3 + 0.65 * Math.random());
      return { token: String(Math.floor(Math.random() * 1000)), draft_prob: draft.toFixed(2), target_prob: Math.min(0.99, target).toFixed(2) };
    });
    Object.assign(state.typed, { name: null, teaches: null, rows });
    page.table.show();
    state.bet = { chosen: null };
    ask(false);
  }

  function place(at) {
    const { rejected_at: rejected, proposed_tokens: proposed } = state.round.result;
    const right = at === (rejected ?? proposed.length);
    state.bet = { chosen: at, right, score: scoreBet(right) };
    page.show(null, true);
  }

  function open(example) {
    Object.assign(state.typed, structuredClone(example));
    page.table.show();
    judge();
  }

  function judge() {
    state.bet = null;
    const example = config.examples.find(({ name }) => name === state.typed.name);
    const { name, title, teaches, ...asIs } = example ?? {};
    if (example && Object.keys(asIs).some((key) => JSON.stringify(asIs[key]) !== JSON.stringify(state.typed[key]))) {
      Object.assign(state.typed, { name: null, teaches: null });
    }
    ask(false);
  }

  // Answers may overtake each other: one that is older than what is drawn is not drawn, but what it decoded is kept.
  async function ask(decode) {
    const mine = (asked += 1);
    const { rows, max_proposal_len, min_accept_ratio } = state.typed;
    let answer;
    try {
      answer = await host.answer({ rows, max_proposal_len, min_accept_ratio });
    } catch (error) {
      answer = { problem: { field: 'server', got: String(error?.message ?? error) } };
    }
    if (decode && answer.result) state.history.push(answer.result);
    if (mine < drawn) return;
    drawn = mine;
    if (answer.result) state.round = answer;
    page.show(answer, decode);
  }

  page = build();
  if (stage) {
    new MutationObserver(() => {
      page = build();
      judge();
    }).observe(stage, { attributes: true, attributeFilter: ['lang'] });
  }
  judge();
}

function messageOf({ field, got, row }, { bounds, max_rows: most }, t) {
  if (field === 'server') return t('problem.server', { got });
  if (field === 'rows') return t('problem.rows', { got, low: 1, high: most });
  const { low, high, integer, low_open: open } = bounds[field];
  return t(row ? 'problem.row' : 'problem.setting', {
    row, got, field: t(`field.${field}`), kind: t(integer ? 'kind.integer' : 'kind.number'), range: t(open ? 'range.open' : 'range', { low, high }),
  });
}
