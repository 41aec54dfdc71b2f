"""Compare from settings to report: what is planted is found, what is equal is not, and bad questions."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import Cancelled, InvalidInput, UnknownModel
from bias_core.metrics.paired_prevalence import prevalence_difference
from bias_core.runs.export import write_zip
from bias_core.studies.compare import compare
from bias_core.studies.compare_export import arm_text, parse_arms, to_command, to_python
from bias_core.studies.compare_plan import arm_names, arm_settings, arm_template, compare_from_dict
from bias_core.studies.compare_report import summary
from bias_core.studies.compare_types import Arm, CompareSettings
from bias_core.studies.figures import to_bytes
from bias_core.studies.run_study import complete
from bias_core.studies.study_export import to_export
from bias_core.studies.study_report import to_dict, to_markdown
from bias_core.types import Attribute
from tests.studies.oasis_runs import real_services
from tests.ui.fakes import FakeServices

MAN = Attribute(
    name="man",
    positive="a photo of a man",
    negative="a photo of a woman",
    reference=0.6,
    reference_source="x",
)
OLD = Attribute(name="old", positive="a photo of an old person", negative="a photo of a young person")
FAIR, EXTREME = Arm(condition="fair"), Arm(condition="extreme")
SETTINGS = CompareSettings(
    concept="doctor", arms=(FAIR, EXTREME), attributes=(MAN, OLD), n_images=40, seed=20
)


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServices]:
    services = FakeServices(tmp_path_factory.mktemp("compare"))
    yield services
    services.close()


@pytest.fixture(scope="module")
def report(fakes):
    words = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 7}
    return complete(compare(replace(SETTINGS, **words), fakes, session="me"))


def table(report, key):
    return next(t.frame for t in report.results.tables if t.key == key)


def difference(report, attribute, score):
    frame = table(report, "differences")
    return frame[(frame["attribute"] == attribute) & (frame["score"] == score)].iloc[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    services = real_services(tmp_path_factory.mktemp("world"))
    yield services
    services.close()


def test_a_planted_difference_is_found_and_said(world):
    arms = (FAIR, Arm(condition="published"))
    found = complete(compare(replace(SETTINGS, arms=arms, n_images=48), world))
    gap = difference(found, "man", "P")
    assert 0.2 < gap["difference"] < 0.7  # planted: 0.93 - 0.5
    assert gap["low"] <= gap["drawn"] <= gap["high"]
    assert gap["p adjusted"] < 0.01
    assert difference(found, "man", "spread")["high"] < 0  # nearly all are men: less variety along it
    assert difference(found, "old", "P")["clear"] == "no"
    assert "“man” is seen in" in summary(found)
    assert "same 48 seeds" in summary(found)
    # The renderer leaves the rest of a seed's picture as it is.
    change = next(f for f in found.results.findings if f.key == "change")
    assert change.estimate.high < 0.4
    assert not any("different seeds" in note for note in found.results.notes)


def test_equal_arms_are_called_different_about_as_seldom_as_promised(world):
    """Another wording of the same prompt draws other pictures at the same planted rates."""
    arms = (FAIR, replace(FAIR, template="an image of a {}"))
    p_values = []
    for i in range(12):
        asked = replace(SETTINGS, arms=arms, n_images=19, seed=1000 * i)
        found = complete(compare(asked, world))
        p_values += list(table(found, "differences")["p"].dropna())
    assert len(p_values) >= 12 * 6
    # Dependent in threes, so generous: 5 % and three times the standard error of 24 independent ones.
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 24)
    assert 0.35 < np.mean(p_values) < 0.75  # the exact test of P lies above a half
    assert any("different seeds" in note for note in found.results.notes)


def test_every_score_is_compared(report):
    frame = table(report, "differences")
    assert list(frame[frame["attribute"] == "man"]["score"]) == [
        "P", "P, corrected for the reader's errors", "Ψ", "WALS", "spread",
    ]  # fmt: skip
    assert list(frame[frame["attribute"] == "old"]["score"]) == ["P", "WALS", "spread"]  # no P*, no errors
    assert "male against female" in set(frame["attribute"])
    measured = frame.dropna(subset=["difference"])
    np.testing.assert_allclose(
        measured["value second"] - measured["value first"], measured["difference"], atol=1e-6
    )
    assert all(f.estimate.n == 40 for f in report.results.findings)


def test_the_seed_table_gives_the_same_difference(report):
    seeds = table(report, "seeds")
    assert list(seeds["change"]) == sorted(seeds["change"], reverse=True)
    assert sorted(seeds["seed"]) == list(range(20, 60))
    sides = [seeds["man"].str.split(" → ").str[i].map({"yes": 1.0, "no": -1.0}) for i in (0, 1)]
    assert prevalence_difference(*sides) == pytest.approx(difference(report, "man", "P")["difference"])
    assert set(seeds["first picture"]) <= set(report.stored)


def test_p_values_are_adjusted_over_all_tests(report):
    frame = table(report, "differences").dropna(subset=["p"]).sort_values("p")
    n = len(frame)
    # Benjamini–Hochberg by hand: the least of p n / rank from this rank upwards
    raw = frame["p"].to_numpy() * n / np.arange(1, n + 1)
    np.testing.assert_allclose(frame["p adjusted"], np.minimum.accumulate(raw[::-1])[::-1].clip(max=1))


def test_a_blocked_picture_leaves_its_seed_out(fakes):
    found = complete(compare(replace(SETTINGS, seed=5, n_images=12), fakes))  # seed 13 is blocked
    assert found.n_blocked == 2
    assert 13 not in set(table(found, "seeds")["seed"])
    assert difference(found, "man", "P")["n"] == 11
    assert any("1 of 12 seeds are left out" in note for note in found.results.notes)


def test_three_arms_make_three_pairs(fakes):
    arms = (FAIR, EXTREME, Arm(name="intervened", template="a photo of a {}, all can be a {}"))
    found = complete(compare(replace(SETTINGS, arms=arms, n_images=8), fakes))
    frame = table(found, "differences")
    assert set(zip(frame["first"], frame["second"], strict=True)) == {
        ("fair, a photo of a {}", "extreme, a photo of a {}"),
        ("fair, a photo of a {}", "intervened"),
        ("extreme, a photo of a {}", "intervened"),
    }


def test_equal_settings_give_equal_numbers_and_draw_nothing_again(fakes, report, monkeypatch):
    monkeypatch.setattr(fakes, "text_to_image", lambda _name: None)  # nothing is left to draw
    again = complete(compare(compare_from_dict(report.settings.options), fakes, session="me"))
    assert again.run_id == report.run_id
    old, new = (to_dict(r) | {"seconds": 0} for r in (report, again))
    assert old == new
    kept = fakes.manifests.find(report.run_id)
    assert kept.status == "finished"
    assert kept.study == "compare"


def test_every_figure_draws_and_the_zip_holds_the_pictures(report, tmp_path):
    for figure in report.results.figures:
        assert to_bytes(figure).startswith(b"<?xml")
    path = write_zip(to_export(report, pictures=True), tmp_path / "all.zip")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert sum(name.endswith(".png") for name in names) == 80
    assert "tables/differences.csv" in names or any("differences" in name for name in names)
    assert not any(name.endswith(".yaml") for name in names)
    assert "full size" not in to_markdown(report)


def test_an_association_alone_is_compared_and_taken_along(fakes, tmp_path):
    words = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 4}
    found = complete(compare(replace(SETTINGS, attributes=(), n_images=6, seed=400, **words), fakes))
    assert list(table(found, "differences")["score"]) == ["association"]
    assert [figure.key for figure in found.results.figures] == ["change"]
    assert write_zip(to_export(found), tmp_path / "some.zip").is_file()
    assert summary(found)


def test_stop_keeps_what_is_drawn(fakes):
    asked = iter([False] * 6 + [True] * 1000)
    with pytest.raises(Cancelled, match="kept"):
        complete(compare(replace(SETTINGS, seed=900), fakes, cancelled=lambda: next(asked), session="stop"))
    assert fakes.manifests.list(session="stop")[0].status == "cancelled"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"arms": (FAIR,)}, "two to 4 arms, got 1"),
        ({"arms": (FAIR, Arm(name="b", condition="fair"))}, "draw the same pictures"),
        ({"arms": (FAIR, Arm(name="b", condition="fair", guidance_scale=3.0))}, "renderer takes no guidance"),
        ({"arms": (FAIR, FAIR)}, "names that differ"),
        ({"n_images": 1}, "at least two seeds, got 1"),
        ({"attributes": ()}, "nothing to compare"),
        ({"concept": " "}, "concept is empty"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_drawing(fakes, changed, text):
    with pytest.raises(InvalidInput, match=text):
        complete(compare(replace(SETTINGS, **changed), fakes))


def test_an_unknown_model_is_refused(fakes):
    with pytest.raises(UnknownModel):
        complete(compare(replace(SETTINGS, arms=(FAIR, Arm(model="../nowhere"))), fakes))


def test_arms_are_named_by_what_differs():
    assert arm_names([FAIR, EXTREME]) == ("fair", "extreme")
    guided = [Arm(guidance_scale=None), Arm(guidance_scale=3.0, negative_prompt="beard")]
    assert arm_names(guided) == ("no negative prompt, guidance default", "without “beard”, guidance 3")


def test_a_prompt_may_repeat_the_concept():
    assert arm_template("a {} that is no {}", "apple") == "a {} that is no apple"
    found = arm_settings(replace(SETTINGS, concept="engineer"), Arm(template="a {}, if all can be a {}"))
    assert found.template == "a {}, if all can be an engineer"


def test_the_command_gives_back_the_arms():
    arms = (FAIR, Arm(template="a {} | b", negative_prompt="x", guidance_scale=2.5, num_inference_steps=4))
    assert parse_arms([arm_text(arm) for arm in arms]) == arms
    line = to_command(replace(SETTINGS, arms=arms))
    assert line.startswith("python -m bias_core compare --arm 'model=")
    assert line.endswith("-- doctor")
    namespace: dict[str, object] = {}
    code = to_python(SETTINGS).replace("report = complete(compare(settings, Services()))", "report = None")
    exec(code.partition("for finding")[0], namespace)
    assert namespace["settings"] == SETTINGS


@pytest.mark.parametrize("text", ["fair", "colour=red", "guidance=much"])
def test_a_malformed_arm_is_quoted(text):
    with pytest.raises(InvalidInput, match=text):
        parse_arms([text])


def test_the_command_line_gives_the_same_numbers(monkeypatch, fakes, report, tmp_path: Path):
    monkeypatch.setattr("bias_core.services.Services", lambda: fakes)
    monkeypatch.setattr(fakes, "close", lambda: None)
    asked = ["compare", "doctor", "--arm", "condition=fair", "--arm", "condition=extreme", "-n", "40",
             "--seed", "20", "--attribute", "man|a photo of a man|a photo of a woman|0.6|x",
             "--out", str(tmp_path / "out")]  # fmt: skip
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert f"{difference(report, 'man', 'P')['difference']:.3f}" in result.output
    assert (tmp_path / "out" / "report.json").is_file()
    wrong = CliRunner().invoke(app, ["compare", "doctor", "--arm", "condition=fair"])
    assert wrong.exit_code == 2
    assert "two to 4 arms" in wrong.output


def test_a_summary_without_a_clear_difference_says_what_could_hide(fakes):
    found = complete(compare(replace(SETTINGS, attributes=(OLD,), n_images=6, seed=300), fakes))
    assert "No clear difference" in summary(found)
    assert "points can hide" in summary(found)
    assert not math.isnan(difference(found, "old", "P")["p adjusted"])
