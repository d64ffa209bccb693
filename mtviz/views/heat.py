"""The atlas of a preset as a heat map: what each of its runs came to, by proposal length and threshold."""

from __future__ import annotations

from typing import Any, Mapping

from mtviz.atlas import Atlas, expand
from mtviz.trace import counts, share


def heat(atlas: Atlas, costs: Mapping[int, float]) -> dict[str, Any]:
    """lengths, thresholds, and `cells` by length, then by threshold, the exact rule first (its threshold is null): each
    {num_draft_tokens, threshold, tokens_per_round, speedup, tokens_per_second, mean_bias_tv}.

    speedup follows from tokens_per_round and `costs`, a round's cost in plain passes by its length; null where that is unknown.
    tokens_per_second is the run's own, of its rounds alone: runs were recorded one after the other, so a slow spell of the
    machine shows in it.
    """
    thresholds = [None, *sorted(atlas["thresholds"], reverse=True)]
    return {
        "recorded": atlas["recorded"], "host": atlas["host"], "version": atlas["version"], "prompt": atlas["prompt"]["text"],
        "lengths": atlas["lengths"], "thresholds": thresholds,
        "cells": [[_cell(atlas, length, threshold, costs.get(length)) for threshold in thresholds] for length in atlas["lengths"]],
    }  # fmt: skip


def _cell(atlas: Atlas, length: int, threshold: float | None, cost: float | None) -> dict[str, Any]:
    trace = expand(atlas, (length, threshold))
    counted = counts(trace)
    seconds = sum(round_["seconds"]["draft"] + round_["seconds"]["verify"] for round_ in trace["rounds"])
    return {
        "num_draft_tokens": length, "threshold": threshold, "tokens_per_round": (tokens := counted["mean_acceptance_length"]),
        "speedup": tokens / cost if tokens and cost else None,
        "tokens_per_second": share(counted["new_tokens"] - 1, seconds), "mean_bias_tv": counted["mean_bias_tv"],
    }
