"""What a comparison is asked, and what it finds of two arms on the same seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from bias_core.metrics.paired_prevalence import PairedTest
    from bias_core.studies.explore_types import ExploreReport
    from bias_core.types import Attribute, StoredImage

MOST_ARMS = 4
Score = Literal["prevalence", "corrected", "stereotype", "alignment", "spread", "association"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to draw the concept; arms differ in any of these.

    Attributes
    ----------
    name : "" is named by what differs.
    template : prompt with ``{}`` for the concept; further ``{}`` after the first repeat it, as in
        "a photo of a {}, if all individuals can be a {} irrespective of their gender".
    guidance_scale, num_inference_steps : None: the model's default.
    """

    name: str = ""
    model: str = "calibration-renderer"
    condition: str = "published"
    template: str = "a photo of a {}"
    negative_prompt: str = ""
    guidance_scale: float | None = None
    num_inference_steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """Arms that draw one concept on the same seeds, read by one reader.

    Attributes
    ----------
    arms : two to four, of which no two draw the same.
    attribute_a, attribute_b : words of the association, as in Explore; both empty: none.
    n_images, n_attribute_images : seeds, and pictures of each arm guided to each word.
    seed : the i-th picture of every arm has seed ``seed + i``.
    force : let a reader of the calibration world read other pictures; the report says so first.
    """

    concept: str
    arms: tuple[Arm, ...]
    attributes: tuple[Attribute, ...] = ()
    attribute_a: str = ""
    attribute_b: str = ""
    encoder: str = "calibration-clip"
    n_images: int = 60
    n_attribute_images: int = 16
    seed: int = 0
    confidence: float = 0.95
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Pictures that can be scored, in the order of their seeds: ``(n,)``, n, ``(n, d)`` unit rows."""

    seeds: np.ndarray
    stored: tuple[StoredImage, ...]
    embeddings: np.ndarray


@dataclass(frozen=True, kw_only=True)
class DrawnArm:
    """An arm with what Explore found of it; the sides are guided to the association's two words."""

    name: str
    report: ExploreReport
    pictures: Pictures
    side_a: Pictures | None = None
    side_b: Pictures | None = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One number of the second arm less that of the first, on the seeds that both have.

    Attributes
    ----------
    score, attribute : what of what; the attribute is "" for the association.
    first, second : names of the arms.
    value_first, value_second : the two numbers, on these seeds.
    test : their difference, its interval and its p-value.
    p_adjusted : Benjamini–Hochberg over all tests of the comparison; nan where there is no test.
    expected : the difference of what was really drawn, where it is on record.
    says : one plain sentence.
    """

    score: Score
    attribute: str
    first: str
    second: str
    value_first: float
    value_second: float
    test: PairedTest
    p_adjusted: float
    expected: float | None = None
    says: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedPair:
    """Two arms, seed by seed.

    Attributes
    ----------
    seeds : ``(n,)``, those on which both arms have a picture that can be scored.
    n_dropped : seeds that one of them lacks.
    changes : one minus the cosine of the two pictures of each seed, ``(n,)``.
    change_elsewhere : the same for pictures of different seeds, on average.
    margins_first, margins_second : per attribute, ``(n_attributes, n)``.
    image_ids : of both arms, n each.
    """

    first: str
    second: str
    seeds: np.ndarray
    n_dropped: int
    changes: np.ndarray
    change_elsewhere: float
    margins_first: np.ndarray
    margins_second: np.ndarray
    image_ids: tuple[tuple[str, ...], tuple[str, ...]]
    differences: tuple[Difference, ...]
