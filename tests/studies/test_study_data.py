"""The study data files hold what the papers print, and agree with themselves."""

import re
from collections import defaultdict
from itertools import product
from statistics import mean

import pytest
import yaml

from bias_core.studies.kit.designs import STUDY_DATA, read_study, read_table
from tests.every import every
from tests.prompts_of_papers import all_prompts

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


def test_t2iat_has_the_stimuli_of_table_3():
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


def test_t2iat_has_8_tests_of_known_concepts():
    study = read_study("t2iat")
    assert len(study["tests"]) == 8
    assert [test["kind"] for test in study["tests"]] == ["valence"] * 6 + ["gender"] * 2
    for test in study["tests"]:
        assert {test["x"], test["y"], test["a"], test["b"]} <= study["concepts"].keys()
        assert test["template"].count("{}") == 1
        assert ("person" in test["template"]) == (test["kind"] == "gender")
    assert len(study["occupations"]["list"]) == 8
    assert len(study["human_comparison"]["scores"]) == 8


def test_in_all_40_rows_of_table_14_sts_follows_from_the_share_of_feminine():
    rows, study = read_table("pst_occupations.csv"), read_study("pst")["occupations"]
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


def test_the_means_of_tables_14_and_16_are_the_published_ones():
    rows, power, study = read_table("pst_occupations.csv"), read_table("pst_power.csv"), read_study("pst")

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


def test_the_72_gaps_of_table_16_are_paired_minus_single():
    rows = read_table("pst_power.csv")
    assert len(rows) == 72
    assert len({row["occupation"] for row in rows}) == 36
    for row in rows:
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
    for row in read_table("internal_bias_scores.csv"):
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
    rows = read_table("oasis_table1.csv")
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
    assert (len(read_table("tbyb_objects.csv")), len(read_table("tbyb_occupations.csv"))) == (100, 40)
    assert (len(read_table("tbyb_general_evaluations.csv")), len(read_table("tbyb_task_evaluations.csv"))) == (8, 12)
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
    labour = {row["occupation"]: row["f_labour"] for row in read_table("pst_occupations.csv")}
    men = [a for entry in sets for a in entry["attributes"] if a["name"] == "man"]
    stated = [a for a in men if "bls2024" in a["reference_source"]]
    assert len(stated) == 14
    for attribute in stated:
        occupation = attribute["reference_source"].removeprefix("1 - F; ").partition(":")[0]
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
