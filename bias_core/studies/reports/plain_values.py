"""Results as plain JSON values that read back to equal results; nothing that is read is ever run."""

import base64
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import StorageError
from bias_core.studies.kit.attribute_scores import AttributeScore
from bias_core.studies.kit.setting_fields import Options, option_values
from bias_core.studies.kit.types import (
    Arm,
    ArmReport,
    Design,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
)
from bias_core.types import Attribute, Estimate, ImageRow, StoredImage

CLASSES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Arm, ArmReport, Attribute, AttributeScore, Design, Estimate, Finding, ImageRow, Results, StoredImage,
        StudyFigure, StudyReport, StudySettings, StudyTable,
    )
}  # fmt: skip
"""What may be read back."""
OLD_CLASSES: Mapping[str, type] = dict.fromkeys(
    ("AssociationScore", "Clusters", "ExploredImage", "ExploreReport", "ExploreSettings"), SimpleNamespace
)
"""Classes of older reports that are no more: read as what they held."""

_IS = "%"  # the key that tells what a JSON object stands for
_PATH = "path"  # a column of a frame with files in it
_RENAMED = {"AttributeScore": {"planted": "drawn"}}  # fields that older reports call otherwise
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any, root: Path) -> Any:
    """``value`` as JSON values, files below ``root`` named from there; TypeError where something has no form here."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), root)
    if isinstance(value, float):
        return value if math.isfinite(value) else {_IS: "float", "value": str(value)}
    if isinstance(value, list):
        return [encode(item, root) for item in value]
    if isinstance(value, Mapping):
        return _encode_mapping(value, root)
    return _encode_object(value, root)


def decode(value: Any, root: Path) -> Any:
    """What :func:`encode` was given; StorageError where another version of the program, or something else, wrote it."""
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
    if all(isinstance(key, str) for key in value) and _IS not in value:
        return {key: encode(item, root) for key, item in value.items()}
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
        saved = [f.name for f in fields(value) if f.metadata.get("saved", True)]
        return {_IS: name} | {field: encode(getattr(value, field), root) for field in saved}
    raise TypeError(f"no plain form for {type(value)}")


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
        return [_relative(Path(value), root) for value in column]
    if column.dtype.kind == "f":  # nan needs no other sign there
        return [None if math.isnan(value) else encode(value, root) for value in column.tolist()]
    return [encode(value, root) for value in column.tolist()]


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
    kind, now = {**OLD_CLASSES, **CLASSES}[name], _RENAMED.get(name, {})
    return kind(**{now.get(key, key): decode(item, root) for key, item in value.items() if key != _IS})


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


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
