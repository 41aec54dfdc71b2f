"""A real server of pictures on 127.0.0.1 that answers, refuses, slows down, hangs, breaks off and lies about sizes."""

import base64
import io
import json
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

MAPPING = {
    "together": {"providerId": "together/flux", "status": "live", "task": "text-to-image"},
    "nscale": {"providerId": "nscale/flux", "status": "live", "task": "text-to-image"},
}


def png(number: int, size: tuple[int, int] = (64, 64)) -> bytes:
    """A picture of its own for every number."""
    pixels = np.random.default_rng(number).integers(1, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def picture(number: int, size: tuple[int, int] = (64, 64), **more):
    """An answer with a picture."""
    return 200, {"data": [{"b64_json": base64.b64encode(png(number, size)).decode(), **more}]}


def refused(code: str = "moderation_blocked", status: int = 400, message: str = "Your request was rejected"):
    """An answer that refuses to draw."""
    return status, {"error": {"message": message, "code": code, "type": "image_generation_user_error"}}


def slow_down(seconds: float = 0):
    """An answer of a server that is asked too often."""
    return 429, {"error": {"message": "rate limit"}}, {"Retry-After": str(seconds)}


def size_of(request) -> tuple[int, int]:
    """The requested size."""
    if "size" in request:
        width, height = request["size"].split("x")
        return int(width), int(height)
    return int(request["width"]), int(request["height"])


@contextmanager
def answering(handler):
    """Serve requests by this handler in a thread; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HostedServer:
    """Answers requests by ``answer(number, request)``; keeps what it was sent, and how many came at once."""

    def __init__(self, answer=lambda n, request: picture(n, size_of(request))):
        self.answer, self.requests, self.keys, self.asked_of_hub = answer, [], set(), 0
        self._lock, self._at_once, self.most_at_once, self.url = threading.Lock(), 0, 0, ""

    def take(self, request, key):
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.keys.add(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.answer(number, request)
        finally:
            with self._lock:
                self._at_once -= 1

    @contextmanager
    def running(self):
        with answering(partial(_Handler, self)) as self.url:
            yield self


class FakeServer(HostedServer):
    """Answers each request with the next of its answers, the last for ever."""

    def __init__(self, *answers):
        super().__init__(self._next)
        self.answers = list(answers)

    def _next(self, _number, request):
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return found(request) if callable(found) else found

    @contextmanager
    def running(self):
        """Its address, while it runs."""
        with super().running():
            yield self.url


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, fake, *args):
        self.fake = fake
        super().__init__(*args)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization")
        found = self.fake.take({"path": self.path, "key": key, **body}, key)
        if found is None:  # hang up
            self.close_connection = True
        else:
            self.send(*found)

    def do_GET(self):
        if self.path.startswith("/api/models/"):
            self.fake.asked_of_hub += 1
            known = any(name in self.path for name in ("org/flux", "black-forest-labs/FLUX.1-dev", "Qwen/Qwen-Image"))
            self.send(*((200, {"id": "org/flux", "inferenceProviderMapping": MAPPING}) if known else (404, {})))
        else:
            self.send(200, png(int(self.path.rpartition("/")[2])))

    def send(self, status, content, headers=()):
        data, headers = content if isinstance(content, bytes) else json.dumps(content).encode(), dict(headers)
        self.close_connection = "Content-Length" in headers
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(data))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args):
        pass

    def handle(self):
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked went away
            super().handle()


def broken(number: int):
    """One of the ways in which an answer is no picture."""
    ways = (
        (200, b"<html>busy</html>"),
        (200, {"data": [{"b64_json": base64.b64encode(png(number)[:900]).decode()}]}),
        (200, {"data": [{"b64_json": base64.b64encode(b"no picture").decode()}]}),
        (200, {"data": []}),
        (500, b"oops"),
        (200, b'{"data": [', {"Content-Length": "5000"}),
        (200, {"data": [{"b64_json": base64.b64encode(png(number, (3, 3))).decode()}]}),
        None,
    )
    return ways[number % len(ways)]


def hanging(seconds: float):
    """An answer that takes its time."""
    time.sleep(seconds)
    return picture(0)
