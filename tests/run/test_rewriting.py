"""Prompts that are rewritten before they are drawn: by a language model, or by the model that draws."""

import json
from types import SimpleNamespace

import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.explore.options import explore_settings
from bias_core.models.pipeline_call import call_arguments
from bias_core.run.image_rows import FAIR_INSTRUCTION
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import Arm
from bias_core.types import ImageRow, ModelInfo
from tests.hosted_server import FakeServer
from tests.models.test_endpoints import chat


def rewrite(request):
    """Writes a woman into every prompt."""
    prompt = request["messages"][0]["content"].rpartition("Prompt: ")[2]
    return chat(f'Prompt: "{prompt.replace("doctor", "female doctor")}"')


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    fake = FakeServer(rewrite)
    with fake.running() as url:
        fake.url = url
        yield fake


@pytest.fixture
def services(server, tmp_path, assets):
    how = {"offline": True, "device": "cpu", "llm_url": server.url, "llm_model": "wise"}
    built = Services(Settings(data_dir=tmp_path / "data", assets_dir=assets, **how))
    yield built
    built.close()


def doctors(**more):
    like = {"attributes": ["man"], "n_images": 8, "encoder": "calibration-clip", "attribute_a": "", "attribute_b": ""}
    return explore_settings(concept="doctor", **like, **more)


def run(services, settings):
    return complete(run_study(find_design("explore"), settings, services))


def test_what_is_drawn_is_the_rewritten_prompt_and_the_study_keeps_its_own(services, server):
    report = run(services, doctors(rewrite="fair"))
    assert len(server.requests) == 1
    assert FAIR_INSTRUCTION in server.requests[0]["messages"][0]["content"]
    rows = [stored.row for stored in report.stored.values()]
    assert {row.prompt for row in rows} == {"a photo of a female doctor"}
    assert set(report.pictures["prompt"]) == {"a photo of a doctor"}
    words = next(one.frame for one in report.results.tables if one.key == "rewritten_prompts")
    assert words.iloc[0].to_dict() == {"word": "female", "added": 8, "taken away": 0, "share of rewritten": 1.0}
    assert any(FAIR_INSTRUCTION in note and "endpoint" in note for note in report.results.notes)
    with Image.open(next(iter(report.stored.values())).path) as image:
        assert json.loads(image.text["bias_core"])["row"]["prompt"] == "a photo of a female doctor"


def test_a_second_run_asks_nobody_and_draws_the_same(services, server):
    first, asked = run(services, doctors(rewrite="Name a colour.")), len(server.requests)
    again = run(services, doctors(rewrite="Name a colour."))
    assert asked == len(server.requests) == 1
    assert first.stored.keys() == again.stored.keys()
    run(services, doctors(rewrite="Name a fruit."))  # another instruction is another question
    assert len(server.requests) == 2


def test_rewriting_is_compared_as_arms_on_the_same_seeds(services):
    report = run(services, doctors(arms=(Arm(rewrite="off"), Arm(rewrite="fair"))))
    assert [arm.name for arm in report.arms] == ["prompts as they are", "rewritten to be fair"]
    differences = next(one.frame for one in report.results.tables if one.key == "differences")
    assert set(differences["compared on"]) == {"same seeds"}
    prompts = [{row.prompt for row in plan.manifest.rows} for plan in plan_of(services, report.settings).arms]
    assert prompts == [{"a photo of a doctor"}, {"a photo of a female doctor"}]


def plan_of(services, settings, **how):
    return plan_study(find_design("explore"), settings, services, **how)


def test_off_is_the_run_without_rewriting_and_an_estimate_asks_no_language_model(services, server):
    plain, off = (plan_of(services, doctors(**more)) for more in ({}, {"rewrite": "off"}))
    assert [row.id for row in plain.manifest.rows] == [row.id for row in off.manifest.rows]
    assert len(plan_of(services, doctors(rewrite="fair"), estimate=True).manifest.rows) == 8
    assert not server.requests


def test_who_cannot_rewrite_is_refused_with_what_to_take(services):
    own = {"rewrite": "own"}
    for more, error, says in (
        ({"rewrite": "fair", "rewriter": "calibration-language"}, InvalidInput, "follows no instructions.*smollm2"),
        ({"rewrite": "fair", "rewriter": "nobody"}, UnknownModel, "no language model 'nobody'"),
        (own | {"model": "calibration-renderer"}, InvalidInput, "calibration-renderer cannot rewrite prompts itself"),
        (own | {"model": "calibration-diffusion"}, InvalidInput, "StableDiffusion3Pipeline.*rewrite=own"),
    ):
        with pytest.raises(error, match=says):
            plan_of(services, doctors(**more))


def test_without_an_endpoint_a_rewriter_must_be_named(tmp_path, assets):
    services = Services(Settings(data_dir=tmp_path, assets_dir=assets, offline=True, device="cpu"))
    with pytest.raises(InvalidInput, match=r"a language model must rewrite the prompts: take endpoint.*--rewriter"):
        plan_of(services, doctors(rewrite="fair"))


def test_an_answer_that_is_no_prompt_is_said(services, server):
    server.answers = [chat("word " * 900)]
    with pytest.raises(ModelUnavailable, match="which is not a prompt; choose another rewriter"):
        plan_of(services, doctors(rewrite="fair"))


class Rewrites:
    """A pipeline that may rewrite its prompt."""

    config: dict = {}  # noqa: RUF012
    transformer = scheduler = SimpleNamespace(config={})

    def __call__(self, prompt, generator, num_inference_steps, guidance_scale=1.0, use_pe=True):
        """Never called."""


def test_a_pipelines_own_rewriting_is_on_where_the_row_says_so_and_part_of_the_rows_identity():
    row, info = ImageRow(prompt="x", seed=0, model="m"), ModelInfo(id="m", name="", family="diffusers")
    own = ImageRow(prompt="x", seed=0, model="m", rewrite="own")
    assert call_arguments(Rewrites(), info, [row])["use_pe"] is False
    assert call_arguments(Rewrites(), info, [own])["use_pe"] is True
    assert own.id != row.id
