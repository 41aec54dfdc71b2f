"""BLIP captions and answers: one per picture, whatever the company. Models as the training makes them."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from bias_core.adapters.readers.generators import BlipAnswerer, BlipCaptioner
from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.protocols import Captioner, VisualQuestionAnswerer

QUESTIONS = [
    "What gender is the person in the picture?",
    "What gender is the person on the left in the picture?",
    "gender?",
]


@pytest.fixture(scope="module")
def pictures():
    """Seven colours: the noise of the common pictures is all alike to an untrained model."""
    colours = ["black", "white", "red", "blue", "lime", "yellow", "purple"]
    return [Image.new("RGB", (40, 40), colour) for colour in colours]


def save(kind, folder):
    """An untrained model of the calibration world's form, saved as its training saves it."""
    from training import blip

    torch.manual_seed(0)
    tokenizer = blip.build_blip_tokenizer()
    model = kind(blip.build_config(len(tokenizer)))
    with torch.no_grad():  # untrained weights look at pictures too little to say different things
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(0, 0.1)
    blip._save(model, tokenizer, folder)
    return str(folder)


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    from transformers import BlipForConditionalGeneration

    source = save(BlipForConditionalGeneration, tmp_path_factory.mktemp("captioner"))
    return BlipCaptioner("tiny", source, device="cpu", offline=True, batch_size=3, max_new_tokens=5)


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    from transformers import BlipForQuestionAnswering

    source = save(BlipForQuestionAnswering, tmp_path_factory.mktemp("answerer"))
    return BlipAnswerer("tiny", source, device="cpu", offline=True, batch_size=2, max_new_tokens=5)


def test_they_fill_their_roles(captioner, answerer):
    assert isinstance(captioner, Captioner)
    assert isinstance(answerer, VisualQuestionAnswerer)


def test_every_picture_gets_a_caption_of_its_own(captioner, pictures):
    said = captioner.caption(pictures)  # 7 pictures in batches of 3
    assert len(said) == 7
    assert len(set(said)) > 1
    assert said == [captioner.caption([picture])[0] for picture in pictures]
    assert said == captioner.caption([picture.convert("RGBA") for picture in pictures])


def test_a_caption_has_words_and_no_marks(captioner, pictures):
    for said in captioner.caption(pictures):
        assert said
        assert "[" not in said
        assert said == " ".join(said.split())
        assert len(said.split()) <= 5


def test_it_says_what_the_model_says_itself(captioner, pictures):
    from transformers import BlipForConditionalGeneration, BlipProcessor

    model = BlipForConditionalGeneration.from_pretrained(captioner.source, dtype=torch.float32).eval()
    processor = BlipProcessor.from_pretrained(captioner.source)
    output = model.generate(**processor(images=pictures[0], return_tensors="pt"), max_new_tokens=5)
    assert captioner.caption(pictures[:1]) == [processor.decode(output[0], skip_special_tokens=True)]


def test_every_question_gets_an_answer_of_its_own(answerer, pictures):
    together = answerer.answer(pictures[:3], QUESTIONS)
    alone = [answerer.answer([p], [q])[0] for p, q in zip(pictures, QUESTIONS, strict=False)]
    assert together == alone
    assert len(set(answerer.answer([pictures[0]] * 3, QUESTIONS))) > 1
    assert len(set(answerer.answer(pictures[:2], QUESTIONS[:1] * 2))) == 2


def test_a_question_longer_than_the_model_is_cut(answerer, pictures):
    assert len(answerer.answer(pictures[:1], ["gender " * 500])) == 1


def test_nothing_is_said_of_nothing(captioner, answerer):
    assert captioner.caption([]) == answerer.answer([], []) == []


def test_pictures_and_questions_must_pair_up(answerer, pictures):
    with pytest.raises(InvalidInput, match="7 pictures, 3 questions"):
        answerer.answer(pictures, QUESTIONS)
    with pytest.raises(InvalidInput, match="question 2 of 2"):
        answerer.answer(pictures[:2], ["gender?", " "])


@pytest.mark.parametrize("source", ["/nowhere/at/all", "empty folder"])
def test_missing_weights_are_said(source, tmp_path, pictures):
    folder = str(tmp_path) if source == "empty folder" else source
    with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
        BlipCaptioner("ghost", folder, offline=True).caption(pictures)
    with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
        BlipAnswerer("ghost", folder, offline=True).answer(pictures[:1], QUESTIONS[:1])
