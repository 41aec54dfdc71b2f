"""An exploration in several arms: what is planted is found, what is equal is not, and bad questions."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import Cancelled, InvalidInput, UnknownModel
from bias_core.exchange.export import write_zip
from bias_core.metrics.paired_prevalence import prevalence_difference
from bias_core.studies.explore.headline import arms_headline
from bias_core.studies.explore.options import arm_template, compare_settings, explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.documents import to_dict
from bias_core.studies.running.export import to_command, to_export
from bias_core.studies.running.run import complete, plan_study, run_study
from bias_core.types import Attribute
from tests.studies.oasis_runs import real_services
from tests.ui.fakes import FakeServices

MAN = Attribute(
    name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.6, reference_source="x"
)
OLD = Attribute(name="old", positive="a photo of an old person", negative="a photo of a young person")
FAIR, EXTREME = Arm(condition="fair"), Arm(condition="extreme")
DESIGN = find_design("explore")
NO_WORDS = {"attribute_a": "", "attribute_b": ""}
SETTINGS = explore_settings(
    StudySettings(), concept="doctor", arms=(FAIR, EXTREME), attributes=(MAN, OLD), n_images=40, seed=20,
    **NO_WORDS,
)  # fmt: skip


def run(settings, services, **options):
    return complete(run_study(DESIGN, settings, services, **options))


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServices]:
    services = FakeServices(tmp_path_factory.mktemp("arms"))
    yield services
    services.close()


@pytest.fixture(scope="module")
def report(fakes):
    words = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 7}
    return run(explore_settings(SETTINGS, **words), fakes, session="me")


def table(report, key):
    return next(t.frame for t in report.results.tables if t.key == key)


def difference(report, name):
    frame = table(report, "differences")
    return frame[frame["finding"] == name].iloc[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    services = real_services(tmp_path_factory.mktemp("world"))
    yield services
    services.close()


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


def test_every_score_is_compared(report):
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


def test_equal_settings_give_equal_numbers_and_draw_nothing_again(fakes, report, monkeypatch):
    monkeypatch.setattr(fakes, "text_to_image", lambda _name: None)  # nothing is left to draw
    again = run(report.settings, fakes, session="me")
    assert again.run_id == report.run_id
    old, new = (to_dict(r) | {"seconds": 0} for r in (report, again))
    assert old == new
    kept = fakes.manifests.find(report.run_id)
    assert kept.status == "finished"
    assert kept.title == "a photo of a doctor: fair against extreme"


def test_every_figure_draws_and_the_zip_holds_the_pictures(report, tmp_path):
    assert {"shares", "differences", "plane", "change"} <= {f.key for f in report.results.figures}
    path = write_zip(to_export(report, pictures=True), tmp_path / "all.zip")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for figure in report.results.figures:
            assert archive.read(f"figures/{figure.key}.svg").startswith(b"<?xml")
    assert sum(name.startswith("train/") and name.endswith(".png") for name in names) == 80 + 4 * 7
    assert "figures/differences.png" in names


def test_an_association_alone_is_compared(fakes):
    words = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 4}
    found = run(explore_settings(SETTINGS, attributes=(), n_images=6, seed=400, **words), fakes)
    assert list(table(found, "differences")["finding"]) == [
        "male against female: association", "male and female: shown where asked for",
    ]  # fmt: skip
    assert arms_headline(found)


def test_stop_keeps_what_is_drawn(fakes):
    asked = iter([False] * 6 + [True] * 1000)
    with pytest.raises(Cancelled, match="kept"):
        run(explore_settings(SETTINGS, seed=900), fakes, cancelled=lambda: next(asked), session="stop")
    assert fakes.manifests.list(session="stop")[0].status == "cancelled"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"arms": (FAIR, Arm(name="b", condition="fair"))}, "draw the same pictures"),
        ({"arms": (FAIR, Arm(name="b", condition="fair", guidance_scale=3.0))}, "renderer takes no guidance"),
        ({"n_images": 1}, "at least two seeds, got 1"),
        ({"attributes": ()}, "nothing to compare"),
        ({"concept": " "}, "concept is empty"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_drawing(fakes, changed, text):
    with pytest.raises(InvalidInput, match=text):
        plan_study(DESIGN, explore_settings(SETTINGS, **changed), fakes)


def test_an_unknown_model_is_refused(fakes):
    asked = explore_settings(SETTINGS, arms=(FAIR, Arm(model="../nowhere")))
    with pytest.raises(UnknownModel):
        plan_study(DESIGN, asked, fakes)


def test_a_prompt_may_repeat_the_concept():
    assert arm_template("a {} that is no {}", "apple") == "a {} that is no apple"
    arms = (Arm(template="a {}"), Arm(template="a {}, if all can be a {}"))
    found = compare_settings("engineer", arms, attributes=(MAN,))
    assert found.options.template == "a {}"
    assert [arm.template for arm in found.arms] == [None, "{}, if all can be an engineer"]


def test_unlike_templates_draw_what_each_says(fakes):
    arms = (Arm(template="a photo of a {}"), Arm(template="a sketch of a {}"))
    settings = compare_settings(
        "engineer", arms, attributes=(MAN,), n_images=2, attribute_a="male", attribute_b="female",
        n_attribute_images=1,
    )  # fmt: skip
    rows = plan_study(DESIGN, settings, fakes).manifest.rows
    assert list(dict.fromkeys(row.prompt for row in rows)) == [
        "a photo of an engineer", "a photo of a male engineer", "a photo of a female engineer",
        "a sketch of an engineer", "a sketch of a male engineer", "a sketch of a female engineer",
    ]  # fmt: skip


def test_the_command_gives_back_the_arms(fakes, monkeypatch):
    line = to_command(DESIGN, SETTINGS)
    assert line.startswith("python -m bias_core explore doctor")
    assert line.count("--arm") == 2
    assert "--model calibration-renderer" in line


def test_the_command_line_gives_the_same_numbers(monkeypatch, fakes, report, tmp_path: Path):
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


def test_a_summary_without_a_clear_difference_says_what_could_hide(fakes):
    found = run(explore_settings(SETTINGS, attributes=(OLD,), n_images=6, seed=300), fakes)
    assert "No clear difference" in arms_headline(found)
    assert "points can hide" in arms_headline(found)
    assert not math.isnan(difference(found, "old: P")["p adjusted"])
