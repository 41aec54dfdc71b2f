"""The raters of a labelling task: their part, their attention, and how they agree with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.metrics.agreement import agreement_estimate, cohen_kappa
from bias_core.statistics import wilson_interval
from bias_core.studies.study_types import StudyFigure, StudyTable

if TYPE_CHECKING:
    from bias_core.annotation.collected import LabelledItem, TaskProgress

RATERS, CHECKS = "raters", "checks"
"""Keys of tables; RATERS also of the figure."""
_MOST_PAIRS = 45  # of raters with an interval: ten raters
_PAIR_RESAMPLES = 200
_MOST_PAIRED = 30  # raters
_FEWEST_RIGHT = 0.75  # of the attention checks, for somebody who looks
_RATERS_NOTE = (
    "agrees: share of a rater's answers that equal what most others said of the same picture, with Wilson's "
    "interval. differs: the interval lies below the share of all raters together; one in 40 does by chance. "
    "known right: of the attention checks that the rater met, in every position. fails checks: even the "
    "upper end of Wilson's interval of that share is below three in four. excluded: the owner lets nothing "
    "of this rater count, here or elsewhere."
)


def raters_table(progress: TaskProgress, given: pd.DataFrame) -> StudyTable:
    """Each rater's part, attention, and agreement with the others."""
    against = _against_others(given)
    n_equal, n_all = int(against["equal"].sum()), len(against)
    by_rater = {str(rater): list(some) for rater, some in against.groupby("rater")["equal"]}
    rows = []
    for one in progress.raters:
        mine = by_rater.get(one.rater, [])
        equal, n = sum(mine), len(mine)
        share = wilson_interval(equal, n) if n else None
        others = (n_equal - equal) / (n_all - n) if n_all > n else float("nan")
        checks = wilson_interval(one.n_gold_right, one.n_gold) if one.n_gold else None
        rows.append(
            {
                "rater": one.rater,
                "answered": one.n_answered,
                "skipped": one.n_skipped,
                "median seconds": one.median_seconds,
                "known right": f"{one.n_gold_right} of {one.n_gold}",
                "fails checks": bool(checks and checks.high < _FEWEST_RIGHT),
                "compared": n,
                "agrees": share.value if share else float("nan"),
                "low": share.low if share else float("nan"),
                "high": share.high if share else float("nan"),
                "differs": bool(share and share.high < others),
                "excluded": one.excluded,
            }
        )
    return StudyTable(key=RATERS, title="Raters", frame=pd.DataFrame(rows), note=_RATERS_NOTE)


def checks_table(labelled: Sequence[LabelledItem]) -> StudyTable:
    """The pictures whose answer is known: how often raters gave it, and what else they said."""
    rows = []
    for one in labelled:
        for position, known in (one.item.gold or {}).items():
            said = Counter(one.votes(position))
            n, right = sum(said.values()), said.pop(known, 0)
            share = wilson_interval(right, n) if n else None
            row = {"image_id": one.item.image_id, "position": position, "known": known, "answers": n}
            shares = {"share": "value", "low": "low", "high": "high"}
            row |= {"right": right} | {k: getattr(share, v, float("nan")) for k, v in shares.items()}
            rows.append(row | {"said instead": ", ".join(f"{k} {word}" for word, k in said.most_common())})
    note = (
        "Pictures whose answer was known; they count in nothing else. Wilson intervals. Where hardly anybody "
        "gives the known answer, look at the picture: the answer may be wrong."
    )
    frame = pd.DataFrame(rows)
    return StudyTable(key=CHECKS, title="Attention checks", frame=frame, note=note)


def _against_others(given: pd.DataFrame) -> pd.DataFrame:
    """Whether each answer equals what most of the other raters said, where they have such a majority."""
    votes = {key: Counter(said) for key, said in said_of(given).items()}
    rows = []
    for image_id, position, rater, answer in given.itertuples(index=False):
        others = (votes[image_id, position] - Counter([answer])).most_common(2)
        if others and (len(others) == 1 or others[0][1] > others[1][1]):
            rows.append((rater, answer == others[0][0]))
    return pd.DataFrame(rows, columns=["rater", "equal"])


def pairs_table(given: pd.DataFrame) -> StudyTable:
    """Cohen's kappa of every two raters with at least two common answers; intervals for the first pairs.

    Nothing where nobody answered, or where raters are so many that nobody would read on.
    """
    if not 2 <= given["rater"].nunique() <= _MOST_PAIRED:
        return _pairs(pd.DataFrame())
    ratings = given.pivot_table("answer", ["image_id", "position"], "rater", aggfunc="first")
    rows: list[dict[str, Any]] = []
    for one, other in combinations(ratings.columns, 2):
        common = ratings[[one, other]].dropna()
        if len(common) < 2:
            continue
        row = {"one": one, "other": other, "common answers": len(common)}
        row["equal"] = float((common[one] == common[other]).mean())
        row["κ"] = cohen_kappa(common[one], common[other])
        if len(rows) < _MOST_PAIRS:
            found = agreement_estimate(
                common,
                coefficient="cohen_kappa",
                groups=common.index.get_level_values("image_id"),
                n_resamples=_PAIR_RESAMPLES,
            )
            row |= {"low": found.low, "high": found.high}
        rows.append(row)
    return _pairs(pd.DataFrame(rows))


def _pairs(frame: pd.DataFrame) -> StudyTable:
    note = "Cohen's κ on common pictures."
    return StudyTable(key="pairs", title="Every two raters", frame=frame, note=note)


def said_of(given: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Everybody's answers by picture and position."""
    found: dict[tuple[str, str], list[str]] = {}
    for image_id, position, answer in zip(given["image_id"], given["position"], given["answer"], strict=True):
        found.setdefault((image_id, position), []).append(answer)
    return found


def raters_figure(raters: pd.DataFrame) -> StudyFigure:
    """Each rater's agreement with the majority of the others."""
    if raters.empty:
        raters = pd.DataFrame(columns=["rater", "agrees", "low", "high", "differs"])
    data = raters.dropna(subset="agrees")
    group = data["differs"].map({True: "differs from the others", False: "as the others"})
    marks = {"name": data["rater"], "value": data["agrees"], "low": data["low"], "high": data["high"]}
    return StudyFigure(
        key=RATERS,
        title="Raters against the majority of the others",
        kind="intervals",
        data=pd.DataFrame({**marks, "group": group}).reset_index(drop=True),
        labels={"x": "share of equal answers"},
        caption="Far left of all others: somebody who sees differently, or does not look.",
    )
