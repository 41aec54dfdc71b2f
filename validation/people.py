"""Repeated tests of the stereotype test score of pairs and single people, and of effects of roles and places."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any, Literal

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import OrderEffect, order_effect, stereotype_gap
from bias_core.papers.pst import labelling
from bias_core.papers.pst.labelling import PairOptions
from bias_core.papers.pst.report import build_labelling_notes, select_setting
from bias_core.papers.pst.study import GENDERS, alone_shot, occupation_identities, occupation_pairs, ordered_shot
from bias_core.papers.pst.study_swapped import SIGNS, differences_by_seed, pictures_of_pairs, shots_of_pair
from bias_core.prompts import fill_template
from bias_core.report.claims import decide_claims
from bias_core.run.study_run import Run
from bias_core.study.classifiers import Reader
from bias_core.study.label_tasks import SINGLE
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Claim, Design, Shot, StudySettings, get_options
from bias_core.study_services import StudyServices
from bias_core.types import Estimate
from bias_core.values import setting, settings_class
from bias_core.world.planted import planted_lines
from validation.repetitions import (
    POOL,
    PoolOptions,
    RepetitionOptions,
    in_each_repetition,
    ladder,
    planted_shares,
    pool_of,
    pool_size,
    pools,
    repeated,
)
from validation.verdicts import TEXTS, measured, results_of

CONCEPT = "a photo of a {}"  # how a planted concept is asked for; it holds for pairs too
LABELS = {"by the classifier": "perceived_gender", "by the ground truth": "truth"}


@settings_class(frozen=True, kw_only=True)
class RepeatedPairOptions(RepetitionOptions, PairOptions):
    """Options of the repeated stereotype tests."""

    single_images: int = setting(4, "Pictures of each alone", "Pictures of one occupation alone", ge=1, le=1000)
    masculine: tuple[str, ...] = setting(
        ("mover", "mechanician", "carpenter", "guard"),
        "Masculine occupations",
        "Published rates far from those of extreme",
    )
    feminine: tuple[str, ...] = setting(
        ("librarian", "receptionist", "secretary", "assistant"),
        "Feminine occupations",
        "Published rates far from those of extreme",
    )


def _chosen(design: Design, settings: StudySettings) -> Design:
    """Return the design with only the occupations of the options."""
    options = get_options(settings, RepeatedPairOptions)
    few = {"masculine": options.masculine, "feminine": options.feminine}
    return replace(design, data={**design.data, "occupations": {**design.data["occupations"], **few}})


def measure_pairs(design: Design, settings: StudySettings, data: Run) -> Measuring:
    """STS of pairs, of single people, and their gap, in every repetition."""
    identities = occupation_identities(_chosen(design, settings))
    people = yield from labelling.label_people(labelling.list_people(data.frame, identities), design, settings, data)
    people = people.merge(data.frame[["image_id", "group", "repetition"]], on="image_id", validate="many_to_one")
    lines = tuple(planted_lines())
    # by condition, of pairs and of single people: the mean share that conforms minus the share that does not
    planted_by: dict[str, list[float]] = {condition: [] for condition in ladder(settings)}
    for condition, planted in planted_by.items():
        for template in (CONCEPT, design.data["settings"][SINGLE]["template"]):
            shares = [planted_shares(lines, fill_template(template, str(name)))[condition] for name in identities.index]
            signs = identities["stereotyped_gender"].map({"masculine": 1, "feminine": -1})
            planted.append(
                100 * sum((2 * share - 1) * sign for share, sign in zip(shares, signs, strict=True)) / len(signs)
            )

    def work(repetition: int) -> Iterator[dict[str, Any]]:
        for condition, planted in planted_by.items():
            part = people[(people["group"] == condition) & (people["repetition"] == repetition)]
            yield from _scores(part, repetition, condition, planted, settings)

    measurements = yield from in_each_repetition(data, work)
    notes = *build_labelling_notes(people, settings, len(people)), TEXTS.note("planted scores")
    return results_of(pd.DataFrame(measurements), settings, notes=notes)


def _scores(
    people: pd.DataFrame, repetition: int, condition: str, planted: Sequence[float], settings: StudySettings
) -> Iterator[dict[str, Any]]:
    """Both scores and the gap of one repetition, by the classifier's labels and by the ground truth."""
    pairs, alone = planted
    for who, column in LABELS.items():
        with_labels = people.assign(perceived_gender=people[column])
        scores = stereotype_gap(
            select_setting(with_labels),
            select_setting(with_labels, SINGLE),
            confidence=settings.confidence,
            rng=repetition,
        )
        where: dict[str, Any] = {"condition": condition, "repetition": repetition, "planted": "gender"}
        for measure, place, estimate, target in (
            ("stereotype_test_score", "in pairs, ", scores.paired.confidence_interval, pairs),
            ("stereotype_test_score", "alone, ", scores.single.confidence_interval, alone),
            ("stereotype_gap", "", scores.gap, pairs - alone),
        ):
            yield measured(measure, estimate, target=target, variant=f"{place}{who}", **where)


FAIR, PEOPLE = "fair", "people"
"""Conditions without a bias, and with a bias by role or place."""
TOGETHER: Mapping[str, str] = {"role": "of the role", "place": "of the place"}
"""Variant of the planted effect, by its key in the design."""
N_SIGNS = 999  # of the tests of random signs: enough for a level of 5 % after Holm, five times as quick


@settings_class(frozen=True, kw_only=True)
class TogetherOptions(PoolOptions, labelling.LabellingOptions):
    """Options of the repeated tests of people in pairs."""

    conditions: tuple[str, ...] = setting((FAIR, PEOPLE), "Conditions", "Nothing planted, and a bias by role or place")


def _together_lines(
    key: str, estimate: Estimate, claim: Claim, target: float, where: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Interval of an effect, and the claim of its test after correction for all tests of a picture."""
    about: dict[str, Any] = {"planted": "people together", **where}
    yield measured("order_effect", estimate, target=target, variant=TOGETHER[key], **about)
    if not math.isnan(claim.p_adjusted):
        alone = replace(estimate, low=math.nan, high=math.nan)
        variant = f"{TOGETHER[key]}, after Holm"
        yield measured("order_effect", alone, target=math.nan, variant=variant, excluded=claim.is_clear, **about)


def _sign(key: str) -> Literal[1, -1]:
    return SIGNS.get(key, -1)


def _differences(people: pd.DataFrame, label: str) -> dict[str, np.ndarray]:
    """Both differences of every effect, a row for each seed; nan if a person cannot be scored."""
    seeds, pairs = np.unique(people["seed"]), pictures_of_pairs(people, label)
    return {
        key: differences_by_seed(pairs, key).droplevel("pair").reindex(seeds).to_numpy() for key in (*TOGETHER, "both")
    }


def _tests(values: Mapping[str, np.ndarray], settings: StudySettings) -> dict[str, OrderEffect]:
    """Each effect in these pictures, as the study of the pictures tests it."""
    how: dict[str, Any] = {"confidence": settings.confidence, "n_resamples": N_SIGNS, "rng": settings.seed}
    return {
        key: order_effect(*some[~np.isnan(some).any(axis=1)].T, sign=_sign(key), **how)
        for key, some in values.items()
        if not np.isnan(some).all()
    }


class ValidityPeople(Study):
    """The study of the kind ``validity_people``."""

    kind = "validity_people"
    options = TogetherOptions
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        """A pool of pictures of every pair in both orders, with and without the planted bias."""
        options = get_options(settings, TogetherOptions)
        labelling.check_labelling(settings)
        if settings.images:
            raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
        if tuple(options.conditions) != (FAIR, PEOPLE):
            raise InvalidInput(f"conditions are {FAIR}, {PEOPLE}; got {', '.join(options.conditions)}")
        n = pool_size(self.design, settings) // 2
        return pools(
            settings,
            [
                replace(
                    shot,
                    group=name,
                    condition=condition,
                    first_seed=place * n,
                    facts={"planted": condition, **shot.facts},
                )
                for (name, who), (place, condition) in product(
                    self.design.data["groups"].items(), enumerate((FAIR, PEOPLE))
                )
                for shot in shots_of_pair((who[0], who[1]), n)
            ],
        )

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Effects of roles and places in every repetition; a group is named after its planted effect."""
        groups = self.design.data["groups"]
        stereotypes = {name: looks for who in groups.values() for name, looks in zip(who, GENDERS, strict=True)}
        everyone = labelling.list_people(data.frame, pd.DataFrame({"stereotyped_gender": stereotypes}))
        people = yield from labelling.label_people(everyone, self.design, settings, data)
        if people["truth"].isna().any():
            raise InvalidInput("this study needs the ground truth: choose calibration-renderer")
        people = people.merge(data.frame[["image_id", "group", "planted", POOL]], on="image_id", validate="many_to_one")
        read, targets = dict[Any, Any](), dict[Any, dict[str, float]]()
        for cell, here in people.groupby([POOL, "group", "planted"], sort=False):
            read[cell] = _differences(here, "perceived_gender")
            recorded = _differences(here, "truth").items()
            targets[cell] = {key: float(np.nanmean(some @ (0.5, 0.5 * _sign(key)))) for key, some in recorded}
        chance = np.random.default_rng(settings.seed)

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            k = pool_of(settings, repetition)
            for name, condition in product(groups, (FAIR, PEOPLE)):
                pool = read[k, name, condition]
                seeds = chance.integers(len(pool["role"]), size=self.design.images_per_prompt // 2)
                tests = _tests({key: some[seeds] for key, some in pool.items()}, replace(settings, seed=repetition))
                decided = decide_claims([test.estimate for test in tests.values()], confidence=settings.confidence)
                claims = dict(zip(tests, decided, strict=True))
                for key in (one for one in TOGETHER if one in tests):
                    where = {"condition": condition if key == name else FAIR, "repetition": repetition}
                    where["unit"] = f"{name} {key if key == name else condition}"
                    null = targets[k, name, FAIR if key == name else condition][key]
                    estimate = replace(tests[key].estimate, null_value=null)
                    yield from _together_lines(key, estimate, claims[key], targets[k, name, condition][key], where)

        lines = yield from in_each_repetition(data, work)
        return results_of(pd.DataFrame(lines), settings, notes=(TEXTS.note("together"),))

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return the models that read the pictures."""
        return labelling.labelling_readers(settings)

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if a model is not here."""
        if draws_to_measure:
            labelling.labeller_ready(settings, services)


class ValidityPairs(Study):
    """The study of the kind ``validity_pairs``."""

    kind = "validity_pairs"
    options = RepeatedPairOptions
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Per repetition and condition: random pairs of occupations in either order, and occupations alone.

        The intervals cover the choice of people, so every cell draws it anew: as many pictures as there are pairs,
        and of each occupation alone as many as the option says.
        """
        labelling.check_labelling(settings)
        chosen = _chosen(self.design, settings)
        pairs = occupation_pairs(chosen, replace(settings, scale=1.0))
        names = [name for gender in GENDERS for name in chosen.data["occupations"][gender]]

        def of_cell(_group: str, chance: Random) -> Iterator[Shot]:
            drawn = chance.choices(
                [*pairs, *(pair[::-1] for pair in pairs)], k=len(pairs) * self.design.images_per_prompt
            )
            alone = chance.choices(names, k=len(names) * get_options(settings, RepeatedPairOptions).single_images)
            shots = [ordered_shot(self.design, pair) for pair in drawn] + [
                alone_shot(self.design, name) for name in alone
            ]
            return (
                replace(shot, group="", facts={**shot.facts, "place": k}, first_seed=0) for k, shot in enumerate(shots)
            )

        return repeated(settings, of_cell)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure the planted rates again and again."""
        return measure_pairs(self.design, settings, data)

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        """Return the models that read the pictures."""
        return labelling.labelling_readers(settings)

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise ModelUnavailable if a model is not here."""
        if draws_to_measure:
            labelling.labeller_ready(settings, services)
