"""Responses that differ from Gradio's: a cached page, errors, and ends of streams.

These are plain middlewares; of Gradio they know only its addresses.
"""

import asyncio
import gzip
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs

import anyio
import httpx
from fastapi import HTTPException
from gradio.route_utils import FnIndexInferError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.app.gradio_faults import WRONG
from bias_core.report.saved import Newest
from bias_core.ui.templates import script

_log = logging.getLogger(__name__)
_INFO = "/gradio_api/info"
_PREPARED = {"/", "/config", _INFO}
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_NOWHERE = "page.invalid"  # in the place of the address
_AFTER_CONFIG = b"script>window.gradio_api_info = "  # in no text of the page, where Gradio writes > otherwise
_HEAD, _HEAD_BYTES = b"<head>", 4_096
_GRADIOS_PREVIEW = re.compile(rb'<meta\s+(?:property="og|name="twitter):[^<>]*>\s*')  # shows Gradio, not this page
_PIECE = 65_536  # bytes
_MOST_ADDRESSES = 8
_PAUSE = 1.0  # seconds between two compressed pages, because a sender can invent addresses faster


@dataclass(frozen=True, kw_only=True)
class _Page:
    """A cached answer: its bytes between the occurrences of the address."""

    media_type: str
    parts: list[bytes]


class FirstPage:
    """Serves the cached page, its description and that of its tools.

    Gradio describes all of it again for each visitor: 2 MB, and as much work as classifying ten pictures. Only the
    address differs, whatever else a link contains.
    """

    def __init__(self, app: ASGIApp, tags: Callable[[str, str], str] = lambda run_id, address: "") -> None:  # noqa: ARG005
        self._app, self._tags = app, tags
        self._pages: dict[object, _Page] = {}
        self._making = asyncio.Lock()  # simultaneous first requests make it once
        self._compressed, self._next = Newest[bytes](_MOST_ADDRESSES), 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page, made on its first request; pass on other requests."""
        path = scope.get("path", "").rstrip("/") or "/"
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or path not in _PREPARED:
            await self._app(scope, receive, send)
            return
        has_all = path == _INFO and "all_endpoints" in parse_qs(scope["query_string"].decode("latin-1"))
        key = (path, scope.get("root_path", ""), has_all)
        messages: list[Message] = []
        async with self._making:
            if key not in self._pages:
                await self._app(_from_nowhere(scope, path, has_all), receive, _into(messages))
                page = await anyio.to_thread.run_sync(_find_page, messages)
                if page is not None:
                    self._pages[key] = page
        if key not in self._pages:  # an error, or no page: sent unchanged
            for message in messages:
                await send(message)
            return
        await (await self._answer(key, scope))(scope, receive, send)

    async def _answer(self, key: object, scope: Scope) -> Response:
        page, request, origin = self._pages[key], Headers(scope=scope), _get_origin(scope)
        parts = page.parts
        tags = await self._preview(scope, origin)
        if tags:
            parts = [parts[0].replace(_HEAD, _HEAD + tags, 1), *parts[1:]]
        headers = {"content-type": page.media_type, "vary": "Accept-Encoding"}
        if "gzip" in request.get("accept-encoding", ""):
            compressed, now = self._compressed.get((key, origin, tags)), time.monotonic()
            if compressed is None and now >= self._next:
                self._next = now + _PAUSE
                compressed = await anyio.to_thread.run_sync(gzip.compress, origin.join(parts), 6)
                self._compressed.put((key, origin, tags), compressed)
            if compressed is not None:
                return _stream_pieces([compressed], b"", headers | {"content-encoding": "gzip"})
        return _stream_pieces(parts, origin, headers)

    async def _preview(self, scope: Scope, origin: bytes) -> bytes:
        """The tags of the shared result that a link leads to; empty for other links."""
        run_ids = parse_qs(scope["query_string"].decode("latin-1")).get("run", [])
        if not run_ids or scope["path"].rstrip("/"):
            return b""
        address = origin.decode() + scope.get("root_path", "").rstrip("/")
        return (await anyio.to_thread.run_sync(self._tags, run_ids[0], address)).encode()


def _stream_pieces(parts: list[bytes], between: bytes, headers: dict[str, str]) -> Response:
    """Pieces of an answer as fast as they are read, so an unread one takes no memory."""

    async def pieces() -> AsyncIterator[bytes]:
        for n, part in enumerate(parts):
            if n:
                yield between
            for start in range(0, len(part), _PIECE):
                yield part[start : start + _PIECE]

    length = sum(map(len, parts)) + (len(parts) - 1) * len(between)
    return StreamingResponse(pieces(), headers=headers | {"content-length": str(length)})


def _get_origin(scope: Scope) -> bytes:
    """The requested address, as a proxy gives it, with a valid host."""
    headers = Headers(scope=scope)
    host, proto = (headers.get(f"x-forwarded-{name}", "").split(",")[0].strip() for name in ("host", "proto"))
    if not _HOST.fullmatch(host):
        host = headers.get("host", "")
    scheme = "https" if "https" in (proto, scope["scheme"]) else "http"
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}".encode()


def _from_nowhere(scope: Scope, path: str, has_all: bool) -> Scope:
    """The request for a page, with :data:`_NOWHERE` as its host."""
    query = b"all_endpoints=True" if has_all else b""
    headers = [(b"host", _NOWHERE.encode())]
    return {**scope, "method": "GET", "path": path, "query_string": query, "headers": headers, "scheme": "http"}


def _into(messages: list[Message]) -> Send:
    async def keep(message: Message) -> None:
        messages.append(message)

    return keep


def _find_page(messages: list[Message]) -> _Page | None:
    """The page in an answer, with the scripts for a quick start; None if it has no page."""
    if messages[0]["status"] != 200:
        return None
    body = b"".join(message.get("body", b"") for message in messages[1:])
    body = _GRADIOS_PREVIEW.sub(b"", body[:_HEAD_BYTES]) + body[_HEAD_BYTES:]
    before, after_config, after = body.partition(_AFTER_CONFIG)
    if after_config:
        scripts = "".join(f"{{{script(name)}}}" for name in ("storage", "constant")).encode()
        body = before + after_config.replace(b">", b">" + scripts) + after
    media_type = Headers(raw=messages[0]["headers"]).get("content-type", "")
    return _Page(media_type=media_type, parts=body.split(f"http://{_NOWHERE}".encode()))


_OWN = "/label"  # routes that are not Gradio's
_NOT_ANSWERED = (
    "This request cannot be answered: there is no such event or file, or its inputs differ. /gradio_api/info "
    "lists the events that programs may ask for, with their inputs."
)


class ErrorAsSentence:
    """Answers with a sentence if a request makes Gradio's routes raise, and logs one line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request; answer if that fails."""
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except (*WRONG, FnIndexInferError, httpx.InvalidURL) as error:
            if has_begun or scope["type"] != "http" or scope["path"].startswith(_OWN):
                raise
            path, reason = ascii(scope["path"]), ascii(f"{type(error).__name__}: {error}")
            _log.warning("%s %.100s was not answered: %.200s", scope["method"], path, reason)
            content = {"error": _NOT_ANSWERED, "detail": _NOT_ANSWERED}
            await JSONResponse(content, status_code=400)(scope, receive, send)


class Opening:
    """Notes whether a browser has asked for the page, and whether the first events of a page are all answered."""

    def __init__(self) -> None:
        self.asked, self.answered = threading.Event(), threading.Event()

    def wait(self, ask_seconds: float, answer_seconds: float) -> None:
        """Wait for a browser, if one comes in time, and then until it has its page."""
        if self.asked.wait(ask_seconds):
            self.answered.wait(answer_seconds)


class OpeningWatch:
    """Fills an :class:`Opening`: a browser asks for HTML, and its stream of answers ends when no event waits."""

    def __init__(self, app: ASGIApp, opening: Opening) -> None:
        self._app, self._opening = app, opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request."""
        path = scope["path"].rstrip("/") if scope["type"] == "http" else None
        if path == "" and "text/html" in Headers(scope=scope).get("accept", ""):
            self._opening.asked.set()
        await self._app(scope, receive, send)
        if path is not None and path.endswith(_STREAM):
            self._opening.answered.set()


_STREAM, _EVENT, _CALL = "/gradio_api/queue/data", "/gradio_api/queue/join", "/gradio_api/call/"
_LAST_WORD = b'data: {"msg":"close_stream"'  # of a stream
_MOST_SECONDS = 3  # for a page to close an ended stream


class StreamEnd:
    """Accepts an event only once the page knows that its last stream of answers has ended, so that it opens a new one.

    Gradio ends the stream when no event waits. An event that the page sends before it knows would never be answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ending: dict[str, asyncio.Event] = {}  # by page; set when the page has closed its side

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow streams to their end; events wait for it."""
        path = scope["path"].rstrip("/") if scope["type"] == "http" else ""
        is_stream = path.endswith(_STREAM) or (_CALL in path and scope["method"] == "GET")
        follow = self._stream if is_stream else self._event if path.endswith(_EVENT) else self._app
        await follow(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        page, ended = scope["page"], asyncio.Event()

        async def noting(message: Message) -> None:
            if message.get("body", b"").startswith(_LAST_WORD):
                self._ending[page] = ended
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if is_last and self._ending.get(page) is ended:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(_gone(receive), _MOST_SECONDS)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except RuntimeError as error:  # Gradio reports an unknown session, then raises
            if not isinstance(error.__cause__, HTTPException):
                raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            ended.set()
            if self._ending.get(page) is ended:
                del self._ending[page]

    async def _event(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def waiting(message: Message) -> None:
            if ended := self._ending.get(scope["page"]):
                await ended.wait()
            await send(message)

        await self._app(scope, receive, waiting)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
