"""The Compare tab without a browser: its form, its handlers, its paired pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.compare_plan import compare_from_dict
from bias_core.studies.compare_types import Arm
from bias_core.studies.history import go_on, list_runs, open_run
from bias_core.studies.run_study import complete
from bias_core.studies.study_types import StudyReport
from bias_core.ui import compare_view
from bias_core.ui.compare import CompareTab
from bias_core.ui.compare_form import ARM_FIELDS, DIFFERS, FIELDS, form_values, read_form, shown_fields
from bias_core.ui.visitor import Visitor
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

PRESETS = [compare_from_dict(preset.settings) for preset in CompareTab.presets]
SMALL = replace(PRESETS[0], n_images=8, attribute_a="", attribute_b="", seed=100)


def values_of(settings) -> list[Any]:
    shown = form_values(settings)
    return [shown[name] for name in FIELDS]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompareTab]:
    services = FakeServices(tmp_path_factory.mktemp("tab"))
    yield built(CompareTab, services)
    services.close()


def run(tab: CompareTab, settings, visitor: Visitor | None = None) -> list[dict[Any, Any]]:
    return list(tab.on_run(visitor or Visitor(), *values_of(settings)))


@pytest.fixture(scope="module")
def report(tab: CompareTab) -> StudyReport:
    three = replace(SMALL, arms=(*SMALL.arms, Arm(condition="extreme")))
    last = run(tab, three)[-1]
    assert isinstance(last[tab.parts["report"]], StudyReport)
    return last[tab.parts["report"]]


@pytest.mark.parametrize("settings", PRESETS, ids=[p.name for p in CompareTab.presets])
def test_the_form_gives_back_what_it_shows(settings):
    assert read_form(values_of(settings)) == settings


def test_every_field_is_own_or_shared_and_never_both():
    for differs, own in DIFFERS.items():
        shown = shown_fields(differs, 3)
        for name in ARM_FIELDS:
            assert shown[name] == (name not in own)
            assert shown[f"{name}_0"] == (name in own)
        assert [shown[f"row_{k}"] for k in range(4)] == [True, True, True, False]


def test_a_shared_field_is_that_of_every_arm():
    values = dict(zip(FIELDS, values_of(SMALL), strict=True)) | {"template": "a drawing of a {}"}
    arms = read_form(list(values.values())).arms
    assert {arm.template for arm in arms} == {"a drawing of a {}"}
    assert [arm.condition for arm in arms] == ["fair", "published"]


@pytest.mark.parametrize(("name", "value"), [("n_images", "many"), ("n_images", None), ("steps", 2.5)])
def test_a_number_that_is_none_is_refused(name, value):
    values = dict(zip(FIELDS, values_of(SMALL), strict=True)) | {name: value}
    with pytest.raises(InvalidInput, match="number"):
        read_form(list(values.values()))


def test_a_run_says_where_it_is_and_then_what_differs(tab):
    updates = run(tab, SMALL)
    last = updates[-1]
    assert "seeds" in last[tab.parts["header"]] or "No clear difference" in last[tab.parts["header"]]
    assert "full size" not in last[tab.parts["header"]]
    assert "python -m bias_core compare" in last[tab.parts["shell"]]
    assert "CompareSettings(" in last[tab.parts["python"]]
    assert 'type="range"' in last[tab.extra["slide"]]
    assert last[tab.extra["pair"]]["visible"] is False  # two arms are one pair


def test_an_error_is_shown_in_place(tab):
    twice = replace(SMALL, arms=(Arm(name="a"), Arm(name="b")))
    last = run(tab, twice)[-1]
    assert "draw the same pictures" in last[tab.parts["status"]]
    assert tab.parts["report"] not in last  # what was there stays


def test_stop_is_heard(tab):
    visitor = Visitor()
    visitor.stop.set()
    last = run(tab, replace(SMALL, seed=700), visitor)[-1]
    assert "stopped" in last[tab.parts["status"]]


def test_the_pairs_are_ordered_by_change(report):
    assert [name for name, _ in compare_view.pair_choices(report)] == [
        "fair and published",
        "fair and extreme",
        "published and extreme",
    ]
    seeds = compare_view.seed_choices(report, "2")
    assert len(seeds) == 8
    rows = compare_view.rows_of(report, "2")
    assert list(rows["change"]) == sorted(rows["change"], reverse=True)
    assert seeds[0][1] == str(rows.iloc[0]["seed"])


def test_a_pair_shows_both_pictures_and_what_is_seen_in_each(report):
    seed = compare_view.seed_choices(report, "0")[0][1]
    html = compare_view.slide_html(report, "0", seed)
    assert html.count("data:image/png") == 2
    assert "a photo of a doctor" in html
    assert html.count('<th scope="row">') == len(PRESETS[0].attributes)
    assert f'data-seed="{seed}" aria-pressed="true"' in compare_view.strip_html(report, "0", seed)


@pytest.mark.parametrize(("pair", "seed"), [("9", "1"), ("x", ""), ("0", "<b>")])
def test_what_no_page_would_ask_is_answered_quietly(report, pair, seed):
    assert "no longer stored" in compare_view.slide_html(report, pair, seed)


def test_names_and_prompts_are_escaped(tab):
    evil = "<img src=x onerror=alert(1)>"
    arms = (Arm(name=evil, condition="fair"), Arm(name="b", condition="extreme", template=f"a {{}} {evil}"))
    last = run(tab, replace(SMALL, arms=arms, n_images=3))[-1]
    for part in ("header", "findings", "figures", "tables", "notes"):
        assert "<img src=x" not in last[tab.parts[part]]
    for part in ("slide", "strip"):
        assert "<img src=x" not in last[tab.extra[part]]


def test_choosing_a_seed_or_arms_shows_them(tab, report):
    seed = compare_view.seed_choices(report, "1")[3][1]
    shown = tab.on_seed(report, "1", seed)
    assert f'aria-label="Seed {seed}"' in shown[tab.extra["slide"]]
    assert tab.on_pair(report, "2")[tab.extra["pair"]]["value"] == "2"
    assert tab.on_pair(None, "2") == {}


def test_a_run_is_on_the_list_and_opens_with_its_settings(tab):
    visitor = Visitor()
    run(tab, SMALL, visitor)
    (line,) = list_runs(tab.services, visitor.key)
    assert (line.study, line.status, line.saved) == ("compare", "finished", True)
    assert line.condition == "fair and published"
    saved = open_run(tab.services, visitor.key, line.run_id)
    assert tab.claims(saved.report.design)
    shown = tab.opened(saved)
    assert shown[tab.form["n_images"]]["value"] == 8
    assert shown[tab.form["condition_1"]]["value"] == "published"
    assert 'type="range"' in shown[tab.extra["slide"]]
    assert set(shown) <= set(tab.opened_outputs())
    again = complete(go_on(tab.services, visitor.key, line.run_id))
    assert again.run_id == line.run_id


def test_a_reload_puts_back_what_was_run_last(tab):
    three = replace(PRESETS[1], n_images=12, seed=3)
    left_out = ("attributes", "force")
    kept = [value for name, value in zip(FIELDS, values_of(three), strict=True) if name not in left_out]
    shown = tab.on_load(tab.on_remember(*kept))
    assert shown[tab.form["concept"]]["value"] == "CEO"
    assert shown[tab.form["n_images"]]["value"] == 12
    assert shown[tab.form["template_1"]]["visible"] is True
    assert tab.form["concept"] not in tab.on_load({})
    assert tab.form["concept"] not in tab.on_load({"n_images": "broken"})


def test_the_count_follows_the_form(tab):
    assert tab.on_count(*values_of(SMALL)) == "16 pictures in 2 arms"
    assert tab.on_count(*values_of(replace(SMALL, arms=SMALL.arms[:1]))) == ""


def test_models_and_sets_fill_their_menus(tab):
    conditions = tab._on_model("_1")("calibration-diffusion")[tab.form["condition_1"]]
    assert "fair" in conditions["choices"]
    assert "alert" in next(iter(tab._on_model("")("../x").values()))
    flowers = tab.on_set("flowers")
    assert flowers[tab.form["attribute_a"]] == "pleasant"
