"""Explore from Python: one call from a concept to what its pictures show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bias_core.studies.explore.options import KIND, explore_settings
from bias_core.studies.explore.report import Exploration
from bias_core.studies.kit.designs import find_design
from bias_core.studies.running.run import complete, run_study

if TYPE_CHECKING:
    from bias_core.studies.kit.services import StudyServices


def explore(concept: str, services: StudyServices, **settings: Any) -> Exploration:
    """Draw pictures of a concept (or find them) and measure what they show.

    Parameters
    ----------
    concept : what is drawn, e.g. "doctor".
    services : models and stores.
    settings : of a run and of an exploration, such as ``n_images``, ``attributes``, ``model``, ``seed``.

    Returns
    -------
    Exploration
        Pictures, attributes with their intervals, association, groups; its ``report`` is that of the study.
    """
    asked = explore_settings(concept=concept, **settings)
    return Exploration(complete(run_study(find_design(KIND), asked, services)))
