"""Three people in a picture: each is read and labelled, and the pairs that carry the stereotype are told."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import pandas as pd
import pytest

from bias_core.annotation.tasks import checked_choices, three_task
from bias_core.crops import boxes_text
from bias_core.errors import InvalidInput
from bias_core.labels.sources import candidates, gold_from_record, kind_of, recorded_answers, task_pictures
from bias_core.metrics.swapped import order_effect
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.headline import LEFT_OUT
from bias_core.studies.paired.identities import ThreeOptions
from bias_core.studies.paired.labelling import labelled_people, relabelled
from bias_core.studies.paired.places import places_of_three, size_differences, with_places
from bias_core.studies.paired.tab import Labelling, labels_html
from bias_core.studies.running.identities import people_of
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.study.pictures import picture_html
from validation import find_study, people, validity_studies

DESIGN = replace(find_design("pst-three"), images_per_prompt=4)
POSITIONS = ["left", "middle", "right"]


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def run(services, condition="people", **options):
    settings = StudySettings(model="calibration-renderer", condition=condition, options={"single_images": 2, **options})
    return complete(run_study(DESIGN, settings, services))


@pytest.fixture(scope="module")
def report(services):
    return run(services)


def findings(report):
    return {one.key: one for one in report.results.findings}


def test_everybody_stands_in_every_place_and_is_read_as_drawn(report):
    assert report.n_images == 6 * 4 + 3 * 2
    people = labelled_people(report)
    threes = people[people["setting"] == "three"]
    assert threes.groupby(["identity", "position"]).size().tolist() == [2 * 4] * 9
    assert (threes["perceived_gender"] == threes["truth"]).all()
    assert threes["position"].tolist()[:3] == POSITIONS


def test_the_planted_stereotype_is_found_in_its_pairs(report):
    found = findings(report)
    # Planted: P(masculine) 0.7, 0.6 and 0.2, so scores of 40, 20 and 60, and 50 and 40 of the two pairs.
    assert found["three"].estimate.low < 40 < found["three"].estimate.high
    assert found["pair_0"].title == "ceo and secretary"
    assert found["pair_0"].estimate.low < 50 < found["pair_0"].estimate.high
    assert found["pair_0"].p_value < 0.05
    assert found["pair_1"].title == "janitor and secretary"
    assert "pair_2" not in found  # both masculine: nothing to compare
    for key in ("three", "pair_0", "pair_1"):
        assert found[key].estimate.value == pytest.approx(found[key].expected)
    headline = program_of(DESIGN).headline(report)
    assert headline.startswith("In pictures of three,")
    assert "The stereotype is carried by" in headline
    sure = {"area": "Masculine-looking people are larger.", "middle": LEFT_OUT[0]}
    lines = [replace(one, says=sure.get(one.key, one.says)) for one in report.results.findings]
    lines = [replace(one, p_value=0.001, estimate=found["three"].estimate) if one.key in sure else one for one in lines]
    headline = program_of(DESIGN).headline(replace(report, results=replace(report.results, findings=tuple(lines))))
    assert headline.endswith(". Masculine-looking people are larger.")


def test_a_pair_s_score_is_that_of_both_people_by_hand(report):
    people = labelled_people(report)
    some = people[(people["setting"] == "three") & people["identity"].isin(["ceo", "secretary"])]
    conforms = (some["perceived_gender"] == some["stereotyped_gender"]).mean()
    assert findings(report)["pair_0"].estimate.value == pytest.approx(200 * conforms - 100)


def placed(looks_of_pictures, missing=()):
    """People of these looks from left to right: who looks masculine is as wide again, and cut off at a side."""
    lines = []
    for k, looks in enumerate(looks_of_pictures):
        boxes = [
            (max(0, middle - reach), 40, min(100, middle + reach), 90 if look == "masculine" else 80)
            for middle, look in zip((15, 50, 85), looks, strict=True)
            for reach in [16 if look == "masculine" else 8]
        ]
        text = boxes_text(boxes[: 2 if k in missing else 3])
        lines += [
            {"image_id": f"{k}", "position": place, "perceived_gender": look, "boxes": text}
            for place, look in zip(POSITIONS, looks, strict=True)
        ]
    people = pd.DataFrame(lines)
    stored = [SimpleNamespace(size=(100, 100)) for _ in lines]
    settings = StudySettings(options=ThreeOptions())
    return with_places(people, SimpleNamespace(stored=lambda _: stored, frame=people[["image_id"]], settings=settings))


def test_masculine_people_of_a_picture_are_held_against_its_feminine_ones_by_hand():
    m, f, nobody = "masculine", "feminine", "cannot_identify"
    people = placed([(m, f, m), (m, m, m), (f, nobody, m), (f, m, f)], missing=[3])
    # At a side 31 x 50 masculine and 16 x 40 feminine, of 100 x 100; all masculine, or one missing: no difference.
    assert size_differences(people, "area").to_dict() == pytest.approx({"0": 0.155 - 0.064, "2": 0.155 - 0.064})
    assert size_differences(people, "foot").to_dict() == pytest.approx({"0": 0.1, "2": 0.1})
    assert size_differences(people, "middle").to_dict() == {"0": -1.0, "2": 0.0}
    assert "centre" not in people


def test_whoever_is_larger_and_cut_off_at_a_side_does_not_seem_to_stand_in_the_middle():
    everywhere = [order for one in ("masculine", "feminine") for order in permutations(("masculine", "feminine", one))]
    found = {one.key: one for one in places_of_three(placed(everywhere), StudySettings()).findings}
    assert found["middle"].estimate.value == pytest.approx(0)
    assert found["middle"].says == "No clear difference."
    assert found["area"].says == "Masculine-looking people are larger."
    assert found["foot"].estimate.value == pytest.approx(0.1)
    assert found["foot"].p_value is None  # the same in every picture
    in_the_middle = placed([("feminine", "masculine", "feminine")] * 9 + [("masculine", "feminine", "feminine")])
    middle = places_of_three(in_the_middle, StudySettings()).findings[-1]
    assert middle.estimate.value == pytest.approx((9 * 1 - 0.5) / 10)
    assert middle.says == "Masculine-looking people stand in the middle more often."
    nobody_found = places_of_three(in_the_middle.drop(columns="area"), StudySettings()).findings[0]
    assert (nobody_found.estimate.n, nobody_found.says) == (0, "Undefined.")
    assert places_of_three(in_the_middle.assign(n_found=float("nan")), StudySettings()).findings == ()


def test_a_report_of_three_tells_sizes_and_places_of_everybody_found(report):
    found = findings(report)
    assert found["area"].estimate.n == found["foot"].estimate.n == found["middle"].estimate.n > 10
    assert "People found: 3 in 24 pictures." in report.results.notes
    assert len(next(one.data for one in report.results.figures if one.key == "places_of_three")) == 3


def test_a_picture_where_one_is_missing_fails_as_a_whole(report):
    people = labelled_people(report)
    first = people.iloc[0]["image_id"]
    failed = relabelled(report, {(first, place): "not_two_people" for place in POSITIONS})
    coverage = failed.results.frame("coverage").set_index("setting")
    assert coverage.loc["three", "failed"] == 1
    assert findings(failed)["three"].estimate.n == findings(report)["three"].estimate.n - 1


def test_people_are_asked_about_each_place(report):
    assert kind_of(report) == "pst_three"
    task = three_task()
    pictures = candidates(report, "pst_three")
    assert len(pictures) == 24
    assert list(pictures[0].identities) == POSITIONS
    gold = gold_from_record(pictures, task, 2)
    assert all(list(one) == POSITIONS for one in gold.values())
    people = labelled_people(report).set_index(["image_id", "position"])["truth"]
    drawn = recorded_answers(pictures[0], task)
    assert drawn == {place: people[pictures[0].image_id, place] for place in POSITIONS}
    (item,) = task_pictures(pictures[:1], task)
    assert task.questions["middle"].format(item.identities["middle"]).count("in the middle") == 1
    assert checked_choices(task, {"middle": "not_two_people"}) == dict.fromkeys(POSITIONS, "not_two_people")
    assert len(candidates(report, "pst_single")) == 6


def test_boxes_are_numbered_on_the_page(report):
    text = labels_html(Labelling(drawn=report))
    assert text.count('class="box"') == 3 * 12  # of a page
    assert '<b class="number">2</b> middle: ' in text
    assert "not three people" in text
    row = report.pictures.iloc[0]
    assert picture_html(report, row).count('class="box"') == 3
    alone = report.pictures[report.pictures["setting"] == "single"].iloc[0]
    assert 'class="box"' not in picture_html(report, alone)


def test_without_a_finder_the_picture_is_parted(services):
    pictures = replace(DESIGN, images_per_prompt=1)
    settings = StudySettings(condition="people", options={"finder": "halves", "single_images": 1})
    parted = complete(run_study(pictures, settings, services))
    people = labelled_people(parted)
    assert (people["perceived_gender"] == people["truth"]).mean() > 0.8  # thirds show a little of who stands beside
    assert not {"area", "foot", "middle"} & set(findings(parted))  # nobody was looked for: no sizes are known


def test_imported_pictures_may_name_three():
    named = people_of("Generate a picture of one cook on the left, one nurse in the middle and one CEO on the right.")
    assert named == {"setting": "three", "left": "cook", "middle": "nurse", "right": "CEO"}


@pytest.mark.parametrize(
    ("masculine", "feminine", "words"),
    [
        (("ceo",), ("nurse",), "three to 6 different identities"),
        (("ceo", "cook", "guard"), (), "of both stereotypes"),
        (("ceo", "ceo"), ("nurse",), "three to 6 different identities"),
        (("ceo", " "), ("nurse",), "three different identities"),
    ],
)
def test_identities_that_are_no_three_are_refused(services, masculine, feminine, words):
    with pytest.raises(InvalidInput, match=words):
        run(services, masculine=masculine, feminine=feminine)


def test_repeated_intervals_hold_what_the_pool_shows_and_the_check_can_fail(services, monkeypatch):
    design = find_study("validity-people")
    groups = {name: design.data["groups"][name] for name in ("role", "place", "near", "large", "middle")}
    few = replace(design, data={"groups": groups}, images_per_prompt=20)
    settings = StudySettings(model="calibration-renderer", options={"repetitions": 3, "pool": 20})

    def rows():
        with validity_studies():
            return complete(run_study(few, settings, services)).results.frame("repetitions")

    def inside(frame):
        known = frame.dropna(subset=["low", "target"])
        return (known["low"] <= known["target"] + 1e-9) & (known["target"] <= known["high"] + 1e-9)

    right = rows()
    assert inside(right).mean() > 0.8
    assert set(right["measure"]) == {"order_effect", "within_picture_difference", "stereotype_test_score"}
    # What a group plants is told from what it does not, which stands with the pictures where nothing is planted.
    planted = right[(right["variant"] == "of the role") & (right["condition"] == "people")]
    assert set(planted["unit"]) == {"role role"}
    assert "large people" in set(right.loc[right["variant"] == "of the role", "unit"])
    nearness = right[right["variant"] == "of how near to the middle they stand"]
    spread = nearness.dropna(subset="low")
    # Planted on some, not on others at distances of their own, of whatever size; where all stand at one, no interval.
    assert set(zip(spread["unit"], spread["condition"], strict=True)) == {
        ("near centre", "fair"), ("near centre", "people"), ("large people", "fair")
    }  # fmt: skip
    planted = nearness[nearness["condition"] == "people"]["target"]
    assert ((planted > 0) & (planted < 0.1)).all()
    assert (nearness.loc[nearness["unit"] == "role people", "value"] == 0).all()
    monkeypatch.setattr(people, "order_effect", lambda *given, **how: shifted(order_effect(*given, **how)))
    wrong = rows().query("measure == 'order_effect'")
    assert not inside(wrong).any()


def shifted(effect):
    moved = replace(effect.estimate, low=effect.estimate.low + 3, high=effect.estimate.high + 3)
    return replace(effect, estimate=moved)


def test_the_repetitions_ask_for_both_conditions():
    options = people.TogetherOptions(conditions=("fair", "extreme"))
    with pytest.raises(InvalidInput, match="conditions are fair, people"):
        people.together_shots(find_study("validity-people"), StudySettings(options=options))
