"""Engines: who draws the rows of a manifest, here or on Ray, and how long that takes.

The engine of this process draws batch by batch. With Ray, workers on many machines or GPUs have a model of their own
each; they write pictures into the store by path and pass back what they are, never pixels, so all machines must share
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from bias_core.errors import BiasCoreError, Cancelled, InvalidInput, ModelUnavailable, StorageError
from bias_core.models.model_sources import this_machine
from bias_core.protocols import ShowsForming, TextToImage
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import GeneratedImage, ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, never, wait_while_paused, work_clock

_POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1
_FORMING_SECONDS = 0.3  # between two looks at what forms
_PER_LOOK = 24  # and that many times what a look takes: it slows drawing by a twenty-fifth at most
_ENOUGH = 16  # pictures: a rate of fewer does not replace one of more


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    """Progress of drawing some rows."""

    # done, total: distinct pictures; a drawing does not know them
    done: int = 0
    total: int = 0
    images: tuple[StoredImage, ...] = ()  # those finished since the event before
    reused: bool = False  # whether `images` come from the store
    # step, n_steps: denoising steps of a batch at work; 0 and 0 between batches
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0  # the steps done of batches at work, in pictures: half a batch of 8 is 4
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # small, of a batch at work, by the ids of rows
    seconds_left: float = float("nan")  # nan until the first pictures or steps have been timed


class Engine(Protocol):
    """Executes a manifest; the same rows give the same ids and pictures under each engine."""

    def n_workers(self) -> int:
        """Batches that are drawn at a time."""

    def place(self) -> str:
        """The hardware that each worker draws on, by which its speed is remembered."""

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
        """Let go of workers."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """The cost of one picture for one worker."""

    seconds: float  # per picture, loading of the model not counted
    n_bytes: float  # mean size of its PNG file
    n: int  # pictures behind these numbers


class Meter:
    """The speed of drawing, and the time left.

    Time counts from the first sign of drawing, so that the start of workers and the loading of models are left
    out; while there is no second one, from the beginning.
    """

    def __init__(self) -> None:
        self.n_drawn = 0
        self._n_bytes = 0
        self._seconds = work_clock().seconds
        self._origin = self._seconds(), 0.0
        self._first: tuple[float, float] | None = None
        self._sign = self._last = 0.0, 0.0  # when, and pictures done by then; the newest, and of the last picture

    def see(self, event: EngineProgress) -> None:
        """Take up an event of a run."""
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
        """The cost of a picture; None where the run was too short to tell."""
        if self._first is None or not self.n_drawn:
            return None
        seconds, n_pictures = (last - first for last, first in zip(self._last, self._first, strict=True))
        if n_pictures <= 0:
            return None
        return Rate(seconds=n_workers * seconds / n_pictures, n_bytes=self._n_bytes / self.n_drawn, n=self.n_drawn)

    def seconds_left(self, n_missing: int) -> float:
        """Until all that were missing are drawn; nan before anything can be told."""
        n_begun = self._sign[1]
        is_later = self._first is not None and n_begun > self._first[1]
        started, at_start = self._first if self._first is not None and is_later else self._origin
        if n_begun <= at_start:
            return float("nan")
        return (self._seconds() - started) / (n_begun - at_start) * max(0.0, n_missing - n_begun)


class Drawing(ABC):
    """Draws and stores in a thread of its own, and hands events over.

    ``cancelled``: asked by the thread; once true, the work ends with :class:`Cancelled`.
    """

    def __init__(self, cancelled: StopSignal) -> None:
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[EngineProgress | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    @abstractmethod
    def draw(self) -> None:
        """The work; calls :meth:`put` for what is finished and :meth:`check` often."""

    def events(self) -> Iterator[EngineProgress]:
        """Start the work and yield its events; what ended it is raised here."""

        def work() -> None:
            try:
                self.draw()
            finally:
                self._queue.put(None)

        # With what the caller's thread knows of its visitor, whom a borrowed GPU asks for.
        result = self._pool.submit(copy_context().run, work)
        yield from iter(self._queue.get, None)
        result.result()

    def stop(self) -> None:
        """End the thread at its next step; called when the reader goes away, too."""
        self._abandoned.set()
        self._pool.shutdown()

    def put(self, images: Sequence[StoredImage] = (), **at_work: Any) -> None:
        """Hand over what is finished, or where batches at work are: fields of :class:`EngineProgress`."""
        self._queue.put(EngineProgress(images=tuple(images), **at_work))

    def check(self) -> None:
        """Raise Cancelled if these pictures are not wanted any more."""
        if self._abandoned.is_set() or self._cancelled():
            raise stopped()


def stopped() -> Cancelled:
    """The error that ends a drawing whose pictures are not wanted any more."""
    return Cancelled("stopped; what was finished is kept")


def follow(
    rows: Sequence[ImageRow], store: ImageStore, start: Callable[[list[ImageRow]], Drawing]
) -> Iterator[EngineProgress]:
    """Give what is stored at once, and follow the drawing of the rest.

    ``start``: makes the drawing of the rows, each distinct, that have no picture yet; not called for none.

    Raises InvalidInput: pictures of another size than their rows'; they are stored with their own.
    """
    distinct = {row.id: row for row in rows}
    stored = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in stored]
    yield EngineProgress(done=len(stored), total=len(distinct), images=tuple(stored.values()), reused=True)
    if not missing:
        return
    drawing, meter = start(missing), Meter()
    try:
        for event in drawing.events():
            _check_sizes(event.images, missing)
            meter.see(event)
            done, left = len(stored) + meter.n_drawn, meter.seconds_left(len(missing))
            yield replace(event, done=done, total=len(distinct), seconds_left=left)
    finally:
        drawing.stop()


def _check_sizes(images: Sequence[StoredImage], rows: Sequence[ImageRow]) -> None:
    """Nothing would find a picture whose row is none of those that were asked for."""
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

    Drawing happens in a thread of its own, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises Cancelled: ``cancelled()`` turned true: after at most one denoising step, with finished batches stored;
    ModelUnavailable, StorageError, InvalidInput: from the model or the store; what was stored before stays.
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
        gpu = this_machine().gpu if self._device in {"auto", "cuda"} else ""
        return gpu or (self._device if self._device == "mps" else f"{os.cpu_count()} processors")

    def close(self) -> None:
        """Nothing is held."""


class _LocalDrawing(Drawing):
    """Draws batch by batch under the lock."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, lock: Lock, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._last_step_event, self._looks = 0.0, _Looks(model)

    def draw(self) -> None:
        for start in range(0, len(self._rows), self._model.batch_size):
            batch = self._rows[start : start + self._model.batch_size]
            images: list[GeneratedImage] = []
            wait_while_paused(self.check)
            self.check()
            while not self._lock.acquire(timeout=_POLL_SECONDS):
                self.check()
            try:
                for image in self._model.generate(batch, on_step=self._on_step(len(batch))):
                    images.append(image)  # noqa: PERF402 - what came before an error is kept
            finally:
                self._lock.release()
                if images:
                    self.put(self._store.add(images))

    def _on_step(self, n_pictures: int) -> Callable[[int, int], None]:
        def on_step(step: int, n_steps: int) -> None:
            self.check()
            forming = self._looks.forming() if step < n_steps else {}
            if forming or time.monotonic() - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = time.monotonic()
                self.put(step=step, n_steps=n_steps, begun=n_pictures * step / n_steps, forming=forming)

        return on_step


class _Looks:
    """Looks now and then at what a model's batch at work is heading for, so seldom that drawing is hardly slowed."""

    def __init__(self, model: TextToImage) -> None:
        self._model = model if isinstance(model, ShowsForming) else None
        self._due, self._n = 0.0, 0

    def forming(self) -> Mapping[str, Image.Image]:
        """Small pictures by the ids of their rows, if it is time for a look; at the first step it is."""
        began = time.monotonic()
        if self._model is None or began < self._due:
            return {}
        images, ended = self._model.forming(), time.monotonic()
        # What the first one takes is no measure: it may import what it needs.
        pause = _PER_LOOK * (ended - began) if self._n else 0.0
        self._due, self._n = ended + max(_FORMING_SECONDS, pause), self._n + 1
        return images


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate; nan where nothing is known of this model on this machine."""

    # n_pictures, n_stored: distinct ones of the run, and those that exist already
    n_pictures: int
    n_stored: int
    seconds: float  # to draw the others, by all workers together, loading of the model not counted
    n_bytes: float  # that the others will take on the disk

    @property
    def n_missing(self) -> int:
        """Pictures that are to be drawn."""
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

    Two processes that write at once may lose one of the two rates; the next run brings it again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, row: ImageRow, place: str) -> Rate | None:
        """The rate of rows like this one, or None; an unreadable file counts as empty."""
        entry = self._read().get(_key(row, place))
        try:
            return None if entry is None else Rate(**entry)
        except TypeError:
            return None

    def keep(self, row: ImageRow, place: str, rate: Rate) -> None:
        """Remember a rate, unless it comes from a handful of pictures and a better one is known."""
        earlier = self.find(row, place)
        if earlier is not None and rate.n < min(earlier.n, _ENOUGH):
            return
        rates = self._read() | {_key(row, place): asdict(rate)}
        write_atomically(self._path, json.dumps(rates, indent=1, sort_keys=True).encode())

    def watch(
        self, events: Iterator[EngineProgress], row: ImageRow, engine: Engine
    ) -> Generator[EngineProgress, None, None]:
        """Pass the events of a run on, and remember its rate in the end."""
        meter = Meter()
        try:
            with closing(events):  # type: ignore[type-var]  # engines yield from generators
                for event in events:
                    meter.see(event)
                    yield event
        finally:
            if meter.n_drawn and (rate := meter.rate(engine.n_workers())) is not None:
                with suppress(StorageError):  # must not hide what ended the run
                    self.keep(row, engine.place(), rate)

    def _read(self) -> dict[str, Any]:
        content: object = None
        with suppress(OSError, ValueError):
            content = json.loads(self._path.read_bytes())
        return content if isinstance(content, dict) else {}


def _key(row: ImageRow, place: str) -> str:
    guided = "guided" if row.guidance_scale > 1 else "unguided"  # guidance doubles the passes
    how = ", ".join(filter(None, (f"{row.num_inference_steps} steps", guided, row.sampler)))
    return f"{row.model} | {row.width}x{row.height} | {how} | {place}"


_PACKAGE = Path(__file__).resolve().parent.parent
INSTALL = 'pip install "ray[data]"'
_MOST_TRIES = 3  # of a batch: Ray itself would try for ever
_OBJECT_STORE_BYTES = 80 * 1024**2  # paths and settings go through it, never pixels
_QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_GRACE_SECONDS = 120.0  # for a denoising step and the writing of what is finished


class RayEngine:
    """Draws on a Ray cluster: the one of ``RAY_ADDRESS``, else one of its own on this machine.

    Parameters
    ----------
    build : gives a worker the model of a row; pickled, so a function of a module that all machines have.
    workers : models that are loaded at once; 0: one per GPU of the cluster, or per machine without GPUs.
    cluster : further arguments of ``ray.init`` for a cluster of its own.
    """

    def __init__(
        self, build: Callable[[ImageRow], TextToImage], *, workers: int = 0, cluster: Mapping[str, Any] | None = None
    ) -> None:
        if workers < 0:
            raise InvalidInput(f"the number of workers is at least 1, or 0 for one per GPU, got {workers}")
        _import_ray()
        self._build = build
        self._n_workers = workers
        self._cluster = dict(cluster or {})
        self._started = False

    def n_workers(self) -> int:
        """As many as were asked for, or one per GPU, or one per machine."""
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

        Nothing is started where nothing is missing. ``model`` only says how large a batch is.

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
        """Yield the outcome of each batch, pickled, in the order of finishing."""
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
        """The share of the cluster that each worker takes; several workers may be asked to share a GPU or processor."""
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
    """Workers import what this process imports, wherever it was started."""
    return os.pathsep.join(filter(None, (str(_PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))


def _import_ray() -> Any:
    """Ray, with the settings of a private, quiet cluster, which it reads when it is first imported."""
    if "ray" not in sys.modules and not os.environ.get("RAY_ADDRESS"):
        # A cluster runs any code that reaches its ports: only who has the token may.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray counts its users over the network
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
        """Take a batch up, or say why not."""
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
        """Note where a batch is; whether to stop."""
        self._at_work[batch] = step, n_steps, n_pictures
        return self._stopped

    def end(self, batch: int) -> None:
        self._at_work.pop(batch, None)

    def stop(self) -> None:
        self._stopped = True

    def at_work(self) -> list[tuple[int, int, int]]:
        """(step, steps in all, pictures) of each batch that is being drawn."""
        return list(self._at_work.values())


class _Worker:
    """An actor of Ray Data: draws batches and writes them into the store."""

    def __init__(self, build: Callable[[ImageRow], TextToImage], folder: Path, board: Any) -> None:
        self._build, self._store, self._board = build, ImageStore(folder), board
        self._models: dict[tuple[str, str], TextToImage] = {}

    def __call__(self, items: dict[str, Any]) -> dict[str, Any]:
        """The outcomes of batches: lists of stored pictures, or errors that a person can act on."""
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
        stored = self._store.find({row.id: row for row in rows})  # a worker that died here may have stored some, or all
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
    """Takes in what the workers have finished, passes their steps on, and tells them to stop."""

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
        # A daemon: where a busy cluster never starts a worker, nothing else can end the waiting.
        collector = threading.Thread(target=self._collect, args=(board,), daemon=True, name="bias-engine-ray")
        collector.start()
        try:
            n_left = len(self._batches)
            while n_left:
                n_left -= self._take_in()
                self._look_at(board)
        finally:
            self._enough.set()
            self._let_finish(board)
            ray.kill(board)
            collector.join(_GRACE_SECONDS if self._last_steps else _POLL_SECONDS)

    def _take_in(self) -> int:
        """The next outcome, or none for a moment; how many there were."""
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

    def _look_at(self, board: Any) -> None:
        """Pass on where the batches are; raise Cancelled if they are not wanted any more."""
        import ray

        self.check()
        at_work = [entry for entry in ray.get(board.at_work.remote()) if entry[0]]
        if at_work and at_work != self._last_steps:
            self._last_steps = at_work
            step, n_steps, _ = max(at_work)
            begun = sum(n_pictures * step / n_steps for step, n_steps, n_pictures in at_work)
            self.put(step=step, n_steps=n_steps, begun=begun)

    def _let_finish(self, board: Any) -> None:
        """Tell the workers to stop, and wait until each has stored what it finished."""
        import ray

        ray.get(board.stop.remote())
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline and ray.get(board.at_work.remote()):
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
                    "finished is kept. Workers that die were often out of memory: ask for fewer of them"
                )
            )
        finally:
            self._outcomes.put(None)
