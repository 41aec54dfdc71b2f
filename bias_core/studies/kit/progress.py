"""Where a run is, for whoever waits for it."""

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from bias_core.types import StoredImage

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is: pictures done, planned and finished (in order), seconds left (nan: unknown), a sentence."""

    message: str
    done: int = 0
    total: int = 0
    seconds_left: float = math.nan
    images: tuple[StoredImage, ...] = ()


def mapped(steps: Generator[S, None, R], change: Callable[[S], T]) -> Generator[T, None, R]:
    """The steps of a run, each changed; what the run returns is returned, and it ends with its reader."""
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            yield change(step)
