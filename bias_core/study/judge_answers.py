"""Tables of what a judge answered, and when its headline says that it often cannot tell."""

from collections import Counter
from collections.abc import Sequence

from bias_core.models.endpoints import CUT_OFF
from bias_core.study.types import JudgeAnswer, StudyReport, StudyTable, table
from bias_core.wording import format_rate, shorten

VERDICTS, RAW = "judge_verdicts", "judge_said"
_ANSWERS = ("yes", "no", "cannot tell")
_ALL = "all questions"
_SHOWN, _LONGEST = 5, 400  # answers, and characters of each
_OFTEN = 0.2  # share of "cannot tell" that a headline states
_NOTE = (
    "Numbers of answers. Pictures for which the judge cannot tell are left out of shares. Cut off: no verdict in reach."
)
_RAW_NOTE = (
    "What the server said, and how it was read: by its last verdict; a text with both, or none, is “cannot tell”."
)


def judge_tables(answers: Sequence[JudgeAnswer]) -> tuple[StudyTable, ...]:
    """Return the numbers of verdicts by question, and some answers as they were said; () without a judge."""
    if not answers:
        return ()
    by_question = {question: [a for a in answers if a.question == question] for question in _shared_questions(answers)}
    rows = [_count(question, question_answers) for question, question_answers in by_question.items()]
    rows = rows if len(rows) == 1 else [*rows, _count(_ALL, answers)]
    said = [answer for answer in answers if answer.said]
    by_verdict = {verdict: [answer for answer in said if answer.verdict == verdict] for verdict in _ANSWERS}
    shown = [
        verdict_answers[place]
        for place in range(_SHOWN)
        for verdict_answers in by_verdict.values()
        if place < len(verdict_answers)
    ][:_SHOWN]
    raw = [
        {
            "question": answer.question,
            "answer": shorten(" ".join(answer.said.split()), _LONGEST),
            "verdict": answer.verdict,
            "image_id": answer.image_id,
        }
        for answer in shown
    ]
    tables = [table(VERDICTS, "Verdicts of the judge", rows, _NOTE)]
    return (*tables, *([table(RAW, "Answers of the judge as it gave them", raw, _RAW_NOTE)] if raw else []))


def _shared_questions(answers: Sequence[JudgeAnswer]) -> list[str]:
    """Return the questions of several pictures; others name a place in a picture, and are counted together."""
    return [question for question, n in Counter(answer.question for answer in answers).most_common() if n > 1][:50]


def _count(question: str, answers: Sequence[JudgeAnswer]) -> dict[str, object]:
    verdicts = Counter(answer.verdict for answer in answers)
    n_cut = sum(answer.said.endswith(CUT_OFF) for answer in answers)
    return {
        "question": question,
        "asked": len(answers),
        **{name: verdicts[name] for name in _ANSWERS},
        "cut off": n_cut,
    }


def often_in_doubt(report: StudyReport) -> str:
    """Say in how many answers the judge cannot tell, if that is more than a fifth; "" otherwise."""
    frame = report.results.frame(VERDICTS)
    if frame.empty:
        return ""
    total = frame.iloc[-1]
    n, n_doubt = int(total["asked"]), int(total["cannot tell"])
    return (
        f" The judge cannot tell in {n_doubt:,} of {n:,} answers ({format_rate(n_doubt / n)})."
        if n_doubt > _OFTEN * n
        else ""
    )
