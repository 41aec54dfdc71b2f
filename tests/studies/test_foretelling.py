"""What a step tells of the finished picture: rank agreement over seeds, told where it is planted and not elsewhere."""

import numpy as np
import pytest

from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.studies.origins.foretelling import HEADING, SPI, agreements, foretelling, foretelling_table

N_SEEDS, N_STEPS = 23, 3
HOW = {"confidence": 0.95, "seed": 0}


@pytest.fixture
def planted():
    rng = np.random.default_rng(0)
    finished, noise = rng.normal(size=N_SEEDS), rng.normal(size=(N_SEEDS, N_STEPS))
    # The picture that a step heads for comes nearer to the finished one; SPI goes the other way at the first step.
    heading = finished[:, None] * np.array([0.0, 1.0, 10.0]) + noise
    spi = np.column_stack([-finished + 0.3 * rng.normal(size=N_SEEDS), rng.normal(size=(N_SEEDS, N_STEPS - 1))])
    return agreements(spi, heading, finished, **HOW), heading, finished


def test_each_step_s_agreement_is_kendall_s_over_seeds(planted):
    found, heading, finished = planted
    for step, tau in zip(heading.T, found[HEADING], strict=True):
        assert tau.value == kendall_tau(step, finished).tau.value
        assert tau.n == N_SEEDS


def test_what_is_planted_is_told_and_what_is_not_is_not(planted):
    found, *_ = planted
    assert found[SPI][0].high < -0.5
    assert [tau.low > 0 for tau in found[HEADING]] == [False, True, True]


def test_it_is_said_in_words_a_figure_and_a_table(planted):
    findings, (figure,), rows = foretelling("Iranian", "iranian", {"beard": planted[0]})
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
