"""Receives uploads: counts bytes, refuses too large ones at once, and deletes failed ones.

Gradio 6.31 has its own upload route, which is not used: it limits each file and not the request, keeps the files of
requests that end early or use another field, and remembers every piece of an upload if its progress is not read.
"""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
from gradio.route_utils import GradioMultiPartParser, GradioUploadFile, MultiPartException
from gradio_client.utils import strip_invalid_filename_characters
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bias_core.errors import UploadsFull
from bias_core.store.uploads import UploadStore
from bias_core.ui.visitor import find_network_address

_UPLOAD, _PROGRESS, _FILE = "/gradio_api/upload", "/gradio_api/upload_progress", "/gradio_api/file="
_MOST_FILES = 5  # in one request; each stays open until the last has arrived
_MOST_AT_ONCE, _MOST_OF_ALL = 8, 64  # current uploads of one address, and of all
_SILENT_SECONDS, _WHOLE_SECONDS = 30.0, 600.0  # for which an upload may be silent, and take in total
_SLOWEST = 5000  # bytes a second on average, for uploads longer than that silence
_LISTENING_SECONDS = 10.0  # for which a refused upload is still read, so that its sender gets the reason
_FORM = 64_000  # bytes of a request besides its files
_DONE = f"data: {json.dumps({'msg': 'done'})}\n\n"


class _UploadRefused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _FilesAlone(GradioMultiPartParser):
    """Accepts only files in the field that Gradio's pages use."""

    def on_headers_finished(self) -> None:
        """Refuse any other part."""
        super().on_headers_finished()
        if self._current_part.field_name != "files":
            raise MultiPartException("a file's field must be named files")

    def close(self) -> None:
        for file in self._files_to_close_on_error:
            file.close()


class Uploads:
    """Stores uploads of at most ``most`` bytes per request; passes on other requests."""

    def __init__(self, app: ASGIApp, store: UploadStore, max_bytes: int) -> None:
        self._app, self._store, self._most = app, store, max_bytes
        self._under_way: Counter[str] = Counter()  # uploads by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer uploads and requests for their progress."""
        path = scope["path"].rstrip("/") if scope["type"] == "http" else ""
        if self._store.is_sweep_due:
            asyncio.get_running_loop().run_in_executor(None, self._store.sweep)
        if path.endswith(_PROGRESS):
            await Response(_DONE, media_type="text/event-stream")(scope, receive, send)
        elif path.endswith(_UPLOAD):
            await self._upload(scope, receive, send)
        elif self._store.hides(path.partition(_FILE)[2]):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            places = await self._places(request)
        except _UploadRefused as refusal:
            await _send_refusal(PlainTextResponse(str(refusal), refusal.status), request, send)
        else:
            await JSONResponse(places)(scope, receive, send)

    async def _places(self, request: Request) -> list[str]:
        """Paths of a request's files; raises _UploadRefused."""
        address = find_network_address(request)
        self._check_head(request, address)
        self._under_way[address] += 1
        try:
            if not self._store.has_room(address):
                await anyio.to_thread.run_sync(self._store.sweep)
            async with asyncio.timeout(_WHOLE_SECONDS):
                return await self._receive(request, address)
        except UploadsFull as error:
            raise _UploadRefused(507, str(error)) from error
        except TimeoutError as error:
            raise _UploadRefused(
                408, "The upload took too long. Try again, or upload fewer or smaller pictures."
            ) from error
        except OSError as error:
            reason = f"The server cannot store the upload: {error.strerror or type(error).__name__}."
            raise _UploadRefused(507, reason) from error
        except (MultiPartException, ValueError) as error:
            reason = "This is not an upload: send each file as multipart/form-data, in a field named files."
            raise _UploadRefused(400, reason) from error
        finally:
            self._under_way[address] -= 1
            self._under_way += Counter()  # drop addresses with a count of 0

    def _check_head(self, request: Request, address: str) -> None:
        """Refuse a request before its body is read."""
        if request.method != "POST":
            raise _UploadRefused(405, "Send an upload with POST.")
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise _UploadRefused(400, "Send an upload as multipart/form-data.")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 15 or int(length) > self._most + _FORM):
            raise _UploadRefused(413, self._too_large())
        if (address and self._under_way[address] >= _MOST_AT_ONCE) or self._under_way.total() >= _MOST_OF_ALL:
            raise _UploadRefused(429, "Too many uploads are in progress. Try again in a minute.")

    def _too_large(self) -> str:
        return f"An upload may have {self._most / 1024**2:g} MB at most. Upload fewer or smaller pictures."

    async def _receive(self, request: Request, address: str) -> list[str]:
        """Read a request to its end and keep its files; on failure, keep none."""
        folder = await anyio.to_thread.run_sync(self._store.folder)
        n_arrived, begun = 0, time.monotonic()

        async def arriving() -> AsyncGenerator[bytes, None]:
            nonlocal n_arrived
            async for piece in _pieces(request):
                if n_arrived + len(piece) > self._most + _FORM:
                    raise _UploadRefused(413, self._too_large())
                self._store.count(address, len(piece))
                n_arrived += len(piece)
                if n_arrived < _SLOWEST * (time.monotonic() - begun - _SILENT_SECONDS):
                    raise TimeoutError
                yield piece

        with TemporaryDirectory(dir=folder / "arriving") as upload_dir:
            parser = _FilesAlone(
                request.headers,
                arriving(),
                max_files=_MOST_FILES,
                max_fields=0,
                upload_dir=upload_dir,
                max_file_size=math.inf,
            )
            try:
                form = await parser.parse()
            finally:
                parser.close()
                self._store.count(address, -n_arrived)  # kept files are counted by the store
            files = [file for file in form.getlist("files") if isinstance(file, GradioUploadFile)]
            if not files:
                raise _UploadRefused(400, "The upload has no complete file. Try again.")
            return await anyio.to_thread.run_sync(self._keep, files, address)

    def _keep(self, files: list[GradioUploadFile], address: str) -> list[str]:
        return [str(self._store.keep(Path(file.file.name), _clean_file_name(file), address)) for file in files]


def _clean_file_name(file: GradioUploadFile) -> str:
    """The sender's file name without invalid characters."""
    return str(strip_invalid_filename_characters(Path(file.filename or "").name)).strip(". ") or "upload"


async def _pieces(request: Request) -> AsyncGenerator[bytes, None]:
    has_more = True
    while has_more:
        message = await asyncio.wait_for(request.receive(), _SILENT_SECONDS)
        if message["type"] == "http.disconnect":
            raise _UploadRefused(400, "The upload ended early.")
        yield message.get("body", b"")
        has_more = message.get("more_body", False)


async def _send_refusal(answer: Response, request: Request, send: Send) -> None:
    """Answer at once, but read on for a moment: a sender cut off while sending would not see the reason."""
    answer.headers["connection"] = "close"
    await send({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    with suppress(TimeoutError, _UploadRefused):
        async with asyncio.timeout(_LISTENING_SECONDS):
            async for _ in _pieces(request):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
