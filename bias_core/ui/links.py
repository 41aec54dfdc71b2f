"""Addresses of the page: the tab and the values for its form. Opening one runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from bias_core.measures.cards import metric
from bias_core.report.commands import is_shipped
from bias_core.services import Services
from bias_core.study.design import find_design, option_settings, typed_options
from bias_core.study.types import Arm, StudyReport, StudySettings, arm_text, parse_arms
from bias_core.ui.messages import user_errors
from bias_core.ui.templates import render
from bias_core.values import changed_settings, check_texts, declared_settings
from bias_core.wording import shorten

Tabs = Mapping[str, Sequence[str]]  # keys of the tabs, each with the names of its studies
EXPLORE = "explore"
OPTION = "option."  # prefix of an option's name in addresses and forms
_LONGEST, _MOST_NAMES = 200, 200  # characters of a value; names of one address
_LONGEST_LIST = 3_000  # characters of a list of concepts
_SHOWN = 60
_ALWAYS = ("model", "condition", "scale", "seed")
_TOO_LONG = ("attributes",)  # the form has those of the concept
ARMS = "||"  # stands between the arms of an address


@dataclass(frozen=True, kw_only=True)
class Link:
    """An address that was checked."""

    tab: str = ""  # key of a tab that exists, "" for none
    # by name, those that can stand in that tab's form: ``study``, ``concept``, ``arms``, ``measure``, the settings by
    # their :attr:`~bias_core.values.Setting.key`, and ``options``
    values: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()  # unknown parts of the address, as text
    run: str = ""  # id of a shared run to show in that tab


def read_link(query: Mapping[str, str], tabs: Tabs, services: Services) -> Link:
    """The tab and the values of an address; other names are ignored."""
    ours = ("tab", *_READ, *_SETTINGS, *(name for name in query if name.startswith(OPTION)))
    texts = {name: query[name] for name in ours[:_MOST_NAMES] if query.get(name)}
    tab = texts.pop("tab", EXPLORE if texts else "")
    if tab not in tabs:
        return Link(ignored=(_quoted("tab", tab),) if tab else ())
    values: dict[str, Any] = {}
    ignored = []
    for name, text in texts.items():
        value = None
        with user_errors():
            check_texts(name, text)
            value = _read_value(name, text, tabs[tab], services, values)
        if value is None:
            ignored.append(_quoted(name, text))
        elif name.startswith(OPTION):
            values.setdefault("options", {})[name.removeprefix(OPTION)] = value
        else:
            values[name] = value
    return Link(tab=tab, values=values, ignored=tuple(ignored))


def get_query(request: Any) -> Mapping[str, str]:
    """The query of the visitor's address; empty if a handler is called without a page."""
    return {} if request is None else dict(request.query_params)


def build_link(tab: str, report: StudyReport, arms: Sequence[Arm] | None = None) -> str:
    """The address of a tab with a report's settings, its ``arms`` unless given; "" for own words or pictures."""
    settings, design = report.settings, report.design
    arms = settings.arms if arms is None else arms
    if settings.images or any(arm.images for arm in arms) or not is_shipped(design):
        return ""
    declared = declared_settings(StudySettings)
    chosen = [*_ALWAYS, *(name for name in changed_settings(settings) if name not in _ALWAYS)]
    texts = {"tab": tab, "study": design.name}
    texts |= {
        declared[name].key: _write_value(declared[name].format_value(getattr(settings, name)))
        for name in chosen
        if declared[name].may_be_linked
    }
    options = option_settings(design)
    texts |= {
        name if name == "concept" else OPTION + name: setting.write(getattr(settings.options, name))
        for name, setting in options.items()
        if name not in _TOO_LONG and (name == "concept" or getattr(settings.options, name) != setting.default)
    }
    texts["arms"] = ARMS.join(arm_text(arm) for arm in arms)
    return "?" + urlencode({name: text for name, text in texts.items() if text != ""})


def notice_html(link: Link) -> str:
    """A note on the unknown parts of an address; "" if all are known."""
    return render("link_notice", ignored=link.ignored) if link.ignored else ""


def _read_value(name: str, text: str, studies: Sequence[str], services: Services, values: Mapping[str, Any]) -> Any:
    """The value of a name as forms show it, given the ``values`` read before; None if it is invalid."""
    if name.startswith(OPTION):
        study = values.get("study") or next(iter(studies), "")
        option = name.removeprefix(OPTION)
        return getattr(typed_options(find_design(study), {option: text}), option) if study else None
    match name:
        case "study":
            return text if text in studies else None
        case "model":
            return services.model_info(text).id
        case "condition":
            return text if text in services.model_info(values.get("model", StudySettings().model)).conditions else None
        case "concept":
            concept = " ".join(text.split())
            return concept if 0 < len(concept) <= _LONGEST_LIST else None
        case "arms":
            arms = parse_arms(text.split(ARMS))
            return arms if len(arms) > 1 and not any(arm.images for arm in arms) else None
        case "measure":
            return metric(text).key
    setting = _SETTINGS[name]
    if setting.kind is str and len(text) > _LONGEST:
        return None
    value = setting.read_shown(text)
    StudySettings(**{setting.name: value})  # raises where it is outside of its range
    return setting.format_value(value)


_READ = ("study", "model", "condition", "concept", "arms", "measure")
_SETTINGS = {
    setting.key: setting
    for setting in declared_settings(StudySettings).values()
    if setting.may_be_linked and setting.key not in _READ
}


RUN = "run"  # name of a shared run's id
LINK_NAMES = (*_READ, *_SETTINGS, RUN)  # names in an address besides the tab and options


def _write_value(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _quoted(name: str, text: str) -> str:
    return f"{name} “{shorten(text, _SHOWN)}”"
