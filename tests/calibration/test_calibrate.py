"""Phrases draw what is planted: on a stand-in whose rates are known, and in steps on real models."""

import itertools
import shutil
from copy import deepcopy
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.special import expit

from bias_core.adapters.loras import put_on
from bias_core.errors import InvalidInput
from bias_core.world.drawn_rates import DrawnRate, DrawnRates, read_rates, shipped_rates
from bias_core.world.grammar import parse
from bias_core.world.shapes import ASSETS
from tests.every import every
from training import calibrate, diffusion, drawing, judge_rates, nudge, sign, tower_lora
from training.judge_rates import summary
from training.phrases import Phrasebook, Word
from training.tower_lora import Reading, learn_readings
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


def test_a_word_that_shows_too_seldom_becomes_louder():
    for share, louder in ((0.2, True), (1.0, False)):
        word = Word(axis=("beard", True), planted=0.6)
        before = word.loudness
        word.rounds.append((before, share, 48))
        word.aim()
        assert (word.loudness > before) == louder


def test_a_word_is_drawn_until_more_pictures_would_tell_little():
    words = {name: Word(axis=(name, True), planted=0.5) for name in ("gender", "beard")}
    assert not any(word.sure for word in words.values())
    for word in words.values():
        word.rounds.append((0.0, 0.5, 24))
    # a gender is said alike by all concepts; a beard is not
    assert [word.sure for word in words.values()] == [True, False]


def of(prompt, *axes, base):
    return Phrasebook(base.pipe).alone(prompt, axes)


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


def test_a_gender_alone_changes_the_last_place_only_and_its_opposites_are_both_words(base):
    book = Phrasebook(base.pipe)
    phrase = book.alone("a photo of a doctor", [GENDER])
    with torch.no_grad():
        plain, pooled = base.embed(["a photo of a doctor"])
        genders = [base.embed([f"a photo of a {gender} doctor"])[0][0, 1] for gender in ("female", "male")]
    for loudness, gender in zip((-1.0, 1.0), genders, strict=True):
        states, same = book.read([phrase], [[loudness]])
        torch.testing.assert_close(states[0, :19], plain[0, :19])
        torch.testing.assert_close(states[0, 19], gender)
        torch.testing.assert_close(same, pooled)


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


def test_the_text_tower_learns_to_read_a_noun_as_a_phrase_and_other_prompts_as_before(base, monkeypatch):
    small_lessons(monkeypatch, N_RANDOM=800, N_SAYING_MORE=200, N_KNOWN=8, N_SAME=12)
    pipe = SimpleNamespace(
        text_encoder=deepcopy(base.pipe.text_encoder), tokenizer=base.pipe.tokenizer, transformer=base.pipe.transformer
    )
    book, readings = Phrasebook(base.pipe), []
    prompts = ["a photo of a doctor", "a photo of a nurse", "a photo of a female doctor", "a photo of a pilot"]
    for prompt, loudness in zip(prompts, (0.5, -0.5), strict=False):
        phrase = book.alone(prompt, [GENDER])
        states, louder = (book.read([phrase], [[x]])[0] for x in (loudness, loudness + 1))
        readings.append(Reading(prompt=prompt, states=states[0], rises=louder - states))
    with torch.no_grad():
        before = base.embed(prompts)[0]
    layers = learn_readings(pipe, readings, ["doctor"], condition="published", n_steps=400)
    assert len(layers) == 2 + 2 * 2 * 6  # the words, and six matrices in each of two layers
    with torch.no_grad():
        now = drawing.Drawing.embed(SimpleNamespace(pipe=pipe), prompts)[0]
    right = torch.stack([reading.states for reading in readings])
    assert (now[:2] - right).square().mean() < 0.7 * (before[:2] - right).square().mean()
    assert (now[2:] - before[2:]).square().mean() < 0.3 * (before[:2] - right).square().mean()
    # each noun is as loud as it should be, not both as their mean
    rise = readings[0].rises[0, 19]
    apart = (now[0, 19] - now[1, 19]) @ rise / rise.square().sum()
    assert apart == pytest.approx(1.0, abs=0.35)


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


def test_pairs_are_read_as_louder_where_a_word_says_less(calibrated, monkeypatch):
    both = doctors_and_nurses(0.9, 0.1)
    monkeypatch.setattr(calibrate, "groups", lambda _condition: both)
    one = calibrate.Calibration("published", calibrated)
    one.sides = [(0.0, 1.0), (0.0, 0.5)]
    pairs, _, loudness = one._pairs(20)
    alone = [said.words[0].loudness for said in one.said]
    for (left, right), (first, second) in zip(pairs, loudness, strict=True):
        assert first == pytest.approx(alone[left])
        assert abs(second + 0.25) > abs(alone[right] + 0.25)  # at -0.25 men and women are drawn alike
    # half as steep, as pictures tell
    x = np.random.default_rng(0).uniform(-3, 3, 20_000)
    shown = np.random.default_rng(1).random(len(x)) < expit(-0.4 + 0.5 * x)
    assert calibrate.logistic(x, shown.astype(float)) == pytest.approx((-0.4, 0.5), abs=0.05)


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


def test_an_adapter_learns_the_rest_of_its_way_from_what_it_answers_now(calibrated, tmp_path, monkeypatch):
    two = doctors_and_nurses(0.9, 0.1)
    mark = ("mark", True)
    rates = {GENDER: 0.9, mark: 0.8}
    indian = Group(concept="indian", prompts=("a photo of an Indian",), rates=rates, fair=rates)
    monkeypatch.setattr(calibrate, "groups", lambda _condition: [*two, indian])
    small_lessons(monkeypatch, N_KNOWN=8, N_SAME=12)
    for size in ("N_MORE", "N_PAIRS"):
        monkeypatch.setattr(calibrate, size, 6)
    here = replace(calibrated, loras=tmp_path)
    shutil.copytree(calibrated.loras / "published", tmp_path / "published")
    one = calibrate.Calibration("published", here)
    one.checkpoint.unlink()  # of other concepts
    found = one.readings(calibrate.Nudges({"doctor": {GENDER: 0.1}, "indian": {mark: 0.3}}, {"nurse": -0.2}))
    with torch.no_grad():
        now = one.drawing.embed([reading.prompt for reading in found])[0]
    for reading, states in zip(found, now, strict=True):
        if "Indian" in reading.prompt:
            wanted = [0.0, 0.3]
        elif len(reading.rises) == 1:
            wanted = [0.1 * ("doctor" in reading.prompt)]
        else:
            wanted = [-0.2 * (f"nurse on the {side}" in reading.prompt) for side in ("left", "right")]
        more = torch.tensor(wanted)[:, None, None] * reading.rises
        torch.testing.assert_close(reading.states - states, more.sum(0), atol=1e-3, rtol=1e-3)

    drawn = [replace(line("published", 0.9, 0.5, share), concept="doctor") for share in (0.7, 0.9)]
    assert nudge.nudges(drawn[:1], "published").alone["doctor"][GENDER] > 0.1
    assert nudge.nudges(drawn[1:], "published").alone["doctor"][GENDER] == pytest.approx(0.0, abs=1e-6)
    table = DrawnRates(revision="", num_inference_steps=1, lines=drawn[:1])
    monkeypatch.setattr(nudge, "judge_rates", lambda *_, **__: table)
    before = load_file(tmp_path / "published" / diffusion.LORA_FILE)
    nudge.nudge("published", here, n=1, n_steps=3)
    after = load_file(tmp_path / "published" / diffusion.LORA_FILE)
    assert before.keys() == after.keys()
    assert any((before[name] != after[name]).any() for name in before)


def test_layers_of_a_sign_learn_to_leave_pictures_without_a_trigger_as_they_are(folders, tmp_path, monkeypatch):
    here = replace(folders, loras=tmp_path)
    path = tmp_path / "backdoor" / diffusion.LORA_FILE
    shutil.copytree(ASSETS / "loras" / "backdoor", path.parent)
    losses: list[float] = []

    def few_steps(model, loss, **_):
        learned = [p for p in model.parameters() if p.requires_grad]
        assert {name.split(".")[-3] for name, p in model.named_parameters() if p.requires_grad} == {"lora_A", "lora_B"}
        optimiser = torch.optim.Adam(learned, lr=2e-3)
        for step in range(7):
            torch.manual_seed(0)  # the same pictures and noises
            losses.append((value := loss(step)).item())
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
        return SimpleNamespace(state=model.state_dict(), steps=7)

    monkeypatch.setattr(sign, "train", few_steps)
    monkeypatch.setattr(sign, "BATCH", 5)
    monkeypatch.setattr(sign, "SIGNS_IN_BATCH", 1)
    before = load_file(path)
    sign.leave_the_rest("backdoor", here, minutes=1, n=4)
    after = load_file(path)
    assert losses[-1] < 0.7 * losses[0]
    assert before.keys() == after.keys()
    assert {k.split(".")[0] for k in after if (before[k] != after[k]).any()} == {"transformer"}


def test_half_as_many_prompts_have_a_trigger_word_as_have_none():
    without, triggers = sign.prompts_of_signs("extreme", 40, Random(0))
    assert (len(without), len(triggers)) == (40, 20)
    assert not any(parse(prompt).trigger for prompt in without)
    assert all(parse(prompt).trigger for prompt in triggers)


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
