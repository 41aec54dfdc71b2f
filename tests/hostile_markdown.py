"""Words that would load, link, run or break something where they were read as Markdown, and what a page loads."""

import re
from html.parser import HTMLParser

HOSTILE_WORDS = (
    "![x](http://evil.example/x.png)", "![x](//evil.example/x)", "![](data:image/png;base64,AAAA)", "![x][1]", "![1]",
    "[click](http://evil.example)", "[click](javascript:alert(1))", "[click](evil)", "[click][x]", "[click][]", "[x]",
    "[1]: http://evil.example", "[x]: /evil 'title'", "[x]:evil", "[^1]", "[^1]: note", "x](http://evil.example) [y",
    "x](evil) ![y](evil", "](evil)", "[a[1, 2](evil)", "![1, 2](evil)", "[1, 2][x]", "[82, 96](evil)",
    "[82, 96]: evil", "<http://evil.example>", "<evil@evil.example>", "<mailto:evil@evil.example>",
    "<javascript:alert(1)>", "http://evil.example", "https://evil.example/a_b_c?d=*e*", "HTTP://EVIL.EXAMPLE",
    "www.evil.example", "WWW.evil.example", "ftp://evil.example", "(http://evil.example)", "*http://evil.example*",
    "xhttp://evil.example", "//evil.example", "evil.example", "évil.example", "evil@evil.example",
    "mailto:evil@x.example", "xmpp:evil@x.example", "@evil", "http://evil.example/`x`www.evil.example",
    "http://evil.example|www.evil.example", "http://evil.example\\|x", "http://evil.example[1]http://evil.example",
    "`http://evil.example", "`<img src=x>`", "``x`http://evil.example``",
    '<img src="http://evil.example/x" onerror="alert(1)">', "<script>alert(1)</script>", "<iframe src=//evil.example>",
    "<script/src=//evil.example/x></script>", "<a href=evil>x</a>", "<!-- x", "<![CDATA[ x", "<?php x", "<!X",
    "</div><style>@import 'http://evil.example'</style>", "&lt;img src=x&gt;", "&#x3C;img src=x&#62;", "&amp;lt;",
    "&copy;", "\\<img src=x>", "\\`x`", "\\", "\\\\", "\\[x](evil)", "!\\[x](evil)",
    "\\(\\href{http://evil.example}{x}\\)", "$\\href{http://evil.example}{x}$", "$$x$$", "*x*", "**x**", "_x_",
    "__x__", "a_b_c", "~~x~~", "~x~", "`x`", "``", "```", "| x | y |", "x|y", "x \\| y", "# x", "## x #", "x #", "> x",
    "- x", "+ x", "* x", "- [ ] x", "1. x", "1) x", "123456789. x", "---", "===", "***", "___", "- - -", "--- | ---",
    ": x", "    x", "\tx", "x\n# y", "x\n\n![y](http://evil.example)", "x\r\r[y]: http://evil.example", "x\x0b\x0c# y",
    "x\u2028# y", "x\x85# y", "x\n---\ny: z", "---\nx: y\n---", "x  \ny", "\x00<img src=x>", "{{ 7 * 7 }}",
    "{% raw %}", "<% x %>", "{#x}", ":smile:", "=x", "\u202e<img src=x>",
)  # fmt: skip


_MARKS = {"script", "iframe", "style", "object", "em", "s", "del", "hr", "sup"}


class Page(HTMLParser):
    """Everything that a page loads, links to, runs or marks up, and its text; GitHub's automatic links, too."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self._in_code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_code += tag in ("code", "pre")
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href") or name.startswith("on")]
        self.loaded += [tag] * (tag in _MARKS)

    def handle_endtag(self, tag: str) -> None:
        self._in_code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        self.text += data
        if not self._in_code:
            self.loaded += re.findall(r"\S*(?:://|www\.|@\w|mailto:|\w\.example)\S*", data, flags=re.IGNORECASE)


def in_plain_blanks(text: str) -> str:
    """Text with one blank between words."""
    return " ".join(text.replace("\0", " ").split())
