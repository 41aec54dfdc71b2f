"""How much one run may ask for: checked here, for every study and every door, before anything is laid out."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bias_core.errors import Cancelled, Interrupted, InvalidInput
from bias_core.settings import Settings

_SECONDS_BETWEEN_LOOKS = 0.2


def check_budget(n_images: int, limits: Settings, *, what: str, advice: str, n_steps: int = 0, pixels: int = 0) -> None:
    """Refuse a run that asks for more than the settings of this process allow; the sentence says how to ask for less.

    ``n_images`` are those that the run may draw or read, at most, ``n_steps`` and ``pixels`` of one picture, 0
    where it is not drawn in steps; ``what`` is the run in words, ``advice`` how to stay under the limit.
    """
    if n_images > limits.max_images:
        raise InvalidInput(
            f"{what} asks for {n_images:,} pictures, and one run may have at most {limits.max_images:,} here "
            f"(BIAS_MAX_IMAGES): {advice}"
        )
    of = f"{n_images:,} pictures of {pixels:,} pixels in {n_steps} steps"
    check_work(n_images * n_steps * pixels / 1e6, limits, what=what, of=of, advice=advice)


def check_work(work: float, limits: Settings, *, what: str, of: str, advice: str) -> None:
    """Refuse a run of more million pixels times steps than this process allows; ``of`` says of what."""
    if work > limits.max_megapixel_steps:
        raise InvalidInput(
            f"{what} asks for {work:,.0f} million pixels times steps ({of}), and one run may have at most "
            f"{limits.max_megapixel_steps:,g} million here (BIAS_MAX_MEGAPIXEL_STEPS): {advice}, "
            "take fewer steps, or a model of smaller pictures"
        )


def looks_at_stop(cancelled: Callable[[], bool]) -> Callable[[], None]:
    """A function to call while a run is laid out: now and then it asks, and raises Cancelled for yes."""
    due = time.monotonic() + _SECONDS_BETWEEN_LOOKS

    def check() -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        if cancelled():
            raise Cancelled("stopped before anything was drawn")

    return check


class TimeLimit:
    """Asks whether a run is to end, in place of ``cancelled``: also once its time, which begins now, is over."""

    def __init__(self, limits: Settings, cancelled: Callable[[], bool]) -> None:
        self._cancelled, self._minutes = cancelled, limits.max_minutes
        self._end = time.monotonic() + 60 * limits.max_minutes

    def __call__(self) -> bool:
        """Whether the run is to end."""
        return self._cancelled() or time.monotonic() > self._end

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Around a run: where its time ended it, Interrupted says so; a Stop stays what it is."""
        try:
            yield
        except Interrupted:
            raise
        except Cancelled as error:
            if self._cancelled() or time.monotonic() <= self._end:
                raise
            raise Interrupted(
                f"This run has worked for {self._minutes:g} minutes, the most that one run may here "
                "(BIAS_MAX_MINUTES). What was finished is kept, and the same settings go on from there; "
                "fewer pictures or fewer denoising steps are done sooner"
            ) from error
