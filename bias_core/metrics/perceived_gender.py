"""Perceived gender in four: how often each look is seen, and which side the people lean to."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.class_profile import profile_interval
from bias_core.stats.class_shares import class_shares
from bias_core.stats.intervals import percent
from bias_core.stats.sequential import confidence_sequence, share_interval
from bias_core.types import ClassErrors, Estimate


def look_shares(
    counts: ArrayLike, *, errors: ClassErrors | None = None, fixed_n: bool = True, confidence: float = 0.95
) -> tuple[Estimate, ...]:
    """Share of the pictures in each class, corrected for the reader's errors where these are known.

    q_r = Σ_t p_t M_tr: p maximises Σ_r n_r log q_r over shares, M_tr being how often class t is read as r
    [dempster1977].

    Parameters
    ----------
    counts : array (k,), pictures read as each class, such as feminine, masculine, androgynous, unclear.
    errors : of the reader, of the same classes; None: it is taken to make none.
    fixed_n : whether the number of pictures was fixed beforehand; else the intervals hold at any time, and nothing is
        corrected (InvalidInput with ``errors``).

    Returns
    -------
    tuple of Estimate : (k,), in [0, 1], adding up to 1; with likelihood intervals, which have a width also where a
        class is never seen; with errors profile likelihood intervals, which hold 0 where errors alone explain a class.

    Raises
    ------
    InvalidInput : for counts that are not whole, negative or all 0, fewer than two classes, or errors of others.

    Notes
    -----
    The unclear are a class here, and not left out: that somebody cannot be seen is a fact about the picture.

    Examples
    --------
    >>> [round(share.value, 2) for share in look_shares([11, 2, 4, 3])]
    [0.55, 0.1, 0.2, 0.15]
    """
    counted = class_shares(counts, errors)  # which checks both
    k = counted.value.size
    if fixed_n and errors is None:
        return tuple(counted.interval(np.eye(k)[place], confidence=confidence) for place in range(k))
    whole = np.asarray(counts, dtype=float)
    if fixed_n:
        table, shares = np.asarray(getattr(errors, "counts", ()), dtype=float), []
        for place in range(k):
            fitted = profile_interval(whole, table, counted.value, np.eye(k)[place], confidence)
            shares.append(_estimate(fitted, int(whole.sum()), confidence))
        return tuple(shares)
    if errors is not None:
        raise InvalidInput("shares are corrected only where the number of pictures was fixed beforehand.")
    n = int(whole.sum())
    return tuple(share_interval(int(count), n, fixed_n=False, confidence=confidence) for count in whole)


def first_look_share(counts: ArrayLike, *, errors: ClassErrors | None = None, confidence: float = 0.95) -> Estimate:
    """Share of the first class, as :func:`look_shares` has it [dempster1977].

    Parameters
    ----------
    counts, errors : as there.

    Returns
    -------
    Estimate : in [0, 1].

    Raises
    ------
    InvalidInput : as there.

    Examples
    --------
    >>> first_look_share([11, 2, 4, 3]).value
    0.55
    """
    return look_shares(counts, errors=errors, confidence=confidence)[0]


def gender_lean(
    counts: ArrayLike, *, errors: ClassErrors | None = None, fixed_n: bool = True, confidence: float = 0.95
) -> Estimate:
    """Which side the people lean to: the share of the second class less that of the first, among all but the last.

    (p_2 - p_1) / (1 - p_k): of feminine, masculine, androgynous and unclear people the stereotype test score of a
    masculine stereotype over 100 [wan2024pst, Eq. 1], with 0 for androgynous people and without the unclear.

    Parameters
    ----------
    counts : array (k,), pictures read as each class: either side, any that are neither, and last the unclear.
    errors, fixed_n : as :func:`look_shares` takes them.

    Returns
    -------
    Estimate : in [-1, 1], null value 0: as many of either side; positive: more of the second.

    Raises
    ------
    InvalidInput : as :func:`look_shares`, for fewer than three classes, and where all pictures are unclear.

    Examples
    --------
    >>> round(gender_lean([11, 2, 4, 3]).value, 3)  # (2 - 11) / 17
    -0.529
    """
    counted = class_shares(counts, errors, has_unclear=True)
    k = counted.value.size
    if fixed_n and errors is None:
        return counted.interval([-1.0, 1.0, *[0.0] * (k - 2)], confidence=confidence, null_value=0.0)
    if errors is not None and not fixed_n:
        raise InvalidInput("a lean is corrected only where the number of pictures was fixed beforehand.")
    if errors is not None:
        table, whole = np.asarray(errors.counts, dtype=float), np.asarray(counts, dtype=float)
        shares = class_shares(counts, errors).value
        fitted = profile_interval(whole, table, shares, np.array([-1.0, 1.0, *[0.0] * (k - 2)]), confidence)
        return replace(_estimate(fitted, counted.n, confidence), null_value=0.0)
    first, second, *_ = counted.value
    half = 0.5 + (second - first) / 2  # of the people who count, those of the second side and half of the neither
    sequence = confidence_sequence(float(half * counted.n), counted.n, confidence=confidence)
    return replace(sequence.scaled(2.0, -1.0), null_value=0.0)


def _estimate(fitted: tuple[float, float, float], n: int, confidence: float) -> Estimate:
    value, low, high = fitted
    return Estimate(value=value, low=low, high=high, n=n, method=f"profile likelihood {percent(confidence)}")


_INPUTS = takes(counts="levels: pictures read as each look; the last is unclear")
CARDS = (
    Card(
        function=first_look_share,
        key="look_share",
        field="value",
        name="Share of a look",
        summary="How often people look feminine, masculine, androgynous, or are seen so that nobody can say.",
        source="dempster1977, maximum likelihood",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="that look is seen more often",
        inputs=_INPUTS,
        limits="A look is what somebody else sees, never who a person is.",
    ),
    Card(
        function=gender_lean,
        field="value",
        name="Lean over four looks",
        summary="How many more people look masculine than feminine, with androgynous people for neither side.",
        source="wan2024pst, Eq. 1",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more masculine-looking people; negative: more feminine-looking ones",
        inputs=_INPUTS,
        limits="People of whom nobody can say how they look are left out: read it beside their share.",
    ),
)
