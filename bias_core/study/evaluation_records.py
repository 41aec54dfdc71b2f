"""A report's numbers as records of another program, ``every_eval_ever`` 0.3.

One record is about one model, so a report of several arms has one for each of them. Each number goes along with its
interval, its n and what is known of the classifier's errors; there is no composite score.
"""

import hashlib
import io
import json
import math
import re
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from bias_core.errors import InvalidInput, UnknownModel
from bias_core.measures.cards import METRICS, Card, with_works
from bias_core.models.catalogue import hosted_name, is_hub_id, load_catalogue, split_revision
from bias_core.number_text import format_interval, format_p
from bias_core.settings import ASSETS
from bias_core.store.export import DatasetFacts
from bias_core.study.report_text import LIMITS, Row, finding_rows, is_known, plain, replaced_by_people, title_of
from bias_core.study.types import Finding, Measured, StudyReport, StudySettings
from bias_core.types import IMPORTED, ModelInfo

SCHEMA = "0.3.0"
"""Version of the schema of ``every_eval_ever`` that the records follow."""
COLLECTION = "t2i-bias-explorer"
_FORBIDDEN = re.compile(r"[^\w.+-]+")  # what a name of a folder of their data store does without
_CORRECTED = "corrected"
_WORLDS_OWN = "t2i-bias-explorer"  # in place of an organisation, for models that come with the program


def to_every_eval_ever(report: StudyReport, facts: DatasetFacts) -> bytes:
    """A zip with one record for each arm, under the names that the program's own check asks for.

    Raises InvalidInput: the report has no number.
    """
    if not has_numbers(report):
        raise InvalidInput("this report has no number that is known, so there is nothing to record of it")
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, record in evaluation_records(report, facts).items():
            archive.writestr(zipfile.ZipInfo(name), json_bytes(record))  # the same bytes on any day
    return target.getvalue()


def has_numbers(report: StudyReport) -> bool:
    """Whether there is anything to record."""
    return any(True for _, part in _parts(report) for _ in _numbers(part))


def json_bytes(record: Row) -> bytes:
    """A record as its file has it."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False).encode()


def evaluation_records(report: StudyReport, facts: DatasetFacts) -> dict[str, Row]:
    """Each record by its path, ``data/<collection>/<developer>/<model>/<uuid>.json``; ``facts`` as of the dataset card.

    What is undefined has no number and is left out; an arm without any number has no record.
    """
    collection = f"{COLLECTION}_{_FORBIDDEN.sub('_', report.design.name)}"
    records = {}
    for number, (name, part) in enumerate(_parts(report)):
        results = [_result(one, part, collection, facts, name) for one in _numbers(part)]
        if results:
            record = _record(report, part, facts, name) | {"evaluation_results": results}
            key = f"{report.run_id}/{report.created}/{number}".encode()
            named = uuid.UUID(bytes=hashlib.sha256(key).digest()[:16], version=4)
            records[f"data/{collection}/{record['model_info']['id']}/{named}.json"] = record
    return records


def _parts(report: StudyReport) -> list[tuple[str, Measured]]:
    """The arms by their names, or the report itself; differences between arms are of no single model."""
    return [(arm.name, arm) for arm in report.arms] or [("", report)]


def _numbers(part: Measured) -> Iterator[tuple[Finding, Row]]:
    """What has a value."""
    for finding, row in zip(part.results.findings, finding_rows(part), strict=True):
        if is_known(row["value"]) and math.isfinite(row["value"]):
            yield finding, row


def _record(report: StudyReport, part: Measured, facts: DatasetFacts, arm: str) -> Row:
    model = model_record(part.settings, report.versions.get("model_revision", ""))
    day = str(int(report.created or time.time()))
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{COLLECTION}/{report.design.name}/{model['id'].replace('/', '_')}/{report.run_id}"
        f"{f'/{arm}' if arm else ''}/{day}",
        "evaluation_timestamp": day,
        "retrieved_timestamp": day,
        "source_metadata": {
            "source_name": "T2I Bias Explorer",
            "source_type": "evaluation_run",
            "source_organization_name": "whoever ran the explorer",
            "evaluator_relationship": "other",
            "additional_details": _texts(
                study=title_of(report), summary=report.design.summary, reference=facts.reference, run=report.run_id,
                arm=arm, limits=LIMITS, warning=part.warning or report.warning, stop_rule=report.stop_rule,
                notes=" ".join(part.results.notes),
                differences_between_arms="in the report of the run" if arm else "",
            ),
        },
        "eval_library": {
            "name": "t2i-bias-explorer",
            "version": _own_version(report),
            "additional_details": _texts(**report.versions),
        },
        "model_info": model,
    }  # fmt: skip


def model_record(settings: StudySettings, revision: str = "") -> Row:
    """Which model drew: its id as "organisation/name", who ran it, and whether its weights are public."""
    name, info = settings.model, None
    hosted = None if name.startswith(IMPORTED) else hosted_name(name)
    with suppress(UnknownModel):
        info = load_catalogue(ASSETS / "models.yaml").model(name)
    own = "unknown"
    if name.startswith(IMPORTED):
        identity, where = f"imported/{name.removeprefix(IMPORTED)}", ("unknown", "unknown")
        own = "Pictures that were brought along; what drew them is not on record."
    elif hosted:
        path = hosted.path if "/" in hosted.path else f"{hosted.service}-compatible/{hosted.path}"
        identity, where = path, ("externally_managed", "unknown")
    else:
        identity, own = _own_identity(name, info, settings.condition)
        where = "self_deployed", "open_weights" if info and own != "local" else "unknown"
    developer, _, title = identity.partition("/")
    platform = {"inference_platform": hosted.provider or hosted.service} if hosted else {}
    details = _texts(condition=settings.condition, revision=revision, note=own if " " in own else "")
    if own != "local":  # a path says more of a machine than of a model
        details |= _texts(asked_for=name)
    return {
        "name": info.name if info and own != "local" else title,
        "id": f"{_safe(developer)}/{_safe(title)}",
        "developer": _safe(developer),
        **platform,
        "additional_details": {"deployment_type": where[0], "model_availability": where[1]} | details,
    }


def _own_identity(name: str, info: ModelInfo | None, condition: str) -> tuple[str, str]:
    """Organisation and name of a model that this machine ran, and "local" where only this machine has it."""
    if info is not None and info.embedded:
        return "/".join((_WORLDS_OWN, "-".join(filter(None, (info.id, condition))))), ""
    base, _, lora = name.partition("+")
    path = split_revision(str(info.options.get("path", base)) if info else base)[0]
    if not is_hub_id(path) or PurePath(lora.rpartition(":")[0] or lora).is_absolute():
        return f"local/{'+'.join(PurePath(part).name for part in filter(None, (path, lora)))}", "local"
    return "+".join(filter(None, (path, lora))), ""


def _safe(name: str) -> str:
    return _FORBIDDEN.sub("_", name).strip("._ ") or "unnamed"


def _result(one: tuple[Finding, Row], part: Measured, collection: str, facts: DatasetFacts, arm: str) -> Row:
    finding, row = one
    return {
        "evaluation_result_id": "/".join(filter(None, (arm, finding.key))),
        "evaluation_name": finding.title,
        "source_data": {
            "dataset_name": collection,
            "source_type": "other",
            "additional_details": _texts(
                pictures_planned=part.n_planned, pictures_scored=part.n_images, pictures_refused=part.n_blocked
            ),
        },
        "metric_config": _metric(finding, row),
        "score_details": {
            "score": row["value"],
            "details": _texts(
                says=row["says"],
                interval=format_interval(row["low"], row["high"], value=row["value"], n=row["n"]),
                interval_method=row["method"],
                n=row["n"],
                p_value="" if row["p_value"] is None else format_p(row["p_value"]),
                published=row["published"],
                really_drawn=row["drawn"],
                note=row["note"],
                reader_errors=reader_errors(finding, part),
                read_by=", ".join(facts.readers),
            ),
            **_uncertainty(row, part.settings),
        },
        "generation_config": {
            **({"generation_args": {"execution_command": facts.command}} if facts.command else {}),
            "additional_details": _texts(**_drawn_with(part.settings)),
        },
    }


def _metric(finding: Finding, row: Row) -> Row:
    card = METRICS[finding.metric]
    low, high = _bounds(card, row)
    no_bias = "" if row["null_value"] is None else f"no bias reads {row['null_value']:g}"
    return {
        "evaluation_description": card.summary,
        "metric_id": f"{COLLECTION}.{card.key}",
        "metric_name": card.name,
        "metric_kind": card.key,
        "metric_parameters": {"null_value": row["null_value"]},
        "lower_is_better": card.null_value is not None and card.null_value == card.bounds[0],
        "score_type": "continuous",
        "min_score": _bound(low),
        "max_score": _bound(high),
        "additional_details": _texts(
            how_to_read=no_bias, higher_means=card.higher_means, limits=card.limits, source=with_works(card.source)
        ),
    }


def _bounds(card: Card, row: Row) -> tuple[float, float]:
    """The measure's; of a difference between two values of it, those of a difference."""
    low, high = card.bounds
    ends = [row[name] for name in ("value", "low", "high") if math.isfinite(row[name])]
    return (low, high) if all(low <= end <= high for end in ends) else (low - high, high - low)


def _bound(value: float) -> float | str:
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _uncertainty(row: Row, settings: StudySettings) -> Row:
    """The interval with both of its ends, and n; nothing where nothing is known."""
    parts: Row = {"num_samples": int(row["n"])} if row["n"] else {}
    if math.isfinite(row["low"]) and math.isfinite(row["high"]):
        parts["confidence_interval"] = {
            "lower": row["low"], "upper": row["high"], "confidence_level": settings.confidence,
            **({"method": row["method"]} if row["method"] else {}),
        }  # fmt: skip
    return {"uncertainty": plain(parts)} if parts else {}


def reader_errors(finding: Finding, part: Measured) -> str:
    """What is known of the errors of who read the pictures, in a sentence."""
    if replaced_by_people(part.settings):
        return "People's answers were given; their own disagreement is no part of the interval."
    estimate, siblings = finding.estimate, {one.key for one in part.results.findings}
    if finding.key.endswith(_CORRECTED) or _CORRECTED in f"{estimate.note} {estimate.method}":
        return "The reader's measured errors are taken into account."
    if f"{finding.key.rpartition('-')[0]}-{_CORRECTED}" in siblings:
        return "The reader's errors are known; the share corrected for them stands beside this number."
    return "How often the reader errs here is not known; a share can be wrong by more than its interval."


def _drawn_with(settings: StudySettings) -> dict[str, Any]:
    names = (
        "seed", "num_inference_steps", "guidance_scale", "negative_prompt", "size", "sampler", "rewrite", "scale",
        "confidence", "encoder", "judge",
    )  # fmt: skip
    return {name: getattr(settings, name) for name in names}


def _texts(**values: Any) -> dict[str, str]:
    """What is known as texts, which is all that their details take."""
    return {
        name: value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
        if value not in ("", None) and not (isinstance(value, float) and math.isnan(value))
    }


def _own_version(report: StudyReport) -> str:
    with suppress(PackageNotFoundError):
        return report.versions.get("bias_core") or version("t2i-bias-explorer")
    return "unknown"
