"""Texts of others in Markdown: they are shown as they are, and become no image, link, tag, heading or emphasis.

As CommonMark, GitHub and the Hugging Face hub read Markdown. A word that some of them would take for an address is
shown as code, for no other way of writing it keeps all of them from making a link of it.
"""

import re

# Numbers in brackets, as intervals are written, unless something follows that would make a link of them.
_INTERVAL = re.compile(r"(\[[−–+\-\d.,\s∞%]{1,80}\](?![\[(:]))")
_WORD = re.compile(r"([\s`|<>\\]+)")  # between words; these are never in code
_ADDRESS = re.compile(r"//|www\.|@|mailto:|xmpp:|[^\W_]\.[^\W\d_]{2}", re.IGNORECASE)
_SPECIAL = {
    **{character: f"\\{character}" for character in "*~$[]|"},
    "`": "&#96;",  # beside the backticks of code, a backslash would not do
    "\\": "&#92;",  # a backslash before it, as in "\(", would begin a formula on the hub
    "<": "&lt;",
}
_TABLE = str.maketrans(_SPECIAL)
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # within a word it is no emphasis
_ENTITY = re.compile(r"&(?=#?\w+;)")
_HASH = re.compile(r"(?<!\S)#")
_LEADING = re.compile(r"(?:[-+](?=\s|$)|[-=+]+$|>|:)")  # of a line: a list, a rule, a quotation
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def in_markdown(text: object) -> str:
    r"""Text on one line, for a paragraph, a heading, an item of a list, a cell of a table or the words of a link.

    >>> in_markdown("91 % [82, 96]"), in_markdown("![x](http://evil.example)")
    ('91 % [82, 96]', '`![x](http://evil.example)`')
    >>> in_markdown("<b>a|b</b>\n# *c*"), in_markdown("1. d_e _f_")
    ('&lt;b>a\\|b&lt;/b> \\# \\*c\\*', '1\\. d_e \\_f\\_')
    """
    line = " ".join(str(text).replace("\0", " ").split())
    parts = _INTERVAL.split(line)  # every second one is an interval
    written = "".join(part if i % 2 else "".join(map(_word, _WORD.split(part))) for i, part in enumerate(parts))
    if _LEADING.match(written):
        written = f"\\{written}"
    return _NUMBERED.sub(r"\1\\\2", written, count=1) if _NUMBERED.match(written) else written


def _word(word: str) -> str:
    if _ADDRESS.search(word):
        return f"`{word}`"
    return _HASH.sub(r"\\#", _UNDERSCORE.sub(r"\\_", _ENTITY.sub("&amp;", word).translate(_TABLE)))


def paragraphs(text: str) -> str:
    """Paragraphs, each as :func:`in_markdown` has it."""
    return "\n\n".join(filter(None, map(in_markdown, re.split(r"\n\s*\n", text))))


def as_code(text: object) -> str:
    """Text on one line as code; as words where it has a bar, which would end a cell of a table."""
    line = " ".join(str(text).split())
    if "|" in line:
        return in_markdown(line)
    fence = _fence(line, 1)
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def fenced(text: str, language: str = "") -> str:
    """A block of code."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _fence(text: str, shortest: int) -> str:
    """Backticks that do not occur in a text."""
    return "`" * max(shortest, 1 + max(map(len, re.findall("`+", text)), default=0))
