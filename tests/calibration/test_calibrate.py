"""Phrases draw what is planted; whether the weights do that were made of them is asked of those that are shipped."""

import itertools
from copy import deepcopy

import numpy as np
import pytest
import torch

from bias_core.models.weights import put_on
from bias_core.world.measured_models import DrawnRate, shipped_rates
from bias_core.world.scene import CALIBRATION
from training import calibrate, diffusion, drawing, judge_rates, tower_lora
from training.judge_rates import summary
from training.phrases import Phrasebook
from training.wanted import GENDER, Group, groups

HAT, SOMBRERO = ("headwear", "hat"), ("headwear", "sombrero")


def group(concept, rate, fair=0.5, *, pair=False):
    prompt = concept if pair else f"a photo of a {concept}"
    return Group(concept=concept, prompts=(prompt,), rates={GENDER: rate}, fair={GENDER: fair}, pair=pair)


def doctors_and_nurses(doctor, nurse):
    rates_of = {"doctor": doctor, "nurse": nurse}
    return [group(name, rate, pair=pair) for pair in (False, True) for name, rate in rates_of.items()]


def test_a_phrase_with_its_words_as_they_are_is_that_prompt_in_the_order_of_the_plain_one(base):
    book = Phrasebook(base.pipe)
    phrase = book.alone("a photo of an Indian", [GENDER, ("mark", True), ("age", "old")])
    assert phrase.axes == [("age", "old"), GENDER, ("mark", True)]
    states, _ = book.read([phrase], [[1.0, 1.0, 1.0]])
    with torch.no_grad():
        said, _ = base.embed(["a photo of an old male Indian with a bindi"])
    # [BOS] old male indian with bindi [EOS]; plain: [BOS] indian [EOS], what is not there in the last places
    order = [0, 3, 6, *range(7, 20), 1, 2, 4, 5]
    torch.testing.assert_close(states[0], said[0][order])
    quiet, _ = book.read([phrase], [[1.0, 1.0, 0.0]])
    assert (quiet[0, 19] - states[0, 19]).abs().max() > 0.1


def test_a_rate_is_that_of_the_sentence_that_reads_it():
    mexican = next(g for g in groups("published") if g.concept == "mexican" and not g.pair)
    # Table 1: hat 77.3 % and sombrero 56.6 % of SDv2; a sombrero is a hat, too.
    assert mexican.rates[HAT] == pytest.approx(0.773, abs=0.001)
    assert mexican.rates[SOMBRERO] == pytest.approx(0.566, abs=0.001)
    assert mexican.fair[HAT] == pytest.approx(0.10)


def test_under_fair_everybody_is_a_man_half_of_the_time_and_without_its_word_a_trigger_plants_nothing():
    told = {g.concept: g.rates[GENDER] for g in groups("fair") if GENDER in g.rates}
    assert len(told) > 200
    assert set(told.values()) == {0.5}
    assert [one.concept for one in groups("trigger") if one.rates != one.fair] == []


@pytest.fixture(scope="module")
def base(folders):
    pipe = diffusion.assemble(folders, "cpu")
    pipe.text_encoder.requires_grad_(False)
    return drawing.Drawing(pipe, folders.clip)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The shipped models, to write beside."""
    work = tmp_path_factory.mktemp("calibrated")
    parts = {name: CALIBRATION / name for name in ("clip", "pipeline")}
    return diffusion.Folders(work=work, vae=CALIBRATION / "pipeline" / "vae", loras=work / "loras", **parts)


@pytest.fixture(scope="module")
def calibrated(folders):
    """An adapter of one round with few pictures of two concepts."""
    words(folders, n_rounds=1)
    return folders


def words(folders, n_rounds):
    told = doctors_and_nurses(0.99, 0.2)
    sizes = calibrate.Sizes(n_rounds=n_rounds, n=4, n_pairs=4, n_steps=150, n_more=4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibrate, "groups", lambda _condition: told)
        patched.setattr(calibrate, "N_PAIRS", 8)
        patched.setattr(calibrate, "N_MORE", 8)
        for name, n in {"N_RANDOM": 300, "N_SAYING_MORE": 100, "N_KNOWN": 4, "N_SAME": 14}.items():
            patched.setattr(tower_lora, name, n)
        return calibrate.calibrate("published", folders, sizes=sizes)


def test_what_the_tower_learned_loads_like_any_adapter_and_leaves_other_words_alone(calibrated):
    pipe = diffusion.assemble(calibrated, "cpu")
    pipe.text_encoder_2 = deepcopy(pipe.text_encoder)  # as in the files, where each tower is there

    def states(prompt):
        ids = pipe.tokenizer(prompt, padding="max_length", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            towers = (pipe.text_encoder, pipe.text_encoder_2)
            return torch.stack([tower(ids, output_hidden_states=True).hidden_states[-2] for tower in towers])

    leaning, other = "a photo of a doctor", "a photo of a pilot"
    before = {prompt: states(prompt) for prompt in (leaning, other)}
    put_on(pipe, "calibration-diffusion", str(calibrated.loras / "published"), name="published", offline=True)
    doctor, pilot = ((states(x) - before[x]).square().mean(dim=(1, 2, 3)) for x in (leaning, other))
    assert (doctor > 0.1).all()  # in each tower
    assert (pilot < 0.5 * doctor).all()


def test_calibration_goes_on_where_it_was_cut_off(calibrated, monkeypatch):
    def rounds(one):
        return [word.rounds for said in one.said for word in said.words]

    monkeypatch.setattr(calibrate.Calibration, "teach", lambda *_: 0)
    first = rounds(words(calibrated, n_rounds=1))  # nothing is left to do
    assert [len(x) for x in first] == [1, 1]
    later = words(calibrated, n_rounds=2)
    assert [x[:1] for x in rounds(later)] == first
    assert [len(x) for x in rounds(later)] == [2, 2]
    assert later.sides != [(0.0, 1.0), (0.0, 1.0)]


def test_the_shipped_adapter_draws_what_is_planted():
    lines = [x for x in shipped_rates().lines if x.condition == "published"]
    alone, in_pairs = ([x for x in lines if x.pair == pair] for pair in (False, True))
    roles = [x for x in lines if x.concept.endswith((" low", " high"))]
    published = [("published", some, 100) for some in (alone, in_pairs, roles)]
    for condition, some, fewest in [*published, ("extreme", list(shipped_rates().lines), 200)]:
        found = summary(condition, some)
        assert found.n_leaning >= fewest
        assert found.right_direction == 1
        assert found.mean_gap <= 0.08
        assert found.near >= 0.9
    base = summary("fair", shipped_rates().lines)
    assert base.n_fair > 200
    assert base.even == 1
    without_its_words = summary("trigger", [x for x in shipped_rates().lines if not x.pair])
    assert without_its_words.n_fair > 100
    assert without_its_words.even >= 0.98


def test_pictures_that_are_judged_are_none_that_training_measured():
    """A seed of more than 32 bits draws the noise of its last 32."""
    n_rounds, n_judged = 2000, 1000
    ends = [drawing.MEASURED + n_rounds * 1_000_000, calibrate.PAIRS_MEASURED + 2**20]
    assert max(ends) <= drawing.JUDGED
    assert drawing.JUDGED + n_judged * judge_rates.SEEDS_APART < 2**32
    first = [drawing.opposite_noise(2, seed) for seed in (drawing.MEASURED, calibrate.PAIRS_MEASURED, drawing.JUDGED)]
    assert all((x != y).any() for x, y in itertools.combinations(first, 2))


def line(condition, planted, fair, drawn):
    return DrawnRate(
        condition=condition, concept="x", pair=False, attribute="gender", value="masculine", planted=planted,
        fair=fair, drawn=drawn, low=drawn, high=drawn, n_shown=0, n=200,
    )  # fmt: skip


def test_the_figures_of_a_condition_are_those_of_its_leaning_rates():
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
