"""Answers of a judge: verdicts by question, raw answers, and a headline that says when it often cannot tell."""

from dataclasses import replace

import pytest

from bias_core.models.endpoints import CUT_OFF
from bias_core.report.headlines import headline
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.judge_answers import judge_tables, often_in_doubt
from bias_core.study.types import JudgeAnswer
from tests import shared
from tests.explored import explore_settings

services = shared.fake_services


def answers(*verdicts, question="Is it a man?", said="{}, I think"):
    return [
        JudgeAnswer(image_id=f"{n}", question=question, verdict=verdict, said=said.format(verdict))
        for n, verdict in enumerate(verdicts)
    ]


def test_verdicts_are_counted_by_question_and_five_raw_answers_show_each_verdict():
    asked = answers("yes", "yes", "yes", "yes", "yes", "no", "cannot tell")
    asked += answers("no", "no", question="Is it old?", said="A long text" + CUT_OFF)
    verdicts, raw = judge_tables(asked)
    rows = verdicts.frame.to_dict("records")
    assert [row["question"] for row in rows] == ["Is it a man?", "Is it old?", "all questions"]
    assert rows[0] == {"question": "Is it a man?", "asked": 7, "yes": 5, "no": 1, "cannot tell": 1, "cut off": 0}
    assert (rows[-1]["asked"], rows[-1]["cut off"]) == (9, 2)
    assert len(raw.frame) == 5
    assert set(raw.frame["verdict"]) == {"yes", "no", "cannot tell"}
    assert judge_tables([]) == ()
    assert len(judge_tables(answers("yes", "no", said=""))) == 1  # a judge of this machine says nothing


@pytest.mark.parametrize(("n_doubt", "says"), [(2, ""), (3, " The judge cannot tell in 3 of 10 answers (30 %).")])
def test_a_headline_says_that_a_judge_cannot_tell_more_than_a_fifth(n_doubt, says, services):
    settings = explore_settings(concept="doctor", n_images=4, attribute_a="", attribute_b="")
    report = complete(run_study(find_design("explore"), settings, services))
    tables = judge_tables(answers(*["cannot tell"] * n_doubt, *["yes"] * (10 - n_doubt)))
    judged = replace(report, results=replace(report.results, tables=(*report.results.tables, *tables)))
    assert often_in_doubt(judged).replace("\N{NO-BREAK SPACE}", " ") == says
    assert headline(judged) == headline(report) + often_in_doubt(judged)


def test_a_prompt_for_several_people_and_one_that_is_too_long_are_said_in_the_headline(services):
    options = {"n_images": 4, "attribute_a": "", "attribute_b": ""}
    several = complete(
        run_study(find_design("explore"), explore_settings(concept="doctor and a nurse", **options), services)
    )
    assert headline(several).endswith(
        "The prompt asks for several people, and the classifier answers for the whole picture."
    )
    one = complete(run_study(find_design("explore"), explore_settings(concept="doctor", **options), services))
    assert "several people" not in headline(one)
    note = "The prompt is too long for CLIP (26 tokens, at most 20), which did not see “two apples”."
    long = replace(one, results=replace(one.results, notes=(*one.results.notes, note)))
    assert headline(long) == f"{headline(one)} The prompt is too long for CLIP, which did not see “two apples”."
