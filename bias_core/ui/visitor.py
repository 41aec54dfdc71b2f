"""Visitors: their secret key, stop flag, folder and turn in the queue."""

import hashlib
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cached_property, partial, wraps
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary, finalize

import gradio as gr
from gradio.context import LocalContext
from starlette.requests import HTTPConnection

from bias_core.errors import InvalidInput
from bias_core.report.saved import Newest
from bias_core.run.run import complete
from bias_core.run.run_queue import QueuePlace, Requester, RunAtWork, get_client_network
from bias_core.services import Services
from bias_core.store.uploads import HeldUploads
from bias_core.study.types import Progress, map_progress
from bias_core.ui.messages import EACH, QUIET, user_errors

P = ParamSpec("P")
T = TypeVar("T")
_KEY_BYTES = 16
_FRESH_SECONDS = 5.0  # for which the hub's answer on GPU time serves all tabs
TOKEN_HEADER = "x-hosted-model-token"  # in requests by programs
_SECRET = "t2i-bias-explorer-visitor-1"  # hides the key from a passing look; it is no password

_KEYS = Newest[str](100_000)
"""Visitor's key of each open page: Gradio drops the state of pages that are unused for long."""
_STOPS: WeakValueDictionary[str, threading.Event] = WeakValueDictionary()
"""Stop flag of each visitor's newest run by key, while it is in use: a reloaded page can stop the run."""


BROWSER, SECURE_BROWSER = "t2i-bias-browser", "__Host-t2i-bias-browser"  # cookies; the second over https alone


def own_cookie(connection: HTTPConnection) -> str:
    """The random name in a browser's own cookie; "" if it has none."""
    cookies = connection.cookies
    return cookies.get(SECURE_BROWSER, "") or cookies.get(BROWSER, "")


def identify_browser(connection: HTTPConnection | None) -> str:
    """A name for the requesting browser, from its cookie or else its sign-in; "" if it has neither."""
    # Programs have no cookies, nor has a page in the frame of another site in a browser that blocks them there.
    if connection is None:
        return ""
    sign_in, cookie = _read_login(connection), own_cookie(connection)
    user = "" if cookie else str(sign_in.get("userinfo", {}).get("sub") or sign_in.get("access_token") or "")
    return hashlib.sha256(repr((cookie, user)).encode()).hexdigest()[:32] if cookie or user else ""


def _read_login(connection: HTTPConnection | None) -> Mapping[str, Any]:
    """The Hub sign-in in Gradio's signed cookie; {} if there is none or it has expired."""
    session = connection.scope.get("session", {}) if connection is not None else {}
    sign_in: Mapping[str, Any] = session.get("oauth_info") or {}
    return sign_in if sign_in.get("expires_at", math.inf) >= time.time() else {}


def _connection() -> HTTPConnection | None:
    """The request of the current event; None outside of events."""
    request = getattr(LocalContext.request.get(None), "request", None)
    return request if isinstance(request, HTTPConnection) else None


def open_page() -> str:
    """Browser and page of the current event; "" outside of events."""
    page = str(getattr(LocalContext.request.get(None), "session_hash", None) or "")
    return page and f"{identify_browser(_connection())} {page}"


class Visitor:
    """A visitor in a ``gr.State``; a copy is a new visitor, so no two sessions share one.

    ``key`` is 128 random bits in hex, from which run ids are derived; the browser keeps it, so a reloaded page
    finds the same runs. ``address`` is the network address of requests, "" if it is not informative.
    """

    def __init__(self) -> None:
        self._key = self.address = ""
        self._typed = ("", "")  # the page's token, in memory only, and its browser
        self._asking, self._gpu_seconds = threading.Lock(), (-math.inf, math.nan)  # when asked, and the answer
        self._stop = threading.Event()
        self.uploads = HeldUploads()  # uploads that the page uses
        self.places: set[str] = set()  # tabs on which a run was begun since the page was opened
        self.follows = False  # True while the page follows a run
        self.unfilled: dict[str, Any] = {}  # designs and settings of runs that are not in the form yet, by place
        self.paper = ""  # key of the paper that is looked at; "" before any
        self.link: Any = None  # the address that the page was opened with, until its paper is left
        self.seen: set[str] = set()  # papers that were looked at since the page was opened
        self.typed: dict[str, Mapping[str, Any]] = {}  # values of the form, by paper
        self.results: dict[str, str] = {}  # names of the reports that were shown last, by paper
        self.others: tuple[str, ...] = ("",)  # files and data set of published runs that were looked at last

    def __deepcopy__(self, memo: object) -> "Visitor":
        return Visitor()

    @property
    def key(self) -> str:
        """The visitor's secret key; an open page keeps it even if Gradio dropped its state."""
        if not self._key:
            self.key = _KEYS.get(open_page()) or secrets.token_hex(_KEY_BYTES)
        return self._key

    @key.setter
    def key(self, key: object) -> None:
        if not isinstance(key, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * _KEY_BYTES}}}", key):
            raise InvalidInput("a visitor's key has 32 hex digits")
        self._key = key
        if page := open_page():
            _KEYS.put(page, key)

    @property
    def has_arrived(self) -> bool:
        """True once the page's visitor is known, a moment after it opened."""
        return bool(self._key or _KEYS.get(open_page()))

    def type_token(self, typed: str) -> None:
        """Use the typed token to pay for runs of this page in this browser; "" removes it."""
        self._typed = typed.strip(), identify_browser(_connection())

    def services(self, services: Services) -> Services:
        """The services for this visitor; their own token, if there is one, pays for hosted models.

        A sign-in's token comes with each request and is not stored; a typed one works only in its browser.
        """
        token, browser = self._typed
        if not token or browser != identify_browser(_connection()):
            token = str(_read_login(_connection()).get("access_token") or "")
        return services.for_visitor(token) if token else services

    def get_remaining_gpu_seconds(self, services: Services) -> float | None:
        """The visitor's GPU seconds left today on a Space with ZeroGPU; None if unknown.

        Cached for some seconds, because all tabs ask when a page opens.
        """
        with self._asking:
            if time.monotonic() - self._gpu_seconds[0] > _FRESH_SECONDS:
                seconds = self.services(services).get_remaining_gpu_seconds()
                self._gpu_seconds = time.monotonic(), math.nan if seconds is None else seconds
            return None if math.isnan(self._gpu_seconds[1]) else self._gpu_seconds[1]

    @property
    def stop(self) -> threading.Event:
        """Stop flag of the visitor's newest run on any page; set when Stop is pressed."""
        self._stop = _STOPS.setdefault(self.key, self._stop)
        return self._stop

    def start(self, services: Services, place: str = "") -> None:
        """Prepare a new run of this tab: an older one is told to stop and keeps its own flag.

        Raises InvalidInput: one of the visitor's runs is at work.
        """
        check_no_other_run(services, self, place)
        self.places.add(place)
        self.stop.set()
        self._stop = _STOPS[self.key] = threading.Event()

    @cached_property
    def folder(self) -> Path:
        """Folder of this visitor's downloads; deleted when the visitor leaves, or Gradio drops the page's state."""
        path = mkdtemp(prefix="t2i-bias-")
        self._delete_folder = finalize(self, rmtree, path, ignore_errors=True)
        return Path(path)

    def leave(self) -> None:
        """Delete the folder and the uploads that no run uses; an unwatched run ends by itself."""
        self.uploads = HeldUploads()
        if "folder" in self.__dict__:
            self._delete_folder()


def build_visitor(demo: gr.Blocks) -> tuple[Any, Any]:
    """The visitor's state, and the event that identifies them; outside of tabs, or Gradio does not read it."""
    visitor = gr.State(Visitor(), delete_callback=Visitor.leave)
    stored = gr.BrowserState("", storage_key="t2i-bias-visitor", secret=_SECRET)
    return visitor, demo.load(on_arrive, [visitor, stored], stored, **QUIET)


def on_arrive(visitor: Visitor, key: str | None, request: gr.Request | None = None) -> str:
    """Recognise the visitor by the key in the browser, or give them a new one."""
    visitor.address = find_network_address(request)
    with user_errors():  # an invalid key is ignored
        if key:
            visitor.key = key
    return visitor.key


def read_request_token(request: gr.Request | None) -> str:
    """The token in a program's request that pays for hosted models; "" for none."""
    return "" if request is None else str(request.headers.get(TOKEN_HEADER, "")).strip()


def find_network_address(request: gr.Request | HTTPConnection | None) -> str:
    """Network address of a request, for fair queueing; "" for this machine."""
    if request is None:
        return ""
    address = get_client_network(request.headers, getattr(request.client, "host", "") or "")
    return "" if address in ("127.0.0.1", "::/64") else address


S = TypeVar("S")
R = TypeVar("R")

RUN: dict[str, Any] = {"queue": True, "concurrency_limit": None}  # the queue of runs decides who waits, not Gradio's
_PLACES_OF_PROGRAMS = 8  # of one address


def skip_if_empty(run: Callable[P, Iterator[Any]]) -> Callable[P, Iterator[Any]]:
    """Return a handler that changes nothing if ``run`` yields nothing; Gradio alone would empty the outputs."""

    @wraps(run)
    def updates(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
        given = run(*args, **kwargs)
        yield next(given, gr.skip())
        yield from given

    return updates


def then_run(
    event: Callable[..., Any],
    run: Callable[..., Iterator[Any]],
    inputs: Any,
    outputs: Any,
    crash: Callable[[], dict[Any, Any]],
) -> Any:
    """Run a generator handler after an event, such as ``click.then``, without waiting for earlier ones.

    ``crash`` gives the updates after an unexpected error.
    """
    ran = event(skip_if_empty(run), inputs, outputs, **(EACH | RUN))
    ran.failure(crash, None, list(crash()), **QUIET)
    return ran


def check_no_other_run(services: Services, visitor: Visitor, place: str = "") -> None:
    """Raise InvalidInput if a run of this visitor is at work that was not told to stop; the new one's is ``place``."""
    at_work = services.run_queue.find(visitor.key)
    if at_work is not None and not at_work.stop.is_set():
        location = f"in {at_work.place.title()} " if at_work.place not in ("", place) else ""
        raise InvalidInput(f"your run {location}is still running, and you can have one run at a time")


def run_queued(
    services: Services, visitor: Visitor, start: Callable[[], Generator[S, None, R]], place: str = ""
) -> Generator[S | Progress, None, R]:
    """Steps of a visitor's run, or its place in the queue; with a ``place`` on the page it survives a reload.

    Raises InvalidInput: see :meth:`Visitor.start`.
    """
    check_no_other_run(services, visitor, place)
    requester = Requester(name=visitor.key, address=visitor.address)
    with_uploads = partial(_holding, visitor.uploads, start)
    return steps_in_words(services.run_queue.begin(with_uploads, requester, visitor.stop, place))


def _holding(_uploads: HeldUploads, start: Callable[[], Generator[S, None, R]]) -> Generator[S, None, R]:
    """A run that keeps its uploads until it has ended."""
    return (yield from start())


def steps_in_words(run: RunAtWork[S | QueuePlace, R]) -> Generator[S | Progress, None, R]:
    """The newest steps of a run; its place in the queue as text."""

    def describe_step(step: S | QueuePlace) -> S | Progress:
        if not isinstance(step, QueuePlace):
            return step
        before = "1 run is" if step.n_before == 1 else f"{step.n_before} runs are"
        state = "Paused for others, nothing is lost" if step.begun else "Waiting for your turn"
        return Progress(message=f"{state}: {before} before yours …")

    return map_progress(run.follow(), describe_step)


def run_for_api(services: Services, start: Callable[[], Generator[Any, None, R]]) -> R:
    """Queue and run a program's request; return its result."""
    address = find_network_address(LocalContext.request.get(None))
    requester = Requester(name=f"programs {address}", address=address, places=_PLACES_OF_PROGRAMS)
    return complete(services.run_queue.run(start, requester))
