"""`python -m mtviz train`: from corpora to a heads file with its provenance."""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Sequence

import torch

from mtviz.heads import FAMILIES, MtpHeads, load_heads, save_heads
from mtviz.trunk import Trunk, load_trunk
from mtviz.trunk.places import cache_directory

from . import from_scratch
from .batches import Document
from .corpus import frequent_ids, read_corpus, split
from .hidden import HiddenStates
from .length import fit_length
from .loop import Training, evaluate
from .schedules import CHOICES, Schedule

ADAPTIVE = "adaptive"
FROM_SCRATCH = "--from-scratch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = Schedule()
    parser.add_argument("--family", choices=[*FAMILIES, ADAPTIVE], default=MtpHeads.family)
    parser.add_argument("--heads", default=None, metavar="FILE", help="for adaptive: the heads whose length is to be learned")
    parser.add_argument("--cost", type=float, default=0.05, help="for adaptive: price of one more draft in trunk passes (default %(default)s)")
    parser.add_argument("--corpus", nargs="+", required=True, metavar="FILE", help="tokenised documents (.npz)")
    parser.add_argument("--out", required=True, metavar="DIR", help="where heads, checkpoint, log and provenance go")
    parser.add_argument("--trunk", default=None, help="model directory, GGUF file or Hub id")
    parser.add_argument("--device", default=None)
    parser.add_argument("--documents", nargs="+", type=int, default=None, metavar="N", help="use this many of each corpus")
    parser.add_argument("--max-temperature", nargs="+", type=float, default=None, metavar="T", help="and of those only what was sampled at T or below")
    parser.add_argument("--draft-vocabulary", type=int, default=8192, metavar="N", help="most frequent ids to draft from")
    parser.add_argument("--hidden-cache", default=None, metavar="DIR", help="where the trunk's hidden states are kept")
    parser.add_argument("--start-from", nargs="+", default=None, metavar="CHECKPOINT", help="begin with a checkpoint's weights, or the mean of several")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop (resumably) after this long")
    parser.add_argument("--evaluate-every", type=int, default=200, metavar="STEPS")
    for name, value in asdict(default).items():
        given = {"choices": CHOICES[name]} if name in CHOICES else {"type": type(value), "metavar": type(value).__name__}
        parser.add_argument(f"--{name.replace('_', '-')}", default=value, **given)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz train`: train one family of heads on a frozen trunk and save it; 2 where the arguments do not fit.
    With --from-scratch: a byte-level model and its heads together."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if FROM_SCRATCH in argv:
        argv.remove(FROM_SCRATCH)
        return from_scratch.main(argv)
    summary = f"train heads on a frozen trunk; with {FROM_SCRATCH} (try it with --help) a model of bytes together with its heads"
    parser = argparse.ArgumentParser(prog="python -m mtviz train", description=summary)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(args: argparse.Namespace) -> int:
    out = Path(args.out)
    if (out / "checkpoint.pt").exists() and not args.resume and args.family != ADAPTIVE:
        print(f"{out} holds a training run already: give --resume or another --out", file=sys.stderr)
        return 2
    for option, given in (("--documents", args.documents), ("--max-temperature", args.max_temperature)):
        if given and len(given) not in (1, len(args.corpus)):
            print(f"{option} takes one number, or one for each corpus", file=sys.stderr)
            return 2
    if (args.family == ADAPTIVE) != (args.heads is not None):
        print("--heads names the heads of --family adaptive, and of no other family", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    trunk = load_trunk(args.trunk, dtype="float32", device=args.device)
    return learn_length(args, trunk, out) if args.family == ADAPTIVE else train_heads(args, trunk, out)


def train_heads(args: argparse.Namespace, trunk: Trunk, out: Path) -> int:
    schedule = Schedule(**{name: getattr(args, name) for name in asdict(Schedule())})
    sources, train, held = documents_of(args, trunk)
    draft_ids = frequent_ids([source.corpus for source in sources], trunk.vocab_size, args.draft_vocabulary)
    torch.manual_seed(schedule.seed)
    heads = FAMILIES[args.family](trunk, torch.from_numpy(draft_ids))
    training = Training(heads, sources, train, held, schedule, out)
    if args.resume:
        training.resume()
    elif args.start_from:
        training.start_from([Path(path) for path in args.start_from])
    training.log({"event": "start", "step": training.step, "documents": [len(train), len(held)], "draft_vocabulary": len(draft_ids)})
    finished = training.run(args.minutes, args.evaluate_every)
    save_heads(heads, out / f"{args.family}.safetensors")
    figures = evaluate(heads, sources, held, heads.max_draft_tokens)
    described = provenance(trunk, sources, len(train), len(held), schedule, training.step, figures)
    (out / f"{args.family}.provenance.json").write_text(json.dumps(described, indent=1) + "\n")
    print(f"{'finished' if finished else 'stopped'} at step {training.step}: {json.dumps(figures)}")
    return 0


def learn_length(args: argparse.Namespace, trunk: Trunk, out: Path) -> int:
    try:
        heads = load_heads(args.heads, trunk)
        sources, _, held = documents_of(args, trunk, held_only=True)
        predictor = fit_length(heads, sources, held, args.cost)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    predictor.save(out / f"{heads.family}.length.json")
    print(json.dumps(predictor.fitted))
    return 0


def documents_of(
    args: argparse.Namespace, trunk: Trunk, held_only: bool = False
) -> tuple[list[HiddenStates], list[Document], list[Document]]:
    """Each corpus with its hidden states, computed where they are missing, and the documents to train on and to hold out."""
    sources: list[HiddenStates] = []
    train: list[Document] = []
    held: list[Document] = []
    wanted, hottest = args.documents or [None], args.max_temperature or [math.inf]
    directory = Path(args.hidden_cache) if args.hidden_cache else cache_directory() / "hidden"
    for which, path in enumerate(args.corpus):
        corpus = read_corpus(path)
        hot = corpus.temperature > hottest[which % len(hottest)]
        parts = [part[~hot[part]] for part in split(corpus.order()[: wanted[which % len(wanted)]])]
        source = HiddenStates(trunk, corpus, directory)
        for part in parts[1:] if held_only else parts:
            source.compute(part)
        sources.append(source)
        for documents, part in zip((train, held), parts):
            documents += [(which, int(d)) for d in part]
    return sources, train, held


def provenance(
    trunk: Trunk, sources: Sequence[HiddenStates], train: int, held: int, schedule: Schedule, step: int, figures: dict[str, object]
) -> dict[str, object]:
    """Everything needed to make these weights again, and what they measured."""
    revision = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    corpora = [source.corpus for source in sources]
    return {
        "command": "python -m mtviz " + " ".join(_without_directories(sys.argv[1:])),
        "revision": revision.stdout.strip() or None,
        "versions": {
            "python": platform.python_version(), "torch": torch.__version__,
            "transformers": version("transformers"), "safetensors": version("safetensors"),
        },
        "trunk": {"name": trunk.name, "fingerprint": trunk.fingerprint, "tokenizer_hash": trunk.tokenizer_hash},
        "data": [{"file": c.path.name, "sha256": c.sha256, "documents": len(c), "tokens": len(c.tokens)} for c in corpora],
        "documents": {"train": train, "held_out": held},
        "schedule": asdict(schedule),
        "step": step,
        "held_out": figures,
    }  # fmt: skip


def _without_directories(arguments: list[str]) -> list[str]:
    """Command-line words with absolute paths shortened to file names: where files lay on one machine is no news."""
    return [Path(word).name if word.startswith("/") else word for word in arguments]
