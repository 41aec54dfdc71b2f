"""A paper's protocol: what it fills in, what a report says of it, and that pictures and runs keep their ids."""

from dataclasses import asdict, replace

import pytest
import yaml

from bias_core.errors import InvalidInput, StorageError
from bias_core.studies.association.tab import AssociationTab
from bias_core.studies.internal.study import own_targets
from bias_core.studies.kit.designs import design_files, find_design, list_designs, typed_options
from bias_core.studies.kit.protocol import protocol_of, with_protocol
from bias_core.studies.kit.setting_fields import option_values, settings_of
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.running.arms import parse_arms
from bias_core.studies.running.checklist import outlook
from bias_core.studies.running.export import is_shipped, to_export
from bias_core.studies.running.run import complete, plan_study, run_study, with_options
from bias_core.types import ImageRow
from tests import shared
from tests.every import every
from tests.explored import explored
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

real = shared.real_services

PAPERS = [design.name for design in list_designs() if design.protocol]
RENDERED = StudySettings(model="calibration-renderer", scale=0.005, protocol="paper")
STATUSES = {"met", "differs", "not printed", "our reading"}


def as_in_the_paper(name, **given):
    return with_options(find_design(name), StudySettings(protocol="paper", **given))


def checklist(report):
    return report.results.frame("protocol").set_index("item")


def test_every_study_of_a_paper_has_a_protocol_of_settings_and_options_that_can_be_used():
    assert {design.reference for design in list_designs() if design.protocol} == {
        "wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis",
    }  # fmt: skip
    assert len(PAPERS) == 16
    for name in PAPERS:
        design = find_design(name)
        items, settings = protocol_of(design), as_in_the_paper(name)
        assert {"wording", "pictures", "num_inference_steps", "guidance_scale", "size", "sampler"} <= items.keys(), name
        assert all(item.words for item in items.values()), name
        assert settings.protocol == ""
        for key in items.keys() & settings_of(StudySettings).keys():
            if items[key].value is not None and not settings.model.startswith("calibration-"):
                assert getattr(settings, key) == items[key].value, (name, key)


@every([
    ("t2iat-tests", ("stable-diffusion-2-1", 50, 7.5, "512x512", "openai/clip-vit-base-patch32"), {}),
    (
        "tbyb-general", ("stable-diffusion-v1-5", 100, 7.5, "512x512", "open_clip:ViT-L-14/openai"),
        {"captioner": "blip-base", "paper_wording": True},
    ),
    (
        "oasis-nationalities", ("stable-diffusion-2-base", None, None, "", "open_clip:ViT-g-14/laion2b_s34b_b88k"),
        {"templates": "sdv2", "published_model": "SDv2"},
    ),
    (
        "internal-bias", ("stable-diffusion-2-base", None, None, "", "open_clip:ViT-B-32/openai"),
        {
            "text_targets": "keyword", "variant": True,
            "encoders": tuple(f"open_clip:{name}/openai" for name in (
                "RN50", "RN50x4", "RN50x16", "RN101", "ViT-B-16", "ViT-B-32",
            )),
        },
    ),
    ("pst-occupations", ("openai:dall-e-3", None, None, "", "auto"), {"answerer": "blip-vqa", "single_images": 3}),
])  # fmt: skip
def test_the_protocol_of_each_paper_is_filled_in(name, expected, options):
    settings = as_in_the_paper(name)
    names = ("model", "num_inference_steps", "guidance_scale", "size", "encoder")
    assert tuple(getattr(settings, name) for name in names) == expected
    values = option_values(settings.options)
    assert {key: values[key] for key in options} == options


def test_what_somebody_gives_stays_also_where_it_is_the_default():
    given = as_in_the_paper(
        "tbyb-general", model="calibration-renderer", num_inference_steps=7, options={"paper_wording": "false"}
    )
    assert (given.model, given.num_inference_steps, given.size) == ("calibration-renderer", 7, "512x512")
    assert given.options.paper_wording is False
    assert given.options.captioner == given.encoder == "auto"  # the readers of photographs do not know that world
    copied = replace(StudySettings(protocol="paper"), scale=0.5)
    assert with_options(find_design("t2iat-tests"), copied).model == "stable-diffusion-2-1"
    typed = StudySettings(protocol="paper", options=typed_options(find_design("tbyb-general"), {"sets": ["objects"]}))
    filled = with_options(find_design("tbyb-general"), typed).options
    assert (filled.sets, filled.captioner) == (("objects",), "blip-base")
    fair = with_options(find_design("t2iat-tests"), StudySettings(protocol="paper", arms=(Arm(), Arm(size="64x64"))))
    assert (fair.size, fair.arms[1].size) == ("512x512", "64x64")


def test_a_study_that_follows_no_paper_says_so_and_has_no_checklist(real):
    assert explored(real, n_images=4, attributes=("man",)).results.frame("protocol").empty
    with pytest.raises(InvalidInput, match="explore follows no paper's protocol"):
        with_protocol(find_design("explore"), StudySettings(protocol="paper"))
    with pytest.raises(InvalidInput, match="protocol must be one of paper; got 'book'"):
        StudySettings(protocol="book")


def test_a_protocol_that_names_no_setting_is_refused(tmp_path):
    values = yaml.safe_load(design_files()["t2iat-tests"].read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values | {"protocol": {"colour": {"value": "red"}}}))
    with pytest.raises(StorageError, match="no setting or option of it: colour"):
        protocol_of(find_design(str(path)))
    path.write_text(yaml.safe_dump(values | {"protocol": {"size": {"colour": "red"}}}))
    with pytest.raises(StorageError, match="an item of a protocol has value, says, also and here"):
        protocol_of(find_design(str(path)))
    path.write_text(yaml.safe_dump(values | {"protocol": {"size": {"value": "256x256"}}}))
    assert as_in_the_paper(str(path)).size == "256x256"  # its own item goes before the paper's


@pytest.fixture(scope="module")
def report(real):
    return complete(run_study(find_design("tbyb-general"), RENDERED, real))


def test_a_report_says_what_is_met_and_how_it_differs(report):
    lines = checklist(report)
    assert set(lines["status"]) == STATUSES
    differing = lines[lines["status"] == "differs"]
    for item, paper, here in [
        ("Model", "Stable Diffusion v1.5", "calibration-renderer, published"),
        ("Number of denoising steps", "100", "none: it draws by rules"),
        ("Guidance scale", "7.5", "none: it draws by rules"),
        ("Picture size", "512x512", "128x128"),
        ("Number of pictures", "3,690 of 369 prompts", str(report.n_planned)),
        ("Reader (encoder)", "CLIP ViT-L/14", "calibration-clip"),
        ("Captioner", "BLIP", "calibration-captioner"),
        ("Wording of the prompts", "369 prompts", "all 420 of the released lists"),
    ]:
        assert paper in differing.loc[item, "the paper"], item
        assert here in differing.loc[item, "this run"], item
    assert lines.loc["The paper's wording", "status"] == "met"
    assert lines.loc[["Sampler", "Seed", "Revision of the model"], "status"].eq("not printed").all()
    note = "calibration-renderer draws by rules, always 128x128 pixels, so the size of the settings has no effect."
    assert note in report.results.notes


def test_the_checklist_goes_wherever_the_report_goes(report):
    markdown = to_markdown(report)
    assert "## The paper's protocol: met, or how this run differs" in markdown
    for reading in report.design.our_reading:
        assert reading in markdown.replace("\\|", "|")
    assert "tables/protocol" in to_export(report).tables
    assert {row["item"] for row in to_dict(report)["tables"]["protocol"]} >= {"Model", "Picture size", "Seed"}


def test_each_arm_has_its_own_lines(services):
    arms = parse_arms(["condition=fair", "template={}, in watercolour"])
    settings = StudySettings(scale=0.005, arms=arms, options={"tests": ["science_arts"]})
    report = complete(run_study(find_design("t2iat-tests"), settings, services))
    lines = report.results.frame("protocol")
    assert list(dict.fromkeys(lines["arm"])) == [*(arm.name for arm in report.settings.arms), ""]
    wording = lines[lines["item"] == "Wording of the prompts"]
    assert list(wording["status"]) == ["met", "differs"]
    assert "in watercolour" in wording["this run"].iloc[1]
    assert set(lines[lines["arm"] == ""]["status"]) == {"our reading"}


def test_auto_takes_the_papers_reader_for_pictures_of_no_world_where_it_fits(services, monkeypatch):
    monkeypatch.setattr(type(services), "fitting_readers", lambda _self, _role: ("open_clip:ViT-L-14/openai",))
    monkeypatch.setattr(services, "settings", services.settings.model_copy(update={"offline": False}))
    settings = StudySettings(model="stable-diffusion-v1-5", scale=0.005)
    plan = plan_study(find_design("tbyb-general"), settings, services, estimate=True)
    assert plan.settings.encoder == "open_clip:ViT-L-14/openai"
    drawn = plan_study(find_design("tbyb-general"), StudySettings(scale=0.005), services, estimate=True)
    assert drawn.settings.encoder == "calibration-clip"
    monkeypatch.setattr(type(services), "fitting_readers", lambda _self, _role: ())
    plan = plan_study(find_design("tbyb-general"), settings, services, estimate=True)
    assert plan.settings.encoder != "open_clip:ViT-L-14/openai"


def test_before_a_run_it_is_said_what_replicating_takes_and_what_cannot_be_met(services):
    plan = plan_study(find_design("tbyb-general"), StudySettings(protocol="paper"), services, estimate=True)
    line = outlook(plan, services)
    assert line.startswith("4,200 pictures with Stable Diffusion 1.5 (2.7 GB download) at 512x512 pixels, 100 steps")
    assert "read by OpenAI ViT-L/14 (1.7 GB download) and BLIP base captioner (1 GB download)" in line
    assert "how long is not known here, draw 8 first" in line
    assert "Cannot be met here: " in line
    assert "the paper: 3,690 of 369 prompts" in line
    hosted = plan_study(find_design("pst-occupations"), StudySettings(protocol="paper"), services, estimate=True)
    assert "920 requests to openai:dall-e-3" in outlook(hosted, services)
    assert "set BIAS_IMAGES_URL" in outlook(hosted, services)


def test_the_command_line_says_it_and_draws_nothing(tmp_path, assets):
    command = shared.command_line(tmp_path, assets)
    command.environment["COLUMNS"] = "300"
    result = command("study", "run", "t2iat-occupations", "--protocol", "paper", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "2,400 pictures with Stable Diffusion 2.1" in result.output
    assert "50 steps, guidance 7.5" in result.output
    assert not list(tmp_path.glob("images/*/*.png"))


def test_pictures_and_runs_keep_their_ids(services):
    row = ImageRow(prompt="a photo of a doctor", seed=3, model="calibration-renderer", width=128, height=128)
    assert row.id == "bc8d383444869229cd22"  # as before rows had a sampler
    assert row.id != replace(row, sampler="ddim").id != replace(row, sampler="euler").id
    plan = plan_study(find_design("t2iat-tests"), StudySettings(scale=0.01), services)
    several = StudySettings(scale=0.01, arms=(Arm(), Arm(condition="fair")))
    arms = plan_study(find_design("t2iat-tests"), several, services)
    assert (plan.manifest.id, arms.manifest.id) == ("c355f53349a2f100", "9b9843fe211ec822")


def test_rows_have_the_size_and_the_sampler_that_are_asked_for(services):
    design = find_design("t2iat-tests")
    sized = StudySettings(model="calibration-diffusion", scale=0.005, size="96x64")
    assert {(row.width, row.height) for row in plan_study(design, sized, services).manifest.rows} == {(96, 64)}
    for given, words in (
        ({"size": "100x100"}, "multiples of 8"),
        ({"size": "8x8"}, "size must be a text such as 512x512"),
        ({"sampler": "ddim"}, "calibration-diffusion cannot be drawn with the sampler ddim: it is a flow model"),
    ):
        with pytest.raises(InvalidInput, match=words):
            plan_study(design, StudySettings(model="calibration-diffusion", scale=0.005, **given), services)
    asked = StudySettings(model="stable-diffusion-v1-5", scale=0.005, size="512x512", sampler="ddim")
    (first, *_) = plan_study(design, asked, services, estimate=True).manifest.rows
    assert (first.width, first.sampler) == (512, "ddim")
    with pytest.raises(InvalidInput, match=r"openai:some has no sampler that can be chosen"):
        plan_study(design, StudySettings(model="openai:some", scale=0.005, sampler="ddim"), services, estimate=True)


def test_words_of_ones_own_follow_no_paper_and_a_written_design_keeps_its_protocol(tmp_path):
    own = own_targets("judge | an image of a judge")
    assert not own.protocol
    assert not own.our_reading
    design = find_design("t2iat-tests")
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(asdict(design)))
    read = find_design(str(path))
    assert (read.protocol, read.our_reading) == (design.protocol, design.our_reading)
    path.write_text(yaml.safe_dump(asdict(replace(design, protocol={}, our_reading=()))))
    assert not find_design(str(path)).protocol
    assert is_shipped(design)


def test_replicate_fills_the_form_with_the_papers_protocol_and_says_what_it_takes(tmp_path):
    services = FakeServices(tmp_path)
    tab = built(AssociationTab, services)
    shown = tab.on_replicate("t2iat-tests")
    filled = {name: shown[component] for name, component in tab.form.items() if component in shown}
    assert (filled["study"], filled["model"], filled["steps"], filled["guidance"]) == (
        "t2iat-tests", "stable-diffusion-2-1", "50", "7.5",
    )  # fmt: skip
    assert (filled["size"], filled["percent"], filled["encoder"]) == ("512x512", 100, "openai/clip-vit-base-patch32")
    assert "8,310 pictures (with 4 against 4 prompts p is 0.029 at best in one test)" in shown[tab.parts["outlook"]]
    assert "with Stable Diffusion 2.1" in shown[tab.parts["outlook"]]
    services.close()
