"""What can be asked for by name: ``assets/models.yaml``, and the identity of local weights."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import yaml

from bias_core.errors import StorageError, UnknownModel
from bias_core.types import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_SAMPLE = 1 << 20  # bytes read at either end of a file to identify it


@dataclass(frozen=True, kw_only=True)
class EncoderInfo:
    """One encoder of the catalogue.

    Attributes
    ----------
    id : the name that is asked for; "open_clip:ARCHITECTURE/WEIGHTS" for open_clip's own.
    library : which adapter loads it.
    path : hub id, folder (relative to the assets), or open_clip's "ARCHITECTURE/WEIGHTS".
    embedded : shipped with the explorer.
    """

    id: str
    name: str
    library: Literal["transformers", "open_clip"]
    path: str
    embedded: bool = False
    note: str = ""


Role = Literal["captioner", "answerer", "language_model", "person_finder"]
"""What a tool does; the file's sections have the plural."""
_ROLES: tuple[Role, ...] = get_args(Role)
_HUB_LIBRARY: Mapping[Role, str] = {"captioner": "blip", "answerer": "blip", "language_model": "transformers"}


@dataclass(frozen=True, kw_only=True)
class ToolInfo:
    """A captioner, an answerer of questions, a language model or a finder of people.

    Attributes
    ----------
    id : the name that is asked for.
    library : which adapter loads it: blip, transformers, gguf, torchvision or calibration.
    path : hub id, folder (relative to the assets), package with a GGUF file, torchvision's name of a
        detector, or the id of an encoder.
    embedded : shipped with the explorer.
    """

    id: str
    name: str
    library: str
    path: str
    embedded: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """What has a name, in the order of the file."""

    models: tuple[ModelInfo, ...]
    encoders: tuple[EncoderInfo, ...]
    tools: Mapping[Role, tuple[ToolInfo, ...]] = field(default_factory=dict)

    def model(self, name: str) -> ModelInfo:
        """The model of this name, or a plain entry for any ``org/name`` or local diffusers folder.

        Raises
        ------
        UnknownModel
            Neither; the message lists what exists.
        """
        for info in self.models:
            if info.id == name:
                return info
        if _is_folder(name, "model_index.json") or _HUB_ID.fullmatch(name):
            return _unlisted_model(name)
        known = ", ".join(info.id for info in self.models)
        raise UnknownModel(
            f"no model {name!r}; there are {known}, "
            "any hub model as org/name, or a folder with model_index.json"
        )

    def encoder(self, name: str) -> EncoderInfo:
        """The encoder of this name, or a plain entry for an ``org/name``, a folder or "open_clip:A/W"."""
        for info in self.encoders:
            if info.id == name:
                return info
        if name.startswith("open_clip:") and name.count("/") == 1:
            return EncoderInfo(id=name, name=name, library="open_clip", path=name.removeprefix("open_clip:"))
        if _is_folder(name, "config.json") or _HUB_ID.fullmatch(name):
            return EncoderInfo(id=name, name=name, library="transformers", path=name)
        known = ", ".join(info.id for info in self.encoders)
        raise UnknownModel(
            f"no encoder {name!r}; there are {known}, "
            "any hub CLIP as org/name, or open_clip:ARCHITECTURE/WEIGHTS"
        )

    def tool(self, role: Role, name: str) -> ToolInfo:
        """The captioner, answerer, language model or finder of this name, or a plain entry for a hub id."""
        listed = self.tools.get(role, ())
        for info in listed:
            if info.id == name:
                return info
        if role in _HUB_LIBRARY and (_is_folder(name, "config.json") or _HUB_ID.fullmatch(name)):
            return ToolInfo(id=name, name=name, library=_HUB_LIBRARY[role], path=name)
        known = ", ".join(info.id for info in listed)
        others = ", or any hub model as org/name" if role in _HUB_LIBRARY else ""
        raise UnknownModel(f"no {role.replace('_', ' ')} {name!r}; there are {known}{others}")


def check_condition(info: ModelInfo, condition: str) -> str:
    """The condition to generate under: "" for models without planted conditions.

    Such models accept the default "published" too, so that changing the model alone is enough.
    """
    if not info.conditions:
        if condition in {"", "published"}:
            return ""
        raise UnknownModel(f"{info.id} has no conditions, got {condition!r}; leave the condition empty")
    if condition not in info.conditions:
        raise UnknownModel(
            f"{info.id} has no condition {condition!r}; there are {', '.join(info.conditions)}"
        )
    return condition


def load_catalogue(path: Path) -> Catalogue:
    """Read ``models.yaml``."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise StorageError(f"cannot read the model catalogue {path}: {error}") from error
    return Catalogue(
        models=tuple(ModelInfo(**_with_tuples(entry)) for entry in data["models"]),
        encoders=tuple(EncoderInfo(**_checked(entry, EncoderInfo)) for entry in data["encoders"]),
        tools={
            role: tuple(ToolInfo(**_checked(entry, ToolInfo)) for entry in data.get(f"{role}s", ()))
            for role in _ROLES
        },
    )


def fingerprint(folder: Path, patterns: Sequence[str] = ("**/*",)) -> str:
    """Twelve hex digits that change when a file of ``folder`` changes; the revision of local weights.

    Large files are identified by their size and both ends, so that gigabytes are not read.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            size = path.stat().st_size
            digest.update(f"{path.relative_to(folder).as_posix()}:{size}:".encode())
            with path.open("rb") as file:
                digest.update(file.read(_SAMPLE))
                if size > 2 * _SAMPLE:
                    file.seek(-_SAMPLE, 2)
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:12]


def _unlisted_model(name: str) -> ModelInfo:
    """A hub model or a folder of the user, with the commonest settings."""
    return ModelInfo(
        id=name,
        name=name,
        family="diffusers",
        default_steps=30,
        default_guidance=7.5,
        width=512,
        height=512,
        options={"path": name},
    )


def _is_folder(name: str, marker: str) -> bool:
    return len(name) < 1000 and "\0" not in name and (Path(name).expanduser() / marker).is_file()


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return _checked(entry, ModelInfo) | {"conditions": tuple(entry.get("conditions", ()))}


def _checked(entry: dict[str, Any], kind: type[ModelInfo | EncoderInfo | ToolInfo]) -> dict[str, Any]:
    known = {f.name for f in fields(kind)}
    if unknown := set(entry) - known:
        raise StorageError(f"models.yaml, {entry.get('id')}: unknown keys {sorted(unknown)}")
    return entry
