"""A labelling task's answers as a report: do raters agree, who differs, and do readers see the same?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.metrics.agreement import agreement_estimate, reader_errors_from_labels
from bias_core.metrics.paired_labels import CANNOT_IDENTIFY, NOT_TWO_PEOPLE
from bias_core.statistics import wilson_interval
from bias_core.studies.label_raters import checks_table, pairs_table, raters_figure, raters_table, said_of
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    StudyReport,
    StudySettings,
    StudyTable,
)

if TYPE_CHECKING:
    from bias_core.annotation.collected import LabelledItem, TaskProgress
    from bias_core.annotation.tasks import Task
    from bias_core.types import Estimate

Said = Mapping[tuple[str, str], str]
"""An answer for each ``(image_id, position)``."""

KIND = "labels"
COVERAGE = "coverage"
"""Key of a table."""
_MOST_DISPUTED = 100
_UNUSABLE = (CANNOT_IDENTIFY, NOT_TWO_PEOPLE)
_LABELS_NOTE = (
    "Labels say how a picture looks to these raters, never what anybody is. Their agreement says that they "
    "see alike, not that they are right."
)


def label_report(
    progress: TaskProgress, labelled: Sequence[LabelledItem], automatic: Mapping[str, Said] | None = None
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
    given = answers_given(labelled)
    people = majority_labels(labelled, task)
    raters, pairs = raters_table(progress, given), pairs_table(given)
    compared = [_compared(name, said, people, task) for name, said in (automatic or {}).items()]
    findings = (*_agreement(given), *(finding for found, _ in compared for finding in found))
    tables = (
        raters,
        checks_table(labelled),
        pairs,
        *(table for _, found in compared for table in found),
        _coverage(people, task),
        _counted(given, task),
        _disputed(people),
        StudyTable(key="labels", title="Majority labels", frame=people, note=_LABELS_NOTE),
    )
    results = Results(
        findings=findings,
        tables=tuple(table for table in tables if len(table.frame)),
        figures=tuple(figure for figure in (raters_figure(raters.frame),) if len(figure.data)),
        notes=(*_missing(findings), _LABELS_NOTE),
    )
    return report_of(task, results, n_planned=progress.n_items, n_images=progress.n_complete)


def report_of(task: Task, results: Results, *, n_planned: int, n_images: int) -> StudyReport:
    """What was found about a task in the shape of a study's report, so that it can be taken along."""
    design = Design(name=KIND, title=task.title, kind=KIND, reference="", where="", summary="People's labels")
    settings = StudySettings(model="", condition="", encoder="people")
    return StudyReport(
        run_id=f"{task.id[:8]}-v{task.version}",
        design=design,
        settings=settings,
        results=results,
        n_planned=n_planned,
        n_images=n_images,
    )


def answers_given(labelled: Sequence[LabelledItem]) -> pd.DataFrame:
    """A row for each answer to an ordinary item: ``image_id, position, rater, answer``."""
    rows = [
        (one.item.image_id, position, given.rater, answer)
        for one in labelled
        if one.item.gold is None
        for given in one.answers
        for position, answer in given.choices.items()
    ]
    return pd.DataFrame(rows, columns=["image_id", "position", "rater", "answer"])


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
            "answers": ", ".join(f"{n} {word}" for word, n in Counter(one.votes(position)).most_common()),
        }
        for one in labelled
        if one.item.gold is None
        for position in task.positions
    ]
    columns = ["image_id", "position", "identity", "label", "share", "raters", "answers"]
    return pd.DataFrame(rows, columns=columns)


def _agreement(given: pd.DataFrame) -> list[Finding]:
    """Alpha of all answers, and Fleiss' kappa of the pictures that equally many raters answered."""
    several = {key: said for key, said in said_of(given).items() if len(said) >= 2}
    if len(several) < 2:
        return []
    pictures = [image_id for image_id, _ in several]
    # Neither coefficient asks who said it: a column a rater would be a thousand times as wide.
    most = max(map(len, several.values()))
    ratings = pd.DataFrame([[*said, *[None] * (most - len(said))] for said in several.values()])
    alpha = _of_chance(agreement_estimate(ratings, coefficient="krippendorff_alpha", groups=pictures))
    says = f"{given['rater'].nunique():,} raters, {len(given):,} answers. {_strength(alpha)}"
    found = [
        Finding(key="alpha", title="All answers", metric="krippendorff_alpha", estimate=alpha, says=says)
    ]
    usual = Counter(map(len, several.values())).most_common(1)[0][0]
    even = {key: said for key, said in several.items() if len(said) == usual}
    if len(even) >= 2:
        groups = [image_id for image_id, _ in even]
        each = list(even.values())
        fleiss = _of_chance(agreement_estimate(each, coefficient="fleiss_kappa", groups=groups))
        title = f"What {usual} raters answered"
        found.append(Finding(key="fleiss", title=title, metric="fleiss_kappa", estimate=fleiss))
    return found


def _of_chance(estimate: Estimate) -> Estimate:
    """With the value that chance gives."""
    return replace(estimate, null_value=0.0)


def _strength(estimate: Estimate) -> str:
    """Krippendorff's own customary limits [krippendorff2011], by the interval's ends."""
    if not estimate.low <= estimate.high:
        return ""
    if estimate.low >= 0.8:
        return "Reliable by the customary limit of 0.8."
    if estimate.high < 0.667:
        return "Below the customary lower limit of 0.667: conclude little from single pictures."
    return "Not clearly above the customary limit of 0.8."


def _compared(
    name: str, said: Said, people: pd.DataFrame, task: Task
) -> tuple[list[Finding], list[StudyTable]]:
    """A reader against people's majority: kappa, who is taken for whom, and its error rates."""
    keys = zip(people["image_id"], people["position"], strict=True)
    both = people.assign(automatic=[said.get(key, "") for key in keys])
    both = both[(both["automatic"] != "") & (both["label"] != "")]
    if len(both) < 2:
        return [], []
    kappa = agreement_estimate(
        both[["label", "automatic"]], coefficient="cohen_kappa", groups=both["image_id"]
    )
    equal = int((both["label"] == both["automatic"]).sum())
    finding = Finding(
        key=f"kappa_{name}",
        title=f"People and {name}",
        metric="cohen_kappa",
        estimate=_of_chance(kappa),
        says=f"Equal for {equal:,} of {len(both):,}.",
    )
    order = list(dict.fromkeys([*task.answer_keys, *both["automatic"]]))
    counts = pd.crosstab(both["label"], both["automatic"]).reindex(index=order, columns=order, fill_value=0)
    frame = counts.rename_axis(None, axis=1).rename_axis("people say").reset_index()
    table = StudyTable(
        key=f"confusion_{name}".replace(" ", "_"),
        title=f"People's labels (rows) and {name} (columns)",
        frame=frame,
        note="Counts of people or pictures with a majority label.",
    )
    return [finding], [table, *_errors(name, both, task)]


def _errors(name: str, both: pd.DataFrame, task: Task) -> list[StudyTable]:
    """How often the reader misses each answer, people taken as right."""
    rows = []
    for answer in task.answer_keys:
        if not 0 < (both["label"] == answer).sum() < len(both):
            continue
        found = reader_errors_from_labels(both["label"], both["automatic"], positive=answer)
        seen = wilson_interval(round(found.sensitivity * found.n_positive), found.n_positive)
        absent = wilson_interval(round(found.specificity * found.n_negative), found.n_negative)
        row = {"answer": answer, "sensitivity": seen.value, "low": seen.low, "high": seen.high, "n": seen.n}
        row |= {"specificity": absent.value, "spec. low": absent.low, "spec. high": absent.high}
        rows.append(row | {"n without": absent.n})
    if not rows:
        return []
    return [
        StudyTable(
            key=f"errors_{name}".replace(" ", "_"),
            title=f"Errors of {name}, people taken as right",
            frame=pd.DataFrame(rows),
            note="sensitivity: share of what people call so that it calls so too; specificity: share of the "
            "rest that it does not. Wilson intervals.",
        )
    ]


def _coverage(people: pd.DataFrame, task: Task) -> StudyTable:
    """How many have a label: of most raters, and of those who can be scored."""
    rows = []
    for position in task.positions:
        labels = people.loc[people["position"] == position, "label"]
        counts = {
            "answered": int((people.loc[labels.index, "raters"] > 0).sum()),
            "with a majority": int((labels != "").sum()),
            "usable": int((~labels.isin(["", *_UNUSABLE])).sum()),
        }
        share = wilson_interval(counts["usable"], len(labels))
        row = {"position": position, "asked": len(labels), **counts, "coverage": share.value}
        rows.append(row | {"low": share.low, "high": share.high})
    note = "usable: with a majority that is neither “cannot identify” nor a failed picture."
    return StudyTable(key=COVERAGE, title="Coverage", frame=pd.DataFrame(rows), note=note)


def _counted(given: pd.DataFrame, task: Task) -> StudyTable:
    """How often each answer was given."""
    rows = []
    for position in task.positions:
        some = given.loc[given["position"] == position, "answer"]
        for answer in task.answer_keys:
            n = int((some == answer).sum())
            rows.append(
                {
                    "position": position,
                    "answer": answer,
                    "n": n,
                    "share": n / len(some) if len(some) else None,
                }
            )
    return StudyTable(
        key="counted", title="Answers", frame=pd.DataFrame(rows), note="Every rater's answer counts."
    )


def _disputed(people: pd.DataFrame) -> StudyTable:
    """Pictures that raters did not all see alike, the most disputed first."""
    some = people[(people["raters"] >= 2) & ((people["share"] < 1) | (people["label"] == ""))]
    some = some.sort_values("share", kind="stable", na_position="first").head(_MOST_DISPUTED)
    note = "Without a label: two answers have equally many votes."
    return StudyTable(key="disputed", title="Disputed pictures", frame=some.reset_index(drop=True), note=note)


def _missing(findings: Sequence[Finding]) -> list[str]:
    if any(finding.key == "alpha" for finding in findings):
        return []
    return ["Agreement needs two pictures that two raters have answered."]
