"""`python -m mtviz lab speedup | quality | tradeoff | memory`: the tutorial's measurements on jointly trained models."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

from mtviz.evaluation.machine import provenance
from mtviz.evaluation.multi_token import trunk_and_drafter
from mtviz.evaluation.tutorial import PROMPT_BYTES, analyze_memory_usage, analyze_tradeoff, evaluate_quality, evaluate_speedup
from mtviz.heads import HeadsError
from mtviz.heads.joint import MultiTokenPrediction
from mtviz.heads.joint_store import load_joint
from mtviz.settings import SettingsError
from mtviz.training import from_scratch

MODEL = Path(__file__).resolve().parents[2] / "assets" / "bytes" / "bytes.safetensors"
Measured = Callable[[MultiTokenPrediction, argparse.Namespace], dict[str, Any]]


def speedup(argv: Sequence[str] | None = None) -> int:
    measured: Measured = lambda model, given: evaluate_speedup(
        model, _prompts(_held_out(given), given.prompts), given.max_new_tokens, progress=_say
    )
    return _one_model("speedup", "greedy decoding with a model's heads against its trunk alone", argv, measured)


def quality(argv: Sequence[str] | None = None) -> int:
    measured: Measured = lambda model, given: evaluate_quality(model, _held_out(given), progress=_say)
    return _one_model("quality", "perplexity and BLEU of a model on held-out text", argv, measured)


def memory(argv: Sequence[str] | None = None) -> int:
    measured: Measured = lambda model, _: analyze_memory_usage(model)
    return _one_model("memory", "parameters, weights, cache and peak memory of a model", argv, measured, text=False)


def tradeoff(argv: Sequence[str] | None = None) -> int:
    """Train models of several numbers of heads under equal budgets, unless they are in --out already, and weigh them."""
    given = _parser("tradeoff", "models of an equal budget by their number of heads", text=True)
    given.add_argument("--heads", type=int, nargs="+", default=[1, 2, 4, 8])
    given.add_argument("--minutes", type=float, default=4.0, help="processor time that each trains for (default %(default)s)")
    given.add_argument("--decay", type=float, default=0.3, help="in training, head i weighs decay^i (default %(default)s)")
    given.add_argument("--draft-every", type=int, default=3, metavar="N", help="in training, drafts train at one step in N (default %(default)s)")
    given.add_argument("--out", type=Path, required=True, metavar="DIR", help="where heads-N/ of each run are, or go")
    arguments = given.parse_args(argv)
    models, runs = {}, {}
    try:
        for at, heads in enumerate(arguments.heads):
            path = arguments.out / f"heads-{heads}"
            if not (path / "provenance.json").exists():
                _say(f"{at + 1} of {len(arguments.heads)}: training {heads} heads")
                words = ["--text", *map(str, arguments.text), "--heads", str(heads), "--out", str(path)]
                words += ["--minutes", str(arguments.minutes), "--decay", str(arguments.decay), "--draft-every", str(arguments.draft_every)]
                if failed := from_scratch.main([*words, *(["--resume"] if (path / "checkpoint.pt").exists() else [])]):
                    return failed
            models[heads], _ = load_joint(path / "model.safetensors")
            runs[heads] = json.loads((path / "provenance.json").read_text(encoding="utf-8"))
        documents = _held_out(arguments)
        prompts = _prompts(documents, arguments.prompts)
        rows = analyze_tradeoff(models, documents, prompts, arguments.max_new_tokens, progress=_say)
        for row in rows:
            row["training"] = runs[row["heads"]]
            row["curve"] = _curve(arguments.out / f"heads-{row['heads']}" / "log.jsonl")
    except (SettingsError, HeadsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return _finish("tradeoff", argv, arguments, models[arguments.heads[0]], {"rows": rows})


def _curve(log: Path) -> list[dict[str, Any]]:
    """The held-out losses of a training as it went on, by seconds of processor time and bytes read."""
    records = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [{name: record[name] for name in ("seconds", "bytes", "held_losses")} for record in records if "held_losses" in record]


def _one_model(name: str, summary: str, argv: Sequence[str] | None, measured: Measured, text: bool = True) -> int:
    given = _parser(name, summary, text)
    given.add_argument("--model", type=Path, default=MODEL, metavar="FILE")
    arguments = given.parse_args(argv)
    try:
        model, _ = load_joint(arguments.model)
        result = measured(model, arguments)
    except (SettingsError, HeadsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return _finish(name, argv, arguments, model, result)


def _parser(name: str, summary: str, text: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m mtviz lab {name}", description=summary)
    if text:
        what = "what the model was trained on: its held-out part is used"
        parser.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help=what)
        parser.add_argument("--documents", type=int, default=80, help="held-out documents to score (default %(default)s)")
        parser.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="bytes of each continuation timed (default %(default)s)")
        parser.add_argument("--prompts", type=int, default=24, help="of them, how many to continue for speed (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    return parser


def _held_out(given: argparse.Namespace) -> list[bytes]:
    text, _ = from_scratch.read_text(given.text)
    return list(text.held_documents[: given.documents])


def _prompts(documents: Sequence[bytes], count: int) -> list[str]:
    """Beginnings of documents as text, cut between characters."""
    starts = [document[:PROMPT_BYTES].decode("utf-8", errors="ignore") for document in documents if len(document) >= PROMPT_BYTES]
    if not starts:
        raise SettingsError("text", f"has no held-out piece of {PROMPT_BYTES} bytes or more")
    return starts[:count]


def _finish(name: str, argv: Sequence[str] | None, given: argparse.Namespace, model: MultiTokenPrediction, result: dict[str, Any]) -> int:
    words = [Path(word).name if word.startswith("/") else word for word in argv or ()]
    trunk, _ = trunk_and_drafter(model)
    document = {"kind": name, "provenance": provenance(trunk, " ".join(["python -m mtviz lab", name, *words])), **result}
    shown = json.dumps(document, ensure_ascii=False, indent=1)
    if given.json:
        given.json.write_text(shown + "\n", encoding="utf-8")
    print(shown)
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
