"""All overrides of Gradio 6.31, each with the fault that it fixes. The rest of the app uses Gradio unchanged."""

import asyncio
import json
import logging
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import gradio as gr
import orjson
from gradio import routes
from gradio.block_function import BlockFunction
from gradio.blocks import BlocksConfig
from gradio.queueing import Event, Queue
from gradio.server_messages import EstimationMessage, EventMessage, HeartbeatMessage, ProgressMessage
from gradio.state_holder import SessionState
from gradio_client.utils import is_file_obj_with_meta, traverse

from bias_core.errors import InvalidInput
from bias_core.run.run_queue import get_client_network
from bias_core.store.uploads import UploadStore

_log = logging.getLogger(__name__)
WRONG = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError)
"""Errors that invalid inputs can cause."""
_RUNS, _TOOLS = "bias_core.run.run_queue", "bias_core.app.api"
_UNREADABLE = (
    "These inputs cannot be read: send exactly the expected values, each of the type that /gradio_api/info "
    "gives, and upload files first"
)


class MendedBlocks(gr.Blocks):
    """Blocks with the overrides of this file; ``visitor`` is the component with the page's visitor."""

    visitor: Any = None
    first_examples: Sequence[Callable[[], object]] = ()  # make each tab's first view, in the order of the tabs

    def __init__(self, uploads: UploadStore, **options: Any) -> None:
        super().__init__(**options)
        self.default_config, self._uploads = PageConfig(self), uploads

    async def process_api(self, block_fn: BlockFunction, *args: Any, **options: Any) -> dict[str, Any]:
        """Fault: unreadable inputs fill the log with tracebacks, and the sender gets no message."""
        try:
            return await super().process_api(block_fn, *args, **options)
        except gr.Error as error:
            error.print_exception = False  # our own errors need no traceback
            raise
        except InvalidInput as error:
            raise gr.Error(str(error), print_exception=False) from error
        except (*WRONG, RuntimeError) as error:
            if not _is_of_inputs(error, is_private=block_fn.api_visibility == "private"):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            reason = ascii(f"{type(error).__name__}: {error}")
            _log.warning(
                "Event %s was sent unreadable inputs: %.200s at %s:%s", block_fn.name, reason, last.name, last.lineno
            )
            raise gr.Error(_UNREADABLE, print_exception=False) from error

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], state: SessionState | None, explicit_call: bool = False
    ) -> list[Any]:
        """Fault: an address instead of an upload is downloaded at any size, and any page can use any upload."""
        traverse(inputs, lambda file: self._uploads.check(file["path"]), is_file_obj_with_meta)
        values: list[Any] = await super().preprocess_data(block_fn, inputs, state, explicit_call)
        for i, (block, value) in enumerate(zip(block_fn.inputs, values, strict=False)):
            if state is not None and value and isinstance(block, gr.File):
                visitor = state[self.visitor._id]  # noqa: SLF001
                held = [
                    str(await anyio.to_thread.run_sync(self._uploads.hold, file, visitor.key, visitor.uploads))
                    for file in ([value] if isinstance(value, str) else map(str, value))
                ]
                values[i] = held if block.file_count == "multiple" else held[0]
        return values

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: Any, state: SessionState | None
    ) -> list[Any]:
        """Fault: Gradio keeps a new component for each update of each open page, up to 1.7 MB of them.

        Only changed menus are needed later.
        """
        shown: list[Any] = await super().postprocess_data(block_fn, predictions, state)
        blocks = {} if state is None else state.blocks_config.blocks
        for built in block_fn.outputs:
            if getattr(blocks.get(built._id), "choices", None) == getattr(built, "choices", None):  # noqa: SLF001
                blocks[built._id] = built  # noqa: SLF001
        return shown

    def handle_streaming_diffs(self, block_fn: BlockFunction, data: list[Any], **options: Any) -> list[Any]:
        """Fault: the page applies a change to an update that it has not shown yet, and gets the last update twice.

        A change could be lost, and a press after the last update was undone.
        """
        is_first = options["run"] not in self.pending_diff_streams.get(options["session_hash"], {})
        values, changes = list(data), super().handle_streaming_diffs(block_fn, data, **options)
        if None in (options["session_hash"], options["run"]) or block_fn.api_visibility != "private":
            return changes
        if options["final"]:
            return [gr.skip()] * len(changes)
        return (
            changes if is_first else [[["replace", [], v]] if c else [] for c, v in zip(changes, values, strict=True)]
        )

    def launch(self, *args: Any, **options: Any) -> Any:
        """Fault: tools answer over MCP in Python's own form, and without structured content."""
        launched = super().launch(*args, **options)
        if self.mcp_server_obj is not None:
            answer_in_json(self.mcp_server_obj)
        return launched


def _is_of_inputs(error: Exception, *, is_private: bool) -> bool:
    """True if inputs caused an error; errors in runs and tools are the program's and keep their traceback."""
    places = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(place == (_RUNS if is_private else _TOOLS) for place in places):
        return False
    return not isinstance(error, RuntimeError) or isinstance(error.__cause__, StopIteration)  # for a name in no list


def answer_in_json(server: Any) -> None:
    """Let Gradio's MCP server answer values as JSON, in the text and as structured content."""
    from mcp import types

    of_gradio, handlers = server.postprocess_output_data, server.mcp_server.request_handlers
    call = handlers[types.CallToolRequest]

    def contents(data: list[Any], root_url: str) -> Any:
        return of_gradio([x if isinstance(x, str) else orjson.dumps(x).decode() for x in data], root_url)

    async def structured(request: Any) -> Any:
        answer = await call(request)
        for content in () if answer.root.isError else answer.root.content:
            value: Any = content.text
            with suppress(ValueError):  # the tool answers a text, not JSON
                value = json.loads(value)
            answer.root.structuredContent = value if isinstance(value, dict) else {"result": value}
        return answer

    server.postprocess_output_data, handlers[types.CallToolRequest] = contents, structured


def without_gradios_cors() -> None:
    """Fault: Gradio lets every site read answers with a visitor's cookies (CustomCORSMiddleware).

    It steps aside for the CORSMiddleware of a parent app, and not for one in ``app_kwargs``.
    """
    routes.CustomCORSMiddleware = lambda app, **_options: app


_NOTHING: dict[str, Any] = {}  # shared by all components of all pages


class PageConfig(BlocksConfig):
    """Fault: Gradio describes every component for every page that opens, 2.2 MB and a tenth of a second."""

    def __copy__(self) -> BlocksConfig:
        copied = super().__copy__()
        copied.config_for_block = lambda *_of, **_more: _NOTHING
        return copied


# The queue of events -----------------------------------------------------------------------------------------------

_EMPTY_BOX, _EMPTY_MESSAGE = 8_000, 2_000  # bytes
_MOST_OF_SESSION, _MOST_UNREAD = 16_000_000, 64_000_000
_MANY = 50  # unread messages; a fuller box accepts only results
_MOST_EVENTS, _MOST_BYTES = 2_000, 64_000_000  # for all waiting and running events; one address may have half
_LOOK_SECONDS = 0.02  # between two checks for an event


class _Box(asyncio.Queue[Any]):
    """The unread messages of one session; their bytes count in the total of its address."""

    def __init__(self, address: str, n_bytes_of: Counter[str]) -> None:
        super().__init__()
        self.address, self.n_bytes_of, self.n_bytes = address, n_bytes_of, 0
        self.count(_EMPTY_BOX)

    def count(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        self.n_bytes_of[self.address] += n_bytes

    def _put(self, item: EventMessage) -> None:
        output = orjson.dumps(getattr(item, "output", None), default=str, option=orjson.OPT_NON_STR_KEYS)
        super()._put((item, n_bytes := _EMPTY_MESSAGE + len(output)))
        self.count(n_bytes)

    def _get(self) -> EventMessage:
        item, n_bytes = super()._get()
        self.count(-n_bytes)
        return item


class _Boxes(dict[str, _Box]):
    """The boxes of all sessions with a common limit; beyond it, the address with most loses boxes."""

    def __init__(self, event_ids: dict[str, set[str]]) -> None:
        super().__init__()
        self.n_bytes_of, self._event_ids = Counter[str](), event_ids

    def __delitem__(self, session: str) -> None:
        box = self.pop(session)
        box.count(-box.n_bytes)
        box.n_bytes_of = Counter()  # a stream may still be reading the old box
        self.n_bytes_of += Counter()  # drop addresses with a count of 0
        self._event_ids.pop(session, None)

    def make_room(self) -> None:
        """Delete the largest boxes of the address with most, until the total fits."""
        if self.n_bytes_of.total() > _MOST_UNREAD:
            while self.n_bytes_of.total() > 0.9 * _MOST_UNREAD:
                ((heaviest_address, _),) = self.n_bytes_of.most_common(1)
                largest = sorted(
                    (s for s, box in self.items() if box.address == heaviest_address), key=lambda s: -self[s].n_bytes
                )
                for session in largest[: 1 + len(largest) // 10]:
                    del self[session]


class SteadyQueue(Queue):
    """Fault: one error in the only loop of Gradio's queue ends it for good: a message to a closed session.

    Fault: unread messages of 2,000 sessions are kept at any size and for anyone, and a visitor's are dropped for a
    stranger's.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._is_closed = False
        super().__init__(*args, **options)
        self.pending_messages_per_session = _Boxes(self.pending_event_ids_session)
        self.ANALYTICS_MAX_EVENTS, self.ANAYLTICS_CACHE_FREQUENCY = 1, 10**12  # results of the analytics are unused
        # Gradio checks a thousand times a second, which costs an idle server 5 % of a core.
        self.sleep_when_free, self.progress_update_sleep_when_free = _LOOK_SECONDS, 5 * _LOOK_SECONDS

    stopped = property(lambda self: self._is_closed, lambda _self, _value: None)  # Gradio's loop sets it after an error

    def close(self) -> None:
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
                _log.error("The queue of events ended and is restarted", exc_info=loop.exception())
                await asyncio.sleep(self.sleep_when_free)

    async def push(self, body: Any, request: Any, username: str | None) -> tuple[bool, Any, Any]:
        """Accept an event if there is room, and give its session a box."""
        boxes, address = (
            self.pending_messages_per_session,
            get_client_network(request.headers, (request.client or ("",))[0]),
        )
        if self._is_full(address):
            return False, "Too many requests are waiting. Try again in a minute.", "queue_full"
        body.session_hash = body.session_hash or uuid.uuid4().hex
        if body.session_hash not in boxes:
            boxes[body.session_hash] = _Box(address, boxes.n_bytes_of)
            boxes.make_room()
        return await super().push(body, request, username)

    def _is_full(self, address: str) -> bool:
        """True if the limit of waiting and running events is reached, or this address has half of it."""
        events = [event for waiting in self.event_queue_per_concurrency_id.values() for event in waiting.queue]
        events += [event for job in self.active_jobs for event in job or ()]
        if len(self.event_ids_to_events) > 2 * _MOST_EVENTS:  # Gradio never drops some cancelled events
            self.event_ids_to_events.clear()
            self.event_ids_to_events.update({event._id: event for event in events})  # noqa: SLF001
        boxes = self.pending_messages_per_session
        own_events = [event for event in events if (box := boxes.get(event.session_hash)) and box.address == address]
        n_bytes, n_own = (_n_bytes(event_list) for event_list in (events, own_events))
        return max(len(events), 2 * len(own_events)) >= _MOST_EVENTS or max(n_bytes, 2 * n_own) >= _MOST_BYTES

    def send_message(self, event: Event, event_message: EventMessage) -> None:
        """Deliver a message to its session; events of a closed session end."""
        boxes, passing = self.pending_messages_per_session, (EstimationMessage, ProgressMessage, HeartbeatMessage)
        box = boxes.get(event.session_hash)
        if box is None:
            event.alive = False
        elif not (isinstance(event_message, passing) and box.qsize() > _MANY):
            super().send_message(event, event_message)
            if box.n_bytes > _MOST_OF_SESSION:
                del boxes[event.session_hash]
            boxes.make_room()


def _n_bytes(events: Sequence[Event]) -> int:
    return sum(event.request.scope.get("weight", 0) for event in events)


def steady_queue(demo: Any, **options: Any) -> None:
    """Give a page its queue, as ``demo.queue(**options)`` does, which also describes the whole page once more."""
    defaults: dict[str, Any] = {"live_updates": True, "concurrency_count": demo.max_threads, "update_intervals": 1}
    demo._queue = SteadyQueue(blocks=demo, max_size=_MOST_EVENTS, **defaults, **options)  # noqa: SLF001
