"""Engines that draw the rows of a manifest, in this process or on Ray, and their speed.

The engine of this process draws batch by batch. With Ray, workers on many machines or GPUs each have their own
model; they write pictures into the store by path and return records, never pixels, so all machines must share
the data folder. Hosted models have their own engine in ``hosted_images``.
"""

import json
import logging
import math
import os
import pickle
import queue
import secrets
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from bias_core.errors import BiasCoreError, Cancelled, InvalidInput, ModelUnavailable, StorageError
from bias_core.models.model_sources import get_machine
from bias_core.models.weights import LazyModel
from bias_core.protocols import ShowsForming, TextToImage
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import BATCH_SIZE, GeneratedImage, ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, never, wait_while_paused, work_clock

_POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1  # between two reports of steps, of which small models do hundreds in a second
_FORMING_SECONDS = 0.3  # seconds between two previews
_PER_LOOK = 24  # and this multiple of a preview's time, so that previews slow drawing by at most 4 %
_ENOUGH = 16  # pictures: a rate from fewer does not replace one from more


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    """Progress of drawing some rows."""

    # done, total: distinct pictures; unknown to a Drawing
    done: int = 0
    total: int = 0
    images: tuple[StoredImage, ...] = ()  # pictures finished since the last event
    reused: bool = False  # true if `images` come from the store
    # step, n_steps: denoising steps of a batch at work; 0 and 0 between batches
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0  # steps done of unfinished batches, as pictures: half a batch of 8 is 4
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # previews of an unfinished batch, by row id
    seconds_left: float = float("nan")  # nan before the first timing


class Engine(Protocol):
    """Draws a manifest; equal rows give equal ids and pictures under every engine."""

    def n_workers(self) -> int:
        """Number of batches drawn at a time."""

    def place(self) -> str:
        """The hardware of a worker, the key of its remembered speed."""

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock,
        cancelled: StopSignal = never,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row, all of one model, has its picture in ``store``."""

    def close(self) -> None:
        """Stop the workers."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Measured cost of one picture for one worker."""

    seconds: float  # per picture, without loading the model
    n_bytes: float  # mean size of its PNG file
    n: int  # number of timed pictures


class Meter:
    """Measures the speed of drawing and the time left.

    Time counts from the first sign of drawing, so that starting workers and loading models are left
    out; before the second sign, it counts from the beginning.
    """

    def __init__(self) -> None:
        self.n_drawn = 0
        self._n_bytes = 0
        self._seconds = work_clock().seconds
        self._origin = self._seconds(), 0.0
        self._first: tuple[float, float] | None = None
        self._sign = self._last = 0.0, 0.0  # (time, pictures done): the newest, and that of the last picture

    def see(self, event: EngineProgress) -> None:
        """Record an event of a run."""
        if event.reused or not (event.step or event.images):
            return
        self.n_drawn += len(event.images)
        self._sign = self._seconds(), self.n_drawn + event.begun
        self._first = self._first or self._sign
        if event.images:
            self._last = self._sign
            for image in event.images:
                with suppress(OSError):  # deleted meanwhile
                    self._n_bytes += image.path.stat().st_size

    def rate(self, n_workers: int) -> Rate | None:
        """The cost of a picture; None after too short a run."""
        if self._first is None or not self.n_drawn:
            return None
        seconds, n_pictures = (last - first for last, first in zip(self._last, self._first, strict=True))
        if n_pictures <= 0:
            return None
        return Rate(seconds=n_workers * seconds / n_pictures, n_bytes=self._n_bytes / self.n_drawn, n=self.n_drawn)

    def estimate_seconds(self, n_missing: int) -> float:
        """Seconds until ``n_missing`` pictures are drawn; nan if unknown."""
        n_begun = self._sign[1]
        is_later = self._first is not None and n_begun > self._first[1]
        started, at_start = self._first if self._first is not None and is_later else self._origin
        if n_begun <= at_start:
            return float("nan")
        return (self._seconds() - started) / (n_begun - at_start) * max(0.0, n_missing - n_begun)


class Drawing(ABC):
    """Draws and stores pictures in a thread, and passes events to the caller.

    ``cancelled``: asked by the thread; once true, the work ends with :class:`Cancelled`.
    """

    batch_size = 0  # of the earlier part of the run, as its pictures record it; 0 if unknown

    def __init__(self, cancelled: StopSignal) -> None:
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[EngineProgress | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    @abstractmethod
    def draw(self) -> None:
        """Do the work; call :meth:`put` for finished pictures and :meth:`check` often."""

    def events(self) -> Iterator[EngineProgress]:
        """Start the work, yield its events, and raise its error."""

        def work() -> None:
            try:
                self.draw()
            finally:
                self._queue.put(None)

        # In the caller's context, where a borrowed GPU finds its visitor.
        result = self._pool.submit(copy_context().run, work)
        yield from iter(self._queue.get, None)
        result.result()

    def stop(self) -> None:
        """End the thread at its next step; also called when the consumer leaves."""
        self._abandoned.set()
        self._pool.shutdown()

    def put(self, images: Sequence[StoredImage] = (), **at_work: Any) -> None:
        """Pass on finished pictures or progress: fields of :class:`EngineProgress`."""
        self._queue.put(EngineProgress(images=tuple(images), **at_work))

    def check(self) -> None:
        """Raise Cancelled if the run was stopped."""
        if self._abandoned.is_set() or self._cancelled():
            raise stopped()


def stopped() -> Cancelled:
    """The error of a stopped run."""
    return Cancelled("stopped; what was finished is kept")


def follow(
    rows: Sequence[ImageRow], store: ImageStore, start: Callable[[list[ImageRow]], Drawing]
) -> Iterator[EngineProgress]:
    """Yield stored pictures at once, then follow the drawing of the rest.

    ``start``: makes the Drawing of the distinct rows without pictures; not called if there are none.

    Raises InvalidInput: pictures of another size than their rows'; they are stored with their own.
    """
    distinct = {row.id: row for row in rows}
    stored = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in stored]
    yield EngineProgress(done=len(stored), total=len(distinct), images=tuple(stored.values()), reused=True)
    if not missing:
        return
    drawing, meter = start(missing), Meter()
    sizes = ((image.drawn or {}).get(BATCH_SIZE) for image in stored.values())
    drawing.batch_size = min((size for size in sizes if isinstance(size, int) and size > 0), default=0)
    try:
        for event in drawing.events():
            _check_sizes(event.images, missing)
            meter.see(event)
            done, left = len(stored) + meter.n_drawn, meter.estimate_seconds(len(missing))
            yield replace(event, done=done, total=len(distinct), seconds_left=left)
    finally:
        drawing.stop()


def _check_sizes(images: Sequence[StoredImage], rows: Sequence[ImageRow]) -> None:
    """Refuse pictures of another size than requested, which no row would find."""
    sizes = {(row.width, row.height) for row in rows}
    for row in (image.row for image in images):
        if (row.width, row.height) not in sizes:
            expected = " or ".join(f"{width}x{height}" for width, height in sorted(sizes))
            raise InvalidInput(
                f"{row.model} drew {row.width}x{row.height} pixels where {expected} were asked for; it is "
                "kept with its own size. Start again, now that its files are on this machine; if that "
                "does not help, ask for that size (width and height of its entry in assets/models.yaml)"
            )


def run_rows(
    rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, *, lock: Lock, cancelled: StopSignal = never
) -> Iterator[EngineProgress]:
    """Yield progress until every row has its picture in ``store``.

    Drawing happens in a separate thread, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises Cancelled: ``cancelled()`` turned true: after at most one denoising step, with finished batches stored;
    ModelUnavailable, StorageError, InvalidInput: from the model or the store; stored pictures stay.
    """
    return follow(rows, store, lambda missing: _LocalDrawing(missing, model, store, lock, cancelled))


class LocalEngine:
    """Draws in this process, one batch at a time, on a device of the settings: "auto", "cpu", "cuda" or "mps"."""

    run = staticmethod(run_rows)

    def __init__(self, device: str = "auto") -> None:
        self._device = device

    def n_workers(self) -> int:
        """One."""
        return 1

    def place(self) -> str:
        """Name of the GPU, or the number of processors."""
        gpu = get_machine().gpu if self._device in {"auto", "cuda"} else ""
        return gpu or (self._device if self._device == "mps" else f"{os.cpu_count()} processors")

    def close(self) -> None:
        """Nothing is held."""


class _LocalDrawing(Drawing):
    """Draws batch by batch under the lock; a batch is stored while the next is drawn."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, lock: Lock, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._last_step_event, self._looks = 0.0, _Looks(model)
        self._n_unsaved = 0  # pictures that are drawn, and on their way to the disk

    def draw(self) -> None:
        left = list(self._rows)
        with ThreadPoolExecutor(1, thread_name_prefix="bias-engine-save") as pool:
            saving: Future[None] | None = None
            while left:
                images: list[GeneratedImage] = []
                wait_while_paused(self.check)
                self.check()
                while not self._lock.acquire(timeout=_POLL_SECONDS):
                    self.check()
                try:
                    with self._batch_size_of_run():
                        batch = left[: self._model.batch_size]
                        for image in self._model.generate(batch, on_step=self._on_step(len(batch))):
                            images.append(image)  # noqa: PERF402 - keeps the items before an error
                finally:
                    self._lock.release()
                    if saving is not None:
                        saving.result()  # at most one batch waits in memory, and a full disk ends the run
                    self._n_unsaved = len(images)
                    saving = pool.submit(self._save, images) if images else None
                left = left[len(batch) :]
            if saving is not None:
                saving.result()

    def _save(self, images: Sequence[GeneratedImage]) -> None:
        stored = self._store.add(images)
        self._n_unsaved = 0
        self.put(stored)

    @contextmanager
    def _batch_size_of_run(self) -> Iterator[None]:
        """Keep the size of the run's first batch, whatever other runs do; only memory that runs out lowers it."""
        if not isinstance(self._model, LazyModel):
            yield
            return
        self._model.load()  # its weights may decide the size
        with self._model.use_batch_size(self.batch_size or self._model.batch_size):
            try:
                yield
            finally:
                self.batch_size = self._model.batch_size

    def _on_step(self, n_pictures: int) -> Callable[[int, int], None]:
        def on_step(step: int, n_steps: int) -> None:
            self.check()
            forming = self._looks.forming() if step < n_steps else {}
            if forming or time.monotonic() - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = time.monotonic()
                begun = self._n_unsaved + n_pictures * step / n_steps
                self.put(step=step, n_steps=n_steps, begun=begun, forming=forming)

        return on_step


class _Looks:
    """Takes previews of a model's current batch, seldom enough not to slow drawing."""

    def __init__(self, model: TextToImage) -> None:
        self._model = model if isinstance(model, ShowsForming) else None
        self._due, self._n = 0.0, 0

    def forming(self) -> Mapping[str, Image.Image]:
        """Previews by row id if it is time for some, as it is at the first step."""
        began = time.monotonic()
        if self._model is None or began < self._due:
            return {}
        images, ended = self._model.forming(), time.monotonic()
        # The first preview's time does not count: it may include imports.
        pause = _PER_LOOK * (ended - began) if self._n else 0.0
        self._due, self._n = ended + max(_FORMING_SECONDS, pause), self._n + 1
        return images


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Estimated cost; nan for a model that was not timed on this machine."""

    # n_pictures, n_stored: distinct pictures of the run, and those stored already
    n_pictures: int
    n_stored: int
    seconds: float  # to draw the others with all workers, without loading the model
    n_bytes: float  # disk space of the others

    @property
    def n_missing(self) -> int:
        """Number of pictures to draw."""
        return self.n_pictures - self.n_stored


def estimate_cost(rows: Sequence[ImageRow], store: ImageStore, rate: Rate | None, *, n_workers: int) -> Cost:
    """The cost of ``rows`` at the rate of one worker."""
    ids = {row.id for row in rows}
    n_stored = store.n_present(ids)
    n_missing = len(ids) - n_stored
    unknown = float("nan") if n_missing else 0.0
    return Cost(
        n_pictures=len(ids),
        n_stored=n_stored,
        seconds=unknown if rate is None else n_missing * rate.seconds / n_workers,
        n_bytes=unknown if rate is None else n_missing * rate.n_bytes,
    )


class RateStore:
    """One small JSON file: rates by model, size, sampler settings and place.

    Two processes that write at once may lose one rate; the next run restores it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, row: ImageRow, place: str) -> Rate | None:
        """The rate for rows like this one, or None; an unreadable file counts as empty."""
        entry = self._read().get(_key(row, place))
        try:
            return None if entry is None else Rate(**entry)
        except TypeError:
            return None

    def keep(self, row: ImageRow, place: str, rate: Rate) -> None:
        """Store a rate, unless it comes from few pictures and a better one is stored."""
        earlier = self.find(row, place)
        if earlier is not None and rate.n < min(earlier.n, _ENOUGH):
            return
        rates = self._read() | {_key(row, place): asdict(rate)}
        write_atomically(self._path, json.dumps(rates, indent=1, sort_keys=True).encode())

    def watch(
        self, events: Iterator[EngineProgress], row: ImageRow, engine: Engine
    ) -> Generator[EngineProgress, None, None]:
        """Pass on the events of a run, and store its rate at the end."""
        meter = Meter()
        try:
            with closing(events):  # type: ignore[type-var]  # engines yield from generators
                for event in events:
                    meter.see(event)
                    yield event
        finally:
            if meter.n_drawn and (rate := meter.rate(engine.n_workers())) is not None:
                with suppress(StorageError):  # must not hide the run's own error
                    self.keep(row, engine.place(), rate)

    def _read(self) -> dict[str, Any]:
        content: object = None
        with suppress(OSError, ValueError):
            content = json.loads(self._path.read_bytes())
        return content if isinstance(content, dict) else {}


def _key(row: ImageRow, place: str) -> str:
    guided = "guided" if row.guidance_scale > 1 else "unguided"  # guidance doubles the passes
    settings = ", ".join(filter(None, (f"{row.num_inference_steps} steps", guided, row.sampler)))
    return f"{row.model} | {row.width}x{row.height} | {settings} | {place}"


_PACKAGE = Path(__file__).resolve().parent.parent
INSTALL = 'pip install "ray[data]"'
_MOST_TRIES = 3  # tries of a batch: Ray itself would try for ever
_OBJECT_STORE_BYTES = 80 * 1024**2  # paths and settings go through it, never pixels
_QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_GRACE_SECONDS = 120.0  # for a denoising step and the writing of finished pictures


class RayEngine:
    """Draws on a Ray cluster: that of ``RAY_ADDRESS``, else a new one on this machine.

    Parameters
    ----------
    build : builds a row's model in a worker; pickled, so it must be a function of a module on all machines.
    workers : number of loaded models; 0: one per GPU of the cluster, or per machine without GPUs.
    cluster : further arguments of ``ray.init`` for a new cluster.
    """

    def __init__(
        self, build: Callable[[ImageRow], TextToImage], *, workers: int = 0, cluster: Mapping[str, Any] | None = None
    ) -> None:
        if workers < 0:
            raise InvalidInput(f"the number of workers must be at least 1, or 0 for one per GPU, got {workers}")
        _import_ray()
        self._build = build
        self._n_workers = workers
        self._cluster = dict(cluster or {})
        self._started = False

    def n_workers(self) -> int:
        """The requested number, or one per GPU, or one per machine."""
        return self._n_workers or int(self._resources().get("GPU", 0)) or len(_machines())

    def place(self) -> str:
        """The kind of GPU, or the processors, that each worker has."""
        if "num_gpus" not in (share := self._share()):
            return f"Ray worker, {share['num_cpus']:g} processors"
        kinds = sorted(name.split(":")[1] for name in self._resources() if name.startswith("accelerator_type:"))
        return f"Ray worker, {share['num_gpus']:g} {' or '.join(kinds) or 'GPU'}"

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock,
        cancelled: StopSignal = never,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row has its picture in ``store``, as :func:`run_rows` does.

        Nothing starts if no picture is missing. ``model`` only gives the batch size.

        Raises Cancelled: ``cancelled()`` turned true; workers stop at their next denoising step, finished batches are
        kept; ModelUnavailable, StorageError, InvalidInput: from a worker; or workers died again and again on one batch.
        """
        size = model.batch_size

        def start(missing: list[ImageRow]) -> Drawing:
            self._connect()
            batches = [missing[first : first + size] for first in range(0, len(missing), size)]
            return _RayDrawing(batches, store, self._map, cancelled)

        return follow(rows, store, start)

    def close(self) -> None:
        """Shut down the cluster, if this engine started it."""
        if self._started:
            _import_ray().shutdown()
            self._started = False

    def _map(self, batches: Sequence[Sequence[ImageRow]], folder: Path, board: Any) -> Iterator[bytes]:
        """Yield the pickled outcome of each batch, in order of completion."""
        import ray.data

        items = [{"number": i, "rows": pickle.dumps(list(batch))} for i, batch in enumerate(batches)]
        outcomes = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            _Worker,
            fn_constructor_args=(self._build, folder.absolute(), board),
            compute=ray.data.ActorPoolStrategy(size=min(self.n_workers(), len(items))),
            batch_size=1,
            **self._share(),
        )
        for item in outcomes.iter_rows():
            yield item["outcome"]

    def _resources(self) -> dict[str, float]:
        self._connect()
        return dict(_import_ray().cluster_resources())

    def _share(self) -> dict[str, float]:
        """The share of the cluster per worker; several workers may share a GPU or processor."""
        resources, n = self._resources(), self.n_workers()
        gpus, machines = resources.get("GPU", 0.0), _machines()
        cpus = min(machine["Resources"].get("CPU", 0.0) for machine in machines) / math.ceil(n / len(machines))
        cpus = math.floor(cpus) if cpus >= 1 else math.floor(100 * cpus) / 100
        if not gpus:
            return {"num_cpus": cpus}
        return {"num_cpus": min(1, cpus), "num_gpus": 1 / math.ceil(n / gpus)}

    def _connect(self) -> None:
        if (ray := _import_ray()).is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS", "")
        try:
            if address in {"", "local"}:
                self._start_cluster(ray)
            else:
                ray.init(address=address, runtime_env={"env_vars": {"PYTHONPATH": _import_path()}}, **_QUIET)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ModelUnavailable(f"no Ray cluster at {address or 'this machine'}: {error}") from error
        self._started = True

    def _start_cluster(self, ray: Any) -> None:
        options = {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1", **_QUIET}
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = _import_path()  # for the processes that start now
        try:
            ray.init(address="local", include_dashboard=False, **options | self._cluster)
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


def _import_path() -> str:
    """The import path for workers, equal to this process's."""
    return os.pathsep.join(filter(None, (str(_PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))


def _import_ray() -> Any:
    """Import Ray with the settings of a private, quiet cluster, which it reads on import."""
    if "ray" not in sys.modules and not os.environ.get("RAY_ADDRESS"):
        # A cluster runs any code that reaches its ports; this demands a token.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage statistics
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InvalidInput(f"the Ray engine needs Ray: {INSTALL} (or choose --engine local)") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


def _machines() -> list[dict[str, Any]]:
    return [node for node in _import_ray().nodes() if node["Alive"]]


class _Board:
    """Messages between the driver and the workers while batches are drawn."""

    def __init__(self, most_tries: int) -> None:
        self._stopped = False
        self._most_tries = most_tries
        self._n_begun: Counter[int] = Counter()
        self._at_work: dict[int, tuple[int, int, int]] = {}

    def begin(self, batch: int) -> BiasCoreError | None:
        """Start a batch, or return the reason not to."""
        if self._stopped:
            return stopped()
        self._n_begun[batch] += 1
        if self._n_begun[batch] > self._most_tries:
            return ModelUnavailable(
                f"{self._most_tries} workers died on the same batch, probably out of memory; ask for fewer "
                "workers, or a smaller model. What was finished is kept"
            )
        self._at_work[batch] = 0, 1, 0
        return None

    def step(self, batch: int, step: int, n_steps: int, n_pictures: int) -> bool:
        """Record a batch's step; return true to stop it."""
        self._at_work[batch] = step, n_steps, n_pictures
        return self._stopped

    def end(self, batch: int) -> None:
        self._at_work.pop(batch, None)

    def stop(self) -> None:
        self._stopped = True

    def list_unfinished(self) -> list[tuple[int, int, int]]:
        """(step, steps in all, pictures) of each unfinished batch."""
        return list(self._at_work.values())


class _Worker:
    """Ray Data actor that draws batches and writes them into the store."""

    def __init__(self, build: Callable[[ImageRow], TextToImage], folder: Path, board: Any) -> None:
        self._build, self._store, self._board = build, ImageStore(folder), board
        self._models: dict[tuple[str, str], TextToImage] = {}

    def __call__(self, items: dict[str, Any]) -> dict[str, Any]:
        """Outcomes of batches: lists of stored pictures, or errors for the user."""
        outcomes = [
            self._outcome(int(number), pickle.loads(rows))
            for number, rows in zip(items["number"], items["rows"], strict=True)
        ]
        return {"outcome": [pickle.dumps(outcome) for outcome in outcomes]}

    def _outcome(self, number: int, rows: list[ImageRow]) -> list[StoredImage] | BiasCoreError:
        import ray

        try:
            refusal: BiasCoreError | None = ray.get(self._board.begin.remote(number))
            return self._draw(number, rows) if refusal is None else refusal
        except BiasCoreError as error:
            return error
        finally:
            self._board.end.remote(number)

    def _draw(self, number: int, rows: list[ImageRow]) -> list[StoredImage]:
        stored = self._store.find({row.id: row for row in rows})  # a worker that died here may have stored some or all
        if missing := [row for row in rows if row.id not in stored]:
            key = rows[0].model, rows[0].revision
            if key not in self._models:
                self._models[key] = self._build(rows[0])
            images = self._models[key].generate(missing, on_step=self._on_step(number, len(rows)))
            stored |= {image.row.id: image for image in self._store.add(list(images))}
        return list(stored.values())

    def _on_step(self, number: int, n_pictures: int) -> Callable[[int, int], None]:
        import ray

        last_look = 0.0

        def on_step(step: int, n_steps: int) -> None:
            nonlocal last_look
            if time.monotonic() - last_look >= _POLL_SECONDS:
                last_look = time.monotonic()
                if ray.get(self._board.step.remote(number, step, n_steps, n_pictures)):
                    raise stopped()

        return on_step


class _RayDrawing(Drawing):
    """Collects the workers' results, passes on their steps, and stops them."""

    def __init__(
        self,
        batches: Sequence[Sequence[ImageRow]],
        store: ImageStore,
        start: Callable[[Sequence[Sequence[ImageRow]], Path, Any], Iterator[bytes]],
        cancelled: StopSignal,
    ) -> None:
        super().__init__(cancelled)
        self._batches, self._store, self._start = batches, store, start
        self._outcomes: queue.SimpleQueue[bytes | BiasCoreError | None] = queue.SimpleQueue()
        self._enough = threading.Event()
        self._last_steps: list[tuple[int, int, int]] = []

    def draw(self) -> None:
        ray = _import_ray()
        self.check()
        board = ray.remote(num_cpus=0)(_Board).remote(_MOST_TRIES)
        # A daemon: if a busy cluster never starts a worker, nothing else ends the wait.
        collector = threading.Thread(target=self._collect, args=(board,), daemon=True, name="bias-engine-ray")
        collector.start()
        try:
            n_left = len(self._batches)
            while n_left:
                n_left -= self._take_outcomes()
                self._report_progress(board)
        finally:
            self._enough.set()
            self._let_finish(board)
            ray.kill(board)
            collector.join(_GRACE_SECONDS if self._last_steps else _POLL_SECONDS)

    def _take_outcomes(self) -> int:
        """Take the next outcomes and return their number."""
        try:
            outcome = self._outcomes.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return 0
        if outcome is None:
            raise ModelUnavailable("Ray ended before all batches were drawn; start again to draw the rest")
        if isinstance(outcome, bytes):
            outcome = pickle.loads(outcome)
        if isinstance(outcome, BiasCoreError):
            raise outcome
        self.put([self._store.adopt(image) for image in outcome])
        return 1

    def _report_progress(self, board: Any) -> None:
        """Pass on the batches' progress; raise Cancelled after Stop."""
        import ray

        self.check()
        at_work = [entry for entry in ray.get(board.list_unfinished.remote()) if entry[0]]
        if at_work and at_work != self._last_steps:
            self._last_steps = at_work
            step, n_steps, _ = max(at_work)
            begun = sum(n_pictures * step / n_steps for step, n_steps, n_pictures in at_work)
            self.put(step=step, n_steps=n_steps, begun=begun)

    def _let_finish(self, board: Any) -> None:
        """Tell the workers to stop, and wait until each has stored its finished pictures."""
        import ray

        ray.get(board.stop.remote())
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline and ray.get(board.list_unfinished.remote()):
            time.sleep(_POLL_SECONDS)

    def _collect(self, board: Any) -> None:
        from ray.exceptions import RayError

        try:
            for outcome in self._start(self._batches, self._store.folder, board):
                self._outcomes.put(outcome)
                if self._enough.is_set():
                    return
        except RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            self._outcomes.put(
                ModelUnavailable(
                    f"a Ray worker failed: {lines[-1].strip() if lines else type(error).__name__}; what was "
                    "finished is kept. Workers often die for lack of memory: use fewer of them"
                )
            )
        finally:
            self._outcomes.put(None)
