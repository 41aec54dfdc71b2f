"""A broken cache is set aside and filled anew: never fatal, and never used."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from bias_core.store.readings import AnswerCache, EmbeddingCache
from bias_core.store.sqlite_file import Repairs


class Halves:
    name = "halves"

    def encode_texts(self, texts):
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


def _written(path):
    cache = EmbeddingCache(path)
    cache.texts(Halves(), [f"sentence {i}" for i in range(2000)])
    cache.close()


def _changed(path, change):
    _written(path)
    path.write_bytes(change(path.read_bytes()))


def _made(path, statements):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


GARBAGE = b"this is not a database, it is only a text" * 50
DAMAGES = {
    "garbage": lambda path: path.write_bytes(GARBAGE),
    "truncated": lambda path: _changed(path, lambda data: data[: len(data) // 2]),
    "scrambled": lambda path: _changed(path, lambda data: data[:4096] + bytes(255 - byte for byte in data[4096:])),
    "older": lambda path: _made(path, "CREATE TABLE embeddings (key TEXT, encoder TEXT, vector BLOB)"),
    "another": lambda path: _made(path, "CREATE TABLE embeddings (other TEXT); PRAGMA user_version = 1"),
    "a folder": lambda path: (path.mkdir(), (path / "what is this").write_text("?")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_embedding_cache_is_set_aside(tmp_path, damage):
    path, repairs = tmp_path / "embeddings.sqlite", Repairs()
    DAMAGES[damage](path)
    for _ in range(2):  # once to find it broken, once to see that it stays whole
        cache = EmbeddingCache(path, repairs)
        assert np.all(cache.texts(Halves(), [f"sentence {i}" for i in range(2000)]) == 0.5)
        cache.close()
    assert path.with_name("embeddings.sqlite.old").exists()
    assert len(repairs.since(0)) == 1
    assert "set aside as embeddings.sqlite.old" in repairs.since(0)[0]


def test_a_broken_answer_cache_is_set_aside(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_bytes(GARBAGE)
    cache = AnswerCache(path)
    cache.keep("blip", {("a", ""): "a cat"})
    assert cache.find("blip", [("a", "")]) == {("a", ""): "a cat"}
    cache.close()
