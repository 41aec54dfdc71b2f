"""Targets of one's own, chosen targets, the four scores, and the lean of each picture."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.internal.study import own_targets
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.export import to_export
from bias_core.studies.running.run import complete, run_study, with_options
from tests import shared

services = shared.real_services

PAPER = find_design("internal-bias")
OWN = own_targets("judge\n\nNurse | an image of a nurse | female\nmechanic || male\n", n=5, n_attribute=3)


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(OWN, StudySettings(condition="extreme"), services))


def shots_of(design, **changes):
    return program_of(design).shots(design, with_options(design, StudySettings(**changes)))


def test_a_line_is_a_keyword_with_its_prompt_and_side_as_wanted():
    targets = OWN.data["targets"]
    assert [t["prompt"] for t in targets] == ["an image of a judge", "an image of a nurse", "an image of a mechanic"]
    assert [t["dominated"] for t in targets] == ["unassigned", "female", "male"]
    shots = shots_of(OWN)
    # Three targets with 5 pictures and 3 of each of their poles, eight prompts of men and women with 3.
    assert sum(shot.n for shot in shots) == 3 * (5 + 2 * 3) + 8 * 3


@pytest.mark.parametrize(
    ("text", "changes", "says"),
    [
        (" \n", {}, "got 0"),
        ("judge\njudge | an image", {}, "twice: judge"),
        ("judge | an image | neutral", {}, "'judge | an image | neutral'"),
        ("| an image", {}, "keyword"),
        ("a | b | male | d", {}, "male or female"),
        ("judge", {"n": 1}, "got 1"),
        ("judge", {"n_attribute": 1000}, "got 1000"),
    ],
)
def test_targets_that_cannot_be_are_refused_with_what_came(text, changes, says):
    with pytest.raises(InvalidInput) as error:
        own_targets(text, **changes)
    assert says in str(error.value)


def test_nothing_published_is_claimed_of_one_s_own_targets(report):
    mcas = {f.title: f for f in report.results.findings if f.key.startswith("mcas ")}
    assert list(mcas) == ["judge: MCAS", "Nurse (female-dominated): MCAS", "mechanic (male-dominated): MCAS"]
    assert all(f.published is None for f in report.results.findings)
    assert table_of(report, "table4").frame["model"].unique().tolist() == ["this run"]
    figure = next(f for f in report.results.figures if f.key == "mcas")
    assert set(figure.data["group"]) == {"own targets", "female-dominated", "male-dominated"}
    assert "own-targets.yaml" in to_export(report).files


def test_the_four_scores_are_those_of_table_3_with_their_intervals(report):
    scores = table_of(report, "scores").frame.set_index(["target", "score"])
    table3 = table_of(report, "table3").frame.set_index("target")
    for keyword in table3.index:
        for score in ("TT", "ITP", "IT", "II"):
            row = scores.loc[(keyword, score)]
            assert row["value"] == table3.loc[keyword, score]
            assert math.isnan(row["low"]) if score == "TT" else row["low"] < row["value"] < row["high"]
    # A nurse has 5 pictures; men and women have 4 prompts x 3 each.
    assert scores.loc["Nurse", "n"].to_dict() == {"TT": 0, "ITP": 24, "IT": 5, "II": 29}


def test_the_mean_lean_of_a_target_s_pictures_is_its_ii(report):
    means = report.pictures.groupby("keyword")["lean"].mean()
    table3 = table_of(report, "table3").frame.set_index("target")
    for keyword in table3.index:
        assert means[keyword] == pytest.approx(table3.loc[keyword, "II"], abs=1e-6)
    assert report.pictures.loc[report.pictures["kind"] != "target", "lean"].isna().all()


def test_a_missing_alpha_has_its_reason(services, report):
    strict = replace(OWN, options=OWN.options | {"minimum_text_text": 1.5})
    row = table_of(complete(run_study(strict, StudySettings(condition="extreme"), services)), "table3").frame.loc[0]
    assert math.isnan(row["α"])
    assert "the texts hardly lean" in row["why no α"]
    assert (table_of(report, "table3").frame["why no α"] != "").tolist() == table_of(report, "table3").frame[
        "α"
    ].isna().tolist()


def test_chosen_targets_are_drawn_whole_and_unknown_ones_refused():
    shots = shots_of(PAPER, scale=0.01, options={"targets": "Nurse, CEO"})
    assert [s.facts["keyword"] for s in shots if s.group == "target"] == ["CEO", "Nurse"]
    with pytest.raises(InvalidInput, match="no target Pilot"):
        shots_of(PAPER, options={"targets": ["Pilot"]})
