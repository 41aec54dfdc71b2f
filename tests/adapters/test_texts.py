"""Texts of every family: encoded once, and what a text encoder does not read is said."""

from dataclasses import replace

import numpy as np
import pytest

from tests.adapters.families import FAMILIES, build, folder_of, pixels, rows_of


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in {"sd2", "turbo", "pixart"}])
def test_remembered_texts_change_no_pixel_and_spare_the_encoders(family, request):
    folder = folder_of(family, request)
    fresh, warm = build(family, folder), build(family, folder)
    rows = rows_of(family, 4, negative_prompt="a female")
    first = pixels(warm.generate(rows))
    encoders = [part for name, part in warm.pipeline().components.items() if "text_encoder" in name and part]
    calls, forwards = [], [part.forward for part in encoders]
    inner = [list(part.children())[-1] for part in encoders]  # what a real pass goes through
    handles = [part.register_forward_pre_hook(lambda *_: calls.append(1)) for part in inner]
    again = pixels(warm.generate(rows[::-1]))[::-1]
    assert not calls
    list(warm.generate([replace(rows[0], prompt="a female nurse")]))
    assert calls
    fresh._texts.max_bytes = 0
    for row, one, other in zip(rows, first, again, strict=True):
        fresh._texts.clear()
        (expected,) = pixels(fresh.generate([row]))
        np.testing.assert_array_equal(one, expected)
        np.testing.assert_array_equal(other, expected)
    assert warm._texts.n_bytes > 0
    for handle in handles:
        handle.remove()
    assert [part.forward for part in encoders] == forwards
    assert "forward" not in vars(encoders[0])


def test_the_memory_of_texts_is_bounded(request):
    model = build("sd1", folder_of("sd1", request))
    (row,) = rows_of("sd1", 1)
    list(model.generate([row]))
    one = model._texts.n_bytes // 2  # of the prompt and of the empty negative prompt
    model._texts.max_bytes = 3 * one
    for prompt in ("a man", "a nurse", "a doctor", "a photo"):
        list(model.generate([replace(row, prompt=prompt)]))
        assert model._texts.n_bytes <= 3 * one
    model.unload()
    assert model._texts.n_bytes == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_text_encoder_says_what_it_does_not_read(family, request, model):
    long = "a photo of a doctor " + "man " * 80 + "with Glasses"
    readers = FAMILIES[family].readers
    cold = build(family, folder_of(family, request))
    for found in (cold.prompt_limits(["a nurse", long]), model.prompt_limits(["a nurse", long])):
        assert {limit.reader: limit.limit for limit in found} == readers
        assert all(limit.cut == "" for limit in found if limit.prompt == "a nurse")
        # Start and end take two of the tokens, except where the start belongs to what comes before.
        for limit in (limit for limit in found if limit.prompt == long):
            assert limit.n_tokens == len(long.split()) + 2
            read = long.split()[: limit.limit - 2]
            assert " ".join(read + limit.cut.split()).lower() == long.lower()
    assert not cold.loaded
