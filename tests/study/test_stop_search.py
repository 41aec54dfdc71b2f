"""StOP finds the planted words, and what exhaustive search finds; its numbers are those of a plain loop."""

import itertools
import threading

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import Cancelled, InvalidInput
from bias_core.papers.oasis.prompt_search import cluster_average_image, optimise_prompts
from bias_core.report.claims import decide_claims
from tests.every import every

PREFIX = "This is a photo of"
EQUATION_8 = {
    "prefix": PREFIX, "n_tokens": 2, "beam_width": 10, "n_candidates": 256, "top_k": 10, "contrast": False,
    "prior_weight": 0.0, "held_out": 0.0,
}  # fmt: skip
WORDS = ["a", "the", "man", "woman", "turban", "beard", "old", "rose", "hat", "smiling", "doctor"]  # 11
D = 13


class BagOfWords:
    """An encoder whose sentences are sums of word directions, with a little of their order."""

    name = "bag of words"

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.directions = {word: rng.normal(size=D) for word in [*WORDS, *PREFIX.split()]}
        self.calls, self.known = [], {}

    def row(self, text):
        if text not in self.known:
            words = [self.directions.get(word.strip(".,").lower(), np.ones(D)) for word in text.split()]
            self.known[text] = sum(word * 1.1**i for i, word in enumerate(words))
        return self.known[text]

    def encode_texts(self, texts):
        self.calls.append(len(texts))
        rows = [self.row(text) for text in texts]
        return (np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def encode_images(self, images):
        raise NotImplementedError


class Words:
    """A language model that proposes words in one order whatever came before; a text with "rose" cannot end."""

    def __init__(self, words=WORDS):
        self.words = words

    def log_probabilities(self, texts, *, ends):
        return np.array([-9.0 if "rose" in text and ends else -len(text.split()) for text in texts])

    def propose(self, prefixes, n):
        return [[f"{prefix} {word}" for word in self.words[:n]] for prefix in prefixes]


def search_texts(*inputs, **options):
    return optimise_prompts(*inputs, **EQUATION_8 | options)


def images_near(encoder, text, n=7, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return encoder.encode_texts([text]) + noise * rng.normal(size=(n, D)) / np.sqrt(D)


def mean_cosine(images, row):
    """A plain loop."""
    return np.mean([float(x @ row / np.linalg.norm(x) / np.linalg.norm(row)) for x in images])


@pytest.mark.parametrize("n_tokens", [1, 2, 3])
def test_a_beam_as_wide_as_the_candidates_is_exhaustive_search(n_tokens):
    encoder = BagOfWords()
    images = images_near(encoder, f"{PREFIX} smiling doctor", noise=2.0)
    every = [" ".join([PREFIX, *words]) for words in itertools.product(WORDS, repeat=n_tokens)]
    scores = [mean_cosine(images, row) for row in encoder.encode_texts(every)]
    best = sorted(zip(scores, every, strict=True), reverse=True)[:5]
    found = search_texts(
        images, encoder, Words(), n_tokens=n_tokens, top_k=5, n_candidates=11, beam_width=11 ** max(n_tokens - 1, 1)
    )
    assert [prompt.text for prompt in found] == [text for _, text in best]
    assert [prompt.score.value for prompt in found] == pytest.approx([score for score, _ in best], abs=1e-6)


@pytest.mark.parametrize("words", [("turban", "man"), ("old", "woman"), ("a", "rose")])
def test_planted_words_are_found_by_a_narrow_beam(words):
    encoder = BagOfWords()
    images = images_near(encoder, " ".join([PREFIX, *words]))
    found = search_texts(images, encoder, Words(), beam_width=3, top_k=3)
    assert found[0].text == " ".join([PREFIX, *words])
    assert found[0].gain.low > 0


def test_a_wider_beam_never_does_worse():
    encoder = BagOfWords(seed=3)
    images = images_near(encoder, f"{PREFIX} old beard hat", noise=3.0)
    scores = [
        search_texts(images, encoder, Words(), n_tokens=3, beam_width=width, top_k=1)[0].score.value
        for width in (1, 5, 121)
    ]
    assert scores == sorted(scores)


def test_the_numbers_are_those_of_a_plain_loop():
    encoder = BagOfWords()
    images, others = (images_near(encoder, f"{PREFIX} turban man"), images_near(encoder, "the rose", n=5, seed=1))
    found = search_texts(images, encoder, Words(), other_embeddings=others, top_k=1)[0]
    row, start = encoder.encode_texts([found.text, PREFIX])
    assert found.score.value == pytest.approx(mean_cosine(images, row), abs=1e-6)
    assert found.baseline == pytest.approx(mean_cosine(images, start), abs=1e-6)
    assert found.gain.value == pytest.approx(found.score.value - found.baseline, abs=1e-6)
    assert found.others == pytest.approx(mean_cosine(others, row), abs=1e-6)
    gain_outside = found.others - mean_cosine(others, start)
    assert found.specificity.value == pytest.approx(found.gain.value - gain_outside, abs=1e-6)
    assert (found.score.n, found.gain.n, found.specificity.n) == (7, 7, 12)
    assert found.score.low <= found.score.value <= found.score.high
    assert (found.gain.null_value, found.specificity.null_value, found.score.null_value) == (0, None, None)
    assert np.isnan(found.specificity.p_value)  # the search saw these images
    assert "optimistic" in found.score.note


def test_a_prompt_that_fits_all_images_alike_is_rarely_called_specific():
    encoder, n_missed = BagOfWords(), 0
    for seed in range(60):
        images = images_near(encoder, f"{PREFIX} turban man", n=46, seed=seed)
        found = search_texts(images[:23], encoder, Words(), other_embeddings=images[23:], beam_width=1, top_k=1)[0]
        n_missed += not found.specificity.low < 0 < found.specificity.high
    assert n_missed <= 9  # of 60 at 95 %: more than 9 happen once in 1,000 times


def test_a_prompt_that_fits_the_cluster_alone_is_specific():
    encoder = BagOfWords()
    images, others = images_near(encoder, f"{PREFIX} turban man"), images_near(encoder, f"{PREFIX} the rose")
    found = search_texts(images, encoder, Words(), other_embeddings=others, top_k=1)[0]
    assert found.specificity.low > 0


def test_the_contrast_finds_what_tells_a_cluster_apart_and_the_score_what_all_share():
    encoder = BagOfWords()
    images = images_near(encoder, "doctor doctor turban")
    others = images_near(encoder, "doctor doctor rose", seed=1)
    search = {"other_embeddings": others, "prefix": "photo", "n_tokens": 1, "top_k": 1}
    assert search_texts(images, encoder, Words(), **search)[0].text == "photo doctor"
    (found,) = search_texts(images, encoder, Words(), contrast=True, **search)
    assert found.text == "photo turban"
    rows = encoder.encode_texts([f"photo {word}" for word in WORDS])
    differences = [mean_cosine(images, row) - mean_cosine(others, row) for row in rows]
    assert found.score.value - found.others == pytest.approx(max(differences), abs=1e-6)


def test_images_held_out_take_the_optimism_out_of_the_score():
    encoder, rng = BagOfWords(), np.random.default_rng(5)
    wrong = {0.0: 0, 0.5: 0}
    for seed in range(40):
        images, others = rng.normal(size=(2, 26, D))  # which no text tells apart
        for share in wrong:
            search = {"contrast": True, "held_out": share, "top_k": 1, "rng": seed}
            (found,) = search_texts(images, encoder, Words(), other_embeddings=others, **search)
            wrong[share] += not found.specificity.low <= 0 <= found.specificity.high
            assert found.specificity.null_value == (0 if share else None)
            assert found.score.n == (13 if share else 26)
            assert ("optimistic" in found.score.note) == (share == 0)
    assert wrong[0.5] <= 6  # of 40 at 95 %: more than 6 happen once in 100 times
    assert wrong[0.0] > 6


@pytest.mark.parametrize(("n", "n_others"), [(4, 12), (8, 20), (16, 32)])
def test_of_random_halves_at_most_one_run_in_twenty_gets_a_text_called_specific(n, n_others):
    encoder, rng, n_false, n_runs = BagOfWords(), np.random.default_rng(n), 0, 60
    for seed in range(n_runs):
        tests = []
        for _ in range(4):
            images, others = rng.normal(size=(n, D)), rng.normal(size=(n_others, D))
            search = {"contrast": True, "held_out": 0.5, "top_k": 3, "rng": seed, "n_candidates": 20, "beam_width": 2}
            tests += search_texts(images, encoder, Words(), other_embeddings=others, **search)
        n_false += any(claim.is_clear for claim in decide_claims([found.specificity for found in tests]))
    assert n_false <= 7  # of 60 at 5 %: more than 7 happen once in 100 times


def test_of_too_few_images_none_are_held_out_and_without_others_nothing_is_said_of_them():
    encoder = BagOfWords()
    found = search_texts(images_near(encoder, "man", n=3), encoder, Words(), held_out=0.5, top_k=1)[0]
    assert found.score.n == 3
    assert "optimistic" in found.score.note
    assert found.others is found.specificity is None


def test_texts_with_the_same_words_are_listed_once():
    encoder = BagOfWords()
    language_model = Words(["man", "Man", "man.", "  man", "hat", "...", "🙂"])
    found = search_texts(images_near(encoder, f"{PREFIX} man"), encoder, language_model, n_tokens=1)
    words = [prompt.text.lower().replace(".", "").split()[-1] for prompt in found]
    assert words == ["man", "hat"]


def test_the_scale_of_the_embeddings_does_not_matter_but_their_length_is_one_each():
    encoder = BagOfWords()
    images = images_near(encoder, f"{PREFIX} old man")
    scales = np.arange(1, 8)[:, np.newaxis]
    one, other = (search_texts(x, encoder, Words(), top_k=4) for x in (images, images * scales))
    assert [p.text for p in one] == [p.text for p in other]
    assert [p.score.value for p in one] == pytest.approx([p.score.value for p in other], abs=1e-6)


def test_the_encoder_is_called_in_batches():
    encoder = BagOfWords()
    many = [f"word{i}" for i in range(600)]
    encoder.directions |= {word: np.random.default_rng(i).normal(size=D) for i, word in enumerate(many)}
    images = images_near(encoder, f"{PREFIX} word7 word11")
    encoder.calls.clear()
    search_texts(images, encoder, Words(many), n_candidates=600, beam_width=2)
    assert encoder.calls == [1, 512, 88, 512, 512, 176]  # prefix; 600; 2 x 600


def test_progress_reaches_its_end():
    encoder, steps = BagOfWords(), []
    search_texts(
        images_near(encoder, "man"), encoder, Words(), beam_width=2, n_candidates=11,
        on_step=lambda done, planned: steps.append((done, planned)),
    )  # fmt: skip
    assert steps[-1] == (34, 34)  # 1 + 11 + 2 * 11
    assert steps == sorted(steps)
    assert {planned for _, planned in steps} == {34}


@pytest.mark.parametrize("n_steps", [1, 2, 4])
def test_models_run_under_the_lock_and_it_stops_when_asked_and_lets_go_of_it(n_steps):
    lock, seen, held = threading.Lock(), [], []

    class Watched(BagOfWords):
        def encode_texts(self, texts):
            held.append(lock.locked())
            return super().encode_texts(texts)

    def stop(done, planned):
        seen.append(done)
        if len(seen) == n_steps:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        search_texts(images_near(BagOfWords(), "man"), Watched(), Words(), on_step=stop, lock=lock)
    assert held
    assert all(held)
    assert not lock.locked()


def test_one_image_has_a_score_but_no_interval():
    encoder = BagOfWords()
    found = search_texts(images_near(encoder, "man", n=1), encoder, Words(), top_k=1)[0]
    assert np.isnan(found.score.low)
    assert "no interval" in found.score.note


def test_the_average_image_is_the_mean_pixel_by_pixel_of_the_first_size_whatever_the_mode():
    # (0 + 30 + 90) / 3 = 40, (255 + 255 + 0) / 3 = 170
    pictures = [Image.new("RGB", (5, 3), (value, edge, 7)) for value, edge in ((0, 255), (30, 255), (90, 0))]
    average = cluster_average_image(iter(pictures))
    assert average.size == (5, 3)
    assert average.tobytes() == bytes((40, 170, 7)) * 15
    average = cluster_average_image([Image.new("L", (4, 4), 100), Image.new("RGBA", (9, 2), (200, 200, 200, 0))])
    assert (average.size, average.getpixel((2, 2))) == ((4, 4), (150, 150, 150))
    with pytest.raises(InvalidInput, match="none"):
        cluster_average_image([])


def test_the_weight_of_the_language_model_is_added_and_nothing_else_changes():
    encoder = BagOfWords()
    images = images_near(encoder, f"{PREFIX} old rose")
    every = [" ".join([PREFIX, *words]) for words in itertools.product(WORDS, repeat=2)]
    for weight in (0.0, 0.02, 0.2):
        scores = [
            mean_cosine(images, row) + weight * (-9.0 if "rose" in text else -7.0)
            for text, row in zip(every, encoder.encode_texts(every), strict=True)
        ]
        (found,) = search_texts(images, encoder, Words(), prior_weight=weight, beam_width=11, top_k=1)
        assert found.text == every[int(np.argmax(scores))], weight
        (row,) = encoder.encode_texts([found.text])
        assert found.score.value == pytest.approx(mean_cosine(images, row), abs=1e-6)  # the cosine alone
    assert "rose" not in found.text


def test_shown_texts_differ_for_the_encoder_and_stand_in_the_order_of_their_measure():
    encoder = BagOfWords()
    encoder.directions["hat"] = encoder.directions["turban"]
    images, others = (
        images_near(encoder, f"{PREFIX} turban", n=20, noise=2),
        images_near(encoder, "a rose", n=30, noise=2),
    )
    for contrast, name in ((True, "specificity"), (False, "score")):
        found = search_texts(
            images, encoder, Words(), n_tokens=1, other_embeddings=others, contrast=contrast, held_out=0.5, top_k=11
        )
        assert len(found) == len(WORDS) - 1
        values = [getattr(prompt, name).value for prompt in found]
        assert values == sorted(values, reverse=True)


@every([
    (np.empty((0, D)), {}, "empty"), (np.zeros((3, D)), {}, "zeros"), (np.full((3, D), np.nan), {}, "finite"),
    (np.ones(D), {}, "shape"), (np.ones((3, D + 1)), {}, "same dimension"),
    (np.ones((3, D)), {"other_embeddings": np.ones((2, D + 2))}, "same dimension"),
    (np.ones((3, D)), {"contrast": True}, "other_embeddings"),
    (np.ones((3, D)), {"prior_weight": -1}, "prior_weight must be 0 or more; got -1"),
    (np.ones((3, D)), {"held_out": 1}, r"held_out .* got 1"),
    *((np.ones((3, D)), {name: 0}, f"{name} must be at least 1; got 0")
      for name in ("n_tokens", "beam_width", "n_candidates", "top_k")),
    *((np.ones((3, D)), {"prefix": prefix}, "prefix") for prefix in ("", " \n")),
    *((np.ones((3, D)), {"words": words}, "language model proposed no") for words in ([], [".", "!"])),
])  # fmt: skip
def test_what_cannot_be_searched_is_refused(images, options, message):
    options = dict(options)
    with pytest.raises(InvalidInput, match=message):
        search_texts(images, BagOfWords(), Words(options.pop("words", WORDS)), **options)
