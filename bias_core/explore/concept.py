"""The options of an exploration: a concept, what is drawn of it, and what is looked for in the pictures."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from bias_core.prompts import fill_template, guided_prompt
from bias_core.study.attributes import find_attribute, load_attribute_sets
from bias_core.study.setting_fields import Options, setting, settings_class
from bias_core.study.suggestions import suggest_set
from bias_core.types import Attribute

MAX_CLUSTERS = 20
MOST = 1_000_000  # pictures that can be asked for, whatever the limit of a run
SUGGESTED = "suggested"  # in place of attributes: those of the built-in set that suits the concept
NO_WORDS: Mapping[str, str] = {"attribute_a": "", "attribute_b": ""}  # options of an exploration without an association
_WORD = "Word said in the concept's prompt, as in female doctor; leave both words empty for no association"
_GROUPS = "Number of groups of similar pictures; 0 lets the pictures decide"
_ATTRIBUTES = "Attributes to look for: built-in names, or name|positive sentence|negative sentence|P*|source"


@settings_class(frozen=True, kw_only=True)
class PromptOptions(Options):
    """What may be asked of prompts that come from a file, and of no single concept."""

    attributes: tuple[str, ...] = setting((SUGGESTED,), "Attributes", _ATTRIBUTES)
    n_clusters: int = setting(0, "Groups", _GROUPS, ge=0, le=MAX_CLUSTERS)


@settings_class(frozen=True, kw_only=True)
class ConceptOptions(Options):
    """The options of an exploration, without those that :mod:`bias_core.beyond` adds.

    Without a concept, pictures that are brought along are all taken as they are. ``attribute_a`` and
    ``attribute_b`` turn the concept's prompt into the two attribute-guided prompts of T2IAT's Eq. 2.
    """

    concept: str = setting("doctor", "Concept", "Person or thing that is drawn, such as doctor")
    template: str = setting(
        "a photo of a {}", "Prompt template", "Prompt, with {} for the concept; a or an follows by itself"
    )
    attributes: tuple[str, ...] = setting((SUGGESTED,), "Attributes", _ATTRIBUTES)
    attribute_a: str = setting("male", "Association: word A", _WORD)
    attribute_b: str = setting("female", "Association: word B", _WORD)
    n_images: int = setting(16, "Pictures", "Number of pictures; more give narrower intervals", ge=1, le=MOST)
    n_attribute_images: int = setting(
        8, "Pictures per word", "Pictures for each word of the association", ge=1, le=MOST
    )
    n_clusters: int = setting(0, "Groups", _GROUPS, ge=0, le=MAX_CLUSTERS)

    @cached_property
    def scored(self) -> tuple[Attribute, ...]:
        """The attributes with their sentences; InvalidInput where one cannot be read."""
        return read_attributes(self.attributes, self.concept)

    @property
    def has_association(self) -> bool:
        """Whether pictures guided to two words are asked for."""
        return bool(self.attribute_a.strip() or self.attribute_b.strip())

    @property
    def takes_all(self) -> bool:
        """Whether imported pictures are taken whatever their prompts are."""
        return not self.concept.strip()

    def prompts(self) -> dict[str, str]:
        """The prompt of each group of pictures."""
        concept = fill_template(self.template, self.concept)
        sides = NO_WORDS if self.has_association else ()
        return {"concept": concept} | {
            side: guided_prompt(self.template, self.concept, getattr(self, side)) for side in sides
        }


def read_attributes(texts: Sequence[str], concept: str) -> tuple[Attribute, ...]:
    """Attributes by their built-in names, or written in full; SUGGESTED stands for the concept's set."""
    sets = load_attribute_sets()
    if tuple(texts) == (SUGGESTED,):
        return suggest_set(concept, sets).attributes
    return tuple(find_attribute(text, concept, sets) for text in texts if text)
