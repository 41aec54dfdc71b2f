"""What was really drawn, in words: a captioner that cannot err."""

import json
from collections.abc import Sequence

from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.store.images import RECORD_KEY
from bias_core.study.study_services import StudyServices
from bias_core.types import ImageRow
from bias_core.world.models import MODEL, scene_of
from training import captions


class RecordCaptioner:
    """A captioner that cannot err: it draws the scene anew from the settings that a picture carries.

    With it a study tests its measure alone, and not the captioner. Pictures of another revision of the renderer
    cannot be looked up.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.name = f"record of {MODEL}@{revision}"

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """Everything that is drawn, in one sentence per picture; InvalidInput for one without our record."""
        return [captions.caption(scene_of(self._row(image))) for image in images]

    def _row(self, image: Image.Image) -> ImageRow:
        if RECORD_KEY not in image.info:
            raise InvalidInput("the picture carries no record of what was drawn; ask a captioner instead")
        row = ImageRow(**json.loads(image.info[RECORD_KEY])["row"])
        if (row.model, row.revision) != (MODEL, self.revision):
            raise InvalidInput(
                f"what is drawn is on record for {MODEL} at {self.revision or 'no revision'} only; got a "
                f"picture of {row.model} at {row.revision or 'no revision'}"
            )
        return row


def recorder(services: StudyServices) -> RecordCaptioner:
    """The one of the calibration renderer's pictures."""
    return RecordCaptioner(services.revision(MODEL))
