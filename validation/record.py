"""Captions from the ground truth: a captioner without errors."""

import json
from collections.abc import Sequence

from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.store.images import RECORD_KEY
from bias_core.study_services import StudyServices
from bias_core.types import ImageRow
from bias_core.world.models import MODEL, get_scene
from training import captions


class RecordCaptioner:
    """Captioner without errors: it redraws the scene from the settings stored with a picture.

    With it a study tests only its measure, not the captioner. It cannot caption pictures of another revision of the
    renderer.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.name = f"record of {MODEL}@{revision}"

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """Name everything drawn, in one sentence per picture; InvalidInput for a picture without ground truth."""
        return [captions.caption(get_scene(self._row(image))) for image in images]

    def _row(self, image: Image.Image) -> ImageRow:
        if RECORD_KEY not in image.info:
            raise InvalidInput("the picture has no ground truth; choose a captioner instead")
        row = ImageRow(**json.loads(image.info[RECORD_KEY])["row"])
        if (row.model, row.revision) != (MODEL, self.revision):
            raise InvalidInput(
                f"the ground truth is known only for {MODEL} at {self.revision or 'no revision'}; got a "
                f"picture of {row.model} at {row.revision or 'no revision'}"
            )
        return row


def recorder(services: StudyServices) -> RecordCaptioner:
    """Return the captioner of the calibration renderer's pictures."""
    return RecordCaptioner(services.revision(MODEL))
