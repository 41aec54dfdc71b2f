"""The classifier's answer about each picture of a finished run, for people's labels to correct."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.paired_stereotype import ANDROGYNOUS, CANNOT_IDENTIFY, GENDERS, NOT_TWO_PEOPLE, UNCLEAR
from bias_core.people import Scale, load_scales
from bias_core.study.design import known_study
from bias_core.study.types import StudyReport
from bias_core.types import Attribute

YES, NO, CANNOT_TELL = "yes", "no", "cannot_tell"
CODES = {NO: 0, YES: 1, CANNOT_TELL: 2, CANNOT_IDENTIFY: 2, UNCLEAR: 2, NOT_TWO_PEOPLE: 3, ANDROGYNOUS: 4}
"""Classes of answers, of the reader and of people; a gender is 1 where it conforms to the stereotype, else 0."""
PEOPLE = "people"  # in place of an attribute's name: how the people in a picture look
Rows = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The classifier's answers to one question, about some pictures of a run (or the people in them)."""

    arm: str  # "" in a run of one arm
    group: str  # of pictures: a nationality, a setting; "" where there is one
    attribute: Attribute | None  # None for how people look
    image_ids: Rows  # ``(n,)``
    positions: Rows  # ``(n,)`` where in the picture: left, right, single; "" for the picture
    codes: np.ndarray  # ``(n,)`` of :data:`CODES`
    stereotypes: Rows = ()  # ``(n,)`` genders, of people

    def only(self, chosen: np.ndarray) -> "Reading":
        """The rows of which ``chosen (n,)`` is true."""
        return replace(
            self,
            codes=self.codes[chosen],
            image_ids=tuple(compress(self.image_ids, chosen)),
            positions=tuple(compress(self.positions, chosen)),
            stereotypes=tuple(compress(self.stereotypes, chosen)),
        )

    @property
    def clear_calls(self) -> np.ndarray:
        """0 and 1 of the pictures of which the reader can tell, ``(m,)``."""
        clear: np.ndarray = self.codes[self.codes <= 1]
        return clear

    @property
    def labels(self) -> pd.DataFrame:
        """The classifier's labels of people, as the stereotype test score takes them."""
        other = dict(zip(GENDERS, GENDERS[::-1], strict=True))
        words = {2: CANNOT_IDENTIFY, 3: NOT_TWO_PEOPLE, 4: ANDROGYNOUS}
        perceived = [
            words.get(code, gender if code == 1 else other[gender])
            for code, gender in zip(self.codes.tolist(), self.stereotypes, strict=True)
        ]
        facts = {"identity": self.stereotypes, "stereotyped_gender": self.stereotypes, "perceived_gender": perceived}
        return pd.DataFrame({"image_id": self.image_ids, "position": self.positions, **facts})


def readings_of(report: StudyReport) -> list[Reading]:
    """The classifier's answers about every attribute whose share it reads, or about the people in each picture."""
    return [*_attribute_readings(report), *_people_readings(report)]


@dataclass(frozen=True, kw_only=True)
class ScalePictures:
    """Pictures of a run that people may be asked about on a scale, which no reader reads."""

    arm: str  # "" in a run of one arm
    scale: Scale
    image_ids: Rows  # ``(n,)``


def scale_pictures(report: StudyReport, name: str) -> list[ScalePictures]:
    """The pictures that a study scores, in each arm; [] where there are none, or no scale is called so."""
    study, frame = known_study(report.design), report.pictures
    scale = load_scales().get(name)
    if study is None or frame is None or frame.empty or scale is None:
        return []
    pictures = []
    for arm, part in _arms(report):
        own = frame[frame["arm"] == arm] if arm else frame
        rows = own[own["group"].isin(list(study.attributes(part.settings)))]
        ids = tuple(dict.fromkeys(rows["image_id"]))
        pictures.append(ScalePictures(arm=arm, scale=scale, image_ids=ids))
    return [one for one in pictures if one.image_ids]


def strata_of(readings: Sequence[Reading], stratified_by: Sequence[str]) -> dict[str, str]:
    """By picture what the reader says of these attributes ("people": of how people look), as a word."""
    strata: dict[str, dict[tuple[str, str], int]] = {}
    for one in readings:
        name = PEOPLE if one.attribute is None else one.attribute.name
        if name in stratified_by:
            for image_id, position, code in zip(one.image_ids, one.positions, one.codes.tolist(), strict=True):
                strata.setdefault(image_id, {})[name, position] = code
    return {image_id: repr(sorted(codes.items())) for image_id, codes in strata.items()}


def _arms(report: StudyReport) -> list[tuple[str, Any]]:
    """The name of each arm with what was found in it; "" with the report where it has none."""
    return [(arm.name, arm) for arm in report.arms] or [("", report)]


def _attribute_readings(report: StudyReport) -> Iterator[Reading]:
    study, frame = known_study(report.design), report.pictures
    if study is None or frame is None or frame.empty:
        return
    for arm, part in _arms(report):
        own = frame[frame["arm"] == arm] if arm else frame
        read = study.attributes(part.settings)
        by_group = {group: rows for group in read if len(rows := own[own["group"] == group])}
        for group, rows in by_group.items():
            once = rows.drop_duplicates("image_id")
            for attribute in read[group]:
                if (column := f"{attribute.name}: nearer by") in once and once[column].notna().any():
                    margins = once[column].to_numpy(float)
                    yield Reading(
                        arm=arm,
                        group=str(group) if len(by_group) > 1 else "",
                        attribute=attribute,
                        image_ids=tuple(once["image_id"]),
                        positions=("",) * len(once),
                        codes=np.where(np.isnan(margins), CODES[CANNOT_TELL], margins > 0).astype(int),
                    )


def _people_readings(report: StudyReport) -> Iterator[Reading]:
    """The readings of the paired test, by setting; none if no classifier labelled the people."""
    for arm, part in _arms(report):
        frame = part.results.frame("labels")
        if not {"automatic", "position", "stereotyped_gender", "setting"} <= set(frame):
            continue
        for setting, some in frame.dropna(subset="automatic").groupby("setting", sort=False):
            conforms = some["automatic"] == some["stereotyped_gender"]
            codes = np.where(some["automatic"].isin(GENDERS), conforms, some["automatic"].map(CODES)).astype(int)
            yield Reading(
                arm=arm,
                group=str(setting),
                attribute=None,
                image_ids=tuple(some["image_id"]),
                positions=tuple(some["position"]),
                codes=codes,
                stereotypes=tuple(some["stereotyped_gender"]),
            )
