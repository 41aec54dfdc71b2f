"""What a judge says of pictures: the questions of attributes, answers that are asked for once, and its known errors."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import ModelUnavailable
from bias_core.store.readings import Question, open_picture
from bias_core.studies.kit.data import Steps, StudyData
from bias_core.studies.kit.limits import Countdown, leaving
from bias_core.studies.kit.services import StudyServices
from bias_core.types import Attribute, KnownPicture, ReaderErrors

CALLS = ("yes", "no", "cannot tell")
"""The answers of a judge, in the order of their probabilities."""

INSTRUCTION = "Answer yes, no or cannot tell."
Picture = Callable[[], Image.Image]
"""Opens a picture once it is needed."""

_AT_ONCE = 16  # pictures in one turn of the judge
_LEAD = re.compile(r"(?:an?|the)?\s*(?:[\w-]+\s+)?(?:photo(?:graph)?|picture|image|portrait)\s+of\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:an?|one|two|some)\s", re.IGNORECASE)
_KIND_OF_PICTURE = re.compile(r"\b(?:photo(?:graph)?|picture|image|portrait)$", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|wears?|looks?|shows?)\b", re.IGNORECASE)
_SUM_REACH = 1e-3


def question_about(sentence: str) -> str:
    """What a judge is asked about a picture, from a sentence that describes some pictures.

    >>> print(question_about("a photo of a man"))
    Does this picture show a man? Answer yes, no or cannot tell.
    """
    return f"{plain_question(sentence)} {INSTRUCTION}"


def plain_question(sentence: str) -> str:
    """The same as people are asked it.

    >>> plain_question("The person is wearing a hat.")
    'Is it true of this picture that the person is wearing a hat?'
    >>> plain_question("a pleasant picture")
    'Is this a pleasant picture?'
    """
    text = " ".join(sentence.split()).rstrip(" .!?")
    subject = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    first, _, rest = subject.partition(" ")
    lower = f"{first.lower()} {rest}".strip() if first.lower() in ("a", "an", "the", "this", "there") else subject
    if _KIND_OF_PICTURE.search(subject):
        return f"Is this {lower}?"
    if subject == text and not _ARTICLE.match(text) and _VERB.search(text):
        return f"Is it true of this picture that {lower}?"
    return f"Does this picture show {lower}?"


def calls_of(answers: np.ndarray) -> np.ndarray:
    """The likeliest answer of each, as a place in :data:`CALLS` ``(n,)``; "cannot tell" where two are as likely.

    >>> calls_of(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.1, 0.6, 0.3]])).tolist()
    [0, 2, 1]
    """
    best = answers.max(axis=1, keepdims=True)
    clear = (answers == best).sum(axis=1) == 1
    places: np.ndarray = np.where(clear, answers.argmax(axis=1), 2)
    return places


@dataclass(frozen=True, kw_only=True)
class JudgedAttribute:
    """What a judge says of one attribute in some pictures."""

    question: str
    answers: np.ndarray  # ``(n, 3)`` probabilities of :data:`CALLS`
    # of saying yes among all pictures, "cannot tell" being no yes; None where they are not known
    errors: ReaderErrors | None

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of yes and of no, ``(n,)`` each, nan where the judge cannot tell."""
        clear = np.where(calls_of(self.answers)[:, None] == 2, np.nan, self.answers)
        return clear[:, 0], clear[:, 1]


def judge_attributes(
    data: StudyData, frame: pd.DataFrame, attributes: Sequence[Attribute]
) -> Steps[tuple[JudgedAttribute, ...]]:
    """The judge's answers about every attribute in the pictures of ``frame``; none where the settings name no judge.

    In a world whose truth is known, its errors are measured on pictures that no model drew.
    """
    if not data.settings.judge or not attributes:
        return ()
    questions = [question_about(attribute.positive) for attribute in attributes]
    stored = data.stored(frame)
    pictures: dict[Question, Picture] = {
        (one.path.stem, question): partial(open_picture, one) for one in stored for question in questions
    }
    ask = partial(ask_judge, data.services, data.settings.judge, check=data.check)
    answers = yield from ask("asking the judge", pictures)
    model = data.settings.model
    of_known_truth = [data.services.known_pictures(model, one.positive, one.negative) for one in attributes]
    of_known = {(one.key, q): one.draw for q, some in zip(questions, of_known_truth, strict=True) for one in some}
    checks = yield from ask("checking the judge on pictures whose truth is known", of_known)
    return tuple(
        JudgedAttribute(
            question=question,
            answers=np.array([answers[one.path.stem, question] for one in stored]).reshape(-1, 3),
            errors=errors_of(some, np.array([checks[one.key, question] for one in some])) if some else None,
        )
        for question, some in zip(questions, of_known_truth, strict=True)
    )


def errors_of(pictures: Sequence[KnownPicture], answers: np.ndarray) -> ReaderErrors:
    """How often a judge says yes of pictures that show the attribute, and does not of others; answers ``(n, 3)``."""
    shown, yes = np.array([one.shows for one in pictures]), calls_of(answers) == 0
    return ReaderErrors(
        sensitivity=float(yes[shown].mean()),
        specificity=float(1 - yes[~shown].mean()),
        n_positive=int(shown.sum()),
        n_negative=int((~shown).sum()),
    )


def ask_judge(
    services: StudyServices, name: str, what: str, pictures: Mapping[Question, Picture], check: Callable[[], None]
) -> Steps[dict[Question, np.ndarray]]:
    """Probabilities ``(3,)`` of every question about a picture; what was answered before is not asked again.

    ``check`` is called before every few questions, and raises where somebody wants to stop.
    """
    judge = services.judge(name)
    texts: dict[Question, str] = services.answers.find(judge.name, list(pictures))
    missing = [key for key in pictures if key not in texts]
    turn, countdown = services.reading(judge), Countdown(len(missing))
    with leaving(lambda: (key[0] for key in missing if key not in texts)):
        for start in range(0, len(missing), _AT_ONCE):
            check()
            part = missing[start : start + _AT_ONCE]
            images = [pictures[key]() for key in part]
            with turn:
                answers = _checked(judge.judge(images, [question for _, question in part]), len(part), judge.name)
            fresh = {key: " ".join(map(repr, row)) for key, row in zip(part, answers.tolist(), strict=True)}
            services.answers.keep(judge.name, fresh)
            texts |= fresh
            done = start + len(part)
            yield countdown.progress(done, f"{what}: {done:,} of {len(missing):,}")
    return {key: np.array(texts[key].split(), dtype=float) for key in pictures}


def _checked(answers: np.ndarray, n: int, name: str) -> np.ndarray:
    """Answers that are probabilities ``(n, 3)``; ModelUnavailable for any others."""
    answers = np.asarray(answers, dtype=float)
    if answers.shape != (n, len(CALLS)):
        raise ModelUnavailable(f"the judge {name} gave an array {answers.shape} for {n} questions, not ({n}, 3)")
    if not ((answers >= 0).all() and (abs(answers.sum(axis=1) - 1) < _SUM_REACH).all()):  # also for nan
        raise ModelUnavailable(f"the judge {name} gave numbers that are no probabilities; choose another judge")
    return answers
