"""The classifier's answer about each picture of a finished run, for people's labels to correct."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import ANDROGYNOUS, CANNOT_IDENTIFY, GENDERS, NOT_TWO_PEOPLE, UNCLEAR
from bias_core.people import Scale, load_scales
from bias_core.study.answer_fit import Questions, join_questions
from bias_core.study.design import known_study
from bias_core.study.label_tasks import CANNOT_TELL, MAX_POSITIONS, NO, SINGLE, YES
from bias_core.study.types import StudyReport, named_parts
from bias_core.types import Attribute

CODES = {NO: 0, YES: 1, CANNOT_TELL: 2, CANNOT_IDENTIFY: 2, UNCLEAR: 2, NOT_TWO_PEOPLE: 3, ANDROGYNOUS: 4}
"""Classes of answers of classifiers and people; a gender is 1 if it conforms to the stereotype, else 0."""
PEOPLE = "people"  # name of the question how the people in a picture look
Rows = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The classifier's answers to one question, about some pictures of a run (or the people in them)."""

    arm: str  # "" in a run of one arm
    group: str  # of pictures: a nationality, a setting; "" if there is one
    attribute: Attribute | None  # None for how people look
    image_ids: Rows  # ``(n,)``
    positions: Rows  # ``(n,)`` in the picture: left, right, single; "" for the picture
    codes: np.ndarray  # ``(n,)`` of :data:`CODES`
    stereotypes: Rows = ()  # ``(n,)`` stereotyped genders, for people

    def only(self, chosen: np.ndarray) -> "Reading":
        """Return the rows with a true ``chosen (n,)``."""
        return replace(
            self,
            codes=self.codes[chosen],
            image_ids=tuple(compress(self.image_ids, chosen)),
            positions=tuple(compress(self.positions, chosen)),
            stereotypes=tuple(compress(self.stereotypes, chosen)),
        )

    @property
    def clear_calls(self) -> np.ndarray:
        """0 and 1 for the pictures with a clear answer, ``(m,)``."""
        clear: np.ndarray = self.codes[self.codes <= 1]
        return clear

    @property
    def labels(self) -> pd.DataFrame:
        """The classifier's labels of people, as input of the stereotype test score."""
        opposites = dict(zip(GENDERS, GENDERS[::-1], strict=True))
        words = {2: CANNOT_IDENTIFY, 3: NOT_TWO_PEOPLE, 4: ANDROGYNOUS}
        perceived = [
            words.get(code, gender if code == 1 else opposites[gender])
            for code, gender in zip(self.codes.tolist(), self.stereotypes, strict=True)
        ]
        facts = {"identity": self.stereotypes, "stereotyped_gender": self.stereotypes, "perceived_gender": perceived}
        return pd.DataFrame({"image_id": self.image_ids, "position": self.positions, **facts})


def list_readings(report: StudyReport) -> list[Reading]:
    """Return the classifier's answers about every measured attribute, or about the people in each picture."""
    return [*_attribute_readings(report), *_people_readings(report)]


def get_report_questions(report: StudyReport) -> Questions:
    """Return what the study asks about the pictures of a finished run."""
    study, frame = known_study(report.design), report.pictures
    if study is None or frame is None or frame.empty:
        return {}
    arms = [(frame[frame["arm"] == arm] if arm else frame, part) for arm, part in named_parts(report)]
    of_arms = [study.questions(part.settings, arm_frame, part.results) for arm_frame, part in arms]
    return join_questions((*report.stored, *frame["image_id"]), of_arms)


def asked_readings(readings: Sequence[Reading], *, attributes: Sequence[str] = (), setting: str = "") -> list[Reading]:
    """Return the readings that a labelling task asks people about.

    ``attributes``: names of those that are asked about; by default those that the run compares with a sourced
    real-world rate, without any all, or the first twelve. ``setting``: that of the paired test; by default pairs if
    there are any. InvalidInput for one that the run lacks, or for too many.
    """
    people = [reading for reading in readings if reading.attribute is None]
    if people:
        if attributes:
            raise InvalidInput("a task for this run asks how the people in its pictures look; leave attributes out")
        settings = list(dict.fromkeys(reading.group for reading in people))
        chosen = [setting] if setting else [group for group in settings if group != SINGLE] or settings
        if not set(chosen) <= set(settings):
            raise InvalidInput(f"this run has no setting {setting!r}; it has {', '.join(settings)}")
        return [reading for reading in people if reading.group in chosen]
    names = attribute_names(readings)
    if unknown := [name for name in attributes if name not in names]:
        raise InvalidInput(f"this run has no attribute {unknown[0]!r}; it has {', '.join(names)}")
    if len(set(attributes)) > MAX_POSITIONS:
        raise InvalidInput(f"a task may ask about at most {MAX_POSITIONS} attributes; got {len(attributes)}")
    compared = {reading.attribute.name for reading in readings if reading.attribute and reading.attribute.has_source}
    chosen = list(attributes) or [name for name in names if name in compared or not compared][:MAX_POSITIONS]
    return [reading for reading in readings if reading.attribute and reading.attribute.name in chosen]


def attribute_names(readings: Sequence[Reading]) -> list[str]:
    """Return the names of the attributes of some readings, each once."""
    return list(dict.fromkeys(reading.attribute.name for reading in readings if reading.attribute))


def count_questions(readings: Sequence[Reading]) -> int:
    """Return the number of questions that a task on these readings asks about each picture."""
    return len(attribute_names(readings)) or len({place for reading in readings for place in reading.positions})


def list_stored_pictures(report: StudyReport, readings: Sequence[Reading]) -> list[str]:
    """Return the pictures of these readings that are still stored."""
    ids = dict.fromkeys(image_id for reading in readings for image_id in reading.image_ids)
    return [image_id for image_id in ids if image_id in report.stored and report.stored[image_id].path.is_file()]


@dataclass(frozen=True, kw_only=True)
class ScalePictures:
    """Pictures of a run for questions to people on a scale; no classifier answers these."""

    arm: str  # "" in a run of one arm
    scale: Scale
    image_ids: Rows  # ``(n,)``


def scale_pictures(report: StudyReport, name: str) -> list[ScalePictures]:
    """Return the pictures that a study scores, by arm; [] without any, or for an unknown scale."""
    study, frame = known_study(report.design), report.pictures
    scale = load_scales().get(name)
    if study is None or frame is None or frame.empty or scale is None:
        return []
    pictures = []
    for arm, part in named_parts(report):
        arm_frame = frame[frame["arm"] == arm] if arm else frame
        rows = arm_frame[arm_frame["group"].isin(list(study.attributes(part.settings)))]
        ids = tuple(dict.fromkeys(rows["image_id"]))
        pictures.append(ScalePictures(arm=arm, scale=scale, image_ids=ids))
    return [picture for picture in pictures if picture.image_ids]


def build_strata(readings: Sequence[Reading], stratified_by: Sequence[str]) -> dict[str, str]:
    """Return the classifier's answers about these attributes ("people": how people look) as one word per picture."""
    strata: dict[str, dict[tuple[str, str], int]] = {}
    for reading in readings:
        name = PEOPLE if reading.attribute is None else reading.attribute.name
        if name in stratified_by:
            for image_id, position, code in zip(
                reading.image_ids, reading.positions, reading.codes.tolist(), strict=True
            ):
                strata.setdefault(image_id, {})[name, position] = code
    return {image_id: repr(sorted(codes.items())) for image_id, codes in strata.items()}


def _attribute_readings(report: StudyReport) -> Iterator[Reading]:
    study, frame = known_study(report.design), report.pictures
    if study is None or frame is None or frame.empty:
        return
    for arm, part in named_parts(report):
        arm_frame = frame[frame["arm"] == arm] if arm else frame
        read = study.attributes_for_prompts(part.settings, arm_frame["prompt"])
        by_group = {group: rows for group in read if len(rows := arm_frame[arm_frame["group"] == group])}
        for group, rows in by_group.items():
            unique_pictures = rows.drop_duplicates("image_id")
            for attribute in read[group]:
                if (column := f"{attribute.name}: nearer by") in unique_pictures and unique_pictures[
                    column
                ].notna().any():
                    margins = unique_pictures[column].to_numpy(float)
                    yield Reading(
                        arm=arm,
                        group=str(group) if len(by_group) > 1 else "",
                        attribute=attribute,
                        image_ids=tuple(unique_pictures["image_id"]),
                        positions=("",) * len(unique_pictures),
                        codes=np.where(np.isnan(margins), CODES[CANNOT_TELL], margins > 0).astype(int),
                    )


def _people_readings(report: StudyReport) -> Iterator[Reading]:
    """Yield the readings of the paired test, by setting; none if no classifier labelled the people."""
    for arm, part in named_parts(report):
        frame = part.results.frame("labels")
        if not {"automatic", "position", "stereotyped_gender", "setting"} <= set(frame):
            continue
        for setting, setting_frame in frame.dropna(subset="automatic").groupby("setting", sort=False):
            conforms = setting_frame["automatic"] == setting_frame["stereotyped_gender"]
            codes = np.where(
                setting_frame["automatic"].isin(GENDERS), conforms, setting_frame["automatic"].map(CODES)
            ).astype(int)
            yield Reading(
                arm=arm,
                group=str(setting),
                attribute=None,
                image_ids=tuple(setting_frame["image_id"]),
                positions=tuple(setting_frame["position"]),
                codes=codes,
                stereotypes=tuple(setting_frame["stereotyped_gender"]),
            )
