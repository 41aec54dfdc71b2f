"""Runs on record: written whole, resumable, and protecting their pictures."""

import json
import time

import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.manifests import STALE_SECONDS, Manifest, ManifestStore
from bias_core.types import ImageRow


def manifest(run_id: str = "abc123", **changes) -> Manifest:
    rows = tuple(ImageRow(prompt="a médecin", seed=seed, model="m", group="concept") for seed in range(3))
    values = {"study": "explore", "session": "anna", "title": "t", "settings": {"seed": 0}, "rows": rows}
    return Manifest(id=run_id, **(values | changes))


@pytest.fixture
def store(tmp_path):
    return ManifestStore(tmp_path / "runs")


def test_it_comes_back_as_it_was(store):
    saved = store.save(manifest())
    assert store.get("abc123") == saved


def test_running_again_keeps_the_mark_and_the_birthday(store):
    first = store.save(manifest())
    store.keep("abc123")
    again = store.save(manifest(status="finished"))
    assert again.is_kept
    assert json.loads(store.path("abc123").read_text())["kept"]  # the name that files have had from the beginning
    assert again.created == first.created
    assert store.get("abc123").status == "finished"


def test_visitors_see_their_own_runs_newest_first(store):
    store.save(manifest("a1"))
    store.save(manifest("b1", session="bert"))
    store.save(manifest("a2"))
    assert [run.id for run in store.list("anna")] == ["a2", "a1"]
    assert [run.id for run in store.list("bert")] == ["b1"]
    assert len(store.list()) == 3


def test_kept_runs_and_runs_at_work_protect_their_pictures(store):
    other = tuple(ImageRow(prompt="x", seed=seed, model="m") for seed in range(2))
    store.save(manifest("kept", status="finished", is_kept=True))
    store.save(manifest("done", status="finished", rows=other))
    assert store.protected_ids() == {row.id for row in manifest().rows}
    store.save(manifest("done", status="running", rows=other))
    assert {row.id for row in other} <= store.protected_ids()


def test_a_run_that_died_long_ago_protects_nothing(store, monkeypatch):
    store.save(manifest())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + STALE_SECONDS + 1)
    assert store.protected_ids() == set()


def test_deleting_and_unreadable_files(store):
    store.save(manifest())
    store.delete("abc123")
    store.delete("abc123")
    with pytest.raises(StorageError, match="no run 'abc123'"):
        store.get("abc123")
    store.save(manifest())
    (store.folder / "abc123.json").write_text('{"id": "abc')
    assert store.find("abc123") is None
    assert store.list() == []


@pytest.mark.parametrize("run_id", ["../secret", "", "a/b", "a.b"])
def test_an_id_is_never_a_path(store, run_id):
    for act in (store.find, store.delete, store.keep):
        with pytest.raises(InvalidInput, match="letters and digits"):
            act(run_id)
