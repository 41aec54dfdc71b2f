"""Measure bias in text-to-image models, with every number's uncertainty.

Importing this package loads no model library: torch, diffusers, transformers and open_clip are
imported by the adapters on first use, and what stands below when it is first asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_DOOR = {
    "Arm": "studies.kit.types",
    "Attribute": "types",
    "Exploration": "studies.explore.report",
    "Services": "services",
    "StudySettings": "studies.kit.types",
    "complete": "studies.running.run",
    "explore": "studies.explore.study",
    "find_design": "studies.kit.designs",
    "run_study": "studies.running.run",
    "write_report": "studies.running.hand_on",
}
__all__ = sorted(_DOOR)


def __getattr__(name: str) -> Any:
    if name not in _DOOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_DOOR[name]}"), name)
