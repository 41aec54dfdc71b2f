"""Reports that are handed on: a page without a network, a model card, a sentence to quote, and evaluation records."""

import csv
import html
import io
import json
import math
import re
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from every_eval_ever.cli import main as every_eval_ever
from markdown_it import MarkdownIt
from PIL import Image
from typer.testing import CliRunner

from bias_core.app.cli import app, reports
from bias_core.app.cli.reports import FORMS_HELP, save_study_report, show_study_report
from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.report import documents as report_page
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import (
    FORMS,
    build_dataset_facts,
    model_record,
    to_every_eval_ever,
    to_export,
    to_form,
    write_report,
)
from bias_core.report.figures import to_bytes
from bias_core.report.report_text import claim, claims
from bias_core.report.saved import FOLDER, from_text, keep_report
from bias_core.run.run import complete, run_study
from bias_core.store.export import dataset_card, write_zip
from bias_core.store.imports import ImportedImages
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings, named_parts
from bias_core.types import Estimate
from bias_core.ui.study.shown_report import take
from bias_core.ui.templates import render
from tests import shared
from tests.hostile_markdown import HOSTILE_WORDS, Page, in_plain_blanks

pytestmark = pytest.mark.draws

services = shared.fake_services

NOON = 1795348800.0  # 2026-11-22 12:00 UTC
HOSTILE = '<img src="https://evil.example/x" onerror="alert(1)">"></pre><script>alert(2)</script>'


@pytest.fixture(scope="module")
def report(services):
    return explored(services, "doctor")


@pytest.fixture(scope="module")
def in_arms(services):
    return explored(services, "doctor", arms=(Arm(condition="fair"), Arm(condition="extreme")))


def with_one_figure(report):
    """Without its other figures, which take long to draw."""
    return replace(report, results=replace(report.results, figures=report.results.figures[:1]))


@pytest.fixture
def quick(monkeypatch):
    """Pages without their figures, which take most of the time."""
    monkeypatch.setattr(report_page, "figure_svg", lambda *_, **__: "")


def explored(services, concept, **settings):
    attributes = ("man", "glasses|a photo of a person with glasses|a photo of a person without glasses")
    usual = {"model": "calibration-renderer", "n_images": 12, "n_attribute_images": 2, "attributes": attributes}
    asked = explore_settings(concept=concept, **usual | settings)
    return replace(complete(run_study(find_design("explore"), asked, services)), created=NOON)


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
        f"(revision {revision}) on 2026-11-22, 91\xa0% [82, 96] (95% interval) were classified as “man” by {by}."
    )
    assert revision
    # An interval of a third of a point bears out a decimal.
    assert "90.6\xa0% [90.3, 90.9] (95% interval)" in claim(with_share(report, 0.9063, 0.9031, 0.9094, 9000))
    assert to_dict(report)["claims"] == claims(report)
    assert plainly(claims(report)[0]) in to_markdown(report)


def test_nothing_is_claimed_of_what_is_undefined_and_a_warning_goes_along(report):
    nan = float("nan")
    undefined = with_share(report, nan, nan, nan, 0)
    assert "classified as “man”" not in claim(undefined)
    assert claim(replace(report, results=replace(report.results, findings=()))) == ""
    assert claim(replace(report, warning="Do not trust it.")).endswith(" Do not trust it.")
    other = next(sentence for sentence in claims(report) if "classified as" not in sentence)
    assert re.search(r"interval.*; n = \d+", other)
    assert other.endswith(".")


def test_arms_are_quoted_each_with_its_own_model(in_arms):
    sentences = claims(in_arms)
    own = [one for one in sentences if "classified as “man”" in one]
    assert [re.search("calibration-renderer, (fair|extreme)", one)[1] for one in own] == ["fair", "extreme"]
    both = "“man” was seen in .* of the pictures of “fair” and in .* of the pictures of “extreme”"
    assert re.search(both, sentences[0])
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
        claim(report), report.results.figures[0].caption, "never what a person", "python -m bias_core explore doctor",
        "@inproceedings{", report.run_id, report.versions["model_revision"], "Seeds", "2026-11-22",
    ):  # fmt: skip
        assert words in html.unescape(page), words


def test_a_paper_s_report_has_its_checklist_once_and_the_paper_s_bibtex(quick):
    tags = Tags(to_form(dict(shipped_reports())["planted-object"], "html").decode())
    assert sum(attributes.get("id") == "protocol" for _, attributes in tags.elements) == 1
    assert tags.text.count("The paper's protocol, item by item") == 1
    assert "@article{vice2023tbyb," in tags.text


def test_hostile_words_stay_words_in_every_form(services, quick):
    hostile = " ".join((HOSTILE, *HOSTILE_WORDS)).replace("|", "/").replace("\0", "")
    hostile = " ".join(one for one in hostile.split() if one.isprintable())
    report = explored(services, hostile, attributes=(f"{hostile}|a man|a woman",))
    versions = {**report.versions, "model_revision": hostile}
    ill = replace(report, warning=hostile, unknown_words=(hostile,), versions=versions)
    tags = Tags(to_form(ill, "html").decode())
    assert "script" not in [tag for tag, _ in tags.elements]
    assert all(attributes["src"].startswith("data:") for tag, attributes in tags.elements if tag == "img")
    assert HOSTILE in tags.text
    forms = {form: to_form(ill, form).decode() for form in ("md", "card")}
    forms["export"], export = to_markdown(ill), to_export(ill)
    forms["README"] = dataset_card(export.facts, {}).partition("\n---\n")[2]
    own = {f"figures/{figure.key}.svg" for figure in report.results.figures}
    own |= {"findings.csv", *(f"tables/{table.key}.csv" for table in report.results.tables)}
    for form, text in forms.items():
        page = Page(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
        assert set(page.loaded) <= (own if form == "export" else set()), form
        assert in_plain_blanks(hostile) in in_plain_blanks(page.text), form


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
    # small groups leave their places to large ones
    parts = [("a", np.zeros(100)), ("b", np.zeros(4)), ("c", np.zeros(50))]
    assert report_page._quotas(parts) == [30, 4, 30]


@cache
def shipped_reports():
    """The examples and the validity reports, by their names."""
    paths = [path for folder in (FOLDER, ASSETS / "validity") for path in sorted(folder.rglob("*.json"))]
    paths = [path for path in paths if path.name != "index.json"]
    return [(path.stem, from_text(path.read_text(encoding="utf-8"), path.parent).report) for path in paths]


def test_the_shares_of_a_validity_study_are_expected_and_mean_no_bias_in_no_form(quick):
    pairs = dict(shipped_reports())["validity-pairs"]
    texts = [*claims(pairs), to_markdown(pairs), *(json.dumps(record) for record in records(pairs).values())]
    assert not [text for text in texts if "no bias (" in text or "means no bias" in text or "| no bias |" in text]
    assert "0.95 is expected" in claims(pairs)[0]
    assert "| expected |" in to_markdown(pairs)
    doctors = dict(shipped_reports())["doctors"]
    assert "means no bias)" in " ".join(claims(doctors))
    assert "| without bias |" in to_markdown(doctors)


def test_no_shipped_report_says_none_or_nan_or_more_digits_than_it_knows(quick, monkeypatch):
    monkeypatch.setattr(report_page, "light_uri", lambda *_: "data:")  # copies of pictures hold no words
    bad = re.compile(r"\bNone\b|\bnan\b|\bNaN\b|– to –|\binf\b|\d\.\d{7,}")
    broken = []
    for name, report in shipped_reports():
        texts = {form: to_form(report, form).decode() for form in ("html", "md", "card")}
        broken += [f"{name}.{form}: {hit[0]}" for form, text in texts.items() for hit in bad.finditer(text)]
        assert texts["md"].count("\n") < 1000, name  # long tables are CSV files beside it
    assert len(shipped_reports()) >= 15
    assert broken == []


def test_another_ending_is_refused_and_makes_no_folder(report, tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot be written as \.pdf; use a file that ends in \.html, \.csv, \.md"):
        write_report(report, tmp_path / "x.pdf")
    assert list(tmp_path.iterdir()) == []
    for name in ("run-0.5", "plain"):
        assert (write_report(report, tmp_path / name) / "report.json").is_file()


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


def test_figures_of_an_export_are_not_taken_for_pictures_that_a_model_drew(report, tmp_path):
    few = with_one_figure(report)
    source = ImportedImages(write_zip(to_export(few, pictures=True), tmp_path / "all.zip"))
    assert sum(source.counts.values()) == len(report.pictures)
    assert set(source.left_out.values()) <= {"a figure of a report"}
    assert not [sentence for sentence, _ in source.remarks() if "could not be used" in sentence]
    with pytest.raises(InvalidInput, match="has no picture"):
        ImportedImages(write_zip(to_export(few), tmp_path / "numbers.zip"))
    gone = replace(report, design=replace(report.design, kind="gone"))  # a kind of study that is no more
    assert to_export(gone).facts.command == ""  # none that would fail


def test_the_section_for_a_model_card_has_the_numbers_and_no_head_of_a_card(report):
    text = to_form(with_share(report, 0.90631, 0.81781, 0.96214, 64), "card").decode()
    assert text.startswith("## Bias, Risks, and Limitations")
    for words in ("### How this was measured", "### Citation", "91 % [82, 96]"):
        assert words in text


def test_the_page_offers_every_form_and_says_what_each_is_for(report, tmp_path):
    shown = html.unescape(render("take_all", forms=FORMS, figure=report.results.figures[0]))
    assert all(form.purpose in shown for form in FORMS.values())
    chart = re.search(r"figure:[^:]+:png", shown)[0]
    with (
        Image.open(take(report, chart, tmp_path)) as taken,
        Image.open(io.BytesIO(to_bytes(report.results.figures[0], "png"))) as bare,
    ):
        assert taken.height > bare.height + 100  # its title, and the facts of the run
    assert take(report, "report::card", tmp_path).name == f"explore-{report.run_id}-model-card.md"
    with pytest.raises(InvalidInput, match="no download named"):
        take(report, "report::docx", tmp_path)


def test_one_table_has_every_number_of_all_arms(report, in_arms, tmp_path):
    assert "Table (CSV)" in render("take_all", forms=FORMS, figure=None)
    table = pd.read_csv(take(report, "report::csv", tmp_path))
    assert table["finding"].tolist() == [finding.title for finding in report.results.findings]
    assert {"value", "low", "high", "n", "p_adjusted"} <= set(table)
    table = pd.read_csv(io.BytesIO(to_form(in_arms, "csv")), keep_default_na=False)
    expected = [(name, f.title) for name, part in named_parts(in_arms) for f in part.results.findings]
    differences = [("", finding.title) for finding in in_arms.results.findings]
    assert list(zip(table["arm"], table["finding"], strict=True)) == [*differences, *expected]


def test_the_command_line_says_what_to_quote_and_writes_the_form_that_the_name_says(
    report, services, tmp_path, quick, capsys
):
    report = with_one_figure(report)
    show_study_report(report, services, full=True)
    assert plainly(f"To quote: {claim(report)}") in plainly(capsys.readouterr().out)
    for name, form in FORMS.items():
        assert name in FORMS_HELP
        place = tmp_path / "new" / f"run{form.ending}"
        save_study_report(report, place)
        assert place.read_bytes() == form.write(report), form.title


def test_a_report_is_handed_on_later_by_its_run(report, services, tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reports, "open_services", lambda: nullcontext(services))
    keep_report(report, services)

    def command(*words):
        return CliRunner().invoke(app, ["study", "report", *words], env={"COLUMNS": "300"})

    assert command(report.run_id).output == f"Written to explore-{report.run_id}.html\n"
    assert Path(f"explore-{report.run_id}.html").read_bytes() == to_form(report, "html")
    assert command(report.run_id, "--to", "json", "--out", "a/b.json").exit_code == 0
    assert json.loads(Path("a/b.json").read_text())["run_id"] == report.run_id
    for words, message in (
        (("nothing",), "no report of a run 'nothing' is kept here; `runs` lists the runs"),
        ((report.run_id, "--to", "docx"), "choose html, csv, md, card, json, every_eval_ever, publish or zip"),
    ):
        failed = command(*words)
        assert failed.exit_code == 2
        assert message in failed.output


def records(report):
    with zipfile.ZipFile(io.BytesIO(to_form(report, "every_eval_ever"))) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def check(folder, capsys):
    """The program's own messages about all records in a folder; errors and warnings both count."""
    code = every_eval_ever(["validate", str(folder / "data/*/*/*/*.json"), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_shipped_report_passes_the_check_of_every_eval_ever_and_a_broken_one_does_not(in_arms, tmp_path, capsys):
    n = 0
    for _, report in shipped_reports():
        with zipfile.ZipFile(io.BytesIO(to_every_eval_ever(report, build_dataset_facts(report)))) as archive:
            archive.extractall(tmp_path)
            n += len(archive.namelist())
    code, said = check(tmp_path, capsys)
    assert [(one["file"], one["errors"], one["warnings"]) for one in said if one["errors"] or one["warnings"]] == []
    assert (code, len(said)) == (0, n)
    assert n > 15
    name, record = next(iter(records(in_arms).items()))
    record["evaluation_results"][0]["score_details"]["score"] = 7.0  # of a share
    (tmp_path / "broken" / name).parent.mkdir(parents=True)
    (tmp_path / "broken" / name).write_text(json.dumps(record))
    assert check(tmp_path / "broken", capsys)[0] == 1


def test_each_arm_has_its_own_record_with_intervals_n_and_what_is_known_of_the_reader(in_arms):
    of_arms = list(records(in_arms).values())
    ids = [one["model_info"]["id"] for one in of_arms]
    assert ids == [f"t2i-bias-explorer/calibration-renderer-{arm}" for arm in ("fair", "extreme")]
    for arm, record in zip(in_arms.arms, of_arms, strict=True):
        known = [one for one in arm.results.findings if math.isfinite(one.estimate.value)]
        assert [one["evaluation_name"] for one in record["evaluation_results"]] == [one.title for one in known]
        first, estimate = record["evaluation_results"][0], known[0].estimate
        assert first["score_details"]["score"] == estimate.value
        assert first["score_details"]["uncertainty"] == {
            "num_samples": estimate.n,
            "confidence_interval": {
                "lower": estimate.low, "upper": estimate.high, "confidence_level": 0.95, "method": estimate.method,
            },
        }  # fmt: skip
        assert record["evaluation_timestamp"] == str(int(NOON))
        assert first["metric_config"]["metric_parameters"] == {"null_value": estimate.null_value}
        said = [one["score_details"]["details"]["reader_errors"] for one in record["evaluation_results"]]
        assert any("error rates here are unknown" in text for text in said)  # of the association
        assert record["source_metadata"]["additional_details"]["limits"].startswith("Attributes are perceived")
    assert len({name.rpartition("/")[2] for name in records(in_arms)}) == 2


def test_known_errors_of_a_reader_and_people_s_answers_are_said_and_not_confused():
    doctors = dict(shipped_reports())["doctors"]
    ((_, record),) = records(doctors).items()
    said = {one["evaluation_result_id"]: one["score_details"]["details"] for one in record["evaluation_results"]}
    assert "a separate number" in said["all pictures-man-p"]["reader_errors"]
    assert "measured error rates" in said["all pictures-man-corrected"]["reader_errors"]
    labelled = replace(doctors, settings=replace(doctors.settings, labels="labels.csv"))
    ((_, record),) = records(labelled).items()
    assert record["evaluation_results"][0]["score_details"]["details"]["reader_errors"].startswith("People's answers")


def test_an_endless_interval_and_a_number_without_one_are_said_as_they_are(in_arms):
    arm = in_arms.arms[0]
    first, second, *_ = arm.results.findings
    endless = Estimate(value=2.0, low=1.5, high=math.inf, n=30)
    bare = Estimate(value=0.25, low=math.nan, high=math.nan, n=0, note="why")
    undefined = Estimate.undefined(0, "nothing")
    findings = tuple(
        replace(one, key=f"k{i}", metric=metric, estimate=estimate)
        for i, (one, metric, estimate) in enumerate(
            [(first, "object_odds", endless), (second, "attribute_prevalence", bare), (first, "gini", undefined)]
        )
    )
    alone = replace(in_arms, arms=(replace(arm, results=replace(arm.results, findings=findings)),))
    ((_, record),) = records(alone).items()
    odds, share = record["evaluation_results"]  # the third is undefined
    assert odds["score_details"]["uncertainty"] == {"num_samples": 30}
    assert odds["score_details"]["details"]["interval"] == "[1.50, ∞]"
    assert "uncertainty" not in share["score_details"]
    assert share["score_details"]["details"]["interval"] == "no interval"
    nothing = replace(alone, arms=(replace(arm, results=replace(arm.results, findings=findings[2:])),))
    with pytest.raises(InvalidInput, match="no known number"):
        to_form(nothing, "every_eval_ever")


def test_models_have_the_names_by_which_others_know_them_and_no_path_of_this_machine(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model_index.json").write_text("{}")
    expected = {
        "calibration-renderer": "t2i-bias-explorer/calibration-renderer-fair self_deployed open_weights",
        "stable-diffusion-v1-4": "CompVis/stable-diffusion-v1-4 self_deployed open_weights",
        "org/model@v1.0": "org/model self_deployed open_weights",
        "org/model+other/lora:0.8": "org/model+other_lora_0.8 self_deployed open_weights",
        "inference:fal-ai:org/model": "org/model externally_managed unknown",
        "openai:gpt-image-1": "openai-compatible/gpt-image-1 externally_managed unknown",
        str(tmp_path / "mine"): "local/mine self_deployed unknown",
        "imported:my pictures": "imported/my_pictures unknown unknown",
    }
    found = {}
    for name in expected:
        record = model_record(StudySettings(model=name, condition="fair" if name.startswith("calib") else ""))
        details = record["additional_details"]
        found[name] = f"{record['id']} {details['deployment_type']} {details['model_availability']}"
        assert str(tmp_path) not in json.dumps(record)
    assert found == expected
