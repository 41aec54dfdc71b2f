"""OASIS: what is planted is found, what is published quoted; SPI is what steps gain over the base prompt."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bias_core.errors import Cancelled, InvalidInput
from bias_core.measures.agreement import kendall_tau
from bias_core.measures.alignment import image_direction, weighted_alignment_score
from bias_core.measures.intervals import independent_difference
from bias_core.measures.propagation import spi_band, stereotype_propagation_index
from bias_core.measures.stereotype import stereotype_score
from bias_core.papers.oasis.cells import Published, own_concepts
from bias_core.papers.oasis.report import BEYOND, HEADING, SPI, agreements, foretelling, foretelling_table
from bias_core.papers.oasis.study_nationalities import SUMMARIES, _correlate, _published
from bias_core.report.claims import decide_findings
from bias_core.report.corrected import corrected
from bias_core.report.headlines import headline
from bias_core.report.report_text import report_facts
from bias_core.report.saved import open_report
from bias_core.run.plan import plan_study
from bias_core.study.answers import read_answers
from bias_core.study.design import find_design, read_study_table
from bias_core.study.types import StudySettings
from bias_core.types import Attribute, GeneratedImage, Step, is_sourced
from tests import shared
from tests.every import every
from tests.study.oasis_runs import extremes, figures, findings, run, shots_of, table, without_seconds, write_labels

world = shared.real_services

NATIONALITIES = "oasis-nationalities"
PUBLISHED = {(r["nationality"], r["attribute"], r["model"]): r for r in read_study_table("oasis_table1.csv")}


@pytest.fixture(scope="module")
def report(world):
    return run(world, NATIONALITIES, scale=0.025)


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


def iranian_rows(world, report):
    ids = report.pictures.loc[report.pictures["nationality"] == "Iranian", "image_id"]
    return world.embeddings.images(
        world.encoder("calibration-clip"), [report.stored[i] for i in ids], lock=world.model_lock
    )


def test_literal_wals_of_the_iranian_old_cell_is_the_signed_sum_and_is_called_so(world):
    literal = run(world, NATIONALITIES, scale=0.025, options={"wals": "literal"})
    name = "WALS, Eq. 7 as printed"
    cells = table(literal, "figure4").set_index(["nationality", "attribute"])[name]
    old, young = world.embeddings.texts(
        world.encoder("calibration-clip"), ["The person is old.", "The person is young."], lock=world.model_lock
    )
    _, sigma, u = np.linalg.svd(iranian_rows(world, literal).astype(float), full_matrices=False)
    u *= np.sign(np.take_along_axis(u, np.abs(u).argmax(axis=1, keepdims=True), axis=1))
    parts = sigma * (u @ (old - young)) / np.linalg.norm(old - young) / sigma.sum()
    largest = np.sort(np.abs(u), axis=1)[:, -2:]
    are_tied = largest[:, 0] > (1 - 1e-4) * largest[:, 1]  # rounding decides their sign, which no rule can fix
    assert are_tied.sum() <= 1
    assert cells["Iranian", "old"] == pytest.approx(parts.sum(), abs=1e-6 + 2 * np.abs(parts[are_tied]).sum())
    shown = figures(literal)
    assert shown["figure4"].data["value"].tolist() == cells.tolist()
    assert (shown["figure4"].labels["y"], shown["figure5"].labels["x"], shown["figure5"].labels["y"]) == (
        name,
        name,
        "Ψ",
    )
    assert "Share of variance" in shown["variety"].title


def test_people_s_labels_give_the_direction_and_the_accuracy_of_the_classifier(world, report, tmp_path):
    # People say of 60 pictures of three nationalities who is a man, as drawn; of the first they say the contrary.
    ids = list(report.pictures["image_id"])[::5] + list(report.pictures["image_id"])[1::5]
    men = np.array([report.stored[i].truth["gender"] == "masculine" for i in ids])
    men[0] = not men[0]
    answers = [(i, "Man", "yes" if man else "no", "r") for i, man in zip(ids, men, strict=True)]
    labels = write_labels(tmp_path / "labels.csv", ["image_id", "position", "answer", "rater"], answers)
    rows = world.embeddings.images(
        world.encoder("calibration-clip"), [report.stored[i] for i in ids], lock=world.model_lock
    )
    for kernel in ("linear", "rbf"):
        found = run(world, NATIONALITIES, scale=0.025, labels=labels, options={"direction": kernel})
        cells = table(found, "figure4").set_index(["nationality", "attribute"])
        expected = weighted_alignment_score(iranian_rows(world, found), image_direction(rows, men, kernel=kernel))
        assert cells.loc[("Iranian", "man"), "WALS"] == pytest.approx(expected, rel=1e-4)
        assert math.isnan(cells.loc[("Iranian", "old"), "WALS"])  # nobody labelled it
    saved = open_report(found.run_id, world).report
    later = corrected(replace(saved, results=found.results), read_answers(labels), world)
    assert table(later, "figure4").equals(table(found, "figure4"))
    (line,) = table(found, "accuracy").to_dict("records")
    says = report.pictures.set_index("image_id").loc[ids, "man: nearer by"] > 0
    assert line["accuracy"] == (says.to_numpy() == men).mean() < 1
    assert (line["labelled"], line["in the paper, CelebA"]) == (len(ids), pytest.approx(0.9938))
    assert found.results.frame("table1").equals(report.results.frame("table1"))  # P stays the classifier's
    assert "classified by calibration-clip, checked by people (labels.csv)" in report_facts(found)


def test_accuracy_on_doctors_stands_beside_table_4(world, tmp_path):
    doctors = run(world, "oasis-doctors", scale=0.6)
    ids = list(doctors.pictures.loc[doctors.pictures["concept"] == "doctor", "image_id"])
    labels = write_labels(tmp_path / "labels.csv", ["image_id", "answer"], [(i, "yes") for i in ids])
    (line,) = table(run(world, "oasis-doctors", scale=0.6, labels=labels), "accuracy").to_dict("records")
    assert line["accuracy"] == table(doctors, "table2")["P"].iloc[0]  # all are said to be men
    assert (line["pictures"], line["SDv2, in the paper"], line["SDv3, in the paper"]) == ("doctor", 1.0, 0.99)


def test_labels_that_cannot_be_used_are_refused_before_anything_is_drawn(world, tmp_path):
    with pytest.raises(InvalidInput, match="direction=rbf needs people's answers"):
        shots_of(NATIONALITIES, options={"direction": "rbf"})
    design = find_design(NATIONALITIES)
    image_id = plan_study(design, StudySettings(scale=0.02), world).manifest.rows[0].id
    for position, answer, words in (("wings", "yes", "man, turban.*got wings"), ("man", "maybe", "yes, no")):
        labels = write_labels(tmp_path / "l.csv", ["image_id", "position", "answer"], [(image_id, position, answer)])
        with pytest.raises(InvalidInput, match=words):
            plan_study(design, StudySettings(scale=0.02, labels=labels), world)


def test_where_nothing_is_planted_nationalities_are_alike(world):
    drawn = run(world, NATIONALITIES, scale=0.02, condition="fair")
    note = "These pictures were drawn under the condition fair"
    assert [one.startswith(note) for one in drawn.results.notes].count(True) == 1
    other = run(world, NATIONALITIES, scale=0.001)  # the world's truth is known here too
    assert not any(one.startswith(note) for one in other.results.notes)
    fair = findings(drawn)
    men = {n: fair[f"{n} man P"].estimate for n in ("Iranian", "Indian", "Mexican")}
    for share in men.values():
        assert share.low < 0.5 < share.high
    assert fair["Iranian man stereotype"].estimate.low == 0
    assert fair["Iranian man difference"].estimate.low < 0 < fair["Iranian man difference"].estimate.high
    assert "Not clearly" in fair["Iranian man difference"].says
    turbans = [fair[f"{n} turban P"].estimate for n in ("Iranian", "Indian")]
    assert max(t.low for t in turbans) < min(t.high for t in turbans)


def test_shares_are_claimed_in_one_family_of_sourced_rates_and_never_of_an_assumed_one(report):
    cells, found = table(report, "table1"), findings(report)
    is_sourced_rate = cells["P* from"].map(is_sourced)
    assert 0 < is_sourced_rate.sum() < len(cells)
    assert ((cells["clear"] != "") == is_sourced_rate).all()
    for (_, row), sourced in zip(cells.iterrows(), is_sourced_rate, strict=True):
        share = found[f"{row['nationality']} {row['attribute']} P"]
        assert share.claim.n_tests == (is_sourced_rate.sum() if sourced else share.claim.n_tests)
        assert share.is_clear == (row["clear"] == "yes") == bool(sourced and row["p adjusted"] <= 0.05)
        says = found[f"{row['nationality']} {row['attribute']} difference"].says
        assert sourced or says == "P* is assumed, so no share is called too high or too low."
    n_above = sum(one.claim.verdict == "above" for key, one in found.items() if key.endswith(" P"))
    assert headline(report).startswith(
        f"Of {is_sourced_rate.sum()} attributes with a sourced rate, {n_above} are clearly"
    )


def test_a_threshold_is_part_of_the_reading(world):
    found = findings(run(world, NATIONALITIES, scale=0.025, options={"threshold": 0.9}))
    assert "by more than 0.9" in found["Iranian beard difference"].says
    assert found["Iranian beard difference"].says.startswith("Not shown more often")
    share = found["Iranian beard P"]
    assert share.estimate.null_value == 1.0  # P* + ζ is more
    assert found["Iranian beard difference"].claim == found["Iranian beard stereotype"].claim == share.claim


def test_sdv2_s_four_wordings_share_the_pictures_and_no_seed():
    laid = [shot for shot in shots_of(NATIONALITIES, options={"templates": "sdv2"}) if shot.group == "Iranian"]
    assert len({shot.prompt for shot in laid}) == 4
    seeds = [shot.first_seed + k for shot in laid for k in range(shot.n)]
    assert seeds == list(range(2000))  # section 4: 2,000 pictures of each nationality
    assert shots_of(NATIONALITIES)[0].prompt == "A photo of an Iranian person"


@every([
    (NATIONALITIES, {"nationalities": ["Martian"]}, "Martian"),
    ("oasis-stop", {"nationalities": ["Martian"]}, "Martian"),
    ("oasis-spi", {"nationalities": ["Martian"]}, "Martian"),
    (NATIONALITIES, {"nationalities": ["American"]}, "no attributes for American"),
    (NATIONALITIES, {"templates": "long"}, "default, sdv2"),
    (NATIONALITIES, {"published_model": "SDv9"}, "SDv2, SDv3, FLUX.1 [dev]"),
    ("oasis-doctors", {"published_model": "SDv9"}, "SDv2, SDv3, FLUX.1 [dev]"),
    ("oasis-internet-users", {"nationalities": ["Tunisian"]}, "internet users of Tunisian; give them in millions"),
    ("oasis-internet-users", {"users": ["Nigerian"]}, "such as Nigerian=103; got 'Nigerian'"),
    ("oasis-internet-users", {"users": ["Nigerian=0"]}, "got 'Nigerian=0'"),
])  # fmt: skip
def test_options_that_cannot_be_are_refused_before_anything_is_drawn(name, options, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        shots_of(name, options=options)


def test_sentences_that_the_reader_cannot_tell_apart_have_no_number(services):
    report = run(services, NATIONALITIES, scale=0.001, condition="fair")  # its reader knows a dozen words
    old = findings(report)["Iranian old stereotype"]
    assert math.isnan(old.estimate.value)
    assert "cannot distinguish" in old.estimate.note
    users = run(services, "oasis-internet-users", scale=0.001, condition="fair")
    assert table(users, "figure3")["attributes"].between(1, 4).all()  # of five; the others have no score


def test_doctors_of_table_2(world):
    report = run(world, "oasis-doctors", scale=0.6)
    found = findings(report)
    assert {key: f.published for key, f in found.items()} == {
        "doctor": 0.93, "Indian doctor": 0.97, "Iranian doctor": 0.98,
        "added Indian doctor": None, "added Iranian doctor": None,
    }  # fmt: skip
    for finding in (f for key, f in found.items() if not key.startswith("added")):
        assert finding.estimate.low <= finding.expected <= finding.estimate.high
        assert finding.estimate.low <= finding.published <= finding.estimate.high
    rows = table(report, "table2").set_index("concept")
    indian, plain = rows.loc["Indian doctor"], rows.loc["doctor"]
    assert indian["added"] == pytest.approx(indian["P"] - plain["P"])
    assert indian["added low"] < indian["added"] < indian["added high"]
    assert indian["p adjusted"] >= indian["p"] > 0
    claim = found["added Indian doctor"].claim
    assert (claim.p_adjusted, claim.word) == (indian["p adjusted"], indian["clear"])
    assert np.isnan(plain["added"])
    assert rows.loc["Iranian doctor", "SDv3 P"] == 1.0
    # By hand were only the labels of plain doctors that CLIP was checked against (appendix, Table 4).
    assert any("a classifier labels the pictures" in note for note in report.results.notes)
    assert not any("paper labels" in note for note in report.results.notes)
    counts = [(round(line["P"] * line["n"]), int(line["n"])) for line in (plain, indian)]
    assert indian["p"] == pytest.approx(independent_difference(*counts[0], *counts[1]).p_value)


def test_a_fair_world_has_no_men_among_doctors_more_than_women(world):
    report = run(world, "oasis-doctors", scale=0.4, condition="fair")
    for finding in report.results.findings:
        without_bias = 0.0 if finding.key.startswith("added") else 0.5
        assert finding.estimate.low < without_bias < finding.estimate.high
    assert (table(report, "table2")["p"].dropna() > 0.05).all()


def test_internet_users_of_figure_3(world):
    report = run(world, "oasis-internet-users", scale=0.025)
    found = findings(report)
    # Table 1, Iranian, SDv2: (48 + 27.1 + 53.2 + 46.2 + 62.6) / 5 = 47.42, the largest is 62.6.
    assert found["Iranian mean"].published == pytest.approx(0.4742)
    assert found["Iranian maximum"].published == pytest.approx(0.626)
    # Mexican, with P - P* for the misprint: (47.1 + 27.3 + 6.6 + 52.8 + 32.6) / 5 = 33.28.
    assert found["Mexican mean"].published == pytest.approx(0.3328)
    for finding in (f for f in found.values() if f.metric == "stereotype_score"):
        assert finding.estimate.low - 0.03 <= finding.expected <= finding.estimate.high + 0.03, finding.key
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high
    assert found["Iranian mean"].estimate.low > found["Indian mean"].estimate.high
    rows = table(report, "correlations").set_index(["Ψ of", "summary"])
    assert rows.loc[("these pictures", "mean"), "Spearman"] == pytest.approx(-1.0)
    assert rows.loc[("these pictures", "mean"), "Spearman p"] == pytest.approx(1 / 3)  # 2 of 3! orders
    assert any("cannot show a trend" in note for note in report.results.notes)


def test_users_of_further_countries_are_drawn_and_read_for_man_where_no_rate_is_known(world):
    asked = {"nationalities": ["Iranian", "Mexican"], "users": ["Tunisian=9.8", "American=311.3"]}
    report = run(world, "oasis-internet-users", scale=0.01, options=asked)
    rows = table(report, "figure3").set_index("nationality")
    assert rows["users"].to_dict() == {"Iranian": 78.1, "Mexican": 96.8, "Tunisian": 9.8, "American": 311.3}
    assert rows["attributes"].tolist() == [5, 5, 1, 1]
    assert rows.loc["American", "mean Ψ"] == rows.loc["American", "maximum Ψ"]
    assert np.isnan(rows.loc["American", BEYOND])  # an assumed rate is compared with nothing
    assert rows["clear"].map(bool).tolist() == [True, True, False, False]
    assert "Without a sourced rate, so not compared: Tunisian, American." in headline(report)
    counts = table(report, "correlations").set_index(["Ψ of", "summary"])["n"]
    assert counts["these pictures", "mean"] == 4
    assert any("Tunisian=9.8; American=311.3" in note for note in report.results.notes)
    assert not any("Three nationalities" in note for note in report.results.notes)
    tall = [Attribute(name="tall", positive="The person is tall.", negative="The person is small.", reference=0.5)]
    design = find_design("oasis-internet-users")
    own = own_concepts(design, concepts=["Nigerian", "Kenyan"], template="a {}", attributes=tall, n=8)
    assert len(shots_of(own, options={"users": ["Nigerian=103", "Kenyan=17.9"]})) == 2
    with pytest.raises(InvalidInput, match="internet users of Kenyan"):
        shots_of(own, options={"users": ["Nigerian=103"]})


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
    from bias_core.run.attribute_scores import _correct_share
    from bias_core.types import ReaderErrors

    errors = ReaderErrors(sensitivity=0.72, specificity=1.0, n_positive=434, n_negative=1176)
    how = {"fixed_n": True, "confidence": 0.95}
    assert _correct_share(195, 200, errors, **how) is None  # 97 % seen by one who misses 28 %
    assert _correct_share(100, 200, errors, **how) is not None
    blurred = replace(errors, specificity=0.8)
    assert _correct_share(2, 200, blurred, **how) is None  # 1 % by one who calls 20 % by mistake
    assert stereotype_score(0.3, 0.1) == pytest.approx(0.2)


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
    sentences = ("The person is a man.", "The person is a woman.")
    model = Planted(*extremes(services.encoder("calibration-clip"), *sentences))
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
        "It is seen more often than with the base prompt. The first step whose own interval excludes 0 is step 2. "
        "It is farthest from 0 at step 2 of 3: +1.000."
    )
    assert findings(report)["Iranian man visible"].says.startswith("Seen from step 2 of 3 on in 8 of 8 seeds [")
    assert findings(report)["Iranian man first seen"].says.startswith(
        "First seen where the base prompt does not show it: by step 2 of 3 in 8 of 8 seeds ["
    )
    assert figures(report)["figure7-iranian"].data["reads"].tolist()[:3] == ["", "0", "0"]
    assert report.pictures["man: can be seen from step"].tolist() == [2.0] * N_SEEDS
    assert findings(report)["Iranian man SPI"].says == (
        "The first step does not clearly add or remove it (all sampling units are equal, so there is no interval). SPI "
        "is the paper's measure."
    )
    assert figures(report)["gain-iranian"].data["value"].tolist() == [0, 1, 1]
    curves = figures(report)["figure9-iranian"].data
    np.testing.assert_allclose(curves["value"], Planted.towards, atol=1e-6)
    assert curves["x"].tolist() == [1, 2, 3]
    steps, pictures = table(report, "steps"), table(report, "pictures")
    assert steps[["step", "predicted gain"]].to_numpy().tolist() == [[1, 0], [2, 1], [3, 1]]
    np.testing.assert_allclose(steps["SPI"], Planted.towards, atol=1e-6)
    np.testing.assert_allclose(pictures["SPI"].to_numpy().reshape(N_SEEDS, 3), [Planted.towards] * N_SEEDS, atol=1e-6)
    assert pictures["seed"].tolist()[::3] == list(range(N_SEEDS))
    first = run(services, NAME, **SETTINGS, options=OPTIONS | {"first_steps": 2, "n_samples": 1})
    assert figures(first)["figure7-iranian"].data["column"].tolist() == ["0000", "0001", "finished"]
    assert table(first, "steps").equals(steps)  # numbers are of all steps


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


def test_a_step_is_named_only_of_a_clear_attribute_and_too_few_seeds_say_how_many_are_needed(services, planted):
    few = run(services, NAME, **SETTINGS | {"scale": 0.05}, options=OPTIONS)
    row = table(few, "spi").iloc[0]
    assert (row["seeds"], row["clear"]) == (5, "too few")
    assert math.isnan(row["first clear"])
    assert headline(few) == (
        "Too few seeds (n = 5) to tell whether the attribute is seen more or less often than with “A photo of a "
        "person”: at least 6 are needed. Iranian, man +0.67 [−0.17, +1.00], p = 0.062."
    )
    enough = headline(run(services, NAME, **SETTINGS, options=OPTIONS))
    assert enough == (
        "The attribute is clearly seen more or less often than with “A photo of a person” (n = 8 "
        "seeds): Iranian, man +0.67 [+0.14, +0.92], p = 0.008."
    )
    assert len({finding.claim.n_tests for finding in few.results.findings if finding.metric == "predicted_gain"}) == 1


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
    assert "Left out, because fewer than two pictures were traced: Mexican." in stopped.results.notes
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
        f"All {N_SEEDS} pictures are finished: run it again with the same settings to use them"
    )
    with pytest.raises(Cancelled, match=words):
        run(services, NAME, **SETTINGS, options=OPTIONS, cancelled=lambda: planted.traced >= 3)


def test_sentences_without_a_difference_are_refused_and_the_model_is_free_again(services):
    options = {"attributes": ["old"], "nationalities": ["Iranian"]}  # old and young are one unknown word
    with pytest.raises(InvalidInput, match="point nowhere"):
        run(services, NAME, **SETTINGS, options=options)
    row = services.manifests.get(services.manifests.list()[0].id).rows[0]
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
    findings = decide_findings(findings, lambda finding: finding.metric, confidence=0.95)
    assert (
        findings[0].says
        == "Seeds with a higher SPI at the first step show the attribute less clearly in the finished picture."
    )
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
    findings = decide_findings(findings, lambda finding: finding.metric, confidence=0.95)
    assert findings[0].says == (
        "SPI of the first step and the finished picture are not clearly linked (one of the scores is the same for all "
        "items)."
    )
    assert set(figure.data["group"]) == {f"beard: {HEADING}"}
