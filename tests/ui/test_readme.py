"""Every code block of the README and of `docs/` runs, links lead somewhere, and tests that promises name exist."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import bias_core.app.build  # noqa: F401 - whose plots then have titles only
from tests.ui.fakes import FakeServices

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
ALL = "\n".join([README, *PAGES.values()])
PYTHON = re.findall(r"```python\n(.*?)```", ALL, flags=re.S)


def console_lines(text):
    """The commands of a page's console blocks, without comments."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", text.replace("\\\n", " "), flags=re.S))
    return re.findall(r"^\$ (.*?)(?:\s+#.*)?$", blocks, re.M)


CONSOLE = console_lines(ALL)
WALKS = {
    path.stem: console_lines(path.read_text(encoding="utf-8")) for path in (ROOT / "docs" / "walks").glob("[a-z]*.md")
}


@pytest.fixture(autouse=True)
def without_weights(tmp_path, monkeypatch):
    from bias_core import services

    monkeypatch.setattr(services, "Services", lambda *_: FakeServices(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code, served, capsys):
    code = code.replace("http://127.0.0.1:7860", served.url)
    names = {}
    exec(code, names)
    assert "n = 15" in capsys.readouterr().out or "report" in names
    if "client" in names:
        names["client"].close()


@pytest.mark.parametrize("line", [line for line in CONSOLE if line.startswith("t2i-bias")])
def test_command_lines_run(line):
    from bias_core.app import cli

    Path("my-prompts.csv").write_text("prompt,n\na photo of a doctor,4\n")  # what lines take for granted
    Path("my-folder").mkdir()
    Image.linear_gradient("L").save("my-folder/a photo of a doctor.png")
    run = CliRunner().invoke(cli.app, shlex.split(line)[1:])
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize("name", sorted(WALKS))
def test_the_command_lines_of_a_walk_run_one_after_the_other(name):
    from bias_core.app import cli

    Path("assets").symlink_to(ROOT / "assets")
    run_id = ""
    assert WALKS[name]
    for line in WALKS[name]:
        run = CliRunner().invoke(cli.app, shlex.split(line.replace("RUN", run_id))[1:])
        assert run.exit_code == 0, run.output
        run_id = "".join(re.findall(r"^Run (\w{16})", run.output, flags=re.M)) or run_id


def test_what_a_walk_presses_is_on_the_page():
    kinds = ("py", "html", "yaml", "js")
    words = " ".join(path.read_text() for kind in kinds for path in (ROOT / "bias_core").rglob(f"*.{kind}"))
    for path in (ROOT / "docs" / "walks").glob("*.md"):
        pressed = re.findall(r"(?<![*\w])\*([A-Z][^*]+)\*(?!\*)", " ".join(path.read_text(encoding="utf-8").split()))
        missing = [name for name in pressed if re.sub(r"\d+", "{{ n }}", name) not in words]
        assert not missing, path.name


def links(text):
    """Targets of links and pictures outside the web: the file, empty for the page itself, and the anchor."""
    return re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", re.sub(r"```.*?```", "", text, flags=re.S))


def anchors(text):
    """The anchors of a page's headings, as GitHub and the hub make them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def pages():
    """The texts of all pages that are read, by place."""
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return {place: place.read_text(encoding="utf-8") for place in places}


def test_links_lead_to_files_and_headings_that_exist():
    checked = 0
    for place, text in pages().items():
        for name, anchor in links(text):
            target = place.parent / name if name else place
            assert target.exists(), f"{place.relative_to(ROOT)}: {name}"
            if anchor:
                checked += 1
                assert anchor in anchors(target.read_text(encoding="utf-8")), f"{place.relative_to(ROOT)}: #{anchor}"
    assert checked


def test_every_page_is_one_click_from_the_readme():
    linked = {(ROOT / name).resolve() for name, _ in links(README)}
    docs = ROOT / "docs"
    own = {*docs.glob("*.md"), *docs.glob("*.ipynb"), *docs.rglob("README.md")}
    kept = [place for place in (ROOT / "assets").rglob("*.md") if "templates" not in place.parts]  # of other packages
    cards = {place for place in kept if place.name in {"README.md", "CREDITS.md"}}
    assert len(own) > 12
    assert len(cards) > 10
    assert sorted(own | cards) == sorted(place for place in linked if place in own | cards)
    for place in docs.rglob("report.md"):  # of a validity study: one more click, from the summary
        summary = place.parent.parent / "README.md"
        assert f"]({place.parent.name}/report.md)" in summary.read_text(encoding="utf-8")


def test_every_picture_is_small_made_by_the_script_and_shown():
    from scripts.take_pictures import LIMIT_BYTES, PICTURES

    taken = {"screenshot.png", *(f"pictures/{place.name}" for place in (ROOT / "docs" / "pictures").iterdir())}
    assert taken == set(PICTURES)
    for name in taken:
        assert (ROOT / "docs" / name).stat().st_size <= LIMIT_BYTES
        shown = [page for page, text in PAGES.items() if f"]({name})" in text]
        assert len(shown) == 1, name
    for page in {"app.md", "studies.md", "labels.md", "models.md", "calibration.md"}:
        assert any(f"]({name})" in PAGES[page] for name in taken), page


def test_every_study_is_on_the_page_of_studies():
    from bias_core.app.cli import app

    told = CliRunner().invoke(app, ["study", "list", "--markdown"]).stdout
    assert told.strip() in PAGES["studies.md"], "put what `study list --markdown` says into docs/studies.md"


def test_every_variable_is_on_the_page_of_settings():
    from bias_core.settings import settings_markdown

    told = "put what `python -m bias_core.settings` prints into docs/settings.md"
    assert settings_markdown() in PAGES["settings.md"], told


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for line in CONSOLE if line.startswith("make")]
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_every_promise_has_a_test_that_exists():
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| shown by |")]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for path, test in named:
            assert f"def {test or 'test_'}" in (ROOT / path).read_text(), f"{path}::{test}"
