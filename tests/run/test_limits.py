"""No run is larger or longer than the settings allow, whatever door it comes through; nothing is laid out for it."""

import math
import re
import threading
import time
from dataclasses import replace
from itertools import count

import gradio as gr
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.app.cli import app
from bias_core.errors import Cancelled, Interrupted, InvalidInput
from bias_core.explore.options import compare_settings, explore_settings
from bias_core.papers.mcas.study import own_targets
from bias_core.run import limits
from bias_core.run.limits import Stoppable, TimeLimit, check_budget, looks_at_stop
from bias_core.run.plan import count_requested_pictures, plan_study, settle
from bias_core.run.run import complete, run_study
from bias_core.settings import Settings
from bias_core.study.design import find_design, get_study, list_designs
from bias_core.study.types import Arm, StudySettings
from bias_core.types import Attribute
from bias_core.values import declared_settings
from tests.explored import explore, own_pictures
from tests.ui.fakes import FakeServices

DRAWN = [design for design in list_designs() if design.name != "tbyb-dataset"]
HUGE = 10**9


@pytest.fixture
def services(tmp_path, monkeypatch):
    """At most seven pictures a run, of which none is drawn."""
    built = FakeServices(tmp_path / "data")
    built.settings = built.settings.model_copy(update={"max_images": 7})
    monkeypatch.setattr(built, "draw", None)
    monkeypatch.setattr(built, "close", lambda: None)
    yield built
    FakeServices.close(built)


@pytest.mark.parametrize("design", DRAWN, ids=lambda design: design.name)
def test_every_study_is_refused_before_its_rows_are_built(services, design, monkeypatch):
    monkeypatch.setattr("bias_core.run.image_rows.RowMaker.make_rows", None)
    with pytest.raises(InvalidInput, match=r"asks for [\d,]+ pictures, and one run may have at most 7 here"):
        complete(run_study(design, StudySettings(), services))


def test_the_largest_scale_that_would_do_is_named_and_does(services):
    design, asked = find_design("oasis-nationalities"), StudySettings()
    services.settings = services.settings.model_copy(update={"max_images": 5000})
    assert count_requested_pictures(settle(design, asked)) == 6000
    with pytest.raises(InvalidInput, match=r"asks for 6,000 pictures.* at most 5,000 .*scale of 0.83 \(83 %"):
        plan_study(design, asked, services)
    plan = plan_study(design, replace(asked, scale=0.83), services)
    assert len(plan.manifest.rows) == 4980
    with pytest.raises(InvalidInput):
        plan_study(design, replace(asked, scale=0.84), services)


def test_pictures_that_are_drawn_while_measuring_count_too(services):
    settings = StudySettings(scale=0.004, options={"n_generated": 10})
    design = find_design("oasis-stop")
    # 3 nationalities x 8 pictures, and 3 x 2 clusters x 10.
    assert count_requested_pictures(settle(design, settings)) == 3 * 8 + 3 * 2 * 10


def test_exploring_and_comparing_count_all_their_pictures(services):
    asked = explore_settings(concept="doctor", n_images=4, n_attribute_images=2)
    with pytest.raises(InvalidInput, match="exploring “a photo of a doctor” asks for 8 pictures"):
        list(explore(asked, services))
    arms = tuple(Arm(condition=condition) for condition in ("fair", "published"))
    words = {"attribute_a": "male", "attribute_b": "female", "n_attribute_images": 1}
    with pytest.raises(InvalidInput, match="asks for 8 pictures"):
        list(explore(compare_settings("doctor", arms, n_images=2, **words), services))


def test_an_import_is_counted_before_it_is_opened(services, tmp_path, monkeypatch):
    folder = tmp_path / "mine" / "a photo of a nurse"
    folder.mkdir(parents=True)
    for i in range(8):
        Image.fromarray(np.full((8, 8, 3), i, dtype=np.uint8)).save(folder / f"{i}.png")
    monkeypatch.setattr("bias_core.store.found_pictures.examine", None)
    with pytest.raises(InvalidInput, match="explore on mine asks for 8 pictures"):
        complete(run_study(find_design("explore"), own_pictures(StudySettings(images=str(folder.parent))), services))


@pytest.fixture
def command(services, monkeypatch):
    monkeypatch.setattr("bias_core.services.Services", lambda: services)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


DOORS = [
    ("explore", "doctor", "-n", "8"),
    ("study", "run", "oasis-doctors", "--draw-only", "--yes"),
    ("study", "run", "oasis-doctors", "-n", str(HUGE), "--dry-run"),
    ("compare", "doctor", "--arm", "condition=fair", "--arm", "condition=extreme"),
]


@pytest.mark.parametrize("arguments", DOORS, ids=" ".join)
def test_the_command_line_says_the_limit_in_one_sentence(command, arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert "at most 7 here (BIAS_MAX_IMAGES)" in result.output


def test_a_dry_run_shows_the_cost_and_says_that_it_will_be_refused(command):
    result = command("study", "run", "oasis-doctors", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "│ 300 " in result.output
    said = " ".join(result.output.split())
    assert "This will be refused: oasis-doctors at 100 % of its size asks for 300 pictures" in said


def test_tools_over_http_and_mcp_say_the_limit(services):
    tools, arms = Tools(services), ["condition=fair", "condition=extreme"]
    for ask in (
        lambda: tools.explore("doctor", n_images=8),
        lambda: tools.run_study("pst-power"),
        lambda: tools.compare("doctor", arms=arms, attributes=["man"]),
    ):
        with pytest.raises(gr.Error, match="at most 7 here: ask for"):
            ask()


@pytest.mark.parametrize("design", list_designs(), ids=lambda design: design.name)
def test_every_number_among_the_options_has_a_range_and_is_refused_outside_of_it_at_once(services, design):
    numbers = [one for one in declared_settings(get_study(design).options).values() if one.kind in (int, float)]
    assert not [one.name for one in numbers if None in (one.ge, one.le)]
    for one in numbers:
        for value, words in ((one.ge - 1, "at least"), (one.le + 1, "at most"), (HUGE, "at most")):
            asked = StudySettings(options={one.name: value})
            with pytest.raises(InvalidInput, match=re.escape(f"“{one.label}” must be {words}")):
                plan_study(design, asked, services)
    start = time.monotonic()
    with pytest.raises(InvalidInput, match="“Number of denoising steps” must be"):
        plan_study(design, StudySettings(num_inference_steps=HUGE), services)
    with pytest.raises(InvalidInput, match="“Seed” must be"):
        plan_study(design, StudySettings(seed=-1), services)
    assert time.monotonic() - start < 5


def test_steps_times_pixels_have_a_limit_of_their_own():
    limits = Settings(max_megapixel_steps=100)
    check_budget(100, limits, subject="it", advice="less", n_steps=1, pixels=10**6)
    with pytest.raises(InvalidInput, match=r"200 million pixels.*at most 100 million here .*take fewer steps"):
        check_budget(100, limits, subject="it", advice="less", n_steps=2, pixels=10**6)


def test_a_space_allows_less(monkeypatch):
    monkeypatch.delenv("SPACE_ID", raising=False)
    here = Settings()
    for design in list_designs():  # and the three models of a paper in one run
        assert 3 * count_requested_pictures(settle(design, StudySettings())) <= here.max_images, design.name
    monkeypatch.setenv("SPACE_ID", "somebody/explorer")
    there = Settings()
    assert there.max_images < here.max_images
    assert there.max_megapixel_steps < here.max_megapixel_steps
    assert Settings(max_images=9000).max_images == 9000


def test_stop_is_looked_at_while_a_run_is_laid_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bias_core.run.limits.time.monotonic", lambda: now[0])
    check = looks_at_stop(lambda: True)
    check()  # it has only just begun
    now[0] = 1.0
    with pytest.raises(Cancelled):
        check()


def test_long_work_says_how_long_the_rest_takes_at_its_latest_pace(monkeypatch):
    # Ten items were kept earlier and take no time, the next ten take 3 s each: of 20, 1 is left after the 19th.
    clock, work = [0.0], Stoppable()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    work.cancelled, work.notes = (lambda: False), []
    steps = work.map_until_stopped("pictures", range(20), lambda n, _: clock.__setitem__(0, clock[0] + 3.0 * (n >= 10)))
    left = [step.seconds_left for step in steps]
    assert np.isnan(left[0])
    assert (left[10], left[11], left[19]) == (0.0, 3 / 8 * 9, 3.0)


def test_long_work_says_how_long_the_rest_takes_from_the_first_step_of_its_first_item(monkeypatch):
    # Two items of four steps of 3 s each; the last step of an item ends with the item.
    clock, work, seen = [0.0], Stoppable(), threading.Semaphore(0)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    work.cancelled, work.notes = (lambda: False), []

    def steps_of(item, on_step):
        for step in range(1, 5):
            clock[0] += 3.0
            on_step(step, 4)
            if step < 4:
                seen.acquire()
        return item

    steps, left = work.map_until_stopped("pictures", "ab", steps_of), []
    for i, step in enumerate(steps):
        left.append((step.message, step.seconds_left))
        if i % 4:
            seen.release()
    assert [seconds for _, seconds in left[1:]] == [21.0, 18.0, 15.0, 12.0, 9.0, 6.0, 3.0]
    assert [message for message, _ in left] == ["0 of 2 pictures"] * 4 + ["1 of 2 pictures"] * 4


def test_work_ends_at_its_next_step_when_the_caller_leaves():
    work, ends = Stoppable(), []
    work.cancelled, work.notes = (lambda: False), []

    def endless(_item, on_step):
        try:
            for step in count(1):
                on_step(step, step + 1)
        except Cancelled:
            ends.append(True)
            raise

    steps = work.map_until_stopped("pictures", "ab", endless)
    next(steps)
    next(steps)
    steps.close()
    assert ends == [True]


def test_words_of_ones_own_that_cannot_be_written_are_refused(services):
    for words in ("\ud800, truck driver", "nurse\x00, truck driver"):
        with pytest.raises(InvalidInput, match=r"“Targets” holds U\+"):
            plan_study(own_targets(words, n=2, n_attribute=2), StudySettings(), services)


def test_stop_is_looked_at_while_an_exploration_or_a_comparison_is_laid_out(services, monkeypatch):
    monkeypatch.setattr("bias_core.run.limits._SECONDS_BETWEEN_LOOKS", -1.0)
    man = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman")
    arms = (Arm(condition="fair"), Arm(condition="published"))
    one = explore_settings(concept="nurse", model="calibration-renderer", n_images=7, attribute_a="", attribute_b="")
    several = compare_settings("nurse", arms, n_images=3, attributes=(man,))
    for settings in (one, several):
        with pytest.raises(Cancelled, match="before anything was drawn"):
            plan_study(find_design("explore"), settings, services, cancelled=lambda: True)


OVER = "the longest allowed here (BIAS_MAX_MINUTES)"


@pytest.fixture
def hurried(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_SECONDS_BETWEEN_LOOKS", math.inf)  # however long its plan takes, it comes on record
    services = FakeServices(tmp_path / "data")
    services.settings = services.settings.model_copy(update={"max_minutes": 1e-9})
    yield services
    services.close()


def test_a_study_whose_time_is_over_says_so_and_goes_on_from_there(hurried):
    design, settings = find_design("oasis-doctors"), StudySettings(scale=0.01)
    with pytest.raises(Interrupted) as ended:
        complete(run_study(design, settings, hurried))
    assert OVER in str(ended.value)
    (run,) = hurried.manifests.list()
    assert run.status == "cancelled"
    hurried.settings = hurried.settings.model_copy(update={"max_minutes": 5.0})
    assert complete(run_study(design, settings, hurried)).n_images


def test_an_exploration_whose_time_is_over_reports_what_it_has_and_why(hurried):
    asked = explore_settings(concept="doctor", n_images=64, model="calibration-renderer")
    *_, report = explore(asked, hurried)
    assert len(report.images) < 64
    assert any(OVER in note for note in report.notes)


def test_a_stop_stays_a_stop():
    limit = TimeLimit(Settings(max_minutes=1e-9), lambda: True)
    assert limit()
    with pytest.raises(Cancelled) as stopped, limit.explained():
        raise Cancelled("stopped")
    assert not isinstance(stopped.value, Interrupted)
