"""Newer families on tiny pipelines of their own classes: bit for bit what diffusers itself draws."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.pipeline_call import to_image
from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.types import ModelInfo
from tests.adapters.newer_families import AGAINST, NEWER, OTHER_PROMPT, draw_bare, model_of, row_of

every_family = pytest.mark.parametrize("family", NEWER)


@pytest.fixture
def pipeline(family, newer_pipeline):
    return newer_pipeline(family)


def drawn(model, *rows):
    return [np.asarray(item.image) for item in model.generate(rows)]


@every_family
def test_the_picture_is_the_bare_pipeline_s_bit_for_bit(family, pipeline):
    rows = [row_of(family), row_of(family, seed=8, prompt=OTHER_PROMPT)]
    if NEWER[family].negative:
        rows.append(row_of(family, negative_prompt=AGAINST))
    ours = drawn(model_of(family, pipeline), *rows)
    assert len({picture.tobytes() for picture in ours}) == len(rows)
    for picture, row in zip(ours, rows, strict=True):
        expected = np.asarray(to_image(draw_bare(family, pipeline, row), "bare"))
        np.testing.assert_array_equal(picture, expected)


@every_family
def test_guidance_changes_the_picture_or_it_is_said_that_it_does_not(family, pipeline):
    facts, model = NEWER[family], model_of(family, pipeline)
    weak, strong = row_of(family, guidance_scale=2.0), row_of(family, guidance_scale=6.0)
    one, other = drawn(model, weak, strong)
    assert (one != other).any() == facts.guided
    assert any("guidance scale" in note for note in model.check_settings(strong)) != facts.guided
    against = replace(strong, negative_prompt=AGAINST)
    (picture,) = drawn(model, against)
    assert (picture != other).any() == facts.negative
    assert any("negative prompt" in note for note in model.check_settings(against)) != facts.negative


@every_family
def test_a_picture_is_the_same_alone_and_among_others(family, pipeline):
    model = model_of(family, pipeline, batch_size=2)
    rows = [row_of(family), row_of(family, seed=8, prompt=OTHER_PROMPT), row_of(family, seed=9)]
    together = drawn(model, *rows)
    (alone,) = drawn(model, rows[1])
    apart = np.abs(alone.astype(int) - together[1].astype(int))
    # Sums of floats depend on the size of the batch: Lumina 2, drawn first, differs by one level in one value.
    assert np.count_nonzero(apart) <= (family == "Lumina 2")
    assert apart.max() <= 1
    (item,) = model.generate(rows[:1])
    assert (item.drawn["width"], item.drawn["height"]) == item.image.size


@every_family
def test_stop_ends_it_at_the_very_next_step_and_steps_are_counted_once(family, pipeline):
    model, seen = model_of(family, pipeline), []

    def on_step(step, n_steps):
        seen.append((step, n_steps))
        if len(seen) == NEWER[family].steps:
            raise Cancelled

    with pytest.raises(Cancelled):
        list(model.generate([row_of(family)], on_step=on_step))
    n_steps = NEWER[family].steps
    assert seen == [(step, n_steps) for step in range(1, n_steps + 1)]
    assert "step" not in vars(pipeline.scheduler)


@pytest.mark.parametrize("family", ["FLUX.2", "Kandinsky 5", "LongCat-Image", "Krea 2"])
def test_its_folder_draws_as_the_bare_pipeline_and_says_what_is_read(family, pipeline, tmp_path):
    pipeline.save_pretrained(tmp_path)
    info = ModelInfo(id="tiny", name="tiny", family="diffusers", options={"batch_size": 1, "call": NEWER[family].call})
    model = DiffusersTextToImage(info, str(tmp_path), device="cpu", offline=True)
    limits = model.prompt_limits(["a nurse"])
    loaded = model.pipeline()
    if family == "Kandinsky 5":
        loaded.resolutions = pipeline.resolutions
    assert limits == model.prompt_limits(["a nurse"])
    assert limits
    (picture,) = drawn(model, row_of(family))
    expected = np.asarray(to_image(draw_bare(family, loaded, row_of(family)), "bare"))
    np.testing.assert_array_equal(picture, expected)


def test_hidream_takes_the_language_model_that_its_makers_leave_out_from_elsewhere(newer_pipeline, tmp_path):
    pipeline = newer_pipeline("HiDream")
    folder, llama = tmp_path / "hidream", tmp_path / "llama"
    pipeline.save_pretrained(folder)
    pipeline.text_encoder_4.save_pretrained(llama)
    pipeline.tokenizer_4.save_pretrained(llama)
    index = json.loads((folder / "model_index.json").read_text())
    for part in ("text_encoder_4", "tokenizer_4"):
        shutil.rmtree(folder / part)
        index[part] = [None, None]
    (folder / "model_index.json").write_text(json.dumps(index))
    options = {"batch_size": 1, "call": NEWER["HiDream"].call, "llama": str(llama)}
    info = ModelInfo(id="tiny", name="tiny", family="hidream", options=options)
    model = DiffusersTextToImage(info, str(folder), device="cpu", offline=True)
    loaded = model.pipeline()
    loaded.default_sample_size = pipeline.default_sample_size
    assert any(limit.reader == "Llama" for limit in model.prompt_limits(["a nurse"]))
    (picture,) = drawn(model, row_of("HiDream"))
    expected = np.asarray(to_image(draw_bare("HiDream", pipeline, row_of("HiDream")), "bare"))
    np.testing.assert_array_equal(picture, expected)
    with pytest.raises(ModelUnavailable, match=r"tiny.*no/llama"):
        DiffusersTextToImage(
            replace(info, options=options | {"llama": "no/llama"}), str(folder), device="cpu", offline=True
        ).pipeline()
