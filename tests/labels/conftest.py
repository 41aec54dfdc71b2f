"""Label stores to test with: a fresh one per test, on SQLite and on Debian's PostgreSQL."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from bias_core.labels.label_store import LabelStore

_PATIENCE_SECONDS = 60


class Clock:
    """A time of the test's own."""

    def __init__(self):
        self.now = 1_750_000_000.0

    def __call__(self):
        return self.now


def _programs():
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    where = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    return {name: shutil.which(name, path=where) or "" for name in ("initdb", "postgres")}


@pytest.fixture(scope="session")
def postgres_url():
    """A PostgreSQL server for this session only, on a port of its own."""
    pytest.importorskip("psycopg", reason="no driver: pip install 'psycopg[binary]'")
    programs = _programs()
    if not all(programs.values()):
        pytest.skip("PostgreSQL is NOT TESTED: install it with `apt-get install postgresql`")
    # It refuses to run as root, and must reach its folder.
    as_user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="labels-pg-"))
    if as_user:
        shutil.chown(folder, **as_user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    initdb = [programs["initdb"], "-D", str(folder / "data"), "-A", "trust", "-U", "tester", "-N"]
    initdb += ["-E", "UTF8", "--locale=C.UTF-8"]
    subprocess.run(initdb, check=True, **quiet, **as_user)
    command = [programs["postgres"], "-D", str(folder / "data"), "-p", str(port), "-k", str(folder)]
    command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=16MB"]
    server = subprocess.Popen(command, **quiet, **as_user)
    url = f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
    try:
        _wait_for(url)
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # at once, whoever is still connected
        server.wait(timeout=30)
        shutil.rmtree(folder)


def _wait_for(url):
    engine = create_engine(url)
    for attempt in range(_PATIENCE_SECONDS * 5):
        try:
            with engine.connect():
                break
        except OperationalError:
            assert attempt < _PATIENCE_SECONDS * 5 - 1, "PostgreSQL does not answer"
            time.sleep(0.2)
    engine.dispose()


@pytest.fixture
def clock():
    return Clock()


MakeStore = Callable[[str], LabelStore]


@pytest.fixture
def make_store(request, tmp_path, clock):
    """``make_store("sqlite")`` or ``make_store("postgresql")``: another empty one each time."""
    made = []

    def make(kind):
        url = f"sqlite:///{tmp_path}/labels-{len(made)}.sqlite"
        if kind == "postgresql":
            url = request.getfixturevalue("postgres_url")
            schema = f"test_{uuid.uuid4().hex}"
            engine = create_engine(url)
            with engine.begin() as connection:
                connection.execute(text(f"CREATE SCHEMA {schema}"))
            engine.dispose()
            url += f"?options=-csearch_path%3D{schema}"
        made.append(LabelStore(url, pictures=tmp_path / "pictures", clock=clock, rng=random.Random(1)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(request, make_store):
    """An empty store on SQLite; with ``@on_both`` of tests/labels/raters.py on PostgreSQL, too."""
    return make_store(getattr(request, "param", "sqlite"))
