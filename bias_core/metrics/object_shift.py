"""Whether the objects of some pictures are others than those of a base, all at once."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import entr

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.object_distribution import ImageObjects
from bias_core.metrics.object_odds import presence_with_base
from bias_core.stats.arrays import Array
from bias_core.stats.permutation import TIE, Seed

_LARGEST_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, kw_only=True)
class ObjectShift:
    """The distance of two distributions of objects, and whether chance alone explains it."""

    divergence: float  # Jensen–Shannon, in [0, 1]; above 0 by chance alone, the more the fewer the pictures
    chance: float  # its mean where pictures and base are exchanged at random
    p_value: float  # in (0, 1], of a divergence at least as large by chance
    n: int  # pairs, or pictures of both
    n_objects: int  # different ones, of both
    note: str  # why there is nothing to test, or ""

    @property
    def excess(self) -> float:
        """The divergence beyond chance; about 0 where pictures and base show the same."""
        return self.divergence - self.chance


def object_shift(
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    paired: bool = True,
    n_permutations: int = 1999,
    rng: Seed = 0,
) -> ObjectShift:
    """Jensen–Shannon divergence of the objects of some pictures from those of a base, with its permutation p-value.

    JS = H((P + Q) / 2) − (H(P) + H(Q)) / 2, H in bits, P and Q the objects' shares [lin1991]

    Parameters
    ----------
    image_objects, base_objects : one collection of words per image. Of pairs, entry i of both is of one prompt and
        seed.
    paired : bool. Exchange the two pictures of a pair; False: shuffle the pictures of both.
    n_permutations : int >= 1

    Returns
    -------
    ObjectShift : 0: the same shares of all objects, 1: no object in common. It is biased upwards in few pictures, so
        the p-value, or the excess over chance, is to be read.

    Raises
    ------
    InvalidInput : for no images, numbers of pairs that differ, a side without an object, or no permutation.

    Examples
    --------
    >>> round(object_shift([["cup"], ["cup", "dog"]], [["dog"], ["dog"]]).divergence, 4)
    0.4591
    """
    if n_permutations < 1:
        raise InvalidInput(f"n_permutations must be at least 1; got {n_permutations}.")
    words, ours, theirs = presence_with_base(image_objects, base_objects, paired=paired)
    counts = [np.asarray(side.sum(axis=0), dtype=float).ravel() for side in (ours, theirs)]
    for name, side in zip(("image_objects", "base_objects"), counts, strict=True):
        if not side.sum():
            raise InvalidInput(f"No image of {name} shows an object: there are no shares to compare.")
    observed = float(_divergence(counts[0][None], counts[1][None])[0])
    n = ours.shape[0] if paired else ours.shape[0] + theirs.shape[0]
    sizes = {"n": n, "n_objects": len(words)}
    if not (ours - theirs).count_nonzero() if paired else n < 2:
        note = "every picture shows the objects of the base's picture"
        return ObjectShift(divergence=observed, chance=observed, p_value=1.0, note=note, **sizes)
    drawn = _by_chance(ours, theirs, paired, n_permutations, np.random.default_rng(rng))
    return ObjectShift(
        divergence=observed,
        chance=float(drawn.mean()),
        p_value=(1 + int((drawn >= observed - TIE).sum())) / (1 + n_permutations),
        note="",
        **sizes,
    )


def _by_chance(ours: csr_array, theirs: csr_array, paired: bool, n_draws: int, rng: np.random.Generator) -> Array:
    """The divergence where pictures and base are exchanged at random, ``(n_draws,)``."""
    total = np.asarray(ours.sum(axis=0) + theirs.sum(axis=0), dtype=float).ravel()
    first = ours.shape[0]
    pooled = (theirs - ours).tocsr() if paired else _stacked(ours, theirs)
    fixed = np.asarray(ours.sum(axis=0), dtype=float).ravel() if paired else np.zeros(len(total))
    transposed, values = pooled.T.tocsr(), []
    block = max(1, _LARGEST_BLOCK // max(pooled.shape))
    for start in range(0, n_draws, block):
        size = min(block, n_draws - start), pooled.shape[0]
        if paired:
            chosen = rng.integers(0, 2, size=size)
        else:
            chosen = rng.permuted(np.tile(np.arange(size[1]) < first, (size[0], 1)), axis=1).astype(int)
        counts = fixed + (transposed @ chosen.T).T
        values.append(_divergence(counts, total - counts))
    return np.concatenate(values)


def _stacked(ours: csr_array, theirs: csr_array) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack([ours, theirs]))


def _divergence(ours: Array, theirs: Array) -> Array:
    """Of each row of counts, ``(b, k)`` -> ``(b,)``; a side without any object is as far as can be."""
    totals = [side.sum(axis=1, keepdims=True) for side in (ours, theirs)]
    p, q = (
        np.divide(side, total, out=np.zeros(side.shape), where=total > 0)
        for side, total in zip((ours, theirs), totals, strict=True)
    )
    nats = entr((p + q) / 2).sum(axis=1) - (entr(p).sum(axis=1) + entr(q).sum(axis=1)) / 2
    empty = (totals[0] * totals[1])[:, 0] == 0
    return np.asarray(np.where(empty, 1.0, np.clip(nats / math.log(2), 0.0, 1.0)))


CARDS = (
    Card(
        function=object_shift,
        field="divergence",
        name="Shift of the objects from the base",
        summary="How far the shares of all objects are from those of the same scenes under the base, in one number.",
        source="lin1991, JS",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="other objects than in the base",
        inputs=takes(
            image_objects="words: objects that each image's caption names",
            base_objects="words: the same of the picture of the base with this prompt and seed",
        ),
        limits="It is above 0 by chance alone, more so in few images: its permutation p-value is what counts, and it "
        "does not say which object.",
    ),
)
