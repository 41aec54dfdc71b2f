"""Roles and places of two people against what is planted, again and again, and a check that can fail."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.swapped import order_effect
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import complete, run_study
from tests import shared
from validation import find_study, people

services = shared.real_services

FEW = replace(find_study("validity-people"), images_per_prompt=20)


def rows(services, n=3):
    settings = StudySettings(model="calibration-renderer", options={"repetitions": n, "pool": 20})
    return complete(run_study(FEW, settings, services)).results.frame("repetitions")


def inside(frame):
    known = frame.dropna(subset=["low", "target"])
    return (known["low"] <= known["target"] + 1e-9) & (known["target"] <= known["high"] + 1e-9)


def shifted(effect):
    moved = replace(effect.estimate, low=effect.estimate.low + 3, high=effect.estimate.high + 3)
    return replace(effect, estimate=moved)


def test_repeated_intervals_hold_what_the_pool_shows_and_the_check_can_fail(services, monkeypatch):
    right = rows(services)
    assert inside(right).mean() > 0.8
    assert set(right["measure"]) == {"order_effect"}
    # What a group plants is told from what it does not, which stands with the pictures where nothing is planted.
    of_role = right[right["variant"] == "of the role"]
    assert set(of_role.loc[of_role["condition"] == "people", "unit"]) == {"role role"}
    assert set(of_role.loc[of_role["condition"] == "fair", "unit"]) == {"role role", "place fair", "place people"}
    monkeypatch.setattr(people, "order_effect", lambda *given, **how: shifted(order_effect(*given, **how)))
    assert not inside(rows(services, 1)).any()


def test_the_repetitions_ask_for_both_conditions():
    options = people.TogetherOptions(conditions=("fair", "extreme"))
    with pytest.raises(InvalidInput, match="conditions are fair, people"):
        people.together_shots(FEW, StudySettings(options=options))
