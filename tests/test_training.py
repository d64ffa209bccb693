"""Training: what each position is to predict, unrolling as in decoding, ragged lengths, resume, hidden states."""

import argparse
import json

import numpy as np
import pytest
import torch
from test_heads import random_heads
from test_trunk import tiny_trunk

from mtviz.heads import FAMILIES, MtpHeads, load_heads
from mtviz.training import cli, loop
from mtviz.training.batches import Batch, collate, documents_of_step
from mtviz.training.corpus import frequent_ids, read_corpus, split
from mtviz.training.distillation import distillation_loss, draft_targets, predictable, teacher_logits
from mtviz.training.hidden import HiddenStates
from mtviz.training.loop import Training, evaluate
from mtviz.training.losses import divergence, weighted
from mtviz.training.schedules import LOSSES, Schedule


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


def batch_of(trunk, rows: list[list[int]], prompt: int = 0) -> Batch:
    longest = max(map(len, rows))
    tokens, hidden = torch.zeros(len(rows), longest, dtype=torch.long), torch.zeros(len(rows), longest, trunk.hidden_size)
    generated = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
        hidden[i, : len(row)] = trunk.forward(row, trunk.new_cache())[1]
        generated[i, prompt : len(row)] = True
    return Batch(tokens, hidden, generated)


@pytest.fixture
def corpus_file(tmp_path):
    dice = np.random.default_rng(3)
    lengths = dice.integers(6, 20, 40)
    tokens = dice.integers(0, 250, lengths.sum()).astype(np.uint16)
    path = tmp_path / "corpus.npz"
    np.savez(path, tokens=tokens, doc_len=lengths.astype(np.int32), prompt_len=np.full(40, 3, np.int32))
    return path


def test_field_F20_targets_are_shifted_once(trunk):
    """On 10, 11, 12, …: at token 10 the trunk gives 11 and the first draft is for 12, the second for 13."""
    ids = list(range(10, 20))
    batch = batch_of(trunk, [ids])
    heads = random_heads(trunk)
    # Slot 0 holds h of token 10 and reads 11. Its teacher is the trunk's law after 11, which is for 12.
    slots = predictable(batch)
    assert slots[0].tolist() == [True] * 8 + [False]  # the slot that has read 19 has no token left to guess
    expected, _ = trunk.forward(ids[:2], trunk.new_cache(), last_only=True)
    torch.testing.assert_close(teacher_logits(heads, batch, slots)[0], expected[0, heads.draft_ids], atol=1e-4, rtol=1e-4)
    assert draft_targets(heads, batch, slots).tolist() == [heads.draft_ids.tolist().index(x) if x % 2 == 0 else -100 for x in range(12, 20)]
    # The second application reads 12 at slot 1 and is scored there against the law after 10, 11, 12: for 13.
    state = heads.start()
    heads.observe(state, batch.hidden[0, :1], [11])
    heads.step(state, 0, None)
    drafted = heads.step(state, 1, 12)
    torch.testing.assert_close(heads.unembed(heads.unroll(batch.tokens, batch.hidden, 2)[1][0, 1]), drafted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_unrolled_training_sees_what_decoding_sees(trunk, family):
    heads = random_heads(trunk, family=family)
    ids = torch.randint(0, 250, (9,), generator=torch.Generator().manual_seed(4)).tolist()
    batch = batch_of(trunk, [ids])
    outputs = heads.unroll(batch.tokens, batch.hidden, 4)
    for known in range(1, 5):  # true pairs before drafting begins
        state = heads.start()
        heads.observe(state, batch.hidden[0, :known], ids[1 : known + 1])
        for k in range(4):
            logits = heads.step(state, k, None if k == 0 else ids[known + k])
            torch.testing.assert_close(heads.unembed(outputs[k][0, known - 1 + k]), logits, atol=1e-4, rtol=1e-4)


def test_padding_changes_nothing(trunk):
    heads = random_heads(trunk)
    short, long = [5, 6, 7, 8, 9], list(range(30, 42))
    alone = distillation_loss(heads, batch_of(trunk, [short]), 2)
    both = distillation_loss(heads, batch_of(trunk, [short, long]), 2)
    other = distillation_loss(heads, batch_of(trunk, [long]), 2)
    torch.testing.assert_close(both[0] * 13, alone[0] * 3 + other[0] * 10, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rows", [[[1]], [[1, 2]], [[1, 2, 3]], [[1], [2, 3], [4, 5, 6]]])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_field_F21_short_rows_give_finite_loss_and_gradients(trunk, rows, loss, family):
    heads = FAMILIES[family](trunk, torch.arange(0, 200))
    loss = weighted(distillation_loss(heads, batch_of(trunk, rows), 3, loss), 0.8)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in heads.parameters())


def test_a_batch_of_prompts_only_is_no_loss(trunk):
    losses = distillation_loss(MtpHeads(trunk, torch.arange(0, 200)), batch_of(trunk, [[1, 2, 3, 4]], prompt=4), 2)
    assert [loss.item() for loss in losses] == [0.0, 0.0]


def test_divergence_of_equal_laws_is_zero():
    logits = torch.randn(4, 7)
    assert float(divergence(logits, logits + 3)) == pytest.approx(0, abs=1e-6)
    assert float(divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[50.0, -50.0]]))) == pytest.approx(np.log(2), rel=1e-5)


def test_corpus_split_is_stable_and_vocabulary_counts_generated_tokens(corpus_file):
    corpus = read_corpus(corpus_file)
    order = corpus.order()
    train, held = split(order)
    assert len(held) == 2 and not set(train) & set(held) and len(train) + len(held) == 40
    fewer_train, fewer_held = split(order[:25])
    assert set(fewer_held) <= set(held) and set(fewer_train) <= set(train)
    counted = np.bincount(np.concatenate([corpus.document(d)[3:] for d in range(40)]), minlength=260)
    ids = frequent_ids([corpus], 260, 30)
    assert (np.diff(ids) > 0).all() and counted[ids].min() >= np.delete(counted, ids).max()


def test_hot_documents_can_be_left_out_and_none_changes_sides(trunk, corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.HiddenStates, "compute", lambda self, documents: None)
    temperatures = np.tile(np.float32([0.0, 0.6, 1.0, np.nan]), 10)
    hot_and_cold = tmp_path / "temperatures.npz"
    np.savez(hot_and_cold, **np.load(corpus_file), temp=temperatures)
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)

    def chosen(*options: str):
        arguments = ["--corpus", str(hot_and_cold), str(corpus_file), "--out", str(tmp_path), "--hidden-cache", str(tmp_path), *options]
        return cli.documents_of(parser.parse_args(arguments), trunk)[1:]

    everything, cold = chosen(), chosen("--max-temperature", "0.6", "0")
    for whole, part in zip(everything, cold):
        assert part == [(which, d) for which, d in whole if which == 1 or not temperatures[d] == 1.0]
    assert len(cold[0]) + len(cold[1]) == 70
    base = ["--corpus", str(corpus_file), "--out", str(tmp_path / "none")]
    assert cli.main([*base, "--max-temperature", "0", "0"]) == 2
    np.savez(hot_and_cold, **np.load(corpus_file), temp=temperatures[:3])
    with pytest.raises(ValueError, match="3 temperatures for 40"):
        read_corpus(hot_and_cold)


def test_a_corpus_that_does_not_add_up_is_refused(tmp_path):
    np.savez(tmp_path / "bad.npz", tokens=np.arange(5), doc_len=np.array([4]), prompt_len=np.array([1]))
    with pytest.raises(ValueError, match="add up"):
        read_corpus(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", tokens=np.arange(5))
    with pytest.raises(ValueError, match="doc_len, prompt_len"):
        read_corpus(tmp_path / "bad.npz")


def test_hidden_states_are_the_trunks_and_kept(trunk, corpus_file, tmp_path):
    corpus = read_corpus(corpus_file)
    states = HiddenStates(trunk, corpus, tmp_path / "hidden")
    states.compute([3, 7, 1])
    _, expected = trunk.forward(corpus.document(7).tolist(), trunk.new_cache())
    np.testing.assert_allclose(states.of(7), expected.numpy(), atol=5e-3)
    again = HiddenStates(trunk, corpus, tmp_path / "hidden")
    assert np.flatnonzero(again.done).tolist() == [1, 3, 7]
    np.testing.assert_array_equal(again.of(7), states.of(7))


def test_every_epoch_visits_every_document_once():
    documents = [(0, i) for i in range(10)]
    seen = [documents_of_step(documents, step, 4, 0) for step in range(5)]
    flat = [d for batch in seen for d in batch]
    assert sorted(flat[:10]) == sorted(flat[10:]) == documents and flat[:10] != flat[10:]


def test_a_window_is_a_part_of_the_document_with_drafts_to_judge(trunk, corpus_file, tmp_path):
    states = HiddenStates(trunk, read_corpus(corpus_file), tmp_path / "hidden")
    states.compute(range(10))
    for seed in range(5):
        dice = np.random.default_rng(seed)
        documents = [(0, d) for d in range(10)]
        batch, whole = collate([states], documents, 5, dice), collate([states], documents)
        assert batch.tokens.shape == (10, 5) and predictable(batch).any(1).all()
        for part, row in zip(batch.tokens.tolist(), whole.tokens.tolist()):
            assert any(part == row[first : first + 5] for first in range(len(row)))
    assert torch.equal(collate([states], documents, 5, np.random.default_rng(4)).hidden, batch.hidden)


def test_thinned_drafts_are_scored_on_fewer_slots(trunk):
    heads = random_heads(trunk)
    batch = batch_of(trunk, [list(range(30, 60))])
    whole = distillation_loss(heads, batch, 3)
    thinned = distillation_loss(heads, batch, 3, thin=0.5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(whole[0], thinned[0]) and not torch.equal(whole[1], thinned[1])
    torch.testing.assert_close(thinned[2], distillation_loss(heads, batch, 3, thin=0.5, generator=torch.Generator().manual_seed(0))[2])


def training_of(trunk, corpus_file, out, family="mtp", **schedule) -> Training:
    corpus = read_corpus(corpus_file)
    states = HiddenStates(trunk, corpus, out / "hidden")
    states.compute(range(40))
    train, held = split(corpus.order())
    out.mkdir(exist_ok=True)
    torch.manual_seed(0)
    return Training(
        FAMILIES[family](trunk, torch.arange(0, 250)), [states], [(0, int(d)) for d in train], [(0, int(d)) for d in held],
        Schedule(**schedule), out,
    )  # fmt: skip


@pytest.mark.parametrize(
    "schedule",
    [
        dict(unroll_from=4),
        dict(family="parallel", unroll=8, unroll_from=0, window=8, thin=0.6),
        dict(family="hierarchical", unroll=4, unroll_from=1, add_every=1, loss="acceptance"),
    ],
)
def test_field_F22_a_resumed_run_continues_the_loss_exactly(trunk, corpus_file, tmp_path, schedule):
    schedule |= dict(steps=6, warmup=2)
    whole = training_of(trunk, corpus_file, tmp_path / "a", **schedule)
    losses = [whole.one_step()["loss"] for _ in range(6)]
    first = training_of(trunk, corpus_file, tmp_path / "b", **schedule)
    assert [first.one_step()["loss"] for _ in range(3)] == losses[:3]
    first.save()
    second = training_of(trunk, corpus_file, tmp_path / "b", **schedule)
    second.resume()
    assert [second.one_step()["loss"] for _ in range(3)] == losses[3:]
    for a, b in zip(whole.heads.parameters(), second.heads.parameters()):
        assert torch.equal(a, b)


def test_training_may_start_from_the_mean_of_several_runs(trunk, corpus_file, tmp_path):
    runs = [training_of(trunk, corpus_file, tmp_path / name, steps=4, warmup=1, seed=seed) for seed, name in enumerate("ab")]
    for run in runs:
        run.one_step()
        run.save()
    mean = training_of(trunk, corpus_file, tmp_path / "c", steps=4, warmup=1)
    mean.start_from([run.checkpoint for run in runs])
    weights = list(zip(*(training.heads.parameters() for training in (mean, *runs))))
    assert any(not torch.equal(first, second) for _, first, second in weights)
    for mean_weight, first, second in weights:
        torch.testing.assert_close(mean_weight, (first + second) / 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_training_lowers_the_loss_and_figures_stay_in_bounds(trunk, corpus_file, tmp_path, family):
    training = training_of(trunk, corpus_file, tmp_path / "a", family, steps=30, unroll_from=20, warmup=3)
    losses = [training.one_step()["losses"][0] for _ in range(30)]
    assert np.mean(losses[-5:]) < 0.95 * np.mean(losses[:3])
    figures = evaluate(training.heads, training.sources, training.held)
    assert all(0 <= value <= 1 for value in figures["agreement"] + figures["overlap"])


def test_training_stops_where_the_hold_out_stops_improving(trunk, corpus_file, tmp_path, monkeypatch):
    training = training_of(trunk, corpus_file, tmp_path / "a", steps=50, warmup=2, patience=2)
    figures = iter([0.1, 0.3, 0.2, 0.3])
    monkeypatch.setattr(loop, "evaluate", lambda *args: {"overlap": [next(figures)]})
    assert training.run(evaluate_every=1) and training.step == 4
    again = training_of(trunk, corpus_file, tmp_path / "a", steps=50, warmup=2, patience=3)
    again.resume()
    assert (again.best, again.stale, again.finished) == (0.3, 2, False)


def test_mixed_precision_keeps_weights_and_loss_in_float32(trunk, corpus_file, tmp_path):
    exact = training_of(trunk, corpus_file, tmp_path / "a", steps=5, warmup=2)
    mixed = training_of(trunk, corpus_file, tmp_path / "b", steps=5, warmup=2, precision="bfloat16")
    for _ in range(2):
        assert mixed.one_step()["loss"] == pytest.approx(exact.one_step()["loss"], rel=0.05)
    assert all(weight.dtype == torch.float32 for weight in mixed.heads.parameters())


def test_learning_rate_is_prolongable():
    short, long = Schedule(steps=100, warmup=10), Schedule(steps=300, warmup=10)
    assert all(short.rate(step) == long.rate(step) for step in range(70))
    assert short.rate(0) == pytest.approx(2e-4) and short.rate(99) < 1e-4 < short.rate(50) == 2e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_the_command_trains_logs_stops_and_resumes(trunk, corpus_file, tmp_path, monkeypatch, capsys, family):
    monkeypatch.setattr(cli, "load_trunk", lambda *args, **kwargs: trunk)
    base = ["--family", family, "--corpus", str(corpus_file), "--out", str(tmp_path / "out")]
    base += ["--hidden-cache", str(tmp_path / "hidden"), "--draft-vocabulary", "100", "--steps", "4", "--unroll-from", "3"]
    assert cli.main([*base, "--minutes", "0"]) == 0
    assert "stopped at step 0" in capsys.readouterr().out
    assert cli.main(base) == 2  # would overwrite a run
    assert cli.main([*base, "--resume"]) == 0
    assert "finished at step 4" in capsys.readouterr().out
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [r["step"] for r in log if "loss" in r] == [1, 2, 3, 4] and "agreement" in log[-1]
    heads = load_heads(tmp_path / "out" / f"{family}.safetensors", trunk)
    assert heads.family == family and len(heads.draft_ids) == 100
    provenance = json.loads((tmp_path / "out" / f"{family}.provenance.json").read_text())
    assert provenance["data"][0]["sha256"] == read_corpus(corpus_file).sha256 and provenance["step"] == 4
    assert len(provenance["held_out"]["agreement"]) == 8
