"""Explore: a concept in the user's own words.

``study`` measures, with ``concept`` and ``options`` (what is asked), ``results`` and ``report``, ``arms``
(comparisons) and ``headline``; ``packs`` (prompts of a file), ``suggest`` with ``suggest_options`` (attributes),
``extension`` (what ``beyond`` adds). The tab: ``tab``, ``tab_form``, ``tab_suggest``, ``view``.
"""

import sys
from types import ModuleType
from typing import Any


class _Explore(ModuleType):
    """The package as the function that it is named for: ``from bias_core import explore`` finds either."""

    def __call__(self, concept: str, *args: Any, **settings: Any) -> Any:
        """Explore a concept (:func:`bias_core.explore.study.explore`)."""
        from bias_core.explore.study import explore

        return explore(concept, *args, **settings)


sys.modules[__name__].__class__ = _Explore
