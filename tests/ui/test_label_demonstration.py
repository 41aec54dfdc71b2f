"""The demonstration of the Label tab: what a third rater changes, and that nothing of it is kept."""

import json
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

from bias_core.errors import InvalidInput, StorageError
from bias_core.labels.demonstration import FILE, YOU, Demonstration
from bias_core.labels.tab_demonstration import DemonstrationPart, comparison_html
from bias_core.metrics.agreement import krippendorff_alpha
from bias_core.settings import ASSETS
from bias_core.studies.reports.figures import to_bytes


@pytest.fixture(scope="module")
def demonstration():
    return Demonstration.read(ASSETS)


def test_it_is_a_handful_of_small_pictures_on_which_two_raters_agree_in_part(demonstration):
    assert len({path.read_bytes() for path in demonstration.pictures}) == len(demonstration.pictures) > 5
    assert sum(path.stat().st_size for path in demonstration.pictures) < 20_000
    assert demonstration.ratings.shape[1] == 2
    assert 0 < demonstration.before.value < 1
    assert set(demonstration.ratings.to_numpy().ravel()) <= set(demonstration.answers)


def test_a_third_rater_s_answers_change_agreement_as_the_coefficient_says(demonstration):
    for choices in (list(demonstration.ratings["rater A"]), ["cannot_identify"] * len(demonstration.ratings)):
        comparison = demonstration.compared(choices)
        third = np.column_stack([demonstration.ratings.to_numpy(), choices])
        assert comparison.after.value == pytest.approx(krippendorff_alpha(third))
        assert comparison.after.n == len(choices)
        way = "more" if comparison.after.value > demonstration.before.value else "less"
        assert comparison.says.endswith(f": {way} agreement on these pictures.")
        alike = [len(set(said)) == 1 for said in third.tolist()]
        assert f"raters say the same of {sum(alike)} of {len(alike)}" in comparison.says
        assert [one for *_, one in comparison.rows] == alike
        figure = comparison.figure
        assert figure.data["value"].tolist()[:2] == [demonstration.before.value, comparison.after.value]
        assert to_bytes(figure)
        html = comparison_html(comparison)
        assert comparison.says in unescape(html)
        assert html.count("<tr class=") == len(choices)


def test_one_who_says_what_a_rater_said_agrees_with_that_one_wholly(demonstration):
    comparison = demonstration.compared(list(demonstration.ratings["rater B"]))
    pair = comparison.figure.data.set_index("name")["value"]
    assert pair[f"{YOU} and rater B"] == 1
    assert pair[f"{YOU} and rater A"] == pytest.approx(demonstration.before.value)


def test_other_answers_are_refused_in_one_sentence(fakes):
    part = DemonstrationPart(fakes)
    for answers in ("", "feminine", "feminine," * 9, "feminine,<i>," * 4):
        html = part.on_answers(SimpleNamespace(answers=answers))
        assert "the demonstration asks for 8 answers of feminine, masculine, cannot_identify" in html
        assert "<i>" not in html
        with pytest.raises(InvalidInput):
            part.demonstration.compared(answers.split(","))


def test_nothing_of_it_is_kept_and_no_store_of_labels_is_opened(fakes):
    part = DemonstrationPart(fakes)
    before = sorted(fakes.settings.data_dir.rglob("*"))
    event = SimpleNamespace(answers=",".join(part.demonstration.ratings["rater A"]))
    assert "Before you, rater A and rater B" in part.on_answers(event)
    assert sorted(fakes.settings.data_dir.rglob("*")) == before
    assert not (fakes.settings.data_dir / "labels.sqlite").exists()
    assert YOU not in part.demonstration.ratings


def test_a_broken_one_is_said(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / FILE).write_text(json.dumps({"question": "?", "answers": {}, "pictures": [{}]}))
    with pytest.raises(StorageError, match="demonstration"):
        Demonstration.read(tmp_path)
