"""Where a run is, for whoever waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bias_core.types import StoredImage


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is: pictures done and planned, seconds left (nan while unknown), and a short sentence.

    ``images`` are the finished pictures in the order in which they were planned, while pictures are drawn.
    """

    done: int
    total: int
    seconds_left: float
    message: str
    images: tuple[StoredImage, ...] = ()
