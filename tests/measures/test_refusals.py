"""The share of requests that were refused."""

import numpy as np

from bias_core.measures.stereotype import refused_share


def test_it_is_the_share_of_ones():
    # 3 of 7 requests
    assert refused_share([1, 0, 1, 0, 0, 1, 0]) == 3 / 7
    assert refused_share(np.zeros(5)) == 0.0
