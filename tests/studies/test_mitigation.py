"""Arms that are to help against a bias: what each leaves, what it costs, and what is not claimed."""

import math

import pytest

from bias_core.studies.explore.headline import arms_headline
from bias_core.studies.explore.mitigation import Tried, mitigation_results
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.figures import draw
from bias_core.studies.running.run import complete, run_study
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
def report(services):
    asked = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 8, "n_images": 32}
    settings = explore_settings(StudySettings(), concept="doctor", arms=ARMS, attributes=(GOAL, ASSUMED), **asked)
    return complete(run_study(find_design("explore"), settings, services))


def test_every_arm_says_what_it_leaves_of_the_bias_and_what_it_costs(report):
    rows = report.results.frame("mitigation").set_index("arm")
    assert list(rows.index) == [arm.name for arm in ARMS]  # one line each, of the attribute with a goal
    assert set(rows["attribute"]) == {"man"}
    assert rows["in words"].to_dict() == {
        "plain": "some bias is left", "adapter": "no clear bias is left", "too much": "overcorrected",
        "women only": "overcorrected",
    }  # fmt: skip
    assert rows.loc["too much", "bias left"] < -0.2  # planted: 0.125 - 0.5
    assert rows.loc["adapter", "bias left low"] < 0 < rows.loc["adapter", "bias left high"]
    assert rows.loc["plain", "kept"] == 1.0
    assert rows.loc["women only", "kept"] < 0.75  # its words are lost


def test_words_that_are_one_to_the_encoder_tell_nothing_of_prompts_that_are_followed(services):
    alike = {"attribute_a": "male", "attribute_b": "Male", "n_attribute_images": 4}
    settings = explore_settings(StudySettings(), concept="doctor", attributes=(GOAL,), n_images=8, **alike)
    report = complete(run_study(find_design("explore"), settings, services))
    assert "asked_kept" not in {finding.metric for finding in report.results.findings}


def test_the_plot_has_a_point_for_each_arm_and_the_headline_names_who_overcorrects(report):
    plot = report.results.figures[0]
    assert plot.key == "mitigation"
    assert list(plot.data["group"]) == [arm.name for arm in ARMS]
    assert plot.data[["x", "y"]].notna().all(axis=None)
    (axes,) = draw(plot).axes
    assert [list(line.get_ydata()) for line in axes.lines if line.get_label().startswith("_child")].count(
        [0.0, 0.0]
    ) == 1
    assert "“man” is overcorrected in “too much”, “women only”." in arms_headline(report)
    left = {f.title: f for f in report.results.findings if f.metric == "remaining_gap"}
    assert "man: bias of “plain” that is left in “adapter”" in left
    assert "man: bias of “plain” that is left in “plain”" not in left


def test_nothing_is_said_without_a_bias_to_remove_or_a_rate_with_a_source(report):
    arms = [
        Tried(name=arm.name, scores=arm.results.scored.scores[1:], fidelity=arm.results.scored.fidelity)
        for arm in report.arms
    ]
    assert mitigation_results(arms).tables == ()  # the rate of "old" is assumed
    turned = [Tried(name=arm.name, scores=arm.results.scored.scores, fidelity=None) for arm in report.arms[1:]]
    assert not mitigation_results(turned).tables  # the adapter as baseline is not biased
    without = [Tried(name=arm.name, scores=arm.results.scored.scores, fidelity=None) for arm in report.arms]
    some = mitigation_results(without)
    assert not some.figures
    assert all(math.isnan(value) for value in some.tables[0].frame["kept"])
