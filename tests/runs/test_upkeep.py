"""Every folder stays below its limit, and nothing of a run that is kept or at work goes."""

import json
import os

import pytest

from bias_core.store import manifests
from bias_core.store.images import ImageStore
from bias_core.store.manifests import Manifest, ManifestStore, make_room


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "_LEAST", 2500)
    return tmp_path


def tidied(data, limit=0):
    manifests = ManifestStore(data / "runs")
    return make_room(data, limit, ImageStore(data / "images"), manifests)


def written(path, age, size=1000, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "x" * (size - len(text)))
    os.utime(path, (1000 - age, 1000 - age))


def runs(data, **status):
    store = ManifestStore(data / "runs")
    for age, (run_id, kind) in enumerate(status.items()):
        manifest = Manifest(
            id=run_id, study="s", session="v", title="t" * 600, settings={}, rows=(),
            status="running" if kind == "running" else "finished", is_kept=kind == "kept",
        )  # fmt: skip
        store.save(manifest)
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
