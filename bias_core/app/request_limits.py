"""Limits on a request's size and names, checked before anything else reads it."""

import asyncio
import json
import re
from asyncio import BaseTransport, TimerHandle
from collections import Counter
from typing import Any
from urllib.parse import parse_qs

import h11
import uvicorn.config
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from bias_core.app.doors import API, MCP
from bias_core.run.run_queue import get_client_network
from bias_core.ui.messages import user_errors
from bias_core.values import check_texts

UPLOAD = f"{API}/upload"
_LONGEST_HEAD, _MOST_HEADERS, _MOST_SECONDS_OF_HEAD = 32_000, 100, 30
_LONGEST_ADDRESS = 16_000  # a link with a filled form has a few thousand characters
_MOST_BYTES = 2_000_000  # of one body
_MOST_TOGETHER, _MOST_OF_ADDRESS = 64_000_000, 16_000_000  # bytes of all current bodies, and of one address
_MOST_SECONDS = 60  # for a body to arrive
_MOST_VALUES, _DEEPEST = 50_000, 50  # values in a body of JSON, and its levels
_LONGEST = 3000  # characters of a text over MCP, because the library's errors quote all of it
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # Gradio's page sends 11 characters, its client and its own routes UUIDs
_NAMES_IN_QUERY = ("session_hash", "upload_id", "session_id")
_NAME_IN_PATH = re.compile(r"/heartbeat/([^/]*)")
_NO_NAME = "A session name has 1 to 64 characters: English letters, digits, - and _"
_UNREADABLE = "This is not a readable call; send one JSON object in JSON-RPC 2.0 format"


class _RequestRefused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class RequestLimits:
    """Reads the body of every request except uploads, up to the limits; refuses larger ones with a message.

    Adds to the scope the ``page`` (session name, "" for none) and the ``weight`` of the body (its bytes once parsed).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held = Counter[str]()  # bytes of bodies, by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests within the limits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = _Held(self._held, get_client_network(Headers(scope=scope), (scope.get("client") or ("",))[0]))
        try:
            try:
                receive = await asyncio.wait_for(_check_request(scope, receive, held), _MOST_SECONDS)
            except TimeoutError:
                raise _RequestRefused(408, f"The request did not arrive within {_MOST_SECONDS} seconds") from None
        except _RequestRefused as refusal:
            await _answer(refusal, scope)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
        finally:
            held.release()


async def _check_request(scope: Scope, receive: Receive, held: "_Held") -> Receive:
    """Check a request; return the source from which later code reads its body."""
    scope["page"], scope["weight"] = _checked_address(scope), 0
    path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
    if scope["method"] in ("GET", "HEAD") or path == UPLOAD:
        return receive
    body = await _read_body(Headers(scope=scope), receive, held)
    held.add(_weight(body) - len(body))
    scope["page"], scope["weight"] = _checked_body(scope, body) or scope["page"], held.size
    return _again(body, receive)


class _Held:
    """Bytes of one request, counted in the totals of its address and of all requests."""

    def __init__(self, all_held: Counter[str], address: str) -> None:
        self._all, self._address, self.size = all_held, address, 0

    def add(self, size: int) -> None:
        self._all[self._address] += size
        self.size += size
        if self._all[self._address] > _MOST_OF_ADDRESS or sum(self._all.values()) > _MOST_TOGETHER:
            raise _RequestRefused(503, "This server is receiving too much at once. Try again in a minute.")

    def release(self) -> None:
        self._all[self._address] -= self.size
        if not self._all[self._address]:
            del self._all[self._address]


def _checked_address(scope: Scope) -> str:
    """Session name in an address, "" for none."""
    if len(scope["headers"]) > _MOST_HEADERS or sum(len(k) + len(v) for k, v in scope["headers"]) > _LONGEST_HEAD:
        sizes = f"{_MOST_HEADERS} headers, with {_LONGEST_HEAD:,} bytes together"
        raise _RequestRefused(431, f"A request may have at most {sizes}")
    if len(scope["query_string"]) + len(scope["path"]) > _LONGEST_ADDRESS:
        raise _RequestRefused(414, f"An address may have at most {_LONGEST_ADDRESS:,} characters")
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    names = [name for key in _NAMES_IN_QUERY for name in query.get(key, ())]
    names += _NAME_IN_PATH.findall(scope["path"])
    if not all(map(_NAME.fullmatch, names)):
        raise _RequestRefused(400, _NO_NAME)
    return query.get("session_hash", [""])[-1]


async def _read_body(headers: Headers, receive: Receive, held: _Held) -> bytes:
    """The body, counted as it arrives; its length header is not trusted."""
    if headers.get("content-type", "").lower().startswith("multipart/"):
        raise _RequestRefused(415, "Upload files at /gradio_api/upload; send JSON here")
    body, has_more, declared = bytearray(), True, headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > _MOST_BYTES:
        raise _too_large()
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _RequestRefused(400, "The request is incomplete")
        body += message.get("body", b"")
        held.add(len(message.get("body", b"")))
        if held.size > _MOST_BYTES:
            raise _too_large()
        has_more = message.get("more_body", False)
    return bytes(body)


def _too_large() -> _RequestRefused:
    return _RequestRefused(
        413, f"A request may bring at most {_MOST_BYTES:,} bytes; upload files and pass their address"
    )


def _weight(body: bytes) -> int:
    """Approximate bytes of a parsed body; raises for JSON that is too deep or has too many values.

    >>> _weight(b'{"data": ["a, [b", 1]}')
    182
    """
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    n_values = unescaped.count(b'"') // 2
    if n_values <= _MOST_VALUES:
        bare = b"".join(unescaped.split(b'"')[::2])  # without the strings
        n_values = sum(map(bare.count, (b"[", b"{", b",", b":")))
    if n_values > _MOST_VALUES:
        raise _RequestRefused(413, f"The request has more than {_MOST_VALUES:,} values; send fewer at once")
    depth = 0
    for sign in bare.translate(None, delete=bytes(set(range(256)) - set(b"[]{}"))):
        depth += 1 if sign in b"[{" else -1
        if depth > _DEEPEST:
            raise _RequestRefused(413, f"The request nests lists more than {_DEEPEST} deep; nest them less")
    return len(body) + 40 * n_values


def _checked_body(scope: Scope, body: bytes) -> str:
    """Session name in a body, "" for none."""
    call = _parse_json(body)
    if scope["method"] == "POST" and MCP in scope["path"] and (reason := _no_call(call)):
        raise _RequestRefused(400, reason)
    page = call.get("session_hash") if isinstance(call, dict) else None
    if page is None:  # Gradio makes one itself
        return ""
    if not (isinstance(page, str) and _NAME.fullmatch(page)):
        raise _RequestRefused(400, _NO_NAME)
    return page


def _parse_json(body: bytes) -> Any:
    """The JSON of a body, None if it has none; refuses incomplete characters, which no answer could quote."""
    call, is_text = None, b"\0" not in body
    try:
        body.decode()
        call = json.loads(body)
        if b"\\u" in body:
            json.dumps(call, ensure_ascii=False).encode()
    except UnicodeError:
        is_text = False
    except ValueError:  # no JSON, or too long a number: Gradio refuses it later
        call = None
    if not is_text:
        raise _RequestRefused(400, "The request is not valid UTF-8; send complete characters")
    return call


def _no_call(call: Any) -> str:
    """Reason that something is not an MCP call; "" if it is one. The MCP library would answer with a 500."""
    if not isinstance(call, dict) or not isinstance(call.get("params", {}), dict):
        return _UNREADABLE
    with user_errors() as problem:
        check_texts("what is asked", call.get("params", {}).get("arguments"), longest=_LONGEST)
    return problem.message


def _again(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then later messages."""
    unsent: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def message() -> Message:
        return unsent.pop() if unsent else await receive()

    return message


def _answer(refused: _RequestRefused, scope: Scope) -> JSONResponse:
    """A refusal in the error format of the requested route."""
    if MCP in scope["path"]:
        content: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": refused.sentence}}
    else:
        content = {"error": refused.sentence, "detail": refused.sentence}
    return JSONResponse(content, status_code=refused.status)


class TimedHeads(H11Protocol):
    """Uvicorn's Python protocol with a time limit for heads, which have at most 64 kB.

    Its other protocol, httptools, keeps heads of any length.
    """

    _deadline: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Start the timer for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()

    def handle_events(self) -> None:
        """Handle data; it may complete a head or begin the next."""
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._watch(is_open=False)
        super().connection_lost(exc)

    def _watch(self, *, is_open: bool = True) -> None:
        is_waiting = is_open and self.conn.their_state is h11.IDLE
        if is_waiting and self._deadline is None:
            self._deadline = self.loop.call_later(_MOST_SECONDS_OF_HEAD, self.transport.abort)
        elif not is_waiting and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def limit_heads() -> None:
    """Make uvicorn serve with :class:`TimedHeads`; Gradio 6.31 passes it no options."""
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{TimedHeads.__module__}:{TimedHeads.__name__}"
