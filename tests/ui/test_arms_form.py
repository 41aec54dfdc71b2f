"""Arms in the form of a study: added, removed, counted, linked, run, and shown first on the page."""

from types import SimpleNamespace
from urllib.parse import parse_qsl

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.internal.tab import InternalTab
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.objects.tab import ObjectsTab
from bias_core.studies.reports.documents import to_markdown
from bias_core.studies.reports.saved import SavedReport
from bias_core.studies.running.run import with_options
from bias_core.ui.links import address_of, read_link
from bias_core.ui.study.arms_form import PRESETS, added, arms_html, suited_to
from bias_core.ui.study.pictures import MOST_SHOWN
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built, form_values, opened_folds

services = shared.fake_services

THREE = PRESETS["The three conditions"]


@pytest.fixture(scope="module")
def tab(services):
    return built(ObjectsTab, services)


def values_of(tab, arms, **form):
    values = form_values(tab, form)
    return [arms if c is tab.arms.chosen else v for c, v in zip(tab.inputs(), values, strict=True)]


ASKED = {"percent": 1, "option.sets": "objects"}


@pytest.fixture(scope="module")
def told(tab):
    """All that a run of three arms tells the page."""
    return list(tab.on_run(Visitor(), *values_of(tab, THREE, **ASKED)))


@pytest.fixture(scope="module")
def compared(told):
    return told[-1]


def test_an_arm_like_another_is_refused_and_the_last_one_goes_with_its_words():
    arms = added((), Arm(condition="fair"))
    assert arms == (Arm(), Arm(condition="fair"))
    with pytest.raises(InvalidInput, match="there already"):
        added(arms, Arm(name="again", condition="fair"))
    assert arms_html(arms).count("data-remove") == 2


def test_what_is_written_of_an_arm_is_read_as_its_settings_each_of_which_has_a_field(tab):
    arms = tab.arms
    written = {"name": "", "condition": " fair ", "guidance_scale": "2.5", "size": "64x64", "other": "x"}
    event = SimpleNamespace(arm=written)
    added_to = arms.on_add((), None, event)[arms.chosen]
    assert added_to == (Arm(), Arm(condition="fair", guidance_scale=2.5, size="64x64"))
    with_pictures = SimpleNamespace(arm={})
    assert arms.on_add((), "/up/old.zip", with_pictures)[arms.chosen][1] == Arm(images="/up/old.zip")
    wrong = SimpleNamespace(arm={"guidance_scale": "much"})
    assert set(arms.on_add(added_to, None, wrong)) == {arms.status}
    assert "guidance" in arms.on_add(added_to, None, wrong)[arms.status]
    photographs = SimpleNamespace(name="sd-turbo")
    assert "Where no reader is chosen" in arms.on_model(photographs)
    html = str(tab.arms.fields.value)
    assert all(f'name="{name}"' in html for name in settings_of(Arm) if name != "images")
    assert '<option value="published">' in html


def test_presets_suit_the_model_that_draws(services):
    assert suited_to(THREE, services.model_info("calibration-diffusion")) == THREE
    others = SimpleNamespace(name="Photographs", conditions=())
    with pytest.raises(InvalidInput, match="Photographs has no condition 'fair'"):
        suited_to(THREE, others)
    template = PRESETS["With and without a fairness-intervened prompt"][1].template
    assert template
    assert "irrespective of" in template


def test_the_count_is_of_all_arms_and_says_the_limit(tab):
    def count(*arms):
        return int(tab.on_count(*values_of(tab, arms, percent=3)).split()[0].replace(",", ""))

    assert count(*THREE) == 3 * count()
    assert count(Arm(), Arm(images="old.zip")) == count()
    most = f"{tab.services.settings.max_images:,}"
    assert f"in 3 arms; a run has at most {most} pictures in 8 arms" in tab.on_count(*values_of(tab, THREE, percent=3))
    assert "in 2 arms, 1 of them of pictures brought along" in tab.on_count(
        *values_of(tab, (Arm(), Arm(images="old.zip")), percent=3)
    )


def test_a_comparison_shows_arms_and_ranks_before_differences_in_markdown_too(tab, compared):
    assert "no picture" not in compared[tab.parts["status"]]
    numbers = compared[tab.parts["findings"]]
    places = [numbers.index(title) for title in ("Each arm", "Ranks of the arms", "Differences between")]
    assert places == sorted(places)
    assert "(1 to " in numbers or "(2 to " in numbers
    tables = opened_folds(tab, compared)[tab.parts["tables"]]
    assert "Arm “fair” by itself" in tables
    assert "table:ranks:" not in tables
    assert "--arm" in compared[tab.parts["shell"]]
    assert "Arm(" in compared[tab.parts["python"]]
    text = to_markdown(compared[tab.parts["report"]])
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles[:3] == ["## Each arm", "## Ranks of the arms", "## Differences between the arms"]
    assert titles.count("## Each arm") == 1


def test_the_link_and_the_form_have_the_arms_of_the_run(tab, compared):
    report = compared[tab.parts["report"]]
    query = dict(parse_qsl(compared[tab.parts["link"]]["value"][1:]))
    link = read_link(query, {tab.key: tab.studies}, tab.services)
    assert link.values["arms"] == report.settings.arms
    request = SimpleNamespace(query_params=query)
    assert tab.on_load(None, request)[tab.arms.chosen] == report.settings.arms
    opened = tab.opened(SavedReport(report=report, created=0.0))
    assert set(opened) <= set(tab.opened_outputs())
    again = values_of(tab, opened[tab.arms.chosen], condition="fair", percent=3)
    _, settings = tab.design_and_settings(again)
    assert [arm.condition for arm in settings.arms] == [None, "published", "extreme"]
    plain = tab.preset_updates(0)
    assert plain[tab.arms.chosen] == ()  # another preset leaves none of them behind


def test_own_pictures_of_an_arm_do_not_travel_in_an_address(compared, tab):
    report = compared[tab.parts["report"]]
    settings = StudySettings(arms=(Arm(), Arm(images="/secret/old.zip")))
    own = SimpleNamespace(design=report.design, settings=with_options(report.design, settings))
    assert address_of("objects", own) == ""  # which the page then does not show


def test_pictures_are_grouped_by_arm_with_equally_many_of_each(tab, compared):
    look = compared[tab.pictures.look]
    arms = list(look.rows()["arm"])
    each = min(MOST_SHOWN // 3, len(look.report.pictures) // 3)
    assert arms == ["fair"] * each + ["published"] * each + ["extreme"] * each
    cells = look.cells()
    assert [cell.name for cell in cells] == ["fair", "published", "extreme"]
    assert len({len(cell.pictures) for cell in cells}) == 1
    assert 'aria-label="fair · Picture 1"' in compared[tab.pictures.grid]


def test_words_of_ones_own_have_arms_too(services):
    tab = built(InternalTab, services)
    values = form_values(tab, targets="judge\nman | a photo of a man", n=3, n_attribute=2)
    values = [THREE if c is tab.arms.chosen else v for c, v in zip(tab.inputs(), values, strict=True)]
    design, settings = tab.design_and_settings(values)
    assert design.name == "own-targets"
    assert settings.arms == THREE


def test_the_form_folds_once_a_run_goes_well_and_keeps_what_stands_in_it(tab, told):
    assert len(tab.form_folds) == 3  # one's own words, sampling and options, arms
    wrong = tab.on_run(Visitor(), *values_of(tab, THREE, **ASKED, model="no model!"))
    done, refused = ({key: value for part in parts for key, value in part.items()} for parts in (told, wrong))
    assert all(done[fold]["open"] is False for fold in tab.form_folds)
    assert not set(done) & {*tab.form.values(), *tab.own.values(), tab.arms.chosen, tab.arms.fields}
    assert set(done) <= set(tab.outputs())
    assert not set(refused) & set(tab.form_folds)  # what is to be mended stays open


def test_a_form_that_is_filled_in_says_what_its_folded_arms_ask_for(tab):
    design = tab.designs["tbyb-general"]
    filled = tab.form_of(design, StudySettings(scale=0.01, arms=THREE))
    assert "in 3 arms" in filled[tab.parts["count"]]
    assert set(filled) <= set(tab.filled())
    linked = tab.on_load(
        {}, SimpleNamespace(query_params={"tab": "objects", "arms": "condition=fair||condition=extreme"})
    )
    assert "in 2 arms" in linked[tab.parts["count"]]
    assert set(linked) <= set(tab.linked())
