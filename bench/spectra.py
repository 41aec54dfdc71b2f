"""Speed of WALS, the share of variance, and clusters, for 2,000 images: `python bench/spectra.py`."""

import time

import numpy as np

from bias_core.measures.alignment import alignment_estimates, variance_share_estimates
from bias_core.measures.clustering import spectral_clusters


def main():
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(4, 128))
    images = centres[rng.integers(0, 4, 2000)] + rng.normal(size=(2000, 128))
    directions = rng.normal(size=(6, 128))
    for name, function in {
        "WALS of six attributes": lambda: alignment_estimates(images, directions),
        "share of variance along six attributes": lambda: variance_share_estimates(images, directions),
        "spectral clusters": lambda: spectral_clusters(images),
    }.items():
        function()  # libraries loaded
        start = time.perf_counter()
        function()
        print(f"{name}: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
