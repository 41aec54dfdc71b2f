"""Before Explore draws anything: are the settings possible, and which pictures do they need?"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput
from bias_core.model_catalogue import check_condition
from bias_core.prompts import MAX_PROMPT_CHARACTERS, fill_template, guided_prompt
from bias_core.runs.manifests import Manifest
from bias_core.types import Attribute, ImageRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.studies.context import StudyServices
    from bias_core.studies.explore_types import ExploreSettings
    from bias_core.types import ModelInfo

MAX_STEPS = 150
MAX_GUIDANCE = 30.0
MAX_ATTRIBUTES = 50
MAX_CLUSTERS = 20
MAX_SEED = 2**53  # larger ones do not survive JSON in a browser


@dataclass(frozen=True, kw_only=True)
class ExplorePlan:
    """Settings found possible, and every picture they need."""

    settings: ExploreSettings
    prompt: str
    model: ModelInfo
    rows: tuple[ImageRow, ...]
    manifest: Manifest


def plan_explore(settings: ExploreSettings, services: StudyServices, session: str = "") -> ExplorePlan:
    """Check the settings and lay out the manifest.

    Raises
    ------
    InvalidInput
        A setting cannot be used; the message quotes it and says what would do.
    UnknownModel
        No such model, condition or encoder; the message lists what exists.
    """
    prompt = fill_template(settings.template, settings.concept)
    info = services.model_info(settings.model)
    condition = check_condition(info, settings.condition)
    services.encoder(settings.encoder)
    _check_numbers(settings, services.settings.max_images)
    _check_attributes(settings)
    rows = _rows(settings, prompt, info, condition, services.revision(settings.model))
    manifest = Manifest(
        id=run_id(settings, session),
        study="explore",
        session=session,
        title=prompt,
        settings=asdict(settings),
        rows=rows,
        versions=library_versions() | {"model_revision": rows[0].revision},
    )
    return ExplorePlan(settings=settings, prompt=prompt, model=info, rows=rows, manifest=manifest)


def run_id(settings: ExploreSettings, session: str) -> str:
    """Sixteen hex digits: the same visitor asking the same again resumes the same run."""
    text = json.dumps({"session": session, "settings": asdict(settings)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_from_dict(values: Mapping[str, Any]) -> ExploreSettings:
    """The settings that a manifest or an exported report holds."""
    from bias_core.studies.explore_types import ExploreSettings

    attributes = tuple(Attribute(**item) for item in values.get("attributes", ()))
    return ExploreSettings(**{**values, "attributes": attributes})


@cache
def library_versions() -> dict[str, str]:
    """Versions of what decides the numbers, for those that are installed."""
    from importlib import metadata

    from bias_core import __version__

    installed = {dist.name.lower().replace("-", "_"): dist.version for dist in metadata.distributions()}
    names = ("torch", "diffusers", "transformers", "open_clip_torch", "numpy", "scipy", "scikit_learn")
    return {"bias_core": __version__} | {name: installed[name] for name in names if name in installed}


def wants_association(settings: ExploreSettings) -> bool:
    """Whether pictures guided to two attributes are asked for."""
    return bool(settings.attribute_a.strip() or settings.attribute_b.strip())


def _rows(
    settings: ExploreSettings, prompt: str, info: ModelInfo, condition: str, revision: str
) -> tuple[ImageRow, ...]:
    draws = info.family == "renderer"  # it has no sampler: all its settings read 0
    steps = settings.num_inference_steps if settings.num_inference_steps is not None else info.default_steps
    guidance = settings.guidance_scale if settings.guidance_scale is not None else info.default_guidance
    groups = [("concept", prompt, settings.n_images)]
    if wants_association(settings):
        for group, word in (("attribute_a", settings.attribute_a), ("attribute_b", settings.attribute_b)):
            edited = guided_prompt(settings.template, settings.concept, word)
            groups.append((group, edited, settings.n_attribute_images))
    return tuple(
        ImageRow(
            prompt=text,
            group=group,
            seed=settings.seed + number,
            model=info.id,
            revision=revision,
            condition=condition,
            num_inference_steps=0 if draws else steps,
            guidance_scale=0.0 if draws else float(guidance),
            negative_prompt="" if draws else settings.negative_prompt,
            width=info.width,
            height=info.height,
        )
        for group, text, n in groups
        for number in range(n)
    )


def _check_numbers(settings: ExploreSettings, max_images: int) -> None:
    _check_whole("number of images", settings.n_images, 1, max_images)
    if wants_association(settings):
        _check_whole("number of images per attribute side", settings.n_attribute_images, 1, max_images)
    if settings.num_inference_steps is not None:
        _check_whole("number of denoising steps", settings.num_inference_steps, 1, MAX_STEPS)
    _check_whole("seed", settings.seed, 0, MAX_SEED)
    if settings.n_clusters is not None:
        _check_whole("number of clusters", settings.n_clusters, 1, MAX_CLUSTERS)
    guidance = settings.guidance_scale
    if guidance is not None and not (math.isfinite(guidance) and 0 <= guidance <= MAX_GUIDANCE):
        raise InvalidInput(f"the guidance scale must be from 0 to {MAX_GUIDANCE:g}, got {guidance}")
    if not 0.5 <= settings.confidence < 1:
        raise InvalidInput(f"the confidence must be at least 0.5 and below 1, got {settings.confidence}")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(f"the {name} must be a whole number from {low:,} to {high:,}, got {value!r}")


def _check_attributes(settings: ExploreSettings) -> None:
    if wants_association(settings) and not (settings.attribute_a.strip() and settings.attribute_b.strip()):
        raise InvalidInput("the association compares two attributes: give both words, or neither")
    if wants_association(settings) and settings.attribute_a.strip() == settings.attribute_b.strip():
        raise InvalidInput(
            f"the association compares two different attributes, got {settings.attribute_a!r} twice"
        )
    if len(settings.attributes) > MAX_ATTRIBUTES:
        raise InvalidInput(f"at most {MAX_ATTRIBUTES} attributes at once, got {len(settings.attributes)}")
    for attribute in settings.attributes:
        _check_attribute(attribute)
    counts = Counter(attribute.name.strip().lower() for attribute in settings.attributes)
    if twice := [name for name, n in counts.items() if n > 1]:
        raise InvalidInput(f"attribute names must differ, got twice: {', '.join(twice)}")
    if len(settings.negative_prompt) > MAX_PROMPT_CHARACTERS:
        raise InvalidInput(
            f"the negative prompt has {len(settings.negative_prompt):,} characters; "
            f"at most {MAX_PROMPT_CHARACTERS:,} are allowed"
        )


def _check_attribute(attribute: Attribute) -> None:
    parts = {
        "a name": attribute.name,
        "a positive sentence": attribute.positive,
        "a negative sentence": attribute.negative,
    }
    for what, text in parts.items():
        if not text.strip():
            raise InvalidInput(
                f"attribute {attribute.name!r} needs {what}; each has a name and two sentences"
            )
        if len(text) > MAX_PROMPT_CHARACTERS:
            raise InvalidInput(
                f"attribute {attribute.name[:40]!r}: {what} of {len(text):,} characters; "
                f"at most {MAX_PROMPT_CHARACTERS:,} are allowed"
            )
    if attribute.positive.strip() == attribute.negative.strip():
        raise InvalidInput(
            f"attribute {attribute.name!r}: both sentences are the same, {attribute.positive!r}"
        )
    reference = attribute.reference
    if reference is not None and not 0 <= reference <= 1:
        raise InvalidInput(f"attribute {attribute.name!r}: P* is a share from 0 to 1, got {reference}")
