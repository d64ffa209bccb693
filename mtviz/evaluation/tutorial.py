"""The multi-token prediction tutorial's four measurements on jointly trained models, made right.

`evaluate_speedup` and `evaluate_quality` weigh one model, `analyze_tradeoff` several of an equal budget, and
`analyze_memory_usage` says what a model takes. Each returns plain JSON.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Iterable, Sequence

import torch

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.protocol import Drafter
from mtviz.evaluation.machine import PeakMemory, synchronize
from mtviz.evaluation.multi_token import settings_of, trunk_and_drafter
from mtviz.evaluation.quality import perplexity, text_losses
from mtviz.heads.joint import MultiTokenPrediction
from mtviz.settings import Settings
from mtviz.training.joint import head_figures
from mtviz.trunk import Trunk
from mtviz.trunk.bytes import END

WARM_UP_BYTES = 16
PROMPT_BYTES, CONTINUATION_BYTES = 96, 160
WINDOW, STRIDE = 256, 128  # bytes scored together; each but the first window's sees at least 128 before it


def evaluate_speedup(
    model: MultiTokenPrediction, prompts: Sequence[str], max_new_tokens: int = 128, repeats: int = 3, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Greedy decoding with the model's heads against the same trunk alone.

    Three lanes take turns at every prompt, in an order that rotates: alone, with heads, and alone once more as a control
    whose ratio to the first has to be near 1. Each run starts afresh, and one that does not count comes before all. All write
    the same bytes (`identical` counts where they did), so seconds compare at equal lengths.

    Returns speedup and control (medians over prompts of the ratio of median seconds), speedup_quartiles, bytes_per_round
    (the recovered or bonus byte included), survival by draft, bytes_per_second of both lanes, milliseconds_per_pass (alone),
    prompts, identical, max_new_tokens, repeats. Speedup is null for a model with one head.
    """
    trunk, drafter = trunk_and_drafter(model)
    alone = settings_of(None, True, max_new_tokens=max_new_tokens)
    lanes = [("alone", None, alone), ("heads", drafter, settings_of(drafter, True, max_new_tokens=max_new_tokens)), ("control", None, alone)]
    if drafter is None:
        del lanes[1]
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in prompts] for name, *_ in lanes}
    written: dict[str, list[list[int]]] = {name: [[] for _ in prompts] for name, *_ in lanes}
    accepted: list[list[str]] = []
    rounds = emitted = passes = 0
    for name, make, settings in lanes:
        _timed(trunk, make() if make else None, prompts[0], settings, WARM_UP_BYTES)
    for repeat in range(repeats):
        for at, prompt in enumerate(prompts):
            progress(f"repeat {repeat + 1} of {repeats}, prompt {at + 1} of {len(prompts)}")
            turn = (at + repeat) % len(lanes)
            for name, make, settings in lanes[turn:] + lanes[:turn]:
                ids, verdicts, took = _timed(trunk, make() if make else None, prompt, settings)
                seconds[name][at].append(took)
                written[name][at] = ids
                if name == "heads" and repeat == 0:
                    accepted += verdicts
                    rounds, emitted = rounds + len(verdicts), emitted + len(ids) - 1
                if name == "alone" and repeat == 0:
                    passes += len(ids)
    typical = {name: [statistics.median(own) for own in by_prompt] for name, by_prompt in seconds.items()}
    ratios = {name: [a / b for a, b in zip(typical["alone"], own)] for name, own in typical.items()}
    return {
        "speedup": statistics.median(ratios["heads"]) if drafter else None,
        "speedup_quartiles": statistics.quantiles(ratios["heads"], n=4)[::2] if drafter and len(prompts) > 1 else None,
        "control": statistics.median(ratios["control"]),
        "bytes_per_round": emitted / rounds if rounds else None,
        "survival": _survival(accepted),
        "bytes_per_second": {name: statistics.median(len(ids) / s for ids, s in zip(written[name], typical[name])) for name, *_ in lanes[:-1]},
        "milliseconds_per_pass": 1000 * sum(typical["alone"]) / passes,
        "prompts": len(prompts),
        "identical": sum(written["alone"][i] == written[lanes[-2][0]][i] for i in range(len(prompts))),
        "max_new_tokens": max_new_tokens,
        "repeats": repeats,
    }


def _timed(
    trunk: Trunk, drafter: Drafter | None, prompt: str, settings: Settings, limit: int | None = None
) -> tuple[list[int], list[list[str]], float]:
    """New ids, verdicts of each round, and seconds of one run; of its first `limit` bytes where given."""
    ids: list[int] = []
    verdicts: list[list[str]] = []
    synchronize(trunk.device)
    began = time.perf_counter()
    for step in decode(trunk, drafter, trunk.encode(prompt, raw=True), settings):
        if isinstance(step, PrefillStep):
            ids.append(step.token)
        else:
            ids += step.new_tokens
            verdicts.append(list(step.verification.verdicts))
        if limit and len(ids) >= limit:
            break
    synchronize(trunk.device)
    return ids, verdicts, time.perf_counter() - began


def _survival(rounds: Sequence[Sequence[str]]) -> list[float]:
    """Share of the rounds that drafted a position and accepted it, by position."""
    depth = max(map(len, rounds), default=0)
    drafted = [[verdicts[i] for verdicts in rounds if len(verdicts) > i] for i in range(depth)]
    return [sum(verdict == "accepted" for verdict in own) / len(own) for own in drafted]


def evaluate_quality(
    model: MultiTokenPrediction, documents: Sequence[bytes], continuations: int = 24, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """How well the model predicts held-out documents, and how good its continuations are with and without verification.

    Returns perplexity (a byte, every byte scored once and weighing the same) and bits_per_byte of the trunk; losses (nats) and
    accuracy of each head; and by way of writing (`alone`, `verified`, `unverified`, greedily) `bleu`, by sacrebleu with character
    tokens against the documents' own continuations, and `perplexity` of what was written under this trunk. bleu is null where
    sacrebleu is not installed.
    """
    trunk, drafter = trunk_and_drafter(model)
    parts, heads = [], []
    for at, document in enumerate(documents):
        progress(f"scoring document {at + 1} of {len(documents)}")
        ids = [END, *document]
        parts += text_losses(trunk, ids, WINDOW, STRIDE)
        heads.append(ids[:WINDOW])
    long = [document for document in documents if len(document) >= PROMPT_BYTES + CONTINUATION_BYTES][:continuations]
    value = perplexity(parts)
    return {
        "perplexity": value,
        "bits_per_byte": None if value is None else torch.tensor(value, dtype=torch.float64).log2().item(),
        "bytes": sum(count for _, count in parts),
        "documents": len(documents),
        **_head_figures(model, heads),
        "continuations": len(long),
        "writing": {
            way: _written(trunk, own, long, verified, lambda text: progress(f"{way}: {text}"))
            for way, own, verified in (("alone", None, True), ("verified", drafter, True), ("unverified", drafter, False))
            if long and (own or way == "alone")
        },
    }


@torch.inference_mode()
def _head_figures(model: MultiTokenPrediction, rows: Sequence[Sequence[int]]) -> dict[str, list[float | None]]:
    """Loss and accuracy of each head over the beginnings of documents, each position weighing the same."""
    whole = [row for row in rows if len(row) == WINDOW]
    if not whole:
        return {"losses": [], "accuracy": []}
    figures = [head_figures(model(ids), ids) for ids in torch.tensor(whole).split(8)]
    weights = [len(ids) for ids in torch.tensor(whole).split(8)]
    mean: Callable[[int, int], float] = lambda which, head: sum(w * f[which][head] for w, f in zip(weights, figures)) / sum(weights)
    return {name: [mean(which, head) for head in range(model.heads)] for which, name in enumerate(("losses", "accuracy"))}


def _written(
    trunk: Trunk, drafter: Callable[[], Drafter] | None, documents: Sequence[bytes], verified: bool, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Greedy continuations of the documents' beginnings: BLEU against the documents, perplexity under the trunk, an example."""
    texts, references, parts = [], [], []
    settings = settings_of(drafter, verified, max_new_tokens=CONTINUATION_BYTES)
    for at, document in enumerate(documents):
        progress(f"continuation {at + 1} of {len(documents)}")
        prompt = list(document[:PROMPT_BYTES])
        ids = [id_ for step in decode(trunk, drafter() if drafter else None, prompt, settings) for id_ in _new(step)]
        texts.append(bytes(id_ for id_ in ids if id_ != END).decode("utf-8", errors="replace"))
        references.append(document[PROMPT_BYTES : PROMPT_BYTES + CONTINUATION_BYTES].decode("utf-8", errors="replace"))
        whole = [*prompt, *ids]
        logits, _ = trunk.forward(whole[:-1], trunk.new_cache())
        rows = logits[len(prompt) - 1 :].double()
        parts.append((float(torch.nn.functional.cross_entropy(rows, torch.tensor(ids))), len(ids)))
    example = {"prompt": documents[0][:PROMPT_BYTES].decode("utf-8", errors="replace"), "text": texts[0]}
    return {"bleu": bleu(texts, references), "perplexity": perplexity(parts), "example": example}


def _new(step) -> Iterable[int]:
    return [step.token] if isinstance(step, PrefillStep) else step.new_tokens


def bleu(texts: Sequence[str], references: Sequence[str]) -> float | None:
    """Corpus BLEU (Papineni et al. 2002; Post 2018) over characters, from 0 to 100; None where sacrebleu is not installed."""
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        return None
    return corpus_bleu(list(texts), [list(references)], tokenize="char").score


def analyze_tradeoff(
    models: dict[int, MultiTokenPrediction], documents: Sequence[bytes], prompts: Sequence[str], max_new_tokens: int = 128,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """One row for each model of an equal budget, by its number of heads: what `evaluate_quality` and `evaluate_speedup` say,
    perplexity_ratio to the model with one head (null without one), and `efficiency`, the tutorial's own index: speedup /
    perplexity, the speedup of one head being 1."""
    rows = []
    for at, (heads, model) in enumerate(sorted(models.items())):
        progress(f"{at + 1} of {len(models)}: weighing {heads} heads")
        quality = evaluate_quality(model, documents, progress=progress)
        rows.append({"heads": heads, "quality": quality, "speed": evaluate_speedup(model, prompts, max_new_tokens, progress=progress)})
    alone = next((row["quality"]["perplexity"] for row in rows if row["heads"] == 1), None)
    for row in rows:
        row["perplexity_ratio"] = row["quality"]["perplexity"] / alone if alone else None
        row["efficiency"] = (row["speed"]["speedup"] or 1.0) / row["quality"]["perplexity"]
    return rows


def analyze_memory_usage(model: MultiTokenPrediction, prompt: str = "The ", max_new_tokens: int = 128) -> dict[str, Any]:
    """What the model takes: parameters and bytes of weights (as they run) of trunk and heads, cache_bytes_per_token (keys and
    values of all layers), cache_bytes of the whole run, and peak_bytes, the most that the process held while decoding alone and
    with heads, Python and its packages included (the device's alone on CUDA; null where it is not known)."""
    trunk, drafter = trunk_and_drafter(model)
    blocks = [p for name, p in model.named_parameters() if not name.startswith("model.")]
    cache = trunk.new_cache()
    trunk.forward([0, 0], cache)
    per_token = cache.states.nbytes / cache.states.shape[2]
    peaks = {}
    for way, make in (("alone", None), ("heads", drafter)):
        if way == "alone" or make:
            memory = PeakMemory(trunk.device)
            memory.restart()
            _timed(trunk, make() if make else None, prompt, settings_of(make, True, max_new_tokens=max_new_tokens))
            peaks[way] = memory.read()
    weights = list(model.model.parameters())
    return {
        "heads": model.heads,
        "parameters": {"trunk": sum(p.numel() for p in weights), "heads": sum(p.numel() for p in blocks)},
        "weight_bytes": {"trunk": sum(p.nbytes for p in weights), "heads": sum(p.nbytes for p in blocks)},
        "cache_bytes_per_token": per_token,
        "cache_bytes": per_token * (len(trunk.encode(prompt, raw=True)) + max_new_tokens - 1),
        "peak_bytes": peaks,
    }
