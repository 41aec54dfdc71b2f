"""Several concepts in one run: their lists, rates, claims, stops, arms and corrections."""

import csv
import math

import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.explore.concepts import (
    attributes_by_concept,
    join_concepts,
    load_concept_lists,
    read_concept_list,
    split_concepts,
)
from bias_core.explore.extension import SeveralOptions
from bias_core.explore.options import build_concept_settings, choose_design, several_options
from bias_core.explore.several import Concepts, list_concept_shares
from bias_core.report.commands import to_command
from bias_core.report.corrected import corrected
from bias_core.report.headlines import headline
from bias_core.run.next_steps import next_steps
from bias_core.run.plan import settle
from bias_core.run.run import complete, run, run_study
from bias_core.study.answers import COLUMNS

RENDERER = "calibration-renderer"


def explored(services, concepts, **given):
    settings = build_concept_settings(concepts, **{"model": RENDERER, "n_images": 24, **given})
    return complete(run_study(choose_design(settings), settings, services))


def written(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return str(path)


@pytest.mark.parametrize("text", ["doctor, nurse", "doctor\nnurse", "nurse", '"a tall, thin man", nurse'])
def test_concepts_survive_being_joined_and_split(text):
    assert split_concepts(join_concepts(split_concepts(text))) == split_concepts(text)


@pytest.mark.parametrize("name", load_concept_lists())
def test_every_concept_of_a_built_in_list_has_a_sourced_rate_except_those_that_the_sources_lack(name):
    concepts = load_concept_lists()[name].concepts
    rates = attributes_by_concept(SeveralOptions(concepts=concepts))
    without = {concept for concept, attributes in rates.items() if not any(one.has_source for one in attributes)}
    assert without <= {"chief"}  # Table 14 of the paired stereotype test has no share for it
    assert len(concepts) >= 3


def test_a_table_brings_concepts_rates_and_numbers_and_names_what_it_does_not_use(tmp_path):
    rows = [("Concept", "attribute", "rate", "source", "n", "colour"),
            ("welder", "man", "94.6 %", "a census, 2020", "8", "red"), ("nurse", "", "", "", "", "")]  # fmt: skip
    found = read_concept_list(written(tmp_path / "own.csv", rows))
    assert found.concepts == ("welder", "nurse")
    assert found.rates == ("welder|man|0.946|a census, 2020",)
    assert found.counts == ("welder|8",)
    assert "colour" in found.note
    options = several_options(build_concept_settings(found.concepts, rates=found.rates, counts=found.counts))
    assert [rates[0].reference for rates in attributes_by_concept(options).values()] == [0.946, 0.121]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("concept", "attribute", "rate"), ("welder", "man", "2")], "line 2.*share"),
        ([("concept", "rate"), ("welder", "0.5")], "line 2.*without the attribute"),
        ([("concept", "attribute", "rate"), ("a", "man", "0.5"), ("A", "man", "0.6")], "line 3.*another rate"),
        ([("concept", "n"), ("welder", "many")], "line 2.*number"),
        ([("concept",), (" ",), ("",)], "no concept"),
        ([("name",), ("welder",)], "concept"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(tmp_path, rows, says):
    with pytest.raises(InvalidInput, match=says):
        read_concept_list(written(tmp_path / "own.csv", rows))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rates": ["pilot|man|0.9"]}, "not among the concepts"),
        ({"rates": ["nurse|hat|0.9"]}, "not measured"),
        ({"rates": ["nurse|man"]}, "concept|attribute"),
        ({"counts": ["nurse|0"]}, "at least one"),
        ({"crossed": "pairs"}, "single concept"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is(given, says):
    with pytest.raises(InvalidInput, match=says):
        build_concept_settings(["doctor", "nurse"], **given)


def test_each_concept_is_compared_with_its_own_rate_in_one_family(services):
    report = explored(services, ["doctor", "nurse", "baker", "pilot"], condition="extreme")
    shares = {one.concept: one for one in list_concept_shares(report)["man"]}
    assert [shares[name].rate for name in ("doctor", "nurse", "baker")] == [0.562, 0.121, 0.364]
    tested = [one.claim for one in shares.values() if one.claim.verdict != "not tested"]
    assert {claim.n_tests for claim in tested} == {3}
    assert len(tested) == 3  # the assumed rate of pilots is not tested
    says = headline(report)
    n_clear = sum(claim.is_clear for claim in tested)
    assert "of 3 concepts with a sourced rate" in says
    assert n_clear
    assert f"not clear for {3 - n_clear}" in says
    assert "Holm’s correction for 3 tests" in says


def test_the_command_of_a_run_gives_the_same_run(services):
    settings = build_concept_settings(
        ["doctor", "a tall, thin man"], rates=["doctor|man|0.5|ours"], counts=["doctor|4"], n_images=2
    )
    words = to_command(choose_design(settings), settings)
    assert all(word in words for word in ("'\"a tall, thin man\"'", "'doctor|man|0.5|ours'", "'doctor|4'"))


def test_a_stopped_run_keeps_whole_concepts(services):
    asked = {"model": RENDERER, "n_images": 40, "attributes": ["man"], "seed": 77}
    explored(services, ["doctor", "nurse"], **asked)
    explored(services, ["baker"], **asked | {"n_images": 10, "attribute_a": "", "attribute_b": ""})  # a part of it
    settings = build_concept_settings(["doctor", "nurse", "baker"], **asked)
    begun = []
    steps = run(settle(choose_design(settings), settings), services, cancelled=lambda: bool(begun))
    report = complete(_noted(steps, begun))
    assert {one.concept: one.share.n for one in list_concept_shares(report)["man"]} == {"doctor": 40, "nurse": 40}
    assert any("2 of 3 concepts were finished, and only these are scored" in note for note in report.results.notes)
    assert any("10 pictures of the next concept" in note for note in report.results.notes)


def _noted(steps, begun):
    """Note each step of a run, so that the first one stops it."""
    while True:
        try:
            begun.append(step := next(steps))
        except StopIteration as ended:
            return ended.value
        yield step


def test_more_pictures_are_counted_for_all_concepts_or_for_some_alone(services):
    report = explored(services, ["doctor", "nurse"], n_images=8, attributes=["man"])
    sizes = {}
    for cells in ([], ["nurse"]):
        step = next_steps(report, services, cells)[0]
        n_each = [shot.n for shot in Concepts(step.design).shots(step.settings)]
        n_more = sum(n_each) - 16
        assert f"{n_more} more pictures{' of nurse' if cells else ''}, {sum(n_each)} in all" in step.says
        assert f"({n_more} more" in step.reach
        sizes[step.cells] = n_each
    n = sizes[""][0]
    assert sizes == {"": [n, n], "nurse": [8, n]}


def test_arms_stand_in_the_same_rows_and_their_differences_are_tested_by_concept(services):
    from bias_core.study.types import Arm

    report = explored(
        services, ["doctor", "nurse"], arms=(Arm(condition="fair"), Arm(condition="extreme")), attributes=["man"]
    )
    assert [list(list_concept_shares(arm)) for arm in report.arms] == [["man"], ["man"]]
    differences = report.results.frame("differences")
    assert set(differences["finding"]) >= {"doctor, man: P", "nurse, man: P"}
    n_clear = (differences["clear"] == "yes")[differences["finding"].str.endswith(": P")].sum()
    assert headline(report).startswith(f"{n_clear} of 2 differences between the arms")


def test_people_correct_the_share_of_each_concept(services):
    report = explored(services, ["doctor", "nurse"], attributes=["man"], condition="extreme")
    frame = report.pictures
    answers = pd.DataFrame(
        [
            dict.fromkeys(COLUMNS, "") | {"image_id": image_id, "rater": rater, "attribute": "man", "answer": "yes"}
            for image_id in frame["image_id"]
            for rater in ("a", "b")
        ]
    )
    after = corrected(report, answers, services)
    shares = {one.concept: one.share for one in list_concept_shares(after)["man"]}
    assert all(math.isclose(share.value, 1.0) for share in shares.values())
    assert "Corrected by people’s labels" in headline(after)
