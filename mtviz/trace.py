"""The Trace: one whole generation as plain JSON. Everything upstream produces it, everything downstream only reads it.

A Trace is a dict of the shapes below: ints, floats, strings, lists and dicts; no tensors, no NaN or infinity. Its
published contract is `assets/trace.schema.json`, which `validate` holds a Trace against.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterable, Literal, NotRequired, Sequence, TypedDict

from mtviz import rules
from mtviz.settings import Settings
from mtviz.text import Token

SCHEMA = 1
SCHEMA_FILE = Path(__file__).resolve().parent.parent / "assets" / "trace.schema.json"
MAX_TRACE_BYTES = 20_000_000
TOP = 8

Verdict = Literal["accepted", "rejected", "unjudged", "discarded"]


class TraceError(ValueError):
    """Text that is not a Trace. The message names the place in it that is wrong."""


class Candidate(TypedDict):
    """One entry of a distribution's top. `prob` is after temperature and top-k/top-p, `raw_prob` before."""

    token: Token
    prob: float
    raw_prob: float


class Share(TypedDict):
    """One entry of the law that a recovered token was drawn from."""

    token: Token
    prob: float


class Draft(TypedDict):
    """One drafted token. Everything but `bias_tv` and `residual` is there for unjudged positions too."""

    position: int  # 1 for the round's first draft
    offset: int  # how far ahead of the hidden state it was guessed: +2 for the first draft
    token: Token
    ends: NotRequired[bool]  # the token is an end token
    draft_prob: float
    target_prob: float
    raw_draft_prob: float
    raw_target_prob: float
    ratio: float | None  # target_prob / draft_prob; null where draft_prob is 0
    u: float
    gate: float | None  # the target probability that the rule asks for; null for `match`
    entropy: float  # of the target distribution, nats
    verdict: Verdict
    bias_tv: float | None  # TV(law of the token emitted here, target); null where nothing was judged
    trunk_token: Token  # one token drawn from the target distribution
    top_draft: list[Candidate]
    top_target: list[Candidate]
    residual: NotRequired[list[Share]]  # at the rejected position: the law of the recovered token


class After(TypedDict):
    """The position after the last draft: where the bonus token comes from."""

    trunk_token: Token
    target_prob: float  # of trunk_token
    raw_target_prob: float
    entropy: float
    top_target: list[Candidate]


class Emitted(TypedDict):
    kind: Literal["recovered", "bonus"]
    token: Token
    prob: float  # its target_prob


class CacheLengths(TypedDict):
    """Length of the trunk's key-value cache, in tokens, around one round."""

    before: int
    peak: int
    after: int


class RoundSeconds(TypedDict):
    draft: float
    verify: float


class Round(TypedDict):
    index: int  # 0 for the first
    start: int  # length of prompt + output when the round began
    drafts: list[Draft]
    after: After
    emitted: Emitted | None  # null only where an accepted draft was an end token
    cache: CacheLengths
    seconds: RoundSeconds
    # What the length predictor said before each draft was drawn, one more than there are drafts where that was not worth its price.
    predicted_survival: NotRequired[list[float]]
    copied: NotRequired[bool]  # by lookup, from the text before: the drafts were not drawn


class Prefill(TypedDict):
    """The pass over the prompt. It emits the first token, which belongs to no round."""

    length: int
    token: Token
    prob: float
    raw_prob: float
    top_target: list[Candidate]
    seconds: float


class ModelInfo(TypedDict):
    trunk: str
    heads: str | None
    family: str
    dtype: str
    device: str
    revision: str  # fingerprint of the trunk's weights
    heads_revision: NotRequired[str]  # SHA-256 of the heads' file
    length_revision: NotRequired[str]  # fingerprint of the length predictor
    note: NotRequired[str]


class TokenizedText(TypedDict):
    text: str
    tokens: list[Token]


class Seconds(TypedDict):
    load: float
    prefill: float
    draft: float
    verify: float
    total: float


FinishReason = Literal["stop", "length", "context", "cancelled", "error"]


class Trace(TypedDict):
    schema: int
    model: ModelInfo
    settings: dict[str, Any]
    prompt: TokenizedText
    prefill: Prefill | None  # null until the prompt has been read
    rounds: list[Round]
    output: TokenizedText
    finish_reason: FinishReason | None  # null while it runs
    message: NotRequired[str]  # what went wrong, with finish_reason "error"
    seconds: Seconds
    host: str
    version: str


# --- reading and checking ----------------------------------------------------------------------------------------


@cache
def schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12)."""
    return json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@cache
def _validator() -> Callable[[Any], Any]:
    # Compiled: a page that opens on a recorded trace cannot wait a second for `jsonschema`.
    import fastjsonschema

    return fastjsonschema.compile(schema(), use_default=False)


def validate(trace: Any) -> Trace:
    """Return `trace` if it is plain JSON and obeys the schema, else raise `TraceError` saying where it does not."""
    import fastjsonschema

    try:
        dumps(trace).encode("utf-8")  # the schema alone would let NaN and half a surrogate pair through
        _validator()(trace)
    except fastjsonschema.JsonSchemaValueException as error:
        raise TraceError(error.message.removeprefix("data").removeprefix(".")[:300]) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"not plain JSON: {error}") from None
    return trace


def dumps(trace: Trace) -> str:
    """The Trace as JSON text. Raises ValueError if a NaN or infinity has slipped in."""
    return json.dumps(trace, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def loads(text: str) -> Trace:
    """Parse and validate. Raises `TraceError` for text that is too long, is not JSON, or does not obey the schema."""
    if len(text) > MAX_TRACE_BYTES:
        raise TraceError(f"{len(text)} characters; at most {MAX_TRACE_BYTES} are read")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"not JSON: {error}") from None
    return validate(parsed)


# --- counting ----------------------------------------------------------------------------------------------------


class Counts(TypedDict):
    """Counts of a Trace; 0/0 is null everywhere. Discarded drafts are in no numerator or denominator."""

    new_tokens: int  # all emitted, the prefill's included
    passes: int  # trunk passes, the prefill included
    rounds: int
    drafted: int
    judged: int
    accepted: int
    acceptance_rate: float | None  # accepted / drafted
    mean_acceptance_length: float | None  # tokens emitted in rounds / rounds
    tokens_per_second: float | None  # all new tokens / total seconds
    mean_bias_tv: float | None  # over judged positions
    conditional_acceptance: list[float | None]  # accepted at i / judged at i
    survival: list[float | None]  # rounds with position i accepted / rounds that drafted i


def counts(trace: Trace) -> Counts:
    rounds = trace["rounds"]
    drafted, judged, accepted = count_verdicts([draft["verdict"] for draft in round_["drafts"]] for round_ in rounds)
    biases = [draft["bias_tv"] for round_ in rounds for draft in round_["drafts"] if draft["bias_tv"] is not None]
    emitted = sum(accepted) + sum(round_["emitted"] is not None for round_ in rounds)
    new_tokens = len(trace["output"]["tokens"])
    return {
        "new_tokens": new_tokens,
        "passes": len(rounds) + (trace["prefill"] is not None),
        "rounds": len(rounds),
        "drafted": sum(drafted),
        "judged": sum(judged),
        "accepted": sum(accepted),
        "acceptance_rate": share(sum(accepted), sum(drafted)),
        "mean_acceptance_length": share(emitted, len(rounds)),
        "tokens_per_second": share(new_tokens, trace["seconds"]["total"]),
        "mean_bias_tv": share(math.fsum(biases), len(biases)),
        "conditional_acceptance": [share(a, j) for a, j in zip(accepted, judged)],
        "survival": [share(a, d) for a, d in zip(accepted, drafted)],
    }


def count_verdicts(rounds: Iterable[Sequence[Verdict]]) -> tuple[list[int], list[int], list[int]]:
    """How many were drafted, judged and accepted at each position of a proposal, over rounds of verdicts."""
    drafted, judged, accepted = [], [], []
    for verdicts in rounds:
        for counted in (drafted, judged, accepted):
            counted += [0] * (len(verdicts) - len(counted))
        for position, verdict in enumerate(verdicts):
            drafted[position] += verdict != "discarded"
            judged[position] += verdict in ("accepted", "rejected")
            accepted[position] += verdict == "accepted"
    return drafted, judged, accepted


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


# --- what if -----------------------------------------------------------------------------------------------------


class Judgement(TypedDict):
    """A stored round under other settings. `token` is null where the engine would have to draw again."""

    verdicts: list[Verdict]
    accepted: int
    kind: Literal["recovered", "bonus"] | None
    token: Token | None


def judge_again(round_: Round, settings: Settings) -> Judgement:
    """Re-judge a stored round under another threshold, rule or shorter length, without the model.

    Only this round: under other verdicts the later text would differ too. A length above what was drafted judges what
    was drafted. The emitted token is given where it is a stored draw of the trunk: the bonus, and under `match` or at
    temperature 0 the recovered token. The stored probabilities hold for the temperature and top-k/top-p of the run, so
    `settings` must keep those.
    """
    drafts = round_["drafts"][: settings.num_draft_tokens]
    verdicts: list[Verdict] = []
    ended = rejected = False
    for draft in drafts:
        if ended or rejected:
            verdicts.append("discarded" if ended else "unjudged")
            continue
        accepted = rules.accepts(
            settings.rule,
            token=draft["token"]["id"],
            trunk_token=draft["trunk_token"]["id"],
            draft_prob=draft["draft_prob"],
            target_prob=draft["target_prob"],
            u=draft["u"],
            entropy=draft["entropy"],
            threshold=settings.threshold,
            epsilon=settings.epsilon,
            delta=settings.delta,
            temperature=settings.temperature,
        )
        verdicts.append("accepted" if accepted else "rejected")
        rejected = not accepted
        ended = accepted and draft.get("ends", False)
    accepted_count = verdicts.count("accepted")
    if ended:
        return {"verdicts": verdicts, "accepted": accepted_count, "kind": None, "token": None}
    if rejected:
        stored = settings.rule == "match" or settings.temperature == 0
        token = drafts[accepted_count]["trunk_token"] if stored else None
        return {"verdicts": verdicts, "accepted": accepted_count, "kind": "recovered", "token": token}
    later = round_["drafts"][len(drafts)] if len(drafts) < len(round_["drafts"]) else round_["after"]
    return {"verdicts": verdicts, "accepted": accepted_count, "kind": "bonus", "token": later["trunk_token"]}
