"""A captioner that cannot err, for studies whose trained one is tested elsewhere."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from bias_core.services import Services
from bias_core.world.captions import caption
from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL import Image

    from bias_core.protocols import StepCallback, TextToImage
    from bias_core.types import GeneratedImage, ImageRow


class Scribe:
    """Knows the pictures that were drawn in its presence, pixel by pixel; says nothing of others."""

    name = "scribe"

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        self.n_captioned = 0

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        self.n_captioned += len(images)
        return [self.known.get(image.tobytes(), "a person in a plain room") for image in images]


class _Watched:
    """The renderer, with the scribe looking on."""

    def __init__(self, renderer: TextToImage, scribe: Scribe) -> None:
        self._renderer, self._scribe = renderer, scribe
        self.batch_size = renderer.batch_size

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        for drawn in self._renderer.generate(rows, on_step=on_step):
            row = drawn.row
            # The renderer's own way from a row to a scene.
            scene = sample_scene(parse(row.prompt), row.condition, Random(f"{row.seed} {row.prompt}"))
            assert scene.truth() == drawn.truth
            self._scribe.known[drawn.image.tobytes()] = caption(scene)
            yield drawn


class ScribeServices(Services):
    """The real services, with a scribe for a captioner."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.scribe = Scribe()

    def text_to_image(self, name: str) -> Any:
        model = super().text_to_image(name)
        return _Watched(model, self.scribe) if name == "calibration-renderer" else model

    def captioner(self, name: str) -> Any:
        return self.scribe
