"""Where models run, and which failures of loading mean that the weights are the trouble."""

from __future__ import annotations

import logging
import re
import struct
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from bias_core.errors import BiasCoreError, HubNotReached, ModelUnavailable
from bias_core.models.catalogue import is_hub_id

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_READERS = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
TROUBLES = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, NameError),
    *(OSError, RuntimeError, TypeError, UnpicklingError, ValueError, struct.error),
)
"""What code of others raises where a model's files, or what is asked of it, are not what it expects."""


def pick_device(device: str) -> str:
    """The device to use: for "auto", CUDA where there is one, else the CPU.

    Raises
    ------
    ModelUnavailable
        CUDA or MPS was asked for by name and this machine has none.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present[device]:
        raise ModelUnavailable(f"BIAS_DEVICE is {device}, which this machine does not have; use auto or cpu")
    return device


def hide_progress_bars() -> None:
    """The bars that libraries draw while loading would run through our own."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def fetched_source(name: str, source: str, *, offline: bool = False) -> str:
    """The folder of a reader's files, downloaded where they are not here; nothing of them is loaded.

    ``source`` itself where it is a folder, or a repository without safetensors, whose loading says so.

    Raises
    ------
    ModelUnavailable
        No such repository, no access to it, or no network.
    """
    if offline or Path(source).is_dir() or not is_hub_id(source):
        return offline_source(name, source, offline=offline)
    from huggingface_hub import snapshot_download

    with loading(name, source):
        folder = snapshot_download(source, allow_patterns=_OF_READERS, ignore_patterns=["*/*"])
    return folder if any(Path(folder).glob("*.safetensors")) else source


def offline_source(name: str, source: str, *, offline: bool) -> str:
    """``source``; offline, the folder where an earlier download of a hub id lies.

    transformers asks the hub for adapters even where it is told to read local files only; of a folder it
    asks nothing.

    Raises
    ------
    ModelUnavailable
        Offline, and it was never downloaded.
    """
    if not offline or Path(source).is_absolute() or Path(source).is_dir():
        return source
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return snapshot_download(source, local_files_only=True)
    except LocalEntryNotFoundError as error:
        raise ModelUnavailable(f"{name} is not on this machine and BIAS_OFFLINE is set") from error


@contextmanager
def loading(name: str, source: str) -> Iterator[None]:
    """Word every failure of reading weights as :class:`ModelUnavailable`, with what to do."""
    with ExitStack() as around, libraries_silent():
        around.push(partial(_nameless, name, source))
        with _named_failures(name, source):
            yield


@contextmanager
def libraries_silent() -> Iterator[None]:
    """Diffusers and transformers print nothing: what is wrong with a file, the error says."""
    logs = [logging.getLogger(library) for library in ("diffusers", "transformers")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


def _nameless(name: str, source: str, kind: type[BaseException] | None, error: object, _: object) -> None:
    """The tokenizers' library, written in Rust, has no class for its errors but Python's most general one."""
    if kind is Exception and isinstance(error, Exception):
        raise ModelUnavailable(f"{name} cannot be loaded{_why(source, error)}") from error


@contextmanager
def _named_failures(name: str, source: str) -> Iterator[None]:
    from huggingface_hub.errors import HTTPError, StrictDataclassError
    from safetensors import SafetensorError

    try:
        yield
    except BiasCoreError:
        raise
    except ImportError as error:
        raise ModelUnavailable(f"{name} needs a library that is not installed: {error}") from error
    except (*TROUBLES, HTTPError, SafetensorError, StrictDataclassError) as error:
        why = _why(source, error)
        kind = HubNotReached if why.endswith(_UNREACHED) else ModelUnavailable
        raise kind(f"{name} cannot be loaded{why}") from error


def _why(source: str, error: BaseException) -> str:
    """Where from, what went wrong and what to do; shipped folders are named from ``assets`` on."""
    folder = Path(source)
    shipped = folder.is_absolute() and folder.parent.name == "calibration"
    place = "/".join(folder.parts[-3:]) if shipped else source
    if folder.is_absolute() and not folder.exists():
        remedy = "`make calibrate` trains it" if shipped else "check the path"
        return f": there is no {place}; {remedy}, or choose another model"
    if refusal := _hub_trouble(error):
        return f" from {place}: {refusal}"
    text = f"it lacks {error}" if isinstance(error, KeyError) else str(error).strip() or type(error).__name__
    text = _CLASS.sub(r"\1", " ".join(text.split()))
    text = text[:300].replace(source, place)
    remedy = "weights missing, corrupt, gated, or no network; check the files or choose another model"
    return f" from {place}: {text} ({remedy})"


def _hub_trouble(error: BaseException) -> str:
    """In plain words what a hub refused, found in the error or in what caused it; "" for other troubles."""
    from huggingface_hub import errors
    from safetensors import SafetensorError

    causes = list(_causes(error))
    messages = " ".join(str(cause) for cause in causes)
    for kinds, words in (
        (errors.GatedRepoError, _GATED),
        (errors.RepositoryNotFoundError, _NOT_FOUND),
        (errors.RevisionNotFoundError, "the hub has the model, but not this revision of it; check the revision"),
        (errors.RemoteEntryNotFoundError, _OTHER_LAYOUT),
        ((errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled), _UNREACHED),
        (SafetensorError, _DAMAGED),
    ):
        if any(isinstance(cause, kinds) for cause in causes):
            return words
    no_weights = any(words in messages for words in ("no file named", "pickle", "find the necessary"))
    return _PICKLE if "safetensors" in messages and no_weights else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")
_GATED = (
    "its makers ask for consent; accept their terms on the model's page and give your own token "
    "(HF_TOKEN, or `hf auth login`), or choose another model"
)
_NOT_FOUND = (
    "the hub has no model of this name, or hides it from you; check the spelling, and for a private model "
    "give your own token (HF_TOKEN, or `hf auth login`)"
)
_UNREACHED = (
    "its files are not on this machine, and the hub was not reached; check the network and BIAS_OFFLINE, or "
    "choose a model that is here"
)
_OTHER_LAYOUT = (
    "it lacks a file that a model of this kind has, so it is not in the layout of diffusers or transformers; "
    "choose a repository that is. Models that are only published as modular pipelines "
    "(modular_model_index.json: FLUX.3, Anima) cannot be drawn with here"
)
_DAMAGED = (
    "a .safetensors file is cut off or damaged; delete it and download it again, and see whether the disk is full"
)
_PICKLE = (
    "it has no weights in safetensors, and a pickle, which may run any program when it is read, is never "
    "opened here; ask its makers for safetensors, convert it yourself, or choose another model"
)


def cpu_threads() -> int:
    """Of this process."""
    import torch

    return int(torch.get_num_threads())


def use_cpu_threads(n: int) -> None:
    """From now on, in this process."""
    import torch

    torch.set_num_threads(n)
