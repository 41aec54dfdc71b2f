"""The page as a visitor is sent it: made once for all, compressed for each address, and quick to start."""

import gzip
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.study.saved import Newest
from bias_core.ui.templates import script

_INFO = "/gradio_api/info"
_PREPARED = {"/", "/config", _INFO}
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_NOWHERE = "page.invalid"  # in the place of the address
_AFTER_CONFIG = b"script>window.gradio_api_info = "  # in no text of the page, where Gradio writes > otherwise
_PIECE = 65_536  # bytes
_MOST_ADDRESSES = 8
_PAUSE = 1.0  # seconds between two that are compressed; addresses can be made up faster


@dataclass(frozen=True, kw_only=True)
class _Page:
    """One answer; its bytes between the places where the address stands."""

    media_type: str
    parts: list[bytes]


class FirstPage:
    """Answers with the page, its description and that of its tools as they were made before.

    Gradio describes all of it anew for each visitor, 2 MB and as much work as a reading of ten pictures; nothing but
    the address differs, whatever else a link asks for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._pages: dict[object, _Page] = {}
        self._compressed, self._next = Newest[bytes](_MOST_ADDRESSES), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is no page; else make it where it is not known yet, and send it."""
        path = scope.get("path", "").rstrip("/") or "/"
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or path not in _PREPARED:
            await self._app(scope, receive, send)
            return
        has_all = path == _INFO and "all_endpoints" in parse_qs(scope["query_string"].decode("latin-1"))
        key = (path, scope.get("root_path", ""), has_all)
        if key not in self._pages:
            messages: list[Message] = []
            await self._app(_from_nowhere(scope, path, has_all), receive, _into(messages))
            page = await anyio.to_thread.run_sync(_page_of, messages)
            if page is None:  # an error, or no page: as it came
                for message in messages:
                    await send(message)
                return
            self._pages[key] = page
        await (await self._answer(key, scope))(scope, receive, send)

    async def _answer(self, key: object, scope: Scope) -> Response:
        page, request, origin = self._pages[key], Headers(scope=scope), _origin(scope)
        headers = {"content-type": page.media_type, "vary": "Accept-Encoding"}
        if "gzip" in request.get("accept-encoding", ""):
            compressed, now = self._compressed.get((key, origin)), time.monotonic()
            if compressed is None and now >= self._next:
                self._next = now + _PAUSE
                compressed = await anyio.to_thread.run_sync(gzip.compress, origin.join(page.parts), 6)
                self._compressed.put((key, origin), compressed)
            if compressed is not None:
                return _in_pieces([compressed], b"", headers | {"content-encoding": "gzip"})
        return _in_pieces(page.parts, origin, headers)


def _in_pieces(parts: list[bytes], between: bytes, headers: dict[str, str]) -> Response:
    """Parts of an answer, a piece after the other as fast as they are read: an unread one takes no memory."""

    async def pieces() -> AsyncIterator[bytes]:
        for n, part in enumerate(parts):
            if n:
                yield between
            for start in range(0, len(part), _PIECE):
                yield part[start : start + _PIECE]

    length = sum(map(len, parts)) + (len(parts) - 1) * len(between)
    return StreamingResponse(pieces(), headers=headers | {"content-length": str(length)})


def _origin(scope: Scope) -> bytes:
    """The address that a page was asked under, as a proxy tells it; of the host, what can stand in one."""
    headers = Headers(scope=scope)
    host, proto = (headers.get(f"x-forwarded-{name}", "").split(",")[0].strip() for name in ("host", "proto"))
    if not _HOST.fullmatch(host):
        host = headers.get("host", "")
    scheme = "https" if "https" in (proto, scope["scheme"]) else "http"
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}".encode()


def _from_nowhere(scope: Scope, path: str, has_all: bool) -> Scope:
    """The request for a page as :data:`_NOWHERE` would have it."""
    query = b"all_endpoints=True" if has_all else b""
    headers = [(b"host", _NOWHERE.encode())]
    return {**scope, "method": "GET", "path": path, "query_string": query, "headers": headers, "scheme": "http"}


def _into(messages: list[Message]) -> Send:
    async def keep(message: Message) -> None:
        messages.append(message)

    return keep


def _page_of(messages: list[Message]) -> _Page | None:
    """The page in an answer, with the scripts that let it start, and quickly; None where there is none."""
    if messages[0]["status"] != 200:
        return None
    body = b"".join(message.get("body", b"") for message in messages[1:])
    before, after_config, after = body.partition(_AFTER_CONFIG)
    if after_config:
        scripts = "".join(f"{{{script(name)}}}" for name in ("storage", "constant")).encode()
        body = before + after_config.replace(b">", b">" + scripts) + after
    media_type = Headers(raw=messages[0]["headers"]).get("content-type", "")
    return _Page(media_type=media_type, parts=body.split(f"http://{_NOWHERE}".encode()))
