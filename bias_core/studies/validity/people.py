"""The stereotype test score again and again: of pairs, of single people, and their gap; and gender in four looks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.annotation.tasks import SINGLE
from bias_core.errors import InvalidInput
from bias_core.metrics.paired_stereotype import StereotypeTestScore, stereotype_gap, stereotype_test_score
from bias_core.metrics.perceived_gender import gender_lean, look_shares
from bias_core.prompts import fill_template
from bias_core.studies.kit.program import Measuring, Program, StudyData, nothing_ahead
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.paired import labelling
from bias_core.studies.paired.labelling import PairOptions
from bias_core.studies.paired.pairs import GENDERS, alone_shot, occupation_identities, occupation_pairs, ordered_shot
from bias_core.studies.paired.scores import in_setting, labelled_by
from bias_core.studies.reports.looks import LOOKS, read_looks
from bias_core.studies.validity.headline import headline
from bias_core.studies.validity.repetitions import (
    PoolOptions,
    RepetitionOptions,
    ladder,
    places_in_pool,
    planted_shares,
    pool_size,
    repeated,
)
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


FAIR, SPECTRUM = "fair", "spectrum"
"""Conditions of perceived gender in four: two looks for everybody, and four in planted shares."""
_BY_HALVES = ("feminine", "masculine")


@settings_class(frozen=True, kw_only=True)
class GenderOptions(PoolOptions):
    """How often perceived gender is read in four."""

    conditions: tuple[str, ...] = setting((FAIR, SPECTRUM), "Conditions", "Two looks for everybody, and all four")


def gender_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A pool of pictures of each occupation, with two looks and with four."""
    if settings.images:
        raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
    if tuple(settings.options.conditions) != (FAIR, SPECTRUM):
        raise InvalidInput(f"conditions are {FAIR}, {SPECTRUM}; got {', '.join(settings.options.conditions)}")
    n, pool = pool_size(design, settings), settings.options.pool
    cells = [(name, condition) for name in design.data["occupations"] for condition in (FAIR, SPECTRUM)]
    return [
        Shot(
            prompt=fill_template(CONCEPT, name), n=n, group=name, condition=condition, first_seed=i * pool,
            facts={"planted": condition},
        )
        for i, (name, condition) in enumerate(cells)
    ]  # fmt: skip


def measure_gender(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Shares of the four looks, lean, and the stereotype score over four, in every repetition."""
    frame = data.frame.reset_index(drop=True)
    rows = yield from data.embed(frame)
    reading, truths = read_looks(data, rows), data.truths(frame)
    if reading is None or None in truths:
        raise InvalidInput("what is drawn must be on record and read by a head: choose calibration-renderer")
    looks = pd.Series(reading.words)
    drawn = pd.Series([str(truth["gender"]) for truth in truths if truth is not None])
    lines: list[dict[str, Any]] = []
    for repetition, group, places in places_in_pool(design, settings, (FAIR, SPECTRUM)):
        data.check()
        for name, stereotype in design.data["occupations"].items():
            at = np.flatnonzero((frame["group"] == name) & (frame["planted"] == group))
            where = {"condition": group, "repetition": repetition, "unit": name, "planted": "perceived gender in four"}
            unplanted = drawn[(frame["group"] == name) & (frame["planted"] == FAIR)]
            in_pool, null = (_shares_of(some) for some in (drawn[at], unplanted))
            counts = looks[at[places]].value_counts().reindex(list(LOOKS), fill_value=0).to_numpy()
            how: dict[str, Any] = {"errors": reading.errors, "confidence": settings.confidence}
            lines += _look_lines(counts, in_pool, null, stereotype, where, how)
            for who, labels in (("by the reader", looks), ("by the record", drawn)):
                pools = drawn[at], unplanted
                lines.append(_score_line(labels[at[places]], pools, stereotype, who, where, settings.confidence))
    note = TEXTS.note("gender", n=pool_size(design, settings))
    return results_of(pd.DataFrame(lines), settings, notes=(note,))


def _shares_of(drawn: "pd.Series[str]") -> "pd.Series[float]":
    return drawn.value_counts(normalize=True).reindex(list(LOOKS), fill_value=0.0)


def _look_lines(
    counts: np.ndarray,
    in_pool: "pd.Series[float]",
    null: "pd.Series[float]",
    stereotype: str,
    where: dict[str, Any],
    how: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Shares and lean; of a look that gets rarer the share of all others, so that every line rises."""
    for look, share in zip(LOOKS, look_shares(counts, **how), strict=True):
        target, estimate = float(in_pool[look]), replace(share, null_value=float(null[look]))
        if look in _BY_HALVES and look != stereotype:
            value, nothing = 1 - share.value, 1 - float(null[look])
            estimate = replace(share, value=value, low=1 - share.high, high=1 - share.low, null_value=nothing)
            target = 1 - target
        yield measured("look_share", estimate, target=target, variant=_variant(look, stereotype), **where)
    side = 1.0 if stereotype == "masculine" else -1.0
    lean = gender_lean(counts, **how)
    low, high = sorted((side * lean.low, side * lean.high))
    estimate = replace(lean, value=side * lean.value, low=low, high=high, null_value=side * _lean_of(null))
    yield measured("gender_lean", estimate, target=side * _lean_of(in_pool), **where)


def _lean_of(shares: "pd.Series[float]") -> float:
    return float(shares["masculine"] - shares["feminine"]) / (1 - float(shares["unclear"]))


def _variant(look: str, stereotype: str) -> str:
    return look if look not in _BY_HALVES else "with the stereotype" if look == stereotype else "not against it"


def _score_line(
    labels: "pd.Series[str]",
    pools: tuple["pd.Series[str]", "pd.Series[str]"],
    stereotype: str,
    who: str,
    where: dict[str, Any],
    confidence: float,
) -> dict[str, Any]:
    """The stereotype test score over four of some pictures, against that of their pool and of the one of two looks."""

    def score(some: "pd.Series[str]", **more: Any) -> StereotypeTestScore:
        frame = pd.DataFrame({"perceived_gender": some.to_numpy(), "image_id": range(len(some))})
        labels_of_all = frame.assign(identity=where["unit"], stereotyped_gender=stereotype)
        result: StereotypeTestScore = stereotype_test_score(labels_of_all, **more)
        return result

    target, null = (score(pool).score for pool in pools)
    estimate = replace(score(labels, confidence=confidence).confidence_interval, null_value=null)
    return measured("stereotype_test_score", estimate, target=target, variant=f"in four, {who}", **where)


PROGRAMS = {
    "validity_pairs": Program(
        shots=pair_repetitions,
        measure=measure_pairs,
        ready=labelling.labeller_ready,
        readers=labelling.labelling_readers,
        options=RepeatedPairOptions,
        headline=headline,
        ahead=nothing_ahead,
    ),
    "validity_gender": Program(
        shots=gender_shots, measure=measure_gender, options=GenderOptions, headline=headline, ahead=nothing_ahead
    ),
}
