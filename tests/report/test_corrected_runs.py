"""People label a part of a run, and its numbers are shown corrected: from the task to P, Ψ, differences and scores."""

import io
import math
import re
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.labels.make_task import label_run, serves
from bias_core.labels.results import GivenAnswer, LabelledItem, keep_judgements, task_answers, task_items, task_progress
from bias_core.labels.tab import title_in_list
from bias_core.labels.task_owner import delete_task, exclude_rater
from bias_core.measures.cards import METRICS
from bias_core.measures.effects import holm
from bias_core.measures.sequential import holds_at_any_time
from bias_core.measures.two_phase import draw_rater_weights
from bias_core.report.claims import FIXED_N, SAME_TEST, WHY_NOT
from bias_core.report.corrected import (
    Corrector,
    PeopleAnswers,
    build_correction,
    corrected as corrected_report,
    shares_of_attribute,
)
from bias_core.report.documents import to_html, to_markdown
from bias_core.report.export import build_dataset_facts, to_every_eval_ever
from bias_core.report.headlines import headline
from bias_core.report.report_text import CORRECTED, claim, claims, corrected_headline, report_facts
from bias_core.report.saved import open_report
from bias_core.run.history import delete_run, list_runs, restore_run
from bias_core.run.run import complete, run_study
from bias_core.study.answers import read_answers
from bias_core.study.classifier_answers import (
    Reading,
    asked_readings,
    attribute_names,
    build_strata,
    count_questions,
    list_readings,
)
from bias_core.study.design import find_design
from bias_core.study.label_tasks import Item, own_task
from bias_core.study.types import Arm, Results, StudySettings, StudyTable
from bias_core.types import Attribute
from tests import shared
from tests.claimed import broken_claims
from tests.explored import explored
from tests.study.oasis_runs import write_labels
from tests.study.simulated_raters import simulate

services = shared.real_services

MAN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
GLASSES = Attribute(name="glasses", positive="a person with glasses", negative="a person without glasses")
SESSION = "somebody"


def of_sixty(services, **more):
    return explored(services, session=SESSION, n_clusters=1, **{"attributes": (MAN, GLASSES), "n_images": 60} | more)


@pytest.fixture(scope="module")
def exploration(services):
    return of_sixty(services)


@pytest.fixture(scope="module")
def arms(services):
    return of_sixty(services, arms=(Arm(condition="fair"), Arm(condition="extreme")), n_images=40)


@pytest.fixture(scope="module")
def pairs(services):
    return complete(run_study(find_design("pst-occupations"), StudySettings(scale=0.03), services, session=SESSION))


def labelled(services, report, **how):
    return label_run(report, services.manifests, services.labels, **how)


def corrected(services, report):
    answers = services.run_answers(report.run_id)
    return None if answers is None else build_correction(report, answers)


def is_man(report, image_id):
    return report.stored[image_id].truth["gender"] == "masculine"


def answered(services, report, made, *, contrary=False, rater=0):
    """A rater who sees what was drawn, of men; of glasses they can never tell. A contrary one errs on every third."""
    swapped, truth = {"yes": "no", "no": "yes"}, {}
    for place, item in enumerate(task_items(services.labels, made.key)):
        right = "yes" if is_man(report, item.image_id) else "no"
        for position, (name, _) in made.task.attributes.items():
            answer = swapped[right] if contrary and place % 3 == 0 else right
            truth[item.image_id, position] = answer if name == "man" else "cannot_tell"
    simulate(services.labels, made, truth, error=0.0, rater=rater)


def number(correction, title):
    return next(one for one in correction.numbers if one.title == title)


def test_a_sample_of_an_exploration_becomes_an_open_task_that_says_which_run_it_serves(services, exploration):
    assert list_readings(exploration)
    assert corrected(services, exploration) is None
    made = labelled(services, exploration, n=24, seed=3)
    assert made.task.status == "open"
    assert made.task.run_id == exploration.run_id
    assert (made.task.sample, serves(made.task)) == ("24 of 60 pictures at random, seed 3", "man, glasses")
    assert made.task.questions["man"] == "Does this picture show a man?"
    assert made.task.answer_keys == ("yes", "no", "cannot_tell")
    assert exploration.design.title not in made.task.title  # raters see no prompt
    ids = [item.image_id for item in task_items(services.labels, made.key)]
    assert len(set(ids)) == 24
    run = services.manifests.get(exploration.run_id)
    assert run.is_kept  # so that its pictures are never evicted
    assert run.label_tasks == (made.task.id,)
    assert services.manifests.save(run).label_tasks == run.label_tasks  # a run that is repeated keeps its tasks
    waiting = corrected(services, exploration)
    assert not waiting.numbers
    assert waiting.headline.startswith("No one has answered yet")
    # The next task takes others, and as many as are left.
    more = labelled(services, exploration, n=64, attributes=["man"])
    assert not {item.image_id for item in task_items(services.labels, more.key)} & set(ids)
    assert more.task.sample.startswith("36 of 36")
    with pytest.raises(InvalidInput, match="no picture of this run is left"):
        labelled(services, exploration)
    for key in (made.key, more.key):
        delete_task(services.labels, key)
    assert corrected(services, exploration) is None


def test_p_psi_and_their_budget_are_corrected_as_answers_come_in(services, exploration):
    made = labelled(services, exploration, n=30, seed=1)
    answered(services, exploration, made)
    correction = corrected(services, open_report(exploration.run_id, services).report)
    share = np.mean([is_man(exploration, image_id) for image_id in exploration.pictures["image_id"]])
    p = number(correction, "man: P")
    assert p.corrected.low <= share <= p.corrected.high
    assert (p.n_labelled, p.corrected.n, p.corrected.null_value) == (30, 60, None)  # 50 % is assumed
    assert p.as_read.value == pytest.approx(
        next(f.estimate.value for f in exploration.results.findings if f.key == "all pictures-man-p")
    )
    assert number(correction, "man: P − the assumed rate").corrected.value == pytest.approx(p.corrected.value - 0.5)
    assert number(correction, "man: Ψ").corrected.value == pytest.approx(max(0.0, p.corrected.value - 0.5))
    assert p.more_labels > 0
    assert (correction.n_labelled, correction.n_asked) == (30, 30)
    assert not [one for one in correction.numbers if "glasses" in one.title]
    notes = " ".join(correction.notes)
    assert "People could not tell for any picture that they labelled: glasses: P" in notes
    assert "Only one rater" in notes
    assert correction.table().frame["number"].tolist()[0] == "man: P"
    said = headline(correction.add_to_report(exploration))
    assert said.startswith("man: P, corrected by people’s labels (30 of 60, by 1 person): ")
    assert "clearly" not in said  # nothing is claimed against a rate without a source
    assert p.claim.verdict == "not tested"
    assert correction.headline == "30 of the 30 pictures that people are asked about have an answer, by 1 person."
    judged = {item.id: {"man": "no", "glasses": "yes"} for item in task_items(services.labels, made.key)}
    keep_judgements(services.labels, made.key, "a judge", judged)
    assert corrected(services, exploration).numbers == correction.numbers  # a machine is no rater
    before = p.corrected.high - p.corrected.low
    for rater in (1, 2):
        answered(services, exploration, made, contrary=rater == 1, rater=rater)
    after = number(corrected(services, exploration), "man: P").corrected
    assert after.value == pytest.approx(p.corrected.value, abs=0.1)
    assert after.high - after.low > 1.2 * before  # what one of three says otherwise widens it
    of_stopped = number(corrected(services, replace(exploration, stopped=True)), "man: P")
    assert holds_at_any_time(of_stopped.as_read)
    assert FIXED_N in of_stopped.corrected.note
    assert math.isnan(of_stopped.corrected.p_value)
    delete_task(services.labels, made.key)


def test_corrected_shares_are_claims_against_rates_with_a_source_in_one_family(services):
    sourced = {"reference_source": "bls2024 (2024)"}
    men, glasses = replace(MAN, **sourced), replace(GLASSES, reference=0.3, **sourced)
    report = explored(services, session=SESSION, n_clusters=1, attributes=(men, glasses), n_images=60)
    made = labelled(services, report, n=40)
    truth = {
        (item.image_id, position): "yes" if is_man(report, item.image_id) == (name == "man") else "no"
        for item in task_items(services.labels, made.key)
        for position, (name, _) in made.task.attributes.items()
    }
    for rater in (0, 1):
        simulate(services.labels, made, truth, error=0.0, rater=rater)
    correction = corrected(services, report)
    shares = [number(correction, f"{name}: P") for name in ("man", "glasses")]
    adjusted = holm([share.corrected.p_value for share in shares])
    assert [share.claim.p_adjusted for share in shares] == pytest.approx(list(adjusted))
    for share in shares:
        null, estimate = share.corrected.null_value, share.corrected
        assert (estimate.p_value <= 0.05) == (not estimate.low <= null <= estimate.high)
        assert number(correction, f"{share.title} − P*").claim == share.claim
    frame = correction.table().frame.set_index("number")
    assert frame.loc["man: P", ["p adjusted", "clear", "raters"]].tolist() == [
        shares[0].claim.p_adjusted, shares[0].claim.word, 2
    ]  # fmt: skip
    assert frame.loc["man: Ψ", "same test as"] == "man: P"
    assert "Holm’s correction for 2 numbers of its family" in correction.table().note
    assert not broken_claims(correction.add_to_report(report))
    said = headline(correction.add_to_report(report)).replace("\N{NO-BREAK SPACE}", " ")
    assert "(40 of 60, by 2 people): " in said
    clear = [share for share in shares if share.claim.is_clear]
    lead = max(clear, key=lambda share: abs(share.corrected.value - share.corrected.null_value))
    side = lead.claim.choose("above", "below", "")
    assert f", clearly {side} the real-world rate of {100 * lead.corrected.null_value:.0f} % (adjusted p " in said
    assert said.startswith(lead.title)


def test_a_corrected_number_that_is_not_clear_says_so_with_its_p_and_reason():
    row = {
        "number": "man: P", "measure": METRICS["attribute_prevalence"].name, "as read": math.nan, "corrected": 0.6,
        "corrected low": 0.51, "corrected high": 0.69, "without bias": 0.5, "p": 0.03, "p adjusted": 0.09,
        "clear": "no", WHY_NOT: "its interval excludes 0.5, but", SAME_TEST: "", "raters": 1, "labels": 20, "n": 80,
    }  # fmt: skip
    table = StudyTable(key=CORRECTED, title="", frame=pd.DataFrame([row]))
    report = SimpleNamespace(results=Results(tables=(table,)), arms=())
    assert corrected_headline(report).replace("\N{NO-BREAK SPACE}", " ") == (
        "man: P, corrected by people’s labels (20 of 80, by 1 person): 60 % [51, 69], not clearly different from the "
        "real-world rate of 50 % (adjusted p = 0.090, its interval excludes 0.5, but)."
    )


def test_the_difference_of_two_arms_is_corrected(services, arms):
    made = labelled(services, arms, n=40)
    answered(services, arms, made)
    correction = corrected(services, arms)
    difference = next(one for one in correction.numbers if one.metric == "prevalence_difference")
    frame = arms.pictures
    shares = [np.mean([is_man(arms, i) for i in frame.loc[frame["arm"] == arm.name, "image_id"]]) for arm in arms.arms]
    assert difference.corrected.low <= shares[1] - shares[0] <= difference.corrected.high
    assert difference.title == "man: P, extreme less fair"
    assert difference.corrected.null_value == 0
    assert (difference.claim.n_tests, difference.claim.is_clear) == (1, difference.corrected.p_value <= 0.05)
    said = headline(correction.add_to_report(arms))
    assert said.startswith("man: P, extreme less fair, corrected by people’s labels (40 of 80, by 1 person): 0.")
    assert ", clearly above 0 (p < 0.001); the classifier alone gives 0." in said
    assert {"man, fair: P", "man, extreme: P"} <= {one.title for one in correction.numbers}


def test_the_stereotype_test_score_is_corrected_picture_by_picture(services, pairs):
    tasks = [labelled(services, pairs, n=n, setting=setting) for n, setting in ((30, ""), (12, "single"))]
    assert [made.task.kind for made in tasks] == ["pst_paired", "pst_single"]
    assert all("cannot_identify" in made.task.answer_keys for made in tasks)  # as the paper
    frame = pairs.results.frame("labels")
    truth = {(row.image_id, row.position): row.truth for row in frame.itertuples()}
    for made in tasks:
        simulate(services.labels, made, truth, error=0.0, rater=0)
    correction = corrected(services, pairs)
    for setting, title in (("paired", "in pairs"), ("single", "alone")):
        found = number(correction, f"Stereotype test score, {title}")
        some = frame[(frame["setting"] == setting) & frame["truth"].isin(["masculine", "feminine"])]
        wanted = 200 * (some["truth"] == some["stereotyped_gender"]).mean() - 100
        assert found.corrected.low <= wanted <= found.corrected.high
        read = next(f for f in pairs.results.findings if f.key == f"{setting}_overall").estimate
        assert found.as_read.value == pytest.approx(read.value)
    gap = number(correction, "Stereotype test score, in pairs: less that of people alone")
    paired, alone = (number(correction, f"Stereotype test score, {name}") for name in ("in pairs", "alone"))
    assert gap.corrected.value == pytest.approx(paired.corrected.value - alone.corrected.value)
    assert number(correction, "Stereotype test score, in pairs: feminine stereotypes")
    parts = [one for one in correction.numbers if one.metric == "stereotype_test_score"]
    assert {one.claim.n_tests for one in parts} == {len(parts)}
    assert (gap.claim.n_tests, gap.claim.is_clear) == (1, gap.corrected.p_value <= 0.05)
    with pytest.raises(InvalidInput, match="no setting 'fairness'; it has"):
        labelled(services, pairs, setting="fairness")
    with pytest.raises(InvalidInput, match="leave attributes out"):
        labelled(services, pairs, attributes=["man"])


def test_nationalities_are_corrected_one_by_one(services):
    design = find_design("oasis-nationalities")
    settings = StudySettings(scale=0.02, options={"nationalities": ["Iranian", "Mexican"]})
    report = complete(run_study(design, settings, services, session=SESSION))
    made = labelled(services, report, n=24, attributes=["man"])
    answered(services, report, made)
    correction = corrected(services, report)
    titles = [one.title for one in correction.numbers if one.metric == "attribute_prevalence"]
    assert set(titles) == {f"{name}, man: P" for name in report.pictures["nationality"].unique()}
    assert "are not corrected yet: fewer than 2 of their pictures" in " ".join(correction.notes)
    asked = {name for name, _ in labelled(services, report, n=9).task.attributes.values()}
    sourced = {one.attribute.name for one in list_readings(report) if one.attribute.has_source}
    assert asked == sourced < {one.attribute.name for one in list_readings(report)}


def test_a_task_asks_about_what_the_run_compares_and_about_more_if_told_to(services):
    sourced = replace(MAN, reference_source="a census")
    report = of_sixty(services, attributes=(sourced, GLASSES), n_images=12)
    usual = asked_readings(list_readings(report))
    assert (attribute_names(usual), count_questions(usual)) == (["man"], 1)
    assert list(labelled(services, report, n=4).task.questions) == ["man"]
    by_another = labelled(services, report, n=4, stratify_by="glasses").task
    assert (list(by_another.questions), by_another.stratified_by) == (["man"], "glasses")
    both = labelled(services, report, n=4, attributes=["man", "glasses"]).task
    assert list(both.questions) == ["man", "glasses"]


def test_a_sample_by_one_attribute_is_weighted_for_the_others():
    # Those with a hat are mostly men whom the reader of men misses; hats are sampled three times as often.
    rng, values = np.random.default_rng(0), []
    man, hat = (Attribute(name=name, positive=f"a {name}", negative="none") for name in ("man", "hat"))
    for _ in range(30):
        has_hat = rng.random(800) < 0.2
        truth = rng.random(800) < np.where(has_hat, 0.9, 0.4)
        ids = tuple(f"{i}" for i in range(800))
        calls = np.where(truth & ~has_hat, 1, 0)
        same = {"arm": "", "group": "", "image_ids": ids, "positions": ("",) * 800}
        readings = [
            Reading(attribute=man, codes=calls, **same),
            Reading(attribute=hat, codes=has_hat.astype(int), **same),
        ]
        labelled = np.r_[rng.permutation(np.flatnonzero(has_hat))[:60], rng.permutation(np.flatnonzero(~has_hat))[:60]]
        votes = np.full((800, 1), np.nan)
        votes[labelled, 0] = truth[labelled]
        found = []
        for strata in (build_strata(readings, ("hat",)), {}):
            corrector = Corrector(settings=StudySettings(), rater_weights=draw_rater_weights(1), strata=strata)
            shares = corrector.shares(readings[0], votes)
            p = next(shares_of_attribute(corrector, readings[0], votes, shares))
            found.append(p.corrected.value - truth.mean())
        values.append(found)
    weighted, plain = np.mean(values, axis=0)
    assert abs(weighted) < 0.02
    assert plain > 0.06  # without the weights it is far off


def test_what_a_judge_cannot_tell_is_a_class_of_its_own(services, exploration):
    frame = exploration.pictures.copy()
    frame.loc[:9, "man: nearer by"] = math.nan
    reading = next(one for one in list_readings(replace(exploration, pictures=frame)) if one.attribute == MAN)
    assert (reading.codes == 2).sum() == 10
    assert len(reading.clear_calls) == len(frame) - 10


def test_answers_of_a_task_are_kept_apart_by_the_sentence_that_they_are_about():
    task = replace(own_task("?", ["yes", "no"]), attributes={"picture": ("man", "a man")})
    item = Item(id=1, picture="0", image_id="a", identities={})
    given = GivenAnswer(item=item, rater="r", choices={"picture": "yes"}, task_version=1, seconds=1.0, at="")
    answers = PeopleAnswers(task_answers(task, [LabelledItem(item=item, answers=[given])]))
    for sentence, code in (("a man", 1.0), ("a tall man", math.nan)):
        about = Attribute(name="man", positive=sentence, negative="no")
        reading = Reading(arm="", group="", attribute=about, image_ids=("a",), positions=("",), codes=np.array([1]))
        np.testing.assert_array_equal(answers.votes(reading), [[code]])


def test_answers_in_a_file_count_once_and_those_about_other_pictures_are_named(services, exploration, tmp_path):
    others, asked = np.split(exploration.pictures["image_id"].to_numpy(), [2])
    groups = np.where(exploration.pictures["image_id"].isin(others), "attribute_a", "concept")
    explored_with_words = replace(exploration, pictures=exploration.pictures.assign(group=groups))
    columns = ["image_id", "position", "answer", "rater"]
    answers = [(image_id, "man", "yes", 1) for image_id in asked]

    def corrected_by(*added):
        path = write_labels(tmp_path / "answers.csv", columns, [*answers, *added])
        return corrected_report(explored_with_words, read_answers(path), services)

    report = corrected_by(*((image_id, "man", "yes", 1) for image_id in others))
    says = f"2 of {len(answers) + 2} answers in answers.csv do not count"
    assert headline(report).endswith(f"{says}.")
    assert any(note.startswith(f"{says}: a question that this run does not ask") for note in report.results.notes)
    report = corrected_by(
        *((image_id, "man", "yes", 1) for image_id in others), ("elsewhere (1)", "man", "yes", 1),
        *((asked[0], "man", "yes", rater) for rater in ("judge: a", "judge: b", "judge: c")),
    )  # fmt: skip
    says = (
        f"6 of {len(answers) + 6} answers in answers.csv do not count: a question that this run does not ask about "
        "their pictures (2); pictures that the run does not have (1); answers of machines, not of people (3)."
    )
    assert headline(report).endswith(f" {says}")
    assert headline(report).count("do not count") == 1
    for added, words in (
        ((asked[0], "man", "no", 1), f"one picture: line 2 and line {len(answers) + 2} "),
        ((asked[0], "hat", "no", 1), "positions in answers.csv are man, glasses; got hat"),
    ):
        with pytest.raises(InvalidInput, match=words):
            corrected_by(added)


@pytest.mark.parametrize("kind", ["exploration", "arms"])
def test_the_classifier_s_share_is_the_classifier_s_and_only_the_corrected_one_is_people_s(
    kind, services, request, tmp_path
):
    stored = request.getfixturevalue(kind)
    asked = stored.pictures["image_id"].tolist()
    answers = [(one, "man", "yes" if place % 3 else "no", rater) for place, one in enumerate(asked) for rater in (1, 2)]
    path = write_labels(tmp_path / "two.csv", ["image_id", "position", "answer", "rater"], answers)
    named = replace(stored, settings=replace(stored.settings, labels=path))
    report = corrected_report(named, read_answers(path), services)
    of_classifier = [sentence for sentence in claims(stored) if "classified as “man” by" in sentence]
    of_both = [sentence for sentence in claims(report) if "classified as “man” by" in sentence]
    assert of_both
    for before, after in zip(of_classifier, of_both, strict=True):
        assert after.startswith(f"{before} Corrected by people’s labels of ")
        assert after.endswith(" (by 2 people).")
    assert claim(report).startswith(claim(stored))
    assert "classified by calibration-clip, corrected by people (two.csv)" in report_facts(report)
    assert "classified by calibration-clip, corrected by people (`two.csv`)" in to_markdown(report)
    facts = build_dataset_facts(report)
    assert "used instead" not in facts.annotation
    assert "People’s answers correct its numbers" in facts.annotation
    texts = [to_markdown(report), to_html(report, facts), headline(report), facts.annotation, *report_facts(report)]
    assert not [text for text in texts if re.search("classified by people|people [(][^)]*[)], oth", text)]
    with zipfile.ZipFile(io.BytesIO(to_every_eval_ever(report, facts))) as archive:
        assert not [name for name in archive.namelist() if "People's answers are used" in archive.read(name).decode()]


def test_without_a_rater_no_number_of_people_is_said_and_raters_of_alike_names_are(services, exploration, tmp_path):
    columns, asked = ["image_id", "position", "answer", "rater"], exploration.pictures["image_id"]

    def corrected_by(*raters):
        answers = [(image_id, "man", "yes", rater) for image_id in asked for rater in raters]
        path = write_labels(tmp_path / "answers.csv", columns, answers)
        return corrected_report(exploration, read_answers(path), services)

    report = corrected_by("")
    assert f"({len(asked)} of {len(asked)}, without a rater)" in headline(report)
    assert claim(report).endswith("(without a rater).")
    assert not re.search("1 person|0 people|one rater", to_markdown(report))
    assert "No rater is known, so neither is the disagreement" in to_markdown(report)
    alike = corrected_by("Ann", "ANN")
    assert "by 2 people" in headline(alike)
    assert any("count as different people: “Ann” and “ANN”" in note for note in alike.results.notes)


def test_where_people_s_answers_replace_the_classifier_s_the_shares_are_people_s_in_every_arm(services, tmp_path):
    settings = StudySettings(scale=0.01, arms=(Arm(condition="fair"), Arm(condition="published")))
    stored = complete(run_study(find_design("pst-occupations"), settings, services, session=SESSION))
    answers = [(one, position, "feminine", 1) for arm in stored.arms for one, position in arm_people(stored, arm.name)]
    path = write_labels(tmp_path / "all.csv", ["image_id", "position", "answer", "rater"], answers)
    named = replace(stored, settings=replace(stored.settings, labels=path))
    report = corrected_report(named, read_answers(path), services)
    assert "classified by people (all.csv), otherwise calibration-clip" in report_facts(report)
    assert {sentence.partition("classified by ")[2] for sentence in claims(report)} == {
        "people (all.csv), otherwise calibration-clip."
    }


def arm_people(report, name):
    """The people in an arm's pictures, as picture and position."""
    own = report.pictures[report.pictures["arm"] == name]["image_id"]
    for image_id in own:
        alone = report.stored[image_id].truth["n_people"] == 1
        yield from ((image_id, position) for position in ([""] if alone else ["left", "right"]))


def test_what_cannot_be_labelled_is_said(services, exploration, tmp_path):
    for how, words in (
        ({"n": 1}, "at least 2 pictures"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"attributes": ["beard"]}, "no attribute 'beard'; it has man, glasses"),
        ({"stratify_by": "beard"}, "by the classifier on man, glasses; got 'beard'"),
    ):
        with pytest.raises(InvalidInput, match=words):
            labelled(services, exploration, **how)
    with pytest.raises(InvalidInput, match="not on record"):
        labelled(services, replace(exploration, run_id="0123abcd"))
    with pytest.raises(InvalidInput, match="people can correct nothing"):
        labelled(services, replace(exploration, pictures=None))
    assert not list_readings(replace(exploration, pictures=None))


def test_a_run_that_was_deleted_and_brought_back_has_its_labels_again(services):
    report = of_sixty(services, concept="nurse", n_images=12)
    made = labelled(services, report, n=8, stratify_by="man")
    assert "in equal parts by the classifier on man" in made.task.sample
    answered(services, report, made)
    deleted = delete_run(services, SESSION, report.run_id)
    assert corrected(services, report) is None
    restore_run(services, SESSION, deleted)
    assert number(corrected(services, report), "man: P").n_labelled == 8


def test_the_list_says_that_people_corrected_a_run_only_after_an_answer_that_counts(services):
    report = explored(services, session="asking", n_clusters=1, attributes=(MAN,), n_images=12)

    def source():
        return list_runs(services, "asking")[0].labelled_by

    made = labelled(services, report, n=4)
    assert source() == "labels by a classifier"
    answered(services, report, made)
    assert source() == "labels by a classifier, corrected by people"
    for rater in task_progress(services.labels, made.key).raters:
        exclude_rater(services.labels, made.key, rater.rater)
    assert source() == "labels by a classifier"


def test_a_task_s_owner_sees_the_run_s_title_in_the_list_and_raters_do_not(services):
    report = explored(services, session="listing", n_clusters=1, attributes=(MAN,), n_images=12)
    task = labelled(services, report, n=4).task
    (run,) = list_runs(services, "listing")
    assert title_in_list(services, task).startswith(f"{task.title} · {run.title} · 2")
    assert "doctor" in run.title
    assert "doctor" not in task.title
