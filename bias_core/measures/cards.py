"""Cards of measures: name, source, interpretation and limits.

Each file of this folder ends with the cards of its measures, ``CARDS``; so do modules that installed packages name
(:data:`bias_core.settings.MEASURES`). ``METRICS`` has them all by key.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from operator import attrgetter
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal, cast, get_args

from bias_core.errors import InvalidInput, StorageError
from bias_core.installed import ASSETS, MEASURES, load_installed

METRICS: "Mapping[str, Card]"

# fmt: off
InputKind = Literal[
    "embeddings", "direction", "similarities", "probability", "probabilities", "score", "counts", "words",
    "labels", "ratings", "answers", "velocity", "table", "place",
    "readings", "levels",
]
# fmt: on
BIBLIOGRAPHY = ASSETS / "refs.bib"
_PAIRED: tuple[InputKind, ...] = ("similarities", "words", "answers")
_ENTRY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),\n(?P<body>.*?)^\}", re.S | re.M)
_FOLD = re.compile(r"\n\s*(?!\s*(?:\w+\s*=|$))")  # where a field goes on in the next line
_KEY = re.compile(r"\b[a-z]+\d{4}\w*")  # of a work, in a text
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?\s*$", re.M)
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_LETTERS = {r"{\`a}": "à", r"{\H o}": "ő", "{": "", "}": "", "--": "–"}
_LETTER = re.compile("|".join(map(re.escape, _LETTERS)))
_VENUES = ("booktitle", "journal", "howpublished", "publisher")
_AUTHORS_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Input:
    """One array or number that a measure takes."""

    name: str  # of the parameter
    # embeddings `(n, d)`, direction `(d,)`, similarities `(n,)` in [-1, 1], probability in [0, 1], probabilities `(n,)`
    # in [0, 1], score: one mean cosine in [-2, 2], counts `(k,)` >= 0, words: one collection of words per image,
    # labels: a data frame of perceived genders, ratings `(n_items, n_raters)`, answers: of one rater, `(n_items,)`,
    # velocity: an array of any shape or a batch of them, table: a data frame with a row per model, place: one number
    # for the position of an association between its poles, -1 and 1, readings `(n, k)` of 0 and 1, levels `(k,)` >= 0:
    # pictures of each class of a scale
    kind: InputKind
    means: str  # content, in words
    paired: str = ""  # name of the input that has the same n, entry by entry; "" where n is free


def takes(**inputs: str) -> tuple[Input, ...]:
    """Inputs by the names of a function's parameters, in their order, each as "kind: what it holds".

    Two of a kind that has an entry per image (similarities, words), or per item (answers), are paired. InvalidInput
    for an unknown kind.

    >>> [(entry.kind, entry.paired) for entry in takes(a="answers: of one rater", b="answers: of the other")]
    [('answers', 'b'), ('answers', 'a')]
    """
    texts = {name: text.split(": ", 1) for name, text in inputs.items()}
    if unknown := {kind for kind, _ in texts.values()} - set(get_args(InputKind)):
        raise InvalidInput(f"no kind of input is called {', '.join(unknown)}")

    def other(name: str, kind: str) -> str:
        return next(
            (candidate for candidate in texts if candidate != name and texts[candidate][0] == kind and kind in _PAIRED),
            "",
        )

    return tuple(
        Input(name=name, kind=cast("InputKind", kind), means=means, paired=other(name, kind))
        for name, (kind, means) in texts.items()
    )


@dataclass(frozen=True, kw_only=True)
class Term:
    """A symbol that pages and reports use, in words."""

    symbol: str
    words: str  # can replace it within a sentence
    says: str = ""  # explanation, in a sentence; "": the summary of its card
    also: tuple[str, ...] = ()  # other names that texts give it before the symbol


@dataclass(frozen=True, kw_only=True)
class Card:
    """Description of one measure, for readers and for the common tests."""

    function: Callable[..., Any]  # computes it
    name: str  # to be shown
    summary: str  # one sentence: what it tells
    source: str  # key in `refs.bib` and number there: "vice2023tbyb, Eq. 3".
    bounds: tuple[float, float]  # smallest and largest value; infinite where there is none
    null_value: float | None  # value without bias; None if no value means that
    higher_means: str  # reading of a larger value
    inputs: tuple[Input, ...]  # in the order of the function's parameters, see takes
    limits: str  # one sentence on what it cannot say
    # attribute of the function's result that holds it, dotted where that is an Estimate's value; "" where the result is
    # the value (or values)
    field: str = ""
    tex: str = ""  # formula in TeX; "" for a measure that has none
    symbols: str = ""  # sentences on symbols of the formula that inputs do not explain, with TeX between $
    key: str = ""  # identifier; that of the function where nothing else is given
    terms: tuple[Term, ...] = ()  # its symbols, and those of what it is made of

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.function.__name__)

    @property
    def reference(self) -> str:
        """Key in ``refs.bib``."""
        return self.source.partition(", ")[0]

    @property
    def equation(self) -> str:
        """Number in the source."""
        return self.source.partition(", ")[2]

    @property
    def name_in_reports(self) -> str:
        """The name, with the words that reports show for its symbol in brackets if they differ."""
        symbol_words = [term.words for term in self.terms if self.name.endswith(f" {term.symbol}")]
        return (
            f"{self.name}{''.join(f' ({words})' for words in symbol_words if words.lower() not in self.name.lower())}"
        )

    def value(self, *inputs: Any, **options: Any) -> Any:
        """Return the measure alone, without the function's other results."""
        result = self.function(*inputs, **options)
        return attrgetter(self.field)(result) if self.field else result


@dataclass(frozen=True, kw_only=True)
class GlossaryEntry:
    """Symbol, and the measure that explains it on its card."""

    symbol: str
    words: str
    says: str  # a sentence on what it is
    reads: str  # value without bias, and what higher means; "" for what is no measure of its own
    measure: str  # key of the card
    names: tuple[str, ...]  # texts after which the words would only repeat them


def glossary() -> tuple[GlossaryEntry, ...]:
    """Return every symbol of the cards once.

    >>> {entry.symbol: entry.words for entry in glossary()}["STS"]
    'stereotype test score'
    """
    entries = []
    for card in _all_cards().values():
        for term in card.terms:
            null = "No value means “no bias”" if card.null_value is None else f"Value without bias: {card.null_value:g}"
            reads = "" if term.says else f"{null}; higher: {card.higher_means[:1].lower()}{card.higher_means[1:]}"
            name = card.name.removesuffix(term.symbol).strip().lower()
            noun = re.split(" of | beyond ", term.words)[0].split()[-1]  # as in “the share P”
            entries.append(
                GlossaryEntry(
                    symbol=term.symbol,
                    words=term.words,
                    says=term.says or card.summary,
                    reads=reads,
                    measure=card.key,
                    names=tuple(filter(None, dict.fromkeys((term.words.lower(), name, noun, f"{noun}s", *term.also)))),
                )
            )
    return tuple(entries)


@cache
def _symbols() -> tuple[Mapping[str, GlossaryEntry], re.Pattern[str]]:
    entries = {entry.symbol: entry for entry in glossary()}
    names = "|".join(map(re.escape, sorted(entries, key=len, reverse=True)))
    return entries, re.compile(rf"(, | \()?(?<![\w*/.-])({names})(?![\w′*(/-])(\))?")


def spell_out_symbols(text: str) -> str:
    """Return a chart's label with words in place of symbols, or without a symbol that only repeats its words.

    >>> spell_out_symbols("gap P − P*"), spell_out_symbols("share of pictures, P")
    ('gap share of the pictures − reference rate', 'share of pictures')
    >>> spell_out_symbols("diffusion bias δ"), spell_out_symbols("dall-e-3")
    ('diffusion bias', 'dall-e-3')
    """
    entries, pattern = _symbols()

    def words(found: re.Match[str]) -> str:
        lead, symbol, tail = found[1] or "", found[2], found[3] or ""
        before, entry = text[: found.start()].rstrip().lower(), entries[symbol]
        is_aside = (lead == " (" and tail) or (lead == ", " and found.end() == len(text))
        if is_aside and re.search("[a-z]{4}", before):
            return ""
        repeats = before.endswith(entry.names) and re.search(rf"\b(?:{'|'.join(map(re.escape, entry.names))})$", before)
        return lead + ("" if repeats else entry.words) + tail

    return " ".join(pattern.sub(words, text).split())


def __getattr__(name: str) -> Mapping[str, Card]:
    if name != "METRICS":  # the files of this folder import this one: they are read when they are asked for
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return _all_cards()


@cache
def _all_cards() -> Mapping[str, Card]:
    """Cards of all files in this folder and of installed packages, by source and number of the equation."""
    folder, package = str(Path(__file__).parent), __name__.rpartition(".")[0]
    modules = [import_module(f"{package}.{entry.name}") for entry in iter_modules([folder])]
    cards: list[Card] = [card for module in modules for card in getattr(module, "CARDS", ())]
    own_keys = {card.key for card in cards}
    cards += [card for installed in _installed_measures() for card in installed.cards if card.key not in own_keys]
    cards.sort(
        key=lambda card: (
            card.reference,
            not card.equation.startswith("Eq."),
            re.sub(r"\d+", lambda number: number[0].zfill(4), card.equation),
        )
    )
    return {card.key: card for card in cards}


@dataclass(frozen=True, kw_only=True)
class _InstalledMeasures:
    """Measures of an installed package, and the works in the ``refs.bib`` of its folder."""

    cards: Sequence[Card]
    works: "Mapping[str, Reference]"


@cache
def _installed_measures() -> Sequence[_InstalledMeasures]:
    return [*load_installed(MEASURES, _load_measures).values()]


def _load_measures(entry: EntryPoint) -> _InstalledMeasures:
    """Return an entry point's measures; StorageError without cards, or for a source that no bibliography has."""
    module = entry.load()
    bibliography = Path(module.__file__).with_name(BIBLIOGRAPHY.name)
    works = read_references(bibliography) if bibliography.is_file() else {}
    cards: Sequence[Card] = tuple(module.CARDS)
    if not cards:
        raise StorageError(f"{module.__name__}.CARDS is empty")
    if unknown := {card.reference for card in cards} - {*works, *read_references(BIBLIOGRAPHY)}:
        raise StorageError(f"no {BIBLIOGRAPHY.name} has the source {', '.join(sorted(unknown))}")
    return _InstalledMeasures(cards=cards, works=works)


def metric(key: str) -> Card:
    """Return the card with this key.

    Raises InvalidInput: if there is none; the message lists the keys.

    >>> metric("stereotype_score").null_value
    0.0
    """
    if key not in (cards := _all_cards()):
        raise InvalidInput(f"No measure is called {key!r}; there are {', '.join(cards)}.")
    return cards[key]


def cards_markdown(cards: Iterable[Card]) -> str:
    """Return one page with every card, grouped by source, for the documentation and the command line."""
    by_source: dict[str, list[str]] = {}
    for card in cards:
        by_source.setdefault(card.reference, []).extend(["", *card_lines(card)])
    head = ["# The measures", "", "Written by `python -m bias_core measures --markdown`; sources in `refs.bib`."]
    groups = (["", f"## {work(source)}", *lines] for source, lines in by_source.items())
    return "\n".join([*head, *(line for group in groups for line in group), ""])


def card_lines(card: Card) -> list[str]:
    """Return the Markdown lines of one card."""
    low, high = (f"{end:g}".replace("-inf", "−∞").replace("inf", "∞") for end in card.bounds)
    null = "none" if card.null_value is None else f"{card.null_value:g}"
    inputs = "; ".join(f"`{entry.name}`, {entry.means}" for entry in card.inputs)
    function = f"{card.function.__module__}.{card.function.__name__}"
    return [
        *(f"### {card.name}", "", card.summary, ""),
        *((f"$${card.tex}$$", "") if card.tex else ()),
        *((card.symbols, "") if card.symbols else ()),
        f"- Range: {low} to {high}; value without bias: {null}; higher: {card.higher_means}.",
        f"- Source: {with_works([card.source])[0]}.",
        f"- Input: {inputs}.",
        f"- Limits: {card.limits}",
        f"- Function: `{function}`" + (f", its `{card.field}`." if card.field else "."),
    ]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One work of ``refs.bib``, formatted for readers."""

    key: str  # in `refs.bib`
    short: str  # names and year, as in a text
    # authors, year, title, venue: as printed; `venue` "" where it is not known
    authors: str
    year: str
    title: str
    venue: str
    url: str  # "" where no address is known
    bibtex: str  # the entry as it stands in the file


@cache
def load_references() -> Mapping[str, Reference]:
    """Read every work of the program's bibliography and of installed measures, by key.

    Raises StorageError: the file cannot be read.
    """
    installed_works = [installed.works for installed in _installed_measures()]
    return {key: entry for works in (*installed_works, read_references(BIBLIOGRAPHY)) for key, entry in works.items()}


def read_references(path: Path) -> Mapping[str, Reference]:
    """Read every work of a bibliography by key. Raises StorageError: the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot read the bibliography {path}: {error}") from error
    return {entry["key"]: _reference(entry) for entry in _ENTRY.finditer(text)}


def work(key: str) -> str:
    """Authors and year of a work of the bibliography.

    >>> work("vice2023tbyb"), work("elsewhere")
    ('Vice et al. 2023', 'elsewhere')
    """
    works = load_references()
    return works[key].short if key in works else key


def with_works(texts: Sequence[str]) -> list[str]:
    """Replace the keys of the bibliography in texts by authors and year.

    >>> with_works(["bls2024 (2024) as Table 14 of wan2024pst prints it"])
    ['U.S. Bureau of Labor Statistics 2024 (2024) as Table 14 of Wan and Chang 2024 prints it']
    """
    return [_KEY.sub(lambda found: work(found[0]), text) for text in texts]


def _reference(entry: re.Match[str]) -> Reference:
    written = _FIELD.findall(_FOLD.sub(" ", entry["body"]))
    fields = {name: _LETTER.sub(lambda match: _LETTERS[match[0]], value) for name, value in written}
    people = [person.partition(", ") for person in fields["author"].split(" and ")]
    names, year = [last for last, _, _ in people], fields["year"]
    shown = [_with_initials(last, first) for last, _, first in people[:_AUTHORS_SHOWN]]
    number = fields.get("eprint") or "".join(_ARXIV.findall(fields.get("journal", ""))[:1])
    venue = next((fields[name] for name in _VENUES if name in fields), "")
    volume, issue, pages = (fields.get(k, "") for k in ("volume", "number", "pages"))
    where = f"{venue} {volume}" if volume else venue
    return Reference(
        key=entry["key"],
        short=f"{names[0]} et al. {year}" if len(names) > 2 else f"{' and '.join(names)} {year}",
        authors=", ".join(shown) + (" et al." if len(people) > _AUTHORS_SHOWN else ""),
        year=year,
        title=fields["title"],
        venue=where + (f"({issue})" if issue else "") + (f", {pages}" if pages else ""),
        url=f"https://arxiv.org/abs/{number}" if number else "",
        bibtex=entry[0],
    )


def _with_initials(last: str, first: str) -> str:
    """Chang, Kai-Wei -> K.-W. Chang."""
    return " ".join([*("-".join(f"{part[0]}." for part in name.split("-")) for name in first.split()), last])
