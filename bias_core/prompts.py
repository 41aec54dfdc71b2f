"""Templates, articles and counterfactual edits: from a concept to the prompts of a study."""

import re

from bias_core.errors import InvalidInput

MAX_PROMPT_CHARACTERS = 2000
SLOT = "{}"
WORD_SLOT = re.compile(r"\{([^{}=]+)=([^{}=]+)\}")  # substitution: {doctor=person} replaces one word by another

# Spelled with a vowel but said with a consonant (a European, a one-man band), and the reverse (an heir).
_SAID_WITH_CONSONANT = re.compile(
    r"(?:uni(?!n|mp|m)|us[aeu]|eu|ewe|one\b|once\b|ubiq|utop|ut[ei]|uk(?:\b|[ru])|ur[aeio]|ugand)", re.I
)
_SAID_WITH_VOWEL = re.compile(r"(?:hour|honest|honou?r|heir)", re.I)
# Attribute words that follow the noun: "a doctor with glasses", not "a with glasses doctor".
_FOLLOWS_NOUN = re.compile(r"(?:with|without|wearing|holding|in|on|at|from|who|that|having)\b", re.I)
_ARTICLE = re.compile(r"(an?|the) +(?=\w)", re.I)
_PERSON = re.compile(r"(?:person|human|individual)", re.I)
_NOUN_TO_ADJECTIVE = {"man": "male", "woman": "female", "men": "male", "women": "female"}


def article(word: str) -> str:
    """The English indefinite article for the next word, by sound.

    >>> [article(word) for word in ("nurse", "engineer", "hourglass", "university", "umbrella")]
    ['a', 'an', 'an', 'a', 'an']
    """
    if _SAID_WITH_VOWEL.match(word):
        return "an"
    if _SAID_WITH_CONSONANT.match(word):
        return "a"
    return "an" if word[:1].lower() in set("aeiou") else "a"


def fix_articles(text: str) -> str:
    """Make every "a" or "an" in ``text`` agree with the next word.

    >>> fix_articles("A engineer beside an doctor")
    'An engineer beside a doctor'
    """

    def agree(match: re.Match[str]) -> str:
        return f"{_with_case(article(match[2]), match[1])} {match[2]}"

    return re.sub(r"\b(an?)\s+(\w[\w'-]*)", agree, text, flags=re.I)


def fill_template(template: str, concept: str) -> str:
    """Put ``concept`` into the one ``{}`` of ``template``, with the right article.

    Only the article right before the slot changes; other words stay as typed. A concept with an article of its own
    keeps that one instead.

    Raises InvalidInput: empty concept, a template without exactly one ``{}``, or more than 2,000 characters.

    >>> fill_template("a photo of a {}", "engineer")
    'a photo of an engineer'
    >>> fill_template("a photo of a {}", "the oldest doctor")
    'a photo of the oldest doctor'
    """
    concept = " ".join(concept.split())
    if not concept:
        raise InvalidInput("the concept is empty; type what should be drawn, for example 'doctor'")
    if template.count(SLOT) != 1:
        raise InvalidInput(f"the template needs exactly one {{}} for the concept, got {template[:80]!r}")
    before, after = template.split(SLOT)
    if article_match := _ARTICLE.match(concept) and re.search(r"\b(a|an|the)\s+$", before, re.I):
        before, concept = before[: article_match.start()], _with_case(concept[0], article_match[1]) + concept[1:]
    before = re.sub(r"\b(a|an)\s+$", lambda m: _with_case(article(concept), m[1]) + " ", before, flags=re.I)
    prompt = before + concept + after
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise InvalidInput(f"the prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are allowed")
    return prompt


def _with_case(word: str, like: str) -> str:
    return word.capitalize() if like[0].isupper() else word


def guide_concept(concept: str, attribute: str) -> str:
    """Add the attribute to the concept: the counterfactual edit of T2IAT's attribute-guided prompts.

    An adjective goes before the noun, "with ..." or "wearing ..." after it; "man" and "woman" become
    adjectives before a noun, and replace "person".

    >>> guide_concept("doctor", "male"), guide_concept("doctor", "woman"), guide_concept("person", "woman")
    ('male doctor', 'female doctor', 'woman')
    >>> guide_concept("doctor", "with glasses"), guide_concept("a tired doctor", "old")
    ('doctor with glasses', 'an old tired doctor')
    """
    concept, attribute = " ".join(concept.split()), " ".join(attribute.split())
    if not attribute:
        raise InvalidInput("the attribute word is empty; give one for each side, or none")
    if article_match := _ARTICLE.match(concept):
        return fix_articles(article_match[0] + guide_concept(concept[article_match.end() :], attribute))
    if _FOLLOWS_NOUN.match(attribute):
        return f"{concept} {attribute}"
    if attribute.lower() not in _NOUN_TO_ADJECTIVE:
        return f"{attribute} {concept}"
    if _PERSON.fullmatch(concept):
        return attribute
    return f"{_NOUN_TO_ADJECTIVE[attribute.lower()]} {concept}"


def guided_prompt(template: str, concept: str, attribute: str) -> str:
    """Fill ``template`` with the attribute-guided concept.

    >>> guided_prompt("a photo of an {}", "engineer", "female")
    'a photo of a female engineer'
    """
    return fill_template(template, guide_concept(concept, attribute))


def replace_word(prompt: str, word: str, replacement: str) -> str:
    """Replace a whole word of ``prompt`` and correct its article (a counterfactual edit).

    Raises InvalidInput: the word is not in the prompt, so that the edit would change nothing.

    >>> replace_word("a person studying science", "person", "man")
    'a man studying science'
    """
    edited, n_edits = re.subn(rf"\b{re.escape(word)}\b", lambda _: replacement, prompt, count=1)
    if n_edits == 0:
        raise InvalidInput(f"the word {word!r} is not in the prompt {prompt!r}")
    return fix_articles(edited)


def append_word(prompt: str, word: str) -> str:
    """Add one attribute word at the end of ``prompt``, as T2IAT does for valence.

    >>> append_word("a photo of a rose", "pleasant")
    'a photo of a rose, pleasant'
    """
    return f"{prompt.rstrip(' ,.')}, {word}"
