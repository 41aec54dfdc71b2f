"""MCAS against hand arithmetic, a naive loop and its own sampling distribution."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.composite_association import composite_association, mean_over_encoders, picture_estimate

D = 7
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
        assert "no interval" in interval.note
    assert np.isfinite(scores.image_prompt_interval.low)  # it needs no picture of the concept


def test_encoders_are_averaged_score_by_score_and_resample_by_resample():
    # The same pictures through encoders of 7 and of 11 dimensions.
    scores = [composite_association(*random_sets(np.random.default_rng(7), d=d), rng=3) for d in (7, 11)]
    mean = mean_over_encoders(scores)
    for name in (*PICTURES, "text_text", "mcas"):
        assert getattr(mean, name) == pytest.approx((getattr(scores[0], name) + getattr(scores[1], name)) / 2)
    np.testing.assert_allclose(mean.resamples, (scores[0].resamples + scores[1].resamples) / 2)
    expected = np.quantile(mean.resamples[:, 0], [0.025, 0.975])
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
