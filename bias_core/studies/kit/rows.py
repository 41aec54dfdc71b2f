"""From a study's shots to manifest rows: the same settings and seeds for every picture of a run."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from bias_core.engine.progress import EngineProgress
from bias_core.errors import HubNotReached, ModelUnavailable
from bias_core.models.catalogue import check_condition
from bias_core.prompts import fill_template
from bias_core.protocols import ChecksSettings, TextToImage
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.types import Shot, StudySettings
from bias_core.types import ImageRow, ModelInfo

T = TypeVar("T")


class Rows(Protocol):
    """Where the pictures of a study come from."""

    @property
    def revision(self) -> str:
        """Which weights, or which files."""
        ...

    @property
    def has_seeds(self) -> bool:
        """Whether the k-th picture of a shot has the seed that it has in every other arm."""
        ...

    def of(self, shot: Shot) -> list[ImageRow]:
        """The rows of a shot: as many as it asks for, or as there are."""
        ...

    def world(self, shots: Sequence[Shot], services: StudyServices) -> str:
        """Whose pictures they are: "calibration", or "" where nobody can say."""
        ...

    def model(self, services: StudyServices) -> TextToImage:
        """What turns these rows into pictures."""
        ...

    def draw(
        self, rows: Sequence[ImageRow], services: StudyServices, *, cancelled: Callable[[], bool]
    ) -> Iterator[EngineProgress]:
        """Bring the pictures of ``rows`` into the store."""
        ...

    def notes(self, shots: Sequence[Shot]) -> list[str]:
        """What a reader of the report must know of these pictures."""
        ...


@dataclass(frozen=True, kw_only=True)
class RowMaker:
    """Makes the rows of one model under one set of settings."""

    info: ModelInfo
    condition: str
    revision: str
    seed: int
    num_inference_steps: int
    guidance_scale: float
    negative_prompt: str = ""
    template: str = ""
    has_seeds: bool = True

    @classmethod
    def build(cls, settings: StudySettings, services: StudyServices, *, estimate: bool = False) -> "RowMaker":
        """Look the model up; UnknownModel or InvalidInput where it or the settings cannot be.

        With ``estimate``, the revision of a model that is neither here nor on a hub that answers is "".
        """
        info = drawn_info(services, settings.model)
        draws = info.family == "renderer"  # it has no sampler: all its settings read 0
        steps, guidance = settings.num_inference_steps, settings.guidance_scale
        return cls(
            info=info,
            condition=check_condition(info, settings.condition),
            revision=_revision(settings.model, services, estimate=estimate),
            seed=settings.seed,
            num_inference_steps=0 if draws else info.default_steps if steps is None else steps,
            guidance_scale=0.0 if draws else float(info.default_guidance if guidance is None else guidance),
            negative_prompt="" if draws else settings.negative_prompt,
            template=treatment(settings),
        )

    def of(self, shot: Shot) -> list[ImageRow]:
        """One row per picture of the shot."""
        first = ImageRow(
            prompt=treated(shot.prompt, self.template),
            group=shot.group,
            seed=self.seed,
            model=self.info.id,
            revision=self.revision,
            condition=check_condition(self.info, shot.condition) if shot.condition else self.condition,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            negative_prompt=self.negative_prompt,
            width=self.info.width,
            height=self.info.height,
        )
        return [replace(first, seed=self.seed + shot.first_seed + k) for k in range(shot.n)]

    def world(self, shots: Sequence[Shot], services: StudyServices) -> str:  # noqa: ARG002
        """The model's."""
        return self.info.world

    def model(self, services: StudyServices) -> TextToImage:
        """The generator."""
        return services.text_to_image(self.info.id)

    def draw(
        self, rows: Sequence[ImageRow], services: StudyServices, *, cancelled: Callable[[], bool]
    ) -> Iterator[EngineProgress]:
        """By the engine of this process."""
        return services.draw(rows, cancelled=cancelled)

    def notes(self, shots: Sequence[Shot]) -> list[str]:  # noqa: ARG002
        """Nothing: what was asked for is drawn."""
        return []


def treatment(settings: StudySettings) -> str:
    """What is made of every prompt in a run of one arm; "" where prompts are drawn as they are."""
    return (settings.arms[0].template or "") if len(settings.arms) == 1 else ""


def treated(prompt: str, template: str) -> str:
    """A prompt of the study as it is drawn.

    >>> treated("a photo of a doctor", "{}, whatever their gender"), treated("a doctor", "")
    ('a photo of a doctor, whatever their gender', 'a doctor')
    """
    return fill_template(template, prompt) if template else prompt


def drawn_info(services: StudyServices, name: str) -> ModelInfo:
    """The catalogue's entry, with the size that is really drawn where the model draws another one."""
    info = services.model_info(name)
    try:
        generator = services.text_to_image(name)
    except (HubNotReached, ModelUnavailable):  # said where its weights are asked for
        return info
    if not isinstance(generator, ChecksSettings):
        return info
    width, height = generator.drawn_size(info.width, info.height)
    return replace(info, width=width, height=height)


def _revision(model: str, services: StudyServices, *, estimate: bool) -> str:
    try:
        return services.revision(model)
    except HubNotReached:
        if not estimate:
            raise
        return ""


def scaled(n: int, scale: float, *, least: int = 2) -> int:
    """How many of ``n`` pictures a scaled-down study draws: never fewer than ``least`` or more than ``n``.

    >>> scaled(10, 0.5), scaled(10, 0.01), scaled(1, 0.5)
    (5, 2, 1)
    """
    return min(n, max(least, math.ceil(n * scale - 1e-9)))


def thinned(items: Sequence[T], scale: float, *, least: int, seed: int) -> list[T]:
    """A random share of a list, in its order; always the same for a seed.

    >>> thinned("abcdefgh", 0.5, least=1, seed=0)
    ['c', 'd', 'e', 'g']
    """
    n = scaled(len(items), scale, least=least)
    kept = np.sort(np.random.default_rng(seed).permutation(len(items))[:n])
    return [items[i] for i in kept]
