"""The share of requests that were refused."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.refusals import refused_share
from bias_core.stats.intervals import wilson_interval


def test_it_is_the_share_of_ones():
    # 3 of 7 requests
    assert refused_share([1, 0, 1, 0, 0, 1, 0]) == 3 / 7
    assert refused_share(np.zeros(5)) == 0.0


def test_its_interval_is_wilsons():
    # (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n) of 1 in 10 with z = 1.96: (0.1 + 0.19207 ± 0.2741) / 1.38415
    estimate = wilson_interval(1, 10)
    assert (estimate.value, round(estimate.low, 3), round(estimate.high, 3)) == (0.1, 0.018, 0.404)


@pytest.mark.parametrize("bad", [[], [2], [-1], [float("nan")], 0.5])
def test_what_is_no_list_of_requests_is_refused(bad):
    with pytest.raises(InvalidInput):
        refused_share(bad)
