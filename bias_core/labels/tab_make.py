"""The form of a new labelling task: its pictures, its question, and its attention checks."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.labels.make_task import (
    Candidate,
    candidates,
    choose_task_kind,
    draw_sample,
    gold_from_lines,
    gold_from_record,
    gold_lines,
    recorded_answers,
    task_pictures,
)
from bias_core.labels.tab_demonstration import DemonstrationPart
from bias_core.labels.task_owner import TaskPicture
from bias_core.people import load_scales
from bias_core.run.history import ListedRun, list_runs, open_run
from bias_core.services import Services
from bias_core.study import label_tasks as tasks
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.study.parts import when
from bias_core.ui.study.study_tab import EACH, LATEST, Updates
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor
from bias_core.values import parse_number, parse_whole_number, text_from_value


def add(
    parts: dict[str, Any], rows: Mapping[str, tuple[Any, dict[str, Any]]], *names: str, prefix: str = "label"
) -> None:
    """Build the components ``names`` of the table ``rows`` (name to kind and options); all without names."""
    for name in names or rows:
        kind, options = rows[name]
        parts[name] = kind(**{"elem_id": f"{prefix}-{name}"} | options)


def button(text: str, width: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A table row for a button."""
    return gr.Button, {"value": text, "scale": 0, "min_width": width} | options


def note(name: str, text: str = "") -> str:
    """Render a note of ``label_notes`` by name; ``text`` fills a "line" or "heading"."""
    return render("label_notes", note=name, text=text)


READY = note("ready")
MAKE = {"make": button("Make the task", 200, variant="primary")}
IN_FOUR = "_in_four"
_PAIRED, _ALONE = "Perceived gender of two people, left and right", "Perceived gender of one person"
_THREE = "Perceived gender of three people, left, middle and right"
KINDS: Mapping[str, str] = {
    "pst_paired": f"{_PAIRED}: the paper's three answers",
    "pst_single": f"{_ALONE}: the paper's three answers",
    "pst_three": f"{_THREE}: the paper's three answers",
    f"pst_paired{IN_FOUR}": f"{_PAIRED}: four answers",
    f"pst_single{IN_FOUR}": f"{_ALONE}: four answers",
    f"pst_three{IN_FOUR}": f"{_THREE}: four answers",
    "association": "Which of two words a picture is closer to",
    "skin tone": "Skin tone of one person: ten tones of the Monk scale",
    "age group": "Age group of one person: child, young, old",
    "own": "A question of your own",
}
"""Questions by kind of task, the usual first; "androgynous" and "unclear" of the four answers are ours."""
ORIGINS = {"run": "A run", "own": "My own pictures", "demonstration": "A demonstration"}
"""Sources of the pictures, the usual first."""
TEXTS = ("title", "instructions", "consent", "content_note")
_NUMBERS = {
    "n": "number of pictures",
    "raters": "number of raters",
    "n_gold": "number of attention checks",
    "seed": "seed",
}
"""Whole numbers of the form, with their names in messages."""
_JOINS = ("joins_per_address", "joins_per_hour")
_WORDS: Mapping[str, Sequence[str]] = {
    "who": tuple(kind for kind in KINDS if kind.startswith("pst") or kind in load_scales()),
    **dict.fromkeys(("a", "b"), ("association",)),
    **dict.fromkeys(("question", "answers"), ("own",)),
}
"""Fields of words, with the kinds of tasks that need them."""
FIELDS = ("source", "kind", *_NUMBERS, "share", *_WORDS, "gold", *TEXTS)
_OF_A_CHECK = ("kind", "a", "b", "question", "answers", "gold")  # fields
_SEEN = ("kind", *_WORDS)  # fields that raters see with each picture
_FIRST_SEEN = 2  # pictures of the raters' page, shown before the task is made
_MOST_PREVIEWED = 120
_MOST_POSITIONS = 3  # of people in a picture; Gradio builds all radios beforehand
_USUAL_ANSWERS = "yes\nno\ncannot tell"
_SAMPLE = {"a": "a", "b": "b", "question": "?", "answers": _USUAL_ANSWERS}  # makes a task of any kind

_COUNT = {"precision": 0, "min_width": 140}
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "title": (gr.Textbox, {"label": "Title", "lines": 1, "max_lines": 12}),
    **{name: (gr.Textbox, {"label": label, "lines": 3, "max_lines": 12})
       for name, label in zip(TEXTS[1:], ("Instructions", "Consent", "Note on content"), strict=True)},
    "share": (gr.Number, {
        "value": 10, "label": "Attention checks, % of pictures",
        "info": "Until all checks are seen", "minimum": 0, "maximum": 99, "min_width": 140,
    }),
    **{name: (gr.Number, {"value": getattr(tasks.Task, name), "label": label, "info": info, "minimum": 1,
                          "maximum": tasks.MAX_JOINS, **_COUNT})
       for name, label, info in (
        ("joins_per_address", "New raters per hour and address", "People in one class or office share an address"),
        ("joins_per_hour", "New raters per hour in all", "Raters who join by the link"))},
    **{name: (gr.Textbox, {"label": label, "info": info, "max_length": 40, "max_lines": 1, "min_width": 180})
       for name, label, info in (
        ("completion_code", "Prolific: completion code", "Empty: raters come from elsewhere"),
        ("failed_code", "Prolific: code for failed checks", "For raters with fewer than half of the checks right"),
        ("screened_out_code", "Prolific: code for screened-out raters", "For raters who decline, or get no picture"))},
    "about_rater": (gr.Textbox, {
        "label": "Questions about the rater", "lines": 2, "max_lines": 8, "min_width": 300,
        "info": "One per line, such as: How old are you? 18 to 39 / 40 or older. “Prefer not to say” is added",
    }),
}  # fmt: skip
"""Fields of a task that its owner can change later, too."""
_FORM: dict[str, tuple[Any, dict[str, Any]]] = CHANGES | {
    "origin": (gr.Radio, {
        "choices": [(title, origin) for origin, title in ORIGINS.items()], "value": next(iter(ORIGINS)),
        "label": "Which pictures",
    }),
    "source": (gr.Dropdown, {"choices": [], "label": "Run", "min_width": 280, "info": "One of your runs"}),
    "kind": (gr.Dropdown, {
        "choices": [(title, kind) for kind, title in KINDS.items()], "value": next(iter(KINDS)),
        "label": "Which question",
        "info": "The papers' questions, or your own", "min_width": 280,
    }),
    "found": (gr.HTML, {"elem_classes": "quiet"}),
    "seen": (gr.HTML, {}),
    "who": (gr.Textbox, {
        "label": "People in the pictures",
        "info": "Name in the question; empty: as in the run or its prompts, else “person”",
        "max_length": 80, "min_width": 300,
    }),
    "a": (gr.Textbox, {"value": "pleasant", "label": "First word", "max_length": 80, "visible": False}),
    "b": (gr.Textbox, {"value": "unpleasant", "label": "Second word", "max_length": 80, "visible": False}),
    "question": (gr.Textbox, {"label": "Question", "max_length": 300, "visible": False, "min_width": 300}),
    "answers": (gr.Textbox, {
        "value": _USUAL_ANSWERS, "label": "Answers, one a line", "lines": 3, "visible": False,
    }),
    **{name: (gr.Number, {"value": value, "label": label, "info": info, "minimum": 0, **_COUNT})
       for name, value, label, info in (
        ("n", 0, "Number of pictures", "0: all; else a random sample"),
        ("raters", 3, "How many raters", "For each picture; three allow a majority"),
        ("n_gold", 0, "Attention checks", "Pictures whose right answer is known"),
        ("seed", 0, "Seed", "Seed of the random choices"))},
    "preview": (gr.Gallery, {
        "format": "png", "columns": 10, "height": "auto", "object_fit": "contain", "label": "Pictures",
        "show_label": False, "allow_preview": False, "buttons": [], "elem_classes": "grid", "interactive": False,
        "visible": False,  # until it has pictures: its scripts, which can play films, are half of what a page loads
    }),
    "says": (gr.HTML, {"elem_id": "label-picked"}),
    **{str(i): (gr.Radio, {"choices": [], "label": "Right answer", "min_width": 260, "elem_id": f"label-right-{i}"})
       for i in range(_MOST_POSITIONS)},
    "mark": button("Mark as a check", 180, size="sm"),
    "unmark": button("Not a check", 140, size="sm"),
    "gold": (gr.Textbox, {
        "label": "Right answers", "info": "One picture per line, such as 4: feminine, masculine", "lines": 2,
    }),
}  # fmt: skip


def name_in_menus(run: ListedRun) -> str:
    """The name, choices and time of a run, as the list in Runs has them."""
    return " · ".join(filter(None, (run.name or run.title, run.choices, when(run.updated))))


class LabelMaking:
    """The form of a new task: ``form`` has its components by name, ``parts`` those for attention checks."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.form: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.status: Any = None
        self.demonstration = DemonstrationPart(services)

    def build(self) -> None:
        form, parts = self.form, self.parts
        add(parts, _FORM, "origin")
        with gr.Column(elem_id="label-of-run") as parts["run"]:
            with gr.Row():
                add(form, _FORM, "source", "kind", "raters")
            add(form, _FORM, "found")
            with gr.Row():
                add(form, _FORM, *(name for name in _WORDS if name != "who"))
            add(form, _FORM, "seen")
            self._build_more()
            add(parts, MAKE)
        with gr.Column(visible=False, elem_id="label-own") as parts["own"]:
            gr.HTML(note("own"))
        self.demonstration.build()
        parts["demonstration"] = self.demonstration.box

    def _build_more(self) -> None:
        """The numbers, texts and attention checks that few tasks change."""
        form, parts = self.form, self.parts
        radios: dict[str, Any] = {}
        with gr.Accordion("More options", open=False, elem_classes="more", elem_id="label-more"):
            with gr.Row():
                add(form, _FORM, "who", "n", "n_gold", "share", "seed")
            gr.HTML(note("heading", "Texts for raters"))
            add(form, _FORM, *TEXTS)
            for name, text in usual_texts(next(iter(KINDS))).items():
                form[name].value = text
            gr.HTML(note("heading", "Attention checks of your own"))
            gr.HTML(note("checks"))
            add(form, _FORM, "preview")
            add(parts, _FORM, "says")
            parts["picked"] = gr.State(0)
            with gr.Column(visible=False, elem_id="label-marking") as parts["marking"]:
                with gr.Row():
                    add(radios, _FORM, *map(str, range(_MOST_POSITIONS)))
                with gr.Row(elem_classes="tools"):
                    add(parts, _FORM, "mark", "unmark")
            add(form, _FORM, "gold")
        parts["said"] = list(radios.values())

    def inputs(self) -> list[Any]:
        """The form's components, in the order of ``FIELDS``."""
        return [self.form[name] for name in FIELDS]

    def source_outputs(self) -> list[Any]:
        """All components that depend on the chosen run."""
        form_parts = [
            self.form[name] for name in ("source", "kind", "found", "seen", "preview", "gold", *_WORDS, *TEXTS)
        ]
        return [
            *form_parts,
            *(self.parts[name] for name in ("marking", "says", "picked", "origin", *ORIGINS)),
            self.status,
        ]

    def wire(self, visitor: Any, status: Any) -> None:
        form, parts, self.status = self.form, self.parts, status
        outputs, run = self.source_outputs(), [visitor, form["source"]]
        words, shown = [*run, *(form[name] for name in _SEEN)], [form[name] for name in ("found", "seen", "preview")]
        check = [form[name] for name in _OF_A_CHECK]
        marking = [parts["picked"], parts["says"], parts["marking"], *parts["said"]]
        mark, marked = [parts["picked"], *check], [form["gold"], parts["says"]]
        for event, handler, inputs, changed in (
            (form["source"].focus, self.on_sources, visitor, form["source"]),
            (form["source"].input, self.on_source, [*run, *(form[name] for name in _WORDS)], outputs),
            (form["kind"].input, self.on_kind, words, outputs),
            (parts["origin"].input, self.on_origin, parts["origin"], [parts[name] for name in ORIGINS]),
            (form["preview"].select, self.on_pick, [*run, *check], marking),
            (parts["mark"].click, self.on_mark, [*mark, *parts["said"]], marked),
            (parts["unmark"].click, self.on_mark, mark, marked),
        ):
            event(handler, inputs, changed, **EACH)
        typed = [event for name in _WORDS for event in (form[name].input, form[name].blur)]
        gr.on(typed, self.on_words, words, shown, **LATEST)  # text pasted with the mouse is no input
        self.demonstration.wire()

    def on_origin(self, origin: str) -> Updates:
        return {self.parts[name]: gr.update(visible=name == origin) for name in ORIGINS}

    def on_sources(self, visitor: Visitor) -> Any:
        """List the visitor's runs, newest first."""
        lines = [line for line in list_runs(self.services, visitor.key) if line.saved]
        return gr.update(choices=[(name_in_menus(line), line.run_id) for line in lines])

    def on_shown(self, visitor: Visitor, run_id: str | None) -> Updates:
        """Choose the newest run, with the question that fits it, unless one is chosen."""
        newest = next((line.run_id for line in list_runs(self.services, visitor.key) if line.saved), "")
        chosen = {} if run_id or not newest else self.labelling(visitor, newest)
        return chosen | {self.status: gr.skip()}  # it may say something about the open task

    def on_source(self, visitor: Visitor, run_id: str | None, *typed: Any) -> Updates:
        """Show the usual question for such a run, and its pictures; ``typed`` are the values of ``_WORDS``."""
        with messages.user_errors() as problem:
            kind, words = _usual_question(self.report(visitor, run_id))
            shown = dict.fromkeys(_WORDS, "") | dict(zip(_WORDS, typed, strict=False)) | words
            updates = self.on_kind(visitor, run_id, kind, *shown.values())
            updates |= {self.form[name]: gr.update(value=word, visible=True) for name, word in words.items()}
            return updates | {self.form["kind"]: kind, self.status: READY}
        return {self.status: messages.error_html(problem.message)}

    def on_kind(self, visitor: Visitor, run_id: str | None, kind: Any, *words: Any) -> Updates:
        """Show the texts, words and pictures of another kind of task; forget marked checks.

        ``words`` are the values of ``_WORDS``.
        """
        form, parts = self.form, self.parts
        updates: Updates = {form["gold"]: "", parts["says"]: "", parts["picked"]: 0}
        updates[parts["marking"]] = gr.update(visible=False)
        updates |= {form[name]: text for name, text in usual_texts(kind).items()}
        updates |= {form[name]: gr.update(visible=kind in kinds) for name, kinds in _WORDS.items()}
        return updates | self.on_words(visitor, run_id, kind, *words)

    def on_words(self, visitor: Visitor, run_id: str | None, kind: Any, *words: Any) -> Updates:
        """Show the numbered pictures that suit this kind and these ``_WORDS``, the first as raters will see them."""
        with messages.user_errors() as problem:
            given = {name: text_from_value(word) for name, word in zip(_WORDS, words, strict=False)}
            task = _build_task(kind, _SAMPLE | {name: word for name, word in given.items() if word})
            pair = given.get("a", ""), given.get("b", "")
            pictures = candidates(self.report(visitor, run_id), task.kind, words=pair)
            n_recorded = sum(bool(recorded_answers(picture, task)) for picture in pictures)
            text = f"People can label {len(pictures):,} pictures of this run."
            text += f" Ground truth is known for {n_recorded:,}." if n_recorded else ""
            captions = [" · ".join([str(p.number), *filter(None, p.identities.values())]) for p in pictures]
            shown = [(str(p.path), caption) for p, caption in zip(pictures, captions, strict=True)]
            return {
                self.form["found"]: note("line", text),
                self.form["preview"]: gr.update(value=shown[:_MOST_PREVIEWED], visible=bool(shown)),
                self.form["seen"]: seen_html(task, pictures, given.get("who", "")),
            }
        empty_preview = gr.update(value=[], visible=False)
        return {
            self.form["found"]: note("line", problem.message),
            self.form["preview"]: empty_preview,
            self.form["seen"]: "",
        }

    def on_pick(self, visitor: Visitor, run_id: str | None, event: gr.SelectData, *values: Any) -> Updates:
        """Ask for the right answer of a picture, with a known answer filled in; ``values`` are of ``_OF_A_CHECK``."""
        parts = self.parts
        with messages.user_errors() as problem:
            task, words, gold = _check_form(values)
            pictures = candidates(self.report(visitor, run_id), task.kind, words=(words["a"], words["b"]))
            if not 0 <= (place := parse_whole_number(event.index, "picture's place")) < len(pictures):
                raise InvalidInput("these pictures have changed: choose the run again")
            candidate, recorded = pictures[place], recorded_answers(pictures[place], task)
            picture = {"number": candidate.number, "identities": [*filter(None, candidate.identities.values())]}
            return {
                parts["picked"]: candidate.number,
                parts["marking"]: gr.update(visible=True),
                parts["says"]: render("label_picture", on_record=bool(recorded), **picture),
                **dict(zip(parts["said"], _radios(task, gold.get(candidate.number) or recorded), strict=True)),
            }
        return {parts["says"]: messages.error_html(problem.message), parts["marking"]: gr.update(visible=False)}

    def on_mark(self, number: int, *values: Any) -> Updates:
        """Mark a picture as a check, or without answers unmark it; ``values``: of ``_OF_A_CHECK``, then the answers."""
        with messages.user_errors() as problem:
            task, _, gold = _check_form(values)
            answers = values[len(_OF_A_CHECK) :]
            number = parse_whole_number(number, "picture's number")
            gold.pop(number, None)
            if answers:
                choices = {p: answer for p, answer in zip(task.positions, answers, strict=False) if answer}
                gold[number] = tasks.checked_choices(task, choices)
            text = f"Picture {number} {'is a check now' if answers else 'is not a check'}; "
            text += f"{len(gold):,} marked in all."
            return {self.form["gold"]: gold_lines(gold), self.parts["says"]: messages.done_html(text)}
        return {self.parts["says"]: messages.error_html(problem.message)}

    def labelling(self, visitor: Visitor, run_id: str) -> Updates:
        origin = {self.parts["origin"]: "run"} | self.on_origin("run")
        return (
            origin
            | {self.form["source"]: self.on_sources(visitor) | {"value": run_id}}
            | self.on_source(visitor, run_id)
        )

    def report(self, visitor: Visitor, run_id: str | None) -> StudyReport:
        if not run_id:
            raise InvalidInput("choose one of your runs; raters will see its pictures")
        return open_run(self.services, visitor.key, run_id).report

    def order(self, visitor: Visitor, values: Sequence[Any]) -> tuple[tasks.Task, Sequence[TaskPicture]]:
        """The task that the form asks for, with its pictures; InvalidInput if it cannot be made."""
        form = dict(zip(FIELDS, values, strict=True))
        report, kind = self.report(visitor, form["source"]), form["kind"]
        if kind not in tuple(KINDS):
            raise InvalidInput(f"choose a question to raters; got {kind!r:.80}")
        numbers = {name: parse_whole_number(form[name], words) for name, words in _NUMBERS.items()}
        if (seed := numbers["seed"]) < 0:
            raise InvalidInput(f"the seed must be 0 or more; got {seed}")
        words = {name: text_from_value(form[name]) for name in _WORDS}
        changes = read_changes([form[name] for name in (*TEXTS, "share")])
        task = _build_task(kind, words, changes | {"raters_per_item": numbers["raters"]})
        pictures = candidates(report, task.kind, words=(words["a"], words["b"]))
        gold = gold_from_lines(text_from_value(form["gold"]), task)
        if numbers["n_gold"]:
            unmarked = [picture for picture in pictures if picture.number not in gold]
            gold = gold_from_record(unmarked, task, numbers["n_gold"], seed) | gold
        if gold and not task.gold_share:
            raise InvalidInput("attention checks at 0 % of the pictures are never shown: give a share above 0")
        ordinary = draw_sample([picture for picture in pictures if picture.number not in gold], numbers["n"], seed)
        shown = {picture.number for picture in ordinary} | set(gold)
        items = [picture for picture in pictures if picture.number in shown]
        return task, task_pictures(items, task, identity=words["who"], gold=gold)


def seen_html(task: tasks.Task, pictures: Sequence[Candidate], identity: str = "") -> str:
    """The first pictures with the question and the answers that raters will see; "" without pictures."""
    first = task_pictures(pictures[:_FIRST_SEEN], task, identity=identity)
    pages = [(picture.path, [*task.questions_about(picture).items()]) for picture in first]
    return render("label_seen", pages=pages, answers=task.answers) if pages else ""


def change_form(task: tasks.Task) -> dict[str, Any]:
    special = {"share": round(100 * task.gold_share, 4), "about_rater": tasks.about_rater_lines(task.about_rater)}
    return {name: special[name] if name in special else getattr(task, name) for name in CHANGES}


def read_changes(values: Sequence[Any]) -> dict[str, Any]:
    """The changed fields of a task, from the form's ``CHANGES``; others stay."""
    given = dict(zip(CHANGES, values, strict=False))
    changes: dict[str, Any] = {name: text_from_value(given[name]) for name in TEXTS}
    changes["gold_share"] = parse_number(given["share"], "share of attention checks") / 100
    changes |= {name: text_from_value(given[name]) for name in tasks.CROWD_CODES if name in given}
    if "about_rater" in given:
        changes["about_rater"] = tasks.about_rater_from_lines(text_from_value(given["about_rater"]))
    return changes | {name: parse_whole_number(given[name], name.replace("_", " ")) for name in _JOINS if name in given}


def usual_texts(kind: str) -> dict[str, str]:
    task = _build_task(kind, _SAMPLE)
    return {name: getattr(task, name) for name in TEXTS}


def _build_task(kind: str, words: Mapping[str, str], changes: Mapping[str, Any] = {}) -> tasks.Task:
    """A task of one of ``KINDS`` with these ``_WORDS``; ``changes`` are its other fields."""
    if kind == "association":
        return tasks.association_task(words["a"], words["b"], **changes)
    if kind in load_scales():
        return tasks.scale_task(kind, **changes)
    if kind == "own":
        return tasks.own_task(words["question"], list(filter(str.strip, words["answers"].splitlines())), **changes)
    looks: tasks.Looks = "four" if kind.endswith(IN_FOUR) else "two"
    if kind.startswith("pst_three"):
        return tasks.three_task(looks, **changes)
    return tasks.pst_task(paired=kind.removesuffix(IN_FOUR) == "pst_paired", looks=looks, **changes)


def _check_form(values: Sequence[Any]) -> tuple[tasks.Task, dict[str, str], dict[int, dict[str, str]]]:
    """The task, its words, and the listed right answers, from the fields ``_OF_A_CHECK``."""
    kind, *texts = values[: len(_OF_A_CHECK)]
    words = dict(zip(_OF_A_CHECK[1:], map(text_from_value, texts), strict=True))
    task = _build_task(kind, _SAMPLE | words)
    return task, words, gold_from_lines(words["gold"], task)


def _radios(task: tasks.Task, answers: Mapping[str, str]) -> list[Any]:
    """Radio buttons for each position, with its known answer."""
    choices = [(answer.label, answer.key) for answer in task.answers]
    positions, hidden = task.positions[:_MOST_POSITIONS], gr.update(visible=False, value=None)
    labels = ["Right answer" if p == tasks.PICTURE else f"Right answer, {p}" for p in positions]
    shown = [
        gr.update(label=label, choices=choices, value=answers.get(position), visible=True)
        for label, position in zip(labels, positions, strict=True)
    ]
    return [*shown, *[hidden] * (_MOST_POSITIONS - len(shown))]


def _usual_question(report: StudyReport) -> tuple[str, dict[str, str]]:
    """The usual kind of task for such a run, with its words."""
    kind = choose_task_kind(report)
    if kind != "association" or report.pictures is None or "test" not in report.pictures:
        return kind, {}
    first = report.pictures["test"].iloc[0]
    tests = [test for test in report.design.data.get("tests", ()) if test["key"] == first]
    return kind, {side: str(test[side]) for test in tests for side in ("a", "b")}
