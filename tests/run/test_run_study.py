"""A study draws once, resumes, stops when told, and gives the same report from every door."""

import json
import re
import shlex
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from bias_core.app.cli import app
from bias_core.app.cli.reports import show_study_report
from bias_core.errors import Cancelled, InvalidInput, StorageError, UnknownModel
from bias_core.report.commands import to_command, to_python
from bias_core.report.documents import to_markdown
from bias_core.report.export import to_export
from bias_core.report.report_text import markdown_table, plain
from bias_core.run.image_rows import RowMaker, scaled, thinned
from bias_core.run.plan import plan_study, settle
from bias_core.run.run import followed, run_study
from bias_core.run.study_run import Run
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.export import write_folder, write_zip
from bias_core.study.design import design_files, find_design, format_summary, get_study, list_designs
from bias_core.study.types import Arm, Finding, Results, StudySettings, StudyTable, settings_from_dict
from bias_core.types import Estimate
from bias_core.ui.study.result_page import findings_html, tables_html
from bias_core.ui.study.shown_report import take
from bias_core.values import declared_settings, setting, settings_class
from tests import shared
from tests.every import every
from tests.shared import command_line
from tests.study.oasis_runs import without_seconds

services = shared.real_services

DESIGN = find_design("t2iat-tests")
SMALL = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})


def finish(run):
    """The result of a run, and the messages on the way."""
    returned = []
    messages = [step.message for step in followed(run, returned)]
    return returned[0], messages


@pytest.fixture(scope="module")
def report(services):
    return finish(run_study(DESIGN, SMALL, services))[0]


def test_the_same_run_gives_the_same_report_and_draws_nothing_again(services, report):
    before = services.images.n_bytes
    again, messages = finish(run_study(DESIGN, SMALL, services))
    assert without_seconds(again) == without_seconds(report)
    assert services.images.n_bytes == before
    assert messages[0].startswith(f"{report.n_images} of {report.n_images}")
    manifest = services.manifests.get(report.run_id)
    assert (manifest.status, manifest.study) == ("finished", "t2iat-tests")
    assert len(manifest.rows) == report.n_planned == report.n_images
    assert f"{report.n_images:,} of {report.n_planned:,} pictures" in to_markdown(report)


def test_stopping_keeps_what_is_finished_and_the_next_run_goes_on(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True))
    asked = iter([False] * 60 + [True] * 1000)
    settings = replace(SMALL, scale=0.2)
    with pytest.raises(Cancelled):
        finish(run_study(DESIGN, settings, services, cancelled=lambda: next(asked)))
    (manifest,) = services.manifests.list()
    assert manifest.status == "cancelled"
    kept = services.images.n_present(manifest.image_ids)
    assert 0 < kept < len(manifest.image_ids)
    _, messages = finish(run_study(DESIGN, settings, services))
    assert messages[0].startswith(f"{kept} of")
    assert services.manifests.get(manifest.id).status == "finished"
    services.close()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"scale": 0.0}, InvalidInput, "“Share of the full size” must be above 0"),
        ({"scale": 1.5}, InvalidInput, "1.5"),
        ({"options": {"colour": 1}}, InvalidInput, "colour"),
        ({"options": {"n_permutations": "many"}}, InvalidInput, "many"),
        ({"options": {"tests": ["flowers_arts"]}}, InvalidInput, "flowers_arts"),
        ({"model": "no-such-model"}, UnknownModel, "no-such-model"),
        ({"encoder": "no such encoder"}, UnknownModel, "no such encoder"),
        ({"condition": "unfair"}, UnknownModel, "unfair"),
        ({"num_inference_steps": 0}, InvalidInput, "0"),
        *(({"options": wrong}, InvalidInput, "options must be names with") for wrong in (None, 5, "tests", ["tests"])),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_drawn(services, changes, error, words):
    before = services.images.n_bytes
    with pytest.raises(error, match=words):
        finish(run_study(DESIGN, replace(SMALL, **changes), services))
    assert services.images.n_bytes == before


def test_options_take_the_type_that_their_study_declares():
    stop = find_design("oasis-stop")
    told = {"contrast": "yes", "nationalities": "Iranian, Indian", "n_tokens": "7", "prefix": 5, "top_k": 2.0}
    options = settle(stop, StudySettings(options=told)).settings.options
    assert (options.contrast, options.nationalities) == (True, ("Iranian", "Indian"))
    assert (options.n_tokens, options.prefix, options.top_k) == (7, "5", 2)
    assert options.n_candidates == stop.options["n_candidates"]
    assert settle(stop, StudySettings(options=options)).settings.options == options
    assert settle(find_design("internal-bias"), StudySettings()).settings.options.minimum_text_text == 0.002


@every([
    ("n_tokens", "2.5"), ("n_tokens", True), ("n_tokens", None), ("n_tokens", 10**30), ("n_tokens", "9" * 5000),
    ("contrast", "maybe"), ("contrast", 2), ("nationalities", 5), ("prefix", "a\x00"), ("top_k", float("nan")),
])  # fmt: skip
def test_options_of_another_type_are_refused_by_label(name, value):
    stop = find_design("oasis-stop")
    with pytest.raises(InvalidInput, match=f"“{declared_settings(get_study(stop).options)[name].label}”"):
        settle(stop, StudySettings(options={name: value}))


def test_every_shipped_design_has_its_program_and_something_to_draw(services):
    folder = Path(__file__).parents[2] / "bias_core"
    assert {path.stem for path in folder.rglob("designs/*.yaml")} == {design.name for design in list_designs()}
    for design in list_designs():
        settings = settle(design, StudySettings(scale=0.02)).settings
        if design.name == "tbyb-dataset":  # draws nothing: it reads a folder
            continue
        shots = get_study(design).shots(settings)
        assert shots, design.name
        assert min(shot.n for shot in shots) >= 1
        assert format_summary(design, settings).endswith((".", "?")), design.name
    rows = RowMaker.build(replace(SMALL, seed=100), services)
    (shot,) = get_study(DESIGN).shots(settle(DESIGN, SMALL).settings)[:1]
    assert [row.seed for row in rows.make_rows(shot)] == [100 + k for k in range(shot.n)]


HEAD = "title: t\nkind: association_tests\nreference: r\nwhere: w\nsummary: s\ndata: t2iat.yaml\n"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (HEAD + "options: {n_permutations: 0}\n", InvalidInput, "at least 1; got 0"),
        (HEAD + "options: {crossing: both}\n", InvalidInput, "one of turns, full"),
        (HEAD + "colour: red\n", StorageError, "colour"),
        (HEAD.replace("association_tests", "astrology"), InvalidInput, "astrology"),
    ],
)
def test_a_design_of_ones_own_is_read_from_its_file_and_checked(tmp_path, text, error, words):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "options: {tests: [], crossing: full, n_permutations: 10, effect_size_sd: union}\n")
    assert find_design(str(path)).options["crossing"] == "full"
    path.write_text(text)
    with pytest.raises(error, match=words):
        get_study(find_design(str(path)))
    with pytest.raises(InvalidInput, match="t2iat-tests"):
        find_design("../t2iat-tests")


def test_scaling_never_goes_below_what_a_measure_needs():
    assert [scaled(n, 0.1) for n in (1, 2, 10, 100)] == [1, 2, 2, 10]
    assert thinned(range(10), 1.0, minimum=3, seed=0) == list(range(10))
    assert len(thinned(range(10), 0.01, minimum=3, seed=0)) == 3
    assert thinned(range(50), 0.2, minimum=3, seed=1) != thinned(range(50), 0.2, minimum=3, seed=2)


def test_the_report_is_json_markdown_and_files(report, tmp_path):
    write_folder(to_export(report), tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["findings"][0]["published"] == 0.019  # Table 1, science and arts
    assert saved["findings"][0]["n"] > 0
    markdown = (tmp_path / "report.md").read_text()
    assert "Science" in markdown
    for name in ("tables/table1.csv", "tables/table1.parquet", "findings.csv", "figures/scores.svg"):
        assert (tmp_path / name).stat().st_size > 0
        if name.endswith("svg"):
            assert f"]({name})" in markdown
    assert len(pd.read_parquet(tmp_path / "findings.parquet")) == 1


def test_wrong_options_on_the_command_line_are_one_red_line():
    run = CliRunner().invoke(app, ["study", "run", "t2iat-tests", "--option", "crossing"])
    assert (run.exit_code, "name=value" in run.output) == (2, True)


def test_text_cannot_break_out_of_a_table_and_plain_values_have_no_nan():
    table = markdown_table(pd.DataFrame({"a|b": ["<b>x</b>|\ny"]}))
    assert table.splitlines() == ["| a\\|b |", "| --- |", "| &lt;b>x&lt;/b>\\| y |"]
    assert plain({"a": float("nan"), "b": [1.5, float("inf")], 3: (None, "x")}) == {
        "a": None, "b": [1.5, None], "3": [None, "x"],
    }  # fmt: skip


def long_report(report, n_rows):
    people = pd.DataFrame({"person": [f"person {i}" for i in range(n_rows)]})
    table = StudyTable(key="people", title="Everybody", frame=people)
    results = replace(report.results, tables=(table, *report.results.tables), figures=())  # they take long to draw
    return replace(report, results=results)


@pytest.mark.parametrize("n_rows", [40, 41, 1601])
def test_a_long_table_is_a_file_beside_the_report_which_shows_its_ends(report, tmp_path, n_rows):
    long = long_report(report, n_rows)
    write_zip(to_export(long), tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        text = archive.read("report.md").decode()
        assert len(pd.read_csv(archive.open("tables/people.csv"))) == n_rows
        for link in re.findall(r"\]\(([^)]*)\)", text):
            assert link in archive.namelist()
    shown = [int(i) for i in re.findall(r"\| person (\d+) \|", text)]
    assert ("(tables/people.csv)" in text) == (n_rows > 40)
    assert shown == ([*range(10), *range(n_rows - 10, n_rows)] if n_rows > 40 else [*range(n_rows)])
    assert len(shown) == n_rows or f"of {n_rows:,} rows" in text


def test_a_report_alone_links_no_file_and_has_its_figures_before_its_tables(report, tmp_path):
    text = take(long_report(report, 53), "report::md", tmp_path).read_text()
    assert "](" not in text
    assert "of 53 rows; all are in the CSV of this table" in text
    text = to_markdown(report)
    last_figure = max(text.index(f"(figures/{figure.key}.svg)") for figure in report.results.figures)
    assert last_figure < min(text.index(f"## {table.title}") for table in report.results.tables)


def test_what_is_absent_is_said_in_words_in_report_page_and_on_the_command_line(report, capsys):
    nothing = Estimate(value=np.nan, low=np.nan, high=np.nan, n=0, note="nobody is usable")
    alone = Estimate(value=-51.664, low=np.nan, high=np.nan, n=3, note="one picture has no interval")
    findings = tuple(
        Finding(key=key, title=key, metric="stereotype_test_score", estimate=estimate)
        for key, estimate in (("nothing", nothing), ("alone", alone))
    )
    frame = pd.DataFrame(
        {"who": ["a", None], "STS": [0.5, np.nan], "low": [np.nan] * 2, "high": [np.nan] * 2, "F": [np.nan, 1]}
    )
    results = Results(findings=findings, tables=(StudyTable(key="t", title="T", frame=frame),))
    lacking = replace(report, results=results)
    show_study_report(lacking, full=True)
    written = [to_markdown(lacking), findings_html(lacking) + tables_html(lacking.results.tables)]
    for text in [*written, capsys.readouterr().out]:
        assert not re.search(r"\bnan\b|\bNone\b|– to –|51\.66", text)
        for words in ("undefined", "no interval", "not known"):
            assert words in " ".join(text.split())
        assert re.search("[-−]52", text)


@settings_class(frozen=True, kw_only=True)
class Kinds:
    """One setting of every kind."""

    whole: int = setting(3, "Whole", "A number", ge=1, le=9)
    number: float | None = setting(None, "Number", "Another", gt=0, lt=1)
    truth: bool = setting(False, "Truth", "Or not")
    text: str = setting("a", "Text", "Words")
    words: tuple[str, ...] = setting((), "Words", "More")
    choice: Literal["one", "two"] = setting("one", "Choice", "One of two")


@every([
    ("whole", "5", 5), ("whole", 5.0, 5), ("number", "0.5", 0.5), ("number", "", None), ("number", None, None),
    ("truth", "yes", True), ("truth", False, False), ("text", None, ""), ("text", " b ", "b"),
    ("words", "a, b", ("a", "b")), ("words", ["a"], ("a",)), ("words", "", ()),
    ("words", r"tall\, old, b", ("tall, old", "b")), ("choice", "two", "two"),
])  # fmt: skip
def test_what_forms_and_addresses_hold_is_read_and_shown_again(name, given, value):
    one = declared_settings(Kinds)[name]
    assert one.read(given) == value
    assert getattr(Kinds(**{name: value}), name) == value
    assert one.read(one.format_value(value)) == value
    assert one.read(one.write(value)) == value


@every([
    ("whole", True, "“Whole” must be a whole number; got True"),
    ("whole", "3", "“Whole” must be a whole number; got '3'"),
    ("whole", 0, "“Whole” must be at least 1; got 0"),
    ("number", 1, "“Number” must be below 1; got 1"),
    ("number", 0.0, "“Number” must be above 0; got 0.0"),
    ("number", float("nan"), "“Number” must be a number, or left out; got nan"),
    ("truth", 1, "“Truth” must be true or false; got 1"),
    ("text", None, "“Text” must be a text; got None"),
    ("text", "\ud800", r"“Text” holds U\+D800"),
    ("text", "a\x00", r"“Text” holds U\+0000"),
    ("words", ("a", 1), "“Words” must be a list of texts"),
    ("choice", "three", "“Choice” must be one of one, two; got 'three'"),
    ("colour", "red", "there is no setting 'colour'; there are whole, number"),
])  # fmt: skip
def test_what_is_none_is_refused_in_a_sentence_by_name(name, value, words):
    with pytest.raises(InvalidInput, match=words):
        Kinds(**{name: value})
    with pytest.raises(InvalidInput, match=words):
        replace(Kinds(), **{name: value})


def test_a_file_of_settings_says_what_is_not_given_beside_it(tmp_path, assets):
    path = tmp_path / "mine.yaml"
    values = {"study": "t2iat-tests", "scale": 0.02, "condition": "fair", "seed": 3,
              "options": {"tests": ["science_arts"], "n_permutations": 50}}  # fmt: skip
    path.write_text(yaml.safe_dump(values))
    asked = ("--settings", str(path), "--seed", "4", "--option", "n_permutations=60", "--keep")
    result = command_line(tmp_path / "data", assets)("study", "run", *asked)
    assert result.exit_code == 0, result.output
    (run,) = (json.loads(p.read_text()) for p in (tmp_path / "data" / "runs").glob("*.json"))
    chosen = run["settings"]
    assert (chosen["scale"], chosen["condition"], chosen["seed"], run["kept"]) == (0.02, "fair", 4, True)
    assert (chosen["options"]["tests"], chosen["options"]["n_permutations"]) == (["science_arts"], 60)


def test_a_file_that_cannot_be_used_is_refused_in_a_line(tmp_path, assets):
    path, command = tmp_path / "mine.yaml", command_line(tmp_path / "data", assets)
    for text, words in (
        ("colour: red", "no setting 'colour'"),
        ("seed: '3'", "“Seed” must be a whole number"),
        ("scale: 0", "“Share of the full size” must be above 0"),
        ("arms: 5", "arms must be a list"),
        ("arms: [{colour: red}]", "no setting 'colour'"),
        ("options: [a]", "options must be names"),
        ("- a", "no settings"),
        ("a: [", "cannot read"),
        ("3: 4", "no setting '3'"),
        ("seed: 1", "name a study"),
    ):
        path.write_text(text)
        result = command("study", "run", "--settings", str(path))
        assert (result.exit_code, words in result.output) == (2, True), (text, result.output)


def test_commands_and_python_lines_give_the_settings_again(monkeypatch):
    design = find_design("t2iat-tests")
    settings = settle(
        design,
        StudySettings(
            scale=0.1, num_inference_steps=5, negative_prompt="a 'hat'", confidence=0.9, force=True,
            options={"tests": ["science_arts", "career_family"]},
            arms=(Arm(condition="fair"), Arm(guidance_scale=2.0)),
        ),
    ).settings  # fmt: skip
    drawn = []
    monkeypatch.setattr("bias_core.app.cli.study._measure", lambda chosen, *_: drawn.extend(chosen))
    result = CliRunner().invoke(app, shlex.split(to_command(design, settings))[3:])
    assert result.exit_code == 0, result.output
    assert [one.settings for one in drawn] == [settings]
    scope: dict = {}
    lines = to_python(design, settings).splitlines()
    exec("\n".join(line for line in lines if "import" in line or line.startswith("settings")), scope)
    assert settle(design, scope["settings"]).settings == settings


def test_a_design_has_defaults_of_its_own_for_settings(tmp_path, services):
    values = yaml.safe_load((design_files()["t2iat-tests"]).read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values | {"settings": {"seed": 7, "condition": "fair", "scale": 0.02}}))
    design = find_design(str(path))
    plan = plan_study(design, StudySettings(condition="extreme"), services)
    assert (plan.settings.seed, plan.settings.condition, plan.settings.scale) == (7, "extreme", 0.02)
    for wrong, words in (({"seed": "many"}, "“Seed” must be"), ({"colour": "red"}, "colour")):
        path.write_text(yaml.safe_dump(values | {"settings": wrong}))
        with pytest.raises((InvalidInput, StorageError), match=words):
            find_design(str(path))


def test_settings_of_older_runs_and_of_files_are_read_alike():
    read = settings_from_dict({"seed": 3, "arms": [{"name": "a", "model": None}], "options": {"tests": ["x"]}})
    assert (read.seed, read.arms[0].name, read.options) == (3, "a", {"tests": ["x"]})


def test_pictures_of_which_nothing_was_found_have_a_missing_cell_in_every_pandas(services):
    data = Run(get_study(DESIGN), SMALL, services, RowMaker.build(SMALL, services))
    data.frame = pd.DataFrame({"image_id": ["a", "b", "c"]}, index=[4, 5, 6])
    found = {"words": ["x", "y"], "array": np.array(["x", "y"]), "flags": [True, False], "numbers": [1, 2]}
    data.keep(data.frame[:2], **found, own=pd.Series(["y", "x"], index=[5, 4]))
    expected = {"image_id": ["a", "b", "c"]} | {name: [*of, mock.ANY] for name, of in found.items()}
    assert data.frame.to_dict("list") == expected | {"own": ["x", "y", mock.ANY]}
    assert data.frame.isna().to_numpy().tolist() == [[False] * 6, [False] * 6, [False, *[True] * 5]]
    data.keep(data.frame[2:], words=["z"])
    assert data.frame["words"].tolist() == ["x", "y", "z"]
