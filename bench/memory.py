"""Peak memory of Psi, the share of variance and WALS on 100,000 embeddings: `python bench/memory.py`."""

import resource
import time

import numpy as np

from bench.bars import bar, end
from bias_core.measures.alignment import alignment_estimates, text_direction, variance_share
from bias_core.measures.stereotype import prevalence_estimate, stereotype_estimate

N_IMAGES, D = 100_000, 768


def peak_gb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main():
    rng = np.random.default_rng(0)
    print(f"before: {peak_gb():.2f} GB")
    images = rng.normal(size=(N_IMAGES, D)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    positive, negative = rng.normal(size=(2, D)).astype(np.float32)
    print(f"with {N_IMAGES:,} embeddings of {D} dimensions: {peak_gb():.2f} GB")
    started = time.perf_counter()
    prevalence = prevalence_estimate(
        images @ (positive / np.linalg.norm(positive)), images @ (negative / np.linalg.norm(negative))
    )
    psi = stereotype_estimate(prevalence, 0.5)
    direction = text_direction(positive, negative)
    share, wals = variance_share(images, direction), alignment_estimates(images, direction[None])[0]
    print(f"Psi {psi.value:.3f}, share {share.value:.5f} [{share.low:.5f}, {share.high:.5f}], WALS {wals.value:.3f}")
    print(f"{time.perf_counter() - started:.0f} s, peak {peak_gb():.2f} GB {bar(peak_gb(), most=2)}")


if __name__ == "__main__":
    main()
    end()
