from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bias_core.ui.links import Link, notice_html, query_of, read_link

if TYPE_CHECKING:
    from tests.ui.fakes import FakeServices

TABS = {"explore": (), "association": ("t2iat-tests", "t2iat-occupations"), "methods": ()}


def read(fakes: FakeServices, **query: str) -> Link:
    return read_link(query, TABS, fakes)


def test_a_link_fills_a_form_with_values_of_the_right_kind(fakes: FakeServices) -> None:
    link = read(
        fakes, tab="association", study="t2iat-occupations", model="calibration-diffusion",
        condition="extreme", percent="12.5", seed="7",
    )  # fmt: skip
    assert link.tab == "association"
    assert link.values == {
        "study": "t2iat-occupations",
        "model": "calibration-diffusion",
        "condition": "extreme",
        "percent": 12.5,
        "seed": 7,
    }
    assert notice_html(link) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("study", "pst-pairs"),
        ("study", "../../etc/passwd"),
        ("model", "no such model"),
        ("condition", "worse"),
        ("percent", "0"),
        ("percent", "101"),
        ("percent", "nan"),
        ("percent", "many"),
        ("seed", "-1"),
        ("seed", "1.5"),
        ("seed", "inf"),
        ("seed", "9" * 30),
        ("concept", "x" * 201),
        ("measure", "bias"),
    ],
)
def test_what_is_not_known_is_left_out_and_said(fakes: FakeServices, name: str, text: str) -> None:
    link = read(fakes, tab="association", seed="3") if name != "seed" else read(fakes, tab="association")
    bad = read_link({"tab": "association", "seed": "3"} | {name: text}, TABS, fakes)
    assert name not in bad.values
    assert dict(bad.values) == dict(link.values)
    assert text[:50] in notice_html(bad)


def test_an_unknown_tab_opens_nothing(fakes: FakeServices) -> None:
    link = read(fakes, tab="<script>", seed="3")
    assert link.tab == ""
    assert not link.values
    assert "&lt;script&gt;" in notice_html(link)


def test_settings_without_a_tab_are_of_the_first_one(fakes: FakeServices) -> None:
    assert read(fakes, concept="  a   nurse ") == Link(tab="explore", values={"concept": "a nurse"})


def test_what_others_put_into_an_address_is_none_of_our_business(fakes: FakeServices) -> None:
    assert read(fakes, __theme="dark", utm_source="mail") == Link()


def test_without_a_page_there_is_no_query() -> None:
    request: Any = SimpleNamespace(query_params={"tab": "methods"})
    assert query_of(request) == {"tab": "methods"}
    assert query_of(None) == {}
