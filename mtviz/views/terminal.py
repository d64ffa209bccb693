"""A Trace as lines for a terminal."""

from __future__ import annotations

from mtviz.text import Token
from mtviz.trace import Counts, Draft, Prefill, Round, Trace

_SIGNS = {"accepted": "✓", "rejected": "✗", "unjudged": "–", "discarded": "·"}
_COLORS = {"accepted": "32", "rejected": "31", "unjudged": "90", "discarded": "90", "trunk": "34"}
_KINDS = {"recovered": "◆", "bonus": "★"}


def prefill_line(prefill: Prefill, color: bool = True) -> str:
    token = _paint(_piece(prefill["token"]), "trunk", color)
    return f"prefill    {prefill['length']} prompt tokens in {prefill['seconds'] * 1000:.0f} ms → {token} p={prefill['prob']:.3f}"


def round_lines(round_: Round, color: bool = True) -> list[str]:
    """One heading, one line a draft, one for the emitted token."""
    drafts, seconds, cache = round_["drafts"], round_["seconds"], round_["cache"]
    accepted = sum(draft["verdict"] == "accepted" for draft in drafts)
    lines = [
        f"round {round_['index'] + 1:<4} {accepted}/{len(drafts)} accepted   "
        f"draft {seconds['draft'] * 1000:.0f} ms, pass {seconds['verify'] * 1000:.0f} ms   "
        f"cache {cache['before']} → {cache['peak']} → {cache['after']}"
    ]
    lines += [_draft_line(draft, color) for draft in drafts]
    emitted = round_["emitted"]
    if emitted is not None:
        token = _paint(f"{_KINDS[emitted['kind']]} {_piece(emitted['token'])}", "trunk", color)
        lines.append(f"     {token}  {emitted['kind']}, p={emitted['prob']:.3f}")
    return lines


def summary_lines(trace: Trace, counts: Counts) -> list[str]:
    return [
        f"finished: {trace['finish_reason']}{' — ' + trace['message'] if 'message' in trace else ''}",
        f"{counts['new_tokens']} tokens in {counts['passes']} trunk passes, {trace['seconds']['total']:.2f} s"
        f" ({_number(counts['tokens_per_second'], '.1f')} tokens/s)",
        f"acceptance rate {_number(counts['acceptance_rate'])} ({counts['accepted']} of {counts['drafted']} drafted)   "
        f"mean acceptance length {_number(counts['mean_acceptance_length'])}   mean bias {_number(counts['mean_bias_tv'], '.2g')}",
    ]


def _draft_line(draft: Draft, color: bool) -> str:
    verdict = draft["verdict"]
    piece = _paint(f"{_SIGNS[verdict]} {_piece(draft['token']):<18}", verdict, color)
    gate = "" if draft["gate"] is None else f"  gate {draft['gate']:.3f}"
    return (
        f"  +{draft['offset']} {piece} q={draft['draft_prob']:.3f}  p={draft['target_prob']:.3f}"
        f"  p/q={_number(draft['ratio'])}{gate}  {verdict}"
    )


def _piece(token: Token) -> str:
    return f"0x{token['bytes']}" if "bytes" in token else repr(token["text"])


def _number(value: float | None, style: str = ".2f") -> str:
    return "n/a" if value is None else format(value, style)


def _paint(text: str, name: str, color: bool) -> str:
    return f"\x1b[{_COLORS[name]}m{text}\x1b[0m" if color else text
