"""How much one run may ask for, checked for every study and every door before anything is laid out; and its Stop."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from bias_core.errors import Cancelled, Interrupted, TooLarge
from bias_core.settings import Settings
from bias_core.studies.kit.types import Progress
from bias_core.waiting import never, work_clock

S = TypeVar("S")
T = TypeVar("T")
_SECONDS_BETWEEN_LOOKS = 0.2
_PACE_OF = 8  # the latest parts, since those that were kept earlier take no time and come first


def check_budget(n_images: int, limits: Settings, *, what: str, advice: str, n_steps: int = 0, pixels: int = 0) -> None:
    """Refuse a run that asks for more than the settings of this process allow; the sentence says how to ask for less.

    ``n_images`` are those that the run may draw or read, at most, ``n_steps`` and ``pixels`` of one picture, 0
    where it is not drawn in steps; ``what`` is the run in words, ``advice`` how to stay under the limit.
    """
    if n_images > limits.max_images:
        raise TooLarge(
            f"{what} asks for {n_images:,} pictures, and one run may have at most {limits.max_images:,} here "
            f"(BIAS_MAX_IMAGES): {advice}"
        )
    of = f"{n_images:,} pictures of {pixels:,} pixels in {n_steps} steps"
    check_work(n_images * n_steps * pixels / 1e6, limits, what=what, of=of, advice=advice)


def most_pictures(limits: Settings, n_steps: int, pixels: int) -> float:
    """How many pictures of this many steps and pixels one run may have here; 0 steps where they are not known."""
    work = n_steps * pixels / 1e6
    return min(limits.max_images, limits.max_megapixel_steps / work) if work else limits.max_images


def check_work(work: float, limits: Settings, *, what: str, of: str, advice: str) -> None:
    """Refuse a run of more million pixels times steps than this process allows; ``of`` says of what."""
    if work > limits.max_megapixel_steps:
        raise TooLarge(
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


@contextmanager
def leaving(unread: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Around the reading of pictures: of one that is stopped, Cancelled says by their ids which are ``unread``."""
    try:
        yield
    except Cancelled as why:
        why.unread = frozenset(unread())
        raise


class TimeLimit:
    """Asks whether a run is to end, in place of ``cancelled``: also once its time, which begins now, is over."""

    def __init__(self, limits: Settings, cancelled: Callable[[], bool]) -> None:
        self._cancelled, self._minutes = cancelled, limits.max_minutes
        self._seconds = work_clock().seconds
        self._end = self._seconds() + 60 * limits.max_minutes

    def __call__(self) -> bool:
        """Whether the run is to end."""
        return self._cancelled() or self._seconds() > self._end

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Around a run: where its time ended it, Interrupted says so; a Stop stays what it is."""
        try:
            yield
        except Interrupted:
            raise
        except Cancelled as error:
            if self._cancelled() or self._seconds() <= self._end:
                raise
            raise Interrupted(
                f"This run has worked for {self._minutes:g} minutes, the most that one run may here "
                "(BIAS_MAX_MINUTES). What was finished is kept, and the same settings go on from there; "
                "fewer pictures or fewer denoising steps are done sooner"
            ) from error


class Countdown:
    """How long the rest of some work takes, at the pace of its latest parts; time counts from the making of this."""

    def __init__(self, total: int) -> None:
        self._total, self._seconds = total, work_clock().seconds
        self._marks = deque([(self._seconds(), 0)], maxlen=_PACE_OF)

    def progress(self, done: int, message: str) -> Progress:
        """A step of the work, with the seconds left; nan before the first part is done."""
        (since, before), now = self._marks[0], self._seconds()
        if done > before:
            self._marks.append((now, done))
        left = (now - since) / (done - before) * (self._total - done) if done > before else math.nan
        return Progress(done=done, total=self._total, seconds_left=left, message=message)


class Stoppable:
    """Work that ends on Stop, or goes on with what is finished by then and says how much that is.

    Attributes
    ----------
    cancelled : whether it is to end.
    may_end_early : whether a Stop inside of the measuring leaves the numbers of what was finished.
    stopped : what is to be said of a run that was stopped and measures what was finished; "" for others.
    stopped_after : how much of the measuring was finished, where it was stopped inside of that; "" where it was not.
    notes : what is to be said of the work.
    """

    cancelled: Callable[[], bool]
    notes: list[str]
    may_end_early = False
    stopped = stopped_after = ""

    def check(self) -> None:
        """Raise Cancelled once the user asked to stop."""
        if self.cancelled():
            raise Cancelled("stopped; what was finished is kept")

    @contextmanager
    def ending_early(self, finished: Callable[[], str]) -> Iterator[None]:
        """What is stopped inside ends there, and the measuring goes on with what is ``finished``, in words.

        Cancelled goes through where the numbers rest on all of it.
        """
        try:
            with self.cancelled.explained() if isinstance(self.cancelled, TimeLimit) else nullcontext():
                yield
        except Cancelled as why:
            if not self.may_end_early:
                raise
            self.cancelled, self.stopped_after = never, finished()
            self.stopped = f"Stopped after {self.stopped_after}; the numbers are of these."
            self.notes.append(f"{why}. {self.stopped}" if isinstance(why, Interrupted) else self.stopped)

    def as_far_as(
        self, what: str, items: Sequence[S], work: Callable[[S], T], *, fewest: int = 1
    ) -> Generator[Progress, None, list[T]]:
        """What ``work`` makes of each of the items, of a run that is stopped those it was done with.

        ``what`` are the items in words. Raises Cancelled for less than ``fewest``, from which nothing could be told.
        """
        finished, countdown = list[T](), Countdown(len(items))
        with self.ending_early(lambda: f"{len(finished):,} of {len(items):,} {what}"):
            for n, item in enumerate(items):
                self.check()
                yield countdown.progress(n, f"{n:,} of {len(items):,} {what}")
                finished.append(work(item))
        if self.stopped_after and len(finished) < fewest:
            raise self.too_little()
        return finished

    def too_little(self) -> Cancelled:
        """What is said of a run that was stopped too early for any number."""
        return Cancelled(f"stopped after {self.stopped_after}, too few for a number; what was finished is kept")
