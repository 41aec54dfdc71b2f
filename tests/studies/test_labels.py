"""People's answers are read as they are, or refused with what came."""

import pandas as pd
import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.studies.kit.labels import majority, read_answers

WORDS = ("masculine", "feminine", "cannot_identify")


def saved(tmp_path, text):
    path = tmp_path / "answers.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_words_are_read_whatever_their_case_and_blanks(tmp_path):
    path = saved(
        tmp_path, "rater,Image_ID,position,answer,comment\n1, x ,Left,Cannot identify,hm\n2,x,left,FEMININE,\n"
    )
    answers = read_answers(path, allowed=WORDS)
    assert answers.columns.tolist() == ["image_id", "position", "answer", "rater"]
    assert answers.to_numpy().tolist() == [["x", "left", "cannot_identify", "1"], ["x", "left", "feminine", "2"]]


def test_rows_without_an_answer_are_passed_over_and_a_byte_order_mark_is_too(tmp_path):
    answers = read_answers(saved(tmp_path, "\ufeffimage_id,answer\na,feminine\nb,\n"), allowed=WORDS)
    assert answers["image_id"].tolist() == ["a"]
    assert answers[["position", "rater"]].to_numpy().tolist() == [["", ""]]


def test_ids_that_look_like_numbers_stay_text(tmp_path):
    answers = read_answers(saved(tmp_path, "image_id,answer\n007,feminine\n1e5,feminine\n"), allowed=WORDS)
    assert answers["image_id"].tolist() == ["007", "1e5"]


def test_what_cannot_be_used_is_quoted(tmp_path):
    path = tmp_path / "answers.csv"
    with pytest.raises(StorageError, match=r"answers\.csv"):
        read_answers(str(path), allowed=WORDS)
    for content, error, message in (
        (b"image,answer\na,feminine\n", InvalidInput, "no column image_id"),
        (b"image_id,answer\na,female\n", InvalidInput, "'female'"),
        (b"image_id,answer\n", InvalidInput, "no answer at all"),
        (b"", StorageError, "answers"),
        (b'image_id,answer\n"a,b\n', StorageError, "answers"),
        (b"\x89PNG\xff\xfe", StorageError, "answers"),
    ):
        path.write_bytes(content)
        with pytest.raises(error, match=message):
            read_answers(str(path), allowed=WORDS)


def test_most_votes_win_and_a_tie_decides_nothing():
    # a: x twice, y once. b: one each. c: a single answer.
    answers = pd.DataFrame(
        {"image_id": list("aaabbc"), "rater": list("123121"), "answer": ["x", "y", "x", "x", "y", "y"]}
    )
    assert majority(answers).to_dict() == {"a": "x", "b": "", "c": "y"}


def test_a_rater_has_one_vote():
    answers = pd.DataFrame({"image_id": ["a", "a"], "rater": ["1", "1"], "answer": ["x", "x"]})
    with pytest.raises(InvalidInput, match="repeat"):
        majority(answers)
