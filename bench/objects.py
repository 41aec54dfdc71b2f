"""Speed of distribution bias of 5,000 words against loops, and of objects in captions: `python bench/objects.py`."""

import time

import numpy as np

from bench.bars import bar, end
from bias_core.measures.object_distribution import distribution_bias, distribution_bias_estimate
from bias_core.measures.objects import extract_objects

N_WORDS, N_IMAGES, REPEATS = 5000, 1000, 20
CAPTIONS = [
    "a young woman with glasses in scrubs holding a syringe in a hospital",
    "a man in a suit and tie sitting on a bench next to a fire hydrant",
    "two dogs playing with a frisbee in the snow",
    "a plate of food with french fries on a wooden table",
]


def seconds(function, number=1):
    start = time.process_time()  # of the processor: other programs' turns do not count
    for _ in range(number):
        function()
    return (time.process_time() - start) / number


def ends_once(pairs):
    """Eq. 2 and 3 over the pairs (word, count), with the smallest and largest count looked up once."""
    ordered = sorted(pairs.items(), key=lambda pair: pair[1])
    low, high = ordered[0][1], ordered[-1][1]
    normalised = [(word, (n - low) / (high - low)) for word, n in ordered]
    area = 0.0
    for i in range(len(normalised) - 1):
        area += (normalised[i][1] + normalised[i + 1][1]) / 2
    return area


def word_by_word(pairs):
    """Eq. 2 as written: smallest and largest count of all words, for each word."""
    counts = sorted(pairs.values())
    normalised = [(n - min(counts)) / (max(counts) - min(counts)) for n in counts]
    return sum((normalised[i] + normalised[i + 1]) / 2 for i in range(len(normalised) - 1))


def main():
    rng = np.random.default_rng(0)
    counts = rng.zipf(1.6, size=N_WORDS).clip(max=3000)
    pairs = {f"word{i}": n for i, n in enumerate(counts.tolist())}
    if not np.allclose([ends_once(pairs), word_by_word(pairs)], distribution_bias(counts)):
        raise SystemExit("the three ways to compute distribution bias disagree")
    times = [  # in turns: the machine drifts
        (seconds(lambda: distribution_bias(counts), 200), seconds(lambda: ends_once(pairs), 2)) for _ in range(REPEATS)
    ]
    ours, once = np.min(times, axis=0)
    literal = seconds(lambda: word_by_word(pairs))
    print(f"B_D of {N_WORDS} words: {1e6 * ours:.0f} µs")
    for how, loop in (("ends looked up once", once), ("Eq. 2 word by word", literal)):
        print(f"loop, {how}: {1e6 * loop:.0f} µs, {loop / ours:.0f} times as long {bar(loop / ours, least=100)}")

    shares = np.minimum(0.9, 2 / np.arange(1, N_WORDS + 1))
    images = [[f"w{i}" for i in np.flatnonzero(row)] for row in rng.random((N_IMAGES, N_WORDS)) < shares]
    spent = seconds(lambda: distribution_bias_estimate(images))
    print(f"its interval from {N_IMAGES} images: {spent:.2f} s")
    captions = CAPTIONS * 250
    extract_objects(captions[0])  # table loaded
    spent = seconds(lambda: [extract_objects(text) for text in captions])
    print(f"objects of {len(captions)} captions: {spent:.2f} s")


if __name__ == "__main__":
    main()
    end()
