"""Simulated raters against what is planted: targets by another way, and a check that can fail."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from bias_core.errors import InvalidInput
from bias_core.metrics.agreement import fleiss_kappa, krippendorff_alpha
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import complete, run_study
from tests import shared
from validation import find_study, raters
from validation.raters import answer_table, true_agreement

services = shared.real_services

DESIGN = replace(find_study("validity-raters"), images_per_prompt=60)
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def run(services, **options):
    settings = StudySettings(model="calibration-renderer", options={"repetitions": 3, "pool": 24, **options})
    return complete(run_study(DESIGN, settings, services))


def test_every_measure_of_raters_stands_by_its_target_and_the_check_can_fail(services, monkeypatch):
    rows = run(services).results.frame("repetitions")
    assert set(rows["measure"]) == {
        "krippendorff_alpha", "fleiss_kappa", "cohen_kappa", "largest_disagreement",
        "missing_things",
    }  # fmt: skip
    assert (rows["low"] <= rows["target"]).mean() > 0.85 < (rows["target"] <= rows["high"]).mean()
    null = rows[(rows["condition"] == "chance") & (rows["measure"] != "largest_disagreement")]
    assert null["target"].abs().max() < 1e-6
    agreements = raters._Agreements(shown=np.arange(200) % 4, n=100, confidence=0.95)
    assert [holds(agreements, "fleiss_kappa", seed) for seed in range(3)] == [True] * 3
    estimate = raters.agreement_estimate
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


def test_what_is_planted_must_be_known(services):
    with pytest.raises(InvalidInput, match="conditions are chance, half, accurate"):
        run(services, conditions=("chance", "half"))
    with pytest.raises(InvalidInput, match="imported"):
        raters.rater_shots(DESIGN, StudySettings(images="folder", options=raters.RaterOptions()))
