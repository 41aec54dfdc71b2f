"""What people's labels are used for: a study scored with them, and a reader's error rates that correct Ψ."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.annotation.collected import LabelledItem, answers_frame
from bias_core.annotation.label_store import LabelStore
from bias_core.annotation.task_owner import OwnerKey
from bias_core.annotation.tasks import PICTURE, Task, answer_key
from bias_core.errors import InvalidInput
from bias_core.exchange.export import csv_bytes
from bias_core.labels.report import Labels, majority_labels, report_of
from bias_core.metrics.agreement import reader_errors_from_labels
from bias_core.metrics.stereotype import stereotype_estimate
from bias_core.stats.effects import corrected_by_errors, wilson_interval
from bias_core.studies.explore.report import Exploration
from bias_core.studies.kit.designs import programs_by_kind
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.types import Finding, Results, StudyReport
from bias_core.studies.paired.labelling import AUTOMATIC
from bias_core.studies.reports.build import table
from bias_core.studies.running.run import run_study


def takes_labels(report: StudyReport) -> bool:
    """Whether people's labels change the scores of such a run."""
    program = programs_by_kind().get(report.design.kind)
    return program is not None and program.takes_labels


def people_labels(store: LabelStore, key: OwnerKey) -> pd.DataFrame:
    """Every answer to an ordinary item; InvalidInput where there is none yet."""
    frame = answers_frame(store, key)
    frame = frame[frame["known"] == ""].reset_index(drop=True)
    if frame.empty:
        raise InvalidInput("nobody has answered yet")
    return frame


def score_with_labels(
    report: StudyReport,
    labels: pd.DataFrame,
    services: StudyServices,
    *,
    path: Path,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress, None, StudyReport]:
    """The run once more with people's labels in place of the reader's; what is drawn is not drawn again.

    Where a run has pairs and single people and ``labels`` are of one of the two, the other keeps the reader's
    labels, and a note says so. ``path`` is where the labels are written as the CSV that studies take.

    Raises InvalidInput: the study takes no labels, or these are of other pictures.
    """
    if not takes_labels(report):
        raise InvalidInput(f"“{report.design.title}” takes no labels of people")
    of_reader = _labels_of_the_reader(report, labels)
    path.write_bytes(csv_bytes(pd.concat([labels, *of_reader.values()])))
    settings = replace(report.settings, labels=str(path))
    again = yield from run_study(report.design, settings, services, cancelled=cancelled, session=session)
    notes = [f"Pictures in the {one} setting keep the reader's labels: people labelled none." for one in of_reader]
    return replace(again, results=replace(again.results, notes=(*notes, *again.results.notes)))


def _labels_of_the_reader(report: StudyReport, labels: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The automatic labels of those settings of the paired test of which people labelled nothing."""
    frame = next((one.frame for one in report.results.tables if one.key == "labels"), None)
    if frame is None:
        return {}
    frame = frame.dropna(subset="automatic")
    settings = frame.loc[frame["image_id"].isin(labels["image_id"]), "setting"]
    if settings.empty:
        return {}
    rest = frame[~frame["setting"].isin(settings)].assign(answer=frame["automatic"], rater=AUTOMATIC)
    columns = ["image_id", "position", "answer", "rater"]
    return {str(name): some[columns] for name, some in rest.groupby("setting")}


def automatic_answers(report: StudyReport, task: Task) -> dict[str, Labels]:
    """What readers (and the record) say of the pictures of a run, as answers of this task, by their names."""
    tables = {one.key: one.frame for one in report.results.tables}
    answers: dict[str, pd.Series[Any]] = {}
    if "labels" in tables and task.kind in ("pst_single", "pst_paired"):
        frame = tables["labels"].set_index(["image_id", "position"])
        names = {"automatic": "automatic labels", "truth": "the record of what was drawn"}
        answers = {name: frame[column] for column, name in names.items() if column in frame}
    if "judged" in tables and task.kind == "association":
        frame = tables["judged"].assign(position=PICTURE).set_index(["image_id", "position"])
        answers = {"the reader": frame["reader"].map(lambda word: answer_key(word) if word else None)}
    given: dict[str, Any] = {name: some.dropna().astype(str).to_dict() for name, some in answers.items()}
    return {name: some for name, some in given.items() if some}


def psi_with_labels(
    report: StudyReport, task: Task, labelled: Sequence[LabelledItem], *, attribute: str, present: str
) -> StudyReport:
    """Ψ of one attribute corrected for the reader's errors, people's majority taken as the truth.

    Parameters
    ----------
    report : an exploration, some or all of whose pictures were labelled.
    attribute : name of one of its attributes.
    present : the answer that says that the attribute is there; any other says that it is not.

    Raises
    ------
    InvalidInput : no such attribute or answer, none of the pictures labelled, only one kind of answer, or a reader that
        tells nothing (sensitivity + specificity at most 1).
    """
    explored = Exploration(report)
    scores = {score.attribute.name: score for score in explored.attributes}
    if (score := scores.get(attribute)) is None:
        raise InvalidInput(f"this run has no attribute {attribute!r}; it has {', '.join(scores) or 'none'}")
    ids = {image.number: image.id for image in explored.images}
    is_there = score.similarity_positive > score.similarity_negative
    calls = {ids[n]: bool(call) for n, call in zip(explored.scored_numbers, is_there, strict=True)}
    people = _people(task, labelled, task.answer(present).key)
    common = [image_id for image_id in calls if image_id in people]
    if not common:
        raise InvalidInput("no labelled picture is of this run, or none has a majority")
    seen = [people[key] for key in common]
    errors = reader_errors_from_labels(seen, [calls[key] for key in common], positive=True, negative=False)
    corrected = corrected_by_errors(sum(calls.values()), len(calls), errors, confidence=report.settings.confidence)
    lines: list[tuple[str, str, Any]] = [
        ("read", f"{attribute}, as the reader calls it", score.prevalence),
        ("people", f"{attribute}, as people see it", wilson_interval(sum(seen), len(common))),
        ("corrected", f"{attribute}, the reader corrected by people", corrected),
    ]
    findings = [Finding(key=k, title=name, metric="attribute_prevalence", estimate=e) for k, name, e in lines]
    if (reference := score.attribute.reference) is not None:
        of_psi = stereotype_estimate(corrected, reference)
        for key, title, estimate, says in (
            ("psi_read", "Ψ as read", score.stereotype, ""),
            ("psi_corrected", "Ψ corrected by people's labels", of_psi, f"Against P* = {reference:g}."),
        ):
            finding = Finding(key=key, title=title, metric="stereotype_score", estimate=estimate, says=says)
            findings.append(finding)
    row = {"attribute": attribute, "labelled pictures": len(common), **vars(errors)}
    notes = ("The interval of the correction holds the uncertainty of both rates [lang2014].",)
    tables = (table("errors", "Errors of the reader", [row]),)
    results = Results(findings=tuple(findings), tables=tables, notes=notes)
    return replace(report_of(task, results, n_planned=len(calls), n_images=len(common)), warning=report.warning)


def _people(task: Task, labelled: Sequence[LabelledItem], present: str) -> dict[str, bool]:
    labels = majority_labels(labelled, task)
    labels = labels[(labels["label"] != "") & (labels["position"] == task.positions[0])]
    return dict(zip(labels["image_id"], labels["label"] == present, strict=True))
