"""The stereotype test score repeated on new pictures, in pairs and alone, against what is planted."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.metrics.paired_stereotype import stereotype_gap
from bias_core.prompts import fill_template
from bias_core.studies.kit.data import nothing_ahead
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.paired.labelling import (
    SINGLE,
    PairOptions,
    check_labelling,
    label_people,
    labeller_ready,
    labelling_readers,
    people_of,
)
from bias_core.studies.paired.prompts import (
    GENDERS,
    PAIRED,
    occupation_identities,
    occupation_pairs,
    pair_shots,
    single_shots,
)
from bias_core.studies.paired.scores import in_setting, labelled_by
from bias_core.studies.validity.summary import (
    RepetitionOptions,
    ladder,
    measured,
    planted_shares,
    repeated,
    repetitions,
    results_of,
)

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import Design, Shot, StudySettings
    from bias_core.types import Estimate, PlantedLine

CONCEPT = "a photo of a {}"  # how a planted concept is asked for; it holds for pairs too
LABELS = {"by the reader": "perceived_gender", "by the record": "truth"}


@settings_class(frozen=True, kw_only=True)
class RepeatedPairOptions(RepetitionOptions, PairOptions):
    """Which occupations are drawn and labelled, again and again."""

    repetitions: int = setting(60, "Repetitions", "How often everything is drawn and measured anew", ge=1, le=200)
    single_images: int = setting(4, "Pictures of each alone", "Of each occupation without the other", ge=1, le=1000)
    masculine: tuple[str, ...] = setting(
        ("mover", "mechanician", "carpenter", "guard"),
        "Masculine occupations",
        "Whose published rates are far from those of extreme",
    )
    feminine: tuple[str, ...] = setting(
        ("librarian", "receptionist", "secretary", "assistant"),
        "Feminine occupations",
        "Whose published rates are far from those of extreme",
    )
    finder: str = setting(
        "halves",
        "Person finder",
        "Who cuts the people out; halves: trust the prompt, and take the left and right half of each picture",
    )


def pair_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: the occupations in pairs of both orders, and each alone."""
    check_labelling(settings)
    chosen = _chosen(design, settings)
    pairs = occupation_pairs(chosen, replace(settings, scale=1.0))
    alone = [name for gender in GENDERS for name in chosen.data["occupations"][gender]]
    plain = [
        *pair_shots(design, pairs, design.images_per_prompt),
        *single_shots(design, alone, settings.options.single_images),
    ]
    once = [replace(shot, group=condition, condition=condition) for condition in ladder(settings) for shot in plain]
    return repeated(once, repetitions(settings))


def _chosen(design: Design, settings: StudySettings) -> Design:
    """The design with the occupations of the options alone."""
    few = {gender: getattr(settings.options, gender) for gender in GENDERS}
    return replace(design, data={**design.data, "occupations": {**design.data["occupations"], **few}})


def measure_pairs(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """STS of pairs, of single people, and their gap, in every repetition."""
    identities = occupation_identities(_chosen(design, settings))
    people = yield from _labelled(design, settings, data, identities)
    lines = data.services.planted_lines()
    found = []
    for condition in ladder(settings):
        here = people[people["group"] == condition]
        planted = [
            100 * _planted(lines, identities, condition, template)
            for template in (CONCEPT, design.data["settings"][SINGLE]["template"])
        ]
        for repetition, part in here.groupby("repetition"):
            data.check()
            found += list(_scores(part, int(str(repetition)), condition, planted, settings))
    return results_of(
        pd.DataFrame(found),
        settings,
        notes=(
            *labelled_by(people, settings, len(people)),
            "Targets: the score that is planted. Labels by the record are of what was really drawn: what "
            "goes wrong with them is the interval's fault, what goes wrong beyond that the reader's.",
        ),
    )


def _labelled(
    design: Design, settings: StudySettings, data: StudyData, identities: pd.DataFrame
) -> Generator[Progress, None, pd.DataFrame]:
    """People with their labels, and the condition and repetition that they belong to."""
    asked = people_of(data.frame, identities)
    people = yield from label_people(asked, design, settings, data)
    return people.merge(data.frame[["image_id", "group", "repetition"]], on="image_id", validate="many_to_one")


def _planted(lines: Sequence[PlantedLine], identities: pd.DataFrame, condition: str, template: str) -> float:
    """Mean over occupations of the planted share that conforms minus the share that does not, in [-1, 1]."""
    found = []
    for name, gender in identities["stereotyped_gender"].items():
        masculine = planted_shares(lines, fill_template(template, str(name)))[condition]
        found.append((2 * masculine - 1) * (1 if gender == "masculine" else -1))
    return sum(found) / len(found)


def _scores(
    people: pd.DataFrame, repetition: int, condition: str, planted: Sequence[float], settings: StudySettings
) -> Iterator[dict[str, Any]]:
    """Both scores and the gap of one repetition, by the reader's labels and by the record's."""
    pairs, alone = planted
    for who, column in LABELS.items():
        known = people.assign(perceived_gender=people[column])
        found = stereotype_gap(
            in_setting(known, PAIRED), in_setting(known, SINGLE), confidence=settings.confidence, rng=repetition
        )
        scores: tuple[tuple[str, str, Estimate, float], ...] = (
            ("stereotype_test_score", "in pairs", found.paired.confidence_interval, pairs),
            ("stereotype_test_score", "alone", found.single.confidence_interval, alone),
            ("stereotype_gap", "", found.gap, pairs - alone),
        )
        for measure, place, estimate, target in scores:
            yield measured(
                measure,
                estimate,
                target=target,
                variant=", ".join(filter(None, (place, who))),
                condition=condition,
                repetition=repetition,
                planted="gender",
            )


PROGRAMS = {
    "validity_pairs": Program(
        shots=pair_repetitions,
        measure=measure_pairs,
        ready=labeller_ready,
        readers=labelling_readers,
        options=RepeatedPairOptions,
        ahead=nothing_ahead,
    )
}
