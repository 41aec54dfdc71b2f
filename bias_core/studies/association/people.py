"""T2IAT against people: do associations put concepts in the order in which people see them (Table 2)?"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.agreement import agreement_estimate
from bias_core.metrics.association import association, mean_association
from bias_core.metrics.association_null import even_mix_association
from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.stats.effects import wilson_interval
from bias_core.studies.association.tests import SETS, CrossingOptions, association_shots
from bias_core.studies.kit.labels import majority, read_answers
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    figure,
    finding,
    intervals,
    lean,
    marks,
    table,
)
from bias_core.types import Estimate

# A line of Table 2: its concept, the attributes a and b, the published score, and its test and side.
Line = Mapping[str, Any]
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
        read_answers(settings.labels, allowed=_words(design.data["human_comparison"]["scores"]))
    return association_shots(design, settings)


def measure_human(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Share judged closer to A per concept, its mean association, and how far their orders agree."""
    rows = yield from data.embed(data.frame)
    lines, rng = _lines(design, data.frame), np.random.default_rng(settings.seed)
    means, parts = {}, []
    for concept, line in lines.items():
        mine = data.frame[(data.frame["test"] == line["test"]) & (data.frame["side"] == line["side"])]
        sets = [mine[mine["set"] == kind] for kind in SETS]
        embedded = [rows[some.index] for some in sets]
        data.keep(sets[0], association=association(*embedded))
        prompts, *of_edits = (some["stimulus"].to_numpy(dtype=str) for some in sets)
        mean = mean_association(*embedded, groups=prompts, attribute_groups=of_edits, confidence=settings.confidence)
        means[concept] = replace(mean, null_value=even_mix_association(*embedded[1:]))
        chosen = np.sort(rng.permutation(len(sets[0]))[: settings.options.n_images])
        parts.append(_judged(design, line, sets[0].iloc[chosen], embedded[0][chosen], data))
    judged = pd.concat(parts)
    judged["people"] = _by_people(lines, judged, settings) if settings.labels else None
    judged["choice"] = judged["people" if settings.labels else "reader"]
    shares = {name: _share(judged.loc[judged["concept"] == name, "choice"], settings) for name in lines}
    table2 = _table2(design, lines, shares, means)
    who = "people, most votes win" if settings.labels else f"{settings.encoder}, by the closer sentence"
    return Results(
        findings=(
            *_order(design, table2, settings),
            *(_share_finding(design, line, shares[concept], judged) for concept, line in lines.items()),
            *_reader_against_people(judged, settings),
        ),
        tables=(
            table("table2", "Choices and associations (Table 2)", table2, _COLUMNS),
            table("judged", "The judged pictures", _judged_frame(lines, judged), _JUDGED),
        ),
        figures=_figures(table2),
        notes=(
            f"The pictures are judged by {who}.",
            "τ has only the concepts to go by, and its interval resamples them: it is wide.",
        ),
    )


_COLUMNS = (
    "share: of the judged neutral pictures, those closer to A than to B. association: mean of Eq. 2 over all neutral "
    "pictures of the concept, with all pictures of a prompt drawn anew together. even mix: where it would lie if half "
    "of them were like the pictures of A and half like those of B. signed S: association of X less that of Y for a "
    "concept X, and less it for a concept Y; the published τ is of these."
)
_JUDGED = (
    "People say which of the two answers a picture is closer to: a CSV with the columns image_id, answer, "
    "rater, given as labels."
)


def _words(lines: Iterable[Line]) -> list[str]:
    """What an answer may be: an attribute's name, or its letter."""
    return list(dict.fromkeys(["a", "b", *(line[side] for line in lines for side in ("a", "b"))]))


def _lines(design: Design, frame: pd.DataFrame) -> dict[str, Line]:
    """Lines of Table 2 whose concept was drawn, by concept."""
    places = {test[side]: {"test": test["key"], "side": side} for test in design.data["tests"] for side in ("x", "y")}
    drawn = set(zip(frame["test"], frame["side"], strict=True)) if len(frame) else set()
    lines = {line["concept"]: line | places[line["concept"]] for line in design.data["human_comparison"]["scores"]}
    lines = {concept: line for concept, line in lines.items() if (line["test"], line["side"]) in drawn}
    if not lines:
        raise InvalidInput("people judged no concept of these tests, or no picture of them can be scored")
    return lines


def _judged(design: Design, line: Line, pictures: pd.DataFrame, embedded: np.ndarray, data: StudyData) -> pd.DataFrame:
    """Pictures of a concept with two answers to whether each is closer to A than to B.

    The reader's says which sentence is closer; that of the record is None where nobody knows what was drawn, or
    neither A nor B was.
    """
    comparison = design.data["human_comparison"]
    a, b = data.texts([comparison["sentences"][line[side]] for side in ("a", "b")])
    shown = [comparison["shown"][line[side]].items() for side in ("a", "b")]
    record: list[Any] = []
    for truth in data.truths(pictures):
        of_a, of_b = (truth is not None and one <= truth.items() for one in shown)
        record.append(of_a if of_a or of_b else None)
    return pictures.assign(concept=line["concept"], reader=embedded @ (a - b) > 0, record=record)


def _by_people(lines: Mapping[str, Line], judged: pd.DataFrame, settings: StudySettings) -> list[bool | None]:
    """Whether most raters chose A; None where they are even or nobody answered."""
    answers = read_answers(settings.labels, allowed=_words(lines.values())).merge(judged[["image_id", "concept"]])
    if answers.empty:
        raise InvalidInput(f"no answer in {settings.labels} is about a picture that is judged in this run")
    letters = []
    for answer, concept in zip(answers["answer"], answers["concept"], strict=True):
        letter_of = {"a": "a", "b": "b", lines[concept]["a"]: "a", lines[concept]["b"]: "b"}  # raters may mix both
        if answer not in letter_of:
            raise InvalidInput(f"a picture of {concept} is judged {answer!r}; say one of {[*letter_of]}")
        letters.append(letter_of[answer])
    votes = judged["image_id"].map(majority(answers.assign(answer=letters)))
    return [{"a": True, "b": False}.get(letter) for letter in votes]


def _share(choices: "pd.Series[Any]", settings: StudySettings) -> Estimate:
    decided = choices.dropna()
    if decided.empty:
        return Estimate.undefined(0, "no picture was decided", null_value=0.5)
    return wilson_interval(int(decided.sum()), len(decided), confidence=settings.confidence, null_value=0.5)


def _table2(
    design: Design, lines: Mapping[str, Line], shares: Mapping[str, Estimate], means: Mapping[str, Estimate]
) -> pd.DataFrame:
    """A line per concept; S of its test is of another sign for a concept Y, nan where the other is missing."""
    titles = design.data["titles"]
    values = {(line["test"], line["side"]): means[concept].value for concept, line in lines.items()}
    return pd.DataFrame(
        [
            {
                "concept": titles[concept],
                "attributes": f"{titles[line['a']]} / {titles[line['b']]}",
                "pictures": shares[concept].n,
                **columns("share", shares[concept]),
                "published share": float(line["score"]),
                **columns("association", mean),
                "even mix": mean.null_value,
                "signed S": mean.value - values.get((line["test"], "y" if line["side"] == "x" else "x"), math.nan),
                "prompts": mean.n,
            }
            for concept, line in lines.items()
            for mean in [means[concept]]
        ]
    )


def _order(design: Design, table2: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """τ of means and choices, and τ as published: of S for each concept X, and -S for each concept Y."""
    comparable = table2.dropna(subset=["share", "association"])
    if len(comparable) < FEWEST:
        return []
    correlation = kendall_tau(comparable["association"], comparable["share"], **intervals(settings))
    title = "Mean associations and choices, order of concepts"
    says = f"{len(comparable)} concepts. The published τ is of another score: see the next line."
    order = finding("order", title, "kendall_tau", correlation.tau, says, p_value=correlation.p_value)
    comparable = comparable.dropna(subset="signed S")
    if len(comparable) < FEWEST:
        return [order]
    tau = kendall_tau(comparable["signed S"], comparable["share"], n_resamples=2).tau
    note = "X and Y of a test have opposite values, so concepts are no sampling units and τ has no interval"
    tau = replace(tau, low=math.nan, high=math.nan, method="", note=tau.note or note)
    title = "S (concept X), -S (concept Y) and choices, order of concepts"
    says = "In this form Table 1's S gives 0.5455 against Table 2, the published 0.55."
    published = float(design.data["human_comparison"]["kendall_tau"])
    return [order, finding("order_signed", title, "kendall_tau", tau, says, published=published)]


def _share_finding(design: Design, line: Line, share: Estimate, judged: pd.DataFrame) -> Finding:
    titles, concept = design.data["titles"], line["concept"]
    record = judged.loc[judged["concept"] == concept, "record"]
    a, b = (titles[line[side]].lower() for side in ("a", "b"))
    leaning = lean(share, f"mostly {a}", f"mostly {b}", "as often the one as the other", null=0.5)
    title, says = f"{titles[concept]}, closer to {a} than to {b}", f"Pictures of {titles[concept].lower()}: {leaning}."
    of_others = {"published": float(line["score"]), "expected": float(record.mean()) if record.notna().all() else None}
    return finding(f"share_{concept}", title, "attribute_prevalence", share, says, **of_others)


def _reader_against_people(judged: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    both = judged.dropna(subset=["reader", "people"])
    if len(both) < FEWEST:
        return []
    kappa = agreement_estimate(both[["reader", "people"]], coefficient="cohen_kappa", **intervals(settings))
    says = f"{100 * (both['reader'] == both['people']).mean():.1f} % of {len(both)} pictures are judged alike."
    return [finding("kappa", "Reader against people", "cohen_kappa", kappa, says)]


def _judged_frame(lines: Mapping[str, Line], judged: pd.DataFrame) -> pd.DataFrame:
    """The judged pictures, each choice by the name of its attribute."""
    frame = judged[["image_id", "concept", "reader", "people"]].reset_index(drop=True)
    frame.insert(2, "answers", [f"{lines[c]['a']} / {lines[c]['b']}" for c in frame["concept"]])
    for column in ("reader", "people"):
        frame[column] = [
            "" if pd.isna(choice) else lines[concept]["a" if choice else "b"]
            for choice, concept in zip(frame[column], frame["concept"], strict=True)
        ]
    return frame


def _figures(table2: pd.DataFrame) -> tuple[StudyFigure, ...]:
    each = {"name": "concept", "group": "attributes"}
    shares = {"value": "share", "low": "share low", "high": "share high", "published": "published share"}
    places = {"x": "association", "xlow": "association low", "xhigh": "association high"}
    places |= {"y": "share", "ylow": "share low", "yhigh": "share high"}
    title = "Share of neutral pictures closer to the first attribute (Table 2)"
    caption = "Diamonds are the choices of the paper's participants about another model's pictures."
    axes: dict[str, Any] = {"x": "share closer to pleasant, or to male", "null": 0.5}
    choices = figure("intervals", "choices", title, marks(table2, each | shares), caption, **axes)
    points = marks(table2, each | places).dropna(subset=["x", "y"])
    caption = "Where both agree the concepts rise from left to right."
    axes = {"x": "mean association with the first attribute", "y": "share closer to it"}
    return choices, figure("scatter", "order", "Choices against associations", points, caption, **axes)


PROGRAMS = {
    "association_and_people": Program(
        takes_labels=True, shots=human_shots, measure=measure_human, options=JudgedOptions
    )
}
