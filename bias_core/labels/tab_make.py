"""Making a labelling task: which pictures, what is asked of them, and which of them check attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.tasks import MAX_JOINS, PICTURE, Task, association_task, checked_choices, own_task, pst_task
from bias_core.errors import InvalidInput
from bias_core.labels.sources import (
    candidates,
    gold_from_lines,
    gold_from_record,
    gold_lines,
    kind_of,
    recorded_answers,
    sample_of,
    task_pictures,
)
from bias_core.labels.view import note
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.running.history import list_runs, open_run
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.study.form import as_number, as_text, as_whole
from bias_core.ui.study.open import when
from bias_core.ui.study.study_tab import QUIET, Updates
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.annotation.task_owner import TaskPicture
    from bias_core.annotation.tasks import TaskKind
    from bias_core.services import Services
    from bias_core.studies.kit.types import StudyReport

READY = note("ready")
KINDS: Mapping[TaskKind, str] = {
    "pst_paired": "Perceived gender of two people, left and right",
    "pst_single": "Perceived gender of one person",
    "association": "Which of two words a picture is closer to",
    "own": "A question of your own",
}
TEXTS = {"title": "Title", "instructions": "Instructions", "consent": "Consent", "content_note": "Note on content"}
# Usual value, label and explanation, and what a message calls it.
_NUMBERS = {
    "n": (0, "How many pictures", "0: all; else at random", "number of pictures"),
    "raters": (3, "Raters for each picture", "Three give a majority", "number of raters"),
    "n_gold": (0, "Attention checks", "At random, of those on record", "number of attention checks"),
    "seed": (0, "Seed", "Of what is random", "seed"),
}
_JOINS = {
    "joins_per_address": ("Raters an hour from one address", "A class or an office shares one"),
    "joins_per_hour": ("Raters an hour in all", "Who joins over the link"),
}
_WORDS = ("who", "a", "b", "question", "answers")
_WORDS_OF_KIND: Mapping[str, Sequence[TaskKind]] = {
    "who": ("pst_paired", "pst_single"),
    **dict.fromkeys(("a", "b"), ("association",)),
    **dict.fromkeys(("question", "answers"), ("own",)),
}
FIELDS = ("source", "kind", *_NUMBERS, "share", *_WORDS, "gold", *TEXTS)
_OF_A_CHECK = ("kind", "a", "b", "question", "answers", "gold")  # fields
_MOST_PREVIEWED = 120
_MOST_POSITIONS = 2
_SAMPLE = {"a": "a", "b": "b", "question": "?", "answers": "a\nb"}  # makes a task of any kind


@dataclass(frozen=True, kw_only=True)
class Order:
    """A task and its pictures, as the form has them."""

    task: Task
    pictures: Sequence[TaskPicture]


class LabelMaking:
    """The form of a new task: ``form`` has its components by name, ``parts`` those that mark checks."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.form: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.status: Any = None

    # Layout.

    def build(self) -> None:
        """The components."""
        form = self.form
        with gr.Row():
            form["source"] = gr.Dropdown(
                [], label="Pictures of this run", elem_id="label-source", min_width=280,
                info="Yours to choose from; bring your own pictures in Runs",
            )  # fmt: skip
            form["kind"] = gr.Dropdown(
                [(title, kind) for kind, title in KINDS.items()], value="pst_paired", label="What is asked",
                info="The papers' questions, or your own", elem_id="label-kind", min_width=280,
            )  # fmt: skip
        form["found"] = gr.HTML(elem_classes="quiet", elem_id="label-found")
        self._build_words()
        with gr.Row():
            for name, (value, label, info, _) in _NUMBERS.items():
                if name == "seed":
                    form["share"] = _share_box()
                form[name] = gr.Number(value, label=label, info=info, precision=0, minimum=0, min_width=140)
        with gr.Accordion("What raters read", open=False, elem_classes="more", elem_id="label-texts"):
            form |= build_texts()
        self._build_checks()

    def _build_words(self) -> None:
        """What some kinds of tasks need to know."""
        form = self.form
        with gr.Row():
            form["who"] = gr.Textbox(
                "", label="Whom they show", info="Empty: whom the run or its prompts name, else “person”",
                max_length=80, elem_id="label-who", min_width=300,
            )  # fmt: skip
            form["a"] = gr.Textbox("pleasant", label="First word", max_length=80, visible=False)
            form["b"] = gr.Textbox("unpleasant", label="Second word", max_length=80, visible=False)
            form["question"] = gr.Textbox(
                "", label="Question", max_length=300, visible=False, elem_id="label-question", min_width=300
            )
            form["answers"] = gr.Textbox(
                "yes\nno\ncannot tell", label="Answers, one a line", lines=3, visible=False,
                elem_id="label-answers",
            )  # fmt: skip

    def _build_checks(self) -> None:
        """The pictures of the chosen run, one that is pressed, and the list of right answers."""
        parts, form = self.parts, self.form
        parts["picked"] = gr.State(0)
        with gr.Accordion(
            "Pictures, and attention checks of your own", open=False, elem_classes="more",
            elem_id="label-checks",
        ):  # fmt: skip
            gr.HTML(note("checks"))
            form["preview"] = gr.Gallery(
                format="png", columns=10, height="auto", object_fit="contain", label="Pictures",
                show_label=False, allow_preview=False, buttons=[], elem_id="label-preview",
                elem_classes="grid", interactive=False,
            )  # fmt: skip
            parts["says"] = gr.HTML(elem_id="label-picked")
            with gr.Column(visible=False, elem_id="label-marking") as parts["marking"]:
                with gr.Row():
                    parts["said"] = [
                        gr.Radio([], label="Right answer", min_width=260, elem_id=f"label-right-{i}")
                        for i in range(_MOST_POSITIONS)
                    ]
                with gr.Row(elem_classes="tools"):
                    small: dict[str, Any] = {"size": "sm", "scale": 0}
                    parts["mark"] = gr.Button("Mark as a check", min_width=180, elem_id="label-mark", **small)
                    parts["unmark"] = gr.Button("Not a check", min_width=140, **small)
            form["gold"] = gr.Textbox(
                "", label="Right answers", info="One picture a line, as 4: feminine, masculine", lines=2,
                elem_id="label-gold",
            )  # fmt: skip

    def inputs(self) -> list[Any]:
        """The form's components, in the order of ``FIELDS``."""
        return [self.form[name] for name in FIELDS]

    def source_outputs(self) -> list[Any]:
        """Everything that another source changes."""
        own = [self.form[name] for name in ("source", "kind", "found", "preview", "gold", *_WORDS, *TEXTS)]
        return [*own, *(self.parts[name] for name in ("marking", "says", "picked")), self.status]

    def wire(self, visitor: Any, status: Any) -> None:
        """The events; ``status`` is where the tab says what went wrong."""
        form, parts, self.status = self.form, self.parts, status
        outputs = self.source_outputs()
        form["source"].focus(self.on_sources, visitor, form["source"], **QUIET)
        form["source"].input(self.on_source, [visitor, form["source"]], outputs, **QUIET)
        inputs = [visitor, form["source"], form["kind"], form["a"], form["b"]]
        form["kind"].input(self.on_kind, inputs, outputs, **QUIET)
        for word in ("a", "b"):
            form[word].blur(self.on_words, inputs, [form["found"], form["preview"]], **QUIET)
        inputs = [form[name] for name in _OF_A_CHECK]
        outputs = [parts["picked"], parts["says"], parts["marking"], *parts["said"]]
        form["preview"].select(self.on_pick, [visitor, form["source"], *inputs], outputs, **QUIET)
        inputs, outputs = [parts["picked"], *inputs], [form["gold"], parts["says"]]
        parts["mark"].click(self.on_mark, [*inputs, *parts["said"]], outputs, **QUIET)
        parts["unmark"].click(self.on_mark, inputs, outputs, **QUIET)

    # Handlers.

    def on_sources(self, visitor: Visitor) -> Any:
        """The visitor's runs, newest first."""
        return gr.update(choices=self._sources(visitor))

    def on_source(self, visitor: Visitor, run_id: str | None) -> Updates:
        """What such a run is usually asked, and its pictures."""
        with user_errors() as problem:
            kind, words = _usual_question(self.report(visitor, run_id))
            updates = self.on_kind(visitor, run_id, kind, words.get("a", ""), words.get("b", ""))
            updates |= {self.form[name]: gr.update(value=word, visible=True) for name, word in words.items()}
            return updates | {self.form["kind"]: kind, self.status: READY}
        return {self.status: messages.error_html(problem.message)}

    def on_kind(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The texts and words of another kind of task, and its pictures; what was marked is forgotten."""
        form, parts = self.form, self.parts
        updates: Updates = {form["gold"]: "", parts["says"]: "", parts["picked"]: 0}
        updates[parts["marking"]] = gr.update(visible=False)
        updates |= {form[name]: text for name, text in usual_texts(kind).items()}
        updates |= {form[name]: gr.update(visible=kind in kinds) for name, kinds in _WORDS_OF_KIND.items()}
        return updates | self.on_words(visitor, run_id, kind, a, b)

    def on_words(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The pictures that suit this kind and these words, with their numbers."""
        found, preview = self.form["found"], self.form["preview"]
        with user_errors() as problem:
            words = {"a": as_text(a), "b": as_text(b)}
            pictures = candidates(self.report(visitor, run_id), kind, words=(words["a"], words["b"]))
            task = _task(kind, _SAMPLE | words)
            n_recorded = sum(bool(recorded_answers(one, task)) for one in pictures)
            text = f"{len(pictures):,} pictures of this run can be asked about."
            text += f" Of {n_recorded:,} the right answer is on record." if n_recorded else ""
            captions = [" · ".join([str(p.number), *filter(None, p.identities.values())]) for p in pictures]
            shown = [(str(p.path), caption) for p, caption in zip(pictures, captions, strict=True)]
            return {found: note("line", text), preview: shown[:_MOST_PREVIEWED]}
        return {found: note("line", problem.message), preview: []}

    def on_pick(self, visitor: Visitor, run_id: str | None, event: gr.SelectData, *values: Any) -> Updates:
        """Ask for the right answer of a picture that was pressed; what is known of it is filled in.

        ``values`` are of the fields ``_OF_A_CHECK``.
        """
        parts = self.parts
        with user_errors() as problem:
            task, words, gold = _check_form(values)
            pictures = candidates(self.report(visitor, run_id), task.kind, words=(words["a"], words["b"]))
            place = as_whole(event.index, "picture's place")
            if not 0 <= place < len(pictures):
                raise InvalidInput("these pictures have changed: choose the run again")
            one = pictures[place]
            recorded = recorded_answers(one, task)
            identities = [*filter(None, one.identities.values())]
            answers = gold.get(one.number) or recorded
            return {
                parts["picked"]: one.number, parts["marking"]: gr.update(visible=True),
                parts["says"]: render(
                    "label_picture", number=one.number, identities=identities, on_record=bool(recorded)
                ),
                **dict(zip(parts["said"], _radios(task, answers), strict=True)),
            }  # fmt: skip
        return {parts["says"]: messages.error_html(problem.message), parts["marking"]: gr.update(visible=False)}

    def on_mark(self, number: int, *values: Any) -> Updates:
        """Put a picture with its right answer on the list; without an answer, take it off.

        ``values`` are of the fields ``_OF_A_CHECK``, then an answer for each position.
        """
        with user_errors() as problem:
            task, _, gold = _check_form(values)
            answers = values[len(_OF_A_CHECK) :]
            number = as_whole(number, "picture's number")
            gold.pop(number, None)
            if answers:
                choices = {p: answer for p, answer in zip(task.positions, answers, strict=False) if answer}
                gold[number] = checked_choices(task, choices)
            text = f"Picture {number} {'is a check now' if answers else 'is no check'}; "
            text += f"{len(gold):,} marked in all."
            return {self.form["gold"]: gold_lines(gold), self.parts["says"]: messages.done_html(text)}
        return {self.parts["says"]: messages.error_html(problem.message)}

    # For other parts of the page.

    def labelling(self, visitor: Visitor, run_id: str) -> Updates:
        """The form as if this run had been chosen in it."""
        source = gr.update(choices=self._sources(visitor), value=run_id)
        return {self.form["source"]: source} | self.on_source(visitor, run_id)

    def order(self, visitor: Visitor, values: Sequence[Any]) -> Order:
        """The task that the form asks for, with its pictures; InvalidInput where it cannot be made."""
        form = dict(zip(FIELDS, values, strict=True))
        return _order(self.report(visitor, form["source"]), form)

    def report(self, visitor: Visitor, run_id: str | None) -> StudyReport:
        """A run of this visitor."""
        if not run_id:
            raise InvalidInput("choose one of your runs; its pictures are what raters will see")
        return open_run(self.services, visitor.key, run_id).report

    def _sources(self, visitor: Visitor) -> list[tuple[str, str]]:
        lines = [line for line in list_runs(self.services, visitor.key) if line.saved]
        return [(f"{line.title} · {line.asked} · {when(line.created)}", line.run_id) for line in lines]


# What of a task can be changed later, too.


def build_texts() -> dict[str, Any]:
    """Boxes for what raters read, by the names of ``TEXTS``."""
    return {
        name: gr.Textbox(label=label, lines=1 if name == "title" else 3, max_lines=12) for name, label in TEXTS.items()
    }


def build_limits() -> dict[str, Any]:
    """Boxes for numbers, in the order of :func:`read_limits`."""
    with gr.Row():
        boxes = {"gold_share": _share_box()}
        for name, (label, info) in _JOINS.items():
            limits: dict[str, Any] = {"precision": 0, "minimum": 1, "maximum": MAX_JOINS, "min_width": 140}
            boxes[name] = gr.Number(getattr(Task, name), label=label, info=info, **limits)
        return boxes


def _share_box() -> Any:
    """How many of the pictures that a rater sees are attention checks."""
    return gr.Number(
        10, label="Checks among the pictures, %", info="Until a rater has seen them all",
        minimum=0, maximum=99, min_width=140,
    )  # fmt: skip


def limits_of(task: Task) -> dict[str, float]:
    """What stands in :func:`build_limits` for this task."""
    return {"gold_share": round(100 * task.gold_share, 4), **{name: getattr(task, name) for name in _JOINS}}


def read_limits(values: Sequence[Any]) -> dict[str, Any]:
    """The fields of a task that :func:`build_limits` asks for; those not given stay as they are."""
    share, *joins = values
    limits = {name: as_whole(n, name.replace("_", " ")) for name, n in zip(_JOINS, joins, strict=False)}
    return {"gold_share": _share(share), **limits}


def usual_texts(kind: TaskKind) -> dict[str, str]:
    """The papers' texts for such a task."""
    task = _task(kind, _SAMPLE)
    return {name: getattr(task, name) for name in TEXTS}


def _share(value: Any) -> float:
    """The form's per cent of attention checks as a share."""
    return as_number(value, "share of attention checks") / 100


# What the form asks for.


def _order(report: StudyReport, form: Mapping[str, Any]) -> Order:
    kind = form["kind"]
    if kind not in tuple(KINDS):
        raise InvalidInput(f"choose what is asked; got {kind!r:.80}")
    numbers = {name: as_whole(form[name], words) for name, (*_, words) in _NUMBERS.items()}
    if (seed := numbers["seed"]) < 0:
        raise InvalidInput(f"the seed is 0 or more; got {seed}")
    words = {name: as_text(form[name]) for name in _WORDS}
    changes: dict[str, Any] = {name: as_text(form[name]) for name in TEXTS}
    changes |= {"raters_per_item": numbers["raters"], "gold_share": _share(form["share"])}
    task = _task(kind, words, changes)
    pictures = candidates(report, kind, words=(words["a"], words["b"]))
    gold = gold_from_lines(as_text(form["gold"]), task)
    if numbers["n_gold"]:
        unmarked = [one for one in pictures if one.number not in gold]
        gold = gold_from_record(unmarked, task, numbers["n_gold"], seed) | gold
    if gold and not task.gold_share:
        raise InvalidInput("attention checks at 0 % of the pictures are never shown: give a share above 0")
    ordinary = sample_of([one for one in pictures if one.number not in gold], numbers["n"], seed)
    shown = {one.number for one in ordinary} | set(gold)
    items = [one for one in pictures if one.number in shown]
    return Order(task=task, pictures=task_pictures(items, task, who=words["who"], gold=gold))


def _task(kind: TaskKind, words: Mapping[str, str], changes: Mapping[str, Any] = {}) -> Task:
    """The task of this kind with these of ``_WORDS``; ``changes`` are other fields of it."""
    if kind == "association":
        return association_task(words["a"], words["b"], **changes)
    if kind == "own":
        answers = [line for line in words["answers"].splitlines() if line.strip()]
        return own_task(words["question"], answers, **changes)
    return pst_task(paired=kind == "pst_paired", **changes)


def _check_form(values: Sequence[Any]) -> tuple[Task, dict[str, str], dict[int, dict[str, str]]]:
    """The task, its words, and the right answers on the list, of the fields ``_OF_A_CHECK``."""
    kind, *texts = values[: len(_OF_A_CHECK)]
    words = dict(zip(_OF_A_CHECK[1:], map(as_text, texts), strict=True))
    task = _task(kind, words)
    return task, words, gold_from_lines(words["gold"], task)


def _radios(task: Task, answers: Mapping[str, str]) -> list[Any]:
    """A question for each position, with what is known of it."""
    choices = [(answer.label, answer.key) for answer in task.answers]
    updates = [
        gr.update(
            label="Right answer" if position == PICTURE else f"Right answer, {position}",
            choices=choices,
            value=answers.get(position),
            visible=True,
        )
        for position in task.positions[:_MOST_POSITIONS]
    ]
    return [*updates, *[gr.update(visible=False, value=None)] * (_MOST_POSITIONS - len(updates))]


def _usual_question(report: StudyReport) -> tuple[TaskKind, dict[str, str]]:
    """What such a run is usually asked, and its words, for the form."""
    kind = kind_of(report)
    words: dict[str, str] = {}
    if kind == "association" and report.pictures is not None:
        tests = {test["key"]: test for test in report.design.data.get("tests", ())}
        first = tests.get(report.pictures["test"].iloc[0] if "test" in report.pictures else "")
        words = {side: str(first[side]) for side in ("a", "b")} if first else {}
    return kind, words
