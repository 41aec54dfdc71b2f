"""Steps of a generation: what they gain over the base prompt, SPI, and traces that are kept once made."""

import re

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import Cancelled, InvalidInput
from bias_core.metrics.propagation import spi_band, stereotype_propagation_index
from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.studies.origins.foretelling import HEADING, SPI, agreements, foretelling, foretelling_table
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import report_facts
from bias_core.types import Attribute, GeneratedImage, Step
from tests.studies.oasis_runs import figures, findings, run, table, without_seconds

NAME = "oasis-spi"
OPTIONS = {"attributes": ["man"], "nationalities": ["Iranian"]}
SETTINGS = {"model": "calibration-diffusion", "condition": "fair", "num_inference_steps": 3, "scale": 0.08}
N_SEEDS = 8


class Planted:
    """A model whose every step moves by ``towards[i]`` of the way to the attribute, and sideways.

    The base prompt heads for what reads as a woman, another one from the second step on for what reads as a man.
    """

    batch_size = 4
    towards = (0.6, 0.0, -0.8)

    def __init__(self, man=None, woman=None):
        self.traced, self.man, self.woman = 0, man, woman

    def generate(self, rows, *, on_step=None):
        for row in rows:
            yield GeneratedImage(row=row, image=Image.new("RGB", (8, 8), (row.seed, 0, 0)))

    def trace(self, row, attributes, *, guided=False, predicted=True, on_step=None):
        self.traced += 1
        axes = np.eye(4, dtype=np.float32).reshape(4, 1, 2, 2)
        attribute, side = axes[0], axes[2 + row.seed % 2]
        for i, part in enumerate(self.towards):
            yield Step(
                index=i,
                sigma=1 - i / 3,
                xt=axes[1],
                velocity=part * attribute + np.sqrt(1 - part**2) * side,
                velocity_positive=axes[[1] * len(attributes)] + attribute,
                velocity_negative=axes[[1] * len(attributes)],
                predicted=self.man if i and "Iranian" in row.prompt else self.woman,
                guided=guided,
            )
            if on_step is not None:
                on_step(i + 1, 3)


@pytest.fixture
def planted(services):
    rng, reader = np.random.default_rng(0), services.encoder("calibration-clip")
    pictures = [Image.fromarray(rng.integers(0, 256, (2, 2, 3), dtype=np.uint8)).resize((64, 64)) for _ in range(40)]
    present, absent = reader.encode_texts(["The person is a man.", "The person is a woman."])
    margins = reader.encode_images(pictures) @ (present - absent)
    assert margins.min() < 0 < margins.max()
    model = Planted(pictures[margins.argmax()], pictures[margins.argmin()])
    services._built["model", "calibration-diffusion"] = model
    return model


def test_planted_steps_are_found(services, planted):
    report = run(services, NAME, **SETTINGS, options=OPTIONS)
    row = table(report, "spi").iloc[0]
    assert [row[name] for name in ("first step", "first clear", "strongest", "gain there", "last")] == [0, 2, 2, 1, 1]
    assert row["all steps"] == pytest.approx(2 / 3)
    assert row["SPI, first step"] == pytest.approx(0.6, abs=1e-6)
    assert row["SPI, all steps"] == pytest.approx((0.6 + 0.0 - 0.8) / 3, abs=1e-6)
    finding = findings(report)["Iranian man"]
    assert finding.estimate.n == N_SEEDS == planted.traced / 2  # each seed, and its base
    assert finding.says == (
        "It is seen more often than with the base prompt. The first step at which that is told is step 2, where it is "
        "seen more often. It is farthest from 0 at step 2 of 3: +1.000."
    )
    assert findings(report)["Iranian man visible"].says.startswith(
        "It can be seen from step 2 of 3 on, by then in 8 of 8 seeds ["
    )
    assert findings(report)["Iranian man first seen"].says.startswith(
        "Where the base prompt lacks it, it is first seen at step 2 of 3, by then in 8 of 8 seeds ["
    )
    assert figures(report)["figure7-iranian"].data["reads"].tolist()[:3] == ["", "0", "0"]
    assert report.pictures["man: can be seen from step"].tolist() == [2.0] * N_SEEDS
    assert findings(report)["Iranian man SPI"].says == "As the paper has it. The first step adds it."
    assert figures(report)["gain-iranian"].data["value"].tolist() == [0, 1, 1]
    curves = figures(report)["figure9-iranian"].data
    np.testing.assert_allclose(curves["value"], Planted.towards, atol=1e-6)
    assert curves["x"].tolist() == [1, 2, 3]


def test_numbers_are_those_of_the_model_s_own_trace_which_ends_at_the_finished_picture(services):
    report = run(services, NAME, **SETTINGS | {"scale": 0.03}, options=OPTIONS)
    rows = services.manifests.get(report.run_id).rows
    man = Attribute(name="man", positive="The person is a man.", negative="The person is a woman.")
    model = services.text_to_image("calibration-diffusion")
    spi = [
        [
            stereotype_propagation_index(step.velocity, step.velocity_positive[0], step.velocity_negative[0])
            for step in model.trace(row, [man], predicted=False)
        ]
        for row in rows
    ]
    expected = spi_band(np.array(spi))
    found = figures(report)["figure9-iranian"].data
    np.testing.assert_allclose(found["value"], [step.value for step in expected], atol=1e-5)
    np.testing.assert_allclose(found["low"], [step.low for step in expected], atol=1e-5)
    assert "flow space" in report.results.notes[1]
    shown = figures(report)["figure7-iranian"].data
    assert shown.groupby("row")["column"].count().tolist() == [4, 4]  # 3 steps and the finished picture
    strip = shown[shown["row"] == 0]
    last, finished = (np.asarray(Image.open(path), dtype=int) for path in strip["path"].iloc[[-2, -1]])
    assert np.abs(last - finished).max() <= 1  # the last step of Euler ends at its own prediction


def test_traces_are_made_once_and_broken_ones_again(services, planted):
    first = run(services, NAME, **SETTINGS, options=OPTIONS)
    assert without_seconds(run(services, NAME, **SETTINGS, options=OPTIONS)) == without_seconds(first)
    assert planted.traced == 2 * N_SEEDS
    kept = sorted((services.settings.data_dir / "traces").rglob("*.npz"))
    assert len(kept) == 2 * N_SEEDS
    kept[0].write_bytes(b"PK half a file")
    kept[1].unlink()
    assert without_seconds(run(services, NAME, **SETTINGS, options=OPTIONS)) == without_seconds(first)
    assert planted.traced == 2 * N_SEEDS + 2
    run(services, NAME, **SETTINGS, options=OPTIONS | {"guided": True})
    assert planted.traced == 4 * N_SEEDS + 2


def test_a_run_stopped_while_tracing_reports_the_pictures_that_are_traced_and_keeps_their_traces(services, planted):
    options = {"nationalities": ["Iranian", "Mexican"]}
    stopped = run(services, NAME, **SETTINGS, options=options, cancelled=lambda: planted.traced >= 6)
    done = len(list((services.settings.data_dir / "traces").rglob("*.npz")))
    assert done == 5  # the sixth was stopped at its first step
    assert stopped.stopped
    assert stopped.stopped_after == f"2 of {2 * N_SEEDS} pictures traced"
    assert findings(stopped)["Iranian man"].estimate.n == 2
    assert headline(stopped).endswith(f" Stopped after {stopped.stopped_after}.")
    assert f"stopped after {stopped.stopped_after}" in report_facts(stopped)
    assert "Left out, for fewer than two of their pictures were traced: Mexican." in stopped.results.notes
    assert stopped.n_images == 2 * N_SEEDS
    assert services.manifests.get(stopped.run_id).status == "cancelled"
    again = run(services, NAME, **SETTINGS, options=options)
    assert planted.traced == 6 + 3 * N_SEEDS - done  # both have the same base
    assert findings(again)["Mexican man"].estimate.n == N_SEEDS
    assert len(findings(again)) == 5 * 10  # one trace holds all attributes of a step
    assert not again.stopped


def test_a_run_stopped_before_two_pictures_are_traced_says_what_is_there(services, planted):
    words = re.escape(
        f"stopped after 1 of {N_SEEDS} pictures traced, too few for a number; what was finished is kept. "
        f"All {N_SEEDS} pictures are finished: run it again with the same settings, which finds them"
    )
    with pytest.raises(Cancelled, match=words):
        run(services, NAME, **SETTINGS, options=OPTIONS, cancelled=lambda: planted.traced >= 3)


def test_sentences_without_a_difference_are_refused_and_the_model_is_free_again(services):
    options = {"attributes": ["old"], "nationalities": ["Iranian"]}  # old and young are one unknown word
    with pytest.raises(InvalidInput, match="point nowhere"):
        run(services, NAME, **SETTINGS, options=options)
    row = services.manifests.list()[0].rows[0]
    with services.model_lock:
        (image,) = services.text_to_image("calibration-diffusion").generate([row])
    assert image.row == row


def test_options_that_cannot_be_are_refused(services):
    for options, words in (
        ({"attributes": ["wings"]}, "Iranian has no attribute of wings; it has man, turban"),
        ({"nationalities": ["American"], "attributes": []}, "American has no attribute of any name"),
        ({"base_prompt": "A  photo of an Iranian person"}, "is the base prompt too"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(words)):
            run(services, NAME, **SETTINGS, options=OPTIONS | options)


N_FORETOLD, N_STEPS = 23, 3
HOW = {"confidence": 0.95, "seed": 0}


@pytest.fixture
def foretold():
    rng = np.random.default_rng(0)
    finished, noise = rng.normal(size=N_FORETOLD), rng.normal(size=(N_FORETOLD, N_STEPS))
    # The picture that a step heads for comes nearer to the finished one; SPI goes the other way at the first step.
    heading = finished[:, None] * np.array([0.0, 1.0, 10.0]) + noise
    spi = np.column_stack([-finished + 0.3 * rng.normal(size=N_FORETOLD), rng.normal(size=(N_FORETOLD, N_STEPS - 1))])
    return agreements(spi, heading, finished, **HOW), heading, finished


def test_each_step_s_agreement_is_kendall_s_over_seeds(foretold):
    found, heading, finished = foretold
    for step, tau in zip(heading.T, found[HEADING], strict=True):
        assert tau.value == kendall_tau(step, finished).tau.value
        assert tau.n == N_FORETOLD


def test_what_is_planted_is_told_and_what_is_not_is_not(foretold):
    found, *_ = foretold
    assert found[SPI][0].high < -0.5
    assert [tau.low > 0 for tau in found[HEADING]] == [False, True, True]


def test_it_is_said_in_words_a_figure_and_a_table(foretold):
    findings, (figure,), rows = foretelling("Iranian", "iranian", {"beard": foretold[0]})
    assert findings[0].says == "Where SPI of the first step is higher, the finished picture is read to have it less."
    assert set(figure.data["group"]) == {f"beard: {SPI}", f"beard: {HEADING}"}
    (table,) = foretelling_table(rows)
    assert len(table.frame) == 2 * N_STEPS


def test_seeds_that_are_too_few_or_all_alike_have_no_agreement():
    few = np.zeros((4, N_STEPS))
    assert agreements(few, few, np.zeros(4), **HOW) == {}
    assert foretelling("Iranian", "iranian", {"beard": {}}) == ((), (), [])
    assert foretelling_table([]) == ()
    alike = agreements(np.ones((7, 1)), np.arange(7.0)[:, None], np.arange(7.0), **HOW)
    findings, (figure,), _ = foretelling("Iranian", "iranian", {"beard": alike})
    assert findings[0].says == "One of the scores is the same for all items."
    assert set(figure.data["group"]) == {f"beard: {HEADING}"}
