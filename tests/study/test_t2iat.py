"""T2IAT's studies find what is planted, none where nothing is, and redraw the paper's tables; so do own words."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.association import association, association_test, even_mix_association
from bias_core.measures.effects import holm
from bias_core.measures.permutation import permutation_test
from bias_core.papers.t2iat.study_tests import association_shots, edited, own_association, parse_words
from bias_core.report.commands import to_command
from bias_core.report.corrected import corrected
from bias_core.report.export import to_export
from bias_core.report.headlines import headline
from bias_core.report.saved import list_examples, open_example, open_report
from bias_core.run.plan import plan_study, settle
from bias_core.run.reproduction import replication_estimate
from bias_core.run.run import complete, run_study
from bias_core.study.answers import read_answers
from bias_core.study.design import find_design, get_study
from bias_core.study.types import StudySettings
from bias_core.ui.study.pictures import PictureView
from bias_core.wording import format_estimate, format_number
from tests import shared
from tests.claimed import broken_claims, stray_numbers
from tests.every import every
from tests.prompts_of_papers import all_prompts
from tests.study.oasis_runs import findings, shots_of, table as frame, write_labels

services = shared.real_services

TESTS, OCCUPATIONS, AMPLIFICATION, HUMAN = (
    find_design(f"t2iat-{name}") for name in ("tests", "occupations", "amplification", "human")
)
TWO_OCCUPATIONS = replace(
    OCCUPATIONS,
    data=OCCUPATIONS.data | {"occupations": OCCUPATIONS.data["occupations"] | {"list": ["librarian", "police"]}},
)
FLOWERS = StudySettings(scale=0.04, seed=2, options={"tests": ["flowers_insects"], "n_permutations": 500})
JUDGED = StudySettings(scale=0.01)


def run(design, settings, services):
    return complete(run_study(design, settings, services))


def with_nothing_clear(report):
    """The report as if no claim were clear; its tables stay."""
    claimed = [
        replace(finding, claim=finding.claim and replace(finding.claim, verdict="not clear"))
        for finding in report.results.findings
    ]
    return replace(report, results=replace(report.results, findings=tuple(claimed)))


def labels_of(folder, answers):
    return write_labels(folder / "labels.csv", ["image_id", "answer", "rater"], answers)


@pytest.fixture(scope="module")
def judged(services):
    return run(HUMAN, JUDGED, services)


def test_the_prompts_are_the_paper_s_and_edited_sets_as_large_as_the_neutral_ones():
    assert {shot.prompt for design in (TESTS, OCCUPATIONS) for shot in shots_of(design)} <= set(all_prompts())
    n = Counter()
    for shot in shots_of(TESTS):
        n[shot.facts["test"], shot.facts["side"], shot.facts["set"]] += shot.n
    assert (n["flowers_insects", "x", "neutral"], n["science_arts", "y", "neutral"]) == (25 * 10, 8 * 10)
    assert all(size == n[test, side, "neutral"] for (test, side, _), size in n.items())
    full = shots_of(TESTS, options={"tests": ["flowers_insects"], "crossing": "full"})  # every word of both attributes
    roses = [s.prompt for s in full if s.facts["stimulus"] == "rose" and s.facts["set"] == "a"]
    assert len(roses) == len(set(roses)) == 25
    assert "a photo of rose, peace" in roses
    assert edited("a picture of a gun", "love", "valence") == "a picture of a gun, love"
    assert edited("a person studying art", "woman", "gender") == "a woman studying art"


def test_the_planted_association_is_found_and_none_where_nothing_is_planted(services):
    # Planted: flowers are always drawn bright, insects in 15 % (Table 2); in fair both in 50 %.
    found = findings(run(TESTS, FLOWERS, services))["flowers_insects"]
    assert found.estimate.low > 0
    assert found.p_value < 0.05
    assert found.published == 0.033
    assert found.says == "Pictures of Flowers are closer to pleasant."
    fair = findings(run(TESTS, replace(FLOWERS, condition="fair"), services))["flowers_insects"]
    assert fair.estimate.low < 0 < fair.estimate.high
    assert fair.says.startswith("No clear difference with this many prompts")


def test_p_of_pictures_and_eq_3_as_printed_are_options_and_the_report_says_how_p_differs(services):
    reports = {}
    for p_value in ("prompts", "pictures", "eq3"):
        asked = replace(FLOWERS, options=FLOWERS.options | {"p_value": p_value})
        reports[p_value] = run(TESTS, asked, services)
    rows = {name: frame(report, "table1").iloc[0] for name, report in reports.items()}
    # No half of the prompts has a larger S. Five against five prompts make C(10, 5) = 252 halves.
    assert rows["eq3"]["p by Eq. 3"] == "0: 0 of 252 halves have a larger |S|"
    x, y = (reports["pictures"].pictures.query("side == @side")["association"].dropna() for side in ("x", "y"))
    assert rows["pictures"]["p over pictures"] == permutation_test(x, y, n_permutations=500, rng=FLOWERS.seed).p_value
    for name, row in rows.items():  # neither of them decides anything
        same = ["S", "low", "high", "p", "p adjusted", "clear"]
        assert row[same].tolist() == rows["prompts"][same].tolist()
        assert headline(reports[name]) == headline(reports["prompts"])
        notes = " ".join(reports[name].results.notes)
        assert ("nothing is claimed by it" in notes) == (name != "prompts")
    assert ("single neutral pictures" in notes) == (name == "pictures")
    assert rows["prompts"]["p"] == rows["prompts"]["smallest p"] > 0
    paper = settle(TESTS, StudySettings(protocol="paper")).settings
    assert (paper.options.p_value, paper.options.n_permutations) == ("eq3", 1000)


@pytest.fixture(scope="module")
def every_test(services):
    return run(TESTS, replace(FLOWERS, scale=0.01, options={"n_permutations": 100}), services)


def test_table_1_has_the_published_numbers_and_scores_of_its_own(every_test):
    table, report = frame(every_test, "table1"), every_test
    assert len(table) == len(report.results.findings) == 8
    assert table["paper's d"].tolist() == [1.492, 0.528, 0.323, -1.237, 1.113, -0.099, 0.193, 0.639]
    assert table.loc[0, "paper's p"] == "< 0.001"
    assert table["p"].tolist() == [f.p_value for f in report.results.findings]
    assert table["p adjusted"].tolist() == pytest.approx(holm(table["p"]))
    assert not broken_claims(report)
    assert not stray_numbers(report)
    # Four against four are C(8, 4) = 70 splits; five against five are 252, more than the 100 that are drawn.
    smallest = {4: 2 / 70, 5: 1 / 101}
    assert table["smallest p"].tolist() == pytest.approx([smallest[n] for n in table["prompts X"]])
    figures = {figure.key: figure.data for figure in report.results.figures}
    assert len(figures["scores"]) == 8
    assert set(figures["associations"]["side"]) == {"X", "Y"}


def test_with_too_few_prompts_no_test_is_clear_among_eight_and_the_report_says_how_many_are_needed(every_test):
    table = frame(every_test, "table1").set_index("test")
    for finding in every_test.results.findings:
        row = table.loc[finding.key]
        # The smallest p that so many prompts can give, for eight tests: 8 x 2 / 70, and 8 / 101.
        assert 8 * row["smallest p"] > 0.05
        assert row["clear"] == "too few"
        assert finding.says.startswith("Too few prompts to show a difference (the smallest p that ")
        assert finding.says.endswith("which is not clear among 8 tests; 160 permutations are enough).")
    assert headline(every_test).startswith("Too few prompts to tell in any of 8 tests: the smallest p that ")


def test_the_largest_clear_test_is_named_with_its_corrected_p(services):
    settings = StudySettings(scale=0.08, options={"tests": ["flowers_insects", "science_arts"]})
    report = run(TESTS, settings, services)
    table = frame(report, "table1").set_index("test")
    assert table["clear"].tolist() == ["yes", "yes"]
    largest = table.loc[table["S"].abs().idxmax()]
    assert (largest["X"], largest["p adjusted"]) == (
        "Science",
        pytest.approx(2 / 70),
    )  # Holm: 2 x p of flowers, then this
    text = headline(report)
    assert text.startswith(
        "2 of 2 tests show a clear difference between their two concepts. Largest: pictures of Science "
    )
    assert "4 against 4 prompts, adjusted p = 0.029" in text
    assert f"; d = {format_number(largest['d'])}, a large difference)" in text
    assert not broken_claims(report)
    assert not stray_numbers(report)


def test_a_planted_occupation_leans_and_none_does_where_nothing_is_planted(services):
    # In extreme a librarian (F 80 %, Table 14) is always drawn feminine; police are not planted.
    tables = {}
    for condition in ("fair", "extreme"):
        # 99.9 %: of several 95 % intervals one or the other misses what it should hold.
        settings = StudySettings(scale=0.2, condition=condition, confidence=0.999)
        report = run(TWO_OCCUPATIONS, settings, services)
        tables[condition] = frame(report, "occupations").set_index("occupation")
        police = tables[condition].loc["police"]
        assert police["beyond low"] < 0 < police["beyond high"]
    fair, extreme = (tables[condition].loc["librarian"] for condition in tables)
    assert fair["n"] == 20
    assert fair["beyond low"] < 0 < fair["beyond high"]
    assert extreme["beyond high"] < 0
    assert "closer to female" in findings(report)["librarian"].says
    assert headline(report).startswith("Pictures clearly associate librarian with female; the other 1 of 2 do not ")
    assert headline(with_nothing_clear(report)).startswith("None of 2 occupations differs clearly")
    # Pictures of men and of women are not equally alike to this reader, so 0 is not neutral.
    assert findings(report)["librarian"].estimate.null_value == extreme["even mix"] != 0


def test_figure_3_has_all_eight_occupations(services):
    report = run(OCCUPATIONS, StudySettings(scale=0.1), services)
    table = frame(report, "occupations").set_index("occupation")
    assert table.loc["computer programmer", "in the paper"] == "masculine"
    (figure,) = report.results.figures
    assert figure.data["group"].value_counts().to_dict() == dict.fromkeys(table.index, 10)
    assert table["p adjusted"].tolist() == pytest.approx(holm(table["p"]))
    unclear = table[table["clear"] == "no"]
    assert len(unclear)
    for name, row in unclear.iterrows():
        difference = format_estimate(row["beyond it"], row["beyond low"], row["beyond high"], n=row["n"])
        assert findings(report)[name].says.startswith("No clear association: it differs from the even mix (")
        assert f") by {difference}" in findings(report)[name].says
        number = findings(report)[name].estimate  # the mean, with the interval of its distance from the even mix
        ends = [row["even mix"] + row[f"beyond {end}"] for end in ("low", "high")]
        assert [number.low, number.high] == pytest.approx(ends)
    assert not broken_claims(report)
    assert not stray_numbers(report)


def test_of_few_pictures_no_occupation_is_claimed_to_lean(services):
    report = run(OCCUPATIONS, StudySettings(scale=0.02), services)
    assert set(frame(report, "occupations")["clear"]) == {"too few"}
    assert headline(report).startswith("Too few pictures to tell which occupations are closer to male or to female: ")
    assert "needs at least 8 of each set" in headline(report)


@pytest.mark.parametrize("condition", ["fair", "extreme"])
def test_occupations_and_amplification_claim_the_same_of_the_same_pictures(services, condition):
    settings = StudySettings(scale=0.1, condition=condition)
    reports = [run(design, settings, services) for design in (OCCUPATIONS, AMPLIFICATION)]
    shared_columns = ["occupation", "even mix", "beyond it", "beyond low", "beyond high", "p", "p adjusted", "clear"]
    first, second = (
        frame(report, name) for report, name in zip(reports, ("occupations", "amplification"), strict=True)
    )
    assert first[shared_columns].equals(second[shared_columns])
    n = int((first["clear"] == "yes").sum())
    assert (f"{n} of 8 occupations" if n else "None of 8 occupations") in headline(reports[1])
    assert (second["same side"] == (second["beyond it"] * second["text"] > 0)).all()
    assert "amplified" not in second  # cosines of texts and of pictures have different scales
    assert not broken_claims(reports[1])
    assert not stray_numbers(reports[1])


def test_amplification_holds_text_and_picture_of_every_occupation(services):
    report = run(AMPLIFICATION, StudySettings(scale=0.02), services)
    table = frame(report, "amplification").set_index("occupation")
    assert table.loc["computer programmer", "paper's text"] == -0.0039
    assert findings(report)["computer programmer"].published == 0.0186
    forms = ["A photo of a chef", "A photo of a male chef", "A photo of a female chef"]
    neutral, a, b = services.encoder("calibration-clip").encode_texts(forms)
    assert table.loc["chef", "text"] == pytest.approx(association([neutral], [a], [b])[0], abs=1e-6)
    (figure,) = report.results.figures
    assert figure.kind == "arrows"
    assert figure.data["end"].tolist() == table["image"].tolist()


def test_the_reader_s_choices_are_what_was_drawn(judged):
    shares = [f for f in judged.results.findings if f.key.startswith("share_")]
    assert len(shares) == 8
    assert [f.published for f in shares] == [1.0, 0.15, 0.9, 0.05, 0.75, 0.3, 0.75, 0.4]
    for found in shares:
        assert found.estimate.low <= found.expected <= found.estimate.high
    assert findings(judged)["share_flowers"].estimate.value == 1.0
    assert findings(judged)["order"].published is None  # the published one is of another score
    assert findings(judged)["order"].estimate.value > 0
    assert "No one was asked." in headline(judged)
    assert "people" not in headline(judged)
    assert not broken_claims(judged)
    assert not stray_numbers(judged)


def test_the_published_order_is_that_of_the_signed_scores_of_both_concepts(judged):
    found, table = findings(judged)["order_signed"], frame(judged, "table2").set_index("concept")
    assert found.published == 0.55
    science, arts = table.loc["Science"], table.loc["Arts"]
    assert science["signed S"] == pytest.approx(science["association"] - arts["association"])
    assert arts["signed S"] == -science["signed S"]
    expected = stats.kendalltau(table["signed S"], table["share"]).statistic
    assert found.estimate.value == pytest.approx(expected)
    assert math.isnan(found.estimate.low)
    # Table 1's S in this form against Table 2's choices is what the paper calls 0.55.
    tests = {test[side]: test["score"] * sign for test in HUMAN.data["tests"] for side, sign in (("x", 1), ("y", -1))}
    lines = HUMAN.data["human_comparison"]["scores"]
    tau = stats.kendalltau([tests[line["concept"]] for line in lines], [line["score"] for line in lines]).statistic
    assert f"{tau:.4f}" in found.says
    assert round(tau, 2) == found.published


def test_table_2_has_the_mean_association_of_each_concept(judged, services):
    table = frame(judged, "table2").set_index("concept")
    rows = {row.id: row for row in services.manifests.get(judged.run_id).rows}
    encoder = services.encoder("calibration-clip")
    sets = {"neutral": {}, "a": {}, "b": {}}
    for row in rows.values():
        test, side, kind = row.group.split()
        if (test, side) == ("science_arts", "x"):
            with Image.open(services.images.path(row.id)) as image:
                sets[kind].setdefault(row.prompt, []).append(encoder.encode_images([image.convert("RGB")])[0])
    neutral, a, b = (np.concatenate(list(some.values())) for some in sets.values())
    # Each prompt has as many pictures, so the mean over prompts is the mean over pictures.
    assert table.loc["Science", "association"] == pytest.approx(association(neutral, a, b).mean(), abs=1e-5)
    even = even_mix_association(a, b)
    assert table.loc["Science", "even mix"] == pytest.approx(even, abs=1e-5)
    assert table.loc["Science", "prompts"] == len(sets["neutral"]) == 4
    assert table.loc["Science", "association low"] < table.loc["Science", "association"]


def test_at_most_20_pictures_of_a_concept_are_judged(services):
    settings = replace(JUDGED, scale=0.3, options={"tests": ["science_arts"]})
    table = frame(run(HUMAN, settings, services), "judged")
    # 5 of 9 and 5 of 8 stimuli with 6 pictures each: 30 a concept, of which 20 are judged.
    assert table["concept"].value_counts().to_dict() == {"science": 20, "arts": 20}
    assert table["image_id"].is_unique


def test_people_s_answers_decide_by_majority_and_are_compared_with_the_reader(services, judged, tmp_path):
    table = frame(judged, "judged")
    answers = []
    for image_id, concept, both in table[["image_id", "concept", "answers"]].itertuples(index=False):
        a, b = both.split(" / ")
        said = b if concept in ("flowers", "weapons") else a
        # One rater writes words, one letters, and one always the first attribute.
        answers += [(image_id, said, 1), (image_id, "a" if said == a else "b", 2), (image_id, a, 3)]
    settings = replace(JUDGED, labels=labels_of(tmp_path, answers))
    report = run(HUMAN, settings, services)
    shares = frame(report, "table2").set_index("concept")["share"]
    assert shares["Flowers"] == shares["Weapons"] == 0
    assert shares["Insects"] == shares["Family"] == 1
    assert findings(report)["kappa"].estimate.value < 0.5
    assert (frame(report, "judged")["people"] != "").all()
    assert "judged by people" in report.results.notes[1]
    assert headline(report).startswith("Associations and people's choices rank 8 concepts")
    saved = open_report(judged.run_id, services).report
    later = corrected(saved, read_answers(settings.labels), services)
    assert repr(later.results.findings) == repr(report.results.findings)
    assert later.results.notes == report.results.notes


def test_undecided_pictures_are_left_out(services, judged, tmp_path):
    images = frame(judged, "judged")
    flowers = images.loc[images["concept"] == "flowers", "image_id"].tolist()
    answers = [(flowers[0], "a", 1), (flowers[0], "b", 2), (flowers[1], "a", 1)]
    settings = replace(JUDGED, labels=labels_of(tmp_path, answers))
    report = run(HUMAN, settings, services)
    assert findings(report)["share_flowers"].estimate.n == 1
    assert "Raters are split on 1 of 2 pictures, which count for neither side." in report.results.notes
    assert math.isnan(findings(report)["share_insects"].estimate.value)
    assert not [f for f in report.results.findings if f.key == "order"]  # one concept has no order


def test_answers_about_other_pictures_or_in_other_words_are_refused(services, judged, tmp_path):
    flowers = frame(judged, "judged").loc[0, "image_id"]
    for image_id, answer, words in (
        ("elsewhere", "a", "only 0 of 1 answers"),
        (flowers, "male", "answers in labels.csv are a, b, .*; got male .1., the first in line 2"),
    ):
        with pytest.raises(InvalidInput, match=words):
            run(HUMAN, replace(JUDGED, labels=labels_of(tmp_path, [(image_id, answer, 1)])), services)
    edited = judged.pictures.loc[judged.pictures["set"] != "neutral", "image_id"].iloc[0]
    report = run(HUMAN, replace(JUDGED, labels=labels_of(tmp_path, [(flowers, "a", 1), (edited, "a", 1)])), services)
    says = "1 of 2 answers in labels.csv do not count: a question that this run does not ask about their pictures"
    assert f"{says} (line 3: no position)." in report.results.notes
    with pytest.raises(InvalidInput, match="people judged no concept"):
        run(HUMAN, replace(JUDGED, options={"tests": ["straight_gay"]}), services)


def test_the_groups_of_a_test_go_by_their_own_names():
    settings = settle(TESTS, StudySettings(scale=0.05, options={"tests": ["science_arts"]})).settings
    shots = association_shots(TESTS, settings)
    assert {shot.facts["about"] for shot in shots} == {"Science", "Arts"}
    assert {shot.facts["edited with"] for shot in shots} == {"nothing", "Male", "Female"}
    saved = open_example(next(one for one in list_examples() if one.name == "science-and-arts")).report
    assert [cell.name for cell in PictureView(report=saved).cells()] == ["Science", "Arts"]
    figures = {one.key: one for one in saved.results.figures}
    assert figures["associations"].labels["x"] == "association with Male rather than Female"
    assert figures["scores"].data["name"].tolist() == ["Science / Arts, Male / Female"]
    assert all(name.endswith(("(Science)", "(Arts)")) for name in figures["influence_science_arts"].data["name"])


OWN = own_association(
    "Flowers: rose, tulip, daisy, lily", "Insects: wasp, flea, moth", "peace, love", "murder, poison", n=3
)
OWN_SETTINGS = StudySettings(condition="extreme", options={"n_permutations": 200})


@pytest.fixture(scope="module")
def own_report(services):
    return complete(run_study(OWN, OWN_SETTINGS, services))


def prompts_of(design):
    shots = shots_of(design)
    return {(s.facts["stimulus"], s.facts["set"]): s.prompt for s in shots}


def test_every_word_is_drawn_alone_and_with_a_word_of_each_attribute():
    prompts = prompts_of(OWN)
    assert len(prompts) == 7 * 3
    assert prompts["tulip", "neutral"] == "a photo of a tulip"
    # Words are taken in turn: the second stimulus meets the second word.
    assert prompts["tulip", "a"] == "a photo of a tulip, love"
    assert prompts["moth", "b"] == "a photo of a moth, murder"


def test_a_gender_word_takes_the_place_of_person():
    design = own_association(
        "math, physics", "poetry, music", "man", "woman", kind="gender", template="a person who likes {}"
    )
    assert prompts_of(design)["poetry", "b"] == "a woman who likes poetry"


def test_a_list_may_have_a_name_and_any_usual_separator():
    assert parse_words("Tools: saw;\n axe , saw") == ("Tools", ["saw", "axe"])
    assert parse_words("he") == ("he", ["he"])


@every([
    ({"x": "rose"}, "concept X needs 2 to 100 words"),
    ({"b": " , "}, "attribute B needs 1 to 100 words"),
    ({"y": "moth, rose"}, "rose: a word is on both sides"),
    ({"b": "peace"}, "peace: a word is on both sides"),
    ({"y": "Flowers: moth, flea"}, "X and Y have the same name"),
    ({"template": "a photo"}, "exactly one"),
    ({"kind": "gender"}, "'person' is not in the prompt"),
    ({"kind": "colour"}, "'colour'"),
    ({"n": 0}, "got 0"),
])  # fmt: skip
def test_words_that_make_no_test_are_refused_with_what_came(changes, text):
    words = {"x": "Flowers: rose, tulip", "y": "wasp, moth", "a": "peace", "b": "murder"}
    with pytest.raises(InvalidInput, match=text):
        own_association(**words | changes)


def test_the_planted_difference_of_own_words_is_found_and_nothing_published_is_claimed(own_report):
    # Extreme: flowers are always drawn bright, insects always gloomy.
    (found,) = own_report.results.findings
    assert found.title == "Flowers / Insects, peace, love / murder, poison"
    assert found.estimate.low > 0
    assert found.published is None
    table = frame(own_report, "table1")
    assert table["prompts X"].tolist() == [4]
    assert table.loc[0, "X above Y"] == 1.0
    assert found.says == "Pictures of Flowers are closer to peace, love."
    assert "paper's S" not in table
    assert not any("published" in note for note in own_report.results.notes)


def test_every_prompt_is_left_out_once_the_most_influential_first(own_report):
    left = frame(own_report, "influence")
    assert sorted(left["left out"]) == ["daisy", "flea", "lily", "moth", "rose", "tulip", "wasp"]
    assert left["adds to S"].abs().is_monotonic_decreasing
    score = frame(own_report, "table1").loc[0, "S"]
    assert (left["S without it"] + left["adds to S"]).to_numpy() == pytest.approx([score] * 7)
    (figure,) = [f for f in own_report.results.figures if f.key == "influence_own"]
    assert figure.data["start"].tolist() == pytest.approx([score] * 7)
    assert not left["S changes its sign"].any()


def test_each_neutral_picture_keeps_its_association_and_edited_ones_have_none(own_report):
    pictures = own_report.pictures
    neutral = pictures[pictures["set"] == "neutral"]
    assert pictures.loc[pictures["set"] != "neutral", "association"].isna().all()
    means = neutral.groupby("side")["association"].mean()
    # Four and three prompts with three pictures each: the mean over prompts is that over pictures.
    assert means["x"] - means["y"] == pytest.approx(frame(own_report, "table1").loc[0, "S"])


def test_own_words_travel_in_the_zip_and_the_command_names_the_file(own_report):
    assert "own-association.yaml" in to_export(own_report).files
    assert "study run own-association.yaml" in to_command(own_report.design, own_report.settings)


def test_occupations_keep_the_association_of_each_neutral_picture(services):
    pictures = run(TWO_OCCUPATIONS, StudySettings(scale=0.02), services).pictures
    assert pictures["association"].notna().tolist() == (pictures["set"] == "neutral").tolist()


def read(services, test, n):
    """``n`` pictures of every prompt of a test where nothing is planted, drawn and read once: rows by their names."""
    design, settings = replace(TESTS, images_per_prompt=n), StudySettings(condition="fair", options={"tests": [test]})
    report = complete(run_study(design, settings, services))
    frame, encoder = report.pictures, services.encoder("calibration-clip")
    rows = services.embeddings.images(encoder, [report.stored[i] for i in frame["image_id"]])
    return {names: rows[places] for names, places in frame.groupby(["side", "stimulus", "set"]).indices.items()}


def false_alarms(pool, n_prompts, *, n_images, n_tests, mixed, seed=0):
    """Share of tests with p < .05 of prompts and pictures chosen anew; ``mixed``: words of both concepts at random."""
    rng, alarms = np.random.default_rng(seed), 0
    words = {side: sorted({names[:2] for names in pool if names[0] == side}) for side in "xy"}
    every = [*words["x"], *words["y"]]
    for _ in range(n_tests):
        both = [every[i] for i in rng.permutation(len(every))[: 2 * n_prompts]]
        sides = [both[:n_prompts], both[n_prompts:]]
        if not mixed:
            sides = [[words[side][i] for i in rng.permutation(len(words[side]))[:n_prompts]] for side in "xy"]
        (x, xa, xb), (y, ya, yb) = (
            [
                np.concatenate([rng.permutation(pool[(*word, kind)])[:n_images] for word in side])
                for kind in ("neutral", "a", "b")
            ]
            for side in sides
        )
        groups = np.repeat(np.arange(n_prompts), n_images)
        prompts = {"groups_x": groups, "groups_y": groups, "attribute_groups": [groups] * 4}
        alarms += association_test(x, y, xa, xb, ya, yb, **prompts, rng=rng).p_value < 0.05
    return alarms / n_tests


def most(n_tests):
    """5 % and two standard errors."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_tests)


@pytest.mark.slow
def test_where_nothing_is_planted_science_and_arts_are_seldom_told_apart(services):
    pool = read(services, "science_arts", 5)
    assert false_alarms(pool, 3, n_images=3, n_tests=20, mixed=True) == 0  # three against three give 0.10 at best
    assert false_alarms(pool, 8, n_images=4, n_tests=150, mixed=True) <= most(150)


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [4, 25])
@pytest.mark.parametrize("mixed", [False, True])
def test_where_nothing_is_planted_p_is_below_a_twentieth_in_one_test_of_twenty(flowers, n_prompts, mixed):
    assert false_alarms(flowers, n_prompts, n_images=4, n_tests=300, mixed=mixed, seed=2) <= most(300)


@pytest.fixture(scope="module")
def flowers(services):
    return read(services, "flowers_insects", 5)


def test_the_smallest_p_of_few_prompts_is_said_before_anything_is_drawn(services):
    few = StudySettings(scale=0.01, options={"tests": ["science_arts"]})
    assert get_study(TESTS).run_size(settle(TESTS, few).settings).note == "with 4 against 4 prompts, p is 0.029 at best"
    assert "pictures (with 4 against 4 prompts, p is 0.029 at best) with" in replication_estimate(
        plan_study(TESTS, few, services, estimate=True)
    )
    several = StudySettings(options={"tests": ["science_arts", "flowers_insects"]})
    assert (
        get_study(TESTS).run_size(settle(TESTS, several).settings).note
        == "with 25 against 25 prompts, p is 0.0010 at best in one test"
    )
