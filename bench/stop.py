"""StOP's candidates scored per second, in batches and one at a time: `python bench/stop.py`."""

import time

import numpy as np
import torch

from bench.bars import bar, end
from bias_core.installed import ASSETS
from bias_core.models.encoders import TransformersEncoder
from bias_core.papers.oasis.prompt_search import optimise_prompts
from training.captions import vocabulary

PREFIX = "This is a photo of"
N_ALONE, WIDTH = 200, 8


class Words:
    """Proposes every word of the calibration world, so that only the scoring takes time."""

    def __init__(self):
        self.words = vocabulary()

    def propose(self, prefixes, n):
        return [[f"{prefix} {word}" for word in self.words[:n]] for prefix in prefixes]


class Counted:
    """Encoder that counts texts and seconds."""

    def __init__(self, encoder):
        self.encoder, self.n_texts, self.seconds = encoder, 0, 0.0
        self.name = encoder.name

    def encode_texts(self, texts):
        started = time.process_time()  # of the processor: other programs' turns do not count
        rows = self.encoder.encode_texts(texts)
        self.seconds += time.process_time() - started
        self.n_texts += len(texts)
        return rows


def main():
    torch.set_num_threads(1)  # threads that wait for each other use the processor too
    encoder = TransformersEncoder("calibration-clip", str(ASSETS / "calibration" / "clip"), offline=True)
    encoder.encode_texts([PREFIX])
    images = np.load(ASSETS / "calibration" / "clip" / "held_out.npz")["image_embeddings"][:50]
    texts = [f"{PREFIX} {word}" for word in vocabulary()[:N_ALONE]]
    target = images.astype(np.float64).mean(axis=0)

    batched = Counted(encoder)
    started = time.perf_counter()
    optimise_prompts(
        images, batched, Words(), prefix=PREFIX, n_tokens=2, beam_width=WIDTH, n_candidates=10_000, top_k=10,
        contrast=False, prior_weight=0.0, held_out=0.0,
    )  # fmt: skip
    whole = time.perf_counter() - started

    started = time.process_time()
    for text in texts:
        _ = float(encoder.encode_texts([text])[0] @ target)
    alone = N_ALONE / (time.process_time() - started)

    together = batched.n_texts / batched.seconds
    print(f"{batched.n_texts:,} texts scored in a search of {whole:.1f} s")
    print(f"in batches:      {together:8.0f} texts a second")
    print(f"one at a time:   {alone:8.0f} texts a second")
    print(f"batches are {together / alone:.1f} times as quick {bar(together / alone, least=10)}")


if __name__ == "__main__":
    main()
    end()
