"""PST: labels that were corrected by hand, and the report that follows from them; nothing is drawn again."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.paired_labels import ANSWERS, CANNOT_IDENTIFY, NOT_TWO_PEOPLE
from bias_core.studies.kit.designs import program_of
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.paired.labelling import BY_HAND, seen_in_pictures
from bias_core.studies.paired.scores import LABELLED
from bias_core.studies.reports.text import table_of

Person = tuple[str, str]
"""``image_id`` and ``position``."""
Answers = Mapping[Person, str]

_RATERS = "table1"  # of the people whose CSV was given, which corrections leave as it is


def labelled_people(report: StudyReport) -> pd.DataFrame:
    """One row per person asked for, with ``perceived_gender`` and who said so; InvalidInput for other studies."""
    try:
        frame = table_of(report, "labels").frame
    except KeyError as error:
        raise InvalidInput(f"{report.design.name} labels no people") from error
    return frame.rename(columns={"answer": "perceived_gender"})


def chosen(people: pd.DataFrame, person: Person, answer: str) -> dict[Person, str]:
    """The labels that change when one person's is chosen.

    A picture is failed as a whole: "not_two_people" is the label of both, and once one of them is seen the
    other "cannot_identify" until somebody says more. InvalidInput where there is no such answer, or nobody there.
    """
    if answer not in ANSWERS:
        raise InvalidInput(f"an answer is one of {', '.join(ANSWERS)}; got {answer!r}")
    image_id, position = person
    here = people[people["image_id"] == image_id].set_index("position")["perceived_gender"]
    if position not in here:
        raise InvalidInput(f"this run has nobody {position!r} in a picture {image_id!r}")
    if answer == NOT_TWO_PEOPLE:
        return {(image_id, str(place)): answer for place in here.index}
    freed = [(image_id, str(place)) for place in here.index[here == NOT_TWO_PEOPLE]]
    return dict.fromkeys(freed, CANNOT_IDENTIFY) | {person: answer}


def with_answers(people: pd.DataFrame, by_hand: Answers) -> pd.DataFrame:
    """``people`` with these labels in place of theirs."""
    keys = zip(people["image_id"], people["position"], strict=True)
    said = pd.Series([by_hand.get(key) for key in keys], index=people.index, dtype=object)
    known = said.notna()
    return people.assign(
        perceived_gender=people["perceived_gender"].mask(known, said),
        human=people["human"].astype(object).mask(known, said),
        rater=people["rater"].mask(known, BY_HAND),
    )


def relabelled(report: StudyReport, by_hand: Answers) -> StudyReport:
    """The report that these labels give in place of those that it stands on.

    Labels that were looked at and left as they are belong to ``by_hand`` too: agreement is between the
    automatic label and people's wherever there are both. InvalidInput as :func:`labelled_people`, and for a program
    that cannot score labels alone.
    """
    people = labelled_people(report)
    rescore = program_of(report.design).rescore
    if rescore is None:
        raise InvalidInput(f"{report.design.name} cannot be scored from labels")
    people = with_answers(people, by_hand)
    raters = [table for table in report.results.tables if table.key == _RATERS]
    pictures = report.pictures
    if pictures is not None:
        pictures = pictures.assign(**seen_in_pictures(people, pictures))
    results = rescore(report.design, report.settings, people, raters)
    drawn = takewhile(lambda note: not note.startswith(LABELLED), report.results.notes)
    return replace(report, results=replace(results, notes=(*drawn, *results.notes)), pictures=pictures)
