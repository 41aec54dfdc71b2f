"""Models and their files; heavy libraries are imported on first use.

Drawing: ``engines`` (this process, Ray), ``diffusers_t2i`` with ``pipeline_loader``, ``pipeline_call`` (a call and its
steps) and ``family_facts``, ``hosted_images``, ``zero_gpu``. Reading: ``encoders``, ``language_models`` (also
captioners and judges), ``endpoints`` (the same on a server). Shared: ``catalogue`` (names), ``model_sources`` (files,
versions, sizes and memory), ``weights`` (loading, adapters).
"""

import importlib
import os
import threading
from typing import Any

os.environ["DIFFUSERS_DISABLE_REMOTE_CODE"] = "true"  # read when diffusers is imported
# Read when torch is imported. Waiting threads sleep: if other processes need the cores too, spinning threads
# block each other, and a picture takes ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


one_import_at_a_time = threading.RLock()
"""Held during imports: two threads importing at once would find half-made modules."""


class _OnFirstUse:
    """A library that is imported on first access to an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._library: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._library is not None and attribute in vars(self._library):
            return vars(self._library)[attribute]
        with one_import_at_a_time:
            self._library = library = importlib.import_module(self._name)
            return getattr(library, attribute)  # which may import a part of the library


diffusers: Any = _OnFirstUse("diffusers")
httpx: Any = _OnFirstUse("httpx")
hub_errors: Any = _OnFirstUse("huggingface_hub.errors")
open_clip: Any = _OnFirstUse("open_clip")
peft: Any = _OnFirstUse("peft")
torch: Any = _OnFirstUse("torch")
torchvision: Any = _OnFirstUse("torchvision")
transformers: Any = _OnFirstUse("transformers")
