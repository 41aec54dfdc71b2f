"""Repeated tests of agreement measures on raters with known error rates.

The raters are simulated, so their errors are known; they rate real pictures of the calibration world.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import Coefficient, agreement_estimate, largest_disagreement
from bias_core.measures.arrays import Array
from bias_core.measures.object_bias import missing_things
from bias_core.measures.paired_stereotype import LOOKS
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Shot, StudySettings, get_options
from bias_core.types import ReaderErrors
from bias_core.values import setting, settings_class
from validation.repetitions import POOL, PoolOptions, in_each_repetition, pool_of, pool_size, pools
from validation.verdicts import TEXTS, measured, results_of

CONDITIONS = ("chance", "half", "accurate")
ACCURACY: Mapping[str, float] = dict(zip(CONDITIONS, (0.0, 0.5, 0.9), strict=True))
"""Share of answers that a rater takes from the picture; the others are random."""
MISTAKEN: Mapping[str, float] = dict(zip(CONDITIONS, (0.0, 0.2, 0.5), strict=True))
"""Share of androgynous people called feminine, by raters with the last condition's other errors."""
MISSING: Mapping[str, float] = dict(zip(CONDITIONS, (0.0, 0.2, 0.4), strict=True))
LOOKED = "looks"
N_UNANSWERED = 0.3  # share of the answers that raters leave out, where that is allowed
_BY_LOT = (0.4, 0.3, 0.2, 0.1)  # who does not look says the first look most often; the other of two raters, the last
_JUDGE, _N_KNOWN = (0.9, 0.85), 200  # sensitivity and specificity of a judge, and the answers they are measured on
_FAIR = "fair"  # draws people with the looks that a prompt asks for
_WHO, _THINGS = "raters who err", "things left out"

Codes = NDArray[np.int64]
Pooled = Literal["one", "each"]


@settings_class(frozen=True, kw_only=True)
class RaterOptions(PoolOptions):
    """Options of the repeated tests with simulated raters."""

    conditions: tuple[str, ...] = setting(
        CONDITIONS, "Conditions", "Raters who always, half of the time or rarely guess"
    )


def answer_table(accuracy: float, by_lot: Sequence[float], mistaken: float = 0.0) -> Array:
    """Probability of each answer (column) to each look (row): from the picture, else random; (n_looks, n_looks).

    ``mistaken``: how often a rater who looks calls an androgynous person feminine.
    """
    from_picture = np.eye(len(by_lot))
    of, as_what = LOOKS.index("androgynous"), LOOKS.index("feminine")
    from_picture[of, of], from_picture[of, as_what] = 1 - mistaken, mistaken
    table: Array = accuracy * from_picture + (1 - accuracy) * np.asarray(by_lot)
    return table


def coincidences(shares: Array, raters: Sequence[Array]) -> Array:
    """Probability that two raters give each pair of answers to one picture; (n_answers, n_answers), sum 1."""
    pairs = [(one.T * shares) @ other for one in raters for other in raters if one is not other]
    mean: Array = np.mean(pairs, axis=0)
    return mean


def true_agreement(shares: Array, raters: Sequence[Array], *, marginals: Pooled = "one") -> float:
    """Coefficient of agreement in infinitely many pictures: 1 less observed by expected disagreement.

    Parameters
    ----------
    shares : (n_looks,), of the pictures, sum 1.
    raters : :func:`answer_table` of each rater.
    marginals : one for all raters (Fleiss' κ, Krippendorff's α), or one per rater (Cohen's κ).
    """
    answers = np.array([shares @ table for table in raters])
    mean = answers.mean(axis=0)
    first, second = (answers[0], answers[1]) if marginals == "each" else (mean, mean)
    return float(1 - (1 - np.trace(coincidences(shares, raters))) / (1 - first @ second))


@dataclass(frozen=True, kw_only=True)
class _Agreements:
    """Simulated ratings of single pictures, and their coefficients."""

    shown: Codes  # the look of each picture of the pool
    n: int  # pictures that are rated
    confidence: float

    def lines(self, where: Mapping[str, Any], chance: np.random.Generator) -> Iterator[dict[str, Any]]:
        """Every coefficient of one condition in one repetition, and the pair of answers that raters give most often."""
        accuracy, looks = ACCURACY[where["condition"]], chance.choice(self.shown, self.n)
        alike = [answer_table(accuracy, _BY_LOT) for _ in range(3)]
        two = [answer_table(accuracy, by_lot) for by_lot in (_BY_LOT, _BY_LOT[::-1])]
        answers = _answers(looks, alike, chance).astype(object)
        some = answers.copy()
        some[chance.random(some.shape) < N_UNANSWERED] = None
        kinds: tuple[tuple[Coefficient, Any, list[Array]], ...] = (
            ("krippendorff_alpha", some, alike),
            ("fleiss_kappa", answers, alike),
            ("cohen_kappa", _answers(looks, two, chance), two),
        )
        for name, ratings, raters in kinds:
            estimate = agreement_estimate(ratings, coefficient=name, confidence=self.confidence, rng=chance)
            target = true_agreement(self._shares, raters, marginals="each" if name == "cohen_kappa" else "one")
            yield measured(name, estimate.replace_null_value(0.0), target=target, planted=_WHO, **where)
        yield self._mistaken(looks, where, chance)

    @property
    def _shares(self) -> Array:
        shares: Array = np.bincount(self.shown, minlength=len(LOOKS)) / len(self.shown)
        return shares

    def _mistaken(self, looks: Codes, where: Mapping[str, Any], chance: np.random.Generator) -> dict[str, Any]:
        tables = [answer_table(ACCURACY[CONDITIONS[-1]], _BY_LOT, MISTAKEN[where["condition"]]) for _ in range(3)]
        both = np.triu(coincidences(self._shares, tables), k=1)
        estimate = largest_disagreement(_answers(looks, tables, chance), confidence=self.confidence)
        target = float(both.max() / both.sum())
        return measured("largest_disagreement", estimate, target=target, planted="androgynous for feminine", **where)


def _answers(looks: Codes, raters: Sequence[Array], chance: np.random.Generator) -> Codes:
    """Answer of each rater to each picture, (n_pictures, n_raters)."""
    columns = [
        (chance.random(len(looks))[:, np.newaxis] > table[looks].cumsum(axis=1)[:, :-1]).sum(axis=1) for table in raters
    ]
    return np.stack(columns, axis=1)


def _missing_line(n: int, where: Mapping[str, Any], chance: np.random.Generator, confidence: float) -> dict[str, Any]:
    """Share of missing things, by a judge with errors measured on other pictures."""
    missing, (sensitivity, specificity) = MISSING[where["condition"]], _JUDGE
    rates = [chance.binomial(_N_KNOWN, rate) / _N_KNOWN for rate in _JUDGE]
    errors = ReaderErrors(sensitivity=rates[0], specificity=rates[1], n_positive=_N_KNOWN, n_negative=_N_KNOWN)
    there = chance.random(n) >= missing
    says = chance.random(n) < np.where(there, sensitivity, 1 - specificity)
    estimate = missing_things(says.astype(float), errors=errors, confidence=confidence)
    return measured("missing_things", estimate, target=missing, planted=_THINGS, variant="corrected", **where)


class ValidityRaters(Study):
    """The study of the kind ``validity_raters``."""

    kind = "validity_raters"
    options = RaterOptions
    reads_ahead = False

    def shots(self, settings: StudySettings) -> list[Shot]:
        """A pool of people with four looks."""
        options = get_options(settings, RaterOptions)
        if settings.images:
            raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
        if tuple(options.conditions) != CONDITIONS:
            raise InvalidInput(f"conditions are {', '.join(CONDITIONS)}; got {', '.join(options.conditions)}")
        n = pool_size(self.design, settings)
        return pools(
            settings,
            [
                Shot(prompt=prompt, n=round(share * n), group=LOOKED, condition=_FAIR, facts={"planted": _FAIR})
                for prompt, share in self.design.data[LOOKED].items()
            ],
        )

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Agreement, largest disagreement, and a judge's answers, in every repetition."""
        frame = data.frame.reset_index(drop=True)
        truths = data.truths(frame)
        if None in truths:
            raise InvalidInput("this study needs the ground truth: choose calibration-renderer")
        shown = np.array([LOOKS.index(str(truth["gender"])) for truth in truths if truth is not None])
        n, confidence = self.design.images_per_prompt, settings.confidence
        agreements = [
            _Agreements(shown=shown[frame[POOL] == k], n=n, confidence=confidence)
            for k in range(get_options(settings, RaterOptions).seeds)
        ]

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            for place, condition in enumerate(CONDITIONS):
                chance = np.random.default_rng([settings.seed, repetition, place])
                where = {"condition": condition, "repetition": repetition}
                yield from agreements[pool_of(settings, repetition)].lines(where, chance)
                yield _missing_line(n, where, chance, confidence)

        lines = yield from in_each_repetition(data, work)
        facts = {"n": n, "n_known": _N_KNOWN}
        return results_of(pd.DataFrame(lines), settings, notes=(TEXTS.note("raters", **facts),))
