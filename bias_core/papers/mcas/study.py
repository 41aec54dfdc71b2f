"""Internal bias: the shift from 28 targets' texts to their pictures (δ′, α′), and the paper's MCAS, δ and α."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.measures.association import association
from bias_core.measures.composite_association import composite_association, internal_bias, mean_over_encoders
from bias_core.measures.intervals import FEWEST_DRAWN
from bias_core.papers.mcas.report import (
    GENDERS,
    UNASSIGNED,
    InternalBiasOptions,
    Target,
    build_results,
    compare_internal_bias,
    family,
    headline,
    measure_places,
    pole_shots,
    read_sides,
    side_by_side,
)
from bias_core.prompts import fill_template
from bias_core.report.arm_comparison import sets_sample
from bias_core.run.image_rows import scaled, thinned
from bias_core.run.study_run import Run
from bias_core.study.classifiers import Reader
from bias_core.study.design import check_count, find_design, read_study_table
from bias_core.study.study import Measuring, RunSize, Study
from bias_core.study.types import ArmReport, Design, Finding, Results, Shot, StudyReport, StudySettings, get_options
from bias_core.wording import format_list

FEWEST_TARGETS = 3  # of a side
OWN_NAME = "own-targets"
MOST_TARGETS = 40
_KINDS, _FEW_TARGETS = ("occupation", "sport", "object", "scene"), 3  # of the paper; those that a summary lists
MOST_PICTURES = 100


def _attribute_prompts(design: Design, settings: StudySettings) -> dict[str, list[str]]:
    options, sides = get_options(settings, InternalBiasOptions), read_sides(settings)
    if sides.names != GENDERS:
        own_prompts = (options.prompts_a, options.words_a), (options.prompts_b, options.words_b)
        return {
            side: list(prompts) or [fill_template("an image of a {} person", word) for word in words]
            for side, (prompts, words) in zip(sides.names, own_prompts, strict=True)
        }
    prompts: dict[str, list[str]] = {side: [] for side in sides.names}
    for entry in design.data["image_attributes"]:
        prompts[entry["gender"]].append(entry.get("variant", entry["prompt"]) if options.variant else entry["prompt"])
    return prompts


def _attribute_words(design: Design, settings: StudySettings) -> dict[str, Sequence[str]]:
    options, sides = get_options(settings, InternalBiasOptions), read_sides(settings)
    given = design.data["text_attributes"]
    words = [given[side] for side in GENDERS] if sides.names == GENDERS else [options.words_a, options.words_b]
    return dict(zip(sides.names, words, strict=True))


def _targets(design: Design, settings: StudySettings) -> list[dict[str, str]]:
    """Return the targets that the option names, in the paper's order; else a share of each side.

    With the user's own sides, targets have no expected side.
    """
    chosen = _select_targets(design, settings)
    if read_sides(settings).names == GENDERS:
        return chosen
    return [{**target, "dominated": UNASSIGNED} for target in chosen]


def _select_targets(design: Design, settings: StudySettings) -> list[dict[str, str]]:
    every, names = design.data["targets"], set(get_options(settings, InternalBiasOptions).targets)
    if unknown := names - {target["keyword"] for target in every}:
        all_names = ", ".join(target["keyword"] for target in every)
        raise InvalidInput(f"{design.name} has no target {', '.join(sorted(unknown))}; it has {all_names}")
    if names:
        return [target for target in every if target["keyword"] in names]
    selection = []
    for gender in GENDERS:
        side = [target for target in every if target["dominated"] == gender]
        selection += thinned(side, settings.scale, minimum=FEWEST_TARGETS, seed=settings.seed)
    return [target for target in every if target in selection]


def _measure_target(
    target: Mapping[str, str],
    rows: Mapping[str, np.ndarray],
    design: Design,
    settings: StudySettings,
    data: Run,
    published: Mapping[str, Mapping[str, float]],
) -> Target:
    """The mean over the encoders, and the inputs of MCAS: means of cosines, including those of texts."""
    frame, options, confidence = data.frame, get_options(settings, InternalBiasOptions), settings.confidence
    sides = read_sides(settings)
    parts = [frame["keyword"] == target["keyword"], *(frame["kind"] == side for side in sides.names)]
    score_options: dict[str, Any] = {"confidence": confidence, "rng": settings.seed}
    if options.resample == "prompts":
        score_options |= {
            f"groups_{side}": frame.loc[part, "prompt"] for side, part in zip("ab", parts[1:], strict=True)
        }
    words_of = _attribute_words(design, settings)
    groups = {side: score_options[f"groups_{side}"] for side in "ab" if f"groups_{side}" in score_options}
    scores, readings = [], []
    for encoder, embedded in rows.items():
        x, a, b = (embedded[part] for part in parts)
        text = data.texts([target[options.text_targets]], encoder)
        words = [data.texts(of_side, encoder) for of_side in words_of.values()]
        scores.append(composite_association(x, text, a, b, *words, **score_options))
        readings.append((x, a, b, text, words[0].mean(axis=0)[None] - words[1].mean(axis=0)))
    *pictures, text_rows, lean = side_by_side(readings)

    def mcas(means: Sequence[np.ndarray]) -> np.ndarray:
        of_x, of_a, of_b = means
        return np.asarray(((of_x + text_rows) * (of_a - of_b + lean)).sum(axis=1))

    mean = mean_over_encoders(scores, confidence=confidence)
    truths = data.truths(frame[parts[0]])
    on_record = [truth for truth in truths if truth is not None and sides.names == GENDERS]
    return Target(
        **{name: target[name] for name in ("keyword", "category", "dominated")},
        scores=mean,
        places=measure_places(target, rows, data, words_of, groups),
        bias=internal_bias(mean, minimum_text_text=options.minimum_text_text, confidence=confidence),
        sample=sets_sample([list(frame.loc[part, "unit"]) for part in parts], pictures, mcas),
        men=data.services.share_shown("a photo of a man", on_record)
        if on_record and len(on_record) == len(truths)
        else None,
        published=published,
    )


def averaged_encoders(settings: StudySettings) -> tuple[Reader, ...]:
    names = get_options(settings, InternalBiasOptions).encoders or [settings.encoder]
    return tuple(Reader(role="encoder", name=name) for name in names)


def own_targets(text: str, *, n: int = 10, n_attribute: int = 6) -> Design:
    """Return the study's design for other targets, with ``n`` pictures of each and ``n_attribute`` of other prompts.

    A line has a target's keyword, then optionally its prompt and the expected gender, separated by bars
    ("Judge | an image of a judge in court | male"); the default prompt is "an image of a judge".

    InvalidInput for no target, too many, the same one twice, or an invalid line.

    >>> own_targets("judge").data["targets"][0]["prompt"]
    'an image of a judge'
    """
    targets = [_parse_target(line) for line in text.splitlines() if line.strip()]
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
        title="Bias inside the model, for your own targets",
        where="Eq. 1 to 5, with your own targets",
        data=data,
        images_per_prompt=n,
        options={**paper.options, "targets": keywords},
        protocol={},
        our_reading=(),
    )


def _parse_target(line: str) -> dict[str, str]:
    parts = [" ".join(part.split()) for part in line.split("|")]
    keyword, prompt, side = [*parts, "", ""][:3]
    if len(parts) > 3 or not keyword or side not in ("", *GENDERS):
        raise InvalidInput(f"write a target as 'keyword | prompt | male or female', got {line.strip()!r}")
    prompt = prompt or fill_template("an image of a {}", keyword)
    return {"category": "own", "keyword": keyword, "dominated": side or UNASSIGNED, "prompt": prompt}


class InternalBiasStudy(Study):
    """MCAS, diffusion bias and bias amplification."""

    kind = "internal_bias"
    options = InternalBiasOptions
    fewest_when_stopped = 1

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return the targets, the two sides and the scores."""
        targets, sides = _targets(self.design, settings), read_sides(settings)
        kinds = [f"{kind}s" for kind in _KINDS if any(target["category"] == kind for target in targets)]
        drawn = format_list([f"“{target['keyword']}”" for target in targets], last=" and ")
        if len(targets) > _FEW_TARGETS and kinds:
            drawn = f"{len(targets)} {' and '.join(filter(None, (', '.join(kinds[:-1]), kinds[-1])))}"
        scores = "the paper's scores (MCAS, δ, α)"
        if get_options(settings, InternalBiasOptions).poles:
            scores = f"shift and amplification (δ′, α′), and {scores}"
        words = dict(zip(("side_a", "side_b"), sides.called, strict=True)) | {"drawn_targets": drawn, "scores": scores}
        if sides.names != GENDERS:
            words["wording"] = f"pictures of {' and '.join(sides.called)} instead of men and women"
        return words

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures of the targets, and of men and women."""
        options = get_options(settings, InternalBiasOptions)
        model, published = options.published_model, self.design.data["settings"]["models"]
        if model not in published:
            raise InvalidInput(f"the model in the paper is one of {', '.join(published)}; got {model!r}")
        n = scaled(
            self.design.images_per_prompt, settings.scale**0.5, minimum=2 * FEWEST_DRAWN
        )  # and half for each pole
        n_attribute = scaled(self.design.data["settings"]["images_per_attribute"], settings.scale**0.5)
        targets = _targets(self.design, settings)
        sides = read_sides(settings)
        shots = [
            Shot(prompt=target["prompt"], n=n, group="target", facts={"kind": "target", **target}) for target in targets
        ] + [
            Shot(prompt=prompt, n=n_attribute, group=side, facts={"kind": side})
            for side, prompts in _attribute_prompts(self.design, settings).items()
            for prompt in prompts
        ]
        return shots + pole_shots(targets, n, sides) if options.poles else shots

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure δ′, α′, MCAS, δ and α of every target; Tables 3 and 4 next to the paper's."""
        rows = {}
        for reader in averaged_encoders(settings):
            rows[reader.name] = yield from data.embed(data.frame, reader.name)
        printed: dict[str, dict[str, dict[str, float]]] = {}  # Table 3: keyword, model and measure; none of own targets
        sides = read_sides(settings)
        has_printed = "scores" in self.design.data and sides.names == GENDERS
        for row in read_study_table(self.design.data["scores"]["file"]) if has_printed else ():
            printed.setdefault(row["keyword"], {})[row["model"]] = {
                name: float(row[name]) for name in ("mcas", "delta", "alpha")
            }
        targets = [
            _measure_target(target, rows, self.design, settings, data, printed.get(target["keyword"], {}))
            for target in _targets(self.design, settings)
            if (data.frame["keyword"] == target["keyword"]).any()
        ]
        kinds = data.frame["kind"].to_numpy()
        leans = [
            association(*(embeddings[kinds == kind] for kind in ("target", *sides.names)))
            for embeddings in rows.values()
        ]
        data.keep(data.frame[kinds == "target"], margin=np.mean(leans, axis=0))  # II is the mean of these
        return build_results(self.design, settings, targets, fixed_n=data.fixed_n)

    def readers(self, settings: StudySettings) -> Sequence[Reader]:
        return averaged_encoders(settings)

    def compare(self, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the paper's table over arms."""
        return compare_internal_bias(settings, arms)

    def run_size(self, settings: StudySettings) -> RunSize:
        """Return a note on the number of pictures of poles."""
        n = sum(shot.n for shot in self.shots(settings) if "pole_of" in shot.facts)
        a, b = read_sides(settings).called
        note = f"{n:,} of them targets worded for {a} and for {b}, which the paper does not draw"
        return RunSize(note=note if n else "")

    def family(self, finding: Finding) -> str | None:
        """Return the family of a number: one for each measure, over targets or over groups of them."""
        return family(finding)

    def headline(self, report: StudyReport) -> str:
        """Say towards which side pictures shift the targets."""
        return headline(report)
