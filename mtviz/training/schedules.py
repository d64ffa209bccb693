"""What changes during a run, as pure functions of the step."""

from __future__ import annotations

from dataclasses import dataclass

LOSSES = ("kl", "cross_entropy", "acceptance")
PRECISIONS = ("float32", "bfloat16")
CHOICES = {"loss": LOSSES, "precision": PRECISIONS}


def progressive_training(step: int, heads: int, steps_per_head: int) -> int:
    """How many of `heads` train at `step`: one at first, and one more every `steps_per_head` steps; all at once where that is 0."""
    if step < 0 or heads < 1 or steps_per_head < 0:
        raise ValueError(f"step {step} and steps_per_head {steps_per_head} must not be negative, heads {heads} be at least 1")
    return heads if steps_per_head == 0 else min(heads, 1 + step // steps_per_head)


@dataclass(frozen=True)
class Schedule:
    """How long, how fast and on what.

    The first `unroll_from` steps train one draft; from then on `unroll` of them do, all at once or, with `add_every`, one more
    each so many steps.
    """

    steps: int = 2000
    batch_documents: int = 4
    window: int = 0  # tokens of each document that a step looks at; 0 is all
    loss: str = "kl"
    learning_rate: float = 2e-3
    warmup: int = 30
    cooldown: float = 0.3
    unroll: int = 3
    unroll_from: int = 1400
    add_every: int = 0
    decay: float = 0.8  # weight of draft k is decay^k
    thin: float = 1.0  # draft k is scored on a share thin^k of the slots, drawn anew each step: late drafts matter less
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: str = "float32"  # of the products; weights and losses are float32
    patience: int = 0  # stop after so many evaluations without a better hold-out; 0 is never
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)}")

    def rate(self, step: int) -> float:
        """Linear warm-up, constant, and down to a hundredth over the last `cooldown` of the steps.

        Until then it does not depend on how many steps there will be, so that a run can be prolonged (Hägele et al. 2024).
        """
        left = (self.steps - step) / max(1.0, self.cooldown * self.steps)
        return self.learning_rate * min(1.0, (step + 1) / max(1, self.warmup), max(0.01, left))

    def depth(self, step: int) -> int:
        """How many drafts train at `step`."""
        if step < self.unroll_from:
            return 1
        return progressive_training(step - self.unroll_from, self.unroll, self.add_every)
