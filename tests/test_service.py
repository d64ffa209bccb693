"""The service and the Watch page's stream, on a scripted trunk: what a visitor gets when things go right and wrong."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law

import mtviz.trunk
from mtviz.hosting import Device, Hall, Limits
from mtviz.service import NoModel, Service
from mtviz.settings import Settings, SettingsError
from mtviz.trace import counts, validate
from mtviz.ui import watch

VOCAB = 8
LAW = prefix_law(VOCAB, 3)


@pytest.fixture
def service(monkeypatch, tmp_path) -> Service:
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: ScriptedTrunk(LAW, VOCAB))
    return Service(heads=tmp_path)


def asked(**settings) -> dict:
    return {"prompt": "hello", "settings": Settings(**{"drafter": "lookup", "max_new_tokens": 12, **settings}).to_dict()}


def run(service: Service, request) -> list[dict]:
    """The lines that a stage is sent, after which run it is. The text only grows, so that only its new end is sent."""

    async def all_lines() -> str:
        text = ""
        async for value, _ in watch.run(Hall(Device(service, Limits())), request):
            if "ahead" in json.loads(value.partition("\n")[0]):
                continue  # it stands in line
            assert value.startswith(text)
            text = value
        return text

    head, *rest = [json.loads(line) for line in asyncio.run(all_lines()).splitlines()]
    assert head["run"] > 0 and head["busy"]
    return rest


def test_decode_gives_a_growing_valid_trace(service):
    seen = [len(trace["rounds"]) for trace in service.decode("hello", Settings(drafter="lookup", max_new_tokens=12))]
    assert seen == list(range(len(seen))) and len(seen) > 2
    *_, trace = service.decode("hello", Settings(drafter="lookup", max_new_tokens=12))
    assert validate(trace)["finish_reason"] in ("length", "stop")


def test_the_stream_is_the_trace_line_by_line(service):
    head, *rounds, end = run(service, asked())
    *_, trace = service.decode("hello", Settings(drafter="lookup", max_new_tokens=12))
    assert [line["round"]["drafts"] for line in rounds] == [round_["drafts"] for round_ in trace["rounds"]]
    assert end["end"]["output"] == trace["output"] and end["end"]["finish_reason"] == trace["finish_reason"]
    assert head["trace"]["rounds"] == [] and head["trace"]["prompt"] == trace["prompt"]


class FailingDrafter(ScriptedDrafter):
    """Fails when it is asked for the third time."""

    def propose(self, *given):
        if len(self.asked) == 2:
            raise RuntimeError("the drafter broke")
        return super().propose(*given)


def test_field_F34_a_failure_in_round_3_keeps_rounds_1_and_2_and_the_next_run_works(service, monkeypatch):
    monkeypatch.setattr(service, "_run_of", lambda settings: (service.load(), FailingDrafter(VOCAB, law=prefix_law(VOCAB, 9))))
    _, first, second, end = run(service, asked(num_draft_tokens=1, max_new_tokens=30))
    assert [line["round"]["index"] for line in (first, second)] == [0, 1]
    assert end["end"]["finish_reason"] == "error" and "the drafter broke" in end["end"]["message"]
    *_, trace = service.decode("hello", Settings(num_draft_tokens=1, max_new_tokens=30))
    assert len(trace["rounds"]) == 2 and counts(validate(trace))["rounds"] == 2
    monkeypatch.undo()
    monkeypatch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: ScriptedTrunk(LAW, VOCAB))
    *_, trace = service.decode("hello", Settings(drafter="lookup", max_new_tokens=4))
    assert trace["finish_reason"] == "length"


@pytest.mark.parametrize("prompt", ["", "   ", "\n\t", None, 7, "x" * 4001, "\ud83d"])
def test_field_F10_a_bad_prompt_is_one_message_and_the_next_run_works(service, prompt):
    (line,) = run(service, {**asked(), "prompt": prompt})
    assert line["error"]["field"] == "prompt" and line["error"]["message"].startswith("prompt: ") and not line["busy"]
    assert "end" in run(service, asked())[-1]


@pytest.mark.parametrize("request_", [None, [], "decode", {}, {"prompt": "x"}, {"prompt": "x", "settings": 3}, {"prompt": "x", "settings": {"hack": 1}}])
def test_a_request_that_is_no_request_is_one_message(service, request_):
    (line,) = run(service, request_)
    assert line["error"]["message"]


@pytest.mark.parametrize("field, value", [("threshold", float("nan")), ("num_draft_tokens", 9), ("temperature", "hot"), ("rule", "luck"), ("seed", -1)])
def test_a_bad_setting_names_its_field(service, field, value):
    settings = {**asked()["settings"], field: value}
    (line,) = run(service, {"prompt": "x", "settings": settings})
    assert line["error"]["field"] == field


def test_field_F11_two_prompts_at_once_are_refused_before_any_model_work(service):
    with pytest.raises(SettingsError, match="prompt: must be text"):
        next(service.decode(["one", "another"], Settings(drafter="lookup")))
    assert not service.status()["live"]  # not even loaded


def test_heads_that_are_not_there_are_named_with_what_is(service):
    with pytest.raises(SettingsError, match="drafter: no mtp heads are loaded for scripted; choose one of lookup, none"):
        next(service.decode("x", Settings(drafter="mtp")))


def test_a_broken_heads_file_is_refused_by_name_and_the_rest_serves(service, tmp_path, caplog):
    (tmp_path / "broken.safetensors").write_bytes(b"not a heads file")
    *_, trace = service.decode("hello", Settings(drafter="lookup", max_new_tokens=4))
    assert trace["finish_reason"] == "length"
    assert "broken.safetensors" in caplog.text


def test_without_a_model_every_call_says_what_to_install(monkeypatch, tmp_path):
    def missing(*_, **__):
        raise mtviz.trunk.TrunkNotFound("No model found: install one")

    monkeypatch.setattr(mtviz.trunk, "load_trunk", missing)
    service = Service(heads=tmp_path)
    for _ in range(2):
        with pytest.raises(NoModel, match="install one"):
            next(service.decode("x", Settings(drafter="lookup")))
    assert service.status() == {"live": False, "loading": False, "text": "No model found: install one"}
    (line,) = run(service, asked())
    assert "install one" in line["error"]["message"]


def test_loading_lets_the_garbage_collector_work_again_whatever_came_of_it(service, monkeypatch):
    try:
        gc.disable()  # as app.py does
        service.load_quietly()
        assert gc.isenabled()
        gc.disable()
        monkeypatch.setattr(service, "load", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            service.load_quietly()
        assert gc.isenabled()
    finally:
        gc.enable()


def test_a_run_left_halfway_holds_nothing(service):
    abandoned = service.decode("hello", Settings(drafter="lookup", max_new_tokens=100))
    next(abandoned)
    *_, trace = service.decode("hello", Settings(drafter="lookup", max_new_tokens=4))
    assert trace["finish_reason"] == "length"


def test_only_presets_have_recorded_traces(service):
    for name in ("../secrets", "rain/../rain", "", None):
        with pytest.raises(SettingsError):
            service.recorded(name)
