"""What can be asked for by name: ``assets/models.yaml``, hub ids, folders and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from bias_core.errors import StorageError, UnknownModel, quoted
from bias_core.models.paths import AllowedNames, is_file, is_folder, read_json, real_path, refuse_folder
from bias_core.types import ModelInfo

FolderOf = Callable[[str, str], Path | None]
DefaultsOf = Callable[[str, Mapping[str, Any]], Mapping[str, float]]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_WEIGHT = re.compile(r":(-?\d{1,2}(?:\.\d{1,4})?)$")
_INDEX = "model_index.json"
_OPEN_CLIP = "open_clip:"
_OPEN_CLIP_CONFIG = "open_clip_config.json"
_CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors")


Role = Literal["captioner", "answerer", "language_model", "person_finder"]
"""What a tool does; the file's sections have the plural."""
_ROLES: tuple[Role, ...] = get_args(Role)
ReaderRole = Literal["encoder", "captioner", "answerer", "person_finder"]
"""What a reader of pictures does."""
_HUB_LIBRARY: Mapping[Role, str] = {"captioner": "blip", "answerer": "blip", "language_model": "transformers"}


@dataclass(frozen=True, kw_only=True)
class ToolInfo:
    """An encoder, a captioner, an answerer of questions, a language model or a finder of people.

    Attributes
    ----------
    id : the name that is asked for.
    library : which adapter loads it: transformers, open_clip, blip, gguf, torchvision or calibration.
    path : hub id, folder (relative to the assets), package with a GGUF file, torchvision's name of a
        detector, or the id of an encoder.
    local : a GGUF file, or a checkpoint of open_clip, on this machine; "" for all others.
    embedded : shipped with the explorer.
    world : the only pictures that it can read (or write about): "calibration"; "" for any.
    download_gb : size of what is fetched once; 0 where nothing is, or nobody knows.
    """

    id: str
    name: str
    library: str
    path: str
    local: str = ""
    embedded: bool = False
    world: str = ""
    download_gb: float = 0.0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class EncoderInfo(ToolInfo):
    """One encoder; open_clip's own have the id "open_clip:ARCHITECTURE/WEIGHTS", and what follows as path."""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """What has a name, in the order of the file.

    Attributes
    ----------
    models, encoders, tools : the named ones.
    names : which names may be asked for.
    pipelines : what an unlisted model gets, by the class that its ``model_index.json`` names.
    """

    models: tuple[ModelInfo, ...]
    encoders: tuple[EncoderInfo, ...]
    tools: Mapping[Role, tuple[ToolInfo, ...]] = field(default_factory=dict)
    pipelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    names: AllowedNames = field(default_factory=AllowedNames)

    def model(
        self,
        name: str,
        *,
        folder_of: FolderOf = lambda _repo, _revision: None,
        defaults_of: DefaultsOf = lambda _class, _index: {},
    ) -> ModelInfo:
        """The model of this name.

        A name is an ``id`` of the file, ``org/name`` of a hub or a local folder, and may go on with
        ``@revision`` of the hub and with ``+lora`` or ``+lora:weight``, a LoRA on top: again a hub id, a
        folder or a .safetensors file.

        Parameters
        ----------
        folder_of : finds the small files of a hub id and revision, for the settings of a model that the file
            does not list; None where they cannot be had.
        defaults_of : "steps", "guidance" and "size" of a class that the file does not list, by its name and
            index; {} where the class is not known.

        Raises
        ------
        UnknownModel
            Neither; the message lists what exists.
        """
        self.names.check(name, (info.id for info in self.models))
        if info := self._base(name, folder_of, defaults_of):
            return info
        for at in (match.start() for match in re.finditer(r"\+", name)):
            lora, weight = _lora(name[at + 1 :])
            if lora and (info := self._base(name[:at], folder_of, defaults_of)):
                return _with_lora(info, lora, weight)
        raise UnknownModel(self._no_model(name))

    def _base(self, name: str, folder_of: FolderOf, defaults_of: DefaultsOf) -> ModelInfo | None:
        if is_folder(name, _INDEX):
            folder = real_path(name)
            return self._unlisted(folder, Path(folder), defaults_of)
        bare, revision = split_revision(name)
        for info in self.models:
            if info.id == name:
                return info
            if info.id == bare and not info.embedded:
                return replace(info, id=name, name=f"{info.name} at {revision[:12]}", revision=revision)
        if not _HUB_ID.fullmatch(bare):
            return None
        files = folder_of(bare, revision)
        return replace(self._unlisted(name, files, defaults_of, path=bare), revision=revision)

    def _unlisted(self, name: str, folder: Path | None, defaults_of: DefaultsOf, path: str = "") -> ModelInfo:
        """A hub model or a folder of the user, with the settings of its kind and its own size."""
        kind = str((index := _read_json(folder, _INDEX)).get("_class_name"))
        listed = self.pipelines.get(kind, {})
        own = {} if not index or "steps" in listed else defaults_of(kind, index)
        side = int(own.get("size") or native_size(folder) or listed.get("size", 1024 if own else 512))
        settings = {**own, **listed}
        return ModelInfo(
            id=name,
            name=name,
            family=settings.get("family", "diffusers"),
            default_steps=int(settings.get("steps", 30)),
            default_guidance=settings.get("guidance", 1.0 if own else 7.5),
            width=side,
            height=side,
            traceable=settings.get("traceable", False),
            options={"path": path or name},
        )

    def _no_model(self, name: str) -> str:
        if name.endswith((".safetensors", ".ckpt")) and "+" not in name:
            return (
                f"{name} is a single file; convert it once, with diffusers' StableDiffusionPipeline."
                "from_single_file(file).save_pretrained(folder) or that of its kind, and give the folder"
            )
        listed = ", ".join(info.id for info in self.models)
        if is_folder(name, ""):
            return (
                f"the folder {name} has no {_INDEX}, so it is no pipeline in the layout of diffusers; give "
                "a folder that save_pretrained of a diffusers pipeline has written"
            )
        return (
            f"no model {quoted(name)}; there are {listed}, any hub model as org/name or org/name@revision, "
            "or a folder with model_index.json; a LoRA on top as base+org/lora:0.8 or "
            "base+/path/to.safetensors"
        )

    def encoder(self, name: str) -> EncoderInfo:
        """The encoder of this name, or a plain entry for an ``org/name``, a folder or open_clip's weights.

        Open_clip's are "open_clip:ARCHITECTURE/TAG", "open_clip:ARCHITECTURE/PATH" with a checkpoint (.pt,
        .bin or .safetensors) and "open_clip:FOLDER" with open_clip_config.json, or that folder alone.
        """
        listed = {info.id: info for info in self.encoders}
        self.names.check(name, listed)
        if name in listed:
            return listed[name]
        if name.startswith(_OPEN_CLIP):
            return _open_clip(name)
        if path := _transformers_path(name):
            return EncoderInfo(id=path, name=name, library="transformers", path=path)
        if is_folder(name, _OPEN_CLIP_CONFIG):
            return _open_clip_folder(name)
        refuse_folder(name, f"config.json or {_OPEN_CLIP_CONFIG}")
        raise UnknownModel(
            f"no encoder {quoted(name)}; there are {', '.join(listed)}, any hub CLIP as org/name, a folder "
            f"with config.json or {_OPEN_CLIP_CONFIG}, open_clip:ARCHITECTURE/TAG or "
            "open_clip:ARCHITECTURE/FILE"
        )

    def tool(self, role: Role, name: str) -> ToolInfo:
        """The captioner, answerer, language model or finder of this name, or a plain entry.

        Plain entries are for an ``org/name`` and a folder, and as language model a GGUF file.
        """
        listed = {info.id: info for info in self.tools.get(role, ())}
        self.names.check(name, listed)
        if name in listed:
            return listed[name]
        library = _HUB_LIBRARY.get(role, "")
        if role == "language_model" and name.endswith(".gguf") and is_file(name):
            path = real_path(name)
            return ToolInfo(id=path, name=name, library="gguf", path=path, local=path)
        if library and (path := _transformers_path(name)):
            return ToolInfo(id=path, name=name, library=library, path=path)
        if library:
            refuse_folder(name, "config.json")
        ids = ", ".join(listed)
        others = ", any hub model as org/name, or a folder with config.json" if library else ""
        gguf = ", or a file.gguf" if role == "language_model" else ""
        kind = role.replace("_", " ")
        raise UnknownModel(f"no {kind} {quoted(name)}; there are {ids}{others}{gguf}")


def _transformers_path(name: str) -> str:
    """A folder in the layout of transformers, or a hub id; "" for other names."""
    return real_path(name) if is_folder(name, "config.json") else name if is_hub_id(name) else ""


def _open_clip(name: str) -> EncoderInfo:
    """The entry of a name that begins with "open_clip:".

    Raises
    ------
    UnknownModel
        It names no file, no folder and no tag.
    """
    rest = name.removeprefix(_OPEN_CLIP)
    if is_folder(rest, _OPEN_CLIP_CONFIG):
        return _open_clip_folder(rest)
    architecture, _, weights = rest.partition("/")
    if architecture and weights and is_file(weights):
        path = real_path(weights)
        named = f"{architecture}/{path}"
        return EncoderInfo(id=f"{_OPEN_CLIP}{named}", name=name, library="open_clip", path=named, local=path)
    if architecture and weights and "/" not in weights and not weights.endswith(_CHECKPOINTS):
        return EncoderInfo(id=name, name=name, library="open_clip", path=rest)
    raise UnknownModel(
        f"no encoder {quoted(name)}: give open_clip:ARCHITECTURE/TAG, open_clip:ARCHITECTURE/FILE with a "
        f"checkpoint that is on this machine, or open_clip:FOLDER with {_OPEN_CLIP_CONFIG}"
    )


def _open_clip_folder(name: str) -> EncoderInfo:
    path = real_path(name)
    return EncoderInfo(id=f"{_OPEN_CLIP}{path}", name=name, library="open_clip", path=path, local=path)


def check_condition(info: ModelInfo, condition: str) -> str:
    """The condition to generate under: "" for models without planted conditions.

    Such models accept the default "published" too, so that changing the model alone is enough.
    """
    if not info.conditions:
        if condition in {"", "published"}:
            return ""
        raise UnknownModel(f"{info.id} has no conditions, got {quoted(condition)}; leave the condition empty")
    if condition not in info.conditions:
        conditions = ", ".join(info.conditions)
        raise UnknownModel(f"{info.id} has no condition {quoted(condition)}; choose among its {conditions}")
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
            role: tuple(ToolInfo(**_checked(entry, ToolInfo)) for entry in data.get(f"{role}s", ())) for role in _ROLES
        },
        pipelines=data.get("pipelines") or {},
    )


def split_revision(source: str) -> tuple[str, str]:
    """Hub id and revision of ``org/name@revision``; anything else has no revision.

    Examples
    --------
    >>> split_revision("org/name@v1.0"), split_revision("/home/me@work/model")
    (('org/name', 'v1.0'), ('/home/me@work/model', ''))
    """
    repo, _, revision = source.rpartition("@")
    return (repo, revision) if repo and _REVISION.fullmatch(revision) else (source, "")


def is_hub_id(name: str) -> bool:
    """Whether a name is an ``org/name`` of a hub, and not a folder that is here."""
    return bool(_HUB_ID.fullmatch(name)) and not Path(name).exists()


def native_size(folder: Path | None) -> int:
    """Pixels of a side that a pipeline in diffusers layout was trained at; 0 where its files do not say."""
    denoiser = _read_json(folder, "transformer/config.json") or _read_json(folder, "unet/config.json")
    sample, levels = denoiser.get("sample_size"), _levels(folder)
    if isinstance(sample, int) and levels:
        return int(sample << (levels - 1))  # each level but one halves
    return 0


def _levels(folder: Path | None) -> int:
    vae = _read_json(folder, "vae/config.json") or _read_json(folder, "movq/config.json")
    blocks = vae.get("block_out_channels") or vae.get("encoder_block_out_channels") or ()
    return len(blocks)


def _read_json(folder: Path | None, file: str) -> Mapping[str, Any]:
    if folder is not None:
        with suppress(ValueError):  # the loader says what is wrong with it
            return read_json(folder / file)
    return {}


def _lora(text: str) -> tuple[str, float]:
    """Where a LoRA is, "" if this cannot be one, and its strength."""
    path, weight = text, 1.0
    if not _local_lora(text) and (match := _WEIGHT.search(text)):
        path, weight = text[: match.start()], float(match[1])
    if local := _local_lora(path):
        return local, weight
    return (path, weight) if _HUB_ID.fullmatch(split_revision(path)[0]) else ("", weight)


def _local_lora(text: str) -> str:
    """The folder or .safetensors file of this name, "" if there is none; of peft's file its folder."""
    if not is_folder(text, "") and not (text.endswith(".safetensors") and is_file(text)):
        return ""
    path = Path(real_path(text))
    return str(path.parent if path.name == "adapter_model.safetensors" else path)


def _with_lora(info: ModelInfo, lora: str, weight: float) -> ModelInfo:
    """The base's entry, without its planted conditions, which are other LoRAs, and without its world."""
    if info.family == "renderer":
        raise UnknownModel(f"{info.id} is no neural network and takes no LoRA")
    strength = "" if weight == 1 else f":{weight:g}"
    return replace(
        info,
        id=f"{info.id}+{lora}{strength}",
        name=f"{info.name} with {Path(lora).name}",
        conditions=(),
        world="",
        embedded=False,
        options={**info.options, "lora": lora, "lora_weight": weight},
    )


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return _checked(entry, ModelInfo) | {"conditions": tuple(entry.get("conditions", ()))}


def _checked(entry: dict[str, Any], kind: type[ModelInfo | EncoderInfo | ToolInfo]) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    if unknown := set(entry) - names:
        raise StorageError(f"models.yaml, {entry.get('id')}: unknown keys {sorted(unknown)}")
    return entry
