"""A page whose state had to make room for others is still its visitor's, and nobody else's."""

import copy
from contextvars import copy_context
from types import SimpleNamespace

from gradio.context import LocalContext

from bias_core.ui.visitor import Visitor, on_arrive

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


def test_a_page_of_a_new_visitor_has_one_key_for_good():
    first = in_page("page-3", lambda: on_arrive(Visitor(), None))
    assert in_page("page-3", lambda: Visitor().key) == first


def test_what_is_no_key_is_not_taken_for_one():
    assert in_page("page-4", lambda: on_arrive(Visitor(), "../../x")) != "../../x"
