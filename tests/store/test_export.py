"""Every export says what it is, to people and programs, reads back with the tools of the field, and runs nothing.

Texts of others stay words in its Markdown.
"""

import errno
import html
import json
import os
import re
import zipfile
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from markdown_it import MarkdownIt
from PIL import Image

from bias_core.errors import StorageError
from bias_core.explore.options import explore_settings
from bias_core.report.export import to_export
from bias_core.report.report_text import finding_rows
from bias_core.run.run import complete, run_study
from bias_core.store.export import (
    DatasetFacts,
    Export,
    ExportedImage,
    column_kinds,
    csv_bytes,
    dataset_card,
    escape_markdown,
    fenced,
    format_code,
    paragraphs,
    write_folder,
    write_zip,
)
from bias_core.store.images import ImageStore
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import GeneratedImage, ImageRow
from tests import shared
from tests.explored import explore, pictures_of
from tests.hostile_markdown import HOSTILE_WORDS, Page, in_plain_blanks


@pytest.fixture
def export(tmp_path):
    rows = [ImageRow(prompt="=HYPERLINK()", seed=seed, model="m") for seed in range(3)]
    images = ImageStore(tmp_path / "images").add(
        [GeneratedImage(row=row, image=Image.new("RGB", (8, 8), (row.seed, 0, 0))) for row in rows]
    )
    return Export(
        images=[ExportedImage(path=i.path, row=i.row, metadata={"number": i.row.seed + 1}) for i in images],
        tables={"scores": pd.DataFrame({"attribute": ["man", "=1+1"], "value": [0.5, float("nan")]})},
        report={"prompt": "médecin"},
        markdown="# médecin\n",
    )


def test_the_zip_is_an_imagefolder_with_scores_and_report(export, tmp_path):
    path = write_zip(export, tmp_path / "run.zip")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        lines = [json.loads(line) for line in archive.read("train/metadata.jsonl").splitlines()]
        assert {f"train/{line['file_name']}" for line in lines} < names
        assert [line["number"] for line in lines] == [1, 2, 3]
        assert archive.read(f"train/{lines[0]['file_name']}") == export.images[0].path.read_bytes()
        assert json.loads(archive.read("report.json")) == {"prompt": "médecin"}
        assert archive.read("report.md").decode() == "# médecin\n"
        with archive.open("scores.parquet") as file:
            pd.testing.assert_frame_equal(pd.read_parquet(file), export.tables["scores"])
        assert archive.testzip() is None
    assert {"scores.csv", "scores.parquet", "report.json", "report.md"} < names


def test_the_folder_has_the_same_files(export, tmp_path):
    write_folder(export, tmp_path / "out")
    with zipfile.ZipFile(write_zip(export, tmp_path / "run.zip")) as archive:
        for name in archive.namelist():
            assert (tmp_path / "out" / name).read_bytes() == archive.read(name)


def test_without_pictures_there_is_no_folder_of_them(export, tmp_path):
    with zipfile.ZipFile(write_zip(replace(export, images=[]), tmp_path / "run.zip")) as archive:
        assert not [name for name in archive.namelist() if name.startswith("train/")]
        assert all(archive.getinfo(name).file_size for name in archive.namelist())


def test_no_cell_or_heading_is_a_formula():
    table = pd.DataFrame({"=a": ["=1+1", "+x", "-x", "@x", "\tx", "fine", "a=b"], "n": [-1.5] * 7})
    lines = csv_bytes(table).decode().splitlines()
    assert lines[0] == "'=a,n"
    assert [line.split(",")[0] for line in lines[1:]] == ["'=1+1", "'+x", "'-x", "'@x", "'\tx", "fine", "a=b"]
    assert all(line.endswith(",-1.5") for line in lines[1:])


def test_a_deleted_picture_is_said_and_no_zip_appears(export, tmp_path):
    export.images[1].path.unlink()
    with pytest.raises(StorageError, match="no longer in the store"):
        write_zip(export, tmp_path / "out" / "run.zip")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_leaves_no_half_zip(export, tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(StorageError, match="the disk is full"):
        write_zip(export, tmp_path / "out" / "run.zip")
    assert list((tmp_path / "out").iterdir()) == []


services = shared.fake_services

DESIGN = find_design("t2iat-tests")
SETTINGS = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
FACTS = DatasetFacts(
    key="x", title="A <b>title</b>: of two\nlines", summary="What was asked.", model="m", annotation="read",
    limits="limits", command="python -m bias_core", n_pictures=2, n_prompts=1,
    notes=("3 pictures of this study are missing: a.",), versions={"numpy": "2"},
)  # fmt: skip
RAI = (
    "dataCollection", "dataCollectionType", "dataAnnotationProtocol", "machineAnnotationTools", "dataBiases",
    "dataLimitations", "dataUseCases", "dataSocialImpact", "personalSensitiveInformation",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(DESIGN, SETTINGS, services))


@pytest.fixture(scope="module")
def exports(services, report):
    """Exports of a study and of an exploration, with some pictures blanked."""
    settings = explore_settings(concept="doctor", n_images=15, n_attribute_images=2, n_clusters=0)
    *_, explored = explore(settings, services)
    return {"study": to_export(report, pictures=True), "explore": to_export(explored.report, pictures=True)}


@pytest.fixture(scope="module")
def folders(exports, tmp_path_factory):
    root = tmp_path_factory.mktemp("exports")
    return {name: write_folder(export, root / name) for name, export in exports.items()}


def numbers(report):
    return [{key: value for key, value in row.items() if key not in ("drawn", "note")} for row in finding_rows(report)]


@pytest.mark.parametrize("kind", ["study", "explore"])
def test_the_card_has_a_head_that_hubs_read_and_says_what_not_to_conclude(folders, kind):
    text = (folders[kind] / "README.md").read_text()
    _, head, body = text.split("---\n", 2)
    values = yaml.safe_load(head)
    assert values["license"] == "apache-2.0"
    assert values["configs"][0]["data_dir"] == "train"
    assert "never what a person is" in body
    assert "python -m bias_core" in body
    assert "`prompt`: text given to the model" in body


def test_a_card_without_pictures_says_so_and_text_cannot_break_out():
    card = dataset_card(replace(FACTS, n_pictures=0), {})
    assert "# A &lt;b>title&lt;/b>: of two lines\n" in card
    assert "without the pictures" in card
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "other"
    assert "- 3 pictures of this study are missing: a." in card


@pytest.fixture(scope="module")
def again(services, report, tmp_path_factory):
    """The study on its own pictures, that were exported and imported."""
    path = write_zip(pictures_of(report), tmp_path_factory.mktemp("again") / "mine.zip")
    return complete(run_study(DESIGN, replace(SETTINGS, images=str(path)), services))


def test_imported_pictures_have_an_unknown_licence_and_origin(again):
    facts = to_export(again, pictures=True).facts
    assert facts.licence == ""
    assert "Only that person knows" in facts.collection


@pytest.mark.parametrize("kind", ["study", "explore"])
def test_the_croissant_file_has_the_fields_of_the_rai_vocabulary(folders, kind):
    values = json.loads((folders[kind] / "croissant.json").read_text())
    for name in RAI:
        assert values[f"rai:{name}"], name
    assert {"name", "description", "license", "creator", "datePublished", "conformsTo"} <= set(values)
    columns = {line for field in values["recordSet"][0]["field"] for line in [field["name"]]}
    lines = (folders[kind] / "train" / "metadata.jsonl").read_text().splitlines()
    assert columns == {name for line in lines for name in json.loads(line)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib.*")
@pytest.mark.parametrize("kind", ["study", "explore"])
def test_mlcroissant_accepts_it_and_reads_the_records(folders, kind):
    mlc = pytest.importorskip("mlcroissant")
    dataset = mlc.Dataset(jsonld=folders[kind] / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    lines = (folders[kind] / "train" / "metadata.jsonl").read_text().splitlines()
    records = list(dataset.records("lines"))
    assert len(records) == len(lines)
    first = json.loads(lines[0])
    assert records[0]["lines/prompt"].decode() == first["prompt"]
    assert records[0]["lines/seed"] == first["seed"]
    image = next(iter(dataset.records("images")))
    assert image["images/image"].size == (first["width"], first["height"])


@pytest.mark.parametrize("kind", ["study", "explore"])
def test_datasets_reads_the_imagefolder(folders, exports, kind, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    data_dir = str(folders[kind])
    found = datasets.load_dataset("imagefolder", data_dir=data_dir, cache_dir=str(tmp_path))
    assert list(found) == ["train"]
    train = found["train"]
    assert len(train) == len(exports[kind].images)
    first = exports[kind].images[0].row
    assert (train[0]["prompt"], train[0]["seed"]) == (first.prompt, first.seed)
    assert train[0]["image"].size == (first.width, first.height)
    # Groups and arms that are called like splits are none.
    images = [replace(one, row=replace(one.row, group="test")) for one in exports[kind].images]
    write_folder(replace(exports[kind], images=images), tmp_path / "words")
    for name, how in {
        "a": {"path": "imagefolder", "data_dir": str(tmp_path / "words")},
        "b": {"path": str(tmp_path / "words")},
    }.items():
        found = datasets.load_dataset(**how | {"cache_dir": str(tmp_path / name)})
        assert {split: len(part) for split, part in found.items()} == {"train": len(images)}


def test_a_reimported_export_gives_the_same_numbers(report, again):
    assert again.settings.model == "imported:mine"
    assert numbers(again) == numbers(report)


def test_the_zip_holds_both_descriptions(exports, tmp_path):
    with zipfile.ZipFile(write_zip(exports["study"], tmp_path / "run.zip")) as archive:
        assert {"README.md", "croissant.json"} < set(archive.namelist())


def test_a_column_is_text_where_its_values_differ_and_a_number_where_some_are_missing():
    lines = [{"a": 1, "b": 1, "c": None, "d": True}, {"a": 2.5, "b": "x", "c": None, "d": None}]
    assert column_kinds(lines) == {"a": "sc:Float", "b": "sc:Text", "c": "sc:Text", "d": "sc:Boolean"}


PLACES = (
    "# {}", "{}", "- {}", "- name: {}", "1. {}", "> **{}**", "| a | b |\n| --- | --- |\n| {} | 0.5 |\n| 1 | {} |",
    "![{}](figures/own.svg)", "[{}](own.csv)", "**{}**", "before {} after", "{} {}",
)  # fmt: skip


def rendered(text):
    """As CommonMark with GitHub's tables and struck words."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)


@pytest.mark.parametrize("place", PLACES)
def test_hostile_words_stay_words_wherever_they_stand(place):
    own, tags = {"figures/own.svg", "own.csv"}, re.findall("<[a-z0-9]+", rendered(place.replace("{}", "x")))
    broken = {}
    for words in HOSTILE_WORDS:
        text = place.format(*[escape_markdown(words)] * place.count("{}"))
        page = rendered(f"{text}\n\n[1] [x] [82, 96]")
        read = Page(page)
        is_shown = "![" in place or in_plain_blanks(words) in in_plain_blanks(read.text)
        if set(read.loaded) - own or not is_shown or re.findall("<(?!code)[a-z0-9]+", page) != [*tags, "<p"]:
            broken[words] = page
    assert broken == {}


def test_numbers_and_names_are_written_as_they_are():
    for plain in (
        "91\xa0% [82, 96]", "−0.29 [−0.39, −0.16]", "[1.50, ∞]", "a photo of a doctor", "calibration-renderer",
        "p < 0.05", "model_revision", "e.g. 0.5", "-0.25", "What’s “this”?", "n = 64; 1.5 (1 to 2)", "AT&T", "C#",
        "50 % & more", "a/b",
    ):  # fmt: skip
        assert escape_markdown(plain) == plain.replace("\xa0", " ").replace("<", "&lt;")


def test_a_block_of_code_ends_where_it_ends():
    hostile = "python x\n```\n![](http://evil.example/x)\n````\n<script>"
    page = rendered(fenced(hostile) + "\n\n" + format_code("a`![](http://evil.example)``b") + " end")
    assert Page(page).loaded == []
    assert html.unescape(page).count("![](http://evil.example") == 2
    assert page.endswith(" end</p>\n")


def test_code_stays_in_its_cell_of_a_table():
    for words in HOSTILE_WORDS:
        page = rendered(f"| a | b |\n| --- | --- |\n| {format_code(words)} | 0.5 |")
        assert page.count("<td>") == 2, words
        assert "<td>0.5</td>" in page, words
        assert Page(page).loaded == [], words


def test_a_dataset_card_shows_what_others_wrote_as_words():
    words = "\n\n".join(HOSTILE_WORDS)
    facts = DatasetFacts(
        key="x", title=words, summary=words, model=words, annotation=words, limits=words, command=words, n_pictures=1,
        n_prompts=1, reference=words, licence_note=words, notes=[words], versions={"encoder": words},
    )  # fmt: skip
    card = dataset_card(facts, {"a`b": words})
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", card, flags=re.DOTALL).groups()
    assert Page(rendered(body)).loaded == []
    assert [line.partition(":")[0] for line in head.splitlines() if re.match(r"\w", line)] == [
        "pretty_name", "license", "license_name", "language", "tags", "size_categories", "configs",
    ]  # fmt: skip
    assert paragraphs("a\nb\n\n \nc") == "a b\n\nc"
