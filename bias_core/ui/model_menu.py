"""Menus of models: each line says what a choice would download, and whether it fits this machine."""

import gradio as gr

from bias_core.errors import UnknownModel
from bias_core.services import Services
from bias_core.studies.kit.readers import FORCE_LABEL
from bias_core.studies.kit.types import AUTO

HINT = "Or type org/name of the hub, or a local folder"


def model_choices(services: Services) -> list[tuple[str, str]]:
    """(what is shown, id) of every model that has a name; the embedded ones first, then those that work."""
    listed = [(info, services.model_fit(info.id)) for info in services.models()]
    listed.sort(key=lambda pair: (not pair[0].embedded, not pair[1].works))
    return [(" · ".join(filter(None, (info.name, fit.short))), info.id) for info, fit in listed]


def encoder_choices(services: Services) -> list[tuple[str, str]]:
    """(what is shown, id) of every reader that has a name, with what it downloads on first use."""
    return [("Automatic: suits the pictures and this machine", AUTO)] + [
        (f"{info.name} · {info.download_gb:g} GB" if info.download_gb else info.name, info.id)
        for info in services.encoders()
    ]


def model_hint(services: Services, name: str) -> str:
    """What stands under the menu once a model is chosen; for a name that is no model, what to type."""
    try:
        info = services.model_info(name)
    except UnknownModel:
        return HINT
    return HINT if info.embedded else services.model_fit(name).says


def force_box(key: str) -> gr.Checkbox:
    """The box without which a reader of the calibration world is refused on other pictures."""
    return gr.Checkbox(
        False,
        label=FORCE_LABEL,
        info="Of pictures beyond its world what it says is no measurement",
        elem_id=f"{key}-force",
        min_width=240,
    )
