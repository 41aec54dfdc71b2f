"""Measure bias in text-to-image models, with every number's uncertainty.

Importing this package loads no model library: torch, diffusers, transformers and open_clip are
imported by the adapters on first use, and the names below on first access.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_DOOR = {
    "Arm": "study.types",
    "Attribute": "types",
    "Exploration": "explore.report",
    "Services": "services",
    "StudySettings": "study.types",
    "complete": "run.run",
    "corrected": "report.corrected",
    "explore": "explore.study",
    "find_design": "study.design",
    "read_answers": "study.answers",
    "run_study": "run.run",
    "write_report": "report.export",
}
__all__ = sorted(_DOOR)


def __getattr__(name: str) -> Any:
    if name not in _DOOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_DOOR[name]}"), name)
