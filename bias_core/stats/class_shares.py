"""Shares of several classes in pictures, with a reader's errors taken out, and intervals of numbers made of them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array, finite_vector
from bias_core.stats.class_profile import profile_interval
from bias_core.stats.intervals import check_confidence, percent
from bias_core.types import ClassErrors, Estimate

_WORST_CONDITION = 20.0  # of the matrix of errors: beyond it a share's error would grow twentyfold
_STEPS, _SETTLED = 5000, 1e-10  # of the EM iteration
_NO_PICTURE = 1e-3  # pictures: a share of fewer is none
_SMOOTHING = 1.0  # pictures, spread evenly, that variances are computed with
_WIDEST = 40.0  # log of how far ν may lie from where the scale is long
_JEFFREYS = 0.5  # pictures that each entry of the matrix of errors gets for its variance


@dataclass(frozen=True, kw_only=True)
class ClassShares:
    """The share of each class among the pictures of which it can be told."""

    value: Array  # ``(k,)``, adding up to 1
    n: int  # pictures whose class is told
    # What the value would change by, to first order: for one more reading of each kind, (k, m) of m readings
    slopes: Array
    of_readings: Array  # (k, k), covariance of `value` for the chance of pictures
    smoothed: Array  # (m,), shares of all m classes that covariances are computed at
    rows: tuple[Array, ...]  # covariances (m, m) of what is read of each of the m classes; () where nobody errs
    counts: Array  # (m,), pictures read as each class
    errors: Array  # (m, m), how often pictures of each class were read as each; (0, 0) where nobody errs
    likeliest: Array  # (m,), shares of all m classes

    @cached_property
    def covariance(self) -> Array:
        """Of ``value``, ``(k, k)``: for the chance of pictures, and for what is not known of the errors."""
        return self.of_readings + row_noise([share * self.slopes for share in self.smoothed], self.rows)

    def interval(self, scores: ArrayLike, *, confidence: float = 0.95, null_value: float | None = None) -> Estimate:
        """Σ_k scores_k · share_k, with its likelihood interval.

        All values of the sum that some shares have whose log-likelihood lies at most χ²/2 below the largest; shares of
        classes that no picture showed are among them [owen1988]. With errors the likelihood is that of pictures and
        errors together, see :mod:`bias_core.stats.class_profile`: a class that errors alone explain may have none.

        >>> shares = class_shares([0, 20, 0])  # (1 − 0.0916) · 2 + 0.0916 · 3, 0.0916 = 1 − exp(−3.84 / 40)
        >>> round(shares.interval([1, 2, 3]).high, 4)
        2.0916
        """
        check_confidence(confidence)
        a = finite_vector(scores, "scores")
        if a.shape != self.value.shape:
            raise InvalidInput(f"scores are needed for each of the {self.value.size} classes; got {a.size}.")
        value, most = float(self.value @ a), float(stats.chi2.ppf(confidence, 1))
        method = f"{'profile ' if self.errors.size else ''}likelihood {percent(confidence)}"
        if np.ptp(a) == 0:
            low = high = value
        elif self.errors.size:
            _, low, high = profile_interval(self.counts, self.errors, self.likeliest, a, confidence)
        else:
            counts = self.value * self.n
            low, high = -_highest(counts, -a, most), _highest(counts, a, most)
        return Estimate(
            value=value, low=min(low, value), high=max(high, value), n=self.n, null_value=null_value, method=method
        )

    def intervals(self, *, confidence: float = 0.95) -> tuple[Estimate, ...]:
        """Every share with an interval; together they hold all shares as often as ``confidence`` says.

        Exact at 1 − α/k [clopper1934]; each end is moved away by what the reader's errors add, distances as roots of
        summed squares [zou2008].

        >>> [round(one.high, 4) for one in class_shares([8, 0]).intervals()]  # 1 − 0.0125^(1/8), at 1 − 0.05 / 2
        [1.0, 0.4218]
        """
        check_confidence(confidence)
        each, clear = 1 - (1 - confidence) / self.value.size, self._clear
        added = np.maximum(np.diag(self.covariance) - clear * (1 - clear) / self.n, 0.0) if self.rows else 0.0 * clear
        reaches = float(stats.norm.ppf((1 + each) / 2)) * np.sqrt(added)
        shares = []
        for share, reach in zip(self.value.tolist(), reaches.tolist(), strict=True):
            low, high = _exact(share, self.n, each)
            low, high = share - math.hypot(share - low, reach), share + math.hypot(high - share, reach)
            method = f"exact, {percent(confidence)} for all together"
            low, high = max(0.0, low), min(1.0, high)
            shares.append(Estimate(value=share, low=low, high=high, n=self.n, method=method))
        return tuple(shares)

    @property
    def _clear(self) -> Array:
        clear = self.smoothed[: self.value.size]
        return np.asarray(clear / clear.sum())


def class_shares(counts: ArrayLike, errors: ClassErrors | None = None, *, has_unclear: bool = False) -> ClassShares:
    """The share of each class, from how many pictures are read as each.

    q_r = Σ_t p_t M_tr; p maximises Σ_r n_r log q_r over shares [dempster1977], with M_tr the share of pictures of class
    t that are read as r.

    Parameters
    ----------
    counts : array (m,). Pictures read as each class; with ``has_unclear`` the last are those of which nothing can be
        told. These are left out, after what is known of the errors has said how many they are.
    errors : of the reader, of the same m classes; None: it does not err.

    Returns
    -------
    ClassShares : of m classes, or m − 1.

    Raises
    ------
    InvalidInput : for counts that are negative, not whole, not finite or all 0, for fewer than two classes, errors of
        other classes, and errors that are too large to be taken out.

    Notes
    -----
    Variances are those of p = M⁻¹q, computed at shares with one more picture, spread evenly; so constant readings do
    not seem certain. Each row of M adds its multinomial variance, with Jeffreys' half picture in each entry.

    Examples
    --------
    >>> errors = ClassErrors(classes=("a", "b"), counts=((90, 10), (20, 80)))
    >>> class_shares([55, 45], errors).value.round(6).tolist()  # 0.9 p + 0.2 (1 − p) = 0.55
    [0.5, 0.5]
    """
    n_read = _counts(counts, 3 if has_unclear else 2)
    matrix, rows = _matrix(errors, n_read.size)
    m, n = n_read.size, float(n_read.sum())
    k = m - 1 if has_unclear else m
    p = n_read / n if errors is None else _most_likely(n_read, matrix)
    if not p[:k].sum() > _SETTLED:
        raise InvalidInput(f"the class can be told of none of the {n:.0f} pictures.")
    even = np.append(np.full(k, 1 / k), np.zeros(m - k))
    smoothed = (n * p + _SMOOTHING * even) / (n + _SMOOTHING)
    read = smoothed @ matrix
    clear = smoothed[:k].sum()
    conditional = np.hstack([np.eye(k), np.zeros((k, m - k))])
    conditional = (conditional - np.outer(smoothed[:k] / clear, np.append(np.ones(k), np.zeros(m - k)))) / clear
    slopes = conditional @ np.linalg.inv(matrix.T)
    return ClassShares(
        value=p[:k] / p[:k].sum(),
        n=round(n * p[:k].sum()),
        slopes=slopes,
        of_readings=slopes @ (np.diag(read) - np.outer(read, read)) @ slopes.T / n,
        smoothed=smoothed,
        rows=rows,
        counts=n_read,
        errors=np.zeros((0, 0)) if errors is None else np.asarray(errors.counts, dtype=np.float64),
        likeliest=p,
    )


def row_noise(slopes: list[Array], rows: tuple[Array, ...]) -> Array:
    """Covariance ``(k, k)`` for what is not known of the errors; ``slopes``: of each row of the matrix, ``(k, m)``."""
    k = len(slopes[0])
    parts = (a @ row @ a.T for a, row in zip(slopes, rows, strict=False))
    return np.asarray(sum(parts, np.zeros((k, k))))


def _counts(counts: ArrayLike, fewest: int) -> Array:
    given = finite_vector(counts, "counts")
    if given.size < fewest:
        raise InvalidInput(f"counts are needed for at least {fewest} classes; got {given.size}.")
    if (given < 0).any() or (given != np.round(given)).any() or not given.any():
        raise InvalidInput(f"counts are whole numbers of at least one picture; got {given.tolist()}.")
    return given


def _matrix(errors: ClassErrors | None, m: int) -> tuple[Array, tuple[Array, ...]]:
    """How each class is read, ``(m, m)``, and the covariance of each row."""
    if errors is None:
        return np.eye(m), ()
    counts = np.asarray(errors.counts, dtype=np.float64)
    if counts.shape != (m, m) or (counts < 0).any() or not counts.sum(axis=1).all():
        raise InvalidInput(f"errors are needed of {m} classes, counted on pictures of each; got {counts.shape}.")
    matrix = counts / counts.sum(axis=1, keepdims=True)
    if np.linalg.cond(matrix) > _WORST_CONDITION:
        raise InvalidInput("the reader errs too often to tell these classes apart: read them otherwise.")
    rows = []
    for row in counts:
        share = (row + _JEFFREYS) / (row.sum() + m * _JEFFREYS)
        rows.append((np.diag(share) - np.outer(share, share)) / (row.sum() + 1))
    return matrix, tuple(rows)


def _most_likely(counts: Array, matrix: Array) -> Array:
    """Shares of the classes by EM."""
    p = np.full(counts.size, 1 / counts.size)
    for _ in range(_STEPS):
        read = p @ matrix
        ratio = np.divide(counts, read, out=np.zeros_like(read), where=counts > 0)
        new = p * (matrix @ ratio) / counts.sum()
        settled, p = bool(np.abs(new - p).max() < _SETTLED), new
        if settled:
            break
    p = np.where(p * counts.sum() < _NO_PICTURE, 0.0, p)  # which the iteration only comes near to
    return np.asarray(p / p.sum())


def _highest(counts: Array, scores: Array, most: float) -> float:
    """The largest Σ scores·p with 2 Σ counts log(counts / (N p)) ≤ ``most``.

    p is proportional to counts / (ν − scores) for some ν above all scores; where no picture has the largest score, that
    class may have a share of its own, π = 1 − exp(−(most − what the others need) / 2N).
    """
    top, total = float(scores.max()), float(counts.sum())
    present = counts > 0
    below, c = top - scores[present], counts[present]  # how far each class lies below the top
    if not below.any():
        return top

    def shares(above: float) -> Array:
        """Of ν = top + ``above``."""
        weights = c / (above + below)
        return np.asarray(weights / weights.sum())

    def needed(above: float) -> float:
        return 2 * float(c @ np.log(c / c.sum() / shares(above)))

    if below.all() and needed(0.0) <= most:
        own = -math.expm1((needed(0.0) - most) / (2 * total))
        return top - (1 - own) * float(shares(0.0) @ below)
    width = math.log(below.max())
    if needed(math.exp(width - _WIDEST)) <= most:  # hardly a picture: nothing is ruled out
        return top
    log_above = brentq(lambda x: needed(math.exp(x)) - most, width - _WIDEST, width + _WIDEST, xtol=1e-9)
    return top - float(shares(math.exp(log_above)) @ below)


def _exact(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Ends of the exact interval of a share of ``n`` pictures, which need be no whole number [clopper1934]."""
    alpha, x = (1 - confidence) / 2, share * n
    low = float(stats.beta.ppf(alpha, x, n - x + 1)) if x > 0 else 0.0
    high = float(stats.beta.ppf(1 - alpha, x + 1, n - x)) if x < n else 1.0
    return min(low, share), max(high, share)
