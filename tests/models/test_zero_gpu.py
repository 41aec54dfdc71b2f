"""On ZeroGPU a model works in a forked process for as long as it asked for; elsewhere nothing changes."""

import os
import sys
import threading
import time
from contextvars import copy_context
from dataclasses import replace
from functools import partial

import httpx
import numpy as np
import pytest
from PIL import Image

from bias_core import protocols, settings
from bias_core.errors import Cancelled, Interrupted, InvalidInput, ModelUnavailable
from bias_core.models import zero_gpu
from bias_core.models.engines import run_rows
from bias_core.models.zero_gpu import CallPace, ZeroGpuReader, ZeroGpuTextToImage
from bias_core.settings import on_zero_gpu
from bias_core.store.images import ImageStore
from bias_core.types import GeneratedImage, ImageRow, ModelInfo
from bias_core.world.models import CalibrationRenderer
from tests.fake_spaces import VISITOR, FakeSpaces

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
INFO = ModelInfo(id="big", name="Big", family="sd1", default_steps=10, width=512, height=512, download_gb=5.0)


class Draws:
    """A generator without weights; what it draws tells in which process it was drawn."""

    batch_size = 2

    def __init__(self, pause=0.0):
        self.pause, self.n_loads = pause, 0

    def load(self):
        self.n_loads += 1

    def generate(self, rows, *, on_step=None):
        for row in rows:
            if row.prompt == "bad":
                raise InvalidInput("this prompt draws nothing; type another")
            if row.prompt == "crash":
                raise ZeroDivisionError
            for step in range(row.num_inference_steps):
                time.sleep(self.pause)
                on_step(step + 1, row.num_inference_steps)
            shade = (row.seed, self.n_loads, os.getpid() % 256)
            yield GeneratedImage(row=row, image=Image.new("RGB", (2, 2), shade))

    def trace(self, row, attributes, *, guided=False, predicted=True, on_step=None):
        for step in range(row.num_inference_steps):
            on_step(step + 1, row.num_inference_steps)
            yield step, len(attributes), guided, predicted


class Renders(Draws):
    def generate(self, rows, *, on_step=None):
        return CalibrationRenderer().generate(rows)


class Reads:
    """An encoder and captioner without weights."""

    name = "reads@1"

    def __init__(self):
        self.n_loads = 0

    def load(self):
        self.n_loads += 1

    def unload(self):
        pass

    def encode_images(self, images):
        return np.array([[image.getpixel((0, 0))[0], os.getpid()] for image in images], dtype=np.float64)

    def encode_texts(self, texts):
        if "bad" in texts:
            raise ModelUnavailable("reads answers NaN")
        return np.array([[len(text), self.n_loads] for text in texts], dtype=np.float64)

    def caption(self, images):
        return [f"{len(images)} pictures"] * len(images)


@pytest.fixture
def spaces(monkeypatch):
    import torch  # noqa: F401 - forked processes need not import it then

    fake = FakeSpaces()
    monkeypatch.setitem(sys.modules, "spaces", fake.module())
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    zero_gpu._gpu_call.cache_clear()
    yield fake
    zero_gpu._gpu_call.cache_clear()


def drawer(pause=0.0, info=INFO, fetch=lambda: None):
    return ZeroGpuTextToImage("big", partial(Draws, pause), Draws(), info, fetch)


def rows(n, **options):
    return [
        ImageRow(**({"prompt": "a", "seed": i, "model": "big", "num_inference_steps": 3} | options)) for i in range(n)
    ]


def shades(images):
    return [image.image.getpixel((0, 0)) for image in images]


def test_elsewhere_nothing_is_borrowed(monkeypatch):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert not on_zero_gpu()
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", None)  # not installed
    monkeypatch.setattr(settings, "find_spec", lambda _name: None)
    assert not on_zero_gpu()


def test_the_roles_are_filled(spaces):
    assert on_zero_gpu()
    model, reader = drawer(), Reads()
    assert isinstance(model, protocols.TextToImage)
    assert isinstance(model, protocols.Traceable)
    assert not isinstance(model, protocols.ReadsPrompts)  # this one cannot tell
    model.local.prompt_limits = lambda prompts: (prompts,)
    able = ZeroGpuTextToImage("big", Draws, model.local, INFO, lambda: None)
    assert isinstance(able, protocols.ReadsPrompts)
    assert able.prompt_limits(["a"]) == (["a"],)
    encoder = ZeroGpuReader("reads", Reads, reader, 1.0)
    assert isinstance(encoder, protocols.ImageTextEncoder)
    assert isinstance(encoder, protocols.Captioner)
    assert not isinstance(encoder, protocols.LanguageModel)  # it does what the local one does, and no more
    assert encoder.name == "reads@1"


def test_pictures_come_from_another_process_which_builds_the_model_once(spaces):
    model = drawer()
    steps = []
    first = shades(model.generate(rows(3), on_step=lambda *step: steps.append(step)))
    second = shades(model.generate(rows(2), on_step=lambda *_: None))
    assert [seed for seed, _, _ in first + second] == [0, 1, 2, 0, 1]
    assert {n_loads for _, n_loads, _ in first + second} == {1}
    ((process),) = {process for _, _, process in first + second}
    assert process != os.getpid() % 256
    assert steps == [(1, 3), (2, 3), (3, 3)] * 3
    assert spaces.n_forks == 1
    spaces.forks_again = True  # another process builds it again
    assert shades(model.generate(rows(1), on_step=lambda *_: None))[0][:2] == (0, 1)
    assert spaces.n_forks == 2


def test_weights_are_fetched_once_before_the_clock_runs_and_missing_ones_cost_no_gpu_time(spaces):
    def missing():
        raise ModelUnavailable("big is gated")

    with pytest.raises(ModelUnavailable, match="gated"):
        list(drawer(fetch=missing).generate(rows(1)))
    assert spaces.asked == []
    fetched = []
    model = drawer(fetch=lambda: fetched.append(len(spaces.asked)))
    for _ in range(2):
        list(model.generate(rows(1), on_step=lambda *_: None))
    assert fetched == [0]


def test_a_call_asks_for_as_much_time_as_its_pictures_and_steps_take(spaces):
    info = replace(INFO, download_gb=40.0, width=1024, height=1024)
    model = drawer(info=info)
    # 3 + 1.4 (5 + 40 / 2 + 20 steps x 0.42) = 49.8
    list(model.generate(rows(2, num_inference_steps=10), on_step=lambda *_: None))
    assert spaces.asked == [50]
    list(model.generate(rows(2, num_inference_steps=10), on_step=lambda *_: None))
    assert spaces.asked[1] == 21  # it loads in no time and draws as fast: 3 + 1.4 (25 / 2) = 20.5


def test_the_pace_follows_what_was_timed():
    pace = CallPace(load=10.0, unit=0.1)
    assert pace.seconds(100) == 31  # 3 + 1.4 (10 + 10)
    pace.learn(load=4.0, units=100, seconds=5.0)
    assert pace.seconds(200) == 24  # 3 + 1.4 (5 + 10): a load is believed to be quick only by halves
    pace.slow_down()
    assert pace.seconds(200) == 45
    assert pace.seconds(0.0) == 17
    assert CallPace(load=0.0, unit=0.0).seconds(1) == 10
    assert CallPace(load=1e3, unit=0.0).seconds(1) == 120


def test_a_call_draws_as_many_pictures_as_a_minute_allows(spaces):
    # 5.5 GB: 0.075 s a step, 60 / (30 x 0.075) = 26.7; 34 GB: 0.36 s a step, 60 / (28 x 0.36) = 5.95.
    for download_gb, steps, expected in ((5.5, 30, 26), (34.0, 28, 4), (5.5, 2, 32), (0.0, 1000, 2)):
        model = drawer(info=replace(INFO, download_gb=download_gb, default_steps=steps))
        assert model.batch_size == expected  # whole batches of two, the model's own


def test_stop_and_errors_end_the_drawing_over_there_and_leave_the_process_to_others(spaces):
    model, seen = drawer(pause=0.02), []

    def stop(step, _n):
        seen.append(step)
        if len(seen) == 5:
            raise Cancelled("stopped")

    images = []
    with pytest.raises(Cancelled):
        images.extend(model.generate(rows(4, num_inference_steps=4), on_step=stop))
    assert shades(images)[0][0] == 0
    assert len(images) == 1
    assert len(seen) == 5
    assert len(list(model.generate(rows(1), on_step=lambda *_: None))) == 1  # the process is free again
    # Our errors keep their words, and others are named.
    with pytest.raises(InvalidInput, match="this prompt draws nothing; type another"):
        list(model.generate(rows(1, prompt="bad"), on_step=lambda *_: None))
    with pytest.raises(ModelUnavailable, match=r"big failed on the GPU \(ZeroDivisionError\)"):
        list(model.generate(rows(1, prompt="crash"), on_step=lambda *_: None))
    assert len(list(model.generate(rows(1), on_step=lambda *_: None))) == 1
    assert spaces.n_forks == 1


def run(model, store, wanted, **options):
    return list(run_rows(wanted, model, store, lock=threading.Lock(), **options))


def test_when_the_quota_ends_what_is_finished_is_kept_and_the_next_press_goes_on(spaces, tmp_path):
    store, wanted = ImageStore(tmp_path), rows(20, num_inference_steps=20)
    model = drawer(info=replace(INFO, default_steps=200))
    spaces.quota = 40  # for some calls
    with pytest.raises(
        Interrupted, match=r"No GPU time for big now: .*Try again in 23:12:05\. Finished work is kept: press again"
    ):
        run(model, store, wanted)
    finished = store.n_present(row.id for row in wanted)
    assert 0 < finished < 20
    spaces.quota = 1e9
    events = run(model, store, wanted)
    assert events[0].done == finished
    assert events[-1].done == 20
    assert store.n_present(row.id for row in wanted) == 20


def test_short_of_time_fewer_pictures_are_drawn_in_a_call(spaces):
    model = drawer(info=replace(INFO, download_gb=40.0, default_steps=1))
    spaces.longest = 60  # 16 pictures would ask for 3 + 1.4 (25 + 16 x 10 x 0.42) = 132, so for the most, 120
    assert [
        seed for seed, _, _ in shades(model.generate(rows(16, num_inference_steps=10), on_step=lambda *_: None))
    ] == list(range(16))
    assert max(spaces.asked) <= 60
    assert len(spaces.asked) > 1


def test_a_call_that_took_too_long_keeps_its_pictures_and_asks_for_more_the_next_time(spaces, tmp_path):
    store, wanted = ImageStore(tmp_path), rows(4)
    model = drawer()
    spaces.abort_after = 6  # ready, three steps, a picture, and a step of the next
    with pytest.raises(Interrupted, match=r"exceeded its requested GPU time.* press again"):
        run(model, store, wanted)
    assert store.n_present(row.id for row in wanted) == 1
    spaces.abort_after = None
    run(model, store, wanted)
    assert store.n_present(row.id for row in wanted) == 4
    assert spaces.asked[1] > spaces.asked[0]


def test_the_visitor_who_asks_pays_and_steps_of_a_trace_come_one_by_one(spaces, tmp_path):
    def visit():
        VISITOR.set("alice")
        run(drawer(), ImageStore(tmp_path), rows(1))

    copy_context().run(visit)
    assert spaces.visitors == ["alice"]  # though the drawing has a thread of its own
    found = list(drawer().trace(rows(1)[0], ("a", "b"), guided=True, on_step=lambda *_: None))
    assert found == [(0, 2, True, True), (1, 2, True, True), (2, 2, True, True)]


def test_readers_work_over_there_too(spaces):
    local = Reads()
    encoder = ZeroGpuReader("reads", Reads, local, 1.0)
    rows = encoder.encode_images([Image.new("RGB", (2, 2), (7, 0, 0)), Image.new("RGB", (2, 2), (9, 0, 0))])
    assert rows[:, 0].tolist() == [7, 9]
    assert (rows[:, 1] != os.getpid()).all()
    assert encoder.encode_texts(["abc"]).tolist() == [[3, 1]]  # loaded once over there
    assert local.n_loads == 1  # and once here, so that nothing is missing there
    assert ZeroGpuReader("other", Reads, local, 1.0).caption([Image.new("RGB", (2, 2))] * 3) == ["3 pictures"] * 3
    with pytest.raises(ModelUnavailable, match="reads answers NaN"):
        encoder.encode_texts(["bad"])


def test_services_borrow_for_what_does_not_come_with_the_program(spaces, tmp_path):
    from bias_core.settings import Settings
    from bias_core.study_services import StudyServices as Services, build_elsewhere

    services = Services(Settings(data_dir=tmp_path))
    assert spaces.decorated == [zero_gpu.run_job]
    assert isinstance(services.encoder("open_clip:RN50/openai"), ZeroGpuReader)
    assert isinstance(services.captioner("blip-base"), ZeroGpuReader)
    for mine in (services.encoder("calibration-clip"), services.text_to_image("calibration-diffusion")):
        assert not isinstance(mine, zero_gpu.Borrower)
        assert mine._wanted_device == "cpu"  # CUDA is only seen in a borrowed process
    there = build_elsewhere(services.settings, "encoder", "open_clip:RN50/openai")
    assert (there._wanted_device, there._offline) == ("cuda", True)  # whatever it needs was fetched before
    plain = Services(Settings(data_dir=tmp_path, device="cpu"))
    assert not isinstance(plain.encoder("open_clip:RN50/openai"), zero_gpu.Borrower)


def test_explore_scores_what_the_quota_allowed_and_says_how_to_go_on(spaces, services):
    from bias_core.explore.options import explore_settings
    from bias_core.types import Attribute
    from tests.explored import explore

    model = ZeroGpuTextToImage("big", Renders, Renders(), replace(INFO, default_steps=800), lambda: None)
    services._built["model", "calibration-renderer"] = model
    settings = explore_settings(
        concept="doctor", model="calibration-renderer", n_images=12, attribute_a="", attribute_b="",
        attributes=(Attribute(name="man", positive="a man", negative="a female"),),
    )  # fmt: skip
    spaces.quota = 35
    *_, report = explore(settings, services)
    assert 0 < len(report.images) < 12
    assert report.attributes[0].prevalence.n == len(report.images)
    (note,) = [note for note in report.notes if "press again" in note]
    assert f"scores use the {len(report.images)} of 12 pictures that were finished." in note
    spaces.quota = 1e9
    *_, report = explore(settings, services)
    assert len(report.images) == 12
    assert report.reused


def account(monkeypatch, seconds):
    """The hub's answer; the tokens it was asked with."""
    import huggingface_hub

    asked = []

    def quota(*, token):
        asked.append(token)
        if isinstance(seconds, Exception):
            raise seconds
        return huggingface_hub.ZeroGpuQuota({"base": 210, "current": seconds})

    monkeypatch.setattr(huggingface_hub, "get_zero_gpu_quota", quota)
    return asked


def test_gpu_time_is_told_in_pictures_by_what_calls_take(spaces):
    model = drawer()  # 3 + 5 + 2.5 s until it is there, and 0.07 s a step; a call draws 32
    assert model.batch_size == 32
    # 10 steps: a call of 32 takes 10.5 + 22.4 = 32.9 s. In 100 s there are three of them (98.7 s) and no more.
    assert model.estimate_pictures(100.0, 10) == 96
    # In 50 s one of them; of the other 17.1 s 6.6 are left to draw 9.
    assert model.estimate_pictures(50.0, 10) == 32 + 9
    assert model.estimate_pictures(10.0, 10) == 0
    assert model.estimate_pictures(0.0, 10) == 0
    assert model.estimate_pictures(100.0, 20) < 96


def test_the_hub_is_asked_with_the_visitors_own_token_alone(spaces, monkeypatch, tmp_path):
    from huggingface_hub.errors import HfHubHTTPError

    from bias_core.services import Services
    from bias_core.settings import Settings

    asked = account(monkeypatch, 100.0)
    services = Services(Settings(data_dir=tmp_path))
    assert services.borrows_gpu
    assert services.get_remaining_gpu_seconds() is None  # nobody has signed in
    assert services.for_visitor("sk-of-another-service").get_remaining_gpu_seconds() is None
    assert services.for_visitor("hf_mine").get_remaining_gpu_seconds() == 100.0
    assert asked == ["hf_mine"]
    response = httpx.Response(401, request=httpx.Request("GET", "http://localhost"))
    for error in (HfHubHTTPError("401", response=response), OSError(), ValueError()):
        account(monkeypatch, error)
        assert services.for_visitor("hf_mine").get_remaining_gpu_seconds() is None
    assert isinstance(drawer(), protocols.OnLentGpu)
    assert not isinstance(services.text_to_image("calibration-diffusion"), protocols.OnLentGpu)  # needs no GPU
    monkeypatch.delenv("SPACES_ZERO_GPU")
    asked = account(monkeypatch, 100.0)
    assert Services(Settings(data_dir=tmp_path)).for_visitor("hf_mine").get_remaining_gpu_seconds() is None
    assert asked == []
