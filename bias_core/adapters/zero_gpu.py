"""Models on a Space with ZeroGPU: each call borrows a GPU for some seconds, in a forked process.

The package ``spaces`` lends the GPU: what is decorated with ``spaces.GPU`` runs in a process that is forked
when it is called (or was by a call before), gets its arguments pickled, and may take as long as it asked for.
Only there is CUDA; here, models are on the CPU. So a model is built again over there, from its name, and what
it draws or reads comes back. A visitor has a few minutes a day: what comes with the program runs on the CPU
and takes nothing of them, weights are downloaded before the clock runs, and a call asks for as much time as
such calls took before.
"""

from __future__ import annotations

import importlib
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from bias_core.adapters.devices import loading
from bias_core.adapters.loras import hub_folder
from bias_core.errors import BiasCoreError, Cancelled, Interrupted, ModelUnavailable
from bias_core.models.catalogue import is_hub_id, split_revision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from PIL import Image

    from bias_core.protocols import StepCallback
    from bias_core.types import Attribute, GeneratedImage, ImageRow, ModelInfo, PromptLimit, Step

_LEAST_SECONDS, _MOST_SECONDS = 10, 120
_MARGIN = 1.4  # over what the calls before took: one that takes longer than it asked for is killed
_FORK_SECONDS = 3.0  # until a process has the GPU
_SECONDS_A_CALL = 60.0  # that a call of many pictures aims at
_MOST_ROWS = 32
_INPUTS_A_SECOND = 20.0  # a first guess for readers, until one was timed


def on_zero_gpu() -> bool:
    """Whether this is a Space with ZeroGPU; False wherever ``spaces`` is absent."""
    asked_for = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return asked_for and find_spec("spaces") is not None


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a call does over there; all of it is pickled.

    Attributes
    ----------
    key : names the model; it is built once per process.
    build : makes it.
    method : what is called, with ``arguments``.
    steps : whether the method yields one thing after another and tells its steps.
    """

    key: str
    build: Callable[[], Any]
    method: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    steps: bool = False


@dataclass(frozen=True, kw_only=True)
class _Event:
    """What comes back: a result, a step done, or that the model is there, after so many seconds.

    An error comes in it, too: of those that are raised ``spaces`` tells only the name.
    """

    value: Any = None
    step: tuple[int, int] | None = None
    ready: float | None = None
    error: BiasCoreError | None = None


_models: dict[str, Any] = {}  # of a process that has the GPU


def _asked_for(_job: Job, seconds: int) -> int:
    return seconds


def run_job(job: Job, seconds: int) -> Generator[_Event, None, None]:  # noqa: ARG001 - read by `_asked_for`
    """Runs where the GPU is: yield every step and every result; closing it stops at the next step."""
    events: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
    abandoned = threading.Event()

    def on_step(step: int, n_steps: int) -> None:
        if abandoned.is_set():
            raise Cancelled("stopped; what was finished is kept")
        events.put(_Event(step=(step, n_steps)))

    def work() -> None:
        try:
            for event in _work(job, on_step):
                events.put(event)
        except BiasCoreError as error:
            events.put(_Event(error=error))
        finally:
            events.put(None)

    with ThreadPoolExecutor(1, thread_name_prefix="bias-gpu") as pool:
        working = pool.submit(work)
        try:
            while (event := events.get()) is not None:
                yield event
        finally:
            abandoned.set()
        working.result()  # raises here what nobody foresaw there


def _work(job: Job, on_step: StepCallback) -> Iterator[_Event]:
    import torch

    started = time.monotonic()
    if job.key not in _models:
        torch.set_num_threads(1)  # a fork must not wait for threads that only its parent has (OpenMP)
        _models[job.key] = job.build()
        if load := getattr(_models[job.key], "load", None):
            load()
    model = _models[job.key]
    yield _Event(ready=time.monotonic() - started)
    method = getattr(model, job.method)
    if not job.steps:
        yield _Event(value=method(*job.arguments, **job.options))
        return
    for value in method(*job.arguments, **job.options, on_step=on_step):
        yield _Event(value=value)


@cache
def _gpu_call() -> Callable[[Job, int], Generator[_Event, None, None]]:
    spaces = importlib.import_module("spaces")
    return spaces.GPU(duration=_asked_for)(run_job)


def prepare() -> None:
    """Tell ``spaces`` what will want a GPU; a Space that told nothing does not start."""
    _gpu_call()


class Pace:
    """How long calls take: some seconds until the model is there, then so many per unit of work.

    A unit is a step of a picture, or an input of a reader. Before the first call both are guesses.
    """

    def __init__(self, *, load: float, unit: float) -> None:
        self._load, self._unit = load, unit

    def seconds(self, units: float) -> int:
        """To ask for."""
        estimate = _FORK_SECONDS + _MARGIN * (self._load + units * self._unit)
        return min(_MOST_SECONDS, max(_LEAST_SECONDS, math.ceil(estimate)))

    def learn(self, *, load: float, units: float, seconds: float) -> None:
        """From a call that was finished: a load can be as long as the longest, a unit is like the last."""
        self._load = max(load, self._load / 2)
        if units:
            self._unit = seconds / units

    def slow_down(self) -> None:
        """After a call that was killed because it took longer than it had asked for."""
        self._load, self._unit = 2 * self._load, 2 * self._unit


class Borrower:
    """Calls methods of a model over there.

    Parameters
    ----------
    key, build : as of :class:`Job`.
    local : the same model on the CPU of this process; for all that needs no GPU.
    fetch : downloads what it needs, before the clock runs; called once.
    """

    def __init__(self, key: str, build: Callable[[], Any], local: Any, pace: Pace, fetch: Callable[[], None]) -> None:
        self.name = getattr(local, "name", key)
        self.local = local
        self._key, self._build, self._pace, self._fetch = key, build, pace, cache(fetch)

    def call(
        self,
        method: str,
        *arguments: Any,
        units: float,
        on_step: StepCallback | None = None,
        steps: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """What the method gives, as it comes; Interrupted where no time is left for it."""
        self._fetch()
        job = Job(key=self._key, build=self._build, method=method, arguments=arguments, options=options, steps=steps)
        refusal, load, started = _refusal(), 0.0, time.monotonic()
        events = _gpu_call()(job, self._pace.seconds(units))
        try:
            for event in events:
                if event.ready is not None:
                    load, started = event.ready, time.monotonic()
                elif event.step is not None:
                    if on_step is not None:
                        on_step(*event.step)
                elif event.error is not None:
                    raise event.error
                else:
                    yield event.value
        except BiasCoreError:
            raise
        except refusal as error:
            self._refused(error)
        except RuntimeError as error:
            raise ModelUnavailable(f"ZeroGPU could not be used for {self._key}: {error}; try again") from error
        finally:
            events.close()
        self._pace.learn(load=load, units=units, seconds=time.monotonic() - started)

    def one(self, method: str, *arguments: Any, units: float) -> Any:
        """What a method that gives one thing gives."""
        (answer,) = self.call(method, *arguments, units=units)
        return answer

    def _refused(self, error: Exception) -> NoReturn:
        """Word what ``spaces`` said. Its errors have a title by which they are told apart."""
        title, message = str(getattr(error, "title", "")), " ".join(str(error).strip("'\"").split())
        if title == "ZeroGPU worker error":
            if "aborted" in message:
                self._pace.slow_down()
                raise Interrupted(
                    f"{self._key} took longer than the GPU was asked for, and was stopped. What is finished "
                    "is kept: press again to go on, with more time"
                ) from error
            raise ModelUnavailable(
                f"{self._key} failed on the GPU ({message}); the Space's log has the details"
            ) from error
        raise Interrupted(
            f"No GPU time for {self._key} now: {message.rstrip('.')}. What is finished is kept: press again "
            "later to go on from there, or choose a calibration model, which needs no GPU"
        ) from error


def _refusal() -> type[Exception]:
    """What ``spaces`` raises: errors of gradio, which it brings and which only the page imports here."""
    return importlib.import_module("gradio").Error


def fetch_pipeline(info: ModelInfo) -> None:
    """Download what a pinned entry of the catalogue takes from a hub, and load nothing of it.

    Raises
    ------
    ModelUnavailable
        Missing, gated, without safetensors, or there is no network.
    """
    from diffusers import DiffusionPipeline

    parts = [(str(info.options["path"]), info.revision)]
    parts += [split_revision(str(info.options[key])) for key in ("prior", "upscaler") if key in info.options]
    for repo, revision in parts:
        if is_hub_id(repo):
            with loading(info.id, repo):
                DiffusionPipeline.download(
                    repo, revision=revision or None, variant=info.options.get("variant"), use_safetensors=True
                )
    repo, revision = split_revision(str(info.options.get("lora", "")))
    if is_hub_id(repo):
        with loading(info.id, repo):
            hub_folder(repo, revision)


class ZeroGpuTextToImage(Borrower):
    """A generator whose pictures are drawn over there, many in a call.

    Parameters
    ----------
    info : of the model; its size gives the first guess of the time that a picture takes.
    """

    def __init__(
        self, key: str, build: Callable[[], Any], local: Any, info: ModelInfo, fetch: Callable[[], None]
    ) -> None:
        # On the GPU that is lent, SD 1.5 (5 GB) takes about 0.05 s a step and picture, FLUX (34 GB) 0.3 s.
        pixels = info.width * info.height / 512**2
        guess = 0.02 + 0.01 * (info.download_gb or 10.0) * min(1.0, pixels)
        super().__init__(key, build, local, Pace(load=5 + info.download_gb / 2, unit=guess), fetch)
        fit = int(_SECONDS_A_CALL / (guess * max(1, info.default_steps)))
        inner = int(local.batch_size)
        # A whole number of the model's own batches, and the same for a whole run.
        self.batch_size = max(1, min(fit, _MOST_ROWS) // inner) * inner

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; where time is short, in several calls of fewer rows.

        Raises
        ------
        Interrupted
            The visitor's time is used up; pictures yielded before are whole.
        """
        left, size = list(rows), len(rows)
        while left:
            batch, n_drawn = left[:size], 0
            units = sum(max(1, row.num_inference_steps) for row in batch)
            try:
                for image in self.call("generate", batch, units=units, on_step=on_step, steps=True):
                    n_drawn += 1
                    yield image
            except Interrupted:
                size = len(batch) // 2
                if n_drawn or size < int(self.local.batch_size):
                    raise  # fewer rows would not do either
            left = left[n_drawn:]

    def trace(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        *,
        guided: bool = False,
        predicted: bool = True,
        on_step: StepCallback | None = None,
    ) -> Iterator[Step]:
        """Yield every denoising step, as the model's own ``trace`` does."""
        passes = (1 + 2 * len(attributes)) * (2 if guided else 1) + (1 if predicted else 0)
        units = passes * max(1, row.num_inference_steps)
        yield from self.call(
            "trace",
            row,
            tuple(attributes),
            units=units,
            on_step=on_step,
            steps=True,
            guided=guided,
            predicted=predicted,
        )

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """What the model itself says of the settings of a row."""
        check = getattr(self.local, "check_settings", None)
        return check(row) if check else ()

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """What the model itself draws where this is asked for."""
        size_of = getattr(self.local, "drawn_size", None)
        return size_of(width, height) if size_of else (width, height)

    def check_traceable(self) -> None:
        """Refuse what the model itself refuses to trace."""
        if check := getattr(self.local, "check_traceable", None):
            check()

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """What each text encoder takes of each prompt; empty where that is not known."""
        limits_of = getattr(self.local, "prompt_limits", None)
        return limits_of(prompts) if limits_of else ()


class _ZeroGpuReader(Borrower):
    def __init__(self, key: str, build: Callable[[], Any], local: Any, download_gb: float) -> None:
        super().__init__(key, build, local, Pace(load=4 + download_gb, unit=1 / _INPUTS_A_SECOND), self._download)

    def _download(self) -> None:
        """Load on this machine's CPU: whatever is missing, or cannot be read, is said here."""
        self.local.load()
        self.local.unload()


class ZeroGpuEncoder(_ZeroGpuReader):
    """An encoder that runs over there."""

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        return self.one("encode_images", list(images), units=len(images))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        return self.one("encode_texts", list(texts), units=len(texts))


class ZeroGpuCaptioner(_ZeroGpuReader):
    """A captioner that runs over there."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption per picture."""
        return self.one("caption", list(images), units=len(images))


class ZeroGpuAnswerer(_ZeroGpuReader):
    """An answerer of questions that runs over there."""

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """One answer per (picture, question) pair."""
        return self.one("answer", list(images), list(questions), units=len(images))


class ZeroGpuLanguageModel(_ZeroGpuReader):
    """A language model that runs over there."""

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` texts that continue it by one token, likeliest first."""
        return self.one("propose", list(prefixes), n, units=len(prefixes))

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt``, without the prompt."""
        return self.one("complete", prompt, max_new_tokens, units=max_new_tokens)


READERS: Mapping[str, type[_ZeroGpuReader]] = {
    "encoder": ZeroGpuEncoder,
    "captioner": ZeroGpuCaptioner,
    "answerer": ZeroGpuAnswerer,
    "language_model": ZeroGpuLanguageModel,
}
"""By role. Finders of people, which look at one picture at a time, stay on the CPU."""
