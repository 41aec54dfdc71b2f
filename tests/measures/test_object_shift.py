"""The shift of all objects at once: by hand, by scipy, with nothing planted and with more and more of an object."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from bias_core.errors import InvalidInput
from bias_core.measures.object_comparison import object_shift
from tests.measures.test_object_odds import RARE, pictures


def test_the_divergence_by_hand():
    # Shares (1, 0) and (0, 1) have nothing in common; (1/2, 1/2) and (0, 1) have the middle (1/4, 3/4):
    # H = .8113 bits, less (1 + 0) / 2.
    assert object_shift([["cup"]] * 2, [["dog"]] * 2).divergence == 1
    middle = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert object_shift([["cup"], ["dog"]], [["dog"], ["dog"]]).divergence == pytest.approx(middle - 0.5)


@pytest.mark.parametrize("paired", [True, False])
def test_the_divergence_is_that_of_scipy(paired):
    rng = np.random.default_rng(0)
    ours, base = pictures(RARE, 31, rng), pictures(RARE[::-1], 31, rng)
    words = sorted({w for image in [*ours, *base] for w in image})
    shares = [[sum(w in image for image in side) for w in words] for side in (ours, base)]
    assert object_shift(ours, base, paired=paired).divergence == pytest.approx(jensenshannon(*shares, base=2) ** 2)


def test_four_pairs_have_the_p_value_of_all_their_exchanges():
    # The observed labels and their mirror alone put all cups on one side: 2 of 2⁴.
    shift = object_shift([["cup"]] * 4, [["dog"]] * 4, n_permutations=7999)
    assert shift.p_value == pytest.approx(2 / 16, abs=0.02)
    assert shift.n == 4


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_p_is_uniform_where_nothing_is_planted(paired):
    rng = np.random.default_rng(5)
    p = [
        object_shift(
            pictures(RARE, 30, rng), pictures(RARE, 30, rng), paired=paired, n_permutations=199, rng=rng
        ).p_value
        for _ in range(400)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.07
    for level in (0.25, 0.5, 0.75):
        assert np.mean(np.array(p) <= level) == pytest.approx(level, abs=0.1)


def test_more_of_a_planted_object_is_a_larger_shift():
    rng = np.random.default_rng(2)
    base, ours = pictures(RARE, 80, rng), pictures(RARE, 80, rng)
    draws = rng.random(80)
    planted = [
        object_shift([[*words, "sign"] if u < share else words for words, u in zip(ours, draws, strict=True)], base)
        for share in (0, 0.2, 0.5, 0.9)
    ]
    assert [one.excess for one in planted] == sorted(one.excess for one in planted)
    assert planted[-1].p_value == 1 / 2000
    assert planted[0].p_value > 0.05


def test_equal_pictures_are_nothing_to_test():
    shift = object_shift([["cup"], ["dog"]], [["cup"], ["dog"]])
    assert (shift.divergence, shift.excess, shift.p_value) == (0, 0, 1)
    assert "every picture" in shift.note


def test_a_side_without_objects_is_refused():
    with pytest.raises(InvalidInput, match="No image of base_objects"):
        object_shift([["cup"]], [[]])
    with pytest.raises(InvalidInput, match="n_permutations"):
        object_shift([["cup"]], [["cup"]], n_permutations=0)
