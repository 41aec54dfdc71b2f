"""What the stores may take of the disk: above that, what was unused longest makes room."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from bias_core.store.files import evict_oldest
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore

DERIVED = ("derived", "traces")
"""Folders of what studies make out of pictures: other pictures, and what denoising steps were like."""
_SHARE = 0.05  # of the picture store's limit that reports, runs and what is derived may take, each
_LEAST = 50_000_000  # bytes of each of these that always have room
_NAMED = re.compile(rf"(?:{'|'.join(DERIVED)})/[\w./-]+")


class Upkeep:
    """One look at a data folder; nothing of a run that is kept, or at work, goes.

    Parameters
    ----------
    data : the folder that holds everything.
    limit : bytes of the pictures; 5 % of it, or 50 MB, is the limit of the reports, of the runs on record and of what
        is derived from pictures.
    """

    def __init__(self, data: Path, limit: int, images: ImageStore, manifests: ManifestStore) -> None:
        self._data, self._limit, self._images, self._manifests = data, limit, images, manifests

    def tidy(self) -> Sequence[str]:
        """Delete what is too much; ids of the pictures that went."""
        reports, rest = self._data / "reports", max(_LEAST, int(_SHARE * self._limit))
        evict_oldest(reports.glob("*.json"), rest, protected=lambda path: path.stem in self._kept_runs)
        runs = evict_oldest(
            self._manifests.folder.glob("*.json"),
            rest,
            protected=lambda path: path.stem in self._kept_runs or self._manifests.is_at_work(path.stem),
        )
        for run in runs:
            (reports / run.name).unlink(missing_ok=True)
        derived = [path for name in DERIVED for path in (self._data / name).rglob("*.*")]
        evict_oldest(derived, rest, protected=lambda path: self._name(path) in self._shown)
        if self._images.n_bytes <= self._limit:
            return []
        return self._images.evict(self._limit, protected=self._manifests.protected_ids())

    @cached_property
    def _kept_runs(self) -> set[str]:
        return self._manifests.kept_ids()

    @cached_property
    def _shown(self) -> set[str]:
        """Names of the derived files that reports of kept runs show."""
        reports = (self._data / "reports" / f"{run_id}.json" for run_id in self._kept_runs)
        return {
            name
            for path in reports
            if path.is_file()
            for name in _NAMED.findall(path.read_text(encoding="utf-8", errors="replace"))
        }

    def _name(self, path: Path) -> str:
        return path.relative_to(self._data).as_posix()
