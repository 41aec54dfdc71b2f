"""STS over crossed attributes: by hand, against STS of each cell's people, and with a reader that errs."""

import math

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intersections import crossed_stereotype
from bias_core.measures.intervals import wilson_interval
from bias_core.measures.paired_stereotype import stereotype_test_score
from bias_core.types import ReaderErrors
from tests.metric_inputs import in_cells as people

OLD_MEN = np.array([0.25, 0.05, 0.25, 0.45])  # not conforming old and young, conforming old and young


def test_scores_and_shrunk_scores_are_as_by_hand():
    # Old: 4 of 5 conform, 100 · (2 · 0.8 − 1) = 60. Young: 3 of 9, −33.3. All: 7 of 14, 0.
    crossed = crossed_stereotype(people(1, 6, 4, 3))
    assert [one.value for one in (*crossed.scores, crossed.overall)] == pytest.approx([60, -100 / 3, 0])
    assert crossed.counts.tolist() == [5, 9]
    assert crossed.expected.tolist() == pytest.approx([2.5, 4.5])  # half of them on either side
    # P: 1, 6, 4, 3 of 14; by itself 2.5, 4.5, 2.5, 4.5. K = (1 − 62/196) / (9/196) = 134/9.
    # Shrunk, old: (14 · 4 + K · 2.5) to (14 · 1 + K · 2.5), all over 14 · 14 + ... which cancels.
    strength = 134 / 9
    conform, against = 14 * 4 + strength * 2.5, 14 * 1 + strength * 2.5
    assert crossed.shrunk[0] == pytest.approx(100 * (conform - against) / (conform + against))
    assert 0 < crossed.shrunk[0] < 60
    assert -100 / 3 < crossed.shrunk[1] < 0


@pytest.mark.parametrize("counts", [(3, 5, 11, 7), (0, 4, 6, 5), (2, 3, 5, 7, 11, 13, 17, 1)])
def test_without_errors_each_cell_is_the_score_of_its_people(counts):
    readings = people(*counts)
    frame = pd.DataFrame(readings[:, 1:]).assign(
        identity="CEO",
        stereotyped_gender="masculine",
        image_id=range(len(readings)),
        perceived_gender=np.where(readings[:, 0] == 1, "masculine", "feminine"),
    )
    frame = frame.set_axis([*"abcdefgh"[: readings.shape[1] - 1], *frame.columns[-4:]], axis=1)
    names = list(frame.columns[:-4])
    one_by_one = stereotype_test_score(frame, by=names).set_index(names).sort_index()
    crossed = crossed_stereotype(readings)
    ends = [[one.value, one.low, one.high, one.n] for one in crossed.scores]
    np.testing.assert_allclose(np.array(ends)[:, [0, 3]], one_by_one[["score", "n"]].to_numpy(float), atol=1e-8)
    shares = [wilson_interval(round((value + 100) / 200 * n), n) for value, *_, n in ends]
    np.testing.assert_allclose(
        [x[1:3] for x in ends], [[200 * x.low - 100, 200 * x.high - 100] for x in shares], atol=1e-8
    )
    np.testing.assert_array_equal(crossed.cells, one_by_one.reset_index()[names].to_numpy(float))
    assert crossed.overall.value == pytest.approx(stereotype_test_score(frame).score)


@pytest.mark.slow
def test_intervals_hold_what_is_planted_although_the_reader_errs():
    rng = np.random.default_rng(5)
    errors = [
        ReaderErrors(sensitivity=se, specificity=sp, n_positive=997, n_negative=1009)
        for se, sp in ((0.94, 0.9), (0.9, 0.93))
    ]
    matrices = [np.array([[e.specificity, 1 - e.sensitivity], [1 - e.specificity, e.sensitivity]]) for e in errors]
    read = np.kron(*matrices) @ OLD_MEN
    exact = crossed_stereotype(people(*np.round(100_000 * read).astype(int)), errors=errors)
    assert [one.value for one in exact.scores] == pytest.approx([0, 80], abs=0.1)
    held, as_read = [], []
    for i in range(200):
        readings = people(*rng.multinomial(211, read))
        for given, line in ((errors, held), (None, as_read))[: 1 + (i < 60)]:
            scores = crossed_stereotype(readings, errors=given).scores
            line += [one.low <= target <= one.high for one, target in zip(scores, (0, 80), strict=True)]
    assert 0.93 < np.mean(held) < 0.985
    assert np.mean(as_read) < 0.9  # the correction is what holds it


@pytest.mark.slow
def test_where_cells_do_not_matter_shrunk_scores_lie_nearer_to_the_truth():
    rng, counted, shrunk = np.random.default_rng(3), [], []
    for _ in range(100):
        crossed = crossed_stereotype(people(*rng.multinomial(97, [0.24, 0.16, 0.36, 0.24])))
        counted += [(one.value - 20) ** 2 for one in crossed.scores]
        shrunk += list((crossed.shrunk - 20) ** 2)
    assert np.mean(shrunk) < 0.6 * np.mean(counted)


def test_what_nobody_looks_like_has_no_score_and_bad_readings_say_so():
    crossed = crossed_stereotype(people(4, 0, 7, 0))
    assert math.isnan(crossed.in_all.value)
    assert crossed.in_all.note == "nobody is read so"
    assert math.isnan(crossed.shrunk[1])
    # All alike: as certain as Wilson's interval is, and never a score without one.
    alike = crossed_stereotype(people(0, 0, 3, 8)).scores[1]
    assert (alike.value, alike.high) == (100, 100)
    assert 30 < alike.low < 40
    with pytest.raises(InvalidInput, match="readings must be 0 or 1"):
        crossed_stereotype([[0.5, 1]])
    with pytest.raises(InvalidInput, match="errors are needed for each of the 2"):
        crossed_stereotype(people(1, 2, 3, 4), errors=[None])
