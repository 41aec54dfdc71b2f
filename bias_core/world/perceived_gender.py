"""How people of this world look, in four: a linear head on the frozen features of its encoder, and its errors.

The shipped encoder learned two genders. What it makes of androgynous people and of people seen from behind lies apart
from both, so that a head with few numbers reads all four.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import StorageError
from bias_core.types import ClassErrors
from bias_core.world.captions import look_of
from bias_core.world.class_heads import CLASSES, HEADS, ClassHead, load_head
from bias_core.world.grammar import PersonRequest, Request
from bias_core.world.lexicon import book
from bias_core.world.scene import GENDERS, Scene

GENDER_HEADS = PERCEIVED_GENDER, CUT_OUT = "perceived gender", "perceived gender, cut out"
"""The names of the head: for whole pictures of one person, and for people who were cut out of pictures of two."""
FILE = "perceived_gender.npz"


def scenes_in_four(seed: str, n: int, *, pairs: bool = False) -> Iterator[Scene]:
    """``n`` scenes as the renderer draws people of any look, every gender as often as the others."""
    from bias_core.world.planted import sample_scene  # loads scipy

    rng, names = Random(seed), list(book()["looks"])
    for _ in range(n):
        people = []
        for _ in range(1 + pairs):
            name = rng.choice(names)
            gender = frozenset({rng.choice(GENDERS)})
            people.append(PersonRequest(concepts=(name,), parts=vars(look_of(name)), allowed={"gender": gender}))
        yield sample_scene(Request(people=tuple(people)), "fair", rng)


@lru_cache(maxsize=4)
def load_gender_head(name: str, folder: Path = HEADS) -> ClassHead:
    """The head of one of both names, with its errors on scenes of that kind; StorageError for a broken file."""
    path = folder / FILE
    try:
        with np.load(path) as saved:
            weights, bias = saved["weights"].astype(np.float32), saved["bias"].astype(np.float32)
            counts = saved["errors_of_crops" if name == CUT_OUT else "errors_of_pictures"]
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise StorageError(f"cannot read the head for {PERCEIVED_GENDER}, {path}: {error}") from error
    errors = ClassErrors(classes=GENDERS, counts=tuple(tuple(map(int, row)) for row in counts))
    return ClassHead(classes=GENDERS, weights=weights, bias=bias, errors=errors)


def find_head(name: str) -> ClassHead | None:
    """The head of this name, of any attribute; None where there is none."""
    if name in GENDER_HEADS:
        return load_gender_head(name)
    return load_head(name) if name in CLASSES else None
