"""Forms: what becomes of what is typed, chosen, suggested or linked; their menus, counts and arms."""

import json
import math
import threading
from contextvars import copy_context
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qsl

import gradio as gr
import pytest

from bias_core import study_services
from bias_core.app.build import TABS
from bias_core.errors import InvalidInput, UnknownModel
from bias_core.explore.options import attribute_text, compared_concept, explore_settings
from bias_core.explore.suggest import Suggested
from bias_core.explore.tab import ExploreTab
from bias_core.explore.tab_form import OPTIONS, OTHER_LABEL, SuggestPart, read_form
from bias_core.models import model_sources
from bias_core.models.model_sources import Machine
from bias_core.papers.mcas.tab import Internal
from bias_core.papers.pst.tab import Paired
from bias_core.papers.tbyb.tab import Objects
from bias_core.report.documents import to_markdown
from bias_core.report.saved import SavedReport
from bias_core.run.image_rows import RowMaker
from bias_core.run.plan import check_number, check_size, count_requested_pictures, plan_study, settle
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design, option_settings
from bias_core.study.types import Arm, StudySettings, check_arms
from bias_core.types import Attribute
from bias_core.ui.links import Link, build_link, get_query, notice_html, read_link
from bias_core.ui.model_menu import (
    HINT,
    attribute_rows,
    encoder_choices,
    model_choices,
    model_hint,
    read_attribute_table,
)
from bias_core.ui.study.form import (
    FORM,
    OF_PICTURES,
    PRESETS,
    added,
    arm_list_html,
    check_arm_conditions,
    read_settings,
    split_first_arm,
)
from bias_core.ui.study.paper import Paper
from bias_core.ui.study.pictures import MOST_SHOWN, PictureView
from bias_core.ui.visitor import Visitor
from bias_core.values import declared_settings
from tests import shared
from tests.ui.fakes import FakeServices
from tests.ui.signed_in import event
from tests.ui.tabs import built, form_values, opened_folds, paper_of, plain_of

services = shared.fake_services

MAN = ["man", "a photo of a man", "a photo of a woman", "0.562", "a source"]


def form(**changes):
    values = {
        "concept": " doctor ", "template": "a photo of a {}", "attributes": [MAN], "model": "calibration-renderer",
        "condition": "fair", "encoder": "calibration-clip", "n_images": 16, "steps": 20, "guidance": 1,
        "negative": "", "seed": 7, "attribute_a": "male", "attribute_b": "female",
        "n_attribute_images": 8, "n_clusters": 0, "confidence": 95, "force": False, "rewrite": "", "rewriter": "",
        "judge": "", "size": "", "sampler": "", "stop_within": "", "further_encoders": [], "stop_when_clear": False,
        "crossed": "none", "languages": [], "rates": "", "counts": "",
    }  # fmt: skip
    assert {*OPTIONS, *FORM} <= {*values, "percent", "images", "labels"}
    return values | changes | {"other": "", "arms": ()}


def test_the_form_becomes_settings_and_what_is_empty_the_models_choice():
    assert read_form(form() | {"other": " nurse "}).arms == (Arm(), Arm(template="{doctor=nurse}"))
    with pytest.raises(InvalidInput, match="with another concept"):
        read_form(form() | {"other": "Doctor"})
    with pytest.raises(InvalidInput, match=f"leave “{OTHER_LABEL}” empty"):  # its own place, and no list
        read_form(form(concept="doctor, baker") | {"other": "nurse"})
    settings = read_form(form())
    expected = explore_settings(
        concept="doctor", attributes=read_attribute_table([MAN]), model="calibration-renderer", condition="fair",
        num_inference_steps=20, guidance_scale=1.0, seed=7, encoder="calibration-clip",
    )  # fmt: skip
    assert settings == expected
    assert settings.options.scored[0].reference == 0.562
    for none in (None, "", math.nan):
        settings = read_form(form(steps=none, guidance=none, n_clusters=none))
        assert (settings.num_inference_steps, settings.guidance_scale) == (None, None)
        assert settings.options.n_clusters == 0


def test_counts_that_cannot_be_are_refused_and_huge_ones_reach_the_limit_of_a_run():
    for value in (None, "", math.nan):
        assert read_form(form(n_images=value, seed=value)) == read_form(form(seed=0))  # the defaults
    for value in (3.5, "many", math.inf):
        with pytest.raises(InvalidInput, match="“Pictures” must be a whole number"):
            read_form(form(n_images=value))
    with pytest.raises(InvalidInput, match="“Pictures” must be at least 1; got -3"):
        read_form(form(n_images=-3))
    with pytest.raises(InvalidInput, match="“Number of denoising steps” must be at least 1; got 0"):
        read_form(form(steps="0"))
    assert read_form(form(n_images=10**6)).options.n_images == 10**6


def test_a_rate_may_be_a_share_a_percentage_or_nothing_and_no_other_words():
    for text, share in (("0.56", 0.56), ("56 %", 0.56), ("56%", 0.56), ("0,5", 0.5), ("", None)):
        assert read_attribute_table([[*MAN[:3], text, ""]])[0].reference == share
    with pytest.raises(InvalidInput, match="about half"):
        read_attribute_table([[*MAN[:3], "about half", ""]])


def test_every_built_in_set_survives_the_table_and_blank_rows_are_left_out():
    for item in load_attribute_sets():
        assert read_attribute_table(attribute_rows(item.attributes)) == item.attributes
    rows = [["", None, "", "", ""], ["man", "a photo of a man", "", "", ""]]
    assert [(a.name, a.negative) for a in read_attribute_table(rows)] == [("man", "")]


@pytest.fixture(scope="module")
def tab(services):
    return built(ExploreTab, services)


def typed(tab, *values):
    """The updates of the form for a typed concept."""
    names = ("concept", "set", "attributes", "decided", "emptied")
    return tab.on_typed_concept(dict(zip(names, values, strict=True)))


def test_a_typed_concept_is_compared_with_its_own_rates_unless_the_rows_were_changed(tab):
    parts, doctor = tab.form, attribute_rows(tab.sets["doctor"].attributes)
    nurse = typed(tab, " Nurse", "doctor", doctor, "doctor", [])
    assert nurse[parts["set"]] == "nurse"
    assert nurse[parts["attributes"]] == attribute_rows(tab.sets["nurse"].attributes)
    nobody = typed(tab, "nur", "doctor", doctor, "doctor", [])  # while typed, or without a set
    assert nobody[parts["set"]] == "people"
    rose = typed(tab, "rose", "people", attribute_rows(tab.sets["people"].attributes), "person", [])
    assert rose[parts["attribute_a"]] == "pleasant"
    assert parts["attributes"] not in typed(tab, "doctor", "doctor", doctor, "person", [])
    flowers = typed(tab, "flowers", "doctor", doctor, "doctor", [])  # things are not looked at as people
    assert (flowers[parts["set"]], flowers[parts["attribute_b"]]) == ("things", "unpleasant")
    back = typed(tab, "baker", "things", flowers[parts["attributes"]], "flowers", [])
    assert back[parts["set"]] == "people"


def test_in_rows_that_were_changed_the_rates_of_another_concept_are_emptied_and_said_and_come_back_with_it(tab):
    parts, emptied = tab.form, tab.form["emptied"]
    farmer = attribute_rows(tab.sets["farmer"].attributes)
    own = [
        ["tired", "a tired person", "a rested person", "0.3", "our survey"],
        *farmer[1:],
        [*farmer[0][:3], "0.9", farmer[0][4]],
    ]
    teacher = typed(tab, "teacher", "farmer", own, "farmer", [])
    assert teacher[parts["set"]] == "teacher"  # which “Restore the set” brings
    assert teacher[parts["attributes"]] == [*own[:-1], [*own[-1][:3], "", ""]]
    assert "“man”" in teacher[parts["rates_note"]]
    back = typed(tab, "Farmer", "teacher", teacher[parts["attributes"]], "teacher", teacher[emptied])
    assert back[parts["attributes"]] == own
    assert back[parts["rates_note"]] == ""
    assert tab.on_restore("teacher")[parts["attributes"]] == attribute_rows(tab.sets["teacher"].attributes)


def test_a_concept_pasted_just_before_the_button_is_pressed_is_compared_with_its_own_rates(tab):
    doctor = attribute_rows(tab.sets["doctor"].attributes)
    updates = tab.on_press(Visitor(), "nurse", "doctor", doctor, "doctor", [])
    assert updates[tab.form["set"]] == "nurse"
    assert updates[tab.form["attributes"]] == attribute_rows(tab.sets["nurse"].attributes)
    chosen = tab.on_chosen_set({"set": "doctor", "concept": "nurse"})  # whoever chose a set for this concept keeps it
    decided = chosen[tab.form["decided"]]
    assert tab.form["set"] not in tab.on_press(Visitor(), "nurse", "doctor", doctor, decided, [])
    assert {tab.form["attributes"], tab.form["set"], tab.form["decided"]} <= set(tab.opened_outputs())


@pytest.fixture
def on_a_laptop(fakes, monkeypatch):
    monkeypatch.setattr(model_sources, "get_machine", lambda: Machine(memory=8 * 10**9))
    monkeypatch.setattr(model_sources, "is_cached", lambda *_, **__: False)
    monkeypatch.setattr(model_sources, "download_gb", lambda *_: 2.5)
    monkeypatch.setattr(model_sources, "free_disk", lambda: 10**12)
    return fakes


def test_models_are_in_the_menu_with_what_they_and_readers_mean_here(on_a_laptop, fakes):
    choices = model_choices(on_a_laptop)
    assert {value for _, value in choices} == {info.id for info in on_a_laptop.models()}
    assert choices[0] == ("Calibration world, diffusion model", "calibration-diffusion")
    assert "not on this machine" in {value: text for text, value in choices}["stable-diffusion-v1-5"]
    assert model_hint(on_a_laptop, "calibration-renderer") == HINT
    assert model_hint(on_a_laptop, "no model!") == HINT
    hint = model_hint(on_a_laptop, "org/name")
    assert hint.startswith("Its weights are not on this machine, and downloads are off; choose ")
    assert hint.endswith(
        "SigLIP 2 base 224 (transformers) (google/siglip2-base-patch16-224, encoder, downloads 1.5 GB first)"
        " classifies its pictures."
    )
    shown = {value: text for text, value in encoder_choices(fakes)}
    assert shown["calibration-clip"] == "Calibration CLIP"
    (large,) = (info for info in fakes.tools("encoder") if info.id.endswith("ViT-L-14/openai"))
    assert shown[large.id] == f"{large.name} · {large.download_gb:g} GB"


GB = 10**9


@pytest.mark.parametrize(
    ("gpu_gb", "here", "free_gb", "torch_version", "offered"),
    [
        (24, (), 100, "2.9.0", "flux.2-klein-4b"),
        (48, (), 100, "2.9.0", "z-image-turbo"),
        (16, (), 100, "2.9.0", "sdxl-base"),
        (48, ("stabilityai/stable-diffusion-xl-base-1.0",), 100, "2.9.0", "sdxl-base"),  # is downloaded already
        (24, (), 5, "2.9.0", "stable-diffusion-v1-5"),  # the disk has no room for the others
        (2, (), 100, "2.9.0", None),
        (0, (), 100, "2.9.0", None),
        (24, (), 100, "2.9.0+cpu", None),  # this torch cannot use the GPU
    ],
)
def test_a_gpu_is_offered_the_best_listed_model_that_fits_it_first(
    services, monkeypatch, gpu_gb, here, free_gb, torch_version, offered
):
    machine = Machine(memory=32 * GB, gpu_memory=gpu_gb * GB)
    monkeypatch.setattr(model_sources, "get_machine", lambda: machine)
    monkeypatch.setattr(study_services, "get_machine", lambda: machine)
    monkeypatch.setattr(model_sources, "is_cached", lambda path, *_, **__: path in here)
    monkeypatch.setattr(model_sources, "free_disk", lambda: free_gb * GB)
    monkeypatch.setattr(model_sources, "version", lambda _: torch_version)
    online = Services(services.settings.model_copy(update={"offline": False, "device": "auto"}))
    labels = {name: label for label, name in model_choices(online)}
    first = offered or "calibration-diffusion"
    assert [*labels][:2] == [*dict.fromkeys([first, "calibration-diffusion", "calibration-renderer"])][:2]
    assert ("checks the measures" in labels["calibration-diffusion"]) == bool(offered)
    tab = built(ExploreTab, online)
    pressed = tab.on_example_chip({"explore": {"n_images": 40}}, SimpleNamespace(chip="gpu-model"))
    assert ("On this GPU: " in tab.examples_part.html.value) == bool(offered)
    if offered:
        assert pressed[tab.form["model"]] == offered
        assert "of the GPU" in pressed[tab.parts["model_note"]]
        kept = pressed[tab.parts["remembered"]]["explore"]
        assert kept == {"n_images": 40, "model": offered, "condition": ""}


@pytest.mark.parametrize("kind", [Paired, ExploreTab])
def test_another_model_keeps_the_condition_and_one_chosen_meanwhile(services, kind):
    tab, lines = built(kind, services), services.catalogue.conditions
    assert lines["fair"] == "No planted bias: the same rates for every concept"
    assert ("fair: no planted bias: the same rates for every concept", "fair") in tab.form["condition"].choices
    for name, before, kept in (
        ("calibration-renderer", "extreme", True),
        ("calibration-diffusion", "denoiser", True),
        ("calibration-renderer", "denoiser", False),  # of the other model alone
    ):
        menu = tab.on_model({"model": name, "condition": before})[tab.form["condition"]]
        names = [name for _, name in menu["choices"]]
        assert before in names if kept else menu["value"] == "published"
        assert ("value" not in menu) is kept
    for name, before, chosen in (("org/photographs", "fair", None), ("calibration-renderer", None, "published")):
        menu = tab.on_model({"model": name, "condition": before})[tab.form["condition"]]
        dropdown = gr.Dropdown(menu["choices"], render=False)
        assert dropdown.preprocess(menu["value"]) == chosen  # Gradio refuses what is not on the menu
        assert menu["visible"] is bool(menu["choices"]) is bool(chosen)


def test_every_preset_of_a_study_is_within_the_limits_of_a_space(fakes, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACE_ID", "somebody/this")
    limits = Settings(data_dir=tmp_path)
    presets = [(tab.key, preset) for tab in TABS for preset in getattr(tab, "presets", ())]
    for key, preset in presets:
        design = find_design(preset.study)
        asked = settle(design, StudySettings(**preset.settings))
        check_size(asked, limits, RowMaker.build(asked.settings, fakes))
        assert 12 <= count_requested_pictures(asked) <= (500 if key == "origins" else 400), preset  # a minute or two
    assert len(presets) > 15


def test_an_untouched_form_asks_for_the_defaults_and_holds_every_option(fakes):
    kinds = [tab for tab in TABS if issubclass(tab, Paper)]
    page = built(kinds[0], fakes, *kinds[1:])
    for paper in page.papers.values():
        for design in paper.designs.values():
            # The page shows more of some studies; these options are set otherwise than the study sets them.
            shown = page.values() | page.option_values(design.name) | {"study": design.name}
            form = shown | suited_by(page, page.on_study(shown))
            settled = settle(*page.design_and_settings(form | page.option_values(design.name)))
            usual = settle(design, StudySettings(scale=page.first_percent / 100))
            assert settled.settings == usual.settings, (paper.key, design.name)
            if design.name == paper.studies[0]:  # what a visitor finds there fits into one run
                check_number(settled, Settings())
            fields = plain_of(page, page.on_study(shown))
            assert {f"option.{name}" for name in option_settings(design)} <= set(fields), design.name
            html = page.on_study(shown)[page.plain.html]
            for name, one in option_settings(design).items():
                assert ("<select" in field_of(html, f"option.{name}")) == bool(one.choices), (design.name, name)
    # In the browser an empty gr.Number says 0, which is no "left out".
    assert all(c.value is not None for c in page.form.values() if isinstance(c, gr.Number))


def suited_by(page, shown):
    """The model that the page chooses with a study."""
    return {"model": shown[page.form["model"]]} if page.form["model"] in shown else {}


def field_of(html, name):
    """The label around a plain field."""
    return next(label for label in html.split("<label")[1:] if f'name="{name}"' in label)


def test_on_the_page_ticked_suggestions_become_rows_that_are_not_there_yet(tmp_path):
    part = SuggestPart(FakeServices(tmp_path), "explore")
    for name in ("choices", "take", "table"):
        setattr(part, name, name)
    part.run.status = "status"
    sides = {"positive": "a photo of it", "negative": "a photo without"}
    suggested = [
        Suggested(attribute=Attribute(name=name, **sides, **more), where_from="captions", is_told=name != "light")
        for name, more in {
            "man": {},
            "with a beard": {"reference": 0.1875, "reference_source": "the base"},
            "light": {},
        }.items()
    ]
    shown = part.show(suggested)[part.choices]
    assert len(shown["choices"]) == len(suggested)
    assert set(shown["value"]) == {attribute_text(one.attribute) for one in suggested[:5] if one.is_told}
    rows = part.on_take([["Man", "a", "b", "", ""], ["", "", "", "", ""]], shown["value"])[part.table]
    names = [row[0] for row in rows]
    assert names[0] == "Man"
    assert "man" not in names[1:]
    assert "with a beard" in names
    assert rows[names.index("with a beard")][3] == "0.1875"  # P*: the share at the base


LINKED = {"explore": (), "association": ("t2iat-tests", "t2iat-occupations"), "methods": ()}


def read(services, **query):
    return read_link(query, LINKED, services)


def test_a_link_fills_a_form_with_values_of_the_right_kind(services):
    link = read(
        services, tab="association", study="t2iat-occupations", model="calibration-diffusion",
        condition="extreme", percent="12.5", seed="7",
    )  # fmt: skip
    assert link.tab == "association"
    assert link.values == {
        "study": "t2iat-occupations", "model": "calibration-diffusion", "condition": "extreme", "percent": 12.5,
        "seed": 7,
    }  # fmt: skip
    assert notice_html(link) == ""
    # No address gives files or consent.
    assert read(services, tab="association", images="/etc", labels="/etc", force="true").values == {}


def test_every_setting_and_option_travels(services):
    settings = StudySettings(
        condition="fair", scale=0.25, num_inference_steps=9, guidance_scale=2.5, negative_prompt="a hat, ink",
        confidence=0.9,
        options={"tests": ["science_arts", "career_family"], "crossing": "full", "n_permutations": 50},
    )  # fmt: skip
    design = find_design("t2iat-tests")
    settings = settle(design, settings).settings
    report = SimpleNamespace(settings=settings, design=design)
    link = read_link(dict(parse_qsl(build_link("association", report)[1:])), LINKED, services)
    assert notice_html(link) == ""
    form = {key: one.format_value(getattr(settings, one.name)) for key, one in FORM.items()}
    form |= {key: value for key, value in link.values.items() if key != "options"}
    form |= {f"option.{name}": value for name, value in link.values["options"].items()}
    assert settle(design, read_settings(form, design)).settings == settings


def test_what_is_not_known_is_left_out_and_said(services):
    for name, texts in {
        "study": ("pst-pairs", "../../etc/passwd"), "model": ("no such model",), "condition": ("worse",),
        "percent": ("0", "101", "nan", "many"), "seed": ("-1", "1.5", "inf", "9" * 30), "concept": ("x" * 3001,),
        "measure": ("bias",), "steps": ("0", "2.5"), "guidance": ("nan", "31"), "confidence": ("100",),
        "encoder": ("x" * 201,), "negative": ("a\x00",), "option.n_permutations": ("0",), "option.crossing": ("both",),
        "option.colour": ("red",),
    }.items():  # fmt: skip
        good = {"tab": "association"} | ({} if name == "seed" else {"seed": "3"})
        for text in texts:
            bad = read_link(good | {name: text}, LINKED, services)
            assert dict(bad.values) == dict(read_link(good, LINKED, services).values), (name, text)
            assert text[:50] in notice_html(bad)


def test_an_unknown_tab_opens_nothing(services):
    link = read(services, tab="<script>", seed="3")
    assert link.tab == ""
    assert not link.values
    assert "&lt;script&gt;" in notice_html(link)


def test_settings_without_a_tab_are_of_the_first_one_and_what_others_put_into_an_address_is_none_of_ours(services):
    assert read(services, concept="  a   nurse ") == Link(tab="explore", values={"concept": "a nurse"})
    assert read(services, __theme="dark", utm_source="mail") == Link()
    assert get_query(SimpleNamespace(query_params={"tab": "methods"})) == {"tab": "methods"}
    assert get_query(None) == {}


class OnZeroGpu(FakeServices):
    """A hub that knows one account, and a model that draws a picture a second."""

    def __init__(self, folder):
        super().__init__(folder)
        self.borrows_gpu = True
        self.asked = []

    def get_remaining_gpu_seconds(self):
        self.asked.append(self._token.get_secret_value())
        return 64.0 if self.asked[-1] else None

    def text_to_image(self, name):
        if name == "no such model":
            raise UnknownModel("no such model")
        return super().text_to_image(name) if name == "calibration-renderer" else Lent()


class Lent:
    def estimate_pictures(self, seconds, steps):
        return int(seconds) // steps


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    lent = OnZeroGpu(tmp_path_factory.mktemp("space"))
    yield lent
    lent.close()


@pytest.fixture(scope="module")
def lent_tab(lent):
    return built(ExploreTab, lent)


@pytest.fixture
def asked(lent):
    """The tokens that the hub is asked with from now on."""
    lent.asked.clear()
    return lent.asked


def test_it_is_said_of_the_chosen_model_to_who_has_signed_in(lent_tab, asked):
    visitor = Visitor()
    assert lent_tab.on_gpu_time(visitor, "stable-diffusion-v1-5") == ""  # nobody knows
    visitor = Visitor()
    with event(token="hf_mine"):
        assert lent_tab.on_gpu_time(visitor, "sd-turbo") == "About 32 more pictures today"
    for steps, says in ((20, "About 3 more pictures today"), ("65", "No GPU time is left today for one more picture")):
        assert lent_tab.on_gpu_time(visitor, "stable-diffusion-v1-5", json.dumps({"steps": steps})) == says
    assert lent_tab.on_gpu_time(visitor, "calibration-renderer") == ""  # needs none of it
    assert lent_tab.on_gpu_time(visitor, "no such model") == ""
    assert asked == ["", "hf_mine"]


def test_tabs_that_ask_at_once_ask_the_hub_once(lent, asked):
    visitor = Visitor()
    with event(token="hf_mine"):
        work = [copy_context().run for _ in range(5)]
    threads = [threading.Thread(target=run, args=(visitor.get_remaining_gpu_seconds, lent)) for run in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == ["hf_mine"]


def test_it_has_a_place_on_such_a_space_alone(lent, lent_tab, fakes):
    assert "gpu_time" in lent_tab.parts
    assert "gpu_time" in built(Paired, lent).parts
    assert "gpu_time" not in built(Paired, fakes).parts


def test_another_concept_of_a_saved_run_or_of_a_link_stands_in_its_field_again(services):
    tab = built(ExploreTab, services)
    design, other, chosen = tab.designs["explore"], tab.form["other"], tab.arms.chosen
    arms = compared_concept((), "doctor", "nurse")
    settings = check_arms(explore_settings(concept="doctor", arms=arms))
    assert [arm.name for arm in settings.arms] == ["doctor", "nurse"]
    filled = tab.show_settings(design, settings)
    assert (filled[other], filled[chosen]) == ("nurse", ())
    link = tab.link(SimpleNamespace(settings=settings, design=design))
    loaded = tab.on_load({}, SimpleNamespace(query_params=dict(parse_qsl(link.removeprefix("?")))))
    assert (loaded[other], loaded.get(chosen, ())) == ("nurse", ())
    with_fair = tab.show_settings(design, replace(settings, arms=(*settings.arms, Arm(condition="fair"))))
    assert with_fair[other] == "nurse"
    assert [arm.condition for arm in with_fair[chosen]] == [None, "fair"]
    plain = tab.show_settings(design, explore_settings(concept="doctor"))
    assert (plain[other], plain[chosen]) == ("", ())


def test_an_example_of_a_concept_sets_the_whole_form_but_the_browser_s_last_choices(services):
    tab = built(ExploreTab, services)
    before = tab.show_values(tab.first_values("explore") | {"other": "baker", "arms": THREE, "seed": 3})
    filled = before | tab.on_example_chip({"explore": {"n_images": 40}}, SimpleNamespace(chip="nurse"))
    assert filled[tab.form["concept"]] == "nurse"
    assert filled[tab.form["n_images"]] == 40
    assert (filled[tab.form["other"]], filled[tab.arms.chosen], filled[tab.arms.listed]) == ("", (), arm_list_html(()))
    assert plain_of(tab, filled)["seed"] == plain_of(tab, tab.fill(tab.first_values("explore")))["seed"]
    assert set(filled) <= set(tab.form_outputs())


THREE = PRESETS["The three conditions"]


@pytest.fixture(scope="module")
def objects(services):
    return built(Objects, services)


def values_of(objects, arms, **form):
    return form_values(objects, {"study": "tbyb-general", **form}) | {"arms": arms}


ASKED = {"percent": 1, "option.sets": "objects"}


@pytest.fixture(scope="module")
def told(objects):
    """All that a run of three arms tells the page."""
    return list(objects.on_run(Visitor(), values_of(objects, THREE, **ASKED)))


@pytest.fixture(scope="module")
def compared(told):
    return told[-1]


def test_an_arm_like_another_is_refused_and_the_last_one_goes_with_its_words():
    arms = added((), Arm(condition="fair"))
    assert arms == (Arm(), Arm(condition="fair"))
    with pytest.raises(InvalidInput, match="already listed"):
        added(arms, Arm(name="again", condition="fair"))
    assert arm_list_html(arms).count("data-remove") == 2


def test_what_is_written_of_an_arm_is_read_as_its_settings_each_of_which_has_a_field(objects):
    arms = objects.arms
    written = {"name": "", "condition": " fair ", "guidance_scale": "2.5", "size": "64x64", "other": "x"}
    event = SimpleNamespace(arm=written)
    added_to = arms.on_add((), None, event)[arms.chosen]
    assert added_to == (Arm(), Arm(condition="fair", guidance_scale=2.5, size="64x64"))
    with_pictures = SimpleNamespace(arm={})
    assert arms.on_add((), "/up/old.zip", with_pictures)[arms.chosen][1] == Arm(images="/up/old.zip")
    wrong = SimpleNamespace(arm={"guidance_scale": "much"})
    assert set(arms.on_add(added_to, None, wrong)) == {arms.status}
    assert "“Guidance scale” must be a number" in arms.on_add(added_to, None, wrong)[arms.status]
    photographs = SimpleNamespace(name="sd-turbo")
    assert "By default," in arms.on_model(photographs)
    html = str(objects.arms.fields.value)
    assert all(f'name="{name}"' in html for name in declared_settings(Arm) if name not in OF_PICTURES)
    assert '<option value="fair">No planted bias: the same rates for every concept</option>' in html


def test_presets_suit_the_model_that_draws(services):
    assert check_arm_conditions(THREE, services.model_info("calibration-diffusion")) == THREE
    others = SimpleNamespace(name="Photographs", conditions=())
    with pytest.raises(InvalidInput, match="Photographs has no condition 'fair'"):
        check_arm_conditions(THREE, others)
    template = PRESETS["With and without a fairness request in the prompt"][1].template
    assert template
    assert "irrespective of" in template


def test_the_count_is_of_all_arms_and_says_the_limit(objects):
    def count(*arms):
        return int(objects.describe_form_size(values_of(objects, arms, percent=3)).split()[0].replace(",", ""))

    assert count(*THREE) == 3 * count()
    assert count(Arm(), Arm(images="old.zip")) == count()
    most = f"{objects.services.settings.max_images:,}"
    assert f"in 3 arms; a run has at most {most} pictures in 8 arms" in objects.describe_form_size(
        values_of(objects, THREE, percent=3)
    )
    assert "in 2 arms, 1 of them with uploaded pictures" in objects.describe_form_size(
        values_of(objects, (Arm(), Arm(images="old.zip")), percent=3)
    )


def test_the_look_at_a_file_of_answers_follows_the_form(services, tmp_path):
    tab, path = built(Paired, services), tmp_path / "answers.csv"
    values = {"study": "pst-occupations", "percent": 2, "option.labeller": "people"}
    plan = plan_study(find_design("pst-occupations"), StudySettings(scale=0.02), services)
    pair = next(row.id for row in plan.manifest.rows if row.group != "single")
    path.write_text(f"image_id,position,answer,rater\n{pair},left,feminine,1\n")

    def look(**changes):
        return tab.on_labels(values_of(tab, (), **values, **changes))

    assert "1 answers match a picture of the run" in look(labels=str(path))
    assert "match a picture of this run" in look(labels=str(path), seed=5)
    assert look() == ""
    restored = tab.show_settings(find_design("pst-occupations"), StudySettings())
    assert (restored[tab.form["labels"]], restored[tab.parts["labels_look"]]) == (None, "")
    assert tab.parts["labels_look"] in tab.form_outputs()


def test_a_comparison_shows_arms_and_ranks_before_differences_in_markdown_too(objects, compared):
    assert "no picture" not in compared[objects.parts["status"]]
    numbers = compared[objects.parts["findings"]]
    places = [numbers.index(title) for title in ("Each arm", "Ranks of the arms", "Differences between")]
    assert places == sorted(places)
    assert "(1 to " in numbers or "(2 to " in numbers
    tables = opened_folds(objects, compared)[objects.parts["tables"]]
    assert "Arm “fair” alone" in tables
    assert "table:ranks:" not in tables
    assert "--arm" in compared[objects.parts["shell"]]
    assert "Arm(" in compared[objects.parts["python"]]
    text = to_markdown(compared[objects.parts["report"]])
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles[:3] == ["## Each arm", "## Ranks of the arms", "## Differences between the arms"]
    assert titles.count("## Each arm") == 1


def test_the_link_and_the_form_have_the_arms_of_the_run(objects, compared):
    report = compared[objects.parts["report"]]
    query = dict(parse_qsl(compared[objects.parts["link"]]["value"][1:]))
    link = read_link(query, {"objects": objects.studies}, objects.services)
    assert link.tab == "objects"
    assert link.values["arms"] == report.settings.arms
    above, arms = split_first_arm(report.settings)
    shown = objects.show_paper("objects", Visitor(), None, link)
    assert (shown[objects.arms.chosen], shown[objects.form["condition"]]["value"]) == (arms, above.condition)
    opened = objects.show_saved(SavedReport(report=report, created=0.0))
    assert set(opened) <= set(objects.opened_outputs())
    again = values_of(objects, opened[objects.arms.chosen], condition="fair", percent=3)
    _, settings = objects.design_and_settings(again)
    assert [arm.condition for arm in settings.arms] == [None, "published", "extreme"]
    preset = objects.on_preset(SimpleNamespace(chip="objects-0"))
    assert preset[objects.arms.chosen] == ()  # another preset leaves none of them behind


def test_a_result_is_of_other_settings_once_a_field_or_an_arm_of_the_form_is_another(
    objects, compared, services, monkeypatch
):
    above, arms = split_first_arm(compared[objects.parts["report"]].settings)
    result = {"report": compared[objects.parts["report"]]} | values_of(objects, THREE, **ASKED)
    assert not objects.on_other_settings(result)
    assert not objects.on_other_settings(result | {"arms": arms, "condition": above.condition})  # as it is opened again
    assert objects.on_other_settings(result | {"arms": THREE[:2]})
    tab = built(ExploreTab, services)
    asked = form_values(tab, {**tab.first_values("explore"), "n_images": 20})
    others = {"condition": "fair"}, {"seed": 3}, {"arms": THREE}, {"other": "nurse"}, {"confidence": "no number"}
    request = tab.read_request(asked)
    for name in ("run", "example-doctor"):
        report = SimpleNamespace(run_id=name, design=request.design, settings=request.settings)
        asked |= {"report": report}
        assert not tab.on_other_settings(asked)
        assert all(tab.on_other_settings(asked | change) for change in others)
        note = tab.on_other_settings(asked | {"n_images": None})
        assert bool(note) == (name == "run")  # an untouched form need not ask for the example
    own = request.with_settings(images="mine.zip", force=True)  # drawn elsewhere, and read by a forced classifier
    report = SimpleNamespace(
        run_id="run", design=request.design,
        settings=replace(own.settings, model="imported:mine", condition="", encoder="calibration-clip"),
    )  # fmt: skip
    monkeypatch.setattr(tab, "read_request", lambda _values: own)
    assert not tab.on_other_settings(asked | {"report": report})


def test_own_pictures_of_an_arm_do_not_travel_in_an_address(compared, objects):
    report = compared[objects.parts["report"]]
    settings = StudySettings(arms=(Arm(), Arm(images="/secret/old.zip")))
    own = SimpleNamespace(design=report.design, settings=settle(report.design, settings).settings)
    assert build_link("objects", own) == ""  # which the page then does not show


def test_pictures_are_grouped_by_arm_with_equally_many_of_each(objects, compared):
    look = PictureView(report=compared[objects.parts["report"]])
    arms = list(look.rows()["arm"])
    each = min(MOST_SHOWN // 3, len(look.report.pictures) // 3)
    assert arms == ["fair"] * each + ["published"] * each + ["extreme"] * each
    cells = look.cells()
    assert [cell.name for cell in cells] == ["fair", "published", "extreme"]
    assert len({len(cell.pictures) for cell in cells}) == 1
    assert 'aria-label="fair · Picture 1"' in compared[objects.pictures.grid]


def test_words_of_ones_own_have_arms_too(services):
    objects = built(Internal, services)
    values = form_values(objects, targets="judge\nman | a photo of a man", n=3, n_attribute=2)
    design, settings = objects.design_and_settings(values | {"arms": THREE})
    assert design.name == "own-targets"
    assert settings.arms == THREE


def test_the_form_folds_once_a_run_goes_well_and_keeps_what_stands_in_it(objects, told):
    assert len(objects.form_folds) == 2  # sampling and options, arms; one's own words stay in sight
    wrong = objects.on_run(Visitor(), values_of(objects, THREE, **ASKED, model="no model!"))
    done, refused = ({key: value for part in parts for key, value in part.items()} for parts in (told, wrong))
    assert all(done[fold]["open"] is False for fold in objects.form_folds)
    own = paper_of(objects).own.values()
    assert not set(done) & {*objects.form.values(), *own, *objects.plain.outputs(), *objects.arms.outputs()}
    assert set(done) <= set(objects.outputs())
    assert not set(refused) & set(objects.form_folds)  # what is to be mended stays open


def test_a_form_that_is_filled_in_says_what_its_folded_arms_ask_for(objects):
    design = objects.designs["tbyb-general"]
    filled = objects.show_settings(design, StudySettings(scale=0.01, arms=THREE))
    assert "in 3 arms" in filled[objects.parts["count"]]
    assert set(filled) <= set(objects.form_outputs())
    query = {"tab": "objects", "arms": "condition=fair||condition=extreme"}
    link = read_link(query, {"objects": objects.studies}, objects.services)
    linked = objects.show_paper("objects", Visitor(), {}, link)
    assert "in 2 arms" in linked[objects.parts["count"]]
    assert set(linked) <= set(objects.form_outputs())
