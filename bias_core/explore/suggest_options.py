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

    concept: str = setting("doctor", "Concept", "Person or thing that is drawn, such as doctor")
    template: str = setting(
        "a photo of a {}", "Prompt template", "Prompt, with {} for the concept; a or an follows by itself"
    )
    base: str = setting(
        "", "Base", "Concept that the pictures are compared with (default: person, or object for things)"
    )
    n_images: int = setting(
        16, "Pictures", "Number of pictures of the concept, and as many of the base", ge=FEWEST, le=MOST
    )
    captioner: str = setting(
        AUTO, "Captioner", "Model that describes each picture; auto picks one that suits them and this machine"
    )
    language_model: str = setting(
        AUTO,
        "Language model",
        "Language model that suggests attributes from words alone; auto picks one, none asks no model",
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
