"""Import paths of measures before version 0.1.0, which go with the next version."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_MEASURES = (
    "agreement", "alignment", "association", "composite_association", "object_bias", "paired_stereotype",
    "propagation", "stereotype",
)  # fmt: skip
_MOVED = {
    **{f"bias_core.metrics.{name}": f"bias_core.measures.{name}" for name in _MEASURES},
    "bias_core.metrics.cards": "bias_core.measures.cards",
    "bias_core.annotation.agreement": "bias_core.measures.agreement",
    "bias_core.stats.sequential": "bias_core.measures.sequential",
    "bias_core.stats.two_phase": "bias_core.measures.two_phase",
    "bias_core.search.stop": "bias_core.papers.oasis.prompt_search",
}
_FOLDERS = {name.rpartition(".")[0] for name in _MOVED}


class OldNames(MetaPathFinder, Loader):
    """Finds a module under its old name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how an old name is loaded; None for every other name."""
        if name in _MOVED or name in _FOLDERS:
            return spec_from_loader(name, self, is_package=name in _FOLDERS)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of an old one."""
        if module.__name__ in _MOVED:
            sys.modules[module.__name__] = import_module(_MOVED[module.__name__])
