"""From what stands in the form to settings: parsing only, the limits are the core's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput
from bias_core.studies.explore_types import ExploreSettings
from bias_core.types import Attribute

if TYPE_CHECKING:
    from bias_core.studies.catalogue import AttributeSet

HEADERS = ["name", "positive sentence", "negative sentence", "P*", "source of P*"]

FIELDS = (
    "concept",
    "template",
    "attributes",
    "model",
    "condition",
    "encoder",
    "n_images",
    "num_inference_steps",
    "guidance_scale",
    "negative_prompt",
    "seed",
    "attribute_a",
    "attribute_b",
    "n_attribute_images",
    "n_clusters",
    "confidence",
    "force",
)
"""The form's values in the order in which handlers receive them."""

Row = list[str]


def read_form(values: Sequence[Any]) -> ExploreSettings:
    """The settings that the form asks for.

    Raises
    ------
    InvalidInput
        A number that is none, or an attribute row with a hole; the message quotes it.
    """
    form = dict(zip(FIELDS, values, strict=True))
    return ExploreSettings(
        concept=_text(form["concept"]),
        template=_text(form["template"]),
        attributes=read_attributes(form["attributes"]),
        attribute_a=_text(form["attribute_a"]),
        attribute_b=_text(form["attribute_b"]),
        model=_text(form["model"]),
        condition=_text(form["condition"]),
        encoder=_text(form["encoder"]),
        n_images=_whole(form["n_images"], "number of pictures"),
        n_attribute_images=_whole(form["n_attribute_images"], "number of pictures per side"),
        num_inference_steps=_whole_or_none(form["num_inference_steps"], "number of denoising steps") or None,
        guidance_scale=None if _blank(form["guidance_scale"]) else float(form["guidance_scale"]),
        negative_prompt=_text(form["negative_prompt"]),
        seed=_whole(form["seed"], "seed"),
        n_clusters=_whole_or_none(form["n_clusters"], "number of groups") or None,
        confidence=float(form["confidence"]) / 100,
        force=bool(form["force"]),
    )


def form_values(settings: ExploreSettings) -> dict[str, Any]:
    """What the form shows for these settings; the condition's menu is the model's business."""
    values = {name: getattr(settings, name) for name in FIELDS}
    return values | {
        "attributes": attribute_rows(settings.attributes),
        "n_clusters": settings.n_clusters or 0,
        "confidence": round(100 * settings.confidence),
    }


def read_attributes(rows: Sequence[Sequence[Any]]) -> tuple[Attribute, ...]:
    """The attributes of the table; rows without any text are left out."""
    texts = [[_text(cell) for cell in row] for row in rows]
    return tuple(_attribute(row) for row in texts if any(row))


def attribute_rows(attributes: Sequence[Attribute]) -> list[Row]:
    """The table's rows for these attributes."""
    return [
        [
            a.name,
            a.positive,
            a.negative,
            "" if a.reference is None else f"{a.reference:g}",
            a.reference_source,
        ]
        for a in attributes
    ]


def words_for(chosen: AttributeSet) -> tuple[str, str]:
    """The association's two words that suit a set: gender for people, valence for things."""
    names = {attribute.name for attribute in chosen.attributes}
    return ("pleasant", "unpleasant") if names == {"pleasant"} else ("male", "female")


def _attribute(row: Row) -> Attribute:
    name, positive, negative, rate, source = (*row, "", "", "", "", "")[:5]
    return Attribute(
        name=name,
        positive=positive,
        negative=negative,
        reference=_rate(rate, name),
        reference_source=source,
    )


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


def _whole(value: Any, name: str) -> int:
    number = math.nan if _blank(value) else float(value)
    if not number.is_integer():
        raise InvalidInput(f"the {name} must be a whole number, got {'nothing' if _blank(value) else value}")
    return int(number)


def _whole_or_none(value: Any, name: str) -> int | None:
    return None if _blank(value) else _whole(value, name)


def _blank(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _text(value: Any) -> str:
    return "" if _blank(value) else str(value).strip()
