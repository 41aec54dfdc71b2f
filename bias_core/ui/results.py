"""The report as HTML: headline, table, sentences, association, and one picture in full."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bias_core.studies.number_text import format_given, format_interval, format_number
from bias_core.studies.report import LABELS, LIMITS, MEANINGS, estimates
from bias_core.ui import plots, sentences
from bias_core.ui.groups import group_of
from bias_core.ui.messages import warning_html
from bias_core.ui.pictures import data_uri

if TYPE_CHECKING:
    from bias_core.studies.explore_types import AttributeScore, ExploredImage, ExploreReport
    from bias_core.types import Estimate

LEGEND = (
    '<p class="legend"><span class="k measured">measured P with its interval</span>'
    '<span class="k reference">P*, real-world or chosen rate</span>{drawn}</p>'
)
_DRAWN = '<span class="k planted">drawn: share that really shows it, on record</span>'
_COLUMNS = ("prevalence", "signed_difference", "stereotype", "corrected", "wals", "spread")
_HEADS = (
    ("P", MEANINGS["prevalence"]),
    ("n", "pictures that were scored"),
    ("P*", "the rate it is compared with: of the real world, or a choice"),
    ("drawn", "share of the scored pictures that really show it, where that is on record"),
    *((LABELS[name], MEANINGS[name]) for name in _COLUMNS[1:]),
)
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing


def header_html(report: ExploreReport) -> str:
    """What was found, in a sentence; what it was found on, in a line; what must be known, in notes."""
    settings, n = report.settings, len(report.scored_numbers)
    blocked = sum(image.blocked for image in report.images)
    facts = [
        f"prompt “{report.prompt}”",
        f"{n} pictures scored",
        *([f"{blocked} blocked by the model's safety checker"] if blocked else []),
        settings.model + (f" · {settings.condition}" if settings.condition else ""),
        f"read by {settings.encoder}",
        f"seeds {settings.seed}–{settings.seed + max(settings.n_images - 1, 0)}",
        f"{settings.confidence:.0%} intervals",
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in _notes(report))
    return (
        f"{warning_html(report.warning)}<h2>{escape(sentences.headline(report))}</h2>"
        f'<p class="facts">{"".join(f"<span>{escape(fact)}</span>" for fact in facts)}</p>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def shares_html(report: ExploreReport) -> str:
    """The dot-and-interval plot with its legend."""
    if not report.attributes:
        return ""
    known = any(score.drawn is not None for score in report.attributes)
    legend = LEGEND.format(drawn=_DRAWN if known else "")
    return f"<h3>How often is it seen?</h3>{plots.interval_plot(report.attributes)}{legend}"


def table_html(report: ExploreReport) -> str:
    """Every number of every attribute, with n, interval and null value."""
    if not report.attributes:
        return ""
    head = "".join(
        f'<th scope="col"><abbr title="{escape(what)}">{name}</abbr></th>' for name, what in _HEADS
    )
    body = "".join(_table_row(score) for score in report.attributes)
    meanings = "".join(f"<dt>{name}</dt><dd>{escape(what)}</dd>" for name, what in _HEADS)
    return (
        '<h3>The numbers</h3><div class="scroll" tabindex="0" role="region" aria-label="Table of scores">'
        f'<table class="scores"><thead><tr><th scope="col">Attribute</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        f'<details class="how"><summary>What do the columns mean?</summary><dl>{meanings}</dl></details>'
    )


def sentences_html(report: ExploreReport) -> str:
    """Per attribute one sentence on what the numbers say, and one on what they do not."""
    items = "".join(
        f'<li class="{sentences.verdict(score)}"><div>{escape(sentences.says(score))}</div>'
        f'<div class="quiet">{escape(sentences.does_not_say(score))} {_source(score)}</div></li>'
        for score in report.attributes
    )
    more = escape(f"{sentences.how_many(report)} {LIMITS}".strip())
    if not items:
        return ""
    return f'<h3>In words</h3><ul class="says">{items}</ul><p class="quiet limits">{more}</p>'


def association_html(report: ExploreReport) -> str:
    """T2IAT's association of the concept with the two words."""
    score = report.association
    if score is None:
        return ""
    n = len(report.attribute_images)
    limit = (
        f"Compared with {n} pictures of the concept as “{score.attribute_a}” and “{score.attribute_b}”. "
        "A lean is relative to these two sets and this encoder, which has leanings of its own."
    )
    return (
        f"<h3>Which way does it lean: {escape(score.attribute_a)} or {escape(score.attribute_b)}?</h3>"
        f"{plots.association_plot(score)}<p>{escape(sentences.association_says(score))}</p>"
        f'<p class="quiet">{escape(limit)} Interval: {escape(score.mean.method)}.</p>'
    )


def picture_html(report: ExploreReport, image: ExploredImage, url: str) -> str:
    """One picture large, with everything that made it and what the reader saw in it."""
    row = image.row
    listed = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in _facts(report, image).items())
    small = " pixels" if max(row.width, row.height) < _SMALL else ""
    blocked = "Blanked by the model's safety checker; counted, never scored." if image.blocked else ""
    return (
        f'<article class="picture" aria-label="Picture {image.number}">'
        f'<a href="{escape(url)}" target="_blank" rel="noopener" title="Open the original PNG">'
        f'<img class="large{small}" src="{data_uri(image.path, 768)}" '
        f'alt="Picture {image.number}: {escape(row.prompt)}, seed {row.seed}"></a>'
        f'<div><h3>Picture {image.number}</h3><dl>{listed}</dl><p class="quiet">{blocked}</p></div>'
        f'<div class="read">{_similarities(report, image)}</div></article>'
    )


def _facts(report: ExploreReport, image: ExploredImage) -> dict[str, str]:
    row, group = image.row, group_of(report, image.number)
    sampler = f"{row.num_inference_steps}, {row.guidance_scale:g}" if row.num_inference_steps else "none"
    return {
        "Prompt": row.prompt,
        "Seed": str(row.seed),
        "Model": " · ".join(filter(None, (row.model, row.condition))),
        "Revision": row.revision or "none",
        "Steps, guidance": sampler,
        "Size": f"{row.width} × {row.height}",
        "Group": f"{group + 1}" if group is not None else "not scored",
        "Id": image.id,
    }


def _notes(report: ExploreReport) -> list[str]:
    notes = list(report.notes)
    if report.unknown_words:
        words = ", ".join(f"“{word}”" for word in report.unknown_words)
        notes.insert(0, f"The calibration world does not know {words}; the pictures were drawn without it.")
    return notes


def _table_row(score: AttributeScore) -> str:
    found = estimates(score)
    cells = {name: _cell(LABELS[name], found.get(name)) for name in _COLUMNS}
    plain = (("n", str(score.prevalence.n)), ("P*", format_given(score.attribute.reference)),
             ("drawn", format_given(score.drawn, n=score.prevalence.n)))  # fmt: skip
    middle = "".join(f'<td data-label="{label}">{value}</td>' for label, value in plain)
    rest = "".join(cells[name] for name in _COLUMNS[1:])
    return f'<tr><th scope="row">{escape(score.attribute.name)}</th>{cells["prevalence"]}{middle}{rest}</tr>'


def _cell(label: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return f'<td data-label="{label}">not measured</td>'
    null = "" if estimate.null_value is None else f"; null value {format_given(estimate.null_value)}"
    title, ends = escape((estimate.note or estimate.method) + null), (estimate.low, estimate.high)
    return (
        f'<td data-label="{label}" title="{title}">'
        f"{_minus(format_number(estimate.value, *ends, n=estimate.n))}"
        f"<small>{_minus(format_interval(*ends, value=estimate.value, n=estimate.n))}</small></td>"
    )


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _source(score: AttributeScore) -> str:
    source = score.attribute.reference_source
    return f"P*: {escape(source)}." if source and score.attribute.reference is not None else ""


def _similarities(report: ExploreReport, image: ExploredImage) -> str:
    if image.number not in report.scored_numbers or not report.attributes:
        return ""
    i = report.scored_numbers.index(image.number)
    names = [score.attribute.name for score in report.attributes]
    positive = [float(score.similarity_positive[i]) for score in report.attributes]
    negative = [float(score.similarity_negative[i]) for score in report.attributes]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{p:+.3f}</td><td>{n:+.3f}</td>'
        f"<td>{'seen' if p > n else 'not seen'}</td></tr>"
        for name, p, n in zip(names, positive, negative, strict=True)
    )
    return (
        f"{plots.similarity_plot(names, positive, negative)}"
        '<details class="how"><summary>Similarities as a table</summary>'
        '<table class="scores plain"><thead><tr>'
        '<th scope="col">Attribute</th><th scope="col">to positive</th><th scope="col">to negative</th>'
        f'<th scope="col">reads as</th></tr></thead><tbody>{rows}</tbody></table></details>'
    )
