"""Two model replicas on one machine: python tests/load/on_ray.py, where requirements-ray.txt is installed.

Eight visitors with different prompts, two runs at a time; forty with the same one; one that leaves. Exits with 1 where something
does not hold.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]
sys.path[:0] = PATHS

import ray  # noqa: E402
import scenes  # noqa: E402
import server  # noqa: E402
import visitors  # noqa: E402

from mtviz.hosting import Limits, replicas  # noqa: E402
from mtviz.settings import Settings  # noqa: E402
from mtviz.ui import mounted  # noqa: E402

PORT = 8765
KEPT = '"source":"kept"'


def asked(prompt: str, **settings) -> dict:
    return {"prompt": prompt, "settings": {**Settings(max_new_tokens=24).to_dict(), **settings}}


async def most_at_once(hall: visitors.Hall, http, until: asyncio.Task) -> int:
    most = 0
    while not until.done():
        most = max(most, (await http.get(f"{hall.url}/healthz")).json()["running"])
        await asyncio.sleep(0.05)
    return most


async def play() -> bool:
    async with visitors.client(100) as http:
        hall = await visitors.Hall.at(http, f"http://127.0.0.1:{PORT}/")
        await hall.visit(http, asked("warm"))
        class_ = asyncio.create_task(scenes.different_prompts(hall, http, [asked(f"prompt {i}", max_new_tokens=60) for i in range(8)]))
        most = await most_at_once(hall, http, class_)
        seen = await class_
        print(f"8 prompts on two replicas: {seen.served} served, {most} runs at once, {seen.first_result + seen.last_after_first:.1f} s")
        same = await scenes.one_preset(hall, http, 40, asked("the same"))
        print(f"40 on one prompt: {same.served} served, the last {same.last_after_first:.1f} s after the first")
        again = await hall.visit(http, asked("the same"))
        print("again:", "kept" if KEPT in again.text else "COMPUTED AGAIN")
        freed = await scenes.leavers(hall, http, 4, asked("long", max_new_tokens=800))
        print(f"4 leave: free after {freed:.1f} s")
        return seen.served == 8 and most == 2 and same.served == 40 and KEPT in again.text and freed < 5


def main() -> int:
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(PATHS)}})
    app = replicas.application(server.scripted_service, mounted, Limits(), replicas=2)
    replicas.start(app, "127.0.0.1", PORT, blocking=False)
    time.sleep(2)
    holds = asyncio.run(play())
    ray.shutdown()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
