"""Metadata of other programs in unusual places: after the pixels, in comments, in XMP, under keys of their own."""

import io
import json
import warnings
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from bias_core.errors import InvalidInput
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


def exif(kind, tag, value):
    """A picture with one value in its EXIF; a comment is in its second part."""
    tags = Image.Exif()
    (tags.get_ifd(0x8769) if tag == 0x9286 else tags)[tag] = value
    if kind != "TIFF" or tag != 0x9286:
        return saved(kind, exif=tags if kind == "TIFF" else tags.tobytes())
    directory = ImageFileDirectory_v2()
    directory[0x8769], directory.tagtype[0x8769] = {tag: value}, 4
    return saved(kind, tiffinfo=directory)


MOCHI = (
    f"Include in Image: {PROMPT}; Exclude from Image: dark; Model: m; Steps: 20; Guidance Scale: 7; Seed: 3; "
    "Size: 64x64; Scheduler: Euler a; Generator: Mochi Diffusion 3.1"
)
NOVEL = {"Description": PROMPT, "Source": "NovelAI Diffusion V4 37442FCA", "Comment": json.dumps(
    {"prompt": PROMPT, "uc": "dark", "steps": 20, "scale": 7, "seed": 3, "sampler": "Euler a"})}  # fmt: skip
TENSOR = {"prompt": PROMPT, "negativePrompt": "dark", "steps": 20, "cfgScale": 7, "seed": "3", "samplerName": "Euler a",
          "models": [{"type": "LORA", "modelFileName": "fair", "weight": 0.8}]}  # fmt: skip
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
    "EXIF of a TIFF": (exif("TIFF", 0x9286, b"ASCII\0\0\0" + TEXT.encode()), ""),
    "EXIF of an AVIF": (exif("AVIF", 0x9286, b"UNICODE\0" + TEXT.encode("utf-16-le")), ""),
    "UTF-16 with its byte order": (exif("JPEG", 0x9286, b"UNICODE\0\xff\xfe" + TEXT.encode("utf-16-le")), ""),
    "UTF-16 that does not say so": (exif("WEBP", 0x9286, TEXT.encode("utf-16-le")), ""),
    "UTF-8 that says UTF-16": (exif("JPEG", 0x9286, b"UNICODE\0" + TEXT.encode()), ""),
    "a Windows comment": (exif("JPEG", 0x9C9C, TEXT.encode("utf-16-le")), ""),
    "a description": (exif("JPEG", 0x010E, TEXT), ""),
    "another key": (png(UserComment=TEXT), ""),
    "line ends of a Mac": (png(parameters=TEXT.replace("\n", "\r")), ""),
    "one line": (png(parameters=TEXT.replace("\n", " ")), ""),
    "two lines of settings": (png(parameters=TEXT.replace(", CFG", ",\nCFG")), ""),
    "Mochi Diffusion": (exif("TIFF", 0x010E, MOCHI), "Mochi Diffusion 3.1"),
    "NovelAI in EXIF": (exif("WEBP", 0x9286, b"ASCII\0\0\0" + json.dumps(NOVEL).encode()), "NovelAI"),
    "TensorArt": (png(generation_data=json.dumps(TENSOR), prompt='{"1": {"class_type": "x", "inputs": {}}}'), ""),
    "Fooocus in A1111's format": (png(parameters=TEXT.replace(PROMPT, f"cinematic {PROMPT}") +
                                      f', Raw prompt: "{PROMPT}", Raw negative prompt: dark, Version: Fooocus v2.5.5'),
                                  "Fooocus v2.5.5"),
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
    in_windows = [b"tEXtparameters\0" + TEXT.replace(PROMPT, "a chef’s hat").encode("cp1252")]
    assert read(with_chunks(saved("PNG"), in_windows)).prompt == "a chef’s hat"


@pytest.mark.parametrize("kind", ["AVIF", "WEBP", "JPEG", "PNG", "TIFF"])
def test_damaged_metadata_is_one_sentence(kind):
    data, rng = exif(kind, 0x9286, TEXT.encode()), np.random.default_rng(0)
    for _ in range(300):
        places = rng.integers(12, min(len(data), 800), 3)
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[places] = rng.integers(0, 256, 3)
        with suppress(InvalidInput), warnings.catch_warnings(action="ignore"):
            read(damaged.tobytes())


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
    "Fooocus with digests": ({"loras": [["fair", 0.5, "1a2b3c"]], "refiner_model": "None"}, [], ("fair:0.5",)),
    "Fooocus in A1111's format": ({"Lora hashes": "fair: 1a2b", "Lora weights": "fair: 0.5"}, [], ("fair:0.5",)),
    "a refiner": ({"Refiner": "second [1a2b]", "strength": 0.5}, [], ("second [1a2b]",)),
    "a hypernetwork": ({"Hypernet": "faces", "Hypernet strength": "0.5"}, [], ("faces:0.5",)),
    "two weights": ({}, ["x <lora:fair:te=0.8:unet=0.5>"], ("fair:te=0.8:unet=0.5",)),
    "LoRA Manager": ({"loras": {"__value__": [{"name": "fair", "strength": 0.5, "active": True},
                                              {"name": "old", "strength": 1, "active": False}]}}, [], ("fair:0.5",)),
    "Easy Diffusion": ({"use_lora_model": ["fair"], "lora_alpha": [0.5]}, [], ("fair:0.5",)),
    "hashes": ({"Lora hashes": "fair: 1a2b3c4d5e, old: 99aa"}, ["<lora:fair:0.8>"], ("fair:0.8", "old")),
    "ComfyUI": ({"lora_name": "fair.safetensors", "strength_model": 0.8, "strength_clip": 1}, [], ("fair:0.8",)),
    "a stack": ({"lora_name_1": "fair", "lora_wt_1": 0.4, "lora_name_2": "None", "switch_3": "Off", "lora_name_3": "x"},
                [], ("fair:0.4",)),
    "fields that are not shown": ({"lora_count": 1, "lora_name_1": "fair", "lora_wt_1": 0.5, "lora_name_2": "old"}, [],
                                  ("fair:0.5",)),
    "numbers in the middle": ({"toggle": True, "num_loras": 1, "lora_1_name": "fair", "lora_1_strength": 0.5,
                               "lora_2_name": "old"}, [], ("fair:0.5",)),
    "an advanced stack": ({"input_mode": "advanced", "lora_name_1": "fair", "lora_wt_1": 1, "model_str_1": 0.5}, [],
                          ("fair:0.5",)),
    "all switched off": ({"toggle": False, "lora_1_name": "fair"}, [], ()),
    "others": ({"lora": "", "loras": "[]", "lora_count": 3, "explorations": "x"}, [], ()),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_loras_are_found_under_every_usual_name_and_those_switched_off_are_not(kind):
    table, prompts, names = TABLES[kind]
    assert find_loras(table, prompts) == names


def node(kind, **inputs):
    return {"class_type": kind, "inputs": inputs}


def sampler(**inputs):
    usual = {"seed": 3, "steps": 20, "cfg": 7, "sampler_name": "euler", "scheduler": "normal", "model": ["1", 0]}
    return node("KSampler", **usual | {"positive": ["5", 0], "negative": ["5", 0], "latent_image": ["6", 0]} | inputs)


GRAPH = {
    "1": node("CheckpointLoaderSimple", ckpt_name="sd15.safetensors"),
    "2": node("CheckpointLoaderSimple", ckpt_name="other"),
    "5": node("CLIPTextEncode", text=PROMPT, clip=["1", 1]),
    "6": node("EmptyLatentImage", width=64, height=64, batch_size=1),
    "8": node("VAEDecode", samples=["7", 0], vae=["1", 2]),
    "9": node("SaveImage", images=["8", 0], filename_prefix="x"),
}
LORAS = {
    "2": node("LoraLoader", lora_name="people/fair.safetensors", strength_model=0.8, model=["1", 0], clip=["1", 1]),
    "3": node("LoraLoader", lora_name="unused.safetensors", strength_model=1, model=["1", 0], clip=["1", 1]),
    "4": node("Power Lora Loader (rgthree)", model=["2", 0], lora_1={"on": True, "lora": "old.pt", "strength": 0.5},
              lora_2={"on": False, "lora": "off.pt", "strength": 1}),
    "7": sampler(model=["4", 0]),
}  # fmt: skip
USUAL = {
    "model": "sd15.safetensors",
    "loras": (),
    "further": (),
    "seed": 3,
    "num_inference_steps": 20,
    "guidance_scale": 7.0,
}
ROUTES = {
    "LoRAs on the way": (LORAS, {"loras": ("fair:0.8", "old:0.5")}),
    "a LoRA of a loader": ({"1": node("Efficient Loader", ckpt_name="m", lora_name="a.pt", lora_model_strength=0.5),
                            "7": sampler()}, {"model": "m", "loras": ("a:0.5",)}),
    "a LoRA in a loader's text": ({"2": node("LoraTagLoader", text="<lora:a:0.5>", model=["1", 0]),
                                   "7": sampler(model=["2", 0])}, {"loras": ("a:0.5",)}),
    "a LoRA in a loader's linked text": ({"2": node("LoraTagLoader", text=["4", 0], model=["1", 0]),
                                          "4": node("PrimitiveString", value="<lora:a:0.5>"),
                                          "7": sampler(model=["2", 0])}, {"loras": ("a:0.5",)}),
    "a LoRA without strength": ({"2": node("LoraLoaderModelOnly", lora_name="a", strength_model=0.0, model=["1", 0]),
                                 "7": sampler(model=["2", 0])}, {}),
    "a LoRA that is only written": ({"5": node("CLIPTextEncode", text=f"{PROMPT} <lora:a:0.8>", clip=["1", 1]),
                                     "7": sampler()},
                                    {"further": ("LoRA a:0.8 is written in the prompt, and no node loads it",)}),
    "a stack": ({"2": node("CR Apply LoRA Stack", model=["1", 0], lora_stack=["3", 0]), "7": sampler(model=["2", 0]),
                 "3": node("CR LoRA Stack", switch_1="On", lora_name_1="a", model_weight_1=0.5, switch_2="Off",
                           lora_name_2="b", model_weight_2=1)}, {"loras": ("a:0.5",)}),
    "merged models": ({"3": node("ModelMergeSimple", model1=["1", 0], model2=["2", 0], ratio=0.5),
                       "7": sampler(model=["3", 0])}, {"model": "other + sd15.safetensors"}),
    "a switch of models": ({"3": node("CR Model Input Switch", Input=2, model1=["1", 0], model2=["2", 0]),
                            "7": sampler(model=["3", 0])}, {"model": "other"}),
    "a model's name by a node": ({"1": node("CheckpointLoaderSimple", ckpt_name=["3", 0]), "7": sampler(),
                                  "3": node("Selector", ckpt_name="m", seed=5)}, {"model": "m"}),
    "a context": ({"3": node("Context (rgthree)", base_ctx=["4", 0], model=["2", 0]), "7": sampler(model=["3", 1]),
                   "4": node("Context (rgthree)", model=["1", 0], positive=["5", 0])}, {"model": "other"}),
    "a node of settings": ({"7": sampler(steps=["3", 0], cfg=["3", 2], seed=["3", 1]),
                            "3": node("Config", steps_total=30, cfg=8.0, sampler_name="e")},
                           {"num_inference_steps": None, "guidance_scale": 8.0, "seed": None}),
    "a random number": ({"7": sampler(steps=["3", 0]), "3": node("Random Number", minimum=1, maximum=9, seed=44)},
                        {"num_inference_steps": None}),
    "a seed by two nodes": ({"7": sampler(seed=["3", 0]), "3": node("Reroute", x=["4", 0]), "4": node("Int", value=8)},
                            {"seed": 8}),
    "guidance by a node": ({"4": node("FluxGuidance", guidance=["3", 0], conditioning=["5", 0]),
                            "3": node("PrimitiveFloat", value=2.5), "7": sampler(cfg=1, positive=["4", 0])},
                           {"guidance_scale": 2.5}),
}  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
def test_model_loras_and_settings_are_those_on_the_way_to_the_sampler_or_unknown(route):
    changes, expected = ROUTES[route]
    found = read(png(prompt=json.dumps(GRAPH | changes)))
    assert {name: getattr(found, name) for name in USUAL} == USUAL | expected
    assert found.prompt == PROMPT
    if changes is LORAS:
        assert found.way == "sd15.safetensors + fair:0.8 + old:0.5"


CIVITAI = (
    ', Civitai resources: [{"type":"checkpoint","modelName":"One, two","modelVersionName":"v1"},{"type":"lora",'
    '"weight":0.8,"modelName":"A / b"}], Civitai metadata: {"workflow":"img2img","prompt":"a longer, text"}'
)
UNUSUAL = {
    "Civitai": ({"parameters": TEXT + CIVITAI},
                {"model": "One, two v1", "loras": ("A - b:0.8",),
                 "further": ("a start or reference picture (workflow)",)}),
    "LoRAs among digests": ({"parameters": TEXT + ', Hashes: {"model": "1a", "lora:fair": "2b"}'},
                            {"loras": ("fair",)}),
    "no sampler": ({"parameters": TEXT.replace("Sampler: Euler a, ", "")}, {"sampler": "", "seed": 3}),
    "a sampler without a name": ({"parameters": TEXT.replace("Euler a", "Undefined")}, {"sampler": ""}),
    "no settings": ({"parameters": f"{PROMPT}\nNegative prompt: dark"}, {"negative_prompt": "dark", "seed": None}),
    "no prompt": ({"parameters": f"Negative prompt: dark\n{SETTINGS}"},
                  {"prompt": "", "unclear": "no prompt was found in its metadata"}),
    "a model distilled with guidance": ({"parameters": TEXT.replace("scale: 7", "scale: 1, Guidance: 3.5")},
                                        {"guidance_scale": 3.5, "negative_prompt": ""}),
    "another prompt in its graph": ({"parameters": TEXT, "prompt": json.dumps(GRAPH | {
        "5": node("CLIPTextEncode", text="a nurse"), "7": sampler()})},
        {"prompt": "", "unclear": f"2 prompts are in its workflow (“{PROMPT}”; “a nurse”)"}),
    "the same prompt in its graph": ({"parameters": TEXT, "prompt": json.dumps(GRAPH | {"7": sampler()})}, {}),
    "a graph among settings": ({"parameters": json.dumps(GRAPH | {"7": sampler(), "extra": {}, "extraMetadata": "{}"})},
                               {"model": "sd15.safetensors", "program": "ComfyUI"}),
    "InvokeAI 1 with quotes": ({"Dream": r'"a \"big\" doctor" -s 20 -S 3'}, {"prompt": 'a "big" doctor', "seed": 3}),
    "InvokeAI 1 from a picture": ({"Dream": f'"{PROMPT} [dark]" -s 20 -S 3 -C 7 -A k_lms -I me.png'},
                                  {"negative_prompt": "dark", "guidance_scale": 7.0,
                                   "further": ("a start or reference picture (init_image)",)}),
    "NovelAI's characters": (NOVEL | {"Comment": NOVEL["Comment"][:-1] + ', "v4_negative_prompt": {"caption": '
                                      '{"char_captions": [{"char_caption": "glasses"}]}}}'},
                             {"further": ("negative char_caption “glasses”",)}),
    "a prompt alone": ({"parameters": PROMPT}, {"seed": None, "program": ""}),
    "Midjourney without a job": ({"Description": f"{PROMPT} --ar 16:9 --v 6.1 --seed 3"},
                                 {"seed": 3, "model": "Midjourney 6.1", "program": "Midjourney"}),
    "a personal Midjourney": ({"Description": f"{PROMPT} --v 6.1 --p ab12 Job ID: 1"}, {"loras": ("profile ab12",)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_metadata_is_read_right_or_said_to_be_unclear(kind):
    texts, expected = UNUSUAL[kind]
    found = read(png(**texts))
    assert {name: getattr(found, name) for name in expected | {"prompt": ""}} == {"prompt": PROMPT} | expected
