"""Speed of the association test at the size of a published study, against loops: `python bench/association.py`."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from bench.bars import bar, end
from bias_core.measures.association import association_test

N_TARGETS, N_ATTRIBUTES, D, N_PERMUTATIONS, REPEATS = 320, 640, 768, 1000, 9


def seconds(function, number=1):
    start = time.process_time()  # of the processor: other programs' turns do not count
    for _ in range(number):
        function()
    return (time.process_time() - start) / number


def cosine(u, v):
    return float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))


def main():
    rng = np.random.default_rng(0)
    sizes = (N_TARGETS, N_TARGETS, *[N_ATTRIBUTES] * 4)
    sets = [rng.normal(size=(n, D)).astype(np.float32) for n in sizes]
    values = list(rng.normal(size=2 * N_TARGETS))

    def one_target():
        return np.mean([cosine(sets[0][0], a) for a in sets[2]]) - np.mean([cosine(sets[0][0], b) for b in sets[3]])

    def one_permutation():
        rng.shuffle(values)
        return sum(values[:N_TARGETS]) / N_TARGETS - sum(values[N_TARGETS:]) / N_TARGETS

    def whole_test():
        return association_test(*sets, n_permutations=N_PERMUTATIONS)

    with threadpool_limits(1):  # as the loops
        times = [  # in turns: the machine drifts
            (seconds(whole_test), seconds(one_target, 2), seconds(one_permutation, 20)) for _ in range(REPEATS)
        ]
    ours, target, permutation = np.min(times, axis=0)
    targets = 2 * N_TARGETS * target
    once, always = targets + N_PERMUTATIONS * permutation, N_PERMUTATIONS * targets
    print(f"{N_TARGETS} + {N_ATTRIBUTES} images a side, {N_PERMUTATIONS} permutations: {ours:.3f} s")
    for how, loops in (("once", once), ("in every permutation", always)):
        print(
            f"loops, cosines computed {how}: {loops:.1f} s, {loops / ours:.0f} times as long "
            f"{bar(loops / ours, least=100)}"
        )


if __name__ == "__main__":
    main()
    end()
