"""How many pictures a study asks for, and whether that is too many here; no row is made to find out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from bias_core.studies.kit.designs import program_of
from bias_core.studies.kit.limits import check_budget, check_work
from bias_core.studies.running.arms import each_arm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.settings import Settings
    from bias_core.studies.kit.rows import RowMaker
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import Design, Shot, StudySettings
    from bias_core.studies.running.imported_rows import ImportedRows
    from bias_core.studies.running.plan import StudyPlan

MOST_ESTIMATED = 100_000
"""Pictures that are laid out to say what they would cost, whatever the limit of a run."""


def check_number(design: Design, settings: StudySettings, limits: Settings) -> None:
    """Refuse too many pictures as soon as they are asked for, before anything waits or is looked up.

    Raises
    ------
    InvalidInput
        As :func:`check_size`; own pictures are counted when they are opened.
    """
    if settings.arms:
        check_size_of_arms(design, settings, limits)
    elif not settings.images:
        check_size(design, settings, limits)


def check_size(design: Design, settings: StudySettings, limits: Settings, rows: RowMaker | None = None) -> None:
    """Refuse a study that would draw more than is allowed here; none of its rows is made for that.

    Without ``rows`` the size of a picture and its steps are not known yet, and not looked at.

    Raises
    ------
    InvalidInput
        The sentence names the largest scale that would do.
    """
    n, advice = n_asked(design, settings), "raise the limit where this program is started"
    if n > limits.max_images:
        scale = _largest_scale(design, settings, limits.max_images)
        smaller = f"a scale of {scale:g} ({100 * scale:g} % of the published size)" if scale else "less"
        hint = "" if scale else " in its options, its prompts or their number of pictures"
        advice = f"ask for {smaller}{hint}, or {advice}"
    else:
        advice = f"ask for a smaller scale, or {advice}"
    check_budget(
        n,
        limits,
        what=_name(design, settings),
        advice=advice,
        n_steps=rows.num_inference_steps if rows else 0,
        pixels=rows.info.width * rows.info.height if rows else 0,
    )


def check_size_of_arms(design: Design, settings: StudySettings, limits: Settings) -> None:
    """Refuse arms that together draw more than one run may here, before any row of theirs is made."""
    n = n_asked(design, settings)
    if n > limits.max_images:
        scale = _largest_scale(design, settings, limits.max_images)
        smaller = f"a scale of {scale:g} ({100 * scale:g} % of the published size)" if scale else "fewer arms"
        check_budget(
            n,
            limits,
            what=f"{design.name} with {len(settings.arms)} arms at {100 * settings.scale:g} % of its size",
            advice=f"ask for {smaller}, or raise the limit where this program is started",
        )


def check_work_of_arms(plans: Sequence[StudyPlan], limits: Settings) -> None:
    """Refuse arms of more pictures, imported ones too, or of more steps than one run may have here."""
    n, work = 0, 0.0
    for plan in plans:
        rows = plan.manifest.rows
        later = 0 if plan.settings.images else plan.program.n_later(plan.design, plan.settings)
        n += len(rows) + later
        work += sum(row.num_inference_steps * row.width * row.height for row in rows) / 1e6
        work += later * rows[0].num_inference_steps * rows[0].width * rows[0].height / 1e6
    what = f"{plans[0].design.name} with {len(plans)} arms"
    advice = "ask for a smaller scale or fewer arms, or raise the limit where this program is started"
    check_budget(n, limits, what=what, advice=advice)
    check_work(work, limits, what=what, of=f"{n:,} pictures of all arms", advice=advice)


def _name(design: Design, settings: StudySettings) -> str:
    title = program_of(design).title(design, settings)
    published = f"{design.name} at {100 * settings.scale:g} % of its size"
    return published if design.reference else f"exploring “{title}”"


def n_asked(design: Design, settings: StudySettings) -> int:
    """Pictures that a study may draw in all its arms, those included that it draws while it measures."""
    program = program_of(design)
    if settings.arms[1:]:
        return sum(n_asked(design, arm) for arm in each_arm(settings) if not arm.images)
    return sum(shot.n for shot in program.shots(design, settings)) + program.n_later(design, settings)


def _largest_scale(design: Design, settings: StudySettings, most: int) -> float:
    """The largest whole percentage below the settings' scale that asks for at most ``most``; 0 for none."""
    low, high = 0, math.ceil(100 * settings.scale) - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = n_asked(design, replace(settings, scale=middle / 100)) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return low / 100


def check_import(design: Design, imported: ImportedRows, shots: list[Shot], services: StudyServices) -> None:
    """Refuse an import of more pictures than are allowed here; none of them is opened for that."""
    check_budget(
        imported.n_found(shots),
        services.settings,
        what=f"{design.name} on {imported.source.name}",
        advice="bring fewer pictures, take a smaller scale, or raise the limit where this program is started",
    )
