"""Two-phase sampling against hand arithmetic, closed forms and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.two_phase import (
    N_DRAWS,
    draw_rater_weights,
    more_labels_needed,
    two_phase_estimate,
    two_phase_prevalence,
    two_phase_shares,
)
from tests.every import every

READERS = [(0.95, 0.9), (0.85, 0.8)]


def drawn(rng, share, errors, *, n=512, n_labelled=64, stratified=False):
    """What a reader says of all pictures, and people, who are right, of some."""
    truth = (rng.random(n) < share).astype(float)
    reader = np.where(truth == 1, rng.random(n) < errors[0], rng.random(n) >= errors[1]).astype(float)
    places = rng.permutation(n)
    if stratified:  # half of the labels from each of the reader's classes, as far as there are so many
        absent = [i for i in places if reader[i] == 0][: n_labelled // 2]
        places = np.array([*absent, *[i for i in places if reader[i] == 1]])
    people = np.full(n, np.nan)
    people[places[:n_labelled]] = truth[places[:n_labelled]]
    return reader, people


def test_the_share_is_the_sum_over_the_reader_s_classes_by_hand():
    # The reader calls 60 of 90 present. Of the 12 labelled among these people call 9 present, PPV = 3/4; of the 6
    # among the others 2, FOR = 1/3. P = 2/3 · 3/4 + 1/3 · 1/3 = 11/18.
    reader = np.repeat([1, 0], [60, 30])
    people = np.full(90, np.nan)
    people[:12], people[60:66] = np.repeat([1, 0], [9, 3]), np.repeat([1, 0], [2, 4])
    estimate = two_phase_prevalence(reader, people)
    assert estimate.value == pytest.approx(11 / 18)
    assert (estimate.n, estimate.note) == (90, "18 of 90 are labelled by people")
    assert 0 < estimate.low < 11 / 18 < estimate.high < 1


def test_the_interval_is_that_of_jeffreys_beta_draws():
    # One class of the reader, so P is people's share alone: Beta(9 + 1/2, 3 + 1/2).
    people = np.r_[np.repeat([1.0, 0.0], [9, 3]), np.full(40, np.nan)]
    estimate = two_phase_prevalence(np.ones(52), people)
    np.testing.assert_allclose([estimate.low, estimate.high], stats.beta(9.5, 3.5).interval(0.95), atol=0.02)
    # A reader that is always right, and of whom everybody knows: Beta(30 + 1/2, 22 + 1/2) of its own share.
    reader = np.repeat([1.0, 0.0], [3000, 2200])
    estimate = two_phase_prevalence(reader, reader)
    np.testing.assert_allclose([estimate.low, estimate.high], stats.beta(3000.5, 2200.5).interval(0.95), atol=0.005)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
def test_the_interval_covers_and_nothing_is_refused(share):
    rng, n = np.random.default_rng(16), 60
    for errors in READERS:
        inside = 0
        for k in range(n):
            estimate = two_phase_prevalence(*drawn(rng, share, errors, stratified=k % 2 == 1), rng=k)
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
            inside += estimate.low <= share <= estimate.high
        assert inside / n >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / n)


def test_labels_chosen_by_the_reader_s_class_are_not_biased():
    rng = np.random.default_rng(5)
    values = [two_phase_prevalence(*drawn(rng, 0.8, READERS[1], stratified=True)).value for _ in range(80)]
    assert np.mean(values) == pytest.approx(0.8, abs=3 * np.std(values) / math.sqrt(80))
    naive = [np.nanmean(drawn(rng, 0.8, READERS[1], stratified=True)[1]) for _ in range(80)]
    assert np.mean(naive) < 0.72  # people's share of what they were shown


def test_weights_mend_labels_that_were_chosen_unequally_within_a_class():
    # People labelled all 10 of one kind, who are all present, and 10 of the 90 others, who are all absent.
    reader, people = np.ones(100), np.full(100, np.nan)
    people[:10], people[10:20] = 1, 0
    assert two_phase_prevalence(reader, people).value == 0.5
    weights = np.repeat([1.0, 9.0], [10, 90])
    mended = two_phase_prevalence(reader, people, weights=weights)
    assert mended.value == pytest.approx(0.1)
    assert mended.high < 0.5
    same = two_phase_prevalence(reader, people, weights=np.full(100, 7.0))
    assert (same.value, same.low, same.high) == pytest.approx((0.5, 0.29, 0.71), abs=0.02)


def test_raters_who_disagree_widen_the_interval_and_those_who_agree_do_not():
    rng = np.random.default_rng(2)
    reader, people = drawn(rng, 0.8, READERS[0])
    alone, alike = two_phase_prevalence(reader, people), two_phase_prevalence(reader, np.column_stack([people] * 3))
    assert alike.value == alone.value
    assert alike.high - alike.low == pytest.approx(alone.high - alone.low, abs=0.01)
    votes = np.column_stack([people] * 3)
    one_says_no = np.flatnonzero(people == 1)[:20]
    votes[one_says_no, 2] = 0  # the majority is as before
    apart = two_phase_prevalence(reader, votes)
    assert apart.high - apart.low > 1.3 * (alone.high - alone.low)
    assert apart.low < alone.low - 0.05


def test_raters_with_thresholds_of_their_own_are_covered_where_a_majority_alone_is_not():
    rng, inside, n = np.random.default_rng(8), np.zeros(2), 40
    for k in range(n):
        clear = rng.normal(size=512)  # most raters of the pool say yes above 0: of half the pictures
        reader = np.where(clear > 0, rng.random(512) < 0.85, rng.random(512) >= 0.8).astype(float)
        votes = np.full((512, 12), np.nan)
        thresholds = rng.normal(size=12) * 0.5
        for i in range(64):
            who = rng.permutation(12)[:3]
            votes[i, who] = clear[i] + rng.normal(size=3) * 0.5 > thresholds[who]
        merged = np.full(512, np.nan)
        merged[:64] = np.nanmean(votes[:64], axis=1) > 0.5
        for column, people in enumerate((merged, votes)):
            estimate = two_phase_prevalence(reader, people, rng=k)
            inside[column] += estimate.low <= 0.5 <= estimate.high
    assert inside[1] / n >= 0.9 > inside[0] / n


def test_more_than_two_classes_have_dirichlet_rows():
    # One class of the reader; people say 0, 1, 2 of 6, 3 and 1 pictures.
    reader, people = np.ones(50), np.r_[np.repeat([0.0, 1.0, 2.0], [6, 3, 1]), np.full(40, np.nan)]
    shares = two_phase_shares(reader, people, n_classes=3)
    np.testing.assert_allclose(shares.value, [0.6, 0.3, 0.1])
    wanted = stats.dirichlet(np.array([6, 3, 1]) + 1 / 3)  # one picture beforehand, spread evenly
    np.testing.assert_allclose(shares.draws.mean(axis=0), wanted.mean(), atol=0.01)
    np.testing.assert_allclose(shares.draws.var(axis=0), wanted.var(), atol=0.002)
    assert shares.draws.shape == (N_DRAWS, 3)


def test_intervals_of_five_classes_hold_common_and_rare_ones_from_forty_labels():
    rng, planted, n, repetitions = np.random.default_rng(5), np.array([0.5, 0.35, 0.08, 0.05, 0.02]), 200, 120
    held = np.zeros(5)
    for seed in range(repetitions):
        truth = rng.choice(5, n, p=planted)
        read = np.where(rng.random(n) < 0.85, truth, rng.integers(5, size=n))
        shares = two_phase_shares(read, np.where(np.arange(n) < 40, truth, np.nan), n_classes=5, rng=seed)
        low, high = np.quantile(shares.draws, [0.025, 0.975], axis=0)
        held += (low <= planted) & (planted <= high)
    assert (held / repetitions >= 0.9).all()  # with half a picture of each beforehand the rarest in 85 %


def test_two_people_of_one_picture_are_not_counted_as_two_pictures():
    rng = np.random.default_rng(3)
    reader, people = drawn(rng, 0.6, READERS[1], n=300, n_labelled=60)
    once = two_phase_prevalence(reader, people)
    twice = two_phase_prevalence(np.repeat(reader, 2), np.repeat(people, 2))
    paired = two_phase_prevalence(np.repeat(reader, 2), np.repeat(people, 2), groups=np.repeat(np.arange(300), 2))
    width = once.high - once.low
    assert twice.high - twice.low < 0.8 * width
    assert paired.high - paired.low == pytest.approx(width, rel=0.1)
    assert paired.value == pytest.approx(once.value)


def test_a_class_of_the_reader_without_labels_is_said_and_not_taken_as_known():
    reader = np.repeat([1.0, 0.0], [90, 10])
    people = np.r_[np.ones(30), np.full(70, np.nan)]
    estimate = two_phase_prevalence(reader, people)
    assert estimate.value == pytest.approx(0.95)  # nothing is known of the tenth: a half of it
    assert estimate.low < 0.91
    assert estimate.high > 0.98
    assert "10 that the reader puts in a class of its own" in estimate.note


def test_differences_share_what_raters_differ_in():
    rng = np.random.default_rng(4)
    raters = draw_rater_weights(3, 0)
    arms = []
    for k in range(2):
        reader, people = drawn(rng, 0.6, READERS[0], n_labelled=200)
        votes = np.column_stack([people] * 3)
        votes[np.flatnonzero(people == 1)[:60], 2] = 0  # the third rater says no more often, in both arms
        arms.append((reader, votes, k + 1))

    def difference(**how):
        samples = [two_phase_shares(reader, votes, rng=seed, **how) for reader, votes, seed in arms]
        return two_phase_estimate(lambda one, other: other[..., 1] - one[..., 1], *samples, null_value=0.0)

    shared, apart = difference(rater_weights=raters), difference()
    assert shared.high - shared.low < apart.high - apart.low
    assert shared.null_value == 0.0


def test_as_many_more_labels_as_said_reach_the_width():
    rng = np.random.default_rng(6)
    wanted, widths = [], []
    for _ in range(12):
        reader, people = drawn(rng, 0.8, READERS[0])
        wanted.append(more_labels_needed(lambda p: p[..., 1], two_phase_shares(reader, people), half_width=0.05))
    more = int(np.median(wanted))
    assert 16 < more < 200
    for _ in range(12):
        estimate = two_phase_prevalence(*drawn(rng, 0.8, READERS[0], n_labelled=64 + more))
        widths.append((estimate.high - estimate.low) / 2)
    assert np.mean(widths) == pytest.approx(0.05, abs=0.006)
    shares = two_phase_shares(*drawn(rng, 0.8, READERS[0], n_labelled=500))
    assert more_labels_needed(lambda p: p[..., 1], shares) == 0
    shares = two_phase_shares(*drawn(rng, 0.5, READERS[0], n=100, n_labelled=40))
    assert more_labels_needed(lambda p: p[..., 1], shares, half_width=0.01) == math.inf  # of 100 pictures
    with pytest.raises(InvalidInput, match="half_width"):
        more_labels_needed(lambda p: p[..., 1], shares, half_width=0)


def test_the_same_seed_gives_the_same_interval():
    reader, people = drawn(np.random.default_rng(1), 0.5, READERS[0])
    first, again, other = (two_phase_prevalence(reader, people, rng=seed) for seed in (3, 3, 4))
    assert first == again != other
    assert two_phase_prevalence(reader, people, confidence=0.5).method == "two-phase sampling, Jeffreys 50 %"


@every([
    (([1, 0, 1], [np.nan] * 3), "at least 2 pictures need a label by people; got 0"),
    (([1, 0, 1], [1, np.nan, np.nan]), "at least 2 pictures need a label by people; got 1"),
    (([1, 0, 1], [1, 0]), r"n = 3; got \(2, 1\)"),
    (([1, 0, np.nan], [1, 0, 1]), "reader_labels"),
    (([], []), "reader_labels"),
    (([1, 0, 1], [1, 0.5, 1]), "0 to 1, or nan for no label; got 0.5"),
    (([1, 0, 1], [1, 0, 2]), "got 2"),
    *((([1, 0, 1], [1, 0, np.nan], how), "3")
      for how in (("weights", [1, 2]), ("weights", [0, 1, 1]), ("groups", [1, 2]))),
])  # fmt: skip
def test_what_cannot_be_used_is_quoted(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        two_phase_prevalence(*arguments[:2], **dict(arguments[2:]))
