"""The things that prompts name, each asked about in its pictures; M_G holds pictures against a blank instead."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from bias_core.metrics.hallucination_parts import compared_objects
from bias_core.metrics.missing_things import missing_things
from bias_core.prompts import fill_template
from bias_core.store.readings import open_picture
from bias_core.studies.kit.data import Steps, StudyData
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.judging import ask_judge, errors_of, question_about
from bias_core.studies.kit.types import Finding, StudySettings, StudyTable, columns, finding
from bias_core.types import ReaderErrors

TEXTS = ReportTexts(__file__)
SHOWS = "a photo of a {}"
_WITH, _WITHOUT = "a photo of a person with a {}", "a photo of a person without a {}"


class ThingsReport(NamedTuple):
    """What a judge says of the named things; empty without a judge."""

    findings: tuple[Finding, ...] = ()
    tables: tuple[StudyTable, ...] = ()


def judged_things(data: StudyData, reading: pd.DataFrame, sets: Mapping[str, pd.Index]) -> Steps[ThingsReport]:
    """Ask the judge of the settings about every thing that the prompt of a picture names, for each set of pictures.

    ``sets`` holds rows of ``reading`` by name. Errors of the judge are corrected for where pictures are known that show
    such a thing, and others that do not.
    """
    if not data.settings.judge:
        return ThingsReport()
    frame = data.frame.loc[reading.index]
    images = dict(zip(frame.index, data.stored(frame), strict=True))
    named = zip(reading.index, reading["asked"].tolist(), strict=True)
    pairs = [(row, thing) for row, words in named for thing in sorted(compared_objects(words))]
    if not pairs:
        return ThingsReport()
    questions = {thing: question_about(fill_template(SHOWS, thing)) for thing in {thing for _, thing in pairs}}
    asked_about = {
        (images[row].path.stem, questions[thing]): partial(open_picture, images[row]) for row, thing in pairs
    }
    judge = data.settings.judge
    answers = yield from ask_judge(data.services, judge, "asking about things", asked_about, data.check)
    keys = ((images[row].path.stem, questions[thing]) for row, thing in pairs)
    things = pd.DataFrame(pairs, columns=["row", "thing"]).assign(p_yes=[float(answers[key][0]) for key in keys])
    errors, n_known = yield from _errors(data, questions)
    note = f"corrected by the judge's errors on {n_known} of {len(questions)} things" if errors else ""
    return _report(things, sets, data.settings, errors, note)


def _errors(data: StudyData, questions: Mapping[str, str]) -> Steps[tuple[ReaderErrors | None, int]]:
    """The judge's errors on things that pictures are known to show or to lack, and of how many things; None of none."""
    model, judge = data.settings.model, data.settings.judge
    sentences = {thing: (fill_template(_WITH, thing), fill_template(_WITHOUT, thing)) for thing in sorted(questions)}
    of_thing = {thing: data.services.known_pictures(model, *pair) for thing, pair in sentences.items()}
    known_pictures = [(one, questions[thing]) for thing, some in of_thing.items() for one in some]
    if not known_pictures:
        return None, 0
    pictures = {(one.key, question): one.draw for one, question in known_pictures}
    answers = yield from ask_judge(
        data.services, judge, "checking the judge on pictures whose truth is known", pictures, data.check
    )
    says = np.array([answers[one.key, question] for one, question in known_pictures])
    errors = errors_of([one for one, _ in known_pictures], says)
    tells = errors.sensitivity + errors.specificity > 1
    return errors if tells else None, sum(map(bool, of_thing.values()))


def _report(
    things: pd.DataFrame, sets: Mapping[str, pd.Index], settings: StudySettings, errors: ReaderErrors | None, note: str
) -> ThingsReport:
    findings, rows = [], []
    for name, index in sets.items():
        here = things[things["row"].isin(index)]
        if here.empty:
            continue
        share = missing_things(here["p_yes"], errors=errors, confidence=settings.confidence).with_note(note)
        says = f"{settings.judge} does not see {100 * share.value:.0f} % of the things that the prompts name."
        findings.append(
            finding(f"{name} missing things", f"{name}: things named and not there", "missing_things", share, says)
        )
        rows += list(_lines(name, here, settings))
    tables = (TEXTS.table("missing_things", rows, judge=settings.judge),) if rows else ()
    return ThingsReport(findings=tuple(findings), tables=tables)


def _lines(name: str, here: pd.DataFrame, settings: StudySettings) -> Sequence[dict[str, object]]:
    """Each thing of a set, as the judge says, the one that is most often missing first."""
    groups = [(str(thing), some["p_yes"].to_numpy(float)) for thing, some in here.groupby("thing", sort=True)]
    shares = [missing_things(p_yes, confidence=settings.confidence) for _, p_yes in groups]
    order = np.argsort([-share.value for share in shares], kind="stable")
    return [
        {
            "pictures": name,
            "thing": groups[i][0],
            "asked in": shares[i].n,
            **columns("missing", shares[i]),
            "mean P(yes)": float(groups[i][1].mean()),
        }
        for i in order
    ]
