"""Each paper's own comparison over models, made of what the arms found."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.object_bias import compare_models, normalise_over_models
from bias_core.papers.tbyb.report import compare_conditions, compare_datasets, compare_objects
from bias_core.report.arm_comparison import arms_as_columns, table_over_arms
from bias_core.report.figures import to_bytes
from bias_core.report.report_text import get_table
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design, get_study, list_designs
from bias_core.study.study import Study
from bias_core.study.types import Arm, ArmReport, Design, Finding, Results, Sample, StudySettings, StudyTable
from bias_core.types import Estimate
from tests import shared

services = shared.real_services

ARMS = (Arm(condition="fair"), Arm(condition="extreme"))
NAMES = ["fair", "extreme"]
ALONE = {"finder": "halves"}


@pytest.fixture(scope="module")
def reports(services):
    """A small report over two arms by study, run on first use."""
    kept = {}

    def report(name, **settings):
        if name not in kept:
            asked = StudySettings(arms=ARMS, **settings)
            kept[name] = complete(run_study(find_design(name), asked, services))
        return kept[name]

    return report


def own_lines(frame):
    return frame[~frame["arm"].str.endswith("in the paper")]


def figure(report, key):
    return next(figure for figure in report.results.figures if figure.key == key)


def test_pairs_alone_and_their_gap_stand_by_arm_and_beside_the_paper(reports):
    report = reports("pst-occupations", scale=0.01, options={**ALONE, "single_images": 1})
    frame = get_table(report, "table3_arms").frame
    lines = {key: rows.set_index("arm") for key, rows in frame.groupby("")}
    paired, gaps = lines["In pairs, all occupations"], lines["Gap, all occupations"]
    assert list(paired.index) == [*NAMES, "DALL-E 3, in the paper"]
    for arm in report.arms:
        (gap,) = [f for f in arm.results.findings if f.key == "gap_overall"]
        assert gaps.loc[arm.name, "value"] == gap.estimate.value
        assert gaps.loc[arm.name, "low"] == gap.estimate.low
    assert paired.loc["DALL-E 3, in the paper", "value"] == 47.375
    assert paired.loc["extreme", "value"] > paired.loc["fair", "value"]
    micro = figure(report, "figure3_arms")
    assert list(dict.fromkeys(micro.data["column"])) == NAMES
    assert set(figure(report, "figure4_arms").data["marker"]) == {"male-stereotyped", "female-stereotyped"}
    assert to_bytes(micro, "png").startswith(b"\x89PNG")
    fair = reports("pst-fairness", scale=0.01, options={**ALONE, "aspects": ["occupation"], "power_images": 1})
    table = get_table(fair, "table6_arms").frame
    assert list(own_lines(table)["arm"].unique()) == NAMES
    assert {"value", "low", "high"} <= set(table)


def test_every_test_has_its_effect_size_and_p_in_every_arm(reports):
    report = reports("t2iat-tests", scale=0.01, options={"tests": ["flowers_insects"]})
    frame = get_table(report, "table1_arms").frame.set_index("arm")
    for arm in report.arms:
        (row,) = get_table(arm, "table1").frame.to_dict("records")
        assert [frame.loc[arm.name, name] for name in ("S", "p", "d")] == [row["S"], row["p"], row["d"]]
    assert figure(report, "effect_sizes_arms").data["value"].tolist() == frame["d"].tolist()
    ranks = get_table(report, "ranks").frame.set_index("arm")
    assert ranks.loc["extreme", "rank"] == 1


def test_the_summary_of_internal_bias_has_ranks_and_the_published_models(reports):
    report = reports("internal-bias", scale=0.01)
    frame = get_table(report, "table4_arms").frame
    everything = frame[frame["targets"] == "overall"].set_index("arm")
    assert list(everything.index) == [*NAMES, "DALL-E 2, in the paper", "Stable Diffusion v2, in the paper"]
    for arm in report.arms:
        found = {finding.key: finding.estimate for finding in arm.results.findings}
        mcas = [f.estimate.value for f in arm.results.findings if f.key.startswith("mcas ")]
        assert everything.loc[arm.name, "mean MCAS"] == pytest.approx(np.mean(mcas))
        assert everything.loc[arm.name, "mean MCAS low"] == found["mean_mcas overall"].low
        assert everything.loc[arm.name, "mean δ"] == found["delta overall"].value
    assert sorted(everything.loc[NAMES, "rank of δ"]) == [1, 2]
    order = everything.loc[NAMES, "mean δ"].rank(ascending=False)
    assert everything.loc[NAMES, "rank of δ"].tolist() == order.tolist()
    compared = get_table(report, "differences").frame.set_index("finding")["compared on"]
    assert compared["All targets, mean MCAS"] == "same targets"


def test_scores_against_internet_users_have_a_colour_per_arm_and_a_marker_per_nationality(reports):
    report = reports("oasis-internet-users", scale=0.01)
    frame = get_table(report, "figure3_arms").frame
    assert len(frame) == 3 * len(NAMES)
    for summary in ("mean", "maximum"):
        shown = figure(report, f"figure3_{summary}")
        assert shown.data["marker"].nunique() == 3
        assert list(dict.fromkeys(shown.data["group"])) == NAMES
        assert sorted(shown.data["y"]) == sorted(frame[f"{summary} Ψ"])
    assert get_table(report, "correlations_arms").frame["arm"].tolist() == NAMES * 2


def test_doctors_stand_by_arm_with_what_a_nationality_adds(reports):
    report = reports("oasis-doctors", scale=0.01)
    frame = own_lines(get_table(report, "table2_arms").frame)
    assert frame["arm"].tolist() == NAMES * 3
    assert frame.loc[frame["concept"] != "doctor", "added"].notna().all()
    published = get_table(report, "table2_arms").frame.set_index(["concept", "arm"])["P"]
    assert published["Iranian doctor", "SDv3, in the paper"] == 1.0


def constant(value, n=5):
    """A finding that has one value whatever is drawn, and what it was computed from."""
    units = tuple(f"0:{i}" for i in range(n))
    sample = Sample(units=units, statistic=lambda _places: value)
    return Estimate(value=value, low=value, high=value, n=n, null_value=0.0), sample


def objects_of(name, *, of=("all prompts",), **measures):
    keys = {"B_D": "distribution_bias", "H_J": "hallucination", "M_G": "miss blank"}
    findings = []
    for part in of:
        for sign, key in keys.items():
            estimate, sample = constant(measures[sign])
            metric = "distribution_bias"
            findings.append(Finding(key=f"{part} {key}", title=sign, metric=metric, estimate=estimate, sample=sample))
    results = Results(findings=tuple(findings))
    return ArmReport(name=name, settings=StudySettings(), results=results, n_planned=5, n_images=5)


DESIGN = Design(name="d", title="d", kind="object_bias", reference="", where="", summary="")


def test_three_models_are_placed_and_ranked_as_by_hand():
    # B_D 8, 4, 6 -> 1 - (B_D - 4)/4 = 0, 1, 0.5.   H_J .6, .8, .7 -> (H_J - .6)/.2 = 0, 1, 0.5.
    # All agree in M_G: left out.   Distance: 0, sqrt(2), sqrt(.25 + .25).   Rank 1 is the farthest.
    given = (("a", 8.0, 0.6), ("b", 4.0, 0.8), ("c", 6.0, 0.7))
    arms = [objects_of(name, B_D=b_d, H_J=h_j, M_G=0.0) for name, b_d, h_j in given]
    results = compare_objects(StudySettings(), arms)
    frame = results.tables[0].frame.set_index("arm")
    assert frame["distance"].tolist() == pytest.approx([0, math.sqrt(2), math.sqrt(0.5)])
    assert frame["rank"].tolist() == [3, 1, 2]
    assert np.isnan(frame[["rank low", "rank high"]].to_numpy(float)).all()  # of fewer than ten pictures
    assert "M_G, blank" in results.tables[0].note
    ranked = compare_datasets(StudySettings(), arms).tables[0].frame
    assert ranked["arm"].tolist() == ["b", "c", "a"]


def test_conditions_of_several_models_are_placed_together():
    arms = [
        objects_of("one", of=("base", "extreme"), B_D=8.0, H_J=0.6, M_G=0.1),
        objects_of("two", of=("base", "extreme"), B_D=4.0, H_J=0.8, M_G=0.2),
    ]
    frame = compare_conditions(StudySettings(), arms).tables[0].frame
    assert frame["arm"].tolist() == ["one, base", "one, extreme", "two, base", "two, extreme"]
    assert frame["rank"].tolist() == [3.5, 3.5, 1.5, 1.5]


def test_a_measure_that_an_arm_lacks_is_left_out_and_named_and_models_that_agree_in_all_have_no_rank():
    first, second = (objects_of(n, B_D=8.0 - i, H_J=0.6 + i / 10, M_G=0.1 + i / 10) for i, n in enumerate("ab"))
    without = [f for f in second.results.findings if not f.key.endswith("distribution_bias")]
    second = replace(second, results=replace(second.results, findings=tuple(without)))
    (table,) = compare_objects(StudySettings(), [first, second]).tables
    assert table.frame["B_D"].isna().all()
    assert table.frame["rank"].tolist() == [2, 1]
    assert "B_D" in table.note.split("all lines agree:")[1]
    equal = compare_objects(StudySettings(), [first, replace(first, name="b")])
    assert "rank" not in equal.tables[0].frame
    assert not equal.figures


def test_many_models_at_once_are_normalised_as_one_table_is():
    values = np.random.default_rng(0).uniform(size=(7, 3))
    names = {"distribution_bias": 2, "hallucination": 3}
    compared = compare_models(pd.DataFrame({name: values[row] for name, row in names.items()}), dimensions=[*names])
    for name, row in names.items():
        assert normalise_over_models(values, name)[row] == pytest.approx(compared[f"normalised_{name}"])
    for refused in (([[1.0]], "hallucination"), ([1.0, 2.0], "height")):
        with pytest.raises(InvalidInput, match="two models or more"):
            normalise_over_models(*refused)


def test_lines_of_the_arms_stand_together_and_turn_into_columns():
    def arm(name, values):
        frame = pd.DataFrame({"what": ["x", "y"], "v": values, "v low": values, "left": 0})
        table = StudyTable(key="t", title="t", frame=frame)
        return ArmReport(name=name, settings=StudySettings(), results=Results(tables=(table,)), n_planned=1, n_images=1)

    arms = [arm("a", [1, 2]), arm("b", [3, 4])]
    frame = table_over_arms(arms, "t", ["what"], ["v"])
    values = {"v": [1, 3, 2, 4], "v low": [1, 3, 2, 4]}
    assert frame.to_dict("list") == {"what": ["x", "x", "y", "y"], "arm": ["a", "b", "a", "b"], **values}
    wide = arms_as_columns(frame, ["what"], "v")
    assert wide.to_dict("list") == {"what": ["x", "y"], "a": [1, 2], "a low": [1, 2], "b": [3, 4], "b low": [3, 4]}
    assert table_over_arms(arms, "none", ["what"], ["v"]).empty


def test_every_paper_compares_models():
    published = [design for design in list_designs() if design.reference]
    silent = {design.name for design in published if type(get_study(design)).compare is Study.compare}
    assert silent - {"causes", "causes-prior"} == {
        "oasis-spi",
        "oasis-stop",
        "t2iat-human",
    }  # of one model, and of people
