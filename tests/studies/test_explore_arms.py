"""An exploration in several arms: what is planted is found, what is equal is not, and bad questions."""

import math
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import InvalidInput, UnknownModel
from bias_core.exchange.export import write_zip
from bias_core.metrics.paired_prevalence import prevalence_difference
from bias_core.studies.explore.headline import arms_headline
from bias_core.studies.explore.options import arm_template, compare_settings, explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.running.export import to_command
from bias_core.studies.running.run import complete, plan_study, run_study
from bias_core.types import Attribute
from tests import shared
from tests.explored import pictures_of
from tests.studies.oasis_runs import table

fakes, world = shared.fake_services, shared.real_services

MAN = Attribute(
    name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.6, reference_source="x"
)
OLD = Attribute(name="old", positive="a photo of an old person", negative="a photo of a young person")
FAIR, EXTREME = Arm(condition="fair"), Arm(condition="extreme")
DESIGN = find_design("explore")
WORDS = {"attribute_a": "male", "attribute_b": "female"}
NO_WORDS = dict.fromkeys(WORDS, "")
SETTINGS = explore_settings(
    StudySettings(), concept="doctor", arms=(FAIR, EXTREME), attributes=(MAN, OLD), n_images=40, seed=20, **NO_WORDS
)


def run(settings, services, **options):
    return complete(run_study(DESIGN, settings, services, **options))


@pytest.fixture(scope="module")
def report(fakes):
    return run(explore_settings(SETTINGS, **WORDS, n_attribute_images=7), fakes, session="me")


def difference(report, name):
    frame = table(report, "differences")
    return frame[frame["finding"] == name].iloc[0]


def test_a_planted_difference_is_found_and_said(world):
    arms = (FAIR, Arm(condition="published"))
    found = run(explore_settings(SETTINGS, arms=arms, n_images=48), world)
    gap = difference(found, "man: P")
    assert 0.2 < gap["difference"] < 0.7  # planted: 0.93 - 0.5
    assert gap["low"] <= gap["drawn"] <= gap["high"]
    assert gap["p adjusted"] < 0.01
    assert difference(found, "man: share of variance")["high"] < 0  # nearly all are men: less variety along it
    assert difference(found, "old: P")["clear"] == "no"
    assert "“man” is seen in" in arms_headline(found)
    assert "same 48 seeds" in arms_headline(found)
    # The renderer leaves the rest of a seed's picture as it is.
    change = next(f for f in found.results.findings if f.key.startswith("change"))
    assert change.estimate.high < 0.4
    assert not any("different seeds" in note for note in found.results.notes)


def test_equal_arms_are_called_different_about_as_seldom_as_promised(world):
    """Another wording of the same prompt draws other pictures at the same planted rates."""
    arms = (FAIR, Arm(condition="fair", template="an image of a {}"))
    p_values = []
    for i in range(12):
        asked = compare_settings("doctor", arms, attributes=(MAN, OLD), n_images=19, seed=1000 * i)
        found = run(asked, world)
        p_values += list(table(found, "differences")["p"].dropna())
    assert len(p_values) >= 12 * 5
    # Dependent in threes, so generous: 5 % and three times the standard error of 24 independent ones.
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 24)
    assert 0.35 < np.mean(p_values) < 0.75  # the exact test of P lies above a half
    assert any("different seeds" in note for note in found.results.notes)


def test_every_score_is_compared(fakes, report):
    assert fakes.manifests.find(report.run_id).title == "a photo of a doctor: fair against extreme"
    names = list(table(report, "differences")["finding"])
    assert [name for name in names if name.startswith("man")] == [
        "man: P", "man: P corrected", "man: P − P*", "man: Ψ", "man: share of variance",
    ]  # fmt: skip
    assert [name for name in names if name.startswith("old")] == ["old: P", "old: share of variance"]
    assert "male against female: association" in names
    n = {f.title.partition(",")[0]: f.estimate.n for f in report.results.findings}
    assert n.pop("male and female: shown where asked for") == 2 * 7
    assert set(n.values()) == {40}


def test_the_seed_table_gives_the_same_difference(report):
    seeds = table(report, "seeds")
    assert list(seeds["change"]) == sorted(seeds["change"], reverse=True)
    assert sorted(seeds["seed"]) == list(range(20, 60))
    sides = [seeds["man"].str.split(" → ").str[i].map({"yes": 1.0, "no": -1.0}) for i in (0, 1)]
    assert prevalence_difference(*sides) == pytest.approx(difference(report, "man: P")["difference"])
    assert set(seeds["first picture"]) <= set(report.stored)


def test_p_values_are_adjusted_over_all_tests(report):
    frame = table(report, "differences").dropna(subset=["p"]).sort_values("p")
    n = len(frame)
    # Benjamini–Hochberg by hand: the least of p n / rank from this rank upwards
    raw = frame["p"].to_numpy() * n / np.arange(1, n + 1)
    np.testing.assert_allclose(frame["p adjusted"], np.minimum.accumulate(raw[::-1])[::-1].clip(max=1))


def test_a_blocked_picture_leaves_its_seed_out(fakes):
    found = run(explore_settings(SETTINGS, seed=5, n_images=12), fakes)  # seed 13 is blocked
    assert found.n_blocked == 2
    assert 13 not in set(table(found, "seeds")["seed"])
    assert difference(found, "man: P")["n"] == 11


def test_three_arms_make_three_pairs_and_a_prompt_may_be_treated(fakes):
    arms = (FAIR, EXTREME, Arm(name="intervened", template="{}, all can be a doctor"))
    found = run(explore_settings(SETTINGS, arms=arms, n_images=8), fakes)
    seeds = table(found, "seeds")
    assert len(seeds[["first", "second"]].drop_duplicates()) == 3
    rows = {image.row.prompt for image in found.stored.values()}
    assert rows == {"a photo of a doctor", "a photo of a doctor, all can be a doctor"}


def test_every_figure_draws_and_the_zip_holds_the_pictures(report, tmp_path):
    assert {"shares", "differences", "plane", "change"} <= {f.key for f in report.results.figures}
    for figure in report.results.figures:
        assert to_bytes(figure).startswith(b"<?xml")
    with zipfile.ZipFile(write_zip(pictures_of(report), tmp_path / "all.zip")) as archive:
        assert sum(name.startswith("train/") and name.endswith(".png") for name in archive.namelist()) == 80 + 4 * 7


def test_an_association_alone_is_compared(fakes):
    asked = explore_settings(SETTINGS, attributes=(), n_images=6, seed=400, **WORDS, n_attribute_images=4)
    found = run(asked, fakes)
    assert list(table(found, "differences")["finding"]) == [
        "male against female: association", "male and female: shown where asked for",
    ]  # fmt: skip
    assert arms_headline(found)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"arms": (FAIR, Arm(name="b", condition="fair"))}, "draw the same pictures"),
        ({"arms": (FAIR, Arm(name="b", condition="fair", guidance_scale=3.0))}, "renderer takes no guidance"),
        ({"n_images": 1}, "at least two seeds, got 1"),
        ({"attributes": ()}, "nothing to compare"),
        ({"concept": " "}, "concept is empty"),
        ({"arms": (FAIR, Arm(model="../nowhere"))}, "nowhere"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_drawing(fakes, changed, text):
    with pytest.raises((InvalidInput, UnknownModel), match=text):
        plan_study(DESIGN, explore_settings(SETTINGS, **changed), fakes)


def test_a_prompt_may_repeat_the_concept():
    assert arm_template("a {} that is no {}", "apple") == "a {} that is no apple"
    arms = (Arm(template="a {}"), Arm(template="a {}, if all can be a {}"))
    found = compare_settings("engineer", arms, attributes=(MAN,))
    assert found.options.template == "a {}"
    assert [arm.template for arm in found.arms] == [None, "{}, if all can be an engineer"]


def test_unlike_templates_draw_what_each_says(fakes):
    arms = (Arm(template="a photo of a {}"), Arm(template="a sketch of a {}"))
    settings = compare_settings("engineer", arms, attributes=(MAN,), n_images=2, **WORDS, n_attribute_images=1)
    rows = plan_study(DESIGN, settings, fakes).manifest.rows
    assert list(dict.fromkeys(row.prompt for row in rows)) == [
        "a photo of an engineer", "a photo of a male engineer", "a photo of a female engineer",
        "a sketch of an engineer", "a sketch of a male engineer", "a sketch of a female engineer",
    ]  # fmt: skip


def test_the_command_line_gives_the_same_numbers(monkeypatch, fakes, report, tmp_path):
    monkeypatch.setattr("bias_core.services.Services", lambda: fakes)
    monkeypatch.setattr(fakes, "close", lambda: None)
    asked = ["compare", "doctor", "--arm", "condition=fair", "--arm", "condition=extreme", "-n", "40",
             "--seed", "20", "--attribute", "man|a photo of a man|a photo of a woman|0.6|x",
             "--out", str(tmp_path / "report.json")]  # fmt: skip
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert f"{difference(report, 'man: P')['difference']:.3f}" in result.output
    assert (tmp_path / "report.json").is_file()
    wrong = CliRunner().invoke(app, ["compare", "doctor", "--arm", "condition=fair"])
    assert wrong.exit_code == 2
    assert "compare two to 8 arms" in wrong.output
    line = to_command(DESIGN, SETTINGS)
    assert line.startswith("python -m bias_core explore doctor")
    assert (line.count("--arm"), line.count("--model calibration-renderer")) == (2, 1)


def test_a_summary_without_a_clear_difference_says_what_could_hide(fakes):
    found = run(explore_settings(SETTINGS, attributes=(OLD,), n_images=6, seed=300), fakes)
    assert "No clear difference" in arms_headline(found)
    assert "points can hide" in arms_headline(found)
    assert not math.isnan(difference(found, "old: P")["p adjusted"])
