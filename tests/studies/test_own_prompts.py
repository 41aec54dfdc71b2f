"""Prompts of one's own from a file run as a study without YAML: from the command line, the page and programs."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bias_core.cli import app, explore as cli
from bias_core.errors import InvalidInput
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.packs import pack_of
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design
from bias_core.studies.reports.saved import from_text, to_text
from bias_core.studies.running.export import to_command, to_export
from bias_core.studies.running.next_steps import next_steps
from bias_core.studies.running.run import complete, run_study
from tests import shared
from tests.ui.tabs import built
from tests.ui.test_form import form

services = shared.fake_services

HAT = "hat|a photo of a person with a hat|a photo of a person without a hat"
TEXT = f"""prompt,group,n,attributes
a photo of a doctor,care,7,glasses
a photo of a nurse,care,,
a photo of a farmer,land,5,{HAT}
a photo of a CEO,,3,
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("packs") / "my prompts.csv"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture(scope="module")
def report(file, services):
    settings = explore_settings(model="calibration-renderer", n_images=4, attributes=("man",), attribute_a="male")
    return complete(run_study(*pack_of(file, settings), services))


def shares(report):
    return {one.key: one.estimate.n for one in report.results.findings if one.key.endswith("-p")}


def test_every_prompt_gets_its_pictures_and_every_group_what_its_rows_ask_for(report):
    assert report.pictures.groupby("prompt", sort=False).size().to_dict() == {
        "a photo of a doctor": 7, "a photo of a nurse": 4, "a photo of a farmer": 5, "a photo of a CEO": 3,
    }  # fmt: skip
    assert report.pictures.groupby("set").size().to_dict() == {"care": 11, "land": 5, "no group": 3}
    assert shares(report) == {
        "all pictures-man-p": 19, "care-man-p": 11, "care-glasses-p": 11, "land-man-p": 5, "land-hat-p": 5,
    }  # fmt: skip
    assert report.pictures["number"].is_unique
    assert "1 sets have too few pictures" in " ".join(report.results.notes)


def test_left_to_the_program_it_looks_for_what_the_rows_name_alone(file, services):
    report = complete(run_study(*pack_of(file, explore_settings(model="calibration-renderer", n_images=4)), services))
    assert shares(report) == {"care-glasses-p": 11, "land-hat-p": 5}
    assert "so often: glasses, care, in " in to_export(report).report["headline"]


def test_without_groups_it_counts_by_prompt_and_without_attributes_it_looks_for_the_usual_ones(tmp_path, services):
    (tmp_path / "two.jsonl").write_text('{"prompt": "a photo of a nurse"}\n{"prompt": "a photo of a doctor"}\n')
    design, settings = pack_of(str(tmp_path / "two.jsonl"), explore_settings(model="calibration-renderer", n_images=4))
    found = shares(complete(run_study(design, settings, services)))
    assert {key for key in found if key.endswith("-man-p")} == {
        f"{cell}-man-p" for cell in ("all pictures", "a photo of a nurse", "a photo of a doctor")
    }


def test_the_report_is_saved_exported_and_repeated_without_the_file(report, services, tmp_path):
    root = services.settings.data_dir
    again = from_text(to_text(report, root), root).report
    assert again.results.findings[0].estimate == report.results.findings[0].estimate
    assert to_command(report.design, report.settings).startswith(
        "python -m bias_core study run prompts-my-prompts.yaml --option attributes=man"
    )
    files = to_export(report).files
    (tmp_path / "prompts-my-prompts.yaml").write_bytes(files["prompts-my-prompts.yaml"])
    design = find_design(str(tmp_path / "prompts-my-prompts.yaml"))
    repeated = complete(run_study(design, report.settings, services))
    assert [one.estimate for one in repeated.results.findings] == [one.estimate for one in report.results.findings]
    # Rows that say how many pictures they want are not made more of by a command that says how many others get.
    assert [step.key for step in next_steps(report, services)] == []


def test_an_attribute_that_nobody_knows_is_named_with_its_line_before_anything_is_drawn(tmp_path, services):
    (tmp_path / "p.csv").write_text("prompt,attributes\na nurse,\na doctor,tallness\n")
    with pytest.raises(InvalidInput, match="line 3: no built-in attribute 'tallness'"):
        complete(run_study(*pack_of(str(tmp_path / "p.csv"), explore_settings()), services))


def test_the_command_line_takes_a_pack_in_place_of_a_concept(file, services, monkeypatch):
    monkeypatch.setattr(cli, "open_services", lambda _token="": nullcontext(services))

    def command(*words):
        return CliRunner().invoke(app, ["explore", *words], env={"COLUMNS": "200"})

    done = command("--prompts", file, "--model", "calibration-renderer", "-n", "4")
    assert done.exit_code == 0, done.output
    assert "hat" in done.output
    for words, message in (
        ((), "name a concept, such as doctor, or give --prompts"),
        (("doctor", "--prompts", file), "leave the concept 'doctor' out"),
        (("--prompts", file, "--template", "a {}"), "no use for --template"),
        (("--prompts", "nothing.csv"), "nothing.csv cannot be read"),
    ):
        failed = command(*words)
        assert (failed.exit_code, message in " ".join(failed.output.split())) == (2, True), failed.output
    assert find_design(file).data["prompts"][2]["group"] == "land"
    (own := Path(file).with_name("mine.csv")).write_text("prompt,attributes\na photo of a nurse,man\n")
    done = command("--prompts", str(own), "--model", "calibration-renderer", "-n", "5")
    assert re.search(r"study run (\S+\.yaml) .*\n +\1 is among the files of --out", done.output), done.output


def test_the_page_runs_the_uploaded_file_and_says_what_is_in_it(file, services, tmp_path, report):
    tab = built(ExploreTab, services)
    assert tab.inputs()[-2:] == [tab.form["pack"], tab.parts["report"]]
    design, settings = tab.design_and_settings([*form(), file, None])
    assert tab.design_and_settings([*form(), None, None])[0].name == "explore"
    assert (design.title, design.images_per_prompt) == ("Prompts of my prompts", 16)
    assert settings.options["attributes"][0].startswith("man|")
    assert tab.claims(design)
    note = tab.on_pack(file)
    assert "4 prompts of one&#39;s own in 3 groups" in note
    assert "a photo of a farmer" in note
    (tmp_path / "bad.csv").write_text("prompt\n<b>\n<b>\n")
    assert "line 3: the prompt of line 2 again" in tab.on_pack(str(tmp_path / "bad.csv"))
    assert "A column <code>prompt</code>" in tab.on_pack(None)
    shown = tab.finished(report)
    assert "Prompts of my prompts" in shown[tab.parts["header"]]
