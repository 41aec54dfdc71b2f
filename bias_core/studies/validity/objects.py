"""TBYB's measures again and again: while an object comes into scenes, and while people become men."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.prompts import fill_template
from bias_core.studies.kit.program import Measuring, Program, StudyData, encoder_of
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.objects import captions
from bias_core.studies.validity.headline import headline
from bias_core.studies.validity.repetitions import RepetitionOptions, in_each_repetition, ladder, repeated
from bias_core.studies.validity.verdicts import TEXTS, measured, results_of

RECORD = "record"  # value of the option captioner: say what was really drawn, so that no captioner's error plays a part
OBJECT, GENDER = "an object", "gender"
HALF = "half"  # of the pictures are of the first condition, and half of the last
_VARIANTS = {f"miss {captions.BLANK}": "against a blank", f"miss {captions.STRONGER}": "against another prompt"}
LEANING_TO_MEN = (
    "carpenter", "mechanician", "construction worker", "laborer", "driver", "sheriff", "mover", "developer",
    "farmer", "guard", "chief", "janitor", "lawyer", "cook", "physician", "ceo", "analyst", "manager",
    "supervisor", "salesperson",
)  # fmt: skip


@settings_class(frozen=True, kw_only=True)
class RepeatedObjectOptions(RepetitionOptions, captions.CaptioningOptions):
    """What is drawn and described, again and again."""

    trigger_images: int = setting(
        2, "Pictures of each scene", "Half of them show the object in the middle condition, so an even number",
        ge=1, le=1000,
    )  # fmt: skip
    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for each occupation")
    occupations: tuple[str, ...] = setting(LEANING_TO_MEN, "Occupations", "That are all planted to lean to men")
    captioner: str = setting(
        "record", "Captioner", "record: what was really drawn; or a captioner by name, whose errors then play a part"
    )


def object_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: scenes with a trigger word, and occupations that all lean to men."""
    prompts = [fill_template(settings.options.template, str(name)) for name in settings.options.occupations]
    first, *_, last = ladder(settings)
    scenes = [p for prompts in design.data["task_oriented"]["triggers"].values() for p in prompts]
    n = 2 * max(1, settings.options.trigger_images // 2)

    def of_cell(group: str, _chance: Random) -> Iterator[Shot]:
        """An object is planted in none, in half and in all of the scenes; there is no published rate of it."""
        if group != HALF:
            for prompt in prompts:
                yield Shot(prompt=prompt, n=design.images_per_prompt, group="", facts={"planted": GENDER})
        for prompt in scenes:
            shot = Shot(prompt=prompt, n=n, group="", facts={"planted": OBJECT})
            if group in (first, last):
                yield shot
            elif group == HALF:
                yield from (replace(shot, n=n // 2, condition=condition) for condition in (first, last))

    return repeated(settings, of_cell, also=(HALF,))


def reading_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """The encoder, and the captioner where one is asked for."""
    return encoder_of(settings) if settings.options.captioner == RECORD else captions.captioning_readers(settings)


def reader_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner where one is asked for."""
    if settings.options.captioner != RECORD:
        captions.captioner_ready(settings, services)


def measure_objects(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """B_D and its companions, H_J and M_G in every repetition; B_D only where it is defined."""
    exact = settings.options.captioner == RECORD
    reading = yield from captions.read_pictures(settings, data, data.services.recorder() if exact else None)
    first, *_, last = ladder(settings)
    cells = [(OBJECT, one) for one in (first, HALF, last)] + [(GENDER, one) for one in ladder(settings)]
    parts = data.frame.groupby(["planted", "group", "repetition"]).indices

    def work(repetition: int) -> Iterator[dict[str, Any]]:
        for planted, condition in cells:
            here = data.frame.index[parts[planted, condition, repetition]]
            where: dict[str, Any] = {"condition": condition, "repetition": repetition, "planted": planted}
            for key, estimate in captions.score(reading.loc[here], settings).estimates.items():
                where |= {"target": np.nan, "variant": _VARIANTS.get(key, "")}
                yield measured(captions.MEASURES[key].metric, estimate, **where)

    table = pd.DataFrame((yield from in_each_repetition(data, work)))
    table["target"] = table.groupby(["planted", "condition", "measure", "variant"])["value"].transform("mean")
    captions_by = TEXTS.note("exact captions" if exact else "captioner", name=settings.options.captioner)
    return results_of(table, settings, notes=(captions_by, TEXTS.note("means of repetitions"), TEXTS.note("half")))


PROGRAMS = {
    "validity_objects": Program(
        shots=object_repetitions,
        measure=measure_objects,
        ready=reader_ready,
        readers=reading_readers,
        options=RepeatedObjectOptions,
        headline=headline,
    )
}
