"""Claims checked: sentences of the two tutorials, and some that are often said, each judged by what was measured here.

A claim is judged by a function of the recorded results and by nothing else; where its measurement is missing it is not
judged. The sentences stand in `assets/measure/strings.json`, with places for the figures that a verdict is based on.
"""

from __future__ import annotations

from typing import Any, Callable, Literal, Mapping, NamedTuple, Sequence

Verdict = Literal["holds", "partly", "fails"]
Judged = tuple[Verdict, dict[str, float | int | str]]
Results = Mapping[str, Any]
"""Recorded measurements by the name of their file in `assets/results`."""

FASTER, CLEARLY_FASTER = 1.05, 1.2  # speedups; the control of a quiet machine stays within 5 % of 1
WORSE = 1.05  # ratio of perplexities
SMALL = 0.05  # share of the trunk's size


class Claim(NamedTuple):
    """`source`: "decoding" and "prediction" for the two tutorials, "said" for what is often said. `files` are read by `judge`."""

    name: str
    source: Literal["decoding", "prediction", "said"]
    files: tuple[str, ...]
    judge: Callable[..., Judged]


def check(results: Results) -> list[dict[str, Any]]:
    """Every claim as {name, source, files, verdict, figures}. The verdict is "unmeasured" where a file or a field of it is missing."""
    checked = []
    for name, source, files, judge in CLAIMS:
        try:
            verdict, figures = judge(*(results[file] for file in files))
        except (LookupError, TypeError, ValueError, StopIteration, ZeroDivisionError):  # a null, an empty list or a missing field is a measurement that was not made
            verdict, figures = "unmeasured", {}
        checked.append({"name": name, "source": source, "files": list(files), "verdict": verdict, "figures": figures})
    return checked


def _grade(holds: bool, partly: bool) -> Verdict:
    return "holds" if holds else "partly" if partly else "fails"


def _never_falls(values: Sequence[float]) -> bool:
    return all(before <= after for before, after in zip(values, values[1:]))


# --- proposal length ---------------------------------------------------------------------------------------------


def rolled_back(lengths: Any) -> Judged:
    """Longer proposals are rolled back more often: share of rounds with a rejection."""
    rows = lengths["rows"]
    shares = [row["rolled_back"] for row in rows]
    figures = {"short": rows[0]["num_draft_tokens"], "short_percent": 100 * shares[0], "long": rows[-1]["num_draft_tokens"], "long_percent": 100 * shares[-1]}
    return _grade(_never_falls(shares) and shares[0] < shares[-1], shares[0] < shares[-1]), figures


def neither_too_long_nor_too_short(lengths: Any) -> Judged:
    """The best length lies between the extremes. Partly: the longest loses, but the shortest is best."""
    rows, best = lengths["rows"], _best(lengths)
    figures = {
        "best": best["num_draft_tokens"], "best_speedup": best["speedup"], "short": rows[0]["num_draft_tokens"],
        "short_speedup": rows[0]["speedup"], "long": rows[-1]["num_draft_tokens"], "long_speedup": rows[-1]["speedup"],
    }  # fmt: skip
    return _grade(best not in (rows[0], rows[-1]), best is rows[0]), figures


def two_to_four_heads(lengths: Any) -> Judged:
    """2 to 4 heads are best. The tutorial's first head is the trunk's own, so these are 1 to 3 drafts."""
    best = _best(lengths)
    inside = max((row for row in lengths["rows"] if 1 <= row["num_draft_tokens"] <= 3), key=lambda row: row["speedup"])
    figures = {"best_heads": best["num_draft_tokens"] + 1, "best_speedup": best["speedup"], "inside_speedup": inside["speedup"]}
    return _grade(best is inside, inside["speedup"] >= 0.97 * best["speedup"]), figures


def clearly_faster(lengths: Any) -> Judged:
    best = _best(lengths)
    figures = {"best": best["num_draft_tokens"], "best_speedup": best["speedup"], "control": lengths["control"]["speedup"]}
    return _grade(best["speedup"] >= CLEARLY_FASTER, best["speedup"] >= FASTER), figures


def times_as_fast(lengths: Any) -> Judged:
    """k guesses make it k times as fast."""
    row = next(row for row in lengths["rows"] if row["num_draft_tokens"] == 4)
    return _grade(row["speedup"] >= 4, row["speedup"] >= 3), {"speedup": row["speedup"], "tokens": row["mean_acceptance_length"]}


def further_is_harder(lengths: Any) -> Judged:
    """Conditional acceptance, so that what was never judged does not count. Noise of late positions: the first three must fall."""
    shares = [value for value in lengths["rows"][-1]["conditional_acceptance"] if value is not None]
    falls = _never_falls(shares[2::-1])
    return _grade(falls and shares[-1] < shares[0], shares[-1] < shares[0]), {"first_percent": 100 * shares[0], "third_percent": 100 * shares[2]}


def exact_changes_nothing(lengths: Any) -> Judged:
    runs = lengths["prompts"] * len(lengths["rows"])
    same = sum(row["identical"] for row in lengths["rows"])
    return _grade(same == runs, same >= 0.9 * runs), {"identical": same, "runs": runs}


def predicted(lengths: Any, pass_cost: Any) -> Judged:
    """Speedup follows from survival and the cost of a pass: within 10 % at every length, partly within 25 %."""
    pairs = [(row["measured"], row["predicted"]) for row in predict(lengths, pass_cost)]
    worst = max(abs(guess / measured - 1) for measured, guess in pairs)
    return _grade(worst <= 0.1, worst <= 0.25), {"worst_percent": 100 * worst, "lengths": len(pairs)}


def _best(lengths: Any) -> Any:
    return max(lengths["rows"], key=lambda row: row["speedup"])


def predict(lengths: Any, pass_cost: Any) -> list[dict[str, Any]]:
    """Speedup of each length as it follows from survival and costs, beside the measured one.

    A round of k drafts yields 1 + sum(survival) tokens and takes the drafts and a pass over k + 1 tokens, where plain decoding
    takes one pass a token. Lengths without all three figures are left out.
    """
    rows = []
    for row in lengths["rows"]:
        cost = round_costs(pass_cost, row["family"]).get(row["num_draft_tokens"])
        if cost and row["speedup"] and None not in row["survival"]:
            tokens = 1 + sum(row["survival"])
            rows.append({"num_draft_tokens": row["num_draft_tokens"], "measured": row["speedup"], "predicted": tokens / cost, "tokens": tokens, "cost": cost})
    return rows


def round_costs(pass_cost: Any, family: str) -> dict[int, float]:
    """What a round of k drafts of `family` costs, in plain passes, by k; for every k that was measured."""
    passes = {row["tokens"]: row["median"] for row in pass_cost["passes"]}
    drafts = {row["tokens"]: row["median"] for row in pass_cost["drafts"].get(family, [])}
    return {k: (drafts[k] + passes[k + 1]) / passes[1] for k in drafts if k + 1 in passes}


# --- threshold ---------------------------------------------------------------------------------------------------


def lower_is_faster(thresholds: Any) -> Judged:
    """Holds: faster and more tokens a round. Partly: only the latter."""
    high, low = _ends(thresholds)
    figures = {f"{at}_{name}": row[field] for at, row in (("high", high), ("low", low)) for name, field in (("speedup", "speedup"), ("tokens", "mean_acceptance_length"))}
    more = low["mean_acceptance_length"] > high["mean_acceptance_length"]
    return _grade(more and low["speedup"] > FASTER * high["speedup"], more), {"high": high["threshold"], "low": low["threshold"], **figures}


def lower_degrades(thresholds: Any) -> Judged:
    """The trunk's own perplexity of what was written, against that of its exact text."""
    exact, (_, low) = _exact(thresholds), _ends(thresholds)
    figures = {"low": low["threshold"], "low_perplexity": low["perplexity"], "exact_perplexity": exact["perplexity"]}
    return _grade(low["perplexity"] > WORSE * exact["perplexity"], low["perplexity"] > exact["perplexity"]), figures


def one_is_exact(thresholds: Any) -> Judged:
    """Threshold 1 is the same as exact: every text identical, and no bias."""
    high, _ = _ends(thresholds)
    if high["threshold"] != 1:
        raise LookupError("threshold 1 was not measured")
    figures = {"identical": high["identical"], "prompts": thresholds["prompts"], "bias": high["mean_bias_tv"]}
    return _grade(high["identical"] == thresholds["prompts"] and high["mean_bias_tv"] == 0, high["identical"] == thresholds["prompts"]), figures


def accepted_is_faster(thresholds: Any) -> Judged:
    """A higher acceptance rate is a higher speed: over all thresholds, sorted by acceptance, no speed falls by more than noise."""
    rows = sorted(thresholds["rows"], key=lambda row: row["acceptance_rate"])
    speeds = [row["speedup"] for row in rows]
    figures = {"least_percent": 100 * rows[0]["acceptance_rate"], "least_speedup": speeds[0], "most_percent": 100 * rows[-1]["acceptance_rate"], "most_speedup": speeds[-1]}
    return _grade(all(after >= before / FASTER for before, after in zip(speeds, speeds[1:])), speeds[-1] > speeds[0]), figures


def _exact(thresholds: Any) -> Any:
    return next(row for row in thresholds["rows"] if row["rule"] == "match")


def _ends(thresholds: Any) -> tuple[Any, Any]:
    rows = sorted((row for row in thresholds["rows"] if row["rule"] == "ratio"), key=lambda row: -row["threshold"])
    return rows[0], rows[-1]


# --- cost, memory, heads -----------------------------------------------------------------------------------------


def one_pass_for_all(pass_cost: Any) -> Judged:
    """Checking five tokens costs what one costs. Holds up to a tenth more, partly up to half more."""
    passes = {row["tokens"]: row["median"] for row in pass_cost["passes"]}
    ratio = passes[5] / passes[1]
    return _grade(ratio <= 1.1, ratio <= 1.5), {"one": passes[1], "five": passes[5], "ratio": ratio}


def little_memory(footprint: Any) -> Judged:
    """Every family within a twentieth of the trunk's parameters; partly if only some."""
    trunk, *families = footprint["rows"]
    shares = {row["family"]: row["parameters"] / trunk["parameters"] for row in families}
    largest = max(shares, key=lambda family: shares[family])
    return _grade(shares[largest] <= SMALL, min(shares.values()) <= SMALL), {"family": largest, "largest_percent": 100 * shares[largest]}


def earlier_drafts_help(heads: Any) -> Judged:
    """Heads that see the drafts before theirs yield more than heads that see none, each at its best length."""
    best = {family: _yield(heads, family) for family in ("parallel", "hierarchical")}
    return _grade(best["hierarchical"] > best["parallel"], best["hierarchical"] >= 0.98 * best["parallel"]), best


def adaptive_saves(heads: Any) -> Judged:
    """An adaptive length drafts less for hardly less yield: a quarter fewer drafts a token, at most a twentieth of the yield."""
    longest = max((row for row in heads["adaptive_against_fixed"] if row["rule"] == "match"), key=lambda row: row["num_draft_tokens"])
    saved, lost = 1 - longest["drafted"], 1 - longest["mean_acceptance_length"]
    figures = {"length": longest["num_draft_tokens"], "saved_percent": 100 * saved, "lost_percent": 100 * lost}
    return _grade(saved >= 0.25 and lost <= 0.05, saved > lost), figures


def _yield(heads: Any, family: str) -> float:
    return max(row["mean_acceptance_length"] for row in heads["results"] if row["family"] == family and row["rule"] == "match")


# --- models trained with their heads -----------------------------------------------------------------------------


def better_representations(tradeoff: Any) -> Judged:
    """Training with more heads makes the next-token prediction itself better, at equal budget."""
    one, many = _one_and_many(tradeoff)
    best = min(many, key=lambda row: row["quality"]["perplexity"])
    figures = {"heads": best["heads"], "perplexity": best["quality"]["perplexity"], "one_perplexity": one["quality"]["perplexity"]}
    return _grade(figures["perplexity"] < figures["one_perplexity"], figures["perplexity"] <= 1.01 * figures["one_perplexity"]), figures


def more_heads_more_speed(tradeoff: Any) -> Judged:
    """One head, which drafts nothing, has the speed 1."""
    _, many = _one_and_many(tradeoff)
    speeds = [1.0, *(row["speed"]["speedup"] for row in many)]
    best = max(many, key=lambda row: row["speed"]["speedup"])
    figures = {"most_heads": many[-1]["heads"], "most_speedup": speeds[-1], "heads": best["heads"], "speedup": best["speed"]["speedup"]}
    return _grade(_never_falls(speeds), speeds[-1] > speeds[0]), figures


def efficiency_index(tradeoff: Any) -> Judged:
    """The tutorial's index, speedup / perplexity, is highest at 2 to 4 heads."""
    best = max(tradeoff["rows"], key=lambda row: row["efficiency"])
    return _grade(2 <= best["heads"] <= 4, False), {"heads": best["heads"], "efficiency": best["efficiency"]}


def unverified_falls_apart(tradeoff: Any) -> Judged:
    """Taking every head's token unverified degrades the text: its perplexity under the trunk against that of verified text."""
    _, many = _one_and_many(tradeoff)
    most = many[-1]
    loose, kept = (most["quality"]["writing"][way]["perplexity"] for way in ("unverified", "verified"))
    return _grade(loose > WORSE * kept, loose > kept), {"heads": most["heads"], "unverified": loose, "verified": kept}


def _one_and_many(tradeoff: Any) -> tuple[Any, list[Any]]:
    rows = sorted(tradeoff["rows"], key=lambda row: row["heads"])
    if rows[0]["heads"] != 1 or len(rows) < 2:
        raise LookupError("one head and more must both have been measured")
    return rows[0], rows[1:]


CLAIMS = (
    Claim("rolled_back", "decoding", ("lengths",), rolled_back),
    Claim("neither_too_long_nor_too_short", "decoding", ("lengths",), neither_too_long_nor_too_short),
    Claim("lower_is_faster", "decoding", ("thresholds",), lower_is_faster),
    Claim("lower_degrades", "decoding", ("thresholds",), lower_degrades),
    Claim("one_pass_for_all", "decoding", ("pass_cost",), one_pass_for_all),
    Claim("two_to_four_heads", "prediction", ("lengths",), two_to_four_heads),
    Claim("clearly_faster", "prediction", ("lengths",), clearly_faster),
    Claim("further_is_harder", "prediction", ("lengths",), further_is_harder),
    Claim("earlier_drafts_help", "prediction", ("heads",), earlier_drafts_help),
    Claim("adaptive_saves", "prediction", ("heads",), adaptive_saves),
    Claim("better_representations", "prediction", ("tradeoff",), better_representations),
    Claim("more_heads_more_speed", "prediction", ("tradeoff",), more_heads_more_speed),
    Claim("efficiency_index", "prediction", ("tradeoff",), efficiency_index),
    Claim("little_memory", "prediction", ("footprint",), little_memory),
    Claim("unverified_falls_apart", "prediction", ("tradeoff",), unverified_falls_apart),
    Claim("exact_changes_nothing", "said", ("lengths",), exact_changes_nothing),
    Claim("one_is_exact", "said", ("thresholds",), one_is_exact),
    Claim("times_as_fast", "said", ("lengths",), times_as_fast),
    Claim("accepted_is_faster", "said", ("thresholds",), accepted_is_faster),
    Claim("predicted", "said", ("lengths", "pass_cost"), predicted),
)
