"""Tests of every measure against planted truth: run at a release by ``python -m validation report --ship``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bias_core.study.design import find_design, more_studies
from bias_core.study.types import Design

HERE = Path(__file__).parent


@contextmanager
def validity_studies() -> Iterator[None]:
    """Context in which these studies can be found and run like the app's."""
    with more_studies(HERE, __name__), more_studies(HERE / "beyond", f"{__name__}.beyond"):
        yield


def find_study(name: str) -> Design:
    """Return the design of a validity study by name; InvalidInput if there is none."""
    with validity_studies():
        return find_design(name)
