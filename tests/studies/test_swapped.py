"""Two people in both places: what is planted on roles and on places is told apart, and can be corrected."""

import io
import json
import zipfile
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.errors import InvalidInput
from bias_core.metrics.cards import METRICS
from bias_core.metrics.swapped import order_effect
from bias_core.stats.effects import holm
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.labelling import labelled_people, relabelled
from bias_core.studies.running.hand_on import to_form
from bias_core.studies.running.run import complete, run_study
from bias_core.types import ImageRow
from tests import shared
from tests.studies.oasis_runs import findings

services = shared.real_services

DESIGN = replace(find_design("pst-swapped"), images_per_prompt=40)


def run(services, condition="people", **options):
    settings = StudySettings(model="calibration-renderer", condition=condition, options=options)
    return complete(run_study(DESIGN, settings, services))


@pytest.fixture(scope="module")
def report(services):
    return run(services, pairs=("lawyer and clerk",))


def test_the_place_is_found_and_the_role_is_not_blamed(report):
    found = findings(report)
    assert found["place"].estimate.low > 0
    assert found["place"].estimate.value == pytest.approx(0.4, abs=0.32)  # four standard errors
    assert found["role"].estimate.low < 0 < found["role"].estimate.high
    for key in ("place", "role", "both"):  # the reader mistakes one or two in a hundred
        assert found[key].estimate.value == pytest.approx(found[key].expected, abs=0.05)
    headline = program_of(DESIGN).headline(report)
    points = f"by {100 * found['place'].estimate.value:.0f} points, up on the left"
    assert headline.startswith(f"The place alone moves the share of masculine-looking people {points}")
    assert "The role alone moves the share of masculine-looking people by no clear amount" in headline
    assert set(found) == {"place", "role", "both", *(key for key in found if key.startswith("kappa"))}


def test_what_is_not_below_the_corrected_level_is_not_claimed(report):
    place = findings(report)["place"]
    less_sure = [replace(one, p_value=0.06) for one in report.results.findings if one.key in ("place", "role")]
    headline = program_of(DESIGN).headline(replace(report, results=replace(report.results, findings=tuple(less_sure))))
    assert place.estimate.low > 0  # by itself it is clear
    assert headline.startswith("The place alone moves the share of masculine-looking people by no clear amount")


def test_its_numbers_are_within_the_ranges_of_their_measures_for_other_programs_too(report):
    with zipfile.ZipFile(io.BytesIO(to_form(report, "every_eval_ever"))) as archive:
        (record,) = (json.loads(archive.read(name)) for name in archive.namelist())
    for one in record["evaluation_results"]:
        low, high = (float(one["metric_config"][end]) for end in ("min_score", "max_score"))
        assert low <= one["score_details"]["score"] <= high
        assert (low, high) == METRICS[one["metric_config"]["metric_kind"]].bounds


def test_a_label_corrected_by_hand_moves_the_numbers(report):
    people = labelled_people(report)
    left = people[people["position"] == "left"]
    everybody = {(one.image_id, "left"): "feminine" for one in left.itertuples()}
    corrected = findings(relabelled(report, everybody))
    assert corrected["place"].estimate.value < 0


def test_at_200_pictures_what_is_planted_is_found_and_nothing_else_is_claimed():
    # On the record of what is drawn.
    planted = {("doctor", "nurse"): "role", ("lawyer", "clerk"): "place"}
    n_found, claims = 0, []
    for condition, (pair, truth), repetition in product(("people", "fair"), planted.items(), range(4)):
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
    assert n_found == 8
    assert np.mean(claims) <= 0.14  # 5 % of 24, and two standard errors


def test_pairs_that_are_none_are_refused(services):
    twice = ("doctor and nurse", "nurse and cook")
    for pairs, words in (((), "two roles"), (("doctor",), "two roles"), (twice, "one pair only")):
        with pytest.raises(InvalidInput, match=words):
            run(services, pairs=pairs)
