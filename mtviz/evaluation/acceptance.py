"""How many drafts survive: each drafter at each proposal length, over a set of prompts, through the real loop."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.files import ADAPTIVE_FAMILY, load_drafters
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.lookup import LookupDrafter
from mtviz.drafting.protocol import Drafter
from mtviz.evaluation.machine import provenance
from mtviz.evaluation.replay import Text, agreements, followed, read, rounds
from mtviz.heads import NativeMtpHeads
from mtviz.settings import BOUNDS, DTYPES, Settings
from mtviz.trace import count_verdicts, share
from mtviz.trunk import Trunk, load_trunk

ASSETS = Path(__file__).resolve().parents[2] / "assets"
LOOP_NGRAM, LOOP_REPEATS = 12, 3
RESAMPLES = 2000
TIMED = 1  # prompt that a replayed row is timed on
# Both are exact: the text is the trunk's own, whatever drafts.
SETTINGS: tuple[dict[str, Any], ...] = ({"rule": "match", "temperature": 0.0}, {"rule": "speculative", "temperature": 1.0})


def loops(tokens: Sequence[int]) -> bool:
    """True if some 12 tokens in a row occur three times: loops flatter every drafter, so they are reported apart."""
    seen: dict[tuple[int, ...], int] = {}
    for start in range(len(tokens) - LOOP_NGRAM + 1):
        ngram = tuple(tokens[start : start + LOOP_NGRAM])
        seen[ngram] = seen.get(ngram, 0) + 1
        if seen[ngram] >= LOOP_REPEATS:
            return True
    return False


class Output(NamedTuple):
    """One prompt's text and its rounds: verdicts and number of emitted tokens of each, seconds of each where they were measured."""

    tokens: list[int]
    verdicts: list[list[str]]
    emitted: list[int]
    draft_seconds: list[float]
    verify_seconds: list[float]


def measure(trunk: Trunk, drafter: Drafter | None, prompts: Iterable[str], settings: Settings) -> dict[str, Any]:
    """Decode every prompt, each with a seed of its own, and count: see `summary`."""
    return summary(drafter.name if drafter is not None else "none", settings, _outputs(trunk, drafter, prompts, settings))


def _outputs(trunk: Trunk, drafter: Drafter | None, prompts: Iterable[str], settings: Settings) -> list[Output]:
    return [_decoded(trunk, drafter, prompt, replace(settings, seed=settings.seed + n)) for n, prompt in enumerate(prompts)]


def summary(family: str, settings: Settings, outputs: Sequence[Output]) -> dict[str, Any]:
    """What the outputs that do not loop count to.

    Returns survival and conditional acceptance by position, mean_acceptance_length (null without a round) with its interval,
    drafted and emitted tokens, median milliseconds a proposal and a pass (null where nothing was timed), the number of outputs,
    and how many of them loop with their own mean_acceptance_length. `by_output` has [emitted, rounds, drafted, loops] of each
    prompt. Definitions as in `mtviz.trace.Counts`.
    """
    by_output = [[sum(o.emitted), len(o.emitted), _drafted(o.verdicts), int(loops(o.tokens))] for o in outputs]
    kept = [output for output, row in zip(outputs, by_output) if not row[-1]]
    drafted, judged, accepted = count_verdicts(verdicts for output in kept for verdicts in output.verdicts)
    emitted, looped = ([row[:2] for row in by_output if row[-1] == looping] for looping in (0, 1))
    return {
        "family": family,
        "num_draft_tokens": settings.num_draft_tokens,
        "rule": settings.rule,
        "temperature": settings.temperature,
        "outputs": len(by_output),
        "looping_outputs": len(looped),
        "rounds": sum(rounds for _, rounds in emitted),
        "drafted": sum(drafted),
        "emitted": sum(tokens for tokens, _ in emitted),
        "mean_acceptance_length": _ratio(emitted),
        "mean_acceptance_length_interval": interval(emitted),
        "looping_mean_acceptance_length": _ratio(looped),
        "survival": [share(a, d) for a, d in zip(accepted, drafted)],
        "conditional_acceptance": [share(a, j) for a, j in zip(accepted, judged)],
        "milliseconds_per_proposal": _median_milliseconds(seconds for output in kept for seconds in output.draft_seconds),
        "milliseconds_per_pass": _median_milliseconds(seconds for output in kept for seconds in output.verify_seconds),
        "by_output": by_output,
    }


def _decoded(trunk: Trunk, drafter: Drafter | None, prompt: str, settings: Settings) -> Output:
    output = Output([], [], [], [], [])
    for step in decode(trunk, drafter, trunk.encode(prompt), settings):
        if isinstance(step, PrefillStep):
            output.tokens.append(step.token)
        else:
            output.tokens.extend(step.new_tokens)
            output.verdicts.append(step.verification.verdicts)
            output.emitted.append(len(step.new_tokens))
            output.draft_seconds.append(step.draft_seconds)
            output.verify_seconds.append(step.verify_seconds)
    return output


def replayed(family: str, texts: Iterable[Text], judged: Iterable[tuple[list[list[str]], list[int]]], settings: Settings) -> dict[str, Any]:
    """`measure`'s row, untimed, from the verdicts and emitted numbers that were read off texts which the trunk wrote by itself."""
    outputs = [Output(list(text.new), *of_text, [], []) for text, of_text in zip(texts, judged)]
    return {**summary(family, settings, outputs), "replayed": True}


def interval(outputs: Sequence[Sequence[int]]) -> list[float] | None:
    """95 % of the ratio of sums over (emitted, rounds) pairs, by the percentile bootstrap: prompts drawn anew, with replacement,
    since rounds of one text resemble each other (Efron 1979). None where there is no round."""
    pairs = np.array([pair for pair in outputs if pair[1]], dtype=float)
    if not len(pairs):
        return None
    drawn = np.random.default_rng(0).integers(0, len(pairs), (RESAMPLES, len(pairs)))
    emitted, rounds = pairs[drawn].sum(1).T
    return np.percentile(emitted / rounds, [2.5, 97.5]).tolist()


def adaptive_against_fixed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What choosing the length saves and costs against the same heads at a fixed one, for each setting where both were measured.

    `drafted` and `mean_acceptance_length` are shares of the fixed length's (1 is equal), drafts counted per emitted token.
    """
    found = {_place(row): row for row in rows}
    compared = []
    for place, mine in found.items():
        fixed = found.get((ADAPTIVE_FAMILY, *place[1:]))
        if place[0] != "adaptive" or fixed is None or not (fixed["drafted"] and mine["emitted"]):
            continue
        compared.append({
            **{name: mine[name] for name in ("num_draft_tokens", "rule", "temperature")},
            "drafted": (mine["drafted"] / mine["emitted"]) / (fixed["drafted"] / fixed["emitted"]),
            "mean_acceptance_length": mine["mean_acceptance_length"] / fixed["mean_acceptance_length"],
        })  # fmt: skip
    return compared


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["family"], row["num_draft_tokens"], row["rule"], row["temperature"]


def _ratio(pairs: Sequence[Sequence[int]]) -> float | None:
    return share(sum(emitted for emitted, _ in pairs), sum(rounds for _, rounds in pairs))


def _drafted(verdicts: Iterable[Sequence[str]]) -> int:
    return sum(verdict != "discarded" for round_ in verdicts for verdict in round_)


def _median_milliseconds(seconds: Iterable[float]) -> float | None:
    values = [1000 * value for value in seconds]
    return statistics.median(values) if values else None


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz heads`: every family at every length under both exact settings, added to a JSON file row by row.

    A row that the file has already, of the same weights, is not measured again; one of other weights is replaced.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    lines = [line.strip() for line in arguments.prompts.read_text(encoding="utf-8").splitlines()]
    prompts = [line for line in lines if line][: arguments.limit]
    if not prompts:
        parser.error(f"--prompts: {arguments.prompts} holds no prompt")
    trunk = load_trunk(dtype=arguments.dtype)
    drafters, refused = load_drafters(arguments.heads, trunk)
    for error in refused:
        print(f"refused: {error}", file=sys.stderr)
    chosen = arguments.family or sorted(drafters)
    makers = {**drafters, LookupDrafter.name: lambda: LookupDrafter(trunk.vocab_size)}
    if missing := [family for family in chosen if family not in makers]:
        parser.error(f"--family: {', '.join(missing)} not in {arguments.heads}, which has {', '.join(sorted(drafters)) or 'none'}")
    of = {
        "model": trunk.name, "revision": trunk.fingerprint, "dtype": trunk.dtype, "device": trunk.device,
        "prompts": {"file": arguments.prompts.name, "count": len(prompts), "sha256": hashlib.sha256("\n".join(prompts).encode()).hexdigest()},
        "max_new_tokens": arguments.max_new_tokens,
    }  # fmt: skip
    try:
        document = _begin(arguments.json, of)
    except ValueError as error:
        parser.error(f"--json: {error}")
    words = [Path(word).name if word.startswith("/") else word for word in (sys.argv[1:] if argv is None else argv)]
    document["runs"].append(provenance(trunk, "python -m mtviz heads " + " ".join(words)))
    texts: dict[str, list[Text]] = {}
    agree: dict[tuple[str, str], list[Tensor]] = {}
    for exact in SETTINGS:
        if exact["rule"] not in arguments.rule:
            continue
        for length in arguments.lengths:
            settings = Settings(num_draft_tokens=length, max_new_tokens=arguments.max_new_tokens, **exact)
            for family in chosen:
                drafter = makers[family]()
                described = _described(drafter)
                known = next((row for row in document["results"] if _place(row) == (family, length, *exact.values())), None)
                if known is not None and all(known.get(name) == described.get(name) for name in ("heads_revision", "length_revision")):
                    continue
                rule, at_once = exact["rule"], type(drafter) is HeadsDrafter and not isinstance(drafter.heads, NativeMtpHeads)
                if arguments.replay and (at_once or not settings.temperature):
                    if rule not in texts:
                        texts[rule] = _texts(document, trunk, prompts, settings)
                    if at_once and (family, rule) not in agree:
                        dice = torch.Generator().manual_seed(settings.seed) if settings.temperature else None
                        agree[family, rule] = [agreements(drafter.heads, text, dice) for text in texts[rule]]
                    if at_once:
                        judged = [rounds(known, len(text.new), length, settings.max_new_tokens) for text, known in zip(texts[rule], agree[family, rule])]
                    else:
                        judged = [followed(drafter, text, settings) for text in texts[rule]]
                    row = replayed(family, texts[rule], judged, settings)
                    timed = measure(trunk, drafter, prompts[:TIMED], settings)
                    row |= {name: timed[name] for name in timed if name.startswith("milliseconds")} | {"timed_prompts": timed["outputs"] - timed["looping_outputs"]}
                else:
                    row = measure(trunk, drafter, prompts, settings)
                row |= {**described, "run": len(document["runs"]) - 1}
                print(_line(row), flush=True)
                document["results"] = sorted([*(other for other in document["results"] if other is not known), row], key=_place)
                document["adaptive_against_fixed"] = adaptive_against_fixed(document["results"])
                _write(arguments.json, document)
    for row in document["adaptive_against_fixed"]:
        print(
            f"adaptive up to {row['num_draft_tokens']}, {row['rule']}: {1 - row['drafted']:.1%} fewer drafts a token than {ADAPTIVE_FAMILY} at "
            f"that length, {1 - row['mean_acceptance_length']:.1%} less mean acceptance length"
        )
    return 0


def _texts(document: dict[str, Any], trunk: Trunk, prompts: Sequence[str], settings: Settings) -> list[Text]:
    """The prompts with what the trunk writes after them by itself, decoded where the document does not have them yet."""
    texts = document.setdefault("texts", {})
    if settings.rule not in texts:
        texts[settings.rule] = [output.tokens for output in _outputs(trunk, None, prompts, settings)]
    return [read(trunk, trunk.encode(prompt), tokens) for prompt, tokens in zip(prompts, texts[settings.rule])]


def _parser() -> argparse.ArgumentParser:
    lengths = range(1, int(BOUNDS["num_draft_tokens"].high) + 1)
    rules = [exact["rule"] for exact in SETTINGS]
    parser = argparse.ArgumentParser(prog="python -m mtviz heads", description="measure what each family of heads yields")
    parser.add_argument("--prompts", type=Path, default=ASSETS / "prompts" / "new_topics.txt", metavar="FILE", help="one prompt a line (default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N prompts")
    parser.add_argument("--heads", type=Path, default=ASSETS / "heads", metavar="DIRECTORY", help="heads files (default: %(default)s)")
    parser.add_argument("--family", action="append", help="only this family (may be given again); also lookup, for comparison")
    parser.add_argument("--lengths", type=int, nargs="+", choices=lengths, default=list(lengths), metavar="K")
    parser.add_argument("--rule", nargs="+", choices=rules, default=rules, help="match at temperature 0, speculative at 1 (default: both)")
    parser.add_argument("--replay", action="store_true", help="read every length off one text a prompt that the trunk wrote alone, where that can be done (times from the loop over the first)")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="added to, where it is there already")
    return parser


def _described(drafter: Drafter) -> dict[str, Any]:
    """Which weights drafted, and how large they are: parameters, and bytes as they are stored."""
    if not isinstance(drafter, HeadsDrafter):
        return {}
    parameters = sum(weight.numel() for weight in drafter.heads.parameters())
    described = {"heads_revision": drafter.heads.fingerprint, "parameters": parameters, "bytes": 2 * parameters + 4 * len(drafter.heads.draft_ids)}
    if (predictor := getattr(drafter, "predictor", None)) is not None:
        described["length_revision"] = predictor.fingerprint
    return described


def _begin(path: Path, of: dict[str, Any]) -> dict[str, Any]:
    """The document in `path`, or a new one. Raises ValueError for one that cannot be read or was measured on something else."""
    if not path.exists():
        return {**of, "interval": f"95 %, bootstrap over the prompts, {RESAMPLES} resamples", "runs": [], "results": [], "adaptive_against_fixed": []}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(found.get("texts", {}), dict):
        raise ValueError(f"the texts in {path} are not kept by rule; name another file")
    if other := [name for name in of if found.get(name) != of[name]]:
        raise ValueError(f"{path} was measured with another {', '.join(other)}; name another file")
    return found


def _write(path: Path, document: dict[str, Any]) -> None:
    """One result a line, whole or not at all."""
    rows = ",\n".join("  " + json.dumps(row, allow_nan=False) for row in document["results"])
    compact = {"texts": "TEXTS"} if "texts" in document else {}
    text = json.dumps({**document, **compact, "results": "ROWS"}, indent=1, ensure_ascii=False, allow_nan=False)
    text = text.replace('"TEXTS"', json.dumps(document.get("texts")), 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text.replace('"ROWS"', f"[\n{rows}\n ]", 1) + "\n", encoding="utf-8")
    partial.replace(path)


def _line(row: dict[str, Any]) -> str:
    show: Callable[[float | None], str] = lambda value: "n/a" if value is None else f"{value:.2f}"
    low, high = row["mean_acceptance_length_interval"] or (None, None)
    return (
        f"{row['family']:<13} length {row['num_draft_tokens']}  {row['rule']:<11} T={row['temperature']:g}  "
        f"mean acceptance length {show(row['mean_acceptance_length'])} [{show(low)}, {show(high)}]  "
        f"survival {' '.join(map(show, row['survival']))}  {row['drafted']} drafted, {row['emitted']} emitted  "
        f"{show(row['milliseconds_per_proposal'])} ms a proposal  looping {row['looping_outputs']}/{row['outputs']}"
    )


if __name__ == "__main__":
    sys.exit(main())
