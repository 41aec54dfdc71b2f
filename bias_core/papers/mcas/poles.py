"""The poles of a target: the same prompt worded for men and for women, between which pictures and texts lean."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.measures.relative_association import (
    log_amplification_estimate,
    mean_log_amplification,
    mean_relative_lean_difference,
    relative_lean_difference_estimate,
    relative_lean_over_encoders,
    text_relative_lean,
)
from bias_core.prompts import fix_articles
from bias_core.study.arm_statistics import counted_sample, mean_sample
from bias_core.study.data import StudyData
from bias_core.study.setting_fields import Options, setting, settings_class
from bias_core.study.types import Finding, Sample, Shot, StudySettings, columns, finding, lean, options_in
from bias_core.types import Estimate

GENDERS = ("male", "female")  # A, and B: positive scores lean to the first
_NOUNS = {
    "male": {"person": "man", "people": "men", "child": "boy", "children": "boys"},
    "female": {"person": "woman", "people": "women", "child": "girl", "children": "girls"},
}
_PERSON = re.compile(r"\b(person|people|child|children)\b", re.I)
_BEFORE_NOUN = re.compile(r"^(?:.*?\bof\s+)?(?:(?:an?|the|one)\s+)?", re.I)
_TARGET = "target"  # kind of the pictures of targets
_NO_POLES = "its poles were not drawn"
_SAME = "No difference from the lean of the words is shown, none ruled out."


@settings_class(frozen=True, kw_only=True)
class InternalBiasOptions(Options):
    """Which targets, and how the scores are formed."""

    targets: tuple[str, ...] = setting(
        (), "Targets", "Keywords of the targets to draw; a share of each side where empty"
    )
    encoders: tuple[str, ...] = setting(
        (), "Readers to average", "Scores are averaged over them; the reader alone where empty"
    )
    words_a: tuple[str, ...] = setting(
        (),
        "Words of A",
        "In place of those for men, such as old, aged; the first names the side and words its pictures",
    )
    words_b: tuple[str, ...] = setting((), "Words of B", "In place of those for women, such as young, youthful")
    prompts_a: tuple[str, ...] = setting(
        (), "Prompts of A", "Of its pictures; where empty an image of a ... person with each of its words"
    )
    prompts_b: tuple[str, ...] = setting((), "Prompts of B", "Likewise")
    text_targets: Literal["prompt", "keyword"] = setting(
        "prompt", "Text of a target", "Its whole prompt, or the bare keyword"
    )
    variant: bool = setting(False, "Other attribute prompts", "Those that the paper used for Stable Diffusion v2")
    resample: Literal["pictures", "prompts"] = setting(
        "pictures", "What intervals resample", "prompts: whole attribute prompts, for other prompts of the kind"
    )
    poles: bool = setting(
        True, "Own poles", "Also draw every target worded for men and for women: the ends of the scale of δ′ and α′"
    )
    minimum_text_text: float = setting(
        0.002,
        "Smallest |TT|",
        "Below it there is no α; 0: α at any TT, as the paper has it, marked below 0.002",
        ge=0,
        le=2,
    )
    published_model: str = setting(
        "Stable Diffusion v2", "Published model", "Whose published numbers stand beside the findings"
    )


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A, to which positive scores lean, and B."""

    names: tuple[str, str]  # kinds of their pictures, and the words that word a target for them
    called: tuple[str, str]  # in sentences

    @property
    def poles(self) -> tuple[str, str]:
        """Kinds of the pictures of targets worded for A and for B."""
        a, b = self.names
        return f"worded {a}", f"worded {b}"


def sides_of(settings: StudySettings) -> Sides:
    """Men and women, or the sides that words of one's own name first; InvalidInput for one side alone."""
    options = options_in(settings, InternalBiasOptions)
    own = options.words_a, options.words_b
    if not any(own) and not options.prompts_a and not options.prompts_b:
        return Sides(names=GENDERS, called=("men", "women"))
    if not all(own):
        raise InvalidInput("attributes of your own need words of both sides: fill in *Words of A* and *Words of B*")
    a, b = (" ".join(words[0].split()) for words in own)
    if not a or not b or a == b or _TARGET in (a, b):
        raise InvalidInput(f"the first words of the two sides name them and must differ; got {a!r} and {b!r}")
    return Sides(names=(a, b), called=(a, b))


def worded(prompt: str, side: str) -> str:
    """The prompt with its person worded as a man or a woman, or as another side, once.

    >>> worded("an image of an engineer", "female"), worded("an image of a person reading", "male")
    ('an image of a female engineer', 'an image of a man reading')
    >>> worded("CEO", "male"), worded("an image of a child playing with a dollhouse", "female")
    ('male CEO', 'an image of a girl playing with a dollhouse')
    >>> worded("an image of an engineer", "old"), worded("an image of a person reading", "young")
    ('an image of an old engineer', 'an image of a young person reading')
    """
    text, n = prompt, 0
    if side in _NOUNS:
        text, n = _PERSON.subn(lambda match: _NOUNS[side][match[1].lower()], prompt, count=1)
    if not n:
        before = _BEFORE_NOUN.match(prompt)
        place = before.end() if before else 0
        text = f"{prompt[:place]}{side} {prompt[place:]}"
    return fix_articles(text)


def pole_shots(targets: Sequence[Mapping[str, str]], n: int, sides: Sides) -> list[Shot]:
    """Pictures of every target worded for either side, half as many as of the target, on seeds of their own."""
    return [
        Shot(
            prompt=worded(target["prompt"], side),
            n=max(2, math.ceil(n / 2)),
            group=kind,
            facts={"kind": kind, "pole_of": target["keyword"]},
            first_seed=n,
        )
        for target in targets
        for side, kind in zip(sides.names, sides.poles, strict=True)
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

    ``words`` are the texts of the two sides; ``groups`` may have the prompts of ``a`` and ``b``.
    """
    frame, options = data.frame, options_in(data.settings, InternalBiasOptions)
    sides = sides_of(data.settings)
    if "pole_of" not in frame:
        return None
    parts = [(frame["kind"] == "target") & (frame["keyword"] == target["keyword"])]
    parts += [(frame["kind"] == kind) & (frame["pole_of"] == target["keyword"]) for kind in sides.poles]
    parts += [frame["kind"] == side for side in sides.names]
    if not all(part.any() for part in parts):
        return None
    text = target[options.text_targets]
    of_texts = []
    for encoder in rows:
        sentences = data.texts([text, *(worded(text, side) for side in sides.names)], encoder)
        of_words = [data.texts(words[side], encoder) for side in sides.names]
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


def target_finding(name: str, title: str, places: Places, sides: Sides) -> Finding:
    """δ' of a target."""
    a, b = sides.called
    says = lean(places.difference, f"Drawing moves it towards {a}.", f"Drawing moves it towards {b}.", _SAME)
    if math.isnan(places.difference.value):
        says = f"Not known: {places.difference.note}."
    key = f"difference {name}"
    return finding(key, title, "relative_lean_difference", places.difference, says, sample=places.sample)


def group_findings(
    group: str, name: str, members: Mapping[str, Places | None], sides: Sides, confidence: float
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
    a, b = sides.called
    says = lean(difference, f"Drawing moves them towards {a}.", f"Drawing moves them towards {b}.", _SAME)
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
