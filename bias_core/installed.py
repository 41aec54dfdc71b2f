"""The place of the program's own files, and what installed packages add to the program.

Other packages add studies and measures, each by an entry point: :func:`load_installed`.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bias_core.waiting import handing_over

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PACKAGE = Path(__file__).parent.resolve()
_INSTALLED = (_PACKAGE / "assets").is_dir()  # a wheel has the assets in the package, a source tree has them at its top
ASSETS = (_PACKAGE if _INSTALLED else _PACKAGE.parent) / "assets"
COMMAND = "t2i-bias" if _INSTALLED else "python -m bias_core"
STUDIES, MEASURES = "t2i_bias.studies", "t2i_bias.measures"  # entry points
T = TypeVar("T")
_log = logging.getLogger(__name__)


def load_installed(group: str, load: Callable[["EntryPoint"], T]) -> dict[str, T]:
    """Return what ``load`` makes of each entry point of a group, by the name of its module.

    One that cannot be loaded, whatever its error, is logged and left out.
    """
    from importlib.metadata import entry_points

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
