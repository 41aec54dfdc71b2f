"""The engine on a real, simple generator: reuse, resume, stop, and taking turns."""

import math
import threading
import time

import pytest

from bias_core.engine.local import run_rows
from bias_core.errors import Cancelled, ModelUnavailable, StorageError
from bias_core.store.images import ImageStore
from tests.engine.noise import Noise, picture, rows


@pytest.fixture
def store(tmp_path):
    return ImageStore(tmp_path / "images")


def run(wanted, model, store, **options):
    return list(run_rows(wanted, model, store, lock=options.pop("lock", threading.Lock()), **options))


def test_every_row_gets_its_picture_in_batches(store):
    model = Noise()
    events = run(rows(7), model, store)
    assert model.drawn == list(range(7))
    assert [len(event.images) for event in events if event.images] == [3, 3, 1]
    assert (events[-1].done, events[-1].total) == (7, 7)
    assert [image.row for event in events for image in event.images] == rows(7)


def test_what_is_stored_is_not_drawn_again(store):
    run(rows(4), Noise(), store)
    model = Noise()
    events = run(rows(6), model, store)
    assert model.drawn == [4, 5]
    assert events[0].reused
    assert len(events[0].images) == 4
    assert not events[-1].reused


def test_one_picture_for_two_equal_rows(store):
    model = Noise()
    events = run(rows(2) + rows(2), model, store)
    assert model.drawn == [0, 1]
    assert events[-1].total == 2


def test_a_deleted_or_truncated_picture_is_drawn_again_with_the_same_pixels(store):
    run(rows(3), Noise(), store)
    paths = [store.path(row.id) for row in rows(3)]
    originals = [path.read_bytes() for path in paths]
    paths[0].unlink()
    paths[2].write_bytes(originals[2][:50])
    model = Noise()
    run(rows(3), model, store)
    assert model.drawn == [0, 2]
    assert [path.read_bytes() for path in paths] == originals


def test_stop_comes_within_one_step_and_keeps_what_is_finished(store):
    model = Noise()
    events = run_rows(rows(9), model, store, lock=threading.Lock(), cancelled=lambda: model.n_steps_done == 8)
    with pytest.raises(Cancelled):
        list(events)
    assert model.n_steps_done == 8
    assert sorted(store.find({row.id: row for row in rows(9)})) == sorted(row.id for row in rows(3))
    resumed = Noise()
    run(rows(9), resumed, store)
    assert resumed.drawn == [3, 4, 5, 6, 7, 8]


def test_a_reader_that_goes_away_stops_the_drawing(store):
    model, lock = Noise(), threading.Lock()
    events = run_rows(rows(300), model, store, lock=lock)
    while not next(events).images:
        pass
    events.close()
    n_steps_done = model.n_steps_done
    assert not lock.locked()
    assert n_steps_done < 300 / 3 * 5
    assert threading.active_count() == len(threading.enumerate())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bias-engine")]


def test_errors_of_the_model_reach_the_reader_and_free_the_lock(store):
    class Broken(Noise):
        def generate(self, rows, *, on_step=None):
            raise ModelUnavailable("weights are gone")

    lock = threading.Lock()
    with pytest.raises(ModelUnavailable, match="weights are gone"):
        run(rows(2), Broken(), store, lock=lock)
    assert not lock.locked()


def test_a_full_disk_reaches_the_reader(store):
    store.folder.parent.joinpath("images").write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        run(rows(2), Noise(), store)


def test_two_visitors_take_turns_and_one_can_stop_while_waiting(store):
    lock = threading.Lock()
    with lock, pytest.raises(Cancelled):
        run(rows(2), Noise(), store, lock=lock, cancelled=lambda: True)


def test_time_left_is_unknown_at_first_and_nothing_at_the_end(store):
    events = run(rows(6), Noise(), store)
    assert math.isnan(events[0].seconds_left)
    assert events[-1].seconds_left == 0
    assert all(event.seconds_left >= 0 for event in events[1:])


class Sketches(Noise):
    """Noise that shows what forms; a look takes a while where it is asked to."""

    seconds = 0.0

    def __init__(self, n_steps=5):
        super().__init__()
        self.n_steps, self.n_looks, self.rows = n_steps, 0, []

    def generate(self, rows, *, on_step=None):
        self.rows = rows
        yield from super().generate(rows, on_step=on_step)

    def forming(self):
        self.n_looks += 1
        time.sleep(self.seconds)
        return {row.id: picture(row) for row in self.rows}


def test_what_forms_is_shown_from_the_first_step_on_and_never_stored(store):
    events = run(rows(2, "slow"), Sketches(), store)
    shown = [event for event in events if event.forming]
    assert [event.step for event in shown] == [
        1,
        4,
    ]  # 0.3 s apart, a step takes 0.1 s; the last step shows the pictures
    assert all(list(event.forming) == [row.id for row in rows(2, "slow")] for event in shown)
    assert not any(event.images for event in shown)
    assert len(list(store.folder.rglob("*"))) == len(list(store.folder.rglob("*.png"))) * 2
    assert not any(event.forming for event in run(rows(2), Sketches(), store) if event.reused)
    assert not any(event.forming for event in run(rows(2, "plain"), Noise(), store))


def test_looks_that_take_long_are_taken_so_seldom_that_they_hardly_slow_drawing(store):
    model = Sketches(n_steps=12)
    model.seconds = 0.1
    began = time.monotonic()
    run(rows(6, "slow"), model, store)
    # 24 steps of a tenth of a second: a look at the first and after 0.3 s; from then on one in 2.4 s.
    assert model.n_looks <= 2 + (time.monotonic() - began) / 2.4
