"""A report in every form in which it is handed on: to people who read it, to programs, and to a model's own card."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bias_core.errors import InvalidInput, quoted
from bias_core.exchange.export import write_folder, write_zip
from bias_core.store.files import write_atomically
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.reports.evaluation_records import to_every_eval_ever
from bias_core.studies.reports.model_card import to_model_card
from bias_core.studies.reports.report_page import to_html
from bias_core.studies.running.export import facts_of, to_export


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of a report."""

    title: str  # on its button
    purpose: str  # what it is good for, in a sentence
    ending: str  # of the file's name
    write: Callable[[StudyReport], bytes]
    is_text: bool = True  # UTF-8


FORMS: Mapping[str, Form] = {
    "html": Form(
        title="Report to read",
        purpose="One page with pictures, figures, numbers, limits and sources; opens anywhere without a network.",
        ending=".html",
        write=lambda report: to_html(report, facts_of(report)).encode(),
    ),
    "md": Form(
        title="Report as text (Markdown)",
        purpose="For a wiki, a notebook or an issue.",
        ending=".md",
        write=lambda report: to_markdown(report, beside=False).encode(),
    ),
    "card": Form(
        title="Section for a model card",
        purpose="Markdown for the card of the model on a hub.",
        ending="-model-card.md",
        write=lambda report: to_model_card(report, facts_of(report)).encode(),
    ),
    "json": Form(
        title="All numbers (JSON)",
        purpose="For programs.",
        ending=".json",
        write=lambda report: json.dumps(to_dict(report), indent=2, ensure_ascii=False).encode(),
    ),
    "every_eval_ever": Form(
        title="Records for Every Eval Ever (zip)",
        purpose="A JSON record for each model and arm, in the shared schema for results of evaluations.",
        ending="-every-eval-ever.zip",
        write=lambda report: to_every_eval_ever(report, facts_of(report)),
        is_text=False,
    ),
}
"""The forms of a report that are one file, by the names that the command line and the page call them."""


def to_form(report: StudyReport, name: str) -> bytes:
    """The report in one of the forms; InvalidInput lists them where there is no such."""
    if name not in FORMS:
        raise InvalidInput(f"a report is no {quoted(name)}; it can be {', '.join(FORMS)} or zip")
    return FORMS[name].write(report)


def write_report(report: StudyReport, place: Path, *, pictures: bool = False) -> Path:
    """As the ending of ``place`` says: one file of :data:`FORMS`, a .zip, or else a folder of all files."""
    fitting = [name for name, form in FORMS.items() if place.name.lower().endswith(form.ending)]
    if fitting:  # the longest says most
        write_atomically(place, to_form(report, max(fitting, key=lambda name: len(FORMS[name].ending))))
        return place
    write = write_zip if place.suffix.lower() == ".zip" else write_folder
    return write(to_export(report, pictures=pictures), place)
