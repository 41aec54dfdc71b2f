"""Runs on record: written whole, resumable, protecting their pictures; every folder stays below its limit."""

import json
import os
import time

import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.store import manifests
from bias_core.store.images import ImageStore
from bias_core.store.manifests import STALE_SECONDS, Manifest, ManifestStore, make_room
from bias_core.types import ImageRow


def manifest(run_id: str = "abc123", **changes) -> Manifest:
    rows = tuple(ImageRow(prompt="a médecin", seed=seed, model="m", group="concept") for seed in range(3))
    values = {"study": "explore", "session": "anna", "title": "t", "settings": {"seed": 0}, "rows": rows}
    return Manifest(id=run_id, **(values | changes))


@pytest.fixture
def store(tmp_path):
    return ManifestStore(tmp_path / "runs")


def test_it_comes_back_as_it_was_and_running_again_keeps_the_mark_and_the_birthday(store):
    saved = store.save(manifest())
    assert store.get("abc123") == saved
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


def test_a_list_reads_no_rows(store):
    saved = store.save(manifest(title='a title with ,"rows":[ in it'))
    text = store.path("abc123").read_text()
    store.path("abc123").write_text(text[: text.rindex('"rows"') + 10])
    assert store.find("abc123") is None
    (head,) = store.list("anna")
    assert (head.title, head.image_ids) == (saved.title, tuple(row.id for row in saved.rows))
    assert (head.models, head.conditions) == (("m",), ("",))


def test_a_table_with_rows_in_the_design_is_not_taken_for_the_rows(store):
    store.save(manifest(design={"data": {"shares": {"name": "men", "rows": [[1, 2]]}, "rows": [3]}}))
    assert [run.id for run in store.list()] == ["abc123"]
    store.describe("abc123", name="mine")
    assert store.get("abc123").rows == manifest().rows
    assert store.head("abc123").name == "mine"


def test_a_file_without_blanks_is_listed_and_changed(store):
    store.save(manifest())
    whole = store.list()
    values = json.loads(store.path("abc123").read_text())
    store.path("abc123").write_text(json.dumps(values, separators=(",", ":")))
    assert store.list("anna") == whole == store.list()
    assert store.list("ann") == []
    store.describe("abc123", name="mine")
    assert (store.get("abc123").name, store.get("abc123").rows) == ("mine", manifest().rows)


@pytest.mark.parametrize("change", [
    lambda store: store.describe("abc123", name='a ,"rows":[ b'),
    lambda store: store.keep("abc123"),
    lambda store: store.add_label_task("abc123", "task1"),
])  # fmt: skip
def test_a_change_of_the_head_leaves_the_rows_byte_by_byte(store, change):
    saved = store.save(manifest())
    before = store.path("abc123").read_text().partition(', "rows": ')[2]
    change(store)
    text = store.path("abc123").read_text()
    assert text.endswith(f', "rows": {before}')
    changed = store.get("abc123")
    assert changed.rows == saved.rows
    assert (changed.name, changed.is_kept, changed.label_tasks) in {
        ('a ,"rows":[ b', False, ()), ("", True, ()), ("", True, ("task1",)),
    }  # fmt: skip
    assert store.list("anna") == [store.head("abc123")]


def test_a_run_that_is_gone_or_half_written_is_not_changed(store):
    store.save(manifest())
    half = store.path("abc123").read_text()[:-9]
    store.path("abc123").write_text(half)
    for run_id in ("abc123", "other1"):  # the other was never there, or another process deleted it
        with pytest.raises(StorageError, match="no run"):
            store.describe(run_id, name="mine")
    assert store.path("abc123").read_text() == half
    assert not store.path("other1").exists()


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


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "_LEAST", 2500)
    return tmp_path


def tidied(data, limit=0):
    return make_room(data, limit, ImageStore(data / "images"), ManifestStore(data / "runs"))


def written(path, age, size=1000, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "x" * (size - len(text)))
    os.utime(path, (1000 - age, 1000 - age))


def runs(data, **status):
    store = ManifestStore(data / "runs")
    for age, (run_id, kind) in enumerate(status.items()):
        made = Manifest(
            id=run_id, study="s", session="v", title="t" * 500, settings={}, rows=(),
            status="running" if kind == "running" else "finished", is_kept=kind == "kept",
        )  # fmt: skip
        store.save(made)
        os.utime(data / "runs" / f"{run_id}.json", (age, age))


def left(data, folder):
    return sorted(path.name for path in (data / folder).rglob("*.*"))


def test_runs_stay_below_their_limit_and_take_their_reports_along(data):
    runs(data, a="kept", b="running", c="finished", d="finished", e="finished")
    for name in "abcde":
        written(data / "reports" / f"{name}.json", 0, size=1)
    tidied(data)
    # Each has some 800 bytes of 2,500 in all: the two oldest that may go are c and d.
    assert left(data, "runs") == ["a.json", "b.json", "e.json"]
    assert left(data, "reports") == ["a.json", "b.json", "e.json"]


def test_reports_stay_below_their_limit_but_for_kept_ones(data):
    runs(data, a="kept", b="finished")
    for age, name in enumerate(("new", "middle", "old", "a")):
        written(data / "reports" / f"{name}.json", age)
    tidied(data)
    assert left(data, "reports") == ["a.json", "new.json"]


def test_what_is_derived_stays_below_its_limit_but_for_what_kept_reports_show(data):
    runs(data, a="kept", b="finished")
    shown = json.dumps({"path": "derived/1.png", "other": "traces/ab/x-3.png"})
    written(data / "reports" / "a.json", 0, text=shown)
    written(data / "reports" / "b.json", 0, text=json.dumps({"path": "derived/2.png"}))
    for age, name in enumerate(("derived/3.png", "derived/2.png", "derived/1.png", "traces/ab/x-3.png")):
        written(data / name, age)
    tidied(data)
    assert left(data, "derived") == ["1.png"]
    assert left(data, "traces") == ["x-3.png"]


def test_below_the_limits_nothing_goes(data):
    runs(data, a="finished")
    written(data / "derived" / "1.png", 5)
    assert tidied(data, limit=100_000) == []
    assert left(data, "runs") == ["a.json"]
    assert left(data, "derived") == ["1.png"]
