"""Small validity studies: what is planted is found, also in steps and parts of a model, and each check can fail."""

from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import fleiss_kappa, krippendorff_alpha
from bias_core.measures.paired_stereotype import order_effect
from bias_core.report.claims import decide_claims
from bias_core.report.headlines import headline
from bias_core.report.report_text import get_table
from bias_core.run.plan import settle
from bias_core.run.run import complete, run_study
from bias_core.study.types import StudySettings
from bias_core.types import GeneratedImage, Step
from bias_core.world.scene import draw_scene
from tests import shared
from tests.study.oasis_runs import table
from tests.ui.fakes import FakeServices, TracedRenderer, _portrait
from validation import find_study, people, raters, validity_studies
from validation.raters import answer_table, true_agreement
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
from validation.texts import planted_cluster
from validation.verdicts import results_of

services = shared.real_services


def study(name, **changes):
    return replace(find_study(f"validity-{name}"), **changes)


PEOPLE = study("people", images_per_prompt=14)
RATERS = study("raters", images_per_prompt=60)
SMALL = {PEOPLE.name: {"repetitions": 3, "pool": 14}, RATERS.name: {"repetitions": 3, "pool": 24}}


def run(services, design, **options):
    settings = StudySettings(model="calibration-renderer", options=SMALL[design.name] | options)
    return complete(run_study(design, settings, services))


def named(services, *cases, **options):
    design = study("texts")
    design = replace(design, data={**design.data, "cases": list(cases)})
    options = {"clusters": 4, "pictures": 20, "drawn": 60} | options
    return complete(run_study(design, StudySettings(scale=0.25, options=options), services))


def test_the_first_text_names_what_is_planted_and_halves_at_random_have_nothing_to_name(services):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["woman"]}
    report = named(services, nurse)
    texts = table(report, "texts")
    of_condition = ["one attribute", "natural", "natural", "at random"]
    assert texts.groupby("search")["kind"].apply(list).tolist() == [of_condition * 2] * 2
    app = texts[texts["search"] == "as in the app"].set_index("kind")
    assert (app.loc["at random", "attribute"] == "").all()
    named_in = app.loc["one attribute", "named"].mean()
    assert not any("too few" in note for note in report.results.notes)
    says = "The text that the headline shows names the attribute that a cluster shares in "
    assert f"{says}{100 * named_in:.0f}" in headline(report)


def test_an_attribute_that_is_in_too_few_pictures_is_said(services):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["sombrero"]}
    report = named(services, nurse)
    assert set(table(report, "texts")["kind"]) == {"natural", "at random"}
    assert "or lack them: 2." in " ".join(report.results.notes)
    assert "that a cluster shares" not in headline(report)


def test_a_planted_cluster_has_its_shares_and_no_picture_in_common_with_the_others():
    cells = np.arange(100), np.arange(100, 150), np.arange(150, 300)
    shares = [[0.4, 0.4, 0.2], [0.1, 0.1, 0.8]]
    inside, outside = planted_cluster(cells, shares, 20, np.random.default_rng(3))
    assert [np.isin(inside, cell).sum() for cell in cells] == [8, 8, 4]
    assert [np.isin(outside, cell).sum() for cell in cells] == [4, 4, 32]
    assert len({*inside, *outside}) == 60
    assert planted_cluster((cells[0][:11], *cells[1:]), shares, 20, np.random.default_rng(3)) is None


def inside(frame):
    known = frame.dropna(subset=["low", "target"])
    return (known["low"] <= known["target"] + 1e-9) & (known["target"] <= known["high"] + 1e-9)


def shifted(effect):
    moved = replace(effect.estimate, low=effect.estimate.low + 3, high=effect.estimate.high + 3)
    return replace(effect, estimate=moved)


def test_repeated_intervals_hold_what_the_pool_shows_and_the_check_can_fail(services, monkeypatch):
    right = run(services, PEOPLE).results.frame("repetitions")
    assert inside(right).mean() > 0.8
    assert set(right["measure"]) == {"order_effect"}
    # What a group plants is told from what it does not, which stands with the pictures where nothing is planted.
    of_role = right[right["variant"] == "of the role"]
    assert set(of_role.loc[of_role["condition"] == "people", "unit"]) == {"role role"}
    assert set(of_role.loc[of_role["condition"] == "fair", "unit"]) == {"role role", "place fair", "place people"}
    monkeypatch.setattr(people, "order_effect", lambda *given, **how: shifted(order_effect(*given, **how)))
    assert not inside(run(services, PEOPLE, repetitions=1).results.frame("repetitions")).any()


SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def test_every_measure_of_raters_stands_by_its_target_and_the_check_can_fail(services, monkeypatch):
    monkeypatch.setattr(raters, "agreement_estimate", estimate := partial(raters.agreement_estimate, n_resamples=200))
    rows = run(services, RATERS).results.frame("repetitions")
    assert set(rows["measure"]) == {
        "krippendorff_alpha", "fleiss_kappa", "cohen_kappa", "largest_disagreement",
        "missing_things",
    }  # fmt: skip
    assert (rows["low"] <= rows["target"]).mean() > 0.85 < (rows["target"] <= rows["high"]).mean()
    null = rows[(rows["condition"] == "chance") & (rows["measure"] != "largest_disagreement")]
    assert null["target"].abs().max() < 1e-6
    agreements = raters._Agreements(shown=np.arange(200) % 4, n=100, confidence=0.95)
    assert [holds(agreements, "fleiss_kappa", seed) for seed in range(3)] == [True] * 3
    monkeypatch.setattr(raters, "agreement_estimate", lambda *given, **how: estimate(*given, **how).scaled(1.0, 0.5))
    assert [holds(agreements, "fleiss_kappa", seed) for seed in range(3)] == [False] * 3


def holds(agreements, measure, seed):
    lines = agreements.lines({"condition": "accurate", "repetition": seed}, np.random.default_rng(seed))
    line = next(one for one in lines if one["measure"] == measure)
    return line["low"] <= line["target"] <= line["high"]


def test_true_agreement_is_that_of_very_many_answers():
    # Who says the truth with probability a, else an answer by lot with the pictures' own shares: κ = a²
    even = [answer_table(0.6, SHARES)] * 2
    assert true_agreement(SHARES, [even[0], even[1].copy()]) == pytest.approx(0.36)
    assert true_agreement(SHARES, [answer_table(0.0, SHARES), answer_table(0.0, SHARES[::-1])], marginals="each") == (
        pytest.approx(0.0)
    )
    chance = np.random.default_rng(3)
    looks = chance.choice(4, 40_009, p=SHARES)
    two = [answer_table(0.7, SHARES), answer_table(0.5, SHARES[::-1], 0.4)]
    said = raters._answers(looks, two, chance)
    assert cohen_kappa_score(*said.T) == pytest.approx(true_agreement(SHARES, two, marginals="each"), abs=0.01)
    assert fleiss_kappa(said) == pytest.approx(true_agreement(SHARES, two), abs=0.01)
    assert krippendorff_alpha(said) == pytest.approx(true_agreement(SHARES, two), abs=0.01)


@pytest.mark.parametrize(("design", "settings", "says"), [
    (RATERS, {"options": {"conditions": ("chance", "half")}}, "conditions are chance, half, accurate"),
    (PEOPLE, {"options": {"conditions": ("fair", "extreme")}}, "conditions are fair, people"),
    *((design, {"images": "old.zip"}, "nothing is planted in imported") for design in (study("texts"), RATERS)),
])  # fmt: skip
def test_what_a_study_does_not_plant_is_refused(services, design, settings, says):
    with pytest.raises(InvalidInput, match=says):
        complete(run_study(design, StudySettings(model="calibration-renderer", **settings), services))


DESIGN = find_study("validity-steps")
FEW_STEPS = {
    "attributes": [
        {"name": "man", "positive": "a photo of a man", "negative": "a photo of a woman"},
        {"name": "dark", "positive": "a photo of a dark-skinned person", "negative": "a light-skinned person"},
    ],
    "cases": [{"concept": "doctor", "prompt": "a photo of a doctor", "planted": ["man"]}],
}


class Planted(TracedRenderer):
    """Published doctors are men from the second step on, but for every third seed; all others are women."""

    def __init__(self, reader):
        one, other = FEW_STEPS["attributes"]
        rng = Random(0)
        pictures = [draw_scene(_portrait(rng), 64) for _ in range(60)]
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
    options = {"conditions": ["fair", "published"], "repetitions": 2, "seeds": 2}
    settings = StudySettings(model="calibration-diffusion", options=options)
    yield complete(run_study(replace(DESIGN, data=FEW_STEPS), settings, services))
    services.close()


def test_gains_follow_what_finished_pictures_gain_and_velocities_that_do_not_are_shown_not_to(report):
    findings = {one.key: one for one in report.results.findings}
    assert findings["gain published"].estimate.value == pytest.approx(1)
    assert findings["gain published"].says.startswith("Inconclusive")  # resamples of an exact order all agree
    assert findings["SPI published"].estimate.value < 0.6
    seeds = get_table(report, "seeds").frame
    men = seeds[(seeds["attribute"] == "man") & (seeds["condition"] == "published")]
    assert men["gain"].tolist() == [2 / 3 if seed % 3 else 0 for seed in men["seed"]]


def test_intervals_of_what_is_not_planted_hold_nothing_and_so_few_are_inconclusive(report):
    verdicts = get_table(report, "verdicts").frame
    (line,) = verdicts.to_dict("records")
    assert line["intervals hold"] == "100.0 % of 6"  # twice both attributes under fair, the other one under published
    assert line["false alarms"] == "0.0 % of 6"
    assert float(line["mean, nothing planted"]) == 0
    assert float(line["mean, all planted"]) == pytest.approx(0.44, abs=0.1)
    assert line["verdict"].startswith("inconclusive")
    assert "intervals that a verdict needs" in line["verdict"]


@pytest.mark.parametrize(("noise", "verdict"), [(0.2, "above"), (20.0, "below"), (1.0, "not clear")])
def test_a_correlation_is_held_against_its_bar(noise, verdict):
    rng = np.random.default_rng(0)
    gained = rng.normal(size=(2, 30))
    estimate = rank_correlation(gained + rng.normal(scale=noise, size=(2, 30)), gained, StudySettings())
    (claim,) = decide_claims([estimate])
    assert claim.verdict == verdict
    assert (claim.verdict == "not clear") == (estimate.low <= 0.6 <= estimate.high)


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
    CAUSE_SETTINGS = settle(CAUSES, StudySettings()).settings
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
    assert 3 * len(set(ways)) == len(ways) == 3 * (7 + 6)  # weights, and exchanges, on three seeds
    assert {shot.n for shot in shots} == {CAUSE_SETTINGS.options.pool}
    assert len({shot.first_seed for shot in shots}) == 3


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
    with pytest.raises(InvalidInput, match="imported pictures have no denoising steps"):
        pool_suits(StudySettings(images="pictures.zip"), None)
