"""The labels' file is taken away under the raters: nothing is acknowledged that would be lost."""

import os
import resource
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.annotation.collected import given_answers, task_progress
from bias_core.annotation.label_store import LabelStore
from bias_core.errors import StorageError
from bias_core.labels.api import LabelDoor
from bias_core.labels.tab import LabelTab
from bias_core.ui.visitor import Visitor
from tests.annotation.raters import answer_to, joined, open_task
from tests.ui.tabs import built


class Raters:
    """One rater at the door of a store on the disk, and the owner of the task."""

    def __init__(self, services, client, folder):
        self.services, self.client = services, client
        self.file = services.settings.data_dir / "labels.sqlite"
        self.task = open_task(services.labels, folder, 9, raters_per_item=1)
        self.me = joined(client, self.task)
        self.turn = client.get("/label/next", headers=self.me).json()
        self.acknowledged = []

    @property
    def files(self):
        return [self.file, self.file.with_name("labels.sqlite-wal"), self.file.with_name("labels.sqlite-shm")]

    def answer(self, body=None):
        """Send an answer; what came back, and the body to send again where it was not kept."""
        body = body or answer_to(self.turn)
        reply = self.client.post("/label/answer", headers=self.me, json=body)
        if reply.status_code == 200:
            self.acknowledged.append(body["id"])
            self.turn = reply.json()
        return reply.status_code, body

    def kept(self, file=None):
        """The answers in a file, as another program finds them."""
        with closing(sqlite3.connect(file or self.file)) as found:
            return [row[0] for row in found.execute("SELECT client_id FROM answers ORDER BY id")]

    def put_back(self, folder):
        for path in folder.iterdir():
            path.rename(self.file.with_name(path.name))

    def copied(self, target):
        """A whole copy of the database as it is now."""
        with closing(sqlite3.connect(self.file)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        return target


@pytest.fixture
def raters(fakes, tmp_path):
    with TestClient(Starlette(routes=LabelDoor(fakes).routes())) as client:
        found = Raters(fakes, client, tmp_path / "originals")
        for _ in range(2):
            assert found.answer()[0] == 200
        yield found


def another(raters):
    """The file of another database."""
    other = raters.file.with_name("other.sqlite")
    open_task(store := LabelStore(f"sqlite:///{other}", pictures=other.parent), other.parent / "pictures", 2)
    store.close()
    return other


def its_folder_moved(raters):
    (away := raters.file.parent.with_name("moved")).mkdir()
    for path in raters.files:
        path.rename(away / path.name)


HARMS = {
    "removed": lambda raters: raters.file.unlink(),
    "removed with its log": lambda raters: [path.unlink() for path in raters.files],
    "its log removed": lambda raters: raters.files[1].unlink(),
    "made empty": lambda raters: raters.file.write_bytes(b""),
    "replaced by an empty one": lambda raters: (raters.file.unlink(), raters.file.touch()),
    "replaced by another database": lambda raters: another(raters).replace(raters.file),
    "replaced by a copy": lambda raters: raters.copied(raters.file.with_name("copy.sqlite")).replace(raters.file),
    "replaced by no database": lambda raters: (raters.file.unlink(), raters.file.write_bytes(b"no database" * 700)),
    "overwritten by another database": lambda raters: raters.file.write_bytes(another(raters).read_bytes()),
    "made read only": lambda raters: raters.file.chmod(0o444),
    "its folder moved": its_folder_moved,
}


@pytest.mark.parametrize("harm", HARMS)
def test_nothing_is_acknowledged_without_its_file_and_raters_and_owner_are_told(raters, harm):
    HARMS[harm](raters)
    for _ in range(2):
        assert raters.answer()[0] == 503
        told = raters.client.get("/label/next", headers=raters.me)
        assert told.status_code == 503
        assert ("gone or was replaced" in told.json()["error"]) == (harm != "made read only")
        assert raters.client.get(f"/label/task/{raters.task.join_code}").status_code == 503
    with pytest.raises(StorageError, match=r"labels\.sqlite") as error:
        task_progress(raters.services.labels, raters.task.key)
    assert str(raters.file.parent) not in str(error.value)  # a public page names no folder


def test_the_owner_s_page_says_that_the_file_is_gone(raters):
    tab, visitor = built(LabelTab, raters.services), Visitor()
    assert tab.parts["header"] in tab.on_open(visitor, None, raters.task.key.text)
    raters.file.unlink()
    told = tab.on_open(visitor, None, raters.task.key.text)
    assert list(told) == [tab.parts["status"]]
    assert "labels.sqlite was removed" in told[tab.parts["status"]]
    visitor.leave()


def test_when_the_file_comes_back_the_answer_is_sent_again_and_counts_once(raters, tmp_path):
    (away := tmp_path / "away").mkdir()
    for path in raters.files:
        path.rename(away / path.name)
    status, body = raters.answer()
    assert status == 503
    raters.put_back(away)
    assert raters.answer(body)[0] == 200
    assert raters.answer()[0] == 200
    assert raters.kept() == raters.acknowledged
    assert len(raters.acknowledged) == 4


def test_a_copy_in_its_place_is_taken_once_the_program_starts_again(raters, tmp_path):
    copy = raters.copied(tmp_path / "copy.sqlite")
    for path in raters.files:
        path.unlink()
    shutil.copy(copy, raters.file)
    status, body = raters.answer()
    assert status == 503
    with pytest.raises(StorageError, match="put it back, or start the program again"):
        task_progress(raters.services.labels, raters.task.key)
    raters.services.labels.close()  # as at the end of the program
    assert raters.answer(body)[0] == 200
    assert raters.kept() == raters.acknowledged
    assert len(raters.acknowledged) == 3


def test_an_older_copy_that_is_written_over_the_file_is_no_database_to_go_on_with(raters, tmp_path):
    older = raters.copied(tmp_path / "older.sqlite")
    open_task(raters.services.labels, tmp_path / "more", 9)
    raters.services.labels.erase_traces()  # the log is emptied into the file
    assert raters.answer()[0] == 200
    raters.file.write_bytes(older.read_bytes())
    assert raters.answer()[0] == 503


@pytest.mark.parametrize("beside", ["-wal", ".rescued-20261101-120000-ab12"])
def test_nothing_begins_anew_beside_what_is_left_of_a_database(raters, beside):
    raters.file.rename(raters.file.with_name("away"))
    again = LabelStore(f"sqlite:///{raters.file}", pictures=raters.file.parent)
    left = raters.file.with_name(f"labels.sqlite{beside}")
    left.touch()
    if not left.stat().st_size:  # an earlier version made such copies
        raters.files[1].unlink()
        left.write_bytes(b"a database")
    with pytest.raises(StorageError, match=rf"is missing or empty, and labels\.sqlite{beside} is there"):
        given_answers(again, raters.task.key)
    assert not raters.file.exists()


def test_what_is_removed_between_the_commit_and_its_answer_is_not_acknowledged(raters, monkeypatch):
    from bias_core.annotation.label_store import LabelFile

    away, real = raters.file.with_name("away"), LabelFile.check
    looks = iter(range(9))

    def removed_just_now(file):
        if next(looks) == 1:  # the first look is before the commit
            raters.file.rename(away)
        real(file)

    with monkeypatch.context() as moment:
        moment.setattr(LabelFile, "check", removed_just_now)
        status, body = raters.answer()
    assert away.exists()
    assert status == 503
    assert raters.answer(body)[0] == 503
    away.rename(raters.file)
    assert raters.answer(body)[0] == 200  # it was in there, and is not there twice
    assert raters.kept() == raters.acknowledged


def test_a_full_disk_is_said_and_answers_go_on_when_there_is_room(raters):
    sizes = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = raters.files[1].stat().st_size + 60_000  # for a few more answers
    statuses, left = [], None
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, sizes[1]))
        for _ in range(6):
            status, left = raters.answer(left)
            statuses.append(status)
            left = None if status == 200 else left
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, sizes)
    assert statuses[0] == 200
    assert statuses[-1] == 503
    assert raters.answer(left)[0] == 200
    assert raters.kept() == raters.acknowledged


def test_raters_wait_for_no_model_that_is_being_built(fakes, raters):
    building, done = threading.Event(), threading.Event()

    def slow_hub():
        building.set()
        done.wait(20)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(fakes._built.get, "model", "slow", slow_hub)
        try:
            assert building.wait(10)
            assert pool.submit(raters.answer).result(10)[0] == 200
        finally:
            done.set()


def test_the_file_s_owner_may_be_another_user_without_the_right_to_write(raters, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert raters.answer()[0] == 503
    monkeypatch.undo()
    assert raters.answer()[0] == 200
