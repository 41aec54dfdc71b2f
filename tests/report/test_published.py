"""The papers' numbers for real models, and a visitor's own runs next to them."""

from dataclasses import replace

import gradio as gr
import pandas as pd

from bias_core.explore.options import compared_concept, explore_settings
from bias_core.report.export import protocol_in_words
from bias_core.report.figures import draw, figure_svg
from bias_core.report.published import (
    find_measure,
    matching_numbers,
    ordered_lines,
    published_figure,
    published_measures,
    to_runs,
)
from bias_core.report.saved import list_examples, open_example
from bias_core.run.run import complete, run_study
from bias_core.study.design import STUDY_DATA, find_design
from bias_core.study.types import StudySettings
from bias_core.ui.runs.published import PublishedFold, published_html
from bias_core.ui.visitor import Visitor
from tests import shared

services, world = shared.fake_services, shared.real_services
EVIL = "<img src=x onerror=alert(1)>"


def example(name):
    return open_example(next(one for one in list_examples() if one.name == name)).report


def test_numbers_are_those_of_the_tables_and_name_them():
    measures = published_measures()
    expected = {
        "t2iat-tests": ("Career / Family, Male / Female", "stabilityai/stable-diffusion-2-1", 0.026),
        "oasis-prevalence": ("Iranian, turban", "SDv2", 0.273),
        "oasis-stereotype_score": ("Iranian, turban", "SDv2", 0.271),
        "oasis-doctors": ("Iranian doctor", "SDv3", 1.0),
        "pst-occupation": ("in pairs", "DALL-E 3", 47.38),
        "pst-power": ("alone", "DALL-E 3", 4.62),
        "pst-fairness": ("power", "DALL-E 3", -11.12),
        "internal-mcas": ("CEO", "DALL-E 2", 0.08),
        "internal-delta": ("female-dominated targets", "DALL-E 2", 0.05),
        "internal-alpha": ("all targets", "Stable Diffusion v2", 6.47),
    }
    for key, (line, model, value) in expected.items():
        (one,) = [one for one in measures[key].numbers if (one.line, one.model) == (line, model)]
        assert abs(one.value - value) < 1e-9
    for measure in measures.values():
        assert "Table" in measure.source or "TryBeforeYouBias" in measure.source
    eight = pd.read_csv(STUDY_DATA / "tbyb_general_evaluations.csv")
    general = measures["tbyb-general-bias"].numbers
    assert [(one.model, one.value) for one in general] == list(zip(eight["Model"], eight["Dist. Bias"], strict=True))
    assert len(general) == 8
    misprint = [one for one in measures["internal-alpha"].numbers if "1.696" in one.remark]
    assert [(one.line, one.value) for one in misprint] == [("male-dominated targets", 3.15)]


def test_a_run_stands_next_to_the_paper_with_its_interval_and_what_it_did_otherwise():
    report, measure = example("science-and-arts"), published_measures()["t2iat-tests"]
    own = matching_numbers(measure, to_runs([(EVIL, report)]))
    (finding,) = [one for one in report.results.findings if one.key == "science_arts"]
    assert [(one.line, one.claim.estimate) for one in own] == [("Science / Arts, Male / Female", finding.estimate)]
    assert own[0].protocol.startswith("differs in Model, ")
    html = published_html(measure, [(EVIL, report)])
    assert "<img" not in html
    assert "&lt;img" in html
    assert "Wang et al. 2023, Table 1" in html
    assert html.count("<tr") == 1 + len(measure.numbers) + 1
    assert EVIL in list(published_figure(measure, own).data["group"])


def test_a_run_of_the_same_concept_is_matched_whatever_study_it_came_from(world):
    arms = compared_concept((), "doctor", "Iranian doctor")
    given = {"arms": arms, "attributes": ("man",), "n_images": 8, "attribute_a": "", "attribute_b": ""}
    settings = explore_settings(StudySettings(model="calibration-renderer"), concept="doctor", **given)
    report, measure = (
        complete(run_study(find_design("explore"), settings, world)),
        published_measures()["oasis-doctors"],
    )
    own = matching_numbers(measure, to_runs([("mine", report)]))
    assert [(one.line, one.name) for one in own] == [
        ("doctor", "mine: doctor"),
        ("Iranian doctor", "mine: Iranian doctor"),
    ]
    assert "not by the paper’s protocol" in own[0].protocol
    assert find_measure(report) == "oasis-doctors"
    assert ordered_lines(measure, own[1:])[0] == "Iranian doctor"
    assert find_measure(example("science-and-arts")) == "t2iat-tests"
    assert measure.label.endswith("Dehdashtian et al. 2025 · SDv2, SDv3, FLUX.1 [dev]")


def test_shares_begin_at_zero_on_their_axis():
    figure = published_figure(published_measures()["tbyb-general-bias"], [])
    assert draw(figure).axes[0].get_xlim()[0] < 0 < figure.data["value"].min()


def test_a_run_that_meets_every_item_says_so_and_one_of_other_words_does_not_stand_there():
    report, measure = example("occupations-in-pairs"), published_measures()["pst-occupation"]
    assert protocol_in_words(report) == "differs in Model, Number of pictures, Answerer and 1 more"
    tables = tuple(
        replace(table, frame=table.frame.assign(status="met")) if table.key == "protocol" else table
        for table in report.results.tables
    )
    met = replace(report, results=replace(report.results, tables=tables))
    assert protocol_in_words(met) == "paper’s protocol met"
    assert len(matching_numbers(measure, to_runs([("mine", met)]))) == 2
    findings = tuple(replace(one, published=None) for one in report.results.findings)
    other = replace(report, results=replace(report.results, findings=findings))
    assert matching_numbers(measure, to_runs([("mine", other)])) == []


def test_every_measure_is_shown_without_a_run_and_its_plot_has_every_number(services):
    part, visitor = PublishedFold(services), Visitor()
    for key, measure in published_measures().items():
        html = part.on_choice(visitor, key)
        assert "None of your runs has these numbers" in html
        assert html.count("<tr") == 1 + len(measure.numbers)
        figure = published_figure(measure, [])
        assert sorted(figure.data["value"]) == sorted(one.value for one in measure.numbers)
        assert figure_svg(figure).startswith("<svg")
    assert "B_D" in part.on_choice(visitor, "no such measure")
    visitor.leave()


def test_the_fold_that_was_opened_follows_the_list_of_runs(services):
    part, visitor = PublishedFold(services), Visitor()
    key = next(key for key, one in published_measures().items() if "t2iat-tests" in one.studies)
    before = part.on_choice(visitor, key)
    assert "None of your runs has these numbers" in before
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    complete(run_study(find_design("t2iat-tests"), settings, services, session=visitor.key))
    assert "The same numbers of your newest runs" in part.on_runs(before, visitor, key)
    assert part.on_runs("", visitor, key) == gr.skip()  # nothing is read for a fold that was never opened
    visitor.leave()
