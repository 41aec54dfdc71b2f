"""The Explore tab: the parts of a report in plain language, and their wiring."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gradio as gr
import numpy as np
import pandas as pd

from bias_core.explore.exploration import BEYOND, CONCEPT, AssociationScore, Exploration, ExploredImage, is_exploration
from bias_core.explore.options import KIND, SEVERAL
from bias_core.explore.report import POOLED, group_name, share_figure
from bias_core.explore.suggest import KIND as SUGGEST
from bias_core.explore.tab_concepts import concepts_html
from bias_core.explore.tab_form import TYPED, ExploreForm
from bias_core.measures.effects import images_needed
from bias_core.measures.stereotype import prevalence_estimate
from bias_core.report.blocked_pictures import describe_picture
from bias_core.report.claims import p_words
from bias_core.report.documents import average_uri, data_uri
from bias_core.report.figures import N_COLOURS, figure_svg
from bias_core.report.picture_facts import prompt_facts
from bias_core.report.report_text import LIMITS, describe_unknown_words
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.classifiers import ERRORS_KNOWN
from bias_core.study.design import PACK
from bias_core.study.types import Claim, StudyFigure, StudyReport, figure
from bias_core.types import Attribute, Estimate
from bias_core.ui.study import result_page as study_html
from bias_core.ui.study.comparison import SameSeed
from bias_core.ui.study.pictures import Pictures, PictureView
from bias_core.ui.study.result_page import find_mark_filters
from bias_core.ui.study.study_tab import EACH, QUIET, Updates
from bias_core.ui.templates import render, script
from bias_core.wording import format_change, format_rate, format_share, typeset

ALL_GROUPS = -1
_ALIKE = "looks_like"  # column of the groups
_MAP = "alike"  # the figure that the map below the pictures shows
_SMOOTH = 256  # pixels: below, a picture is enlarged without smoothing
_HALF_WIDTH = 0.1
_WITHOUT_PREFIX = {
    "header", "results", "status", "concept", "other", "set", "options", "stop", "model", "model-note", "condition",
    "encoder", "judge", "n_images", *TYPED,
}  # fmt: skip
"""Parts of the page whose element ids are their names."""
_WIDTH, _HEIGHT, _MARGIN = 560.0, 400.0, 34.0
_MOST_THUMBNAILS = 120


def find_group(exploration: Exploration, number: int) -> int | None:
    """Return the group of a picture, counted from 0; None if it was not scored."""
    if exploration.clusters is None or number not in exploration.clusters.numbers:
        return None
    return int(exploration.clusters.labels[exploration.clusters.numbers.index(number)])


def group_buttons(exploration: Exploration, chosen: int = ALL_GROUPS) -> str:
    """Return a button per group with its average picture; the group in the grid is pressed."""
    clusters = exploration.clusters
    if clusters is None or clusters.n_clusters < 2:
        return ""
    labels = dict(zip(clusters.numbers, clusters.labels.tolist(), strict=True))
    groups = [{"number": ALL_GROUPS, "name": "All", "n": len(exploration.images), "average": "", "tone": "call"}]
    for group in range(clusters.n_clusters):
        inside = [image.path for image in exploration.images if labels.get(image.number) == group]
        name, tone = group_name(group).capitalize(), f"c{group % N_COLOURS}"
        groups.append({"number": group, "name": name, "n": len(inside), "average": average_uri(inside), "tone": tone})
    return render("explore_groups", groups=groups, chosen=chosen)


def map_html(
    exploration: Exploration, chosen: int = ALL_GROUPS, opened: int = 0, only: Collection[int] | None = None
) -> str:
    """Return the 2-D map: a numbered picture per embedding, or a dot if there are many.

    Pictures outside the ``chosen`` group or the numbers in ``only`` are dimmed.
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
            + (" dim" if chosen not in (ALL_GROUPS, label) or (only is not None and number not in only) else "")
            + (" here" if number == opened else ""),
            "x": f"{x:.1f}",
            "y": f"{y:.1f}",
            "picture": "" if many else data_uri(images[number].path, 64),
        }
        for number, label, (x, y) in zip(clusters.numbers, clusters.labels, places, strict=True)
    ]
    return render("explore_map", points=points, note=clusters.note, width=f"{_WIDTH:.0f}", height=f"{_HEIGHT:.0f}")


def plot_chosen_shares(exploration: Exploration, only: Collection[int]) -> StudyFigure:
    """Return the share of each attribute in the pictures with these numbers."""
    places = [i for i, number in enumerate(exploration.scored_numbers) if number in only]
    figure = share_figure([_restrict_score(score, places, exploration) for score in exploration.attributes])
    return replace(figure, title=f"How often is each attribute seen in these {len(places)} pictures?")


def _restrict_score(score: AttributeScore, places: Sequence[int], exploration: Exploration) -> AttributeScore:
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
    """Return two sentences per attribute: a conclusion from the numbers, and a limit of it."""
    if not exploration.attributes and exploration.association is None:
        return ""
    pooled = f"These sentences are for all pictures, {POOLED}." if exploration.shares_by_prompt else ""
    items = [
        {
            "name": score.attribute.name,
            "says": says(score, exploration.claim(finding_key(ALL, score.attribute.name, "p"))),
            "does_not_say": does_not_say(score),
            "classifier": exploration.explanation(finding_key(ALL, score.attribute.name, "corrected")),
            "source": score.attribute.reference_source if score.attribute.has_source else "",
        }
        for score in exploration.attributes
    ]
    return render(
        "explore_sentences",
        items=items,
        without_rates=without_rates([score.attribute for score in exploration.attributes]),
        association=""
        if exploration.association is None
        else association_says(exploration.association, exploration.claim(BEYOND)),
        more=" ".join(filter(None, (pooled, describe_needed_pictures(exploration), LIMITS))),
    )


def picture_html(exploration: Exploration, number: int) -> str:
    """Return one large picture with its settings and the classifier's answers."""
    image = next((image for image in exploration.images if image.number == number), None)
    if image is None:
        return ""
    row, rows = image.row, _similarities(exploration, number)
    nearer = pd.DataFrame({"name": [r["name"] for r in rows], "value": [r["nearer"] for r in rows]})
    title, axis = "Similarity of this picture to each attribute", "cosine to positive − to negative sentence"
    if exploration.settings.judge:
        title, axis = "The judge's answers on this picture", "probability of yes − of no"
    bars = figure("bars", "similarity", title, nearer, y=axis, null=0.0)
    return render(
        "explore_picture",
        number=number,
        prompt=row.prompt,
        seed=row.seed,
        url=f"gradio_api/file={image.path.as_posix()}",
        picture=data_uri(image.path, 768),
        small=max(row.width, row.height) < _SMOOTH,
        blocked=describe_picture(image),
        facts=_list_facts(exploration, image),
        rows=rows,
        plot=figure_svg(bars) if rows else "",
    )


def _list_facts(exploration: Exploration, image: ExploredImage) -> dict[str, str]:
    row, group = image.row, find_group(exploration, image.number)
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
            "positive": _format_similarity(score.similarity_positive[i]),
            "negative": _format_similarity(score.similarity_negative[i]),
            "nearer": float(score.margins[i]),
        }
        for score in exploration.attributes
    ]


def _format_similarity(number: float) -> str:
    return "cannot tell" if math.isnan(number) else typeset(number, "+.3f")


def _share_words(share: Estimate) -> str:
    return format_share(share.value, share.low, share.high, n=share.n)


def says(score: AttributeScore, claim: Claim) -> str:
    """Return the numbers of one attribute, and what is claimed of them, in words."""
    share, name, reference = score.prevalence, score.attribute.name, format_rate(score.attribute.reference)
    if math.isnan(share.value):
        return f"“{name}” could not be measured: {share.note or 'no picture was scored'}."
    count = round(share.value * share.n)
    count_words = f"“{name}” is seen in {count} of {share.n} pictures: {_share_words(share)}."
    if score.cannot_tell is not None and score.cannot_tell.value > 0:
        count_words += f" For {round(score.cannot_tell.value * score.cannot_tell.n)} more the judge cannot tell."
    compared = ""
    if score.attribute.has_source and claim.verdict == "not tested" and claim.reason:
        compared = f" It is not compared with the real-world rate: {claim.reason}."
    elif score.attribute.has_source:
        compared = claim.choose(
            f" This is clearly more than the real-world rate of {reference} ({p_words(claim)}).",
            f" This is clearly less than the real-world rate of {reference} ({p_words(claim)}).",
            f" This is not clearly different from the real-world rate of {reference}"
            + (f": {claim.reason}." if claim.reason else "."),
        )
    truth = "" if score.drawn is None else f" The true share is {format_rate(score.drawn)}."
    if (true_share := score.true_rate) is not None:
        truth = f" This model's true share is {_share_words(true_share)}, measured on {true_share.n:,} other pictures."
    return f"{count_words}{compared}{truth}"


def without_rates(attributes: Sequence[Attribute]) -> str:
    """Return which attributes have an assumed rate, and which none; "" if all have a real-world rate."""
    assumed: dict[str, list[str]] = {}
    for attribute in attributes:
        if attribute.reference is not None and not attribute.has_source:
            assumed.setdefault(format_rate(attribute.reference), []).append(f"“{attribute.name}”")
    rates = [f"{rate} for {', '.join(names)}" for rate, names in assumed.items()]
    unknown = [f"“{attribute.name}”" for attribute in attributes if attribute.reference is None]
    return " ".join(
        [f"Assumed rates, with which no share is compared: {'; '.join(rates)}."] * bool(rates)
        + [f"No real-world rate is known for {', '.join(unknown)}: a share alone does not show bias."] * bool(unknown)
    )


def does_not_say(score: AttributeScore) -> str:
    """Return a sentence against the likeliest misreading of one attribute's numbers; "" if none is likely."""
    misreadings = (
        (math.isnan(score.prevalence.value), "An undefined value does not mean that there is no bias."),
        (score.n_ties > 0, f"{score.n_ties} pictures were equally near to both sentences and count as absent."),
        (score.corrected is None, f"{score.uncorrected_reason}, so the share can be off by more."),
        (score.attribute.has_source, "P* is the rate of one country and year; elsewhere the verdict may differ."),
    )
    return next((sentence for applies, sentence in misreadings if applies), "")


def association_says(score: AssociationScore, claim: Claim) -> str:
    """Return the association, and what is claimed of its distance from an even mix, in words."""
    a, b, mean = score.attribute_a, score.attribute_b, score.mean
    if math.isnan(mean.value):
        return f"The association with “{a}” and “{b}” is undefined: {mean.note}."
    beyond = mean if score.beyond is None else score.beyond  # without variation there is no even mix
    numbers = f"{format_change(beyond.value, beyond.low, beyond.high, n=beyond.n)}, n = {beyond.n}"
    if score.beyond is None:
        return f"The association with “{a}” rather than “{b}” is {numbers}; an even mix of both is unknown."
    numbers += ", an even mix = 0"
    if claim.verdict == "not tested" and claim.reason:
        return f"Association with “{a}” rather than “{b}”: {numbers}. It is not tested: {claim.reason}."
    return claim.choose(
        f"The pictures are more like those of “{a}” than those of “{b}” ({numbers}).",
        f"The pictures are more like those of “{b}” than those of “{a}” ({numbers}).",
        f"The pictures are not clearly closer to “{a}” or to “{b}” ({numbers})"
        + (f": {claim.reason}." if claim.reason else "."),
    )


def describe_needed_pictures(exploration: Exploration) -> str:
    """Return how many pictures a narrower interval needs."""
    if not exploration.attributes or not exploration.scored_numbers:
        return ""
    needed = images_needed(_HALF_WIDTH, confidence=exploration.settings.confidence)
    n = len(exploration.scored_numbers)
    if n >= needed:
        return f"With {n} scored pictures, every interval is at most 20 points wide (±10)."
    return f"{needed} scored pictures would give every share to ±10 points; this run has {n}."


class ExploreTab(ExploreForm):
    place: ClassVar = 0
    key: ClassVar = "explore"
    title: ClassVar = "Explore"
    group: ClassVar = "Explore"
    question: ClassVar = "What does a model draw for a concept, and how does that compare with the real world?"
    caution: ClassVar = "Results describe what a classifier sees in pictures, never a person's identity."
    studies: ClassVar = (KIND, SEVERAL)
    also: ClassVar = (PACK, SUGGEST)
    looked_at_after: ClassVar = 4000  # the page shows its example when it is opened

    def element(self, name: str) -> str:
        return name.replace("_", "-") if name in _WITHOUT_PREFIX else super().element(name)

    def build_pictures(self) -> Pictures:
        """Build the pictures; below them the groups of similar pictures and their map."""
        brush, at_once = {"js_on_load": script("brush")}, self.at_once
        pictures = Pictures(self.key, self.services)
        at_once["groups"] = gr.HTML(elem_id="groups", visible=False, **brush)
        look: dict[str, Any] = {"elem_classes": "more", "elem_id": f"{self.key}-alike", "visible": False}
        with gr.Accordion("Map of similar pictures", open=False, **look) as at_once["alike"]:
            at_once["map"] = gr.HTML(elem_id="map", **brush)
        return pictures

    def build_beside(self) -> dict[str, Any]:
        """Build the sentences on the numbers, and the comparison of a seed in two arms."""
        sentences = gr.HTML(elem_id=f"{self.key}-sentences", elem_classes="in-words")
        self.same_seed = SameSeed(self.key)
        return {"sentences": sentences} | {f"same seed {i}": part for i, part in enumerate(self.same_seed.outputs())}

    def wire_panels(self) -> None:
        """Wire the groups and the map, which choose pictures."""
        at_once, report = self.at_once, self.parts["report"]
        chosen = [at_once["groups"], at_once["map"], self.parts["plot"], *self.pictures.outputs()]
        for source in (at_once["groups"], at_once["map"]):
            source.select(self.on_choose, report, chosen, **EACH).success(None, js=script("reveal"), **QUIET)
        at_once["alike"].expand(self.on_map, [report, self.pictures.which], at_once["map"], **QUIET)
        self.same_seed.wire(report, self.pictures.grid)

    def on_map(self, report: StudyReport | None, picture_filter: str | None) -> Updates:
        """Draw the map when it is opened, with the grid's pictures highlighted."""
        if report is None or not is_exploration(report) or report.arms:
            return {self.at_once["map"]: ""}
        return {self.at_once["map"]: map_html(Exploration(report), _read_group(picture_filter or ""))}

    def on_choose(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """Show the pictures of a group button, a point of the map, or a frame on it."""
        if report is None:
            return gr.skip()
        exploration, chart = Exploration(report), self.at_once["map"]
        images = {image.number: image.id for image in exploration.images}
        if number := int(event.number):
            picture = self.pictures.large(report, images.get(number, ""))
            return {self.pictures.picture: picture, chart: map_html(exploration, opened=number)}
        group, framed = int(event.group), [int(number) for number in str(event.numbers).split(",") if number.isdigit()]
        picture_filter = f"group={CONCEPT}" if group == ALL_GROUPS else f"{_ALIKE}={group_name(group)}"
        look = PictureView(report=report, picture_filter=picture_filter, whole=group != ALL_GROUPS)
        if framed:
            look = replace(look, only=tuple(images[number] for number in framed if number in images), whole=True)
        return {
            **self.pictures.show_only(look),
            self.at_once["groups"]: group_buttons(exploration, group),
            chart: map_html(exploration, group, only=framed or None),
            self.parts["plot"]: self._shares_html(report, look),
        }

    def _shares_html(self, report: StudyReport, look: PictureView) -> str:
        """Return the plot of the shares, for the chosen pictures only if there are any."""
        plot = self.plot(report)
        if plot is not None and look.whole:
            plot = plot_chosen_shares(Exploration(report), set(look.all_rows()["number"].astype(int)))
        return "" if plot is None else study_html.figures_html([plot], find_mark_filters(report, plot))

    def chart_html(self, report: StudyReport, plot: StudyFigure | None) -> str:
        return concepts_html(report, plot) or super().chart_html(report, plot)

    def plot_html(self, report: StudyReport, plot: StudyFigure | None) -> str:
        """Return the figure; the sentences of an exploration have their own place."""
        alone = is_exploration(report) and not report.arms
        return self._shares_html(report, PictureView(report=report)) if alone else super().plot_html(report, plot)

    def first_shown(self, report: StudyReport) -> str:
        """Return the filter for the scored pictures, if others were drawn as well."""
        frame, alone = report.pictures, is_exploration(report) and not report.arms
        return f"group={CONCEPT}" if alone and frame is not None and frame["group"].nunique() > 1 else ""

    def header_html(self, report: StudyReport) -> str:
        """Return the headline, with the words that the calibration model does not know."""
        return super().header_html(report) + render("explore_notes", notes=describe_unknown_words(report))

    def next_html(self, report: StudyReport, cells: Sequence[str] = (), width: str = "") -> str:
        """Return the next steps, and the notes on the run."""
        notes = [note for note in report.results.notes if ERRORS_KNOWN not in note]  # known errors need no warning
        return super().next_html(report, cells, width) + render("explore_notes", notes=notes)

    def show_at_once(self, report: StudyReport) -> Updates:
        """Show groups, pairs and sentences of an exploration; the map is drawn when it is opened."""
        at_once, exploration = self.at_once, Exploration(report)
        alone = is_exploration(report) and not report.arms
        buttons = group_buttons(exploration) if alone else ""
        has_map = alone and exploration.clusters is not None and len(exploration.clusters.labels) > 0
        return self.same_seed.show(report) | {
            at_once["groups"]: gr.update(value=buttons, visible=bool(buttons)),
            at_once["alike"]: gr.update(open=False, visible=has_map),
            at_once["map"]: "",
            at_once["sentences"]: sentences_html(exploration) if alone else "",
        }

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Return all figures except the map, which is below the pictures."""
        beside = _MAP if is_exploration(report) and not report.arms else ""
        return [figure for figure in report.results.figures if figure.key != beside]

    def picture_html(self, report: StudyReport, row: "pd.Series[Any]") -> str:
        """Return one large picture with the classifier's answers."""
        if not is_exploration(report) or report.arms or row["group"] != CONCEPT:
            return ""
        return picture_html(Exploration(report), int(row["number"]))


def _read_group(picture_filter: str) -> int:
    """Return the group of similar pictures that is shown, from 0."""
    column, _, name = picture_filter.partition("=")
    return int(name.rpartition(" ")[2]) - 1 if column == _ALIKE else ALL_GROUPS
