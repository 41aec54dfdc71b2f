"""A captioner that cannot err, for studies whose trained one is tested elsewhere."""

from random import Random

import pytest

from bias_core.settings import Settings
from bias_core.world.grammar import parse
from bias_core.world.planted import sample_scene
from tests.shared import RealServices
from training.captions import caption


class Scribe:
    """Knows the pictures that were drawn in its presence, pixel by pixel; says nothing of others."""

    name = "scribe"

    def __init__(self):
        self.known: dict[bytes, str] = {}
        self.n_captioned = 0

    def caption(self, images):
        self.n_captioned += len(images)
        return [self.known.get(image.tobytes(), "a person in a plain room") for image in images]


class _Watched:
    """The renderer, with the scribe looking on."""

    def __init__(self, renderer, scribe):
        self._renderer, self._scribe = renderer, scribe
        self.batch_size = renderer.batch_size

    def generate(self, rows, *, on_step=None):
        for drawn in self._renderer.generate(rows, on_step=on_step):
            row = drawn.row
            # The renderer's own way from a row to a scene.
            scene = sample_scene(parse(row.prompt), row.condition, Random(f"{row.seed} {row.prompt}"))
            assert scene.truth() == drawn.truth
            self._scribe.known[drawn.image.tobytes()] = caption(scene)
            yield drawn


class ScribeServices(RealServices):
    """The real services, with a scribe for a captioner."""

    def __init__(self, settings):
        super().__init__(settings)
        self.scribe = Scribe()

    def text_to_image(self, name):
        model = super().text_to_image(name)
        return _Watched(model, self.scribe) if name == "calibration-renderer" else model

    def captioner(self, name):
        return self.scribe


@pytest.fixture(scope="module")
def scribe_services(tmp_path_factory):
    """For one test file; over an empty folder, as the scribe must see its pictures drawn."""
    services = ScribeServices(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True, device="cpu"))
    yield services
    services.close()
