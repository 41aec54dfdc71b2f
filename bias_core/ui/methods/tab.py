"""The Methods tab: a searchable card per measure, the models, and what this app stores."""

import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import gradio as gr
from markupsafe import Markup

from bias_core.measures.cards import METRICS, Card, Reference, load_references
from bias_core.report.shipped import load_shipped
from bias_core.run.plan import library_versions
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import get_page_layout
from bias_core.study.types import StudyReport
from bias_core.ui.messages import EACH, user_errors
from bias_core.ui.study.parts import build_opening_signal
from bias_core.ui.templates import render, script
from bias_core.wording import format_formula, typeset

_QUESTION = "What does each number mean, where does it come from, and what can it not tell?"
_CAUTION = (
    "A card per measure: its formula, range, value without bias, and limits. Below: the models, and what is stored."
)
TITLES: Mapping[str, str] = {
    "explore": "Explore",
    "association": "Association",
    "paired": "Paired",
    "objects": "Objects",
    "internal": "Internal",
    "origins": "Origins",
    "label": "Label",
    "compare": "Compare",
}
PAPERS = ("wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis")
"""Papers with a section of their own; other measures share one."""
_TABS_BY_PAPER: Mapping[str, Sequence[str]] = {
    "wang2023t2iat": ("association", "explore"),
    "wan2024pst": ("paired",),
    "vice2023tbyb": ("objects",),
    **dict.fromkeys(("pielou1966", "gini1912", "hill1973"), ("objects",)),
    "mandal2024internal": ("internal",),
    "dehdashtian2025oasis": ("explore", "origins", "compare"),
}
_TABS_BY_MEASURE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("stereotype_propagation_index", "predicted_gain", "visible_steps", "first_seen_steps"), ("origins",)
    ),
    "mean_similarity": ("origins",),
    "model_distance": ("objects", "compare"),
    "kendall_tau": ("association",),
    **dict.fromkeys([f"{of}_difference" for of in ("prevalence", "stereotype", "variance_share")], ("compare",)),
}
_RATERS = ("label",)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_HEADING = re.compile(r"^# (.+)$", re.M)

SEARCH_JS = script("measures")


def methods_html(metrics: Iterable[Card]) -> str:
    """The search field, and all cards by source."""
    measures = list(metrics)
    groups: dict[str, list[Card]] = {paper: [] for paper in (*PAPERS, "")}
    for metric in measures:
        groups[metric.reference if metric.reference in PAPERS else ""].append(metric)
    return render(
        "measures",
        n=len(measures),
        groups=[(paper, cards) for paper, cards in groups.items() if cards],
        sources=dict.fromkeys(metric.reference for metric in measures),
        works=load_references(),
        titles=TITLES,
        tabs_of=lambda card: _TABS_BY_MEASURE.get(card.key) or _TABS_BY_PAPER.get(card.reference, _RATERS),
        search_text=_search_text,
        mathml=_to_mathml,
        null_place=_null_place,
        bound=_bound,
    )


def _search_text(metric: Card, work: Reference) -> str:
    texts = (metric.key, metric.name, metric.summary, metric.limits, metric.higher_means, work.short)
    return (
        " ".join((*texts, *(entry.means for entry in metric.inputs), metric.tex, metric.symbols))
        .lower()
        .replace("$", "")
    )


def _to_mathml(tex: str, *, is_block: bool = False) -> Markup:
    return Markup(format_formula(tex, is_block=is_block))


def _null_place(metric: Card) -> str | None:
    """Position of "no bias" on a line from 4 to 96; None if no value means it."""
    (low, high), null = metric.bounds, metric.null_value
    if null is None:
        return None
    if math.isfinite(low) and math.isfinite(high):
        return f"{4 + 92 * (null - low) / (high - low):.1f}"
    return "50" if math.isinf(low) else "12"


def _bound(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return typeset(value, ".3g")


def models_html(services: Services) -> str:
    """Tables of all generators and encoders in the catalogue."""
    models = [
        (
            info.name,
            ("built in" if info.embedded else f"{info.download_gb:g} GB on first use") + ", gated" * info.gated,
            info.licence,
            str(info.default_steps or "–"),
            "yes" if info.traceable else "no",
            info.note,
        )
        for info in services.models()
    ]
    readers = [
        (info.name, "built in" if info.embedded else "downloaded on first use", info.library, info.note)
        for info in services.tools("encoder")
    ]
    return render("models", models=models, readers=readers)


def model_cards(assets: Path) -> list[tuple[str, str]]:
    """Title and Markdown text of each built-in model's card."""
    cards = []
    for path in sorted((assets / "calibration").glob("*/README.md")):
        text = _FRONT_MATTER.sub("", path.read_text(encoding="utf-8")).strip()
        title = _HEADING.match(text)
        cards.append((title[1] if title else path.parent.name, text[title.end() :] if title else text))
    return cards


def about_html(settings: Settings) -> str:
    """Versions, licences, and the data stored about a visitor."""
    versions = {"python": platform.python_version(), "gradio": metadata.version("gradio")}
    versions |= library_versions()
    return render("about", settings=settings, versions=versions)


@cache
def measure_example_html(folder: str) -> str:
    """A shipped report's plot of one measure against its ground truth; "" without reports."""
    with user_errors():
        for saved in load_shipped(Path(folder))[:1]:
            report = saved.report
            plot = get_page_layout(report.design).plot(report) if isinstance(report, StudyReport) else None
            if plot is not None and isinstance(report, StudyReport):
                return render("methods_example", figure=plot, n=report.n_images)
    return ""


class MethodsTab:
    """Text only; nothing here runs."""

    key: ClassVar = "methods"
    title: ClassVar = "Methods"
    group: ClassVar = "Trust"
    asks: ClassVar = ""
    place: ClassVar = 100

    def __init__(self, services: Services) -> None:
        self.services = services

    def on_look(self) -> list[Any]:
        """The example, made once for all visitors when the tab is first opened, and the measures."""
        html = measure_example_html(str(self.services.settings.assets_dir / "validity"))
        return [gr.update(value=html, visible=bool(html)), gr.update(value=self._measures, visible=True)]

    @cached_property
    def _measures(self) -> str:
        return methods_html(METRICS.values())

    def build_memory(self) -> None:
        """Nothing to remember."""

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        settings = self.services.settings
        gr.HTML(render("question", question=_QUESTION, caution=_CAUTION))
        looked_at = build_opening_signal(self.key)
        example = gr.HTML(visible=False, elem_id=f"{self.key}-results")
        measures = gr.HTML(visible=False, js_on_load=SEARCH_JS, elem_id="measures")  # the page starts without them
        looked_at.select(self.on_look, None, [example, measures], **EACH)
        with gr.Column(elem_classes="card"):
            gr.HTML(models_html(self.services), elem_id="models")
            for title, text in model_cards(settings.assets_dir):
                with gr.Accordion(f"Model card: {title}", open=False, elem_classes="more"):
                    gr.Markdown(text)
        with gr.Column(elem_classes="card"):
            gr.HTML(about_html(settings), elem_id="about")
