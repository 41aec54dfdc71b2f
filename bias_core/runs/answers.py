"""What models said of pictures, in words, and what that was paid for once: captions and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.runs.sqlite_file import SqliteFile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
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
        self._file = SqliteFile(path, what="answer cache", schema=_SCHEMA)

    def find(self, reader: str, asked: Sequence[Asked]) -> dict[Asked, str]:
        """The answers that are known."""
        known = {}
        with self._file.transaction() as connection:
            for key in asked:
                query = "SELECT answer FROM answers WHERE image_id = ? AND question = ? AND reader = ?"
                if row := connection.execute(query, (*key, reader)).fetchone():
                    known[key] = str(row[0])
        return known

    def keep(self, reader: str, answers: Mapping[Asked, str]) -> None:
        """Write answers down; a new one takes the place of an old one."""
        rows = [(image_id, question, reader, answer) for (image_id, question), answer in answers.items()]
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", rows)

    def forget(self, image_ids: Collection[str]) -> None:
        """Drop what was said of evicted pictures."""
        with self._file.transaction() as connection:
            connection.executemany("DELETE FROM answers WHERE image_id = ?", [(i,) for i in image_ids])

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()
