"""The nouns that all rooms share: prompts to pictures (rows, images, steps) and numbers (estimates)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from PIL import Image

IMPORTED = "imported:"  # before the name of the folder or zip, in place of a model's name
VelocitySpace = Literal["flow", "epsilon", "v_prediction"]
"""What a denoiser predicts: noise minus picture, the noise, or the v of variance-preserving diffusion."""
Sampler = Literal[
    "", "ddim", "ddpm", "pndm", "lms", "heun", "euler", "euler-a", "dpm2", "dpm2-a", "dpm++", "dpm++-karras",
    "dpm++-sde", "deis", "unipc",
]  # fmt: skip
"""Which way the steps of a diffusion model are taken; "" is the model's own."""
EXCHANGED = ("later_prompt", "n_first_steps", "text_condition")
"""Fields of a row that say what a picture was drawn with beside its prompt and the weights of its condition."""
_LATER = ("rewrite", "sampler", *EXCHANGED)
"""Fields of a row that came when pictures were kept already: at their default they are no part of its id."""


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """One row of a manifest: everything that decides the pixels of one picture."""

    prompt: str
    seed: int  # of this picture's own CPU generator, >= 0
    model: str
    # part of the study that it belongs to ("concept", ...); not part of the id, so that the same picture is never drawn
    # twice for two studies
    group: str = "concept"
    revision: str = ""
    condition: str = ""  # of the weights; "" for models without planted conditions
    # num_inference_steps, guidance_scale: sampler settings (ignored, and set to 0, for the renderer)
    num_inference_steps: int = 0
    guidance_scale: float = 0.0
    negative_prompt: str = ""
    # width, height: pixels
    width: int = 64
    height: int = 64
    rewrite: str = ""  # "own": the model rewrites the prompt itself before it draws; "": it draws what is asked
    sampler: Sampler = ""
    # later_prompt: what the denoiser reads after the first ``n_first_steps``, which are taken with ``prompt``; "": the
    # prompt all along
    later_prompt: str = ""
    n_first_steps: int = 0
    text_condition: str = ""  # of the text encoders' weights, where it is not ``condition``

    @cached_property
    def id(self) -> str:
        """First 20 hex digits of the SHA-256 of the row, without its group and later fields at their default."""
        row = {name: value for name, default in _IN_ID if (value := getattr(self, name)) != default}
        return hashlib.sha256(_SORTED.encode(row).encode()).hexdigest()[:20]


_IN_ID = [(f.name, f.default if f.name in _LATER else MISSING) for f in fields(ImageRow) if f.name != "group"]
_SORTED = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class PictureRecord:
    """What is known of a picture beside its pixels."""

    row: ImageRow
    truth: Mapping[str, Any] | None = None  # what is in it, by attribute; of the calibration renderer's only
    blocked: bool = False  # blanked by a safety checker, refused, or failed: it is counted and never scored
    # what the model says it did: what it was asked, its own warnings, a prompt that it rewrote
    drawn: Mapping[str, Any] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels: those of the row, but where a hosted model answered others."""
        drawn = self.drawn or {}
        return int(drawn.get("width", self.row.width)), int(drawn.get("height", self.row.height))


@dataclass(frozen=True, kw_only=True)
class GeneratedImage(PictureRecord):
    """A picture fresh from a generator."""

    image: Image.Image


def is_blank(image: Image.Image) -> bool:
    """Whether a picture has one colour all over, as checkers and overflowing numbers leave it.

    Lossy formats move it by up to 10 of 255.

    >>> from PIL import Image
    >>> is_blank(Image.new("RGB", (2, 2))), is_blank(Image.linear_gradient("L"))
    (True, False)
    """
    extrema = cast("tuple[tuple[int, int], ...]", image.convert("RGB").getextrema())
    return all(high - low <= 10 for low, high in extrema)


@dataclass(frozen=True, kw_only=True)
class StoredImage(PictureRecord):
    """A picture in the store, with the path of its original PNG."""

    path: Path


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """A visual attribute A as OASIS words it: a pair of sentences and its real-world rate."""

    name: str  # short label, e.g. "man"
    # positive, negative: sentences for presence (d+) and absence (d-)
    positive: str
    negative: str
    reference: float | None = None  # P*(A | C) in [0, 1], or None where nobody knows it
    reference_source: str = ""  # where P* comes from (with year), or "assumed 50 %, a choice"

    @property
    def has_source(self) -> bool:
        """Whether P* was measured somewhere, and is no assumption or choice."""
        return self.reference is not None and is_sourced(self.reference_source)


def is_sourced(source: str) -> bool:
    """Whether a rate with this source was measured somewhere.

    >>> is_sourced("bls2024 (2024)"), is_sourced("assumed 50 %, a choice"), is_sourced("")
    (True, False, False)
    """
    return bool(source.strip()) and not re.search("assum|choice", source.lower())


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its uncertainty."""

    # value, low, high: the estimate and its interval, in the unit of the measure; nan where undefined
    value: float
    low: float
    high: float
    n: int  # number of sampling units behind it
    null_value: float | None = None  # what "no bias" would read, or None where the measure has no null
    method: str = ""  # how the interval was made, e.g. "exact binomial 95 %" or "bootstrap (BCa) 95 %"
    note: str = ""  # why a value is nan, or another caveat; "" otherwise

    @classmethod
    def without_interval(cls, value: float, n: int, note: str, *, null_value: float | None = None) -> Estimate:
        """A value with nan ends, and why."""
        return cls(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)

    @classmethod
    def undefined(cls, n: int, note: str, *, null_value: float | None = None) -> Estimate:
        """Nan with nan ends, and why."""
        return cls.without_interval(math.nan, n, note, null_value=null_value)

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """The same in another unit: ``factor`` times, plus ``offset``."""
        value, low, high = (factor * end + offset for end in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)

    def of_null(self, null_value: float | None) -> Estimate:
        """The same beside another value of no bias."""
        return replace(self, null_value=null_value)

    def with_note(self, note: str) -> Estimate:
        """The same with a further note; "" adds none."""
        return replace(self, note="; ".join(filter(None, [self.note, note])))


@dataclass(frozen=True, kw_only=True)
class ReaderErrors:
    """How often a reader of pictures errs on one attribute, from pictures whose truth is known."""

    # sensitivity, specificity: shares in [0, 1] of present attributes called present, of absent ones absent
    sensitivity: float
    specificity: float
    # n_positive, n_negative: numbers of pictures behind them
    n_positive: int
    n_negative: int

    @property
    def of_absence(self) -> ReaderErrors:
        """The same where it is asked whether the attribute is absent."""
        return ReaderErrors(
            sensitivity=self.specificity,
            specificity=self.sensitivity,
            n_positive=self.n_negative,
            n_negative=self.n_positive,
        )


@dataclass(frozen=True, kw_only=True)
class KnownPicture:
    """A picture of which it is known whether it shows an attribute; drawn when it is needed."""

    key: str  # the same for the same pixels
    shows: bool
    draw: Callable[[], Image.Image]


@dataclass(frozen=True, kw_only=True)
class ReaderFacts:
    """Who reads pictures, and from which weights."""

    role: Literal["encoder", "captioner", "answerer", "judge", "language_model", "person_finder"]
    id: str  # the name that is asked for
    name: str  # in words
    revision: str = ""  # commit of a hub, or fingerprint of the files; "" where its name says it, or before a download
    download_gb: float = 0.0  # what it fetches on first use; 0 where it is here, or nobody knows
    world: str = ""  # the only pictures that it can read, "calibration"; "" for any


@dataclass(frozen=True, kw_only=True)
class PlantedLine:
    """One planted rate in every condition, and how to look for it."""

    # concept, attribute, value: what hangs on what
    concept: str
    attribute: str
    value: object
    prompts: tuple[str, ...]  # prompts that draw the concept; several where it is a group of stimuli
    # positive, negative: sentences that read the attribute
    positive: str
    negative: str
    rates: Mapping[str, float]  # P(attribute | concept) by condition, in [0, 1]
    published: float  # the source's own number, in [0, 1]
    source: str  # where it is published


@dataclass(frozen=True, kw_only=True)
class Step:
    """One denoising step seen from inside.

    All arrays are float32 and of one image: ``(c, h, w)``, or ``(d,)`` where a family packs its latents otherwise.
    """

    index: int  # of the step, from 0, which is noise
    sigma: float  # standard deviation of the noise in ``xt``, in [0, 1]
    # the latent as the model saw it: (1 - sigma) x0 + sigma eps in "flow" space, else sqrt(1 - sigma²) x0 + sigma eps
    xt: np.ndarray
    velocity: np.ndarray  # what the model predicts for the prompt at ``xt``
    # velocity_positive, velocity_negative: ``(n_attributes, ...)``, for the sentences of presence and of absence
    # of each attribute, at the same ``xt``
    velocity_positive: np.ndarray
    velocity_negative: np.ndarray
    # picture of the x0 that the sampler is heading for, with guidance where it runs with it; None where it was not
    # asked for
    predicted: Image.Image | None
    space: VelocitySpace = "flow"  # of all three velocities; "flow" points from the picture to the noise
    # whether the velocities are the classifier-free-guided ones, or those conditional on their text alone (always,
    # where the sampler runs without such guidance)
    guided: bool = False


@dataclass(frozen=True, kw_only=True)
class PromptLimit:
    """How much of one prompt one text encoder of a model reads."""

    prompt: str  # as it was asked for
    reader: str  # kind of the text encoder, e.g. "CLIP" or "T5"
    # n_tokens, limit: tokens that the prompt takes and that are read, marks of start and end included
    n_tokens: int
    limit: int
    cut: str  # the end of the prompt that this encoder does not see, "" where it sees all


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One line of the model catalogue (``assets/models.yaml``)."""

    id: str  # the name that is asked for
    name: str
    # renderer, remote, sd1, sd2, sdxl, sd3, flux, kandinsky, deepfloyd, sana, pixart, or "diffusers" where it is not
    # known
    family: str
    revision: str = ""  # commit, tag or branch of a hub; "" for its newest
    licence: str = ""
    gated: bool = False  # its makers ask for consent before it can be downloaded
    embedded: bool = False  # comes with the explorer
    conditions: tuple[str, ...] = ()  # what can be planted in it
    world: str = ""  # whose pictures it draws: "calibration", or "" where nobody can say
    default_steps: int = 20
    default_guidance: float = 1.0
    width: int = 64
    height: int = 64
    # download_gb, memory_gb: gigabytes to fetch, and on a GPU at its own size, one picture at a time; 0 where not
    # known
    download_gb: float = 0.0
    price_usd: float | None = None  # of a picture of a hosted model; None where nobody says
    memory_gb: float = 0.0  # of a GPU, in half precision, one picture of this size at a time; 0 if unknown
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # read by the adapter; ``path`` is a hub id or a folder

    @property
    def traceable(self) -> bool:
        """Whether its denoising steps have a velocity that can be followed; of others the adapter says why not."""
        return self.family not in {"renderer", "remote", "kandinsky", "deepfloyd", "glm-image"}
