"""Again and again: the stereotype test score of pairs and of single people, gender in four, and people together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.annotation.tasks import SINGLE
from bias_core.errors import InvalidInput
from bias_core.metrics.paired_stereotype import StereotypeTestScore, stereotype_gap, stereotype_test_score
from bias_core.metrics.perceived_gender import gender_lean, look_shares
from bias_core.metrics.swapped import order_effect, within_picture_difference
from bias_core.prompts import fill_template
from bias_core.studies.kit.designs import read_study
from bias_core.studies.kit.program import Measuring, Program, StudyData, nothing_ahead
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.paired import labelling
from bias_core.studies.paired.identities import pair_findings
from bias_core.studies.paired.labelling import PairOptions
from bias_core.studies.paired.pairs import GENDERS, alone_shot, occupation_identities, occupation_pairs, ordered_shot
from bias_core.studies.paired.places import (
    OF_SO_MANY,
    SIZES,
    corrected_p_values,
    place_of,
    size_differences,
    with_places,
)
from bias_core.studies.paired.scores import THREE, in_setting, labelled_by
from bias_core.studies.paired.swapped import SIGNS, differences_by_seed, pictures_of_pairs, shots_of_pair
from bias_core.studies.reports.looks import LOOKS, read_looks
from bias_core.types import Estimate
from bias_core.world.truth import planted_lines
from validation.repetitions import (
    PoolOptions,
    RepetitionOptions,
    in_each_repetition,
    ladder,
    places_in_pool,
    planted_shares,
    pool_size,
    repeated,
)
from validation.verdicts import NOMINAL, TEXTS, measured, results_of

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
    looks, names = pd.Series(reading.words), design.data["occupations"]
    drawn = pd.Series([str(truth["gender"]) for truth in truths if truth is not None])
    draws, how = places_in_pool(design, settings, (FAIR, SPECTRUM)), {"confidence": settings.confidence}

    def work(repetition: int) -> Iterator[dict[str, Any]]:
        for (group, places), (name, stereotype) in product(draws[repetition].items(), names.items()):
            at = np.flatnonzero((frame["group"] == name) & (frame["planted"] == group))
            where = {"condition": group, "repetition": repetition, "unit": name, "planted": "perceived gender in four"}
            unplanted = drawn[(frame["group"] == name) & (frame["planted"] == FAIR)]
            in_pool, null = (_shares_of(some) for some in (drawn[at], unplanted))
            counts = looks[at[places]].value_counts().reindex(list(LOOKS), fill_value=0).to_numpy()
            yield from _look_lines(counts, in_pool, null, stereotype, where, {"errors": reading.errors, **how})
            for who, labels in (("by the reader", looks), ("by the record", drawn)):
                yield _score_line(labels[at[places]], (drawn[at], unplanted), stereotype, who, where, **how)

    lines = yield from in_each_repetition(data, work)
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


PEOPLE = "people"
"""The condition that plants something among people who stand together."""
TOGETHER: Mapping[str, tuple[str, str]] = {
    "role": ("order_effect", "of the role"),
    "place": ("order_effect", "of the place"),
    "acting": ("order_effect", "of who acts"),
    "area": ("within_picture_difference", "of the area"),
    "foot": ("within_picture_difference", "of how low they stand"),
    "centre": ("within_picture_difference", "of how near to the middle they stand"),
    "middle": ("within_picture_difference", "of who stands in the middle"),
    "three": ("stereotype_test_score", "of three"),
    "pair": ("stereotype_test_score", "of two of three"),
}
"""Measure and variant of what is planted among people, by its key in the design."""
N_SIGNS = 999  # of the tests of random signs: enough for a level of 5 % after Holm, five times as quick


@settings_class(frozen=True, kw_only=True)
class TogetherOptions(PoolOptions, labelling.LabellingOptions):
    """How often people who stand together are measured, and who labels them."""

    conditions: tuple[str, ...] = setting((FAIR, PEOPLE), "Conditions", "Nothing is planted, and what hangs on whom")


def together_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A pool of pictures of every pair, and of three, in every order: with nothing planted, and with what is."""
    labelling.check_labelling(settings)
    if settings.images:
        raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
    if tuple(settings.options.conditions) != (FAIR, PEOPLE):
        raise InvalidInput(f"conditions are {FAIR}, {PEOPLE}; got {', '.join(settings.options.conditions)}")
    prompts, shots = replace(design, data=read_study("pst")), list[Shot]()
    for (name, group), (place, condition) in product(design.data["groups"].items(), enumerate((FAIR, PEOPLE))):
        others = group.get("instead", ()) if condition == FAIR else ()
        who, n = tuple(others or group["who"]), pool_size(design, settings) // group["orders"]
        of_group = (
            [ordered_shot(prompts, order, n, THREE) for order in permutations(who)]
            if len(who) > 2
            else shots_of_pair((who[0], who[1]), group.get("act", ""), n)
        )
        facts, drawn = {"acting": "", "planted": condition}, PEOPLE if others else condition
        shots += [
            replace(shot, group=name, condition=drawn, first_seed=place * n, facts={**facts, **shot.facts})
            for shot in of_group
        ]
    return shots


def measure_together(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Effects of roles, places, acts and sizes, and the scores of three, in every repetition."""
    groups = design.data["groups"]
    stereotypes = {
        name: looks
        for group in groups.values()
        for who in (group["who"], *([group["instead"]] if "instead" in group else []))
        for name, looks in zip(who, group.get("stereotypes", GENDERS), strict=True)
    }
    everyone = labelling.people_of(data.frame, pd.DataFrame({"stereotyped_gender": stereotypes}))
    people = with_places((yield from labelling.label_people(everyone, design, settings, data)), data)
    if people["truth"].isna().any() or people["area"].isna().all():
        raise InvalidInput("what is drawn must be on record, and people be found: choose calibration-renderer")
    people = people.merge(data.frame[["image_id", "group", "planted"]], on="image_id", validate="many_to_one")
    drawn = _as_recorded(people, data)
    pools, targets = dict[tuple[str, str], Any](), dict[tuple[str, str], dict[str, float]]()
    for name, condition in product(groups, (FAIR, PEOPLE)):
        here, values = ((people["group"] == name) & (people["planted"] == condition)), _values_by_seed
        pools[name, condition] = values(people[here])
        targets[name, condition] = _targets(values(drawn[here]), settings)
    chance = np.random.default_rng(settings.seed)

    def work(repetition: int) -> Iterator[dict[str, Any]]:
        for (name, condition), pool in pools.items():
            seeds = chance.integers(
                len(next(iter(pool.values()))), size=design.images_per_prompt // groups[name]["orders"]
            )
            own = {key: values[seeds] for key, values in pool.items()}
            for key, (estimate, p_value) in _tests(own, replace(settings, seed=repetition)).items():
                is_planted = key.partition(" ")[0] in groups[name]["planted"]
                where = {"condition": condition if is_planted else FAIR, "repetition": repetition}
                where["unit"] = f"{name} {key if is_planted else condition}"
                null = targets[name, FAIR if is_planted else condition][key]
                estimate = replace(estimate, null_value=null)
                yield from _together_lines(key, estimate, p_value, targets[name, condition][key], where)

    lines = yield from in_each_repetition(data, work)
    return results_of(pd.DataFrame(lines), settings, notes=(TEXTS.note("together"),))


def _together_lines(
    key: str, estimate: Estimate, p_value: float, target: float, where: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The interval of a measure, and whether its test, corrected for all that is asked of a picture, claims a bias."""
    measure, variant = TOGETHER[key.partition(" ")[0]]
    yield measured(measure, estimate, target=target, variant=variant, planted="people together", **where)
    if not math.isnan(p_value):
        alone, claims = replace(estimate, low=math.nan, high=math.nan), bool(p_value < 1 - NOMINAL)
        variant = f"{variant}, after Holm"
        yield measured(
            measure, alone, target=math.nan, variant=variant, planted="people together", excluded=claims, **where
        )


def _as_recorded(people: pd.DataFrame, data: StudyData) -> pd.DataFrame:
    """The people as they were drawn: how they look, how large, and where they stand."""
    lines = []
    for truth, position in zip(data.truths(people), people["position"], strict=True):
        boxes = [box for name, box in (truth or {}).items() if name.endswith("_box")]
        boxes = sorted(boxes, key=lambda box: box[0] + box[2]) or [(0, 0, 128, 256), (128, 0, 256, 256)]  # alike
        lines.append(place_of(boxes, position, (256, 256)))
    places = pd.DataFrame(lines, index=people.index, columns=list(SIZES))
    return people.assign(**places, perceived_gender=people["truth"])


def _values_by_seed(people: pd.DataFrame) -> dict[str, np.ndarray]:
    """What the measures take, a row for each seed: two differences of effects, differences within pictures, or people.

    nan where somebody cannot be scored; without what is known of nobody.
    """
    seeds, n = np.unique(people["seed"]), people["position"].nunique()
    pictures = people.drop_duplicates("image_id")
    by_picture = [pictures["seed"], pictures.groupby("seed").cumcount()]
    values = {}
    for key in OF_SO_MANY[n]:
        if people[key].notna().any():
            differences = pictures["image_id"].map(size_differences(people, key)).set_axis(by_picture)
            values[key] = differences.unstack().reindex(seeds).to_numpy()
    if n > 2:
        three = np.array([some.to_dict("records") for _, some in people.groupby("seed")], dtype=object)
        return {"three": three, **values}
    pairs = pictures_of_pairs(people, "perceived_gender")
    keys = ["role", "place", "both", *(["acting"] if (people["acting"] != "").any() else [])]
    effects = {key: differences_by_seed(pairs, key).droplevel("pair").reindex(seeds).to_numpy() for key in keys}
    return effects | values


def _targets(values: Mapping[str, np.ndarray], settings: StudySettings) -> dict[str, float]:
    """What a whole pool shows, of each measure."""
    of_three = _tests_of_three(values["three"], settings) if "three" in values else {}
    return {key: estimate.value for key, (estimate, _) in of_three.items()} | {
        key: float(np.nanmean(some if key in SIZES else some @ (0.5, 0.5 * SIGNS.get(key, -1))))
        for key, some in values.items()
        if key != "three"
    }


def _tests(values: Mapping[str, np.ndarray], settings: StudySettings) -> dict[str, tuple[Estimate, float]]:
    """Each measure of these pictures with its p-value, corrected as the study of the pictures does; nan: no test."""
    how: dict[str, Any] = {"confidence": settings.confidence, "n_resamples": N_SIGNS, "rng": settings.seed}
    tests = {
        key: within_picture_difference(some[~np.isnan(some)], **how)
        if key in SIZES
        else order_effect(*some[~np.isnan(some).any(axis=1)].T, sign=SIGNS.get(key, -1), **how)
        for key, some in values.items()
        if key != "three" and not np.isnan(some).all()
    }
    corrected = corrected_p_values(tests)
    of_three = _tests_of_three(values["three"], settings) if "three" in values else {}
    return of_three | {
        key: (test.estimate, corrected.get(key, math.nan)) for key, test in tests.items() if key in TOGETHER
    }


def _tests_of_three(three: np.ndarray, settings: StudySettings) -> dict[str, tuple[Estimate, float]]:
    """The score of three, and that of every two of them with its p-value."""
    lines = [{**one, "image_id": f"{place} {one['image_id']}"} for place, some in enumerate(three) for one in some]
    people = pd.DataFrame(lines).drop(columns="unit", errors="ignore").assign(truth=None)
    score = stereotype_test_score(people, confidence=settings.confidence, rng=settings.seed)
    pairs = {
        f"pair {one.title}": (one.estimate, math.nan if one.p_value is None else one.p_value)
        for one in pair_findings(people, settings)
    }
    return {"three": (score.confidence_interval, math.nan), **pairs}


PROGRAMS = {
    "validity_people": Program(
        shots=together_shots,
        measure=measure_together,
        ready=labelling.labeller_ready,
        readers=labelling.labelling_readers,
        options=TogetherOptions,
        ahead=nothing_ahead,
    ),
    "validity_pairs": Program(
        shots=pair_repetitions,
        measure=measure_pairs,
        ready=labelling.labeller_ready,
        readers=labelling.labelling_readers,
        options=RepeatedPairOptions,
        ahead=nothing_ahead,
    ),
    "validity_gender": Program(shots=gender_shots, measure=measure_gender, options=GenderOptions, ahead=nothing_ahead),
}
