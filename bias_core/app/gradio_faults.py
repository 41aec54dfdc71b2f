"""Faults of Gradio 6.31 and uvicorn 0.54 that strangers could use, and the smallest change that mends each."""

import asyncio
import logging
import uuid
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx
import uvicorn.config
from fastapi import HTTPException
from gradio import route_utils, routes
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Event, Queue
from gradio.server_messages import EstimationMessage, EventMessage, HeartbeatMessage, ProgressMessage
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.study.run_queue import network_of

_log = logging.getLogger(__name__)

# The queue ---------------------------------------------------------------------------------------------------------

_BOX, _MESSAGE = 8_000, 2_000  # bytes of an empty box, and of a message without its texts
_MOST_OF_SESSION, _MOST_UNREAD = 16_000_000, 64_000_000
_MANY = 50  # unread messages, after which only results are added
_MOST_EVENTS, _MOST_BYTES = 2_000, 64_000_000  # of all events that wait or are at work; one address may have half
_PASSING = (EstimationMessage, ProgressMessage, HeartbeatMessage)


class _Box(asyncio.Queue[Any]):
    """The unread messages of one session, with their size in bytes."""

    def __init__(self, address: str, boxes: "_Boxes") -> None:
        super().__init__()
        self.address, self.size, self._sizes = address, 0, boxes.sizes
        self.add(_BOX)

    def add(self, size: int) -> None:
        """Count more bytes, or fewer."""
        self.size += size
        self._sizes[self.address] += size

    def close(self) -> None:
        """Count nothing any more, though a stream may still read what is in it."""
        self.add(-self.size)
        self._sizes = Counter()

    def _put(self, item: EventMessage) -> None:
        size = _size(item)
        super()._put((item, size))
        self.add(size)

    def _get(self) -> EventMessage:
        item, size = super()._get()
        self.add(-size)
        return item


class _Boxes(dict[str, _Box]):
    """The boxes of all sessions; together they have a limit, which takes from the address that has most."""

    def __init__(self, event_ids: dict[str, set[str]]) -> None:
        super().__init__()
        self.sizes, self._event_ids = Counter[str](), event_ids

    def open(self, session: str, address: str) -> None:
        """Give a session a box, where it has none."""
        if session not in self:
            self[session] = _Box(address, self)
            self.make_room()

    def __delitem__(self, session: str) -> None:
        self[session].close()
        super().__delitem__(session)
        self.sizes += Counter()  # without the addresses that have nothing
        self._event_ids.pop(session, None)

    def make_room(self) -> None:
        """Delete the largest boxes, then the oldest, of the address that has most, while all have too much."""
        if sum(self.sizes.values()) <= _MOST_UNREAD:
            return
        while sum(self.sizes.values()) > 0.9 * _MOST_UNREAD:
            ((most, _),) = self.sizes.most_common(1)
            largest = sorted((s for s, box in self.items() if box.address == most), key=lambda s: -self[s].size)
            for session in largest[: 1 + len(largest) // 10]:
                del self[session]


class SteadyQueue(Queue):
    """Gradio's queue, which no event can end and no session can fill.

    Gradio 6.31 ends its only loop at the first error in it, for good: a message to a session without a box is one, and
    a session named "" never has one. It keeps messages of 2,000 sessions, whosever they are, and drops those of a
    visitor for the next stranger's; unread messages and the names of sessions have no limit.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._is_closed = False
        super().__init__(*args, **options)
        self.pending_messages_per_session = _Boxes(self.pending_event_ids_session)
        self.ANALYTICS_MAX_EVENTS = 1  # it has no reader

    @property
    def stopped(self) -> bool:
        """True once the server is closed; an error in the loop, which sets this too, does not stop the queue."""
        return self._is_closed

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._is_closed = self._is_closed and value

    def close(self) -> None:
        """End the loops."""
        self._is_closed = True

    def _cancel_asyncio_tasks(self) -> None:
        if self._is_closed:
            super()._cancel_asyncio_tasks()

    async def start_processing(self) -> None:
        """Start the loop, and start it again whenever an error ended it."""
        while not self._is_closed:
            loop = asyncio.ensure_future(super().start_processing())
            await asyncio.wait([loop])
            if not self._is_closed:
                _log.error("The queue of events ended and is started again", exc_info=loop.exception())
                await asyncio.sleep(self.sleep_when_free)

    def compute_analytics_summary(self, _records: object) -> dict[str, Any]:
        """Nothing: no monitoring shows it, and Gradio computes it anew from all events after each."""
        return {}

    async def push(self, body: PredictBodyInternal, request: Request, username: str | None) -> tuple[bool, Any, Any]:
        """Take an event where there is room for it, and give its session a box of its address."""
        address = network_of(request.headers, request.client.host if request.client else "")
        if self._is_full(address):
            return False, "Too much is waiting here already. Try again in a minute.", "queue_full"
        body.session_hash = body.session_hash or uuid.uuid4().hex
        self.pending_messages_per_session.open(body.session_hash, address)
        return await super().push(body, request, username)

    def _is_full(self, address: str) -> bool:
        """True where all events, or half as many of this address, wait or are at work."""
        events = [event for waiting in self.event_queue_per_concurrency_id.values() for event in waiting.queue]
        events += [event for job in self.active_jobs for event in job or ()]
        if len(self.event_ids_to_events) > 2 * _MOST_EVENTS:  # Gradio forgets to forget some that are cancelled
            self.event_ids_to_events.clear()
            self.event_ids_to_events.update({event._id: event for event in events})  # noqa: SLF001
        boxes = self.pending_messages_per_session
        own = [event for event in events if (box := boxes.get(event.session_hash)) and box.address == address]
        n_bytes, n_own_bytes = (sum(one.request.scope.get("weight", 0) for one in some) for some in (events, own))
        return max(len(events), 2 * len(own)) >= _MOST_EVENTS or max(n_bytes, 2 * n_own_bytes) >= _MOST_BYTES

    def send_message(self, event: Event, event_message: EventMessage) -> None:
        """Put a message where its session reads it; an event of a session that is gone ends."""
        box = self.pending_messages_per_session.get(event.session_hash)
        if box is None:
            event.alive = False
        elif not (isinstance(event_message, _PASSING) and box.qsize() > _MANY):
            super().send_message(event, event_message)
            if box.size > _MOST_OF_SESSION:
                del self.pending_messages_per_session[event.session_hash]
            self.pending_messages_per_session.make_room()


def _size(value: object) -> int:
    """About the bytes of a message, or of a value in it."""
    if isinstance(value, str):
        return 50 + len(value)
    if isinstance(value, dict):
        return 64 + sum(64 + _size(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return 64 + sum(8 + _size(one) for one in value)
    if isinstance(value, EventMessage):
        return _MESSAGE + _size(getattr(value, "output", None))
    return 32


def steady_queue(demo: Any, **options: Any) -> None:
    """Give a page its queue, as ``demo.queue(**options)`` does."""
    demo.queue(**options)
    demo._queue = SteadyQueue(  # noqa: SLF001
        live_updates=True, concurrency_count=demo.max_threads, update_intervals=1, blocks=demo,
        max_size=_MOST_EVENTS, **options,
    )  # fmt: skip


# Routes ------------------------------------------------------------------------------------------------------------

WRONG = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError)
"""Errors that inputs can lead to."""
_OWN = "/label"  # routes that are not Gradio's
_NOT_ANSWERED = (
    "What was asked cannot be answered: there is no such event or file, or its inputs are others. /gradio_api/info "
    "lists the events that programs may ask for, with their inputs."
)


class ErrorAsSentence:
    """Answers with a sentence where Gradio's routes raise for what was asked, and leaves one line in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer what could not be answered."""
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except (*WRONG, route_utils.FnIndexInferError, httpx.InvalidURL) as error:
            if has_begun or scope["type"] != "http" or scope["path"].startswith(_OWN):
                raise
            asked, why = ascii(scope["path"]), ascii(f"{type(error).__name__}: {error}")
            _log.warning("%s %.100s was not answered: %.200s", scope["method"], asked, why)
            content = {"error": _NOT_ANSWERED, "detail": _NOT_ANSWERED}
            await JSONResponse(content, status_code=400)(scope, receive, send)


# Streams -----------------------------------------------------------------------------------------------------------

_STREAM, _EVENT, _CALL = "/gradio_api/queue/data", "/gradio_api/queue/join", "/gradio_api/call/"
_LAST_WORD = b'data: {"msg":"close_stream"'  # of a stream
_MOST_SECONDS = 3  # that a page takes to close a stream that has ended


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
        except RuntimeError as error:  # Gradio says that it knows no such session, and then raises
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


# Scripts of other sites ---------------------------------------------------------------------------------------------


def without_gradios_cors() -> None:
    """Leave answers to scripts of other sites to the CORSMiddleware that the app is given.

    Gradio 6.31 allows the scripts of every site whatever they ask, with the visitor's cookies, wherever a server is
    not asked for as localhost (CustomCORSMiddleware). It steps aside for a middleware of a parent app, but not for one
    in ``app_kwargs``.
    """
    routes.CustomCORSMiddleware = _nothing


def _nothing(app: ASGIApp, **_options: Any) -> ASGIApp:
    return app


# Heads of requests -------------------------------------------------------------------------------------------------


def limit_heads() -> None:
    """Let uvicorn serve with :class:`bias_core.app.heads.ShortHeads` where it would take httptools.

    Gradio 6.31 passes no options to uvicorn, whose httptools protocol has no limit at all on the head of a request;
    h11, which is used where httptools is not installed, has one of 64 kB.
    """
    with suppress(ImportError):
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: F401

        uvicorn.config.HTTP_PROTOCOLS["auto"] = "bias_core.app.heads:ShortHeads"
