"""Pictures are read while others are drawn, shares are watched meanwhile, and what is stopped is reported."""

import math
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable
from bias_core.explore.options import explore_settings
from bias_core.measures.sequential import confidence_sequence, holds_at_any_time
from bias_core.models.engines import EngineProgress
from bias_core.papers.tbyb.study import design_of_prompts
from bias_core.report.blocked_pictures import TITLE, measure_blocked
from bias_core.report.headlines import headline
from bias_core.report.report_text import report_facts
from bias_core.report.saved import open_report
from bias_core.report.stop_rules import FEWEST, ShareValues, StopRule, stop_rule
from bias_core.run.history import go_on, list_runs
from bias_core.run.image_rows import RowMaker
from bias_core.run.limits import DrawingView, Watch, looks
from bias_core.run.plan import plan_study, settle
from bias_core.run.run import complete, followed as steps_of, run_study
from bias_core.run.study_run import AT_ANY_TIME, Run
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design, get_study
from bias_core.study.types import Arm, Progress, StudyReport, StudySettings
from bias_core.types import Attribute, ImageRow, StoredImage
from bias_core.world.models import CalibrationRenderer
from tests import shared
from tests.browser.timing import slowdown
from tests.explored import explore
from tests.study.oasis_runs import findings, without_seconds
from tests.ui.fakes import FakeServices

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
    """Feed a rule with values in batches of these places."""
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


@pytest.mark.slow
def test_a_rule_that_waits_for_p_star_ends_few_runs_where_p_star_is_true():
    rng, rule = np.random.default_rng(1), StopRule(within=None, when_clear=True, confidence=0.95)
    ended = [
        watched((rng.random(200) < 0.85).astype(float), rule, [range(200)], reference=0.85).n_enough is not None
        for _ in range(100)
    ]
    assert np.mean(ended) <= 0.05
    planted = watched((rng.random(200) < 0.85).astype(float), rule, [range(200)], reference=0.5)
    assert planted.n_enough is not None


def holds(rule, shares):
    return rule.holds(shares)


def test_a_rule_waits_for_every_share_that_it_asks_for():
    both = StopRule(within=0.2, when_clear=True, confidence=0.95)
    clear, alone = StopRule(within=None, when_clear=True, confidence=0.95), confidence_sequence(40, 40, null_value=0.5)
    wide, narrow = confidence_sequence(5, 10), confidence_sequence(100, 200)
    assert holds(both, [alone, narrow])
    assert not holds(both, [alone, wide])
    assert holds(clear, [alone, wide])  # of a share without P* there is nothing to exclude
    assert not holds(clear, [wide])
    assert not holds(both, [])
    assert not holds(both, [confidence_sequence(FEWEST - 1, FEWEST - 1, null_value=0.5)])
    assert stop_rule(StudySettings()) is None
    assert stop_rule(StudySettings(stop_within=0.1)).words == "every interval is at most 20 points wide (±10)"


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
    assert report.stop_rule == "every interval is at most 50 points wide (±25)"
    assert not report.stopped
    assert report.n_planned == 120
    assert FEWEST <= report.n_images < 120
    shares = [f.estimate for key, f in findings(report).items() if key.endswith("-p")]
    assert all(holds_at_any_time(one) and (one.high - one.low) / 2 <= 0.25 for one in shares)
    found = findings(report)
    assert "assumes a number of pictures that was fixed" in found["all pictures-man-variance"].estimate.note
    assert found["all pictures-man-psi"].estimate.method.startswith("confidence sequence")
    assert any(f"after {report.n_images} of 120 requested pictures" in note for note in report.results.notes)
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
    assert (
        findings(whole)["all pictures-man-p"].estimate.method == "exact binomial 95 %"
    )  # n was fixed, and all are there
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
    monkeypatch.setattr(Run, "fetch", noted(Run.fetch, seen))
    report = followed(settings, world, cancelled=lambda: len(seen) > 3)[1]
    assert report.stopped
    assert report.n_images < 400
    share = findings(report)["all pictures-man-p"].estimate
    assert share == confidence_sequence(round(share.value * share.n), share.n, null_value=0.5)
    assert any("hold at any time" in note for note in report.results.notes)


def test_arms_go_as_far_as_the_one_that_needs_most_and_test_what_holds_at_any_time(world):
    rule = replace(RULE, stop_within=0.2, arms=(Arm(condition="extreme"), Arm(condition="fair")))
    only_man = replace(rule, options=replace(rule.options, attributes=rule.options.attributes[:1]))
    report = followed(only_man, world)[1]
    assert report.stop_rule
    sizes = Counter(report.pictures["arm"])
    assert len(set(sizes.values())) == 1
    alone = followed(replace(only_man, arms=(), condition="fair"), world)[1]  # half and half needs most pictures
    assert sizes["fair"] == alone.n_images < 120
    rows = report.results.frame("differences").set_index("finding")
    assert (rows["test"][rows["p"].notna()] == "valid at any time").all()
    assert rows.loc["man: P", "clear"] == "yes"
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
        "captions that mention men", "captions that mention women", "captions that name no gender",
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
            settle(find_design(name), StudySettings(stop_within=0.1))


def test_blocked_pictures_are_a_share_too():
    watch = Watch("abcd", 0.95)
    watch.add("abcd", [ShareValues(name=TITLE, image_ids=tuple("abcd"), values=np.array([0.0, 1.0, 0.0, 0.0]))])
    (share,) = watch.shares()
    assert (share.name, share.estimate) == (TITLE, confidence_sequence(1, 4))
    assert measure_blocked([], 0.95, fixed_n=False).findings == ()


def test_a_stop_while_shares_are_read_ends_the_run(world, monkeypatch):
    def stop(*_args, **_options):
        raise Cancelled("stopped")

    monkeypatch.setattr("bias_core.run.study_run.Run.check", stop)
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


BATCH, N_BATCHES, N_A_PROMPT = 4, 6, 12
MEN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman")


@cache
def seconds():
    """Seconds to draw and read a batch; more on a busy machine, where untimed work takes longer, too."""
    return 0.12 * slowdown()


@contextmanager
def timed(times):
    started = time.perf_counter()
    yield
    times.append((started, time.perf_counter()))


def share_of_the_sum(*workers):
    """Seconds in which anybody works over those of all: 1 where they take turns, 0.5 side by side."""
    spans = sorted(span for worker in workers for span in worker.times)
    busy, end = 0.0, 0.0
    for start, stop in spans:
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return busy / sum(stop - start for start, stop in spans)


class SlowRenderer:
    """Draws four pictures in the seconds of a batch, asleep as if a GPU drew them."""

    batch_size = BATCH

    def __init__(self):
        self.times, self.pace = [], 1.0

    def generate(self, rows, *, on_step=None):
        with timed(self.times):
            for step in range(4):
                time.sleep(self.pace * seconds() / 4)
                on_step(step + 1, 4)
        return CalibrationRenderer().generate(rows)


class SlowReader:
    """Embeds and captions at the same speed."""

    name = "org/slow"

    def __init__(self):
        self.times, self.n_read, self.pace, self.error = [], 0, 1.0, None

    def _work(self, n):
        if self.error is not None:
            raise self.error
        with timed(self.times):
            time.sleep(self.pace * seconds() * n / BATCH)
        self.n_read += n

    def encode_images(self, images):
        self._work(len(images))
        return self.encode_texts([str(np.asarray(image).sum()) for image in images])

    def encode_texts(self, texts):
        rows = np.stack([np.random.default_rng(sum(text.encode())).normal(size=8) for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def caption(self, images):
        self._work(len(images))
        return ["a man with a hat and a dog"] * len(images)


class SlowServices(Services):
    def __init__(self, folder):
        super().__init__(Settings(data_dir=folder, offline=True, device="cpu"))
        self.generator, self.reader, self.captions = SlowRenderer(), SlowReader(), SlowReader()
        self.asked = []

    def text_to_image(self, name):
        return self.generator

    def encoder(self, name):
        self.asked.append(name)
        return self.reader

    def captioner(self, name):
        return self.captions

    def reader_errors(self, encoder, model, sentences):
        return (None,) * len(sentences)


@pytest.fixture
def slow(tmp_path):
    built = SlowServices(tmp_path)
    yield built
    built.close()


SLOWLY = explore_settings(
    concept="doctor", model="calibration-renderer", encoder="org/slow", attributes=(MEN,), attribute_a="",
    attribute_b="", n_images=BATCH * N_BATCHES,
)  # fmt: skip
STUDY = StudySettings(model="calibration-renderer", encoder="org/slow")


def overlapped(services, settings=SLOWLY):
    return list(explore(settings, services))[-1]


def test_explore_embeds_one_batch_while_the_next_is_drawn(slow):
    overlapped(slow)
    assert slow.reader.n_read == N_BATCHES * BATCH  # each picture once
    assert share_of_the_sum(slow.generator, slow.reader) < 0.75


DESIGN = design_of_prompts(find_design("tbyb-general"), ["a man with a dog", "a woman with a hat"], N_A_PROMPT)


def make_run(services, **options):
    settings = settle(DESIGN, STUDY).settings
    study = get_study(DESIGN)
    rows = RowMaker.build(settings, services)
    return Run(study, settings, services, rows, **options), study.shots(settings)


def test_a_study_embeds_and_captions_while_it_draws(slow):
    slow.reader.pace = slow.captions.pace = 0.5
    data, shots = make_run(slow)
    list(data.draw(shots))
    assert slow.reader.n_read == slow.captions.n_read == 2 * N_A_PROMPT
    assert share_of_the_sum(slow.generator, slow.reader, slow.captions) < 0.75


def test_what_was_read_ahead_is_not_read_again(slow):
    report = complete(run_study(DESIGN, STUDY, slow))
    assert report.n_images == 2 * N_A_PROMPT
    assert slow.reader.n_read == 2 * N_A_PROMPT
    assert slow.captions.n_read == 2 * N_A_PROMPT + 1  # one blank, to see it works


def test_internal_bias_reads_with_every_encoder_ahead(slow):
    slow.generator.pace = 0.0
    design = find_design("internal-bias")
    settings = settle(design, replace(STUDY, scale=0.01, options={"encoders": ["one", "two"]})).settings
    study = get_study(design)
    data = Run(study, settings, slow, RowMaker.build(settings, slow))
    list(data.draw(study.shots(settings)[:2]))
    assert slow.asked == ["one", "two"] * (len(slow.asked) // 2)
    assert slow.asked


def test_stop_does_not_wait_for_the_reading_of_all_that_is_drawn(slow):
    slow.generator.pace, slow.reader.pace = 0.05, 8.0  # far more is drawn than read
    stopped = []
    data, shots = make_run(slow, cancelled=lambda: bool(stopped))
    drawing = data.draw(shots)
    while not slow.reader.n_read:
        next(drawing)
    stopped.append(True)
    with suppress(Cancelled):  # all may be drawn by now
        list(drawing)
    with pytest.raises(Cancelled):
        data.check()
    assert slow.reader.n_read <= 2 * BATCH


def test_a_reader_that_fails_ends_the_drawing_at_once(slow):
    slow.reader.error = ModelUnavailable("no weights")
    data, shots = make_run(slow)
    with pytest.raises(ModelUnavailable, match="no weights"):
        list(data.draw(shots))
    assert len(slow.generator.times) < N_BATCHES


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
    assert any("Stopped: the scores use the " in note for note in report.results.notes)
    assert all(one.p_value is None or holds_at_any_time(one.estimate) for one in report.results.findings)
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
    n_pairs = (report.pictures["setting"] == "paired").sum()  # saving lags by a batch, which may be of another group
    assert (overall.key, overall.estimate.n) == ("paired_overall", n_pairs)
    assert sorted(one.key for one in of_one_stereotype) == ["paired_feminine", "paired_masculine"]
    assert not any("gap" in one.key or "difference" in one.key for one in report.results.findings)
    assert "In pictures of two" in headline(report)
    assert any("Some groups have no labelled people yet" in note for note in report.results.notes)


def test_where_too_little_is_finished_nothing_is_said_of_it(services):
    with pytest.raises(Cancelled, match="too few for a report of this study: run it again"):
        stopped_at(0.1, "internal-bias", services, scale=0.01, seed=11)


def test_of_a_stopped_run_the_arms_with_pictures_are_compared_by_tests_that_hold_at_any_time(services):
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
    assert (differences["test"][differences["p"].notna()] == "valid at any time").all()
    every = [finding for one in (report.results, *(arm.results for arm in report.arms)) for finding in one.findings]
    assert all(finding.p_value is None or holds_at_any_time(finding.estimate) for finding in every)
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
    monkeypatch.setattr("bias_core.run.study_run._PER_UPDATE", 4)
    monkeypatch.setattr("bias_core.run.study_run._PER_READING", 4)
    design, chosen = find_design(study), StudySettings(model=MODEL, **settings)
    plan = plan_study(design, chosen, services)
    list(services.draw(plan.manifest.rows))  # found by the run, so that nothing is read while it is drawn
    seen: list[str] = []
    reports: list[StudyReport] = []
    is_over = lambda: any(one.startswith(message) for one in seen)  # noqa: E731
    steps = run_study(design, chosen, services, cancelled=is_over, session=study)
    seen.extend(step.message for step in steps_of(steps, reports))
    return reports[0]


TEACHERS = {"concept": "teacher", "n_images": 12, "attribute_a": "", "attribute_b": ""}


@pytest.mark.parametrize(
    ("study", "message", "n_read", "settings"),
    [
        ("explore", "classifying the pictures: 8 of 12", 8, {"options": TEACHERS}),
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
    assert f"Stopped after {report.stopped_after}; the numbers rest on these. {AT_ANY_TIME}" in report.results.notes
    assert headline(report).endswith(f"Stopped after {report.stopped_after}.")
    assert all(one.p_value is None or holds_at_any_time(one.estimate) for one in report.results.findings)


def test_arms_that_were_read_are_compared_of_a_run_that_is_stopped_while_it_reads(services, monkeypatch):
    arms = (Arm(condition="fair"), Arm(condition="published"), Arm(condition="extreme"))
    how = {"arms": arms, "options": TEACHERS, "seed": 23}
    at = "published: classifying the pictures: 8 of 12"
    report = stopped_while_reading(at, "explore", services, monkeypatch, encoder="org/clip", **how)
    assert report.stopped_after == "20 of 36 pictures were read"
    assert [(arm.name, arm.n_images) for arm in report.arms] == [("fair", 12), ("published", 8)]
    assert report.results.frame("differences")["n"].max() == 8  # the seeds that both have
    differences = report.results.frame("differences")
    assert (differences["test"][differences["p"].notna()] == "valid at any time").all()
    assert any("Arms without a picture that was read are left out: extreme" in n for n in report.arms[0].results.notes)
    with pytest.raises(Cancelled, match="only fair has any"):
        stopped_while_reading(
            "fair: classifying the pictures: 8 of", "explore", services, monkeypatch, encoder="org/b", **how
        )


def test_before_anything_is_read_a_stop_says_that_it_is_too_little(services, monkeypatch):
    with pytest.raises(Cancelled, match="stopped after 0 of 12 pictures were read, too few for a number; what was fin"):
        stopped_while_reading("", "explore", services, monkeypatch, encoder="org/c", options=TEACHERS, seed=31)


def test_a_second_encoder_that_a_stop_leaves_out_is_named(services):
    options = {"concept": "nurse", "n_images": 8, "attribute_a": "", "attribute_b": ""}
    settings = StudySettings(model=MODEL, options=options, further_encoders=("org/clip",))
    seen: list[str] = []
    reports: list[StudyReport] = []
    steps = run_study(
        find_design("explore"), settings, services, cancelled=lambda: "classifying with" in " ".join(seen)
    )
    seen.extend(step.message for step in steps_of(steps, reports))
    assert reports[0].stopped_after == "the readings of 1 of 2 encoders"
    assert reports[0].results.findings
    assert any("the readings of 1 of 2 encoders" in note for note in reports[0].results.notes)
