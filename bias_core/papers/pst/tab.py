"""Paired on the page: two people side by side, each with a label that can be corrected in place."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.measures.paired_stereotype import ANDROGYNOUS, ANSWERS, ANSWERS_IN_FOUR, NOT_TWO_PEOPLE, UNCLEAR, UNTOLD
from bias_core.papers.pst.labelling import (
    BY_HAND,
    Answers,
    LabellingOptions,
    Person,
    labelled_people,
    labels_after,
    labels_frame,
    with_answers,
)
from bias_core.papers.pst.study import GENDERS, design_of_two, relabelled
from bias_core.report.commands import to_command, to_python
from bias_core.report.report_text import get_table
from bias_core.study.label_tasks import SINGLE
from bias_core.study.types import Design, StudyReport
from bias_core.ui import messages
from bias_core.ui.messages import EACH, LATEST, QUIET, user_errors
from bias_core.ui.study.panels import Updates
from bias_core.ui.study.paper import Paper
from bias_core.ui.study.pictures import BOXES, numbered_boxes
from bias_core.ui.study.result_page import figures_html, findings_html
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import skip_if_empty
from bias_core.values import declared_settings
from bias_core.wording import format_interval, format_number, format_share

_OCCUPATIONS = "pst-occupations"
# Two labels chosen in quick succession both count, one after the other.
_IN_TURN: dict[str, Any] = EACH | {"queue": True, "concurrency_id": "paired-labels", "concurrency_limit": 1}
PER_PAGE = 12
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
WHICH = {
    "drawn": "All pictures, as drawn",
    "doubtful": "All pictures, doubtful ones first",
    "failed": "Failed: not the people asked for",
    "unclear": "Cannot identify",
    "record": "Different from the ground truth",
    "hand": "Checked by hand",
}
WORDS = {
    "feminine": "feminine",
    "masculine": "masculine",
    "androgynous": "androgynous",
    "unclear": "unclear",
    "cannot_identify": "cannot identify",
}

FAILED = {1: "not one person", 2: "not two people"}
"""The answer for a failed picture, by the number of people asked for."""
_BUTTONS = {"before": "Previous", "after": "Next", "confirm": "This page is right", "undo": "Undo"}
_CHECK = (
    "A classifier cuts out each person and says if they look feminine or masculine. This is about appearance, not "
    "identity. Choose another answer if you disagree: all numbers on this page change at once, and nothing is drawn "
    "again."
)
_OWN = (
    "Any two roles of opposite stereotypes, side by side in both orders and each alone. You choose which role has "
    "which stereotype; the score is relative to your choice."
)
# Names of the settings in the summary.
_NAMES = {"paired": "in pairs", "single": "alone", "fairness": "asked to be fair"}


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """The labels of a run, with a visitor's corrections."""

    drawn: StudyReport  # the report of the run
    steps: tuple[Answers, ...] = ()  # corrections, oldest first; undo removes one at a time
    selection: str = "drawn"  # key of WHICH
    page: int = 0
    version: int = 0  # number of corrections and undos; identifies the page that was shown

    @property
    def answers(self) -> dict[Person, str]:
        """The newest answer for each checked person."""
        return {person: answer for step in self.steps for person, answer in step.items()}

    def people(self) -> pd.DataFrame:
        people = labelled_people(self.drawn)
        return with_answers(people, labels_frame(people, self.answers))[0]

    def report(self) -> StudyReport:
        return relabelled(self.drawn, self.answers) if self.steps else self.drawn

    def correct(self, person: Person, answer: str) -> "Labelling":
        return self._replace_steps((*self.steps, labels_after(self.people(), person, answer)))

    def confirm(self) -> "Labelling":
        people = self.people()
        step = {
            (str(p.image_id), str(p.position)): str(p.perceived_gender)
            for p in people[people["image_id"].isin(self.pictures())].dropna(subset="perceived_gender").itertuples()
        }
        return self._replace_steps((*self.steps, step)) if step else self

    def undo(self) -> "Labelling":
        """Return this without the last step."""
        return self._replace_steps(self.steps[:-1])

    def _replace_steps(self, steps: tuple[Answers, ...]) -> "Labelling":
        return replace(self, steps=steps, version=self.version + 1)

    def turn(self, by: int) -> "Labelling":
        """Return this at another page, if there is one."""
        last = max(0, -(-len(self._chosen()) // PER_PAGE) - 1)
        return replace(self, page=min(max(0, self.page + by), last))

    def pictures(self) -> list[str]:
        return self._chosen()[self.page * PER_PAGE : (self.page + 1) * PER_PAGE]

    def _chosen(self) -> list[str]:
        people = self.people()
        people = people[people["image_id"].isin(list(self.drawn.stored))]  # some pictures of an old run may be deleted
        if self.selection == "doubtful":
            people = people.assign(clear=people["margin"].abs()).sort_values("clear", kind="stable")
        label = people["perceived_gender"]
        mask = {
            "failed": label == NOT_TWO_PEOPLE,
            "unclear": label.isin(UNTOLD),
            "record": people["truth"].notna() & (label != people["truth"]),
            "hand": people["rater"] == BY_HAND,
        }.get(self.selection)
        return list(dict.fromkeys(people["image_id"] if mask is None else people.loc[mask, "image_id"]))

    def place(self) -> str:
        """Return the range of pictures that is shown, and the number of corrections."""
        n, first = len(self._chosen()), self.page * PER_PAGE
        shown = f"Pictures {first + 1} to {min(first + PER_PAGE, n)} of {n:,}." if n else "No such picture."
        hand = self.people().query("rater == @BY_HAND")
        changed = int((hand["perceived_gender"] != hand["automatic"]).sum())
        counted = f"{changed:,} label{'' if changed == 1 else 's'} corrected by hand"
        return f"{shown} {counted}, {len(hand) - changed:,} checked and kept."


def labels_html(labelling: Labelling) -> str:
    """Return the pictures of a page, each with a menu per person."""
    people = labelling.people()
    groups = dict(list(people[people["image_id"].isin(labelling.pictures())].groupby("image_id")))
    boxes, stored = _boxes(labelling.drawn), labelling.drawn.stored
    in_four = people["perceived_gender"].isin((ANDROGYNOUS, UNCLEAR)).any()
    return render(
        "labels_in_place",
        sheets=[
            (
                stored[image_id],
                groups[image_id].to_dict("records"),
                numbered_boxes(boxes.get(image_id), stored[image_id].size),
            )
            for image_id in labelling.pictures()
        ],
        version=labelling.version,
        answers=ANSWERS_IN_FOUR if in_four else ANSWERS,
        words={n: WORDS | {NOT_TWO_PEOPLE: failed} for n, failed in FAILED.items()},
        alone=SINGLE,
        by_hand=BY_HAND,
        small=_SMALL,
    )


def _boxes(report: StudyReport) -> dict[str, object]:
    """Return the boxes of the people in each picture, as text; {} without a finder."""
    frame = report.pictures
    return {} if frame is None or BOXES not in frame else dict(zip(frame["image_id"], frame[BOXES], strict=True))


class Paired(Paper):
    """The paired stereotype test: two people side by side, and the stereotypes of their roles."""

    key: ClassVar = "paired"
    title: ClassVar = "Paired"
    paper: ClassVar = "PST"
    asks: ClassVar = "who fits the stereotype"
    place: ClassVar = 20
    question: ClassVar = "If two people with opposite stereotypes stand side by side, does each match the stereotype?"
    caution: ClassVar = (
        "Labels describe how a person in a picture looks (feminine, masculine or not clearly either), never an "
        "identity. A score of 0 means that people match stereotypes half of the time, not that the pictures are fair."
    )
    studies: ClassVar = (_OCCUPATIONS, "pst-power", "pst-fairness", "pst-swapped")
    also: ClassVar = ("paired_two",)  # of own words
    own_options: ClassVar = tuple(declared_settings(LabellingOptions))

    def build_own(self) -> dict[str, Any]:
        """Build the fields of two identities, their stereotypes and numbers of pictures."""
        fields: dict[str, Any] = {}
        gr.HTML(_OWN, elem_classes="quiet")
        with gr.Row():
            for looks, name in zip(GENDERS, ("CEO", "assistant"), strict=True):
                fields[looks] = gr.Textbox(
                    name, label=f"Stereotyped as {looks}", max_length=80, elem_id=f"paired-{looks}", min_width=180
                )
        with gr.Row():
            fields["n_paired"] = gr.Number(6, label="Pictures per order", precision=0, minimum=1, maximum=400)
            fields["n_single"] = gr.Number(6, label="Pictures of each alone", precision=0, minimum=1, maximum=400)
            fields["fairness"] = gr.Checkbox(True, label="Also ask to be fair", info="“… irrespective of their gender”")
        return fields

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        return design_of_two(
            design if "settings" in design.data else self.designs[_OCCUPATIONS],
            {str(own_values[looks] or ""): looks for looks in GENDERS},
            n_paired=int(own_values["n_paired"] or 0),
            n_single=int(own_values["n_single"] or 0),
            fairness=bool(own_values["fairness"]),
        )

    def own_values(self, design: Design) -> Mapping[str, Any]:
        """Return the fields' values for this design, unless both identities have the same stereotype."""
        names = {looks: name for name, looks in design.data["identities"].items()}
        counts = {"n_paired": design.images_per_prompt, "n_single": design.options["single_images"]}
        return {**names, **counts, "fairness": design.options["fairness"]} if len(names) == len(GENDERS) else {}

    def build_numbers(self) -> dict[str, Any]:
        """Build the summary of the people who could be scored."""
        return {"summary": gr.HTML(elem_id="paired-summary")}

    def show_at_once(self, report: StudyReport) -> Updates:
        """Show the summary of the people who could be scored, in a run of one arm."""
        has_people = self.claims(report.design) and not report.arms
        return {self.at_once["summary"]: summary_html(report) if has_people else ""}

    def build_extra(self) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        with gr.Column(elem_classes="card"):
            gr.HTML(messages.heading_html("Check the labels", _CHECK))
            extra["labelling"] = gr.State(None)
            with gr.Row():
                extra["which"] = gr.Dropdown(
                    [(text, key) for key, text in WHICH.items()], value="drawn", label="Show",
                    elem_id="paired-labels-which", min_width=240,
                )  # fmt: skip
            extra["labels"] = gr.HTML(js_on_load=script("labels_in_place"), elem_id="paired-labels")
            extra["place"] = gr.HTML(elem_classes="quiet", elem_id="paired-labels-place")
            with gr.Row(elem_classes="tools"):
                for key, text in _BUTTONS.items():
                    extra[key] = gr.Button(text, size="sm", scale=0, min_width=110, elem_id=f"paired-labels-{key}")
            gr.HTML(render("labels_take"), elem_id="paired-labels-take")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """Show a new report with the labels of its run."""
        return {self.extra["which"]: "drawn", **self._page(Labelling(drawn=report))}

    def wire_panels(self) -> None:
        """Correct, confirm, undo; choose and turn pages."""
        extra, parts, tab = self.extra, self.page.parts, self.page
        state, page = extra["labelling"], [extra["labelling"], extra["labels"], extra["place"]]
        changed = [
            *page, *self.at_once.values(), *tab.people.outputs(), *tab.later_outputs("details"),
            *(parts[n] for n in ("report", "header", "beside", "plot", "findings", "attributes", "shell")),
            *(parts[n] for n in ("python", "link", "status")),
        ]  # fmt: skip
        extra["labels"].select(self.on_label, state, changed, **_IN_TURN)
        for name, step in (("confirm", Labelling.confirm), ("undo", Labelling.undo)):
            extra[name].click(skip_if_empty(partial(self.on_step, step)), state, changed, **_IN_TURN)
        extra["which"].input(self.on_which, [state, extra["which"]], page, **LATEST)
        for name, by in (("before", -1), ("after", 1)):
            extra[name].click(partial(self.on_turn, by), state, page, **QUIET)

    # Handlers.

    def on_label(self, labelling: Labelling | None, event: gr.EventData) -> Iterator[Updates]:
        """Correct a label; its menu on the page shows it already."""
        with user_errors() as problem:
            if labelling is None:
                problem.message = messages.NOTHING_DONE
            else:
                for updates in self._rescored(
                    labelling.correct((str(event.image), str(event.position)), str(event.answer))
                ):
                    yield {part: value for part, value in updates.items() if part != self.extra["labels"]}
        if problem:
            yield {self.page.parts["status"]: messages.error_html(problem.message)}

    def on_step(self, step: Callable[[Labelling], Labelling], labelling: Labelling | None) -> Iterator[Updates]:
        """Confirm all labels on the page, or undo the last step."""
        if labelling is not None:
            yield from self._rescored(step(labelling))

    def on_which(self, labelling: Labelling | None, selection: str) -> Updates:
        return self._page(replace(labelling, selection=selection, page=0)) if labelling is not None else gr.skip()

    def on_turn(self, by: int, labelling: Labelling | None) -> Updates:
        """Show the previous or the next page."""
        return self._page(labelling.turn(by)) if labelling is not None else gr.skip()

    # Steps of the handlers.

    def _page(self, labelling: Labelling) -> Updates:
        return {
            self.extra["labelling"]: labelling,
            self.extra["labels"]: labels_html(labelling),
            self.extra["place"]: labelling.place(),
        }

    def _rescored(self, labelling: Labelling) -> Iterator[Updates]:
        """Yield the numbers with these labels, then the figures, and the command for both."""
        report, page, parts = labelling.report(), self.page, self.page.parts
        file = f"{report.design.name}-{report.run_id}-labels.csv" if labelling.steps else ""
        settings = replace(report.settings, labels=file or report.settings.labels)
        yield {
            **self._page(labelling),
            parts["report"]: report,
            parts["header"]: page.header_html(report),
            parts["findings"]: findings_html(report),
            **self.show_at_once(report),
            parts["status"]: messages.done_html(labelling.place()),
        }
        yield {
            **page.show_numbers(report),
            **page.show_later("details", report),
            parts["attributes"]: figures_html(page.figures_by_attribute(report)),
            parts["shell"]: to_command(report.design, settings),
            parts["python"]: to_python(report.design, settings),
        }


def summary_html(report: StudyReport) -> str:
    """Return the numbers of people who could be scored, and the agreement of labels, as tiles."""
    tiles = []  # title, number, small print, explanation
    for row in get_table(report, "coverage").frame.to_dict("records"):
        setting = _NAMES.get(row["setting"], row["setting"])
        tiles += [
            (
                f"Pictures that failed, {setting}",
                f"{row['failed']:,} of {row['pictures']:,}",
                format_share(*(row[end] / 100 for end in ("failed %", "failed % low", "failed % high"))),
                "Pictures without exactly the people asked for. They are counted here and never scored.",
            ),
            (
                f"People who could be scored, {setting}",
                f"{row['people'] * row['coverage %'] / 100:,.0f} of {row['people']:,}",
                f"{row['cannot identify']:,} cannot be identified",
                "People who look feminine or masculine; others are left out, not counted against a stereotype.",
            ),
        ]
    tiles += [
        (
            f"κ: {finding.title}",
            format_number(kappa.value, kappa.low, kappa.high, n=kappa.n),
            f"{format_interval(kappa.low, kappa.high, value=kappa.value, n=kappa.n)}; {finding.says}",
            f"Cohen's κ: agreement of two sources of labels beyond chance. 1: full, 0: as by chance. {kappa.note}",
        )
        for kappa, finding in (
            (finding.estimate, finding) for finding in report.results.findings if finding.metric == "cohen_kappa"
        )
    ]
    return render("tiles", title="People who could be scored, and agreement of labels", tiles=tiles)
