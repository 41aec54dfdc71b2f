"""Before a comparison draws anything: do its arms differ, and what does each of them ask of Explore?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput
from bias_core.given_values import check_settings
from bias_core.model_catalogue import check_condition
from bias_core.prompts import SLOT, fill_template
from bias_core.studies.compare_types import MOST_ARMS, Arm, CompareSettings
from bias_core.studies.explore_plan import n_pictures, plan_explore
from bias_core.studies.explore_types import ExploreSettings
from bias_core.studies.limits import check_budget
from bias_core.types import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bias_core.settings import Settings
    from bias_core.studies.context import StudyServices
    from bias_core.studies.explore_plan import ExplorePlan

_LONGEST_NAME = 40
_IN_WORDS = {"guidance_scale": "guidance", "num_inference_steps": "steps", "negative_prompt": "without"}


def plan_compare(
    settings: CompareSettings,
    services: StudyServices,
    session: str = "",
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[ExplorePlan, ...]:
    """Check the settings and lay out what each arm draws; Cancelled once ``cancelled()`` turned true.

    Raises
    ------
    InvalidInput
        Too few or too many arms, arms that draw the same pictures or have the same name, nothing to compare.
    UnknownModel
        An arm's model has no name here.
    """
    check_settings(settings)
    settings = with_conditions(settings, services)
    if not 2 <= len(settings.arms) <= MOST_ARMS:
        raise InvalidInput(f"compare two to {MOST_ARMS} arms, got {len(settings.arms)}")
    if settings.n_images < 2:
        raise InvalidInput(f"a comparison needs at least two seeds, got {settings.n_images}")
    if not settings.attributes and not settings.attribute_a:
        raise InvalidInput("there is nothing to compare: choose an attribute, or two words of an association")
    names = arm_names(settings.arms)
    check_number(settings, services.settings)
    plans = tuple(
        plan_explore(arm_settings(settings, arm), services, session, cancelled=cancelled)
        for arm in settings.arms
    )
    drawn = [[row.id for row in plan.rows] for plan in plans]
    for (i, first), (j, second) in combinations(enumerate(drawn), 2):
        if first == second:
            hint = " The renderer takes no guidance, steps or negative prompt."
            renders = plans[i].model.family == "renderer"
            raise InvalidInput(
                f"“{names[i]}” and “{names[j]}” draw the same pictures: their difference would be nothing by "
                f"construction. Change the model, condition, prompt or guidance.{hint if renders else ''}"
            )
    return plans


def with_conditions(settings: CompareSettings, services: StudyServices) -> CompareSettings:
    """The settings with "" as the condition of every arm whose model has none."""
    arms = tuple(
        replace(arm, condition=check_condition(services.model_info(arm.model), arm.condition))
        for arm in settings.arms
    )
    return replace(settings, arms=arms)


def check_number(settings: CompareSettings, limits: Settings) -> None:
    """Of all arms together; each arm's own is looked at by Explore."""
    each = n_pictures(arm_settings(settings, settings.arms[0]))
    check_budget(
        len(settings.arms) * each,
        limits,
        what=f"comparing {len(settings.arms)} arms on {settings.concept!r}",
        advice="take fewer seeds or arms, or raise the limit where this program is started",
    )


def arm_settings(settings: CompareSettings, arm: Arm) -> ExploreSettings:
    """What Explore is asked for one arm."""
    own = {f.name: getattr(arm, f.name) for f in fields(Arm) if f.name not in ("name", "template")}
    shared = {f.name for f in fields(CompareSettings)} - {"arms"}
    return ExploreSettings(
        **{name: getattr(settings, name) for name in shared},
        **own,
        template=arm_template(arm.template, settings.concept),
    )


def arm_template(template: str, concept: str) -> str:
    """``template`` with every ``{}`` but the first filled with the concept.

    >>> arm_template("a photo of a {}, if all individuals can be a {}", "engineer")
    'a photo of a {}, if all individuals can be an engineer'
    """
    head, slot, tail = template.partition(SLOT)
    pieces = tail.split(SLOT)
    filled = [fill_template(piece + SLOT, concept) for piece in pieces[:-1]]
    return head + slot + "".join([*filled, pieces[-1]])


def arm_names(arms: Sequence[Arm]) -> tuple[str, ...]:
    """The arms' own names, or what makes each differ from the others.

    Raises
    ------
    InvalidInput
        Two arms have the same name, or nothing tells them apart.

    Examples
    --------
    >>> arm_names([Arm(condition="fair"), Arm(condition="published"), Arm(name="mine", condition="extreme")])
    ('fair', 'published', 'mine')
    """
    differs = [
        f.name
        for f in fields(Arm)
        if f.name != "name" and len({str(getattr(arm, f.name)) for arm in arms}) > 1
    ]
    names = tuple(arm.name.strip() or _name(arm, differs) for arm in arms)
    if len(set(names)) < len(names):
        raise InvalidInput(f"arms need names that differ, and settings that differ; got {', '.join(names)}")
    return names


def _name(arm: Arm, differs: Sequence[str]) -> str:
    parts = []
    for field in differs:
        value = getattr(arm, field)
        word = _IN_WORDS.get(field, "")
        if field == "negative_prompt":
            parts.append(f"{word} “{_short(value)}”" if value else "no negative prompt")
        elif word:
            parts.append(f"{word} {'default' if value is None else format(value, 'g')}")
        else:
            parts.append(_short(value))
    return ", ".join(filter(None, parts)) or "the same"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"


def compare_id(settings: CompareSettings, session: str) -> str:
    """Sixteen hex digits: the same visitor asking the same again has the same run."""
    text = json.dumps({"session": session, "compare": asdict(settings)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def compare_from_dict(values: Mapping[str, Any]) -> CompareSettings:
    """The settings that a manifest or an exported report holds."""
    parts = {
        "arms": tuple(Arm(**arm) for arm in values["arms"]),
        "attributes": tuple(Attribute(**item) for item in values.get("attributes", ())),
    }
    known = {f.name for f in fields(CompareSettings)}
    return CompareSettings(**{**{k: v for k, v in values.items() if k in known}, **parts})
