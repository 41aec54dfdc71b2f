"""What models said of pictures, in words, and what that was paid for once: captions and answers."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from bias_core.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

Asked = tuple[str, str]
"""Id of a picture, and the question; "" asks for a caption."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    image_id TEXT NOT NULL, question TEXT NOT NULL, reader TEXT NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (image_id, question, reader)
) WITHOUT ROWID
"""


class AnswerCache:
    """One SQLite file (WAL). The reader's name is part of the key and must change with its weights."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def find(self, reader: str, asked: Sequence[Asked]) -> dict[Asked, str]:
        """The answers that are known."""
        known = {}
        with self._transaction() as connection:
            for key in asked:
                query = "SELECT answer FROM answers WHERE image_id = ? AND question = ? AND reader = ?"
                if row := connection.execute(query, (*key, reader)).fetchone():
                    known[key] = str(row[0])
        return known

    def keep(self, reader: str, answers: Mapping[Asked, str]) -> None:
        """Write answers down; a new one takes the place of an old one."""
        rows = [(image_id, question, reader, answer) for (image_id, question), answer in answers.items()]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", rows)

    def forget(self, image_ids: Collection[str]) -> None:
        """Drop what was said of evicted pictures."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM answers WHERE image_id = ?", [(i,) for i in image_ids])

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open_file()
                with self._connection:
                    yield self._connection
            except (sqlite3.DatabaseError, OSError) as error:
                raise StorageError(f"answer cache {self.path}: {error}") from error

    def _open_file(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
        return connection
