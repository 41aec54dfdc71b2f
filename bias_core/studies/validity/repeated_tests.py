"""T2IAT's test and the stereotype test score, repeated on new pictures: how often each is right."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from bias_core.metrics.paired_stereotype import stereotype_gap
from bias_core.prompts import fill_template
from bias_core.studies.association.tests import SIDES, TestOptions, chosen_tests, edits_of, run_test, words_of
from bias_core.studies.kit.data import StudyData, nothing_ahead
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.paired import labelling
from bias_core.studies.paired.labelling import SINGLE, PairOptions
from bias_core.studies.paired.occupations import GENDERS, occupation_identities, occupation_pairs, pairs_and_alone
from bias_core.studies.paired.scores import in_setting, labelled_by
from bias_core.studies.validity.summary import (
    RepetitionOptions,
    in_every_condition,
    ladder,
    measured,
    planted_shares,
    repeated,
    results_of,
)

CONCEPT = "a photo of a {}"  # how a planted concept is asked for; it holds for pairs too
LABELS = {"by the reader": "perceived_gender", "by the record": "truth"}


@settings_class(frozen=True, kw_only=True)
class RepeatedTestOptions(RepetitionOptions, TestOptions):
    """Which tests are repeated, and how they are formed."""

    tests: tuple[str, ...] = setting(
        ("science_arts", "career_family", "flowers_insects"), "Tests", "Keys of the tests to repeat"
    )
    n_stimuli: int = setting(9, "Stimuli", "Of each concept", ge=1, le=100)


def test_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: the neutral prompts of each test and their edits."""
    whole = replace(settings, scale=1.0)  # the scale thins the repetitions out, not the test
    once = [
        Shot(prompt=prompt, n=n, group="", facts=facts)
        for test in chosen_tests(design, settings)
        for side in SIDES
        for words in [words_of(design, test[side])]
        for stimulus in thinned(words, min(1.0, settings.options.n_stimuli / len(words)), least=2, seed=settings.seed)
        for kind, prompt, n in edits_of(design, whole, test, side, stimulus)
        for facts in [{"test": test["key"], "side": side, "set": kind, "stimulus": stimulus}]
    ]
    return repeated(in_every_condition(once, settings), settings)


def measure_tests(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """S, its interval and its p-value in every repetition, beside S of all repetitions' pictures."""
    rows = yield from data.embed(data.frame)
    lines = []
    for (test, condition), part in data.frame.groupby(["test", "group"], sort=False):
        together = run_test(part, rows, settings).score
        for repetition, here in part.groupby("repetition"):
            data.check()
            result = run_test(here, rows, settings)
            where: dict[str, Any] = {"unit": str(test), "condition": str(condition), "repetition": int(str(repetition))}
            where |= {"planted": "gender, light", "excluded": result.p_value < 1 - settings.confidence}
            lines.append(measured("differential_association", result.confidence_interval, target=together, **where))
    notes = (
        "Targets: S of the pictures of all repetitions together. False alarms are p-values of the "
        "permutation test below the level.",
        "The prompts are the same in every repetition while the test and the interval count the chance "
        "of new ones, so fewer than 5 % false alarms are to be expected.",
    )
    return results_of(pd.DataFrame(lines), settings, notes=notes)


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
    labelling.check_labelling(settings)
    chosen = _chosen(design, settings)
    alone = [name for gender in GENDERS for name in chosen.data["occupations"][gender]]
    pairs = occupation_pairs(chosen, replace(settings, scale=1.0))
    plain = pairs_and_alone(design, pairs, alone, settings.options.single_images)
    return repeated(in_every_condition(plain, settings), settings)


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
    notes = (
        *labelled_by(people, settings, len(people)),
        "Targets: the score that is planted. Labels by the record are of what was really drawn: what "
        "goes wrong with them is the interval's fault, what goes wrong beyond that the reader's.",
    )
    return results_of(pd.DataFrame(measurements), settings, notes=notes)


def _scores(
    people: pd.DataFrame, repetition: int, condition: str, planted: Sequence[float], settings: StudySettings
) -> Iterator[dict[str, Any]]:
    """Both scores and the gap of one repetition, by the reader's labels and by the record's."""
    pairs, alone = planted
    for who, column in LABELS.items():
        with_labels = people.assign(perceived_gender=people[column])
        both = in_setting(with_labels), in_setting(with_labels, SINGLE)
        scores = stereotype_gap(*both, confidence=settings.confidence, rng=repetition)
        where: dict[str, Any] = {"condition": condition, "repetition": repetition, "planted": "gender"}
        for measure, place, estimate, target in (
            ("stereotype_test_score", "in pairs, ", scores.paired.confidence_interval, pairs),
            ("stereotype_test_score", "alone, ", scores.single.confidence_interval, alone),
            ("stereotype_gap", "", scores.gap, pairs - alone),
        ):
            yield measured(measure, estimate, target=target, variant=f"{place}{who}", **where)


PROGRAMS = {
    "validity_associations": Program(shots=test_repetitions, measure=measure_tests, options=RepeatedTestOptions),
    "validity_pairs": Program(
        shots=pair_repetitions,
        measure=measure_pairs,
        ready=labelling.labeller_ready,
        readers=labelling.labelling_readers,
        options=RepeatedPairOptions,
        ahead=nothing_ahead,
    ),
}
