"""Files that are either whole or absent: atomic writes, and the operating system's errors in words."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from bias_core.errors import StorageError

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space (or lower BIAS_CACHE_GB)",
    errno.EDQUOT: "the disk quota is used up; free some space (or lower BIAS_CACHE_GB)",
    errno.EACCES: "permission denied (choose another folder with BIAS_DATA_DIR)",
    errno.EROFS: "the disk is read-only (choose another folder with BIAS_DATA_DIR)",
}


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its name when the block ends well.

    Raises StorageError: the disk is full or read-only. Nothing half-written stays behind.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")  # writers may be on several machines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"cannot write {path.name} in {path.parent}: {reason}") from error
    finally:
        with suppress(OSError):  # it was renamed, or never made
            temporary.unlink()


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data``, force it to the disk, then give it its name (:func:`replaced_file`)."""
    with replaced_file(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def evict_oldest(files: Iterable[Path], limit: int, *, protected: Callable[[Path], bool]) -> list[Path]:
    """Delete the files that were changed longest ago until at most ``limit`` bytes remain; those that went.

    Files that are ``protected`` stay, even when more than ``limit`` bytes then remain.
    """
    sizes: list[tuple[float, int, Path]] = []
    for path in files:
        with suppress(FileNotFoundError):  # deleted by another process meanwhile
            stat = path.stat()
            sizes.append((stat.st_mtime, stat.st_size, path))
    total, removed = sum(size for _, size, _ in sizes), []
    for _, size, path in sorted(sizes):
        if total <= limit:
            break
        if not protected(path):
            path.unlink(missing_ok=True)
            removed.append(path)
            total -= size
    return removed


def total_bytes(files: Iterable[Path]) -> int:
    """Bytes of the files that are there."""
    total = 0
    for path in files:
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
