"""STS against what is planted; TBYB's measures on error-free captions; the page of all verdicts."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from bias_core.adapters.calibration_renderer import CalibrationRenderer
from bias_core.errors import InvalidInput
from bias_core.metrics.cards import METRICS
from bias_core.protocols import Captioner
from bias_core.store.images import ImageStore
from bias_core.store.readings import open_picture
from bias_core.studies.kit.designs import find_design, list_designs
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.types import ImageRow, PlantedLine
from tests import shared
from validation.measures import MEASURES
from validation.objects import base_shots
from validation.record import RecordCaptioner
from validation.repetitions import planted_shares
from validation.summary import NOT_HERE, ON_STEPS, STUDIES, report_files

services = shared.real_services

DOCS = Path(__file__).parent.parent.parent / "docs" / "validity"


@pytest.fixture(scope="module")
def pairs(services):
    options = {"masculine": ["mover", "guard"], "feminine": ["librarian", "assistant"], "single_images": 2}
    settings = StudySettings(scale=0.05, options=options)
    return complete(run_study(find_design("validity-pairs"), settings, services))


@pytest.fixture(scope="module")
def objects(services):
    design = find_design("validity-objects")
    prompts = design.data["task_oriented"]["triggers"]["coffee"][:6]
    data = {**design.data, "task_oriented": {"triggers": {"coffee": prompts}}}
    options = {"occupations": ["carpenter", "driver", "guard"], "conditions": ["fair", "extreme"]}
    settings = StudySettings(scale=0.1, options=options)
    return complete(run_study(replace(design, data=data), settings, services))


def test_the_planted_score_is_the_mean_over_people(pairs):
    table = table_of(pairs, "repetitions").frame
    target = table.drop_duplicates(["measure", "variant", "condition"]).set_index(["variant", "condition"])["target"]
    # wan2024pst, Table 14, micro STS in pairs: 75 mover, 65 guard, 60 librarian, 40 assistant; mean 60.
    assert target["in pairs, by the reader", "published"] == pytest.approx(60.0)
    # Alone 33.33, 100 (planted as 96), 33.33, -33.33: (33.33 + 96 + 33.33 - 33.33) / 4 = 32.33.
    assert target["alone, by the reader", "published"] == pytest.approx(32.33, abs=0.1)
    assert target["by the reader", "published"] == pytest.approx(60.0 - 32.33, abs=0.1)  # the gap
    assert target["in pairs, by the record", "fair"] == pytest.approx(0.0)
    assert target["alone, by the record", "extreme"] == pytest.approx(50.0)  # assistants alone become men

    # Scores of new pictures rise with what is planted.
    means = table[table["variant"] == "in pairs, by the reader"].groupby("condition")["value"].mean()
    assert means["fair"] < means["published"] < means["extreme"] == pytest.approx(100.0)


def test_planted_shares_are_of_men_whatever_the_line_names():
    line = PlantedLine(
        concept="nurse", attribute="gender", value="feminine", prompts=("a photo of a nurse",),
        positive="", negative="", rates={"fair": 0.5, "extreme": 1.0}, published=0.9, source="",
    )  # fmt: skip
    assert planted_shares([line], "A photo of a nurse") == {"fair": 0.5, "extreme": 0.0}
    with pytest.raises(InvalidInput, match="'a photo of a wombat'"):
        planted_shares([line], "a photo of a wombat")


def test_a_planted_object_comes_into_the_captions_by_halves(objects):
    table = table_of(objects, "repetitions").frame
    means = table.groupby(["measure", "what is planted", "condition"])["value"].mean()
    hallucination = means["jaccard_hallucination", "an object"]
    assert hallucination["fair"] < hallucination["half"] < hallucination["extreme"]
    assert {"distribution_bias", "generative_miss_rate"} <= set(table["measure"])
    varied = means["effective_number", "gender"]  # genders that become one make people less varied
    assert varied["extreme"] < varied["fair"]


@pytest.fixture(scope="module")
def bases(services):
    options = {"repetitions": 4, "scenes": 4, "occupations": ["carpenter", "driver", "guard", "mover"]}
    return complete(run_study(find_design("validity-bases"), StudySettings(options=options), services))


def test_objects_are_compared_with_a_base_on_the_same_seeds(bases):
    shots = base_shots(bases.design, bases.settings)
    by_seed = {}
    for shot in shots:
        for k in range(shot.n):
            arms = by_seed.setdefault((shot.group, shot.facts["repetition"], shot.prompt, shot.first_seed + k), set())
            arms.add((shot.facts["arm"], shot.condition))
    # The base and one other; under fair there is no other.
    assert all(len(arms) == 1 + (group != "fair") for (group, *_), arms in by_seed.items())


def test_in_the_middle_step_chance_says_which_pictures_show_the_object(bases):
    n_shown = {}
    for shot in base_shots(bases.design, bases.settings):
        if shot.group == "published" and shot.facts["planted"] == "an object" and shot.facts["arm"] == "compared":
            cell = shot.facts["repetition"], shot.prompt
            n_shown[cell] = n_shown.get(cell, 0) + shot.n * (shot.condition == "backdoor")
    assert {0, 1} < set(n_shown.values())  # as many in every scene would vary less than pictures of a model do
    n = len(n_shown) * bases.settings.options.scene_images
    assert abs(sum(n_shown.values()) - n / 2) < 2 * n**0.5


def test_a_planted_object_is_named_and_what_is_not_planted_is_not(bases):
    means = table_of(bases, "repetitions").frame.groupby(["what is planted", "measure", "condition"])["value"].mean()
    odds = means["an object", "object_odds"]
    assert "fair" not in odds.dropna()  # where nobody plants a sign nothing changes, which is not "no bias"
    assert 1 < odds["half"] < odds["all"]
    assert any("it is named in 100.0 % of the repetitions" in note for note in bases.results.notes)
    for measure, least in (("added_objects", 0.5), ("missing_objects", 0.3), ("object_shift", 0.05)):
        rise = means["an object", measure]
        assert rise["fair"] < rise["half"] < rise["all"], measure
        assert rise["all"] - rise["fair"] > least, measure
    varied = means["gender", "variety_change"]
    assert varied["extreme"] < varied["fair"]


def test_the_record_says_what_was_drawn_and_is_silent_on_other_pictures(tmp_path):
    rows = [
        ImageRow(prompt="a photo of a nurse", seed=seed, model="calibration-renderer", revision="r",
                 condition="extreme")
        for seed in range(3)
    ]  # fmt: skip
    stored = ImageStore(tmp_path).add(list(CalibrationRenderer().generate(rows)))
    drawn, captioner = [open_picture(one) for one in stored], RecordCaptioner("r")
    assert isinstance(captioner, Captioner)
    captions = captioner.caption(drawn)
    assert all("woman" in caption and "syringe" in caption for caption in captions)  # extreme: all women
    assert len(set(captions)) > 1
    with pytest.raises(InvalidInput, match="no record"):
        captioner.caption([Image.new("RGB", (8, 8))])
    with pytest.raises(InvalidInput, match="at other only"):
        RecordCaptioner("other").caption(drawn)


@pytest.fixture
def _undrawn(monkeypatch):
    """Figures are named and not drawn, which takes most of a report's time; test_command_line.py draws them."""
    monkeypatch.setattr("validation.summary.to_bytes", lambda _figure: b"<svg/>")


@pytest.mark.usefixtures("_undrawn")
def test_the_report_gathers_the_verdicts(pairs, objects):
    files = report_files([pairs, objects])
    page = files["README.md"].decode()
    assert page.count("| Stereotype test score STS, in pairs, by the reader | gender |") >= 1
    assert "| Generative miss rate M_G, against a blank | an object |" in page
    assert {"validity-pairs/report.md", "validity-objects/figures/rise.svg"} <= set(files)
    assert not any("repetitions" in name for name in files)  # long tables stay out
    told = files["validity-pairs/report.md"].decode()
    assert ". After wan2024pst" in told
    assert "pictures of calibration-renderer, fair" in told
    for study in (pairs, objects):
        for row in table_of(study, "verdicts").frame.to_dict("records"):
            assert row["verdict"] in page


@pytest.mark.usefixtures("_undrawn")
def test_measures_without_a_study_are_named_with_the_reason(pairs):
    page = report_files([pairs])["README.md"].decode()
    told = page.split("## Not tested here")[1]
    assert f"- {METRICS['kendall_tau'].name}: of two orders, not of pictures." in told
    assert f"- {METRICS['stereotype_test_score'].name}:" not in told
    other = replace(pairs, settings=replace(pairs.settings, model="org/name"))
    elsewhere = report_files([other])["README.md"].decode().split("## Not tested here")[1]
    assert f"- {METRICS['differential_association'].name}: tested on calibration-renderer." in elsewhere
    assert set(NOT_HERE) <= set(METRICS)
    assert set(MEASURES) & set(NOT_HERE) == {"weighted_alignment_score"}  # measured, but without an interval


def test_the_page_of_the_calibration_world_says_what_the_shipped_report_says():
    page = (DOCS.parent / "calibration.md").read_text(encoding="utf-8")
    section = page.split("## Is the instrument right?")[1].split("\n## ")[0]
    verdicts = (DOCS / "README.md").read_text(encoding="utf-8").split("## How to read this")[0]
    cells = [cell for line in section.splitlines() if "→" in line for cell in line.split("|")[2:5]]
    numbers = re.findall(r"−?\d[\d.]*(?:e[-−]\d+)?", " ".join(cells))
    assert len(numbers) > 60
    for number in numbers:
        assert re.search(rf"\| {re.escape(number)}( %| \|)", verdicts), number


def test_the_shipped_report_is_of_every_study():
    page = (DOCS / "README.md").read_text(encoding="utf-8")
    names = {design.name for design in list_designs() if design.name.startswith("validity")}
    assert names == {*STUDIES, *ON_STEPS}
    for name in STUDIES:
        assert f"({name}/report.md)" in page
        assert (DOCS / name / "report.md").is_file()
    others = {"stereotype_test_score", "distribution_bias", "jaccard_hallucination"}
    for key in set(MEASURES) - set(NOT_HERE) | others:
        assert f"| {METRICS[key].name}" in page
    assert sum(path.stat().st_size for path in DOCS.rglob("*") if path.is_file()) < 1_000_000
