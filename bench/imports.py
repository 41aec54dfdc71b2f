"""Time of reading 500 usual pictures in a reader, next to reading them here: `python -m bench.imports`.

The plain reference decodes each picture, and reads its metadata and digest, in this process.
"""

import hashlib
import io
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin

from bias_core.store import reader
from bias_core.store.images import decode_picture, open_picture
from bias_core.store.imports import ImportedImages
from bias_core.store.picture_metadata import read_metadata

N, SIDE, ROUNDS = 500, 512, 3
TEXT = "a photo of a doctor\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {}, Size: 512x512, Model: v1-5"


def write_zip(path):
    """500 pictures as a diffusion program writes them."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(N):
            coarse = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).resize((SIDE, SIDE))
            pixels = np.asarray(coarse).astype(int) + rng.integers(-6, 7, (SIDE, SIDE, 3))
            texts = PngImagePlugin.PngInfo()
            texts.add_text("parameters", TEXT.format(number))
            data = io.BytesIO()
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(data, "PNG", pnginfo=texts)
            archive.writestr(f"{number:05}.png", data.getvalue())
    return path


def read_plainly(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            read_metadata(io.BytesIO(data), name)
            hashlib.sha256(data).hexdigest()
            with open_picture(io.BytesIO(data)) as opened:
                decode_picture(opened)


def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = write_zip(Path(folder) / "a.zip")
        print(f"first reader: {seconds(reader.start):.2f} s")
        for _ in range(ROUNDS):
            plain, apart = seconds(lambda: read_plainly(path)), seconds(lambda: ImportedImages(path).look())
            print(f"{N} pictures: {plain:.2f} s here, {apart:.2f} s in a reader, {apart / plain:.2f} times")


if __name__ == "__main__":
    main()
