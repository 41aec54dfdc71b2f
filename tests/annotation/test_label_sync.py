from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bias_core.annotation import label_sync
from bias_core.annotation.collected import given_answers
from bias_core.annotation.label_sync import LabelSync, hub_sync
from bias_core.annotation.rating import delete_my_answers, give_answer, join, next_item, skip, undo
from bias_core.errors import StorageError
from tests.annotation.raters import CHOICES, new_id, open_task

if TYPE_CHECKING:
    from bias_core.annotation.label_store import LabelStore


class Hub:
    """In place of a CommitScheduler: remembers what it was asked to upload, and fails when told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.uploads: list[str] = []
        self.error: Exception | None = None
        self.stopped = False

    def trigger(self) -> Future[Any]:
        done: Future[Any] = Future()
        if self.error is not None:
            done.set_exception(self.error)
        else:
            with self.lock:
                self.uploads.append("".join(path.read_text() for path in sorted(self.folder.glob("*.jsonl"))))
            done.set_result(None)
        return done

    def stop(self) -> None:
        self.stopped = True

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What is there after the last upload."""
        return [json.loads(line) for line in self.uploads[-1].splitlines()]


@pytest.fixture
def hubs() -> list[Hub]:
    return []


@pytest.fixture
def sync(store: LabelStore, tmp_path: Path, hubs: list[Hub]) -> LabelSync:
    return new_sync(store, tmp_path, hubs)


def new_sync(store: LabelStore, tmp_path: Path, hubs: list[Hub]) -> LabelSync:
    def schedule(folder: Path) -> Hub:
        hubs.append(Hub(folder))
        return hubs[-1]

    return LabelSync(store, tmp_path / "sync", schedule)


def merged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers that hold, as the docstring of label_sync says: once, neither withdrawn nor deleted."""
    by_id = {line["id"]: line for line in lines}
    withdrawn = {line.get("withdraws") for line in by_id.values()}
    gone = {line["rater"] for line in by_id.values() if line["kind"] == "delete"}
    held = [line for line in by_id.values() if line["kind"] == "answer" and line["rater"] not in gone]
    return [line for line in held if line["id"] not in withdrawn]


def said(lines: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((line["image_id"], line["rater"], line["seconds"]) for line in lines)


def test_what_is_uploaded_gives_the_answers_that_hold(
    store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path
) -> None:
    task = open_task(store, tmp_path / "originals", 6)
    ours, theirs = (join(store, task.join_code).code for _ in range(2))
    for code in (ours, theirs):
        turn = next_item(store, code)
        for _ in range(3):
            turn = give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES, duration_ms=700)
    assert sync.flush()
    undo(store, ours, answer_id=new_id())
    skip(store, ours, answer_id=new_id(), item=next_item(store, ours).item)
    delete_my_answers(store, theirs)
    assert sync.flush()
    kept = given_answers(store, task.key)
    assert len(kept) == 2
    assert said(merged(hubs[0].lines)) == sorted((one.item.image_id, one.rater, one.seconds) for one in kept)
    assert [line["kind"] for line in hubs[0].lines] == ["answer"] * 6 + ["undo", "skip", "delete"]
    assert hubs[0].uploads[1].startswith(hubs[0].uploads[0])  # only ever added to
    assert sync.flush()
    assert hubs[0].uploads[2] == hubs[0].uploads[1]  # and nothing twice


def test_no_code_and_no_secret_is_uploaded(store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path) -> None:
    task = open_task(store, tmp_path / "originals", 2)
    code = join(store, task.join_code).code
    turn = next_item(store, code)
    give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    sync.flush()
    for secret in (code, code.replace("-", ""), task.key.secret, task.join_code, turn.item):
        assert secret not in hubs[0].uploads[-1]


def test_each_process_has_a_file_of_its_own_and_copies_what_no_other_did(
    store: LabelStore, hubs: list[Hub], tmp_path: Path
) -> None:
    task = open_task(store, tmp_path / "originals", 4)
    code = join(store, task.join_code).code
    turn = next_item(store, code)
    for _ in range(2):
        turn = give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
        assert new_sync(store, tmp_path, hubs).flush()
    assert len(list((tmp_path / "sync").glob("labels-*.jsonl"))) == 2
    assert len(hubs[-1].lines) == len(merged(hubs[-1].lines)) == 2


def test_an_upload_that_fails_is_said_and_made_up_for(
    store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path
) -> None:
    task = open_task(store, tmp_path / "originals", 4)
    code = join(store, task.join_code).code
    sync.flush()
    turn = next_item(store, code)
    give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    hubs[0].error = ConnectionError("no route to the hub")
    assert not sync.flush()
    assert sync.last_error == "no route to the hub"
    assert len(given_answers(store, task.key)) == 1  # the answer itself is safe
    hubs[0].error = None
    assert sync.flush()
    assert sync.last_error == ""
    assert len(hubs[0].lines) == 1


def test_a_line_that_could_not_be_marked_is_written_again_and_counted_once(
    store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = open_task(store, tmp_path / "originals", 4)
    code = join(store, task.join_code).code
    turn = next_item(store, code)
    give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    real = sync._append

    def write_and_die(*arguments: Any) -> None:
        real(*arguments)
        raise StorageError("killed before the mark")

    with monkeypatch.context() as dying:
        dying.setattr(sync, "_append", write_and_die)
        assert not sync.flush()
    assert sync.flush()
    assert len(hubs[0].lines) == 2
    assert len(merged(hubs[0].lines)) == 1


def test_closing_uploads_the_last_answers(store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path) -> None:
    task = open_task(store, tmp_path / "originals", 4)
    code = join(store, task.join_code).code
    sync.start(minutes=60)
    turn = next_item(store, code)
    give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    sync.close()
    assert len(hubs[0].lines) == 1
    assert hubs[0].stopped


def test_it_goes_by_the_clock(store: LabelStore, sync: LabelSync, hubs: list[Hub]) -> None:
    sync.start(minutes=0.001)
    waiting = threading.Event()
    for _ in range(500):
        if hubs and len(hubs[0].uploads) >= 2:
            break
        waiting.wait(0.02)
    sync.close()
    assert len(hubs[0].uploads) >= 2


def test_more_than_one_portion_is_copied(
    store: LabelStore, sync: LabelSync, hubs: list[Hub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_sync, "_NEW", label_sync._NEW.limit(2))
    task = open_task(store, tmp_path / "originals", 5)
    code = join(store, task.join_code).code
    turn = next_item(store, code)
    while turn.item:
        turn = give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    assert sync.flush()
    assert len(hubs[0].lines) == 5


def test_a_hub_that_cannot_be_reached_keeps_nobody_from_answering(
    store: LabelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    class HubsOwnError(Exception):
        """Of a kind that nobody but the hub's library knows."""

    def refuse(**_settings: Any) -> None:
        raise HubsOwnError("no network")

    monkeypatch.setattr(huggingface_hub, "CommitScheduler", refuse)
    running = hub_sync(store, tmp_path / "sync", repo="someone/labels", minutes=60)
    assert not running.flush()
    assert running.last_error == "no network"
    running.close()
