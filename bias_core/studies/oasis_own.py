"""OASIS's studies with concepts and attributes of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from bias_core.studies.study_types import Design, StudySettings
    from bias_core.types import Attribute

OWN_KINDS = {"propagation": "SPI", "optimised_prompts": "StOP", "nationality_stereotypes": "P, Ψ and WALS"}
"""Kinds of study that take other concepts, and what they measure."""
MOST_PICTURES = 500
_NAMED = ("nationalities", "attributes", "templates")  # options that name what only the shipped design has


def own_concepts(
    design: Design, *, concepts: Sequence[str], template: str, attributes: Sequence[Attribute], n: int
) -> Design:
    """The design with these concepts in place of its nationalities, each with all of the attributes.

    Parameters
    ----------
    concepts : what stands in the template, each once; blank ones are left out.
    template : a prompt with {}.
    n : pictures, or seeds, of each concept.

    Raises
    ------
    InvalidInput
        The study takes no other concepts, or something is missing; the message says what.
    """
    names = list(dict.fromkeys(name.strip() for name in concepts if name.strip()))
    _check(design, names, template, attributes, n)
    entry = [asdict(attribute) for attribute in attributes]
    return replace(
        design,
        name=f"own-{design.name}",
        title=f"{design.title}: own words",
        data={
            "templates": {"default": [template.strip()]},
            "nationalities": {name: {"adjective": name, "attributes": entry} for name in names},
        },
        images_per_prompt=n,
        options={**design.options, **_own_options(design, names)},
    )


def without_names(settings: StudySettings) -> StudySettings:
    """Settings that suit such a design: all of its pictures, and no option that names another's content."""
    options = {name: value for name, value in settings.options.items() if name not in _NAMED}
    return replace(settings, scale=1.0, options=options)


def _own_options(design: Design, names: list[str]) -> dict[str, object]:
    options: dict[str, object] = {"nationalities": names, "templates": "default", "attributes": []}
    return {name: value for name, value in options.items() if name in design.options}


def _check(design: Design, names: list[str], template: str, attributes: Sequence[Attribute], n: int) -> None:
    if design.kind not in OWN_KINDS:
        raise InvalidInput(
            f"“{design.title}” compares with printed numbers and takes no other words; choose a study of "
            f"{', '.join(OWN_KINDS.values())} above"
        )
    if not names:
        raise InvalidInput("there is no concept; write at least one, such as nurse")
    if "{}" not in template:
        raise InvalidInput(f"the prompt needs {{}} where the concept goes, got {template!r}")
    if not 1 <= n <= MOST_PICTURES:
        raise InvalidInput(f"1 to {MOST_PICTURES} pictures of each concept can be asked for, got {n}")
    if not attributes and design.kind != "optimised_prompts":
        raise InvalidInput("there is no attribute; write a name and two sentences in the table")
    if len({attribute.name for attribute in attributes}) < len(attributes):
        raise InvalidInput(f"two attributes have one name: {', '.join(a.name for a in attributes)}")
    for attribute in attributes:
        _check_attribute(attribute)


def _check_attribute(attribute: Attribute) -> None:
    if not (attribute.name and attribute.positive and attribute.negative):
        raise InvalidInput(
            "an attribute needs a name, a sentence for its presence and one for its absence, got "
            f"{attribute.name!r}, {attribute.positive!r}, {attribute.negative!r}"
        )
    if attribute.reference is not None and not 0 <= attribute.reference <= 1:
        raise InvalidInput(f"P* of {attribute.name} is a share from 0 to 1, got {attribute.reference}")
