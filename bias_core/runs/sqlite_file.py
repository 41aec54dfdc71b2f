"""One SQLite file that several threads of a process share (WAL, so that readers never wait)."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from bias_core.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class SqliteFile:
    """Opens on the first use; ``what`` names it in messages, ``schema`` makes its table if need be."""

    def __init__(self, path: Path, *, what: str, schema: str) -> None:
        self.path = path
        self._what, self._schema = what, schema
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own until the end of the block, which then counts whole or not at all."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                with self._connection:
                    yield self._connection
            except (sqlite3.DatabaseError, OSError) as error:
                raise StorageError(f"{self._what} {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(self._schema)
        return connection
