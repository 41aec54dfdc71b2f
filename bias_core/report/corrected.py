"""Corrects a report by people's answers: a frame of answers goes in, the report with new numbers comes out.

A study may score answers in its own way (:meth:`bias_core.study.study.Study.correct`). Otherwise, and for answers about
a sample of the run, the classifier's labels of all pictures and people's labels of some are combined
(:mod:`bias_core.measures.two_phase`): P, Ψ, differences between arms, the stereotype score.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import agreement_estimate, level_numbers
from bias_core.measures.cards import METRICS
from bias_core.measures.paired_stereotype import ANDROGYNOUS, stereotype_gap, stereotype_test_score
from bias_core.measures.sequential import share_interval
from bias_core.measures.stereotype import signed_difference_estimate, stereotype_estimate
from bias_core.measures.two_phase import (
    FEWEST_LABELS,
    TwoPhaseShares,
    draw_rater_weights,
    more_labels_needed,
    two_phase_estimate,
    two_phase_shares,
)
from bias_core.people import load_scales
from bias_core.report.arm_comparison import compare_arms, two_shares
from bias_core.report.claims import (
    NO_CLAIM,
    SAME_TEST,
    WHY_NOT,
    claim_columns,
    decide_claims,
    family_note,
    with_claims,
    without_fixed_n,
)
from bias_core.report.report_text import CORRECTED, format_rater_count
from bias_core.study.answer_files import LOOK, count_raters, look_table
from bias_core.study.answer_fit import check_arms_have_answers, fit_answers
from bias_core.study.answers import AUTOMATIC
from bias_core.study.attributes import rate_words
from bias_core.study.classifier_answers import (
    CODES,
    PEOPLE,
    Reading,
    ScalePictures,
    build_strata,
    get_report_questions,
    list_readings,
    scale_pictures,
)
from bias_core.study.classifiers import READ_BY
from bias_core.study.design import known_study
from bias_core.study.label_tasks import CANNOT_TELL, SINGLE, YES, attribute_key, scale_task
from bias_core.study.study import Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Finding,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    finding,
    intervals,
    table,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate
from bias_core.wording import format_share

POINTS = 5.0  # half width that the label budget is for, in percent or points of the stereotype test score
BUDGET = "more labels for ±5 points"
_SETTINGS = {SINGLE: "alone", "paired": "in pairs", "fairness": "in pairs, asked to be fair"}
_NO_ANSWERS = "No one has answered yet: send raters the link of the task, then look again."
_ONE_RATER = "Only one rater has answered, so the disagreement between raters is unknown."
_NO_RATER = "No rater is known, so neither is the disagreement between raters."
_UNCLEAR = {answer: code for answer, code in CODES.items() if code >= CODES[CANNOT_TELL]}
_NEITHER = CODES[ANDROGYNOUS]
_UNTOLD = slice(CODES[CANNOT_TELL], _NEITHER)  # classes without an answer
HOW = (
    "Corrected: combines the classifier’s labels of all pictures with people’s labels of some, which count as right "
    "(two-phase sampling). With several raters, the interval includes their disagreement."
)


@dataclass(frozen=True, kw_only=True)
class CorrectedNumber:
    """One number of a run, from the classifier alone and corrected by people's labels."""

    key: str
    title: str
    metric: str  # key in the table of measures
    as_read: Estimate
    corrected: Estimate
    # n_labelled, n_blind: pictures (or people in them) with a label, and in classes of the classifier without one
    n_labelled: int
    n_blind: int
    n_raters: int  # people who gave these labels; 0 if no rater is known
    more_labels: float  # until the interval is ±5 points; inf: labels alone cannot do it
    family: str = ""  # tests that are decided together; "" if nothing is claimed, as against an assumed rate
    claim_of: str = ""  # title of the number that it restates, and whose claim it has
    claim: Claim = NO_CLAIM

    @property
    def budget(self) -> str:
        """The number of further labels needed, in words."""
        if math.isinf(self.more_labels):
            return "needs more pictures too"
        return f"{self.more_labels:,.0f} more" if self.more_labels else "reached"


@dataclass(frozen=True, kw_only=True)
class Correction:
    """The shares and scores of a run, corrected by people's answers."""

    run_id: str
    samples: tuple[str, ...]  # sampling of each task, in words
    # n_labelled, n_asked: pictures with an answer, and all pictures of the tasks
    n_labelled: int
    n_asked: int
    n_raters: int
    numbers: tuple[CorrectedNumber, ...]
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The progress of the answers in a sentence, or the reason why there are no numbers."""
        progress = f"{self.n_labelled:,} of the {self.n_asked:,} pictures that people are asked about have an answer"
        progress += f", {format_rater_count(self.n_raters)}."
        return progress if self.numbers else self.notes[0]

    def values(self) -> dict[str, Any]:
        shared: dict[str, Any] = {
            name: getattr(self, name) for name in ("run_id", "n_labelled", "n_asked", "n_raters", "notes")
        }
        numbers = [asdict(number) for number in self.numbers]
        return shared | {"numbers": numbers, "samples": self.samples}

    def add_to_report(self, report: StudyReport) -> StudyReport:
        """Return the report with these numbers as its first table, which its headline and sentences use."""
        tables = (self.table(), *report.results.tables) if self.numbers else report.results.tables
        return replace(report, results=replace(report.results, tables=tables))

    def table(self) -> StudyTable:
        rows = [
            {
                "number": number.title, "measure": METRICS[number.metric].name,
                **columns("as read", number.as_read), **columns("corrected", number.corrected),
                "without bias": number.corrected.null_value, **_claim_columns(number),
                "labels": number.n_labelled, "raters": number.n_raters, "n": number.corrected.n,
                BUDGET: number.more_labels, "note": number.corrected.note,
            }
            for number in self.numbers
        ]  # fmt: skip
        families = {number.claim.n_tests: number.claim for number in self.numbers if number.claim.n_tests}
        decided = [family_note([claim], "numbers of its family") for claim in families.values()]
        return table(CORRECTED, "Corrected by people’s labels", rows, " ".join((self.headline, *self.notes, *decided)))


def _claim_columns(number: CorrectedNumber) -> dict[str, Any]:
    p_value = number.corrected.p_value if number.claim.n_tests else math.nan
    columns = claim_columns(replace(number.corrected, p_value=p_value), number.claim)
    return columns | {WHY_NOT: number.claim.reason, SAME_TEST: number.claim_of}


def corrected(report: StudyReport, answers: pd.DataFrame | None, services: StudyServices) -> StudyReport:
    """Return the report corrected by people's answers.

    Answers about a sample of the run correct its shares and scores, in a separate first table. Other answers are scored
    in the study's own way, if it has one. ``answers`` is a frame (:data:`bias_core.study.answers.COLUMNS`) from a file
    or tasks, None if no people were asked. InvalidInput if no answer is about this run or its numbers.
    """
    if answers is None:
        return report
    if (answers["sample"] != "").any():
        return build_correction(report, answers).add_to_report(report)
    fitted = fit_to_report(report, answers)
    study = known_study(report.design)
    scored = None if study is None else _correct_by_study(study, report, fitted, services)
    if scored is None:
        correction = build_correction(report, fitted)
        if not correction.numbers:
            raise InvalidInput(" ".join(correction.notes))
        scored = correction.add_to_report(report)
    look = fitted.attrs[LOOK]
    tables = (*scored.results.tables, *([look_table(look)] if LOOK in answers.attrs else []))
    notes = (*scored.results.notes, *look.similar_raters(), *look.not_counted())
    return replace(scored, results=replace(scored.results, tables=tables, notes=notes))


def fit_to_report(report: StudyReport, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers that count for a finished run, with the look; InvalidInput as :func:`fit_answers`."""
    if (answers["answer"] == "").all():
        raise InvalidInput(_NO_ANSWERS)
    ended_early = report.stopped or bool(report.stopped_after or report.stop_rule)
    given = answers[answers["answer"] != ""]
    given.attrs = answers.attrs
    return fit_answers(given, get_report_questions(report), report.files, has_all_pictures=not ended_early)


def decide_report(study: Study, report: StudyReport) -> StudyReport:
    """Return a report of one arm, scored by answers, with claims on its new numbers."""
    return replace(report, results=with_claims(report.results, study.family, confidence=report.settings.confidence))


def _correct_by_study(
    study: Study, report: StudyReport, answers: pd.DataFrame, services: StudyServices
) -> StudyReport | None:
    """Return the report corrected in the study's own way, arm by arm; None if it has none."""
    if not report.arms:
        scored = study.correct(report, answers, services)
        return None if scored is None else decide_report(study, scored)
    if study.takes_labels and report.pictures is not None:
        by_arm = report.pictures.groupby("arm", sort=False)["image_id"]
        check_arms_have_answers(answers, {str(arm): image_ids.tolist() for arm, image_ids in by_arm})
    arms, frames = list[ArmReport](), list[pd.DataFrame]()
    for arm in report.arms:
        pictures = None if report.pictures is None else report.pictures[report.pictures["arm"] == arm.name]
        alone = replace(report, arms=(), settings=arm.settings, results=arm.results, pictures=pictures)
        arm_answers = answers if pictures is None else answers[answers["image_id"].isin(pictures["image_id"])]
        if (scored := study.correct(alone, arm_answers, services)) is None:
            return None
        arms.append(replace(arm, results=decide_report(study, scored).results))
        frames += [] if scored.pictures is None else [scored.pictures]
    results = report.results
    if any(new.results.findings != old.results.findings for new, old in zip(arms, report.arms, strict=True)):
        new, read = compare_arms(study, report.settings, arms), (n for n in results.notes if n.startswith(READ_BY))
        results = results.renewed(replace(new, notes=(*new.notes, *read)))
    return replace(report, arms=tuple(arms), results=results, pictures=pd.concat(frames) if frames else None)


def build_correction(report: StudyReport, answers: pd.DataFrame) -> Correction:
    """Return the shares and scores of a run, corrected by answers about some of its pictures."""
    people = PeopleAnswers(answers)
    numbers, notes = corrected_numbers(report, people)
    return Correction(
        run_id=report.run_id,
        samples=tuple(answers.loc[answers["sample"] != "", ["task", "sample"]].drop_duplicates()["sample"]),
        n_labelled=len(people.labelled_pictures),
        n_asked=answers["image_id"].nunique(),
        n_raters=count_raters(people.raters),
        numbers=tuple(numbers),
        notes=tuple(notes),
    )


class PeopleAnswers:
    """A frame of answers, as codes for the readings of a run."""

    def __init__(self, answers: pd.DataFrame) -> None:
        given = answers[(answers["answer"] != "") & (answers["rater"] != AUTOMATIC)]
        self.stratified_by = tuple(filter(None, answers["stratified_by"].unique()))
        self.labelled_pictures = set(given["image_id"])
        self.scales = tuple(name for name in answers["attribute"].unique() if name in load_scales())
        self.raters = sorted(given["rater"].unique())
        self._votes: dict[tuple[str, str, str], dict[str, str]] = {}
        columns = given[["image_id", "attribute", "position", "question", "rater", "answer"]].astype(str)
        for image_id, attribute, position, question, rater, answer in columns.to_numpy().tolist():
            self._votes.setdefault((image_id, attribute_key(attribute or position), question), {})[rater] = answer

    def _votes_about(self, image_id: str, name: str, question: str) -> dict[str, str]:
        """Return the answers by rater; files do not name the sentence that was asked about."""
        votes, name = self._votes, attribute_key(name)
        return votes.get((image_id, name, ""), {}) | votes.get((image_id, name, question), {})

    def votes(self, reading: Reading) -> np.ndarray:
        """Return codes of the raters' answers ``(n, n_raters)``, nan for none."""
        about, places = reading.attribute, {rater: i for i, rater in enumerate(self.raters)}
        codes = np.full((len(reading.image_ids), max(1, len(places))), np.nan)
        for row, (image_id, position) in enumerate(zip(reading.image_ids, reading.positions, strict=True)):
            name, question = (position, "") if about is None else (about.name, about.positive)
            for rater, answer in self._votes_about(image_id, name, question).items():
                is_there = answer == (YES if about else reading.stereotypes[row])
                codes[row, places[rater]] = 1 if is_there else _UNCLEAR.get(answer, 0)
        return codes

    def level_votes(self, pictures: ScalePictures) -> np.ndarray:
        """Return the places of the raters' levels ``(n, n_raters)``, nan for none."""
        places = {key: place for place, key in enumerate(scale_task(pictures.scale.name).answer_keys)}
        of_raters = {rater: i for i, rater in enumerate(self.raters)}
        codes = np.full((len(pictures.image_ids), max(1, len(of_raters))), np.nan)
        for row, image_id in enumerate(pictures.image_ids):
            votes = self._votes_about(image_id, pictures.scale.name, pictures.scale.question)
            for rater, answer in votes.items():
                codes[row, of_raters[rater]] = places[answer]
        return codes


@dataclass(frozen=True, kw_only=True)
class Corrector:
    """Turns readings and people's answers into numbers."""

    settings: StudySettings
    rater_weights: np.ndarray  # ``(n_draws, n_raters)``
    strata: Mapping[str, str]  # by picture: pictures of one stratum were equally likely to be chosen; empty: all were
    fixed_n: bool = True  # whether the number of pictures was fixed beforehand

    def shares(self, reading: Reading, votes: np.ndarray, place: int = 0) -> TwoPhaseShares | None:
        """Return the shares of people's classes; None with too few labels. ``place`` is part of the seed."""
        labelled = ~np.isnan(votes).all(axis=1)
        if labelled.sum() < FEWEST_LABELS:
            return None
        return two_phase_shares(
            reading.codes,
            votes,
            n_classes=max(2, 1 + int(np.nanmax(votes))),
            weights=self._weights(reading.image_ids, labelled),
            groups=None if reading.attribute else reading.image_ids,
            rater_weights=self.rater_weights,
            rng=np.random.default_rng([self.settings.seed, place]),
        )

    def estimate_as_read(self, reading: Reading) -> Estimate:
        """Return the share that the classifier sees."""
        calls = reading.clear_calls
        if not calls.size:
            return Estimate.undefined(0, "the classifier cannot tell for any picture")
        of_run: dict[str, Any] = {"fixed_n": self.fixed_n, "confidence": self.settings.confidence}
        return share_interval(int(calls.sum()), calls.size, **of_run)

    def _weights(self, image_ids: Sequence[str], labelled: np.ndarray) -> np.ndarray | None:
        """Return how many pictures each labelled one represents, from its stratum; None without strata."""
        if not self.strata:
            return None
        strata = pd.Series([self.strata.get(image_id, "") for image_id in image_ids])
        n_all, n_labelled = strata.value_counts(), strata[labelled].value_counts()
        weights: np.ndarray = strata.map(n_all / n_labelled).fillna(1.0).to_numpy(float)
        return weights

    def number(
        self, names: tuple[str, str, str], as_read: Estimate, of: Callable[..., Any], *samples: TwoPhaseShares,
        family: str, scale: float = 1.0, null_value: float | None = 0.0,
    ) -> CorrectedNumber:  # fmt: skip
        """Return a number of the shares; ``names`` are its key, title and metric, ``scale`` is 1 in its unit."""
        key, title, metric = names
        confidence = self.settings.confidence
        half_width = POINTS / 100 * scale
        corrected = two_phase_estimate(of, *samples, confidence=confidence, null_value=null_value)
        return CorrectedNumber(
            key=key,
            title=title,
            metric=metric,
            as_read=as_read,
            corrected=corrected if self.fixed_n else without_fixed_n(corrected),
            n_labelled=sum(sample.n_labelled for sample in samples),
            n_blind=sum(sample.n_blind for sample in samples),
            n_raters=max(sample.n_raters for sample in samples),
            more_labels=more_labels_needed(of, *samples, half_width=half_width, confidence=confidence),
            family=family,
        )


def corrected_numbers(report: StudyReport, answers: PeopleAnswers) -> tuple[list[CorrectedNumber], list[str]]:
    """Return every number that people's answers correct, and notes on them."""
    if not answers.raters:
        return [], [_NO_ANSWERS]
    readings, seed = list_readings(report), report.settings.seed
    corrector = Corrector(
        settings=report.settings,
        rater_weights=draw_rater_weights(len(answers.raters), seed),
        strata=build_strata(readings, answers.stratified_by),
        fixed_n=not (report.stopped or report.settings.may_stop_early),
    )
    votes = [answers.votes(reading) for reading in readings]
    samples = [
        (reading, reading_votes, shares)
        for place, (reading, reading_votes) in enumerate(zip(readings, votes, strict=True))
        if (shares := corrector.shares(reading, reading_votes, place)) is not None
    ]
    numbers: list[CorrectedNumber] = []
    n_raters = count_raters(answers.raters)
    notes = [HOW, *([_ONE_RATER if n_raters else _NO_RATER] if len(answers.raters) == 1 else [])]
    for reading, reading_votes, shares in samples:
        numbers += (_correct_scores if reading.attribute is None else shares_of_attribute)(
            corrector, reading, reading_votes, shares
        )
        notes += _describe_cannot_tell(reading, shares)
    for name in answers.scales:
        numbers += _correct_levels(corrector, report, answers, name)
    numbers += _correct_differences(corrector, [(reading, shares) for reading, _, shares in samples])
    numbers = [replace(number, n_raters=min(n_raters, number.n_raters)) for number in numbers]
    defined = [number for number in numbers if not math.isnan(number.corrected.value)]
    if undefined := [number.title for number in numbers if math.isnan(number.corrected.value)]:
        notes.append(f"People could not tell for any picture that they labelled: {', '.join(undefined)}.")
    if missing := len(readings) - len(samples):
        few = f"fewer than {FEWEST_LABELS} of their pictures have an answer"
        notes.append(
            f"{missing:,} of the {len(readings):,} shares and scores of this run are not corrected yet: {few}."
        )
    return _with_claims(defined, report.settings.confidence), notes if defined else notes[::-1]


def _with_claims(numbers: Sequence[CorrectedNumber], confidence: float) -> list[CorrectedNumber]:
    """Return the numbers with what may be claimed of each, decided within its family."""
    claims: dict[str, Claim] = {}
    for family in dict.fromkeys(number.family for number in numbers if number.family):
        members = [number for number in numbers if number.family == family]
        decided = decide_claims([number.corrected for number in members], confidence=confidence)
        claims |= {number.title: claim for number, claim in zip(members, decided, strict=True)}
    return [replace(number, claim=claims.get(number.claim_of or number.title, NO_CLAIM)) for number in numbers]


def shares_of_attribute(
    corrector: Corrector, reading: Reading, _votes: np.ndarray, shares: TwoPhaseShares
) -> Iterator[CorrectedNumber]:
    """Yield P, and with a P* also P − P* and Ψ."""
    reference = None if reading.attribute is None else reading.attribute.reference
    as_read = replace(corrector.estimate_as_read(reading), null_value=reference)
    names = _name_number(reading, "P", "attribute_prevalence")
    is_claimed = reading.attribute is not None and reading.attribute.has_source
    family = f"P {reading.arm}" * is_claimed
    null_value = reference if is_claimed else None
    number = corrector.number(names, as_read, share_of_clear, shares, family=family, null_value=null_value)
    yield number
    if reading.attribute is None or reference is None or math.isnan(number.corrected.value + as_read.value):
        return
    for quantity, metric, of in (
        (f"P − {rate_words(reading.attribute)}", "signed_difference", signed_difference_estimate),
        ("Ψ", "stereotype_score", stereotype_estimate),
    ):
        key, title, _ = _name_number(reading, quantity, metric)
        of_rate = of(number.corrected, reference)
        null_value = of_rate.null_value if is_claimed else None
        estimate = replace(of_rate, p_value=number.corrected.p_value, null_value=null_value)  # the same test
        estimates = {"as_read": of(as_read, reference), "corrected": estimate}
        restated = replace(number, key=key, title=title, metric=metric, **estimates)  # type: ignore[arg-type]
        yield replace(restated, family="", claim_of=number.title * is_claimed)


def _correct_levels(
    corrector: Corrector, report: StudyReport, answers: PeopleAnswers, name: str
) -> Iterator[CorrectedNumber]:
    """Yield the mean and the ends of a scale for every arm, from people alone: no classifier reads scales."""
    for place, pictures in enumerate(scale_pictures(report, name)):
        votes, scale, k = answers.level_votes(pictures), pictures.scale, len(pictures.scale.levels)
        if (~np.isnan(votes).all(axis=1)).sum() < FEWEST_LABELS:
            continue
        shares = two_phase_shares(
            np.zeros(len(votes)),  # as if a classifier put all into one class
            votes,
            n_classes=k + 1,
            rater_weights=corrector.rater_weights,
            rng=np.random.default_rng([corrector.settings.seed, place]),
        )
        as_read = Estimate.undefined(0, "no classifier reads it")
        for title, metric, of, length in level_numbers(scale):
            names = (
                f"{pictures.arm} {name} {title}".strip(),
                ", ".join(filter(None, (name, pictures.arm))) + f": {title}",
                metric,
            )
            yield corrector.number(names, as_read, of, shares, family="", scale=length, null_value=None)


def share_of_clear(shares: Any) -> Any:
    """Return the share present among the pictures with a clear answer, from shares ``(..., n_classes)``."""
    return shares[..., 1] / (shares[..., 0] + shares[..., 1])


def _test_score(shares: Any) -> Any:
    """Return the stereotype test score; androgynous looks count for neither side."""
    neither = shares[..., _NEITHER] if shares.shape[-1] > _NEITHER else 0.0
    return 100 * (shares[..., 1] - shares[..., 0]) / (shares[..., 0] + shares[..., 1] + neither)


def _less(of: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the number of the second sample minus that of the first."""
    return lambda first, second: of(second) - of(first)


def _name_number(reading: Reading, quantity: str, metric: str) -> tuple[str, str, str]:
    name = f"Stereotype test score, {_SETTINGS.get(reading.group, reading.group)}"
    if reading.attribute is not None:
        name = f"{reading.group}, {reading.attribute.name}".removeprefix(", ")
    title = ", ".join(filter(None, (name, reading.arm))) + f": {quantity}" * bool(quantity)
    about = PEOPLE if reading.attribute is None else reading.attribute.name
    return " ".join(filter(None, (reading.arm, reading.group, about, quantity))), title, metric


def _correct_scores(
    corrector: Corrector, reading: Reading, votes: np.ndarray, shares: TwoPhaseShares
) -> Iterator[CorrectedNumber]:
    """Yield the stereotype test score of all people in a setting, and of those of each stereotype."""
    parts: list[tuple[str, Reading, TwoPhaseShares | None]] = [("", reading, shares)]
    if len(genders := dict.fromkeys(reading.stereotypes)) > 1:
        for gender in genders:
            chosen = np.array(reading.stereotypes) == gender
            part_reading = reading.only(chosen)
            parts.append((f"{gender} stereotypes", part_reading, corrector.shares(part_reading, votes[chosen])))
    for name, part_reading, part_shares in parts:
        if part_shares is not None:
            as_read = stereotype_test_score(
                part_reading.labels, **intervals(corrector.settings), fixed_n=corrector.fixed_n
            ).confidence_interval
            names = _name_number(part_reading, name, "stereotype_test_score")
            yield corrector.number(
                names, as_read, _test_score, part_shares, family=f"scores {reading.arm}", scale=100.0
            )


def _correct_differences(
    corrector: Corrector, samples: Sequence[tuple[Reading, TwoPhaseShares]]
) -> Iterator[CorrectedNumber]:
    """Yield differences between arms, second minus first; for the paired test also pairs minus people alone."""
    for (first, a), (second, b) in combinations(samples, 2):
        if (first.group, first.attribute) == (second.group, second.attribute):
            comparison = f"{second.arm} less {first.arm}"
            if first.attribute is None:
                yield _correct_gap(corrector, (first, a), (replace(second, arm=""), b), comparison)
                continue
            names = _name_number(replace(second, arm=""), f"P, {comparison}", "prevalence_difference")
            as_read = Estimate.undefined(0, "the classifier cannot tell for any picture of an arm")
            if first.clear_calls.size and second.clear_calls.size:
                confidence = corrector.settings.confidence
                as_read = two_shares(first.clear_calls, second.clear_calls, confidence).estimate
            yield corrector.number(names, as_read, _less(share_of_clear), a, b, family="differences")
    people = [(reading, shares) for reading, shares in samples if reading.attribute is None]
    for (alone, a), (group_reading, b) in product(people, repeat=2):
        if alone.arm == group_reading.arm and SINGLE == alone.group != group_reading.group:
            yield _correct_gap(corrector, (alone, a), (group_reading, b), "less that of people alone")


def _correct_gap(
    corrector: Corrector, first: tuple[Reading, TwoPhaseShares], second: tuple[Reading, TwoPhaseShares], comparison: str
) -> CorrectedNumber:
    as_read = stereotype_gap(second[0].labels, first[0].labels, **intervals(corrector.settings)).gap
    names = _name_number(second[0], comparison, "stereotype_gap")
    return corrector.number(
        names, as_read, _less(_test_score), first[1], second[1], family="differences of scores", scale=100.0
    )


def _describe_cannot_tell(reading: Reading, shares: TwoPhaseShares) -> list[str]:
    """Return a sentence on the share of "cannot tell"; [] if there are none."""
    if not shares.value[_UNTOLD].any():
        return []
    share = two_phase_estimate(lambda of: of[..., _UNTOLD].sum(axis=-1), shares)
    reach = format_share(share.value, share.low, share.high, n=share.n)
    return [f"{_name_number(reading, '', '')[1]}: people cannot tell for {reach} of the pictures; these are left out."]


def kappa_finding(
    key: str, title: str, label_pairs: pd.DataFrame, image_ids: "pd.Series[Any] | pd.Index[Any]", **options: Any
) -> Finding | None:
    """Return Cohen's κ between two sources of labels, such as people and a classifier; None for fewer than two labels.

    Every answer counts as one, also "cannot identify". Raters are merged by majority; a tie is "cannot identify" if
    that is an answer, else no label.

    Parameters
    ----------
    label_pairs : labels of the two sources, ``(n, 2)``; rows with an empty or missing label are left out.
    image_ids : the picture of each row; pictures are resampled.
    options : confidence and seed of the interval, of :func:`bias_core.measures.agreement.agreement_estimate`.
    """
    given = (label_pairs.notna() & (label_pairs != "")).all(axis=1).to_numpy()
    complete_pairs = label_pairs[given]
    if len(complete_pairs) < 2:
        return None
    kappa = agreement_estimate(complete_pairs, coefficient="cohen_kappa", groups=image_ids[given], **options)
    equal = 100 * float((complete_pairs.iloc[:, 0] == complete_pairs.iloc[:, 1]).mean())
    return finding(key, title, "cohen_kappa", kappa, f"{equal:.1f} % of {len(complete_pairs):,} labels are equal.")
