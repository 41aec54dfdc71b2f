"""How long a picture took on this machine before, and what a run will cost."""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bias_core.engine.local import Engine, EngineProgress, Meter, Rate
from bias_core.errors import StorageError
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow

_ENOUGH = 16  # pictures: a rate of fewer does not replace one of more


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate; nan where nothing is known of this model on this machine."""

    # n_pictures, n_stored: distinct ones of the run, and those that exist already
    n_pictures: int
    n_stored: int
    seconds: float  # to draw the others, by all workers together, loading of the model not counted
    n_bytes: float  # that the others will take on the disk

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


class RateStore:
    """One small JSON file: rates by model, size, sampler settings and place.

    Two processes that write at once may lose one of the two rates; the next run brings it again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, row: ImageRow, place: str) -> Rate | None:
        """The rate of rows like this one, or None; an unreadable file counts as empty."""
        entry = self._read().get(_key(row, place))
        try:
            return None if entry is None else Rate(**entry)
        except TypeError:  # of another version
            return None

    def keep(self, row: ImageRow, place: str, rate: Rate) -> None:
        """Remember a rate, unless it comes from a handful of pictures and a better one is known."""
        earlier = self.find(row, place)
        if earlier is not None and rate.n < min(earlier.n, _ENOUGH):
            return
        rates = self._read() | {_key(row, place): asdict(rate)}
        write_atomically(self._path, json.dumps(rates, indent=1, sort_keys=True).encode())

    def watch(
        self, events: Iterator[EngineProgress], row: ImageRow, engine: Engine
    ) -> Generator[EngineProgress, None, None]:
        """Pass the events of a run on, and remember its rate in the end."""
        meter = Meter()
        try:
            with closing(events):  # type: ignore[type-var]  # engines yield from generators
                for event in events:
                    meter.see(event)
                    yield event
        finally:
            if meter.n_drawn and (rate := meter.rate(engine.n_workers())) is not None:
                with suppress(StorageError):  # must not hide what ended the run
                    self.keep(row, engine.place(), rate)

    def _read(self) -> dict[str, Any]:
        content: object = None
        with suppress(OSError, ValueError):
            content = json.loads(self._path.read_bytes())
        return content if isinstance(content, dict) else {}


def _key(row: ImageRow, place: str) -> str:
    guided = "guided" if row.guidance_scale > 1 else "unguided"  # guidance doubles the passes
    return f"{row.model} | {row.width}x{row.height} | {row.num_inference_steps} steps, {guided} | {place}"
