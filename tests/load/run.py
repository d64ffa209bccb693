"""The whole hall by one command: python tests/load/run.py [--trunk scripted|real] [--scenes NAME …] [--write]

Starts the app in a process of its own on this machine, sends it visitors, and prints the figures; with --write they also go into
the table of docs/hosting.md. Nothing leaves localhost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

import httpx  # noqa: E402
import scenes  # noqa: E402
import visitors  # noqa: E402

from mtviz.settings import Settings  # noqa: E402

TABLE = ROOT / "docs" / "hosting.md"
SCENES = ("preset", "prompts", "leavers", "leaks", "fuzz")


class Server:
    """The app as a process, and what it holds of its machine."""

    def __init__(self, trunk: str, pass_seconds: float, log: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}/", log
        with log.open("wb") as output:
            command = [sys.executable, str(HERE / "server.py"), str(port), trunk, str(pass_seconds)]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                httpx.get(self.url + "healthz", timeout=2).raise_for_status()
                return
            except httpx.HTTPError:
                time.sleep(0.3)
        self.stop()
        raise SystemExit(f"the app did not start:\n{log.read_text()[-2000:]}")

    def holds(self) -> dict[str, float]:
        """Resident memory in MB, threads, open files."""
        proc = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
        return {"mb": int(status["VmRSS"].split()[0]) / 1024, "threads": int(status["Threads"]), "files": len(list((proc / "fd").iterdir()))}

    def runs(self) -> int:
        """Computations so far, by the log."""
        return sum('"event": "run"' in line for line in self.log.read_text().splitlines())

    def exceptions(self) -> Counter[str]:
        """Exceptions that nobody handled so far, by the log."""
        return Counter(re.findall(r'"exception": "(\w+)"', self.log.read_text()))

    def seconds(self) -> float:
        """Of processor time so far: unlike the time on the clock, about the same on a busy machine."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def asked(prompt: str, **settings: Any) -> dict[str, Any]:
    return {"prompt": prompt, "settings": {**Settings(max_new_tokens=48).to_dict(), **settings}}


async def play(server: Server, names: list[str], runs: int, calls: int) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []

    def row(what: str, came_of_it: str) -> None:
        rows.append((what, came_of_it))
        print(f"{what}: {came_of_it}", flush=True)

    async with visitors.client(250) as http:
        hall = await visitors.Hall.at(http, server.url)
        await scenes.many_runs(hall, http, 2, asked("warm", max_new_tokens=4))
        if "preset" in names:
            before, spent = server.runs(), server.seconds()
            preset = json.loads((ROOT / "assets" / "presets.json").read_text(encoding="utf-8"))[0]
            seen = await scenes.one_preset(hall, http, 200, asked(preset["prompt"], **preset["settings"]))
            row("200 visitors press Decode on one preset", f"{seen.served} served by {server.runs() - before} computation; the first after "
                f"{seen.first_result:.1f} s, the last {seen.last_after_first:.1f} s later; {server.seconds() - spent:.1f} s of one core in all")  # fmt: skip
        if "prompts" in names:
            began = server.holds()
            seen = await scenes.different_prompts(hall, http, [asked(f"Tell me about the number {i}.") for i in range(30)])
            told = sum(bool(visit.waited_at) for visit in seen.visits)
            lost = sum(not visit.served for visit in seen.visits)
            row("30 visitors, 30 prompts of 48 new tokens", f"{seen.served} served, {told} of them told their place meanwhile, {lost} lost; "
                f"the last after {seen.first_result + seen.last_after_first:.1f} s; memory {server.holds()['mb'] - began['mb']:+.1f} MB")  # fmt: skip
        if "leavers" in names:
            freed = await scenes.leavers(hall, http, 20, asked("A very long story", max_new_tokens=1000))
            row("20 visitors close the tab mid-run or in line", f"device and line free {freed:.1f} s after the last has left")
        if "leaks" in names:
            small = asked("Again and again", max_new_tokens=8)
            await scenes.many_runs(hall, http, runs // 5, small)  # fills what is filled once
            await asyncio.sleep(12)  # idle worker threads end after ten seconds
            before = server.holds()
            served = await scenes.many_runs(hall, http, runs, {**small, "prompt": "Once more"})
            await asyncio.sleep(12)
            after = server.holds()
            row(f"{runs} runs, four at a time", f"{served} served; memory {after['mb'] - before['mb']:+.1f} MB (of {after['mb']:.0f}), threads "
                f"{after['threads'] - before['threads']:+d} (of {after['threads']}), open files {after['files'] - before['files']:+d} (of {after['files']})")  # fmt: skip
        if "fuzz" in names:
            storm = await scenes.fuzz(http, server.url, calls)
            (visit,) = await visitors.all_at_once(hall, http, [asked("After the storm")])
            statuses = ", ".join(f"{count}× {status}" for status, count in sorted(storm.statuses.items()))
            row(f"{calls} hostile calls", f"{storm.answered} answered ({statuses}), {len(storm.hung)} hung, {len(storm.tracebacks)} with a traceback; "
                f"unhandled on the server: {dict(server.exceptions()) or 'nothing'}; the next visitor was {'served' if visit.served else 'NOT served'}")  # fmt: skip
            print(*storm.tracebacks[:3], *storm.hung[:3], sep="\n")
    return rows


def write(rows: list[tuple[str, str]], trunk: str) -> None:
    """Rows of this trunk replace those of the same name; the others stay."""
    text = TABLE.read_text(encoding="utf-8")
    label = {"scripted": "scripted model", "real": "real model"}[trunk]
    for what, came_of_it in rows:
        row = f"| {what} | {label} | {came_of_it} |"
        old = re.search(rf"^\| {re.escape(what)} \| {label} \| .*$", text, re.MULTILINE)
        text = text.replace(old[0], row) if old else text.replace("<!-- end of figures -->", f"{row}\n<!-- end of figures -->")
    TABLE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trunk", choices=("scripted", "real"), default="scripted")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--runs", type=int, default=500, help="runs of the scene `leaks`")
    parser.add_argument("--calls", type=int, default=2000, help="calls of the scene `fuzz`")
    parser.add_argument("--pass-ms", type=float, default=20, help="milliseconds of a scripted pass")
    parser.add_argument("--log", type=Path, default=Path("/tmp/mtviz-load.log"))
    parser.add_argument("--write", action="store_true", help="into docs/hosting.md")
    arguments = parser.parse_args()
    server = Server(arguments.trunk, arguments.pass_ms / 1000, arguments.log)
    try:
        rows = asyncio.run(play(server, arguments.scenes, arguments.runs, arguments.calls))
    finally:
        server.stop()
    print(f"on {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
    if arguments.write:
        write(rows, arguments.trunk)


if __name__ == "__main__":
    main()
