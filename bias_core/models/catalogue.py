"""Models and readers by name: ``assets/models.yaml``, hub ids, folders, files, and models of hosted services."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml

from bias_core.errors import StorageError, UnknownModel, quoted
from bias_core.installed import COMMAND
from bias_core.types import ModelInfo
from bias_core.wording import format_count, format_list

T = TypeVar("T")
FolderOf = Callable[[str, str], Path | None]
DefaultsOf = Callable[[str, Mapping[str, Any]], Mapping[str, float]]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_PLAIN = re.compile(r"(open_clip:)?[A-Za-z0-9][\w-]*(\.[\w-]+)*/[A-Za-z0-9][\w-]*(\.[\w-]+)*")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_WEIGHT = re.compile(r":(-?\d{1,2}(?:\.\d{1,4})?)$")
_LABELS = re.compile(r"(.+?):([^:=]+=[^:]+)")  # a classifier with the meaning of its labels
_INDEX, _CONFIG = "model_index.json", "config.json"
_OPEN_CLIP, _OPEN_CLIP_CONFIG = "open_clip:", "open_clip_config.json"
_QUICK = "-quickgelu"  # ends the name of an architecture of open_clip
_CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors")
_SHOWN = 80  # characters of a name in a message
_MOST_NAMED = 16  # models in a message

Role = Literal["encoder", "captioner", "answerer", "judge", "language_model", "person_finder"]
"""Task of a reader; the file's sections use the plural."""
_HUB_LIBRARY: Mapping[Role, str] = {
    "encoder": "transformers",
    "captioner": "blip",
    "answerer": "blip",
    "judge": "transformers",
    "language_model": "transformers",
}
WITHOUT_ADAPTER = "without adapter"
"""Condition of a model with adapters (LoRA), all of them off."""
_ANY = ", any hub model as org/name, or a folder with config.json"
_OTHERS: Mapping[Role, str] = {
    "encoder": f", any hub CLIP as org/name, a folder with {_CONFIG} or {_OPEN_CLIP_CONFIG}, "
    "open_clip:ARCHITECTURE/TAG or open_clip:ARCHITECTURE/FILE",
    "captioner": _ANY,
    "answerer": _ANY,
    "judge": f"{_ANY}; an image classifier with what its labels mean, as org/name:Male=man,Female=woman; or endpoint, "
    "where a server is named (BIAS_JUDGE_URL and BIAS_JUDGE_MODEL)",
    "language_model": f"{_ANY}, or a file.gguf",
}


@dataclass(frozen=True, kw_only=True)
class ToolInfo:
    """An encoder, captioner, question answerer, judge, language model, person finder, or another reader."""

    id: str  # the name that users type; "open_clip:ARCHITECTURE/WEIGHTS" for open_clip's own encoders
    name: str
    # its adapter: transformers, open_clip, blip, classifier, gguf, endpoint, torchvision or calibration
    library: str
    # hub id, folder (relative to the assets), package with a GGUF file, torchvision's name of a detector, the id of
    # an encoder, or what follows "open_clip:"
    path: str
    labels: str = ""  # meaning of a classifier's labels, as "Male=man,Female=woman"; "" for all others
    local: str = ""  # a GGUF file, or a checkpoint of open_clip, on this machine; "" for all others
    embedded: bool = False  # shipped with the explorer
    world: str = ""  # the only world that it can read: "calibration"; "" for any
    download_gb: float = 0.0  # size of its one download; 0 if none or unknown
    default: str = ""  # default reader on machines with a "gpu" or a "cpu"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All named models and readers, in file order."""

    # models, tools: named models, and named readers by role
    models: tuple[ModelInfo, ...]
    tools: Mapping[Role, tuple[ToolInfo, ...]]
    # a line on each planted condition of the calibration world
    conditions: Mapping[str, str] = field(default_factory=dict)
    # settings of unlisted models, by the class in ``model_index.json``
    pipelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # None if any name is allowed. On a public server the names allowed besides the listed ones: "org/name",
    # "org/*" or "open_clip:*"; a revision or a LoRA only if the pattern is exactly that name
    allowed: tuple[str, ...] | None = None
    # The small files of a hub id and revision, for the settings of an unlisted model; None if unavailable.
    folder_of: FolderOf = lambda _repo, _revision: None
    # "steps", "guidance" and "size" of an unlisted class, by its name and index; {} for an unknown class
    defaults_of: DefaultsOf = lambda _class, _index: {}
    # The folder of a one-file checkpoint, by its network's prediction ("" if the name does not give it).
    checkpoint_folder: FolderOf = lambda _file, _prediction: None

    def check_name(self, name: str, listed: Iterable[str]) -> None:
        """Raise UnknownModel for a name that is neither listed nor allowed, without looking at server files."""
        if self.allowed is None or name in (listed := tuple(listed)):
            return
        # Whole names, never a path, even if the owner allows one.
        exact = {p for p in self.allowed if "*" not in p and not p.startswith(("/", "~", "."))}
        if name in exact or (_PLAIN.fullmatch(name) and any(fnmatchcase(name, pattern) for pattern in self.allowed)):
            return
        hub_note = f", and of a hub {', '.join(self.allowed)}" if self.allowed else ""
        raise UnknownModel(
            f"{name[:_SHOWN]!r} cannot be used on this server; there are {', '.join(listed)}{hub_note}. Other "
            "models, folders and LoRAs run on a machine of your own"
        )

    def model(self, name: str) -> ModelInfo:
        """The model of this name.

        A name is that of a hosted model, an ``id`` of the file, ``org/name`` of a hub, a local folder, or a local
        checkpoint as ``file.safetensors`` or ``file.safetensors@prediction``. All but the first may end with
        ``@revision`` of the hub and with ``+lora`` or ``+lora:weight``, a LoRA on top: again a hub id, a folder or a
        .safetensors file.

        Raises UnknownModel: it is none of these; the message lists the models.
        """
        if hosted := hosted_info(name):
            return next((info for info in self.models if info.id == name), hosted)
        self.check_name(name, (info.id for info in self.models))
        if info := self._base(name):
            return info
        for at in (match.start() for match in re.finditer(r"\+", name)):
            lora, weight = _lora(name[at + 1 :])
            if lora and (info := self._base(name[:at])):
                if info.family == "renderer":
                    raise UnknownModel(f"{info.id} is not a neural network and takes no LoRA")
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
        raise UnknownModel(self._no_model(name))

    def _base(self, name: str) -> ModelInfo | None:
        if is_folder(name, _INDEX):
            folder = real_path(name)
            return self._unlisted(folder, Path(folder), path=folder)
        bare, revision = split_revision(name)
        for info in self.models:
            if info.id == name:
                return info
            if info.id == bare and not info.embedded:
                return replace(info, id=name, name=f"{info.name} at {revision[:12]}", revision=revision)
        if bare.endswith(".safetensors") and is_file(bare):
            file = real_path(bare)
            if opened := self.checkpoint_folder(file, revision):
                named = f"{file}@{revision}" if revision else file
                return self._unlisted(named, opened, path=str(opened))
        if not _HUB_ID.fullmatch(bare):
            return None
        return replace(self._unlisted(name, self.folder_of(bare, revision), path=bare), revision=revision)

    def _unlisted(self, name: str, folder: Path | None, *, path: str) -> ModelInfo:
        """A hub model or a user's folder, with the settings of its kind and its own size."""
        kind = str((index := _read_json(folder, _INDEX)).get("_class_name"))
        listed = self.pipelines.get(kind, {})
        index_defaults = {} if not index or "steps" in listed else self.defaults_of(kind, index)
        side = int(
            index_defaults.get("size") or native_size(folder) or listed.get("size", 1024 if index_defaults else 512)
        )
        settings = {**index_defaults, **listed}
        return ModelInfo(
            id=name,
            name=name,
            family=settings.get("family", "diffusers"),
            default_steps=int(settings.get("steps", 30)),
            default_guidance=settings.get("guidance", 1.0 if index_defaults else 7.5),
            width=side,
            height=side,
            options={"path": path},
        )

    def _no_model(self, name: str) -> str:
        if name.endswith((".safetensors", ".ckpt")) and "+" not in name:
            return (
                f"{name} is a single file; convert it once, with diffusers' StableDiffusionPipeline."
                "from_single_file(file).save_pretrained(folder) or that of its kind, and give the folder"
            )
        if is_folder(name, ""):
            return (
                f"the folder {name} has no {_INDEX}, so it is not in the layout of diffusers; give a folder "
                "written by save_pretrained of a diffusers pipeline"
            )
        ids = [info.id for info in self.models]
        all_models = f" ({COMMAND} models)" if len(ids) > _MOST_NAMED else ""
        return (
            f"no model {quoted(name)}; there are {format_list(ids, limit=_MOST_NAMED)}{all_models}, any hub model as "
            "org/name or org/name@revision, a folder with model_index.json, or file.safetensors@epsilon; a LoRA on top "
            "as base+org/lora:0.8 or base+/path/to.safetensors"
        )

    def tool(self, role: Role, name: str) -> ToolInfo:
        """The named reader, or a plain entry for an ``org/name`` or a folder; else UnknownModel.

        A language model may be a GGUF file. Open_clip's encoders are "open_clip:ARCHITECTURE/TAG",
        "open_clip:ARCHITECTURE/PATH" with a checkpoint (.pt, .bin or .safetensors) and "open_clip:FOLDER" with
        open_clip_config.json, or that folder alone. A classifier as judge is "org/name:Label=word,Label=word".
        """
        if role == "judge" and (match := _LABELS.fullmatch(name)):
            info = self.tool(role, match[1])
            return replace(info, id=f"{info.id}:{match[2]}", name=name, library="classifier", labels=match[2])
        listed = {info.id: info for info in self.tools.get(role, ())}
        self.check_name(name, listed)
        if name in listed:
            return listed[name]
        if role == "encoder" and name.startswith(_OPEN_CLIP):
            return _open_clip(name)
        if role == "language_model" and name.endswith(".gguf") and is_file(name):
            path = real_path(name)
            return ToolInfo(id=path, name=name, library="gguf", path=path, local=path)
        library, folder = _HUB_LIBRARY.get(role, ""), is_folder(name, _CONFIG)
        if library and (folder or is_hub_id(name)):
            path = real_path(name) if folder else name
            return ToolInfo(id=path, name=name, library=library, path=path)
        if role == "encoder" and is_folder(name, _OPEN_CLIP_CONFIG):
            return _open_clip(name)
        if library and is_folder(name, ""):
            files = f"{_CONFIG} or {_OPEN_CLIP_CONFIG}" if role == "encoder" else _CONFIG
            raise UnknownModel(
                f"the folder {name} has no {files}, so its layout is not supported; give a "
                "folder that save_pretrained has written"
            )
        kind, ids = role.replace("_", " "), ", ".join(listed)
        raise UnknownModel(f"no {kind} {quoted(name)}; there are {ids}{_OTHERS.get(role, '')}")


def _open_clip(name: str) -> ToolInfo:
    """The entry of a folder, or of the name after "open_clip:"; UnknownModel for no file, folder or tag."""
    location, caution = name.removeprefix(_OPEN_CLIP), ""
    architecture, _, weights = location.partition("/")
    if is_folder(location, _OPEN_CLIP_CONFIG):
        named = path = real_path(location)
    elif architecture and weights and is_file(weights):
        path = real_path(weights)
        named, caution = f"{architecture}/{path}", _activation(architecture)
    elif architecture and weights and "/" not in weights and not weights.endswith(_CHECKPOINTS):
        return ToolInfo(id=name, name=name, library="open_clip", path=location)
    else:
        raise UnknownModel(
            f"no encoder {quoted(name)}: give open_clip:ARCHITECTURE/TAG, open_clip:ARCHITECTURE/FILE with a "
            f"checkpoint that is on this machine, or open_clip:FOLDER with {_OPEN_CLIP_CONFIG}"
        )
    return ToolInfo(id=f"{_OPEN_CLIP}{named}", name=f"{name}{caution}", library="open_clip", path=named, local=path)


def _activation(architecture: str) -> str:
    """A warning for a checkpoint of an architecture with two activations; "" for others."""
    spec = find_spec("open_clip")
    folder = Path(spec.origin).parent / "model_configs" if spec and spec.origin else Path()
    quick_name = f"{architecture}{_QUICK}"
    if not (folder / f"{quick_name}.json").is_file():
        return ""
    return (
        ", read with GELU, as the file does not name its activation; if it was trained with QuickGELU, as OpenAI's "
        f"weights were, its numbers mean nothing, and its name is {_OPEN_CLIP}{quick_name}/FILE"
    )


def has_adapter(info: ModelInfo) -> bool:
    """Return true if a model draws through an adapter (LoRA) that can be switched off."""
    return bool(info.options.get("base_condition") or info.options.get("lora"))


def check_condition(info: ModelInfo, condition: str) -> str:
    """The condition to draw with, "" without conditions, where "published" is valid too; UnknownModel for others."""
    if condition == WITHOUT_ADAPTER:
        if has_adapter(info):
            return str(info.options.get("base_condition") or condition)
        raise UnknownModel(f"{info.id} has no adapter (LoRA) to switch off")
    if not info.conditions:
        if condition in {"", "published"}:
            return ""
        raise UnknownModel(f"{info.id} has no conditions, got {quoted(condition)}; leave the condition empty")
    if condition not in info.conditions:
        conditions = ", ".join(info.conditions)
        hint = "" if info.family == "renderer" else ": none of its adapters draws another"
        raise UnknownModel(f"{info.id} has no condition {quoted(condition)}; choose among its {conditions}{hint}")
    return condition


def load_catalogue(path: Path) -> Catalogue:
    data = read_yaml(path)
    return Catalogue(
        models=tuple(
            _entry(ModelInfo, entry | {"conditions": tuple(entry.get("conditions", ()))}) for entry in data["models"]
        ),
        tools={role: tuple(_entry(ToolInfo, entry) for entry in data.get(f"{role}s", ())) for role in get_args(Role)},
        conditions=data.get("conditions") or {},
        pipelines=data.get("pipelines") or {},
    )


def _entry(kind: Callable[..., T], entry: Mapping[str, Any]) -> T:
    try:
        return kind(**entry)
    except TypeError as error:
        raise StorageError(f"models.yaml, {entry.get('id')}: {error}") from error


def split_revision(source: str) -> tuple[str, str]:
    """Hub id and revision of ``org/name@revision``; anything else has no revision.

    >>> split_revision("org/name@v1.0"), split_revision("/home/me@work/model")
    (('org/name', 'v1.0'), ('/home/me@work/model', ''))
    """
    repo, _, revision = source.rpartition("@")
    return (repo, revision) if repo and _REVISION.fullmatch(revision) else (source, "")


def is_hub_id(name: str) -> bool:
    """True if a name is an ``org/name`` of a hub, and not a folder that is here."""
    return bool(_HUB_ID.fullmatch(name)) and not Path(name).exists()


def native_size(folder: Path | None) -> int:
    """Side in pixels at which a diffusers pipeline was trained; 0 if its files do not tell."""
    denoiser = _read_json(folder, "transformer/config.json") or _read_json(folder, "unet/config.json")
    vae = _read_json(folder, "vae/config.json") or _read_json(folder, "movq/config.json")
    levels = vae.get("block_out_channels") or vae.get("encoder_block_out_channels")
    sample = denoiser.get("sample_size")
    return int(sample << (len(levels) - 1)) if isinstance(sample, int) and levels else 0  # the others halve it


def _lora(text: str) -> tuple[str, float]:
    """The place of a LoRA ("" if this cannot be one) and its strength."""
    path, weight = text, 1.0
    if not _local_lora(text) and (match := _WEIGHT.search(text)):
        path, weight = text[: match.start()], float(match[1])
    if local := _local_lora(path):
        return local, weight
    return (path, weight) if _HUB_ID.fullmatch(split_revision(path)[0]) else ("", weight)


def _local_lora(text: str) -> str:
    """The folder or .safetensors file of this name, "" if there is none; for peft's file its folder."""
    if not is_folder(text, "") and not (text.endswith(".safetensors") and is_file(text)):
        return ""
    path = Path(real_path(text))
    return str(path.parent if path.name == "adapter_model.safetensors" else path)


def real_path(name: str) -> str:
    """The canonical path of a folder or file."""
    return str(Path(name).expanduser().resolve())


def is_folder(name: str, marker: str) -> bool:
    """True for a folder with the file ``marker``; with "", any folder."""
    try:
        folder = Path(name).expanduser()
        return bool(name) and "\0" not in name and folder.is_dir() and (folder / marker).exists()
    except (OSError, RuntimeError):  # an invalid name, or the home of an unknown user
        return False


def is_file(name: str) -> bool:
    """True for an existing file; false for names that the file system refuses."""
    try:
        return bool(name) and "\0" not in name and Path(name).expanduser().is_file()
    except (OSError, RuntimeError):
        return False


# The C loader reads catalogue and designs in a tenth of the time at start.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    """The cached content of a YAML text, which callers must copy: parsing takes ten times as long."""
    return yaml.load(text, Loader=_LOADER)


def read_yaml(path: Path, kind: type = dict) -> Any:
    """The content of a YAML file, a mapping or another ``kind``; else StorageError."""
    try:
        values = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if not isinstance(values, kind):
        raise StorageError(f"{path} does not hold a {'mapping' if kind is dict else kind.__name__}")
    return values


def read_model_json(path: Path) -> Mapping[str, Any]:
    """A JSON object from a model's folder; else ValueError, to which the loader adds the model's name."""
    failure = f"cannot read {path.parent.name}/{path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{failure}: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise ValueError(f"{failure}: it is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError(f"{failure}: it is not a JSON object")
    return content


def _read_json(folder: Path | None, file: str) -> Mapping[str, Any]:
    if folder is not None:
        with suppress(ValueError):  # the loader reports the error
            return read_model_json(folder / file)
    return {}


Service = Literal["inference", "openai"]
"""Services: a provider behind Hugging Face's Inference Providers, or an OpenAI-compatible server."""
FAMILY = "remote"
SIDE = 1024  # pixels of an unlisted model's picture
_HUB_MODEL = re.compile(
    r"(?:(?P<provider>[a-z0-9][a-z0-9-]{0,40}):)?(?P<path>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})"
)
_SERVER_MODEL = re.compile(r"(?P<path>[A-Za-z0-9][\w./:-]{0,127})")
_UNSENT: Mapping[Service, frozenset[str]] = {
    "inference": frozenset(),
    "openai": frozenset({"num_inference_steps", "guidance_scale", "negative_prompt", "seed"}),
}


@dataclass(frozen=True, kw_only=True)
class HostedName:
    """The parts of a hosted model's name."""

    service: Service
    path: str  # the model there: org/name of the hub, or the server's own name
    provider: str = ""  # Hugging Face's provider; "" for the first that it offers

    @property
    def unsent(self) -> frozenset[str]:
        """Fields of a row that this service does not take; its pictures do not depend on them."""
        return _UNSENT[self.service]


def hosted_name(name: str) -> HostedName | None:
    """The parts of ``inference:org/name``, ``inference:provider:org/name`` or ``openai:MODEL``; None for other names.

    UnknownModel: the name starts like one of them and is malformed.

    >>> hosted_name("inference:fal-ai:org/model").provider, hosted_name("org/model")
    ('fal-ai', None)
    """
    service, sign, model_name = name.partition(":")
    if not sign or service not in get_args(Service):
        return None
    if service == "inference" and (match := _HUB_MODEL.fullmatch(model_name)):
        return HostedName(
            service="inference", path=match["path"], provider=(match["provider"] or "").replace("auto", "")
        )
    if service == "openai" and (match := _SERVER_MODEL.fullmatch(model_name)):
        return HostedName(service="openai", path=match["path"])
    raise UnknownModel(
        f"no hosted model {quoted(name)}; write inference:org/name or inference:provider:org/name for a provider "
        "behind Hugging Face, or openai:MODEL for a model of an OpenAI-compatible server (BIAS_IMAGES_URL)"
    )


def hosted_info(name: str) -> ModelInfo | None:
    """The entry of an unlisted hosted model; None for other names."""
    hosted = hosted_name(name)
    if hosted is None:
        return None
    return ModelInfo(
        id=name, name=hosted.path, family=FAMILY, default_steps=0, default_guidance=0.0, width=SIDE, height=SIDE
    )


def request_words(n: int, info: ModelInfo, price_usd: float | None = None) -> str:
    """The cost of ``n`` pictures of a hosted model in words, at the given price or the catalogue's.

    >>> request_words(200, ModelInfo(id="openai:m", name="", family=FAMILY), 0.04)
    '200 requests to openai:m, about 8.00 USD at 0.04 USD a picture'
    """
    price = info.price_usd if price_usd is None else price_usd
    cost = "price unknown" if price is None else f"about {n * price:,.2f} USD at {price:g} USD a picture"
    return f"{format_count(n, 'request')} to {info.id}, {cost}"
