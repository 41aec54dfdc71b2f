"""The JSON of the tools and of ``--json``: a summary by default, all of it or one part if asked for.

Every answer is one object. A summary has at most :data:`MOST_BYTES` and says in ``more`` which call gives the rest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

from bias_core.errors import InvalidInput, quoted
from bias_core.measures.cards import METRICS
from bias_core.report.commands import is_shipped
from bias_core.report.corrected import Correction
from bias_core.report.documents import to_dict
from bias_core.report.headlines import clearance, headline
from bias_core.report.report_text import LIMITS, Row, finding_rows, get_title, plain
from bias_core.run.next_steps import CORRECTED_SUFFIX, next_steps
from bias_core.run.plan import settle
from bias_core.store.found_pictures import PictureLook
from bias_core.store.manifests import RunHead
from bias_core.study.attributes import AttributeSet
from bias_core.study.design import find_design, format_summary, option_settings
from bias_core.study.types import Design, StudyReport, StudySettings
from bias_core.study_services import StudyServices
from bias_core.types import ModelInfo

MOST_BYTES = 8_000
"""Bytes of a summary, about 2,000 tokens of a language model."""
SUMMARY: Literal["summary"] = "summary"
FULL: Literal["full"] = "full"
Detail = Literal["summary", "full"]  # of a tool that runs something; others also take the name of a part
DETAIL = f'"{SUMMARY}": what stands out, at most 8 kB; "{FULL}": everything'
OR_PART = "; or the name of one part or entry that the summary lists"
_MOST_NUMBERS, _MOST_WORDS = 8, 10
_TEXT_LENGTHS = (600, 200, 60)  # letters of a text, in turn until the summary fits
_EXACT = {"run_id", "command", "tool", "arguments", "attribute", "more"}  # a call must stay as it is
_OF_A_NUMBER = ("finding", "value", "low", "high", "n", "null_value", "p_adjusted", "clear", "says")
_OF_A_MODEL = ("id", "name", "conditions", "default_steps", "default_guidance", "licence", "note")
_OF_A_MEASURE = (
    "key", "name", "summary", "reference", "equation", "bounds", "null_value", "higher_means", "limits",
)  # fmt: skip


def report_answer(report: StudyReport, services: StudyServices | None, detail: str = SUMMARY) -> Row:
    """Return the report's headline, the numbers that stand out, and the next steps."""
    steps = [dict(plain(step.values())) for step in (next_steps(report, services) if services else ())]
    full = to_dict(report) | {"next_steps": steps}
    if detail != SUMMARY:
        return _select_part(full, detail)
    summary = {
        "run_id": report.run_id,
        "study": report.design.name,
        "title": get_title(report),
        "headline": headline(report),
        **{name: full[name] for name in ("warning", "stop_rule") if full[name]},
        **({"unknown_words": full["unknown_words"][:_MOST_WORDS]} if full["unknown_words"] else {}),
        **{name: full[name] for name in ("n_planned", "n_images", "n_blocked")},
        "n_numbers": len(full["findings"]),
        "stands_out": plain(_clearest(report)),
        "limits": LIMITS,
        "next_steps": steps,
        "more": _more("get_report", full, run_id=report.run_id),
    }
    return _fitted(summary, "stands_out", "next_steps")


def _clearest(report: StudyReport) -> list[Row]:
    """Return the clear numbers first, those of the study's main measure before others."""
    found = zip(report.results.findings, finding_rows(report), strict=True)
    rows = [row for finding, row in found if not finding.key.endswith(CORRECTED_SUFFIX)]  # the same share again
    main = rows[0]["measure"] if rows else ""
    ordered = sorted(
        rows, key=lambda row: (row["measure"] != main, row["restates"] != "", row["clear"] != "yes", -clearance(row))
    )
    return [{name: row[name] for name in _OF_A_NUMBER} for row in ordered[:_MOST_NUMBERS]]


def correction_answer(correction: Correction, detail: str = SUMMARY) -> Row:
    """Return the corrected numbers of a run, with the number of further labels that each needs."""
    full = dict(plain(correction.values()))
    if detail != SUMMARY:
        return _select_part(full, detail)
    rows = [
        {
            "finding": number.title, "value": number.corrected.value,
            "low": number.corrected.low, "high": number.corrected.high,
            "n": number.corrected.n, "null_value": number.corrected.null_value, "p_adjusted": number.claim.p_adjusted,
            "clear": number.claim.word, "as_classified": number.as_read.value, "n_labelled": number.n_labelled,
            "labels_for_5_points": number.budget,
        }
        for number in correction.numbers
    ]  # fmt: skip
    summary = {
        "run_id": correction.run_id,
        "headline": correction.headline,
        "n_labelled": correction.n_labelled,
        "n_asked": correction.n_asked,
        "n_raters": correction.n_raters,
        "n_numbers": len(rows),
        "stands_out": plain(rows),
        "more": _more("corrected_run", full, run_id=correction.run_id),
    }
    return _fitted(summary, "stands_out")


def studies_answer(designs: Iterable[Design], detail: str = SUMMARY) -> Row:
    """Return studies with their titles and sizes; in full, also their options."""
    entries = {design.name: study_values(design) for design in designs}
    short = ("name", "title", "reference", "pictures_at_full_size")
    return listed_answer("list_studies", "studies", entries, short, detail)


def study_values(design: Design) -> Row:
    """Return what a study asks and draws, with its options."""
    options = list(option_settings(design).values())
    return {
        "name": design.name,
        "title": design.title,
        "summary": format_summary(design),
        "reference": design.reference,
        "redraws": design.where,
        "pictures_at_full_size": full_size(design),
        "options": {option.name: plain(option.default) for option in options},
        "ranges": {option.name: option.description()["range"] for option in options if option.range_words},
        "option_settings": [plain(option.description()) for option in options],
    }


def full_size(design: Design) -> int:
    """Return the number of pictures of a study at full size; 0 if it uses uploaded ones."""
    return _full_size(design.name) if is_shipped(design) else _n_pictures(design)


@cache
def _full_size(name: str) -> int:
    return _n_pictures(find_design(name))


def _n_pictures(design: Design) -> int:
    request = settle(design, StudySettings())
    return sum(shot.n for shot in request.requested_shots)


def models_answer(models: Iterable[ModelInfo], detail: str = SUMMARY) -> Row:
    """Return models with their conditions; in full, also their defaults, licence and a note."""
    entries = {info.id: _pick_fields(info, _OF_A_MODEL) for info in models}
    return listed_answer("list_models", "models", entries, ("id", "name", "conditions"), detail)


def attributes_answer(sets: Iterable[AttributeSet], detail: str = SUMMARY) -> Row:
    """Return the names of the built-in attributes by set; in full, also their sentences, rates P* and sources."""
    sets = list(sets)
    if detail == SUMMARY:
        names = {
            attribute_set.key: {"key": attribute_set.key, "attributes": [a.name for a in attribute_set.attributes]}
            for attribute_set in sets
        }
        return listed_answer("list_attribute_sets", "sets", names, ("key", "attributes"), detail)
    return listed_answer(
        "list_attribute_sets", "sets", {attribute_set.key: asdict(attribute_set) for attribute_set in sets}, (), detail
    )


def measures_answer(detail: str = SUMMARY) -> Row:
    """Return the measures with the value that means no bias; in full, also their limits and inputs."""
    entries = {
        metric.key: _pick_fields(metric, _OF_A_MEASURE) | {"inputs": plain([asdict(item) for item in metric.inputs])}
        for metric in METRICS.values()
    }
    return listed_answer("list_measures", "measures", entries, ("key", "name", "bounds", "null_value"), detail)


def look_answer(look: PictureLook, detail: str = SUMMARY) -> Row:
    """Return what was understood of a folder or zip of pictures; in full, also the names of all files."""
    facts = ("prompt", "n", "sources", "checks", "ways", "samplers", "n_seeds")
    full: Row = {
        "name": look.name,
        "n_pictures": look.n,
        "n_left_out": len(look.left_out),
        "prompts": [
            plain({name: getattr(summary, name) for name in facts} | {"files": summary.names})
            for summary in look.prompts
        ],
        "left_out": look.left_out_lines,
        "notes": [{"says": sentence, "n": len(lines), "files": list(lines)} for sentence, lines in look.notes],
    }
    if detail != SUMMARY:
        return _select_part(full, detail)
    short = [{name: summary[name] for name in facts} for summary in full["prompts"]]
    notes = [{"says": sentence, "n": len(lines)} for sentence, lines in look.notes]
    next_call = {"tool": "look_at_pictures", "arguments": {"detail": FULL}, "n": len(short)}
    left_out = full["left_out"][:_MOST_LEFT_OUT]
    return _fitted({**full, "prompts": short, "left_out": left_out, "notes": notes, "more": next_call}, "prompts")


_MOST_LEFT_OUT = 10  # pictures, in a summary


def runs_answer(runs: Iterable[RunHead]) -> Row:
    """Return the runs on record."""
    rows = [
        {
            "run_id": run.id, "study": run.study, "title": run.title, "model": run.model,
            "n_images": len(run.image_ids), "status": run.status, "is_kept": run.is_kept,
            "updated": datetime.fromtimestamp(run.updated, UTC).isoformat(timespec="seconds"),
        }
        for run in runs
    ]  # fmt: skip
    return {"runs": rows}


def format_json(answer: Row) -> str:
    """Return an answer as the JSON that ``--json`` prints."""
    return json.dumps(answer, indent=2, ensure_ascii=False)


def _pick_fields(of: Any, names: tuple[str, ...]) -> Row:
    return {name: plain(getattr(of, name)) for name in names}


def listed_answer(tool: str, title: str, entries: Mapping[str, Row], short: Sequence[str], detail: str) -> Row:
    """Return a list: some fields of every entry, everything, or one entry."""
    if detail == FULL:
        return {title: list(entries.values())}
    if detail != SUMMARY:
        return {title: [_select_part(entries, detail)[detail]]}
    rows = [{name: entry[name] for name in short} for entry in entries.values()]
    next_call = {"tool": tool, "arguments": {"detail": FULL}, "n": len(rows)}
    return _fitted({title: plain(rows), "more": next_call}, title)


def _select_part(full: Mapping[str, Any], detail: str) -> Row:
    """Return everything, or one part of it; InvalidInput lists the parts."""
    if detail == FULL:
        return dict(full)
    if detail not in full:
        raise InvalidInput(f"no detail {quoted(detail)}; choose {SUMMARY}, {FULL}, {', '.join(full)}")
    return {detail: full[detail]}


def _more(tool: str, full: Mapping[str, Any], **arguments: str) -> Row:
    """Return the call for the full answer, and the bytes of its larger parts, which can be asked for by name."""
    sizes = {name: n_bytes(part) for name, part in full.items() if isinstance(part, (dict, list)) and part}
    return {"tool": tool, "arguments": {**arguments, "detail": FULL}, "bytes_by_detail": {FULL: n_bytes(full), **sizes}}


def n_bytes(answer: Any) -> int:
    """Return the length of an answer as JSON."""
    return len(json.dumps(answer, ensure_ascii=False).encode())


def _fitted(summary: Row, *lists: str) -> Row:
    """Return the summary in at most :data:`MOST_BYTES`: long texts lose their ends, the lists their last entries."""
    for length in _TEXT_LENGTHS:
        cut: Row = _shortened(summary, length)
        while n_bytes(cut) > MOST_BYTES and any(len(cut[name]) > 1 for name in lists):
            largest = max((name for name in lists if len(cut[name]) > 1), key=lambda name: n_bytes(cut[name]))
            cut[largest] = cut[largest][:-1]
        if n_bytes(cut) <= MOST_BYTES:
            return cut
    return cut | {name: [] for name in lists}


def _shortened(value: Any, length: int) -> Any:
    if isinstance(value, dict):
        return {key: item if key in _EXACT else _shortened(item, length) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, length) for item in value]
    return f"{value[: length - 1]}…" if isinstance(value, str) and len(value) > length else value
