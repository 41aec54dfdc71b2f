"""The options of an exploration, and the hook through which ``bias_core/beyond`` adds options and results.

Modules of ``beyond`` build on this one, so it is imported before the other modules of Explore.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from bias_core.errors import InvalidInput
from bias_core.prompts import fill_template, guided_prompt
from bias_core.run.suggestions import is_about_thing
from bias_core.study.attributes import THINGS, AttributeSet, find_attribute, load_attribute_sets
from bias_core.study.design import extensions
from bias_core.study.types import Arm, ArmReport, Results, StudyReport, StudySettings
from bias_core.types import Attribute
from bias_core.values import Options, changed_settings, declared_settings, setting, settings_class

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from bias_core.run.attribute_scores import AttributeScore
    from bias_core.run.study_run import Run

MAX_CLUSTERS = 20
MOST = 1_000_000  # pictures in one request, even without a limit for runs
SUGGESTED = "suggested"  # in place of attributes: those of the built-in set that suits the concept
NO_WORDS: Mapping[str, str] = {"attribute_a": "", "attribute_b": ""}  # options of an exploration without an association
_WORD = "Also draws the concept with this word, such as “{} doctor”, to compare; leave both words empty to skip"
_GROUPS = "Number of groups of similar pictures; 0: automatic"
_ATTRIBUTES = "Attributes to measure: built-in names, or name|positive sentence|negative sentence|P*|source"


@settings_class(frozen=True, kw_only=True)
class PromptOptions(Options):
    """The options of prompts from a file, which have no single concept."""

    attributes: tuple[str, ...] = setting((SUGGESTED,), "Attributes", _ATTRIBUTES)
    n_clusters: int = setting(0, "Groups", _GROUPS, ge=0, le=MAX_CLUSTERS)


@settings_class(frozen=True, kw_only=True)
class SeveralOptions(PromptOptions):
    """The options of several concepts, each with pictures of its own."""

    concepts: tuple[str, ...] = setting(("doctor", "nurse"), "Concepts", "Persons or things that are drawn")
    template: str = setting(
        "a photo of a {}", "Prompt template", "Prompt with {} for each concept; “a” becomes “an” where needed"
    )
    n_images: int = setting(16, "Pictures", "Number to draw of each concept", ge=1, le=MOST)
    rates: tuple[str, ...] = setting((), "Real-world rates", "Rates of single concepts: concept|attribute|P*|source")
    counts: tuple[str, ...] = setting(
        (), "Pictures of single concepts", "Other numbers of pictures for single concepts: concept|number"
    )


@settings_class(frozen=True, kw_only=True)
class ConceptOptions(Options):
    """The options of an exploration, without those that :mod:`bias_core.beyond` adds.

    Without a concept, pictures that are brought along are all taken as they are. ``attribute_a`` and
    ``attribute_b`` turn the concept's prompt into the two attribute-guided prompts of T2IAT's Eq. 2.
    """

    concept: str = setting("doctor", "Concept", "Person or thing that is drawn, such as doctor")
    template: str = setting(
        "a photo of a {}", "Prompt template", "Prompt with {} for the concept; “a” becomes “an” where needed"
    )
    attributes: tuple[str, ...] = setting((SUGGESTED,), "Attributes", _ATTRIBUTES)
    attribute_a: str = setting("male", "Association: word A", _WORD.format("male"))
    attribute_b: str = setting("female", "Association: word B", _WORD.format("female"))
    n_images: int = setting(16, "Pictures", "Number to draw; more give narrower intervals", ge=1, le=MOST)
    n_attribute_images: int = setting(8, "Pictures per word", "Further pictures, for words A and B", ge=1, le=MOST)
    n_clusters: int = setting(0, "Groups", _GROUPS, ge=0, le=MAX_CLUSTERS)

    @cached_property
    def scored(self) -> tuple[Attribute, ...]:
        """The attributes with their sentences; InvalidInput where one cannot be read."""
        return read_attributes(self.attributes, self.concept)

    @cached_property
    def extensions(self) -> "tuple[ExploreExtension[Any], ...]":
        """The extensions in use: those without options, and those with an option that is not at its default."""
        changed, concept_options = changed_settings(self).keys(), declared_settings(ConceptOptions).keys()
        added = {
            extension: declared_settings(extension.options).keys() - concept_options
            for extension in explore_extensions()
        }
        return tuple(extension for extension, names in added.items() if not names or names & changed)

    @property
    def has_association(self) -> bool:
        """True if pictures guided to two words are asked for, and no extension in use rules them out."""
        has_words = bool(self.attribute_a.strip() or self.attribute_b.strip())
        return has_words and all(extension.allows_association for extension in self.extensions)

    @property
    def takes_all(self) -> bool:
        """True if imported pictures are taken whatever their prompts are."""
        return not self.concept.strip()

    @property
    def concept_prompt(self) -> str:
        """The prompt of the concept; "" if the pictures of all prompts are taken."""
        return "" if self.takes_all else fill_template(self.template, self.concept)

    def prompts(self) -> dict[str, str]:
        """The prompt of each group of pictures."""
        sides = NO_WORDS if self.has_association else ()
        return {"concept": fill_template(self.template, self.concept)} | {
            side: guided_prompt(self.template, self.concept, getattr(self, side)) for side in sides
        }


def suggest_set(concept: str, sets: tuple[AttributeSet, ...]) -> AttributeSet:
    """Return the set made for a concept, else that of things or of people.

    Raises InvalidInput: there are no sets.
    """
    if not sets:
        raise InvalidInput("there are no attribute sets to suggest from")
    hint = " ".join(concept.lower().split())
    for made in sets:
        if hint and made.concept_hint.lower() == hint:
            return made
    usual = THINGS if is_about_thing(hint) else sets[0].key
    return next((item for item in sets if item.key == usual), sets[0])


def read_attributes(texts: Sequence[str], concept: str) -> tuple[Attribute, ...]:
    """Return attributes from built-in names or full texts; SUGGESTED stands for the concept's set."""
    sets = load_attribute_sets()
    if tuple(texts) == (SUGGESTED,):
        return suggest_set(concept, sets).attributes
    return tuple(find_attribute(text, concept, sets) for text in texts if text)


O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPictures:
    units: tuple[str, ...]
    rows: "np.ndarray"  # embeddings, ``(n, d)``
    scores: "tuple[AttributeScore, ...]"


class ExploreExtension(Generic[O]):
    """An addition to Explore, in a module ``bias_core/beyond/*/extension.py``.

    The fields of ``options`` become options of Explore, on the command line, in the API, in links and in the form. The
    ``options`` that methods take are all options of an exploration. A method that is not overridden adds nothing, and
    an extension whose options are all at their defaults is not asked (:attr:`ConceptOptions.extensions`).

    The module is imported before the modules of Explore that use it: its methods import what else they need.

    Attributes
    ----------
    options : its options: choices, or lists with a menu (:meth:`menus`). A subclass of ``ConceptOptions`` may use its
        options and properties. It is then not offered for a file of prompts, nor for arms of the user's own.
    allows_association : False if the two words of an association are not drawn together with its options.
    """

    options: ClassVar[type[Options]] = Options
    allows_association: ClassVar[bool] = True

    def menus(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return the menus of the form, as labels with values, by the option."""
        return {}

    def check(self, options: O, settings: StudySettings) -> None:
        """Raise InvalidInput for options that cannot be used together."""

    def arms(self, options: O) -> tuple[Arm, ...]:
        """Return the arms that the options ask for; () for none."""
        return ()

    def reading(self, options: O, data: "Run", frame: "pd.DataFrame", scored: ScoredPictures) -> Results:
        """Return additional results for the report of one arm; ``frame`` has a row for each scored picture."""
        return Results()

    def comparing(self, options: O, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
        return Results()

    def arms_headline(self, report: StudyReport) -> str:
        """Return the headline of several arms in place of Explore's own; "" for none."""
        return ""

    def further_headline(self, report: StudyReport) -> str:
        """Return a sentence to add after Explore's own headline, with a leading space; "" for none."""
        return ""


def explore_extensions() -> tuple[ExploreExtension[Any], ...]:
    """Return all extensions found in ``beyond``."""
    return extensions(ExploreExtension)
