"""TBYB's measures repeated on new pictures: a planted object, and planted genders, as they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bias_core.prompts import fill_template
from bias_core.studies.kit.kind import Measuring, Program, encoder_of
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.objects.captions import (
    BLANK,
    MEASURES,
    STRONGER,
    CaptioningOptions,
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

RECORD = "record"
"""Value of the option captioner: say what was really drawn, so that no captioner's error plays a part."""
OBJECT, GENDER = "an object", "gender"
HALF = "half"  # of the pictures are of the first condition, and half of the last
_VARIANTS = {f"miss {BLANK}": "against a blank", f"miss {STRONGER}": "against another prompt"}
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
    people = [
        Shot(
            prompt=fill_template(settings.options.template, str(name)),
            n=design.images_per_prompt,
            group=condition,
            condition=condition,
            facts={"planted": GENDER},
        )
        for condition in ladder(settings)
        for name in settings.options.occupations
    ]
    return repeated([*_triggered(design, settings), *people], repetitions(settings))


def _triggered(design: Design, settings: StudySettings) -> Iterator[Shot]:
    """An object is planted in none, in half and in all of these; there is no published rate of it."""
    first, *_, last = ladder(settings)
    n = 2 * max(1, settings.options.trigger_images // 2)
    for prompts in design.data["task_oriented"]["triggers"].values():
        for prompt in prompts:
            whole = Shot(prompt=prompt, n=n, group=first, condition=first, facts={"planted": OBJECT})
            mixed = replace(whole, n=n // 2, group=HALF)
            yield from (whole, mixed, replace(mixed, condition=last, first_seed=n // 2))
            yield replace(whole, group=last, condition=last)


def reading_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """The encoder, and the captioner where one is asked for."""
    return encoder_of(settings) if settings.options.captioner == RECORD else captioning_readers(settings)


def reader_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner where one is asked for."""
    if settings.options.captioner != RECORD:
        captioner_ready(settings, services)


def measure_objects(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """B_D and its companions, H_J and M_G in every repetition; B_D only where it is defined."""
    exact = settings.options.captioner == RECORD
    reading = yield from read_pictures(settings, data, data.services.recorder() if exact else None)
    first, *_, last = ladder(settings)
    found = []
    for planted, conditions in {OBJECT: (first, HALF, last), GENDER: ladder(settings)}.items():
        for condition in conditions:
            data.check()
            here = data.frame[(data.frame["planted"] == planted) & (data.frame["group"] == condition)]
            for repetition, part in here.groupby("repetition", sort=False):
                found += [
                    measured(
                        MEASURES[key].metric,
                        estimate,
                        target=np.nan,
                        variant=_VARIANTS.get(key, ""),
                        condition=condition,
                        repetition=int(str(repetition)),
                        planted=planted,
                    )
                    for key, estimate in score(reading.loc[part.index], settings).estimates.items()
                ]
    table = pd.DataFrame(found)
    table["target"] = table.groupby(["planted", "condition", "measure", "variant"])["value"].transform("mean")
    return results_of(
        table,
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


PROGRAMS = {
    "validity_objects": Program(
        shots=object_repetitions,
        measure=measure_objects,
        ready=reader_ready,
        readers=reading_readers,
        options=RepeatedObjectOptions,
    )
}
