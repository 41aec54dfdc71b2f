"""What other parts may add to Explore: the hook through which everything in ``bias_core/beyond`` reaches it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from bias_core.study.design import extensions
from bias_core.study.setting_fields import Options
from bias_core.study.types import Arm, ArmReport, Results, StudyReport, StudySettings

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.explore.arms import Scored
    from bias_core.study.study_data import StudyData

O = TypeVar("O")  # noqa: E741


class ExploreExtension(Generic[O]):
    """Something that Explore offers in addition, in a module ``bias_core/beyond/*/extension.py``.

    The fields of ``options`` become options of Explore, on the command line, in the API, in links and in the form. The
    ``options`` that methods take are all options of an exploration. A method that is not overridden adds nothing.

    The module is imported before the modules of Explore that use it: its methods import what else they need.

    Attributes
    ----------
    options : its options: choices, or lists with a menu (:meth:`menus`). A subclass of ``ConceptOptions`` may override
        its properties. It is then not offered for a file of prompts, nor for arms of the user's own.
    """

    options: ClassVar[type[Options]] = Options

    def menus(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return the menus of the form, as labels with values, by the option."""
        return {}

    def check(self, options: O, settings: StudySettings) -> None:
        """Raise InvalidInput for options that cannot be used together."""

    def arms(self, options: O) -> tuple[Arm, ...]:
        """Return the arms that the options ask for; () for none."""
        return ()

    def reading(self, options: O, data: "StudyData", frame: "pd.DataFrame", scored: "Scored") -> Results:
        """Return what the report of one arm says in addition; ``frame`` has a row for each scored picture."""
        return Results()

    def comparing(self, options: O, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return what the comparison of several arms says in addition."""
        return Results()

    def arms_headline(self, report: StudyReport) -> str:
        """Return the headline of several arms in place of Explore's own; "" for none."""
        return ""

    def further_headline(self, report: StudyReport) -> str:
        """Return a sentence that follows Explore's own headline, after a space; "" for none."""
        return ""


def explore_extensions() -> tuple[ExploreExtension[Any], ...]:
    """Return everything that is found."""
    return extensions(ExploreExtension)
