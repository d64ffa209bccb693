"""What docs/hosting.md and the files that it speaks of promise, as far as it can be seen without the place itself."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent / "load"))

from docker_steps import context, instructions  # noqa: E402

from mtviz.hosting import Limits  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
HOSTING = (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8")


def test_every_limit_is_documented_with_its_default():
    told = dict(re.findall(r"^\| `(MTVIZ_\w+)` \| `?([^|`]+?)`? \|", HOSTING, re.MULTILINE))
    for field in fields(Limits):
        assert told[f"MTVIZ_{field.name.upper()}"] == str(field.default)


def test_every_variable_that_is_read_is_documented():
    read = set()
    for path in [ROOT / "app.py", *(ROOT / "mtviz").rglob("*.py")]:
        read |= set(re.findall(r"""["'](MTVIZ_[A-Z_]+)["']""", path.read_text(encoding="utf-8")))
    told = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    assert read <= set(re.findall(r"`(MTVIZ_\w+)", told))


def test_spaces_is_imported_before_torch_and_before_gradio():
    """As ZeroGPU wants it; where it is not installed a stand-in says what had been loaded."""
    program = """
import sys, types
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "spaces":
            print("torch" in sys.modules, "gradio" in sys.modules)
sys.meta_path.insert(0, Finder())
import ast
tree = ast.parse(open("app.py").read())
for node in tree.body:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        exec(ast.unparse(node))
        if "mtviz.hosting" in sys.modules:
            break
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_on_zero_gpu_the_decorated_function_is_a_generator_with_a_duration(monkeypatch):
    import inspect
    import types

    from mtviz.hosting import device
    from mtviz.settings import Settings

    seen = {}

    def gpu(duration):
        seen["duration"] = duration

        def decorate(task):
            seen["task"] = task
            return task

        return decorate

    monkeypatch.setattr(device, "spaces", types.SimpleNamespace(GPU=gpu))
    device.Device(service=None, limits=Limits(max_run_seconds=60))
    assert inspect.isgeneratorfunction(seen["task"])
    assert seen["duration"]("x", Settings(max_new_tokens=100)) == 10 and seen["duration"]("x", Settings(max_new_tokens=1024)) <= 60


def test_the_dockerfile_copies_what_there_is_and_probes_healthz():
    steps = list(instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")))
    names = [name for name, _ in steps]
    assert names[0] == "FROM" and names[-1] == "CMD" and "/healthz" in dict(steps)["HEALTHCHECK"]
    copied = {str(path) for path in context(ROOT)}
    assert {"app.py", "mtviz/service.py", "assets/presets.json", "requirements.txt", "requirements-model.txt"} <= copied
    assert not [path for path in copied if path.startswith(("tests/", ".git/", "docs/"))]
    for name, rest in steps:
        if name == "COPY":
            *sources, _ = [word for word in rest.split() if not word.startswith("--")]
            assert sources == ["."] or set(sources) <= copied


@pytest.mark.parametrize("name", ["colab", "modelscope"])
def test_a_notebook_is_whole_and_names_only_what_exists(name):
    notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and all(cell["source"] for cell in notebook["cells"])
    *_, start = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    tree = ast.parse(start)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = __import__(node.module, fromlist=[alias.name])
                assert getattr(module, alias.name, None) or f"{node.module}.{alias.name}" in sys.modules
    for wanted in re.findall(r"requirements[\w-]*\.txt", "".join("".join(cell["source"]) for cell in notebook["cells"])):
        assert (ROOT / wanted).exists()


def test_serve_on_ray_without_ray_says_what_to_install(monkeypatch, capsys):
    from mtviz.__main__ import main

    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["serve", "--ray"]) == 2
    assert "requirements-ray.txt" in capsys.readouterr().err


def test_no_file_of_weights_is_run():
    """`pickle` runs what a file says; so does `torch.load`, unless it is asked for tensors alone."""
    for path in (ROOT / "mtviz").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pickle\.loads?\(|Unpickler|joblib", text), path
        assert all("weights_only=True" in call for call in re.findall(r"torch\.load\(.*", text)), path
