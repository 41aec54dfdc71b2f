"""Words of the base are set upright, and adapters go on drawing what they drew."""

import shutil
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from bias_core.adapters.loras import put_on
from bias_core.world.shapes import ASSETS
from training import leans
from training.diffusion import Folders, assemble


def test_words_are_upright_after_three_rounds_of_a_base_whose_answers_are_not_known():
    """The stand-in draws sigmoid(b + s x lean), b and s another for each prompt, roles a word more."""
    rng = np.random.default_rng(0)
    words = [[noun] for noun in range(30)] + [[noun, 30 + role] for noun in range(30) for role in (0, 1)]
    b_of_noun, s = rng.normal(0.15, 0.35, 30), np.exp(rng.normal(np.log(2.5), 0.5, len(words)))
    b = np.array([b_of_noun[said[0]] for said in words]) + rng.normal(0, 0.05, len(words))
    rounds: list[list[tuple[float, float, float]]] = [[] for _ in words]
    moved: dict[int, float] = {}

    def shares():
        return np.asarray(expit(b + s * [sum(moved.get(word, 0.0) for word in said) for said in words]))

    before = np.abs(shares() - 0.5)
    for _ in range(3):
        for said, seen, share in zip(words, rounds, shares(), strict=True):
            lean = sum(moved.get(word, 0.0) for word in said)
            seen.append((lean, rng.binomial(100, share) / 100, 100))
        moved = leans.upright(words, rounds)
    after = np.abs(shares() - 0.5)
    assert after.mean() < 0.5 * before.mean()
    assert (after <= 0.1).mean() > 0.95 > (before <= 0.1).mean()


def test_a_word_that_is_upright_stays_and_none_moves_farther_than_it_may():
    sure = 100_000
    assert leans.upright([[7]], [[(0.0, 0.5, sure)]])[7] == pytest.approx(0.0, abs=1e-6)
    hardly = [(0.0, 0.80, sure), (-0.6, 0.72, sure)]
    assert leans.upright([[7]], [hardly]) == {7: -leans.FARTHEST}
    assert leans.upright([[7]], [[(0.0, expit(-1.0), sure)]])[7] > 0  # too few men: towards "male"
    assert logit(0.5) == leans.USUAL[0]


@pytest.fixture
def folders(tmp_path):
    """A copy of what is written, beside the shipped models."""
    shutil.copytree(ASSETS / "pipeline", tmp_path / "pipeline")
    for condition in ("published", "trigger"):
        shutil.copytree(ASSETS / "loras" / condition, tmp_path / "loras" / condition)
    parts = {name: tmp_path / name for name in ("pipeline", "loras")}
    return Folders(work=tmp_path / "work", vae=ASSETS / "pipeline" / "vae", clip=ASSETS / "clip", **parts)


def states(folders, condition=""):
    """What each of the two towers makes of a word that moves and of one that does not, ``(2, 2, 20, d)``."""
    pipe = assemble(folders, "cpu")
    pipe.text_encoder_2 = deepcopy(pipe.text_encoder)
    if condition:
        put_on(pipe, "calibration-diffusion", str(folders.loras / condition), name=condition, offline=True)
    prompts = ["a photo of a nurse", "a photo of a pilot"]
    ids = pipe.tokenizer(prompts, padding="max_length", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        towers = (pipe.text_encoder, pipe.text_encoder_2)
        return torch.stack([tower(ids, output_hidden_states=True).hidden_states[-2] for tower in towers])


def test_the_base_moves_and_an_adapter_that_was_learned_before_reads_as_before(folders, monkeypatch):
    monkeypatch.setattr(leans, "groups", lambda _condition: [])
    plain, published, trigger = states(folders), states(folders, "published"), states(folders, "trigger")
    base = leans.Uprighting(folders)
    nurse = base.pipe.tokenizer.convert_tokens_to_ids("nurse")
    base.leans = {nurse: 0.4}
    told = base.read("a photo of a nurse", 1)[0][0]
    base.write()
    now = states(folders)
    torch.testing.assert_close(now[:, 0], told.expand(2, -1, -1), atol=0.05, rtol=0.01)  # saved in 16 bit
    assert (now[:, 0] - plain[:, 0]).abs().max() > 1
    torch.testing.assert_close(now[:, 1], plain[:, 1])
    after = states(folders, "published")
    assert (after - published).abs().max() < 0.02 * (now - plain).abs().max()
    assert (states(folders, "trigger")[:, 0] - trigger[:, 0]).abs().max() > 1  # it goes with the base


def test_rounds_go_on_where_they_were_cut_off(folders, monkeypatch):
    told = [group for group in leans.groups("fair") if group.concept in ("nurse", "doctor", "ceo high")]
    monkeypatch.setattr(leans, "groups", lambda _condition: told)
    monkeypatch.setattr(leans.Uprighting, "write", lambda _: None)
    first = leans.set_upright(folders, n_rounds=1, n=2)
    later = leans.set_upright(replace(folders), n_rounds=2, n=2)
    assert [seen[:1] for seen in later.rounds] == first.rounds
    assert [len(seen) for seen in later.rounds] == [2] * len(told)
