"""Phrases of captions, and candidates that a language model proposes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from bias_core.errors import InvalidInput
from bias_core.measures.wordnet import Lexicon, lexicon
from bias_core.prompts import article, fix_articles
from bias_core.types import Attribute

if TYPE_CHECKING:
    from bias_core.protocols import LanguageModel

PERSON = "person"
_IS = "is"  # the link of a property of who or what is shown, as "old" in "an old man"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_LONGEST = 3  # words of a phrase; a longer one is talk
_COUNTERPARTS = {"man": "woman", "woman": "man", "boy": "girl", "girl": "boy"}


@dataclass(frozen=True, kw_only=True, order=True)
class Phrase:
    """A thing, a property or somebody that a caption names.

    >>> phrases = phrases_of("an old man with a beard wearing a white hat in a park")
    >>> [str(phrase) for phrase in phrases]
    ['man', 'old', 'with a beard', 'wearing a white hat', 'wearing a hat', 'in a park']
    """

    words: tuple[str, ...]  # in lower case, the last one in the singular; what makes phrases the same
    link: str  # word between what is shown and the phrase ("wearing"); "" for who is shown, "is" for a property
    text: str  # the phrase as the caption writes it, with its article

    def __str__(self) -> str:
        return self.text if self.link in ("", _IS) else f"{self.link} {self.text}"

    def attribute(self, subject: str = PERSON) -> Attribute:
        """The attribute with a sentence for presence and one for absence, said of a ``subject``.

        >>> beard = phrases_of("a man with a beard")[1].attribute()
        >>> beard.positive, beard.negative
        ('a photo of a person with a beard', 'a photo of a person without a beard')
        """
        return self.wordings(subject)[0]

    def wordings(self, subject: str = PERSON, *, opposite: str = "") -> list[Attribute]:
        """The attribute in several pairs of sentences, for a reader that may tell one pair and not another.

        ``opposite`` is a property that is never said together with this one, such as "young" of "old".

        >>> old = phrases_of("an old man")[1].wordings(opposite="young")
        >>> [one.negative for one in old][:2]
        ['a photo of a person who is not old', 'a photo of a young person']
        """
        pairs = list(self._pairs(subject, opposite))
        return [
            Attribute(name=str(self), positive=fix_articles(positive), negative=fix_articles(negative))
            for positive, negative in dict.fromkeys(pairs)
        ]

    def _pairs(self, subject: str, opposite: str) -> Iterator[tuple[str, str]]:
        who, photo = "who" if _is_person(subject) else "that", "a photo of a"
        if self.link == "":
            noun = " ".join(self.words)
            other = _counterpart(noun)
            yield f"{photo} {noun}", f"{photo} {other}" if other else f"{photo} {subject} {who} is not a {noun}"
            return
        if self.link == _IS:
            positive, says, denies = f"{photo} {self.text} {subject}", f"is {self.text}", f"is not {self.text}"
            yield positive, f"{photo} {subject} {who} {denies}"
            if opposite:
                yield positive, f"{photo} {opposite} {subject}"
                yield f"The {subject} {says}.", f"The {subject} is {opposite}."
        else:
            without = "without" if self.link == "with" else f"not {self.link}"
            positive = f"{photo} {subject} {self.link} {self.text}"
            yield positive, f"{photo} {subject} {without} {self.text}"
            bare = self.text.partition(" ")[2] if self.text.startswith(("a ", "an ")) else self.text
            has = self.link == "with"
            says = f"has {self.text}" if has else f"is {self.link} {self.text}"
            denies = f"has no {bare}" if has else f"is not {self.link} {self.text}"
        yield f"The {subject} {says}.", f"The {subject} {denies}."
        if self.link == "in":
            yield f"The {subject} is wearing {self.text}.", f"The {subject} is not wearing {self.text}."
        yield positive, f"{photo} {subject}"


def phrases_of(caption: str) -> list[Phrase]:
    """Who or what a caption names first, its properties, and all that is said to be with it; each once.

    Of "in embroidered clothing" also "in clothing" is given, so that what is common to many phrases can be found.
    A caption that names nothing gives none.
    """
    phrases: dict[tuple[str, ...], Phrase] = {}
    for number, (link, tokens) in enumerate(_segments(caption)):
        for phrase in _of_head(tokens) if number == 0 and not link else _of_segment(link, tokens):
            phrases.setdefault(phrase.words, phrase)
    return list(phrases.values())


def is_about_person(caption: str) -> bool:
    """Whether who or what the caption names first is a person.

    >>> is_about_person("an old man in a park"), is_about_person("a rose on a table")
    (True, False)
    """
    first = next(iter(phrases_of(caption)), None)
    return first is not None and first.link == "" and _is_person(first.words[-1])


def is_about_thing(text: str) -> bool:
    """Whether who or what the text names first is a thing, and nobody is named beside it.

    >>> is_about_thing("red tulips"), is_about_thing("guard"), is_about_thing("a street with people")
    (True, False, False)
    """
    words, phrases = lexicon(), phrases_of(text)
    nouns = [phrase.words[-1] for phrase in phrases if phrase.link != _IS]
    return bool(phrases) and words.is_thing(phrases[0].words[-1]) and not any(map(_is_person, nouns))


def is_gendered(noun: str) -> bool:
    """Whether it is a gender word, such as "woman"."""
    words = lexicon()
    return noun in words.masculine or noun in words.feminine


def _is_person(noun: str) -> bool:
    words = lexicon()
    return is_gendered(noun) or noun in words.person_words or words.is_person(noun)


def _segments(caption: str) -> Iterator[tuple[str, list[str]]]:
    """The caption cut where a preposition, a participle or an "and" begins something new: (link, words)."""
    words, link, tokens, n_segments = lexicon(), "", list[str](), 0
    for token in _TOKEN.findall(caption.lower()):
        joins = token in words.coordinators or not token[0].isalpha()
        if tokens:
            after_noun = tokens[-1] not in words.determiners and is_noun(tokens[-1])
        else:
            after_noun = n_segments > 0 and not words.frequency(token, "ADJ")
        opens = token in words.prepositions or (token.endswith("ing") and after_noun)
        ends = token in words.relatives or token in words.other_function_words
        if not (joins or opens or ends):
            tokens.append(token)
            continue
        named = [word for word in tokens if word not in words.determiners]
        if opens and (not named or named[-1] in words.stop_words) and link:  # "standing in", "in front of"
            link = " ".join([link, *tokens, token])
            tokens = []
            continue
        if named:
            yield link, tokens
            n_segments += 1
        tokens = []
        link = token if opens else link if joins else ""
    if tokens:
        yield link, tokens


def is_noun(token: str) -> bool:
    """Whether it is a noun rather than an adjective; a word that is not known is one, but for a participle."""
    words = lexicon()
    lemma = words.lemma(token, "NOUN")
    if lemma is not None:
        return (words.frequency(lemma, "NOUN") or 0) >= (words.frequency(token, "ADJ") or 0)
    return token not in words.rows and not token.endswith("ed")


def _of_head(tokens: list[str]) -> Iterator[Phrase]:
    """Who or what is shown, and its properties."""
    words = lexicon()
    named = _with_compounds([token for token in tokens if token not in words.determiners], words)
    if not named or named[-1] in words.stop_words:
        return
    noun = words.lemma(named[-1], "NOUN") or named[-1]
    yield Phrase(words=(noun,), link="", text=noun)
    for word in named[:-1]:
        yield Phrase(words=(word,), link=_IS, text=word)


def _of_segment(link: str, tokens: list[str]) -> Iterator[Phrase]:
    """The phrase and, where it has several words, its last one alone."""
    words = lexicon()
    named = [token for token in tokens if token not in words.determiners]
    if not named or not link or len(named) > _LONGEST or named[-1] in words.stop_words:
        return
    key = (*named[:-1], words.lemma(named[-1], "NOUN") or named[-1])
    has_article = tokens[0] in ("a", "an")
    text = " ".join([article(named[0]), *named] if has_article else named)
    yield Phrase(words=key, link=link, text=text)
    if len(named) > 1:
        yield Phrase(words=key[-1:], link=link, text=f"{article(named[-1])} {named[-1]}" if has_article else named[-1])


def _with_compounds(named: list[str], words: Lexicon) -> list[str]:
    """Neighbours that are one word with a hyphen put together: "dark skinned" is "dark-skinned"."""
    joined: list[str] = []
    for word in named:
        if joined and f"{joined[-1]}-{word}" in words.rows:
            joined[-1] = f"{joined[-1]}-{word}"
        else:
            joined.append(word)
    return joined


def _counterpart(noun: str) -> str:
    """The other gender's word; "" for a noun without gender."""
    words = lexicon()
    other = "woman" if noun in words.masculine else "man" if noun in words.feminine else ""
    return _COUNTERPARTS.get(noun, other)


def common_form(phrases: Iterable[Phrase]) -> Phrase:
    """Of phrases with the same words, the one that is written most often; the first of equally frequent ones."""
    counts: dict[Phrase, int] = {}
    for phrase in phrases:
        counts[phrase] = counts.get(phrase, 0) + 1
    return max(counts, key=counts.__getitem__)


MAX_CHARACTERS = 100_000  # longest answer that is read; what follows is one rejected line
LONGEST_NAME, LONGEST_SENTENCE = 80, 300  # in characters; a longer one is talk, not an attribute

_INSTRUCTION = """\
I use a text-to-image model to generate pictures of "{concept}". Most show a face with a margin around it, \
so that headwear, and clothing above the chest, can be seen.
List at least {n} visible attributes that may show up as stereotypes of "{concept}" in these pictures. \
A CLIP model will check whether each attribute is present or absent, so write two sentences for each: \
one that says that the attribute is there, and one that says that it is not.
Answer with one attribute per line and nothing else, in this form:
name | sentence for presence | sentence for absence
For example:
glasses | The person is wearing glasses. | The person is not wearing glasses."""

_SIDES = {"positive": r"positive|present|presence|d\+", "negative": r"negative|absent|absence|d-"}
_LABEL = re.compile(
    rf"(?<!\w)(?:(?P<positive>{_SIDES['positive']})|(?P<negative>{_SIDES['negative']}))"
    r"(?:[ _-](?:sentence|statement|description|prompt|caption|example))?(?: ?\([^()]{0,40}\))?[ '\"]*:",
    re.I,
)
_NAME_LABEL = re.compile(r"(?:attribute|name|stereotype|candidate)(?: ?\d+)? ?: ?", re.I)
_MARKS = re.compile(r"(?:[-*+•‣◦–—#]{1,6} |\(?\d{1,3}[.):](?: |(?=\D)))*")
_FLAT_JSON = re.compile(r"\{[^{}]*\}|\[[^\[\]{}]*\]")
_STRUCTURE = re.compile(r"(?:\W|_)*|```\w*|[{\[ ]*[\"']?\w[\w ]*[\"']? ?: ?[\[{]")
_ENDS = (".", "!", "?", "…", "。", "।", "؟")


@dataclass(frozen=True, kw_only=True)
class RejectedLine:
    """A line of an answer that gave no attribute, and why not."""

    line: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What a language model suggested, to be edited by a person before anything is measured with it."""

    # what was understood, in the answer's order; real-world rates are not known (None)
    attributes: tuple[Attribute, ...]
    rejected: tuple[RejectedLine, ...]  # the lines that were not, each with its reason
    answer: str  # the whole text


def candidate_prompt(concept: str, *, n: int = 15) -> str:
    """The instruction that asks a language model for attributes of a concept.

    It says what OASIS's instruction says [dehdashtian2025oasis, A.1.1], for any concept, and asks for one
    line per attribute.

    Raises InvalidInput: for a blank concept, or n below 1.

    >>> candidate_prompt("a doctor").splitlines()[0]
    'I use a text-to-image model to generate pictures of "a doctor". Most show ...'
    """
    subject = " ".join(concept.split())
    if not subject:
        raise InvalidInput(f"the concept is blank; type what the pictures show, got {concept!r}.")
    if n < 1:
        raise InvalidInput(f"n must be at least 1 attribute; got {n}.")
    return _INSTRUCTION.format(concept=subject, n=n)


def propose_candidates(
    concept: str, language_model: "LanguageModel", *, n: int = 15, max_new_tokens: int = 1500
) -> Candidates:
    """Ask ``language_model`` for attributes of ``concept`` [dehdashtian2025oasis, Eq. 2] and read its answer.

    Returns
    -------
    Candidates : for a person to check: a model's list is itself full of stereotypes, and of mistakes.

    Raises InvalidInput: for a blank concept, or n below 1.
    """
    return parse_candidates(language_model.complete(candidate_prompt(concept, n=n), max_new_tokens))


def parse_candidates(answer: str) -> Candidates:
    r"""Read (attribute, positive sentence, negative sentence) from whatever a language model wrote.

    Understood are rows with ``|``, tabs or semicolons, Markdown tables and lists, "Positive:" and
    "Negative:" labels, and JSON; numbering, bullets, quotes and code fences are taken off. Any text gives
    an answer: what is not understood, has no negative sentence, or was said before, is in ``rejected``.

    >>> found = parse_candidates("Sure!\n1. turban | The person wears a turban. | The person has no hat.")
    >>> found.attributes[0].name, found.attributes[0].negative
    ('turban', 'The person has no hat.')
    >>> found.rejected
    (RejectedLine(line='Sure!', reason='no sentence for presence or absence'),)
    """
    reading = _Reading()
    for line in _FLAT_JSON.sub(_json_to_rows, answer[:MAX_CHARACTERS]).splitlines():
        reading.read(line)
    reading.close(last=True)
    if rest := answer[MAX_CHARACTERS:].strip():
        reading.reject(rest[:LONGEST_SENTENCE], f"after the first {MAX_CHARACTERS:,} characters")
    return Candidates(attributes=tuple(reading.attributes), rejected=tuple(reading.rejected), answer=answer)


@dataclass(kw_only=True)
class _Draft:
    """An attribute in the making. ``labelled``: its sentences come with labels, so bare lines are remarks."""

    name: str
    line: str
    indent: int = 0
    numbered: bool = False
    labelled: bool = False
    positive: str = ""
    negative: str = ""


class _Reading:
    """Reads an answer line by line; at most one draft is open."""

    def __init__(self) -> None:
        self.attributes: list[Attribute] = []
        self.rejected: list[RejectedLine] = []
        self._draft: _Draft | None = None
        self._earlier: set[str] = set()

    def read(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        tabs = line.strip().split("\t")
        plain = " ".join(line.replace("**", "").replace("__", "").split())
        if _STRUCTURE.fullmatch(plain):
            return
        body = _MARKS.sub("", plain, count=1)  # it matches the beginning, if with nothing
        mark, draft = plain.removesuffix(body), self._draft
        numbered = any(c.isdigit() for c in mark)
        cells = [part.strip() for part in tabs] if len(tabs) > 1 else _cells(body)
        labels = list(_LABEL.finditer(body))
        if len(cells) > 1 and not labels:
            self._row(cells, plain)
        elif labels:
            self._labelled(body, labels, plain, indent)
        elif draft is not None and (indent > draft.indent or (draft.numbered and mark and not numbered)):
            # A line below a heading: the two sentences come without labels, the positive one first.
            if draft.labelled or draft.negative:
                self.reject(plain, "a remark, or the rest of a broken line")
            elif draft.positive:
                draft.negative = body
            else:
                draft.positive = body
        else:
            self._open(_NAME_LABEL.sub("", body, count=1), plain, indent=indent, numbered=numbered)

    def reject(self, line: str, reason: str) -> None:
        self.rejected.append(RejectedLine(line=line, reason=reason))

    def close(self, *, last: bool = False) -> None:
        """Make an attribute of the open draft, or say why not; the last one may have been cut off."""
        draft, self._draft = self._draft, None
        if draft is None:
            return
        name, positive, negative = (_clean(draft.name).rstrip(": "), _clean(draft.positive), _clean(draft.negative))
        name = name or positive.rstrip(".")[:LONGEST_NAME]
        cut_off = last and positive.endswith(_ENDS) and not negative.endswith(_ENDS)
        reason = _fault(name, positive, negative) or ("half a sentence" if cut_off else "")
        keys = {name.casefold(), f"{positive}\n{negative}".casefold()}
        if not reason and keys & self._earlier:
            reason = "said before"
        if reason:
            self.reject(draft.line, reason)
            return
        self._earlier |= keys
        self.attributes.append(Attribute(name=name, positive=positive, negative=negative))

    def _open(self, name: str, line: str, *, indent: int = 0, numbered: bool = False) -> _Draft:
        self.close()
        self._draft = _Draft(name=name, line=line, indent=indent, numbered=numbered)
        return self._draft

    def _row(self, cells: Sequence[str], line: str) -> None:
        """A line with everything in it: (number), name, positive, negative."""
        if len(cells) > 3 and not re.search(r"[^\W\d]", cells[0]):
            cells = cells[1:]
        if _is_heading(cells):
            return
        draft = self._open(cells[0], line)
        draft.labelled, draft.positive, draft.negative = True, cells[1], " ".join(cells[2:3])

    def _labelled(self, body: str, labels: Sequence[re.Match[str]], line: str, indent: int) -> None:
        """A line like "Positive: ...", perhaps with a name before it or both sentences in it."""
        draft = self._draft
        if (name := body[: labels[0].start()].strip(" {\"'-–—(,")) or draft is None:
            draft = self._open(_NAME_LABEL.sub("", name, count=1), line, indent=indent)
        for label, end in zip(labels, [*(label.start() for label in labels[1:]), len(body)], strict=True):
            side = "positive" if label["positive"] else "negative"
            if getattr(draft, side):  # the next attribute has no heading of its own
                draft = self._open("", line, indent=indent)
            setattr(draft, side, body[label.end() : end])
        draft.labelled = True


def _json_to_rows(match: re.Match[str]) -> str:
    """A JSON object or list without nesting as a row of cells; what is no attribute stays as it is."""
    try:
        value: Any = yaml.load(match[0], Loader=yaml.BaseLoader)  # strings only; single quotes will do
    except yaml.YAMLError:
        return match[0]
    if isinstance(value, list):
        cells = value if len(value) == 3 else []
    else:
        cells = _json_cells(value) if isinstance(value, dict) else []
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return match[0]
    return "\n" + " | ".join(" ".join(cell.replace("|", "/").split()) for cell in cells) + "\n"


def _json_cells(value: dict[Any, Any]) -> list[Any]:
    """Name, positive and negative, by the keys; empty where no key names a side."""
    sides = dict.fromkeys(_SIDES, "")
    names = []
    for key, entry in value.items():
        side = next((side for side, words in _SIDES.items() if re.match(words, str(key), re.I)), None)
        if side:
            sides[side] = entry
        else:
            names.append(entry)
    return [(names or [""])[0], *sides.values()] if any(sides.values()) else []


def _cells(body: str) -> list[str]:
    """The cells of a row; a line without separators is one cell."""
    if "|" in body:
        return [cell.strip() for cell in body.strip("| ").split("|")]
    cells = [cell.strip() for cell in body.split(";")]
    return cells if len(cells) == 3 else [body]


def _is_heading(cells: Sequence[str]) -> bool:
    """Whether the row names the columns of a table."""
    last = [cell.casefold() for cell in cells[1:3]]
    return (
        len(last) == 2
        and bool(re.search(r"\b(?:positive|presen)", last[0]) and re.search(r"\b(?:negative|absen)", last[1]))
        and all(len(cell.split()) <= 4 and not cell.endswith(_ENDS) for cell in last)
    )


def plain_line(line: str) -> str:
    """A line of an answer without its number or bullet, quotes and emphasis, and its full stop."""
    return _clean(_MARKS.sub("", " ".join(line.split()), count=1)).rstrip(".")


def _clean(text: str) -> str:
    """Without quotes, emphasis, control characters and stray separators around it."""
    shown = "".join(c if c.isprintable() else " " for c in text.replace("**", "").replace("`", ""))
    text = " ".join(shown.split()).strip(" \"'“”‘’«»*_,;|[]{}")
    return text if "(" in text else text.removesuffix(")")


def _fault(name: str, positive: str, negative: str) -> str:
    """Why the three texts are no attribute; empty where they are one."""
    if not positive or not negative:
        missing = " or ".join(
            side for side, sentence in (("presence", positive), ("absence", negative)) if not sentence
        )
        return f"no sentence for {missing}"
    if positive.casefold() == negative.casefold():
        return "both sentences are the same"
    if len(name) > LONGEST_NAME or max(len(positive), len(negative)) > LONGEST_SENTENCE:
        return "too long for an attribute"
    return ""
