"""Samplers by name: the same pictures as the bare pipeline with that scheduler, and its own is put back."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.samplers import SAMPLERS, check_sampler
from bias_core.errors import InvalidInput
from bias_core.types import Attribute, ImageRow, ModelInfo, Sampler
from tests.adapters.tiny_parts import diffusers, torch

N_STEPS, SIDE = 3, 32
ROW = ImageRow(
    prompt="a doctor", seed=5, model="tiny", num_inference_steps=N_STEPS, guidance_scale=4.0, width=SIDE, height=SIDE
)


@pytest.fixture(scope="module")
def sd1(tiny_sd1):
    info = ModelInfo(id="tiny", name="tiny", family="sd1", options={"batch_size": 2})
    model = DiffusersTextToImage(info, str(tiny_sd1), device="cpu", offline=True)
    model.pipeline().safety_checker = None
    return model


def bare(pipeline, sampler, row=ROW):
    """Pixels of the pipeline itself under this scheduler, in a batch as full as the adapter's."""
    name, more = SAMPLERS[sampler]
    own = pipeline.scheduler
    pipeline.scheduler = getattr(diffusers, name).from_config(own.config, **more)
    output = pipeline(
        prompt=[row.prompt] * 2, generator=[torch.Generator("cpu").manual_seed(row.seed) for _ in range(2)],
        num_inference_steps=row.num_inference_steps, guidance_scale=row.guidance_scale,
        width=row.width, height=row.height, output_type="np",
    )  # fmt: skip
    pipeline.scheduler = own
    return (output.images[0] * 255).round().astype(np.uint8)


def test_every_sampler_has_a_name_that_settings_take_and_a_class_of_diffusers():
    assert set(SAMPLERS) == set(get_args(Sampler)) - {""}
    assert all(hasattr(diffusers, name) for name, _ in SAMPLERS.values())


def test_a_sampler_draws_what_the_bare_pipeline_draws_with_its_scheduler_and_its_own_is_put_back(sd1):
    (own,) = sd1.generate([ROW])
    scheduler = sd1.pipeline().scheduler
    drawn = {}
    for sampler in ("ddim", "euler", "euler-a", "dpm++", "dpm++-karras", "unipc"):
        (image,) = sd1.generate([replace(ROW, sampler=sampler)])
        drawn[sampler] = np.asarray(image.image)
        np.testing.assert_array_equal(drawn[sampler], bare(sd1.pipeline(), sampler), err_msg=sampler)
        assert image.row.sampler == sampler
        assert sd1.pipeline().scheduler is scheduler
    assert len({pixels.tobytes() for pixels in drawn.values()}) > 3
    (again,) = sd1.generate([ROW])
    np.testing.assert_array_equal(np.asarray(again.image), np.asarray(own.image))


def test_rows_of_several_samplers_and_sizes_are_drawn_each_with_its_own(sd1):
    rows = [replace(ROW, sampler="ddim"), ROW, replace(ROW, sampler="euler-a", width=48)]
    together = list(sd1.generate(rows))
    assert [item.row for item in together] == rows
    assert [item.image.size for item in together] == [(32, 32), (32, 32), (48, 32)]
    for row, item in zip(rows, together, strict=True):
        (alone,) = sd1.generate([row])
        np.testing.assert_array_equal(np.asarray(alone.image), np.asarray(item.image))


def test_a_trace_follows_the_sampler_of_its_row(sd1):
    man = Attribute(name="man", positive="a man", negative="a woman")
    sigmas = {
        sampler: [step.sigma for step in sd1.trace(replace(ROW, sampler=sampler), [man], predicted=False)]
        for sampler in ("ddim", "euler")
    }
    assert all(len(values) == N_STEPS for values in sigmas.values())
    assert sigmas["ddim"] != sigmas["euler"]
    with pytest.raises(InvalidInput, match="HeunDiscreteScheduler"):
        list(sd1.trace(replace(ROW, sampler="heun"), [man], predicted=False))


def test_flow_models_refuse_a_sampler_in_a_sentence_loaded_or_not(tiny_sd3):
    info = ModelInfo(id="flowing", name="", family="sd3", options={"call": {"max_sequence_length": 1}})
    model = DiffusersTextToImage(info, str(tiny_sd3 / "pipeline"), device="cpu", offline=True)
    words = r"flowing cannot be drawn with the sampler ddim: it is a flow model.*FlowMatch.*leave the sampler out"
    with pytest.raises(InvalidInput, match=words):
        model.check_sampler("ddim")
    assert not model.loaded
    with pytest.raises(InvalidInput, match=words):
        list(model.generate([replace(ROW, sampler="ddim")]))
    absent = DiffusersTextToImage(info, "org/absent", device="cpu", offline=True)
    with pytest.raises(InvalidInput, match="models of the family sd3 have one of their own"):
        absent.check_sampler("ddim")
    absent.check_sampler("")
    check_sampler(replace(info, family="sd1"), None, "ddim")
