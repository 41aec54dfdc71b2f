"""The options of the study, the positions of targets between their poles, and the report.

A target's poles are its prompt worded for men and for women; its pictures and texts lie between them. Shift δ′ and
amplification α′ come first, then the paper's MCAS, δ and α.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from bias_core.errors import InvalidInput
from bias_core.measures.composite_association import (
    MINIMUM_TEXT_TEXT,
    CompositeAssociation,
    InternalBias,
    summarise_internal_bias,
)
from bias_core.measures.intervals import mean_interval
from bias_core.measures.relative_association import (
    log_amplification_estimate,
    mean_log_amplification,
    mean_relative_lean_difference,
    relative_lean_difference_estimate,
    relative_lean_over_encoders,
    text_relative_lean,
)
from bias_core.prompts import fix_articles
from bias_core.report.arm_comparison import (
    ARM,
    counted_sample,
    lines_together,
    marks_over_arms,
    mean_sample,
    ranks_over_arms,
    sets_sample,
    table_over_arms,
)
from bias_core.report.claims import (
    NO_CLAIM,
    claim_columns,
    decide_claims,
    family_note,
    p_words,
    require_units,
    without_fixed_n,
)
from bias_core.report.report_text import get_table
from bias_core.run.study_run import Run
from bias_core.study.design import ReportTexts
from bias_core.study.types import (
    ArmReport,
    Claim,
    Design,
    Finding,
    Results,
    Sample,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    drawable,
    finding,
    get_options,
    mark,
    or_nan,
    point,
)
from bias_core.types import Estimate
from bias_core.values import Options, setting, settings_class
from bias_core.wording import format_estimate, format_list, format_number, state_p

GENDERS = ("male", "female")  # A and B: positive scores mean A
_NOUNS = {
    "male": {"person": "man", "people": "men", "child": "boy", "children": "boys"},
    "female": {"person": "woman", "people": "women", "child": "girl", "children": "girls"},
}
_PERSON = re.compile(r"\b(person|people|child|children)\b", re.I)
_BEFORE_NOUN = re.compile(r"^(?:.*?\bof\s+)?(?:(?:an?|the|one)\s+)?", re.I)
_TARGET = "target"  # kind of the pictures of targets
_NO_POLES = "its poles were not drawn"
_TOO_FEW = "Too few pictures to tell."


@settings_class(frozen=True, kw_only=True)
class InternalBiasOptions(Options):
    targets: tuple[str, ...] = setting((), "Targets", "Keywords of the targets to draw (default: a share of each side)")
    encoders: tuple[str, ...] = setting(
        (), "Encoders to average", "Encoders to average scores over (default: the encoder alone)"
    )
    words_a: tuple[str, ...] = setting(
        (),
        "Words of A",
        "Words that replace those for men, such as old, aged; the first names the side and its pictures",
    )
    words_b: tuple[str, ...] = setting((), "Words of B", "Words that replace those for women, such as young, youthful")
    prompts_a: tuple[str, ...] = setting(
        (), "Prompts of A", "Prompts of A's pictures (default: an image of a ... person with each of its words)"
    )
    prompts_b: tuple[str, ...] = setting(
        (), "Prompts of B", "Prompts of B's pictures (default: an image of a ... person with each of its words)"
    )
    text_targets: Literal["prompt", "keyword"] = setting(
        "prompt", "Text of a target", "Text of a target for the scores: its whole prompt, or the keyword alone"
    )
    variant: bool = setting(
        False, "Other attribute prompts", "Use the attribute prompts that the paper used for Stable Diffusion v2"
    )
    resample: Literal["pictures", "prompts"] = setting(
        "pictures", "Units of intervals", "Units that intervals resample: pictures, or whole attribute prompts"
    )
    poles: bool = setting(
        True, "Poles", "Also draw every target worded for men and for women, the two ends of the scale of δ′ and α′"
    )
    minimum_text_text: float = setting(
        0.002,
        "Smallest |TT|",
        "α is given if the association of the words, |TT|, is at least this; 0: always, as in the paper",
        ge=0,
        le=2,
    )
    published_model: str = setting(
        "Stable Diffusion v2", "Model in the paper", "Model whose numbers in the paper are shown for comparison"
    )


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Side A (positive scores) and side B."""

    names: tuple[str, str]  # kinds of their pictures, and words for a target's prompt
    called: tuple[str, str]  # in sentences

    @property
    def poles(self) -> tuple[str, str]:
        """Kinds of the pictures of targets worded for A and for B."""
        a, b = self.names
        return f"worded {a}", f"worded {b}"


def read_sides(settings: StudySettings) -> Sides:
    """Return men and women, or the sides that the user's words name first; InvalidInput for one side alone."""
    options = get_options(settings, InternalBiasOptions)
    own_words = options.words_a, options.words_b
    if not any(own_words) and not options.prompts_a and not options.prompts_b:
        return Sides(names=GENDERS, called=("men", "women"))
    if not all(own_words):
        raise InvalidInput("your own attributes need words for both sides: fill in *Words of A* and *Words of B*")
    a, b = (" ".join(words[0].split()) for words in own_words)
    if not a or not b or a == b or _TARGET in (a, b):
        raise InvalidInput(f"the first words of the two sides name them and must differ; got {a!r} and {b!r}")
    return Sides(names=(a, b), called=(a, b))


def worded(prompt: str, side: str) -> str:
    """Return the prompt with its person worded as a man or a woman, or as another side.

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
    """Return pictures of every target worded for either side, half as many as of the target, on their own seeds."""
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
class PolePositions:
    """The position of a target between its poles, for pictures and for text."""

    pictures: Estimate  # r of its pictures
    texts: float  # r of its text; nan without one
    difference: Estimate  # δ'
    amplification: Estimate  # α'
    sample: Sample | None = field(default=None, compare=False, repr=False)  # of δ'; None if undefined


def measure_places(
    target: Mapping[str, str],
    rows: Mapping[str, np.ndarray],
    data: Run,
    words: Mapping[str, Sequence[str]],
    groups: Mapping[str, Any],
) -> PolePositions | None:
    """Return the position of a target from scores averaged over encoders; None without pictures of its poles.

    ``words`` are the texts of the two sides; ``groups`` may have the prompts of ``a`` and ``b``.
    """
    frame, options = data.frame, get_options(data.settings, InternalBiasOptions)
    sides = read_sides(data.settings)
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
        of_texts.append([*(sentence[None] for sentence in sentences), *of_words])
    readings = [[embedded[part.to_numpy()] for part in parts] for embedded in rows.values()]
    prompts = [None, None, None, groups.get("a"), groups.get("b")]
    confidence = data.settings.confidence
    texts = text_relative_lean(of_texts)
    null_value = 0.0 if math.isnan(texts) else texts
    pictures = relative_lean_over_encoders(readings, groups=prompts, null_value=null_value, confidence=confidence)
    difference = relative_lean_difference_estimate(pictures, texts, confidence=confidence)
    units = [list(frame.loc[part, "unit"]) for part in parts]
    n = int(parts[0].sum())
    pictures, difference = replace(pictures, n=n), replace(difference, n=n)  # as the headline counts: of the target
    return PolePositions(
        pictures=pictures,
        texts=texts,
        difference=require_units(difference, n),
        amplification=require_units(log_amplification_estimate(pictures, texts, confidence=confidence), n),
        sample=None if math.isnan(difference.value) else _sample(readings, units, texts),
    )


def _sample(readings: Sequence[Sequence[np.ndarray]], units: Sequence[Sequence[str]], texts: float) -> Sample:
    """Return the sample of δ′ over the pictures of all five sets: the target's, its poles', and those of both sides."""

    def difference(means: Sequence[np.ndarray]) -> np.ndarray:
        *places, a, b = means
        score, pole_a, pole_b = (((place * (a - b)).sum(axis=1)) for place in places)
        apart = np.where(pole_a > pole_b, pole_a - pole_b, np.nan)
        return np.asarray((2 * score - pole_a - pole_b) / apart - texts)

    return sets_sample(units, side_by_side(readings), difference)


def side_by_side(readings: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Return each set of embeddings by all encoders together, ``(n, d)``: its cosines are their means over encoders.

    >>> side_by_side([[np.array([[1.0]])], [np.array([[0.6, 0.8]])]])[0].round(3)
    array([[0.707, 0.424, 0.566]])
    """
    return [np.hstack(rows) / math.sqrt(len(readings)) for rows in zip(*readings, strict=True)]


def place_columns(places: PolePositions | None) -> dict[str, Any]:
    """Return table columns: r of pictures and text, δ′ and α′ with intervals, and the reason for a missing α′."""
    if places is None:
        empty_columns = (
            columns("r, pictures", None) | {"r, words": math.nan} | columns("δ′", None) | columns("α′", None)
        )
        return empty_columns | {"why no α′": _NO_POLES}
    return {
        **columns("r, pictures", places.pictures),
        "r, words": places.texts,
        **columns("δ′", places.difference),
        **columns("α′", places.amplification),
        "why no α′": places.amplification.note if math.isnan(places.amplification.value) else "",
    }


def target_finding(name: str, title: str, places: PolePositions, sides: Sides, claim: Claim) -> Finding:
    a, b = sides.called
    undefined = f"Undefined: {places.difference.note}."
    is_undefined = math.isnan(places.difference.value)
    *clear, unclear = _closer(a, b, "Its pictures", "its words are")
    unclear = _TOO_FEW if claim.verdict == "too few" else unclear
    return finding(
        f"difference {name}", title, "relative_lean_difference", places.difference, undefined * is_undefined,
        claim=claim, sample=places.sample,
        readings=() if is_undefined else (*clear, unclear),
    )  # fmt: skip


def _closer(a: str, b: str, pictures: str, words: str) -> tuple[str, str, str]:
    return (
        f"{pictures} are closer to {a} than {words}.",
        f"{pictures} are closer to {b} than {words}.",
        "No clear difference from the words.",
    )


def group_findings(
    group: str, name: str, members: Mapping[str, PolePositions | None], sides: Sides, confidence: float
) -> tuple[dict[str, Any], list[Finding]]:
    """Return mean δ′ and α′ over a group's targets, as table columns and as findings; empty without poles."""
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

    def compute_log_ratio(times: np.ndarray) -> np.ndarray:
        ratios = (times @ (np.sign(texts) * pictures)) / (times @ np.abs(texts))
        return np.log(np.where(ratios > 0, ratios, np.nan))

    ratio = counted_sample(keywords, compute_log_ratio)
    a, b = sides.called
    left_out = len(members) - len(measured)
    has_ratio = not math.isnan(amplification.value)
    return columns("mean δ′", difference) | columns("α′ of all", amplification), [
        finding(
            f"difference {group}", f"{name}, mean δ′", "relative_lean_difference", difference,
            f"Targets without δ′: {left_out}." * bool(left_out), sample=gains,
            readings=_closer(a, b, "The pictures", "the words are"),
        ),
        finding(
            f"amplification {group}", f"{name}, α′", "log_amplification", amplification, _strength_words(amplification),
            sample=ratio if has_ratio else None,
            readings=("Clearly stronger.", "Clearly weaker.", "No clear difference in strength.") if has_ratio else (),
        ),
    ]  # fmt: skip


def _strength_words(amplification: Estimate) -> str:
    if math.isnan(amplification.value):
        return f"Undefined: {amplification.note}."
    strength = format_number(math.exp(amplification.value), *np.exp([amplification.low, amplification.high]))
    return f"The association of the pictures is {strength} times as strong as that of the words."


TEXTS = ReportTexts(__file__)
GROUPS = (*GENDERS, "overall")
UNASSIGNED = "unassigned"  # side of the user's target without an expected side
# Means over the targets of a group: start of their findings' keys, and symbol.
SIGNS = {"delta": "δ", "mean_mcas": "MCAS", "alpha": "α"}
RANKED = {"difference": "δ′", "amplification": "α′"}
REPAIRED = {"difference": "mean δ′", "amplification": "α′ of all"}  # columns of findings of a group
RUN = "this run"
_LEGENDS = {"male": "male-dominated", "female": "female-dominated", UNASSIGNED: "own targets"}
_FEWEST_FOR_RANKS = 4
_CANCEL = "Positive means {}; over all targets, the two sides can cancel out."


@dataclass(frozen=True, kw_only=True)
class Target:
    keyword: str
    category: str
    dominated: str  # male, female or UNASSIGNED
    scores: CompositeAssociation
    places: PolePositions | None  # between its own poles; None if these were not drawn
    bias: InternalBias
    sample: Sample  # of MCAS
    men: float | None  # true share of men, None if unknown
    published: Mapping[str, Mapping[str, float]]  # Table 3, by model: mcas, delta, alpha; empty for the user's targets

    @property
    def has_doubtful_alpha(self) -> bool:
        """True if α exists although the texts have hardly any association."""
        return not math.isnan(self.bias.bias_amplification.value) and abs(self.bias.text_text) < MINIMUM_TEXT_TEXT


def family(finding: Finding) -> str | None:
    """Return the family of a number: that of its measure, over targets or over groups of them.

    Nothing is claimed of δ and α, which have no direction and are above 0 by chance alone.
    """
    measure, _, of = finding.key.partition(" ")
    return None if measure in ("delta", "alpha") else f"{measure} {'of groups' if of in GROUPS else 'of targets'}"


def _decide(numbers: Sequence[Estimate], settings: StudySettings, *, fixed_n: bool) -> list[Claim]:
    """Return the claims on one family of numbers; undefined ones are left out of it."""
    is_defined = [not math.isnan(number.value) for number in numbers]
    tested = [number if fixed_n else without_fixed_n(number) for number in compress(numbers, is_defined)]
    claims = iter(decide_claims(tested, confidence=settings.confidence))
    return [next(claims) if defined else NO_CLAIM for defined in is_defined]


def build_results(
    design: Design, settings: StudySettings, targets: Sequence[Target], *, fixed_n: bool = True
) -> Results:
    """Return findings, tables and figures; without ``fixed_n`` nothing is tested."""
    model, sides = get_options(settings, InternalBiasOptions).published_model, read_sides(settings)
    a, b = sides.called
    members = {group: [target for target in targets if group in (target.dominated, "overall")] for group in GROUPS}
    summaries = [_summarise_group(design, settings, group, of) for group, of in members.items() if of]
    placed = [target.places for target in targets if target.places is not None]
    shifts = iter(_decide([places.difference for places in placed], settings, fixed_n=fixed_n))
    claims = [NO_CLAIM if target.places is None else next(shifts) for target in targets]
    of_mcas = _decide([target.scores.mcas_interval for target in targets], settings, fixed_n=fixed_n)
    has_shift = any(not math.isnan(places.difference.value) for places in placed)
    headed, tested = (claims, "δ′") if has_shift else (of_mcas, "MCAS")
    repaired = [finding for _, findings in summaries for finding in findings if finding.key.split()[0] in REPAIRED]
    return Results(
        findings=(
            *(
                target_finding(target.keyword, f"{_title(target)}: δ′", target.places, sides, claim)
                for target, claim in zip(targets, claims, strict=True)
                if target.places is not None
            ),
            *repaired,
            *(
                finding(
                    f"mcas {target.keyword}",
                    f"{_title(target)}: MCAS",
                    "composite_association",
                    target.scores.mcas_interval,
                    claim=claim,
                    readings=(f"Closer to {a}.", f"Closer to {b}.", _give_reason(claim)),
                    published=_mcas(target, model),
                    sample=target.sample,
                )
                for target, claim in zip(targets, of_mcas, strict=True)
            ),
            *(finding for _, findings in summaries for finding in findings if finding not in repaired),
        ),
        tables=(
            TEXTS.table(
                "table3",
                [_row(target, claim, tested) for target, claim in zip(targets, headed, strict=True)],
                a=a,
                b=b,
                clear=family_note(headed, f"numbers {tested}"),
            ),
            TEXTS.table("scores", [row for target in targets for row in _score_rows(target, f"{a} and {b}")]),
            TEXTS.table("table4", [*(row for row, _ in summaries), *_printed_rows(design, sides.names)]),
        ),
        figures=drawable(_figures(targets, model, sides.called)),
        notes=_notes(design, targets),
    )


def _give_reason(claim: Claim) -> str:
    return _TOO_FEW if claim.verdict == "too few" else "No clear association with either side."


def _title(target: Target) -> str:
    return target.keyword + f" ({_LEGENDS[target.dominated]})" * (target.dominated != UNASSIGNED)


def _mcas(target: Target, model: str) -> float | None:
    return target.published.get(model, {}).get("mcas")


def _row(target: Target, claim: Claim, tested: str) -> dict[str, Any]:
    """Return the line of Table 3 of a target, with the claim on the ``tested`` number, δ′ or MCAS."""
    scores, bias = target.scores, target.bias
    shift = None if target.places is None else target.places.difference
    number = scores.mcas_interval if tested == "MCAS" or shift is None else shift
    row: dict[str, Any] = {
        "type": target.category,
        "target": target.keyword,
        "dominated": target.dominated,
        **place_columns(target.places),
        **columns("MCAS", scores.mcas_interval),
        **claim_columns(number, claim),
        **columns("δ", bias.diffusion_bias),
        **columns("α", bias.bias_amplification),
        "why no α": bias.bias_amplification.note if math.isnan(bias.bias_amplification.value) else "",
        "why doubt α": bias.bias_amplification.note if target.has_doubtful_alpha else "",
        "TT": scores.text_text,
        "II": scores.image_image,
        "ITP": scores.image_prompt,
        "IT": scores.image_text,
        **columns("II − TT", bias.signed_difference),
        "n": scores.n_units[0],
        "men": or_nan(target.men),
    }
    for model, values in target.published.items():
        row |= {f"{model} {sign}": values[key] for key, sign in {"mcas": "MCAS", "delta": "δ", "alpha": "α"}.items()}
    return row


def _score_rows(target: Target, both_sides: str) -> list[dict[str, Any]]:
    scores, words, pictures = target.scores, f"words for {both_sides}", f"pictures of {both_sides}"
    n_target, n_men, n_women = scores.n_units
    text = Estimate(value=scores.text_text, low=math.nan, high=math.nan, n=0, null_value=0.0)
    return [
        {
            "target": target.keyword,
            "score": name,
            "of": of,
            "against": reference,
            **columns("value", estimate, ends=""),
            "n": n,
        }
        for name, of, reference, estimate, n in (
            ("TT", "text of the target", words, text, 0),
            ("ITP", "text of the target", pictures, scores.image_prompt_interval, n_men + n_women),
            ("IT", "pictures of the target", words, scores.image_text_interval, n_target),
            ("II", "pictures of the target", pictures, scores.image_image_interval, sum(scores.n_units)),
        )
    ]


def _summarise_group(
    design: Design, settings: StudySettings, group: str, members: Sequence[Target]
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the line of Table 4 of a group of targets, and its findings."""
    sides = read_sides(settings)
    values = {
        "delta": [member.bias.diffusion_bias.value for member in members],
        "mean_mcas": [member.scores.mcas for member in members],
        "alpha": [member.bias.bias_amplification.value for member in members],
    }
    summary = summarise_internal_bias(values["delta"], values["alpha"], confidence=settings.confidence)
    delta, alpha = summary.diffusion_bias, summary.bias_amplification
    mean_lean = mean_interval(values["mean_mcas"], null_value=0.0, confidence=settings.confidence)
    of_paper = design.data.get("summary", {}) if sides.names == GENDERS else {}
    printed = of_paper.get(get_options(settings, InternalBiasOptions).published_model, {}).get(group, {})
    row: dict[str, Any] = {"model": RUN, "targets": group, "n": delta.n}
    for sign, mean, ends in (
        ("δ", delta, summary.diffusion_bias_range),
        ("α", alpha, summary.bias_amplification_range),
    ):
        row |= {f"{sign} min": ends[0], f"{sign} max": ends[1], **columns(f"mean {sign}", mean)}
    name = "All targets" if group == "overall" else f"{group.capitalize()}-dominated targets"
    n_doubtful = sum(member.has_doubtful_alpha for member in members)
    places = {member.keyword: member.places for member in members}
    group_columns, repaired = group_findings(group, name, places, sides, settings.confidence)
    row |= {**columns("mean MCAS", mean_lean), "no α": summary.n_undefined, **group_columns, "note": ""}
    parts = (
        ("delta", "diffusion_bias", delta, "A mean of absolute values, so it is never 0; δ′ has a direction."),
        ("mean_mcas", "composite_association", mean_lean, _CANCEL.format(sides.called[0]) * (group == "overall")),
        ("alpha", "bias_amplification", alpha, _alpha_says(summary.n_undefined, n_doubtful, printed.get("misprint"))),
    )
    a, b = sides.called
    leaning = (f"Closer to {a} on average.", f"Closer to {b} on average.", "No clear direction.")
    return row, repaired + [
        finding(
            f"{key} {group}",
            f"{name}, mean {SIGNS[key]}",
            metric,
            mean,
            says,
            published=published,
            sample=sample,
            readings=leaning if key == "mean_mcas" else (),
        )
        for key, metric, mean, says in parts
        for published in [printed.get(f"{key}_mean", [None])[0]]
        for sample in [mean_sample([member.keyword for member in members], values[key], of="targets")]
    ]


def _alpha_says(n_undefined: int, n_doubtful: int, misprint: str | None) -> str:
    says = ["A mean of absolute values, which are large where the texts’ association is near 0; α′ is tested."]
    if n_doubtful:
        says.append(f"Targets with hardly any association in the text, so that α is always large: {n_doubtful}.")
    if n_undefined:
        says.append(f"Targets without α, because their texts have hardly any association: {n_undefined}.")
    return " ".join([*says, f"Misprint in the paper, {misprint}."] if misprint else says)


def _printed_rows(design: Design, between: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the paper's Table 4; none for the user's targets or other sides."""
    summaries = design.data.get("summary", {}) if between == GENDERS else {}
    sides = [target["dominated"] for target in design.data["targets"]]
    rows = []
    for model in filter(summaries.__contains__, design.data["settings"]["models"]):
        for group, printed in summaries[model].items():
            n = len(sides) if group == "overall" else sides.count(group)
            row: dict[str, Any] = {"model": f"{model}, in the paper", "targets": group, "n": n}
            for sign, key in (("δ", "delta"), ("α", "alpha")):
                mean, spread = printed[f"{key}_mean"]
                row |= {f"{sign} min": printed[key][0], f"{sign} max": printed[key][1], f"mean {sign}": mean}
                row |= {f"mean {sign} low": mean - spread, f"mean {sign} high": mean + spread}
            rows.append(row | {"no α": 0, "note": f"misprint: {printed['misprint']}" if "misprint" in printed else ""})
    return rows


def _figures(targets: Sequence[Target], model: str, called: tuple[str, str]) -> list[StudyFigure]:
    """Return figures: associations, associations by true share, and δ against α (plain, smoothed, in the paper)."""
    leans = pd.DataFrame(
        mark(
            target.keyword,
            target.scores.mcas_interval,
            group=_LEGENDS[target.dominated],
            published=_mcas(target, model),
        )
        for target in sorted(targets, key=lambda target: [*_LEGENDS].index(target.dominated))
    )
    caption = f"Diamonds are the paper's scores of {model} with other encoders: compare directions and ranks."
    drawn = [
        point(target.men, target.scores.image_image_interval, name=target.keyword, group=_LEGENDS[target.dominated])
        for target in targets
        if target.men is not None
    ]
    biases = [(target, target.bias.diffusion_bias, target.bias.bias_amplification) for target in targets]
    biases = [(target, delta, alpha) for target, delta, alpha in biases if not math.isnan(alpha.value)]
    sides = [point(delta, alpha, group=_LEGENDS[target.dominated]) for target, delta, alpha in biases]
    placed = [
        (target, target.places)
        for target in targets
        if target.places and not math.isnan(target.places.difference.value)
    ]
    a, b = called
    return [
        TEXTS.figure(
            "places",
            [{"name": target.keyword, "start": of.texts, "end": of.pictures.value} for target, of in placed],
            a=a,
            b=b,
        ),
        TEXTS.figure(
            "difference",
            [mark(target.keyword, of.difference, group=_LEGENDS[target.dominated]) for target, of in placed],
            a=a,
            b=b,
        ),
        TEXTS.figure("mcas", leans, published=caption if leans["published"].notna().any() else "", a=a),
        TEXTS.figure("drawn", drawn),
        TEXTS.figure("figure2", sides, n_without=len(targets) - len(biases), n=len(targets)),
        TEXTS.figure(
            "figure3",
            [point(delta.value, alpha.value, name=target.keyword, group=RUN) for target, delta, alpha in biases],
        ),
        TEXTS.figure(
            "figure4",
            [
                point(of["delta"], of["alpha"], group=name)
                for target in targets
                for name, of in target.published.items()
            ],
        ),
    ]


def _notes(design: Design, targets: Sequence[Target]) -> tuple[str, ...]:
    pairs = [(target.men, target.scores.image_image) for target in targets if target.men is not None]
    notes = [
        "Every score includes the encoder's own associations: TT uses no picture at all.",
        *[note for note in design.notes if note.startswith("Table 4") and "summary" in design.data],
    ]
    if len({men for men, _ in pairs}) >= _FEWEST_FOR_RANKS:
        ranks = scipy.stats.spearmanr(*zip(*pairs, strict=True))
        notes.insert(
            0,
            f"Calibration: over {len(pairs)} targets, II and the true share of men have a rank correlation of "
            f"{ranks.statistic:.2f} (Spearman, p = {ranks.pvalue:.2g}).",
        )
    return tuple(notes)


def compare_internal_bias(settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Return Table 4 with a line and ranks per arm, and a figure with the targets of every arm."""
    marks = marks_over_arms(arms, "figure2")
    marks = marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks
    arm_table = table_over_arms(
        arms,
        "table4",
        ["targets"],
        [*REPAIRED.values(), *(f"mean {sign}" for sign in SIGNS.values()), "no α", "n"],
        {"model": RUN},
    )
    ranks: dict[tuple[str, str], dict[str, Any]] = {
        (group, arm.name): {"targets": group, ARM: arm.name} for group in GROUPS for arm in arms
    }
    for group, (key, sign) in product(GROUPS, {**RANKED, **SIGNS}.items()):
        for arm, places in zip(arms, ranks_over_arms(arms, f"{key} {group}", settings), strict=True):
            ranks[group, arm.name] |= {name.replace("rank", f"rank of {sign}"): at for name, at in places.items()}
    frame = arm_table.merge(pd.DataFrame(list(ranks.values())), on=["targets", ARM], how="left")
    printed = arms[0].results.frame("table4")
    published = printed[(printed["model"] != RUN) & printed["targets"].isin(arm_table["targets"])]
    published = published.rename(columns={"model": ARM})
    lines = lines_together(pd.concat([frame, published[[c for c in frame if c in published]]]), ["targets"])
    return Results(tables=(TEXTS.table("table4_arms", lines),), figures=drawable([TEXTS.figure("figure4_arms", marks)]))


def headline(report: StudyReport) -> str:
    """Say towards which side pictures shift each target, and if they amplify; without poles, how targets associate."""
    table = get_table(report, "table3").frame
    if table["δ′"].isna().all():
        return _headline(report, table, "MCAS", ("Text and pictures together (MCAS)", "associate", "with"))
    shifted = table.dropna(subset=["δ′"])
    says = _headline(report, shifted, "δ′", ("Compared with their prompts (δ′), pictures", "shift", "towards"))
    return f"{says} {_amplification_words(report)}".strip()


def _headline(report: StudyReport, table: pd.DataFrame, column: str, words: tuple[str, str, str]) -> str:
    """Name the targets of each side by their claims; ``words`` are a subject, its verb, and the verb's preposition."""
    if "clear" not in table:  # a report of version 0.1.0
        return ""
    (subject, verb, to), called = words, read_sides(report.settings).called
    rows = table.assign(size=table[column].abs()).sort_values("size", ascending=False, kind="stable")
    clear = rows[rows["clear"] == "yes"]
    lead = (rows if clear.empty else clear).iloc[0]
    number = format_estimate(lead[column], lead[f"{column} low"], lead[f"{column} high"], n=lead["n"])
    p = f", {state_p(lead['p adjusted'], adjusted=len(table) > 1)}" if lead["clear"] == "yes" else ""
    lead_target = f"{'Largest: ' * (len(table) > 1)}{lead['target']}"
    says = f"{lead_target}, {column} = {number}, n = {lead['n']} pictures{p}."
    if clear.empty:
        key = f"{'mcas' if column == 'MCAS' else 'difference'} {lead['target']}"
        claim = next(finding.claim for finding in report.results.findings if finding.key == key) or NO_CLAIM
        reason = f" Not clear: {claim.reason}." if claim.reason else ""
        if claim.verdict == "too few":
            return f"Too few pictures to tell which side targets {verb} {to}: {claim.reason}. {says}"
        clearly = f"{subject} of none of {len(table)} targets clearly {verb} {to} {' or '.join(called)}"
        return f"{clearly}, which does not prove that there is no bias. {says}{reason}"
    named = [clear.loc[sign * clear[column] > 0, "target"].tolist() for sign in (1, -1)]
    sides = [f"{format_list(names)} {to} {side}" for side, names in zip(called, named, strict=True) if names]
    n_rest = len(table) - len(clear)
    other_targets = "the other one" if n_rest == 1 else f"the other {n_rest}"
    ending = f"; no clear direction for {other_targets} of {len(table)}" if n_rest else ""
    return f"{subject} clearly {verb} {', and '.join(sides)}{ending}. {says}"


def _amplification_words(report: StudyReport) -> str:
    """Return α′ of all targets if something is claimed of it."""
    found = next((f for f in report.results.findings if f.key == "amplification overall"), None)
    if found is None or found.claim is None or not found.claim.is_clear:
        return ""
    alpha = found.estimate
    number = format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)
    clear = found.claim.choose("stronger", "weaker", "")
    return f"All {alpha.n} associations together are clearly {clear} (α′ = {number}, {p_words(found.claim)})."
