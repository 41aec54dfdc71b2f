"""The server is ready before the first visitor asks, and keeps nothing of how it got ready."""

from bias_core.app.warm_up import rehearse, warm_up
from bias_core.errors import ModelUnavailable
from tests.ui.fakes import FakeServices, TracedRenderer


def files_of(services):
    return [path for path in services.settings.data_dir.rglob("*") if path.is_file()]


def test_the_model_of_the_first_press_has_drawn_and_nothing_of_it_is_kept(fakes, monkeypatch):
    models = [TracedRenderer()]
    monkeypatch.setattr(FakeServices, "text_to_image", lambda _self, _name: models[0])
    rehearse(fakes)
    assert [row.prompt for row in models[0].rows] == ["a photo of a doctor"] * 4
    assert all(path.name.startswith("file_hashes") for path in files_of(fakes))  # of the weights
    assert fakes.settings.data_dir in fakes.images.folder.parents


def test_what_each_tab_opens_with_is_made_in_turn_the_first_before_the_models(fakes, monkeypatch):
    done = []
    monkeypatch.setattr("bias_core.app.warm_up.rehearse", lambda _services: done.append("models"))
    warm_up(fakes, [lambda: done.append("explore"), lambda: done.append("paired")]).join()
    assert done == ["explore", "models", "paired"]


def test_a_model_that_cannot_be_had_is_said_to_who_asks_for_it_and_not_before(fakes, monkeypatch, capfd):
    def broken(_services):
        raise ModelUnavailable("weights are gone")

    monkeypatch.setattr("bias_core.app.warm_up.rehearse", broken)
    warm_up(fakes, [lambda: None]).join()
    assert not capfd.readouterr().err
