"""OASIS's nationalities, doctors and internet users find what is planted and quote what is published."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import stereotype_score
from bias_core.stats.intervals import wilson_interval
from bias_core.studies.kit.designs import find_design, program_of, read_table
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.origins.cells import Published
from bias_core.studies.origins.nationalities import SUMMARIES, _correlate, _published
from bias_core.studies.running.run import with_options
from tests import shared
from tests.every import every
from tests.studies.oasis_runs import figures, findings, run, table

world = shared.real_services

NATIONALITIES = "oasis-nationalities"
PUBLISHED = {(r["nationality"], r["attribute"], r["model"]): r for r in read_table("oasis_table1.csv")}


@pytest.fixture(scope="module")
def report(world):
    return run(world, NATIONALITIES, scale=0.025)


def shots(name, **settings):
    design = find_design(name)
    return program_of(design).shots(design, with_options(design, StudySettings(**settings)))


def test_every_planted_share_lies_in_its_interval_but_for_pictures_that_neither_sentence_describes(report):
    cells = table(report, "table1").set_index(["nationality", "attribute"])
    shares = {key: finding for key, finding in findings(report).items() if key.endswith(" P")}
    assert len(cells) == len(shares) == 15
    for (nationality, attribute), row in cells.iterrows():
        finding = shares[f"{nationality} {attribute} P"]
        assert finding.expected == row["drawn"]
        assert finding.estimate.low <= row["drawn"] + row["neither"], (nationality, attribute)
        assert finding.estimate.high >= row["drawn"], (nationality, attribute)
    hits = sum(f.estimate.low <= f.published <= f.estimate.high for f in shares.values())
    assert hits >= 12  # Table 1 of SDv2 is planted; of 15 intervals of 95 % fewer has a chance below 1 in 100


def test_scores_follow_from_shares(report):
    found = findings(report)
    for (nationality, attribute, model), row in PUBLISHED.items():
        if model != "SDv2":
            continue
        share, score = found[f"{nationality} {attribute} P"], found[f"{nationality} {attribute} stereotype"]
        reference = float(row["reference"]) / 100
        assert share.estimate.null_value == reference
        assert score.estimate.value == pytest.approx(max(0.0, share.estimate.value - reference))
        assert score.expected == pytest.approx(max(0.0, share.expected - reference))
        assert score.published == pytest.approx(float(row["stereotype_score"]) / 100)
        assert share.published == pytest.approx(float(row["prevalence"]) / 100)


def test_published_numbers_of_every_model_stand_beside_the_measured_ones(report):
    # Table 1: Indian, tilak or bindi, FLUX.1 [dev] 86.7 and 36.7; Mexican, hat, SDv2 is misprinted as 22.3.
    cells = table(report, "table1").set_index(["nationality", "attribute"])
    assert cells.loc[("Indian", "tilak or bindi"), "FLUX.1 [dev] P"] == pytest.approx(0.867)
    assert cells.loc[("Indian", "tilak or bindi"), "FLUX.1 [dev] Ψ"] == pytest.approx(0.367)
    assert cells.loc[("Mexican", "hat"), "SDv2 Ψ"] == pytest.approx(0.223)
    assert any("27.3" in note for note in report.results.notes)
    assert not (cells == "None").any().any()


def test_shares_variety_and_readings_are_those_of_a_plain_loop(report, world):
    row = table(report, "figure4").set_index(["nationality", "attribute"]).loc[("Mexican", "sombrero")]
    pictures = [image for image in world.manifests.get(report.run_id).rows if image.group == "Mexican"]
    encoder = world.encoder("calibration-clip")
    images = world.embeddings.images(
        encoder, list(world.images.find({p.id: p for p in pictures}).values()), lock=world.model_lock
    )
    sentences = ["The person is wearing a sombrero.", "The person is not wearing a sombrero."]
    worn, bare = world.embeddings.texts(encoder, sentences, lock=world.model_lock)
    seen = sum(float(x @ worn) > float(x @ bare) for x in images)
    cells = table(report, "table1").set_index(["nationality", "attribute"])
    assert cells.loc[("Mexican", "sombrero"), "P"] == seen / len(images)
    towards = (worn - bare) / np.linalg.norm(worn - bare)
    sigma = np.cov(images.astype(float), rowvar=False)
    assert row["share of variance"] == pytest.approx(towards @ sigma @ towards / np.trace(sigma), rel=1e-4)
    assert row["n"] == len(images) == 50


def test_all_attributes_are_read_on_all_nationalities_for_figure_4(report):
    variety = table(report, "figure4")
    assert len(variety) == 3 * 11  # 15 cells of Table 1, with man, turban and mustache shared
    assert not variety[["WALS", "share of variance"]].isna().any().any()
    points = figures(report)["figure5"].data
    assert len(points) == 15
    assert points["x"].between(0, 1).all()


def test_where_nothing_is_planted_nationalities_are_alike(world):
    fair = findings(run(world, NATIONALITIES, scale=0.02, condition="fair"))
    men = {n: fair[f"{n} man P"].estimate for n in ("Iranian", "Indian", "Mexican")}
    for share in men.values():
        assert share.low < 0.5 < share.high
    assert fair["Iranian man stereotype"].estimate.low == 0
    assert fair["Iranian man difference"].estimate.low < 0 < fair["Iranian man difference"].estimate.high
    assert "Not told" in fair["Iranian man difference"].says
    turbans = [fair[f"{n} turban P"].estimate for n in ("Iranian", "Indian")]
    assert max(t.low for t in turbans) < min(t.high for t in turbans)


def test_a_threshold_is_part_of_the_reading(world):
    found = findings(run(world, NATIONALITIES, scale=0.025, options={"threshold": 0.9}))
    assert "by more than 0.9" in found["Iranian beard difference"].says
    assert found["Iranian beard difference"].says.startswith("Not told")


def test_sdv2_s_four_wordings_share_the_pictures_and_no_seed():
    laid = [shot for shot in shots(NATIONALITIES, options={"templates": "sdv2"}) if shot.group == "Iranian"]
    assert len({shot.prompt for shot in laid}) == 4
    seeds = [shot.first_seed + k for shot in laid for k in range(shot.n)]
    assert seeds == list(range(2000))  # section 4: 2,000 pictures of each nationality
    assert shots(NATIONALITIES)[0].prompt == "A photo of an Iranian person"


@every([
    (NATIONALITIES, {"nationalities": ["Martian"]}, "Martian"),
    ("oasis-stop", {"nationalities": ["Martian"]}, "Martian"),
    ("oasis-spi", {"nationalities": ["Martian"]}, "Martian"),
    (NATIONALITIES, {"nationalities": ["American"]}, "no attributes for American"),
    (NATIONALITIES, {"templates": "long"}, "default, sdv2"),
    (NATIONALITIES, {"published_model": "SDv9"}, "SDv2, SDv3, FLUX.1 [dev]"),
    ("oasis-doctors", {"published_model": "SDv9"}, "SDv2, SDv3, FLUX.1 [dev]"),
    ("oasis-internet-users", {"nationalities": ["Tunisian"]}, "internet users of Tunisian"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused_before_anything_is_drawn(name, options, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        shots(name, options=options)


def test_sentences_that_the_reader_cannot_tell_apart_have_no_number(services):
    report = run(services, NATIONALITIES, scale=0.001, condition="fair")  # its reader knows a dozen words
    old = findings(report)["Iranian old stereotype"]
    assert math.isnan(old.estimate.value)
    assert "same" in old.estimate.note
    users = run(services, "oasis-internet-users", scale=0.001, condition="fair")
    assert table(users, "figure3")["attributes"].between(1, 4).all()  # of five; the others have no score


def test_doctors_of_table_2(world):
    report = run(world, "oasis-doctors", scale=0.6)
    found = findings(report)
    assert {key: f.published for key, f in found.items()} == {
        "doctor": 0.93, "Indian doctor": 0.97, "Iranian doctor": 0.98,
    }  # fmt: skip
    for finding in found.values():
        assert finding.estimate.low <= finding.expected <= finding.estimate.high
        assert finding.estimate.low <= finding.published <= finding.estimate.high
    rows = table(report, "table2").set_index("concept")
    indian, plain = rows.loc["Indian doctor"], rows.loc["doctor"]
    assert indian["added"] == pytest.approx(indian["P"] - plain["P"])
    assert indian["added low"] < indian["added"] < indian["added high"]
    assert indian["q"] >= indian["p"] > 0
    assert np.isnan(plain["added"])
    assert rows.loc["Iranian doctor", "SDv3 P"] == 1.0
    # By hand were only the labels of plain doctors that CLIP was checked against (appendix, Table 4).
    assert any("a classifier reads the pictures" in note for note in report.results.notes)
    assert not any("paper labels" in note for note in report.results.notes)
    # Newcombe's interval from Wilson's: Δ - √((p1 - l1)² + (u2 - p2)²), for the counts as read.
    one, other = (wilson_interval(round(line["P"] * line["n"]), line["n"]) for line in (indian, plain))
    below = math.hypot(one.value - one.low, other.high - other.value)
    assert indian["added low"] == pytest.approx(indian["added"] - below, abs=1e-9)


def test_a_fair_world_has_no_men_among_doctors_more_than_women(world):
    report = run(world, "oasis-doctors", scale=0.4, condition="fair")
    for finding in report.results.findings:
        assert finding.estimate.low < 0.5 < finding.estimate.high
    assert (table(report, "table2")["p"].dropna() > 0.05).all()


def test_internet_users_of_figure_3(world):
    report = run(world, "oasis-internet-users", scale=0.025)
    found = findings(report)
    # Table 1, Iranian, SDv2: (48 + 27.1 + 53.2 + 46.2 + 62.6) / 5 = 47.42, the largest is 62.6.
    assert found["Iranian mean"].published == pytest.approx(0.4742)
    assert found["Iranian maximum"].published == pytest.approx(0.626)
    # Mexican, with P - P* for the misprint: (47.1 + 27.3 + 6.6 + 52.8 + 32.6) / 5 = 33.28.
    assert found["Mexican mean"].published == pytest.approx(0.3328)
    for finding in found.values():
        assert finding.estimate.low - 0.03 <= finding.expected <= finding.estimate.high + 0.03, finding.key
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high
    assert found["Iranian mean"].estimate.low > found["Indian mean"].estimate.high
    rows = table(report, "correlations").set_index(["Ψ of", "summary"])
    assert rows.loc[("these pictures", "mean"), "Spearman"] == pytest.approx(-1.0)
    assert rows.loc[("these pictures", "mean"), "Spearman p"] == pytest.approx(1 / 3)  # 2 of 3! orders
    assert any("cannot show a trend" in note for note in report.results.notes)


def test_means_of_scores_are_those_of_the_cells(world):
    users = findings(run(world, "oasis-internet-users", scale=0.025))
    cells = findings(run(world, NATIONALITIES, scale=0.025))
    for nationality in ("Iranian", "Indian", "Mexican"):
        scores = [f.estimate.value for k, f in cells.items() if k.startswith(nationality) and "stereotype" in k]
        for summary, of in SUMMARIES.items():
            assert users[f"{nationality} {summary}"].estimate.value == pytest.approx(of(scores), abs=1e-9)


def test_the_published_trend_does_not_hold_for_flux():
    # Means of Ψ by FLUX.1 [dev]: Iranian 30.7, Mexican 31.8, Indian 8.3: more users, yet Mexican is above.
    published = Published(find_design("oasis-internet-users"))
    means = {n: _published(published, n, "FLUX.1 [dev]", "mean") for n in ("Iranian", "Mexican", "Indian")}
    assert means == pytest.approx({"Iranian": 0.3074, "Mexican": 0.318, "Indian": 0.0826}, abs=5e-4)
    users = {"Iranian": 78.1, "Mexican": 96.8, "Indian": 881.3}
    found = _correlate([(users[n], means[n]) for n in users], 0)
    assert found["Spearman"] == pytest.approx(-0.5)
    assert found["Spearman p"] == pytest.approx(1.0)


def test_correlations_of_a_planted_trend_and_none_of_too_few_or_equal_nationalities():
    for points in ([], [(1.0, 2.0)], [(1.0, 2.0), (2.0, 1.0)], [(1.0, 0.5)] * 3):
        assert all(math.isnan(value) for value in _correlate(points, 0).values())
    x = np.arange(1.0, 7.0)
    found = _correlate(list(zip(x, 10 - x**2, strict=True)), 0)
    assert found["Spearman"] == pytest.approx(-1.0)
    assert found["Spearman p"] == pytest.approx(2 / math.factorial(6))
    series = pd.DataFrame({"x": x, "y": 10 - x**2})
    assert found["Pearson"] == pytest.approx(series.corr().loc["x", "y"])


def test_what_the_errors_of_the_reader_cannot_be_is_not_corrected():
    from bias_core.studies.kit.attribute_scores import _corrected
    from bias_core.types import ReaderErrors

    errors = ReaderErrors(sensitivity=0.72, specificity=1.0, n_positive=434, n_negative=1176)
    how = {"fixed_n": True, "confidence": 0.95}
    assert _corrected(195, 200, errors, **how) is None  # 97 % seen by one who misses 28 %
    assert _corrected(100, 200, errors, **how) is not None
    blurred = replace(errors, specificity=0.8)
    assert _corrected(2, 200, blurred, **how) is None  # 1 % by one who calls 20 % by mistake
    assert stereotype_score(0.3, 0.1) == pytest.approx(0.2)
