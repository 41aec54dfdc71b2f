"""Names of pictures in files of answers: ids, addresses, and the names that files of own pictures had."""

import unicodedata
from base64 import urlsafe_b64encode
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from bias_core.errors import InvalidInput
from bias_core.study.answer_fit import fit_answers
from bias_core.study.answers import read_answers
from bias_core.study.picture_names import (
    LEFT_OUT,
    NOT_IN_RUN,
    SEVERAL,
    SEVERAL_IN_FILE,
    PictureNames,
    list_files,
    match_picture,
)

IDS = ["0a1b2c3d4e5f", "picture-2", "alone"]
PROXY = urlsafe_b64encode(b"s3://bucket/a b/picture-2.png").decode().rstrip("=")
ADDRESSES = {
    "0a1b2c3d4e5f": ("0a1b2c3d4e5f", "id"),
    "picture-2.png": ("picture-2", "the file name"),
    "run/pictures/picture-2.jpg": ("picture-2", "the file name in an address"),
    "C:\\mine\\picture-2.png": ("picture-2", "the file name in an address"),
    "/data/upload/3/ffee0011-picture-2.png": ("picture-2", "the file name after the prefix of an upload"),
    "/data/local-files/?d=a%20b%2Fpicture-2.png": ("picture-2", "the file name in an address"),
    "https://studio/data/local-files/?d=picture-2.png": ("picture-2", "the file name in an address"),
    "https://host/x/picture-2.png?sig=1": ("picture-2", "the file name in an address"),
    "https://bucket/picture-2.png?d=0a1b2c3d4e5f.png": ("picture-2", "the file name in an address"),
    "s3://bucket/0a1b2c3d4e5f.png": ("0a1b2c3d4e5f", "the file name in an address"),
    f"/tasks/7/resolve/?fileuri={PROXY}": ("picture-2", "the file name in an address"),
    f"https://studio/tasks/7/presign/?fileuri={PROXY}": ("picture-2", "the file name in an address"),
    "/tasks/7/resolve/?fileuri=§": ("", ""),
    "00012-paired-0a1b2c3d4e5f.png": ("0a1b2c3d4e5f", "the id in the file name of an export"),
    "/data/upload/3/ffee0011-00012-a-b-0a1b2c3d4e5f.png": ("0a1b2c3d4e5f", "the id in the file name of an export"),
    "mine-0a1b2c3d4e5f.png": ("", ""),
    "ffee0011-other.png": ("", ""),
    "http://[half": ("", ""),
    "": ("", ""),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_picture_is_found_by_its_id_file_address_export_or_after_the_prefix_of_an_upload(name):
    match = match_picture(name, PictureNames(IDS))
    assert (match.image_id, match.way) == ADDRESSES[name]
    assert bool(match.reason) != bool(match.image_id)


HOLIDAY = {
    "IMG_1234.JPG": ["beach"], "a/1.png": ["a1"], "b/1.png": ["b1"], "deep/a/2.png": ["deep2"], "a/2.png": ["a2"],
    "Ärztin 7 (1).jpeg": ["doctor"], "twice.jpg": ["jpg"], "twice.png": ["png"], "copy.jpg": [],
    "1a2b3c4d-own.png": ["mine"], "50%25 #1.png": ["percent"], "kept/3.png": ["kept"], "dropped/3.png": [],
}  # fmt: skip
"""Files of own pictures, of which two do not count."""
OWN = PictureNames(
    {"beach", "a1", "b1", "deep2", "a2", "doctor", "jpg", "png", "mine", "percent", "kept"},
    list_files({Path("/home/ada/photos"): HOLIDAY}),
)
NAME, PATH = "the name of its file", "the path of its file"
UPLOADED, RESAVED = " after the prefix of an upload", ", saved in another format"
FOUND = {
    "IMG_1234.JPG": ("beach", NAME),
    "img_1234.jpg": ("beach", NAME),
    "IMG_1234": ("beach", NAME),
    "IMG_1234.png": ("beach", NAME + RESAVED),
    "/data/upload/3/0f0f0f0f-IMG_1234.JPG": ("beach", NAME + UPLOADED),
    "/data/upload/3/0f0f0f0f-IMG_1234.webp": ("beach", NAME + RESAVED + UPLOADED),
    "/data/local-files/?d=disk%2Fphotos%2FIMG_1234.JPG": ("beach", PATH),
    "https://host/IMG_1234.JPG?sig=1": ("beach", NAME),
    "photos/IMG_1234.JPG": ("beach", PATH),
    "D:\\ada\\photos\\a\\1.png": ("a1", PATH),
    "a/1.png": ("a1", PATH),
    "s3://bucket/photos/b/1.png": ("b1", PATH),
    "b/1.jpg": ("b1", PATH + RESAVED),
    "a/2.png": ("a2", PATH),  # all of a path, and the end of another
    "x/deep/a/2.png": ("deep2", PATH),
    unicodedata.normalize("NFD", "ÄRZTIN 7 (1).JPEG"): ("doctor", NAME),
    "/data/upload/3/0f0f0f0f-Ärztin_7_1.jpeg": ("doctor", NAME + UPLOADED),  # as an upload writes it
    "twice.jpg": ("jpg", NAME),
    "1a2b3c4d-own.png": ("mine", NAME),
    "50%25 #1.png": ("percent", NAME),
    "kept/3.png": ("kept", PATH),
}
UNFOUND = {
    "1.png": SEVERAL, "c/1.png": SEVERAL, "2.png": SEVERAL, "twice.webp": SEVERAL, "twice": SEVERAL, "3.png": SEVERAL,
    "copy.jpg": LEFT_OUT, "dropped/3.png": LEFT_OUT, "IMG_123.JPG": NOT_IN_RUN, "xIMG_1234.JPG": NOT_IN_RUN,
    "photos": NOT_IN_RUN, "a/": NOT_IN_RUN,
}  # fmt: skip


def test_own_pictures_are_found_by_the_names_of_their_files():
    found = {name: OWN.match_all({name: ()})[name] for name in FOUND | UNFOUND}
    assert {name: (match.image_id, match.way) for name, match in found.items() if not match.reason} == FOUND
    assert {name: match.reason for name, match in found.items() if match.reason} == UNFOUND


ARMS = PictureNames(
    {"old", "new", "only"},
    list_files(
        {Path("/runs/sd15/out"): {"1.png": ["old"], "2.png": ["only"]}, Path("/runs/sdxl/out"): {"1.png": ["new"]}}
    ),
)


def test_a_name_in_the_folder_of_one_arm_never_means_a_picture_of_another():
    names = ["sd15/out/1.png", "/x/sdxl/out/1.png", "2.png", "sdxl/out/2.png", "out/1.png", "1.png"]
    matches = ARMS.match_all(dict.fromkeys(names, ())).values()
    assert [match.image_id or match.reason for match in matches] == [
        "old", "new", "only", NOT_IN_RUN, SEVERAL, SEVERAL,
    ]  # fmt: skip
    zips = list_files({Path("a.zip"): {"1.png": ["one"]}, Path("b.zip"): {"1.png": ["two"]}})
    assert match_picture("b/1.png", PictureNames({"one", "two"}, zips)).image_id == "two"
    overlapping = list_files({Path("a"): {"1.png": ["two", "one"]}})  # one file as a picture of two arms
    assert match_picture("1.png", PictureNames({"one", "two"}, overlapping)).reason == SEVERAL


CASES = PictureNames(
    {"big", "small", "alone", "loud", "low", "Up", "up"},
    list_files(
        {
            Path("set"): {
                "A.png": ["big"], "a.png": ["small"], "b.png": ["alone"], "c.JPG": ["loud"], "c.jpg": ["low"],
                "Day/1.png": ["Up"], "day/1.png": ["up"],
            }
        }
    ),
)  # fmt: skip


def test_of_names_that_differ_only_by_case_the_exact_one_is_meant():
    means = {
        "A.png": "big", "a.png": "small", "set/a.png": "small", "SET/a.png": "small", "C:\\x\\set\\A.png": "big",
        "/data/upload/1/0a0b0c0d-a.png": "small", "0A0B0C0D-A.png": "big", "B.PNG": "alone", "a.PNG": SEVERAL,
        "c.jpg": "low", "c.JPG": "loud", "C.jpg": SEVERAL, "Day/1.png": "Up", "day/1.png": "up", "DAY/1.png": SEVERAL,
        "1.png": SEVERAL,
    }  # fmt: skip
    matches = {name: match_picture(name, CASES) for name in means}
    assert {name: match.image_id or match.reason for name, match in matches.items()} == means
    apart = list_files({Path("set"): {"x/1.PNG": ["one"], "y/1.png": ["two"]}})  # case says nothing of the folder
    assert match_picture("1.PNG", PictureNames({"one", "two"}, apart)).reason == SEVERAL


def test_names_in_folders_that_contradict_each_other_mean_no_picture_of_the_run():
    files = PictureNames({"x"}, list_files({Path("mine"): {"1.png": ["x"]}}))
    cases = {
        ("mine/1.png", "other/1.png"): ["x", SEVERAL_IN_FILE],
        ("one/1.png", "other/1.png"): [SEVERAL_IN_FILE] * 2,
        ("1.png", "one/1.png", "the/one/1.png"): ["x"] * 3,
        ("/data/upload/3/0f0f0f0f-1.png", "/data/upload/4/1f1f1f1f-1.png"): ["x"] * 2,  # two uploads of one picture
    }
    for names, means in cases.items():
        assert [
            match.image_id or match.reason for match in files.match_all(dict.fromkeys(names, ())).values()
        ] == means, names


def test_raters_with_a_folder_each_mean_the_same_pictures_and_others_are_told_what_to_do(tmp_path):
    run = list_files({Path("mine"): {"1.png": ["x"], "2.png": ["y"], "3.png": ["z"]}})
    questions = {image_id: {"beard": ("yes", "no")} for image_id in "xyz"}

    def lines(**folders):
        return [f"{folder}/{i}.png,yes,{rater}" for i in (1, 2, 3) for rater, folder in folders.items()]

    def fitted(*rows):
        path = tmp_path / "answers.csv"
        path.write_text("\n".join(["image,answer,rater", *rows]))
        return fit_answers(read_answers(str(path)), questions, run)

    ways = (
        {"ann": r"C:\Users\ann\pics", "bob": "https://host/bob/p", "cyd": "/home/cyd"},
        {"ann": "copies/one", "bob": "copies/two"},
    )
    for folders in ways:
        answers = fitted(*lines(**folders))
        assert len(answers) == 3 * len(folders)
        assert set(answers.attrs["look"].counts_by_way) == {"the name of its file, in a folder of each person's own"}
    refused = (
        [*lines(ann="a"), "b/1.png,yes,ann", "b/2.png,no,ann", "b/3.png,no,ann"],  # two folders of one person
        [*lines(ann="a", bob="b"), "b/1.png,no,ann"],
        lines(ann="a", bob="a", cyd="b", dan="b"),  # two batches of two people each
        [line.rpartition(",")[0] + "," for line in lines(ann="a", bob="b")],
    )
    for rows in refused:
        with pytest.raises(InvalidInput, match="take their folders off if they are one picture"):
            fitted(*rows)
    mixed = fitted(*lines(ann="set/mine", bob="other"))  # the run's folder says that the other is another one
    assert set(mixed["rater"]) == {"ann"}


def test_the_look_says_by_what_own_pictures_were_found_and_why_others_were_not(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("file_name,answer\nIMG_1234.JPG,Yes\na/1.png,no\nb/1.png,no\n1.png,yes\ncopy.jpg,no\n")
    questions = {image_id: {"beard": ("yes", "no")} for image_id in OWN.image_ids}
    files = list_files({Path("photos"): HOLIDAY})
    fitted = fit_answers(read_answers(str(path)), questions, files)
    assert fitted["image_id"].tolist() == ["beach", "a1", "b1"]
    lines = " ".join(fitted.attrs["look"].lines())
    assert "3 answers match a picture of the run: 1 by the name of its file, 2 by the path of its file." in lines
    assert f"1 of 5 answers in answers.csv do not count: {SEVERAL} (line 5: 1.png)." in lines
    assert f"do not count: {LEFT_OUT} (line 6: copy.jpg)." in lines
    path.write_text("file_name,answer\nIMG_1234.JPG,yes\n1.png,no\n2.png,no\n")
    with pytest.raises(
        InvalidInput, match=rf"only 1 of 3 .* not: {SEVERAL} \(line 3: 1.png; .*such as photos/IMG_1234"
    ):
        fit_answers(read_answers(str(path)), questions, files)


SPELLINGS = (
    str.upper, lambda name: f"s3://bucket/set/{name}", lambda name: f"C:\\set\\{name}".replace("/", "\\"),
    lambda name: f"/data/local-files/?d={quote('set/' + name, safe='')}", lambda name: name.rpartition("/")[2],
    lambda name: f"/data/upload/9/0a0b0c0d-{name.rpartition('/')[2]}", lambda name: name.rpartition(".")[0] + ".webp",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_spelling_of_a_name_means_its_picture_or_none(seed):
    chance, words = Random(seed), ["a", "b", "IMG 1", "ü-2", "x.y"]
    names = {
        "/".join(chance.choices(words, k=chance.randint(1, 3))) + chance.choice([".png", ".JPG", ".jpeg"])
        for _ in range(25)
    }
    files = {name: [f"id {i}"] for i, name in enumerate(sorted(names))}
    own = PictureNames({image_id for (image_id,) in files.values()}, list_files({Path("set"): files}))
    n_found = 0
    for name, (image_id,) in files.items():
        assert match_picture(f"set/{name}", own).image_id == image_id
        for spell in SPELLINGS:
            match = match_picture(spell(name), own)
            assert match.image_id == image_id or match.reason == SEVERAL, spell(name)
            n_found += bool(match.image_id)
    assert n_found > 2 * len(files)
