"""Files of people's answers: a table, an export of Label Studio or CVAT; what was understood, and which pictures match.

To read another tool, add a function to :data:`READERS`: help texts and upload fields take their endings from it.
"""

import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

import pandas as pd

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.tables import read_table
from bias_core.study.types import StudyTable, table
from bias_core.values import read_json

_MOST_BYTES = 64_000_000  # of an export
_LONGEST_NAME, _SHOWN = 1000, 3  # characters of a picture's name; examples of a kind
_PICTURE_COLUMNS = ("image_id", "image", "file_name", "image_file_name", "filename", "picture")
_ANSWER_COLUMNS = ("answer", "choice", "label")
_POSITION_COLUMNS, _RATER_COLUMNS = ("position", "question"), ("rater", "annotator", "annotation_id")
_UPLOAD_PREFIX = re.compile(r"[0-9a-f]{8}-(?=.)")  # Label Studio's, of uploaded files
_SEVERAL, _NO_ANSWER = "several choices in one answer, so nothing is counted", "no answer"
_NO_PICTURE = "no picture is named"
_CHECK, _CANCELLED = "attention checks, whose answers are known", "cancelled by their raters"


@dataclass(frozen=True, kw_only=True)
class ReadAnswer:
    """One answer in a file; ``passed_over`` says why it does not count, "" if it may."""

    place: str  # such as "line 4" or "task 2"
    picture: str  # its name or address in the file
    answer: str = ""
    position: str = ""
    rater: str = ""
    passed_over: str = ""


NOT_COUNTED = "do not count:"
"""Words of a note on answers without effect, which a headline repeats."""


@dataclass(frozen=True, kw_only=True)
class AnswerLook:
    """A file of answers as it was understood, before any number is made of it.

    The numbers of answers that match a picture, that match none and that are passed over are together all answers.
    """

    name: str
    columns: Mapping[str, str]  # of picture, question, answer and rater, in its words
    n: int
    raters: Counter[str]
    positions: Counter[str]
    answers: Counter[str]
    passed_over: Mapping[str, Sequence[str]]  # places by reason
    found_by: Mapping[str, int] = field(default_factory=dict)  # how pictures of a run were matched, with numbers
    unmatched: Sequence[str] = ()  # pictures that the run does not have, with their places

    def lines(self) -> Iterator[str]:
        """Yield what a person should know, in sentences."""
        columns = ", ".join(f"{what} from {column}" for what, column in self.columns.items() if column)
        yield f"{self.name}: {self.n:,} answers ({columns})."
        n_raters = len(self.raters)
        said = ", ".join(f"{answer} ({n:,})" for answer, n in self.answers.most_common(8))
        where = f" about {_listed(self.positions)}" if set(self.positions) - {""} else ""
        yield f"Answers: {said}{where}, of {n_raters:,} {'person' if n_raters == 1 else 'people'}."
        if self.found_by:
            ways = ", ".join(f"{n:,} by {way}" for way, n in self.found_by.items())
            yield f"{sum(self.found_by.values()):,} answers match a picture of the run: {ways}."
        yield from self.not_counted()

    def not_counted(self) -> Iterator[str]:
        """Yield which answers do not count, and why."""
        for reason, places in self.passed_over.items():
            yield f"{len(places):,} of {self.n:,} answers in {self.name} {NOT_COUNTED} {reason} ({_examples(places)})."
        if self.unmatched:
            where = f"pictures that the run does not have ({_examples(self.unmatched)})"
            yield f"{len(self.unmatched):,} of {self.n:,} answers in {self.name} {NOT_COUNTED} {where}."


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name or 'no position'} ({n:,})" for name, n in counts.most_common(8))


def _examples(given: Sequence[str]) -> str:
    places = list(dict.fromkeys(given))
    return "; ".join(places[:_SHOWN]) + (f"; and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else "")


def read_answer_file(path: Path) -> tuple[list[ReadAnswer], AnswerLook]:
    """Return all answers in a file, and what was understood of it.

    Raises StorageError: it cannot be read. InvalidInput: its tool is not known, or it lacks a column.
    """
    try:
        with path.open("rb") as opened:
            start = opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        by_content = {b"[": _read_json, b"<": _read_xml}  # whatever a file is called
        columns, answers = by_content.get(start, READERS.get(path.suffix.lower(), _read_table))(path)
    except OSError as error:
        raise StorageError(f"cannot read people's answers {path}: {error}") from error
    passed_over, may_count = defaultdict[str, list[str]](list), [answer for answer in answers if not answer.passed_over]
    for answer in answers:
        if answer.passed_over:
            passed_over[answer.passed_over].append(answer.place)
    look = AnswerLook(
        name=path.name,
        columns=columns,
        n=len(answers),
        raters=Counter(answer.rater for answer in may_count),
        positions=Counter(answer.position for answer in may_count),
        answers=Counter(answer.answer for answer in may_count),
        passed_over=dict(passed_over),
    )
    return answers, look


_Read = tuple[Mapping[str, str], list[ReadAnswer]]


def _read_table(path: Path) -> _Read:
    rows = list(
        read_table(
            path.name,
            path.read_bytes(),
            needs=[_PICTURE_COLUMNS, _ANSWER_COLUMNS],
            further=(*_POSITION_COLUMNS, *_RATER_COLUMNS),
        )
    )
    there = {column for _, row in rows for column in row}
    kinds = {
        "picture": _PICTURE_COLUMNS,
        "answer": _ANSWER_COLUMNS,
        "question": _POSITION_COLUMNS,
        "rater": _RATER_COLUMNS,
    }
    columns = {kind: next((name for name in names if name in there), "") for kind, names in kinds.items()}
    answers = []
    for place, row in rows:
        cells = {kind: str(row.get(column) or "").strip() if column else "" for kind, column in columns.items()}
        if cells["picture"] or cells["answer"]:
            answers.append(
                ReadAnswer(
                    place=place, picture=cells["picture"], answer=cells["answer"], position=cells["question"],
                    rater=cells["rater"], passed_over="" if cells["answer"] else _NO_ANSWER,
                )
            )  # fmt: skip
    return columns, answers


def _read_json(path: Path) -> _Read:
    """Read an export of Label Studio: its JSON, or its smaller JSON-MIN; JSON lines are a table."""
    with path.open("rb") as opened:
        data = opened.read(_MOST_BYTES)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return _read_table(path)
    try:
        tasks = read_json(data)
        if not all(isinstance(task, dict) for task in tasks):
            raise TypeError
        is_full = any("annotations" in task for task in tasks)
        read = _read_task if is_full else _read_small_task
        answers = [answer for i, task in enumerate(tasks, start=1) for answer in read(f"task {i}", task)]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path.name} has another form than the JSON that Label Studio exports") from error
    question, rater = ("from_name", "completed_by") if is_full else ("the names of columns", "annotator")
    return {"picture": "the task's data", "question": question, "answer": "choices", "rater": rater}, answers


def _read_task(place: str, task: Mapping[str, Any]) -> Iterator[ReadAnswer]:
    annotations = task.get("annotations") or []
    picture = _picture_of(task["data"])
    # Our own export gives the known answer of an attention check as an annotation of nobody.
    is_check = "image_id" in task["data"] and any(
        annotation.get("ground_truth") and not any("meta" in result for result in annotation["result"])
        for annotation in annotations
    )
    for number, annotation in enumerate(annotations, start=1):
        for result in annotation.get("result") or []:
            value = result.get("value") or {}
            given = [str(choice) for choice in value.get("choices") or ([value["rating"]] if "rating" in value else [])]
            if not given:
                continue  # a relation, a region, a text: no answer to a question
            raters = (result.get("meta") or {}).get("text") or [annotation.get("completed_by", number)]
            rater = raters[0].get("email") or raters[0].get("id") if isinstance(raters[0], dict) else raters[0]
            reasons = {
                _NO_PICTURE: not picture,
                _CHECK: is_check, _CANCELLED: bool(annotation.get("was_cancelled")), _SEVERAL: len(set(given)) > 1,
            }  # fmt: skip
            reason = next((reason for reason, holds in reasons.items() if holds), "")
            yield ReadAnswer(place=place, picture=picture, answer=given[0], position=str(result.get("from_name") or ""),
                             rater=str(rater), passed_over=reason)  # fmt: skip


_OF_A_TASK = frozenset({"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "image_id"})


def _read_small_task(place: str, task: Mapping[str, Any]) -> Iterator[ReadAnswer]:
    """Read JSON-MIN: the task's data and its answers are one table, a text for one choice."""
    picture, rater = _picture_of(task), str(task.get("annotator") or task.get("annotation_id") or "")
    for name, value in task.items():
        given = value.get("choices") if isinstance(value, Mapping) else [value] if isinstance(value, str) else None
        if name in _OF_A_TASK or not given or _is_picture(name, value):
            continue
        reason = _SEVERAL if len(set(map(str, given))) > 1 else ""
        yield ReadAnswer(
            place=place, picture=picture, answer=str(given[0]), position=name, rater=rater, passed_over=reason
        )


def _picture_of(data: Mapping[str, Any]) -> str:
    """Return the picture's id or address in a task's data."""
    if isinstance(data.get("image_id"), str):
        return str(data["image_id"])
    return next((value for name, value in data.items() if _is_picture(name, value)), "")


def _is_picture(name: str, value: Any) -> bool:
    is_file = isinstance(value, str) and PurePosixPath(urlsplit(value).path).suffix.lower() in (
        ".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp",
    )  # fmt: skip
    return isinstance(value, str) and (is_file or name.lower() in ("image", "img", "picture") or "/data/" in value)


def _read_xml(path: Path) -> _Read:
    """Read CVAT's XML for images: a tag for the picture, or its attributes, are the answers."""
    with path.open("rb") as opened:
        data = opened.read(_MOST_BYTES)
    if b"<!ENTITY" in data or b"<!DOCTYPE" in data:
        raise InvalidInput(f"{path.name} declares entities, which no export of CVAT does")
    try:
        root = ElementTree.parse(io.BytesIO(data)).getroot()
    except ElementTree.ParseError as error:
        raise InvalidInput(f"{path.name} is no readable XML: {error}") from error
    if root.tag != "annotations":
        raise InvalidInput(f"{path.name} is XML, but not CVAT's for images: its first tag is <{root.tag[:40]}>")
    owners = [owner.text or "" for owner in root.iter("username")]
    answers = []
    for image in root.iter("image"):
        place, picture = f"image {image.get('id', '')}", image.get("name", "")
        for shape in image:
            attributes = {one.get("name", ""): (one.text or "").strip() for one in shape.iter("attribute")}
            given = attributes or ({"": shape.get("label", "")} if shape.tag == "tag" else {})
            answers += [
                ReadAnswer(
                    place=place,
                    picture=picture,
                    answer=answer,
                    position=position,
                    rater=owners[0] if owners else "",
                    passed_over="" if answer else _NO_ANSWER,
                )
                for position, answer in given.items()
            ]
    return {
        "picture": "the image's name",
        "question": "attributes",
        "answer": "their values",
        "rater": "the task",
    }, answers


READERS: Mapping[str, Callable[[Path], _Read]] = {
    ".csv": _read_table, ".tsv": _read_table, ".jsonl": _read_table, ".json": _read_json, ".xml": _read_xml,
}  # fmt: skip
"""Readers of answers by the ending of their files; others are read as a table."""
ENDINGS = tuple(READERS)


def match_picture(name: str, image_ids: Collection[str]) -> tuple[str, str]:
    """Return the picture that a name, path or address means, and in words by what it was found; ("", "") if none.

    >>> match_picture("/data/local-files/?d=a%2F1a2b3c4d-x1.png", {"x1"})
    ('x1', 'the file name after “1a2b3c4d-”')
    >>> match_picture("x1", {"x1"}), match_picture("s3://bucket/x1.png", {"x1"}), match_picture("x2.png", {"x1"})
    (('x1', 'id'), ('x1', 'the file name in an address'), ('', ''))
    """
    name = name.strip()[:_LONGEST_NAME]
    if name in image_ids:
        return name, "id"
    parts = urlsplit(name)
    inner = parse_qs(parts.query).get("d", [parts.path if parts.scheme or parts.query else name])[0]
    file = unquote(inner).replace("\\", "/").rpartition("/")[2]
    way = "the file name in an address" if parts.scheme or parts.query or "/" in inner else "the file name"
    for text, found in ((file, way), _without_prefix(file, way)):
        for candidate in (text, text.rpartition(".")[0]):
            if candidate and candidate in image_ids:
                return candidate, found
    return "", ""


def _without_prefix(file: str, way: str) -> tuple[str, str]:
    prefix = _UPLOAD_PREFIX.match(file)
    return (file[prefix.end() :], f"the file name after “{prefix[0]}”") if prefix else (file, way)


def match_answers(answers: pd.DataFrame, image_ids: Collection[str]) -> pd.DataFrame:
    """Return answers of a file with the ids of their pictures, in place of names and addresses that mean one.

    The look of the file, ``answers.attrs["look"]``, then says by what each was found. Answers of tasks are unchanged.
    """
    look: AnswerLook | None = answers.attrs.get(LOOK)
    if look is None:
        return answers
    ids = set(image_ids)
    found = {name: match_picture(name, ids) for name in answers["image_id"].unique()}
    ways = [found[name][1] for name in answers["image_id"]]
    pairs = zip(answers.index, answers["image_id"], ways, strict=True)
    answers.attrs[LOOK] = replace(
        look,
        found_by=Counter(re.sub("“[0-9a-f]{8}-”", "a prefix of an upload", way) for way in ways if way),
        unmatched=[f"{place}: {name[:80]}" for place, name, way in pairs if not way],
    )
    matched = answers.assign(image_id=[found[name][0] or name for name in answers["image_id"]])
    matched.attrs = {}
    return matched


LOOK = "look"
"""Key of an :class:`AnswerLook` in the attributes of the frame of a file's answers."""


def look_table(look: AnswerLook) -> StudyTable:
    """Return what was understood of a file of answers, as a table of a report."""
    counts = {
        "answers in the file": (look.n, ", ".join(f"{what}: {name}" for what, name in look.columns.items() if name)),
        "people": (len(look.raters), ""),
        **{f"found by {way}": (n, "") for way, n in look.found_by.items()},
        "of pictures that the run does not have": (len(look.unmatched), _examples(look.unmatched)),
        **{reason: (len(places), _examples(places)) for reason, places in look.passed_over.items()},
    }
    rows = [{"what": what, "n": n, "examples": examples} for what, (n, examples) in counts.items() if n]
    return table("answers_understood", "What was understood of the answers", rows, f"From {look.name}.")
