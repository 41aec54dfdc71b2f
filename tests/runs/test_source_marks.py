"""Generated pictures say that they are generated, by IPTC's digital source type, and others are not called so."""

import io
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.exchange.export import Export, ExportedImage, write_folder, write_zip
from bias_core.exchange.imports import ImportedImages
from bias_core.store.images import ImageStore, encode_png, pixel_digest, read_record, without_texts
from bias_core.store.source_marks import source_of
from bias_core.types import GeneratedImage, ImageRow
from tests.runs.test_imports import DOCTOR, NURSE, folder
from tests.runs.test_picture_metadata import A1111, png

IPTC = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
TERMS = "http://cv.iptc.org/newscodes/digitalsourcetype/"
CAMERA = (
    f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a xmlns:i="{IPTC[1:-18]}" '
    f'i:DigitalSourceType="{TERMS}digitalCapture"/></x:xmpmeta>'
)
ROW = ImageRow(prompt="a nurse, iTXtXML:com.adobe.xmp", seed=3, model="org/model")


def drawn(**more):
    return GeneratedImage(row=ROW, image=Image.new("RGB", (4, 4), "red"), **more)


def mark(data):
    """The term that another reader of XMP finds; "" where there is no XMP."""
    with Image.open(io.BytesIO(data)) as opened:
        xmp = opened.info.get("XML:com.adobe.xmp")
    if xmp is None:
        return ""
    tree = ElementTree.fromstring(re.sub(r"<\?xpacket.*?\?>", "", xmp))
    (value,) = [one.attrib[IPTC] for one in tree.iter() if IPTC in one.attrib]
    assert value.startswith(TERMS)
    return value.removeprefix(TERMS)


def test_what_a_model_drew_is_marked_and_what_the_renderer_drew_is_no_model_s():
    assert mark(encode_png(drawn())) == "trainedAlgorithmicMedia"
    assert mark(encode_png(drawn(truth={"gender": "feminine"}))) == "algorithmicMedia"
    assert read_record(encode_png(drawn())).row == ROW


def photograph(xmp=""):
    info = PngInfo()
    if xmp:
        info.add_itxt("XML:com.adobe.xmp", xmp)
    data = io.BytesIO()
    Image.new("RGB", (8, 8), "green").save(data, "PNG", pnginfo=info)
    return data.getvalue()


@pytest.mark.parametrize(("data", "expected"), [
    (photograph(), ""),
    (photograph(CAMERA), "digitalCapture"),
    (png(parameters=A1111.format(seed=1)), "trainedAlgorithmicMedia"),
    (encode_png(drawn(truth={"gender": "feminine"})), "algorithmicMedia"),
], ids=["of nobody knows where", "of a camera that says so", "of another program", "of our own renderer"])  # fmt: skip
def test_pictures_that_are_brought_along_keep_their_mark_and_get_none_that_nobody_knows(tmp_path, data, expected):
    found = ImportedImages(folder(tmp_path, {f"{NURSE}/1.png": data}))
    prompt = next(text for text in (NURSE, DOCTOR, ROW.prompt) if found.n_of(text))
    (image,) = found.generate(found.rows(prompt, 1))
    (stored,) = ImageStore(tmp_path / "images").add([image])
    assert (source_of(stored), mark(stored.path.read_bytes())) == (expected, expected)


def test_a_picture_without_a_mark_is_marked_in_an_export_and_loses_nothing(tmp_path):
    (stored,) = ImageStore(tmp_path / "images").add([drawn()])
    data = stored.path.read_bytes()
    start = data.index(b"iTXtXML:com.adobe.xmp\0") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    old = data[:start] + data[end:]
    stored.path.write_bytes(old)
    assert mark(old) == ""
    image = ExportedImage(path=stored.path, row=ROW, source=source_of(stored))
    export = Export(images=[image], tables={}, report={}, markdown="")
    with zipfile.ZipFile(write_zip(export, tmp_path / "a.zip")) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".png")]
        exported = archive.read(name)
    assert mark(exported) == "trainedAlgorithmicMedia"
    assert pixel_digest(exported) == pixel_digest(old)
    assert read_record(exported) == read_record(old)
    assert without_texts(exported) == without_texts(old)
    assert (write_folder(export, tmp_path / "b") / name).read_bytes() == exported
    unknown = replace(export, images=[replace(image, source="")])
    assert (write_folder(unknown, tmp_path / "c") / name).read_bytes() == old
