"""How varied the objects of pictures are, with what few pictures miss put right."""

import math

import numpy as np
from numpy.typing import ArrayLike

from bias_core.metrics.cards import Card, takes
from bias_core.metrics.evenness import positive_counts


def chao_shen_entropy(counts: ArrayLike) -> float:
    """Entropy of the objects' shares, corrected for objects that few pictures miss.

    H = −Σ_i C p_i ln(C p_i) / (1 − (1 − C p_i)^n), C = 1 − f₁ / n, f₁ the objects counted once [chao2003]

    Parameters
    ----------
    counts : array (k,), >= 0. How often each object appears; n is their sum. Zeros are left out.

    Returns
    -------
    float : in nats, from 0 (one object alone), without an upper end. There is no null value: compare with a base. nan
        where every object was counted once: nothing then tells how many there are.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts.

    Notes
    -----
    The plug-in entropy of n counts is too small by about (k − 1) / 2n, and by more where objects were missed; its
    ratio to ln k moves with the number of pictures alone.

    Examples
    --------
    >>> round(chao_shen_entropy([8, 1, 1]), 4), chao_shen_entropy([7]), chao_shen_entropy([1, 1])
    (1.0001, 0.0, nan)
    """
    values = positive_counts(counts)
    n = values.sum()
    coverage = 1 - (values == 1).sum() / n
    if not coverage:
        return math.nan
    shares = coverage * values / n
    if values.size == 1:
        return 0.0
    terms = -shares * np.log(shares) / -np.expm1(n * np.log1p(-shares))
    return float(terms.sum())


CARDS = (
    Card(
        function=chao_shen_entropy,
        name="Entropy of the objects (Chao–Shen)",
        summary="How varied the objects are, with those that few pictures miss allowed for.",
        source="chao2003, H",
        bounds=(0.0, math.inf),
        null_value=None,
        higher_means="more varied objects",
        inputs=takes(counts="counts: in how many images each object appears"),
        limits="What an unbiased scene would show is not known: compare it with a base on the same prompts.",
    ),
)
