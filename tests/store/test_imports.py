"""Pictures of others come in with prompts and settings, no name leads out, and what is generated says so."""

import io
import json
import re
import stat
import struct
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import InvalidInput
from bias_core.store import picture_metadata
from bias_core.store.comfy_graph import facts_of_graph
from bias_core.store.drawing_facts import PictureMetadata
from bias_core.store.export import Export, ExportedImage, write_folder, write_zip
from bias_core.store.found_pictures import NO_PROMPT, key
from bias_core.store.images import (
    LONGEST_SIDE,
    ImageStore,
    decode_picture,
    encode_png,
    get_source_type,
    open_picture,
    pixel_digest,
    read_record,
)
from bias_core.store.imports import ImportedImages
from bias_core.store.picture_metadata import read_metadata
from bias_core.types import GeneratedImage, ImageRow
from tests.every import every

DOCTOR, NURSE = "a photo of a doctor", "a photo of a nurse"


def picture(seed=0, kind="PNG", size=(7, 5), **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(kind, body):
    """A part of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def folder(tmp_path, files, name="mine"):
    for path, content in files.items():
        target = tmp_path / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / name


def zipped(tmp_path, files, name="mine.zip"):
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return tmp_path / name


def three(*names):
    """Three different pictures under these names, of the kinds that their endings say."""
    kinds = {"jpg": "JPEG", "webp": "WEBP", "bmp": "BMP"}
    return {name: picture(i, kinds.get(name[-4:].strip("."), "PNG")) for i, name in enumerate(names, start=1)}


LAYOUTS = {
    "metadata.csv": three("1.png", "2.jpg", "sub/3.webp")
    | {"metadata.csv": f"file_name,text\n1.png,{DOCTOR}\n2.jpg,{DOCTOR}\nsub/3.webp,{NURSE}\n"},
    "metadata.jsonl in train": three("train/1.png", "train/2.png", "train/3.png")
    | {
        "train/metadata.jsonl": "\n".join(
            json.dumps({"file_name": name, "prompt": prompt})
            for name, prompt in (("1.png", DOCTOR), ("2.png", DOCTOR), ("3.png", NURSE))
        )
    },
    "folders": three(f"{DOCTOR}/1.png", f"{DOCTOR}/2.PNG", f"{NURSE}/1.bmp"),
    "folders in a folder": three(
        "SD/a_photo_of_a_doctor/1.png", "SD/a_photo_of_a_doctor/2.png", "SD/a_photo_of_a_nurse/img 1.png"
    ),
    "files": three("a photo of a doctor.png", "a_photo_of_a_doctor_2.png", "a photo of a nurse (13).png"),
    "files in a folder": three(
        "SD/a photo of a doctor-1.png", "SD/a photo of a doctor 2.png", "SD/a photo of a nurse.png"
    ),
}


def said(found):
    left_out = [f"{name}: {reason}" for name, reason in found.left_out.items()]
    return [*left_out, *remarks_with(found, "could not be used")]


def remarks_with(found, pattern):
    """The lines of the remark whose sentence has these words."""
    return next((lines for sentence, lines in found.remarks() if re.search(pattern, sentence)), [])


def unread(found):
    return remarks_with(found, "not used as it stands")


@pytest.mark.parametrize("make", [folder, zipped])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_pictures_and_prompts(tmp_path, layout, make):
    junk = {".DS_Store": "x", "__MACOSX/1.png": "x", "readme.txt": "hello"}
    found = ImportedImages(make(tmp_path, LAYOUTS[layout] | junk))
    assert found.counts == {DOCTOR: 2, NURSE: 1}
    assert said(found) == []
    rows = found.rows(DOCTOR, 10)
    assert [(row.prompt, row.seed, row.model) for row in rows] == [
        (DOCTOR, 0, "imported:mine"),
        (DOCTOR, 1, "imported:mine"),
    ]
    assert [(image.row.width, image.row.height) for image in found.generate(rows)] == [(7, 5), (7, 5)]


def test_pixels_and_their_order_are_kept_and_a_second_import_is_the_same(tmp_path):
    path = folder(tmp_path, LAYOUTS["folders"])
    first, again = (ImportedImages(path) for _ in range(2))
    rows = first.rows(DOCTOR, 2)
    assert rows == again.rows(DOCTOR, 2)
    stored = ImageStore(tmp_path / "store").add(list(first.generate(rows)))
    for seed, image in zip((1, 2), stored, strict=True):
        with Image.open(image.path) as kept, Image.open(io.BytesIO(picture(seed))) as original:
            assert np.array_equal(np.asarray(kept), np.asarray(original))
    (path / DOCTOR / "1.png").write_bytes(picture(99))
    assert ImportedImages(path).rows(DOCTOR, 2)[0].id != rows[0].id


def test_prompts_are_the_same_but_for_case_spaces_and_punctuation(tmp_path):
    found = ImportedImages(folder(tmp_path, LAYOUTS["folders"]))
    assert len(found.rows("A photo of  a_doctor.", 5)) == 2
    assert found.rows("a photo of doctors", 5) == []
    assert key("Ｐerson") == key("person")


def decoded(data):
    with open_picture(io.BytesIO(data)) as opened:
        return decode_picture(opened)


def test_a_turned_photograph_is_put_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    data = picture(1, "JPEG", exif=exif)
    assert decoded(data).size == (5, 7)
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.jpg": data}))
    assert (found.rows(DOCTOR, 1)[0].width, found.rows(DOCTOR, 1)[0].height) == (5, 7)


BROKEN = {
    "text": b"not a picture",
    "empty": b"",
    "truncated": picture(1, size=(64, 64))[:5000],
    "a format we do not read": picture(1, "TGA"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_picture_is_left_out_and_said_to_be(tmp_path, kind):
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.png": BROKEN[kind], f"{DOCTOR}/2.png": picture(2)}))
    assert len(found.rows(DOCTOR, 5)) == 1
    assert len(said(found)) == 1
    assert said(found)[0].startswith(f"{DOCTOR}/1.png: ")


@pytest.mark.parametrize(
    "name", ["../1.png", "/etc/1.png", "a/../../1.png", "C:/1.png", "..\\1.png", "a photo\\..\\1.png"]
)
def test_names_that_lead_out_are_not_read(tmp_path, name):
    found = ImportedImages(zipped(tmp_path, {name: picture(1), f"{DOCTOR}/1.png": picture(2)}))
    assert found.counts == {DOCTOR: 1}
    assert [line for _, lines in found.remarks() for line in lines if "leads out" in line]
    listed = {"metadata.csv": f"file_name,text\n{name},{DOCTOR}\n", "1.png": picture(1)}
    for make in (folder, zipped):  # a path of another machine
        assert ImportedImages(make(tmp_path, listed)).counts == {DOCTOR: 1}


def test_a_data_set_made_of_links_is_read_and_links_to_nothing_are_named(tmp_path):
    blobs = folder(tmp_path, {str(n): picture(n) for n in range(2)}, "blobs")
    path = folder(tmp_path, {f"{DOCTOR}/2.png": picture(2), f"{DOCTOR}/3.png": "../../blobs/1"})  # written by git
    for name, target in (("1.png", blobs / "0"), ("9.png", blobs / "9")):
        (path / DOCTOR / name).symlink_to(target)
    found = ImportedImages(path)
    assert len(found.rows(DOCTOR, 9)) == 3
    assert said(found) == [f"{DOCTOR}/9.png: a link to a file that is not here"]


def test_a_link_in_a_zip_is_named(tmp_path):
    path = zipped(tmp_path, {f"{DOCTOR}/1.png": picture(1)})
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo(f"{DOCTOR}/2.png")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../../secret.png")
    found = ImportedImages(path)
    assert found.counts == {DOCTOR: 1}
    assert said(found) == [f"{DOCTOR}/2.png: a link, which a zip cannot follow: pack the file that it leads to"]


def test_a_zip_that_needs_a_password_is_said_to(tmp_path):
    path = zipped(tmp_path, {f"{DOCTOR}/1.png": picture(1)})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # the flag of an encrypted file
    path.write_bytes(data)
    found = ImportedImages(path)
    assert found.rows(DOCTOR, 1) == []
    assert "password" in said(found)[0]


@pytest.mark.parametrize(("files", "words"), [
    ({"notes.txt": "x"}, "no picture"),
    ({"metadata.csv": "file,text\n1.png,x\n", "1.png": picture(1)}, "file_name"),
    ({"metadata.csv": "file_name,colour\n1.png,x\n", "1.png": picture(1)}, "no column prompt or text or caption"),
    ({"metadata.jsonl": "{", "1.png": picture(1)}, "line 1: is not an object"),
    ({"metadata.jsonl": "[1]", "1.png": picture(1)}, "line 1"),
    ({"metadata.csv": f"file_name,prompt\n1.png,{DOCTOR}\n1.PNG,{NURSE}\n", "1.png": picture(1)},
     "line 3: 1.PNG again, with another prompt than in metadata.csv, line 2"),
    ({"metadata.csv": f"prompt\n{DOCTOR}\n{NURSE}\n", "1.png": picture(1)}, "line 2: has no file_name"),
    ({"metadata.csv": "file_name,prompt,n\n1.png,x\n", "1.png": picture(1)}, "line 2: ends after 2 of 3 cells"),
    ({"metadata.csv": "file_name,prompt\n,x\n", "1.png": picture(1)}, "line 2: needs file_name"),
    ({"metadata.csv": b"\xff\xfe\x00", "1.png": picture(1)}, "cannot be read"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_in_words(tmp_path, files, words):
    with pytest.raises(InvalidInput, match=words):
        ImportedImages(folder(tmp_path, files))


def test_no_folder_no_zip_and_a_damaged_zip_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no folder or zip"):
        ImportedImages(tmp_path / "nothing")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InvalidInput, match="cannot be opened"):
        ImportedImages(damaged)


def test_a_zip_with_a_name_that_is_not_utf_8_though_it_says_so_is_refused_with_this_name(tmp_path):
    path = zipped(tmp_path, {"ä/1.png": picture(1), "2.png": picture(2)})
    path.write_bytes(path.read_bytes().replace("ä".encode(), b"\xe4\x20"))
    with pytest.raises(InvalidInput, match=r"its file � /1\.png has a name that is not UTF-8, .*: pack it anew$"):
        ImportedImages(path)


def test_pictures_that_the_metadata_forgets_or_invents_are_said(tmp_path):
    files = {
        "metadata.csv": f"file_name,caption\n1.png,{DOCTOR}\n9.png,{NURSE}\n3.png,\n",
        "1.png": picture(1),
        "2.png": picture(2),
        "3.png": picture(3),
    }
    found = ImportedImages(folder(tmp_path, files))
    assert found.counts == {DOCTOR: 1, NO_PROMPT: 2}
    assert said(found) == ["metadata.csv, line 3: 9.png: no such picture"]
    assert found.remarks()[1] == (
        "pictures have no prompt, though something is written about them",
        ["2.png: no line of the table names it", "3.png: its line in the table has no prompt"],
    )


def test_a_picture_is_found_by_its_name_however_windows_a_mac_or_a_spreadsheet_writes_it(tmp_path):
    decomposed, listed = (
        "cafe\u0301 a  b.png",
        ("file_name;prompt;seed\r\nsub\\café a  b.png;{};\r\n2.PNG;{};\r\n2.png;{};3\r\n"),
    )
    table = listed.format(DOCTOR, DOCTOR, DOCTOR).encode("cp1252")
    files = {f"sub/{decomposed}": picture(1), "2.png": picture(2), "Metadata.CSV": table}
    for make in (folder, zipped):
        found = ImportedImages(make(tmp_path, files))
        assert found.counts == {DOCTOR: 2}
        assert said(found) == ["Metadata.CSV, line 4: 2.png again; its first line counts"]
    lines = '{"file_name": "1.png", "prompt": "a photo\u2028of a doctor"}\n'
    assert ImportedImages(folder(tmp_path, {"metadata.jsonl": lines, "1.png": picture(1)}, "u")).counts == {DOCTOR: 1}


def test_a_zip_packed_in_a_rare_way_is_named(tmp_path):
    path = zipped(tmp_path, {f"{DOCTOR}/1.png": picture(1)})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr(f"{DOCTOR}/2.png", picture(2))
    found = ImportedImages(path)
    assert found.counts == {DOCTOR: 1}
    assert said(found)[0].startswith(f"{DOCTOR}/2.png: packed in a way that is not read")


def test_a_zip_of_windows_or_a_mac_is_read_with_its_folders(tmp_path):
    windows = {f"{DOCTOR}\\1.png": picture(1), f"{DOCTOR}\\": b"", f"{DOCTOR}/1.png": picture(2)}
    found = ImportedImages(zipped(tmp_path, windows))
    assert found.counts == {DOCTOR: 1}
    assert said(found) == [f"{DOCTOR}/1.png: twice in the zip; only the last counts"]
    assert len(found.rows(DOCTOR, 2)) == 1
    path = zipped(tmp_path, {"a photo of a café/1.png": picture(1)})
    data = path.read_bytes()
    assert data.count(b"\x14\x00\x00\x08") == 2  # the flag of names in UTF-8, which a Mac leaves out
    path.write_bytes(data.replace(b"\x14\x00\x00\x08", b"\x14\x00\x00\x00"))
    assert ImportedImages(path).counts == {"a photo of a café": 1}


def test_rows_of_another_import_are_refused(tmp_path):
    found = ImportedImages(folder(tmp_path, LAYOUTS["folders"]))
    other = ImportedImages(folder(tmp_path, LAYOUTS["files"], "other"))
    with pytest.raises(InvalidInput, match="has no picture"):
        list(found.generate(other.rows(DOCTOR, 1)))


def png(seed=0, /, **texts):
    info = PngInfo()
    for name, text in texts.items():
        info.add_text(name.replace("__", "-"), text)
    return picture(seed, pnginfo=info)


def exif(kind, comment):
    """UserComment in the Exif part, as piexif writes it for A1111 and Forge."""
    tags = Image.Exif()
    tags.get_ifd(0x8769)[0x9286] = comment
    return picture(1, kind, exif=tags)


A1111 = (
    "a photo of a doctor, <lora:film:0.8>\nNegative prompt: blurry, low quality\n"
    "Steps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: {seed}, Size: 512x768, "
    'Model hash: cc6cb27103, Model: v1-5-pruned-emaonly, Lora hashes: "film: 1a2b", Version: v1.10.1'
)
FORGE = (
    "a photo of a doctor\nSteps: 20, Sampler: Euler, Schedule type: Simple, CFG scale: 1, Distilled CFG Scale: 3.5, "
    "Seed: 5, Size: 896x1152, Model: flux1-dev-bnb-nf4-v2, Version: f2.0.1v1.10.1-previous-659-gc055f2d4"
)
FOOOCUS = {
    "adm_guidance": "(1.5, 0.8, 0.3)", "base_model": "juggernautXL_v8Rundiffusion", "base_model_hash": "aeb7e9e689",
    "full_negative_prompt": ["worst quality"], "full_prompt": ["cinematic still a photo of a doctor", "sharp"],
    "guidance_scale": 4, "loras": [], "metadata_scheme": "fooocus", "negative_prompt": "", "performance": "Speed",
    "prompt": "a photo of a doctor", "resolution": "(1152, 896)", "sampler": "dpmpp_2m_sde_gpu", "scheduler": "karras",
    "seed": "6237891432", "sharpness": 2, "steps": 30, "styles": "['Fooocus V2']", "version": "Fooocus v2.5.5",
}  # fmt: skip
INVOKE = {
    "app_version": "5.6.0", "generation_mode": "txt2img", "positive_prompt": "a photo of a doctor",
    "negative_prompt": "blurry", "width": 768, "height": 512, "seed": 11, "cfg_scale": 7.5, "steps": 30,
    "scheduler": "euler", "rand_device": "cpu",
    "model": {"key": "0a1b", "hash": "blake3:12", "name": "dreamshaper-8", "base": "sd-1", "type": "main"},
}  # fmt: skip
INVOKE_FLUX = {name: INVOKE[name] for name in ("positive_prompt", "width", "height", "seed", "steps", "model")} | {
    "generation_mode": "flux_txt2img", "guidance": 4, "negative_prompt": None,
}  # fmt: skip


def node(kind, **inputs):
    return {"class_type": kind, "inputs": inputs, "_meta": {"title": kind}}


COMFY = {
    "3": node("KSampler", seed=156680208700286, steps=25, cfg=8, sampler_name="euler", scheduler="normal", denoise=1,
              model=["10", 0], positive=["6", 0], negative=["7", 0], latent_image=["5", 0]),
    "4": node("CheckpointLoaderSimple", ckpt_name="sd_xl_base_1.0.safetensors"),
    "5": node("EmptyLatentImage", width=1024, height=768, batch_size=1),
    "6": node("CLIPTextEncode", text="a photo of a doctor", clip=["10", 1]),
    "7": node("CLIPTextEncode", text="text, watermark", clip=["10", 1]),
    "8": node("VAEDecode", samples=["3", 0], vae=["4", 2]),
    "9": node("SaveImage", filename_prefix="ComfyUI", images=["8", 0]),
    "10": node("LoraLoader", lora_name="x.safetensors", strength_model=1, model=["4", 0], clip=["4", 1]),
}  # fmt: skip
COMFY_FLUX = {
    "6": node("CLIPTextEncode", text=["30", 0], clip=["11", 0]),
    "8": node("VAEDecode", samples=["13", 0], vae=["10", 0]),
    "11": node("DualCLIPLoader", clip_name1="t5xxl_fp16.safetensors", clip_name2="clip_l.safetensors", type="flux"),
    "12": node("UNETLoader", unet_name="flux1-dev.safetensors", weight_dtype="default"),
    "13": node("SamplerCustomAdvanced", noise=["25", 0], guider=["22", 0], sampler=["16", 0], sigmas=["17", 0],
               latent_image=["27", 0]),
    "16": node("KSamplerSelect", sampler_name="euler"),
    "17": node("BasicScheduler", scheduler="simple", steps=20, denoise=1, model=["12", 0]),
    "22": node("BasicGuider", model=["12", 0], conditioning=["26", 0]),
    "25": node("RandomNoise", noise_seed=219670278747233),
    "26": node("FluxGuidance", guidance=3.5, conditioning=["6", 0]),
    "27": node("EmptySD3LatentImage", width=1024, height=1024, batch_size=1),
    "30": node("PrimitiveStringMultiline", value="a photo\nof a doctor"),
}  # fmt: skip
BASE_AND_REFINER = COMFY | {
    "3": node("KSamplerAdvanced", add_noise="enable", noise_seed=7, steps=25, cfg=8, sampler_name="euler",
              scheduler="normal", model=["4", 0], positive=["6", 0], negative=["7", 0], latent_image=["5", 0]),
    "11": node("KSamplerAdvanced", add_noise="disable", noise_seed=0, steps=25, cfg=8, sampler_name="euler",
               scheduler="normal", model=["12", 0], positive=["13", 0], negative=["7", 0], latent_image=["3", 0]),
    "12": node("CheckpointLoaderSimple", ckpt_name="sd_xl_refiner_1.0.safetensors"),
    "13": node("CLIPTextEncode", text="a photo of a doctor", clip=["12", 1]),
    "8": node("VAEDecode", samples=["11", 0], vae=["4", 2]),
}  # fmt: skip
TWO_PROMPTS = COMFY | {
    "3": COMFY["3"] | {"inputs": COMFY["3"]["inputs"] | {"positive": ["14", 0]}},
    "14": node("ConditioningCombine", conditioning_1=["6", 0], conditioning_2=["15", 0]),
    "15": node("CLIPTextEncode", text="a watercolour", clip=["10", 1]),
}
OLD_INVOKE = {
    "model": "stable diffusion", "model_weights": "stable-diffusion-1.5", "model_hash": "ab", "app_version": "2.2.5",
    "image": {"prompt": [{"prompt": "a photo of a doctor [blurry]", "weight": 1}], "steps": 50, "cfg_scale": 7.5,
              "threshold": 0, "perlin": 0, "height": 512, "width": 640, "seed": 12, "seamless": False,
              "sampler": "k_lms", "type": "txt2img"},
}  # fmt: skip
NOVEL = {"steps": 28, "sampler": "k_euler", "seed": 13, "strength": 0.69, "noise": 0.0, "scale": 11.0, "uc": "lowres",
         "width": 512, "height": 768}  # fmt: skip

SWARM = {
    "prompt": "a photo of a doctor <segment:face,0.6> a male face", "negativeprompt": "blurry", "seed": 1000,
    "model": "sd_xl_base_1.0", "steps": 20, "cfgscale": 7.0, "width": 1024, "height": 768, "sampler": "euler",
    "scheduler": "normal", "swarm_version": "0.9.5.0", "initimage": "cropped",
}  # fmt: skip


def known(program, seed, steps, guidance, sampler, size, **more):
    drawn = {"seed": seed, "num_inference_steps": steps, "guidance_scale": guidance, "sampler": sampler}
    return PictureMetadata(prompt=DOCTOR, program=program, width=size[0], height=size[1], **drawn, **more)


WRITTEN = {
    "A1111": (
        png(parameters=A1111.format(seed=1234567890)),
        known("AUTOMATIC1111", 1234567890, 20, 7.0, "DPM++ 2M Karras", (512, 768),
              negative_prompt="blurry, low quality", model="v1-5-pruned-emaonly", loras=("film:0.8",)),
    ),
    "Forge, a distilled model": (
        png(parameters=FORGE),
        known("Forge", 5, 20, 3.5, "Euler Simple", (896, 1152), model="flux1-dev-bnb-nf4-v2"),
    ),
    "Fooocus": (
        png(parameters=json.dumps(FOOOCUS), fooocus_scheme="fooocus"),
        known("Fooocus", 6237891432, 30, 4.0, "dpmpp_2m_sde_gpu karras", (1152, 896),
              model="juggernautXL_v8Rundiffusion", revised_prompt="cinematic still a photo of a doctor, sharp",
              further=("full_negative_prompt “worst quality”",)),
    ),
    "InvokeAI": (
        png(invokeai_metadata=json.dumps(INVOKE), invokeai_graph="{}"),
        known("InvokeAI", 11, 30, 7.5, "euler", (768, 512), negative_prompt="blurry", model="dreamshaper-8"),
    ),
    "InvokeAI, a model without scheduler": (
        png(invokeai_metadata=json.dumps(INVOKE_FLUX)),
        known("InvokeAI", 11, 30, 4.0, "", (768, 512), model="dreamshaper-8"),
    ),
    "InvokeAI 2": (
        png(sd__metadata=json.dumps(OLD_INVOKE)),
        known("InvokeAI", 12, 50, 7.5, "k_lms", (640, 512), negative_prompt="blurry", model="stable-diffusion-1.5"),
    ),
    "ComfyUI": (
        png(prompt=json.dumps(COMFY), workflow=json.dumps({"links": [{"id": 1}], "nodes": []})),
        known("ComfyUI", 156680208700286, 25, 8.0, "euler normal", (1024, 768), negative_prompt="text, watermark",
              model="sd_xl_base_1.0.safetensors", loras=("x:1",)),
    ),
    "ComfyUI, asked by a program": (
        png(prompt=json.dumps(COMFY_FLUX)),
        known("ComfyUI", 219670278747233, 20, 3.5, "euler simple", (1024, 1024), model="flux1-dev.safetensors"),
    ),
    "ComfyUI, base and refiner": (  # two models: neither drew it alone
        png(prompt=json.dumps(BASE_AND_REFINER)),
        known("ComfyUI", 7, 25, 8.0, "euler normal", (1024, 768), negative_prompt="text, watermark"),
    ),
    "SwarmUI": (
        png(parameters=json.dumps({"sui_image_params": SWARM, "sui_extra_data": {"original_prompt": "a <x:b|c>"}})),
        known("SwarmUI", 1000, 20, 7.0, "euler normal", (1024, 768), negative_prompt="blurry", model="sd_xl_base_1.0",
              further=("prompt of <segment:face,0.6> “a male face”", "a start or reference picture (initimage)")),
    ),
    "Midjourney": (
        png(Description=f"https://s.mj.run/x {DOCTOR} --ar 1:1 --no hats --v 6.0 Job ID: 0a1b-2c", Author="someone"),
        PictureMetadata(program="Midjourney", prompt=DOCTOR, negative_prompt="hats", model="Midjourney 6",
                        further=("a start or reference picture (image prompt)",)),
    ),
    "Easy Diffusion": (
        png(prompt=DOCTOR, seed="8", num_inference_steps="25", guidance_scale="7.5", sampler_name="euler_a",
            negative_prompt="", use_stable_diffusion_model="sd-v1-5", width="512", height="512", prompt_strength="0.8"),
        known("Easy Diffusion", 8, 25, 7.5, "euler_a", (512, 512), model="sd-v1-5",
              further=("a start or reference picture (prompt_strength)",)),
    ),
    "A1111, redrawn": (
        png(parameters=f'{DOCTOR}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 70, Size: 512x512, Model: v1-5, '
            'Denoising strength: 0.5, Hires prompt: "a man, old", ADetailer prompt: "a male face, \\"x\\"", '
            'ControlNet 0: "Module: canny, Weight: 1", ADetailer version: 23.11.0'),
        known("", 70, 20, 7.0, "Euler a", (512, 512), model="v1-5",
              further=("Hires prompt “a man, old”", 'ADetailer prompt “a male face, "x"”',
                       "a start or reference picture (ControlNet 0)")),
    ),
    "NovelAI, with captions of characters": (
        png(Description=DOCTOR, Source="NovelAI Diffusion V4 79F47848", Comment=json.dumps(
            NOVEL | {"prompt": DOCTOR, "request_type": "Img2ImgRequest", "v4_prompt": {"caption": {
                "base_caption": DOCTOR, "char_captions": [{"char_caption": "boy, glasses", "centers": [{"x": 0}]}]}}})),
        known("NovelAI", 13, 28, 11.0, "k_euler", (512, 768), negative_prompt="lowres", model="NovelAI Diffusion V4",
              further=("a start or reference picture (request_type)", "char_caption “boy, glasses”")),
    ),
    "NovelAI": (
        png(Title="AI generated image", Description=DOCTOR, Software="NovelAI", Source="Stable Diffusion 1D44365E",
            Comment=json.dumps(NOVEL)),
        known("NovelAI", 13, 28, 11.0, "k_euler", (512, 768), negative_prompt="lowres", model="Stable Diffusion"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", WRITTEN)
def test_what_each_program_writes_is_read(program):
    data, expected = WRITTEN[program]
    assert read_metadata(io.BytesIO(data)) == expected


def of_text(kind, **inputs):
    """ComfyUI's usual graph, whose prompt comes from this node."""
    encoder = COMFY["6"] | {"inputs": {"text": ["20", 0], "clip": ["10", 1]}}
    return COMFY | {"6": encoder, "20": node(kind, **inputs), "21": node("PrimitiveString", value="a photo")}


def again(**changes):
    """The same, with a second pass that reads another prompt, and with ``changes``."""
    second = node("FaceDetailer", seed=1, steps=25, cfg=8, sampler_name="euler", scheduler="normal", model=["4", 0],
                  positive=["31", 0], negative=["7", 0], image=["8", 0], wildcard="")  # fmt: skip
    saved = COMFY["9"] | {"inputs": {"filename_prefix": "face", "images": ["30", 0]}}
    return COMFY | {"30": second, "31": node("CLIPTextEncode", text="a male face", clip=["4", 1]), "9": saved} | changes


TWO_STAGES = again(**{"50": node("SaveImage", filename_prefix="ComfyUI", images=["8", 0])})
OF_DOCTOR = "of a doctor"
MADE = "its workflow makes the prompt by {}, which does not record it (“{}”)"
UNRECORDED = "its workflow makes the prompt by {}, which does not record it (“a photo of a {{doctor|nurse}}”)"
GRAPHS = {
    "joined": (of_text("StringConcatenate", string_b=OF_DOCTOR, delimiter=" ", string_a=["21", 0]), DOCTOR, ()),
    "replaced": (of_text("StringReplace", string="a photo of a X", find="X", replace="doctor"), DOCTOR, ()),
    "wild-card": (of_text("ImpactWildcardProcessor", wildcard_text="a {b|c}", populated_text=DOCTOR), DOCTOR, ()),
    "unrecorded": (of_text("DPRandomGenerator", text="a photo of a {doctor|nurse}"),
                   UNRECORDED.format("DPRandomGenerator"), ()),
    "by a language model": (of_text("OllamaGenerate", prompt=DOCTOR, model="x"),
                            "its workflow makes the prompt by OllamaGenerate, which does not record it (“a photo of a "
                            "doctor”)", ()),
    "a switch": (of_text("ImpactSwitch", select=2, input1=["7", 0], input2=["22", 0])
                 | {"22": node("PrimitiveString", value=DOCTOR)}, DOCTOR, ()),
    "many parts": (of_text("JoinStringMulti", inputcount=len(DOCTOR), delimiter="", **{
        f"string_{n}": part for n, part in enumerate(f"{DOCTOR}X", 1)}), DOCTOR, ()),
    "a word for a space": (of_text("Text Concatenate (JPS)", text1="a photo", text2=OF_DOCTOR, delimiter="space"),
                           DOCTOR, ()),
    "a text that is shown": (of_text("ShowText|pysssss", text=["22", 0], text_0="OLD")
                             | {"22": node("PrimitiveString", value=DOCTOR)}, DOCTOR, ()),
    "one of several lines": (of_text("Text Random Line", text="a\nb", seed=1),
                             MADE.format("Text Random Line", "a\nb"), ()),
    "a switch by chance": (of_text("ImpactSwitch", select=["22", 0], input1=["21", 0], input2=["23", 0])
                           | {"22": node("RandomInt", min=1, max=2), "23": node("PrimitiveString", value="b")},
                           MADE.format("ImpactSwitch", "a photo”; “b"), ()),
    "two outputs of one text": (of_text("Prompts", prompt=DOCTOR)
                                | {"7": node("CLIPTextEncode", text=["20", 1], clip=["4", 1])},
                                MADE.format("Prompts", DOCTOR),
                                (f"negative prompt “{MADE.format('Prompts', DOCTOR)}”",)),
    "an unrecorded negative": (COMFY | {"7": node("CLIPTextEncode", text=["20", 0]), "20": node("LLM", prompt="x")},
                               DOCTOR, (f"negative prompt “{MADE.format('LLM', 'x')}”",)),
    "a missing part": (of_text("StringConcatenate", string_a=["99", 0], string_b="x", delimiter=""),
                       "its workflow leads to a node that is missing", ()),
    "a circle": (of_text("StringConcatenate", string_a=["20", 0], string_b="x", delimiter=""),
                 "its workflow leads back to itself", ()),
    "a text in a box": (COMFY | {"3": node("KSampler", **COMFY["3"]["inputs"] | {"positive": ["30", 0]}),
                                 "30": node("GLIGENTextBoxApply", conditioning_to=["6", 0], text="a ball")},
        "2 prompts are in its workflow (“a ball”; “a photo of a doctor”)", ()),
    "texts of regions": (COMFY | {"3": node("KSampler", **COMFY["3"]["inputs"] | {"model": ["30", 0]}),
                                  "30": node("Attention couple", model=["4", 0], cond_1=["31", 0]),
                                  "31": node("CLIPTextEncode", text="a man")},
        "2 prompts are in its workflow (“a photo of a doctor”; “a man”)", ()),
    "a stored latent": (COMFY | {"5": node("LoadLatent", latent="x")}, DOCTOR, ("a start picture",)),
    "equal texts": (COMFY | {"6": node("CLIPTextEncodeSDXL", text_g=DOCTOR, text_l=DOCTOR, width=1024)}, DOCTOR, ()),
    "two texts": (COMFY | {"6": node("CLIPTextEncodeSDXL", text_g=DOCTOR, text_l="a man", width=1024)},
                  "2 prompts are in its workflow (“a photo of a doctor”; “a man”)", ()),
    "a second pass": (again(), DOCTOR, ("prompt of a later pass (FaceDetailer) “a male face”",)),
    "a branch that is not saved": (COMFY | {
        "40": node("KSampler", **COMFY["3"]["inputs"] | {"positive": ["41", 0], "seed": 1}),
        "41": node("CLIPTextEncode", text="a nurse", clip=["4", 1]),
        "42": node("PreviewImage", images=["43", 0]), "43": node("VAEDecode", samples=["40", 0])}, DOCTOR, ()),
    "a branch of another name": (TWO_STAGES,
                                 DOCTOR, ()),
    "a start picture": (COMFY | {"5": node("VAEEncode", pixels=["60", 0]), "60": node("LoadImage", image="me.png")},
                        DOCTOR, ("a start picture",)),
}  # fmt: skip


@every(GRAPHS)
def test_a_graph_is_followed_from_its_picture_to_the_prompt_or_says_what_was_found(kind):
    graph, prompt, further = GRAPHS[kind]
    found = read_metadata(io.BytesIO(png(prompt=json.dumps(graph))), "x/ComfyUI_00001_.png")
    assert (found.prompt or found.unclear, found.further) == (prompt, further)


def test_a_negative_prompt_is_one_only_where_something_was_drawn_away_from_it():
    zeroed = COMFY | {"7": node("ConditioningZeroOut", conditioning=["6", 0])}
    unguided = COMFY | {"3": COMFY["3"] | {"inputs": COMFY["3"]["inputs"] | {"cfg": 1.0}}}
    a1111 = png(parameters="a cup\nNegative prompt: blurry\nSteps: 5, Sampler: Euler, CFG scale: 1, Seed: 2")
    for data in (png(prompt=json.dumps(zeroed)), png(prompt=json.dumps(unguided)), a1111):
        assert read_metadata(io.BytesIO(data)).negative_prompt == ""


def fooocus_exif(kind):
    """Fooocus puts its text among the first tags, without a code before it."""
    tags = Image.Exif()
    tags[0x9286], tags[0x0131], tags[0x927C] = json.dumps(FOOOCUS), "Fooocus v2.5.5", "fooocus"
    return picture(1, kind, exif=tags)


def comfy_exif(kind):
    tags = Image.Exif()
    tags[0x0110], tags[0x010F] = "prompt:" + json.dumps(COMFY), "workflow:{}"
    return picture(1, kind, exif=tags)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
@pytest.mark.parametrize("write", [
    lambda kind: exif(kind, b"UNICODE\0" + A1111.format(seed=9).encode("utf-16-be")),
    lambda kind: exif(kind, b"UNICODE\0" + A1111.format(seed=9).encode("utf-16-le")),
    lambda kind: exif(kind, b"ASCII\0\0\0" + A1111.format(seed=9).encode()),
    fooocus_exif,
    comfy_exif,
])  # fmt: skip
def test_jpeg_and_webp_hold_it_in_their_exif(write, kind):
    found = read_metadata(io.BytesIO(write(kind)))
    assert found.prompt.startswith(DOCTOR)
    assert found.seed in (9, 6237891432, 156680208700286)


def test_one_jpeg_does_not_get_the_metadata_of_the_one_before(tmp_path):
    texts = {f"{i}.jpg": f"{who}\nSteps: 20, Sampler: Euler, Seed: {i}" for i, who in enumerate([DOCTOR, NURSE] * 4)}
    files = {name: exif("JPEG", b"UNICODE\0" + text.encode("utf-16-be")) for name, text in texts.items()}
    found = ImportedImages(folder(tmp_path, files))
    assert found.counts == {DOCTOR: 4, NURSE: 4}
    assert [row.seed for row in found.rows(NURSE, 9)] == [1, 3, 5, 7]


@pytest.mark.parametrize("make", [folder, zipped])
def test_a_folder_of_a_program_arrives_with_its_settings_in_the_rows_and_records(tmp_path, make):
    files = {f"2026-11-22/0000{i}-{i}.png": png(i, parameters=A1111.format(seed=40 + i)) for i in range(3)}
    found = ImportedImages(make(tmp_path, files))
    assert found.counts == {DOCTOR: 3}
    rows = found.rows(DOCTOR, 9)
    assert [row.seed for row in rows] == [40, 41, 42]
    assert {(r.negative_prompt, r.num_inference_steps, r.guidance_scale) for r in rows} == {
        ("blurry, low quality", 20, 7.0)
    }
    stored = ImageStore(tmp_path / "store").add(list(found.generate(rows)))
    assert stored[0].drawn == {
        "program": "AUTOMATIC1111", "model": "v1-5-pruned-emaonly", "sampler": "DPM++ 2M Karras",
        "seed": 40, "width": 512, "height": 768, "loras": ["film:0.8"],
    }  # fmt: skip
    # And it still does after an export.
    images = [ExportedImage(path=image.path, row=image.row) for image in stored]
    path = write_zip(Export(images=images, tables={}, report={}, markdown=""), tmp_path / "run.zip")
    again = ImportedImages(path)
    first = again.rows(DOCTOR, 9)[0]
    assert (first.seed, first.num_inference_steps, again.get_picture(first.id).drawing.model) == (
        40,
        20,
        stored[0].drawn["model"],
    )


def test_the_folders_own_metadata_comes_first_and_the_picture_fills_what_it_leaves_out(tmp_path):
    files = {
        "metadata.csv": f"file_name,prompt,seed,steps\n1.png,{NURSE},77,\n",
        "1.png": png(parameters=A1111.format(seed=1)),
    }
    found = ImportedImages(folder(tmp_path, files))
    (row,) = found.rows(NURSE, 2)
    assert (row.prompt, row.seed, row.num_inference_steps, row.guidance_scale) == (NURSE, 77, 20, 7.0)


def test_our_own_record_comes_before_what_stands_beside_it(tmp_path):
    row = ImageRow(prompt=NURSE, seed=3, model="sd-1-5", num_inference_steps=30, guidance_scale=5.0)
    data = encode_png(GeneratedImage(row=row, image=Image.new("RGB", (4, 4))))
    theirs = chunk(b"tEXt", b"parameters\0" + A1111.format(seed=1).encode())
    found = ImportedImages(folder(tmp_path, {"aa/1.png": data[:33] + theirs + data[33:]}))
    (imported,) = found.rows(NURSE, 2)
    assert (imported.seed, imported.num_inference_steps, imported.guidance_scale) == (3, 30, 5.0)
    assert found.get_picture(imported.id).drawing.model == "sd-1-5"


@pytest.mark.parametrize("model", ["openai:dall-e-3", "imported:mine"])
def test_the_number_of_a_picture_that_was_not_drawn_from_a_seed_is_not_taken_for_one(tmp_path, model):
    data = encode_png(GeneratedImage(row=ImageRow(prompt=NURSE, seed=3, model=model), image=Image.new("RGB", (4, 4))))
    found = ImportedImages(folder(tmp_path, {"1.png": data}))
    assert found.get_picture(found.rows(NURSE, 1)[0].id).drawing.seed is None


def test_several_prompts_in_a_workflow_are_said_and_a_name_that_reads_like_a_prompt_decides(tmp_path):
    data = png(prompt=json.dumps(TWO_PROMPTS))
    found = ImportedImages(folder(tmp_path, {"ComfyUI_00001_.png": data}))
    assert found.counts == {NO_PROMPT: 1}
    assert re.search(r"2 prompts are in its workflow .*a watercolour", found.remarks()[0][1][0])
    found = ImportedImages(folder(tmp_path, {f"{NURSE}/ComfyUI_00001_.png": data}, "named"))
    (row,) = found.rows(NURSE, 1)
    assert row.seed == 156680208700286


BOMB = chunk(b"zTXt", b"parameters\0\0" + zlib.compress(b" " * 20_000_000))
BROKEN_METADATA = {
    "a form that no program writes": png(parameters="a cup\nNegative prompt: a\nNegative prompt: b\nSteps: 1"),
    "half of a JSON": png(prompt=json.dumps(COMFY)[:300]),
    "lists without end": png(prompt='{"1": ' + "[" * 100_000),
    "another shape": png(prompt='{"1": [], "2": 3}'),
    "no numbers": png(invokeai_metadata='{"model": 3, "seed": {"a": 1}, "positive_prompt": 4, "steps": NaN}'),
    "a bomb": picture(1)[:33] + BOMB + picture(1)[33:],
    "an EXIF that is cut off": picture(1, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x92"),
    "broken record": png(bias_core="{"),
}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF:UserWarning")
@pytest.mark.parametrize("kind", BROKEN_METADATA)
def test_broken_or_huge_metadata_breaks_no_import(tmp_path, kind):
    ending = "jpg" if kind.startswith("an EXIF") else "png"
    found = ImportedImages(folder(tmp_path, {f"doctor/1.{ending}": BROKEN_METADATA[kind], "doctor/2.png": picture(2)}))
    rows = found.rows("doctor", 5)
    assert len(rows) == 2
    assert said(found) == []
    assert rows[0].seed == 0
    if kind not in ("a bomb", "an EXIF that is cut off", "no numbers"):
        assert unread(found)[0].startswith("doctor/1.png: its ")


OWN_ROW = {"prompt": DOCTOR, "seed": 1, "model": "m"}
RECORD = {"row": OWN_ROW, "truth": None, "blocked": False}


def with_record(text):
    return picture(1)[:33] + chunk(b"iTXt", b"bias_core\0\0\0\0\0" + text.encode()) + picture(1)[33:]


FORGED = {
    "a number": "3", "deep": "[" * 100_000, "a deep row": '{"row":' * 50_000, "without a row": "{}",
    "many digits": json.dumps(RECORD).replace('"seed": 1', f'"seed": {"9" * 5000}'),
    **{f"row: {name}": json.dumps(RECORD | {"row": row}) for name, row in {
        "a list": [1], "no prompt": {}, "prompt": OWN_ROW | {"prompt": None}, "prompts": OWN_ROW | {"prompt": ["a"]},
        "seed": OWN_ROW | {"seed": "x"}, "huge": OWN_ROW | {"seed": 10**300}, "more": OWN_ROW | {"id": "x"},
        "true": OWN_ROW | {"width": True}, "model": OWN_ROW | {"model": {}},
        "NaN": OWN_ROW | {"guidance_scale": float("nan")}}.items()},
    **{f"record: {name}": json.dumps(RECORD | more) for name, more in {
        "truth": {"truth": "x"}, "drawn": {"drawn": ["program"]}, "blocked": {"blocked": "yes"},
        "pixels": {"pixels": 5}, "digest": {"pixels": "0" * 20}}.items()},
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_record_is_one_sentence_and_costs_nothing_else(tmp_path, kind):
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.png": with_record(FORGED[kind])}))
    (row,) = found.rows(DOCTOR, 2)
    assert row.seed == 0
    assert all(re.match(f"{DOCTOR}/1.png: (its|the) .{{9,400}}", line) for line in unread(found))
    assert unread(found)
    assert found.get_picture(row.id).record == ("", "")


def test_what_cannot_be_written_is_no_part_of_a_prompt_or_mark(tmp_path):
    row, drawn = OWN_ROW | {"prompt": "a \x00photo of \ud800a doctor"}, {"program": "x", "digital_source_type": '"/><x'}
    found = ImportedImages(folder(tmp_path, {"1.png": with_record(json.dumps(RECORD | {"row": row, "drawn": drawn}))}))
    assert found.counts == {DOCTOR: 1}
    (stored,) = ImageStore(tmp_path / "store").add(list(found.generate(found.rows(DOCTOR, 1))))
    assert b'"/><x' not in stored.path.read_bytes()


def test_prompts_that_are_too_long_are_named(tmp_path):
    long = {f"{n}.png": picture(n) for n in range(3)} | {f"{n}.txt": "a " * 6000 for n in range(2)} | {"2.txt": DOCTOR}
    found = ImportedImages(folder(tmp_path, long))
    assert said(found) == [f"{n}.png: its prompt has 11,999 characters; at most 10,000 are read" for n in range(2)]


def test_a_long_text_is_read_whole(tmp_path):
    blank = " " * 100_000
    texts = {"parameters": blank + A1111.format(seed=3), "Dream": f'"{DOCTOR}" -s 3 -S 3 -A x' + blank,
             "Description": f"{DOCTOR} --seed 3 Job ID: 1" + blank, "prompt": json.dumps(COMFY) + blank}  # fmt: skip
    assert {read_metadata(io.BytesIO(png(**{key: text}))).prompt for key, text in texts.items()} == {DOCTOR}


def sampler(**inputs):
    return {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 2, "cfg": 7, "sampler_name": "x", **inputs}}


def chain(n, before, kind="CLIPTextEncode"):
    """Nodes each of which is linked to the one before by these inputs."""
    first = {"class_type": kind, "inputs": {"text": "a doctor"}}
    rest = {f"c{i}": {"class_type": kind, "inputs": {name: [f"c{i - 1}", 0] for name in before}} for i in range(1, n)}
    return {"c0": first, **rest}


def samplers(n, **linked):
    latent = {f"s{i}": sampler(latent_image=[f"s{i - 1}", 0], **linked) for i in range(1, n)}
    return {
        "s0": sampler(**linked),
        **latent,
        "save": {"class_type": "SaveImage", "inputs": {"images": [f"s{n - 1}", 0]}},
    }


SHAPES = {
    "diamonds": lambda: chain(140, ["a", "b"], "Combine") | samplers(1, positive=["c139", 0]),
    "joined texts": lambda: chain(140, ["text_a", "text_b"], "Concatenate") | samplers(1, positive=["c139", 0]),
    "circle": lambda: {
        f"{i}": sampler(positive=[f"{(i + 1) % 900}", 0], x=[f"{(i - 1) % 900}", 0]) for i in range(900)},
    "all linked": lambda: {f"{i}": sampler(**{f"x{j}": [f"{j}", 0] for j in range(i)}) for i in range(200)},
    "long lists": lambda: {f"{i}": sampler(positive=[["x"] * 9000, 0], x=[f"{i - 1}", 0]) for i in range(20)},
}  # fmt: skip


@every(SHAPES)
def test_a_graph_that_repeats_itself_is_followed_once(kind):
    text, begun = json.dumps(SHAPES[kind]()), time.process_time()
    facts_of_graph(text)
    assert time.process_time() - begun < 3


def test_a_chain_without_end_is_said_to_be_too_deep():
    for graph in (chain(900, ["conditioning"]), chain(900, ["text"], "Text")):
        graph |= samplers(1, positive=["c899", 0])
        assert facts_of_graph(json.dumps(graph)).unclear == "its workflow is too deep to follow"


def test_numbers_that_cannot_be_are_left_out():
    text = "a cup\nSteps: 99999999, Sampler: Euler, CFG scale: nan, Seed: -1, Size: 0x5, Model: m"
    found = read_metadata(io.BytesIO(png(parameters=text)))
    assert found == PictureMetadata(prompt="a cup", sampler="Euler", model="m")
    for number, seed in ((2**63, None), (2**63 - 1, 2**63 - 1)):
        text = f"a cup\nSteps: 5, Sampler: Euler, Seed: {number}"
        assert read_metadata(io.BytesIO(png(parameters=text))).seed == seed


def test_a_camera_or_person_that_leaves_a_comment_is_no_program():
    for comment in (b"\0" * 20, b"ASCII\0\0\0by the sea", b"UNICODE\0\xff"):
        assert read_metadata(io.BytesIO(exif("JPEG", comment))) == PictureMetadata()


def smooth(seed, size=(64, 64)):
    """A picture that looks like itself in every size."""
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)


def saved(image, kind="PNG", **texts):
    info, buffer = PngInfo(), io.BytesIO()
    for name, text in texts.items():
        info.add_text(name, text)
    image.save(buffer, kind, **({"pnginfo": info} if texts else {}))
    return buffer.getvalue()


def drawn_by_a1111(seed, image, more=""):
    return saved(image, parameters=f"{DOCTOR}\nSteps: 20, Sampler: Euler, Seed: {seed}, Size: 64x64{more}")


def sheet(*seeds):
    pasted = Image.new("RGB", (64 * len(seeds), 64))
    for place, seed in enumerate(seeds):
        pasted.paste(smooth(seed), (64 * place, 0))
    return pasted


redrawn = smooth(1)
redrawn.paste(smooth(9, (12, 12)), (26, 10))
SHOWN_AGAIN = {
    "the same file": ({"2.png": saved(smooth(1))}, "the same picture as 1.png"),
    "the same pixels": ({"2.png": saved(smooth(1), note="x")}, "the same pixels as 1.png"),
    "another format": ({"2.jpg": saved(smooth(1), "JPEG")}, "the same picture as 1.png, in another size or format"),
    "a smaller size": ({"0.png": saved(smooth(1).resize((40, 40)))},
                       "the same picture as 1.png, in another size or format"),
    "a draft": ({"1-before-highres-fix.png": saved(smooth(2))}, "a draft of 1.png"),
    "a sheet by its name": ({"grid-0003.png": saved(smooth(2))}, "a contact sheet"),
    "a sheet by its settings": ({"7.png": drawn_by_a1111(7, smooth(7), ", Script: X/Y/Z plot")}, "a contact sheet"),
    "a sheet by its size": ({"7.png": drawn_by_a1111(7, smooth(7, (192, 64)))}, "a contact sheet"),
    "a sheet by its pixels": ({"3.png": saved(smooth(3)), "7.png": saved(sheet(1, 3))},
                              "a contact sheet of other pictures"),
    "a smaller sheet": ({f"{seed}.png": saved(smooth(seed)) for seed in (2, 3, 4)}
                        | {"7.png": saved(sheet(1, 2, 3, 4).resize((120, 30)))}, "a contact sheet of other pictures"),
    "an earlier stage": ({f"{name}_1_.png": saved(smooth(3, size), prompt=json.dumps(TWO_STAGES))
                          for name, size in (("ComfyUI", (64, 64)), ("face", (128, 128)))},
                         "the same picture as face_1_.png, in another size or format"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHOWN_AGAIN)
def test_what_was_drawn_once_counts_once_and_the_others_are_named(kind, tmp_path):
    files, why = SHOWN_AGAIN[kind]
    files = {"1.png": saved(smooth(1))} | files
    files |= {"metadata.csv": "file_name,text\n" + "".join(f"{name},{DOCTOR}\n" for name in files)}
    found = ImportedImages(folder(tmp_path, files))
    found.examine()
    assert [*found.left_out.values()] == [why]
    assert found.counts == {DOCTOR: len(files) - 2}


def spaced_sheet(*seeds, gap):
    pasted = Image.new("RGB", (128 + gap, 128 + gap), "white")
    for place, seed in enumerate(seeds):
        pasted.paste(smooth(seed), ((64 + gap) * (place % 2), (64 + gap) * (place // 2)))
    return pasted


FAINT = Image.new("RGB", (64, 64), (100, 100, 100))
FAINT.paste((125, 125, 125), (8, 8, 12, 12))
PORTRAIT = saved(smooth(1, (160, 160)))
MANY = {f"{DOCTOR}/{seed}.png": saved(smooth(seed)) for seed in (2, 3, 4)}
ALIKE = {
    "before an upscaler": (f"{DOCTOR}/9.png repeats the seed and settings of {DOCTOR}/2.png", {
        f"{DOCTOR}/2.png": drawn_by_a1111(5, smooth(3)), f"{DOCTOR}/9.png": drawn_by_a1111(5, smooth(4, (128, 128)))}),
    "two portraits of a batch": (f"{DOCTOR}/9.png looks like {DOCTOR}/2.png", {
        f"{DOCTOR}/2.png": saved(smooth(1)), f"{DOCTOR}/9.png": saved(redrawn)}),
    "in another format under another prompt": (
        f"{NURSE}/9.jpg looks like {DOCTOR}/2.png, though they have different prompts",
        {f"{DOCTOR}/2.png": PORTRAIT, f"{NURSE}/9.jpg": saved(smooth(1, (80, 80)), "JPEG")}),
    "with another prompt in its name": (
        f"{NURSE}_9.png has the same pixels as {DOCTOR}_2.png, though they have different prompts",
        {f"{DOCTOR}_2.png": PORTRAIT, f"{NURSE}_9.png": saved(smooth(1, (160, 160)), note="x")}),
    "of nearly one colour under another prompt": (
        f"{NURSE}/9.png has the same pixels as {DOCTOR}/2.png, though they have different prompts",
        {f"{DOCTOR}/2.png": saved(FAINT), f"{NURSE}/9.png": saved(FAINT, note="x")}),
    "with another seed": (f"{DOCTOR}/9.png has the same pixels as {DOCTOR}/2.png", {
        f"{DOCTOR}/2.png": drawn_by_a1111(5, smooth(3)), f"{DOCTOR}/9.png": drawn_by_a1111(6, smooth(3))}),
    "a sheet with gaps": (f"{DOCTOR}/9.png may be a contact sheet of {DOCTOR}/2.png and {DOCTOR}/3.png",
                          MANY | {f"{DOCTOR}/9.png": saved(spaced_sheet(2, 3, 4, gap=4))}),
    "a sheet of another prompt": (f"{NURSE}/9.png may be a contact sheet of {DOCTOR}/3.png and {DOCTOR}/4.png",
                                  MANY | {f"{NURSE}/9.png": saved(spaced_sheet(3, 4, 7, gap=0))}),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALIKE)
def test_pictures_that_may_be_copies_or_sheets_count_and_are_named_with_the_other_one(kind, tmp_path):
    says, files = ALIKE[kind]
    found = ImportedImages(folder(tmp_path, files))
    found.examine()
    assert (found.left_out, remarks_with(found, "looks? like another")) == ({}, [says])
    assert sum(found.counts.values()) == len(files)
    assert not remarks_with(ImportedImages(tmp_path / "mine", copies="count all"), "looks? like another")


def test_the_same_seed_under_two_prompts_and_pictures_of_them_that_differ_are_no_copies(tmp_path):
    files = {f"{DOCTOR}/1.png": drawn_by_a1111(5, smooth(1)), f"{NURSE}/2.png": drawn_by_a1111(5, smooth(2)),
             f"{NURSE}/3.png": saved(redrawn)}  # fmt: skip
    found = ImportedImages(folder(tmp_path, files), prompts_from="folder")
    found.examine()
    assert (found.left_out, remarks_with(found, "looks? like another")) == ({}, [])


@pytest.mark.parametrize("other", ["seed", "model", "pixel"])
def test_a_copy_is_contradicted_by_its_seed_or_model_or_one_pixel_of_the_same_size(other, tmp_path):
    large, small = smooth(1, (256, 256)), smooth(1, (256, 256)).resize((128, 128))
    changed = large.copy()
    changed.paste((255, 255, 255), (0, 0, 2, 2))
    first, second = {
        "seed": (drawn_by_a1111(5, large), drawn_by_a1111(6, small)),
        "model": (drawn_by_a1111(5, large, ", Model: v1"), drawn_by_a1111(5, small, ", Model: v2")),
        "pixel": (saved(large), saved(changed)),
    }[other]
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.png": first, f"{DOCTOR}/2.png": second}))
    assert len(found.rows(DOCTOR, 9)) == 2
    same = ImportedImages(folder(tmp_path, {f"{DOCTOR}/1.png": saved(large), f"{DOCTOR}/2.png": saved(small)}, "same"))
    assert len(same.rows(DOCTOR, 9)) == 1
    path = folder(tmp_path, {f"{DOCTOR}/1.png": saved(large), f"{DOCTOR}/2.png": saved(small)}, "all")
    assert len(ImportedImages(path, copies="count all").rows(DOCTOR, 9)) == 2


def test_pictures_that_only_share_a_seed_or_are_blank_all_count(tmp_path):
    black = saved(Image.new("RGB", (64, 64)))
    files = {f"{seed}.png": drawn_by_a1111(5, smooth(seed)) for seed in range(4)} | {"8.png": black, "9.png": black}
    files |= {"metadata.csv": "file_name,text\n" + "".join(f"{name},{DOCTOR}\n" for name in files)}
    found = ImportedImages(folder(tmp_path, files))
    pictures = list(found.generate(found.rows(DOCTOR, 9)))
    assert [one.blocked for one in pictures] == [False] * 4 + [True] * 2
    assert (found.left_out, remarks_with(found, "blanked")) == ({}, ["8.png", "9.png"])


def test_one_file_under_two_prompts_counts_for_the_first(tmp_path):
    found = ImportedImages(folder(tmp_path, {f"{who}/1.png": saved(smooth(1)) for who in (DOCTOR, NURSE)}))
    found.examine()
    assert found.counts == {DOCTOR: 1}
    assert said(found) == [f"{NURSE}/1.png: the same picture as {DOCTOR}/1.png, which has another prompt"]


def inks():
    return Image.new("CMYK", (8, 8), (0, 255, 255, 0))  # red


def turned_grey():
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 4), 65_535 // 2, dtype=np.uint16)).save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def clear(mode="RGBA"):
    """Magenta that nobody sees."""
    image = Image.new("RGBA", (8, 8), (255, 0, 255, 0))
    return image if mode == "RGBA" else image.quantize()


PIXELS = {
    "16 bits of grey, turned": (turned_grey(), (8, 4), (127, 127, 127)),
    "inks": (saved(inks(), "TIFF"), (8, 8), (255, 0, 0)),
    "transparent": (saved(clear()), (8, 8), (255, 255, 255)),
    "a transparent palette": (saved(clear("P")), (8, 8), (255, 255, 255)),
    "AVIF": (saved(Image.new("RGB", (8, 8), (255, 255, 255)), "AVIF"), (8, 8), (255, 255, 255)),
}


@every(PIXELS)
def test_pixels_of_every_kind_come_in_as_they_look(kind):
    data, size, colour = PIXELS[kind]
    image = decoded(data)
    assert (image.size, image.mode, image.getpixel((1, 1))) == (size, "RGB", colour)


def test_every_file_that_looks_like_a_picture_is_read_or_named_at_once(tmp_path):
    animation, depth = io.BytesIO(), io.BytesIO()
    smooth(1).save(animation, "GIF", save_all=True, append_images=[smooth(2)])
    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(depth, "TIFF")
    files = {"a.gif": animation.getvalue(), "b": saved(smooth(3)), "c.heic": b"x", "d.tiff": depth.getvalue(),
             "e.png": saved(smooth(4))[:900], "notes.txt": "x"}  # fmt: skip
    found = ImportedImages(folder(tmp_path, {f"{DOCTOR}/{name}": data for name, data in files.items()}))
    found.examine()
    assert found.counts == {DOCTOR: 2}
    assert remarks_with(found, "animation") == [f"{DOCTOR}/a.gif"]
    assert [one.partition(": ")[0].removeprefix(f"{DOCTOR}/") for one in said(found)] == ["c.heic", "d.tiff", "e.png"]
    with pytest.raises(InvalidInput, match=r"no picture of broken can be used: x y z/1\.png: cannot be read"):
        ImportedImages(folder(tmp_path, {"x y z/1.png": saved(smooth(4))[:900]}, "broken")).examine()


UUID = "0a1b2c3d-0000-4000-8000-00000000000"
NAMED = {
    f"someone_a_photo_of_a_doctor_--ar_11_--v_6_{UUID}1.png": DOCTOR,
    "2026-11-22/00012-1234567890-a photo of a doctor.png": DOCTOR,
    "DALL·E 2023-10-12 10.41.55 - a photo of a doctor.png": DOCTOR,
    f"a photo of a doctor_{UUID}2.png": DOCTOR,
    "ChatGPT Image May 1, 2025, 10_00_00 AM.png": "",
    "00000-1234.png": "",
    "20261122_101500.png": "",
    "ComfyUI_00001_.png": "",
    "image of a doctor_2.png": "image of a doctor",
    "image of a doctor 2.png": "image of a doctor 2",
}


@every(NAMED)
def test_a_name_gives_a_prompt_without_users_dates_numbers_ids_and_switches(name):
    assert picture_metadata.names_as_prompts(name, "")[1] == NAMED[name]


def test_texts_and_tables_beside_pictures_are_read(tmp_path):
    table = pd.DataFrame({
        "image_name": ["a.png", "b.png", "z.png"], "prompt": [DOCTOR] * 3, "seed": [3, 4, 5], "cfg": [7.0] * 3,
        "step": [50] * 3, "sampler": [8] * 3, "user_name": ["someone"] * 3, "image_nsfw": [0.1, 2.0, 0.1],
    })  # fmt: skip
    part = {"1.png": {"p": DOCTOR, "se": 5, "c": 7.5, "st": 50, "sa": "k_lms"}}
    files = {
        "parquet/a.png": picture(1), "parquet/b.png": picture(2), "parquet/metadata.parquet": table.to_parquet(),
        "part-000001/1.png": picture(3), "part-000001/part-000001.json": json.dumps(part),
        "texts/00000-1.png": picture(4), "texts/00000-1.txt": f"\ufeff{DOCTOR}\n",
        "texts/00001-2.jpg": picture(5, "JPEG"), "texts/00001-2.txt": A1111.format(seed=77),
        "texts/00002-3.png": picture(6), "texts/00002-3.json": json.dumps({"prompt": DOCTOR, "seed": 9, "steps": 4}),
        "texts/00003-4.png": picture(7), "texts/00003-4.txt": "Prompt: a photo of a doctor\nSeed: 8\nSteps: 3\n",
        "texts/00004-5.png": picture(8), "texts/00004-5.txt": "1234",
        "texts/wrong.png": picture(9), "texts/wrong.txt": b"\xff\x81",
    }  # fmt: skip
    found = ImportedImages(folder(tmp_path, files))
    assert found.counts[DOCTOR] == 7
    rows = found.rows(DOCTOR, 9)
    assert [row.seed for row in rows if found.get_picture(row.id).drawing.seed is not None] == [3, 4, 5, 77, 9, 8]
    first, third = (found.get_picture(rows[place].id).drawing for place in (0, 2))
    assert (first.sampler, third.guidance_scale) == ("k_lms", 7.5)
    assert remarks_with(found, "blanked") == ["parquet/b.png"]
    assert "someone" not in repr([found.get_picture(row.id).drawing for row in rows])
    assert "parquet/metadata.parquet: 1 of its pictures are not here, such as parquet/z.png" in said(found)
    assert unread(found) == [
        "texts/wrong.txt: it cannot be read: line 1 is not UTF-8 text; save it as UTF-8",
        "parquet/metadata.parquet: columns not used: user_name",
    ]


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
    return picture(pnginfo=info)


@pytest.mark.parametrize(("data", "expected"), [
    (photograph(), ""),
    (photograph(CAMERA), "digitalCapture"),
    (png(parameters=A1111.format(seed=1)), "trainedAlgorithmicMedia"),
    (encode_png(drawn(truth={"gender": "feminine"})), "algorithmicMedia"),
], ids=["of nobody knows where", "of a camera that says so", "of another program", "of our own renderer"])  # fmt: skip
def test_pictures_that_are_brought_along_keep_their_mark_and_get_none_that_nobody_knows(tmp_path, data, expected):
    found = ImportedImages(folder(tmp_path, {f"{NURSE}/1.png": data}))
    prompt = next(text for text in (NURSE, DOCTOR, ROW.prompt) if found.count_files(text))
    (image,) = found.generate(found.rows(prompt, 1))
    (stored,) = ImageStore(tmp_path / "images").add([image])
    assert (get_source_type(stored), mark(stored.path.read_bytes())) == (expected, expected)


def test_a_picture_without_a_mark_is_marked_in_an_export_and_loses_nothing(tmp_path):
    (stored,) = ImageStore(tmp_path / "images").add([drawn()])
    data = stored.path.read_bytes()
    start = data.index(b"iTXtXML:com.adobe.xmp\0") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    old = data[:start] + data[end:]
    stored.path.write_bytes(old)
    assert mark(old) == ""
    image = ExportedImage(path=stored.path, row=ROW, source=get_source_type(stored))
    export = Export(images=[image], tables={}, report={}, markdown="")
    with zipfile.ZipFile(write_zip(export, tmp_path / "a.zip")) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".png")]
        exported = archive.read(name)
    assert mark(exported) == "trainedAlgorithmicMedia"
    assert pixel_digest(exported) == pixel_digest(old)
    assert read_record(exported) == read_record(old)
    assert (write_folder(export, tmp_path / "b") / name).read_bytes() == exported
    unknown = replace(export, images=[replace(image, source="")])
    assert (write_folder(unknown, tmp_path / "c") / name).read_bytes() == old


def flat_png(mode="RGB", size=(3500, 3500)):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def test_what_is_larger_than_readers_take_is_made_smaller_and_recorded_so(tmp_path):
    sizes = {"wide": (3000, 1000), "tall": (600, 2048), "small": (640, 480)}
    files = {f"{DOCTOR}/{name}.png": flat_png(size=size) for name, size in sizes.items()}
    found = ImportedImages(zipped(tmp_path, files))
    rows = found.rows(DOCTOR, 3)
    pictures = [(p.row.width, p.row.height, p.image.size) for p in found.generate(rows)]
    assert sorted(pictures) == [
        (300, LONGEST_SIDE, (300, LONGEST_SIDE)),
        (640, 480, (640, 480)),
        (LONGEST_SIDE, 341, (LONGEST_SIDE, 341)),
    ]


def test_a_size_that_lies_is_found_and_costs_one_picture(tmp_path):
    path = zipped(tmp_path, {f"{DOCTOR}/{i}.png": flat_png(size=(n, n)) for i, n in ((1, 500), (2, 9))})
    data = path.read_bytes()
    with zipfile.ZipFile(path) as read:
        true = read.getinfo(f"{DOCTOR}/1.png").file_size.to_bytes(4, "little")
    path.write_bytes(data.replace(true, (20).to_bytes(4, "little")))
    found = ImportedImages(path)
    assert len(found.rows(DOCTOR, 2)) == 1
    assert said(found)[0].startswith(f"{DOCTOR}/1.png: cannot be read")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 5000, "a\0b", "\udcff.zip", "/dev/null", ""])
def test_paths_that_cannot_be_are_refused_in_words(path):
    with pytest.raises(InvalidInput):
        ImportedImages(Path(path) if path else Path("/nowhere"))
