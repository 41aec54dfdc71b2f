"""T2IAT against people: do associations put concepts in the order in which people see them (Table 2)?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.agreement import agreement_estimate
from bias_core.metrics.association import association, mean_association
from bias_core.metrics.association_null import even_mix_association
from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.stats.effects import wilson_interval
from bias_core.studies.association.sets import SETS
from bias_core.studies.association.tests import CrossingOptions, association_shots
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.labels import majority, read_answers
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings
from bias_core.studies.reports.build import columns, figure, table
from bias_core.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.studies.kit.data import StudyData

Score = dict[str, Any]
FEWEST = 2  # concepts that have an order


@settings_class(frozen=True, kw_only=True)
class JudgedOptions(CrossingOptions):
    """Which tests are judged by people, and on how many pictures."""

    n_images: int = setting(20, "Judged pictures", "Neutral pictures of each concept that are judged", ge=1, le=10_000)
    tests: tuple[str, ...] = setting(
        ("flowers_insects", "instruments_weapons", "science_arts", "career_family"),
        "Tests",
        "Keys of the tests to judge",
    )


def human_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """The pictures of the association tests whose concepts people judged."""
    if settings.labels:
        read_answers(settings.labels, allowed=_words(design))
    return association_shots(design, settings)


def measure_human(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Share judged closer to A per concept, its mean association, and how far their orders agree."""
    rows = yield from data.embed(data.frame)
    scores = _scores(design, data.frame)
    for score in scores.values():
        neutral, a, b = (_of(data.frame, score, kind) for kind in SETS)
        data.keep(neutral, association=association(*(rows[some.index] for some in (neutral, a, b))))
    judged = _judged(data.frame, scores, settings)
    judged["reader"] = _by_reader(design, scores, judged, rows, data)
    judged["people"] = _by_people(scores, judged, settings) if settings.labels else None
    judged["record"] = _by_record(design, scores, judged, data)
    judged["choice"] = judged["people" if settings.labels else "reader"]
    shares = {name: _share(judged.loc[judged["concept"] == name, "choice"], settings) for name in scores}
    means = {name: _mean(data.frame, rows, score, settings) for name, score in scores.items()}
    table2 = _table2(design, scores, shares, means)
    who = "people, most votes win" if settings.labels else f"{settings.encoder}, by the closer sentence"
    return Results(
        findings=(
            *_order(design, table2, settings),
            *(_share_finding(design, scores[name], shares[name], judged) for name in scores),
            *_reader_against_people(judged, settings),
        ),
        tables=(
            table("table2", "Choices and associations (Table 2)", table2, _COLUMNS),
            table("judged", "The judged pictures", _judged_frame(scores, judged), _JUDGED),
        ),
        figures=(_choice_figure(table2), _order_figure(table2)),
        notes=(
            f"The pictures are judged by {who}.",
            "τ has only the concepts to go by, and its interval resamples them: it is wide.",
        ),
    )


_COLUMNS = (
    "share: of the judged neutral pictures, those closer to A than to B. association: mean of Eq. 2 over all "
    "neutral pictures of the concept, with all pictures of a prompt drawn anew together. even mix: where it "
    "would lie if half of them were like the pictures of A and half like those of B. signed S: "
    "association of X less that of Y for a concept X, and less it for a concept Y; the published τ is of "
    "these."
)


def _words(design: Design) -> list[str]:
    """What an answer may be: an attribute's name, or its letter."""
    scores = design.data["human_comparison"]["scores"]
    return list(dict.fromkeys(["a", "b", *(score[side] for score in scores for side in ("a", "b"))]))


def _scores(design: Design, frame: pd.DataFrame) -> dict[str, Score]:
    """Lines of Table 2 whose concept was drawn, with their test and side, by concept."""
    places = {test[side]: (test["key"], side) for test in design.data["tests"] for side in ("x", "y")}
    drawn = set(zip(frame["test"], frame["side"], strict=True)) if len(frame) else set()
    lines = {line["concept"]: line for line in design.data["human_comparison"]["scores"]}
    found = {
        name: line | dict(zip(("test", "side"), places[name], strict=True))
        for name, line in lines.items()
        if places[name] in drawn
    }
    if not found:
        raise InvalidInput("people judged no concept of these tests, or no picture of them can be scored")
    return found


def _of(frame: pd.DataFrame, score: Score, kind: str) -> pd.DataFrame:
    """One set of a concept's pictures."""
    place = (frame["test"] == score["test"]) & (frame["side"] == score["side"])
    some: pd.DataFrame = frame[place & (frame["set"] == kind)]
    return some


def _judged(frame: pd.DataFrame, scores: Mapping[str, Score], settings: StudySettings) -> pd.DataFrame:
    """The neutral pictures that are judged, drawn at random by the seed; the index is that of ``frame``."""
    rng, chosen = np.random.default_rng(settings.seed), []
    for concept, score in scores.items():
        neutral = _of(frame, score, "neutral")
        kept = np.sort(rng.permutation(len(neutral))[: settings.options.n_images])
        chosen.append(neutral.iloc[kept].assign(concept=concept))
    return pd.concat(chosen)


def _by_reader(
    design: Design, scores: Mapping[str, Score], judged: pd.DataFrame, rows: np.ndarray, data: StudyData
) -> pd.Series[Any]:
    """Whether the reader finds the sentence of A closer than that of B."""
    sentences = design.data["human_comparison"]["sentences"]
    choices = pd.Series(index=judged.index, dtype=object)
    for concept, score in scores.items():
        index = judged.index[judged["concept"] == concept]
        a, b = data.texts([sentences[score[side]] for side in ("a", "b")])
        choices[index] = (rows[index] @ (a - b) > 0).tolist()
    return choices


def _by_people(scores: Mapping[str, Score], judged: pd.DataFrame, settings: StudySettings) -> list[bool | None]:
    """Whether most raters chose A; None where they are even or nobody answered."""
    words = ["a", "b", *dict.fromkeys(score[side] for score in scores.values() for side in ("a", "b"))]
    answers = read_answers(settings.labels, allowed=words).merge(judged[["image_id", "concept"]])
    if answers.empty:
        raise InvalidInput(f"no answer in {settings.labels} is about a picture that is judged in this run")
    said = zip(answers["answer"], answers["concept"], strict=True)
    votes = majority(answers.assign(answer=[_letter(answer, scores[concept]) for answer, concept in said]))
    chosen = judged["image_id"].map(votes)
    return [None if letter not in ("a", "b") else letter == "a" for letter in chosen]


def _letter(answer: str, score: Score) -> str:
    """An answer in letters; one rater may write "pleasant" where another writes "a"."""
    letters = {"a": "a", "b": "b", score["a"]: "a", score["b"]: "b"}
    if answer not in letters:
        raise InvalidInput(f"a picture of {score['concept']} is judged {answer!r}; say one of {[*letters]}")
    return letters[answer]


def _by_record(design: Design, scores: Mapping[str, Score], judged: pd.DataFrame, data: StudyData) -> list[bool | None]:
    """Whether A was drawn; None where nobody knows, or neither A nor B was."""
    shown = design.data["human_comparison"]["shown"]
    found: list[bool | None] = []
    for truth, concept in zip(data.truths(judged), judged["concept"], strict=True):
        a, b = (shown[scores[concept][side]] for side in ("a", "b"))
        drawn = [truth is not None and wanted.items() <= truth.items() for wanted in (a, b)]
        found.append(drawn[0] if any(drawn) else None)
    return found


def _share(choices: pd.Series[Any], settings: StudySettings) -> Estimate:
    decided = choices.dropna()
    if decided.empty:
        return Estimate.undefined(0, "no picture was decided", null_value=0.5)
    return wilson_interval(int(decided.sum()), len(decided), confidence=settings.confidence, null_value=0.5)


def _mean(frame: pd.DataFrame, rows: np.ndarray, score: Score, settings: StudySettings) -> Estimate:
    """Mean of Eq. 2 over a concept's prompts; neutral is an even mix of its edited pictures."""
    pictures = [_of(frame, score, kind) for kind in SETS]
    sets = [rows[some.index] for some in pictures]
    groups = [some["stimulus"].to_numpy(dtype=str) for some in pictures]
    mean = mean_association(*sets, groups=groups[0], attribute_groups=groups[1:], confidence=settings.confidence)
    return replace(mean, null_value=even_mix_association(*sets[1:]))


def _table2(
    design: Design, scores: Mapping[str, Score], shares: Mapping[str, Estimate], means: Mapping[str, Estimate]
) -> pd.DataFrame:
    titles, signed = design.data["titles"], _signed_scores(scores, means)
    return pd.DataFrame(
        [
            {
                "concept": titles[name],
                "attributes": f"{titles[score['a']]} / {titles[score['b']]}",
                "pictures": shares[name].n,
                **columns("share", shares[name]),
                "published share": float(score["score"]),
                **columns("association", means[name]),
                "even mix": means[name].null_value,
                "signed S": signed[name],
                "prompts": means[name].n,
            }
            for name, score in scores.items()
        ]
    )


def _signed_scores(scores: Mapping[str, Score], means: Mapping[str, Estimate]) -> dict[str, float]:
    """S of its test for a concept X and -S for a concept Y; nan where the other concept is missing."""
    values = {(score["test"], score["side"]): means[name].value for name, score in scores.items()}
    return {
        name: means[name].value - values.get((score["test"], "y" if score["side"] == "x" else "x"), math.nan)
        for name, score in scores.items()
    }


def _order(design: Design, table: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    known = table.dropna(subset=["share", "association"])
    if len(known) < FEWEST:
        return []
    found = kendall_tau(known["association"], known["share"], confidence=settings.confidence, rng=settings.seed)
    order = Finding(
        key="order",
        title="Mean associations and choices, order of concepts",
        metric="kendall_tau",
        estimate=found.tau,
        p_value=found.p_value,
        says=f"{len(known)} concepts. The published τ is of another score: see the next line.",
    )
    return [order, *_published_order(design, known.dropna(subset="signed S"))]


def _published_order(design: Design, known: pd.DataFrame) -> list[Finding]:
    """τ as published: with S of its test for each concept X, and -S for each concept Y."""
    if len(known) < FEWEST:
        return []
    tau = kendall_tau(known["signed S"], known["share"], n_resamples=2).tau
    note = "X and Y of a test have opposite values, so concepts are no sampling units and τ has no interval"
    return [
        Finding(
            key="order_signed",
            title="S (concept X), -S (concept Y) and choices, order of concepts",
            metric="kendall_tau",
            estimate=replace(tau, low=math.nan, high=math.nan, method="", note=tau.note or note),
            published=float(design.data["human_comparison"]["kendall_tau"]),
            says="In this form Table 1's S gives 0.5455 against Table 2, the published 0.55.",
        )
    ]


def _share_finding(design: Design, score: Score, share: Estimate, judged: pd.DataFrame) -> Finding:
    titles, concept = design.data["titles"], score["concept"]
    record = judged.loc[judged["concept"] == concept, "record"]
    a, b = (titles[score[side]].lower() for side in ("a", "b"))
    leaning = "as often the one as the other"
    if share.low > 0.5 or share.high < 0.5:
        leaning = f"mostly {a if share.value > 0.5 else b}"
    return Finding(
        key=f"share_{concept}",
        title=f"{titles[concept]}, closer to {a} than to {b}",
        metric="attribute_prevalence",
        estimate=share,
        published=float(score["score"]),
        expected=float(record.mean()) if record.notna().all() else None,
        says=f"Pictures of {titles[concept].lower()}: {leaning}.",
    )


def _reader_against_people(judged: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    both = judged.dropna(subset=["reader", "people"])
    if len(both) < FEWEST:
        return []
    kappa = agreement_estimate(
        both[["reader", "people"]], coefficient="cohen_kappa", confidence=settings.confidence, rng=settings.seed
    )
    equal = 100 * float((both["reader"] == both["people"]).mean())
    says = f"{equal:.1f} % of {len(both)} pictures are judged alike."
    return [Finding(key="kappa", title="Reader against people", metric="cohen_kappa", estimate=kappa, says=says)]


def _judged_frame(scores: Mapping[str, Score], judged: pd.DataFrame) -> pd.DataFrame:
    frame = judged[["image_id", "concept", "reader", "people"]].reset_index(drop=True)
    frame.insert(2, "answers", [f"{scores[c]['a']} / {scores[c]['b']}" for c in frame["concept"]])
    for column in ("reader", "people"):
        frame[column] = [
            "" if pd.isna(choice) else scores[concept]["a" if choice else "b"]
            for choice, concept in zip(frame[column], frame["concept"], strict=True)
        ]
    return frame


_JUDGED = (
    "People say which of the two answers a picture is closer to: a CSV with the columns image_id, answer, "
    "rater, given as labels."
)


def _choice_figure(table2: pd.DataFrame) -> StudyFigure:
    columns_of = {"value": "share", "low": "share low", "high": "share high", "published": "published share"}
    title = "Share of neutral pictures closer to the first attribute (Table 2)"
    caption = "Diamonds are the choices of the paper's participants about another model's pictures."
    axis = "share closer to pleasant, or to male"
    return figure("intervals", "choices", title, _marks(table2, columns_of), caption, x=axis, null=0.5)


def _order_figure(table2: pd.DataFrame) -> StudyFigure:
    columns_of = {"x": "association", "xlow": "association low", "xhigh": "association high"}
    columns_of |= {"y": "share", "ylow": "share low", "yhigh": "share high"}
    points = _marks(table2, columns_of).dropna(subset=["x", "y"])
    axes = {"x": "mean association with the first attribute", "y": "share closer to it"}
    caption = "Where both agree the concepts rise from left to right."
    return figure("scatter", "order", "Choices against associations", points, caption, **axes)


def _marks(table2: pd.DataFrame, columns_of: Mapping[str, str]) -> pd.DataFrame:
    """A mark for each concept, coloured by its pair of attributes."""
    names = {"name": "concept", "group": "attributes", **columns_of}
    return table2[[*names.values()]].set_axis([*names], axis=1)


PROGRAMS = {
    "association_and_people": Program(
        takes_labels=True, shots=human_shots, measure=measure_human, options=JudgedOptions
    )
}
