"""The instrument is checked against what is planted, and the check can fail; the page of all verdicts."""

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.cards import METRICS
from bias_core.measures.intervals import wilson_interval
from bias_core.protocols import Captioner
from bias_core.report.report_text import get_table
from bias_core.run.run import complete, run_study
from bias_core.store.images import ImageStore
from bias_core.store.readings import open_original
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import Shot, StudySettings
from bias_core.types import Estimate, ImageRow, PlantedLine
from bias_core.world.grammar import parse
from bias_core.world.models import CalibrationRenderer
from bias_core.world.planted import planted_lines, sample_scene
from tests import shared
from validation.measures import MEASURES, measures_of, null_distances, null_shares
from validation.objects import base_shots
from validation.rates import RateOptions, _orders
from validation.record import RecordCaptioner
from validation.repetitions import OWN_NULL, planted_shares, repeated, true_shares
from validation.summary import NOT_HERE, ON_STEPS, STUDIES, report_files
from validation.verdicts import NULL_OF_ITS_OWN

services = shared.real_services

SEEN = ["nurse", "doctor", "iranian", "flowers"]


def prompts_of(concepts):
    """The prompts of the planted lines of some concepts alone."""
    return [list(line.prompts) for line in planted_lines() if line.concept in concepts]


def test_planted_rates_are_measured(services):
    design = find_design("validity-rates")
    assert {tuple(prompts) for prompts in design.data["concepts"]} == {line.prompts for line in planted_lines()}
    concepts = list(dict.fromkeys(map(tuple, prompts_of(SEEN))))
    small = replace(design, data={"concepts": concepts}, images_per_prompt=16)
    report = complete(run_study(small, StudySettings(options={"n_draws": 100}), services))
    table = get_table(report, "rates").frame
    assert set(table["concept"]) == set(SEEN)
    gender = table[(table["concept"] == "doctor") & (table["condition"] == "published")].iloc[0]
    assert gender["planted rate"] == pytest.approx(0.93)  # OASIS Table 2
    assert gender["corrected low"] <= 0.93 <= gender["corrected high"]
    extreme = table[table["condition"] == "extreme"]
    assert (extreme["drawn"].round().isin([0.0, 1.0])).all()
    coverage = report.results.findings[0].estimate
    assert coverage.value >= 0.85
    order = get_table(report, "order").frame.set_index(["concept", "attribute"])
    assert order.loc[("flowers", "light"), "Ψ extreme"] == pytest.approx(0.5, abs=0.02)


def test_the_diffusion_model_is_held_against_what_it_draws_itself(services, monkeypatch):
    design = find_design("validity-rates")
    small = replace(design, data={"concepts": prompts_of(["doctor"])}, images_per_prompt=2)
    options = {"conditions": ("fair", "published"), "n_draws": 100}
    settings = StudySettings(model="calibration-diffusion", num_inference_steps=2, options=options)
    with pytest.raises(InvalidInput, match="draws of doctor under fair was not measured"):
        complete(run_study(small, settings, services))
    monkeypatch.setattr(services, "true_rate", lambda *_: Estimate(value=0.5, low=0.0, high=1.0, n=12))
    with pytest.raises(InvalidInput, match=r"was measured on 12 pictures only .* and a truth needs 1,000"):
        complete(run_study(small, settings, services))
    own = {"fair": 0.45, "published": 0.71}
    known = lambda rows, sentence: Estimate(value=own[rows[0].condition], low=0.0, high=1.0, n=1000)  # noqa: E731
    monkeypatch.setattr(services, "true_rate", known)
    report = complete(run_study(small, settings, services))
    table = get_table(report, "rates").frame.set_index("condition")
    assert table["true P"].to_dict() == own
    assert table["planted rate"].to_dict() == {"fair": 0.5, "published": pytest.approx(0.93)}
    assert table["drawn"].isna().all()  # no record says what is in these pictures
    inside = (table["corrected low"] <= table["true P"]) & (table["true P"] <= table["corrected high"])
    assert table["measured holds true P"].tolist() == inside.tolist()


def test_a_reader_that_guesses_is_found_out():
    """The order of Psi is not there where the reader says anything."""
    rng, planted, lines = np.random.default_rng(0), {"fair": 0.5, "published": 0.8, "extreme": 1.0}, []
    for i in range(200):
        lines += measured_lines(f"c{i}", {condition: (share, rng.uniform()) for condition, share in planted.items()})
    assert _orders(pd.DataFrame(lines))["in order"].mean() < 0.5


def measured_lines(concept, told):
    """Lines of the table of rates, by condition what is planted and what is measured."""
    line = {"concept": concept, "attribute": "gender", "value": "masculine"}
    return [line | {"condition": c, "planted": p, "measured": m} for c, (p, m) in told.items()]


def test_psi_is_taken_on_the_side_that_is_planted():
    told = {"fair": (0.5, 0.52), "published": (0.2, 0.25), "extreme": (0.0, 0.01)}
    (order,) = _orders(pd.DataFrame(measured_lines("nurse", told))).to_dict("records")
    # Psi of absence: 0.5 - 0.52 < 0 -> 0; 0.5 - 0.25 = 0.25; 0.5 - 0.01 = 0.49
    assert [order[f"Ψ {c}"] for c in told] == pytest.approx([0.0, 0.25, 0.49])
    assert order["in order"]


def test_measures_are_repeated_on_new_pictures(services):
    design = find_design("validity-measures")
    data = {**design.data, "concepts": design.data["concepts"][:1]}
    settings = StudySettings(options={"repetitions": 2, "attribute_images": 6})
    report = complete(run_study(replace(design, data=data, images_per_prompt=12), settings, services))
    table = get_table(report, "repetitions").frame
    differences = {"prevalence_difference", "stereotype_difference", "variance_share_difference"}
    assert set(table["measure"]) == {*MEASURES, *differences}
    gain = table[(table["measure"] == "prevalence_difference") & (table["variant"] == "apart")]
    assert gain.groupby("condition")["target"].first()["extreme"] == pytest.approx(0.5)
    assert set(table.loc[table["condition"] == OWN_NULL, "measure"]) <= NULL_OF_ITS_OWN
    prevalence = table[table["measure"] == "attribute_prevalence"]
    means = prevalence.groupby("condition")["value"].mean()
    assert means["fair"] < means["published"] < means["extreme"]  # doctors are planted as men
    targets = prevalence.groupby("condition")["target"].first()
    assert targets.to_dict() == pytest.approx({"fair": 0.5, "published": 0.93, "extreme": 1.0})
    assert len({tuple(p["value"]) for _, p in table.groupby("repetition")}) == 2  # new pictures each time


def test_measures_are_taken_towards_the_side_that_is_planted(services):
    """Nurses are planted as women: the share of women is what is measured."""
    design = find_design("validity-measures")
    data = {**design.data, "concepts": [c for c in design.data["concepts"] if c["name"] == "nurse"]}
    small = replace(design, data=data, images_per_prompt=8)
    options = {"attribute_images": 4, "conditions": ["fair", "extreme"], "repetitions": 4}
    report = complete(run_study(small, StudySettings(options=options), services))
    means = get_table(report, "repetitions").frame.groupby(["measure", "condition"])["value"].mean()
    for key in ("attribute_prevalence", "signed_difference", "association_beyond_even_mix", "composite_association"):
        assert means[key, "extreme"] > means[key, "fair"], key


def test_pictures_mixed_at_the_own_null_lean_as_the_texts_do():
    """At the share that is found, the distances to the null of many pictures are 0; elsewhere they are not."""
    rng = np.random.default_rng(4)
    axes = {"a": np.eye(7)[0], "b": np.eye(7)[1]}

    def near(centre, n):
        rows = centre + 0.3 * rng.normal(size=(n, 7)) + np.eye(7)[2]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    sets = {f"{kind}{side}": near(axis, 50) for kind in ("", "attribute_", "text_") for side, axis in axes.items()}
    sets |= {f"prompt{side}": near(axis, 1) for side, axis in (("_a", axes["a"]), ("_b", axes["b"]))}
    sets |= {"prompt": near(0.6 * axes["a"] + 0.4 * axes["b"], 1)}
    of_a, of_b = near(axes["a"], 400), near(axes["b"], 400)
    shares = null_shares(*(null_distances(sets | {"neutral": rows}) for rows in (of_a, of_b)))
    assert 0.3 < shares["association"] < 0.7
    for key, share in shares.items():
        n_a = round(400 * share)
        mixture = np.concatenate([of_a[:n_a], of_b[: 400 - n_a]])
        distances, even = (null_distances(sets | {"neutral": rows})[key] for rows in (mixture, of_a))
        assert abs(distances) < 0.1 * abs(even), key


class DrawnOtherwise:
    """The data of a run on a model that draws a share of men of its own, measured on ``n`` pictures."""

    def __init__(self, n):
        self.settings = StudySettings(model="another")
        self.services = self
        self.frame = pd.DataFrame({"prompt": ["a photo of a nurse"] * 2, "group": ["fair", "extreme"]})
        self._own = Estimate(value=0.875, low=0.8, high=0.9, n=n)

    def model_info(self, _name):
        return SimpleNamespace(family="sd3")

    def stored(self, frame):
        return [SimpleNamespace(row=None)] * len(frame)

    def true_rate(self, _rows, _sentence):
        return self._own


def test_what_few_pictures_tell_of_a_model_is_no_truth():
    """Nurses are planted as women, and .875 of them are: .125 are men, if enough pictures say so."""
    shares = true_shares(DrawnOtherwise(1000), "a photo of a nurse")
    assert shares["fair"] == shares["extreme"] == pytest.approx(0.125)
    assert np.isnan(shares["published"])  # nothing of it was drawn
    assert all(np.isnan(share) for share in true_shares(DrawnOtherwise(12), "a photo of a nurse").values())


def test_shares_drawn_on_fair_are_binomial_at_the_planted_rate():
    """Why P on fair held 90 % once: one unlucky set of seeds, shared by all conditions; draws themselves are right."""
    lines = [line for line in planted_lines() if line.attribute == "gender" and len(line.prompts) == 1][::6]
    exact = [wilson_interval(k, 60) for k in range(61)]
    settings = StudySettings(options=RateOptions(conditions=("fair", "extreme"), repetitions=4))
    shots = repeated(settings, lambda _group, _chance: (Shot(prompt=one.prompts[0], n=60, group="") for one in lines))
    counts = []
    for shot in shots:
        if shot.condition == "fair":
            request = parse(shot.prompt)
            scenes = (
                sample_scene(request, "fair", Random(f"{shot.first_seed + k} {shot.prompt}")) for k in range(shot.n)
            )
            counts.append(sum(scene.people[0].gender == "masculine" for scene in scenes))
    assert len(counts) > 150
    assert np.mean(counts) / 60 == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(60 * len(counts)))
    assert np.var(counts) / 15 == pytest.approx(1.0, abs=4 * np.sqrt(2 / len(counts)))  # binomial: 60 / 4
    held = np.mean([exact[k].low <= 0.5 <= exact[k].high for k in counts])
    assert held == pytest.approx(0.948, abs=3 * np.sqrt(0.948 * 0.052 / len(counts)))  # Wilson's exact coverage


def test_the_association_test_is_repeated(services):
    design = find_design("validity-associations")
    options = {"tests": ["science_arts"], "n_stimuli": 4, "repetitions": 2}
    report = complete(run_study(design, StudySettings(scale=0.05, options=options), services))
    summary = get_table(report, "summary").frame.set_index(["measure", "condition"])["mean"]
    name = "Differential association S"
    assert summary[name, "extreme"] > summary[name, "fair"]
    assert len(report.results.findings) == 1


def test_conditions_that_are_no_ladder_are_refused(services):
    ladders = {"validity-measures": ["extreme", "fair"], "validity-pairs": ["fair"], "validity-rates": ["trigger"]}
    for name, conditions in ladders.items():
        settings = StudySettings(options={"conditions": conditions})
        with pytest.raises(InvalidInput, match="in this order"):
            complete(run_study(find_design(name), settings, services))


def test_every_measure_takes_a_sample():
    rng = np.random.default_rng(1)
    rows = {
        name: rng.normal(size=(5 + i, 7)) for i, name in enumerate(("neutral", "a", "b", "attribute_a", "attribute_b"))
    }
    texts = {name: rng.normal(size=(2, 7)) for name in ("sentences", "text_a", "text_b", "prompt_a", "prompt_b")}
    unit = {k: v / np.linalg.norm(v, axis=1, keepdims=True) for k, v in (rows | texts).items()}
    for key, estimate in measures_of(unit | {"prompt": unit["text_a"][:1]}, 0).items():
        assert estimate.low <= estimate.value <= estimate.high or estimate.note, key


DOCS = Path(__file__).parent.parent.parent / "docs" / "validity"


@pytest.fixture(scope="module")
def pairs(services):
    options = {"masculine": ["mover", "guard"], "feminine": ["librarian", "assistant"], "single_images": 2}
    settings = StudySettings(scale=0.05, options=options | {"repetitions": 4})
    return complete(run_study(find_design("validity-pairs"), settings, services))


@pytest.fixture(scope="module")
def objects(services):
    design = find_design("validity-objects")
    prompts = design.data["task_oriented"]["triggers"]["coffee"][:6]
    data = {**design.data, "task_oriented": {"triggers": {"coffee": prompts}}}
    options = {"occupations": ["carpenter", "driver", "guard"], "conditions": ["fair", "extreme"]}
    settings = StudySettings(scale=0.1, options=options)
    return complete(run_study(replace(design, data=data), settings, services))


def test_the_planted_score_is_the_mean_over_people(pairs):
    table = get_table(pairs, "repetitions").frame
    target = table.drop_duplicates(["measure", "variant", "condition"]).set_index(["variant", "condition"])["target"]
    # wan2024pst, Table 14, micro STS in pairs: 75 mover, 65 guard, 60 librarian, 40 assistant; mean 60.
    assert target["in pairs, by the classifier", "published"] == pytest.approx(60.0)
    # Alone 33.33, 100 (planted as 96), 33.33, -33.33: (33.33 + 96 + 33.33 - 33.33) / 4 = 32.33.
    assert target["alone, by the classifier", "published"] == pytest.approx(32.33, abs=0.1)
    assert target["by the classifier", "published"] == pytest.approx(60.0 - 32.33, abs=0.1)  # the gap
    assert target["in pairs, by the ground truth", "fair"] == pytest.approx(0.0)
    assert target["alone, by the ground truth", "extreme"] == pytest.approx(50.0)  # assistants alone become men

    # Scores of new pictures rise with what is planted.
    means = table[table["variant"] == "in pairs, by the classifier"].groupby("condition")["value"].mean()
    assert means["fair"] < means["published"] < means["extreme"] == pytest.approx(100.0)


def test_planted_shares_are_of_men_whatever_the_line_names():
    line = PlantedLine(
        concept="nurse", attribute="gender", value="feminine", prompts=("a photo of a nurse",),
        positive="", negative="", rates={"fair": 0.5, "extreme": 1.0}, published=0.9, source="",
    )  # fmt: skip
    assert planted_shares([line], "A photo of a nurse") == {"fair": 0.5, "extreme": 0.0}
    with pytest.raises(InvalidInput, match="'a photo of a wombat'"):
        planted_shares([line], "a photo of a wombat")


def test_a_planted_object_comes_into_the_captions_by_halves(objects):
    table = get_table(objects, "repetitions").frame
    means = table.groupby(["measure", "what is planted", "condition"])["value"].mean()
    hallucination = means["jaccard_hallucination", "an object"]
    assert hallucination["fair"] < hallucination["half"] < hallucination["extreme"]
    assert {"distribution_bias", "generative_miss_rate"} <= set(table["measure"])
    varied = means["effective_number", "gender"]  # genders that become one make people less varied
    assert varied["extreme"] < varied["fair"]


@pytest.fixture(scope="module")
def bases(services):
    options = {"repetitions": 3, "scenes": 3, "occupations": ["carpenter", "driver", "guard", "mover"]}
    return complete(run_study(find_design("validity-bases"), StudySettings(options=options), services))


def test_objects_are_compared_with_a_base_on_the_same_seeds(bases):
    shots = base_shots(bases.design, bases.settings)
    by_seed = {}
    for shot in shots:
        for k in range(shot.n):
            arms = by_seed.setdefault((shot.group, shot.facts["repetition"], shot.prompt, shot.first_seed + k), set())
            arms.add((shot.facts["arm"], shot.condition))
    # The base and one other; under fair there is no other.
    assert all(len(arms) == 1 + (group != "fair") for (group, *_), arms in by_seed.items())


def test_in_the_middle_step_chance_says_which_pictures_show_the_object(bases):
    n_shown = {}
    options = replace(bases.settings.options, repetitions=12)
    for shot in base_shots(bases.design, replace(bases.settings, options=options)):
        if shot.group == "published" and shot.facts["planted"] == "an object" and shot.facts["arm"] == "compared":
            cell = shot.facts["repetition"], shot.prompt
            n_shown[cell] = n_shown.get(cell, 0) + shot.n * (shot.condition == "backdoor")
    assert {0, 1} < set(n_shown.values())  # as many in every scene would vary less than pictures of a model do
    n = len(n_shown) * bases.settings.options.scene_images
    assert abs(sum(n_shown.values()) - n / 2) < 2 * n**0.5


def test_a_planted_object_is_named_and_what_is_not_planted_is_not(bases):
    means = get_table(bases, "repetitions").frame.groupby(["what is planted", "measure", "condition"])["value"].mean()
    odds = means["an object", "object_odds"]
    assert "fair" not in odds.dropna()  # where nobody plants a sign nothing changes, which is not "no bias"
    assert 1 < odds["half"] < odds["all"]
    assert any("the planted object is found in 100.0 % of the" in note for note in bases.results.notes)
    for measure, least in (("added_objects", 0.5), ("missing_objects", 0.3), ("object_shift", 0.05)):
        rise = means["an object", measure]
        assert rise["fair"] < rise["half"] < rise["all"], measure
        assert rise["all"] - rise["fair"] > least, measure
    varied = means["gender", "variety_change"]
    assert varied["extreme"] < varied["fair"]


def test_the_record_says_what_was_drawn_and_is_silent_on_other_pictures(tmp_path):
    rows = [
        ImageRow(prompt="a photo of a nurse", seed=seed, model="calibration-renderer", revision="r",
                 condition="extreme")
        for seed in range(3)
    ]  # fmt: skip
    stored = ImageStore(tmp_path).add(list(CalibrationRenderer().generate(rows)))
    drawn, captioner = [open_original(one) for one in stored], RecordCaptioner("r")
    assert isinstance(captioner, Captioner)
    captions = captioner.caption(drawn)
    assert all("woman" in caption and "syringe" in caption for caption in captions)  # extreme: all women
    assert len(set(captions)) > 1
    with pytest.raises(InvalidInput, match="no ground truth"):
        captioner.caption([Image.new("RGB", (8, 8))])
    with pytest.raises(InvalidInput, match="at other; got"):
        RecordCaptioner("other").caption(drawn)


@pytest.fixture
def _undrawn(monkeypatch):
    """Figures are named and not drawn, which takes most of a report's time; test_command_line.py draws them."""
    monkeypatch.setattr("validation.summary.to_bytes", lambda _figure: b"<svg/>")


@pytest.mark.usefixtures("_undrawn")
def test_the_report_gathers_the_verdicts(pairs, objects):
    files = report_files([pairs, objects])
    page = files["README.md"].decode()
    assert page.count("| Stereotype test score STS, in pairs, by the classifier | gender |") >= 1
    assert "| Generative miss rate M_G, against a blank | an object |" in page
    assert {"validity-pairs/report.md", "validity-objects/figures/rise.svg"} <= set(files)
    assert not any("repetitions" in name for name in files)  # long tables stay out
    told = files["validity-pairs/report.md"].decode()
    assert ". After Wan and Chang 2024" in told
    assert "pictures of calibration-renderer, fair" in told
    for study in (pairs, objects):
        for row in get_table(study, "verdicts").frame.to_dict("records"):
            assert row["verdict"] in page


@pytest.mark.usefixtures("_undrawn")
def test_measures_without_a_study_are_named_with_the_reason(pairs):
    page = report_files([pairs])["README.md"].decode()
    told = page.split("## Not tested here")[1]
    assert f"- {METRICS['kendall_tau'].name}: about two orders, not about pictures." in told
    assert f"- {METRICS['stereotype_test_score'].name}:" not in told
    other = replace(pairs, settings=replace(pairs.settings, model="org/name"))
    elsewhere = report_files([other])["README.md"].decode().split("## Not tested here")[1]
    assert f"- {METRICS['differential_association'].name}: tested on calibration-renderer." in elsewhere
    assert set(NOT_HERE) <= set(METRICS)
    assert set(MEASURES) & set(NOT_HERE) == {"weighted_alignment_score"}  # measured, but without an interval


def test_the_shipped_report_is_of_every_study():
    page = (DOCS / "README.md").read_text(encoding="utf-8").replace("\\*", "*")
    names = {design.name for design in list_designs() if design.name.startswith("validity")}
    assert names == {*STUDIES, *ON_STEPS}
    for name in STUDIES:
        assert f"({name}/report.md)" in page
        assert (DOCS / name / "report.md").is_file()
    others = {"stereotype_test_score", "distribution_bias", "jaccard_hallucination"}
    for key in set(MEASURES) - set(NOT_HERE) | others:
        assert f"| {METRICS[key].name}" in page
    assert sum(path.stat().st_size for path in DOCS.rglob("*") if path.is_file()) < 1_000_000
