"""Velocities of every family: conditional on the text alone, whichever way the family is guided."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bias_core.adapters import diffusers
from bias_core.adapters.family_facts import PipelineFacts, denoiser_of, facts_of, guidance_of, without_guidance
from bias_core.adapters.tracing import velocity_space
from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import stereotype_propagation_index
from bias_core.models.catalogue import load_catalogue
from bias_core.settings import ASSETS
from bias_core.types import Attribute
from tests.adapters.families import build, rows_of
from tests.adapters.newer_families import NEWER, OTHER_PROMPT, PROMPT, model_of, row_of

TRACED = [family for family in NEWER if family != "GLM-Image"]
# They make what guidance gives as long as what the text alone gives, token by token.
RESCALED = {"Qwen-Image", "NucleusMoE", "LongCat-Image", "Lumina 2"}
TOWARDS_THE_PICTURE = {"NucleusMoE", "Lumina 2"}  # what their networks answer; the pipelines turn it round
ATTRIBUTE = Attribute(name="nurse", positive=OTHER_PROMPT, negative="a man")


@pytest.fixture
def model(family, newer_pipeline):
    return model_of(family, newer_pipeline(family))


def first_velocity(model, row, **how):
    step = next(model.trace(row, [], predicted=False, **how))
    return step.velocity.astype(float), step.guided


@pytest.mark.parametrize("family", [family for family in TRACED if family not in RESCALED])
def test_the_conditional_velocity_is_where_guidance_begins(family, model):
    # v(g) = u + g (c - u), at the same noise: two scales say where the line is at the scale without guidance, c.
    weak, strong = row_of(family, guidance_scale=3.0), row_of(family, guidance_scale=5.0)
    (c, is_guided), (v3, guided), (v5, _) = (
        first_velocity(model, weak),
        first_velocity(model, weak, guided=True),
        first_velocity(model, strong, guided=True),
    )
    assert not is_guided
    unguided = without_guidance(facts_of(model.pipeline()), weak, {})
    assert guided == (unguided is not None)
    if unguided is None:
        np.testing.assert_array_equal(c, v3)
        return
    off = unguided[0].guidance_scale
    np.testing.assert_allclose(c, v3 - (3.0 - off) * (v5 - v3) / 2.0, atol=2e-4)
    assert np.abs(v3 - c).max() > 1e-3


@pytest.mark.parametrize("family", sorted(RESCALED))
def test_where_guidance_is_rescaled_the_conditional_velocity_is_what_the_network_answers_first(family, model):
    row, answers = row_of(family), []
    with denoiser_of(model.pipeline()).register_forward_hook(lambda *given: answers.append(given[-1][0])):
        list(model.generate([row]))
    velocity, guided = first_velocity(model, row)
    assert not guided
    text, away = (np.asarray(answer[0].float()).astype(float) for answer in answers[:2])
    sign = -1 if family in TOWARDS_THE_PICTURE else 1
    np.testing.assert_allclose(sign * velocity.ravel(), text.ravel(), atol=1e-4)
    combined = away + row.guidance_scale * (text - away)
    longer = np.linalg.norm(text, axis=-1, keepdims=True) / np.linalg.norm(combined, axis=-1, keepdims=True)
    if family == "LongCat-Image":
        longer = np.clip(longer, 0.0, 1.0)  # shorter only
    velocity, guided = first_velocity(model, row, guided=True)
    assert guided
    np.testing.assert_allclose(sign * velocity.ravel(), (combined * longer).ravel(), atol=1e-4)


@pytest.mark.parametrize("family", TRACED)
def test_a_sentence_has_the_velocity_that_it_would_have_as_the_prompt(family, model):
    (step, *_) = model.trace(row_of(family), [ATTRIBUTE], predicted=False)
    velocity, _ = first_velocity(model, row_of(family, prompt=OTHER_PROMPT))
    np.testing.assert_allclose(step.velocity_positive[0], velocity, atol=1e-5)
    (spi,) = stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative)
    assert 0 < abs(spi) < 1


def test_what_guidance_off_means_is_said_of_each_way_of_guiding(newer_pipeline):
    def off(family, call=None, **changes):
        facts = facts_of(newer_pipeline(family))
        found = without_guidance(facts, row_of(family, **changes), call or {})
        return found and (found[0].guidance_scale, found[1])

    assert off("Chroma") == (1.0, {"guidance_scale": 1.0})
    assert off("Chroma", guidance_scale=1.0) is None
    assert off("Chroma", {"guidance_scale": 1.0}) is None  # a model's options come before what is asked for
    assert off("Z-Image") == (0.0, {"guidance_scale": 0.0})
    assert off("Qwen-Image") == (1.0, {"true_cfg_scale": 1.0})
    assert off("Ideogram 4", guidance_scale=0.5) == (1.0, {"guidance_scale": 1.0})
    assert off("FLUX.2") is None
    assert off("FLUX.2 Klein, distilled") is None
    assert off("HunyuanImage") == (1.0, {"guider": 1.0})


def test_perturbed_attention_is_left_out_of_conditional_velocities(tiny_sd1):
    model = build("sd1", tiny_sd1, options={"batch_size": 1})
    parts = model.pipeline().components
    (row,) = rows_of("sd1", 1)
    expected, _ = first_velocity(model, row)
    perturbed = diffusers.StableDiffusionPAGPipeline(**parts, pag_applied_layers=["mid"])
    perturbed.set_progress_bar_config(disable=True)
    model.use(perturbed)
    velocity, guided = first_velocity(model, replace(row, guidance_scale=1.0))
    assert not guided
    np.testing.assert_allclose(velocity, expected, atol=1e-5)


def test_families_that_have_no_velocity_say_why(newer_pipeline):
    with pytest.raises(
        InvalidInput, match=r"tiny.*GlmImagePipeline.*no velocity to trace: its denoiser follows tokens"
    ):
        velocity_space(facts_of(newer_pipeline("GLM-Image")), "tiny")


def test_the_catalogue_says_of_each_class_what_the_tracer_does(tmp_path):
    catalogue = load_catalogue(ASSETS / "models.yaml")
    for name in {*catalogue.pipelines, "AuraFlowPipeline", "PRXPipeline"}:
        (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
        info, facts = catalogue.model(str(tmp_path)), PipelineFacts(kind=getattr(diffusers, name))
        euler = {"_class_name": "EulerDiscreteScheduler"}
        try:
            velocity_space(replace(facts, scheduler=euler), name)
            traceable = True
        except InvalidInput:
            traceable = False
        assert info.traceable == traceable, name


def test_guidance_of_a_family_that_is_not_known_is_said_where_it_stays_on(newer_pipeline):
    model = model_of("Chroma", newer_pipeline("Chroma"))
    pipeline, kind = model.pipeline(), type(model.pipeline())
    assert guidance_of(facts_of(pipeline)).least == 1

    class Stubborn(kind):
        """Guided at 1 too."""

        do_classifier_free_guidance = True

    pipeline.__class__ = Stubborn
    try:
        velocity, guided = first_velocity(model, row_of("Chroma", prompt=PROMPT, negative_prompt="a female"))
    finally:
        pipeline.__class__ = kind
    assert guided
    assert np.isfinite(velocity).all()
