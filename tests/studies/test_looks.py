"""How people look in four: read from pictures by a head, by sentences, by a judge; and as a report shows it."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.perceived_gender import gender_lean
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.arms.statistics import mean_sample
from bias_core.studies.explore.headline import arms_headline, headline
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.study import explore
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, ArmReport, Results, StudySettings, StudyTable
from bias_core.studies.paired.headline import headline as paired_headline
from bias_core.studies.paired.tab import Labelling, labels_html
from bias_core.studies.reports.looks import (
    LOOKS,
    LookReading,
    judged_looks,
    look_results,
    looks_headline,
    looks_over_arms,
)
from bias_core.studies.running.run import complete, run_study
from bias_core.types import ClassErrors
from bias_core.world.perceived_gender import CUT_OUT, PERCEIVED_GENDER, load_gender_head, scenes_in_four
from bias_core.world.scene import GENDERS
from bias_core.world.shapes import ASSETS
from tests.adapters.test_judges import save_llava
from training.perceived_gender import pictures_of
from validation import find_study, people, validity_studies

LEAN = "Masculine less feminine, of those who can be told"
PLAIN = {"attributes": (), "attribute_a": "", "attribute_b": "", "in_four": True}


def sample_of(values):
    return mean_sample([f"0:{i}" for i in range(len(values))], values)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    services = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield services
    services.close()


def reading(counts, errors=None):
    return LookReading(
        places=np.repeat(np.arange(4), counts), leans=np.zeros(sum(counts)), errors=errors, reader="somebody"
    )


def test_the_looks_of_the_world_are_those_that_are_read():
    assert tuple(LOOKS) == GENDERS == load_gender_head(PERCEIVED_GENDER).classes


def test_the_head_belongs_to_the_shipped_encoder():
    record = json.loads((ASSETS / "heads" / "perceived_gender.json").read_text())
    assert record["encoder"] == hashlib.sha256((ASSETS / "clip" / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize(("name", "pairs"), [(PERCEIVED_GENDER, False), (CUT_OUT, True)])
def test_the_shipped_errors_are_those_of_new_people_too(shipped, name, pairs):
    images, truth = pictures_of(scenes_in_four("never seen", 120 // (1 + pairs), pairs=pairs))
    head = shipped.class_head("calibration-clip", "calibration-renderer", name)
    rows = shipped.encoder("calibration-clip").encode_images(images)
    errors = np.array(head.errors.counts)
    expected = np.trace(errors) / errors.sum()
    n_right = int((head.read(rows) == np.array(truth)).sum())
    assert n_right / 120 == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 120))
    assert (np.diag(errors) / errors.sum(axis=1)).min() > 0.85
    assert shipped.class_head("calibration-clip", "stabilityai/stable-diffusion-xl-base-1.0", name) is None


def test_an_exploration_tells_the_four_beside_what_was_drawn(shipped):
    report = explore("nurse", shipped, model="calibration-renderer", condition="spectrum", n_images=60, **PLAIN).report
    frame = report.results.frame("looks").set_index("look")
    assert frame["as drawn"].sum() == pytest.approx(1)
    assert (abs(frame["corrected"] - frame["as drawn"]) < 0.1).all()
    assert set(report.pictures["looks"]) <= set(LOOKS)
    assert "How people look in 60 pictures, with the reader’s errors taken out: feminine " in headline(report)
    figure = next(one for one in report.results.figures if one.key == "looks")
    assert (figure.kind, figure.labels["stacked"]) == ("bars", True)
    assert figure.data.groupby("name")["value"].sum().tolist() == pytest.approx([1, 1, 1])


def test_without_known_errors_nothing_is_corrected_and_that_is_said():
    results = look_results(reading([10, 5, 3, 2]), [], sample=sample_of, fixed_n=True, confidence=0.95)
    assert "corrected" not in results.frame("looks")
    assert "whose errors are not known" in results.tables[0].note
    assert looks_headline(results.frame("looks")).startswith(" How people look in 20 pictures, as read: feminine 50")


@pytest.mark.parametrize("who", ["encoder", "judge"])
def test_a_reader_of_a_real_class_whose_errors_nobody_knows_shows_what_it_reads_and_no_more(
    shipped, tiny_clip, tmp_path, who
):
    reader = {"encoder": str(tiny_clip)} if who == "encoder" else {"judge": str(save_llava(tmp_path))}
    report = explore(
        "nurse", shipped, model="calibration-renderer", condition="spectrum", n_images=20, **reader, **PLAIN
    ).report
    frame, note = report.results.frame("looks"), next(one.note for one in report.results.tables if one.key == "looks")
    assert frame["pictures"].sum() == 20
    assert not any("corrected" in one for one in (*frame, *(found.title for found in report.results.findings)))
    assert "whose errors are not known" in note
    assert "in 20 pictures, as read: feminine" in headline(report)
    assert set(report.pictures["looks"]) <= set(LOOKS)


def test_arms_are_compared_look_by_look_on_the_same_seeds(shipped):
    settings = explore_settings(
        concept="nurse", model="calibration-renderer", condition="spectrum", n_images=60, **PLAIN,
        arms=(Arm(name="nurse"), Arm(name="engineer", template="{nurse=engineer}")),
    )  # fmt: skip
    report = complete(run_study(find_design("explore"), settings, shipped))
    tests = report.results.frame("differences").set_index("finding")
    assert list(tests.index) == [*(f"{look}, corrected" for look in LOOKS), LEAN]
    row = tests.loc["masculine, corrected"]
    assert (row["low"] < row["drawn"] < row["high"], row["clear"]) == (True, "yes")
    frames = [arm.results.frame("looks").set_index("look")["corrected"] for arm in report.arms]
    for look in LOOKS:  # but for what is set to 0
        gap = frames[1][look] - frames[0][look]
        assert tests.loc[f"{look}, corrected", "difference"] == pytest.approx(gap, abs=0.01)
    assert tests.loc[LEAN, "difference"] > 0.5
    assert arms_headline(report).startswith("“masculine” is seen in ")
    seed = report.results.frame("seeds").iloc[0]
    assert set(seed["look"].split(" → ")) <= set(LOOKS)


def test_where_all_are_unclear_there_is_a_share_and_no_lean():
    results = look_results(reading([0, 0, 0, 9]), [], sample=sample_of, fixed_n=True, confidence=0.95)
    assert "looks-lean" not in {one.key for one in results.findings}
    assert results.frame("looks")["as read"].tolist() == [0, 0, 0, 1]


def test_where_pictures_were_drawn_until_it_was_clear_shares_are_as_read():
    errors = ClassErrors(classes=tuple(LOOKS), counts=tuple(map(tuple, (np.eye(4, dtype=int) * 50 + 1).tolist())))
    results = look_results(reading([10, 5, 3, 2], errors), [], sample=sample_of, fixed_n=False, confidence=0.95)
    assert "corrected" not in results.frame("looks")


def test_a_judge_that_says_yes_to_none_leaves_a_look_unclear():
    yes, no = [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]
    answers = np.array([[yes, no, no, no], [no, no, no, no], [no, [0.9, 0.05, 0.05], yes, no], [no, no, yes, no]])
    judged = judged_looks(answers, "the judge")
    assert judged.words == ["feminine", "unclear", "masculine", "androgynous"]
    assert judged.leans[0] == pytest.approx(-0.7)


def test_arms_stand_beneath_each_other():
    arms = [
        ArmReport(name=name, settings=StudySettings(), n_planned=4, n_images=4, results=Results(tables=(StudyTable(
            key="looks", title="", frame=pd.DataFrame({"look": list(LOOKS), "as read": shares}), note="",
        ),)))
        for name, shares in (("nurse", [0.5, 0.2, 0.2, 0.1]), ("engineer", [0.1, 0.6, 0.1, 0.2]))
    ]  # fmt: skip
    (figure,) = looks_over_arms(arms)
    assert figure.data["name"].unique().tolist() == ["nurse", "engineer"]
    assert looks_over_arms([]) == ()


def test_one_click_asks_for_the_four():
    preset = next(one for one in ExploreTab.presets if "four options" in one.name)
    assert preset.settings["options"]["in_four"] is True
    assert [arm.name for arm in preset.settings["arms"]] == ["nurse", "engineer"]
    assert explore_settings(concept="nurse", in_four=True).options.in_four


def paired(services, **options):
    own = {
        "aspects": ("occupation",),
        "masculine": ("carpenter", "mover"),
        "feminine": ("nurse", "secretary"),
        **options,
    }
    settings = StudySettings(model="calibration-renderer", condition="spectrum", options=own)
    return complete(run_study(find_design("pst-fairness"), settings, services))


def test_the_paired_test_labels_four_looks_and_scores_androgynous_people_for_neither_side(shipped):
    report = paired(shipped, looks="four")
    labels = report.results.frame("labels")
    assert set(labels["answer"]) <= {*LOOKS, "not_two_people"}
    assert "androgynous" in set(labels["answer"])
    assert (labels["answer"] == labels["truth"]).mean() > 0.7
    score = report.results.findings[0]
    plain = labels[labels["setting"] == "paired"]
    usable = plain[plain["answer"].isin(("feminine", "masculine", "androgynous"))]
    sides = (usable["answer"] == usable["stereotyped_gender"]).mean()
    against = ((usable["answer"] != usable["stereotyped_gender"]) & (usable["answer"] != "androgynous")).mean()
    assert score.estimate.value == pytest.approx(100 * (sides - against))
    assert "count for neither side" in score.says
    assert {"androgynous %", "unclear %", "lowest STS", "highest STS"} <= set(report.results.frame("coverage"))
    assert "look androgynous and then count for neither side" in paired_headline(report)
    page = labels_html(Labelling(drawn=report))
    assert page.count('value="androgynous"') == page.count('value="unclear"') > 0
    assert 'value="cannot_identify"' not in page


def test_the_questions_of_the_paper_know_two_looks(shipped):
    with pytest.raises(InvalidInput, match="the questions of vqa know two looks"):
        paired(shipped, looks="four", labeller="vqa")


GENDER = replace(find_study("validity-gender"), images_per_prompt=40)


def test_repeated_intervals_hold_the_shares_of_the_pool_and_the_check_can_fail(shipped, monkeypatch):
    def rows():
        how = {"repetitions": 3, "pool": 50}
        settings = StudySettings(model="calibration-renderer", options=how)
        with validity_studies():
            return complete(run_study(GENDER, settings, shipped)).results.frame("repetitions")

    right = rows()
    inside = (right["low"] <= right["target"] + 1e-9) & (right["target"] <= right["high"] + 1e-9)
    assert inside.mean() > 0.8
    in_fair = right[(right["condition"] == "fair") & right["variant"].isin(["androgynous", "unclear"])]
    assert set(in_fair["target"]) == {0.0}
    assert set(right["measure"]) == {"look_share", "gender_lean", "stereotype_test_score"}
    monkeypatch.setattr(people, "gender_lean", lambda *given, **how: gender_lean(*given, **how).scaled(1.0, 3.0))
    wrong = rows().query("measure == 'gender_lean'")
    assert not ((wrong["low"] <= wrong["target"]) & (wrong["target"] <= wrong["high"])).any()


def test_the_repetitions_ask_for_both_conditions():
    with pytest.raises(InvalidInput, match="conditions are fair, spectrum"):
        people.gender_shots(GENDER, StudySettings(options=people.GenderOptions(conditions=("fair", "extreme"))))
