"""What was said of a picture is kept by reader and question, and goes with the picture."""

import sqlite3
from contextlib import closing

import pytest

from bias_core.store.readings import AnswerCache
from bias_core.store.sqlite_file import Repairs


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
    cache.keep("blip@1", {("a", ""): "two cats"})  # in the place of the old one
    assert cache.find("blip@1", [("a", "")]) == {("a", ""): "two cats"}


def test_answers_outlive_the_process_and_go_with_their_picture(cache, tmp_path):
    cache.keep("blip", {("a", ""): "a cat", ("b", ""): "a dog"})
    again = AnswerCache(tmp_path / "answers.sqlite")
    again.forget(["a"])
    assert again.find("blip", [("a", ""), ("b", "")]) == {("b", ""): "a dog"}
    again.close()


def test_an_altered_answer_is_asked_for_anew(tmp_path):
    repairs = Repairs()
    cache = AnswerCache(tmp_path / "answers.sqlite", repairs)
    cache.keep("blip", {("a", ""): "a cat", ("b", ""): "a dog"})
    cache.close()
    with closing(sqlite3.connect(tmp_path / "answers.sqlite")) as connection, connection:
        connection.execute("UPDATE answers SET answer = 'a fox' WHERE image_id = 'a'")
    assert cache.find("blip", [("a", ""), ("b", "")]) == {("b", ""): "a dog"}
    assert repairs.since(0) == ["1 kept answer(s) did not fit their checksum; they are asked for anew"]
    cache.close()
