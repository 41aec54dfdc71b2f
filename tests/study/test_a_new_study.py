"""A study is one folder, a setting one declaration: added to a copy of the tree, they are found at every door."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = {
    "__init__.py": '"""Who wears a hat."""\n',
    "designs/hats.yaml": (
        "title: Hats\nkind: hats\nreference: dehdashtian2025oasis\nwhere: nothing\nsummary: Who is drawn with a hat?\n"
        "data: words.yaml\nimages_per_prompt: 4\n"
    ),
    "words.yaml": "people: [baker, nurse]\n",
    "study.py": '''
"""The share of pictures with a hat."""
from bias_core.study.study import Study
from bias_core.run.image_rows import scaled
from bias_core.values import Options, setting, settings_class
from bias_core.study.types import Finding, Results, Shot
from bias_core.measures.intervals import wilson_interval


@settings_class(frozen=True, kw_only=True)
class HatOptions(Options):
    """What may be asked."""

    least: float = setting(0.0, "Least nearness", "From where a picture counts as one of a hat", ge=0, le=1)


class Hats(Study):
    """The study of hats."""

    kind = "hats"
    options = HatOptions
    reads_ahead = False

    def shots(self, settings):
        n, people = scaled(self.design.images_per_prompt, settings.scale), self.design.data["people"]
        return [Shot(prompt=f"a photo of a {one}", n=n, group=one, facts={"who": one}) for one in people]

    def measure(self, settings, data):
        yield from ()  # no model reads, which would take seconds to load
        share = wilson_interval(1, len(data.frame), confidence=settings.confidence)
        finding = Finding(key="hats", title="Pictures with a hat", metric="attribute_prevalence", estimate=share)
        return Results(findings=(finding,))

    def headline(self, report):
        return f"{report.n_images} hats looked at."
''',
}
SMALLEST = '''
"""The share of pictures with a cap."""
from bias_core.study.study import Study
from bias_core.study.types import Finding, Results, Shot
from bias_core.types import Estimate


class Caps(Study):
    """The smallest study."""

    kind = "caps"

    def shots(self, settings):
        return [Shot(prompt=f"a photo of a {one}", n=4, group=one) for one in self.design.data["people"]]

    def measure(self, settings, data):
        yield from ()
        share = Estimate(value=0.5, low=0.1, high=0.9, n=len(data.frame))
        return Results(findings=(Finding(key="caps", title="Caps", metric="attribute_prevalence", estimate=share),))
'''
MEASURES = '''
"""The share of scarves."""
from bias_core.measures.cards import Card, takes


def scarf_share(counts):
    """scarf_share = sum_k n_k."""
    return sum(counts)


CARDS = (
    Card(
        function=scarf_share, name="Share of scarves", summary="How many scarves there are.", source="own2026, Eq. 1",
        bounds=(0, 1), null_value=None, higher_means="more scarves", inputs=takes(counts="counts: scarves"),
        limits="Of shawls it says nothing.",
    ),
)
'''
WORK = """@article{own2026,
  author = {Own, Ann},
  title = {Scarves},
  journal = {Journal of Scarves},
  year = {2026},
}
"""
BROKEN = """
class HatsMissing(Exception):
    pass

raise HatsMissing("no hats today")
"""
TAB = '''
"""Hats on the page."""
from typing import ClassVar

from bias_core.ui.study.paper import Paper


class Hats(Paper):
    """Hats."""

    key: ClassVar = "hats"
    title: ClassVar = "Hats"
    place: ClassVar = 35
    question: ClassVar = "Who wears a hat?"
'''
NEW_SETTING = """    strength: float | None = setting(
        None, "Strength", "How strong it is", ge=0, le=2, option="--strength"
    )
    arms: tuple[Arm, ...] = setting("""
DOORS = """
import inspect, json, sys
from typer.testing import CliRunner
from bias_core.app.build import TABS, build_app
from bias_core.app.api import Tools
from bias_core.app.cli import app
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import settings_from_dict
from bias_core.report.commands import to_command, to_python
from bias_core.run.plan import settle
from bias_core.ui.links import LINK_NAMES
from bias_core.ui.study.form import FIELDS, FORM

def told(*words):
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "BIAS_DATA_DIR": sys.argv[1]})
    assert result.exit_code == 0, result.output
    return result.output

services = Services(Settings(data_dir=sys.argv[1]))
page = build_app(services).get_config_file()
heavy = {"torch", "diffusers", "transformers", "open_clip", "matplotlib"} & set(sys.modules)
rendered = {"model": "calibration-renderer", "scale": 0.5}
report = Tools(services).run_study("hats", options=["least=0.1"], **rendered)
design = find_design("t2iat-tests")
settings = settle(design, settings_from_dict({"strength": 1.5})).settings
print(json.dumps({
    "list": told("study", "list"),
    "show": told("study", "show", "hats"),
    "run": told("study", "run", "hats", "--model", rendered["model"], "--scale", "0.5", "--option", "least=0.2"),
    "measures": told("measures"),
    "cards": [one for one in Tools(services).list_measures("scarf_share")["measures"]],
    "scarves": told("study", "run", "scarves", "--model", rendered["model"]),
    "docs": told("study", "list", "--markdown"),
    "api": [one for one in Tools(services).list_studies()["studies"] if one["name"] == "hats"],
    "report": report,
    "heavy": sorted(heavy),
    "help": told("study", "run", "--help"),
    "signature": str(inspect.signature(Tools.run_study)),
    "sentence": Tools.run_study.__doc__,
    "form": [FIELDS, FORM["strength"].info],
    "links": LINK_NAMES,
    "command": to_command(design, settings),
    "python": to_python(design, settings),
    "tabs": [[tab.key, tab.title, list(tab.studies)] for tab in TABS if getattr(tab, "studies", ())],
    "fields": {one["props"].get("elem_id"): one["props"].get("value") for one in page["components"]}["paper-fields"],
    "page": [one["props"].get("label") for one in page["components"] if one["type"] == "tabitem"],
}))
"""


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """Run a copy of the tree with two more studies and a setting in a process; return what every door says."""
    tmp_path = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "bias_core", tmp_path / "bias_core")
    for name in ("assets", "docs", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    kit = tmp_path / "bias_core" / "study" / "types.py"
    text = kit.read_text()
    assert text.count("    arms: tuple[Arm, ...] = setting(") == 1
    kit.write_text(text.replace("    arms: tuple[Arm, ...] = setting(", NEW_SETTING))
    plain = {name: text.replace("hats", "caps").replace("Hats", "Caps") for name, text in FOLDER.items()}
    plain["study.py"] = SMALLEST
    for study, files in {"hats": FOLDER | {"tab.py": TAB}, "caps": plain}.items():
        for name, text in files.items():
            path = tmp_path / "bias_core" / "papers" / study / name.replace("hats", study)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    site = tmp_path / "site"
    scarves = {name: text.replace("caps", "scarves").replace("Caps", "Scarves") for name, text in plain.items()}
    scarves["designs/hats.yaml"] = scarves["designs/hats.yaml"].replace("dehdashtian2025oasis", '""')
    install(site, "scarves", scarves | {"measures.py": MEASURES, "refs.bib": WORK})
    install(site, "broken", plain | {"study.py": BROKEN, "measures.py": MEASURES.replace("own2026", "none2026")})
    install(site, "twice", plain)
    command, environment = [sys.executable, "-c", DOORS, str(tmp_path / "data")], os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"errors": done.stderr}


def install(site, study, files):
    """Put a package in a folder as pip does."""
    package, info = site / f"{study}_study", site / f"{study}_study-1.0.dist-info"
    for name, text in files.items():
        path = package / name.replace("hats", study)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {study}-study\nVersion: 1.0\n")
    groups = {"studies": package.name} | ({"measures": f"{package.name}.measures"} if "measures.py" in files else {})
    lines = [f"[t2i_bias.{group}]\n{study} = {module}\n" for group, module in groups.items()]
    (info / "entry_points.txt").write_text("".join(lines))


def names_of(study):
    """The names of the framework that a study's file uses: what it imports, and what it overrides."""
    tree = ast.parse(study)
    imported = [one.name for node in tree.body if isinstance(node, ast.ImportFrom) for one in node.names]
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.bases[0].id == "Study")
    facts = [one.targets[0].id for one in kind.body if isinstance(one, ast.Assign)]
    return [*imported, *facts, *(one.name for one in kind.body if isinstance(one, ast.FunctionDef))]


def test_the_smallest_study_needs_eight_names_of_the_framework():
    assert len(names_of(SMALLEST)) <= 8
    assert len(names_of(FOLDER["study.py"])) <= 15  # with an option, an interval and a headline of its own


def test_starting_imports_no_heavy_library(doors):
    assert doors["heavy"] == []


def test_a_study_folder_that_is_copied_in_is_found_at_every_door(doors):
    assert "hats" in doors["list"]
    assert "least=0" in doors["show"]
    assert "Pictures with a hat" in doors["run"]
    assert "| `hats` | Hats | Dehdashtian et al. 2025, nothing |" in doors["docs"]
    assert [one["pictures_at_full_size"] for one in doors["api"]] == [8]
    assert doors["report"]["n_images"] == 4
    assert doors["report"]["headline"] == "4 hats looked at."
    assert "4 hats looked at." in doors["run"]
    assert ["hats", "Hats", ["hats"]] in doors["tabs"]
    assert ["caps", "Caps", ["caps"]] in doors["tabs"]  # which has no tab of its own
    assert ["scarves_study", "Scarves study", ["scarves"]] in doors["tabs"]
    page = doors["page"]
    assert page.index("Paper tests") < min(page.index("Hats"), page.index("Caps"))
    assert max(page.index("Hats"), page.index("Caps")) < page.index("People")


def test_an_installed_study_runs_and_one_that_cannot_be_loaded_is_named_with_its_error(doors):
    assert "scarves" in doors["list"]
    assert "Scarves" in doors["scarves"]
    for_studies = "-study, for t2i_bias.studies, cannot be loaded: "
    broken, twice = sorted(line for line in doors["errors"].splitlines() if "t2i_bias.studies" in line)
    assert broken.startswith(f"broken of the package broken{for_studies}HatsMissing(")
    assert twice.startswith(f"twice of the package twice{for_studies}")
    assert "this program has caps already: choose another name and kind" in twice


def test_an_installed_measure_has_its_card_and_one_without_a_source_is_named(doors):
    assert "Share of scarves" in doors["measures"]
    assert doors["cards"]
    (told,) = {line for line in doors["errors"].splitlines() if "t2i_bias.measures" in line}
    assert "no refs.bib has the source none2026" in told


def test_a_setting_that_is_added_in_one_place_is_found_at_every_door(doors):
    assert "--strength" in doors["help"]
    assert "How strong it is (0 to 2)." in " ".join(doors["help"].replace("│", " ").split())
    assert "strength: float | None = None" in doors["signature"]
    assert "strength: Strength. How strong it is. Range: 0 to 2." in doors["sentence"]
    assert "strength" in doors["form"][0]
    assert 'name="strength"' in doors["fields"]
    assert doors["form"][1] == "How strong it is. 0 to 2"
    assert "strength" in doors["links"]
    assert doors["command"].endswith("--strength 1.5")
    assert "strength=1.5" in doors["python"]
