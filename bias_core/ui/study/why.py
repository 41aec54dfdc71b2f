"""Why a picture is read as it is: the score of each text or answer, what people say of it, and what is on record."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bias_core.metrics.paired_labels import GENDERS
from bias_core.number_text import format_number
from bias_core.services import Services
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.text import read_by
from bias_core.studies.running.corrected import PeopleAnswers
from bias_core.studies.running.run_readings import CODES, NO, YES, Reading, readings_of
from bias_core.types import StoredImage
from bias_core.ui.templates import render

_COLUMNS = {
    "yes": "for it", "no": "against it", "margin": "margin", "read": "read as", "people": "people say",
    "record": "on record",
}  # fmt: skip
_WORDS = {CODES[YES]: "there", CODES[NO]: "not there"}
_UNCLEAR = "cannot tell"
_SCORES = (": positive", ": negative", ": nearer by")  # how the names of their columns end


def why_html(report: StudyReport, image_id: str, services: Services) -> str:
    """Each attribute of a picture, and each person in it, as it was read; "" where nothing was read in it."""
    stored = report.stored.get(image_id)
    readings = [] if stored is None else [one for one in readings_of(report) if image_id in one.image_ids]
    if stored is None or not readings:
        return ""
    given, rows = services.run_answers(report.run_id), list[dict[str, str]]()
    answers = None if given is None else PeopleAnswers(given)
    for reading in readings:
        here = reading.only(np.array([one == image_id for one in reading.image_ids]))
        votes = None if answers is None else answers.votes(here)
        for i in range(len(here.codes)):
            of = _of_attribute if here.attribute is not None else _of_person
            rows.append(of(report, here, i, stored, services.shown) | {"people": _votes(votes, i, here)})
    shown = {key: name for key, name in _COLUMNS.items() if any(row[key] for row in rows)}
    return render("why", rows=rows, columns=shown, reader=read_by(report.settings), judged=bool(report.settings.judge))


def _of_attribute(
    report: StudyReport, reading: Reading, i: int, stored: StoredImage, shown: Callable[..., float | None]
) -> dict[str, str]:
    attribute, frame = reading.attribute, report.pictures
    if attribute is None or frame is None:
        return {}
    row = frame[frame["image_id"] == reading.image_ids[i]].iloc[0]
    yes, no, margin = (
        format_number(float(row[column])) if column in row and not math.isnan(row[column]) else ""
        for column in (f"{attribute.name}{end}" for end in _SCORES)
    )
    share = None if stored.truth is None else shown(attribute.positive, [stored.truth])
    return {
        "name": attribute.name,
        "texts": f"“{attribute.positive}” against “{attribute.negative}”",
        "yes": yes,
        "no": no,
        "margin": margin,
        "read": _WORDS.get(int(reading.codes[i]), _UNCLEAR),
        "record": "" if share is None or math.isnan(share) else _WORDS[int(share > 0.5)],
    }


def _of_person(
    report: StudyReport, reading: Reading, i: int, _stored: StoredImage, _shown: Callable[..., float | None]
) -> dict[str, str]:
    arm = next((arm.results for arm in report.arms if arm.name == reading.arm), report.results)
    labels = arm.frame("labels")
    row: dict[str, Any] = {}
    for one in labels.to_dict("records"):
        if (one["image_id"], one["position"]) == (reading.image_ids[i], reading.positions[i]):
            row = {str(key): value for key, value in one.items()}
    lean = row.get("lean")
    return {
        "name": f"{row.get('identity', 'person')}, {reading.positions[i]}",
        "texts": f"“{GENDERS[0]}” or “{GENDERS[1]}”",
        "yes": "",
        "no": "",
        "margin": format_number(float(lean)) if isinstance(lean, float) and not math.isnan(lean) else "",
        "read": str(row.get("automatic", "")).replace("_", " "),
        "record": str(row["truth"]) if isinstance(row.get("truth"), str) else "",
    }


def _votes(votes: np.ndarray | None, i: int, reading: Reading) -> str:
    """How many raters say so, in words; "" where nobody answered."""
    codes = np.array([]) if votes is None else votes[i][~np.isnan(votes[i])]
    if not codes.size:
        return ""
    n_yes = int((codes == CODES[YES]).sum())
    if reading.attribute is None:
        return f"{n_yes} of {codes.size}: {reading.stereotypes[i]}"
    return f"{n_yes} of {codes.size}: there"
