"""Every family of generators on tiny pipelines of its own classes: pictures, Stop, errors, traces."""

from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters.family_facts import denoiser_of
from bias_core.errors import Cancelled, ModelUnavailable
from tests.adapters.families import FAMILIES, build, folder_of, pixels, rows_of
from tests.adapters.tiny_parts import torch

every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_rows_come_back_in_order_at_their_size_and_each_as_if_alone(family, model):
    rows = rows_of(family)
    generated = list(model.generate(rows))
    assert [item.row for item in generated] == rows
    assert {item.image.size for item in generated} == {FAMILIES[family].size}
    for row, expected in zip(rows, pixels(generated), strict=True):
        (alone,) = pixels(model.generate([row]))
        np.testing.assert_array_equal(alone, expected)


@every_family
def test_seed_and_prompt_both_matter(family, model):
    (first,) = rows_of(family, 1)
    pictures = pixels(model.generate([first, replace(first, seed=99), replace(first, prompt="a nurse")]))
    assert (pictures[0] != pictures[1]).any()
    assert (pictures[0] != pictures[2]).any()


@every_family
def test_a_negative_prompt_matters_where_there_is_guidance_and_stays_its_row_s_own(family, model):
    (row,) = rows_of(family, 1)
    against = replace(row, negative_prompt="a female")
    plain, guided, again = pixels(model.generate([row, against, row]))
    # Turbo runs without guidance, and FLUX has it built in.
    assert (plain != guided).any() == (family not in {"turbo", "flux"})
    np.testing.assert_array_equal(plain, again)


@every_family
def test_stop_ends_it_at_the_very_next_step_of_either_stage(family, model):
    facts = FAMILIES[family]
    total = facts.steps + facts.extra_steps
    for last in (1, total):
        seen = []

        def on_step(step, n_steps, seen=seen, last=last):
            seen.append((step, n_steps))
            if len(seen) == last:
                raise Cancelled

        with pytest.raises(Cancelled):
            list(model.generate(rows_of(family, 2), on_step=on_step))
        assert seen == [(step, total) for step in range(1, last + 1)]
    before = pixels(model.generate(rows_of(family, 1)))
    np.testing.assert_array_equal(before, pixels(model.generate(rows_of(family, 1))))


def test_a_pipeline_without_a_callback_stops_too(request):
    model = build("sd2", folder_of("sd2", request))
    pipeline = model.pipeline()
    whole = type(pipeline).__call__

    class Deaf(type(pipeline)):
        def __call__(self, prompt, generator, num_inference_steps, guidance_scale, width, height, output_type):
            return whole(**{name: value for name, value in locals().items() if name != "__class__"})

    pipeline.__class__ = Deaf
    seen = []

    def on_step(step, n_steps):
        seen.append((step, n_steps))
        if step == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        list(model.generate(rows_of("sd2"), on_step=on_step))
    assert seen == [(1, 3), (2, 3)]
    assert not denoiser_of(pipeline)._forward_hooks


@pytest.mark.parametrize("family", ["sd2", "kandinsky", "deepfloyd"])  # a VAE, a VQ-VAE, and pixels
def test_nan_is_an_error_and_not_a_picture(family, request):

    model = build(family, folder_of(family, request))
    pipeline = model.pipeline()
    last = next(getattr(pipeline, name) for name in ("vae", "movq", "upscaler") if hasattr(pipeline, name))
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.fill_(float("nan"))
    for stage in (pipeline, getattr(pipeline, "second", pipeline)):
        stage.safety_checker = None
    with pytest.raises(ModelUnavailable, match=f"tiny-{family} drew NaN"):
        list(model.generate(rows_of(family, 1)))


def test_a_black_picture_that_no_checker_blanked_is_an_error(request):

    model = build("sd2", folder_of("sd2", request))
    last = model.pipeline().vae.decoder.conv_out
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-9.0)
    with pytest.raises(ModelUnavailable, match="black all over"):
        list(model.generate(rows_of("sd2", 1)))


@pytest.mark.parametrize("head", ["p_head", "w_head"])
def test_what_the_checker_of_deepfloyd_blanks_is_counted(request, head):

    model = build("deepfloyd", folder_of("deepfloyd", request))
    with torch.no_grad():
        getattr(model.pipeline().safety_checker, head).bias.fill_(9.0)
    generated = list(model.generate(rows_of("deepfloyd")))
    assert [item.blocked for item in generated] == [True] * 3
    assert not np.asarray(generated[0].image).any()


def test_deepfloyd_encodes_its_text_once_for_both_stages(request):
    model = build("deepfloyd", folder_of("deepfloyd", request))
    seen = []
    with model.pipeline().text_encoder.register_forward_hook(lambda *_: seen.append(1)):
        list(model.generate(rows_of("deepfloyd", 1)))
    assert len(seen) == 2  # the prompt and the negative prompt
