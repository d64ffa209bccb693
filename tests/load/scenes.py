"""What a hall full of visitors does, each scene with the figures that it is judged by."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import hostile
import httpx
from visitors import Hall, Visit, all_at_once


@dataclass
class ClassSeen:
    served: int
    refused: int
    first_result: float  # seconds from the click to the first visitor's end
    last_after_first: float  # seconds between the first visitor's end and the last one's
    visits: list[Visit]


def seen(visits: list[Visit]) -> ClassSeen:
    ends = sorted(visit.finished for visit in visits if visit.served and visit.finished)
    began = min(visit.asked for visit in visits)
    refused = sum('"code":"full"' in visit.text for visit in visits)
    return ClassSeen(len(ends), refused, ends[0] - began if ends else 0.0, ends[-1] - ends[0] if ends else 0.0, visits)


async def one_preset(hall: Hall, http: httpx.AsyncClient, visitors: int, request: Any) -> ClassSeen:
    return seen(await all_at_once(hall, http, [request] * visitors))


async def different_prompts(hall: Hall, http: httpx.AsyncClient, requests: list[Any]) -> ClassSeen:
    return seen(await all_at_once(hall, http, requests))


async def leavers(hall: Hall, http: httpx.AsyncClient, visitors: int, request: dict[str, Any]) -> float:
    """Each asks for a long run of their own and closes the tab once it shows something. Seconds from the last one's leaving
    until nothing runs or waits."""
    requests = [{**request, "prompt": f"{request['prompt']} {i}"} for i in range(visitors)]

    async def leave(wanted: Any) -> None:
        await hall.visit(http, wanted, leave_after=0.2)

    tasks = [asyncio.create_task(leave(wanted)) for wanted in requests]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:  # those still in line close their tab too
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return await idle(hall, http)


async def idle(hall: Hall, http: httpx.AsyncClient) -> float:
    """Seconds until nothing runs or waits."""
    began = time.monotonic()
    while True:
        health = (await http.get(f"{hall.url}/healthz")).json()
        if not health["running"] and not health["waiting"]:
            return time.monotonic() - began
        await asyncio.sleep(0.05)


async def many_runs(hall: Hall, http: httpx.AsyncClient, runs: int, request: dict[str, Any], at_once: int = 4) -> int:
    """`runs` different runs, `at_once` at a time; how many were served."""
    left = iter(range(runs))
    served = 0

    async def visitor() -> None:
        nonlocal served
        for i in left:
            visit = await hall.visit(http, {**request, "prompt": f"{request['prompt']} {i}"})
            served += visit.served

    await asyncio.gather(*(visitor() for _ in range(at_once)))
    return served


@dataclass
class Storm:
    answered: int = 0
    hung: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)


async def fuzz(http: httpx.AsyncClient, url: str, count: int, seconds: float = 180.0) -> Storm:
    """`count` hostile requests, eight at a time. What an accepted call comes to is read as well, to its end."""
    base = url.rstrip("/")
    storm, left = Storm(), hostile.requests(hostile.Doors.of((await http.get(f"{base}/config")).json()), count)

    async def judge(answer: httpx.Response) -> None:
        storm.statuses[answer.status_code] = storm.statuses.get(answer.status_code, 0) + 1
        if "Traceback (most recent call last)" in answer.text or "site-packages" in answer.text:
            storm.tracebacks.append(answer.text[:500])

    async def one(method: str, path: str, body: bytes | None) -> None:
        answer = await http.request(method, f"{base}/{path}", content=body, headers={"content-type": "application/json"} if body is not None else None)
        await judge(answer)
        if answer.status_code == 200 and path == "gradio_api/call/decode":
            await judge(await http.get(f"{base}/{path}/{answer.json()['event_id']}"))
        if answer.status_code == 200 and path == "gradio_api/queue/join":
            await judge(await http.get(f"{base}/gradio_api/queue/data", params={"session_hash": json.loads(body or b"")["session_hash"]}))

    async def stranger() -> None:
        for request in left:
            try:
                await asyncio.wait_for(one(*request), seconds)
                storm.answered += 1
            except TimeoutError:
                storm.hung.append(f"{request[1]} {(request[2] or b'')[:300]!r}")

    await asyncio.gather(*(stranger() for _ in range(8)))
    return storm
