"""What one host allows, in one object. Every field is set by the environment variable MTVIZ_<FIELD>."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any, Mapping

from mtviz.settings import BOUNDS, MAX_PROMPT_CHARACTERS, Bound, Settings, SettingsError, check_prompt

_MAX_NEW_TOKENS = int(BOUNDS["max_new_tokens"].high)
_HIGHEST = {"max_new_tokens": _MAX_NEW_TOKENS, "max_prompt_characters": MAX_PROMPT_CHARACTERS, "train_minutes": 60}


@dataclass(frozen=True)
class Limits:
    """Bounds on the work that visitors can ask for.

    Raises SettingsError on construction for a number below 1, or above what is allowed anywhere (`_HIGHEST`).
    """

    max_new_tokens: int = _MAX_NEW_TOKENS
    """Tokens of one run."""
    max_prompt_characters: int = MAX_PROMPT_CHARACTERS
    max_run_seconds: int = 300
    """Seconds after which a run ends with what it has."""
    max_waiting: int = 40
    """Different runs that may stand in line; one more is told to come back. Visitors who ask for the same share a place."""
    max_visitors: int = 500
    """Visitors served at once, waiting ones included."""
    kept_megabytes: int = 64
    """Memory for finished runs, the oldest of which make room for new ones."""
    train_minutes: int = 3
    """Minutes that a visitor may train a model for on the Heads page, one visitor at a time."""
    max_request_kilobytes: int = 256
    """Size of what one request may send."""
    frame_ancestors: str = "'self' https://huggingface.co https://*.hf.space"
    """Origins that may show the page in a frame, as the content-security policy writes them."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, highest = getattr(self, field.name), _HIGHEST.get(field.name, 10**9)
            if field.type == "int" and not 1 <= value <= highest:
                raise SettingsError(field.name, f"must be a whole number from 1 to {highest}; got {value}")
        if any(sign in self.frame_ancestors for sign in ";,\r\n"):
            raise SettingsError("frame_ancestors", "holds origins with blanks between them, nothing else")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Raises SettingsError, naming the variable, for a value that is no number or out of bounds."""
        given: dict[str, Any] = {}
        for field in fields(cls):
            name = f"MTVIZ_{field.name.upper()}"
            if name not in environment:
                continue
            try:
                given[field.name] = int(environment[name]) if field.type == "int" else environment[name]
            except ValueError:
                raise SettingsError(name, f"must be a whole number; got {environment[name][:40]!r}") from None
        return cls(**given)

    def bounds(self) -> dict[str, Bound]:
        """The settings' bounds as they are here: what the page's sliders go by."""
        return {**BOUNDS, "max_new_tokens": replace(BOUNDS["max_new_tokens"], high=self.max_new_tokens)}

    def defaults(self) -> Settings:
        """The settings that a page starts with."""
        return Settings(max_new_tokens=min(Settings().max_new_tokens, self.max_new_tokens))

    def check(self, prompt: Any, settings: Settings) -> None:
        """Raises SettingsError for a run that is larger than this host allows, or a prompt that is none."""
        check_prompt(prompt)
        if len(prompt) > self.max_prompt_characters:
            raise SettingsError("prompt", f"has {len(prompt)} characters; at most {self.max_prompt_characters} are allowed here")
        if settings.max_new_tokens > self.max_new_tokens:
            raise SettingsError("max_new_tokens", f"must be at most {self.max_new_tokens} here; got {settings.max_new_tokens}")
