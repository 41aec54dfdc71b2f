"""A release: its changelog, how to cite it, and its first steps, which run."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import bias_core
from scripts.run_notebook import NOTEBOOK, run_cells

ROOT = Path(__file__).parent.parent
# Of the schema of Citation File Format 1.2.0, what this file uses.
KEYS = {
    "cff-version", "message", "title", "type", "authors", "version", "date-released", "license", "abstract", "keywords",
    "references", "repository-code", "url",
}  # fmt: skip
REFERENCE_KEYS = {"type", "title", "authors", "year", "url", "journal", "collection-title", "doi"}
TYPES = {"article", "conference-paper", "generic"}
PAPERS = ("wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis")


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project():
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def release():
    """The version, day and lines of the newest release in the changelog."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day, text = re.search(r"^## \[(\d\S*)\] - (\S+)\n(.*?)(?=^## |\Z)", changelog, flags=re.M | re.S).groups()
    return version, day, text.splitlines()


def test_the_citation_is_valid(citation):
    assert set(citation) <= KEYS
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert all(isinstance(citation[key], str) and citation[key] for key in ("message", "title", "abstract"))
    for work in (citation, *citation["references"]):
        assert work["authors"]
        for author in work["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
            assert all(author.values())
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference) <= REFERENCE_KEYS
        assert reference["type"] in TYPES
        assert isinstance(reference["year"], int)
        assert reference.get("url", "https://").startswith("https://")


def test_the_citation_names_this_release(citation, project):
    version, day, _ = release()
    assert citation["version"] == version == bias_core.__version__
    assert citation["date-released"] == day
    assert citation["license"] == project["license"]


def test_the_citation_has_the_papers_as_the_bibliography_has_them(citation):
    bibliography = (ROOT / "assets" / "refs.bib").read_text(encoding="utf-8")
    for key, reference in zip(PAPERS, citation["references"], strict=True):
        entry = re.search(rf"@\w+{{{key},\n(.*?)\n}}", bibliography, flags=re.S).group(1)
        fields = dict(re.findall(r"^\s*(\w+)\s*=\s*{(.*)},$", entry, flags=re.M))
        assert reference["title"] == re.sub("[{}]", "", fields["title"])
        authors = [f"{author['family-names']}, {author['given-names']}" for author in reference["authors"]]
        assert " and ".join(authors) == fields["author"]
        assert str(reference["year"]) == fields["year"]
        if "arxiv" in reference.get("url", ""):
            assert reference["url"].rpartition("/")[2] in fields.get("eprint", "") + fields.get("journal", "")


def test_the_changelog_of_a_release_is_short():
    _, _, lines = release()
    assert 10 < len(lines) <= 60
    assert max(map(len, lines)) <= 120


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def notebook():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def test_the_notebook_runs_and_prints_what_it_shows(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("BIAS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    n_figures = 0
    for cell, outputs in run_cells(notebook):
        n_figures += sum(output["output_type"] == "display_data" for output in outputs)
        shown, printed = (
            [
                "".join(output["text"])
                for output in some
                if output["output_type"] == "stream" and "MB" not in str(output)
            ]
            for some in (cell["outputs"], outputs)
        )
        words, others = (_NUMBER.sub("#", "".join(lines)) for lines in (printed, shown))
        assert words == others, "run scripts/run_notebook.py"
        values, kept = ([*map(float, _NUMBER.findall("".join(lines)))] for lines in (printed, shown))
        assert values == pytest.approx(kept, abs=0.0021), "run scripts/run_notebook.py"  # other libraries, other bits
    assert n_figures == 2
    assert (tmp_path / "doctors.html").stat().st_size > 100_000


def test_the_notebook_is_one_page_of_public_names(notebook):
    assert NOTEBOOK.stat().st_size < 300_000
    lines = [line for cell in notebook["cells"] for line in cell["source"]]
    assert len(lines) < 120
    imported = re.findall(r"^from bias_core(\S*) import (.*)$", "".join(lines), flags=re.M)
    assert imported
    for place, names in imported:
        assert place == ""
        assert set(names.split(", ")) <= set(bias_core.__all__)


def test_issue_forms_are_whole_and_ask_for_the_environment():
    forms = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert {"bug", "model", "paper"} <= set(forms)
    for name in ("bug", "model", "paper"):
        assert {"name", "description", "body"} <= set(forms[name])
        assert all(
            part["type"] in {"input", "textarea"} and part["attributes"]["label"] for part in forms[name]["body"]
        )
    for name in ("bug", "model"):
        assert "t2i-bias env" in json.dumps(forms[name])
    assert len((ROOT / ".github/PULL_REQUEST_TEMPLATE.md").read_text().splitlines()) == 6


def test_continuous_integration_runs_what_a_developer_runs(project):
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    assert any(step.get("run", "").endswith(".ci/run") for step in steps["steps"])
    versions = {text.rpartition(" ")[2] for text in project["classifiers"] if re.search(r"3\.\d+$", text)}
    assert set(steps["strategy"]["matrix"]["python"]) == versions
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff", "ruff-format"]


def test_transformers_is_bound_only_while_the_peft_that_it_asks_for_is_not_out():
    (line,) = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("transformers")]
    bound = Requirement(line.split("#")[0]).specifier
    is_out = Version(version("peft")) >= Version("0.22")
    assert ("5.24.0" in bound) == is_out, "PEFT 0.22 is out: let requirements.txt take transformers 5.24"
