"""Small validity studies of languages and intersections: what is planted is found, and each check can fail."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.run.run import complete, run_study
from bias_core.study.types import StudySettings
from tests import shared
from validation import find_study, validity_studies
from validation.beyond import intersections, languages

services = shared.real_services

LANGUAGES = replace(find_study("validity-languages"), images_per_prompt=30)
INTERSECTIONS = find_study("validity-intersections")
INTERSECTIONS = replace(INTERSECTIONS, images_per_prompt=150, data={**INTERSECTIONS.data, "sets_of_pairs": 1})
SMALL = {
    LANGUAGES.name: {"repetitions": 4, "pool": 30, "seeds": 2},
    INTERSECTIONS.name: {"repetitions": 2, "pool": 150, "seeds": 2},
}


@pytest.fixture(autouse=True, scope="module")
def _known_studies():
    with validity_studies():
        yield


def run(services, design, **options):
    settings = StudySettings(model="calibration-renderer", options=SMALL[design.name] | options)
    return complete(run_study(design, settings, services))


def test_both_planted_languages_are_named_and_where_all_read_alike_none_is(services, monkeypatch):
    report = run(services, LANGUAGES)
    both, others = report.results.findings[:2]
    assert (both.estimate.value, both.estimate.n, others.estimate.n) == (1, 4, 4)
    rows = report.results.frame("repetitions").query("condition == 'extreme' and unit in ('German', 'Arabic')")
    assert len(rows) == 8
    assert rows["target"].min() > 0.2  # of the pool itself: all of German and Arabic are men
    # The check can fail: where no verdict is given, nothing is named.
    monkeypatch.setattr(
        languages, "language_lines", lambda *given: (_lines(*given)[0].assign(verdict="no difference shown"), "")
    )
    assert run(services, LANGUAGES, repetitions=1).results.findings[0].estimate.value == 0


_lines = languages.language_lines


def test_every_language_is_drawn_on_the_same_seeds_and_the_planted_ones_twice():
    shots = languages.language_shots(
        LANGUAGES, StudySettings(options=languages.LanguageOptions(conditions=("fair", "extreme")))
    )
    assert len(shots) == 3 * (7 + 2)
    assert [len({shot.first_seed for shot in shots[k : k + 9]}) for k in (0, 9, 18)] == [1, 1, 1]
    assert len({shot.first_seed for shot in shots}) == 3
    assert [shot.condition for shot in shots[7:9]] == ["languages", "languages"]


def test_the_targets_are_what_the_world_plants_and_all_of_it_is_found(services, monkeypatch):
    report = run(services, INTERSECTIONS)
    claims = report.results.frame("claims").set_index(["condition", "attributes"])
    assert len(claims) == 12
    planted = claims["log odds ratio that is planted"]
    assert planted["crossed", "woman × young"] == pytest.approx(2.1972, abs=1e-4)  # log 9
    three = ("crossed, all three", "woman × young × glasses")
    assert planted[three] == pytest.approx(-3.688, abs=1e-3)  # of engineers, by the rates in planted.yaml
    assert (planted.drop([("crossed", "woman × young"), three]) == 0).all()
    every = report.results.frame("repetitions").query("condition == 'crossed'")
    rows = every[every["variant"] == ""]
    targets = rows.groupby(["what is planted", "measure"])["target"].unique()
    pair, three = "two attributes together", "two of three attributes together"
    assert targets[pair, "joint_excess"] == pytest.approx([0.1])
    assert sorted(targets[pair, "crossed_share"]) == pytest.approx([0.25, 0.45, 0.75, 0.95])
    glasses = report.results.frame("repetitions").query(
        "`what is planted` == @three and measure == 'signed_difference'"
    )
    assert glasses.query("condition == 'fair'")["target"].unique() == pytest.approx([0], abs=1e-9)
    # Two are 0.1 more often together, of whom as many wear glasses as of all.
    share = targets[three, "joint_excess"] / targets[pair, "joint_excess"]
    assert targets[three, "signed_difference"] == pytest.approx(targets[pair, "signed_difference"] * share)
    assert len(targets[three, "crossed_share"]) == 8
    # Of old CEOs one in six is a woman, of young ones 45 of 70; that of the young is told against the stereotype.
    scores = {of: set(targets[of, "crossed_stereotype"].round(6)) for of in (pair, three)}
    assert scores[pair] == {round(100 * (1 - 2 / 6), 6), round(-100 * (1 - 90 / 70), 6)}
    assert scores[three] == scores[pair]  # who wears glasses does not matter
    # In pairs, with as many engineers, of whom nothing is planted: 25 + 15 of 60 who are old are men, 60 of 140 young.
    in_pairs = every[(every["variant"] == "in pairs") & (every["measure"] == "crossed_stereotype")]
    assert set(in_pairs["target"].round(6)) == {round(100 * (2 * 40 / 60 - 1), 6), round(-100 * (2 * 60 / 140 - 1), 6)}
    of_all = report.results.frame("repetitions").query("`what is planted` == 'three attributes together'")
    assert sorted(of_all["target"].unique().round(3)) == [0, 3.688]
    found, found_three, claimed, of_three = report.results.findings[:4]
    assert of_three.estimate.n == 6
    assert (found.estimate.n, found_three.estimate.n, claimed.estimate.n) == (2, 2, 20)
    assert min(found.estimate.value, found_three.estimate.value) > 0.6
    # The check can fail: a reader whose answers go together by themselves claims what nobody planted.
    monkeypatch.setattr(intersections, "interaction", lambda calls, **how: _alike(calls, how))
    assert run(services, INTERSECTIONS, repetitions=1).results.findings[2].estimate.value == 1


_interaction = intersections.interaction


def _alike(calls, how):
    return _interaction(calls[:, :1].repeat(calls.shape[1], axis=1)[:, :2], **{**how, "errors": None})


@pytest.mark.parametrize(("design", "conditions", "says"), [
    (INTERSECTIONS, ("fair", "extreme"), "conditions are fair, crossed"),
    (LANGUAGES, ("fair", "published", "extreme"), "two conditions"),
])  # fmt: skip
def test_what_a_study_does_not_plant_is_refused(services, design, conditions, says):
    settings = StudySettings(model="calibration-renderer", options={"conditions": conditions})
    with pytest.raises(InvalidInput, match=says):
        complete(run_study(design, settings, services))
