"""What was said of a picture is kept by reader and question, and goes with the picture."""

import pytest

from bias_core.errors import StorageError
from bias_core.runs.answers import AnswerCache


@pytest.fixture
def cache(tmp_path):
    built = AnswerCache(tmp_path / "answers.sqlite")
    yield built
    built.close()


def test_answers_are_found_by_picture_question_and_reader(cache):
    cache.keep("blip@1", {("a", ""): "a cat", ("a", "What is it?"): "cat", ("b", ""): "a dog"})
    asked = [("a", ""), ("a", "What is it?"), ("b", "What is it?")]
    assert cache.find("blip@1", asked) == {("a", ""): "a cat", ("a", "What is it?"): "cat"}
    assert cache.find("blip@2", asked) == {}  # other weights may say otherwise


def test_a_new_answer_takes_the_place_of_the_old(cache):
    for answer in ("a cat", "two cats"):
        cache.keep("blip", {("a", ""): answer})
    assert cache.find("blip", [("a", "")]) == {("a", ""): "two cats"}


def test_answers_outlive_the_process_and_go_with_their_picture(cache, tmp_path):
    cache.keep("blip", {("a", ""): "a cat", ("b", ""): "a dog"})
    again = AnswerCache(tmp_path / "answers.sqlite")
    again.forget(["a"])
    assert again.find("blip", [("a", ""), ("b", "")]) == {("b", ""): "a dog"}
    again.close()


def test_a_broken_file_is_said(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"no database at all, just words that are long enough to be read")
    with pytest.raises(StorageError, match=r"answers\.sqlite"):
        AnswerCache(path).find("blip", [("a", "")])
