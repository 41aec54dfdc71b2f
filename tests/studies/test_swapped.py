"""Two people in both places: what is planted on roles, places, acts and sizes is told apart, and can be corrected."""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.crops import boxes_text
from bias_core.errors import InvalidInput
from bias_core.metrics.cards import METRICS
from bias_core.metrics.swapped import OrderEffect, order_effect
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.stats.effects import holm
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.labelling import labelled_people, relabelled
from bias_core.studies.paired.places import size_finding
from bias_core.studies.paired.swapped import ACTS, SwappedOptions, report_swapped, with_places
from bias_core.studies.running.hand_on import to_form
from bias_core.studies.running.run import complete, run_study
from bias_core.types import ImageRow
from bias_core.world.lexicon import book

DESIGN = replace(find_design("pst-swapped"), images_per_prompt=20)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def run(services, condition="people", **options):
    settings = StudySettings(model="calibration-renderer", condition=condition, options=options)
    return complete(run_study(DESIGN, settings, services))


@pytest.fixture(scope="module")
def report(services):
    return run(services, pairs=("lawyer and clerk", "manager and secretary"))


def findings(report):
    return {one.key: one for one in report.results.findings}


def test_the_place_is_found_the_role_is_not_blamed_and_men_are_larger(report):
    found = findings(report)
    # Of two pairs one stands masculine on the left by 0.4: 0.2 of both.
    assert found["place"].estimate.low > 0
    assert found["place"].estimate.value == pytest.approx(0.2, abs=0.22)
    assert found["role"].estimate.low < 0 < found["role"].estimate.high
    assert found["area"].estimate.low > 0
    assert found["area"].says == "Masculine-looking people are larger."
    for key in ("place", "role", "both"):  # the reader sees what was drawn
        assert found[key].estimate.value == pytest.approx(found[key].expected)
    headline = program_of(DESIGN).headline(report)
    points = f"by {100 * found['place'].estimate.value:.0f} points, up on the left"
    assert headline.startswith(f"The place alone moves the share of masculine-looking people {points}")
    assert "The role alone moves the share of masculine-looking people by no clear amount" in headline
    assert headline.endswith("points). Masculine-looking people are larger. Masculine-looking people stand in front.")
    assert "People found: 2 in 80 pictures." in report.results.notes


def test_what_is_not_below_the_corrected_level_is_not_claimed(report):
    place = findings(report)["place"]
    less_sure = [replace(one, p_value=0.06) for one in report.results.findings if one.key in ("place", "role")]
    headline = program_of(DESIGN).headline(replace(report, results=replace(report.results, findings=tuple(less_sure))))
    assert place.estimate.low > 0  # by itself it is clear
    assert headline.startswith("The place alone moves the share of masculine-looking people by no clear amount")
    effect, people = OrderEffect(estimate=place.estimate, p_value=0.02), labelled_people(report)
    says = [size_finding("area", effect, p_value, people, report.settings).says for p_value in (0.04, 0.06, None)]
    assert says == ["Masculine-looking people are larger.", "No clear difference.", "No clear difference."]


def test_its_numbers_are_within_the_ranges_of_their_measures_for_other_programs_too(report):
    with zipfile.ZipFile(io.BytesIO(to_form(report, "every_eval_ever"))) as archive:
        (record,) = (json.loads(archive.read(name)) for name in archive.namelist())
    for one in record["evaluation_results"]:
        low, high = (float(one["metric_config"][end]) for end in ("min_score", "max_score"))
        assert low <= one["score_details"]["score"] <= high
        assert (low, high) == METRICS[one["metric_config"]["metric_kind"]].bounds


def test_who_acts_is_told_from_where_they_stand(services):
    report = run(services, pairs=("teacher and student",), act="teaching")
    assert report.n_images == 4 * 20  # both orders, and either acts
    found = findings(report)
    assert found["acting"].estimate.low > 0
    assert found["acting"].p_value < 0.05
    points = f"by {100 * found['acting'].estimate.value:.0f} points, up where they act"
    assert f"The act alone moves the share of masculine-looking people {points}" in program_of(DESIGN).headline(report)
    assert found["place"].estimate.low < 0 < found["place"].estimate.high
    assert set(report.results.frame("swapped_shares")["acting"]) == {"left", "right"}


def test_a_label_corrected_by_hand_moves_the_numbers_and_the_sizes_stay(report):
    people = labelled_people(report)
    left = people[people["position"] == "left"]
    everybody = {(one.image_id, "left"): "feminine" for one in left.itertuples()}
    corrected = findings(relabelled(report, everybody))
    assert corrected["place"].estimate.value < 0
    assert not math.isnan(corrected["area"].estimate.value)


def test_where_places_cannot_be_told_their_sizes_are_not_zero(services):
    found = findings(run(services, pairs=("doctor and nurse",), finder="halves"))
    assert found["area"].p_value is None
    assert math.isnan(found["area"].estimate.value)


def of_boxes(of_pictures):
    """Pairs as the finder found them in pictures of 100 x 80: the look on the left, and both boxes."""
    lines, boxes = [], []
    for k, (left, of_both) in enumerate(of_pictures):
        names = (("doctor", "left"), ("nurse", "right")) if k % 4 < 2 else (("nurse", "left"), ("doctor", "right"))
        for who, position in names:
            look = left if position == "left" else {"masculine": "feminine", "feminine": "masculine"}[left]
            lines.append({"image_id": f"{k}", "identity": who, "position": position, "perceived_gender": look})
            boxes.append(boxes_text(of_both))
    people = pd.DataFrame(lines).assign(setting="paired", truth=None, seed=lambda one: one["image_id"].astype(int) // 4)
    people["stereotyped_gender"] = people["identity"].map({"doctor": "masculine", "nurse": "feminine"})
    stored = [SimpleNamespace(size=(100, 80)) for _ in lines]
    frame = pd.DataFrame({"image_id": people["image_id"], "acting": ""})
    settings = StudySettings(options=SwappedOptions(pairs=("doctor and nurse",)))
    data = SimpleNamespace(stored=lambda _: stored, frame=frame, settings=settings)
    return with_places(people.assign(boxes=boxes), data), settings


def test_who_stands_nearer_to_the_middle_is_told_where_nobody_is_cut_off():
    pictures = []
    for k in range(24):
        middles = (35, 75) if k % 2 else (25, 65)  # who looks masculine stands a tenth of the width nearer, by 0.2
        of_both = [(middle - 9, 10, middle + 9, 80) for middle in middles]
        if k >= 20:
            of_both[0] = (0, 10, 90, 80)  # at the edge: how far it goes on is not known
        pictures.append(("masculine" if k % 2 else "feminine", of_both))
    placed, settings = of_boxes(pictures)
    assert placed["centre"].isna().sum() == 8
    found = {one.key: one for one in report_swapped(DESIGN, settings, placed).findings}["centre"]
    assert (found.estimate.value, found.estimate.n) == (pytest.approx(0.2), 20)
    earlier = {one.key: one for one in report_swapped(DESIGN, settings, placed.drop(columns="centre")).findings}
    assert math.isnan(earlier["centre"].estimate.value)


@pytest.mark.parametrize("larger", ["masculine", "feminine", ""])
def test_who_is_larger_and_cut_off_more_often_is_not_said_to_stand_nearer(larger):
    # Both stand 18 to 24 from their side, as often, but who is larger reaches 20 and is cut off half the time.
    pictures = []
    for k, (one, other) in enumerate(product((18, 20, 22, 24), repeat=2)):
        for left, right in (("masculine", "feminine"), ("feminine", "masculine")):
            reach = {look: 20 if look == larger else 10 for look in (left, right)}
            left_box = (max(0, one - reach[left]), 10, one + reach[left], 70 + k % 3)
            right_box = (100 - other - reach[right], 10, min(100, 100 - other + reach[right]), 70 + k % 2)
            pictures.append((left, [left_box, right_box]))
    placed, settings = of_boxes(pictures)
    found = {one.key: one for one in report_swapped(DESIGN, settings, placed).findings}["centre"]
    if not larger:
        assert (found.estimate.value, found.says) == (pytest.approx(0), "No clear difference.")
        return
    # Of who is larger only 22 and 24 are left, on average 23 instead of 21: 2 of 100 nearer, that is 0.04.
    assert found.estimate.value == pytest.approx(0.04 if larger == "masculine" else -0.04)
    assert not found.estimate.low <= 0 <= found.estimate.high
    assert found.says.startswith(f"Not told: {larger}-looking people are cut off at a side more often")


@pytest.mark.parametrize(("n_cut", "says"), [(1, "Masculine-looking people stand nearer"), (12, "Not told: masculine")])
def test_a_few_who_are_cut_off_leave_said_what_is_clear_without_them(n_cut, says):
    pictures = [("masculine", [(25 + k % 3, 10, 45 + k % 3, 70), (70, 10, 90, 70)]) for k in range(24)]
    pictures += [("masculine", [(0, 10, 45, 70), (70, 10, 90, 70)])] * n_cut
    pictures += [("masculine", [(2, 10, 22, 70), (50, 10, 70, 70)])]  # what says most against it
    placed, settings = of_boxes(pictures)
    found = {one.key: one for one in report_swapped(DESIGN, settings, placed).findings}["centre"]
    # On average 0.32 nearer than the other, and once 0.56 further; (0.32 * 24 - 0.56 * 13) / 37 would be unclear.
    assert found.estimate.value == pytest.approx((0.32 * 24 - 0.56) / 25)
    assert found.says.startswith(says)


def test_at_200_pictures_what_is_planted_is_found_and_nothing_else_is_claimed():
    # On the record of what is drawn, which the reader sees as it is (the first test).
    planted = {("doctor", "nurse"): "role", ("lawyer", "clerk"): "place"}
    n_found, claims = 0, []
    for condition, (pair, truth), repetition in product(("people", "fair"), planted.items(), range(12)):
        less = []
        for (left, right), sign in ((pair, 1), (pair[::-1], -1)):
            prompt = f"Generate a picture of one {left} on the left and one {right} on the right."
            rows = [
                ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=1000 * repetition + k)
                for k in range(100)
            ]
            looks = [[one.gender == "masculine" for one in scene_of(row).people] for row in rows]
            less.append(sign * -np.diff(np.array(looks, dtype=float), axis=1)[:, 0])
        effects = {"role": order_effect(*less, sign=1), "place": order_effect(*less)}
        for (key, effect), p_value in zip(effects.items(), holm([e.p_value for e in effects.values()]), strict=True):
            if condition == "people" and key == truth:
                n_found += p_value < 0.05
                assert effect.estimate.value == pytest.approx(0.4, abs=0.25)  # five standard errors
            else:
                claims.append(p_value < 0.05)
    assert n_found == 24
    assert np.mean(claims) <= 0.11  # 5 % of 72, and two standard errors


def test_the_acts_are_those_that_the_world_draws():
    assert dict(ACTS) == book()["acts_of_the_renderer"]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [((), "two roles"), (("doctor",), "two roles"), (("doctor and nurse", "nurse and cook"), "one pair only")],
)
def test_pairs_that_are_none_are_refused(services, pairs, words):
    with pytest.raises(InvalidInput, match=words):
        run(services, pairs=pairs)
