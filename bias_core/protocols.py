"""Protocols of models, each with one or two methods.

Studies and everything below them know only these; ``services`` builds the adapters that implement them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from PIL import Image

from bias_core.types import Attribute, GeneratedImage, ImageRow, PromptLimit, Step

StepCallback = Callable[[int, int], None]
"""Called after each denoising step with (steps done, steps in all) of the current batch.

Raising :class:`bias_core.errors.Cancelled` from it stops the generation at that step.
"""


@runtime_checkable
class TextToImage(Protocol):
    """Draws pictures for manifest rows."""

    @property
    def batch_size(self) -> int:
        """Pictures at once, at most."""

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order, batch by batch; equal rows give equal pixels."""


@runtime_checkable
class Traceable(Protocol):
    """Exposes the denoising steps of one picture, for SPI and predicted images."""

    def trace(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        *,
        guided: bool = False,
        predicted: bool = True,
        on_step: StepCallback | None = None,
    ) -> Iterator[Step]:
        """Yield every denoising step of ``row`` with the velocities towards each attribute.

        ``guided`` asks for velocities with classifier-free guidance, ``predicted`` for the picture that
        each step predicts.
        """


@runtime_checkable
class HasPrior(Protocol):
    """Has a prior, which draws the embedding of a picture, apart from the decoder that draws the picture."""

    def check_prior(self) -> None:
        """Raise InvalidInput if the local model has none. Loads no weights."""

    def prior_embeddings(self, rows: Sequence[ImageRow]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` that the prior draws for these rows."""

    def prior_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` of texts by the prior's CLIP."""

    def prior_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` of pictures by the prior's CLIP."""


@runtime_checkable
class ShowsForming(Protocol):
    """Previews pictures while they form; not every generator can."""

    def forming(self) -> Mapping[str, Image.Image]:
        """Small previews of the pictures in progress at the newest step, by row id.

        Call it only from ``on_step``. Empty if a model shows none; finished pictures do not depend on it.
        """


@runtime_checkable
class ReadsPrompts(Protocol):
    """Tells how many tokens of a text it reads; not every generator or encoder can."""

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """The part of each prompt that each of its text encoders reads; loads no weights."""


@runtime_checkable
class ChecksSettings(Protocol):
    """Warns about settings before drawing, without loading weights; not every generator can."""

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """A sentence on each setting of the row without an effect, or with an unusual one."""

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that the model draws for a requested size."""

    def check_traceable(self) -> None:
        """Raise InvalidInput if its steps cannot be traced."""


@runtime_checkable
class RewritesPrompts(Protocol):
    """Has its own language model that may rewrite prompts; not every generator has."""

    def check_rewriting(self) -> None:
        """Raise InvalidInput if the local model cannot rewrite prompts. Loads no weights."""


@runtime_checkable
class OnLentGpu(Protocol):
    """Draws on a shared GPU on which each visitor has a daily quota of seconds."""

    def estimate_pictures(self, seconds: float, steps: int) -> int:
        """The likely number of pictures of ``steps`` steps in this GPU time."""


@runtime_checkable
class ChangesSampler(Protocol):
    """Can draw some models with another sampler. Loads no weights."""

    def check_sampler(self, sampler: str) -> None:
        """Raise InvalidInput if the model cannot use the sampler."""


@runtime_checkable
class Hosted(Protocol):
    """Draws on a hosted service: each picture is a request, which may cost money."""

    at_once: int  # parallel requests

    @property
    def has_seeds(self) -> bool:
        """True if equal seeds are known to draw equal pictures."""

    def version(self) -> str:
        """The provider and its model; HubNotReached if the provider is out of reach."""


@runtime_checkable
class ImageTextEncoder(Protocol):
    """Embeds pictures and sentences in one space (CLIP and its kin)."""

    name: str

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""


@runtime_checkable
class Captioner(Protocol):
    """Describes a picture in words."""

    name: str

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption per picture."""


@runtime_checkable
class VisualQuestionAnswerer(Protocol):
    """Answers a question about a picture."""

    name: str

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """One answer per (picture, question) pair."""


@runtime_checkable
class Judge(Protocol):
    """Judges if a picture shows something: a vision-language model or an image classifier."""

    name: str

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell", one row per (picture, question) pair."""


@runtime_checkable
class LanguageModel(Protocol):
    """Continues a text: token by token for StOP's beam search, or with a whole answer."""

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` one-token continuations, likeliest first."""

    def log_probabilities(self, texts: Sequence[str], *, ends: bool) -> np.ndarray:
        """Natural logarithm of the probability of each text ``(n,)``; ``ends``: of the text with nothing after it."""

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt``, without the prompt."""


@runtime_checkable
class PersonFinder(Protocol):
    """Finds the people in a picture."""

    name: str  # changes with its weights

    def find(self, image: Image.Image) -> list[tuple[int, int, int, int]]:
        """Boxes (left, top, right, bottom) in pixels, from left to right."""
