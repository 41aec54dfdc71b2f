"""Before Explore draws anything: are the settings possible, and which pictures do they need?"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput
from bias_core.given_values import check_settings
from bias_core.model_catalogue import check_condition
from bias_core.prompts import MAX_PROMPT_CHARACTERS, fill_template, guided_prompt
from bias_core.runs.manifests import Manifest
from bias_core.studies.limits import check_budget, check_sampling, check_whole, looks_at_stop
from bias_core.studies.readers import Reader, check_readers
from bias_core.studies.rows import drawn_info
from bias_core.types import Attribute, ImageRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bias_core.settings import Settings
    from bias_core.studies.context import StudyServices
    from bias_core.studies.explore_types import ExploreSettings
    from bias_core.types import ModelInfo

MAX_ATTRIBUTES = 50
MAX_CLUSTERS = 20


@dataclass(frozen=True, kw_only=True)
class ExplorePlan:
    """Settings found possible, and every picture they need."""

    settings: ExploreSettings
    prompt: str
    model: ModelInfo
    rows: tuple[ImageRow, ...]
    manifest: Manifest
    warning: str = ""


def plan_explore(
    settings: ExploreSettings,
    services: StudyServices,
    session: str = "",
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> ExplorePlan:
    """Check the settings and lay out the manifest; raises Cancelled once ``cancelled()`` turned true.

    Raises
    ------
    InvalidInput
        A setting cannot be used, asks for too much, or gives the pictures to a reader that cannot read them;
        the message quotes it and says what would do.
    UnknownModel
        No such model, condition or encoder; the message lists what exists.
    """
    check_settings(settings)
    prompt = fill_template(settings.template, settings.concept)
    info = drawn_info(services, settings.model)
    settings = replace(settings, condition=check_condition(info, settings.condition))
    warning = check_readers(
        [Reader(role="encoder", name=settings.encoder)],
        services,
        source=info.id,
        world=info.world,
        force=settings.force,
    )
    _check_numbers(settings, services.settings, info)
    _check_attributes(settings)
    rows = _rows(settings, prompt, info, services.revision(settings.model), looks_at_stop(cancelled))
    manifest = Manifest(
        id=run_id(settings, session),
        study="explore",
        session=session,
        title=prompt,
        settings=asdict(settings),
        rows=rows,
        versions=library_versions() | {"model_revision": rows[0].revision},
    )
    return ExplorePlan(
        settings=settings, prompt=prompt, model=info, rows=rows, manifest=manifest, warning=warning
    )


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
    settings: ExploreSettings, prompt: str, info: ModelInfo, revision: str, check: Callable[[], None]
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
            condition=settings.condition,
            num_inference_steps=0 if draws else steps,
            guidance_scale=0.0 if draws else float(guidance),
            negative_prompt="" if draws else settings.negative_prompt,
            width=info.width,
            height=info.height,
        )
        for group, text, n in groups
        for number in _numbers(n, check)
    )


def _numbers(n: int, check: Callable[[], None]) -> Iterator[int]:
    for number in range(n):
        check()
        yield number


def _check_numbers(settings: ExploreSettings, limits: Settings, info: ModelInfo) -> None:
    check_sampling(
        seed=settings.seed,
        n_steps=settings.num_inference_steps,
        guidance=settings.guidance_scale,
        confidence=settings.confidence,
    )
    if settings.n_clusters is not None:
        check_whole("number of clusters", settings.n_clusters, 1, MAX_CLUSTERS)
    check_whole("number of images", settings.n_images, 1)
    if wants_association(settings):
        check_whole("number of images per attribute side", settings.n_attribute_images, 1)
    steps = settings.num_inference_steps or info.default_steps
    n_steps = 0 if info.family == "renderer" else steps
    check_number(settings, limits, n_steps=n_steps, pixels=info.width * info.height)


def check_number(settings: ExploreSettings, limits: Settings, *, n_steps: int = 0, pixels: int = 0) -> None:
    """Refuse too many pictures, and too many steps of too large ones where these are known."""
    check_budget(
        n_pictures(settings),
        limits,
        what=f"exploring {settings.concept!r}",
        advice="take fewer pictures, or raise the limit where this program is started",
        n_steps=n_steps,
        pixels=pixels,
    )


def n_pictures(settings: ExploreSettings) -> int:
    """How many pictures these settings ask for."""
    return settings.n_images + 2 * settings.n_attribute_images * wants_association(settings)


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
