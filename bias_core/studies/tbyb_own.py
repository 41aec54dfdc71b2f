"""TBYB on one's own prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.studies.program import Measuring, Program
from bias_core.studies.setting_fields import settings_of
from bias_core.studies.study_types import Design, Results, Shot, StudySettings
from bias_core.studies.tbyb import ALL, figures_of, genders, measures_of
from bias_core.studies.tbyb_arms import compare_objects
from bias_core.studies.tbyb_pictures import keep_reading
from bias_core.studies.tbyb_reading import (
    ANOTHER,
    CaptioningOptions,
    caption_ahead,
    captioner_ready,
    captioning_readers,
    other_prompts,
    read_pictures,
    score,
)
from bias_core.studies.tbyb_tables import NOTES, findings, top_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.study_data import StudyData

READING = tuple(settings_of(CaptioningOptions))
_MOST, _LONGEST = 200, 500  # prompts, and characters of one
_FEW = 6  # prompts that are measured each for itself too


def design_of_prompts(base: Design, prompts: Sequence[str], images_per_prompt: int) -> Design:
    """The design that draws these prompts and measures them as ``base``, another design of TBYB, does.

    Raises
    ------
    InvalidInput
        No prompt, too many or too long ones, or no picture.
    """
    told = tuple(dict.fromkeys(" ".join(prompt.split()) for prompt in prompts if prompt.strip()))
    if not told or len(told) > _MOST:
        raise InvalidInput(f"between 1 and {_MOST} prompts are needed, one a line; got {len(told):,}")
    if long := [prompt for prompt in told if len(prompt) > _LONGEST]:
        raise InvalidInput(f"a prompt has at most {_LONGEST} characters; {long[0][:40]!r} … has more")
    if images_per_prompt < 1:
        raise InvalidInput(f"each prompt needs a picture; got {images_per_prompt}")
    return Design(
        name="tbyb-prompts",
        title="Objects in pictures of one's own prompts",
        kind="prompted_object_bias",
        reference="",  # no published study has these pictures
        where="",
        summary="Which objects appear, how many of them nobody asked for, and how often a prompt is missed.",
        data={"gender_shares": base.data["gender_shares"], "prompts": list(told)},
        images_per_prompt=images_per_prompt,
        options={name: base.options[name] for name in READING},
    )


def settings_for_prompts(settings: StudySettings) -> StudySettings:
    """The settings as that design takes them: all of its pictures, and no options of other studies."""
    options = {name: value for name, value in settings.options.items() if name in READING}
    return replace(settings, scale=1.0, options=options)


def prompt_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """The prompts as they are written."""
    prompts = design.data["prompts"]
    if settings.options.negative == ANOTHER:
        other_prompts(prompts, range(len(prompts)))  # says what is missing before anything is drawn
    return [
        Shot(prompt=prompt, n=design.images_per_prompt, group="own", facts={"set": prompt})
        for prompt in prompts
    ]


def measure_prompts(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The three measures on all pictures, and of few prompts on each."""
    reading = yield from read_pictures(settings, data)
    keep_reading(reading, data)
    prompts = design.data["prompts"] if 1 < len(design.data["prompts"]) <= _FEW else ()
    parts = {prompt: reading.where(data.frame["prompt"] == prompt) for prompt in prompts}
    sets = {ALL: score(reading, settings)} | {
        prompt: score(part, settings) for prompt, part in parts.items() if part.captions
    }
    table4 = genders(design, sets, data)
    return Results(
        findings=findings(ALL, sets[ALL]),
        tables=(measures_of(sets), table4, top_table(sets)),
        figures=figures_of(sets, table4),
        notes=NOTES,
    )


PROGRAMS = {
    "prompted_object_bias": Program(
        shots=prompt_shots,
        measure=measure_prompts,
        ready=captioner_ready,
        readers=captioning_readers,
        options=CaptioningOptions,
        ahead=caption_ahead,
        compare=compare_objects,
    )
}
