"""The head of a request, limited while it arrives: httptools keeps all of it, however long it is and however slow."""

from asyncio import BaseTransport, TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES, _MOST_HEADERS = 32_000, 100
_MOST_SECONDS = 30
_MOST_PIPELINED = 8
_ANSWER = "431 Request Header Fields Too Large"
_SENTENCE = f"A request may have at most {_MOST_HEADERS} headers, with {_MOST_BYTES:,} bytes together"


class _TooLong(Exception):
    """The head is longer than it may be."""


class ShortHeads(HttpToolsProtocol):
    """Uvicorn's protocol, which ends a connection whose head is too long or takes too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._n_bytes = self._n_headers = self._n_unparsed = 0
        self._is_too_long = False
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; refuse it when no end of a header is in sight."""
        self._n_unparsed += len(data)
        super().data_received(data)
        if self._n_unparsed > _MOST_BYTES and not self.transport.is_closing():
            self._is_too_long = True
            self.send_400_response(_SENTENCE)

    def on_message_begin(self) -> None:
        """Count the next head."""
        super().on_message_begin()
        self._n_bytes = self._n_headers = 0
        self._wait()

    def on_url(self, url: bytes) -> None:
        """Count the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, also one that comes after a body."""
        self._n_headers += 1
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve the request, if those before it on this connection are not too many."""
        self._n_unparsed = 0
        self._wait_no_longer()
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise _TooLong
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._n_unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_unparsed = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed; 431 for what is too long."""
        if not self._is_too_long:
            super().send_400_response(msg)
            return
        head = f"HTTP/1.1 {_ANSWER}\r\ncontent-type: text/plain\r\ncontent-length: {len(_SENTENCE)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n{_SENTENCE}".encode("ascii"))
        self.transport.close()

    def _count(self, size: int) -> None:
        self._n_unparsed = 0
        self._n_bytes += size
        if self._n_bytes > _MOST_BYTES or self._n_headers > _MOST_HEADERS:
            self._is_too_long = True
            raise _TooLong

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_MOST_SECONDS, self.transport.abort)

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
