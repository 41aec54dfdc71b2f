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


def _garbage(path):
    path.write_bytes(b"this is not a database, it is only a text" * 50)


def _truncated(path):
    _written(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _scrambled(path):
    _written(path)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(255 - byte for byte in data[4096:]))


def _older(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE embeddings (key TEXT, encoder TEXT, vector BLOB)")


def _another(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE embeddings (other TEXT)")
        connection.execute("PRAGMA user_version = 1")


def _folder(path):
    path.mkdir()
    (path / "what is this").write_text("?")


@pytest.mark.parametrize("damage", [_garbage, _truncated, _scrambled, _older, _another, _folder])
def test_a_broken_embedding_cache_is_set_aside(tmp_path, damage):
    path, repairs = tmp_path / "embeddings.sqlite", Repairs()
    damage(path)
    for _ in range(2):  # once to find it broken, once to see that it stays whole
        cache = EmbeddingCache(path, repairs)
        assert np.all(cache.texts(Halves(), [f"sentence {i}" for i in range(2000)]) == 0.5)
        cache.close()
    assert path.with_name("embeddings.sqlite.old").exists()
    assert len(repairs.since(0)) == 1
    assert "set aside as embeddings.sqlite.old" in repairs.since(0)[0]


def test_a_broken_answer_cache_is_set_aside(tmp_path):
    path = tmp_path / "answers.sqlite"
    _garbage(path)
    cache = AnswerCache(path)
    cache.keep("blip", {("a", ""): "a cat"})
    assert cache.find("blip", [("a", "")]) == {("a", ""): "a cat"}
    cache.close()
