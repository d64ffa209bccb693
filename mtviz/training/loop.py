"""The training loop: deterministic in its seed, logged line by line, stopped and resumed without a trace in the loss."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Sequence

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from mtviz.heads import Heads

from .batches import Document, collate, documents_of_step
from .distillation import distillation_loss, predictable
from .hidden import HiddenStates
from .losses import weighted
from .schedules import Schedule


class Training:
    """Heads, optimiser and step number. Everything random follows from the seed and the step."""

    def __init__(
        self, heads: Heads, sources: Sequence[HiddenStates], train: Sequence[Document], held: Sequence[Document],
        schedule: Schedule, out: Path,
    ) -> None:
        self.heads, self.sources, self.train, self.held = heads.train(), sources, train, held
        self.schedule, self.out = schedule, out
        matrices = [p for p in heads.parameters() if p.dim() > 1]
        vectors = [p for p in heads.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": schedule.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=(0.9, 0.95))
        self.step = 0
        self.best, self.stale = 0.0, 0  # best hold-out figure so far, and how many evaluations ago

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    def save(self) -> None:
        state = {"heads": dict(self.heads.named_parameters()), "optimizer": self.optimizer.state_dict(), "step": self.step}
        state |= {"best": self.best, "stale": self.stale}
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def resume(self) -> None:
        """Continue from the checkpoint: the same batches and losses as without the interruption."""
        state = self.load_weights(self.checkpoint)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.best, self.stale = state.get("best", 0.0), state.get("stale", 0)

    @torch.no_grad()
    def load_weights(self, checkpoint: Path) -> dict:
        """Take over a checkpoint's weights, whatever draft vocabulary it had, and return all that it holds."""
        state = self.read(checkpoint)
        for name, weight in self.heads.named_parameters():
            weight.copy_(state["heads"][name])
        return state

    @torch.no_grad()
    def start_from(self, checkpoints: Sequence[Path]) -> None:
        """Begin with the mean of the weights of some checkpoints (Wortsman et al. 2022, model soups)."""
        states = [self.read(checkpoint)["heads"] for checkpoint in checkpoints]
        for name, weight in self.heads.named_parameters():
            weight.copy_(torch.stack([state[name] for state in states]).mean(0))

    def read(self, checkpoint: Path) -> dict:
        return torch.load(checkpoint, map_location=self.heads.draft_ids.device, weights_only=True)

    def run(self, minutes: float = math.inf, evaluate_every: int = 200, save_every: int = 25) -> bool:
        """Train until the schedule ends or the hold-out stops improving (True), or the minutes are over (False). In every case
        a checkpoint is written."""
        started = time.monotonic()
        bar = tqdm(total=self.schedule.steps, initial=self.step, desc=f"train {self.heads.family}", unit="step")
        while not self.finished and time.monotonic() - started < 60 * minutes:
            record = self.one_step()
            bar.update()
            bar.set_postfix(loss=f"{record['loss']:.3f}")
            if self.step % save_every == 0:
                self.save()
            if self.step % evaluate_every == 0 or self.step == self.schedule.steps:
                record |= self.evaluated()
            self.log(record)
        bar.close()
        self.save()
        return self.finished

    @property
    def finished(self) -> bool:
        return self.step >= self.schedule.steps or 0 < self.schedule.patience <= self.stale

    def evaluated(self) -> dict[str, object]:
        """`evaluate`'s figures; notes whether the first draft's overlap is the best so far."""
        figures = evaluate(self.heads, self.sources, self.held)
        better = figures["overlap"][0] > self.best
        self.best, self.stale = (figures["overlap"][0], 0) if better else (self.best, self.stale + 1)
        return figures

    def one_step(self) -> dict[str, object]:
        """One optimiser step; returns what the log says of it. Raises FloatingPointError on a loss that is not finite."""
        began = time.monotonic()
        schedule = self.schedule
        documents = documents_of_step(self.train, self.step, schedule.batch_documents, schedule.seed)
        dice = np.random.default_rng((schedule.seed, self.step, 1))
        batch = collate(self.sources, documents, schedule.window, dice).to(self.heads.trunk.device)
        rate = schedule.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        generator = torch.Generator().manual_seed(int(dice.integers(2**62)))
        depth = schedule.depth(self.step)
        # Entered anew each step: an autocast kept open would go on using its copies of stale weights.
        with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=schedule.precision == "bfloat16"):
            losses = distillation_loss(self.heads, batch, depth, schedule.loss, schedule.thin, generator)
            loss = weighted(losses, schedule.decay)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()} at step {self.step}")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.heads.parameters(), schedule.clip)
        self.optimizer.step()
        self.step += 1
        return {
            "step": self.step, "loss": loss.item(), "losses": [part.item() for part in losses], "lr": rate,
            "grad_norm": norm.item(), "tokens": int(batch.generated.sum()), "seconds": round(time.monotonic() - began, 3),
        }  # fmt: skip

    def log(self, record: dict[str, object]) -> None:
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")


@torch.inference_mode()
def evaluate(heads: Heads, sources: Sequence[HiddenStates], held: Sequence[Document], depth: int = 3) -> dict[str, object]:
    """On held-out documents, by draft: how often the draft is the trunk's own argmax over its whole vocabulary
    (`agreement`), and the chance sum(min(p, q)) that speculative sampling accepts it (`overlap`)."""
    heads.eval()
    right, overlap, count = torch.zeros(depth), torch.zeros(depth), torch.zeros(depth)
    for document in held:
        batch = collate(sources, [document]).to(heads.trunk.device)
        slots = predictable(batch)
        reach = torch.arange(slots.shape[1], device=slots.device)[slots[0]]
        target = heads.trunk.unembed(batch.hidden[:, 1:][slots])
        best, probs = target.argmax(-1), torch.softmax(target, -1)[:, heads.draft_ids]
        for k, output in enumerate(heads.unroll(batch.tokens, batch.hidden, depth)):
            usable = reach >= k
            logits = heads.unembed(output[slots])
            hit = heads.draft_ids[logits.argmax(-1)] == best
            shared: Tensor = torch.minimum(torch.softmax(logits, -1), probs).sum(-1)
            right[k] += hit[usable].sum().cpu()
            overlap[k] += shared[usable].sum().cpu()
            count[k] += usable.sum().cpu()
    heads.train()
    return {"agreement": (right / count).tolist(), "overlap": (overlap / count).tolist(), "held_out_drafts": int(count[0])}
