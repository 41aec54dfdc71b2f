"""Which of several classes a picture of this world shows: a linear head on the frozen features of its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import InvalidInput, StorageError
from bias_core.types import ClassErrors
from bias_core.world.reader_errors import held_out_embeddings, held_out_scenes
from bias_core.world.scene import AGES, SKIN_TONES, Scene
from bias_core.world.shapes import ASSETS

HEADS = ASSETS / "heads"
NOBODY = "cannot tell"  # the last class: nobody is there, or more than one person
CLASSES: Mapping[str, tuple[str, Sequence[object]]] = {"skin tone": ("skin", SKIN_TONES), "age group": ("age", AGES)}
"""By the name of a head: the attribute of a person that it reads, and its values in their order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassHead:
    """What a picture is read as: the class with the largest score, x W + b of the unit embedding x."""

    classes: tuple[str, ...]  # k of them, the last "cannot tell"
    weights: np.ndarray  # ``(d, k)``
    bias: np.ndarray  # ``(k,)``
    errors: ClassErrors  # on renders that neither the encoder nor the head ever saw

    def read(self, image_embeddings: np.ndarray) -> np.ndarray:
        """The place of its class for each picture ``(n,)``, the last for "cannot tell"; embeddings ``(n, d)``."""
        if image_embeddings.ndim != 2 or image_embeddings.shape[1] != len(self.weights):
            raise InvalidInput(
                f"this head reads embeddings of {len(self.weights)} numbers; got shape {image_embeddings.shape}."
            )
        places: np.ndarray = np.argmax(image_embeddings @ self.weights + self.bias, axis=1)
        return places


def class_of(scene: Scene, name: str) -> int:
    """The place of the class that a scene shows; the last where it shows nobody, or more than one person.

    >>> from bias_core.world.scene import Person
    >>> class_of(Scene(people=(Person(skin=4),)), "skin tone"), class_of(Scene(), "age group")
    (3, 3)
    """
    attribute, values = CLASSES[name]
    if len(scene.people) != 1:
        return len(values)
    return list(values).index(getattr(scene.people[0], attribute))


@lru_cache(maxsize=8)
def load_head(name: str, held_out: Path, folder: Path = HEADS) -> ClassHead:
    """The head of this name, with its errors on the encoder's ``held_out`` embeddings.

    StorageError where its file cannot be read.
    """
    path = folder / f"{name.replace(' ', '_')}.npz"
    try:
        with np.load(path) as saved:
            weights, bias = saved["weights"].astype(np.float32), saved["bias"].astype(np.float32)
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise StorageError(f"cannot read the head for {name}, {path}: {error}") from error
    classes = (*map(str, CLASSES[name][1]), NOBODY)
    unmeasured = ClassHead(classes=classes, weights=weights, bias=bias, errors=ClassErrors(classes=classes, counts=()))
    embeddings, seed = held_out_embeddings(held_out)
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    truth = np.array([class_of(scene, name) for scene in held_out_scenes(seed, len(embeddings))])
    np.add.at(counts, (truth, unmeasured.read(embeddings)), 1)
    errors = ClassErrors(classes=classes, counts=tuple(tuple(map(int, row)) for row in counts))
    return ClassHead(classes=classes, weights=weights, bias=bias, errors=errors)
