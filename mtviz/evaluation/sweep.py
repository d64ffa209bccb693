"""`python -m mtviz lab lengths | thresholds`: one setting varied, everything else equal, beside plain decoding.

For every prompt each variant decodes once and plain decoding twice, in an order that rotates from prompt to prompt, so that a
slow spell of the machine meets them all. The second plain run is the control: its speedup over the first must be near 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from mtviz.decoding.record import decode_trace
from mtviz.drafting.files import load_drafters
from mtviz.drafting.protocol import Drafter
from mtviz.evaluation.acceptance import loops
from mtviz.evaluation.machine import provenance
from mtviz.evaluation.quality import continuation_loss, perplexity
from mtviz.settings import DTYPES, Settings
from mtviz.trace import Trace, count_verdicts, share
from mtviz.trunk import Trunk, TrunkNotFound, load_trunk

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PROMPTS = ASSETS / "prompts" / "new_topics.txt"
FAMILY = "mtp"
PLAIN = Settings(rule="match", drafter="none", num_draft_tokens=0)
LENGTHS = (1, 2, 3, 4, 5, 6, 8)
THRESHOLDS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.05)
WARM_UP_TOKENS = 8


def measure(trunk: Trunk, new_drafter: Callable[[], Drafter], variants: Sequence[Settings], prompts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield how far it is, {kind: "progress", what, done, of}, before every run, and last the result, of kind "sweep": rows of
    `variants` over `prompts`, with the row of plain decoding and that of its control. All at temperature 0."""
    plain, control = PLAIN, PLAIN
    runs = [(settings, new_drafter() if settings.num_draft_tokens else None) for settings in (plain, control, *variants)]
    budget = variants[0].max_new_tokens
    parts = iter(range(len(runs) * (len(prompts) + 2)))  # warming up, running, and reading what was written

    def progress() -> dict[str, Any]:
        return {"kind": "progress", "what": "measuring", "done": next(parts), "of": len(runs) * (len(prompts) + 2)}

    for settings, drafter in runs:
        yield progress()
        _decode(trunk, drafter, prompts[0], settings, min(budget, WARM_UP_TOKENS))
    traces: list[list[Trace]] = [[] for _ in runs]
    for at, prompt in enumerate(prompts):
        turn = at % len(runs)
        for own in [*range(turn, len(runs)), *range(turn)]:
            yield progress()
            settings, drafter = runs[own]
            traces[own].append(_slim(_decode(trunk, drafter, prompt, settings, budget)))
    rows = []
    for own_traces in traces:
        yield progress()
        rows.append(row(trunk, own_traces, traces[0]))
    yield {"kind": "sweep", "prompts": len(prompts), "max_new_tokens": budget, "plain": rows[0], "control": rows[1], "rows": rows[2:]}


def sweep(
    what: str, trunk: Trunk, drafters: Mapping[str, Callable[[], Drafter]], family: str, prompts: Sequence[str], budget: int
) -> Iterator[dict[str, Any]]:
    """`what`, "lengths" or "thresholds", with one of `drafters`: yields as `measure`, and last the result of kind `what` with its
    provenance. Raises ValueError for a family that is not among the drafters."""
    if family not in drafters:
        raise ValueError(f"--family: there are {', '.join(sorted(drafters)) or 'none'}")
    command = f"python -m mtviz lab {what} --family {family} --limit {len(prompts)} --max-new-tokens {budget} --dtype {trunk.dtype}"
    for part in measure(trunk, drafters[family], VARIANTS[what](family, budget), prompts):
        yield part if part["kind"] == "progress" else {"provenance": provenance(trunk, command), **part, "kind": what}


def _decode(trunk: Trunk, drafter: Drafter | None, prompt: str, settings: Settings, budget: int) -> Trace:
    *_, trace = decode_trace(trunk, drafter, prompt, Settings.from_mapping(settings.to_dict() | {"max_new_tokens": budget}))
    return trace


def _slim(trace: Trace) -> Trace:
    """Without the candidates, which are not counted and would fill the memory."""
    for round_ in trace["rounds"]:
        for place in (*round_["drafts"], round_["after"]):
            for name in ("top_draft", "top_target", "residual"):
                place.pop(name, None)
    return trace


def row(trunk: Trunk, traces: Sequence[Trace], plain: Sequence[Trace]) -> dict[str, Any]:
    """What one variant came to. Speeds are of the rounds alone, without the prefill, which is the same for all.

    speedup: median over prompts of its tokens a second over plain decoding's on that prompt; `speedups` are all of them.
    rolled_back: share of rounds with a rejection. wasted: share of drafts that were not kept.
    perplexity: of all outputs under the trunk, each token once, given its prompt. identical: outputs that are plain decoding's.
    Others as in `mtviz.trace.Counts`, over all rounds; 0/0 is null.
    """
    settings = traces[0]["settings"]
    rounds = [round_ for trace in traces for round_ in trace["rounds"]]
    drafted, judged, accepted = count_verdicts([draft["verdict"] for draft in round_["drafts"]] for round_ in rounds)
    biases = [draft["bias_tv"] for round_ in rounds for draft in round_["drafts"] if draft["bias_tv"] is not None]
    rejections = sum(any(draft["verdict"] == "rejected" for draft in round_["drafts"]) for round_ in rounds)
    speeds, reference = [list(map(_speed, own)) for own in (traces, plain)]
    speedups = [ours / theirs for ours, theirs in zip(speeds, reference) if ours and theirs]
    ids = [_ids(trace["output"]) for trace in traces]
    return {
        "family": traces[0]["model"]["family"],
        **{name: settings[name] for name in ("rule", "num_draft_tokens", "threshold", "temperature")},
        "rounds": len(rounds),
        "drafted": sum(drafted),
        "mean_acceptance_length": share(sum(len(own) - 1 for own in ids), len(rounds)),
        "acceptance_rate": share(sum(accepted), sum(drafted)),
        "survival": [share(a, d) for a, d in zip(accepted, drafted)],
        "conditional_acceptance": [share(a, j) for a, j in zip(accepted, judged)],
        "rolled_back": share(rejections, len(rounds)),
        "wasted": share(sum(drafted) - sum(accepted), sum(drafted)),
        "mean_bias_tv": share(sum(biases), len(biases)),
        "perplexity": perplexity(continuation_loss(trunk, _ids(trace["prompt"]), own) for trace, own in zip(traces, ids)),
        "identical": sum(own == _ids(trace["output"]) for own, trace in zip(ids, plain)),
        "looping": sum(map(loops, ids)),
        "tokens_per_second": statistics.median(filter(None, speeds)) if any(speeds) else None,
        "speedup": statistics.median(speedups) if speedups else None,
        "speedups": speedups,
    }


def _ids(written: Any) -> list[int]:
    return [token["id"] for token in written["tokens"]]


def _speed(trace: Trace) -> float | None:
    return share(len(trace["output"]["tokens"]) - 1, trace["seconds"]["draft"] + trace["seconds"]["verify"])


def _lengths(family: str, budget: int) -> list[Settings]:
    return [Settings(rule="match", drafter=family, num_draft_tokens=k, max_new_tokens=budget) for k in LENGTHS]


def _thresholds(family: str, budget: int) -> list[Settings]:
    loose = [Settings(rule="ratio", drafter=family, threshold=threshold, max_new_tokens=budget) for threshold in THRESHOLDS]
    return [Settings(rule="match", drafter=family, max_new_tokens=budget), *loose]


VARIANTS: dict[str, Callable[[str, int], list[Settings]]] = {"lengths": _lengths, "thresholds": _thresholds}


def lengths(argv: Sequence[str] | None = None) -> int:
    return _main("lengths", "speed and survival of each proposal length, exact", argv)


def thresholds(argv: Sequence[str] | None = None) -> int:
    return _main("thresholds", "speed, bias and perplexity of each threshold at proposal length 4", argv)


def _main(name: str, summary: str, argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m mtviz lab {name}", description=summary)
    parser.add_argument("--family", default=FAMILY, help="heads to draft with (default %(default)s)")
    parser.add_argument("--prompts", type=Path, default=PROMPTS, metavar="FILE", help="one prompt a line")
    parser.add_argument("--limit", type=int, default=5, metavar="N", help="that many of them, evenly spread (default %(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=48, choices=range(2, 513), metavar="N", help="default %(default)s")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    arguments = parser.parse_args(argv)
    try:
        prompts = read_prompts(arguments.limit, arguments.prompts)
        trunk = load_trunk(dtype=arguments.dtype)
        drafters, refused = load_drafters(ASSETS / "heads", trunk)
        for error in refused:
            print(f"left out: {error}", file=sys.stderr)
        for part in sweep(name, trunk, drafters, arguments.family, prompts, arguments.max_new_tokens):
            if part["kind"] == "progress":
                print(f"{part['done'] + 1} of {part['of']}: {part['what']}", file=sys.stderr, flush=True)
    except (OSError, ValueError, TrunkNotFound) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*map(_line, [part["plain"], part["control"], *part["rows"]]), sep="\n")
    if arguments.json:
        part["provenance"]["command"] += f" --json {arguments.json.name}"
        arguments.json.write_text(json.dumps(part, indent=1) + "\n", encoding="utf-8")
    return 0


def read_prompts(count: int, path: Path = PROMPTS) -> list[str]:
    """`count` of the prompts in a file, one a line, evenly spread."""
    return _spread([line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()], count)


def _spread(prompts: Sequence[str], count: int) -> list[str]:
    """`count` of the prompts at even distances: they are sorted by kind."""
    if not prompts or count < 1:
        raise ValueError("--prompts: there must be at least one prompt")
    count = min(count, len(prompts))
    return [prompts[at * len(prompts) // count] for at in range(count)]


def _line(row: dict[str, Any]) -> str:
    def show(value: float | None) -> str:
        return "n/a" if value is None else f"{value:.2f}"

    return (
        f"{row['family']:<6} {row['rule']:<6} length {row['num_draft_tokens']} threshold {row['threshold']:<4g}  speedup {show(row['speedup'])}  "
        f"{show(row['mean_acceptance_length'])} tokens/round  rolled back {show(row['rolled_back'])}  bias {show(row['mean_bias_tv'])}  "
        f"perplexity {show(row['perplexity'])}  identical {row['identical']}"
    )
