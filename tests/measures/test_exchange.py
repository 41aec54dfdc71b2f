"""Exchanges of the text and of an adapter's parts against hand arithmetic, naive loops and planted truths."""

import itertools
import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.exchange import decided_step, exchange_effect, mean_difference, part_effects, prior_effects
from bias_core.measures.paired_prevalence import prevalence_difference_test

N_SEEDS, N_STEPS = 37, 7


def margins(seen):
    return np.where(np.asarray(seen), 0.2, -0.2)


def test_the_effect_of_each_exchange_by_hand():
    # Without: seen in 1 of 4. From the start 4 of 4: +3/4; after 1 step 2 of 4: +1/4; after 3 steps 1 of 4: 0.
    without = margins([0, 0, 1, 0])
    exchanged = margins([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 0]])
    answer = exchange_effect(without, exchanged, steps=(0, 1, 3))
    assert [effect.value for effect in answer.effects] == [0.75, 0.25, 0.0]
    assert (answer.steps, answer.whole) == ((0, 1, 3), answer.effects[0])


def test_each_effect_is_the_paired_difference_of_its_seeds():
    rng = np.random.default_rng(0)
    without, exchanged = rng.uniform(-1, 1, N_SEEDS), rng.uniform(-1, 1, (N_SEEDS, N_STEPS))
    for column, effect in zip(exchanged.T, exchange_effect(without, exchanged, confidence=0.9).effects, strict=True):
        assert effect == prevalence_difference_test(without, column, confidence=0.9).estimate


def test_half_of_the_effect_is_lost_on_the_line_between_two_steps():
    # 8 of 10 from the start, 6 after 2 steps, 2 after 4: half, 4, on the line from 6 to 2: after 3 steps.
    exchanged = margins([[i < 8, i < 6, i < 2] for i in range(10)])
    step = decided_step(margins([0] * 10), exchanged, steps=(0, 2, 4), n_steps=5)
    assert step.value == pytest.approx(3.0)
    assert step.low <= 3 <= step.high
    # An attribute that is taken away: the same with both sides turned round.
    assert decided_step(margins([1] * 10), -exchanged, steps=(0, 2, 4), n_steps=5).value == pytest.approx(3.0)


def test_an_effect_that_stays_until_the_last_exchange_is_lost_by_the_end():
    # 10 of 10 after 0 and 4 steps, and none after all 6: half on the line from 4 to 6.
    exchanged = margins([[1, 1]] * 10)
    assert decided_step(margins([0] * 10), exchanged, steps=(0, 4), n_steps=6).value == pytest.approx(5.0)


def test_no_effect_has_no_step_by_which_it_is_lost():
    rng = np.random.default_rng(1)
    step = decided_step(rng.uniform(-1, 1, N_SEEDS), rng.uniform(-1, 1, (N_SEEDS, N_STEPS)))
    assert math.isnan(step.value)
    assert "no clear effect" in step.note


def test_the_step_s_interval_holds_the_planted_step_in_19_of_20_draws():
    # Each seed is decided after a step of its own, 1 to 7 alike: the effect falls from 1 by 1/7 a step, half at 3.5.
    rng, held = np.random.default_rng(2), []
    for _ in range(300):
        own = rng.integers(1, N_STEPS + 1, size=N_SEEDS)
        exchanged = margins(np.arange(N_STEPS) < own[:, None])
        step = decided_step(margins(np.zeros(N_SEEDS)), exchanged, n_steps=N_STEPS, n_resamples=300, rng=rng)
        held.append(step.low <= 3.5 <= step.high)
    assert 0.92 <= np.mean(held) <= 0.98


def test_parts_by_hand():
    # Shares: neither 1/4, text 3/4, drawing 1/4, both 1. Text: (2/4 + 3/4) / 2; drawing: (0 + 1/4) / 2.
    parts = part_effects(margins([0, 0, 0, 1]), margins([1, 1, 0, 1]), margins([0, 0, 0, 1]), margins([1] * 4))
    assert (parts.whole.value, parts.text.value, parts.drawing.value) == (0.75, 0.625, 0.125)
    assert (parts.text_alone.value, parts.text_added.value) == (0.5, 0.75)
    assert (parts.drawing_alone.value, parts.drawing_added.value) == (0.0, 0.25)


def test_the_parts_are_the_mean_over_the_orders_in_which_they_come_and_add_up_to_the_whole():
    rng = np.random.default_rng(3)
    cells = {parts: rng.uniform(-1, 1, N_SEEDS) for parts in ("", "t", "d", "td")}
    shares = {parts: (values > 0).mean() for parts, values in cells.items()}
    expected = {"t": 0.0, "d": 0.0}
    for order in itertools.permutations("td"):
        for i, part in enumerate(order):
            before = "".join(sorted(order[:i], reverse=True))
            after = "".join(sorted(order[: i + 1], reverse=True))
            expected[part] += (shares[after] - shares[before]) / 2
    parts = part_effects(*cells.values())
    assert (parts.text.value, parts.drawing.value) == pytest.approx((expected["t"], expected["d"]))
    assert parts.text.value + parts.drawing.value == pytest.approx(parts.whole.value)


def test_of_whole_pictures_the_interval_is_the_adjusted_one_for_pairs():
    rng = np.random.default_rng(4)
    first, second = rng.uniform(-1, 1, (2, N_SEEDS))
    whole = part_effects(first, first, second, second, confidence=0.9).whole
    expected = prevalence_difference_test(first, second, confidence=0.9).estimate
    assert (whole.value, whole.low, whole.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_what_lies_in_the_text_encoders_is_found_there_and_not_in_the_drawing():
    rng = np.random.default_rng(5)
    base, adapted = margins(rng.random(N_SEEDS) < 0.4), margins(rng.random(N_SEEDS) < 0.9)
    parts = part_effects(base, adapted, base, adapted)
    assert parts.text.low > 0
    assert parts.drawing.value == 0
    assert parts.drawing.low < 0 < parts.drawing.high
    swapped = part_effects(base, base, adapted, adapted)
    assert (swapped.drawing, swapped.text) == (parts.text, parts.drawing)


@pytest.mark.parametrize("either", [False, True])
def test_intervals_of_the_parts_hold_what_is_planted_in_19_of_20_draws(either):
    # Text shows it where u < 0.5, drawing where v < 0.3; both where either does, or where both do.
    rng, held, n = np.random.default_rng(6), [], 40
    both_share = 1 - 0.5 * 0.7 if either else 0.5 * 0.3
    alone = (0.5, 0.3) if either else (0.0, 0.0)
    text = (alone[0] + both_share - alone[1]) / 2
    for _ in range(400):
        u, v = rng.random((2, n))
        one, other = (u < 0.5, v < 0.3) if either else (np.zeros(n, bool), np.zeros(n, bool))
        both = (u < 0.5) | (v < 0.3) if either else (u < 0.5) & (v < 0.3)
        parts = part_effects(margins(np.zeros(n)), margins(one), margins(other), margins(both))
        held.append(parts.text.low <= text <= parts.text.high)
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)


def test_a_mean_of_half_differences_has_a_width_where_no_seed_changed():
    estimate = mean_difference(np.zeros(N_SEEDS))
    assert estimate.low < 0 < estimate.high


@pytest.mark.parametrize(("call", "words"), [
    (lambda: exchange_effect([0.1, 0.2], [[0.1], [0.2], [0.1]]), "one entry per seed"),
    (lambda: exchange_effect([0.1, 0.2], [[0.1, 0.1], [0.2, 0.1]], steps=(0,)), "2 whole numbers that rise"),
    (lambda: exchange_effect([0.1, 0.2], [[0.1, 0.1], [0.2, 0.1]], steps=(2, 1)), r"rise.*\(2, 1\)"),
    (lambda: decided_step([0.1, 0.2], [0.1, 0.2], steps=(1,)), r"begin with 0.*\(1,\)"),
    (lambda: decided_step([0.1, 0.2], [[0.1, 0.1], [0.2, 0.1]], steps=(0, 4), n_steps=4), "before n_steps"),
    (lambda: part_effects([0.1], [0.1], [0.1, 0.2], [0.1]), "one entry per image"),
    (lambda: exchange_effect([0.1, math.nan], [0.1, 0.2]), "finite"),
])  # fmt: skip
def test_what_does_not_belong_together_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_prior_and_decoder_add_up_and_a_planted_part_is_found():
    # Of five seeds the prior gains two (1 and 2) and loses none; the pictures gain these and one more (3).
    prior, prior_after = [-1, -1, -1, -1, 1], [-1, 1, 1, -1, 1]
    pictures, pictures_after = [-1, -1, -1, -1, 1], [-1, 1, 1, 1, 1]
    effects = prior_effects(prior, prior_after, pictures, pictures_after)
    assert effects.prior.value == pytest.approx(2 / 5)
    assert effects.whole.value == pytest.approx(3 / 5)
    assert effects.decoder.value == pytest.approx(1 / 5)
    assert effects.decoder.low < 0 < effects.decoder.high
    # A seed whose embedding loses what its picture gains counts twice: (2 + 0) / 2.
    assert prior_effects([1, -1], [-1, -1], [-1, -1], [1, -1]).decoder.value == 1
    swapped = prior_effects(prior_after, prior, pictures_after, pictures)
    assert swapped.decoder.value == -effects.decoder.value
    assert prior_effects(prior, prior_after, prior, prior_after).decoder.value == 0
    with pytest.raises(InvalidInput):
        prior_effects(prior, prior_after, pictures, pictures_after[:-1])


def test_the_interval_of_the_decoder_holds_the_planted_part():
    rng, held, n = np.random.default_rng(0), 0, 31
    for _ in range(400):
        prior, prior_after = rng.random(n) < 0.3, rng.random(n) < 0.5
        # The decoder turns a fifth of the women of the later text into men: +0.1 of all, and nothing before.
        turned = prior_after | ((rng.random(n) < 0.2) & ~prior_after)
        decoder = prior_effects(*(2.0 * shown - 1 for shown in (prior, prior_after, prior, turned))).decoder
        held += decoder.low <= 0.1 <= decoder.high
    assert held / 400 > 0.93
