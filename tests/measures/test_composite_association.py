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
    picture_estimate,
    signed_lean_difference,
    summarise_internal_bias,
)
from bias_core.measures.intervals import expanded_confidence

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
    tail = (1 - expanded_confidence(17, 0.9)) / 2  # of the smallest set
    for estimate, value, drawn in (
        (bias.diffusion_bias, abs(abs(scores.image_image) - abs(tt)), abs(abs(ii) - abs(tt))),
        (bias.signed_difference, scores.image_image - tt, ii - tt),
        (
            bias.bias_amplification,
            abs(scores.image_prompt + scores.image_text) / abs(2 * tt),
            abs(itp + it) / abs(2 * tt),
        ),
    ):
        low, high = np.quantile(drawn, [tail, 1 - tail])
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
    scores = replace(composite_association(*(rng.normal(size=(11, 7)) for _ in range(6))), text_text=0.001)
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


SIZES = (3, 5, 2, 11, 13, 17)
PICTURES = ("image_image", "image_prompt", "image_text")


def random_sets(rng, sizes=SIZES, d=D):
    return [rng.normal(size=(n, d)) for n in sizes]


def naive_score(targets, a_set, b_set):
    def cosine(u, v):
        return float(np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)))

    def mean(values):
        return sum(values) / len(values)

    return mean([mean([cosine(w, a) for a in a_set]) - mean([cosine(w, b) for b in b_set]) for w in targets])


def test_scores_by_hand():
    # Picture (0.6, 0.8), prompt (1, 0); pictures of A (1, 0), of B (0, 1); words of A (0, 1), of B (-1, 0).
    # II = 0.6 - 0.8 = -0.2; ITP = 1 - 0 = 1; IT = 0.8 + 0.6 = 1.4; TT = 0 + 1 = 1; MCAS = 3.2.
    scores = composite_association([[0.6, 0.8]], [[1, 0]], [[1, 0]], [[0, 1]], [[0, 1]], [[-1, 0]])
    found = [scores.image_image, scores.image_prompt, scores.image_text, scores.text_text, scores.mcas]
    assert found == pytest.approx([-0.2, 1, 1.4, 1, 3.2])


def test_scores_agree_with_a_naive_loop():
    sets = random_sets(np.random.default_rng(0))
    x, w, a, b, text_a, text_b = sets
    scores = composite_association(*sets)
    expected = [
        naive_score(x, a, b), naive_score(w, a, b), naive_score(x, text_a, text_b), naive_score(w, text_a, text_b),
    ]  # fmt: skip
    found = [scores.image_image, scores.image_prompt, scores.image_text, scores.text_text]
    np.testing.assert_allclose(found, expected)
    assert scores.mcas == pytest.approx(sum(expected))


def test_swapping_a_and_b_changes_every_sign():
    x, w, a, b, text_a, text_b = random_sets(np.random.default_rng(1))
    scores, swapped = (
        composite_association(x, w, a, b, text_a, text_b),
        composite_association(x, w, b, a, text_b, text_a),
    )
    for name in (*PICTURES, "text_text", "mcas"):
        assert getattr(swapped, name) == pytest.approx(-getattr(scores, name))


def test_resamples_agree_with_drawing_pictures():
    # A resample has the score of the pictures it drew; those drawn twice count twice.
    sets = random_sets(np.random.default_rng(2))
    scores = composite_association(*sets, n_resamples=3, rng=4)
    rng = np.random.default_rng(4)
    drawn = []
    for rows in (sets[0], sets[2], sets[3]):
        counts = rng.multinomial(len(rows), [1 / len(rows)] * len(rows), size=3)
        drawn.append([np.repeat(rows, count, axis=0) for count in counts])
    for resample, x, a, b in zip(scores.resamples, *drawn, strict=True):
        expected = [naive_score(x, a, b), naive_score(sets[1], a, b), naive_score(x, *sets[4:])]
        np.testing.assert_allclose(resample, expected)


def test_with_groups_whole_prompts_are_drawn():
    # Two prompts of 2 and 1 pictures. A resample holds prompt "p" (both its pictures), "q", or both.
    sets = random_sets(np.random.default_rng(3))
    scores = composite_association(*sets, groups_targets=["p", "p", "q"], n_resamples=50)
    x, texts = sets[0], sets[4:]
    possible = [naive_score(rows, *texts) for rows in (x, x[:2], x[2:])]
    nearest = np.abs(scores.resamples[:, 2, np.newaxis] - possible).min(axis=1)
    np.testing.assert_allclose(nearest, 0, atol=1e-12)
    assert scores.n_units == (2, 2, 11)
    assert scores.image_text_interval.n == 2
    assert scores.image_text == pytest.approx(composite_association(*sets).image_text)


def test_intervals_cover_the_true_score_about_as_often_as_they_say():
    # Pictures are unit vectors around fixed centres; the score of very many of them is the truth.
    rng = np.random.default_rng(4)
    centres, (w, text_a, text_b) = 1.5 * rng.normal(size=(3, D)), random_sets(rng, (2, 3, 3))

    def pictures(*sizes):
        return [c + rng.normal(size=(n, D)) for c, n in zip(centres, sizes, strict=True)]

    x, a, b = pictures(1500, 1501, 1502)
    truth = composite_association(x, w, a, b, text_a, text_b, n_resamples=2)
    covered = dict.fromkeys((*PICTURES, "mcas"), 0)
    for seed in range(120):
        x, a, b = pictures(23, 29, 31)
        scores = composite_association(x, w, a, b, text_a, text_b, n_resamples=200, rng=seed)
        for name in covered:
            interval = getattr(scores, f"{name}_interval")
            covered[name] += interval.low <= getattr(truth, name) <= interval.high
    for count in covered.values():
        assert 0.88 <= count / 120 <= 0.99


def test_a_planted_lean_is_found_by_all_three_picture_scores():
    rng = np.random.default_rng(5)
    a, b, text_a, text_b = (
        3 * sign * np.eye(D)[axis] + rng.normal(size=(11, D)) for axis, sign in ((0, 1), (0, -1), (0, 1), (0, -1))
    )
    x, w = 3 * np.eye(D)[0] + rng.normal(size=(13, D)), np.eye(D)[:1]
    scores = composite_association(x, w, a, b, text_a, text_b)
    for name in PICTURES:
        assert getattr(scores, f"{name}_interval").low > 0.3
    assert scores.text_text > 0.3


def test_one_picture_of_a_kind_has_a_score_and_no_interval():
    sets = random_sets(np.random.default_rng(6), (1, 5, 2, 11, 13, 17))
    scores = composite_association(*sets)
    assert np.isfinite(scores.image_image)
    for interval in (scores.image_image_interval, scores.image_text_interval, scores.mcas_interval):
        assert np.isnan(interval.low)
        assert "fewer than 10 units" in interval.note
    many = composite_association(*random_sets(np.random.default_rng(6), (1, 5, 11, 13, 13, 17)))
    assert np.isnan(many.image_image_interval.low)
    assert np.isfinite(many.image_prompt_interval.low)  # it needs no picture of the concept


def test_encoders_are_averaged_score_by_score_and_resample_by_resample():
    # The same pictures through encoders of 7 and of 11 dimensions.
    sizes = (13, 5, 11, 17, 3, 2)
    scores = [composite_association(*random_sets(np.random.default_rng(7), sizes, d=d), rng=3) for d in (7, 11)]
    mean = mean_over_encoders(scores)
    for name in (*PICTURES, "text_text", "mcas"):
        assert getattr(mean, name) == pytest.approx((getattr(scores[0], name) + getattr(scores[1], name)) / 2)
    np.testing.assert_allclose(mean.resamples, (scores[0].resamples + scores[1].resamples) / 2)
    tail = (1 - expanded_confidence(11)) / 2
    expected = np.quantile(mean.resamples[:, 0], [tail, 1 - tail])
    assert (mean.image_image_interval.low, mean.image_image_interval.high) == pytest.approx(tuple(expected))
    assert mean.n_encoders == 2
    assert mean_over_encoders([mean, scores[0]]).mcas == pytest.approx((2 * mean.mcas + scores[0].mcas) / 3)


def test_encoders_of_other_pictures_or_another_resampling_are_not_averaged():
    rng = np.random.default_rng(8)
    sets = random_sets(rng)
    scores = composite_association(*sets)
    others = [
        composite_association(*sets, rng=1),
        composite_association(*sets, n_resamples=99),
        composite_association(*random_sets(rng, (4, *SIZES[1:]))),
    ]
    for other in others:
        with pytest.raises(InvalidInput, match="the same pictures"):
            mean_over_encoders([scores, other])
    with pytest.raises(InvalidInput, match="empty"):
        mean_over_encoders([])


@pytest.mark.parametrize("options", [
    {"groups_targets": [0, 1]}, {"groups_a": 3}, {"n_resamples": 1}, {"rng": np.random.default_rng(0)}, {"rng": -1},
    {"confidence": 95},
])  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInput, match="|".join(options)):
        composite_association(*random_sets(np.random.default_rng(11)), **options)


def test_an_interval_without_variety_is_none():
    assert np.isnan(picture_estimate(0.5, [0.5, 0.5], [3]).low)
