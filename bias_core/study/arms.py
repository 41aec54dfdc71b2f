"""The arms of a run: what each of them asks for, what it is called, and how it is written in one line."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

from bias_core.errors import InvalidInput, quoted
from bias_core.models.catalogue import hosted_name
from bias_core.prompts import SLOT, WORD_SLOT
from bias_core.study.setting_fields import settings_of
from bias_core.study.study import StudyPlan
from bias_core.study.types import FAIR, OFF, OWN, Arm, StudySettings, arm_alone, each_arm

MOST_ARMS = 8
SEPARATOR = "|"
ESCAPED = r"\|"  # one that belongs to a prompt
ARM_WORDS = {name: one.key for name, one in settings_of(Arm).items()}
"""Fields of an arm and what they are called in ``--arm``."""
_LONGEST_NAME = 40
_REWRITING = {
    "": "prompts as they are", OFF: "prompts as they are", OWN: "rewritten by the model", FAIR: "rewritten to be fair",
}  # fmt: skip


def check_arms(settings: StudySettings) -> StudySettings:
    """Settings with named, comparable arms (else InvalidInput); a single arm becomes the settings of the run."""
    for arm in settings.arms:
        if arm.template and WORD_SLOT.sub(SLOT, arm.template).count(SLOT) != 1:
            raise InvalidInput(
                f"the template of an arm has one {SLOT} for each whole prompt of the study, as in "
                f'"{SLOT}, in watercolour", or a word in place of another, as in "{{doctor=person}}"; '
                f"got {quoted(arm.template)}"
            )
    if len(settings.arms) <= 1:
        return each_arm(settings)[0]
    if len(settings.arms) > MOST_ARMS:
        raise InvalidInput(f"a run compares up to {MOST_ARMS} arms, got {len(settings.arms)}")
    names = arm_names(settings)
    return replace(
        settings, arms=tuple(replace(arm, name=name) for arm, name in zip(settings.arms, names, strict=True))
    )


def with_arms_of_options(settings: StudySettings, laid_out: tuple[Arm, ...]) -> StudySettings:
    """The settings with the arms that their options lay out; InvalidInput where they have others already."""
    unnamed = [replace(arm, name="") for arm in laid_out]
    if laid_out and any(replace(arm, name="") not in unnamed for arm in settings.arms):
        raise InvalidInput("languages are arms of their own: leave the other arms out, or write every arm's template")
    return settings if settings.arms else replace(settings, arms=laid_out)


def check_several(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Arms that can be compared with each other: there are at least two, none of which reads a file here."""
    if len(arms) < 2:
        raise InvalidInput(f"compare two to {MOST_ARMS} arms, got {len(arms)}")
    return arms


def check_arms_differ(plans: Sequence[StudyPlan], names: Sequence[str]) -> None:
    """Refuse two arms that draw the same pictures."""
    drawn = [[row.id for row in plan.manifest.rows] for plan in plans]
    for (i, first), (j, second) in combinations(enumerate(drawn), 2):
        if first == second:
            one = plans[i].settings
            takes_none = not one.images and plans[i].manifest.rows[0].num_inference_steps == 0
            who = one.model if hosted_name(one.model) else "The renderer"
            hint = f" {who} takes no guidance, steps, sampler or negative prompt." if takes_none else ""
            raise InvalidInput(
                f"“{names[i]}” and “{names[j]}” draw the same pictures: their difference would be nothing by "
                f"construction. Change the model, condition, template, guidance or images.{hint}"
            )


def arm_names(settings: StudySettings) -> tuple[str, ...]:
    """The arms' own names, or what makes each differ from the others.

    InvalidInput where two arms have the same name, or nothing tells them apart.

    >>> arms = Arm(condition="fair"), Arm(), Arm(name="mine", condition="extreme"), Arm(images="pics/old.zip")
    >>> arm_names(StudySettings(arms=arms))
    ('fair', 'published', 'mine', 'old.zip')
    """
    words = [_in_words(settings, arm) for arm in settings.arms]
    drawn = [values for values in words if not values["images"]]
    differs = [word for word in ARM_WORDS if len({values[word] for values in drawn}) > 1] or ["model", "condition"]
    names = tuple(
        arm.name.strip() or values["images"] or ", ".join(filter(None, (values[field] for field in differs)))
        for arm, values in zip(settings.arms, words, strict=True)
    )
    if len(set(names)) < len(names):
        raise InvalidInput(f"arms need names that differ, or settings that differ; got {', '.join(names)}")
    return names


def _in_words(settings: StudySettings, arm: Arm) -> dict[str, str]:
    """The settings of an arm in words, by field; of imported pictures their source alone."""
    one, words = arm_alone(settings, arm), dict.fromkeys(ARM_WORDS, "")
    if one.images:
        return words | {"images": re.split(r"[\\/]", one.images.rstrip("\\/"))[-1]}
    guidance, steps = one.guidance_scale, one.num_inference_steps
    negative, template = _short(one.negative_prompt), _short(arm.template or "")
    return words | {
        "model": _short(one.model),
        "condition": _short(one.condition),
        "template": template or "plain prompts",
        "negative_prompt": f"without “{negative}”" if negative else "no negative prompt",
        "guidance_scale": f"guidance {'default' if guidance is None else format(guidance, 'g')}",
        "num_inference_steps": f"steps {'default' if steps is None else steps}",
        "rewrite": _REWRITING.get(one.rewrite) or f"rewritten: {_short(one.rewrite)}",
        "size": f"size {one.size or 'default'}",
        "sampler": f"sampler {one.sampler or 'default'}",
    }


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"


def arm_text(arm: Arm) -> str:
    """An arm as ``--arm`` takes it.

    >>> arm_text(Arm(name="mine", condition="fair"))
    'name=mine|condition=fair'
    """
    return SEPARATOR.join(
        f"{ARM_WORDS[f.name]}={str(value).replace(SEPARATOR, ESCAPED)}"
        for f in fields(Arm)
        if (value := getattr(arm, f.name)) is not None and not (f.name == "name" and not value)
    )


def parse_arms(texts: Sequence[str]) -> tuple[Arm, ...]:
    """The arms that ``--arm`` asks for: ``key=value`` with ``|`` between them.

    InvalidInput quotes a part that is no ``key=value``, an unknown key, or a number that is none.

    >>> parse_arms(["condition=fair|guidance=2"])[0].guidance_scale
    2.0
    """
    return tuple(_parse_arm(str(text)) for text in texts)


def _parse_arm(text: str) -> Arm:
    declared = settings_of(Arm)
    given: dict[str, Any] = {}
    names = {word: name for name, word in ARM_WORDS.items()} | {name: name for name in ARM_WORDS}
    for part in filter(str.strip, re.split(r"(?<!\\)\|", text)):
        word, sign, value = (piece.strip() for piece in part.replace(ESCAPED, SEPARATOR).partition("="))
        if not sign or word not in names:
            raise InvalidInput(
                f"write an arm as key=value|key=value with the keys {', '.join(ARM_WORDS.values())}; got {quoted(part)}"
            )
        one = declared[names[word]]
        given[one.name] = value if one.kind is str else one.read(value)
    return Arm(**given)
