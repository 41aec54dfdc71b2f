"""A run has arms: drawn once, measured alike, compared seed by seed, in one report from every door."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import InvalidInput
from bias_core.exchange.export import write_folder
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.documents import to_markdown
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.saved import open_report
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.arms import arm_names, arm_text, each_arm, parse_arms
from bias_core.studies.running.export import to_command
from bias_core.studies.running.history import go_on, list_runs
from bias_core.studies.running.run import complete, plan_study, run_study
from tests import shared
from tests.explored import pictures_of
from tests.studies.oasis_runs import without_seconds
from tests.studies.scribe import ScribeServices, scribe_services

services, undrawn = scribe_services, shared.undrawn

GENERAL, ORIGINS = find_design("tbyb-general"), find_design("oasis-nationalities")
CONDITIONS = tuple(Arm(condition=name) for name in ("fair", "published", "extreme"))
NATIONALITIES = StudySettings(scale=0.01, options={"nationalities": ["Iranian"]})
OBJECTS = StudySettings(scale=0.03, options={"sets": ["objects"]})


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


def test_a_comparison_is_shown_alike_in_every_tab_and_an_arm_can_be_taken_along(objects, tmp_path):
    from bias_core.ui.study.downloads import take
    from bias_core.ui.study.view import arms_html, findings_html

    assert "differences are clear" in headline(objects) or "No clear difference" in headline(objects)
    assert "no difference reads" in findings_html(objects, "no difference reads")
    page = arms_html(objects)
    assert page.count("by itself") == 4
    assert 'data-take="table:2/measures:csv"' in page
    taken = take(objects, "table:2/measures:csv", tmp_path).read_text()
    assert taken.startswith("pictures,")
    with pytest.raises(InvalidInput, match="no arm '9'"):
        take(objects, "table:9/measures:csv", tmp_path)


def test_equal_arms_on_equal_seeds_have_the_same_report_again(services, objects):
    n_bytes = services.images.n_bytes
    again = complete(go_on(services, "visitor", objects.run_id))
    assert without_seconds(again) == without_seconds(objects)
    assert services.images.n_bytes == n_bytes


def test_differences_are_on_shared_seeds_and_an_imported_arm_is_resampled_on_its_own(origins):
    frame = table_of(origins, "differences").frame
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
    line = table_of(origins, "by_arm").frame.set_index("finding").loc["Iranian, turban: P"]
    for arm in origins.arms:
        finding = next(f for f in arm.results.findings if f.title == "Iranian, turban: P")
        assert line[arm.name] == finding.estimate.value
        assert line[f"{arm.name} low"] == finding.estimate.low
        assert line[f"{arm.name} n"] == finding.estimate.n
    ranks = table_of(origins, "ranks").frame.query("finding == 'Iranian, turban: P'").set_index("arm")
    assert ranks.loc["extreme", ["rank", "low", "high"]].tolist() == [1, 1, 1]
    assert ranks["rank"].sum() == 1 + 2 + 3 + 4
    assert "turban" in headline(origins) or "clear" in headline(origins)


def test_a_comparison_is_saved_whole_and_told_in_markdown(services, origins):
    saved = open_report(origins.run_id, services).report
    assert without_seconds(saved) == without_seconds(origins)
    text = to_markdown(origins)
    assert "4 arms (fair, published, extreme, brought along)" in text
    assert "](arms/1-fair/figures/" in text


def test_the_command_line_compares_arms_at_once_and_writes_a_folder_of_each(
    services, origins, tmp_path, monkeypatch, undrawn
):
    monkeypatch.setenv("BIAS_DATA_DIR", str(services.settings.data_dir))
    fair, *_, brought = origins.settings.arms
    command = shlex.split(to_command(origins.design, replace(origins.settings, arms=(fair, brought))))[3:]
    run = CliRunner().invoke(app, [*command, "--out", str(tmp_path)])
    assert run.exit_code == 0, run.output
    told, alike = json.loads((tmp_path / "report.json").read_text()), without_seconds(origins)["arms"]
    assert [arm["name"] for arm in told["arms"]] == [fair.name, brought.name]
    assert [arm["findings"] for arm in told["arms"]] == [alike[0]["findings"], alike[-1]["findings"]]
    assert told["arms"][0]["findings"][0]["n"] > 0
    for name in ("tables/differences.csv", "figures/*.svg", "arms/1-fair/tables/table1.csv"):
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
    assert [arm.name for arm in plan.settings.arms] == ["plain prompts", "{}, whatever their gender"]
    report = complete(run_study(ORIGINS, replace(NATIONALITIES, arms=arms), services))
    assert set(report.pictures["prompt"]) == set(plain)
    one, other = (report.pictures[report.pictures["arm"] == arm.name] for arm in report.arms)
    assert one["unit"].tolist() == other["unit"].tolist()


def test_one_arm_is_the_run_itself(services):
    plan = plan_study(ORIGINS, replace(NATIONALITIES, arms=(Arm(condition="fair"),)), services)
    assert plan.arms == ()
    assert plan.manifest.id == plan_study(ORIGINS, replace(NATIONALITIES, condition="fair"), services).manifest.id


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ((Arm(condition="fair"), Arm(condition="fair")), "differ"),
        ((Arm(name="a"), Arm(name="b", guidance_scale=3.0)), "“a” and “b” draw the same pictures.*renderer"),
        ((Arm(name="a"), Arm(name="a", condition="fair")), "names that differ"),
        ((Arm(), Arm(template="a {} and a {}")), "one {}"),
        (tuple(Arm(condition=str(i)) for i in range(9)), "up to 8"),
        ((Arm(), Arm(images="nowhere")), "nowhere"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused_before_drawing(services, arms, words):
    n_bytes = services.images.n_bytes
    with pytest.raises(InvalidInput, match=words):
        complete(run_study(ORIGINS, replace(NATIONALITIES, arms=arms), services))
    assert services.images.n_bytes == n_bytes


def test_the_limit_of_a_run_holds_for_all_arms_together(tmp_path):
    alone = ScribeServices(Settings(data_dir=tmp_path, offline=True, max_images=20))
    assert len(plan_study(ORIGINS, NATIONALITIES, alone).manifest.rows) <= 20
    with pytest.raises(InvalidInput, match=r"3 arms .*BIAS_MAX_IMAGES"):
        plan_study(ORIGINS, replace(NATIONALITIES, arms=CONDITIONS), alone)
    alone.close()


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
    frame = table_of(objects, "table2_arms").frame
    own = frame[~frame["arm"].str.endswith(", published")].set_index("arm")
    assert list(own.index) == [arm.name for arm in objects.arms]
    for arm in objects.arms:
        (found,) = [f for f in arm.results.findings if f.key == "all prompts hallucination"]
        assert own.loc[arm.name, "H_J"] == pytest.approx(found.estimate.value)
    spread = {sign: own[sign].max() - own[sign].min() for sign in ("B_D", "H_J", "M_G, stronger")}
    far = np.zeros(len(own))
    for sign, width in spread.items():
        share = (own[sign] - own[sign].min()) / width if width else 0 * own[sign]
        far += ((1 - share) if sign == "B_D" and width else share).to_numpy() ** 2
    assert own["distance"].to_numpy() == pytest.approx(np.sqrt(far))
    assert own["rank"].to_numpy() == pytest.approx((-own["distance"].round(9)).rank().to_numpy())
    assert (own["rank low"] <= own["rank"]).all()
    assert (own["rank"] <= own["rank high"]).all()
    assert len(frame) > len(own)
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
    frame = table_of(report, "table2_arms").frame.set_index("arm")
    assert frame.loc["fair", "compared n"] == frame.loc["few", "compared n"] == n
    whole = next(f for f in report.arms[0].results.findings if f.key == "all prompts distribution_bias")
    assert frame.loc["fair", "B_D"] != pytest.approx(whole.estimate.value, rel=1e-3)
    line = table_of(report, "by_arm").frame.set_index("finding").loc["all prompts: B_D"]
    assert frame.loc["fair", "B_D"] == pytest.approx(line["fair at equal n"], rel=0.05)


def test_oasis_has_its_table_and_figures_over_the_arms(origins):
    table = table_of(origins, "table1_arms").frame.set_index("attribute")
    for arm in origins.arms:
        (share,) = [f for f in arm.results.findings if f.key == "Iranian turban P"]
        assert table.loc["turban", f"{arm.name} P"] == share.estimate.value
    assert table.loc["turban", "SDv2 P"] == pytest.approx(0.273)
    shown = {figure.key: figure for figure in origins.results.figures}
    names = [arm.name for arm in origins.arms]
    assert list(dict.fromkeys(shown["figure5_arms"].data["group"])) == names
    assert set(shown["figure5_arms"].data["marker"]) == {"Iranian"}
    assert shown["figure5-1"].data["name"].notna().all()
    assert list(dict.fromkeys(shown["figure4-1"].data["group"])) == names
    assert {"nationality", "attribute", *names} <= set(table_of(origins, "figure4_arms").frame)
