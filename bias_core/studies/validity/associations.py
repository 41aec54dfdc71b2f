"""T2IAT's test again and again, on pictures and on prompts that are drawn anew each time."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd

from bias_core.studies.association.tests import SIDES, TestOptions, chosen_tests, edits_of, run_test, words_of
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.validity.headline import headline
from bias_core.studies.validity.repetitions import RepetitionOptions, repeated
from bias_core.studies.validity.verdicts import TEXTS, measured, results_of


@settings_class(frozen=True, kw_only=True)
class RepeatedTestOptions(RepetitionOptions, TestOptions):
    """Which tests are repeated, and how they are formed."""

    tests: tuple[str, ...] = setting(
        ("science_arts", "career_family", "flowers_insects"), "Tests", "Keys of the tests to repeat"
    )
    n_stimuli: int = setting(9, "Stimuli", "Of each concept, drawn anew in every repetition", ge=2, le=100)


def test_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: the neutral prompts of each test and their edits, on words drawn by chance.

    The test and the interval count the chance of new prompts. So every cell draws its words from those of the concept,
    with replacement: a word that comes twice is two prompts, each with pictures of its own.
    """
    whole = replace(settings, scale=1.0)  # the scale thins the repetitions out, not the test

    def of_cell(_group: str, chance: Random) -> Iterator[Shot]:
        for test in chosen_tests(design, settings):
            for side in SIDES:
                words = chance.choices(words_of(design, test[side]), k=settings.options.n_stimuli)
                for place, word in enumerate(words):
                    facts = {"test": test["key"], "side": side, "word": word, "stimulus": f"{place} {word}"}
                    for kind, prompt, n in edits_of(design, whole, test, side, word):
                        yield Shot(prompt=prompt, n=n, group="", facts={**facts, "set": kind})

    return repeated(settings, of_cell)


def measure_tests(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """S, its interval and its p-value in every repetition, beside S of all repetitions' pictures."""
    rows = yield from data.embed(data.frame)
    lines = []
    for (test, condition), part in data.frame.groupby(["test", "group"], sort=False):
        together = run_test(part.assign(stimulus=part["word"]), rows, settings).score
        for repetition, here in part.groupby("repetition"):
            data.check()
            result = run_test(here, rows, settings)
            where: dict[str, Any] = {"unit": str(test), "condition": str(condition), "repetition": int(str(repetition))}
            where |= {"planted": "gender, light", "excluded": result.p_value < 1 - settings.confidence}
            lines.append(measured("differential_association", result.confidence_interval, target=together, **where))
    return results_of(pd.DataFrame(lines), settings, notes=(TEXTS.note("tests together"), TEXTS.note("new prompts")))


PROGRAMS = {
    "validity_associations": Program(
        shots=test_repetitions, measure=measure_tests, options=RepeatedTestOptions, headline=headline
    )
}
