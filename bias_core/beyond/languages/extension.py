"""Several languages as an option of Explore."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from bias_core.errors import InvalidInput
from bias_core.explore.extension import ConceptOptions, ExploreExtension, ScoredPictures
from bias_core.prompts import SLOT, fill_template
from bias_core.study.types import Arm, ArmReport, Results, StudyReport, StudySettings
from bias_core.values import Options, setting, settings_class
from bias_core.world.wordings import Wording, language_choices, list_wordings

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.run.study_run import Run


@settings_class(frozen=True, kw_only=True)
class LanguageOptions(ConceptOptions):
    languages: tuple[str, ...] = setting(
        (),
        "Languages",
        "Languages to compare with English on the same seeds: de, fr, es, ar, hi, zh, also with a form as in "
        "de:feminine",
    )

    @cached_property
    def wordings(self) -> tuple[Wording, ...]:
        """The prompt in every language, English first; empty for English alone."""
        return list_wordings(self.languages, self.template, self.concept) if self.languages else ()


class Languages(ExploreExtension[LanguageOptions]):
    options: ClassVar[type[Options]] = LanguageOptions
    allows_association = False  # its words are English

    def menus(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        return {"languages": language_choices()}

    def check(self, options: LanguageOptions, settings: StudySettings) -> None:
        """Raise InvalidInput for a concept without a wording, and for settings that do not suit several arms."""
        for problem, is_so in (
            ("pictures are drawn in each language: remove your own pictures", bool(settings.images)),
            ("each language needs the same number of pictures: turn the stop rule off", settings.may_stop_early),
            ("attributes are compared: choose at least one", not options.scored),
            ("at least two seeds are needed: ask for more pictures", options.n_images < 2),
        ):
            if is_so:
                raise InvalidInput(f"several languages: {problem}")

    def arms(self, options: LanguageOptions) -> tuple[Arm, ...]:
        """Return an arm for each wording: the English prompt, and its replacement."""
        english = fill_template(options.template, options.concept)
        return tuple(
            Arm(name=wording.name, template=SLOT if i == 0 else f"{{{english}={wording.prompt}}}")
            for i, wording in enumerate(options.wordings)
        )

    def reading(self, options: LanguageOptions, data: "Run", frame: "pd.DataFrame", scored: ScoredPictures) -> Results:
        """Return how often the concept is recognised."""
        from bias_core.beyond.languages.comparison import recognised_concept

        return Results(findings=tuple(recognised_concept(options.concept, data, scored.rows, scored.units)))

    def comparing(self, options: LanguageOptions, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        from bias_core.beyond.languages.comparison import compare_languages

        return compare_languages(options.concept, options.wordings, settings, arms)

    def arms_headline(self, report: StudyReport) -> str:
        """Say which languages differ from English, and which were not understood."""
        from bias_core.beyond.languages.comparison import LANGUAGES, languages_headline

        frame = report.results.frame(LANGUAGES)
        return languages_headline(frame) if len(frame) else ""
