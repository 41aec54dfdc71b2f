"""Studies of hosted models: every door, on a real server of the test's own."""

import json
from contextvars import copy_context
from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.context import LocalContext
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.app.build import on_token
from bias_core.app.cli import app
from bias_core.errors import HubNotReached
from bias_core.explore.options import explore_settings
from bias_core.models import endpoints
from bias_core.report.documents import to_markdown
from bias_core.report.export import to_export
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings
from bias_core.ui.visitor import Visitor, on_arrive
from tests.hosted_server import HostedServer, picture, refused
from tests.shared import RealServices
from tests.study.oasis_runs import findings, table
from tests.ui.signed_in import event

MODEL, KEY, READER = "openai:draw-1", "sk-servers-own-9876543210", "calibration-clip"


@pytest.fixture(autouse=True)
def _local(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(endpoints, "FIRST_PAUSE", 0.001)


def answer(number, request):
    """Prompts of an arm that names a doctor's gender are refused three times as often; all prompts are rewritten."""
    every = 2 if "woman" in request["prompt"] else 6
    if number % every == 1:
        return refused()
    return picture(number, revised_prompt=request["prompt"] + ", a cheerful portrait")


@pytest.fixture
def server():
    with HostedServer(answer).running() as running:
        yield running


@pytest.fixture
def services(server, tmp_path, assets):
    settings = Settings(
        data_dir=tmp_path / "data", assets_dir=assets, offline=True, device="cpu", images_url=server.url, images_key=KEY
    )
    built = RealServices(settings)
    yield built
    built.close()


def doctors(**more):
    usual = {"model": MODEL, "n_images": 24, "attributes": ["man"], "encoder": READER, "force": True}
    usual |= {"attribute_a": "", "attribute_b": "", "n_clusters": 0}
    return explore_settings(concept="doctor", **usual | more)


def run(services, settings, name="explore"):
    return complete(run_study(find_design(name), settings, services))


def test_refusals_are_a_finding_with_its_interval_and_rewriting_is_a_table(services, server):
    report = run(services, doctors())
    n = len([request for request in server.requests if request["prompt"]])
    refusal = findings(report)["refused"].estimate
    assert refusal.n == n == report.n_planned
    assert refusal.value == report.n_blocked / n > 0
    assert refusal.low < refusal.value < refusal.high
    assert refusal.method == "exact binomial 95 %"
    assert report.n_images == n - report.n_blocked
    assert table(report, "block_reasons").iloc[0]["pictures"] == report.n_blocked
    assert "moderation_blocked" in table(report, "block_reasons").iloc[0]["reason"]
    words = table(report, "rewritten_prompts").set_index("word")
    assert set(words.index) == {"cheerful", "portrait"}
    assert (words["added"] == report.n_images).all()
    notes = " ".join(report.results.notes)
    assert "is not known to take a seed" in notes
    assert f"{report.n_blocked} of {n} pictures were blocked" in notes
    assert "cheerful" in to_markdown(report)
    again = run(services, doctors())
    assert len(server.requests) == n
    assert findings(again)["refused"].estimate == refusal


def test_arms_are_compared_by_what_is_refused_and_without_pairs(services):
    arms = (Arm(name="doctor"), Arm(name="woman", template="{}, a woman"))
    report = run(services, doctors(arms=arms))
    difference = findings(report)["refused: woman - doctor"]
    assert difference.estimate.value == pytest.approx(0.5 - 1 / 6, abs=0.1)
    assert difference.p_value < 0.05
    differences = table(report, "differences")
    assert set(differences["compared on"]) == {"no seed in common"}
    assert "seeds" not in [one.key for one in report.results.tables]  # no paired pictures


def test_what_a_service_does_not_take_is_no_part_of_a_row(services):
    plain, set_ = (
        plan_study(find_design("explore"), doctors(**more), services).manifest.rows
        for more in ({}, {"num_inference_steps": 7, "guidance_scale": 3.0, "negative_prompt": "blurry"})
    )
    assert [row.id for row in plain] == [row.id for row in set_]
    assert {(row.num_inference_steps, row.guidance_scale) for row in plain} == {(0, 0.0)}
    assert {row.revision for row in plain} == {f"{services.settings.images_url.removeprefix('http://')}/draw-1"}


def test_a_study_of_the_papers_runs_and_says_its_refusals_by_group(services):
    options = {"nationalities": ["Indian", "Mexican"]}
    settings = StudySettings(model=MODEL, scale=0.01, encoder=READER, force=True, options=options)
    report = run(services, settings, "oasis-nationalities")
    by_group = table(report, "blocked_by_group")
    assert by_group["pictures"].sum() == report.n_planned
    assert by_group["blocked"].sum() == report.n_blocked > 0
    assert {"share", "low", "high"} <= set(by_group)


def test_a_key_is_in_no_file_report_export_or_message(services, tmp_path):
    visitor = services.for_visitor("sk-visitors-own-55555")
    report = run(visitor, doctors())
    export = to_export(report)
    written = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    texts = [to_markdown(report), repr(export.report), repr(export.facts), repr(report.settings)]
    for secret in ("sk-visitors-own-55555", KEY):
        assert not any(secret.encode() in content for content in written)
        assert not any(secret in text for text in texts)


def test_strangers_without_a_token_are_refused_before_anything_is_kept(services, server, tmp_path):
    settings = services.settings.model_copy(update={"public": True, "data_dir": tmp_path / "public"})
    public = RealServices(settings)
    with pytest.raises(HubNotReached, match="costs its user money"):
        run(public, doctors())
    assert not server.requests
    assert not list((tmp_path / "public").rglob("*.json"))
    assert run(public.for_visitor("sk-visitors-own-55555"), doctors()).n_images
    assert server.keys == {"Bearer sk-visitors-own-55555"}


@pytest.fixture
def command(server, tmp_path, assets, monkeypatch):
    monkeypatch.setattr("bias_core.services.Services", RealServices)
    own = {"DATA_DIR": str(tmp_path / "cli"), "ASSETS_DIR": str(assets), "DEVICE": "cpu", "IMAGES_URL": server.url}
    environment = {f"BIAS_{name}": value for name, value in own.items()} | {"MY_OWN_KEY": "sk-of-the-shell-4444"}
    return lambda *words: CliRunner().invoke(app, list(words), env=environment)


def test_the_command_line_estimates_and_runs_with_the_token_of_a_variable(command, server, tmp_path):
    hosted = f"--model {MODEL} --force --encoder {READER} --token-env MY_OWN_KEY"
    study = f"study run oasis-nationalities --scale 0.01 --option nationalities=Indian,Mexican {hosted}".split()
    estimate = command(*study, "--estimate", "--price", "0.04")
    said = " ".join(estimate.output.split())
    assert "requests to openai:draw-1, about" in said
    assert "at 0.04 USD a picture" in said
    assert not server.requests
    assert "price unknown" in " ".join(command(*study, "--estimate").output.split())
    out = tmp_path / "out"
    result = command(*study, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert server.keys == {"Bearer sk-of-the-shell-4444"}
    report = json.loads((out / "report.json").read_text())
    assert any(finding["measure"] == "Share blocked" for finding in report["findings"])
    written = [path for folder in ("out", "cli") for path in (tmp_path / folder).rglob("*")]
    assert not any(b"sk-of-the-shell" in path.read_bytes() for path in written if path.is_file())
    missing = command(*study[:-1], "NOT_THERE")
    assert missing.exit_code == 2
    assert "NOT_THERE" in missing.output


def test_programs_pay_with_the_token_in_a_header_of_their_call(services, server, tmp_path):
    settings = services.settings.model_copy(update={"public": True, "data_dir": tmp_path / "public"})
    tools = Tools(RealServices(settings))

    def call(**headers):
        def work():
            LocalContext.request.set(SimpleNamespace(headers=headers, client=SimpleNamespace(host="127.0.0.1")))
            like = {"model": MODEL, "n_images": 6, "attributes": ["man"], "encoder": READER, "force": True}
            return tools.explore("doctor", **like)

        return copy_context().run(work)

    with pytest.raises(gr.Error, match="costs its user money"):
        call()
    report = call(**{"x-hosted-model-token": "sk-of-a-program-333"})
    assert "sk-of-a-program" not in repr(report)
    assert server.keys == {"Bearer sk-of-a-program-333"}


def test_a_visitor_pays_with_the_token_of_the_page_or_of_the_sign_in(services):
    visitor = Visitor()
    assert visitor.services(services) is services
    with event(token="hf_signed_in"):
        on_arrive(visitor, None)
        assert "hf_signed_in" in repr(visitor.services(services).text_to_image("inference:org/flux")._token)
        on_token(visitor, " sk-typed ")
        assert visitor.services(services).text_to_image(MODEL).endpoint.key == "sk-typed"
        assert "sk-typed" not in repr(visitor) + repr(visitor.services(services).text_to_image(MODEL))
        on_token(visitor, "")
    assert visitor.services(services) is services


def test_an_exploration_measures_what_came_where_some_pictures_never_do(services, server):
    server.answer = lambda n, request: (503, b"busy") if "female" in request["prompt"] else picture(n)
    report = run(services, doctors(attribute_a="male", attribute_b="female", n_attribute_images=4))
    assert report.stopped
    assert any("4 of 32 pictures did not come" in note and "scores use the 28 of 32" in note
               for note in report.results.notes)  # fmt: skip
    assert findings(report)["refused"].estimate.n == 28
