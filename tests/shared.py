"""Pictures, their readings, and loaded models that the tests of one process share.

A test file takes a fixture by ``services = shared.real_services`` or ``shared.fake_services``. Runs, reports and labels
are the file's own. A file that counts what is drawn, breaks a store, or reads with a classifier that must have seen its
pictures drawn needs an empty data folder: it builds its services over ``tmp_path``, and says why.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

import pytest

from bias_core.services import Services
from bias_core.settings import Settings
from tests.ui.fakes import FakeServices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILES = ("embeddings.sqlite", "answers.sqlite", "file_hashes.sqlite")
_LOADED: dict[tuple[str, ...], Any] = {}


class RealServices(Services):
    """The program's own models, each loaded once for all tests."""

    def _build_reader(self, role: Any, info: Any, version: str) -> Any:
        key = ("reader", role, info.id, version)
        if key not in _LOADED:
            _LOADED[key] = super()._build_reader(role, info, version)
        return _LOADED[key]

    def _build_model(self, info: Any, version: str) -> Any:
        key = ("model", info.id, version)
        if key not in _LOADED:
            _LOADED[key] = super()._build_model(info, version)
        return _LOADED[key]


def command_line(data: Path, assets: Path) -> Any:
    """Calls a command in this process, on this data folder: ``.environment`` is what it is called with."""
    from typer.testing import CliRunner

    from bias_core.app.cli import app

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments), env=run.environment)

    run.environment = {"BIAS_DATA_DIR": str(data), "BIAS_ASSETS_DIR": str(assets), "BIAS_OFFLINE": "1"}
    run.environment |= {"BIAS_DEVICE": "cpu", "COLUMNS": "200"}
    return run


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of pictures and readings that data folders of this process share."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "images").mkdir()
    for name in (*_FILES, "answers_of_fakes.sqlite"):
        (folder / name).touch()
    return folder


def shared_folder(shelf: Path, folder: Path) -> Path:
    """``folder`` as a data folder whose pictures and readings are those of the shelf."""
    folder.mkdir(exist_ok=True)
    for name in ("images", *_FILES):
        (folder / name).symlink_to(shelf / name)
    return folder


@pytest.fixture(scope="module")
def shared_data(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder for one test file."""
    return shared_folder(shelf, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def real_services(shared_data: Path) -> Iterator[Services]:
    """The program as it comes, for one test file."""
    services = RealServices(Settings(data_dir=shared_data, offline=True, device="cpu"))
    yield services
    services.close()


@pytest.fixture(scope="module")
def fake_services(shelf: Path, shared_data: Path) -> Iterator[FakeServices]:
    """The renderer, and classifiers without weights, for one test file."""
    answers = shared_data / "answers.sqlite"  # its finder has the name of the real one, and reads otherwise
    answers.unlink()
    answers.symlink_to(shelf / "answers_of_fakes.sqlite")
    services = FakeServices(shared_data)
    yield services
    services.close()


_DRAWING = ("bias_core.ui.templates", "bias_core.report.documents", "bias_core.explore.tab")


@contextmanager
def titles_for_plots() -> Iterator[None]:
    """Pages, documents and exports that have the title of a plot in its place: drawing takes most of their time."""

    def titled(figure: Any, *_: object, **__: object) -> str:
        return f"<svg><title>{escape(figure.title)}</title></svg>"

    def files(name: str, _: Any) -> dict[str, bytes]:
        return {f"{name}.{form}": b"undrawn" for form in ("svg", "png", "txt")}

    with pytest.MonkeyPatch.context() as patch:
        for name in _DRAWING:
            if module := sys.modules.get(name):
                patch.setattr(module, "figure_svg", titled)
        if module := sys.modules.get("bias_core.report.export"):
            patch.setattr(module, "_figure_files", files)
        yield
