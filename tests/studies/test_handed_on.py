"""Reports that are handed on: one page without a network, a section for a model card, a sentence to quote."""

import csv
import html
import io
import json
import re
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bias_core.cli import app, reports
from bias_core.cli.reports import save_study_report, show_study_report
from bias_core.errors import InvalidInput
from bias_core.exchange.imports import ImportedImages
from bias_core.settings import ASSETS
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm
from bias_core.studies.reports import report_page
from bias_core.studies.reports.claims import claim, claims
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.reports.saved import FOLDER, from_text, keep_report, list_examples, open_example
from bias_core.studies.running.export import to_export
from bias_core.studies.running.hand_on import FORMS, to_form, write_report
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Estimate
from bias_core.ui.study.downloads import take
from bias_core.ui.templates import render
from tests import shared

services = shared.fake_services

NOON = 1795348800.0  # 2026-11-22 12:00 UTC
HOSTILE = '<img src="https://evil.example/x" onerror="alert(1)">"></pre><script>alert(2)</script>'


@pytest.fixture(scope="module")
def report(services):
    return explored(services, "doctor")


def with_one_figure(report):
    """Without its other figures, which take long to draw."""
    arms = tuple(replace(arm, results=replace(arm.results, figures=())) for arm in report.arms)
    return replace(report, results=replace(report.results, figures=report.results.figures[:1]), arms=arms)


@pytest.fixture
def quick(monkeypatch):
    """Pages without their figures, which take most of the time."""
    monkeypatch.setattr(report_page, "figure_svg", lambda *_: "")


def explored(services, concept, **settings):
    attributes = ("man", "glasses|a photo of a person with glasses|a photo of a person without glasses")
    settings = {
        "model": "calibration-renderer",
        "n_images": 12,
        "n_attribute_images": 2,
        "attributes": attributes,
        **settings,
    }
    report = complete(run_study(find_design("explore"), explore_settings(concept=concept, **settings), services))
    return replace(report, created=NOON)


class Tags(HTMLParser):
    """Every element of a page with its attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def plainly(text):
    """With plain blanks, one between words."""
    return " ".join(text.split())


def with_share(report, value, low, high, n):
    first, *others = report.results.findings
    estimate = Estimate(value=value, low=low, high=high, n=n)
    findings = (replace(first, estimate=estimate), *others)
    return replace(report, results=replace(report.results, findings=findings))


def test_a_share_is_quoted_with_its_n_interval_model_revision_day_and_reader(report):
    revision = next(iter(report.stored.values())).row.revision
    (reader,) = [one for one in report.read_by if one.role == "encoder"]
    by = f"{reader.id} ({reader.revision})" if reader.revision else reader.id
    sentence = claim(with_share(report, 0.9063, 0.8178, 0.9621, 64))
    assert sentence == (
        "In 64 pictures of “a photo of a doctor” drawn by calibration-renderer, published "
        f"(revision {revision}) on 2026-11-22, 91\xa0% [82, 96] (95% interval) were read as “man” by {by}."
    )
    assert revision
    # An interval of a third of a point bears out a decimal.
    assert "90.6\xa0% [90.3, 90.9] (95% interval)" in claim(with_share(report, 0.9063, 0.9031, 0.9094, 9000))
    assert to_dict(report)["claims"] == claims(report)
    assert plainly(claims(report)[0]) in to_markdown(report)


def test_nothing_is_claimed_of_what_is_undefined_and_a_warning_goes_along(report):
    nan = float("nan")
    undefined = with_share(report, nan, nan, nan, 0)
    assert "read as “man”" not in claim(undefined)
    assert claim(replace(report, results=replace(report.results, findings=()))) == ""
    assert claim(replace(report, warning="Do not trust it.")).endswith(" Do not trust it.")
    other = next(sentence for sentence in claims(report) if "read as" not in sentence)
    assert re.search(r"interval.*; n = \d+", other)
    assert other.endswith(".")


def test_arms_are_quoted_each_with_its_own_model(services):
    arms = (Arm(condition="fair"), Arm(condition="extreme"))
    sentences = claims(explored(services, "nurse", arms=arms, attribute_a="", attribute_b=""))
    own = [one for one in sentences if "read as “man”" in one]
    assert [re.search("calibration-renderer, (fair|extreme)", one)[1] for one in own] == ["fair", "extreme"]
    assert "no difference reads 0" in sentences[0]
    assert "in 2 arms (fair, extreme)" in sentences[0]


def test_the_page_has_everything_and_asks_no_network(report):
    page = to_form(report, "html").decode()
    tags = Tags(page)
    names = [tag for tag, _ in tags.elements]
    assert not {"script", "iframe", "link", "object", "form"} & set(names)
    for tag, attributes in tags.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert all(attributes[name].startswith(("#", "data:")) for name in ("src", "href", "xlink:href")
                   if name in attributes), (tag, attributes)  # fmt: skip
    assert "url(http" not in page
    numbers = [int(attributes["alt"].split()[1].rstrip(":")) for tag, attributes in tags.elements if tag == "img"]
    assert set(range(1, 13)) <= set(numbers)
    assert names.count("figure") == len(report.results.figures) > 0
    ids = {attributes.get("id") for _, attributes in tags.elements}
    assert {"pictures", "numbers", "figures", "how", "limits", "sources"} <= ids
    for words in (
        claim(report), report.results.figures[0].caption, "never what anybody is", "python -m bias_core explore doctor",
        "@inproceedings{", report.run_id, report.versions["model_revision"], "Seeds", "2026-11-22",
    ):  # fmt: skip
        assert words in html.unescape(page), words


def test_a_paper_s_report_has_its_checklist_once_and_the_paper_s_bibtex(quick):
    (example,) = [one for one in list_examples() if one.name == "planted-object"]
    tags = Tags(to_form(open_example(example).report, "html").decode())
    assert sum(attributes.get("id") == "protocol" for _, attributes in tags.elements) == 1
    assert tags.text.count("Every item of the paper's protocol") == 1
    assert "@article{vice2023tbyb," in tags.text


def test_hostile_words_stay_words_in_every_form(services, quick):
    report = explored(services, HOSTILE, attributes=(f"{HOSTILE}|a man|a woman",))
    tags = Tags(to_form(report, "html").decode())
    assert "script" not in [tag for tag, _ in tags.elements]
    assert all(attributes["src"].startswith("data:") for tag, attributes in tags.elements if tag == "img")
    assert HOSTILE in tags.text
    for form in ("md", "card"):
        text = to_form(report, form).decode()
        fenced = re.sub(r"```.*?```", "", text, flags=re.S)
        assert "<script" not in fenced
        assert "<img" not in fenced


def test_sixty_four_large_pictures_stay_below_five_megabytes(report, tmp_path, quick):
    rng = np.random.default_rng(0)
    noise = tmp_path / "noise.png"  # nothing takes more room
    Image.fromarray(rng.integers(0, 255, (512, 512, 3), dtype=np.uint8)).save(noise)
    image_id, image = next(iter(report.stored.items()))
    ids = [f"{i}" for i in range(200)]
    frame = report.pictures[report.pictures["image_id"] == image_id]
    frame = frame.loc[frame.index.repeat(200)].assign(image_id=ids, number=range(1, 201)).reset_index(drop=True)
    many = replace(report, pictures=frame, stored=dict.fromkeys(ids, replace(image, path=noise)))
    page = to_form(many, "html")
    assert page.count(b"<img ") == 64
    assert b"The first 64 of 200 pictures" in page
    assert len(page) < 5_000_000


def test_small_groups_leave_their_places_to_large_ones():
    parts = [("a", np.zeros(100)), ("b", np.zeros(4)), ("c", np.zeros(50))]
    assert report_page._quotas(parts) == [30, 4, 30]


def shipped_reports():
    """The examples and the validity reports."""
    for folder in (FOLDER, ASSETS / "validity"):
        for path in sorted(folder.rglob("*.json")):
            if path.name != "index.json":
                yield path.stem, from_text(path.read_text(encoding="utf-8"), path.parent).report


def test_no_shipped_report_says_none_or_nan_or_more_digits_than_it_knows(quick):
    bad = re.compile(r"\bNone\b|\bnan\b|\bNaN\b|– to –|\binf\b|\d\.\d{7,}")
    broken, n = [], 0
    for name, report in shipped_reports():
        texts = {form: to_form(report, form).decode() for form in ("html", "md", "card")}
        texts["html"] = re.sub(r'data:image[^"]*', "", texts["html"])
        broken += [f"{name}.{form}: {hit[0]}" for form, text in texts.items() for hit in bad.finditer(text)]
        assert texts["md"].count("\n") < 1000, name  # long tables are CSV files beside it
        n += 1
    assert n >= 15
    assert broken == []


def test_the_zip_holds_page_card_and_every_figure_as_svg_and_png_with_its_caption(report, tmp_path):
    figure = replace(report.results.figures[0], caption="A caption of its own.")
    report = replace(report, results=replace(report.results, figures=(figure,)))
    with zipfile.ZipFile(write_report(report, tmp_path / "all.zip")) as archive:
        names = archive.namelist()
        assert {"report.html", "report.md", "report.json", "model-card.md", "findings.csv"} <= set(names)
        base = f"figures/{figure.key}"
        assert archive.read(f"{base}.txt").decode() == f"{figure.title}. A caption of its own.\n"
        with Image.open(io.BytesIO(archive.read(f"{base}.png"))) as image:
            assert image.text["Title"] == figure.title
            assert image.text["Description"] == "A caption of its own."
        svg = ElementTree.fromstring(archive.read(f"{base}.svg"))
        assert "A caption of its own." in [element.text for element in svg.iter()]
        text = archive.read("report.md").decode()
        for link in re.findall(r"\]\(([^)]+)\)", text):
            assert link in names, link
        rows = list(csv.DictReader(io.StringIO(archive.read("findings.csv").decode())))
        assert len(rows) == len(report.results.findings)


def test_figures_of_an_export_are_not_taken_for_pictures_that_a_model_drew(report, tmp_path, quick):
    few = with_one_figure(report)
    source = ImportedImages(write_report(few, tmp_path / "all.zip", pictures=True))
    assert sum(source.counts.values()) == len(report.pictures)
    assert not source.rejected
    with pytest.raises(InvalidInput, match="holds no picture"):
        ImportedImages(write_report(few, tmp_path / "numbers.zip"))


def test_the_section_for_a_model_card_has_the_numbers_and_no_head_of_a_card(report):
    text = to_form(with_share(report, 0.90631, 0.81781, 0.96214, 64), "card").decode()
    assert text.startswith("## Bias, Risks, and Limitations")
    for words in ("### How this was measured", "### Citation", "91 % [82, 96]"):
        assert words in text


def test_the_page_offers_every_form_and_says_what_each_is_for(report, tmp_path):
    shown = html.unescape(render("take_all", forms=FORMS))
    assert all(form.purpose in shown for form in FORMS.values())
    assert take(report, "report::card", tmp_path).name == f"explore-{report.run_id}-model-card.md"
    assert take(report, "report::md", tmp_path).read_text().startswith("# a photo of a doctor")
    with pytest.raises(InvalidInput, match="nothing to take"):
        take(report, "report::docx", tmp_path)
    with pytest.raises(InvalidInput, match="it can be html, md, card, json, every_eval_ever or zip"):
        to_form(report, "docx")


def test_the_command_line_says_what_to_quote_and_writes_the_form_that_the_name_says(
    report, services, tmp_path, quick, capsys
):
    report = with_one_figure(report)
    show_study_report(report, services)
    assert plainly(f"To be quoted: {claim(report)}") in plainly(capsys.readouterr().out)
    beginnings = {"a.html": b"<!DOCTYPE html>", "b/c.md": b"# a photo", "d.json": b"{", "e.zip": b"PK"}
    for name, beginning in beginnings.items():
        save_study_report(report, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(beginning)


def test_a_report_is_handed_on_later_by_its_run(report, services, tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reports, "open_services", lambda: nullcontext(services))
    report = with_one_figure(report)
    keep_report(report, services)

    def command(*words):
        return CliRunner().invoke(app, ["study", "report", *words], env={"COLUMNS": "300"})

    assert command(report.run_id).output == f"Written to explore-{report.run_id}.html\n"
    assert Path(f"explore-{report.run_id}.html").read_bytes() == to_form(report, "html")
    assert command(report.run_id, "--to", "json", "--out", "a/b.json").exit_code == 0
    assert json.loads(Path("a/b.json").read_text())["run_id"] == report.run_id
    assert command(report.run_id, "--to", "zip").exit_code == 0
    assert zipfile.is_zipfile(f"explore-{report.run_id}.zip")
    for words, message in (
        (("nothing",), "no report of a run 'nothing' is kept here; `runs` lists the runs"),
        ((report.run_id, "--to", "docx"), "it can be html, md, card, json, every_eval_ever or zip"),
    ):
        failed = command(*words)
        assert failed.exit_code == 2
        assert message in failed.output


def test_a_kind_of_study_that_this_version_does_not_have_names_no_command_that_would_fail(report):
    gone = replace(report, design=replace(report.design, kind="gone"))
    assert to_export(gone).facts.command == ""
