"""Every text that a page is built with, cut as ``static/language.js`` cuts it: whole sentences, texts, attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt

_LEFT_OUT = {"svg", "math", "code", "pre", "script", "style", "textarea"}
_SENTENCES = {"p", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "h4", "summary", "figcaption", "label", "legend"}
_INLINE = {"a", "abbr", "b", "br", "code", "em", "i", "kbd", "small", "span", "strong", "sub", "sup"}
_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-label")
_VOID = {"br", "hr", "img", "input", "meta", "path", "circle", "rect", "line", "use", "wbr"}
_TRANSLATED = ("label", "info", "placeholder")
_BUTTONS = ("button", "downloadbutton", "uploadbutton", "loginbutton")


@dataclass
class _Element:
    tag: str
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    children: list[_Element | str] = field(default_factory=list)

    @property
    def is_left_out(self) -> bool:
        named = dict(self.attributes)
        is_math = "math" in (named.get("class") or "").split()
        return self.tag in _LEFT_OUT or is_math or "lang" in named or named.get("translate") == "no"

    def inner_html(self) -> str:
        return "".join(escape(one, quote=False) if isinstance(one, str) else one.html() for one in self.children)

    def html(self) -> str:
        named = "".join(f' {name}="{escape(value or "")}"' for name, value in self.attributes)
        return f"<{self.tag}{named}>" + ("" if self.tag in _VOID else f"{self.inner_html()}</{self.tag}>")

    def is_inline(self) -> bool:
        return all(isinstance(one, str) or (one.tag in _INLINE and one.is_inline()) for one in self.children)

    def is_sentence(self) -> bool:
        texts = [one for one in self.children if isinstance(one, str) and one.strip()]
        return self.tag in _SENTENCES and 0 < len(texts) < len(self.children) and self.is_inline()

    def texts(self, is_known: Callable[[str], bool] = lambda _text: True) -> Iterator[str]:
        """Its texts; a sentence with tags is one text, or where it is not known as a whole the texts within."""
        if self.is_left_out:
            return
        yield from (value for name, value in self.attributes if name in _ATTRIBUTES and value)
        if self.is_sentence() and is_known(" ".join(self.inner_html().split())):
            yield self.inner_html()
            return
        for child in self.children:
            yield from ([child] if isinstance(child, str) else child.texts(is_known))


class _Tree(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = _Element("root")
        self._open = [self.root]
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = _Element(tag, attrs)
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in [one.tag for one in self._open]:
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def texts_of_html(html: str, is_known: Callable[[str], bool] = lambda _text: True) -> list[str]:
    """The texts of a piece of markup that hold a word; a sentence with tags that is not known is cut at its tags.

    >>> texts_of_html('<div><p>One <b>two</b>.</p><i title="note">three</i> <code>four</code></div>')
    ['One <b>two</b>.', 'note', 'three']
    """
    plain = (" ".join(text.split()) for text in _Tree(html).root.texts(is_known))
    return [text for text in plain if re.search(r"[^\W\d_]{2}", text)]


def texts_of(component: dict[str, Any]) -> list[str]:
    """The texts of a component as the page's configuration has it."""
    kind, props = component["type"], component["props"]
    if kind in ("api", "state"):  # nobody sees them
        return []
    shown = [props.get(name) for name in _TRANSLATED]
    shown += [props.get("value")] if kind in _BUTTONS else []
    shown += [one[0] for one in props.get("choices") or [] if isinstance(one, (list, tuple))]
    shown += props.get("headers") or []
    texts = [text for one in shown if isinstance(one, str) for text in texts_of_html(escape(one, quote=False))]
    if isinstance(props.get("value"), str) and kind in ("html", "markdown"):
        value = props["value"]
        texts += texts_of_html(MarkdownIt().render(value) if kind == "markdown" else value)
    return texts
