"""T2IAT's eight association tests, and a test of the user's own words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.association import AssociationTest, association_test, leave_one_out, repooled_permutation_test
from bias_core.measures.paired_prevalence import PairedTest
from bias_core.measures.permutation import permutation_test, smallest_p_value
from bias_core.papers.t2iat.report import OTHER_P_NOTES, P_OVER_PROMPTS_NOTE, PUBLISHED_P_NOTE, tests_headline
from bias_core.prompts import SLOT, append_word, fill_template, replace_word
from bias_core.report.arm_comparison import ARM, ROUNDING, counted_sample, nothing, table_over_arms
from bias_core.report.claims import claim_columns, decide_claims, family_note, without_fixed_n
from bias_core.run.image_rows import scaled, thinned
from bias_core.run.study_run import Run
from bias_core.study.design import ReportTexts, check_count, distinct_texts, find_design
from bias_core.study.study import Measuring, RunSize, Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Design,
    Results,
    Sample,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    finding,
    get_options,
    marks,
)
from bias_core.values import Options, setting, settings_class
from bias_core.wording import format_list

TEXTS = ReportTexts(__file__)
SIDES = ("x", "y")
SETS = ("neutral", "a", "b")  # neutral pictures of a concept, and those edited with words of attribute A and of B
FEWEST_STIMULI = 4  # prompts of a concept that a scaled-down study keeps: with 3 against 3 no p can be below 0.05
MOST_SHOWN = 12  # prompts in a figure of influences: those that move S most
OWN_NAME = "own-association"
EDITS = ("valence", "gender")  # how a prompt is edited: its word is appended, or takes the place of "person"
MOST_WORDS = 100
_PROPER = ("European", "African", "Judaism", "Christianity")  # first words of titles that keep their capital
MOST_PICTURES = 100
OTHER_P = {"pictures": "p over pictures", "eq3": "p by Eq. 3"}
"""Columns of p-values that are shown and decide nothing, by the option."""


@settings_class(frozen=True, kw_only=True)
class CrossingOptions(Options):
    """The tests, and the way stimuli and attribute words are combined."""

    tests: tuple[str, ...] = setting((), "Tests", "Names of the tests to run (default: all)")
    crossing: Literal["turns", "full"] = setting(
        "turns", "Combination", "Attribute words for each stimulus: turns (one of each attribute) or full (every word)"
    )


@settings_class(frozen=True, kw_only=True)
class TestOptions(CrossingOptions):
    n_permutations: int = setting(1000, "Permutations", "Permutations for the p-value", ge=1, le=100_000)
    effect_size_sd: Literal["pooled", "union"] = setting(
        "pooled", "Standard deviation of d", "Standard deviation in d: pooled, or union as in WEAT"
    )
    p_value: Literal["prompts", "pictures", "eq3"] = setting(
        "prompts",
        "p-value",
        "A further p to show next to that of permuted prompts, which decides: pictures (single neutral ones), or eq3 "
        "(Eq. 3 as printed: halves of all prompts, each with its own edited pictures)",
    )


def association_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Return, per test and side, the neutral prompts and their edits with words of A and of B."""
    return [
        Shot(prompt=prompt, n=n, group=f"{test['key']} {side} {kind}", facts=facts)
        for test in chosen_tests(design, settings)
        for side in SIDES
        for stimulus in thinned(
            get_words(design, test[side]), settings.scale**0.5, minimum=FEWEST_STIMULI, seed=settings.seed
        )
        for kind, prompt, n in list_edits(design, settings, test, side, stimulus)
        for words in [_describe_picture(design, test, side, kind)]
        for facts in [{"test": test["key"], "side": side, "set": kind, "stimulus": stimulus, **words}]
    ]


def _describe_picture(design: Design, test: Mapping[str, Any], side: str, kind: str) -> dict[str, str]:
    """Return the titles of a picture's concept, and of the attribute in its edited prompt."""
    titles = design.data["titles"]
    return {"about": titles[test[side]], "edited with": "nothing" if kind == "neutral" else titles[test[kind]]}


def chosen_tests(design: Design, settings: StudySettings) -> list[dict[str, Any]]:
    """Return the tests that the option names, or all; InvalidInput for one that does not exist."""
    chosen_keys, keys = get_options(settings, CrossingOptions).tests, [test["key"] for test in design.data["tests"]]
    if unknown := set(chosen_keys) - set(keys):
        raise InvalidInput(f"{design.name} has no test {', '.join(sorted(unknown))}; it has {', '.join(keys)}")
    return [test for test in design.data["tests"] if not chosen_keys or test["key"] in chosen_keys]


def names_of_tests(design: Design, settings: StudySettings, sides: str, between: str) -> list[str]:
    """Return the titles of two sides of each chosen test, such as "science and arts", each once."""
    titles = design.data["titles"]
    return distinct_texts(
        between.join(_lowercase_title(titles[test[side]]) for side in sides) for test in chosen_tests(design, settings)
    )


def _lowercase_title(title: str) -> str:
    """Return a title as within a sentence: without a capital, unless it is a name."""
    return title if title.split()[0] in _PROPER else title[:1].lower() + title[1:]


def get_words(design: Design, concept: str) -> list[str]:
    return [str(word) for word in design.data["concepts"][concept]]


def list_edits(
    design: Design, settings: StudySettings, test: Mapping[str, Any], side: str, stimulus: str
) -> Iterator[tuple[str, str, int]]:
    """Return set, prompt and number of pictures for one neutral prompt and its edits.

    With crossing "turns", a stimulus gets one word of each attribute, in turn; with "full" every word, with the same
    number of pictures spread over them.
    """
    n = scaled(design.images_per_prompt, settings.scale**0.5)
    prompt = fill_template(test["template"], stimulus)
    yield "neutral", prompt, n
    place = get_words(design, test[side]).index(stimulus)
    for attribute in ("a", "b"):
        words = get_words(design, test[attribute])
        if get_options(settings, CrossingOptions).crossing == "full":
            yield from ((attribute, edited(prompt, word, test["kind"]), max(1, n // len(words))) for word in words)
        else:
            yield attribute, edited(prompt, words[place % len(words)], test["kind"]), n


def edited(prompt: str, word: str, kind: str) -> str:
    """Return a neutral prompt edited with an attribute word: appended (valence), or in place of "person".

    >>> edited("a photo of a rose", "peace", "valence"), edited("a person studying art", "man", "gender")
    ('a photo of a rose, peace', 'a man studying art')
    """
    return append_word(prompt, word) if kind == "valence" else replace_word(prompt, "person", word)


def build_sets(frame: pd.DataFrame, rows: np.ndarray) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Return the pictures of one test as inputs of its measures; the index of ``frame`` points into ``rows``.

    The sets are X, Y, X edited with A and with B, Y edited with A and with B; then the prompts of each.
    """
    places = [(side, "neutral") for side in SIDES] + [(side, kind) for side in SIDES for kind in ("a", "b")]
    sets = [frame[(frame["side"] == side) & (frame["set"] == kind)] for side, kind in places]
    x, y, *of_edits = (pictures["stimulus"].to_numpy(dtype=str) for pictures in sets)
    return [rows[pictures.index] for pictures in sets], {"groups_x": x, "groups_y": y, "attribute_groups": of_edits}


def run_test(frame: pd.DataFrame, rows: np.ndarray, settings: StudySettings) -> AssociationTest:
    """Run one test on the pictures of ``frame``, by permuting prompts; its index points into ``rows``."""
    (sets, prompts), options = build_sets(frame, rows), get_options(settings, TestOptions)
    test_options: dict[str, Any] = {"n_permutations": options.n_permutations, "effect_size_sd": options.effect_size_sd}
    return association_test(*sets, **prompts | test_options, confidence=settings.confidence, rng=settings.seed)


def _other_p(test: AssociationTest, frame: pd.DataFrame, rows: np.ndarray, settings: StudySettings) -> dict[str, Any]:
    """Return the columns of the p that the option asks for next to that of permuted prompts."""
    options = get_options(settings, TestOptions)
    splits: dict[str, Any] = {"n_permutations": options.n_permutations, "rng": settings.seed}
    if options.p_value == "pictures":
        return {OTHER_P["pictures"]: permutation_test(test.associations_x, test.associations_y, **splits).p_value}
    if options.p_value == "eq3":
        sets, prompts = build_sets(frame, rows)
        printed = repooled_permutation_test(*sets, **prompts | splits)
        n = printed.n_permutations
        larger = f"{round(printed.p_value * n):,} of {n:,} {'' if printed.exact else 'random '}halves have a larger |S|"
        return {OTHER_P["eq3"]: f"{printed.p_value:.3g}: {larger}"}
    return {}


def _finished_tests(data: Run, tests: Mapping[str, Any]) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the pictures of each test, and notes; a stopped run counts only prompts with all of their edits.

    InvalidInput if no test has two such prompts of each concept.
    """
    parts = {key: data.frame[data.frame["test"] == key] for key in tests}
    if not data.stopped:
        return parts, []
    for key, part in parts.items():
        n_sets = part.groupby(["side", "stimulus"])["set"].transform("nunique")
        parts[key] = part[n_sets == len(SETS)]
    prompts = {key: part.groupby("side")["stimulus"].nunique() for key, part in parts.items()}
    whole = {key: part for key, part in parts.items() if len(prompts[key]) == 2 and prompts[key].min() > 1}
    if not whole:
        raise InvalidInput("no test has two finished prompts of each concept")
    n = len(parts) - len(whole)
    return whole, [f"{n} of {len(parts)} tests have too few finished prompts and are left out."] if n else []


def _line(test: Mapping[str, Any], result: AssociationTest, claim: Claim, other_p: Mapping[str, Any]) -> dict[str, Any]:
    differences = result.associations_x[:, None] - result.associations_y
    line: dict[str, Any] = {
        **columns("S", result.estimate, ends=""),
        **claim_columns(result.estimate, claim),
        "smallest p": result.smallest_p_value,
        **other_p,
        "d": result.effect_size,
        "X above Y": float((np.sign(differences).mean() + 1) / 2),  # ties count half
        "prompts X": result.n_units_x,
        "prompts Y": result.n_units_y,
    }
    if "score" in test:
        p = f"{'< ' if test['p_below'] else ''}{test['p']:g}"
        line |= {"paper's S": float(test["score"]), "paper's p": p, "paper's d": float(test["d"])}
    return line


def _decide(results: Sequence[AssociationTest], settings: StudySettings, *, fixed_n: bool) -> list[Claim]:
    """Return what may be claimed of each test: all tests of a run are one family."""
    estimates = [test.estimate if fixed_n else without_fixed_n(test.estimate) for test in results]
    smallest = [test.smallest_p_value for test in results]
    claims = decide_claims(estimates, confidence=settings.confidence, smallest_p=smallest)
    if not fixed_n:
        return list(claims)
    return [
        replace(claim, reason=_few_words(test, claim, settings)) if claim.verdict == "too few" else claim
        for test, claim in zip(results, claims, strict=True)
    ]


def _few_words(test: AssociationTest, claim: Claim, settings: StudySettings) -> str:
    """Say the smallest p of a test with too few prompts, and how many are enough."""
    n = get_options(settings, TestOptions).n_permutations
    says = f"{smallest_p_words(test)}{f', which is not clear among {claim.n_tests} tests' * (claim.n_tests > 1)}"
    sizes = (size for size in range(2, MOST_WORDS) if smallest_p_value(size, size, n) * claim.n_tests <= claim.level)
    needed = next(sizes, None)
    if needed is None:
        return f"{says}; {math.ceil(claim.n_tests / claim.level):,} permutations are enough"
    return f"{says}; {needed} against {needed} are enough"


def _reading(claim: Claim, *, fixed_n: bool) -> str:
    """Return the sentence on a test that is not clear."""
    if claim.verdict == "too few":
        return "Too few prompts to show a difference." if fixed_n else "Not tested."
    return "No clear difference with this many prompts."


def smallest_p_words(result: AssociationTest) -> str:
    """Say the smallest p that this many prompts or splits can give.

    >>> east, north, x, y = [[1, 0]], [[0, 1]], [[1, 0.1], [1, 0.2], [1, 0.3]], [[0.1, 1], [0.2, 1], [0.3, 1]]
    >>> smallest_p_words(association_test(x, y, east, north, east, north))
    'the smallest p that 3 against 3 prompts can give is 0.10'
    """
    by = f"{result.n_units_x} against {result.n_units_y} prompts"
    if not result.exact:
        by += f" and {result.n_permutations:,} random splits"
    return f"the smallest p that {by} can give is {result.smallest_p_value:#.2g}"


def prompts_sample(frame: pd.DataFrame, result: AssociationTest) -> Sample:
    """Return the sample of S: the prompts of X and Y, each with its neutral and its edited pictures."""
    units = [f"{s} {name}" for s in SIDES for name in np.unique(frame.loc[frame["side"] == s, "stimulus"])]
    values = np.concatenate([result.units_x, result.units_y])
    signs = np.repeat([1.0, -1.0], [result.n_units_x, result.n_units_y])

    def compute_score(times: np.ndarray) -> np.ndarray:
        x, y = (times * (signs == sign) for sign in (1.0, -1.0))
        return np.asarray(x @ values / x.sum(axis=1) - y @ values / y.sum(axis=1))

    return replace(counted_sample(units, compute_score), of="prompts", data=(values, signs), test=_test_of_prompts)


def _test_of_prompts(
    first: Sample, second: Sample, at_first: np.ndarray, at_second: np.ndarray, confidence: float, seed: int
) -> PairedTest:
    """Test the difference of S between two arms, prompt by prompt, with the same permutation and interval as S."""
    gain = second.data[0][at_second] - first.data[0][at_first]
    x, y = (gain[first.data[1][at_first] == sign] for sign in (1.0, -1.0))
    if min(len(x), len(y)) < 2:
        return nothing(len(gain), "fewer than two prompts of a concept are in both arms")
    if np.ptp(gain) <= ROUNDING:
        return nothing(len(gain), "all prompts change alike, so there is no interval", float(x.mean() - y.mean()))
    return PairedTest(
        estimate=permutation_test(x, y, confidence=confidence, rng=seed).estimate, test="permutation of prompts"
    )


def _figures(table1: pd.DataFrame, results: Mapping[str, AssociationTest]) -> list[StudyFigure]:
    caption = " Diamonds are the paper's scores of another model and encoder: compare signs, not sizes."
    rows = marks(
        table1.assign(name=table1["X"] + " / " + table1["Y"] + ", " + table1["A"] + " / " + table1["B"]),
        {"name": "name", "value": "S", "low": "low", "high": "high", "published": "paper's S"},
    )
    words = {f"{a} rather than {b}" for a, b in zip(table1["A"], table1["B"], strict=True)}
    axis = words.pop() if len(words) == 1 else "the first attribute rather than the second"
    return [
        TEXTS.figure("scores", rows, published=caption if "paper's S" in table1 else ""),
        TEXTS.figure(
            "associations",
            [
                {"group": line[side], "value": value, "side": side}
                for line in table1.to_dict("records")
                for side in ("X", "Y")
                for value in getattr(results[line["test"]], f"associations_{side.lower()}")
            ],
            {"x": f"association with {axis}"},
        ),
    ]


def _influences(design: Design, test: Mapping[str, Any], frame: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return S of one test without each of its prompts, the most influential first."""
    sets, prompts = build_sets(frame, rows)
    without_each = leave_one_out(*sets, **prompts)
    return pd.DataFrame(
        {
            "test": test["key"],
            "concept": [design.data["titles"][test[side]] for side in without_each.sides],
            "left out": without_each.prompts,
            "S": without_each.score,
            "S without it": without_each.scores,
            "adds to S": without_each.influences,
            "S changes its sign": without_each.scores * without_each.score < 0,
        },
        index=[side.upper() for side in without_each.sides],
    ).iloc[np.argsort(-np.abs(without_each.influences), kind="stable")]


def _influence_figure(key: str, title: str, influences: pd.DataFrame) -> StudyFigure:
    top_influences = influences.head(MOST_SHOWN)
    rows = marks(
        top_influences.assign(name=top_influences["left out"] + " (" + top_influences["concept"] + ")"),
        {"name": "name", "start": "S", "end": "S without it"},
    )
    return TEXTS.figure("influence", rows, test=key, title=title)


def own_association(
    x: str, y: str, a: str, b: str, *, kind: str = "valence", template: str = "a photo of a {}", n: int = 4
) -> Design:
    """Return the design of one test: are pictures of X closer to A than pictures of Y are?

    ``x``, ``y``, ``a`` and ``b`` are words separated by commas or line breaks, optionally after a name and a colon
    ("Fruit: apple, pear"); X and Y need at least two words. The template has {} for a word of X or Y, and "person" for
    the kind "gender".

    InvalidInput for too few or too many words, words on both sides, or a prompt that cannot be edited.

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
    for role in "xy":  # an impossible edit raises before drawing
        edited(fill_template(template, given[role][1][0]), given["a"][1][0], kind)
    return replace(
        find_design("t2iat-tests"),
        name=OWN_NAME,
        title="Association test of your own words",
        where=f"Eq. 1 to 4, with your own words in “{template.replace(SLOT, '…')}”",
        summary=f"Are pictures of {names['x']} closer to {names['a']} than to {names['b']}, compared with pictures of "
        f"{names['y']}?",
        data={
            "concepts": dict(given.values()),
            "titles": {name: name for name in names.values()},
            "tests": [{"key": "own", **names, "kind": kind, "template": template}],
        },
        images_per_prompt=n,
        protocol={},
        our_reading=(),
    )


def parse_words(text: str) -> tuple[str, list[str]]:
    """Return a name and its words, each once.

    >>> parse_words("Fruit: apple, pear, apple"), parse_words("he, man")
    (('Fruit', ['apple', 'pear']), ('he, man', ['he', 'man']))
    """
    name, colon, word_list = text.rpartition(":")
    words = distinct_texts((word_list if colon else text).replace("\n", ",").replace(";", ",").split(","))
    return " ".join(name.split()) or ", ".join(words[:3]) + (" …" if len(words) > 3 else ""), words


def _check_words(given: Mapping[str, tuple[str, list[str]]]) -> None:
    for role, (_, words) in given.items():
        kind, minimum = ("concept", 2) if role in "xy" else ("attribute", 1)
        if not minimum <= len(words) <= MOST_WORDS:
            needs = f"needs {minimum} to {MOST_WORDS} words, separated by commas"
            raise InvalidInput(f"{kind} {role.upper()} {needs}; got {len(words)}")
    for first, second in ("xy", "ab"):
        if shared_words := set(given[first][1]) & set(given[second][1]):
            raise InvalidInput(f"{', '.join(sorted(shared_words))}: a word is on both sides; remove it from one")
    for first, second in combinations(given, 2):
        if given[first][0] == given[second][0]:
            raise InvalidInput(f"{first.upper()} and {second.upper()} have the same name, {given[first][0]!r}")


class AssociationTests(Study):
    """T2IAT, Table 1: association tests with permutation p-values."""

    kind = "association_tests"
    options = TestOptions
    fewest_when_stopped = 1

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        return {"pairs": format_list(names_of_tests(self.design, settings, "xy", " and "), "; ")}

    def shots(self, settings: StudySettings) -> list[Shot]:
        return association_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure S, p and d of every test, and the associations behind them."""
        options = get_options(settings, TestOptions)
        rows = yield from data.embed(data.frame)
        tests = {test["key"]: test for test in chosen_tests(self.design, settings)}
        parts, missing = _finished_tests(data, tests)
        results = {key: run_test(part, rows, settings) for key, part in parts.items()}
        influences = {key: _influences(self.design, tests[key], part, rows) for key, part in parts.items()}
        claims = _decide(list(results.values()), settings, fixed_n=data.fixed_n)
        titles, findings, lines = {}, [], []
        for (key, test), claim in zip(results.items(), claims, strict=True):
            words = {side.upper(): self.design.data["titles"][tests[key][side]] for side in ("x", "y", "a", "b")}
            titles[key] = "{X} / {Y}, {A} / {B}".format(**words)
            part = parts[key][parts[key]["set"] == "neutral"]
            for side, values in zip(SIDES, (test.associations_x, test.associations_y), strict=True):
                data.keep(part[part["side"] == side], association=values)
            other_p = _other_p(test, parts[key], rows, settings)
            lines.append({"test": key, **words, **_line(tests[key], test, claim, other_p)})
            findings.append(
                finding(
                    key,
                    titles[key],
                    "differential_association",
                    test.estimate,
                    claim=claim,
                    readings=(
                        *(f"Pictures of {words[side]} are closer to {tests[key]['a']}." for side in ("X", "Y")),
                        _reading(claim, fixed_n=data.fixed_n),
                    ),
                    published=float(tests[key]["score"]) if "score" in tests[key] else None,
                    sample=prompts_sample(parts[key], test),
                )
            )
        table1 = pd.DataFrame(lines)
        return Results(
            findings=tuple(findings),
            tables=(
                TEXTS.table("table1", table1, clear=family_note(claims, "tests")),
                TEXTS.table("influence", pd.concat(influences.values(), ignore_index=True)),
            ),
            figures=(
                *_figures(table1, results),
                *(_influence_figure(key, titles[key], frame) for key, frame in influences.items()),
            ),
            notes=(
                *missing,
                P_OVER_PROMPTS_NOTE,
                *([OTHER_P_NOTES[options.p_value]] if options.p_value in OTHER_P else []),
                *([PUBLISHED_P_NOTE] if "paper's S" in table1 else []),
            ),
        )

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return Table 1: effect size and p of every test in every arm."""
        frame = table_over_arms(
            arms,
            "table1",
            ["test", "X", "Y", "A", "B"],
            [
                "S",
                "low",
                "high",
                "p",
                "p adjusted",
                "clear",
                *OTHER_P.values(),
                "d",
                "X above Y",
                "paper's S",
                "paper's p",
                "paper's d",
            ],
        )
        cells = marks(
            frame.assign(row=frame["X"] + " / " + frame["Y"] + ", " + frame["A"] + " / " + frame["B"]),
            {"row": "row", "column": ARM, "value": "d"},
        ).dropna()
        return Results(tables=(TEXTS.table("table1_arms", frame),), figures=(TEXTS.figure("effect_sizes_arms", cells),))

    def run_size(self, settings: StudySettings) -> RunSize:
        """Return a note on the smallest p of the test with fewest prompts."""
        options = get_options(settings, TestOptions)

        def n_prompts(concept: str) -> int:
            words = get_words(self.design, concept)
            return len(thinned(words, settings.scale**0.5, minimum=FEWEST_STIMULI, seed=settings.seed))

        sizes = [(n_prompts(test["x"]), n_prompts(test["y"])) for test in chosen_tests(self.design, settings)]
        n = options.n_permutations
        p, (n_x, n_y) = max((smallest_p_value(n_x, n_y, n), (n_x, n_y)) for n_x, n_y in sizes)
        return RunSize(
            note=f"with {n_x} against {n_y} prompts, p is {p:#.2g} at best" + " in one test" * (len(set(sizes)) > 1)
        )

    def headline(self, report: StudyReport) -> str:
        return tests_headline(report)
