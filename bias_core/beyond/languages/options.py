"""In which languages a concept is drawn."""

from functools import cached_property

from bias_core.explore.extension import ConceptOptions
from bias_core.study.setting_fields import setting, settings_class
from bias_core.world.wordings import Wording, wordings_of

LANGUAGES = "languages"  # key of the table and of the figure


@settings_class(frozen=True, kw_only=True)
class LanguageOptions(ConceptOptions):
    """The languages."""

    languages: tuple[str, ...] = setting(
        (),
        "Languages",
        "Drawn on the same seeds and compared with English: de, fr, es, ar, hi, zh, also with a form as in de:feminine",
    )

    @cached_property
    def wordings(self) -> tuple[Wording, ...]:
        """The prompt in every language, English first; none where it is asked for in English alone."""
        return wordings_of(self.languages, self.template, self.concept) if self.languages else ()

    @property
    def has_association(self) -> bool:
        """Whether pictures guided to two words are asked for; these are English, so never in several languages."""
        return not self.languages and super().has_association
