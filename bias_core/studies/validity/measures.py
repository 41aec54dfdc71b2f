"""Every way of measuring repeated on new pictures: coverage, false alarms, and their rise.

Picture measures, TBYB's measures, T2IAT's test and the stereotype test score.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.alignment import alignment_estimates, spread_estimates, text_direction
from bias_core.metrics.association import mean_association
from bias_core.metrics.association_null import association_beyond_even_mix
from bias_core.metrics.composite_association import composite_association, internal_bias
from bias_core.metrics.paired_stereotype import stereotype_gap
from bias_core.metrics.stereotype import prevalence_estimate, signed_difference_estimate, stereotype_estimate
from bias_core.prompts import fill_template
from bias_core.studies.association.tests import SETS, SIDES, TestOptions, chosen_tests, edits_of, run_test, words_of
from bias_core.studies.kit.program import Measuring, Program, StudyData, encoder_of, nothing_ahead
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings
from bias_core.studies.objects import captions
from bias_core.studies.paired import labelling
from bias_core.studies.paired.labelling import SINGLE, PairOptions
from bias_core.studies.paired.pairs import GENDERS, occupation_identities, occupation_pairs, pairs_and_alone
from bias_core.studies.paired.scores import in_setting, labelled_by
from bias_core.studies.validity import summary
from bias_core.studies.validity.summary import TEXTS
from bias_core.types import Estimate

CONCEPT = "a photo of a {}"  # how a planted concept is asked for; it holds for pairs too
LABELS = {"by the reader": "perceived_gender", "by the record": "truth"}


@settings_class(frozen=True, kw_only=True)
class MeasureOptions(summary.RepetitionOptions):
    """Of the validity of measures on one concept."""

    attribute_images: int = setting(
        16, "Pictures of each attribute", "Guided to each word of the association", ge=2, le=1000
    )


def measure_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: pictures of each concept, plain and guided, and of the two attributes."""
    n, n_attribute = design.images_per_prompt, settings.options.attribute_images
    prompts = [(c["name"], kind, c[kind]) for c in design.data["concepts"] for kind in SETS]
    prompts += [("attribute", kind, prompt) for kind, prompt in design.data["attribute_pictures"].items()]
    once = [
        Shot(prompt=prompt, n=n if kind == "neutral" else n_attribute, group="", facts={"concept": of, "set": kind})
        for of, kind, prompt in prompts
    ]
    return summary.repeated(summary.in_every_condition(once, settings), settings)


FAIR_SHARE = 0.5  # of masculine people, in the fair world
MEASURES = (
    "attribute_prevalence", "stereotype_score", "signed_difference", "weighted_alignment_score", "spread_along",
    "association", "association_beyond_even_mix", "composite_association", "diffusion_bias", "signed_lean_difference",
    "bias_amplification",
)  # fmt: skip
"""Keys in the table of measures; those of the first three have a planted value."""


def measures_of(sets: Mapping[str, np.ndarray], seed: int) -> dict[str, Estimate]:
    """Every measure on unit rows of pictures and texts; A is what is planted.

    Pictures are ``neutral, a, b, attribute_a, attribute_b``; texts ``sentences`` (of A and B), ``prompt, text_a,
    text_b``.
    """
    neutral, positive, negative = sets["neutral"], *sets["sentences"]
    share = prevalence_estimate(neutral @ positive, neutral @ negative)
    direction = np.asarray(text_direction(positive, negative))[None]
    composite = composite_association(
        neutral, *(sets[name] for name in ("prompt", "attribute_a", "attribute_b", "text_a", "text_b")), rng=seed
    )
    internal = internal_bias(composite)
    estimates = (
        share,
        stereotype_estimate(share, FAIR_SHARE),
        signed_difference_estimate(share, FAIR_SHARE),
        alignment_estimates(neutral, direction, rng=seed)[0],
        spread_estimates(neutral, direction, rng=seed)[0],
        mean_association(neutral, sets["a"], sets["b"], rng=seed),
        association_beyond_even_mix(neutral, sets["a"], sets["b"]),
        composite.mcas_interval,
        internal.diffusion_bias,
        internal.signed_difference,
        internal.bias_amplification,
    )
    return dict(zip(MEASURES, estimates, strict=True))


def measure_repeatedly(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The measures of every repetition, against what is planted or all its pictures together."""
    rows = yield from data.embed(data.frame)
    lines: list[dict[str, Any]] = []
    for condition in summary.ladder(settings):
        for concept in design.data["concepts"]:
            data.check()
            lines += _repeated(design, data, data.frame[data.frame["group"] == condition], rows, concept)
    return summary.results_of(
        pd.DataFrame(lines), settings, notes=(TEXTS.note("planted picture measures"), TEXTS.note("as the texts lean"))
    )


def _repeated(
    design: Design, data: StudyData, frame: pd.DataFrame, rows: np.ndarray, concept: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Each measure on each repetition's pictures of a concept, beside what it should read."""
    condition = str(frame["group"].iloc[0])
    shares = summary.planted_shares(data.services.planted_lines(), concept["neutral"])
    turned = shares["extreme"] < shares["fair"]
    share = 1 - shares[condition] if turned else shares[condition]
    words = {f"text_{side}": data.texts(texts) for side, texts in design.data["text_attributes"].items()}
    words |= {"sentences": data.texts(design.data["sentences"]), "prompt": data.texts([concept["neutral"]])}

    def measures(part: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        own, attribute = part[part["concept"] == concept["name"]], part[part["concept"] == "attribute"]
        sets = {kind: rows[own.index[own["set"] == kind]] for kind in SETS} | words
        sets |= {f"attribute_{k}": rows[attribute.index[attribute["set"] == k]] for k in ("a", "b")}
        if turned:  # A in place of B, and B in place of A
            sets = {_OTHER.get(name, name): of for name, of in sets.items()} | {"sentences": words["sentences"][::-1]}
        return measures_of(sets, seed)

    targets = {key: estimate.value for key, estimate in measures(frame, 0).items()}
    targets |= dict(zip(MEASURES, (share, max(0.0, share - FAIR_SHARE), share - FAIR_SHARE), strict=False))
    for repetition, part in frame.groupby("repetition"):
        where: dict[str, Any] = {"unit": concept["name"], "condition": condition, "repetition": int(str(repetition))}
        for key, estimate in measures(part, where["repetition"]).items():
            yield summary.measured(key, estimate, target=targets[key], planted="gender", **where)


_OTHER = {"a": "b", "attribute_a": "attribute_b", "text_a": "text_b"}
_OTHER |= {b: a for a, b in _OTHER.items()}


RECORD = "record"  # value of the option captioner: say what was really drawn, so that no captioner's error plays a part
OBJECT, GENDER = "an object", "gender"
HALF = "half"  # of the pictures are of the first condition, and half of the last
_VARIANTS = {f"miss {captions.BLANK}": "against a blank", f"miss {captions.STRONGER}": "against another prompt"}
_LEANING_TO_MEN = (
    "carpenter", "mechanician", "construction worker", "laborer", "driver", "sheriff", "mover", "developer",
    "farmer", "guard", "chief", "janitor", "lawyer", "cook", "physician", "ceo", "analyst", "manager",
    "supervisor", "salesperson",
)  # fmt: skip


@settings_class(frozen=True, kw_only=True)
class RepeatedObjectOptions(summary.RepetitionOptions, captions.CaptioningOptions):
    """What is drawn and described, again and again."""

    trigger_images: int = setting(
        2, "Pictures of each scene", "Half of them show the object in the middle condition, so an even number",
        ge=1, le=1000,
    )  # fmt: skip
    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for each occupation")
    occupations: tuple[str, ...] = setting(_LEANING_TO_MEN, "Occupations", "That are all planted to lean to men")
    captioner: str = setting(
        "record", "Captioner", "record: what was really drawn; or a captioner by name, whose errors then play a part"
    )


def object_repetitions(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: scenes with a trigger word, and occupations that all lean to men."""
    prompts = [fill_template(settings.options.template, str(name)) for name in settings.options.occupations]
    n, facts = design.images_per_prompt, {"planted": GENDER}
    people = summary.in_every_condition(
        (Shot(prompt=prompt, n=n, group="", facts=facts) for prompt in prompts), settings
    )
    return summary.repeated([*_triggered(design, settings), *people], settings)


def _triggered(design: Design, settings: StudySettings) -> Iterator[Shot]:
    """An object is planted in none, in half and in all of these; there is no published rate of it."""
    first, *_, last = summary.ladder(settings)
    n = 2 * max(1, settings.options.trigger_images // 2)
    for prompts in design.data["task_oriented"]["triggers"].values():
        for prompt in prompts:
            whole = Shot(prompt=prompt, n=n, group=first, condition=first, facts={"planted": OBJECT})
            mixed = replace(whole, n=n // 2, group=HALF)
            yield from (whole, mixed, replace(mixed, condition=last, first_seed=n // 2))
            yield replace(whole, group=last, condition=last)


def reading_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """The encoder, and the captioner where one is asked for."""
    return encoder_of(settings) if settings.options.captioner == RECORD else captions.captioning_readers(settings)


def reader_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the captioner where one is asked for."""
    if settings.options.captioner != RECORD:
        captions.captioner_ready(settings, services)


def measure_objects(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """B_D and its companions, H_J and M_G in every repetition; B_D only where it is defined."""
    exact = settings.options.captioner == RECORD
    reading = yield from captions.read_pictures(settings, data, data.services.recorder() if exact else None)
    first, *_, last = summary.ladder(settings)
    lines = []
    for planted, conditions in {OBJECT: (first, HALF, last), GENDER: summary.ladder(settings)}.items():
        for condition in conditions:
            data.check()
            here = data.frame[(data.frame["planted"] == planted) & (data.frame["group"] == condition)]
            for repetition, part in here.groupby("repetition", sort=False):
                where: dict[str, Any] = {"condition": condition, "repetition": int(str(repetition)), "planted": planted}
                for key, estimate in captions.score(reading.loc[part.index], settings).estimates.items():
                    where |= {"target": np.nan, "variant": _VARIANTS.get(key, "")}
                    lines.append(summary.measured(captions.MEASURES[key].metric, estimate, **where))
    table = pd.DataFrame(lines)
    table["target"] = table.groupby(["planted", "condition", "measure", "variant"])["value"].transform("mean")
    captions_by = TEXTS.note("exact captions" if exact else "captioner", name=settings.options.captioner)
    return summary.results_of(
        table, settings, notes=(captions_by, TEXTS.note("means of repetitions"), TEXTS.note("half"))
    )


@settings_class(frozen=True, kw_only=True)
class RepeatedTestOptions(summary.RepetitionOptions, TestOptions):
    """Which tests are summary.repeated, and how they are formed."""

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
    return summary.repeated(summary.in_every_condition(once, settings), settings)


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
            lines.append(
                summary.measured("differential_association", result.confidence_interval, target=together, **where)
            )
    return summary.results_of(
        pd.DataFrame(lines), settings, notes=(TEXTS.note("tests together"), TEXTS.note("same prompts"))
    )


@settings_class(frozen=True, kw_only=True)
class RepeatedPairOptions(summary.RepetitionOptions, PairOptions):
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
    """Per repetition and condition: the occupations in pairs of both orders, and each alone."""
    labelling.check_labelling(settings)
    chosen = _chosen(design, settings)
    alone = [name for gender in GENDERS for name in chosen.data["occupations"][gender]]
    plain = pairs_and_alone(
        design, occupation_pairs(chosen, replace(settings, scale=1.0)), alone, settings.options.single_images
    )
    return summary.repeated(summary.in_every_condition(plain, settings), settings)


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
    for condition in summary.ladder(settings):
        planted = []  # of pairs, of single people: the mean share that conforms minus the share that does not
        for template in (CONCEPT, design.data["settings"][SINGLE]["template"]):
            shares = [
                summary.planted_shares(lines, fill_template(template, str(name)))[condition]
                for name in identities.index
            ]
            signs = identities["stereotyped_gender"].map({"masculine": 1, "feminine": -1})
            planted.append(
                100 * sum((2 * share - 1) * sign for share, sign in zip(shares, signs, strict=True)) / len(signs)
            )
        for repetition, part in people[people["group"] == condition].groupby("repetition"):
            data.check()
            measurements += list(_scores(part, int(str(repetition)), condition, planted, settings))
    notes = *labelled_by(people, settings, len(people)), TEXTS.note("planted scores")
    return summary.results_of(pd.DataFrame(measurements), settings, notes=notes)


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
            yield summary.measured(measure, estimate, target=target, variant=f"{place}{who}", **where)


PROGRAMS = {
    "validity_measures": Program(shots=measure_shots, measure=measure_repeatedly, options=MeasureOptions),
    "validity_objects": Program(
        shots=object_repetitions,
        measure=measure_objects,
        ready=reader_ready,
        readers=reading_readers,
        options=RepeatedObjectOptions,
    ),
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
