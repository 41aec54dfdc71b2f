"""The store of labels on both databases, the pictures it keeps, and its copies at a hub."""

import json
import os
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from sqlalchemy import create_engine, event, insert, select, text, update

from bias_core.errors import InvalidInput, StorageError
from bias_core.labels import label_store as schema
from bias_core.labels.label_store import LabelStore, raters
from bias_core.labels.rating import delete_my_answers, join, next_item, skip, undo
from bias_core.labels.results import LabelCopy, given_answers
from bias_core.labels.task_owner import (
    delete_task,
    exclude_rater,
    keep_picture,
    owned_task,
    picture_path,
    task_picture_png,
)
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store import files as sqlite_file
from bias_core.store.images import encode_png
from bias_core.types import GeneratedImage, ImageRow
from tests.labels.raters import CHOICES, new_id, on_both, one_rater, open_task, say
from tests.store.test_imports import chunk


def answered(store, folder):
    """A task with one answer: its owner's key and its rater's code."""
    task, code = one_rater(store, folder, 3)
    say(store, code, next_item(store, code))
    return task.key, code


@on_both
@pytest.mark.parametrize(("form", "words"), [(4, "an older version"), (99, "a newer version")])
def test_labels_of_another_version_are_left_alone(store, tmp_path, form, words):
    key, _ = answered(store, tmp_path)
    table = schema.metadata.tables["schema_version"]
    with store.write() as connection:
        connection.execute(update(table).values(version=form))
    store.close()
    with pytest.raises(StorageError, match=f"written by {words} of this program .*nothing in them was changed"):
        owned_task(store, key)
    store.close()
    engine = create_engine(store._url)
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM answers")) == 1
        connection.execute(update(table).values(version=5))
    engine.dispose()
    assert [given.choices for given in given_answers(store, key)] == [CHOICES]


@on_both
def test_two_programs_may_open_a_new_database_at_once(store):
    # str() of a URL hides the password; there is none here.
    stores = [LabelStore(store._url, pictures=store.pictures) for _ in range(4)]

    def open_it(some):
        with some.read() as connection:
            connection.execute(text("SELECT count(*) FROM tasks"))
        some.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(open_it, stores))


def test_a_commit_of_sqlite_is_on_the_disk_before_it_returns(make_store):
    with make_store("sqlite").write() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        }
    assert found == {"journal_mode": "wal", "synchronous": 3, "foreign_keys": 1, "secure_delete": 1}  # 3: EXTRA


def test_on_a_network_s_file_system_there_is_no_log_and_every_answer_is_kept(make_store, monkeypatch, tmp_path):
    store = make_store("sqlite")
    key, _ = answered(store, tmp_path)  # in WAL mode, on this disk
    file = Path(str(store._url.database))
    assert file.with_name(f"{file.name}-wal").exists()
    store.close()
    monkeypatch.setattr(sqlite_file, "file_system", lambda _path: "nfs4")  # as if it was moved to a mounted volume
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    assert not file.with_name(f"{file.name}-wal").exists()
    assert owned_task(store, key)[0].title
    with store.write() as connection:
        connection.execute(text("UPDATE tasks SET status = 'closed'"))
    moved = file.rename(file.with_name("away"))
    with pytest.raises(StorageError, match="was removed"), store.read():
        pass
    moved.rename(file)
    with store.read() as connection:
        assert connection.execute(text("SELECT status FROM tasks")).scalar() == "closed"


@on_both
def test_a_block_that_raises_leaves_nothing_behind(store):
    row = {"id": "x", "join_code": "y", "owner_hash": "z", "status": "open", "version": 1, "created_ms": 0}

    def put(*, fails=False):
        with store.write() as connection:
            connection.execute(insert(schema.tasks).values(row))
            if fails:
                raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        put(fails=True)
    put()
    with pytest.raises(StorageError):
        put()
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM tasks")).scalar() == 1


def test_acts_that_wait_share_a_commit_and_none_of_them_is_lost(make_store):
    store = make_store("sqlite")
    commits = []
    entered, go_on = threading.Event(), threading.Event()

    def put(number):
        with store.write() as connection:
            if number == 0:
                entered.set()
                go_on.wait(10)  # the others come meanwhile
            values = {"id": f"t{number}", "join_code": f"j{number}", "owner_hash": "", "status": "open"}
            connection.execute(insert(schema.tasks).values(**values, version=1, created_ms=0))
            if number == 5:
                raise InvalidInput("this one not")
        return number

    with store.read():
        pass
    event.listen(store._engine, "commit", lambda _: commits.append(1))
    told = [store.submit(lambda: put(0))]
    entered.wait(10)
    told += [store.submit(lambda number=number: put(number)) for number in range(1, 12)]
    assert not commits
    assert not told[0].done()
    assert told.pop(7).cancel()  # who asked has left: nobody else is harmed
    go_on.set()
    with pytest.raises(InvalidInput, match="this one not"):
        told.pop(5).result(10)
    others = [number for number in range(12) if number not in (5, 7)]
    assert [one.result(10) for one in told] == others
    with store.read() as connection:
        kept = connection.execute(text("SELECT id FROM tasks")).scalars().all()
    assert sorted(kept) == sorted(f"t{number}" for number in others)
    assert len(commits) == 2  # the first act's, and one for the ten that waited


@pytest.mark.parametrize("together", [True, False])
def test_a_commit_that_fails_is_told_to_everybody_in_it(make_store, together):
    store = make_store("sqlite")

    def of_no_task():
        with store.write() as connection:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")  # checked when committing
            values = {"task_id": "none", "name": "a", "code_hash": "b", "joined_ms": 0}
            connection.execute(insert(schema.raters).values(values))

    with pytest.raises(StorageError, match="FOREIGN KEY"):
        store.submit(of_no_task).result(10) if together else of_no_task()
    with store.write() as connection:  # and the next one works
        assert connection.execute(text("SELECT count(*) FROM raters")).scalar() == 0


@pytest.mark.parametrize(("url", "message"), [("no url", "no valid URL"), ("postgresql+pg8000://h/x", "driver of")])
def test_a_database_that_cannot_be_reached_is_named(tmp_path, url, message):
    with pytest.raises(StorageError, match=message), LabelStore(url, pictures=tmp_path).read():
        pass


def test_an_error_repeats_neither_the_password_nor_what_was_said(tmp_path):
    url = "postgresql+psycopg://someone:hunter2@127.0.0.1:9/x?connect_timeout=2"
    with pytest.raises(StorageError) as caught, LabelStore(url, pictures=tmp_path).read():
        pass
    assert "hunter2" not in str(caught.value)


def noise(size=(17, 11)):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_the_pixels_stay_and_what_is_written_beside_them_goes(tmp_path):
    row = ImageRow(prompt="a photo of a SECRET nurse", seed=3, model="SECRET-model", width=17, height=11)
    original = tmp_path / "original.png"
    original.write_bytes(encode_png(GeneratedImage(row=row, image=noise(), truth={"gender": "SECRET"})))
    assert b"SECRET" in original.read_bytes()
    name = keep_picture(tmp_path / "kept", original)
    kept = picture_path(tmp_path / "kept", name)
    assert b"SECRET" not in kept.read_bytes()
    with Image.open(kept) as image:
        assert image.info == {}
        assert np.array_equal(np.asarray(image), np.asarray(noise()))


def test_the_same_pixels_are_kept_once_whatever_was_written_in_them(tmp_path):
    info = PngInfo()
    info.add_text("model", "another")
    noise().save(tmp_path / "a.png")
    noise().save(tmp_path / "b.png", pnginfo=info)
    assert keep_picture(tmp_path / "kept", tmp_path / "a.png") == keep_picture(tmp_path / "kept", tmp_path / "b.png")
    assert len(list((tmp_path / "kept").rglob("*.png"))) == 1


def test_a_photo_is_turned_upright_and_loses_where_it_was_taken(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    exif[0x010E] = "SECRET place"
    noise((20, 10)).save(tmp_path / "a.jpg", exif=exif)
    name = keep_picture(tmp_path, tmp_path / "a.jpg")
    assert b"SECRET" not in task_picture_png(tmp_path, name)
    with Image.open(picture_path(tmp_path, name)) as image:
        assert image.size == (10, 20)


def png_of(width, height):
    """A PNG that says it is huge, and holds nothing."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "no picture"),
        (b"GIF89a" + b"\0" * 40, "no picture"),
        (png_of(100_000, 100_000), "too large"),
        (png_of(9000, 9000), "too many"),
        (png_of(5, 5), "damaged"),
    ],
)
def test_what_is_no_usable_picture_is_refused(tmp_path, content, message):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        keep_picture(tmp_path / "kept", path)
    assert not list(tmp_path.rglob("kept/*"))


def test_a_file_that_is_too_large_is_not_even_read_and_a_folder_or_a_missing_file_is_named(tmp_path):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 60_000_000)
    with pytest.raises(InvalidInput, match="50 MB"):
        keep_picture(tmp_path, path)

    for path in (tmp_path, tmp_path / "none.png"):
        with pytest.raises(StorageError, match=path.name):
            keep_picture(tmp_path / "kept", path)


def test_only_a_sha_names_a_picture_and_one_that_is_gone_is_said_to_be(tmp_path):
    for name in ("", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "/" + "a" * 63):
        with pytest.raises(StorageError, match="SHA-256"):
            task_picture_png(tmp_path, name)
    with pytest.raises(StorageError, match="missing"):
        task_picture_png(tmp_path, "a" * 64)


def test_pictures_of_all_tasks_have_a_limit_together(tmp_path):
    store = LabelStore("sqlite://", pictures=tmp_path / "kept")
    made = open_task(store, tmp_path / "first", 3)
    n_bytes = sum(path.stat().st_size for path in (tmp_path / "kept").rglob("*.png"))
    store.most_picture_bytes = n_bytes + 10
    with pytest.raises(InvalidInput, match=r"\(BIAS_LABEL_PICTURES_GB\), .* delete a task that is done"):
        open_task(store, tmp_path / "second", 2)
    delete_task(store, made.key)
    assert open_task(store, tmp_path / "third", 2).join_code
    store.close()


class Hub:
    """In place of the hub's API: the files of one dataset; it fails as often as it is told to."""

    def __init__(self):
        self.files = {}
        self.made = {}
        self.errors = []
        self._pool = ThreadPoolExecutor(1)

    def create_repo(self, **how):
        self._fail()
        self.made = how
        return SimpleNamespace(repo_id=how["repo_id"])

    def run_as_future(self, work):
        return self._pool.submit(work)

    def create_commit(self, *, operations, **_):
        self._fail()
        for one in operations:
            one.path_or_fileobj.seek(0)
            self.files[one.path_in_repo] = one.path_or_fileobj.read().decode()
        return "done"

    def _fail(self):
        if self.errors:
            raise self.errors.pop()

    def lines(self, task):
        return [json.loads(line) for line in self.files[f"labels/{task.key.task_id}.jsonl"].splitlines()]


@pytest.fixture
def hub():
    return Hub()


@pytest.fixture
def copying(store, tmp_path, hub):
    """Uploads now, and waits for it."""
    copy = started(store, tmp_path, hub)

    def upload():
        until(lambda: copy._made.done())
        assert copy._made.result().trigger().exception() is None

    yield upload
    copy.close()


def started(store, folder, hub, minutes=60):
    return LabelCopy(store, folder / "copy", repo="someone/labels", minutes=minutes, api=hub)


def until(happened):
    end = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def rater_with(store, task, n):
    """The code of a rater with so many answers."""
    code = join(store, task.join_code).code
    for _ in range(n):
        say(store, code, next_item(store, code), duration_ms=700)
    return code


@on_both
def test_the_copy_has_the_answers_that_hold_no_secret_and_what_is_deleted_goes(store, hub, copying, tmp_path):
    task = open_task(store, tmp_path / "originals", 6)
    ours, theirs, excluded = (rater_with(store, task, n) for n in (3, 2, 1))
    with store.read() as connection:
        *_, name = connection.scalars(select(raters.c.name).order_by(raters.c.id))
    exclude_rater(store, task.key, name)
    copying()
    assert hub.made == {"repo_id": "someone/labels", "repo_type": "dataset", "private": True, "exist_ok": True}
    assert [line["excluded"] for line in hub.lines(task)] == [False] * 5 + [True]
    for secret in (ours, ours.replace("-", ""), task.key.secret, task.join_code, next_item(store, ours).item):
        assert not [name for name, text in hub.files.items() if secret in name + text]
    undo(store, ours, answer_id=new_id())
    skip(store, ours, answer_id=new_id(), item=next_item(store, ours).item)
    delete_my_answers(store, theirs)
    delete_my_answers(store, excluded)
    copying()
    kept = given_answers(store, task.key)
    assert len(kept) == 2
    assert hub.lines(task) == [
        {
            "task": task.key.task_id, "task_version": 1, "image_id": one.item.image_id,
            "identities": one.item.identities, "known": None, "rater": one.rater, "choices": CHOICES,
            "seconds": 0.7, "at": one.at, "excluded": False,
        }
        for one in kept
    ]  # fmt: skip
    delete_task(store, task.key)
    copying()
    assert hub.lines(task) == []


def test_after_a_lost_disk_a_new_database_leaves_the_earlier_copy_alone(make_store, hub, tmp_path):
    store = make_store("sqlite")
    task = open_task(store, tmp_path / "originals", 2)
    rater_with(store, task, 2)
    started(store, tmp_path / "first", hub).close()  # with the last answers
    assert len(hub.lines(task)) == 2

    new = LabelStore(f"sqlite:///{tmp_path / 'new.sqlite'}", pictures=tmp_path)
    other = open_task(new, tmp_path / "others", 2)
    started(new, tmp_path / "second", hub).close()
    assert len(hub.lines(task)) == 2
    assert hub.lines(other) == []
    new.close()


def test_a_hub_that_cannot_be_reached_keeps_nobody_from_answering_and_is_tried_again(store, hub, tmp_path):
    class HubsOwnError(Exception):
        """A kind of error that only the hub's library knows."""

    hub.errors = [HubsOwnError("no network")] * 3
    copy = started(store, tmp_path, hub, minutes=0.002)
    task = open_task(store, tmp_path / "originals", 2)
    rater_with(store, task, 1)
    until(lambda: copy.last_error == "no network" or bool(hub.files))
    until(lambda: f"labels/{task.key.task_id}.jsonl" in hub.files and len(hub.lines(task)) == 1)
    until(lambda: copy.last_error == "")
    hub.errors = [ConnectionError("no route to the hub")] * 9  # of an upload, for a second
    rater_with(store, task, 1)
    until(lambda: copy.last_error == "no route to the hub")
    until(lambda: len(hub.lines(task)) == 2)
    until(lambda: copy.last_error == "")
    copy.close()
    hub.errors = [HubsOwnError("no network")] * 9
    never = started(store, tmp_path, hub)
    until(lambda: never.last_error == "no network")
    never.close()


def test_with_a_dataset_in_the_settings_the_last_answers_are_uploaded_when_services_close(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub._commit_scheduler.HfApi", lambda token: hub)
    services = Services(Settings(data_dir=tmp_path / "data", labels_repo="someone/labels"))
    copy = services.label_copy()
    until(lambda: bool(hub.made))
    task = open_task(services.labels, tmp_path / "originals", 2)
    rater_with(services.labels, task, 1)
    services.close()
    assert copy.last_error == ""
    assert len(hub.lines(task)) == 1
    assert Services(Settings(data_dir=tmp_path / "data")).label_copy() is None
