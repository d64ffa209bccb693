"""The steps of the Dockerfile without Docker: python tests/load/docker_steps.py [--keep DIR] [--wheels DIR]

An empty directory is the root, a fresh virtual environment its Python, and nothing of this shell's environment is passed on. What
.dockerignore leaves out is not copied. At the end the app is started as CMD says, and asked as HEALTHCHECK says.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 3 * 10**9 - 150_000_000  # of the image, less its base


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(instruction, arguments) with continued lines joined and comments left out."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    for line in filter(str.strip, joined.splitlines()):
        name, _, rest = line.strip().partition(" ")
        yield name, rest.strip()


def context(root: Path) -> list[Path]:
    """The tracked files that .dockerignore lets into the build."""
    ignored = (root / ".dockerignore").read_text(encoding="utf-8").split()
    tracked = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    tops = [pattern for pattern in ignored if "**" not in pattern]
    return [Path(name) for name in tracked if not any(fnmatch.fnmatch(name.split("/")[0], pattern) for pattern in tops)]


class CleanRoot:
    def __init__(self, home: Path):
        self.home, self.app = home, home / "app"
        self.app.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        self.environment = {"PATH": f"{home / 'venv/bin'}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}

    def run(self, command: str) -> None:
        print(f"+ {command[:150]}", flush=True)
        began = time.monotonic()
        subprocess.run(command, shell=True, cwd=self.app, env=self.environment, check=True)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)

    def copy(self, arguments: str) -> None:
        *sources, _ = [word for word in arguments.split() if not word.startswith("--")]
        for path in context(ROOT):
            if sources == ["."] or str(path) in sources:
                (self.app / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self.app / path)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.home.rglob("*") if path.is_file() and not path.is_symlink())


def build(home: Path, port: int, wheels: Path | None) -> None:
    root = CleanRoot(home)
    command, probe = [], ""
    for name, rest in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        if name == "ENV":
            given = dict(re.findall(r"(\w+)=(\S+)", rest))
            root.environment |= {key: value for key, value in given.items() if key not in ("HOME", "PATH", "GRADIO_SERVER_PORT")}
        elif name == "COPY":
            root.copy(rest)
        elif name == "RUN" and not rest.startswith(("useradd", "apt-get")):  # not ours to do on this machine
            root.run(re.sub(r"--extra-index-url \S+", f"--find-links {wheels}", rest) if wheels else rest)
        elif name == "CMD":
            command = json.loads(rest)
        elif name == "HEALTHCHECK":
            probe = rest.partition("CMD ")[2].replace("7860", str(port))
    size = root.size()
    print(f"{size / 1e9:.2f} GB, without the base image", flush=True)
    assert size < MOST_BYTES, "the image is too large"
    app = subprocess.Popen(command, cwd=root.app, env={**root.environment, "GRADIO_SERVER_PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1"})
    try:
        for _ in range(120):
            time.sleep(1)
            if subprocess.run(probe, shell=True, env=root.environment, stderr=subprocess.DEVNULL).returncode == 0:
                print("healthy", flush=True)
                return
        raise SystemExit("the health check never succeeded")
    finally:
        app.terminate()
        app.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="an empty directory to build in, and to leave there")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="has the wheel of torch, where PyTorch's own index is out of reach")
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", 7861)))
    arguments = parser.parse_args()
    if arguments.keep:
        build(arguments.keep, arguments.port, arguments.wheels)
        return
    with tempfile.TemporaryDirectory() as home:
        build(Path(home), arguments.port, arguments.wheels)


if __name__ == "__main__":
    main()
