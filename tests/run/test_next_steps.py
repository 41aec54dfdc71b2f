"""Prompts of one's own from a file, and what to do next after a run."""

import re
import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from bias_core.app import cli
from bias_core.app.api import Tools
from bias_core.app.cli import app, explore as explore_cli
from bias_core.errors import InvalidInput
from bias_core.explore.exploration import Exploration
from bias_core.explore.options import explore_settings
from bias_core.explore.study import Explore, prepare_pack
from bias_core.explore.tab import ExploreTab, describe_needed_pictures
from bias_core.labels.make_task import label_run
from bias_core.measures.effects import images_needed
from bias_core.report.commands import to_command
from bias_core.report.export import to_export
from bias_core.report.saved import from_text, to_text
from bias_core.run.image_rows import treated
from bias_core.run.next_steps import _parts_in_words, next_steps, sizes_by_width
from bias_core.run.plan import settle
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design, get_study
from bias_core.study.types import Arm, Claim, StudySettings, check_arms
from bias_core.ui.templates import render
from tests import shared
from tests.ui.tabs import built, plain_of
from tests.ui.test_form import form

fakes = shared.fake_services

HAT = "hat|a photo of a person with a hat|a photo of a person without a hat"
TEXT = f"""prompt,group,n,attributes
a photo of a doctor,care,7,glasses
a photo of a nurse,care,,
a photo of a farmer,land,5,{HAT}
a photo of a CEO,,3,
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("packs") / "my prompts.csv"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture(scope="module")
def packed(file, fakes):
    settings = explore_settings(model="calibration-renderer", n_images=4, attributes=("man",), attribute_a="male")
    return complete(run_study(*prepare_pack(file, settings), fakes))


def shares(packed):
    return {one.key: one.estimate.n for one in packed.results.findings if one.key.endswith("-p")}


def test_every_prompt_gets_its_pictures_and_every_group_what_its_rows_ask_for(packed):
    assert packed.pictures.groupby("prompt", sort=False).size().to_dict() == {
        "a photo of a doctor": 7, "a photo of a nurse": 4, "a photo of a farmer": 5, "a photo of a CEO": 3,
    }  # fmt: skip
    assert packed.pictures.groupby("set").size().to_dict() == {"care": 11, "land": 5, "no group": 3}
    assert shares(packed) == {
        "all pictures-man-p": 19, "care-man-p": 11, "care-glasses-p": 11, "land-man-p": 5, "land-hat-p": 5,
    }  # fmt: skip
    assert packed.pictures["number"].is_unique
    assert "1 set has too few pictures" in " ".join(packed.results.notes)


def test_left_to_the_program_it_looks_for_what_the_rows_name_alone(file, fakes):
    packed = complete(run_study(*prepare_pack(file, explore_settings(model="calibration-renderer", n_images=4)), fakes))
    assert shares(packed) == {"care-glasses-p": 11, "land-hat-p": 5}
    assert "prompts ask for: glasses, care, in " in to_export(packed).report["headline"]


def test_without_groups_it_counts_by_prompt_and_without_attributes_it_looks_for_the_usual_ones(tmp_path, fakes):
    (tmp_path / "two.jsonl").write_text('{"prompt": "a photo of a nurse"}\n{"prompt": "a photo of a doctor"}\n')
    design, settings = prepare_pack(
        str(tmp_path / "two.jsonl"), explore_settings(model="calibration-renderer", n_images=4)
    )
    found = shares(complete(run_study(design, settings, fakes)))
    assert {key for key in found if key.endswith("-man-p")} == {
        f"{cell}-man-p" for cell in ("all pictures", "a photo of a nurse", "a photo of a doctor")
    }


def test_the_report_is_saved_exported_and_repeated_without_the_file(packed, fakes, tmp_path):
    root = fakes.settings.data_dir
    again = from_text(to_text(packed, root), root).report
    assert again.results.findings[0].estimate == packed.results.findings[0].estimate
    assert to_command(packed.design, packed.settings).startswith(
        "python -m bias_core study run prompts-my-prompts.yaml --option attributes=man"
    )
    files = to_export(packed).files
    (tmp_path / "prompts-my-prompts.yaml").write_bytes(files["prompts-my-prompts.yaml"])
    design = find_design(str(tmp_path / "prompts-my-prompts.yaml"))
    repeated = complete(run_study(design, packed.settings, fakes))
    estimates = [[one.estimate for one in report.results.findings] for report in (repeated, packed)]
    assert repr(estimates[0]) == repr(estimates[1])  # as texts: NaN, which an interval may have, equals nothing
    # Rows that say how many pictures they want are not made more of by a command that says how many others get.
    assert [step.key for step in next_steps(packed, fakes)] == []


def test_an_attribute_that_nobody_knows_is_named_with_its_line_before_anything_is_drawn(tmp_path, fakes):
    (tmp_path / "p.csv").write_text("prompt,attributes\na nurse,\na doctor,tallness\n")
    with pytest.raises(InvalidInput, match="line 3: no built-in attribute 'tallness'"):
        complete(run_study(*prepare_pack(str(tmp_path / "p.csv"), explore_settings()), fakes))
    own = ("old|a photo of an old man|a photo of a child",)
    (tmp_path / "p.csv").write_text("prompt,attributes\na nurse,\na doctor,old\n")
    with pytest.raises(InvalidInput, match="line 3: “old” has other sentences already, such as 'a photo of an"):
        complete(run_study(*prepare_pack(str(tmp_path / "p.csv"), explore_settings(attributes=own)), fakes))


def test_the_command_line_takes_a_pack_in_place_of_a_concept(file, fakes, monkeypatch):
    monkeypatch.setattr(explore_cli, "open_services", lambda _token="": nullcontext(fakes))

    def command(*words):
        return CliRunner().invoke(app, ["explore", *words], env={"COLUMNS": "200"})

    done = command("--prompts", file, "--model", "calibration-renderer", "-n", "4")
    assert done.exit_code == 0, done.output
    assert "hat" in done.output
    for words, message in (
        ((), "name a concept, such as doctor, or give --prompts"),
        (("doctor", "--prompts", file), "leave the concept 'doctor' out"),
        (("--prompts", file, "--template", "a {}"), "no use for --template"),
        (("--prompts", "nothing.csv"), "nothing.csv cannot be read"),
    ):
        failed = command(*words)
        assert (failed.exit_code, message in " ".join(failed.output.split())) == (2, True), failed.output
    assert find_design(file).data["prompts"][2]["group"] == "land"
    (own := Path(file).with_name("mine.csv")).write_text("prompt,attributes\na photo of a nurse,man\n")
    done = command("--prompts", str(own), "--model", "calibration-renderer", "-n", "5")
    assert re.search(r"study run (\S+\.yaml) .*\n +\1 is among the files of --out", done.output), done.output


def test_the_page_runs_the_uploaded_file_and_says_what_is_in_it(file, fakes, tmp_path, packed):
    tab = built(ExploreTab, fakes)
    asked = form() | {"images": None, "report": None}
    design, settings = tab.design_and_settings(asked | {"pack": file})
    assert tab.design_and_settings(asked | {"pack": None})[0].name == "explore"
    assert (design.title, design.images_per_prompt) == ("Prompts of my prompts", 16)
    assert settings.options["attributes"][0].startswith("man|")
    assert tab.claims(design)
    read = {**tab.values(), **asked}
    place = tab.parts["pack_note"]
    note = tab.on_pack(read | {"pack": file})[place]
    assert "4 prompts in 3 groups" in note
    assert "a photo of a farmer" in note
    (tmp_path / "bad.csv").write_text("prompt\n<b>\n<b>\n")
    assert "line 3: repeats the prompt of line 2" in tab.on_pack(read | {"pack": str(tmp_path / "bad.csv")})[place]
    assert "a column <code>prompt</code>" in place.value
    (tmp_path / "list.csv").write_text("concept,attribute,rate,source,n\nwelder,man,95 %,a census,8\nnurse,,,,\n")
    filled = tab.on_pack(read | {"pack": str(tmp_path / "list.csv")})
    assert filled[tab.form["concept"]] == "welder, nurse"
    assert "2 concepts, 1 real-world rates" in filled[place]
    fields = plain_of(tab, filled)
    assert (fields["rates"], fields["counts"]) == ("welder|man|0.95|a census", "welder|8")
    shown = tab.finished(packed)
    assert "Prompts of my prompts" in shown[tab.parts["header"]]


services = shared.real_services

N = 11


def asked(**given):
    return explore_settings(
        StudySettings(), **{"concept": "doctor", "attribute_a": "", "attribute_b": "", "n_images": N} | given
    )


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(find_design("explore"), asked(), services))


def steps_of(report, services):
    return {step.key: step for step in next_steps(report, services)}


def half_widths(report):
    shares = (one.estimate for one in report.results.findings if one.key.endswith("-p"))
    return [(share.high - share.low) / 2 for share in shares]


def test_more_pictures_reach_ten_points_or_another_width_and_go_on_from_those_that_are_there(report, services):
    step = steps_of(report, services)["pictures"]
    n = step.settings.options.n_images
    assert n == images_needed(0.1)
    assert f"{n} scored pictures would give every share to ±10 points; this run has {N}" in describe_needed_pictures(
        Exploration(report)
    )  # one number everywhere
    now = f"now ±{100 * max(half_widths(report)):.0f} points"
    assert re.fullmatch(f"More pictures: “(.+): P” known to about ±10 points, {now}", step.title)
    assert f"{n - N} more pictures, {n} in all" in step.says
    asked_for = {one.reach: one.settings.options.n_images for one in step.other_widths}
    assert asked_for[f"±5 points ({images_needed(0.05) - N} more)"] == images_needed(0.05)
    html = render("next_steps", steps=[step])
    in_order = [int(width) for width in re.findall(r"±(\d+) points \(", html)]
    assert in_order == sorted(in_order)
    assert f"selected>±10 points ({n - N} more)</option>" in html
    assert sizes_by_width()[0] == (images_needed(0.25), "25")
    assert (n, "10") in sizes_by_width()
    larger = complete(run_study(step.design, step.settings, services))
    assert set(report.stored) < set(larger.stored)
    assert larger.n_images == n
    assert max(half_widths(larger)) <= 0.1
    assert steps_of(larger, services)["pictures"].settings.options.n_images in map(images_needed, (0.07, 0.05))


def test_a_plain_prompt_is_drawn_beside_on_the_same_seeds(report, services):
    step = steps_of(report, services)["base"]
    assert step.title == "Compare with “a photo of a person”"
    both = complete(run_study(step.design, step.settings, services))
    assert [arm.name for arm in both.arms] == ["doctor", "person"]
    prompts = {(one.row.prompt, one.row.seed) for one in both.stored.values()}
    assert prompts == {(f"a photo of a {who}", seed) for who in ("doctor", "person") for seed in range(N)}
    assert set(report.stored) < set(both.stored)
    assert "base" not in steps_of(both, services)
    more = steps_of(both, services)["pictures"]
    assert more.narrows == "differences"
    reaches = [one.reach.partition(" (")[0] for one in more.widths]
    assert reaches[-2:] == ["±10 points", "±15 points"]
    both_words = settle(
        both.design,
        replace(both.settings, options=replace(both.settings.options, attribute_a="male", attribute_b="female")),
    )
    assert _parts_in_words(both_words) == f": in each arm {N} of the concept, 16 with “male” or “female”"
    assert len({one.settings.options.n_images for one in more.widths}) == len(reaches) > 2
    html = render("next_steps", steps=[more], n=5, questions="1 question", raters=(3,), usual=3)
    assert "until differences are known to" in html
    assert "What these buttons do" in html
    assert "<dt>Label 5 pictures</dt>" in html


def test_what_is_any_person_already_or_none_has_no_plainer_prompt():
    for concept in ("a busy person", "man", "Male model"):
        assert Explore(find_design("explore")).with_baseline(asked(concept=concept)) is None
    pretty = "pretty|a pretty picture|an ugly picture"
    assert Explore(find_design("explore")).with_baseline(asked(concept="rose", attributes=(pretty,))) is None
    assert Explore(find_design("explore")).with_baseline(asked(arms=(Arm(condition="fair"), Arm()))) is None


def test_people_are_asked_where_nobody_knows_how_often_the_reader_errs(report, services):
    assert "people" not in steps_of(report, services)  # the renderer has every attribute on record
    findings = [replace(one, expected=None) for one in report.results.findings if not one.key.endswith("-corrected")]
    unknown = replace(report, results=replace(report.results, findings=tuple(findings)))
    step = steps_of(unknown, services)["people"]
    assert step.title == "Ask three people"
    assert step.settings is None
    assert step.command == f"python -m bias_core study label {report.run_id} -n {N} --raters 3"
    task = Tools(services)
    assert (step.tool, set(step.arguments)) == ("label_run", {"run_id", "n", "raters_per_picture"})
    assert hasattr(task, step.tool)
    label_run(unknown, services.manifests, services.labels, n=N)
    assert "people" not in steps_of(unknown, services)  # a task asks already


def test_drawing_on_because_a_result_is_not_clear_is_cautioned_against(report, services):
    def caution(verdict):
        claim = Claim(verdict=verdict, p_adjusted=0.3, n_tests=1, level=0.05)
        findings = tuple(replace(finding, claim=claim) for finding in report.results.findings)
        decided = replace(report, results=replace(report.results, findings=findings))
        return next_steps(decided, services)[0].caution

    assert "misleads" in caution("not clear")
    assert caution("above") == caution("not tested") == ""


def test_what_is_known_closely_needs_no_more_pictures(report, services):
    close = [
        replace(one, estimate=replace(one.estimate, low=one.estimate.value - 0.01, high=one.estimate.value + 0.01))
        for one in report.results.findings
    ]
    near = replace(report, results=replace(report.results, findings=tuple(close)))
    assert "pictures" not in steps_of(near, services)


def test_a_stopped_run_goes_on_to_what_was_asked_for(report, services):
    stopped = replace(report, stopped=True, n_planned=40, settings=asked(n_images=40))
    step = steps_of(stopped, services)["pictures"]
    assert step.settings.options.n_images == 40
    assert "29 more pictures, 40 in all" in step.says


def test_no_step_draws_more_than_one_run_may(report, services):
    def steps_within(n):
        limited = services.settings.model_copy(update={"max_images": n})
        return steps_of(report, SimpleNamespace(settings=limited, manifests=services.manifests))

    steps = steps_within(2 * N)
    assert steps["pictures"].settings.options.n_images == 2 * N
    assert steps["base"].settings.arms
    assert not {"pictures", "base"} & set(steps_within(N))
    # Pictures that were brought along are not drawn anew.
    own = replace(report, settings=replace(report.settings, images="pictures.zip"))
    assert not {"pictures", "base"} & set(steps_of(own, services))


def test_the_command_line_and_the_api_say_what_does_it(tmp_path, monkeypatch, services):
    monkeypatch.setenv("BIAS_DATA_DIR", str(tmp_path))
    words = ["explore", "nurse", "--model", "calibration-renderer", "-n", "5", "--attribute", "man", "--full"]
    result = CliRunner().invoke(cli.app, words, env={"COLUMNS": "120"})
    assert "Next: More pictures: “man: P” known to about ±" in result.output
    commands = [line.strip() for line in result.output.splitlines() if line.startswith("  python -m bias_core")]
    assert shlex.split(commands[1])[-4:] == ["--arm", "name=nurse", "--arm", "name=person|template={nurse=person}"]
    answer = Tools(services).explore("nurse", model="calibration-renderer", n_images=5, attributes=["man"])
    step = {one["key"]: one for one in answer["next_steps"]}["base"]
    compared = getattr(Tools(services), step["tool"])(**step["arguments"], detail="full")
    assert [arm["name"] for arm in compared["arms"]] == ["nurse", "person"]
    more = {one["key"]: one for one in answer["next_steps"]}["pictures"]
    again = getattr(Tools(services), more["tool"])(**more["arguments"])
    assert again["stands_out"][0]["n"] > 2 * answer["stands_out"][0]["n"]


def test_objects_without_a_base_are_offered_one():
    for name, option in (("tbyb-general", {}), ("tbyb-task", {"base": False})):
        design = find_design(name)
        settings = settle(design, StudySettings(options=option)).settings
        base, _ = get_study(design).with_baseline(settings)
        assert get_study(design).with_baseline(base) is None


def test_an_arm_may_put_a_word_in_place_of_another():
    assert treated("a photo of a male doctor", "{doctor=person}, smiling") == "a photo of a male person, smiling"
    check_arms(StudySettings(arms=(Arm(), Arm(template="{doctor=person}"))))
    for wrong in ("{doctor=person} {}", "{doctor=}", "{=person}", "plain"):
        with pytest.raises(InvalidInput, match="template of an arm"):
            check_arms(StudySettings(arms=(Arm(), Arm(template=wrong))))
    with pytest.raises(InvalidInput, match="is not in the prompt"):
        treated("a photo of a nurse", "{doctor=person}")
