"""`python -m mtviz bench`: every way to decode, on the same weights, prompts and machine, in the same run.

Ways take turns on each prompt, in an order that rotates, so that a slow spell of the machine meets them all. One untimed
prompt warms each of them up, which is also when a static cache is compiled for. A way's ratio is the median over prompts of its speed there over `generate`'s there.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Sequence

import torch

from mtviz.evaluation.machine import PeakMemory, memory_bandwidth
from mtviz.evaluation.ways import Output, Way, mtviz_ways, peer_ways, transformers_ways
from mtviz.settings import BOUNDS, DTYPES
from mtviz.trunk import Trunk, TrunkNotFound, load_trunk

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PROMPTS = ASSETS / "prompts" / "new_topics.txt"
WARM_UP = "Write one sentence about rain, and then repeat it word for word."


class Run(Output):
    """An `Output` with its `seconds`, and its peak memory in bytes where that is known."""

    def __init__(self, output: Output, seconds: float, peak: int | None) -> None:
        super().__init__(output.ids, output.passes)
        self.seconds, self.peak = seconds, peak


def measure(
    ways: Sequence[Way], prompts: Sequence[str], max_new_tokens: int, device: str = "cpu", progress: Callable[[str], None] = lambda _: None
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Runs of each way by prompt, and the message of each way that failed while warming up (it then has no runs).

    Ctrl-C ends the measuring and keeps the prompts that every way has finished.
    """
    memory, failed = PeakMemory(device), {}
    for way in ways:
        progress(f"warming up: {way.name}")
        try:
            way.run(WARM_UP, min(max_new_tokens, 32))
        except Exception as error:  # a peer that cannot run here must not cost the others their numbers
            failed[way.name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    able = [way for way in ways if way.name not in failed]
    runs: dict[str, list[Run]] = {way.name: [] for way in able}
    try:
        for at, prompt in enumerate(prompts):
            turn = at % len(able)
            for way in able[turn:] + able[:turn]:
                progress(f"prompt {at + 1} of {len(prompts)}: {way.name}")
                memory.restart()
                began = time.perf_counter()
                output = way.run(prompt, max_new_tokens)
                runs[way.name].append(Run(output, time.perf_counter() - began, memory.read()))
    except KeyboardInterrupt:
        complete = min(len(own) for own in runs.values())
        if not complete:
            raise
        runs = {name: own[:complete] for name, own in runs.items()}
    return runs, failed


def summarise(
    runs: dict[str, list[Run]], baseline: str, seconds_per_pass: float, top_2_gap: Callable[[int, Sequence[int]], float]
) -> list[dict[str, Any]]:
    """One row a way.

    seconds_per_pass: the least time that reading the weights once takes. `of_limit` is that for all passes of a way, over the
    time that it took.
    top_2_gap: of the trunk's float32 logits after prompt i and some ids.
    """
    rows = []
    for name, own in runs.items():
        pairs = list(zip(own, runs[baseline]))
        differing = []
        for i, (run, reference) in enumerate(pairs):
            if run.ids != reference.ids:
                at = next((n for n, (a, b) in enumerate(zip(run.ids, reference.ids)) if a != b), min(len(run.ids), len(reference.ids)))
                differing.append({"prompt": i, "token": at, "top_2_gap": top_2_gap(i, reference.ids[:at])})
        emitted, passes = sum(len(run.ids) - 1 for run in own), sum(run.passes for run in own)
        peaks = [run.peak for run in own if run.peak is not None]
        rows.append(
            {
                "way": name,
                "tokens_per_second": statistics.median(len(run.ids) / run.seconds for run in own),
                "ratio": statistics.median(
                    (len(run.ids) / run.seconds) / (len(reference.ids) / reference.seconds) for run, reference in pairs
                ),
                "mean_acceptance_length": emitted / passes if passes else None,
                "identical": len(own) - len(differing),
                "prompts": len(own),
                "divergences": differing,
                "of_limit": sum(run.passes + 1 for run in own) * seconds_per_pass / sum(run.seconds for run in own),
                "peak_memory_mb": max(peaks) / 2**20 if peaks else None,
            }
        )
    return rows


def table(rows: Sequence[dict[str, Any]], failed: dict[str, str]) -> str:
    """The rows as Markdown."""
    lines = [
        "| way | tokens/s | ratio | mean acceptance length | identical to generate | of the limit | peak memory |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        same = f"{row['identical']}/{row['prompts']}"
        if row["divergences"]:
            first = min(row["divergences"], key=lambda divergence: divergence["token"])
            same += f", first at token {first['token']}, gap {first['top_2_gap']:.3f}"
        length = "" if row["mean_acceptance_length"] is None else f"{row['mean_acceptance_length']:.2f}"
        peak = "" if row["peak_memory_mb"] is None else f"{row['peak_memory_mb']:.0f} MB"
        speed = f"{row['tokens_per_second']:.1f} | {row['ratio']:.2f}"
        lines.append(f"| {row['way']} | {speed} | {length} | {same} | {row['of_limit']:.0%} | {peak} |")
    lines += [f"| {name} | failed: {message} | | | | | |" for name, message in failed.items()]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    try:
        prompts = [line for line in arguments.prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
        if arguments.limit:
            prompts = prompts[: arguments.limit]
        if not prompts:
            raise ValueError(f"{arguments.prompts} holds no prompt")
        trunk = load_trunk(arguments.model, dtype=arguments.dtype)
        ways = _ways(trunk, arguments)
    except (OSError, ValueError, TrunkNotFound, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    bandwidth = memory_bandwidth(trunk.device)
    weight_bytes = sum(weight.numel() * weight.element_size() for weight in trunk.model.parameters())
    runs, failed = measure(ways, prompts, arguments.max_new_tokens, trunk.device, lambda text: print(text, file=sys.stderr, flush=True))
    bandwidth = max(bandwidth, memory_bandwidth(trunk.device))  # other work on the machine only lowers it
    rows = summarise(runs, ways[0].name, weight_bytes / bandwidth, lambda i, ids: _top_2_gap(trunk, prompts[i], ids))
    result = {
        "model": trunk.name,
        "fingerprint": trunk.fingerprint,
        "dtype": trunk.dtype,
        "device": trunk.device,
        "threads": torch.get_num_threads(),
        "machine": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "max_new_tokens": arguments.max_new_tokens,
        "bandwidth_gb_per_second": bandwidth / 1e9,
        "weight_bytes_per_pass": weight_bytes,
        "seconds_per_pass_limit": weight_bytes / bandwidth,
        "rows": rows,
        "failed": failed,
    }
    print(table(rows, failed))
    print(
        f"\n{trunk.name}, {trunk.dtype}, {trunk.device}, {torch.get_num_threads()} threads; memory reads at {bandwidth / 1e9:.1f} GB/s, "
        f"so {weight_bytes / 1e6:.0f} MB of weights take {weight_bytes / bandwidth * 1e3:.1f} ms a pass\n"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return 0


def _ways(trunk: Trunk, arguments: argparse.Namespace) -> list[Way]:
    from mtviz.drafting.files import load_drafters

    drafters, refused = load_drafters(arguments.heads, trunk)
    if refused:
        raise refused[0]
    ways = [*transformers_ways(trunk, arguments.num_draft_tokens[0]), *mtviz_ways(trunk, drafters, arguments.num_draft_tokens)]
    if arguments.peers:
        ways += peer_ways(trunk, arguments.num_draft_tokens[0])
    return ways


def _top_2_gap(trunk: Trunk, prompt: str, ids: Sequence[int]) -> float:
    logits, _ = trunk.forward([*trunk.encode(prompt), *ids], trunk.new_cache(), last_only=True)
    first, second = logits[0].topk(2).values.tolist()
    return first - second


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mtviz bench", description="Compare mtviz with other ways to decode the same weights.")
    bound = BOUNDS["max_new_tokens"]
    parser.add_argument("--prompts", type=Path, default=PROMPTS, metavar="FILE", help="one prompt a line (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=24, metavar="N", help="the first N prompts; 0 takes all (default %(default)s)")
    parser.add_argument(
        "--max-new-tokens", type=int, default=128, choices=range(2, int(bound.high) + 1), metavar="N", help="default %(default)s"
    )
    parser.add_argument(
        "--num-draft-tokens", type=int, nargs="+", default=[4], choices=range(1, 9), metavar="K",
        help="proposal lengths to try; the first is also the other packages' (default 4)",
    )
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--model", help="a model directory, GGUF file or Hub id (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--heads", type=Path, default=ASSETS / "heads", metavar="DIRECTORY", help="heads files")
    parser.add_argument("--peers", action="store_true", help="also the packages of requirements-bench.txt")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    return parser
