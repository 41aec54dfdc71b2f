"""Which of several classes a picture of this world shows: a linear head on the frozen features of its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import InvalidInput, StorageError
from bias_core.types import ClassErrors
from bias_core.world.grammar import parse
from bias_core.world.reader_errors import held_out_embeddings, held_out_scenes
from bias_core.world.scene import AGES, SKIN_TONES, Scene
from bias_core.world.shapes import ASSETS

HEADS = ASSETS / "heads"
NOBODY = "cannot tell"  # the last class: no face is there, or more than one person
BEHIND = "unclear"  # the gender of who is seen from behind
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
    """The place of the class that a scene shows; the last where it shows no face, or more than one person.

    >>> from bias_core.world.scene import Person
    >>> class_of(Scene(people=(Person(skin=4),)), "skin tone"), class_of(Scene(), "age group")
    (3, 3)
    """
    attribute, values = CLASSES[name]
    if len(scene.people) != 1 or scene.people[0].gender == BEHIND:
        return len(values)
    return list(values).index(getattr(scene.people[0], attribute))


def class_rates(prompt: str, condition: str, name: str) -> tuple[float, ...]:
    """The share of people drawn in every class, of a prompt about one person.

    >>> [round(share, 3) for share in class_rates("a photo of a student", "tones", "age group")]
    [0.3, 0.6, 0.1]
    """
    from bias_core.world.planted import rates  # loads scipy

    attribute, values = CLASSES[name]
    people = parse(prompt).people
    if len(people) != 1:
        raise InvalidInput(f"shares of classes are known of one person, got {prompt!r}")
    allowed, table = people[0].allowed, rates(people[0].concepts, condition, role=people[0].parts.get("role", "none"))
    even = dict.fromkeys(values, 1.0)
    weights = even if attribute == "skin" and "skin" in allowed else table.get(attribute, even)
    some = {value: weights.get(value, 0.0) for value in values if value in allowed.get(attribute, values)}
    if not sum(some.values()):  # asked for, and never drawn by itself
        some = dict.fromkeys(some, 1.0)
    return tuple(some.get(value, 0.0) / sum(some.values()) for value in values)


@lru_cache(maxsize=8)
def load_head(name: str, folder: Path = HEADS) -> ClassHead:
    """The head of this name, with its errors on renders that were held out; StorageError where it cannot be read."""
    path, classes = folder / f"{name.replace(' ', '_')}.npz", (*map(str, CLASSES[name][1]), NOBODY)
    try:
        with np.load(path) as saved:
            weights, bias, counts = (saved[key] for key in ("weights", "bias", "counts"))
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise StorageError(f"cannot read the head for {name}, {path}: {error}") from error
    errors = ClassErrors(classes=classes, counts=tuple(tuple(map(int, row)) for row in counts))
    return ClassHead(classes=classes, weights=weights, bias=bias, errors=errors)


def count_errors(name: str, weights: np.ndarray, bias: np.ndarray, held_out: Path) -> np.ndarray:
    """How often a head reads each class as each, ``(k, k)``, on the encoder's ``held_out`` embeddings."""
    embeddings, seed = held_out_embeddings(held_out)
    classes = (*map(str, CLASSES[name][1]), NOBODY)
    head = ClassHead(classes=classes, weights=weights, bias=bias, errors=ClassErrors(classes=classes, counts=()))
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    truth = np.array([class_of(scene, name) for scene in held_out_scenes(seed, len(embeddings))])
    np.add.at(counts, (truth, head.read(embeddings)), 1)
    return counts
