"""The house's rules: which room may import which, what stays light, how long and how named a file may be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BASE = ("settings", "rules", "text", "trace", "atlas", "simulator", "stored")

# What each room may import from mtviz, and which heavy packages it may import. A name with a dot is one module of a room.
ROOMS = {
    "settings": set(),
    "rules": set(),
    "text": set(),
    "trace": {"settings", "rules", "text"},
    "atlas": {"settings", "rules", "text", "trace"},
    "stored": set(),
    "simulator": {"settings", "rules", "text"},
    "trunk": {"settings", "text"},
    "heads": {"settings", "text", "trunk"},
    "drafting": {"trunk", "heads"},
    "decoding": {"drafting.protocol", "trunk", "trace", "rules", "settings", "text"},
    "training": {"heads", "trunk", "settings"},
    "evaluation": {"decoding", "drafting", "heads", "trunk", "training", "trace", "atlas", "rules", "settings"},
    "views": {"trace", "rules", "text", "atlas"},
    "service": {*BASE, "trunk", "heads", "drafting", "decoding", "training", "evaluation", "views"},
    "hosting": {"service", "views", "trace", "settings"},
    "ui": {"hosting", "service", "views", "simulator", "trace", "settings"},
    "app": {"hosting", "service", "ui", "views", "simulator", "trace", "settings"},
    # The command line starts every job there is.
    "__main__": {*BASE, "trunk", "heads", "drafting", "decoding", "training", "evaluation", "views", "service", "hosting", "ui"},
    "__init__": set(),
}
HEAVY = {"torch", "transformers", "plotly", "gradio"}
MAY_BE_HEAVY = {
    "trunk": {"torch", "transformers"},
    "heads": {"torch", "transformers"},
    "drafting": {"torch"},
    "decoding": {"torch"},
    "training": {"torch"},
    "evaluation": {"torch", "transformers"},  # it is compared with transformers' own generate
    "views": {"plotly"},
    "service": {"torch"},
    "ui": {"gradio"},
    "app": {"gradio"},
}
LONGEST = 400


def modules():
    """Every module of the house as (room, path)."""
    yield "app", ROOT / "app.py"
    for path in sorted((ROOT / "mtviz").rglob("*.py")):
        yield path.relative_to(ROOT / "mtviz").parts[0].removesuffix(".py"), path


def imports(path):
    """Dotted names of everything that the module imports, wherever in it, relative ones resolved."""
    package = ["mtviz", *path.relative_to(ROOT / "mtviz").parts[:-1]] if path.name != "app.py" else []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{name}.{alias.name}" for alias in node.names)


def test_every_room_is_there_and_none_is_unknown():
    assert {room for room, _ in modules()} == set(ROOMS)


@pytest.mark.parametrize("room, path", [pytest.param(room, path, id=str(path.relative_to(ROOT))) for room, path in modules()])
def test_a_room_imports_only_what_it_may(room, path):
    for name in imports(path):
        top, *inner = name.split(".")
        if top == "mtviz":
            allowed = ROOMS[room] | {room, "__version__"}
            reached = {".".join(inner[:n]) for n in range(1, len(inner) + 1)}
            assert not inner or reached & allowed, f"{room} imports {name}"
        elif top in HEAVY:
            assert top in MAY_BE_HEAVY.get(room, set()), f"{room} imports {name}"
        elif room in BASE:
            assert top in ("numpy", "fastjsonschema") or top in sys.stdlib_module_names, f"{room} imports {name}"


@pytest.mark.parametrize(
    "module, unwanted",
    [
        ("mtviz", HEAVY | {"numpy"}),
        ("mtviz.settings", HEAVY),
        ("mtviz.trace", HEAVY),
        ("mtviz.simulator", HEAVY),
        ("mtviz.views", {"torch", "transformers", "gradio"}),
        ("mtviz.service", {"gradio"}),
        ("mtviz.hosting", {"torch", "transformers", "plotly", "gradio"}),
    ],
)
def test_what_an_import_loads_in_a_fresh_process(module, unwanted):
    """A package's modules are imported too, so that a lazy `__init__` hides nothing."""
    program = f"""
import importlib, pkgutil, sys
package = importlib.import_module({module!r})
if {module!r} != "mtviz":
    for entry in pkgutil.iter_modules(getattr(package, "__path__", [])):
        importlib.import_module({module!r} + "." + entry.name)
print(*sys.modules)
"""
    loaded = fresh(program).split()
    assert module in loaded and not unwanted & set(loaded)


def test_a_stored_trace_is_read_and_judged_again_without_torch():
    from recorded import record

    from mtviz.trace import dumps

    program = """
import sys
from mtviz import Settings, judge_again
from mtviz.trace import counts, loads
trace = loads(sys.stdin.read())
again = [judge_again(round_, Settings(rule="match", temperature=1.0)) for round_ in trace["rounds"]]
print(counts(trace)["rounds"], len(again), "torch" in sys.modules)
"""
    trace = record(seed=1)
    assert fresh(program, dumps(trace)).split() == [str(len(trace["rounds"]))] * 2 + ["False"]


def test_gradio_is_imported_without_its_stubs_for_editors():
    """Both names are private: where Gradio renames them nothing is skipped, and this says so."""
    program = """
import inspect
import mtviz.ui
from gradio import component_meta, events
print(component_meta.create_or_modify_pyi.__module__, events.EventListener.set_doc.__module__)
written = inspect.getsource(component_meta)
print("def create_or_modify_pyi" in written, "set_doc" in written)
"""
    assert fresh(program).split() == ["mtviz.ui.quick_import"] * 2 + ["True"] * 2


def fresh(program, given=""):
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lazy_exports_are_there():
    import mtviz

    for name in mtviz.__all__:
        assert getattr(mtviz, name) is not None and name in dir(mtviz)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mtviz.nothing


def sources():
    """Every file that is written by hand to be read."""
    files = [ROOT / "app.py"]
    for folder in ("mtviz", "assets", "tests"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".css")]
    return sorted(path for path in files if not {"node_modules", "__pycache__"} & set(path.parts))


def test_no_file_is_too_long():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_the_heart_of_the_engine_is_short():
    for name, longest in {"verification": 100, "loop": 150}.items():
        assert len((ROOT / f"mtviz/decoding/{name}.py").read_text(encoding="utf-8").splitlines()) < longest


def test_no_file_has_a_name_that_says_nothing():
    for path in sources():
        assert not {"utils", "util", "helpers", "helper", "common", "misc"} & set(path.stem.lower().replace("-", "_").split("_")), path
