"""The roles of models, each of one or two methods.

Studies and everything below them know only these; ``services`` builds the adapters that fill them.
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
        """Yield one picture per row, in order, a batch at a time; same row, same pixels."""


@runtime_checkable
class Traceable(Protocol):
    """Shows the inside of the generation of one picture, for SPI and predicted images."""

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
        each step is heading for.
        """


@runtime_checkable
class ShowsForming(Protocol):
    """Can show what the pictures at work are heading for; not every generator can."""

    def forming(self) -> Mapping[str, Image.Image]:
        """Small pictures of what is being drawn, by the ids of their rows, as of the newest step.

        Asked from within ``on_step`` alone. Empty where a model shows none; the pictures that are drawn do not change.
        """


@runtime_checkable
class ReadsPrompts(Protocol):
    """Tells how much of a text it reads; not every generator or encoder can."""

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """The part of each prompt that each of its text encoders reads; loads no weights."""


@runtime_checkable
class ChecksSettings(Protocol):
    """Tells before drawing what it will not do; not every generator can. Loads no weights."""

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """A sentence on each setting of the row that has no effect, or not the usual one."""

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that is drawn where this is asked for."""

    def check_traceable(self) -> None:
        """Raise InvalidInput where its steps cannot be traced."""


@runtime_checkable
class RewritesPrompts(Protocol):
    """Has a language model of its own that may rewrite a prompt before it is drawn; not every generator has."""

    def check_rewriting(self) -> None:
        """Raise InvalidInput where this model is here, and rewrites nothing. Loads no weights."""


@runtime_checkable
class OnLentGpu(Protocol):
    """Draws on a GPU that is lent by the second, of which each visitor has so much a day."""

    def pictures_in(self, seconds: float, steps: int) -> int:
        """Pictures of so many steps that this GPU time is likely to draw."""


@runtime_checkable
class ChangesSampler(Protocol):
    """Can take the steps of some models another way than their own. Loads no weights."""

    def check_sampler(self, sampler: str) -> None:
        """Raise InvalidInput where this model cannot be drawn with the sampler."""


@runtime_checkable
class Hosted(Protocol):
    """Draws on the server of a service: each picture is a request, which may cost money."""

    at_once: int  # requests that may be on their way together

    @property
    def has_seeds(self) -> bool:
        """True if the same seed is known to draw the same picture."""

    def version(self) -> str:
        """The provider and its model; HubNotReached where it cannot be asked."""


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
    """Says in words what a picture shows."""

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
    """Says whether a picture shows something: a vision-language model, or an image classifier."""

    name: str

    def judge(self, images: Sequence[Image.Image], questions: Sequence[str]) -> np.ndarray:
        """Probabilities ``(n, 3)`` of "yes", "no" and "cannot tell", one row per (picture, question) pair."""


@runtime_checkable
class LanguageModel(Protocol):
    """Says how a text might go on: token by token for StOP's beam search, or a whole answer."""

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` texts that continue it by one token, likeliest first."""

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt``, without the prompt."""


@runtime_checkable
class PersonFinder(Protocol):
    """Finds the people in a picture."""

    def find(self, image: Image.Image) -> list[tuple[int, int, int, int]]:
        """Boxes (left, top, right, bottom) in pixels, from left to right."""
