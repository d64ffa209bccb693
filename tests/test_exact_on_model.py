"""The real trunk in float32: `match` at temperature 0 writes what transformers' own generate writes, whatever drafts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.lookup import LookupDrafter
from mtviz.heads import load_heads
from mtviz.settings import Settings
from mtviz.trunk import load_trunk

pytestmark = [pytest.mark.model, pytest.mark.slow]
ROOT = Path(__file__).resolve().parent.parent
NEW_TOKENS = 40
PROMPTS = [line for line in (ROOT / "assets/prompts/new_topics.txt").read_text(encoding="utf-8").splitlines() if line.strip()][:24]


@pytest.fixture(scope="module")
def trunk():
    """Real work, so it gets every core that no other test worker has; tiny tensors are best with one thread."""
    torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1)
    yield load_trunk(dtype="float32")
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def greedy(trunk) -> dict[str, list[int]]:
    """What `generate(do_sample=False)` writes after each prompt."""
    written = {}
    for prompt in PROMPTS:
        ids = torch.tensor([trunk.encode(prompt)])
        output = trunk.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS)
        written[prompt] = output[0, ids.shape[1] :].tolist()
    return written


def ids_of(trunk, drafter, prompt: str, settings: Settings) -> list[int]:
    ids: list[int] = []
    for step in decode(trunk, drafter, trunk.encode(prompt), settings):
        ids += [step.token] if isinstance(step, PrefillStep) else step.new_tokens
    return ids


def test_there_are_24_varied_prompts():
    assert len(set(PROMPTS)) == 24


@pytest.mark.parametrize("length", [1, 4, 8])
def test_heads_write_what_generate_writes(trunk, greedy, length):
    heads = load_heads(ROOT / "assets/heads/mtp.safetensors", trunk)
    settings = Settings(rule="match", num_draft_tokens=length, max_new_tokens=NEW_TOKENS)
    for prompt, expected in greedy.items():
        assert ids_of(trunk, HeadsDrafter(heads), prompt, settings) == expected, prompt


def test_lookup_and_no_drafter_write_it_too(trunk, greedy):
    settings = Settings(rule="match", num_draft_tokens=4, max_new_tokens=NEW_TOKENS)
    for prompt in PROMPTS[:4]:
        assert ids_of(trunk, LookupDrafter(trunk.vocab_size), prompt, settings) == greedy[prompt]
        assert ids_of(trunk, None, prompt, settings) == greedy[prompt]
