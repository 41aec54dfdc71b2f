"""Every text that the raters' page shows by itself: markup, script, refusals, tasks as the program words them."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

from bias_core.annotation import rating
from bias_core.annotation.tasks import Task, association_task, own_task, pst_task, scale_task
from bias_core.labels.api import PAGE

# What stands in a sentence, by the value that label.js or a refusal puts there.
_VALUES = {"error": "too many requests; wait a second", "said": "", "word": "paused"}
_PLACE = re.compile(r"\$\{(?:[^{}]|\{[^}]*\})*\}")
_READS_LIKE_TEXT = re.compile(r"^\W*[A-Z]?[a-z]+,? [a-z0-9]+|^[A-Z][a-z]+\W*$")
_ATTRIBUTES = ("aria-label", "alt", "data-label")


def raters_texts() -> set[str]:
    """These texts, with 1 or 5 where a number stands and a nurse where the picture's identity does."""
    page, script = ((PAGE / name).read_text(encoding="utf-8") for name in ("index.html", "label.js"))
    said = {text for n in (1, 5) for text in _script_texts(script, n)} | _refusals()
    return {*_texts_of_html(page), *said} | {text for task in _tasks() for text in _task_texts(task)}


def _texts_of_html(html: str) -> set[str]:
    """The texts between tags and in attributes that are read aloud, those with a word in them."""
    texts: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
            texts.extend(value for name, value in attrs if name in _ATTRIBUTES and value)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(html)
    return {" ".join(text.split()) for text in texts if re.search(r"[^\W\d_]{2}", text)}


def _tasks() -> list[Task]:
    two_looks = [pst_task(paired=paired) for paired in (True, False)]
    four_looks = [pst_task(paired=paired, looks="four") for paired in (True, False)]
    scales = [scale_task("skin tone"), scale_task("age group")]
    own = [own_task("Does this picture show a rose?", ["yes", "no"]), association_task("yes", "no")]
    return [*two_looks, *four_looks, *scales, *own]


def _task_texts(task: Task) -> set[str]:
    texts = {task.title, task.consent, task.content_note, *task.instructions.split("\n\n")}
    texts |= {question.replace("{}", "nurse") for question in task.questions.values()}
    return texts | {answer.label for answer in task.answers}


def _script_texts(script: str, n: int) -> set[str]:
    """The sentences and words of label.js: what is quoted and reads like text."""
    code = re.sub(r"(?m)(?<!:)//.*$|/\*.*?\*/", "", script)
    quoted = [_PLACE.sub(lambda one: _value(one[0], n), text) for text in re.findall(r"`([^`]*)`", code)]
    quoted += re.findall(r"'([^'\n]*)'", re.sub(r"`[^`]*`", "", code))
    return {
        " ".join(text.split())
        for text in quoted
        if _READS_LIKE_TEXT.search(text.replace(str(n), "n")) and "[" not in text
    }


def _value(code: str, n: int) -> str:
    if counted := re.search(r"count\(.*'(\w+)'\)", code):
        return f"{n} {counted[1]}{'' if n == 1 else 's'}"
    if choice := re.search(r"=== 1 \? '(\w+)' : '(\w+)'", code):
        return choice[1 if n == 1 else 2]
    return next((word for key, word in _VALUES.items() if re.search(rf"\b{key}\b", code)), "7")


def _refusals() -> set[str]:
    """What a rater is told who may not do something: ``NotAllowed`` in the room of raters."""
    source = ast.parse(Path(rating.__file__).read_text(encoding="utf-8"))
    calls = [one for one in ast.walk(source) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    texts = [
        one.args[0] for one in calls if isinstance(one.func, ast.Name) and one.func.id == rating.NotAllowed.__name__
    ]
    return {
        "".join(_literal(part) for part in (text.values if isinstance(text, ast.JoinedStr) else [text]))
        for text in texts
    }


def _literal(part: ast.expr) -> str:
    return (
        str(part.value)
        if isinstance(part, ast.Constant)
        else _value(ast.unparse(part).replace("_STATUS_WORDS", "word"), 5)
    )
