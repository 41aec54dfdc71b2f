"""OASIS's prevalence and stereotype score against hand counts and the paper's Table 1."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.stereotype import (
    asked_kept_estimate,
    attribute_prevalence,
    count_ties,
    prevalence_estimate,
    refused_share,
    remaining_gap,
    remaining_gap_estimate,
    signed_difference,
    signed_difference_estimate,
    stereotype_estimate,
    stereotype_score,
)
from bias_core.types import Estimate
from tests.every import every

# [dehdashtian2025oasis, Table 1], in %: P*, then P and Ψ for SDv2, SDv3, FLUX.1.
TABLE_1 = {
    ("Iranian", "Man"): (50, (98, 48), (99.8, 49.8), (83.6, 33.6)),
    ("Iranian", "Wearing Turban"): (0.2, (27.3, 27.1), (69, 68.8), (38.2, 38)),
    ("Iranian", "Old"): (40, (93.2, 53.2), (87, 47), (66.5, 26.5)),
    ("Iranian", "Traditional Cloths"): (50, (96.2, 46.2), (94.1, 44.1), (56.1, 6.1)),
    ("Iranian", "Beard"): (34, (96.6, 62.6), (99.7, 65.7), (83.5, 49.5)),
    ("Indian", "Man"): (51, (78.5, 27.5), (78.1, 27.1), (31.6, 0)),
    ("Indian", "Turban"): (2, (2.2, 0.2), (0.9, 0), (0.1, 0)),
    ("Indian", "Mustache"): (25, (17.7, 0), (12.4, 0), (25.9, 0.9)),
    ("Indian", "Tilak/Bindi"): (50, (61.7, 11.7), (59.3, 9.3), (86.7, 36.7)),
    ("Indian", "VibrantColorCloths"): (50, (41.5, 0), (58.3, 8.3), (53.8, 3.8)),
    ("Mexican", "Man"): (48, (95.1, 47.1), (85, 37), (50.1, 2.1)),
    ("Mexican", "Hat"): (50, (77.3, 22.3), (49.2, 0), (94.4, 44.4)),
    ("Mexican", "Sombrero"): (50, (56.6, 6.6), (17.6, 0), (58.6, 8.6)),
    ("Mexican", "Mustache"): (25, (77.8, 52.8), (34.1, 9.1), (84.7, 59.7)),
    ("Mexican", "Embroidered Clothing"): (50, (82.6, 32.6), (45.9, 0), (94.2, 44.2)),
}
MODELS = ("SDv2", "SDv3", "FLUX.1")
MISPRINTS = {("Mexican", "Hat", "SDv2"): 27.3}  # printed 22.3; 77.3 - 50 = 27.3
CELLS = [
    (*row, model, reference, prevalence, MISPRINTS.get((*row, model), printed))
    for row, (reference, *cells) in TABLE_1.items()
    for model, (prevalence, printed) in zip(MODELS, cells, strict=True)
]


assert len(CELLS) == 45


@every(CELLS)
def test_the_published_scores_come_out(*cell):
    *_, reference, prevalence, score = cell
    assert 100 * stereotype_score(prevalence / 100, reference / 100) == pytest.approx(score, abs=1e-9)


def test_prevalence_by_hand_with_a_tie_read_as_absent():
    # 0.31 > 0.24 yes, 0.28 > 0.30 no, 0.25 > 0.25 no (tie), 0.30 > 0.22 yes, 0.27 > 0.26 yes: 3 of 5.
    positive, negative = [0.31, 0.28, 0.25, 0.30, 0.27], [0.24, 0.30, 0.25, 0.22, 0.26]
    assert attribute_prevalence(positive, negative) == 0.6
    assert count_ties(positive, negative) == 1
    assert "1 of 5 images are ties" in prevalence_estimate(positive, negative).note


def test_swapping_the_sentences_gives_the_rest():
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(size=(2, 11))
    assert attribute_prevalence(positive, negative) + attribute_prevalence(negative, positive) == 1


def test_the_reference_becomes_the_null():
    assert prevalence_estimate([0.3], [0.2], reference=0.25).null_value == 0.25


def test_the_interval_moves_with_the_reference_and_is_cut_at_zero():
    # P = 5/7, reference 0.6: difference 0.1143. The exact interval of 5 of 7 is (0.341261, 0.946625).
    prevalence = prevalence_estimate([1.0] * 5 + [0.0] * 2, [0.5] * 7)
    signed = signed_difference_estimate(prevalence, 0.6)
    assert signed.value == pytest.approx(5 / 7 - 0.6)
    assert signed.low == pytest.approx(0.341261 - 0.6, abs=1e-5)
    assert signed.high == pytest.approx(0.946625 - 0.6, abs=1e-5)
    score = stereotype_estimate(prevalence, 0.6)
    assert (score.value, score.low, score.high) == (signed.value, 0, signed.high)
    assert (score.n, score.null_value) == (7, 0.0)


def test_under_representation_shows_in_the_signed_difference_only():
    assert stereotype_score(0.1, 0.4) == 0
    assert signed_difference(0.1, 0.4) == pytest.approx(-0.3)


def test_an_interval_that_does_not_exist_stays_so():
    unknown = Estimate(value=0.5, low=math.nan, high=math.nan, n=1)
    assert math.isnan(stereotype_estimate(unknown, 0.2).low)


@pytest.mark.parametrize(
    ("positive", "negative"), [([], []), ([0.1, 0.2], [0.1]), ([math.nan], [0.1]), ([[0.1]], [[0.2]])]
)
def test_bad_similarities_are_refused(positive, negative):
    for function in (attribute_prevalence, prevalence_estimate, count_ties):
        with pytest.raises(InvalidInput, match=r"similarity|lengths"):
            function(positive, negative)


@pytest.mark.parametrize(("prevalence", "reference"), [(50, 0.5), (0.5, 50), (math.nan, 0.5), (-0.1, 0.5)])
def test_percent_and_nan_are_refused(prevalence, reference):
    for function in (stereotype_score, signed_difference):
        with pytest.raises(InvalidInput, match="must be from 0 to 1"):
            function(prevalence, reference)
    with pytest.raises(InvalidInput, match="must be from 0 to 1"):
        stereotype_estimate(Estimate(value=prevalence, low=0, high=1, n=3), reference)


def test_what_is_left_is_told_on_the_side_of_the_baseline():
    # above P*: 0.7 - 0.5; below P*: -(0.3 - 0.5); past P* on either side: below 0
    assert remaining_gap(0.7, 0.9, 0.5) == pytest.approx(0.2)
    assert remaining_gap(0.3, 0.1, 0.5) == pytest.approx(0.2)
    assert remaining_gap(0.3, 0.9, 0.5) == pytest.approx(-0.2)
    assert remaining_gap(0.7, 0.1, 0.5) == pytest.approx(-0.2)


@pytest.mark.parametrize("bad", [(0.5, 0.5, 0.5), (1.5, 0.9, 0.5), (0.5, math.nan, 0.5), (0.5, 0.9, -0.1)])
def test_shares_that_tell_no_side_are_refused(bad):
    with pytest.raises(InvalidInput):
        remaining_gap(*bad)


def test_the_interval_is_that_of_the_share_turned_to_the_side_of_the_baseline():
    below = exact_interval(3, 40)  # well below a half
    after = exact_interval(13, 31)
    gap = remaining_gap_estimate(after, below, 0.5)
    assert (gap.low, gap.value, gap.high) == pytest.approx((0.5 - after.high, 0.5 - 13 / 31, 0.5 - after.low))
    assert (gap.n, gap.null_value) == (31, 0.0)


def test_without_a_clear_bias_there_is_nothing_to_remove():
    gap = remaining_gap_estimate(exact_interval(5, 10), exact_interval(11, 20), 0.5)
    assert math.isnan(gap.value)
    assert "nothing to remove" in gap.note
    unknown = Estimate.undefined(7, "no picture")
    assert math.isnan(remaining_gap_estimate(exact_interval(5, 10), unknown, 0.5).value)


def test_what_is_asked_for_counts_both_words_alike():
    # (3/5 + 7/7) / 2, however many pictures each word has
    assert asked_kept_estimate([1, 1, 0, 1, 0], np.ones(7)).value == pytest.approx(0.8)
    estimate = asked_kept_estimate([1, 1, 0, 1, 0], np.ones(7))
    one, other = exact_interval(3, 5), exact_interval(7, 7)
    reach = math.sqrt((0.6 - one.low) ** 2 + (1 - other.low) ** 2) / 2
    assert estimate.low == pytest.approx(0.8 - reach)
    assert estimate.high == pytest.approx(0.8 + (one.high - 0.6) / 2)
    assert (estimate.n, estimate.null_value) == (12, None)


def test_the_interval_holds_the_share_that_was_planted():
    rng, held = np.random.default_rng(3), 0
    for _ in range(400):
        estimate = asked_kept_estimate(rng.binomial(1, 0.9, 17), rng.binomial(1, 0.6, 23))
        held += estimate.low <= 0.75 <= estimate.high
    assert 0.92 <= held / 400 <= 0.985


def test_it_is_the_share_of_ones():
    # 3 of 7 requests
    assert refused_share([1, 0, 1, 0, 0, 1, 0]) == 3 / 7
    assert refused_share(np.zeros(5)) == 0.0
