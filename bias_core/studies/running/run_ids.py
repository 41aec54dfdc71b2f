"""What makes a run the same run: the hash of its design and settings, which stays when settings are added."""

import hashlib
import json
from dataclasses import asdict

from bias_core.studies.kit.readers import chosen_readers
from bias_core.studies.kit.setting_fields import changed_settings
from bias_core.studies.kit.types import AUTO, Design, StudySettings

_FIRST = {
    "model", "condition", "encoder", "scale", "seed", "num_inference_steps", "guidance_scale", "confidence",
    "images", "labels", "options", "force",
}  # fmt: skip
_WORDS_OF_PAPERS = {"protocol", "our_reading"}  # of a design: they decide no number themselves
_FIRST_OF_ARMS = {
    "name", "model", "condition", "template", "negative_prompt", "guidance_scale", "num_inference_steps", "images",
}  # fmt: skip
"""Settings that every run and arm has had; later ones are left out at their default, so that ids stay."""


def run_id(design: Design, settings: StudySettings, session: str) -> str:
    """The same for the same design, settings and session, whichever settings later versions have come to know."""
    # The design's data decides the numbers too, so it is part of what makes a run the same run.
    chosen = _FIRST | set(changed_settings(settings))
    values = {k: v for k, v in asdict(settings).items() if k in chosen}
    for arm in values.get("arms", ()):
        for later in arm.keys() - _FIRST_OF_ARMS:
            if arm[later] is None:
                del arm[later]
    changed = changed_settings(settings.options)
    values["options"] = {k: v for k, v in values["options"].items() if k in design.options or k in changed}
    laid_out = {k: v for k, v in asdict(design).items() if (k != "settings" or v) and k not in _WORDS_OF_PAPERS}
    # A design leaves its readers open; what read the pictures decides the numbers.
    readers = {k: v for k, v in chosen_readers(settings).items() if laid_out["options"].get(k) == AUTO}
    laid_out["options"] = {**laid_out["options"], **readers}
    text = json.dumps([session, laid_out, values], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
