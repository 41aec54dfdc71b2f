"""One concept in several languages on the same seeds: was it understood, and does it differ from English?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bias_core.explore.arms import Scored, paired_arms
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.stereotype import prevalence_estimate
from bias_core.prompts import fill_template
from bias_core.report.arm_comparison import mean_sample
from bias_core.report.claims import WHY_NOT, claim_columns, decide_claims, family_note
from bias_core.run.study_run import Run
from bias_core.study.types import (
    ArmReport,
    Finding,
    Results,
    StudyFigure,
    StudySettings,
    columns,
    drawable,
    figure,
    table,
)
from bias_core.types import Estimate
from bias_core.wording import format_points, format_rate, state_p
from bias_core.world.wordings import FORMS, Wording, rival_concepts

LEAST_RECOGNISED = 0.5  # share of the recognition in English above which a language counts as understood
LANGUAGES = "languages"  # key of the table and of the figure
RECOGNISED = "recognised"  # key of the finding
MORE, LESS, NO_DIFFERENCE = "more often", "less often", "no difference shown"
NOT_UNDERSTOOD, NOT_KNOWN = "not understood: no comparison", "not known whether understood: no comparison"
UNDEFINED = "could not be measured"
_TEMPLATE = "a photo of a {}"
_CAUTION = (
    "Most text encoders learned English captions, and a model draws something else in a language that it does not "
    "understand. A language counts as understood if the classifier recognises “{concept}” ({among} {n} concepts) at "
    "least half as often as in English."
)
_LESS_SURE = (
    "A classifier with stereotypes recognises the concept less often in people that it does not expect. A generic "
    "masculine is meant to include all genders but has masculine form: a difference can come from the word, not only "
    "from the model."
)


@dataclass(frozen=True, kw_only=True)
class LanguageScore:
    """One attribute in the pictures of one language."""

    attribute: str
    prevalence: float  # share of pictures in which it is seen
    margins: np.ndarray  # of presence over absence, ``(n,)``; nan: cannot tell


@dataclass(frozen=True, kw_only=True)
class LanguageArm:
    """The scored pictures of one language."""

    scores: Sequence[LanguageScore]
    recognised: Estimate | None  # share of pictures in which the classifier sees the concept

    @classmethod
    def from_scored(cls, scored: Scored, recognised: Estimate | None) -> "LanguageArm":
        """Take the scores of an exploration."""
        scores = [
            LanguageScore(attribute=score.attribute.name, prevalence=score.prevalence.value, margins=score.margins)
            for score in scored.scores
        ]
        return cls(scores=scores, recognised=recognised)


Pair = tuple[LanguageArm, LanguageArm, np.ndarray, np.ndarray]
"""English and another arm, and the places of the seeds that both have, ``(n,)`` in each."""


def recognised_concept(concept: str, data: Run, rows: np.ndarray, units: Sequence[str]) -> list[Finding]:
    """Measure how often the classifier ranks the concept among the first of all concepts that have a wording.

    The sentences are English for pictures of every language. Similar concepts (doctor, dentist, nurse) compete for
    ranks, so the first three count; for people only the first.
    """
    rivals = rival_concepts(concept)
    texts = data.texts([fill_template(_TEMPLATE, word) for word in (concept, *rivals)])
    concept_cosines, *rival_cosines = (rows @ texts.T).T
    n, places = 1 + len(rivals), n_places(concept)
    next_best = np.sort(rival_cosines, axis=0)[-places]
    estimate = prevalence_estimate(
        concept_cosines, next_best, reference=places / n, confidence=data.settings.confidence
    )
    says = f"Share of pictures in which the classifier ranks “{concept}” {_among(places)} {n} concepts."
    return [
        Finding(
            key=RECOGNISED,
            title=f"“{concept}” recognised",
            metric="attribute_prevalence",
            estimate=estimate,
            claim=decide_claims([estimate], confidence=data.settings.confidence)[0],
            says=says,
            sample=mean_sample(units, concept_cosines > next_best),
        )
    ]


def n_places(concept: str) -> int:
    """Return the lowest rank that counts as recognised: three among many concepts, one among few.

    >>> n_places("doctor"), n_places("person")
    (3, 1)
    """
    return 1 + len(rival_concepts(concept)) // 10


def _among(places: int) -> str:
    return "first of" if places == 1 else f"among the first {places} of"


def compare_languages(
    concept: str, wordings: Sequence[Wording], settings: StudySettings, arms: Sequence[ArmReport]
) -> Results:
    """Compare each arm with English, attribute by attribute, on their shared seeds.

    A language that was not understood is not compared. All comparisons are one family of McNemar's tests.
    """
    recognised = {
        arm.name: next((finding.estimate for finding in arm.results.findings if finding.key == RECOGNISED), None)
        for arm in arms
    }
    pairs: dict[str, Pair] = {
        pair.second: (
            LanguageArm.from_scored(pair.a, recognised[pair.first]),
            LanguageArm.from_scored(pair.b, recognised[pair.second]),
            pair.at_first,
            pair.at_second,
        )
        for pair in paired_arms(arms)
        if pair.first == arms[0].name
    }
    frame, how_decided = language_lines(wordings[1:], pairs, settings.confidence)
    if frame.empty:
        return Results()
    note = _CAUTION.format(n=1 + len(rival_concepts(concept)), concept=concept, among=_among(n_places(concept)))
    return Results(
        tables=(
            table(
                LANGUAGES,
                "Languages against English",
                frame,
                "Difference: language minus English, on the same seeds. p: McNemar’s exact test. Form: grammatical "
                f"gender of the wording. {how_decided}",
            ),
        ),
        figures=drawable([_figure(frame)]),
        notes=(note, _LESS_SURE),
    )


def language_lines(
    wordings: Sequence[Wording], pairs: Mapping[str, Pair], confidence: float
) -> tuple[pd.DataFrame, str]:
    """Return a line with a verdict for each wording and attribute, and how these were decided, as one family.

    ``pairs`` by the name of the other arm.
    """
    lines = [
        line
        for wording in wordings
        if wording.name in pairs
        for line in _compare_wording(wording, pairs[wording.name], confidence)
    ]
    gaps = [gap for _, gap in lines]
    claims = decide_claims(gaps, confidence=confidence)
    for (line, gap), claim in zip(lines, claims, strict=True):
        line["verdict"] = line["verdict"] or claim.choose(MORE, LESS, NO_DIFFERENCE)
        line |= claim_columns(gap, claim) | {WHY_NOT: claim.reason if claim.verdict == "not clear" else ""}
    note = family_note(claims, "lines of this table")
    return pd.DataFrame([line for line, _ in lines]), note + _OF_FAMILY if note else ""


_OF_FAMILY = " The table of differences also compares the other languages with each other, so its family is larger."


def _compare_wording(wording: Wording, pair: Pair, confidence: float) -> Iterator[tuple[dict[str, Any], Estimate]]:
    """Yield a line for each attribute, before it is decided, and its difference from English."""
    english, other_language, at_first, at_second = pair
    verdict = _understanding(english.recognised, other_language.recognised, confidence)
    recognised = math.nan if other_language.recognised is None else other_language.recognised.value
    for before, after in zip(english.scores, other_language.scores, strict=True):
        margins = np.stack([before.margins[at_first], after.margins[at_second]])
        margins = margins[:, ~np.isnan(margins).any(axis=0)]
        has_share = margins.size and not math.isnan(before.prevalence + after.prevalence)
        reason = verdict or ("" if has_share else UNDEFINED)
        gap = (
            Estimate.undefined(0, reason)
            if reason
            else prevalence_difference_test(*margins, confidence=confidence).estimate
        )
        line = {
            "attribute": before.attribute,
            "language": wording.language_name,
            "form": FORMS[wording.form],
            "verdict": reason,
            "P": after.prevalence,
            "P in English": before.prevalence,
            **columns("difference", gap, ends=""),
            "n": margins.shape[1],
            "p": math.nan,
            "p adjusted": math.nan,
            "clear": "",
            "recognised": recognised,
            "recognised in English": math.nan if english.recognised is None else english.recognised.value,
            "prompt": wording.prompt,
        }
        yield line, gap


def _understanding(english: Estimate | None, other_language: Estimate | None, confidence: float) -> str:
    """Say why a language cannot be compared; "" if it was understood."""
    if (
        english is None
        or other_language is None
        or decide_claims([english], confidence=confidence)[0].verdict != "above"
    ):
        return NOT_KNOWN  # the classifier does no better than chance on the English pictures
    return NOT_UNDERSTOOD if other_language.value < LEAST_RECOGNISED * english.value else ""


def _figure(frame: pd.DataFrame) -> StudyFigure:
    """Return a figure of the attribute with the clearest difference, one line per language."""
    compared = frame[frame["difference"].notna()]
    clearest = str(compared.sort_values("p", kind="stable")["attribute"].iloc[0]) if len(compared) else ""
    lines = compared[compared["attribute"] == clearest]
    lines = lines.assign(name=[name for i in range(len(lines)) for name in _names(lines.iloc[[i]])])
    names = {"difference": "value", "form": "group"}
    return figure(
        "pairs",
        LANGUAGES,
        f"“{clearest}”: how much more often than in English?",
        lines.rename(columns=names)[["name", "group", "value", "low", "high"]].reset_index(drop=True),
        "Difference from English on the same seeds, by grammatical form of the wording, for the attribute with the "
        "clearest difference; the table has all. Languages that the model did not understand are left out.",
        x="difference of the shares from English",
        null=0.0,
    )


def languages_headline(frame: pd.DataFrame) -> str:
    """Say in a sentence or two which languages differ, and which were not understood."""
    sentences = []
    is_adjusted = int(frame["p adjusted"].notna().sum()) > 1
    for name, lines in frame.groupby("attribute", sort=False):
        for verdict in (MORE, LESS):
            matches = lines[lines["verdict"] == verdict]
            if len(matches):
                shares = [
                    f"{format_rate(line['P'])} ({_gap(line)}, {state_p(line['p adjusted'], adjusted=is_adjusted)})"
                    for line in matches.to_dict("records")
                ]
                sentences.append(
                    f"“{name}” is seen {verdict} in {_and(_names(matches))} than in English: {_and(shares)} against "
                    f"{format_rate(matches['P in English'].iloc[0])}, on the same {int(matches['n'].min())} seeds."
                )
    compared = frame[~frame["verdict"].isin([NOT_UNDERSTOOD, NOT_KNOWN, UNDEFINED])]
    if not sentences and len(compared):
        sentences.append(_no_difference(compared))
    for verdict, words in ((NOT_UNDERSTOOD, "Not understood"), (NOT_KNOWN, "Not known whether understood")):
        if names := _names(frame[frame["verdict"] == verdict]):
            sentences.append(f"{words}, so not compared: {', '.join(names)}.")
    return " ".join(sentences) or "No attribute could be compared."


def _no_difference(compared: pd.DataFrame) -> str:
    largest = compared.sort_values("difference", key=abs, ascending=False).iloc[[0]]
    (line,) = largest.to_dict("records")
    reach = 100 * float(compared[["low", "high"]].abs().to_numpy().max())
    shares = f"{format_rate(line['P'])} against {format_rate(line['P in English'])}"
    reason = f" Not clear: {line[WHY_NOT]}." if line[WHY_NOT] else ""
    return (
        f"{_and(_names(compared))}: no clear difference from English. The largest gap: “{line['attribute']}” in "
        f"{_and(_names(largest))}, {shares}: {_gap(line)}, n = {line['n']:,}.{reason} A gap of up to {reach:.0f} "
        "points is still possible."
    )


def _gap(line: Mapping[Any, Any]) -> str:
    """Return a difference in points with its interval."""
    return format_points(line["difference"], line["low"], line["high"])


def _names(lines: pd.DataFrame) -> list[str]:
    """Return languages with their forms, each once."""
    alone = FORMS["word"]
    return list(
        dict.fromkeys(
            language if form == alone else f"{language} ({form})"
            for language, form in zip(lines["language"], lines["form"], strict=True)
        )
    )


def _and(items: Sequence[str]) -> str:
    """Join all items; languages are few, so none is left out.

    >>> _and(["German", "Arabic", "Hindi"])
    'German, Arabic and Hindi'
    """
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last
