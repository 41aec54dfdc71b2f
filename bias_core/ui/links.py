"""What an address asks for: which tab, and what should stand in its form. Nothing of it is ever run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import metric
from bias_core.studies.study_export import is_shipped
from bias_core.ui.messages import user_errors
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.study_types import StudyReport

Tabs = Mapping[str, Sequence[str]]
"""Keys of the tabs, each with the names of its studies."""
EXPLORE = "explore"
_LONGEST = 200  # characters of a value
_SHOWN = 60
_SEEDS = 2**31


@dataclass(frozen=True, kw_only=True)
class Link:
    """An address that was checked.

    Attributes
    ----------
    tab : key of a tab that exists, "" for none.
    values : by name, those that can stand in that tab's form: ``study``, ``model``, ``condition``,
        ``percent``, ``seed``, ``concept``, ``measure``.
    ignored : what was asked for and is not known, in words.
    """

    tab: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def read_link(query: Mapping[str, str], tabs: Tabs, services: Services) -> Link:
    """The tab and the values of an address; names that are not ours are other people's business."""
    asked = {name: query[name] for name in ("tab", *_READ) if query.get(name)}
    tab = asked.pop("tab", EXPLORE if asked else "")
    if tab not in tabs:
        return Link(ignored=(_quoted("tab", tab),) if tab else ())
    found: dict[str, Any] = {}
    ignored = []
    for name, text in asked.items():
        value = None
        with user_errors():
            value = _READ[name](_Asked(text=text, studies=tabs[tab], services=services, found=found))
        if value is None:
            ignored.append(_quoted(name, text))
        else:
            found[name] = value
    return Link(tab=tab, values=found, ignored=tuple(ignored))


def query_of(request: Any) -> Mapping[str, str]:
    """The query of the visitor's address; nothing where a handler is called without a page."""
    return {} if request is None else dict(request.query_params)


def address_of(tab: str, report: StudyReport) -> str:
    """The address of a tab with a report's settings; one's own words and pictures do not travel in it."""
    settings, design = report.settings, report.design
    if settings.images or not is_shipped(design):
        return f"?tab={tab}"
    asked = {
        "tab": tab,
        "study": design.name,
        "model": settings.model,
        "condition": settings.condition,
        "percent": f"{100 * settings.scale:g}",
        "seed": settings.seed,
    }
    return "?" + urlencode({k: v for k, v in asked.items() if v != ""})


def notice_html(link: Link) -> str:
    """What to tell of an address that asked for unknown things; "" where all is known."""
    return render("link_notice", ignored=link.ignored) if link.ignored else ""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    text: str
    studies: Sequence[str]
    services: Services
    found: Mapping[str, Any]


def _study(asked: _Asked) -> str | None:
    return asked.text if asked.text in asked.studies else None


def _model(asked: _Asked) -> str:
    return asked.services.model_info(asked.text).id


def _condition(asked: _Asked) -> str | None:
    model = asked.found.get("model", "calibration-renderer")
    return asked.text if asked.text in asked.services.model_info(model).conditions else None


def _percent(asked: _Asked) -> float | None:
    number = _number(asked.text)
    return number if 0 < number <= 100 else None


def _seed(asked: _Asked) -> int | None:
    number = _number(asked.text)
    return int(number) if number.is_integer() and 0 <= number < _SEEDS else None


def _concept(asked: _Asked) -> str | None:
    text = " ".join(asked.text.split())
    return text if 0 < len(text) <= _LONGEST else None


def _measure(asked: _Asked) -> str:
    return metric(asked.text).key


_READ = {
    "study": _study,
    "model": _model,
    "condition": _condition,
    "percent": _percent,
    "seed": _seed,
    "concept": _concept,
    "measure": _measure,
}  # a condition is read after its model


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(f"not a number: {text!r}") from error


def _quoted(name: str, text: str) -> str:
    return f"{name} “{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}”"
