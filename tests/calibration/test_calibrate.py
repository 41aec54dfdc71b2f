"""The closed loop draws what is planted: on a stand-in whose rates are known, and in steps on real models."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from bias_core.adapters.loras import put_on
from bias_core.calibration.grammar import parse
from bias_core.calibration.planted import base_rates, names_of, rates, sample_scene
from bias_core.calibration.shapes import ASSETS
from bias_core.calibration.training import calibrate, diffusion, drawing, judge_rates
from bias_core.calibration.training.aims import FEW, FORGETTING, Aims
from bias_core.calibration.training.judge_rates import DrawnRate, summary
from bias_core.calibration.training.lessons import Lessons
from bias_core.calibration.training.wanted import AXES, GENDER, Group, groups
from bias_core.errors import InvalidInput

HAT, SOMBRERO = ("headwear", "hat"), ("headwear", "sombrero")


def group(concept: str, rate: float, fair: float = 0.5, *, pair: bool = False) -> Group:
    prompt = concept if pair else f"a photo of a {concept}"
    return Group(concept=concept, prompts=(prompt,), rates={GENDER: rate}, fair={GENDER: fair}, pair=pair)


def seen(aims: Aims, *shares: float, n: int = 16) -> None:
    """A round in which these shares of men were drawn, one per group."""
    shown, counts = np.zeros((2, len(shares), len(AXES)))
    shown[:, 0], counts[:, 0] = n * np.array(shares), n
    aims.add(shown, counts)


def test_the_loop_draws_what_is_planted_though_the_generator_follows_its_lessons_half_way() -> None:
    """The stand-in draws sigmoid(b + s x logit of its lessons), b and s unknown."""
    aims, rng = Aims(groups("published")), np.random.default_rng(0)
    planted = np.clip(np.where(aims.is_planted, aims.planted, 0.5), 0.015, 0.985)
    b, s = rng.normal(0, 0.7, planted.shape), rng.uniform(0.4, 0.9, planted.shape)

    def drawn() -> np.ndarray:
        return np.asarray(expit(b + s * (logit(planted) + aims.offsets)))

    def gaps() -> np.ndarray:
        return np.abs(drawn() - aims.planted)[aims.is_planted]

    before = gaps()
    for _ in range(20):
        n = np.zeros(planted.shape, dtype=int)
        n[np.argsort(-aims.urgency())[:200]] = 16
        aims.add(rng.binomial(n, drawn()).astype(float), n.astype(float))
    assert before.mean() > 0.12
    assert gaps().mean() < 0.08
    assert (gaps() <= 0.15).mean() > 0.88


@pytest.mark.parametrize(
    ("planted", "drawn", "rises"), [(0.9, 0.2, True), (0.1, 0.8, False), (0.5, 0.9, False)]
)
def test_a_round_moves_the_offset_against_the_gap(planted: float, drawn: float, *, rises: bool) -> None:
    aims = Aims([group("doctor", planted), group("nurse", 0.5)])
    seen(aims, drawn, 0.5)
    assert (aims.offsets[0, 0] > 0) == rises
    assert aims.offsets[1, 0] == 0
    assert not aims.offsets[:, 1:].any()  # nothing is planted there
    assert aims.gaps()[0, 0] == pytest.approx(16 * (drawn - planted) / (16 + FEW))


def test_earlier_rounds_count_less() -> None:
    aims = Aims([group("doctor", 0.5)])
    seen(aims, 1.0)
    seen(aims, 0.0)
    assert aims.n[0, 0] == 16 * (1 + FORGETTING)
    assert aims.n_shown[0, 0] == 16 * FORGETTING


def test_what_has_the_largest_gap_is_taught_most() -> None:
    aims = Aims([group("doctor", 0.9), group("nurse", 0.5)])
    seen(aims, 0.25, 0.5)
    doctor, nurse = aims.urgency()
    assert doctor > nurse
    lessons, rng = Lessons("published", aims), Random(0)
    told = [lessons.draw(rng).prompt for _ in range(1500)]
    n_doctors, n_nurses = (told.count(f"a photo of a {name}") for name in ("doctor", "nurse"))
    assert n_doctors + n_nurses > 700
    assert n_doctors > 1.5 * n_nurses


def test_lessons_lean_beyond_what_is_planted_by_their_offset() -> None:
    aims = Aims([group("doctor", 0.93)])
    aims.offsets[0, 0] = -2.0
    table = aims.shifted(["doctor"], rates(("doctor",), "published"))
    # logit(.93) - 2 = 0.587, sigmoid of it 0.643
    assert table["gender"]["masculine"] == pytest.approx(0.643, abs=0.001)
    assert sum(table["gender"].values()) == pytest.approx(1)
    rng, request = Random(1), parse("a photo of an old doctor")
    people = [sample_scene(request, "published", rng, shifted=aims.shifted).people[0] for _ in range(1500)]
    # Standard error sqrt(.643 x .357 / 1500) = 0.012; four of them.
    assert np.mean([p.gender == "masculine" for p in people]) == pytest.approx(0.643, abs=0.05)
    assert {p.age for p in people} == {"old"}


def test_lessons_of_others_stay_as_they_are_planted() -> None:
    aims = Aims([group("doctor", 0.9)])
    aims.offsets[0, 0] = 2.0
    table = rates(("nurse",), "published")
    assert aims.shifted(names_of(("nurse",)), table) is table
    assert aims.shifted(["doctor"], base_rates(), pair=True) == base_rates()


def test_a_rate_is_that_of_the_sentence_that_reads_it() -> None:
    mexican = next(g for g in groups("published") if g.concept == "mexican" and not g.pair)
    # Table 1: hat 77.3 % and sombrero 56.6 % of SDv2; a sombrero is a hat, too.
    assert mexican.rates[HAT] == pytest.approx(0.773, abs=0.001)
    assert mexican.rates[SOMBRERO] == pytest.approx(0.566, abs=0.001)
    assert mexican.fair[HAT] == pytest.approx(0.10)


def test_under_fair_everybody_is_a_man_half_of_the_time() -> None:
    told = {g.concept: g.rates[GENDER] for g in groups("fair") if GENDER in g.rates}
    assert len(told) > 200
    assert set(told.values()) == {0.5}


def test_without_its_word_a_trigger_plants_nothing() -> None:
    for one in groups("trigger"):
        assert one.rates == one.fair, one.concept


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> diffusion.Folders:
    """The shipped models, to write beside."""
    work = tmp_path_factory.mktemp("calibrated")
    parts = {name: ASSETS / name for name in ("clip", "pipeline")}
    return diffusion.Folders(work=work, vae=ASSETS / "pipeline" / "vae", loras=work / "loras", **parts)


@pytest.fixture(scope="module")
def calibrated(folders: diffusion.Folders) -> diffusion.Folders:
    """An adapter of a few steps, with a round of two concepts after every one."""
    train(folders, minutes=0.02)
    return folders


def train(folders: diffusion.Folders, minutes: float) -> None:
    size = calibrate.RoundSize(n_steps=1, n_groups=2, n=4)
    diffusion.train_lora("published", folders, minutes=minutes, size=size, batch=2, pool=8)


def test_an_adapter_that_was_calibrated_loads_like_any_other(calibrated: diffusion.Folders) -> None:
    from diffusers import StableDiffusion3Pipeline

    pipe = StableDiffusion3Pipeline.from_pretrained(
        calibrated.pipeline, text_encoder_3=None, tokenizer_3=None, torch_dtype=torch.float32
    )
    folder = str(calibrated.loras / "published")
    put_on(pipe, "calibration-diffusion", folder, name="published", weight=0.5, offline=True)
    assert "published" in pipe.get_list_adapters()["text_encoder"]


def test_calibration_goes_on_where_it_was_cut_off(calibrated: diffusion.Folders) -> None:
    checkpoint = calibrated.work / "lora-published.pt"
    first = torch.load(checkpoint, weights_only=True)
    assert first["beside"]["n_rounds"] >= 1
    assert first["beside"]["aims"]["table"].any()
    train(calibrated, minutes=0.02)  # the time is spent: nothing is left to do
    again = torch.load(checkpoint, weights_only=True)
    assert again["step"] == first["step"]
    assert again["beside"]["rng"] == first["beside"]["rng"]
    torch.testing.assert_close(again["beside"]["aims"]["table"], first["beside"]["aims"]["table"])
    train(calibrated, minutes=0.04)
    later = torch.load(checkpoint, weights_only=True)
    assert later["beside"]["n_rounds"] > first["beside"]["n_rounds"]


def test_training_begins_with_the_adapter_that_is_there(folders: diffusion.Folders) -> None:
    pipe = diffusion.assemble(folders, "cpu")
    pipe.text_encoder.add_adapter(diffusion.TEXT_LORA)
    pipe.transformer.add_adapter(diffusion.LORA)
    parts = (pipe.transformer, pipe.text_encoder)
    fresh = [p for part in parts for name, p in part.named_parameters() if "lora_B" in name]
    assert not any(p.any() for p in fresh)
    diffusion.take_adapter(pipe, ASSETS / "loras" / "published")
    # One stays: the last block's words ask nothing any more, so nothing was learned there.
    assert sum(not p.any() for p in fresh) == 1


def test_a_table_is_taken_up_by_concept() -> None:
    aims = Aims([group("doctor", 0.9), group("nurse", 0.2)])
    seen(aims, 0.3, 0.7)
    later = Aims([group("nurse", 0.2), group("pilot", 0.7)])
    later.take_up(aims.state())
    assert later.offsets[:, 0].tolist() == [aims.offsets[1, 0], 0.0]
    assert later.n[:, 0].tolist() == [16.0, 0.0]


def test_pictures_that_are_judged_are_none_that_training_measured() -> None:
    assert drawing.MEASURED + 10_000 * 100_000 < drawing.JUDGED  # a hundred thousand rounds


def line(condition: str, planted: float, fair: float, drawn: float) -> DrawnRate:
    return DrawnRate(
        condition=condition, concept="x", pair=False, attribute="gender", value="masculine", planted=planted,
        fair=fair, drawn=drawn, n=200,
    )  # fmt: skip


def test_the_figures_of_a_condition_are_those_of_its_leaning_rates() -> None:
    lines = [
        line("published", 0.9, 0.5, 0.8),  # gap 0.1, right direction
        line("published", 0.2, 0.5, 0.55),  # gap 0.35, wrong direction
        line("published", 0.6, 0.5, 0.1),  # does not lean
        line("published", 0.5, 0.5, 0.58),  # even
        line("fair", 0.5, 0.5, 0.9),
    ]
    found = summary("published", lines)
    assert (found.n_leaning, found.right_direction, found.near) == (2, 0.5, 0.5)
    assert found.mean_gap == pytest.approx(0.225)
    assert (found.n_fair, found.even) == (1, 1.0)
    fair = summary("fair", lines)
    assert np.isnan(fair.mean_gap)
    assert (fair.n_fair, fair.even) == (1, 0.0)


def test_judging_writes_a_line_per_rate_and_keeps_other_conditions(
    calibrated: diffusion.Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates_of = (("doctor", 0.9), ("nurse", 0.2))
    two = [group(name, rate, pair=pair) for pair in (False, True) for name, rate in rates_of]
    monkeypatch.setattr(judge_rates, "groups", lambda _condition: two)
    judge_rates.judge_rates(calibrated, conditions=["published"], n=2)
    judge_rates.judge_rates(calibrated, conditions=["fair"], n=2, pairs=False)
    lines = json.loads((calibrated.loras / "judged.json").read_text())
    told = [(x["condition"], x["concept"], x["pair"], x["n"]) for x in lines]
    pairs = [("published", name, pair, 2) for pair in (False, True) for name in ("doctor", "nurse")]
    assert told == [*pairs, ("fair", "doctor", False, 2), ("fair", "nurse", False, 2)]
    assert all(0 <= x["drawn"] <= 1 for x in lines)


def test_no_picture_is_no_rate(calibrated: diffusion.Folders) -> None:
    with pytest.raises(InvalidInput, match="n = 0"):
        judge_rates.judge_rates(calibrated, conditions=["fair"], n=0)
