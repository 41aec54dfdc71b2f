import math

import gradio as gr
import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.explore.tab_form import FIELDS, read_form
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.ui.model_menu import attribute_rows, read_table
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built

services = shared.fake_services

MAN = ["man", "a photo of a man", "a photo of a woman", "0.562", "a source"]


def form(**changes):
    values = {
        "concept": " doctor ", "template": "a photo of a {}", "attributes": [MAN], "model": "calibration-renderer",
        "condition": "fair", "encoder": "calibration-clip", "n_images": 16, "num_inference_steps": 20,
        "guidance_scale": 1, "negative_prompt": "", "seed": 7, "attribute_a": "male", "attribute_b": "female",
        "n_attribute_images": 8, "n_clusters": 0, "confidence": 95, "force": False, "rewrite": "", "rewriter": "",
        "judge": "", "size": "", "sampler": "", "stop_within": "", "further_encoders": [], "stop_when_clear": False,
        "crossed": "none", "languages": [],
    }  # fmt: skip
    return [*[(values | changes)[name] for name in FIELDS], ()]


def test_the_form_becomes_settings():
    settings = read_form(form())
    expected = explore_settings(
        concept="doctor", attributes=read_table([MAN]), model="calibration-renderer", condition="fair",
        num_inference_steps=20, guidance_scale=1.0, seed=7, encoder="calibration-clip",
    )  # fmt: skip
    assert settings == expected
    assert settings.options.scored[0].reference == 0.562


def test_empty_steps_guidance_and_groups_and_the_renderers_zero_steps_mean_the_models_choice():
    for none in (None, 0):
        settings = read_form(form(num_inference_steps=none, guidance_scale=math.nan, n_clusters=None))
        assert (settings.num_inference_steps, settings.guidance_scale) == (None, None)
        assert settings.options.n_clusters == 0


def test_counts_that_cannot_be_are_refused_and_huge_ones_reach_the_limit_of_a_run():
    for value in (None, "", math.nan, 3.5):
        with pytest.raises(InvalidInput, match="n_images must be a whole number"):
            read_form(form(n_images=value))
    with pytest.raises(InvalidInput, match="n_images must be at least 1, got -3"):
        read_form(form(n_images=-3))
    assert read_form(form(n_images=10**6)).options.n_images == 10**6


def test_a_rate_may_be_a_share_a_percentage_or_nothing_and_no_other_words():
    for text, share in (("0.56", 0.56), ("56 %", 0.56), ("56%", 0.56), ("0,5", 0.5), ("", None)):
        assert read_table([[*MAN[:3], text, ""]])[0].reference == share
    with pytest.raises(InvalidInput, match="about half"):
        read_table([[*MAN[:3], "about half", ""]])


def test_every_built_in_set_survives_the_table_and_blank_rows_are_left_out():
    for item in load_attribute_sets():
        assert read_table(attribute_rows(item.attributes)) == item.attributes
    rows = [["", None, "", "", ""], ["man", "a photo of a man", "", "", ""]]
    assert [(a.name, a.negative) for a in read_table(rows)] == [("man", "")]


@pytest.fixture(scope="module")
def tab(services):
    return built(ExploreTab, services)


def test_a_typed_concept_is_compared_with_its_own_rates_unless_the_rows_were_changed(tab):
    parts, doctor = tab.form, attribute_rows(tab.sets["doctor"].attributes)
    nurse = tab.on_typed_concept(" Nurse", "doctor", doctor, "doctor")
    assert nurse[parts["set"]] == "nurse"
    assert nurse[parts["attributes"]] == attribute_rows(tab.sets["nurse"].attributes)
    nobody = tab.on_typed_concept("nur", "doctor", doctor, "doctor")  # while typed, or without a set
    assert nobody[parts["set"]] == "people"
    rose = tab.on_typed_concept("rose", "people", attribute_rows(tab.sets["people"].attributes), "person")
    assert rose[parts["attribute_a"]] == "pleasant"
    own = [["tired", "a tired person", "a rested person", "", ""], *doctor]
    for concept, key, rows in (("nurse", "doctor", own), ("doctor", "doctor", doctor)):
        assert parts["attributes"] not in tab.on_typed_concept(concept, key, rows, "person")


def test_a_concept_pasted_just_before_the_button_is_pressed_is_compared_with_its_own_rates(tab):
    doctor, pressed = attribute_rows(tab.sets["doctor"].attributes), gr.EventData(tab.parts["run"], None)
    updates = tab.on_press(Visitor(), None, pressed, "nurse", "doctor", doctor, "doctor")
    assert updates[tab.form["set"]] == "nurse"
    assert updates[tab.form["attributes"]] == attribute_rows(tab.sets["nurse"].attributes)
    chosen = tab.on_chosen_set("doctor", "nurse")  # whoever chose a set for this concept keeps it
    decided = chosen[tab.parts["decided"]]
    assert tab.form["set"] not in tab.on_press(Visitor(), None, pressed, "nurse", "doctor", doctor, decided)
    assert {tab.form["attributes"], tab.form["set"], tab.parts["decided"]} <= set(tab.opened_outputs())


def test_things_are_not_looked_at_as_people(tab):
    flowers = tab.on_typed_concept("flowers", "doctor", attribute_rows(tab.sets["doctor"].attributes), "doctor")
    assert flowers[tab.form["set"]] == "things"
    assert flowers[tab.form["attribute_b"]] == "unpleasant"
    back = tab.on_typed_concept("baker", "things", flowers[tab.form["attributes"]], "flowers")
    assert back[tab.form["set"]] == "people"
