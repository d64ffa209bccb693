"""The Measure page without its browser: what it is given to draw, what a live measurement tells it, its strings and script."""

import asyncio
import json
import re
import subprocess

import programs
import pytest
from recorded import new_drafter, new_trunk

import mtviz.trunk
from mtviz.evaluation.child import LabChild
from mtviz.hosting import Hall, Limits, Line
from mtviz.service import Service
from mtviz.settings import Settings
from mtviz.ui import measure_page
from mtviz.ui.measure_page import _SCRIPTS, MEASURE, _config, _script, beside, in_line, live_race, recorded

STRINGS = json.loads((MEASURE / "strings.json").read_text(encoding="utf-8"))


@pytest.fixture
def service(monkeypatch, tmp_path):
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: new_trunk(end_ids=()))
    service = Service(heads=tmp_path)
    service.load()
    service._drafters["mtp"] = new_drafter
    return service


def hall(**limits):
    return Hall(None, Limits(**limits))


def told(updates):
    """What a visitor is told once it is their turn, each word once. How many words there are is the hall's pace."""

    async def listen():
        return [json.loads(text) for text in dict.fromkeys([update async for update in updates])]

    return [update for update in asyncio.run(listen()) if update["kind"] != "waiting"]


def request(prompt="Once", **settings):
    return {"prompt": prompt, "settings": {"rule": "match", "max_new_tokens": 12} | settings}


def test_a_live_race_tells_how_far_it_is_and_then_the_race(service):
    *progress, race = told(live_race(service, hall(), request()))
    assert [sum(update["tokens"]) for update in progress] == sorted(sum(update["tokens"]) for update in progress)
    assert {update["kind"] for update in progress} <= {"progress"}
    assert race["kind"] == "race" and race["outcome"]["difference"] is None and race["settings"]["rule"] == "match"
    assert len({update["run"] for update in [*progress, race]}) == 1


BAD = [
    (None, "settings"), ({}, "settings"), ({"prompt": "a", "settings": 3}, "settings"), (request(" "), "prompt"), (request(None), "prompt"), (request("x" * 5000), "prompt"),
    (request(num_draft_tokens=9), "num_draft_tokens"), (request(num_draft_tokens=float("nan")), "num_draft_tokens"), (request(max_new_tokens=10**6), "max_new_tokens"),
    (request(drafter="hierarchical"), "drafter"), (request(drafter="nobody"), "drafter"), (request(colour="red"), "'colour'"),
]  # fmt: skip


@pytest.mark.parametrize("asked, field", BAD)
def test_bad_input_names_its_field_and_the_next_race_runs(service, asked, field):
    (problem,) = told(live_race(service, hall(), asked))
    assert problem["kind"] == "problem" and problem["field"] == field and field in problem["message"]
    assert told(live_race(service, hall(), request(max_new_tokens=2)))[-1]["kind"] == "race"


def test_a_host_may_allow_fewer_tokens(service):
    (problem,) = told(live_race(service, hall(max_new_tokens=8), request()))
    assert problem["field"] == "max_new_tokens" and "at most 8" in problem["message"]


def test_a_measurement_that_breaks_is_a_message_and_frees_the_device(service):
    class Broken:
        name, max_draft_tokens = "broken", 8

        def start(self):
            raise RuntimeError("the drafter broke")

    service._drafters["mtp"] = Broken
    (problem,) = told(live_race(service, hall(), request()))
    assert problem["kind"] == "problem" and "the drafter broke" in problem["message"]
    assert told(live_race(service, hall(), request(drafter="lookup", max_new_tokens=2)))[-1]["kind"] == "race"


def test_measurements_and_runs_stand_in_one_line_that_is_bounded(service):
    seen, on_device = {}, asyncio.Event()

    async def run(prompt, settings):
        await on_device.wait()
        yield '{"end":{"finish_reason":"cancelled"}}\n'

    async def listen(name, updates):
        seen[name] = [json.loads(update) async for update in updates]

    async def scene():
        line = Hall(run, Limits(max_waiting=2))
        watching = line.watch("a", Settings())
        await anext(watching)  # has the device
        race = asyncio.create_task(listen("race", live_race(service, line, request(max_new_tokens=2))))
        await asyncio.sleep(0)
        costs = asyncio.create_task(listen("costs", in_line(line, "costs", service.pass_cost(1))))
        await asyncio.sleep(0.05)
        assert line.counts()["waiting"] == 2
        await listen("full", live_race(service, line, request("b")))
        on_device.set()
        await asyncio.gather(race, costs)
        await watching.aclose()
        assert line.counts() == {"waiting": 0, "running": 0, "watching": 0, "kept": 0}

    asyncio.run(scene())
    assert [seen[name][0] | {"run": 0} for name in ("race", "costs")] == [
        {"run": 0, "asked": "race", "kind": "waiting", "ahead": 0}, {"run": 0, "asked": "costs", "kind": "waiting", "ahead": 1},
    ]  # fmt: skip
    assert seen["race"][-1]["kind"] == "race" and seen["costs"][-1]["kind"] == "pass_cost"
    (refused,) = seen["full"]
    assert refused["kind"] == "problem" and refused["code"] == "full" and "line is full" in refused["message"]


def test_who_closes_the_page_ends_the_measurement():
    ended = []

    def endless():
        try:
            while True:
                yield {"kind": "progress"}
        finally:
            ended.append(True)

    async def scene():
        line = hall()
        updates = in_line(line, "race", endless())
        while json.loads(await anext(updates))["kind"] == "waiting":
            pass
        await updates.aclose()
        while line.counts()["running"]:
            await asyncio.sleep(0.01)

    asyncio.run(scene())
    assert ended == [True]


def test_the_cost_of_a_pass_is_measured_live_with_its_provenance(service):
    *progress, cost = told(in_line(hall(), "costs", service.pass_cost(2)))
    assert {update["asked"] for update in [*progress, cost]} == {"costs"}
    assert cost["kind"] == "pass_cost" and list(cost["drafts"]) == ["mtp"] and cost["provenance"]["model"] == "scripted"


@pytest.mark.parametrize("what, rows", [("lengths", 7), ("thresholds", 8)])
def test_a_sweep_is_measured_again_small_with_its_provenance(service, what, rows):
    size = _config(Limits(max_new_tokens=4))["sweep"]
    *progress, found = told(in_line(hall(), what, service.sweep(what, size["prompts"], size["tokens"])))
    # A reader who is late sees the newest update alone, so that not every step need be among them.
    done = [update["done"] for update in progress]
    assert {update["kind"] for update in progress} == {"progress"} and done == sorted(done) and done[-1] < progress[-1]["of"]
    assert found["kind"] == found["asked"] == what and len(found["rows"]) == rows
    assert (found["prompts"], found["max_new_tokens"]) == (2, 4) == (size["prompts"], size["tokens"])
    assert found["provenance"]["command"].startswith(f"python -m mtviz lab {what} --family mtp --limit 2 --max-new-tokens 4")


def test_without_heads_there_is_nothing_to_sweep(service):
    service._drafters.clear()
    (problem,) = told(in_line(hall(), "lengths", service.sweep("lengths", 1, 4)))
    assert problem["kind"] == "problem" and "no heads are loaded" in problem["message"]


class FakeChild:
    """A process that says two steps and ends with `result`."""

    def __init__(self, result, overdue=False):
        self.steps, self._result, self.overdue, self.closed = [{}, {"what": "training", "done": 0, "of": 4}], result, overdue, False

    running = property(lambda self: bool(self.steps))
    result = property(lambda self: self._result)

    def progress(self):
        return self.steps.pop(0)

    def problem(self):
        return "it failed"

    def close(self):
        self.closed = True


@pytest.fixture
def children(service, monkeypatch):
    """Those that the service starts next."""
    monkeypatch.setattr(measure_page, "BEAT", 0.01)
    made = []
    monkeypatch.setattr(service, "lab", lambda *_: made.pop(0))
    return made


def test_a_measurement_in_a_process_of_its_own_tells_its_steps_and_its_result(service, children):
    child = FakeChild({"kind": "tradeoff", "rows": []})
    children.append(child)
    first, second, found = told(beside(service, Line(1), "tradeoff", 0.3))
    assert (first["kind"], first["seconds"]) == ("progress", 0) and "what" not in first
    assert (second["what"], second["done"], second["of"]) == ("training", 0, 4)
    assert found["kind"] == found["asked"] == "tradeoff" and child.closed
    children += [FakeChild(None), FakeChild(None, overdue=True)]
    assert told(beside(service, Line(1), "tradeoff", 0.3))[-1]["message"] == "it failed"
    assert "as long as it may take" in told(beside(service, Line(1), "tradeoff", 0.3))[-1]["message"]


def test_trainings_and_such_measurements_stand_in_one_line_and_leave_it_when_closed(service, children):
    child = FakeChild({"kind": "memory"})
    children.append(child)

    async def scene():
        line = Line(1)
        with line.place() as ahead:  # a training
            assert ahead() == 0
            waits = beside(service, line, "memory", 0.3)
            assert json.loads(await anext(waits))["ahead"] == 1
            (full,) = [json.loads(update) async for update in beside(service, line, "footprint", 0.3)]
            assert full["code"] == "full" and full["kind"] == "problem" and "line is full" in full["message"]
        while json.loads(await anext(waits))["kind"] == "waiting":
            pass
        await waits.aclose()
        assert child.closed and not len(line)

    asyncio.run(scene())


def test_a_child_s_steps_are_read_from_what_it_says(tmp_path):
    child = LabChild.__new__(LabChild)
    child.directory = tmp_path
    (tmp_path / "errors.txt").write_text("a warning\n")
    assert child.progress() == {}
    (tmp_path / "errors.txt").write_text("1 of 4: training 2 heads\n2 of 4: weighing 4 heads\nscoring document 3 of 9\n")
    assert child.progress() == {"done": 1, "of": 4, "what": "weighing"}
    words = {key for key in STRINGS["en"] if key.startswith("again.")}
    assert {"again.measuring", "again.training", "again.weighing"} <= words


def test_what_is_drawn_is_plain_json_from_the_recorded_files():
    drawn = recorded(Service())
    assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn
    races = {name: result for name, result in drawn["results"].items() if result.get("kind") == "race"}
    assert "race" in races
    for race in races.values():
        Settings.from_mapping(race["settings"])
        for lane, row in zip(race["lanes"], race["outcome"]["lanes"]):
            assert 1 + sum(len(round_["tokens"]) for round_ in lane["rounds"]) == row["new_tokens"]
    assert all("command" in result["provenance"] for result in drawn["results"].values() if "provenance" in result)
    assert {claim["verdict"] for claim in drawn["claims"]} <= {"holds", "partly", "fails", "unmeasured"}


def test_both_languages_have_all_strings():
    script = "".join(path.read_text(encoding="utf-8") for path in MEASURE.glob("*.js"))
    english, chinese = (set(STRINGS[language]) for language in ("en", "zh"))
    assert {key for key in english if not key.endswith("_one")} == chinese
    for key in re.findall(r"\bt\('([\w.]+)'", script):
        assert key in english, key
    for start in re.findall(r"\bt\(`([\w.]+)\$", script):
        assert any(key.startswith(start) for key in english), start
    for key in chinese:
        assert set(re.findall(r"{(\w+)}", STRINGS["en"][key])) == set(re.findall(r"{(\w+)}", STRINGS["zh"][key])), key


def test_the_joined_script_has_every_module_once_and_in_order():
    before = set()
    for path in _SCRIPTS:
        imported = re.findall(r"^import .* from '(.*)';$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert {(path.parent / name).resolve() for name in imported} <= before, path.name
        before.add(path)
    assert {path.name for path in MEASURE.glob("*.js")} - {path.name for path in _SCRIPTS} == {"gradio.js"}
    assert "export " not in _script()


def test_no_name_is_declared_twice_in_the_joined_script():
    done = subprocess.run([programs.node(), "--check", "--input-type=module"], input=_script(), capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
