"""Designs, the classes of the studies, and the protocols of their papers.

A folder with designs (``designs/*.yaml``) in ``bias_core/papers``, ``bias_core/explore`` or ``bias_core/beyond`` is a
study: its modules hold the classes (:class:`bias_core.study.study.Study`) of its kinds. Modules whose names begin with
``tab`` belong to the page. Installed packages add studies by an entry point
(:func:`bias_core.settings.load_installed`).
"""

import csv
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path, PurePath
from typing import Any, TypeVar

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.installed import ASSETS, STUDIES, load_installed
from bias_core.models.catalogue import read_yaml, split_revision
from bias_core.store.tables import ENDINGS, HUB, is_pack, read_pack
from bias_core.study.classifiers import READER_SETTINGS
from bias_core.study.study import Study
from bias_core.study.types import (
    Design,
    Rows,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    make_frame,
    settings_from_dict,
)
from bias_core.values import Options, Setting, declared_settings, given_settings, option_values

PACKAGE = Path(__file__).parents[1]
OPTIONAL = ("causes", "intersections", "languages", "mitigation")
"""The folders of ``beyond``: the app works without them, and nothing else imports them."""
STUDY_DATA = ASSETS / "studies"
_PAGE = "tab"  # prefix of modules of the page; the command line does not need their libraries
_MORE: dict[Path, str] = {}  # folders of studies outside the app, with the packages of their modules
E = TypeVar("E")


PACK = "prompt_pack"
"""The kind of a design that was made of a file of prompts."""
PACK_PICTURES = 16  # pictures of a prompt without a number in its row


@contextmanager
def more_studies(folder: Path, package: str) -> Iterator[None]:
    """Add the studies of a folder outside the app while the context lasts."""
    before = dict(_MORE)
    _MORE[folder] = package
    _classes_and_folders.cache_clear()
    try:
        yield
    finally:
        _MORE.clear()
        _MORE.update(before)
        _classes_and_folders.cache_clear()


def design_files() -> dict[str, Path]:
    """Return the file of each shipped or installed design by its name."""
    paths = (path for folder in _study_folders() for path in folder.glob("designs/*.yaml"))
    return {path.stem: path for path in sorted(paths)}


def _study_folders() -> dict[Path, str]:
    """Return all folders of studies, with the packages of their modules."""
    return {**_own_folders(), **installed_studies(), **_MORE}


@cache
def _own_folders() -> dict[Path, str]:
    rooms = [PACKAGE / name for name in ("papers", "explore", "beyond")]
    folders = sorted({path.parent.parent for room in rooms for path in room.rglob("designs/*.yaml")})
    return {folder: ".".join(folder.relative_to(PACKAGE.parent).parts) for folder in folders}


def read_design_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the designs in a study's folder."""
    return tuple(sorted(path.stem for path in folder.glob("designs/*.yaml")))


def list_designs() -> tuple[Design, ...]:
    """Return every shipped design, sorted by paper and name."""
    return tuple(sorted(map(_load_design, design_files().values()), key=lambda design: (design.reference, design.name)))


def find_design(name: str) -> Design:
    """Return a shipped design by name, or that of a YAML file or a prompt pack.

    InvalidInput lists the names; StorageError if a file is not a design.
    """
    path, shipped = Path(name).expanduser(), design_files()
    if name in shipped:
        return _load_design(shipped[name])
    if path.suffix in {".yaml", ".yml"} and path.is_file():
        design = _load_design(path)
        typed_options(design, {})
        return design
    if is_pack(name):
        return pack_design(name)
    raise InvalidInput(
        f"no study {name!r}; there are {', '.join(shipped)}, or give the path of a design's YAML file, or of prompts "
        f"as {', '.join(ENDINGS)} or {HUB}owner/name"
    )


def pack_design(name: str) -> Design:
    """The design of a prompt pack (:mod:`bias_core.store.tables`)."""
    prompts, columns = read_pack(name)
    unused = f"{PurePath(name).name}: {columns}." if columns else ""
    title = re.sub(r"\W+", " ", PurePath(name.removeprefix(HUB)).stem).strip() or "a file"
    groups = len({prompt.group for prompt in prompts})
    count = f"{len(prompts):,} prompt{'' if len(prompts) == 1 else 's'}{f' in {groups} groups' if groups > 1 else ''}"
    return Design(
        name=f"prompts-{'-'.join(title.split())[:60]}",
        title=f"Prompts of {title}",
        kind=PACK,
        reference="",
        where="",
        summary=f"{count}, from {title}.{f' {unused}' if unused else ''}",
        data={"prompts": [asdict(prompt) for prompt in prompts]} | ({"notes": [unused]} if unused else {}),
        images_per_prompt=PACK_PICTURES,
        options={"attributes": ()} if any(prompt.attributes for prompt in prompts) else {},
    )


def get_study(design: Design) -> Study:
    """Return the study of a design; InvalidInput lists the kinds if there is none of its kind."""
    if (study := known_study(design)) is None:
        kinds = ", ".join(study_classes())
        raise InvalidInput(f"{design.name}: no kind of study {design.kind!r}; there are {kinds}")
    return study


def known_study(design: Design) -> Study | None:
    """Return the study of a design; None if its kind is unknown, as for a comparison of runs."""
    found = study_classes().get(design.kind)
    return None if found is None else found(design)


def typed_options(design: Design, given: Any) -> Any:
    """Return the options of the design, with the ``given`` ones; InvalidInput for a wrong one."""
    kind: Any = get_study(design).options
    declared = declared_settings(kind)
    values = {**design.options, **option_values(given)}
    if unknown := [name for name in values if name not in declared]:
        names = ", ".join(declared) or "none"
        raise InvalidInput(f"{design.name} has no option {quoted(unknown[0])}; it has {names}")
    return kind(**{name: declared[name].read(value) for name, value in values.items()})


def fill_design_text(text: str, study: Study, settings: StudySettings) -> str:
    """Return a text of a design with the words of these options for its ``{name}``; other braces stay.

    >>> design = find_design("tbyb-general")
    >>> settings = StudySettings(options=typed_options(design, {"sets": ["objects"], "person": False}))
    >>> fill_design_text("Pictures of {shown}, at {size} and {braces}.", get_study(design), settings)
    'Pictures of 100 objects, at {size} and {braces}.'
    """
    if "{" not in text:
        return text
    for name, words in study.design_words(settings).items():
        text = text.replace(f"{{{name}}}", words)
    return text


def format_summary(design: Design, settings: StudySettings | None = None) -> str:
    """Return what a run with these settings asks, in a sentence or two; default: the study's own settings.

    >>> design = find_design("t2iat-tests")
    >>> format_summary(design, StudySettings(options=typed_options(design, {"tests": ["career_family"]})))
    'Are pictures of one concept closer to an attribute than pictures of another? Tests career and family.'
    """
    if (study := known_study(design)) is None:
        return design.summary
    if settings is None:
        settings = StudySettings(**{**design.settings, "options": typed_options(design, {})})
    return fill_design_text(design.summary, study, settings)


def readings_of_paper(design: Design, settings: StudySettings) -> list[str]:
    """Return our choices for what the paper leaves open, as far as they concern a run with these settings."""
    study, values = get_study(design), {**vars(settings), **option_values(settings.options)}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return [
        fill_design_text(says, study, settings)
        for says, only_if in _list_choices(design)
        if all(values[name] == value for name, value in only_if.items())
    ]


def _list_choices(design: Design) -> list[tuple[str, Mapping[str, Any]]]:
    """Return our choices for what the paper leaves open, each with the options that it holds for."""
    return [
        (choice["says"], choice.get("only_if", {})) if isinstance(choice, Mapping) else (choice, {})
        for choice in design.our_reading
    ]


_ASKS_NOTHING: Sequence[Any] = ("", (), [], False, None, "none")
"""Values at which a removed option had no effect."""


def with_known_options(design: Design, settings: StudySettings) -> tuple[Design, StudySettings, tuple[str, ...]]:
    """Return both without options that no longer exist, and the names of those that had an effect.

    >>> given = StudySettings(options={"pairs": ["doctor and nurse"], "act": "helping"})
    >>> design, settings, gone = with_known_options(find_design("pst-swapped"), given)
    >>> list(settings.options), gone
    (['pairs'], ('the option act',))
    """
    declared = declared_settings(get_study(design).options)
    given = option_values(settings.options)
    usual, run_options = ({name: v for name, v in of.items() if name in declared} for of in (design.options, given))
    unknown_options = {name: value for name, value in {**design.options, **given}.items() if name not in declared}
    gone = tuple(f"the option {name}" for name, value in unknown_options.items() if value not in _ASKS_NOTHING)
    return replace(design, options=usual), replace(settings, options=run_options), gone


def option_settings(design: Design) -> dict[str, Setting]:
    """Return the options of the design's kind, by name, with the design's values as defaults."""
    declared, defaults = declared_settings(get_study(design).options), option_values(typed_options(design, {}))
    return {name: replace(option, default=defaults[name]) for name, option in declared.items()}


def study_classes() -> Mapping[str, type[Study]]:
    """Return the classes of all studies by their kinds."""
    return {kind: found for kind, (found, _) in _classes_and_folders().items()}


@cache
def _classes_and_folders() -> Mapping[str, tuple[type[Study], Path]]:
    folders = _study_folders().items()
    return {study.kind: (study, folder) for folder, package in folders for study in _import_studies(folder, package)}


def _import_studies(folder: Path, package: str) -> list[type[Study]]:
    modules = [path.stem for path in sorted(folder.glob("*.py")) if not path.stem.startswith((_PAGE, "__"))]
    classes = [found for name in modules for found in _find_subclasses(f"{package}.{name}", Study)]  # type: ignore[type-abstract]
    return [study for study in classes if not isabstract(study)]


@cache
def installed_studies() -> dict[Path, str]:
    """Return the folders of the studies that installed packages add, with their packages.

    One that cannot be loaded, whatever its error, is logged and left out.
    """
    return {folder: package for package, folder in load_installed(STUDIES, _load_installed).items()}


def _load_installed(entry: EntryPoint) -> Path:
    """Return the folder of a study; StorageError unless its names are its own and its designs have classes."""
    folder = Path(entry.load().__file__).parent
    kinds = {study.kind for study in _import_studies(folder, entry.value)}
    own_kinds = {study.kind for place in _own_folders().items() for study in _import_studies(*place)}
    designs = [_load_design(path) for path in sorted(folder.glob("designs/*.yaml"))]
    if not designs:
        raise StorageError(f"{folder} has no designs/*.yaml")
    own_names = {path.stem for place in _own_folders() for path in place.glob("designs/*.yaml")}
    if taken := {design.name for design in designs} & own_names | kinds & own_kinds:
        raise StorageError(f"this program has {', '.join(sorted(taken))} already: choose another name and kind")
    if unknown := {design.kind for design in designs} - kinds:
        raise StorageError(f"no class of {entry.value} has the kind {', '.join(sorted(unknown))}")
    return folder


def check_new_name(name: str) -> None:
    """Raise InvalidInput unless ``name`` can be that of a new study, of its package and of its folder.

    >>> check_new_name("Hats")
    Traceback (most recent call last):
    bias_core.errors.InvalidInput: a study's name has small letters, digits and _, and begins with a letter; got 'Hats'
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InvalidInput(f"a study's name has small letters, digits and _, and begins with a letter; got {name!r}")
    if name in design_files() or find_spec(name) is not None:
        raise InvalidInput(f"there is a study or a Python package named {name} already: choose another name")


def optional_folders() -> list[Path]:
    """Return the folders of ``beyond`` that are there."""
    return [folder for name in OPTIONAL if (folder := PACKAGE / "beyond" / name).is_dir()]


@cache
def extensions(kind: type[E]) -> tuple[E, ...]:
    """Return an instance of each subclass of ``kind`` in the ``extension.py`` of optional folders."""
    names = [folder.name for folder in optional_folders() if (folder / "extension.py").is_file()]
    modules = [f"{PACKAGE.name}.beyond.{name}.extension" for name in names]
    return tuple(extension_class() for module in modules for extension_class in _find_subclasses(module, kind))


def _find_subclasses(module: str, kind: type[E]) -> list[type[E]]:
    values = vars(import_module(module)).values()
    return [
        value for value in values if isinstance(value, type) and issubclass(value, kind) and value.__module__ == module
    ]


@dataclass(frozen=True, kw_only=True)
class PageLayout:
    """Layout of a study's result page: the part ``page`` of its ``report.yaml``.

    ``plots`` and ``by_attribute`` are keys of figures, in which ``*`` matches anything.
    """

    plots: Sequence[str] = ()  # the first of these in a report is shown next to its pictures
    cells: Sequence[str] = ()  # the first of these columns with several values groups the pictures
    by_attribute: Sequence[str] = ()  # figures of single attributes, objects or targets; the others are details
    tab: str = ""  # the tab that shows a study without its own tab; "" for its own tab

    def plot(self, report: StudyReport) -> StudyFigure | None:
        """Return the figure next to the pictures; the first one if the study names none."""
        drawn = [figure for figure in report.results.figures if figure.kind != "pictures" and not figure.data.empty]
        named = [figure for key in self.plots for figure in drawn if fnmatchcase(figure.key, key)]
        return next(iter([*named, *drawn]), None)

    def is_by_attribute(self, figure: StudyFigure) -> bool:
        """Return True if a figure shows single attributes, objects or targets."""
        return any(fnmatchcase(figure.key, key) for key in self.by_attribute)


def get_page_layout(design: Design) -> PageLayout:
    """Return the page layout of a design's kind; an empty one if the study has none."""
    return _page_of_kind(design.kind)


@cache
def _page_of_kind(kind: str) -> PageLayout:
    _, folder = _classes_and_folders().get(kind, (None, PACKAGE))
    return read_page_layout(folder)


def read_page_layout(folder: Path) -> PageLayout:
    """Return the page layout in the ``report.yaml`` of a study's folder."""
    file = folder / "report.yaml"
    return PageLayout(**read_yaml(file).get("page", {})) if file.is_file() else PageLayout()


def _load_design(path: Path) -> Design:
    values = {"name": path.stem} | read_yaml(path)
    data = values.get("data", {})
    if isinstance(data, str):
        places = (path.parent / data, path.parent.parent / data, STUDY_DATA / data)
        values["data"] = read_yaml(next((place for place in places if place.is_file()), places[-1]))
    if values.get("protocol"):
        shared = _protocols().get(str(values.get("reference")), {})
        values["protocol"] = {**shared.get("protocol", {}), **values["protocol"]}
        choices = [*values.get("our_reading", ()), *shared.get("our_reading", ())]
        values["our_reading"] = [choice for i, choice in enumerate(choices) if choice not in choices[:i]]
    needs = {
        design_field.name: design_field.default is design_field.default_factory is MISSING
        for design_field in fields(Design)
    }
    if wrong := values.keys() - needs:
        raise StorageError(f"{path}: a design has no {', '.join(sorted(wrong))}; it has {', '.join(sorted(needs))}")
    if missing := {name for name, is_needed in needs.items() if is_needed} - values.keys():
        raise StorageError(f"{path}: a design needs {', '.join(sorted(missing))}")
    settings_from_dict(values.get("settings", {}))
    return Design(**values)


@cache
def _protocols() -> Mapping[str, Any]:
    """Return the common part of the designs of each paper, by the paper's key in ``refs.bib``."""
    return read_study("protocols")


def read_study(name: str) -> dict[str, Any]:
    """Return the study data file ``<name>.yaml`` as a dictionary."""
    values: dict[str, Any] = read_yaml(STUDY_DATA / f"{name}.yaml")
    return values


def read_study_table(file: str, folder: Path = STUDY_DATA) -> list[dict[str, str]]:
    """Return the rows of a study table, each cell a string without spaces around it."""
    with (folder / file).open(encoding="utf-8", newline="") as lines:
        return [{column: cell.strip() for column, cell in row.items()} for row in csv.DictReader(lines)]


class ReportTexts:
    """Titles and captions of a study's report, from the file ``report.yaml`` next to the study's ``module``.

    It has ``tables`` and ``figures`` (by key, the fields of ``StudyTable`` and ``StudyFigure`` except the data), and
    ``page`` (:class:`PageLayout`). A ``{name}`` in a text is filled in from the ``values``.
    """

    def __init__(self, module: str) -> None:
        self._path = Path(module).with_name("report.yaml")

    @cached_property
    def _texts(self) -> dict[str, Any]:
        texts: dict[str, Any] = read_yaml(self._path)
        return texts

    def table(self, name: str, rows: Rows, /, **values: Any) -> StudyTable:
        """Return a table of these rows."""
        return StudyTable(**{"key": name, **_filled(self._texts["tables"][name], values)}, frame=make_frame(rows))

    def figure(self, name: str, rows: Rows, labels: Mapping[str, Any] | None = None, /, **values: Any) -> StudyFigure:
        """Return a figure of these rows; ``labels`` that only a run knows are added to those of the file."""
        texts = {"key": name, "labels": {}, **_filled(self._texts["figures"][name], values)}
        return StudyFigure(**texts | {"labels": texts["labels"] | (labels or {})}, data=make_frame(rows))


def _filled(text: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(text, Mapping):
        return {name: _filled(part, values) for name, part in text.items()}
    return text.format(**values) if isinstance(text, str) else text


def distinct_texts(texts: Iterable[str]) -> list[str]:
    """Return each text once, with single blanks between words; empty ones are left out.

    >>> distinct_texts([" a  nurse", "", "a nurse", "doctor "])
    ['a nurse', 'doctor']
    """
    return list(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))


def check_count(n: int, noun: str, minimum: int, maximum: int) -> None:
    """Raise InvalidInput if there are too few or too many of ``noun``."""
    if not minimum <= n <= maximum:
        raise InvalidInput(f"{minimum} to {maximum} {noun}; got {n}")


def keep_only_options(settings: StudySettings, options: Collection[str]) -> StudySettings:
    """Return settings for all pictures of a design with custom words, keeping only the options of these names."""
    values = {name: value for name, value in option_values(settings.options).items() if name in options}
    return replace(settings, scale=1.0, options=values)


NOT_PRINTED = "not printed"
MET, DIFFERS, OUR_READING = "met", "differs", "our reading"  # status of an item of a protocol in a run
CHECKLIST = "protocol"  # key of the table that compares a run with its paper's protocol
_READING = {*READER_SETTINGS, "encoders", "language_model"}
_CALIBRATION = "calibration-"  # prefix of the models of the calibration world
CIRCUMSTANCES = ("revision", "wording", "pictures", "images_per_prompt", "people")
"""Items of a protocol that are neither a setting nor an option of the study."""


@dataclass(frozen=True, kw_only=True)
class ProtocolItem:
    """One item of a paper's protocol."""

    value: Any = None  # of the setting or option, or a number of pictures; None if the paper prints none
    says: str = ""  # in words; "" for the value
    also: tuple[str, ...] = ()  # patterns of other values that count as the paper's
    here: str = ""  # what the study always does instead; "" if the item can be met

    @property
    def is_printed(self) -> bool:
        """True if the paper says anything about it."""
        return self.value is not None or bool(self.here) or not self.says.startswith(NOT_PRINTED)

    @property
    def words(self) -> str:
        """The paper's value in words."""
        listed = ", ".join(map(str, self.value)) if isinstance(self.value, (list, tuple)) else self.value
        number = f"{listed:,}" if isinstance(listed, int) and not isinstance(listed, bool) else f"{listed}"
        return self.says or number

    def is_paper_value(self, value: Any) -> bool:
        """Return True if a value is the paper's."""
        if isinstance(self.value, (list, tuple)):
            return sorted(map(str, self.value)) == sorted(map(str, value))
        if value == self.value:
            return True
        names = {str(value), split_revision(str(value))[0]}
        return any(fnmatchcase(name, pattern) for name in names for pattern in (str(self.value), *self.also))


def get_protocol(design: Design) -> dict[str, ProtocolItem]:
    """Return the design's protocol by name, {} without a paper; StorageError for an unknown name."""
    names = {*CIRCUMSTANCES, *declared_settings(StudySettings), *declared_settings(get_study(design).options)}
    if unknown := sorted(
        {*design.protocol, *(name for _, only_if in _list_choices(design) for name in only_if)} - names
    ):
        raise StorageError(f"{design.name}: its protocol names no setting or option of it: {', '.join(unknown)}")
    try:
        return {
            name: ProtocolItem(**{**item, "also": tuple(item.get("also", ()))})
            for name, item in design.protocol.items()
        }
    except (AttributeError, TypeError) as error:
        raise StorageError(f"{design.name}: an item of a protocol has value, says, also and here ({error})") from error


def with_protocol(design: Design, settings: StudySettings, given: Collection[str] | None = None) -> StudySettings:
    """Return the settings with the paper's values for all that were not given, if they ask for its protocol.

    The classifiers that a paper names do not read the calibration world, which has its own. ``given`` are the names of
    the given settings; default: those that the settings were made with. InvalidInput if the study follows no paper.

    >>> from bias_core.study.design import find_design
    >>> settings = StudySettings(protocol="paper", guidance_scale=5.0)
    >>> filled = with_protocol(find_design("t2iat-tests"), settings)
    >>> filled.model, filled.num_inference_steps, filled.guidance_scale, filled.size
    ('stable-diffusion-2-1', 50, 5.0, '512x512')
    """
    if not settings.protocol:
        return settings
    items = {name: item.value for name, item in get_protocol(design).items() if item.value is not None}
    if not items:
        raise InvalidInput(f"{design.name} follows no paper's protocol; leave protocol out, or choose a paper's study")
    given_names = given_settings(settings) if given is None else given
    model = settings.model if "model" in given_names else items.get("model", settings.model)
    if model.startswith(_CALIBRATION) and not settings.images:
        items = {name: value for name, value in items.items() if name not in _READING}
    values = {
        name: items[name] for name in declared_settings(StudySettings) if name in items and name not in given_names
    }
    options = {name: items[name] for name in declared_settings(get_study(design).options) if name in items}
    given_options = _given_options(design, settings.options)
    return replace(settings, **values, options={**options, **given_options}, protocol="")


def _given_options(design: Design, options: Any) -> dict[str, Any]:
    if not isinstance(options, Options):
        return option_values(options)
    usual = option_values(typed_options(design, {}))
    return {name: value for name, value in option_values(options).items() if value != usual[name]}


def papers_readers(design: Design) -> dict[str, str]:
    """Return the classifiers that the paper names, by the setting or option that chooses them."""
    items = get_protocol(design) if design.protocol else {}
    return {name: items[name].value for name in READER_SETTINGS if name in items and items[name].value is not None}
