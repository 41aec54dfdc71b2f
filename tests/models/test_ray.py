"""Ray gives the ids and the bytes of the local engine, survives its dead, and leaves nothing behind."""

import math
import pickle
import sys
import threading
import time
from importlib.util import find_spec

import psutil
import pytest

from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable, StorageError
from bias_core.models.engines import run_rows
from bias_core.store.images import ImageStore
from bias_core.study_services import draw_with_ray, worker_model
from bias_core.types import ImageRow
from tests import shared
from tests.models.noise import Noise, build, rows

fakes = shared.fake_services


@pytest.fixture(scope="module")
def engine():
    """Two workers on a small cluster of two processors; every process of it ends with the module."""
    if find_spec("ray") is None:
        pytest.skip('NOT TESTED: the Ray engine, for want of Ray: pip install "ray[data]"')
    from bias_core.models.ray_engine import RayEngine

    others = set(psutil.Process().children(recursive=True))  # of tests before: a database, an app
    built = RayEngine(build, workers=2, cluster={"num_cpus": 2, "object_store_memory": 80 * 1024**2})
    yield built
    children = set(psutil.Process().children(recursive=True)) - others
    assert children
    built.close()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


@pytest.fixture
def store(tmp_path):
    return ImageStore(tmp_path / "images")


def run(engine, wanted, store, **options):
    return list(engine.run(wanted, Noise(), store, lock=threading.Lock(), **options))


def with_one_worker(engine):
    return type(engine)(build, workers=1)


@pytest.fixture
def worker_here(engine, monkeypatch):
    """One worker, in this process, which asks the board on the cluster whether to go on."""
    from bias_core.models.ray_engine import _Worker

    def drawn_here(_, batches, folder, board):
        for number, batch in enumerate(batches):
            yield from _Worker(build, folder, board)({"number": [number], "rows": [pickle.dumps(batch)]})["outcome"]

    monkeypatch.setattr(type(engine), "_map", drawn_here)
    return with_one_worker(engine)


def files(store):
    return {path.name: path.read_bytes() for path in store.folder.glob("??/*.png")}


def test_two_workers_one_of_them_killed_draw_the_ids_and_bytes_of_the_local_engine(engine, tmp_path):
    local, two = (ImageStore(tmp_path / name) for name in ("local", "two"))
    (killed := tmp_path / "killed").touch()  # so that the local engine lives
    wanted = rows(8) + rows(1, f"deadly once: {killed}") + rows(9, "slow")
    list(run_rows(wanted, Noise(), local, lock=threading.Lock()))
    killed.unlink()
    list(run_rows(rows(4), Noise(), two, lock=threading.Lock()))
    before, n_bytes = {path.name: path.stat().st_ino for path in two.folder.glob("??/*.png")}, two.n_bytes
    first, *_, last = events = run(engine, wanted, two)
    assert killed.exists()  # written by the worker with its last breath
    assert files(local) == files(two)
    drawn = [image for event in events for image in event.images]
    assert sorted(image.row.id for image in drawn) == sorted(row.id for row in wanted)
    assert sorted(len(event.images) for event in events if event.images) == [2, 3, 3, 3, 3, 4]
    assert all(image.path == two.path(image.row.id) for image in drawn)
    assert {event.n_steps for event in events if event.step} == {5}
    assert any(0 < event.begun <= 6 for event in events)
    assert math.isnan(first.seconds_left)
    assert (first.done, first.reused, last.done, last.total, last.seconds_left) == (4, True, 18, 18, 0)
    assert (engine.n_workers(), engine.place()) == (2, "Ray worker, 1 processors")
    assert before.items() <= {path.name: path.stat().st_ino for path in two.folder.glob("??/*.png")}.items()
    assert two.n_bytes == sum(map(len, files(two).values())) > n_bytes
    assert len(run(engine, wanted, two)) == 1  # nothing is missing: no worker starts


def test_a_batch_that_kills_every_worker_ends_the_run_and_costs_nothing_else(engine, store, monkeypatch):
    monkeypatch.setattr("bias_core.models.ray_engine._MOST_TRIES", 1)
    with pytest.raises(ModelUnavailable, match="1 workers died on the same batch"):
        run(with_one_worker(engine), rows(3) + rows(1, "deadly"), store)
    assert sorted(files(store)) == sorted(f"{row.id}.png" for row in rows(3))


def test_errors_of_the_model_reach_the_reader(worker_here, store):
    with pytest.raises(ModelUnavailable, match="weights are gone"):
        run(worker_here, rows(3, "broken"), store)


def test_stop_comes_within_a_step_and_keeps_what_is_finished(engine, store):
    stop = threading.Event()
    events = with_one_worker(engine).run(rows(60, "slow"), Noise(), store, lock=threading.Lock(), cancelled=stop.is_set)
    while not next(events).images:
        pass
    stop.set()
    with pytest.raises(Cancelled):
        list(events)
    assert 3 <= len(files(store)) <= 9
    assert not list(store.folder.glob("??/.*"))


def test_a_reader_that_goes_away_stops_the_drawing(worker_here, store):
    events = worker_here.run(rows(300, "slow"), Noise(), store, lock=threading.Lock())
    while not next(events).images:
        pass
    events.close()
    kept = len(files(store))
    time.sleep(1)
    assert len(files(store)) == kept <= 9
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bias-engine")]


def test_a_worker_with_other_weights_refuses(fakes):
    row = ImageRow(prompt="p", seed=0, model="calibration-renderer", revision="old")
    with pytest.raises(ModelUnavailable, match="all machines need the same weights"):
        worker_model(fakes.settings, 1, row)


def test_a_store_that_is_not_shared_is_said(store):
    image = store.add([next(iter(Noise().generate(rows(1))))])[0]
    with pytest.raises(StorageError, match=r"share one data folder \(BIAS_DATA_DIR\)"):
        ImageStore(store.folder.parent / "elsewhere").adopt(image)


def test_without_ray_the_error_has_the_command(fakes, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r'pip install "ray\[data\]"'):
        draw_with_ray(fakes)


def test_an_impossible_number_of_workers_is_refused(engine):
    with pytest.raises(InvalidInput, match="-1"):
        type(engine)(build, workers=-1)
