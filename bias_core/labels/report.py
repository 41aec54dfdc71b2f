"""A labelling task's answers as a report: do raters agree, who differs, and do readers see the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.metrics.agreement import agreement_estimate, cohen_kappa, reader_errors_from_labels
from bias_core.metrics.paired_labels import CANNOT_IDENTIFY, NOT_TWO_PEOPLE
from bias_core.stats.effects import wilson_interval
from bias_core.studies.kit.types import Design, Finding, Results, StudyFigure, StudyReport, StudySettings, StudyTable

if TYPE_CHECKING:
    from bias_core.annotation.collected import LabelledItem, TaskProgress
    from bias_core.annotation.tasks import Task
    from bias_core.types import Estimate

Labels = Mapping[tuple[str, str], str]
"""An answer for each ``(image_id, position)``."""

KIND = "labels"
RATERS, CHECKS, COVERAGE = "raters", "checks", "coverage"
"""Keys of tables; RATERS also of the figure."""
_MOST_DISPUTED = 100
_MOST_PAIRS = 45  # of raters with an interval: ten raters
_PAIR_RESAMPLES = 200
_MOST_PAIRED = 30  # raters
_FEWEST_RIGHT = 0.75  # of the attention checks, for somebody who looks
_UNUSABLE = (CANNOT_IDENTIFY, NOT_TWO_PEOPLE)
_UNDEFINED = float("nan")
_LABELS_NOTE = (
    "Labels say how a picture looks to these raters, never what anybody is. Their agreement says that they "
    "see alike, not that they are right."
)
_RATERS_NOTE = (
    "agrees: share of a rater's answers that equal what most others said of the same picture, with Wilson's "
    "interval. differs: the interval lies below the share of all raters together; one in 40 does by chance. "
    "known right: of the attention checks that the rater met, in every position. fails checks: even the "
    "upper end of Wilson's interval of that share is below three in four. excluded: the owner lets nothing "
    "of this rater count, here or elsewhere."
)
_CHECKS_NOTE = (
    "Pictures whose answer was known; they count in nothing else. Wilson intervals. Where hardly anybody "
    "gives the known answer, look at the picture: the answer may be wrong."
)
_ERRORS_NOTE = (
    "sensitivity: share of what people call so that it calls so too; specificity: share of the rest that it "
    "does not. Wilson intervals."
)


def label_report(
    progress: TaskProgress, labelled: Sequence[LabelledItem], automatic: Mapping[str, Labels] | None = None
) -> StudyReport:
    """Agreement, raters, majority labels, and how far automatic labels agree with them.

    Parameters
    ----------
    progress, labelled : of the task; items with a known answer count for raters' attention only.
    automatic : answers of readers (or a record) by name, compared with people's majority.

    Returns
    -------
    StudyReport
        Findings are coefficients of agreement with their intervals over pictures; those that need more
        answers than there are, are left out, and a note says so.
    """
    task = progress.task
    given = _answers(labelled)
    people = majority_labels(labelled, task)
    raters = _raters_table(progress, given)
    readers = [_compared(name, labels, people, task) for name, labels in (automatic or {}).items()]
    findings = (*_agreement(given), *(finding for some, _ in readers for finding in some))
    tables = (
        raters,
        _checks_table(labelled),
        _pairs_table(given),
        *(table for _, some in readers for table in some),
        _coverage(people, task),
        _answer_counts(given, task),
        _disputed(people),
        StudyTable(key="labels", title="Majority labels", frame=people, note=_LABELS_NOTE),
    )
    missing = [] if findings and findings[0].key == "alpha" else [
        "Agreement needs two pictures that two raters have answered."
    ]  # fmt: skip
    results = Results(
        findings=findings,
        tables=tuple(table for table in tables if len(table.frame)),
        figures=tuple(figure for figure in (_raters_figure(raters.frame),) if len(figure.data)),
        notes=(*missing, _LABELS_NOTE),
    )
    return report_of(task, results, n_planned=progress.n_items, n_images=progress.n_complete)


def report_of(task: Task, results: Results, *, n_planned: int, n_images: int) -> StudyReport:
    """Results about a task in the shape of a study's report, so that they can be taken along."""
    return StudyReport(
        run_id=f"{task.id[:8]}-v{task.version}",
        design=Design(name=KIND, title=task.title, kind=KIND, reference="", where="", summary="People's labels"),
        settings=StudySettings(model="", condition="", encoder="people"),
        results=results,
        n_planned=n_planned,
        n_images=n_images,
    )


def majority_labels(labelled: Sequence[LabelledItem], task: Task) -> pd.DataFrame:
    """A row for each ordinary item and position with what most raters said; "" for a tie or no answer."""
    rows = [
        {
            "image_id": one.item.image_id,
            "position": position,
            "identity": one.item.identities.get(position, ""),
            "label": one.majority(position),
            "share": one.share(position),
            "raters": len(one.answers),
            "answers": _counts_text(Counter(one.votes(position))),
        }
        for one in labelled
        if one.item.gold is None
        for position in task.positions
    ]
    columns = ["image_id", "position", "identity", "label", "share", "raters", "answers"]
    return pd.DataFrame(rows, columns=columns)


def _answers(labelled: Sequence[LabelledItem]) -> pd.DataFrame:
    """A row for each answer to an ordinary item: ``image_id, position, rater, answer``."""
    rows = [
        (one.item.image_id, position, given.rater, answer)
        for one in labelled
        if one.item.gold is None
        for given in one.answers
        for position, answer in given.choices.items()
    ]
    return pd.DataFrame(rows, columns=["image_id", "position", "rater", "answer"])


def _votes(given: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Everybody's answers by picture and position."""
    votes: dict[tuple[str, str], list[str]] = {}
    for image_id, position, answer in zip(given["image_id"], given["position"], given["answer"], strict=True):
        votes.setdefault((image_id, position), []).append(answer)
    return votes


def _counts_text(votes: Counter[str]) -> str:
    return ", ".join(f"{n} {word}" for word, n in votes.most_common())


def _share(count: int, n: int, name: str, prefix: str = "") -> dict[str, float]:
    """A share with its Wilson interval as columns; undefined of nothing."""
    estimate = wilson_interval(count, n) if n else None
    names = {name: "value", f"{prefix}low": "low", f"{prefix}high": "high"}
    return {column: getattr(estimate, key, _UNDEFINED) for column, key in names.items()}


# Raters: their part, their attention, and how they agree with one another.


def _raters_table(progress: TaskProgress, given: pd.DataFrame) -> StudyTable:
    against = _against_others(given)
    n_equal, n_all = int(against["equal"].sum()), len(against)
    by_rater = {str(rater): list(some) for rater, some in against.groupby("rater")["equal"]}
    rows = []
    for one in progress.raters:
        mine = by_rater.get(one.rater, [])
        equal, n = sum(mine), len(mine)
        share, checks = _share(equal, n, "agrees"), _share(one.n_gold_right, one.n_gold, "right")
        others = (n_equal - equal) / (n_all - n) if n_all > n else _UNDEFINED
        row: dict[str, Any] = {"rater": one.rater, "answered": one.n_answered, "skipped": one.n_skipped}
        row |= {"median seconds": one.median_seconds, "known right": f"{one.n_gold_right} of {one.n_gold}"}
        row |= {"fails checks": checks["high"] < _FEWEST_RIGHT, "compared": n, **share}
        rows.append(row | {"differs": share["high"] < others, "excluded": one.excluded})
    return StudyTable(key=RATERS, title="Raters", frame=pd.DataFrame(rows), note=_RATERS_NOTE)


def _against_others(given: pd.DataFrame) -> pd.DataFrame:
    """Whether each answer equals what most of the other raters said, where they have such a majority."""
    votes = {key: Counter(some) for key, some in _votes(given).items()}
    rows = []
    for image_id, position, rater, answer in given.itertuples(index=False):
        others = (votes[image_id, position] - Counter([answer])).most_common(2)
        if others and (len(others) == 1 or others[0][1] > others[1][1]):
            rows.append((rater, answer == others[0][0]))
    return pd.DataFrame(rows, columns=["rater", "equal"])


def _checks_table(labelled: Sequence[LabelledItem]) -> StudyTable:
    """The pictures whose answer is known: how often raters gave it, and what else they said."""
    rows = []
    for one in labelled:
        for position, right in (one.item.gold or {}).items():
            votes = Counter(one.votes(position))
            n, n_right = votes.total(), votes.pop(right, 0)
            row = {"image_id": one.item.image_id, "position": position, "known": right, "answers": n}
            row |= {"right": n_right, **_share(n_right, n, "share")}
            rows.append(row | {"said instead": _counts_text(votes)})
    return StudyTable(key=CHECKS, title="Attention checks", frame=pd.DataFrame(rows), note=_CHECKS_NOTE)


def _pairs_table(given: pd.DataFrame) -> StudyTable:
    """Cohen's kappa of every two raters with at least two common answers; intervals for the first pairs.

    Nothing where nobody answered, or where raters are so many that nobody would read on.
    """
    rows: list[dict[str, Any]] = []
    if 2 <= given["rater"].nunique() <= _MOST_PAIRED:
        ratings = given.pivot_table("answer", ["image_id", "position"], "rater", aggfunc="first")
        for one, other in combinations(ratings.columns, 2):
            common = ratings[[one, other]].dropna()
            if len(common) < 2:
                continue
            row = {"one": one, "other": other, "common answers": len(common)}
            row["equal"] = float((common[one] == common[other]).mean())
            row["κ"] = cohen_kappa(common[one], common[other])
            if len(rows) < _MOST_PAIRS:
                pictures = common.index.get_level_values("image_id")
                how: dict[str, Any] = {"coefficient": "cohen_kappa", "n_resamples": _PAIR_RESAMPLES}
                estimate = agreement_estimate(common, groups=pictures, **how)
                row |= {"low": estimate.low, "high": estimate.high}
            rows.append(row)
    note = "Cohen's κ on common pictures."
    return StudyTable(key="pairs", title="Every two raters", frame=pd.DataFrame(rows), note=note)


def _raters_figure(raters: pd.DataFrame) -> StudyFigure:
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


# Agreement of all, and of people with readers.


def _agreement(given: pd.DataFrame) -> list[Finding]:
    """Alpha of all answers, and Fleiss' kappa of the pictures that equally many raters answered."""
    several = {key: votes for key, votes in _votes(given).items() if len(votes) >= 2}
    if len(several) < 2:
        return []
    # Neither coefficient asks who said it: a column a rater would be a thousand times as wide.
    most = max(map(len, several.values()))
    ratings = pd.DataFrame([[*votes, *[None] * (most - len(votes))] for votes in several.values()])
    pictures = [image_id for image_id, _ in several]
    alpha = agreement_estimate(ratings, coefficient="krippendorff_alpha", groups=pictures)
    reads = f"{given['rater'].nunique():,} raters, {len(given):,} answers. {_strength(alpha)}"
    findings = [_finding("alpha", "All answers", "krippendorff_alpha", alpha, reads)]
    usual = Counter(map(len, several.values())).most_common(1)[0][0]
    even = {key: votes for key, votes in several.items() if len(votes) == usual}
    if len(even) >= 2:
        pictures = [image_id for image_id, _ in even]
        fleiss = agreement_estimate(list(even.values()), coefficient="fleiss_kappa", groups=pictures)
        findings.append(_finding("fleiss", f"What {usual} raters answered", "fleiss_kappa", fleiss))
    return findings


def _finding(key: str, title: str, metric: str, estimate: Estimate, says: str = "") -> Finding:
    """With the value that chance gives."""
    of_chance = replace(estimate, null_value=0.0)
    return Finding(key=key, title=title, metric=metric, estimate=of_chance, says=says)


def _strength(estimate: Estimate) -> str:
    """Krippendorff's own customary limits [krippendorff2011], by the interval's ends."""
    if not estimate.low <= estimate.high:
        return ""
    if estimate.low >= 0.8:
        return "Reliable by the customary limit of 0.8."
    if estimate.high < 0.667:
        return "Below the customary lower limit of 0.667: conclude little from single pictures."
    return "Not clearly above the customary limit of 0.8."


def _compared(name: str, labels: Labels, people: pd.DataFrame, task: Task) -> tuple[list[Finding], list[StudyTable]]:
    """A reader against people's majority: kappa, who is taken for whom, and its error rates."""
    keys = zip(people["image_id"], people["position"], strict=True)
    both = people.assign(automatic=[labels.get(key, "") for key in keys])
    both = both[(both["automatic"] != "") & (both["label"] != "")]
    if len(both) < 2:
        return [], []
    ratings = both[["label", "automatic"]]
    kappa = agreement_estimate(ratings, coefficient="cohen_kappa", groups=both["image_id"])
    equal = f"Equal for {int((both['label'] == both['automatic']).sum()):,} of {len(both):,}."
    order = list(dict.fromkeys([*task.answer_keys, *both["automatic"]]))
    counts = pd.crosstab(both["label"], both["automatic"]).reindex(index=order, columns=order, fill_value=0)
    table = StudyTable(
        key=f"confusion_{name}".replace(" ", "_"),
        title=f"People's labels (rows) and {name} (columns)",
        frame=counts.rename_axis(None, axis=1).rename_axis("people say").reset_index(),
        note="Counts of people or pictures with a majority label.",
    )
    finding = _finding(f"kappa_{name}", f"People and {name}", "cohen_kappa", kappa, equal)
    return [finding], [table, *_errors(name, both, task)]


def _errors(name: str, both: pd.DataFrame, task: Task) -> list[StudyTable]:
    """How often the reader misses each answer, people taken as right."""
    rows = []
    for answer in task.answer_keys:
        if not 0 < (both["label"] == answer).sum() < len(both):
            continue
        errors = reader_errors_from_labels(both["label"], both["automatic"], positive=answer)
        n, n_without = errors.n_positive, errors.n_negative
        row = {"answer": answer, **_share(round(errors.sensitivity * n), n, "sensitivity"), "n": n}
        row |= _share(round(errors.specificity * n_without), n_without, "specificity", "spec. ")
        rows.append(row | {"n without": n_without})
    key, title = f"errors_{name}".replace(" ", "_"), f"Errors of {name}, people taken as right"
    return [StudyTable(key=key, title=title, frame=pd.DataFrame(rows), note=_ERRORS_NOTE)] if rows else []


def _coverage(people: pd.DataFrame, task: Task) -> StudyTable:
    """How many have a label: of most raters, and of those who can be scored."""
    rows = []
    for position in task.positions:
        some = people[people["position"] == position]
        counts = {
            "answered": int((some["raters"] > 0).sum()),
            "with a majority": int((some["label"] != "").sum()),
            "usable": int((~some["label"].isin(["", *_UNUSABLE])).sum()),
        }
        row = {"position": position, "asked": len(some), **counts}
        rows.append(row | _share(counts["usable"], len(some), "coverage"))
    note = "usable: with a majority that is neither “cannot identify” nor a failed picture."
    return StudyTable(key=COVERAGE, title="Coverage", frame=pd.DataFrame(rows), note=note)


def _answer_counts(given: pd.DataFrame, task: Task) -> StudyTable:
    """How often each answer was given."""
    rows = []
    for position in task.positions:
        some = given.loc[given["position"] == position, "answer"]
        for answer in task.answer_keys:
            n = int((some == answer).sum())
            share = n / len(some) if len(some) else None
            rows.append({"position": position, "answer": answer, "n": n, "share": share})
    note = "Every rater's answer counts."
    return StudyTable(key="counted", title="Answers", frame=pd.DataFrame(rows), note=note)


def _disputed(people: pd.DataFrame) -> StudyTable:
    """Pictures that raters did not all see alike, the most disputed first."""
    some = people[(people["raters"] >= 2) & ((people["share"] < 1) | (people["label"] == ""))]
    some = some.sort_values("share", kind="stable", na_position="first").head(_MOST_DISPUTED)
    note = "Without a label: two answers have equally many votes."
    return StudyTable(key="disputed", title="Disputed pictures", frame=some.reset_index(drop=True), note=note)
