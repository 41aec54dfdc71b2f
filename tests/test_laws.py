"""The laws of the house, and that what messages tell a person to type exists. CONTRIBUTING.md explains the laws."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from bias_core.app.cli import load_all
from bias_core.measures.cards import METRICS, card_lines, load_references
from bias_core.settings import Settings
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import OPTIONAL, study_classes
from bias_core.study.types import Arm, StudySettings
from bias_core.ui.templates import without_variables
from bias_core.values import declared_settings
from tests.every import every
from training.__main__ import app as training
from validation.__main__ import app as validation

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "bias_core"
FILES = sorted(PACKAGE.rglob("*.py"))
CODE = [*FILES, *(path for path in [ROOT / "app.py"] if path.exists())]

# From the ground up: a room (a file or a folder) may import rooms of its own floor or below.
PAPERS = {f"papers.{paper}" for paper in ("t2iat", "pst", "tbyb", "mcas", "oasis")}
FLOORS = [
    {"types", "errors", "settings", "installed", "waiting"},
    {"values", "wording", "protocols", "prompts", "people"},
    {"measures"},
    {"world"},
    {"models", "store"},
    {"study_services"},
    {"study"},
    {"report"},
    {"run"},
    {"services"},
    {"ui"},
    {"explore"} | PAPERS,
    {"beyond"},
    {"labels"},
    {"ui.runs", "ui.calibration", "ui.methods"},
    {"app.cli"},
    {"app"},
    {"__main__"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
WITHOUT_WORLD = ("study", "report", "run", "ui", "labels", "papers", "explore")
# Arrows that point down by floor and are still forbidden.
FORBIDDEN = {
    "world": set(FLOOR) - {"world", "types", "errors", "installed", "prompts", "protocols", "measures", "people"},
    "measures": {"prompts", "protocols"},
    "app.cli": {"ui"},
    "beyond": {"ui"},
    **{
        room: {"world"}
        for room in FLOOR
        if room.split(".")[0] in ("study", "report", "run", "ui", "labels", "papers", "explore")
    },
    **{room: {"world"} | ({"explore"} | PAPERS) - {room} for room in {"explore"} | PAPERS},
}
HEAVY = {"torch", "torchvision", "diffusers", "transformers", "open_clip", "peft", "accelerate", "timm"}
METRICS_MAY = {"numpy", "scipy", "pandas", "statsmodels", "threadpoolctl", "bias_core"}


def name(path):
    return str(path.relative_to(ROOT))


@cache
def tree(path):
    return ast.parse(path.read_text())


@cache
def nodes(path):
    return list(ast.walk(tree(path)))


def room(path):
    return room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))


def room_of(module):
    """The folder or file of the package that a module lies in; a paper's folder is a room of its own."""
    names = module.removeprefix("bias_core.").split(".")
    return ".".join(names[:2]) if names[0] == "papers" or ".".join(names[:2]) in FLOOR else names[0]


def belongs_to_page(path):
    return room(path).split(".")[0] == "ui" or room(path) == "app" or path.stem.startswith(("tab", "view"))


@cache
def imports(path):
    """Full names of all modules that a file imports, anywhere in it."""
    return tuple(_imports(path))


def _imports(path):
    in_annotations = set()
    if path == PACKAGE / "study" / "study.py":  # types of the floors above it, named in annotations alone
        blocks = (
            node for node in nodes(path) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        in_annotations = {imported for block in blocks for imported in block.body}
    for node in nodes(path):
        if node in in_annotations:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(path):
    return {room_of(module) for module in imports(path) if module.startswith("bias_core.")} & set(FLOOR)


def libraries(path):
    return {module.split(".")[0] for module in imports(path)}


@every(FILES)
def test_imports_point_down_floor_by_floor(path):
    here = room(path)
    if here.endswith("__init__"):
        assert rooms_imported(path) == set()
        return
    assert here in FLOOR, f"{here} has no floor: give it one in this file and in CONTRIBUTING.md"
    for other in rooms_imported(path):
        is_below = FLOOR[other] <= FLOOR[here] or (here, other) == ("services", "labels")  # whose store they build
        assert is_below, f"{here} imports {other}, which is above it"
        assert other not in FORBIDDEN.get(here, ()), f"{here} must not know {other}"


def test_nothing_imports_what_is_optional():
    assert [path.parent.name for path in sorted((PACKAGE / "beyond").glob("*/__init__.py"))] == list(OPTIONAL)
    assert [name(path) for path in FILES if room(path) != "beyond" and "beyond" in rooms_imported(path)] == []


def test_extensions_of_explore_are_imported_before_the_modules_that_use_them():
    """Else their options would be missing, or not, by what is imported first."""
    late = re.compile(r"bias_core\.explore\.(?!extension$)")
    files = sorted((PACKAGE / "beyond").glob("*/extension.py"))
    first = [(name(path), str(node.module)) for path in files for node in tree(path).body if hasattr(node, "module")]
    assert "bias_core.explore.extension" in [of for _, of in first]
    assert [one for one in first if late.match(one[1])] == []


def test_imports_have_no_circle():
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    graph = {
        module: {other for other in imports(path) if other in modules and other != module}
        for module, path in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {error.args[1]}")


@every(FILES)
def test_heavy_libraries_stay_in_their_rooms(path):
    used = libraries(path)
    if room(path).split(".")[0] != "ui" and room(path) != "app" and not path.stem.startswith("tab"):
        assert "gradio" not in used
    if room(path) not in ("models", "world"):
        assert not used & HEAVY
    if room(path) == "measures":
        assert used <= METRICS_MAY | set(sys.stdlib_module_names)


def test_only_the_page_imports_what_draws_the_page():
    """The command line runs every study without Gradio: its modules that begin with tab or view are the page's."""
    broken = [name(path) for path in FILES if "ui" in rooms_imported(path) and not belongs_to_page(path)]
    assert broken in ([], ["bias_core/labels/api.py"])


@every(CODE)
def test_no_blind_except_and_no_assert(path):
    for node in nodes(path):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: assert"
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            assert not re.search(r"\b(everything|Exception|BaseException)\b", caught), (
                f"line {node.lineno}: except {caught}"
            )


@every(CODE)
def test_nothing_seeds_globally(path):
    assert not re.search(r"(np|numpy)\.random\.seed|(^|[^.\w])random\.seed|RandomState", path.read_text())


@every(FILES)
def test_dataclasses_are_keyword_only_and_results_are_frozen(path):
    if not room(path).startswith(("measures", "study", "papers", "explore", "beyond", "types")):
        return
    for node in nodes(path):
        for decorator in getattr(node, "decorator_list", []) if isinstance(node, ast.ClassDef) else []:
            if "dataclass" in ast.unparse(decorator):
                is_private = node.name.startswith("_") and "kw_only=True" in ast.unparse(decorator)
                assert ast.unparse(decorator).startswith("dataclass(frozen=True, kw_only=True") or is_private, node.name


NO_MEASURES = ("__init__", "cards", "arrays", "effects", "intervals", "permutation", "sequential", "two_phase")


@every([p for p in FILES if room(p) == "measures" and p.stem not in NO_MEASURES])
def test_a_measure_has_tests_and_cites_what_exists(path):
    assert any(f"measures.{path.stem} " in one.read_text() for one in (ROOT / "tests" / "measures").glob("test_*.py"))
    bib = (ROOT / "assets" / "refs.bib").read_text()
    cited = re.findall(r"\[([a-z]+\d{4}[a-z0-9]*)[\],]", path.read_text())
    assert cited
    for key in cited:
        assert f"{{{key}," in bib, f"{key} is not in refs.bib"


@every([p for p in FILES if room(p) == "measures" and p.stem not in NO_MEASURES])
def test_public_functions_of_a_measure_are_documented_with_an_example(path):
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert ">>> " in (getattr(module, node.name).__doc__ or ""), f"{node.name} has no example"


DOORS = {
    "bias_core": HEAVY | {"gradio"},
    "bias_core.app.cli": HEAVY | {"gradio", "scipy", "numpy", "pandas", "pydantic", "yaml"},
    "bias_core.app.cli; bias_core.app.cli.load_all()": HEAVY | {"gradio", "scipy", "numpy", "pandas"},
    "bias_core.labels.api, bias_core.services": HEAVY | {"scipy", "httpx", "httpx2"},
}


def test_a_door_opens_without_what_takes_long_to_load():
    probe = "; ".join(["import sys", *(f"import {door}; print(*sys.modules)" for door in DOORS)])
    found = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    for modules, (door, heavy) in zip(found.stdout.splitlines(), DOORS.items(), strict=True):
        assert not heavy & {module.split(".")[0] for module in modules.split()}, door


def test_the_app_needs_none_of_the_packages_beside_it():
    beside = {"validation", "training", "bench", "tests"}
    broken = {name(path): others for path in CODE if (others := libraries(path) & beside)}
    assert broken == {}


_TAG = re.compile(
    r"</[a-z]|<!--|(?<!\?P)<(a|article|aside|b|br|button|circle|code|dd|details|div|dl|dt|em|figcaption|figure|footer"
    r"|form|g|h[1-6]|header|i|iframe|image|img|input|label|li|line|main|nav|ol|option|p|path|polygon|polyline|pre"
    r"|rect|script|section|select|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|text|th|thead|tr|ul)"
    r"(?=[\s>/]|$)"
)


def strings_with_tags(path):
    documentation = set()
    for node in nodes(path):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # Docstrings, and the strings below attributes.
            documentation |= {id(e.value) for e in body if isinstance(e, ast.Expr)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from [node.lineno] * bool(_TAG.search(node.value))


@every(CODE)
def test_no_tag_stands_in_a_string(path):
    assert not [*strings_with_tags(path)], "markup in these lines: it belongs into bias_core/ui/templates"


OF_OTHERS = {"--query-gpu", "--format", "--no-deps"}  # of nvidia-smi and of pip
TO_OTHERS = {"figures.py"}  # a file that names the colours of style sheets


SAYS_KEYS = ("prompt_search", "attributes", "suggestions")  # of works, in docstrings of formulas


@cache
def strings(path: Path) -> list[str]:
    """Every text of a file that somebody may read: no docstrings but those of commands, no templates."""
    silent, found = set(), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and path.parent.name != "cli":
            silent |= {id(first.value) for first in node.body[:1] if isinstance(first, ast.Expr)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            found.append(node.value)
    return found


def texts(pattern: str) -> dict[str, list[Path]]:
    """Matches of a pattern in strings, with their files."""
    found: dict[str, list[Path]] = {}
    for path in (ROOT / "bias_core").rglob("*.py"):
        for text in strings(path):
            for match in re.findall(pattern, text):
                found.setdefault(match, []).append(path)
    return found


def leaves(command, name: str = "") -> dict[str, set[str]]:
    """Every command by its words, with its options."""
    if hasattr(command, "commands"):
        children = (leaves(child, f"{name} {word}".strip()) for word, child in command.commands.items())
        return {word: options for child in children for word, options in child.items()}
    return {name: {option for one in command.params for option in one.opts if option.startswith("--")}}


def called(command) -> list[tuple[Any, set[str]]]:
    """The function of every command, with its options."""
    if hasattr(command, "commands"):
        return [one for child in command.commands.values() for one in called(child)]
    options = {option for one in command.params for option in one.opts if option.startswith("--")}
    return [(inspect.unwrap(command.callback), options)]


COMMANDS = leaves(load_all())
CALLED = called(load_all())


def test_every_option_that_a_message_names_is_one_of_some_command():
    known = set.union(*COMMANDS.values(), OF_OTHERS)
    known |= set.union(*(options for one in (training, validation) for options in leaves(get_command(one)).values()))
    named = texts(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
    named = {name: [path for path in paths if path.name not in TO_OTHERS] for name, paths in named.items()}
    assert {name: paths for name, paths in named.items() if paths and name not in known} == {}
    assert len(named) > 20


@every(["explore", "study"])
def test_a_message_of_a_command_names_its_own_options(module):
    path = ROOT / "bias_core/app/cli" / f"{module}.py"
    named = {name for text in strings(path) for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)}
    own = [options for callback, options in CALLED if Path(inspect.getfile(callback)) == path]
    assert own
    assert named <= set.union(*own, COMMANDS["study run"], {"--help"})


def test_every_command_that_a_message_names_exists():
    known = {"calibration.training", *COMMANDS, *(word.split()[0] for word in COMMANDS)}
    name = r"([a-z.]+(?:-[a-z]+)?(?: [a-z-]+)?)"
    lines = texts(rf"python -m bias_core[. ]{name}")
    for path in FILES:
        lines |= {line: [path] for line in re.findall(rf"\{{COMMAND\}} {name}", path.read_text(encoding="utf-8"))}
    assert len(lines) >= 6
    for line in lines:
        words = line.split()
        assert line in known or words[0] in known, (line, lines[line])
    quoted = texts(r"`((?:study|run|explore|compare|models|measures|runs|attributes)(?: [a-z]+)?)`")
    assert {"study list", "study show", "study run", "models"} <= set(quoted)
    assert {name: paths for name, paths in quoted.items() if name not in known} == {}


def test_every_variable_that_a_message_names_is_a_setting():
    known = {f"BIAS_{name.upper()}" for name in Settings.model_fields} | {"BIAS_HOST", "BIAS_PORT"}
    known |= {name.rpartition("_")[0] for name in known if name.endswith("_URL")}  # how those of a server begin
    named = texts(r"\bBIAS_[A-Z_]+[A-Z]\b")
    assert {name: paths for name, paths in named.items() if name not in known} == {}
    assert len(named) > 5


def test_a_message_names_a_variable_in_brackets_which_the_page_leaves_out():
    files = [path for path in FILES if path.parent.name != "cli" and path.name != "doors.py"]
    assert without_variables("the disk is full (or lower BIAS_CACHE_GB)") == "the disk is full"
    texts_of = {path: [text for text in strings(path) if not re.fullmatch(r"\W*[A-Z_]+\W*", text)] for path in files}
    for path, found in texts_of.items():
        assert [text for text in found if re.search(r"\b(BIAS|HF)_[A-Z]", without_variables(text))] == [], path
    for template in (PACKAGE / "ui").rglob("*.html"):
        assert not re.search(r"\b(BIAS|HF)_[A-Z]", template.read_text()), template


def yaml_texts(value):
    """Every text with a blank in what a YAML file holds."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) and " " in value else [text for part in parts for text in yaml_texts(part)]


def test_no_sentence_names_a_work_by_its_key_or_a_setting_by_its_name_in_code():
    kinds = [StudySettings, Arm, *(study.options for study in study_classes().values())]
    names = {name for kind in kinds for name in declared_settings(kind) if "_" in name}
    unsayable = re.compile(rf"\b({'|'.join([*load_references(), *sorted(names)])})\b(?!\()")
    # A measure names its own arguments, and its card and a planted rate the key of their source: `with_works` shows it.
    here = {path: strings(path) for path in FILES if room(path) not in ("measures", "world")}
    here = {path: texts for path, texts in here.items() if path.stem not in SAYS_KEYS}
    here |= {path: yaml_texts(yaml.safe_load(path.read_text())) for path in PACKAGE.rglob("*.yaml")}
    templates = [*PACKAGE.rglob("*.html"), *PACKAGE.rglob("*.jinja")]
    here |= {path: [re.sub(r"\{[{%#].*?[}%#]\}", "", path.read_text(), flags=re.S)] for path in templates}
    sentences = ((path, text) for path, found in here.items() for text in found if " " in text)
    documents = list((ROOT / "docs").rglob("*.md"))
    works = re.compile(rf"\b({'|'.join(load_references())})\b")
    offenders = [(name(path), match[0]) for path, text in sentences for match in unsayable.finditer(text)]
    offenders += [(name(path), match[0]) for path in documents for match in works.finditer(path.read_text())]
    shown = [attribute.reference_source for one in load_attribute_sets() for attribute in one.attributes]
    offenders += [
        match[0]
        for text in [*map("\n".join, map(card_lines, METRICS.values())), *shown]
        for match in works.finditer(text)
    ]
    assert offenders == []


def test_every_target_of_make_that_a_message_names_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(texts(r"`make ([a-z]+)`")) <= targets


def test_every_package_that_a_message_asks_for_is_one_that_the_tests_install():
    files = ("requirements.txt", "requirements-dev.txt", "Makefile")
    lists = "".join((ROOT / name).read_text() for name in files)
    for package in texts(r"pip install (?:--[a-z-]+ )?[\"']?([a-z][\w-]+)"):
        assert package in lists


def test_every_fault_that_can_be_planted_still_stands_in_the_code():
    texts = [
        path.read_text() for path in PACKAGE.rglob("*") if path.suffix in (".py", ".html", ".js", ".yaml", ".jinja")
    ]
    faults = yaml.safe_load((ROOT / "scripts" / "faults.yaml").read_text())
    assert {one["name"] for one in faults if sum(text.count(one["find"]) for text in texts) != 1} == set()
