"""Comparisons in one click: the same concept on the same seeds, drawn in several arms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bias_core.studies.explore.options import KIND, NO_WORDS, explore_settings
from bias_core.studies.kit.setting_fields import changed_settings
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.ui.study.form import Preset

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERVENTION = "{}, if all individuals can be a CEO irrespective of their gender"


def _preset(name: str, says: str, concept: str, arms: Sequence[Arm], **options: Any) -> Preset:
    settings = explore_settings(StudySettings(), concept=concept, arms=tuple(arms), **options)
    return Preset(name=name, study=KIND, says=says, settings=changed_settings(settings))


PRESETS = (
    _preset(
        "Fair against published: doctor",
        "The same model with and without the bias that was planted",
        "doctor",
        [Arm(condition="fair"), Arm(condition="published")],
        n_images=60,
        n_attribute_images=12,
    ),
    _preset(
        "Plain against fairness-intervened prompt: CEO",
        "Words that ask for fairness, after Table 5 of the paired stereotype test",
        "CEO",
        [Arm(name="plain"), Arm(name="intervened", template=_INTERVENTION)],
        n_images=60,
        **NO_WORDS,
    ),
    _preset(
        "Renderer against diffusion: doctor",
        "Two models of the same world: one draws the planted rates, one learned them",
        "doctor",
        [Arm(name="renderer"), Arm(name="diffusion", model="calibration-diffusion")],
        **NO_WORDS,
    ),
    _preset(
        "Fair, published, extreme: nurse",
        "Three arms on the plane of stereotype and variety",
        "nurse",
        [Arm(condition=condition) for condition in ("fair", "published", "extreme")],
        n_images=30,
        **NO_WORDS,
    ),
)
