"""Two people in both places: does the stereotype depend on the role or on the place in the picture?"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import GENDERS, OrderEffect, order_effect
from bias_core.papers.pst.labelling import LabellingOptions
from bias_core.papers.pst.report import PAIRED, decide_by_family, describe_swapped, select_setting, swapped_headline
from bias_core.papers.pst.study import PairedStudy
from bias_core.report.arm_comparison import mean_sample
from bias_core.report.claims import family_note
from bias_core.run.image_rows import hash_to_seed, scaled
from bias_core.study.design import ReportTexts
from bias_core.study.types import (
    Finding,
    Results,
    Sample,
    Shot,
    StudyReport,
    StudySettings,
    columns,
    finding,
    finding_mark,
    get_options,
)
from bias_core.types import Estimate
from bias_core.values import setting, settings_class

TEXTS = ReportTexts(__file__)
_PROMPT = "Generate a picture of one {left} on the left and one {right} on the right."
_BETWEEN = " and "
_POINTS = 100.0


@settings_class(frozen=True, kw_only=True)
class SwappedOptions(LabellingOptions):
    """The pairs of roles, and the options of labelling."""

    pairs: tuple[str, ...] = setting(
        ("doctor and nurse", "lawyer and clerk", "manager and secretary"),
        "Pairs",
        "Pairs of roles, such as doctor and nurse; each role may occur once",
    )


def parse_pairs(settings: StudySettings) -> list[tuple[str, str]]:
    """Return the chosen pairs; InvalidInput for an invalid pair or a repeated role."""
    options = get_options(settings, SwappedOptions)
    pairs = [tuple(" ".join(part.split()) for part in text.split(_BETWEEN)) for text in options.pairs]
    names = [name for pair in pairs for name in pair]
    if not pairs or any(len(pair) != 2 or not all(pair) for pair in pairs):
        quoted = ", ".join(map(repr, options.pairs)) or "none"
        raise InvalidInput(f"each pair is two roles with “and” between them, such as doctor and nurse; got {quoted}")
    if len({name.lower() for name in names}) < len(names):
        raise InvalidInput(f"every role can be in one pair only; got {', '.join(names)}")
    return [(pair[0], pair[1]) for pair in pairs]


def shots_of_pair(pair: tuple[str, str], n: int) -> list[Shot]:
    """Return ``n`` pictures of a pair in both orders, on the same seeds, which no other pair has."""
    return [
        Shot(
            prompt=_PROMPT.format(left=left, right=right),
            n=n,
            group=PAIRED,
            facts={"setting": PAIRED, "left": left, "right": right},
            first_seed=hash_to_seed(_BETWEEN.join(pair)),
        )
        for left, right in (pair, pair[::-1])
    ]


_TITLES = {
    "place": (
        "Left minus right",
        "More people look masculine on the left.",
        "More people look masculine on the right.",
    ),
    "role": (
        "First role minus second",
        "More people look masculine in the first role of a pair.",
        "More people look masculine in the second role of a pair.",
    ),
    "both": (
        "First role on the left minus on the right",
        "More people, in either role, look masculine if the first role stands on the left.",
        "More people, in either role, look masculine if the first role stands on the right.",
    ),
}


_SHORT = {"both": "Role and place together"}
"""Short names for the figure; long ones do not fit on narrow screens."""


def pictures_of_pairs(people: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return a row per picture with both people labelled: the first role's value minus the second's."""
    first = people["stereotyped_gender"] == GENDERS[0]
    keys = ["image_id", "seed"]
    usable = people.assign(masculine=(people[label] == "masculine").astype(float))[people[label].isin(GENDERS)]
    first_people, second_people = usable[first.loc[usable.index]], usable[~first.loc[usable.index]]
    pictures = first_people.merge(second_people, on=keys, suffixes=("", "_other"), validate="one_to_one")
    pictures["pair"] = pictures["identity"] + _BETWEEN + pictures["identity_other"]
    pictures["order"] = pictures["position"]
    pictures["less"] = pictures["masculine"] - pictures["masculine_other"]
    pictures["sum"] = pictures["masculine"] + pictures["masculine_other"] - 1  # 1: both look masculine; −1: neither
    return pictures


def _effect(pictures: pd.DataFrame, key: str, settings: StudySettings) -> OrderEffect:
    """Return one effect, from the seeds with scores in both orders; one that is 0 in every seed has p = 1."""
    differences = differences_by_seed(pictures, key)
    if differences.empty:
        no_estimate = Estimate.undefined(0, "no seed shows every order", null_value=0.0)
        return OrderEffect(estimate=no_estimate)
    first, second = differences.to_numpy().T
    options: dict[str, Any] = {"confidence": settings.confidence, "rng": settings.seed}
    effect = order_effect(first, second, sign=SIGNS.get(key, -1), **options)
    if math.isnan(effect.p_value):
        return replace(effect, estimate=replace(effect.estimate, p_value=1.0))
    return effect


SIGNS: Mapping[str, Literal[1, -1]] = {"role": 1}
"""Effects that add their two differences; the others subtract them."""


def differences_by_seed(pictures: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return the two differences of :func:`order_effect` by pair and seed with both orders, ``(n_seeds, 2)``."""
    value = "sum" if key == "both" else "less"
    wide = pictures.pivot_table(value, ["pair", "seed"], "order") if len(pictures) else pd.DataFrame()
    if not set(ends := ["left", "right"]) <= set(wide):
        return pd.DataFrame(columns=ends, dtype=float)
    return wide[ends].dropna()


def _sample(pictures: pd.DataFrame, key: str) -> Sample | None:
    """Return the effect in each pair and seed, to compare arms; None without a seed in both orders."""
    differences = differences_by_seed(pictures, key)
    if differences.empty:
        return None
    halves = differences.to_numpy() @ (0.5, 0.5 * SIGNS.get(key, -1))
    return mean_sample([f"{pair}:{seed}" for pair, seed in differences.index], halves)


def _points(estimate: Estimate) -> Estimate:
    return estimate.scaled(_POINTS)


def _finding(key: str, test: OrderEffect, truth: OrderEffect | None, sample: Sample | None) -> Finding:
    title, positive, negative = _TITLES[key]
    has_truth = truth is not None and not math.isnan(truth.estimate.value)
    return finding(
        key,
        title,
        "order_effect",
        test.estimate,
        readings=(positive, negative, "No clear difference."),
        expected=truth.estimate.value if truth is not None and has_truth else None,
        sample=sample,
    )


def _build_pair_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return a line per pair, with every effect and its ends."""
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        lines.setdefault(row["pair"], {}).update({k: v for k, v in row.items() if k != "effect"})
    return pd.DataFrame(list(lines.values()))


class SwappedPairs(PairedStudy):
    """Pairs in both orders: the effect of the place in the picture, and of the role."""

    kind = "paired_swapped"
    options = SwappedOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return every pair in both orders, on the same seeds."""
        n = scaled(self.design.images_per_prompt, settings.scale, minimum=2)
        return [shot for pair in parse_pairs(settings) for shot in shots_of_pair(pair, n)]

    def identities(self, settings: StudySettings) -> pd.DataFrame:
        """Return the first of a pair as masculine-stereotyped, the second as feminine-stereotyped."""
        pairs = parse_pairs(settings)
        lines = {name: {"stereotyped_gender": GENDERS[place]} for pair in pairs for place, name in enumerate(pair)}
        return pd.DataFrame.from_dict(lines, orient="index")

    def report(self, settings: StudySettings, people: pd.DataFrame) -> Results:
        """Return the effects of roles and places, over all pairs and in each."""
        paired_people = select_setting(people)
        pictures = pictures_of_pairs(paired_people, "perceived_gender")
        truths = pictures_of_pairs(paired_people, "truth") if paired_people["truth"].notna().all() else None
        effects = {key: _effect(pictures, key, settings) for key in _TITLES}
        recorded = {key: _effect(truths, key, settings) for key in effects} if truths is not None else {}
        found = [_finding(key, test, recorded.get(key), _sample(pictures, key)) for key, test in effects.items()]
        findings = decide_by_family(found, settings)
        rows = [
            {"pair": pair, **columns(_TITLES[key][0], _points(_effect(pair_pictures, key, settings).estimate))}
            | {"effect": key}
            for pair, pair_pictures in pictures.groupby("pair", sort=False)
            for key in _TITLES
        ]
        usable = paired_people[paired_people["perceived_gender"].isin(GENDERS)].assign(
            masculine=lambda one: _POINTS * (one["perceived_gender"] == "masculine")
        )
        shares = usable.groupby(["identity", "position"], sort=False)["masculine"].agg(["mean", "size"]).reset_index()
        shares = shares.set_axis(["role", "place", "% masculine", "people"], axis=1)
        lines = [
            finding_mark(finding) | ({"name": _SHORT[finding.key]} if finding.key in _SHORT else {})
            for finding in findings
        ]
        return Results(
            findings=findings,
            tables=(TEXTS.table("swapped_pairs", _build_pair_table(rows)), TEXTS.table("swapped_shares", shares)),
            figures=(TEXTS.figure("swapped", pd.DataFrame(lines)),),
            notes=(describe_swapped(family_note([finding.claim for finding in findings if finding.claim], "effects")),),
        )

    def headline(self, report: StudyReport) -> str:
        return swapped_headline(report)
