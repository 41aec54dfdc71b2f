"""What suggestions of attributes are asked, apart from what makes them, which loads more."""

from typing import Any

from bias_core.explore.concept import MOST
from bias_core.explore.options import MODEL
from bias_core.study.setting_fields import Options, setting, settings_class, settings_of
from bias_core.study.types import AUTO, StudySettings

FEWEST = 4  # pictures


@settings_class(frozen=True, kw_only=True)
class SuggestOptions(Options):
    """Of which concept, held against what, and who is asked."""

    concept: str = setting("doctor", "Concept", "Who or what is drawn")
    template: str = setting("a photo of a {}", "Prompt template", "{} is the concept; a or an follows by itself")
    base: str = setting("", "Base", "What the pictures are held against; empty: person, or object where none is shown")
    n_images: int = setting(16, "Pictures", "Of the concept, and as many of the base", ge=FEWEST, le=MOST)
    captioner: str = setting(AUTO, "Captioner", "Who describes each picture; auto: what suits them and this machine")
    language_model: str = setting(
        AUTO, "Language model", "Who is asked about the words; auto: what suits; none: nobody"
    )


SUGGEST_SETTINGS = (
    "model", "condition", "n_images", "seed", "template", "base", "language_model", "captioner", "encoder",
    "num_inference_steps", "guidance_scale", "negative_prompt", "size", "sampler", "confidence", "force",
)  # fmt: skip
"""What the command and the tool take, in this order."""


def usual_suggest_settings(**given: Any) -> StudySettings:
    """Settings of suggestions from values by name; the diffusion model draws where nothing is said."""
    own = settings_of(SuggestOptions)
    options = SuggestOptions(**{name: given.pop(name) for name in list(given) if name in own})
    return StudySettings(**{"model": MODEL, **given}, options=options)
