"""Uploads that are too many, too large, too slow or end early, and the paths that nothing here needs."""

import asyncio
import errno
import gc
import io
import os
import threading
import zipfile
from pathlib import Path

import httpx
import pytest
from gradio.utils import get_upload_folder
from PIL import Image
from starlette.routing import Mount

from bias_core.app import uploads as door
from bias_core.app.doors import OpenPaths
from bias_core.app.uploads import Uploads
from bias_core.errors import InvalidInput
from bias_core.run.run import complete
from bias_core.store import uploads as stored
from bias_core.store.uploads import HeldUploads, UploadStore, gradio_folder
from bias_core.ui.visitor import Visitor, run_queued
from tests.attack.page import PREFIX, PageVisitor

UPLOAD = f"{PREFIX}/upload"
MOST = 100_000  # bytes of a request


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    store = UploadStore(1_000_000)
    yield store
    store.close()


def form(*contents, name="files", filename='; filename="mine.zip"'):
    """The body of an upload."""
    parts = [
        f'--X\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n\r\n'.encode() + content + b"\r\n"
        for content in contents
    ]
    return b"".join(parts) + b"--X--\r\n"


def asked(app, body, *, ends=True, address="203.0.113.7", path=UPLOAD, more_headers=(), piece=10_000):
    """Status and text of an upload that comes in pieces, and how many of them were read before the answer."""
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)]
    answer, n_read = [], []

    async def receive():
        n_read.append(not answer)
        if len(n_read) <= len(pieces):
            is_last = ends is True and len(n_read) == len(pieces)
            return {"type": "http.request", "body": pieces[len(n_read) - 1], "more_body": not is_last}
        if ends == "silent":
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        answer.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "client": (address, 1), "query_string": b"",
        "headers": [(b"content-type", b"multipart/form-data; boundary=X"), *more_headers],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return answer[0]["status"], b"".join(one.get("body", b"") for one in answer[1:]).decode(), sum(n_read)


def on_disk(folder):
    """Bytes of all files, of those with several names once."""
    files = [path.stat() for path in Path(folder).rglob("*") if path.is_file()]
    return sum({stat.st_ino: stat.st_size for stat in files}.values())


@pytest.mark.parametrize("declared", ["the truth", "nothing", "too little"])
def test_a_request_with_many_files_is_refused_when_it_is_too_large_and_leaves_nothing(store, declared):
    app = Uploads(None, store, MOST)
    body = form(*(os.urandom(90_000) for _ in range(5)))
    length = {"the truth": str(len(body)), "nothing": "", "too little": "5"}[declared]
    status, text, n_read = asked(app, body, more_headers=[(b"content-length", length.encode())])
    assert status == 413
    assert "An upload may have 0.095" in text
    assert n_read <= (0 if declared == "the truth" else (MOST + door._FORM) // 10_000 + 1)
    assert (store.n_bytes, on_disk(gradio_folder())) == (0, 0)
    assert asked(app, form(os.urandom(90_000)))[0] == 200


def test_what_is_no_whole_upload_leaves_nothing_and_is_not_counted(store, monkeypatch):
    monkeypatch.setattr(door, "_SILENT_SECONDS", 0.05)
    app, content = Uploads(None, store, MOST), os.urandom(50_000)
    whole = form(content)
    tried = {
        "ends early": asked(app, whole[:40_000], ends=False),
        "falls silent": asked(app, whole[:40_000], ends="silent"),
        "has no end": asked(app, whole[:40_000]),
        "another field": asked(app, form(content, name="video")),
        "a field and no file": asked(app, form(content, filename="")),
        "a file and a field": asked(app, form(content)[:-7] + form(b"x" * 40_000, filename="")),
        "too many files": asked(app, form(*[b"x"] * 6)),
        "no form": asked(app, b"x" * 40_000),
        "no name": asked(app, b"--X\r\nContent-Type: text/plain\r\n\r\n" + content),
        "a long head": asked(app, b"--X\r\n" + b"A" * 50_000),
    }
    assert {why: status for why, (status, *_) in tried.items() if status not in (400, 408)} == {}
    assert all(text.endswith(".") for _, text, _ in tried.values())
    assert (store.n_bytes, on_disk(gradio_folder())) == (0, 0)
    assert not list((store.folder() / "arriving").iterdir())
    assert asked(app, whole)[0] == 200


def test_bytes_are_counted_as_they_arrive_by_address_and_in_all(store):
    app = Uploads(None, store, MOST)
    for _ in range(2):
        assert asked(app, form(os.urandom(90_000)))[0] == 200
    status, text, n_read = asked(app, form(os.urandom(90_000)))  # a quarter of all is 250,000
    assert status == 507
    assert "uploads from your network" in text
    assert 0 < n_read < 9
    assert store.n_bytes < 250_000
    statuses = [asked(app, form(os.urandom(90_000)), address=f"203.0.113.{i}") for i in range(12)]
    assert [status for status, *_ in statuses].count(200) == 7
    assert "fill the 0.001 GB of this server" in statuses[-1][1]
    assert on_disk(gradio_folder()) <= 1_000_000


def test_a_full_disk_is_said_and_nothing_stays(store, monkeypatch):
    app = Uploads(None, store, MOST)

    def full(*_of):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        status, text, _ = asked(app, form(b"x"))
    assert (status, text) == (507, "The server cannot store the upload: No space left on device.")
    store.sweep()
    assert (store.n_bytes, on_disk(gradio_folder())) == (0, 0)


def test_an_upload_that_trickles_holds_its_place_for_a_moment_only(store, monkeypatch):
    monkeypatch.setattr(door, "_SLOWEST", 1e12)
    monkeypatch.setattr(door, "_SILENT_SECONDS", 0.001)
    status, text, n_read = asked(Uploads(None, store, MOST), form(os.urandom(50_000)), piece=10)
    assert status == 408
    assert "too long" in text
    assert n_read < 5000


def test_an_address_has_few_uploads_under_way_at_once(store):
    app = Uploads(None, store, MOST)
    app._under_way["203.0.113.7"] = 8
    assert asked(app, form(b"x"))[0] == 429
    assert asked(app, form(b"x"), address="203.0.113.8")[0] == 200
    app._under_way["203.0.113.9"] = 60
    assert asked(app, form(b"x"), address="203.0.113.8")[0] == 429


def test_an_upload_is_there_once_however_many_pages_use_it_and_goes_with_the_last(store):
    store._limit = 10_000_000
    app, content = Uploads(None, store, MOST), os.urandom(90_000)
    pages = []
    for i in range(230):
        status, answer, _ = asked(app, form(content), address=f"198.51.100.{i}")
        assert status == 200
        pages.append(HeldUploads())
        (place,) = httpx.Response(200, text=answer).json()
        held = store.hold(place, f"visitor {i}", pages[-1])
        assert held.read_bytes() == content
        assert store.hold(place, f"visitor {i}", pages[-1]) == held
        Path(place).unlink()  # as after an hour
        store.sweep()
    assert on_disk(gradio_folder()) == 90_000
    assert 90_000 <= store.n_bytes <= 90_000 + 231 * stored._OVERHEAD  # 230 times 90,000 would be 20 million
    del pages[1:]
    gc.collect()
    store.sweep()
    assert on_disk(gradio_folder()) == 90_000
    pages.clear()
    gc.collect()
    store.sweep()
    assert (store.n_bytes, on_disk(gradio_folder())) == (0, 0)


def test_a_run_keeps_an_upload_that_its_page_has_left(store, fakes):
    (place,) = httpx.Response(200, text=asked(Uploads(None, store, MOST), form(b"x"))[1]).json()
    visitor, goes_on = Visitor(), threading.Event()
    held = store.hold(place, visitor.key, visitor.uploads)

    def run():
        yield "begun"
        goes_on.wait(30)
        return held.read_bytes()

    steps = run_queued(fakes, visitor, run)
    while next(steps) != "begun":
        pass
    visitor.leave()
    gc.collect()
    goes_on.set()
    assert complete(steps) == b"x"
    for thread in [one for one in threading.enumerate() if one.name == "bias-run"]:
        thread.join(30)
    del steps
    gc.collect()
    assert not held.exists()


def test_an_upload_that_no_page_uses_lasts_an_hour(store, monkeypatch):
    place = httpx.Response(200, text=asked(Uploads(None, store, MOST), form(b"x"))[1]).json()[0]
    page = HeldUploads()
    store.sweep()
    assert Path(place).is_file()
    held = store.hold(place, "a visitor", page)
    monkeypatch.setattr(stored, "_LASTS_SECONDS", -1)
    Path(place).unlink()
    store.sweep()
    assert store.hold(place, "a visitor", page) == held  # a page may use what it holds for longer
    del page
    gc.collect()
    store.sweep()
    assert not Path(place).exists()
    assert store.n_bytes == 0
    with pytest.raises(InvalidInput, match="upload it again"):
        store.hold(place, "a visitor", HeldUploads())


def test_what_a_visitor_s_page_uses_has_a_limit_and_the_oldest_makes_room(store, monkeypatch):
    monkeypatch.setattr(stored, "_OF_ONE_VISITOR", 25)
    app, page, held = Uploads(None, store, MOST), HeldUploads(), []
    for i in range(3):
        (place,) = httpx.Response(200, text=asked(app, form(bytes([i]) * 10))[1]).json()
        held.append(store.hold(place, "a visitor", page))
        os.utime(held[-1], (i, i))
    assert len(set(held)) == 3  # of one name, but none over another
    assert [path.is_file() for path in held] == [False, True, True]


def test_uploads_of_a_server_that_was_killed_go_when_it_starts_again(store, tmp_path):
    left = tmp_path / f"{stored._NAME}killed"
    left.mkdir()
    (left / "lock").touch()
    (left / "1.zip").write_bytes(bytes(1000))
    asked(Uploads(None, store, MOST), form(b"x"))
    assert not left.exists()
    other = UploadStore(1000)  # of another server beside it
    assert other.folder() != store.folder()
    assert store.folder().is_dir()
    other.close()


@pytest.mark.parametrize(
    "name", ["../../x.zip", "..", ".", "", "a/b\\c.zip", "x" * 5000 + ".zip", "\x00.zip", "é\u202e.zip"]
)
def test_a_file_s_name_leads_nowhere(store, name):
    body = form(b"x", filename=f'; filename="{name}"')
    status, answer, _ = asked(Uploads(None, store, MOST), body)
    if status != 400:
        (place,) = httpx.Response(200, text=answer).json()
        assert Path(place).is_file()
        assert Path(place).parent.parent == store.folder() / "sent"


def pictures():
    """A zip with four pictures of a prompt."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i in range(4):
            picture = io.BytesIO()
            Image.effect_noise((32, 32), 40 + i).save(picture, "PNG")
            archive.writestr(f"a photo of a cup/{i}.png", picture.getvalue())
    return buffer.getvalue()


@pytest.fixture
def two_pages(served):
    pages = [PageVisitor(served.url) for _ in range(2)]
    for page in pages:
        page.open()
    yield pages
    for page in pages:
        page.client.close()


def test_nobody_imports_another_s_upload_or_a_file_that_is_none(served, two_pages, tmp_path, monkeypatch):
    asked_for = []
    monkeypatch.setattr("gradio.processing_utils.async_ssrf_protected_download", lambda url, **_: asked_for.append(url))
    own, other = two_pages
    place = own.send("mine.zip", pictures())
    assert Path(place).is_relative_to(gradio_folder()) or Path(place).is_relative_to(get_upload_folder())
    assert "4 pictures" in str(own.take("explore-upload", place)["output"])
    elsewhere = tmp_path / "x.zip"
    elsewhere.write_bytes(pictures())
    held = next(path for path in Path(get_upload_folder()).rglob("mine.zip") if "held" in path.parts)
    for stranger in (place, str(held), str(elsewhere), "https://evil.example/large.zip", f"{place}/../../x", ""):
        message = other.take("explore-upload", stranger)
        assert not message["success"], stranger
        assert "no longer on the server" in str(message["output"])
    assert asked_for == []
    assert "4 pictures" in str(own.take("explore-upload", place)["output"])
    root, below = held.parents[3], held.relative_to(held.parents[3])
    for path in (held, f"{root}/sent/../{below}", f"{root}//{below}"):
        assert other.client.get(f"{PREFIX}/file={path}").status_code == 404


def test_each_of_several_files_of_a_component_is_its_visitor_s_own(served, two_pages):
    own, other = two_pages
    places = [own.send(name, b"{}") for name in ("anna.json", "ben.json")]
    shown = str(own.take("published-files", *places, event="change")["output"])
    assert [name for name in ("anna.json", "ben.json") if f"Left out: <b>{name}</b>" not in shown] == []
    message = other.take("published-files", other.send("mine.json", b"{}"), places[1], event="change")
    assert not message["success"]
    assert "no longer on the server" in str(message["output"])


CLOSED = {
    "/login", "/login/", "/svelte/{path:path}", "/gradio_api/deep_link", "/monitoring", "/monitoring/summary",
    "/monitoring/{key}", "/gradio_api/user", "/gradio_api/user/", "/gradio_api/login_check",
    "/gradio_api/login_check/", "/gradio_api/token", "/gradio_api/token/", "/gradio_api/dev/reload",
    "/gradio_api/runs", "/gradio_api/runs/",
    "/gradio_api/custom_component/{id}/{environment}/{type}/{file_name}", "/gradio_api/proxy={url_path:path}",
    "/gradio_api/stream/{event_id}", "/gradio_api/stream/{event_id}/close",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist.m3u8",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext}",
    "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist-file", "/gradio_api/file/{path:path}",
    "/gradio_api/component_server", "/gradio_api/component_server/", "/gradio_api/queue/status",
    "/gradio_api/process_recording", "/gradio_api/vibe-edit", "/gradio_api/vibe-edit/",
    "/gradio_api/undo-vibe-edit", "/gradio_api/undo-vibe-edit/", "/gradio_api/vibe-code", "/gradio_api/vibe-code/",
    "/gradio_api/vibe-starter-queries", "/gradio_api/vibe-starter-queries/",
}  # fmt: skip
NEEDED = {
    "/", "/config", "/config/", "/static/{path:path}", "/assets/{path:path}", "/favicon.ico", "/theme.css",
    "/robots.txt", "/pwa_icon", "/pwa_icon/{size}", "/manifest.json", "/openapi.json", "/logout",
    "/gradio_api/app_id", "/gradio_api/app_id/", "/gradio_api/info", "/gradio_api/info/", "/gradio_api/openapi.json",
    "/gradio_api/file={path_or_url:path}", "/gradio_api/reset", "/gradio_api/reset/",
    "/gradio_api/heartbeat/{session_hash}", "/gradio_api/api/{api_name}", "/gradio_api/api/{api_name}/",
    "/gradio_api/run/{api_name}", "/gradio_api/run/{api_name}/", "/gradio_api/call/v2/{api_name}",
    "/gradio_api/call/v2/{api_name}/", "/gradio_api/call/{api_name}", "/gradio_api/call/{api_name}/",
    "/gradio_api/queue/join", "/gradio_api/cancel", "/gradio_api/call/{api_name}/{event_id}",
    "/gradio_api/call/v2/{api_name}/{event_id}", "/gradio_api/queue/data", "/gradio_api/upload_progress",
    "/gradio_api/upload", "/gradio_api/startup-events", "/gradio_api/theme.css",
}  # fmt: skip


def routes(app):
    """The paths of all routes, but those of raters and of tools over MCP."""
    for route in app.router.routes:
        if hasattr(route, "original_router"):
            yield from (one.path for one in route.original_router.routes)
        elif not (isinstance(route, Mount) or route.path.startswith(("/label", "/shared/", f"{PREFIX}/mcp"))):
            yield route.path


async def _passed(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_every_path_of_the_served_app_is_known_and_those_that_nothing_needs_are_closed(served):
    assert set(routes(served.demo.app)) == NEEDED | CLOSED
    passed = {path for path in NEEDED | CLOSED if asked(OpenPaths(_passed), b"", path=path)[0] == 200}
    assert passed == NEEDED
    for path in ("/login/huggingface", "/label/join", f"{PREFIX}/mcp/", f"{PREFIX}/file=/data/x.png", "/shared/0a.jpg"):
        assert asked(OpenPaths(_passed), b"", path=path)[0] == 200
    for path in (
        "//monitoring",
        "/shared/../runs/0a.jpg",
        "/shared/0a.json",
        "/gradio_api",
        f"{PREFIX}/file=https://evil.example/x",
        f"{PREFIX}/file=//evil/x",
        "",
    ):
        assert asked(OpenPaths(_passed), b"", path=path)[0] == 404, path
    with httpx.Client(base_url=served.url, verify=False) as client:
        for path in ("/monitoring", f"{PREFIX}/process_recording", f"{PREFIX}/proxy=https://evil.example/"):
            assert (client.get(path).status_code, client.post(path, files={"video": b"x"}).status_code) == (404, 404)
        assert client.get("/").status_code == 200
        assert '"done"' in client.get(f"{PREFIX}/upload_progress?upload_id=1").text


def test_gradio_takes_files_from_the_folder_that_uploads_lie_in(tmp_path, monkeypatch):
    for place in (str(tmp_path), ""):
        monkeypatch.setenv("GRADIO_TEMP_DIR", place)
        assert gradio_folder() == Path(get_upload_folder()).resolve()
