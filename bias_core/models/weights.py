"""Load weights of models and adapters safely.

Also the base of all models with weights: they load with the first input, and work in batches that fit the memory.
"""

import gc
import logging
import re
import secrets
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from importlib import metadata
from itertools import count
from pathlib import Path
from pickle import UnpicklingError
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import huggingface_hub
import safetensors

from bias_core.errors import BiasCoreError, Cancelled, HubNotReached, ModelUnavailable, NotEnoughMemory
from bias_core.installed import ASSETS
from bias_core.models import diffusers, hub_errors, peft, torch, transformers
from bias_core.models.catalogue import is_hub_id, read_model_json
from bias_core.waiting import WEIGHTS_SECONDS, BuiltOnce, FairLock, stop_signal
from bias_core.wording import format_list

if TYPE_CHECKING:
    from packaging.requirements import Requirement


T = TypeVar("T")
X = TypeVar("X")
R = TypeVar("R")

TROUBLES = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, NameError),
    *(OSError, RuntimeError, TypeError, UnpicklingError, ValueError, struct.error),
)
"""Errors of libraries for unexpected files or arguments of a model."""

_last_used: "WeakKeyDictionary[LazyModel[Any], int]" = WeakKeyDictionary()
_clock = count()
_log = logging.getLogger(__name__)
_OF_READERS = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
_ROBOT, _CONVERSION = "SFconvertbot", "Adding `safetensors` variant of this model"
_INDEX = ".safetensors.index"
_TOKENIZER = "tokenizer.json"
_JSON = (
    *("model_index.json", "config.json", "generation_config.json", "scheduler_config.json", "vocab.json"),
    *("preprocessor_config.json", "processor_config.json", "tokenizer_config.json"),
)
_WHOLE_NUMBERS = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
# Buffers that models compute themselves and older library versions saved.
_COMPUTED = re.compile(r"(^|\.)(position_ids|inv_freq|masked_bias|num_batches_tracked)$")
# By a configuration's kind: keys of the whole model of which it is a part.
_REST_OF = {
    "clip_text_model": re.compile(r"^(vision_model|visual_projection|text_projection|logit_scale)(\.|$)"),
    "clip_vision_model": re.compile(r"^(text_model|text_projection|visual_projection|logit_scale)(\.|$)"),
    "t5": re.compile(r"^(decoder|lm_head)\."),
    "umt5": re.compile(r"^(decoder|lm_head)\."),
}
_UNREACHED = (
    "its files are not on this machine, and the hub was not reached; check the network (and BIAS_OFFLINE), or "
    "choose a local model"
)
# By name of the error, specific ones first.
_HUB_REFUSALS = {
    "GatedRepoError": "its makers ask for consent; accept their terms on the model's page and give your own token "
    "(HF_TOKEN, or `hf auth login`), or choose another model",
    "RepositoryNotFoundError": "the hub has no model of this name, or hides it from you; check the spelling, and "
    "for a private model give your own token (HF_TOKEN, or `hf auth login`)",
    "RevisionNotFoundError": "the hub has the model, but not this revision of it; check the revision",
    "RemoteEntryNotFoundError": "it lacks a file that a model of this kind has, so it is not in the layout of "
    "diffusers or transformers; choose a repository that is. Models that are only published as modular pipelines "
    "(modular_model_index.json: FLUX.3, Anima) cannot be drawn with here",
    "LocalEntryNotFoundError": _UNREACHED,
    "OfflineModeIsEnabled": _UNREACHED,
    "SafetensorError": "a .safetensors file is cut off or damaged; delete it and download it again, and see "
    "whether the disk is full",
}
_PICKLE = (
    "it has no weights in safetensors, and a pickle, which may run any program when it is read, is never "
    "opened here; ask its makers for safetensors, convert it yourself, or choose another model"
)


def get_cuda_version() -> str:
    """Return the version of CUDA that torch uses; "" if it sees no GPU of NVIDIA."""
    return str(torch.version.cuda) if torch.cuda.is_available() else ""


def pick_device(device: str) -> str:
    """The device to use: for "auto", CUDA if present; ModelUnavailable for a missing device."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present[device]:
        raise ModelUnavailable(f"this machine has no {device} (BIAS_DEVICE; use auto or cpu)")
    return device


def cpu_threads(n: int = 0) -> int:
    """Number of computing threads of this process; sets it to ``n`` if given."""
    if n:
        torch.set_num_threads(n)
    return int(torch.get_num_threads())


@contextmanager
def computing_threads(n: int) -> Iterator[None]:
    """Compute with ``n`` threads of the processor until the block ends; 0: as many as usual."""
    usual = torch.get_num_threads()
    if not n or n == usual:
        yield
        return
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


@contextmanager
def loading(name: str, source: str) -> Iterator[None]:
    """Turn every failure to read weights into ModelUnavailable with advice; silence the libraries."""
    with ExitStack() as around:
        around.push(partial(_raise_in_words, name, source))
        around.enter_context(_quiet_libraries())
        yield


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Print nothing that diffusers and transformers log in this thread until the block ends.

    Loggers keep their levels: other threads draw meanwhile, and warnings about their pictures are recorded.
    """
    thread = threading.get_ident()

    def is_of_another_thread(record: logging.LogRecord) -> bool:
        return record.thread != thread

    with ExitStack() as filters:
        for library in map(logging.getLogger, ("diffusers", "transformers")):
            for handler in library.handlers:
                handler.addFilter(is_of_another_thread)
                filters.callback(handler.removeFilter, is_of_another_thread)
        yield


def _raise_in_words(name: str, source: str, kind: object, error: BaseException | None, _trace: object) -> None:
    """Reraise in words; the tokenizers' library, in Rust, raises plain Exception."""
    library_errors = (hub_errors.HTTPError, safetensors.SafetensorError, hub_errors.StrictDataclassError)
    foreseen = isinstance(error, (*TROUBLES, *library_errors)) or kind is Exception
    if error is None or isinstance(error, BiasCoreError) or not foreseen:
        return
    if isinstance(error, ImportError | AttributeError | TypeError) and (wrong := wrong_versions()):
        raise ModelUnavailable(f"{name} cannot be loaded; install other versions: {wrong}") from error
    if isinstance(error, ImportError):
        raise ModelUnavailable(f"{name} needs a library that is not installed: {error}") from error
    reason = _why(source, error).replace(f" from {name}: ", ": ", 1)
    raise (HubNotReached if reason.endswith(_UNREACHED) else ModelUnavailable)(
        f"{name} cannot be loaded{reason}"
    ) from error


def list_versions() -> "list[tuple[Requirement, str, bool]]":
    """Return each library that the program asks for, its installed version ("" without one), and if that is allowed."""
    from packaging.requirements import Requirement

    listed = ASSETS.parent / "requirements.txt"  # a source tree has no metadata of its own
    lines = listed.read_text("utf-8").splitlines() if listed.is_file() else metadata.requires("t2i-bias-explorer") or []
    versions = []
    for required in map(Requirement, filter(None, (line.partition("#")[0].strip() for line in lines))):
        version = ""
        with suppress(metadata.PackageNotFoundError):  # also the optional ones
            version = metadata.version(required.name)
        versions.append((required, version, bool(version) and required.specifier.contains(version, prereleases=True)))
    return versions


def wrong_versions() -> str:
    """Name the libraries whose installed version the package does not allow, with those it allows; "" for none."""
    return "; ".join(
        f"{required.name} {version} is installed, and {required.specifier} is needed"
        for required, version, is_allowed in list_versions()
        if version and not is_allowed
    )


def _why(source: str, error: BaseException) -> str:
    """The end of a message: source, fault and advice; shipped folders are named from ``assets`` on."""
    folder = Path(source)
    shipped = folder.is_absolute() and folder.parent.name == "calibration"
    place = "/".join(folder.parts[-3:]) if shipped else source
    if folder.is_absolute() and not folder.exists():
        remedy = "`make calibrate` trains it" if shipped else "check the path"
        return f": there is no {place}; {remedy}, or choose another model"
    if refusal := _refusal(error):
        return f" from {place}: {refusal}"
    text = f"it lacks {error}" if isinstance(error, KeyError) else str(error).strip() or type(error).__name__
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", " ".join(text.split()))
    text = text[:300].replace(source, place)
    remedy = "weights missing, corrupt, gated, or no network; check the files or choose another model"
    return f" from {place}: {text} ({remedy})"


def _refusal(error: BaseException | None) -> str:
    """A hub's refusal in plain words, by the error or its cause; "" for other errors."""
    kinds, messages = set[str](), ""
    while error is not None:
        kinds |= {kind.__name__ for kind in type(error).__mro__}
        messages += f"{error} "
        error = error.__cause__ or error.__context__
    if refusals := [words for kind, words in _HUB_REFUSALS.items() if kind in kinds]:
        return refusals[0]
    no_weights = any(words in messages for words in ("no file named", "pickle", "find the necessary"))
    return _PICKLE if "safetensors" in messages and no_weights else ""


_count_bytes: ContextVar[Callable[[float], None]] = ContextVar("count_bytes", default=lambda _n: None)


@contextmanager
def counting_bytes(count: Callable[[float], None]) -> Iterator[None]:
    """Call ``count`` with the number of new bytes of each download that this thread starts until the block ends."""
    token = _count_bytes.set(count)
    try:
        yield
    finally:
        _count_bytes.reset(token)


@lru_cache(maxsize=1)
def download_bar() -> Any:
    """A class of progress bars for the hub's client that shows nothing, counts bytes, and ends a download on Stop."""
    from huggingface_hub.utils import tqdm  # no attribute of the package before something imports it

    class DownloadBar(tqdm):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._cancelled = stop_signal()
            counts = kwargs.get("name") == "huggingface_hub.snapshot_download"  # other bars count files or packets
            self._count = _count_bytes.get() if counts else None
            super().__init__(*args, **kwargs | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            if self._cancelled():
                raise Cancelled("stopped during a download; its finished files are kept")
            if self._count is not None:
                with self.get_lock():
                    self._count(n or 0)

    return DownloadBar


def drop_longest_unused() -> bool:
    """Free the longest unused weights; False if none are loaded."""
    if not _last_used:
        return False
    min(_last_used, key=_last_used.__getitem__).unload()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return True


class Batches:
    """Inputs in batches of at most ``size``, which halves for good when the device's memory runs out."""

    filled_up = False  # true if `work` fills up the last batch

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    @contextmanager
    def use_size(self, size: int) -> Iterator[None]:
        """Make batches of this size until the block ends; only memory that runs out changes the size after it."""
        usual_size, self.size = self.size, size
        try:
            yield
        finally:
            self.size = min(usual_size, self.size) if self.size < size else usual_size

    def run(self, inputs: Sequence[X], work: Callable[[Sequence[X]], R], *, max_size: int | None = None) -> Iterator[R]:
        """Yield the result of ``work`` for each batch, in order; ModelUnavailable if memory does not hold one input."""
        start = 0
        while start < len(inputs):
            n = min(self.size, max_size or self.size)
            batch = inputs[start : start + n]
            try:
                done = work(batch)
            except torch.OutOfMemoryError as error:
                n = n if self.filled_up else len(batch)
                if n == 1:
                    raise self.too_large(batch) from error
                self.size = n // 2
            else:
                start += len(batch)
                yield done
                continue
            torch.cuda.empty_cache()  # after the except block, which holds on to the failed batch
            _log.warning("%s: memory ran out; %d at a time from now on", self.name, self.size)

    def too_large(self, batch: Sequence[Any]) -> ModelUnavailable:
        """The error for a batch that cannot shrink."""
        return ModelUnavailable(
            f"{self.name} ran out of memory at a single input; use a smaller model, or close what "
            "else uses the GPU (or set BIAS_DEVICE=cpu)"
        )


class LazyModel(ABC, Generic[T]):
    """A model that loads its weights with the first input.

    Parameters
    ----------
    name : name in caches, messages and reports.
    source : hub id, or a folder in Hugging Face layout.
    device : "auto", "cpu", "cuda" or "mps".
    offline : never ask the hub.
    unchanged : called after reading files; raises if they no longer match ``name``.
    batch_size : inputs at once, at most; halved when memory runs out.
    """

    def __init__(
        self,
        name: str,
        source: str,
        *,
        device: str = "auto",
        offline: bool = False,
        unchanged: Callable[[], None] = lambda: None,
        batch_size: int = 32,
    ) -> None:
        self.name, self.source = name, source
        self._wanted_device, self._offline, self._unchanged = device, offline, unchanged
        self._batches = Batches(name, batch_size)
        self._value: T | None = None
        self._at_work = threading.RLock()

    @abstractmethod
    def _load(self) -> T:
        """Load the model and its other parts."""

    def _parts(self) -> T:
        """The result of :meth:`_load`, loaded now if necessary; ModelUnavailable if missing, corrupt or too large."""
        value = self._value
        if value is None:
            with loading(self.name, self.source):
                value = self._load_with_room()
            self._unchanged()
        self._keep(value)
        return value

    @contextmanager
    def _running(self) -> Iterator[T]:
        """The same parts, kept until the block ends; for readers, which hold no ``model_lock``."""
        with self._at_work:
            yield self._parts()

    def _keep(self, value: T) -> None:
        """Use ``value`` from now on, as if it had been loaded."""
        self._value = value
        _last_used[self] = next(_clock)

    def _load_with_room(self) -> T:
        transformers.utils.logging.disable_progress_bar()  # otherwise it would run through our own
        try:
            return self._load()
        except (NotEnoughMemory, torch.OutOfMemoryError):
            if not drop_longest_unused():
                raise
        return self._load_with_room()  # ends once nothing else is loaded

    @property
    def loaded(self) -> bool:
        return self._value is not None

    @property
    def batch_size(self) -> int:
        """Inputs at once, at most; it halves when memory runs out."""
        return self._batches.size

    def use_batch_size(self, size: int) -> AbstractContextManager[None]:
        """Work in batches of this size until the block ends, as an earlier part of a run did."""
        return self._batches.use_size(size)

    def load(self) -> None:
        """Read the weights now; ModelUnavailable if that fails."""
        self._parts()

    def unload(self) -> None:
        """Free the weights once they are unused; the next input loads them again."""
        with self._at_work:
            self._value = None
        _last_used.pop(self, None)


class HubModel(LazyModel[T]):
    """A reader of pictures or texts from a hub, or a folder in Hugging Face layout."""

    _local = ""

    @cached_property
    def token(self) -> str:
        """Random name of this object: an id may be used again once an object is gone."""
        return secrets.token_hex(8)

    def fetch(self) -> None:
        """Download missing files; nothing is loaded."""
        if self._offline or Path(self.source).is_dir() or not is_hub_id(self.source):
            self._files()
            return
        with loading(self.name, self.source):
            folder = self._snapshot(tqdm_class=download_bar())
            if not has_safetensors(folder) and (revision := find_conversion(self.source, folder.name)):
                folder = self._snapshot(tqdm_class=download_bar(), revision=revision)
        if has_safetensors(folder):  # other models report missing files on loading
            self._local = str(folder)

    def _snapshot(self, **kwargs: Any) -> Path:
        """The folder of the hub's files that a reader needs; offline, the hub's client refuses it if one is missing."""
        patterns = {"allow_patterns": _OF_READERS, "ignore_patterns": ["*/*"]}
        return Path(huggingface_hub.snapshot_download(self.source, **patterns, **kwargs))

    def _files(self) -> tuple[str, dict[str, Any]]:
        """The source to load from, with an argument for ``from_pretrained``.

        transformers asks the hub for adapters even with local files only; for a folder it
        does not. So offline the source is the folder of an earlier download.
        """
        source = self._local or self.source
        if self._offline and not Path(source).is_absolute() and not Path(source).is_dir():
            try:
                folder = self._snapshot(local_files_only=True)
            except hub_errors.LocalEntryNotFoundError as error:
                raise missing_weights_error(self.name) from error
            converted = (other for other in sorted(folder.parent.iterdir()) if has_safetensors(other))
            source = str(folder if has_safetensors(folder) else next(converted, folder))
        return source, {"local_files_only": Path(source).is_dir()}


class ReadersTurn:
    """A lock to hold while readers work (encoders, captioners, language models); can be entered repeatedly.

    A reader works while a generator draws the next pictures. It loads while none draws: then a
    generator's weights can be freed. It is downloaded before that, outside of both locks.

    Parameters
    ----------
    readers : readers to use; those other than :class:`HubModel` have no weights, or load them elsewhere.
    reader_lock : the lock of all readers.
    model_lock : the lock of the generators.
    downloads : gets each reader's files once for all threads.
    """

    def __init__(
        self, readers: tuple[object, ...], reader_lock: FairLock, model_lock: FairLock, *, downloads: BuiltOnce
    ) -> None:
        self._readers = [reader for reader in readers if isinstance(reader, HubModel)]
        self._reader_lock, self._model_lock, self._downloads = reader_lock, model_lock, downloads

    def fetch(self) -> None:
        """Download the readers' missing files, and load nothing."""
        for reader in self._readers:
            if not reader.loaded:
                # By its token: another reader of this name needs its files, too.
                self._downloads.get(
                    "files of a reader", reader.name, reader.fetch, version=reader.token, limit=WEIGHTS_SECONDS
                )

    def __enter__(self) -> None:
        self.fetch()
        with ExitStack() as held:
            held.enter_context(self._reader_lock)
            for reader in self._readers:
                if not reader.loaded:
                    with self._model_lock:
                        reader.load()
            held.pop_all()  # all are ready: the lock stays until the turn ends

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reader_lock.release()


def has_safetensors(folder: Path) -> bool:
    return any(folder.glob("*.safetensors"))


def find_conversion(repo: str, commit: str) -> str:
    """The pull request with the safetensors that Hugging Face's robot made of the pickles of a commit; "" for none.

    Some repositories (OpenAI's CLIP ViT-B/32, BLIP's captioner) have safetensors nowhere else. transformers loads them
    from there, too, but never offline.
    """
    api = huggingface_hub.HfApi()
    with suppress(hub_errors.HTTPError, OSError):  # reported on loading
        for request in api.get_repo_discussions(repo, author=_ROBOT, discussion_type="pull_request"):
            if (request.author, request.title, request.status) == (_ROBOT, _CONVERSION, "open"):
                commits = api.list_repo_commits(repo, revision=request.git_reference)
                if [parent.commit_id for parent in commits[1:2]] == [commit]:
                    return str(request.git_reference)
    return ""


def missing_weights_error(name: str) -> ModelUnavailable:
    """The error for missing weights while downloads are forbidden."""
    return ModelUnavailable(
        f"{name} is not on this machine, and downloads are off (BIAS_OFFLINE forbids them); choose another one"
    )


def load_whole(
    kind: Any, source: str, *, name: str, stem: str = "model", variant: str | None = None, **kwargs: Any
) -> Any:
    """``kind.from_pretrained(source, **how)`` with a check that every weight came from the files and is finite.

    ``stem`` and ``variant`` are of its safetensors: "model" or "diffusion_pytorch_model", and None or "fp16". Raises
    ModelUnavailable: weights are missing, left over, of other shapes, or not finite; the message names some of them.

    Keys that the class declares dispensable (``_keys_to_ignore_on_load_missing``, tied weights) are not missing.
    Keys may be left over if it declares them, if they are buffers that it now computes (``position_ids`` of Stable
    Diffusion's text encoder), or if they belong to a larger model of which one tower is loaded: the picture tower of a
    CLIP, the decoder of a T5.
    """
    folder = Path(source) / str(kwargs.get("subfolder") or "")
    check_json(folder)
    _check_files(folder, name)
    if "gguf_file" not in kwargs:
        kwargs |= {"use_safetensors": True, "variant": _choose_variant(folder, stem, variant)}
    model, info = kind.from_pretrained(source, output_loading_info=True, ignore_mismatched_sizes=True, **kwargs)
    ignored_keys = _REST_OF.get(str(getattr(model.config, "model_type", "")))
    wrong = {
        "lacks {} of its weights": [key for key in info["missing_keys"] if not _COMPUTED.search(key)],
        "has {} that this kind of model does not take": [
            key
            for key in info["unexpected_keys"]
            if not (_COMPUTED.search(key) or (ignored_keys and ignored_keys.search(key)))
        ],
        "has {} of another shape": [
            f"{key} is {list(has)}, not {list(wants)}" for key, has, wants in info["mismatched_keys"]
        ],
    }
    faults = [words.format(len(keys)) + f" ({format_keys(keys)})" for words, keys in wrong.items() if keys]
    if faults:
        raise ModelUnavailable(
            f"{name} {' and '.join(faults)}: its weights and its config.json are not of one model; "
            "download it again, or choose another model"
        )
    check_finite(model, name)
    return model


def check_finite(model: Any, name: str) -> None:
    """Raise ModelUnavailable for NaN and infinity in the weights, whose results can look valid."""
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if tensor.is_floating_point() and tensor.numel() and tensor.device.type != "meta":
                ends = torch.stack(torch.aminmax(tensor))
                if not bool(torch.isfinite(ends.float()).all()):
                    raise ModelUnavailable(
                        f"{name} has NaN or infinity in its weights ({key}); they are damaged, or of too low "
                        "precision: download it again, or choose another model"
                    )


def check_json(folder: Path) -> None:
    """Raise ValueError for a folder with a malformed configuration or a tokenizer without a vocabulary."""
    for file in _JSON:
        if (folder / file).is_file():
            read_model_json(folder / file)
    if (folder / _TOKENIZER).is_file():
        model = read_model_json(folder / _TOKENIZER).get("model")
        if not isinstance(model, dict) or not model.get("vocab"):
            raise ValueError(f"{folder.name}/{_TOKENIZER} has no vocabulary")


def _check_files(folder: Path, name: str) -> None:
    """Refuse missing weight files, and whole numbers, to which loaders round, unless declared as quantised."""
    for index in sorted(folder.glob(f"*{_INDEX}*.json")):
        files = set(read_model_json(index).get("weight_map", {}).values())
        missing = sorted(file for file in files if not (folder / str(file)).is_file())
        if missing:
            raise ModelUnavailable(
                f"{name} lacks {len(missing)} of its {len(files)} files of weights ({format_keys(missing)}) that "
                f"{index.name} names; download them again"
            )
    paths = [path for path in folder.glob("*.safetensors") if path.is_file()]
    if not paths or "quantization_config" in read_model_json(folder / "config.json"):
        return
    for path in paths:
        with safetensors.safe_open(path, framework="pt") as file:
            weights = [key for key in file.keys() if key.endswith((".weight", ".bias"))]  # noqa: SIM118  (no mapping)
            whole = [key for key in weights if file.get_slice(key).get_dtype() in _WHOLE_NUMBERS]
        if whole:
            raise ModelUnavailable(
                f"{name} has {len(whole)} weights of whole numbers in {path.name} ({format_keys(whole)}), and "
                "its config.json has no quantization_config; download it again, or choose another model"
            )


def _choose_variant(folder: Path, stem: str, preferred: str | None) -> str | None:
    """The variant of the weights to read: the preferred, the plain, or the only one."""
    if not folder.is_dir():
        return preferred
    shard = r"(?:-\d{5}-of-\d{5})?"
    name = re.compile(rf"{stem}{shard}(?:\.(\w+))?{shard}\.safetensors(?:\.index(?:\.(\w+))?\.json)?")
    matches = (name.fullmatch(path.name) for path in folder.glob(f"{stem}*.safetensors*"))
    variants = {match[1] or match[2] or "" for match in matches if match}
    if preferred in variants or not variants:
        return preferred if preferred in variants else None
    return None if "" in variants else sorted(variants, key=lambda variant: (variant != "fp16", variant))[0]


def format_keys(keys: Iterable[object]) -> str:
    """The first few keys, in order."""
    return format_list(sorted(map(str, keys)))


# Messages of peft and torch for missing layers or other sizes.
_MISFITS = ("size mismatch", "Target modules", "loading state_dict")
_STANDARD = "pytorch_lora_weights.safetensors"
_PEFT, _PEFT_CONFIG = "adapter_model.safetensors", "adapter_config.json"
# Other kinds of adapters (of LyCORIS and others), by a part of their weights' names.
_OTHER_KINDS = {
    "hada_": "a LoHa",
    "lokr_": "a LoKr",
    ".oft_": "an OFT",
    "boft_": "a BOFT",
    "lora_mid": "a LoCon with a Tucker decomposition",
    "emb_params": "a textual inversion",
    "string_to_param": "a textual inversion",
    "hypernet": "a hypernetwork",
    "model.diffusion_model.": "a whole checkpoint, which is a model of its own",
}
_LAYERS = (".weight", ".bias")
_EMBEDDINGS = {"clip_l", "clip_g"}  # of textual inversions for models with two text encoders
# Possible files of a hub's LoRA, usual names first.
_HUB_PATTERNS = ([_STANDARD, _PEFT, _PEFT_CONFIG], ["*.safetensors"])


def put_on(
    pipeline: Any,
    model: str,
    source: str,
    *,
    name: str,
    file: str | None = None,
    revision: str = "",
    weight: float = 1.0,
    offline: bool = False,
) -> None:
    """Load one adapter into a pipeline without any, and use it.

    Parameters
    ----------
    model : name of the model, for messages.
    source : hub id, folder, or a .safetensors file; the folder may be one of peft's ``save_pretrained``.
    name : name of the adapter in the pipeline.
    file : file in the folder or repository; by default its only .safetensors file.
    weight : its strength; 1 as in training.

    Raises ModelUnavailable: missing, corrupt, a pickle, made for another model as a whole or in part, or the
    family takes none. The pipeline may then hold parts of it: do not use it any more.
    """
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelUnavailable(f"{model}: a {type(pipeline).__name__} takes no LoRA; choose another base")
    path = Path(source)
    if path.is_file():
        source, file = str(path.parent), path.name
    place = str(path) if path.exists() else source
    loader = getattr(pipeline, "first", pipeline)  # of two stages the one that decides the contents
    misfit = f"{model}: the LoRA {place} does not fit this model; it was made for another"
    with loading(f"{model}: the LoRA", place):
        folder = Path(source) if Path(source).is_dir() else hub_folder(source, revision, offline=offline)
        file = file or _only_file(folder)
        try:
            _check_kind(folder / file, f"{model}: {folder / file}")
            if file == _PEFT and (folder / _PEFT_CONFIG).is_file():
                keys = _load_peft(loader, folder, name)
            else:
                keys = _load_lora(loader, folder, file, name)
        except (RuntimeError, ValueError) as error:
            if any(words in str(error) for words in _MISFITS):
                raise ModelUnavailable(misfit) from error
            raise
        _check_whole(loader, keys, name, f"{model}: the LoRA {place}", misfit)
        loader.set_adapters([name], adapter_weights=[weight])


def use_in_parts(pipeline: Any, *, denoiser: str, text_encoders: str) -> None:
    """Use one loaded adapter for the denoiser and another for the text encoders; none for an unknown name."""
    for part, network in _networks(getattr(pipeline, "first", pipeline)).items():
        name = text_encoders if part.startswith("text_encoder") else denoiser
        for layer in network.modules():
            if isinstance(layer, peft.tuners.lora.LoraLayer):
                layer.enable_adapters(name in layer.r)
                if name in layer.r:
                    layer.set_adapter(name)


def hub_folder(repo: str, revision: str, *, offline: bool = False) -> Path:
    """The folder of a hub's LoRA, downloaded if allowed."""
    for patterns in _HUB_PATTERNS:
        options = {"revision": revision or None, "allow_patterns": patterns, "local_files_only": offline}
        folder = Path(huggingface_hub.snapshot_download(repo, **options))
        if any(folder.glob("*.safetensors")):
            break
    return folder


def _check_kind(path: Path, label: str) -> None:
    """Refuse an adapter that is not a LoRA, and a DoRA whose magnitudes diffusers would ignore."""
    with safetensors.safe_open(path, framework="pt") as file:
        keys = sorted(file.keys())
        n_axes = [len(file.get_slice(key).get_shape()) for key in keys]
    kind = next((kind for part, kind in _OTHER_KINDS.items() if any(part in key for key in keys)), "")
    if not kind and not any("lora" in key.lower() for key in keys):
        # diffusers names the only weight of a textual inversion by its new word.
        is_word = (len(keys) == 1 and max(n_axes) <= 2 and not keys[0].endswith(_LAYERS)) or _EMBEDDINGS >= set(
            keys
        ) > set()
        kind = "a textual inversion" if is_word else f"no LoRA (its weights are {format_keys(keys) or 'none'})"
    if kind:
        raise ModelUnavailable(f"{label} is {kind}, and only a LoRA works")
    if n := sum("dora_scale" in key for key in keys):
        raise ModelUnavailable(
            f"{label} fits only in part: it is a DoRA, and its {n} magnitudes (dora_scale) have no place here; take a "
            "plain LoRA, or a DoRA that peft saved (lora_magnitude_vector)"
        )


def _load_lora(loader: Any, folder: Path, file: str, name: str) -> set[str]:
    """Load it; return the expected keys."""
    options = {"weight_name": file, "use_safetensors": True, "local_files_only": True}
    state = loader.lora_state_dict(str(folder), **options)
    tensors = state[0] if isinstance(state, tuple) else state
    loader.load_lora_weights(str(folder), adapter_name=name, **options)
    keys, left = set[str](), set(tensors)
    for part, network in _networks(loader).items():
        of_part = {key for key in tensors if key.startswith(f"{part}.")}
        left -= of_part
        named = {key.removeprefix(f"{part}."): tensors[key] for key in of_part}
        keys |= {f"{part}.{key}" for key in _rename_for_peft(named, network, part)}
    return keys | left


def _load_peft(loader: Any, folder: Path, name: str) -> set[str]:
    """Load the output of peft's ``save_pretrained``, which does not name its component."""
    from safetensors.torch import load_file

    kind = read_model_json(folder / _PEFT_CONFIG).get("peft_type")
    if kind != "LORA":
        raise ModelUnavailable(f"{folder} is an adapter of the kind {kind}, and only a LoRA works")
    tensors = {key.removeprefix("base_model.model."): value for key, value in load_file(folder / _PEFT).items()}
    networks = _networks(loader)
    fitting = {part: _rename_for_peft(tensors, network, part) for part, network in networks.items()}
    n_fitting: dict[str, int] = {}
    for part, network in networks.items():
        layers = {layer for layer, _ in network.named_modules()}
        n_fitting[part] = sum(key.rsplit(".lora_", 1)[0] in layers for key in fitting[part])
    max_fitting = max(n_fitting.values())
    best, *other_parts = [part for part, n in n_fitting.items() if n == max_fitting]
    if max_fitting == 0:
        return set(tensors)
    if other_parts:
        raise ModelUnavailable(
            f"{folder} fits {' and '.join((best, *other_parts))} alike and does not say which it is for; save it with "
            "save_lora_weights of the diffusers pipeline"
        )
    config = peft.LoraConfig.from_pretrained(str(folder)).to_dict()
    metadata = {f"{best}.{key}": value for key, value in config.items()}
    state = {f"{best}.{key}": value for key, value in fitting[best].items()}
    options = {"prefix": best, "adapter_name": name, "metadata": metadata, "_pipeline": loader}
    if best.startswith("text_encoder"):
        loader.load_lora_into_text_encoder(state, None, networks[best], **options)
    else:
        networks[best].load_lora_adapter(state, **options)
    return set(state)


def _networks(loader: Any) -> dict[str, Any]:
    kinds = ("unet", "transformer", "text_encoder")
    parts = loader.components.items()
    return {name: part for name, part in parts if isinstance(part, torch.nn.Module) and name.startswith(kinds)}


def _rename_for_peft(tensors: Mapping[str, Any], part: Any, name: str) -> dict[str, Any]:
    """The tensors of one component under peft's names."""
    words, of_text, convert = dict(tensors), name.startswith("text_encoder"), diffusers.utils.state_dict_utils
    if words and not any("lora_A" in key for key in words):
        if of_text:
            words = convert.convert_state_dict_to_peft(convert.convert_state_dict_to_diffusers(words))
        else:
            words = convert.convert_unet_state_dict_to_peft(words)
    if of_text and not hasattr(part, "text_model"):  # older transformers had one level more
        words = {key.removeprefix("text_model."): value for key, value in words.items()}
    return words


def _check_whole(loader: Any, keys: set[str], name: str, label: str, misfit: str) -> None:
    """Refuse a LoRA that is only partly in the pipeline: diffusers only warns about left-out parts.

    ModelUnavailable: no layer of it fits, or some do not, or a layer lacks one of its halves, or has NaN.
    """
    loaded_keys: set[str] = set()
    for part, names in loader.get_list_adapters().items():
        if name in names:
            module = getattr(loader, part)
            check_finite(module, label)
            of_part = peft.get_peft_model_state_dict(module, adapter_name=name)
            loaded_keys |= {f"{part}.{key.removesuffix('.weight')}" for key in of_part}
    if not loaded_keys:
        raise ModelUnavailable(misfit)
    expected = {key.removesuffix(".weight") for key in keys if not key.endswith(".alpha")}
    wrong = {
        "{} of its {} weights have no place in this model": expected - loaded_keys,
        "{} weights are missing next to its {}": loaded_keys - expected,
    }
    for words, faults in wrong.items():
        if faults:
            raise ModelUnavailable(
                f"{label} fits only in part: {words.format(len(faults), len(expected))} ({format_keys(faults)}); it "
                "was made for another model, or is damaged"
            )


def _only_file(folder: Path) -> str:
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    for usual in (_STANDARD, _PEFT, *(files if len(files) == 1 else ())):
        if usual in files:
            return usual
    if files:
        raise ModelUnavailable(
            f"{folder} has {len(files)} .safetensors files ({', '.join(files[:4])}); name one of them"
        )
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(kind)]
    contents = f"only {pickles[0]}, a pickle, which can run code and is refused" if pickles else "none"
    raise ModelUnavailable(f"a LoRA is a .safetensors file, and {folder} has {contents}")
