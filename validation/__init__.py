"""Every way of measuring, against planted truth: run at a release by ``python -m validation report --ship``."""

from contextlib import AbstractContextManager
from pathlib import Path

from bias_core.studies.kit.designs import find_design, more_studies
from bias_core.studies.kit.types import Design


def validity_studies() -> AbstractContextManager[None]:
    """While it lasts, these studies are found and can be run as those of the app."""
    return more_studies(Path(__file__).parent, __name__)


def find_study(name: str) -> Design:
    """The design of one of them, by name; InvalidInput where there is none."""
    with validity_studies():
        return find_design(name)
