"""Four answers about how people look: what raters' answers say, and what a run is corrected to."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bias_core.annotation.collected import GivenAnswer, LabelledItem, TaskProgress
from bias_core.annotation.tasks import Item, pst_task
from bias_core.labels.report import label_report
from bias_core.labels.sources import Candidate, recorded_answers
from bias_core.metrics.paired_labels import ANDROGYNOUS, CANNOT_IDENTIFY
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.headline import headline
from bias_core.studies.paired.labelling import chosen, relabelled, with_answers
from bias_core.studies.paired.tab import Labelling, labels_html
from bias_core.studies.running.corrected import Corrector, _score, _unclear
from bias_core.studies.running.run import complete, run_study
from bias_core.studies.running.run_readings import CODES, Reading
from tests import shared

services = shared.fake_services

LETTERS = {"f": "feminine", "m": "masculine", "a": "androgynous", "u": "unclear"}
FOUR = pst_task(paired=False, looks="four")


def labelled(pictures):
    """Pictures with a letter of each rater."""
    items = []
    for number, letters in enumerate(pictures):
        item = Item(id=number, picture="0", image_id=str(number), identities={"single": "nurse"})
        given = [
            GivenAnswer(item=item, rater=f"r{k}", choices={"single": LETTERS[one]}, task_version=1, seconds=1.0, at="")
            for k, one in enumerate(letters)
        ]
        items.append(LabelledItem(item=item, answers=given))
    return items


def progress(task, n):
    return TaskProgress(
        task=task, join_code="", n_items=n, n_gold_items=0, n_complete=n, n_answers=2 * n, n_wanted=2 * n, raters=(),
        n_deleted_raters=0, n_deleted_answers=0,
    )  # fmt: skip


def test_the_report_tells_agreement_over_four_and_over_two_and_what_raters_disagree_about():
    pictures = ["ff", "fa", "fa", "mm", "mm", "aa", "uu", "fm"] * 3
    results = label_report(progress(FOUR, len(pictures)), labelled(pictures)).results
    found = {one.key: one.estimate.value for one in results.findings}
    # f f 3, m m 6, f m 3 of two answers each: o = 3 · 2 / 24, e = 2 · 9 · 15 / (24 · 23), alpha = 1 - o / e
    assert found["alpha_two"] == pytest.approx(1 - (6 / 24) / (2 * 9 * 15 / (24 * 23)))
    assert found["alpha"] != pytest.approx(found["alpha_two"])
    between = results.frame("between").iloc[0]
    assert {between["one answer"], between["other answer"]} == {"feminine", "androgynous"}
    assert between["share of disagreement"] == pytest.approx(2 / 3)
    assert results.frame("coverage")["usable"][0] == 12  # ff, mm, mm, aa; not uu, and no majority of two who differ
    of_two = label_report(progress(pst_task(paired=False), 4), labelled(["ff", "fm", "mm", "fm"])).results
    assert "alpha_two" not in {one.key for one in of_two.findings}
    assert "between" not in {one.key for one in of_two.tables}


def test_what_is_on_record_is_an_answer_of_the_task():
    for look in ("androgynous", "unclear"):
        truth: Mapping[str, object] = {"n_people": 1, "gender": look}
        one = Candidate(image_id="1", identities={}, path=Path("1.png"), number=1, prompt="", truth=truth)
        assert recorded_answers(one, FOUR) == {"single": look}
        assert recorded_answers(one, pst_task(paired=False)) == {"single": CANNOT_IDENTIFY}


def test_people_who_look_androgynous_count_for_neither_side_in_a_corrected_score():
    n, codes = 400, np.tile([1, 1, 0, 1], 100)
    reading = Reading(
        arm="", group="single", attribute=None, image_ids=tuple(map(str, range(n))), positions=("single",) * n,
        codes=codes, stereotypes=("feminine",) * n,
    )  # fmt: skip
    people = np.full(n, np.nan)
    people[:200] = np.where(codes[:200] == 1, np.tile([1, 1, CODES[ANDROGYNOUS]], 67)[:200], 0)
    shares = Corrector(settings=StudySettings(), rater_weights=np.ones((4000, 1)), strata={}).shares(
        reading, people[:, None]
    )
    assert shares is not None
    p_neither = np.mean(people[:200] == CODES[ANDROGYNOUS])
    assert _score(shares.value) == pytest.approx(100 * (0.75 - p_neither - 0.25), abs=0.2)
    assert _unclear(reading, shares) == []  # who looks androgynous is not untold
    assert set(reading.only(codes == 1).labels["perceived_gender"]) == {"feminine"}


def test_labels_by_hand_may_be_any_of_the_four():
    import pandas as pd

    people = pd.DataFrame(
        {"image_id": "p", "position": ["left", "right"], "perceived_gender": "not_two_people", "human": None,
         "automatic": "not_two_people", "rater": "automatic"}
    )  # fmt: skip
    step = chosen(people, ("p", "left"), "androgynous")
    assert step == {("p", "left"): "androgynous", ("p", "right"): CANNOT_IDENTIFY}
    assert chosen(with_answers(people, step), ("p", "right"), "unclear") == {("p", "right"): "unclear"}


def test_people_who_are_labelled_androgynous_count_for_neither_side_in_the_paired_test(services):
    own = {"aspects": ("occupation",), "masculine": ("carpenter", "mover"), "feminine": ("nurse", "secretary")}
    settings = StudySettings(model="calibration-renderer", options=own)
    drawn = complete(run_study(find_design("pst-fairness"), settings, services))
    on_the_left = drawn.results.frame("labels").query("position == 'left'")["image_id"]
    by_hand = {(image_id, "left"): ("androgynous", "unclear")[i % 2] for i, image_id in enumerate(on_the_left)}
    report = relabelled(drawn, by_hand)
    labels = report.results.frame("labels")
    plain = labels[labels["setting"] == "paired"]
    usable = plain[plain["answer"].isin(("feminine", "masculine", "androgynous"))]
    sides = (usable["answer"] == usable["stereotyped_gender"]).mean()
    against = ((usable["answer"] != usable["stereotyped_gender"]) & (usable["answer"] != "androgynous")).mean()
    score = report.results.findings[0]
    assert score.estimate.value == pytest.approx(100 * (sides - against))
    assert "count for neither side" in score.says
    assert {"androgynous %", "unclear %", "lowest STS", "highest STS"} <= set(report.results.frame("coverage"))
    assert "look androgynous and then count for neither side" in headline(report)
    assert 'value="androgynous"' not in labels_html(Labelling(drawn=drawn))
    page = labels_html(Labelling(drawn=report))
    assert page.count('value="androgynous"') == page.count('value="unclear"') > 0
    assert 'value="cannot_identify"' not in page
