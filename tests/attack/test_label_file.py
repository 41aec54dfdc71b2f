"""The labels' file is taken away under the raters: nothing is acknowledged that would be lost."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import httpx
import numpy as np
import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.errors import StorageError
from bias_core.labels.api import LabelDoor
from bias_core.labels.label_store import LabelStore, answers
from bias_core.labels.rating import join, next_item
from bias_core.labels.results import given_answers, task_progress
from bias_core.labels.tab import LabelTab
from bias_core.ui.visitor import Visitor
from tests.labels.raters import answer_to, joined, open_task
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
    (away := raters.file.parent.with_name(f"{raters.file.parent.name}-moved")).mkdir()
    for path in raters.files:
        path.rename(away / path.name)


def its_name_made_a_link(raters):
    raters.file.rename(raters.file.with_name("elsewhere"))
    raters.file.symlink_to(raters.file.with_name("elsewhere"))


HARMS = {
    "removed": lambda raters: raters.file.unlink(),
    "removed with its log": lambda raters: [path.unlink() for path in raters.files],
    "its log removed": lambda raters: raters.files[1].unlink(),
    "made empty": lambda raters: raters.file.write_bytes(b""),
    "replaced by an empty one": lambda raters: (raters.file.unlink(), raters.file.touch()),
    "replaced by another database": lambda raters: another(raters).replace(raters.file),
    "replaced by a copy": lambda raters: raters.copied(raters.file.with_name("copy.sqlite")).replace(raters.file),
    "replaced by no database": lambda raters: (raters.file.unlink(), raters.file.write_bytes(b"no database" * 700)),
    "cut short": lambda raters: os.truncate(raters.file, raters.file.stat().st_size // 8192 * 4096),
    "zeros": lambda raters: raters.file.write_bytes(bytes(raters.file.stat().st_size)),
    "its index removed": lambda raters: raters.files[2].unlink(),
    "made a link": its_name_made_a_link,
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


@pytest.mark.parametrize(
    "harm", ["removed", "cut short", "zeros", "replaced by a copy", "overwritten by another database"]
)
def test_nothing_is_acknowledged_without_its_file_where_that_has_no_log(raters, monkeypatch, harm):
    raters.services.labels.close()
    monkeypatch.setattr("bias_core.store.files.file_system", lambda _path: "nfs4")
    for _ in range(2):
        assert raters.answer()[0] == 200
    assert not raters.files[1].exists()
    HARMS[harm](raters)
    assert raters.answer()[0] == 503


def found_by_a_new_start(raters, tmp_path):
    """The answers that the program finds when it starts again on these files, as a kill would leave them now."""
    shutil.copytree(raters.file.parent, again := tmp_path / "again", symlinks=True)
    store = LabelStore(f"sqlite:///{again / raters.file.name}", pictures=again)
    with store.read() as connection:
        found = list(connection.scalars(select(answers.c.client_id).order_by(answers.c.id)))
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    store.close()
    return found


KEPT = {  # after these nothing is lost that was acknowledged; what its owner does then
    "its log removed": lambda raters: None,
    "its index removed": lambda raters: None,
    "made a link": lambda raters: (raters.file.unlink(), raters.file.with_name("elsewhere").rename(raters.file)),
    "made read only": lambda raters: raters.file.chmod(0o600),
    "its folder moved": lambda raters: raters.put_back(
        raters.file.parent.with_name(f"{raters.file.parent.name}-moved")
    ),
}


@pytest.mark.parametrize("end", ["killed", "as usual"])
@pytest.mark.parametrize("harm", KEPT)
def test_what_was_acknowledged_before_is_there_after_any_end(raters, tmp_path_factory, harm, end):
    HARMS[harm](raters)
    assert raters.answer()[0] == 503
    if end == "as usual":
        raters.services.labels.close()
    KEPT[harm](raters)
    assert found_by_a_new_start(raters, tmp_path_factory.mktemp("new")) == raters.acknowledged


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files without a name are reached there")
@pytest.mark.parametrize("harm", ["removed", "removed with its log", "replaced by an empty one"])
def test_a_removed_database_can_be_copied_until_the_program_ends(raters, tmp_path_factory, harm, caplog):
    HARMS[harm](raters)
    assert raters.answer()[0] == 503
    (advice,) = [line for line in caplog.messages if "copy it: " in line]
    subprocess.run(advice.partition("copy it: ")[2], shell=True, check=True)
    raters.services.labels.close()
    raters.file.with_name("labels.sqlite.removed").rename(raters.file)
    assert found_by_a_new_start(raters, tmp_path_factory.mktemp("new")) == raters.acknowledged


@contextmanager
def snapshot(raters):
    """Read, as an export does."""
    with raters.services.labels.read() as connection:
        connection.execute(select(answers.c.id)).all()
        yield


CHANGED = (
    "made empty", "cut short", "zeros", "overwritten by another database", "replaced by another database",
    "replaced by no database", "removed",
)  # fmt: skip


@pytest.mark.parametrize("harm", CHANGED)
def test_the_end_of_the_program_writes_and_deletes_nothing_where_others_changed_the_files(raters, harm):
    with snapshot(raters):  # so that the log is not empty
        assert raters.answer()[0] == 200
    HARMS[harm](raters)
    assert raters.answer()[0] == 503
    before = {path.name: path.read_bytes() for path in raters.files[:2] if path.exists()}
    raters.services.labels.close()
    assert {path.name: path.read_bytes() for path in raters.files[:2] if path.exists()} == before
    assert before["labels.sqlite-wal"]


WITHOUT_CLOSING = """
import os, sys
from pathlib import Path
from bias_core.labels import label_store

file = Path(sys.argv[1])
store = label_store.LabelStore(f"sqlite:///{file}", pictures=file.parent)
with store.write() as connection:
    connection.exec_driver_sql("CREATE TABLE t (i INTEGER)")
os.truncate(file, 4096)
"""


def test_a_program_that_ends_without_closing_its_files_writes_nothing(tmp_path):
    file = tmp_path / "labels.sqlite"
    subprocess.run([sys.executable, "-c", WITHOUT_CLOSING, str(file)], check=True)
    assert file.stat().st_size == 4096


def test_every_answer_is_in_the_database_itself_once_it_is_acknowledged(raters, tmp_path):
    with snapshot(raters):  # keeps the next answer in the log
        assert raters.answer()[0] == 200
    assert raters.files[1].stat().st_size
    for _ in range(2):
        assert raters.answer()[0] == 200
        assert raters.files[1].stat().st_size == 0
        assert raters.kept(shutil.copy(raters.file, tmp_path / "copy.sqlite")) == raters.acknowledged


def test_an_ordinary_end_leaves_one_whole_file(raters, tmp_path_factory):
    raters.services.labels.close()
    assert [path.exists() for path in raters.files] == [True, False, False]
    assert found_by_a_new_start(raters, tmp_path_factory.mktemp("new")) == raters.acknowledged


@pytest.mark.parametrize("harm", ["older copy", "another database", "cut short"])
def test_after_a_kill_what_its_owner_puts_in_its_place_is_what_counts(raters, tmp_path, harm):
    older = raters.copied(tmp_path / "older.sqlite")
    for _ in range(3):
        assert raters.answer()[0] == 200
    (killed := tmp_path / "killed").mkdir()
    for path in raters.files:
        shutil.copy(path, killed)
    file = killed / "labels.sqlite"
    store = LabelStore(f"sqlite:///{file}", pictures=killed)
    if harm == "cut short":
        os.truncate(file, file.stat().st_size // 8192 * 4096)
        before = file.read_bytes()
        for _ in range(2):
            with pytest.raises(StorageError, match=r"labels\.sqlite is damaged.* put a whole copy in its place"):
                given_answers(store, raters.task.key)
        assert file.read_bytes() == before
        return
    shutil.copy(older if harm == "older copy" else another(raters), file)
    with store.read() as connection:
        assert len(list(connection.scalars(select(answers.c.id)))) == (2 if harm == "older copy" else 0)
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    store.close()


def test_others_on_this_machine_read_no_answers(raters):
    assert {path.stat().st_mode & 0o777 for path in raters.files} == {0o600}
    raters.services.labels.close()
    raters.file.chmod(0o664)
    raters.files[1].touch(0o644)
    assert raters.answer()[0] == 200
    assert {path.stat().st_mode & 0o777 for path in raters.files} == {0o600}


def test_the_file_of_another_user_is_left_as_it_is(raters, monkeypatch):
    raters.services.labels.close()
    raters.file.chmod(0o664)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert raters.answer()[0] == 200
    assert raters.file.stat().st_mode & 0o777 == 0o664


WRITING = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], timeout=0.1).execute("DELETE FROM answers")
"""


def test_closing_the_database_leaves_the_locks_of_others_in_this_process(raters):
    other = LabelStore(f"sqlite:///{raters.file}", pictures=raters.file.parent)
    with other.read():
        pass
    with raters.services.labels.write() as connection:
        connection.execute(answers.update().values(client_id=answers.c.client_id))
        other.close()
        command = [sys.executable, "-c", WRITING, str(raters.file)]
        elsewhere = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "database is locked" in elsewhere.stderr
    assert raters.answer()[0] == 200


def test_a_link_to_the_database_is_followed_to_its_log(raters, tmp_path):
    raters.services.labels.close()
    raters.file.rename(tmp_path / "real.sqlite")
    raters.file.symlink_to(tmp_path / "real.sqlite")
    assert raters.answer()[0] == 200
    assert (tmp_path / "real.sqlite-wal").exists()
    other = another(raters)
    raters.file.unlink()
    raters.file.symlink_to(other)
    assert raters.answer()[0] == 503


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
    with pytest.raises(StorageError, match="put it back, or restart the program"):
        task_progress(raters.services.labels, raters.task.key)
    raters.services.labels.close()  # as at the end of the program
    assert raters.answer(body)[0] == 200
    assert raters.kept() == raters.acknowledged
    assert len(raters.acknowledged) == 3


def test_an_older_copy_that_is_written_over_the_file_is_no_database_to_go_on_with(raters, tmp_path):
    older = raters.copied(tmp_path / "older.sqlite")
    open_task(raters.services.labels, tmp_path / "more", 9)
    assert raters.answer()[0] == 200
    raters.file.write_bytes(older.read_bytes())
    assert raters.answer()[0] == 503


def test_nothing_begins_anew_beside_the_log_of_a_database(raters):
    raters.file.rename(raters.file.with_name("away"))
    again = LabelStore(f"sqlite:///{raters.file}", pictures=raters.file.parent)
    with pytest.raises(StorageError, match=r"is missing or empty, and labels\.sqlite-wal is there"):
        given_answers(again, raters.task.key)
    assert not raters.file.exists()


def test_what_is_removed_between_the_commit_and_its_answer_is_not_acknowledged(raters, monkeypatch):
    from bias_core.labels.label_store import LabelFile

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


@pytest.mark.parametrize("where", ["database", "log"])
def test_a_full_disk_is_said_and_answers_go_on_when_there_is_room(raters, where):
    sizes = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = raters.file.stat().st_size
    room = size + 60_000 if where == "log" else size // 2  # for a few more answers, or for some pages of the database
    statuses, left = [], None
    try:
        with snapshot(raters) if where == "log" else nullcontext():
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, sizes[1]))
            for _ in range(6):
                status, left = raters.answer(left)
                statuses.append(status)
                left = None if status == 200 else left
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, sizes)
    assert statuses[0] == (200 if where == "log" else 503)
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


N_RATERS, LOCKED_SECONDS = 20, 6.0


async def send_until_kept(client, code, body, waits):
    """Send an answer as the page does: again after the seconds that the server names."""
    while True:
        begun = time.monotonic()
        reply = await client.post("/label/answer", headers={"x-rater-code": code}, json=body)
        waits.append(time.monotonic() - begun)
        if reply.status_code == 200:
            return
        assert (reply.status_code, "send it again" in reply.json()["error"]) == (503, True)
        await asyncio.sleep(float(reply.headers["retry-after"]))


async def send_while_locked(door, file, bodies, waits):
    transport = httpx.ASGITransport(Starlette(routes=door.routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        with closing(sqlite3.connect(file, isolation_level=None)) as program:
            program.execute("BEGIN EXCLUSIVE")
            everyone = asyncio.gather(*(send_until_kept(client, *sent, waits) for sent in bodies.items()))
            await asyncio.sleep(LOCKED_SECONDS)
        await everyone


@pytest.mark.parametrize("state", ["open", "not open yet", "without a log"])
def test_raters_at_a_locked_database_are_told_in_time_and_keep_every_answer(fakes, tmp_path, monkeypatch, state):
    if state == "without a log":
        monkeypatch.setattr("bias_core.store.files.file_system", lambda _path: "nfs4")
    store, file = fakes.labels, fakes.settings.data_dir / "labels.sqlite"
    task = open_task(store, tmp_path / "originals", 3, raters_per_item=N_RATERS)
    codes = [join(store, task.join_code).code for _ in range(N_RATERS)]
    bodies = {code: answer_to(vars(next_item(store, code))) for code in codes}
    if state == "not open yet":
        store.close()

    def count_transactions():
        with closing(sqlite3.connect(file)) as database:
            return database.execute("PRAGMA user_version").fetchone()[0]

    before, waits = count_transactions(), []
    asyncio.run(send_while_locked(LabelDoor(fakes), file, bodies, waits))
    p99 = np.percentile(waits, 99)
    print(f"{len(waits)} requests of {N_RATERS} raters at a locked database, {state}: 99th percentile {p99:.2f} s")
    assert p99 < 3
    with store.read() as connection:
        kept = connection.execute(select(answers.c.client_id)).scalars().all()
    assert sorted(kept) == sorted(body["id"] for body in bodies.values())
    assert count_transactions() - before <= 4
