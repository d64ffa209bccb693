"""mtviz: watch a language model guess several tokens ahead, be judged, and roll back."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Names are imported on first use, so that `import mtviz` costs nothing and needs no torch.
_TUTORIAL = "mtviz.evaluation.tutorial"
_EXPORTS = {
    "AdaptiveMultiTokenPrediction": "mtviz.heads.joint",
    "HierarchicalPrediction": "mtviz.heads.joint",
    "MultiTokenPrediction": "mtviz.heads.joint",
    "MultiTokenDecoderSim": "mtviz.simulator",
    "Settings": "mtviz.settings",
    "SettingsError": "mtviz.settings",
    "Trace": "mtviz.trace",
    "analyze_memory_usage": _TUTORIAL,
    "analyze_tradeoff": _TUTORIAL,
    "evaluate_quality": _TUTORIAL,
    "evaluate_speedup": _TUTORIAL,
    "generate_multi_token": "mtviz.evaluation.multi_token",
    "judge_again": "mtviz.trace",
    "multi_token_loss": "mtviz.training.losses",
    "progressive_training": "mtviz.training.schedules",
    "weighted_multi_token_loss": "mtviz.training.losses",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str):
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'mtviz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
