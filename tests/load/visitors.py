"""Visitors without a browser: what Gradio's page does when Decode is pressed, many at a time."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, AsyncIterator

import httpx

API = "gradio_api"


@dataclass
class Visit:
    """What one visitor met. Seconds are on the visitors' own clock (`time.monotonic`)."""

    asked: float
    first_text: float | None = None  # the first update with a Trace in it
    finished: float | None = None
    waited_at: list[int] = field(default_factory=list)  # runs ahead, as told while in line
    text: str = ""
    error: str | None = None

    @property
    def served(self) -> bool:
        return self.finished is not None and '{"end":' in self.text


class Hall:
    """The address of a running app, and how its Decode event is called."""

    def __init__(self, url: str, config: dict[str, Any]):
        self.url = url.rstrip("/")
        (event,) = [entry for entry in config["dependencies"] if entry["api_name"] == "stage" and entry["backend_fn"]]
        self.fn_index, ((self.component, _),) = event["id"], event["targets"]

    @classmethod
    async def at(cls, client: httpx.AsyncClient, url: str) -> "Hall":
        return cls(url, (await client.get(f"{url.rstrip('/')}/config")).json())

    async def join(self, client: httpx.AsyncClient, request: Any, **changed: Any) -> tuple[str, httpx.Response]:
        session = uuid.uuid4().hex[:12]
        body = {"data": [], "fn_index": self.fn_index, "event_data": request, "trigger_id": self.component, "session_hash": session}
        return session, await client.post(f"{self.url}/{API}/queue/join", json={**body, **changed})

    async def messages(self, client: httpx.AsyncClient, session: str) -> AsyncIterator[dict[str, Any]]:
        async with client.stream("GET", f"{self.url}/{API}/queue/data", params={"session_hash": session}) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    async def visit(self, client: httpx.AsyncClient, request: Any, *, leave_after: float | None = None) -> Visit:
        """Press Decode and watch to the end, or close the connection `leave_after` seconds after the first text."""
        visit = Visit(time.monotonic())
        session, joined = await self.join(client, request)
        if joined.status_code != 200:
            visit.error = f"{joined.status_code} {joined.text[:200]}"
            return visit
        value = None
        async for message in self.messages(client, session):
            if message["msg"] in ("process_generating", "process_completed"):
                output = message.get("output") or {}
                if not message.get("success", True):
                    visit.error = str(output.get("error"))
                    return visit
                if output.get("data"):
                    value = _applied(value, output["data"][0])
                if isinstance(value, str):
                    self._read(visit, value)
            if message["msg"] == "process_completed":
                visit.finished = time.monotonic()
                return visit
            if leave_after is not None and visit.first_text and time.monotonic() - visit.first_text >= leave_after:
                return visit
        return visit

    @staticmethod
    def _read(visit: Visit, value: str) -> None:
        head = json.loads(value.partition("\n")[0])
        if "ahead" in head:
            visit.waited_at.append(head["ahead"])
            return
        visit.text = value
        if visit.first_text is None and '{"trace":' in value:
            visit.first_text = time.monotonic()


def _applied(value: Any, update: Any) -> Any:
    """Gradio sends the first value whole, and later ones as differences to it."""
    if not isinstance(update, list):
        return value if isinstance(update, dict) and update.get("__type__") == "update" else update
    for action, path, new in update:
        if path:
            raise ValueError(f"a difference inside a text: {path}")
        value = value + new if action == "append" else new
    return value


def client(visitors: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=2 * visitors + 10, max_keepalive_connections=0)
    return httpx.AsyncClient(timeout=httpx.Timeout(600), limits=limits)


async def all_at_once(hall: Hall, http: httpx.AsyncClient, requests: list[Any], **options: Any) -> list[Visit]:
    return list(await asyncio.gather(*(hall.visit(http, request, **options) for request in requests)))
