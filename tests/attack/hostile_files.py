"""Small files that stand for gigabytes, and a program that reads them and says how its memory grew."""

import io
import json
import os
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from bias_core.errors import BiasCoreError
from bias_core.store.imports import ImportedImages
from bias_core.store.tables import read_pack
from bias_core.study.answers import read_answers

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
    yield "zip, entries", entries(folder / "a.zip", 300_000)
    yield "zip, long names", entries(folder / "a.zip", 200, "a photo of a nurse {}" + "-" * 60_000 + ".png")


def read(path):
    """Read a file and return the outcome, a word or a sentence."""
    try:
        if path.suffix != ".zip":
            return f"{len(read_answers(str(path)) if path.stem == 'labels' else read_pack(str(path)))} rows were read"
        found = ImportedImages(path)
        found.examine()
        said = [*found.left_out, *found.problems][:1]
        return f"{sum(found.counts.values())} pictures were read; {said} {found.unread_metadata[:1]}"
    except BiasCoreError as error:
        return f"{type(error).__name__}: {error}"


def main(folder):
    """One line of JSON for each file: what is wrong with it, megabytes of growth until now, and what came of it."""
    read(zipped(folder / "a.zip", {"a photo of a nurse.png": picture(), "metadata.parquet": table({"prompt": ["a"]})}))
    for name, path in hostile_files(folder):
        # What was needed to make the file is no part of it: each is read by a process of its own that was begun here.
        print(json.dumps([name, *read_apart(path)]), flush=True)


def read_apart(path):
    """Megabytes of growth, and what came of a file, in a copy of this process."""
    ends = os.pipe()
    if child := os.fork():
        os.close(ends[1])
        with os.fdopen(ends[0]) as told:
            found = json.loads(told.read() or '[9999, "ended"]')
        os.waitpid(child, 0)
        return found
    Path("/proc/self/clear_refs").write_text("5")  # the greatest size is counted from here
    before, came = _most(), read(path)
    os.write(ends[1], json.dumps([_most() - before, came[:400]]).encode())
    os._exit(0)


def _most():
    return next(
        int(line.split()[1]) // 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
