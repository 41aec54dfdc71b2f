"""Crossed attributes as an option of Explore, and of labelled people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from bias_core.errors import InvalidInput
from bias_core.explore.extension import ConceptOptions, ExploreExtension, ScoredPictures
from bias_core.papers.pst import MakeSample, PeopleExtension
from bias_core.study.types import ArmReport, Results, StudyReport, StudySettings, join_results
from bias_core.types import Attribute
from bias_core.values import Options, setting, settings_class

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.run.study_run import Run

Crossing = Literal["none", "pairs", "triples"]
MOST_CROSSED = 8  # attributes: 28 pairs and 56 triples


@settings_class(frozen=True, kw_only=True)
class CrossedOptions(Options):
    """The option to cross attributes: none, every two, or every two and three."""

    crossed: Crossing = setting(
        "none", "Combined attributes", "Test whether two or three attributes occur together more often than by chance"
    )


if TYPE_CHECKING:

    class CrossedExploration(CrossedOptions, ConceptOptions):
        """The options of an exploration with this one."""


class Intersections(ExploreExtension["CrossedExploration"]):
    """Attributes crossed with each other, and with the arms."""

    options: ClassVar[type[Options]] = CrossedOptions

    def check(self, options: "CrossedExploration", settings: StudySettings) -> None:
        """Raise InvalidInput for too few or too many attributes."""
        check_crossing(options.scored, options.crossed)

    def reading(
        self, options: "CrossedExploration", data: "Run", frame: "pd.DataFrame", scored: ScoredPictures
    ) -> Results:
        """Return how often attributes occur together."""
        from bias_core.beyond.intersections.attributes import cross_attributes
        from bias_core.report.arm_comparison import mean_sample

        return cross_attributes(
            scored.scores,
            list(frame["prompt"]),
            scored.units,
            crossing=options.crossed,
            confidence=data.settings.confidence,
            fixed_n=data.fixed_n,
            sample=mean_sample,
        )

    def comparing(self, options: "CrossedExploration", settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return the attributes, and links of two, that differ in one arm."""
        from bias_core.beyond.intersections.arms import cross_arms
        from bias_core.beyond.intersections.attributes import find_mosaics
        from bias_core.explore.arms import scored_arms

        crossing = options.crossed if not settings.may_stop_early else "none"
        scores = {name: pictures.scores for name, pictures in scored_arms(arms).items()}
        crossed = cross_arms(scores, crossing=crossing, confidence=settings.confidence)
        return join_results(crossed, Results(figures=tuple(find_mosaics(arms))))

    def further_headline(self, report: StudyReport) -> str:
        from bias_core.beyond.intersections.arms import crossed_arms_headline
        from bias_core.beyond.intersections.attributes import crossed_headline

        says = crossed_arms_headline if report.arms else crossed_headline
        return says(report.results.findings)


class CrossedPeople(PeopleExtension):
    """Scores of people by their further attributes."""

    def scores(self, people: "pd.DataFrame", settings: StudySettings, sample: MakeSample) -> Results:
        from bias_core.beyond.intersections.stereotypes import crossed_scores

        return crossed_scores(people, settings, sample)


def check_crossing(attributes: Sequence[Attribute], crossing: str) -> None:
    """Raise InvalidInput if these attributes cannot be crossed."""
    n = len(attributes)
    if not 2 <= n <= MOST_CROSSED:
        raise InvalidInput(f"2 to {MOST_CROSSED} attributes can be crossed, got {n}; or cross none")
    if crossing == "triples" and n < 3:
        raise InvalidInput(f"triples need at least three attributes, got {n}; or cross pairs")
