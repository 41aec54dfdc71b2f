"""Shared data types: prompts and pictures (rows, images, steps), models, and numbers (estimates)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    from PIL import Image

IMPORTED = "imported:"  # prefix of a folder's or zip's name, in place of a model's name
VelocitySpace = Literal["flow", "epsilon", "v_prediction"]
"""Prediction of a denoiser: noise minus picture, the noise, or the v of variance-preserving diffusion."""
Sampler = Literal[
    "", "ddim", "ddpm", "pndm", "lms", "heun", "euler", "euler-a", "dpm2", "dpm2-a", "dpm++", "dpm++-karras",
    "dpm++-sde", "deis", "unipc",
]  # fmt: skip
"""Samplers of diffusion models; "" is the model's own."""
EXCHANGED = ("later_prompt", "n_first_steps", "text_condition")
"""Fields of a row with settings other than its prompt and the weights of its condition."""
_LATER = ("rewrite", "sampler", *EXCHANGED)
"""Fields that rows got after pictures were stored: at their default they are not part of the id."""


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """One row of a manifest: everything that decides the pixels of one picture."""

    prompt: str
    seed: int  # of this picture's own random generator on the CPU, >= 0
    model: str
    # part of the study ("concept", ...); not part of the id, so that the same picture is never drawn
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
    rewrite: str = ""  # "own": the model rewrites the prompt itself before it draws; "": it draws the prompt as given
    sampler: Sampler = ""
    # later_prompt: the text for all steps after the first ``n_first_steps``, which use ``prompt``; "": the
    # prompt all along
    later_prompt: str = ""
    n_first_steps: int = 0
    text_condition: str = ""  # of the text encoders' weights, if not ``condition``

    @cached_property
    def id(self) -> str:
        """First 20 hex digits of the SHA-256 of the row, without its group and later fields at their default."""
        row = {name: value for name, default in _IN_ID if (value := getattr(self, name)) != default}
        return hashlib.sha256(_SORTED.encode(row).encode()).hexdigest()[:20]


_IN_ID = [(f.name, f.default if f.name in _LATER else MISSING) for f in fields(ImageRow) if f.name != "group"]
_SORTED = json.JSONEncoder(sort_keys=True)


BATCH_SIZE = "batch_size"
"""Key in a picture's ``drawn``: pictures that a GPU drew at a time, which decides the last bits of its pixels."""
BLOCK_REASON = "refused"
"""Key in the ``drawn`` of a blocked picture: the reason; missing if the model's own safety checker blanked it."""
ONE_COLOUR = "one colour all over, like a picture blanked by a safety checker"
"""Reason of a picture that :func:`is_blank`."""


@dataclass(frozen=True, kw_only=True)
class PictureRecord:
    """Facts about a picture other than its pixels."""

    row: ImageRow
    truth: Mapping[str, Any] | None = None  # ground truth by attribute; only of the calibration renderer's pictures
    blocked: bool = False  # refused or blanked: see :mod:`bias_core.report.blocked_pictures`
    # the model's report: its arguments, warnings, and the prompt if it rewrote that
    drawn: Mapping[str, Any] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels: the row's, unless a hosted model drew another size."""
        drawn = self.drawn or {}
        return int(drawn.get("width", self.row.width)), int(drawn.get("height", self.row.height))


@dataclass(frozen=True, kw_only=True)
class GeneratedImage(PictureRecord):
    """A picture from a generator, not yet stored."""

    image: Image.Image


def is_blank(image: Image.Image) -> bool:
    """Return true if a picture has one colour all over, as safety checkers and overflowing numbers make it.

    Lossy formats change the colour by up to 10 of 255.

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
    """A visual attribute A in OASIS: a pair of sentences and its real-world rate."""

    name: str  # short label, e.g. "man"
    # positive, negative: sentences for presence (d+) and absence (d-)
    positive: str
    negative: str
    reference: float | None = None  # reference share P*(A | C) in [0, 1], or None if unknown
    reference_source: str = ""  # source of P* (with year), or "assumed 50 %, a choice"

    @property
    def has_source(self) -> bool:
        """True if P* was measured, and is no assumption or choice."""
        return self.reference is not None and is_sourced(self.reference_source)


def is_sourced(source: str) -> bool:
    """Return true if a rate with this source was measured.

    >>> is_sourced("bls2024 (2024)"), is_sourced("assumed 50 %, a choice"), is_sourced("")
    (True, False, False)
    """
    return bool(source.strip()) and not re.search("assum|choice", source.lower())


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its interval."""

    # value, low, high: the estimate and its interval, in the unit of the measure; nan where undefined
    value: float
    low: float
    high: float
    n: int  # number of sampling units
    null_value: float | None = None  # value under no bias, or None if the measure has no null
    method: str = ""  # method of the interval, e.g. "exact binomial 95 %" or "Student's t 95 %"
    note: str = ""  # reason for a nan, or another caveat; "" otherwise
    # two-sided p of the null value, by the test that the interval inverts: at most 1 - confidence just where the
    # interval excludes the null value; nan without a null value or an interval
    p_value: float = math.nan

    @classmethod
    def without_interval(cls, value: float, n: int, note: str, *, null_value: float | None = None) -> Estimate:
        """Make an estimate without an interval; ``note`` gives the reason."""
        return cls(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)

    @classmethod
    def undefined(cls, n: int, note: str, *, null_value: float | None = None) -> Estimate:
        """Make an undefined estimate; ``note`` gives the reason."""
        return cls.without_interval(math.nan, n, note, null_value=null_value)

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """Convert to another unit, also the null value: ``factor`` times (above 0), plus ``offset``."""
        ends = (self.value, self.low, self.high)
        # nan stays the same object, so that equal reports are equal
        value, low, high = (end if math.isnan(end) else factor * end + offset for end in ends)
        null = None if self.null_value is None else factor * self.null_value + offset
        return replace(self, value=value, low=low, high=high, null_value=null)

    def replace_null_value(self, null_value: float | None) -> Estimate:
        """Copy with another null value, of which no test was made: it has no p-value."""
        return self if null_value == self.null_value else replace(self, null_value=null_value, p_value=math.nan)

    def with_note(self, note: str) -> Estimate:
        """Copy with a further note; "" adds none."""
        return replace(self, note="; ".join(filter(None, [self.note, note])))


@dataclass(frozen=True, kw_only=True)
class ReaderErrors:
    """Error rates of a classifier for one attribute, from pictures with known truth."""

    # sensitivity, specificity: in [0, 1], shares of present attributes called present, and of absent ones called absent
    sensitivity: float
    specificity: float
    # n_positive, n_negative: numbers of pictures that give these rates
    n_positive: int
    n_negative: int

    @property
    def complement(self) -> ReaderErrors:
        """Error rates for the absence of the attribute."""
        return ReaderErrors(
            sensitivity=self.specificity,
            specificity=self.sensitivity,
            n_positive=self.n_negative,
            n_negative=self.n_positive,
        )


@dataclass(frozen=True, kw_only=True)
class KnownPicture:
    """A picture known to show an attribute or not; drawn when needed."""

    key: str  # equal for equal pixels
    shows: bool
    draw: Callable[[], Image.Image]


@dataclass(frozen=True, kw_only=True)
class ReaderFacts:
    """A reader of pictures (encoder, classifier, ...) and the version of its weights."""

    role: Literal["encoder", "captioner", "answerer", "judge", "language_model", "person_finder"]
    id: str  # the name that is asked for
    name: str  # for people
    revision: str = ""  # commit of a hub, or fingerprint of the files; "" if the id includes it, or before a download
    download_gb: float = 0.0  # download on first use; 0 if it is local, or unknown
    world: str = ""  # the only world that it can read, "calibration"; "" for any


@dataclass(frozen=True, kw_only=True)
class PlantedLine:
    """One planted rate in every condition, and the sentences that detect it."""

    # concept, attribute, value: this value of the attribute depends on the concept
    concept: str
    attribute: str
    value: object
    prompts: tuple[str, ...]  # prompts that draw the concept; several for a group of stimuli
    # positive, negative: sentences that detect the attribute
    positive: str
    negative: str
    rates: Mapping[str, float]  # P(attribute | concept) by condition, in [0, 1]
    published: float  # the source's own number, in [0, 1]
    source: str  # citation of that number


@dataclass(frozen=True, kw_only=True)
class Step:
    """One denoising step; float32 arrays of one image: ``(c, h, w)``, or ``(d,)`` where a family packs its latents."""

    index: int  # of the step, from 0 (noise)
    sigma: float  # standard deviation of the noise in ``xt``, in [0, 1]
    # the latent as the model saw it: (1 - sigma) x0 + sigma eps in "flow" space, else sqrt(1 - sigma²) x0 + sigma eps
    xt: np.ndarray
    velocity: np.ndarray  # the model's prediction for the prompt at ``xt``
    # velocity_positive, velocity_negative: ``(n_attributes, ...)``, for the sentences of presence and of absence
    # of each attribute, at the same ``xt``
    velocity_positive: np.ndarray
    velocity_negative: np.ndarray
    # picture of the x0 that the step predicts, with guidance if the sampler uses it; None if not
    # requested
    predicted: Image.Image | None
    space: VelocitySpace = "flow"  # of all three velocities; "flow" points from the picture to the noise
    # true for velocities with classifier-free guidance, false for those conditional on the text alone (always,
    # if the sampler runs without guidance)
    guided: bool = False


@dataclass(frozen=True, kw_only=True)
class PromptLimit:
    """The part of one prompt that one text encoder of a model reads."""

    prompt: str  # as given
    reader: str  # kind of the text encoder, e.g. "CLIP" or "T5"
    # n_tokens, limit: tokens of the prompt, and tokens that are read, including start and end marks
    n_tokens: int
    limit: int
    cut: str  # the end of the prompt that this encoder ignores; "" if it reads all


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One line of the model catalogue (``assets/models.yaml``)."""

    id: str  # the name that is asked for
    name: str
    # renderer, remote, sd1, sd2, sdxl, sd3, flux, kandinsky, deepfloyd, sana, pixart, or "diffusers" if
    # unknown
    family: str
    revision: str = ""  # commit, tag or branch of a hub; "" for its newest
    licence: str = ""
    gated: bool = False  # the download requires its makers' consent
    embedded: bool = False  # comes with the explorer
    conditions: tuple[str, ...] = ()  # planted conditions that it can draw
    world: str = ""  # the world that it draws: "calibration", or "" if unknown
    default_steps: int = 20
    default_guidance: float = 1.0
    width: int = 64
    height: int = 64
    # download_gb, memory_gb: gigabytes to fetch, and on a GPU at its own size, one picture at a time; 0 if
    # unknown
    download_gb: float = 0.0
    price_usd: float | None = None  # per picture of a hosted model; None if unknown
    memory_gb: float = 0.0  # of a GPU, in half precision, one picture of this size at a time; 0 if unknown
    default: str = ""  # "gpu": may be offered first on a machine with a GPU
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # read by the adapter; ``path`` is a hub id or a folder

    @property
    def traceable(self) -> bool:
        """True if its denoising steps have a velocity to trace; else the adapter gives the reason."""
        return self.family not in {"renderer", "remote", "kandinsky", "deepfloyd", "glm-image"}
