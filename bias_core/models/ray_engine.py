"""Drawing on many machines or GPUs by Ray Data, where each worker has a model of its own.

Workers write pictures into the store by path and return records, never pixels, so all machines must share the data
folder.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import queue
import secrets
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable
from bias_core.models.engines import POLL_SECONDS, Drawing, EngineProgress, follow, stopped
from bias_core.store.images import ImageStore
from bias_core.waiting import Lock, StopSignal, never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bias_core.protocols import TextToImage
    from bias_core.types import ImageRow, StoredImage

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
            if time.monotonic() - last_look >= POLL_SECONDS:
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
            collector.join(_GRACE_SECONDS if self._last_steps else POLL_SECONDS)

    def _take_outcomes(self) -> int:
        """Take the next outcomes and return their number."""
        try:
            outcome = self._outcomes.get(timeout=POLL_SECONDS)
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
            time.sleep(POLL_SECONDS)

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
