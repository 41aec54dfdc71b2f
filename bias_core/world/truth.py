"""The planted rates as a table that a reader of pictures can be checked against."""

from collections.abc import Iterator, Sequence

from bias_core.prompts import fill_template
from bias_core.types import PlantedLine
from bias_core.world.grammar import association_stimuli, book, group_of, parse
from bias_core.world.planted import CONDITIONS, PlantedRate, planted_index, rates

SENTENCES: dict[tuple[str, object], tuple[str, str]] = {
    (attribute, value): (positive, negative) for attribute, value, positive, negative in book()["planted_sentences"]
}
"""How each planted attribute is read: it is there or it is not, with nothing in between."""


def planted_lines() -> Iterator[PlantedLine]:
    """Every planted rate, as it is drawn."""
    for (concept, setting), group in planted_index().items():
        for planted in group:
            positive, negative = SENTENCES[planted.attribute, planted.value]
            yield PlantedLine(
                concept=f"{concept}, single" if setting else concept,
                attribute=planted.attribute,
                value=planted.value,
                prompts=tuple(prompts_of(concept, setting)),
                positive=positive,
                negative=negative,
                rates={condition: planted_rate(planted, condition) for condition in CONDITIONS[:3]},
                published=planted.published,
                source=planted.source,
            )


def planted_rate(planted: PlantedRate, condition: str) -> float:
    """The rate that a condition draws, in [0, 1]."""
    name, power = _role(planted.concept)
    distributions = rates((name,), condition, role=power or "none", setting=planted.setting)
    return float(distributions[planted.attribute][planted.value])


def prompts_of(concept: str, setting: str = "") -> Sequence[str]:
    """Prompts that draw a planted concept.

    >>> prompts_of("iranian"), prompts_of("nurse low")
    (['a photo of an Iranian'], ['a photo of a nurse assistant'])
    >>> prompts_of("science")[0]
    'a person studying science'
    """
    tests = association_stimuli()["tests"]
    form = next((test["template"] for test in tests if concept in (test["x"], test["y"])), "")
    if form:
        written = [fill_template(form, str(word)) for word in association_stimuli()["concepts"][concept]]
        return [prompt for prompt in written if _is_about(prompt, concept)]
    name, power = _role(concept)
    noun = next((word for word, level in book()["roles"].items() if level == power), "")
    phrase = f"{name} {noun}".strip()
    nation = name.split()[0] in book()["nationalities"]
    phrase = phrase[0].upper() + phrase[1:] if nation else phrase
    return [fill_template("Generate a picture of one {}." if setting else "a photo of a {}", phrase)]


def _is_about(prompt: str, group: str) -> bool:
    """Whether one person or thing of the group, and nothing more special, is drawn."""
    request = parse(prompt)
    concepts = request.people[0].concepts if len(request.people) == 1 else (request.concept,)
    return len(request.people) < 2 and len(concepts) == 1 and group in (concepts[0], group_of(concepts[0]))


def _role(concept: str) -> tuple[str, str]:
    name, _, power = concept.rpartition(" ")
    return (name, power) if power in ("high", "low") else (concept, "")
