"""HTTP API of the raters' page: small JSON in and out, and pictures under a token that only one rater has.

=======  =============================  ======================================  ==========================
method   path                           body                                    gives
=======  =============================  ======================================  ==========================
GET      ``/label/task/<join code>``                                            task and ``page``
POST     ``/label/join``                ``{task, agreed: true, page}``          ``{code, task}``
GET      ``/label/mine``                                                        task
GET      ``/label/next``                                                        turn
POST     ``/label/answer``              ``{id, item, choices, duration_ms}``    turn
POST     ``/label/skip``                ``{id, item}``                          turn
POST     ``/label/undo``                ``{id}``                                turn
POST     ``/label/about``               ``{version, choices: [n, ...]}``        turn
DELETE   ``/label/mine``                                                        ``{deleted: n}``
GET      ``/label/picture/<item>``                                              PNG
POST     ``/label/exclude``             ``{rater, excluded}``                   ``{raters: [...]}``
DELETE   ``/label/task``                                                        ``{deleted: n}``
=======  =============================  ======================================  ==========================

``page`` proves that the task's page was read, and makes one rater. If the task has codes of a crowd platform, ``join``
takes ``crowd: {participant, study, session}`` too, and one participant is one rater. From ``mine`` on, the rater's
code is in the header ``X-Rater-Code``; there are no cookies, and no log of the caller. A turn comes only after the
request's data is on disk. The last two belong to the owner, with the key in the header ``X-Owner-Key``: they
exclude (or include) a rater, and delete a task for good.

Errors are ``{error: text}``: 400 and 413 to 415 for a bad request, 403 and 404 for missing rights, 429 (wait), 503
(send again).
"""

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from bias_core.errors import BiasCoreError, InvalidInput, NotAllowed, StorageError
from bias_core.installed import ASSETS
from bias_core.labels import rating
from bias_core.labels.label_store import LabelsGone, LabelStore
from bias_core.labels.results import task_progress
from bias_core.labels.task_owner import OwnerKey, delete_task, exclude_rater, task_picture_png
from bias_core.run.run_queue import get_client_network
from bias_core.services import Services
from bias_core.study.label_tasks import MAX_ABOUT, MAX_POSITIONS, Task, crowd_address

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

PAGE = ASSETS / "label"  # no framework, nothing from elsewhere, and nothing of the app
_LANGUAGES = tuple(f"languages/{path.name}" for path in (PAGE / "languages").glob("*.json"))
_PAGE_FILES = {"/label": "index.html"} | {
    f"/label/{name}": name for name in ("label.css", "label.js", "language.js", *_LANGUAGES)
}

MAX_BODY = 4096  # bytes; an answer has about 200
CODE_HEADER, KEY_HEADER = "x-rater-code", "x-owner-key"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_READERS = 8  # threads: actions wait for the disk

# Token buckets (burst, then per second): above what people do, below what a runaway script does.
_ACTS = (60, 20.0)
_HOUR = 3600
_MOST_BUCKETS = 20_000  # a flood of addresses must not fill the memory
_NOT_NOW = "the server could not store or read this just now; send it again. Saved answers are safe."
_GONE = "the file of the answers is gone or was replaced, so that nothing is stored until it is back; send it again."
_CROWD = "many people are joining now; wait a minute, then try again"

_SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}  # the link is in the address
_HEADERS = _SAFE | {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
_PRIVATE = _HEADERS | {"Cache-Control": "no-store"}
_PICTURE = _HEADERS | {"Cache-Control": "private, max-age=3600, immutable"}
_PAGE_HEADERS = _SAFE | {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}

_log = logging.getLogger(__name__)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=64)


class _Crowd(_Body):
    participant: str
    study: str = ""
    session: str = ""


class _Join(_Body):
    task: str
    agreed: bool  # set by a rater who read the text, never by default
    page: str = ""
    crowd: _Crowd | None = None


class _About(_Body):
    version: int
    choices: list[int] = Field(max_length=MAX_ABOUT)  # index of the answer to each question, -1 for none


class _Undo(_Body):
    answer_id: str = Field(alias="id")  # made by the page for each action, so that a repeated request has no effect


class _Skip(_Undo):
    item: str  # its token


class _Answer(_Skip):
    choices: dict[str, str] = Field(max_length=MAX_POSITIONS)  # the key of an answer for each position
    duration_ms: int = 0


class _Exclusion(_Body):
    rater: str  # a random name
    excluded: bool  # false includes the rater again


class _AnswerRefused(BiasCoreError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class LabelDoor:
    """Handlers of the routes; the labels open with the first request."""

    def __init__(self, services: Services, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._services = services
        self._clock = clock
        self._salt = secrets.token_bytes(16)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="label-readers")

    def routes(self) -> list[Route]:
        """Routes for ``launch(app_kwargs={"routes": ...})``, which puts them before Gradio's own."""
        code, key, deleted = self._code, self._key, lambda n: {"deleted": n}
        acts: tuple[tuple[Any, ...], ...] = (
            ("GET", "/label/mine", code, rating.get_task, None, lambda task_and_status: _task_json(*task_and_status)),
            ("DELETE", "/label/mine", code, rating.delete_my_answers, None, deleted),
            ("GET", "/label/next", code, rating.next_item, None, _turn_json),
            ("POST", "/label/answer", code, rating.give_answer, _Answer, _turn_json),
            ("POST", "/label/skip", code, rating.skip, _Skip, _turn_json),
            ("POST", "/label/undo", code, rating.undo, _Undo, _turn_json),
            ("POST", "/label/about", code, rating.tell_about_me, _About, _turn_json),
            ("POST", "/label/exclude", key, _exclude, _Exclusion, dict),
            ("DELETE", "/label/task", key, delete_task, None, deleted),
        )
        handlers = (
            ("GET", "/label/task/{code}", self._task),
            ("POST", "/label/join", self._join),
            ("GET", "/label/picture/{token}", self._picture),
            *((method, path, self._acting(*handler_args)) for method, path, *handler_args in acts),
        )
        return [Route(path, _guarded(handler), methods=[method]) for method, path, handler in handlers]

    def _acting(self, identify: Callable[[Request], Any], act: Any, model: type[_Body] | None, view: Any) -> Handler:
        """Return a handler for an action of a rater or owner, known by a header; actions with turns share commits."""
        run = self._together if view is _turn_json else self._alone

        async def handle(request: Request) -> Response:
            actor = identify(request)
            values = vars(await _parse_body(request, model)) if model else {}
            return _respond(view(await run(lambda store: act(store, actor, **values))))

        return handle

    async def _task(self, request: Request) -> Response:
        code = request.path_params["code"]
        task, status = await self._alone(lambda store: rating.task_to_join(store, code))
        return _respond(_task_json(task, status) | {"page": await self._alone(lambda s: rating.pass_to_join(s, code))})

    async def _join(self, request: Request) -> Response:
        if not (body := await _parse_body(request, _Join)).agreed:
            raise InvalidInput("agreed: must be true; read the consent text and agree to it before you join")
        task, _ = await self._alone(lambda store: rating.task_to_join(store, body.task))
        network = f"{task.id} {self._network(request)}"
        for name, limit in ((network, task.joins_per_address), (task.id, task.joins_per_hour)):
            self._take(name, limit, limit / _HOUR, _CROWD)
        ids = rating.CrowdIds(**vars(body.crowd)) if body.crowd else None
        new = await self._together(lambda store: rating.join(store, body.task, page_pass=body.page, ids=ids))
        return _respond({"code": new.code, "task": _task_json(new.task, "open")})

    async def _picture(self, request: Request) -> Response:
        if not _TOKEN.fullmatch(token := request.path_params["token"]):
            raise _AnswerRefused(404, "no picture has this address")

        def read(store: LabelStore) -> bytes:
            try:
                return task_picture_png(store.pictures, rating.find_picture_hash(store, token))
            except NotAllowed as error:
                raise _AnswerRefused(404, str(error)) from error

        return Response(await self._alone(read), media_type="image/png", headers=_PICTURE)

    async def _together(self, act: Callable[[LabelStore], T]) -> T:
        """Run an action off the event loop, in one commit with other raters' actions."""
        store = self._services.labels
        with _unless_it_ends():
            future = store.submit(lambda: act(store))
        return await asyncio.wrap_future(future)

    async def _alone(self, act: Callable[[LabelStore], T]) -> T:
        """Run an action off the event loop, because the disk may be slow."""
        with _unless_it_ends():
            future = self._pool.submit(lambda: act(self._services.labels))
        return await asyncio.wrap_future(future)

    def _code(self, request: Request) -> str:
        code: str = request.headers.get(CODE_HEADER, "")
        if not 1 <= len(code) <= 64:
            raise NotAllowed(f"the header {CODE_HEADER} must hold your rater's code")
        self._take(code, *_ACTS)
        return code

    def _key(self, request: Request) -> OwnerKey:
        self._take(f"owner {self._network(request)}", *_ACTS)
        return OwnerKey.parse(request.headers.get(KEY_HEADER, ""))

    def _network(self, request: Request) -> str:
        """A keyed hash of the caller's network, which shares one rate limit; the address itself is not kept."""
        address = get_client_network(request.headers, request.client.host if request.client else "")
        return hashlib.blake2b(address.encode(), key=self._salt, digest_size=16).hexdigest()

    def _take(self, name: str, limit: float, per_second: float, text: str = "too many requests; wait a second") -> None:
        """Take one token from the bucket of this name; buckets live in memory, and the longest unused go first."""
        now = self._clock()
        tokens, then = self._buckets.pop(name, (limit, now))
        tokens = min(limit, tokens + (now - then) * per_second)
        self._buckets[name] = (max(0.0, tokens - 1), now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            raise _AnswerRefused(429, text)


def label_routes(services: Services) -> list[Route]:
    return [*LabelDoor(services).routes(), *page_routes()]


def page_routes() -> list[Route]:
    """Routes of the page and its files. Other sites link to it, so any site may request them."""

    async def send(_: Request, *, name: str) -> FileResponse:
        return FileResponse(PAGE / name, headers=_PAGE_HEADERS)

    return [Route(path, partial(send, name=name), methods=["GET"]) for path, name in _PAGE_FILES.items()]


def _exclude(store: LabelStore, key: OwnerKey, *, rater: str, excluded: bool) -> dict[str, Any]:
    exclude_rater(store, key, rater, excluded=excluded)
    names = ("rater", "n_answered", "n_skipped", "excluded")
    return {"raters": [{name: getattr(rater, name) for name in names} for rater in task_progress(store, key).raters]}


@contextmanager
def _unless_it_ends() -> Iterator[None]:
    """Turn the error that Python raises when a stopping server has no threads left into StorageError."""
    try:
        yield
    except RuntimeError as error:
        raise StorageError(f"the server is stopping: {error}") from error


def _guarded(handler: Handler) -> Handler:
    """Answer errors as JSON, and refuse pages of other sites."""

    async def handle(request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _respond({"error": "only this site's own pages may send this"}, 403)
        try:
            return await handler(request)
        except (_AnswerRefused, NotAllowed, InvalidInput) as error:
            status, text = getattr(error, "status", 403 if isinstance(error, NotAllowed) else 400), str(error)
        except StorageError as error:
            _log.warning("labels: %s", error)
            status, text = 503, _GONE if isinstance(error, LabelsGone) else _NOT_NOW
        return _respond({"error": text}, status, {"Retry-After": "1"} if status in (429, 503) else {})

    return handle


B = TypeVar("B", bound=_Body)


async def _parse_body(request: Request, model: type[B]) -> B:
    """Return the body as this model; refuse anything but small JSON of its form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _AnswerRefused(415, "send a JSON body with the content type application/json")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise _AnswerRefused(413, f"a request may have at most {MAX_BODY:,} bytes")
    try:
        return model.model_validate_json(bytes(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise InvalidInput(f"{where or 'the body'}: {first['msg']}") from error


def _respond(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] = {}) -> Response:
    return JSONResponse(content, status, headers={**_PRIVATE, **headers})


def _task_json(task: Task, status: str) -> dict[str, Any]:
    texts = {name: getattr(task, name) for name in ("title", "kind", "instructions", "consent", "content_note")}
    answers = [vars(answer) for answer in task.answers]
    task_facts = {"status": status, "positions": list(task.positions), "answers": answers}
    return {**texts, **task_facts, "of_a_crowd": task.is_of_a_crowd, **_crowd("decline", task.screened_out_code)}


def _crowd(name: str, code: str) -> dict[str, str]:
    """The address that reports this code to the crowd platform; empty without a code."""
    return {name: crowd_address(code)} if code else {}


def _about_json(task: Task) -> dict[str, Any]:
    """The questions to raters about themselves, as JSON values."""
    questions = [{"text": text, "answers": [*answers]} for text, answers in task.about_rater.items()]
    return {"version": task.version, "questions": questions}


def _turn_json(turn: rating.Turn) -> dict[str, Any]:
    return {
        "item": turn.item,
        "picture": f"label/picture/{turn.item}" if turn.item else "",
        "questions": [vars(question) for question in turn.questions],
        "answers": [vars(answer) for answer in turn.task.answers],
        "chosen": dict(turn.earlier_choices),
        "progress": {"answered": turn.n_answered, "left": turn.n_left},
        "can_undo": turn.can_undo,
        "done": turn.why_done,
        "about": _about_json(turn.task) if turn.asks_about_rater else None,
        **_crowd("crowd", turn.crowd_code),
    }
