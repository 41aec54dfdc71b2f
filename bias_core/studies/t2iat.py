"""T2IAT's eight association tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.association import AssociationTest, association_test
from bias_core.prompts import append_word, fill_template, replace_word
from bias_core.statistics import benjamini_hochberg
from bias_core.studies.program import Measuring, Program
from bias_core.studies.rows import scaled, thinned
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
)

if TYPE_CHECKING:
    import numpy as np

    from bias_core.studies.study_data import StudyData

SIDES = ("x", "y")
FEWEST_STIMULI = 3
SETS = ("neutral", "a", "b")
"""Neutral pictures of a concept, and those edited with words of attribute A and of B."""


def association_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per test and side: the neutral prompts, and their edits with words of A and of B."""
    return [
        Shot(prompt=prompt, n=n, group=f"{test['key']} {side} {kind}", facts=facts)
        for test in chosen_tests(design, settings)
        for side in SIDES
        for stimulus in _stimuli(design, settings, test[side])
        for kind, prompt, n in edits_of(design, settings, test, side, stimulus)
        for facts in [{"test": test["key"], "side": side, "set": kind, "stimulus": stimulus}]
    ]


def chosen_tests(design: Design, settings: StudySettings) -> list[dict[str, Any]]:
    """The tests that the option names, or all; InvalidInput for one that does not exist."""
    wanted = settings.options["tests"]
    tests = [test for test in design.data["tests"] if not wanted or test["key"] in wanted]
    if unknown := set(wanted) - {test["key"] for test in tests}:
        known = ", ".join(test["key"] for test in design.data["tests"])
        raise InvalidInput(f"{design.name} has no test {', '.join(sorted(unknown))}; it has {known}")
    return tests


def _stimuli(design: Design, settings: StudySettings, concept: str) -> list[str]:
    words = [str(word) for word in design.data["concepts"][concept]]
    return thinned(words, settings.scale**0.5, least=FEWEST_STIMULI, seed=settings.seed)


def edits_of(
    design: Design, settings: StudySettings, test: dict[str, Any], side: str, stimulus: str
) -> Iterator[tuple[str, str, int]]:
    """Set, prompt and number of pictures: one neutral prompt, and its edits.

    With crossing "turns" a stimulus meets one word of each attribute, the words taken in turn; with "full"
    every word, the same number of pictures spread over them.
    """
    n = scaled(design.images_per_prompt, settings.scale**0.5)
    prompt = fill_template(test["template"], stimulus)
    yield "neutral", prompt, n
    place = list(map(str, design.data["concepts"][test[side]])).index(stimulus)
    for attribute in ("a", "b"):
        words = [str(word) for word in design.data["concepts"][test[attribute]]]
        if settings.options["crossing"] == "full":
            yield from (
                (attribute, edited(prompt, word, test["kind"]), max(1, n // len(words))) for word in words
            )
        else:
            yield attribute, edited(prompt, words[place % len(words)], test["kind"]), n


def edited(prompt: str, word: str, kind: str) -> str:
    """A neutral prompt turned towards an attribute word: appended (valence), or in place of "person".

    Examples
    --------
    >>> edited("a photo of a rose", "peace", "valence"), edited("a person studying art", "man", "gender")
    ('a photo of a rose, peace', 'a man studying art')
    """
    return append_word(prompt, word) if kind == "valence" else replace_word(prompt, "person", word)


def measure_associations(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """S, p and d of every test, and the associations behind them."""
    frame = data.frame
    rows = yield from data.embed(frame)
    tests = chosen_tests(design, settings)
    found = {test["key"]: run_test(frame[frame["test"] == test["key"]], rows, settings) for test in tests}
    adjusted = benjamini_hochberg([t.total_p_value for t in found.values()]).adjusted
    titles = {test["key"]: _title(design, test) for test in tests}
    table = pd.DataFrame(
        [
            _table_row(design, test, found[test["key"]], float(q))
            for test, q in zip(tests, adjusted, strict=True)
        ]
    )
    return Results(
        findings=tuple(_finding(design, test, found[test["key"]]) for test in tests),
        tables=(StudyTable(key="table1", title="Association tests (Table 1)", frame=table, note=_COLUMNS),),
        figures=(_score_figure(table), _distribution_figure(found, titles)),
        notes=(
            "The published p-values follow no single unit and sidedness; here the unit is the prompt and the "
            "test is two-sided.",
        ),
    )


_COLUMNS = (
    "S: differential association. p: permutation of prompts, attribute pictures held fixed. total p:"
    " attribute pictures drawn anew too. q: total p after Benjamini–Hochberg. d: of single pictures."
)


def _finding(design: Design, test: dict[str, Any], found: AssociationTest) -> Finding:
    return Finding(
        key=test["key"],
        title=_title(design, test),
        metric="differential_association",
        estimate=found.total_interval,
        p_value=found.total_p_value,
        published=float(test["score"]),
        says=_reading(design, test, found),
    )


def run_test(frame: pd.DataFrame, rows: np.ndarray, settings: StudySettings) -> AssociationTest:
    """One test on the pictures of ``frame``, whose index points into ``rows``."""

    def of(side: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
        chosen = frame[(frame["side"] == side) & (frame["set"] == kind)]
        return rows[chosen.index], chosen["stimulus"].to_numpy(dtype=str)

    sets = {(side, kind): of(side, kind) for side in SIDES for kind in SETS}
    edits = [sets[side, kind] for side in SIDES for kind in ("a", "b")]
    return association_test(
        sets["x", "neutral"][0],
        sets["y", "neutral"][0],
        *[embeddings for embeddings, _ in edits],
        groups_x=sets["x", "neutral"][1],
        groups_y=sets["y", "neutral"][1],
        attribute_groups=[stimuli for _, stimuli in edits],
        n_permutations=settings.options["n_permutations"],
        effect_size_sd=settings.options["effect_size_sd"],
        confidence=settings.confidence,
        rng=settings.seed,
    )


def _title(design: Design, test: dict[str, Any]) -> str:
    titles = design.data["titles"]
    return f"{titles[test['x']]} / {titles[test['y']]}, {titles[test['a']]} / {titles[test['b']]}"


def _reading(design: Design, test: dict[str, Any], found: AssociationTest) -> str:
    titles = design.data["titles"]
    more = titles[test["x"] if found.score > 0 else test["y"]]
    if found.total_p_value >= 0.05:
        return "The two concepts are not told apart by this many prompts."
    return f"Pictures of {more} lean more to {titles[test['a']].lower()}."


def _table_row(design: Design, test: dict[str, Any], found: AssociationTest, q: float) -> dict[str, Any]:
    titles = design.data["titles"]
    return {
        "X": titles[test["x"]],
        "Y": titles[test["y"]],
        "A": titles[test["a"]],
        "B": titles[test["b"]],
        "S": found.score,
        "low": found.total_interval.low,
        "high": found.total_interval.high,
        "p": found.p_value,
        "total p": found.total_p_value,
        "q": q,
        "d": found.effect_size,
        "prompts X": found.n_units_x,
        "prompts Y": found.n_units_y,
        "published S": float(test["score"]),
        "published p": f"{'< ' if test['p_below'] else ''}{test['p']:g}",
        "published d": float(test["d"]),
    }


def _score_figure(table: pd.DataFrame) -> StudyFigure:
    names = [f"{x} / {y}" for x, y in zip(table["X"], table["Y"], strict=True)]
    data = pd.DataFrame({"name": names, "value": table["S"], "low": table["low"], "high": table["high"]})
    return StudyFigure(
        key="scores",
        title="Differential association per test",
        kind="intervals",
        data=data.assign(published=table["published S"]),
        labels={"x": "S, in units of cosine", "null": 0.0},
        caption="Right of the line: the first concept leans to A more. Diamonds are the published scores of "
        "another model and encoder; compare signs, not sizes.",
    )


def _distribution_figure(found: dict[str, AssociationTest], titles: dict[str, str]) -> StudyFigure:
    data = [
        {"group": titles[key].split(",")[0].split(" / ")[i], "value": value, "side": "XY"[i]}
        for key, test in found.items()
        for i, values in enumerate((test.associations_x, test.associations_y))
        for value in values
    ]
    return StudyFigure(
        key="associations",
        title="Associations of single pictures",
        kind="distributions",
        data=pd.DataFrame(data),
        labels={"x": "association with A rather than B", "null": 0.0},
        caption="Points are pictures, bars their quartiles, circles their medians.",
    )


PROGRAMS = {"association_tests": Program(shots=association_shots, measure=measure_associations)}
