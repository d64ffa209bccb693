"""The atlas of a preset as a heat map: what each of its runs came to, by proposal length and threshold."""

from __future__ import annotations

from typing import Any

from mtviz.atlas import Atlas, expand
from mtviz.trace import counts, share


def heat(atlas: Atlas) -> dict[str, Any]:
    """lengths, thresholds, and `cells` by length, then by threshold, the exact rule first (its threshold is null): each
    {num_draft_tokens, threshold, tokens_per_round, tokens_per_second (of the rounds alone), mean_bias_tv}."""
    thresholds = [None, *sorted(atlas["thresholds"], reverse=True)]
    return {
        "recorded": atlas["recorded"], "host": atlas["host"], "version": atlas["version"], "prompt": atlas["prompt"]["text"],
        "lengths": atlas["lengths"], "thresholds": thresholds,
        "cells": [[_cell(atlas, length, threshold) for threshold in thresholds] for length in atlas["lengths"]],
    }  # fmt: skip


def _cell(atlas: Atlas, length: int, threshold: float | None) -> dict[str, Any]:
    trace = expand(atlas, (length, threshold))
    counted = counts(trace)
    seconds = sum(round_["seconds"]["draft"] + round_["seconds"]["verify"] for round_ in trace["rounds"])
    return {
        "num_draft_tokens": length, "threshold": threshold, "tokens_per_round": counted["mean_acceptance_length"],
        "tokens_per_second": share(counted["new_tokens"] - 1, seconds), "mean_bias_tv": counted["mean_bias_tv"],
    }
