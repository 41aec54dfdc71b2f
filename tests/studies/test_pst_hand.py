"""Any two identities, and labels corrected by hand: the score follows at once, and nothing is drawn again."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.identities import design_of_two
from bias_core.studies.paired.labelling import chosen, labelled_people, relabelled
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.study.downloads import take
from tests import shared
from tests.studies.oasis_runs import findings

services = shared.real_services

BASE = find_design("pst-occupations")
TRUSTING = {"finder": "halves"}
NAMES = {"CEO": "masculine", "nurse": "feminine"}
OTHER = {"masculine": "feminine", "feminine": "masculine"}


def settings(**changes):
    return StudySettings(condition="fair", options=TRUSTING, **changes)


@pytest.fixture(scope="module")
def report(services):
    design = design_of_two(BASE, NAMES, n_paired=5, n_single=3)
    return complete(run_study(design, settings(), services))


def finding(report, key):
    return findings(report)[key]


def score(report, key="paired"):
    return finding(report, key).estimate.value


def test_both_orders_and_each_alone_are_drawn_plain_and_intervened(report):
    # 2 orders x 5 pictures x (plain, intervened), and 2 identities x 3 alone.
    assert report.n_images == 2 * 5 * 2 + 2 * 3
    assert report.pictures.groupby("group").size().to_dict() == {"paired": 10, "fairness": 10, "single": 6}
    first = report.pictures.loc[report.pictures["setting"] == "paired", ["left", "right"]]
    assert set(first.itertuples(index=False, name=None)) == {("CEO", "nurse"), ("nurse", "CEO")}
    assert {"paired", "fairness", "single", "gap", "difference"} <= {f.key for f in report.results.findings}
    assert table_of(report, "orders").frame["position"].tolist().count("left") == 4


def test_what_was_drawn_is_what_is_scored(report):
    for key in ("paired", "fairness", "single"):
        assert score(report, key) == pytest.approx(finding(report, key).expected)


def test_the_sign_follows_the_stereotypes_that_were_chosen(services, report):
    swapped = design_of_two(BASE, {name: OTHER[looks] for name, looks in NAMES.items()}, n_paired=5, n_single=3)
    assert score(complete(run_study(swapped, settings(), services))) == pytest.approx(-score(report))


def test_both_may_have_the_same_stereotype(services):
    design = design_of_two(BASE, {"nurse": "feminine", "teacher": "feminine"}, n_paired=2, n_single=1)
    found = complete(run_study(design, settings(), services))
    assert -100 <= score(found) <= 100


@pytest.mark.parametrize(
    ("names", "n", "words"),
    [
        ({"CEO": "masculine"}, 5, "two different"),
        ({"CEO": "masculine", " ": "feminine"}, 5, "two different"),
        ({"nurse": "masculine", "nurse ": "feminine"}, 5, "two different"),
        ({"CEO": "tall", "nurse": "feminine"}, 5, "tall"),
        ({"CEO": "masculine", "x" * 90: "feminine"}, 5, "80"),
        (NAMES, 0, "needs a picture"),
    ],
)
def test_identities_that_cannot_be_asked_for_are_refused(names, n, words):
    with pytest.raises(InvalidInput, match=words):
        design_of_two(BASE, names, n_paired=n, n_single=3)


def test_one_corrected_label_moves_the_score_by_one_person(report):
    people = labelled_people(report)
    one = people[(people["setting"] == "paired") & (people["position"] == "left")].iloc[0]
    person = (one["image_id"], one["position"])
    corrected = relabelled(report, chosen(people, person, OTHER[one["perceived_gender"]]))
    # 20 people in 10 pictures: one more or less that conforms changes the mean of +1 and -1 by 2/20.
    conformed = one["perceived_gender"] == one["stereotyped_gender"]
    assert score(corrected) - score(report) == pytest.approx(-10 if conformed else 10)
    assert score(corrected, "single") == score(report, "single")
    seen = corrected.pictures.set_index("image_id").loc[one["image_id"], "left_seen_as"]
    assert seen == OTHER[one["perceived_gender"]]
    assert any(note.startswith("1 of 46 labels were corrected by hand") for note in corrected.results.notes)
    assert relabelled(report, {}).results.findings == report.results.findings


def test_labels_that_were_looked_at_are_compared_with_the_automatic_ones(report):
    people = labelled_people(report)
    paired = people[people["setting"] == "paired"]
    answers = {(row.image_id, row.position): row.perceived_gender for row in paired.itertuples(index=False)}
    first = next(iter(answers))
    corrected = relabelled(report, answers | {first: OTHER[answers[first]]})
    kappa = finding(corrected, "kappa_paired_automatic_human")
    assert kappa.says == "95.0 % of 20 labels are equal."
    assert kappa.estimate.value < 1
    assert not [f for f in corrected.results.findings if f.key == "kappa_single_automatic_human"]


def test_a_picture_fails_as_a_whole_and_is_freed_as_a_whole(report):
    people = labelled_people(report)
    image_id = people.loc[people["setting"] == "paired", "image_id"].iloc[0]
    failed = chosen(people, (image_id, "right"), "not_two_people")
    assert failed == {(image_id, "left"): "not_two_people", (image_id, "right"): "not_two_people"}
    broken = relabelled(report, failed)
    coverage = table_of(broken, "coverage").frame.set_index("setting")
    assert coverage.loc["paired", "failed"] == 1
    freed = chosen(labelled_people(broken), (image_id, "left"), "feminine")
    assert freed == {(image_id, "left"): "feminine", (image_id, "right"): "cannot_identify"}
    with pytest.raises(InvalidInput, match="nobody"):
        chosen(people, ("elsewhere", "left"), "feminine")
    with pytest.raises(InvalidInput, match="tall"):
        chosen(people, (image_id, "left"), "tall")


def test_the_corrected_labels_are_a_csv_that_gives_the_same_scores(services, report, tmp_path):
    people = labelled_people(report)
    one = people[people["setting"] == "paired"].iloc[0]
    changed = chosen(people, (one["image_id"], one["position"]), OTHER[one["perceived_gender"]])
    corrected = relabelled(report, changed)
    path = take(corrected, "table:labels:csv", tmp_path)
    again = complete(run_study(report.design, settings(labels=str(path)), services))
    for key in ("paired", "fairness", "single", "gap"):
        assert finding(again, key).estimate == finding(corrected, key).estimate
    # Automatic labels in the CSV are nobody's opinion: only the corrected one is compared.
    assert not [f for f in again.results.findings if f.key.endswith("automatic_human")]


@pytest.mark.parametrize("name", ["pst-occupations", "pst-power", "pst-fairness"])
def test_the_papers_studies_are_scored_anew_from_their_labels(services, name):
    small = StudySettings(scale=0.01, options={"finder": "halves"})
    report = complete(run_study(find_design(name), small, services))
    people = labelled_people(report)
    same = {(p.image_id, p.position): p.perceived_gender for p in people.itertuples(index=False)}
    looked_at = relabelled(report, same)
    first, again = report.results.findings[0], looked_at.results.findings[0]
    assert again == first
    other = {person: OTHER.get(answer, answer) for person, answer in same.items()}
    reversed_ = relabelled(report, other).results.findings[0]
    assert reversed_.estimate.value == pytest.approx(-first.estimate.value)


def test_a_report_without_people_has_no_labels(report):
    bare = replace(report, results=replace(report.results, tables=()))
    with pytest.raises(InvalidInput, match="labels no people"):
        relabelled(bare, {})
