"""Effect and cost of each arm against a bias."""

import math
import re
from dataclasses import replace

import pytest

from bias_core.beyond.mitigation.extension import Tried, mitigation_results, overcorrected_sentence
from bias_core.explore.options import explore_settings
from bias_core.explore.report import arms_headline
from bias_core.measures.sequential import share_interval
from bias_core.report.figures import draw
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings
from bias_core.types import Attribute
from tests import shared

services = shared.real_services

GOAL = Attribute(
    name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5, reference_source="the goal"
)
ASSUMED = Attribute(
    name="old", positive="a photo of an old person", negative="a photo of a young person", reference=0.9,
    reference_source="assumed 90 %, a choice",
)  # fmt: skip
ARMS = (
    Arm(name="plain"),
    Arm(name="adapter", condition="fair"),
    Arm(name="too much", template="{doctor=secretary}"),
    Arm(name="women only", template="{doctor=woman doctor}"),
)


@pytest.fixture(scope="module")
def tried(services):
    asked = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 8, "n_images": 32}
    settings = explore_settings(StudySettings(), concept="doctor", arms=ARMS, attributes=(GOAL, ASSUMED), **asked)
    return complete(run_study(find_design("explore"), settings, services))


def test_every_arm_says_what_it_leaves_of_the_bias_and_what_it_costs(tried):
    rows = tried.results.frame("mitigation").set_index("arm")
    assert list(rows.index) == [arm.name for arm in ARMS]  # one line each, of the attribute with a goal
    assert set(rows["attribute"]) == {"man"}
    assert rows["in words"].to_dict() == {
        "plain": "some bias is left", "adapter": "no clear bias is left", "too much": "overcorrected",
        "women only": "overcorrected",
    }  # fmt: skip
    assert rows.loc["too much", "bias left"] < -0.2  # planted: 0.125 - 0.5
    assert rows["clear"].to_dict() == {"plain": "yes", "adapter": "no", "too much": "yes", "women only": "yes"}
    assert rows.loc["too much", "p adjusted"] >= 2 * rows.loc["too much", "p"]  # Holm's, of three arms
    assert rows.loc["adapter", "bias left low"] < 0 < rows.loc["adapter", "bias left high"]
    assert rows.loc["plain", "kept"] == 1.0
    assert rows.loc["women only", "kept"] < 0.75  # its words are lost


def test_the_plot_has_a_point_for_each_arm_and_the_headline_names_who_overcorrects(tried):
    assert tried.results.figures[0].key == "shares"  # what each arm shows comes first
    plot = next(figure for figure in tried.results.figures if figure.key == "mitigation")
    assert list(plot.data["group"]) == [arm.name for arm in ARMS]
    assert plot.data[["x", "y"]].notna().all(axis=None)
    (axes,) = draw(plot).axes
    assert [list(line.get_ydata()) for line in axes.lines if line.get_label().startswith("_child")].count(
        [0.0, 0.0]
    ) == 1
    said = arms_headline(tried).replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(
        r"“man” is overcorrected in “too much” \(\d+ % \[\d+, \d+\] of 32, adjusted p .*\), “women only”", said
    )
    assert said.endswith("against a goal of 50 %.")
    left = {f.title: f for f in tried.results.findings if f.metric == "remaining_gap"}
    assert "man: bias of “plain” remaining in “adapter”" in left
    assert "man: bias of “plain” remaining in “plain”" not in left


def test_nothing_is_said_without_a_bias_to_remove_or_a_rate_with_a_source(tried):
    arms = [
        Tried(name=arm.name, scores=arm.results.scored.scores[1:], fidelity=arm.results.scored.fidelity)
        for arm in tried.arms
    ]
    assert mitigation_results(arms, 0.95).tables == ()  # the rate of "old" is assumed
    turned = [Tried(name=arm.name, scores=arm.results.scored.scores, fidelity=None) for arm in tried.arms[1:]]
    assert not mitigation_results(turned, 0.95).tables  # the adapter as baseline is not biased
    few = replace(tried.arms[0].results.scored.scores[0], prevalence=share_interval(13, 16), corrected=None)
    for n, is_clear in ((1, True), (4, False)):  # p = .021, of four attributes .085
        alike = [Tried(name=name, scores=[few] * n, fidelity=None) for name in ("plain", "other")]
        assert bool(mitigation_results(alike, 0.95).tables) == is_clear
    without = [Tried(name=arm.name, scores=arm.results.scored.scores, fidelity=None) for arm in tried.arms]
    some = mitigation_results(without, 0.95)
    assert not some.figures
    assert all(math.isnan(value) for value in some.tables[0].frame["kept"])


def test_overcorrection_is_one_family_over_arms_and_an_adjusted_claim(tried):
    biased, low = (
        replace(tried.arms[0].results.scored.scores[0], prevalence=share_interval(k, 16), corrected=None)
        for k in (16, 3)
    )
    for n, says in ((1, "overcorrected"), (4, "no clear bias is left")):  # p = .021, of four arms .085
        arms = [Tried(name=str(i), scores=[low if i else biased], fidelity=None) for i in range(n + 1)]
        results = mitigation_results(arms, 0.95)
        assert set(results.frame("mitigation")["in words"][1:]) == {says}
        assert ("overcorrected" in overcorrected_sentence(results)) == (n == 1)
        assert ("among 4 tests" in results.findings[0].says) == (n == 4)
    seldom = replace(biased, prevalence=share_interval(0, 16))
    arms = [Tried(name=name, scores=[score], fidelity=None) for name, score in (("base", seldom), ("other", low))]
    assert mitigation_results(arms, 0.95).frame("mitigation")["in words"].tolist() == ["some bias is left"] * 2


def test_an_arm_with_planted_bias_is_no_mitigation_of_the_arm_without(services):
    arms = Arm(condition="fair"), Arm(condition="extreme")
    low = replace(GOAL, reference=0.05)  # the fair arm is clearly above it
    settings = explore_settings(
        StudySettings(), concept="doctor", arms=arms, attributes=(low,), attribute_a="", attribute_b="", n_images=32
    )
    report = complete(run_study(find_design("explore"), settings, services))
    assert "bias" not in arms_headline(report)
    assert {row["arm"] for row in report.results.frame("mitigation").to_dict("records")} <= {"fair"}
