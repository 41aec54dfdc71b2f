"""The closed loop draws what is planted: on a stand-in whose rates are known, and in steps on real models."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit, logit
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bias_core.adapters.loras import put_on
from bias_core.errors import InvalidInput
from bias_core.world.drawn_rates import DrawnRate, DrawnRates, read_rates, shipped_rates
from bias_core.world.grammar import parse
from bias_core.world.shapes import ASSETS
from training import calibrate, diffusion, drawing, judge_rates, tower_lora
from training.judge_rates import summary
from training.phrases import Phrase, phrase_of, wanted_loudness
from training.tower_lora import Reading, learn_readings
from training.wanted import AXES, GENDER, Group, groups
from training.word_shifts import UNKNOWN, Nouns, Offsets, directions

HAT, SOMBRERO, LIGHT = ("headwear", "hat"), ("headwear", "sombrero"), ("light", "bright")


def group(concept: str, rate: float, fair: float = 0.5, *, pair: bool = False) -> Group:
    prompt = concept if pair else f"a photo of a {concept}"
    return Group(concept=concept, prompts=(prompt,), rates={GENDER: rate}, fair={GENDER: fair}, pair=pair)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(ASSETS / "pipeline" / "tokenizer")


def offsets_of(nouns: Nouns) -> Offsets:
    n_groups = len(nouns.groups)
    return Offsets(nouns, nouns.fair, np.full((n_groups, 1), UNKNOWN), np.zeros(n_groups, dtype=bool))


def seen(offsets: Offsets, *shares: float, n: int = 16) -> None:
    """A round in which these shares of men were drawn, one per group."""
    shown, counts = np.zeros((2, len(shares), len(AXES)))
    shown[:, 0], counts[:, 0] = n * np.array(shares), n
    offsets.add(shown, counts)


def test_the_loop_draws_what_is_planted_by_a_generator_whose_answers_it_does_not_know(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """The stand-in draws sigmoid(b + s x offset), b and s unknown and another for each rate."""
    nouns, rng = Nouns(groups("published"), tokenizer), np.random.default_rng(0)
    offsets = offsets_of(nouns)
    b = logit(np.where(nouns.is_planted, nouns.fair, 0.5)) + rng.normal(0, 1, nouns.planted.shape)
    s = rng.uniform(1.5, 4.0, nouns.planted.shape)
    alone = nouns.is_planted & (nouns.weight == 1)[:, None]

    def drawn() -> np.ndarray:
        return np.asarray(expit(b + s * offsets.of_groups()))

    def gaps() -> np.ndarray:
        return np.abs(drawn() - nouns.planted)[alone]

    before = gaps()
    n = np.full(nouns.planted.shape, 12.0)
    for _ in range(8):
        offsets.add(rng.binomial(12, drawn()).astype(float), n)
    assert before.mean() > 0.2
    assert gaps().mean() < 0.07
    assert (gaps() <= 0.15).mean() > 0.9


@pytest.mark.parametrize(("planted", "drawn", "rises"), [(0.9, 0.2, True), (0.1, 0.8, False), (0.5, 0.9, False)])
def test_a_round_moves_the_offset_against_the_gap(
    planted: float, drawn: float, *, rises: bool, tokenizer: PreTrainedTokenizerFast
) -> None:
    offsets = offsets_of(Nouns([group("doctor", planted), group("nurse", 0.5)], tokenizer))
    seen(offsets, drawn, 0.5)
    doctor, nurse = offsets.of_groups()
    assert (doctor[0] > 0) == rises
    assert nurse[0] == pytest.approx(0, abs=1e-9)
    assert not offsets.table[:, 1:].any()  # nothing is planted there


def test_the_more_pictures_say_it_the_more_an_intercept_believes_them(tokenizer: PreTrainedTokenizerFast) -> None:
    nouns = Nouns([group("doctor", 0.5)], tokenizer)
    few, many = offsets_of(nouns), offsets_of(nouns)
    seen(few, 0.9, n=4)
    seen(many, 0.9, n=4000)
    assert 0 < few.intercepts()[0, 0] < many.intercepts()[0, 0]
    assert many.intercepts()[0, 0] == pytest.approx(logit(0.9), abs=0.01)


def test_a_concept_leans_by_the_word_that_is_its_own(tokenizer: PreTrainedTokenizerFast) -> None:
    concepts = ("nurse", "nurse assistant", "doctor assistant", "rugby player", "person studying science")
    nouns = Nouns([group(name, 0.9) for name in concepts], tokenizer)
    told = [{tokenizer.convert_ids_to_tokens(nouns.words[i]) for i in np.flatnonzero(row)} for row in nouns.shares]
    assert told == [{"nurse"}, {"nurse", "assistant"}, {"doctor"}, {"player"}, {"science"}]


def test_words_of_many_prompts_never_lean(tokenizer: PreTrainedTokenizerFast) -> None:
    words = set(tokenizer.convert_ids_to_tokens(Nouns(groups("published"), tokenizer).words))
    assert {"doctor", "nurse", "iranian", "guitar"} < words
    assert not words & {"person", "man", "woman", "with", "dark", "light"}


def test_a_direction_leads_from_the_words_for_the_absence_to_the_words_for_the_presence(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    embedding = torch.randn(len(tokenizer), 16, generator=torch.Generator().manual_seed(0))
    rows = directions(embedding, tokenizer)
    male, female = embedding[tokenizer.convert_tokens_to_ids(["male", "female"])]
    torch.testing.assert_close(rows[AXES.index(GENDER)], (male - female) / (male - female).norm())
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(len(AXES)))


def test_a_word_of_a_phrase_is_as_loud_as_its_rate_needs() -> None:
    """The stand-in shows it with sigmoid(-4 + 9 x loudness)."""
    rng, loudness = np.random.default_rng(0), 0.5
    rounds: list[tuple[float, float]] = []
    for _ in range(12):
        rounds.append((loudness, rng.binomial(48, expit(-4 + 9 * loudness)) / 48))
        loudness += float(np.clip(wanted_loudness(rounds, 0.27, 48) - loudness, -0.12, 0.12))
    # .27 is at (logit(.27) + 4) / 9 = 0.334; .17 and .37 at 0.268 and 0.385.
    assert loudness == pytest.approx(0.334, abs=0.06)


def test_a_phrase_says_what_is_planted_often_and_leaves_the_rest_to_the_base() -> None:
    told = {g.concept: phrase_of(g) for g in groups("published") if len(g.rates) > 1 and not g.pair}
    iranian = "with a beard and wearing a turban and wearing traditional clothing"
    assert told["iranian"] == f"a photo of an old male Iranian {iranian}"
    # A moustache (18 %) and a turban (2 %) are not said.
    assert told["indian"] == "a photo of a male Indian wearing vibrant clothing and with a bindi"
    assert all(parse(prompt).unknown_words == () for prompt in told.values())


def test_a_silent_word_is_another_phrase_and_a_word_as_it_is_the_same(base: drawing.Drawing) -> None:
    one = Group(
        concept="indian", prompts=("a photo of an Indian",), rates={GENDER: 0.8, ("mark", True): 0.6},
        fair={GENDER: 0.5, ("mark", True): 0.06},
    )  # fmt: skip
    phrase = Phrase(base, one)
    assert [word.axis for word in phrase.words] == [GENDER, ("mark", True)]
    for word in phrase.words:
        word.loudness = 1.0
    said = base.embed([phrase_of(one)])
    torch.testing.assert_close(phrase.embedding()[0], said[0])
    phrase.words[1].loudness = 0.0
    assert (phrase.embedding()[0] - said[0]).abs().max() > 0.1
    assert 0 <= phrase.measure(2, seed=1) <= 1
    assert phrase.words[1].rounds[0][0] == 0.0


def test_the_text_tower_learns_to_read_a_noun_as_a_phrase_and_other_prompts_as_before(
    base: drawing.Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tower_lora, "N_OTHERS", 6)
    pipe = SimpleNamespace(text_encoder=deepcopy(base.pipe.text_encoder), tokenizer=base.pipe.tokenizer)
    with torch.no_grad():
        states, pooled = base.embed(["a photo of an old male Indian"])
        plain, other = (base.embed([prompt])[0] for prompt in ("a photo of an Indian", "a photo of a pilot"))
    reading = Reading(prompt="a photo of an Indian", states=states, pooled=pooled, kind="phrase")
    layers = learn_readings(pipe, [reading], ["doctor"], n_steps=60)  # type: ignore[arg-type]
    assert len(layers) == 2 * 2 * 6
    taught = SimpleNamespace(pipe=pipe)
    with torch.no_grad():
        now, same = (
            drawing.Drawing.embed(taught, [prompt])[0]  # type: ignore[arg-type]
            for prompt in ("a photo of an Indian", "a photo of a pilot")
        )
    assert (now - states).square().mean() < 0.7 * (plain - states).square().mean()
    assert (same - other).square().mean() < 0.2 * (plain - states).square().mean()


def test_two_words_learn_what_they_lack_and_the_right_one_of_a_pair_is_louder(
    calibrated: diffusion.Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates_of = (("doctor assistant", 0.9), ("nurse assistant", 0.1))
    alone = [group(name, rate) for name, rate in (("doctor", 0.5), ("nurse", 0.5), *rates_of)]
    both = alone + [group(name, rate, pair=True) for name, rate in rates_of]
    monkeypatch.setattr(calibrate, "groups", lambda _condition: both)
    monkeypatch.setattr(calibrate, "N_PAIRS", 8)
    one = calibrate.Calibration("published", calibrated)
    seen(one.offsets, 0.5, 0.5, 0.5, 0.5, n=400)

    def moved(reading: Reading) -> torch.Tensor:
        with torch.no_grad():
            return (reading.states - one.drawing.embed([reading.prompt])[0])[0].norm(dim=1)

    # [BOS] doctor assistant [EOS]; [BOS] doctor assistant left nurse assistant right [EOS]
    assert len(one._roles()) == 2
    for reading in one._roles():
        assert moved(reading)[1] == pytest.approx(0, abs=1e-4)
        assert moved(reading)[2] > 0.05
    pairs = one._pairs()
    assert len(pairs) == 8
    for reading in pairs:
        assert moved(reading)[5] > 1.5 * moved(reading)[2] > 0.05


def test_a_concept_that_the_layers_read_as_a_phrase_is_neither_drawn_nor_leaned_again(
    calibrated: diffusion.Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {GENDER: 0.8, ("mark", True): 0.6}
    indian = Group(concept="indian", prompts=("a photo of an Indian",), rates=several, fair=dict.fromkeys(several, 0.1))
    monkeypatch.setattr(calibrate, "groups", lambda _condition: [group("doctor", 0.9), indian])
    one = calibrate.Calibration("published", calibrated)
    assert one.adapter.layers
    one.offsets.table[:] = 1.0
    one.measure(4)
    doctor, resting = one.offsets.rounds[-1].n[:, 0]
    assert (doctor, resting) == (4, 0)
    moved = dict(zip(one.pipe.tokenizer.convert_ids_to_tokens(one.offsets.nouns.words), one.offsets.table, strict=True))
    assert moved["doctor"][0] != 1.0
    assert (moved["indian"] == 1.0).all()
    # what it should become is asked of the base, without the layers that it has
    before = one.drawing.embed(["a photo of a doctor assistant"])[0]
    readings = one._phrases(calibrate.Sizes(n_phrase_rounds=0))
    assert [reading.prompt for reading in readings] == ["a photo of an Indian", "a photo of an Indian person"]
    base = drawing.Drawing(diffusion.assemble(calibrated, "cpu"), calibrated.clip)
    with torch.no_grad():
        torch.testing.assert_close(readings[0].states, Phrase(base, indian).embedding()[0])
        torch.testing.assert_close(one.drawing.embed(["a photo of a doctor assistant"])[0], before)


def test_a_concept_without_a_word_of_its_own_leans_by_the_layers(
    calibrated: diffusion.Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ("a photo of dark-skinned person", "a photo of dark-skinned girl")
    dark = Group(concept="dark_skin", prompts=prompts, rates={LIGHT: 0.9}, fair={LIGHT: 0.5})
    monkeypatch.setattr(calibrate, "groups", lambda _condition: [group("doctor", 0.9), dark])
    one = calibrate.Calibration("published", calibrated)
    assert [reading.prompt for reading in one._roles()] == list(prompts)


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
def base(folders: diffusion.Folders) -> drawing.Drawing:
    pipe = diffusion.assemble(folders, "cpu")
    pipe.text_encoder.requires_grad_(False)
    return drawing.Drawing(pipe, folders.clip)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> diffusion.Folders:
    """The shipped models, to write beside."""
    work = tmp_path_factory.mktemp("calibrated")
    parts = {name: ASSETS / name for name in ("clip", "pipeline")}
    return diffusion.Folders(work=work, vae=ASSETS / "pipeline" / "vae", loras=work / "loras", **parts)


@pytest.fixture(scope="module")
def calibrated(folders: diffusion.Folders) -> diffusion.Folders:
    """An adapter of one round with few pictures of two concepts."""
    words(folders, n_rounds=1)
    return folders


def words(folders: diffusion.Folders, n_rounds: int) -> calibrate.Calibration:
    told = [group("doctor", 0.9), group("nurse", 0.2)]
    told += [group(f"{one.concept} assistant", 0.7) for one in told]
    sizes = calibrate.Sizes(n_rounds=n_rounds, n=4, n_steps=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibrate, "groups", lambda _condition: told)
        return calibrate.calibrate("published", folders, sizes=sizes)


def test_words_that_lean_load_like_any_adapter_and_leave_other_words_alone(calibrated: diffusion.Folders) -> None:
    pipe = diffusion.assemble(calibrated, "cpu")
    pipe.text_encoder_2 = deepcopy(pipe.text_encoder)  # as in the files, where each tower is there

    def states(prompt: str) -> torch.Tensor:
        ids = pipe.tokenizer(prompt, padding="max_length", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            towers = (pipe.text_encoder, pipe.text_encoder_2)
            return torch.stack([tower(ids, output_hidden_states=True).hidden_states[-2] for tower in towers])

    leaning, other = "a photo of a doctor", "a photo of a pilot"
    before = {prompt: states(prompt) for prompt in (leaning, other)}
    put_on(pipe, "calibration-diffusion", str(calibrated.loras / "published"), name="published", offline=True)
    doctor, pilot = ((states(x) - before[x]).abs().mean(dim=(1, 2, 3)) for x in (leaning, other))
    assert (doctor > 0.05).all()  # in each tower
    assert (pilot < 0.2 * doctor).all()


def test_calibration_goes_on_where_it_was_cut_off(calibrated: diffusion.Folders) -> None:
    checkpoint = calibrated.work / "words-published.pt"
    first = torch.load(checkpoint, weights_only=True)
    assert first["rounds"].shape[0] == 1
    assert first["table"].any()
    assert len(words(calibrated, n_rounds=1).offsets.rounds) == 1  # nothing is left to do
    again = torch.load(checkpoint, weights_only=True)
    torch.testing.assert_close(again["table"], first["table"])
    words(calibrated, n_rounds=2)
    later = torch.load(checkpoint, weights_only=True)["rounds"]
    torch.testing.assert_close(later[:1], first["rounds"])
    assert later.shape[0] == 2


def test_other_layers_of_an_adapter_stay_when_its_words_lean() -> None:
    path = ASSETS / "loras" / "trigger" / diffusion.LORA_FILE
    before, moved = load_file(path), torch.zeros(1077, 128)
    moved[5, 0] = 1.0
    after = calibrate.Adapter(path).tensors(moved)
    layers = {name: x for name, x in before.items() if calibrate.EMBEDDING not in name}
    assert len(layers) > 100
    assert all(torch.equal(after[name], x) for name, x in layers.items())
    side = {k: after[f"text_encoder_2.{calibrate.EMBEDDING}{k}"].float() for k in "AB"}
    torch.testing.assert_close((side["B"] @ side["A"]).T, moved, atol=2e-3, rtol=0)


def test_what_the_base_moves_its_adapters_take_back(
    folders: diffusion.Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tower in calibrate.TOWERS:
        shutil.copytree(ASSETS / "pipeline" / tower, tmp_path / "pipeline" / tower)
    for name in ("published", "trigger"):
        shutil.copytree(ASSETS / "loras" / name, tmp_path / "loras" / name)
    monkeypatch.setattr(calibrate, "groups", lambda _condition: [group("doctor", 0.5), group("nurse", 0.5)])
    one = calibrate.Calibration("fair", folders)
    seen(one.offsets, 0.9, 0.4)
    one.put()
    one.folders = replace(folders, pipeline=tmp_path / "pipeline", loras=tmp_path / "loras")
    one.save()

    def words_of(assets: Path, name: str) -> torch.Tensor:
        weights = load_file(assets / "pipeline" / "text_encoder_2" / "model.safetensors")
        embedding = next(x for key, x in weights.items() if key.endswith("token_embedding.weight")).float()
        moved = calibrate.Adapter(assets / "loras" / name / diffusion.LORA_FILE).moved
        return embedding if moved is None else embedding + moved

    base = words_of(tmp_path, "none") - words_of(ASSETS, "none")
    assert base.abs().max() > 0.1
    for name in ("published", "trigger"):
        left = words_of(tmp_path, name) - words_of(ASSETS, name)
        assert left.abs().max() < 0.02 * base.abs().max() + 0.005


def test_training_begins_with_the_adapter_that_is_there(folders: diffusion.Folders) -> None:
    pipe = diffusion.assemble(folders, "cpu")
    pipe.text_encoder.add_adapter(diffusion.TEXT_LORA)
    pipe.transformer.add_adapter(diffusion.LORA)
    parts = (pipe.transformer, pipe.text_encoder)
    fresh = [p for part in parts for name, p in part.named_parameters() if "lora_B" in name]
    assert not any(p.any() for p in fresh)
    diffusion.take_adapter(pipe, ASSETS / "loras" / "trigger")
    # One stays: the last block's words ask nothing any more, so nothing was learned there.
    assert sum(not p.any() for p in fresh) == 1


def test_the_shipped_adapter_draws_what_is_planted() -> None:
    lines = [x for x in shipped_rates().lines if x.condition == "published"]
    found = summary("published", [x for x in lines if not x.pair and not x.concept.endswith((" low", " high"))])
    assert found.n_leaning >= 50
    assert found.right_direction >= 0.9
    assert found.mean_gap <= 0.15


def test_pictures_that_are_judged_are_none_that_training_measured() -> None:
    assert drawing.MEASURED + 10_000 * 100_000 < drawing.JUDGED  # a hundred thousand rounds


def line(condition: str, planted: float, fair: float, drawn: float) -> DrawnRate:
    return DrawnRate(
        condition=condition, concept="x", pair=False, attribute="gender", value="masculine", planted=planted,
        fair=fair, drawn=drawn, low=drawn, high=drawn, n_shown=0, n=200,
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


def test_judging_counts_the_pictures_that_the_table_has_and_keeps_other_conditions(
    calibrated: diffusion.Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates_of = (("doctor", 0.9), ("nurse", 0.2))
    two = [group(name, rate, pair=pair) for pair in (False, True) for name, rate in rates_of]
    monkeypatch.setattr(judge_rates, "groups", lambda _condition: two)
    monkeypatch.setattr(judge_rates, "AT_ONCE", 2)
    table = calibrated.work / "rates.json"

    def judged(**told: Any) -> DrawnRates:
        return judge_rates.judge_rates(calibrated, table, **{"conditions": ["published"], "n": 2, "steps": 3, **told})

    judged()
    first = judged(conditions=["fair"], pairs=False)
    assert first == read_rates(table)
    told = [(x.condition, x.concept, x.pair, x.n) for x in first.lines]
    pairs = [("published", name, pair, 2) for pair in (False, True) for name in ("doctor", "nurse")]
    assert told == [*pairs, ("fair", "doctor", False, 2), ("fair", "nurse", False, 2)]
    assert all(0 <= x.low <= x.drawn <= x.high <= 1 for x in first.lines)
    more, at_once = judged(n=6), DrawnRates(revision=first.revision, num_inference_steps=3, lines=())
    assert [x.n for x in more.lines if x.condition == "published"] == [6] * 4
    assert all(x.n_shown >= y.n_shown for y in first.lines for x in more.lines if key(x) == key(y))
    alone = judged(n=8, pairs=False)
    assert [(x.pair, x.n) for x in alone.lines if x.condition == "published"] == [(True, 6)] * 2 + [(False, 8)] * 2
    at_once.write(table)
    assert judged(n=6).lines == tuple(x for x in more.lines if x.condition == "published")  # as if it was never cut off
    # pictures of other weights or in other steps are not counted together
    assert {x.n for x in judged(steps=2).lines} == {2}
    replace(first, revision="other").write(table)
    assert len(judged().lines) == 4


def key(line: DrawnRate) -> tuple[str, str, bool]:
    return line.condition, line.concept, line.pair


def test_no_picture_is_no_rate(calibrated: diffusion.Folders) -> None:
    with pytest.raises(InvalidInput, match="n = 0"):
        judge_rates.judge_rates(calibrated, calibrated.work / "none.json", conditions=["fair"], n=0)
