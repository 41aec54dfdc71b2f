"""Valid and degenerate inputs of every kind that a measure takes, for the tests that all measures share."""

import math

import numpy as np
import pandas as pd

from bias_core.measures.cards import METRICS
from bias_core.measures.object_bias import DIMENSIONS

D = 7
SIZES = (3, 5, 2, 11, 13, 17)  # primes, all different: equal sizes hide a transpose
N_PAIRED = 5  # of inputs that belong together entry by entry
WORDS = ("person", "book", "tree", "car", "dog", "lamp")


def in_cells(*counts):
    """Readings with so many people or pictures in each cell, in binary order."""
    k = int(math.log2(len(counts)))
    cells = [[(cell >> (k - 1 - j)) & 1 for j in range(k)] for cell in range(len(counts))]
    return np.repeat(cells, counts, axis=0)


def arguments(key, rng):
    """One valid value per input of a measure; paired inputs share their length."""
    entries = METRICS[key].inputs
    return [MAKE[entry.kind](rng, size) for size, entry in zip(SIZES, entries, strict=False)]


def _words(rng, _size):
    return [set(rng.choice(WORDS, size=rng.integers(1, 4), replace=False)) for _ in range(N_PAIRED)]


def _labels(rng, _size):
    n = 23
    identities = rng.choice(["nurse", "carpenter"], size=n)
    return pd.DataFrame(
        {
            "identity": identities,
            "stereotyped_gender": np.where(identities == "nurse", "feminine", "masculine"),
            "perceived_gender": ["masculine", *rng.choice(["masculine", "feminine", "cannot_identify"], size=n - 1)],
            "image_id": [f"i{i // 2}" for i in range(n)],
            "setting": "paired",
            "position": ["left" if i % 2 else "right" for i in range(n)],
        }
    )


def _ratings(rng, _size):
    return np.vstack([["masculine", "feminine", "feminine"], rng.choice(["masculine", "feminine"], (10, 3))])


def _answers(rng, _size):
    return np.append(["masculine", "feminine"], rng.choice(["masculine", "feminine"], N_PAIRED - 2))


def _table(rng, size):
    return pd.DataFrame(
        rng.uniform(0.1, 0.9, size=(size + 1, 3)),
        columns=list(DIMENSIONS),
        index=[f"model {i}" for i in range(size + 1)],
    )


MAKE = {
    "embeddings": lambda rng, size: rng.normal(size=(size, D)),
    "direction": lambda rng, _size: rng.normal(size=D),
    "similarities": lambda rng, _size: rng.uniform(-1, 1, size=N_PAIRED),
    "probability": lambda rng, _size: float(rng.uniform()),
    "probabilities": lambda rng, _size: rng.uniform(size=N_PAIRED),
    "score": lambda rng, _size: float(rng.uniform(0.1, 0.4) * rng.choice([-1, 1])),
    "place": lambda rng, _size: float(rng.uniform(0.1, 0.9)),
    "counts": lambda rng, _size: np.append(rng.integers(1, 40, size=6), 41),
    "words": _words,
    "labels": _labels,
    "ratings": _ratings,
    "answers": _answers,
    "velocity": lambda rng, _size: rng.normal(size=(2, 3, 5)),
    "table": _table,
    "levels": lambda rng, _size: np.append(rng.integers(0, 40, size=4), 7),
    "readings": lambda rng, _size: np.vstack([[[1, 1], [0, 0], [1, 0]], rng.integers(0, 2, size=(8, 2))]),
}

DEGENERATE = {
    "embeddings": {
        "empty": np.empty((0, D)), "zero": np.zeros((3, D)), "flat": np.ones(D), "scalar": 0.5, "wider": np.eye(D + 1),
    },
    "direction": {
        "empty": np.empty(0), "zero": np.zeros(D), "scalar": 0.5, "longer": np.ones(D + 1), "row": np.ones((1, D)),
        "infinite": np.full(D, math.inf),
    },
    "similarities": {"empty": np.empty(0), "scalar": 0.5, "longer": np.zeros(N_PAIRED + 1)},
    "probability": {"above": 1.5, "below": -0.5, "array": np.array([0.5, 0.5])},
    "probabilities": {"empty": np.empty(0), "scalar": 0.5, "above": np.array([0.5, 1.5]), "below": np.array([-0.5])},
    "score": {"array": np.array([0.5, 0.5])},
    "place": {"array": np.array([0.5, 0.5])},
    "counts": {
        "empty": np.empty(0), "zero": np.zeros(4), "negative": np.array([3, -1]), "scalar": 0.5, "rows": [[1, 2]],
        "words": ["a", "b"],
    },
    "levels": {"empty": np.empty(0), "zero": np.zeros(4), "negative": np.array([3, -1]), "scalar": 0.5},
    "words": {"empty": [], "longer": [{"book"}] * (N_PAIRED + 1), "text": "book"},
    "labels": {"empty": pd.DataFrame(), "no column": pd.DataFrame({"identity": ["nurse"]})},
    "ratings": {"empty": np.empty((0, 3)), "one rater": np.array([["feminine"], ["masculine"]])},
    "answers": {"empty": [], "scalar": "feminine", "longer": ["feminine"] * (N_PAIRED + 1)},
    "velocity": {"empty": np.empty(0), "zero": np.zeros((2, 3, 5)), "shape": np.ones((2, 3, 4))},
    "table": {
        "empty": pd.DataFrame(), "no column": pd.DataFrame({"a": [1.0, 2.0]}), "list": [[9, 0.1, 0.0], [1, 0.9, 0.5]],
        "one model": pd.DataFrame([[9, 0.1, 0.0]], columns=list(DIMENSIONS)),
        "nan": pd.DataFrame([[9, 0.1, 0.0], [1, 0.9, math.nan]], columns=list(DIMENSIONS)),
    },
    "readings": {"empty": np.empty((0, 2)), "other": [[0, 2]], "one attribute": [[1], [0]], "flat": np.ones(3)},
}  # fmt: skip
NUMBERS = tuple(kind for kind in MAKE if kind not in ("words", "labels", "ratings", "answers", "table"))
"""Kinds that are arrays or numbers: nan must be refused, float16 taken."""


def degenerate(kind):
    """Name and value of each bad input of a kind."""
    bad = dict(DEGENERATE[kind])
    if kind in NUMBERS:
        value = MAKE[kind](np.random.default_rng(3), 3)
        bad["nan"] = np.full_like(np.asarray(value, dtype=float), math.nan) if np.ndim(value) else math.nan
    return bad.items()
