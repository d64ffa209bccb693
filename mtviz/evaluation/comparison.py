"""The same prompts with every drafter, recorded for the Heads page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Sequence

from mtviz.decoding.record import decode_trace
from mtviz.drafting.files import load_drafters
from mtviz.drafting.lookup import LookupDrafter
from mtviz.settings import DRAFTERS, DTYPES, Settings
from mtviz.trace import Trace, counts, dumps, validate
from mtviz.trunk import load_trunk

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz compare`: write a Trace for each prompt of assets/comparison.json and each drafter that is there."""
    comparison = json.loads((ASSETS / "comparison.json").read_text(encoding="utf-8"))
    names = [entry["name"] for entry in comparison["prompts"]]
    parser = argparse.ArgumentParser(prog="python -m mtviz compare", description="record the comparison of the Heads page")
    parser.add_argument("--prompt", action="append", choices=names, help="only this prompt (may be given again)")
    parser.add_argument("--family", action="append", choices=DRAFTERS, help="only this one (may be given again)")
    parser.add_argument("--heads", type=Path, default=ASSETS / "heads", metavar="DIRECTORY", help="heads files (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ASSETS / "traces" / "compare", metavar="DIRECTORY", help="default: %(default)s")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    arguments = parser.parse_args(argv)

    trunk = load_trunk(dtype=arguments.dtype)
    drafters, refused = load_drafters(arguments.heads, trunk)
    for error in refused:
        print(f"refused: {error}", file=sys.stderr)
    makers = {**drafters, "lookup": lambda: LookupDrafter(trunk.vocab_size), "none": lambda: None}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for entry in (entry for entry in comparison["prompts"] if entry["name"] in (arguments.prompt or names)):
        for family in arguments.family or DRAFTERS:
            if family not in makers:
                print(f"{entry['name']:<8} {family:<13} not there")
                continue
            settings = Settings.from_mapping({**comparison["settings"], "drafter": family})
            *_, trace = decode_trace(trunk, makers[family](), entry["prompt"], settings)
            counted = counts(trace)
            path = arguments.out / f"{entry['name']}.{family}.json"
            path.write_text(dumps(validate(without_candidates(trace))) + "\n", encoding="utf-8")
            print(f"{entry['name']:<8} {family:<13} {counted['new_tokens']} tokens in {counted['rounds']} rounds, {counted['drafted']} drafted")
    return 0


def without_candidates(trace: Trace) -> Trace:
    """The same Trace with empty top lists, which are most of its size."""
    for round_ in trace["rounds"]:
        for draft in round_["drafts"]:
            draft["top_draft"], draft["top_target"] = [], []
        round_["after"]["top_target"] = []
    return trace
