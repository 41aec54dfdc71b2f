"""The paired stereotype test finds what is planted, and takes other labels; so do two people in both places."""

import io
import json
import math
import re
import zipfile
from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.measures.cards import METRICS
from bias_core.measures.effects import holm
from bias_core.measures.paired_stereotype import order_effect
from bias_core.papers.pst.labelling import check_labelling, labelled_people, labels_after, list_people
from bias_core.papers.pst.report import get_family, headline
from bias_core.papers.pst.study import design_of_two, power_identities, relabelled
from bias_core.papers.pst.study_swapped import SwappedOptions
from bias_core.people import person_halves
from bias_core.report.claims import decide_findings
from bias_core.report.corrected import corrected
from bias_core.report.export import to_form
from bias_core.report.headlines import headline as full_headline
from bias_core.report.report_text import claims, get_table, report_facts
from bias_core.report.saved import open_report
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.study.answers import read_answers
from bias_core.study.design import find_design, get_study
from bias_core.study.types import Arm, StudySettings
from bias_core.types import ImageRow
from bias_core.ui.study.shown_report import take
from bias_core.world.models import get_scene
from bias_core.world.planted import published_rates
from tests import shared
from tests.claimed import broken_claims, stray_numbers
from tests.every import every
from tests.prompts_of_papers import all_prompts
from tests.study.oasis_runs import findings, shots_of, table as frame, write_labels

services = shared.real_services

OCCUPATIONS, POWER, FAIRNESS = (find_design(f"pst-{name}") for name in ("occupations", "power", "fairness"))
TRUSTING = {"finder": "halves"}  # the shipped reader's eye for two people is not what is tested here
SMALL = StudySettings(scale=0.02, options=TRUSTING)
OTHER = {"masculine": "feminine", "feminine": "masculine"}


def run(design, settings, services):
    return complete(run_study(design, settings, services))


def labels_of(folder, answers):
    return write_labels(folder / "labels.csv", ["image_id", "position", "answer", "rater"], answers)


@pytest.fixture(scope="module")
def published(services):
    return run(OCCUPATIONS, StudySettings(scale=0.06, options=TRUSTING), services)


@pytest.fixture(scope="module")
def small(services):
    return run(OCCUPATIONS, SMALL, services)


def test_at_full_size_each_design_draws_what_the_paper_drew_and_asks_as_it_asks():
    counts = Counter()
    for design in (OCCUPATIONS, POWER, FAIRNESS):
        shots = shots_of(design)
        for shot in shots:
            counts[design.name, shot.facts["setting"]] += shot.n
        prompts = [shot.prompt for shot in shots]
        assert set(prompts) <= set(all_prompts())
        assert len(prompts) == len(set(prompts))
    assert counts == {
        ("pst-occupations", "paired"): 800,
        ("pst-occupations", "single"): 40 * 3,
        ("pst-power", "paired"): 36 * 2 * 3,
        ("pst-power", "single"): 72 * 3,
        ("pst-fairness", "paired"): 5 * 5 * 2 + 36 * 2 * 3,
        ("pst-fairness", "fairness"): 5 * 5 * 2 + 36 * 2 * 3,
    }
    paired = [shot.facts for shot in shots_of(OCCUPATIONS) if shot.facts["setting"] == "paired"]
    for side, occupation in product(("left", "right"), ("nurse", "mechanician", "ceo")):
        assert [f[side] for f in paired].count(occupation) == 20


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
    assert findings(published)["paired_overall"].estimate.low <= scores.mean()
    assert scores.mean() <= findings(published)["paired_overall"].estimate.high


def test_what_was_drawn_is_what_is_read(published):
    """Nobody is taken for another gender."""
    for found in published.results.findings:
        if found.metric in ("stereotype_test_score", "stereotype_gap"):
            assert found.estimate.value == pytest.approx(found.expected)
            assert found.estimate.low <= found.estimate.value <= found.estimate.high
    labels = frame(published, "labels")
    assert (labels["automatic"] == labels["truth"]).all()
    assert frame(published, "coverage")["coverage %"].tolist() == [100.0, 100.0]


def test_a_fair_model_shows_no_stereotype(services):
    fair = run(OCCUPATIONS, StudySettings(scale=0.05, condition="fair", options=TRUSTING), services)
    for key in ("paired_overall", "gap_overall"):
        estimate = findings(fair)[key].estimate
        assert estimate.low < 0 < estimate.high


def with_scores(report, **scores):
    """The report with these values and p-values of its scores and gaps by key, the others at 0, decided anew."""
    found = []
    for finding in report.results.findings:
        if finding.metric in ("stereotype_test_score", "stereotype_gap"):
            value, p_value = scores.get(finding.key, (0.0, 1.0))
            estimate = replace(finding.estimate, value=value, low=value - 20, high=value + 20, p_value=p_value)
            finding = replace(finding, estimate=estimate, claim=None)
        found.append(finding)
    decided = decide_findings(found, get_family, confidence=0.95)
    return replace(report, results=replace(report.results, findings=decided))


def test_the_headline_begins_with_one_short_sentence_of_the_score_with_its_interval(published):
    says = headline(with_scores(published, paired_overall=(40.0, 0.001)))
    n = findings(published)["paired_overall"].estimate.n
    assert says.replace("\N{NO-BREAK SPACE}", " ") == (
        "In pictures of two, people match the stereotype of their role clearly more often than by chance: score +40 "
        f"[+20, +60] (0 is chance, 100 always), n = {n} pictures, adjusted p = 0.009."
    )
    twice = headline(with_scores(published, paired_overall=(40.0, 0.0001), gap_overall=(50.0, 0.0001)))
    assert re.search(r"\. People alone are less stereotyped \(score in pairs minus alone \+50 \[[^()]*\)\.$", twice)
    assert any(note.startswith("Drawn: ") for note in published.results.notes)


def test_a_headline_without_a_clear_overall_number_names_the_clear_part(published):
    assert "lear only" not in headline(with_scores(published))
    says = headline(with_scores(published, gap_masculine=(83.0, 0.0001)))
    assert says.endswith(". Clear only for a part: Gap, male-stereotyped.")
    whole = headline(with_scores(published, paired_overall=(50.0, 0.0001), gap_masculine=(83.0, 0.0001)))
    assert "clearly more often than by chance" in whole
    assert "lear only" not in whole


def test_scores_and_gaps_are_one_family_of_which_nothing_is_claimed_by_its_interval_alone(published):
    report = with_scores(published, paired_overall=(28.0, 0.01))  # times 9 it is 0.09
    assert re.search(r"not clearly more often than by chance: score .*, adjusted p = 0.090\.$", headline(report))
    reason = findings(report)["paired_overall"].claim.reason
    assert "its interval excludes 0, but among 9 tests this happens by chance" in reason
    assert "too few" not in headline(report)


def test_tables_of_scores_say_what_their_claims_say(published):
    table = frame(published, "table3")
    scores = [f for f in published.results.findings if f.metric in ("stereotype_test_score", "stereotype_gap")]
    assert table[""].tolist() == [f.title for f in scores]
    assert table["clear"].tolist() == [f.claim.word for f in scores]
    assert table["p adjusted"].tolist() == [f.claim.p_adjusted for f in scores]
    of_occupations = frame(published, "table14")
    assert of_occupations["p adjusted"].tolist() == pytest.approx(holm(of_occupations["p"]).tolist())
    assert (of_occupations["clear"] == np.where(of_occupations["p adjusted"] <= 0.05, "yes", "no")).all()
    assert "for 10 tests of this table" in get_table(published, "table15").note
    assert not broken_claims(published)
    assert not stray_numbers(published)


def test_where_no_p_can_be_clear_headline_and_tables_say_too_few(services):
    report = run(OCCUPATIONS, StudySettings(scale=0.01, condition="extreme", options=TRUSTING), services)
    assert "n = 8 pictures: too few, at least 9 are needed" in headline(report)
    (whole,) = frame(report, "table3").query("pictures == 8")["clear"].head(1)
    assert whole == "too few"
    assert set(frame(report, "table14")["clear"]) == {"too few"}  # four pictures of each


def test_the_family_of_effects_is_the_same_if_some_are_0_in_every_seed(services):
    settings = StudySettings(model="calibration-renderer", condition="extreme", scale=0.01, seed=123457)
    report = run(find_design("pst-swapped"), settings, services)
    found = findings(report)
    assert [found[key].estimate.p_value for key in ("place", "both")] == [1.0, 1.0]
    assert [found[key].claim.n_tests for key in ("place", "role", "both")] == [3, 3, 3]
    assert "(+100 points, n = 6 seeds: too few, at least 7 are needed)" in get_study(SWAPPED).headline(report)


def test_the_headline_has_the_numbers_of_the_largest_link_with_a_further_attribute(services):
    settings = StudySettings(scale=0.03, condition="extreme", options={"also_seen": ("old",)})
    says = headline(run(POWER, settings, services))
    assert re.search(r"No clear link: .*“old”.* \(odds ratio .*\[.*\], n = 12, p = 0.\d+\)\.$", says)


def test_published_numbers_are_the_paper_s(published):
    found = {key: one.published for key, one in findings(published).items()}
    assert (found["paired_overall"], found["single_overall"]) == (47.375, 10.0)
    assert (found["paired_masculine"], found["paired_feminine"]) == (49.75, 45.0)
    assert found["gap_masculine"] == 79.75  # 49.75 - -30
    table = frame(published, "table14").set_index("occupation")
    assert table.loc["secretary", ["paper's STS paired", "F labour"]].tolist() == [75.0, 92.5]
    assert frame(published, "table15").set_index("occupation").loc["construction worker", "paper's gap"] == 170.0
    runs = frame(published, "table13")
    assert runs.loc[runs["setting"] == "single", "in the paper"].tolist() == [20.0, -5.0, 15.0]


def test_the_order_of_occupations_is_that_of_the_labour_market(published):
    order = findings(published)["labour_order"]
    assert order.estimate.low > 0
    assert order.p_value < 0.05
    assert order.estimate.value == pytest.approx(order.expected)


def is_scored_anew_from_its_labels(report):
    people = labelled_people(report)
    same = {(p.image_id, p.position): p.perceived_gender for p in people.itertuples(index=False)}
    other = {person: OTHER.get(answer, answer) for person, answer in same.items()}
    first, again, turned = (
        one.results.findings[0] for one in (report, relabelled(report, same), relabelled(report, other))
    )
    assert again == first
    assert turned.estimate.value == pytest.approx(-first.estimate.value)


def test_occupations_are_scored_anew_from_their_labels(small):
    is_scored_anew_from_its_labels(small)


@pytest.mark.parametrize("design", [POWER, FAIRNESS], ids=lambda design: design.name)
def test_power_and_fairness_find_what_was_drawn_and_are_scored_anew(services, design):
    report = run(design, SMALL, services)
    is_scored_anew_from_its_labels(report)
    scores = [f for f in report.results.findings if f.metric.startswith("stereotype_")]
    assert all(f.estimate.value == pytest.approx(f.expected) for f in scores)
    if design is FAIRNESS:
        assert findings(report)["intervened_occupation"].published == 26.0
        assert findings(report)["difference_occupation"].published == pytest.approx(26.0 - 70.5)
        assert findings(report)["intervened_power"].published == -11.12
        assert frame(report, "table6")["in the paper"].notna().all()
        return
    assert findings(report)["paired_overall"].published == 18.98
    assert findings(report)["single_powerless"].published == 37.04
    table = frame(report, "table16")
    assert (table["level"].to_numpy().reshape(-1, 2) == ["powerful", "powerless"]).all()
    assert (table["n paired"] == 6).all()
    assert table["paper's STS paired"].notna().all()


def test_own_occupations_have_no_published_numbers(services):
    options = {**TRUSTING, "aspects": "occupation", "masculine": "cook,driver", "feminine": "nurse,baker"}
    report = run(FAIRNESS, StudySettings(options=options), services)
    assert report.n_planned == 2 * 2 * 2 * 2
    assert findings(report)["intervened_occupation"].published is None
    assert [f.key for f in report.results.findings if f.metric == "stereotype_gap"] == ["difference_occupation"]


class EveryThird:
    """A finder that finds a single person in every third picture, and two in the others."""

    name = "every-third"

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
    assert findings(report)["paired_overall"].estimate.n == 12
    assert "24 of 36" in findings(report)["paired_overall"].says
    assert findings(report)["kappa_paired_automatic_truth"].estimate.value < 0.9


def test_where_nobody_is_found_or_identified_nothing_reads_as_no_bias(services):
    services._built["person_finder", "ssdlite"] = SimpleNamespace(name="none", find=lambda _image: [])
    report = run(OCCUPATIONS, replace(SMALL, options={"finder": "ssdlite"}), services)
    paired = findings(report)["paired_overall"]
    assert math.isnan(paired.estimate.value)
    assert paired.estimate.note == "no person can be scored"
    assert paired.says.startswith("Undefined (no person can be scored).")
    assert math.isnan(findings(report)["gap_overall"].estimate.value)
    assert frame(report, "coverage")["failed %"].tolist() == [100.0, 100.0]
    assert headline(report) == "No one could be scored: no picture of two shows the people asked for."
    below = run(OCCUPATIONS, replace(SMALL, options=TRUSTING | {"margin": 2.0}), services)
    coverage = frame(below, "coverage")
    assert (coverage["cannot identify"] == coverage["people"]).all()
    assert math.isnan(findings(below)["single_overall"].estimate.value)


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
    assert findings(report)["paired_overall"].estimate.value == 100
    assert findings(report)["single_overall"].estimate.value == 100
    assert any("do not detect failed pictures" in note for note in report.results.notes)


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


def test_people_s_answers_are_taken_instead_and_compared(services, small, tmp_path):
    # Three raters: two tell the truth, the third always says feminine; the majority is right.
    answers = [
        (image_id, position, truth if rater < 2 else "feminine", rater)
        for image_id, position, truth in people_in(small, services)
        for rater in range(3)
    ]
    labels = labels_of(tmp_path, answers)
    report = run(OCCUPATIONS, replace(SMALL, labels=labels), services)
    assert findings(report)["paired_overall"].estimate == findings(small)["paired_overall"].estimate
    assert findings(report)["kappa_paired_automatic_human"].estimate.value == 1.0
    assert findings(report)["kappa_paired_human_truth"].estimate.value == 1.0
    saved = open_report(small.run_id, services).report
    later = corrected(saved, read_answers(labels), services)
    assert repr(later.results.findings) == repr(report.results.findings)
    assert later.results.notes == report.results.notes
    raters = frame(report, "table1")
    assert (raters["raters"] == 3).all()
    assert (raters["Fleiss' κ"] < 0.9).all()
    n_pictures = len({image_id for image_id, *_ in answers})
    counted = f"{len(answers)} answers in labels.csv count, of 3 people about {n_pictures} pictures."
    assert report.results.notes[0] == counted
    assert "classified by people (labels.csv), otherwise calibration-clip" in report_facts(report)
    assert "labelled by people" in report.results.notes[1]
    written = {"left": ("L", "1", "on the left"), "right": ("R", "2", "right person"), "": ("1", "", "single")}
    answers = [(image_id, written[position][rater], look, rater) for image_id, position, look, rater in answers]
    labels = labels_of(tmp_path, [*answers, ("elsewhere", "L", "feminine", 1)])
    nobody_reads = replace(SMALL, labels=labels, options={"labeller": "people"})
    alone = run(OCCUPATIONS, nobody_reads, services)
    assert findings(alone)["paired_overall"].estimate == findings(small)["paired_overall"].estimate
    assert alone.results.notes[0] == counted
    assert "classified by people (labels.csv)" in report_facts(alone)
    assert {sentence.partition("classified by ")[2] for sentence in claims(alone)} == {"people (labels.csv)."}
    says = f"1 of {len(answers) + 1} answers in labels.csv do not count"
    assert full_headline(alone).endswith(f"{says}.")
    assert alone.results.notes[-1].startswith(f"{says}: pictures that the run does not have (line {len(answers) + 2}: ")


@pytest.mark.parametrize("position", ["left", ""])
def test_a_headline_never_says_that_no_one_was_scored_beside_a_score(services, small, tmp_path, position):
    image_id, at, look = next(person for person in people_in(small, services) if person[1] == position)
    labels = labels_of(tmp_path, [(image_id, at, look, 1)])
    report = run(OCCUPATIONS, replace(SMALL, labels=labels, options={"labeller": "people"}), services)
    scored = [one for one in report.results.findings if not math.isnan(one.estimate.value)]
    assert [one.estimate.n for one in scored] == [1]
    says = {
        "left": "Only a part of the people in pictures of two could be scored.",
        "": "No one in pictures of two could be scored: the people in pictures of two have no labels.",
    }
    assert headline(report).startswith(f"{says[position]} Stereotype test scores: {scored[0].title} (")
    assert "n = 1 picture: too few, at least 6 are needed" in headline(report)


def test_raters_who_are_split_on_everybody_are_told_so(services, small, tmp_path):
    people = people_in(small, services)
    split = [(*person[:2], look, look) for person in people for look in ("feminine", "masculine")]
    report = run(OCCUPATIONS, replace(SMALL, labels=labels_of(tmp_path, split)), services)
    n_in_pairs = sum(position != "" for _, position, _ in people)
    assert f"Raters are split on {len(people)} of {len(people)} people" in report.results.notes[0]
    assert (
        headline(report) == f"No one could be scored: raters are split on all {n_in_pairs} people in pictures of two."
    )
    by_hand = {(image_id, position): "cannot_identify" for image_id, position, _ in people if position}
    says = f"No one could be scored: none of the {n_in_pairs} people in pictures of two can be identified."
    assert headline(relabelled(report, by_hand)) == says
    single = [(image_id, "top", look, rater) for image_id, position, look, rater in split if position]
    labels = labels_of(tmp_path, single)
    with pytest.raises(
        InvalidInput, match=rf"are left, right, single; got top .{len(single)}., the first in line 2\. Nothing"
    ):
        run(OCCUPATIONS, replace(SMALL, labels=labels), services)


def planned_people(settings, services):
    """The pictures of each arm before anything is drawn, with a position in each."""
    plan = plan_study(OCCUPATIONS, settings, services)
    shots = [[(row.id, shot) for shot in arm.shots for row in arm.rows.make_rows(shot)] for arm in plan.each]
    return [[(key, "single" if shot.facts["setting"] == "single" else "left") for key, shot in one] for one in shots]


def test_answers_that_do_not_fit_the_run_are_refused_before_anything_is_drawn(services, tmp_path):
    fresh = replace(SMALL, seed=77)
    (people,) = planned_people(fresh, services)
    fitting = [(*person, "feminine", 1) for person in people]
    for wrong, words in (
        ((people[0][0], "top", "feminine", 1), "positions in labels.csv are .*; got top"),
        ((*people[0], "female", 2), "got female"),
        ((*people[0], "masculine", 1), "of one rater to one question about one picture: line 2 and line "),
    ):
        labels = labels_of(tmp_path, [*fitting, wrong])
        before = services.images.n_bytes
        with pytest.raises(InvalidInput, match=words):
            run(OCCUPATIONS, replace(fresh, labels=labels), services)
        assert services.images.n_bytes == before


def test_answers_about_pictures_of_all_arms_count_for_their_arm(services, tmp_path):
    two_arms = replace(SMALL, scale=0.01, arms=(Arm(condition="fair"), Arm(condition="published")))
    arms = planned_people(two_arms, services)
    answers = [(*person, "feminine", 1) for arm in arms for person in arm]
    labels = labels_of(tmp_path, [*answers, ("gone", "left", "feminine", 1)])
    settings = replace(two_arms, labels=labels)
    look = plan_study(OCCUPATIONS, settings, services).answers.attrs["look"]
    assert look.counts_by_way == {"id": len(answers)}
    report = run(OCCUPATIONS, settings, services)
    assert f"1 of {look.n} answers in labels.csv do not count" in full_headline(report)
    for part, arm in zip(report.arms, arms, strict=True):
        assert part.results.notes[0].startswith(
            f"{len(arm)} answers in labels.csv count, of 1 person about {len(arm)} "
        )
    labels = labels_of(tmp_path, answers[: len(arms[0])])
    with pytest.raises(InvalidInput, match="counts for the arm “published”, so the arms cannot be compared"):
        plan_study(OCCUPATIONS, replace(two_arms, labels=labels), services)


def test_people_whom_nobody_labelled_are_left_out_and_counted(services, small, tmp_path):
    people = people_in(small, services)
    labels = labels_of(tmp_path, [(*person, 1) for person in people if person[1] != "right"])
    report = run(OCCUPATIONS, replace(SMALL, labels=labels), services)
    n_right = sum(position == "right" for _, position, _ in people)
    assert f"{n_right} of {len(people)} people have no label" in " ".join(report.results.notes)
    assert findings(report)["paired_overall"].estimate.n == n_right  # as many on the left
    assert "table1" not in {table.key for table in report.results.tables}
    labels = labels_of(tmp_path, [("elsewhere", "left", "feminine", 1)])
    with pytest.raises(InvalidInput, match="elsewhere"):
        run(OCCUPATIONS, replace(SMALL, labels=labels), services)


@pytest.mark.parametrize(
    ("design", "changes", "error", "words"),
    [
        (OCCUPATIONS, {"options": {"labeller": "oracle"}}, InvalidInput, "finder, vqa, people"),
        (OCCUPATIONS, {"options": {"labeller": "people"}}, InvalidInput, "CSV"),
        (OCCUPATIONS, {"options": {"sentences": ["a man"]}}, InvalidInput, "two"),
        (OCCUPATIONS, {"labels": "nowhere.csv"}, StorageError, "nowhere"),
        (FAIRNESS, {"options": {"aspects": ["age"]}}, InvalidInput, "age"),
        (FAIRNESS, {"options": {"masculine": ["nurse"]}}, InvalidInput, "nurse"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_drawn(services, design, changes, error, words):
    before = services.images.n_bytes
    with pytest.raises(error, match=words):
        run(design, replace(SMALL, **changes), services)
    assert services.images.n_bytes == before


def test_no_pictures_are_no_people():
    with pytest.raises(InvalidInput, match="no picture"):
        list_people(pd.DataFrame(columns=["image_id"]), pd.DataFrame())


NAMES = {"CEO": "masculine", "nurse": "feminine"}
FAIR = StudySettings(condition="fair", options=TRUSTING)


@pytest.fixture(scope="module")
def two(services):
    design = design_of_two(OCCUPATIONS, NAMES, n_paired=5, n_single=3)
    return run(design, FAIR, services)


def score(report, key="paired"):
    return findings(report)[key].estimate.value


def test_both_orders_and_each_alone_are_drawn_plain_and_intervened(two):
    # 2 orders x 5 pictures x (plain, intervened), and 2 identities x 3 alone.
    assert two.n_images == 2 * 5 * 2 + 2 * 3
    assert two.pictures.groupby("group").size().to_dict() == {"paired": 10, "fairness": 10, "single": 6}
    first = two.pictures.loc[two.pictures["setting"] == "paired", ["left", "right"]]
    assert set(first.itertuples(index=False, name=None)) == {("CEO", "nurse"), ("nurse", "CEO")}
    assert {"paired", "fairness", "single", "gap", "difference"} <= {f.key for f in two.results.findings}
    assert get_table(two, "orders").frame["position"].tolist().count("left") == 4


def test_what_was_drawn_is_what_is_scored(two):
    for key in ("paired", "fairness", "single"):
        assert score(two, key) == pytest.approx(findings(two)[key].expected)


def test_the_sign_follows_the_stereotypes_that_were_chosen(services, two):
    swapped = design_of_two(OCCUPATIONS, {name: OTHER[looks] for name, looks in NAMES.items()}, n_paired=5, n_single=3)
    assert score(run(swapped, FAIR, services)) == pytest.approx(-score(two))


def test_both_may_have_the_same_stereotype(services):
    design = design_of_two(OCCUPATIONS, {"nurse": "feminine", "teacher": "feminine"}, n_paired=2, n_single=1)
    assert -100 <= score(run(design, FAIR, services)) <= 100


@every([
    ({"CEO": "masculine"}, 5, "two different"),
    ({"CEO": "masculine", " ": "feminine"}, 5, "two different"),
    ({"nurse": "masculine", "nurse ": "feminine"}, 5, "two different"),
    ({"CEO": "tall", "nurse": "feminine"}, 5, "tall"),
    ({"CEO": "masculine", "x" * 90: "feminine"}, 5, "80"),
    (NAMES, 0, "needs a picture"),
])  # fmt: skip
def test_identities_that_cannot_be_asked_for_are_refused(names, n, words):
    with pytest.raises(InvalidInput, match=words):
        design_of_two(OCCUPATIONS, names, n_paired=n, n_single=3)


def test_one_corrected_label_moves_the_score_by_one_person(two):
    people = labelled_people(two)
    one = people[(people["setting"] == "paired") & (people["position"] == "left")].iloc[0]
    person = (one["image_id"], one["position"])
    corrected = relabelled(two, labels_after(people, person, OTHER[one["perceived_gender"]]))
    # 20 people in 10 pictures: one more or less that conforms changes the mean of +1 and -1 by 2/20.
    conformed = one["perceived_gender"] == one["stereotyped_gender"]
    assert score(corrected) - score(two) == pytest.approx(-10 if conformed else 10)
    assert score(corrected, "single") == score(two, "single")
    seen = corrected.pictures.set_index("image_id").loc[one["image_id"], "left_seen_as"]
    assert seen == OTHER[one["perceived_gender"]]
    assert any(note.startswith("1 of 46 labels were corrected by hand") for note in corrected.results.notes)
    assert relabelled(two, {}).results.findings == two.results.findings


def test_labels_that_were_looked_at_are_compared_with_the_automatic_ones(two):
    people = labelled_people(two)
    paired = people[people["setting"] == "paired"]
    answers = {(row.image_id, row.position): row.perceived_gender for row in paired.itertuples(index=False)}
    first = next(iter(answers))
    corrected = relabelled(two, answers | {first: OTHER[answers[first]]})
    kappa = findings(corrected)["kappa_paired_automatic_human"]
    assert kappa.says == "95.0 % of 20 labels are equal."
    assert kappa.estimate.value < 1
    assert not [f for f in corrected.results.findings if f.key == "kappa_single_automatic_human"]


def test_a_picture_fails_as_a_whole_and_is_freed_as_a_whole(two):
    people = labelled_people(two)
    image_id = people.loc[people["setting"] == "paired", "image_id"].iloc[0]
    failed = labels_after(people, (image_id, "right"), "not_two_people")
    assert failed == {(image_id, "left"): "not_two_people", (image_id, "right"): "not_two_people"}
    broken = relabelled(two, failed)
    coverage = get_table(broken, "coverage").frame.set_index("setting")
    assert coverage.loc["paired", "failed"] == 1
    freed = labels_after(labelled_people(broken), (image_id, "left"), "feminine")
    assert freed == {(image_id, "left"): "feminine", (image_id, "right"): "cannot_identify"}
    with pytest.raises(InvalidInput, match="has no person"):
        labels_after(people, ("elsewhere", "left"), "feminine")
    with pytest.raises(InvalidInput, match="tall"):
        labels_after(people, (image_id, "left"), "tall")


def test_the_corrected_labels_are_a_csv_that_gives_the_same_scores(services, two, tmp_path):
    people = labelled_people(two)
    one = people[people["setting"] == "paired"].iloc[0]
    changed = labels_after(people, (one["image_id"], one["position"]), OTHER[one["perceived_gender"]])
    corrected = relabelled(two, changed)
    path = take(corrected, "table:labels:csv", tmp_path)
    again = run(two.design, replace(FAIR, labels=str(path)), services)
    for key in ("paired", "fairness", "single", "gap"):
        assert findings(again)[key].estimate == findings(corrected)[key].estimate
    # Automatic labels in the CSV are nobody's opinion: only the corrected one is compared.
    assert not [f for f in again.results.findings if f.key.endswith("automatic_human")]


def test_a_report_without_people_has_no_labels(two):
    bare = replace(two, results=replace(two.results, tables=()))
    with pytest.raises(InvalidInput, match="labels no people"):
        relabelled(bare, {})


SWAPPED = replace(find_design("pst-swapped"), images_per_prompt=40)


def run_swapped(services, condition="people", **options):
    settings = StudySettings(model="calibration-renderer", condition=condition, options=options)
    return complete(run_study(SWAPPED, settings, services))


@pytest.fixture(scope="module")
def swapped(services):
    return run_swapped(services, pairs=("lawyer and clerk",))


def test_the_place_is_found_and_the_role_is_not_blamed(swapped):
    found = findings(swapped)
    assert found["place"].estimate.low > 0
    assert found["place"].estimate.value == pytest.approx(0.4, abs=0.32)  # four standard errors
    assert found["role"].estimate.low < 0 < found["role"].estimate.high
    for key in ("place", "role", "both"):  # the reader mistakes one or two in a hundred
        assert found[key].estimate.value == pytest.approx(found[key].expected, abs=0.05)
    headline = get_study(SWAPPED).headline(swapped)
    points = f"{100 * found['place'].estimate.value:.0f} points higher on the left"
    assert headline.startswith(f"The place alone changes the share of masculine-looking people: it is {points}")
    assert "The role alone does not clearly change the share of masculine-looking people" in headline
    assert set(found) == {"place", "role", "both", *(key for key in found if key.startswith("kappa"))}


def test_effects_of_places_are_compared_between_arms_on_the_seeds_of_each_pair(services, swapped):
    settings = StudySettings(arms=(Arm(condition="fair"), Arm(condition="people")), options=swapped.settings.options)
    report = complete(run_study(SWAPPED, settings, services))
    fair, people = ({f.key: f.estimate.value for f in arm.results.findings} for arm in report.arms)
    rows = frame(report, "differences").set_index("finding")
    place = rows.loc["Left minus right"]
    assert place["compared on"] == "same seeds"
    assert 35 <= place["n"] <= 40  # in one or two seeds of an arm nobody can be told
    assert place["difference"] == pytest.approx(people["place"] - fair["place"], abs=0.05)
    assert place["low"] > 0  # the place is planted in one arm only
    assert not broken_claims(report)


def test_what_is_not_below_the_corrected_level_is_not_claimed(swapped):
    place = findings(swapped)["place"]
    assert place.estimate.low > 0  # by itself it is clear
    estimates = {"place": replace(place.estimate, p_value=0.03)}  # times 3 it is 0.09
    less_sure = [
        replace(one, claim=None, estimate=estimates.get(one.key, one.estimate))
        for one in swapped.results.findings
        if one.key in ("place", "role", "both")
    ]
    decided = decide_findings(less_sure, get_family, confidence=0.95)
    headline = get_study(SWAPPED).headline(replace(swapped, results=replace(swapped.results, findings=decided)))
    assert headline.startswith("The place alone does not clearly change the share of masculine-looking people")
    assert "adjusted p = 0.090" in headline
    assert "among 3 tests this happens by chance" in decided[0].claim.reason
    assert not broken_claims(swapped)
    assert not stray_numbers(swapped)


def test_its_numbers_are_within_the_ranges_of_their_measures_for_other_programs_too(swapped):
    with zipfile.ZipFile(io.BytesIO(to_form(swapped, "every_eval_ever"))) as archive:
        (record,) = (json.loads(archive.read(name)) for name in archive.namelist())
    for one in record["evaluation_results"]:
        low, high = (float(one["metric_config"][end]) for end in ("min_score", "max_score"))
        assert low <= one["score_details"]["score"] <= high
        assert (low, high) == METRICS[one["metric_config"]["metric_kind"]].bounds


def test_a_label_corrected_by_hand_moves_the_numbers(swapped):
    people = labelled_people(swapped)
    left = people[people["position"] == "left"]
    everybody = {(one.image_id, "left"): "feminine" for one in left.itertuples()}
    corrected = findings(relabelled(swapped, everybody))
    assert corrected["place"].estimate.value < 0


@pytest.mark.slow
def test_at_200_pictures_what_is_planted_is_found_and_nothing_else_is_claimed():
    # On the record of what is drawn.
    planted = {("doctor", "nurse"): "role", ("lawyer", "clerk"): "place"}
    n_found, claims = 0, []
    for condition, (pair, truth), repetition in product(("people", "fair"), planted.items(), range(4)):
        less = []
        for (left, right), sign in ((pair, 1), (pair[::-1], -1)):
            prompt = f"Generate a picture of one {left} on the left and one {right} on the right."
            rows = [
                ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=1000 * repetition + k)
                for k in range(100)
            ]
            looks = [[one.gender == "masculine" for one in get_scene(row).people] for row in rows]
            less.append(sign * -np.diff(np.array(looks, dtype=float), axis=1)[:, 0])
        effects = {"role": order_effect(*less, sign=1), "place": order_effect(*less)}
        for (key, effect), p_value in zip(effects.items(), holm([e.p_value for e in effects.values()]), strict=True):
            if condition == "people" and key == truth:
                n_found += p_value < 0.05
                assert effect.estimate.value == pytest.approx(0.4, abs=0.25)  # five standard errors
            else:
                claims.append(p_value < 0.05)
    assert n_found == 8
    assert np.mean(claims) <= 0.14  # 5 % of 24, and two standard errors


def test_pairs_that_are_none_are_refused(services):
    twice = ("doctor and nurse", "nurse and cook")
    for pairs, words in (((), "two roles"), (("doctor",), "two roles"), (twice, "one pair only")):
        with pytest.raises(InvalidInput, match=words):
            run_swapped(services, pairs=pairs)


@every([
    ({"also_seen": ("old", "glasses", "beard")}, "at most 2 different"),
    ({"also_seen": ("old", "Old")}, "at most 2 different"),
    ({"also_seen": ("tall",)}, "no built-in attribute 'tall'"),
    ({"also_seen": ("old",), "labeller": "vqa"}, "take the labeller “finder” without a judge"),
])  # fmt: skip
def test_what_cannot_be_seen_is_refused_before_drawing(changes, words):
    with pytest.raises(InvalidInput, match=words):
        check_labelling(StudySettings(options=SwappedOptions(**changes)))
