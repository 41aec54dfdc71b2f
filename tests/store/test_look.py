"""The look at pictures: every file is accounted for, prompts are told apart, and guesses are named."""

import io
import json
from random import Random

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import InvalidInput
from bias_core.store import found_pictures
from bias_core.store.found_pictures import NO_PROMPT, FoundPictures, Source, key
from bias_core.store.imports import ImportedImages
from bias_core.store.picture_metadata import facts_of_name, is_model_name
from tests.every import every
from tests.store.test_imports import unread

COOK, NURSE = "a photo of a cook", "a photo of a nurse"


def picture(seed, kind="PNG", size=(64, 64), **texts):
    """A picture of smooth colours, different for each seed."""
    noise = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    image, file, info = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC), io.BytesIO(), PngInfo()
    for name, text in texts.items():
        info.add_text(name, text)
    image.save(file, kind, **({"pnginfo": info} if kind == "PNG" else {}))
    return file.getvalue()


def spaced(seed):
    """A sheet of pictures of three seeds, with gaps and an empty place."""
    sheet, file = Image.new("RGB", (132, 132), "white"), io.BytesIO()
    for place, each in enumerate((1, 2, seed)):
        with Image.open(io.BytesIO(picture(each))) as tile:
            sheet.paste(tile, (place % 2 * 68, place // 2 * 68))
    sheet.save(file, "PNG")
    return file.getvalue()


def folder(path, files):
    for name, data in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def look(path, files, **reading):
    return ImportedImages(folder(path, files), **reading).look()


KINDS = {
    "drawn": lambda n: (f"{COOK}_{n}.png", picture(n)),
    "a number": lambda n: (f"{n:05}.png", picture(n)),
    "a camera's": lambda n: (f"IMG_{n:04}.jpg", picture(n, "JPEG")),
    "in a folder": lambda n: (f"{NURSE}/{n}.webp", picture(n, "WEBP")),
    "a word": lambda n: (f"men/{n}.png", picture(n)),
    "the same again": lambda n: (f"{COOK}_{n}.png", picture(1)),
    "smaller, elsewhere": lambda n: (f"{NURSE}/{n}.jpg", picture(2, "JPEG", size=(48, 48))),
    "a sheet with gaps": lambda n: (f"{NURSE}/{n}.png", spaced(n)),
    "marked": lambda n: (f"{COOK}_seed{n}_sd15.png", picture(n)),
    "smaller": lambda n: (f"{COOK}_{n}.png", picture(2, size=(32, 32))),
    "broken": lambda n: (f"{COOK}_{n}.png", b"\x89PNG\r\n\x1a\n no more"),
    "cut off": lambda n: (f"{NURSE}/{n}.png", picture(n)[:300]),
    "another format": lambda n: (f"{n}.heic", b"x"),
    "without ending": lambda n: (f"{COOK} {n}", picture(n)),
    "a sheet": lambda n: (f"grid-{n:04}.png", picture(n)),
    "a figure": lambda n: (f"figures/{n}.png", picture(n, bias_core_figure="1")),
    "long": lambda n: (f"{n}.png", picture(n, parameters=f"{'x ' * 9000}\nSteps: 1, Sampler: x, Seed: {n}")),
    "blank": lambda n: (f"{COOK}_{n}.png", picture(0, size=(1, 1))),
    "no picture": lambda n: (f"notes {n}.md", "x"),
}


@pytest.mark.parametrize("seed", range(12))
def test_pictures_that_count_and_those_left_out_are_all_files_that_look_like_pictures(seed, tmp_path):
    chance = Random(seed)
    chosen = ["drawn", *chance.choices([*KINDS], k=chance.randint(2, 30))]
    files = dict(KINDS[kind](n) for n, kind in enumerate(chosen, start=3))
    n_pictures = sum(kind != "no picture" for kind in chosen)
    reading = {"copies": chance.choice(["count once", "count all"])}
    reading["prompts_from"] = chance.choice(["auto", "table", "folder", "file name", f"one for all: {COOK}"])
    if chance.random() < 0.3:
        named = chance.sample([*files], min(2, len(files)))
        lines = ({"file_name": name, "prompt": COOK} for name in named if not name.endswith(".md"))
        files["metadata.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines) or '{"prompt": "x"}'
    found = look(tmp_path, files, **reading)
    assert found.n + len(found.left_out) == n_pictures, found
    assert set(found.left_out) <= set(files)
    assert all(found.left_out.values())
    assert found.n == sum(len(summary.names) for summary in found.prompts)


DIFFERENT = {
    "Hindi": ("एक लड़का", "एक लड़की"),
    "Thai": ("ที่", "ทา"),
    "Tamil": ("கி", "கு"),
    "Bengali": ("কি", "কু"),
    "emoji": ("a 👨‍⚕️", "a 👩‍⚕️"),
    "skin": ("👩🏻", "👩🏿"),
    "languages": ("C", "C++"),
    "more": ("C#", "C"),
    "brackets": ("(a cook)", "a cook"),
    "weights": ("a cook:1.2", "a cook"),
    "accents": ("un résumé", "un resume"),
}


@every(DIFFERENT)
def test_two_prompts_never_share_a_key(name):
    first, second = DIFFERENT[name]
    assert key(first) != key(second)


def test_two_spellings_of_a_prompt_count_together_and_are_said(tmp_path):
    found = look(tmp_path, {f"{COOK}_1.png": picture(1), "A Photo of a cook!_2.png": picture(2)})
    (summary,) = found.prompts
    assert (summary.n, summary.spellings) == (2, ("A Photo of a cook!", COOK))
    assert "spelled as" in summary.checks[0]


NAMES = {
    "a benchmark's": (f"color/samples/{COOK}_000000.png", COOK, "the name of the file", False),
    "a prompt's folder": (f"{COOK}/3.png", COOK, "the name of the folder", False),
    "a model's folder": (f"sdxl-turbo/{COOK}_3.png", COOK, "the name of the file", False),
    "a folder of one word": ("men/3.png", "men", "the name of the folder", True),
    "a file of one word": ("cook_3.png", "cook", "the name of the file", True),
    "words against a word": (f"men/{COOK}_3.png", COOK, "the name of the file", False),
    "a folder of outputs": ("outputs/3.png", NO_PROMPT, "", False),
    "a model's folder with numbers": ("flux-dev/3.png", NO_PROMPT, "", False),
    "a camera's": ("IMG_4407.jpg", NO_PROMPT, "", False),
    "Chinese": ("医生的照片_1.png", "医生的照片", "the name of the file", False),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_taken_from_the_name_that_reads_like_one_and_doubted_elsewhere(name, tmp_path):
    path, prompt, source, is_doubted = NAMES[name]
    kind = "JPEG" if path.endswith("jpg") else "PNG"
    found = look(tmp_path / name.replace("'", ""), {path: picture(1, kind), f"z{path}": picture(2, kind)})
    summary = next(summary for summary in found.prompts if summary.prompt == prompt)
    assert [*summary.sources] == [source] * bool(source)
    assert any("folders" not in doubt for doubt in summary.doubts) == is_doubted


NUMBERED = {
    "ages": ({"a woman aged 25": 1, "a woman aged 65": 1}, ["a woman aged 25", "a woman aged 65"]),
    "ages, counted": ({"a woman aged 25": 2, "a woman aged 65": 2},
                      [f"a woman aged {age}_{n}" for age in (25, 65) for n in (0, 1)]),
    "slugs": ({"a woman aged 25": 1, "a woman aged 65": 1}, ["a_woman_aged_25", "a_woman_aged_65"]),
    "letters": ({"a robot called R2D2": 1, "a robot called R2D3": 1}, ["a robot called R2D2", "a robot called R2D3"]),
    "ages before words": ({"100-year-old man": 1, "200-year-old man": 1}, ["100-year-old man", "200-year-old man"]),
    "rooms, counted": ({"a man in room 1": 2, "a man in room 2": 2},
                       [f"a man in room {room}_{n}" for room in (1, 2) for n in (0, 1)]),
    "words that are settings": ({"a man climbs 20 steps": 1, "a man climbs 30 steps": 1},
                                ["a man climbs 20 steps", "a man climbs 30 steps"]),
    "a series": ({COOK: 3}, [f"{COOK} {n}" for n in (0, 1, 2)]),
    "a series with a gap": ({COOK: 3}, [f"{COOK} {n}" for n in (1, 2, 4)]),
    "a long series": ({COOK: 4}, [f"{COOK} {n}" for n in (0, 1, 20, 61)]),
    "a series of slugs": ({COOK: 2}, ["a_photo_of_a_cook_1", "a_photo_of_a_cook_2"]),
    "copies": ({COOK: 2}, [COOK, f"{COOK} 2"]),
    "zeros": ({COOK: 1}, ["a_photo_of_a_cook_000017"]),
    "brackets": ({COOK: 2}, [f"{COOK} (25)", f"{COOK} (65)"]),
    "models": ({f"{COOK} vision7": 1, f"{COOK} vision8": 1}, [f"{COOK}_0_vision7", f"{COOK}_0_vision8"]),
    "seeds inside": ({f"{COOK} fair": 2, f"{COOK} cond=x": 1},
                     [f"{COOK} seed0 fair", f"{COOK} seed1 fair", f"{COOK} seed0 cond=x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERED)
def test_a_number_in_a_name_is_cut_only_where_it_counts_pictures(name, tmp_path):
    prompts, stems = NUMBERED[name]
    files = {f"{stem}.png": picture(n) for n, stem in enumerate(stems)}
    assert ImportedImages(folder(tmp_path / "x", files)).counts == prompts


def test_a_number_or_word_in_a_name_that_may_be_no_part_of_the_prompt_is_doubted(tmp_path):
    names = ("a woman aged 65", f"{COOK}_0_vision7", f"{COOK} seed4 fair", "a man climbs 20 steps")
    found = look(tmp_path, {f"{name}.png": picture(n) for n, name in enumerate(names)})
    doubts = {summary.prompt: summary.doubts for summary in found.prompts}
    assert "“65” may count pictures" in doubts["a woman aged 65"][0]
    assert "“vision7” may be" in doubts[f"{COOK} vision7"][0]
    assert "“fair” may be" in doubts[f"{COOK} fair"][0]
    assert "“20 steps” may be" in doubts["a man climbs 20 steps"][0]
    assert found.to_check


FOLDERS = {
    "models": ([f"{COOK}/sd15", f"{COOK}/sdxl"], ()),
    "seeds": ([f"{COOK}/seed0", f"{COOK}/seed_1"], ()),
    "LoRAs": ([f"{COOK}/with LoRA fair", f"{COOK}/without LoRA"], ("with LoRA fair (1)", "without LoRA (1)")),
    "conditions": ([f"{COOK}/guidance 3", f"{COOK}/cond=x"], ("guidance 3 (1)", "cond=x (1)")),
    "above": ([f"male/{COOK}", f"female/{COOK}"], ("male (1)", "female (1)")),
    "a word": ([f"{COOK}/kind", f"{COOK}/plain", NURSE], ("kind (1)", "“kind” may be another prompt")),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_prompts_folder_may_be_above_others_and_several_that_count_together_are_named(name, tmp_path):
    folders, doubts = FOLDERS[name]
    files = {f"{path}/{n}.png": picture(n) for n, path in enumerate(folders)}
    summary, *_ = (found := look(tmp_path / "x", files)).prompts
    assert (summary.prompt, summary.n) == (COOK, 2)
    assert all(any(doubt in each for each in summary.doubts) for doubt in doubts)
    assert bool(summary.doubts) == bool(doubts)
    assert any("several folders" in sentence for sentence, _ in found.notes) == bool(doubts)


@pytest.mark.parametrize("others", [{}, {"3.png": picture(2)}])
def test_of_two_names_that_read_like_prompts_the_other_one_is_named(others, tmp_path):
    found = look(tmp_path, {f"{NURSE}/{COOK}_1.png": picture(1)} | others)
    doubts = [doubt for summary in found.prompts for doubt in summary.doubts]
    assert any("says “a photo of a" in doubt for doubt in doubts)


SETTINGS = "{}\nNegative prompt: {}\nSteps: {}, Sampler: {}, CFG scale: {}, Seed: {}, Model: {}"


def settings(n, negative="x", steps=20, sampler="Euler", cfg=7, model="sd15", prompt=COOK):
    """A picture with AUTOMATIC1111's text."""
    return picture(n, parameters=SETTINGS.format(prompt, negative, steps, sampler, cfg, n, model))


DIFFER = {
    "negative": (("man", "woman", "woman"), "negative prompts: “woman” (2), “man” (1)"),
    "steps": ((4, 50, 50), "steps: 50 (2), 4 (1)"),
    "cfg": ((2, 7.5, 7.5), "guidance: 7.5 (2), 2 (1)"),
    "sampler": (("Euler", "DDIM", "DDIM"), "samplers: DDIM (2), Euler (1)"),
}


@pytest.mark.parametrize("name", DIFFER)
def test_settings_that_differ_within_a_prompt_are_named(name, tmp_path):
    values, doubt = DIFFER[name]
    found = look(tmp_path, {f"{n}.png": settings(n, **{name: value}) for n, value in enumerate(values)})
    assert found.prompts[0].doubts == (doubt,)
    assert any(doubt in line for _, lines in found.notes for line in lines)


OTHER_SOURCES = {
    "list.json": lambda row: json.dumps([{"file_name": "1.png", "rating": 3, **row}]),
    "1.json": lambda row: json.dumps(row),
    "metadata.parquet": lambda row: parquet([{"file_name": "1.png", "rating": 3, **row}]),
}


def parquet(rows):
    from pyarrow import Table, parquet as arrow

    file = io.BytesIO()
    arrow.write_table(Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize("name", OTHER_SOURCES)
def test_numbers_of_a_spreadsheet_are_mended_or_unknown_in_all_tables(name, tmp_path):
    row = {"prompt": COOK, "seed": "3,07E+09", "guidance_scale": "7,5"}
    found = ImportedImages(folder(tmp_path, {"1.png": picture(1), name: OTHER_SOURCES[name](row)}))
    (drawn,) = found.rows(COOK, 9)
    assert (drawn.seed, drawn.guidance_scale, found.look().prompts[0].n_seeds) == (0, 7.5, 0)
    assert any("rounded by a spreadsheet" in line for line in unread(found))
    assert any("columns not used: rating" in line for line in unread(found)) == (name != "1.json")


def test_texts_that_do_not_count_are_called_what_they_are(tmp_path):
    files = {"1.png": picture(1), "1.txt": COOK, "1.json": "{}", "1.caption": NURSE, "captions.txt": "1.png x",
             "metadata.json": '{"1.png": "x"}', "index.html": "x"}  # fmt: skip
    found = ImportedImages(folder(tmp_path, files))
    assert found.counts == {COOK: 1}
    seconds = [line for line in unread(found) if "a second text about 1.png, which does not count" in line]
    assert [line.partition(":")[0] for line in seconds] == ["1.caption", "1.json"]
    notes = {sentence: [line.partition(":")[0] for line in lines] for sentence, lines in found.remarks()}
    assert sorted(notes["lines or files could not be used"]) == ["captions.txt", "metadata.json"]
    assert notes["file is neither a picture nor a text about one"] == ["index.html"]


def test_contradictions_of_a_name_a_table_and_a_record_are_named(tmp_path):
    files = {f"{COOK}_seed9_sdxl.png": settings(1), "2.png": settings(2, negative="man"), "3.png": settings(3)}
    lines = [("2.png", "woman"), (f"{COOK}_seed9_sdxl.png", "x")]
    rows = [json.dumps({"file_name": name, "prompt": COOK, "negative_prompt": text}) for name, text in lines]
    found = ImportedImages(folder(tmp_path, files | {"metadata.jsonl": "\n".join(rows)}))
    summaries = {summary.prompt: summary for summary in found.look().prompts}
    name = f"{COOK}_seed9_sdxl.png"
    assert sorted(unread(found), reverse=True) == [
        f"{name}: its seed is 9 by its name, but 1 counts",
        f"{name}: its model is sdxl by its name, but sd15 counts",
        "2.png: its negative prompt is man by its own record, but woman counts",
    ]
    (doubt,) = summaries[NO_PROMPT].doubts
    assert f"says “{COOK}”, which does not count" in doubt


def test_spellings_of_a_model_and_a_weight_are_one_way_of_drawing(tmp_path):
    models = ("sd15", "SD15", "sd15.safetensors", "models/sd15.ckpt", "sdxl", "org/sd15")
    files = {f"{n}.png": settings(n, model=model) for n, model in enumerate(models)}
    found = look(tmp_path / "models", files)
    assert found.ways == {"sd15": 4, "sdxl": 1, "org/sd15": 1}
    assert any("several spellings" in sentence and "SD15" in lines[0] for sentence, lines in found.notes)
    prompts = [f"{COOK} <lora:fair:{weight}>" for weight in ("1", "1.0", "0.50", "0.5")]
    found = look(tmp_path / "loras", {f"{n}.png": settings(n, prompt=text) for n, text in enumerate(prompts)})
    assert found.ways == {"sd15 + fair:1": 2, "sd15 + fair:0.5": 2}


OVERLAPS = {
    "one that begins the other": (("6ce0161689", "6ce01616"), {"m": 2}),
    "two": (("6ce0161689", "1234567890"), {"m (6ce0161689)": 1, "m (1234567890)": 1}),
    "two, and the beginning of one": (("6ce0161689", "1234567890", "12345678"),
                                      {"m (6ce0161689)": 1, "m (1234567890)": 2}),
    "two, and the beginning of both": (("6ce0161689", "6ce01616aa", "6ce01616"),
                                       {"m (6ce0161689)": 1, "m (6ce01616aa)": 1, "m (6ce01616)": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERLAPS)
def test_a_hash_that_begins_another_one_is_of_the_same_checkpoint(name, tmp_path):
    hashes, ways = OVERLAPS[name]
    models = (f"m, Model hash: {digits}" for digits in hashes)
    assert look(tmp_path, {f"{n}.png": settings(n, model=model) for n, model in enumerate(models)}).ways == ways


def test_the_source_of_prompts_can_be_chosen(tmp_path):
    text = f"{NURSE}\nSteps: 20, Sampler: Euler, Seed: 3, Size: 64x64"
    files = {f"a red door/{COOK}_1.png": picture(1, parameters=text), f"a red door/{COOK}_1.txt": "a blue door"}
    files["metadata.csv"] = f"file_name,prompt\na red door/{COOK}_1.png,a green door\n"
    prompts = {
        "auto": "a green door", "table": "a green door", "picture": NURSE, "text file": "a blue door",
        "file name": COOK, "folder": "a red door", "one for all: x y z": "x y z", "none": "without a prompt",
    }  # fmt: skip
    for source, prompt in prompts.items():
        assert look(tmp_path, files, prompts_from=source).counts == {prompt: 1}, source
    with pytest.raises(InvalidInput, match=r"prompts are taken from auto, table, .*got 'the moon'"):
        look(tmp_path, files, prompts_from="the moon")
    with pytest.raises(InvalidInput, match=r"copies are 'count once' or 'count all'; got 'never'"):
        look(tmp_path, files, copies="never")


def test_ways_of_drawing_are_told_apart_and_can_be_taken_alone(tmp_path):
    def drawn(seed, model):
        return picture(
            10 * seed + len(model), parameters=f"{COOK}\nSteps: 20, Sampler: Euler, Seed: {seed}, Model: {model}"
        )

    files = {f"{model}/{seed}.png": drawn(seed, model) for model in ("sd15", "other") for seed in range(3)}
    found = look(tmp_path, files)
    assert found.ways == {"other": 3, "sd15": 3}
    assert [summary.n_seeds for summary in found.prompts] == [3]
    alone = look(tmp_path, files, drawn_with="other")
    assert (alone.n, set(alone.left_out.values())) == (3, {"drawn with sd15"})
    unknown = look(tmp_path / "unknown", {f"sdxl/{COOK}_1.png": picture(1), f"sd15/{COOK}_1.png": picture(2)})
    assert unknown.ways == {"sd15": 1, "sdxl": 1}  # by the folders


NUMBERS = {
    "rounded": ("seed", "3,07E+09", "the seed “3,07E+09” was rounded by a spreadsheet"),
    "no seed": ("seed", "2.5", "the seed “2.5” is none that a program draws from"),
    "rounded, with a point": ("seed", "1.2345E+12", "was rounded by a spreadsheet"),
    "a whole number with decimals": ("steps", "20,0", "steps “20,0” is read as 20"),
    "a decimal comma": ("guidance_scale", "7,5", "guidance_scale “7,5” is read as 7.5"),
    "no number": ("seed", "random", "seed “random” is no number"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_a_spreadsheet_changed_are_said_by_line(name, tmp_path):
    column, cell, says = NUMBERS[name]
    files = {"metadata.csv": f"file_name;prompt;{column}\n1.png;{COOK};{cell}\n", "1.png": picture(1)}
    found = ImportedImages(folder(tmp_path / name, files))
    (row,) = found.rows(COOK, 1)
    (remark,) = unread(found)
    assert remark.startswith("metadata.csv, line 2: ")
    assert says in remark
    assert found.get_picture(row.id).drawing.seed is None
    assert row.guidance_scale == (7.5 if column == "guidance_scale" else 0.0)


def test_a_list_in_json_is_a_table_and_other_json_is_named(tmp_path):
    files = {"a/1.png": picture(1), "a/2.png": picture(2), "a/list.json": json.dumps([
        {"file_name": "1.png", "prompt": COOK, "seed": 3}, {"image_name": "2.png", "caption": NURSE}, {"x": 1}
    ]), "settings.json": '{"steps": 3}', "broken.json": "{"}  # fmt: skip
    found = look(tmp_path, files)
    assert found.counts == {COOK: 1, NURSE: 1}
    assert found.prompts[0].sources == {"a table": 1}
    assert found.notes == (
        ("note on metadata that is not used as it stands", ("a/list.json: columns not used: x",)),
        ("files are neither pictures nor texts about them", ("broken.json", "settings.json")),
    )


def test_sources_that_contradict_each_other_are_named(tmp_path):
    files = {
        "metadata.csv": f"file_name,prompt,model,seed\n1.png,{COOK},sdxl,5\n", "1.txt": NURSE,
        "1.png": picture(1, parameters="a photo of a doctor\nSteps: 2, Sampler: x, CFG scale: 7, Seed: 1, Model: v1"),
    }  # fmt: skip
    seen = look(tmp_path, files)
    assert (seen.counts, seen.prompts[0].drawn_with) == ({COOK: 1}, {"sdxl": 1})
    ((_, lines),) = seen.notes
    for words in ("record says “a photo of a doctor”", f"says “{NURSE}”", "model is v1 by its own", "seed is 1 by its"):
        assert sum(words in line for line in lines) == 1, (words, lines)


def test_hidden_pictures_are_named_and_spellings_are_told_in_a_run(tmp_path):
    files = {".1.png": picture(1), "._2.png": b"x", f"{COOK}/2.png": picture(2), f"{COOK}!/3.png": picture(3)}
    seen = look(tmp_path, files)
    assert (seen.left_out, seen.counts) == ({".1.png": "a hidden file"}, {f"{COOK}!": 2})
    assert seen.notes[0] == ("prompt has several spellings, which count as one", (f"“{COOK}!”, “{COOK}”",))


HASHES = {
    "AUTOMATIC1111": lambda digits: {"parameters": f"{COOK}\nSteps: 2, Sampler: x, Seed: 1, Model: v, "
                                     f"Model hash: {digits}"},
    "Civitai": lambda digits: {"parameters": f"{COOK}\nSteps: 2, Sampler: x, Seed: 1, Model: v, "
                               f'Hashes: {{"model": "{digits}"}}'},
    "SwarmUI": lambda digits: {"parameters": json.dumps({
        "sui_image_params": {"prompt": COOK, "model": "v", "seed": 1},
        "sui_models": [{"name": "v", "param": "model", "hash": f"0x{digits}ffff"}]})},
    "InvokeAI": lambda digits: {"invokeai_metadata": json.dumps({
        "positive_prompt": COOK, "seed": 1, "model": {"name": "v", "hash": f"blake3:{digits}ffff"}})},
    "Fooocus": lambda digits: {"parameters": json.dumps({
        "prompt": COOK, "base_model": "v", "base_model_hash": digits, "version": "Fooocus 2", "seed": 1})},
}  # fmt: skip


@pytest.mark.parametrize("program", HASHES)
def test_two_checkpoints_of_one_name_are_two_ways_of_drawing(program, tmp_path):
    digits = ["0a1b2c3d4e", "f0e1d2c3b4", "f0e1d2c3b4"]
    files = {f"{n}.png": picture(n, **HASHES[program](each)) for n, each in enumerate(digits)}
    assert look(tmp_path, files).ways == {"v (0a1b2c3d4e)": 1, "v (f0e1d2c3b4)": 2}
    alone = look(tmp_path, {}, drawn_with="v (f0e1d2c3b4)")
    assert (alone.n, alone.left_out) == (2, {"0.png": "drawn with v (0a1b2c3d4e)"})
    (tmp_path / "0.png").unlink()
    assert look(tmp_path, {}).ways == {"v": 2}


TABLES = {
    "metadata.csv": "file_name,prompt,seed,rating,note,program\n1.png,{},3,5,,x\n2.png,{},4,,good,x\n",
    "metadata.tsv": "file_name\ttext\trating\tnote\n1.png\t{}\t5\tgood\n2.png\t{}\t\t\n",
    "metadata.jsonl": '{{"file_name": "1.png", "prompt": "{}", "rating": 1}}\n'
                      '{{"file_name": "2.png", "prompt": "{}", "note": "x", "other": null}}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_a_table_that_are_not_used_are_named_once(name, tmp_path):
    found = ImportedImages(
        folder(tmp_path, {name: TABLES[name].format(COOK, COOK), "1.png": picture(1), "2.png": picture(2)})
    )
    found.examine()
    assert (unread(found), found.counts) == ([f"{name}: columns not used: rating, note"], {COOK: 2})


def test_a_second_column_with_texts_is_named(tmp_path):
    table = f"file_name,caption,prompt\n1.png,{NURSE},{COOK}\n"
    found = look(tmp_path, {"metadata.csv": table, "1.png": picture(1)})
    assert (found.counts, found.notes[0][1]) == ({COOK: 1}, ("metadata.csv: columns not used: caption",))


def test_tables_with_the_same_unused_columns_are_named_together(tmp_path):
    files = {f"{n}/metadata.jsonl": json.dumps({"prompt": COOK, "tag": "x"}) for n in range(3)}
    found = look(tmp_path, files | {f"{n}/1.png": picture(n) for n in range(3)})
    ((_, lines),) = found.notes
    assert lines == ("0/metadata.jsonl and 2 other tables: columns not used: tag",)


def test_a_table_with_other_names_of_columns_is_refused_in_one_sentence(tmp_path):
    table = "Dateiname;prompt\n" + "".join(f"{n}.png;{COOK}\n" for n in range(9))
    says = r"needs the column file_name for names such as '0\.png', and one of prompt, .* are 'dateiname, prompt'$"
    with pytest.raises(InvalidInput, match=says):
        look(tmp_path, {"metadata.csv": table, "0.png": picture(1)})


MARKED = {
    f"{COOK} seed0 sd15.png": {"seed": 0, "model": "sd15"},
    f"{COOK}_s42_cfg7.png": {"seed": 42, "guidance_scale": 7.0},
    f"{COOK}_sd15_0001.png": {"model": "sd15"},
    f"{COOK}-seed=12-stable-diffusion-v1-5 (2).png": {"seed": 12, "model": "stable-diffusion-v1-5"},
    f"{COOK}_512x768_30steps_euler_a.png": {"width": 512, "num_inference_steps": 30, "sampler": "euler_a"},
    f"{COOK}_steps_20_seed_3_20261122.png": {"num_inference_steps": 20, "seed": 3},
}


@pytest.mark.parametrize("name", MARKED)
def test_settings_at_the_end_of_a_name_are_facts_and_no_part_of_the_prompt(name, tmp_path):
    found = ImportedImages(folder(tmp_path, {name: picture(1)}))
    (row,) = found.rows(COOK, 9)
    drawing = found.get_picture(row.id).drawing
    assert {fact: getattr(drawing, fact) for fact in MARKED[name]} == MARKED[name]
    assert found.look().prompts[0].doubts == ()


DOUBTED = {
    "2 doctors in.png": ("2 doctors in", "which seems to be cut off"),
    "a photo of a phone s23_1.png": ("a photo of a phone s23", "in which “s23” may be a setting or a model"),
    "a picture of flux.png": ("a picture of flux", "in which “flux” may be a setting or a model"),
    "seed7 a tall cook.png": ("seed7 a tall cook", "in which “seed7” may be a setting or a model"),
    "children on a playground.png": ("children on a playground", ""),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_a_name_that_may_hold_more_or_less_than_a_prompt_is_doubted(name, tmp_path):
    prompt, doubt = DOUBTED[name]
    found = look(tmp_path, {name: picture(1)})
    (summary,) = found.prompts
    assert (summary.prompt, summary.doubts) == (prompt, (doubt,) if doubt else ())
    assert [lines for _, lines in found.notes] == [(f"{name}: “{prompt}”, {doubt}",)] * bool(doubt)


def test_a_long_number_behind_the_name_of_a_model_costs_no_time():
    assert not is_model_name("sd" + "1" * 200 + "!")
    assert facts_of_name("a cook sd" + "1" * 200 + "!.png").model == ""


def test_pictures_that_are_not_compared_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(found_pictures, "_MOST_KEPT", 2)
    path = folder(tmp_path, {f"{COOK}/{n}.png": picture(n) for n in range(3)})
    source = Source(
        import_id="x", path=path, prompts_from="auto", copies="count once", drawn_with="", assumed_prompt=""
    )
    ((_, lines),) = FoundPictures(source).look().notes
    assert lines == ("others may, for only 2 pictures were compared",)


def test_texts_in_utf_16_are_read_and_other_tables_are_named_with_what_to_do(tmp_path):
    files = {
        "1.png": picture(1),
        "1.txt": NURSE.encode("utf-16"),
        "2.png": picture(2),
        "2.txt": NURSE.encode("utf-16-be"),
    }
    found = look(tmp_path, files | {"prompts.xlsx": b"PK\3\4", "list.csv": "x"})
    assert found.counts == {NURSE: 2}
    assert found.notes == (("files are neither pictures nor texts about them", (
        "list.csv: if it has the prompts, name it metadata.csv, .tsv or .jsonl; it needs file_name and prompt",
        "prompts.xlsx: if it has the prompts, save it as metadata.csv with the columns file_name and prompt",
    )),)  # fmt: skip


@pytest.mark.parametrize("seed", ["0,0", "3,00"])
def test_a_seed_with_empty_decimals_is_read(seed, tmp_path):
    found = ImportedImages(
        folder(tmp_path, {"metadata.csv": f"file_name;prompt;seed\n1.png;{COOK};{seed}\n", "1.png": picture(1)})
    )
    (row,) = found.rows(COOK, 1)
    assert (found.get_picture(row.id).drawing.seed, unread(found)) == (
        int(seed[0]), [f"metadata.csv, line 2: seed “{seed}” is read as {seed[0]}"]
    )  # fmt: skip
