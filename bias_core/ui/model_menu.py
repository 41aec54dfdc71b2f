"""Parts of forms: menus of models with their download sizes, and the table of attributes."""

from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput, UnknownModel
from bias_core.models.catalogue import Role
from bias_core.services import Services
from bias_core.study.attributes import AttributeSet, is_rate_of_another, read_rate
from bias_core.study.classifiers import reading_words
from bias_core.study.types import AUTO
from bias_core.types import Attribute
from bias_core.ui.messages import QUIET
from bias_core.ui.templates import without_variables
from bias_core.wording import format_list

HEADERS = ["name", "positive sentence", "negative sentence", "P*", "source of P*"]
EMPTY_ROW = [""] * len(HEADERS)
_WIDTHS = ["130px", "300px", "300px", "90px", "340px"]


def build_table(attributes: Sequence[Attribute], elem_id: str) -> gr.Dataframe:
    return gr.Dataframe(
        attribute_rows(attributes), headers=HEADERS, datatype="str", type="array", interactive=True,
        wrap=True, label="Attributes", show_label=False, elem_id=elem_id, buttons=[], max_height=420,
        column_widths=_WIDTHS,
    )  # fmt: skip


def read_attribute_table(rows: Sequence[Sequence[Any]]) -> tuple[Attribute, ...]:
    """The attributes of the table without its empty rows; InvalidInput quotes an invalid rate P*."""
    texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
    attributes = []
    for name, positive, negative, rate, source in ((*row, *EMPTY_ROW)[:5] for row in texts if any(row)):
        sentences = {"positive": positive, "negative": negative}
        attributes.append(Attribute(name=name, **sentences, reference=read_rate(rate, name), reference_source=source))
    return tuple(attributes)


def attribute_rows(attributes: Sequence[Attribute]) -> list[list[str]]:
    return [
        [a.name, a.positive, a.negative, "" if a.reference is None else f"{a.reference:g}", a.reference_source]
        for a in attributes
    ]


def without_rates_of_others(
    rows: Sequence[Sequence[str]], concept: str, emptied: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """The rows without real-world rates of other concepts, and the rows that lost theirs, unchanged.

    Rates of this concept among the rows ``emptied`` before are restored.
    """
    before = {tuple(row[:3]): [*row] for row in emptied}
    full = [before.get(tuple(row[:3]), [*row]) if not any(row[3:]) else [*row] for row in rows]
    theirs = [row for row in full if is_rate_of_another(row[4], _share_or_none(row[3]), concept)]
    return [[*row[:3], "", ""] if row in theirs else row for row in full], theirs


def rates_note(emptied: Sequence[Sequence[str]], concept: str) -> str:
    """A note on rows that lost their P*."""
    if not emptied:
        return ""
    names = format_list([f"“{row[0]}”" for row in emptied])
    return escape(
        f"P* of {names} was the real-world rate of another concept, not of “{concept}”; the cell is now empty. "
        "“Restore the set” brings the rows of the chosen set back."
    )


def get_association_words(chosen: AttributeSet) -> tuple[str, str]:
    """The two words of the association for a set: gender for people, valence for things."""
    names = {attribute.name for attribute in chosen.attributes}
    return ("pleasant", "unpleasant") if names == {"pleasant"} else ("male", "female")


def _share_or_none(text: str) -> float | None:
    with suppress(InvalidInput):
        return read_rate(text.strip(), "")
    return None


JUDGE_HINT = (
    "Optional: a vision-language model that answers for each picture, instead of the encoder. Or type org/name; "
    "for a classifier, org/name:Male=man,Female=woman"
)
CONDITION_HINT = "Bias that is built into its pictures"
FORCE_HINT = "Even if it is made for other pictures, as Calibration CLIP is; such results are not measurements"
HINT = "Or type org/name from the hub, or a local folder"


def model_choices(services: Services) -> list[tuple[str, str]]:
    """(label, id) of every named model: the one for this machine's GPU, built-in ones, then those that work here."""
    first = services.gpu_model()
    listed = [(info, services.model_fit(info.id)) for info in services.models()]
    listed.sort(key=lambda pair: (pair[0] != first, not pair[0].embedded, not pair[1].works))
    built_in = "checks the measures" if first else ""
    return [(" · ".join(filter(None, (info.name, fit.short or built_in))), info.id) for info, fit in listed]


def condition_choices(services: Services, model: str) -> list[tuple[str, str]]:
    """(name with its description, name) of each condition of a model."""
    lines = services.catalogue.conditions
    conditions = services.model_info(model).conditions
    return [(f"{name}: {lines[name][0].lower()}{lines[name][1:]}", name) for name in conditions]


def encoder_choices(services: Services) -> list[tuple[str, str]]:
    """(label with download size, id) of every named encoder."""
    return [("Automatic: suits the pictures and this machine", AUTO), *_reader_choices(services, "encoder")]


def judge_choices(services: Services) -> list[tuple[str, str]]:
    """(label, id) of no judge and of every named judge."""
    return [("None: the encoder decides on attributes", ""), *_reader_choices(services, "judge")]


def _reader_choices(services: Services, role: Role) -> list[tuple[str, str]]:
    facts = [services.reader_facts(role, info.id) for info in services.tools(role)]
    return [(f"{fact.name} · {fact.download_gb:g} GB" if fact.download_gb else fact.name, fact.id) for fact in facts]


def model_hint(services: Services, name: str) -> str:
    """The note under the menu for a chosen model, with its default classifier; for no model, what to type."""
    try:
        info = services.model_info(name)
    except UnknownModel:
        return HINT
    if info.embedded:
        return HINT
    facts = services.reader_facts("encoder", services.default_reader("encoder", info.world))
    says = without_variables(services.model_fit(name).says)
    return f"{says} By default, {reading_words(facts)} classifies its pictures."


def describe_model(services: Services, name: str) -> str:
    """Return the note below the form on a model as HTML; UnknownModel if it is none."""
    info = services.model_info(name)
    hint = "" if info.embedded else model_hint(services, name)
    return escape(" ".join(filter(None, (hint, info.note, f"Licence: {info.licence}." if info.licence else ""))))


class NoClassifierPart:
    """Buttons below the message that no classifier fits; hidden without it."""

    def __init__(self, key: str, services: Services) -> None:
        self.key, self.services = key, services
        self.box: Any = None  # in tabs that build the buttons

    def build(self) -> None:
        look: dict[str, Any] = {"size": "sm", "scale": 0, "min_width": 190}
        with gr.Row(visible=False, elem_classes="tools", elem_id=f"{self.key}-no-classifier") as self.box:
            self.choose = gr.Button("Choose a classifier", elem_id=f"{self.key}-choose-classifier", **look)
            self.label = gr.Button("Label these pictures", elem_id=f"{self.key}-label-instead", **look)
            self.score = gr.Button("Score anyway", elem_id=f"{self.key}-score-anyway", **look)

    def outputs(self) -> list[Any]:
        return [] if self.box is None else [self.box, self.label]

    def show(self, shown: bool, *, are_own: bool = False) -> dict[Any, Any]:
        """Show or hide the buttons; only own pictures exist already and can be labelled."""
        states = (shown, are_own)
        return {part: gr.update(visible=on) for part, on in zip(self.outputs(), states, strict=False)}

    def wire(self, encoder: Any, force: Any, folds: Sequence[Any], run_id: str) -> None:
        """Wire the buttons to the form; ``run_id`` is the element id of the button that runs."""
        folds = list(folds)
        focus = f"() => setTimeout(() => document.querySelector('#{encoder.elem_id} input')?.focus(), 300)"
        opened = [gr.update(open=True) for _ in folds]
        chosen = self.choose.click(lambda: [self.fitting(), *opened], None, [encoder, *folds], **QUIET)
        chosen.then(None, js=focus, **QUIET)
        forced = self.score.click(self.forcing, encoder, [force, encoder], **QUIET)
        forced.then(None, js=f"() => document.querySelector('#{run_id}').click()", **QUIET)

    def forcing(self, chosen: str) -> list[Any]:
        """The ticked box, and the chosen encoder; for an automatic one the first that is installed."""
        encoders = self.services.installed_readers("encoder")
        return [True, encoders[0] if chosen == AUTO and encoders else gr.skip()]

    def fitting(self) -> Any:
        """The first encoder for any pictures that suits this machine, for the menu; no update if there is none."""
        names = self.services.fitting_readers("encoder")
        return names[0] if names else gr.skip()
