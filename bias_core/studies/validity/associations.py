"""T2IAT's test, repeated on new pictures: how often it is right, and how often it only seems to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.studies.association.sets import SIDES
from bias_core.studies.association.tests import TestOptions, chosen_tests, edits_of, run_test
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.validity.summary import RepetitionOptions, ladder, measured, repeated, repetitions, results_of

if TYPE_CHECKING:
    import numpy as np

    from bias_core.studies.kit.data import StudyData


@settings_class(frozen=True, kw_only=True)
class RepeatedTestOptions(RepetitionOptions, TestOptions):
    """Which tests are repeated, and how they are formed."""

    tests: tuple[str, ...] = setting(
        ("science_arts", "career_family", "flowers_insects"), "Tests", "Keys of the tests to repeat"
    )
    n_stimuli: int = setting(9, "Stimuli", "Of each concept", ge=1, le=100)


def repeated_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: the neutral prompts of each test and their edits."""
    whole = replace(settings, scale=1.0)  # the scale thins the repetitions out, not the test
    once = [
        Shot(
            prompt=prompt,
            n=n,
            group=condition,
            condition=condition,
            facts={"test": test["key"], "side": side, "set": kind, "stimulus": stimulus},
        )
        for condition in ladder(settings)
        for test in chosen_tests(design, settings)
        for side in SIDES
        for stimulus in _few(design, settings, test[side])
        for kind, prompt, n in edits_of(design, whole, test, side, stimulus)
    ]
    return repeated(once, repetitions(settings))


def _few(design: Design, settings: StudySettings, concept: str) -> list[str]:
    words = [str(word) for word in design.data["concepts"][concept]]
    n = settings.options.n_stimuli
    return thinned(words, min(1.0, n / len(words)), least=2, seed=settings.seed)


def measure_repeatedly(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """S, its interval and its p-value in every repetition."""
    rows = yield from data.embed(data.frame)
    return results_of(
        pd.DataFrame(list(_repetitions(settings, data, rows))),
        settings,
        notes=(
            "Targets: S of the pictures of all repetitions together. False alarms are p-values of the "
            "permutation test below the level.",
            "The prompts are the same in every repetition while the test and the interval count the chance "
            "of new ones, so fewer than 5 % false alarms are to be expected.",
        ),
    )


def _repetitions(settings: StudySettings, data: StudyData, rows: np.ndarray) -> Iterator[dict[str, Any]]:
    """The test on the pictures of every repetition, beside S of all repetitions' pictures."""
    level = 1 - settings.confidence
    for (test, condition), part in data.frame.groupby(["test", "group"], sort=False):
        together = run_test(part, rows, settings).score
        for repetition, here in part.groupby("repetition"):
            data.check()
            found = run_test(here, rows, settings)
            yield measured(
                "differential_association",
                found.confidence_interval,
                target=together,
                unit=str(test),
                condition=str(condition),
                repetition=int(str(repetition)),
                planted="gender, light",
                excluded=found.p_value < level,
            )


PROGRAMS = {
    "validity_associations": Program(shots=repeated_shots, measure=measure_repeatedly, options=RepeatedTestOptions)
}
