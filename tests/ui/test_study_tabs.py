"""The tabs of studies: what a person who knows none of the numbers is told, and what stands behind them."""

import math
import re
from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.installed import ASSETS
from bias_core.measures.propagation import predicted_gain
from bias_core.papers.mcas.study import own_targets
from bias_core.papers.mcas.tab import Internal
from bias_core.papers.oasis import study_spi as spi
from bias_core.papers.oasis.cells import own_concepts
from bias_core.papers.oasis.tab import Origins, clusters_html, films, films_html
from bias_core.papers.pst.report import get_family
from bias_core.papers.pst.study import design_of_two
from bias_core.papers.pst.tab import PER_PAGE, Labelling, Paired, labels_html, summary_html
from bias_core.papers.t2iat.study_tests import own_association
from bias_core.papers.t2iat.tab import Association
from bias_core.papers.tbyb.study import design_of_prompts, settings_for_prompts
from bias_core.papers.tbyb.tab import APART, Objects, curve_html, examples_html, odds_html, space_html, top_html
from bias_core.report.claims import decide_claims, decide_findings
from bias_core.report.headlines import headline
from bias_core.report.published import find_measure
from bias_core.report.report_text import get_table
from bias_core.report.saved import list_examples, open_example, open_report
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import Attribute, Estimate
from bias_core.ui.study.paper import extremes_html, opened_html
from bias_core.ui.study.papers_tab import PapersTab
from bias_core.ui.study.pictures import PictureView, filter_choices
from bias_core.ui.study.result_page import header_html
from bias_core.ui.templates import keep_numbers_whole
from bias_core.ui.visitor import Visitor
from bias_core.wording import format_interval, format_number
from tests import shared
from tests.ui.fakes import FewWords
from tests.ui.tabs import built, changed, form_values, opened_folds, paper_of, plain_of

services = shared.fake_services

EVIL = "<img src=x onerror=alert(1)>"
# The fake model draws a man where a prompt says "man", so edits with "man" and "woman" differ.
OWN = own_association(
    f"{EVIL}: math, physics, logic", "Arts: poetry, music, dance", "man", "woman", kind="gender",
    template="a person who likes {}", n=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(OWN, StudySettings(options={"n_permutations": 100}), services))


@pytest.fixture(scope="module")
def page(services):
    return built(Association, services)


@pytest.fixture(scope="module")
def association(page):
    return paper_of(page)


def test_every_number_is_said_in_words_with_its_sign_and_whether_it_rests_on_one_prompt(report, association):
    html = association.closer_html(report, "own")
    row = get_table(report, "table1").frame.loc[0]
    ends = row["low"], row["high"]
    assert f"S = {format_number(row['S'], *ends)}<small>{format_interval(*ends)}" in html
    assert f"d = {format_number(row['d'])}" in html
    assert "so few prompts can show it by chance" in html  # too few for a clear difference, however large d is
    assert "of 1,000 such runs" in html
    assert "With 3 against 3 prompts, the smallest possible p is 0.10" in html
    assert f"p = {row['p']:.3f}" in html
    assert "q =" not in html  # one test needs no correction
    assert 'data-take="figure:influence_own:csv"' in html
    turned = changed(report, "influence", **{"S changes its sign": [True] + [False] * 5})
    first = get_table(report, "influence").frame.loc[0, "left out"]
    assert f"without {first} its sign would change" in association.closer_html(turned, "own")
    firm = changed(report, "influence", **{"S changes its sign": [False] * 6})
    assert "stays on the same side of 0" in association.closer_html(firm, "own")
    cold = changed(report, "table1", X=["-5 degrees"], S=[-0.25], low=[-0.31], high=[-0.19])
    html = association.closer_html(cold, "own")
    assert "S = −0.250<small>[−0.310, −0.190]" in html
    assert "−5 degrees" not in html
    assert "-5 degrees" in html


def test_a_headline_says_the_side_and_never_that_nothing_is_there(report):
    few = headline(report)
    assert few.startswith(f"Too few prompts to tell whether pictures of {EVIL} or of Arts are closer to “man”: ")
    assert "3 against 3 prompts can give is 0.10; 4 against 4 are enough. Measured: S = " in few
    number = replace(report.results.findings[0].estimate, value=-0.2, low=-0.3, high=-0.1, p_value=0.01)
    for p_value, says in (
        (0.01, "are closer to “man” than"),
        (0.3, "show no clear difference; there may still be one"),
    ):
        (claim,) = decide_claims([replace(number, p_value=p_value)])
        row = changed(report, "table1", S=[-0.2], low=[-0.3], high=[-0.1], clear=[claim.word])
        decided = replace(report.results.findings[0], estimate=number, claim=claim)
        text = headline(replace(row, results=replace(row.results, findings=(decided,))))
        assert text.startswith(f"Pictures of {'Arts' if claim.is_clear else EVIL}")
        assert says in text
        assert f"S = −0.20 [−0.30, −0.10], 3 against 3 prompts, p = {p_value:.3f}" in text
        assert ("if it is not chance" in text) != claim.is_clear
    assert "d = " not in few


def test_the_extremes_are_the_lowest_and_highest_pictures_once_each_and_only_those_of_the_report_open(report):
    frame = report.pictures
    neutral = frame[frame["association"].notna() & (frame["side"] == "y")].sort_values("association")
    html = extremes_html(report, "association", {"Arts": neutral}, low="l", high="h")
    shown = [part.split('"')[0] for part in html.split('data-image="')[1:]]
    ids = neutral["image_id"].tolist()
    # Of 15 pictures the 4 lowest, the lowest first, and the 4 highest, the highest first.
    assert shown == ids[:4] + ids[::-1][:4]
    three = extremes_html(report, "association", {"Arts": neutral.head(3)}, low="l", high="h")
    assert three.count("data-image") == 2
    assert extremes_html(report, "association", {"A": neutral.head(1)}, low="", high="") == ""
    image_id = report.pictures["image_id"].iloc[0]
    assert "<article" in opened_html(report, image_id)
    assert opened_html(report, "../../etc/passwd") == opened_html(None, image_id) == ""


@pytest.mark.parametrize(
    ("study", "settings", "says"),
    [
        ("t2iat-tests", {"scale": 0.01, "options": {"n_permutations": 50}}, "of 8 tests"),
        ("t2iat-occupations", {"scale": 0.02}, "needs at least 8 of each set, and there are 2. Largest: "),
        ("t2iat-amplification", {"scale": 0.1}, "of 8 occupations"),
        ("t2iat-human", {"scale": 0.001}, "τ ="),
    ],
)
def test_every_study_has_a_headline_a_menu_and_pictures_behind_it(services, association, study, settings, says):
    found = complete(run_study(find_design(study), StudySettings(**settings), services))
    assert says in headline(found).replace("none of 8", "of 8")
    looks = association.closer_looks(found)
    assert len(looks) == (4 if study == "t2iat-human" else 8)
    assert association.behind_html(found, looks[0][1]).count("data-image") >= 2
    assert bool(association.closer_html(found, looks[0][1])) == (study == "t2iat-tests")


def test_own_words_are_run_whole_whatever_study_size_and_options_stand_above(page):
    form = {"study": "t2iat-human", "condition": "fair", "percent": 1, "option.tests": "science_arts",
            "option.n_images": 5, "option.crossing": "full"}  # fmt: skip
    design, settings = page.design_and_settings(form_values(page, form, x="A: rose, tulip, lily", n=2))
    assert design.name == "own-association"
    assert settings.scale == 1.0
    assert settings.options == {"crossing": "full"}
    assert page.design_and_settings(form_values(page))[0] == page.designs["t2iat-tests"]


def test_a_run_shows_its_words_another_test_is_a_choice_away_and_words_that_make_no_test_are_said(page):
    *_, last = page.on_run(Visitor(), form_values(page, x="a: math, logic", y="b: art, music", n=2))
    shown = last[page.parts["report"]]
    assert not last[page.parts["by_attribute"]]["open"]
    last = opened_folds(page, last)
    assert "In words" in last[page.closer.extra["words"]]["value"]
    assert not last[page.closer.extra["closer"]]["visible"]
    assert "influence_own" not in last[page.parts["figures"]]
    assert page.closer.on_closer(None, "own") == gr.skip()
    assert page.closer.extra["words"] in page.closer.on_closer(shown, "own")
    image_id = shown.pictures["image_id"].iloc[0]
    assert "<article" in page.closer.on_open(shown, SimpleNamespace(image=image_id))
    *_, last = page.on_run(Visitor(), form_values(page, x="rose"))
    assert "concept X needs 2 to 100 words" in last[page.parts["status"]]
    assert page.parts["report"] not in last


def test_the_menu_of_pictures_says_nothing_twice_and_no_names_of_the_programs_own():
    (first, *_) = list_examples("association", ASSETS / "examples")
    choices = filter_choices(open_example(first, ASSETS / "examples").report)
    kinds = dict.fromkeys(words.partition(":")[0] for words, value in choices if value)
    assert "about" in kinds
    assert "edited with" in kinds
    assert not {"group", "side", "set", "unit"} & set(kinds)
    assert ("about: Science (75)", "about=Science") in choices


NAN = float("nan")


@pytest.fixture(scope="module")
def flow(services):
    design = own_targets(f"woman | a photo of a woman\n{EVIL}\nman | a photo of a man", n=6, n_attribute=2)
    return complete(run_study(design, StudySettings(condition="fair"), services))


@pytest.fixture(scope="module")
def internal_page(services):
    return built(Internal, services)


@pytest.fixture(scope="module")
def internal(internal_page):
    return paper_of(internal_page)


def test_the_flow_goes_from_the_words_to_the_pictures_on_one_scale(flow, internal):
    html = internal.closer_html(flow, "man")
    places = [html.index(f"<b>{score} = ") for score in ("TT", "ITP", "IT", "II")]
    assert places == sorted(places)
    assert html.count('class="gauge"') == 4
    assert "no interval: no sampling error" in html
    assert "“a photo of a man”" in html
    assert internal.closer_html(flow, "nobody") == ""
    scores = get_table(flow, "scores").frame
    reach = 1.08 * scores[["value", "low", "high"]].abs().max(axis=None)
    for target in ("man", "woman"):
        value = scores[(scores["target"] == target) & (scores["score"] == "II")]["value"].iloc[0]
        assert f'cx="{120 + 112 * value / reach:.1f}"' in internal.closer_html(flow, target)


def test_a_side_is_named_where_the_claim_is_clear(flow, internal):
    for value, side in ((0.2, "men"), (-0.2, "women")):
        leaning = changed(flow, "scores", value=value, low=value - 0.1, high=value + 0.1)
        assert internal.closer_html(leaning, "man").count(f"<strong>On the side of {side}:</strong>") == 4
    clear = {"clear": ["yes", "no", "yes"], "p adjusted": [0.01, 0.5, 0.02]}
    ends = {"δ′ low": [-0.3, -0.1, 0.2], "δ′ high": [-0.1, 0.1, 0.4]}
    sides = changed(flow, "table3", **{"δ′": [-0.2, 0.0, 0.3]} | ends | clear)
    moved = "Compared with their prompts (δ′), pictures clearly shift man towards men, and woman towards "
    largest = "Largest: man, {} = 0.30 [0.20, 0.40], n = 6 pictures, adjusted p = 0.020."
    assert headline(sides).startswith(
        f"{moved}women; no clear direction for the other one of 3. {largest.format('δ′')}"
    )
    ends = {"MCAS low": [-0.3, -0.1, 0.2], "MCAS high": [-0.1, 0.1, 0.4]}
    sides = changed(flow, "table3", **{"δ′": NAN, "MCAS": [-0.2, 0.0, 0.3]} | ends | clear)
    says = "associate man with men, and woman with women; no clear direction for the other one of 3."
    assert headline(sides).endswith(f"{says} {largest.format('MCAS')}")


def test_six_pictures_are_too_few_and_where_there_is_no_alpha_its_reason_stands(flow, internal):
    few = "Too few pictures to tell which side targets associate with: fewer than 10 units: too few for a bootstrap "
    assert headline(flow).startswith(f"{few}interval. Largest: ")
    row = get_table(flow, "table3").frame.set_index("target").loc["man"]
    assert row["clear"] == "too few"
    assert row[["p", "MCAS low"]].isna().all()
    without = changed(flow, "table3", **{"α′": NAN, "why no α′": "weak words"})
    assert "There is no α′: weak words." in internal.closer_html(without, "man")
    without = changed(flow, "table3", **{"α": float("nan"), "why no α": "TT is 0.0010: the texts hardly lean"})
    assert "There is no α: TT is 0.0010: the texts hardly lean." in internal.closer_html(without, "man")
    assert "times the association of the words alone (TT = " in internal.closer_html(flow, "man")


def test_own_targets_are_drawn_whole_one_after_the_other_or_refused_in_place(internal_page):
    asked = form_values(internal_page, targets="judge\nman | a photo of a man", n=3, n_attribute=2)
    design, settings = internal_page.design_and_settings(asked)
    assert (design.name, settings.scale) == ("own-targets", 1.0)
    *_, last = internal_page.on_run(Visitor(), asked)
    shown, last = last[internal_page.parts["report"]], opened_folds(internal_page, last)
    assert shown.n_images == 2 * (3 + 2 * 2) + 8 * 2
    assert last[internal_page.closer.extra["closer"]]["choices"] == [("judge", "judge"), ("man", "man")]
    assert "judge, from text to picture" in last[internal_page.closer.extra["words"]]["value"]
    other = internal_page.closer.on_closer(shown, "man")
    assert "man, from text to picture" in other[internal_page.closer.extra["words"]]["value"]
    assert internal_page.closer.on_closer(None, "man") == gr.skip()
    image_id = shown.pictures["image_id"].iloc[0]
    assert "<article" in internal_page.closer.on_open(shown, SimpleNamespace(image=image_id))
    *_, last = internal_page.on_run(Visitor(), form_values(internal_page, targets="judge | a judge | neither"))
    assert "write a target as" in last[internal_page.parts["status"]]


PROMPTS = ("a doctor in a kitchen", "a nurse with a book")


@pytest.fixture(scope="module")
def controlled(services):
    settings = StudySettings(scale=0.02, options={"triggers": ["burger"]})
    return complete(run_study(find_design("tbyb-controlled"), settings, services))


@pytest.fixture(scope="module")
def objects(services):
    design = design_of_prompts(find_design("tbyb-general"), PROMPTS, 8)
    return complete(run_study(design, settings_for_prompts(StudySettings(scale=0.1)), services))


def test_each_picture_has_its_caption_and_what_it_adds(objects):
    frame = objects.pictures
    assert len(frame) == 2 * 8
    assert set(frame["caption"]) <= set(FewWords.SENTENCES)
    row = frame[(frame["caption"] == FewWords.SENTENCES[1]) & (frame["prompt"] == PROMPTS[0])].iloc[0]
    # Asked: doctor, kitchen; seen: person (a woman), cup, kitchen; one of four is in both.
    assert (row["objects"], row["added"], row["left_out"]) == ("woman, cup, kitchen", "cup, person", "doctor")
    assert row["H_J"] == pytest.approx(1 - 1 / 4)


def test_headlines_name_what_towers_how_far_pictures_stray_and_what_conditions_add(objects, controlled):
    top = get_table(objects, "top_objects").frame.iloc[0]
    text = headline(objects)
    assert text.startswith(
        f"“{top['object']}” is the most frequent object in captions, in {top['pictures with it']} of 16"
    )
    assert not re.search("H_J|M_G|only one of them", text)  # they fail on planted objects
    assert re.search(r"\d+ of 16 captions name a gender: \d+\N{NO-BREAK SPACE}% \[\d+, \d+\] of them men", text)
    assert text.endswith("Without a baseline this does not show bias.")
    text = headline(controlled)
    assert text.startswith("Against fair, on the same prompts and seeds: under ")
    assert "no object is clearly more frequent" in text or " of the base’s (" in text
    assert "no base" not in text
    bare = replace(objects, results=replace(objects.results, tables=(), figures=()))
    assert "no caption names an object" in headline(bare)
    assert curve_html(bare) == top_html(bare) == space_html(bare) == ""


def test_every_plot_stands_beside_its_numbers_and_what_compares_only_where_there_is_a_base(objects, controlled):
    assert space_html(objects) == odds_html(objects) == ""
    for text, words in (
        (curve_html(objects), ("n, pictures", "vocabulary", "entropy", "Gini", "effective number", "data-take=")),
        (space_html(controlled), ("rank",)),
        (odds_html(controlled), ("Objects against the base", "p adjusted", "with it", "data-take=")),
        (top_html(controlled), ("Δn",)),
    ):
        assert all(word in text for word in words)
        assert "<svg" in text or words == ("Δn",)
    assert space_html(controlled).count('<th scope="row"') >= 3
    assert any(figure.key == "changed_objects" for figure in controlled.results.figures)


def test_an_object_chooses_the_pictures_that_have_it(objects):
    assert 'data-object="cup"' in top_html(objects)
    rows = PictureView(report=objects, picture_filter="objects=cup").rows()
    n = get_table(objects, "top_objects").frame.set_index(["pictures", "object"]).loc[
        ("all prompts", "cup"), "pictures with it"
    ]  # fmt: skip
    assert len(rows) == n
    assert (f"objects: cup ({n})", "objects=cup") in filter_choices(objects)


def test_examples_show_what_was_asked_and_seen_and_nothing_is_shown_twice(objects, services):
    text = examples_html(objects)
    assert "Furthest from their prompts" in text
    assert PROMPTS[0] in text or PROMPTS[1] in text
    assert any(sentence in text for sentence in FewWords.SENTENCES)
    shown = {figure.key for figure in PapersTab(services, [Objects]).papers["objects"].figures(objects)}
    assert {"rates", "genders"} <= shown
    assert not shown & set(APART)


def test_prompts_that_cannot_be_used_are_refused_and_a_single_one_needs_a_sentence(services):
    for prompts, n, words in (
        ([" ", ""], 4, "one per line"),
        ([f"prompt {i}" for i in range(300)], 4, "300"),
        (["x" * 600], 4, "500 characters"),
        (list(PROMPTS), 0, "needs a picture"),
    ):
        with pytest.raises(InvalidInput, match=words):
            design_of_prompts(find_design("tbyb-general"), prompts, n)
    design = design_of_prompts(find_design("tbyb-general"), ["a doctor"], 3)
    with pytest.raises(InvalidInput, match="give a sentence"):
        complete(run_study(design, StudySettings(), services))
    settings = StudySettings(options={"negative": "a photo of an empty room"})
    assert complete(run_study(design, settings, services)).n_images == 3


def test_a_single_run_shows_its_objects_first_and_its_place_among_the_released_models_below(services):
    report = complete(run_study(find_design("tbyb-general"), StudySettings(scale=0.02), services))
    assert PapersTab(services, [Objects]).plot(report).key == "top_objects"
    shown = space_html(report)
    assert "runwayml/stable-diffusion-v1-5" in shown
    assert ">rank" in shown


def test_own_prompts_are_run_whole(services):
    paper = paper_of(PapersTab(services, [Objects]))
    objects = {"prompts": "a doctor\n\n a  nurse \na doctor", "n": 5}
    design = paper.own_design(paper.designs["tbyb-dataset"], objects)
    assert design.data["prompts"] == ["a doctor", "a nurse"]
    settings = paper.own_settings(StudySettings(scale=0.04, options={"triggers": ["burger"], "exclude_prompt": True}))
    assert settings == StudySettings(options={"exclude_prompt": True})
    written, says = paper.on_write("pizza", "calibration-renderer", "", Visitor())
    assert all("pizza" in line for line in written.splitlines())
    assert "edit them, then run" in says
    assert paper.on_write(" ", "calibration-renderer", "a doctor", Visitor())[0] == "a doctor"


ATTRIBUTES = tuple(
    Attribute(name=name, positive=f"{name}, shown", negative=f"{name}, not shown") for name in ("beard", EVIL, "hat")
)
STEPS = 6


def own_origins(study, n):
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
        return complete(run_study(own_origins("oasis-spi", 7), settings, services))


@pytest.fixture(scope="module")
def clustered(services):
    options = {"prefix": "a photo of a person with", "n_tokens": 1, "n_clusters": 2, "n_generated": 2}
    return complete(run_study(own_origins("oasis-stop", 11), StudySettings(options=options), services))


@pytest.fixture(scope="module")
def origins_page(services):
    return built(Origins, services)


@pytest.fixture(scope="module")
def origins(origins_page):
    return paper_of(origins_page)


def test_every_step_has_its_picture_its_reading_and_its_words(traced):
    html = films_html(traced)
    assert html.count("data-step=") == 2 * (STEPS + 1)  # two seeds, every step and the finished picture
    assert re.findall(r'data-at="(\d)"( hidden)?', html) == [
        (str(i), " hidden" if i > 1 else "") for i in range(1, STEPS + 2)
    ]
    assert html.count("<polyline") == 3
    assert html.count("<polygon") == 3
    (film,) = films(traced)
    assert [line.clear for line in film.lines] == [0, 1, None]
    for way, step in (("more", 1), ("less", 2)):
        assert (
            f"It is seen {way} often than with the base prompt. The first step whose own interval excludes 0 is step "
            f"{step}." in html
        )
    assert re.search(r"<b>hat\.</b> .* It is not clearly seen more or less often than with the base prompt", html)
    assert "up to 1 of these 18 would exclude 0" in html  # 18 x 0.05
    assert "compared with “a photo of a person”" in html
    assert headline(traced).startswith("2 of 3 attributes are clearly seen more or less often than with ")
    assert re.search(r"beard \+1.00 \[.*, adjusted p = 0.047", headline(traced))
    (figure,) = [one for one in traced.results.figures if one.key == film.labels["predicted"]]
    assert film.reads == {
        str(seed): own_origins["reads"].tolist() for seed, own_origins in figure.data.groupby("row", sort=False)
    }
    assert html.count("data-sees=") == 2 * len(ATTRIBUTES)
    assert html.count("data-tops=") == len(ATTRIBUTES)
    for line in film.lines:
        assert len(film.tops(line).split()) == STEPS + 1
        visible, first, gain_says, spi_says = line.says
        assert gain_says.startswith("Predicted gain over all steps is ")
        assert visible.startswith(("Seen ", "It cannot be seen"))
        assert "base" in first
        assert spi_says.startswith("SPI of the first step is ")
        assert visible in unescape(html)


def test_steps_without_a_picture_show_the_one_before_and_one_seed_promises_nothing(services):
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=STEPS)
    options = {"n_predicted": 2, "n_samples": 1}
    report = complete(
        run_study(own_origins("oasis-spi", 2), StudySettings(**{**vars(settings), "options": options}), services)
    )
    assert re.findall(r"grid-column:(\d/\d)", films_html(report)) == ["1/6", "6/7", "7/8"]
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=2)
    html = films_html(complete(run_study(own_origins("oasis-spi", 1), settings, services)))
    assert html.count("It is not clearly seen more or less often than with the base prompt (one ") == len(ATTRIBUTES)


def test_a_report_shows_what_belongs_to_its_study(origins, traced, clustered):
    assert origins.show_at_once(traced)[origins.at_once["film"]]["visible"]
    assert origins.page.plot(traced) is None  # the film has its curves
    assert not origins.has_extra(traced)
    assert not origins.show_at_once(clustered)[origins.at_once["film"]]["visible"]
    shown = origins.show_extra(clustered)
    assert shown[origins.extra["clusters"]]["visible"]
    assert shown[origins.extra["text"]].startswith("a photo of a person with ")
    assert {figure.kind for figure in origins.figures(clustered)} == {"heatmap"}
    assert {figure.key.split("-")[0] for figure in origins.figures(traced)} == {"figure6", "figure9", "foretold"}


def test_a_chosen_text_is_drawn_and_compared(origins, clustered):
    event = SimpleNamespace(cluster="a, cluster 1", text="a photo")
    assert origins.on_text(event) == ("a, cluster 1", "a photo")
    name = f"nurse {EVIL}, cluster 1"
    steps = list(origins.on_draw(Visitor(), clustered, name, "a photo of a person with a beard", 5))
    html = str(steps[-1][origins.extra["compared"]])
    assert "4 new pictures" in html  # of 5, seed 13 is blocked
    assert "This text" in html
    assert EVIL not in html
    assert steps[-1][origins.drawing.button]["visible"]


def test_a_mistake_keeps_what_was_compared_and_stopping_ends_the_drawing(origins, clustered):
    for text, n, words in (("", 5, "the text is empty"), ("a photo", None, "1 to 64 pictures")):
        (last,) = origins.on_draw(Visitor(), clustered, f"nurse {EVIL}, cluster 1", text, n)
        assert words in last[origins.extra["said"]]
        assert origins.extra["compared"] not in last
    visitor = Visitor()
    visitor.stop.set()
    *_, last = origins.on_draw(visitor, clustered, f"nurse {EVIL}, cluster 1", "slow text", 5)
    assert "stopped" in last[origins.extra["said"]]


def test_the_steps_get_a_model_that_has_some(origins):
    page = origins.page
    for study, model, chosen in (
        ("oasis-spi", "calibration-renderer", "calibration-diffusion"),
        ("oasis-spi", "calibration-diffusion", None),
        ("oasis-stop", "calibration-renderer", None),
        ("oasis-stop", "calibration-diffusion", "calibration-renderer"),  # which the steps had brought
        ("oasis-spi", "no such model", None),
    ):
        shown = page.on_study(form_values(page, {"study": study, "model": model}))
        assert shown.get(page.form["model"]) == chosen, (study, model)
        assert ("has none" in shown[page.parts["status"]]) == (chosen == "calibration-diffusion")
    fields = plain_of(page, page.on_study(form_values(page, {"study": "oasis-spi"})))
    assert fields["option.n_samples"] == 3
    assert fields["option.n_predicted"] > 100
    assert "option.n_tokens" not in fields


def test_each_form_opens_with_the_study_and_the_model_of_the_first_example(services, origins_page):
    for kind in (Origins, Objects, Internal):
        page = built(kind, services)
        (first, *_) = list_examples(kind.key, ASSETS / "examples")
        report = open_example(first, ASSETS / "examples").report
        assert (page.form["study"].value, page.form["model"].value) == (report.design.name, report.settings.model)
    values = origins_page.values()
    shown = plain_of(origins_page, origins_page.on_study(values))["option.n_predicted"]
    assert values["option.n_predicted"] == shown


def test_own_words_go_with_the_chosen_study(origins_page):
    page = origins_page
    rows = [["beard", "beard", "without a beard", "20 %", "a choice"]]
    values = form_values(page, {"study": "oasis-stop"}, concepts="nurse, judge", n=7, attributes=rows)
    design, settings = page.design_and_settings(values)
    assert design.name == "own-oasis-stop"
    assert list(design.data["nationalities"]) == ["nurse", "judge"]
    assert settings.scale == 1.0
    assert "14 pictures of 2 prompts" in page.describe_form_size(values)
    values["study"] = "oasis-nationalities"
    *_, last = page.on_run(Visitor(), values)
    assert "write them into Explore" in last[page.parts["status"]]
    values["study"] = "oasis-internet-users"
    assert page.describe_form_size(values) == ""  # how many users there are is an option
    values["study"] = "oasis-doctors"
    *_, last = page.on_run(Visitor(), values)
    assert "takes no other words" in last[page.parts["status"]]


def test_every_study_is_said_in_a_sentence(services):
    for study, words in {
        "oasis-doctors": r"show men in \d+\xa0% \[.* Change with a nationality \(n = \d+ each\): Ind",
        "oasis-internet-users": r"fewest internet users first \(n = \d+ each\): Iranian .* Indian .* too few to show",
        "oasis-nationalities": r"(Of|None of) 9 attributes with a sourced rate",
    }.items():
        report = complete(run_study(find_design(study), StudySettings(scale=0.0001), services))
        assert re.search(words, headline(report))


@pytest.fixture(scope="module")
def pairs(services):
    return complete(run_study(find_design("pst-occupations"), StudySettings(scale=0.01), services))


@pytest.fixture(scope="module")
def two(services):
    """A small pairs on two roles."""
    roles = {EVIL: "masculine", "nurse": "feminine"}
    design = design_of_two(find_design("pst-occupations"), roles, n_paired=2, n_single=2)
    return complete(run_study(design, StudySettings(), services))


class Named(dict):
    """Components by name, without a page: each stands for itself."""

    def __missing__(self, name):
        return name


@pytest.fixture
def paired(services):
    page = PapersTab(services, [Paired])
    page.parts, page.pictures = Named(), SimpleNamespace(look="look")
    paired = paper_of(page)
    paired.extra, paired.at_once = Named(), Named()
    return paired


def with_score(pairs, key, value, low, high):
    p_value = math.nan if math.isnan(value) else 0.0001 if low * high > 0 else 0.5
    estimate = Estimate(value=value, low=low, high=high, n=16, null_value=0.0, p_value=p_value)
    findings = [replace(f, estimate=estimate, claim=None) if f.key == key else f for f in pairs.results.findings]
    decided = decide_findings(findings, get_family, confidence=0.95)
    return replace(pairs, results=replace(pairs.results, findings=decided))


def first_pair(labelling):
    people = labelling.people()
    return people[people["setting"] == "paired"].iloc[0]


def opposite(answer):
    return "feminine" if answer == "masculine" else "masculine"


def test_the_headline_says_which_way_how_sure_and_what_a_request_for_fairness_changes(pairs, two):
    for score, words in (
        ((40.0, 20.0, 60.0), "score +40 [+20, +60] (0 is chance, 100 always), n = 16 pictures, "),
        ((40.0, 20.0, 60.0), "clearly more often than by chance"),
        ((-40.0, -60.0, -20.0), "clearly less often than by chance"),
        ((10.0, -10.0, 30.0), "not clearly more often than by chance"),
        ((float("nan"),) * 3, "Only a part of the people in pictures of two could be scored"),
    ):
        assert words in headline(with_score(pairs, "paired_overall", *score)).replace("\N{NO-BREAK SPACE}", " ")
    fairer = headline(with_score(two, "difference", -30.0, -50.0, -10.0))
    assert (
        "Asked to be fair, the model draws them less stereotyped (score −30 [−50, −10], n = 16 pictures, p < 0.001)."
        in fairer
    )
    assert "does not clearly change the score (−5 [−50, +40], n = 16 pictures, " in headline(
        with_score(two, "difference", -5.0, -50.0, 40.0)
    )


def test_failures_and_agreement_stand_beside_the_score_every_person_has_a_menu_and_pages_turn_and_end(pairs):
    text = summary_html(pairs)
    assert "Pictures that failed, in pairs" in text
    assert "0 of 8" in text  # 2 x 2 occupations in both orders
    assert "against the ground truth" in text
    labelling = Labelling(drawn=pairs)
    text = labels_html(labelling)
    pictures = labelling.pictures()
    assert len(pictures) == PER_PAGE
    people = labelling.people()
    assert text.count("<select") == people["image_id"].isin(pictures).sum()
    assert text.count(" selected>") == text.count("<select")
    assert "left: " in text
    second = labelling.turn(1)
    assert len(second.pictures()) == 20 - PER_PAGE  # 8 pictures of pairs and 12 alone
    assert second.turn(1).page == second.page
    assert second.turn(-1).pictures() == pictures
    assert not set(pictures) & set(second.pictures())


def test_words_of_the_visitor_are_never_markup(services, report, association, flow, internal, traced, clustered, two):
    design = design_of_prompts(find_design("tbyb-general"), [f"{EVIL} a doctor", "a nurse with a book"], 2)
    prompted = complete(run_study(design, settings_for_prompts(StudySettings()), services))
    named = [association.closer_html(report, "own"), association.behind_html(report, "own")]
    named.append(header_html(report, headline(report)))
    told = [internal.closer_html(flow, EVIL), internal.behind_html(flow, EVIL)]
    told += [films_html(traced), clusters_html(clustered)]
    unnamed = (examples_html(prompted), top_html(prompted), curve_html(prompted), labels_html(Labelling(drawn=two)))
    for html in (*named, *told, *unnamed):
        assert "<img src=x" not in html
    assert any("&lt;img" in html for html in named)
    assert all("&lt;img src=x" in html for html in told)


def test_a_correction_is_counted_and_can_be_undone(pairs):
    labelling = Labelling(drawn=pairs)
    one = first_pair(labelling)
    person = (one["image_id"], one["position"])
    changed = labelling.correct(person, opposite(one["perceived_gender"]))
    assert "1 label corrected by hand" in changed.place()
    assert changed.report().results.findings[0] != pairs.results.findings[0]
    assert changed.undo().report() is pairs
    # The page would not renew what it believes unchanged, and keep the menu as it was set by hand.
    assert labels_html(changed.undo()) != labels_html(labelling)
    confirmed = changed.confirm()
    n = confirmed.people()["image_id"].isin(confirmed.pictures()).sum()
    assert f"1 label corrected by hand, {n - 1} checked" in confirmed.place()
    assert replace(confirmed, selection="hand").pictures() == confirmed.pictures()


def test_the_doubtful_come_first_and_the_failed_alone(pairs):
    labelling = Labelling(drawn=pairs)
    people = labelling.people().set_index("image_id")["margin"].abs().groupby("image_id").min()
    doubtful = replace(labelling, selection="doubtful").pictures()
    assert people[doubtful].is_monotonic_increasing
    one = first_pair(labelling)
    failed = labelling.correct((one["image_id"], "left"), "not_two_people")
    assert replace(failed, selection="failed").pictures() == [one["image_id"]]
    assert replace(labelling, selection="failed").pictures() == []


def test_the_tab_shows_what_a_correction_gives(paired, two):
    labelling = Labelling(drawn=two)
    one = first_pair(labelling)
    answer = opposite(one["perceived_gender"])
    event = SimpleNamespace(image=one["image_id"], position=one["position"], answer=answer)
    first, then = paired.on_label(labelling, event)
    assert "labels" not in first  # the menu keeps its focus
    assert "1 label corrected by hand" in first["place"]
    assert keep_numbers_whole(headline(then["report"])) in unescape(first["header"])
    assert headline(then["report"]) != headline(two)
    assert "labels.csv" in then["shell"]
    assert then["report"].pictures["left_seen_as"].tolist() != two.pictures["left_seen_as"].tolist()
    first, then = paired.on_step(Labelling.undo, first["labelling"])
    assert then["report"] is two
    assert "labels.csv" not in then["shell"]
    assert "<select" in first["labels"]


def test_a_label_that_cannot_be_is_refused_in_place(paired, pairs):
    one = first_pair(Labelling(drawn=pairs))
    for image, answer in (("elsewhere", "feminine"), (one["image_id"], "tall")):
        event = SimpleNamespace(image=image, position=one["position"], answer=answer)
        for labelling in (Labelling(drawn=pairs), None):
            (said,) = paired.on_label(labelling, event)
            assert "alert" in said["status"]


def test_labels_of_a_reopened_run_can_be_corrected_without_its_lost_pictures(services, two):
    saved = open_report(two.run_id, services)
    labelling = Labelling(drawn=saved.report)
    one = first_pair(labelling)
    changed = ((one["image_id"], one["position"]), opposite(one["perceived_gender"]))
    again, fresh = labelling.correct(*changed).report(), Labelling(drawn=two).correct(*changed).report()
    assert again.results.findings == fresh.results.findings
    stored = {key: image for key, image in two.stored.items() if key != one["image_id"]}
    assert one["image_id"] not in labels_html(Labelling(drawn=replace(two, stored=stored)))


def test_a_run_of_own_identities_leads_to_the_published_numbers_of_its_test(two):
    assert find_measure(two) == "pst-occupation"


def test_own_identities_are_run_whole_and_checked(paired):
    own = {"masculine": "pilot", "feminine": "flight attendant",
           "n_paired": 4, "n_single": 2, "fairness": False}  # fmt: skip
    design = paired.own_design(paired.designs["pst-power"], own)
    settings = paired.own_settings(StudySettings(scale=0.1, options={"power_images": 3, "finder": "halves"}))
    assert settings.scale == 1.0
    assert settings.options == {"finder": "halves"}
    assert "pilot and flight attendant" in design.title
    assert paired.own_values(design) == own
    with pytest.raises(InvalidInput, match="two different"):
        paired.own_design(design, own | {"feminine": "pilot"})
