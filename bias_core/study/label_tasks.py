"""Labelling tasks: the texts and answers that raters see, and the items (pictures) of a task.

A :class:`Task` has everything that a rater sees; an opened task is never changed, only given a new version. The texts
of the two papers' tasks are in ``assets/texts/labelling.yaml`` and ``assets/studies/pst.yaml``
[wan2024pst, Table 10; wang2023t2iat, section 5.5].
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, Literal, get_args

from bias_core.errors import InvalidInput, quoted
from bias_core.installed import ASSETS
from bias_core.models.catalogue import read_yaml
from bias_core.people import Scale, load_scales
from bias_core.values import normal_form

TaskKind = Literal["pst_single", "pst_paired", "pst_three", "association", "own"]
Status = Literal["draft", "open", "paused", "closed"]
Looks = Literal["two", "four"]
"""Two looks: the paper's three answers (feminine, masculine, cannot identify). Four: androgynous and unclear instead of
the last."""
KINDS: tuple[TaskKind, ...] = get_args(TaskKind)

YES_NO = YES, NO, CANNOT_TELL = "yes", "no", "cannot_tell"
"""Answers to the question if a picture shows an attribute."""
UNTOLD = ("unclear", "cannot_identify")  # the first with four looks, the second with two
SINGLE, PAIRED, PICTURE = "single", "paired", "picture"
"""Position of the one person of a picture, and of a picture judged as a whole."""
POSITIONS: Mapping[int, tuple[str, ...]] = {1: (SINGLE,), 2: ("left", "right"), 3: ("left", "middle", "right")}
"""Positions of the people of a picture from left to right, by the number of people."""

MAX_TEXT, MAX_LINE = 10_000, 300  # characters
MAX_ANSWERS, MAX_POSITIONS, MAX_RATERS_PER_ITEM = 12, 12, 1000
MAX_JOINS = 10_000  # an hour
N_LABELS = 64  # pictures of a task by default
MAX_ABOUT = 8  # questions to raters about themselves
PREFER_NOT = "prefer not to say"
_ABOUT_LINE = re.compile(r"\s*([^?:]+\??)\s*:?\s*(.+)")
_KEY = re.compile(r"[a-z0-9_]{1,40}")
_COLOUR = re.compile(r"(#[0-9a-f]{6})?")
CROWD_CODES = ("completion_code", "failed_code", "screened_out_code")
_CROWD_CODE = re.compile(r"[A-Za-z0-9-]{0,40}")
_PLATFORM = "https://app.prolific.com/submissions/complete?cc="


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that a rater may give."""

    key: str  # stored and exported, of a-z, 0-9 and "_"
    label: str  # shown to the rater
    shortcut: str = ""  # key of the keyboard for this answer
    whole: bool = False  # True if it is about the whole picture, so that it holds for all positions
    colour: str = ""  # shown with it, as #rrggbb


@dataclass(frozen=True, kw_only=True)
class Task:
    """A question about pictures, and everything that a rater sees.

    ``questions`` are by position (such as "left" and "right"), in their order; "{}" stands for the identity that the
    picture should show there. ``answers`` are the same for every position, in their order. ``instructions``,
    ``consent`` and ``content_note`` are plain text before the first picture. ``gold_share``, in [0, 1), is the share of
    attention items, with a known answer, among the pictures shown. ``joins_per_hour`` raters may join over the link
    within an hour, and ``joins_per_address`` from one network address: enough for a class, too few for a script to fill
    the task. The store sets ``id, version, status, created`` (ISO 8601, UTC).

    The codes are for raters from a crowd platform (Prolific): ``completion_code`` for those who have answered,
    ``failed_code`` for those who failed more than half of the attention checks or were excluded, ``screened_out_code``
    for those who do not consent or find no picture left. With a code, the task's owner gets what the platform writes
    into its links about a participant, and one participant is one rater.

    ``about_rater`` are questions to raters about themselves with their answers, asked once before the first picture.

    A task may correct the numbers of a run, ``run_id``. Then ``attributes`` has, by position, the name and sentence of
    presence of the attribute (nothing for how people look), ``sample`` describes the sampling in words, and
    ``stratified_by`` names the attribute that strata are made by ("people" for how people look, "" for none).
    """

    title: str
    kind: TaskKind
    questions: Mapping[str, str]
    answers: tuple[Answer, ...]
    instructions: str
    consent: str
    content_note: str = ""
    raters_per_item: int = 3
    gold_share: float = 0.1
    joins_per_hour: int = 2000
    joins_per_address: int = 500
    completion_code: str = ""
    failed_code: str = ""
    screened_out_code: str = ""
    about_rater: Mapping[str, Sequence[str]] = field(default_factory=dict)
    run_id: str = ""
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sample: str = ""
    stratified_by: str = ""
    scale: str = ""  # its levels, in order, and "cannot tell" are the answers; "" for none
    id: str = ""
    version: int = 1
    status: Status = "draft"
    created: str = ""

    @property
    def positions(self) -> tuple[str, ...]:
        """The positions, in order."""
        return tuple(self.questions)

    def answer(self, key: str) -> Answer:
        """Return the answer with this key; InvalidInput if there is none."""
        if key not in (answers := {answer.key: answer for answer in self.answers}):
            raise InvalidInput(f"{quoted(key)} is not an answer of this task: {', '.join(answers)}")
        return answers[key]

    def questions_about(self, item: Any) -> dict[str, str]:
        """Return the question about each position of an item, with the identity in it."""
        # Not str.format: a visitor's text could reach into objects.
        return {
            position: (item.question or text).replace("{}", item.identities.get(position, ""))
            for position, text in self.questions.items()
        }

    @property
    def untold(self) -> str:
        """The answer for people with unclear looks; "" if the task has none."""
        return next((key for key in UNTOLD if key in self.answer_keys), "")

    @property
    def is_of_a_crowd(self) -> bool:
        """True if raters come from a crowd platform."""
        return any(getattr(self, name) for name in CROWD_CODES)

    @property
    def answer_keys(self) -> tuple[str, ...]:
        """Keys of the answers, in order."""
        return tuple(answer.key for answer in self.answers)


@dataclass(frozen=True, kw_only=True)
class AskedPicture:
    """A picture that people are asked about."""

    image_id: str  # of the original in its run or import; studies join answers by it
    identities: Mapping[str, str]  # identity that the prompt asks for, by position; "" if the question names none
    gold: Mapping[str, str] | None = None  # known answer by position; None for an ordinary item
    question: str = ""  # replaces the task's, in attention items


@dataclass(frozen=True, kw_only=True)
class Item(AskedPicture):
    """A picture of a task, as the store numbers it."""

    id: int
    picture: str  # SHA-256 of the file that raters see: pixels without the metadata of the original


def pst_task(*, paired: bool, looks: Looks = "two", **changes: Any) -> Task:
    """Return the task of the paired stereotype test [wan2024pst, Table 10]; ``changes`` are other fields.

    ``looks``: :data:`Looks`. Both have an answer for pictures that do not show the people of the prompt.

    >>> pst_task(paired=True, looks="four").answer_keys
    ('feminine', 'masculine', 'androgynous', 'unclear', 'not_two_people')
    """
    return _people_task(2 if paired else 1, looks, changes)


def three_task(looks: Looks = "two", **changes: Any) -> Task:
    """Return the task of :func:`pst_task` for three people side by side.

    >>> list(three_task().questions)
    ['left', 'middle', 'right']
    """
    return _people_task(3, looks, changes)


def _people_task(n_people: int, looks: Looks, changes: dict[str, Any]) -> Task:
    if looks not in get_args(Looks):
        raise InvalidInput(f"looks are {' or '.join(get_args(Looks))}; got {quoted(looks)}")
    kinds: tuple[TaskKind, ...] = ("pst_single", "pst_paired", "pst_three")
    kind, texts = kinds[n_people - 1], _read_asset("texts", "labelling.yaml")
    words, positions = _read_asset("studies", "pst.yaml")["annotation"][kind.removeprefix("pst_")], POSITIONS[n_people]
    ending = "" if looks == "two" else "_in_four"
    answers = [Answer(**answer) for answer in texts[f"answers{ending}"][kind]]
    asked = words["instruction"].partition(". ")[0]  # the rest names a button of the paper, which four looks lack
    failed = next(answer.label for answer in answers if answer.whole)
    instructions = f"{asked}.\n\n{texts[f'appearance{ending}'].replace('{failed}', failed)}"
    return _make_task(kind, dict(zip(positions, words["questions"], strict=True)), answers, instructions, changes)


def association_task(a: str, b: str, **changes: Any) -> Task:
    """Return a task that asks which of two attributes is closer to a picture [wang2023t2iat, section 5.5].

    >>> association_task("pleasant", "unpleasant").answer_keys
    ('pleasant', 'unpleasant')
    """
    words = _read_asset("texts", "labelling.yaml")["association"]
    return _make_task(
        "association", {PICTURE: words["question"]}, _number_answers((a, b)), words["instructions"], changes
    )


def scale_task(name: str, **changes: Any) -> Task:
    """Return a task that asks for a level of a scale, such as one of ten skin tones; ``changes`` as above.

    >>> [(one.shortcut, one.label) for one in scale_task("age group").answers]
    [('1', 'child'), ('2', 'young'), ('3', 'old'), ('c', 'cannot tell')]
    """
    scale, words = load_scales().get(name), _read_asset("texts", "labelling.yaml")
    if scale is None:
        raise InvalidInput(f"no scale is called {quoted(name)}; there are {', '.join(load_scales())}")
    last = Answer(key=CANNOT_TELL, label=CANNOT_TELL.replace("_", " "), shortcut="c")
    answers = [*_list_levels(scale), last]
    titled = {"title": scale.title, "scale": name} | changes
    return _make_task("own", {SINGLE: scale.question}, answers, words["on_a_scale"], titled)


def _list_levels(scale: Scale) -> list[Answer]:
    """Return an answer for each level, with its number on the keyboard (0 for the tenth) and colour."""
    ends = {0: f", {scale.lowest}", len(scale.levels) - 1: f", {scale.highest}"} if scale.colours else {}
    colours = scale.colours or ("",) * len(scale.levels)
    before = f"{scale.step} " if scale.colours else ""
    return [
        Answer(
            key=answer_key(f"{before}{level}"), label=f"{before}{level}{ends.get(i, '')}", shortcut=digit, colour=colour
        )
        for i, (level, digit, colour) in enumerate(zip(scale.levels, "1234567890", colours, strict=False))
    ]


def own_task(question: str, answers: Sequence[str], **changes: Any) -> Task:
    """Return a task with a question and its answers, numbered 1 to 9 on the keyboard; ``changes`` as above."""
    return _make_task("own", {PICTURE: question}, _number_answers(answers), "", changes)


def _number_answers(labels: Sequence[str]) -> list[Answer]:
    shortcuts = [*"123456789", *[""] * len(labels)]
    return [Answer(key=answer_key(label), label=label, shortcut=shortcuts[i]) for i, label in enumerate(labels)]


def _make_task(
    kind: TaskKind, questions: Mapping[str, str], answers: Sequence[Answer], instructions: str, changes: dict[str, Any]
) -> Task:
    texts = _read_asset("texts", "labelling.yaml")
    same = {name: texts[name] for name in ("consent", "content_note")} | {"title": texts["titles"][kind]}
    task_fields = {"kind": kind, "questions": questions, "answers": tuple(answers), "instructions": instructions}
    return Task(**{**same, **task_fields, **changes})


def answer_key(label: str) -> str:
    """Return the stored key of an answer with this label.

    >>> answer_key("Can't tell!")
    'can_t_tell'
    """
    key = re.sub(r"[^a-z0-9]+", "_", normal_form("NFKD", label).lower()).strip("_")[:40]
    if not key:
        raise InvalidInput(f"an answer needs a letter or digit of the Latin alphabet; got {quoted(label)}")
    return key


@cache  # once for each of thousands of answers
def attribute_key(name: str) -> str:
    """Return the name of an attribute as answers store it; names without Latin letters stay, in lower case."""
    return answer_key(name) if any(letter.isascii() and letter.isalnum() for letter in name) else name.lower()


def checked_task(task: Task) -> Task:
    """Return ``task`` if it is valid; InvalidInput quotes the text, answer or number that is not."""
    if task.kind not in KINDS:
        raise InvalidInput(f"kind is one of {', '.join(KINDS)}; got {quoted(task.kind)}")
    checked_text("title", task.title, MAX_LINE, required=True)
    for name in ("instructions", "consent", "content_note"):
        checked_text(name, getattr(task, name), MAX_TEXT, required=name == "consent")
    if not 1 <= len(task.questions) <= MAX_POSITIONS:
        raise InvalidInput(f"a task asks about 1 to {MAX_POSITIONS} positions; got {len(task.questions)}")
    for position, question in task.questions.items():
        _checked_key("position", position)
        checked_text(f"question of {position}", question, MAX_LINE, required=True)
    _check_answers(task.answers)
    _check_scale(task)
    limits = {"raters_per_item": MAX_RATERS_PER_ITEM, "joins_per_hour": MAX_JOINS, "joins_per_address": MAX_JOINS}
    for name, maximum in limits.items():
        if not (type(n := getattr(task, name)) is int and 1 <= n <= maximum):
            raise InvalidInput(f"{name.replace('_', ' ')} are 1 to {maximum:,}; got {quoted(n)}")
    for name in CROWD_CODES:
        if not (isinstance(code := getattr(task, name), str) and _CROWD_CODE.fullmatch(code)):
            raise InvalidInput(
                f"the {name.replace('_', ' ')} is of letters, digits and -, up to 40; got {quoted(code)}"
            )
    _check_about_rater(task.about_rater)
    if not 0 <= task.gold_share < 1:
        raise InvalidInput(f"the share of gold items is in [0, 1); got {quoted(task.gold_share)}")
    return task


def crowd_address(code: str) -> str:
    """Return the address at which a rater returns to the crowd platform; "" without a code.

    >>> crowd_address("C1A2"), crowd_address("")
    ('https://app.prolific.com/submissions/complete?cc=C1A2', '')
    """
    return f"{_PLATFORM}{code}" if code else ""


def checked_choices(task: Task, choices: Mapping[str, str]) -> dict[str, str]:
    """Return one answer for every position of ``task``, in its order.

    An answer about the whole picture holds for all positions. InvalidInput if a position is missing or unknown, or an
    answer is not one of the task's.

    >>> checked_choices(pst_task(paired=True), {"left": "not_two_people"})
    {'left': 'not_two_people', 'right': 'not_two_people'}
    """
    if strange := [position for position in choices if position not in task.questions]:
        raise InvalidInput(f"{quoted(strange[0])} is not a position of this task: {', '.join(task.positions)}")
    if whole := [key for key in choices.values() if task.answer(key).whole]:
        return dict.fromkeys(task.positions, whole[0])
    if missing := [position for position in task.positions if position not in choices]:
        raise InvalidInput(f"no answer for {', '.join(missing)}")
    return {position: choices[position] for position in task.positions}


def task_texts(task: Task) -> dict[str, Any]:
    """Return the fields of a task except id, version, status and time, as plain values."""
    texts = asdict(task)
    return {name: texts[name] for name in texts if name not in ("id", "version", "status", "created")}


def task_from(texts: Mapping[str, Any], **of_the_store: Any) -> Task:
    """Reverse :func:`task_texts`; unknown fields are ignored."""
    names = {field.name for field in fields(Task)} - {"answers"}
    values = {name: value for name, value in texts.items() if name in names}
    return Task(answers=tuple(Answer(**answer) for answer in texts["answers"]), **values, **of_the_store)


def checked_text(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return ``text`` if it is short enough and has no control characters except line breaks and tabs."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} is text; got {type(text).__name__}")
    if required and not text.strip():
        raise InvalidInput(f"{name} is empty")
    if len(text) > limit:
        raise InvalidInput(f"{name} has {len(text):,} characters; at most {limit:,} are taken")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\r\t":
            raise InvalidInput(f"{name} holds the control character U+{ord(character):04X}")
    return text


def _check_answers(answers: Sequence[Answer]) -> None:
    if not 2 <= len(answers) <= MAX_ANSWERS:
        raise InvalidInput(f"a question has 2 to {MAX_ANSWERS} answers; got {len(answers)}")
    for answer in answers:
        _checked_key("answer", answer.key)
        checked_text("answer", answer.label, MAX_LINE, required=True)
        if not (isinstance(answer.colour, str) and _COLOUR.fullmatch(answer.colour)):
            raise InvalidInput(f"the colour of an answer is as #a1b2c3; got {quoted(answer.colour)}")
        shortcut = checked_text("shortcut", answer.shortcut, 1)
        if shortcut and not (shortcut.isprintable() and shortcut.strip()):
            raise InvalidInput(f"a shortcut is one visible character; got {quoted(shortcut)}")
    for name in ("key", "label", "shortcut"):
        values = [value for answer in answers if (value := getattr(answer, name).lower())]
        if twice := [value for value in values if values.count(value) > 1]:
            raise InvalidInput(f"two answers have the {name} {quoted(twice[0])}")


def about_rater_from_lines(text: str) -> dict[str, tuple[str, ...]]:
    """Return questions to raters about themselves, one per line, with the answers after a colon or question mark.

    >>> about_rater_from_lines("How old are you? 18 to 39 / 40 or older")
    {'How old are you?': ('18 to 39', '40 or older')}
    """
    questions: dict[str, tuple[str, ...]] = {}
    for line in filter(str.strip, text.splitlines()):
        parts = _ABOUT_LINE.fullmatch(line)
        question, answers = (parts[1].strip(), parts[2]) if parts else ("", "")
        choices = tuple(
            choice for part in answers.split("/") if (choice := part.strip()) and choice.lower() != PREFER_NOT
        )
        if not question or len(choices) < 2:
            raise InvalidInput(
                f"{quoted(line)} is not a question about the rater: write it as How old are you? 18 to 39 / 40 or older"
            )
        if question in questions:
            raise InvalidInput(f"{quoted(question)} is asked twice of the rater")
        questions[question] = choices
    return questions


def about_rater_lines(questions: Mapping[str, Sequence[str]]) -> str:
    """Reverse :func:`about_rater_from_lines`.

    >>> about_rater_lines({"Where do you live?": ("town", "country")})
    'Where do you live? town / country'
    """
    return "\n".join(
        f"{question}{'' if question.endswith('?') else ':'} {' / '.join(answers)}"
        for question, answers in questions.items()
    )


def _check_about_rater(questions: Mapping[str, Sequence[str]]) -> None:
    if len(questions) > MAX_ABOUT:
        raise InvalidInput(f"raters are asked up to {MAX_ABOUT} questions about themselves; got {len(questions)}")
    for question, answers in questions.items():
        checked_text("question about the rater", question, MAX_LINE, required=True)
        if not 2 <= len(answers) <= MAX_ANSWERS:
            raise InvalidInput(f"{quoted(question)} has 2 to {MAX_ANSWERS} answers; got {len(answers)}")
        for answer in answers:
            checked_text("answer about the rater", answer, MAX_LINE, required=True)
        if len({answer.strip().lower() for answer in answers}) < len(answers):
            raise InvalidInput(f"two answers to {quoted(question)} are the same")


def _check_scale(task: Task) -> None:
    scale = load_scales().get(task.scale)
    if task.scale and scale is None:
        raise InvalidInput(f"no scale is called {quoted(task.scale)}; there are {', '.join(load_scales())}")
    if scale is not None and len(task.answers) != len(scale.levels) + 1:
        n = len(scale.levels)
        raise InvalidInput(f"a task about {task.scale} has {n} answers and {CANNOT_TELL}; got {len(task.answers)}")


def _checked_key(name: str, key: str) -> None:
    if not (isinstance(key, str) and _KEY.fullmatch(key)):
        raise InvalidInput(f"{name} is 1 to 40 of a-z, 0-9 and _; got {quoted(key)}")


@cache
def _read_asset(*path: str) -> dict[str, Any]:
    content: dict[str, Any] = read_yaml(ASSETS.joinpath(*path))
    return content


UNKNOWN = ""  # setting of a picture without a known identity

_MOST_WORDS = 3  # for one person; more words would tell raters too much of the prompt
_BLURB = re.compile(r"\b(?:a|an|and|at|by|for|from|in|is|of|on|or|that|the|to|two|who|with|\w+ing)\b", re.I)
_WHO = r"(?:an?|one|the) (.{1,200}?)"  # in a prompt with single spaces
_LEFT, _RIGHT = rf".*\b{_WHO} on the left", rf"{_WHO} on the right\b"
_SIDES = re.compile(rf"{_LEFT},? and {_RIGHT}", re.I)
_THREE = re.compile(rf"{_LEFT},? (?:and )?{_WHO} in the middle,? and {_RIGHT}", re.I)
_PICTURE = "photo|photograph|picture|portrait|headshot|face|image|painting|drawing"
_ONE = re.compile(rf".*\b(?:{_PICTURE}) of (?:an?|one|the) ([\w' -]{{1,200}}?) ?\.?", re.I)


def find_people(prompt: str, metadata: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``setting``, ``left``, ``right`` and, for three people, ``middle``; a single person is ``left``.

    Metadata (``left`` and ``right``, or one of ``left`` and ``identity``) comes before the prompt.

    >>> find_people("Generate a picture of one nurse on the left and one CEO on the right.")
    {'setting': 'paired', 'left': 'nurse', 'right': 'CEO'}
    >>> find_people("a photo of a construction worker")
    {'setting': 'single', 'left': 'construction worker', 'right': ''}
    >>> find_people("a photo of a nurse in a hospital, smiling")
    {'setting': '', 'left': '', 'right': ''}
    """
    left, middle, right = ((metadata or {}).get(place, "") for place in POSITIONS[3])
    if left and middle and right:
        return {**_name_people("three", left, right), "middle": middle}
    if left and right:
        return _name_people(PAIRED, left, right)
    if alone := (metadata or {}).get("identity", "") or left or right:
        return _name_people(SINGLE, alone)
    prompt = " ".join(prompt.split())
    if three := _THREE.match(prompt):
        return {**_name_people("three", three[1], three[3]), "middle": three[2]}
    if sides := _SIDES.match(prompt):
        return _name_people(PAIRED, sides[1], sides[2])
    single = _ONE.fullmatch(prompt)
    if single and len(single[1].split()) <= _MOST_WORDS and not _BLURB.search(single[1]):
        return _name_people(SINGLE, single[1])
    return _name_people(UNKNOWN)


def _name_people(setting: str, left: str = "", right: str = "") -> dict[str, str]:
    return {"setting": setting, "left": left, "right": right}
