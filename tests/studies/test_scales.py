"""Scales in an exploration: read with known errors, reported, compared, and left out where nobody can read them."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.scales import load_scales, read_scales
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.arms.statistics import mean_sample
from bias_core.studies.explore.options import explore_options, explore_settings
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design, page_of
from bias_core.studies.kit.scale_scores import ScaleScore, score_scales
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.scales import compare_scales, scale_results, scales_arms_headline, scales_headline
from bias_core.studies.running.export import to_command, to_python
from bias_core.studies.running.run import run_study
from bias_core.types import ClassErrors
from bias_core.world.scene import AGES, SKIN_TONES
from tests.studies.test_run_study import finish

RIGHT = ClassErrors(
    classes=("child", "young", "old", "cannot tell"), counts=tuple(map(tuple, (10_000 * np.eye(4, dtype=int)).tolist()))
)
AGE = "age group"


def score(places, text=AGE, errors=RIGHT, **more):
    return ScaleScore(request=read_scales([text])[0], places=np.array(places), errors=errors, **more)


def results(*scores, notes=(), fixed_n=True):
    units = [str(i) for i in range(len(scores[0].places))] if scores else []
    return scale_results(scores, notes, units, confidence=0.95, fixed_n=fixed_n, sample=mean_sample)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def settings_of(concept="CEO", **more):
    given = {"model": "calibration-renderer", "condition": "tones", "n_images": 40, "attributes": ()}
    words = {"attribute_a": "", "attribute_b": "", "scales": ("skin tone|even", AGE)}
    return explore_settings(concept=concept, **(given | words | more))


PUBLISHED = (
    "#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420",
)  # fmt: skip
"""The ten swatches of skintone.google."""


def test_the_scales_are_those_of_the_world_and_their_colours_those_of_their_source():
    tones, ages = load_scales()["skin tone"], load_scales()[AGE]
    assert tones.levels == tuple(map(str, SKIN_TONES))
    assert tones.colours == PUBLISHED
    assert ages.levels == AGES


def test_means_ends_and_what_cannot_be_told_are_as_by_hand():
    # 2 children, 3 young, 4 old and one of whom nothing can be told: (2·1 + 3·2 + 4·3) / 9
    found = {one.key: one for one in results(score([0, 0, 1, 1, 1, 2, 2, 2, 2, 3], drawn=(2, 3, 4))).findings}
    assert found["scale-age group-mean"].estimate.value == pytest.approx(20 / 9, abs=1e-3)
    assert found["scale-age group-mean"].expected == pytest.approx(20 / 9)
    assert found["scale-age group-lowest"].estimate.value == pytest.approx(2 / 9, abs=1e-3)
    assert found["scale-age group-highest"].estimate.value == pytest.approx(4 / 9, abs=1e-3)
    assert found["scale-age group-unclear"].estimate.value == pytest.approx(0.1)
    sample = found["scale-age group-mean"].sample
    assert len(sample.units) == 9  # the tenth is left out
    assert sample.statistic(np.arange(9)) == pytest.approx(20 / 9, abs=1e-3)
    assert "mean age group is 2.2" in scales_headline(found.values())


def test_a_goal_gives_a_distance_and_what_no_bias_reads():
    given = score([0, 1, 1, 2], f"{AGE}|0.25 0.25 0.5|a goal of ours")
    found = {one.key: one for one in results(given).findings}
    assert found["scale-age group-goal"].estimate.value == pytest.approx(0.25, abs=1e-3)  # |.25 − .25| + |.75 − .5|
    assert found["scale-age group-mean"].estimate.null_value == pytest.approx(2.25)
    assert "a goal of ours" in found["scale-age group-goal"].says


def test_pictures_that_are_all_alike_leave_other_levels_open():
    found = results(score([1] * 12))
    mean = found.findings[0].estimate
    assert mean.value == pytest.approx(2.0, abs=1e-3)
    assert mean.low < 1.9
    assert mean.high > 2.1
    shares = found.frame("scale-age group")
    assert (shares["high"] > shares["P"] - 1e-9).all()
    assert shares["high"].iloc[0] > 0.1


def test_where_nothing_can_be_told_nothing_is_shown():
    nothing = results(score([3, 3, 3]))
    assert (nothing.findings, nothing.figures) == ((), ())
    assert nothing.notes == ("Age group: it can be told of no picture.",)
    assert "fixed beforehand" in results(score([0, 1]), fixed_n=False).notes[0]


def test_a_scale_without_a_reader_is_not_shown_and_people_are_named():
    services = SimpleNamespace(class_head=lambda *_: None)
    data = SimpleNamespace(services=services, settings=settings_of(), stored=lambda _: [])
    scores, notes = score_scales(data, pd.DataFrame(), np.empty((0, 3)), read_scales([AGE]))
    assert scores == ()
    assert "no number is shown" in notes[0]
    assert "People can say it" in notes[0]


def test_two_arms_are_as_far_apart_as_their_levels():
    young, old = score([0, 1, 1, 0] * 5, drawn=(10, 10, 0)), score([1, 2, 2, 1] * 5, drawn=(0, 10, 10))
    units = [str(i) for i in range(20)]
    compared = compare_scales([("a", units, [young]), ("b", units, [old])], confidence=0.95, seed=0)
    finding, row = compared.findings[0], compared.tables[0].frame.iloc[0]
    assert finding.estimate.value == pytest.approx(1, abs=1e-3)
    assert finding.p_value < 0.01
    assert finding.expected == pytest.approx(1)
    assert row["compared on"] == "same seeds"
    says = scales_arms_headline(compared.tables[0].frame)
    assert says.startswith(" Age group: mean 1.5")
    assert "1.00 groups" in says
    assert all(to_bytes(one).startswith(b"<?xml") for one in compared.figures)
    elsewhere = compare_scales([("a", units, [young]), ("b", ["x"] * 20, [old])], confidence=0.95, seed=0)
    assert elsewhere.tables[0].frame["compared on"].tolist() == ["no seed in common"]


def test_arms_that_show_the_same_in_every_picture_are_no_proof_of_anything():
    units = [str(i) for i in range(9)]
    arms = [(name, units, [score([1] * 9)]) for name in "ab"]
    compared = compare_scales(arms, confidence=0.95, seed=0)
    assert compared.findings[0].p_value is None
    assert "no proof" in compared.findings[0].says
    assert compared.findings[0].estimate.high > 0.05
    assert "no picture of “a” and “b” differs" in scales_arms_headline(compared.tables[0].frame)
    blind = compare_scales([("a", units, [score([3] * 9)]), arms[1]], confidence=0.95, seed=0)
    assert math.isnan(blind.findings[0].estimate.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("skin colour", "there are skin tone, age group"),
        ("age group|0.5 0.5|source", "3 shares that add up to 1"),
        ("age group|0.5 0.5 0.5|source", "3 shares that add up to 1"),
        ("age group|a b c|source", "3 shares"),
        ("age group|0.2 0.3 0.5", "say where the shares"),
        ("age group|even|source|more", "with | between"),
    ],
)
def test_a_scale_that_cannot_be_asked_for_is_refused(text, says):
    with pytest.raises(InvalidInput, match=says.replace("|", r"\|")):
        explore_options(settings_of(scales=(text,)))


def test_scales_are_one_text_on_a_command_line():
    asked = explore_settings(concept="CEO", scales="skin tone, age group|even").options
    assert asked.scales == ("skin tone", "age group|even")
    assert [one.scale.name for one in asked.asked_scales] == ["skin tone", AGE]


def test_a_scale_asked_for_twice_is_refused():
    with pytest.raises(InvalidInput, match="twice"):
        explore_options(settings_of(scales=(AGE, f"{AGE}|even")))


def test_planted_tones_are_found_in_pictures_and_told_in_the_headline(services):
    report, _ = finish(run_study(find_design("explore"), settings_of(), services))
    found = {one.key: one for one in report.results.findings}
    planted = services.class_rates("a photo of a CEO", "tones", "skin tone") @ np.arange(1, 11)
    mean = found["scale-skin tone-mean"].estimate
    assert mean.low < planted < mean.high < 5.5
    assert abs(mean.value - found["scale-skin tone-mean"].expected) < 0.2
    assert found["scale-skin tone-goal"].estimate.low > 0.5
    assert "The mean skin tone is" in headline(report)
    assert page_of(report.design).plot(report).key == "scale-skin tone"
    assert set(report.pictures["skin tone: read as"]) <= {*load_scales()["skin tone"].levels, "cannot tell"}
    assert all(to_bytes(one).startswith(b"<?xml") for one in report.results.figures)
    assert "--scales" in to_command(report.design, report.settings)
    assert "skin tone|even" in to_python(report.design, report.settings)


def test_two_occupations_are_compared_on_the_same_seeds(services):
    arms = (Arm(name="CEO"), Arm(name="housekeeper", template="{CEO=housekeeper}"))
    report, _ = finish(run_study(find_design("explore"), settings_of(arms=arms), services))
    distance = next(one for one in report.results.findings if one.metric == "level_distance")
    planted = [services.class_rates(f"a photo of a {one}", "tones", "skin tone") for one in ("CEO", "housekeeper")]
    assert distance.estimate.low < abs(np.cumsum(np.subtract(*planted))[:-1]).sum() < distance.estimate.high
    assert distance.p_value < 0.05
    assert headline(report).startswith("Skin tone (Monk scale): mean ")


def test_the_preset_of_tones_needs_no_more_than_a_click():
    presets = [StudySettings(**one.settings) for one in ExploreTab.presets if "Monk" in one.name]
    assert [explore_options(one).scales for one in presets] == [("skin tone|even", AGE)]
    assert [arm.name for arm in presets[0].arms] == ["CEO", "housekeeper"]
