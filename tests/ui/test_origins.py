"""The Origins tab: its film of steps, its clusters, and what its handlers do with a visitor's wishes."""

import re
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

from bias_core.metrics.predicted_gain import predicted_gain
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.origins import spi
from bias_core.studies.origins.cells import own_concepts
from bias_core.studies.origins.tab import OriginsTab, clusters_html, films, films_html
from bias_core.studies.reports.headline import headline
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Attribute
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built, form_values

services = shared.fake_services

EVIL = "<img src=x onerror=alert(1)>"
ATTRIBUTES = tuple(
    Attribute(name=name, positive=f"{name}, shown", negative=f"{name}, not shown") for name in ("beard", EVIL, "hat")
)
STEPS = 6


def own(study, n):
    template = "a photo of a {}"
    design = find_design(study)
    return own_concepts(design, concepts=[f"nurse {EVIL}"], template=template, attributes=ATTRIBUTES, n=n)


@pytest.fixture(scope="module")
def traced(services):
    """The first attribute is gained from the first step on, the second one lost from the second one on."""
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=STEPS, options={"n_predicted": 100})
    planted = iter((np.ones(STEPS), -1.0 * (np.arange(STEPS) >= 1), np.zeros(STEPS)))

    def planted_gain(_base, margins, *, confidence):
        gain = np.tile(next(planted), (len(margins), 1)) / 2
        return predicted_gain(
            np.full(gain.shape, 0.1) - (gain > 0), np.where(gain < 0, -0.1, 0.1), confidence=confidence
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spi, "predicted_gain", planted_gain)
        return complete(run_study(own("oasis-spi", 5), settings, services))


@pytest.fixture(scope="module")
def clustered(services):
    options = {"prefix": "a photo of a person with", "n_tokens": 1, "n_clusters": 2, "n_generated": 2}
    return complete(run_study(own("oasis-stop", 11), StudySettings(options=options), services))


@pytest.fixture(scope="module")
def tab(services):
    return built(OriginsTab, services)


def test_every_step_has_its_predicted_picture_and_its_reading(traced):
    html = films_html(traced)
    assert html.count("data-step=") == 2 * (STEPS + 1)  # two seeds, every step and the finished picture
    assert re.findall(r'data-at="(\d)"( hidden)?', html) == [
        (str(i), " hidden" if i > 1 else "") for i in range(1, STEPS + 2)
    ]
    assert html.count("<polyline") == 3
    assert html.count("<polygon") == 3


def test_planted_steps_are_said_in_words(traced):
    (film,) = films(traced)
    assert [line.clear for line in film.lines] == [0, 1, None]
    html = films_html(traced)
    assert (
        "Told apart at step 1 of 6 (from pure noise): over all seeds heads for it more often than the base prompt "
        "does, by +1.00 [" in html
    )
    assert "step 2 of 6 (17 % of the way): over all seeds heads for it less often" in html
    assert re.search(r"<b>hat\.</b> .* At none of the 6 steps it is told apart from the base prompt", html)
    assert "about 1 of these 18 intervals" in html  # 18 x 0.05
    assert "beside “a photo of a person”" in html
    assert "from step 1 for beard (more often)" in headline(traced)
    assert "not told apart: hat" in headline(traced)


def test_what_is_typed_is_escaped_everywhere(traced, clustered):
    for html in (films_html(traced), clusters_html(clustered)):
        assert EVIL not in html
        assert "&lt;img src=x" in html


def test_steps_without_a_picture_show_the_one_before(services):
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=STEPS)
    options = {"n_predicted": 2, "n_samples": 1}
    report = complete(run_study(own("oasis-spi", 2), StudySettings(**{**vars(settings), "options": options}), services))
    assert re.findall(r"grid-column:(\d/\d)", films_html(report)) == ["1/6", "6/7", "7/8"]


def test_one_seed_promises_nothing(services):
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=2)
    html = films_html(complete(run_study(own("oasis-spi", 1), settings, services)))
    assert html.count("At none of the 2 steps it is told apart from the base prompt, which is no") == len(ATTRIBUTES)


def test_each_step_says_what_the_reader_sees(traced):
    (film,) = films(traced)
    html = films_html(traced)
    (figure,) = [one for one in traced.results.figures if one.key == film.labels["predicted"]]
    assert film.reads == {str(seed): own["reads"].tolist() for seed, own in figure.data.groupby("row", sort=False)}
    assert html.count("data-sees=") == 2 * len(ATTRIBUTES)
    assert html.count("data-tops=") == len(ATTRIBUTES)
    for line in film.lines:
        assert len(film.tops(line).split()) == STEPS + 1
        visible, first, spi_says = line.says
        assert visible.startswith(("It can be seen", "It cannot be seen"))
        assert "base" in first
        assert spi_says.startswith("SPI of the first step is ")
        assert visible in unescape(html)


def test_a_report_shows_what_belongs_to_its_study(tab, traced, clustered):
    assert tab.show_at_once(traced)[tab.at_once["film"]]["visible"]
    assert tab.plot(traced) is None  # the film has its curves
    assert not tab.has_extra(traced)
    assert not tab.show_at_once(clustered)[tab.at_once["film"]]["visible"]
    shown = tab.show_extra(clustered)
    assert shown[tab.extra["clusters"]]["visible"]
    assert shown[tab.extra["text"]].startswith("a photo of a person with ")
    assert {figure.kind for figure in tab.figures(clustered)} == {"heatmap"}
    assert {figure.key.split("-")[0] for figure in tab.figures(traced)} == {"figure6", "figure9", "foretold"}


def test_a_chosen_text_is_drawn_and_compared(tab, clustered):
    event = SimpleNamespace(cluster="a, cluster 1", text="a photo")
    assert tab.on_text(event) == ("a, cluster 1", "a photo")
    name = f"nurse {EVIL}, cluster 1"
    steps = list(tab.on_draw(Visitor(), clustered, name, "a photo of a person with a beard", 5))
    html = str(steps[-1][tab.extra["compared"]])
    assert "4 new pictures" in html  # of 5, seed 13 is blocked
    assert "This text" in html
    assert EVIL not in html
    assert steps[-1][tab.extra["go"]]["visible"]


def test_a_mistake_keeps_what_was_compared_and_stopping_ends_the_drawing(tab, clustered):
    for text, n, words in (("", 5, "the text is empty"), ("a photo", None, "1 to 64 pictures")):
        (last,) = tab.on_draw(Visitor(), clustered, f"nurse {EVIL}, cluster 1", text, n)
        assert words in last[tab.extra["said"]]
        assert tab.extra["compared"] not in last
    visitor = Visitor()
    visitor.stop.set()
    *_, last = tab.on_draw(visitor, clustered, f"nurse {EVIL}, cluster 1", "slow text", 5)
    assert "stopped" in last[tab.extra["said"]]


def test_the_steps_get_a_model_that_has_some(tab):
    changed = tab.on_suit("oasis-spi", "calibration-renderer")
    assert changed[tab.form["model"]] == "calibration-diffusion"
    assert "has none" in changed[tab.parts["status"]]
    assert tab.on_suit("oasis-spi", "calibration-diffusion") == {}
    assert tab.on_suit("oasis-stop", "calibration-renderer") == {}
    assert tab.on_suit("oasis-spi", "no such model") == {}
    shown = tab.on_study("oasis-spi")
    assert shown[tab.form["option.n_samples"]]["value"] == 3
    assert shown[tab.form["option.n_predicted"]]["value"] > 100
    assert shown[tab.form["option.n_tokens"]] == {"visible": False, "__type__": "update"}


def test_own_words_go_with_the_chosen_study(tab):
    rows = [["beard", "beard", "without a beard", "20 %", "a choice"]]
    values = form_values(tab, concepts="nurse, judge", n=7, attributes=rows)
    design, settings = tab.design_and_settings(values)
    assert design.name == "own-oasis-nationalities"
    assert list(design.data["nationalities"]) == ["nurse", "judge"]
    assert settings.scale == 1.0
    assert "14 pictures of 2 prompts" in tab.on_count(*values)
    values[0] = "oasis-doctors"
    *_, last = tab.on_run(Visitor(), *values)
    assert "compares with printed numbers" in last[tab.parts["status"]]


def test_every_study_is_said_in_a_sentence(services):
    for study, words in {
        "oasis-doctors": r"Shown as men: [\d.]+ of the pictures of a doctor .* A nationality adds to that: Ind",
        "oasis-internet-users": r"fewest internet users first: Iranian .* Indian .* cannot show a trend",
        "oasis-nationalities": r"of 9 attributes with a sourced rate",
    }.items():
        report = complete(run_study(find_design(study), StudySettings(scale=0.0001), services))
        assert re.search(words, headline(report))
