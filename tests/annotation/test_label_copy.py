"""Copies at a hub's dataset: what is in them, what goes again, and a hub that cannot be reached."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from bias_core.annotation.collected import given_answers
from bias_core.annotation.label_copy import LabelCopy
from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.rating import delete_my_answers, join, next_item, skip, undo
from bias_core.annotation.schema import raters
from bias_core.annotation.task_owner import delete_task, exclude_rater
from bias_core.services import Services
from bias_core.settings import Settings
from tests.annotation.raters import CHOICES, new_id, on_both, open_task, say


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


def answered(store, task, n):
    """The code of a rater with so many answers."""
    code = join(store, task.join_code).code
    for _ in range(n):
        say(store, code, next_item(store, code), duration_ms=700)
    return code


@on_both
def test_the_copy_has_the_answers_that_hold_and_what_is_deleted_goes_there_too(store, hub, copying, tmp_path):
    task = open_task(store, tmp_path / "originals", 6)
    ours, theirs, excluded = (answered(store, task, n) for n in (3, 2, 1))
    with store.read() as connection:
        *_, name = connection.scalars(select(raters.c.name).order_by(raters.c.id))
    exclude_rater(store, task.key, name)
    copying()
    assert hub.made == {"repo_id": "someone/labels", "repo_type": "dataset", "private": True, "exist_ok": True}
    assert [line["excluded"] for line in hub.lines(task)] == [False] * 5 + [True]
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


def test_no_code_and_no_secret_is_uploaded(store, hub, copying, tmp_path):
    task = open_task(store, tmp_path / "originals", 2)
    code = answered(store, task, 1)
    copying()
    assert len(hub.lines(task)) == 1
    for secret in (code, code.replace("-", ""), task.key.secret, task.join_code, next_item(store, code).item):
        assert not [name for name, text in hub.files.items() if secret in name + text]


def test_after_a_lost_disk_a_new_database_leaves_the_earlier_copy_alone(make_store, hub, tmp_path):
    store = make_store("sqlite")
    task = open_task(store, tmp_path / "originals", 2)
    answered(store, task, 2)
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
        """Of a kind that the hub's library alone knows."""

    hub.errors = [HubsOwnError("no network")] * 3
    copy = started(store, tmp_path, hub, minutes=0.002)
    task = open_task(store, tmp_path / "originals", 2)
    answered(store, task, 1)
    until(lambda: copy.last_error == "no network" or bool(hub.files))
    until(lambda: f"labels/{task.key.task_id}.jsonl" in hub.files and len(hub.lines(task)) == 1)
    until(lambda: copy.last_error == "")
    hub.errors = [ConnectionError("no route to the hub")] * 3  # of an upload
    answered(store, task, 1)
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
    answered(services.labels, task, 1)
    services.close()
    assert copy.last_error == ""
    assert len(hub.lines(task)) == 1
    assert Services(Settings(data_dir=tmp_path / "data")).label_copy() is None
