"""The association test at the size of a published study, against loops: `python bench/association.py`."""

import time

import numpy as np

from bias_core.metrics.association import association_test

N_TARGETS, N_ATTRIBUTES, D, N_PERMUTATIONS = 320, 640, 768, 1000


def seconds(function, repeats=5):
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def cosine(u, v):
    return float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))


def main():
    rng = np.random.default_rng(0)
    sizes = (N_TARGETS, N_TARGETS, *[N_ATTRIBUTES] * 4)
    sets = [rng.normal(size=(n, D)).astype(np.float32) for n in sizes]
    ours = seconds(lambda: association_test(*sets, n_permutations=N_PERMUTATIONS))

    def one_target():
        return np.mean([cosine(sets[0][0], a) for a in sets[2]]) - np.mean(
            [cosine(sets[0][0], b) for b in sets[3]]
        )

    values = list(rng.normal(size=2 * N_TARGETS))

    def one_permutation():
        rng.shuffle(values)
        return sum(values[:N_TARGETS]) / N_TARGETS - sum(values[N_TARGETS:]) / N_TARGETS

    targets, permutation = 2 * N_TARGETS * seconds(one_target), seconds(one_permutation)
    once, always = targets + N_PERMUTATIONS * permutation, N_PERMUTATIONS * targets
    print(f"{N_TARGETS} + {N_ATTRIBUTES} images a side, {N_PERMUTATIONS} permutations: {ours:.3f} s")
    print(f"loops, cosines computed once: {once:.1f} s, {once / ours:.0f} times as long")
    print(f"loops, cosines computed in every permutation: {always:.0f} s, {always / ours:.0f} times as long")


if __name__ == "__main__":
    main()
