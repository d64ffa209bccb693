"""The Measure page without its browser: what it is given to draw, what a live measurement tells it, its strings and script."""

import json
import re
import subprocess

import programs
import pytest
from recorded import new_drafter, new_trunk

import mtviz.trunk
from mtviz.hosting import Limits
from mtviz.service import Service
from mtviz.settings import Settings
from mtviz.ui import measure_page
from mtviz.ui.measure_page import _SCRIPTS, MEASURE, _script, live_race, recorded

STRINGS = json.loads((MEASURE / "strings.json").read_text(encoding="utf-8"))


@pytest.fixture
def service(monkeypatch, tmp_path):
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: new_trunk(end_ids=()))
    service = Service(heads=tmp_path)
    service.load()
    service._drafters["mtp"] = new_drafter
    return service


def told(updates):
    return [json.loads(update) for update in updates]


def request(prompt="Once", **settings):
    return {"prompt": prompt, "settings": {"rule": "match", "max_new_tokens": 12} | settings}


def test_a_live_race_tells_how_far_it_is_and_then_the_race(service):
    *progress, race = told(live_race(service, Limits(), request()))
    assert [sum(update["tokens"]) for update in progress] == sorted(sum(update["tokens"]) for update in progress)
    assert progress[-1]["tokens"] == [12, 12] and {update["kind"] for update in progress} == {"progress"}
    assert race["kind"] == "race" and race["outcome"]["difference"] is None and race["settings"]["rule"] == "match"
    assert len({update["run"] for update in [*progress, race]}) == 1


BAD = [
    (None, "settings"), ({}, "settings"), ({"prompt": "a", "settings": 3}, "settings"), (request(" "), "prompt"), (request(None), "prompt"), (request("x" * 5000), "prompt"),
    (request(num_draft_tokens=9), "num_draft_tokens"), (request(num_draft_tokens=float("nan")), "num_draft_tokens"), (request(max_new_tokens=10**6), "max_new_tokens"),
    (request(drafter="hierarchical"), "drafter"), (request(drafter="nobody"), "drafter"), (request(colour="red"), "'colour'"),
]  # fmt: skip


@pytest.mark.parametrize("asked, field", BAD)
def test_bad_input_names_its_field_and_the_next_race_runs(service, asked, field):
    (problem,) = told(live_race(service, Limits(), asked))
    assert problem["kind"] == "problem" and problem["field"] == field and field in problem["message"]
    assert told(live_race(service, Limits(), request(max_new_tokens=2)))[-1]["kind"] == "race"


def test_a_host_may_allow_fewer_tokens(service):
    (problem,) = told(live_race(service, Limits(max_new_tokens=8), request()))
    assert problem["field"] == "max_new_tokens" and "at most 8" in problem["message"]


def test_a_measurement_that_breaks_is_a_message_and_frees_the_device(service):
    class Broken:
        name, max_draft_tokens = "broken", 8

        def start(self):
            raise RuntimeError("the drafter broke")

    service._drafters["mtp"] = Broken
    (problem,) = told(live_race(service, Limits(), request()))
    assert problem["kind"] == "problem" and "the drafter broke" in problem["message"]
    assert told(live_race(service, Limits(), request(drafter="lookup", max_new_tokens=2)))[-1]["kind"] == "race"


def test_the_cost_of_a_pass_is_measured_live_with_its_provenance(service):
    *progress, cost = told(measure_page._told(service.pass_cost(2), Limits()))
    assert [update["what"] for update in progress] == ["passes", "mtp"]
    assert cost["kind"] == "pass_cost" and list(cost["drafts"]) == ["mtp"] and cost["provenance"]["model"] == "scripted"


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
