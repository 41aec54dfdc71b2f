"""A reader of the calibration world reads pictures of that world, and others only where it is forced to."""

import zipfile
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.app.cli import app
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.explore.options import compare_settings, explore_settings
from bias_core.models.model_sources import Machine
from bias_core.papers.mcas.study import own_targets
from bias_core.papers.oasis.cells import own_concepts
from bias_core.papers.oasis.study_stop import regenerate
from bias_core.report.commands import drop_automatic_choices, to_command
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.published import matching_numbers, published_measures, to_runs
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.store.export import write_zip
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import Arm, StudySettings
from bias_core.types import Attribute
from bias_core.ui.study.result_page import header_html, trust_html
from tests import shared
from tests.explored import explore, measured, own_pictures, pictures_of
from tests.ui.fakes import FakeServices, PixelEncoder

services = shared.fake_services

SOURCES = "bias_core.models.model_sources"
OURS = "calibration-clip"
OTHER = "org/photographs"  # a model of which nobody knows what it draws
MAN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
SETTINGS = explore_settings(
    concept="doctor", attributes=(MAN,), attribute_a="", attribute_b="", n_images=4, num_inference_steps=1,
    encoder=OURS,
)  # fmt: skip
REFUSED = "reads? only pictures of the calibration world"


def explored(services, **changes):
    *_, report = explore(explore_settings(SETTINGS, **changes), services)
    return report


def noise(folder, prompts=("a photo of a doctor",), n=5):
    rng = np.random.default_rng(0)
    for prompt in prompts:
        (folder / prompt).mkdir(parents=True)
        for i in range(n):
            pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / prompt / f"{i}.png")
    return folder


# The others draw conditions or take an adapter away, which other models do not have: they say that instead.
ON_ANY_MODEL = [
    design
    for design in list_designs()
    if design.name not in ("tbyb-dataset", "tbyb-controlled", "causes", "causes-prior")
]


@pytest.mark.parametrize("design", ON_ANY_MODEL, ids=lambda design: design.name)
def test_every_study_refuses_it_before_anything_is_laid_out(services, design, monkeypatch):
    monkeypatch.setattr("bias_core.run.image_rows.RowMaker.make_rows", None)
    with pytest.raises(InvalidInput, match=REFUSED) as caught:
        plan_study(design, StudySettings(model=OTHER, encoder=OURS, scale=0.01), services)
    assert "\n" not in str(caught.value)
    assert f"score anyway with {OURS}" in str(caught.value)
    assert "--force" in str(caught.value)


def test_the_sentence_names_readers_of_every_role_that_is_missing(services):
    options = {"captioner": "calibration-captioner"}
    settings = StudySettings(model=OTHER, encoder=OURS, scale=0.01, options=options)
    with pytest.raises(InvalidInput) as caught:
        plan_study(find_design("tbyb-general"), settings, services)
    said = str(caught.value)
    assert said.startswith("calibration-clip and calibration-captioner read only pictures")
    assert "openai/clip-vit-base-patch32" in said
    assert "blip-base as captioner" in said
    for options, says in (
        ({"finder": "calibration-finder"}, r"calibration-finder.*fasterrcnn or ssdlite as finder"),
        (
            {"labeller": "vqa", "answerer": "calibration-answerer"},
            r"^calibration-answerer reads .* take blip-vqa as answerer",
        ),
    ):
        with pytest.raises(InvalidInput, match=says):
            plan_study(find_design("pst-occupations"), replace(settings, encoder="auto", options=options), services)


def test_designs_of_ones_own_and_encoders_among_the_options_are_no_way_around(services):
    words = {"concepts": ["nurse"], "template": "a {}", "attributes": [MAN], "n": 4}
    for design in (own_targets("judge\nnurse\ncook"), own_concepts(find_design("oasis-stop"), **words)):
        with pytest.raises(InvalidInput, match=REFUSED):
            plan_study(design, StudySettings(model=OTHER, encoder="calibration-clip"), services)
    encoders = {"encoders": "org/clip,calibration-clip"}
    listed = StudySettings(model=OTHER, scale=0.01, encoder="org/clip", options=encoders)
    with pytest.raises(InvalidInput, match=r"^calibration-clip reads"):
        plan_study(find_design("internal-bias"), listed, services)


def test_other_readers_read_other_pictures_and_people_need_none(services):
    plan = plan_study(find_design("t2iat-tests"), StudySettings(model=OTHER, encoder="org/clip", scale=0.01), services)
    assert plan.warning == ""
    assert explored(services, model=OTHER, encoder="org/clip").warning == ""
    assert explored(services, encoder="org/clip").warning == ""  # and those of the calibration world
    people = StudySettings(model=OTHER, scale=0.01, options={"labeller": "people"})
    with pytest.raises(InvalidInput, match="CSV"):  # and not that a reader is refused
        plan_study(find_design("pst-occupations"), people, services)


def test_a_comparison_with_an_arm_that_it_cannot_read_draws_nothing(services, tmp_path):
    fresh = FakeServices(tmp_path)
    asked = compare_settings("doctor", (Arm(), Arm(model=OTHER)), attributes=(MAN,), encoder=OURS, n_images=2)
    with pytest.raises(InvalidInput, match=f"{OTHER} may show anything"):
        list(explore(asked, fresh))
    assert not list(tmp_path.rglob("*.png"))
    assert not fresh.manifests.list()
    fresh.close()


def test_a_forced_run_claims_nothing_and_stands_beside_no_published_number(services):
    report = explored(services, model=OTHER, force=True).report
    findings, frames = report.results.findings, [table.frame for table in report.results.tables]
    assert findings
    assert not [finding.key for finding in findings if finding.says or finding.p_value is not None]
    assert {finding.claim.verdict for finding in findings} == {"not tested"}
    assert not [frame for frame in frames if "clear" in frame and (frame["clear"] != "").any()]
    measures = published_measures().values()
    assert not [measure.key for measure in measures if matching_numbers(measure, to_runs([("mine", report)]))]
    assert trust_html(report, {"attribute_prevalence": "holds"}) == ""


def test_a_forced_exploration_study_or_comparison_says_so_first(services):
    report = explored(services, model=OTHER, force=True)
    assert header_html(report.report, "").startswith('<p class="warning" role="alert">Forced: calibration-clip')
    assert to_command(report.design, report.settings).endswith("--force")
    settings = StudySettings(model=OTHER, encoder=OURS, scale=0.01, force=True)
    study = complete(run_study(find_design("oasis-doctors"), settings, services))
    assert "Forced" in to_export(study).facts.summary
    for one in (report.report, study):
        assert one.warning.startswith("Forced: calibration-clip")
        assert to_markdown(one).splitlines()[2] == f"> **{one.warning}**"
        assert next(iter(to_dict(one).items())) == ("warning", one.warning)
    arms = (Arm(), Arm(model=OTHER))
    asked = compare_settings("doctor", arms, attributes=(MAN,), encoder=OURS, n_images=3, force=True)
    *_, compared = explore(asked, services)
    assert compared.warning.count("Forced") == 1
    assert OTHER in to_markdown(compared.report)


def test_imported_noise_is_refused_by_every_study_that_takes_it(services, tmp_path):
    folder = noise(tmp_path / "mine")
    with pytest.raises(InvalidInput, match="of imported:mine may show anything"):
        measured(StudySettings(images=str(folder), encoder=OURS), services)
    for design in (find_design("tbyb-dataset"), find_design("oasis-doctors")):
        with pytest.raises(InvalidInput, match="of imported:mine may show anything"):
            complete(run_study(design, StudySettings(images=str(folder), encoder=OURS), services))
    forced = StudySettings(images=str(folder), encoder=OURS, force=True)
    assert "imported:mine" in measured(forced, services).warning


@pytest.fixture(scope="module")
def exported(services, tmp_path_factory):
    """A zip of pictures that a calibration model drew, each with its record."""
    settings = StudySettings(scale=0.01)
    report = complete(run_study(find_design("oasis-doctors"), settings, services))
    return write_zip(pictures_of(report), tmp_path_factory.mktemp("zip") / "drawn.zip")


def test_imported_pictures_of_a_calibration_model_are_known_by_their_own_record(services, exported):
    report = measured(StudySettings(images=str(exported)), services)
    assert report.warning == ""
    assert report.settings.model == "imported:drawn"
    other = FakeServices(services.settings.data_dir)
    other.revision = lambda name: f"newer-{name}"  # these weights drew none of them
    with pytest.raises(InvalidInput, match=REFUSED):
        measured(StudySettings(images=str(exported), encoder=OURS), other)
    other.close()


def test_one_picture_from_elsewhere_makes_an_import_unknown(services, exported, tmp_path):
    with zipfile.ZipFile(exported) as archive:
        archive.extractall(tmp_path / "both")
    whole = StudySettings(images=str(tmp_path / "both"), encoder=OURS)
    plan_study(find_design("explore"), own_pictures(whole), services)
    drawn = sorted((tmp_path / "both").rglob("train/*.png"))[0]
    with Image.open(drawn) as image:
        image.convert("RGB").save(drawn)  # without its record
    with pytest.raises(InvalidInput, match=REFUSED):
        plan_study(find_design("explore"), own_pictures(whole), services)


def test_whose_pictures_and_readers_are_of_the_calibration_world(services, tmp_path):
    (lora := tmp_path / "mine.safetensors").touch()
    folder = str(services.settings.assets_dir / "calibration" / "clip")
    assert [services.pictures_world(name) for name in ("calibration-diffusion", "calibration-lab/diffusion")] == [
        "calibration", "",
    ]  # fmt: skip
    assert [services.reader_world("encoder", name) for name in (folder, "org/clip")] == ["calibration", ""]
    with pytest.raises(InvalidInput, match="may show anything"):
        explored(services, model=f"calibration-diffusion+{lora}")  # a LoRA of one's own leaves it
    for model, encoder in ((OTHER, folder), ("calibration-lab/diffusion", OURS)):
        with pytest.raises(InvalidInput, match=REFUSED):
            explored(services, model=model, encoder=encoder)
    real, pair = super(FakeServices, services), [("a photo of a man", "a photo of a woman")]
    for encoder, model in (
        (OURS, OTHER), (OURS, "imported:mine"), ("org/clip", "calibration-renderer"),
        (OURS, f"calibration-diffusion+{lora}"),
    ):  # fmt: skip
        assert real.reader_errors(encoder, model, pair) == (None,)


def test_readers_that_this_machine_has_no_room_for_are_not_named(services, monkeypatch):
    monkeypatch.setattr(f"{SOURCES}.free_disk", lambda: int(0.7e9))
    assert services.fitting_readers("encoder")[:1] == ("openai/clip-vit-base-patch32",)
    assert "google/siglip2-base-patch16-224" not in services.fitting_readers("encoder")
    monkeypatch.setattr(f"{SOURCES}.free_disk", lambda: 0)
    assert services.fitting_readers("encoder") == ()
    with pytest.raises(InvalidInput, match="none of the listed encoders fits this machine"):
        explored(services, model=OTHER)


@pytest.fixture
def command(services, monkeypatch):
    """The command line, on these services."""
    monkeypatch.setattr(services, "close", lambda: None)
    monkeypatch.setattr("bias_core.services.Services", lambda: services)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


STUDY = ("oasis-doctors", "--scale", "0.01", "--model", OTHER, "--encoder", OURS)
DOORS = [
    ("explore", "doctor", "--model", OTHER, "--encoder", OURS, "-n", "2"),
    ("study", "run", *STUDY),
    ("study", "run", *STUDY, "--dry-run"),
    ("compare", "doctor", "--arm", f"model={OTHER}", "--arm", "condition=fair", "--encoder", OURS, "-n", "2"),
]


@pytest.mark.parametrize("arguments", DOORS, ids=lambda arguments: " ".join(arguments[:2]))
def test_the_command_line_refuses_it_in_one_sentence(command, arguments):
    result = command(*arguments)
    assert result.exit_code == 2
    assert "calibration-clip reads only pictures of the calibration world" in result.output
    assert "Traceback" not in result.output


def test_a_forced_command_and_a_forced_tool_say_so(command, services):
    for arguments in (DOORS[0], DOORS[1]):
        result = command(*arguments, "--force")
        assert result.exit_code == 0, result.output
        assert 0 <= result.output.index("Forced: calibration-clip") < result.output.index("n ")
    tools = Tools(services)
    asked = {"concept": "doctor", "attributes": ["man"], "n_images": 2, "encoder": OURS, "force": True}
    assert tools.explore(**asked, model=OTHER)["warning"].startswith("Forced")
    assert tools.run_study("oasis-doctors", model=OTHER, encoder=OURS, scale=0.01, force=True)["warning"]
    assert tools.compare(**asked, arms=["condition=fair", f"model={OTHER}"])["warning"]


def test_a_dry_run_of_drawing_alone_says_what_measuring_will_meet(command):
    result = command("study", "run", *STUDY, "--draw-only", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "not measured like this: calibration-clip reads only pictures" in result.output
    assert "Forced" in command("study", "run", *STUDY, "--draw-only", "--dry-run", "--force").output


def test_texts_are_not_drawn_for_a_report_that_the_reader_could_not_read(services):
    options = {"nationalities": ["Iranian"], "n_tokens": 1, "n_generated": 0}
    settings = StudySettings(model=OTHER, encoder="org/clip", scale=0.004, options=options)
    report = complete(run_study(find_design("oasis-stop"), settings, services))
    assert any("knows only sentences of the calibration world" in note for note in report.results.notes)
    cluster = str(report.pictures["cluster"].iloc[0])
    older = replace(report, settings=replace(report.settings, encoder="calibration-clip"))
    with pytest.raises(InvalidInput, match=REFUSED):
        complete(regenerate(older, services, cluster=cluster, prompt="a person", n=1))


def test_a_condition_exists_only_for_models_that_have_conditions(services):
    report = explored(services, model=OTHER, encoder="org/clip")
    assert report.settings.condition == ""
    assert services.manifests.get(report.run_id).settings["condition"] == ""
    exported = to_markdown(report.report) + to_command(report.design, report.settings)
    assert "published" not in exported + header_html(report.report, "")
    settings = StudySettings(model=OTHER, encoder="org/clip", scale=0.01)
    study = complete(run_study(find_design("oasis-doctors"), settings, services))
    assert study.settings.condition == services.manifests.get(study.run_id).settings["condition"] == ""
    assert f"pictures of {OTHER}, classified by" in to_export(study).markdown
    assert "--condition" not in to_export(study).facts.command
    named = explored(services, model=OTHER, encoder="org/clip", condition="")
    assert named.run_id == report.run_id  # it is the same question


PHOTOGRAPHS = "google/siglip2-base-patch16-224"  # what reads them on a machine without a GPU


def test_a_reader_that_nobody_named_suits_the_pictures_of_every_study(services):
    for design, model in product(ON_ANY_MODEL, ("calibration-diffusion", OTHER)):
        ours = model != OTHER
        plan = plan_study(design, StudySettings(model=model, scale=0.01), services)
        readers = plan.study.readers(plan.settings)
        assert readers
        assert not [reader for reader in readers if reader.name == "auto"]
        assert all((services.reader_world(reader.role, reader.name) == "calibration") is ours for reader in readers)
        assert plan.warning == ""


def test_the_reader_is_part_of_the_run_whoever_named_it(services):
    design = find_design("oasis-doctors")
    automatic = plan_study(design, StudySettings(scale=0.01), services)
    assert automatic.settings.encoder == OURS
    assert automatic.manifest.id == plan_study(design, StudySettings(scale=0.01, encoder=OURS), services).manifest.id
    other = plan_study(design, StudySettings(model=OTHER, scale=0.01), services)
    assert other.settings.encoder == PHOTOGRAPHS
    assert other.manifest.settings["encoder"] == PHOTOGRAPHS


def test_arms_of_two_worlds_are_read_by_one_reader_of_both(services):
    asked = compare_settings("doctor", (Arm(), Arm(model=OTHER)), attributes=(MAN,), n_images=3)
    *_, report = explore(asked, services)
    assert {arm.settings.encoder for arm in report.arms} == {report.settings.encoder} == {PHOTOGRAPHS}
    assert [arm.name for arm in report.arms] == ["calibration-renderer", OTHER]  # and not after a condition
    assert report.arms[1].settings.condition == ""
    same = compare_settings("doctor", (Arm(), Arm(condition="fair")), attributes=(MAN,), n_images=3)
    plan = plan_study(find_design("explore"), same, services)
    assert {arm.settings.encoder for arm in plan.arms} == {plan.settings.encoder} == {OURS}


def test_a_report_says_who_read_and_whether_its_errors_are_known(services):
    ours = explored(services, encoder="auto")
    assert [(facts.role, facts.id) for facts in ours.read_by] == [("encoder", OURS)]
    assert ours.read_by[0].revision
    said = to_markdown(ours.report)
    assert f"- Read by Calibration CLIP ({OURS}, revision {ours.read_by[0].revision[:12]}, encoder); its error" in said
    assert "its error rates were measured on other pictures" in said
    other = explored(services, model=OTHER, encoder="auto")
    assert "its error rates on these pictures are unknown" in to_markdown(other.report)
    assert f"classified by {PHOTOGRAPHS}" in header_html(other.report, "")


def test_a_report_gives_auto_back_where_nobody_named_its_reader(services):
    for encoder in ("auto", OURS):  # of pictures of the calibration world nobody has to name it
        report = explored(services, encoder=encoder).report
        assert report.settings.encoder == OURS
        assert drop_automatic_choices(report.design, report.settings).encoder == "auto"
    foreign = explored(services, model=OTHER, encoder="auto").report
    assert drop_automatic_choices(foreign.design, foreign.settings).encoder == PHOTOGRAPHS
    forced = explored(services, model=OTHER, encoder=OURS, force=True).report
    assert drop_automatic_choices(forced.design, forced.settings).encoder == OURS


def test_a_plan_says_who_will_read_and_what_that_downloads(command):
    result = command("study", "run", "oasis-doctors", "--scale", "0.01", "--model", OTHER, "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"Classified by SigLIP 2 base 224 (transformers) ({PHOTOGRAPHS}, encoder, downloads 1.5 GB first)." in (
        " ".join(result.output.split())
    )


def test_a_machine_with_a_gpu_has_a_larger_reader_and_offline_one_that_is_here(services, monkeypatch):
    assert services.default_reader("encoder", "calibration") == OURS
    assert services.default_reader("encoder", "") == PHOTOGRAPHS
    monkeypatch.setattr(f"{SOURCES}.get_machine", lambda: Machine(memory=64 << 30, gpu_memory=24 << 30))
    with_gpu = FakeServices(services.settings.data_dir)
    with_gpu.settings = with_gpu.settings.model_copy(update={"device": "auto", "offline": False})
    assert with_gpu.default_reader("encoder", "") == "google/siglip2-so400m-patch16-384"
    monkeypatch.setattr(f"{SOURCES}.is_cached", lambda path, **_: path == "openai/clip-vit-base-patch32")
    assert with_gpu.default_reader("encoder", "") == "google/siglip2-so400m-patch16-384"
    assert services.default_reader("encoder", "") == "openai/clip-vit-base-patch32"
    monkeypatch.setattr(f"{SOURCES}.free_disk", lambda: 0)
    with_gpu.close()


def test_nothing_is_drawn_where_nobody_could_read_it(services, tmp_path):
    class RealReaders(FakeServices):
        encoder, captioner, person_finder = Services.encoder, Services.captioner, Services.person_finder
        answerer = Services.answerer

    fresh = RealReaders(tmp_path)
    asked = StudySettings(model=OTHER, scale=0.01)
    by_questions = replace(asked, options={"labeller": "vqa"})
    offered = r"\(calibration-clip, which is installed but .*: add “Score anyway” \(--force\); a hub"
    with pytest.raises(ModelUnavailable, match=offered):
        complete(run_study(find_design("explore"), replace(asked, force=True), fresh))  # which chooses no reader
    for name, settings in (
        ("explore", asked), ("oasis-doctors", asked), ("tbyb-general", asked), ("pst-occupations", asked),
        ("pst-occupations", by_questions),
    ):  # fmt: skip
        with pytest.raises(ModelUnavailable, match=r"(nobody can read|is not on this machine)") as caught:
            complete(run_study(find_design(name), settings, fresh))
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.png"))
    fresh.close()


def test_several_readers_read_the_same_pictures_and_their_spread_stands_beside_the_interval(services, monkeypatch):
    class Contrary(PixelEncoder):
        """Takes every man for a woman."""

        name = "contrary"

        def encode_texts(self, texts):
            return -super().encode_texts(texts)

    real = services.encoder
    monkeypatch.setattr(services, "encoder", lambda name: Contrary() if name == "org/contrary" else real(name))
    asked = explore_settings(SETTINGS, n_images=6, further_encoders=("org/contrary", "org/clip"))
    *_, report = explore(asked, services)
    finding = next(one for one in report.results.findings if one.metric == "attribute_prevalence")
    share = finding.estimate.value
    assert finding.by_reader == pytest.approx({OURS: share, "org/contrary": 1 - share, "org/clip": share})
    table = next(one for one in report.results.tables if one.key == "readers").frame.set_index("")
    assert table.loc[finding.title, "spread between classifiers"] == pytest.approx(abs(1 - 2 * share))
    assert [facts.id for facts in report.read_by] == [OURS, "org/contrary", "org/clip"]
    alone = explored(services, n_images=6)
    assert next(one for one in alone.results.findings if one.key == finding.key).estimate == finding.estimate
    assert alone.run_id != report.run_id
    assert "between classifiers" in to_markdown(report.report)
    assert "between classifiers" not in to_markdown(alone.report)
    assert "--further-encoders org/contrary,org/clip" in to_command(report.design, report.settings)


def test_a_further_reader_must_be_able_to_read_and_its_reading_must_matter(services):
    design = find_design("oasis-doctors")
    with pytest.raises(InvalidInput, match=REFUSED):
        plan_study(design, StudySettings(model=OTHER, scale=0.01, further_encoders=(OURS,)), services)
    asked = StudySettings(scale=0.01, further_encoders=("org/clip",), options={"labeller": "vqa"})
    with pytest.raises(InvalidInput, match="further encoders would change nothing"):
        plan_study(find_design("pst-occupations"), asked, services)


def test_every_arm_and_their_difference_are_read_by_all_readers(services):
    arms = (Arm(), Arm(condition="fair"))
    asked = compare_settings("doctor", arms, attributes=(MAN,), n_images=6, further_encoders=("org/clip",))
    *_, report = explore(asked, services)
    for results in (report.results, *(arm.results for arm in report.arms)):
        assert results.findings
        assert all(set(one.by_reader) == {OURS, "org/clip"} for one in results.findings)
