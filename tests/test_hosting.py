"""The hall on a scripted source: one computation for equal requests, the line, those who leave, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time

import pytest
from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law
from uvicorn.config import LOGGING_CONFIG

import mtviz.trunk
from mtviz.hosting import Device, Hall, Limits
from mtviz.hosting.logs import JsonLines, log_as_json
from mtviz.service import Service
from mtviz.settings import Settings, SettingsError
from mtviz.trace import validate
from mtviz.views import stream

SETTINGS = Settings()
ROUND = stream.line({"round": {}, "seconds": {}})
END = stream.line({"end": {"finish_reason": "length"}})


class Scripted:
    """A source whose runs go on when the test says so. Counts computations, and how many ran at the same time."""

    def __init__(self):
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.now = self.most = 0
        self.go = asyncio.Event()

    async def __call__(self, prompt, settings):
        self.asked.append(prompt)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            yield stream.line({"trace": {"rounds": [], "prompt": prompt}})
            await self.go.wait()
            if "fail" in prompt:
                raise RuntimeError(f"secret: {prompt}")
            yield ROUND
            yield END
        finally:
            self.now -= 1
            self.closed.append(prompt)


def hall_of(source, **limits) -> Hall:
    return Hall(source, Limits(**limits))


async def last(hall: Hall, prompt="a", settings=SETTINGS):
    async for view in hall.watch(prompt, settings):
        pass
    return view


def problem(view) -> dict:
    with pytest.raises(stream.Refused):
        stream.read(view.text)
    return json.loads(view.text.splitlines()[-1])["error"]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_two_hundred_equal_requests_are_one_computation_and_a_later_one_is_kept():
    async def scene():
        source = Scripted()
        hall = hall_of(source)
        class_ = [asyncio.create_task(last(hall)) for _ in range(200)]
        await settle()
        assert hall.counts() == {"waiting": 0, "running": 1, "watching": 200, "kept": 0}
        source.go.set()
        views = await asyncio.gather(*class_)
        later = await last(hall)
        assert source.asked == ["a"] and len({view.text for view in views}) == 1
        assert later.kept and later.text == views[0].text and not any(view.kept for view in views)
        other = await last(hall, settings=Settings(seed=1))
        assert source.asked == ["a", "a"] and not other.kept

    asyncio.run(scene())


def test_other_weights_are_another_request():
    async def scene():
        source, weights = Scripted(), ["old"]
        source.go.set()
        hall = Hall(source, identity=lambda settings: weights[0])
        await last(hall)
        weights[0] = "new"
        assert not (await last(hall)).kept
        weights[0] = "old"
        assert (await last(hall)).kept and source.asked == ["a", "a"]

    asyncio.run(scene())


def test_runs_take_turns_in_the_order_in_which_they_came_and_know_how_many_are_ahead():
    async def scene():
        source = Scripted()
        hall = hall_of(source)
        prompts = [f"p{i}" for i in range(5)]
        views = [hall.watch(prompt, SETTINGS) for prompt in prompts]
        first = [await anext(view) for view in views]
        await settle()
        assert [view.ahead for view in first] == [0, 1, 2, 3, 4]
        assert hall.counts()["waiting"] == 4
        source.go.set()
        for view in views:
            async for now in view:
                pass
            assert now.done
        assert source.asked == prompts and source.most == 1

    asyncio.run(scene())


def test_a_full_line_says_so_at_once_and_joining_an_equal_run_is_still_possible():
    async def scene():
        source = Scripted()
        hall = hall_of(source, max_waiting=2)
        tasks = [asyncio.create_task(last(hall, f"p{i}")) for i in range(3)]
        await settle()
        refused = problem(await last(hall, "p3"))
        assert refused["code"] == "full" and refused["waiting"] == 2 and "line is full" in refused["message"]
        joined = asyncio.create_task(last(hall, "p2"))
        await settle()
        source.go.set()
        views = await asyncio.gather(*tasks, joined)
        assert views[3].text == views[2].text and source.asked == ["p0", "p1", "p2"]
        assert (await last(hall, "p3")).text.endswith(END)

    asyncio.run(scene())


@pytest.mark.parametrize("waits", [True, False])
def test_who_leaves_frees_the_line_or_the_device_and_hurts_nobody(waits):
    async def scene():
        source = Scripted()
        hall = hall_of(source)
        stays = asyncio.create_task(last(hall, "stays" if waits else "leaves"))
        await settle()
        leaves = asyncio.create_task(last(hall, "leaves"))
        await settle()
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        assert hall.counts()["waiting"] == 0 and hall.counts()["watching"] == 1  # alone in the line, or one of two
        source.go.set()
        assert (await stays).text.endswith(END)
        assert len(source.asked) == 1 and hall.counts()["running"] == 0

    asyncio.run(scene())


def test_when_the_last_watcher_leaves_the_run_ends_and_the_next_one_begins():
    async def scene():
        source = Scripted()
        hall = hall_of(source)
        leaves = asyncio.create_task(last(hall, "long"))
        await settle()
        waits = asyncio.create_task(last(hall, "next"))
        await settle()
        leaves.cancel()
        await asyncio.gather(leaves, return_exceptions=True)
        source.go.set()  # its round ends
        view = await waits
        assert view.text.endswith(END) and source.closed[0] == "long" and hall.counts()["kept"] == 1

    asyncio.run(scene())


def test_a_failing_run_is_a_message_is_not_kept_and_the_next_one_works(caplog):
    async def scene():
        source = Scripted()
        source.go.set()
        hall = hall_of(source)
        refused = problem(await last(hall, "fail please"))
        assert "RuntimeError" in refused["message"] and "secret" not in refused["message"]
        assert hall.counts()["kept"] == 0
        assert (await last(hall)).text.endswith(END)

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    written = "\n".join(JsonLines().format(record) for record in caplog.records)
    events = [json.loads(line) for line in written.splitlines()]
    assert [event["finish"] for event in events if event["event"] == "run"] == ["failed", "done"]
    (failed,) = [event for event in events if "exception" in event]
    assert failed["exception"] == "RuntimeError" and failed["raised_at"]
    assert "secret" not in written and "fail please" not in written


def test_the_web_server_logs_in_the_same_manner(monkeypatch):
    monkeypatch.setitem(LOGGING_CONFIG["formatters"], "default", {})
    log_as_json()
    assert LOGGING_CONFIG["formatters"]["default"] == {"()": JsonLines}


def test_a_watcher_is_called_although_nothing_happens(monkeypatch):
    monkeypatch.setattr("mtviz.hosting.hall.BEAT", 0.01)

    async def scene():
        hall = hall_of(Scripted())
        views = hall.watch("a", SETTINGS)
        for _ in range(5):
            assert not (await anext(views)).done
        await views.aclose()
        await settle()
        assert hall.counts()["watching"] == 0

    asyncio.run(scene())


def test_memory_for_finished_runs_is_bounded():
    async def scene():
        async def large(prompt, settings):
            yield stream.line({"trace": {"rounds": [], "prompt": "x" * 300_000}})
            yield END

        hall = hall_of(large, kept_megabytes=1)
        for i in range(6):
            await last(hall, f"p{i}")
        assert hall.counts()["kept"] == 3
        assert (await last(hall, "p5")).kept and not (await last(hall, "p0")).kept

    asyncio.run(scene())


# --- limits --------------------------------------------------------------------------------------------------------


def test_limits_come_from_the_environment_and_name_the_variable_that_is_wrong():
    assert Limits.from_environment({"MTVIZ_MAX_WAITING": "3", "PATH": "x"}) == Limits(max_waiting=3)
    for environment, named in (
        ({"MTVIZ_MAX_WAITING": "many"}, "MTVIZ_MAX_WAITING"), ({"MTVIZ_MAX_NEW_TOKENS": "0"}, "max_new_tokens"),
        ({"MTVIZ_MAX_NEW_TOKENS": "9999"}, "max_new_tokens"), ({"MTVIZ_TRAIN_MINUTES": "61"}, "train_minutes"), ({"MTVIZ_FRAME_ANCESTORS": "*; script-src *"}, "frame_ancestors"),
    ):  # fmt: skip
        with pytest.raises(SettingsError, match=named):
            Limits.from_environment(environment)


def test_what_is_larger_than_the_host_allows_is_refused_before_it_stands_in_line():
    async def scene():
        source = Scripted()
        hall = hall_of(source, max_new_tokens=32, max_prompt_characters=100)
        assert problem(await last(hall, settings=Settings(max_new_tokens=33)))["field"] == "max_new_tokens"
        assert problem(await last(hall, "x" * 101))["field"] == "prompt"
        assert problem(await last(hall, None))["field"] == "prompt"
        assert source.asked == []

    asyncio.run(scene())
    assert Limits(max_new_tokens=32).bounds()["max_new_tokens"].high == 32
    assert Limits(max_new_tokens=32).defaults().max_new_tokens == 32


# --- on the engine -------------------------------------------------------------------------------------------------

LAW = prefix_law(8, 3)


@pytest.fixture
def service(monkeypatch, tmp_path) -> Service:
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: ScriptedTrunk(LAW, 8))
    return Service(heads=tmp_path)


def run(service: Service, limits: Limits = Limits(), **settings):
    hall = Hall(Device(service, limits), limits, identity=service.identity)
    return asyncio.run(last(hall, "hello", Settings(**{"drafter": "lookup", "max_new_tokens": 12, **settings})))


def test_the_lines_tell_the_whole_trace(service):
    seen = []
    lines_within = "one\u2028two\x85three\u2029four"  # line breaks to `splitlines`, and plain signs to JSON
    traces = (seen.append(trace) or trace for trace in service.decode(lines_within, Settings(drafter="lookup", max_new_tokens=12)))
    told = stream.read("".join(stream.lines(traces)))
    assert validate(told) == seen[-1] and len(told["rounds"]) > 2


def test_a_run_that_takes_too_long_ends_with_what_it_has(service, monkeypatch):
    class Slow(ScriptedDrafter):
        def propose(self, *given):
            time.sleep(0.4)
            return super().propose(*given)

    monkeypatch.setattr(service, "_run_of", lambda _: (service.load(), Slow(8, law=LAW)))
    trace = validate(stream.read(run(service, Limits(max_run_seconds=1), max_new_tokens=500).text))
    assert trace["finish_reason"] == "cancelled" and "1 seconds" in trace["message"] and trace["rounds"]


@pytest.mark.parametrize("when", ["in the prefill", "in a round"])
def test_out_of_memory_is_a_plain_message_and_the_next_run_works(service, monkeypatch, when):
    trunk = service.load()
    forward, passes = trunk.forward, []

    def short_of_memory(*given, **more):
        passes.append(1)
        if len(passes) == (1 if when == "in the prefill" else 3):
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(*given, **more)

    monkeypatch.setattr(trunk, "forward", short_of_memory)
    view = run(service)
    if when == "in the prefill":
        assert "out of memory" in problem(view)["message"]
    else:
        trace = validate(stream.read(view.text))
        assert trace["finish_reason"] == "error" and "out of memory" in trace["message"] and len(trace["rounds"]) == 1
    assert stream.read(run(service).text)["finish_reason"] == "length"


def test_the_engine_runs_in_one_thread_whatever_the_number_of_runs(service):
    before = threading.active_count()

    async def scene():
        hall = Hall(Device(service, Limits()), identity=service.identity)
        await asyncio.gather(*(last(hall, f"p{i}", Settings(drafter="lookup", max_new_tokens=4)) for i in range(20)))
        assert threading.active_count() <= before + 1

    asyncio.run(scene())
