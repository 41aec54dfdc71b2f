"""What raters say on a scale, such as ten skin tones: agreement that knows the order, and the shares of its levels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import numbers_of
from bias_core.measures.two_phase import FEWEST_LABELS, draw_rater_weights, two_phase_estimate, two_phase_shares
from bias_core.people import load_scales
from bias_core.study.label_tasks import CANNOT_TELL, Task
from bias_core.study.types import Finding, finding

_HOW = "Of the pictures of which raters can tell; where they differ, that is in the interval."


def level_places(task: Task) -> dict[str, int]:
    """The place of every answer on the task's scale, from 0; "cannot tell" is one more than the last."""
    levels = [key for key in task.answer_keys if key != CANNOT_TELL]
    return {key: place for place, key in enumerate(levels)} | {CANNOT_TELL: len(levels)}


def ordinal_votes(votes: "pd.Series[Any]", task: Task) -> "pd.Series[Any]":
    """Everybody's levels of each picture, as numbers, without those that cannot tell."""
    places = level_places(task)
    return votes.map(lambda of: [places[one] for one in of if one in places and one != CANNOT_TELL])


def scale_findings(answers: pd.DataFrame, task: Task) -> Iterator[Finding]:
    """The mean level in people's eyes, the ends of the scale, and how often nobody can tell.

    ``answers``: a row for each answer with ``image_id``, ``rater`` and ``answer``.
    """
    places, scale = level_places(task), load_scales()[task.scale]
    k = len(scale.levels)
    votes = answers.assign(place=answers["answer"].map(places)).pivot_table(
        index="image_id", columns="rater", values="place", sort=False
    )
    if len(votes) < FEWEST_LABELS:
        return
    weights = draw_rater_weights(votes.shape[1])
    read = np.zeros(len(votes))  # as if a reader put all into one class
    shares = two_phase_shares(read, votes.to_numpy(float), n_classes=k + 1, rater_weights=weights)

    for key, (title, metric, of, _) in zip(("mean", "lowest", "highest"), numbers_of(scale), strict=True):
        estimate = two_phase_estimate(of, shares)
        yield finding(f"scale-{key}", f"{scale.title}, as people see it: {title}", metric, estimate, _HOW)
    unclear = two_phase_estimate(lambda of: of[..., k], shares)
    title = f"{scale.title}: people cannot tell"
    yield finding("scale-unclear", title, "attribute_prevalence", unclear, "Share of the labelled pictures.")
