"""Training on the page: what is refused, the line, the child process and its end, files in pieces."""

import asyncio
import base64
import json
import os
import signal
import time

import pytest
from test_joint import SENTENCE, tiny

from mtviz.heads.joint_store import save_joint
from mtviz.hosting import Limits, Line
from mtviz.service import Service
from mtviz.settings import Settings, SettingsError
from mtviz.training.child import TrainingChild
from mtviz.ui import train_section
from mtviz.ui.train_section import MOST_BYTES, Bench, sample

NAME = "0" * 31


class FakeChild:
    """A training of three log lines, which ends when it is asked to or has said them."""

    def __init__(self, model, log=None):
        self.model_path, self.log, self.asked = model, list(log or LOG), []

    killed = False
    running = property(lambda self: bool(self.log))
    model = property(lambda self: None if self.log else self.model_path)

    def lines(self):
        return [self.log.pop(0)] if self.log else []

    def problem(self):
        return "it failed"

    def close(self):
        self.asked.append("close")

    def __getattr__(self, name):
        return lambda: self.asked.append(name)


def point(progress, **more):
    return {"step": 1, "progress": progress, "bytes": 9, "seconds": 1.0, "active": 2, "losses": [1.0, 2.0], "accuracy": [0.5, 0.25], **more}


LOG = [{"event": "start"}, point(0.5), point(1.0, held_losses=[1.5, 2.5], held_accuracy=[0.4, 0.2], sample={"prompt": "a", "text": "b"})]


class FakeService(Service):
    def __init__(self, children):
        super().__init__()
        self.children, self.asked = iter(children), []

    def train(self, **asked):
        self.asked.append(asked)
        return next(self.children)


def bench_of(service, max_waiting=40):
    return Bench(service, Limits(), Line(max_waiting))


@pytest.fixture
def model_file(tmp_path):
    save_joint(tiny(heads=3), tmp_path / "model.safetensors", "mine")
    return tmp_path / "model.safetensors"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(train_section, "BEAT", 0.01)


def asking(number=0, **changed):
    return {"name": NAME + str(number), "sample": "docs", "heads": 3, "kind": "parallel", "strategy": "plain", "minutes": 1, **changed}


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


async def last(updates):
    text = ""
    async for update in updates:
        assert update.startswith(text)  # it only grows
        text = update
    return lines(text)


def test_a_training_tells_its_log_and_ends_in_a_model_that_can_decode(model_file):
    child = FakeChild(model_file)
    service = FakeService([child])
    told = asyncio.run(last(bench_of(service).train(asking())))
    assert [line["point"]["progress"] for line in told if "point" in line] == [0.5, 1.0]
    assert told[3]["point"] == {name: value for name, value in LOG[2].items() if name != "step"}
    name, family = told[-1]["model"]["name"], told[-1]["model"]["family"]
    assert child.asked == ["close"] and family == "hierarchical"
    (asked,) = service.asked
    assert asked.pop("wall_seconds") > 60
    assert asked == {"text": sample("docs"), "heads": 3, "kind": "parallel", "strategy": "plain", "minutes": 1}
    *_, trace = service.decode("The ", Settings(model=name, drafter=family, rule="match", raw=True, num_draft_tokens=2, max_new_tokens=9))
    assert trace["model"]["trunk"] == "mine" and trace["settings"]["model"] == name and len(trace["output"]["tokens"]) == 9
    with pytest.raises(SettingsError, match="drafter: no mtp heads are loaded for mine; choose one of hierarchical"):
        next(service.decode("The ", Settings(model=name)))
    with pytest.raises(SettingsError, match="not here any more"):
        next(service.decode("The ", Settings(model="own-0123456789abcdef")))


def test_one_trains_at_a_time_and_the_others_know_their_place(model_file):
    children = [FakeChild(model_file), FakeChild(model_file)]
    bench = bench_of(FakeService(children))

    async def both():
        first, second = bench.train(asking(0)), bench.train(asking(1))
        await anext(first)
        assert lines(await anext(second))[-1] == {"ahead": 1}
        assert bench.steer({"name": NAME + "1", "to": "pause"}) == {"running": False}
        assert bench.steer({"name": NAME + "0", "to": "pause"}) == {"running": True} and children[0].asked == ["pause"]
        await first.aclose()  # the visitor leaves
        assert children[0].asked == ["pause", "close"]
        return await last(second)

    assert "model" in asyncio.run(both())[-1]


def test_a_full_line_is_told_at_once(model_file):
    bench = bench_of(FakeService([FakeChild(model_file)]), max_waiting=1)

    async def scene():
        trains, waits = bench.train(asking(0)), bench.train(asking(1))
        await anext(trains), await anext(waits)
        full = (await last(bench.train(asking(2))))[-1]["error"]
        await waits.aclose()
        return full, await last(trains)

    full, trained = asyncio.run(scene())
    assert full["code"] == "full" and "line is full" in full["message"] and "model" in trained[-1]


@pytest.mark.parametrize(
    "changed, field, words",
    [
        ({"heads": 0}, "heads", "a whole number from 1 to 8"),
        ({"heads": 99}, "heads", "a whole number from 1 to 8"),
        ({"minutes": 3.5}, "minutes", "a number above 0 to 3"),
        ({"minutes": None}, "minutes", "a number above 0 to 3"),
        ({"strategy": "hope"}, "strategy", "plain, weighted, progressive"),
        ({"kind": "mtp"}, "kind", "hierarchical, parallel, adaptive"),
        ({"sample": None}, "text", "has 0 bytes; training takes 1,000 to 1,000,000"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_the_bounds_and_leaves_the_line_free(changed, field, words):
    bench = bench_of(FakeService([]))
    problem = asyncio.run(last(bench.train(asking(**changed))))[-1]["error"]
    assert problem["field"] == field and words in problem["message"] and not bench._line


def test_a_training_that_fails_says_why():
    told = asyncio.run(last(bench_of(FakeService([FakeChild(None)])).train(asking())))
    assert told[-1]["error"]["message"] == "it failed"


def sent(bench, data, token=NAME + "2", piece=40_000):
    for at in range(0, max(1, len(data)), piece):
        answer = bench.take_piece({"file": token, "at": at, "data": base64.b64encode(data[at : at + piece]).decode()})
    return answer


def test_a_text_comes_in_pieces_and_is_used_once():
    service = FakeService([FakeChild(None)])
    bench = bench_of(service)
    data = SENTENCE * 1200
    assert sent(bench, data) == {"bytes": len(data)}
    asyncio.run(last(bench.train(asking(sample=None, file=NAME + "2"))))
    assert service.asked[0]["text"] == data and not bench._files
    sent(bench, b"x" * (MOST_BYTES + 1))
    told = asyncio.run(last(bench.train(asking(sample=None, file=NAME + "2"))))
    assert "has 1,000,001 bytes" in told[-1]["error"]["message"]
    with pytest.raises(SettingsError, match="not whole"):
        bench.take_piece({"file": NAME + "3", "at": 7, "data": ""})


def test_a_model_goes_out_and_comes_in_again_and_a_foreign_file_is_refused(model_file):
    bench = bench_of(Service())
    data = model_file.read_bytes()
    sent(bench, data)
    loaded = bench.load({"file": NAME + "2"})
    assert loaded["family"] == "hierarchical" and loaded["bytes"] == len(data)
    got = b""
    while len(got) < len(data):
        got += base64.b64decode(bench.weights({"model": loaded["name"], "at": len(got)})["data"])
    assert got == data
    sent(bench, b"\x80\x04pickle" * 100)
    answer = train_section._answer(lambda: bench.load({"file": NAME + "2"}))
    assert "truncated or no safetensors file" in answer["error"]["message"] and "/" not in answer["error"]["message"]


def test_samples_are_texts_that_can_be_trained_on():
    for name in train_section.SAMPLES:
        assert train_section.LEAST_BYTES <= len(sample(name)) <= MOST_BYTES and sample(name).decode()


def test_a_child_trains_pauses_stops_with_what_it_has_and_leaves_nothing():
    child = TrainingChild(SENTENCE * 200, 2, "adaptive", "weighted", 1.0, 60)
    try:
        seen = []
        deadline = time.monotonic() + 100
        while not any("loss" in line for line in seen) and time.monotonic() < deadline and child.running:
            seen += child.lines()
            time.sleep(0.1)
        assert any("loss" in line for line in seen), child.problem()
        child.pause()
        time.sleep(0.3)
        child.lines()
        time.sleep(0.5)
        assert child.lines() == [] and child.running and child.model is None
        child.stop()
        while child.running and time.monotonic() < deadline:
            time.sleep(0.1)
        assert child.model is not None and child.lines()[-1]["event"] == "end"
        name, family = Service().add_model(child.model)
        assert name.startswith("own-") and family == "adaptive"
    finally:
        child.close()
    assert not child.directory.exists()


def test_a_training_that_is_killed_keeps_its_last_checkpoint_and_the_next_one_trains():
    service = Service()
    bench, children = bench_of(service), []
    service.train = lambda **asked: children.append(Service.train(service, **asked)) or children[-1]

    async def killed_once_it_has_saved():
        updates = bench.train(asking(heads=2, minutes=3))
        async for text in updates:
            if children and children[0].running and list(children[0].directory.glob("out/model.safetensors")):
                os.kill(children[0]._process.pid, signal.SIGKILL)
        return lines(text)

    told = asyncio.run(killed_once_it_has_saved())
    assert told[-2] == {"event": {"event": "killed"}} and told[-1]["model"]["family"] == "parallel"
    assert told[-3]["point"]["progress"] < 0.9 and not children[0].directory.exists() and not bench._line
    *_, trace = service.decode("The ", Settings(model=told[-1]["model"]["name"], drafter="parallel", rule="match", raw=True, num_draft_tokens=1, max_new_tokens=5))
    assert len(trace["output"]["tokens"]) == 5
    told = asyncio.run(last(bench.train(asking(1, heads=2, minutes=0.005))))
    assert told[-2]["event"]["event"] == "end" and told[-1]["model"]["name"].startswith("own-")


def test_a_child_that_is_killed_before_it_has_saved_anything_says_so():
    child = TrainingChild(SENTENCE * 200, 2, "parallel", "weighted", 1.0, 60)
    try:
        os.kill(child._process.pid, signal.SIGKILL)
        while child.running:
            time.sleep(0.01)
        assert child.killed and child.model is None and "ended by the system" in child.problem()
    finally:
        child.close()


def test_a_child_that_refuses_its_text_says_why():
    child = TrainingChild(b"\xff" * 2000, 2, "hierarchical", "weighted", 1.0, 60)
    try:
        while child.running:
            time.sleep(0.1)
        assert child.model is None and child.problem().startswith("text: is not UTF-8 text")
    finally:
        child.close()
