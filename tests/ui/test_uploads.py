"""Uploads: what one visitor and all together may bring, and where it stays."""

import asyncio

import pytest

from bias_core.app.doors import UploadQuota
from bias_core.ui import visitor
from bias_core.ui.visitor import keep_upload


def answered(app, path):
    """Status and text of a request."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(app({"type": "http", "path": path, "method": "POST", "headers": []}, receive, send))
    return sent[0]["status"], sent[1]["body"].decode()


async def served(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"as ever"})


@pytest.mark.parametrize("path", ["/gradio_api/upload", "/gradio_api/upload/", "/a/prefix/gradio_api/upload"])
def test_uploads_wait_while_the_disk_holds_enough_of_them_and_nothing_else_does(tmp_path, path):
    app = UploadQuota(served, limit=1000, folder=tmp_path)
    (tmp_path / "of somebody").mkdir()
    (tmp_path / "of somebody" / "1.zip").write_bytes(bytes(1000))
    assert answered(app, path) == (200, "as ever")
    (tmp_path / "2.zip").write_bytes(b"x")
    status, text = answered(app, path)
    assert status == 507
    assert "Try again in an hour" in text
    assert answered(app, "/gradio_api/queue/join") == (200, "as ever")
    (tmp_path / "2.zip").unlink()
    assert answered(app, path) == (200, "as ever")


def test_an_upload_stays_with_its_visitor_and_the_oldest_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(visitor, "_OF_ONE_VISITOR", 25)
    sources = []
    for i in range(3):
        source = tmp_path / f"from{i}" / "mine.zip"
        source.parent.mkdir()
        source.write_bytes(bytes([i]) * 10)
        sources.append(source)
    kept = [keep_upload(source, tmp_path / "visitor") for source in sources]
    assert len(set(kept)) == 3  # of one name, but none over another
    assert [path.is_file() for path in kept] == [False, True, True]
    assert keep_upload(sources[2], tmp_path / "visitor") == kept[2]
