"""A server that is told to end does so within seconds, whatever it is doing, and keeps every acknowledged answer."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import httpx

from bias_core.labels.label_store import LabelStore
from tests.attack.page import PREFIX
from tests.labels.raters import answer_to, joined, open_task
from tests.ui.served import ROOT, _free_port, _wait_for

MOST_SECONDS = 5.0


@contextmanager
def started(folder, *command):
    """The real app as a user starts it, with all of its temporary files in ``folder``."""
    (folder / "temporary").mkdir(parents=True)
    environment = {
        "BIAS_DATA_DIR": str(folder / "data"), "BIAS_OFFLINE": "true", "GRADIO_SERVER_PORT": str(_free_port()),
        "TMPDIR": str(folder / "temporary"),
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process, f"http://127.0.0.1:{environment['GRADIO_SERVER_PORT']}"
        finally:
            process.kill()
            process.wait()


def end(process):
    """Tell a process to end; its status, and the seconds that it took."""
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    return process.wait(60), time.monotonic() - begun


def test_the_app_ends_at_any_moment_of_its_start(tmp_path):
    ends = {}
    for delay in (0.7, 1, 2, 4, 8):
        command = ["-m", "bias_core"] if delay == 1 else ["app.py"]
        with started(tmp_path / f"{delay}", *command) as (process, _):
            time.sleep(delay)
            ends[delay] = end(process)
    assert not {delay: found for delay, found in ends.items() if found[0] or found[1] > MOST_SECONDS}


def begin_request(url, head, body):
    """A connection whose request stays half sent."""
    address = httpx.URL(url)
    connection = socket.create_connection((address.host, address.port))
    connection.sendall("\r\n".join([*head, f"Host: {address.host}:{address.port}", "", ""]).encode() + body)
    return connection


def begin_run(client):
    """Ask for a run that draws until the server ends."""
    parameters = client.get(f"{PREFIX}/info").json()["named_endpoints"]["/explore"]["parameters"]
    values = {each["parameter_name"]: each.get("parameter_default") for each in parameters}
    values |= {"concept": "doctor", "n_images": 400}
    client.post(f"{PREFIX}/call/explore", json={"data": [*values.values()]}).raise_for_status()


def test_the_app_ends_while_it_draws_with_an_open_upload_and_half_an_answer(tmp_path):
    data = tmp_path / "data"
    store = LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")
    task = open_task(store, tmp_path / "originals")
    store.close()
    with started(tmp_path, "app.py") as (process, url), httpx.Client(base_url=url, timeout=30) as client:
        _wait_for(url, process)
        rater = joined(client, task)
        answer = answer_to(client.get("/label/next", headers=rater).json())
        assert client.post("/label/answer", headers=rater, json=answer).status_code == 200
        begin_run(client)
        until = time.monotonic() + 120
        while len([*(data / "images").rglob("*.png")]) < 16:
            assert time.monotonic() < until
            time.sleep(0.1)
        half = ["POST /label/answer HTTP/1.1", "Content-Length: 300", "Content-Type: application/json"]
        kind = "Content-Type: multipart/form-data; boundary=b"
        upload = [f"POST {PREFIX}/upload HTTP/1.1", "Content-Length: 9000", kind]
        part = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\nhalf'
        with closing(begin_request(url, half, b'{"id": ')), closing(begin_request(url, upload, part)):
            time.sleep(0.5)
            status, seconds = end(process)
    assert (status, seconds < MOST_SECONDS) == (0, True), seconds
    assert not (data / "labels.sqlite-wal").exists() or not (data / "labels.sqlite-wal").stat().st_size
    with closing(sqlite3.connect(data / "labels.sqlite")) as labels:
        assert labels.execute("SELECT client_id FROM answers").fetchall() == [(answer["id"],)]
    assert not [path for path in (tmp_path / "temporary").rglob("*") if path.is_file()]
    assert "Traceback" not in (tmp_path / "log").read_text()
