"""A visitor sees the place in line; a full line gives the buttons back; addresses are those proxies saw."""

from types import SimpleNamespace

import gradio as gr
import pytest

from bias_core.app.api import Tools
from bias_core.engine.run_line import Asker, RunLine
from bias_core.errors import Cancelled
from bias_core.studies.association.tab import AssociationTab
from bias_core.studies.kit.types import Progress
from bias_core.types import ImageRow, StoredImage
from bias_core.ui.visitor import Visitor, address_of
from tests import shared
from tests.ui.tabs import built, form_values

services = shared.fake_services


@pytest.fixture(scope="module")
def tab(services):
    return built(AssociationTab, services)


def occupied(line, name):
    """A run that is at work, or waits, until it is closed."""

    def steps():
        yield

    run = line.run(steps, Asker(name=name))
    next(run)
    return run


def test_a_visitor_sees_the_place_in_line_and_a_full_line_gives_the_buttons_back(services, tab, monkeypatch):
    monkeypatch.setattr(services, "run_line", RunLine(at_once=1, waiting=2))
    others = [occupied(services.run_line, name) for name in "ab"]
    values = form_values(tab)
    visitor = Visitor()
    run = tab.on_run(visitor, *values)
    next(run)
    assert "2 runs are before yours" in next(run)[tab.parts["status"]]
    refused = list(tab.on_run(Visitor(), *values))[-1]
    assert "try again in a few minutes" in refused[tab.parts["status"]]
    assert refused[tab.parts["run"]]["visible"]
    assert not refused[tab.parts["stop"]]["visible"]
    run.close()
    visitor.stop.set()  # it would go on without its page, beside later tests
    for other in others:
        other.close()


def test_what_is_too_much_is_refused_before_it_waits_in_line_and_the_count_says_the_limit(services, tab, monkeypatch):
    monkeypatch.setattr(services, "run_line", RunLine(at_once=1, waiting=1))
    others = [occupied(services.run_line, name) for name in "ab"]  # who asks now is refused a place
    monkeypatch.setattr(services, "settings", services.settings.model_copy(update={"max_images": 20}))
    tools = Tools(services)
    arms = ["condition=fair", "condition=published"]
    calls = (
        lambda: tools.explore(concept="nurse", n_images=21),
        lambda: tools.run_study(study="t2iat-tests", scale=1.0),
        lambda: tools.compare(concept="nurse", arms=arms, n_images=11),
    )
    for call in calls:
        with pytest.raises(gr.Error, match="at most 20 here"):
            call()
    values = form_values(tab)
    *_, refused = tab.on_run(Visitor(), *values)
    assert "at most 20 here" in refused[tab.parts["status"]]
    assert refused[tab.parts["run"]]["visible"]
    said = tab.on_count(*values)
    assert "at most 20 here" in said
    assert "ask for" in said  # and how to stay under it
    for other in others:
        other.close()


def test_an_address_is_what_the_last_public_proxy_saw(monkeypatch):
    for space, client, forwarded, address in (
        ("", "127.0.0.1", "8.8.8.8", ""),
        ("", "203.0.113.9", "8.8.8.8", "203.0.113.9"),
        ("me/space", "10.0.0.3", "1.1.1.1, 8.8.8.8, 10.1.2.3", "8.8.8.8"),
        ("me/space", "10.0.0.3", "made up, 8.8.4.4", "8.8.4.4"),
        ("me/space", "10.0.0.3", "", "10.0.0.3"),
    ):
        monkeypatch.setenv("SPACE_ID", space)
        headers = {"x-forwarded-for": forwarded} if forwarded else {}
        assert address_of(SimpleNamespace(client=SimpleNamespace(host=client), headers=headers)) == address
        assert address_of(None) == ""


def test_a_run_that_is_stopped_leaves_its_finished_pictures_and_shares_and_the_next_report_takes_their_place(
    tab, tmp_path
):
    rows = tuple(ImageRow(prompt="p", seed=seed, model="m") for seed in range(5))
    images = tuple(StoredImage(row=row, truth=None, path=tmp_path / f"{row.id}.png") for row in rows[:2])

    def stopped():
        yield Progress(message="", drawing=rows, total=5)
        yield Progress(message="", drawing=rows, total=5, done=2, images=images)
        raise Cancelled("stopped; what was finished is kept")

    last = list(tab.following(Visitor(), stopped()))[-1]
    assert "2 of 5 pictures finished" in last[tab.drawing.html]
    assert "what was finished is kept" in last[tab.parts["status"]]
    assert last[tab.parts["run"]]["visible"]
    assert tab.on_example(tab.examples.listed[0])[tab.drawing.html] == ""
