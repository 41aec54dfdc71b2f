"""Explore: a concept in the user's own words.

``extension`` declares the options, and the hook of ``beyond``; ``options`` checks them; ``study`` draws and measures;
``report`` makes findings, tables, figures and headlines, which ``exploration`` reads back; ``arms`` compares arms;
``suggest`` suggests attributes. The tab: ``tab`` with ``tab_form``.
"""

import sys
from types import ModuleType
from typing import Any


class _Explore(ModuleType):
    """The package, callable as the function it is named after, so that ``from bias_core import explore`` works."""

    def __call__(self, concept: str, *args: Any, **settings: Any) -> Any:
        from bias_core.explore.study import explore

        return explore(concept, *args, **settings)


sys.modules[__name__].__class__ = _Explore
