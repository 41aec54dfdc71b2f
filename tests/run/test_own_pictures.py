"""Pictures of one's own: the studies that they fit, matched by prompt, and runs that measure nothing."""

import io
import json
import re
import zipfile
from dataclasses import asdict, replace
from random import Random

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import InvalidInput
from bias_core.explore.options import attribute_text
from bias_core.explore.study import UNMEASURED
from bias_core.labels.make_task import candidates, choose_task_kind, find_matching_runs, label_run, task_pictures
from bias_core.labels.results import task_items
from bias_core.labels.task_owner import create_task
from bias_core.report.commands import to_command
from bias_core.report.corrected import build_correction, corrected, fit_to_report
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.headlines import headline
from bias_core.report.report_text import finding_rows, get_table
from bias_core.report.saved import from_text, to_text
from bias_core.run.history import list_runs, open_run
from bias_core.run.image_rows import SEE_PICTURES, ImportedRows
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.export import Export, ExportedImage, write_zip
from bias_core.store.imports import ImportedImages
from bias_core.study.answers import read_answers
from bias_core.study.attributes import ALL, finding_key, load_attribute_sets
from bias_core.study.classifier_answers import list_readings
from bias_core.study.design import find_design
from bias_core.study.label_tasks import association_task, find_people, own_task, pst_task
from bias_core.study.types import NOBODY, Arm, Shot, StudyReport, StudySettings
from bias_core.ui.runs.tab import list_fits
from bias_core.ui.study.own_pictures import look_through
from bias_core.world.scene import draw_scene
from tests import shared
from tests.every import every
from tests.explored import explore_settings, measured, own_pictures, pictures_of
from tests.labels.raters import spotted
from tests.study.oasis_runs import write_labels
from tests.study.simulated_raters import simulate
from tests.ui.fakes import FakeServices, _portrait

services = shared.fake_services

DARK, LIGHT = "a photo of a mechanic", "a photo of a nurse"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Twelve dark-skinned mechanics, seven light-skinned nurses, one picture of something else."""
    return zipped(tmp_path_factory.mktemp("import") / "mine.zip", (DARK, 9, 12), (LIGHT, 2, 7), ("a red door", 2, 1))


def zipped(path, *folders):
    """A zip with a folder for each prompt, skin tone and number of pictures."""
    rng = Random(3)
    with zipfile.ZipFile(path, "w") as archive:
        for prompt, tone, n in folders:
            for i in range(n):
                with archive.open(f"{prompt}/{i}.png", "w") as file:
                    draw_scene(_portrait(rng, skin=tone), 64).save(file, "PNG")
    return path


@pytest.fixture(scope="module")
def report(services, path):
    settings = StudySettings(images=str(path), force=True)
    settings = explore_settings(own_pictures(settings, "dark skin", "old"), n_clusters=2)
    return complete(run_study(find_design("explore"), settings, services))


def test_what_is_planted_is_found_per_prompt_and_every_picture_has_its_reading_and_its_group(report):
    frame = get_table(report, "attributes").frame.set_index(["pictures of", "attribute"])
    assert frame.loc[(DARK, "dark skin"), "P"] > 0.8
    assert frame.loc[(LIGHT, "dark skin"), "P"] < 0.3
    assert list(frame["n"]) == [12, 12, 7, 7, 20, 20]
    assert finding_rows(report)[0]["finding"] == f"dark skin, {DARK}: P"
    pooled, said = "“dark skin” is seen in .* of 20 pictures", headline(report).replace("\N{NO-BREAK SPACE}", " ")
    ends = rf"^“dark skin” is seen in .* of 12 pictures of “{DARK}”, in .* of 7 pictures of “{LIGHT}”\. Pooled over "
    ends += "prompts: "
    assert re.match(ends + pooled, said), said
    shares = next(figure.data for figure in report.results.figures if figure.key == "shares")
    assert list(shares["group"].unique()) == [DARK, LIGHT, "pooled over prompts"]
    assert frame.loc[(ALL, "dark skin"), "low"] < 12 / 20 < frame.loc[(ALL, "dark skin"), "high"]
    assert any("1 prompt has too few pictures" in note for note in report.results.notes)
    assert {"dark skin: nearer by", "old: nearer by", "looks_like"} < set(report.pictures)
    assert set(report.pictures["looks_like"]) == {"group 1", "group 2"}
    assert report.pictures["dark skin: nearer by"].notna().all()
    assert {figure.key for figure in report.results.figures} == {"shares", "prompts", "alike"}


def test_a_rate_of_one_concept_judges_no_pictures_of_several_and_a_forced_run_has_no_finding(services, tmp_path):
    nurse, doctor = "a photo of a nurse", "a photo of a doctor"
    path = zipped(tmp_path / "two.zip", (nurse, 2, 4), (doctor, 2, 4))
    (man,) = find_attribute_of("nurse", "man")
    settings = explore_settings(own_pictures(StudySettings(images=str(path), force=True), man))
    two = complete(run_study(find_design("explore"), settings, services, session="two"))
    rates = get_table(two, "attributes").frame.set_index("pictures of")["P*"]
    assert rates[nurse] == 0.121
    assert rates[[doctor, ALL]].isna().all()
    assert "No P* for “man”: the real-world rate is for one concept" in " ".join(two.results.notes)
    assert "the real-world rate of" not in headline(two)
    assert [reading.attribute.reference for reading in list_readings(two)] == [None]
    forced = replace(settings, encoder="calibration-clip")
    forced = complete(run_study(find_design("explore"), forced, services, session="forced"))
    (line,) = list_runs(services, "forced")
    assert (
        line.headline
        == headline(forced)
        == "Forced: the classifier is not made for these pictures, so its numbers are no finding."
    )
    assert "rate" not in line.headline

    one = zipped(tmp_path / "one.zip", (nurse, 2, 4), ("two nurses at work", 2, 4))
    report = complete(run_study(find_design("explore"), replace(settings, images=str(one)), services))
    assert set(get_table(report, "attributes").frame["P*"]) == {0.121}


def find_attribute_of(concept, name):
    """The text of a built-in attribute with its rate for this concept."""
    (found,) = (item for item in load_attribute_sets() if item.concept_hint == concept)
    return [attribute_text(one) for one in found.attributes if one.name == name]


def test_people_correct_what_is_read_in_pictures_of_one_s_own(services, report):
    made = label_run(report, services.manifests, services.labels, n=15, attributes=["dark skin"])
    prompts = report.pictures.set_index("image_id")["prompt"]
    truth = {
        (item.image_id, "dark_skin"): "yes" if prompts[item.image_id] == DARK else "no"
        for item in task_items(services.labels, made.key)
    }
    assert len(truth) == 15
    simulate(services.labels, made, truth, error=0.0, rater=0)
    p = build_correction(report, services.run_answers(report.run_id)).numbers[0]
    assert (p.title, p.n_labelled, p.corrected.n) == ("dark skin: P", 15, 20)
    assert p.corrected.low < 12 / 20 < p.corrected.high


def answers_csv(path, *rows):
    return write_labels(path, ["file_name", "position", "answer", "rater"], rows)


def test_answers_name_one_s_own_pictures_by_their_files_and_correct_a_stored_run(services, report, tmp_path):
    stored = from_text(to_text(report, tmp_path), tmp_path).report
    rows = [(f"{DARK}/{i}.png", "dark skin", "yes", "ada") for i in range(12)]
    rows += [(f"s3://mine/{LIGHT}/{i}.jpg", "dark skin", "no", "ada") for i in range(3)]
    by_bare_name = [("11.png", "old", "yes", "ada"), ("0.png", "old", "yes", "ada")]
    given = read_answers(answers_csv(tmp_path / "answers.csv", *rows, *by_bare_name))
    people = corrected(stored, given, services)
    look = fit_to_report(stored, given).attrs["look"]
    assert look.counts_by_way == {
        "the path of its file": 12, "the path of its file, saved in another format": 3, "the name of its file": 1,
    }  # fmt: skip
    assert look.passed_over == {"several pictures of the run have this name": ["line 18: 0.png"]}
    (p, _) = build_correction(stored, fit_to_report(stored, given)).numbers[:2]
    assert (p.title, p.n_labelled) == ("dark skin: P", 15)
    assert "1 of 17 answers in answers.csv do not count: several pictures" in " ".join(people.results.notes)


def test_names_of_own_files_stay_on_this_machine(services, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    lines = ["file_name,prompt"]
    for i in range(4):
        draw_scene(_portrait(Random(i), skin=9), 64).save(folder / f"GEHEIM_{i}.png")
        lines += [f"GEHEIM_{i}.png,{DARK}"]
    (folder / "metadata.csv").write_text("\n".join(lines))
    private = measured(StudySettings(images=str(folder), force=True), services, "dark skin")
    assert private.files["file"].tolist() == [f"GEHEIM_{i}.png" for i in range(4)]
    place = write_zip(to_export(private, pictures=True), tmp_path / "export.zip")
    with zipfile.ZipFile(place) as archive:
        assert [name for name in archive.namelist() if "GEHEIM" in name or b"GEHEIM" in archive.read(name)] == []
    made = label_run(private, services.manifests, services.labels, n=4, attributes=["dark skin"])
    assert "GEHEIM" not in json.dumps([asdict(item) for item in task_items(services.labels, made.key)])


def test_answers_are_fitted_to_the_files_of_each_arm_before_a_run(drawing, tmp_path):
    design = find_design("pst-occupations")
    planned = plan_study(design, StudySettings(scale=0.02, options={"finder": "halves"}), drawing).manifest.rows[:6]
    for k, arm in enumerate("ab"):
        folder = imagefolder(tmp_path / arm, [{"prompt": row.prompt} for row in planned])
        for i in range(6):
            spotted((16, 16), (i, 50, 7 + k)).save(folder / f"{i}.png")
    arms = tuple(Arm(name=f"arm {name}", images=str(tmp_path / name)) for name in "ab")

    def plan(*names):
        rows = [(name, "l", "feminine", "ada") for name in names]
        labels = answers_csv(tmp_path / "answers.csv", *rows)
        options = {"finder": "halves", "labeller": "people"}
        return plan_study(design, StudySettings(scale=0.02, arms=arms, labels=labels, options=options), drawing)

    both = plan(*(f"{arm}/{i}.png" for arm in "ab" for i in range(6)))
    by_arm = [[row.id for row in arm.manifest.rows] for arm in both.arms]
    assert both.answers["image_id"].tolist() == [image_id for ids in by_arm for image_id in ids]
    assert plan("a/0.png", "b/0.png", "1.png").answers["image_id"].tolist() == [by_arm[0][0], by_arm[1][0]]
    with pytest.raises(InvalidInput, match=r"no answer in answers\.csv counts for the arm “arm b”"):
        plan("a/0.png", "a/1.png")
    with pytest.raises(InvalidInput, match=r"only 0 of 2 .* several pictures of the run have this name .*as a/0\.png"):
        plan("0.png", "1.png")


def test_the_export_of_an_import_gives_the_same_numbers(services, report, tmp_path):
    zipped = write_zip(pictures_of(report), tmp_path / "again.zip")
    settings = StudySettings(images=str(zipped), options=report.settings.options, force=True)
    again = complete(run_study(find_design("explore"), settings, services))
    assert finding_rows(again) == finding_rows(report)


def test_without_attributes_or_enough_pictures_it_is_refused(services, path, tmp_path):
    with pytest.raises(InvalidInput, match=r"the concept is empty"):
        measured(StudySettings(), services)
    settings = StudySettings(images=str(path), force=True)
    nothing = explore_settings(own_pictures(settings), attributes=())
    with pytest.raises(InvalidInput, match="no attribute"):
        complete(run_study(find_design("explore"), nothing, services))
    with pytest.raises(InvalidInput, match="no built-in attribute"):
        measured(settings, services, "unheard-of")
    few = measured(StudySettings(images=str(zipped(tmp_path / "few.zip", (DARK, 9, 1))), force=True), services)
    share = next(one.estimate for one in few.results.findings if one.metric == "attribute_prevalence")
    assert (few.n_images, share.n, share.high - share.low > 0.9) == (1, 1, True)  # as of one that is drawn


def test_pictures_of_a_concept_are_found_by_its_prompt(services, path):
    settings = explore_settings(
        StudySettings(images=str(path), force=True), concept="mechanic", attributes=["dark skin"],
        attribute_a="", attribute_b="",
    )  # fmt: skip
    found = complete(run_study(find_design("explore"), settings, services))
    assert set(found.pictures["prompt"]) == {DARK}
    assert found.n_images == 12


def test_the_studies_that_fit_are_told(path):
    found = look_through(path).look
    assert found.counts == {DARK: 12, LIGHT: 7, "a red door": 1}
    fits = {fit.design.name: fit for fit in list_fits(found.counts)}
    assert fits["explore"].n_found == fits["tbyb-dataset"].n_found == 20
    assert fits["t2iat-tests"].n_found == 0
    assert fits["t2iat-tests"].n_asked > 0
    assert fits["t2iat-tests"].examples
    assert next(iter(fits)) == "explore"
    order = [fit.n_found == 0 for fit in fits.values()]
    assert order == sorted(order)


def test_pictures_without_prompts_are_the_concept_that_is_named_or_have_none(services, tmp_path):
    path, rng = tmp_path / "plain.zip", Random(3)
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(6):
            with archive.open(f"IMG_{n:04}.png", "w") as file:
                draw_scene(_portrait(rng, skin=9), 64).save(file, "PNG")
        archive.writestr("a photo of a nurse.png", "no picture, whose name says nothing about the others")
    options = {"attributes": ["dark skin"], "attribute_a": "", "attribute_b": "", "n_images": 6}
    for concept, prompt, says in (
        ("mechanic", DARK, f"No picture has a prompt: all 6 are taken as “{DARK}”."),
        ("", "without a prompt", "6 pictures have no prompt."),
    ):
        settings = explore_settings(concept=concept, images=str(path), force=True, **options)
        found = complete(run_study(find_design("explore"), settings, services))
        assert found.n_images == 6
        assert set(found.pictures["prompt"]) == {prompt}
        assert says in found.results.notes
        assert finding_rows(found)[0]["n"] == 6
    study = StudySettings(images=str(path), options={"tests": ["science_arts"]})
    with pytest.raises(InvalidInput, match="To take all pictures as one prompt, set “prompts from” to “one for all: "):
        complete(run_study(find_design("t2iat-tests"), study, services))


def test_ways_of_drawing_are_pooled_with_a_note_or_arms(services, tmp_path):
    rng = Random(3)
    for model in ("sd15", "sdxl"):
        (tmp_path / model).mkdir()
        for n in range(5):
            draw_scene(_portrait(rng, skin=9), 64).save(tmp_path / model / f"{DARK}_{n}.png")
    options = {"attributes": ["dark skin"], "attribute_a": "", "attribute_b": "", "n_images": 10}
    settings = explore_settings(concept="mechanic", images=str(tmp_path), force=True, **options)
    pooled = complete(run_study(find_design("explore"), settings, services))
    assert "Pictures drawn in 2 ways are pooled: sd15 (5), sdxl (5)." in " ".join(pooled.results.notes)
    together = f"10 of 10 files of {tmp_path.name} count: 2 ways of drawing together {SEE_PICTURES}."
    assert together in pooled.results.notes
    arms = tuple(Arm(drawn_with=model) for model in ("sd15", "sdxl"))
    compared = complete(run_study(find_design("explore"), replace(settings, arms=arms), services))
    assert [(arm.name, arm.n_images) for arm in compared.arms] == [("sd15", 5), ("sdxl", 5)]
    assert "pooled" not in " ".join(compared.results.notes)


def test_notes_on_the_same_faults_of_two_arms_name_their_folders(services, tmp_path):
    rng = Random(3)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for n in range(4):
            draw_scene(_portrait(rng, skin=9), 64).save(tmp_path / name / f"{n}.png")
        lines = "".join(f"{n}.png,{DARK},3.07E+09\n" for n in range(4))
        (tmp_path / name / "metadata.csv").write_text(f"file_name,prompt,seed\n{lines}")
    options = {"attributes": ["dark skin"], "attribute_a": "", "attribute_b": "", "n_images": 4}
    arms = tuple(Arm(name=f"arm {name}", images=str(tmp_path / name)) for name in ("one", "two"))
    settings = explore_settings(concept="mechanic", force=True, arms=arms, **options)
    compared = complete(run_study(find_design("explore"), settings, services))
    rounded = [note for note in compared.results.notes if "rounded by a spreadsheet" in note]
    assert [note.partition(" 4 notes")[0] for note in rounded] == ["arm one: one:", "arm two: two:"]


def test_a_study_that_asks_for_these_prompts_says_how_many(services, tmp_path):
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    drawn = complete(run_study(find_design("t2iat-tests"), settings, services))
    path = write_zip(pictures_of(drawn), tmp_path / "drawn.zip")
    fits = {fit.design.name: fit for fit in list_fits(look_through(path).look.counts)}
    assert fits["t2iat-tests"].n_found >= drawn.n_images


drawing = shared.real_services

DESIGN = find_design("t2iat-occupations")
SMALL = StudySettings(scale=0.02)


class NoModels(shared.RealServices):
    """The reader is there; a text-to-image model must not be asked for."""

    def text_to_image(self, name):
        raise AssertionError(f"asked for {name}")


@pytest.fixture(scope="module")
def drawn(drawing, tmp_path_factory):
    """The report of a drawn run, and its pictures as a zip."""
    report = complete(run_study(DESIGN, SMALL, drawing))
    rows = drawing.manifests.get(report.run_id).rows
    images = [ExportedImage(path=drawing.images.get(row).path, row=row) for row in rows]
    path = tmp_path_factory.mktemp("zip") / "pictures.zip"
    return report, write_zip(Export(images=images, tables={}, report={}, markdown=""), path)


@pytest.fixture
def modelless(shelf, tmp_path):
    built = NoModels(Settings(data_dir=shared.shared_folder(shelf, tmp_path / "data"), offline=True))
    yield built
    built.close()


def numbers(report):
    names = ("value", "low", "high", "n", "p_value")
    return [{name: row[name] for name in names} for row in to_dict(report)["findings"]]


def test_imported_pictures_give_the_numbers_of_the_drawn_ones(drawn, modelless):
    report, path = drawn
    imported = complete(run_study(DESIGN, replace(SMALL, images=str(path)), modelless))
    assert numbers(imported) == numbers(report)
    assert (imported.n_images, imported.n_planned) == (report.n_images, report.n_planned)
    assert imported.settings.model == "imported:pictures"
    assert "pictures of imported:pictures, classified by" in to_markdown(imported)
    assert imported.unknown_words == ()
    assert modelless.manifests.get(imported.run_id).status == "finished"
    command = to_command(DESIGN, imported.settings)
    assert f"--images {path}" in command
    assert "--model" not in command
    assert "--condition" not in command
    again = complete(run_study(DESIGN, imported.settings, modelless))
    assert numbers(again) == numbers(imported)
    assert again.run_id == imported.run_id


def test_what_is_missing_is_said(drawn, modelless):
    _, path = drawn
    larger = replace(SMALL, scale=0.04, images=str(path))
    report = complete(run_study(DESIGN, larger, modelless))
    assert 0 < report.n_images < report.n_planned
    (note,) = [note for note in report.results.notes if "missing" in note]
    n = report.n_planned - report.n_images
    assert note.startswith(f"{n:,} pictures of this study are missing, because pictures has fewer than it asks for: ")


def test_pictures_of_another_study_are_refused_with_both_sides_prompts(drawn, modelless):
    _, path = drawn
    settings = StudySettings(scale=0.02, images=str(path))
    with pytest.raises(InvalidInput, match=r"It asks for: .* The pictures have: "):
        complete(run_study(find_design("t2iat-tests"), settings, modelless))
    with pytest.raises(InvalidInput, match="no folder or zip"):
        complete(run_study(DESIGN, replace(SMALL, images="nowhere"), modelless))


def test_pictures_that_nobody_asks_for_are_said(drawn):
    _, path = drawn
    rows = ImportedRows.build(StudySettings(images=str(path)))
    prompt, count = next(iter(rows.source.counts.items()))
    total = sum(rows.source.counts.values())
    notes = rows.notes([Shot(prompt=prompt.upper(), n=count - 1, group="x")])
    assert notes[0] == "Prompts come from a table."
    assert notes[1].startswith(f"{total - count + 1:,} pictures are more than this study asks for: ")
    assert len(rows.make_rows(Shot(prompt=prompt, n=count - 1, group="x"))) == count - 1


def a1111(tmp_path, name, seeds):
    """A zip of pictures as A1111 saves them, two prompts and these seeds."""
    path = tmp_path / f"{name}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for who in ("doctor", "nurse"):
            for i, seed in enumerate(seeds):
                info, file = PngInfo(), io.BytesIO()
                parameters = f"a photo of a {who}\nSteps: 20, Sampler: Euler a, CFG scale: 7"
                info.add_text("parameters", parameters + (f", Seed: {seed}, Size: 512x512" if seed else ""))
                spotted((8, 8), (seed or i, 90, 120)).save(file, "PNG", pnginfo=info)
                archive.writestr(f"2026-11-22/{who}-{i}.png", file.getvalue())
    return path


def test_pictures_of_one_colour_all_over_are_counted_as_blanked_and_never_scored(tmp_path, modelless):
    (own := tmp_path / "own").mkdir()
    for i in range(12):
        colour = (127, 127, 127) if i == 3 else (0, 0, 0) if i < 3 else (i, 90, 120)
        picture = Image.new("RGB", (8, 8), colour) if i < 4 else spotted((8, 8), colour)
        picture.save(own / f"a photo of a doctor {i}.png")
    asked = StudySettings(force=True, encoder="calibration-clip", images=str(own))
    report = complete(run_study(find_design("explore"), own_pictures(asked), modelless))
    assert (report.n_images, report.n_blocked) == (8, 4)
    found = {one.key: one.estimate for one in report.results.findings}
    assert 0.1 < found["refused"].low < found["refused"].value == 4 / 12 < found["refused"].high < 0.7
    assert found[finding_key(ALL, "man", "p")].n == 8


def test_six_pictures_of_one_colour_each_end_in_one_sentence_in_every_study(tmp_path, modelless):
    for name, make in {"colours": lambda i: Image.new("RGB", (64, 64), (40 * i, 9, 9)),
                       "nothing": lambda i: Image.new("RGBA", (64, 64), (40 * i, 9, 9, 0)),
                       "points": lambda i: Image.new("RGB", (1, 1), (40 * i, 9, 9))}.items():  # fmt: skip
        (own := tmp_path / name).mkdir()
        for i in range(6):
            make(i).save(own / f"a photo of a doctor {i}.png")
        for study in ("explore", "oasis-doctors"):
            asked = StudySettings(scale=0.02, force=True, encoder="calibration-clip", images=str(own))
            with pytest.raises(
                InvalidInput, match=r"^no picture can be scored\. .*6 pictures have one colour all over"
            ):
                complete(run_study(find_design(study), asked, modelless))


def units(path):
    rows = ImportedRows.build(StudySettings(images=str(path)))
    shots = [Shot(prompt=f"a photo of a {who}", n=9, group="x") for who in ("doctor", "nurse")]
    unit_of = rows.choose_unit_naming(shots)
    return [
        f"{place}:{unit_of(k, row)}" for place, shot in enumerate(shots) for k, row in enumerate(rows.make_rows(shot))
    ]


def test_imports_with_the_same_seeds_are_paired_by_them_and_others_are_not(tmp_path):
    first = units(a1111(tmp_path, "first", [11, 5, 7]))
    assert len(set(first)) == 6
    assert set(units(a1111(tmp_path, "again", [7, 11, 5]))) == set(first)  # in another order, too
    for name, seeds in (("fewer", [11, 5]), ("others", [11, 5, 8]), ("one unknown", [11, 5, 0]), ("twice", [11, 5, 5])):
        assert set(units(a1111(tmp_path, name, seeds))).isdisjoint(first), name


def test_arms_of_imported_pictures_with_the_same_seeds_are_compared_pair_by_pair(tmp_path, modelless):
    arms = tuple(Arm(name=name, images=str(a1111(tmp_path, name, range(10, 22)))) for name in ("one", "two"))
    asked = StudySettings(force=True, encoder="calibration-clip")
    settings = explore_settings(
        asked, concept="doctor", arms=arms, attributes=["man"], n_images=12, attribute_a="", attribute_b=""
    )
    report = complete(run_study(find_design("explore"), settings, modelless))
    assert set(get_table(report, "differences").frame["compared on"]) == {"same seeds"}
    (note,) = [note for note in report.arms[0].results.notes if "record how they were drawn" in note]
    assert note == (
        "12 of 12 pictures record how they were drawn: sampler Euler a; steps 20; "
        "guidance 7; size 512x512; seeds of 12."
    )


def test_every_further_text_that_shaped_a_picture_stands_in_the_report(tmp_path):
    for seed in range(2):
        info = PngInfo()
        text = f"a photo of a doctor\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {seed}"
        info.add_text("parameters", f'{text}, ADetailer prompt: "a male face, detailed"')
        draw_scene(_portrait(Random(seed), skin=5), 32).save(tmp_path / f"{seed}.png", pnginfo=info)
    rows = ImportedRows.build(StudySettings(images=str(tmp_path)))
    assert rows.notes(rows.shots(1.0, 0))[-1] == (
        "2 of 2 pictures record further influences than their prompt: ADetailer prompt “a male face, detailed”."
    )


VISITOR = "a" * 32


class WithoutReaders(Services):
    """Nothing that is kept unmeasured may ask for a reader."""

    def encoder(self, name):
        raise AssertionError(name)


@pytest.fixture
def readerless(tmp_path):
    built = WithoutReaders(Settings(data_dir=tmp_path / "data", offline=True))
    yield built
    built.close()


def imagefolder(folder, lines):
    """A folder with a picture of a colour of its own for each line of metadata."""
    folder.mkdir(parents=True)
    for i, line in enumerate(lines):
        line["file_name"] = f"{i}.png"
        spotted((16, 16), (i, 50, 7)).save(folder / f"{i}.png")
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def kept(readerless, folder):
    settings = StudySettings(images=str(folder), encoder=NOBODY)
    return complete(run_study(UNMEASURED, settings, readerless, session=VISITOR))


PAIRS = [
    {"prompt": "two at work", "left": "nurse", "right": "CEO"},
    {"prompt": "two at work", "left": " CEO ", "right": "nurse"},
    {"prompt": "Generate a picture of one cook on the left and one guard on the right."},
    {"prompt": "a photo of a baker"},
    {"prompt": "a busy street"},
]


def test_an_import_becomes_a_task_of_pairs_without_being_measured(readerless, tmp_path):
    report = kept(readerless, imagefolder(tmp_path / "mine", PAIRS))
    assert choose_task_kind(report) == "pst_paired"
    found = candidates(report, "pst_paired")
    # By file: told by the metadata, by the prompt, and last the street, of which nobody says whom it shows.
    assert sorted(tuple(one.identities.values()) for one in found) == [
        (), ("CEO", "nurse"), ("cook", "guard"), ("nurse", "CEO"),
    ]  # fmt: skip
    task = pst_task(paired=True)
    items = task_pictures(found, task)
    assert {"left": "person", "right": "person"} in [item.identities for item in items]
    assert len(create_task(readerless.labels, task, items).join_code) > 20
    assert {one.identities.get("single") for one in candidates(report, "pst_single")} == {"baker", None}
    with_a_name = task_pictures(found, task, identity="somebody")
    assert all(set(item.identities.values()) == {"somebody"} for item in with_a_name)


def test_questions_of_ones_own_and_associations_take_every_picture(readerless, tmp_path):
    report = kept(readerless, imagefolder(tmp_path / "mine", PAIRS))
    for task in (own_task("Is it day?", ["yes", "no"]), association_task("pleasant", "unpleasant")):
        items = task_pictures(candidates(report, task.kind, words=("pleasant", "unpleasant")), task)
        assert [item.identities for item in items] == [{}] * len(PAIRS)
        create_task(readerless.labels, task, items)


def test_a_run_of_single_people_has_no_pairs_and_one_that_names_nobody_may_be_asked_anything(readerless, tmp_path):
    report = kept(readerless, imagefolder(tmp_path / "mine", [{"prompt": "x", "identity": "nurse"} for _ in range(2)]))
    assert choose_task_kind(report) == "own"  # it may be of anything: nothing is assumed
    assert candidates(report, "pst_single")[0].identities == {"single": "nurse"}
    with pytest.raises(InvalidInput, match="no stored picture of two people: ask something else, or choose"):
        candidates(report, "pst_paired")
    report = kept(readerless, imagefolder(tmp_path / "street", [{"prompt": "a busy street"}]))
    assert choose_task_kind(report) == "own"
    for kind in ("pst_paired", "pst_single", "association", "own"):
        assert len(candidates(report, kind)) == 1


def test_it_is_listed_opened_and_exported_as_other_runs_are(readerless, tmp_path):
    report = kept(readerless, imagefolder(tmp_path / "mine", PAIRS))
    (line,) = list_runs(readerless, VISITOR)
    assert (line.run_id, line.saved, line.n_stored) == (report.run_id, True, 5)
    again = open_run(readerless, VISITOR, report.run_id).report
    assert isinstance(again, StudyReport)
    assert not again.results.findings
    assert again.pictures.equals(report.pictures)
    assert "nobody" in to_export(again, pictures=True).markdown
    assert again.results.tables[0].frame["pictures"].sum() == 5


def test_a_measured_import_has_the_same_pictures_so_that_labels_fit_both(tmp_path):
    readerless = FakeServices(tmp_path / "data")
    folder = imagefolder(tmp_path / "mine", PAIRS)
    unmeasured = kept(readerless, folder)
    again = own_pictures(StudySettings(images=str(folder), force=True))
    measured = complete(run_study(find_design("explore"), again, readerless, session=VISITOR))
    ids = set(unmeasured.pictures["image_id"])
    assert ids == set(measured.pictures["image_id"])
    assert {run.study for run in find_matching_runs(readerless, VISITOR, ids)} == {"unmeasured", "explore"}
    assert candidates(measured, "pst_paired")[0].identities == {"left": "nurse", "right": "CEO"}
    readerless.close()


@every([
    ("x", {"left": "a", "right": "b"}, ("paired", "a", "b")),
    ("a photo of a nurse", {"left": "cook", "right": ""}, ("single", "cook", "")),
    ("a photo of a nurse", {"identity": "cook"}, ("single", "cook", "")),
    ("A photo of the face of a nurse.", {}, ("single", "nurse", "")),
    ("one aide of it on the left and the CEO on the right", {}, ("paired", "aide of it", "CEO")),
    ("Generate a picture of one construction worker.", {}, ("single", "construction worker", "")),
    ("a photo of a person studying science", {}, ("", "", "")),  # would tell the prompt
    ("a photo of two nurses", {}, ("", "", "")),
    ("a photo of a nurse and a CEO", {}, ("", "", "")),
    ("", {}, ("", "", "")),
])  # fmt: skip
def test_whom_a_picture_was_to_show(prompt, told, people):
    assert tuple(find_people(prompt, told).values()) == people


def test_metadata_that_names_people_in_another_type_names_nobody(tmp_path):
    lines = [{"prompt": "x", "left": 7, "right": None, "identity": ["nurse"]}]
    source = ImportedImages(imagefolder(tmp_path / "mine", lines))
    (row,) = source.rows("x", 1)
    assert source.get_picture(row.id).people == {}
