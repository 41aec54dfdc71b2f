"""Hooks of the site: its pages are the repository's own files, and pages made of code; formulas become MathML.

A page stands where its file stands, so that a relative link works on a hub and on the site alike.
"""

import html
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

import bias_core
from bias_core.app.cli import load_all
from bias_core.installed import COMMAND
from bias_core.measures.cards import METRICS
from bias_core.values import declared_settings
from bias_core.wording import format_formula

ROOT = Path(__file__).parent.parent
NOTEBOOK = "docs/first_steps.ipynb"
# What packages of others subclass or fill in.
FOR_PACKAGES = (
    "bias_core.study.study.Study", "bias_core.study.types.Shot", "bias_core.study.types.Finding",
    "bias_core.measures.cards.Card", "bias_core.types.Estimate", "bias_core.protocols",
)  # fmt: skip
_COMMENT = re.compile(r"^.*?(?:^ *|  )# (?!fmt:|noqa|type:)(.*)$")
_SECTION = re.compile(r"^(Parameters|Attributes|Returns|Yields|Raises)\n-+\n.*?(?=^\w[\w ]*\n---|\Z)", re.M | re.S)
_ENTRY = re.compile(r"^(\S.*?) : (.*)$", re.M)  # of a section: a name and its sentence, where NumPy has a type
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)
_CONSOLE = re.compile(r"^( *)```console\n(?:\1(?:\$ .*|  +.*)\n)+\1```$", re.M)  # without output: to be copied whole
_EXAMPLES = re.compile(r"^Examples:\n((?:  .*\n)+)", re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of ``docs/`` by the repository's pages, at their own places, and add pages made of code."""
    docs = Path(config.docs_dir)
    kept = [file for file in files if file.src_dir != config.docs_dir]  # the theme's
    model_cards = (path for path in ROOT.glob("assets/**/README.md") if "templates" not in path.parts)
    others = (ROOT / name for name in ("CITATION.cff", "assets/refs.bib", "assets/studies/CREDITS.md"))
    pages = [*ROOT.glob("*.md"), *docs.rglob("*"), *model_cards, *others]
    own = {path.relative_to(ROOT).as_posix(): path for path in pages if path.is_file()}
    made = {
        NOTEBOOK.replace(".ipynb", ".md"): _notebook_page(json.loads(own.pop(NOTEBOOK).read_text(encoding="utf-8"))),
        "api/python.md": _python_page(),
        "api/measures.md": _measures_page(),
        "api/packages.md": _packages_page(),
        "api/command_line.md": _command_line_page(),
    }
    return Files(
        [
            *kept,
            *(File.generated(config, place, abs_src_path=str(path)) for place, path in own.items()),
            *(File.generated(config, place, content=text) for place, text in made.items()),
        ]
    )


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links to the notebook, and names of functions, to their pages; drop the prompts of commands."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    markdown = _CONSOLE.sub(lambda block: block[0].replace("$ ", "").replace("console", "bash", 1), markdown)
    markdown = re.sub(r"^- Function: `(.*?)`", r"- Function: [`\1`][\1]", markdown, flags=re.M)
    return markdown.replace("first_steps.ipynb)", "first_steps.md)")


def on_page_content(content: str, **_: Any) -> str:
    """Replace formulas in TeX by MathML, which browsers show without a script."""
    return _FORMULA.sub(_formula_in_mathml, content)


def _formula_in_mathml(formula: re.Match[str]) -> str:
    mathml = format_formula(html.unescape(formula[2]), is_block=formula[1] == "div")
    return f'<{formula[1]} class="arithmatex">{mathml}</{formula[1]}>'


class PlainDocstrings(griffe.Extension):
    """Reads docstrings as they are written here, and gives fields a setting's help, or the comment at the field."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Set the text of an object."""
        if isinstance(obj, griffe.Attribute) and not obj.docstring and isinstance(obj.parent, griffe.Class):
            obj.docstring = griffe.Docstring(_describe_field(obj, obj.parent), parent=obj)
        elif obj.docstring:
            text = _SECTION.sub(lambda section: _ENTRY.sub(r"\1\n    \2", section[0]), obj.docstring.value)
            obj.docstring.value = _ROLE.sub(r"`\1`", text).replace("P*", r"P\*")


def _describe_field(attr: griffe.Attribute, kind: griffe.Class) -> str:
    if not any("settings_class" in str(decorator.value) for decorator in kind.decorators):
        return _comment_at(attr)
    setting = declared_settings(getattr(import_module(kind.module.path), kind.name)).get(attr.name)
    if not setting:
        return ""
    attr.value = repr(setting.default)
    return setting.help


def _comment_at(attr: griffe.Attribute) -> str:
    """Return the comment behind a field, else the lines of comment above it."""
    lines = attr.lines_collection[attr.filepath]
    if behind := _COMMENT.match(lines[attr.endlineno - 1]):
        return behind[1]
    above = []
    for line in reversed(lines[: attr.lineno - 1]):
        if not line.lstrip().startswith("# "):
            break
        above.insert(0, line.strip(" #"))
    return " ".join(above)


def _notebook_page(notebook: dict[str, Any]) -> str:
    """Return a notebook's cells and outputs as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            if "text" in output:
                parts.append("```text\n" + "".join(output["text"]) + "```")
            elif picture := output["data"].get("image/png"):
                parts.append(f"![Figure](data:image/png;base64,{picture})")
    return "\n\n".join(parts)


def _python_page() -> str:
    places = [f"{bias_core.__name__}.{bias_core._DOOR[name]}.{name}" for name in bias_core.__all__]  # noqa: SLF001
    return _objects_page("Python", "Import these names from `bias_core`.", places)


def _measures_page() -> str:
    functions = dict.fromkeys(f"{card.function.__module__}.{card.function.__name__}" for card in METRICS.values())
    text = "Each measure is a function of arrays. [The reference](../docs/measures.md) says what they tell."
    return _objects_page("Measures", text, list(functions))


def _packages_page() -> str:
    text = (
        "A package of your own adds studies and measures by entry points "
        "([how](../docs/programs.md#a-study-of-your-own-as-a-package)). It uses these classes."
    )
    return _objects_page("For packages", text, FOR_PACKAGES)


def _objects_page(title: str, text: str, places: tuple[str, ...] | list[str]) -> str:
    return "\n\n".join([f"# {title}", text, *(f"::: {place}" for place in places)])


def _command_line_page() -> str:
    """Return the help of all commands."""
    command = load_all()
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="t2i-bias")
    text = text.replace(f"{COMMAND} ", "t2i-bias ").replace("# `t2i-bias`", "# Command line", 1)
    return _EXAMPLES.sub(lambda match: "```console\n" + match[1].replace("  t2i", "$ t2i") + "```\n", text)
