"""Repeated tests of TBYB's measures, and of objects against a base on the same seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.object_bias import added_objects, missing_objects
from bias_core.measures.object_comparison import object_shift, variety_change
from bias_core.measures.objects import extract_objects
from bias_core.papers.tbyb import captions
from bias_core.papers.tbyb.against_base import ObjectChange, decide_changes, object_changes
from bias_core.prompts import fill_template
from bias_core.run.study_run import Run
from bias_core.study.classifiers import Reader
from bias_core.study.study import Measuring, Study, encoders_and_judge
from bias_core.study.types import Design, Shot, StudySettings, get_options
from bias_core.study_services import StudyServices
from bias_core.types import Estimate
from bias_core.values import setting, settings_class
from validation.record import recorder
from validation.repetitions import ARM, RepetitionOptions, in_each_repetition, ladder, repeated
from validation.verdicts import TEXTS, measured, results_of

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
    """Options of the repeated tests of object measures."""

    trigger_images: int = setting(
        2, "Pictures of each scene", "Half of them show the object in the middle condition, so an even number",
        ge=1, le=1000,
    )  # fmt: skip
    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for each occupation")
    occupations: tuple[str, ...] = setting(LEANING_TO_MEN, "Occupations", "All with a planted bias to men")
    captioner: str = setting(
        "record", "Captioner", "record: the ground truth; or the name of a captioner, with its errors"
    )


def reader_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner, if one is chosen."""
    if get_options(settings, RepeatedObjectOptions).captioner != RECORD:
        captions.captioner_ready(settings, services)


BASE, COMPARED = "base", "compared"
WRONG_SCENES = {"fair": 0.25, "half": 0.6, "all": 1.0}  # share of pictures of another scene than was asked for
CONFIDENCE = 0.95
PLANTED_WORDS = {OBJECT: "sign", GENDER: "man"}
EVERYWHERE = "backdoor"  # the condition that plants an object in every scene, and nothing else
STEPS = {OBJECT: ("fair", "half", "all"), GENDER: ("fair", "published", "extreme")}
"""Planted objects in the compared groups of pictures, in rising order."""


@settings_class(frozen=True, kw_only=True)
class BaseOptions(RepetitionOptions):
    """Options of the repeated comparisons with a base."""

    scenes: int = setting(8, "Scenes", "Each is a prompt with a word that triggers an object", ge=2, le=60)
    scene_images: int = setting(
        4, "Pictures of each scene", "Each shows the object in the middle step with an even chance", ge=2, le=1000
    )
    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for each occupation")
    occupations: tuple[str, ...] = setting(LEANING_TO_MEN[:6], "Occupations", "All with a planted bias to men")


def base_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and step: pictures of the base, and as many on the same seeds with more planted.

    In the first step nothing is planted: the other pictures then have other seeds, like two draws of one model.
    """
    options = get_options(settings, BaseOptions)
    scenes = _scenes(design, options.scenes)
    people = [fill_template(options.template, str(name)) for name in options.occupations]
    first, middle, _ = ladder(settings)
    per_prompt = ((OBJECT, scenes, options.scene_images), (GENDER, people, design.images_per_prompt))

    def of_cell(group: str, chance: Random) -> Iterator[Shot]:
        for planted, prompts, n in per_prompt:
            for prompt in prompts:
                facts = {"planted": planted, ARM: BASE}
                yield Shot(prompt=prompt, n=n, group="", condition=first, facts=facts)
                yield from compared(group, prompt, n, planted, chance)

    def compared(group: str, prompt: str, n: int, planted: str, chance: Random) -> Iterator[Shot]:
        facts: dict[str, str | int | float] = {"planted": planted, ARM: COMPARED}
        if group == first:
            yield Shot(prompt=prompt, n=n, group="", condition=first, facts={**facts, "seeds": "others"})
        elif planted == GENDER:
            yield Shot(prompt=prompt, n=n, group="", condition=group, facts=facts)
        else:
            # drawn, not dealt: as many in every repetition would vary less than pictures of a model do
            n_with = sum(chance.random() < 0.5 for _ in range(n)) if group == middle else n
            for condition, start, end in ((EVERYWHERE, 0, n_with), (first, n_with, n)):
                if start < end:
                    yield Shot(
                        prompt=prompt, n=end - start, group="", condition=condition, facts=facts, first_seed=start
                    )

    return repeated(settings, of_cell)


def _scenes(design: Design, n: int) -> list[str]:
    """Prompts with a trigger word, of every trigger in turn."""
    triggers = design.data["task_oriented"]["triggers"].values()
    return [str(prompt) for together in zip(*triggers, strict=False) for prompt in together][:n]


def _changes(compared: pd.DataFrame, base: pd.DataFrame) -> list[ObjectChange]:
    """Return every object that changes, with what the study would claim of it."""
    ours, theirs = ([set(words) for words in side["objects"]] for side in (compared, base))
    return decide_changes(object_changes(ours, theirs, [set() for _ in ours], CONFIDENCE), CONFIDENCE)


def _names_another(changes: Sequence[ObjectChange], planted: str) -> bool:
    """Return True if an unplanted object is named; for genders, either word for people counts as planted."""
    expected = {PLANTED_WORDS[planted], *(["woman"] if planted == GENDER else [])}
    return any(change.claim.is_clear and change.odds.word not in expected for change in changes)


def _odds_and_shift(
    changes: Sequence[ObjectChange], base: pd.DataFrame, compared: pd.DataFrame, where: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Tests of the planted object's log-odds (nan if nothing changes) and of the shift beyond chance."""
    n, any_named = len(base), any(change.claim.is_clear for change in changes)
    planted = _planted(changes, str(where["planted"]))
    shift = object_shift(compared["objects"].tolist(), base["objects"].tolist(), rng=where["repetition"])
    for measure, variant, value, excluded in (
        ("object_odds", "of what is planted", planted.odds.log_odds.value if planted else np.nan, any_named),
        ("object_shift", "beyond chance", shift.excess, shift.p_value < 1 - CONFIDENCE),
    ):
        yield measured(measure, _point(value, n), excluded=excluded, variant=variant, **where)


def _planted(changes: Sequence[ObjectChange], planted: str) -> ObjectChange | None:
    return next((change for change in changes if change.odds.word == PLANTED_WORDS[planted]), None)


def _point(value: float, n: int) -> Estimate:
    return Estimate(value=value, low=np.nan, high=np.nan, n=n, null_value=0.0)


def _with_intervals(
    base: pd.DataFrame, compared: pd.DataFrame, where: dict[str, Any], chance: Random
) -> dict[str, Estimate]:
    """Measures with an interval over pictures of the same prompts: variety for people, contents for scenes."""
    prompts, ours, theirs = compared["prompt"].tolist(), compared["objects"].tolist(), base["objects"].tolist()
    if where["planted"] == GENDER:
        places = compared.groupby("prompt", sort=False).cumcount().tolist()
        return {"variety_change": variety_change(ours, theirs, groups=places).log_ratio}
    named = {prompt: tuple(extract_objects(prompt)) for prompt in dict.fromkeys(prompts)}
    of_prompts = [named[prompt] for prompt in prompts]
    shares = (compared, WRONG_SCENES[where["condition"]]), (base, WRONG_SCENES["fair"])
    shown, shown_by_base = (_of_other_scenes(side, share, chance) for side, share in shares)
    return {
        "added_objects": added_objects(of_prompts, ours, theirs, strata=prompts),
        "missing_objects": missing_objects(of_prompts, shown, shown_by_base, strata=prompts),
    }


def _of_other_scenes(pictures: pd.DataFrame, share: float, chance: Random) -> list[Sequence[str]]:
    """Replace the objects of a random share of pictures by the next scene's: prompts that are not followed."""
    objects, n = pictures["objects"].tolist(), int(pictures["prompt"].value_counts().max())
    return [objects[(i + n) % len(objects)] if chance.random() < share else one for i, one in enumerate(objects)]


class ValidityObjects(Study):
    """The study of the kind ``validity_objects``."""

    kind = "validity_objects"
    options = RepeatedObjectOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Per repetition and condition: scenes with a trigger word, and occupations all biased to men."""
        options = get_options(settings, RepeatedObjectOptions)
        prompts = [fill_template(options.template, str(name)) for name in options.occupations]
        first, *_, last = ladder(settings)
        scenes = [p for prompts in self.design.data["task_oriented"]["triggers"].values() for p in prompts]
        n = 2 * max(1, options.trigger_images // 2)

        def of_cell(group: str, _chance: Random) -> Iterator[Shot]:
            """Plant an object in none, half and all of the scenes; no paper gives a rate for it."""
            if group != HALF:
                for prompt in prompts:
                    yield Shot(prompt=prompt, n=self.design.images_per_prompt, group="", facts={"planted": GENDER})
            for prompt in scenes:
                shot = Shot(prompt=prompt, n=n, group="", facts={"planted": OBJECT})
                if group in (first, last):
                    yield shot
                elif group == HALF:
                    yield from (replace(shot, n=n // 2, condition=condition) for condition in (first, last))

        return repeated(settings, of_cell, also=(HALF,))

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """B_D and its companions, H_J and M_G in every repetition; B_D only if defined."""
        options = get_options(settings, RepeatedObjectOptions)
        exact = options.captioner == RECORD
        reading = yield from captions.read_pictures(settings, data, recorder(data.services) if exact else None)
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
        captions_by = TEXTS.note("exact captions" if exact else "captioner", name=options.captioner)
        return results_of(table, settings, notes=(captions_by, TEXTS.note("means of repetitions"), TEXTS.note("half")))

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return the encoder, and the captioner if one is chosen."""
        return (
            encoders_and_judge(settings)
            if get_options(settings, RepeatedObjectOptions).captioner == RECORD
            else captions.captioning_readers(settings)
        )

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if a model is not here."""
        if draws_to_measure:
            reader_ready(settings, services)


class ValidityBases(Study):
    """The study of the kind ``validity_bases``."""

    kind = "validity_bases"
    options = BaseOptions
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures to draw."""
        return base_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Log-odds, shift, variety, and added and missing objects of every repetition against its base."""
        captions = yield from data.say("reading the ground truth", data.frame, recorder(data.services))
        objects_of = {caption: tuple(extract_objects(caption)) for caption in dict.fromkeys(captions)}
        frame = data.frame.assign(objects=pd.Series([objects_of[caption] for caption in captions], dtype=object))
        names = dict(zip(ladder(settings), range(3), strict=True))
        named: list[bool] = []  # what is planted, where as much as possible is
        others: list[bool] = []  # what is not, wherever something is

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            here = frame[frame["repetition"] == repetition]
            for (planted, group), part in here.groupby(["planted", "group"], sort=False):
                base, compared = (part[part[ARM] == arm].reset_index(drop=True) for arm in (BASE, COMPARED))
                condition = STEPS[str(planted)][names[str(group)]]
                where: dict[str, Any] = {"planted": planted, "condition": condition}
                where |= {"repetition": repetition, "target": np.nan}
                changes = _changes(compared, base)
                if step := names[str(group)]:
                    others.append(_names_another(changes, str(planted)))
                    planted_one = _planted(changes, str(planted))
                    named.extend([planted_one is not None and planted_one.claim.is_clear] * (step == 2))
                yield from _odds_and_shift(changes, base, compared, where)
                chance = Random(f"{settings.seed} {condition} {repetition}")
                intervals = _with_intervals(base, compared, where, chance)
                yield from (measured(key, one, **where) for key, one in intervals.items())

        table = pd.DataFrame((yield from in_each_repetition(data, work)))
        table["target"] = table.groupby(["planted", "condition", "measure", "variant"])["value"].transform("mean")
        table.loc[table["condition"] == STEPS[OBJECT][0], "target"] = 0.0
        shares = {"named": 100 * float(np.mean(named)), "others": 100 * float(np.mean(others))}
        notes = [TEXTS.note("exact captions"), TEXTS.note("against a base"), TEXTS.note("objects named", **shares)]
        return results_of(table, settings, notes=notes)

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return no models: the ground truth is known."""
        return ()
