"""Every way of measuring, against planted truth: run at a release by ``python -m validation report --ship``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bias_core.study.design import find_design, more_studies
from bias_core.study.types import Design

HERE = Path(__file__).parent


@contextmanager
def validity_studies() -> Iterator[None]:
    """While it lasts, these studies are found and can be run as those of the app."""
    with more_studies(HERE, __name__), more_studies(HERE / "beyond", f"{__name__}.beyond"):
        yield


def find_study(name: str) -> Design:
    """The design of one of them, by name; InvalidInput where there is none."""
    with validity_studies():
        return find_design(name)
