"""Validated settings and their bounds: the one source for page, command line and API.

Every bound is declared once in `BOUNDS`; the sliders, the argument parser and the API read it from there.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Mapping

RULES = ("ratio", "speculative", "match", "typical")
DRAFTERS = ("parallel", "hierarchical", "mtp", "adaptive", "hybrid", "lookup", "none")
# The trunk that the service was started with, and the byte-level one that comes with the repository, each with its best heads.
MODELS = {"default": "mtp", "bytes": "hierarchical"}
OWN_MODEL = re.compile(r"own-[0-9a-f]{16}")  # one that was trained on the page, by the beginning of its fingerprint
DTYPES = ("bfloat16", "float32")
MAX_PROMPT_CHARACTERS = 4000


class SettingsError(ValueError):
    """A setting is outside its bounds. The message names the field and the bounds."""

    def __init__(self, field: str, message: str):
        super().__init__(f"{field}: {message}")
        self.field = field


@dataclass(frozen=True)
class Bound:
    """Range of one number. `low_open` excludes the lower end; `step` is what a slider moves by."""

    low: float
    high: float
    step: float
    integer: bool = False
    low_open: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.integer else "a number"
        low, high = (f"{end:.0f}" if self.integer else f"{end:g}" for end in (self.low, self.high))
        return f"{kind} {'above' if self.low_open else 'from'} {low} to {high}"


BOUNDS: dict[str, Bound] = {
    "num_draft_tokens": Bound(0, 8, 1, integer=True),
    "threshold": Bound(0, 1, 0.05, low_open=True),
    "epsilon": Bound(0, 1, 0.01),
    "delta": Bound(0, 1, 0.05),
    "temperature": Bound(0, 2, 0.1),
    "top_k": Bound(0, 1000, 1, integer=True),  # 0: off
    "top_p": Bound(0, 1, 0.05, low_open=True),  # 1: off
    "seed": Bound(0, 2**32 - 1, 1, integer=True),
    "max_new_tokens": Bound(1, 1024, 1, integer=True),
}
CHOICES: dict[str, tuple[str, ...]] = {"rule": RULES, "drafter": DRAFTERS}


@dataclass(frozen=True)
class Settings:
    """How one generation runs.

    Raises `SettingsError` on construction for any value outside `BOUNDS` or `CHOICES`, NaN and infinity included.
    """

    num_draft_tokens: int = 4
    """Proposal length asked for each round (the tutorial's `max_proposal_len`); 0 is plain autoregressive decoding."""
    rule: str = "ratio"
    threshold: float = 0.5
    """The ratio rule's tau (the tutorial's `min_accept_ratio`)."""
    epsilon: float = 0.09
    delta: float = 0.3
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_new_tokens: int = 64
    model: str = "default"
    """The trunk, by name: "default", "bytes", or a model trained on the page ("own-" and 16 hexadecimal digits)."""
    drafter: str = "mtp"
    raw: bool = False
    """Continue the prompt as plain text instead of wrapping it in the chat template."""

    def __post_init__(self) -> None:
        for name, bound in BOUNDS.items():
            object.__setattr__(self, name, check_number(name, getattr(self, name)))
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingsError(name, f"must be one of {', '.join(allowed)}; got {_shown(getattr(self, name))}")
        if not isinstance(self.model, str) or not (self.model in MODELS or OWN_MODEL.fullmatch(self.model)):
            raise SettingsError("model", f"must be one of {', '.join(MODELS)}, or a model trained here; got {_shown(self.model)}")
        if not isinstance(self.raw, bool):
            raise SettingsError("raw", f"must be true or false; got {_shown(self.raw)}")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "Settings":
        """Build from untrusted names and values. Raises `SettingsError`, for an unknown name too."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise SettingsError(_shown(name), f"is not a setting; known are {', '.join(sorted(known))}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_number(name: str, value: Any) -> int | float:
    """Return `value` as an int or float inside `BOUNDS[name]`, or raise `SettingsError`."""
    bound = BOUNDS[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # Comparisons alone: they are false for NaN, and exact for integers too large for a float.
    inside = is_number and bound.low <= value <= bound.high and not (bound.low_open and value == bound.low)
    if not inside or (bound.integer and value != int(value)):
        raise SettingsError(name, f"must be {bound}; got {_shown(value)}")
    return int(value) if bound.integer else float(value)


def check_prompt(text: Any) -> str:
    """Return the prompt unchanged, or raise `SettingsError` if it is not text, blank, or too long."""
    if not isinstance(text, str):
        raise SettingsError("prompt", f"must be text; got {_shown(text)}")
    if not text.strip():
        raise SettingsError("prompt", f"is blank; write 1 to {MAX_PROMPT_CHARACTERS} characters")
    if len(text) > MAX_PROMPT_CHARACTERS:
        raise SettingsError("prompt", f"has {len(text)} characters; at most {MAX_PROMPT_CHARACTERS} are allowed")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise SettingsError("prompt", "holds half of a surrogate pair, which is not valid text") from None
    return text


def _shown(value: Any) -> str:
    """A short, printable form of an untrusted value for an error message."""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        shown = f"a {type(value).__name__} too large to write"
    return shown if len(shown) <= 40 else shown[:37] + "..."
