"""A page whose state made room for others is still its visitor's, and nobody else's; so is what was uploaded."""

import asyncio
import copy
from contextvars import copy_context
from types import SimpleNamespace

import pytest
from gradio.context import LocalContext

from bias_core.app.doors import UploadQuota
from bias_core.ui import visitor
from bias_core.ui.visitor import Visitor, keep_upload, on_arrive
from tests.ui.signed_in import event

KEY = "0123456789abcdef" * 2


def in_page(page, do):
    """Done in an event of this page."""

    def work():
        LocalContext.request.set(SimpleNamespace(session_hash=page))
        return do()

    return copy_context().run(work)


def test_an_evicted_page_keeps_its_runs_and_no_other_page_gets_them():
    state = Visitor()  # of which Gradio gives each page a copy, and a new one after it let go of that
    assert in_page("page-1", lambda: on_arrive(copy.deepcopy(state), KEY)) == KEY
    assert in_page("page-1", lambda: copy.deepcopy(state).key) == KEY
    assert in_page("page-2", lambda: copy.deepcopy(state).key) != KEY
    without = copy.deepcopy(state).key
    assert without != KEY
    assert len(without) == len(KEY)


def test_a_page_of_a_new_visitor_has_one_key_for_good_and_what_is_no_key_is_not_taken_for_one():
    first = in_page("page-3", lambda: on_arrive(Visitor(), None))
    assert in_page("page-3", lambda: Visitor().key) == first
    assert in_page("page-4", lambda: on_arrive(Visitor(), "../../x")) != "../../x"


def test_a_page_of_one_browser_is_none_of_another_that_names_it():
    with event("page-5", browser="mine"):
        assert on_arrive(Visitor(), KEY) == KEY
        assert Visitor().key == KEY
    for other in (event("page-5"), event("page-5", browser="yours"), event("page-5", token="hf_yours", sub="2002")):
        with other:
            assert Visitor().key != KEY


def test_a_token_pays_in_the_browser_that_typed_it_and_for_the_sign_in_of_the_event_at_work(fakes):
    visitor = Visitor()

    def pays():
        return visitor.services(fakes)._token.get_secret_value()

    with event(browser="mine", token="hf_mine"):
        assert pays() == "hf_mine"
        visitor.type_token("hf_typed")
        assert pays() == "hf_typed"
    with event(browser="mine"):
        assert pays() == "hf_typed"
    for other, token in (
        (event(), ""),
        (event(browser="yours"), ""),
        (event(token="hf_yours", sub="2002"), "hf_yours"),
    ):
        with other:
            assert pays() == token
    assert pays() == ""


def test_a_copied_visitor_is_another_visitor_and_leaving_deletes_the_downloads():
    first = Visitor()
    second = copy.deepcopy(first)
    first.stop.set()
    assert first.key != second.key
    assert not second.stop.is_set()
    assert len(first.key) == 32
    folder = first.folder
    first.leave()
    assert not folder.exists()


def test_a_new_run_stops_the_one_before_and_a_page_loaded_anew_that_of_the_page_before(fakes):
    before, after, stranger = Visitor(), Visitor(), Visitor()
    first = before.stop
    before.start(fakes)
    assert first.is_set()
    flag = before.stop  # a run holds it
    assert not flag.is_set()
    after.key = before.key
    after.stop.set()
    assert flag.is_set()
    assert not stranger.stop.is_set()
    after.start(fakes)
    assert not before.stop.is_set()  # of the newest run


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
