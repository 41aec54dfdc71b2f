"""TBYB: objects, hallucinations and misses, in general, around a trigger word, and in a captioned dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.prompts import fix_articles
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.own_words import distinct_texts, settings_with
from bias_core.studies.kit.paper_data import read_table
from bias_core.studies.kit.rows import scaled, thinned
from bias_core.studies.kit.setting_fields import setting, settings_class, settings_of
from bias_core.studies.kit.types import Design, Results, Shot, StudyFigure, StudySettings, StudyTable
from bias_core.studies.objects.arms import compare_datasets, compare_objects
from bias_core.studies.objects.captions import (
    ANOTHER,
    CaptioningOptions,
    Reading,
    Scores,
    caption_ahead,
    captioner_ready,
    captioning_readers,
    men_drawn,
    other_prompts,
    read_pictures,
    score,
)
from bias_core.studies.objects.pictures import keep_reading
from bias_core.studies.objects.report import (
    NOTES,
    curve_figure,
    findings,
    gender_figure,
    gender_table,
    measures_table,
    published_table,
    rates_figure,
    top_figure,
    top_table,
)
from bias_core.studies.reports.build import drawable, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.types import ArmReport

FEWEST = 2  # objects, professions, or prompts of a trigger
ALL = "all prompts"
SETS = ("objects", "professions")


@settings_class(frozen=True, kw_only=True)
class GeneralOptions(CaptioningOptions):
    """Which prompts are drawn, and how they are read."""

    sets: tuple[str, ...] = setting(("objects", "professions"), "Prompts", "objects, professions, or both")
    paper_wording: bool = setting(False, "The paper's wording", "a person ... rather than a picture of a person ...")
    published_model: str = setting(
        "runwayml/stable-diffusion-v1-5", "Published model", "Whose released numbers stand beside the findings"
    )


@settings_class(frozen=True, kw_only=True)
class TaskOptions(CaptioningOptions):
    """Which trigger words are drawn, and how they are read."""

    triggers: tuple[str, ...] = setting((), "Trigger words", "All where empty")
    published_model: str = setting(
        "runwayml/stable-diffusion-v1-5", "Published model", "Whose released numbers stand beside the findings"
    )


def general_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Objects with three actions each, and professions with three descriptors each."""
    _released(design, settings, "general")
    share = settings.scale**0.5
    n = scaled(design.images_per_prompt, share)
    paper = settings.options.paper_wording
    objects, occupations = design.data["general"]["objects"], design.data["general"]["occupations"]
    templates = occupations["templates_paper" if paper else "templates"]
    form = objects["template_paper" if paper else "template"]
    prompts = [
        ("objects", row["object"], form.format(action=row[column], object=row["object"]))
        for row in thinned(read_table(objects["file"]), share, least=FEWEST, seed=settings.seed)
        for column in objects["columns"]["actions"]
    ]
    prompts += [
        ("professions", row["object"], templates[row[column]].format(occupation=row["object"]))
        for row in thinned(read_table(occupations["file"]), share, least=FEWEST, seed=settings.seed)
        for column in occupations["columns"]["actions"]
    ]
    wanted = settings.options.sets
    if not wanted or (unknown := sorted(set(wanted) - set(SETS))):
        raise InvalidInput(f"sets are {' and '.join(SETS)}; got {', '.join(unknown) if wanted else 'none'}")
    return [
        Shot(prompt=fix_articles(prompt), n=n, group=kind, facts={"set": kind, "object": name})
        for kind, name, prompt in prompts
        if kind in wanted
    ]


def task_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Scenes that name a trigger word."""
    _released(design, settings, "task_oriented")
    share = settings.scale**0.5
    n = scaled(design.images_per_prompt, share)
    triggers = design.data["task_oriented"]["triggers"]
    wanted = settings.options.triggers or list(triggers)
    if unknown := sorted(set(wanted) - set(triggers)):
        raise InvalidInput(f"no trigger {', '.join(unknown)}; there are {', '.join(triggers)}")
    return [
        Shot(prompt=prompt, n=n, group=trigger, facts={"set": trigger})
        for trigger in wanted
        for prompt in thinned(triggers[trigger], share, least=FEWEST, seed=settings.seed)
    ]


def measure_general(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The three measures on all pictures, and on objects and professions apart."""
    reading = yield from read_pictures(settings, data)
    keep_reading(reading, data)
    sets = _sets(reading, settings, data)
    rows = _released(design, settings, "general")
    published = next(row for row in rows if row["Model"] == settings.options.published_model)
    table4 = genders(design, sets, data)
    return Results(
        findings=findings(ALL, sets[ALL], published),
        tables=(measures_of(sets), published_table(sets, rows), table4, top_table(sets)),
        figures=figures_of(sets, table4),
        notes=(*NOTES, *design.data["notes"]),
    )


def measure_task(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The three measures for each trigger word."""
    reading = yield from read_pictures(settings, data)
    keep_reading(reading, data)
    sets = _sets(reading, settings, data)
    rows = _released(design, settings, "task_oriented")
    model = settings.options.published_model
    published = {row["Target"]: row for row in rows if row["Model"] == model}
    table4 = genders(design, sets, data)
    return Results(
        findings=tuple(
            finding
            for name, scores in sets.items()
            if name != ALL
            for finding in findings(name, scores, published.get(name))
        ),
        tables=(measures_of(sets), published_table(sets, rows), table4, top_table(sets)),
        figures=figures_of(sets, table4),
        notes=(*NOTES, *design.data["notes"]),
    )


def no_shots(design: Design, settings: StudySettings) -> list[Shot]:  # noqa: ARG001
    """None: the pictures are the imported ones."""
    return []


def measure_dataset(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The three measures on somebody's captioned pictures."""
    reading = yield from read_pictures(settings, data)
    keep_reading(reading, data)
    scores = score(reading, settings)
    sets = {"all pictures": scores}
    table4 = genders(design, sets, data)
    return Results(
        findings=findings("Dataset", scores),
        tables=(measures_of(sets), table4, top_table(sets)),
        figures=figures_of(sets, table4),
        notes=(*NOTES, "In a captioned dataset H_J tells how much the captions leave unsaid, not what a model added."),
    )


def figures_of(sets: dict[str, Scores], table4: StudyTable) -> tuple[StudyFigure, ...]:
    """Fig. 2, the most frequent objects, H_J and M_G, and genders, as far as there is something to draw."""
    name, scores = next(iter(sets.items()))
    return drawable(
        (curve_figure(sets), top_figure(name.capitalize(), scores), rates_figure(sets), gender_figure(table4))
    )


def _sets(reading: Reading, settings: StudySettings, data: StudyData) -> dict[str, Scores]:
    """All pictures, then each part of them."""
    names = list(dict.fromkeys(data.frame["set"]))
    parts = {name: score(reading.where(data.frame["set"] == name), settings) for name in names}
    return {ALL: score(reading, settings)} | parts


def _released(design: Design, settings: StudySettings, kind: str) -> list[dict[str, str]]:
    """The released evaluations of all models; InvalidInput where the asked one is not among them."""
    rows = read_table(design.data["evaluations"][kind]["file"])
    known = dict.fromkeys(row["Model"] for row in rows)
    asked = getattr(settings.options, "published_model", None)
    if asked is not None and asked not in known:
        raise InvalidInput(f"no released evaluation of {asked!r}; there are {', '.join(known)}")
    return rows


def measures_of(sets: dict[str, Scores]) -> StudyTable:
    """The three measures, a row per set of pictures."""
    note = "objects: different ones seen. M_G: share of pictures that another sentence fits better."
    return table("measures", "Distribution bias, hallucination and miss rate", measures_table(sets), note)


def genders(design: Design, sets: dict[str, Scores], data: StudyData) -> StudyTable:
    """Table IV of these sets."""
    return gender_table(
        {name: scores.genders for name, scores in sets.items()},
        men_drawn(data, data.frame),
        design.data["gender_shares"]["rows"],
    )


_READING = tuple(settings_of(CaptioningOptions))
_MOST_PROMPTS, _LONGEST_PROMPT = 200, 500  # prompts, and characters of one
_FEW = 6  # prompts that are measured each for itself too


def design_of_prompts(base: Design, prompts: Sequence[str], images_per_prompt: int) -> Design:
    """The design that draws these prompts and measures them as ``base``, another design of TBYB, does.

    Raises
    ------
    InvalidInput
        No prompt, too many or too long ones, or no picture.
    """
    texts = distinct_texts(prompts)
    if not texts or len(texts) > _MOST_PROMPTS:
        raise InvalidInput(f"between 1 and {_MOST_PROMPTS} prompts are needed, one a line; got {len(texts):,}")
    if long := [prompt for prompt in texts if len(prompt) > _LONGEST_PROMPT]:
        raise InvalidInput(f"a prompt has at most {_LONGEST_PROMPT} characters; {long[0][:40]!r} … has more")
    if images_per_prompt < 1:
        raise InvalidInput(f"each prompt needs a picture; got {images_per_prompt}")
    return Design(
        name="tbyb-prompts",
        title="Objects in pictures of one's own prompts",
        kind="prompted_object_bias",
        reference="",  # no published study has these pictures
        where="",
        summary="Which objects appear, how many of them nobody asked for, and how often a prompt is missed.",
        data={"gender_shares": base.data["gender_shares"], "prompts": texts},
        images_per_prompt=images_per_prompt,
        options={name: base.options[name] for name in _READING},
    )


def settings_for_prompts(settings: StudySettings) -> StudySettings:
    """The settings as that design takes them: all of its pictures, and no options of other studies."""
    return settings_with(settings, _READING)


def prompt_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """The prompts as they are written."""
    prompts = design.data["prompts"]
    if settings.options.negative == ANOTHER:
        other_prompts(prompts, range(len(prompts)))  # says what is missing before anything is drawn
    return [Shot(prompt=prompt, n=design.images_per_prompt, group="own", facts={"set": prompt}) for prompt in prompts]


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


def _captioned(
    shots: Callable[[Design, StudySettings], list[Shot]],
    measure: Callable[[Design, StudySettings, StudyData], Measuring],
    options: type[CaptioningOptions],
    compare: Callable[[Design, StudySettings, Sequence[ArmReport]], Results] = compare_objects,
) -> Program:
    return Program(
        shots=shots,
        measure=measure,
        ready=captioner_ready,
        readers=captioning_readers,
        options=options,
        ahead=caption_ahead,
        compare=compare,
    )


PROGRAMS = {
    "object_bias": _captioned(general_shots, measure_general, GeneralOptions),
    "triggered_object_bias": _captioned(task_shots, measure_task, TaskOptions),
    "dataset_bias": _captioned(no_shots, measure_dataset, CaptioningOptions, compare_datasets),
    "prompted_object_bias": _captioned(prompt_shots, measure_prompts, CaptioningOptions),
}
