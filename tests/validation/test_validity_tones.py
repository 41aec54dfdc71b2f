"""Skin tones and age groups against what is planted, and a check that can fail."""

from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import run_study
from tests.studies.test_run_study import finish
from validation import find_study, tones

DESIGN = replace(find_study("validity-tones"), images_per_prompt=40)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def run(services, model="calibration-renderer", **options):
    settings = StudySettings(model=model, options={"repetitions": 4, "pool": 60, **options})
    return finish(run_study(DESIGN, settings, services))[0]


def test_intervals_hold_what_the_pool_shows_and_the_check_can_fail(services, monkeypatch):
    rows = run(services).results.frame("repetitions")
    known = rows.dropna(subset=["low", "target"])
    inside = (known["low"] <= known["target"] + 1e-9) & (known["target"] <= known["high"] + 1e-9)
    assert set(known["measure"]) == {"mean_level", "end_share", "distance_to_goal", "level_distance"}
    assert inside.mean() > 0.85
    means = rows[(rows["measure"] == "mean_level") & (rows["variant"] == "skin tone")]
    by_condition = means.groupby("condition", sort=False)["target"].first()
    assert by_condition.is_monotonic_increasing  # housekeepers are planted darker
    assert by_condition["tones"] > by_condition["fair"] + 1
    fair = rows[(rows["condition"] == "fair") & rows["measure"].isin(["distance_to_goal", "level_distance"])]
    assert set(fair["target"].dropna().round(9)) == {0.0}
    monkeypatch.setattr(tones, "mean_level", lambda *given, **how: _mean(*given, **how).scaled(1.0, 2.0))
    wrong = run(services).results.frame("repetitions").query("measure == 'mean_level'")
    assert ((wrong["low"] <= wrong["target"]) & (wrong["target"] <= wrong["high"])).mean() < 0.2


_mean = tones.mean_level


def test_half_of_the_pictures_are_of_either_pool():
    shots = tones.tone_shots(DESIGN, StudySettings(options=tones.ToneOptions(pool=50)))
    assert [(shot.group, shot.condition, shot.n) for shot in shots] == [
        ("skin tone", "fair", 50), ("skin tone", "tones", 50), ("age group", "fair", 50), ("age group", "tones", 50),
    ]  # fmt: skip
    assert len({shot.first_seed for shot in shots}) == 4
    pool = tones._Pool(scale=None, fair=_score(0, (4, 0, 0)), planted=_score(2, (0, 0, 6)))
    assert pool.read_as("half", np.arange(6)).tolist() == [0, 0, 0, 2, 2, 2]
    assert pool.shares("half").tolist() == [0.5, 0.0, 0.5]


def _score(place, drawn):
    return type("Score", (), {"places": np.full(6, place), "drawn": drawn})()


def test_what_is_drawn_must_be_on_record(services):
    with pytest.raises(InvalidInput, match="conditions are fair, half, tones"):
        run(services, conditions=("fair", "tones"))
    with pytest.raises(InvalidInput, match="imported"):
        tones.tone_shots(DESIGN, StudySettings(images="folder", options=tones.ToneOptions()))
