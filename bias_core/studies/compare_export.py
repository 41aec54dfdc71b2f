"""A comparison as the command and the Python lines that give the same numbers."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.studies.compare_types import Arm, CompareSettings
from bias_core.studies.explore_export import attribute_text

if TYPE_CHECKING:
    from collections.abc import Sequence

SEPARATOR = "|"
ESCAPED = r"\|"  # one that belongs to a prompt
ARM_WORDS = {
    "name": "name",
    "model": "model",
    "condition": "condition",
    "template": "template",
    "negative_prompt": "negative",
    "guidance_scale": "guidance",
    "num_inference_steps": "steps",
}
"""Fields of an arm and what they are called in ``--arm``."""
_SHARED = {
    "encoder": "--encoder",
    "n_images": "-n",
    "attribute_a": "--attribute-a",
    "attribute_b": "--attribute-b",
    "n_attribute_images": "--n-attribute-images",
    "seed": "--seed",
    "confidence": "--confidence",
}


def to_command(settings: CompareSettings) -> str:
    """The command line that gives the same numbers; what is at its default is left out."""
    parts = ["python", "-m", "bias_core", "compare"]
    for arm in settings.arms:
        parts += ["--arm", arm_text(arm)]
    for attribute in settings.attributes:
        parts += ["--attribute", attribute_text(attribute)]
    if not settings.attributes:
        parts.append("--no-attributes")
    defaults = {f.name: f.default for f in fields(CompareSettings)}
    for name, option in _SHARED.items():
        if (value := getattr(settings, name)) != defaults[name]:
            parts += [option, str(value)]
    parts += ["--force"] * settings.force
    return shlex.join([*parts, "--", settings.concept])


def to_python(settings: CompareSettings) -> str:
    """The Python lines that give the same numbers."""
    defaults = {f.name: f.default for f in fields(CompareSettings)}
    changed = {name: getattr(settings, name) for name in defaults}
    lines = [f"    {name}={value!r},\n" for name, value in changed.items() if value != defaults[name]]
    return (
        "from bias_core.services import Services\n"
        "from bias_core.studies.compare import compare\n"
        "from bias_core.studies.compare_types import Arm, CompareSettings\n"
        "from bias_core.studies.run_study import complete\n"
        "from bias_core.types import Attribute\n\n"
        f"settings = CompareSettings(\n{''.join(lines)})\n"
        "report = complete(compare(settings, Services()))\n"
        "for finding in report.results.findings:\n"
        "    print(finding.title, finding.estimate)\n"
    )


def arm_text(arm: Arm) -> str:
    """An arm as ``--arm`` takes it.

    >>> arm_text(Arm(name="mine", condition="fair"))
    'name=mine|model=calibration-renderer|condition=fair'
    """
    always = ("model", "condition")
    return SEPARATOR.join(
        f"{ARM_WORDS[f.name]}={str(value).replace(SEPARATOR, ESCAPED)}"
        for f in fields(Arm)
        if (value := getattr(arm, f.name)) != f.default or f.name in always
        if (f.name, value) != ("condition", "")  # of models without conditions
    )


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """The arms that ``--arm`` asks for: ``key=value`` with ``|`` between them.

    Raises
    ------
    InvalidInput
        A part that is no ``key=value``, an unknown key, or a number that is none.

    Examples
    --------
    >>> parse_arms(["condition=fair|guidance=2"])[0].guidance_scale
    2.0
    """
    return tuple(_parse_arm(text) for text in texts)


def _parse_arm(text: str) -> Arm:
    names = {word: name for name, word in ARM_WORDS.items()}
    found: dict[str, str] = {}
    for part in filter(str.strip, re.split(r"(?<!\\)\|", text)):
        word, sign, value = part.replace(ESCAPED, SEPARATOR).partition("=")
        if not sign or word.strip() not in names:
            raise InvalidInput(
                f"write an arm as key=value|key=value with the keys {', '.join(names)}; got {part!r}"
            )
        found[names[word.strip()]] = value.strip()
    try:
        guidance = float(found.pop("guidance_scale")) if found.get("guidance_scale") else None
        steps = int(found.pop("num_inference_steps")) if found.get("num_inference_steps") else None
    except ValueError as error:
        raise InvalidInput(f"guidance and steps are numbers, got {text!r}") from error
    kept = {
        name: value for name, value in found.items() if name not in ("guidance_scale", "num_inference_steps")
    }
    return Arm(**kept, guidance_scale=guidance, num_inference_steps=steps)
