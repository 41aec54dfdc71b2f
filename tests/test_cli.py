"""The command line gives the library's numbers, says errors in one line, draws ahead of measuring, and writes files."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
import yaml
from PIL import Image

from bias_core.errors import Interrupted
from bias_core.explore.options import explore_settings
from bias_core.installed import ASSETS
from bias_core.labels.rating import give_answer, join, next_item
from bias_core.models.engines import LocalEngine, Rate, RateStore
from bias_core.report.commands import to_command
from bias_core.report.documents import to_dict
from bias_core.run.plan import plan_study, settle
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import design_files, find_design
from bias_core.study.types import StudySettings
from bias_core.types import Attribute
from tests.explored import explore
from tests.shared import command_line

MAN = Attribute(
    name="man", positive="a photo of a man", negative="a photo of a female", reference=0.3, reference_source="a guess"
)
SETTINGS = explore_settings(
    concept="doctor", attributes=(MAN,), condition="fair", n_images=5, n_attribute_images=2, num_inference_steps=2,
    seed=3,
)  # fmt: skip


@pytest.fixture
def data(tmp_path):
    return tmp_path / "cli data"


@pytest.fixture
def command(data, assets):
    return command_line(data, assets)


def ids(data: Path) -> dict[str, int]:
    return {path.stem: path.stat().st_ino for path in (data / "images").glob("??/*.png")}


def test_people_label_a_run_and_correct_it(command, data, tmp_path):
    drawn = ("doctor", "-n", "8", "--model", "calibration-renderer", "--attribute-a", "", "--attribute-b", "")
    explored = command("explore", *drawn, "--attribute", "man")
    assert explored.exit_code == 0, explored.output
    run = re.search(r"Run (\w+):", explored.output)[1]
    nobody = command("study", "corrected", run)
    assert nobody.exit_code == 2
    assert f"make one with study label {run}" in nobody.output
    task = command("study", "label", run, "-n", "6", "--stratify-by", "man")
    assert task.exit_code == 0, task.output
    assert "in equal parts by the classifier on man, seed 0, about man." in task.output
    assert "No one has answered yet" in command("study", "corrected", run).output
    services = Services(Settings(data_dir=data, offline=True))
    code = join(services.labels, re.search(r"label\?task=(\S+)", task.output)[1]).code
    turn = next_item(services.labels, code)
    for number in range(3):
        given = {"answer_id": f"answer-{number}", "item": turn.item, "choices": {"man": "no"}}
        turn = give_answer(services.labels, code, duration_ms=900, **given)
    services.close()
    result = command("study", "corrected", run, "--out", str(tmp_path / "numbers.json"))
    assert result.exit_code == 0, result.output
    assert "3 of the 6 pictures that people are asked about have an answer" in result.output
    numbers = json.loads((tmp_path / "numbers.json").read_text())["numbers"]
    assert numbers[0]["corrected"]["value"] < numbers[0]["as_read"]["value"]
    assert json.loads(command("study", "corrected", run, "--json").stdout)["numbers"] == numbers
    command("study", "report", run, "--to", "md", "--out", str(tmp_path / "report.md"))
    assert "**man: P, corrected by people’s labels (3 of 8, by 1 person): " in (tmp_path / "report.md").read_text()
    for unusable in (("study", "label", "nosuchrun"), ("study", "corrected", "nosuchrun")):
        assert "no run 'nosuchrun' on record" in command(*unusable).output


@pytest.mark.parametrize("model", ["calibration-diffusion", "calibration-renderer"])
def test_the_copied_command_gives_the_numbers_of_the_library(services, command, tmp_path, model):
    settings = explore_settings(SETTINGS, model=model)
    *_, report = explore(settings, services)
    arguments = shlex.split(to_command(find_design("explore"), settings))[3:]
    result = command(*arguments, "--out", str(tmp_path / "report.json"))
    assert result.exit_code == 0, result.output
    ours = to_dict(report.report)
    theirs = json.loads((tmp_path / "report.json").read_text())
    ours.pop("seconds")
    theirs.pop("seconds")
    assert theirs == json.loads(json.dumps(ours))


def test_words_of_other_programs_in_a_prompt_are_printed_as_they_are_and_said_to_have_no_effect(command):
    result = command(
        "explore", "doctor", "-n", "4", "--attribute", "man", "--attribute-a", "", "--attribute-b", "",
        "--template", "a photo of a ({}:1.3) <lora:x:0.8>", "--full",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "(doctor:1.3), <lora:x:0.8>: weights, BREAK, <lora:…> and __wildcards__ of other" in result.output


def test_a_run_prints_what_is_read_at_once_all_of_it_or_json_alone(command, data):
    drawn = ("explore", "doctor", "-n", "8", "--model", "calibration-renderer")
    at_once, full, as_json = (command(*drawn, *more).stdout for more in ((), ("--full",), ("--json", "--full")))
    lines = at_once.splitlines()
    (top,), (bottom,) = ([i for i, line in enumerate(lines) if line.startswith(sign)] for sign in "┏└")
    assert bottom - top + 2 <= 15  # its title, too
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 200
    assert "man: P " in lines[top + 3]
    assert [line for line in lines if line.startswith("Next: More pictures")]
    assert "  python -m bias_core explore doctor --n-images" in at_once  # without the sentences of its attributes
    report = json.loads(as_json)
    assert f"python -m bias_core study report {report['run_id']}" in at_once
    n = len(report["findings"])
    assert f"{n - (bottom - top - 3)} more numbers" in at_once
    assert all(one["finding"] in " ".join(full.split()) for one in report["findings"] if len(one["finding"]) < 20)
    assert len(full.splitlines()) > 3 * len(lines)


def test_what_runs_or_lists_prints_json_in_the_form_of_the_tools(command):
    drawn = ("doctor", "-n", "4", "--model", "calibration-renderer", "--json")

    def printed(*words):
        result = command(*words)
        assert result.exit_code == 0, (words, result.output)
        return json.loads(result.stdout)

    report = printed("explore", *drawn)
    assert report["stands_out"][0]["n"] == 4
    assert len(json.dumps(report, ensure_ascii=False).encode()) <= 8_000
    whole = printed("explore", *drawn, "--full")
    assert set(report["more"]["bytes_by_detail"]) <= {"full", *whole}
    assert report["headline"] == whole["headline"]
    compared = printed("compare", *drawn[:-3], "--arm", "condition=fair", "--arm", "condition=extreme", "--json")
    assert compared.keys() == report.keys()
    study = ("study", "run", "t2iat-tests", "--scale", "0.01", "--option", "tests=science_arts", "--json")
    assert printed(*study).keys() == report.keys()
    task = printed("study", "label", report["run_id"], "-n", "2", "--json")
    assert task["run_id"] == report["run_id"]
    assert report["run_id"] in {run["run_id"] for run in printed("runs", "--json")["runs"]}
    for title, *words in (
        ("models", "models"), ("sets", "attributes", "doctor"),
        ("measures", "measures"), ("studies", "study", "list"), ("studies", "study", "show", "t2iat-tests"),
    ):  # fmt: skip
        assert printed(*words, "--json")[title], words


def test_help_has_groups_defaults_in_words_and_examples(command):
    for words in (["explore"], ["study", "run"]):
        said = command(*words, "--help").output
        groups = ("What to draw", "Which model", "How to measure", "Output", "Examples:")
        places = [said.index(group) for group in groups]
        assert places == sorted(places)
        assert said.count(f"python -m bias_core {' '.join(words)} ") == 2  # the examples
        assert "(())" not in said
        assert "Denoising steps per picture (1 to 150; default: the model's)." in said
        assert "default: 0.95" in said


def test_errors_are_one_line_and_exit_2(command):
    for message, *arguments in (
        ("name a concept, such as doctor", "explore", " "),
        ("“Pictures” must be at least 1", "explore", "doctor", "-n", "0"),
        ("calibration-renderer", "explore", "doctor", "--model", "dall-e"),
        ("negative sentence", "explore", "doctor", "--attribute", "man|only positive"),
        ("no built-in attribute", "explore", "doctor", "--attribute", "wings"),
        ("twice", "explore", "doctor", "--attribute", "man", "--attribute", "man"),
        ("no run 'abc'", "runs", "--keep", "abc"),
    ):
        result = command(*arguments)
        assert (result.exit_code, message in result.output) == (2, True), result.output
        assert "Traceback" not in result.output


def test_a_run_has_a_table_and_files_and_lists_have_runs_models_and_attributes(command, tmp_path):
    result = command("explore", "nurse", "--attribute", "man", "--model", "calibration-renderer",
                     "-n", "6", "--keep", "--out", str(tmp_path / "out"))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Ψ" in result.output
    assert len(list((tmp_path / "out" / "train").glob("*-concept-*.png"))) == 6
    found = set(pd.read_parquet(tmp_path / "out" / "findings.parquet")["finding"])
    assert found >= {"man: P", "man: Ψ", "man: WALS"}
    listed = command("runs").output
    assert "a photo of a nurse" in listed
    assert "yes" in listed
    run_id = next(word for word in listed.split() if len(word) == 16 and word.isalnum())
    assert "yes" not in command("runs", "--release", run_id).output
    assert "nurse" not in command("runs", "--delete", run_id).output
    models = command("models").output
    assert "calibration-diffusion" in models
    assert "the same rates for every concept" in models
    assert "a photo of a man" in command("attributes", "doctor").output


def start(command, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bias_core", *arguments], env=os.environ | command.environment,
        cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


AGAIN = """
import runpy, sys
sys.argv = ["bias_core", *{arguments!r}]
try:
    runpy.run_module("bias_core", run_name="__main__")
except SystemExit as end:
    print(end.code, *({{"torch", "diffusers", "transformers"}} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("line", "n_pictures"),
    [
        # of the concept and of two words, drawn by the diffusion model
        ("explore doctor -n 3 --n-attribute-images 2 --steps 2 --attribute man", 7),
        pytest.param("study run pst-occupations --scale 0.01 --option single_images=1", 12, marks=pytest.mark.slow),
        pytest.param("study run pst-fairness --scale 0.01 --option power_images=1", 24, marks=pytest.mark.slow),
        pytest.param("study run tbyb-general --scale 0.001", 36, marks=pytest.mark.slow),
        pytest.param("study run oasis-nationalities --scale 0.02", 120, marks=pytest.mark.slow),
        pytest.param("study run oasis-stop --scale 0.02 --option n_candidates=32", 140, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_run_again_with_every_picture_and_reading_stored_loads_no_model_library(line, n_pictures, data):
    command, arguments = command_line(data, ASSETS), [*shlex.split(line), "--json"]
    done = command(*arguments)
    assert done.exit_code == 0, done.output
    first, before = json.loads(done.stdout), ids(data)
    assert len(before) == n_pictures
    again = subprocess.run(
        [sys.executable, "-c", AGAIN.format(arguments=arguments)], env=os.environ | command.environment,
        cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.stderr.splitlines()[-1].split() == ["0"], again.stderr
    report = json.loads(again.stdout)
    for of_the_time in ("seconds", "created", "reproduce", "more"):  # "more" counts their characters
        report.pop(of_the_time, None), first.pop(of_the_time, None)
    assert report == first
    assert ids(data) == before


def told(signum: int, command, data: Path, *arguments: str):
    """Run a command in this process and send it a signal while it draws; a late signal is ignored."""
    before = signal.signal(signum, signal.SIG_IGN)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: (wait_for_pictures(data, 64), os.kill(os.getpid(), signum)))
            return command(*arguments)
    finally:
        signal.signal(signum, before)


def wait_for_pictures(data: Path, n: int) -> None:
    deadline = time.monotonic() + 60
    while len(ids(data)) < n:
        assert time.monotonic() < deadline
        time.sleep(0.05)


LONG = shlex.split(
    "explore doctor --no-attributes --model calibration-renderer -n 3000 --attribute-a '' --attribute-b ''"
)


def test_a_killed_run_resumes(command, data):
    process = start(command, *LONG)
    wait_for_pictures(data, 64)
    process.kill()
    process.communicate()
    before = ids(data)
    assert 64 <= len(before) < 3000
    assert "running" in command("runs").output
    result = command(*LONG[:6], str(len(before) + 10), *LONG[7:])
    assert result.exit_code == 0, result.output
    after = ids(data)
    assert len(after) == len(before) + 10
    assert before.items() <= after.items()


def test_control_c_stops_scores_what_is_finished_and_exits_with_130(command, data, tmp_path):
    result = told(signal.SIGINT, command, data, *LONG, "--out", str(tmp_path / "out.zip"))
    assert result.exit_code == 130
    assert "Stopped: the scores use the" in result.stdout
    assert "same command goes on from there" in result.stderr
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert sum(name.endswith(".png") for name in archive.namelist()) >= 64
    (run,) = (data / "runs").glob("*.json")
    assert json.loads(run.read_text())["status"] == "cancelled"


def test_an_exploration_that_the_machine_could_not_finish_exits_with_1(command, monkeypatch):
    def no_quota(*_args, **_options):
        raise Interrupted("The GPU is free again in an hour")
        yield

    monkeypatch.setattr("bias_core.services.Services.draw", no_quota)
    result = command("explore", "doctor", "--no-attributes", "--model", "calibration-renderer", "-n", "4")
    assert result.exit_code == 1
    assert "free again in an hour" in result.output


def test_a_study_that_is_told_to_end_keeps_its_pictures_says_so_and_exits_with_143(command, data):
    study = ("study", "run", "t2iat-occupations", "--model", "calibration-renderer")
    process = start(command, *study, "--draw-only", "--yes")
    wait_for_pictures(data, 128)  # a first batch only tells how long it takes
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    shutil.rmtree(data)
    result = told(signal.SIGTERM, command, data, *study)
    for code, words in ((process.returncode, said), (result.exit_code, result.stderr)):
        assert code == 143
        assert "what is finished is kept" in words
        assert "Traceback" not in words


def test_control_c_between_two_steps_of_a_command_is_said_too(command, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bias_core.run.run.lay_out", interrupted)
    result = command("study", "run", "t2iat-occupations", "--plan", "--model", "calibration-renderer")
    assert result.exit_code == 130
    assert "what is finished is kept" in result.output


# Two concepts of 2 pictures each and their attributes, a few seconds at most.
DRAW = ("study", "run", "--draw-only")
OF_SCIENCE = ("t2iat-tests", "--option", "tests=science_arts")
SMALL = (*OF_SCIENCE, "--option", "n_permutations=100", "--scale", "0.02", "--steps", "1")


def test_several_models_and_conditions_are_drawn_once_and_found_when_measured(command, data):
    models = ("--model", "calibration-renderer", "--model", "calibration-diffusion")
    conditions = ("--condition", "published", "--condition", "fair")
    result = command(*DRAW, *SMALL, *models, *conditions)
    assert result.exit_code == 0, result.output
    drawn = ids(data)
    manifests = [json.loads(path.read_text()) for path in (data / "runs").glob("*.json")]
    asked = {(run["settings"]["model"], run["settings"]["condition"]) for run in manifests}
    assert len(manifests) == len(asked) == 4
    assert {run["status"] for run in manifests} == {"finished"}
    assert sum(len({(r["prompt"], r["seed"]) for r in run["rows"]}) for run in manifests) == len(drawn)
    again = command(*DRAW, *SMALL, *models, *conditions)
    assert again.exit_code == 0, again.output
    assert ids(data) == drawn
    measured = command("study", "run", *SMALL, "--model", "calibration-diffusion", "--condition", "fair")
    assert measured.exit_code == 0, measured.output
    assert ids(data) == drawn
    assert len(list((data / "runs").glob("*.json"))) == 4


def test_a_plan_before_it_changes_nothing_in_the_report(command, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    result = command("study", "run", "--plan", *SMALL, "--out", str(ours))
    assert result.exit_code == 0, result.output
    assert command("study", "run", *SMALL, "--out", str(theirs)).exit_code == 0
    assert not (theirs / "train").exists()  # no pictures, no metadata of pictures
    ours = json.loads((ours / "report.json").read_text())
    theirs = json.loads((theirs / "report.json").read_text())
    ours.pop("seconds")
    theirs.pop("seconds")
    assert ours == theirs


def test_a_dry_run_draws_nothing_and_a_first_batch_makes_the_cost_known(command, data):
    dry = command(*DRAW, *SMALL, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "not known" in dry.output
    assert not ids(data)
    assert command(*DRAW, *SMALL).exit_code == 0
    more = command(*DRAW, *SMALL, "-n", "90", "--scale", "1", "--dry-run")
    assert more.exit_code == 0, more.output
    assert "not known" not in more.output
    assert f" {len(ids(data))} " in more.output  # that exist already
    assert "MB in all, on 1 x" in more.output


def test_a_dry_run_on_pictures_brought_along_draws_nothing(command, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (64, 64), "green").save(tmp_path / name / "a dog.png")
    arms = [part for name in ("one", "two") for part in ("--arm", f"name={name}|images={tmp_path / name}")]
    for pictures, n in ((["--images", str(tmp_path / "one")], 1), (arms, 2)):
        dry = command("study", "run", "tbyb-dataset", *pictures, "--dry-run")
        assert dry.exit_code == 0, dry.output
        assert f"{n} pictures with no model (they are imported)" in " ".join(dry.output.split())
        assert "nothing is drawn" in " ".join(dry.output.split())
        assert "not known" not in dry.output


HUB = ("--model", "some-org/some-model")


@pytest.mark.parametrize(("study", "measure"), [(OF_SCIENCE, ["--draw-only"]), (("oasis-spi",), ["--force"])])
def test_a_dry_run_needs_no_hub_and_says_what_it_cannot_know(command, data, study, measure):
    result = command("study", "run", *study, *HUB, "--model", "calibration-diffusion", "--dry-run", *measure)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.output.splitlines() if "some-org/some-model" in line)
    n = row.split("│")[3].strip()
    assert f"│ not known │ up to {n} " in " ".join(row.split())
    said = " ".join(result.output.split())
    assert "not known which commit would be drawn" in said
    assert "its steps and size are also unknown" in said
    assert "BIAS_OFFLINE forbids" in said
    assert not ids(data)


def test_without_a_hub_only_a_dry_run_goes_on_and_even_that_refuses_what_no_hub_could_mend(command, tmp_path):
    result = command(*DRAW, "t2iat-tests", *HUB, "--yes")
    assert result.exit_code == 2
    assert "the hub was not reached" in " ".join(result.output.split())
    (tmp_path / "broken").mkdir()
    result = command(*DRAW, "t2iat-tests", "--model", str(tmp_path / "broken"), "--dry-run")
    assert result.exit_code == 2
    assert "no model" in result.output


def slowly(data, assets):
    """As if a picture of the renderer had taken a minute here, and a megabyte."""
    services = Services(Settings(data_dir=data, assets_dir=assets, offline=True, device="cpu"))
    settings = StudySettings(options={"tests": ["science_arts"]})
    plan = plan_study(find_design("t2iat-tests"), settings, services)
    rate = Rate(seconds=60.0, n_bytes=1e6, n=100)
    RateStore(data / "rates.json").keep(plan.manifest.rows[0], LocalEngine("cpu").place(), rate)
    services.close()
    return len({row.id for row in plan.manifest.rows})


def test_a_long_run_asks_first_and_yes_answers_and_too_little_room_is_said(command, data, assets, monkeypatch):
    n = slowly(data, assets)
    arguments = (*DRAW, *OF_SCIENCE)
    dry = command(*arguments, "--dry-run")
    assert f"{n / 60:.1f} h, {n:.1f} MB in all, on 1 x" in dry.output  # a minute and a megabyte each
    asked = command(*arguments)
    assert asked.exit_code == 2
    assert "--yes" in asked.output
    with monkeypatch.context() as small:
        small.setattr("shutil.disk_usage", lambda _folder: type("Usage", (), {"free": 5_000_000})())
        small.setenv("BIAS_CACHE_GB", "0.001")
        said = command(*arguments, "--dry-run").output
    assert "room for 5.0 MB only" in said
    assert "--keep" in said
    assert not ids(data)
    command(*arguments, "--scale", "0.02", "--yes")
    assert ids(data)


def test_a_design_of_ones_own_and_kept_pictures(command, data, tmp_path):
    design = yaml.safe_load((design_files()["t2iat-tests"]).read_text())
    design["options"]["tests"] = ["science_arts"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(design))
    result = command(*DRAW, str(tmp_path / "mine.yaml"), "--scale", "0.02", "--keep")
    assert result.exit_code == 0, result.output
    (manifest,) = (json.loads(path.read_text()) for path in (data / "runs").glob("*.json"))
    assert manifest["kept"]
    assert manifest["study"] == "mine"


def test_impossible_settings_are_refused_before_anything_is_drawn(command, data):
    for message, *arguments in (
        ("at least 1, got 0", "-n", "0"), ("choose --engine ray", "--workers", "2"), ("slurm", "--engine", "slurm"),
        ("got -1", "--engine", "ray", "--workers", "-1"), ("leave --draw-only out", "--out", "x"),
        ("no-such-model", "--model", "no-such-model"), ("unfair", "--condition", "unfair"),
        ("cannot be written as .pdf", "--out", "x.pdf"),
    ):  # fmt: skip
        result = command(*DRAW, *SMALL, *arguments)
        assert (result.exit_code, message in result.output) == (2, True), result.output
        assert not ids(data)


def test_models_without_conditions_come_once_beside_others(services):
    from bias_core.app.cli.study import _split_request

    usual = settle(find_design("t2iat-tests"), StudySettings())
    chosen = _split_request(usual, ["some/model", "calibration-renderer"], ["fair", "extreme"], services)
    assert [(one.settings.model, one.settings.condition) for one in chosen] == [
        ("some/model", ""),
        ("calibration-renderer", "fair"),
        ("calibration-renderer", "extreme"),
    ]
    alone = [
        one.settings for one in _split_request(usual.with_settings(scale=0.5), ["some/model"], ["published"], services)
    ]
    assert [(s.model, s.condition, s.scale) for s in alone] == [("some/model", "published", 0.5)]
