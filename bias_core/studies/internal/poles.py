"""The poles of a target: the same prompt worded for men and for women, between which pictures and texts lean."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bias_core.metrics.lean_difference import mean_relative_lean_difference, relative_lean_difference_estimate
from bias_core.metrics.lean_ratio import log_amplification_estimate, mean_log_amplification
from bias_core.metrics.relative_lean import relative_lean_over_encoders, text_relative_lean
from bias_core.prompts import fix_articles
from bias_core.studies.arms.statistics import counted_sample, mean_sample
from bias_core.studies.kit.program import StudyData
from bias_core.studies.kit.types import Finding, Sample, Shot, columns, finding, lean
from bias_core.types import Estimate

GENDERS = ("male", "female")  # A, and B: positive scores lean to the first
POLES = tuple(f"worded {gender}" for gender in GENDERS)  # kinds of the pictures of poles
_NOUNS = {
    "male": {"person": "man", "people": "men", "child": "boy", "children": "boys"},
    "female": {"person": "woman", "people": "women", "child": "girl", "children": "girls"},
}
_PERSON = re.compile(r"\b(person|people|child|children)\b", re.I)
_BEFORE_NOUN = re.compile(r"^(?:.*?\bof\s+)?(?:(?:an?|the|one)\s+)?", re.I)
_NO_POLES = "its poles were not drawn"
_SAME = "No difference from the lean of the words is shown, none ruled out."


def worded(prompt: str, gender: str) -> str:
    """The prompt with its person worded as a man or a woman, once.

    >>> worded("an image of an engineer", "female"), worded("an image of a person reading", "male")
    ('an image of a female engineer', 'an image of a man reading')
    >>> worded("CEO", "male"), worded("an image of a child playing with a dollhouse", "female")
    ('male CEO', 'an image of a girl playing with a dollhouse')
    """
    text, n = _PERSON.subn(lambda match: _NOUNS[gender][match[1].lower()], prompt, count=1)
    if not n:
        before = _BEFORE_NOUN.match(prompt)
        place = before.end() if before else 0
        text = f"{prompt[:place]}{gender} {prompt[place:]}"
    return fix_articles(text)


def pole_shots(targets: Sequence[Mapping[str, str]], n: int) -> list[Shot]:
    """Pictures of every target worded for men and for women, half as many as of the target, on seeds of their own."""
    return [
        Shot(
            prompt=worded(target["prompt"], gender),
            n=max(2, math.ceil(n / 2)),
            group=kind,
            facts={"kind": kind, "pole_of": target["keyword"]},
            first_seed=n,
        )
        for target in targets
        for gender, kind in zip(GENDERS, POLES, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a target lies between its poles, as pictures and as text."""

    pictures: Estimate  # r of its pictures
    texts: float  # r of its text; nan where it has none
    difference: Estimate  # δ'
    amplification: Estimate  # α'
    sample: Sample | None = field(default=None, compare=False, repr=False)  # of δ'; None where it is undefined


def places_of(
    target: Mapping[str, str],
    rows: Mapping[str, np.ndarray],
    data: StudyData,
    words: Mapping[str, Sequence[str]],
    groups: Mapping[str, Any],
) -> Places | None:
    """Of one target, of scores averaged over the encoders; None where no pictures of its poles are there.

    ``words`` are the texts of men and of women; ``groups`` may have the prompts of ``a`` and ``b``.
    """
    frame, options = data.frame, data.settings.options
    if "pole_of" not in frame:
        return None
    parts = [(frame["kind"] == "target") & (frame["keyword"] == target["keyword"])]
    parts += [(frame["kind"] == kind) & (frame["pole_of"] == target["keyword"]) for kind in POLES]
    parts += [frame["kind"] == gender for gender in GENDERS]
    if not all(part.any() for part in parts):
        return None
    text = target[options.text_targets]
    of_texts = []
    for encoder in rows:
        sentences = data.texts([text, *(worded(text, gender) for gender in GENDERS)], encoder)
        of_words = [data.texts(words[gender], encoder) for gender in GENDERS]
        of_texts.append([*(one[None] for one in sentences), *of_words])
    readings = [[embedded[part.to_numpy()] for part in parts] for embedded in rows.values()]
    prompts = [None, None, None, groups.get("a"), groups.get("b")]
    pictures = relative_lean_over_encoders(readings, groups=prompts, confidence=data.settings.confidence)
    texts = text_relative_lean(of_texts)
    difference = relative_lean_difference_estimate(pictures, texts)
    units = [list(frame.loc[part, "unit"]) for part in parts]
    return Places(
        pictures=pictures,
        texts=texts,
        difference=difference,
        amplification=log_amplification_estimate(pictures, texts),
        sample=None if math.isnan(difference.value) else _sample(readings, units, texts),
    )


def _sample(readings: Sequence[Sequence[np.ndarray]], units: Sequence[Sequence[str]], texts: float) -> Sample:
    """What δ' was computed from: the pictures of all five sets, counted as often as a resample has them."""
    sizes = [len(names) for names in units]
    to_a, to_b = (
        [np.mean([reading[i] @ reading[side].T for reading in readings], axis=0) for i in range(3)] for side in (3, 4)
    )

    def of_counts(times: np.ndarray) -> np.ndarray:
        counts = np.split(times, np.cumsum(sizes)[:4], axis=1)
        *sides, a, b = (count / count.sum(axis=1, keepdims=True) for count in counts)
        score, pole_a, pole_b = (
            ((part @ to_a[i]) * a).sum(axis=1) - ((part @ to_b[i]) * b).sum(axis=1) for i, part in enumerate(sides)
        )
        return np.asarray((2 * score - pole_a - pole_b) / (pole_a - pole_b) - texts)

    return counted_sample([unit for part in units for unit in part], of_counts)


def place_columns(places: Places | None) -> dict[str, Any]:
    """Columns of a table: r of pictures and text, δ' and α' with intervals, and why there is no α'."""
    if places is None:
        nothing = columns("r, pictures", None) | {"r, words": math.nan} | columns("δ′", None) | columns("α′", None)
        return nothing | {"why no α′": _NO_POLES}
    return {
        **columns("r, pictures", places.pictures),
        "r, words": places.texts,
        **columns("δ′", places.difference),
        **columns("α′", places.amplification),
        "why no α′": places.amplification.note if math.isnan(places.amplification.value) else "",
    }


def target_finding(name: str, title: str, places: Places) -> Finding:
    """δ' of a target."""
    says = lean(places.difference, "Drawing moves it towards men.", "Drawing moves it towards women.", _SAME)
    if math.isnan(places.difference.value):
        says = f"Not known: {places.difference.note}."
    key = f"difference {name}"
    return finding(key, title, "relative_lean_difference", places.difference, says, sample=places.sample)


def group_findings(
    group: str, name: str, members: Mapping[str, Places | None], confidence: float
) -> tuple[dict[str, Any], list[Finding]]:
    """Mean δ' and the α' of all targets of a group, as columns of a table and as findings; nothing without poles."""
    measured = {
        keyword: (places.pictures.value, places.texts)
        for keyword, places in members.items()
        if places is not None and not math.isnan(places.difference.value)
    }
    if not measured:
        return {}, []
    pictures, texts = np.array(list(measured.values())).T
    difference = mean_relative_lean_difference(pictures, texts, confidence=confidence)
    amplification = mean_log_amplification(pictures, texts, confidence=confidence)
    keywords = list(measured)
    gains = mean_sample(keywords, pictures - texts, of="targets")

    def of_counts(times: np.ndarray) -> np.ndarray:
        ratios = (times @ (np.sign(texts) * pictures)) / (times @ np.abs(texts))
        return np.log(np.where(ratios > 0, ratios, np.nan))

    ratio = counted_sample(keywords, of_counts)
    says = lean(difference, "Drawing moves them towards men.", "Drawing moves them towards women.", _SAME)
    left_out = len(members) - len(measured)
    says += f" Targets without δ′: {left_out}." * bool(left_out)
    return columns("mean δ′", difference) | columns("α′ of all", amplification), [
        finding(f"difference {group}", f"{name}, mean δ′", "relative_lean_difference", difference, says, sample=gains),
        finding(
            f"amplification {group}", f"{name}, α′", "log_amplification", amplification, _times(amplification),
            sample=None if math.isnan(amplification.value) else ratio,
        ),
    ]  # fmt: skip


def _times(amplification: Estimate) -> str:
    if math.isnan(amplification.value):
        return f"Not known: {amplification.note}."
    strength = f"{math.exp(amplification.value):.2f} times as strongly as the words"
    clear = lean(amplification, "more", "less", "not told from as strongly")
    return f"Pictures lean {strength}: {clear}."
