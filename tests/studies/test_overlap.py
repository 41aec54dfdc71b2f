"""Finished pictures are read while the next are drawn: the slower of the two sets the pace."""

import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bias_core.adapters.calibration_renderer import CalibrationRenderer
from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.program import StudyData
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.objects.study import design_of_prompts
from bias_core.studies.running.run import complete, run_study, with_options
from bias_core.types import Attribute
from tests.browser.timing import slowdown
from tests.explored import explore

BATCH, N_BATCHES, N_A_PROMPT = 4, 6, 12
MAN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman")


@cache
def seconds():
    """Of a batch, to draw and to read; more on a busy machine, where what is not timed takes longer, too."""
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


EXPLORED = explore_settings(
    concept="doctor", model="calibration-renderer", encoder="org/slow", attributes=(MAN,), attribute_a="",
    attribute_b="", n_images=BATCH * N_BATCHES,
)  # fmt: skip
STUDY = StudySettings(model="calibration-renderer", encoder="org/slow")


def explored(services, settings=EXPLORED):
    return list(explore(settings, services))[-1]


def test_explore_embeds_one_batch_while_the_next_is_drawn(slow):
    explored(slow)
    assert slow.reader.n_read == N_BATCHES * BATCH  # each picture once
    assert share_of_the_sum(slow.generator, slow.reader) < 0.75


DESIGN = design_of_prompts(find_design("tbyb-general"), ["a man with a dog", "a woman with a hat"], N_A_PROMPT)


def study_data(services, **options):
    settings = with_options(DESIGN, STUDY)
    program = program_of(DESIGN)
    rows = RowMaker.build(settings, services)
    return StudyData(settings, services, rows, ahead=program.ahead, **options), program.shots(DESIGN, settings)


def test_a_study_embeds_and_captions_while_it_draws(slow):
    slow.reader.pace = slow.captions.pace = 0.5
    data, shots = study_data(slow)
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
    settings = with_options(design, replace(STUDY, scale=0.01, options={"encoders": ["one", "two"]}))
    program = program_of(design)
    data = StudyData(settings, slow, RowMaker.build(settings, slow), ahead=program.ahead)
    list(data.draw(program.shots(design, settings)[:2]))
    assert slow.asked == ["one", "two"] * (len(slow.asked) // 2)
    assert slow.asked


def test_stop_does_not_wait_for_the_reading_of_all_that_is_drawn(slow):
    slow.generator.pace, slow.reader.pace = 0.05, 8.0  # far more is drawn than read
    stopped = []
    data, shots = study_data(slow, cancelled=lambda: bool(stopped))
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
    data, shots = study_data(slow)
    with pytest.raises(ModelUnavailable, match="no weights"):
        list(data.draw(shots))
    assert len(slow.generator.times) < N_BATCHES
