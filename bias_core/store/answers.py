"""What models said of pictures, in words, and what that was paid for once: captions and answers."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from bias_core.store.sqlite_file import Repairs, SqliteFile

Question = tuple[str, str]
"""Id of a picture, and the question; "" asks for a caption."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    image_id TEXT NOT NULL, question TEXT NOT NULL, reader TEXT NOT NULL, answer TEXT NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (image_id, question, reader)
) WITHOUT ROWID
"""
_FORM = 1  # 0 had no checksums


class AnswerCache:
    """One SQLite file (WAL). The reader's name is part of the key and must change with its weights.

    An answer that does not fit its checksum is asked for anew, and ``repairs`` says so.
    """

    def __init__(self, path: Path, repairs: Repairs | None = None) -> None:
        self._repairs = repairs or Repairs()
        self._file = SqliteFile(path, what="answer cache", schema=_SCHEMA, form=_FORM, repairs=self._repairs)

    def find(self, reader: str, questions: Sequence[Question]) -> dict[Question, str]:
        """The answers that are known."""
        query = "SELECT answer, checksum FROM answers WHERE image_id = ? AND question = ? AND reader = ?"

        def look(connection: Connection) -> list[tuple[Question, Any]]:
            return [(key, connection.execute(query, (*key, reader)).fetchone()) for key in questions]

        rows = [(key, row) for key, row in self._file.run(look) if row]
        answers = {
            key: str(answer) for key, (answer, checksum) in rows if checksum == _checksum(key, reader, str(answer))
        }
        if len(answers) < len(rows):
            n = len(rows) - len(answers)
            self._repairs.note(f"{n:,} kept answer(s) did not fit their checksum; they are asked for anew")
        return answers

    def keep(self, reader: str, answers: Mapping[Question, str]) -> None:
        """Write answers down; a new one takes the place of an old one."""
        rows = [(*key, reader, answer, _checksum(key, reader, answer)) for key, answer in answers.items()]
        query = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)"
        self._file.run(lambda connection: connection.executemany(query, rows))

    def forget(self, image_ids: Collection[str]) -> None:
        """Drop what was said of evicted pictures."""
        query = "DELETE FROM answers WHERE image_id = ?"
        self._file.run(lambda connection: connection.executemany(query, [(i,) for i in image_ids]))

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()


def _checksum(question: Question, reader: str, answer: str) -> bytes:
    return hashlib.blake2b("\0".join((*question, reader, answer)).encode(), digest_size=8).digest()
