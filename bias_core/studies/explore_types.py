"""What Explore is asked and what it answers; the UI, the command line and the API all speak these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from bias_core.types import Attribute, Estimate, ImageRow


@dataclass(frozen=True, kw_only=True)
class ExploreSettings:
    """One exploration: a concept, attributes and how to draw and read the pictures.

    Attributes
    ----------
    concept : what is drawn, e.g. "doctor"; goes into the first ``{}`` of ``template``.
    template : prompt with one ``{}``; "a {}" becomes "an {}" where English asks for it.
    attributes : the sentence pairs that are scored.
    attribute_a, attribute_b : words that turn the concept's prompt into the two attribute-guided prompts
        of T2IAT's Eq. 2 ("man", "woman"); both empty: no association.
    n_images, n_attribute_images : pictures of the concept, and per attribute side.
    num_inference_steps, guidance_scale : None: the model's default.
    seed : picture i has seed ``seed + i``.
    n_clusters : None: chosen by the largest eigengap.
    force : let a reader of the calibration world read other pictures; the report says so first.
    """

    concept: str
    template: str = "a photo of a {}"
    attributes: tuple[Attribute, ...] = ()
    attribute_a: str = "male"
    attribute_b: str = "female"
    model: str = "calibration-diffusion"
    condition: str = "published"
    encoder: str = "calibration-clip"
    n_images: int = 16
    n_attribute_images: int = 8
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    negative_prompt: str = ""
    seed: int = 0
    n_clusters: int | None = None
    confidence: float = 0.95
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class AttributeScore:
    """All that is known of one attribute: OASIS's numbers on the concept's pictures.

    ``similarity_positive`` and ``similarity_negative`` hold one cosine per picture, ``(n,)``.
    ``corrected`` is the Rogan-Gladen prevalence, None where the reader's errors are not known.
    ``drawn`` is the share of the pictures that really show it, on record for the calibration renderer only.
    """

    attribute: Attribute
    prevalence: Estimate
    stereotype: Estimate
    signed_difference: Estimate
    wals: Estimate
    spread: Estimate
    corrected: Estimate | None = None
    drawn: float | None = None
    n_ties: int = 0
    similarity_positive: np.ndarray
    similarity_negative: np.ndarray


@dataclass(frozen=True, kw_only=True)
class AssociationScore:
    """T2IAT's Eq. 2 for the concept: mean cosine to the pictures of A minus that to the pictures of B."""

    attribute_a: str
    attribute_b: str
    mean: Estimate
    associations: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Spectral clusters of the unit image embeddings, and a 2-D map (principal components).

    ``labels (n,)`` count from 0 by size; ``coordinates (n, 2)``; ``eigenvalues`` of the Laplacian, ascending.
    ``numbers (n,)`` are the pictures' own numbers (blocked and unfinished ones are left out).
    """

    labels: np.ndarray
    coordinates: np.ndarray
    eigenvalues: np.ndarray
    n_clusters: int
    numbers: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ExploredImage:
    """One numbered picture of the concept (or of an attribute side, by ``row.group``)."""

    number: int
    id: str
    path: Path
    row: ImageRow
    blocked: bool = False
    reused: bool = False


@dataclass(frozen=True, kw_only=True)
class ExploreReport:
    """The answer: pictures, numbers with their uncertainty, and what was noticed on the way.

    ``scored_numbers`` are the numbers of the concept's pictures that the scores are of, in the order of
    every per-picture array (``similarity_positive``, ``associations``, ``labels``, ...): pictures that a
    safety checker blanked are not among them. ``warning`` stands before everything else, "" for none.
    """

    run_id: str
    settings: ExploreSettings
    prompt: str
    images: tuple[ExploredImage, ...]
    attribute_images: tuple[ExploredImage, ...] = ()
    scored_numbers: tuple[int, ...] = ()
    attributes: tuple[AttributeScore, ...] = ()
    association: AssociationScore | None = None
    clusters: Clusters | None = None
    warning: str = ""
    unknown_words: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
