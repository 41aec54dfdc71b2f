"""A study in several languages: two with a planted bias are named; what was not understood is not compared."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.app.cli import app
from bias_core.beyond.languages.comparison import LanguageArm, LanguageScore, language_lines, languages_headline
from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.explore.report import arms_headline
from bias_core.measures.intervals import exact_interval
from bias_core.report.commands import to_command, to_python
from bias_core.report.saved import from_text, to_text
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings
from bias_core.types import ImageRow
from bias_core.world.models import get_scene
from bias_core.world.wordings import list_wordings, planted_languages
from tests import shared
from tests.every import every
from tests.study.oasis_runs import table

world = shared.real_services

SIX = ("de", "fr", "es", "ar", "hi", "zh")
DESIGN = find_design("explore")
PLANTED = StudySettings(condition="languages")
RENDERER = "calibration-renderer"


def run(world, base=PLANTED, **given):
    asked = {"concept": "doctor", "languages": SIX, "n_images": 24, "seed": 100} | given
    return complete(run_study(DESIGN, explore_settings(base, **asked), world))


@pytest.fixture(scope="module")
def report(world):
    return run(world)


def test_only_an_extension_with_a_changed_option_is_asked_beside_those_without_options():
    def asked(**given):
        return {
            type(extension).__name__ for extension in explore_settings(concept="doctor", **given).options.extensions
        }

    assert asked(n_images=9) == {"Mitigation"}
    assert asked(languages=("de",)) == {"Mitigation", "Languages"}
    assert asked(crossed="pairs") == {"Mitigation", "Intersections"}
    assert not explore_settings(concept="doctor", languages=("de",)).options.has_association


def scenes(prompt, condition, n=60):
    rows = [ImageRow(prompt=prompt, model=RENDERER, condition=condition, seed=seed) for seed in range(n)]
    return [get_scene(row).people[0] for row in rows]


def test_the_two_languages_in_which_a_bias_is_planted_are_named(report):
    said = arms_headline(report)
    assert said.startswith(
        "“man” is seen more often in German (generic masculine) and Arabic (generic masculine) than in English: "
    )
    assert re.search(r"points \[\+\d+, \+\d+\], adjusted p (= 0\.\d+|< 0\.001)\) and ", said)
    assert said.endswith("on the same 24 seeds.")
    for other in ("French", "Spanish", "Hindi", "Chinese"):
        assert other not in said


def test_each_language_has_a_line_with_its_prompt_and_form(report):
    frame = table(report, "languages")
    men = frame[frame["attribute"] == "man"]
    assert list(men["language"]) == ["German", "French", "Spanish", "Arabic", "Hindi", "Chinese"]
    assert list(men["form"])[3:] == ["generic masculine", "one form for all", "one form for all"]
    assert men["prompt"].iloc[3] == "صورة طبيب"
    assert (men["recognised"] > 0.8).all()
    clear = men[men["verdict"] == "more often"]
    assert set(clear["language"]) == {"German", "Arabic"}
    assert (clear["clear"] == "yes").all()
    assert (frame["clear"] == "yes").equals(frame["p adjusted"] <= 0.05)
    assert (clear["low"] > 0.1).all()
    assert (frame["p adjusted"] >= frame["p"]).all()
    assert next(one for one in report.results.figures if one.key == "languages").data["group"].nunique() == 2


def test_the_report_is_saved_and_its_command_lays_the_same_arms_out(report, tmp_path):
    again = from_text(to_text(replace(report, stored={}), tmp_path), tmp_path).report
    assert arms_headline(again) == arms_headline(report)
    command = to_command(DESIGN, report.settings)
    assert "--languages de,fr,es,ar,hi,zh" in command
    assert "--arm" not in command
    assert "Arm(" not in to_python(DESIGN, report.settings)
    assert report.settings.arms[4] == Arm(name="Arabic (generic masculine)", template="{a photo of a doctor=صورة طبيب}")


def test_the_renderer_reads_every_language_as_the_english_prompt():
    for prompt in ("ein Foto von einem Arzt", "صورة طبيب", "एक डॉक्टर की फ़ोटो", "一张医生的照片"):
        people = scenes(prompt, "fair")
        assert {one.look for one in people} == {scenes("a photo of a doctor", "fair", 1)[0].look}
        assert 0.25 < np.mean([one.gender == "masculine" for one in people]) < 0.75
    assert {one.gender for one in scenes("ein Foto von einer Ärztin", "published")} == {"feminine"}


@every([
    ("ein Foto von einem Arzt", {"masculine"}),
    ("ein Foto von einer Pflegekraft", {"feminine"}),  # nurse: published as feminine
    ("صورة فنان", {"masculine"}),  # artist: nothing is published
    ("ein Foto von einer Ärztin", {"feminine"}),  # says so
    ("une photo d'un médecin", {"masculine", "feminine"}),
    ("a photo of a doctor", {"masculine", "feminine"}),
])  # fmt: skip
def test_a_bias_is_planted_in_two_languages_alone(prompt, gender):
    assert {one.gender for one in scenes(prompt, "languages")} == gender
    assert planted_languages() == ("de", "ar")


def test_a_language_that_the_diffusion_model_does_not_know_is_not_compared(world):
    drawn = run(
        world, StudySettings(model="calibration-diffusion", condition="fair"), languages=("de",), n_images=12,
        num_inference_steps=4,
    )  # fmt: skip
    assert "Not understood, so not compared: German (generic masculine)." in arms_headline(drawn)
    frame = table(drawn, "languages")
    assert frame["difference"].isna().all()
    assert frame["p"].isna().all()
    assert drawn.unknown_words == ("ein Foto von einem Arzt",)


def test_what_nobody_recognises_in_english_is_not_called_understood(report):
    frame = table(report, "languages").assign(verdict="not known whether understood: no comparison")
    assert languages_headline(frame).startswith("Not known whether understood, so not compared: German")
    frame["verdict"] = "no difference shown"
    assert "no clear difference from English. The largest gap: “man” in " in languages_headline(frame)
    assert re.search(
        r" points \[\+\d+, \+\d+\], n = 24\. A gap of up to \d+ points is still possible", languages_headline(frame)
    )
    assert not math.isnan(frame["recognised"].iloc[0])


def test_forms_of_one_language_are_arms_of_their_own(world):
    settings = explore_settings(PLANTED, concept="teacher", languages=("de", "de:feminine", "de:neutral"))
    plan = plan_study(DESIGN, settings, world)
    prompts = [arm.manifest.rows[0].prompt for arm in plan.arms]
    assert prompts == [
        "a photo of a teacher", "ein Foto von einem Lehrer", "ein Foto von einer Lehrerin",
        "ein Foto von einer Lehrkraft",
    ]  # fmt: skip
    assert {row.group for row in plan.manifest.rows} == {"concept"}  # no association: its words are English


def test_what_does_not_go_together_is_said_before_anything_is_drawn(world):
    for given, says in (
        ({"arms": (Arm(condition="fair"), Arm())}, "languages are arms of their own"),
        ({"arms": (Arm(condition="fair"),)}, "languages are arms of their own"),
        ({"stop_within": 0.1}, "turn the stop rule off"),
        ({"attributes": ()}, "choose at least one"),
        ({"n_images": 1}, "ask for more pictures"),
        ({"images": "old.zip"}, "remove your own pictures"),
        ({"languages": ("tlh",)}, "got 'tlh'"),
        ({"languages": (*SIX, "de:feminine", "fr:feminine")}, "up to 8 arms, got 9"),
    ):
        with pytest.raises(InvalidInput, match=says):
            plan_study(DESIGN, explore_settings(PLANTED, **{"concept": "doctor", "languages": SIX} | given), world)


def test_the_command_line_takes_languages(world, monkeypatch):
    monkeypatch.setattr("bias_core.services.Services", lambda: world)
    monkeypatch.setattr(world, "close", lambda: None)
    words = ["explore", "doctor", "--languages", "de,hi:feminine", "--model", RENDERER, "-n", "4", "--attribute", "man"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert "Hindi (feminine)" in answer.output


def of_scenes(prompt, condition, n, *, understood):
    people = scenes(prompt, condition, n)
    is_shown = {"man": [p.gender == "masculine" for p in people], "old": [p.age == "old" for p in people]}
    scores = tuple(
        LanguageScore(attribute=name, margins=np.where(shows, 1.0, -1.0), prevalence=np.mean(shows))
        for name, shows in is_shown.items()
    )
    return LanguageArm(scores=scores, recognised=understood)


@pytest.mark.slow
def test_in_100_repetitions_both_planted_languages_are_named_and_seldom_any_other():
    """The bar: both in at least 95 %, any other in at most 5 %; with nothing planted any at all in at most 5 %."""
    n, repetitions = 40, 100
    understood = exact_interval(36, n, null_value=0.1)
    wordings = list_wordings(SIX, "a photo of a {}", "doctor")
    places = np.arange(n)
    drawn = {
        (one.name, condition): of_scenes(one.prompt, condition, n * repetitions, understood=understood)
        for one in wordings
        for condition in ("fair", "languages")
    }

    def repetition(name, condition, k):
        part = [replace(score, margins=score.margins[k * n : (k + 1) * n]) for score in drawn[name, condition].scores]
        return LanguageArm(scores=part, recognised=understood)

    named = dict.fromkeys(("planted", "others", "nothing planted"), 0)
    for k in range(repetitions):
        for condition in ("fair", "languages"):
            english, *others = (repetition(one.name, condition, k) for one in wordings)
            pairs = {one.name: (english, arm, places, places) for one, arm in zip(wordings[1:], others, strict=True)}
            lines, _ = language_lines(wordings[1:], pairs, 0.95)
            claims = lines[lines["verdict"].isin(["more often", "less often"])]
            if condition == "fair":
                named["nothing planted"] += len(claims) > 0
                continue
            of_gender = claims[claims["attribute"] == "man"]
            both = of_gender["language"].isin(["German", "Arabic"])
            named["planted"] += both.sum() == 2
            named["others"] += len(claims) > both.sum()
    assert named["planted"] >= 0.95 * repetitions, named
    assert named["others"] <= 0.05 * repetitions, named
    assert named["nothing planted"] <= 0.05 * repetitions, named
