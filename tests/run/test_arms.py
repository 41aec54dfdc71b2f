"""A run has arms: drawn once, measured alike, compared seed by seed; what is planted is found, what is equal is not."""

import json
import math
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.app.cli import app
from bias_core.errors import InvalidInput
from bias_core.explore.options import arm_template, compare_settings, compared_concept, explore_settings
from bias_core.explore.report import arms_headline
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.report.blocked_pictures import measure_blocked
from bias_core.report.commands import to_command
from bias_core.report.figures import draw
from bias_core.report.headlines import headline
from bias_core.report.report_text import claim, get_table
from bias_core.report.saved import open_report
from bias_core.run.history import go_on, list_runs
from bias_core.run.image_rows import RowMaker
from bias_core.run.plan import plan_study, settle
from bias_core.run.run import complete, run_study
from bias_core.run.study_run import Run
from bias_core.settings import Settings
from bias_core.store.export import write_folder
from bias_core.study.design import find_design, get_study
from bias_core.study.types import Arm, Shot, StudySettings, arm_names, arm_text, each_arm, parse_arms
from bias_core.types import Attribute
from bias_core.ui.study.shown_report import take
from tests import shared
from tests.explored import pictures_of
from tests.study.oasis_runs import table, without_seconds
from tests.study.scribe import ScribeServices, scribe_services

services = scribe_services

GENERAL, ORIGINS = find_design("tbyb-general"), find_design("oasis-nationalities")
CONDITIONS = tuple(Arm(condition=name) for name in ("fair", "published", "extreme"))
NATIONALITIES = StudySettings(scale=0.01, options={"nationalities": ["Iranian"]})
OBJECTS = StudySettings(scale=0.01, options={"sets": ["objects"]})


@pytest.fixture(scope="module")
def folder(services, tmp_path_factory):
    """The pictures of a published run, exported as anybody would."""
    parts = tmp_path_factory.mktemp("export")
    for design, settings in ((GENERAL, OBJECTS), (ORIGINS, NATIONALITIES)):
        report = complete(run_study(design, settings, services))
        write_folder(pictures_of(report), parts / design.name)
    return parts


def four_arms(folder, design, settings):
    return replace(settings, arms=(*CONDITIONS, Arm(name="brought along", images=str(folder / design.name))))


@pytest.fixture(scope="module")
def objects(services, folder):
    return complete(run_study(GENERAL, four_arms(folder, GENERAL, OBJECTS), services, session="visitor"))


@pytest.fixture(scope="module")
def origins(services, folder):
    return complete(run_study(ORIGINS, four_arms(folder, ORIGINS, NATIONALITIES), services))


def test_each_arm_finds_what_it_finds_alone(services, objects):
    alone = complete(run_study(GENERAL, replace(OBJECTS, condition="fair"), services))
    assert objects.arms[0].results.findings == alone.results.findings
    assert [arm.name for arm in objects.arms] == ["fair", "published", "extreme", "brought along"]
    assert objects.n_images == sum(arm.n_images for arm in objects.arms) == len(objects.pictures)
    assert set(objects.pictures["arm"]) == {arm.name for arm in objects.arms}
    manifest = services.manifests.get(objects.run_id)  # one holds the rows of all
    assert (manifest.status, len(manifest.rows)) == ("finished", objects.n_planned)
    assert {row.condition for row in manifest.rows} == {"fair", "published", "extreme", ""}
    assert [line.run_id for line in list_runs(services, "visitor")] == [objects.run_id]


def test_an_arm_can_be_taken_along(objects, tmp_path):
    assert take(objects, "table:2/measures:csv", tmp_path).read_text().startswith("pictures,")
    with pytest.raises(InvalidInput, match="no arm '9'"):
        take(objects, "table:9/measures:csv", tmp_path)


def test_equal_arms_on_equal_seeds_have_the_same_report_again(services, objects):
    n_bytes = services.images.n_bytes
    again = complete(go_on(services, "visitor", objects.run_id))
    assert without_seconds(again) == without_seconds(objects)
    assert services.images.n_bytes == n_bytes


def test_differences_are_on_shared_seeds_and_an_imported_arm_is_resampled_on_its_own(origins):
    frame = get_table(origins, "differences").frame
    drawn = frame[frame["second"] != "brought along"]
    assert set(drawn["compared on"]) == {"same seeds"}
    assert set(frame[frame["second"] == "brought along"]["compared on"]) == {"no seed in common"}
    turban = drawn[drawn["finding"] == "Iranian, turban: P"].set_index(["first", "second"])
    turban = turban.loc["fair", "extreme"]
    # P(turban | Iranian) is planted at 1 in the extreme world and at the base rate of the fair one.
    assert turban["low"] > 0
    assert turban["clear"] == "yes"
    assert turban["drawn"] == pytest.approx(turban["difference"], abs=0.2)
    values = turban["value second"] - turban["value first"]
    assert turban["difference"] == pytest.approx(values)


def test_every_arm_stands_beside_the_others_with_its_interval_and_its_rank(origins):
    line = get_table(origins, "by_arm").frame.set_index("finding").loc["Iranian, turban: P"]
    for arm in origins.arms:
        finding = next(f for f in arm.results.findings if f.title == "Iranian, turban: P")
        assert line[arm.name] == finding.estimate.value
        assert line[f"{arm.name} low"] == finding.estimate.low
        assert line[f"{arm.name} n"] == finding.estimate.n
    ranks = get_table(origins, "ranks").frame.query("finding == 'Iranian, turban: P'").set_index("arm")
    assert ranks.loc["extreme", ["rank", "low", "high"]].tolist() == [1, 1, 1]
    assert ranks["rank"].sum() == 1 + 2 + 3 + 4
    assert re.search("turban|clear", headline(origins))


def test_a_comparison_is_saved_whole(services, origins):
    saved = open_report(origins.run_id, services).report
    assert without_seconds(saved) == without_seconds(origins)


def test_the_command_line_compares_arms_at_once_and_writes_a_folder_of_each(services, origins, tmp_path, monkeypatch):
    monkeypatch.setattr("bias_core.services.Services", shared.RealServices)
    monkeypatch.setenv("BIAS_DATA_DIR", str(services.settings.data_dir))
    fair, *_, brought = origins.settings.arms
    brought = replace(brought, name="my test")  # no split of `datasets`
    command = shlex.split(to_command(origins.design, replace(origins.settings, arms=(fair, brought))))[3:]
    run = CliRunner().invoke(app, [*command, "--out", str(tmp_path)])
    assert run.exit_code == 0, run.output
    told, alike = json.loads((tmp_path / "report.json").read_text()), without_seconds(origins)["arms"]
    assert [arm["name"] for arm in told["arms"]] == [fair.name, brought.name]
    assert [arm["findings"] for arm in told["arms"]] == [alike[0]["findings"], alike[-1]["findings"]]
    assert told["arms"][0]["findings"][0]["n"] > 0
    assert "](arms/1-fair/figures/" in (tmp_path / "report.md").read_text()
    for name in (
        "tables/differences.csv",
        "figures/*.svg",
        "arms/1-fair/tables/table1.csv",
        "arms/2-my-tests/tables/table1.csv",
    ):
        assert next(tmp_path.glob(name)).stat().st_size > 0


def test_stopping_between_arms_keeps_what_is_finished(services, tmp_path):
    fresh = ScribeServices(Settings(data_dir=tmp_path, offline=True))
    settings = replace(NATIONALITIES, arms=CONDITIONS)
    steps = run_study(ORIGINS, settings, fresh, cancelled=lambda: stop)
    stop, seen = False, []
    try:
        while True:
            step = next(steps)
            seen += [step] if step.message.endswith("pictures") else []
            stop = step.message.startswith("extreme")
    except StopIteration as end:
        report, stop = end.value, False
    assert report.stopped
    assert [arm.name for arm in report.arms][:2] == ["fair", "published"]
    assert {step.total for step in seen} == {seen[-1].total}  # one progress over all arms
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    (manifest,) = fresh.manifests.list()
    assert manifest.status == "cancelled"
    report = complete(run_study(ORIGINS, settings, fresh))
    assert report.run_id == manifest.id
    fresh.close()


def test_a_treatment_is_drawn_but_the_studys_own_prompt_is_what_is_measured(services):
    arms = (Arm(), Arm(template="{}, whatever their gender"))
    plan = plan_study(ORIGINS, replace(NATIONALITIES, arms=arms), services)
    plain, treated = ([row.prompt for row in arm.manifest.rows] for arm in plan.arms)
    assert treated == [f"{prompt}, whatever their gender" for prompt in plain]
    assert [arm.name for arm in plan.settings.arms] == ["original prompt", "…, whatever their gender"]
    report = complete(run_study(ORIGINS, replace(NATIONALITIES, arms=arms), services))
    assert set(report.pictures["prompt"]) == set(plain)
    one, other = (report.pictures[report.pictures["arm"] == arm.name] for arm in report.arms)
    assert one["unit"].tolist() == other["unit"].tolist()


def test_one_arm_is_the_run_itself(services):
    plan = plan_study(ORIGINS, replace(NATIONALITIES, arms=(Arm(condition="fair"),)), services)
    assert plan.arms == ()
    assert plan.manifest.id == plan_study(ORIGINS, replace(NATIONALITIES, condition="fair"), services).manifest.id


def test_arms_that_cannot_be_compared_are_refused_before_drawing(services):
    for arms, words in (
        ((Arm(condition="fair"), Arm(condition="fair")), "differ"),
        ((Arm(name="a"), Arm(name="b", guidance_scale=3.0)), "“a” and “b” draw the same pictures.*renderer"),
        ((Arm(name="a"), Arm(name="a", condition="fair")), "names that differ"),
        ((Arm(), Arm(template="a {} and a {}")), "one {}"),
        (tuple(Arm(condition=str(i)) for i in range(9)), "up to 8"),
        ((Arm(), Arm(images="nowhere")), "nowhere"),
    ):
        with pytest.raises(InvalidInput, match=words):
            plan_study(ORIGINS, replace(NATIONALITIES, arms=arms), services)


def test_an_arm_is_written_and_read_in_one_line():
    arms = (
        Arm(name="mine", condition="fair"),
        Arm(template="{} | a photo", guidance_scale=2.5, num_inference_steps=7),
        Arm(images="pictures.zip", negative_prompt="text"),
    )
    assert parse_arms([arm_text(arm) for arm in arms]) == arms
    assert arm_names(StudySettings(arms=arms))[2] == "pictures.zip"
    for text in ("colour=red", "fair", "guidance=much"):
        with pytest.raises(InvalidInput, match=text.split("=")[-1]):
            parse_arms([text])


def test_what_an_arm_leaves_out_is_as_the_run_has_it():
    settings = StudySettings(condition="fair", guidance_scale=3.0, arms=(Arm(guidance_scale=5.0), Arm(model="x")))
    assert [(one.model, one.condition, one.guidance_scale) for one in each_arm(settings)] == [
        ("calibration-renderer", "fair", 5.0),
        ("x", "fair", 3.0),
    ]


def test_every_sample_gives_the_number_of_its_finding(objects, origins):
    for report in (objects, origins):
        for arm in report.arms:
            for finding in arm.results.findings:
                sample = finding.sample
                everything = np.arange(len(sample.units))
                assert len(set(sample.units)) == len(sample.units), finding.title
                assert sample.statistic(everything) == pytest.approx(finding.estimate.value), finding.title


def test_table_two_has_every_arm_with_its_place_among_the_others_and_the_published_models(objects):
    frame = get_table(objects, "table2_arms").frame
    own = frame[~frame["arm"].str.endswith((", in the paper", ", released rules"))].set_index("arm")
    assert set(frame["arm"]) > {f"{name}, released rules" for name in own.index}  # as the published ones are counted
    assert list(own.index) == [arm.name for arm in objects.arms]
    assert len(frame) > len(own)
    for arm in objects.arms:
        (found,) = [f for f in arm.results.findings if f.key == "all prompts hallucination"]
        assert own.loc[arm.name, "H_J"] == pytest.approx(found.estimate.value)
    assert own["rank"].tolist() == pytest.approx((-own["distance"].round(9)).rank().tolist())
    assert (own["rank low"] <= own["rank"]).all()
    assert (own["rank"] <= own["rank high"]).all()
    shown = {figure.key: figure for figure in objects.results.figures}
    assert shown["figure4-1"].kind == "space"
    assert set(shown["figure2-1"].data["group"]) == set(own.index)
    assert all(" " not in key and "/" not in key for key in shown)  # they are names of files


def test_arms_of_different_size_are_placed_at_equal_numbers(services, objects, tmp_path):
    few = pictures_of(complete(run_study(GENERAL, OBJECTS, services)))
    write_folder(replace(few, images=few.images[::3]), tmp_path / "few")
    arms = (Arm(name="fair", condition="fair"), Arm(name="few", images=str(tmp_path / "few")))
    report = complete(run_study(GENERAL, replace(OBJECTS, arms=arms), services))
    n = report.arms[1].n_images
    assert n < report.arms[0].n_images
    frame = get_table(report, "table2_arms").frame.set_index("arm")
    assert frame.loc["fair", "compared n"] == frame.loc["few", "compared n"] == n
    whole = next(f for f in report.arms[0].results.findings if f.key == "all prompts distribution_bias")
    assert frame.loc["fair", "B_D"] != pytest.approx(whole.estimate.value, rel=1e-3)
    line = get_table(report, "by_arm").frame.set_index("finding").loc["all prompts: B_D"]
    assert frame.loc["fair", "B_D"] == pytest.approx(line["fair at equal n"], rel=0.05)


def test_oasis_has_its_table_and_figures_over_the_arms(origins):
    frame = get_table(origins, "table1_arms").frame.set_index("attribute")
    names = [arm.name for arm in origins.arms]
    for arm in origins.arms:
        (share,) = [f for f in arm.results.findings if f.key == "Iranian turban P"]
        assert frame.loc["turban", f"{arm.name} P"] == share.estimate.value
    assert frame.loc["turban", "SDv2 P"] == pytest.approx(0.273)
    shown = {figure.key: figure.data for figure in origins.results.figures}
    assert list(dict.fromkeys(shown["figure5_arms"]["group"])) == names
    assert set(shown["figure5_arms"]["marker"]) == {"Iranian"}
    assert shown["figure5-1"]["name"].notna().all()
    assert list(dict.fromkeys(shown["figure4-1"]["group"])) == names
    assert {"nationality", "attribute", *names} <= set(get_table(origins, "figure4_arms").frame)


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
    assert "the only clear gap of" in arms_headline(found)
    # The renderer leaves the rest of a seed's picture as it is.
    change = next(f for f in found.results.findings if f.key.startswith("change"))
    assert change.estimate.high < 0.4
    assert not any("different seeds" in note for note in found.results.notes)


@pytest.mark.slow
def test_equal_arms_are_called_different_about_as_seldom_as_promised(world):
    """Another wording of the same prompt draws other pictures at the same planted rates."""
    arms = (FAIR, Arm(condition="fair", template="an image of a {}"))
    p_values = []
    for i in range(12):
        asked = compare_settings("doctor", arms, attributes=(MAN, OLD), n_images=19, seed=1000 * i, n_clusters=0)
        found = run(asked, world)
        p_values += list(table(found, "differences")["p"].dropna())
    assert len(p_values) >= 12 * 5
    # Dependent in threes, so generous: 5 % and three times the standard error of 24 independent ones.
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 24)
    assert 0.35 < np.mean(p_values) < 0.75  # the exact test of P lies above a half
    assert any("different seeds" in note for note in found.results.notes)


def test_every_score_is_compared_and_p_is_adjusted_over_the_shares_and_over_all_else(fakes, report):
    assert fakes.manifests.find(report.run_id).title == "a photo of a doctor: fair against extreme"
    frame = table(report, "differences")
    names = list(frame["finding"])
    assert [name for name in names if name.startswith("man")] == [
        "man: P", "man: P corrected", "man: P − P*", "man: Ψ", "man: share of variance",
    ]  # fmt: skip
    assert [name for name in names if name.startswith("old")] == ["old: P", "old: share of variance"]
    assert "male against female: association" in names
    n = {f.title.partition(",")[0]: f.estimate.n for f in report.results.findings}
    assert n.pop("male and female: shown when asked for") == 2 * 7
    assert set(n.values()) == {40}
    assert set(frame.loc[frame["same test as"] != "", "same test as"]) == {"man: P"}
    of_man = frame[(frame["finding"] == "man: P") | (frame["same test as"] == "man: P")]
    assert len(of_man) == 4  # P, P corrected, P − P*, Ψ are one claim
    assert of_man["clear"].nunique() == of_man["p adjusted"].nunique() == 1
    for is_share in (True, False):
        family = frame[(frame["finding"].str.endswith(": P") == is_share) & (frame["same test as"] == "")]
        tested = family.dropna(subset=["p"]).sort_values("p")
        # Holm by hand: the largest of p (n − rank + 1) up to this rank
        raw = tested["p"].to_numpy() * np.arange(len(tested), 0, -1)
        np.testing.assert_allclose(tested["p adjusted"], np.maximum.accumulate(raw).clip(max=1))


def test_the_seed_table_gives_the_same_difference(report):
    seeds = table(report, "seeds")
    assert list(seeds["change"]) == sorted(seeds["change"], reverse=True)
    assert sorted(seeds["seed"]) == list(range(20, 60))
    sides = [seeds["man"].str.split(" → ").str[i].map({"yes": 1.0, "no": -1.0}) for i in (0, 1)]
    assert prevalence_difference_test(*sides).estimate.value == pytest.approx(
        difference(report, "man: P")["difference"]
    )
    assert set(seeds["first picture"]) <= set(report.stored)


def test_a_blocked_picture_leaves_its_seed_out(fakes):
    found = run(explore_settings(SETTINGS, seed=5, n_images=12), fakes)  # seed 13 is blocked
    assert found.n_blocked == 2
    assert 13 not in set(table(found, "seeds")["seed"])
    assert difference(found, "man: P")["n"] == 11


def test_a_blocked_picture_that_two_shots_share_counts_once_in_the_number_and_in_the_share(fakes):
    settings = each_arm(settle(DESIGN, SETTINGS).settings)[0]
    data = Run(get_study(DESIGN), settings, fakes, RowMaker.build(settings, fakes))
    data.reads_while_drawing = False
    first = 11 - settings.seed  # of the seeds 11 to 14 and 12 to 15, five in all, 13 is blocked
    shots = [Shot(prompt="a photo of a doctor", n=4, group="concept", first_seed=first + k) for k in range(2)]
    list(data.draw(shots))
    (finding,) = measure_blocked(data.drawn_pictures, 0.95).findings
    assert (data.n_planned, len(data.frame), data.n_blocked) == (8, 6, 1)
    assert (finding.estimate.value, finding.estimate.n) == (1 / 5, 5)
    assert finding.says.startswith("1 of 5 pictures were blocked")


def test_three_arms_make_three_pairs_and_a_prompt_may_be_treated(fakes):
    arms = (FAIR, EXTREME, Arm(name="intervened", template="{}, all can be a doctor"))
    found = run(explore_settings(SETTINGS, arms=arms, n_images=8), fakes)
    seeds = table(found, "seeds")
    assert len(seeds[["first", "second"]].drop_duplicates()) == 3
    rows = {image.row.prompt for image in found.stored.values()}
    assert rows == {"a photo of a doctor", "a photo of a doctor, all can be a doctor"}


def test_each_concept_is_compared_with_its_own_real_world_rate(world):
    arms = compared_concept((), "doctor", "nurse")
    found = run(explore_settings(SETTINGS, attributes=("man", "old"), arms=arms, n_images=24), world)
    numbers = [{one.title: one.estimate.value for one in arm.results.findings} for arm in found.arms]
    assert [round(of["man: P"] - of["man: P − P*"], 3) for of in numbers] == [0.562, 0.121]
    share, gap = difference(found, "man: P"), difference(found, "man: P − P*")
    for end in ("difference", "low", "high"):
        assert gap[end] == pytest.approx(share[end] + 0.562 - 0.121)
    assert gap["same test as"] == ""  # equal shares are no equal distances from two rates
    quoted = claim(found)
    assert re.match(
        r"“man” was seen in \d+\s% of the pictures of “doctor” and in \d+\s% of the pictures of “nurse”, a "
        r"difference of −\d+ \[−\d+, −\d+\] points \(95% interval; n = 24; adjusted p < 0.001\)",
        quoted,
    )
    assert difference(found, "old: P − the assumed rate")["same test as"] == "old: P"
    assert difference(found, "man: Ψ")["clear"] == ""
    assert arms_headline(found).endswith("In the real world: 56\xa0% and 12\xa0%.")
    assert not any("No P*" in note or "Not compared" in note for note in found.results.notes)


def test_every_figure_draws_and_an_export_holds_the_pictures_of_both_arms(report):
    assert {"shares", "differences", "plane", "change"} <= {f.key for f in report.results.figures}
    for figure in report.results.figures:
        assert draw(figure).axes
    assert len(pictures_of(report).images) == 80 + 4 * 7


def test_an_association_alone_is_compared(fakes):
    asked = explore_settings(SETTINGS, attributes=(), n_images=6, seed=400, **WORDS, n_attribute_images=4)
    found = run(asked, fakes)
    assert list(table(found, "differences")["finding"]) == [
        "male against female: association", "male and female: shown when asked for",
    ]  # fmt: skip
    assert arms_headline(found)


def test_an_exploration_that_cannot_be_compared_is_refused_before_drawing(fakes):
    for changed, words in (({"n_images": 1}, "at least two seeds, got 1"), ({"attributes": ()}, "nothing to compare")):
        with pytest.raises(InvalidInput, match=words):
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


def test_the_command_line_gives_the_same_numbers(monkeypatch, fakes, report):
    monkeypatch.setattr("bias_core.services.Services", lambda: fakes)
    monkeypatch.setattr(fakes, "close", lambda: None)
    asked = ["compare", "doctor", "--arm", "condition=fair", "--arm", "condition=extreme", "-n", "40",
             "--seed", "20", "--attribute", "man|a photo of a man|a photo of a woman|0.6|x"]  # fmt: skip
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert f"{difference(report, 'man: P')['difference']:.2f}" in result.output
    wrong = CliRunner().invoke(app, ["compare", "doctor", "--arm", "condition=fair"])
    assert wrong.exit_code == 2
    assert "compare two to 8 arms" in wrong.output
    line = to_command(DESIGN, SETTINGS)
    assert line.startswith("python -m bias_core explore doctor")
    assert (line.count("--arm"), line.count("--model calibration-renderer")) == (2, 1)


def test_a_summary_without_a_clear_difference_says_what_could_hide(fakes):
    found = run(explore_settings(SETTINGS, attributes=(OLD,), n_images=6, seed=300), fakes)
    assert "No clear difference" in arms_headline(found)
    assert "points is still possible" in arms_headline(found)
    assert not math.isnan(difference(found, "old: P")["p adjusted"])
