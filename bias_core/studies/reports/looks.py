"""How the people in pictures look, in four: read by a head with known errors, by four sentences or by a judge.

A report has findings, a table, and a bar that is parted by the four.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.perceived_gender import gender_lean, look_shares
from bias_core.number_text import format_share
from bias_core.stats.class_shares import unbiased_scores
from bias_core.store.readings import Question, open_picture
from bias_core.studies.kit.judging import CALLS, Picture, ask_judge, calls_of, question_about
from bias_core.studies.kit.program import Steps, StudyData
from bias_core.studies.kit.types import (
    ArmReport,
    Finding,
    Results,
    Sample,
    StudyFigure,
    columns,
    figure,
    finding,
    lean,
    table,
)
from bias_core.types import ClassErrors, Estimate

HEAD, CUT_OUT = "perceived gender", "perceived gender, cut out"
"""What reads whole pictures of one person, and people who were cut out of pictures of two."""
LOOKS: Mapping[str, str] = {
    "feminine": "a photo of a feminine-looking person",
    "masculine": "a photo of a masculine-looking person",
    "androgynous": "a photo of an androgynous-looking person",
    "unclear": "a photo of a person seen from behind, whose face is hidden",
}
"""How a person may look, with what an encoder of any pictures, or a judge, is asked."""
UNCLEAR = len(LOOKS) - 1
NOTHING_FITS = (
    "How people look in four is not shown: the encoder {encoder} knows the calibration world alone, and these are "
    "other pictures. Choose an encoder of any pictures, or a judge."
)


KEY = "looks"
AS_READ, CORRECTED, DRAWN = "as read", "corrected", "as drawn"
_TITLE = "How do people look?"
_NOTE = (
    "Looks are what somebody else sees in a picture, never who a person is. Unclear: seen so that nobody can say, such "
    "as from behind. Corrected: with what is known of the reader's errors taken out. As drawn: on record."
)
_CAPTION = "Each bar is all pictures, parted by how the person in them looks."


@dataclass(frozen=True, kw_only=True)
class LookReading:
    """How people look, as somebody reads it."""

    places: np.ndarray  # ``(n,)``, of each person the place of a look in :data:`LOOKS`
    leans: np.ndarray  # ``(n,)``, by how much masculine is preferred to feminine; nan where that is not known
    errors: ClassErrors | None  # of the reader; None where they are not known
    reader: str  # in words

    @property
    def counts(self) -> np.ndarray:
        """Pictures of each look ``(4,)``."""
        return np.bincount(self.places, minlength=len(LOOKS))

    @property
    def words(self) -> list[str]:
        """The look of each person."""
        names = list(LOOKS)
        return [names[place] for place in self.places]

    def values(self, scores: Sequence[float], errors: ClassErrors | None, *, of_clear: bool = False) -> np.ndarray:
        """What each person counts so that their mean is that of the looks' ``scores``, with the errors taken out.

        ``of_clear``: among those who can be told; ``scores`` are then of the looks but the last, whose people are nan.
        """
        counted = unbiased_scores(scores, errors, has_unclear=of_clear)
        values: np.ndarray = (np.append(counted, np.nan) if of_clear else counted)[self.places]
        return values


def read_looks(data: StudyData, rows: np.ndarray, head_name: str = HEAD) -> LookReading | None:
    """How the people look of whose pictures these are the encoder's rows ``(n, d)``; None where it cannot tell.

    An encoder of the calibration world has a head for pictures of that world, whose errors are known. Of one for any
    pictures, what it is nearest to counts of four sentences; its errors are not known.
    """
    services, settings = data.services, data.settings
    head = services.class_head(settings.encoder, settings.model, head_name)
    if head is not None:
        leans = np.full(len(rows), np.nan)
        return LookReading(places=head.read(rows), leans=leans, errors=head.errors, reader=settings.encoder)
    if services.reader_world("encoder", settings.encoder):
        return None
    nearness = rows @ data.texts(list(LOOKS.values())).T  # (n, 4)
    leans = nearness[:, 1] - nearness[:, 0]
    reader = f"{settings.encoder}, the nearest of four sentences"
    return LookReading(places=nearness.argmax(axis=1), leans=leans, errors=None, reader=reader)


def judge_looks(data: StudyData, frame: pd.DataFrame) -> Steps[LookReading]:
    """How the person in each picture looks to the judge: the likeliest yes; unclear where it says yes to none."""
    questions, stored = [question_about(text) for text in LOOKS.values()], data.stored(frame)
    pictures: dict[Question, Picture] = {
        (one.path.stem, question): partial(open_picture, one) for one in stored for question in questions
    }
    name = data.settings.judge
    given = yield from ask_judge(data.services, name, "asking the judge how people look", pictures, data.check)
    answers = np.array([[given[one.path.stem, question] for question in questions] for one in stored])
    return judged_looks(answers.reshape(-1, len(LOOKS), len(CALLS)), f"the judge {name}")


def judged_looks(answers: np.ndarray, reader: str) -> LookReading:
    """Answers of a judge ``(n, 4, 3)`` to the question about each look as a reading."""
    says_yes = np.stack([calls_of(of_look) == 0 for of_look in np.moveaxis(answers, 1, 0)], axis=1)  # (n, 4)
    likeliest = np.where(says_yes, answers[:, :, 0], -1.0).argmax(axis=1)
    places = np.where(says_yes.any(axis=1), likeliest, UNCLEAR)
    leans = answers[:, 1, 0] - answers[:, 0, 0]
    return LookReading(places=places, leans=leans, errors=None, reader=reader)


def look_results(
    reading: LookReading,
    truths: Sequence[Mapping[str, Any]],
    *,
    sample: Callable[[np.ndarray], Sample],
    fixed_n: bool,
    confidence: float,
) -> Results:
    """What is reported of the looks of some people; ``truths`` as they were drawn, empty where that is not known.

    ``sample`` makes, of a number of each person, what arms are compared by: in the numbers that are as right as can be.
    """
    how: dict[str, Any] = {"fixed_n": fixed_n, "confidence": confidence}
    shares = {AS_READ: look_shares(reading.counts, **how)}
    errors = reading.errors if fixed_n else None
    best = AS_READ if errors is None else CORRECTED
    if errors is not None:
        shares[CORRECTED] = look_shares(reading.counts, errors=errors, **how)
    drawn = [sum(truth.get("gender") == look for truth in truths) / len(truths) for look in LOOKS] if truths else []
    rows = [
        {
            "look": look,
            **{name: value for kind, some in shares.items() for name, value in columns(kind, some[place]).items()},
            **({DRAWN: drawn[place]} if drawn else {}),
            "pictures": int(reading.counts[place]),
        }
        for place, look in enumerate(LOOKS)
    ]
    findings = [
        finding(
            f"{KEY}-{look}-{key}", f"{look}, {kind}", "look_share", some[place],
            expected=drawn[place] if drawn else None,
            sample=sample(reading.values(np.eye(len(LOOKS))[place].tolist(), errors)) if kind == best else None,
        )
        for key, (kind, some) in zip(("p", "corrected"), shares.items(), strict=False)
        for place, look in enumerate(LOOKS)
    ]  # fmt: skip
    findings += _lean(reading, errors, drawn, sample, how)
    reader = f"Read by {reading.reader}{'' if reading.errors else ', whose errors are not known'}."
    return Results(
        findings=tuple(findings),
        tables=(table(KEY, "Perceived gender in four", rows, f"{reader} {_NOTE}"),),
        figures=(_figure(KEY, rows, [*shares, *([DRAWN] if drawn else [])]),),
    )


def _lean(
    reading: LookReading, errors: Any, drawn: Sequence[float], sample: Any, how: dict[str, Any]
) -> Iterator[Finding]:
    """Which side people lean to, as corrected as it can be."""
    if reading.counts[:UNCLEAR].sum() == 0:
        return
    estimate = gender_lean(reading.counts, errors=errors, **how)
    visible = 1 - drawn[UNCLEAR] if drawn else 0.0
    yield finding(
        f"{KEY}-lean", "Masculine less feminine, of those who can be told", "gender_lean", estimate,
        lean(estimate, "More masculine-looking people.", "More feminine-looking people.", "No clear lean."),
        expected=(drawn[1] - drawn[0]) / visible if visible else None,
        sample=sample(reading.values((-1.0, 1.0, 0.0), errors, of_clear=True)),
    )  # fmt: skip


def _figure(key: str, rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> StudyFigure:
    marks = [{"name": kind, "group": row["look"], "value": row[kind]} for kind in kinds for row in rows]
    return figure("bars", key, _TITLE, marks, _CAPTION, y="share of the pictures", stacked=True)


def looks_over_arms(arms: Sequence[ArmReport]) -> tuple[StudyFigure, ...]:
    """The bars of all arms beneath each other, corrected where all of them are; nothing where none was read."""
    frames = {arm.name: arm.results.frame(KEY) for arm in arms}
    frames = {name: frame for name, frame in frames.items() if len(frame)}
    if not frames:
        return ()
    kind = CORRECTED if all(CORRECTED in frame for frame in frames.values()) else AS_READ
    marks = [
        {"name": name, "group": row["look"], "value": row[kind]}
        for name, frame in frames.items()
        for row in frame.to_dict("records")
    ]
    says = f"{_CAPTION} Shares {kind}."
    return (figure("bars", f"{KEY}-arms", _TITLE, marks, says, y="share of the pictures", stacked=True),)


def looks_headline(frame: pd.DataFrame) -> str:
    """What stands out of the looks of one arm's people; "" where they were not read."""
    if frame.empty:
        return ""
    kind, n = (CORRECTED if CORRECTED in frame else AS_READ), int(frame["pictures"].sum())
    shares = []
    for row in frame.to_dict("records"):
        share = Estimate(value=row[kind], low=row[f"{kind} low"], high=row[f"{kind} high"], n=n)
        text = format_share(share.value, share.low, share.high, n=n)
        shares.append(f"{row['look']} {text}")
    how = ", with the reader’s errors taken out" if kind == CORRECTED else ", as read"
    return f" How people look in {n} pictures{how}: {', '.join(shares)}."
