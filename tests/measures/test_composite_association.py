"""δ and α against the published tables, hand arithmetic and their own resamples."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.composite_association import (
    bias_amplification,
    composite_association,
    diffusion_bias,
    internal_bias,
    mean_over_encoders,
    signed_lean_difference,
    summarise_internal_bias,
)

SCORES = Path(__file__).parents[2] / "assets" / "studies" / "internal_bias_scores.csv"
D = 7
# [mandal2024internal, Table 4]: model, dominated by, mean δ, smallest and largest δ, the same of α.
# Table 3 gives 1.696, 11.04 and 6.37 where Table 4 prints 3.15, 11.25 and 6.47 for Stable Diffusion v2.
TABLE_4 = [
    ("DALL-E 2", "male", 0.01, (0.00, 0.02), 1.47, (1.00, 2.05)),
    ("DALL-E 2", "female", 0.05, (0.01, 0.08), 10.0, (1.16, 26.06)),
    ("DALL-E 2", "overall", 0.03, (0.00, 0.08), 5.74, (1.00, 26.06)),
    ("Stable Diffusion v2", "male", 0.01, (0.00, 0.02), 1.696, (1.11, 2.87)),
    ("Stable Diffusion v2", "female", 0.05, (0.01, 0.10), 11.04, (1.19, 26.02)),
    ("Stable Diffusion v2", "overall", 0.03, (0.00, 0.10), 6.37, (1.11, 26.02)),
]


@pytest.mark.parametrize(("model", "dominated", "delta", "deltas", "alpha", "alphas"), TABLE_4)
def test_the_summary_of_table_3_is_table_4(model, dominated, delta, deltas, alpha, alphas):
    table = pd.read_csv(SCORES)
    lists = ["male", "female"] if dominated == "overall" else [dominated]
    rows = table[(table["model"] == model) & table["dominated"].isin(lists)]
    summary = summarise_internal_bias(rows["delta"], rows["alpha"])
    assert summary.diffusion_bias.n == (28 if dominated == "overall" else 14)
    assert summary.diffusion_bias.value == pytest.approx(delta, abs=0.005)
    assert summary.bias_amplification.value == pytest.approx(alpha, abs=0.016)  # 9.984 is printed as 10.0
    assert summary.diffusion_bias_range == deltas
    assert summary.bias_amplification_range == alphas
    assert summary.bias_amplification.low < alpha < summary.bias_amplification.high


def test_delta_and_alpha_by_hand():
    # δ = | |-0.3| - |0.1| | = 0.2; II - TT = -0.4; α = |(-0.3 + 0.1) / (2 * 0.05)| = 2.
    assert diffusion_bias(-0.3, 0.1) == pytest.approx(0.2)
    assert signed_lean_difference(-0.3, 0.1) == pytest.approx(-0.4)
    assert bias_amplification(-0.3, 0.1, 0.05) == pytest.approx(2)


def test_equal_leaning_of_all_kinds_is_neutral():
    assert diffusion_bias(0.07, 0.07) == 0
    assert bias_amplification(0.07, 0.07, 0.07) == 1


def test_a_change_of_direction_shows_in_the_signed_difference_only():
    assert diffusion_bias(-0.05, 0.05) == 0
    assert signed_lean_difference(-0.05, 0.05) == pytest.approx(-0.1)


def test_alpha_is_given_up_below_the_threshold_and_the_paper_s_explosions_are_below_it():
    # Beautician, Stable Diffusion v2: MCAS -0.14, δ 0.09, α 19.24. If all lean alike, |II| = TT + δ and
    # ITP + IT = 2 α TT, so TT (2 + 2 α) + δ = 0.14 and TT = 0.05 / 40.48 = 0.00124.
    texts = 0.05 / 40.48
    assert math.isnan(bias_amplification(-19.24 * texts, -19.24 * texts, -texts))
    literal = bias_amplification(-19.24 * texts, -19.24 * texts, -texts, minimum_text_text=1e-9)
    assert literal == pytest.approx(19.24)


def test_every_published_alpha_above_ten_falls_below_the_threshold():
    table = pd.read_csv(SCORES)
    same_direction = table[table["mcas"].abs() > table["delta"]]
    texts = (same_direction["mcas"].abs() - same_direction["delta"]) / (2 + 2 * same_direction["alpha"])
    assert (texts[same_direction["alpha"] > 10] < 0.002).all()
    assert (same_direction["alpha"] > 10).sum() == 11  # a twelfth has |MCAS| = δ as printed


def planted(rng, x_lean, w_lean, n=31):
    """Sets whose pictures lean to A by ``x_lean`` and whose prompt leans by ``w_lean``."""
    east = np.eye(D)[0]
    a, b = east + 0.3 * rng.normal(size=(17, D)), -east + 0.3 * rng.normal(size=(19, D))
    x = np.eye(D)[1] + x_lean * east + 0.2 * rng.normal(size=(n, D))
    w = np.eye(D)[1:2] + w_lean * east
    return x, w, a, b, [east], [-east]


def test_added_bias_is_found_and_none_is_not():
    rng = np.random.default_rng(0)
    added = internal_bias(composite_association(*planted(rng, 1.0, 0.2)))
    assert added.signed_difference.low > 0
    assert added.bias_amplification.low > 1
    assert added.text_text == pytest.approx(2 * 0.2 / math.hypot(1, 0.2))
    removed = internal_bias(composite_association(*planted(rng, 0.0, 0.5)))
    assert removed.signed_difference.high < 0
    assert removed.bias_amplification.high < 1


def test_intervals_come_from_the_resamples_of_the_averaged_scores():
    scores = mean_over_encoders([composite_association(*planted(np.random.default_rng(i), 0.7, 0.4)) for i in (1, 2)])
    bias = internal_bias(scores, confidence=0.9)
    ii, itp, it = scores.resamples.T
    tt = scores.text_text
    for estimate, value, drawn in (
        (bias.diffusion_bias, abs(abs(scores.image_image) - abs(tt)), abs(abs(ii) - abs(tt))),
        (bias.signed_difference, scores.image_image - tt, ii - tt),
        (
            bias.bias_amplification,
            abs(scores.image_prompt + scores.image_text) / abs(2 * tt),
            abs(itp + it) / abs(2 * tt),
        ),
    ):
        low, high = np.quantile(drawn, [0.05, 0.95])
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((value, low, high))
        assert estimate.n == 31 + 17 + 19
    assert (bias.diffusion_bias.null_value, bias.bias_amplification.null_value) == (0.0, 1.0)


def test_an_alpha_without_leaning_texts_says_why_it_is_not_given():
    bias = internal_bias(composite_association(*planted(np.random.default_rng(3), 0.7, 0.0)))
    assert math.isnan(bias.bias_amplification.value)
    assert "TT is 0.0000, nearer to 0 than 0.002" in bias.bias_amplification.note
    assert bias.signed_difference.low > 0  # δ needs no ratio


@pytest.mark.parametrize("bad", [math.nan, 2.5, "0.1", [0.1, 0.2], None])
def test_scores_that_are_none_are_refused(bad):
    for call in (
        lambda: diffusion_bias(bad, 0.1),
        lambda: signed_lean_difference(0.1, bad),
        lambda: bias_amplification(0.1, bad, 0.1),
    ):
        with pytest.raises(InvalidInput, match="one number from -2 to 2"):
            call()


def test_without_a_threshold_alpha_is_formed_at_any_tt_and_marked():
    # |(0.02 + 0.01) / (2 x 0.001)| = 15, as where Table 4 has 26.
    assert bias_amplification(0.02, 0.01, 0.001, minimum_text_text=0) == pytest.approx(15)
    assert math.isnan(bias_amplification(0.02, 0.01, 0.0, minimum_text_text=0))
    rng = np.random.default_rng(0)
    scores = replace(composite_association(*(rng.normal(size=(5, 7)) for _ in range(6))), text_text=0.001)
    marked = internal_bias(scores, minimum_text_text=0).bias_amplification
    assert marked.value > 10
    assert "nearer to 0 than 0.002" in marked.note
    assert internal_bias(replace(scores, text_text=0.1), minimum_text_text=0).bias_amplification.note == ""


@pytest.mark.parametrize("minimum", [-0.1, math.nan, math.inf])
def test_a_threshold_is_not_negative(minimum):
    with pytest.raises(InvalidInput, match=f"got {minimum}"):
        bias_amplification(0.1, 0.1, 0.1, minimum_text_text=minimum)


def test_a_summary_without_any_alpha_is_not_neutral():
    summary = summarise_internal_bias([0.1, 0.2], [math.nan, math.nan])
    assert summary.n_undefined == 2
    assert math.isnan(summary.bias_amplification.value)
    assert math.isnan(summary.bias_amplification_range[0])
    assert summary.bias_amplification.note


@pytest.mark.parametrize(
    ("deltas", "alphas"), [([], []), ([0.1], [1.0, 2.0]), ([math.nan], [1.0]), ([0.1], [math.inf])]
)
def test_a_summary_of_bad_numbers_is_refused(deltas, alphas):
    with pytest.raises(InvalidInput):
        summarise_internal_bias(deltas, alphas)
