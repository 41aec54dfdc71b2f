"""A study that is stopped reports what is there, where that can be measured, and says so."""

import pytest

from bias_core.errors import Cancelled
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, StudyReport, StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import report_facts
from bias_core.studies.running.run import complete, followed, plan_study, run_study
from tests.ui.fakes import FakeServices


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """Over an empty folder: a run that finds its pictures drawn is stopped elsewhere."""
    made = FakeServices(tmp_path_factory.mktemp("stopped"))
    yield made
    made.close()


MODEL = "calibration-renderer"


def stopped_at(share, study, services, **settings):
    """Its report when it is stopped once this share of its pictures is drawn."""
    design, chosen = find_design(study), StudySettings(model=MODEL, **settings)
    ids = [row.id for row in plan_study(design, chosen, services).manifest.rows]

    def is_over():
        return services.images.n_present(ids) >= share * len(ids)

    return complete(run_study(design, chosen, services, cancelled=is_over, session=study))


@pytest.mark.parametrize(
    ("study", "share", "scale"), [("tbyb-general", 0.6, 0.01), ("oasis-internet-users", 0.3, 0.01)]
)
def test_what_is_finished_is_measured_and_marked_as_stopped(study, share, scale, services):
    report = stopped_at(share, study, services, scale=scale, seed=7)
    assert report.stopped
    assert 0 < report.n_images < report.n_planned
    assert report.results.findings
    assert headline(report)
    assert "stopped before all were drawn" in report_facts(report)
    assert any("Stopped: the scores are of the " in note for note in report.results.notes)
    assert not any(finding.p_value is not None for finding in report.results.findings)
    manifest = services.manifests.find(report.run_id)
    assert manifest is not None
    assert manifest.status == "cancelled"  # it can go on from the list of runs


def test_of_a_stopped_run_the_tests_with_finished_prompts_are_reported_without_p(services):
    options = {"tests": ["flowers_insects", "science_arts"]}
    report = stopped_at(0.8, "t2iat-tests", services, scale=0.03, seed=7, options=options)
    (line,) = report.results.frame("table1").to_dict("records")
    assert min(line["prompts X"], line["prompts Y"]) >= 2
    assert "1 of 2 tests have too few finished prompts and are left out." in report.results.notes
    assert "S = " in headline(report)
    assert "p = " not in headline(report)


@pytest.mark.parametrize("study", ["pst-occupations", "pst-fairness"])
def test_of_pairs_without_anybody_alone_yet_there_are_the_scores_of_the_pairs(study, services):
    report = stopped_at(0.2, study, services, scale=0.04, seed=23)
    overall, *of_one_stereotype = report.results.findings[:3]
    assert (overall.key, overall.estimate.n) == ("paired_overall", report.n_images)
    assert sorted(one.key for one in of_one_stereotype) == ["paired_feminine", "paired_masculine"]
    assert not any("gap" in one.key or "difference" in one.key for one in report.results.findings)
    assert "In pictures of two" in headline(report)
    assert any("Some groups of people have nobody yet" in note for note in report.results.notes)


def test_where_too_little_is_finished_nothing_is_said_of_it(services):
    with pytest.raises(Cancelled, match="too few for a report of this study: run it again"):
        stopped_at(0.1, "internal-bias", services, scale=0.01, seed=11)


def test_of_a_stopped_run_the_arms_with_pictures_are_compared_without_p(services):
    arms = (Arm(condition="fair"), Arm(condition="published"), Arm(condition="extreme"))
    options = {"concept": "doctor", "n_images": 24, "attribute_a": "", "attribute_b": ""}
    report = stopped_at(0.4, "explore", services, arms=arms, options=options, seed=7)
    assert report.stopped
    assert [arm.name for arm in report.arms] == ["fair", "published"]
    assert [arm.name for arm in report.settings.arms] == ["fair", "published", "extreme"]  # what goes on from here
    assert report.n_planned == 72
    n_finished = [arm.n_images + arm.n_blocked for arm in report.arms]
    assert n_finished[0] == 24
    assert 0 < n_finished[1] < 24
    differences = report.results.frame("differences")
    assert 0 < differences["n"].max() <= n_finished[1]  # the seeds that both have
    assert differences["difference"].notna().any()
    assert differences["p"].isna().all()
    every = [finding for one in (report.results, *(arm.results for arm in report.arms)) for finding in one.findings]
    assert not any(finding.p_value is not None for finding in every)
    assert headline(report)
    assert any("left out: extreme" in note for arm in report.arms for note in arm.results.notes)
    whole = complete(run_study(report.design, report.settings, services, session="explore"))
    assert whole.run_id == report.run_id
    assert len(whole.arms) == 3


def test_where_one_arm_alone_has_pictures_it_says_what_to_do(services):
    options = {"concept": "nurse", "n_images": 12, "attribute_a": "", "attribute_b": ""}
    arms = (Arm(condition="fair"), Arm(condition="published"))
    with pytest.raises(Cancelled, match="only fair has any: run it again"):
        stopped_at(0.2, "explore", services, arms=arms, options=options, seed=11)


def stopped_while_reading(message, study, services, monkeypatch, **settings):
    """Its report when it is stopped, once all pictures are drawn, at the step of its reading that begins so."""
    monkeypatch.setattr("bias_core.studies.kit.program._PER_UPDATE", 4)
    monkeypatch.setattr("bias_core.studies.kit.program._PER_READING", 4)
    design, chosen = find_design(study), StudySettings(model=MODEL, **settings)
    plan = plan_study(design, chosen, services)
    list(services.draw(plan.manifest.rows))  # found by the run, so that nothing is read while it is drawn
    seen: list[str] = []
    reports: list[StudyReport] = []
    is_over = lambda: any(one.startswith(message) for one in seen)  # noqa: E731
    steps = run_study(design, chosen, services, cancelled=is_over, session=study)
    seen.extend(step.message for step in followed(steps, reports))
    return reports[0]


EXPLORED = {"concept": "teacher", "n_images": 12, "attribute_a": "", "attribute_b": ""}


@pytest.mark.parametrize(
    ("study", "message", "n_read", "settings"),
    [
        ("explore", "reading the pictures: 8 of 12", 8, {"options": EXPLORED}),
        ("tbyb-general", "captioning: 20 of", 20, {"scale": 0.01}),
        ("pst-occupations", "looking for people: 8 of 12", 16, {"scale": 0.01}),  # of the 12 that show one person
    ],
)
def test_what_was_read_is_measured_of_a_study_that_is_stopped_while_it_reads(
    study, message, n_read, settings, services, monkeypatch
):
    report = stopped_while_reading(message, study, services, monkeypatch, seed=23, **settings)
    assert report.stopped
    assert report.stopped_after == f"{n_read} of {report.n_planned} pictures were read"
    assert report.n_images == n_read
    assert report.results.findings
    assert f"Stopped after {report.stopped_after}; the numbers are of these." in report.results.notes
    assert headline(report).endswith(f"Stopped after {report.stopped_after}.")
    assert not any(finding.p_value is not None for finding in report.results.findings)


def test_arms_that_were_read_are_compared_of_a_run_that_is_stopped_while_it_reads(services, monkeypatch):
    arms = (Arm(condition="fair"), Arm(condition="published"), Arm(condition="extreme"))
    how = {"arms": arms, "options": EXPLORED, "seed": 23}
    at = "published: reading the pictures: 8 of 12"
    report = stopped_while_reading(at, "explore", services, monkeypatch, encoder="org/clip", **how)
    assert report.stopped_after == "20 of 36 pictures were read"
    assert [(arm.name, arm.n_images) for arm in report.arms] == [("fair", 12), ("published", 8)]
    assert report.results.frame("differences")["n"].max() == 8  # the seeds that both have
    assert report.results.frame("differences")["p"].isna().all()
    assert any("Arms without a picture that was read are left out: extreme" in n for n in report.arms[0].results.notes)
    with pytest.raises(Cancelled, match="only fair has any"):
        stopped_while_reading(
            "fair: reading the pictures: 8 of", "explore", services, monkeypatch, encoder="org/b", **how
        )


def test_before_anything_is_read_a_stop_says_that_it_is_too_little(services, monkeypatch):
    with pytest.raises(Cancelled, match="stopped after 0 of 12 pictures were read, too few for a number; what was fin"):
        stopped_while_reading("", "explore", services, monkeypatch, encoder="org/c", options=EXPLORED, seed=31)


def test_a_second_encoder_that_a_stop_leaves_out_is_named(services):
    options = {"concept": "nurse", "n_images": 8, "attribute_a": "", "attribute_b": ""}
    settings = StudySettings(model=MODEL, options=options, further_encoders=("org/clip",))
    seen: list[str] = []
    reports: list[StudyReport] = []
    steps = run_study(find_design("explore"), settings, services, cancelled=lambda: "reading with" in " ".join(seen))
    seen.extend(step.message for step in followed(steps, reports))
    assert reports[0].stopped_after == "the readings of 1 of 2 encoders"
    assert reports[0].results.findings
    assert any("the readings of 1 of 2 encoders" in note for note in reports[0].results.notes)
