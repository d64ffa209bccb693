"""The stage's JavaScript against the engine, and the script and style that the page is given."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import programs

from mtviz.trace import validate
from mtviz.views.stage import STAGE, stage_script, stage_style

HERE = Path(__file__).resolve().parent
I18N = STAGE.parent / "i18n"
sys.path.insert(0, str(HERE))


def test_node_tests_pass_with_the_engines_answers(tmp_path):
    import engine

    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({**engine.answers(), "atlas": engine.atlas()}), encoding="utf-8")
    tests = sorted(str(path) for path in HERE.glob("*.test.js"))
    done = subprocess.run([programs.node(), "--test", *tests], env={"PATH": "/usr/bin:/bin", "ENGINE_ANSWERS": str(answers)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_random_traces_obey_the_schema():
    import engine

    for counted in engine.answers(rounds=1, traces=5)["counted"]:
        validate(counted["trace"])


def test_the_joined_script_defines_one_name_only(tmp_path):
    script = stage_script()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    check = tmp_path / "check.js"
    check.write_text(script + "\nif (typeof mountStage !== 'function') throw new Error('no mountStage');", encoding="utf-8")
    done = subprocess.run([programs.node(), str(check)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stage_script().startswith("const mountStage = ")


def test_top_level_names_are_unique_over_the_modules():
    seen: dict[str, str] = {}
    for path in sorted(STAGE.glob("*.js")):
        for name in re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert name not in seen, f"{name} in {path.name} and {seen[name]}"
            seen[name] = path.name


def test_nothing_is_parsed_as_markup_or_code():
    for path in STAGE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", path.read_text(encoding="utf-8")), path.name


def test_the_size_of_script_and_style():
    """All script and style of the stage, nothing left for later: microscope, tour, glossary, atlas and tools are in it, its strings,
    cards and traces are not. 80 kB as it is sent, compressed; the text itself is stated, so that it grows only on purpose."""
    served = stage_script().encode() + stage_style().encode()
    assert len(gzip.compress(served, 6)) <= 50_000
    assert len(served) <= 150_000


def test_every_style_rule_is_scoped():
    for line in "".join(path.read_text(encoding="utf-8") for path in STAGE.glob("*.css")).splitlines():
        if line and not line.startswith((" ", "}", "/*")):
            assert re.fullmatch(r"(\.dark )?\.mtviz-stage \{", line), line


def test_every_string_that_the_stage_asks_for_is_there():
    tables = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in I18N.glob("*.json")}
    asked = {key for path in STAGE.glob("*.js") for key in re.findall(r"\bt\('([\w.]+)'", path.read_text(encoding="utf-8"))}
    for language, table in tables.items():
        assert not asked - set(table), f"{language} lacks {sorted(asked - set(table))}"
        missing = {key for key in tables["en"] if not key.endswith("_one")} - set(table)
        assert not missing, f"{language} lacks {sorted(missing)}"
        for key, text in table.items():
            places = set(re.findall(r"\{(\w+)\}", text))
            assert places <= set(re.findall(r"\{(\w+)\}", tables["en"].get(key, text))) | {"n"}, f"{language} {key}"
