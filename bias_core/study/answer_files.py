"""Files of people's answers: a table, an export of Label Studio or CVAT; what was understood, and which pictures match.

To read another tool, add a function to :data:`READERS`: help texts and upload fields take their endings from it. JSON
lists and XML of any tool go to the readers of :data:`BY_START`, which tell tools apart.
"""

import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.reader import TooMuch, limit_file, read_apart
from bias_core.store.tables import Row, read_table
from bias_core.study.label_tasks import POSITIONS
from bias_core.study.picture_names import is_picture
from bias_core.study.types import StudyTable, table
from bias_core.values import read_json
from bias_core.wording import format_counts, format_list

_BLANKS = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"  # and marks of encodings
_MOST_NAMED, _LONGEST_SHOWN = 8, 80  # names with their numbers; characters of a name
_PICTURE_COLUMNS = ("image_id", "image", "file_name", "image_file_name", "filename", "picture")
_ANSWER_COLUMNS = ("answer", "choice", "label")
_POSITION_COLUMNS, _RATER_COLUMNS = ("position", "question"), ("rater", "annotator", "annotation_id")
_KNOWN = "known"  # column of our own export: the answer to an attention check
_TASK_COLUMNS = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"})
_SEVERAL, NO_ANSWER = "several choices in one answer, so nothing is counted", "no answer"
_NO_PICTURE, _TWO_PICTURES = "no picture is named", "their task shows several pictures"
BY_MACHINES = "answers of machines, not of people"
_CHECK, _CANCELLED = "attention checks, whose answers are known", "cancelled by their raters"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadAnswer:
    """One answer in a file; ``passed_over`` says why it does not count, "" if it may."""

    place: str  # such as "line 4" or "task 2"
    picture: str  # its name or address in the file
    answer: str = ""
    position: str = ""
    rater: str = ""
    passed_over: str = ""
    is_number: bool = False  # stars or a number, in a control of their own
    # of the run, set by :func:`bias_core.study.answer_fit.fit_answers`
    image_id: str = ""
    found_by: str = ""


NOT_COUNTED = "do not count:"
"""Words of a note on answers without effect, which a headline repeats."""


@dataclass(frozen=True, kw_only=True)
class AnswerLook:
    """A file of answers as it was understood, before any number is made of it.

    The answers that count and those that are passed over are together all answers.
    """

    name: str
    columns: Mapping[str, str]  # of picture, question, answer and rater, in its words
    read: Sequence[ReadAnswer]
    is_wide: bool = False  # a table with a column for each question, and others that only a run tells from them
    question_columns: Sequence[str] = ()
    other_columns: Sequence[
        str
    ] = ()  # not read; in a wide table that no run has chosen from, all that may be questions

    def __deepcopy__(self, _memo: object) -> "AnswerLook":
        """Return the look itself: pandas copies what a frame carries with every column."""
        return self

    @property
    def n(self) -> int:
        """Number of answers; a question that a rater skipped is none."""
        return sum(answer.passed_over != NO_ANSWER for answer in self.read)

    @property
    def counted(self) -> list[ReadAnswer]:
        """The answers that count."""
        return [answer for answer in self.read if not answer.passed_over]

    @property
    def skipped(self) -> list[str]:
        """Places of questions without an answer."""
        return [answer.place for answer in self.read if answer.passed_over == NO_ANSWER]

    @property
    def passed_over(self) -> dict[str, list[str]]:
        """Places of answers that do not count, by reason."""
        places = defaultdict[str, list[str]](list)
        for answer in self.read:
            if answer.passed_over not in ("", NO_ANSWER):
                places[answer.passed_over].append(answer.place)
        return dict(places)

    @property
    def counts_by_way(self) -> Counter[str]:
        """Numbers of answers by the way in which their pictures of a run were found."""
        return Counter(answer.found_by for answer in self.read if answer.found_by)

    def lines(self) -> Iterator[str]:
        """Yield what a person should know, in sentences."""
        columns = ", ".join(f"{content} from {column}" for content, column in self.columns.items() if column)
        yield f"{self.name}: {self.n:,} answers ({columns})."
        if self.question_columns:
            yield f"Columns taken as questions: {', '.join(self.question_columns)}."
        if self.other_columns and (self.question_columns or not self.is_wide):
            yield f"Columns not read: {', '.join(self.other_columns)}."
        counted = self.counted
        said = format_names(answer.answer for answer in counted)
        named = [answer.position for answer in counted]
        where = f" about {format_names(named)}" if any(named) else ""
        n_raters = count_raters(answer.rater for answer in counted)
        whose = f"of {n_raters:,} {'person' if n_raters == 1 else 'people'}" if n_raters else NO_RATER
        yield f"Answers: {said}{where}, {whose}."
        yield from self.similar_raters()
        if self.counts_by_way:
            ways = ", ".join(f"{n:,} by {way}" for way, n in self.counts_by_way.items())
            yield f"{self.counts_by_way.total():,} answers match a picture of the run: {ways}."
        else:
            yield "Which answers count is decided once the pictures of the run are known; its model is not here yet."
        yield from self.without_effect()

    def similar_raters(self) -> Iterator[str]:
        """Yield that raters whose names differ only by case or blanks count as different people, if there are any."""
        spellings = defaultdict[str, dict[str, None]](dict)
        for answer in self.counted:
            spellings["".join(answer.rater.split()).casefold()][answer.rater] = None
        if similar := [" and ".join(f"“{name}”" for name in names) for names in spellings.values() if len(names) > 1]:
            yield (
                f"Raters in {self.name} whose names differ only by case or blanks count as different people: "
                f"{format_examples(similar)}. Write one person’s name in one way."
            )

    def without_effect(self) -> Iterator[str]:
        """Yield what was skipped and what does not count."""
        if n := len(self.skipped):
            questions = "question was" if n == 1 else "questions were"
            yield f"{n:,} {questions} skipped, without an answer ({format_examples(self.skipped)})."
        yield from self.not_counted()

    def not_counted(self) -> Iterator[str]:
        """Yield which answers do not count, and why."""
        for reason, places in self.passed_over.items():
            examples = format_examples(places)
            yield f"{len(places):,} of {self.n:,} answers in {self.name} {NOT_COUNTED} {reason} ({examples})."


NO_RATER = "without a rater"
"""Words on answers whose raters are not known."""


def count_raters(raters: Iterable[str]) -> int:
    """Return the number of different raters; 0 if none is known.

    >>> count_raters(["ann", "bob", "ann"]), count_raters(["ann", ""]), count_raters(["", ""])
    (2, 2, 0)
    """
    different = {*raters}
    return len(different) if any(different) else 0


def format_names(names: Iterable[str]) -> str:
    """Return the most frequent names with their numbers."""
    counts = Counter(name[:_LONGEST_SHOWN] or "no position" for name in names)
    return format_counts(counts, limit=_MOST_NAMED)


def format_examples(examples: Sequence[str]) -> str:
    """Return the first different examples, and the number of others."""
    return format_list(list(dict.fromkeys(examples)), "; ")


def read_answer_file(path: Path) -> AnswerLook:
    """Return all answers in a file, and what was understood of it; a reader opens it.

    Raises StorageError: it cannot be read. InvalidInput: its tool is not known, or it lacks a column.
    """
    try:
        look: AnswerLook = read_apart(parse_answer_file, str(path.absolute()))
    except TooMuch as error:
        raise InvalidInput(f"{path.name} {error}") from error
    return look


def parse_answer_file(file: str) -> AnswerLook:
    """Read a file of answers, in a reader."""
    path = Path(file)
    with limit_file(path.name, times=5):
        try:
            data = path.read_bytes()
            start = data[:64].lstrip(_BLANKS)[:1]
            read = BY_START.get(start) or READERS.get(path.suffix.lower(), _read_table)
            return read(path.name, data)
        except OSError as error:
            raise StorageError(f"cannot read people's answers {path.name}: {error.strerror or error}") from error
        except RecursionError as error:
            raise InvalidInput(f"{path.name} has lists nested too deep") from error


def _read_table(name: str, data: bytes) -> AnswerLook:
    read = partial(read_table, name, data)
    _, first = next(read(needs=()), ("", {}))
    look = _look_at_rows(name, list(read(needs=()))) if _is_wide_table(first) else None
    if look is None or not look.is_wide:
        needs, further = [_PICTURE_COLUMNS, _ANSWER_COLUMNS], (*_POSITION_COLUMNS, *_RATER_COLUMNS)
        look = _look_at_rows(name, list(read(needs=needs, further=further)))
    return look or AnswerLook(name=name, columns={}, read=())


def _is_wide_table(columns: Collection[str]) -> bool:
    """Return True for a table with a column for each question, as Label Studio exports it."""
    is_long = any(column in columns for column in (*_ANSWER_COLUMNS, *_POSITION_COLUMNS))
    return not is_long or ("lead_time" in columns and not {"annotator", "annotation_id"}.isdisjoint(columns))


def _look_at_rows(name: str, rows: Sequence[Row]) -> AnswerLook | None:
    """Read a table with one answer in a line, or a column for each question; None if it lacks pictures or answers."""
    columns = dict.fromkeys(column for _, row in rows for column in row)
    cells = {column: [row[column] for _, row in rows if not is_blank_cell(row.get(column))] for column in columns}
    of_pictures = [column for column in columns if cells[column] and all(is_picture(column, c) for c in cells[column])]
    picture, answer, question, rater = (
        next((column for column in names if column in columns), "")
        for names in (
            (*_PICTURE_COLUMNS, *of_pictures * (len(of_pictures) == 1)),
            _ANSWER_COLUMNS, _POSITION_COLUMNS, _RATER_COLUMNS,
        )
    )  # fmt: skip
    is_wide = _is_wide_table(columns)
    no_questions = {"", *_TASK_COLUMNS, *_PICTURE_COLUMNS, *of_pictures, picture, rater}
    questions = [column for column in columns if column not in no_questions] if is_wide else [answer]
    if not picture or not any(questions):
        return None
    read = []
    for place, row in rows:
        shown, person = (_cell_text(row.get(column)) for column in (picture, rater))
        for column in questions:
            value = row.get(column)
            given = _get_choices(value)
            if not given and not is_blank_cell(value) and is_wide:
                continue  # a region: no answer to a question
            reasons = {
                NO_ANSWER: not given, _NO_PICTURE: not shown, _SEVERAL: len({*given}) > 1,
                _CHECK: not is_wide and not is_blank_cell(row.get(_KNOWN)),
            }  # fmt: skip
            if shown or given:
                read.append(
                    ReadAnswer(
                        place=place, picture=shown, answer=next(iter(given), ""), rater=person,
                        position=column if is_wide else _cell_text(row.get(question)),
                        passed_over=next((reason for reason, holds in reasons.items() if holds), ""),
                    )
                )  # fmt: skip
    names = {"picture": picture, "answer": answer, "question": question, "rater": rater}
    return AnswerLook(
        name=name,
        columns=names | {"answer": "their cells", "question": "the names of columns"} if is_wide else names,
        read=read,
        is_wide=is_wide,
        other_columns=questions
        if is_wide
        else [column for column in columns if column not in {"", _KNOWN, *names.values()}],
    )


def _get_choices(value: Any) -> list[str]:
    """Return the choices or the number in a cell; [] for none, and for regions and the like.

    >>> _get_choices(" yes "), _get_choices('{"choices": ["left", "right"]}'), _get_choices(4), _get_choices([{"x": 1}])
    (['yes'], ['left', 'right'], ['4'], [])
    """
    if isinstance(value, str) and value.strip().startswith(("{", "[")):
        try:
            value = read_json(value)
        except ValueError:
            return [value.strip()]
    if isinstance(value, Mapping):
        return _get_choices(next((value[name] for name in ("choices", "rating", "number") if name in value), None))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text for item in value for text in _get_choices(item)]
    return [_cell_text(value)] if _cell_text(value) else []


def _cell_text(value: Any) -> str:
    """Return a cell's text or number as a text."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value).strip()


def is_blank_cell(value: Any) -> bool:
    """Return True for a cell with nothing in it."""
    return value is None or (not isinstance(value, bool | int | float) and not str(value).strip())


def _read_label_studio(name: str, data: bytes) -> AnswerLook:
    """Read an export of Label Studio: its JSON, or its smaller JSON-MIN; JSON lines are a table."""
    try:
        tasks = read_json(data)
    except ValueError as error:
        if not data.lstrip(_BLANKS).startswith(b"["):
            return _read_table(name, data)  # JSON lines
        raise InvalidInput(f"{name} is no readable JSON: {error}") from error
    try:
        tasks = tasks if isinstance(tasks, list) else [tasks]
        if not all(isinstance(task, dict) for task in tasks):
            raise TypeError
        places = [f"task {i}" for i in range(1, len(tasks) + 1)]
        if any("annotations" in task for task in tasks):
            read = [answer for pair in zip(places, tasks, strict=True) for answer in _read_task(*pair)]
            columns = {"picture": "the task's data", "question": "from_name", "answer": "choices"}
            return AnswerLook(name=name, columns=columns | {"rater": "completed_by"}, read=read)
        rows = [{clean_word(str(key)): value for key, value in task.items()} for task in tasks]
        if (look := _look_at_rows(name, list(zip(places, rows, strict=True)))) is not None or not tasks:
            return look or AnswerLook(name=name, columns={}, read=())
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} has another form than the JSON that Label Studio exports") from error
    raise InvalidInput(
        f"{name} has another form than the JSON that Label Studio exports: no picture or no answer in it"
    )


def _read_task(place: str, task: Mapping[str, Any]) -> Iterator[ReadAnswer]:
    annotations = task.get("annotations") or []
    pictures = _find_pictures(task["data"])
    picture = pictures[0] if pictures else ""
    # Our own export gives the known answer of an attention check as an annotation of nobody.
    is_check = "image_id" in task["data"] and any(
        annotation.get("ground_truth") and not any("meta" in result for result in annotation["result"])
        for annotation in annotations
    )
    for number, annotation in enumerate(annotations, start=1):
        has_answer = False
        for result in annotation.get("result") or []:
            value = result.get("value") or {}
            if not (
                given := _get_choices({name: value[name] for name in ("choices", "rating", "number") if name in value})
            ):
                continue  # a relation, a region, a text: no answer to a question
            raters = (result.get("meta") or {}).get("text") or [annotation.get("completed_by", number)]
            rater = raters[0].get("email") or raters[0].get("id") if isinstance(raters[0], dict) else raters[0]
            reasons = {
                _NO_PICTURE: not picture, _TWO_PICTURES: len(pictures) > 1,
                _CHECK: is_check, _CANCELLED: bool(annotation.get("was_cancelled")), _SEVERAL: len({*given}) > 1,
            }  # fmt: skip
            reason, has_answer = next((reason for reason, holds in reasons.items() if holds), ""), True
            yield ReadAnswer(place=place, picture=picture, answer=given[0], position=str(result.get("from_name") or ""),
                             rater=str(rater), passed_over=reason, is_number="choices" not in value)  # fmt: skip
        if not has_answer:
            yield ReadAnswer(place=place, picture=picture, passed_over=NO_ANSWER)


def _find_pictures(data: Mapping[str, Any]) -> list[str]:
    """Return the picture's id or address in a task's data; several if no name says which is meant."""
    named = [data[name] for name in _PICTURE_COLUMNS if isinstance(data.get(name), str)]
    return named[:1] or list(dict.fromkeys(value for name, value in data.items() if is_picture(name, value)))


_BY_MODEL = "auto"  # source of shapes that a model made; of those that a person made with a tool it is "semi-auto"


class _WithoutEntities(ElementTree.TreeBuilder):
    def doctype(self, name: str, *_ids: str | None) -> None:
        """Refuse a document type, in which entities are declared, in any encoding."""
        raise InvalidInput(f"it declares a document type {name[:40]}, which no export of CVAT does")


def _read_xml(name: str, data: bytes) -> AnswerLook:
    """Read CVAT's XML for images: a tag for the picture, or its attributes, are the answers."""
    try:
        root = ElementTree.parse(io.BytesIO(data), ElementTree.XMLParser(target=_WithoutEntities())).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        several = " (several exports in one file: export the project of their tasks)" if "junk" in str(error) else ""
        raise InvalidInput(f"{name} is no readable XML: {error}{several}") from error
    if root.tag != "annotations":
        raise InvalidInput(f"{name} is XML, but not CVAT's for images: its first tag is <{root.tag[:40]}>")
    if root.find("track") is not None:
        raise InvalidInput(f"{name} is CVAT's XML for video; export it as “CVAT for images”")
    raters, answers = _find_raters(root), list[ReadAnswer]()
    only_rater = next(iter(raters.values())) if len(raters) == 1 else ""
    for image in root.iter("image"):
        place, picture, task = f"image {image.get('id', '')}", image.get("name", ""), image.get("task_id", "")
        rater = raters.get(task, only_rater or f"task {task}" * bool(task))
        place = f"task {task}, {place}" if task else place
        given = [(*pair, shape.get("source")) for shape in image for pair in _answers_of_shape(shape)]
        answers += [
            ReadAnswer(
                place=place, picture=picture, answer=answer, position=position, rater=rater,
                passed_over=NO_ANSWER if not answer else BY_MACHINES if source == _BY_MODEL else "",
            )
            for position, answer, source in given or [("", "", None)]
        ]  # fmt: skip
    names = {"picture": "the image's name", "question": "attributes", "answer": "their values or the tag"}
    return AnswerLook(name=name, columns=names | {"rater": "the task's assignee or owner"}, read=answers)


def _find_raters(root: ElementTree.Element) -> dict[str, str]:
    """Return who answered, by the task or job of a CVAT export: its assignee, else its owner.

    Tasks of one owner without assignees may be of several people, so that each counts as one.
    """
    parts = [part for tag in ("task", "job") for part in root.findall(f"meta//{tag}")]
    ids = [part.findtext("id", "") for part in parts]
    assignees, owners = ([part.findtext(f"{role}/username") or "" for part in parts] for role in ("assignee", "owner"))
    is_shared = [not assignee and owners.count(owner) > 1 for assignee, owner in zip(assignees, owners, strict=True)]
    return {
        task: f"{owner}, task {task}".removeprefix(", ") if shared else assignee or owner
        for task, assignee, owner, shared in zip(ids, assignees, owners, is_shared, strict=True)
    }


def _answers_of_shape(shape: ElementTree.Element) -> list[tuple[str, str]]:
    """Return positions and answers of a tag or region; a tag without attributes is an answer itself.

    A label such as “left” says the position of its attributes.
    """
    label = shape.get("label", "")
    is_place = clean_word(label) in {place for places in POSITIONS.values() for place in places}
    given = [(attribute.get("name", ""), (attribute.text or "").strip()) for attribute in shape.iter("attribute")]
    if not given:
        return [("", label)] if shape.tag == "tag" else []
    return [(f"{label} {name}" if is_place else name, answer) for name, answer in given]


READERS: Mapping[str, Callable[[str, bytes], AnswerLook]] = {
    ".csv": _read_table, ".tsv": _read_table, ".jsonl": _read_table, ".json": _read_label_studio, ".xml": _read_xml,
}  # fmt: skip
"""Readers of answers by the ending of their files; others are read as a table."""
BY_START: Mapping[bytes, Callable[[str, bytes], AnswerLook]] = {b"[": _read_label_studio, b"<": _read_xml}
"""Readers of files by their first byte, whatever a file is called."""
ENDINGS = tuple(READERS)


def clean_word(text: str) -> str:
    """Return a position or an answer without case, blanks and hyphens."""
    return re.sub(r"[\s-]+", "_", text.strip().lower())


LOOK = "look"
"""Key of an :class:`AnswerLook` in the attributes of the frame of a file's answers."""


def look_table(look: AnswerLook) -> StudyTable:
    """Return what was understood of a file of answers, as a table of a report."""
    columns = ", ".join(f"{content}: {name}" for content, name in look.columns.items() if name)
    counts = {
        "answers in the file": (look.n, columns),
        "people": (count_raters(answer.rater for answer in look.counted), ""),
        "columns taken as questions": (len(look.question_columns), ", ".join(look.question_columns)),
        "columns not read": (len(look.other_columns), ", ".join(look.other_columns)),
        **{f"found by {way}": (n, "") for way, n in look.counts_by_way.items()},
        **{reason: (len(places), format_examples(places)) for reason, places in look.passed_over.items()},
        "skipped, without an answer": (len(look.skipped), format_examples(look.skipped)),
        "counted": (len(look.counted), ""),
    }
    rows = [{"what": title, "n": n, "examples": examples} for title, (n, examples) in counts.items() if n]
    return table("answers_understood", "What was understood of the answers", rows, f"From {look.name}.")
