"""What one visitor can do to the others, on this machine: `python -m bench.attack [seconds per attack]`.

Starts the app on 127.0.0.1 with a hub that never answers, attacks it in one way after the other, and
prints for each how long another visitor waited for the page and 16 pictures, and the 99th percentile of a
rater's requests.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np

from bias_core.services import Services
from bias_core.settings import Settings
from tests.annotation.raters import CHOICES, new_id, open_task, to_join
from tests.attack.page import PREFIX, PageVisitor

ROOT = Path(__file__).parent.parent
MODEL = "calibration-renderer"  # who draws for the other visitor
HUGE = {"n_images": 10**9, "num_inference_steps": 10**9, "seed": 10**30}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def silent_hub():
    """A server that takes every connection and says nothing."""
    hub = socket.create_server(("127.0.0.1", 0))
    kept = []

    def take():
        while True:
            kept.append(hub.accept())

    threading.Thread(target=take, daemon=True).start()
    return f"http://127.0.0.1:{hub.getsockname()[1]}"


def explore(url, **values):
    """Ask for an exploration as a program does, and do not wait for it."""
    told = httpx.get(f"{url}{PREFIX}/info", timeout=30).json()["named_endpoints"]["/explore"]["parameters"]
    data = [values.get(p["parameter_name"], p.get("parameter_default")) for p in told]
    return httpx.post(f"{url}{PREFIX}/call/explore", json={"data": data}, timeout=30).status_code


def upload(url):
    files = {"files": ("pictures.zip", secrets.token_bytes(1 << 20) * 45)}
    return httpx.post(f"{url}{PREFIX}/upload", files=files, timeout=60).status_code


def broken(url):
    for body in (b"{", b"[" * 9999, b'{"data": null, "fn_index": 1e9}', b'{"fn_index": 3, "data": [{}]}'):
        httpx.post(f"{url}{PREFIX}/queue/join", content=body, timeout=30)
        httpx.post(f"{url}/label/answer", content=body, timeout=30)


ATTACKS = {
    "nothing": lambda _url: time.sleep(0.5),
    "33 calls": lambda url: [explore(url, concept=f"doctor {i}", n_images=900, seed=i) for i in range(33)],
    "huge numbers": lambda url: explore(url, concept="doctor", **HUGE),
    "slow hub": lambda url: explore(url, concept="doctor", model=f"org/model-{secrets.token_hex(3)}"),
    "huge import": upload,
    "many joins": lambda url: httpx.post(f"{url}/label/join", json={"task": secrets.token_hex(8)}, timeout=30),
    "broken inputs": broken,
}


def rate(url, me, until, seconds):
    """Answer one item after the other as a rater does; the time of each request."""
    with httpx.Client(base_url=url, headers=me, timeout=60) as client:
        while time.monotonic() < until:
            begun = time.monotonic()
            turn = client.get("/label/next").json()
            if turn.get("item"):
                answer = {"id": new_id(), "item": turn["item"], "choices": CHOICES, "duration_ms": 900}
                client.post("/label/answer", json=answer)
            seconds.append((time.monotonic() - begun) / 2)
            time.sleep(0.1)


def measure(url, attack, me, length):
    until, waits = time.monotonic() + length, []

    def repeat():
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):  # being refused is what an attacker expects
                attack(url)

    threads = [threading.Thread(target=repeat), threading.Thread(target=rate, args=(url, me, until, waits))]
    for thread in threads:
        thread.start()
    time.sleep(min(5, length / 4))
    visitor = PageVisitor(url)
    opened = visitor.open()
    begun = time.monotonic()
    *_, last = visitor.press("generate", concept=f"nurse {secrets.token_hex(2)}", model=MODEL)
    drawn = time.monotonic() - begun
    is_right = last["success"] and f"--model {MODEL}" in str(last["output"])
    for thread in threads:
        thread.join()
    p99 = 1000 * np.percentile(waits, 99)
    return f"page {opened:5.1f} s   16 pictures {drawn:6.1f} s ({is_right})   rater p99 {p99:5.0f} ms"


@contextmanager
def serving_app(folder, **environment):
    """The app as it is started for visitors, on this machine only: its address and its process."""
    port = free_port()
    own = {"BIAS_DATA_DIR": str(folder / "data"), "BIAS_PORT": str(port), "BIAS_DEVICE": "cpu"}
    own |= {"GRADIO_TEMP_DIR": str(folder / "cache"), "GRADIO_SERVER_NAME": "127.0.0.1"}
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=os.environ | own | environment)
    url = f"http://127.0.0.1:{port}"
    try:
        while not answers(url):
            time.sleep(0.5)
        yield url, app.pid
    finally:
        app.terminate()
        app.wait(60)


def main():
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        services = Services(Settings(data_dir=folder / "data"))
        task = open_task(services.labels, folder, 500)
        services.close()
        with serving_app(folder, HF_ENDPOINT=silent_hub()) as (url, _):
            with httpx.Client(base_url=url, timeout=30) as client:
                code = client.post("/label/join", json=to_join(client, task.join_code)).json()["code"]
            warm_up(url)
            for name, attack in ATTACKS.items():
                print(f"{name:15}", measure(url, attack, {"X-Rater-Code": code}, length), flush=True)


def warm_up(url):
    """Have the models loaded that every visitor uses: the first one waits for that, attack or none."""
    for concept in ("ceo", "doctor"):
        visitor = PageVisitor(url)
        visitor.open()
        list(visitor.press("generate", concept=concept, model=MODEL))


def answers(url):
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    main()
