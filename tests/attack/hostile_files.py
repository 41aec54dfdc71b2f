"""Small files that stand for gigabytes or minutes, and a program that reads them as a server does and says its cost."""

import io
import json
import os
import random
import struct
import sys
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from bias_core.errors import BiasCoreError
from bias_core.store import reader
from bias_core.store.imports import ImportedImages
from bias_core.store.tables import read_pack
from bias_core.study.answers import read_answers

SECONDS = 0.6  # of a file, in place of a server's 4: there are many
MANY, ALLOWED = 1_100_000, 60_000  # lines: too many, and nearly so
LONG, LONGER = 12_000_000, 39_000_000  # bytes; the latter just below what one file may have
HEAD = b"file_name,prompt\n"


def picture(kind="PNG", size=(1, 1), **options):
    buffer = io.BytesIO()
    Image.new("RGB", size, (9, 99, 199)).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def with_parts(*parts):
    """A PNG with further parts before its pixels."""
    data = picture(size=(40, 40))
    return data[:33] + b"".join(parts) + data[33:]


def directory(n_tags, n_bytes):
    """TIFF or EXIF whose entries all name the same bytes."""
    where = 8 + 2 + 12 * n_tags + 4
    entries = b"".join(struct.pack("<HHLL", tag, 7, n_bytes, where) for tag in range(300, 300 + n_tags))
    return b"II*\0" + struct.pack("<LH", 8, n_tags) + entries + b"\0\0\0\0" + b"x" * n_bytes


def table(columns, **options):
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer, compression="zstd", **options)
    return buffer.getvalue()


def repeated(text, n):
    """A column of Parquet in which one text stands once and is meant many times."""
    return {"file_name": pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array(["1.png"])),
            "prompt": pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([text]))}  # fmt: skip


def segments(kind, body, n):
    """A JPEG with n such parts before its pixels."""
    data = picture("JPEG", (40, 40))
    return data[:2] + (b"\xff" + kind + struct.pack(">H", len(body) + 2) + body) * n + data[2:]


def passes(n, side=7000):
    """A JPEG that goes over its pixels n times more than it needs to."""
    data = picture("JPEG", (side, side), progressive=True, quality=5)
    return data[:-2] + data[data.rindex(b"\xff\xda") : -2] * n + data[-2:]


def bmp(compression, width, height, body, bits=8):
    """A BMP whose pixels are packed; RLE's escapes skip and repeat."""
    table = bytes(4 * 256) if bits == 8 else b""
    offset = 54 + len(table)
    head = struct.pack("<LLLHHLLLLLL", 40, width, height, 1, bits, compression, len(body), 0, 0, 0, 0)
    return b"BM" + struct.pack("<LHHL", offset + len(body), 0, 0, offset) + head + table + body


def tiled(width, height, tile):
    """A TIFF whose only tile is much larger than its picture."""
    tags = ((256, width), (257, height), (258, 8), (259, 8), (262, 1), (277, 1), (322, tile), (323, tile))
    body = zlib.compress(bytes(tile * 64))
    where = 8 + 2 + 12 * (len(tags) + 2) + 4
    entries = [*((tag, 4, 1, value) for tag, value in tags), (324, 4, 1, where), (325, 4, 1, len(body))]
    listed = b"".join(struct.pack("<HHLL", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<LH", 8, len(entries)) + listed + bytes(4) + body


GIF = picture("GIF", (8, 8))


def gif(*parts):
    """A GIF with these bytes after its first frame."""
    return GIF[:-1] + b"".join(parts) + b";"


def noise(n):
    return random.Random(0).randbytes(n)


def repacked(compression, content):
    """A zip with an entry that is packed in a rare way."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("a photo of a nurse.png", content)
    return buffer.getvalue()


def plain(kind, mode="RGB", size=(4096, 4096)):
    buffer = io.BytesIO()
    Image.new(mode, size, 99 if mode == "L" else (9, 99, 199, 50)[: len(mode.replace("LAB", "RGB"))]).save(buffer, kind)
    return buffer.getvalue()


PARQUETS = {
    "one text many times": lambda: table(repeated("a" * 60_000, 200_000)),
    "a text of 20 MB": lambda: table(repeated("a" * 20_000_000, 9)),
    "texts that go on": lambda: table({"prompt": ["a" * 60_000] * 2000}, use_dictionary=False,
                                      column_encoding={"prompt": "DELTA_BYTE_ARRAY"}),
    "plain texts": lambda: table({"prompt": ["a" * 60_000] * 4500}, use_dictionary=False),
    "rows": lambda: table({"prompt": [""] * MANY}),
    "columns": lambda: table({f"c{place}": [1] for place in range(3000)}),
    "lists": lambda: table({"prompt": ["a"], "attributes": [["man"] * 4_100_000]}),
    "groups": lambda: table({"prompt": ["a"] * 20_000}, row_group_size=2),
}  # fmt: skip
TABLES = {
    "metadata.csv": {
        "empty lines": lambda: HEAD + b"\n" * MANY, "empty cells": lambda: HEAD + b",\n" * MANY,
        "blank": lambda: b" " * LONG, "one row": lambda: HEAD + b'"\n",' * (LONG // 4),
        "unknown pictures": lambda: HEAD + b"1.png,a\n" * (LONG // 8), "cells": lambda: HEAD + b"," * LONG,
        "columns": lambda: b"file_name,prompt," + b"a," * (LONG // 2),
        "UTF-16": lambda: b"\xff\xfe" + b"a\0" * (LONG // 2),
        "invented": lambda: HEAD + b"".join(b"%d.png,a\n" % place for place in range(ALLOWED)),
        "cells of white": lambda: HEAD + b"1.png,%b\n" % (b"a " * 60_000) * 90,
        "one wide letter": lambda: HEAD + b"1.png," + "\U0001f600".encode() + b"a" * LONG,
    },
    "metadata.jsonl": {
        "objects": lambda: b"{}\n" * MANY, "few objects": lambda: b"{}\n" * ALLOWED,
        "lists": lambda: b'{"a":[' + b"[]," * (LONG // 3), "deep": lambda: b'{"a":' + b"[" * LONG,
        "shallow": lambda: b'{"file_name":' + b"[" * 900_000 + b"]" * 90,
        "keys": lambda: b"".join(b'{"k%d":1}\n' % place for place in range(100_000)),
    },
    "part.json": {
        "lists": lambda: b'{"1.png":{"p":"a"},"x":[' + b"[]," * (LONG // 3) + b"[]]}",
        "deep": lambda: b"[" * 7_000_000,
        "short lists": lambda: b'{"1.png":{"p":"a"},"x":[' + b"[]," * MANY + b"[]]}",
    },
    "1.txt": {"long": lambda: b"a" * LONG},
    "metadata.parquet": PARQUETS,
}  # fmt: skip
PICTURES = {
    "a text that unpacks": lambda: with_parts(*[chunk(b"zTXt", b"parameters\0\0" + zlib.compress(b"a" * LONG))] * 9),
    "a profile that unpacks": lambda: with_parts(chunk(b"iCCP", b"a\0\0" + zlib.compress(b"a" * LONG))),
    "a part of its own": lambda: with_parts(chunk(b"prVt", b"a" * LONGER)),
    "many parts": lambda: with_parts(chunk(b"prVt", b"") * (LONGER // 12)),
    "many parts of pixels": lambda: with_parts(chunk(b"IDAT", b"") * (LONGER // 12)),
    "a GIF's comment": lambda: b"GIF89a\1\0\1\0\0\0\0!\xfe" + (b"\xff" + b"a" * 255) * (LONGER // 256) + b"\0;",
    "a TIFF's directory": lambda: directory(60_000, 100_000),
    "EXIF's directory": lambda: segments(b"\xe1", b"Exif\0\0" + directory(3000, 28_000), 1),
    "several pictures' directory": lambda: segments(b"\xe2", b"MPF\0" + directory(3000, 28_000), 1),
    "a WebP's EXIF": lambda: picture("WEBP", exif=b"Exif\0\0" + directory(60_000, 1_000_000)),
    "many parts of a JPEG": lambda: segments(b"\xe1", b"Exif\0\0" + b"a" * 65_000, 900),
    "many passes of a JPEG": lambda: passes(300),
    "tiny parts of a JPEG": lambda: segments(b"\xe5", b"", LONGER // 4),
    "a BMP that skips": lambda: bmp(1, 30_000, 30_000, b"\0\2\xff\xff\0\1"),
    "a BMP of a thousand skips": lambda: bmp(1, 20_000, 20_000, b"\0\2\xff\xff" * 1000 + b"\0\1"),
    "a BMP in runs": lambda: bmp(1, 8192, 8192, b"\1\1" * 18_000 + b"\0\1"),
    "a TIFF of one huge tile": lambda: tiled(16, 16, 30_000),
    "a GIF with a late comment": lambda: gif(b"!\xfe" + b"\1a" * 15_000 + b"\0"),
    "a GIF with many late comments": lambda: gif(b"!\xfe\1a\0" * 30_000),
    "a GIF with noise behind": lambda: gif(noise(150_000)),
    "a GIF with many extensions": lambda: gif(b"!\xf9\4\0\0\0\0\0" * 5000),
    "a GIF with a huge screen": lambda: GIF[:6] + b"\xff\xff\xff\xff" + GIF[10:],
    **{f"16.8 million pixels, {kind} {mode}": lambda kind=kind, mode=mode: plain(kind, mode) for kind, mode in (
        ("WEBP", "RGB"), ("WEBP", "RGBA"), ("AVIF", "RGB"), ("TIFF", "CMYK"), ("TIFF", "LAB"), ("PNG", "RGBA"),
        ("BMP", "RGB"))},
    "frames": lambda: picture("GIF", save_all=True, append_images=[Image.new("RGB", (1, 1), (n % 256, n // 256, 0))
                                                                   for n in range(3000)]),
}  # fmt: skip


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def entries(path, n, name="{}.txt"):
    """A zip whose directory names n files of no bytes."""
    names = [name.format(place).encode() for place in range(n)]
    listed = b"".join(
        b"PK\1\2" + struct.pack("<HHHHHHLLLHHHHHLL", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(one), 0, 0, 0, 0, 0, 0) + one
        for one in names
    )
    path.write_bytes(listed + b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, n % 65_536, n % 65_536, len(listed), 0, 0))
    return path


def written(path, content):
    path.write_bytes(content)
    return path


def hostile_files(folder):
    """Every file by what is wrong with it, one after another: each is deleted once it was read."""
    pictures = {"1.png": picture(), "a nurse and a cook.png": picture()}
    for name, kinds in TABLES.items():
        for kind, make in kinds.items():
            yield f"{name}, {kind}", zipped(folder / "a.zip", {**pictures, name: make()})
    for kind, make in PICTURES.items():
        yield f"picture, {kind}", zipped(folder / "a.zip", {"a photo of a nurse.png": make()})
    for kind in ("one text many times", "a text of 20 MB", "rows", "lists", "groups"):
        yield f"pack, {kind}", written(folder / "pack.parquet", PARQUETS[kind]())
    for n in (ALLOWED, MANY):
        yield f"pack, {n} rows", written(folder / "pack.csv", b"prompt,n\n" + b"a,\n" * n)
        yield f"pack, {n} bad rows", written(folder / "pack.csv", b"prompt,n\n" + b"a,b\n" * n)
        yield f"labels, {n} rows", written(folder / "labels.csv", b"image_id,answer\n" + b"a,b\n" * n)
    for name, compression in (("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
        yield f"zip, {name}", written(folder / "a.zip", repacked(compression, bytes(900_000_000)))
    yield "zip, six at once", zipped(folder / "a.zip", {
        "a photo of a nurse.png": picture(),
        **{f"a photo of a cook {n}.jpg": passes(300) for n in range(3)},
        **{f"a photo of a cook {n}.png": PICTURES["many parts"]() for n in range(3)}})  # fmt: skip
    yield "zip, entries", entries(folder / "a.zip", 300_000)
    yield "zip, long names", entries(folder / "a.zip", 200, "a photo of a nurse {}" + "-" * 60_000 + ".png")


def read(path):
    """Read a file and return the outcome, a word or a sentence."""
    try:
        if path.suffix != ".zip":
            rows = read_answers(str(path)) if path.stem == "labels" else read_pack(str(path))[0]
            return f"{len(rows)} rows were read"
        found = ImportedImages(path)
        found.examine()
        said = [(sentence, list(lines)[:1]) for sentence, lines in found.remarks()]
        return f"{sum(found.counts.values())} pictures were read; {said}"
    except BiasCoreError as error:
        return f"{type(error).__name__}: {error}"


def main(folder):
    """One line of JSON for each file: what is wrong with it, its cost, and what came of it.

    The cost: megabytes by which this process grew, most megabytes of a reader, processor seconds of both.
    """
    # Its place beside other work is not measured here: beside other tests it would take minutes longer.
    reader.use_limits(replace(reader.SHARED, file_seconds=SECONDS, niceness=0))
    if not (child := os.fork()):  # what is needed to make files is no part of their cost
        for place, (name, path) in enumerate(hostile_files(folder)):
            path.rename(folder / f"{place:03}{path.suffix}" if path.stem != "labels" else folder / f"{place:03}.labels")
            (folder / f"{place:03}.name").write_text(name)
        os._exit(0)
    os.waitpid(child, 0)
    read(zipped(folder / "a.zip", {"a photo of a nurse.png": picture(), "metadata.parquet": table({"prompt": ["a"]})}))
    for named in sorted(folder.glob("*.name")):
        path = next(path for path in folder.glob(f"{named.stem}.*") if path != named)
        path = path.rename(folder / ("labels.csv" if path.suffix == ".labels" else path.name))
        for pid in ["self", *reader_pids()]:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the greatest size is counted from here
        before, since = most_megabytes(), seconds()
        came = read(path)
        cost = (
            most_megabytes() - before,
            max(map(most_megabytes, reader_pids()), default=0),
            round(seconds() - since, 1),
        )
        print(json.dumps([named.read_text(), *cost, came[:400]]), flush=True)


def reader_pids():
    return [each._process.pid for each in reader._readers._idle]


def seconds():
    """Processor time of this process and of all its readers."""
    alive = (psutil.Process(pid).cpu_times()[:2] for pid in reader_pids())
    return time.process_time() + sum(os.times()[2:4]) + sum(map(sum, alive))


def most_megabytes(pid="self"):
    """The greatest size of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
