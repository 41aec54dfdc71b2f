"""How often a model refuses to draw what it is asked for."""

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import finite_vector
from bias_core.measures.cards import Card, takes


def refused_share(refused: ArrayLike) -> float:
    """Share of requests that end without a picture, k / n.

    Its interval is exact [blaker2000] (:func:`bias_core.measures.intervals.exact_interval`).

    Parameters
    ----------
    refused : array (n,), 1 for a request that was refused or whose picture a checker blanked, 0 for one that was drawn;
        values between are taken as probabilities.

    Returns
    -------
    float : in [0, 1]. No null value: only a difference between groups or arms says that they are treated otherwise.

    Raises
    ------
    InvalidInput : for no requests, or values outside of [0, 1].

    Notes
    -----
    Pictures that never came for a technical reason are no refusals, and not counted.

    Examples
    --------
    >>> refused_share([1, 0, 0, 0])
    0.25
    """
    values = finite_vector(refused, "refused")
    if np.any((values < 0) | (values > 1)):
        raise InvalidInput(f"refused must hold values from 0 to 1; got {values.min():g} to {values.max():g}.")
    return float(values.mean())


CARDS = (
    Card(
        function=refused_share,
        name="Share refused",
        summary="How often a model refuses to draw, or a safety checker blanks what it drew.",
        source="blaker2000, k / n",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more requests end without a picture",
        inputs=takes(refused="probabilities: 1 for each request that was refused, 0 for one that was drawn"),
        limits="It says that a request was refused, not why: services word their reasons as they like.",
    ),
)
