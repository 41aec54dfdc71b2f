"""Law: an estimate's interval excludes its null value just where its p-value is at most 1 - confidence."""

import math

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import kendall_tau
from bias_core.measures.association import (
    Neutral,
    association_beyond_even_mix,
    association_difference_test,
    association_test,
    mean_association,
)
from bias_core.measures.composite_association import composite_association, internal_bias, summarise_internal_bias
from bias_core.measures.exchange import exchange_effect, part_effects
from bias_core.measures.intersections import crossed_shares, crossed_stereotype, interaction
from bias_core.measures.intervals import (
    difference_interval,
    exact_interval,
    independent_difference,
    jackknife_interval,
    mean_interval,
    normal_estimate,
    percentile_estimate,
    t_interval,
    wilson_interval,
    with_p_through_ends,
    with_value_inside,
)
from bias_core.measures.object_bias import (
    added_objects,
    jaccard_hallucination_estimate,
    miss_rate_estimate,
    missing_objects,
    missing_things,
)
from bias_core.measures.object_comparison import object_odds, variety_change
from bias_core.measures.object_distribution import object_distribution
from bias_core.measures.paired_prevalence import (
    corrected_difference,
    prevalence_difference_test,
    stereotype_difference_test,
    variety_difference_tests,
)
from bias_core.measures.paired_stereotype import order_effect, stereotype_gap, stereotype_test_score
from bias_core.measures.permutation import permutation_test, sign_flip_test
from bias_core.measures.propagation import predicted_gain, spi_band
from bias_core.measures.relative_association import (
    log_amplification_estimate,
    mean_log_amplification,
    mean_relative_lean_difference,
    relative_lean_difference_estimate,
    relative_lean_over_encoders,
)
from bias_core.measures.sequential import against, confidence_sequence, difference_sequence, share_interval
from bias_core.measures.stereotype import (
    prevalence_estimate,
    remaining_gap_estimate,
    signed_difference_estimate,
    stereotype_estimate,
)
from bias_core.measures.two_phase import stratified_mean, two_phase_estimate, two_phase_shares
from bias_core.types import Estimate, ReaderErrors
from tests.every import every

ERRORS = ReaderErrors(sensitivity=0.93, specificity=0.86, n_positive=60, n_negative=45)
WORDS = np.array(["cup", "dog", "man", "sign", "tree"])


class Draw:
    """Random inputs of ``n`` units with an effect of some size, or inputs that do not vary."""

    def __init__(self, seed: int, n: int, confidence: float) -> None:
        self.rng, self.n, self.confidence = np.random.default_rng(seed), n, confidence
        self.effect = float(self.rng.choice([0.0, 0.5, 1.5]))
        self.is_constant = self.rng.random() < 0.1
        self.how = {"confidence": confidence}

    def values(self, n=None, shift=None):
        n = self.n if n is None else n
        noise = np.zeros(n) if self.is_constant else self.rng.normal(size=n)
        return noise + (self.effect if shift is None else shift)

    def margins(self, *shape):
        shape = shape or (self.n,)
        return np.clip(self.values(int(np.prod(shape))).reshape(shape), -2, 2)

    def shares(self, n=None):
        return 1 / (1 + np.exp(-self.values(n)))

    def hits(self, n=None):
        return (self.shares(n) > self.rng.random()).astype(float)

    def rows(self, n, lean=0.0, d=7):
        rows = np.zeros((n, d)) if self.is_constant else self.rng.normal(size=(n, d))
        return rows + np.eye(d)[0] * (2 + lean) + np.eye(d)[1] * lean

    def words(self):
        chance = self.rng.uniform(0, 0.7, len(WORDS))
        return [set(WORDS[self.rng.random(len(WORDS)) < chance]) for _ in range(self.n)]

    def labels(self, setting, people):
        """People of pictures; each has its role's look, the other, neither, or none that can be told."""
        looks = ["masculine", "feminine", "androgynous", "unclear"]
        chances = self.rng.dirichlet([4, 2, self.rng.choice([1e-3, 0.5]), self.rng.choice([1e-3, 0.5])])
        rows = [
            (f"i{i}", f"role {j}", ["masculine", "feminine"][j % 2], self.rng.choice(looks, p=chances))
            for i in range(self.n)
            for j in range(people)
        ]
        frame = pd.DataFrame(rows, columns=["image_id", "identity", "stereotyped_gender", "perceived_gender"])
        return frame.assign(setting=setting)


def of_intervals(draw):
    x, y, how = draw.values(), draw.values(max(1, draw.n // 2), 0.0), draw.how
    null = float(draw.rng.choice([0.0, 0.3, 0.5, 1.0]))
    k, m = (int(draw.rng.integers(0, size + 1)) for size in (draw.n, len(y)))
    resampled = draw.rng.choice(x, (1999, draw.n)).mean(axis=1)
    yield mean_interval(x, null_value=null, **how)
    yield mean_interval(x, y, null_value=null, **how)
    yield stratified_mean(x, list("ab" * draw.n)[: draw.n], null_value=0.0, **how)
    yield t_interval(float(x.mean()), float(x.std()), draw.n, n=draw.n, null_value=null, **how)
    yield normal_estimate(float(x.mean()), float(x.std()), n=draw.n, null_value=null, **how)
    yield percentile_estimate(float(x.mean()), resampled, n=draw.n, null_value=null, **how)
    yield percentile_estimate(float(x.mean()), resampled.round(1), n=draw.n, null_value=0.0, **how)
    yield percentile_estimate(0.0, np.minimum(resampled - 1.5, 0.0), n=draw.n, null_value=0.0, **how)
    yield sign_flip_test(x, **how)
    yield sign_flip_test(x, draw.shares() + 0.1, **how)
    yield sign_flip_test(draw.hits() - draw.hits() / 2, **how)
    yield exact_interval(k, draw.n, null_value=null, **how)
    yield wilson_interval(k, draw.n, null_value=null, **how)
    yield confidence_sequence(k, draw.n, null_value=null, **how)
    yield share_interval(k * 0.9, draw.n, null_value=null, **how)
    yield from confidence_sequence([k, k + 3], [draw.n, draw.n + 5], null_value=null, **how)
    yield against(exact_interval(k, draw.n, **how), null, draw.confidence)
    yield against(confidence_sequence(k, draw.n, **how), null, draw.confidence)
    yield difference_sequence(draw.hits(), draw.hits(), **how)
    yield difference_interval(k, int(draw.rng.integers(0, draw.n - k + 1)), draw.n, **how)
    yield independent_difference(m, len(y), k, draw.n, **how)
    ends = np.sort(draw.values(3))
    joined = Estimate(value=ends[1], low=ends[0], high=ends[2], n=draw.n, null_value=float(draw.rng.choice(ends)))
    yield with_p_through_ends(joined, draw.confidence)
    yield with_p_through_ends(joined.replace_null_value(null), draw.confidence)
    outside = Estimate(value=0.0, low=0.1, high=0.2, n=draw.n, null_value=0.05, p_value=1e-4)
    yield with_value_inside(outside, draw.confidence)
    if draw.n > 1:
        yield jackknife_interval(lambda kept: float(x[kept].mean()), draw.n, null_value=0.0, **how)
    for alternative in ("two-sided", "greater", "less"):
        yield permutation_test(x, y, alternative=alternative, n_permutations=400, **how).estimate


def of_stereotypes(draw):
    share, reference = draw.margins(), float(draw.rng.choice([0.23, 0.5]))
    for fixed_n in (True, False):
        prevalence = prevalence_estimate(share, share * 0, reference=reference, fixed_n=fixed_n, **draw.how)
        baseline = exact_interval(round(0.97 * 80), 80, null_value=reference, **draw.how)
        yield prevalence
        yield signed_difference_estimate(prevalence, reference)
        yield stereotype_estimate(prevalence, reference)
        yield remaining_gap_estimate(prevalence, baseline, reference)


def of_pairs(draw):
    first, second = draw.margins(), draw.margins()
    difference = prevalence_difference_test(first, second, **draw.how).estimate
    yield difference
    yield corrected_difference(difference, ERRORS, **draw.how)
    yield stereotype_difference_test(first, second, 0.4, **draw.how).estimate
    yield stereotype_difference_test(first, second, 0.4, errors=ERRORS, **draw.how).estimate
    images = draw.rows(draw.n), draw.rows(draw.n, draw.effect)
    yield from (test.estimate for test in variety_difference_tests(*images, np.eye(7)[:2], **draw.how))
    exchanged = draw.margins(draw.n, 3)
    yield from exchange_effect(first, exchanged, **draw.how).effects
    yield from vars(part_effects(first, second, draw.margins(), draw.margins(), **draw.how)).values()
    gain = predicted_gain(draw.margins(draw.n, 3), exchanged, **draw.how)
    yield from (*gain.steps, gain.whole)
    yield from spi_band(np.tanh(draw.values(draw.n * 4)).reshape(draw.n, 4), **draw.how)
    if draw.n > 1:
        yield kendall_tau(first, first * draw.effect + draw.rng.normal(size=draw.n), n_resamples=200, **draw.how).tau


def of_people(draw):
    for people in (1, 2, 3):
        for fixed_n in (True, False):
            paired = draw.labels("paired", people)
            yield stereotype_test_score(paired, fixed_n=fixed_n, n_resamples=500, **draw.how).confidence_interval
            yield stereotype_gap(paired, draw.labels("single", 1), fixed_n=fixed_n, n_resamples=500, **draw.how).gap
    places = draw.hits(2 * draw.n).reshape(2, -1) - draw.hits(2 * draw.n).reshape(2, -1)
    yield order_effect(*places, **draw.how).estimate


def of_combinations(draw):
    for k in (2, 3):
        readings = np.column_stack([draw.hits() for _ in range(k)])
        readings[:, 1] = np.where(draw.rng.random(draw.n) < 0.5 * draw.effect, readings[:, 0], readings[:, 1])
        prompts = list("ab" * draw.n)[: draw.n]
        for errors in (None, [ERRORS, *[None] * (k - 1)], [ERRORS] * k):
            for strata in (None, prompts):
                how = {"errors": errors, "strata": strata, **draw.how}
                yield from crossed_shares(readings, **how).excess
                yield interaction(readings, **how).estimate
                crossed = crossed_stereotype(readings, **how)
                yield from (crossed.overall, *crossed.scores)


def of_objects(draw):
    ours, theirs = draw.words(), draw.words()
    for paired in (True, False):
        yield from (line.log_odds for line in object_odds(ours, theirs, paired=paired, **draw.how).objects)
    yield variety_change(ours, theirs, **draw.how).log_ratio
    yield jaccard_hallucination_estimate(ours, theirs, **draw.how)
    for fixed_n in (True, False):
        yield miss_rate_estimate(draw.shares(), fixed_n=fixed_n, **draw.how)
    yield missing_things(draw.shares(), **draw.how)
    yield missing_things(draw.shares(), errors=ERRORS, **draw.how)
    base = draw.words()
    yield added_objects(ours, theirs, base, **draw.how)
    yield missing_objects(ours, theirs, base, **draw.how)
    distribution = object_distribution(ours, **draw.how)
    yield from (number for number in vars(distribution).values() if isinstance(number, Estimate))


def of_embeddings(draw):
    n, lean = draw.n, draw.effect
    x, y, a, b = draw.rows(n, lean / 2), draw.rows(n), draw.rows(n, 1), draw.rows(n, -1)
    prompts = [f"p{i // 2}" for i in range(n)]
    yield mean_association(x, a, b, **draw.how)
    yield mean_association(x, a, b, attributes="fixed", **draw.how)
    yield mean_association(x, a, b, groups=prompts, attribute_groups=[prompts] * 2, **draw.how)
    yield association_beyond_even_mix(x, a, b, **draw.how)
    sides = [Neutral(targets=targets, attributes_a=a, attributes_b=b) for targets in (y, x)]
    yield association_difference_test(*sides, **draw.how).estimate
    yield association_test(x, y, a, b, a, b, n_permutations=400, **draw.how).estimate
    texts = draw.rng.normal(size=(3, 1, 7))
    composite = composite_association(x, texts[0], a, b, texts[1], texts[2], **draw.how)
    yield from (value for value in vars(composite).values() if isinstance(value, Estimate))
    internal = internal_bias(composite, minimum_text_text=0.0, **draw.how)
    yield from (value for value in vars(internal).values() if isinstance(value, Estimate))
    summary = summarise_internal_bias(np.abs(draw.values()), np.abs(draw.values(shift=1.0)), **draw.how)
    yield from (summary.diffusion_bias, summary.bias_amplification)
    pictures = relative_lean_over_encoders([[x, a, b, draw.rows(n, 1), draw.rows(n, -1)]], **draw.how)
    yield pictures
    for r in draw.rng.uniform(-1, 1, 3):
        yield relative_lean_difference_estimate(pictures, r, **draw.how)
        yield log_amplification_estimate(pictures, r, **draw.how)
    places = draw.values() + 0.5, draw.rng.uniform(-1, 1, n)
    yield mean_log_amplification(*places, **draw.how)
    yield mean_relative_lean_difference(*places, **draw.how)


def of_two_phases(draw):
    n = draw.n + 1
    reader, people = draw.hits(4 * n), np.full(4 * n, np.nan)
    people[:n] = np.where(draw.rng.random(n) < 0.8, reader[:n], 1 - reader[:n])
    shares = two_phase_shares(reader, people, rng=draw.rng)
    for null in (0.0, 0.5, float(draw.rng.random())):
        yield two_phase_estimate(lambda of: of[..., 1], shares, null_value=null, **draw.how)
        yield two_phase_estimate(
            lambda of, null=null: np.maximum(of[..., 1] - null, 0), shares, null_value=0.0, **draw.how
        )


BUILDERS = (
    of_intervals, of_stereotypes, of_pairs, of_people, of_combinations, of_objects, of_embeddings, of_two_phases,
)  # fmt: skip


def is_lawful(estimate, confidence):
    """True if an estimate's interval and p-value say the same about its null value, or there is none."""
    if estimate.null_value is None:
        return math.isnan(estimate.p_value)
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return True
    if abs(estimate.p_value - (1 - confidence)) < 1e-9:  # then the null value is the end itself, up to rounding
        return True
    excludes = not estimate.low <= estimate.null_value <= estimate.high
    return (
        estimate.low <= estimate.value <= estimate.high
        and 0 <= estimate.p_value <= 1
        and excludes == (estimate.p_value <= 1 - confidence + 1e-12)
    )


def estimates_of(builder, seed, n, confidence):
    """Yield what a builder makes of inputs of one size, up to a refusal of degenerate input."""
    try:
        yield from builder(Draw(seed, n, confidence))
    except InvalidInput:
        return


@every(BUILDERS)
def test_an_interval_excludes_the_null_value_just_where_p_is_small(builder):
    offenders = {
        f"number {place}, {estimate.method}": (n, confidence, seed, estimate)
        for n in (1, 2, 3, 6, 9, 11, 17, 40)
        for confidence in (0.8, 0.95, 0.99)
        for seed in range(2)
        for place, estimate in enumerate(estimates_of(builder, seed, n, confidence))
        if not is_lawful(estimate, confidence)
    }
    assert not offenders, f"{builder.__name__}: {offenders}"
