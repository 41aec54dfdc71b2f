"""What stands of pictures in files beside them: a text of the same name, DiffusionDB's parts, ``metadata.parquet``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from bias_core.errors import InvalidInput
from bias_core.exchange.drawing_facts import PictureMetadata, check_length, one_line
from bias_core.exchange.parquet_tables import parquet_rows
from bias_core.exchange.picture_metadata import UNREADABLE, facts_of_text, metadata_of_line
from bias_core.given_values import read_json

PARQUET = "metadata.parquet"
_TEXT_ENDINGS = (".txt", ".caption", ".json")
_NAMES = ("file_name", "image_name", "filename")
_PART = {"p": "prompt", "se": "seed", "c": "cfg", "st": "step", "sa": "sampler"}  # DiffusionDB's names
_SAMPLERS = dict(enumerate(
    ("ddim", "plms", "k_euler", "k_euler_ancestral", "k_heun", "k_dpm_2", "k_dpm_2_ancestral", "k_lms"), start=1
))  # fmt: skip


def sidecars_of(pictures: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """The text file beside each picture that has one, by the names of the pictures."""
    there = set(files)
    names = {one: (PurePosixPath(one).with_suffix("").as_posix(), one) for one in pictures}
    found = {
        one: [base + ending for ending in _TEXT_ENDINGS for base in bases if base + ending in there]
        for one, bases in names.items()
    }
    return {one: texts[0] for one, texts in found.items() if texts}


def facts_of_sidecar(data: bytes) -> PictureMetadata:
    """What a text beside a picture says.

    Raises InvalidInput: it is too long, no text, or in no form that is known.
    """
    try:
        facts = facts_of_text(check_length(data.decode("utf-8-sig")))
    except InvalidInput:
        raise
    except UNREADABLE as error:
        raise InvalidInput("has a form that is not known here") from error
    return facts if any(map(str.isalpha, facts.prompt)) else PictureMetadata()


def facts_of_part(data: bytes) -> dict[str, PictureMetadata]:
    """The facts of DiffusionDB's pictures, by file name, from the JSON of one part; {} for any other file."""
    try:
        table = read_json(data)
        lines = {str(name): {_PART[key]: line[key] for key in _PART if key in line} for name, line in table.items()}
    except (*UNREADABLE, InvalidInput):
        return {}
    return {name: facts for name, line in lines.items() if (facts := _facts(line)).prompt}


def facts_of_parquet(data: bytes) -> Iterator[tuple[str, PictureMetadata]]:
    """The file names (imagefolder's, DiffusionDB's) of a table with a column of prompts, each with its facts.

    Raises InvalidInput: it cannot be read, is too large, or lacks a column; this may come after some of them.
    """
    for row in parquet_rows(data):
        column = next((name for name in _NAMES if name in row), "")
        if not column or not {"prompt", "text", "caption"} & set(row):
            raise InvalidInput("needs file_name and one of prompt, text, caption")
        if row[column] and (facts := _facts(row)).prompt:
            yield str(row[column]), facts


def _facts(line: Mapping[str, Any]) -> PictureMetadata:
    text = next((one for name in ("prompt", "text", "caption") if (one := one_line(line.get(name)))), "")
    sampler = line.get("sampler")
    line = {**line, "sampler": _SAMPLERS.get(sampler, "") if isinstance(sampler, int) else sampler}
    return metadata_of_line(line).over(PictureMetadata(prompt=text))
