"""`python -m mtviz train --from-scratch`: from a text to a byte-level model with its heads."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Sequence

import torch

from mtviz.heads import HeadsError
from mtviz.heads.joint import KINDS, MOST_HEADS
from mtviz.heads.joint_store import save_joint
from mtviz.settings import SettingsError
from mtviz.trunk import load_trunk
from mtviz.trunk.bytes import byte_llama

from .joint import STRATEGIES, Diverged, JointSchedule, JointTraining
from .text import AFTER_PROMPT, Text, corpora_text, plain_text


def parser() -> argparse.ArgumentParser:
    default = JointSchedule()
    given = argparse.ArgumentParser(prog="python -m mtviz train --from-scratch", description="train a byte-level model together with its heads")
    given.add_argument("--text", nargs="+", type=Path, required=True, metavar="FILE", help="one UTF-8 text, or tokenised corpora (.npz)")
    given.add_argument("--out", type=Path, required=True, metavar="DIR", help="where model, checkpoint, log and provenance go")
    heads = f"predictions a position, the trunk's own included: 1 to {MOST_HEADS} (default %(default)s)"
    given.add_argument("--heads", type=int, default=4, metavar="N", help=heads)
    given.add_argument("--kind", choices=sorted(KINDS), default="hierarchical", help="how the heads depend on each other (default %(default)s)")
    given.add_argument("--strategy", choices=STRATEGIES, default=default.strategy)
    given.add_argument("--decay", type=float, default=default.decay, help="weighted: head i weighs decay^i; 0: 1 / (i + 1)")
    given.add_argument("--draft-every", type=int, default=default.draft_every, metavar="N", help="train the drafts at one step in N")
    given.add_argument("--minutes", type=float, default=default.minutes, help="processor time to train for (default %(default)s)")
    given.add_argument("--steps", type=int, default=0, help="train for so many steps instead")
    given.add_argument("--width", type=int, default=96, help="a multiple of 32 (default %(default)s)")
    given.add_argument("--layers", type=int, default=2)
    given.add_argument("--learning-rate", type=float, default=default.learning_rate)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--name", default="bytes", help="what a Trace calls the model")
    given.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Train and save; 2 where the arguments or the text do not fit, 3 where the loss diverged (the last good weights are saved)."""
    given = parser().parse_args(argv)
    if (given.out / "checkpoint.pt").exists() and not given.resume:
        print(f"{given.out} holds a training run already: give --resume or another --out", file=sys.stderr)
        return 2
    try:
        _check(given)
        text, after_prompt = read_text(given.text)
        torch.manual_seed(given.seed)
        model = KINDS[given.kind](byte_llama(given.width, given.layers), given.heads)
    except (SettingsError, HeadsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    fields = ("steps", "minutes", "strategy", "decay", "draft_every", "learning_rate", "seed")
    training = JointTraining(model, text, JointSchedule(**{name: getattr(given, name) for name in fields}), given.out)
    if given.resume:
        training.resume()
    asked = _Stop()
    training.log({"event": "start", "step": training.step, "heads": given.heads, "train_bytes": len(text.train), "held_bytes": len(text.held)})
    diverged = None

    def kept() -> None:
        """The weights as they are used, beside each checkpoint: whoever ends this process finds the last good ones."""
        save_joint(model, given.out / "model.safetensors", given.name, after_prompt)

    try:
        training.run(stopped=asked, kept=kept)
    except Diverged as error:
        diverged = str(error)
        kept()
    described = provenance(training, given.text) | {"held_out": training.evaluated()}
    (given.out / "provenance.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    training.log({"event": "end", "step": training.step, "finished": training.progress >= 1, "message": diverged})
    if diverged:
        print(f"error: {diverged}; the weights of step {training.step} are kept", file=sys.stderr)
        return 3
    print(f"{'finished' if training.progress >= 1 else 'stopped'} at step {training.step}: {json.dumps(described['held_out'])}")
    return 0


class _Stop:
    """True once the process was asked to end: the run then saves what it has."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.ask)

    def ask(self, *_: Any) -> None:
        self.asked = True

    def __call__(self) -> bool:
        return self.asked


def _check(given: argparse.Namespace) -> None:
    """Raises SettingsError, naming the field and its bounds."""
    if not 1 <= given.heads <= MOST_HEADS:
        raise SettingsError("heads", f"must be a whole number from 1 to {MOST_HEADS}; got {given.heads}")
    if not 0 < given.minutes <= 24 * 60:
        raise SettingsError("minutes", f"must be a number above 0 to {24 * 60}; got {given.minutes:g}")
    if given.steps < 0:
        raise SettingsError("steps", f"must be a whole number from 0; got {given.steps}")
    if not 0 <= given.decay <= 1:
        raise SettingsError("decay", f"must be a number from 0 to 1; got {given.decay:g}")
    if not 1 <= given.draft_every <= 100:
        raise SettingsError("draft_every", f"must be a whole number from 1 to 100; got {given.draft_every}")
    if not 0 < given.learning_rate <= 1:
        raise SettingsError("learning_rate", f"must be a number above 0 to 1; got {given.learning_rate:g}")
    if given.width % 32 or not 32 <= given.width <= 512:
        raise SettingsError("width", f"must be a multiple of 32 from 32 to 512; got {given.width}")
    if not 1 <= given.layers <= 12:
        raise SettingsError("layers", f"must be a whole number from 1 to 12; got {given.layers}")


def read_text(paths: Sequence[Path]) -> tuple[Text, str]:
    """The text of the files, and what a prompt for a model of it ends with: corpora hold instructions and answers."""
    if any(path.suffix == ".npz" for path in paths):
        return corpora_text(paths, load_trunk().decode), AFTER_PROMPT
    if len(paths) > 1:
        raise SettingsError("text", f"takes one text file, or corpora; got {len(paths)} files")
    return plain_text(paths[0].read_bytes()), ""


def provenance(training: JointTraining, paths: Sequence[Path]) -> dict[str, Any]:
    """Everything needed to make these weights again."""
    model, text = training.model, training.text
    config = model.model.config
    return {
        "command": "python -m mtviz " + " ".join(Path(word).name if word.startswith("/") else word for word in sys.argv[1:]),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "transformers": version("transformers")},
        "threads": torch.get_num_threads(),
        "text": {
            "files": [path.name for path in paths], "documents": text.documents,
            "bytes": len(text.train) + len(text.held), "sha256": text.sha256,
        },
        "model": {
            "kind": model.family, "heads": model.heads, "width": config.hidden_size, "layers": config.num_hidden_layers,
            "trunk_parameters": sum(p.numel() for p in model.model.parameters()), "parameters": sum(p.numel() for p in model.parameters()),
        },
        **training.described(),
    }  # fmt: skip
