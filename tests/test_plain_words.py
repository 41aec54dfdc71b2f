"""Sentences begin with what they say, and use no idiom that has to be read twice."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bias_core"
RIDDLE = re.compile(r"(?:Of|What|Whether|Who|Whom|Whose|Which|Where|How|From)\b(?!.*\?$)")
IDIOM = re.compile(
    r"\bas \w+ \w+ has it\b|\bis said\b|\bbeside\b|\bhangs? on\b|\b(?:no|some)body\b|\bwhoever\b|\bwhat is there\b"
    r"|\bthe one that\b|\btold apart\b|\bof one's own\b",
    re.I,
)
HELP = {"help", "info", "label", "placeholder", "title"}  # keyword arguments that people read
MOST_IDIOMS = 25  # left on purpose


def sources(*folders):
    """Paths and syntax trees of the modules of these folders, by default of the package."""
    paths = [path for folder in folders or ("bias_core",) for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path, ast.parse(path.read_text())) for path in paths]


def texts_of(tree):
    """Every text of a module that is no key, and of each f-string its parts."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
    ]


def docstrings(tree):
    """Every text that stands as a statement, so also those below a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def help_texts(tree):
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            given = [one.value for one in call.keywords if one.arg in HELP]
            if isinstance(call.func, ast.Name) and call.func.id in ("setting", "option"):
                given += call.args
            yield from (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))


def pages():
    """The files of sentences."""
    yamls = [
        path for folder in ("bias_core", "validation", "assets/studies") for path in (ROOT / folder).rglob("*.yaml")
    ]
    return [
        *PACKAGE.rglob("*.html"),
        *yamls,
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/walks").glob("*.md"),
        ROOT / "README.md",
    ]


def test_docstrings_and_help_texts_begin_with_what_they_say():
    found = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path, tree in sources("bias_core", "training", "validation", "scripts", "bench", "tests")
        for text in (*docstrings(tree), *help_texts(tree))
        if RIDDLE.match(text)
    ]
    assert len(found) <= 2, "\n".join(found)  # a placeholder that names a source, and a label in a test


def test_no_idiom_has_to_be_read_twice():
    texts = [(path, text) for path, tree in sources() for text in texts_of(tree)]
    texts += [(path, line) for path in pages() for line in path.read_text().splitlines()]
    found = [f"{path.relative_to(ROOT)}: {idiom[0]}" for path, text in texts for idiom in IDIOM.finditer(text)]
    assert len(found) <= MOST_IDIOMS, "\n".join(found)
