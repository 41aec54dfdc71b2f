"""The stereotype test score again and again: of pairs, of single people, and their gap."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd

from bias_core.metrics.paired_stereotype import stereotype_gap
from bias_core.prompts import fill_template
from bias_core.studies.kit.program import Measuring, Program, StudyData, nothing_ahead
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.paired import labelling
from bias_core.studies.paired.labelling import SINGLE, PairOptions
from bias_core.studies.paired.pairs import GENDERS, alone_shot, occupation_identities, occupation_pairs, ordered_shot
from bias_core.studies.paired.scores import in_setting, labelled_by
from bias_core.studies.validity.headline import headline
from bias_core.studies.validity.repetitions import RepetitionOptions, ladder, planted_shares, repeated
from bias_core.studies.validity.verdicts import TEXTS, measured, results_of

CONCEPT = "a photo of a {}"  # how a planted concept is asked for; it holds for pairs too
LABELS = {"by the reader": "perceived_gender", "by the record": "truth"}


@settings_class(frozen=True, kw_only=True)
class RepeatedPairOptions(RepetitionOptions, PairOptions):
    """Which occupations are drawn and labelled, again and again."""

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


def pair_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: pairs of occupations in either order, and occupations alone, drawn by chance.

    The intervals count the chance in who is drawn, so every cell draws it anew: as many pictures as there are pairs,
    and as many alone as the option says for each occupation.
    """
    labelling.check_labelling(settings)
    chosen = _chosen(design, settings)
    pairs = occupation_pairs(chosen, replace(settings, scale=1.0))
    names = [name for gender in GENDERS for name in chosen.data["occupations"][gender]]

    def of_cell(_group: str, chance: Random) -> Iterator[Shot]:
        drawn = chance.choices([*pairs, *(pair[::-1] for pair in pairs)], k=len(pairs) * design.images_per_prompt)
        alone = chance.choices(names, k=len(names) * settings.options.single_images)
        shots = [ordered_shot(design, pair) for pair in drawn] + [alone_shot(design, name) for name in alone]
        return (replace(shot, group="", facts={**shot.facts, "place": k}) for k, shot in enumerate(shots))

    return repeated(settings, of_cell)


def _chosen(design: Design, settings: StudySettings) -> Design:
    """The design with the occupations of the options alone."""
    few = {gender: getattr(settings.options, gender) for gender in GENDERS}
    return replace(design, data={**design.data, "occupations": {**design.data["occupations"], **few}})


def measure_pairs(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """STS of pairs, of single people, and their gap, in every repetition."""
    identities = occupation_identities(_chosen(design, settings))
    people = yield from labelling.label_people(labelling.people_of(data.frame, identities), design, settings, data)
    people = people.merge(data.frame[["image_id", "group", "repetition"]], on="image_id", validate="many_to_one")
    lines = data.services.planted_lines()
    measurements = []
    for condition in ladder(settings):
        planted = []  # of pairs, of single people: the mean share that conforms minus the share that does not
        for template in (CONCEPT, design.data["settings"][SINGLE]["template"]):
            shares = [planted_shares(lines, fill_template(template, str(name)))[condition] for name in identities.index]
            signs = identities["stereotyped_gender"].map({"masculine": 1, "feminine": -1})
            planted.append(
                100 * sum((2 * share - 1) * sign for share, sign in zip(shares, signs, strict=True)) / len(signs)
            )
        for repetition, part in people[people["group"] == condition].groupby("repetition"):
            data.check()
            measurements += list(_scores(part, int(str(repetition)), condition, planted, settings))
    notes = *labelled_by(people, settings, len(people)), TEXTS.note("planted scores")
    return results_of(pd.DataFrame(measurements), settings, notes=notes)


def _scores(
    people: pd.DataFrame, repetition: int, condition: str, planted: Sequence[float], settings: StudySettings
) -> Iterator[dict[str, Any]]:
    """Both scores and the gap of one repetition, by the reader's labels and by the record's."""
    pairs, alone = planted
    for who, column in LABELS.items():
        with_labels = people.assign(perceived_gender=people[column])
        scores = stereotype_gap(
            in_setting(with_labels), in_setting(with_labels, SINGLE), confidence=settings.confidence, rng=repetition
        )
        where: dict[str, Any] = {"condition": condition, "repetition": repetition, "planted": "gender"}
        for measure, place, estimate, target in (
            ("stereotype_test_score", "in pairs, ", scores.paired.confidence_interval, pairs),
            ("stereotype_test_score", "alone, ", scores.single.confidence_interval, alone),
            ("stereotype_gap", "", scores.gap, pairs - alone),
        ):
            yield measured(measure, estimate, target=target, variant=f"{place}{who}", **where)


PROGRAMS = {
    "validity_pairs": Program(
        shots=pair_repetitions,
        measure=measure_pairs,
        ready=labelling.labeller_ready,
        readers=labelling.labelling_readers,
        options=RepeatedPairOptions,
        headline=headline,
        ahead=nothing_ahead,
    )
}
