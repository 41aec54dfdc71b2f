"""Limits of a run (pictures, work, time, Stop, its stop rule), and the shares that are watched while it draws."""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from bias_core.errors import Cancelled, Interrupted, TooLarge
from bias_core.models.engines import Drawing, EngineProgress
from bias_core.protocols import StepCallback
from bias_core.report import blocked_pictures
from bias_core.report.stop_rules import ShareValues, StopRule
from bias_core.settings import Settings
from bias_core.study.types import Progress, WatchedShare
from bias_core.types import Estimate, ImageRow, StoredImage
from bias_core.waiting import never, work_clock

if TYPE_CHECKING:
    from PIL import Image


S = TypeVar("S")
T = TypeVar("T")
_SECONDS_BETWEEN_LOOKS = 0.2
_PACE_OF = 8  # latest parts: stored ones come first and take no time


def check_budget(
    n_images: int, limits: Settings, *, subject: str, advice: str, n_steps: int = 0, pixels: int = 0
) -> None:
    """Refuse a run that asks for more than the settings of this process allow; the error says how to ask for less.

    ``n_images`` is the most pictures that the run may draw or read. ``n_steps`` and ``pixels`` are those of one
    picture, 0 if it is not drawn in steps. ``subject`` names the run; ``advice`` says how to stay under the limit.
    """
    if n_images > limits.max_images:
        raise TooLarge(
            f"{subject} asks for {n_images:,} pictures, and one run may have at most {limits.max_images:,} here "
            f"(BIAS_MAX_IMAGES): {advice}"
        )
    of = f"{n_images:,} pictures of {pixels:,} pixels in {n_steps} steps"
    check_work(n_images * n_steps * pixels / 1e6, limits, subject=subject, of=of, advice=advice)


def most_pictures(limits: Settings, n_steps: int, pixels: int) -> float:
    """Return the most pictures of so many steps and pixels that a run may have here; 0 steps if not known."""
    work = n_steps * pixels / 1e6
    return min(limits.max_images, limits.max_megapixel_steps / work) if work else limits.max_images


def check_work(work: float, limits: Settings, *, subject: str, of: str, advice: str) -> None:
    """Refuse a run of more million pixels times steps than this process allows; ``of`` says how they add up."""
    if work > limits.max_megapixel_steps:
        raise TooLarge(
            f"{subject} asks for {work:,.0f} million pixels times steps ({of}), and one run may have at most "
            f"{limits.max_megapixel_steps:,g} million here (BIAS_MAX_MEGAPIXEL_STEPS): {advice}, "
            "take fewer steps, or a model with smaller pictures"
        )


def looks_at_stop(cancelled: Callable[[], bool]) -> Callable[[], None]:
    """Return a function to call often: from time to time it asks ``cancelled``, and raises Cancelled for yes."""
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
def report_unread_on_stop(unread: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Add the ids of the ``unread`` pictures to a Cancelled that is raised inside."""
    try:
        yield
    except Cancelled as error:
        error.unread = frozenset(unread())
        raise


class TimeLimit:
    """Replaces ``cancelled``: also ends a run once its time, which begins now, is over."""

    def __init__(self, limits: Settings, cancelled: Callable[[], bool]) -> None:
        self._cancelled, self._minutes = cancelled, limits.max_minutes
        self._seconds = work_clock().seconds
        self._end = self._seconds() + 60 * limits.max_minutes

    def __call__(self) -> bool:
        """Return True if the run is to end."""
        return self._cancelled() or self._seconds() > self._end

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise Interrupted, with the reason, if time ended the run inside; a Stop stays Cancelled."""
        try:
            yield
        except Interrupted:
            raise
        except Cancelled as error:
            if self._cancelled() or self._seconds() <= self._end:
                raise
            raise Interrupted(
                f"This run has worked for {self._minutes:g} minutes, the longest allowed here (BIAS_MAX_MINUTES). "
                "Finished work is kept, and the same settings continue from there; fewer pictures or denoising steps "
                "take less time"
            ) from error


class Countdown:
    """Estimates the time left at the pace of the latest parts, counting from its creation."""

    def __init__(self, total: int) -> None:
        self._total, self._seconds = total, work_clock().seconds
        self._marks = deque([(self._seconds(), 0)], maxlen=_PACE_OF)

    def progress(self, done: float, message: str) -> Progress:
        """Return a step of the work, also within a part, with the seconds left; nan before the first."""
        (since, before), now = self._marks[0], self._seconds()
        if done > before and done == int(done):
            self._marks.append((now, int(done)))
        left = (now - since) / (done - before) * (self._total - done) if done > before else math.nan
        return Progress(done=int(done), total=self._total, seconds_left=left, message=message)


class _Job(Drawing, Generic[T]):
    """Does one long piece of work in a thread, and passes its steps to the caller."""

    result: T

    def __init__(self, work: Callable[[StepCallback], T], cancelled: Callable[[], bool]) -> None:
        super().__init__(cancelled)
        self._work, self._due = work, 0.0

    def draw(self) -> None:
        self.result = self._work(self._on_step)

    def _on_step(self, step: int, n_steps: int) -> None:
        self.check()
        if step < n_steps and time.monotonic() >= self._due:
            self._due = time.monotonic() + _SECONDS_BETWEEN_LOOKS
            self.put(step=step, n_steps=n_steps)


class Stoppable:
    """Work that ends on Stop, or continues with the finished part and says how much that is.

    Attributes
    ----------
    cancelled : returns True if the work must end.
    may_end_early : True if a Stop during measuring keeps the numbers of the finished part.
    stopped : sentence on a run that was stopped and measures its finished part; "" for others.
    stopped_after : how much of the measuring was finished when it was stopped; "" if it was not.
    notes : notes for the report.
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
    def allow_partial_results(self, finished: Callable[[], str]) -> Iterator[None]:
        """On Stop, end the work inside and measure the finished part, which ``finished`` puts in words.

        Cancelled passes through if the numbers need all of it.
        """
        try:
            with self.cancelled.explained() if isinstance(self.cancelled, TimeLimit) else nullcontext():
                yield
        except Cancelled as error:
            if not self.may_end_early:
                raise
            self.cancelled, self.stopped_after = never, finished()
            self.stopped = f"Stopped after {self.stopped_after}; the numbers rest on these."
            self.notes.append(f"{error}. {self.stopped}" if isinstance(error, Interrupted) else self.stopped)

    def map_until_stopped(
        self, noun: str, items: Sequence[S], work: Callable[[S, StepCallback], T], *, min_results: int = 1
    ) -> Generator[Progress, None, list[T]]:
        """Apply ``work`` to each item, in a thread that reports its steps; on Stop, return the results so far.

        ``noun`` names the items. Raises Cancelled for fewer than ``min_results`` results, too few for a number.
        """
        finished, countdown = list[T](), Countdown(len(items))
        with self.allow_partial_results(lambda: f"{len(finished):,} of {len(items):,} {noun}"):
            for n, item in enumerate(items):
                self.check()
                message = f"{n:,} of {len(items):,} {noun}"
                yield countdown.progress(n, message)
                job = _Job(partial(work, item), self.cancelled)
                try:
                    for event in job.events():
                        yield countdown.progress(n + event.step / event.n_steps, message)
                finally:
                    job.stop()
                finished.append(job.result)
        if self.stopped_after and len(finished) < min_results:
            raise self.not_enough_pictures()
        return finished

    def not_enough_pictures(self) -> Cancelled:
        """Return the error for a run that was stopped too early for any number."""
        return Cancelled(f"stopped after {self.stopped_after}, too few for a number; what was finished is kept")


_SECONDS_BETWEEN_PICTURES = 0.2
_LOOKS = 32  # looks of a rule from each number of pictures to twice that number


def looks(n: int, before: int = 0) -> Iterator[int]:
    """Yield the numbers of pictures at which a growing run is checked: every one at first, later in growing steps.

    >>> list(looks(70, 61))
    [62, 63, 64, 66, 68, 70]
    """
    at = before + 1
    while at <= n:
        step = max(1, 2 ** (math.ceil(math.log2(at)) - 1) // _LOOKS)
        if at % step == 0:
            yield at
        at += 1


def growth(values: np.ndarray, confidence: float) -> Iterator[tuple[int, Estimate]]:
    """Yield a share after each look at its pictures, ``(n,)`` of 0 and 1 in the order of drawing."""
    from bias_core.measures.sequential import confidence_sequence  # loads scipy, which help does without

    sums = np.cumsum(values)
    for n in sorted({*looks(len(values)), len(values)}):
        yield n, confidence_sequence(float(sums[n - 1]), n, confidence=confidence)


def unique_rows(rows: Iterable[ImageRow]) -> list[ImageRow]:
    """Return each row once, at its first place."""
    first: dict[str, ImageRow] = {}
    for row in rows:
        first.setdefault(row.id, row)
    return list(first.values())


def drawn_words(n_done: int, n: int, parts: Mapping[str, Collection[str]], finished: Collection[str]) -> str:
    """Return the progress in words: ``n_done`` of ``n`` pictures, or the count in each of the parts (sets of ids).

    >>> drawn_words(3, 4, {}, ())
    '3 of 4 pictures'
    >>> drawn_words(3, 4, {"of the concept": {"a", "b"}, "for the association": {"c", "d"}}, {"a", "b", "c"})
    '2 of 2 pictures of the concept, 1 of 2 for the association'
    """
    if not parts:
        return f"{n_done:,} of {n:,} pictures"
    first, *later_parts = (
        (f"{sum(image_id in finished for image_id in ids):,} of {len(ids):,}", part) for part, ids in parts.items()
    )
    return ", ".join([f"{first[0]} pictures {first[1]}", *(" ".join(part_words) for part_words in later_parts)])


class DrawingView:
    """The view of pictures while they are drawn: finished ones, and previews of the others.

    ``parts``, by the ids of rows, are those of a run that counts its pictures by parts.
    """

    def __init__(
        self, rows: Iterable[ImageRow], *, parts: Mapping[str, str] = {}, watches_shares: bool = False
    ) -> None:
        self._rows = tuple(unique_rows(rows))
        names = dict.fromkeys(parts.values())
        ids = {part: frozenset(key for key, name in parts.items() if name == part) for part in names}
        self._parts = ids if len(ids) > 1 else {}
        self._images: tuple[StoredImage, ...] = ()
        self._forming: dict[str, Image.Image] = {}
        self._due = 0.0
        self._is_drawing, self._watches_shares = False, watches_shares
        self.shares: tuple[WatchedShare, ...] = ()  # newest

    def at(self, event: EngineProgress, finished: Mapping[str, StoredImage]) -> Progress:
        """Return the progress of the drawing; ``finished`` are all stored pictures, by id."""
        if event.done == event.total or time.monotonic() >= self._due:
            self._due = time.monotonic() + _SECONDS_BETWEEN_PICTURES
            self._images = tuple(finished[row.id] for row in self._rows if row.id in finished)
            self._forming = {key: image for key, image in self._forming.items() if key not in finished}
        self._forming |= event.forming
        self._is_drawing |= event.done < event.total
        step = f", step {event.step} of {event.n_steps}" if event.n_steps else ""
        return Progress(
            done=event.done,
            total=event.total,
            seconds_left=event.seconds_left,
            message=drawn_words(event.done, event.total, self._parts, finished) + step,
            images=self._images,
            drawing=self._rows if self._is_drawing else (),
            forming=dict(self._forming),
            parts=self._parts,
            shares=self.shares,
            watches_shares=self._watches_shares,
        )


class Watch:
    """The shares of one arm as they grow.

    ``image_ids`` fix the order in which pictures count: a rule looks at a complete first part of them, so that the same
    pictures end a run at the same place, whichever worker drew them in which batches.
    """

    def __init__(self, image_ids: Iterable[str], confidence: float, rule: StopRule | None = None) -> None:
        self._place = {image_id: i for i, image_id in enumerate(dict.fromkeys(image_ids))}
        self._confidence, self._rule = confidence, rule
        self._is_read = np.zeros(len(self._place), dtype=bool)
        self._values: dict[str, np.ndarray] = {}
        self._parts: dict[str, ShareValues] = {}
        self._n_looked = 0
        self.n_enough: int | None = None  # number of pictures, in their order, after which the rule holds

    def add(self, image_ids: Iterable[str], parts: Iterable[ShareValues]) -> None:
        """Add the readings of these pictures."""
        for part in parts:
            values = self._values.setdefault(part.name, np.full(len(self._place), math.nan))
            values[[self._place[image_id] for image_id in part.image_ids]] = part.values
            self._parts[part.name] = part
        self._is_read[[self._place[image_id] for image_id in image_ids]] = True
        if self._rule is not None:
            self._look(self._rule)

    def shares(self) -> tuple[WatchedShare, ...]:
        """Return every share in all pictures read so far."""
        return tuple(
            WatchedShare(name=name, estimate=estimate, is_score=self._parts[name].is_score)
            for name, estimate in self._estimates(len(self._place))
        )

    def _look(self, rule: StopRule) -> None:
        unread = np.flatnonzero(~self._is_read)
        n_there = int(unread[0]) if unread.size else len(self._place)
        for n in looks(n_there, self._n_looked):
            if self.n_enough is None:
                self.n_enough = n if rule.holds([estimate for _, estimate in self._estimates(n)]) else None
        self._n_looked = max(self._n_looked, n_there)

    def _estimates(self, n: int) -> Iterator[tuple[str, Estimate]]:
        """Yield every share in the first ``n`` pictures that are read."""
        for name, part in self._parts.items():
            values = self._values[name][:n]
            values = values[~np.isnan(values)]
            if part.hidden_at_zero and not values.any():
                continue
            if values.size:
                yield name, _estimate(part, float(values.sum()), values.size, self._confidence)
            elif name != blocked_pictures.TITLE:  # an unknown share is not narrow
                yield name, Estimate.undefined(0, "no picture yet", null_value=part.reference)


def _estimate(part: ShareValues, total: float, n: int, confidence: float) -> Estimate:
    from bias_core.measures.effects import corrected_by_errors
    from bias_core.measures.sequential import against, confidence_sequence

    if part.is_score:
        return confidence_sequence(total, n, confidence=confidence, null_value=0.5).scaled(2.0, -1.0)
    if part.errors is not None:
        share = corrected_by_errors(round(total), n, part.errors, fixed_n=False, confidence=confidence)
        return against(share, part.reference, confidence)
    return confidence_sequence(total, n, confidence=confidence, null_value=part.reference)
