"""A demonstration of labelling: two earlier raters' answers to a few pictures, and the effect of the visitor's.

It is no task: it comes from ``assets/label/demonstration.json``, and a visitor's answers are compared
and forgotten.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.measures.agreement import agreement_estimate
from bias_core.report.report_text import is_known
from bias_core.services import Services
from bias_core.study.types import StudyFigure, figure, mark
from bias_core.types import Estimate
from bias_core.ui import messages
from bias_core.ui.messages import QUIET
from bias_core.ui.templates import render, script
from bias_core.wording import format_estimate

FILE = "label/demonstration.json"
YOU = "you"
_NO_CHANGE = 5e-4  # of a coefficient shown with at most three digits


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """A question about some pictures, with the answers of earlier raters.

    ``answers`` has the answers' sentences by key, ``ratings`` the earlier raters' keys, a row per picture.
    """

    question: str
    answers: dict[str, str]
    pictures: tuple[Path, ...]
    ratings: pd.DataFrame

    @classmethod
    def read(cls, assets: Path) -> "Demonstration":
        """Read the shipped demonstration; StorageError if it is damaged."""
        path = assets / FILE
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            pictures = tuple(path.parent / picture["file"] for picture in values["pictures"])
            ratings = pd.DataFrame([picture["earlier"] for picture in values["pictures"]])
            return cls(question=values["question"], answers=values["answers"], pictures=pictures, ratings=ratings)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"the demonstration {path.name} cannot be read: {error}") from error

    @cached_property
    def before(self) -> Estimate:
        """Krippendorff's α of the earlier raters over the pictures."""
        return agreement_estimate(self.ratings)

    @property
    def says(self) -> str:
        """The earlier raters' agreement in words."""
        same = f"{_raters(self.ratings)} gave the same answer for {_equal(self.ratings)} pictures"
        return f"{same} ({_alpha_words(self.before)})"

    def compared(self, choices: Sequence[str]) -> "Comparison":
        """Compare with the visitor's answers, one key per picture in order; InvalidInput for other keys."""
        if len(choices) != len(self.ratings) or not set(choices) <= set(self.answers):
            raise InvalidInput(
                f"the demonstration asks for {len(self.ratings)} answers of {', '.join(self.answers)}; got "
                f"{len(choices)}, {quoted(', '.join(choices))}"
            )
        return Comparison(before=self, ratings=self.ratings.assign(**{YOU: list(choices)}))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Agreement with the visitor as one more rater."""

    before: Demonstration
    ratings: pd.DataFrame  # a column per rater, the visitor's last

    @cached_property
    def after(self) -> Estimate:
        """Krippendorff's α of all raters."""
        return agreement_estimate(self.ratings)

    @property
    def says(self) -> str:
        """The change in a sentence."""
        change = self.after.value - self.before.before.value
        way = "the same" if abs(change) < _NO_CHANGE else "more" if change > 0 else "less"
        return (
            f"Before you, {self.before.says}. With your answers all {self.ratings.shape[1]} raters give the same "
            f"answer for {_equal(self.ratings)} ({_alpha_words(self.after)}): {way} agreement on these pictures."
        )

    @property
    def figure(self) -> StudyFigure:
        """Plot α before and after, and α of the visitor with each earlier rater."""
        earlier = self.ratings.drop(columns=YOU)
        rows = [mark(f"before: {_raters(earlier)}", self.before.before), mark("after: with you", self.after)]
        pairs = {name: agreement_estimate(self.ratings[[name, YOU]]) for name in earlier}
        rows += [mark(f"you and {name}", estimate) for name, estimate in pairs.items() if is_known(estimate.value)]
        return figure("intervals", "agreement", "Agreement", rows, x="Krippendorff’s α", null=0.0)

    @property
    def rows(self) -> list[tuple[Path, list[str], bool]]:
        """Return each picture's file, the raters' answers in words, and true if they all agree."""
        return [
            (path, [self.before.answers[key] for key in keys], len(set(keys)) == 1)
            for path, keys in zip(self.before.pictures, self.ratings.to_numpy().tolist(), strict=True)
        ]


def _raters(ratings: pd.DataFrame) -> str:
    return " and ".join(str(name) for name in ratings)


def _equal(ratings: pd.DataFrame) -> str:
    return f"{int((ratings.nunique(axis=1) == 1).sum())} of {len(ratings)}"


def _alpha_words(alpha: Estimate) -> str:
    if not is_known(alpha.value):
        return "every answer is the same, and α is not defined"
    return f"Krippendorff’s α = {format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)}"


class DemonstrationPart:
    """The demonstration in the form of a new task; it does not keep answers."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.box: Any = None
        self.ask: Any = None
        self.result: Any = None

    @cached_property
    def demonstration(self) -> Demonstration:
        """The shipped demonstration, read on first use."""
        return Demonstration.read(self.services.settings.assets_dir)

    def build(self) -> None:
        """Build the pictures and answers, which the page shows one by one, and the result below."""
        with gr.Column(visible=False, elem_id="label-demo") as self.box:
            html = ""
            with messages.user_errors() as problem:
                html = render("label_demonstration", demonstration=self.demonstration)
            self.ask = gr.HTML(
                html or messages.error_html(problem.message), js_on_load=script("label_demonstration"),
                elem_id="label-demo-ask",
            )  # fmt: skip
            self.result = gr.HTML(elem_id="label-demo-result")

    def wire(self) -> None:
        """Wire the one event: all pictures are answered."""
        self.ask.select(self.on_answers, None, self.result, **QUIET)

    def on_answers(self, event: gr.EventData) -> str:
        """Show how the answers change agreement; none of them is stored."""
        with messages.user_errors() as problem:
            answers = [key for key in str(event.answers).split(",") if key]
            return demonstration_html(self.demonstration.compared(answers))
        return messages.error_html(problem.message)


def demonstration_html(comparison: Comparison) -> str:
    """Render a sentence, a small plot, and each picture with its answers."""
    return render("label_demonstration_result", comparison=comparison, raters=list(comparison.ratings), you=YOU)
