"""Report of a labelling task: agreement of raters, agreement with classifiers, and runs scored with its answers."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import bias_core
from bias_core.errors import InvalidInput
from bias_core.labels.label_store import LabelStore
from bias_core.labels.results import LabelledItem, TaskProgress, answers_frame, task_answers, winner
from bias_core.labels.task_owner import OwnerKey, picture_path
from bias_core.measures.agreement import (
    agreement_estimate,
    cohen_kappa,
    disagreements,
    level_numbers,
    reader_errors_from_labels,
)
from bias_core.measures.intervals import mean_interval
from bias_core.measures.paired_stereotype import ANDROGYNOUS, GENDERS, NOT_TWO_PEOPLE, UNCLEAR
from bias_core.measures.sequential import share_interval
from bias_core.measures.two_phase import FEWEST_LABELS, draw_rater_weights, two_phase_estimate, two_phase_shares
from bias_core.people import load_scales
from bias_core.report.claims import decide_claims, decide_findings
from bias_core.report.corrected import kappa_finding
from bias_core.study.answers import MACHINE
from bias_core.study.classifier_answers import CODES, list_readings
from bias_core.study.label_tasks import (
    CANNOT_TELL,
    NO,
    PICTURE,
    POSITIONS,
    PREFER_NOT,
    SINGLE,
    UNTOLD,
    YES,
    Task,
    answer_key,
    attribute_key,
)
from bias_core.study.types import (
    Design,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    figure,
    finding,
    mark,
    table,
)
from bias_core.types import Estimate, ImageRow, StoredImage

Labels = Mapping[tuple[str, str], str]  # an answer for each ``(image_id, position)``

KIND = "labels"
ALPHA, LABELS = "alpha", "labels"  # keys: agreement of all answers, and the table of majority labels
_CONFIDENCE = 0.95
_MOST_DISPUTED = 100
_MOST_PAIRS = 45  # of raters with an interval: ten raters
_PAIR_RESAMPLES = 200  # few, because every pair is resampled
_MOST_PAIRED = 30  # raters: 435 pairs, more than are read
_FEWEST_RIGHT = 0.75  # of the attention checks, for a rater who looks
_LABELS_NOTE = (
    "Labels say how a picture looks to these raters, never who anyone is. Agreement means that raters "
    "see the same, not that they are right."
)
_RATERS_NOTE = (
    "agrees: share of a rater's answers that equal the majority of the others for the same picture, with its exact "
    "interval. differs: clearly below the share of all other raters. known right: attention checks that the rater "
    "answered right in every position. fails checks: clearly fewer of them than three in four. Both are exact tests, "
    "corrected for the number of raters. excluded: by the owner; this rater's "
    "answers count nowhere."
)
_CHECKS_NOTE = (
    "Pictures with a known answer; they count nowhere else. Exact intervals. If hardly anyone "
    "gives the known answer, look at the picture: the known answer may be wrong."
)
MACHINES_NOTE = (
    "A judge is a machine: it counts in no agreement, majority or score of people. agrees with people: share of "
    "its answers that equal the majority of people, with its exact interval."
)
_TIES_NOTE = (
    "Counts of people or pictures. A tie between raters counts as “cannot identify” (“unclear”) if the task has that "
    "answer, as in the paired studies; else it is left out."
)
_ERRORS_NOTE = (
    "sensitivity: share of pictures with this answer of people that get it from the classifier too; specificity: share "
    "of the others that do not get it. Exact intervals."
)

PEOPLE_SAY = "people say"  # the column with the majority's answer
_TWO = 2  # people in a picture
_BETWEEN_NOTE = (
    "Share of all disagreement that lies between these two answers to the same picture; by chance: the same share if "
    "answers went to pictures at random. Above chance, raters confuse the two answers."
)
_TIE, _NO_ANSWER = "no majority", "no answer yet"
FEWEST = 5  # raters of a group that has its own numbers
HIDDEN = "in smaller groups"
_SHARES_NOTE = (
    "share: mean over a group's raters of the share of their answers, with the interval of Student's t over raters. "
    f"Groups of fewer than {FEWEST} raters are listed together, without a number."
)
_AGREEMENT_NOTE = (
    "Krippendorff's α of the group's raters among themselves, with an interval over pictures. Groups see different "
    "pictures, and α depends on them: overlapping intervals show no difference."
)
_HOW = "Among pictures that raters could judge; the interval includes their disagreement."


def label_report(
    progress: TaskProgress,
    labelled: Sequence[LabelledItem],
    automatic: Mapping[str, Labels] | None = None,
    facts: Mapping[str, Mapping[str, str]] | None = None,
) -> StudyReport:
    """Report agreement, raters, majority labels, and their agreement with ``automatic`` labels of classifiers, by name.

    Items with a known answer only check attention. Coefficients that need more answers than there are, are
    left out, with a note. ``facts`` are raters' answers about themselves.
    """
    task = progress.task
    people, answers = majority_labels(labelled, task), task_answers(task, labelled)
    answers = answers[answers["answer"] != ""]
    raters, findings = _raters_table(progress, answers), _agreement(answers, task)
    findings += scale_findings(answers, task) if task.scale else ()
    n_answered = sum(entry.item.gold is None and len(entry.answers) > 0 for entry in labelled)
    n_each = f"{n_answered:,} of {progress.n_items:,} pictures have an answer, {progress.n_complete:,} have all "
    notes = [f"{n_each}{task.raters_per_item}."] if progress.n_complete < n_answered else []
    notes += [] if findings else ["Agreement needs two pictures that two raters have answered."]
    tables = [raters, _checks_table(labelled), _pairs_table(answers), *group_tables(answers, facts or {}, task)]
    tables.append(_machines_table(automatic or {}, people))
    for name, labels in (automatic or {}).items():
        new_findings, new_tables = _compare_classifier(name, labels, people, task)
        findings += new_findings
        tables += new_tables
    tables += [_coverage(people, task), _answer_counts(answers, task), answers_between(collect_votes(answers))]
    tables += [_disputed(people), table(LABELS, "Majority labels", people, _LABELS_NOTE)]
    results = Results(
        findings=decide_findings(findings, _family, confidence=_CONFIDENCE),
        tables=tuple(table for table in tables if len(table.frame)),
        figures=drawable([answers_figure(people, task), _raters_figure(raters.frame)]),
        notes=(*notes, _LABELS_NOTE),
    )
    return StudyReport(
        run_id=f"{task.id[:8]}-v{task.version}",
        design=Design(name=KIND, title=task.title, kind=KIND, reference="", where="", summary="People's labels"),
        settings=StudySettings(model="", condition="", encoder="people"),
        results=results,
        n_planned=progress.n_items,
        n_images=n_answered,
        versions={"bias_core": bias_core.__version__},
        pictures=pictures_frame(people, task),
    )


def _family(finding: Finding) -> str | None:
    """Return the family of α, the only number that the headline reads; nothing is claimed of others."""
    return finding.key if finding.key == ALPHA else None


def majority_labels(labelled: Sequence[LabelledItem], task: Task) -> pd.DataFrame:
    """Return a row per ordinary item and position with the majority's answer; "" for a tie or no answer."""
    rows = [
        (entry.item.image_id, position, entry.item.identities.get(position, ""), entry.majority(position),
         entry.share(position), len(entry.answers), _counts_text(Counter(entry.votes(position))))
        for entry in labelled if entry.item.gold is None for position in task.positions
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["image_id", "position", "identity", "label", "share", "raters", "answers"])


def _counts_text(votes: Counter[str]) -> str:
    return ", ".join(f"{n} {word}" for word, n in votes.most_common())


def _share_columns(name: str, count: int, n: int, ends: str = "") -> dict[str, float]:
    """A share with its exact interval, as columns; undefined for n = 0."""
    return columns(name, share_interval(count, n) if n else None, ends=ends)


def _tested_share(count: int, n: int, null_value: float | None) -> Estimate:
    """Return a share with its exact test; undefined for n = 0."""
    return share_interval(count, n, null_value=null_value) if n else Estimate.undefined(0, "nothing to compare")


def _raters_table(progress: TaskProgress, answers: pd.DataFrame) -> StudyTable:
    against = _against_others(answers)
    n_all, n_equal = len(against), int(against["equal"].sum())
    names = [rater.rater for rater in progress.raters]
    counts = against.groupby("rater")["equal"].agg(["size", "sum"]).reindex(names, fill_value=0).astype(int)
    agreed = [
        _tested_share(equal, n, (n_equal - equal) / (n_all - n) if n_all > n else None)
        for n, equal in zip(*(counts[name].tolist() for name in counts), strict=True)
    ]
    checked = [_tested_share(rater.n_gold_right, rater.n_gold, _FEWEST_RIGHT) for rater in progress.raters]
    differs, fails = (decide_claims(shares, confidence=_CONFIDENCE) for shares in (agreed, checked))
    rows = [
        {
            "rater": rater.rater, "answered": rater.n_answered, "skipped": rater.n_skipped,
            "median seconds": rater.median_seconds, "known right": f"{rater.n_gold_right} of {rater.n_gold}",
            "fails checks": fails[i].verdict == "below", "compared": agreed[i].n,
            **columns("agrees", agreed[i], ends=""), "differs": differs[i].verdict == "below",
            "excluded": rater.excluded,
        }
        for i, rater in enumerate(progress.raters)
    ]  # fmt: skip
    return table("raters", "Raters", rows, _RATERS_NOTE)


def _machines_table(automatic: Mapping[str, Labels], people: pd.DataFrame) -> StudyTable:
    """Share of each judge's answers that equal the majority of people."""
    majority = {(row.image_id, row.position): row.label for row in people.itertuples(index=False) if row.label}
    rows = []
    for name, labels in automatic.items():
        if name.startswith(MACHINE):
            matches = [label == majority[key] for key, label in labels.items() if key in majority]
            equal = _share_columns("agrees with people", sum(matches), len(matches))
            rows.append({"rater": name, "kind": "machine", "answered": len(labels), "compared": len(matches), **equal})
    return table("machines", "Judges and people", rows, MACHINES_NOTE)


def _against_others(answers: pd.DataFrame) -> pd.DataFrame:
    """Compare each answer with the majority of the other raters, where they have one."""
    votes = {key: Counter(item_votes) for key, item_votes in collect_votes(answers).items()}
    rows = [
        (rater, answer == majority)
        for image_id, position, rater, answer in answers[["image_id", "position", "rater", "answer"]].itertuples(
            index=False
        )
        if (majority := winner(votes[image_id, position] - Counter([answer])))
    ]
    return pd.DataFrame(rows, columns=["rater", "equal"])


def _checks_table(labelled: Sequence[LabelledItem]) -> StudyTable:
    """Attention checks: how often raters gave the known answer, and their other answers."""
    rows = []
    for entry in labelled:
        for position, right in (entry.item.gold or {}).items():
            votes = Counter(entry.votes(position))
            n, n_right = votes.total(), votes.pop(right, 0)
            rows.append({
                "image_id": entry.item.image_id, "position": position, "known": right, "answers": n, "right": n_right,
                **_share_columns("share", n_right, n), "said instead": _counts_text(votes),
            })  # fmt: skip
    return table("checks", "Attention checks", rows, _CHECKS_NOTE)


def _pairs_table(answers: pd.DataFrame) -> StudyTable:
    """Cohen's kappa of every two raters, with intervals for the first pairs; empty if raters are too many."""
    rows: list[dict[str, Any]] = []
    if 2 <= answers["rater"].nunique() <= _MOST_PAIRED:
        ratings = answers.pivot_table("answer", ["image_id", "position"], "rater", aggfunc="first")
        for first_rater, second_rater in combinations(ratings.columns, 2):
            common = ratings[[first_rater, second_rater]].dropna()
            if len(common) < 2:
                continue
            equal, kappa = (
                float((common[first_rater] == common[second_rater]).mean()),
                cohen_kappa(common[first_rater], common[second_rater]),
            )
            row = {"one": first_rater, "other": second_rater, "n": len(common), "equal": equal, "κ": kappa}
            row |= {"low": math.nan, "high": math.nan, "note": ""}
            if len(rows) < _MOST_PAIRS:
                estimate = _coefficient(common, common.index, "cohen_kappa", n_resamples=_PAIR_RESAMPLES)
                row |= {"low": estimate.low, "high": estimate.high, "note": estimate.note}
            rows.append(row)
    return table("pairs", "Every two raters", rows, "Cohen's κ on the n answers that both gave.")


def _raters_figure(raters: pd.DataFrame) -> StudyFigure:
    marks = raters.reindex(columns=["rater", "agrees", "low", "high", "differs"]).dropna(subset="agrees")
    marks["group"] = marks.pop("differs").map({True: "differs from the others", False: "as the others"})
    marks = marks.rename(columns={"rater": "name", "agrees": "value"}).reset_index(drop=True)
    caption = "A rater far left of all others sees differently, or does not look."
    title = "Raters against the majority of the others"
    return figure("intervals", "raters", title, marks, caption, x="share of equal answers")


def _agreement(answers: pd.DataFrame, task: Task) -> list[Finding]:
    """Alpha of all answers, by order on a scale, and Fleiss' kappa of pictures that equally many raters answered."""
    votes = collect_votes(answers)
    several = _keep_several_votes(votes)
    if len(several) < 2:
        return []
    counted = f"{answers['rater'].nunique():,} raters, {len(answers):,} answers."
    findings = [_build_alpha(ALPHA, "All answers", several, counted)]
    if task.scale and len(levels := _keep_several_votes(ordinal_votes(votes, task))) >= 2:
        says = "By the order of the scale, without “cannot tell”."
        findings.insert(0, _build_alpha("alpha_ordinal", "All answers, by their order", levels, says, level="ordinal"))
    if len(in_two := votes_in_two(votes)) >= 2:
        says = "Only the answers “feminine” and “masculine”, as in the paper."
        findings.append(_build_alpha("alpha_two", "Feminine or masculine alone", in_two, says))
    usual = Counter(map(len, several)).most_common(1)[0][0]
    even = several[several.map(len) == usual]
    if len(even) >= 2:
        fleiss = _coefficient(even.tolist(), even.index, "fleiss_kappa")
        title = f"What {usual} raters answered"
        findings.append(Finding(key="fleiss", title=title, metric="fleiss_kappa", estimate=fleiss))
    return findings


def _build_alpha(key: str, title: str, votes: "pd.Series[Any]", says: str, **options: Any) -> Finding:
    # No coefficient asks who said it: a column a rater would be a thousand times as wide.
    alpha = _coefficient(pd.DataFrame(votes.tolist()), votes.index, **options)
    return Finding(key=key, title=title, metric="krippendorff_alpha", estimate=alpha, says=f"{says} {_LIMITS}")


def _coefficient(ratings: Any, people: "pd.Index[Any]", name: Any = "krippendorff_alpha", **options: Any) -> Estimate:
    """Agreement with its interval over pictures, and the value that chance gives."""
    pictures = people.get_level_values("image_id")
    return agreement_estimate(ratings, coefficient=name, groups=pictures, null_value=0.0, **options)


_LIMITS = "Customary limits: 0.8 for reliable answers, 0.667 for tentative conclusions."
"""Limits of Krippendorff's alpha."""


def _compare_classifier(
    name: str, labels: Labels, people: pd.DataFrame, task: Task
) -> tuple[list[Finding], list[StudyTable]]:
    """Compare a classifier with the majority of people: kappa, a confusion table, and error rates."""
    pairs = people.set_index(["image_id", "position"])[["label"]]
    tie = (people["label"] == "").to_numpy() & (people["raters"] > 0).to_numpy()
    pairs["label"] = pairs["label"].mask(tie, task.untold)
    pairs["automatic"] = [labels.get(key, "") for key in pairs.index]
    pairs = pairs[(pairs != "").all(axis=1)]
    finding = kappa_finding(f"kappa_{name}", f"People and {name}", pairs, pairs.index.get_level_values("image_id"))
    if finding is None:
        return [], []
    order = list(dict.fromkeys([*task.answer_keys, *pairs["automatic"]]))
    counts = pd.crosstab(pairs["label"], pairs["automatic"]).reindex(index=order, columns=order, fill_value=0)
    counts = counts.rename_axis(None, axis=1).rename_axis("people say").reset_index()
    title, note = f"People's labels (rows) and {name} (columns)", _TIES_NOTE
    key = re.sub(r"\W+", "_", name)
    tables = [table(f"confusion_{key}", title, counts, note)]
    if rows := _error_rates(pairs, task):
        title = f"Errors of {name}, people taken as right"
        tables.append(table(f"errors_{key}", title, rows, _ERRORS_NOTE))
    return [replace(finding, estimate=replace(finding.estimate, null_value=0.0))], tables


def _error_rates(pairs: pd.DataFrame, task: Task) -> list[dict[str, Any]]:
    """Error rates of the classifier for each answer, people taken as right."""
    rows = []
    for answer in task.answer_keys:
        if not 0 < (pairs["label"] == answer).sum() < len(pairs):
            continue
        errors = reader_errors_from_labels(pairs["label"], pairs["automatic"], positive=answer)
        n, n_without = errors.n_positive, errors.n_negative
        rows.append({
            "answer": answer, **_share_columns("sensitivity", round(errors.sensitivity * n), n), "n": n,
            **_share_columns("specificity", round(errors.specificity * n_without), n_without, "spec."),
            "n without": n_without,
        })  # fmt: skip
    return rows


def _coverage(people: pd.DataFrame, task: Task) -> StudyTable:
    """Numbers of pictures with a majority label, and with one that can be scored."""
    rows = []
    for position in task.positions:
        position_labels = people[people["position"] == position]
        usable = int((~position_labels["label"].isin(["", *UNTOLD, NOT_TWO_PEOPLE, CANNOT_TELL])).sum())
        rows.append({
            "position": position, "asked": len(position_labels), "answered": int((position_labels["raters"] > 0).sum()),
            "with a majority": int((position_labels["label"] != "").sum()), "usable": usable,
            **_share_columns("coverage", usable, len(position_labels)),
        })  # fmt: skip
    note = "usable: the majority is neither “cannot identify”, “unclear” or “cannot tell” nor a failed picture."
    return table("coverage", "Coverage", rows, note)


def _answer_counts(answers: pd.DataFrame, task: Task) -> StudyTable:
    n_of, n_all = Counter(zip(answers["position"], answers["answer"], strict=True)), Counter(answers["position"])
    rows = [
        {"position": p, "answer": a, "n": n_of[p, a], "share": n_of[p, a] / n_all[p] if n_all[p] else None}
        for p in task.positions
        for a in task.answer_keys
    ]
    return table("counted", "Answers", rows, "Every rater's answer counts.")


def _disputed(people: pd.DataFrame) -> StudyTable:
    """Pictures that raters disagree about, the most disputed first."""
    disputed_labels = people[(people["raters"] >= 2) & ((people["share"] < 1) | (people["label"] == ""))]
    disputed_labels = disputed_labels.sort_values("share", kind="stable", na_position="first").head(_MOST_DISPUTED)
    note = "Pictures without a label have two answers with equally many votes."
    return table("disputed", "Disputed pictures", disputed_labels.reset_index(drop=True), note)


def rater_labels(store: LabelStore, key: OwnerKey) -> pd.DataFrame:
    """All answers to ordinary items; InvalidInput if there are none yet."""
    frame = answers_frame(store, key)
    frame = frame[frame["known"] == ""].reset_index(drop=True)
    if frame.empty:
        raise InvalidInput("no one has answered yet")
    return frame


def automatic_answers(report: StudyReport, task: Task) -> dict[str, Labels]:
    """Labels of a run's classifiers (and its ground truth) as answers of this task, by source."""
    tables = {table.key: table.frame for table in report.results.tables}
    answers: dict[str, pd.Series[Any]] = {}
    if LABELS in tables and task.kind.startswith("pst_"):
        frame = tables[LABELS].set_index(["image_id", "position"])
        names = {"automatic": "automatic labels", "truth": "the ground truth"}
        nobody_says = {word: task.untold or word for word in UNTOLD}
        answers = {name: frame[column].replace(nobody_says) for column, name in names.items() if column in frame}
    if "judged" in tables and task.kind == "association":
        frame = tables["judged"].assign(position=PICTURE).set_index(["image_id", "position"])
        answers = {"the classifier": frame["classifier"].replace("", None).dropna().map(answer_key)}
    given: dict[str, Any] = {name: labels.dropna().astype(str).to_dict() for name, labels in answers.items()}
    return {name: labels for name, labels in given.items() if labels}


def find_answer_key(task: Task, attribute: str) -> str | None:
    """Return the key of the answer that means an attribute by its name; None if no answer of the task does."""
    if attribute in {name for name, _ in task.attributes.values()}:
        return YES
    return key if (key := attribute_key(attribute)) in task.answer_keys else None


def yes_no_answers(
    report: StudyReport, task: Task, answers: pd.DataFrame, *, attribute: str, present: str
) -> pd.DataFrame:
    """Answers to a task about one attribute of a run, in the task's own words, as yes and no.

    Parameters
    ----------
    report : an exploration; the labelled pictures are all of its pictures, or a random sample.
    attribute : name of one of its attributes.
    present : the answer that means the attribute is there; any other means that it is not, except
        "cannot tell".

    Raises
    ------
    InvalidInput : no such attribute or answer, or a task about another attribute or that serves another run.
    """
    if task.run_id not in ("", report.run_id):
        raise InvalidInput(
            f"this task asks about a sample of another run, {task.run_id}: open that run's report, or make a task from "
            "this one"
        )
    names = dict.fromkeys(reading.attribute.name for reading in list_readings(report) if reading.attribute)
    if attribute not in names:
        raise InvalidInput(f"this run has no attribute {attribute!r}; it has {', '.join(names) or 'none'}")
    if not present:
        labels = ", ".join(answer.label for answer in task.answers)
        raise InvalidInput(f"which answer means “{attribute}”? Choose it first: {labels}")
    positions = {name: position for position, (name, _) in task.attributes.items()} or {attribute: task.positions[0]}
    if attribute not in positions:
        raise InvalidInput(f"this task does not ask about {attribute!r}; it asks about {', '.join(positions)}")
    about = answers[answers["position"].isin([positions[attribute], ""])]
    key = task.answer(present).key
    words = {"": "", **{word: CANNOT_TELL for word, code in CODES.items() if code >= CODES[CANNOT_TELL]}, key: YES}
    said = about["answer"].map(lambda given: words.get(given, NO))
    return about.assign(attribute=attribute, question="", answer=said)


def pictures_frame(people: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return a row per picture: the majority's answer, in each position and in all, and the number of answers."""
    rows: dict[str, dict[str, Any]] = {}
    words = _get_answer_words(task)
    for picture in people.itertuples(index=False):
        usual = {"image_id": picture.image_id, "group": "", "prompt": str(picture.identity), "seed": 0}
        row = rows.setdefault(str(picture.image_id), {**usual, PEOPLE_SAY: "", "raters": picture.raters})
        label = words.get(str(picture.label), str(picture.label)) or (_TIE if picture.raters else _NO_ANSWER)
        place = (
            ""
            if picture.position == PICTURE or len(task.positions) == 1
            else f"{words.get(str(picture.position), str(picture.position))}: "
        )
        # With many questions, the first one labels the picture.
        if not row[PEOPLE_SAY] or len(task.positions) == _TWO:
            row[PEOPLE_SAY] = ", ".join(filter(None, [row[PEOPLE_SAY], place + label]))
        if place:
            row[f"{place}people say"] = label
        row[f"{place}answers"] = picture.answers
    return pd.DataFrame(list(rows.values()))


def _get_answer_words(task: Task) -> dict[str, str]:
    """Return the texts of answers and the names of attributes, by key."""
    names = {position: name for position, (name, _) in task.attributes.items()}
    return names | {answer.key: answer.label for answer in task.answers}


def answers_figure(people: pd.DataFrame, task: Task) -> StudyFigure:
    """Plot the share of pictures by the majority's answer."""
    rows: list[dict[str, Any]] = []
    given, words = [key for key in task.answer_keys if (people["label"] == key).any()], _get_answer_words(task)
    for position in task.positions:
        labels = people.loc[(people["position"] == position) & (people["label"] != ""), "label"]
        where = {"group": words.get(position, position)} if len(task.positions) > 1 else {}
        shares = {key: share_interval(int((labels == key).sum()), len(labels)) for key in given if len(labels)}
        rows += [mark(words[key], share, **where) for key, share in shares.items()]
    facts: dict[str, Any] = {"caption": "Among pictures with a majority.", "x": "share of the labelled pictures"}
    return figure("pairs" if len(task.positions) > 1 else "intervals", "answers", "Majority answers", rows, **facts)


def load_rated_pictures(store: LabelStore, labelled: Sequence[LabelledItem]) -> dict[str, StoredImage]:
    """The pictures that raters see, by the id of the original."""
    return {
        entry.item.image_id: StoredImage(
            row=ImageRow(prompt=next(iter(entry.item.identities.values()), ""), seed=0, model=""),
            path=picture_path(store.pictures, entry.item.picture),
        )
        for entry in labelled
        if entry.item.gold is None
    }


def count_same_answers(report: StudyReport) -> tuple[int, int, str]:
    """Return the number of pictures with several answers that are all the same, of how many, and a word for them."""
    labels = report.results.frame(LABELS)
    several = labels[labels["raters"] >= 2]
    positions = set(labels["position"])
    are_people = positions <= {SINGLE, *POSITIONS[2]}
    unit = "pictures" if len(positions) == 1 else "people in pictures" if are_people else "questions about pictures"
    return int((several["share"] == 1).sum()), len(several), unit


def collect_votes(answers: pd.DataFrame) -> "pd.Series[Any]":
    votes: pd.Series[Any] = answers.groupby(["image_id", "position"], sort=False)["answer"].agg(list)
    return votes


def _keep_several_votes(votes: "pd.Series[Any]") -> "pd.Series[Any]":
    """Keep items with two votes or more."""
    return votes[votes.map(len) >= 2]


def answers_between(votes: "pd.Series[Any]") -> StudyTable:
    """Tabulate pairs of answers to the same picture; empty for only two answers, or one rater.

    ``votes``: all answers, a list for each picture and position.
    """
    several = _keep_several_votes(votes)
    rows: list[dict[str, Any]] = []
    if len(several) >= 2 and votes.explode().nunique() > 2:
        groups = several.index.get_level_values("image_id")
        for pair in disagreements(pd.DataFrame(several.tolist()), groups=groups):
            row = {"one answer": pair.answers[0], "other answer": pair.answers[1]}
            rows.append(row | columns("share of disagreement", pair.share) | {"by chance": pair.by_chance})
    return table("between", "What raters disagree about", rows, _BETWEEN_NOTE)


def votes_in_two(votes: "pd.Series[Any]") -> "pd.Series[Any]":
    """Votes for feminine or masculine among four answers, for items with two such votes; else empty."""
    if not votes.explode().isin((ANDROGYNOUS, UNCLEAR)).any():
        return votes.iloc[:0]
    return _keep_several_votes(votes.map(lambda given: [answer for answer in given if answer in GENDERS]))


def group_tables(answers: pd.DataFrame, facts: Mapping[str, Mapping[str, str]], task: Task) -> list[StudyTable]:
    """Return tables of shares and of agreement by group; empty without questions about raters.

    Parameters
    ----------
    answers : a row for each answer: ``image_id, position, rater, answer``.
    facts : each rater's answers by question; "prefer not to say" is a group too.
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
            group_answers = answers[answers["rater"].isin(raters)]
            shares += [{**where, **line} for line in _group_shares(group_answers, task)]
            agreement.append({**where, **_group_agreement(group_answers)})
    return [
        table("group_shares", "Answers by group of raters", shares, _SHARES_NOTE),
        table("group_agreement", "Agreement by group of raters", agreement, _AGREEMENT_NOTE),
    ]


def visible_groups(question: str, facts: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Raters by group, small groups together as :data:`HIDDEN`, enough of them that subtraction reveals none.

    >>> facts = {f"r{i}": {"Where?": "town" if i < 7 else "country"} for i in range(9)}
    >>> {name: len(raters) for name, raters in visible_groups("Where?", facts).items()}
    {'in smaller groups': 9}
    """
    groups: dict[str, list[str]] = {}
    for rater, facts_of_rater in facts.items():
        groups.setdefault(facts_of_rater.get(question, PREFER_NOT), []).append(rater)
    by_size = sorted(groups, key=lambda name: len(groups[name]))
    hidden = [name for name in by_size if len(groups[name]) < FEWEST]
    remaining_groups = by_size[len(hidden) :]
    while hidden and remaining_groups and sum(len(groups[name]) for name in hidden) < FEWEST:
        hidden.append(remaining_groups.pop(0))
    visible = {name: raters for name, raters in groups.items() if name not in hidden}
    return visible | ({HIDDEN: [rater for name in hidden for rater in groups[name]]} if hidden else {})


def _group_shares(answers: pd.DataFrame, task: Task) -> list[dict[str, Any]]:
    rows = []
    for position in task.positions:
        position_answers = answers[answers["position"] == position]
        for answer in task.answer_keys:
            if not (position_answers["answer"] == answer).any():
                continue
            by_rater = position_answers["answer"].eq(answer).groupby(position_answers["rater"]).mean()
            mean = mean_interval(by_rater.to_numpy())
            share = mean if math.isnan(mean.low) else replace(mean, low=max(0.0, mean.low), high=min(1.0, mean.high))
            rows.append(
                {
                    "position": position,
                    "answer": answer,
                    "answers": len(position_answers),
                    **columns("share", share, ends=""),
                }
            )
    return rows


def _group_agreement(answers: pd.DataFrame) -> dict[str, Any]:
    several = _keep_several_votes(collect_votes(answers))
    alpha = _coefficient(pd.DataFrame(several.tolist()), several.index) if len(several) >= 2 else None
    return {"pictures": len(several), **columns("α", alpha, ends="")}


def ordinal_votes(votes: "pd.Series[Any]", task: Task) -> "pd.Series[Any]":
    """Return the levels that raters gave each picture, as numbers, without "cannot tell"."""
    places = {key: place for place, key in enumerate(task.answer_keys) if key != CANNOT_TELL}
    return votes.map(lambda given: [places[answer] for answer in given if answer in places])


def scale_findings(answers: pd.DataFrame, task: Task) -> Iterator[Finding]:
    """Findings: the mean level that people see, the shares at both ends of the scale, and of "cannot tell".

    ``answers``: a row for each answer with ``image_id``, ``rater`` and ``answer``.
    """
    scale, places = load_scales()[task.scale], {key: place for place, key in enumerate(task.answer_keys)}
    k = len(scale.levels)  # the place of "cannot tell"
    votes = answers.assign(place=answers["answer"].map(places)).pivot_table(
        index="image_id", columns="rater", values="place", sort=False
    )
    if len(votes) < FEWEST_LABELS:
        return
    weights = draw_rater_weights(votes.shape[1])
    read = np.zeros(len(votes))  # as if a classifier put all into one class
    shares = two_phase_shares(read, votes.to_numpy(float), n_classes=k + 1, rater_weights=weights)
    for key, (title, metric, of, _) in zip(("mean", "lowest", "highest"), level_numbers(scale), strict=True):
        estimate = two_phase_estimate(of, shares)
        yield finding(f"scale-{key}", f"{scale.title}, seen by people: {title}", metric, estimate, _HOW)
    unclear = two_phase_estimate(lambda of: of[..., k], shares)
    title = f"{scale.title}: people cannot tell"
    yield finding("scale-unclear", title, "attribute_prevalence", unclear, "Share of labelled pictures.")
