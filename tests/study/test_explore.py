"""Explore from settings to report: attributes by name and by hand."""

import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.explore.exploration import image_rows
from bias_core.explore.extension import suggest_set
from bias_core.explore.options import explore_settings
from bias_core.explore.tab import says
from bias_core.measures.association import association, even_mix_association
from bias_core.measures.stereotype import attribute_prevalence
from bias_core.report.commands import to_command
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.figures import to_bytes
from bias_core.report.report_text import finding_rows
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.export import write_zip
from bias_core.study.attributes import find_attribute, load_attribute_sets
from bias_core.study.design import find_design
from bias_core.study.types import Arm, Progress
from bias_core.types import Attribute, Estimate
from bias_core.ui.study.parts import drawing_html
from tests import shared
from tests.explored import Explored, explore, plan_explore

MAN = Attribute(
    name="man",
    positive="a photo of a man",
    negative="a photo of a female",
    reference=0.5,
    reference_source="assumed 50 %, a choice",
)
NURSE = Attribute(name="nurse", positive="a nurse", negative="a doctor")

SETTINGS = explore_settings(
    concept="doctor", attributes=(MAN, NURSE), condition="fair", n_images=6, n_attribute_images=3, num_inference_steps=2
)
RENDERED = explore_settings(SETTINGS, model="calibration-renderer", n_images=11)


def run(settings, services, **options):
    *_, report = explore(settings, services, **options)
    assert isinstance(report, Explored)
    return report


def numbers(report):
    """All that must be equal when the same is asked elsewhere."""
    values = to_dict(report.report)
    return json.dumps({k: v for k, v in values.items() if k not in {"seconds", "run_id"}}, sort_keys=True)


def services_over(folder, assets):
    """Tiny models, loaded once for all folders."""
    return shared.RealServices(Settings(data_dir=folder, assets_dir=assets, offline=True, device="cpu"))


@pytest.fixture(scope="module")
def services(tmp_path_factory, assets):
    built = services_over(tmp_path_factory.mktemp("data"), assets)
    yield built
    built.close()


@pytest.fixture
def empty(tmp_path, assets):
    """The same over an empty data folder, for tests that count or break what is kept."""
    built = services_over(tmp_path / "data", assets)
    yield built
    built.close()


@pytest.fixture(scope="module")
def diffused(services):
    return run(SETTINGS, services)


@pytest.fixture(scope="module")
def rendered(services):
    return run(RENDERED, services)


def test_the_report_has_every_picture_and_every_score(diffused, rendered):
    for report, n in ((diffused, 6), (rendered, 11)):
        assert [image.number for image in report.images] == list(range(1, n + 1))
        assert [image.row.prompt for image in report.attribute_images] == (
            ["a photo of a male doctor"] * 3 + ["a photo of a female doctor"] * 3
        )
        assert [score.attribute for score in report.attributes] == [MAN, NURSE]
        assert len(report.clusters.labels) == n
        assert report.prompt == "a photo of a doctor"


def test_progress_counts_what_was_asked_for(services):
    arms = (Arm(name="fair"), Arm(name="other", condition="published"))
    of_all = "11 of 11 pictures of the concept, 6 of 6 with “male” or “female”"
    for settings, starts in ((RENDERED, [""]), (replace(RENDERED, arms=arms), ["fair: ", "other: "])):
        *steps, _ = explore(replace(settings, seed=70 * len(starts)), services)
        drawn = [step for step in steps if step.drawing]
        assert drawn[0].message == f"{starts[0]}0 of 11 pictures of the concept, 0 of 6 with “male” or “female”"
        assert {start + of_all for start in starts} <= {step.message for step in drawn}
        assert f"{of_all} finished" in drawing_html(drawn[-1])


def test_scores_are_those_of_the_metrics_on_the_originals(services, rendered):
    encoder = services.encoder("calibration-clip")

    def rows(images):
        return encoder.encode_images([Image.open(image.path).convert("RGB") for image in images])

    images = rows(rendered.images)
    positive, negative = encoder.encode_texts([MAN.positive, MAN.negative])
    man, nurse = rendered.attributes
    assert man.prevalence.value == attribute_prevalence(images @ positive, images @ negative)
    np.testing.assert_allclose(man.similarity_positive, images @ positive, atol=1e-6)
    assert man.stereotype.value == max(0.0, man.prevalence.value - 0.5)
    assert man.corrected.method.startswith("Rogan")
    assert nurse.corrected is None  # the reader's errors are not known
    sides = [rows(rendered.attribute_images[:3]), rows(rendered.attribute_images[3:])]
    expected = association(images, *sides)
    np.testing.assert_allclose(rendered.association.associations, expected, atol=1e-6)
    assert rendered.association.mean.value == pytest.approx(expected.mean(), abs=1e-6)
    beyond = rendered.association.beyond.value
    assert beyond == pytest.approx(expected.mean() - even_mix_association(*sides), abs=1e-6)


def test_truth_is_told_by_the_renderer_and_by_nobody_else(services, diffused, rendered):
    stored = services.images.find({image.id: image.row for image in rendered.images}).values()
    in_pictures = np.mean([image.truth["gender"] == "masculine" for image in stored])
    assert 0 < in_pictures < 1
    assert rendered.attributes[0].drawn == in_pictures
    assert rendered.attributes[1].drawn is None  # an occupation is no visible attribute
    assert diffused.attributes[0].drawn is None


def test_what_the_diffusion_model_draws_on_the_whole_stands_beside_these_pictures(services, monkeypatch):
    own = Estimate(value=0.9, low=0.88, high=0.92, n=1000)

    def known(rows, sentence):
        return own if {row.model for row in rows} == {SETTINGS.model} and "man" in sentence else None

    monkeypatch.setattr(services, "true_rate", known)
    report = run(SETTINGS, services)
    man, nurse = report.attributes  # as the report keeps them
    assert (man.true_rate, nurse.true_rate) == (own, None)
    assert "true share is 90\xa0%" in says(man, "unknown")
    (told,) = (one for one in report.report.results.findings if one.title.endswith("true P"))
    assert told.estimate == own
    assert run(RENDERED, services).attributes[0].true_rate is None


def test_asking_again_draws_and_embeds_nothing(services, diffused):
    anew = Services(services.settings)
    model, encoder = anew.text_to_image(SETTINGS.model), anew.encoder(diffused.settings.encoder)
    again = run(SETTINGS, anew)
    anew.close()
    assert not model.loaded
    assert not encoder.loaded
    assert len(again.reused) == len(again.images)
    assert numbers(again) == numbers(diffused)
    assert again.run_id == diffused.run_id


def test_progress_has_all_finished_pictures_in_order(services):
    steps = list(explore(explore_settings(RENDERED, seed=500), services))
    progress = [step for step in steps if isinstance(step, Progress) and step.images]
    assert progress[0].total == 17
    for step in progress:
        groups = [image.row.group for image in step.images]
        assert groups == sorted(groups, key=["concept", "attribute_a", "attribute_b"].index)
    assert progress[-1].done == len(progress[-1].images) == 17
    assert [isinstance(step, Explored) for step in steps] == [False] * (len(steps) - 1) + [True]


def test_stopped_runs_score_what_is_finished_and_say_so(empty):
    def n_stored():
        return sum(1 for _ in empty.images.folder.glob("??/*.png"))

    enough = n_stored() + 8
    # Asked by whoever draws, so that it does not matter how long the reader takes meanwhile.
    report = run(explore_settings(SETTINGS, n_images=30), empty, cancelled=lambda: n_stored() >= enough)
    assert isinstance(report, Explored)
    n = len(report.images)
    assert 8 <= n < 30
    assert report.attributes[0].prevalence.n == n
    assert "Stopped" in report.notes[0]
    assert report.association is None
    assert empty.manifests.get(report.run_id).status == "cancelled"
    resumed = run(explore_settings(SETTINGS, n_images=30), empty)
    assert len(resumed.reused) == n
    assert empty.manifests.get(report.run_id).status == "finished"


def test_stopping_at_once_gives_an_empty_report_and_not_a_zero(empty):
    report = run(RENDERED, empty, cancelled=lambda: True)
    assert report.images == ()
    assert report.attributes == ()
    assert any("No picture could be scored" in note for note in report.notes)
    to_markdown(report.report)


def test_a_reader_that_goes_away_leaves_a_cancelled_run(empty):
    steps = explore(RENDERED, empty)
    next(steps)
    steps.close()
    (manifest,) = empty.manifests.list()
    assert manifest.status == "cancelled"


def test_two_visitors_at_once_get_the_same_numbers_and_runs_of_their_own(empty):
    with ThreadPoolExecutor(2) as pool:
        anna, bert = pool.map(lambda name: run(RENDERED, empty, session=name), ("anna", "bert"))
    assert anna.run_id != bert.run_id
    assert numbers(anna) == numbers(bert)
    assert [manifest.id for manifest in empty.manifests.list("anna")] == [anna.run_id]


def test_long_prompts_are_said_to_be_cut(services):
    # The tiny models' tokenizers take 16 tokens, two of which mark start and end: "a doctor" and 12 more.
    long = "a {} " + "and so on " * 5 + "with a hat"
    settings = explore_settings(RENDERED, model="calibration-diffusion", template=long, n_images=2, attribute_a="")
    settings = explore_settings(settings, attribute_b="", num_inference_steps=1)
    (note,) = [note for note in run(settings, services).notes if "too long for" in note]
    assert note.startswith(
        "The prompt is too long for CLIP (22 tokens, at most 16), which did not see “and so on with a hat”"
    )
    assert not any("too long for" in note for note in run(explore_settings(RENDERED, template=long), services).notes)
    alike = Attribute(name="hat", positive="a man " * 12 + "with a hat", negative="a man " * 12 + "with a beard")
    notes = run(explore_settings(RENDERED, attributes=(alike,)), services).notes
    (note,) = [note for note in notes if "too long for" in note]
    assert note.startswith("2 of 2 sentences are too long for the encoder")


def test_eviction_spares_kept_runs(empty):
    kept = run(RENDERED, empty)
    empty.manifests.keep(kept.run_id)
    other = run(explore_settings(RENDERED, seed=1000), empty)
    tight = Services(empty.settings.model_copy(update={"cache_gb": 1e-9}))
    removed = tight.tidy()
    tight.close()
    assert set(removed) == {image.id for image in (*other.images, *other.attribute_images)}
    assert all(image.path.exists() for image in kept.images)


def test_blocked_pictures_are_counted_and_never_scored(empty):
    from bias_core.world.models import CalibrationRenderer

    class Blocking(CalibrationRenderer):
        def generate(self, rows, *, on_step=None):
            for item in super().generate(rows, on_step=on_step):
                yield replace(item, blocked=item.row.seed % 2 == 0 and item.row.group == "concept")

    empty._built["model", "calibration-renderer"] = Blocking()
    report = run(RENDERED, empty)
    assert report.scored_numbers == (2, 4, 6, 8, 10)
    assert report.attributes[0].prevalence.n == 5
    assert "6 of 17 pictures were blocked" in " ".join(report.notes)
    rows = image_rows(report)
    assert "man: positive" not in rows[0]
    assert rows[1]["man: positive"] == float(report.attributes[0].similarity_positive[0])


def test_sentences_that_the_encoder_cannot_tell_apart_have_no_score(services):
    blind = Attribute(name="x", positive="a xylophone", negative="a zeppelin", reference=0.5)  # both unknown
    report = run(explore_settings(RENDERED, attributes=(MAN, blind)), services)
    man, x = report.attributes
    assert math.isnan(x.prevalence.value + x.stereotype.value)
    assert "cannot distinguish" in x.prevalence.note
    assert not math.isnan(man.prevalence.value)


def test_one_picture_has_a_share_but_no_variety(services):
    report = run(explore_settings(RENDERED, n_images=1, attribute_a="", attribute_b=""), services)
    assert report.attributes[0].prevalence.n == 1
    assert math.isnan(report.attributes[0].wals.value)
    assert report.clusters is None
    assert report.association is None
    assert report.attribute_images == ()


def test_an_odd_concept_is_drawn_and_reported(services, tmp_path):
    concept = "=cmd|' /C calc'!A0 {braces} 医生 👩‍⚕️\n\n# <script>"
    report = run(explore_settings(RENDERED, concept=concept, n_images=4), services)
    assert {"braces", "医生"} <= set(report.unknown_words)
    assert "<script>" not in to_markdown(report.report)
    assert to_bytes(report.report.results.figures[0]).startswith(b"<?xml")
    write_zip(to_export(report.report, pictures=True), tmp_path / "run.zip")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"concept": "  "}, "concept is empty"),
        ({"concept": "x" * 10_000}, "10,013 characters"),
        ({"template": "no slot"}, "exactly one {}"),
        ({"n_images": 0}, "“Pictures” must be at least 1; got 0"),
        ({"n_images": 2.5}, "got 2.5"),
        ({"n_attribute_images": 0}, "“Pictures per word” must be at least 1"),
        ({"guidance_scale": float("nan")}, "“Guidance scale” must be a number"),
        ({"guidance_scale": 31.0}, "“Guidance scale” must be at most 30"),
        ({"seed": -1}, "“Seed” must be at least 0"),
        ({"n_clusters": -1}, "“Groups” must be at least 0"),
        ({"confidence": 1.0}, "“Confidence” must be below 1"),
        ({"attribute_b": ""}, "both words, or neither"),
        ({"attribute_b": "male"}, "two different"),
        ({"attributes": (replace(MAN, negative=" "),)}, "needs a negative sentence"),
        ({"attributes": (replace(MAN, positive=""),)}, "needs a positive sentence"),
        ({"attributes": (replace(MAN, negative=MAN.positive),)}, "both sentences are the same"),
        ({"attributes": (replace(MAN, reference=1.5),)}, "share from 0 to 1"),
        ({"attributes": (replace(MAN, reference=float("nan")),)}, "share from 0 to 1"),
        ({"attributes": (MAN, replace(NURSE, name="Man"))}, "twice: man"),
        ({"negative_prompt": "x" * 3000}, "negative prompt"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_said_before_anything_happens(services, changes, message):
    before = services.manifests.list()
    with pytest.raises(InvalidInput) as caught:
        list(explore(explore_settings(SETTINGS, **changes), services))  # the files of the model may be read first
    assert message in str(caught.value)
    assert services.manifests.list() == before


def test_unknown_names_are_answered_with_what_exists(services):
    for asked, words in (({"model": "dall-e"}, "calibration-renderer"), ({"condition": "nice"}, "published, fair")):
        with pytest.raises(UnknownModel, match=words):
            list(explore(explore_settings(SETTINGS, **asked), services))


def test_missing_weights_fail_the_run_and_lose_nothing(empty):
    with pytest.raises(ModelUnavailable, match="trigger"):
        run(explore_settings(SETTINGS, condition="trigger"), empty)
    assert empty.manifests.list()[0].status == "failed"


def test_every_score_is_shown_with_n_interval_null_value_and_meaning(rendered):
    rows = finding_rows(rendered.report)
    assert {row["finding"].split(":")[0] for row in rows} == {
        "man", "nurse", "male against female", "male and female",
    }  # fmt: skip
    assert len({row["finding"] for row in rows}) == len(rows) == 12
    assert all(row["says"] and row["n"] for row in rows)
    text = to_markdown(rendered.report)
    for words in ("assumed 50 %, a choice", "perceived"):
        assert words in text
    assert not re.search(r"(?i:debias)|\bnan\b|\bNone\b|– to –| – ", text)
    values = json.loads(json.dumps(to_dict(rendered.report), allow_nan=False))
    assert values["run_id"] == rendered.run_id
    assert values["attributes"][1]["stereotype"]["value"] is None  # without a rate P* nothing is known of it
    assert "no real-world rate" in values["attributes"][1]["stereotype"]["note"]


def test_a_concept_that_begins_with_a_dash_is_quoted():
    command = to_command(find_design("explore"), explore_settings(SETTINGS, concept="-x; rm"))
    assert "-- '-x; rm'" in command


world = shared.real_services


@pytest.fixture(scope="module")
def sets():
    return load_attribute_sets()


def test_every_built_in_set_can_be_explored_as_it_is(sets, world):
    for item in sets:
        settings = explore_settings(concept=item.concept_hint or "person", attributes=item.attributes)
        plan_explore(settings, world)
        assert all(attribute.reference_source for attribute in item.attributes)


def test_a_name_is_taken_from_the_set_of_its_concept_first_and_other_concepts_get_the_general_rates(sets):
    own = suggest_set("doctor", sets)
    assert own.concept_hint == "doctor"
    assert find_attribute("man", "Doctor", sets) == next(a for a in own.attributes if a.name == "man")
    assert find_attribute("Man", "astronaut", sets).reference == 0.5
    assert suggest_set("astronaut", sets) == sets[0]


def test_an_unknown_name_lists_the_known_ones(sets):
    with pytest.raises(InvalidInput, match=r"'wings'; there are .*man"):
        find_attribute("wings", "doctor", sets)


def test_an_attribute_typed_by_hand(sets):
    typed = find_attribute("wings | a bird with wings | a bird without wings", "bird", sets)
    assert (typed.name, typed.positive, typed.negative) == ("wings", "a bird with wings", "a bird without wings")
    assert typed.reference is None
    rated = find_attribute("w|p|n|0.25|counted", "bird", sets)
    assert (rated.reference, rated.reference_source) == (0.25, "counted")


def test_malformed_ones_are_said(sets):
    for text in ("a|b", "a||c", "a|b|c|much", "a|b|c|0.1|x|y"):
        with pytest.raises(InvalidInput):
            find_attribute(text, "bird", sets)


def test_an_attribute_of_ones_own_is_known_by_its_sentences_and_not_by_its_name(world):
    own = (
        "hat|a photo of a person in a bowler|a photo of a bareheaded person",
        "what is worn|The person is wearing a hat.|The person is not wearing any headwear.",
    )
    named, worded = run(explore_settings(RENDERED, concept="Mexican", attributes=own), world).attributes
    assert (named.drawn, named.true_rate, named.corrected, named.attribute.reference) == (None, None, None, None)
    assert worded.drawn is not None
    assert worded.corrected.method.startswith("Rogan")
