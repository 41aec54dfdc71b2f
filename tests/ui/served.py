"""The real app over services without weights: in this process, or in one of its own."""

from __future__ import annotations

import asyncio
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
from typing import Any

import pytest

from bias_core.services import Services
from tests.ui.fakes import FakeServices

ROOT = Path(__file__).parent.parent.parent
_PATIENCE_SECONDS = 300  # the machine may be busy


@dataclass(frozen=True)
class Served:
    url: str
    data_dir: Path
    pid: int
    demo: Any = None  # the app itself, where it is in this process


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


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
    port = _free_port()
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


@contextmanager
def serving_here(services: Services, folder: Path) -> Iterator[Served]:
    """The address of the app in this process, where its libraries are imported already; not warmed up."""
    from bias_core.app.build import build_app
    from bias_core.app.responses import Opening
    from bias_core.app.serve import launch_options

    async def launched(**options: Any) -> Any:  # in a loop, for Gradio would else make some that nobody closes
        demo = build_app(services)
        demo.launch(quiet=True, prevent_thread_lock=True, **options)
        return demo

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(folder / "cache"))
        options = launch_options(services, Opening()) | {"server_name": "127.0.0.1", "server_port": _free_port()}
        demo = asyncio.run(launched(**options))
        try:
            url = f"http://127.0.0.1:{options['server_port']}"
            yield Served(url=url, data_dir=services.settings.data_dir, pid=os.getpid(), demo=demo)
        finally:
            demo.close(verbose=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app that serves this test file only."""
    folder = tmp_path_factory.mktemp("served")
    services = FakeServices(folder / "data")
    with serving_here(services, folder) as found:
        yield found
    services.close()


@pytest.fixture
def fakes(tmp_path: Path) -> Iterator[FakeServices]:
    services = FakeServices(tmp_path)
    yield services
    services.close()
