"""Training a byte-level trunk and its heads together, from nothing: deterministic in its seed, logged line by line, resumable.

The budget is either steps or minutes. Minutes are the processor time of the training thread: on a quiet machine what the
clock on the wall says, and on a busy one still the same amount of training.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch
from torch import Tensor

from mtviz.heads.joint import MultiTokenPrediction

from .losses import head_losses, multi_token_loss, weighted_multi_token_loss
from .schedules import progressive_training
from .text import Text

STRATEGIES = ("plain", "weighted", "progressive")
FIGURES_EVERY = 4
HELD_WINDOWS = 24  # for the figures during training
SAMPLE_PROMPT, SAMPLE_BYTES = 40, 80


class Diverged(FloatingPointError):
    """The loss was not finite. The model holds the last good weights."""


@dataclass(frozen=True)
class JointSchedule:
    """How long, how fast and how. `steps` counts where it is not 0, else `minutes`."""

    steps: int = 0
    minutes: float = 5.0
    strategy: str = "weighted"
    decay: float = 0.0  # weighted: head i weighs decay^i; 1 / (i + 1) where it is 0
    draft_every: int = 1  # the drafts train at one step in so many, the trunk at all of them
    batch_bytes: int = 1024
    window: int = 256  # bytes that a sequence is long; every fourth batch has half as many of twice the length
    learning_rate: float = 1e-2
    warmup: int = 40
    cooldown: float = 0.5
    weight_decay: float = 0.1
    clip: float = 1.0
    seed: int = 0

    def rate(self, step: int, progress: float) -> float:
        """Linear warm-up over `warmup` steps, constant, and down to a hundredth over the last `cooldown` of the budget."""
        return self.learning_rate * min(1.0, (step + 1) / self.warmup, max(0.01, (1 - progress) / self.cooldown))

    def active(self, heads: int, step: int, progress: float) -> int:
        """How many heads train at `step`: all, or with `progressive` one more at each equal share of the first half of the
        budget; the trunk's alone at the steps between those of the drafts."""
        if step % self.draft_every:
            return 1
        return progressive_training(int(1000 * progress), heads, 500 // heads if self.strategy == "progressive" else 0)

    def loss(self, predictions: Tensor, ids: Tensor) -> Tensor:
        if self.strategy == "weighted":
            return weighted_multi_token_loss(predictions, ids, self.decay or None)
        return multi_token_loss(predictions, ids)


class JointTraining:
    """Model, optimiser and step number; everything random follows from the seed and the step.

    `out` gets checkpoint.pt and log.jsonl, one line a step: step, bytes and seconds so far, active heads, loss, gradient norm,
    rate; every fourth step at which drafts train per head `losses` (nats) and `accuracy` on the batch (null for a head that does
    not train yet); every so often `held_losses`, `held_accuracy` and a `sample`.
    """

    def __init__(self, model: MultiTokenPrediction, text: Text, schedule: JointSchedule, out: Path) -> None:
        self.model, self.text, self.schedule, self.out = model.train(), text, schedule, out
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=(0.9, 0.95))
        self.step, self.bytes, self.seconds = 0, 0, 0.0

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    @property
    def progress(self) -> float:
        """From 0 to 1: how much of the budget is spent."""
        return self.step / self.schedule.steps if self.schedule.steps else min(1.0, self.seconds / (60 * self.schedule.minutes))

    def save(self) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"step": self.step, "bytes": self.bytes, "seconds": self.seconds}
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def resume(self) -> None:
        """Continue from the checkpoint: the same batches and losses as without the interruption."""
        state = torch.load(self.checkpoint, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.bytes, self.seconds = state["step"], state["bytes"], state["seconds"]

    def run(
        self, evaluations: int = 20, save_every: int = 20, stopped: Callable[[], bool] = lambda: False, kept: Callable[[], None] = lambda: None
    ) -> bool:
        """Train until the budget is spent (True) or `stopped()` says so (False), with held-out figures and a sample at
        `evaluations` equal shares of the budget. A checkpoint is written every `save_every` steps, and in every case at the end;
        `kept` is called after each.

        Raises Diverged on a loss that is not finite, after going back to the last checkpoint.
        """
        if not self.checkpoint.exists():
            self.save()
        shares = math.floor(self.progress * evaluations)
        while self.progress < 1 and not stopped():
            try:
                record = self.one_step()
            except Diverged as error:
                self.resume()
                self.log({"event": "diverged", "message": str(error), "step": self.step})
                raise
            if (share := math.floor(self.progress * evaluations)) > shares:
                shares = share
                record |= self.evaluated() | self.sampled()
            self.log(record)
            if self.step % save_every == 0:
                self.save()
                kept()
        self.save()
        kept()
        return self.progress >= 1

    def batch(self) -> Tensor:
        """The windows of this step: int64 (batch, window)."""
        stream, schedule = self.text.train, self.schedule
        long = self.step % 4 == 3
        length = min(schedule.window * (2 if long else 1), len(stream), self.model.model.config.max_position_embeddings)
        dice = np.random.default_rng((schedule.seed, self.step))
        starts = dice.integers(0, len(stream) - length + 1, max(1, schedule.batch_bytes // length))
        return torch.from_numpy(np.stack([stream[start : start + length] for start in starts]).astype(np.int64))

    def one_step(self) -> dict[str, Any]:
        """One optimiser step; returns what the log says of it. Raises Diverged before the weights are touched."""
        began = time.thread_time()
        ids = self.batch()
        active = self.schedule.active(self.model.heads, self.step, self.progress)
        rate = self.schedule.rate(self.step, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        predictions = self.model(ids, active)
        loss = self.schedule.loss(predictions, ids) + self.model.extra_loss(predictions, ids)
        self.optimizer.zero_grad(set_to_none=True)
        (loss * active).backward()  # as a sum: the trunk's own part weighs the same at every step
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            raise Diverged(f"the loss is {loss.item()}, its gradient {norm.item()} at step {self.step}")
        self.optimizer.step()
        record = {"active": active, "loss": loss.item(), "grad_norm": norm.item(), "lr": rate}
        if self.step % (FIGURES_EVERY * self.schedule.draft_every) == 0:
            losses, accuracy = head_figures(predictions.detach(), ids)
            missing = [None] * (self.model.heads - active)
            record |= {"losses": losses + missing, "accuracy": accuracy + missing}
        self.step += 1
        self.bytes += ids.numel()
        self.seconds += time.thread_time() - began
        where = {"step": self.step, "bytes": self.bytes, "seconds": round(self.seconds, 3), "progress": round(self.progress, 5)}
        return where | record

    @torch.inference_mode()
    def evaluated(self) -> dict[str, Any]:
        """Held-out figures of every head, on at most HELD_WINDOWS windows spread over the held-out text."""
        stream = self.text.held
        length = min(self.schedule.window, len(stream))
        count = min(HELD_WINDOWS, len(stream) // length)
        starts = np.linspace(0, len(stream) - length, count).astype(int)
        ids = torch.from_numpy(np.stack([stream[start : start + length] for start in starts]).astype(np.int64))
        self.model.eval()
        losses, accuracy = head_figures(self.model(ids), ids)
        self.model.train()
        return {"held_losses": losses, "held_accuracy": accuracy}

    @torch.inference_mode()
    def sampled(self) -> dict[str, Any]:
        """What the trunk writes by itself now, greedily, after the beginning of the held-out text."""
        prompt = self.text.held[:SAMPLE_PROMPT].tolist()
        ids = list(prompt)
        self.model.eval()
        for _ in range(SAMPLE_BYTES):
            ids.append(int(self.model(torch.tensor([ids]), 1)[0, 0, -1].argmax()))
        self.model.train()
        prompt_text, text = (bytes(part).decode("utf-8", errors="replace") for part in (prompt, ids[len(prompt) :]))
        return {"sample": {"prompt": prompt_text, "text": text}}

    def log(self, record: dict[str, Any]) -> None:
        with (self.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def described(self) -> dict[str, Any]:
        """What the run was and how far it came, for a provenance."""
        return {"schedule": asdict(self.schedule), "step": self.step, "bytes": self.bytes, "seconds": round(self.seconds, 1)}


def head_figures(predictions: Tensor, ids: Tensor) -> tuple[list[float | None], list[float | None]]:
    """Loss in nats and accuracy of each head, None where it has no target; shapes as in `head_losses`."""
    losses = [None if loss is None else loss.item() for loss in head_losses(predictions, ids)]
    right = []
    for i, loss in enumerate(losses):
        length = ids.shape[1] - 1 - i
        right.append(None if loss is None else (predictions[:, i, :length].argmax(-1) == ids[:, 1 + i :]).float().mean().item())
    return losses, right
