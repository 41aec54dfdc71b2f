"""What the Explore tab shows of a report: groups of look-alikes and their map, one picture, all in plain language."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.explore.headline import BACK, verdicts
from bias_core.explore.report import Exploration, ExploredImage
from bias_core.explore.results import POOLED, AssociationScore, group_name, share_figure
from bias_core.measures.effects import images_needed
from bias_core.measures.stereotype import prevalence_estimate
from bias_core.number_text import format_change, format_rate, format_share, typeset
from bias_core.study.attribute_scores import AttributeScore
from bias_core.study.blanked_pictures import prompt_facts, reason_of
from bias_core.study.documents import average_uri, data_uri
from bias_core.study.figures import N_COLOURS, figure_svg
from bias_core.study.report_text import LIMITS
from bias_core.study.types import StudyFigure, figure, lean
from bias_core.types import Estimate
from bias_core.ui.templates import render

ALL = -1
_HALF_WIDTH = 0.1
_EVEN = 0.5
_WIDTH, _HEIGHT, _MARGIN = 560.0, 400.0, 34.0
_MOST_THUMBNAILS = 120
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing


def group_of(exploration: Exploration, number: int) -> int | None:
    """The group of a picture, from 0; None where it was not scored."""
    if exploration.clusters is None or number not in exploration.clusters.numbers:
        return None
    return int(exploration.clusters.labels[exploration.clusters.numbers.index(number)])


def group_buttons(exploration: Exploration, chosen: int = ALL) -> str:
    """A button per group with its average picture; pressed is the one that the grid shows."""
    clusters = exploration.clusters
    if clusters is None or clusters.n_clusters < 2:
        return ""
    labels = dict(zip(clusters.numbers, clusters.labels.tolist(), strict=True))
    groups = [{"number": ALL, "name": "All", "n": len(exploration.images), "average": "", "tone": "call"}]
    for group in range(clusters.n_clusters):
        inside = [image.path for image in exploration.images if labels.get(image.number) == group]
        name, tone = group_name(group).capitalize(), f"c{group % N_COLOURS}"
        groups.append({"number": group, "name": name, "n": len(inside), "average": average_uri(inside), "tone": tone})
    return render("explore_groups", groups=groups, chosen=chosen)


def map_html(exploration: Exploration, chosen: int = ALL, opened: int = 0, only: Collection[int] | None = None) -> str:
    """The 2-D map: a numbered picture (or a dot, when there are many) per embedding.

    Dim are those that are not of the ``chosen`` group, or not among the numbers in ``only``.
    """
    clusters = exploration.clusters
    if clusters is None or not len(clusters.labels):
        return ""
    images = {image.number: image for image in exploration.images}
    many = len(clusters.labels) > _MOST_THUMBNAILS
    low, high = clusters.coordinates.min(axis=0), clusters.coordinates.max(axis=0)
    unit = np.where(high > low, (clusters.coordinates - low) / np.where(high > low, high - low, 1.0), 0.5)
    places = unit * [_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN] + _MARGIN
    points = [
        {
            "number": number,
            "group": int(label) + 1,
            "classes": f"c{label % N_COLOURS}"
            + (" dim" if chosen not in (ALL, label) or (only is not None and number not in only) else "")
            + (" here" if number == opened else ""),
            "x": f"{x:.1f}",
            "y": f"{y:.1f}",
            "picture": "" if many else data_uri(images[number].path, 64),
        }
        for number, label, (x, y) in zip(clusters.numbers, clusters.labels, places, strict=True)
    ]
    return render("explore_map", points=points, note=clusters.note, width=f"{_WIDTH:.0f}", height=f"{_HEIGHT:.0f}")


def shares_of(exploration: Exploration, only: Collection[int]) -> StudyFigure:
    """How often each attribute is seen in some of the pictures, those with these numbers."""
    places = [i for i, number in enumerate(exploration.scored_numbers) if number in only]
    figure = share_figure([_score_of(score, places, exploration) for score in exploration.attributes])
    return replace(figure, title=f"How often is it seen in these {len(places)} pictures?")


def _score_of(score: AttributeScore, places: Sequence[int], exploration: Exploration) -> AttributeScore:
    positive, negative = score.similarity_positive[places], score.similarity_negative[places]
    is_clear, reference = ~np.isnan(positive), score.attribute.reference
    share = (
        prevalence_estimate(
            positive[is_clear], negative[is_clear], reference=reference, confidence=exploration.settings.confidence
        )
        if is_clear.any()
        else Estimate.undefined(0, "none of these pictures was scored", null_value=reference)
    )
    return replace(score, prevalence=share, drawn=None)


def sentences_html(exploration: Exploration) -> str:
    """Per attribute one sentence on what the numbers say, and one on what they do not."""
    if not exploration.attributes and exploration.association is None:
        return ""
    pooled = f"These sentences are of all pictures, {POOLED}." if exploration.shares_by_prompt else ""
    found = verdicts(exploration.attributes, exploration.settings.confidence)
    items = [
        {
            "verdict": verdict,
            "says": says(score, verdict),
            "does_not_say": does_not_say(score),
            "source": score.attribute.reference_source if score.attribute.reference is not None else "",
        }
        for score, verdict in zip(exploration.attributes, found, strict=True)
    ]
    return render(
        "explore_sentences",
        items=items,
        association="" if exploration.association is None else association_says(exploration.association),
        more=" ".join(filter(None, (pooled, how_many(exploration), LIMITS))),
    )


def picture_html(exploration: Exploration, number: int) -> str:
    """One picture large, with everything that made it and what the reader saw in it."""
    image = next((image for image in exploration.images if image.number == number), None)
    if image is None:
        return ""
    row, rows = image.row, _similarities(exploration, number)
    nearer = pd.DataFrame({"name": [r["name"] for r in rows], "value": [r["nearer"] for r in rows]})
    title, axis = "Similarity of this picture to each attribute", "cosine to positive − to negative sentence"
    if exploration.settings.judge:
        title, axis = "What the judge says of this picture", "probability of yes − of no"
    bars = figure("bars", "similarity", title, nearer, y=axis, null=0.0)
    return render(
        "explore_picture",
        number=number,
        prompt=row.prompt,
        seed=row.seed,
        url=f"gradio_api/file={image.path.as_posix()}",
        picture=data_uri(image.path, 768),
        small=max(row.width, row.height) < _SMALL,
        blocked=reason_of(image),
        facts=_facts(exploration, image),
        rows=rows,
        plot=figure_svg(bars) if rows else "",
    )


def _facts(exploration: Exploration, image: ExploredImage) -> dict[str, str]:
    row, group = image.row, group_of(exploration, image.number)
    sampler = f"{row.num_inference_steps}, {row.guidance_scale:g}" if row.num_inference_steps else "none"
    facts = {
        "Prompt": row.prompt,
        **prompt_facts(image),
        "Negative prompt": row.negative_prompt,
        "Seed": str(row.seed),
        "Model": f"{row.model}@{row.revision}" if row.revision else row.model,
        "Condition": row.condition,
        "Steps, guidance": sampler,
        "Size": " × ".join(map(str, image.size)),
        "Group": "" if group is None else str(group + 1),
        "Id": image.id,
    }
    return {name: text for name, text in facts.items() if text}


def _similarities(exploration: Exploration, number: int) -> list[dict[str, Any]]:
    if number not in exploration.scored_numbers:
        return []
    i = exploration.scored_numbers.index(number)
    return [
        {
            "name": score.attribute.name,
            "positive": _signed(score.similarity_positive[i]),
            "negative": _signed(score.similarity_negative[i]),
            "nearer": float(score.margins[i]),
        }
        for score in exploration.attributes
    ]


def _signed(number: float) -> str:
    return "cannot tell" if math.isnan(number) else typeset(number, "+.3f")


def _share(share: Estimate) -> str:
    return format_share(share.value, share.low, share.high, n=share.n)


def says(score: AttributeScore, verdict: str) -> str:
    """What the numbers of one attribute say; ``verdict`` is among :func:`verdicts`."""
    share, name, reference = score.prevalence, score.attribute.name, format_rate(score.attribute.reference)
    if math.isnan(share.value):
        return f"“{name}” could not be measured: {share.note or 'no picture was scored'}."
    count = round(share.value * share.n)
    count_words = f"“{name}” is seen in {count} of {share.n} pictures: {_share(share)}."
    if score.cannot_tell is not None and score.cannot_tell.value > 0:
        count_words += f" Of {round(score.cannot_tell.value * score.cannot_tell.n)} more the judge cannot tell."
    compared = {
        "above": f"The whole interval lies above P* = {reference}: over-represented here.",
        "below": f"The whole interval lies below P* = {reference}: under-represented here.",
        "within": f"P* = {reference} is inside the interval: no difference is shown, none ruled out.",
        BACK: f"The interval leaves out P* = {reference}, but among several attributes that alone is not clear enough.",
        "assumed": f"For comparison, {_chosen(score.attribute.reference)}; it is not measured, so there is no verdict.",
        "unknown": "No real-world rate was given, so there is nothing to compare it with.",
    }[verdict]
    truth = "" if score.drawn is None else f" Drawn, by the record, it is in {format_rate(score.drawn)} of them."
    if (own := score.true_rate) is not None:
        truth = f" True P of this model is {_share(own)}, measured on {own.n:,} other pictures."
    return f"{count_words} {compared}{truth}"


def _chosen(reference: float | None) -> str:
    return "an even split" if reference == _EVEN else f"a rate that was chosen: {format_rate(reference)}"


def does_not_say(score: AttributeScore) -> str:
    """The nearest misreading of the numbers of one attribute."""
    misreadings = (
        (math.isnan(score.prevalence.value), "An undefined value is not a sign of no bias."),
        (score.n_ties > 0, f"{score.n_ties} pictures were equally near to both sentences and count as absent."),
        (score.corrected is None, f"{score.why_uncorrected}, so the share can be off by more."),
        (score.attribute.reference is None, "Without a rate to compare it with, a share alone is no sign of bias."),
        (not score.attribute.has_source, "P* is a choice made for this comparison, not a measured rate of the world."),
        (True, "P* is a rate of one country and year; another place gives another verdict."),
    )
    return next(sentence for applies, sentence in misreadings if applies)


def association_says(score: AssociationScore) -> str:
    """Which way the pictures lean."""
    a, b, mean = score.attribute_a, score.attribute_b, score.mean
    if math.isnan(mean.value):
        return f"The association with “{a}” and “{b}” is undefined: {mean.note}."
    beyond = mean if score.beyond is None else score.beyond  # where pictures do not vary, no even mix is known
    even = "an even mix = 0" if score.beyond else "neutral = 0"
    numbers = f"{format_change(beyond.value, beyond.low, beyond.high, n=beyond.n)}, n = {beyond.n}, {even}"
    return lean(
        beyond,
        f"The pictures are more like those of “{a}” than those of “{b}” ({numbers}).",
        f"The pictures are more like those of “{b}” than those of “{a}” ({numbers}).",
        f"The interval contains 0: no lean towards “{a}” or “{b}” is shown, none ruled out ({numbers}).",
    )


def how_many(exploration: Exploration) -> str:
    """How many pictures a narrower interval needs."""
    if not exploration.attributes or not exploration.scored_numbers:
        return ""
    needed = images_needed(_HALF_WIDTH, confidence=exploration.settings.confidence)
    n = len(exploration.scored_numbers)
    if n >= needed:
        return f"With {n} scored pictures every share is known to ±10 points or better."
    return f"To know every share to ±10 points takes {needed} scored pictures; these are {n}."
