"""Ray gives the ids and the bytes of the local engine, survives its dead, and leaves nothing behind."""

import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from bias_core.engine.local import run_rows
from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable, StorageError
from bias_core.services import draw_with_ray, worker_model
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow
from tests import shared
from tests.engine.noise import Noise, build, rows

ROOT = Path(__file__).parent.parent.parent
fakes = shared.fake_services


@pytest.fixture(scope="module")
def engine():
    """Two workers on a small cluster of two processors; every process of it ends with the module."""
    if find_spec("ray") is None:
        pytest.skip('NOT TESTED: the Ray engine, for want of Ray: pip install "ray[data]"')
    from bias_core.engine.ray import RayEngine

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


def files(store):
    return {path.name: path.read_bytes() for path in store.folder.glob("??/*.png")}


whole_load = pytest.mark.skipif(
    float(os.environ.get("BIAS_TEST_LOAD", "0.25")) < 1,
    reason="a cluster or model more than CI has time for: BIAS_TEST_LOAD=1 runs it",
)


def test_two_workers_draw_the_ids_and_bytes_of_the_local_engine(engine, tmp_path):
    local, two = (ImageStore(tmp_path / name) for name in ("local", "two"))
    wanted = rows(8) + rows(9, "slow")
    list(run_rows(wanted, Noise(), local, lock=threading.Lock()))
    events = run(engine, wanted, two)
    assert files(local) == files(two)
    drawn = [image for event in events for image in event.images]
    assert sorted(image.row.id for image in drawn) == sorted(row.id for row in wanted)
    assert sorted(len(event.images) for event in events if event.images) == [2, 3, 3, 3, 3, 3]
    assert all(image.path == two.path(image.row.id) for image in drawn)
    # steps and the time left
    assert {event.n_steps for event in events if event.step} == {5}
    assert any(0 < event.begun <= 6 for event in events)
    assert math.isnan(events[0].seconds_left)
    assert (events[-1].done, events[-1].total, events[-1].seconds_left) == (17, 17, 0)
    assert (engine.n_workers(), engine.place()) == (2, "Ray worker, 1 processors")


def test_a_worker_killed_in_the_middle_costs_only_its_batch(engine, store, tmp_path):
    killed = tmp_path / "killed"
    list(run_rows(rows(4), Noise(), store, lock=threading.Lock()))
    before = {path.name: path.stat().st_ino for path in store.folder.glob("??/*.png")}
    wanted = rows(6) + rows(1, f"deadly once: {killed}") + rows(6, "others")
    n_bytes = store.n_bytes
    first, *_, last = events = run(engine, wanted, store)
    assert killed.exists()  # written by the worker with its last breath
    assert (first.done, first.reused, last.done, last.total) == (4, True, 13, 13)
    drawn = [image.row.id for event in events for image in event.images]
    assert sorted(drawn) == sorted(row.id for row in wanted)
    assert len(files(store)) == len(wanted)
    assert before.items() <= {path.name: path.stat().st_ino for path in store.folder.glob("??/*.png")}.items()
    assert store.n_bytes == sum(map(len, files(store).values())) > n_bytes
    assert len(run(engine, wanted, store)) == 1  # nothing is missing: no worker starts


def test_a_batch_that_kills_every_worker_ends_the_run_and_costs_nothing_else(engine, store, monkeypatch):
    monkeypatch.setattr("bias_core.engine.ray._MOST_TRIES", 2)
    with pytest.raises(ModelUnavailable, match="2 workers died on the same batch"):
        run(with_one_worker(engine), rows(3) + rows(1, "deadly"), store)
    assert sorted(files(store)) == sorted(f"{row.id}.png" for row in rows(3))


def test_errors_of_the_model_reach_the_reader(engine, store):
    with pytest.raises(ModelUnavailable, match="weights are gone"):
        run(with_one_worker(engine), rows(3, "broken"), store)


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


def test_a_reader_that_goes_away_stops_the_drawing(engine, store):
    events = with_one_worker(engine).run(rows(300, "slow"), Noise(), store, lock=threading.Lock())
    while not next(events).images:
        pass
    events.close()
    kept = len(files(store))
    time.sleep(1)
    assert len(files(store)) == kept <= 9
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bias-engine")]


DRIVER = """
import sys, threading
from pathlib import Path
from bias_core.engine.ray import RayEngine
from bias_core.store.images import ImageStore
from tests.engine.noise import Noise, build, rows
engine = RayEngine(build, workers=1, cluster={"num_cpus": 1})
list(engine.run(rows(60, "slow"), Noise(), ImageStore(Path(sys.argv[1])), lock=threading.Lock()))
"""


@whole_load
def test_a_killed_driver_takes_its_cluster_along_and_the_next_one_finishes(engine, store):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(store.folder)], cwd=ROOT)
    deadline = time.monotonic() + 60
    while len(files(store)) < 3:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster = psutil.Process(driver.pid).children(recursive=True)
    assert [process for process in cluster if "MapWorker" in process.name()]
    driver.kill()
    driver.wait()
    agents = [process for process in cluster if "Agent" in process.name()]
    _, alive = psutil.wait_procs(set(cluster) - set(agents), timeout=30)
    assert not alive
    for process in agents:  # two small ones of Ray itself would stay for a minute
        process.kill()
    before = {path.name: path.stat().st_ino for path in store.folder.glob("??/*.png")}
    assert 3 <= len(before) < 60
    wanted = rows(60, "slow")[: len(before) + 4]
    events = run(with_one_worker(engine), wanted, store)
    assert (events[0].done, events[-1].done) == (len(before), len(before) + 4)
    after = {path.name: path.stat().st_ino for path in store.folder.glob("??/*.png")}
    assert before.items() <= after.items()
    assert len(after) == len(wanted)


@whole_load
def test_one_worker_draws_the_bytes_of_the_calibration_model(engine, services):
    import torch

    info = services.model_info("calibration-diffusion")
    first = ImageRow(
        prompt="a photo of a doctor", seed=0, model=info.id, revision=services.revision(info.id),
        num_inference_steps=2, guidance_scale=1.0, width=info.width, height=info.height,
    )  # fmt: skip
    wanted = [replace(first, condition=name, seed=k) for name in ("fair", "published") for k in range(5)]
    list(services.draw(wanted))
    elsewhere = ImageStore(services.settings.data_dir / "elsewhere")
    ray_engine = type(engine)(partial(worker_model, services.settings, torch.get_num_threads()), workers=1)
    list(ray_engine.run(wanted, services.text_to_image(info.id), elsewhere, lock=services.model_lock))
    assert files(elsewhere) == files(services.images)


def test_a_worker_with_other_weights_refuses(fakes):
    row = ImageRow(prompt="p", seed=0, model="calibration-renderer", revision="old")
    with pytest.raises(ModelUnavailable, match="all machines need the same weights"):
        worker_model(fakes.settings, 1, row)


def test_a_store_that_is_not_shared_is_said(store):
    image = store.add([next(iter(Noise().generate(rows(1))))])[0]
    with pytest.raises(StorageError, match="share BIAS_DATA_DIR"):
        ImageStore(store.folder.parent / "elsewhere").adopt(image)


def test_without_ray_the_error_has_the_command(fakes, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r'pip install "ray\[data\]"'):
        draw_with_ray(fakes)


def test_an_impossible_number_of_workers_is_refused(engine):
    with pytest.raises(InvalidInput, match="-1"):
        type(engine)(build, workers=-1)
