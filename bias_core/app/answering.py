"""The page as a server: whatever is sent to it is answered with a sentence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import gradio as gr
from starlette.responses import JSONResponse

from bias_core.app.page_state import PageConfig, PageStates
from bias_core.given_values import check_texts
from bias_core.ui.messages import user_errors

if TYPE_CHECKING:
    from gradio.block_function import BlockFunction
    from gradio.state_holder import SessionState
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bias_core.services import Services

_MOST_BYTES = 5_000_000  # of a call over MCP
_LONGEST = 3000  # characters of a text there: the library's own errors quote the whole of it

_UNREADABLE = (
    "What was sent cannot be read as the inputs of this: send as many values as it takes, each of the type "
    "that /gradio_api/info gives, and a file only after its upload"
)


class AnsweringBlocks(gr.Blocks):
    """Blocks that say so where inputs cannot even be read, and keep little of each open page.

    Gradio alone answers with an empty error, and keeps all of a page and every report that it shows.
    """

    def __init__(self, services: Services, **options: Any) -> None:
        super().__init__(**options)
        self._page_states = PageStates(services)
        self.default_config = PageConfig(self)

    async def process_api(self, *args: Any, session_hash: str | None = None, **options: Any) -> dict[str, Any]:
        """As Gradio does it, knowing which page asks."""
        with self._page_states.event_of(session_hash):
            return await super().process_api(*args, session_hash=session_hash, **options)

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], state: SessionState | None, explicit_call: bool = False
    ) -> list[Any]:
        """As Gradio does it, with an error that has a message, and with the reports of the page's state."""
        try:
            values = await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except gr.Error:
            raise
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError) as error:
            raise gr.Error(_UNREADABLE, print_exception=False) from error
        return await anyio.to_thread.run_sync(self._page_states.given, block_fn.inputs, values)

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: list[Any] | dict[Any, Any], state: SessionState | None
    ) -> list[Any]:
        """As Gradio does it; then the page's state keeps only what later events need of this."""
        shown = await super().postprocess_data(block_fn, predictions, state)
        if state is not None:
            self._page_states.keep_little(state, block_fn.outputs)
        return shown


class ReadableJson:
    """Refuses a call over MCP whose body is no JSON that can be read; its library answers with a 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but what cannot be read."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _is_mcp(scope["path"]):
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if why := _unreadable(body):
            error = {"code": -32700, "message": why}
            refusal = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=400)
            await refusal(scope, receive, send)
            return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


def _is_mcp(path: str) -> bool:
    return "/gradio_api/mcp" in path


async def _body(receive: Receive) -> bytes:
    """What was sent, up to one piece more than may be."""
    body, more = b"", True
    while more and len(body) <= _MOST_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _unreadable(body: bytes) -> str:
    if len(body) > _MOST_BYTES:
        return f"A call may have at most {_MOST_BYTES:,} bytes; upload files, and give their address"
    try:
        asked = json.loads(body)
        json.dumps(asked, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON, a number without end, no text, lists without end
        asked = None
    if not isinstance(asked, dict) or not isinstance(asked.get("params", {}), dict):
        return "What was sent is no call that can be read here; send one JSON object as JSON-RPC 2.0 has it"
    with user_errors() as problem:
        check_texts("what is asked", asked.get("params", {}).get("arguments"), longest=_LONGEST)
    return problem.message
