"""What an open page keeps: a small copy of its components, and the ids of saved reports in place of the reports.

Also what tools answer over MCP: JSON, in the text and as structured content, where Gradio writes Python's own form.
"""

import copy
import json
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import gradio as gr
import orjson
from gradio.block_function import BlockFunction
from gradio.blocks import Block, BlocksConfig
from gradio.components.api_component import Api
from gradio.renderable import Renderable
from gradio.state_holder import SessionState
from gradio_client.utils import is_file_obj_with_meta, traverse

from bias_core.app.gradio_faults import WRONG
from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.study.saved import Newest, is_saved, open_report
from bias_core.study.types import StudyReport
from bias_core.ui.messages import user_errors
from bias_core.ui.study.result_page import by_name

if TYPE_CHECKING:
    from bias_core.ui.visitor import Visitor


def answer_in_json(server: Any) -> None:
    """Have a server of Gradio answer values as JSON, and files as it does."""
    from mcp import types

    of_gradio = server.postprocess_output_data
    handlers: dict[Any, Callable[..., Any]] = server.mcp_server.request_handlers
    call = handlers[types.CallToolRequest]

    def contents(data: list[Any], root_url: str) -> list[Any]:
        answers: list[Any] = []
        for output in data:
            if isinstance(output, (dict, list)) and "gradio.FileData" not in str(output):
                answers.append(types.TextContent(type="text", text=orjson.dumps(output).decode()))
            else:
                answers += of_gradio([output], root_url)
        return answers

    async def with_structure(request: Any) -> Any:
        answer = await call(request)
        result = answer.root
        if not result.isError and len(result.content) == 1 and isinstance(result.content[0], types.TextContent):
            value: Any = result.content[0].text
            with suppress(ValueError):  # of a tool that answers a text
                value = json.loads(value)
            result.structuredContent = value if isinstance(value, dict) else {"result": value}
        return answer

    server.postprocess_output_data = contents
    handlers[types.CallToolRequest] = with_structure


_UNREADABLE = (
    "What was sent cannot be read as the inputs of this: send as many values as it takes, each of the type "
    "that /gradio_api/info gives, and a file only after its upload"
)
_OF_RUNS = ("bias_core.models.", "bias_core.study.run")
_log = logging.getLogger(__name__)
_NOTHING: dict[str, Any] = {}  # shared by all components of all pages
_page: ContextVar[str] = ContextVar("page", default="")  # which the event at work comes from


class PageConfig(BlocksConfig):
    """The page's components and events, of which each open page gets a small copy."""

    def __copy__(self) -> "_OpenPageConfig":
        copied = _OpenPageConfig(self.root_block)
        copied.blocks, copied.fns = copy.copy(self.blocks), copy.copy(self.fns)
        copied.fn_id, copied.renderables = self.fn_id, copy.copy(self.renderables)
        return copied

    def get_config(self, renderable: Renderable | None = None) -> dict[str, Any]:
        """As Gradio has it, without what its page would look for in vain, event by event: half of its start.

        An event that follows another has no component, and a parameter of the programming interface no place.
        """
        config: dict[str, Any] = super().get_config(renderable)
        for event in config["dependencies"]:
            event["targets"] = [target for target in event["targets"] if target[0] is not None]
        unseen = {number for number, block in self.blocks.items() if isinstance(block, Api)}
        for page in config["page"].values():
            page["components"] = [number for number in page["components"] if number not in unseen]
            layout = page["layout"]
            layout["children"] = [child for child in layout["children"] if child["id"] not in unseen]
        return config


class _OpenPageConfig(BlocksConfig):
    """Without a second description of every component: 1.4 MB that only Gradio's deep links would read."""

    __copy__ = PageConfig.__copy__

    @staticmethod
    def config_for_block(*_of: object, **_more: object) -> dict[str, Any]:
        """Nothing; the page itself was described by :class:`PageConfig`."""
        return _NOTHING


@dataclass(frozen=True, kw_only=True)
class _Saved:
    """In the place of a report that the report store has."""

    run_id: str


class PageStates:
    """Which reports open pages show: known when Gradio let go of the state of a page for 200 newer ones."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._shown = Newest[Any](100_000)  # by page and component, of about 20,000 pages

    @contextmanager
    def event_of(self, page: str | None) -> Iterator[None]:
        """Around an event: from now on it is known which page it comes from."""
        token = _page.set(page or "")
        try:
            yield
        finally:
            _page.reset(token)

    def keep_little(self, state: SessionState, outputs: Sequence[Block]) -> None:
        """After an event: ids in place of saved reports, components as built (only another menu must be known)."""
        for block in outputs:
            number = block._id  # noqa: SLF001
            if number not in state:
                continue
            if isinstance(block, gr.State):
                state[number] = little = without_reports(state[number], self._services)
                if page := _page.get():
                    is_report = isinstance(little, _Saved) or bool(_held(little, _Saved))
                    self._shown.put((page, number), little if is_report else None)
            elif getattr(state[number], "choices", None) == getattr(block, "choices", None):
                state.blocks_config.blocks[number] = block

    def given(self, inputs: Sequence[Block], values: Sequence[Any]) -> list[Any]:
        """The values of an event's inputs, with the reports of the page that it comes from."""
        whole = [
            self._shown.get((_page.get(), block._id)) if value is None else value  # noqa: SLF001
            for block, value in zip(inputs, values, strict=False)
        ]
        return [with_reports(value, self._services) for value in [*whole, *values[len(whole) :]]]


class AnsweringBlocks(gr.Blocks):
    """Blocks that, unlike Gradio's, say that inputs cannot be read, and keep little of each open page.

    A handler that yields tells the page each of its words once, and whole.
    """

    def __init__(self, services: Services, **options: Any) -> None:
        super().__init__(**options)
        self._page_states = PageStates(services)
        self._services = services
        self.visitor: Any = None  # the component whose value is the page's visitor
        self.default_config = PageConfig(self)
        self.first_examples: list[Callable[[], object]] = []  # make what each tab opens with, the first tab's first

    @property
    def mcp_server_obj(self) -> Any:
        """Gradio's server for MCP, which answers in JSON; None where there is none."""
        return self._mcp_server

    @mcp_server_obj.setter
    def mcp_server_obj(self, server: Any) -> None:
        self._mcp_server = server
        if server is not None:
            answer_in_json(server)

    async def process_api(
        self, block_fn: BlockFunction, *args: Any, session_hash: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """As Gradio does it, knowing which page asks; a private event that was sent anything else has a sentence."""
        with self._page_states.event_of(session_hash):
            try:
                return await super().process_api(block_fn, *args, session_hash=session_hash, **options)
            except gr.Error as error:
                error.print_exception = False  # a sentence is an answer
                raise
            except (*WRONG, RuntimeError) as error:
                if block_fn.api_visibility != "private" or not _is_of_inputs(error):
                    raise
                raise _unreadable(block_fn, error) from error

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], state: SessionState | None, explicit_call: bool = False
    ) -> list[Any]:
        """As Gradio does it, with an error that has a message, and with the reports of the page's state."""
        if block_fn.api_visibility == "private" and not all(map(_fits, block_fn.inputs, inputs)):
            raise _unreadable(block_fn, "a value of another type")
        try:
            traverse(inputs, self._check_upload, is_file_obj_with_meta)
            values = await super().preprocess_data(block_fn, inputs, state, explicit_call)
            if state is not None:
                values = await anyio.to_thread.run_sync(self._held, block_fn.inputs, values, state)
        except gr.Error:
            raise
        except InvalidInput as error:
            raise gr.Error(str(error), print_exception=False) from error
        except WRONG as error:
            raise _unreadable(block_fn, error) from error
        return await anyio.to_thread.run_sync(self._page_states.given, block_fn.inputs, values)

    def _check_upload(self, file: dict[str, Any]) -> None:
        """Refuse a file that is none of the uploads; Gradio 6.31 itself would download an address, however large."""
        self._services.uploads.check(file["path"])

    def _held(self, inputs: Sequence[Block], values: list[Any], state: SessionState) -> list[Any]:
        """The values, with links of the visitor's own in place of uploads."""
        held, uploads = list(values), self._services.uploads
        for i, (block, value) in enumerate(zip(inputs, values, strict=False)):
            if value and isinstance(block, gr.File):
                visitor: Visitor = state[self.visitor._id]  # noqa: SLF001
                held[i] = str(uploads.hold(str(value), visitor.key, visitor.uploads))
        return held

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: list[Any] | dict[Any, Any], state: SessionState | None
    ) -> list[Any]:
        """As Gradio does it, but that no updates are none; the page's state keeps only what later events need."""
        if predictions == {} and len(block_fn.outputs) > 1:
            predictions = gr.skip()
        shown = await super().postprocess_data(block_fn, predictions, state)
        if state is not None:
            self._page_states.keep_little(state, block_fn.outputs)
        return shown

    def handle_streaming_diffs(
        self, block_fn: BlockFunction, data: list[Any], session_hash: str | None, run: str | None, **options: Any
    ) -> list[Any]:
        """As Gradio does it, but that a word neither changes an earlier one nor comes twice.

        Gradio sends what is different in an update, and its page applies that to the update before, which may still
        wait to be shown and then never is. At the end Gradio sends the last word again, and that, seconds later on a
        busy machine, undoes what was pressed since: it closes a fold or the picture that was opened.
        """
        is_first, values = run not in self.pending_diff_streams.get(session_hash, {}), list(data)
        words = super().handle_streaming_diffs(block_fn, data, session_hash=session_hash, run=run, **options)
        if session_hash is None or run is None or block_fn.api_visibility != "private":
            return words
        if options["final"]:
            return [gr.skip()] * len(words)
        return words if is_first else list(map(_in_place, words, values))


def _fits(block: Block, value: Any) -> bool:
    """True for a value that the page could send for this component; data models and states look at theirs."""
    if value is None or block.stateful or isinstance(block, gr.BrowserState) or getattr(block, "data_model", None):
        return True
    if isinstance(block, gr.CheckboxGroup) or getattr(block, "multiselect", False):
        return isinstance(value, list) and all(isinstance(one, (str, int, float)) for one in value)
    return isinstance(value, bool if isinstance(block, gr.Checkbox) else (str, int, float))


def _is_of_inputs(error: Exception) -> bool:
    """True for what inputs can lead to; an error of a run that has begun is the program's own, with its traceback."""
    places = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(place.startswith(_OF_RUNS) for place in places):
        return False
    return not isinstance(error, RuntimeError) or isinstance(error.__cause__, StopIteration)  # of a name not in a list


def _unreadable(block_fn: BlockFunction, why: Exception | str) -> gr.Error:
    """The error of an event whose inputs cannot be read; says why in one line of the log."""
    last = traceback.extract_tb(why.__traceback__)[-1:] if isinstance(why, Exception) else ()
    place = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in last)
    text = ascii(f"{type(why).__name__}: {why}" if isinstance(why, Exception) else why)
    _log.warning("Event %s (%s) was sent unreadable inputs: %.200s%s", block_fn._id, block_fn.name, text, place)  # noqa: SLF001
    return gr.Error(_UNREADABLE, print_exception=False)


def _in_place(changes: list[Any], value: Any) -> list[Any]:
    """Gradio's changes to the value before, or all of the new one in its place where they are changes inside of it."""
    return [["replace", [], value]] if any(place for _, place, _ in changes) else changes


def without_reports(value: Any, services: Services) -> Any:
    """A page's state with the ids of saved reports in their place; what nothing would open again stays."""
    if isinstance(value, StudyReport):
        return _Saved(run_id=value.run_id) if is_saved(value, services) else value
    held = _held(value, StudyReport)
    return replace(value, **{name: without_reports(one, services) for name, one in held.items()}) if held else value


def with_reports(value: Any, services: Services) -> Any:
    """What :func:`without_reports` was given; None where the report is no longer stored."""
    if isinstance(value, _Saved):
        with user_errors():  # nothing to show is said by whoever needs it
            saved = open_report(value.run_id, services)
            return saved and by_name(saved.report)
        return None
    opened = {name: with_reports(one, services) for name, one in _held(value, _Saved).items()}
    if not opened:
        return value
    return None if None in opened.values() else replace(value, **opened)


def _held(value: Any, kind: type) -> dict[str, Any]:
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    values = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: one for name, one in values.items() if isinstance(one, kind)}
