"""The options of Explore and of its suggestions, checked before anything is drawn; no model code is loaded."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bias_core.errors import InvalidInput, quoted
from bias_core.explore.concepts import check_concepts, join_concepts, listed_attributes
from bias_core.explore.extension import (
    MOST,
    NO_WORDS,
    SUGGESTED,
    ConceptOptions,
    PromptOptions,
    SeveralOptions,
    explore_extensions,
    read_attributes,
)
from bias_core.prompts import MAX_PROMPT_CHARACTERS, SLOT, WORD_SLOT, fill_template
from bias_core.store.tables import PackedPrompt, checked_prompts
from bias_core.study.attributes import (
    SEPARATOR,
    drop_foreign_rates,
    find_attribute,
    load_attribute_sets,
    with_rate_of_concept,
)
from bias_core.study.design import find_design
from bias_core.study.types import AUTO, Arm, Design, StudySettings
from bias_core.types import Attribute
from bias_core.values import (
    Options,
    Setting,
    changed_settings,
    check_fields,
    declared_settings,
    option_values,
    setting,
    settings_class,
)

KIND, SEVERAL = "explore", "concepts"
MAX_ATTRIBUTES = 50
NO_GROUP = "no group"  # cell of prompts without a group, if others have one
MODEL = "calibration-diffusion"  # default model of an exploration


if TYPE_CHECKING:
    ExploreOptions = ConceptOptions
    PackOptions = PromptOptions
else:
    _ADDED = [kind for extension in reversed(explore_extensions()) if declared_settings(kind := extension.options)]

    @settings_class(frozen=True, kw_only=True)
    class ExploreOptions(*_ADDED, ConceptOptions):
        """The options of an exploration, then those that extensions add."""

    @settings_class(frozen=True, kw_only=True)
    class PackOptions(*(kind for kind in _ADDED if not issubclass(kind, ConceptOptions)), PromptOptions):
        """The options of prompts from a file, then those that extensions add."""


ADDED: Mapping[str, Setting] = {
    name: setting
    for name, setting in declared_settings(ExploreOptions).items()
    if name not in declared_settings(ConceptOptions)
}
"""The options that come from :mod:`bias_core.beyond`."""


def explore_options(settings: StudySettings) -> ExploreOptions:
    """Return the options of complete settings; those of a file of prompts or of several concepts without a concept."""
    options = settings.options
    if isinstance(options, ExploreOptions):
        return options
    if several := several_options(settings):
        attributes = tuple(map(attribute_text, listed_attributes(several)))
        return ExploreOptions(
            concept="", attribute_a="", attribute_b="", attributes=attributes, n_clusters=several.n_clusters
        )
    if isinstance(options, PackOptions):
        return ExploreOptions(**option_values(options) | {**NO_WORDS, "concept": ""})
    return ExploreOptions(**option_values(options))


def several_options(settings: StudySettings) -> SeveralOptions | None:
    """Return the options of several concepts; None for any other run."""
    options = settings.options
    if isinstance(options, Options):
        return options if isinstance(options, SeveralOptions) else None
    values = option_values(options)
    return SeveralOptions(**values) if "concepts" in values else None


def choose_design(settings: StudySettings) -> Design:
    """Return the design that runs these settings: of one concept, or of several."""
    return find_design(SEVERAL if several_options(settings) else KIND)


def added_arms(settings: StudySettings) -> tuple[Arm, ...]:
    """Return the arms that options ask for by themselves; () for none."""
    options = explore_options(settings)
    return tuple(arm for extension in options.extensions for arm in extension.arms(options))


def check_options(settings: StudySettings) -> None:
    """Raise InvalidInput for options that cannot be used together; the error suggests a fix."""
    if several := several_options(settings):
        check_concepts(several)
    options = explore_options(settings)
    _check_options(options, settings)
    if len(settings.negative_prompt) > MAX_PROMPT_CHARACTERS:
        raise InvalidInput(
            f"the negative prompt has {len(settings.negative_prompt):,} characters; "
            f"at most {MAX_PROMPT_CHARACTERS:,} are allowed"
        )


def scored_attributes(settings: StudySettings, prompts: Iterable[str] | None = None) -> tuple[Attribute, ...]:
    """Return the attributes of a run or arm; an arm that draws another concept has the real-world rates of that one.

    Without a concept, the ``prompts`` of the pictures decide which rates fit (:func:`drop_foreign_rates`).

    >>> from bias_core.study.types import Arm
    >>> words = "{}, in watercolour", "{nurse=doctor}", "{nurse=woman nurse}"
    >>> arms = [explore_settings(concept="nurse", arms=(Arm(template=one),)) for one in words]
    >>> [scored_attributes(one)[0].reference for one in arms]
    [0.121, 0.562, 0.121]
    """
    options = explore_options(settings)
    if options.takes_all and prompts is not None:
        return drop_foreign_rates(options.scored, prompts)
    concept = _concept_drawn(options.concept, settings.arms[0].template or "" if len(settings.arms) == 1 else "")
    if concept == options.concept:
        return options.scored
    return tuple(with_rate_of_concept(attribute, concept) for attribute in options.scored)


def _concept_drawn(concept: str, template: str) -> str:
    """Return the concept that an arm draws; its template may replace the run's concept."""
    for old, new in WORD_SLOT.findall(template):
        new_concept = re.sub(rf"\b{re.escape(old)}\b", new.replace("\\", r"\\"), concept, flags=re.I)
        if not re.search(rf"\b{re.escape(concept)}\b", new_concept, re.I):
            return new_concept
    return concept


def explore_settings(base: StudySettings | None = None, /, **given: Any) -> StudySettings:
    """Return the settings of an exploration with its options; the default model is the diffusion model.

    ``base`` holds settings that are changed, ``given`` fields of :class:`StudySettings` and of
    :class:`ExploreOptions`; ``attributes`` may be texts, :class:`Attribute` or what these hold.

    >>> settings = explore_settings(concept="nurse", seed=3)
    >>> settings.seed, settings.options.concept
    (3, 'nurse')
    """
    base = StudySettings(model=MODEL, options=ExploreOptions()) if base is None else base
    settings = {name: given.pop(name) for name in declared_settings(StudySettings) if name in given}
    values = {"attributes": (SUGGESTED,), **option_values(base.options), **given}
    values["attributes"] = tuple(map(attribute_text, values["attributes"]))
    # A list may come as one text.
    values |= {name: setting.read(values[name]) for name, setting in ADDED.items() if name in values}
    if values.get("n_clusters", 0) is None:
        values["n_clusters"] = 0
    options = ExploreOptions(**values)
    made = replace(base, **settings, options=options)
    if len(made.arms) > 1 and options.n_images < 2:
        raise InvalidInput(f"a comparison needs at least two seeds, got {options.n_images}")
    if len(made.arms) > 1 and not (options.attributes or options.has_association):
        raise InvalidInput("there is nothing to compare: choose an attribute, or two words of an association")
    return made


def several_settings(
    concepts: Sequence[str], settings: StudySettings, *, rates: Sequence[str] = (), counts: Sequence[str] = ()
) -> StudySettings:
    """Return the settings of a run of several concepts from those of an exploration of one.

    InvalidInput for options of a single concept that were changed: its words of an association, and those of
    :mod:`bias_core.beyond`.
    """
    options = explore_options(settings)
    for name in changed_settings(options):
        if name in ADDED:
            raise InvalidInput(
                f"“{ADDED[name].label}” is for a single concept: explore one concept, or leave this option out"
            )
    values = option_values(options)
    taken = {name: values[name] for name in ("attributes", "template", "n_images", "n_clusters")}
    made = replace(
        settings, options=SeveralOptions(concepts=tuple(concepts), rates=tuple(rates), counts=tuple(counts), **taken)
    )
    check_options(made)
    return made


def build_concept_settings(
    concepts: Sequence[str],
    attributes: Sequence[str] | None = None,
    *,
    rates: Sequence[str] = (),
    counts: Sequence[str] = (),
    **given: Any,
) -> StudySettings:
    """Return the settings of a run of one concept or of several; "" or no concept for own pictures of any prompt.

    ``attributes``: None for those that are suggested. ``given`` is as for :func:`explore_settings`.
    """
    texts = (SUGGESTED,) if attributes is None else tuple(attributes)
    first = concepts[0] if concepts else ""
    if len(concepts) < 2 and not rates and not counts:
        return explore_settings(concept=first, attributes=read_attributes(texts, first), **given)
    asked = explore_settings(concept=first, attributes=texts, **given)
    return several_settings(concepts, asked, rates=rates, counts=counts)


def compare_settings(concept: str, arms: Sequence[Arm], **given: Any) -> StudySettings:
    """Return the settings of an exploration in several arms, each with its own template for the concept.

    The templates hold ``{}`` for the concept, and further ``{}`` that repeat it; ``given`` is as for
    :func:`explore_settings`, without an association where no words are given.
    """
    template, treatments = find_shared_template([arm.template or ExploreOptions().template for arm in arms], concept)
    treated = tuple(replace(arm, template=treatment) for arm, treatment in zip(arms, treatments, strict=True))
    usual = {**NO_WORDS, "n_images": 60, "n_attribute_images": 16}
    return explore_settings(StudySettings(), concept=concept, template=template, arms=treated, **usual | given)


EXPLORE_SETTINGS = (
    "model", "condition", "n_images", "seed", "template", "encoder", "attribute_a", "attribute_b",
    "n_attribute_images", "num_inference_steps", "guidance_scale", "negative_prompt", "n_clusters", "confidence",
    "force", "further_encoders", "judge", "size", "sampler", "rewrite", "rewriter", "stop_within", "stop_when_clear",
    *ADDED,
)  # fmt: skip
"""In the order of the tool's parameters: add new ones at the end."""
COMPARE_SETTINGS = (
    "encoder", "n_images", "n_attribute_images", "attribute_a", "attribute_b", "seed", "confidence", "force",
    "further_encoders", "judge", "rewriter", "stop_within", "stop_when_clear",
    *(name for name in ADDED if name in declared_settings(PackOptions)),
)  # fmt: skip


def offered_settings(names: Iterable[str], usual: StudySettings) -> dict[str, Setting]:
    """Return settings with the defaults of a command or tool."""
    declared = {**declared_settings(StudySettings), **declared_settings(type(usual.options))}
    defaults = {**vars(usual), **vars(usual.options)}
    return {name: replace(declared[name], default=defaults[name]) for name in names}


def compared_concept(arms: Sequence[Arm], concept: str, other_concept: str) -> tuple[Arm, ...]:
    """Return the arms with one more, which draws another concept in place of the run's; unchanged for "".

    >>> compared_concept((), "doctor", "nurse")[1].template
    '{doctor=nurse}'
    """
    concept, other_concept = (" ".join(words.split()) for words in (concept, other_concept))
    if not other_concept:
        return tuple(arms)
    if other_concept.lower() == concept.lower():
        raise InvalidInput(f"compare “{concept}” with another concept")
    return (*(arms or (Arm(),)), Arm(template=f"{{{concept}={other_concept}}}"))


def split_compared_concept(arms: Sequence[Arm], concept: str) -> tuple[str, tuple[Arm, ...]]:
    """Return the concept that an arm draws in place of the run's, and the other arms; "" if no arm does only that.

    >>> split_compared_concept(compared_concept((), "doctor", "nurse"), "doctor")
    ('nurse', ())
    """
    for i, arm in enumerate(arms):
        swap = WORD_SLOT.fullmatch(arm.template or "")
        if swap and swap[1] == concept and replace(arm, name="", template=None) == Arm():
            other_arms = (*arms[:i], *arms[i + 1 :])
            return swap[2], () if all(replace(other_arm, name="") == Arm() for other_arm in other_arms) else other_arms
    return "", tuple(arms)


def find_shared_template(templates: Sequence[str], concept: str) -> tuple[str, tuple[str | None, ...]]:
    """Return a template that all arms share, and the treatment that turns it into each arm's template.

    >>> find_shared_template(["a photo of a {}", "a photo of a {}, who can be any {}"], "nurse")
    ('a photo of a {}', (None, '{}, who can be any nurse'))
    >>> find_shared_template(["a photo of a {}", "a sketch of a {}"], "nurse")
    ('{}', ('a photo of a {}', 'a sketch of a {}'))
    """
    whole = [arm_template(template, concept) for template in templates]
    base = min(whole, key=len, default=SLOT)
    if all(template.startswith(base) for template in whole):
        ends = [template.removeprefix(base) for template in whole]
        return base, tuple(SLOT + end if end else None for end in ends)
    return SLOT, tuple(whole)


def arm_template(template: str, concept: str) -> str:
    """Return ``template`` with every ``{}`` but the first filled with the concept.

    >>> arm_template("a photo of a {}, if all individuals can be a {}", "engineer")
    'a photo of a {}, if all individuals can be an engineer'
    """
    head, slot, tail = template.partition(SLOT)
    pieces = tail.split(SLOT)
    filled = [fill_template(piece + SLOT, concept) for piece in pieces[:-1]]
    return head + slot + "".join([*filled, pieces[-1]])


def attribute_text(given: Attribute | Mapping[str, Any] | str) -> str:
    """Return an attribute as options and ``--attribute`` take it: its parts joined by |, which no part may contain."""
    if isinstance(given, str):
        return given
    try:
        attribute = given if isinstance(given, Attribute) else Attribute(**given)
    except TypeError as error:
        raise InvalidInput(
            "an attribute has name, positive and negative, and may have reference and reference_source; "
            f"got {quoted(given)}"
        ) from error
    rate = "" if attribute.reference is None else repr(attribute.reference)
    parts = [attribute.name, attribute.positive, attribute.negative, rate, attribute.reference_source]
    check_fields(attribute)
    if wrong := next((part for part in parts if SEPARATOR in part), ""):
        raise InvalidInput(f"attribute {attribute.name!r}: no part of it may hold {SEPARATOR!r}, got {wrong!r}")
    _check_attribute(attribute)
    while not parts[-1]:
        parts.pop()
    return SEPARATOR.join(parts)


def _write_attributes(texts: Sequence[str], concept: str) -> list[str]:
    """Return command words for attributes: none for the concept's own set, built-in names, else all parts."""
    if list(texts) == [attribute_text(attribute) for attribute in read_attributes([SUGGESTED], concept)]:
        return []
    words = ["--no-attributes"] if not texts else []
    for text in texts:
        name = text.partition(SEPARATOR)[0]
        with suppress(InvalidInput):  # of no built-in set: written in full
            if attribute_text(find_attribute(name, concept, load_attribute_sets())) == text:
                text = name
        words += ["--attribute", text]
    return words


def explore_words(settings: StudySettings) -> list[str]:
    """Return the words of the command, the concept first, without options at their defaults."""
    options, words = explore_options(settings), list[str]()
    for name, value in changed_settings(options).items():
        if name == "attributes":
            words += _write_attributes(value, options.concept)
        elif name != "concept":
            words += [f"--{name.replace('_', '-')}", declared_settings(ExploreOptions)[name].write(value)]
    if not settings.images and settings.model != MODEL:
        words += ["--model", settings.model]
    first = [*words, "--", options.concept] if options.concept.startswith("-") else [options.concept, *words]
    return ["explore", *first]


def several_words(settings: StudySettings) -> list[str]:
    """Return the words of the command, the concepts first, without options at their defaults."""
    options = several_options(settings) or SeveralOptions()
    words = ["explore", *(join_concepts([concept]) for concept in options.concepts)]
    for name, value in changed_settings(options).items():
        if name == "attributes":
            words += _write_attributes(value, options.concepts[0])
        elif name in ("rates", "counts"):
            words += [word for text in value for word in (f"--{name[:-1]}", text)]
        elif name != "concepts":
            words += [f"--{name.replace('_', '-')}", declared_settings(SeveralOptions)[name].write(value)]
    model = [] if settings.images or settings.model == MODEL else ["--model", settings.model]
    return [*words, *model]


def read_pack_prompts(design: Design) -> tuple[PackedPrompt, ...]:
    """Return the prompts of a pack; InvalidInput names the rows that cannot be used."""
    rows = design.data.get("prompts")
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidInput(f"{design.name} has no list of prompts in its data")
    return checked_prompts(design.name, ((str(row.get("place") or f"row {i}"), row) for i, row in enumerate(rows, 1)))


def list_prompt_cells(prompts: Sequence[PackedPrompt]) -> list[str]:
    """Return the cell that each prompt's pictures count in: its group, or itself if no prompt has one."""
    grouped = any(prompt.group for prompt in prompts)
    return [prompt.group or NO_GROUP if grouped else prompt.prompt for prompt in prompts]


def attributes_of_cells(design: Design, scored: Sequence[Attribute]) -> dict[str, tuple[Attribute, ...]]:
    """Return the attributes that rows of a pack name in addition to ``scored``, by the cell of their pictures.

    InvalidInput if one name would stand for two attributes with different sentences.
    """
    of_all, of_cell = {attribute.name.lower(): attribute for attribute in scored}, dict[str, dict[str, Attribute]]()
    prompts = read_pack_prompts(design)
    for cell, prompt in zip(list_prompt_cells(prompts), prompts, strict=True):
        for text in prompt.attributes:
            cell_attributes = of_cell.setdefault(cell, {})
            try:
                attribute = _unlike_others(text, cell_attributes | of_all)
            except InvalidInput as error:
                raise InvalidInput(f"{design.name}, {prompt.place}: {error}") from error
            if attribute.name.lower() not in of_all:
                cell_attributes[attribute.name.lower()] = attribute
    return {cell: tuple(named.values()) for cell, named in of_cell.items()}


def _unlike_others(text: str, existing: Mapping[str, Attribute]) -> Attribute:
    """Return the attribute that a row names; InvalidInput if one of ``existing`` has its name but other sentences."""
    attribute = find_attribute(text, "", load_attribute_sets())
    _check_attribute(attribute)
    namesake = existing.get(attribute.name.lower(), attribute)
    if (namesake.positive, namesake.negative) != (attribute.positive, attribute.negative):
        raise InvalidInput(
            f"“{attribute.name}” has other sentences already, such as {quoted(namesake.positive)}; give one of the "
            "two another name"
        )
    return attribute


def _check_options(options: ExploreOptions, settings: StudySettings) -> None:
    words = options.attribute_a.strip(), options.attribute_b.strip()
    if options.has_association and not all(words):
        raise InvalidInput("the association compares two attributes: give both words, or neither")
    if options.has_association and words[0] == words[1]:
        raise InvalidInput(f"the association compares two different attributes, got {options.attribute_a!r} twice")
    if not options.takes_all:
        options.prompts()
    if len(options.scored) > MAX_ATTRIBUTES:
        raise InvalidInput(f"at most {MAX_ATTRIBUTES} attributes at once, got {len(options.scored)}")
    for attribute in options.scored:
        _check_attribute(attribute)
    counts = Counter(attribute.name.strip().lower() for attribute in options.scored)
    if twice := [name for name, n in counts.items() if n > 1]:
        raise InvalidInput(f"attribute names must differ, got twice: {', '.join(twice)}")
    for extension in options.extensions:
        extension.check(options, settings)
    if settings.images and options.takes_all and not options.scored:
        raise InvalidInput("no attribute to measure: give at least one")


def _check_attribute(attribute: Attribute) -> None:
    parts = {
        "a name": attribute.name,
        "a positive sentence": attribute.positive,
        "a negative sentence": attribute.negative,
    }
    for part, text in parts.items():
        if not text.strip():
            raise InvalidInput(f"attribute {attribute.name!r} needs {part}; each has a name and two sentences")
        if len(text) > MAX_PROMPT_CHARACTERS:
            raise InvalidInput(
                f"attribute {attribute.name[:40]!r}: {part} of {len(text):,} characters; "
                f"at most {MAX_PROMPT_CHARACTERS:,} are allowed"
            )
    if attribute.positive.strip() == attribute.negative.strip():
        raise InvalidInput(f"attribute {attribute.name!r}: both sentences are the same, {attribute.positive!r}")
    if attribute.reference is not None and not 0 <= attribute.reference <= 1:
        raise InvalidInput(f"attribute {attribute.name!r}: P* is a share from 0 to 1, got {attribute.reference}")


FEWEST = 4  # pictures


@settings_class(frozen=True, kw_only=True)
class SuggestOptions(Options):
    """The concept, its base, and the models that are asked."""

    concept: str = setting("doctor", "Concept", "Person or thing that is drawn, such as doctor")
    template: str = setting(
        "a photo of a {}", "Prompt template", "Prompt with {} for the concept; “a” becomes “an” where needed"
    )
    base: str = setting(
        "", "Base", "Concept that the pictures are compared with (default: person, or object for things)"
    )
    n_images: int = setting(
        16, "Pictures", "Number of pictures of the concept, and as many of the base", ge=FEWEST, le=MOST
    )
    captioner: str = setting(
        AUTO, "Captioner", "Model that describes each picture; auto picks one that suits them and this machine"
    )
    language_model: str = setting(
        AUTO,
        "Language model",
        "Language model that suggests attributes from words alone; auto picks one, none asks no model",
    )


SUGGEST_SETTINGS = (
    "model", "condition", "n_images", "seed", "template", "base", "language_model", "captioner", "encoder",
    "num_inference_steps", "guidance_scale", "negative_prompt", "size", "sampler", "confidence", "force",
)  # fmt: skip
"""Settings of the command and the tool, in this order."""


def usual_suggest_settings(**given: Any) -> StudySettings:
    """Return settings of suggestions from values by name; the default model is the diffusion model."""
    declared_options = declared_settings(SuggestOptions)
    options = SuggestOptions(**{name: given.pop(name) for name in list(given) if name in declared_options})
    return StudySettings(**{"model": MODEL, **given}, options=options)


def remove_concept(settings: StudySettings) -> StudySettings:
    """Return the settings for own pictures of any prompts: without concept and words."""
    options = option_values(settings.options) | {**NO_WORDS, "concept": ""}
    return replace(settings, options=options)
