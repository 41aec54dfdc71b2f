"""Finished reports as files, one per run, found by the run's id."""

from pathlib import Path

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.files import write_atomically


class ReportStore:
    """Texts at ``<folder>/<run id>.json``; what is in them is the studies' business."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, run_id: str, text: str) -> None:
        """Write it, whole or not at all; StorageError where the disk refuses."""
        write_atomically(self.path(run_id), text.encode())

    def find(self, run_id: str) -> str | None:
        """The text, or None."""
        try:
            return self.path(run_id).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"cannot read the report of run {run_id}: {error}") from error

    def __contains__(self, run_id: str) -> bool:
        return self.path(run_id).is_file()

    def delete(self, run_id: str) -> None:
        """Forget it."""
        self.path(run_id).unlink(missing_ok=True)

    def path(self, run_id: str) -> Path:
        """Its file, which may not be there."""
        # The id becomes a file name and may come from a visitor.
        if not run_id.isalnum():
            raise InvalidInput(f"a run id has letters and digits only, got {run_id!r}")
        return self.folder / f"{run_id}.json"
