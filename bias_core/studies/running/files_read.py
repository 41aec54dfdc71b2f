"""Large files of weights are read once before a run, with a word on how far that is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bias_core.errors import Cancelled
from bias_core.studies.kit.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bias_core.studies.kit.services import StudyServices

_SECONDS_BETWEEN_UPDATES = 0.5
_GB = 1e9


def read_files(services: StudyServices, model: str, encoder: str, cancelled: Callable[[], bool]) -> Iterator[Progress]:
    """Find out which weights the names stand for; yields only where that takes its time.

    Raises
    ------
    Cancelled
        ``cancelled()`` turned true; what was read whole need not be read again.
    """
    last = time.monotonic()
    for done, total in services.reading_files(model, encoder):
        if time.monotonic() - last >= _SECONDS_BETWEEN_UPDATES:
            last = time.monotonic()
            if cancelled():
                raise Cancelled("stopped while the files of the model were read; nothing was drawn yet")
            message = f"reading the model's files: {done / _GB:.1f} of {total / _GB:.1f} GB"
            yield Progress(done=0, total=0, seconds_left=float("nan"), message=message)
