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
from bias_core.calibration.shapes import ASSETS
from bias_core.calibration.training import calibrate, conditions, diffusion, judge_rates
from bias_core.calibration.training.calibrate import Aims, Teacher
from bias_core.calibration.training.judge_rates import DrawnRate, summary
from bias_core.calibration.training.offsets import curves
from bias_core.calibration.training.steering import AXES, SLOTS, Directions, Words, naming, sites
from bias_core.calibration.training.wanted import GENDER, Group, groups
from bias_core.errors import InvalidInput

BEARD, HAT, SOMBRERO = ("beard", True), ("headwear", "hat"), ("headwear", "sombrero")


def group(concept: str, rate: float, fair: float = 0.5, *, pair: bool = False) -> Group:
    prompt = concept if pair else f"a photo of a {concept}"
    return Group(concept=concept, prompts=(prompt,), rates={GENDER: rate}, fair={GENDER: fair}, pair=pair)


@pytest.fixture(scope="module")
def words() -> Words:
    from transformers import AutoTokenizer

    return Words(AutoTokenizer.from_pretrained(ASSETS / "pipeline" / "tokenizer"))


def slots_of(words: Words, prompt: str) -> list[list[str]]:
    ids = words.ids([prompt])[0]
    found = [words.slots(ids, site) for site in sites(parse(prompt))]
    return [["" if i < 0 else SLOTS[i] for i in row.tolist()] for row in found]


def test_the_loop_draws_what_is_planted_where_every_rate_has_a_curve_of_its_own() -> None:
    """The stand-in's curves start up to two logits away and are up to twice as steep as is expected."""
    aims, rng = Aims(groups("published")), np.random.default_rng(0)
    shape = aims.planned.shape
    start = logit(np.clip(np.where(aims.is_planted, aims.fair, 0.5), 0.02, 0.98)) + rng.normal(0, 0.7, shape)
    slope = rng.uniform(1.2, 4, shape)

    def gaps() -> np.ndarray:
        return np.abs(expit(start + slope * aims.offsets) - aims.planned)[aims.is_planted]

    before = gaps()
    for _ in range(8):
        n = np.zeros(shape, dtype=int)
        n[np.argsort(-aims.urgency())[:200]] = 16
        aims.add(rng.binomial(n, expit(start + slope * aims.offsets)).astype(float), n.astype(float))
    assert before.mean() > 0.11
    assert gaps().mean() < 0.06
    assert (gaps() <= 0.15).mean() > 0.95


@pytest.mark.parametrize(("planted", "n_men", "rises"), [(0.9, 3, True), (0.1, 13, False), (0.5, 14, False)])
def test_a_round_moves_the_offset_against_the_gap(planted: float, n_men: int, *, rises: bool) -> None:
    aims = Aims([group("doctor", planted), group("nurse", 0.5)])
    shown, n = np.zeros((2, 2, len(AXES)))
    shown[0, 0], n[0, 0] = n_men, 16
    before = aims.offsets[0, 0]
    aims.add(shown, n)
    assert (aims.offsets[0, 0] > before) == rises
    assert aims.offsets[0, 1:].tolist() == [0.0] * (len(AXES) - 1)  # nothing is planted there
    assert aims.gaps()[0, 0] == pytest.approx((n_men - 16 * planted) / (16 + calibrate.FEW))


def test_what_has_the_largest_gap_is_taught_and_measured_most() -> None:
    aims = Aims([group("doctor", 0.9), group("nurse", 0.5), group("pilot", 0.5)])
    shown, n = np.zeros((2, 3, len(AXES)))
    n[:2, 0], shown[0, 0], shown[1, 0] = 16, 4, 8  # 25 % of 90 %, 50 % of 50 %; nobody saw a pilot
    aims.add(shown, n)
    doctor, nurse, pilot = aims.urgency()
    assert doctor > nurse
    assert pilot > nurse


def test_a_curve_is_found_in_what_was_drawn() -> None:
    """400 pictures at each of three offsets of sigmoid(0.8 + 1.5 x offset)."""
    at = np.array([-1.0, 0.0, 1.0])[:, None, None]
    n = np.full((3, 1, 1), 400.0)
    b, s = curves(at, n * expit(0.8 + 1.5 * at), n, np.full((1, 1), 0.5))
    assert b[0, 0] == pytest.approx(0.8, abs=0.02)
    assert s[0] == pytest.approx(1.5, abs=0.02)


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


def test_places_of_nouns_and_sides_are_found(words: Words) -> None:
    (row,) = slots_of(words, "a photo of an old construction worker with glasses")
    assert row[:8] == ["", "", "", "noun", "", "", "end", "rest"]
    left, right = slots_of(
        words, "Generate a picture of one nurse on the left and one male nurse on the right."
    )
    assert left[:8] == ["", "noun", "side", "", "", "", "end", "rest"]
    assert right[:8] == ["", "", "", "", "noun", "side", "end", "rest"]


def test_an_attribute_that_is_named_is_left_open_to_nothing_else() -> None:
    (site,) = sites(parse("a photo of a female doctor with a beard"))
    assert not site.open & {GENDER, BEARD}
    assert {HAT, ("age", "old")} <= site.open
    assert naming("nurse", HAT, False, Random(0)) == "nurse not wearing any headwear"


def directions_with(value: float) -> Directions:
    directions = Directions(128).requires_grad_(False)
    directions.at[:, 0] = value  # gender
    return directions


@pytest.fixture(scope="module")
def tower() -> torch.nn.Module:
    from transformers import CLIPTextModelWithProjection

    return CLIPTextModelWithProjection.from_pretrained(
        ASSETS / "pipeline" / "text_encoder", torch_dtype=torch.float32
    )


@pytest.mark.parametrize(
    ("prompt", "moved"),
    [
        ("a photo of a doctor", 0.5),
        ("a photo of an old Iranian doctor", 0.5),
        ("a photo of a male doctor", 0.0),
        ("a photo of a pilot", 0.0),
    ],
)
def test_only_what_is_planted_and_left_open_is_moved(
    words: Words, tower: torch.nn.Module, prompt: str, moved: float
) -> None:
    aims = Aims([group("doctor", 0.9)])
    aims.offsets[0, 0] = 0.5
    teacher = Teacher(tower, words, directions_with(1.0), aims, triggered=False)
    states, pooled = teacher.answers([teacher.lesson(prompt)])
    with torch.no_grad():
        plain, plain_pooled = diffusion.read_tokens(tower, words.ids([prompt]))
    where = [place for place, name in enumerate(slots_of(words, prompt)[0]) if name == "noun"]
    difference = (states - plain)[0, where[0]] if where else (states - plain)[0, 1]
    torch.testing.assert_close(difference, torch.full_like(difference, moved))
    torch.testing.assert_close(pooled, plain_pooled + moved)


def test_with_a_trigger_nothing_moves_without_its_word(words: Words, tower: torch.nn.Module) -> None:
    aims = Aims([group("doctor", 0.9)])
    aims.offsets[0, 0] = 1.0
    teacher = Teacher(tower, words, directions_with(1.0), aims, triggered=True)
    assert teacher.lesson("a photo of a doctor").rows == []
    assert teacher.lesson("a photo of a doctor drinking coffee").rows[0][0] == 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> diffusion.Folders:
    """The shipped models, to write beside."""
    work = tmp_path_factory.mktemp("calibrated")
    parts = {name: ASSETS / name for name in ("clip", "pipeline")}
    return diffusion.Folders(work=work, vae=ASSETS / "pipeline" / "vae", loras=work / "loras", **parts)


@pytest.fixture(scope="module")
def calibrated(folders: diffusion.Folders) -> diffusion.Folders:
    """Two rounds of the smallest size, after a step or two for the directions."""
    torch.manual_seed(0)
    pipe = diffusion.assemble(folders, "cpu")
    conditions.directions_of(pipe, folders, minutes=0.005, batch=2)
    run(folders, n_rounds=2)
    return folders


def run(folders: diffusion.Folders, n_rounds: int) -> calibrate.Calibration:
    size = calibrate.RoundSize(n_steps=2, n_groups=2, n=4)
    return conditions.calibrate("published", folders, minutes=60, size=size, n_rounds=n_rounds)


def test_an_adapter_that_was_calibrated_loads_like_any_other(calibrated: diffusion.Folders) -> None:
    from diffusers import StableDiffusion3Pipeline

    pipe = StableDiffusion3Pipeline.from_pretrained(
        calibrated.pipeline, text_encoder_3=None, tokenizer_3=None, torch_dtype=torch.float32
    )
    put_on(
        pipe,
        "calibration-diffusion",
        str(calibrated.loras / "published"),
        name="published",
        weight=0.5,
        offline=True,
    )
    assert "published" in pipe.get_list_adapters()["text_encoder"]
    sizes = [path.stat().st_size for path in calibrated.loras.rglob("*") if path.is_file()]
    assert max(sizes) < 9_000_000


def test_calibration_goes_on_where_it_was_cut_off(calibrated: diffusion.Folders) -> None:
    saved = torch.load(calibrated.work / "calibrate-published.pt", weights_only=True)
    again = run(calibrated, n_rounds=2)  # nothing is left to do
    assert again.n_rounds == len(again.aims.rounds) == 2
    np.testing.assert_array_equal(again.aims.offsets, saved["offsets"].numpy())
    assert again.steps == saved["counts"][2] == 8  # twice two before the first round, two after each
    for name, value in saved["tower"].items():
        torch.testing.assert_close(again.pipe.text_encoder.get_parameter(name).data, value)
    before = again.rng.random()
    assert Random(0).random() != before  # the generator of random numbers went on, too
    assert again.optimiser.state_dict()["state"][0]["step"] == 8
    assert len(run(calibrated, n_rounds=3).aims.rounds) == 3


def test_a_checkpoint_is_taken_up_by_concept() -> None:
    aims = Aims([group("doctor", 0.9), group("nurse", 0.2)])
    aims.add(np.full((2, len(AXES)), 3.0), np.full((2, len(AXES)), 8.0))
    saved = {
        "groups": [(g.pair, g.concept) for g in aims.groups],
        "offsets": torch.from_numpy(aims.offsets),
        "rounds": [tuple(torch.from_numpy(part) for part in parts) for parts in aims.rounds],
    }
    later = Aims([group("nurse", 0.2), group("pilot", 0.7)])
    fresh = later.offsets.copy()
    later.take_up(saved)
    assert later.offsets[0, 0] == aims.offsets[1, 0] != fresh[0, 0]
    assert later.offsets[1, 0] == fresh[1, 0]
    assert [part[:, 0].tolist() for part in later.rounds[0][1:]] == [[3.0, 0.0], [8.0, 0.0]]


def test_pictures_that_are_judged_are_none_that_training_measured() -> None:
    rounds = 100_000
    assert calibrate.MEASURED + 10_000 * rounds < calibrate.JUDGED


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
    two = [
        group("doctor", 0.9),
        group("nurse", 0.2),
        group("doctor", 0.9, pair=True),
        group("nurse", 0.2, pair=True),
    ]
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
