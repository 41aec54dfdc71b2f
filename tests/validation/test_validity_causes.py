"""The pool behind the check of causes: what is drawn from it, whether a planted part is named and no other."""

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import with_options
from validation import find_study, validity_studies
from validation.steps import Pool, _cause_findings, _exchange_lines, _part_lines, _parts_named, cause_shots, pool_suits
from validation.verdicts import results_of

DESIGN = find_study("validity-causes")
with validity_studies():
    SETTINGS = with_options(DESIGN, StudySettings())
N_POOL = 211


@pytest.fixture(scope="module")
def pool():
    """Seeds in which the adapter of the text encoders brings men to 9 of 10, and the later text women until 2 steps."""
    rng = np.random.default_rng(0)
    base, adapted, extreme = (rng.uniform(size=N_POOL) - 1 + share for share in (0.4, 0.9, 0.95))
    decided = rng.integers(1, 4, size=N_POOL)
    margins = {
        shot.facts["way"]: np.where(decided <= 8 * shot.first_steps, adapted, -0.5)
        for shot in cause_shots(DESIGN, SETTINGS)
        if shot.group == "exchanged"
    }
    for shot in cause_shots(DESIGN, SETTINGS):
        if shot.group == "weights":
            texts = shot.text_condition or shot.condition
            plain = adapted if texts == "published" else extreme if texts == "extreme" else base
            margins[shot.facts["way"]] = extreme if shot.condition == "denoiser" else plain
    return Pool(margins=margins)


def test_every_way_of_drawing_is_drawn_once_on_the_same_seeds():
    shots = cause_shots(DESIGN, SETTINGS)
    ways = [shot.facts["way"] for shot in shots]
    assert len(set(ways)) == len(ways) == 7 + 6  # weights, and exchanges
    assert {(shot.n, shot.first_seed) for shot in shots} == {(SETTINGS.options.pool, 0)}


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
        lines += _exchange_lines(DESIGN, SETTINGS, pool, share, rng, where, held)
        for name, cells in DESIGN.data["adapters"].items():
            more, claim = _part_lines(DESIGN, SETTINGS, pool, share, rng, where | {"adapter": name}, cells)
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
    assert results_of(table, SETTINGS).findings


def test_pictures_that_were_brought_along_have_no_steps_to_check():
    with pytest.raises(InvalidInput, match="brought along"):
        pool_suits(StudySettings(images="pictures.zip"), None)
