"""What the stores may take of the disk: above that, what was unused longest makes room."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bias_core.store.files import evict_oldest
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore

DERIVED = ("derived", "traces")
"""Folders of what studies make out of pictures: other pictures, and what denoising steps were like."""
_SHARE = 0.05  # of the picture store's limit that reports, runs and what is derived may take, each
_LEAST = 50_000_000  # bytes of each of these that always have room
_NAMED = re.compile(rf"(?:{'|'.join(DERIVED)})/[\w./-]+")


def make_room(data: Path, limit: int, images: ImageStore, manifests: ManifestStore) -> Sequence[str]:
    """Delete what is too much in a data folder, but nothing of a run that is kept, or at work.

    ``data``: the folder that holds everything; ``limit``: bytes of the pictures; 5 % of it, or 50 MB, is the limit of
    the reports, of the runs on record and of what is derived from pictures.

    Gives the ids of the pictures that went.
    """
    kept_runs = cache(manifests.kept_ids)

    @cache
    def shown() -> set[str]:
        """Names of the derived files that reports of kept runs show."""
        paths = (data / "reports" / f"{run_id}.json" for run_id in kept_runs())
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())
        return {name for text in texts for name in _NAMED.findall(text)}

    def is_held(path: Path) -> bool:
        return path.stem in kept_runs() or manifests.is_at_work(path.stem)

    reports, rest = data / "reports", max(_LEAST, int(_SHARE * limit))
    evict_oldest(reports.glob("*.json"), rest, protected=lambda path: path.stem in kept_runs())
    for run in evict_oldest(manifests.folder.glob("*.json"), rest, protected=is_held):
        (reports / run.name).unlink(missing_ok=True)
    derived = [path for name in DERIVED for path in (data / name).rglob("*.*")]
    evict_oldest(derived, rest, protected=lambda path: path.relative_to(data).as_posix() in shown())
    return [] if images.n_bytes <= limit else images.evict(limit, protected=manifests.protected_ids())
