"""The map of look-alike pictures and the buttons that choose a group of them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.ui.pictures import average_uri, data_uri

if TYPE_CHECKING:
    from bias_core.studies.explore_types import Clusters, ExploredImage, ExploreReport

ALL = -1
N_COLOURS = 8
_WIDTH, _HEIGHT, _MARGIN = 560.0, 400.0, 34.0
_MOST_THUMBNAILS = 120

# One listener on the component survives every redraw of its inside. Arrow keys walk through the map, so
# that hundreds of points are a single stop of the Tab key.
CHOOSE_JS = """
const value = (node, name, otherwise) => Number(node.dataset[name] ?? otherwise);
const choose = (node) => trigger('select', {
  group: value(node, 'group', -1), number: value(node, 'number', 0),
});
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-number], [data-group]');
  if (node) choose(node);
});
element.addEventListener('keydown', (event) => {
  const node = event.target.closest('.point');
  if (!node) return;
  const points = [...element.querySelectorAll('.point')];
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (step) {
    event.preventDefault();
    points[(points.indexOf(node) + step + points.length) % points.length].focus();
  }
  if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(node); }
});
"""


def members(report: ExploreReport, group: int) -> list[ExploredImage]:
    """The concept's pictures of one group, or all of them."""
    if group == ALL or report.clusters is None:
        return list(report.images)
    chosen = {n for n, label in _labels(report.clusters).items() if label == group}
    return [image for image in report.images if image.number in chosen]


def group_of(report: ExploreReport, number: int) -> int | None:
    """The group of a picture; None where it was not scored."""
    return _labels(report.clusters).get(number) if report.clusters is not None else None


def group_buttons(report: ExploreReport, chosen: int = ALL) -> str:
    """A button per group with its average picture; pressed is the one that the grid shows."""
    if report.clusters is None or report.clusters.n_clusters < 2:
        return ""
    parts = [_button(ALL, "All", len(report.images), "", chosen)]
    for group in range(report.clusters.n_clusters):
        inside = members(report, group)
        average = average_uri([image.path for image in inside])
        parts.append(_button(group, f"Group {group + 1}", len(inside), average, chosen))
    return f'<div class="groups" role="group" aria-label="Show which pictures">{"".join(parts)}</div>'


def map_html(report: ExploreReport, chosen: int = ALL, opened: int = 0) -> str:
    """The 2-D map: a numbered picture (or a dot, when there are many) per embedding."""
    clusters = report.clusters
    if clusters is None or not len(clusters.labels):
        return '<p class="quiet">A map needs at least four scored pictures.</p>'
    images = {image.number: image for image in report.images}
    many = len(clusters.labels) > _MOST_THUMBNAILS
    look: dict[str, Any] = {"chosen": chosen, "opened": opened, "many": many}
    rows = zip(clusters.numbers, clusters.labels, _places(clusters.coordinates), strict=True)
    points = [_point(images[number], int(label), x, y, **look) for number, label, (x, y) in rows]
    points[0] = points[0].replace('tabindex="-1"', 'tabindex="0"')
    note = f'<p class="quiet">{escape(clusters.note)}</p>' if clusters.note else ""
    return (
        f'<svg class="map" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="group" '
        'aria-label="Map of the pictures: what lies close together looks alike">'
        f"{''.join(points)}</svg>{note}"
    )


def _labels(clusters: Clusters) -> dict[int, int]:
    return {number: int(label) for number, label in zip(clusters.numbers, clusters.labels, strict=True)}


def _button(group: int, name: str, count: int, average: str, chosen: int) -> str:
    picture = f'<img src="{average}" alt="Average of the pictures of {name}">' if average else ""
    pressed = "true" if group == chosen else "false"
    tone = "call" if group == ALL else f"c{group % N_COLOURS}"
    return (
        f'<button type="button" class="group {tone}" data-group="{group}" '
        f'aria-pressed="{pressed}">{picture}<span>{name}<small>{count}</small></span></button>'
    )


def _places(coordinates: np.ndarray) -> np.ndarray:
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    unit = np.where(high > low, (coordinates - low) / span, 0.5)
    return unit * [_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN] + _MARGIN


def _point(
    image: ExploredImage, label: int, x: float, y: float, *, chosen: int, opened: int, many: bool
) -> str:
    dim = " dim" if chosen not in (ALL, label) else ""
    here = " here" if image.number == opened else ""
    inside = (
        '<circle r="6"/>'
        if many
        else f'<image href="{data_uri(image.path, 64)}" x="-21" y="-21" width="42" height="42"/>'
        f'<rect x="-22" y="-22" width="44" height="44" rx="2"/>'
        f'<text x="-18" y="-11">{image.number}</text>'
    )
    return (
        f'<g class="point c{label % N_COLOURS}{dim}{here}" transform="translate({x:.1f} {y:.1f})" '
        f'tabindex="-1" role="button" data-number="{image.number}" '
        f'aria-label="Picture {image.number}, group {label + 1}">'
        f"{inside}</g>"
    )
