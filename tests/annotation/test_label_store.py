import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, insert, text, update

from bias_core.annotation import schema
from bias_core.annotation.collected import given_answers, labels_for_run
from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.rating import delete_my_answers, next_item, task_to_join
from bias_core.annotation.task_owner import OwnerKey, delete_task, owned_task, tasks_of
from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.store import sqlite_file
from tests.annotation.raters import CHOICES, on_both, one_rater, say

V5 = Path(__file__).parent / "labels_v5.sql"


def answered(store, folder):
    """A task with one answer: its owner's key and its rater's code."""
    task, code = one_rater(store, folder, 3)
    say(store, code, next_item(store, code))
    return task.key, code


def with_sets(tmp_path):
    """The database of a version that asked about two sets of pictures, and its owners' and raters' secrets."""
    file = tmp_path / "sets.sqlite"
    with sqlite3.connect(file) as old:
        old.executescript(V5.read_text())
    old.close()
    words = [word.rstrip(",.;") for word in V5.read_text().splitlines()[0].split()]
    *_, owner, _, rater, _, _, _, owner_of_sets, _, link, _, rater_of_sets = words
    secrets = {"owner": owner, "rater": rater, "owner of sets": owner_of_sets, "link": link}
    return LabelStore(f"sqlite:///{file}", pictures=tmp_path), secrets | {"rater of sets": rater_of_sets}


def test_tasks_about_sets_of_pictures_are_skipped_with_one_note_and_all_others_go_on(tmp_path, caplog):
    store, secrets = with_sets(tmp_path)
    key = OwnerKey.parse(secrets["owner"])
    assert [given.choices for given in given_answers(store, key)] == [CHOICES]
    assert next_item(store, secrets["rater"]).n_answered == 1
    assert [task.kind for task in tasks_of(store, "4711")] == ["own"]
    assert labels_for_run(store, "a run", [key.task_id, OwnerKey.parse(secrets["owner of sets"]).task_id]) == []
    for asking in (
        lambda: owned_task(store, OwnerKey.parse(secrets["owner of sets"])),
        lambda: task_to_join(store, secrets["link"]),
        lambda: next_item(store, secrets["rater of sets"]),
    ):
        with pytest.raises(NotAllowed, match="no longer has; its answers stay in the database"):
            asking()
    notes = [one.getMessage() for one in caplog.records if "no longer has" in one.getMessage()]
    assert len(notes) == 1
    assert "1 of the tasks" in notes[0]
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM answers")).scalar() == 3
    store.close()


def test_answers_about_sets_of_pictures_can_still_be_deleted(tmp_path):
    store, secrets = with_sets(tmp_path)
    assert delete_my_answers(store, secrets["rater of sets"]) == 2
    delete_task(store, OwnerKey.parse(secrets["owner of sets"]))
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM task_versions")).scalar() == 2
        assert connection.execute(text("SELECT count(*) FROM answers")).scalar() == 1
    store.close()


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
