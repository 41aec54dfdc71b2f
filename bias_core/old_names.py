"""Import paths of measures before version 0.1.0; the next version removes them."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_NEW = {  # today's modules, each with the old names of its contents
    "measures.agreement": "agreement disagreement ordinal rank_agreement",
    "measures.alignment": "alignment direction moments similarity",
    "measures.association": "association association_influence association_null paired_association",
    "measures.composite_association": "composite_association composite_scores",
    "measures.intersections": "crossed_stereotype intersections",
    "measures.object_bias": "hallucination_parts missing_things object_bias",
    "measures.object_distribution": "entropy evenness object_distribution",
    "measures.object_comparison": "hill_numbers object_odds object_shift",
    "measures.paired_prevalence": "paired_prevalence paired_variety",
    "measures.paired_stereotype": "paired_labels paired_stereotype swapped",
    "measures.propagation": "predicted_gain propagation steps_seen",
    "measures.relative_association": "lean_difference lean_ratio relative_lean",
    "measures.stereotype": "mitigation refusals stereotype",
    **{f"measures.{name}": name for name in ("cards", "clustering", "exchange", "objects", "wordnet")},
}  # fmt: skip
_STATISTICS = {
    "measures.arrays": "arrays",
    "measures.intersections": "parity",
    "measures.intervals": "exact_shares intervals jackknife mean_noise permutation",
    "measures.sequential": "sequential",
    "measures.two_phase": "crossed_readings strata two_phase",
}
_MOVED = {
    **{f"bias_core.metrics.{old}": (new,) for new, names in _NEW.items() for old in names.split()},
    **{f"bias_core.stats.{old}": (new,) for new, names in _STATISTICS.items() for old in names.split()},
    "bias_core.stats.effects": ("measures.effects", "measures.intervals", "measures.sequential"),
    "bias_core.annotation.agreement": ("measures.agreement",),
    "bias_core.search.stop": ("papers.oasis.prompt_search",),
}
_FOLDERS = {name.rpartition(".")[0] for name in _MOVED}


class OldNames(MetaPathFinder, Loader):
    """Import hook that finds a module under its old name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The import spec of an old name; None for every other name."""
        if name in _MOVED or name in _FOLDERS:
            return spec_from_loader(name, self, is_package=name in _FOLDERS)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Load today's module in place of an old one; several modules of today are merged."""
        new = [import_module(f"bias_core.{name}") for name in _MOVED.get(module.__name__, ())]
        if len(new) == 1:
            sys.modules[module.__name__] = new[0]
        for one in reversed(new[1:] and new):
            vars(module).update({name: value for name, value in vars(one).items() if not name.startswith("__")})
