"""Metadata of other programs in unusual places: after the pixels, in comments, in XMP, under keys of their own."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.store.drawing_facts import find_loras
from bias_core.store.images import with_chunks
from bias_core.store.picture_metadata import find_hidden_text, read_metadata

PROMPT = "a photo of a cook"
SETTINGS = "Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 3, Size: 64x64"
TEXT = f"{PROMPT}\nNegative prompt: dark\n{SETTINGS}"


def saved(kind, mode="RGB", **options):
    file = io.BytesIO()
    Image.linear_gradient("L").resize((64, 64)).convert(mode).save(file, kind, **options)
    return file.getvalue()


def png(mode="RGB", **texts):
    info = PngInfo()
    for key, text in texts.items():
        info.add_text(key.replace("__", ":"), text)
    return saved("PNG", mode, pnginfo=info)


def read(data):
    return read_metadata(io.BytesIO(data), "1.png")


def after_the_pixels(**texts):
    """A PNG with its texts behind the pixels."""
    data = png(**texts)
    bare = saved("PNG")
    only_texts = data[33:].replace(bare[33:-12], b"").removesuffix(bare[-12:])
    return bare[:-12] + only_texts + bare[-12:]


XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description><exif:UserComment><rdf:Alt>'
    '<rdf:li xml:lang="x-default">{text}</rdf:li></rdf:Alt></exif:UserComment></rdf:Description></rdf:RDF></x:xmpmeta>'
)
DRAW_THINGS = json.dumps({
    "c": PROMPT, "uc": "dark", "seed": 3, "steps": 20, "scale": 7, "sampler": "Euler a", "model": "sd_v1.5_f16.ckpt",
    "size": "64x64", "lora": [{"model": "fair_lora.ckpt", "weight": 0.6}],
}).replace('"', "&quot;")  # fmt: skip
EXIF = Image.Exif()
EXIF[0x9286], EXIF[0x0131] = b"ASCII\0\0\0" + TEXT.encode(), "SomeBot - draws for you"
PLACES = {
    "after the pixels": (after_the_pixels(parameters=TEXT), ""),
    "a JPEG's comment": (saved("JPEG", comment=b"parameters\0" + TEXT.encode() + b", Version: stable-diffusion.cpp\0"),
                         "stable-diffusion.cpp"),
    "a GIF's comment": (saved("GIF", "L", comment=TEXT.encode()), ""),
    "XMP of a PNG": (png(**{"XML__com.adobe.xmp": XMP.format(text=DRAW_THINGS)}), "Draw Things"),
    "XMP of a JPEG": (saved("JPEG", xmp=XMP.format(text=DRAW_THINGS).encode()), "Draw Things"),
    "EXIF with its program": (saved("JPEG", exif=EXIF), "SomeBot"),
    "keys with a prefix": (png(own__prompt=PROMPT, own__negative_prompt="dark", own__seed="3", own__steps="20",
                               own__guidance="7", own__sampler="Euler a", own__width="64", own__height="64"), "own"),
    "keys without one": (png(prompt=PROMPT, negative_prompt="dark", seed="3", steps="20", guidance_scale="7",
                             sampler="Euler a"), ""),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_metadata_is_read_wherever_a_program_writes_it_and_the_program_only_if_it_is_named(place):
    data, program = PLACES[place]
    found = read(data)
    assert (found.prompt, found.negative_prompt, found.seed, found.num_inference_steps) == (PROMPT, "dark", 3, 20)
    assert (found.guidance_scale, found.sampler, found.program) == (7.0, "Euler a", program)


VERSIONS = {"v1.10.1": "AUTOMATIC1111", "f2.0.1v1.10.1": "Forge", "SomeUI 3": "SomeUI 3", "": ""}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layout_alone_names_no_program(version):
    assert read(png(parameters=TEXT + f", Version: {version}" * bool(version))).program == VERSIONS[version]


WORDS = {"German": "eine Ärztin für Kinder", "Hindi": "एक लड़का", "Japanese": "医者の写真"}


@pytest.mark.parametrize("language", WORDS)
def test_utf_8_in_a_field_for_latin_1_is_read_as_what_it_is(language):
    text = TEXT.replace(PROMPT, WORDS[language])
    in_png = with_chunks(saved("PNG"), [b"tEXtparameters\0" + text.encode()])
    assert read(in_png).prompt == WORDS[language]
    assert read(saved("JPEG", comment=text.encode())).prompt == WORDS[language]
    assert read(png(parameters=TEXT.replace(PROMPT, "a café"))).prompt == "a café"  # Latin-1 that is Latin-1


def test_texts_that_are_not_understood_are_named():
    assert read(png(a__prompt_tokens="[1]", b__seed_list="[2]")).unread == (
        "texts of an unknown program (a:prompt_tokens, b:seed_list)",
    )
    assert read(png(Author="me")).unread == ()


@pytest.mark.parametrize(("mode", "signature"), [("RGBA", b"stealth_pngcomp"), ("RGB", b"stealth_rgbinfo")])
def test_a_text_hidden_in_the_pixels_is_named(mode, signature):
    image = Image.linear_gradient("L").resize((64, 64)).convert(mode)
    assert find_hidden_text(image) == ""
    pixels, bits = np.array(image), np.unpackbits(np.frombuffer(signature, np.uint8))
    columns = pixels.transpose(1, 0, 2)
    part = columns[..., 3:] if mode == "RGBA" else columns[..., :3]
    flat = part.reshape(-1).copy()
    flat[: bits.size] = flat[: bits.size] & 254 | bits
    part[...] = flat.reshape(part.shape)
    assert "hidden in its pixels" in find_hidden_text(Image.fromarray(pixels, mode))


TABLES = {
    "a prompt": ({}, ["x <lora:fair:0.8> y <lyco:old:1>"], ("fair:0.8", "old:1")),
    "SwarmUI": ({"loras": ["a/fair", "old"], "loraweights": ["0.8", "0"]}, [], ("fair:0.8",)),
    "InvokeAI": ({"loras": [{"model": {"name": "fair"}, "weight": 0.75}]}, [], ("fair:0.75",)),
    "Fooocus": ({"loras": [["fair.safetensors", 0.5], [False, "old", 1.0]], "lora_combined_1": "new : 0.3"}, [],
                ("fair:0.5", "new:0.3")),
    "Easy Diffusion": ({"use_lora_model": ["fair"], "lora_alpha": [0.5]}, [], ("fair:0.5",)),
    "hashes": ({"Lora hashes": "fair: 1a2b3c4d5e, old: 99aa"}, ["<lora:fair:0.8>"], ("fair:0.8", "old")),
    "ComfyUI": ({"lora_name": "fair.safetensors", "strength_model": 0.8, "strength_clip": 1}, [], ("fair:0.8",)),
    "a stack": ({"lora_name_1": "fair", "lora_wt_1": 0.4, "lora_name_2": "None", "switch_3": "Off", "lora_name_3": "x"},
                [], ("fair:0.4",)),
    "others": ({"lora": "", "loras": "[]", "lora_count": 3, "explorations": "x"}, [], ()),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_loras_are_found_under_every_usual_name_and_those_switched_off_are_not(kind):
    table, prompts, names = TABLES[kind]
    assert find_loras(table, prompts) == names


def test_a_workflow_names_the_loras_on_the_way_to_its_sampler():
    def node(kind, **inputs):
        return {"class_type": kind, "inputs": inputs}

    graph = {
        "1": node("CheckpointLoaderSimple", ckpt_name="sd15.safetensors"),
        "2": node("LoraLoader", lora_name="people/fair.safetensors", strength_model=0.8, model=["1", 0], clip=["1", 1]),
        "3": node("LoraLoader", lora_name="unused.safetensors", strength_model=1, model=["1", 0], clip=["1", 1]),
        "4": node("Power Lora Loader (rgthree)", model=["2", 0], lora_1={"on": True, "lora": "old.pt", "strength": 0.5},
                  lora_2={"on": False, "lora": "off.pt", "strength": 1}),
        "5": node("CLIPTextEncode", text=PROMPT, clip=["2", 1]),
        "6": node("EmptyLatentImage", width=64, height=64, batch_size=1),
        "7": node("KSampler", seed=3, steps=20, cfg=7, sampler_name="euler", scheduler="normal", model=["4", 0],
                  positive=["5", 0], negative=["5", 0], latent_image=["6", 0]),
        "8": node("VAEDecode", samples=["7", 0], vae=["1", 2]),
        "9": node("SaveImage", images=["8", 0], filename_prefix="x"),
    }  # fmt: skip
    found = read(png(prompt=json.dumps(graph)))
    assert (found.model, found.loras) == ("sd15.safetensors", ("fair:0.8", "old:0.5"))
    assert found.drawn_with == "sd15.safetensors + fair:0.8 + old:0.5"
