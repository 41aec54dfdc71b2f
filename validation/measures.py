"""Repeated tests of every measure of one concept's pictures, of their differences, and of T2IAT's test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.alignment import alignment_estimates, text_direction, variance_share
from bias_core.measures.association import association_beyond_even_mix, mean_association
from bias_core.measures.cards import METRICS
from bias_core.measures.composite_association import CompositeAssociation, composite_association, internal_bias
from bias_core.measures.paired_prevalence import (
    PairedTest,
    prevalence_difference_test,
    stereotype_difference_test,
    variety_difference_tests,
)
from bias_core.measures.relative_association import (
    log_amplification_estimate,
    relative_lean_difference_estimate,
    relative_lean_over_encoders,
    text_relative_lean,
)
from bias_core.measures.stereotype import prevalence_estimate, signed_difference_estimate, stereotype_estimate
from bias_core.papers.t2iat.study_tests import SIDES, TestOptions, chosen_tests, get_words, list_edits, run_test
from bias_core.report.arm_comparison import two_shares
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Design, Shot, StudySettings, get_options
from bias_core.types import Estimate
from bias_core.values import setting, settings_class
from bias_core.world.planted import planted_lines
from validation.repetitions import (
    ENOUGH_FOR_TRUTH,
    OWN_NULL,
    RepetitionOptions,
    in_each_repetition,
    ladder,
    planted_shares,
    repeated,
    true_shares,
)
from validation.verdicts import TEXTS, measured, results_of

SETS = ("neutral", "a", "b")  # prompts of a concept: plain, and in the words of A and of B
WORDED = ("neutral_a", "neutral_b")  # pictures of which the own nulls are mixed: of the prompts in words of A and of B
FAIR_SHARE = 0.5  # of masculine people, in the fair world
MEASURES = (
    "attribute_prevalence", "signed_difference", "stereotype_score", "variance_share", "association_beyond_even_mix",
    "relative_lean", "relative_lean_difference", "log_amplification", "weighted_alignment_score", "association",
    "composite_association", "diffusion_bias", "signed_lean_difference", "bias_amplification",
)  # fmt: skip
"""Keys in the table of measures; those of the first three have a planted value."""
Sets = Mapping[str, np.ndarray]


@settings_class(frozen=True, kw_only=True)
class MeasureOptions(RepetitionOptions):
    """Options of the validity study of measures on one concept."""

    attribute_images: int = setting(
        16, "Pictures of each attribute", "Pictures that name each attribute word", ge=2, le=1000
    )


def measures_of(sets: Sets, seed: int) -> dict[str, Estimate]:
    """Every measure on unit rows of pictures and texts; A is the planted side.

    Pictures are ``neutral, a, b, attribute_a, attribute_b``; texts ``sentences`` (of A and B), ``prompt, text_a,
    text_b``, and the prompts worded for A and for B, ``prompt_a, prompt_b``.
    """
    neutral, positive, negative = sets["neutral"], *sets["sentences"]
    share = prevalence_estimate(neutral @ positive, neutral @ negative)
    direction = np.asarray(text_direction(positive, negative))
    estimates = {
        "attribute_prevalence": share,
        "signed_difference": signed_difference_estimate(share, FAIR_SHARE),
        "stereotype_score": stereotype_estimate(share, FAIR_SHARE),
        "weighted_alignment_score": alignment_estimates(neutral, direction[None])[0],
        "variance_share": variance_share(neutral, direction, shows=neutral @ (positive - negative) > 0),
        "association_beyond_even_mix": association_beyond_even_mix(neutral, sets["a"], sets["b"]),
        "relative_lean": _relative_leans(sets)[0],
        **leans_of(sets, seed),
    }
    return {key: estimates[key] for key in MEASURES}


def leans_of(sets: Sets, seed: int) -> dict[str, Estimate]:
    """Measures with a null value on another mixture of pictures than an even one."""
    composite = _composite(sets, seed)
    internal = internal_bias(composite)
    pictures, texts = _relative_leans(sets)
    return {
        "association": mean_association(sets["neutral"], sets["a"], sets["b"]),
        "relative_lean_difference": relative_lean_difference_estimate(pictures, texts),
        "log_amplification": log_amplification_estimate(pictures, texts),
        "composite_association": composite.mcas_interval,
        "diffusion_bias": internal.diffusion_bias,
        "signed_lean_difference": internal.signed_difference,
        "bias_amplification": internal.bias_amplification,
    }


def _relative_leans(sets: Sets) -> tuple[Estimate, float]:
    """Positions of the concept's pictures and text between those worded for A and for B."""
    pictures = ("neutral", "a", "b", "attribute_a", "attribute_b")
    texts = ("prompt", "prompt_a", "prompt_b", "text_a", "text_b")
    return relative_lean_over_encoders([[sets[k] for k in pictures]]), text_relative_lean([[sets[k] for k in texts]])


def _composite(sets: Sets, seed: int, n_resamples: int = 2000) -> CompositeAssociation:
    names = ("neutral", "prompt", "attribute_a", "attribute_b", "text_a", "text_b")
    return composite_association(*(sets[name] for name in names), rng=seed, n_resamples=n_resamples)


def null_distances(sets: Sets) -> dict[str, float]:
    """Distance of pictures from the null of each of :func:`leans_of`: linear in the share of pictures of A."""
    scores = _composite(sets, 0, n_resamples=2)
    from_texts = scores.image_image - scores.text_text
    pictures, texts = _relative_leans(sets)
    return {
        "relative_lean_difference": pictures.value - texts,
        "log_amplification": pictures.value - texts,
        "association": mean_association(sets["neutral"], sets["a"], sets["b"]).value,
        "composite_association": scores.mcas,
        "diffusion_bias": from_texts,
        "signed_lean_difference": from_texts,
        "bias_amplification": scores.image_prompt + scores.image_text - 2 * scores.text_text,
    }


def null_shares(of_a: Mapping[str, float], of_b: Mapping[str, float]) -> dict[str, float]:
    """Share of pictures of A at which each measure has its null value, if some mixture gives it.

    Parameters
    ----------
    of_a, of_b : :func:`null_distances` of pictures of A alone and of B alone.

    >>> null_shares({"association": 0.3, "diffusion_bias": 0.1}, {"association": -0.1, "diffusion_bias": 0.2})
    {'association': 0.25}
    """
    shares = {key: of_b[key] / (of_b[key] - of_a[key]) for key in of_a if of_a[key] != of_b[key]}
    return {key: share for key, share in shares.items() if 0 <= share <= 1}


@dataclass(frozen=True, kw_only=True)
class Concept:
    """A concept of the design with the further inputs of its measures; A is the planted side."""

    name: str
    shares: Mapping[str, float]  # of A, by condition; nan if the model's own rate is unknown
    turned: bool  # A of the design is the side that becomes rarer
    texts: Mapping[str, np.ndarray]

    def sets(self, part: pd.DataFrame, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Unit rows of the texts, and of every set of pictures in a part of the frame."""
        own = part[part["concept"] == self.name]
        sets = {str(kind): rows[some.index] for kind, some in own.groupby("set")} | dict(self.texts)
        if not self.turned:
            return sets
        return {_OTHER.get(name, name): of for name, of in sets.items()} | {"sentences": sets["sentences"][::-1]}


_OTHER = {f"{name}a": f"{name}b" for name in ("", "attribute_", "text_", "neutral_", "prompt_")}
_OTHER |= {b: a for a, b in _OTHER.items()}


def _concept(design: Design, data: Run, concept: Mapping[str, str]) -> Concept:
    planted = planted_shares(tuple(planted_lines()), concept["neutral"])
    turned, shares = planted["extreme"] < planted["fair"], true_shares(data, concept["neutral"])
    texts = {f"text_{side}": data.texts(texts) for side, texts in design.data["text_attributes"].items()}
    texts |= {f"prompt_{side}": data.texts([concept[side]]) for side in ("a", "b")}
    texts |= {"sentences": data.texts(design.data["sentences"]), "prompt": data.texts([concept["neutral"]])}
    return Concept(
        name=concept["name"],
        shares={condition: 1 - share if turned else share for condition, share in shares.items()},
        turned=turned,
        texts=texts,
    )


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """Pictures of all repetitions of a concept, and its measures on them."""

    concept: Concept
    frame: pd.DataFrame
    rows: np.ndarray
    conditions: Sequence[str]

    @cached_property
    def targets(self) -> Mapping[str, Mapping[str, float]]:
        """True value of each measure by condition: the planted one, or that of all pictures together."""
        targets = {}
        for condition in self.conditions:
            together = measures_of(self.concept.sets(self.frame[self.frame["group"] == condition], self.rows), 0)
            share = self.concept.shares[condition]
            planted = dict(zip(MEASURES, (share, share - FAIR_SHARE, _excess(share)), strict=False))
            targets[condition] = {key: estimate.value for key, estimate in together.items()} | planted
        return targets

    @cached_property
    def null_distances(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Null distances of the pictures of A alone, and of B alone."""
        whole = self.concept.sets(self.frame[self.frame["group"] == OWN_NULL], self.rows)
        of_a, of_b = (null_distances(whole | {"neutral": whole[worded]}) for worded in WORDED)
        return of_a, of_b

    @cached_property
    def neutral(self) -> Mapping[tuple[str, int], np.ndarray]:
        """Rows of the plain pictures, by condition and repetition."""
        here = self.frame[(self.frame["concept"] == self.concept.name) & (self.frame["set"] == "neutral")]
        cells = here.groupby(["group", "repetition"])
        return {(str(group), int(str(k))): self.rows[part.index] for (group, k), part in cells}

    def nowhere(self) -> list[str]:
        """Measures that have their null value on no mixture of A and B."""
        return [key for key in self.null_distances[0] if key not in null_shares(*self.null_distances)]

    def sets(self, group: str, repetition: int) -> dict[str, np.ndarray]:
        """Inputs of the measures from the pictures of a group in one repetition."""
        part = self.frame[(self.frame["group"] == group) & (self.frame["repetition"] == repetition)]
        return self.concept.sets(part, self.rows)

    def measured(self, repetition: int) -> Iterator[dict[str, Any]]:
        """Each measure under each condition, with its true value."""
        for condition in self.conditions:
            where: dict[str, Any] = {"unit": self.concept.name, "condition": condition, "repetition": repetition}
            for key, estimate in measures_of(self.sets(condition, repetition), repetition).items():
                yield measured(key, estimate, target=self.targets[condition][key], planted="gender", **where)

    def differences(self, repetition: int) -> Iterator[dict[str, Any]]:
        """Differences of each condition from the first; the first is compared with its own next repetition."""
        concept, first = self.concept, self.conditions[0]
        positive, negative = concept.texts["sentences"][:: -1 if concept.turned else 1]
        direction = np.asarray(text_direction(positive, negative))[None]
        n = 1 + max(k for _, k in self.neutral)
        for condition in self.conditions:
            gain = concept.shares[condition] - concept.shares[first]
            one = self.neutral[first, (repetition + (condition == first)) % n]
            other = self.neutral[condition, repetition]
            lean, other_lean = (side @ (positive - negative) for side in (one, other))
            variety = variety_difference_tests(one, other, direction)[0]
            for key, variant, test, target in (
                ("prevalence_difference", "in pairs", prevalence_difference_test(lean, other_lean), gain),
                ("prevalence_difference", "apart", two_shares(lean > 0, other_lean > 0, 0.95), gain),
                (
                    "stereotype_difference",
                    "in pairs",
                    stereotype_difference_test(lean, other_lean, FAIR_SHARE, rng=repetition),
                    _excess(concept.shares[condition]) - _excess(concept.shares[first]),
                ),
                ("variance_share_difference", "", variety, np.nan),
            ):
                where: dict[str, Any] = {"unit": concept.name, "condition": condition, "repetition": repetition}
                where |= {"variant": variant, "planted": "gender", "target": target}
                yield measured(key, test.estimate, excluded=_rejects(test), **where)

    def under_own_nulls(self, repetition: int) -> Iterator[dict[str, Any]]:
        """Each measure on the mixtures of pictures of A and of B that give its null value."""
        shares, sets = null_shares(*self.null_distances), self.sets(OWN_NULL, repetition)
        where: dict[str, Any] = {"unit": self.concept.name, "condition": OWN_NULL, "repetition": repetition}
        pictures_a, pictures_b = (sets[worded] for worded in WORDED)
        chance = np.random.default_rng(repetition)
        for share in sorted(set(shares.values())):
            n_a = int(chance.binomial(len(pictures_a), share))
            mixture = np.concatenate([pictures_a[:n_a], pictures_b[: len(pictures_b) - n_a]])
            for key, estimate in leans_of(sets | {"neutral": mixture}, repetition).items():
                if shares.get(key) == share:
                    target = float(METRICS[key].null_value or 0.0)
                    yield measured(key, estimate, target=target, planted="gender", **where)


def _excess(share: float) -> float:
    return float(np.maximum(0.0, share - FAIR_SHARE))  # nan stays nan


def _rejects(test: PairedTest) -> bool | None:
    """Return True if p is below the level; None without a test."""
    return None if np.isnan(test.p_value) else test.p_value < 0.05


@settings_class(frozen=True, kw_only=True)
class RepeatedTestOptions(RepetitionOptions, TestOptions):
    """Options of the repeated association tests."""

    tests: tuple[str, ...] = setting(
        ("science_arts", "career_family", "flowers_insects"), "Tests", "Keys of the tests to repeat"
    )
    n_stimuli: int = setting(9, "Stimuli", "Words per concept, drawn anew in every repetition", ge=2, le=100)


class ValidityMeasures(Study):
    """The study of the kind ``validity_measures``."""

    kind = "validity_measures"
    options = MeasureOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Per repetition, condition and concept: its pictures, plain and guided, and those of both attributes.

        Under the own null the plain pictures come from the prompts in words of A and of B, to be mixed.
        """
        n, n_attribute = self.design.images_per_prompt, get_options(settings, MeasureOptions).attribute_images

        def of_cell(group: str, _chance: Random) -> Iterator[Shot]:
            for concept in self.design.data["concepts"]:
                prompts = [("neutral", concept["neutral"], n)]
                if group == OWN_NULL:
                    prompts = [(kind, concept[kind[-1]], n) for kind in WORDED]
                prompts += [(side, concept[side], n_attribute) for side in ("a", "b")]
                prompts += [
                    (f"attribute_{k}", p, n_attribute) for k, p in self.design.data["attribute_pictures"].items()
                ]
                for kind, prompt, count in prompts:
                    yield Shot(prompt=prompt, n=count, group="", facts={"concept": concept["name"], "set": kind})

        return repeated(settings, of_cell, also=(OWN_NULL,))

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Compare the measures of every repetition with the planted value or with all pictures together."""
        rows = yield from data.embed(data.frame)
        concepts = [_concept(self.design, data, concept) for concept in self.design.data["concepts"]]
        pools = [
            _Pool(concept=concept, frame=data.frame, rows=rows, conditions=ladder(settings)) for concept in concepts
        ]

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            for pool in pools:
                yield from pool.measured(repetition)
                yield from pool.differences(repetition)
                yield from pool.under_own_nulls(repetition)

        lines = yield from in_each_repetition(data, work)
        nowhere = [f"{METRICS[key].name} of {pool.concept.name}" for pool in pools for key in pool.nowhere()]
        notes = [TEXTS.note("planted picture measures"), TEXTS.note("own nulls")]
        not_known = any(np.isnan(concept.shares[condition]) for concept in concepts for condition in ladder(settings))
        notes += [TEXTS.note("true rates not known", model=settings.model, n=ENOUGH_FOR_TRUTH)] if not_known else []
        notes += [TEXTS.note("no own null", names="; ".join(nowhere))] if nowhere else []
        table = pd.DataFrame(lines)
        means = table.groupby(["measure", "variant", "unit", "condition"])["value"].transform("mean")
        table["target"] = table["target"].where(table["measure"] != "variance_share_difference", means)
        return results_of(table, settings, notes=notes)


class ValidityAssociations(Study):
    """The study of the kind ``validity_associations``."""

    kind = "validity_associations"
    options = RepeatedTestOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Per repetition and condition: the neutral prompts of each test and their edits, on random words.

        The test and the interval cover new prompts. So every cell draws its words from those of the concept, with
        replacement: a word drawn twice makes two prompts, each with its own pictures.
        """
        whole = replace(settings, scale=1.0)  # the scale thins the repetitions out, not the test
        n_stimuli = get_options(settings, RepeatedTestOptions).n_stimuli

        def of_cell(_group: str, chance: Random) -> Iterator[Shot]:
            for test in chosen_tests(self.design, settings):
                for side in SIDES:
                    words = chance.choices(get_words(self.design, test[side]), k=n_stimuli)
                    for place, word in enumerate(words):
                        facts = {"test": test["key"], "side": side, "word": word, "stimulus": f"{place} {word}"}
                        for kind, prompt, n in list_edits(self.design, whole, test, side, word):
                            yield Shot(prompt=prompt, n=n, group="", facts={**facts, "set": kind})

        return repeated(settings, of_cell)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """S, its interval and its p-value in every repetition, and S of all repetitions' pictures."""
        rows = yield from data.embed(data.frame)
        cells = dict(list(data.frame.groupby(["test", "group"], sort=False)))
        together = {
            key: run_test(part.assign(stimulus=part["word"]), rows, settings).score for key, part in cells.items()
        }

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            for (test, condition), part in cells.items():
                result = run_test(part[part["repetition"] == repetition], rows, settings)
                where: dict[str, Any] = {"unit": str(test), "condition": str(condition), "repetition": repetition}
                where |= {"planted": "gender, light", "excluded": result.p_value < 1 - settings.confidence}
                target = together[test, condition]
                yield measured("differential_association", result.confidence_interval, target=target, **where)

        lines = yield from in_each_repetition(data, work)
        return results_of(
            pd.DataFrame(lines), settings, notes=(TEXTS.note("tests together"), TEXTS.note("new prompts"))
        )
