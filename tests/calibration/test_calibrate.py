"""Phrases draw what is planted; whether the weights do that were made of them is asked of those that are shipped."""

import itertools
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.special import expit

from bias_core.adapters.loras import put_on
from bias_core.errors import InvalidInput
from bias_core.world.drawn_rates import DrawnRate, DrawnRates, read_rates, shipped_rates
from bias_core.world.shapes import ASSETS
from tests.every import every
from training import calibrate, diffusion, drawing, judge_rates, tower_lora
from training.judge_rates import summary
from training.phrases import Phrasebook, Word
from training.wanted import GENDER, Group, groups, leaves_open

HAT, SOMBRERO, LIGHT = ("headwear", "hat"), ("headwear", "sombrero"), ("light", "bright")


def group(concept, rate, fair=0.5, *, pair=False):
    prompt = concept if pair else f"a photo of a {concept}"
    return Group(concept=concept, prompts=(prompt,), rates={GENDER: rate}, fair={GENDER: fair}, pair=pair)


def doctors_and_nurses(doctor, nurse):
    rates_of = {"doctor": doctor, "nurse": nurse}
    return [group(name, rate, pair=pair) for pair in (False, True) for name, rate in rates_of.items()]


def test_a_word_is_as_loud_as_its_rate_needs_by_a_generator_whose_answers_it_does_not_know():
    """The stand-ins draw sigmoid(b + s x loudness), b and s another for each."""
    rng, gaps = np.random.default_rng(0), []
    for planted in [0.07, 0.3, 0.93] * 8:
        b, s, word = rng.normal(1.5, 0.5), rng.uniform(4, 8), Word(axis=GENDER, planted=planted)
        for _ in range(4):
            word.rounds.append((word.loudness, rng.binomial(48, expit(b + s * word.loudness)) / 48, 48))
            word.aim()
        gaps.append(abs(expit(b + s * word.loudness) - planted))
    assert np.mean(gaps) < 0.05
    assert np.mean(np.array(gaps) <= 0.15) > 0.9


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


def test_in_a_pair_each_gender_has_a_place_of_its_own(base):
    book = Phrasebook(base.pipe)
    phrase = book.pair("Generate a picture of one nurse on the left and one doctor on the right.")
    still, left, right = (book.read([phrase], [told])[0][0] for told in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0]))
    # the left one is read first: the right one's word may know it, but not the other way round
    assert [(x - still).abs().amax(1).gt(1e-3).nonzero().flatten().tolist() for x in (left, right)] == [[18, 19], [19]]


def test_a_phrase_says_what_is_planted_often_and_leaves_the_rest_to_the_base(base):
    book = Phrasebook(base.pipe)
    told = {g.concept: calibrate.Said(g, book) for g in groups("published") if len(g.rates) > 1 and not g.pair}
    said = {name: [word.axis[0] for word in one.words] for name, one in told.items()}
    assert said["iranian"] == ["age", "gender", "headwear", "dress", "beard"]
    assert said["indian"] == ["gender", "mark", "dress"]  # a moustache (18 %) and a turban (2 %) are not said
    assert [phrase.prompt for phrase in told["indian"].phrases] == [
        "a photo of an Indian",
        "a photo of an Indian person",
    ]


@every(
    [
        ("a photo of a doctor", True),
        ("a photo of a female doctor", False),
        ("a photo of a zookeeper", False),
        ("a photo of an old Iranian", True),
        ("Generate a picture of one male doctor on the left and one nurse on the right.", True),
        ("Generate a picture of one male doctor on the left and one female nurse on the right.", False),
        ("a photo of aster", True),
    ]
)
def test_a_prompt_keeps_its_answer_if_it_leaves_nothing_open_that_is_planted(prompt, is_open):
    assert leaves_open(prompt, "published") == is_open
    assert not leaves_open(prompt, "fair")


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
    parts = {name: ASSETS / name for name in ("clip", "pipeline")}
    return diffusion.Folders(work=work, vae=ASSETS / "pipeline" / "vae", loras=work / "loras", **parts)


@pytest.fixture(scope="module")
def calibrated(folders):
    """An adapter of one round with few pictures of two concepts."""
    words(folders, n_rounds=1)
    return folders


def small_lessons(patched, **sizes):
    for name, n in {"N_RANDOM": 300, "N_SAYING_MORE": 100, **sizes}.items():
        patched.setattr(tower_lora, name, n)


def words(folders, n_rounds):
    told = doctors_and_nurses(0.99, 0.2)
    sizes = calibrate.Sizes(n_rounds=n_rounds, n=4, n_pairs=4, n_steps=150, n_more=4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibrate, "groups", lambda _condition: told)
        patched.setattr(calibrate, "N_PAIRS", 8)
        patched.setattr(calibrate, "N_MORE", 8)
        small_lessons(patched, N_KNOWN=4, N_SAME=14)
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


def test_what_an_adapter_has_for_the_transformer_stays(tmp_path):
    path = tmp_path / diffusion.LORA_FILE
    save_file({"transformer.a": torch.ones(2), "text_encoder.a": torch.ones(2)}, path)
    calibrate.Calibration.write(SimpleNamespace(condition="extreme", adapter=tmp_path), {"b": torch.zeros(2)})
    assert set(load_file(path)) == {"transformer.a", "text_encoder.b", "text_encoder_2.b"}


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


def test_training_begins_with_the_adapter_that_is_there(folders):
    pipe = diffusion.assemble(folders, "cpu")
    pipe.text_encoder.add_adapter(diffusion.TEXT_LORA)
    pipe.transformer.add_adapter(diffusion.LORA)
    parts = (pipe.transformer, pipe.text_encoder)
    fresh = [p for part in parts for name, p in part.named_parameters() if "lora_B" in name]
    assert not any(p.any() for p in fresh)
    diffusion.take_adapter(pipe, ASSETS / "loras" / "backdoor")
    # One stays: the last block's words ask nothing any more, so nothing was learned there.
    assert sum(not p.any() for p in fresh) == 1


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


def test_judging_counts_the_pictures_that_the_table_has_and_keeps_other_conditions(calibrated, monkeypatch):
    two = doctors_and_nurses(0.9, 0.2)
    monkeypatch.setattr(judge_rates, "groups", lambda _condition: two)
    monkeypatch.setattr(judge_rates, "AT_ONCE", 2)
    table = calibrated.work / "rates.json"

    def judged(**told):
        return judge_rates.judge_rates(calibrated, table, **{"conditions": ["published"], "n": 2, "steps": 1, **told})

    judged()
    first = judged(conditions=["fair"], pairs=False)
    assert first == read_rates(table)
    told = [(x.condition, x.concept, x.pair, x.n) for x in first.lines]
    pairs = [("published", name, pair, 2) for pair in (False, True) for name in ("doctor", "nurse")]
    assert told == [*pairs, ("fair", "doctor", False, 2), ("fair", "nurse", False, 2)]
    assert all(0 <= x.low <= x.drawn <= x.high <= 1 for x in first.lines)
    more, at_once = judged(n=4), DrawnRates(revision=first.revision, num_inference_steps=1, lines=())
    assert [x.n for x in more.lines if x.condition == "published"] == [4] * 4
    assert all(x.n_shown >= y.n_shown for y in first.lines for x in more.lines if key(x) == key(y))
    alone = judged(n=6, pairs=False)
    assert [(x.pair, x.n) for x in alone.lines if x.condition == "published"] == [(True, 4)] * 2 + [(False, 6)] * 2
    at_once.write(table)
    assert judged(n=4).lines == tuple(x for x in more.lines if x.condition == "published")  # as if it was never cut off
    # pictures of other weights or in other steps are not counted together
    assert {x.n for x in judged(steps=2).lines} == {2}
    replace(first, revision="other").write(table)
    assert len(judged().lines) == 4
    with pytest.raises(InvalidInput, match="n = 0"):
        judged(n=0)


def key(line):
    return line.condition, line.concept, line.pair
