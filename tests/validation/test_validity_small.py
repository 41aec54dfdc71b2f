"""Small validity studies: what is planted is found, what is not is not, and each check can fail."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from bias_core.errors import InvalidInput
from bias_core.metrics.agreement import fleiss_kappa, krippendorff_alpha
from bias_core.metrics.swapped import order_effect
from bias_core.studies.kit.designs import typed_options
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.running.run import complete, run_study
from tests import shared
from tests.studies.oasis_runs import table
from validation import find_study, intersections, languages, people, raters
from validation.raters import answer_table, true_agreement
from validation.texts import _parts

services = shared.real_services


def study(name, **changes):
    return replace(find_study(f"validity-{name}"), **changes)


LANGUAGES = study("languages", images_per_prompt=30)
PEOPLE = study("people", images_per_prompt=14)
RATERS = study("raters", images_per_prompt=60)
INTERSECTIONS = study("intersections", images_per_prompt=100)
INTERSECTIONS = replace(INTERSECTIONS, data={**INTERSECTIONS.data, "sets_of_pairs": 1})
SMALL = {
    LANGUAGES.name: {"repetitions": 4, "pool": 30},
    PEOPLE.name: {"repetitions": 3, "pool": 14},
    RATERS.name: {"repetitions": 3, "pool": 24},
    INTERSECTIONS.name: {"repetitions": 2, "pool": 100},
}


def run(services, design, **options):
    settings = StudySettings(model="calibration-renderer", options=SMALL[design.name] | options)
    return complete(run_study(design, settings, services))


def named(services, *cases, **options):
    design = study("texts")
    design = replace(design, data={**design.data, "cases": list(cases)})
    options = {"clusters": 2, "pictures": 20, "n_candidates": 100} | options
    return complete(run_study(design, StudySettings(scale=0.25, options=options), services))


def test_the_planted_attribute_is_named_where_it_is_shared_and_told_apart_from_clusters_at_random(services):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["woman"]}
    report = named(services, nurse)
    texts = table(report, "texts")
    assert len(texts) == 2 * 2 * 2  # clusters, with and without what is planted, two searches
    planted = texts[texts["is planted"] & (texts["search"] == "against the others")]
    assert planted["named"].all(), planted["texts"].tolist()
    shares = {one.title: one.estimate for one in report.results.findings}
    assert shares["Clusters whose attribute a text names, against the others, an attribute is planted"].n == 2
    assert "too few" not in " ".join(report.results.notes)
    assert "names it in 100\N{NO-BREAK SPACE}% [34, 100]" in headline(report)


def test_an_attribute_that_is_in_too_few_pictures_is_said(services):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["sombrero"]}
    report = named(services, nurse, clusters=1)
    assert not table(report, "texts")["is planted"].any()
    assert "1 planted attributes are in too few pictures" in " ".join(report.results.notes)
    assert headline(report).startswith("No planted attribute is in enough pictures")


def test_a_cluster_and_the_others_have_their_shares_and_no_picture_in_common():
    shows, at = np.arange(200) % 2 == 0, np.arange(1000, 1200)
    settings = replace(StudySettings(), options=typed_options(study("texts"), {"pictures": 20, "sharing": 0.8}))
    inside, outside = _parts(at, shows, settings, np.random.default_rng(3), planted=True)
    assert (len(inside), len(outside)) == (20, 40)
    assert shows[inside - 1000].sum() == 16
    assert shows[outside - 1000].sum() == 8
    assert len({*inside, *outside}) == 60


def inside(frame):
    known = frame.dropna(subset=["low", "target"])
    return (known["low"] <= known["target"] + 1e-9) & (known["target"] <= known["high"] + 1e-9)


def shifted(effect):
    moved = replace(effect.estimate, low=effect.estimate.low + 3, high=effect.estimate.high + 3)
    return replace(effect, estimate=moved)


def test_repeated_intervals_hold_what_the_pool_shows_and_the_check_can_fail(services, monkeypatch):
    right = run(services, PEOPLE).results.frame("repetitions")
    assert inside(right).mean() > 0.8
    assert set(right["measure"]) == {"order_effect"}
    # What a group plants is told from what it does not, which stands with the pictures where nothing is planted.
    of_role = right[right["variant"] == "of the role"]
    assert set(of_role.loc[of_role["condition"] == "people", "unit"]) == {"role role"}
    assert set(of_role.loc[of_role["condition"] == "fair", "unit"]) == {"role role", "place fair", "place people"}
    monkeypatch.setattr(people, "order_effect", lambda *given, **how: shifted(order_effect(*given, **how)))
    assert not inside(run(services, PEOPLE, repetitions=1).results.frame("repetitions")).any()


SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def test_every_measure_of_raters_stands_by_its_target_and_the_check_can_fail(services, monkeypatch):
    monkeypatch.setattr(raters, "agreement_estimate", estimate := partial(raters.agreement_estimate, n_resamples=200))
    rows = run(services, RATERS).results.frame("repetitions")
    assert set(rows["measure"]) == {
        "krippendorff_alpha", "fleiss_kappa", "cohen_kappa", "largest_disagreement",
        "missing_things",
    }  # fmt: skip
    assert (rows["low"] <= rows["target"]).mean() > 0.85 < (rows["target"] <= rows["high"]).mean()
    null = rows[(rows["condition"] == "chance") & (rows["measure"] != "largest_disagreement")]
    assert null["target"].abs().max() < 1e-6
    agreements = raters._Agreements(shown=np.arange(200) % 4, n=100, confidence=0.95)
    assert [holds(agreements, "fleiss_kappa", seed) for seed in range(3)] == [True] * 3
    monkeypatch.setattr(raters, "agreement_estimate", lambda *given, **how: estimate(*given, **how).scaled(1.0, 0.5))
    assert [holds(agreements, "fleiss_kappa", seed) for seed in range(3)] == [False] * 3


def holds(agreements, measure, seed):
    lines = agreements.lines({"condition": "accurate", "repetition": seed}, np.random.default_rng(seed))
    line = next(one for one in lines if one["measure"] == measure)
    return line["low"] <= line["target"] <= line["high"]


def test_true_agreement_is_that_of_very_many_answers():
    # Who says the truth with probability a, else an answer by lot with the pictures' own shares: κ = a²
    even = [answer_table(0.6, SHARES)] * 2
    assert true_agreement(SHARES, [even[0], even[1].copy()]) == pytest.approx(0.36)
    assert true_agreement(SHARES, [answer_table(0.0, SHARES), answer_table(0.0, SHARES[::-1])], marginals="each") == (
        pytest.approx(0.0)
    )
    chance = np.random.default_rng(3)
    looks = chance.choice(4, 40_009, p=SHARES)
    two = [answer_table(0.7, SHARES), answer_table(0.5, SHARES[::-1], 0.4)]
    said = raters._answers(looks, two, chance)
    assert cohen_kappa_score(*said.T) == pytest.approx(true_agreement(SHARES, two, marginals="each"), abs=0.01)
    assert fleiss_kappa(said) == pytest.approx(true_agreement(SHARES, two), abs=0.01)
    assert krippendorff_alpha(said) == pytest.approx(true_agreement(SHARES, two), abs=0.01)


def test_both_planted_languages_are_named_and_where_all_read_alike_none_is(services, monkeypatch):
    report = run(services, LANGUAGES)
    both, others = report.results.findings[:2]
    assert (both.estimate.value, both.estimate.n, others.estimate.n) == (1, 4, 4)
    rows = report.results.frame("repetitions").query("condition == 'extreme' and unit in ('German', 'Arabic')")
    assert len(rows) == 8
    assert rows["target"].min() > 0.2  # of the pool itself: all of German and Arabic are men
    # The check can fail: where no verdict is given, nothing is named.
    monkeypatch.setattr(
        languages, "language_lines", lambda *given: _lines(*given).assign(verdict="no difference shown")
    )
    assert run(services, LANGUAGES, repetitions=1).results.findings[0].estimate.value == 0


_lines = languages.language_lines


def test_every_language_is_drawn_on_the_same_seeds_and_the_planted_ones_twice():
    shots = languages.language_shots(
        LANGUAGES, StudySettings(options=languages.LanguageOptions(conditions=("fair", "extreme")))
    )
    assert len(shots) == 7 + 2
    assert {shot.first_seed for shot in shots} == {0}
    assert [shot.condition for shot in shots[7:]] == ["languages", "languages"]


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


@pytest.mark.parametrize(("design", "settings", "says"), [
    (INTERSECTIONS, {"options": {"conditions": ("fair", "extreme")}}, "conditions are fair, crossed"),
    (LANGUAGES, {"options": {"conditions": ("fair", "published", "extreme")}}, "two conditions"),
    (RATERS, {"options": {"conditions": ("chance", "half")}}, "conditions are chance, half, accurate"),
    (PEOPLE, {"options": {"conditions": ("fair", "extreme")}}, "conditions are fair, people"),
    *((design, {"images": "old.zip"}, "nothing is planted in imported") for design in (study("texts"), RATERS)),
])  # fmt: skip
def test_what_a_study_does_not_plant_is_refused(services, design, settings, says):
    with pytest.raises(InvalidInput, match=says):
        complete(run_study(design, StudySettings(model="calibration-renderer", **settings), services))
