"""Ordered classes: the mean and the ends by hand."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import end_share, mean_level


def test_the_mean_and_the_ends_are_as_by_hand():
    counts = [2, 0, 5, 3]  # (2·1 + 5·3 + 3·4) / 10 = 2.9
    assert mean_level(counts) == pytest.approx(2.9)
    assert end_share(counts, last=2) == pytest.approx(0.8)
    assert end_share(counts, last=-2) == pytest.approx(0.2)


def test_of_many_sets_each_has_its_own_and_one_without_pictures_has_none():
    sets = [[1, 0, 0], [0, 0, 0], [0, 1, 3]]
    np.testing.assert_allclose(mean_level(sets), [1, np.nan, 2.75])
    np.testing.assert_allclose(end_share(sets, last=1), [0, np.nan, 0.75])


@pytest.mark.parametrize("last", [0, 3, -3])
def test_an_end_is_a_part_of_the_scale(last):
    with pytest.raises(InvalidInput, match="1 to 2 of them"):
        end_share([1, 2, 3], last=last)
