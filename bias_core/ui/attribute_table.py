"""The table of attributes in a form: its rows, and what stands in them."""

import math
from collections.abc import Sequence
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.kit.attributes import AttributeSet
from bias_core.types import Attribute

HEADERS = ["name", "positive sentence", "negative sentence", "P*", "source of P*"]
EMPTY_ROW = [""] * len(HEADERS)
_WIDTHS = ["130px", "300px", "300px", "90px", "340px"]


def build_table(attributes: Sequence[Attribute], elem_id: str) -> gr.Dataframe:
    """The component."""
    return gr.Dataframe(
        attribute_rows(attributes), headers=HEADERS, datatype="str", type="array", interactive=True,
        wrap=True, label="Attributes", show_label=False, elem_id=elem_id, buttons=[], max_height=420,
        column_widths=_WIDTHS,
    )  # fmt: skip


def read_table(rows: Sequence[Sequence[Any]]) -> tuple[Attribute, ...]:
    """The attributes of the table without its empty rows; InvalidInput quotes a rate P* that is none."""
    texts = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
    attributes = []
    for name, positive, negative, rate, source in ((*row, *EMPTY_ROW)[:5] for row in texts if any(row)):
        sentences = {"positive": positive, "negative": negative}
        attributes.append(Attribute(name=name, **sentences, reference=_rate(rate, name), reference_source=source))
    return tuple(attributes)


def attribute_rows(attributes: Sequence[Attribute]) -> list[list[str]]:
    """The table's rows for these attributes."""
    return [
        [a.name, a.positive, a.negative, "" if a.reference is None else f"{a.reference:g}", a.reference_source]
        for a in attributes
    ]


def words_for(chosen: AttributeSet) -> tuple[str, str]:
    """The association's two words that suit a set: gender for people, valence for things."""
    names = {attribute.name for attribute in chosen.attributes}
    return ("pleasant", "unpleasant") if names == {"pleasant"} else ("male", "female")


def _rate(text: str, name: str) -> float | None:
    """0.56, 56 % or nothing."""
    if not text:
        return None
    try:
        share = float(text.removesuffix("%").replace(",", "."))
    except ValueError:
        share = math.nan
    if math.isnan(share):
        raise InvalidInput(f"attribute {name!r}: P* is a share such as 0.56 or 56 %, got {text!r}")
    return round(share / 100, 12) if text.endswith("%") else share
