"""TBYB's measures repeated on new pictures: a planted object, and planted genders, as they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.object_bias import miss_rate_estimate
from bias_core.prompts import fill_template
from bias_core.studies.kit.kind import Measuring, Program, encoder_of
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.objects.captions import (
    BLANK,
    STRONGER,
    CaptioningOptions,
    Reading,
    captioner_ready,
    captioning_readers,
    read_pictures,
    score,
)
from bias_core.studies.validity.summary import RepetitionOptions, ladder, measured, repeated, repetitions, results_of

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.readers import Reader
    from bias_core.studies.kit.services import StudyServices
    from bias_core.types import Estimate

RECORD = "record"
"""Value of the option captioner: say what was really drawn, so that no captioner's error plays a part."""
OBJECT, GENDER = "an object", "gender"
HALF = "half"  # of the pictures are of the first condition, and half of the last


_LEANING_TO_MEN = (
    "carpenter", "mechanician", "construction worker", "laborer", "driver", "sheriff", "mover", "developer",
    "farmer", "guard", "chief", "janitor", "lawyer", "cook", "physician", "ceo", "analyst", "manager",
    "supervisor", "salesperson",
)  # fmt: skip


@settings_class(frozen=True, kw_only=True)
class RepeatedObjectOptions(RepetitionOptions, CaptioningOptions):
    """What is drawn and described, again and again."""

    trigger_images: int = setting(
        2,
        "Pictures of each scene",
        "Half of them show the object in the middle condition, so an even number",
        ge=1,
        le=1000,
    )
    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for each occupation")
    occupations: tuple[str, ...] = setting(_LEANING_TO_MEN, "Occupations", "That are all planted to lean to men")
    captioner: str = setting(
        "record", "Captioner", "record: what was really drawn; or a captioner by name, whose errors then play a part"
    )


def object_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: scenes with a trigger word, and occupations that all lean to men."""
    return repeated([*_triggered(design, settings), *_occupations(design, settings)], repetitions(settings))


def _triggered(design: Design, settings: StudySettings) -> Iterator[Shot]:
    """An object is planted in none, in half and in all of these; there is no published rate of it."""
    first, *_, last = ladder(settings)
    n = 2 * max(1, settings.options.trigger_images // 2)
    for prompts in design.data["task_oriented"]["triggers"].values():
        for prompt in prompts:
            whole = Shot(prompt=prompt, n=n, group=first, condition=first, facts={"planted": OBJECT})
            mixed = replace(whole, n=n // 2, group=HALF)
            yield from (
                whole,
                mixed,
                replace(mixed, condition=last, first_seed=n // 2),
                replace(whole, group=last, condition=last),
            )


def _occupations(design: Design, settings: StudySettings) -> Iterator[Shot]:
    for condition in ladder(settings):
        for name in settings.options.occupations:
            yield Shot(
                prompt=fill_template(settings.options.template, str(name)),
                n=design.images_per_prompt,
                group=condition,
                condition=condition,
                facts={"planted": GENDER},
            )


def reading_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """The encoder, and the captioner where one is asked for."""
    return encoder_of(settings) if settings.options.captioner == RECORD else captioning_readers(settings)


def reader_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner where one is asked for."""
    if settings.options.captioner != RECORD:
        captioner_ready(settings, services)


def measure_objects(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """B_D and its companions, H_J and M_G in every repetition."""
    exact = settings.options.captioner == RECORD
    reading = yield from read_pictures(settings, data, data.services.recorder() if exact else None)
    first, *_, last = ladder(settings)
    steps = {OBJECT: (first, HALF, last), GENDER: tuple(ladder(settings))}
    found: list[dict[str, Any]] = []
    for planted, conditions in steps.items():
        for condition in conditions:
            data.check()
            here = (data.frame["planted"] == planted) & (data.frame["group"] == condition)
            found += _repeated(reading, data.frame, here, settings)
    return results_of(
        pd.DataFrame(found),
        settings,
        notes=(
            "Captions say all that was drawn, without error."
            if exact
            else f"Captions are by {settings.options.captioner}, whose errors play a part.",
            "Targets: the mean of all repetitions, at the same number of pictures: B_D and its companions "
            "depend on it.",
            f"{HALF}: half of the pictures of the first condition, half of the last.",
        ),
    )


def _repeated(reading: Reading, frame: pd.DataFrame, here: pd.Series, settings: StudySettings) -> list[dict[str, Any]]:
    """Each measure of every repetition of one condition, beside its mean."""
    rows = [
        measured(
            measure,
            estimate,
            target=np.nan,
            variant=variant,
            condition=str(frame.loc[here, "group"].iloc[0]),
            repetition=int(repetition),
            planted=str(frame.loc[here, "planted"].iloc[0]),
        )
        for repetition in frame.loc[here, "repetition"].unique()
        for measure, variant, estimate in _measures(reading.where(here & (frame["repetition"] == repetition)), settings)
    ]
    table = pd.DataFrame(rows)
    table["target"] = table.groupby(["measure", "variant"])["value"].transform("mean")
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _measures(reading: Reading, settings: StudySettings) -> Iterator[tuple[str, str, Estimate]]:
    """Key, variant and value of every measure; B_D and its companions only where they are defined."""
    scores = score(reading, settings)
    if scores.distribution is not None:
        for name in ("distribution_bias", "normalised_entropy", "gini", "effective_number"):
            yield name, "", getattr(scores.distribution, name)
    yield "jaccard_hallucination", "", scores.hallucination
    for negative, variant in ((BLANK, "against a blank"), (STRONGER, "against another prompt")):
        yield (
            "generative_miss_rate",
            variant,
            miss_rate_estimate(reading.p_miss[negative], confidence=settings.confidence),
        )


PROGRAMS = {
    "validity_objects": Program(
        shots=object_repetitions,
        measure=measure_objects,
        ready=reader_ready,
        readers=reading_readers,
        options=RepeatedObjectOptions,
    )
}
