"""The Heads page without its browser: its facts are those of the files and functions, its runs those of the hall."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import programs
import pytest
from test_drafters import shipped, trunk  # noqa: F401

import mtviz.service
from mtviz.evaluation import comparison
from mtviz.heads import load_heads
from mtviz.hosting import Hall
from mtviz.service import Service
from mtviz.settings import DRAFTERS, SettingsError
from mtviz.stored import stored_heads
from mtviz.trace import loads
from mtviz.training.schedules import Schedule, progressive_training
from mtviz.ui import heads_page
from mtviz.ui.heads_page import _SCRIPTS, HEADS, STEPS, heads_script, page_facts, run, schedule
from mtviz.views import stream


def test_a_file_tells_its_sizes_without_a_trunk(trunk, shipped):  # noqa: F811
    found = stored_heads(shipped)
    for family, stored in found.items():
        heads = load_heads(shipped / f"{family}.safetensors", trunk)
        assert stored["parameters"] == sum(weight.numel() for weight in heads.parameters())
        assert (stored["fingerprint"], stored["draft_ids"]) == (heads.fingerprint, len(heads.draft_ids))
        assert stored["shapes"] == {name: list(weight.shape) for name, weight in heads.named_parameters()}
    assert set(found) == {"parallel", "hierarchical", "mtp"} and found["mtp"]["length"]["cost"] == 0.1


def test_what_is_no_heads_file_is_left_out(shipped, tmp_path):  # noqa: F811
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    (tmp_path / "mtp.safetensors").write_bytes((shipped / "mtp.safetensors").read_bytes())
    (tmp_path / "mtp.provenance.json").write_text("[")
    assert set(stored_heads(tmp_path)) == {"mtp"} and "schedule" not in stored_heads(tmp_path)["mtp"]


def test_the_facts_are_plain_json_and_a_known_training_gives_its_schedule(shipped, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(heads_page, "RESULTS", tmp_path / "none.json")
    (tmp_path / "mtp.safetensors").write_bytes((shipped / "mtp.safetensors").read_bytes())
    (tmp_path / "mtp.provenance.json").write_text(json.dumps({"schedule": {"steps": 50, "unroll": 3, "unroll_from": 20, "add_every": 10}}))
    facts = page_facts(Service(heads=tmp_path))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["results"] is None and facts["stored"]["mtp"]["depths"] == [[0, 1], [30, 2], [40, 3]]
    assert Schedule(steps=50, unroll=3, unroll_from=20, add_every=10).depth(30) == 2
    assert len(facts["sentence"]["tokens"]) == heads_page.SENTENCE


@pytest.mark.parametrize("heads, steps_per_head", [(1, 0), (4, 0), (4, 200), (8, 120), (8, 500)])
def test_the_strip_is_what_the_training_code_returns(heads, steps_per_head):
    changes = schedule(Service(), {"heads": heads, "steps_per_head": steps_per_head})
    for step in range(STEPS):
        assert [now for since, now in changes if since <= step][-1] == progressive_training(step, heads, steps_per_head)


@pytest.mark.parametrize("asked, field", [({"heads": 0, "steps_per_head": 1}, "heads"), ({"heads": 4, "steps_per_head": 501}, "steps_per_head"),
                                          ({"heads": "4", "steps_per_head": 1}, "heads"), (None, "heads"), ({"heads": 4}, "steps_per_head")])  # fmt: skip
def test_a_schedule_out_of_bounds_names_its_field(asked, field):
    with pytest.raises(SettingsError, match=f"{field}: must be a whole number from"):
        schedule(Service(), asked)


def compared(source, prompt="hello"):
    async def collect():
        texts = [text async for text in run(Hall(source), {"rule": "match", "max_new_tokens": 4}, {"prompt": prompt})]
        assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:]))  # so that only its new end is sent
        return [json.loads(line) for line in texts[-1].splitlines()]

    return asyncio.run(collect())


def test_each_drafter_runs_in_turn_and_one_that_cannot_says_so():
    async def source(prompt, settings):
        if settings.drafter == "parallel":
            yield stream.problem("drafter", "no parallel heads")
            return
        yield stream.line({"trace": {"settings": settings.to_dict(), "rounds": []}})
        yield stream.line({"end": {"finish_reason": "length"}})

    lines = compared(source)
    assert [line["drafter"] for line in lines if "drafter" in line] == list(DRAFTERS)
    at = next(i for i, line in enumerate(lines) if line.get("drafter") == "parallel")
    assert lines[at + 1]["error"]["message"] == "no parallel heads"
    ran = [line["trace"]["settings"]["drafter"] for line in lines if "trace" in line]
    assert ran == [drafter for drafter in DRAFTERS if drafter != "parallel"]
    assert lines[-1]["done"] and len({line["run"] for line in lines if "run" in line}) == 1


@pytest.mark.parametrize("prompt", ["", "  ", None, 3])
def test_a_bad_prompt_is_said_once(prompt):
    async def source(prompt, settings):
        raise AssertionError("nothing to compute")
        yield ""

    lines = compared(source, prompt)
    assert [line["error"]["field"] for line in lines if "error" in line] == ["prompt"] and lines[-1]["done"]


def test_the_command_records_every_drafter_and_the_page_finds_them(trunk, shipped, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr(comparison, "load_trunk", lambda *_, **__: trunk)
    monkeypatch.setattr(mtviz.service, "ASSETS", tmp_path)
    prompts = [{"name": "one", "title": {"en": "", "zh": ""}, "prompt": "hello"}]
    (tmp_path / "comparison.json").write_text(json.dumps({"settings": {"rule": "match", "num_draft_tokens": 8, "max_new_tokens": 10}, "prompts": prompts}))
    monkeypatch.setattr(comparison, "ASSETS", tmp_path)
    out = tmp_path / "traces" / "compare"
    assert comparison.main(["--heads", str(shipped), "--out", str(out), "--family", "mtp", "--family", "none"]) == 0
    assert set(Service().compared("one")) == {"mtp", "none"}
    assert comparison.main(["--heads", str(shipped), "--out", str(out)]) == 0
    traces = Service().compared("one")
    assert tuple(traces) == DRAFTERS and len({str(trace["output"]) for trace in traces.values()}) == 1
    assert all("predicted_survival" in round_ for round_ in traces["adaptive"]["rounds"][:1])
    text = (out / "one.mtp.json").read_text(encoding="utf-8")
    assert loads(text) == traces["mtp"] and '"top_draft":[]' in text
    assert comparison.main(["--heads", str(tmp_path / "no heads"), "--out", str(out), "--family", "mtp"]) == 0
    assert "not there" in capsys.readouterr().out
    with pytest.raises(SettingsError, match="no comparison named"):
        Service().compared("../rain")


def test_both_languages_have_all_strings():
    strings = json.loads((HEADS / "strings.json").read_text(encoding="utf-8"))
    script = "".join(path.read_text(encoding="utf-8") for path in HEADS.glob("*.js"))
    english, chinese = (strings[language] for language in ("en", "zh"))
    assert {key for key in english if not key.endswith("_one")} == set(chinese)
    for key in re.findall(r"\bt\('([\w.]+)'", script):
        assert key in english, key
    for start in re.findall(r"\bt\(`([\w.]+)\$", script):
        assert any(key.startswith(start) for key in english), start
    for key, text in english.items():
        assert set(re.findall(r"\{(\w+)\}", chinese.get(key, text))) == set(re.findall(r"\{(\w+)\}", text)), key
    assert all(f"family.{drafter}" in english for drafter in DRAFTERS)


def test_the_joined_script_has_every_module_once_in_order_and_no_name_twice():
    before: set[Path] = set()
    for path in _SCRIPTS:
        imported = re.findall(r"^import .* from '(.*)';$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert {(path.parent / name).resolve() for name in imported} <= before, path.name
        before.add(path)
    assert set(HEADS.glob("*.js")) <= before
    done = subprocess.run([programs.node(), "--check", "--input-type=module"], input=heads_script(), capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", heads_script())


def test_what_a_place_of_the_text_shows():
    """The round that covers a token, whether texts agree, and the squares of a round, by the page's own functions."""
    program = f"""
import {{ roundAt, sameText }} from '{(HEADS / "compare.js").as_uri()}';
import {{ squaresOf }} from '{(HEADS / "film.js").as_uri()}';
import {{ parametersOf }} from '{(HEADS / "families.js").as_uri()}';
const trace = (ids) => ({{ output: {{ tokens: ids.map((id) => ({{ id }})) }} }});
const run = {{ prompt: {{ tokens: [0, 0] }}, rounds: [{{ start: 3 }}, {{ start: 6 }}], ...trace([1, 2, 3, 4, 5]) }};
const drafts = ['accepted', 'rejected', 'unjudged'].map((verdict) => ({{ verdict }}));
console.log(JSON.stringify([
  [0, 1, 3, 4, 5].map((place) => roundAt(run, place)), sameText([]), sameText([trace([1, 2]), trace([1])]), sameText([trace([1, 2]), trace([1, 3])]),
  squaresOf({{ drafts, emitted: {{ kind: 'recovered' }} }}), squaresOf({{ drafts: [], emitted: {{ kind: 'bonus' }} }}), squaresOf({{ drafts: drafts.slice(0, 1), emitted: null }}),
  parametersOf({{ shapes: {{ 'blocks.0.weight': [2, 3], 'shared.weight': [4] }} }}, 'blocks.'),
]));
"""
    done = subprocess.run([programs.node(), "--input-type=module"], input=program, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [-1, 0, 0, 1, -1], True, True, False,
        ["accepted", "recovered", "rejected", "unjudged"], ["plain"], ["accepted"], 6,
    ]  # fmt: skip
