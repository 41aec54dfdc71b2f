"""Which things of a prompt a picture lacks, from somebody who is asked about each.

TBYB's M_G asks whether a picture fits its prompt better than a blank, which nearly every picture does.
"""

import numpy as np
from numpy.typing import ArrayLike

from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import finite_vector, probability
from bias_core.stats.effects import corrected_by_errors, share_interval
from bias_core.types import Estimate, ReaderErrors


def missing_things(
    p_yes: ArrayLike, *, errors: ReaderErrors | None = None, threshold: float = 0.5, confidence: float = 0.95
) -> Estimate:
    """Share of the named things that pictures do not show, by the answers of a judge.

    1 − 1/N Σ_i 1(P(yes)_i > threshold), over every thing that the prompt of a picture names (in place of M_G:
    [vice2023tbyb, Eq. 5])

    Parameters
    ----------
    p_yes : array (n,) in [0, 1]. Probability of "yes" to "Does this picture show a ...?", of each thing and picture.
    errors : of the judge on such things, or None. With them the share is corrected [rogan1978].

    Returns
    -------
    Estimate : in [0, 1]; 0 (its null value): everything that was asked for is there.

    Raises
    ------
    InvalidInput : for empty or not finite probabilities, any outside [0, 1], or a judge that errs as often as not.

    Examples
    --------
    >>> missing_things([0.9, 0.8, 0.2, 0.7]).value
    0.25
    """
    values = finite_vector(p_yes, "p_yes")
    probability(float(values.min()), "p_yes")
    probability(float(values.max()), "p_yes")
    n_yes, n = int(np.count_nonzero(values > probability(threshold, "threshold"))), len(values)
    if errors is None:
        return share_interval(n - n_yes, n, confidence=confidence, null_value=0.0)
    shown = corrected_by_errors(n_yes, n, errors, confidence=confidence)
    return Estimate(
        value=1 - shown.value,
        low=1 - shown.high,
        high=1 - shown.low,
        n=n,
        null_value=0.0,
        method=shown.method,
        note=shown.note,
    )


CARDS = (
    Card(
        function=missing_things,
        field="value",
        name="Missing things, by a judge",
        summary="The share of the things named in prompts that a judge does not see in the pictures.",
        source="vice2023tbyb, Eq. 5, by questions",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more of what was asked for is missing",
        inputs=takes(p_yes="probabilities: of the answer yes about each thing in each image"),
        limits="A judge errs on small and unusual things: without its known errors the share is as it says.",
    ),
)
