"""A learned proposal length: is one more draft worth its price?

The multi-token prediction tutorial's adaptive model asks a sigmoid that nothing ever trains. Here a logistic model is
fitted to measured acceptance: the chance that draft i is accepted if all before it were, from what is known before
token i is drawn. That is the law it would be drawn from, and how likely the tokens before it were. The product of the
chances so far is draft i's predicted survival, which is what it adds to the tokens of the round.

On disk: a small JSON file beside the heads that it was fitted to.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .base import Heads, HeadsError

FORMAT = "mtviz-length-1"
MEASURES = ("log_odds", "margin", "entropy", "previous", "past")


def measures(logits: Tensor, previous: Tensor, past: Tensor) -> Tensor:
    """What the predictor looks at, float64 (m, 5), from draft logits (m, Vd) of one position.

    log_odds of the law's first choice; margin, its log-ratio to the second; entropy in nats; `previous` and `past` (m,):
    log-probability of the draft before and of all drafts before, 0 for the first one. The laws are the raw ones.
    """
    law = torch.log_softmax(logits.double(), -1)
    first, second = law.topk(2, dim=-1).values.unbind(-1)
    log_odds = first - torch.log(-torch.expm1(first.clamp_max(-1e-9)))  # log p - log(1 - p)
    entropy = torch.special.entr(law.exp()).sum(-1)
    return torch.stack([log_odds, (first - second).clamp_max(20), entropy, previous.double(), past.double()], dim=-1)


@dataclass(frozen=True)
class LengthPredictor:
    """Chances of acceptance: sigmoid(offsets[i] + weights · measures), one offset a position.

    `cost` is the price of one more draft, judging included, as a share of a trunk pass over a single token. `fitted` says on
    what the weights were fitted and how well they predicted other documents.
    """

    family: str
    heads_fingerprint: str
    trunk_fingerprint: str
    weights: tuple[float, ...]
    offsets: tuple[float, ...]
    cost: float
    fitted: dict[str, Any]

    def chance(self, i: int, logits: Tensor, previous: float, past: float) -> float:
        """Of draft i's acceptance once all before it are accepted; `logits` (Vd,)."""
        row = measures(logits[None], logits.new_tensor([previous]), logits.new_tensor([past]))[0].tolist()
        score = self.offsets[i] + math.fsum(weight * value for weight, value in zip(self.weights, row))
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, score))))

    def worth(self, i: int, survival: float, gained: float) -> bool:
        """Whether draft i raises the expected tokens per time, given its predicted survival and the sum of the earlier ones'.

        A round of i drafts yields 1 + gained tokens in 1 + cost · i passes.
        """
        return survival * (1 + self.cost * i) >= self.cost * (1 + gained)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a length."""
        decides = [self.heads_fingerprint, self.weights, self.offsets, self.cost]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `path`, whole or not at all."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps({"format": FORMAT, "measures": MEASURES, **asdict(self)}, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)


def load_length(path: str | os.PathLike[str], heads: Heads) -> LengthPredictor:
    """The predictor in `path`, for `heads`.

    Raises HeadsError, naming what is wrong, for a missing or damaged file, another format, family or number of weights, one
    that was fitted to other weights of the family, and for numbers that are not finite or a cost below 0.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HeadsError(f"there is no length predictor {path}") from error
    except (OSError, ValueError) as error:
        raise HeadsError(f"{path} is damaged or no length predictor: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("measures") != list(MEASURES):
        raise HeadsError(f"{path} is no length predictor of format {FORMAT} over {', '.join(MEASURES)}")
    known = [field.name for field in fields(LengthPredictor)]
    if missing := [name for name in known if name not in found]:
        raise HeadsError(f"{path} lacks {', '.join(missing)}")
    if found["family"] != heads.family:
        raise HeadsError(f"{path} was fitted to {found['family']} heads, not to {heads.family}")
    if found["heads_fingerprint"] != heads.fingerprint:
        raise HeadsError(f"{path} was fitted to {heads.family} heads with other weights: fit it anew")
    try:
        weights, offsets, cost = tuple(map(float, found["weights"])), tuple(map(float, found["offsets"])), float(found["cost"])
    except (TypeError, ValueError) as error:
        raise HeadsError(f"{path}: weights, offsets and cost must be numbers: {error}") from error
    if len(weights) != len(MEASURES) or not offsets:
        raise HeadsError(f"{path} has {len(weights)} weights and {len(offsets)} offsets; wanted are {len(MEASURES)} and at least 1")
    if not all(map(math.isfinite, (*weights, *offsets, cost))) or cost < 0:
        raise HeadsError(f"{path}: weights, offsets and cost must be finite, and the cost not below 0")
    return LengthPredictor(heads.family, heads.fingerprint, str(found["trunk_fingerprint"]), weights, offsets, cost, found["fitted"])
