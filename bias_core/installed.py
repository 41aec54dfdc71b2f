"""Studies and measures that installed packages add, each by an entry point."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from bias_core.waiting import handing_over

STUDIES, MEASURES = "t2i_bias.studies", "t2i_bias.measures"
_log = logging.getLogger(__name__)
T = TypeVar("T")


def load_installed(group: str, load: Callable[[EntryPoint], T]) -> dict[str, T]:
    """Return what ``load`` makes of each entry point of a group, by the name of its module.

    One that cannot be loaded, whatever its error, is logged and left out.
    """
    found: dict[str, T] = {}
    for entry in entry_points(group=group):
        loaded: Future[T] = Future()
        with handing_over(loaded):
            loaded.set_result(load(entry))
        if error := loaded.exception():
            package = entry.dist.name if entry.dist else entry.value
            _log.warning("%s of the package %s, for %s, cannot be loaded: %r", entry.name, package, group, error)
        else:
            found[entry.value] = loaded.result()
    return found
