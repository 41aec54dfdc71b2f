"""The package ``spaces`` as on ZeroGPU, without a GPU: a forked process, pickles, quotas, its errors.

The process lives on between calls. An error raised there comes back as its name alone.
"""

import inspect
import multiprocessing
import pickle
import types
from contextvars import ContextVar
from dataclasses import dataclass, field

FORK = multiprocessing.get_context("fork")


@dataclass
class FakeSpaces:
    """Lends ``quota`` seconds in all; keeps what each call asked for."""

    quota: float = 1e9
    longest: float = 1e9
    abort_after: int | None = None  # results of a call until it is killed
    forks_again: bool = False  # as when another GPU is lent
    asked: list[float] = field(default_factory=list)
    decorated: list[object] = field(default_factory=list)
    visitors: list[object] = field(default_factory=list)
    n_forks: int = 0

    def module(self):
        made = types.ModuleType("spaces")
        made.GPU = self.gpu
        made.__spec__ = types.SimpleNamespace(name="spaces")
        return made

    def gpu(self, task=None, *, duration=60):
        if task is None:
            return lambda task: self.gpu(task, duration=duration)
        assert inspect.isgeneratorfunction(task)
        self.decorated.append(task)
        worker = []

        def handler(*args):
            seconds = duration(*args) if callable(duration) else duration
            self.visitors.append(VISITOR.get(None))
            self._schedule(seconds)
            if not worker or not worker[0].process.is_alive() or self.forks_again:
                self.n_forks += 1
                worker[:] = [_Worker(task)]
            yield from self._results(worker[0], args)

        return handler

    def _schedule(self, seconds):
        if seconds > self.longest:
            raise _error(
                "ZeroGPU illegal duration", f"The requested GPU duration ({seconds}s) is larger than the maximum"
            )
        if seconds > self.quota:
            raise _error(
                "ZeroGPU quota exceeded",
                f"You have exceeded your ZeroGPU quota ({seconds}s requested vs. {self.quota:g}s left). "
                "Try again in 23:12:05. ",
            )
        self.asked.append(seconds)
        self.quota -= seconds

    def _results(self, worker, args):
        worker.stop.clear()
        worker.jobs.send_bytes(pickle.dumps(args))
        n = 0
        while True:
            kind, value = worker.results.recv()
            if kind == "end":
                return
            if kind == "error":
                raise _error("ZeroGPU worker error", value)
            if self.abort_after is not None and n == self.abort_after:
                worker.process.terminate()
                worker.process.join()
                raise _error("ZeroGPU worker error", "GPU task aborted")
            n += 1
            try:
                yield value
            except GeneratorExit:
                worker.stop.set()
                while kind not in ("end", "error"):
                    kind, value = worker.results.recv()
                raise


VISITOR = ContextVar("visitor")


def _error(title, message):
    import gradio as gr

    return gr.Error(message, title=title, print_exception=False)


class _Worker:
    def __init__(self, task):
        there, self.jobs = FORK.Pipe(duplex=False)
        self.results, back = FORK.Pipe(duplex=False)
        self.stop = FORK.Event()
        self.process = FORK.Process(target=_serve, args=(task, there, back, self.stop), daemon=True)
        self.process.start()


def _serve(task, jobs, results, stop):
    while True:
        args = pickle.loads(jobs.recv_bytes())
        try:
            for value in task(*args):
                if stop.is_set():
                    break
                results.send(("value", value))
        except Exception as error:  # noqa: BLE001 - as the package does
            results.send(("error", type(error).__name__))
            continue
        results.send(("end", None))
