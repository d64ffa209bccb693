"""What stands between the network and the page: the addresses that exist, how much may be sent, and the headers."""

from __future__ import annotations

import json
import re
from typing import Any, Callable

from mtviz.hosting.limits import Limits

# Gradio has many addresses that this page does not use, some of which read or write files or fetch other sites' pages:
# uploads, file=, proxy=, deep links, recordings. Only what the page and Gradio's clients need is let through.
_ADDRESSES = re.compile(
    r"/(?:|config/?|healthz|theme\.css|favicon\.ico|robots\.txt|manifest\.json"
    r"|(?:static|assets|svelte)/[^\\]+"
    r"|gradio_api/(?:info/?|app_id/?|login_check/?|theme\.css|startup-events|queue/(?:join|data|status)"
    r"|call/(?:v2/)?decode/?(?:/[0-9a-f]+)?|cancel|reset/?|heartbeat/\w+|component_server/?))"
)

App = Callable[[dict[str, Any], Any, Any], Any]


class Guard:
    """ASGI middleware. `health` gives the figures for `/healthz`."""

    def __init__(self, app: App, limits: Limits, health: Callable[[], dict[str, Any]]):
        self._app, self._health = app, health
        self._most = limits.max_request_kilobytes * 1024
        # Gradio's page has inline scripts and compiles its templates, so the policy confines where from, not what.
        policy = (
            "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; media-src 'none'; object-src 'none'; worker-src 'self' blob:; "
            f"connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors {limits.frame_ancestors}"
        )
        self._headers = [
            (b"content-security-policy", policy.encode("ascii")),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
        ]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})

        async def with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            await send(message)

        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == "/healthz":
            return await _answer(with_headers, 200, self._health())
        if not _ADDRESSES.fullmatch(path) or ".." in path:
            return await _answer(with_headers, 404, {"detail": "Not found"})
        if scope["method"] in ("POST", "PUT", "PATCH"):
            body = await self._read(receive)
            if body is None:
                return await _answer(with_headers, 413, {"detail": f"At most {self._most // 1024} kB may be sent"})
            receive = _again(body, receive)
        await self._app(scope, receive, with_headers)

    async def _read(self, receive: Any) -> bytes | None:
        """The whole body, or None where it is too large."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._most:
                return None
            if not message.get("more_body"):
                return body


def _again(body: bytes, receive: Any) -> Any:
    given = False

    async def replayed() -> dict[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _answer(send: Any, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode("utf-8")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
