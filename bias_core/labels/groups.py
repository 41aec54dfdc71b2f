"""Do groups of raters see alike? Shares of answers and agreement by what raters say of themselves.

Nothing is told of a group of fewer than :data:`FEWEST` raters, nor of one that could be found by subtraction.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from bias_core.measures.agreement import agreement_estimate
from bias_core.measures.intervals import mean_interval
from bias_core.study.label_tasks import PREFER_NOT, Task
from bias_core.study.types import StudyTable, columns, table

FEWEST = 5  # raters of a group of which anything is told
HIDDEN = "in smaller groups"
SHARES, AGREEMENT = "group_shares", "group_agreement"
_SHARES_NOTE = (
    "share: mean over a group's raters of the share of their answers, with the interval of Student's t over raters. "
    f"Nothing is told of groups of fewer than {FEWEST} raters; they stand together, without a number."
)
_AGREEMENT_NOTE = (
    "Krippendorff's α of the group's raters among themselves, with an interval over pictures. Groups see different "
    "pictures, and α depends on them: overlapping intervals show no difference."
)


def group_tables(answers: pd.DataFrame, facts: Mapping[str, Mapping[str, str]], task: Task) -> list[StudyTable]:
    """Two tables, of shares and of agreement by group; none where nobody was asked.

    Parameters
    ----------
    answers : a row for each answer: ``image_id, position, rater, answer``.
    facts : of each rater who was asked their answer by question; "prefer not to say" is a group too.
    """
    shares: list[dict[str, Any]] = []
    agreement: list[dict[str, Any]] = []
    for question in task.about_rater if facts else ():
        for group, raters in visible_groups(question, facts).items():
            n = f"{len(raters):,}" if group != HIDDEN else f"under {FEWEST} each"
            where: dict[str, Any] = {"question": question, "group": group, "raters": n}
            if group == HIDDEN:
                agreement.append({**where, "pictures": None, **columns("α", None, ends="")})
                continue
            some = answers[answers["rater"].isin(raters)]
            shares += [{**where, **line} for line in _shares(some, task)]
            agreement.append({**where, **_agreement(some)})
    return [
        table(SHARES, "Answers by group of raters", shares, _SHARES_NOTE),
        table(AGREEMENT, "Agreement by group of raters", agreement, _AGREEMENT_NOTE),
    ]


def visible_groups(question: str, facts: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Raters by group, the small ones together as :data:`HIDDEN`: so many that none can be told by subtraction.

    >>> facts = {f"r{i}": {"Where?": "town" if i < 7 else "country"} for i in range(9)}
    >>> {name: len(raters) for name, raters in visible_groups("Where?", facts).items()}
    {'in smaller groups': 9}
    """
    groups: dict[str, list[str]] = {}
    for rater, facts_of_rater in facts.items():
        groups.setdefault(facts_of_rater.get(question, PREFER_NOT), []).append(rater)
    by_size = sorted(groups, key=lambda name: len(groups[name]))
    hidden = [name for name in by_size if len(groups[name]) < FEWEST]
    rest = by_size[len(hidden) :]
    while hidden and rest and sum(len(groups[name]) for name in hidden) < FEWEST:
        hidden.append(rest.pop(0))
    visible = {name: raters for name, raters in groups.items() if name not in hidden}
    return visible | ({HIDDEN: [rater for name in hidden for rater in groups[name]]} if hidden else {})


def _shares(answers: pd.DataFrame, task: Task) -> list[dict[str, Any]]:
    rows = []
    for position in task.positions:
        some = answers[answers["position"] == position]
        for answer in task.answer_keys:
            if not (some["answer"] == answer).any():
                continue
            by_rater = some["answer"].eq(answer).groupby(some["rater"]).mean()
            mean = mean_interval(by_rater.to_numpy())
            share = mean if math.isnan(mean.low) else replace(mean, low=max(0.0, mean.low), high=min(1.0, mean.high))
            rows.append(
                {"position": position, "answer": answer, "answers": len(some), **columns("share", share, ends="")}
            )
    return rows


def _agreement(answers: pd.DataFrame) -> dict[str, Any]:
    votes = answers.groupby(["image_id", "position"], sort=False)["answer"].agg(list)
    several = votes[votes.map(len) >= 2]
    if len(several) < 2:
        return {"pictures": len(several), **columns("α", None, ends="")}
    pictures = several.index.get_level_values("image_id")
    alpha = agreement_estimate(pd.DataFrame(several.tolist()), coefficient="krippendorff_alpha", groups=pictures)
    return {"pictures": len(several), **columns("α", alpha, ends="")}
