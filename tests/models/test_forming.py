"""Pictures that form: where each step is heading, at low cost, and nothing that is drawn changes."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import Cancelled
from bias_core.models import diffusers_t2i as forming
from bias_core.models.pipeline_call import step_replaced
from bias_core.protocols import ShowsForming
from tests.models.families import FAMILIES, own, pixels, rows_of, shared

SHOWN = ["sd2", "turbo", "sd3", "flux", "sana"]  # each in a space, or of a decoder, of its own


def drawn(model, rows, look=True):
    """The pictures, and what formed at each step."""
    seen = []

    def on_step(step, n_steps):
        if look:
            seen.append(model.forming())

    return pixels(model.generate(rows, on_step=on_step)), seen


@pytest.mark.parametrize("family", SHOWN)
def test_every_step_shows_where_each_picture_is_heading_and_the_pictures_stay_the_same(family, model):
    rows = rows_of(family)
    plain, _ = drawn(model, rows, look=False)
    looked_at, _ = drawn(model, rows)
    again, seen = drawn(model, rows)  # by now colours are known of every family
    for one in (looked_at, again):
        np.testing.assert_array_equal(one, plain)
    # Two batches, of two pictures and of one with a copy that is thrown away.
    n_steps = len(seen) // 2
    assert [list(step) for step in seen] == [[row.id for row in rows[:2]]] * n_steps + [[rows[2].id]] * n_steps
    sizes = {image.size for step in seen for image in step.values()}
    assert len(sizes) == 1
    width, height = FAMILIES[family].size
    (size,) = sizes
    assert size[0] * height == size[1] * width  # flat like the picture
    first, last = seen[0][rows[0].id], seen[n_steps - 1][rows[0].id]
    assert np.asarray(first).tolist() != np.asarray(last).tolist()


def test_a_small_decoder_shows_what_a_trace_predicts_and_at_the_last_step_the_picture_itself(request):
    model, (row,) = shared("sd3", request), rows_of("sd3", 1)
    ((finished,), seen) = drawn(model, [row])
    predicted = [np.asarray(step.predicted, dtype=int) for step in model.trace(row, [])]
    shown = [np.asarray(step[row.id], dtype=int) for step in seen]
    assert len(shown) == len(predicted) == row.num_inference_steps
    assert max(np.abs(a - b).max() for a, b in zip(shown, predicted, strict=True)) <= 1
    assert np.abs(shown[-1] - finished.astype(int)).max() <= 1
    assert not model.forming()  # nothing is at work


@pytest.mark.parametrize("family", ["kandinsky", "deepfloyd"])
def test_a_family_whose_steps_head_nowhere_known_shows_none(family, model):
    _, seen = drawn(model, rows_of(family, 1))
    assert seen
    assert not any(seen)


def test_a_large_decoder_shows_none_unless_asked_and_then_colours_that_finished_pictures_taught(request, monkeypatch):
    monkeypatch.setattr(forming, "MOST_WEIGHTS", 10)
    rows = rows_of("sd3", 2, num_inference_steps=4)
    for mode in ("auto", "off"):
        asked = shared("sd3", request, forming=mode)
        for _ in range(2):
            assert not any(drawn(asked, rows)[1])
    asked = own("sd3", request, forming="on")
    n_decoded = []
    asked.pipeline().vae.decoder.register_forward_hook(lambda *_: n_decoded.append(1))
    _, before = drawn(asked, rows)
    pictures, after = drawn(asked, rows)
    assert not any(before)  # nothing was finished yet
    assert all(after)
    assert len(n_decoded) == 2  # the finished batches: no step was decoded
    small = [np.asarray(Image.fromarray(p).resize(after[-1][rows[0].id].size, Image.Resampling.BOX)) for p in pictures]
    shown = [np.asarray(after[-1][row.id]) for row in rows]
    assert np.abs(np.subtract(shown, small, dtype=float)).mean() < np.std(small)


def test_colours_that_are_a_linear_map_of_the_latent_are_learnt_exactly():
    # Packed latents of pictures twice as wide as tall: 7 x 14 places of 4 channels, each 2 x 2 pixels.
    rng = np.random.default_rng(5)
    latents, way = rng.normal(size=(3, 98, 4)).astype(np.float32), rng.normal(size=(4, 12)) * 0.05
    colours = (latents @ way + 0.5).reshape(3, 7, 14, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(3, 14, 28, 3)
    images = [Image.fromarray((np.clip(one, 0, 1) * 255).round().astype(np.uint8)) for one in colours]
    learner, row = forming.FormingPictures("on"), replace(rows_of("flux", 1)[0], width=28, height=14)
    learner.learn(latents, images)
    again = learner._decoded(object(), latents, row)
    assert np.abs(again - colours).max() < 0.01
    learner.forget()
    assert learner._decoded(object(), latents, row) is None


def test_a_safety_checker_has_the_last_word_unless_asked_otherwise(request):
    for mode, n_shown in (("auto", 0), ("on", 3)):
        model = shared("sd1", request, forming=mode)
        assert model.pipeline().safety_checker is not None
        assert sum(map(bool, drawn(model, rows_of("sd1", 1))[1])) == n_shown


def test_after_stop_it_shows_nothing_and_the_scheduler_is_as_before(request):
    model = shared("sd3", request)
    assert isinstance(model, ShowsForming)

    def stop(step, n_steps):
        assert model.forming()
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        list(model.generate(rows_of("sd3", 1), on_step=stop))
    assert not model.forming()
    assert "step" not in vars(model.pipeline().scheduler)


def test_two_may_look_at_the_steps_of_a_scheduler_one_inside_the_other():
    class Scheduler:
        def step(self, model_output, timestep, sample):
            return f"{model_output} {timestep} {sample}"

    scheduler, seen = Scheduler(), []

    def look(name):
        return lambda step: (seen.append(name), step.answer())[1]

    with step_replaced(scheduler, look("outer")):
        with step_replaced(scheduler, look("inner")):
            assert scheduler.step(1, 2, sample=3) == "1 2 3"
        assert scheduler.step(1, 2, 3) == "1 2 3"
    assert scheduler.step(1, 2, 3) == "1 2 3"
    assert seen == ["inner", "outer", "outer"]
