"""One loaded model for page, command line and API: loads once, guards the device, never leaves a run half-marked.

A run is a generator that the caller pulls, and the device is held only while one step is computed. A visitor who goes
away simply stops pulling: no thread, lock or flag is left behind.
"""

from __future__ import annotations

import gc
import json
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, NotRequired, TypedDict, TypeVar

from mtviz.atlas import load as load_atlas
from mtviz.settings import DRAFTERS, Settings, SettingsError, check_prompt
from mtviz.trace import Trace, loads

if TYPE_CHECKING:
    from mtviz.drafting.protocol import Drafter
    from mtviz.evaluation.child import LabChild
    from mtviz.training.child import TrainingChild
    from mtviz.trunk import Trunk

    Loaded = tuple[Trunk, dict[str, Callable[[], Drafter]]]  # a trunk, and by name what makes its drafters

ASSETS = Path(__file__).resolve().parent.parent / "assets"
BYTE_MODEL = ASSETS / "bytes" / "bytes.safetensors"
Part = TypeVar("Part")
KEPT_MODELS = 16  # trained on the page; the oldest make room
log = logging.getLogger("mtviz")


class NoModel(RuntimeError):
    """No trunk could be loaded. The message says in one sentence what to install."""


class Preset(TypedDict):
    name: str
    title: str
    teaches: str
    zh: dict[str, str]  # title and teaches in Chinese
    prompt: str
    settings: dict[str, Any]
    others: NotRequired[list[dict[str, Any]]]  # further recorded runs: what each changes in the settings
    atlas: NotRequired[str]  # the preset whose atlas its knobs move in: its own, or that of the same prompt


class Status(TypedDict):
    live: bool  # a model is loaded and can decode
    loading: bool
    text: str
    drafters: NotRequired[list[str]]  # those of the loaded model


def runs(preset: Preset) -> dict[str, Settings]:
    """The settings of a preset's recorded runs by their names: NAME is its own, NAME.1, NAME.2 … are its `others`."""
    own = {preset["name"]: preset["settings"]}
    changed = {f"{preset['name']}.{i}": {**preset["settings"], **changes} for i, changes in enumerate(preset.get("others", []), 1)}
    return {name: Settings.from_mapping(settings) for name, settings in (own | changed).items()}


class Service:
    """The trunk, its heads, and the recorded traces. Safe to call from many threads.

    Args:
        model: a path or Hub id; None takes the default trunk.
        dtype: "bfloat16" or "float32".
        heads: directory of heads files, one a family, and the length predictor; None takes the shipped one.
    """

    def __init__(self, model: str | None = None, dtype: str = "bfloat16", heads: Path | None = None):
        self._model, self._dtype, self._heads_directory = model, dtype, heads or ASSETS / "heads"
        self._trunk: Trunk | None = None
        self._drafters: dict[str, Callable[[], Drafter]] = {}
        self._byte_models: dict[str, Loaded] = {}
        self._model_files: dict[str, bytes] = {}  # of those trained on the page, the newest last
        self._problem: str | None = None
        self._load_seconds = 0.0
        self._loading = threading.Lock()
        self._keeping = threading.Lock()  # of byte-level models, which load at once while the default one takes its time
        self._device = threading.Lock()

    # --- what needs no model -------------------------------------------------------------------------------------

    def presets(self) -> list[Preset]:
        return json.loads((ASSETS / "presets.json").read_text(encoding="utf-8"))

    def preset(self, name: str) -> Preset:
        """Raises SettingsError for a name that no preset has."""
        for preset in self.presets():
            if preset["name"] == name:
                return preset
        raise SettingsError("preset", f"there is none named {str(name)[:40]!r}")

    def recorded(self, name: str) -> Trace:
        """The recorded trace of a preset, or of another of its runs (see `runs`). Raises SettingsError for a name that none has."""
        name = str(name)
        if name not in runs(self.preset(name.partition(".")[0])):
            raise SettingsError("preset", f"there is no run named {name[:40]!r}")
        return loads((ASSETS / "traces" / f"{name}.json").read_text(encoding="utf-8"))

    def atlas(self, name: str) -> str:
        """The atlas of a preset, checked, as JSON text; null while none is recorded. Raises SettingsError for a preset without one."""
        preset = self.preset(name)
        if "atlas" not in preset:
            raise SettingsError("preset", f"{preset['name']} has no atlas")
        path = ASSETS / "atlas" / f"{preset['atlas']}.json"
        return load_atlas(path) if path.exists() else "null"

    def comparison(self) -> dict[str, Any]:
        """The prompts that were decoded with every drafter, and under which settings."""
        return json.loads((ASSETS / "comparison.json").read_text(encoding="utf-8"))

    def compared(self, name: str) -> dict[str, Trace]:
        """The recorded traces of one prompt of the comparison, by drafter; those that are there. Raises SettingsError for an unknown prompt."""
        if name not in [entry["name"] for entry in self.comparison()["prompts"]]:
            raise SettingsError("prompt", f"there is no comparison named {str(name)[:40]!r}")
        paths = {drafter: ASSETS / "traces" / "compare" / f"{name}.{drafter}.json" for drafter in DRAFTERS}
        return {drafter: loads(path.read_text(encoding="utf-8")) for drafter, path in paths.items() if path.exists()}

    def stored_heads(self) -> dict[str, Any]:
        """By family, what the heads files hold (`mtviz.stored.Stored`), and as `depths` the steps at which the number of
        drafts in training changed, where the file's training is known."""
        from mtviz.stored import stored_heads
        from mtviz.training.schedules import Schedule

        found: dict[str, Any] = dict(stored_heads(self._heads_directory))
        for stored in found.values():
            if stored.get("schedule", {}).get("steps"):
                schedule = Schedule(**stored["schedule"])
                stored["depths"] = _changes(schedule.depth, schedule.steps)
        return found

    def progressive(self, heads: int, steps_per_head: int, steps: int) -> list[list[int]]:
        """[step, heads from there on] at each change of `progressive_training`. Raises ValueError as that does."""
        from mtviz.training.schedules import progressive_training

        return _changes(lambda step: progressive_training(step, heads, steps_per_head), steps)

    def status(self) -> Status:
        if self._trunk is not None:
            heads = ", ".join(sorted(self._drafters)) or "none"
            text = f"{self._trunk.name} · {self._trunk.dtype} · {self._trunk.device} · heads: {heads}"
            return {"live": True, "loading": False, "text": text, "drafters": [*sorted(self._drafters), "lookup", "none"]}
        if self._problem is not None:
            return {"live": False, "loading": False, "text": self._problem}
        return {"live": False, "loading": True, "text": "model loading; recorded runs play meanwhile"}

    # --- the model -----------------------------------------------------------------------------------------------

    def load(self) -> Trunk:
        """Load trunk and heads; later calls return at once. Raises NoModel, again on every call, where there is none."""
        with self._loading:
            if self._trunk is not None:
                return self._trunk
            from mtviz.trunk import TrunkNotFound, load_trunk

            began = time.perf_counter()
            try:
                trunk = load_trunk(self._model, dtype=self._dtype)
            except (TrunkNotFound, OSError, ValueError) as error:
                self._problem = str(error)
                raise NoModel(self._problem) from error
            self._load_heads(trunk)
            self._trunk, self._problem = trunk, None
            self._load_seconds = time.perf_counter() - began
            return trunk

    def load_in_background(self) -> None:
        threading.Thread(target=self.load_quietly, name="load-model", daemon=True).start()

    def load_quietly(self) -> None:
        """Load; where there is no model, `status` says so."""
        try:
            self.load()
        except NoModel as error:
            log.warning("%s", error)
        finally:
            gc.enable()  # app.py starts without

    def _load_heads(self, trunk: Trunk) -> None:
        """Every readable file; an unreadable one is refused by name and the others serve."""
        from mtviz.drafting.files import load_drafters

        self._drafters, refused = load_drafters(self._heads_directory, trunk)
        for error in refused:
            log.warning("%s", error)

    def add_model(self, path: Path) -> tuple[str, str]:
        """Load a byte-level model from a file: the name that `Settings.model` takes, and its family of heads ("none" with one
        head). Equal files have equal names. Raises HeadsError, naming what is wrong, for a file that is none."""
        loaded = _byte_model(path)
        name = f"own-{loaded[0].fingerprint[:16]}"
        with self._keeping:
            self._byte_models[name] = loaded
            self._model_files[name] = path.read_bytes()
            for old in list(self._model_files)[:-KEPT_MODELS]:
                del self._byte_models[old], self._model_files[old]
        return name, next(iter(loaded[1]), "none")

    def model_file(self, name: str) -> bytes:
        """The file that `add_model` loaded. Raises SettingsError for a model that is here no more."""
        try:
            return self._model_files[name]
        except KeyError:
            raise _gone(name) from None

    def train(self, text: bytes, heads: int, kind: str, strategy: str, minutes: float, wall_seconds: float) -> TrainingChild:
        """Start training a byte-level model on `text` in a process of its own, which the caller closes."""
        from mtviz.training.child import TrainingChild

        return TrainingChild(text, heads, kind, strategy, minutes, wall_seconds)

    def _loaded(self, settings: Settings) -> Loaded:
        """The trunk that the settings name, and its drafters. Raises NoModel, or SettingsError for a model that is here no more."""
        if settings.model == "default":
            return self.load(), self._drafters
        with self._keeping:
            if settings.model not in self._byte_models:
                if settings.model != "bytes":
                    raise _gone(settings.model)
                try:
                    self._byte_models["bytes"] = _byte_model(BYTE_MODEL)
                except ValueError as error:
                    raise NoModel(str(error)) from error
            return self._byte_models[settings.model]

    def _run_of(self, settings: Settings) -> tuple[Trunk, Drafter | None]:
        from mtviz.drafting.lookup import LookupDrafter

        trunk, drafters = self._loaded(settings)
        if settings.drafter == "none" or settings.num_draft_tokens == 0:
            return trunk, None
        if settings.drafter == "lookup":
            return trunk, LookupDrafter(trunk.vocab_size)
        if settings.drafter not in drafters:
            have = ", ".join([*sorted(drafters), "lookup", "none"])
            raise SettingsError("drafter", f"no {settings.drafter} heads are loaded for {trunk.name}; choose one of {have}")
        return trunk, drafters[settings.drafter]()

    def identity(self, settings: Settings) -> tuple[tuple[str, Any], ...]:
        """What would decode with these settings, weights by their fingerprints. Empty where nothing can."""
        from mtviz.decoding.record import model_info

        if self._trunk is None if settings.model == "default" else settings.model not in self._byte_models:
            return ()  # not loaded yet, and this is no time to wait for it
        try:
            return tuple(model_info(*self._run_of(settings)).items())
        except (SettingsError, NoModel):
            return ()

    def decode(self, prompt: str, settings: Settings) -> Iterator[Trace]:
        """Yield the growing Trace: after the prefill and after every round. The last one has a `finish_reason`.

        Raises SettingsError or NoModel before any model work. A failure in a later round is not raised: the Trace keeps
        the rounds it has and ends with finish_reason "error" and a message.
        """
        check_prompt(prompt)
        from mtviz.decoding.record import decode_trace

        traces = decode_trace(*self._run_of(settings), prompt, settings, load_seconds=self._load_seconds)
        trace: Trace | None = None
        while True:
            try:
                with self._device:
                    trace = next(traces)
            except StopIteration:
                return
            except SettingsError:
                raise
            except Exception as error:
                log.exception("decoding failed")
                if trace is None:
                    raise
                trace["finish_reason"] = "error"
                trace["message"] = failure(error)
            yield trace
            if trace["finish_reason"] is not None:
                return

    # --- what is measured ----------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """The recorded measurements by the name of their file."""
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ASSETS / "results").glob("*.json"))}

    def heat_maps(self) -> dict[str, Any]:
        """What the runs of each recorded atlas came to, by preset (`mtviz.views.heat`)."""
        from mtviz.views.claims import round_costs
        from mtviz.views.heat import heat

        atlases = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ASSETS / "atlas").glob("*.json"))}
        pass_cost = self.results().get("pass_cost")
        return {name: heat(atlas, round_costs(pass_cost, atlas["model"]["family"]) if pass_cost else {}) for name, atlas in atlases.items()}

    def race(self, prompt: str, settings: Settings) -> Iterator[dict[str, Any]]:
        """Race a prompt without and with drafts: yields how many tokens each lane has, and last the `result` of `evaluation.race`.

        Raises SettingsError or NoModel before any model work.
        """
        check_prompt(prompt)
        from mtviz.evaluation.race import race, result

        trunk, drafter = self._run_of(settings)
        lanes: tuple[Trace, ...] = ()
        for lanes in self._held(race(trunk, drafter, prompt, settings)):
            yield {"kind": "progress", "tokens": [len(lane["output"]["tokens"]) for lane in lanes]}
        yield result(trunk, *lanes)

    def pass_cost(self, rounds: int) -> Iterator[dict[str, Any]]:
        """Measure what passes and drafts take on this machine: yields how far it is, and last the result with its provenance.

        Raises NoModel.
        """
        from mtviz.evaluation.machine import provenance
        from mtviz.evaluation.pass_cost import measure

        trunk = self.load()
        for part in self._held(measure(trunk, self._drafters, rounds)):
            if part["kind"] == "pass_cost":
                part = {"provenance": provenance(trunk, f"python -m mtviz lab pass-cost --rounds {rounds}"), **part}
            yield part

    def sweep(self, what: str, prompts: int, max_new_tokens: int) -> Iterator[dict[str, Any]]:
        """Measure "lengths" or "thresholds" over so many prompts: yields how far it is, and last the result with its provenance.

        Raises NoModel, or SettingsError where no heads are loaded.
        """
        from mtviz.evaluation.sweep import FAMILY, read_prompts, sweep

        trunk = self.load()
        family = next((name for name in (FAMILY, *self._drafters) if name in self._drafters), None)
        if family is None:
            raise SettingsError("drafter", f"no heads are loaded for {trunk.name}, so there is nothing to measure")
        yield from self._held(sweep(what, trunk, self._drafters, family, read_prompts(prompts), max_new_tokens))

    def lab(self, what: str, text: bytes, minutes: float, wall_seconds: float) -> LabChild:
        """Start a measurement of the laboratory in a process of its own, which the caller closes (`mtviz.evaluation.child`)."""
        from mtviz.evaluation.child import LabChild

        return LabChild(what, text, minutes, wall_seconds)

    def _held(self, parts: Iterator[Part]) -> Iterator[Part]:
        """`parts`, the device held while each is computed."""
        while True:
            with self._device:
                part = next(parts, None)
            if part is None:
                return
            yield part


def _gone(model: str) -> SettingsError:
    return SettingsError("model", f"{model[:40]} is not here any more; train it again, or load its file")


def _byte_model(path: Path) -> Loaded:
    from mtviz.drafting.joint import joint_drafters
    from mtviz.heads.joint_store import decodable, load_joint

    model, described = load_joint(path)
    trunk, model = decodable(model, described.get("name") or "bytes", described.get("after_prompt", ""))
    return trunk, joint_drafters(model, trunk)


def _changes(depth: Callable[[int], int], steps: int) -> list[list[int]]:
    """[step, depth from there on] wherever `depth` changes in `steps` steps."""
    depths = [depth(step) for step in range(steps)]
    return [[step, now] for step, now in enumerate(depths) if step == 0 or now != depths[step - 1]]


def failure(error: Exception) -> str:
    """What a visitor reads when a run fails."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return "The device ran out of memory. A shorter prompt or fewer new tokens may fit; the next run is not affected."
    return text[:500]
