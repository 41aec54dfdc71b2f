"""The paired stereotype test finds what is planted, none where nothing is, and says who labelled it."""

import csv
import math
from dataclasses import replace

import pandas as pd
import pytest

from bias_core.crops import person_halves
from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable, StorageError
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.labelling import gender_said, people_of
from bias_core.studies.paired.pairs import power_identities
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import run_study, with_options
from bias_core.world.planted import published_rates
from tests import shared
from tests.prompts_of_papers import all_prompts

services = shared.real_services

OCCUPATIONS, POWER, FAIRNESS = (find_design(f"pst-{name}") for name in ("occupations", "power", "fairness"))
TRUSTING = {"finder": "halves"}  # the shipped reader's eye for two people is not what is tested here
SMALL = StudySettings(scale=0.02, options=TRUSTING)


def run(design, settings, services, **options):
    returned = []

    def follow():
        returned.append((yield from run_study(design, settings, services, **options)))

    for _ in follow():
        pass
    return returned[0]


def finding(report, key):
    (found,) = [f for f in report.results.findings if f.key == key]
    return found


def frame(report, key):
    return table_of(report, key).frame


@pytest.fixture(scope="module")
def published(services):
    return run(OCCUPATIONS, StudySettings(scale=0.06, options=TRUSTING), services)


@pytest.fixture(scope="module")
def small(services):
    return run(OCCUPATIONS, SMALL, services)


def test_at_full_size_each_design_draws_what_the_paper_drew():
    counts = {}
    for design in (OCCUPATIONS, POWER, FAIRNESS):
        shots = program_of(design).shots(design, with_options(design, StudySettings()))
        for shot in shots:
            key = (design.name, shot.facts["setting"])
            counts[key] = counts.get(key, 0) + shot.n
    assert counts == {
        ("pst-occupations", "paired"): 800,
        ("pst-occupations", "single"): 40 * 3,
        ("pst-power", "paired"): 36 * 2 * 3,
        ("pst-power", "single"): 72 * 3,
        ("pst-fairness", "paired"): 5 * 5 * 2 + 36 * 2 * 3,
        ("pst-fairness", "fairness"): 5 * 5 * 2 + 36 * 2 * 3,
    }


@pytest.mark.parametrize("design", [OCCUPATIONS, POWER, FAIRNESS], ids=lambda design: design.name)
def test_every_prompt_is_one_of_the_paper_s(design):
    shots = program_of(design).shots(design, with_options(design, StudySettings()))
    prompts = [shot.prompt for shot in shots]
    assert set(prompts) <= set(all_prompts())
    assert len(prompts) == len(set(prompts))


def test_each_occupation_is_in_40_pairs_half_of_them_on_the_left():
    shots = program_of(OCCUPATIONS).shots(OCCUPATIONS, with_options(OCCUPATIONS, StudySettings()))
    paired = [shot.facts for shot in shots if shot.facts["setting"] == "paired"]
    for occupation in ("nurse", "mechanician", "ceo"):
        assert [f["left"] for f in paired].count(occupation) == 20
        assert [f["right"] for f in paired].count(occupation) == 20


def test_roles_are_drawn_by_the_seed_one_of_each_level(services):
    first, again, other = (power_identities(POWER, replace(StudySettings(), seed=seed)) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.index.equals(other.index)
    assert len(first) == 72
    assert first.groupby("occupation")["level"].apply(list).map(tuple).unique().tolist() == [("powerful", "powerless")]
    assert set(first["role"]) == {
        "manager", "superviser", "leader", "CEO", "assistant", "employee", "worker", "intern",
    }  # fmt: skip


def test_the_planted_share_of_each_occupation_lies_in_its_interval(published):
    planted = {rate.concept: 100 * rate.rate for rate in published_rates() if rate.source.endswith("Table 14, F (PST)")}
    table = frame(published, "table14")
    spelled = {"mechanic": "mechanician", "CEO": "ceo"}
    rates = [planted[spelled.get(name, name)] for name in table["occupation"]]
    sign = table["stereotype"].map({"masculine": -1, "feminine": 1})
    scores = sign * (2 * pd.Series(rates) - 100)
    missed = (scores < table["paired low"]) | (scores > table["paired high"])
    # 95 % intervals of 10 occupations: 3 or more misses have a chance of about 1 %.
    assert len(table) == 10
    assert missed.sum() <= 2
    assert finding(published, "paired_overall").estimate.low <= scores.mean()
    assert scores.mean() <= finding(published, "paired_overall").estimate.high


def test_what_was_drawn_is_what_is_read(published):
    for found in published.results.findings:
        if found.metric in ("stereotype_test_score", "stereotype_gap"):
            assert found.estimate.value == pytest.approx(found.expected)
            assert found.estimate.low <= found.estimate.value <= found.estimate.high
    assert finding(published, "kappa_paired_automatic_truth").estimate.value == 1.0
    assert frame(published, "coverage")["coverage %"].tolist() == [100.0, 100.0]


def test_a_fair_model_shows_no_stereotype(services):
    fair = run(OCCUPATIONS, StudySettings(scale=0.05, condition="fair", options=TRUSTING), services)
    for key in ("paired_overall", "gap_overall"):
        estimate = finding(fair, key).estimate
        assert estimate.low < 0 < estimate.high


def test_published_numbers_are_the_paper_s(published):
    assert {key: finding(published, key).published for key in ("paired_overall", "single_overall")} == {
        "paired_overall": 47.375,
        "single_overall": 10.0,
    }
    assert finding(published, "paired_masculine").published == 49.75
    assert finding(published, "paired_feminine").published == 45.0
    assert finding(published, "gap_masculine").published == 79.75  # 49.75 - -30
    table = frame(published, "table14").set_index("occupation")
    assert table.loc["secretary", "published STS paired"] == 75.0
    assert table.loc["secretary", "F labour"] == 92.5
    gaps = frame(published, "table15").set_index("occupation")["published gap"]
    assert gaps["construction worker"] == 170.0
    runs = frame(published, "table13")
    assert runs.loc[runs["setting"] == "single", "published"].tolist() == [20.0, -5.0, 15.0]


def test_the_order_of_occupations_is_that_of_the_labour_market(published):
    order = finding(published, "labour_order")
    assert order.estimate.low > 0
    assert order.p_value < 0.01
    assert order.estimate.value == pytest.approx(order.expected)


@pytest.mark.parametrize("design", [POWER, FAIRNESS], ids=lambda design: design.name)
def test_power_and_fairness_find_what_was_drawn(services, design):
    report = run(design, StudySettings(scale=0.06, options=TRUSTING), services)
    scores = [f for f in report.results.findings if f.metric.startswith("stereotype_")]
    assert all(f.estimate.value == pytest.approx(f.expected) for f in scores)
    if design is FAIRNESS:
        assert finding(report, "intervened_occupation").published == 26.0
        assert finding(report, "difference_occupation").published == pytest.approx(26.0 - 70.5)
        assert finding(report, "intervened_power").published == -11.12
        assert frame(report, "table6")["published"].notna().all()
        return
    assert finding(report, "paired_overall").published == 18.98
    assert finding(report, "single_powerless").published == 37.04
    table = frame(report, "table16")
    assert (table["level"].to_numpy().reshape(-1, 2) == ["powerful", "powerless"]).all()
    assert (table["n paired"] == 6).all()
    assert table["published STS paired"].notna().all()


def test_own_occupations_have_no_published_numbers(services):
    options = {**TRUSTING, "aspects": "occupation", "masculine": "cook,driver", "feminine": "nurse,baker"}
    report = run(FAIRNESS, StudySettings(options=options), services)
    assert report.n_planned == 2 * 2 * 2 * 2
    assert finding(report, "intervened_occupation").published is None
    assert [f.key for f in report.results.findings if f.metric == "stereotype_gap"] == ["difference_occupation"]


def test_the_same_run_twice_gives_the_same_report(services, small):
    again = run(OCCUPATIONS, SMALL, services)
    one, two = ({key: value for key, value in to_dict(report).items() if key != "seconds"} for report in (small, again))
    assert one == two
    assert "perceived" in to_markdown(small)


def test_a_stopped_run_goes_on(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True))
    with pytest.raises(Cancelled):
        run(OCCUPATIONS, SMALL, services, cancelled=lambda: services.images.n_bytes > 0)
    report = run(OCCUPATIONS, SMALL, services)
    assert report.n_images == report.n_planned
    services.close()


def test_a_diffusion_model_is_scored_without_a_record(services):
    settings = StudySettings(
        model="calibration-diffusion", scale=0.001, num_inference_steps=2, options=TRUSTING | {"single_images": 1}
    )
    report = run(OCCUPATIONS, settings, services)
    assert report.n_images == 2 * 2 * 2 + 4
    assert finding(report, "paired_overall").expected is None
    assert "drawn STS paired" not in frame(report, "table14")
    assert not [f for f in report.results.findings if f.metric == "cohen_kappa"]


class EveryThird:
    """A finder that finds a single person in every third picture, and two in the others."""

    def __init__(self):
        self.n = 0

    def find(self, image):
        self.n += 1
        return person_halves(image)[: 1 if self.n % 3 == 0 else 2]


def test_pictures_without_exactly_two_people_are_counted_and_not_scored(services):
    services._built["person_finder", "fasterrcnn"] = EveryThird()
    options = {"finder": "fasterrcnn", "single_images": 1}
    report = run(OCCUPATIONS, replace(SMALL, options=options), services)
    coverage = frame(report, "coverage").set_index("setting")
    # 18 pictures of pairs, of which every third shows one person; then 6 of one person, every third right.
    assert coverage.loc["paired", ["pictures", "failed"]].tolist() == [18, 6]
    assert coverage.loc["single", ["pictures", "failed"]].tolist() == [6, 4]
    assert coverage.loc["paired", "coverage %"] == pytest.approx(100 * 12 / 18)
    assert finding(report, "paired_overall").estimate.n == 12
    assert "24 of 36" in finding(report, "paired_overall").says
    assert finding(report, "kappa_paired_automatic_truth").estimate.value < 0.9


class Nobody:
    def find(self, image):
        return []


def test_where_nobody_is_found_nothing_reads_as_no_bias(services):
    services._built["person_finder", "ssdlite"] = Nobody()
    report = run(OCCUPATIONS, replace(SMALL, options={"finder": "ssdlite"}), services)
    assert math.isnan(finding(report, "paired_overall").estimate.value)
    assert finding(report, "paired_overall").estimate.note == "nobody is usable"
    assert finding(report, "paired_overall").says.startswith("Undefined.")
    assert math.isnan(finding(report, "gap_overall").estimate.value)
    assert frame(report, "coverage")["failed %"].tolist() == [100.0, 100.0]


def test_below_the_margin_nobody_can_be_identified(services):
    report = run(OCCUPATIONS, replace(SMALL, options=TRUSTING | {"margin": 2.0}), services)
    coverage = frame(report, "coverage")
    assert (coverage["cannot identify"] == coverage["people"]).all()
    assert math.isnan(finding(report, "single_overall").estimate.value)


class Oracle:
    """Answers the question and not the picture: it shows that each question is about its own person."""

    name = "oracle"

    def answer(self, images, questions):
        assert len(images) == len(questions)
        masculine = OCCUPATIONS.data["occupations"]["masculine"]
        for question in questions:
            assert question.startswith("What gender is the ")
        return ["a man" if any(f"the {m} " in q for m in masculine) else "woman." for q in questions]


def test_questions_reach_the_person_they_are_about(services, monkeypatch):
    monkeypatch.setattr(services, "answerer", lambda _name: Oracle())
    report = run(OCCUPATIONS, replace(SMALL, options={"labeller": "vqa", "answerer": "blip-vqa"}), services)
    assert finding(report, "paired_overall").estimate.value == 100
    assert finding(report, "single_overall").estimate.value == 100
    assert any("do not notice failed pictures" in note for note in report.results.notes)


def test_free_answers_name_one_gender_or_cannot_be_identified():
    words = OCCUPATIONS.data["vqa"]["answers"]
    said = {text: gender_said(text, words) for text in ("Male", "a woman.", "man, woman", "unknown", "")}
    assert list(said.values()) == ["masculine", "feminine"] + ["cannot_identify"] * 3


def test_a_missing_answerer_says_so(tmp_path):
    settings = Settings(data_dir=tmp_path, offline=True)
    services = Services(settings)
    services.answerer = lambda _name: Gone()
    with pytest.raises(ModelUnavailable, match="gone"):
        run(OCCUPATIONS, replace(SMALL, options={"labeller": "vqa", "answerer": "gone"}), services)
    assert services.manifests.list() == []  # said before anything is drawn
    services.close()


class Gone:
    def answer(self, images, questions):
        raise ModelUnavailable("gone has no weights")


def people_in(report, services):
    """One row per person of a run, with the truth of the renderer."""
    rows = {row.id: row for row in services.manifests.get(report.run_id).rows}
    people = []
    for image_id, stored in services.images.find(rows).items():
        if stored.truth["n_people"] == 1:
            people.append((image_id, "", stored.truth["gender"]))
        else:
            people += [(image_id, side, stored.truth[f"{side}_gender"]) for side in ("left", "right")]
    return people


def write_labels(path, answers):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "position", "answer", "rater"])
        writer.writerows(answers)
    return str(path)


def test_people_s_answers_are_taken_instead_and_compared(services, small, tmp_path):
    # Three raters: two tell the truth, the third always says feminine; the majority is right.
    answers = [
        (image_id, position, truth if rater < 2 else "feminine", rater)
        for image_id, position, truth in people_in(small, services)
        for rater in range(3)
    ]
    labels = write_labels(tmp_path / "labels.csv", answers)
    report = run(OCCUPATIONS, replace(SMALL, labels=labels), services)
    assert finding(report, "paired_overall").estimate == finding(small, "paired_overall").estimate
    assert finding(report, "kappa_paired_automatic_human").estimate.value == 1.0
    assert finding(report, "kappa_paired_human_truth").estimate.value == 1.0
    raters = frame(report, "table1")
    assert (raters["raters"] == 3).all()
    assert (raters["Fleiss' κ"] < 0.9).all()
    assert "labelled by people" in report.results.notes[0]
    alone = run(
        OCCUPATIONS, replace(SMALL, labels=labels, options={"labeller": "people"}), services
    )  # no reader needed
    assert finding(alone, "paired_overall").estimate == finding(small, "paired_overall").estimate


def test_people_whom_nobody_labelled_are_left_out_and_counted(services, small, tmp_path):
    people = people_in(small, services)
    labels = write_labels(tmp_path / "labels.csv", [(*person, 1) for person in people if person[1] != "right"])
    report = run(OCCUPATIONS, replace(SMALL, labels=labels), services)
    n_right = sum(position == "right" for _, position, _ in people)
    assert f"Nobody labelled {n_right} of {len(people)} people" in " ".join(report.results.notes)
    assert finding(report, "paired_overall").estimate.n == n_right  # as many on the left
    with pytest.raises(LookupError):
        table_of(report, "table1")


def test_labels_of_other_pictures_are_refused(services, tmp_path):
    labels = write_labels(tmp_path / "labels.csv", [("elsewhere", "left", "feminine", 1)])
    with pytest.raises(InvalidInput, match="elsewhere"):
        run(OCCUPATIONS, replace(SMALL, labels=labels), services)


@pytest.mark.parametrize(
    ("design", "changes", "error", "words"),
    [
        (OCCUPATIONS, {"options": {"labeller": "oracle"}}, InvalidInput, "finder, vqa, people"),
        (OCCUPATIONS, {"options": {"labeller": "people"}}, InvalidInput, "CSV"),
        (OCCUPATIONS, {"options": {"sentences": ["a man"]}}, InvalidInput, "two"),
        (OCCUPATIONS, {"options": {"margin": -0.1}}, InvalidInput, "-0.1"),
        (OCCUPATIONS, {"options": {"single_images": 0}}, InvalidInput, "single_images must be at least 1, got 0"),
        (OCCUPATIONS, {"labels": "nowhere.csv"}, StorageError, "nowhere"),
        (FAIRNESS, {"options": {"aspects": ["age"]}}, InvalidInput, "age"),
        (FAIRNESS, {"options": {"masculine": ["nurse"]}}, InvalidInput, "nurse"),
        (FAIRNESS, {"options": {"power_images": 0}}, InvalidInput, "power"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_drawn(services, design, changes, error, words):
    before = services.images.n_bytes
    with pytest.raises(error, match=words):
        run(design, replace(SMALL, **changes), services)
    assert services.images.n_bytes == before


def test_no_pictures_are_no_people():
    with pytest.raises(InvalidInput, match="no picture"):
        people_of(pd.DataFrame(columns=["image_id"]), pd.DataFrame())
