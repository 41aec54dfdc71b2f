"""Weights by name: place, version, download, and fit to this machine."""

import ctypes
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import huggingface_hub
import psutil
import safetensors

from bias_core.errors import ModelUnavailable
from bias_core.models import diffusers, hub_errors, torch
from bias_core.models.catalogue import HostedName, ToolInfo, is_hub_id, read_model_json, split_revision
from bias_core.models.family_facts import (
    DEEPFLOYD_SHARED,
    DEEPFLOYD_UPSCALER,
    HIDREAM_LLAMA,
    KANDINSKY_PRIOR,
    llama_folder,
)
from bias_core.models.weights import counting_bytes, download_bar, format_keys, hub_folder, loading, pick_device
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
_SMALL = ["model_index.json", "config.json", "*/config.json", "*/scheduler_config.json"]


class ModelSources:
    """Finds weights; asks a hub once for a name's commit, and checks files every time."""

    def __init__(self, settings: Settings, hashes: FileHashes) -> None:
        self._settings, self._hashes = settings, hashes
        self._answers = BuiltOnce()
        self._n_bytes: defaultdict[str, float] = defaultdict(float)  # downloaded so far, by model

    def find(self, path: str) -> str:
        """The path of an assets' or user's folder or file; other names (hub ids) unchanged."""
        shipped = self._settings.assets_dir / path
        if path.startswith("calibration/") or shipped.is_dir():
            return str(shipped)
        local = Path(path).expanduser()
        return str(local) if local.exists() else path

    def is_local(self, info: ModelInfo) -> bool:
        path = str(info.options.get("path", ""))
        return info.embedded or Path(self.find(path)).is_dir() or is_cached(path, info.revision)

    def hub_folder(self, repo: str, revision: str) -> Path | None:
        """The small files of a hub's repository; None if unavailable."""
        name, offline = f"{repo}@{revision}" if revision else repo, self._settings.offline
        try:
            ask = partial(snapshot, repo, revision, name=name, offline=offline)
            return self._answers.get("snapshot", name, ask, limit=HUB_SECONDS)
        except ModelUnavailable:  # reported on use
            return None

    def checkpoint_folder(self, file: str, prediction: str) -> Path:
        """The folder of a one-file checkpoint, created on first use; ModelUnavailable if that fails."""
        name = f"{self._hashes.fingerprint(Path(file))}{prediction and f'-{prediction}'}"
        folder = self._settings.data_dir / "checkpoints" / name
        write = partial(open_checkpoint, Path(file), prediction, folder, offline=self._settings.offline)
        if not (folder / "model_index.json").is_file():
            self._answers.get("checkpoint", name, write, limit=WEIGHTS_SECONDS)
        return folder

    def pinned(self, info: ModelInfo) -> ModelInfo:
        """The entry with its folder, or with the current commits of its name."""
        options = {**info.options, "path": self.find(str(info.options["path"]))}
        entry = replace(info, options=options)
        self.check_size(info.id, str(options["path"]), info.download_gb, info.revision)
        ask = partial(pinned, entry, offline=self._settings.offline)
        return self._answers.get("pinned", info.id, ask, limit=HUB_SECONDS)

    def check_size(self, name: str, path: str, listed_gb: float, revision: str = "") -> None:
        """On a public server, refuse unlisted models larger than ``BIAS_ALLOWED_GB`` or of unknown size."""
        max_gb = self._settings.allowed_gb
        asks = self._settings.public and not self._settings.offline  # no downloads offline
        if not asks or listed_gb or not is_hub_id(self.find(path)):
            return
        n_gb = self._answers.get("size", name, partial(download_gb, path, revision), limit=HUB_SECONDS)
        if not n_gb:
            raise ModelUnavailable(f"the hub does not say how large {name} is; choose another model")
        if n_gb > max_gb:
            raise ModelUnavailable(
                f"{name} has {n_gb:.0f} GB of weights, and this server allows {max_gb:g} GB; choose a smaller model"
            )

    def fit(self, info: ModelInfo) -> "ModelFit":
        """The fit of a model to this machine; for unlisted ones, the hub is asked for the size, once."""
        settings, is_local, n_gb = self._settings, self.is_local(info), self._listed_gb(info)
        if not is_local and not n_gb and not settings.offline:
            ask = partial(download_gb, str(info.options["path"]), info.revision)
            n_gb = round(self._answers.get("size", info.id, ask), 1)
        info = replace(info, download_gb=n_gb)
        options = {"offline": settings.offline, "on_cpu": settings.device == "cpu"}
        return model_fit(info, get_machine(), is_local=is_local, free_disk=free_disk(), **options)

    def _listed_gb(self, info: ModelInfo) -> float:
        """The listed download; without a GPU it is in single precision, twice as large as a variant."""
        takes_variant = self._settings.device == "mps" or gpu_memory(get_machine(), self._settings.device)
        return info.download_gb if takes_variant or "variant" not in info.options else 2 * info.download_gb

    def loras(self, info: ModelInfo) -> Path | None:
        """The folder with one LoRA per condition, for a model with conditions."""
        return self._settings.assets_dir / str(info.options["loras"]) if "loras" in info.options else None

    def version(self, info: ModelInfo) -> str:
        """Current version of the weights: commits, or fingerprints of files; ModelUnavailable without readable ones."""
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

    def fetch(self, info: ModelInfo, version: str, device: str) -> Iterator[tuple[float, float]]:
        """Download the model's files, yielding (gigabytes so far, in all); call it without a lock: drawing continues.

        The second is 0 if unknown.
        """
        if info.embedded or info.family == "renderer" or self._settings.offline:
            return
        variant = None if pick_device(device) == "cpu" else info.options.get("variant")
        entry = self.pinned(info)
        count = partial(self._add_bytes, info.id)
        fetch = partial(fetch_pipeline, replace(entry, options={**entry.options, "variant": variant}), count)
        for _ in self._answers.steps("files", info.id, fetch, version=version, limit=WEIGHTS_SECONDS):
            yield self._n_bytes[info.id] / _GB, self._listed_gb(info)

    def _add_bytes(self, name: str, n_bytes: float) -> None:
        self._n_bytes[name] += n_bytes

    def files(self, info: ModelInfo) -> tuple[Path, ...]:
        """The folders and files that :meth:`version` reads, without asking a hub."""
        if info.family == "renderer":
            return ()
        options = {**info.options, "path": self.find(str(info.options["path"]))}
        return tuple(_local_sources(replace(info, options=options)).values())

    def reader_version(self, info: ToolInfo) -> str:
        """Current fingerprint of a reader's folder or file; "" for a hub's, package's or server's."""
        source = Path(self.find(info.local or info.path))
        return self._hashes.fingerprint(source) if info.path and source.exists() else ""


def check_version(name: str, version: str, now: Callable[[], str]) -> None:
    """Raise ModelUnavailable for weights that changed, since results are stored under their version."""
    if now() != version:
        raise ModelUnavailable(
            f"the files of {name} have changed since this began; start again, and the new ones are used"
        )


def snapshot(repo: str, revision: str = "", *, name: str, offline: bool = False) -> Path:
    """Folder of the repository's small files as of a commit, tag or branch; its name is the commit.

    A branch gives its current commit on the hub; without a network, the last one used.
    ModelUnavailable: no such repository or revision, no access to it, or neither a network nor a copy.
    """
    with loading(name, repo):
        options = {"revision": revision or None, "allow_patterns": _SMALL, "local_files_only": offline}
        return Path(huggingface_hub.snapshot_download(repo, **options))


def pinned(info: ModelInfo, *, offline: bool = False) -> ModelInfo:
    """The entry with the commit of every hub file that it uses, so that one run has one set of weights.

    For a pipeline of two, ``options`` names the second with "@commit", like a LoRA. A commit
    in the entry stays.
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
    """Local folders and files of a pinned entry, by option."""
    sources = {key: Path(str(info.options.get(key, ""))).expanduser() for key in ("path", *_PARTS)}
    return {key: path for key, path in sources.items() if info.options.get(key) and path.exists()}


def fetch_pipeline(info: ModelInfo, count: Callable[[float], None] = lambda _n: None) -> None:
    """Download a pinned entry's hub files without loading them; ModelUnavailable if that fails.

    ``count`` is called with the number of bytes of each part of a file.
    """
    with counting_bytes(count):
        _fetch_parts(info)


def _fetch_parts(info: ModelInfo) -> None:
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
                options = {
                    "revision": revision or None,
                    "variant": info.options.get("variant"),
                    "use_safetensors": True,
                }
                download_pipeline(repo, **options, **dict.fromkeys(DEEPFLOYD_SHARED if key == "upscaler" else ()))


def download_pipeline(repo: str, **options: Any) -> Path:
    """The folder of a repository, downloaded if missing; in half precision if there is no other.

    ``options`` are those of diffusers; parts among them that are None are left out.
    """
    # Diffusers hands no progress bar to the hub's client.
    snapshot_download = partial(huggingface_hub.snapshot_download, tqdm_class=download_bar())
    diffusers.pipelines.pipeline_utils.snapshot_download = snapshot_download
    try:
        return Path(diffusers.DiffusionPipeline.download(repo, **options))
    except OSError as error:
        # Diffusers' words for a repository whose weights are all of a variant, such as fp16.
        if "necessary `safetensors`" not in str(error) or options.get("variant"):
            raise
    return Path(diffusers.DiffusionPipeline.download(repo, **options | {"variant": "fp16"}))


_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of containers, version 2 and 1
_USED = ("memory.current", "memory/memory.usage_in_bytes")
_PATIENCE_SECONDS = 5  # for the driver's tool, which can hang
_M_ARENA_MAX = -8  # of malloc.h
ZERO_GPU_BYTES = 70 * 10**9  # of the slice that a Space on ZeroGPU is lent


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Sizes in bytes."""

    memory: int  # available to programs on this machine or in this container
    gpu_memory: int = 0  # of the largest GPU; 0 without one
    gpu: str = ""  # its name, "" without one


@lru_cache(maxsize=1)
def get_machine() -> Machine:
    """Sizes of this machine, read once without importing torch."""
    total = int(psutil.virtual_memory().total)
    memory = min(total, _cgroup(_LIMITS) or total)
    if os.environ.get("SPACES_ZERO_GPU"):
        return Machine(memory=memory, gpu_memory=ZERO_GPU_BYTES, gpu="ZeroGPU")
    gpu_memory, name = max(_gpus(), default=(0, ""))
    return Machine(memory=memory, gpu_memory=gpu_memory, gpu=name)


def free_memory() -> int:
    """Bytes of memory still available under the system's and the container's limits."""
    available = int(psutil.virtual_memory().available)
    limit, used = _cgroup(_LIMITS), _cgroup(_USED)
    return min(available, limit - used) if limit and used else available


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def share_freed_memory() -> None:
    """Let all threads share two memory pools: one per thread would keep each one's peak, a megabyte per visitor."""
    with suppress(OSError, AttributeError):  # another C library than glibc has no such setting
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _cgroup(names: tuple[str, ...]) -> int:
    """A limit of this container; 0 for none ("max")."""
    for name in names:
        with suppress(OSError, ValueError):  # outside of a container, or "max"
            return int((_CGROUP / name).read_text(encoding="ascii"))
    return 0


def _gpus() -> list[tuple[int, str]]:
    """(bytes, name) of each NVIDIA GPU, from the driver's tool."""
    command = ["nvidia-smi", "--query-gpu=memory.total,name", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no driver of NVIDIA
        return []
    lines = [line.partition(",") for line in output.splitlines() if line.strip()]
    return [(int(mib) << 20, name.strip()) for mib, _, name in lines if mib.strip().isdigit()]


_GB = 1e9
ON_CPU = 2.2  # single precision takes twice the half-precision weights, plus working memory
_HUB_SECONDS = 5.0
WORKING_BYTES_PER_PIXEL = 6_000
"""Memory of one picture in addition to the weights, nearly all in the last layers of the VAE: about
1.6 GB at 512 x 512 and 6.3 GB at 1024 x 1024 for the VAEs of SD and SDXL."""
_MOST_AT_ONCE = 8  # larger batches are hardly faster, and Stop and progress work per batch
_GATED = (
    " Its makers ask for consent: accept their terms on its page, and give your own token (HF_TOKEN, or "
    "`hf auth login`)."
)


@dataclass(frozen=True, kw_only=True)
class ModelFit:
    is_local: bool  # true if its weights are on this machine
    works: bool  # false if it certainly cannot be used
    short: str  # a few words for a menu; "" for shipped models
    says: str  # one or two sentences with advice


def model_fit(
    info: ModelInfo, machine: Machine, *, is_local: bool, offline: bool, free_disk: int, on_cpu: bool = False
) -> ModelFit:
    """Judge one model with weights that are ``is_local`` or need part of the ``free_disk`` bytes.

    ``offline`` forbids downloads, ``on_cpu`` the GPU.
    """
    size = info.download_gb
    if info.embedded:
        return ModelFit(is_local=True, works=True, short="", says="Comes with the program.")
    if not is_local and offline:
        says = (
            "Its weights are not on this machine, and downloads are off (BIAS_OFFLINE forbids them); choose a model "
            "that is here, name a folder with one, or allow downloads."
        )
        return ModelFit(is_local=False, works=False, short="not on this machine, downloads are off", says=says)
    if not is_local and size * _GB > free_disk:
        says = (
            f"Its weights take {size:g} GB, and the disk has {free_disk / _GB:.0f} GB free; make room "
            "(or set HF_HOME to a larger disk)."
        )
        return ModelFit(is_local=False, works=False, short=f"no room for {size:g} GB", says=says)
    weights, sentence = "size unknown", "The size of its download on first use is unknown."
    if is_local:
        weights, sentence = "on this machine", "Its weights are on this machine."
    elif size:
        weights, sentence = f"downloads {size:g} GB", f"Downloads {size:g} GB on first use."
    if info.gated and not is_local:
        weights, sentence = f"{weights}, gated", sentence + _GATED
    works, room, advice = _memory(info, machine, on_cpu=on_cpu)
    short, says = ", ".join(filter(None, (weights, room))), " ".join(filter(None, (sentence, advice)))
    return ModelFit(is_local=is_local, works=works, short=short, says=says)


def hosted_fit(info: ModelInfo, hosted: HostedName, *, has_server: bool) -> ModelFit:
    """The fit of a hosted model, without asking a service."""
    price = "price unknown" if info.price_usd is None else f"{info.price_usd:g} USD a picture"
    if hosted.service == "openai" and not has_server:
        says = (
            "It needs an OpenAI-compatible server, and none is known here (set BIAS_IMAGES_URL, and "
            "BIAS_IMAGES_KEY for its key)."
        )
        return ModelFit(is_local=False, works=False, short="hosted, no server is set", says=says)
    provider = hosted.provider or "a provider that Hugging Face chooses"
    server = (
        "an OpenAI-compatible server (BIAS_IMAGES_URL)"
        if hosted.service == "openai"
        else f"{provider}, with your own token"
    )
    seeds = " It takes no seed: pictures cannot be paired." if "seed" in hosted.unsent else ""
    says = f"Each picture is a request to {server}; {price}.{seeds}"
    return ModelFit(is_local=True, works=True, short=f"hosted, {price}", says=says)


def _memory(info: ModelInfo, machine: Machine, *, on_cpu: bool) -> tuple[bool, str, str]:
    """Tell if it can run, with a few words and a sentence; both empty if unknown."""
    needed, gpu = info.memory_gb, 0.0 if on_cpu else machine.gpu_memory / _GB
    if gpu and needed <= gpu:
        return True, "", f"It needs {needed:g} GB of the GPU's {gpu:.0f}." if needed else ""
    if gpu:
        says = f"It needs {needed:g} GB and the GPU has {gpu:.0f}: its parts take turns there, which is slower."
        return True, "slow here: larger than the GPU", says
    memory, on_cpu_gb = machine.memory / _GB, needed * ON_CPU
    if math.isfinite(on_cpu_gb) and on_cpu_gb > memory:
        says = (
            f"Without a GPU it needs about {on_cpu_gb:.0f} GB of memory, and this machine has {memory:.0f} "
            "GB; choose a smaller model or a machine with a GPU."
        )
        return False, "too large for this machine", says
    return True, "slow without a GPU", "Without a GPU a picture takes minutes."


def gpu_memory(machine: Machine, device: str) -> int:
    """Bytes of the CUDA GPU that a wanted ``device`` ("auto", "cpu", "cuda" or "mps") means; 0 for others."""
    return machine.gpu_memory if device in ("auto", "cuda") else 0


def is_torch_for_cpu() -> bool:
    """True if the installed torch was built without CUDA, so that a GPU does not help; torch is not imported."""
    return version("torch").endswith("+cpu")


def first_batch_size(info: ModelInfo, machine: Machine, device: str, weights: int = 0) -> int:
    """Initial batch size: from ``options``, or an estimate for the GPU; 1 on a CPU.

    Free memory does not count, so that a card draws the same pictures whatever else it holds. The size of a model that
    is not listed follows from its ``weights`` (bytes), known once they are loaded; before that it is the largest.

    >>> sdxl = ModelInfo(id="xl", name="", family="sdxl", width=1024, height=1024, memory_gb=13.2)
    >>> cards = [Machine(memory=0, gpu_memory=gb << 30) for gb in (0, 16, 24, 80)]
    >>> [first_batch_size(sdxl, card, "auto") for card in cards]
    [1, 1, 2, 8]
    >>> [first_batch_size(replace(sdxl, memory_gb=0), card, "auto", weights=6_900_000_000) for card in cards]
    [1, 1, 2, 8]
    """
    if "batch_size" in info.options:
        return int(info.options["batch_size"])
    if not (memory := gpu_memory(machine, device)):
        return 1
    working = info.width * info.height * WORKING_BYTES_PER_PIXEL
    if not (needed := info.memory_gb * _GB or (weights and weights + working)):
        return _MOST_AT_ONCE
    return max(1, min(_MOST_AT_ONCE, 1 + int((memory - needed) / working)))


def fitting_readers(listed: Iterable[ToolInfo]) -> tuple[str, ...]:
    """Readers for any pictures that fit this machine, local ones first."""
    memory, room = get_machine().memory / ON_CPU, free_disk()
    general = [(info, is_cached(info.path, file="config.json")) for info in listed if not info.world]
    sizes = [(info.id, info.download_gb * _GB, is_local) for info, is_local in general]
    fits = {name: is_local for name, size, is_local in sizes if size <= memory and (is_local or size <= room)}
    return tuple(sorted(fits, key=lambda name: not fits[name]))


def default_reader(listed: Sequence[ToolInfo], world: str, *, on_cpu: bool, offline: bool) -> str:
    """The default reader for pictures of a world ("" for any others) on this machine; offline a local one."""
    if world_readers := [info.id for info in listed if world and info.world == world]:
        return world_readers[0]
    machine = "gpu" if get_machine().gpu_memory and not on_cpu else "cpu"
    general = sorted((info for info in listed if not info.world), key=lambda info: info.default != machine)
    fits = fitting_readers(listed)
    local_readers = [info.id for info in general if info.id in fits and is_cached(info.path, file="config.json")]
    if offline and local_readers:
        return local_readers[0]
    return next((info.id for info in general if info.id in fits), general[0].id)


def is_cached(repo: str, revision: str = "", file: str = "model_index.json") -> bool:
    """True if ``file`` of the repository is on this machine; downloads fetch its weights right after it."""
    return isinstance(huggingface_hub.try_to_load_from_cache(repo, file, revision=revision or None), str)


def cached_commit(repo: str) -> str:
    """The commit of a reader's files on this machine; "" if they are missing, or not a hub's."""
    file = huggingface_hub.try_to_load_from_cache(repo, "config.json") if repo else None
    return Path(file).parent.name if isinstance(file, str) else ""


def free_disk() -> int:
    from huggingface_hub.constants import HF_HUB_CACHE

    return free_bytes(Path(HF_HUB_CACHE).absolute())


def download_gb(repo: str, revision: str = "") -> float:
    """Gigabytes of weights in a repository's download; 0 if unknown, also without a network or access."""
    errors = (hub_errors.HTTPError, hub_errors.HFValidationError, hub_errors.OfflineModeIsEnabled, OSError, ValueError)
    try:
        info = huggingface_hub.HfApi().model_info(
            repo, revision=revision or None, files_metadata=True, timeout=_HUB_SECONDS
        )
    except errors:
        return 0.0
    return weights_gb((file.rfilename, file.size or 0) for file in info.siblings or ())


def weights_gb(files: Iterable[tuple[str, int]]) -> float:
    """Gigabytes of the (path, bytes) that are loaded: plain weights of components, else the model's.

    >>> weights_gb([("model.safetensors", 9), ("unet/diffusion_pytorch_model.safetensors", 2 * 10**9),
    ...             ("unet/diffusion_pytorch_model.fp16.safetensors", 10**9), ("unet/config.json", 5)])
    2.0
    """
    of_components, on_top = 0, 0
    for path, size in files:
        folder, _, name = path.rpartition("/")
        if "/" not in folder and len(name.split(".")) == 2 and name.endswith(".safetensors"):
            of_components += size if folder else 0
            on_top += 0 if folder else size
    return (of_components or on_top) / 1e9


PREDICTIONS = ("epsilon", "v_prediction")
"""Predictions of Stable Diffusion's and SDXL's networks; files seldom name theirs."""

_NETWORKS = ("model.diffusion_model.", "double_blocks.", "joint_blocks.", "transformer_blocks.", "down_blocks.")
_SETTINGS = ["*.json", "*.txt", "*.model", "*/*.json", "*/*.txt", "*/*.model"]


def open_checkpoint(file: Path, prediction: str, folder: Path, *, offline: bool = False) -> None:
    """Write the pipeline of a file into ``folder``; ``prediction`` is one of :data:`PREDICTIONS`, or "".

    Its settings come from the folder of the same name next to it, or from the hub's model of its kind. Raises
    ModelUnavailable: an incomplete checkpoint, missing settings, or a prediction that must (or cannot) be named.
    """
    with loading(str(file), str(file)):
        keys, metadata = _header(file)
        if not any(key.startswith(_NETWORKS) for key in keys):
            raise ModelUnavailable(
                f"{file} is not a checkpoint of a whole model (its weights are {format_keys(keys) or 'none'})"
            )
        settings = _find_settings_file(file, offline=offline)
        name = str(read_model_json(settings / "model_index.json").get("_class_name"))
        kind: Any = getattr(diffusers, name, None)
        if not hasattr(kind, "from_single_file"):
            raise ModelUnavailable(f"{file} is a {name}, which diffusers does not open from one file; give a folder")
        scheduler = read_model_json(settings / "scheduler" / "scheduler_config.json")
        changes = _scheduler_changes(file, prediction, scheduler, keys, metadata)
        diffusers.utils.logging.disable_progress_bar()
        try:
            pipeline = kind.from_single_file(str(file), config=str(settings), local_files_only=True)
        except NotImplementedError as error:  # a network with a tensor without data
            raise ModelUnavailable(f"{file} lacks weights of one of its networks; download it again") from error
        _check_whole_of_single_file(file, pipeline)
        if changes:
            pipeline.scheduler = type(pipeline.scheduler).from_config(pipeline.scheduler.config, **changes)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            whole = Path(unfinished) / "whole"
            pipeline.save_pretrained(whole, safe_serialization=True)
            shutil.rmtree(folder, ignore_errors=True)
            whole.rename(folder)


def _header(file: Path) -> tuple[set[str], dict[str, str]]:
    with safetensors.safe_open(file, framework="pt") as opened:
        return set(opened.keys()), opened.metadata() or {}


def _find_settings_file(file: Path, *, offline: bool) -> Path:
    beside = file.with_suffix("")
    if (beside / "model_index.json").is_file():
        return beside
    utils: Any = diffusers.loaders.single_file_utils
    repo = utils.fetch_diffusers_config(utils.load_single_file_checkpoint(str(file)))["pretrained_model_name_or_path"]
    try:
        return Path(huggingface_hub.snapshot_download(repo, allow_patterns=_SETTINGS, local_files_only=offline))
    except (hub_errors.HTTPError, OSError) as error:
        raise ModelUnavailable(
            f"{file} has weights alone, and the settings of its kind, {repo}, are not on this machine and were not "
            f"downloaded; put its small files (.json, .txt) into the folder {beside}"
        ) from error


def _scheduler_changes(
    file: Path, prediction: str, scheduler: Any, keys: set[str], metadata: dict[str, str]
) -> dict[str, Any]:
    """Settings of the scheduler that follow from the network's prediction."""
    if "FlowMatch" in str(scheduler.get("_class_name")):
        if prediction:
            raise ModelUnavailable(f"{file} is a flow model, which predicts a velocity; name it without @{prediction}")
        return {}
    metadata_type = metadata.get("modelspec.prediction_type", "").lower()
    file_prediction = (
        "v_prediction"
        if "v_pred" in keys or metadata_type.startswith("v")
        else "epsilon"
        if metadata_type == "epsilon"
        else ""
    )
    prediction = prediction or file_prediction
    if prediction not in PREDICTIONS:
        raise ModelUnavailable(
            f"{file} does not say what its network predicts; name it {file}@epsilon, as most are, or "
            f"{file}@v_prediction, as its makers say"
        )
    zero_snr = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"} if "ztsnr" in keys else {}
    return {"prediction_type": prediction, **zero_snr}


def _check_whole_of_single_file(file: Path, pipeline: Any) -> None:
    """Refuse a file that lacks weights, which diffusers leaves without data."""
    for name, part in pipeline.components.items():
        if isinstance(part, torch.nn.Module):
            missing = [key for key, tensor in part.state_dict().items() if tensor.is_meta]
            if missing:
                raise ModelUnavailable(f"{file} lacks {len(missing)} weights of its {name} ({format_keys(missing)})")
