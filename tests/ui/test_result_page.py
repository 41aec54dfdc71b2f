"""A result page: its order, what leads from a number to its pictures, a run at work, its words and its figures."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bias_core.errors import HubNotReached, InvalidInput
from bias_core.explore import report as explore_report, tab as explore_tab
from bias_core.explore.exploration import AssociationScore
from bias_core.explore.options import explore_settings
from bias_core.explore.report import share_claims, share_figure, shares_headline
from bias_core.explore.tab import ExploreTab
from bias_core.measures.sequential import share_interval
from bias_core.report.claims import NO_CLAIM, decide_claims
from bias_core.report.figures import NARROW, WIDEST, figure_svg
from bias_core.run.attribute_scores import AttributeScore
from bias_core.run.run import complete, run_study
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design, get_page_layout, list_designs
from bias_core.study.types import Progress, StudyFigure, WatchedShare
from bias_core.types import Attribute, Estimate, ImageRow, ReaderErrors, StoredImage
from bias_core.ui import messages, templates
from bias_core.ui.study import parts as drawing, result_page as study_html
from bias_core.ui.study.comparison import _mark_gap
from bias_core.ui.study.parts import MOST_SHOWN, DrawingUpdates, classification_html, drawing_html
from bias_core.ui.study.pictures import FEW, PictureCell, PictureView, Thumbnail, _with_gaps, find_filter, grid_html
from bias_core.ui.study.result_page import FOLDS, LATER, find_number_filters
from bias_core.ui.templates import environment
from bias_core.wording import format_interval, format_number
from tests import shared
from tests.explored import Explored, explore
from tests.ui.tabs import built, opened_folds

pytestmark = pytest.mark.draws

services = shared.fake_services

ATTRIBUTES = (
    Attribute(name="man", positive="a man", negative="a woman", reference=0.5, reference_source="assumed"),
    Attribute(name="glasses", positive="glasses", negative="without glasses"),
)


@pytest.fixture(scope="module")
def tab(services):
    return built(ExploreTab, services)


@pytest.fixture(scope="module")
def report(services):
    settings = explore_settings(
        concept="doctor", n_images=29, n_clusters=2, attributes=ATTRIBUTES, model="calibration-renderer"
    )
    return complete(run_study(find_design("explore"), settings, services))


def event(**said):
    return SimpleNamespace(**said)


def test_every_kind_of_study_names_the_plot_of_its_page():
    assert [design.name for design in list_designs() if not get_page_layout(design).plots] == []


def test_a_new_report_shows_pictures_and_one_plot_and_makes_what_is_folded_later(tab, report):
    shown = tab.finished(report)
    assert list(FOLDS.values()) == ["The numbers", "By attribute", "Details"]
    grid, scored, blocked = shown[tab.pictures.grid], "data-image=", 'class="thumbnail-item blocked" disabled'
    assert (grid.count(scored), grid.count(blocked)) == (FEW, 1)  # of 28, for one is blocked
    assert 'aria-label="blanked by the model&#39;s safety checker"' in grid
    assert "16 of 28: show more" in shown[tab.pictures.grid]
    assert shown[tab.parts["plot"]].count("<figure") == 1
    assert 'data-key="shares"' in shown[tab.parts["plot"]]
    later = {part for name in LATER for part in tab.later_outputs(name)} - {tab.box}
    left = [shown.get(part) or "" for part in later - set(tab.extra.values())]
    assert not [html for html in left if html and "skeleton" not in html]  # what the last report had is gone
    opened = opened_folds(tab, shown)
    assert "How the shares settled" in opened[tab.parts["attributes"]]
    assert "<details" in opened[tab.parts["tables"]]
    assert 'data-key="shares"' not in opened[tab.parts["attributes"]] + opened[tab.parts["figures"]]
    assert tab.on_unfold("details", report, ("details",)) == {tab.parts["filled"]: ("details",)}  # once
    pressed = SimpleNamespace(target=tab.parts["details"])
    assert tab.on_fold(report, ("details",), pressed) == {tab.parts["filled"]: ("details",)}


def test_a_sentence_says_once_why_the_calibration_world_draws_simply_and_is_absent_for_other_models(tab, report):
    sentence = "Simple drawings on purpose"
    assert tab.finished(report)[tab.pictures.grid].count(sentence) == 1
    others = {key: replace(one, row=replace(one.row, model="org/other")) for key, one in report.stored.items()}
    assert sentence not in tab.finished(replace(report, stored=others))[tab.pictures.grid]


def test_a_share_is_pressed_and_the_pictures_that_make_it_up_are_shown(tab, report):
    plot = tab.finished(report)[tab.parts["plot"]]
    assert 'data-pictures="man: perceived=yes"' in plot
    assert 'role="group"' in plot  # what is in an image cannot be pressed
    frame = report.pictures
    seen = set(frame.loc[(frame["man: perceived"] == "yes"), "image_id"])
    shown = tab.on_mark(report, event(pictures="man: perceived=yes"))
    ids = {part.split('"')[0] for part in shown[tab.pictures.grid].split('data-image="')[1:]}
    assert ids == seen
    assert "man: perceived: yes" in shown[tab.pictures.grid]
    assert any(which == "man: perceived=yes" for which in find_number_filters(report).values())
    assert find_filter(report, "no such thing") == ""
    assert find_filter(report, "man, group 1").count("=") == 2
    both = PictureView(report=report, picture_filter=find_filter(report, "man, group 1")).all_rows()
    assert set(both["looks_like"]) == {"group 1"}


def test_a_result_names_the_calibration_of_its_measures_and_the_columns_end_together(tab, report):
    shown = tab.show_report(report)
    html = shown[tab.parts["next"]]
    assert re.search(r"✓ holds</b>: .*Attribute prevalence.*✗ fails in part</b>: .*Stereotype score", html, re.S)
    assert 'data-go="calibration" data-measure="attribute_prevalence"' in html
    assert "Label 28 pictures</button>" in html  # the scored ones of the concept
    assert 'data-published="oasis-doctors"' in html  # the paper prints the share of men among doctors
    of_paper = replace(report, design=replace(report.design, reference="vice2023tbyb"))
    assert 'data-unfold="runs-published"' in tab.next_html(of_paper)
    assert "In words" not in shown[tab.parts["plot"]]  # an exploration has its own sentences
    assert study_html.words_html(report).count("<li>") == len(report.results.findings[: study_html.FEW])


def test_a_seed_without_a_picture_keeps_its_place_in_an_arm(report):
    rows = [(f"{arm} {seed}", arm, seed, seed) for arm in ("fair", "published") for seed in range(4)]
    frame = pd.DataFrame(rows, columns=["image_id", "arm", "unit", "seed"])
    groups = list(frame[frame["image_id"] != "fair 1"].groupby("arm"))
    fair, published = (rows["image_id"].fillna("").tolist() for _, rows in _with_gaps(groups))
    assert fair == ["fair 0", "", "fair 2", "fair 3"]
    assert published == [f"published {seed}" for seed in range(4)]
    apart = [("fair", frame[:4]), ("published", frame[4:5])]  # too few units in common
    assert _with_gaps(apart) is apart
    cells = [PictureCell(name="fair", pictures=[Thumbnail(src="", caption="", label="Seed 1: no scored picture")], n=0)]
    assert 'aria-label="Seed 1: no scored picture"' in grid_html(cells)


def test_a_picture_says_why_each_attribute_was_read_so(tab, report, services):
    frame = report.pictures
    row = frame.iloc[2]
    html = classification_html(report, row["image_id"], services)
    assert html.count("<tr>") == 1 + len(ATTRIBUTES)
    assert "“a man” against “a woman”" in html
    assert f"<td>{row['man: perceived']}</td>" in html
    assert "classified as" in html
    assert "people say" not in html  # nobody was asked
    assert classification_html(report, "../elsewhere", services) == ""
    assert html in tab.pictures.large(report, row["image_id"])


def test_a_frame_on_the_map_chooses_pictures_and_the_shares_follow(tab, report):
    frame = report.pictures
    some = frame[frame["number"].isin([2, 5, 9])]
    shown = tab.on_choose(report, event(number=0, group=-1, numbers="2,5,9"))
    assert shown[tab.pictures.grid].count("data-image=") == 3
    assert "in these 3 pictures" in shown[tab.parts["plot"]]
    n_men = int((some["man: perceived"] == "yes").sum())
    assert len(shown[tab.pictures.only]) == 3
    cells = shown[tab.parts["plot"]].partition("<tbody>")[2]
    assert f"{n_men / 3:.1f}"[:3] in cells
    assert shown[tab.at_once["map"]].count(" dim") == 28 - 3
    everything = tab.on_choose(report, event(number=0, group=-1, numbers=""))
    assert "How often is each attribute seen?" in everything[tab.parts["plot"]]


GREY = Image.new("RGB", (16, 16), "grey")
SHARE = Estimate(value=0.75, low=0.4, high=0.95, n=8, null_value=0.5)


def rows_of(n, prompt="a photo of a doctor"):
    return tuple(ImageRow(prompt=prompt, seed=seed, model="m") for seed in range(n))


def stored(row, *, blocked=False):
    return StoredImage(row=row, truth=None, blocked=blocked, path=Path(f"/data/{row.id}.png"))


def at(rows, n_finished, n_forming, **more):
    forming = {row.id: GREY for row in rows[n_finished : n_finished + n_forming]}
    images = tuple(map(stored, rows[:n_finished]))
    return Progress(message="", done=n_finished, total=len(rows), images=images, drawing=rows, forming=forming, **more)


def test_every_picture_has_its_number_and_says_where_it_is():
    html = drawing_html(at(rows_of(7), 2, 3))
    words = re.findall(r'(?:alt|aria-label)="(Picture[^"]*)"', html)
    assert words == [
        *("Picture 1 is finished", "Picture 2 is finished"),
        *("Picture 3 is being drawn", "Picture 4 is being drawn", "Picture 5 is being drawn"),
        *("Picture 6 has not begun", "Picture 7 has not begun"),
    ]
    assert "2 of 7 pictures finished, 3 being drawn" in html
    assert html.count('src="data:image/webp') == 3
    assert html.count('src="gradio_api/file=/data/') == 2
    rows = rows_of(2)
    assert "Picture 1 was blocked" in drawing_html(replace(at(rows, 1, 0), images=(stored(rows[0], blocked=True),)))


def test_of_a_large_run_those_around_what_is_drawn_are_shown():
    rows = rows_of(2 * MOST_SHOWN + 5)
    html = drawing_html(at(rows, MOST_SHOWN + 3, 4))
    numbers = [int(n) for n in re.findall(r"Picture (\d+) ", html)]
    assert numbers == list(range(MOST_SHOWN + 1, 2 * MOST_SHOWN + 1))
    assert f"shown are {MOST_SHOWN + 1} to {2 * MOST_SHOWN}" in html


def test_pictures_stand_under_their_prompts_and_what_a_person_wrote_is_no_markup():
    rows = rows_of(2, "a <b>doctor</b>") + rows_of(3, "a nurse")
    html = drawing_html(at(rows, 0, 0))
    assert re.findall(r"<h4>(.*?)</h4>", html) == ["a &lt;b&gt;doctor&lt;/b&gt;", "a nurse"]
    assert "<b>doctor" not in html


def test_shares_so_far_stand_beside_the_pictures_with_what_they_are_compared_with():
    unknown = Estimate.undefined(0, "no picture yet", null_value=0.3)
    shares = (WatchedShare(name="man", estimate=SHARE), WatchedShare(name="old", estimate=unknown))
    html = drawing_html(at(rows_of(9), 8, 1, shares=shares))
    assert "75 %" in html
    assert "40 % to 95 %" in html
    assert html.count('class="strip"') == 1
    assert "nothing yet" in html
    assert "real-world or assumed rate" in html


def test_the_place_of_shares_is_kept_free_until_the_first_pictures_are_read():
    before = drawing_html(at(rows_of(9), 0, 8, watches_shares=True))
    assert 'class="drawing watched"' in before
    assert "Shares appear with the first finished pictures." in before
    assert "<table" not in before
    assert 'class="drawing"' in drawing_html(at(rows_of(9), 0, 8))  # of a study without shares


def test_only_what_changed_is_sent_and_nothing_of_pictures_that_were_all_there(monkeypatch):
    monkeypatch.setattr(drawing, "_PAUSE", 0.0)
    monkeypatch.setattr(drawing, "_PAUSE_PER_PICTURE", 0.0)
    seen, rows = DrawingUpdates("part"), rows_of(5)
    begun, forming = at(rows, 0, 0), at(rows, 0, 2)
    assert seen.at(begun)
    assert not seen.at(begun)
    assert seen.at(forming)
    assert not seen.at(replace(forming, message="step 2 of 9"))
    assert seen.at(replace(forming, forming={rows[0].id: GREY.copy(), rows[1].id: GREY.copy()}))  # they look alike
    assert not seen.at(Progress(message="classifying the pictures"))
    assert not DrawingUpdates("part").at(replace(at(rows, 5, 0), drawing=()))


def test_a_run_that_ends_without_a_result_leaves_what_was_finished():
    rows, shares = rows_of(6), (WatchedShare(name="man", estimate=SHARE),)
    stopped, at_once = DrawingUpdates("part"), DrawingUpdates("part")
    at_once.note(at(rows, 0, 3))
    assert at_once.finished_pictures() == {"part": ""}
    for progress in (at(rows, 0, 3), at(rows, 3, 2, shares=shares), Progress(message="classifying the pictures")):
        stopped.note(progress)
    left = stopped.finished_pictures()["part"]
    assert "3 of 6 pictures finished" in left
    assert "75 %" in left
    assert "forming" not in left


def test_pictures_are_not_sent_more_often_than_the_page_can_bear():
    seen, rows = DrawingUpdates("part"), rows_of(6)
    sent = [bool(seen.at(at(rows, n, 0))) for n in range(7)]
    assert sent == [True, *[False] * 5, True]  # the last one at once


NAN = float("nan")


def estimate(value, low, high, n=7):
    return Estimate(value=value, low=low, high=high, n=n, note="constant" if math.isnan(value) else "")


def score(value, low, high, reference=0.5, name="man"):
    attribute = Attribute(name=name, positive="p", negative="n", reference=reference, reference_source="assumed")
    rest = dict.fromkeys(("stereotype", "signed_difference", "wals", "variance_share"), estimate(0.1, 0.0, 0.2))
    return AttributeScore(
        attribute=attribute, prevalence=estimate(value, low, high), similarity_positive=np.zeros(7),
        similarity_negative=np.ones(7), **rest,
    )  # fmt: skip


def seen(counted, **values):
    """The same counted with other numbers."""
    changed = Explored(counted.report)
    changed.__dict__.update(values)
    return changed


@pytest.fixture(scope="module")
def counted(services):
    attributes = load_attribute_sets()[1].attributes
    settings = explore_settings(concept="doctor", attributes=attributes, n_images=17, n_clusters=3)
    *_, found = explore(settings, services)
    return found


def test_a_claim_goes_where_the_interval_lies_and_no_unknown_reads_as_no_bias():
    for low, high, known in ((0.6, 0.9, "above"), (0.1, 0.4, "below"), (0.4, 0.6, "not clear")):
        share, census = estimate((low + high) / 2, low, high), "a census (2024)"
        of = (
            sourced("a", census, share),
            sourced("b", census, share, None),
            sourced("c", "assumed 50 %, a choice", share),
        )
        claims = share_claims(of, 0.95)
        assert [claim.verdict for claim in claims] == [known, "not tested", "not tested"]
        assert explore_tab.says(of[2], claims[2]).endswith("].")  # nothing is compared with an assumed rate
    undefined = score(NAN, NAN, NAN)
    assert "could not be measured" in explore_tab.says(undefined, NO_CLAIM)
    assert "does not mean that there is no bias" in explore_tab.does_not_say(undefined)
    (unclear,) = share_claims([sourced("a", "a census (2024)", estimate(0.5, 0.3, 0.7))], 0.95)
    assert "not clearly different" in explore_tab.says(
        sourced("a", "a census (2024)", estimate(0.5, 0.3, 0.7)), unclear
    )
    read = score(0.5, 0.3, 0.7)
    assert "are unknown" in explore_tab.does_not_say(replace(read, errors=None, corrected=None))
    chance = ReaderErrors(sensitivity=0.6, specificity=0.4, n_positive=100, n_negative=100)
    assert "no better than chance" in explore_tab.does_not_say(replace(read, errors=chance, corrected=None))
    good = replace(chance, specificity=0.9)
    assert "differ from those" in explore_tab.does_not_say(replace(read, errors=good, corrected=None))
    says = explore_report._errors_in_words(replace(read, errors=good)).replace("\xa0", " ")
    assert "right on 60 % of 100 pictures with" in says
    assert "90 % of 100 without" in says


def test_an_assumed_rate_is_called_assumed_once_and_nothing_else_is_said_of_it(counted):
    page = explore_tab.sentences_html(counted)
    assert page.count("ssumed") == 1
    assert re.search("Assumed rates, with which no share is compared: 50.% for “pleasant”", page)
    numbers = [finding.title for finding in counted.results.findings if finding.metric == "signed_difference"]
    assert {title.partition(": ")[2] for title in numbers} == {"P − the assumed rate"}
    named = [Attribute(name=name, positive="a", negative="b") for name in ("man", "old")]
    assert explore_tab.without_rates(named) == (
        "No real-world rate is known for “man”, “old”: a share alone does not show bias."
    )


def sourced(name, source, share, reference=0.5):
    found = score(share.value, share.low, share.high, reference)
    attribute = replace(found.attribute, name=name, reference=reference, reference_source=source)
    return replace(found, attribute=attribute, prevalence=share)


def test_a_headline_compares_with_rates_that_have_a_source_and_else_with_nothing():
    far, near = estimate(0.95, 0.8, 1.0), estimate(0.56, 0.52, 0.7)
    guess = sourced("old", "assumed 50 %, a choice", far)
    census = sourced("man", "a census (2024)", near)
    several = shares_headline((guess, census, guess), 0.95)
    assert several.startswith("“man” is seen in")
    assert "more than the real-world rate of 50" in several
    assert "old" not in several
    assert "of 3 attributes" not in several
    inside = sourced("man", "a census (2024)", estimate(0.5, 0.3, 0.7))
    within = shares_headline((guess, inside), 0.95)
    assert within.startswith("No attribute with a sourced rate differs clearly")
    unmeasured = sourced("man", "a census (2024)", estimate(math.nan, math.nan, math.nan))
    for attributes in ((guess,), (unmeasured, guess)):
        alone = shares_headline(attributes, 0.95)
        assert alone.replace("\N{NO-BREAK SPACE}", " ").startswith("“old” is seen in 95 % [80, 100] of 7 pictures.")
        assert "with a source is known" in alone
        assert not re.search(r"more than|less than|assumed|against|depart", alone)
    shares = [share_interval(k, 16, null_value=0.5) for k in (13, 8, 7)]  # exact p of the first .021, of three .064
    three = [sourced(name, "a census (2024)", share) for name, share in zip("abc", shares, strict=True)]
    assert "more than the real-world rate" in shares_headline(three[:2], 0.95)
    assert [claim.verdict for claim in share_claims(three, 0.95)] == ["not clear"] * 3
    assert "among 3 tests this happens by chance" in shares_headline(three, 0.95)
    assert "could be measured" in shares_headline((unmeasured,), 0.95)
    for text, has in (("", False), ("an assumption", False), ("our Choice", False), ("bls2024", True)):
        assert sourced("x", text, near).attribute.has_source is has
    assert not sourced("x", "bls2024", near, reference=None).attribute.has_source


def test_which_way_pictures_lean_is_said_of_what_lies_beyond_an_even_mix(counted):
    mean = estimate(0.1, 0.05, 0.15)
    lean = AssociationScore(
        attribute_a="male", attribute_b="female", mean=mean, associations=np.zeros(7),
        beyond=estimate(0.02, -0.03, 0.07),
    )  # fmt: skip
    (claim,) = decide_claims([replace(lean.beyond, null_value=0.0, p_value=0.4)])
    assert "not clearly closer to “male” or to “female”" in explore_tab.association_says(lean, claim)
    assert "an even mix = 0" in explore_tab.association_says(lean, claim)
    unvaried = explore_tab.association_says(replace(lean, beyond=None), NO_CLAIM)
    assert unvaried.endswith("an even mix of both is unknown.")  # nothing is claimed


def test_every_number_has_its_interval_and_n_and_the_blocked_picture_is_counted_in_no_group(counted):
    html = study_html.findings_html(counted.report)
    for found in counted.attributes:
        assert format_number(found.prevalence.value, found.prevalence.low, found.prevalence.high) in html
        share = found.variance_share
        assert format_interval(share.low, share.high, value=share.value, n=share.n) in html
    assert '<td data-label="n"><span>16</span></td>' in html  # 17 asked, picture 14 (seed 13) blocked
    assert "1 blocked" in study_html.header_html(counted.report, "")
    blocked = next(image for image in counted.images if image.blocked)
    assert "not scored" in explore_tab.picture_html(counted, blocked.number)
    groups = [explore_tab.find_group(counted, image.number) for image in counted.images]
    assert sorted(set(groups) - {None}) == list(range(counted.clusters.n_clusters))
    assert groups.count(None) == 1
    assert explore_tab.group_buttons(counted, 1).count('aria-pressed="true"') == 1
    assert explore_tab.map_html(counted).count('tabindex="0"') == 1


def test_a_dollar_in_a_name_is_no_mathematics():
    figure = share_figure([score(0.5, 0.2, 0.8, name="$x^2$")])
    assert "$x^2" in figure_svg(figure)


def test_a_long_name_has_two_lines_in_a_narrow_figure_and_is_one_button():
    name = "how low masculine-looking people stand"
    figure = share_figure([score(0.5, 0.2, 0.8, name=name), score(0.5, 0.2, 0.8, name="dark skin")])
    assert name in figure_svg(figure)
    narrow = figure_svg(figure, marks={name: "a=1", "dark skin": "a=2"}, width=NARROW)
    assert name not in re.sub('(data-note|aria-label)="[^"]*"', "", narrow)  # notes have no lines
    assert narrow.count('data-pictures="a=1" class="mark-name"') == 2
    assert narrow.count('data-pictures="a=1"') == 3  # its dot opens its pictures too
    assert narrow.count('role="button"') == 4


@pytest.mark.parametrize("width", [NARROW, WIDEST])
def test_long_names_that_begin_alike_leave_room_and_are_buttons_of_their_own(width):
    names = [
        f"Difference within pictures, of how near to the {where} they stand, after Holm" for where in ("middle", "left")
    ]
    drawn = figure_svg(
        share_figure([score(0.5, 0.2, 0.8, name=name) for name in names]),
        marks={name: f"a={i}" for i, name in enumerate(names)},
        width=width,
    )
    assert [drawn.count(f'data-pictures="a={i}" class="mark-name"') for i in (0, 1)] == [
        3 if width == NARROW else 2
    ] * 2
    for name in names:
        assert f'aria-label="Show the pictures of {name}"' in drawn


def points(n, name):
    data = pd.DataFrame({"x": np.arange(n), "y": np.arange(n), "name": name, "group": name})
    return StudyFigure(key="few", title="Few", kind="scatter", data=data)


def mosaic(arms):
    data = pd.DataFrame({"column": [f"arm {k // 2}" for k in range(2 * arms)], "row": ["a", "b"] * arms})
    data = data.assign(value=0.5 / arms, n=9, small=False, null=0.5)
    return StudyFigure(key="arms1", title="Arms", kind="mosaic", data=data)


def test_a_few_points_with_short_names_and_a_mosaic_of_few_arms_fit_a_phone(monkeypatch):
    svg = environment().filters["svg"]
    assert 'class="plot narrow"' in svg(points(5, "plain"), {})
    assert 'class="plot narrow"' not in svg(mosaic(5), {})
    monkeypatch.setattr(templates, "figure_svg", lambda *_, width, **__: "narrow" if width == NARROW else "wide")
    narrow = [points(5, "plain"), mosaic(3)]
    wide = [points(60, "plain"), points(5, "plain " * 9), mosaic(5)]
    assert [svg(figure, {}) for figure in narrow + wide] == ["narrow"] * 2 + ["wide"] * 3


def test_text_of_the_user_is_never_markup(counted):
    evil = "<img src=x onerror=alert(1)>"
    attribute = replace(counted.attributes[0].attribute, name=evil, reference_source=evil)
    bad = seen(counted, attributes=(replace(counted.attributes[0], attribute=attribute),))
    assert "<img" not in explore_tab.sentences_html(bad)
    figure = share_figure(bad.attributes)
    assert "<img" not in study_html.figures_html([figure])
    assert explore_tab.picture_html(bad, 1).count("<img") == 1
    assert "<img" not in messages.error_html(evil)


def test_an_error_does_what_it_advises_and_names_no_option_of_the_command_line(tab):
    with messages.user_errors() as problem:
        raise HubNotReached("the hub was not reached (name another variable with --token-env); try again")
    assert problem.message == "the hub was not reached; try again"
    shown = tab.refused(problem)[tab.parts["status"]]
    assert re.findall('data-press="([^"]+)">([^<]+)<', shown) == [
        ("generate", "Try again"),
        ("model", "Choose another model"),
    ]
    assert "data-press" not in tab.refused(messages.Problem(message="no such number"))[tab.parts["status"]]


def test_errors_of_ours_are_kept_and_others_pass():
    with messages.user_errors() as problem:
        raise InvalidInput("the concept is empty")
    assert problem.message == "the concept is empty"
    with pytest.raises(ZeroDivisionError), messages.user_errors():
        raise ZeroDivisionError


def test_the_time_left_is_shown_once_it_is_known():
    for seconds, text in ((NAN, "left"), (0.2, "left"), (12.3, "13 s left"), (200.0, "4 min left")):
        html = messages.progress_html(Progress(done=3, total=11, seconds_left=seconds, message="3 of 11 pictures"))
        assert (text in html) == (seconds >= 1)
        assert 'aria-valuenow="3"' in html


def test_signs_of_life_come_at_most_four_times_a_second(monkeypatch):
    now = iter([10.0, 10.1, 10.24, 10.25, 10.4, 10.51])
    monkeypatch.setattr(messages.time, "monotonic", lambda: next(now))
    pace = messages.Pace()
    assert [pace.is_due() for _ in range(6)] == [True, False, False, True, False, True]


def test_a_difference_that_is_clear_only_alone_says_why_not():
    row = {"difference": -0.11, "low": -0.2, "high": -0.01, "n": 60, "first": "fair", "second": "published"}
    reason = "its interval excludes 0, but among 4 tests this happens by chance"
    for clear, why_not, note in (
        ("no", reason, f"; not clear: {reason}"),
        ("yes", "", "; clear"),
        ("no", "", "; not clear"),
        ("", "", "; not clear"),  # no test
    ):
        gap = _mark_gap(row | {"p adjusted": 0.08, "clear": clear, "why not clear": why_not}, "old")
        assert gap["note"].endswith(note)
        assert gap["is_clear"] == (clear == "yes")
