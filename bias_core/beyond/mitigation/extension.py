"""What helps, beside the comparison of the arms of Explore."""

from collections.abc import Sequence

from bias_core.explore.extension import ConceptOptions, ExploreExtension
from bias_core.study.types import ArmReport, Results, StudyReport, StudySettings


class Mitigation(ExploreExtension[ConceptOptions]):
    """Every arm is a remedy for the first one."""

    def comparing(self, options: ConceptOptions, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        """Return what is left of the bias of the first arm; nothing where the arms are languages."""
        from bias_core.beyond.mitigation.remaining import Tried, mitigation_results
        from bias_core.explore.arms import scored_arms
        from bias_core.explore.options import added_arms

        scored = scored_arms(arms)
        if arms[0].name not in scored or added_arms(settings):
            return Results()
        tried = [Tried(name=name, scores=one.scores, fidelity=one.fidelity) for name, one in scored.items()]
        return mitigation_results(tried, settings.confidence)

    def further_headline(self, report: StudyReport) -> str:
        """Return which arms overcorrect."""
        from bias_core.beyond.mitigation.remaining import overcorrected_sentence

        return overcorrected_sentence(report.results)
