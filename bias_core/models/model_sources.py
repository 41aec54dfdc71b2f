"""Where the weights of a name are, and which weights those are now."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import huggingface_hub

from bias_core.errors import ModelUnavailable
from bias_core.models import diffusers
from bias_core.models.catalogue import ToolInfo, is_hub_id, split_revision
from bias_core.models.family_facts import DEEPFLOYD_UPSCALER, HIDREAM_LLAMA, KANDINSKY_PRIOR, llama_folder
from bias_core.models.fit import download_gb, is_cached
from bias_core.models.weights import hub_folder, loading, open_checkpoint, pick_device
from bias_core.settings import Settings
from bias_core.store.files import FileHashes
from bias_core.types import ModelInfo
from bias_core.waiting import HUB_SECONDS, WEIGHTS_SECONDS, BuiltOnce

_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMPANIONS = {
    "kandinsky": ("prior", KANDINSKY_PRIOR),
    "deepfloyd": ("upscaler", DEEPFLOYD_UPSCALER),
    "hidream": ("llama", HIDREAM_LLAMA),
}
_PARTS = ("prior", "upscaler", "llama", "lora")
_SMALL = ["model_index.json", "*/config.json", "*/scheduler_config.json"]


class ModelSources:
    """Finds weights; a hub is asked once for the commit of a name, and files are looked at every time."""

    def __init__(self, settings: Settings, hashes: FileHashes) -> None:
        self._settings, self._hashes = settings, hashes
        self._answers = BuiltOnce()

    def find(self, path: str) -> str:
        """A folder of the assets, a folder or file of the user, or what it was: a hub id, or a name."""
        shipped = self._settings.assets_dir / path
        if path.startswith("calibration/") or shipped.is_dir():
            return str(shipped)
        local = Path(path).expanduser()
        return str(local) if local.exists() else path

    def is_here(self, info: ModelInfo) -> bool:
        """Whether the weights are on this machine."""
        path = str(info.options.get("path", ""))
        return info.embedded or Path(self.find(path)).is_dir() or is_cached(path, info.revision)

    def hub_folder(self, repo: str, revision: str) -> Path | None:
        """The small files of a hub's repository; None where they cannot be had."""
        name, offline = f"{repo}@{revision}" if revision else repo, self._settings.offline
        try:
            ask = partial(snapshot, repo, revision, name=name, offline=offline)
            return self._answers.get("snapshot", name, ask, limit=HUB_SECONDS)
        except ModelUnavailable:  # said when it is used
            return None

    def checkpoint_folder(self, file: str, prediction: str) -> Path:
        """The folder of a checkpoint in one file, made when it is first named; ModelUnavailable where it cannot be."""
        name = f"{self._hashes.fingerprint(Path(file))}{prediction and f'-{prediction}'}"
        folder = self._settings.data_dir / "checkpoints" / name
        write = partial(open_checkpoint, Path(file), prediction, folder, offline=self._settings.offline)
        if not (folder / "model_index.json").is_file():
            self._answers.get("checkpoint", name, write, limit=WEIGHTS_SECONDS)
        return folder

    def pinned(self, info: ModelInfo) -> ModelInfo:
        """With its folder, or the commits that its name stands for from now on."""
        options = {**info.options, "path": self.find(str(info.options["path"]))}
        entry = replace(info, options=options)
        self.check_size(info.id, str(options["path"]), info.download_gb, info.revision)
        ask = partial(pinned, entry, offline=self._settings.offline)
        return self._answers.get("pinned", info.id, ask, limit=HUB_SECONDS)

    def check_size(self, name: str, path: str, listed_gb: float, revision: str = "") -> None:
        """Refuse, on a public server, what is larger than ``BIAS_ALLOWED_GB``, or the hub does not say how large.

        Of listed models the size is known.
        """
        most = self._settings.allowed_gb
        asks = self._settings.public and not self._settings.offline  # offline, nothing is fetched
        if not asks or listed_gb or not is_hub_id(self.find(path)):
            return
        n_gb = self._answers.get("size", name, partial(download_gb, path, revision), limit=HUB_SECONDS)
        if not n_gb:
            raise ModelUnavailable(f"the hub does not say how large {name} is; choose another model")
        if n_gb > most:
            raise ModelUnavailable(
                f"{name} has {n_gb:.0f} GB of weights, this server takes {most:g} GB; choose a smaller one"
            )

    def loras(self, info: ModelInfo) -> Path | None:
        """The folder with one LoRA per condition, for a model that has conditions."""
        return self._settings.assets_dir / str(info.options["loras"]) if "loras" in info.options else None

    def version(self, info: ModelInfo) -> str:
        """Which weights the entry stands for now: commits of a hub, or fingerprints of the files.

        ModelUnavailable is raised where neither a hub nor this machine has them, or a file cannot be read.
        """
        if info.family == "renderer":
            from bias_core.world.planted import REVISION

            return REVISION
        entry, loras = self.pinned(info), self.loras(info)
        local = _local_sources(entry)
        versions = [self._hashes.fingerprint(local["path"]) if "path" in local else entry.revision]
        for key in _PARTS:
            if key in local:
                versions.append(self._hashes.fingerprint(local[key]))
            elif source := str(entry.options.get(key, "")):
                versions.append(split_revision(source)[1])
        conditions = f"-{self._hashes.fingerprint(loras)[:6]}" if loras and loras.is_dir() else ""
        return "+".join(versions) + conditions

    def fetch(self, info: ModelInfo, version: str, device: str) -> None:
        """Download the model's files, for whoever holds no lock: who draws meanwhile goes on."""
        if info.embedded or info.family == "renderer" or self._settings.offline:
            return
        variant = None if pick_device(device) == "cpu" else info.options.get("variant")
        entry = self.pinned(info)
        fetch = partial(fetch_pipeline, replace(entry, options={**entry.options, "variant": variant}))
        self._answers.get("files", info.id, fetch, version=version, limit=WEIGHTS_SECONDS)

    def files(self, info: ModelInfo) -> tuple[Path, ...]:
        """The folders and files that :meth:`version` reads; no hub is asked."""
        if info.family == "renderer":
            return ()
        options = {**info.options, "path": self.find(str(info.options["path"]))}
        return tuple(_local_sources(replace(info, options=options)).values())

    def reader_version(self, info: ToolInfo) -> str:
        """Fingerprint of a reader's folder or file now; "" for one of a hub, a package or a server."""
        source = Path(self.find(info.local or info.path))
        return self._hashes.fingerprint(source) if info.path and source.exists() else ""


def check_version(name: str, version: str, now: Callable[[], str]) -> None:
    """Refuse weights that are not those that pictures or numbers are about to be kept under."""
    if now() != version:
        raise ModelUnavailable(
            f"the files of {name} have changed since this began; start again, and the new ones are used"
        )


def snapshot(repo: str, revision: str = "", *, name: str, offline: bool = False) -> Path:
    """Folder of the repository's small files as of a commit, tag or branch; its name is the commit.

    The hub is asked which commit a branch is at now; without a network it is the one that was used last.
    ModelUnavailable: no such repository or revision, no access to it, or neither a network nor a copy.
    """
    with loading(name, repo):
        how = {"revision": revision or None, "allow_patterns": _SMALL, "local_files_only": offline}
        return Path(huggingface_hub.snapshot_download(repo, **how))


def pinned(info: ModelInfo, *, offline: bool = False) -> ModelInfo:
    """The entry with the commit of everything that it takes from a hub: one run is one set of weights.

    A pipeline of two has both: ``options`` names the second with "@commit" then, like a LoRA on top. A commit
    that the entry names itself is taken as it is.
    """

    def commit(repo: str, revision: str, name: str) -> str:
        return revision if _COMMIT.fullmatch(revision) else snapshot(repo, revision, name=name, offline=offline).name

    options, revision = dict(info.options), info.revision
    companion, repo = _COMPANIONS.get(info.family, ("", ""))
    if is_hub_id(str(options["path"])):
        revision = commit(str(options["path"]), revision, info.id)
        if companion:
            options.setdefault(companion, repo)
    for key in (companion, "lora"):
        name, part_revision = split_revision(str(options.get(key, "")))
        if is_hub_id(name):
            options[key] = f"{name}@{commit(name, part_revision, f'{info.id}: {key}')}"
    return replace(info, revision=revision, options=options)


def _local_sources(info: ModelInfo) -> dict[str, Path]:
    """The folders and files of a pinned entry that are no hub's, by its options' names."""
    sources = {key: Path(str(info.options.get(key, ""))).expanduser() for key in ("path", *_PARTS)}
    return {key: path for key, path in sources.items() if info.options.get(key) and path.exists()}


def fetch_pipeline(info: ModelInfo) -> None:
    """Download what a pinned entry takes from a hub, and load nothing of it; ModelUnavailable where that fails."""
    for key in ("path", *_PARTS):
        repo, revision = split_revision(str(info.options.get(key, "")))
        if not is_hub_id(repo):
            continue
        revision = info.revision if key == "path" else revision
        with loading(info.id, repo):
            if key == "lora":
                hub_folder(repo, revision)
            elif key == "llama":
                llama_folder(str(info.options[key]), offline=False)
            else:
                how = {"revision": revision or None, "variant": info.options.get("variant")}
                diffusers.DiffusionPipeline.download(repo, **how, use_safetensors=True)
