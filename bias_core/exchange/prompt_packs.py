"""Prompt packs: prompts of one's own in a table, CSV or JSONL, or a data set of a hub, instead of a design's YAML.

Columns are ``prompt`` (or ``text``), and where they are wanted ``group``, ``n`` (pictures of the prompt) and
``attributes`` (what to look for in the group's pictures, with ; between them); other columns are passed over.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path, PurePosixPath
from typing import Any

from bias_core.errors import HubNotReached, InvalidInput, quoted
from bias_core.exchange.parquet_tables import parquet_rows
from bias_core.exchange.tables import Problems, Row, read_table
from bias_core.given_values import as_whole, check_texts
from bias_core.prompts import MAX_PROMPT_CHARACTERS

ENDINGS = (".csv", ".tsv", ".jsonl")
HUB = "hf://datasets/"
MOST_PROMPTS, MOST_BYTES, MOST_PICTURES = 1000, 5_000_000, 1_000_000
_MOST_ROWS = 10_000  # good and bad ones
_MOST_ATTRIBUTES = 50
_LONGEST_GROUP = 100
_MOST_NAMED = 5  # files in one message
_PROMPT = ("prompt", "text")
_FURTHER = ("group", "n", "attributes")
_HUB_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?:/(?P<file>[^@]+))?")
_ON_HUB = (*ENDINGS, ".parquet")


@dataclass(frozen=True, kw_only=True)
class PackedPrompt:
    """One row of a pack."""

    prompt: str
    group: str = ""
    n: int | None = None  # pictures of it; None: as many as of the others
    attributes: tuple[str, ...] = ()  # to be looked for in its group's pictures, beside those of the run
    place: str = ""  # where it stands in its file


def is_pack(name: str) -> bool:
    """Whether a name is that of a pack: a file by its ending, or a data set of a hub.

    >>> is_pack("my/prompts.CSV"), is_pack("hf://datasets/org/prompts"), is_pack("pst-power")
    (True, True, False)
    """
    return name.lower().endswith(ENDINGS) or name.startswith(HUB)


def read_pack(name: str) -> tuple[PackedPrompt, ...]:
    """The prompts of a file or of a data set of a hub, ``hf://datasets/owner/name[@revision][/file]``.

    Raises InvalidInput: nothing can be read there, or rows of it cannot be used; these are named by their lines.
    HubNotReached: the hub does not answer.
    """
    path = _from_hub(name) if name.startswith(HUB) else Path(name).expanduser()
    shown = name if name.startswith(HUB) else path.name
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{shown} is larger than {MOST_BYTES // 1_000_000} MB, which no pack of prompts is")
        if path.suffix.lower() == ".parquet":
            return checked_prompts(shown, _parquet_rows(shown, path.read_bytes()))
        return checked_prompts(shown, read_table(shown, lambda: path.open("rb"), needs=[_PROMPT], further=_FURTHER))
    except OSError as error:
        raise InvalidInput(f"{shown} cannot be read: {error.strerror or error}") from error


def _parquet_rows(name: str, data: bytes) -> Iterator[Row]:
    try:
        for number, row in enumerate(parquet_rows(data), start=1):
            yield f"row {number}", row
    except InvalidInput as error:
        raise InvalidInput(f"{name} {error}") from error


def checked_prompts(name: str, rows: Iterable[Row]) -> tuple[PackedPrompt, ...]:
    """The prompts of all rows, each with the place where it stands; InvalidInput names the bad ones together."""
    prompts, wrong, places = list[PackedPrompt](), Problems(), dict[str, str]()
    for n_rows, (place, row) in enumerate(rows, start=1):
        if n_rows > _MOST_ROWS:
            raise InvalidInput(f"{name} has more than {_MOST_ROWS:,} rows; a pack has 1 to {MOST_PROMPTS:,} prompts")
        try:
            one = replace(_prompt(row), place=place)
            if one.prompt in places:
                raise InvalidInput(f"the prompt of {places[one.prompt]} again")
            places[one.prompt] = place
            prompts.append(one)
        except InvalidInput as error:
            wrong.add(f"{place}: {error}")
    wrong.refuse(name)
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise InvalidInput(f"{name} has {len(prompts):,} prompts; a pack has 1 to {MOST_PROMPTS:,}")
    return tuple(prompts)


def _prompt(row: Mapping[str, Any]) -> PackedPrompt:
    prompt = _text(row, next((one for one in _PROMPT if one in row), _PROMPT[0]), MAX_PROMPT_CHARACTERS)
    if not prompt:
        raise InvalidInput("has no prompt")
    n = None if _is_empty(row.get("n")) else as_whole(row["n"], "number n of pictures")
    if n is not None and not 1 <= n <= MOST_PICTURES:
        raise InvalidInput(f"n is 1 to {MOST_PICTURES:,}; got {n:,}")
    return PackedPrompt(prompt=prompt, group=_text(row, "group", _LONGEST_GROUP), n=n, attributes=_attributes(row))


def _attributes(row: Mapping[str, Any]) -> tuple[str, ...]:
    given: Any = row.get("attributes")
    if _is_empty(given):
        return ()
    texts = given.split(";") if isinstance(given, str) else list(given) if hasattr(given, "__iter__") else [given]
    if not all(isinstance(one, str) for one in texts):
        raise InvalidInput(f"attributes are names with ; between them; got {quoted(given)}")
    check_texts("attributes", texts, longest=MAX_PROMPT_CHARACTERS)
    names = tuple(dict.fromkeys(" ".join(one.split()) for one in texts if one.strip()))
    if len(names) > _MOST_ATTRIBUTES:
        raise InvalidInput(f"at most {_MOST_ATTRIBUTES} attributes, got {len(names)}")
    return names


def _text(row: Mapping[str, Any], name: str, longest: int) -> str:
    value = row.get(name)
    if _is_empty(value):
        return ""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidInput(f"{name} must be a text; got {quoted(value)}")
    check_texts(name, text := str(value), longest=longest)
    return " ".join(text.split())


def _is_empty(value: object) -> bool:
    """Nothing, a blank cell, or the nan of a table."""
    if isinstance(value, float):
        return isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def _from_hub(name: str) -> Path:
    """The file of a data set, downloaded; the only one that can hold prompts where none is named."""
    from httpx import HTTPError
    from huggingface_hub import HfApi, constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError

    match = _HUB_NAME.fullmatch(name.removeprefix(HUB))
    if not match:
        raise InvalidInput(f"write a data set as {HUB}owner/name or {HUB}owner/name/file.csv; got {quoted(name)}")
    repo, revision, file = match.group("repo", "revision", "file")
    try:
        if file is None:
            file = _only_file(name, HfApi().list_repo_files(repo, repo_type="dataset", revision=revision))
        if not file.lower().endswith(_ON_HUB):
            raise InvalidInput(f"{name}: a pack is a file {', '.join(_ON_HUB)}; got {quoted(file)}")
        if not constants.HF_HUB_OFFLINE:  # a file of any size would be downloaded
            infos = HfApi().get_paths_info(repo, [file], repo_type="dataset", revision=revision)
            if any(getattr(info, "size", 0) > MOST_BYTES for info in infos):
                raise InvalidInput(f"{name} is larger than {MOST_BYTES // 1_000_000} MB, which no pack of prompts is")
        return Path(hf_hub_download(repo, file, repo_type="dataset", revision=revision))
    except (RepositoryNotFoundError, EntryNotFoundError, HFValidationError) as error:
        raise InvalidInput(f"there is no data set {name}, or it is not public: {_first_line(error)}") from error
    except (HTTPError, OSError) as error:
        raise HubNotReached(f"{name} cannot be fetched: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _only_file(name: str, files: Sequence[str]) -> str:
    tables = [file for file in files if file.lower().endswith(_ON_HUB)]
    train = [file for file in tables if "train" in PurePosixPath(file).stem]
    for some in (tables, train):
        if len(some) == 1:
            return some[0]
    listed = ", ".join(tables[:_MOST_NAMED]) or "none"
    raise InvalidInput(f"{name} has {len(tables)} files of a pack ({listed}): add the file's name")
