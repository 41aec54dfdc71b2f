"""Shares that are watched while pictures come, and runs that end once they are known well enough."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bias_core.engine.local import EngineProgress
from bias_core.errors import Cancelled, InvalidInput
from bias_core.stats.sequential import confidence_sequence, holds_at_any_time
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.program import StudyData
from bias_core.studies.kit.types import Arm, Progress, StudySettings
from bias_core.studies.kit.watching import FEWEST, REFUSED, DrawingView, ShareValues, StopRule, Watch, looks, stop_rule
from bias_core.studies.objects.study import design_of_prompts
from bias_core.studies.reports.saved import open_report
from bias_core.studies.running.drawn import refusals
from bias_core.studies.running.history import go_on, list_runs
from bias_core.studies.running.run import complete, followed as steps_of, run_study, with_options
from bias_core.types import Attribute, ImageRow, StoredImage
from tests import shared
from tests.studies.oasis_runs import findings, without_seconds

world = shared.real_services

MAN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
OLD = Attribute(name="old", positive="an old person", negative="a young person")
EXPLORED = explore_settings(
    concept="doctor", attributes=(MAN, OLD), model="calibration-renderer", attribute_a="", attribute_b="", n_images=120
)
RULE = replace(EXPLORED, stop_within=0.25)


def followed(settings, services, name="explore", **how):
    """The steps of a run, and its report."""
    reports = []
    return list(steps_of(run_study(find_design(name), settings, services, **how), reports)), reports[0]


@pytest.fixture(scope="module")
def ended(world):
    return followed(RULE, world, session="somebody")


def noted(fetch, seen):
    """The drawing, which notes every sign of life that has a picture."""

    def fetching(*inputs):
        for step in fetch(*inputs):
            seen.extend([step] * bool(step.done))
            yield step

    return fetching


def watched(values, rule, batches, *, reference=None):
    """What becomes of a rule where values come in batches of these places."""
    ids = [str(i) for i in range(len(values))]
    watch = Watch(ids, 0.95, rule)
    for batch in batches:
        here = tuple(ids[i] for i in batch)
        watch.add(here, [ShareValues(name="a", image_ids=here, values=values[list(batch)], reference=reference)])
    return watch


def test_the_same_pictures_end_a_run_at_the_same_place_in_whatever_batches_they_come():
    rng, rule = np.random.default_rng(0), StopRule(within=0.15, when_clear=False, confidence=0.95)
    values = (rng.random(240) < 0.7).astype(float)
    orders = ([range(240)], np.arange(240).reshape(-1, 8), rng.permutation(240).reshape(-1, 16))
    (n,) = {watched(values, rule, batches).n_enough for batches in orders}
    share = confidence_sequence(values[:n].sum(), n)
    assert (share.high - share.low) / 2 <= 0.15
    before = [k for k in looks(240) if FEWEST <= k < n]
    wider = [confidence_sequence(values[:k].sum(), k) for k in before]
    assert all((one.high - one.low) / 2 > 0.15 for one in wider)


def test_a_rule_that_waits_for_p_star_ends_few_runs_where_p_star_is_true():
    rng, rule = np.random.default_rng(1), StopRule(within=None, when_clear=True, confidence=0.95)
    ended = [
        watched((rng.random(200) < 0.85).astype(float), rule, [range(200)], reference=0.85).n_enough is not None
        for _ in range(100)
    ]
    assert np.mean(ended) <= 0.05
    planted = watched((rng.random(200) < 0.85).astype(float), rule, [range(200)], reference=0.5)
    assert planted.n_enough is not None


def test_a_rule_waits_for_every_share_that_it_asks_for():
    both = StopRule(within=0.2, when_clear=True, confidence=0.95)
    clear, alone = StopRule(within=None, when_clear=True, confidence=0.95), confidence_sequence(40, 40, null_value=0.5)
    wide, narrow = confidence_sequence(5, 10), confidence_sequence(100, 200)
    assert both.holds([alone, narrow])
    assert not both.holds([alone, wide])
    assert clear.holds([alone, wide])  # of a share without P* there is nothing to exclude
    assert not clear.holds([wide])
    assert not both.holds([])
    assert not both.holds([confidence_sequence(FEWEST - 1, FEWEST - 1, null_value=0.5)])
    assert stop_rule(StudySettings()) is None
    assert stop_rule(StudySettings(stop_within=0.1)).words == "every share is known to ±10 points"


def test_pictures_without_a_value_and_shares_without_a_picture_keep_a_rule_from_ending():
    rule, nan = StopRule(within=0.3, when_clear=False, confidence=0.95), math.nan
    assert watched(np.full(100, nan), rule, [range(100)]).n_enough is None
    half = np.where(np.arange(100) % 2, 1.0, nan)
    watch = watched(half, rule, [range(100)])
    assert [one.estimate.n for one in watch.shares()] == [50]
    assert watch.n_enough >= 2 * FEWEST


def test_what_a_run_has_so_far_is_shown_with_intervals_that_hold_at_any_time(ended):
    steps, _ = ended
    shown = [step for step in steps if isinstance(step, Progress) and step.shares]
    assert shown
    assert [one.name for one in shown[-1].shares] == ["man", "old"]
    for one in shown[-1].shares:
        assert holds_at_any_time(one.estimate)
        assert 0 < one.estimate.n <= 120


def test_a_run_ended_by_its_rule_is_a_finished_report_that_says_so(ended, world):
    _, report = ended
    assert report.stop_rule == "every share is known to ±25 points"
    assert not report.stopped
    assert report.n_planned == 120
    assert FEWEST <= report.n_images < 120
    shares = [f.estimate for key, f in findings(report).items() if key.endswith("-p")]
    assert all(holds_at_any_time(one) and (one.high - one.low) / 2 <= 0.25 for one in shares)
    found = findings(report)
    assert "takes the number of pictures as fixed" in found["all pictures-man-variance"].estimate.note
    assert found["all pictures-man-psi"].estimate.method.startswith("confidence sequence")
    assert any(f"after {report.n_images} of the 120 pictures" in note for note in report.results.notes)
    (line,) = list_runs(world, "somebody")
    assert (line.status, line.may_go_on) == ("finished", True)
    assert max(report.pictures["number"]) == report.n_images  # the first ones, whichever were drawn


def test_the_same_run_again_gives_the_same_report_and_without_the_rule_it_goes_on(ended, world):
    _, report = ended
    again = followed(RULE, world, session="somebody")[1]
    assert without_seconds(again) == without_seconds(report)
    whole = complete(go_on(world, "somebody", report.run_id))
    assert (whole.n_images, whole.stop_rule) == (120, "")
    assert set(report.pictures["image_id"]) < set(whole.pictures["image_id"])
    assert findings(whole)["all pictures-man-p"].estimate.method == "Wilson 95 %"  # n was fixed, and all are there
    assert {line.run_id for line in list_runs(world, "somebody")} == {report.run_id, whole.run_id}


def test_a_figure_shows_how_the_shares_settled(ended):
    report = ended[1]
    (figure,) = [one for one in report.results.figures if one.key == "growth"]
    man = figure.data[figure.data["group"] == "man"]
    assert man["x"].is_monotonic_increasing
    share = findings(report)["all pictures-man-p"].estimate
    assert tuple(man.iloc[-1][["x", "value", "low", "high"]]) == (share.n, share.value, share.low, share.high)
    calls = (report.pictures["man: perceived"] == "yes").to_numpy()
    n = int(man["x"].iloc[7])
    assert man["value"].iloc[7] == calls[:n].mean()


def test_a_stopped_run_shows_the_interval_that_holds_at_any_time(world, monkeypatch):
    seen, settings = [], replace(EXPLORED, seed=900, options=replace(EXPLORED.options, n_images=400))
    monkeypatch.setattr(StudyData, "fetch", noted(StudyData.fetch, seen))
    report = followed(settings, world, cancelled=lambda: len(seen) > 3)[1]
    assert report.stopped
    assert report.n_images < 400
    share = findings(report)["all pictures-man-p"].estimate
    assert share == replace(confidence_sequence(round(share.value * share.n), share.n), null_value=0.5)
    assert any("hold at whatever time" in note for note in report.results.notes)


def test_arms_go_as_far_as_the_one_that_needs_most_and_claim_no_p_value(world):
    rule = replace(RULE, stop_within=0.2, arms=(Arm(condition="extreme"), Arm(condition="fair")))
    only_man = replace(rule, options=replace(rule.options, attributes=rule.options.attributes[:1]))
    report = followed(only_man, world)[1]
    assert report.stop_rule
    sizes = Counter(report.pictures["arm"])
    assert len(set(sizes.values())) == 1
    alone = followed(replace(only_man, arms=(), condition="fair"), world)[1]  # half and half needs most pictures
    assert sizes["fair"] == alone.n_images < 120
    rows = report.results.frame("differences").set_index("finding")
    assert rows["p"].isna().all()
    seeds = [set(part["seed"]) for _, part in report.pictures.groupby("arm")]
    assert seeds[0] == seeds[1]
    shown = rows.loc["man: P"]
    assert shown["low"] <= shown["difference"] <= shown["high"]
    assert shown["high"] < 0  # fair less extreme
    assert math.isnan(rows.loc["man: share of variance", "low"])
    assert "p-value" in " ".join(report.results.notes)


def test_nationalities_are_watched_one_by_one_and_corrected_as_the_report_has_them(world):
    settings = StudySettings(scale=0.1, stop_within=0.3, options={"nationalities": ["Iranian", "Mexican"]})
    steps, report = followed(settings, world, "oasis-nationalities")
    shown = [step for step in steps if step.shares][-1].shares
    assert {one.name.partition(",")[0] for one in shown} == {"Iranian", "Mexican"}
    shares = [f.estimate for f in report.results.findings if f.metric == "attribute_prevalence"]
    assert report.stop_rule
    assert all(holds_at_any_time(one) and (one.high - one.low) / 2 <= 0.3 for one in shares)
    sizes = Counter(report.pictures["nationality"])
    assert max(sizes.values()) - min(sizes.values()) <= 1  # one of each in turn


def test_scores_of_pairs_are_watched_and_nobody_is_looked_for_twice(world, monkeypatch):
    finder, found = world.person_finder("calibration-finder"), []
    find = type(finder).find
    monkeypatch.setattr(type(finder), "find", lambda self, image: found.append(1) or find(self, image))
    settings = StudySettings(scale=0.03, stop_within=0.45, seed=4_000)  # pictures that no other test has read
    steps, report = followed(settings, world, "pst-occupations")
    shown = {one.name: one for one in [step for step in steps if step.shares][-1].shares}
    assert set(shown) == {"In pairs: score", "Alone: score"}
    assert all(one.is_score and one.estimate.null_value == 0 for one in shown.values())
    paired = findings(report)["paired_overall"].estimate
    assert paired.method == "confidence sequence 95 %"
    n = len(report.stored)
    assert n <= len(found) <= n + 40  # one more to see that it works, and what was drawn beyond the end


def test_captions_are_watched_and_a_rule_ends_a_study_of_objects(world):
    prompts = ["a photo of a doctor", "a photo of a nurse"]
    design = design_of_prompts(find_design("tbyb-general"), prompts, 30)
    steps = list(run_study(design, StudySettings(stop_within=0.45), world))
    shown = {one.name: one.estimate for one in [step for step in steps if step.shares][-1].shares}
    assert set(shown) == {
        "captions that speak of men", "captions that speak of women", "captions that name no gender",
        "M_G against a blank",
    }  # fmt: skip
    assert all((one.high - one.low) / 2 <= 0.45 for one in shown.values())
    (run,) = (run for run in world.manifests.list(session="") if run.study == "tbyb-prompts")
    report = open_report(run.id, world).report
    assert FEWEST <= report.n_images < 60
    missed = next(f for f in report.results.findings if f.metric == "generative_miss_rate").estimate
    assert holds_at_any_time(missed)


def test_a_study_without_shares_refuses_a_rule():
    for name in ("t2iat-tests", "oasis-stop", "tbyb-controlled"):
        with pytest.raises(InvalidInput, match="no shares that a stop rule could watch"):
            with_options(find_design(name), StudySettings(stop_within=0.1))


def test_refused_pictures_are_a_share_too():
    watch = Watch("abcd", 0.95)
    watch.add("abcd", [ShareValues(name=REFUSED, image_ids=tuple("abcd"), values=np.array([0.0, 1.0, 0.0, 0.0]))])
    (share,) = watch.shares()
    assert (share.name, share.estimate) == (REFUSED, confidence_sequence(1, 4))
    assert refusals([], 0.95, fixed_n=False).findings == ()


def test_a_stop_while_shares_are_read_ends_the_run(world, monkeypatch):
    def stop(*_args, **_options):
        raise Cancelled("stopped")

    monkeypatch.setattr("bias_core.studies.kit.program.StudyData.check", stop)
    with pytest.raises(Cancelled):
        followed(replace(RULE, seed=77), world)


def test_a_picture_forms_until_it_is_finished_and_nothing_is_drawn_where_all_are_there(tmp_path):
    rows = [ImageRow(prompt="p", seed=seed, model="m") for seed in range(3)]
    there = {row.id: StoredImage(row=row, truth=None, path=tmp_path / f"{row.id}.png") for row in rows}
    grey = Image.new("RGB", (4, 4))
    view = DrawingView([*rows, rows[0]])
    first = view.at(EngineProgress(done=0, total=3), {})
    assert [row.id for row in first.drawing] == list(there)
    at_work = view.at(EngineProgress(done=0, total=3, step=2, n_steps=9, forming={rows[0].id: grey}), {})
    assert (list(at_work.forming), at_work.message) == ([rows[0].id], "0 of 3 pictures, step 2 of 9")
    finished = view.at(EngineProgress(done=3, total=3), there)
    assert (list(finished.forming), len(finished.images), len(finished.drawing)) == ([], 3, 3)
    all_there = DrawingView(rows).at(EngineProgress(done=3, total=3, reused=True), there)
    assert (all_there.drawing, len(all_there.images)) == ((), 3)
