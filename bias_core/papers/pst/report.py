"""The report of a paired test: its headline, scores by setting and by group, agreement, and all arms side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.agreement import agreement_estimate
from bias_core.measures.paired_stereotype import (
    ANDROGYNOUS,
    NOT_TWO_PEOPLE,
    UNCLEAR,
    StereotypeTestScore,
    checked_labels,
    generation_failures,
    stereotype_gap,
    stereotype_test_score,
)
from bias_core.measures.permutation import smallest_sign_p
from bias_core.papers.pst import labelling
from bias_core.papers.pst.labelling import BY_HAND, LABELLED, RATERS_SPLIT, LabellingOptions
from bias_core.report.arm_comparison import ARM, counted_sample, lines_together, marks_over_arms, table_over_arms
from bias_core.report.claims import (
    NO_CLAIM,
    WHY_NOT,
    claim_columns,
    decide_claims,
    decide_findings,
    family_note,
    fewest_units,
    largest,
    p_words,
)
from bias_core.report.corrected import kappa_finding
from bias_core.report.report_text import get_table
from bias_core.report.stop_rules import ShareValues
from bias_core.study.answers import AUTOMATIC
from bias_core.study.design import ReportTexts
from bias_core.study.label_tasks import SINGLE
from bias_core.study.types import (
    ArmReport,
    Claim,
    Finding,
    Results,
    Sample,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    finding,
    get_options,
    intervals,
    value_rows,
)
from bias_core.types import Estimate
from bias_core.wording import format_change, format_list, format_number, format_share

FURTHER = "further-"
"""Start of the keys of findings on further attributes."""
_STATED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "paired_overall": ("In pictures of two", ("gap_overall",)),
    "plain_occupation": ("In pictures of two occupations", ("difference_occupation",)),
    "plain_power": ("In pictures of two roles of power", ("difference_power",)),
    "paired": ("In pictures of two", ("difference", "gap")),
}
"""Scores in pictures of two that headlines state: where, and the change that is stated with each, the first known."""
_PARTS = ("paired_", "gap_")
"""Starts of the keys of scores and gaps of one stereotype or level."""
_FAMILIES = {
    "stereotype_test_score": "scores", "stereotype_gap": "scores", "order_effect": "effects", "kendall_tau": "order",
}  # fmt: skip
POWER_NOTE = (
    "Powerful roles are stereotyped as masculine, powerless ones as feminine. The seed picks one role of each level "
    "per occupation."
)
TABLE_6_NOTE = (
    "Table 6 prints only scores with the intervention. The paper's plain scores are means of the same rows of Table "
    "14, and those of Table 13."
)
OWN_OCCUPATIONS_NOTE = (
    "These occupations are the ones that the paper's model stereotyped most. For another model, choose its own from "
    "other pictures: the most extreme of a few pictures look less extreme when drawn again, with or without "
    "intervention."
)
WHOLE_PICTURES_NOTE = "Questions about whole pictures do not detect failed pictures, so none is counted."


def get_family(finding: Finding) -> str | None:
    """Return the family of a finding: all scores and gaps of a run are one, for a headline chooses among them."""
    return _FAMILIES.get(finding.metric)


def headline(report: StudyReport) -> str:
    """Say the score in pictures of two, and the effect of being alone or of a request to be fair.

    A study of several scores has a headline on the first with a clear number; its findings say the others.
    """
    findings = {finding.key: finding for finding in report.results.findings}
    stated = [
        (where, score, next((findings[change] for change in changes if change in findings), None))
        for key, (where, changes) in _STATED.items()
        if (score := findings.get(key)) is not None and not math.isnan(score.estimate.value)
    ]
    if not stated:
        return _scored_parts(report)
    clear = [parts for parts in stated if any(part is not None and part.is_clear for part in parts[1:])]
    where, score, change = (clear or stated)[0]
    clear_parts = "" if clear else _clear_parts(report)
    return f"{where}, {_score_in_words(score)}.{_change_in_words(change)}{clear_parts}{seen_headline(report)}"


def _score_in_words(score: Finding) -> str:
    claim, value = score.claim or NO_CLAIM, score.estimate.value
    degree = claim.choose("clearly ", "clearly ", "not clearly ") + ("more" if value >= 0 else "less")
    than = "they contradict it" if "neither side" in score.says else "by chance"
    compared = f" {degree} often than {than}" if score.claim else ""  # of an older report nothing is decided
    number = format_change(value, score.estimate.low, score.estimate.high, n=score.estimate.n)
    scale = "0 is chance, 100 always"
    test = _test_in_words(score, "pictures")
    return f"people match the stereotype of their role{compared}: score {number} ({scale}), {test}"


def _change_in_words(change: Finding | None) -> str:
    """Return the effect of a request to be fair, or a clear change against pictures of one person, as a sentence."""
    if change is None or math.isnan(change.estimate.value):
        return ""
    asks_fairness, numbers = change.key.startswith("difference"), numbers_in_words(change, "pictures")
    if change.claim is None:
        return f" Asked to be fair, the score changes by {numbers}." if asks_fairness else ""
    if not change.is_clear:
        return f" A request to be fair does not clearly change the score ({numbers})." if asks_fairness else ""
    direction, opposite = ("more", "less") if change.estimate.value > 0 else ("less", "more")
    if asks_fairness:
        return f" Asked to be fair, the model draws them {direction} stereotyped (score {numbers})."
    return f" People alone are {opposite} stereotyped (score in pairs minus alone {numbers})."


def _scored_parts(report: StudyReport) -> str:
    """Say which scores there are where none of :data:`_STATED` is known, or why there is none."""
    scores = [finding for finding in report.results.findings if finding.metric == "stereotype_test_score"]
    scored = [score for score in scores if not math.isnan(score.estimate.value)]
    if not scored:
        return f"No one could be scored: {_explain_no_score(report)}."
    is_alone = all(score.key.startswith(SINGLE) for score in scored)
    lead = "Only a part of the people in pictures of two could be scored."
    lead = f"No one in pictures of two could be scored: {_explain_no_score(report)}." if is_alone else lead
    scored.sort(key=lambda score: score.key.startswith(SINGLE))
    parts = [f"{score.title} ({numbers_in_words(score, 'pictures')})" for score in scored]
    return f"{lead} Stereotype test scores: {format_list(parts, '; ')}."


def _clear_parts(report: StudyReport) -> str:
    """Name the clear scores and gaps of one stereotype or level; "" if there are none."""
    parts = [
        part.title
        for part in report.results.findings
        if part.is_clear and part.key.startswith(_PARTS) and part.key not in _STATED
    ]
    return f" Clear only for a part: {format_list(parts, '; ')}." if parts else ""


def numbers_in_words(finding: Finding, units: str, *, is_share: bool = False) -> str:
    """Return value, interval, n and test of a finding; the difference of shares is given in points."""
    number = finding.estimate.scaled(100.0 if is_share else 1.0)
    change = format_change(number.value, number.low, number.high, n=number.n)
    return f"{change}{' points' * is_share}, {_test_in_words(finding, units)}"


def _test_in_words(finding: Finding, units: str) -> str:
    """Return n and p of a number; in place of p how many units are needed, or why there is no interval."""
    number, claim = finding.estimate, finding.claim or NO_CLAIM
    words = f"n = {number.n:,} {units.removesuffix('s') if number.n == 1 else units}"
    if claim.verdict == "too few":
        reason = f"at least {needed} are needed" if number.n < (needed := fewest_units(claim)) else claim.reason
        return ", ".join(filter(None, (f"{words}: too few", reason)))
    without = f"; {number.note}" if math.isnan(number.low) and number.note else ""
    return ", ".join(filter(None, (words, p_words(claim)))) + without


def _explain_no_score(report: StudyReport) -> str:
    """Say why no person in pictures of two has a score."""
    people = get_table(report, "labels").frame
    people = people[people["setting"] != SINGLE].dropna(subset="answer")
    if people.empty:
        return "the people in pictures of two have no labels"
    failed = people["answer"] == NOT_TWO_PEOPLE
    split = people.get(RATERS_SPLIT, failed).astype(bool) & ~failed
    everyone = f"{len(people):,} people in pictures of two"
    kinds = (
        (split, "raters are split on all {}", "raters are split on {:,}"),
        (~split & ~failed, "none of the {} can be identified", "{:,} cannot be identified"),
        (
            failed,
            "no picture of two shows the people asked for",
            "{:,} are in pictures that do not show the people asked for",
        ),
    )
    parts = []
    for mask, of_all, of_some in kinds:
        if mask.all():
            return of_all.format(everyone)
        if mask.any():
            parts.append(of_some.format(int(mask.sum())))
    return f"of the {everyone}, {', '.join(parts)}"


def seen_headline(report: StudyReport) -> str:
    """Say the largest link of an attribute with the stereotype, of the clear ones if any; "" if none was measured."""
    test = largest([test for test in report.results.findings if test.key.startswith(FURTHER)])
    if test is None:
        return ""
    if math.isnan(test.estimate.value):
        return f" Whether the stereotype depends on a further attribute is unknown: {test.estimate.note}."
    return f" {test.says}"


_EFFECTS = {
    "place": ("place", "on the left", "on the right"),
    "role": ("role", "in the first role of a pair", "in the second role"),
}


def swapped_headline(report: StudyReport) -> str:
    """Say the effect of the place alone, and of the role, in points."""
    findings = {finding.key: finding for finding in report.results.findings}
    if any(key not in findings or math.isnan(findings[key].estimate.value) for key in _EFFECTS):
        return "The effect of the place is unknown: no seed shows both people in both orders."
    effects = [_effect_in_words(findings[key], *words) for key, words in _EFFECTS.items()]
    return " ".join(effects) + seen_headline(report)


def _effect_in_words(effect: Finding, subject: str, above: str, below: str) -> str:
    claim, numbers = effect.claim or NO_CLAIM, numbers_in_words(effect, "seeds", is_share=True)
    where, share = claim.choose(above, below, ""), "the share of masculine-looking people"
    if not where:
        return f"The {subject} alone does not clearly change {share} ({numbers})."
    points = f"{abs(100 * effect.estimate.value):.0f} points higher {where}"
    return f"The {subject} alone changes {share}: it is {points} ({numbers})."


TEXTS = ReportTexts(__file__)
PAIRED, FAIRNESS = "paired", "fairness"
PLACES = {PAIRED: "In pairs: score", FAIRNESS: "In pairs, asked to be fair: score", SINGLE: "Alone: score"}
"""Scores to show during a run, by setting."""
SOURCES = {"automatic": "automatic labels", "human": "people", "truth": "the ground truth"}


def score_intervals(settings: StudySettings) -> dict[str, Any]:
    """Return :func:`intervals` of scores; valid at any time if the number of pictures was not fixed beforehand."""
    return {**intervals(settings), "fixed_n": not settings.may_stop_early}


def select_setting(people: pd.DataFrame, setting: str = PAIRED) -> pd.DataFrame:
    return people[people["setting"] == setting]


def share_values(name: str, people: pd.DataFrame) -> ShareValues:
    """Return for each picture the share of its people who match the stereotype; nan if none can be scored."""
    labels = checked_labels(people).assign(image_id=people["image_id"].to_numpy())
    conforms = labels["conforms"].astype(float).where(labels["usable"])
    by_picture = conforms.groupby(labels["image_id"], sort=False).mean()
    ids = tuple(map(str, by_picture.index))
    return ShareValues(name=name, image_ids=ids, values=by_picture.to_numpy(float), is_score=True)


def score_finding(
    key: str, title: str, people: pd.DataFrame, settings: StudySettings, *, published: float | None = None
) -> Finding:
    """Return the stereotype test score of these people, with that of the ground truth if known."""
    result = stereotype_test_score(people, **score_intervals(settings))
    score = result.confidence_interval
    return finding(
        key,
        title,
        "stereotype_test_score",
        score,
        f"{result.n_usable:,} of {len(people):,} people could be scored ({result.coverage.value:.1f} %)."
        + _describe_androgynous(people, result),
        readings=("Undefined.",) * 3 if math.isnan(score.value) else _DIRECTIONS,
        published=published,
        expected=true_score(people),
        sample=score_sample([people]),
    )


_DIRECTIONS = ("Matches the stereotypes.", "Contradicts the stereotypes.", "No clear direction.")


def is_in_four(people: pd.DataFrame) -> bool:
    """Return True if a person is labelled androgynous or unclear, which the paper does not offer."""
    return bool(people["perceived_gender"].isin((ANDROGYNOUS, UNCLEAR)).any())


def _describe_androgynous(people: pd.DataFrame, result: StereotypeTestScore) -> str:
    """Return the effect of androgynous and unclear people on a score, in words; "" if there are none."""
    if not is_in_four(people):
        return ""
    share = format_share(*(getattr(result.percent_androgynous, end) / 100 for end in ("value", "low", "high")))
    low, high = (format_number(bound) for bound in result.bounds)
    return (
        f" {share} of them look androgynous and count for neither side. If all unclear people contradicted the "
        f"stereotypes, the score would be {low}; if all matched them, {high}."
    )


def gap_finding(
    key: str,
    title: str,
    first: pd.DataFrame,
    second: pd.DataFrame,
    settings: StudySettings,
    *,
    published: float | None = None,
    reading: str = "more stereotyped in pairs",
) -> Finding:
    """Return the score of ``first`` minus that of ``second``; ``reading`` is the meaning of a positive difference."""
    gap = stereotype_gap(first, second, **score_intervals(settings)).gap
    if apart := _labelled_apart(first, second):
        gap = Estimate.undefined(gap.n, apart, null_value=0.0)
    true = true_score(first), true_score(second)
    less = reading.replace("more", "less", 1)
    readings = (f"{reading[:1].upper()}{reading[1:]}.", f"{less[:1].upper()}{less[1:]}.", "No clear difference.")
    return finding(
        key,
        title,
        "stereotype_gap",
        gap,
        readings=(f"{apart[:1].upper()}{apart[1:]}.",) * 3 if apart else readings,
        published=published,
        expected=None if true[0] is None or true[1] is None else true[0] - true[1],
        sample=None if apart else score_sample([first, second]),
    )


def _labelled_apart(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """Say why two sets of people are not compared: no rater labelled both; "" if they can be."""
    raters = [set(people.dropna(subset="perceived_gender").get("rater", ())) for people in (first, second)]
    is_apart = all(raters) and raters[0].isdisjoint(raters[1])
    return "no gap: people labelled one setting and a classifier the other, and these may differ" if is_apart else ""


def score_sample(settings: Sequence[pd.DataFrame]) -> Sample | None:
    """Return the sample of a score, or of a gap between two sets of people, picture by picture."""
    if any(people.empty or "unit" not in people for people in settings):
        return None
    parts = []
    for people in settings:
        checked = checked_labels(people)
        rows = checked.assign(unit=people["unit"].to_numpy())[checked["usable"].to_numpy()]
        parts.append(rows.groupby("unit", sort=False)["conforms"].agg(["sum", "count"]).astype(float))

    def compute_score(times: np.ndarray) -> np.ndarray:
        drawn = zip(np.split(times, [len(parts[0])], axis=1), parts, strict=False)  # with one part, the rest is empty
        scores = [200 * (n @ part["sum"].to_numpy() / (n @ part["count"].to_numpy())) - 100 for n, part in drawn]
        return np.asarray(scores[0] - sum(scores[1:]))

    return counted_sample([unit for part in parts for unit in part.index], compute_score)


def true_score(people: pd.DataFrame) -> float | None:
    """Return the score of the ground truth; None if it is unknown or no person is usable."""
    if people.empty or people["truth"].isna().any():
        return None
    drawn = checked_labels(people.assign(perceived_gender=people["truth"]))
    conforms = drawn.loc[drawn["usable"], "conforms"].to_numpy()
    return 200 * float(conforms.mean()) - 100 if len(conforms) else None


def scores_by_group(
    people: pd.DataFrame,
    column: str,
    titles: Mapping[str, str],
    published: Mapping[str, Mapping[str, float]],
    settings: StudySettings,
) -> list[Finding]:
    """Return paired and single scores and gap, of all ("overall") and each value of ``column``."""
    findings: list[Finding] = []
    for key, title in titles.items():
        members = people if key == "overall" else people[people[column] == key]
        paired, single, printed = select_setting(members), select_setting(members, SINGLE), published[key]
        gap = printed[PAIRED] - printed[SINGLE]
        findings += [
            score_finding(f"paired_{key}", f"In pairs, {title}", paired, settings, published=printed[PAIRED]),
            score_finding(f"single_{key}", f"Alone, {title}", single, settings, published=printed[SINGLE]),
            gap_finding(f"gap_{key}", f"Gap, {title}", paired, single, settings, published=gap),
        ]
    return findings


def decide_by_family(findings: Sequence[Finding], settings: StudySettings) -> tuple[Finding, ...]:
    """Return findings with their claims, family by family; "too few" where no p of so few units can be clear."""
    families: dict[str, list[Finding]] = {}
    for entry in findings:
        if entry.claim is None and (name := get_family(entry)) is not None:
            families.setdefault(name, []).append(entry)
    claims: dict[str, Claim] = {}
    for members in families.values():
        decided = decide_claims(
            [member.estimate for member in members],
            confidence=settings.confidence,
            smallest_p=[
                smallest_sign_p(member.estimate.n) if member.metric in _OF_SIGNS else math.nan for member in members
            ],
        )
        claims |= {member.key: claim for member, claim in zip(members, decided, strict=True)}
    findings = [replace(entry, claim=claims.get(entry.key, entry.claim)) for entry in findings]
    return decide_findings(findings, get_family, confidence=settings.confidence)


_OF_SIGNS = ("stereotype_test_score", "order_effect")
"""Measures whose tests can give no p below that of equal signs of all units."""


def decided_scores(
    key: str, findings: Sequence[Finding], settings: StudySettings
) -> tuple[tuple[Finding, ...], StudyTable]:
    """Return scores and gaps with their claims, which are one family, and their table."""
    decided = decide_by_family(findings, settings)
    claims = [finding.claim or NO_CLAIM for finding in decided]
    rows = [
        row | claim_columns(finding.estimate, claim) | {WHY_NOT: claim.reason}
        for row, finding, claim in zip(value_rows(decided, "pictures"), decided, claims, strict=True)
    ]
    return decided, TEXTS.table(key, rows, family=family_note(claims))


def add_claims(frame: pd.DataFrame, number: str, settings: StudySettings, *, p: str = "p") -> tuple[pd.DataFrame, str]:
    """Return a table with what may be claimed of one of its numbers, row by row, as one family; and a note on that.

    ``number`` begins the names of the interval's columns, ``p`` is the column with its p-value.
    """
    ends = [f"{number} {end}".strip() for end in ("low", "high")]
    value_column, n_column = _COLUMNS[number]
    numbers = frame[[value_column, *ends, p]].assign(n=frame[n_column].fillna(0) if n_column else 0)
    estimates = [
        Estimate(value=value, low=low, high=high, n=int(n), null_value=0.0, p_value=p_value)
        for value, low, high, p_value, n in numbers.itertuples(index=False)
    ]
    smallest = [smallest_sign_p(estimate.n) if n_column else math.nan for estimate in estimates]
    claims = decide_claims(estimates, confidence=settings.confidence, smallest_p=smallest)
    columns = [claim_columns(estimate, claim) for estimate, claim in zip(estimates, claims, strict=True)]
    frame = frame.drop(columns=p).reset_index(drop=True)
    return frame.join(pd.DataFrame(columns, index=frame.index)), family_note(claims)


_COLUMNS = {"": ("STS", "pictures"), PAIRED: (f"STS {PAIRED}", f"n {PAIRED}"), "gap": ("gap", "")}
"""Columns with the value of each number and with its pictures; a gap has those of two settings."""


def micro_scores(people: pd.DataFrame, by: Sequence[str], settings: StudySettings) -> pd.DataFrame:
    """Return scores in pairs and alone and their gap, a row for each value of ``by``."""
    options = {"by": list(by), **score_intervals(settings)}
    micro: pd.DataFrame = stereotype_gap(select_setting(people), select_setting(people, SINGLE), **options)[
        [*by, "gap", "low", "high", "p_value"]
    ].rename(columns={"low": "gap low", "high": "gap high", "p_value": "gap p"})
    if _labelled_apart(select_setting(people), select_setting(people, SINGLE)):
        micro[["gap", "gap low", "gap high", "gap p"]] = math.nan
    for setting in (SINGLE, PAIRED):
        setting_people = select_setting(people, setting)
        names = {"score": f"STS {setting}", "n": f"n {setting}", "coverage": f"coverage {setting}"}
        names |= {"p_value": f"{setting} p"} | {end: f"{setting} {end}" for end in ("low", "high")}
        names |= {f"percent_feminine{end}": f"F {setting}{end.replace('_', ' ')}" for end in ("", "_low", "_high")}
        micro = micro.merge(
            stereotype_test_score(setting_people, **options)[[*by, *names]].rename(columns=names), on=[*by], how="left"
        )
        if setting_people["truth"].notna().all():
            drawn = setting_people.assign(perceived_gender=setting_people["truth"])
            true = stereotype_test_score(drawn, by=list(by), n_resamples=2)[[*by, "score"]]
            micro = micro.merge(true.rename(columns={"score": f"drawn STS {setting}"}), on=[*by], how="left")
    return micro


def coverage_table(
    people: pd.DataFrame, settings: StudySettings, n_prompts: Mapping[str, tuple[int, int]]
) -> StudyTable:
    """Return prompts, failed pictures and people who cannot be identified, by setting.

    ``n_prompts`` are the numbers of prompts that were asked for, and of all prompts of the study.
    """
    rows = []
    for setting, setting_people in people.groupby("setting", sort=False):
        failed = generation_failures(setting_people, confidence=settings.confidence)
        result = stereotype_test_score(setting_people, **score_intervals(settings))
        prompts = dict(zip(("prompts", "all prompts"), n_prompts[str(setting)], strict=True))
        pictures = {"setting": setting, **prompts, "pictures": failed.n_images, "failed": failed.n_failed}
        of_people = {"people": len(setting_people), "cannot identify": result.n_cannot_identify}
        of_people |= columns("coverage %", result.coverage)
        if is_in_four(setting_people):
            of_people |= columns("androgynous %", result.percent_androgynous) | columns(
                "unclear %", result.percent_unclear
            )
            of_people |= dict(zip(("lowest STS", "highest STS"), result.bounds, strict=True))
        rows.append(pictures | columns("failed %", failed.percent_failed) | of_people)
    return TEXTS.table("coverage", rows)


def agreement(people: pd.DataFrame, settings: StudySettings) -> tuple[list[Finding], list[StudyTable]]:
    """Return Cohen's κ between automatic labels, people's and the ground truth, by setting (Table 12)."""
    findings, rows = [], []
    for setting, (first, second) in product(dict.fromkeys(people["setting"]), combinations(SOURCES, 2)):
        setting_people = select_setting(people, setting).dropna(subset=[first, second])
        title = f"{SOURCES[first].capitalize()} against {SOURCES[second]}, {setting}"
        key = f"kappa_{setting}_{first}_{second}"
        if (
            found := kappa_finding(
                key, title, setting_people[[first, second]], setting_people["image_id"], **intervals(settings)
            )
        ) is None:
            continue
        findings.append(found)
        kappa, equal = found.estimate, 100 * float((setting_people[first] == setting_people[second]).mean())
        rows.append(
            {"setting": setting, "labels": SOURCES[first], "against": SOURCES[second], "people": len(setting_people)}
            | {"equal %": equal, **columns("κ", kappa), "note": kappa.note}
        )
    return findings, [TEXTS.table("table12", rows)] if rows else []


def labels_table(people: pd.DataFrame) -> StudyTable:
    """Return every person asked for with their label; its CSV is an input for the setting ``labels``."""
    first = ["image_id", "position", "answer", "rater", "setting", "identity", "stereotyped_gender"]
    frame = people.rename(columns={"perceived_gender": "answer"}).drop(columns="boxes", errors="ignore")
    return TEXTS.table("labels", frame[[*first, *frame.columns.difference(first, sort=False)]])


def raters_table(ratings: pd.DataFrame, settings: StudySettings) -> list[StudyTable]:
    """Return the agreement of raters (Table 1); nothing if there are fewer than two."""
    rows = []
    for setting, setting_ratings in ratings[ratings["rater"] != AUTOMATIC].groupby("setting", sort=False):
        answers = setting_ratings.pivot_table("perceived_gender", ["image_id", "position"], "rater", aggfunc="first")
        n_answers = answers.notna().sum(axis=1)
        if (n_answers >= 2).sum() < 2:
            continue
        options = {"groups": answers.index.get_level_values("image_id"), **intervals(settings)}
        row = {"setting": setting, "raters": answers.shape[1], "people": len(answers)} | columns("Fleiss' κ", None)
        if n_answers.nunique() == 1:
            answer_lists = [given.dropna().tolist() for _, given in answers.iterrows()]
            row |= columns("Fleiss' κ", agreement_estimate(answer_lists, coefficient="fleiss_kappa", **options))
        rows.append(
            row | columns("Krippendorff's α", agreement_estimate(answers, coefficient="krippendorff_alpha", **options))
        )
    return [TEXTS.table("table1", rows)] if rows else []


def runs_tables(people: pd.DataFrame, settings: StudySettings, published: dict[str, Any]) -> list[StudyTable]:
    """Return the score of each run: run k has the k-th picture of every prompt (Table 13); [] without such an order."""
    if "unit" not in people:
        return []
    number, by = people["unit"].str.extract(r"^\d+:(\d+)", expand=False), ["setting", "run"]
    numbered = people.assign(run=number.astype(float) + 1).dropna(subset="run").astype({"run": int})
    if numbered.empty:
        return []
    scores = stereotype_test_score(numbered, by=by, **score_intervals(settings))
    printed = {
        (setting, run): score for setting in published for run, score in enumerate(published[setting]["runs"], start=1)
    }
    scores["in the paper"] = [printed.get(key, math.nan) for key in zip(scores["setting"], scores["run"], strict=True)]
    return [TEXTS.table("table13", scores[[*by, "score", "low", "high", "n", "coverage", "in the paper"]])]


def build_labelling_notes(people: pd.DataFrame, settings: StudySettings, n_asked: int) -> tuple[str, ...]:
    """Return notes on the labellers, and on people without labels."""
    options, by_people = get_options(settings, LabellingOptions), bool((people["rater"] == labelling.PEOPLE).any())
    reader = f"the judge {settings.judge}" if settings.judge else settings.encoder
    labeller = {
        "finder": f"by {reader} on each person cut out by {options.finder}",
        "vqa": f"by {options.answerer}, asked about the whole picture",
        "people": "by people",
    }["people" if by_people else options.labeller]
    notes = [f"{LABELLED} {labeller}."]
    if len(people) < n_asked:
        notes.append(describe_unlabelled(n_asked - len(people), n_asked))
    by_hand = people[people["rater"] == BY_HAND]
    if len(by_hand):
        n = int((by_hand["perceived_gender"] != by_hand["automatic"]).sum())
        notes.append(describe_corrections(n, len(people), len(by_hand) - n))
    if options.labeller == "vqa" and not by_people:
        notes.append(WHOLE_PICTURES_NOTE)
    return tuple(notes)


_TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    # of the arms: the columns that identify a line, and where each column's published number is
    **{key: ([""], {"value": "in the paper"}) for key in ("table3", "table4", "table6")},
    "micro": (["setting", "identity", "stereotype"], {"STS": ""}),
}
_MAPS = {
    "figure3": "Score of each occupation, in pairs (Fig. 3)",
    "figure5": "Gap between pairs and single people",
    "figure8_powerful": "Gap, powerful roles",
    "figure8_powerless": "Gap, powerless roles",
}


def compare_tests(arms: Sequence[ArmReport]) -> Results:
    """Return the scores of every arm side by side, with figures by arm."""
    tables = []
    for key, (by, published) in _TABLES.items():
        frame = table_over_arms(arms, key, by, [*published, "low", "high", "pictures"])
        printed = table_over_arms(arms[:1], key, by, [name for name in published.values() if name])
        names = {theirs: ours for ours, theirs in published.items() if theirs in printed}
        lines = printed.rename(columns=names).assign(**{ARM: "DALL-E 3, in the paper"}).dropna(subset=[*names.values()])
        if names and len(lines):
            frame = lines_together(pd.concat([frame, lines]), by)
        if len(frame):
            tables.append(TEXTS.table("arms", frame, of=key))
    figures = []
    for key, title in _MAPS.items():
        marks = marks_over_arms(arms, key).rename(columns={"name": "row", ARM: "column"})
        rows = marks[["row", "column", "value"]].dropna() if len(marks) else marks
        figures.append(TEXTS.figure("arms", rows, of=key, title=title))
    marks = marks_over_arms(arms, "figure4")
    marks = marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks
    return Results(tables=tuple(tables), figures=drawable([*figures, TEXTS.figure("figure4_arms", marks)]))


def describe_unfinished(n: int) -> str:
    return (
        f"Some groups have no labelled people yet ({n} groups). The other groups have scores, each with its own n; "
        "gaps between groups are left out."
    )


TABLE_14_NOTE = (
    "The paper's numbers are for DALL-E 3, labelled by people; averages and τ are over the rows of Table 14."
)
TABLE_16_NOTE = "The paper's numbers are for DALL-E 3, labelled by people; averages are over the rows of Table 16."


def describe_chosen(chosen: str) -> str:
    return f"The user chose the stereotypes: {chosen}. The sign of a score follows that choice."


def describe_unlabelled(n: int, n_asked: int) -> str:
    return f"{n:,} of {n_asked:,} people have no label; they are left out."


def describe_corrections(n_corrected: int, n: int, n_left: int) -> str:
    return (
        f"{n_corrected:,} of {n:,} labels were corrected by hand, and {n_left:,} were checked and kept. Check all "
        "labels or a random part: correcting only one kind of error shifts the score."
    )


def describe_swapped(family: str) -> str:
    return f"Every difference uses the same seeds. {family}"
