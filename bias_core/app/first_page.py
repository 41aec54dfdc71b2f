"""The page as a visitor is sent it: made once for each address, compressed, and quick to start."""

import gzip
from dataclasses import dataclass
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bias_core.studies.reports.saved import Newest
from bias_core.ui.templates import script

_OF_THE_ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")  # what Gradio reads of it
_OF_ANOTHER_PAGE = {"page", "deep_link", "all_endpoints"}
_AFTER_CONFIG = b"script>window.gradio_api_info = "  # in no text of the page, where Gradio writes > otherwise
_MOST_ADDRESSES = 8


@dataclass(frozen=True, kw_only=True)
class _Page:
    """One answer; its bytes as they are, and compressed."""

    media_type: str
    body: bytes
    compressed: bytes


class FirstPage:
    """Answers with the page that was made before for this address.

    Gradio describes all of it anew for each visitor, 2 MB and as much work as a reading of ten pictures; nothing but
    the address differs. What is no page, or asks for another, is passed on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._pages = app, Newest[_Page](_MOST_ADDRESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is no page; else make it where it is not known yet, and send it."""
        address = _address(scope)
        if address is None:
            await self._app(scope, receive, send)
            return
        page = self._pages.get(address)
        if page is None:
            messages: list[Message] = []
            await self._app(scope, receive, _into(messages))
            page = await anyio.to_thread.run_sync(_page_of, messages)
            if page is None:  # an error, or no page: as it came
                for message in messages:
                    await send(message)
                return
            self._pages.put(address, page)
        await _answer(page, Headers(scope=scope))(scope, receive, send)


def _address(scope: Scope) -> tuple[str, ...] | None:
    """Under which the page is asked for; None where something else is."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
        return None
    if _OF_ANOTHER_PAGE & parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).keys():
        return None
    headers = Headers(scope=scope)
    return (scope["scheme"], scope.get("root_path", ""), *(headers.get(name, "") for name in _OF_THE_ADDRESS))


def _into(messages: list[Message]) -> Send:
    async def keep(message: Message) -> None:
        messages.append(message)

    return keep


def _page_of(messages: list[Message]) -> _Page | None:
    """The page in an answer, with the scripts that let it start, and quickly; None where there is none."""
    headers = Headers(raw=messages[0]["headers"])
    media_type = headers.get("content-type", "")
    if messages[0]["status"] != 200 or not media_type.startswith("text/html"):
        return None
    body = b"".join(message.get("body", b"") for message in messages[1:])
    before, after_config, after = body.partition(_AFTER_CONFIG)
    if after_config:
        scripts = "".join(f"{{{script(name)}}}" for name in ("storage", "constant")).encode()
        body = before + after_config.replace(b">", b">" + scripts) + after
    return _Page(media_type=media_type, body=body, compressed=gzip.compress(body, compresslevel=6))


def _answer(page: _Page, request: Headers) -> Response:
    headers = {"content-type": page.media_type, "vary": "Accept-Encoding"}
    if "gzip" not in request.get("accept-encoding", ""):
        return Response(page.body, headers=headers)
    return Response(page.compressed, headers=headers | {"content-encoding": "gzip"})
