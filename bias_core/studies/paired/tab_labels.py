"""Pictures with the label of each person in them, to be looked at and corrected in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bias_core.metrics.paired_labels import ANSWERS, NOT_TWO_PEOPLE
from bias_core.studies.paired.answers import Person, chosen, labelled_people, relabelled, with_answers
from bias_core.studies.paired.labelling import BY_HAND, SINGLE
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.paired.answers import Answers

PER_PAGE = 12
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
WHICH = {
    "drawn": "All pictures, as drawn",
    "doubtful": "All pictures, the doubtful first",
    "failed": "Failed: not the people asked for",
    "unclear": "Cannot identify",
    "record": "Not as the record of what was drawn",
    "hand": "Looked at by hand",
}
WORDS = {
    "feminine": "feminine",
    "masculine": "masculine",
    "cannot_identify": "cannot identify",
    NOT_TWO_PEOPLE: "not two people",
}

LABEL_JS = script("labels_in_place")


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """What a visitor did to the labels of a run.

    Attributes
    ----------
    drawn : the report as the run gave it.
    steps : what was chosen, oldest first; one is undone at a time.
    which, page : what is looked at.
    version : how many steps were taken or taken back, so that no page is mistaken for an earlier one.
    """

    drawn: StudyReport
    steps: tuple[Answers, ...] = ()
    which: str = "drawn"
    page: int = 0
    version: int = 0

    @property
    def answers(self) -> dict[Person, str]:
        """The newest answer for each person that was looked at."""
        return {person: answer for step in self.steps for person, answer in step.items()}

    def people(self) -> pd.DataFrame:
        """Everybody with the label that holds now."""
        return with_answers(labelled_people(self.drawn), self.answers)

    def report(self) -> StudyReport:
        """What these labels give."""
        return relabelled(self.drawn, self.answers) if self.steps else self.drawn

    def correct(self, person: Person, answer: str) -> Labelling:
        """One label chosen."""
        return self._with((*self.steps, chosen(self.people(), person, answer)))

    def confirm(self) -> Labelling:
        """Everybody on this page was looked at, and is as the labels say."""
        page = self.pictures()
        people = self.people()
        here = people[people["image_id"].isin(page)].dropna(subset="perceived_gender")
        step = {(str(p.image_id), str(p.position)): str(p.perceived_gender) for p in here.itertuples()}
        return self._with((*self.steps, step)) if step else self

    def undo(self) -> Labelling:
        """Without the last step."""
        return self._with(self.steps[:-1])

    def _with(self, steps: tuple[Answers, ...]) -> Labelling:
        return replace(self, steps=steps, version=self.version + 1)

    def turn(self, by: int) -> Labelling:
        """Another page, as far as there is one."""
        last = max(0, -(-len(self._chosen()) // PER_PAGE) - 1)
        return replace(self, page=min(max(0, self.page + by), last))

    def pictures(self) -> list[str]:
        """The pictures of this page."""
        return self._chosen()[self.page * PER_PAGE : (self.page + 1) * PER_PAGE]

    def _chosen(self) -> list[str]:
        people = self.people()
        people = people[people["image_id"].isin(list(self.drawn.stored))]  # of an old run some may be gone
        if self.which == "doubtful":
            people = people.assign(clear=people["lean"].abs()).sort_values("clear", kind="stable")
        label = people["perceived_gender"]
        kept = {
            "failed": label == NOT_TWO_PEOPLE,
            "unclear": label == "cannot_identify",
            "record": people["truth"].notna() & (label != people["truth"]),
            "hand": people["rater"] == BY_HAND,
        }.get(self.which)
        return list(dict.fromkeys(people["image_id"] if kept is None else people.loc[kept, "image_id"]))

    def place(self) -> str:
        """Which of how many pictures these are, and what was done."""
        n, first = len(self._chosen()), self.page * PER_PAGE
        shown = f"Pictures {first + 1} to {min(first + PER_PAGE, n)} of {n:,}." if n else "No such picture."
        hand = self.people().query("rater == @BY_HAND")
        changed = int((hand["perceived_gender"] != hand["automatic"]).sum())
        counted = f"{changed:,} label{'' if changed == 1 else 's'} corrected by hand"
        return f"{shown} {counted}, {len(hand) - changed:,} looked at and left as they were."


def labels_html(labelling: Labelling) -> str:
    """The pictures of a page, each with a menu per person."""
    people = labelling.people()
    here = people[people["image_id"].isin(labelling.pictures())]
    groups = {image_id: rows.to_dict("records") for image_id, rows in here.groupby("image_id", sort=False)}
    return render(
        "labels_in_place",
        sheets=[(labelling.drawn.stored[image_id], groups[image_id]) for image_id in labelling.pictures()],
        version=labelling.version,
        answers=ANSWERS,
        words=WORDS,
        words_alone=WORDS | {NOT_TWO_PEOPLE: "not one person"},
        alone=SINGLE,
        by_hand=BY_HAND,
        small=_SMALL,
    )
