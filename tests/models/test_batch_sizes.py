"""Pictures at a time: by the weights of a model and the memory of a card, and the same for the whole of a run."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from bias_core.models import diffusers_t2i
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.engines import run_rows
from bias_core.models.model_sources import Machine
from bias_core.models.pipeline_loader import component_sizes
from bias_core.models.weights import Batches
from bias_core.store.images import ImageStore
from bias_core.store.readings import open_picture
from bias_core.types import BATCH_SIZE, ModelInfo
from tests.models.families import READ, rows_of, shared
from tests.models.noise import Noise, rows as noise_rows
from tests.models.tiny_parts import torch

SIDE = 32
PICTURE = SIDE * SIDE * 6_000  # bytes of working memory
DEADLINE = 60.0


@pytest.fixture
def pipeline(request):
    return shared("sd1", request).pipeline()


@pytest.fixture
def on_a_card(monkeypatch, pipeline):
    """Build the model as one that is not listed, on a card whose memory holds its weights and some pictures."""

    def build(n_pictures):
        n_bytes = sum(component_sizes(pipeline).values()) + int(n_pictures * PICTURE)
        monkeypatch.setattr(diffusers_t2i, "this_machine", lambda: Machine(memory=0, gpu_memory=n_bytes, gpu="a card"))
        info = ModelInfo(id="org/new", name="new", family="sd1", width=SIDE, height=SIDE)
        (folder,) = [folder for folder, one in READ.items() if one is pipeline]
        return DiffusersTextToImage(info, str(folder), offline=True)

    return build


def rows(n=5, **changes):
    return [replace(row, model="org/new", **changes) for row in rows_of("sd1", n)]


def drawn(model, store, wanted):
    events = run_rows(wanted, model, store, lock=threading.Lock())
    images = {image.row.id: image for event in events for image in event.images}
    return [images[row.id] for row in wanted]


def sizes(images):
    return [image.drawn[BATCH_SIZE] for image in images]


def pixels(images):
    return [np.asarray(open_picture(image)) for image in images]


@pytest.mark.parametrize(("n_pictures", "expected"), [(0.5, 1), (1.5, 1), (3.5, 3), (100, 8)])
def test_the_weights_and_the_card_decide_how_many_are_drawn_at_a_time(on_a_card, n_pictures, expected):
    model = on_a_card(n_pictures)
    assert model.batch_size == 8  # the most, before its weights are known
    model.load()
    assert model.batch_size == expected
    assert sizes(model.generate(rows(2))) == [expected, expected]
    model.unload()
    model.load()
    assert model.batch_size == expected


def test_a_model_on_the_cpu_draws_one_at_a_time_and_records_no_size(request):
    model = shared("sd1", request, options={"batch_size": 1})
    assert all(BATCH_SIZE not in image.drawn for image in model.generate(rows(2)))


class Full:
    """Memory runs out at more than ``most`` rows through the denoiser."""

    def __init__(self, model, most):
        self.most = most
        self.hook = model.pipeline().unet.register_forward_pre_hook(self.check)

    def check(self, _module, args):
        if len(args[0]) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_run_is_resumed_and_repeated_with_the_size_that_its_pictures_record(on_a_card, tmp_path):
    model, store = on_a_card(4.5), ImageStore(tmp_path / "images")
    full = Full(model, most=2 * 2)  # guided: two rows for a picture
    first = drawn(model, store, rows())
    assert sizes(first) == [2] * 5  # 4 were too many
    assert model.batch_size == 2
    full.hook.remove()
    again = on_a_card(4.5)
    expected = pixels(first)
    for image in first[1:4]:
        image.path.unlink()
    resumed = drawn(again, store, rows())
    assert sizes(resumed) == [2] * 5
    for one, other in zip(pixels(resumed), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.batch_size == 4  # other runs keep the card's own
    assert sizes(drawn(again, store, rows(2, prompt="a woman"))) == [4, 4]


def test_a_size_is_lowered_for_good_only_where_memory_runs_out():
    batches = Batches("a model", 8)
    with batches.of_size(4):
        assert batches.size == 4
    assert batches.size == 8
    with batches.of_size(4):
        batches.size = 2  # memory ran out
    assert batches.size == 2
    with batches.of_size(8):
        pass
    assert batches.size == 2


def test_pictures_are_saved_while_the_next_are_drawn(tmp_path):
    goes_on = threading.Event()

    class Drawing(Noise):
        def generate(self, rows, *, on_step=None):
            if self.drawn:
                goes_on.set()
            yield from super().generate(rows, on_step=on_step)

    class SlowDisk(ImageStore):
        def add(self, generated):
            assert goes_on.wait(DEADLINE), "the next batch waits until the pictures are on the disk"
            return super().add(generated)

    events = list(run_rows(noise_rows(6), Drawing(), SlowDisk(tmp_path), lock=threading.Lock()))
    assert [len(event.images) for event in events if event.images] == [3, 3]
    assert (events[-1].done, events[-1].seconds_left) == (6, 0)


def test_a_model_may_compute_with_fewer_threads_than_the_machine_has_and_gives_them_back(request):
    model, seen = shared("sd2", request, options={"cpu_threads": 1}), []
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        list(model.generate(rows_of("sd2", 1), on_step=lambda *_: seen.append(torch.get_num_threads())))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(usual)
    assert set(seen) == {1}
