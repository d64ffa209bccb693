"""The learned proposal length: what it may know, when it stops, its fit and calibration, its file, its effect on the text."""

import json
import math

import numpy as np
import pytest
import torch
from test_heads import random_heads, states_and_ids
from test_training import corpus_file  # noqa: F401
from test_trunk import tiny_trunk

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.decoding.sampling import sampler
from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.heads import HeadsDrafter
from mtviz.heads import FAMILIES, HeadsError, load_heads, save_heads
from mtviz.heads.length import MEASURES, LengthPredictor, load_length, measures
from mtviz.settings import Settings
from mtviz.training import cli
from mtviz.training.corpus import read_corpus
from mtviz.training.hidden import HiddenStates
from mtviz.training.length import Judged, fit, reliability, replay


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


def predictor(chance: float = 0.5, cost: float = 0.1, family: str = "mtp", weights=(0.0,) * 5, heads: str = "") -> LengthPredictor:
    """The same chance for every draft, unless weights are given."""
    return LengthPredictor(family, heads, "", tuple(weights), (math.log(chance / (1 - chance)),) * 8, cost, {})


def proposal(trunk, predictor, temperature=0.0, draw=0.5, count=8):
    hidden, ids = states_and_ids(trunk, 4)
    drafter = AdaptiveDrafter(random_heads(trunk), predictor)
    drafter.observe(hidden, ids)
    return drafter.propose(ids, count, sampler(Settings(temperature=temperature), lambda: draw))


def test_measures_of_a_known_law():
    row = measures(torch.tensor([[math.log(0.5), math.log(0.25), math.log(0.25)]]), torch.tensor([-1.0]), torch.tensor([-3.0]))[0]
    assert row.tolist() == pytest.approx([0.0, math.log(2), 1.5 * math.log(2), -1.0, -3.0], abs=1e-6)
    assert torch.isfinite(measures(torch.tensor([[1e4, 0.0]]), torch.zeros(1), torch.zeros(1))).all()


def test_a_draft_is_made_while_its_survival_pays():
    sure = predictor(cost=0.1)
    assert sure.worth(0, 0.1, 0.0) and not sure.worth(0, 0.09, 0.0)
    assert sure.worth(4, 0.2 / 1.4, 1.0) and not sure.worth(4, 0.14, 1.0)
    assert predictor(cost=0.0).worth(7, 1e-9, 3.0)


def test_length_follows_the_predicted_survival(trunk):
    assert len(proposal(trunk, predictor(0.5, cost=0.0)).tokens) == 8
    none = proposal(trunk, predictor(0.05, cost=0.1))
    assert none.tokens == [] and none.survivals == pytest.approx([0.05])  # what made it stop is told too
    some = proposal(trunk, predictor(0.5, cost=0.1))
    assert len(some.tokens) == 2  # 0.5 and 0.25 pay; 0.125 · 1.2 < 0.1 · 1.75
    assert some.survivals == pytest.approx([0.5, 0.25, 0.125])
    assert some.draft_probs.shape == (2, trunk.vocab_size)
    cut = proposal(trunk, predictor(0.9, cost=0.0), count=2)
    assert len(cut.tokens) == len(cut.survivals) == 2


def test_drafts_are_those_of_the_heads_alone(trunk):
    hidden, ids = states_and_ids(trunk, 4)
    plain = HeadsDrafter(random_heads(trunk))
    plain.observe(hidden, ids)
    wanted = plain.propose(ids, 8, sampler(Settings(temperature=0.0), lambda: 0.5))
    got = proposal(trunk, predictor(0.6, cost=0.1))
    assert 0 < len(got.tokens) < 8 and got.tokens == wanted.tokens[: len(got.tokens)]
    torch.testing.assert_close(got.draft_probs, wanted.draft_probs[: len(got.tokens)])


def test_whether_a_position_is_drafted_does_not_depend_on_its_token(trunk):
    """Whatever token is drawn first, the first position is drafted or not alike: the same predicted survival each time."""
    weights = (0.5, 0.1, -0.2, 0.3, 0.1)
    firsts = [proposal(trunk, predictor(0.6, cost=0.01, weights=weights), temperature=1.5, draw=d) for d in (0.01, 0.3, 0.6, 0.99)]
    assert len({made.tokens[0] for made in firsts}) > 1 and len({made.survivals[0] for made in firsts}) == 1


@pytest.mark.parametrize("cost", [0.0, 0.05, 0.3])
def test_the_text_is_the_trunks_own(trunk, cost):
    settings = Settings(rule="match", temperature=0.0, num_draft_tokens=8, max_new_tokens=24)
    texts = []
    for drafter in (None, AdaptiveDrafter(random_heads(trunk), predictor(0.7, cost))):
        tokens = []
        for step in decode(trunk, drafter, [5, 6, 7], settings):
            tokens += [step.token] if isinstance(step, PrefillStep) else step.new_tokens
        texts.append(tokens)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_replay_judges_what_decoding_would(trunk, tmp_path, family):
    """A document that the trunk wrote greedily: replayed verdicts are those of `match` at temperature 0, round by round."""
    prompt = [5, 6, 7]
    settings = Settings(rule="match", temperature=0.0, num_draft_tokens=8, max_new_tokens=30)
    heads = random_heads(trunk, family=family)
    tokens, verdicts = list(prompt), {}
    for step in decode(trunk, HeadsDrafter(heads), prompt, settings):
        if isinstance(step, PrefillStep):
            tokens.append(step.token)
        else:
            verdicts[len(tokens) - 2] = (step.verification.accepted, len(step.proposal.tokens))
            tokens += step.new_tokens
    path = tmp_path / "greedy.npz"
    np.savez(path, tokens=np.array(tokens), doc_len=np.array([len(tokens)]), prompt_len=np.array([3]))
    source = HiddenStates(trunk, read_corpus(path), tmp_path)
    source.compute([0])
    drafts = replay(heads, source, 0)
    for slot, (accepted, drafted) in verdicts.items():
        reached = [judged.accepted[judged.start == slot].tolist() for judged in drafts]
        assert [verdict for position in reached[:drafted] for verdict in position] == [True] * accepted + [False] * (accepted < drafted)


def test_fit_finds_the_law_that_made_the_verdicts_and_says_how_reliable_it_is():
    generator = torch.Generator().manual_seed(0)
    weights, offsets = torch.tensor([0.8, 0.1, -0.5, 0.2, 0.05]).double(), [0.3, -0.2]

    def some() -> list[Judged]:
        drafts = []
        for offset in offsets:
            x = torch.randn(20_000, 5, generator=generator, dtype=torch.float64)
            drafts.append(Judged(torch.zeros(20_000), x, torch.rand(20_000, generator=generator) < torch.sigmoid(x @ weights + offset)))
        return drafts

    found = LengthPredictor("mtp", "", "", *fit(some(), ridge=0.0), 0.05, {})
    assert found.weights == pytest.approx(weights.tolist(), abs=0.05) and found.offsets == pytest.approx(offsets, abs=0.05)
    said = reliability(found, some())
    assert said["expected_calibration_error"] < 0.02 and sum(row["drafts"] for row in said["bins"]) == 40_000
    assert [row["judged"] for row in said["by_position"]] == [20_000, 20_000]
    wrong = reliability(predictor(0.99), some())
    assert wrong["expected_calibration_error"] > 0.3


def test_the_command_learns_a_length_for_heads(trunk, corpus_file, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(cli, "load_trunk", lambda *args, **kwargs: trunk)
    save_heads(random_heads(trunk, family="hierarchical"), tmp_path / "hierarchical.safetensors")
    base = ["--family", "adaptive", "--corpus", str(corpus_file), "--out", str(tmp_path), "--hidden-cache", str(tmp_path)]
    assert cli.main(base) == 2 and "--heads" in capsys.readouterr().err
    assert cli.main([*base, "--heads", str(tmp_path / "none.safetensors")]) == 2 and "no heads file" in capsys.readouterr().err
    assert cli.main([*base, "--heads", str(tmp_path / "hierarchical.safetensors"), "--cost", "0.07"]) == 0
    heads = load_heads(tmp_path / "hierarchical.safetensors", trunk)
    learned = load_length(tmp_path / "hierarchical.length.json", heads)
    assert learned.cost == 0.07 and learned.trunk_fingerprint == trunk.fingerprint and learned.fitted["documents"] == [1, 1]
    with pytest.raises(HeadsError, match="fitted to hierarchical heads, not to mtp"):
        load_length(tmp_path / "hierarchical.length.json", random_heads(trunk))
    save_heads(random_heads(trunk, seed=2, family="hierarchical"), tmp_path / "hierarchical.safetensors")
    with pytest.raises(HeadsError, match="other weights"):
        load_length(tmp_path / "hierarchical.length.json", load_heads(tmp_path / "hierarchical.safetensors", trunk))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d.pop("offsets"), "lacks offsets"),
        (lambda d: d.update(format="x"), "no length predictor of format"),
        (lambda d: d.update(measures=["entropy"]), "over log_odds, margin"),
        (lambda d: d.update(weights=[1.0]), "1 weights"),
        (lambda d: d.update(weights=["much"] * 5), "must be numbers"),
        (lambda d: d.update(cost=-1), "not below 0"),
        (lambda d: d.update(offsets=[float("nan")]), "must be finite"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(trunk, tmp_path, change, message):
    heads = random_heads(trunk)
    path = tmp_path / "mtp.length.json"
    predictor().save(path)
    assert load_length(path, heads) == predictor() and len(MEASURES) == 5
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(HeadsError, match=message):
        load_length(path, heads)
    path.write_text(path.read_text()[:-10])
    with pytest.raises(HeadsError, match="damaged"):
        load_length(path, heads)
    with pytest.raises(HeadsError, match="there is no"):
        load_length(tmp_path / "none.json", heads)
