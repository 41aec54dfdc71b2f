"""Weights: whole or not at all, loaded on first use, and let go of when others need the room."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from bias_core.adapters.devices import fetched_source, loading, offline_source
from bias_core.errors import ModelUnavailable, NotEnoughMemory
from bias_core.models.paths import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_last_used: WeakKeyDictionary[Weights[Any], int] = WeakKeyDictionary()
_clock = count()
_SHOWN = 3  # keys named in a message
_INDEX = ".safetensors.index"
_TOKENIZER = "tokenizer.json"
_VOCABULARIES = (_TOKENIZER, "vocab.txt", "vocab.json", "*.model")
_JSON = (
    *("model_index.json", "config.json", "generation_config.json", "scheduler_config.json", "vocab.json"),
    *("preprocessor_config.json", "processor_config.json", "tokenizer_config.json"),
)
_WHOLE_NUMBERS = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
# Buffers that every model computes for itself and that older versions of the libraries wrote down.
_COMPUTED = re.compile(r"(^|\.)(position_ids|inv_freq|masked_bias|num_batches_tracked)$")
# By what a configuration calls its kind: keys of the whole model of which it is a part.
_REST_OF = {
    "clip_text_model": re.compile(r"^(vision_model|visual_projection|text_projection|logit_scale)(\.|$)"),
    "clip_vision_model": re.compile(r"^(text_model|text_projection|visual_projection|logit_scale)(\.|$)"),
    "t5": re.compile(r"^(decoder|lm_head)\."),
    "umt5": re.compile(r"^(decoder|lm_head)\."),
}


class Weights(Generic[T]):
    """What an adapter loads on first use.

    Parameters
    ----------
    name : of the model, for messages.
    source : where its files are, for messages.
    load : reads them.
    unchanged : called when they were read; raises where the files are no longer those that ``name`` means.
    """

    def __init__(
        self, name: str, source: str, load: Callable[[], T], unchanged: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.source = source
        self._load, self._unchanged = load, unchanged
        self.value: T | None = None
        self._running = threading.RLock()

    def __call__(self) -> T:
        """The weights, loaded now if they are not.

        Raises
        ------
        ModelUnavailable
            Missing or corrupt, or they do not fit even when nothing else is loaded.
        """
        value = self.value
        if value is None:
            with loading(self.name, self.source):
                value = self._load_with_room()
            self._unchanged()
        self.keep(value)
        return value

    @contextmanager
    def running(self) -> Iterator[T]:
        """The weights, which stay until the block ends; for readers, which hold no ``model_lock``."""
        with self._running:
            yield self()

    def keep(self, value: T) -> None:
        """Have these from now on, as if they had been loaded."""
        self.value = value
        _last_used[self] = next(_clock)

    def drop(self) -> None:
        """Let go of them, once nobody runs them; the next use loads them again."""
        with self._running:
            self.value = None
        _last_used.pop(self, None)

    def _load_with_room(self) -> T:
        import torch

        try:
            return self._load()
        except (NotEnoughMemory, torch.OutOfMemoryError):
            if not drop_longest_unused():
                raise
        return self._load_with_room()  # ends when nothing else is loaded


class HoldsWeights(Generic[T]):
    """An adapter with weights, ``_parts``, that load with its first input."""

    _parts: Weights[T]

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._parts.value is not None

    def load(self) -> None:
        """Read the weights now; ModelUnavailable where that fails."""
        self._parts()

    def unload(self) -> None:
        """Forget the weights; the next input loads them again."""
        self._parts.drop()


class HubWeights(HoldsWeights[T]):
    """The same of a repository of a hub, or a folder, ``source``."""

    name: str
    source: str
    _offline: bool
    _local = ""

    def fetch(self) -> None:
        """Download what is missing on this machine; nothing is loaded."""
        self._local = fetched_source(self.name, self.source, offline=self._offline)

    def _here(self) -> str:
        """Where to load them from."""
        return self._local or offline_source(self.name, self.source, offline=self._offline)


def drop_longest_unused() -> bool:
    """Let go of the weights that were unused longest; False where none are loaded."""
    if not _last_used:
        return False
    min(_last_used, key=_last_used.__getitem__).drop()
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return True


def load_whole(kind: Any, source: str, *, name: str, **how: Any) -> Any:
    """``kind.from_pretrained(source, **how)``, every weight of which came from the files and is a number.

    Parameters
    ----------
    kind : a class of transformers or diffusers.
    name : of the model or component, for messages.

    Raises
    ------
    ModelUnavailable
        Weights are missing, left over, of other shapes, or not finite; the message names some of them.

    Notes
    -----
    What the class itself declares as dispensable (``_keys_to_ignore_on_load_missing``, tied weights) is not
    missing. Left over may be what it declares, buffers that it computes for itself now (``position_ids``, as
    Stable Diffusion's text encoder has it), and the rest of a larger model where only one tower of it is
    asked for: the picture tower of a CLIP, the decoder of a T5.
    """
    folder = Path(source) / str(how.get("subfolder") or "")
    check_json(folder)
    check_shards(folder, name)
    check_types(folder, name)
    model, info = kind.from_pretrained(source, output_loading_info=True, ignore_mismatched_sizes=True, **how)
    rest = _REST_OF.get(str(getattr(model.config, "model_type", "")))
    left_over = [key for key in info["unexpected_keys"] if not (_COMPUTED.search(key) or (rest and rest.search(key)))]
    sizes = [f"{key} is {list(has)}, not {list(wants)}" for key, has, wants in info["mismatched_keys"]]
    missing = [key for key in info["missing_keys"] if not _COMPUTED.search(key)]
    wrong = (
        ("lacks {} of its weights", missing),
        ("has {} that this kind of model does not take", left_over),
        ("has {} of another shape", sizes),
    )
    faults = [words.format(len(keys)) + f" ({some_of(keys)})" for words, keys in wrong if keys]
    if faults:
        raise ModelUnavailable(
            f"{name} {' and '.join(faults)}: its weights and its config.json are not of one model; "
            "download it again, or choose another model"
        )
    check_finite(model, name)
    return model


def check_finite(model: Any, name: str) -> None:
    """Refuse NaN and infinity in the weights: what comes of them can look like an answer.

    Raises
    ------
    ModelUnavailable
        Some weight is not a number.
    """
    import torch

    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if tensor.is_floating_point() and tensor.numel() and tensor.device.type != "meta":
                ends = torch.stack(torch.aminmax(tensor))
                if not bool(torch.isfinite(ends.float()).all()):
                    raise ModelUnavailable(
                        f"{name} has NaN or infinity in its weights ({key}); they are damaged, or of too low "
                        "precision: download it again, or choose another model"
                    )


def check_types(folder: Path, name: str) -> None:
    """Refuse weights of whole numbers, which loaders would round to; those of quantised models are such.

    Raises
    ------
    ModelUnavailable
        A weight or bias is of an integer type, and the configuration says nothing of quantisation.
    """
    from safetensors import safe_open

    files = [path for path in folder.glob("*.safetensors") if path.is_file()] if folder.is_dir() else []
    if not files or "quantization_config" in read_json(folder / "config.json"):
        return
    for path in files:
        with safe_open(path, framework="pt") as file:
            whole = [
                key
                for key in file.keys()  # noqa: SIM118  (no mapping)
                if key.endswith((".weight", ".bias")) and file.get_slice(key).get_dtype() in _WHOLE_NUMBERS
            ]
        if whole:
            raise ModelUnavailable(
                f"{name} has {len(whole)} weights of whole numbers in {path.name} ({some_of(whole)}), and "
                "its config.json has no quantization_config; download it again, or choose another model"
            )


def check_json(folder: Path) -> None:
    """Refuse a folder whose configuration or tokenizer cannot be read as such.

    Raises
    ------
    ValueError
        A file is not JSON, or the tokenizer has no vocabulary.
    """
    for file in _JSON:
        if (folder / file).is_file():
            read_json(folder / file)
    if (folder / _TOKENIZER).is_file():
        model = read_json(folder / _TOKENIZER).get("model")
        if not isinstance(model, dict) or not model.get("vocab"):
            raise ValueError(f"{folder.name}/{_TOKENIZER} has no vocabulary")


def check_tokenizer(folder: Path, name: str) -> None:
    """Refuse a folder without a tokenizer: some classes would make one up that knows no word.

    Raises
    ------
    ModelUnavailable
        None of the files that a tokenizer is read from is there.
    """
    if folder.is_dir() and not any(file for kind in _VOCABULARIES for file in folder.glob(kind)):
        raise ModelUnavailable(
            f"{name} has no tokenizer ({', '.join(_VOCABULARIES)}); put the one that it was trained with "
            "into the folder"
        )


def check_shards(folder: Path, name: str) -> None:
    """Refuse a folder whose index names files of weights that are not there.

    Raises
    ------
    ModelUnavailable
        A file of weights is missing, or the index cannot be read.
    """
    for index in sorted(folder.glob(f"*{_INDEX}*.json")) if folder.is_dir() else ():
        files = set(read_json(index).get("weight_map", {}).values())
        missing = sorted(file for file in files if not (folder / str(file)).is_file())
        if missing:
            raise ModelUnavailable(
                f"{name} lacks {len(missing)} of its {len(files)} files of weights ({some_of(missing)}) that "
                f"{index.name} names; download them again"
            )


def variant_of(folder: Path, stem: str, preferred: str | None) -> str | None:
    """Which variant of the weights to read: the preferred one, the plain one, or the only kind there is.

    Parameters
    ----------
    folder : of one model.
    stem : of its weights: "model" for transformers, "diffusion_pytorch_model" for diffusers.
    preferred : e.g. "fp16"; None for the plain weights.
    """
    if not folder.is_dir():
        return preferred
    there = {_variant(path.name, stem) for path in folder.glob(f"{stem}*.safetensors*")} - {"?"}
    if preferred in there or not there:
        return preferred if preferred in there else None
    return None if "" in there else sorted(there, key=lambda variant: (variant != "fp16", variant))[0]


def _variant(file: str, stem: str) -> str:
    """The variant in a file's name, "" for the plain weights; "?" where it is no file of weights.

    Examples
    --------
    >>> files = ("model.safetensors", "model.fp16.safetensors", "model.safetensors.index.fp16.json")
    >>> [_variant(file, "model") for file in (*files, "model-00001-of-00002.safetensors", "ema.safetensors")]
    ['', 'fp16', 'fp16', '', '?']
    """
    shard = r"(?:-\d{5}-of-\d{5})?"
    match = re.fullmatch(rf"{stem}{shard}(?:\.(\w+))?{shard}\.safetensors(?:\.index(?:\.(\w+))?\.json)?", file)
    return (match[1] or match[2] or "") if match else "?"


def some_of(keys: Iterable[object]) -> str:
    """The first few, in order."""
    names = sorted(map(str, keys))
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
