"""Command line: `python -m mtviz decode | train | corpus | heads | export | bench | race | lab | record | serve`. `--help` after any of them lists its options."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Sequence

from mtviz.settings import BOUNDS, CHOICES, DTYPES, Settings, SettingsError
from mtviz.trace import counts, dumps

# Commands whose options live in the room that carries them out; imported only when asked for.
_OWN_PARSERS = {
    "train": ("mtviz.training.cli", "train heads on a trunk"),
    "corpus": ("mtviz.training.generate", "make text for training"),
    "heads": ("mtviz.evaluation.acceptance", "measure what each family of heads yields"),
    "compare": ("mtviz.evaluation.comparison", "record the comparison of the Heads page"),
    "export": ("mtviz.views.export", "write traces as one HTML file that plays anywhere; with --format, heads for another tool"),
    "bench": ("mtviz.evaluation.benchmark", "measure speed against transformers' generate"),
    "lab": ("mtviz.evaluation.lab", "measure what the Measure page shows"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz", description=sys.modules["mtviz"].__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_decode(commands.add_parser("decode", help="decode one prompt, round by round"))
    _add_race(commands.add_parser("race", help="decode one prompt twice, token by token and with drafts, and compare"))
    _add_record(commands.add_parser("record", help="record the presets of the page, and their atlases"))
    for name, (_, summary) in _OWN_PARSERS.items():
        commands.add_parser(name, help=summary, add_help=False)
    serve = commands.add_parser("serve", help="start the page")
    serve.add_argument("--ray", action="store_true", help="on the Ray cluster of this machine, the model in replicas of its own (docs/hosting.md)")
    serve.add_argument("--replicas", type=int, default=2, metavar="N", help="at most so many model replicas, with --ray (default %(default)s)")
    serve.set_defaults(run=_serve)
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command in _OWN_PARSERS:
        module, _ = _OWN_PARSERS[arguments.command]
        if arguments.command == "export" and any(word.partition("=")[0] == "--format" for word in rest):
            module = "mtviz.heads.export"  # traces and heads have nothing in common but the word
        return importlib.import_module(module).main(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments.run(arguments)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", help="prompt and settings of a preset of the page; other options are then ignored")
    _add_generation(parser, Settings())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the Trace")
    parser.add_argument("--no-color", action="store_true")
    parser.set_defaults(run=_decode)


def _add_race(parser: argparse.ArgumentParser) -> None:
    _add_generation(parser, Settings(rule="match"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the race")
    parser.set_defaults(run=_race)


def _add_generation(parser: argparse.ArgumentParser, defaults: Settings) -> None:
    """The prompt, every setting, and the model."""
    parser.add_argument("--prompt", help="the user's turn (with --raw: the text to continue)")
    parser.add_argument("--raw", action="store_true", help="continue the prompt as plain text, without the chat template")
    for name, bound in BOUNDS.items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int if bound.integer else float, default=getattr(defaults, name),
            metavar="N" if bound.integer else "X", help=f"{bound} (default %(default)s)",
        )
    for name, allowed in CHOICES.items():
        parser.add_argument(f"--{name}", choices=allowed, default=getattr(defaults, name))
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--model", help="a model directory, GGUF file or Hub id, or `bytes` (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--heads", type=Path, metavar="DIR", help="heads trained for it, besides what its checkpoint brings")


def _settings(arguments: argparse.Namespace) -> Settings:
    model = "bytes" if arguments.model == "bytes" else "default"
    return Settings(raw=arguments.raw, model=model, **{name: getattr(arguments, name) for name in (*BOUNDS, *CHOICES)})


def _decode(arguments: argparse.Namespace) -> int:
    from mtviz.service import NoModel, Service
    from mtviz.views import terminal

    color = sys.stdout.isatty() and not arguments.no_color
    service = Service(model=arguments.model, dtype=arguments.dtype, heads=arguments.heads)
    try:
        if arguments.preset:
            preset = service.preset(arguments.preset)
            prompt, settings = preset["prompt"], Settings.from_mapping(preset["settings"])
        else:
            prompt, settings = arguments.prompt, _settings(arguments)
        trace = None
        for trace in service.decode(prompt, settings):
            if not trace["rounds"]:
                print(terminal.prefill_line(trace["prefill"], color), flush=True)
            else:
                print(*terminal.round_lines(trace["rounds"][-1], color), sep="\n", flush=True)
    except (SettingsError, NoModel) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print()
    print(trace["output"]["text"])
    print()
    print(*terminal.summary_lines(trace, counts(trace)), sep="\n")
    if arguments.json:
        arguments.json.write_text(dumps(trace) + "\n", encoding="utf-8")
    return 1 if trace["finish_reason"] == "error" else 0


def _race(arguments: argparse.Namespace) -> int:
    from mtviz.evaluation.race import summary
    from mtviz.service import NoModel, Service

    try:
        for race in Service(model=arguments.model, dtype=arguments.dtype, heads=arguments.heads).race(arguments.prompt, _settings(arguments)):
            if race["kind"] == "progress":
                print("\r{} | {} tokens ".format(*race["tokens"]), end="", file=sys.stderr, flush=True)
    except (SettingsError, NoModel) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*summary(race), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(race, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.description = "Record presets with the weights of today: each one's trace and its other runs, and the atlas of those that have one. What a stopped run has made of an atlas is kept."
    parser.add_argument("presets", nargs="*", metavar="NAME", help="a preset (default: all)")
    parser.add_argument("--traces-only", action="store_true", help="no atlases")
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory with traces/ and atlas/ (default: the page's own)")
    parser.set_defaults(run=_record)


def _record(arguments: argparse.Namespace) -> int:
    from mtviz.evaluation import atlas
    from mtviz.atlas import stripped
    from mtviz.service import ASSETS, NoModel, Service, runs

    service, out = Service(), arguments.out or ASSETS
    try:
        presets = [service.preset(name) for name in arguments.presets] or service.presets()
        (out / "traces").mkdir(parents=True, exist_ok=True)
        for preset in presets:
            for name, settings in runs(preset).items():
                trace = atlas.run(service.decode, preset["prompt"], settings)
                kept = trace if name == preset["name"] else stripped(trace)
                (out / "traces" / f"{name}.json").write_text(dumps(kept) + "\n", encoding="utf-8")
                print(f"{name}: {len(trace['rounds'])} rounds, {trace['seconds']['total']:.1f} s", flush=True)
        for preset in presets if not arguments.traces_only else []:
            if preset.get("atlas") == preset["name"]:
                print(atlas.record(preset, service.decode, out / "atlas", f"python -m mtviz record {preset['name']}"), flush=True)
    except (SettingsError, NoModel, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    if arguments.ray:
        return _serve_on_ray(arguments.replicas)
    import runpy

    runpy.run_path(str(Path(__file__).resolve().parent.parent / "app.py"), run_name="__main__")
    return 0


def _serve_on_ray(replicas: int) -> int:
    from functools import partial

    from mtviz.hosting import Limits, replicas as ray_serve
    from mtviz.service import Service
    from mtviz.ui import mounted

    given = os.environ.get
    heads = Path(directory) if (directory := given("MTVIZ_HEADS")) else None
    make_service = partial(Service, model=given("MTVIZ_MODEL"), dtype=given("MTVIZ_DTYPE", "bfloat16"), heads=heads)
    host, port = os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"), int(os.environ.get("GRADIO_SERVER_PORT", 7860))
    try:
        app = ray_serve.application(make_service, mounted, Limits.from_environment(), replicas)
    except ImportError:
        print(f"error: {ray_serve.MISSING}", file=sys.stderr)
        return 2
    ray_serve.start(app, host, port)
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(main())
