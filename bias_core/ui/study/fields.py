"""Plain fields of settings: one HTML form, made from their declarations, whose values arrive as one text.

Gradio's own fields would add some hundred components to the page. What is typed stands in a hidden text, so that it is
there whether the fields are shown or folded away.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from bias_core.ui.templates import render, script
from bias_core.values import Setting, is_nothing

Updates = dict[Any, Any]
_KINDS = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting in a form; its label and hint are those of the setting unless given."""

    name: str
    setting: Setting
    label: str = ""
    hint: str = ""
    menu: Sequence[tuple[str, str]] = ()  # suggestions: label and value
    is_wide: bool = False
    draws: bool = False  # True if it says nothing about pictures of one's own

    @property
    def title(self) -> str:
        return self.label or (f"{self.setting.label}, %" if self.setting.percent else self.setting.label)

    @property
    def kind(self) -> str:
        """Return the kind of field: "box", "choice" or "text"."""
        return "box" if self.setting.kind is bool else "choice" if self.setting.choices else "text"


Groups = Mapping[str, Sequence[Field]]
"""Fields by the heading above them."""


class PlainFields:
    def __init__(self, key: str) -> None:
        self.key = key

    def build(self, groups: Groups, values: Mapping[str, Any]) -> None:
        html, text = self._render(groups, values)
        place = script("fields", key=self.key)
        self.html = gr.HTML(html, js_on_load=place, elem_id=f"{self.key}-fields")
        self.values = gr.Textbox(text, visible="hidden", elem_id=f"{self.key}-values")

    def outputs(self) -> list[Any]:
        return [self.html, self.values]

    def show(self, groups: Groups, values: Mapping[str, Any]) -> Updates:
        """Return these fields with these values, as they are shown; a field without one has its default."""
        html, text = self._render(groups, values)
        return {self.html: html, self.values: text}

    def _render(self, groups: Groups, values: Mapping[str, Any]) -> tuple[str, str]:
        fields = [field for group in groups.values() for field in group]
        shown = {
            field.name: values.get(field.name, field.setting.format_value(field.setting.default)) for field in fields
        }
        return render("fields", key=self.key, groups=groups, values=shown), json.dumps(shown)


def read_plain(text: object) -> dict[str, Any]:
    """Return what the fields hold, by name; {} for a text that no page has written."""
    try:
        values = json.loads(str(text or "{}"))
    except (ValueError, RecursionError):
        return {}
    is_read = isinstance(values, dict) and all(isinstance(value, _KINDS) for value in values.values())
    return values if is_read else {}


def read_field(setting: Setting, value: Any) -> Any:
    """Return a value that a form shows, as settings have it; the default for an empty number.

    Raises InvalidInput, which quotes an invalid value.
    """
    is_empty = is_nothing(value) and setting.kind not in (str, tuple)
    return setting.default if is_empty else setting.read_shown(value)
