"""Pictures at a time: by the weights of a model and the memory of a card, and the same for the whole of a run."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import Cancelled
from bias_core.models import diffusers_t2i
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.engines import run_rows
from bias_core.models.model_sources import Machine
from bias_core.models.pipeline_loader import component_sizes
from bias_core.models.weights import Batches
from bias_core.store.images import ImageStore
from bias_core.store.readings import open_original
from bias_core.types import BATCH_SIZE, ModelInfo
from tests.models.families import READ, own, rows_of, shared
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
        monkeypatch.setattr(diffusers_t2i, "get_machine", lambda: Machine(memory=0, gpu_memory=n_bytes, gpu="a card"))
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
    return [np.asarray(open_original(image)) for image in images]


def pixels_of(generated):
    return [np.asarray(one.image) for one in generated]


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
    with batches.use_size(4):
        assert batches.size == 4
    assert batches.size == 8
    with batches.use_size(4):
        batches.size = 2  # memory ran out
    assert batches.size == 2
    with batches.use_size(8):
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


@pytest.fixture
def with_threads():
    """Sets the number of threads with which this process computes; the test ends with the usual one."""
    usual = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(usual)


def one_thread_model(family, request, n_at_once, with_threads, **how):
    """A model that computes with one thread, on a machine with ``n_at_once``."""
    with_threads(n_at_once)
    model = own(family, request, options={"cpu_threads": 1, **how.pop("options", {})}, **how)
    with_threads(1)
    return model


@pytest.mark.parametrize("family", ["sd1", "sdxl", "sd3", "flux", "pixart", "sana", "kandinsky", "deepfloyd"])
def test_batches_drawn_at_once_have_the_pixels_of_batches_drawn_in_turn(family, request, with_threads):
    wanted = rows_of(family, 7)
    in_turn, at_once = (one_thread_model(family, request, n, with_threads) for n in (1, 3))
    assert (in_turn.batch_size, at_once.batch_size) == (2, 2 if family in {"kandinsky", "deepfloyd"} else 6)
    expected, before = pixels_of(in_turn.generate(wanted)), torch.get_rng_state()
    for _ in range(2):
        np.testing.assert_array_equal(pixels_of(at_once.generate(wanted)), expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 1


def test_loras_and_samplers_change_between_batches_drawn_at_once(request, tiny_sd3, with_threads):
    how = {"loras": tiny_sd3 / "loras", "options": {"base_condition": "fair"}}
    in_turn, at_once = (one_thread_model("sd3", request, n, with_threads, **how) for n in (1, 2))
    runs = [("fair", 3), ("published", 5), ("extreme", 4), ("fair", 1), ("published", 2)]
    wanted = [row for condition, n in runs for row in rows_of("sd3", n, condition=condition)]
    wanted += rows_of("sd3", 3, condition="fair", later_prompt="a man", n_first_steps=1)
    drawn_in_turn, drawn_at_once = (pixels_of(one.generate(wanted)) for one in (in_turn, at_once))
    np.testing.assert_array_equal(drawn_at_once, drawn_in_turn)
    of_first_seed = [drawn_at_once[at] for at in (0, 3, 8)]  # one of each condition
    assert not any(np.array_equal(of_first_seed[i], of_first_seed[i - 1]) for i in range(3))
    assert "forward" not in vars(at_once.pipeline().text_encoder)
    assert not at_once.forming()


def test_steps_of_batches_at_once_are_reported_as_those_of_one_with_previews_of_all(request, with_threads):
    model, seen = one_thread_model("sd3", request, 2, with_threads), []
    rows = rows_of("sd3", 3)
    list(model.generate(rows, on_step=lambda step, n_steps: seen.append((step, n_steps, set(model.forming())))))
    n_steps = rows[0].num_inference_steps
    assert [step for step, _, _ in seen] == [step for step in range(1, n_steps + 1) for _ in range(2)]
    assert {total for _, total, _ in seen} == {n_steps}
    assert set().union(*(keys for _, _, keys in seen)) == {row.id for row in rows}


def test_stop_ends_all_batches_at_once_at_their_next_step(request, with_threads):
    model, seen = one_thread_model("sd3", request, 3, with_threads), []

    def stop(step, n_steps):
        seen.append(step)
        raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        list(model.generate(rows_of("sd3", 6, num_inference_steps=9), on_step=stop))
    assert len(seen) == 3  # one for each batch
    assert not model.forming()
    assert len(list(model.generate(rows_of("sd3", 6)))) == 6


def test_where_memory_runs_out_batches_at_once_become_smaller(request, with_threads):
    model = one_thread_model("sd1", request, 2, with_threads)
    full = Full(model, most=2)  # guided: two rows for a picture
    assert len(list(model.generate(rows_of("sd1", 5)))) == 5
    full.hook.remove()
    assert model.batch_size == 1


def test_a_run_begun_elsewhere_in_smaller_batches_keeps_the_size_of_a_call(request, with_threads):
    model, rows = one_thread_model("sd3", request, 2, with_threads), rows_of("sd3", 4)
    expected = pixels_of(model.generate(rows))
    n_in_call = []
    model.pipeline().transformer.register_forward_pre_hook(
        lambda _module, _args, given: n_in_call.append(len(given["hidden_states"])), with_kwargs=True
    )
    with model.use_batch_size(2):
        np.testing.assert_array_equal(pixels_of(model.generate(rows)), expected)
    assert set(n_in_call) == {2 * 2}  # guided: two rows for a picture
