"""Claims that runs have published: their form, and reading those of other people from folders, zips and the Hub.

A published run is a folder with ``claims.json`` (this form) and ``README.md`` (its card). Files are opened by a reader
(:mod:`bias_core.store.reader`) and checked against the form; one that does not fit is named as left out, and the others
count.
"""

import json
import math
import os
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from bias_core.errors import HubNotReached, InvalidInput, StorageError, get_error_message, quoted
from bias_core.measures.cards import METRICS
from bias_core.store.reader import Session, TooMuch, limit_file, read_apart
from bias_core.store.tables import HUB, hub_errors, read_hub_name
from bias_core.types import Estimate
from bias_core.values import check_texts, read_json

CLAIMS, FORMAT, VERSION = "claims.json", "t2i-bias claims", 1
MOST_BYTES, MOST_RUNS, MOST_TOGETHER = 4_000_000, 200, 20_000_000
"""Size of one ``claims.json``, published runs that are read at once, and the size of all of them."""
_MOST_TEXT, _LONGEST_NAME, _MOST_ENTRIES = 4_000, 200, 5_000
_MOST_DEPTH, _MOST_FILES = 4, 20_000  # of folders in folders, and files that are looked through
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError)


@dataclass(frozen=True, kw_only=True)
class PublishedClaim:
    """One number of a run, as its report states it."""

    key: str  # of the finding, for programs
    number: str  # title of the finding
    measure: str  # name of the measure
    attribute: str = ""  # measured in all pictures; "" for other numbers
    # value, low, high: with its interval; nan (null in the file) where undefined
    value: float
    low: float
    high: float
    n: int
    null_value: float | None = None  # value without bias; None if nothing is claimed
    clear: str = ""  # verdict: yes, no, too few, or "" if nothing is claimed
    why_not_clear: str = ""
    p_value: float | None = None  # of this test alone
    p_adjusted: float | None = None  # for the tests of its family
    n_tests: int = 0  # of its family
    correction: str = ""  # for several tests, in words
    restates: str = ""  # number that it restates in another unit, and whose verdict it has
    published: float | None = None  # the paper's number, if the paper prints it
    method: str = ""  # of the interval
    note: str = ""

    @property
    def estimate(self) -> Estimate:
        """The number with its interval."""
        return Estimate(
            value=self.value, low=self.low, high=self.high, n=self.n, null_value=self.null_value, method=self.method,
            note=self.note, p_value=math.nan if self.p_value is None else self.p_value,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PublishedPart:
    """The claims of one arm, or of a run without arms; of a run with arms also those between them."""

    arm: str = ""
    concept: str = ""
    model: str  # as organisation/name
    revision: str = ""  # of its weights
    world: str = ""  # "calibration" for drawings of the calibration world
    classifier: str
    # n_planned, n_images, n_blocked: pictures asked for, scored and blocked
    n_planned: int
    n_images: int
    n_blocked: int = 0
    protocol: str = ""  # items in which it differs from its paper's protocol, in words
    settings: Mapping[str, str] = field(default_factory=dict)  # that were chosen
    claims: tuple[PublishedClaim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """One published run."""

    study: str
    title: str
    reference: str = ""  # key of the study's paper
    run: str  # its id
    day: str = ""  # on which it was measured (UTC)
    headline: str = ""
    caution: str = ""  # to read before the numbers, as of drawings of the calibration world
    limits: str = ""  # of the numbers
    measurement: Mapping[str, str] = field(default_factory=dict)  # everything needed to measure it again, in words
    versions: Mapping[str, str] = field(default_factory=dict)  # of programs and weights
    parts: tuple[PublishedPart, ...] = ()
    source: str = field(default="", metadata={"saved": False})  # folder or data set that it was read from; "": own

    @property
    def owner(self) -> str:
        """The folder, zip or data set that it was read from, without the folders in it; "" for one's own."""
        n_parts = 2 if self.source.startswith(HUB) else 1
        return "/".join(self.source.removeprefix(HUB).split("/")[:n_parts])

    @property
    def n_claims(self) -> int:
        return sum(len(part.claims) for part in self.parts)

    @property
    def compared_parts(self) -> tuple[PublishedPart, ...]:
        """The arms; the run itself if it has none."""
        return tuple(part for part in self.parts if part.arm) or self.parts


@dataclass(frozen=True, kw_only=True)
class ReadRuns:
    """Published runs that were read, and what was left out, with reasons."""

    runs: tuple[PublishedRun, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def read_published_runs(places: Sequence[str]) -> ReadRuns:
    """Read the published runs of folders (also of folders of them), zips, ``claims.json`` files and data sets.

    A data set is written as ``hf://datasets/owner/name[@revision][/folder]``. Links are not followed.
    """
    runs, left_out, session = dict[bytes, PublishedRun](), list[tuple[str, str]](), Session()
    for place in places:
        n_before = len(left_out)
        try:
            found = list(_find_files(place, left_out))
        except (InvalidInput, HubNotReached, StorageError) as error:
            left_out.append((_shown_name(place), get_error_message(error)))
            continue
        if not found and len(left_out) == n_before:
            left_out.append((_shown_name(place), f"has no {CLAIMS}"))
        for name, path in found:
            if len(runs) >= MOST_RUNS or sum(map(len, runs)) >= MOST_TOGETHER:
                limit = f"{MOST_RUNS} runs and {MOST_TOGETHER // 1_000_000} MB"
                left_out.append((name, f"was not read: at most {limit} are read at once"))
                continue
            try:
                read: ReadRuns = read_apart(read_claims_file, name, str(path), session=session)
                left_out += read.left_out
            except InvalidInput as error:  # also TooMuch
                left_out.append((name, get_error_message(error)))
                continue
            for run in read.runs:
                if reason := find_impossible(run):
                    left_out.append((run.source, reason))
                    continue
                first = runs.setdefault(to_json(run), run)
                if first is not run:
                    left_out.append((run.source, f"is the same as {first.source}"))
    return ReadRuns(runs=tuple(runs.values()), left_out=tuple(left_out))


def find_impossible(run: PublishedRun) -> str:
    """Name the first claim beyond the range of its measure and of differences between its values; "" for none."""
    bounds = {card.name: card.bounds for card in METRICS.values()}
    for claim in (claim for part in run.parts for claim in part.claims):
        low, high = bounds.get(claim.measure, (-math.inf, math.inf))
        smallest, largest = min(low, low - high), max(high, high - low)
        if wrong := [end for end in (claim.value, claim.low, claim.high) if end < smallest or end > largest]:
            return f"{quoted(claim.number)} cannot be {wrong[0]:g}: {claim.measure} is from {low:g} to {high:g}"
    return ""


def _shown_name(place: str, *folders: str) -> str:
    """Return the name of a place, or of a folder in it, without the folders around it, and printable."""
    name = place if place.startswith(HUB) else Path(place).expanduser().resolve().name
    return "".join(c if c.isprintable() else "?" for c in "/".join((name, *folders)))[:_LONGEST_NAME]


def _find_files(place: str, left_out: list[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """Yield names and paths of the files with claims; InvalidInput if there is no such place."""
    if place.startswith(HUB):
        folder, home = _download(place)
    else:
        try:
            folder = home = Path(place).expanduser().resolve()
            is_file, is_folder = folder.is_file(), folder.is_dir()
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidInput("cannot be read") from error
        if is_file:
            yield _shown_name(place), folder
            return
        if not is_folder:
            raise InvalidInput("there is no such folder or file")
    yield from _walk(_shown_name(place), folder, home, left_out)


def _walk(name: str, folder: Path, home: Path, left_out: list[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """Yield the files with claims of a folder, and of folders in it, that are files of ``home``."""
    n_files = 0

    def get_title(at: str | Path) -> str:
        return _shown_name(name, *Path(at).relative_to(folder).parts)

    def on_error(error: OSError) -> None:
        left_out.append((get_title(error.filename), f"cannot be read: {error.strerror}"))

    for at, folders, names in os.walk(folder, onerror=on_error):
        n_files += len(names) + len(folders)
        if folders and (n_files > _MOST_FILES or len(Path(at).relative_to(folder).parts) >= _MOST_DEPTH):
            limit = f"at most {_MOST_DEPTH} in each other, and {_MOST_FILES:,} files, are read"
            left_out.append((get_title(at), f"its folders: {limit}"))
            folders.clear()
        links = [name for name in folders if Path(at, name).is_symlink()]
        left_out += [(get_title(Path(at, link)), "a link to a folder, which is not followed") for link in links]
        folders.sort()
        path, is_own = Path(at, CLAIMS), False
        with suppress(OSError):  # a folder whose files may not be looked at
            is_own = path.is_file() and path.resolve().is_relative_to(home)
        if is_own:
            yield get_title(at), path
        elif CLAIMS in names:
            left_out.append((get_title(at), f"its {CLAIMS} is no file of this folder"))


def _download(name: str) -> tuple[Path, Path]:
    """Download the claims of a data set; return its folder, or the one that is named in it, and that of its files."""
    from huggingface_hub import HfApi, constants, snapshot_download

    repo, revision, folder = read_hub_name(name)
    kind: Any = {"repo_type": "dataset", "revision": revision}
    with hub_errors(name):
        if not constants.HF_HUB_OFFLINE:  # otherwise files of any number and size would be downloaded
            entries = HfApi().list_repo_tree(repo, recursive=True, **kind)
            sizes = [getattr(entry, "size", 0) for entry in entries if PurePosixPath(entry.path).name == CLAIMS]
            if len(sizes) > MOST_RUNS or max(sizes, default=0) > MOST_BYTES:
                limit = f"{MOST_RUNS} runs of {MOST_BYTES // 1_000_000} MB each"
                raise InvalidInput(f"holds more than {limit}: name a folder in it, as {name}/FOLDER")
        patterns = [CLAIMS, f"*/{CLAIMS}"]
        root = Path(snapshot_download(repo, allow_patterns=patterns, **kind))
    return root / (folder or ""), root.parents[1]  # the Hub's cache links to its files


def to_json(run: PublishedRun) -> bytes:
    """Return the bytes of the ``claims.json`` of a run."""
    values = {"format": FORMAT, "version": VERSION} | {
        name: value for name, value in asdict(run).items() if name != "source"
    }
    return (json.dumps(_to_plain(values), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _to_plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return next((text for text, number in _ENDLESS.items() if number == value), None)
    return value


# What follows runs in the reader.


def read_claims_file(name: str, file: str) -> ReadRuns:
    """Read a ``claims.json``, or all in a zip; ``name``: for messages. Raises InvalidInput."""
    runs, left_out = list[PublishedRun](), list[tuple[str, str]]()
    try:
        with limit_file(name), Path(file).open("rb") as source:
            is_zip = zipfile.is_zipfile(source)
            source.seek(0)
            if not is_zip:
                return ReadRuns(runs=(parse_claims(name, source_bytes(source)),))
            with zipfile.ZipFile(source) as archive:
                entries = [entry for entry in archive.infolist() if PurePosixPath(entry.filename).name == CLAIMS]
                for entry in entries[:MOST_RUNS]:
                    title = _shown_name(name, *PurePosixPath(entry.filename).parent.parts)
                    try:
                        with archive.open(entry) as member:
                            runs.append(parse_claims(title, source_bytes(member)))
                    except TooMuch:
                        raise
                    except InvalidInput as error:
                        left_out.append((title, str(error)))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror or error}") from error
    except _BROKEN_ZIP as error:
        raise InvalidInput(f"is no readable zip: {error}") from error
    if n_more := len(entries[MOST_RUNS:]):
        left_out.append((name, f"{n_more:,} of its {len(entries):,} runs: at most {MOST_RUNS} are read"))
    if not entries:
        raise InvalidInput(f"has no {CLAIMS}")
    return ReadRuns(runs=tuple(runs), left_out=tuple(left_out))


def source_bytes(source: Any) -> bytes:
    """Return what an open file holds; InvalidInput if it is larger than claims are."""
    data = bytes(source.read(MOST_BYTES + 1))
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"is larger than {MOST_BYTES // 1_000_000} MB, the limit for {CLAIMS}")
    return data


def parse_claims(source: str, data: bytes) -> PublishedRun:
    """Return the published run in the bytes of a ``claims.json``; InvalidInput names the first entry that is wrong."""
    try:
        values = read_json(data)
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidInput(f"is no readable JSON: {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InvalidInput(f"is no file of claims: its format is not “{FORMAT}”")
    version = values.get("version")
    if type(version) is int and version > VERSION:
        raise InvalidInput(f"is written in a newer format ({quoted(version)}; this program reads {VERSION}): update it")
    if version != VERSION or type(version) is not int:
        raise InvalidInput(f"has no known version of its format: {quoted(version)}")
    run: PublishedRun = _parse(PublishedRun, values, "")
    if not run.n_claims:
        raise InvalidInput("has no claim")
    return replace(run, source=source)


def _parse(kind: Any, value: Any, place: str) -> Any:
    """Return a value of the form as the declared type; InvalidInput says where another one is."""
    if is_dataclass(kind):
        return _parse_object(kind, value, place)
    if get_origin(kind) is UnionType:
        return None if value is None else _parse(get_args(kind)[0], value, place)
    if kind is str:
        return _parse_text(value, place)
    if kind in (int, float):
        return _parse_number(kind, value, place)
    is_list = get_origin(kind) is tuple
    if not isinstance(value, list if is_list else dict) or len(value) > _MOST_ENTRIES:
        what = "a list" if is_list else "an object"
        raise InvalidInput(f"{place} must be {what} of at most {_MOST_ENTRIES:,} entries; got {quoted(value)}")
    if isinstance(value, list):
        return tuple(_parse(get_args(kind)[0], entry, f"{place} {i}") for i, entry in enumerate(value, start=1))
    return {_parse_text(name, place): _parse_text(text, f"{place}, {quoted(name)},") for name, text in value.items()}


def _parse_object(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidInput(f"{place} must be an object; got {quoted(value)}")
    types, saved = get_type_hints(kind), [f for f in fields(kind) if f.metadata.get("saved", True)]
    required = [f.name for f in saved if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in required if name not in value]:
        raise InvalidInput(f"{place or 'it'} has no {missing[0]}")
    parsed = {
        f.name: _parse(types[f.name], value[f.name], f"{place} {f.name}".strip()) for f in saved if f.name in value
    }
    made = kind(**parsed)
    if kind is PublishedClaim and not _is_consistent(made):
        raise InvalidInput(f"{place} has an interval, p or verdict that there cannot be: {quoted(parsed)}")
    return made


def _is_consistent(claim: PublishedClaim) -> bool:
    """Return False for what no report has; an interval need not hold its value, as percentiles do not."""
    has_ps = all(p is None or 0 <= p <= 1 for p in (claim.p_value, claim.p_adjusted))
    is_known = not math.isnan(claim.value) or claim.clear not in ("yes", "no")
    return claim.clear in _VERDICTS and not claim.low > claim.high and has_ps and is_known


def _parse_text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{place} must be a text; got {quoted(value)}")
    check_texts(place, value, longest=_MOST_TEXT)
    if wrong := next((c for c in value if unicodedata.bidirectional(c) in _REORDERING), ""):
        raise InvalidInput(f"{place} holds U+{ord(wrong):04X}, which reorders the text around it")
    return value


def _parse_number(kind: type, value: Any, place: str) -> float:
    """Return a number; null is nan, and the texts of :data:`_ENDLESS` are ends of an interval."""
    if kind is float and (value is None or (isinstance(value, str) and value in _ENDLESS)):
        return math.nan if value is None else _ENDLESS[value]
    is_number = type(value) is int or (type(value) is float and kind is float and math.isfinite(value))
    if not is_number or abs(value) > _LARGEST or (kind is int and value < 0):
        raise InvalidInput(f"{place} must be a number; got {quoted(value)}")
    return int(value) if kind is int else float(value)


_LARGEST = 10**12
_REORDERING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # of characters without a shape
_VERDICTS = ("yes", "no", "too few", "")
_ENDLESS = {"Infinity": math.inf, "-Infinity": -math.inf}
