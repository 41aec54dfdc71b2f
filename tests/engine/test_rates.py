"""Rates are measured without loading, kept by what decides them, and make an estimate."""

import math
import threading
import time
from dataclasses import replace

import pytest

from bias_core.engine.local import LocalEngine, Meter, Rate, RateStore, estimate_cost
from bias_core.errors import Cancelled
from bias_core.models.machine import free_bytes
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow
from tests.engine.noise import Noise, rows

ROW = ImageRow(prompt="p", seed=0, model="m", num_inference_steps=20, guidance_scale=1.0)


class SlowToLoad(Noise):
    """A second before the first step, then a tenth of a second a step of five: half a second a batch of 3."""

    def generate(self, rows, *, on_step=None):
        if not self.n_steps_done:
            time.sleep(1)
        yield from super().generate(rows, on_step=on_step)


def draw(model, wanted, store, rates, **options):
    events = LocalEngine("cpu").run(wanted, model, store, lock=threading.Lock(), **options)
    return list(rates.watch(events, wanted[0], LocalEngine("cpu")))


@pytest.fixture
def rates(tmp_path):
    return RateStore(tmp_path / "rates.json")


@pytest.fixture
def store(tmp_path):
    return ImageStore(tmp_path / "images")


@pytest.mark.parametrize("n", [3, 9])
def test_loading_is_not_counted_even_in_a_single_batch(rates, store, n):
    draw(SlowToLoad(), rows(n, "slow"), store, rates)
    rate = rates.find(rows(1)[0], LocalEngine("cpu").place())
    # five steps of 0.1 s for three pictures: 0.167 s each; with loading, a single batch would say 0.5 s
    assert 0.15 < rate.seconds < 0.3
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


@pytest.mark.parametrize(
    "changes",
    [{"model": "n"}, {"width": 128}, {"num_inference_steps": 50}, {"guidance_scale": 7.5}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_rate_is_of_a_model_a_size_and_a_sampler(rates, changes):
    rates.keep(ROW, "here", Rate(seconds=2.0, n_bytes=1000.0, n=20))
    assert rates.find(replace(ROW, prompt="other", seed=5), "here").seconds == 2
    assert rates.find(replace(ROW, **changes), "here") is None
    assert rates.find(ROW, "there") is None


def test_a_handful_of_pictures_does_not_replace_a_better_rate(rates):
    rates.keep(ROW, "here", Rate(seconds=2.0, n_bytes=1000.0, n=20))
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


def test_without_a_rate_the_cost_is_unknown_unless_nothing_is_missing(store):
    assert math.isnan(estimate_cost(rows(3), store, None, n_workers=1).seconds)
    assert math.isnan(estimate_cost(rows(3), store, None, n_workers=1).n_bytes)
    list(LocalEngine("cpu").run(rows(3), Noise(), store, lock=threading.Lock()))
    cost = estimate_cost(rows(3), store, None, n_workers=1)
    assert (cost.n_missing, cost.seconds, cost.n_bytes) == (0, 0.0, 0.0)


def test_a_meter_that_saw_one_sign_only_does_not_guess():
    assert Meter().rate(1) is None


def test_room_on_a_disk_is_known_before_the_folder_is_made(tmp_path):
    assert free_bytes(tmp_path / "not" / "yet") == pytest.approx(free_bytes(tmp_path), rel=0.1)
