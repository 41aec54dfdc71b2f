"""BLIP captions and answers: one per picture, whatever the company. The shipped models are of the real classes."""

from random import Random

import pytest

from bias_core.adapters.readers.generators import BlipAnswerer, BlipCaptioner
from bias_core.errors import InvalidInput
from bias_core.settings import ASSETS
from bias_core.world.balanced import balanced_scene
from bias_core.world.render import render
from tests.adapters.tiny_parts import torch

QUESTIONS = ["What gender is the person in the picture?", "Is there a rose in the picture?", "gender?"]


@pytest.fixture(scope="module")
def pictures():
    rng = Random(0)
    return [render(balanced_scene(rng)) for _ in range(7)]


def shipped(kind, name, **options):
    return kind("tiny", str(ASSETS / "calibration" / name), device="cpu", offline=True, max_new_tokens=5, **options)


@pytest.fixture(scope="module")
def captioner():
    return shipped(BlipCaptioner, "captioner", batch_size=3)


@pytest.fixture(scope="module")
def answerer():
    return shipped(BlipAnswerer, "answerer", batch_size=2)


def test_every_picture_gets_a_caption_of_its_own(captioner, pictures):
    said = captioner.caption(pictures)  # 7 pictures in batches of 3
    assert len(said) == 7
    assert len(set(said)) > 1
    assert said == [captioner.caption([picture])[0] for picture in pictures]
    assert said == captioner.caption([picture.convert("RGBA") for picture in pictures])
    for one in said:  # words, and no marks
        assert one
        assert "[" not in one
        assert one == " ".join(one.split())
        assert len(one.split()) <= 5


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
    assert len(set(answerer.answer(pictures, QUESTIONS[:1] * 7))) > 1


def test_what_is_asked_may_be_long_or_nothing_and_pictures_and_questions_pair_up(captioner, answerer, pictures):
    assert len(answerer.answer(pictures[:1], ["gender " * 500])) == 1  # cut
    assert captioner.caption([]) == answerer.answer([], []) == []
    with pytest.raises(InvalidInput, match="7 pictures, 3 questions"):
        answerer.answer(pictures, QUESTIONS)
    with pytest.raises(InvalidInput, match="question 2 of 2"):
        answerer.answer(pictures[:2], ["gender?", " "])
