"""The site: every link leads somewhere, and a browser gets everything from the built folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bias_core

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site, built as `make docs` builds it."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return place


def test_nothing_is_loaded_from_elsewhere(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 40
    loaded = (
        r"<(?:script|img|iframe|link|source)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*|(?:@import|url\()[^;)]*//[^;)]*"
    )
    remote = {
        f"{page.relative_to(site)}: {tag}"
        for page in pages
        for tag in re.findall(loaded, page.read_text(encoding="utf-8"))
        if "data:" not in tag
    }
    assert not remote


def test_the_home_page_is_the_readme_without_the_settings_of_a_space(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    assert "app_file" not in home
    assert 'src="docs/screenshot.png"' in home
    assert (site / "docs" / "screenshot.png").is_file()


def test_formulas_are_set(site):
    page = (site / "docs" / "measures.html").read_text(encoding="utf-8")
    assert page.count("<math") == len(re.findall(r"\$\$.+?\$\$|\$.+?\$", (ROOT / "docs" / "measures.md").read_text()))
    assert not re.search(r">\\|\$", page)  # an unknown command, or TeX that was left


def test_the_api_has_every_public_name(site):
    page = (site / "api" / "python.html").read_text(encoding="utf-8")
    missing = [name for name in bias_core.__all__ if f'.{name}" class="doc' not in page]
    assert not missing
