"""Predicted gain, and the part of a model behind a change, against what is planted: with bars that can be missed."""

from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study, with_options
from bias_core.types import GeneratedImage, Step
from bias_core.world.render import render
from tests.ui.fakes import FakeServices, TracedRenderer, _portrait
from validation import find_study, validity_studies
from validation.steps import (
    Pool,
    _cause_findings,
    _exchange_lines,
    _part_lines,
    _parts_named,
    cause_shots,
    pool_suits,
    rank_correlation,
)
from validation.verdicts import results_of

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


CAUSES = find_study("validity-causes")
with validity_studies():
    CAUSE_SETTINGS = with_options(CAUSES, StudySettings())
N_POOL = 211


@pytest.fixture(scope="module")
def pool():
    """Seeds in which the adapter of the text encoders brings men to 9 of 10, and the later text women until 2 steps."""
    rng = np.random.default_rng(0)
    base, adapted, extreme = (rng.uniform(size=N_POOL) - 1 + share for share in (0.4, 0.9, 0.95))
    decided = rng.integers(1, 4, size=N_POOL)
    margins = {
        shot.facts["way"]: np.where(decided <= 8 * shot.first_steps, adapted, -0.5)
        for shot in cause_shots(CAUSES, CAUSE_SETTINGS)
        if shot.group == "exchanged"
    }
    for shot in cause_shots(CAUSES, CAUSE_SETTINGS):
        if shot.group == "weights":
            texts = shot.text_condition or shot.condition
            plain = adapted if texts == "published" else extreme if texts == "extreme" else base
            margins[shot.facts["way"]] = extreme if shot.condition == "denoiser" else plain
    return Pool(margins=margins)


def test_every_way_of_drawing_is_drawn_once_on_the_same_seeds():
    shots = cause_shots(CAUSES, CAUSE_SETTINGS)
    ways = [shot.facts["way"] for shot in shots]
    assert len(set(ways)) == len(ways) == 7 + 6  # weights, and exchanges
    assert {(shot.n, shot.first_seed) for shot in shots} == {(CAUSE_SETTINGS.options.pool, 0)}


def test_where_nothing_is_exchanged_the_pictures_are_of_other_seeds_and_else_of_the_same():
    pool = Pool(margins={"plain": np.arange(100.0), "other": np.arange(100.0) + 1000})
    first, other = pool.pick(["plain", "other"], 1.0, 50, np.random.default_rng(0))
    np.testing.assert_array_equal(other, first + 1000)
    first, other = pool.pick(["plain", "other"], 0.0, 50, np.random.default_rng(0))
    assert other.max() < 100
    assert (first != other).sum() > 40


def measured_again(pool, share, condition, n=30):
    held, lines, claims = [], [], []
    for repetition in range(n):
        rng, where = np.random.default_rng(repetition), {"condition": condition, "repetition": repetition}
        lines += _exchange_lines(CAUSES, CAUSE_SETTINGS, pool, share, rng, where, held)
        for name, cells in CAUSES.data["adapters"].items():
            more, claim = _part_lines(CAUSES, CAUSE_SETTINGS, pool, share, rng, where | {"adapter": name}, cells)
            lines, claims = [*lines, *more], [*claims, claim]
    return pd.DataFrame(lines), pd.DataFrame(claims), held


def test_the_planted_part_is_named_and_a_false_one_is_not(pool):
    lines, claims, held = measured_again(pool, 1.0, "all")
    none, no_claims, _ = measured_again(pool, 0.0, "nothing")
    right, false, step = _cause_findings(pd.concat([claims, no_claims]), held)
    assert right.estimate.value >= 0.95
    assert false.estimate.low <= 0.05
    assert step.estimate.high >= 0.9
    named = _parts_named(claims).set_index("adapter of")
    assert named.loc["text encoders alone", ["text encoders named", "denoiser named"]].tolist() == [1, 0]
    assert named.loc["denoiser alone", ["text encoders named", "denoiser named"]].tolist() == [0, 1]
    # Targets are what the whole pool shows: so are the means of many repetitions.
    table = pd.concat([none, lines])
    for (_, _, _, condition), rows in table.groupby(["measure", "variant", "planted", "condition"]):
        assert rows["value"].mean() == pytest.approx(rows["target"].iloc[0], abs=0.06), condition
    assert results_of(table, CAUSE_SETTINGS).findings


def test_pictures_that_were_brought_along_have_no_steps_to_check():
    with pytest.raises(InvalidInput, match="brought along"):
        pool_suits(StudySettings(images="pictures.zip"), None)
