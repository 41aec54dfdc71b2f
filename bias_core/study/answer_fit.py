"""Fits people's answers to a run: decides which ones count, before anything is drawn or scored."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.study.answer_files import (
    BY_MACHINES,
    LOOK,
    NO_ANSWER,
    AnswerLook,
    ReadAnswer,
    clean_word,
    format_examples,
    format_names,
)
from bias_core.study.answers import AUTOMATIC, MACHINE, frame_of_look
from bias_core.study.label_tasks import POSITIONS, YES, attribute_key
from bias_core.study.picture_names import UNMATCHED, PictureMatch, PictureNames

Questions = Mapping[str, Mapping[str, Collection[str]]]
"""The answers that a run takes, by picture id and position: left, an attribute, "" if the answer itself says it."""
_NOT_ASKED = "a question that this run does not ask about their pictures"
_NUMBERS = "stars or numbers, for which this run has no question"


def fit_answers(
    answers: pd.DataFrame, questions: Questions, files: pd.DataFrame | None = None, *, has_all_pictures: bool = True
) -> pd.DataFrame:
    """Return the answers that count for a run, in its words: the only place that decides which ones do.

    The pictures are found, own ones also by their ``files`` (:func:`bias_core.study.picture_names.list_files`). Every
    other answer is passed over with a reason, in the look of the returned frame, ``attrs["look"]``; the given frame
    stays as it is.

    Raises InvalidInput, so that no number rests on the part of a file that happens to fit: for a position or an answer
    that the run does not know; two answers of one rater to one question about one picture; if fewer than half of the
    answers are about its pictures (``has_all_pictures``: False if a run stopped early); or if none counts.
    """
    look = answers.attrs.get(LOOK) or _look_at_tasks(answers)
    if not any(questions.values()):
        raise InvalidInput("this run asks nothing about its pictures that people could answer")
    look = _choose_columns(look, questions)
    names = PictureNames(questions, files)
    raters = defaultdict[str, set[str]](set)
    for answer in look.read:
        raters[answer.picture].add(answer.rater)
    pictures = names.match_all(raters)
    fit = _AnswerFit(look.name, questions)
    read = [
        answer if answer.passed_over else fit.fit_answer(answer, pictures[answer.picture])
        for answer in look.read
        if not look.is_wide
        or answer.passed_over != NO_ANSWER
        or fit.find_question(answer, pictures[answer.picture].image_id) is not None
    ]
    fitted = replace(look, read=read)
    if has_all_pictures and LOOK in answers.attrs:
        _refuse_other_pictures(fitted, names)
    fit.refuse_unknown()
    _refuse_twice(fitted)
    if not fitted.counted:
        raise InvalidInput(" ".join([f"none of the answers in {look.name} counts.", *fitted.not_counted()]))
    return frame_of_look(fitted)


def join_questions(image_ids: Iterable[str], of_arms: Iterable[Questions]) -> Questions:
    """Return the questions of all arms; pictures that nothing is asked about have none."""
    questions: dict[str, dict[str, Collection[str]]] = {image_id: {} for image_id in image_ids}
    for of_arm in of_arms:
        for image_id, of_picture in of_arm.items():
            questions.setdefault(image_id, {}).update(of_picture)
    return questions


def _look_at_tasks(answers: pd.DataFrame) -> AnswerLook:
    """Return the answers of labelling tasks as those of a file."""
    about = answers["attribute"].where(answers["attribute"] != "", answers["position"])
    cells = zip(answers["image_id"], about, answers["answer"], answers["rater"], strict=True)
    read = [
        ReadAnswer(place=image_id, picture=image_id, position=position, answer=answer, rater=rater)
        for image_id, position, answer, rater in cells
    ]
    return AnswerLook(name=", ".join(answers["task"].unique()), columns={"rater": "tasks"}, read=read)


def _choose_columns(look: AnswerLook, questions: Questions) -> AnswerLook:
    """Return the look with the columns that are questions of the run: those with its names or with its answers."""
    if not look.is_wide:
        return look
    names = {attribute_key(position) for of_picture in questions.values() for position in of_picture}
    words = {word for of_picture in questions.values() for words in of_picture.values() for word in words}
    with_answers = {answer.position for answer in look.read if clean_word(answer.answer) in words}
    columns = look.other_columns
    taken = [column for column in columns if column in with_answers or attribute_key(column) in names - {""}]
    if not taken:
        raise InvalidInput(
            f"no column of {look.name} ({', '.join(columns)}) is a question of this run: none is named "
            f"{' or '.join(filter(None, _list_positions(questions))) or 'so'}, or has its answers, "
            f"{', '.join(sorted(words))}"
        )
    return replace(
        look,
        read=[answer for answer in look.read if answer.position in taken],
        question_columns=taken,
        other_columns=[column for column in columns if column not in taken],
    )


def _list_positions(questions: Questions) -> list[str]:
    return list(dict.fromkeys(position for of_picture in questions.values() for position in of_picture))


class _AnswerFit:
    """Finds the question of each answer, and collects what the run does not know."""

    def __init__(self, name: str, questions: Questions) -> None:
        self._name, self._questions = name, questions
        self._kinds = {tuple(of_picture) for of_picture in questions.values()}
        self._unknown_positions, self._unknown_answers = list[ReadAnswer](), list[ReadAnswer]()
        self._allowed: dict[str, None] = {}

    def find_question(self, answer: ReadAnswer, image_id: str) -> str | None:
        """Return the position that an answer is about; None if the run does not ask it about this picture."""
        asked, text = self._questions.get(image_id, {}), clean_word(answer.position)
        if (position := find_position(text, tuple(asked))) is not None:
            return position
        # With one question about a picture, a look or a word needs no position that the run knows; a yes or no does.
        is_clear = len(asked) == 1 and text and not answer.is_number and YES not in next(iter(asked.values()))
        return next(iter(asked)) if is_clear and not self._is_known(text) else None

    def _is_known(self, text: str) -> bool:
        return any(find_position(text, positions) is not None for positions in self._kinds)

    def fit_answer(self, answer: ReadAnswer, match: PictureMatch) -> ReadAnswer:
        """Return the answer in the words of the run, or with a reason why it does not count."""
        if match.reason:
            return replace(answer, passed_over=match.reason, place=f"{answer.place}: {answer.picture[:80]}")
        asked, text = self._questions[match.image_id], clean_word(answer.position)
        answer = replace(answer, image_id=match.image_id, found_by=match.way)
        if (position := self.find_question(answer, match.image_id)) is None:
            if not asked or (text and self._is_known(text)) or answer.is_number:
                reason = _NUMBERS if answer.is_number else _NOT_ASKED
                return replace(answer, passed_over=reason, place=f"{answer.place}: {text or 'no position'}")
            self._unknown_positions.append(answer)
            return answer
        if answer.rater.startswith(MACHINE) or (answer.rater == AUTOMATIC and YES in asked[position]):
            return replace(answer, passed_over=BY_MACHINES)
        if (word := clean_word(answer.answer)) not in asked[position]:
            self._unknown_answers.append(answer)
            self._allowed |= dict.fromkeys(asked[position])
        return replace(answer, position=position, answer=word)

    def refuse_unknown(self) -> None:
        """Raise InvalidInput that names the positions and answers that the run does not know."""
        for kind, unknown, words, known in (
            ("positions", self._unknown_positions, lambda a: a.position, _list_positions(self._questions)),
            ("answers", self._unknown_answers, lambda a: a.answer, list(self._allowed)),
        ):
            if unknown:
                raise InvalidInput(
                    f"{kind} in {self._name} are {', '.join(position or 'no position' for position in known)}; got "
                    f"{format_names(map(words, unknown))}, the first in {unknown[0].place}. Nothing was scored"
                )


@lru_cache(maxsize=4096)
def find_position(text: str, positions: Sequence[str]) -> str | None:
    """Return the position that ``text`` names; None if it names none or several.

    >>> [find_position(text, ("left", "right")) for text in ("left", "l", "2", "on_the_right", "top", "")]
    ['left', 'left', 'right', 'right', None, None]
    >>> find_position("", ("single",)), find_position("Has-a beard", ("has a beard",))
    ('single', 'has a beard')
    """
    if not text:
        return positions[0] if len(positions) == 1 else None
    names = {attribute_key(position): position for position in positions}
    if attribute_key(text) in names:
        return names[attribute_key(text)]
    if not {*positions} <= {place for places in POSITIONS.values() for place in places}:
        return None
    words = re.findall(r"[^\W\d_]+|\d+", text)
    meant = {
        position
        for number, position in enumerate(positions, start=1)
        if any(position.startswith(word) or word.lstrip("0") == str(number) for word in words)
    }
    return meant.pop() if len(meant) == 1 else None


def _refuse_other_pictures(look: AnswerLook, names: PictureNames) -> None:
    """Raise InvalidInput if most answers match no picture of the run."""
    reasons = {reason: places for reason, places in look.passed_over.items() if reason in UNMATCHED}
    n_other = sum(map(len, reasons.values()))
    n = n_other + sum(look.counts_by_way.values())
    if 2 * n_other > n:
        details = "; ".join(f"{reason} ({format_examples(places)})" for reason, places in reasons.items())
        raise InvalidInput(
            f"only {n - n_other:,} of {n:,} answers in {look.name} match a picture of this run; not: {details}. "
            f"A picture is named by its id in the run, such as {next(iter(names.image_ids))}, by a file name "
            f"such as {names.example} or an address that ends with one. Nothing was scored"
        )


def _refuse_twice(look: AnswerLook) -> None:
    """Raise InvalidInput if a rater answered one question about one picture twice."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for answer in look.counted:
        places.setdefault((answer.image_id, answer.position, answer.rater), []).append(answer.place)
    if twice := [(key, of_key) for key, of_key in places.items() if len(of_key) > 1]:
        examples = [f"{' and '.join(dict.fromkeys(of_key))} ({', '.join(filter(None, key))})" for key, of_key in twice]
        whose = "of one rater" if look.columns.get("rater") else "without a column of raters"
        raise InvalidInput(
            f"{look.name} has several answers {whose} to one question about one picture: {format_examples(examples)}. "
            "Keep one of each. Nothing was scored"
        )


def check_arms_have_answers(answers: pd.DataFrame, pictures: Mapping[str, Collection[str]]) -> None:
    """Raise InvalidInput if no answer is about a picture of an arm; ``pictures``: ids by the name of the arm."""
    for arm, image_ids in pictures.items():
        if not answers["image_id"].isin(list(image_ids)).any():
            name = ", ".join(answers["task"].unique())
            raise InvalidInput(f"no answer in {name} counts for the arm “{arm}”, so the arms cannot be compared")
