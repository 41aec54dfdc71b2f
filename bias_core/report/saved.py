"""Reports that outlive their run: saved when it ends, opened without drawing or measuring anything.

They are plain JSON values that read back to equal results; nothing that is read is ever run. The shipped examples are
such reports.
"""

import base64
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput, StorageError
from bias_core.installed import ASSETS
from bias_core.measures.cards import METRICS
from bias_core.report.headlines import headline
from bias_core.store.manifests import ReportStore
from bias_core.study.design import study_classes, typed_options, with_known_options
from bias_core.study.types import (
    Arm,
    ArmReport,
    Claim,
    Design,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
)
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, Estimate, ImageRow, ReaderFacts, StoredImage
from bias_core.values import Options, option_values

T = TypeVar("T")
CLASSES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Arm, ArmReport, Attribute, Claim, Design, Estimate, Finding, ImageRow, ReaderFacts, Results,
        StoredImage, StudyFigure, StudyReport, StudySettings, StudyTable,
    )
}  # fmt: skip
"""Classes that may be read back."""

NO_LONGER = "This version of the program no longer has"
_PLAIN = {str, int, bool, type(None)}  # as JSON has them; most values, and quicker told than by isinstance
_IS = "%"  # key with the type of a JSON object
_PATH = "path"  # column of a frame with file paths
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any, root: Path) -> Any:
    """Return ``value`` as JSON values, with files named relative to ``root``; TypeError for other types."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), root)
    if isinstance(value, (str, int)):  # of a class of its own
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_IS: "float", "value": str(value)}
    if isinstance(value, list):
        return [encode(item, root) for item in value]
    if isinstance(value, Mapping):
        return _encode_mapping(value, root)
    return _encode_object(value, root)


def decode(value: Any, root: Path) -> Any:
    """Reverse :func:`encode`; StorageError if another version of the program, or another program, wrote the values."""
    if isinstance(value, list):
        return [decode(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    if _IS not in value:
        return {key: decode(item, root) for key, item in value.items()}
    try:
        return _decode_object(value[_IS], value, root)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"a saved {value[_IS]!r} cannot be read by this version: {error}") from error


def _encode_mapping(value: Mapping[Any, Any], root: Path) -> Any:
    if set(map(type, value)) <= {str} and _IS not in value:
        return {key: item if type(item) in _PLAIN else encode(item, root) for key, item in value.items()}
    return {_IS: "mapping", "items": [[encode(k, root), encode(v, root)] for k, v in value.items()]}


def _encode_object(value: Any, root: Path) -> Any:
    name = type(value).__name__
    if isinstance(value, tuple):
        return {_IS: "tuple", "items": [encode(item, root) for item in value]}
    if isinstance(value, Path):
        return {_IS: "path", "value": _relative(value, root)}
    if isinstance(value, np.ndarray) and value.dtype != object:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {_IS: "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
    if isinstance(value, pd.DataFrame):
        return _encode_frame(value, root)
    if isinstance(value, Options):
        return _encode_mapping(option_values(value), root)
    if is_dataclass(value) and name in CLASSES:
        values = ((field, getattr(value, field)) for field in _saved_fields(name))
        return {_IS: name} | {field: value if type(value) in _PLAIN else encode(value, root) for field, value in values}
    raise TypeError(f"no plain form for {type(value)}")


@cache
def _saved_fields(name: str) -> list[str]:
    return [f.name for f in fields(CLASSES[name]) if f.metadata.get("saved", True)]


def _encode_frame(frame: pd.DataFrame, root: Path) -> Any:
    plain_index = frame.index.equals(pd.RangeIndex(len(frame)))
    return {
        _IS: "frame",
        "columns": [encode(column, root) for column in frame.columns],
        "dtypes": [str(dtype) for dtype in frame.dtypes],
        "values": [_encode_column(frame.iloc[:, i], root) for i in range(frame.shape[1])],
        "index": None if plain_index else encode(frame.index.tolist(), root),
        "n": len(frame),
    }


def _encode_column(column: "pd.Series[Any]", root: Path) -> list[Any]:
    if column.name == _PATH:
        return [_relative(value, root) for value in column]
    if column.dtype.kind == "f":  # null is nan there
        return [None if math.isnan(value) else encode(value, root) for value in column.tolist()]
    return [value if type(value) in _PLAIN else encode(value, root) for value in column.tolist()]


def _decode_object(name: str, value: dict[str, Any], root: Path) -> Any:
    if name == "float":
        return _NUMBERS[value["value"]]
    if name in ("tuple", "mapping"):
        items = [decode(item, root) for item in value["items"]]
        return tuple(items) if name == "tuple" else {_hashable(k): v for k, v in items}
    if name == "path":
        return root / value["value"]
    if name == "array":
        data = np.frombuffer(base64.b64decode(value["data"]), dtype=np.dtype(value["dtype"]))
        return data.reshape(value["shape"]).copy()
    if name == "frame":
        return _decode_frame(value, root)
    kind = CLASSES[name]
    values = {key: decode(item, root) for key, item in value.items() if key != _IS}
    if kind is Finding and "p_value" in values:  # where version 0.1.0 has it
        p_value = values.pop("p_value")
        values["estimate"] = replace(values["estimate"], p_value=math.nan if p_value is None else p_value)
    if kind is Finding and values["metric"] not in METRICS:
        raise ValueError(f"no measure {values['metric']}")
    return kind(**values)


def _decode_frame(value: dict[str, Any], root: Path) -> pd.DataFrame:
    index = pd.RangeIndex(value["n"]) if value["index"] is None else decode(value["index"], root)
    columns = [_hashable(decode(column, root)) for column in value["columns"]]
    series = [
        pd.Series(texts if column == _PATH else [decode(v, root) for v in values], index=index, dtype=dtype)
        for column, dtype, values in zip(columns, value["dtypes"], value["values"], strict=True)
        for texts in [[str(root / v) for v in values] if column == _PATH else ()]
    ]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    frame.columns = pd.Index(columns)
    return frame


def _relative(path: Path | str, root: Path) -> str:
    if str(path).startswith(beginning := f"{root}/"):  # nearly always, and many times quicker
        return str(path)[len(beginning) :]
    path = Path(path)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


FOLDER = ASSETS / "examples"
"""Folder of the example runs: reports with small copies of their pictures."""
INDEX = "index.json"
_LATEST_TIME = 2.0**36  # seconds since 1970, in 4147
_SHOWN = 300  # characters of an error
_FORM = 1  # version of the file format; others are not read
_OF_ANOTHER = "a saved report was written by another version of the program"


@dataclass(frozen=True, kw_only=True)
class SavedReport:
    """A report and its time, in seconds since 1970."""

    report: StudyReport
    created: float


def to_text(report: StudyReport, root: Path, *, created: float | None = None) -> str:
    """Return the report as one JSON text, with files named relative to ``root``."""
    values: dict[str, Any] = {
        "form": _FORM,
        "created": time.time() if created is None else created,
        "report": encode(report, root),
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def from_text(text: str, root: Path) -> SavedReport:
    """Reverse :func:`to_text`; StorageError if the text is not whole, or another version wrote it."""
    try:
        values = json.loads(text)
        if not isinstance(values, dict) or values.get("form") != _FORM:
            raise StorageError(f"{_OF_ANOTHER}; run it again")
        report, created = decode(values["report"], root), float(values["created"])
        if not isinstance(report, StudyReport):
            raise StorageError(f"a saved report holds a {type(report).__name__}")
        if not 0 <= created <= _LATEST_TIME:
            raise ValueError(f"it was made at {created:g}")
        report = replace(_parse_options(report), created=report.created or created)
        return SavedReport(report=report, created=created)
    except RecursionError as error:
        raise StorageError("a saved report is not whole: it is deeper than it is read") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise StorageError(f"a saved report is not whole: {str(error)[:_SHOWN]}") from error


def _parse_options(report: StudyReport) -> StudyReport:
    """Return the report with typed options; a note names options that no longer exist.

    Files have options as plain values.
    """
    if report.design.kind not in study_classes():
        return report
    try:
        known_options = [with_known_options(report.design, part.settings) for part in (report, *report.arms)]
        design = known_options[0][0]
        settings, *of_arms = (replace(s, options=typed_options(design, s.options)) for _, s, _ in known_options)
        arms = tuple(
            replace(arm, settings=arm_settings) for arm, arm_settings in zip(report.arms, of_arms, strict=True)
        )
        report = replace(report, design=design, settings=settings, arms=arms)
        return with_note_on(report, list(dict.fromkeys(name for *_, names in known_options for name in names)))
    except InvalidInput as error:
        raise StorageError(f"{_OF_ANOTHER}: {error}") from error


def with_note_on(report: StudyReport, gone: Sequence[str]) -> StudyReport:
    """Return the report with a note on what this version no longer has."""
    if not gone:
        return report
    notes = (*report.results.notes, f"{NO_LONGER} {', '.join(gone)}.")
    return replace(report, results=replace(report.results, notes=notes))


def report_store(services: StudyServices) -> ReportStore:
    return ReportStore(services.settings.data_dir / "reports")


def keep_report(report: StudyReport, services: StudyServices) -> None:
    """Save the report under its run; a full disk raises no error, as the caller has the report."""
    store, saved = report_store(services), SavedReport(report=report, created=time.time())
    with suppress(StorageError):
        store.save(report.run_id, to_text(report, services.settings.data_dir, created=saved.created))
        _keep_latest(store, saved)
        services.manifests.describe(report.run_id, headline=headline(report))


def is_saved(report: StudyReport, services: StudyServices) -> bool:
    """Return true if :func:`open_report` would return this report, and none with other numbers."""
    if not report.run_id.isalnum():  # a report of people's labels alone, without a run
        return False
    saved = _latest(report_store(services), report.run_id)
    return saved is not None and saved.report.results is report.results  # results are replaced, never changed


def open_report(run_id: str, services: StudyServices) -> SavedReport | None:
    """Return the report of a run with its pictures that are still stored, or None; StorageError if it is broken."""
    return open_report_in_folder(services.settings.data_dir, run_id)


def open_report_in_folder(data: Path, run_id: str) -> SavedReport | None:
    """Return the report of a run in any data folder, as :func:`open_report` does."""
    store = ReportStore(data / "reports")
    saved = _latest(store, run_id)
    if saved is None:
        text = store.find(run_id)
        if text is None:
            return None
        saved = from_text(text, data)
        saved = replace(saved, report=_noted_if_gone(saved.report))
        _keep_latest(store, saved)
    return replace(saved, report=_with_stored_pictures(saved.report))


def _noted_if_gone(report: StudyReport) -> StudyReport:
    """Add a note if this version no longer has the study; a comparison of two runs, without options, is none."""
    if report.design.kind in study_classes() or not option_values(report.settings.options):
        return report
    return with_note_on(report, [gone_study(report.design)])


def gone_study(design: Design) -> str:
    """Name a study that this version does not have."""
    return f"the study {design.name}"


def list_picture_files(report: StudyReport) -> Iterator[Path]:
    """Yield the files of the pictures that a report shows, also in its figures."""
    yield from (image.path for image in report.stored.values())
    for results in (report.results, *(arm.results for arm in report.arms)):
        for figure in results.figures:
            yield from map(Path, figure.data.get("path", ()))


class Newest(Generic[T]):
    """A cache of entries by key that drops the least recently used first."""

    def __init__(self, limit: int) -> None:
        self._entries: OrderedDict[object, T] = OrderedDict()
        self._most, self._lock = limit, threading.Lock()

    def get(self, key: object) -> T | None:
        """Return the entry of this key, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: object, entry: T | None) -> None:
        """Set the entry of this key; None deletes it."""
        with self._lock:
            self._entries.pop(key, None)
            if entry is not None:
                self._entries[key] = entry
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)


_LATEST = Newest[tuple[int, SavedReport]](8)
"""Reports saved or opened last, by file, each with the time of the file."""


def _keep_latest(store: ReportStore, saved: SavedReport) -> None:
    path = store.path(saved.report.run_id)
    with suppress(FileNotFoundError):  # deleted meanwhile
        _LATEST.put(path, (path.stat().st_mtime_ns, saved))


def _latest(store: ReportStore, run_id: str) -> SavedReport | None:
    """Return the report as its file has it now; None if the file must be read."""
    path = store.path(run_id)
    written, saved = _LATEST.get(path) or (0, None)
    return saved if path.is_file() and path.stat().st_mtime_ns == written else None


def _with_stored_pictures(report: StudyReport) -> StudyReport:
    stored = {key: image for key, image in report.stored.items() if image.path.is_file()}
    shown = (report.results, *(arm.results for arm in report.arms))
    if len(stored) == len(report.stored) and all(_has_all_files(figure) for part in shown for figure in part.figures):
        return report
    results, *of_arms = (replace(part, figures=tuple(map(_drop_missing_pictures, part.figures))) for part in shown)
    arms = tuple(replace(arm, results=part) for arm, part in zip(report.arms, of_arms, strict=True))
    gone = len(report.stored) - len(stored)
    if gone:
        note = f"{gone:,} of its {len(report.stored):,} pictures are no longer stored; run it again to see them."
        results = replace(results, notes=(*results.notes, note))
    frame = report.pictures
    if frame is not None and gone:
        frame = frame[frame["image_id"].isin(list(stored))].reset_index(drop=True)
    return replace(report, results=results, arms=arms, stored=stored, pictures=frame)


def _has_all_files(figure: StudyFigure) -> bool:
    return "path" not in figure.data or all(Path(path).is_file() for path in figure.data["path"])


def _drop_missing_pictures(figure: StudyFigure) -> StudyFigure:
    if _has_all_files(figure):
        return figure
    is_stored: pd.Series[bool] = figure.data["path"].map(lambda path: Path(path).is_file()).astype(bool)
    return replace(figure, data=figure.data[is_stored].reset_index(drop=True))


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example: the name of its files, the key of its tab, the title on its button, its story."""

    name: str
    tab: str
    title: str
    says: str = ""  # one or two sentences on its findings


def list_examples(tab: str = "", folder: Path = FOLDER) -> tuple[Example, ...]:
    path = folder / INDEX
    if not path.is_file():
        return ()
    try:
        examples = tuple(Example(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StorageError(f"cannot read the list of examples {path}: {error}") from error
    return tuple(example for example in examples if tab in ("", example.tab))


def open_example(example: Example, folder: Path = FOLDER) -> SavedReport:
    """Return the report of an example; its file is read once."""
    path = folder / f"{example.name}.json"
    try:
        written = path.stat().st_mtime_ns
        read, saved = _EXAMPLES.get(path) or (0, None)
        if saved is None or read != written:
            saved = from_text(path.read_text(encoding="utf-8"), folder)
            saved = replace(saved, report=replace(saved.report, run_id=EXAMPLE + example.name))
            _EXAMPLES.put(path, (written, saved))
    except OSError as error:
        raise StorageError(f"the example “{example.title}” is not there: {error}") from error
    return saved


def is_example(report: StudyReport | None) -> bool:
    return report is not None and report.run_id.startswith(EXAMPLE)


_EXAMPLES = Newest[tuple[int, SavedReport]](16)
"""Opened examples, by file, each with the time of the file."""
EXAMPLE = "example-"  # prefix of their ids; ids of runs have only letters and digits
