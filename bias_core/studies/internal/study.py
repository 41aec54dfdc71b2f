"""Internal bias: MCAS of 28 targets, and what drawing adds to the lean of their texts (δ, α)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from bias_core.errors import InvalidInput
from bias_core.metrics.association import association
from bias_core.metrics.composite_association import (
    CompositeAssociation,
    InternalBias,
    composite_association,
    internal_bias,
    mean_over_encoders,
    summarise_internal_bias,
)
from bias_core.prompts import fill_template
from bias_core.stats.effects import bootstrap_interval
from bias_core.studies.arms.statistics import (
    ARM,
    lean_sample,
    lines_together,
    marks_over_arms,
    mean_sample,
    ranks_over_arms,
    table_over_arms,
)
from bias_core.studies.kit.designs import ReportTexts, check_count, find_design, read_table
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.readers import Reader
from bias_core.studies.kit.rows import scaled, thinned
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Sample,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    drawable,
    finding,
    intervals,
    lean,
    mark,
    or_nan,
    point,
)
from bias_core.types import Estimate, StoredImage

TEXTS = ReportTexts(__file__)
GENDERS = ("male", "female")  # A, and B: positive scores lean to the first
GROUPS = (*GENDERS, "overall")
UNASSIGNED = "unassigned"  # side of a target of one's own of which nothing is claimed beforehand
# Means over the targets of a group: the beginning of the key of their findings, and their sign.
SIGNS = {"delta": "δ", "lean": "MCAS", "alpha": "α"}
RUN = "this run"
_LEGENDS = {"male": "male-dominated", "female": "female-dominated", UNASSIGNED: "own targets"}
_FEWEST_FOR_RANKS = 4
FEWEST_TARGETS = 3  # of a side
OWN_NAME = "own-targets"
MOST_TARGETS = 40
MOST_PICTURES = 100
_CANCEL = "Positive leans male; over all targets the two sides can cancel."


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was found of one target."""

    keyword: str
    category: str
    dominated: str  # male, female or UNASSIGNED
    scores: CompositeAssociation
    bias: InternalBias
    sample: Sample  # of MCAS
    men: float | None  # share of men that were drawn, None where that is not on record
    published: Mapping[str, Mapping[str, float]]  # Table 3, by model: mcas, delta, alpha; empty for one's own target


def report_of(design: Design, settings: StudySettings, targets: Sequence[Target]) -> Results:
    """Findings, tables and figures."""
    model = settings.options.published_model
    members = {group: [target for target in targets if group in (target.dominated, "overall")] for group in GROUPS}
    summaries = [_summary(design, settings, group, of) for group, of in members.items() if of]
    says = "Leans to men.", "Leans to women.", "Leans to neither side clearly."
    return Results(
        findings=(
            *(
                finding(
                    f"mcas {one.keyword}",
                    one.keyword + f" ({_LEGENDS[one.dominated]})" * (one.dominated != UNASSIGNED),
                    "composite_association",
                    one.scores.mcas_interval,
                    lean(one.scores.mcas_interval, *says),
                    published=_mcas(one, model),
                    sample=one.sample,
                )
                for one in targets
            ),
            *(one for _, findings in summaries for one in findings),
        ),
        tables=(
            TEXTS.table("table3", map(_row, targets)),
            TEXTS.table("scores", [row for target in targets for row in _score_rows(target)]),
            TEXTS.table("table4", [*(row for row, _ in summaries), *_printed_rows(design)]),
        ),
        figures=drawable(_figures(targets, model)),
        notes=_notes(design, targets),
    )


def _mcas(target: Target, model: str) -> float | None:
    return target.published.get(model, {}).get("mcas")


def _row(target: Target) -> dict[str, Any]:
    scores, bias = target.scores, target.bias
    row: dict[str, Any] = {
        "type": target.category,
        "target": target.keyword,
        "dominated": target.dominated,
        **columns("MCAS", scores.mcas_interval),
        **columns("δ", bias.diffusion_bias),
        **columns("α", bias.bias_amplification),
        "why no α": bias.bias_amplification.note if math.isnan(bias.bias_amplification.value) else "",
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


def _score_rows(target: Target) -> list[dict[str, Any]]:
    scores, words, pictures = target.scores, "gender words", "pictures of men and women"
    n_target, n_men, n_women = scores.n_units
    text = Estimate(value=scores.text_text, low=math.nan, high=math.nan, n=0, null_value=0.0)
    return [
        {"target": target.keyword, "score": name, "of": of, "against": other, **columns("value", one, ends=""), "n": n}
        for name, of, other, one, n in (
            ("TT", "text of the target", words, text, 0),
            ("ITP", "text of the target", pictures, scores.image_prompt_interval, n_men + n_women),
            ("IT", "pictures of the target", words, scores.image_text_interval, n_target),
            ("II", "pictures of the target", pictures, scores.image_image_interval, sum(scores.n_units)),
        )
    ]


def _summary(
    design: Design, settings: StudySettings, group: str, members: Sequence[Target]
) -> tuple[dict[str, Any], list[Finding]]:
    """Of a group of targets the line of Table 4, and its findings."""
    chance = intervals(settings)
    values = {
        "delta": [one.bias.diffusion_bias.value for one in members],
        "lean": [one.scores.mcas for one in members],
        "alpha": [one.bias.bias_amplification.value for one in members],
    }
    summary = summarise_internal_bias(values["delta"], values["alpha"], **chance)
    delta, alpha = summary.diffusion_bias, summary.bias_amplification
    mean_lean = bootstrap_interval(values["lean"], statistic=np.mean, null_value=0.0, **chance)
    printed = design.data.get("summary", {}).get(settings.options.published_model, {}).get(group, {})
    row: dict[str, Any] = {"model": RUN, "targets": group, "n": delta.n}
    for sign, mean, ends in (
        ("δ", delta, summary.diffusion_bias_range),
        ("α", alpha, summary.bias_amplification_range),
    ):
        row |= {f"{sign} min": ends[0], f"{sign} max": ends[1], **columns(f"mean {sign}", mean)}
    row |= {**columns("mean MCAS", mean_lean), "no α": summary.n_undefined, "note": ""}
    name = "All targets" if group == "overall" else f"{group.capitalize()}-dominated targets"
    parts = (
        ("delta", "diffusion_bias", delta, "Never below 0, so its interval cannot hold 0: see II − TT of each target."),
        ("lean", "composite_association", mean_lean, _CANCEL * (group == "overall")),
        ("alpha", "bias_amplification", alpha, _alpha_says(alpha, summary.n_undefined, printed.get("misprint"))),
    )
    return row, [
        finding(f"{key} {group}", f"{name}, mean {SIGNS[key]}", metric, mean, says, published=published, sample=sample)
        for key, metric, mean, says in parts
        for published in [printed.get(f"{key}_mean", [None])[0]]
        for sample in [mean_sample([one.keyword for one in members], values[key], of="targets")]
    ]


def _alpha_says(alpha: Estimate, n_undefined: int, misprint: str | None) -> str:
    says = []
    if alpha.low <= 1 <= alpha.high:
        says.append("Neither more nor less strongly than the texts, as far as can be told.")
    elif not math.isnan(alpha.value):
        says.append(f"On average {'more' if alpha.value > 1 else 'less'} strongly than the texts.")
    if n_undefined:
        says.append(f"Targets without α, as their texts hardly lean: {n_undefined}.")
    return " ".join([*says, f"Published misprint, {misprint}."] if misprint else says)


def _printed_rows(design: Design) -> list[dict[str, Any]]:
    """Table 4 of the paper; nothing for targets of one's own."""
    summaries, sides = design.data.get("summary", {}), [target["dominated"] for target in design.data["targets"]]
    rows = []
    for model in filter(summaries.__contains__, design.data["settings"]["models"]):
        for group, printed in summaries[model].items():
            n = len(sides) if group == "overall" else sides.count(group)
            row: dict[str, Any] = {"model": f"{model}, published", "targets": group, "n": n}
            for sign, key in (("δ", "delta"), ("α", "alpha")):
                mean, spread = printed[f"{key}_mean"]
                row |= {f"{sign} min": printed[key][0], f"{sign} max": printed[key][1], f"mean {sign}": mean}
                row |= {f"mean {sign} low": mean - spread, f"mean {sign} high": mean + spread}
            rows.append(row | {"no α": 0, "note": f"misprint: {printed['misprint']}" if "misprint" in printed else ""})
    return rows


def _figures(targets: Sequence[Target], model: str) -> list[StudyFigure]:
    """Leans, leans against what was drawn, and δ against α: as it is, smoothed, and as published."""
    leans = pd.DataFrame(
        mark(one.keyword, one.scores.mcas_interval, group=_LEGENDS[one.dominated], published=_mcas(one, model))
        for one in sorted(targets, key=lambda target: [*_LEGENDS].index(target.dominated))
    )
    others = f"Diamonds are the published scores of {model} by other encoders: compare sides and orders."
    drawn = [
        point(one.men, one.scores.image_image_interval, name=one.keyword, group=_LEGENDS[one.dominated])
        for one in targets
        if one.men is not None
    ]
    each = [(one, one.bias.diffusion_bias, one.bias.bias_amplification) for one in targets]
    each = [(one, delta, alpha) for one, delta, alpha in each if not math.isnan(alpha.value)]
    sides = [point(delta, alpha, group=_LEGENDS[one.dominated]) for one, delta, alpha in each]
    return [
        TEXTS.figure("mcas", leans, published=others if leans["published"].notna().any() else ""),
        TEXTS.figure("drawn", drawn),
        TEXTS.figure("figure2", sides, n_without=len(targets) - len(each), n=len(targets)),
        TEXTS.figure(
            "figure3", [point(delta.value, alpha.value, name=one.keyword, group=RUN) for one, delta, alpha in each]
        ),
        TEXTS.figure(
            "figure4",
            [point(of["delta"], of["alpha"], group=name) for one in targets for name, of in one.published.items()],
        ),
    ]


def _notes(design: Design, targets: Sequence[Target]) -> tuple[str, ...]:
    pairs = [(target.men, target.scores.image_image) for target in targets if target.men is not None]
    notes = [
        TEXTS.note("encoder"),
        *[note for note in design.data["notes"] if note.startswith("Table 4") and "summary" in design.data],
    ]
    if len({men for men, _ in pairs}) >= _FEWEST_FOR_RANKS:
        notes.insert(0, TEXTS.note("calibration", n=len(pairs), ranks=spearmanr(*zip(*pairs, strict=True))))
    return tuple(notes)


def compare_internal_bias(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 4 with a line and ranks per arm, and the cloud of targets of every arm."""
    marks = marks_over_arms(arms, "figure2")
    marks = marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks
    own = table_over_arms(
        arms, "table4", ["targets"], [*(f"mean {sign}" for sign in SIGNS.values()), "no α", "n"], {"model": RUN}
    )
    ranks: dict[tuple[str, str], dict[str, Any]] = {
        (group, arm.name): {"targets": group, ARM: arm.name} for group in GROUPS for arm in arms
    }
    for group, (key, sign) in product(GROUPS, SIGNS.items()):
        for arm, places in zip(arms, ranks_over_arms(arms, f"{key} {group}", settings), strict=True):
            ranks[group, arm.name] |= {name.replace("rank", f"rank of {sign}"): at for name, at in places.items()}
    frame = own.merge(pd.DataFrame(list(ranks.values())), on=["targets", ARM], how="left")
    printed = arms[0].results.frame("table4")
    published = printed[(printed["model"] != RUN) & printed["targets"].isin(own["targets"])]
    published = published.rename(columns={"model": ARM})
    lines = lines_together(pd.concat([frame, published[[c for c in frame if c in published]]]), ["targets"])
    return Results(tables=(TEXTS.table("table4_arms", lines),), figures=drawable([TEXTS.figure("figure4_arms", marks)]))


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
    n, n_attribute = (
        scaled(number, settings.scale**0.5)
        for number in (design.images_per_prompt, design.data["settings"]["images_per_attribute"])
    )
    return [
        Shot(prompt=target["prompt"], n=n, group="target", facts={"kind": "target", **target})
        for target in _targets(design, settings)
    ] + [
        Shot(prompt=prompt, n=n_attribute, group=entry["gender"], facts={"kind": entry["gender"]})
        for entry in design.data["image_attributes"]
        for prompt in [entry.get("variant", entry["prompt"]) if settings.options.variant else entry["prompt"]]
    ]


def _targets(design: Design, settings: StudySettings) -> list[dict[str, str]]:
    """The targets that the option names, in the order of the paper; else a share of each side."""
    every, names = design.data["targets"], set(settings.options.targets)
    if unknown := names - {target["keyword"] for target in every}:
        all_names = ", ".join(target["keyword"] for target in every)
        raise InvalidInput(f"{design.name} has no target {', '.join(sorted(unknown))}; it has {all_names}")
    if names:
        return [target for target in every if target["keyword"] in names]
    selection = []
    for gender in GENDERS:
        side = [target for target in every if target["dominated"] == gender]
        selection += thinned(side, settings.scale**0.5, least=FEWEST_TARGETS, seed=settings.seed)
    return [target for target in every if target in selection]


def measure_internal_bias(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """MCAS, δ and α of every target; Tables 3 and 4 beside the published ones."""
    rows = {}
    for reader in averaged_encoders(settings):
        rows[reader.name] = yield from data.embed(data.frame, reader.name)
    printed: dict[str, dict[str, dict[str, float]]] = {}  # Table 3: keyword, model and measure; none of own targets
    for row in read_table(design.data["scores"]["file"]) if "scores" in design.data else ():
        printed.setdefault(row["keyword"], {})[row["model"]] = {
            name: float(row[name]) for name in ("mcas", "delta", "alpha")
        }
    targets = [
        _measured(target, rows, design, settings, data, printed.get(target["keyword"], {}))
        for target in _targets(design, settings)
        if (data.frame["keyword"] == target["keyword"]).any()
    ]
    kinds = data.frame["kind"].to_numpy()
    leans = [association(*(each[kinds == kind] for kind in ("target", *GENDERS))) for each in rows.values()]
    data.keep(data.frame[kinds == "target"], lean=np.mean(leans, axis=0))  # II is the mean of these
    return report_of(design, settings, targets)


def _measured(
    target: Mapping[str, str],
    rows: Mapping[str, np.ndarray],
    design: Design,
    settings: StudySettings,
    data: StudyData,
    published: Mapping[str, Mapping[str, float]],
) -> Target:
    """The mean over the encoders, and what MCAS was computed from: means of cosines, which texts add to."""
    frame, options, confidence = data.frame, settings.options, settings.confidence
    parts = [frame["keyword"] == target["keyword"], *(frame["kind"] == gender for gender in GENDERS)]
    more: dict[str, Any] = {"confidence": confidence, "rng": settings.seed}
    if options.resample == "prompts":
        more |= {f"groups_{side}": frame.loc[part, "prompt"] for side, part in zip("ab", parts[1:], strict=True)}
    scores, terms = [], []
    for encoder, embedded in rows.items():
        x, a, b = (embedded[part] for part in parts)
        text = data.texts([target[options.text_targets]], encoder)
        words = [data.texts(design.data["text_attributes"][gender], encoder) for gender in GENDERS]
        scores.append(composite_association(x, text, a, b, *words, **more))
        lean = words[0].mean(axis=0) - words[1].mean(axis=0)
        terms.append((x @ a.T, x @ b.T, x @ lean, a @ text[0], b @ text[0], text[0] @ lean))
    to_a, to_b, of_targets, of_a, of_b, constant = (
        sum(term.astype(float) for term in column) / len(terms) for column in zip(*terms, strict=True)
    )
    x_units, a_units, b_units = (list(frame.loc[part, "unit"]) for part in parts)
    sums: dict[str, Any] = {"of_targets": of_targets, "of_a": of_a, "of_b": of_b, "constant": float(constant)}
    mean = mean_over_encoders(scores, confidence=confidence)
    truths = data.truths(frame[parts[0]])
    on_record = [truth for truth in truths if truth is not None]
    return Target(
        **{name: target[name] for name in ("keyword", "category", "dominated")},
        scores=mean,
        bias=internal_bias(mean, minimum_text_text=options.minimum_text_text, confidence=confidence),
        sample=lean_sample((x_units, a_units, b_units), to_a, to_b, **sums),
        men=data.services.shown("a photo of a man", on_record) if len(on_record) == len(truths) else None,
        published=published,
    )


def averaged_encoders(settings: StudySettings) -> tuple[Reader, ...]:
    """Those that scores are averaged over."""
    return tuple(Reader(role="encoder", name=name) for name in settings.options.encoders or [settings.encoder])


def embed_by_all_ahead(data: StudyData, images: Sequence[StoredImage]) -> None:
    """Embed finished pictures by every encoder while the next are drawn."""
    for reader in averaged_encoders(data.settings):
        encoder = data.encoder(reader.name)
        data.services.embeddings.images(encoder, images, lock=data.services.reading(encoder))


def own_targets(text: str, *, n: int = 10, n_attribute: int = 6) -> Design:
    """The design of the study on other targets, with ``n`` pictures of each and ``n_attribute`` of each other prompt.

    A line has a target's keyword, and after bars its prompt and the gender that people expect, both as wanted
    ("Judge | an image of a judge in court | male"); without a prompt it is "an image of a judge".

    InvalidInput for no target, too many, the same one twice, or a line that cannot be read.

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
        protocol={},
        our_reading=(),
    )


def _target(line: str) -> dict[str, str]:
    parts = [" ".join(part.split()) for part in line.split("|")]
    keyword, prompt, side = [*parts, "", ""][:3]
    if len(parts) > 3 or not keyword or side not in ("", *GENDERS):
        raise InvalidInput(f"write a target as 'keyword | prompt | male or female', got {line.strip()!r}")
    prompt = prompt or fill_template("an image of a {}", keyword)
    return {"category": "own", "keyword": keyword, "dominated": side or UNASSIGNED, "prompt": prompt}


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
