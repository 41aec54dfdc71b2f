"""Menus that say what a choice would download."""

import gradio as gr
import pytest

from bias_core import services as services_module
from bias_core.models.machine import Machine
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.paired.tab import PairedTab
from bias_core.ui.model_menu import HINT, encoder_choices, model_choices, model_hint
from tests import shared
from tests.ui.tabs import built

services = shared.fake_services


@pytest.fixture
def on_a_laptop(fakes, monkeypatch):
    monkeypatch.setattr(services_module, "this_machine", lambda: Machine(memory=8 * 10**9))
    monkeypatch.setattr("bias_core.adapters.model_sources.is_cached", lambda *_: False)
    monkeypatch.setattr(services_module, "download_gb", lambda *_: 2.5)
    monkeypatch.setattr(services_module, "free_disk", lambda: 10**12)
    return fakes


def test_every_named_model_is_in_the_menu_and_the_embedded_ones_first(on_a_laptop):
    choices = model_choices(on_a_laptop)
    assert {value for _, value in choices} == {info.id for info in on_a_laptop.models()}
    assert choices[0] == ("Calibration world, diffusion model", "calibration-diffusion")
    assert "not on this machine" in {value: text for text, value in choices}["stable-diffusion-v1-5"]


def test_a_chosen_model_says_what_it_means_here(on_a_laptop):
    assert model_hint(on_a_laptop, "calibration-renderer") == HINT
    assert model_hint(on_a_laptop, "no model!") == HINT
    hint = model_hint(on_a_laptop, "org/name")
    assert "BIAS_OFFLINE" in hint
    assert hint.endswith(
        "SigLIP 2 base 224 (transformers) (google/siglip2-base-patch16-224, encoder, downloads 1.5 GB first)."
    )


def test_readers_say_what_they_download(fakes):
    shown = {value: text for text, value in encoder_choices(fakes)}
    assert shown["calibration-clip"] == "Calibration CLIP"
    (large,) = (info for info in fakes.tools("encoder") if info.id.endswith("ViT-L-14/openai"))
    assert shown[large.id] == f"{large.name} · {large.download_gb:g} GB"


@pytest.mark.parametrize("kind", [PairedTab, ExploreTab])
def test_another_model_keeps_the_condition_and_one_chosen_meanwhile(services, kind):
    tab = built(kind, services)
    for name, before, kept in (
        ("calibration-renderer", "extreme", True),
        ("calibration-diffusion", "denoiser", True),
        ("calibration-renderer", "denoiser", False),  # of the other model alone
    ):
        menu = tab.on_model(name, before)[tab.form["condition"]]
        assert before in menu["choices"] if kept else menu["value"] == "published"
        assert ("value" not in menu) is kept
    for name, before, chosen in (("org/photographs", "fair", None), ("calibration-renderer", None, "published")):
        menu = tab.on_model(name, before)[tab.form["condition"]]
        dropdown = gr.Dropdown(menu["choices"], render=False)
        assert dropdown.preprocess(menu["value"]) == chosen  # Gradio refuses what is not on the menu
        assert menu["visible"] is bool(menu["choices"]) is bool(chosen)
