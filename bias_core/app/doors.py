"""Who may come in: under which names the server may be asked, how much may be uploaded, what can be read at all."""

import asyncio
import json
import os
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.app.browsers import speaks_for_another_site, trusted_names
from bias_core.errors import quoted
from bias_core.given_values import check_texts
from bias_core.settings import Settings
from bias_core.ui.messages import user_errors

_MCP = "/gradio_api/mcp"
_STREAM = "/gradio_api/queue/data"
_EVENT = "/gradio_api/queue/join"
_LAST_WORD = b'data: {"msg":"close_stream"'  # of a stream
_MOST_SECONDS = 3  # that a page takes to close a stream that has ended
_HUB = "huggingface.co"  # whose pages ask a Space's tools
_READING = {"GET", "HEAD", "OPTIONS"}
_MOST_BYTES = 5_000_000  # of a call over MCP
_LONGEST = 3000  # characters of a text there: the library's own errors quote the whole of it


class _Door:
    """Answers a request with a refusal, or passes it on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is not refused."""
        refusal = self.refusal(scope) if scope["type"] in ("http", "websocket") else None
        await (refusal or self._app)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered; None where it is."""
        raise NotImplementedError


def allowed_hosts(settings: Settings, server_name: str) -> frozenset[str]:
    """Names of this server; numbers need no list, for only a name can be made to point elsewhere (DNS rebinding)."""
    space = os.environ.get("SPACE_HOST", "") + (f",{_HUB}" if os.environ.get("SPACE_ID") else "")
    names = f"localhost,{server_name},{settings.host},{settings.allowed_hosts},{space}".lower()
    return frozenset(names.replace(",", " ").split())


class HostCheck(_Door):
    """Refuses requests under a name that is not this server's, and those of other sites' scripts.

    A script's own site is in the header Origin. It is looked at for whatever comes with a visitor's cookie or password,
    for tools (MCP), and on a server that is not ``public`` (other sites may use its programming interface) for
    everything that does more than read.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], public: bool) -> None:
        super().__init__(app)
        self._hosts, self._public = hosts, public
        self._trusted = trusted_names(hosts, public)

    def refusal(self, scope: Scope) -> Response | None:
        """Of what is asked under another name, or by another site."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(f"//{host}"):
            return PlainTextResponse(
                f"This server is not known as {host[:100]!r}. Open it under localhost, or let its owner add "
                "the name to BIAS_ALLOWED_HOSTS.",
                status_code=421,
            )
        is_looked_at = _MCP in scope["path"] or not (self._public or scope.get("method", "POST") in _READING)
        other = speaks_for_another_site(scope, self._trusted)
        if origin is not None and is_looked_at and not self._is_ours(origin):
            other = quoted(origin)
        if other:
            return PlainTextResponse(
                f"A page of {other} may not use this server for you. Open this server's own page; its owner can add "
                "that site to BIAS_ALLOWED_HOSTS.",
                status_code=403,
            )
        return None

    def _is_ours(self, address: str) -> bool:
        name = ""
        try:
            name = urlsplit(address).hostname or ""
            number = ip_address(name)
        except ValueError:
            return name.rstrip(".") in self._hosts
        return address.startswith("//") or number.is_loopback or name in self._hosts


class ReadableJson:
    """Refuses a call over MCP whose body is no JSON that can be read; its library answers with a 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but what cannot be read."""
        if scope["type"] != "http" or scope["method"] != "POST" or _MCP not in scope["path"]:
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more and len(body) <= _MOST_BYTES:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if why := _unreadable(body):
            error = {"code": -32700, "message": why}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=400)(scope, receive, send)
            return
        unsent: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return unsent.pop() if unsent else await receive()

        await self._app(scope, again, send)


class StreamEnd:
    """Accepts an event only when the page knows that its last stream of answers has ended, so that it opens another.

    Gradio ends the stream when nothing waits for an answer. An event sent while the page does not know that yet would
    never be answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ending: dict[str, asyncio.Event] = {}  # by page; set when the page has closed its side

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow streams to their end, and let events wait for it."""
        path = scope["path"].rstrip("/") if scope["type"] == "http" else ""
        follow = self._stream if path.endswith(_STREAM) else self._event if path.endswith(_EVENT) else self._app
        await follow(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", [""])[0]
        ended = asyncio.Event()

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
        finally:
            ended.set()
            if self._ending.get(page) is ended:
                del self._ending[page]

    async def _event(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: list[bytes] = []

        async def noting() -> Message:
            message = await receive()
            body.append(message.get("body", b""))
            return message

        async def waiting(message: Message) -> None:
            if self._ending and (ended := self._ending.get(_page_of(b"".join(body)))):
                await ended.wait()
            await send(message)

        await self._app(scope, noting, waiting)


def _page_of(body: bytes) -> str:
    """The page that an event comes from; "" where that cannot be read, which Gradio refuses itself."""
    with suppress(ValueError, RecursionError, AttributeError):
        return str(json.loads(body).get("session_hash"))
    return ""


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _unreadable(body: bytes) -> str:
    """Why a call cannot be read; "" where it can."""
    if len(body) > _MOST_BYTES:
        return f"A call may have at most {_MOST_BYTES:,} bytes; upload files, and give their address"
    try:
        call = json.loads(body)
        json.dumps(call, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON, a number without end, no text, lists without end
        call = None
    if not isinstance(call, dict) or not isinstance(call.get("params", {}), dict):
        return "What was sent is no call that can be read here; send one JSON object as JSON-RPC 2.0 has it"
    with user_errors() as problem:
        check_texts("what is asked", call.get("params", {}).get("arguments"), longest=_LONGEST)
    return problem.message
