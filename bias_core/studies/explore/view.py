"""What the Explore tab shows of a report: groups of look-alikes and their map, sentences, one picture."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.explore import view_sentences as sentences
from bias_core.studies.explore.results import CONCEPT, group_name
from bias_core.studies.kit.types import StudyFigure
from bias_core.studies.reports.text import LIMITS
from bias_core.ui.pictures import average_uri, data_uri
from bias_core.ui.study.svg import N_COLOURS, figure_svg
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.explore.report import Clusters, Exploration, ExploredImage
    from bias_core.studies.kit.progress import Progress

ALL = -1
_WIDTH, _HEIGHT, _MARGIN = 560.0, 400.0, 34.0
_MOST_THUMBNAILS = 120
_FIRST_PAGE = 120
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
_SHORTEST_PAUSE = 0.2  # seconds
_PAUSE_PER_PICTURE = 0.01


class GrowingGrid:
    """Says when the grid is worth sending: every time costs as much as all its pictures."""

    def __init__(self) -> None:
        self._n_shown = -1
        self._next = 0.0

    def grown(self, progress: Progress) -> list[tuple[str, str]] | None:
        """The first of the concept's pictures with captions; None while they have not grown or were just sent."""
        drawn = [image for image in progress.images if image.row.group == CONCEPT][:_FIRST_PAGE]
        now = time.monotonic()
        if not drawn or len(drawn) == self._n_shown or now < self._next:
            return None
        self._n_shown = len(drawn)
        self._next = now + max(_SHORTEST_PAUSE, len(drawn) * _PAUSE_PER_PICTURE)
        return [
            (str(image.path), f"Picture {place}" + (" (blocked)" if image.blocked else ""))
            for place, image in enumerate(drawn, start=1)
        ]


def group_of(seen: Exploration, number: int) -> int | None:
    """The group of a picture; None where it was not scored."""
    return _labels(seen.clusters).get(number)


def group_buttons(seen: Exploration, chosen: int = ALL) -> str:
    """A button per group with its average picture; pressed is the one that the grid shows."""
    labels = _labels(seen.clusters)
    if seen.clusters is None or seen.clusters.n_clusters < 2:
        return ""
    groups = [{"number": ALL, "name": "All", "n": len(seen.images), "average": "", "tone": "call"}]
    for group in range(seen.clusters.n_clusters):
        inside = [image.path for image in seen.images if labels.get(image.number) == group]
        groups.append(
            {
                "number": group,
                "name": group_name(group).capitalize(),
                "n": len(inside),
                "average": average_uri(inside),
                "tone": f"c{group % N_COLOURS}",
            }
        )
    return render("explore_groups", groups=groups, chosen=chosen)


def map_html(seen: Exploration, chosen: int = ALL, opened: int = 0) -> str:
    """The 2-D map: a numbered picture (or a dot, when there are many) per embedding."""
    clusters = seen.clusters
    if clusters is None or not len(clusters.labels):
        return ""
    images = {image.number: image for image in seen.images}
    many = len(clusters.labels) > _MOST_THUMBNAILS
    rows = zip(clusters.numbers, clusters.labels, _places(clusters.coordinates), strict=True)
    points = [
        {
            "number": number,
            "group": int(label) + 1,
            "classes": f"c{label % N_COLOURS}"
            + (" dim" if chosen not in (ALL, label) else "")
            + (" here" if number == opened else ""),
            "x": f"{x:.1f}",
            "y": f"{y:.1f}",
            "picture": "" if many else data_uri(images[number].path, 64),
        }
        for number, label, (x, y) in rows
    ]
    return render("explore_map", points=points, note=clusters.note, width=f"{_WIDTH:.0f}", height=f"{_HEIGHT:.0f}")


def sentences_html(seen: Exploration) -> str:
    """Per attribute one sentence on what the numbers say, and one on what they do not."""
    if not seen.attributes and seen.association is None:
        return ""
    items = [
        {
            "verdict": sentences.verdict(score),
            "says": sentences.says(score),
            "does_not_say": sentences.does_not_say(score),
            "source": score.attribute.reference_source if score.attribute.reference is not None else "",
        }
        for score in seen.attributes
    ]
    return render(
        "explore_sentences",
        items=items,
        association="" if seen.association is None else sentences.association_says(seen.association),
        more=f"{sentences.how_many(seen)} {LIMITS}".strip(),
    )


def picture_html(seen: Exploration, number: int) -> str:
    """One picture large, with everything that made it and what the reader saw in it."""
    image = next((image for image in seen.images if image.number == number), None)
    if image is None:
        return ""
    row, rows = image.row, _similarities(seen, image)
    return render(
        "explore_picture",
        number=number,
        prompt=row.prompt,
        seed=row.seed,
        url=f"gradio_api/file={image.path.as_posix()}",
        picture=data_uri(image.path, 768),
        small=max(row.width, row.height) < _SMALL,
        blocked=image.blocked,
        facts=_facts(seen, image),
        rows=rows,
        plot=figure_svg(_bars(rows)) if rows else "",
    )


def _facts(seen: Exploration, image: ExploredImage) -> dict[str, str]:
    row, group = image.row, group_of(seen, image.number)
    sampler = f"{row.num_inference_steps}, {row.guidance_scale:g}" if row.num_inference_steps else "none"
    facts = {
        "Prompt": row.prompt,
        "Negative prompt": row.negative_prompt,
        "Seed": str(row.seed),
        "Model": f"{row.model}@{row.revision}" if row.revision else row.model,
        "Condition": row.condition,
        "Steps, guidance": sampler,
        "Size": f"{row.width} × {row.height}",
        "Group": "" if group is None else str(group + 1),
        "Id": image.id,
    }
    return {name: text for name, text in facts.items() if text}


def _similarities(seen: Exploration, image: ExploredImage) -> list[dict[str, Any]]:
    if image.number not in seen.scored_numbers:
        return []
    i = seen.scored_numbers.index(image.number)
    return [
        {
            "name": score.attribute.name,
            "positive": f"{score.similarity_positive[i]:+.3f}",
            "negative": f"{score.similarity_negative[i]:+.3f}",
            "nearer": float(score.margins[i]),
        }
        for score in seen.attributes
    ]


def _bars(rows: Sequence[dict[str, Any]]) -> StudyFigure:
    return StudyFigure(
        key="similarity",
        title="Similarity of this picture to each attribute",
        kind="bars",
        data=pd.DataFrame({"name": [r["name"] for r in rows], "value": [r["nearer"] for r in rows]}),
        labels={"y": "cosine to positive − to negative sentence", "null": 0.0},
    )


def _labels(clusters: Clusters | None) -> dict[int, int]:
    if clusters is None:
        return {}
    return {number: int(label) for number, label in zip(clusters.numbers, clusters.labels, strict=True)}


def _places(coordinates: np.ndarray) -> np.ndarray:
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    unit = np.where(high > low, (coordinates - low) / span, 0.5)
    return unit * [_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN] + _MARGIN
