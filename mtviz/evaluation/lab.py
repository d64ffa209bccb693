"""`python -m mtviz lab WHAT`: the laboratory. Each measurement writes one JSON file that the *Measure* page draws."""

from __future__ import annotations

import argparse
import importlib
from typing import Sequence

# Options live beside what they measure; a module is imported only when it is asked for.
MEASUREMENTS = {
    "pass-cost": ("mtviz.evaluation.pass_cost", "main", "milliseconds of a pass over 1 to 9 tokens, and of the drafts for it"),
    "growth": ("mtviz.evaluation.growth", "main", "what a round costs after 128, 1,024 and 4,096 tokens"),
    "lengths": ("mtviz.evaluation.sweep", "lengths", "each proposal length against plain decoding: speed, survival, rollbacks"),
    "thresholds": ("mtviz.evaluation.sweep", "thresholds", "each threshold against plain decoding: speed, bias, perplexity"),
    "footprint": ("mtviz.evaluation.footprint", "main", "memory of the trunk alone and with each family of heads"),
    "start-up": ("mtviz.evaluation.startup", "main", "seconds until the page answers, and until the model is ready"),
    "speedup": ("mtviz.evaluation.tutorial_cli", "speedup", "a jointly trained model's heads against its trunk alone"),
    "quality": ("mtviz.evaluation.tutorial_cli", "quality", "a jointly trained model's perplexity, and BLEU with and without verification"),
    "tradeoff": ("mtviz.evaluation.tutorial_cli", "tradeoff", "jointly trained models of an equal budget by their number of heads"),
    "memory": ("mtviz.evaluation.tutorial_cli", "memory", "parameters, weights, cache and peak memory of a jointly trained model"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz lab", description="measure, and write what was measured as JSON")
    measurements = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, (*_, summary) in MEASUREMENTS.items():
        measurements.add_parser(name, help=summary, add_help=False)
    arguments, rest = parser.parse_known_args(argv)
    module, function, _ = MEASUREMENTS[arguments.what]
    return getattr(importlib.import_module(module), function)(rest)
