"""The drafters that trained files give, on a tiny trunk: by name, in the service and in the Trace."""

from __future__ import annotations

import hashlib

import pytest
import torch
from test_heads import random_heads
from test_heads_length import predictor
from test_trunk import tiny_trunk

import mtviz.trunk
from mtviz.drafting.files import load_drafters
from mtviz.drafting.hybrid import COST
from mtviz.drafting.protocol import Choice
from mtviz.heads import FAMILIES, load_heads, save_heads
from mtviz.service import Service
from mtviz.settings import DRAFTERS, Settings, SettingsError
from mtviz.trace import validate
from mtviz.views.terminal import round_lines


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


@pytest.fixture(scope="module")
def shipped(trunk, tmp_path_factory):
    """A directory with a file of each family, and a length predictor that stops early."""
    directory = tmp_path_factory.mktemp("heads")
    for family in FAMILIES:
        save_heads(random_heads(trunk, family=family), directory / f"{family}.safetensors")
    heads = load_heads(directory / "mtp.safetensors", trunk)
    predictor(0.5, 0.1, heads=heads.fingerprint).save(directory / "mtp.length.json")
    return directory


@pytest.fixture
def service(monkeypatch, trunk, shipped):
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: trunk)
    return Service(heads=shipped)


def run(service, drafter):
    *_, trace = service.decode("hello", Settings(drafter=drafter, rule="match", num_draft_tokens=8, max_new_tokens=12))
    return validate(trace)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_drafter_of_the_settings_decodes_and_is_named_in_the_trace(service, shipped, drafter):
    trace = run(service, drafter)
    model = trace["model"]
    heads = {"adaptive": "mtp", "hybrid": "mtp", "lookup": None, "none": None}.get(drafter, drafter)
    assert (model["family"], model["heads"]) == (drafter, heads)
    if heads is None:
        assert "heads_revision" not in model
    else:
        assert model["heads_revision"] == hashlib.sha256((shipped / f"{heads}.safetensors").read_bytes()).hexdigest()
    assert ("length_revision" in model) == (drafter in ("adaptive", "hybrid"))
    assert trace["output"]["tokens"] == run(service, "none")["output"]["tokens"]  # `match` writes the trunk's own text


def test_the_trace_tells_what_was_predicted_before_each_draft(service):
    rounds = run(service, "adaptive")["rounds"]
    full = [round_ for round_ in rounds if round_["start"] + 3 < rounds[-1]["start"]]
    assert full
    for round_ in full:  # a chance of a half each time: two drafts pay, the third does not
        assert len(round_["drafts"]) == 2 and round_["predicted_survival"] == pytest.approx([0.5, 0.25, 0.125])
    assert not any("predicted_survival" in round_ for round_ in run(service, "mtp")["rounds"])
    assert round_lines(full[0], color=False)


def test_the_hybrid_copies_what_stood_before_and_drafts_elsewhere(trunk, shipped):
    hybrid = load_drafters(shipped, trunk)[0]["hybrid"]()
    ids = [7, 5, 6, 9, 7, 5]
    hybrid.observe(trunk.forward(ids, trunk.new_cache())[1], [*ids[1:], 6])
    drawn = []

    def sample(logits):
        drawn.append(logits)
        law = torch.softmax(logits.double(), -1)
        return Choice(int(law.argmax()), law, law)

    copied = hybrid.propose([*ids, 6], 3, sample)  # 7 5 6 stood before
    assert copied.copied and copied.tokens == [9, 7, 5] and not drawn and copied.draft_probs[range(3), copied.tokens].tolist() == [1, 1, 1]
    drafted = hybrid.propose([*ids, 8], 3, sample)  # 5 8 is new
    assert not drafted.copied and len(drawn) == len(drafted.tokens) == 1 and drafted.survivals == pytest.approx([0.5, 0.25])
    assert hybrid.predictor.cost == COST  # the first draft, worth a half, pays at .3; the second, worth a quarter, does not
    hybrid.start()
    assert not hybrid.propose([7, 5], 0, sample).tokens


def test_a_round_says_whether_it_was_copied(service):
    *_, trace = service.decode("one two one two one", Settings(drafter="hybrid", rule="match", num_draft_tokens=4, max_new_tokens=24))
    validate(trace)
    assert any("copied" in round_ for round_ in trace["rounds"]) and any("predicted_survival" in round_ for round_ in trace["rounds"])
    for round_ in trace["rounds"]:
        assert ("copied" in round_) == bool(round_["drafts"] and all(draft["draft_prob"] == 1 for draft in round_["drafts"]))


@pytest.mark.parametrize("name, gone", [("parallel.safetensors", {"parallel"}), ("mtp.length.json", {"adaptive", "hybrid"}), ("mtp.safetensors", {"mtp", "adaptive", "hybrid"})])
def test_a_damaged_file_is_refused_by_name_and_the_others_serve(trunk, shipped, tmp_path, name, gone):
    for path in shipped.iterdir():
        whole = path.read_bytes()
        (tmp_path / path.name).write_bytes(whole[: len(whole) // 2] if path.name == name else whole)
    drafters, refused = load_drafters(tmp_path, trunk)
    assert set(drafters) == {*FAMILIES, "adaptive", "hybrid"} - gone
    assert [name in str(error) for error in refused] == [True]


def test_a_length_fitted_to_other_weights_is_refused(trunk, tmp_path):
    save_heads(random_heads(trunk, seed=7), tmp_path / "mtp.safetensors")
    predictor(heads="another file").save(tmp_path / "mtp.length.json")
    drafters, (error,) = load_drafters(tmp_path, trunk)
    assert set(drafters) == {"mtp"} and "mtp.length.json was fitted to mtp heads with other weights" in str(error)


def test_what_is_not_there_is_named_with_what_is(monkeypatch, trunk, shipped, tmp_path):
    (tmp_path / "mtp.safetensors").write_bytes((shipped / "mtp.safetensors").read_bytes())
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: trunk)
    service = Service(heads=tmp_path)
    with pytest.raises(SettingsError, match="drafter: no adaptive heads are loaded for tiny; choose one of mtp, lookup, none"):
        next(service.decode("hello", Settings(drafter="adaptive")))
    assert service.status()["text"].endswith("heads: mtp")
