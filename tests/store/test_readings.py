"""Readings of a picture are computed once and deleted with it; a broken cache is set aside."""

import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, StorageError
from bias_core.store import files as sqlite_file
from bias_core.store.files import Repairs, SqliteFile, file_system, use_journal
from bias_core.store.images import ImageStore
from bias_core.store.readings import AnswerCache, EmbeddingCache, batched
from bias_core.types import GeneratedImage, ImageRow


class MeanColour:
    """A real, if humble, encoder: the mean colour as a direction."""

    def __init__(self, name: str = "mean-colour", d: int = 3) -> None:
        self.name, self.d, self.n_encoded = name, d, 0

    def encode_images(self, images):
        self.n_encoded += len(images)
        means = np.stack([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images])
        if not means.any(axis=1).all():
            raise InvalidInput("a black picture has no direction")
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def encode_texts(self, texts):
        self.n_encoded += len(texts)
        rows = np.stack([np.random.default_rng(len(t)).normal(size=self.d) for t in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def cache(tmp_path):
    built = EmbeddingCache(tmp_path / "embeddings.sqlite")
    yield built
    built.close()


@pytest.fixture
def images(tmp_path):
    store = ImageStore(tmp_path / "images")
    colours = [(255, 0, 0), (0, 255, 0), (10, 20, 30), (200, 100, 50), (1, 2, 3)]
    return store.add(
        [
            GeneratedImage(row=ImageRow(prompt="p", seed=i, model="m"), image=Image.new("RGB", (8, 8), colour))
            for i, colour in enumerate(colours)
        ]
    )


def test_each_picture_is_encoded_once_and_order_is_kept(cache, images, tmp_path):
    encoder, other = MeanColour(), MeanColour("another")
    first = cache.images(encoder, images[:3])
    assert encoder.n_encoded == 3
    again = cache.images(encoder, images[::-1])
    assert encoder.n_encoded == 5
    np.testing.assert_array_equal(again[::-1][:3], first)
    assert first.dtype == np.float32
    np.testing.assert_allclose(first[0], [1, 0, 0])
    cache.images(other, images)
    assert other.n_encoded == 5  # encoders do not share rows
    cache.forget([images[0].row.id])
    cache.images(encoder, images)
    assert encoder.n_encoded == 6
    cache.close()
    after, later = MeanColour(), EmbeddingCache(tmp_path / "embeddings.sqlite")  # of another process
    np.testing.assert_array_equal(later.images(after, images[::-1]), again)
    later.close()
    assert after.n_encoded == 0


def test_texts_are_cached_apart_from_pictures(cache):
    encoder = MeanColour()
    rows = cache.texts(encoder, ["a man", "a woman", "a man"])
    assert encoder.n_encoded == 2
    np.testing.assert_array_equal(rows[0], rows[2])
    cache.texts(encoder, ["a woman"])
    assert encoder.n_encoded == 2


def test_an_unusable_embedding_names_its_picture_and_the_others_are_kept(cache, images, tmp_path):
    black = ImageStore(tmp_path / "images").add(
        [GeneratedImage(row=ImageRow(prompt="p", seed=99, model="m"), image=Image.new("RGB", (8, 8)))]
    )
    with pytest.raises(InvalidInput, match=black[0].row.id):
        cache.images(MeanColour(), [*images, *black])


def test_nan_and_a_wrong_number_of_rows_never_get_in(cache, images):
    class Broken(MeanColour):
        rows = np.full((5, 3), np.nan, dtype=np.float32)

        def encode_images(self, images):
            return self.rows

    class Short(MeanColour):
        def encode_images(self, images):
            return super().encode_images(images)[:-1]

    for broken, words in ((Broken(), "not 1"), (Short(), r"shape \(4, 3\) for 5 inputs")):
        with pytest.raises(InvalidInput, match=words):
            cache.images(broken, images)
    encoder = MeanColour()
    cache.images(encoder, images)
    assert encoder.n_encoded == 5  # nothing of the broken ones was kept


def test_altered_vectors_are_computed_anew_and_said(cache, images, tmp_path):
    encoder = MeanColour()
    true = cache.images(encoder, images)
    with closing(sqlite3.connect(tmp_path / "embeddings.sqlite")) as connection, connection:
        connection.execute("UPDATE embeddings SET vector = ?", [true[0].tobytes()])  # all as the first
    np.testing.assert_array_equal(cache.images(encoder, images), true)
    assert encoder.n_encoded == 2 * len(images) - 1  # the first vector fits its checksum
    assert cache._repairs.since(0) == [
        f"{len(images) - 1} kept embedding(s) did not fit their checksum; they are computed anew"
    ]


def test_pictures_are_opened_a_few_at_a_time_where_they_are_large():
    assert [len(part) for part in batched(range(100), [4_000_000] * 100)] == [8] * 12 + [4]
    assert [len(part) for part in batched(range(100), [65_536] * 100)] == [64, 36]


def test_two_connections_write_side_by_side(cache, tmp_path):
    other = EmbeddingCache(tmp_path / "embeddings.sqlite")
    cache.texts(MeanColour(), ["a"])
    other.texts(MeanColour(), ["bb"])
    cache.texts(MeanColour(), ["ccc"])
    other.close()
    with sqlite3.connect(tmp_path / "embeddings.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM embeddings").fetchone() == (3,)
    connection.close()


def test_two_thousand_rows_load_at_once(cache, images):
    rows = np.eye(512, dtype=np.float32)
    many = [replace(images[0], path=images[0].path.with_stem(f"{i:020d}")) for i in range(2000)]
    cache.keep("wide", {(image.path.stem,): rows[i % 512].tobytes() for i, image in enumerate(many)})
    started = time.process_time()  # others may keep the machine busy
    loaded = cache.images(MeanColour("wide"), many)
    assert time.process_time() - started < 2  # CPU seconds; 0.6 on a busy machine
    np.testing.assert_array_equal(loaded[700], rows[700 % 512])


def test_the_next_batch_is_opened_while_one_is_read(cache, tmp_path, monkeypatch):
    from bias_core.store import readings

    rows = [ImageRow(prompt="p", seed=i, model="m") for i in range(150)]  # three batches of at most 64
    stored = ImageStore(tmp_path / "many").add(
        [GeneratedImage(row=row, image=Image.new("RGB", (4, 4), (row.seed + 1, 9, 9))) for row in rows]
    )
    opened, seen, real = [], [], readings.open_original
    monkeypatch.setattr(readings, "open_original", lambda image: (opened.append(1), real(image))[1])

    class Watching(MeanColour):
        def encode_images(self, images):
            end = time.monotonic() + 5
            while len(opened) <= 64 and time.monotonic() < end:
                time.sleep(0.01)
            seen.append((len(images), len(opened)))
            return super().encode_images(images)

    found = cache.images(Watching(), stored)
    assert [n for n, _ in seen] == [64, 64, 22]
    assert seen[0][1] > 64  # of the second batch, while the first was read
    np.testing.assert_allclose(found, MeanColour().encode_images([real(one) for one in stored]), atol=1e-6)


@pytest.fixture
def answers(tmp_path):
    built = AnswerCache(tmp_path / "answers.sqlite")
    yield built
    built.close()


def test_answers_are_found_by_picture_question_and_reader(answers):
    answers.keep("blip@1", {("a", ""): "a cat", ("a", "What is it?"): "cat", ("b", ""): "a dog"})
    asked = [("a", ""), ("a", "What is it?"), ("b", "What is it?")]
    assert answers.find("blip@1", asked) == {("a", ""): "a cat", ("a", "What is it?"): "cat"}
    assert answers.find("blip@2", asked) == {}  # other weights may say otherwise
    answers.keep("blip@1", {("a", ""): "two cats"})  # in the place of the old one
    assert answers.find("blip@1", [("a", "")]) == {("a", ""): "two cats"}


def test_answers_outlive_the_process_and_go_with_their_picture(answers, tmp_path):
    answers.keep("blip", {("a", ""): "a cat", ("b", ""): "a dog"})
    again = AnswerCache(tmp_path / "answers.sqlite")
    again.forget(["a"])
    assert again.find("blip", [("a", ""), ("b", "")]) == {("b", ""): "a dog"}
    again.close()


def test_an_altered_answer_is_asked_for_anew(tmp_path):
    repairs = Repairs()
    answers = AnswerCache(tmp_path / "answers.sqlite", repairs)
    answers.keep("blip", {("a", ""): "a cat", ("b", ""): "a dog"})
    answers.close()
    with closing(sqlite3.connect(tmp_path / "answers.sqlite")) as connection, connection:
        connection.execute("UPDATE answers SET answer = 'a fox' WHERE image_id = 'a'")
    assert answers.find("blip", [("a", ""), ("b", "")]) == {("b", ""): "a dog"}
    assert repairs.since(0) == ["1 kept answer(s) did not fit their checksum; they are asked for anew"]
    answers.close()


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


def test_what_cannot_be_written_was_not_damaged(tmp_path):
    repairs = Repairs()
    file = SqliteFile(
        tmp_path / ("x" * 300), title="list", schema="CREATE TABLE IF NOT EXISTS t (a)", form=1, repairs=repairs
    )
    with pytest.raises(StorageError, match=r"unable to open|too long"):
        file.run(lambda connection: connection.execute("SELECT 1"))
    assert repairs.n == 0
