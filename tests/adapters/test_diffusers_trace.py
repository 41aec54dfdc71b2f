"""Traces of tiny pipelines of the real classes: same trajectory, one batched pass, the right velocities."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.errors import Cancelled, InvalidInput
from bias_core.metrics.propagation import predicted_sample, stereotype_propagation_index
from bias_core.protocols import Traceable
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import Attribute, ImageRow, ModelInfo
from bias_core.waiting import one_at_a_time

ATTRIBUTES = [
    Attribute(name="man", positive="a photo of a man", negative="a female"),
    Attribute(name="nurse", positive="a nurse", negative="a doctor"),
    Attribute(name="photo", positive="a photo", negative="a"),
]
SPACES = {
    "sd3": "flow",
    "flux": "flow",
    "sd1": "epsilon",
    "sd2": "v_prediction",
    "sdxl": "epsilon",
    "turbo": "epsilon",
    "pixart": "epsilon",
    "sana": "flow",
}
GUIDED = [family for family in SPACES if family not in ("flux", "turbo")]
N_STEPS = 4


@pytest.fixture(scope="module")
def models(tiny_sd3, tiny_flux, tiny_sd1, tiny_sd2, tiny_sdxl, tiny_turbo, tiny_pixart, tiny_sana):
    folders = {
        "sd3": tiny_sd3 / "pipeline",
        "flux": tiny_flux,
        "sd1": tiny_sd1,
        "sd2": tiny_sd2,
        "sdxl": tiny_sdxl,
        "turbo": tiny_turbo,
        "pixart": tiny_pixart,
        "sana": tiny_sana,
    }
    built = {}
    for family, folder in folders.items():
        call = {"max_sequence_length": 8} if family in ("sd3", "flux", "pixart", "sana") else {}
        info = ModelInfo(
            id=f"tiny-{family}",
            name="tiny",
            family=family,
            options={"base_condition": "fair", "call": call, "batch_size": 1},
        )
        built[family] = DiffusersTextToImage(
            info, str(folder), loras=tiny_sd3 / "loras" if family == "sd3" else None, device="cpu"
        )
    return built


@pytest.fixture(params=SPACES)
def family(request):
    return request.param


def a_row(family, **options):
    settings = {"num_inference_steps": N_STEPS, "guidance_scale": 4.0, "width": 32, "height": 24}
    if family == "sana":  # it draws in squares of 32
        settings |= {"width": 64, "height": 32}
    if family == "turbo":
        settings |= {"guidance_scale": 0.0}
    prompt = "a photo of a doctor"
    return ImageRow(prompt=prompt, seed=7, model=f"tiny-{family}", **(settings | options))


def denoiser(model):
    pipeline = model.pipeline()
    return pipeline.transformer if hasattr(pipeline, "transformer") else pipeline.unet


class Passes:
    """What the denoiser was given and answered, row by row, in each pass."""

    def __init__(self, module):
        self.inputs, self.outputs, self.kwargs, self.args = [], [], [], []
        self.handle = module.register_forward_hook(self.note, with_kwargs=True)

    def note(self, _module, args, kwargs, output):
        self.inputs.append((kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]).clone())
        self.outputs.append(output[0].clone())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.remove()


def packed(array):
    """A latent (c, h, w) as FLUX's tokens, by loops."""
    c, h, w = array.shape
    return np.array(
        [
            [array[k, 2 * i + di, 2 * j + dj] for k in range(c) for di in (0, 1) for dj in (0, 1)]
            for i in range(h // 2)
            for j in range(w // 2)
        ]
    )


def as_model_sees(family, array):
    return packed(array) if family == "flux" else array


def velocity_of(family, answer):
    return answer[:4] if family == "pixart" else answer  # its other four channels are the variance


def plain_passes(model, row):
    with Passes(denoiser(model)) as passes:
        (picture,) = model.generate([row])
    return passes, picture


def test_it_fills_the_role(models):
    assert isinstance(models["sd3"], Traceable)


@pytest.mark.parametrize("guidance_scale", [1.0, 4.0])
def test_the_trajectory_is_that_of_the_plain_generation(models, family, guidance_scale):
    model, row = models[family], a_row(family, guidance_scale=guidance_scale)
    passes, _ = plain_passes(model, row)
    steps = list(model.trace(row, ATTRIBUTES))
    assert [step.index for step in steps] == list(range(len(passes.inputs)))
    for step, given in zip(steps, passes.inputs, strict=True):
        np.testing.assert_allclose(as_model_sees(family, step.xt), given[0].numpy(), atol=1e-4, rtol=1e-4)


def test_velocities_are_the_raw_answers_to_each_text_at_the_same_latent(models, family):
    # Each text alone through the denoiser, in a generation of its own whose latent is put there by a hook.
    model, row = models[family], a_row(family)
    steps = list(model.trace(row, ATTRIBUTES, predicted=False))
    texts = [row.prompt, *(a.positive for a in ATTRIBUTES), *(a.negative for a in ATTRIBUTES)]
    for number, text in enumerate(texts):
        path = iter(steps)

        def put(_module, args, kwargs, path=path):
            import torch

            there = torch.from_numpy(as_model_sees(family, next(path).xt))
            if "hidden_states" in kwargs:
                return args, kwargs | {"hidden_states": there.expand_as(kwargs["hidden_states"])}
            return (there.expand_as(args[0]), *args[1:]), kwargs

        with denoiser(model).register_forward_pre_hook(put, with_kwargs=True):
            passes, _ = plain_passes(model, replace(row, prompt=text))
        for step, answer in zip(steps, passes.outputs, strict=True):
            found = [step.velocity, *step.velocity_positive, *step.velocity_negative][number]
            expected = velocity_of(family, answer[-1].numpy())
            np.testing.assert_allclose(as_model_sees(family, found), expected, atol=1e-4, rtol=1e-4)


def test_shapes_and_facts_of_a_step(models, family):
    # 32 x 24 pixels (w x h), four channels, half the size: (4, 12, 16).
    row = a_row(family)
    shape = (4, row.height // 2, row.width // 2)
    steps = list(models[family].trace(row, ATTRIBUTES))
    for step in steps:
        assert step.xt.shape == step.velocity.shape == shape
        assert step.velocity_positive.shape == step.velocity_negative.shape == (3, *shape)
        assert step.xt.dtype == step.velocity.dtype == step.velocity_negative.dtype == np.float32
        assert step.predicted.size == (row.width, row.height)
        assert step.space == SPACES[family]
        assert not step.guided
        index = stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative)
        assert index.shape == (3,)
        assert (index != 0).all()
    sigmas = [step.sigma for step in steps]
    assert 1 >= sigmas[0] > sigmas[-1] > 0
    assert sorted(sigmas, reverse=True) == sigmas


@pytest.mark.parametrize("guidance_scale", [1.0, 4.0])
def test_one_batched_pass_a_step(models, family, guidance_scale):
    model, row = models[family], a_row(family, guidance_scale=guidance_scale)
    with Passes(denoiser(model)) as passes:
        steps = list(model.trace(row, ATTRIBUTES))
    # The prompt and 2 x 3 sentences; with guidance the negative prompt once more. FLUX embeds guidance.
    n_rows = 7 + (guidance_scale > 1 and family != "flux")
    assert [len(given) for given in passes.inputs] == [n_rows] * len(steps)


def test_last_prediction_is_the_picture_that_is_generated(models):
    # At the last step of these samplers sigma falls to 0: x0 is where they arrive.
    for family in ("sd3", "flux", "sd2", "sdxl", "turbo", "sana"):
        for guidance_scale in (1.0, 4.0):
            row = a_row(family, guidance_scale=guidance_scale)
            (generated,) = models[family].generate([row])
            *_, last = models[family].trace(row, ATTRIBUTES[:1])
            difference = np.asarray(last.predicted, int) - np.asarray(generated.image, int)
            assert np.abs(difference).max() <= 1, family
            assert np.ptp(np.asarray(generated.image)) > 20


def test_epsilon_predictions_agree_with_the_scheduler_s_own(models):
    model, row = models["sd1"], a_row("sd1", guidance_scale=1.0)
    scheduler, own = model.pipeline().scheduler, []
    original = scheduler.step

    def step(model_output, timestep, sample, **kwargs):
        own.append(original(model_output, timestep, sample).pred_original_sample[0].numpy())
        return original(model_output, timestep, sample, **kwargs)

    scheduler.step = step
    try:
        list(model.generate([row]))
    finally:
        del scheduler.step
    steps = list(model.trace(row, [], predicted=False))
    for found, expected in zip(steps, own, strict=True):
        x0 = predicted_sample(found.xt, found.velocity, found.sigma, space="epsilon")
        np.testing.assert_allclose(x0, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "PNDMScheduler",
        "EulerDiscreteScheduler",
        "EulerAncestralDiscreteScheduler",
        "DPMSolverMultistepScheduler",
        "UniPCMultistepScheduler",
        "LCMScheduler",
    ],
)
def test_every_sampler_keeps_its_trajectory_and_noise_level(models, name):
    import diffusers

    model, row = models["sd1"], a_row("sd1")
    pipeline = model.pipeline()
    before = pipeline.scheduler
    pipeline.scheduler = getattr(diffusers, name).from_config(before.config, skip_prk_steps=True)
    try:
        passes, _ = plain_passes(model, row)
        timesteps = pipeline.scheduler.timesteps.long()
        steps = list(model.trace(row, ATTRIBUTES[:2], predicted=False))
    finally:
        pipeline.scheduler = before
    for step, given in zip(steps, passes.inputs, strict=True):
        np.testing.assert_allclose(step.xt, given[0].numpy(), atol=2e-4)
    # sigma² = 1 - cumulative alpha, from the betas themselves.
    betas = np.linspace(0.0001**0.5, 0.02**0.5, 1000) ** 2
    noise = np.sqrt(1 - np.cumprod(1 - betas))[timesteps]
    np.testing.assert_allclose([step.sigma for step in steps], noise, atol=1e-3)


def test_guided_velocities_are_extrapolated_from_the_negative_prompt(models):
    for family in GUIDED:
        model, row = models[family], a_row(family, guidance_scale=4.0, negative_prompt="a nurse")
        passes, _ = plain_passes(model, row)
        plain, guided = list(model.trace(row, ATTRIBUTES)), list(model.trace(row, ATTRIBUTES, guided=True))
        away = velocity_of(family, passes.outputs[0][0].numpy())
        for name in ("velocity", "velocity_positive", "velocity_negative"):
            expected = away + 4 * (getattr(plain[0], name) - away)
            np.testing.assert_allclose(getattr(guided[0], name), expected, atol=1e-3)
        assert all(step.guided for step in guided)
        for one, other in zip(plain, guided, strict=True):  # the trajectory and its picture stay the same
            np.testing.assert_allclose(one.xt, other.xt, atol=1e-5)
            np.testing.assert_array_equal(one.predicted, other.predicted)


def test_without_guidance_guided_velocities_are_the_conditional_ones_and_say_so(models):
    for family, scale in (("sd3", 1.0), ("flux", 4.0)):
        row = a_row(family, guidance_scale=scale)
        step = next(models[family].trace(row, ATTRIBUTES, guided=True))
        assert not step.guided


def test_embedded_guidance_matters_to_flux(models):
    one, other = (next(models["flux"].trace(a_row("flux", guidance_scale=g), [])) for g in (1.0, 8.0))
    assert (one.velocity != other.velocity).any()


def test_without_attributes_only_the_prompt_runs(models):
    with Passes(denoiser(models["sd3"])) as passes:
        step, *_ = models["sd3"].trace(a_row("sd3", guidance_scale=1.0), [])
    assert step.velocity_positive.shape == (0, 4, 12, 16)
    assert {len(given) for given in passes.inputs} == {1}


def test_pictures_are_decoded_only_when_asked_for(models):
    vae = models["sd3"].pipeline().vae
    seen = []
    with vae.decoder.register_forward_hook(lambda *_: seen.append(1)):
        assert all(s.predicted is None for s in models["sd3"].trace(a_row("sd3"), [], predicted=False))
        assert not seen
        list(models["sd3"].trace(a_row("sd3"), []))
        assert len(seen) == N_STEPS


def test_the_condition_is_traced(models):
    fair, extreme = (
        next(models["sd3"].trace(a_row("sd3", condition=condition), [])) for condition in ("fair", "extreme")
    )
    np.testing.assert_array_equal(fair.xt, extreme.xt)
    assert (fair.velocity != extreme.velocity).any()


def n_hooks(model):
    module = denoiser(model)
    return len(module._forward_hooks) + len(module._forward_pre_hooks)


def test_stopping_happens_at_the_very_next_step_and_nothing_stays_behind(models, family):
    model, row = models[family], a_row(family)
    (before,) = model.generate([row])
    seen = []

    def on_step(step, n_steps):
        seen.append((step, n_steps))
        if len(seen) == 2:
            raise Cancelled

    trace, steps = model.trace(row, ATTRIBUTES, on_step=on_step), []
    with pytest.raises(Cancelled):
        steps.extend(trace)
    assert len(steps) == 2
    assert seen == [(1, N_STEPS), (2, N_STEPS)]
    assert n_hooks(model) == 0
    (after,) = model.generate([row])
    np.testing.assert_array_equal(after.image, before.image)


def test_a_reader_that_leaves_stops_the_pipeline(models):
    model = models["sd3"]
    n_threads = threading.active_count()
    with Passes(denoiser(model)) as passes:
        trace = model.trace(a_row("sd3"), ATTRIBUTES)
        next(trace)
        next(trace)
        trace.close()
        assert len(passes.inputs) == 2
    assert n_hooks(model) == 0
    assert threading.active_count() == n_threads


def test_an_error_inside_is_raised_to_the_reader_and_nothing_stays_behind(models):
    model = models["sd3"]
    with pytest.raises(ValueError, match="divisible"):
        list(model.trace(a_row("sd3", width=31), ATTRIBUTES))
    assert n_hooks(model) == 0


def test_a_scheduler_of_several_passes_a_step_has_no_velocity(models):
    from diffusers import HeunDiscreteScheduler

    pipeline = models["sd1"].pipeline()
    before = pipeline.scheduler
    pipeline.scheduler = HeunDiscreteScheduler.from_config(before.config)
    try:
        with pytest.raises(InvalidInput, match=r"HeunDiscreteScheduler.*no velocity"):
            next(models["sd1"].trace(a_row("sd1"), ATTRIBUTES))
    finally:
        pipeline.scheduler = before


def test_a_family_without_velocity_says_so(models):
    from diffusers import DDPMPipeline

    parts = models["sd1"].pipeline()
    model = DiffusersTextToImage(ModelInfo(id="pixels", name="tiny", family="ddpm"), "nowhere", device="cpu")
    model.use(DDPMPipeline(parts.unet, parts.scheduler))
    with pytest.raises(InvalidInput, match=r"pixels: this family \(DDPMPipeline\) has no velocity"):
        next(model.trace(a_row("sd1"), ATTRIBUTES))


def test_a_second_pass_a_step_is_refused(tiny_flux):
    call = {"max_sequence_length": 8, "true_cfg_scale": 3.0}
    info = ModelInfo(id="tiny-flux", name="tiny", family="flux", options={"call": call, "batch_size": 1})
    model = DiffusersTextToImage(info, str(tiny_flux), device="cpu")
    with pytest.raises(InvalidInput, match="more than one pass"):
        list(model.trace(a_row("flux", negative_prompt="a nurse"), ATTRIBUTES))
    assert n_hooks(model) == 0


def test_work_waits_for_its_reader():
    done = []

    def work(hand):
        for i in range(3):
            done.append(i)
            hand(i)

    items = one_at_a_time(work)
    assert next(items) == 0
    assert done == [0]
    assert list(items) == [1, 2]


@pytest.mark.slow
def test_the_shipped_model_traces(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True, device="cpu"))
    info = services.model_info("calibration-diffusion")
    assert info.traceable
    model = services.text_to_image(info.id)
    row = ImageRow(
        prompt="a photo of a doctor",
        seed=3,
        model=info.id,
        condition="published",
        num_inference_steps=4,
        guidance_scale=1.0,
        width=info.width,
        height=info.height,
    )
    attributes = [Attribute(name="man", positive="a photo of a man", negative="a photo of a woman")]
    (generated,) = model.generate([row])
    steps = list(model.trace(row, attributes))
    services.close()
    difference = np.asarray(steps[-1].predicted, int) - np.asarray(generated.image, int)
    assert np.abs(difference).max() <= 1
    assert len(steps) == 4
    assert steps[0].sigma == 1


@pytest.mark.parametrize(("family", "dtype"), [("sd3", "bfloat16"), ("sdxl", "float16")])
def test_half_precision_weights_give_float32_steps_and_keep_their_type(models, family, dtype):
    import torch

    model, row = models[family], a_row(family, guidance_scale=1.0)
    full = list(model.trace(row, ATTRIBUTES))
    pipeline = model.pipeline()
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    try:
        for part in parts:
            part.to(getattr(torch, dtype))
        half = list(model.trace(row, ATTRIBUTES))
        assert pipeline.vae.dtype == getattr(torch, dtype)
    finally:
        for part in parts:
            part.to(torch.float32)
    for one, other in zip(half, full, strict=True):
        assert one.velocity.dtype == one.xt.dtype == np.float32
        np.testing.assert_allclose(one.velocity, other.velocity, atol=0.1)
        assert np.abs(np.asarray(one.predicted, int) - np.asarray(other.predicted, int)).mean() < 8
