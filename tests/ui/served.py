"""The real app over services without weights, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ui.fakes import FakeServices

ROOT = Path(__file__).parent.parent.parent
_PATIENCE_SECONDS = 300  # the machine may be busy


@dataclass(frozen=True)
class Served:
    url: str
    data_dir: Path
    pid: int


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_PATIENCE_SECONDS * 5):
        assert process.poll() is None, "the app ended at its start"
        try:
            urllib.request.urlopen(url).close()
        except urllib.error.HTTPError:
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"no answer from {url}")


@contextmanager
def serving(folder: Path, module: str = "tests.ui.serve", **environment: str) -> Iterator[Served]:
    """The address of an app, or of what else a module serves, that keeps everything below ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", module, str(folder / "data"), str(port)]
    own = {"GRADIO_TEMP_DIR": str(folder / "cache"), "GRADIO_ANALYTICS_ENABLED": "False"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | own | environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}", process)
            yield Served(url=f"http://127.0.0.1:{port}", data_dir=folder / "data", pid=process.pid)
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app that serves this test session only."""
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def fakes(tmp_path: Path) -> Iterator[FakeServices]:
    services = FakeServices(tmp_path)
    yield services
    services.close()
