"""A page whose state made room for others is still its visitor's, and nobody else's; so is what was uploaded."""

import copy
from contextvars import copy_context
from types import SimpleNamespace

from gradio.context import LocalContext

from bias_core.ui.visitor import Visitor, on_arrive
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
