"""The engine on a real, simple generator: reuse, resume, stop, taking turns, and how long it takes."""

import math
import threading
import time
from dataclasses import replace

import pytest

from bias_core.errors import Cancelled, ModelUnavailable, StorageError
from bias_core.models import engines
from bias_core.models.engines import LocalEngine, Meter, Rate, RateStore, estimate_cost, run_rows
from bias_core.models.hosted_images import RequestsEngine
from bias_core.models.model_sources import free_bytes
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow
from bias_core.waiting import WorkClock, stoppable
from tests.models import noise
from tests.models.noise import Noise, picture, rows


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
    # the time left is unknown at first and nothing at the end
    assert math.isnan(events[0].seconds_left)
    assert events[-1].seconds_left == 0
    assert all(event.seconds_left >= 0 for event in events[1:])


def test_what_is_stored_or_asked_for_twice_is_not_drawn_again(store):
    run(rows(4), Noise(), store)
    model = Noise()
    events = run(rows(6) + rows(5), model, store)
    assert model.drawn == [4, 5]
    assert events[0].reused
    assert len(events[0].images) == 4
    assert not events[-1].reused
    assert events[-1].total == 6


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


def test_errors_of_the_model_and_a_full_disk_reach_the_reader_and_free_the_lock(store):
    class Broken(Noise):
        def generate(self, rows, *, on_step=None):
            raise ModelUnavailable("weights are gone")

    lock = threading.Lock()
    with pytest.raises(ModelUnavailable, match="weights are gone"):
        run(rows(2), Broken(), store, lock=lock)
    assert not lock.locked()
    # a full disk is no other matter
    store.folder.parent.joinpath("images").write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        run(rows(2), Noise(), store)


def test_two_visitors_take_turns_and_one_can_stop_while_waiting(store):
    lock = threading.Lock()
    with lock, pytest.raises(Cancelled):
        run(rows(2), Noise(), store, lock=lock, cancelled=lambda: True)


@pytest.mark.parametrize("draw", [run_rows, RequestsEngine(2).run])
def test_nothing_more_is_drawn_for_a_paused_run_and_a_stop_ends_the_pause(store, draw):
    model, clock, stop = Noise(), WorkClock(), threading.Event()
    drawing = draw(rows(60, prompt="slow"), model, store, lock=threading.Lock(), cancelled=stop.is_set)
    events = stoppable(drawing, stop.is_set, clock)
    while not next(events).images:
        pass
    with clock.paused():
        time.sleep(0.7)  # what was at work is finished
        n_drawn = len(model.drawn)
        time.sleep(0.7)
        assert len(model.drawn) == n_drawn
    while len(model.drawn) == n_drawn:
        next(events)  # it goes on
    with clock.paused():
        time.sleep(0.7)
        stop.set()
        with pytest.raises(Cancelled):
            list(events)
    assert len(model.drawn) < 60


class Sketches(Noise):
    """Noise that shows what forms; a look takes a while where it is asked to."""

    def __init__(self, n_steps=5, seconds=0.0):
        super().__init__()
        self.n_steps, self.seconds, self.n_looks, self.rows = n_steps, seconds, 0, []

    def generate(self, rows, *, on_step=None):
        self.rows = rows
        yield from super().generate(rows, on_step=on_step)

    def forming(self):
        self.n_looks += 1
        noise.time.sleep(self.seconds)
        return {row.id: picture(row) for row in self.rows}


@pytest.fixture
def only_steps_take_time(monkeypatch):
    """Replaces the clock of the engine and of its model: nothing but a sleep takes time, however busy the machine."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(engines, "time", clock)
    monkeypatch.setattr(noise, "time", clock)


@pytest.mark.usefixtures("only_steps_take_time")
def test_what_forms_is_shown_from_the_first_step_on_and_never_stored(store):
    events = run(rows(2, "slow"), Sketches(), store)
    shown = [event for event in events if event.forming]
    # 0.3 s apart, a step takes 0.1 s; the last step shows the pictures
    assert [event.step for event in shown] == [1, 4]
    assert all(list(event.forming) == [row.id for row in rows(2, "slow")] for event in shown)
    assert not any(event.images for event in shown)
    assert len(list(store.folder.rglob("*"))) == len(list(store.folder.rglob("*.png"))) * 2
    assert not any(event.forming for event in run(rows(2), Sketches(), store) if event.reused)
    assert not any(event.forming for event in run(rows(2, "plain"), Noise(), store))


@pytest.mark.usefixtures("only_steps_take_time")
def test_looks_that_take_long_are_taken_so_seldom_that_they_hardly_slow_drawing(store):
    model = Sketches(n_steps=60, seconds=0.1)
    run(rows(3, "slow"), model, store)
    # 60 steps of a tenth of a second: a look at the first and after 0.3 s; from then on one in 2.5 s.
    assert model.n_looks == 4


ROW = ImageRow(prompt="p", seed=0, model="m", num_inference_steps=20, guidance_scale=1.0)


class SlowToLoad(Noise):
    """Half a second before the first step, then 0.05 s a step of five: 0.25 s a batch of 3."""

    def generate(self, rows, *, on_step=None):
        if not self.n_steps_done:
            time.sleep(0.5)
            self.loaded = time.monotonic()

        def stepped(step, n_steps):
            time.sleep(0.05)
            on_step(step, n_steps)

        yield from super().generate(rows, on_step=stepped)


def draw(model, wanted, store, rates, **options):
    events = LocalEngine("cpu").run(wanted, model, store, lock=threading.Lock(), **options)
    return list(rates.watch(events, wanted[0], LocalEngine("cpu")))


@pytest.fixture
def rates(tmp_path):
    return RateStore(tmp_path / "rates.json")


@pytest.mark.parametrize("n", [3, 9])
def test_loading_is_not_counted_even_in_a_single_batch(rates, store, n):
    model = SlowToLoad()
    draw(model, rows(n), store, rates)
    drawing = time.monotonic() - model.loaded
    rate = rates.find(rows(1)[0], LocalEngine("cpu").place())
    # five steps of 0.05 s for three pictures, counted from the end of the first step; loading would double it
    assert 0.08 < rate.seconds < 1.25 * drawing / n
    assert rate.n == n
    sizes = [path.stat().st_size for path in store.folder.glob("??/*.png")]
    assert rate.n_bytes == pytest.approx(sum(sizes) / n)


def test_what_is_found_in_the_store_says_nothing_of_speed(rates, store):
    draw(Noise(), rows(3), store, RateStore(store.folder / "other.json"))
    draw(Noise(), rows(3), store, rates)
    assert rates.find(rows(1)[0], LocalEngine("cpu").place()) is None


def test_a_stopped_run_is_remembered_as_far_as_it_came(rates, store):
    model = Noise()
    with pytest.raises(Cancelled):
        draw(model, rows(9, "slow"), store, rates, cancelled=lambda: model.n_steps_done == 8)
    assert rates.find(rows(1)[0], LocalEngine("cpu").place()).n == 3


def test_a_rate_is_of_a_model_a_size_and_a_sampler(rates):
    rates.keep(ROW, "here", Rate(seconds=2.0, n_bytes=1000.0, n=20))
    assert rates.find(replace(ROW, prompt="other", seed=5), "here").seconds == 2
    for changes in ({"model": "n"}, {"width": 128}, {"num_inference_steps": 50}, {"guidance_scale": 7.5}):
        assert rates.find(replace(ROW, **changes), "here") is None, changes
    assert rates.find(ROW, "there") is None
    # a handful of pictures does not replace a better rate
    rates.keep(ROW, "here", Rate(seconds=9.0, n_bytes=1000.0, n=3))
    assert rates.find(ROW, "here").seconds == 2
    rates.keep(ROW, "here", Rate(seconds=3.0, n_bytes=1000.0, n=17))
    assert rates.find(ROW, "here").seconds == 3


@pytest.mark.parametrize("text", ["", "[1]", "nonsense", '{"key": {"seconds": 1}}'])
def test_a_damaged_record_counts_as_empty(tmp_path, text):
    path = tmp_path / "rates.json"
    path.write_text(text.replace("key", "m | 64x64 | 20 steps, unguided | here"))
    rates = RateStore(path)
    assert rates.find(ROW, "here") is None
    rates.keep(ROW, "here", Rate(seconds=2.0, n_bytes=1000.0, n=20))
    assert rates.find(ROW, "here").seconds == 2


def test_the_estimate_counts_what_is_missing_once_and_divides_it_among_the_workers(store):
    list(LocalEngine("cpu").run(rows(3), Noise(), store, lock=threading.Lock()))
    rate = Rate(seconds=2.0, n_bytes=1000.0, n=20)
    cost = estimate_cost(rows(13) + rows(5), store, rate, n_workers=4)
    # 13 distinct, 3 stored: 10 at 2 s by 4 workers, 5 s; 10 times 1000 bytes
    assert (cost.n_pictures, cost.n_stored, cost.n_missing) == (13, 3, 10)
    assert (cost.seconds, cost.n_bytes) == (5.0, 10_000.0)
    # without a rate it is unknown, unless nothing is missing
    cost = estimate_cost(rows(4), store, None, n_workers=1)
    assert math.isnan(cost.seconds)
    assert math.isnan(cost.n_bytes)
    cost = estimate_cost(rows(3), store, None, n_workers=1)
    assert (cost.n_missing, cost.seconds, cost.n_bytes) == (0, 0.0, 0.0)


def test_a_meter_that_saw_one_sign_only_does_not_guess():
    assert Meter().rate(1) is None


def test_room_on_a_disk_is_known_before_the_folder_is_made(tmp_path):
    assert free_bytes(tmp_path / "not" / "yet") == pytest.approx(free_bytes(tmp_path), rel=0.1)
