"""PST: findings and tables that its studies share, from people with their perceived gender."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.metrics.agreement import agreement_estimate
from bias_core.metrics.paired_labels import checked_labels, generation_failures
from bias_core.metrics.paired_stereotype import stereotype_gap, stereotype_test_score
from bias_core.studies.arms.samples import counted_sample
from bias_core.studies.kit.types import Finding
from bias_core.studies.paired.labelling import AUTOMATIC, BY_HAND, SINGLE, people_answers
from bias_core.studies.paired.prompts import PAIRED
from bias_core.studies.reports.build import columns, table
from bias_core.studies.reports.number_text import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from bias_core.metrics.paired_stereotype import StereotypeTestScore
    from bias_core.studies.kit.types import Sample, StudySettings, StudyTable
    from bias_core.types import Estimate

LABELLED = "Perceived gender is labelled"
"""How the first note on labels begins."""


SOURCES = {"automatic": "automatic labels", "human": "people", "truth": "the record of what was drawn"}


def score_finding(
    key: str, title: str, people: pd.DataFrame, settings: StudySettings, *, published: float | None = None
) -> Finding:
    """The stereotype test score of these people, with what is planted where that is on record."""
    found = stereotype_test_score(people, confidence=settings.confidence, rng=settings.seed)
    return Finding(
        key=key,
        title=title,
        metric="stereotype_test_score",
        estimate=found.confidence_interval,
        published=published,
        expected=true_score(people),
        says=f"{_direction(found.confidence_interval)} {_coverage(found, len(people))}",
        sample=_sample([people]),
    )


def _sample(settings: Sequence[pd.DataFrame]) -> Sample | None:
    """What a score was computed from, or a gap where there are two sets of people, picture by picture."""
    if any(people.empty or "unit" not in people for people in settings):
        return None
    parts = []
    for people in settings:
        checked = checked_labels(people)
        rows = checked.assign(unit=people["unit"].to_numpy())[checked["usable"].to_numpy()]
        parts.append(rows.groupby("unit", sort=False)["conforms"].agg(["sum", "count"]).astype(float))
    hits, sizes = (np.concatenate([part[name].to_numpy() for part in parts]) for name in ("sum", "count"))
    first = len(parts[0])

    def of_counts(times: np.ndarray) -> np.ndarray:
        def score(part: slice) -> np.ndarray:
            share: np.ndarray = (times[:, part] @ hits[part]) / (times[:, part] @ sizes[part])
            return 200 * share - 100

        return score(slice(first)) - (score(slice(first, None)) if len(parts) > 1 else 0)

    return counted_sample([unit for part in parts for unit in part.index], of_counts)


def gap_finding(
    key: str,
    title: str,
    one: pd.DataFrame,
    other: pd.DataFrame,
    settings: StudySettings,
    *,
    published: float | None = None,
    more: str = "more stereotyped in pairs",
) -> Finding:
    """Score of ``one`` minus that of ``other``; ``more`` says what a positive difference means."""
    gap = stereotype_gap(one, other, confidence=settings.confidence, rng=settings.seed).gap
    true = true_score(one), true_score(other)
    says = "No clear difference."
    if is_clear(gap):
        sign, change = ("+", more) if gap.value > 0 else ("", more.replace("more", "less", 1))
        says = f"{sign}{format_number(gap.value, gap.low, gap.high)}: {change}."
    return Finding(
        key=key,
        title=title,
        metric="stereotype_gap",
        estimate=gap,
        published=published,
        expected=None if true[0] is None or true[1] is None else true[0] - true[1],
        says=says,
        sample=_sample([one, other]),
    )


def both_settings(
    people: pd.DataFrame,
    column: str,
    titles: Mapping[str, str],
    published: Mapping[str, Mapping[str, float]],
    settings: StudySettings,
) -> list[Finding]:
    """Paired, single and gap of all people ("overall"), then of those with each value of ``column``."""
    findings = []
    for key, title in titles.items():
        some = people if key == "overall" else people[people[column] == key]
        paired, single, printed = in_setting(some), in_setting(some, SINGLE), published[key]
        for setting, name, here in ((PAIRED, "In pairs", paired), (SINGLE, "Alone", single)):
            findings.append(
                score_finding(f"{setting}_{key}", f"{name}, {title}", here, settings, published=printed[setting])
            )
        gap = printed[PAIRED] - printed[SINGLE]
        findings.append(gap_finding(f"gap_{key}", f"Gap, {title}", paired, single, settings, published=gap))
    return findings


def is_clear(estimate: Estimate) -> bool:
    """Whether the interval leaves out 0, by more than the arithmetic errs."""
    return round(estimate.low, _DIGITS) > 0 or round(estimate.high, _DIGITS) < 0


_DIGITS = 9


def true_score(people: pd.DataFrame) -> float | None:
    """The score of what was really drawn; None where that is not on record or nobody is usable."""
    if people.empty or people["truth"].isna().any():
        return None
    drawn = people.assign(perceived_gender=people["truth"])
    value = stereotype_test_score(drawn, n_resamples=2).score
    return None if math.isnan(value) else value


def micro_scores(
    paired: pd.DataFrame, single: pd.DataFrame, by: Sequence[str], settings: StudySettings
) -> pd.DataFrame:
    """Scores of both settings and their gap for each value of ``by``, a row each."""
    by = list(by)
    options: dict[str, Any] = {"by": by, "confidence": settings.confidence, "rng": settings.seed}
    gaps = stereotype_gap(paired, single, **options)
    micro: pd.DataFrame = gaps[[*by, "gap", "low", "high"]].rename(columns={"low": "gap low", "high": "gap high"})
    for name, people in (("single", single), ("paired", paired)):
        scores = stereotype_test_score(people, **options)
        names = {
            "score": f"STS {name}",
            "low": f"{name} low",
            "high": f"{name} high",
            "n": f"n {name}",
            "coverage": f"coverage {name}",
            "percent_feminine": f"F {name}",
            "percent_feminine_low": f"F {name} low",
            "percent_feminine_high": f"F {name} high",
        }
        micro = micro.merge(scores[[*by, *names]].rename(columns=names), on=by, how="left")
        if people["truth"].notna().all():
            drawn = people.assign(perceived_gender=people["truth"])
            true = stereotype_test_score(drawn, by=by, n_resamples=2)[[*by, "score"]]
            micro = micro.merge(true.rename(columns={"score": f"drawn STS {name}"}), on=by, how="left")
    return micro


def table_of_findings(key: str, title: str, findings: Sequence[Finding], titles: Mapping[str, str]) -> StudyTable:
    """Findings "single_<group>", "paired_<group>" and "gap_<group>" side by side, a row per group."""
    found = {finding.key: finding for finding in findings}
    rows = []
    for group, name in titles.items():
        row: dict[str, Any] = {"group": name}
        for column in (SINGLE, PAIRED, "gap"):
            finding = found[f"{column}_{group}"]
            row |= columns(column, finding.estimate) | {f"published {column}": finding.published}
        rows.append(row)
    return table(key, title, rows)


def coverage_table(people: pd.DataFrame, settings: StudySettings) -> StudyTable:
    """Pictures that failed and people who cannot be identified, by setting."""
    rows = []
    for setting, some in people.groupby("setting", sort=False):
        failed = generation_failures(some, confidence=settings.confidence)
        found = stereotype_test_score(some, confidence=settings.confidence, rng=settings.seed)
        rows.append(
            {
                "setting": setting,
                "pictures": failed.n_images,
                "failed": failed.n_failed,
                **columns("failed %", failed.percent_failed),
                "people": len(some),
                "cannot identify": found.n_cannot_identify,
                **columns("coverage %", found.coverage),
            }
        )
    return table("coverage", "Who could be scored", rows, _COVERAGE)


_COVERAGE = (
    "A picture fails where it does not show exactly the people asked for: they are not scored. Coverage is "
    "the share of the people asked for that are seen as masculine or feminine."
)


def agreement(people: pd.DataFrame, settings: StudySettings) -> tuple[list[Finding], list[StudyTable]]:
    """Cohen's κ between automatic labels, people's and the record, by setting (Table 12)."""
    findings, rows = [], []
    for setting, (one, other) in product(dict.fromkeys(people["setting"]), combinations(SOURCES, 2)):
        some = in_setting(people, setting).dropna(subset=[one, other])
        if len(some) < 2:
            continue
        kappa = agreement_estimate(
            some[[one, other]],
            coefficient="cohen_kappa",
            groups=some["image_id"],
            confidence=settings.confidence,
            rng=settings.seed,
        )
        equal = 100 * float((some[one] == some[other]).mean())
        findings.append(
            Finding(
                key=f"kappa_{setting}_{one}_{other}",
                title=f"{SOURCES[one].capitalize()} against {SOURCES[other]}, {setting}",
                metric="cohen_kappa",
                estimate=kappa,
                says=f"{equal:.1f} % of {len(some):,} labels are equal.",
            )
        )
        rows.append(
            {
                "setting": setting,
                "labels": SOURCES[one],
                "against": SOURCES[other],
                "people": len(some),
                "equal %": equal,
                **columns("κ", kappa),
                "note": kappa.note,
            }
        )
    note = "Answers are masculine, feminine, cannot identify and failed picture; intervals are over pictures."
    return findings, [table("table12", "Agreement of the labels (Table 12)", rows, note)] if rows else []


def labels_table(people: pd.DataFrame) -> StudyTable:
    """Every person asked for with their label; as a CSV it is what the setting ``labels`` takes."""
    first = ["image_id", "position", "answer", "rater", "setting", "identity", "stereotyped_gender"]
    frame = people.rename(columns={"perceived_gender": "answer"})
    note = (
        "lean: the reader's cosine to the masculine sentence minus that to the feminine one. The CSV can be "
        "corrected and given back as people's answers."
    )
    frame = frame[[*first, *frame.columns.difference(first, sort=False)]]
    return table("labels", "Label of every person", frame, note)


def raters_table(people: pd.DataFrame, settings: StudySettings) -> list[StudyTable]:
    """How far people agree among themselves (Table 1); nothing where there is one rater or none."""
    if not settings.labels:
        return []
    ratings = people_answers(people, settings.labels)
    ratings = ratings[ratings["rater"] != AUTOMATIC]
    rows = []
    for setting, some in ratings.groupby("setting", sort=False):
        answers = some.pivot_table("perceived_gender", ["image_id", "position"], "rater", aggfunc="first")
        n_answers = answers.notna().sum(axis=1)
        if (n_answers >= 2).sum() < 2:
            continue
        even = n_answers.nunique() == 1
        each = [row.dropna().tolist() for _, row in answers.iterrows()] if even else []
        options: dict[str, Any] = {
            "groups": answers.index.get_level_values("image_id"),
            "confidence": settings.confidence,
            "rng": settings.seed,
        }
        alpha = agreement_estimate(answers, coefficient="krippendorff_alpha", **options)
        fleiss = agreement_estimate(each, coefficient="fleiss_kappa", **options) if even else None
        rows.append(
            {"setting": setting, "raters": answers.shape[1], "people": len(answers)}
            | columns("Fleiss' κ", fleiss)
            | columns("Krippendorff's α", alpha)
        )
    note = "Fleiss' κ needs equally many answers for each person; α does not."
    return [table("table1", "Agreement of the raters (Table 1)", rows, note)] if rows else []


def runs_table(people: pd.DataFrame, settings: StudySettings, published: dict[str, Any]) -> StudyTable:
    """The score of each sampling: run k has the k-th picture of every prompt (Table 13)."""
    numbered = people.assign(run=people["seed"].astype(int) - settings.seed + 1)
    by = ["setting", "run"]
    scores = stereotype_test_score(numbered, by=by, confidence=settings.confidence, rng=settings.seed)
    printed = {
        (setting, run): score for setting in published for run, score in enumerate(published[setting]["runs"], start=1)
    }
    keys = zip(scores["setting"], scores["run"], strict=True)
    frame = scores[[*by, "score", "low", "high", "n", "coverage"]]
    frame = frame.assign(published=[printed.get(key, math.nan) for key in keys])
    return table("table13", "Overall scores, run by run (Table 13)", frame)


def labelled_by(people: pd.DataFrame, settings: StudySettings, n_asked: int) -> tuple[str, ...]:
    """Notes on who labelled the people, and on those whom nobody did."""
    options = settings.options
    who = {
        "finder": f"by {settings.encoder} on each person cut out by {options.finder}",
        "vqa": f"by {options.answerer}, asked about the whole picture",
        "people": "by people",
    }["people" if settings.labels else options.labeller]
    notes = [f"{LABELLED} {who}."]
    if len(people) < n_asked:
        notes.append(f"Nobody labelled {n_asked - len(people):,} of {n_asked:,} people; they are left out.")
    by_hand = people[people["rater"] == BY_HAND]
    if len(by_hand):
        n = int((by_hand["perceived_gender"] != by_hand["automatic"]).sum())
        notes.append(
            f"{n:,} of {len(people):,} labels were corrected by hand and {len(by_hand) - n:,} looked at and "
            "left as they were. Look at all, or at a random part: whoever corrects only what looks wrong one "
            "way moves the score that way."
        )
    if options.labeller == "vqa" and not settings.labels:
        notes.append("Questions about whole pictures do not notice failed pictures: none is counted.")
    return tuple(notes)


def in_setting(people: pd.DataFrame, setting: str = PAIRED) -> pd.DataFrame:
    """The people in pictures of one setting."""
    return people[people["setting"] == setting]


def _direction(score: Estimate) -> str:
    if math.isnan(score.value):
        return "Undefined."
    if not is_clear(score):
        return "No clear lean either way."
    return "Conforms to the stereotypes." if score.value > 0 else "Goes against the stereotypes."


def _coverage(found: StereotypeTestScore, n_people: int) -> str:
    return f"{found.n_usable:,} of {n_people:,} people could be scored ({found.coverage.value:.1f} %)."
