"""T2IAT's eight association tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.association import AssociationTest, association_test
from bias_core.metrics.paired_prevalence import PairedTest
from bias_core.prompts import SLOT, append_word, fill_template, replace_word
from bias_core.stats.effects import benjamini_hochberg, mean_interval, permutation_test
from bias_core.studies.arms.samples import counted_sample
from bias_core.studies.arms.statistics import ROUNDING, nothing
from bias_core.studies.association.arms import compare_tests
from bias_core.studies.association.sets import SIDES, influence_figure, influence_table, leave_out, sets_of
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.own_words import check_count, distinct_texts
from bias_core.studies.kit.rows import scaled, thinned
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Sample, Shot, StudyFigure, StudySettings
from bias_core.studies.reports.build import POINTS, columns, figure, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData

FEWEST_STIMULI = 4
"""Prompts of a concept that a scaled-down study keeps: with 3 against 3 no p can be below 0.05."""
SIGNIFICANT = 0.05


@settings_class(frozen=True, kw_only=True)
class CrossingOptions(Options):
    """Which tests are drawn, and how stimuli and attribute words meet."""

    tests: tuple[str, ...] = setting((), "Tests", "Keys of the tests to run; all where empty")
    crossing: Literal["turns", "full"] = setting(
        "turns", "Crossing", "turns: each stimulus with one word of each attribute; full: with every word"
    )


@settings_class(frozen=True, kw_only=True)
class TestOptions(CrossingOptions):
    """Which tests are run, and how their numbers are formed."""

    n_permutations: int = setting(1000, "Permutations", "For the p-value", ge=1, le=100_000)
    effect_size_sd: Literal["pooled", "union"] = setting(
        "pooled", "Standard deviation of d", "union: the WEAT convention"
    )


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
    wanted = settings.options.tests
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
        if settings.options.crossing == "full":
            yield from ((attribute, edited(prompt, word, test["kind"]), max(1, n // len(words))) for word in words)
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
    parts = {test["key"]: frame[frame["test"] == test["key"]] for test in tests}
    found = {key: run_test(part, rows, settings) for key, part in parts.items()}
    left_out = {key: leave_out(part, rows) for key, part in parts.items()}
    for key, part in parts.items():
        keep_associations(data, part, found[key])
    adjusted = benjamini_hochberg([t.p_value for t in found.values()]).adjusted
    corrected = {key: float(q) for key, q in zip(found, adjusted, strict=True)}
    titles = {test["key"]: _title(design, test) for test in tests}
    table1 = pd.DataFrame([_table_row(design, t, found[t["key"]], corrected[t["key"]]) for t in tests])
    published = any("score" in test for test in tests)
    return Results(
        findings=tuple(
            _finding(design, t, found[t["key"]], corrected[t["key"]], prompts_sample(parts[t["key"]], found[t["key"]]))
            for t in tests
        ),
        tables=(
            table("table1", "Association tests (Table 1)", table1, _COLUMNS),
            influence_table(design, tests, left_out),
        ),
        figures=(
            _score_figure(table1),
            _distribution_figure(found, titles),
            *(influence_figure(key, titles[key], left_out[key]) for key in titles),
        ),
        notes=(_UNIT,) if published else (),
    )


_COLUMNS = (
    "S: differential association, with its interval by Student's t over prompts (Welch). p: by permutation of"
    " prompts with all their pictures. smallest p: no pictures of this many prompts can give less. q: p after"
    " Benjamini–Hochberg. d: of single pictures."
    " X above Y: share of all pairs in which the picture of X leans more to A; 0.5 is no difference."
)
_UNIT = (
    "The published p-values follow no single unit and sidedness; here the unit is the prompt, with its "
    "neutral and its edited pictures, and the test is two-sided."
)


def prompts_sample(frame: pd.DataFrame, found: AssociationTest) -> Sample:
    """What S was computed from: the prompts of X and Y, each with its neutral and its edited pictures."""
    units = [f"{s} {name}" for s in SIDES for name in np.unique(frame.loc[frame["side"] == s, "stimulus"])]
    values = np.concatenate([found.units_x, found.units_y])
    signs = np.repeat([1.0, -1.0], [found.n_units_x, found.n_units_y])

    def of_counts(times: np.ndarray) -> np.ndarray:
        sides = [times * (signs == sign) for sign in (1.0, -1.0)]
        means = [side @ values / side.sum(axis=1) for side in sides]
        return np.asarray(means[0] - means[1])

    sample = counted_sample(units, of_counts)
    return replace(sample, of="prompts", data=(values, signs), test=_test_of_prompts)


def _test_of_prompts(
    first: Sample, second: Sample, at_first: np.ndarray, at_second: np.ndarray, confidence: float, seed: int
) -> PairedTest:
    """S of two arms: their difference of each prompt, permuted and resampled as S itself is."""
    gain = second.data[0][at_second] - first.data[0][at_first]
    x, y = (gain[first.data[1][at_first] == sign] for sign in (1.0, -1.0))
    if min(len(x), len(y)) < 2:
        return nothing(len(gain), "fewer than two prompts of a concept are in both arms")
    estimate = mean_interval(x, y, confidence=confidence, null_value=0.0)
    if np.ptp(gain) <= ROUNDING:
        return nothing(len(gain), estimate.note, estimate.value)
    p_value = permutation_test(x, y, rng=seed).p_value
    return PairedTest(estimate=estimate, p_value=p_value, test="permutation of prompts")


def _finding(design: Design, test: dict[str, Any], found: AssociationTest, q: float, sample: Sample) -> Finding:
    return Finding(
        key=test["key"],
        title=_title(design, test),
        metric="differential_association",
        estimate=found.confidence_interval,
        p_value=found.p_value,
        published=float(test["score"]) if "score" in test else None,
        says=_reading(design, test, found, q),
        sample=sample,
    )


def run_test(frame: pd.DataFrame, rows: np.ndarray, settings: StudySettings) -> AssociationTest:
    """One test on the pictures of ``frame``, whose index points into ``rows``."""
    embeddings, groups_x, groups_y, edited_from = sets_of(frame, rows)
    return association_test(
        *embeddings,
        groups_x=groups_x,
        groups_y=groups_y,
        attribute_groups=edited_from,
        n_permutations=settings.options.n_permutations,
        effect_size_sd=settings.options.effect_size_sd,
        confidence=settings.confidence,
        rng=settings.seed,
    )


def keep_associations(data: StudyData, frame: pd.DataFrame, found: AssociationTest) -> None:
    """Put the association of each neutral picture of a test beside it."""
    for side, values in zip(SIDES, (found.associations_x, found.associations_y), strict=True):
        data.keep(frame[(frame["side"] == side) & (frame["set"] == "neutral")], association=values)


def _title(design: Design, test: dict[str, Any]) -> str:
    titles = design.data["titles"]
    return f"{titles[test['x']]} / {titles[test['y']]}, {titles[test['a']]} / {titles[test['b']]}"


def _reading(design: Design, test: dict[str, Any], found: AssociationTest, q: float) -> str:
    titles = design.data["titles"]
    more = titles[test["x"] if found.score > 0 else test["y"]]
    if found.smallest_p_value >= SIGNIFICANT:
        return f"Too few prompts to tell the two concepts apart: {smallest_p_words(found)}."
    if not found.p_value < SIGNIFICANT:
        return "The two concepts are not told apart by this many prompts."
    if q >= SIGNIFICANT:
        return "Told apart by this test alone, but not once all tests of this run are counted."
    return f"Pictures of {more} lean more to {test['a']}."


def smallest_p_words(found: AssociationTest) -> str:
    """What the numbers of prompts, or the number of splits that were drawn, let p be at best.

    Examples
    --------
    >>> east, north, x, y = [[1, 0]], [[0, 1]], [[1, 0.1], [1, 0.2], [1, 0.3]], [[0.1, 1], [0.2, 1], [0.3, 1]]
    >>> smallest_p_words(association_test(x, y, east, north, east, north))
    'the smallest p that 3 against 3 prompts can give is 0.10'
    """
    by = f"{found.n_units_x} against {found.n_units_y} prompts"
    if not found.exact:
        by += f" and {found.n_permutations:,} random splits"
    return f"the smallest p that {by} can give is {found.smallest_p_value:#.2g}"


def _table_row(design: Design, test: dict[str, Any], found: AssociationTest, q: float) -> dict[str, Any]:
    titles = design.data["titles"]
    row = {
        "test": test["key"],
        "X": titles[test["x"]],
        "Y": titles[test["y"]],
        "A": titles[test["a"]],
        "B": titles[test["b"]],
        **columns("S", found.confidence_interval, ends=""),
        "p": found.p_value,
        "smallest p": found.smallest_p_value,
        "q": q,
        "d": found.effect_size,
        "X above Y": _share_above(found),
        "prompts X": found.n_units_x,
        "prompts Y": found.n_units_y,
    }
    if "score" not in test:
        return row
    return row | {
        "published S": float(test["score"]),
        "published p": f"{'< ' if test['p_below'] else ''}{test['p']:g}",
        "published d": float(test["d"]),
    }


def _share_above(found: AssociationTest) -> float:
    """Share of pairs of pictures in which that of X leans more to A; ties count half."""
    differences = found.associations_x[:, None] - found.associations_y
    return float((np.sign(differences).mean() + 1) / 2)


def _score_figure(table1: pd.DataFrame) -> StudyFigure:
    names = [f"{x} / {y}" for x, y in zip(table1["X"], table1["Y"], strict=True)]
    data = pd.DataFrame({"name": names, "value": table1["S"], "low": table1["low"], "high": table1["high"]})
    caption = "Right of the line: the first concept leans to A more."
    if "published S" in table1:
        data["published"] = table1["published S"]
        caption += " Diamonds are the published scores of another model and encoder: compare signs, not sizes."
    title = "Differential association per test"
    return figure("intervals", "scores", title, data, caption, x="S, in units of cosine", null=0.0)


def _distribution_figure(found: dict[str, AssociationTest], titles: dict[str, str]) -> StudyFigure:
    data = [
        {"group": titles[key].split(",")[0].split(" / ")[i], "value": value, "side": "XY"[i]}
        for key, test in found.items()
        for i, values in enumerate((test.associations_x, test.associations_y))
        for value in values
    ]
    title, axis = "Associations of single pictures", "association with A rather than B"
    return figure("distributions", "associations", title, data, POINTS, x=axis, null=0.0)


OWN_NAME = "own-association"
EDITS = ("valence", "gender")
"""How a prompt is edited: its word is appended, or takes the place of "person"."""
MOST_WORDS = 100
MOST_PICTURES = 100
_SHOWN = 3  # words in a title that nobody gave


def own_association(
    x: str, y: str, a: str, b: str, *, kind: str = "valence", template: str = "a photo of a {}", n: int = 4
) -> Design:
    """The design of one test: do pictures of X lean to A more than pictures of Y do?

    Parameters
    ----------
    x, y, a, b : words with commas or line breaks between them, after a name and a colon if one is given
        ("Fruit: apple, pear"); at least two words for X and for Y.
    kind : one of ``EDITS``.
    template : a prompt with {} for a word of X or Y; with "person" in it for the kind "gender".
    n : pictures of each prompt.

    Raises
    ------
    InvalidInput
        For too few or too many words, words on both sides, or a prompt that cannot be edited.

    Examples
    --------
    >>> design = own_association("Fruit: apple, pear", "Tools: saw, axe", "happy", "sad")
    >>> design.data["titles"]
    {'Fruit': 'Fruit', 'Tools': 'Tools', 'happy': 'happy', 'sad': 'sad'}
    """
    if kind not in EDITS:
        raise InvalidInput(f"a prompt is edited in one of the ways {', '.join(EDITS)}; got {kind!r}")
    check_count(n, "pictures of each prompt", 1, MOST_PICTURES)
    given = {role: parse_words(text) for role, text in zip("xyab", (x, y, a, b), strict=True)}
    _check_words(given)
    names = {role: name for role, (name, _) in given.items()}
    for role in "xy":  # an edit that is impossible is said before anything is drawn
        edited(fill_template(template, given[role][1][0]), given["a"][1][0], kind)
    return replace(
        find_design("t2iat-tests"),
        name=OWN_NAME,
        title="Association test of your own words",
        where=f"Eq. 1 to 4, with words of your own in “{template.replace(SLOT, '…')}”",
        summary=f"Do pictures of {names['x']} lean to {names['a']} rather than {names['b']} more than "
        f"pictures of {names['y']} do?",
        data={
            "concepts": dict(given.values()),
            "titles": {name: name for name in names.values()},
            "tests": [{"key": "own", **names, "kind": kind, "template": template}],
        },
        images_per_prompt=n,
    )


def parse_words(text: str) -> tuple[str, list[str]]:
    """A name and its words, each once.

    Examples
    --------
    >>> parse_words("Fruit: apple, pear, apple"), parse_words("he, man")
    (('Fruit', ['apple', 'pear']), ('he, man', ['he', 'man']))
    """
    name, colon, rest = text.rpartition(":")
    listed = (rest if colon else text).replace("\n", ",").replace(";", ",").split(",")
    words = distinct_texts(listed)
    shown = ", ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")
    return " ".join(name.split()) or shown, words


def _check_words(given: dict[str, tuple[str, list[str]]]) -> None:
    for role, least in {"x": 2, "y": 2, "a": 1, "b": 1}.items():
        n = len(given[role][1])
        if not least <= n <= MOST_WORDS:
            what = f"{'concept' if role in 'xy' else 'attribute'} {role.upper()}"
            raise InvalidInput(f"{what} needs {least} to {MOST_WORDS} words with commas between; got {n}")
    for one, other in ("xy", "ab"):
        if both := set(given[one][1]) & set(given[other][1]):
            raise InvalidInput(
                f"{', '.join(sorted(both))}: a word on both sides cannot tell them apart; take it out of one"
            )
    for one, other in combinations(given, 2):
        if given[one][0] == given[other][0]:
            raise InvalidInput(f"{one.upper()} and {other.upper()} have the same name, {given[one][0]!r}")


PROGRAMS = {
    "association_tests": Program(
        shots=association_shots, measure=measure_associations, options=TestOptions, compare=compare_tests
    )
}
