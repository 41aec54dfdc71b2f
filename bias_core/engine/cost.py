"""What a run will cost, before it starts: pictures, hours and disk space."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bias_core.engine.rates import Rate
    from bias_core.runs.images import ImageStore
    from bias_core.types import ImageRow


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate; nan where nothing is known of this model on this machine.

    Attributes
    ----------
    n_pictures, n_stored : distinct ones of the run, and those that exist already.
    seconds : to draw the others, by all workers together, loading of the model not counted.
    n_bytes : that the others will take on the disk.
    """

    n_pictures: int
    n_stored: int
    seconds: float
    n_bytes: float

    @property
    def n_missing(self) -> int:
        """Pictures that are to be drawn."""
        return self.n_pictures - self.n_stored


def estimate_cost(rows: Sequence[ImageRow], store: ImageStore, rate: Rate | None, *, n_workers: int) -> Cost:
    """The cost of ``rows`` at the rate of one worker."""
    ids = {row.id for row in rows}
    n_stored = store.n_present(ids)
    n_missing = len(ids) - n_stored
    unknown = float("nan") if n_missing else 0.0
    return Cost(
        n_pictures=len(ids),
        n_stored=n_stored,
        seconds=unknown if rate is None else n_missing * rate.seconds / n_workers,
        n_bytes=unknown if rate is None else n_missing * rate.n_bytes,
    )


def free_bytes(folder: Path) -> int:
    """Room on the disk of ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
