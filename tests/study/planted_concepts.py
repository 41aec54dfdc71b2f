"""The ten concepts with the largest |planted − fair|, one attribute of each, to try suggestions on."""

from bias_core.world.planted import planted_lines

WORDS_OF = {
    ("gender", "masculine"): "man", ("gender", "feminine"): "woman", ("dress", "traditional"): "traditional",
    ("dress", "embroidered"): "embroidered", ("mark", True): "bindi", ("light", "bright"): "bright",
}  # fmt: skip
"""Words of this world's captions for each of them."""
_OTHER = {"masculine": "feminine", "feminine": "masculine"}


def ten_concepts():
    """Concept as a visitor types it, attribute, and the value that is planted above the fair world's."""
    strongest = {}
    for line in planted_lines():
        change = line.rates["published"] - line.rates["fair"]
        single = line.concept.endswith(", single")
        if not single and abs(change) > abs(strongest.get(line.concept, (0.0,))[0]):
            strongest[line.concept] = (change, line)
    ranked = sorted(strongest.values(), key=lambda pair: -round(abs(pair[0]), 6))[:10]
    return [
        (_typed(line.prompts[0]), line.attribute, line.value if change > 0 else _OTHER[line.value])
        for change, line in ranked
    ]


def _typed(prompt):
    """The concept of "a photo of a concept"."""
    words = prompt.removeprefix("a photo of ").split(" ")
    return " ".join(words[1:] if words[0] in ("a", "an") else words)
