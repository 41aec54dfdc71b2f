"""Internal bias: MCAS of 28 targets, and what drawing adds to the lean of their texts (δ, α)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.association import association
from bias_core.metrics.composite_association import (
    CompositeAssociation,
    composite_association,
    internal_bias,
    mean_over_encoders,
)
from bias_core.prompts import fill_template
from bias_core.studies.arms.samples import lean_sample, mean_sample
from bias_core.studies.internal.arms import compare_internal_bias
from bias_core.studies.internal.report import GROUPS, MEN, UNASSIGNED, Target, members_of, report_of
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.own_words import check_count
from bias_core.studies.kit.paper_data import read_table
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.rows import scaled, thinned
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import Design, Shot, StudySettings

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import Sample
    from bias_core.types import StoredImage

GENDERS = ("male", "female")
"""A, and B: positive scores lean to the first."""
FEWEST_TARGETS = 3  # of a side


@settings_class(frozen=True, kw_only=True)
class InternalBiasOptions(Options):
    """Which targets, and how the scores are formed."""

    targets: tuple[str, ...] = setting(
        (), "Targets", "Keywords of the targets to draw; a share of each side where empty"
    )
    encoders: tuple[str, ...] = setting(
        (), "Readers to average", "Scores are averaged over them; the reader alone where empty"
    )
    text_targets: Literal["prompt", "keyword"] = setting(
        "prompt", "Text of a target", "Its whole prompt, or the bare keyword"
    )
    variant: bool = setting(False, "Other attribute prompts", "Those that the paper used for Stable Diffusion v2")
    resample: Literal["pictures", "prompts"] = setting(
        "pictures", "What intervals resample", "prompts: whole attribute prompts, for other prompts of the kind"
    )
    minimum_text_text: float = setting(0.002, "Smallest |TT|", "Below it there is no α", ge=0, le=2)
    published_model: str = setting(
        "Stable Diffusion v2", "Published model", "Whose published numbers stand beside the findings"
    )


def internal_bias_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of the targets, and of men and women."""
    model, published = settings.options.published_model, design.data["settings"]["models"]
    if model not in published:
        raise InvalidInput(f"option published_model is one of {', '.join(published)}; got {model!r}")
    share = settings.scale**0.5
    n = scaled(design.images_per_prompt, share)
    n_attribute = scaled(design.data["settings"]["images_per_attribute"], share)
    targets = [
        Shot(prompt=target["prompt"], n=n, group="target", facts={"kind": "target", **target})
        for target in _targets(design, settings)
    ]
    attributes = [
        Shot(prompt=prompt, n=n_attribute, group=entry["gender"], facts={"kind": entry["gender"]})
        for entry in design.data["image_attributes"]
        for prompt in [entry.get("variant", entry["prompt"]) if settings.options.variant else entry["prompt"]]
    ]
    return targets + attributes


def _targets(design: Design, settings: StudySettings) -> list[dict[str, str]]:
    """The targets that the option names, in the order of the paper; else a share of each side."""
    wanted = set(settings.options.targets)
    if unknown := wanted - {target["keyword"] for target in design.data["targets"]}:
        known = ", ".join(target["keyword"] for target in design.data["targets"])
        raise InvalidInput(f"{design.name} has no target {', '.join(sorted(unknown))}; it has {known}")
    if wanted:
        return [target for target in design.data["targets"] if target["keyword"] in wanted]
    kept = [
        target
        for side in GENDERS
        for target in thinned(
            [t for t in design.data["targets"] if t["dominated"] == side],
            settings.scale**0.5,
            least=FEWEST_TARGETS,
            seed=settings.seed,
        )
    ]
    return [target for target in design.data["targets"] if target in kept]


def measure_internal_bias(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """MCAS, δ and α of every target; Tables 3 and 4 beside the published ones."""
    scores, samples = yield from _scores(design, settings, data)
    minimum = settings.options.minimum_text_text
    published = _published(design)
    found = [
        Target(
            keyword=target["keyword"],
            category=target["category"],
            dominated=target["dominated"],
            scores=scores[target["keyword"]],
            bias=internal_bias(scores[target["keyword"]], minimum_text_text=minimum, confidence=settings.confidence),
            men=_men(data, target["keyword"]),
            published=published.get(target["keyword"], {}),
        )
        for target in _targets(design, settings)
        if target["keyword"] in scores
    ]
    for group in GROUPS:
        members = members_of(found, group)
        keywords = [target.keyword for target in members]
        deltas = [target.bias.diffusion_bias.value for target in members]
        alphas = [target.bias.bias_amplification.value for target in members]
        leans = [target.scores.mcas for target in members]
        samples[f"lean {group}"] = mean_sample(keywords, leans, of="targets")
        samples[f"delta {group}"] = mean_sample(keywords, deltas, of="targets")
        samples[f"alpha {group}"] = mean_sample(keywords, alphas, of="targets")
    results = report_of(design, settings, found)
    findings = (replace(finding, sample=samples.get(finding.key)) for finding in results.findings)
    return replace(results, findings=tuple(findings))


def _scores(
    design: Design, settings: StudySettings, data: StudyData
) -> Generator[Progress, None, tuple[dict[str, CompositeAssociation], dict[str, Sample]]]:
    """Of each target the mean over the encoders, and its sample; one without pictures is left out."""
    encoders = settings.options.encoders or [settings.encoder]
    by_encoder, leans, all_rows = {}, [], {}
    for encoder in encoders:
        rows = yield from data.embed(data.frame, encoder)
        by_encoder[encoder] = _scores_by(encoder, rows, design, settings, data)
        leans.append(_leans(rows, data))
        all_rows[encoder] = rows
    targets = data.frame[data.frame["kind"] == "target"]
    data.keep(targets, lean=np.mean(leans, axis=0))
    keywords = list(by_encoder[encoders[0]])
    averaged = {
        keyword: mean_over_encoders([scores[keyword] for scores in by_encoder.values()], confidence=settings.confidence)
        for keyword in keywords
    }
    known = {target["keyword"]: target for target in _targets(design, settings)}
    return averaged, {
        f"mcas {keyword}": _sample(known[keyword], all_rows, design, settings, data) for keyword in keywords
    }


def _sample(
    target: Mapping[str, str],
    all_rows: Mapping[str, np.ndarray],
    design: Design,
    settings: StudySettings,
    data: StudyData,
) -> Sample:
    """What MCAS of a target was computed from: a mean over encoders of cosines, which texts add to."""
    frame = data.frame
    chosen = (frame["keyword"] == target["keyword"]).to_numpy()
    parts = [chosen, *((frame["kind"] == gender).to_numpy() for gender in GENDERS)]
    terms = []
    for encoder, rows in all_rows.items():
        x, a, b = (rows[part] for part in parts)
        words = [data.texts(design.data["text_attributes"][gender], encoder) for gender in GENDERS]
        lean = words[0].mean(axis=0) - words[1].mean(axis=0)
        text = data.texts([target[settings.options.text_targets]], encoder)[0]
        terms.append((x @ a.T, x @ b.T, x @ lean, a @ text, b @ text, text @ lean))
    to_a, to_b, of_targets, of_a, of_b, constant = (
        sum(term.astype(float) for term in column) / len(terms) for column in zip(*terms, strict=True)
    )
    units = [list(frame.loc[part, "unit"]) for part in parts]
    return lean_sample(
        (units[0], units[1], units[2]),
        to_a,
        to_b,
        of_targets=of_targets,
        of_a=of_a,
        of_b=of_b,
        constant=float(constant),
    )


def _leans(rows: np.ndarray, data: StudyData) -> np.ndarray:
    """How much nearer each picture of a target is to pictures of men than of women: II is their mean."""
    kinds = data.frame["kind"].to_numpy()
    return association(*(rows[kinds == kind] for kind in ("target", *GENDERS)))


def _scores_by(
    encoder: str, rows: np.ndarray, design: Design, settings: StudySettings, data: StudyData
) -> dict[str, CompositeAssociation]:
    frame = data.frame
    words = [data.texts(design.data["text_attributes"][gender], encoder) for gender in GENDERS]
    sides = [(frame["kind"] == gender).to_numpy() for gender in GENDERS]
    prompts = frame["prompt"].to_numpy(dtype=str)
    whole = settings.options.resample == "prompts"
    found = {}
    for target in _targets(design, settings):
        chosen = (frame["keyword"] == target["keyword"]).to_numpy()
        if not chosen.any():
            continue
        found[target["keyword"]] = composite_association(
            rows[chosen],
            data.texts([target[settings.options.text_targets]], encoder),
            *[rows[side] for side in sides],
            *words,
            groups_a=prompts[sides[0]] if whole else None,
            groups_b=prompts[sides[1]] if whole else None,
            confidence=settings.confidence,
            rng=settings.seed,
        )
    return found


def _men(data: StudyData, keyword: str) -> float | None:
    """Share of men in the pictures of a target; None where nobody knows what they show."""
    truths = data.truths(data.frame[data.frame["keyword"] == keyword])
    known = [truth for truth in truths if truth is not None]
    return data.services.shown(MEN, known) if len(known) == len(truths) else None


def _published(design: Design) -> dict[str, dict[str, dict[str, float]]]:
    """Table 3: keyword -> model -> measure -> value; nothing for targets of one's own."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    if "scores" not in design.data:
        return table
    for row in read_table(design.data["scores"]["file"]):
        numbers = {name: float(row[name]) for name in ("mcas", "delta", "alpha")}
        table.setdefault(row["keyword"], {})[row["model"]] = numbers
    return table


def averaged_encoders(settings: StudySettings) -> tuple[Reader, ...]:
    """Those that scores are averaged over."""
    names = settings.options.encoders or [settings.encoder]
    return tuple(Reader(role="encoder", name=name) for name in names)


def embed_by_all_ahead(data: StudyData, images: Sequence[StoredImage]) -> None:
    """Embed finished pictures by every encoder while the next are drawn."""
    for name in data.settings.options.encoders or [data.settings.encoder]:
        reader = data.encoder(name)
        data.services.embeddings.images(reader, images, lock=data.services.reading(reader))


OWN_NAME = "own-targets"
OWN_TEMPLATE = "an image of a {}"
MOST_TARGETS = 40
MOST_PICTURES = 100
_BAR = "|"
_PARTS = 3


def own_targets(text: str, *, n: int = 10, n_attribute: int = 6) -> Design:
    """The design of the study on other targets.

    Parameters
    ----------
    text : a target a line: its keyword, and after bars its prompt and the gender that people expect, both as
        wanted ("Judge | an image of a judge in court | male"); without a prompt "an image of a judge".
    n : pictures of each target.
    n_attribute : pictures of each of the eight prompts of men and women.

    Raises
    ------
    InvalidInput
        For no target, too many, the same one twice, or a line that cannot be read.

    Examples
    --------
    >>> own_targets("judge").data["targets"][0]["prompt"]
    'an image of a judge'
    """
    targets = [_target(line) for line in text.splitlines() if line.strip()]
    keywords = [target["keyword"] for target in targets]
    if not 1 <= len(targets) <= MOST_TARGETS:
        raise InvalidInput(f"write 1 to {MOST_TARGETS} targets, one a line; got {len(targets)}")
    if twice := {keyword for keyword in keywords if keywords.count(keyword) > 1}:
        raise InvalidInput(f"the same target twice: {', '.join(sorted(twice))}")
    for count in (n, n_attribute):
        check_count(count, "pictures of each prompt", 2, MOST_PICTURES)
    paper = find_design("internal-bias")
    data = {key: value for key, value in paper.data.items() if key not in ("scores", "summary")}
    data |= {"targets": targets, "settings": data["settings"] | {"images_per_attribute": n_attribute}}
    return replace(
        paper,
        name=OWN_NAME,
        title="Bias inside the model, on targets of your own",
        where="Eq. 1 to 5, with targets of your own",
        summary=f"How {', '.join(keywords)} lean between men and women as pictures and as text, and what "
        "drawing adds to what the text already leans to.",
        data=data,
        images_per_prompt=n,
        options={**paper.options, "targets": keywords},
    )


def _target(line: str) -> dict[str, str]:
    parts = [" ".join(part.split()) for part in line.split(_BAR)]
    keyword, prompt, side = [*parts, "", ""][:_PARTS]
    if len(parts) > _PARTS or not keyword or side not in ("", *GENDERS):
        raise InvalidInput(f"write a target as 'keyword | prompt | male or female', got {line.strip()!r}")
    return {
        "category": "own",
        "keyword": keyword,
        "dominated": side or UNASSIGNED,
        "prompt": prompt or fill_template(OWN_TEMPLATE, keyword),
    }


PROGRAMS = {
    "internal_bias": Program(
        shots=internal_bias_shots,
        measure=measure_internal_bias,
        readers=averaged_encoders,
        options=InternalBiasOptions,
        ahead=embed_by_all_ahead,
        compare=compare_internal_bias,
    )
}
