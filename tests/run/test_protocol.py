"""Printed data of the papers, and their protocols, which fill in settings and keep ids."""

import re
from collections import defaultdict
from dataclasses import asdict, fields, replace
from itertools import product
from statistics import mean

import pytest
import yaml

from bias_core.errors import InvalidInput, StorageError
from bias_core.models.engines import Rate
from bias_core.models.model_sources import ModelFit
from bias_core.papers.mcas.study import own_targets
from bias_core.papers.oasis.cells import own_concepts
from bias_core.papers.t2iat.study_tests import own_association
from bias_core.papers.t2iat.tab import Association
from bias_core.report.commands import is_shipped
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.run.next_steps import papers_settings, replicate
from bias_core.run.plan import count_requested_pictures, plan_study, settle
from bias_core.run.reproduction import replication_estimate, settings_table
from bias_core.run.run import complete, run_study
from bias_core.store.export import Export, ExportedImage, write_zip
from bias_core.study.design import (
    STUDY_DATA,
    design_files,
    find_design,
    format_summary,
    get_protocol,
    list_designs,
    read_study,
    read_study_table,
    readings_of_paper,
    typed_options,
    with_protocol,
)
from bias_core.study.types import Arm, StudySettings, parse_arms
from bias_core.types import ImageRow
from bias_core.ui.visitor import Visitor
from bias_core.values import declared_settings, option_values
from tests import shared
from tests.every import every
from tests.explored import explored
from tests.prompts_of_papers import all_prompts
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built, form_values, plain_of

YAML_FILES = ("attribute_sets", "internal_bias", "oasis", "pst", "t2iat", "tbyb")
KEYS = ("wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis", "bls2024")


class Strict(yaml.SafeLoader):
    """Refuses keys that are there twice."""


def no_duplicates(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    assert len(keys) == len(set(keys)), f"line {node.start_mark.line + 1}"
    return {loader.construct_object(key): loader.construct_object(value, deep=True) for key, value in node.value}


Strict.add_constructor("tag:yaml.org,2002:map", no_duplicates)


def leaves(value):
    """All scalars of a nested structure."""
    if isinstance(value, dict | list):
        return [leaf for item in (value.values() if isinstance(value, dict) else value) for leaf in leaves(item)]
    return [value]


@every(YAML_FILES)
def test_a_file_parses_names_its_source_and_its_words_are_words(name):
    text = (STUDY_DATA / f"{name}.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=Strict)
    # "on", "no" and "off" would turn into booleans; only the flag p_below may be one.
    flags = [leaf for leaf in leaves(data) if isinstance(leaf, bool)]
    assert len(flags) == (8 if name == "t2iat" else 0)
    assert all(isinstance(key, str) for key in data)
    assert any(key in text for key in KEYS)


@every(sorted(STUDY_DATA.glob("*.*")))
def test_no_file_names_a_place_on_our_machines(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w:/.])/(?:\w+/)+", text)
    assert "\r" not in text


def test_t2iat_has_the_stimuli_of_table_3_and_8_tests_of_known_concepts():
    study = read_study("t2iat")
    sizes = {key: len(words) for key, words in study["concepts"].items()}
    assert sizes == {
        **dict.fromkeys(("flowers", "insects", "musical_instruments", "weapons"), 25),
        **dict.fromkeys(("european_american", "african_american"), 50),
        **dict.fromkeys(("light_skin", "dark_skin", "straight", "gay"), 9),
        **dict.fromkeys(("judaism", "christianity"), 4),
        **dict.fromkeys(("career", "family"), 8),
        "science": 9,
        "arts": 8,
        **dict.fromkeys(("pleasant", "unpleasant"), 25),
        **dict.fromkeys(("male", "female"), 5),
    }
    assert all(len(words) == len(set(words)) for words in study["concepts"].values())
    for concept, lists in study["gender"].items():
        assert (len(lists["masculine"]), len(lists["feminine"])) == (25, 25)
        assert lists["masculine"] + lists["feminine"] == study["concepts"][concept]
    assert len(study["tests"]) == 8
    assert [test["kind"] for test in study["tests"]] == ["valence"] * 6 + ["gender"] * 2
    for test in study["tests"]:
        assert {test["x"], test["y"], test["a"], test["b"]} <= study["concepts"].keys()
        assert test["template"].count("{}") == 1
        assert ("person" in test["template"]) == (test["kind"] == "gender")
    assert len(study["occupations"]["list"]) == 8
    assert len(study["human_comparison"]["scores"]) == 8


def test_in_all_40_rows_of_table_14_sts_follows_from_the_share_of_feminine():
    rows, study = read_study_table("pst_occupations.csv"), read_study("pst")["occupations"]
    # Male: 100 - 2F, female: 2F - 100; a third rounded to two digits leaves 0.01. No exceptions.
    for row, setting in product(rows, ("single", "paired")):
        sign = {"masculine": -1, "feminine": 1}[row["stereotyped_gender"]]
        expected = sign * (2 * float(row[f"f_{setting}"]) - 100)
        assert float(row[f"sts_{setting}"]) == pytest.approx(expected, abs=0.011)
    for gender in ("masculine", "feminine"):  # as in Table 7
        assert {row["occupation"] for row in rows if row["stereotyped_gender"] == gender} == set(study[gender])
        assert len(study[gender]) == 20
    labour = {row["occupation"]: row["f_labour"] for row in rows}  # shares said to be the same are the same
    assert labour["accountant"] == labour["auditor"] == "58.80"
    assert labour["cleaner"] == labour["housekeeper"] == "88.10"
    assert [occupation for occupation, share in labour.items() if not share] == ["chief"]


def test_the_means_of_tables_14_and_16_are_the_published_ones_and_its_72_gaps_paired_minus_single():
    rows, power, study = read_study_table("pst_occupations.csv"), read_study_table("pst_power.csv"), read_study("pst")

    def mean_of(rows, setting, **which):
        return mean(float(row[f"sts_{setting}"]) for row in rows if which.items() <= row.items())

    for setting in ("single", "paired"):
        for gender in ("masculine", "feminine"):
            published = study["by_stereotyped_gender"][gender][setting]
            assert mean_of(rows, setting, stereotyped_gender=gender) == pytest.approx(published, abs=0.005)
        for level in ("powerful", "powerless"):
            published = study["by_power_level"][level][setting]
            assert mean_of(power, setting, power_level=level) == pytest.approx(published, abs=0.005)
        published = study["overall"]["power"][setting]["average"]
        assert mean_of(power, setting) == pytest.approx(published, abs=0.011)
    assert mean_of(rows, "paired") == pytest.approx(47.375)
    assert mean_of(rows, "single") == pytest.approx(10.0, abs=0.005)
    assert len(power) == 72
    assert len({row["occupation"] for row in power}) == 36
    for row in power:
        gap = float(row["sts_paired"]) - float(row["sts_single"])
        assert float(row["gap"]) == pytest.approx(gap, abs=0.011)


def test_internal_bias_has_the_prompts_of_table_5():
    study = read_study("internal_bias")
    targets = study["targets"]
    assert len(targets) == len({row["prompt"] for row in targets}) == 28
    assert [row["dominated"] for row in targets].count("male") == 14
    counts = {c: [row["category"] for row in targets].count(c) for c in ("occupation", "sport", "object", "scene")}
    assert counts == {"occupation": 10, "sport": 6, "object": 6, "scene": 6}
    assert [row["gender"] for row in study["image_attributes"]] == ["male"] * 4 + ["female"] * 4
    assert [len(study["text_attributes"][gender]) for gender in ("male", "female")] == [10, 10]
    alphas = defaultdict(list)
    for row in read_study_table("internal_bias_scores.csv"):
        alphas[row["model"], row["dominated"]].append(float(row["alpha"]))
    assert {len(values) for values in alphas.values()} == {14}
    # 1.696 and 11.04 are the means of the rows of Table 3; Table 4 prints 3.15 and 11.25.
    assert {key: mean(values) for key, values in alphas.items()} == pytest.approx(
        {
            ("DALL-E 2", "male"): 1.47, ("DALL-E 2", "female"): 10.0, ("Stable Diffusion v2", "male"): 1.696,
            ("Stable Diffusion v2", "female"): 11.04,
        }, abs=0.02,
    )  # fmt: skip


def test_the_45_cells_of_oasis_are_the_positive_part_of_the_difference():
    rows = read_study_table("oasis_table1.csv")
    assert len(rows) == 45
    misprints = []
    for row in rows:
        expected = max(0.0, float(row["prevalence"]) - float(row["reference"]))
        if float(row["stereotype_score"]) != pytest.approx(expected, abs=0.051):
            misprints.append((row["nationality"], row["attribute"], row["model"]))
            assert row["note"].startswith("misprint")
    assert misprints == [("Mexican", "hat", "SDv2")]
    table = {(row["nationality"], row["attribute"]): float(row["reference"]) for row in rows}
    entries = read_study("oasis")["nationalities"]
    sentences = {
        (nationality, attribute["name"]): 100 * attribute["reference"]
        for nationality in ("Iranian", "Indian", "Mexican")
        for attribute in entries[nationality]["attributes"]
    }
    assert sentences == pytest.approx(table)
    assert len(table) == 15


def test_tbyb_has_420_general_and_60_task_oriented_prompts_without_a_brand():
    assert (len(read_study_table("tbyb_objects.csv")), len(read_study_table("tbyb_occupations.csv"))) == (100, 40)
    assert (
        len(read_study_table("tbyb_general_evaluations.csv")),
        len(read_study_table("tbyb_task_evaluations.csv")),
    ) == (8, 12)
    study = read_study("tbyb")
    for trigger, scenes in study["task_oriented"]["triggers"].items():
        assert len(set(scenes)) == 20
        assert all(trigger in scene.split() or f"{trigger}," in scene for scene in scenes)
        assert not any(brand.lower() in scene for brand in study["brands"].values() for scene in scenes)
    words = study["gender_words"]
    assert not set(words["masculine"]) & set(words["feminine"])
    assert len(study["stop_list"]["words"]) == len(set(study["stop_list"]["words"]))


def test_attribute_sets_are_complete_and_their_rates_have_a_source():
    sets = read_study("attribute_sets")["sets"]
    assert len({entry["key"] for entry in sets}) == len(sets)
    for entry in sets:
        assert entry["template"].count("{}") == 1
        for attribute in entry["attributes"]:
            assert attribute.keys() == {"name", "positive", "negative", "reference", "reference_source"}
            assert 0 <= attribute["reference"] <= 1
            assert attribute["positive"] != attribute["negative"]
            if attribute["reference_source"].startswith("assumed 50 %"):
                assert attribute["reference"] == 0.5
    # The rates of men in occupations are one minus the labour share.
    labour = {row["occupation"]: row["f_labour"] for row in read_study_table("pst_occupations.csv")}
    men = [a for entry in sets for a in entry["attributes"] if a["name"] == "man"]
    stated = [a for a in men if "bls2024" in a["reference_source"]]
    assert len(stated) == 14
    for attribute in stated:
        occupation = re.search(r"women \(([^)]+)\)", attribute["reference_source"])[1]
        assert attribute["reference"] == pytest.approx(1 - float(labour[occupation]) / 100)


def test_all_prompts_holds_the_counted_prompts_of_each_paper_once_and_no_open_slot():
    prompts = all_prompts()
    assert len(prompts) == len(set(prompts))
    assert not [prompt for prompt in prompts if re.search(r"[{}]|\s\s|^\s|\s$|\ban? an? ", prompt)]
    singles = [p for p in prompts if re.fullmatch(r"Generate a picture of one [\w ]+\.", p) and " left " not in p]
    paired = [p for p in prompts if p.startswith("Generate") and p.endswith("on the right.")]
    fairness = [p for p in prompts if p.endswith("irrespective of their gender.")]
    # 40 occupations + 36 x 8 roles; 20 x 20 x 2 pairs of occupations + 36 x 4 x 4 x 2 pairs of roles.
    assert (len(singles), len(paired), len(fairness)) == (40 + 288, 800 + 1152, 800 + 1152)
    assert "a man studying technology" in prompts
    assert "a photo of clover, freedom" in prompts
    assert "A photo of an Iranian person" in prompts
    assert "a picture of a person eating an apple" in prompts
    assert "A photo of an elementary school teacher" in prompts


real = shared.real_services

PAPERS = [design.name for design in list_designs() if design.protocol]
RENDERED = StudySettings(model="calibration-renderer", scale=0.005, protocol="paper")
STATUSES = {"met", "differs", "not printed", "our reading"}


def as_in_the_paper(name, **given):
    return settle(find_design(name), StudySettings(protocol="paper", **given)).settings


def checklist(report):
    return report.results.frame("protocol").set_index("item")


def test_every_study_of_a_paper_has_a_protocol_of_settings_and_options_that_can_be_used():
    assert {design.reference for design in list_designs() if design.protocol} == {
        "wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis",
    }  # fmt: skip
    assert len(PAPERS) == 17
    for name in PAPERS:
        design = find_design(name)
        items, settings = get_protocol(design), as_in_the_paper(name)
        assert {"wording", "pictures", "num_inference_steps", "guidance_scale", "size", "sampler"} <= items.keys(), name
        assert all(item.words for item in items.values()), name
        assert settings.protocol == ""
        for key in items.keys() & declared_settings(StudySettings).keys():
            if items[key].value is not None and not settings.model.startswith("calibration-"):
                assert getattr(settings, key) == items[key].value, (name, key)


@every([
    ("t2iat-tests", ("stable-diffusion-2-1", 50, 7.5, "512x512", "openai/clip-vit-base-patch32"), {}),
    (
        "tbyb-general", ("stable-diffusion-v1-5", 100, 7.5, "512x512", "open_clip:ViT-L-14/openai"),
        {"captioner": "blip-base", "paper_wording": True},
    ),
    (
        "oasis-nationalities", ("stable-diffusion-2-base", None, None, "", "open_clip:ViT-g-14/laion2b_s34b_b88k"),
        {"templates": "sdv2", "published_model": "SDv2"},
    ),
    (
        "internal-bias", ("stable-diffusion-2-base", None, None, "", "open_clip:ViT-B-32/openai"),
        {
            "text_targets": "keyword", "variant": True,
            "encoders": tuple(f"open_clip:{name}/openai" for name in (
                "RN50", "RN50x4", "RN50x16", "RN101", "ViT-B-16", "ViT-B-32",
            )),
        },
    ),
    ("pst-occupations", ("openai:dall-e-3", None, None, "", "auto"), {"answerer": "blip-vqa", "single_images": 3}),
])  # fmt: skip
def test_the_protocol_of_each_paper_is_filled_in(name, expected, options):
    settings = as_in_the_paper(name)
    names = ("model", "num_inference_steps", "guidance_scale", "size", "encoder")
    assert tuple(getattr(settings, name) for name in names) == expected
    values = option_values(settings.options)
    assert {key: values[key] for key in options} == options


def test_what_somebody_gives_stays_also_where_it_is_the_default():
    given = as_in_the_paper(
        "tbyb-general", model="calibration-renderer", num_inference_steps=7, options={"paper_wording": "false"}
    )
    assert (given.model, given.num_inference_steps, given.size) == ("calibration-renderer", 7, "512x512")
    assert given.options.paper_wording is False
    assert given.options.captioner == given.encoder == "auto"  # the readers of photographs do not know that world
    copied = replace(StudySettings(protocol="paper"), scale=0.5)
    assert settle(find_design("t2iat-tests"), copied).settings.model == "stable-diffusion-2-1"
    typed = StudySettings(protocol="paper", options=typed_options(find_design("tbyb-general"), {"sets": ["objects"]}))
    filled = settle(find_design("tbyb-general"), typed).settings.options
    assert (filled.sets, filled.captioner) == (("objects",), "blip-base")
    fair = settle(find_design("t2iat-tests"), StudySettings(protocol="paper", arms=(Arm(), Arm(size="64x64")))).settings
    assert (fair.size, fair.arms[1].size) == ("512x512", "64x64")


def test_a_study_that_follows_no_paper_says_so_and_has_no_checklist(real):
    assert explored(real, n_images=4, attributes=("man",)).results.frame("protocol").empty
    with pytest.raises(InvalidInput, match="explore follows no paper's protocol"):
        with_protocol(find_design("explore"), StudySettings(protocol="paper"))
    with pytest.raises(InvalidInput, match="“Protocol” must be one of paper; got 'book'"):
        StudySettings(protocol="book")


def test_a_protocol_that_names_no_setting_is_refused(tmp_path):
    values = yaml.safe_load(design_files()["t2iat-tests"].read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values | {"protocol": {"colour": {"value": "red"}}}))
    with pytest.raises(StorageError, match="no setting or option of it: colour"):
        get_protocol(find_design(str(path)))
    path.write_text(yaml.safe_dump(values | {"protocol": {"size": {"colour": "red"}}}))
    with pytest.raises(StorageError, match="an item of a protocol has value, says, also and here"):
        get_protocol(find_design(str(path)))
    path.write_text(yaml.safe_dump(values | {"protocol": {"size": {"value": "256x256"}}}))
    assert as_in_the_paper(str(path)).size == "256x256"  # its own item goes before the paper's


@pytest.fixture(scope="module")
def report(real):
    return complete(run_study(find_design("tbyb-general"), RENDERED, real))


def test_a_report_says_what_is_met_and_how_it_differs_wherever_it_goes(report):
    lines = checklist(report)
    assert set(lines["status"]) == STATUSES
    differing = lines[lines["status"] == "differs"]
    for item, paper, here in [
        ("Model", "Stable Diffusion v1.5", "calibration-renderer, published"),
        ("Number of denoising steps", "100", "none: the renderer draws by rules"),
        ("Guidance scale", "7.5", "none: the renderer draws by rules"),
        ("Picture size", "512x512", "128x128"),
        ("Number of pictures", "3,690 of 369 prompts", str(report.n_planned)),
        ("Encoder", "CLIP ViT-L/14", "calibration-clip"),
        ("Captioner", "BLIP", "calibration-captioner"),
        ("Wording of the prompts", "369 prompts", "33 prompts of the released lists"),
    ]:
        assert paper in differing.loc[item, "the paper"], item
        assert here in differing.loc[item, "this run"], item
    assert lines.loc["The paper's wording", "status"] == "met"
    assert lines.loc[["Sampler", "Seed", "Revision of the model"], "status"].eq("not printed").all()
    note = "calibration-renderer draws by rules, always 128x128 pixels, so the size of the settings has no effect."
    assert note in report.results.notes
    markdown = to_markdown(report)
    assert "## The paper's protocol: met, or how this run differs" in markdown
    for reading in readings_of_paper(report.design, report.settings):
        assert reading in markdown.replace("\\|", "|")
    assert "base captioner of BLIP" not in markdown  # another one described these pictures
    assert "tables/protocol" in to_export(report).tables
    assert {row["item"] for row in to_dict(report)["tables"]["protocol"]} >= {"Model", "Picture size", "Seed"}


def test_an_item_that_a_smaller_run_limits_is_not_met_and_values_are_in_words(real):
    human, bias = (
        checklist(complete(run_study(find_design(name), StudySettings(scale=0.01), real)))
        for name in ("t2iat-human", "internal-bias")
    )
    assert human.loc["Judged pictures", ["status", "this run"]].tolist() == ["differs", "8"]
    assert bias.loc["Words of A", ["status", "this run"]].tolist() == ["met", "as in the paper"]
    assert bias.loc["Poles", ["status", "this run"]].tolist() == ["differs", "yes"]


OWN_SCENES = {"triggers": ["pizza"], "scenes": ["a man eats a pizza", "a pizza on a table"]}
CHANGED = [  # a study, its options, what its summary then says, and what it no longer says
    ("causes", {"without_adapter": ""}, "same seeds.", "adapter"),
    ("explore", {"attributes": []}, "closer to “male” or “female”", "attribute"),
    ("explore", {"attribute_a": "", "attribute_b": ""}, "real-world rate", "closer"),
    ("internal-bias", {"targets": ["CEO", "Nurse"]}, "“CEO” and “Nurse”", "28 occupations"),
    ("internal-bias", {"words_a": ["old"], "words_b": ["young"]}, "with old or with young", "men"),
    ("internal-bias", {"poles": False}, "MCAS", "δ′"),
    ("oasis-internet-users", {"users": ["Nigerian=103"]}, "people of 4 nationalities", "Iranian"),
    ("oasis-nationalities", {"nationalities": ["Iranian"]}, "pictures of Iranian people", "Mexican"),
    ("oasis-spi", {"nationalities": ["Indian"]}, "pictures of Indian people", "Iranian"),
    ("oasis-stop", {"n_generated": 0}, "Mexican and American people", "draws"),
    ("pst-fairness", {"aspects": ["power"]}, "roles of power", "occupations"),
    ("pst-fairness", {"masculine": ["driver"]}, "occupations of your choice (driver)", "most stereotyped"),
    ("t2iat-human", {"tests": ["science_arts"]}, "closer to male.", "pleasant"),
    ("t2iat-tests", {"tests": ["science_arts"]}, "Tests science and arts.", "flowers"),
    ("tbyb-controlled", {"conditions": ["fair", "backdoor"]}, "fair, backdoor (always planted)", "trigger ("),
    ("tbyb-controlled", {"prompts": "task_oriented"}, "with a trigger word, under", "without one"),
    ("tbyb-general", {"sets": ["professions"]}, "pictures of 40 professions", "objects and"),
    ("tbyb-general", {"person": False}, "pictures of 100 objects and of 40 professions", "people"),
    ("tbyb-task", OWN_SCENES, "scenes of your own with a pizza", "burger"),
]  # fmt: skip


@every([case for case in CHANGED if case[0] in design_files()])
def test_a_summary_says_what_the_options_ask_for(name, options, says, no_longer):
    design = find_design(name)
    usual = format_summary(design)
    changed = format_summary(design, settle(design, StudySettings(options=options)).settings)
    assert says in changed
    assert no_longer not in changed
    assert usual != changed


@every(list_designs())
def test_every_text_of_a_design_is_filled_in_and_no_number_in_it_contradicts_a_smaller_run(design):
    """A number in the texts of a design either comes from the run, or holds at every scale and for every option."""
    small = StudySettings(scale=1e-6)
    for settings in (settle(design, StudySettings()).settings, settle(design, small).settings):
        texts = [format_summary(design, settings), *readings_of_paper(design, settings)]
        assert not [text for text in texts if re.search(r"\{(?!occ1|occupation|\})", text)], texts
    fixed = re.findall(r"\b\d+\b|\btwo\b|\bthree\b|\bfour\b|\bsix\b|\btwenty\b", design.summary)
    assert set(fixed) <= {"two"}, fixed  # two people, two orders: no option changes them


def test_words_of_ones_own_are_in_the_summary_too():
    concepts = own_concepts(
        find_design("oasis-stop"), concepts=["nurse"], template="a photo of a {}", attributes=(), n=8
    )
    assert "pictures of “nurse” into clusters" in format_summary(concepts)
    assert format_summary(own_targets("judge")).startswith(
        "Are the pictures of “judge” more closely associated with men"
    )
    braces = own_association("{fruit}: apple, pear", "Tools: saw, axe", "happy", "sad")
    assert format_summary(braces).startswith("Are pictures of {fruit} closer to happy than to sad")


def test_how_imported_pictures_were_drawn_is_not_known_and_no_reader_is_named_that_did_not_read(real, tmp_path):
    drawn = complete(run_study(find_design("tbyb-task"), StudySettings(scale=1e-6, options={"base": False}), real))
    images = [ExportedImage(path=real.images.get(row).path, row=row) for row in real.manifests.get(drawn.run_id).rows]
    path = write_zip(Export(images=images, tables={}, report={}, markdown=""), tmp_path / "brought.zip")
    brought = complete(run_study(find_design("tbyb-task"), StudySettings(images=str(path)), real))
    lines = checklist(brought)
    for item in ("Model", "Number of denoising steps", "Guidance scale", "Sampler", "Seed", "Revision of the model"):
        assert lines.loc[item, "this run"] == "not known: the pictures are imported", item
        assert lines.loc[item, "status"] != "met", item
    assert lines.loc["Number of pictures", "this run"] == f"{brought.n_images} of 6 prompts"
    assert not {"Model", "Condition"} & set(settings_table(brought.design, brought.settings).frame["setting"])
    options = {"finder": "halves", "answerer": "blip-vqa"}
    pairs = complete(run_study(find_design("pst-occupations"), StudySettings(scale=1e-6, options=options), real))
    assert checklist(pairs).loc["Answerer", ["this run", "status"]].tolist() == ["none: this run uses none", "differs"]


def test_each_arm_has_its_own_lines(services):
    arms = parse_arms(["condition=fair", "template={}, in watercolour"])
    settings = StudySettings(scale=0.005, arms=arms, options={"tests": ["science_arts"]})
    report = complete(run_study(find_design("t2iat-tests"), settings, services))
    lines = report.results.frame("protocol")
    assert list(dict.fromkeys(lines["arm"])) == [*(arm.name for arm in report.settings.arms), ""]
    wording = lines[lines["item"] == "Wording of the prompts"]
    assert list(wording["status"]) == ["met", "differs"]
    assert "in watercolour" in wording["this run"].iloc[1]
    assert set(lines[lines["arm"] == ""]["status"]) == {"our reading"}


def test_auto_takes_the_papers_reader_for_pictures_of_no_world_where_it_fits(services, monkeypatch):
    monkeypatch.setattr(type(services), "fitting_readers", lambda _self, _role: ("open_clip:ViT-L-14/openai",))
    monkeypatch.setattr(services, "settings", services.settings.model_copy(update={"offline": False}))
    settings = StudySettings(model="stable-diffusion-v1-5", scale=0.005)
    plan = plan_study(find_design("tbyb-general"), settings, services, estimate=True)
    assert plan.settings.encoder == "open_clip:ViT-L-14/openai"
    drawn = plan_study(find_design("tbyb-general"), StudySettings(scale=0.005), services, estimate=True)
    assert drawn.settings.encoder == "calibration-clip"
    monkeypatch.setattr(type(services), "fitting_readers", lambda _self, _role: ())
    plan = plan_study(find_design("tbyb-general"), settings, services, estimate=True)
    assert plan.settings.encoder != "open_clip:ViT-L-14/openai"


def test_before_a_run_it_is_said_what_replicating_takes_and_what_cannot_be_met(services):
    plan = plan_study(find_design("tbyb-general"), StudySettings(protocol="paper"), services, estimate=True)
    line = replication_estimate(plan)
    assert line.startswith("4,200 pictures with Stable Diffusion 1.5 (2.7 GB download) at 512x512 pixels, 100 steps")
    assert "classified by OpenAI ViT-L/14 (1.7 GB download) and BLIP base captioner (1 GB download)" in line
    assert "time unknown here; to estimate it, draw 8 first" in line
    assert "Not possible here: " in line
    assert "the paper: 369 prompts of 123 objects with three actions each" in line
    hosted = plan_study(find_design("pst-occupations"), StudySettings(protocol="paper"), services, estimate=True)
    assert "920 requests to openai:dall-e-3" in replication_estimate(hosted)
    assert "set BIAS_IMAGES_URL" in replication_estimate(hosted)


def test_the_command_line_says_it_and_draws_nothing(tmp_path, assets):
    command = shared.command_line(tmp_path, assets)
    command.environment["COLUMNS"] = "300"
    result = command("study", "run", "t2iat-occupations", "--protocol", "paper", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "2,400 pictures with Stable Diffusion 2.1" in result.output
    assert "50 steps, guidance 7.5" in result.output
    assert not list(tmp_path.glob("images/*/*.png"))


def test_pictures_and_runs_keep_their_ids(services):
    row = ImageRow(prompt="a photo of a doctor", seed=3, model="calibration-renderer", width=128, height=128)
    assert row.id == "bc8d383444869229cd22"  # as before rows had a sampler
    assert row.id != replace(row, sampler="ddim").id != replace(row, sampler="euler").id
    plan = plan_study(find_design("t2iat-tests"), StudySettings(scale=0.01), services)
    several = StudySettings(scale=0.01, arms=(Arm(), Arm(condition="fair")))
    arms = plan_study(find_design("t2iat-tests"), several, services)
    assert (plan.manifest.id, arms.manifest.id) == ("8ad49d9f766c10a9", "17dd41f852b0cac4")


def test_words_for_readers_change_no_run_and_all_else_of_a_design_does(services):
    design, settings = find_design("tbyb-general"), StudySettings(scale=0.01)
    assert design.notes
    assert "notes" not in design.data
    before = plan_study(design, settings, services, measure=False).manifest.id
    reworded = replace(
        design,
        title="Another title",
        summary="Another summary.",
        where="Table 9",
        notes=["Another note."],
        our_reading=["Another reading."],
        published_size="9 pictures",
        protocol={},
    )
    assert reworded == design
    assert is_shipped(reworded)
    assert plan_study(reworded, settings, services, measure=False).manifest.id == before
    assert replace(design, data={**design.data, "notes": ["An older note."]}) == design
    decides = {"name", "kind", "reference", "data", "images_per_prompt", "options", "settings"}
    assert decides == {one.name for one in fields(design) if one.compare}
    other = replace(design, images_per_prompt=11)
    assert other != design
    assert plan_study(other, settings, services, measure=False).manifest.id != before


def test_rows_have_the_size_and_the_sampler_that_are_asked_for(services):
    design = find_design("t2iat-tests")
    sized = StudySettings(model="calibration-diffusion", scale=0.005, size="96x64")
    assert {(row.width, row.height) for row in plan_study(design, sized, services).manifest.rows} == {(96, 64)}
    for given, words in (
        ({"size": "100x100"}, "multiples of 8"),
        ({"size": "8x8"}, "“Picture size” must be a text such as 512x512"),
        ({"sampler": "ddim"}, "calibration-diffusion cannot be drawn with the sampler ddim: it is a flow model"),
    ):
        with pytest.raises(InvalidInput, match=words):
            plan_study(design, StudySettings(model="calibration-diffusion", scale=0.005, **given), services)
    asked = StudySettings(model="stable-diffusion-v1-5", scale=0.005, size="512x512", sampler="ddim")
    (first, *_) = plan_study(design, asked, services, estimate=True).manifest.rows
    assert (first.width, first.sampler) == (512, "ddim")
    with pytest.raises(InvalidInput, match=r"openai:some has no sampler that can be chosen"):
        plan_study(design, StudySettings(model="openai:some", scale=0.005, sampler="ddim"), services, estimate=True)


def test_words_of_ones_own_follow_no_paper_and_a_written_design_keeps_its_protocol(tmp_path):
    own = own_targets("judge | an image of a judge")
    assert not own.protocol
    assert not own.our_reading
    design = find_design("t2iat-tests")
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(asdict(design)))
    read = find_design(str(path))
    assert (read.protocol, read.our_reading) == (design.protocol, design.our_reading)
    path.write_text(yaml.safe_dump(asdict(replace(design, protocol={}, our_reading=()))))
    assert not find_design(str(path)).protocol
    assert is_shipped(design)


@pytest.fixture
def replicating(tmp_path):
    services = FakeServices(tmp_path)
    yield services, built(Association, services)
    services.close()


def pressed(tab, button, study="t2iat-human"):
    """First and last update of the page after a click on a paper's button."""
    first, *_, last = tab.on_replicate(button, Visitor(), {"study": study} | FAIR)
    return first, last


FAIR = {"model": "calibration-renderer", "condition": "fair"}


def test_replicating_runs_the_papers_design_on_the_chosen_model_as_far_as_the_limits_let_it(replicating):
    services, tab = replicating
    services.settings = services.settings.model_copy(update={"max_images": 200})
    first, last = pressed(tab, "replicate")
    for shown in (first, last):
        filled = {name: shown[component] for name, component in tab.form.items() if component in shown}
        filled |= plain_of(tab, shown) | {"model": filled["model"]}
        # The paper's sampling and its readers, "auto" for those that the calibration world has in their place.
        assert [str(filled[name]) for name in ("model", "steps", "guidance", "size", "encoder")] == [
            "calibration-renderer", "50", "7.5", "512x512", "auto",
        ]  # fmt: skip
        assert filled["condition"]["value"] == "fair"
    report = last[tab.parts["report"]]
    assert report.n_images <= 200 < count_requested_pictures(a_bit_more(report))
    assert filled["percent"] == 100 * report.settings.scale
    html = last[tab.parts["beside_paper"]]
    assert "<details" not in html  # open
    for words in ("protocol met?", "stable-diffusion-2-1 (section 4.2)", "differs", f">{report.n_images} of "):
        assert words in html
    printed = [f for f in report.results.findings if f.published is not None]
    assert printed
    assert all(f.title in html for f in printed)
    assert tab.finished(report)[tab.parts["beside_paper"]] == ""  # of a run that replicates nothing


def a_bit_more(report):
    return settle(report.design, replace(report.settings, scale=report.settings.scale + 0.01))


def test_what_is_refused_as_too_large_is_run_by_a_button_at_the_largest_share_that_fits(replicating):
    services, tab = replicating
    values = form_values(tab, {"study": "t2iat-human", "percent": 100})
    largest, limits = tab.parts["largest"], services.settings
    services.settings = limits.model_copy(update={"max_images": 200})
    *_, refused = tab.on_run(Visitor(), values)
    assert refused[largest]["visible"]
    assert "at most 200 here" in refused[tab.parts["status"]]
    *_, last = tab.on_largest(Visitor(), values)
    report = last[tab.parts["report"]]
    assert report.n_planned <= 200 < count_requested_pictures(a_bit_more(report))
    assert last[tab.form["percent"]] == 100 * report.settings.scale
    assert not last[largest]["visible"]
    services.settings = limits.model_copy(update={"max_images": 5})
    *_, refused = tab.on_run(Visitor(), values)
    assert not refused[largest]["visible"]  # no share fits
    # Steps and pixels count too: 200 pictures' worth of what this model takes for each.
    values |= {"model": "calibration-diffusion", "steps": "2"}
    info = services.model_info("calibration-diffusion")
    work = 200 * 2 * info.width * info.height / 1e6
    services.settings = limits.model_copy(update={"max_megapixel_steps": work})
    *_, refused = tab.on_run(Visitor(), values)
    assert "million pixels times steps" in refused[tab.parts["status"]]
    assert "ask for a scale of 0.0" in refused[tab.parts["status"]]
    assert refused[largest]["visible"]
    *_, last = tab.on_largest(Visitor(), values)
    assert 0 < last[tab.parts["report"]].n_planned <= 200


def test_how_much_is_replicated_follows_from_the_time_of_a_picture_and_what_does_not_fit_is_refused(replicating):
    services, _ = replicating
    design = find_design("t2iat-human")
    settings = papers_settings(design, services, model="calibration-renderer", condition="fair", scale=0.02)
    asked = StudySettings(model="calibration-renderer", condition="fair", scale=0.02)
    n = count_requested_pictures(settle(design, asked))
    services.rates.find = lambda *_: Rate(seconds=600 / n, n_bytes=1, n=99)  # ten minutes for so many pictures
    assert complete(replicate(settle(design, settings), services)).n_planned == n
    services.rates.find = lambda *_: None  # nobody knows: the scale of the settings
    assert complete(replicate(settle(design, settings), services)).settings.scale == 0.02
    with pytest.raises(InvalidInput, match=r"1 % of “.*” is \d+ pictures, but only 5 can be drawn here"):
        complete(replicate(settle(design, settings), services, budget=5))


def test_the_papers_model_runs_or_says_why_not_in_one_place_that_names_no_variable(replicating, monkeypatch):
    services, tab = replicating
    (refused,) = tab.on_replicate("replicate_theirs", Visitor(), {"study": "t2iat-human"} | FAIR)
    said = [html for html in refused.values() if isinstance(html, str) and html]
    assert len(said) == 1
    assert (
        "Stable Diffusion 2.1 cannot draw here: its weights are not on this machine, and downloads are off" in said[0]
    )
    assert "BIAS_" not in said[0]
    fits = ModelFit(is_local=True, works=True, short="", says="")
    monkeypatch.setattr(services, "model_fit", lambda _name: fits)
    services.settings = services.settings.model_copy(update={"max_images": 200})
    _, last = pressed(tab, "replicate_theirs")
    report = last[tab.parts["report"]]
    assert (report.settings.model, report.settings.num_inference_steps) == ("stable-diffusion-2-1", 50)
    assert "BIAS_" not in str(last)
    assert tab.on_study(form_values(tab))[tab.parts["status"]] == ""  # a refusal goes with its study
    with pytest.raises(InvalidInput, match="names no model"):
        papers_settings(find_design("tbyb-dataset"), services)
