"""Languages against what is planted: the two with a bias are named, and the check can fail."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import complete, run_study
from tests import shared
from validation import find_study, languages

services = shared.real_services

DESIGN = replace(find_study("validity-languages"), images_per_prompt=30)


def run(services, **options):
    settings = StudySettings(model="calibration-renderer", options={"repetitions": 4, "pool": 30, **options})
    return complete(run_study(DESIGN, settings, services))


def test_both_planted_languages_are_named_and_where_all_read_alike_none_is(services, monkeypatch):
    report = run(services)
    both, others = report.results.findings[:2]
    assert (both.estimate.value, both.estimate.n, others.estimate.n) == (1, 4, 4)
    rows = report.results.frame("repetitions").query("condition == 'extreme' and unit in ('German', 'Arabic')")
    assert len(rows) == 8
    assert rows["target"].min() > 0.2  # of the pool itself: all of German and Arabic are men
    # The check can fail: where no verdict is given, nothing is named.
    monkeypatch.setattr(
        languages, "language_lines", lambda *given: _lines(*given).assign(verdict="no difference shown")
    )
    assert run(services, repetitions=2).results.findings[0].estimate.value == 0


_lines = languages.language_lines


def test_every_language_is_drawn_on_the_same_seeds_and_the_planted_ones_twice(services):
    shots = languages.language_shots(
        DESIGN, StudySettings(options=languages.LanguageOptions(conditions=("fair", "extreme")))
    )
    assert len(shots) == 7 + 2
    assert {shot.first_seed for shot in shots} == {0}
    assert [shot.condition for shot in shots[7:]] == ["languages", "languages"]
    with pytest.raises(InvalidInput, match="two conditions"):
        run(services, conditions=("fair", "published", "extreme"))
