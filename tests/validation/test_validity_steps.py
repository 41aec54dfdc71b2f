"""Predicted gain against what finished pictures gain: on planted steps, and with a bar that can be missed."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.types import GeneratedImage, Step
from bias_core.world.render import render
from tests.ui.fakes import FakeServices, TracedRenderer, _portrait
from validation import find_study
from validation.steps import rank_correlation

DESIGN = find_study("validity-steps")
SMALL = {
    "attributes": [
        {"name": "man", "positive": "a photo of a man", "negative": "a photo of a woman"},
        {"name": "dark", "positive": "a photo of a dark-skinned person", "negative": "a light-skinned person"},
    ],
    "cases": [{"concept": "doctor", "prompt": "a photo of a doctor", "planted": ["man"]}],
}


class Planted(TracedRenderer):
    """Published doctors are men from the second step on, but for every third seed; all others are women."""

    def __init__(self, reader):
        one, other = SMALL["attributes"]
        rng = Random(0)
        pictures = [render(_portrait(rng), 64) for _ in range(60)]
        man, dark = (
            reader.encode_images(pictures) @ np.subtract(*reader.encode_texts([each["positive"], each["negative"]]))
            for each in (one, other)
        )
        self.man, self.woman = (pictures[np.flatnonzero((side * man > 0) & (dark < 0))[0]] for side in (1, -1))

    def _drawn(self, row, step):
        is_man = row.condition == "published" and "doctor" in row.prompt and step and row.seed % 3
        return self.man if is_man else self.woman

    def generate(self, rows, *, on_step=None):
        for row in rows:
            yield GeneratedImage(row=row, image=self._drawn(row, 9))

    def trace(self, row, attributes, *, guided=False, predicted=True, on_step=None):
        axes = np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1)
        for i in range(3):
            yield Step(
                index=i,
                sigma=1 - i / 3,
                xt=axes[0],
                velocity=axes[1] + 0.1 * (row.seed % 5) * axes[2],
                velocity_positive=axes[[2] * len(attributes)],
                velocity_negative=axes[[3] * len(attributes)],
                predicted=self._drawn(row, i),
            )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    services = FakeServices(tmp_path_factory.mktemp("data"))
    model = Planted(services.encoder("calibration-clip"))
    services.text_to_image = lambda _name: model
    options = {"conditions": ["fair", "published"], "repetitions": 2}
    settings = StudySettings(model="calibration-diffusion", options=options)
    yield complete(run_study(replace(DESIGN, data=SMALL), settings, services))
    services.close()


def test_gains_follow_what_finished_pictures_gain_and_velocities_that_do_not_are_shown_not_to(report):
    findings = {one.key: one for one in report.results.findings}
    assert findings["gain published"].estimate.value == pytest.approx(1)
    assert findings["gain published"].says == "Shown to be at least 0.6."
    assert findings["SPI published"].estimate.value < 0.6
    seeds = table_of(report, "seeds").frame
    men = seeds[(seeds["attribute"] == "man") & (seeds["condition"] == "published")]
    assert men["gain"].tolist() == [2 / 3 if seed % 3 else 0 for seed in men["seed"]]


def test_intervals_of_what_is_not_planted_hold_nothing_and_so_few_are_inconclusive(report):
    verdicts = table_of(report, "verdicts").frame
    (line,) = verdicts.to_dict("records")
    assert line["intervals hold"] == "100.0 % of 6"  # twice both attributes under fair, the other one under published
    assert line["false alarms"] == "0.0 % of 6"
    assert float(line["mean, nothing planted"]) == 0
    assert float(line["mean, all planted"]) == pytest.approx(0.44, abs=0.1)
    assert line["verdict"].startswith("inconclusive")
    assert "intervals that a verdict needs" in line["verdict"]


def test_a_measure_that_does_not_change_has_no_rank():
    nothing = rank_correlation(np.zeros((2, 5)), np.ones((2, 5)), StudySettings())
    assert np.isnan(nothing.value)
    assert "nothing changes" in nothing.note


def test_models_without_steps_are_refused(tmp_path):
    services = FakeServices(tmp_path)
    with pytest.raises(InvalidInput, match="no denoising steps"):
        complete(run_study(DESIGN, StudySettings(model="calibration-renderer"), services))
    services.close()
