"""Attributes as a judge sees them: asked once, cannot tell left out, errors measured and corrected for."""

import base64
import io
import threading
import zlib
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.explore.options import compare_settings, explore_settings
from bias_core.report.commands import to_command
from bias_core.report.documents import to_markdown
from bias_core.report.export import to_export
from bias_core.report.saved import from_text, to_text
from bias_core.run.attribute_scores import _measure_attribute, choose_calls, measure_judge_errors, question_about
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings
from bias_core.types import Attribute, KnownPicture
from bias_core.world.models import CalibrationRenderer
from tests.every import every
from tests.explored import explore
from tests.hosted_server import FakeServer
from tests.ui.fakes import FakeServices

MAN = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
SE, SP, UNCLEAR = 0.9, 0.85, 0.15  # of the answers that a scripted judge gives
"""Sensitivity and specificity where it can tell, and how often it cannot."""
SETTINGS = explore_settings(
    model="calibration-renderer", concept="doctor", attributes=(MAN,), attribute_a="", attribute_b="", n_images=40,
    encoder="calibration-clip", judge="endpoint",
)  # fmt: skip


def pixels(image):
    return zlib.crc32(image.convert("RGB").tobytes())


class Script:
    """A judge that knows what is in each picture, and errs as often as it is told."""

    name = "script"

    def __init__(self, unclear=UNCLEAR):
        self.truths, self.asked, self.unclear = {}, [], unclear
        self._lock = threading.Lock()

    def says(self, picture, question):
        with self._lock:
            self.asked.append((picture, question))
        shows = self.truths[picture].get("gender") == "masculine"
        rng = Random(f"{picture} {question}")
        if rng.random() < self.unclear:
            return 2
        right = rng.random() < (SE if shows else SP)
        is_yes = shows if right else not shows
        return int(not is_yes) if " a man" in question else int(is_yes)

    def judge(self, images, questions):
        return np.eye(3)[[self.says(pixels(i), q) for i, q in zip(images, questions, strict=True)]]


class JudgedServices(FakeServices):
    """Pictures of the calibration renderer, and a judge that was told what they show."""

    def __init__(self, folder, script, url=""):
        super().__init__(folder)
        self.script, self.url = script, url
        server = {"judge_url": url or "http://127.0.0.1:1", "judge_model": "eye"}
        self.settings = self.settings.model_copy(update=server)

    def text_to_image(self, name):
        script = self.script

        class Renderer(CalibrationRenderer):
            def generate(self, rows, **how):
                for drawn in super().generate(rows, **how):
                    script.truths[pixels(drawn.image)] = drawn.truth
                    yield drawn

        return Renderer()

    def judge(self, name):
        return super().judge(name) if self.url else self.script

    def known_pictures(self, model, positive, negative):
        known = [
            replace(one, draw=partial(drawn_once, one.key, one.draw))
            for one in super().known_pictures(model, positive, negative)
        ]
        for one in known:
            gender = "masculine" if one.shows == (" man" in positive) else "feminine"
            self.script.truths[pixels(one.draw())] = {"gender": gender}
        return tuple(known)


_DRAWN = {}  # of the pictures whose truth is known, by key: every question is asked of the same ones


def drawn_once(key, draw):
    if key not in _DRAWN:
        _DRAWN[key] = draw()
    return _DRAWN[key]


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = JudgedServices(tmp_path_factory.mktemp("data"), Script())
    yield built
    built.close()


def explored(services, **changes):
    *_, report = explore(explore_settings(SETTINGS, **changes), services)
    return report


@pytest.fixture(scope="module")
def report(services):
    return explored(services)


@every([
    ("a photo of a man", "Does this picture show a man?"),
    ("A close-up photograph of an old person.", "Does this picture show an old person?"),
    ("a nurse", "Does this picture show a nurse?"),
    ("a person who is tall", "Does this picture show a person who is tall?"),
    ("The person has a beard.", "Is it true of this picture that the person has a beard?"),
    ("a pleasant picture", "Is this a pleasant picture?"),
    ("photo of Iranians", "Does this picture show Iranians?"),
])  # fmt: skip
def test_a_sentence_becomes_a_question(sentence, question):
    assert question_about(sentence) == f"{question} Answer yes, no or cannot tell."


def test_presence_is_what_the_judge_says_and_what_it_cannot_tell_is_left_out(services, report):
    script, (score,) = services.script, report.attributes
    question = question_about(MAN.positive)
    says = [script.says(pixels(Image.open(image.path)), question) for image in report.images]
    n_yes, n_unclear = says.count(0), says.count(2)
    assert n_unclear > 0
    assert score.prevalence.n == 40 - n_unclear
    assert score.prevalence.value == pytest.approx(n_yes / (40 - n_unclear))
    assert score.cannot_tell.value == pytest.approx(n_unclear / 40)
    assert f"without {n_unclear} of 40 pictures" in score.prevalence.note
    words = ["yes", "no", "cannot tell"]
    frame = report.report.pictures
    assert frame["man: perceived"].tolist() == [words[place] for place in says]
    assert frame["man: positive"].isna().sum() == n_unclear


def test_variety_stays_with_the_encoder(services, report):
    alone = explored(services, judge="")
    (by_encoder,), (by_judge,) = alone.attributes, report.attributes
    assert (by_encoder.wals, by_encoder.variance_share) == (by_judge.wals, by_judge.variance_share)
    assert alone.run_id != report.run_id
    assert by_encoder.cannot_tell is None
    assert "asked" not in alone.report.results.frame("attributes")


def test_errors_are_measured_on_renders_of_known_truth_and_corrected_for(services, report):
    known = services.known_pictures("calibration-renderer", MAN.positive, MAN.negative)
    assert [one.shows for one in known].count(True) == len(known) / 2 == 100
    assert len({one.key for one in known}) == 200
    answers = services.script.judge([one.draw() for one in known], [question_about(MAN.positive)] * 200)
    errors = measure_judge_errors(known, answers)
    assert errors.sensitivity == pytest.approx(SE * (1 - UNCLEAR), abs=0.12)  # what it cannot tell is no yes
    assert errors.specificity == pytest.approx(1 - (1 - SP) * (1 - UNCLEAR), abs=0.12)
    (score,) = report.attributes
    n_yes = round(score.prevalence.value * score.prevalence.n)
    raw = (n_yes / 40 + errors.specificity - 1) / (errors.sensitivity + errors.specificity - 1)
    assert score.corrected.value == pytest.approx(min(1.0, raw))
    assert score.corrected.n == 40
    assert any("script" in note or "measured on other pictures" in note for note in report.notes)
    assert services.known_pictures("org/photographs", MAN.positive, MAN.negative) == ()
    assert services.known_pictures("calibration-renderer", "a photo of a zebra", "a photo of a man") == ()


def test_nothing_is_asked_twice(services, report):
    asked = len(services.script.asked)
    again = explored(services)
    explored(services, confidence=0.9)
    assert len(services.script.asked) == asked
    assert again.attributes[0].prevalence == report.attributes[0].prevalence
    explored(services, n_images=43)
    assert len(services.script.asked) == asked + 3


def test_the_report_names_the_judge_wherever_it_names_its_readers_and_a_saved_one_too(services, report):
    assert "attributes by the judge endpoint" in to_markdown(report.report)
    assert "--judge endpoint" in to_command(report.report.design, report.report.settings)
    assert [facts.role for facts in report.read_by] == ["encoder", "judge"]
    assert report.versions["judge"] == "script"
    table = report.report.results.frame("attributes")
    assert table["asked"].tolist() == [question_about(MAN.positive)]
    assert "cannot tell" in {finding.title.rpartition(": ")[2] for finding in report.results.findings}
    assert "the judge endpoint answers yes" in to_export(report.report).facts.annotation
    root = services.settings.data_dir
    saved = type(report)(from_text(to_text(report.report, root), root).report)
    (now,), (then,) = report.attributes, saved.attributes
    assert (then.prevalence, then.cannot_tell, then.question) == (now.prevalence, now.cannot_tell, now.question)
    assert np.array_equal(then.calls, now.calls, equal_nan=True)


def test_where_the_truth_is_not_known_its_errors_are_not(services, monkeypatch):
    monkeypatch.setattr(type(services), "pictures_world", lambda *_: "")
    elsewhere = explored(services, n_images=5, force=True)
    assert elsewhere.attributes[0].corrected is None
    assert any("endpoint" in note and "are unknown" in note for note in elsewhere.notes)


def test_a_judge_that_can_tell_of_no_picture_leaves_nothing_measured(tmp_path):
    services = JudgedServices(tmp_path, Script(unclear=1.0))
    (score,) = explored(services, n_images=5).attributes
    assert np.isnan([score.prevalence.value, score.stereotype.value, score.signed_difference.value]).all()
    assert score.cannot_tell.value == 1
    assert "cannot tell for any of the 5 pictures" in score.prevalence.note
    assert not np.isnan(score.wals.value)
    services.close()


def test_arms_are_compared_by_what_the_judge_says_of_both(services):
    asked = compare_settings(
        "doctor", (Arm(), Arm(condition="fair")), attributes=(MAN,), n_images=40, model="calibration-renderer",
        encoder="calibration-clip", judge="endpoint",
    )  # fmt: skip
    *_, report = explore(asked, services)
    rows = report.report.results.frame("differences").set_index("finding")
    scores = [arm.results.scored.scores[0] for arm in report.report.arms]
    told = ~np.isnan(scores[0].calls) & ~np.isnan(scores[1].calls)
    gap = scores[1].calls[told].mean() - scores[0].calls[told].mean()
    assert rows.loc["man: P", "difference"] == pytest.approx(gap)
    assert rows.loc["man: P", "n"] == told.sum() < 40
    corrected = [score.corrected.value for score in scores]
    assert rows.loc["man: P corrected", "n"] == 40
    assert np.sign(rows.loc["man: P corrected", "difference"]) == np.sign(corrected[1] - corrected[0])


def test_whether_prompts_are_followed_is_told_by_the_encoder_and_no_judge_is_asked(services):
    settings = compare_settings(
        "doctor", [Arm(condition="fair"), Arm(condition="extreme")], attributes=(MAN,), attribute_a="male",
        attribute_b="female", n_images=12, n_attribute_images=6, encoder="calibration-clip", judge="endpoint",
    )  # fmt: skip
    before = len(services.script.asked)
    report = complete(run_study(find_design("explore"), settings, services))
    questions = {question for _, question in services.script.asked[before:]}
    assert not [question for question in questions if "male doctor" in question]
    for arm in report.arms:
        (told,) = [one.estimate for one in arm.results.findings if one.metric == "asked_kept"]
        assert told.n == 12  # of every picture, though the judge cannot tell of some


def test_studies_of_nationalities_ask_the_judge_too(services):
    design = replace(find_design("oasis-doctors"), images_per_prompt=12)
    settings = StudySettings(encoder="calibration-clip", judge="endpoint")
    report = complete(run_study(design, settings, services))
    calls = report.pictures["man: nearer by"]
    assert set(calls.dropna()) <= {1.0, -1.0}
    assert calls.isna().any()
    assert any("The judge cannot tell for" in finding.says for finding in report.results.findings)
    own = report.pictures[report.pictures["concept"] == "doctor"]["man: nearer by"]
    table = report.results.frame("table2").set_index("concept")
    assert table.loc["doctor", "P"] == pytest.approx((own.dropna() > 0).mean())


class Plain(Script):
    """Sees everybody as they are drawn, but nobody whose half it was not shown."""

    def __init__(self):
        super().__init__(unclear=0.0)
        self.sizes = []

    def judge(self, images, questions):
        self.sizes += [image.size for image in images]
        mean = np.array([np.asarray(image.convert("RGB"))[:, :, 0].mean() > 120 for image in images])
        man = np.array([" a man?" in question for question in questions])
        return np.eye(3)[np.where(mean == man, 0, 1)]


def test_each_person_cut_out_is_asked_about_and_both_answers_make_the_label(tmp_path):
    services = JudgedServices(tmp_path, Plain())
    services.text_to_image = FakeServices.text_to_image.__get__(services)
    settings = StudySettings(scale=0.01, judge="endpoint", options={"single_images": 1})
    report = complete(run_study(find_design("pst-occupations"), settings, services))
    people = report.results.frame("labels")
    seen = people[people["answer"] != "not_two_people"]
    assert set(seen["answer"]) == {"masculine", "feminine"}
    assert len(seen) * 2 == len(services.script.sizes)
    assert (report.pictures["left_margin"].dropna().abs() == 1).all()
    assert {facts.role for facts in report.read_by} == {"judge", "person_finder"}
    assert any("by the judge endpoint on each person cut out" in note for note in report.results.notes)
    complete(run_study(find_design("pst-occupations"), replace(settings, confidence=0.9), services))
    assert len(seen) * 2 == len(services.script.sizes)  # nobody is asked about again
    services.close()


def test_a_judge_that_nobody_would_ask_is_refused(services):
    asked = StudySettings(scale=0.01, judge="endpoint")
    for name in ("t2iat-tests", "internal-bias", "oasis-stop"):
        with pytest.raises(InvalidInput, match="leave judge empty"):
            plan_study(find_design(name), asked, services)
    with pytest.raises(InvalidInput, match="take the labeller “finder”"):
        plan_study(find_design("pst-occupations"), replace(asked, options={"labeller": "vqa"}), services)


def test_what_is_no_answer_is_not_kept(tmp_path):
    services = JudgedServices(tmp_path, Script())
    for given, wrong in ((np.ones((4, 2)), r"not \(4, 3\)"), (np.full((4, 3), np.nan), "not p")):
        services.script.judge = lambda _images, _questions, given=given: given
        with pytest.raises(ModelUnavailable, match=wrong):
            explored(services, n_images=4)
    assert services.answers.find("script", [("x", "y")]) == {}
    services.close()


def test_over_http_a_judge_says_the_same_of_a_run_and_of_the_renders_whose_truth_is_known(
    tmp_path, report, monkeypatch
):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script = Script()

    def answer(request):
        picture, text = request["messages"][0]["content"]
        data = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
        with Image.open(io.BytesIO(data)) as image:
            place = script.says(pixels(image), text["text"])
        said = ("Yes.", "No.", "I cannot tell.")[place]
        return 200, {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}

    with FakeServer(answer).running() as url:
        services = JudgedServices(tmp_path, script, url)
        (score,) = explored(services).attributes
    assert len(script.asked) == 40 + 200
    (direct,) = report.attributes
    assert (score.prevalence, score.cannot_tell) == (direct.prevalence, direct.cannot_tell)
    assert score.corrected == direct.corrected
    services.close()


@pytest.mark.slow
@pytest.mark.parametrize(("unclear_man", "unclear_woman"), [(0.15, 0.15), (0.4, 0.05)])
def test_the_corrected_share_holds_the_truth_as_often_as_it_says(unclear_man, unclear_woman):
    rng, held, n_repetitions = np.random.default_rng(5), 0, 400
    unclear = np.array([unclear_woman, unclear_man])

    def answers(shows):
        yes = np.where(shows, rng.random(len(shows)) < SE, rng.random(len(shows)) >= SP)
        return np.eye(3)[np.where(rng.random(len(shows)) < unclear[shows.astype(int)], 2, np.where(yes, 0, 1))]

    shown = np.arange(200) < 100
    known = [KnownPicture(key=str(i), shows=bool(one), draw=lambda: None) for i, one in enumerate(shown)]
    for _ in range(n_repetitions):
        errors = measure_judge_errors(known, answers(shown))
        given = answers(rng.random(500) < 0.7)
        told = np.where(choose_calls(given)[:, None] == 2, np.nan, given)
        corrected = _measure_attribute(MAN, told[:, 0], told[:, 1], errors, fixed_n=True, confidence=0.95)["corrected"]
        held += corrected.low <= 0.7 <= corrected.high
    assert held / n_repetitions == pytest.approx(0.95, abs=2 * np.sqrt(0.95 * 0.05 / n_repetitions))
