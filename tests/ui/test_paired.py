"""The Paired tab: what it says, and labels that are corrected in place."""

from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.identities import design_of_two
from bias_core.studies.paired.tab import PER_PAGE, Labelling, PairedTab, labels_html, summary_html
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.saved import open_report
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Estimate
from tests import shared

services, plain_plots = shared.fake_services, shared.plain_plots

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(find_design("pst-occupations"), StudySettings(scale=0.01), services))


@pytest.fixture(scope="module")
def two(services):
    """A small report on two roles."""
    roles = {EVIL: "masculine", "nurse": "feminine"}
    design = design_of_two(find_design("pst-occupations"), roles, n_paired=2, n_single=2)
    return complete(run_study(design, StudySettings(), services))


class Named(dict):
    """Components by name, without a page: each stands for itself."""

    def __missing__(self, name):
        return name


@pytest.fixture
def tab(services):
    tab = PairedTab(services)
    tab.parts, tab.extra, tab.at_once = Named(), Named(), Named()
    tab.pictures = SimpleNamespace(look="look")
    return tab


def with_score(report, key, value, low, high):
    findings = tuple(
        replace(f, estimate=Estimate(value=value, low=low, high=high, n=f.estimate.n)) if f.key == key else f
        for f in report.results.findings
    )
    return replace(report, results=replace(report.results, findings=findings))


def first_pair(labelling):
    people = labelling.people()
    return people[people["setting"] == "paired"].iloc[0]


def other(answer):
    return "feminine" if answer == "masculine" else "masculine"


def test_the_headline_says_which_way_how_sure_and_what_a_request_for_fairness_changes(report, two):
    for score, words in (
        ((40.0, 20.0, 60.0), "70 % of the people look as the stereotype of their role has it"),
        ((40.0, 20.0, 60.0), "leans with the stereotypes"),
        ((-40.0, -60.0, -20.0), "leans against the stereotypes"),
        ((10.0, -10.0, 30.0), "no clear lean either way"),
        ((float("nan"),) * 3, "Nobody could be scored"),
    ):
        assert words in headline(with_score(report, "paired_overall", *score))
    fairer = headline(with_score(two, "difference", -30.0, -50.0, -10.0))
    assert "Asked to be fair, the model draws them less stereotyped (−30 [−50, −10])" in fairer
    assert "neither clearly more" in headline(with_score(two, "difference", -5.0, -50.0, 40.0))


def test_failures_and_agreement_stand_beside_the_score(report):
    text = summary_html(report)
    assert "Pictures that failed, in pairs" in text
    assert "0 of 8" in text  # 2 x 2 occupations in both orders
    assert "against the record of what was drawn" in text


def test_every_person_has_a_menu_with_the_label_chosen(report):
    labelling = Labelling(drawn=report)
    text = labels_html(labelling)
    pictures = labelling.pictures()
    assert len(pictures) == PER_PAGE
    people = labelling.people()
    assert text.count("<select") == people["image_id"].isin(pictures).sum()
    assert text.count(" selected>") == text.count("<select")
    assert "left: " in text


def test_what_a_prompt_says_is_escaped(two):
    assert "<img src=x" not in labels_html(Labelling(drawn=two))


def test_pages_turn_and_end(report):
    first = Labelling(drawn=report)  # 8 pictures of pairs and 12 alone
    second = first.turn(1)
    assert len(second.pictures()) == 20 - PER_PAGE
    assert second.turn(1).page == second.page
    assert second.turn(-1).pictures() == first.pictures()
    assert not set(first.pictures()) & set(second.pictures())


def test_a_correction_is_counted_and_can_be_undone(report):
    labelling = Labelling(drawn=report)
    one = first_pair(labelling)
    person = (one["image_id"], one["position"])
    changed = labelling.correct(person, other(one["perceived_gender"]))
    assert "1 label corrected by hand" in changed.place()
    assert changed.report().results.findings[0] != report.results.findings[0]
    assert changed.undo().report() is report
    # The page would not renew what it believes unchanged, and keep the menu as it was set by hand.
    assert labels_html(changed.undo()) != labels_html(labelling)
    confirmed = changed.confirm()
    n = confirmed.people()["image_id"].isin(confirmed.pictures()).sum()
    assert f"1 label corrected by hand, {n - 1} looked at" in confirmed.place()
    assert replace(confirmed, which="hand").pictures() == confirmed.pictures()


def test_the_doubtful_come_first_and_the_failed_alone(report):
    labelling = Labelling(drawn=report)
    people = labelling.people().set_index("image_id")["lean"].abs().groupby("image_id").min()
    doubtful = replace(labelling, which="doubtful").pictures()
    assert people[doubtful].is_monotonic_increasing
    one = first_pair(labelling)
    failed = labelling.correct((one["image_id"], "left"), "not_two_people")
    assert replace(failed, which="failed").pictures() == [one["image_id"]]
    assert replace(labelling, which="failed").pictures() == []


@pytest.mark.usefixtures("plain_plots")
def test_the_tab_shows_what_a_correction_gives(tab, two):
    labelling = Labelling(drawn=two)
    one = first_pair(labelling)
    answer = other(one["perceived_gender"])
    event = SimpleNamespace(image=one["image_id"], position=one["position"], answer=answer)
    first, then = tab.on_label(labelling, None, event)
    assert "labels" not in first  # the menu keeps its focus
    assert "1 label corrected by hand" in first["place"]
    assert headline(then["report"]) in unescape(first["header"])
    assert headline(then["report"]) != headline(two)
    assert "labels.csv" in then["shell"]
    assert then["report"].pictures["left_seen_as"].tolist() != two.pictures["left_seen_as"].tolist()
    first, then = tab.on_step(Labelling.undo, first["labelling"], None)
    assert then["report"] is two
    assert "labels.csv" not in then["shell"]
    assert "<select" in first["labels"]


def test_a_label_that_cannot_be_is_refused_in_place(tab, report):
    one = first_pair(Labelling(drawn=report))
    for image, answer in (("elsewhere", "feminine"), (one["image_id"], "tall")):
        event = SimpleNamespace(image=image, position=one["position"], answer=answer)
        for labelling in (Labelling(drawn=report), None):
            (said,) = tab.on_label(labelling, None, event)
            assert "alert" in said["status"]


def test_labels_of_a_reopened_run_can_be_corrected_without_its_lost_pictures(services, two):
    saved = open_report(two.run_id, services)
    labelling = Labelling(drawn=saved.report)
    one = first_pair(labelling)
    changed = ((one["image_id"], one["position"]), other(one["perceived_gender"]))
    again, fresh = labelling.correct(*changed).report(), Labelling(drawn=two).correct(*changed).report()
    assert again.results.findings == fresh.results.findings
    stored = {key: image for key, image in two.stored.items() if key != one["image_id"]}
    assert one["image_id"] not in labels_html(Labelling(drawn=replace(two, stored=stored)))


def test_own_identities_are_run_whole_and_checked(tab):
    own = {"first": "pilot", "first_looks": "masculine", "second": "flight attendant",
           "second_looks": "feminine", "n_paired": 4, "n_single": 2, "fairness": False}  # fmt: skip
    design = tab.own_design(tab.designs["pst-power"], own)
    settings = tab.own_settings(StudySettings(scale=0.1, options={"power_images": 3, "finder": "halves"}))
    assert settings.scale == 1.0
    assert settings.options == {"finder": "halves"}
    assert "pilot and flight attendant" in design.title
    with pytest.raises(InvalidInput, match="two different"):
        tab.own_design(design, own | {"second": "pilot"})
