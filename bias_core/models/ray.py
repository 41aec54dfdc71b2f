"""Runs manifest rows on many machines, or many GPUs, with Ray Data: one actor with a model of its own each.

Workers write pictures into the store by path and pass back what they are, never pixels; so all machines
must share the data folder. A batch is what the local engine would draw at once, and the task of Ray Data
that is repeated when its worker dies.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable
from bias_core.models.local import Drawing, EngineProgress, follow, stopped
from bias_core.protocols import TextToImage
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, never

_PACKAGE = Path(__file__).resolve().parent.parent
INSTALL = 'pip install "ray[data]"'
_MOST_TRIES = 3  # of a batch: Ray itself would try for ever
_OBJECT_STORE_BYTES = 80 * 1024**2  # paths and settings go through it, never pixels
_POLL_SECONDS = 0.1
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
        """What became of each batch, pickled, in the order of finishing."""
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
        """What each worker takes of the cluster; several workers may be asked to share a GPU or processor."""
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
    """What the driver and the workers tell each other while batches are drawn."""

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
        """Pass on where the batches are; raise Cancelled where nobody waits."""
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
