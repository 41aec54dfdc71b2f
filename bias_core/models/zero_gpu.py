"""Models on a Space with ZeroGPU: each call borrows a GPU for some seconds, in a forked process.

The package ``spaces`` lends the GPU: a function decorated with ``spaces.GPU`` runs in a process that is forked when it
is called (or by an earlier call), gets its arguments pickled, and may take the requested time. Only there is CUDA;
here, models are on the CPU. So a model is built again there, from its name, and its results come back.
A visitor has a few minutes a day: shipped models run on the CPU for free, weights are
downloaded before the clock starts, and a call requests as much time as earlier calls took.
"""

import importlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, partial
from typing import Any

import huggingface_hub

from bias_core.errors import BiasCoreError, Interrupted, ModelUnavailable
from bias_core.models import hub_errors, torch
from bias_core.protocols import StepCallback
from bias_core.types import Attribute, GeneratedImage, ImageRow, ModelInfo, Step
from bias_core.waiting import iterate_in_thread

_LEAST_SECONDS, _MOST_SECONDS = 10, 120
_MARGIN = 1.4  # margin over earlier calls: a call that exceeds its request is killed
_FORK_SECONDS = 3.0  # seconds until a process has the GPU
_SECONDS_A_CALL = 60.0  # target length of a call of many pictures
_MOST_ROWS = 32
_INPUTS_A_SECOND = 20.0  # a first guess for readers, before one is timed


def get_remaining_gpu_seconds(token: str) -> float | None:
    """Seconds of GPU time left today for this token, which needs the scope ``read-billing``; None if unknown."""
    refusals = (hub_errors.HTTPError, hub_errors.HFValidationError, hub_errors.OfflineModeIsEnabled)
    ask = getattr(huggingface_hub, "get_zero_gpu_quota", None)  # older versions have none
    if ask is None or not token.startswith("hf_"):
        return None
    try:
        return max(0.0, float(ask(token=token).remaining))
    except (*refusals, OSError, KeyError, TypeError, ValueError):
        return None


_Event = tuple[str, Any]
"""A message from there: "ready" with seconds, a "step" with their number, a "value", or an "error".

The error is one of ours, because ``spaces`` passes only the name of raised ones."""
_models: dict[str, Any] = {}  # of a process with the GPU


def run_job(
    key: str,
    build: Callable[[], Any],
    method: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    steps: bool,
    seconds: int,  # noqa: ARG001 - the requested time
) -> Generator[_Event, None, None]:
    """Run a method in the GPU's process, with pickled arguments; closing it stops at the next step.

    The model is built once per process, by its key. With ``steps`` the method yields items one after
    another, and reports its steps.
    """

    def work(hand: Callable[[_Event], None]) -> None:
        started = time.monotonic()
        if key not in _models:
            torch.set_num_threads(1)  # a fork must not wait for threads of its parent (OpenMP)
            _models[key] = build()
            if load := getattr(_models[key], "load", None):
                load()
        hand(("ready", time.monotonic() - started))
        callback = {"on_step": lambda *step: hand(("step", step))} if steps else {}
        answer = getattr(_models[key], method)(*arguments, **options, **callback)
        for value in answer if steps else (answer,):
            hand(("value", value))

    try:
        yield from iterate_in_thread(work)
    except BiasCoreError as error:
        yield "error", error


@cache
def _gpu_call() -> Callable[..., Generator[_Event, None, None]]:
    return importlib.import_module("spaces").GPU(duration=lambda *arguments: arguments[-1])(run_job)


def prepare() -> None:
    """Tell ``spaces`` which function needs a GPU; otherwise a Space does not start."""
    _gpu_call()


class CallPace:
    """Timing of calls: seconds to load the model, then seconds per unit of work.

    A unit is a step of a picture, or an input of a reader. Before the first call both are guesses.
    """

    def __init__(self, *, load: float, unit: float) -> None:
        self._load, self._unit = load, unit

    def seconds(self, units: float) -> int:
        """Seconds to request."""
        estimate = _FORK_SECONDS + _MARGIN * (self._load + units * self._unit)
        return min(_MOST_SECONDS, max(_LEAST_SECONDS, math.ceil(estimate)))

    def estimate_units(self, seconds: float) -> float:
        """The likely number of units in one call of ``seconds``."""
        return max(0.0, (seconds - _FORK_SECONDS - self._load) / self._unit) if self._unit else math.inf

    def likely_seconds(self, units: float) -> float:
        """Likely seconds of a call, without a margin."""
        return _FORK_SECONDS + self._load + units * self._unit

    def learn(self, *, load: float, units: float, seconds: float) -> None:
        """Learn from a finished call: the longest load, and the last time per unit."""
        self._load = max(load, self._load / 2)
        if units:
            self._unit = seconds / units

    def slow_down(self) -> None:
        """Expect longer calls, after one was killed for exceeding its request."""
        self._load, self._unit = 2 * self._load, 2 * self._unit


class Borrower:
    """Calls methods of a model in the GPU's process.

    Parameters
    ----------
    key, build : as of :func:`run_job`.
    local : the same model on this process's CPU, for work without a GPU.
    fetch : downloads its files before the clock starts; called once.
    """

    def __init__(
        self, key: str, build: Callable[[], Any], local: Any, pace: CallPace, fetch: Callable[[], None]
    ) -> None:
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
        """Yield the method's results as they come; Interrupted if no time is left."""
        self._fetch()
        refusal = importlib.import_module("gradio").Error  # raised by `spaces`; only the page imports gradio here
        load, started = 0.0, time.monotonic()
        events = _gpu_call()(self._key, self._build, method, arguments, options, steps, self._pace.seconds(units))
        try:
            for kind, value in events:
                if kind == "ready":
                    load, started = value, time.monotonic()
                elif kind == "step" and on_step is not None:
                    on_step(*value)
                elif kind == "error":
                    raise value
                elif kind == "value":
                    yield value
        except BiasCoreError:
            raise
        except refusal as error:
            raise self._refused(error) from error
        except RuntimeError as error:
            raise ModelUnavailable(f"ZeroGPU could not be used for {self._key}: {error}; try again") from error
        finally:
            events.close()
        self._pace.learn(load=load, units=units, seconds=time.monotonic() - started)

    def _refused(self, error: Exception) -> BiasCoreError:
        """Turn an error of ``spaces``, known by its title, into ours."""
        title, message = str(getattr(error, "title", "")), " ".join(str(error).strip("'\"").split())
        if title != "ZeroGPU worker error":
            return Interrupted(
                f"No GPU time for {self._key} now: {message.rstrip('.')}. Finished work is kept: press again "
                "later to continue, or choose a calibration model, which needs no GPU"
            )
        if "aborted" not in message:
            return ModelUnavailable(f"{self._key} failed on the GPU ({message}); the Space's log has the details")
        self._pace.slow_down()
        return Interrupted(
            f"{self._key} exceeded its requested GPU time and was stopped. Finished work "
            "is kept: press again to continue with more time"
        )


class ZeroGpuTextToImage(Borrower):
    """A generator that draws on the borrowed GPU, many pictures per call; its size gives a first guess of the time."""

    def __init__(
        self, key: str, build: Callable[[], Any], local: Any, info: ModelInfo, fetch: Callable[[], None]
    ) -> None:
        # On this GPU, SD 1.5 (5 GB) takes about 0.05 s per step and picture, FLUX (34 GB) 0.3 s.
        guess = 0.02 + 0.01 * (info.download_gb or 10.0) * min(1.0, info.width * info.height / 512**2)
        super().__init__(key, build, local, CallPace(load=5 + info.download_gb / 2, unit=guess), fetch)
        fit = int(_SECONDS_A_CALL / (guess * max(1, info.default_steps)))
        inner = int(local.batch_size)
        # A whole number of the model's batches, constant for a run.
        self.batch_size = max(1, min(fit, _MOST_ROWS) // inner) * inner
        for method in (
            "check_rewriting",
            "check_sampler",
            "check_settings",
            "check_traceable",
            "drawn_size",
            "prompt_limits",
        ):
            if hasattr(local, method):  # they load no weights
                setattr(self, method, getattr(local, method))

    def estimate_pictures(self, seconds: float, steps: int) -> int:
        """The likely number of pictures of ``steps`` steps in this GPU time, in calls of whole batches."""
        units = max(1, steps)
        n_calls, remaining_seconds = divmod(seconds, self._pace.likely_seconds(self.batch_size * units))
        return int(n_calls) * self.batch_size + int(
            min(self._pace.estimate_units(remaining_seconds) / units, self.batch_size - 1)
        )

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; if time is short, in several calls of fewer rows.

        Interrupted if the visitor's time is used up; pictures yielded before are whole.
        """
        remaining, size = list(rows), len(rows)
        while remaining:
            batch, n_drawn = remaining[:size], 0
            units = sum(max(1, row.num_inference_steps) for row in batch)
            try:
                for image in self.call("generate", batch, units=units, on_step=on_step, steps=True):
                    n_drawn += 1
                    yield image
            except Interrupted:
                size = len(batch) // 2
                if n_drawn or size < int(self.local.batch_size):
                    raise  # fewer rows would fail, too
            remaining = remaining[n_drawn:]

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
        options = {"guided": guided, "predicted": predicted}
        yield from self.call("trace", row, tuple(attributes), units=units, on_step=on_step, steps=True, **options)


class ZeroGpuReader(Borrower):
    """A reader on the borrowed GPU, with the interface of the local one."""

    def __init__(self, key: str, build: Callable[[], Any], local: Any, download_gb: float) -> None:
        super().__init__(key, build, local, CallPace(load=4 + download_gb, unit=1 / _INPUTS_A_SECOND), self._download)
        for method in ("encode_images", "encode_texts", "caption", "answer", "judge", "propose", "complete"):
            if hasattr(local, method):
                setattr(self, method, partial(self._ask, method))
        if hasattr(local, "prompt_limits"):  # which loads no weights
            self.prompt_limits = local.prompt_limits

    def _ask(self, method: str, inputs: Any, *arguments: Any) -> Any:
        """Call a method; a unit of work is an input, or a token of an answer to one text."""
        given, units = (inputs, arguments[0]) if isinstance(inputs, str) else (list(inputs), len(inputs))
        (answer,) = self.call(method, given, *arguments, units=units)
        return answer

    def _download(self) -> None:
        """Load on this machine's CPU, which reports missing or unreadable files."""
        self.local.load()
        self.local.unload()
