from types import SimpleNamespace
from urllib.parse import parse_qsl

from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import with_options
from bias_core.ui.links import Link, address_of, notice_html, query_of, read_link
from bias_core.ui.study.form import FORM, read_settings
from tests import shared

TABS = {"explore": (), "association": ("t2iat-tests", "t2iat-occupations"), "methods": ()}


services = shared.fake_services


def read(services, **query):
    return read_link(query, TABS, services)


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


def test_every_setting_and_option_travels(services):
    settings = StudySettings(
        condition="fair", scale=0.25, num_inference_steps=9, guidance_scale=2.5, negative_prompt="a hat, ink",
        confidence=0.9,
        options={"tests": ["science_arts", "career_family"], "crossing": "full", "n_permutations": 50},
    )  # fmt: skip
    design = find_design("t2iat-tests")
    settings = with_options(design, settings)
    report = SimpleNamespace(settings=settings, design=design)
    link = read_link(dict(parse_qsl(address_of("association", report)[1:])), TABS, services)
    assert notice_html(link) == ""
    form = {key: one.shown(getattr(settings, one.name)) for key, one in FORM.items()}
    form |= {key: value for key, value in link.values.items() if key != "options"}
    form |= {f"option.{name}": value for name, value in link.values["options"].items()}
    assert with_options(design, read_settings(form, design)) == settings


def test_no_address_gives_files_or_consent(services):
    assert read(services, tab="association", images="/etc", labels="/etc", force="true").values == {}


def test_what_is_not_known_is_left_out_and_said(services):
    for name, texts in {
        "study": ("pst-pairs", "../../etc/passwd"), "model": ("no such model",), "condition": ("worse",),
        "percent": ("0", "101", "nan", "many"), "seed": ("-1", "1.5", "inf", "9" * 30), "concept": ("x" * 201,),
        "measure": ("bias",), "steps": ("0", "2.5"), "guidance": ("nan", "31"), "confidence": ("100",),
        "encoder": ("x" * 201,), "negative": ("a\x00",), "option.n_permutations": ("0",), "option.crossing": ("both",),
        "option.colour": ("red",),
    }.items():  # fmt: skip
        good = {"tab": "association"} | ({} if name == "seed" else {"seed": "3"})
        for text in texts:
            bad = read_link(good | {name: text}, TABS, services)
            assert dict(bad.values) == dict(read_link(good, TABS, services).values), (name, text)
            assert text[:50] in notice_html(bad)


def test_an_unknown_tab_opens_nothing(services):
    link = read(services, tab="<script>", seed="3")
    assert link.tab == ""
    assert not link.values
    assert "&lt;script&gt;" in notice_html(link)


def test_settings_without_a_tab_are_of_the_first_one_and_what_others_put_into_an_address_is_none_of_ours(services):
    assert read(services, concept="  a   nurse ") == Link(tab="explore", values={"concept": "a nurse"})
    assert read(services, __theme="dark", utm_source="mail") == Link()
    assert query_of(SimpleNamespace(query_params={"tab": "methods"})) == {"tab": "methods"}
    assert query_of(None) == {}
