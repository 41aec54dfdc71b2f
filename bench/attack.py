"""Effect of one hostile visitor on the others: `python -m bench.attack [seconds per attack] [part of a name]`.

Starts the app on 127.0.0.1 with a hub that never answers and attacks it in one way after another. One line per attack:
the longest time that another visitor waited for an answer while it went on, the time of their page, of their 16
pictures and of reading four that they brought, the 99th percentile of a rater's requests, and how much the server's
memory and its folder of uploads grew. A missed bar is marked with "!", and the exit status is 1.
"""

import io
import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

import httpx
import numpy as np
import psutil
from PIL import Image, PngImagePlugin

from bias_core.services import Services
from bias_core.settings import Settings
from tests.attack.hostile_files import PICTURES
from tests.attack.page import PREFIX, PageVisitor
from tests.labels.raters import CHOICES, new_id, open_task, to_join

ROOT = Path(__file__).parent.parent
MODEL = "calibration-renderer"  # draws for the other visitor
HUGE = {"n_images": 10**9, "num_inference_steps": 10**9, "seed": 10**30}
MOST_WAIT, MOST_MEMORY, MOST_UPLOADS = 1.0, 100e6, 200e6  # s, bytes, bytes
CLIENT = httpx.Client(verify=False, timeout=60)  # reading certificates takes longer than a request


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def silent_hub():
    """Start a server that accepts every connection and never answers; yield its address."""
    hub = socket.create_server(("127.0.0.1", 0))
    kept = []

    def take():
        while True:
            kept.append(hub.accept())

    threading.Thread(target=take, daemon=True).start()
    return f"http://127.0.0.1:{hub.getsockname()[1]}"


def post(url, path, **body):
    return CLIENT.post(url + path, **body)


@cache
def parameters(url, tool):
    return CLIENT.get(f"{url}{PREFIX}/info").json()["named_endpoints"][f"/{tool}"]["parameters"]


def call(url, tool, **values):
    """Ask for a run as a program does, without waiting for it."""
    data = [values.get(p["parameter_name"], p.get("parameter_default")) for p in parameters(url, tool)]
    return post(url, f"{PREFIX}/call/{tool}", json={"data": data})


def explore(url, **values):
    return call(url, "explore", **values)


def upload(url, name, content):
    sent = post(url, f"{PREFIX}/upload", files={"files": (name, content)})
    return {"path": sent.json()[0], "meta": {"_type": "gradio.FileData"}} if sent.is_success else None


def imported(url, content):
    """Upload a zip of pictures for import."""
    if (file := upload(url, "pictures.zip", content)) is not None:
        call(
            url,
            "run_study",
            study="tbyb-dataset",
            force=True,
            options=["negative=a wall", "captioner=calibration-captioner"],
            pictures=[file],
        )


def packed(**files):
    with zipfile.ZipFile(made := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return made.getvalue()


def picture(**texts):
    info = PngImagePlugin.PngInfo()
    for name, text in texts.items():
        info.add_text(name, text, zip=True)
    Image.new("RGB", (64, 64), "teal").save(made := io.BytesIO(), "PNG", pnginfo=info)
    return made.getvalue()


def hard_texts(url):
    """Send pictures with texts that keep a careless pattern busy for minutes."""
    hard = picture(Dream=" " * 80_000, Comment="{" * 60_000, parameters="Steps: 1, " + "Hashes:{" * 20_000)
    imported(url, packed(metadata__csv="file_name,prompt\na.png,a doctor\n", a__png=hard))


def small_and_huge(url):
    """Send small files that hold millions of rows, and a picture of 30,000 x 30,000."""
    imported(url, packed(metadata__csv="file_name,prompt\n" + "\n" * 2_000_000))
    imported(url, packed(metadata__csv="file_name,prompt\na.png,a doctor\n", a__png=black_square(30_000)))


HOSTILE = (
    "a BMP of a thousand skips", "a TIFF of one huge tile", "a GIF with a late comment", "a GIF with noise behind",
    "many passes of a JPEG", "many parts", "tiny parts of a JPEG", "a WebP's EXIF", "16.8 million pixels, AVIF RGB",
    "16.8 million pixels, TIFF CMYK",
)  # fmt: skip


@cache
def hostile_zips():
    """Ten small zips, each with a picture that costs a decoder gigabytes or minutes."""
    return [packed(**{"a photo of a nurse__png": PICTURES[name]()}) for name in HOSTILE]


def look_at(url, content):
    """Have a zip of pictures read, and wait for what was understood."""
    if (file := upload(url, "pictures.zip", content)) is not None:
        event = call(url, "look_at_pictures", pictures=[file]).json()["event_id"]
        return CLIENT.get(f"{url}{PREFIX}/call/look_at_pictures/{event}", timeout=300).text
    return ""


def hostile_files(url):
    """Send ten such zips at once."""
    with ThreadPoolExecutor(len(HOSTILE)) as pool:
        list(pool.map(partial(look_at, url), hostile_zips()))


def black_square(side):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(side + 1) * 100)) + chunk(b"IEND", b"")


def nameless_events(url):
    """Join the queue twice at once under the name of no session."""
    body = {"data": [], "fn_index": 0, "session_hash": ""}
    both = [threading.Thread(target=post, args=(url, f"{PREFIX}/queue/join"), kwargs={"json": body}) for _ in "12"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


def large_bodies(url):
    post(url, f"{PREFIX}/queue/join", json={"data": [[0] * 2_000_000], "fn_index": 0, "session_hash": "a"})
    post(url, f"{PREFIX}/call/explore", content=b"[" * 5_000_000)
    post(url, "/label/answer", content=iter([b" " * 1_000_000] * 10))


def long_names(url):
    post(url, f"{PREFIX}/queue/join", json={"data": [], "fn_index": 0, "session_hash": secrets.token_hex(900_000)})
    CLIENT.get(url, headers={f"x-{i}": "a" * 60_000 for i in range(20)})


def many_uploads(url):
    """Send one request with 45 MB in each of four files, then one that breaks off."""
    content = secrets.token_bytes(1 << 20) * 45
    post(url, f"{PREFIX}/upload", files=[("files", (f"{i}.zip", content)) for i in range(4)])
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as broken_off:
        head = f"POST {PREFIX}/upload HTTP/1.1\r\nHost: {host}\r\nContent-Length: 90000000\r\n"
        part = '--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        broken_off.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n{part}".encode())
        broken_off.sendall(content[:20_000_000])


def unread_calls(url):
    for _ in range(100):
        post(url, f"{PREFIX}/call/list_models", json={"data": ["summary"]})


def other_addresses(url):
    for path in (f"/?page={secrets.token_hex(4)}", "/config", "/?view=api"):
        CLIENT.get(url + path)
    CLIENT.head(url)


def broken(url):
    for body in (b"{", b"[" * 9999, b'{"data": null, "fn_index": 1e9}', b'{"fn_index": 3, "data": [{}]}'):
        post(url, f"{PREFIX}/queue/join", content=body)
        post(url, "/label/answer", content=body)


ATTACKS = {
    "nothing": lambda _url: time.sleep(0.5),
    "33 calls": lambda url: [explore(url, concept=f"doctor {i}", n_images=900, seed=i) for i in range(33)],
    "huge numbers": lambda url: explore(url, concept="doctor", **HUGE),
    "slow hub": lambda url: explore(url, concept="doctor", model=f"org/model-{secrets.token_hex(3)}"),
    "many joins": lambda url: post(url, "/label/join", json={"task": secrets.token_hex(8)}),
    "broken inputs": broken,
    "nameless events": nameless_events,
    "hard texts": hard_texts,
    "small and huge": small_and_huge,
    "hostile files": hostile_files,
    "large bodies": large_bodies,
    "long names": long_names,
    "many uploads": many_uploads,
    "unread calls": unread_calls,
    "other addresses": other_addresses,
}


def until(end, do, *args):
    """Repeat ``do`` until a time; ignore refusals, as an attacker would."""
    while time.monotonic() < end:
        with suppress(httpx.HTTPError, OSError):
            do(*args)


def rate(url, me, seconds):
    """Answer one item as a rater does, and note the time of a request."""
    begun = time.monotonic()
    turn = CLIENT.get(f"{url}/label/next", headers=me).json()
    if turn.get("item"):
        answer = {"id": new_id(), "item": turn["item"], "choices": CHOICES, "duration_ms": 900}
        post(url, "/label/answer", headers=me, json=answer)
    seconds.append((time.monotonic() - begun) / 2)
    time.sleep(0.1)


def look(url, seconds):
    """Ask for the page as a visitor does, and note how long that took."""
    begun = time.monotonic()
    CLIENT.get(url)
    seconds.append(time.monotonic() - begun)
    time.sleep(0.1)


def memory(pid, name="VmRSS"):
    """Memory of a process in bytes: now, or its peak since the last reset ("VmHWM")."""
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith(name))
    return 1024 * int(line.split()[1])


def reader_memory(pid):
    """Greatest memory of all readers that a server has now."""
    return max((memory(child.pid, "VmHWM") for child in psutil.Process(pid).children()), default=0)


@cache
def usual_zip():
    """Four pictures as a visitor brings them."""
    noise = [np.random.default_rng(n).integers(0, 256, (512, 512, 3), dtype=np.uint8) for n in range(4)]
    files = {}
    for number, pixels in enumerate(noise):
        Image.fromarray(pixels).save(made := io.BytesIO(), "JPEG")
        files[f"a photo of a nurse {number}__jpg"] = made.getvalue()
    return packed(**files)


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(server, attack, me, length):
    """Run one attack; return its line, and True if it met all bars."""
    url, pid, folder = server
    end, waits, looks, before = time.monotonic() + length, [0.0], [0.0], memory(pid)
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    todo = ((attack, url), (rate, url, me, waits), (look, url, looks))
    threads = [threading.Thread(target=until, args=(end, *one)) for one in todo]
    for thread in threads:
        thread.start()
    time.sleep(min(5, length / 4))
    visitor = PageVisitor(url)
    opened = visitor.open()
    begun = time.monotonic()
    *_, shown, last = visitor.press("generate", concept=f"nurse {secrets.token_hex(2)}", model=MODEL)
    drawn = time.monotonic() - begun
    begun = time.monotonic()
    is_read = "n_left_out" in look_at(url, usual_zip())
    read = time.monotonic() - begun
    is_right = last["success"] and f"--model {MODEL}" in str(shown["output"])
    for thread in threads:
        thread.join()
    grown, uploads = memory(pid, "VmHWM") - before, size(folder)
    met = [max(looks) <= MOST_WAIT, grown <= MOST_MEMORY, uploads <= MOST_UPLOADS, is_right, len(looks) > 2, is_read]
    marks = [" " if one else "!" for one in met]
    return (
        f"waits {max(looks):5.2f} s (p99 {np.percentile(looks, 99):4.2f}){marks[0]}  page {opened:4.1f} s  "
        f"16 pictures {drawn:5.1f} s{marks[3]}  own pictures read {read:4.1f} s{marks[5]}  "
        f"rater p99 {1000 * np.percentile(waits, 99):4.0f} ms  memory {grown / 1e6:+5.0f} MB{marks[1]}  "
        f"readers {reader_memory(pid) / 1e6:4.0f} MB  uploads {uploads / 1e6:4.0f} MB{marks[2]}",
        all(met),
    )


@contextmanager
def serving_app(folder, **environment):
    """Start the app as for visitors, on this machine only; yield its address and process."""
    port = free_port()
    own = {"BIAS_DATA_DIR": str(folder / "data"), "BIAS_PORT": str(port), "BIAS_DEVICE": "cpu"}
    own |= {"GRADIO_TEMP_DIR": str(folder / "cache"), "GRADIO_SERVER_NAME": "127.0.0.1"}
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=os.environ | own | environment)
    url = f"http://127.0.0.1:{port}"
    try:
        while not answers(url):
            time.sleep(0.05)
        yield url, app.pid
    finally:
        app.terminate()
        app.wait(60)


def main():
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    chosen = {name: act for name, act in ATTACKS.items() if sys.argv[2:] in ([], [name]) or sys.argv[2] in name}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        services = Services(Settings(data_dir=folder / "data"))
        task = open_task(services.labels, folder, 500)
        services.close()
        limits = {"BIAS_UPLOADS_GB": str(MOST_UPLOADS / 1e9), "BIAS_PUBLIC": "true"}
        with serving_app(folder, HF_ENDPOINT=silent_hub(), **limits) as (url, pid):
            with httpx.Client(base_url=url, verify=False) as client:
                code = client.post("/label/join", json=to_join(client, task.join_code)).json()["code"]
            warm_up(url)
            met = []
            for name, attack in chosen.items():
                line, is_met = measure((url, pid, folder / "cache"), attack, {"X-Rater-Code": code}, length)
                print(f"{name:16}", line, flush=True)
                met.append(is_met)
    return 0 if all(met) else 1


def warm_up(url):
    """Load the models that every visitor uses, so that the first visitor does not wait for them."""
    for concept in ("ceo", "doctor"):
        visitor = PageVisitor(url)
        visitor.open()
        list(visitor.press("generate", concept=concept, model=MODEL))


def answers(url):
    try:
        return CLIENT.get(url).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main())
