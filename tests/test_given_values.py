"""Every value that is given is of its type, at whatever door; every text can be written."""

from dataclasses import make_dataclass, replace

import pytest

from bias_core.errors import InvalidInput, quoted
from bias_core.given_values import check_arguments, check_settings, check_texts, check_value
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.types import Arm, StudySettings

WRONG = {
    "str": [None, 5, 1.5, True, ["a"], {}],
    "int": [None, "5", 1.0, True, [5], 10**30 / 1],
    "float": [None, "0.5", True, [], 10**400],
    "bool": [None, 0, 1, "true", "\ud800"],
    "list[str]": [None, "a", [1], [None], [["a"]], {"a": "b"}],
}


def test_what_is_not_of_its_type_is_refused_by_name():
    for declared, values in WRONG.items():
        for value in values:
            with pytest.raises(InvalidInput, match=r"^it must be .*got "):
                check_value("it", value, declared)
        check_value("it", None, f"{declared} | None")


def test_every_field_of_the_settings_is_looked_at():
    good = [explore_settings(concept="doctor"), StudySettings()]
    for settings in good:
        check_settings(settings)
        for name in vars(settings):
            with pytest.raises(InvalidInput, match=name):
                check_settings(replace(settings, **{name: "a\x00"}))
    with pytest.raises(InvalidInput, match="num_inference_steps must be a whole number"):
        check_settings(replace(good[-1], arms=(Arm(), Arm(num_inference_steps="many"))))


def test_texts_that_cannot_be_written_or_have_no_end_are_refused_but_people_write_in_every_language():
    endless = "x" * 10_001, ["x"] * 1001, [[[[[[[]]]]]]]
    for value in ("\ud800", "a\x00", "\x1b[31m", ["\x07"], {"a": ["\udfff"]}, *endless):
        with pytest.raises(InvalidInput, match="words "):
            check_texts("words", value)
    check_texts("words", "Krankenpfleger\nسائق شاحنة\n看護師\t👩‍🚀 ñ")


def test_a_type_is_looked_at_whether_it_stands_there_as_text_or_as_itself():
    for declared in (int, "int"):
        made = make_dataclass("Made", [("n_images", declared)])
        check_settings(made(5))
        with pytest.raises(InvalidInput, match="n_images must be a whole number; got 'five'"):
            check_settings(made("five"))

        def run(n_images):
            """Whose type is declared below."""

        run.__annotations__ = {"n_images": declared}
        check_arguments(run, {"n_images": 5})
        with pytest.raises(InvalidInput, match="n_images must be a whole number; got 'five'"):
            check_arguments(run, {"n_images": "five"})


def test_what_is_quoted_is_short():
    values = (10**5000, -(10**5000), "x" * 10**6, ["x" * 1000] * 1000, {"a": {"b": {"c": 10**5000}}})
    assert all(len(quoted(value)) < 1000 for value in values)
    assert quoted(7) == "7"
