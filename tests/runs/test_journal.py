"""SQLite's log is used where it is safe: not on a network's file system, nor where the file system refuses it."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from bias_core.store import sqlite_file
from bias_core.store.readings import EmbeddingCache
from bias_core.store.sqlite_file import file_system, use_journal


class Halves:
    name = "halves"

    def encode_texts(self, texts):
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


def test_a_file_system_that_refuses_a_log_gets_a_journal(tmp_path):
    path = tmp_path / "some.sqlite"
    # This way to a file has no memory that processes share, as some mounted volumes have none.
    with closing(sqlite3.connect(f"{path.as_uri()}?vfs=unix-dotfile", uri=True)) as connection:
        assert use_journal(connection, path) == "delete"
        connection.execute("CREATE TABLE kept (x)")
    with closing(sqlite3.connect(path)) as connection:
        assert use_journal(connection, path) == "wal"
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


class Refuses(sqlite3.Connection):
    """Says what a file system without shared memory says."""

    words = "disk I/O error"

    def execute(self, command, *more):
        if command.endswith("WAL"):
            raise sqlite3.OperationalError(self.words)
        return super().execute(command, *more)


def test_an_error_of_the_file_system_is_a_refusal_and_a_lock_is_none(tmp_path, monkeypatch):
    with closing(sqlite3.connect(tmp_path / "some.sqlite", factory=Refuses)) as connection:
        assert use_journal(connection, tmp_path / "some.sqlite") == "delete"
        monkeypatch.setattr(Refuses, "words", "database is locked")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_journal(connection, tmp_path / "some.sqlite")


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("nfs4", "delete"), ("fuse.hf-mount", "delete"), ("ext4", "wal"), ("overlay", "wal"), ("", "wal")],
)
def test_a_cache_on_a_mounted_volume_has_no_log_and_keeps_what_it_had(tmp_path, monkeypatch, kind, mode):
    path = tmp_path / "embeddings.sqlite"
    for one in ("ext4", kind):
        monkeypatch.setattr(sqlite_file, "file_system", lambda _path, one=one: one)
        cache = EmbeddingCache(path)
        assert cache.texts(Halves(), ["a", "b"]).shape == (2, 4)
        cache.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)


def test_the_kind_of_file_system_is_that_of_the_innermost_mount(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    volume = tmp_path / "my volume"
    named = str(volume).replace(" ", "\\040")
    mounts.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        f"30 22 0:40 / {named} rw - ext4 /dev/vdb rw\n"
        f"31 22 0:41 / {named} rw,nosuid shared:5 master:2 - nfs4 127.0.0.1:/bucket rw,vers=4.2\n"
    )
    monkeypatch.setattr(sqlite_file, "_MOUNTS", mounts)
    assert file_system(volume / "data" / "labels.sqlite") == "nfs4"
    assert file_system(tmp_path / "labels.sqlite") == "ext4"
    monkeypatch.setattr(sqlite_file, "_MOUNTS", tmp_path / "nothing")
    assert file_system(volume) == ""
