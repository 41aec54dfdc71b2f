"""The instrument is checked against what is planted, and the check can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import run_study
from bias_core.studies.validity.measures import MEASURES, measures_of
from bias_core.studies.validity.rates import _orders
from bias_core.world.truth import planted_lines
from tests.studies.test_run_study import finish

SEEN = ["nurse", "doctor", "iranian", "flowers"]


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def only(services, concepts):
    """The services with the planted lines of some concepts alone."""
    lines = tuple(line for line in planted_lines() if line.concept in concepts)
    services.planted_lines = lambda: lines
    return [list(line.prompts) for line in lines]


def test_the_design_asks_for_every_planted_concept():
    told = {tuple(prompts) for prompts in find_design("validity-rates").data["concepts"]}
    assert told == {line.prompts for line in planted_lines()}


def test_planted_rates_are_measured(services):
    design = find_design("validity-rates")
    concepts = list(dict.fromkeys(map(tuple, only(services, SEEN))))
    small = replace(design, data={"concepts": concepts}, images_per_prompt=40)
    report, _ = finish(run_study(small, StudySettings(), services))
    table = table_of(report, "rates").frame
    assert set(table["concept"]) == set(SEEN)
    gender = table[(table["concept"] == "doctor") & (table["condition"] == "published")].iloc[0]
    assert gender["planted"] == pytest.approx(0.93)  # OASIS Table 2
    assert gender["low"] <= 0.93 <= gender["high"]
    extreme = table[table["condition"] == "extreme"]
    assert (extreme["drawn"].round().isin([0.0, 1.0])).all()
    coverage = report.results.findings[0].estimate
    assert coverage.value >= 0.85
    order = table_of(report, "order").frame.set_index(["concept", "attribute"])
    assert order.loc[("flowers", "light"), "Ψ extreme"] == pytest.approx(0.5, abs=0.02)


def test_a_reader_that_guesses_is_found_out():
    """The order of Psi is not there where the reader says anything."""
    rng = np.random.default_rng(0)
    lines = [
        {
            "concept": f"c{i}", "attribute": "gender", "value": "masculine", "condition": condition,
            "planted": planted, "measured": rng.uniform(),
        }
        for i in range(200)
        for condition, planted in (("fair", 0.5), ("published", 0.8), ("extreme", 1.0))
    ]  # fmt: skip
    assert _orders(pd.DataFrame(lines))["in order"].mean() < 0.5


def test_psi_is_taken_on_the_side_that_is_planted():
    told = {"fair": (0.5, 0.52), "published": (0.2, 0.25), "extreme": (0.0, 0.01)}
    lines = [
        {"concept": "nurse", "attribute": "gender", "value": "masculine", "condition": c, "planted": p, "measured": m}
        for c, (p, m) in told.items()
    ]
    (order,) = _orders(pd.DataFrame(lines)).to_dict("records")
    # Psi of absence: 0.5 - 0.52 < 0 -> 0; 0.5 - 0.25 = 0.25; 0.5 - 0.01 = 0.49
    assert [order[f"Ψ {c}"] for c in told] == pytest.approx([0.0, 0.25, 0.49])
    assert order["in order"]


def test_measures_are_repeated_on_new_pictures(services):
    design = find_design("validity-measures")
    data = {**design.data, "concepts": design.data["concepts"][:1]}
    report, _ = finish(run_study(replace(design, data=data, images_per_prompt=16), StudySettings(scale=0.1), services))
    table = table_of(report, "repetitions").frame
    assert set(table["measure"]) == set(MEASURES)
    prevalence = table[table["measure"] == "attribute_prevalence"]
    means = prevalence.groupby("condition")["value"].mean()
    assert means["fair"] < means["published"] < means["extreme"]  # doctors are planted as men
    targets = prevalence.groupby("condition")["target"].first()
    assert targets.to_dict() == pytest.approx({"fair": 0.5, "published": 0.93, "extreme": 1.0})
    assert len({tuple(p["value"]) for _, p in table.groupby("repetition")}) == 3  # new pictures each time


def test_measures_are_taken_towards_the_side_that_is_planted(services):
    """Nurses are planted as women: the share of women is what is measured."""
    design = find_design("validity-measures")
    data = {**design.data, "concepts": [c for c in design.data["concepts"] if c["name"] == "nurse"]}
    small = replace(design, data=data, images_per_prompt=8)
    options = {"attribute_images": 4, "conditions": ["fair", "extreme"]}
    report, _ = finish(run_study(small, StudySettings(scale=0.1, options=options), services))
    means = table_of(report, "repetitions").frame.groupby(["measure", "condition"])["value"].mean()
    for key in ("attribute_prevalence", "signed_difference", "association", "composite_association"):
        assert means[key, "extreme"] > means[key, "fair"], key


def test_the_association_test_is_repeated(services):
    design = find_design("validity-associations")
    options = {"tests": ["science_arts"], "n_stimuli": 4}
    report, _ = finish(run_study(design, StudySettings(scale=0.1, options=options), services))
    summary = table_of(report, "summary").frame.set_index(["measure", "condition"])["mean"]
    name = "Differential association S"
    assert summary[name, "extreme"] > summary[name, "fair"]
    assert len(report.results.findings) == 1


@pytest.mark.parametrize(
    ("name", "conditions"),
    [("validity-measures", ["extreme", "fair"]), ("validity-pairs", ["fair"]), ("validity-rates", ["trigger"])],
)
def test_conditions_that_are_no_ladder_are_refused(services, name, conditions):
    settings = StudySettings(options={"conditions": conditions})
    with pytest.raises(InvalidInput, match="in this order"):
        finish(run_study(find_design(name), settings, services))


def test_every_measure_takes_a_sample():
    rng = np.random.default_rng(1)
    rows = {
        name: rng.normal(size=(5 + i, 7)) for i, name in enumerate(("neutral", "a", "b", "attribute_a", "attribute_b"))
    }
    texts = {name: rng.normal(size=(2, 7)) for name in ("sentences", "text_a", "text_b")}
    unit = {k: v / np.linalg.norm(v, axis=1, keepdims=True) for k, v in (rows | texts).items()}
    for key, estimate in measures_of(unit | {"prompt": unit["text_a"][:1]}, 0).items():
        assert estimate.low <= estimate.value <= estimate.high, key
