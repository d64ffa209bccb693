"""Requests as a stranger might send them: types, sizes, unicode, NaN; at the page's events, at the API and around both."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Iterator

from mtviz.settings import Settings

NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2**63, -(2**70), 10**400, 1e308, 1e-320, float("nan"), float("inf"), -float("inf"), 0.1, "", " ", "\n",
    "1", "nan", "null", "ratio", "../../etc/passwd", "\x00", "\x1b[31m", "a\u2028b\x85c\u2029d", "‮", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "👩‍👩‍👧‍👧", "א\u202eב", "\ufffd", "<script>alert(1)</script>",
    "${alert(1)}", "{{7*7}}", "%s%n", "'; DROP TABLE runs; --", "<|im_end|>", "a" * 4001, "字" * 4000, [], [[]], {}, {"a": 1}, ["x"] * 50,
    [[[[[[1]]]]]], {"__type__": "update"}, {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}, {"prompt": {"prompt": 1}},
]  # fmt: skip
PATHS = [
    "gradio_api/file=/etc/passwd", "gradio_api/file=app.py", "gradio_api/file/app.py", "file=/etc/passwd", "static/../app.py", "static/%2e%2e/app.py",
    "assets/..%2f..%2fapp.py", "svelte/..%5c..%5capp.py", "gradio_api/proxy=http://127.0.0.1/", "gradio_api/deep_link?session_hash=a",
    "gradio_api/custom_component/1/client/component/../../../../etc/passwd", "gradio_api/stream/a/b/1/playlist.m3u8", "monitoring", "gradio_api/runs",
    "gradio_api/vibe-code/", "docs", "openapi.json", "gradio_api/openapi.json", "login", "?deep_link=../../etc", "gradio_api/call/stage/1", "....//",
]  # fmt: skip


SHORT = Settings(max_new_tokens=2, drafter="lookup").to_dict()
# Of the page's events those that take what a browser sends; the cost of a pass takes nothing.
EVENTS = ("decode", "race", "compare", "train")


@dataclass(frozen=True)
class Doors:
    """What a page has that can be called, by the names and numbers that its configuration tells everybody."""

    events: tuple[tuple[int, int], ...]  # (number of the function, of the component)
    functions: tuple[tuple[int, str], ...]  # (number of the component, name of the function)

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Doors":
        events = [(entry["id"], *entry["targets"][0]) for entry in config["dependencies"] if entry["backend_fn"] and entry["targets"]]
        drawn = [(part["id"], name) for part in config["components"] for name in part["props"].get("server_fns") or ()]
        return cls(tuple((fn, component) for fn, component, name in events if name in EVENTS), tuple(drawn))


def requests(doors: Doors, count: int, seed: int = 0) -> Iterator[tuple[str, str, bytes | None]]:
    """(method, path, body) `count` times. Bodies are bytes, so that what no JSON library would write can be sent."""
    dice = random.Random(seed)
    for _ in range(count):
        kind = dice.choice(("call", "call", "stage", "stage", "server", "cancel", "raw", "path", "path"))
        if kind == "path":
            yield dice.choice(("GET", "GET", "HEAD", "POST", "PUT", "DELETE")), dice.choice(PATHS), None
        elif kind == "raw":
            garbage = dice.choice((b"", b"{", b"[" * 100_000, b"\xff\xfe", b'"' + b"a" * 1000, dice.randbytes(200), b"1e999999", b"nul"))
            yield "POST", dice.choice(("gradio_api/queue/join", "gradio_api/call/decode", "gradio_api/component_server", "gradio_api/cancel")), garbage
        else:
            path, body = _bodies(kind, doors, dice)
            yield "POST", path, json.dumps(body).encode("utf-8", "surrogatepass")


def _bodies(kind: str, doors: Doors, dice: random.Random) -> tuple[str, Any]:
    def nasty() -> Any:
        return dice.choice(NASTY)

    if kind == "call":
        data = ["hello", *SHORT.values()]
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = nasty()
        return "gradio_api/call/decode", {"data": dice.choice((data, data, data, data[:3], [*data, 1], nasty()))}
    if kind == "server":
        component, name = dice.choice(doors.functions)
        fields = {"component_id": dice.choice((component, component, nasty())), "fn_name": dice.choice((name, name, "__class__", nasty()))}
        return "gradio_api/component_server", {"data": nasty(), "session_hash": dice.choice(("s", nasty())), **fields}
    if kind == "cancel":
        return "gradio_api/cancel", {"session_hash": nasty(), "fn_index": nasty(), "event_id": nasty()}
    settings = {**SHORT, dice.choice(("threshold", "seed", "rule", "hack")): nasty()}
    event = {"prompt": dice.choice(("hello", nasty())), "settings": dice.choice((settings, nasty()))}
    fn, component = dice.choice(doors.events)
    named = {"fn_index": dice.choice((fn, fn, fn, fn, nasty())), "trigger_id": dice.choice((component, component, component, nasty()))}
    return "gradio_api/queue/join", {"data": [], "event_data": dice.choice((event, event, nasty())), "session_hash": f"fuzz{dice.random()}", **named}
