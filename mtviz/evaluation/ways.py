"""The ways to decode that the benchmark compares, all greedy and on the same weights.

Each starts afresh on every call: no cache, n-gram index or draft state is left from the run before.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Callable, Iterator, Mapping, Sequence

import torch

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.decoding.record import decode_trace
from mtviz.drafting.lookup import LookupDrafter
from mtviz.drafting.protocol import Drafter
from mtviz.settings import Settings
from mtviz.trunk import Trunk


@dataclass
class Output:
    """What one run wrote: its new token ids, and in how many trunk passes after the prefill."""

    ids: list[int]
    passes: int


@dataclass
class Way:
    """`run(prompt, max_new_tokens)` decodes a prompt greedily. `name` is the table's."""

    name: str
    run: Callable[[str, int], Output]


def transformers_ways(trunk: Trunk, num_draft_tokens: int) -> Iterator[Way]:
    """`generate` as it comes, with a static cache and torch.compile, and with its own prompt lookup."""
    from transformers import CompileConfig

    # Compiling on a CPU has to be asked for; the default mode is meant for CUDA graphs.
    compiling = CompileConfig(mode="default")
    compiling._compile_all_devices = True
    yield _generate(trunk, "generate")
    yield _generate(trunk, "generate, static cache, compiled", cache_implementation="static", compile_config=compiling)
    yield _generate(trunk, f"generate, prompt lookup {num_draft_tokens}", prompt_lookup_num_tokens=num_draft_tokens)


def _generate(trunk: Trunk, name: str, **options) -> Way:
    @torch.inference_mode()
    def run(prompt: str, max_new_tokens: int) -> Output:
        ids = torch.tensor([trunk.encode(prompt)], device=trunk.device)
        passes = 0

        def count(*_) -> None:
            nonlocal passes
            passes += 1

        # A hook would end up inside the compiled graph; there every token is one pass.
        hook = None if "compile_config" in options else trunk.model.get_decoder().register_forward_hook(count)
        try:
            output = trunk.model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_new_tokens, pad_token_id=0, **options
            )
        finally:
            if hook is not None:
                hook.remove()
        new = output[0, ids.shape[1] :].tolist()
        return Output(new, len(new) - 1 if hook is None else passes - 1)

    return Way(name, run)


def mtviz_ways(trunk: Trunk, drafters: Mapping[str, Callable[[], Drafter]], lengths: Sequence[int]) -> Iterator[Way]:
    """mtviz's loop with no drafter, and with lookup and each of `drafters` at each proposal length."""
    yield mtviz_way("mtviz, no drafter", trunk, lambda: None, 0)
    for length in lengths:
        yield mtviz_way(f"mtviz, lookup {length}", trunk, lambda: LookupDrafter(trunk.vocab_size), length)
    for family, drafter in drafters.items():
        for length in lengths:
            yield mtviz_way(f"mtviz, {family} {length}", trunk, drafter, length)


def mtviz_way(name: str, trunk: Trunk, drafter: Callable[[], Drafter | None], length: int, recorded: bool = False) -> Way:
    """`recorded` writes the Trace as the page does, instead of only decoding."""

    def run(prompt: str, max_new_tokens: int) -> Output:
        settings = Settings(rule="match", temperature=0, num_draft_tokens=length, max_new_tokens=max_new_tokens)
        if recorded:
            *_, trace = decode_trace(trunk, drafter(), prompt, settings)
            return Output([token["id"] for token in trace["output"]["tokens"]], len(trace["rounds"]))
        ids: list[int] = []
        passes = -1
        for step in decode(trunk, drafter(), trunk.encode(prompt), settings):
            ids += [step.token] if isinstance(step, PrefillStep) else step.new_tokens
            passes += 1
        return Output(ids, passes)

    return Way(name, run)


def peer_ways(trunk: Trunk, num_draft_tokens: int) -> Iterator[Way]:
    """The lookup decoders of the packages in requirements-bench.txt. Raises ImportError where they are not installed."""
    yield _economize(trunk, num_draft_tokens)
    yield _flashspec(trunk, num_draft_tokens)


def _economize(trunk: Trunk, num_draft_tokens: int) -> Way:
    import economize
    from economize.techniques.lookup import LookupConfig

    model = economize.apply(copy.deepcopy(trunk.model), LookupConfig())  # a copy, since it attaches to the model
    config = economize.DecodeConfig(cycle_length=num_draft_tokens + 1)
    end_ids = sorted(trunk.end_ids)

    def run(prompt: str, max_new_tokens: int) -> Output:
        ids = torch.tensor(trunk.encode(prompt), device=trunk.device)
        result = model.decode(ids, max_new_tokens, decoding=config, stop=end_ids)
        # `acceptance` leaves out the passes that nothing was drafted for; each pass writes one token beside the accepted ones.
        return Output(result.tokens.tolist(), len(result.tokens) - 1 - sum(accepted for _, accepted in result.acceptance))

    return Way(f"economize, lookup {num_draft_tokens}", run)


def _flashspec(trunk: Trunk, num_draft_tokens: int) -> Way:
    from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
    from flashspec.engine import NgramDrafter, TargetModel

    target = TargetModel(trunk.name, torch.device(trunk.device), trunk.model.dtype, model=trunk.model)
    config = FlashSpecConfig(
        device=trunk.device,
        drafter_strategy="bandit",
        bandit=BanditConfig(n_arms=1),
        sampling=SamplingConfig(temperature=0.0, gamma=num_draft_tokens),
        eos_token_ids=tuple(sorted(trunk.end_ids)),
    )

    def run(prompt: str, max_new_tokens: int) -> Output:
        engine = SpeculativeEngine(config, [NgramDrafter()], target)
        result = engine.generate(torch.tensor([trunk.encode(prompt)], device=trunk.device), max_new_tokens=max_new_tokens)
        return Output(result.output_ids[0, : result.n_tokens_generated].tolist(), len(result.arm_steps))

    return Way(f"flashspec, lookup {num_draft_tokens}", run)
