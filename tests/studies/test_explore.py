"""Explore from settings to report: attributes by name and by hand, and crossed with each other and with the arms."""

import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from scipy.stats import fisher_exact, hypergeom

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.exchange.export import write_zip
from bias_core.metrics.association import association
from bias_core.metrics.association_null import even_mix_association
from bias_core.metrics.stereotype import attribute_prevalence
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.arms.crossed import cross_arms, crossed_arms_headline
from bias_core.studies.arms.statistics import mean_sample
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.report import image_rows
from bias_core.studies.explore.view import says
from bias_core.studies.kit.attribute_scores import AttributeScore
from bias_core.studies.kit.attributes import check_crossing, find_attribute, load_attribute_sets, suggest_set
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import Arm, Progress
from bias_core.studies.reports.crossed import cross_attributes, crossed_headline, joined, mosaics_of
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.text import finding_rows
from bias_core.studies.running.export import to_command, to_export
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Attribute, Estimate
from bias_core.ui.study.drawing import drawing_html
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
    of_all = "11 of 11 pictures of the concept, 6 of 6 for the association"
    for settings, starts in ((RENDERED, [""]), (replace(RENDERED, arms=arms), ["fair: ", "other: "])):
        *steps, _ = explore(replace(settings, seed=70 * len(starts)), services)
        drawn = [step for step in steps if step.drawing]
        assert drawn[0].message == f"{starts[0]}0 of 11 pictures of the concept, 0 of 6 for the association"
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
    assert "True P of this model is 90\xa0%" in says(man, "unknown")
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
    assert any("no picture" in note for note in report.notes)
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
    (note,) = [note for note in run(settings, services).notes if "longer than" in note]
    assert note.startswith("The prompt is longer than CLIP reads (22 tokens where 16 fit): “and so on with a hat”")
    assert not any("longer than" in note for note in run(explore_settings(RENDERED, template=long), services).notes)
    alike = Attribute(name="hat", positive="a man " * 12 + "with a hat", negative="a man " * 12 + "with a beard")
    notes = run(explore_settings(RENDERED, attributes=(alike,)), services).notes
    (note,) = [note for note in notes if "longer than" in note]
    assert note.startswith("2 of 2 sentences are longer than the encoder reads")


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
    from bias_core.adapters.calibration_renderer import CalibrationRenderer

    class Blocking(CalibrationRenderer):
        def generate(self, rows, *, on_step=None):
            for item in super().generate(rows, on_step=on_step):
                yield replace(item, blocked=item.row.seed % 2 == 0 and item.row.group == "concept")

    empty._built["model", "calibration-renderer"] = Blocking()
    report = run(RENDERED, empty)
    assert report.scored_numbers == (2, 4, 6, 8, 10)
    assert report.attributes[0].prevalence.n == 5
    assert "blanked 6 of 17" in " ".join(report.notes)
    rows = image_rows(report)
    assert "man: positive" not in rows[0]
    assert rows[1]["man: positive"] == float(report.attributes[0].similarity_positive[0])


def test_sentences_that_the_encoder_cannot_tell_apart_have_no_score(services):
    blind = Attribute(name="x", positive="a xylophone", negative="a zeppelin", reference=0.5)  # both unknown
    report = run(explore_settings(RENDERED, attributes=(MAN, blind)), services)
    man, x = report.attributes
    assert math.isnan(x.prevalence.value + x.stereotype.value)
    assert "same" in x.prevalence.note
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

NOTHING = Estimate.undefined(0, "")


def score(name, calls, **more):
    attribute = Attribute(name=name, positive=f"{name}.", negative=f"Not {name}.", **more)
    yes = np.asarray(calls, dtype=float)
    share = Estimate(value=float(np.nanmean(yes)), low=0.0, high=1.0, n=len(yes))
    numbers = dict.fromkeys(("stereotype", "signed_difference", "variance_share", "wals"), NOTHING)
    sides = {"similarity_positive": yes, "similarity_negative": np.where(np.isnan(yes), np.nan, 0.5)}
    return AttributeScore(attribute=attribute, prevalence=share, **numbers, **sides)


def crossed(scores, prompts=None, crossing="pairs", **more):
    n = len(scores[0].calls)
    given = {"confidence": 0.95, "fixed_n": True, "sample": mean_sample} | more
    return cross_attributes(scores, prompts or ["p"] * n, [str(i) for i in range(n)], crossing=crossing, **given)


WOMEN = [1] * 50 + [0] * 50
YOUNG = [1] * 45 + [0] * 5 + [1] * 25 + [0] * 25
SOURCED = {"reference": 0.3, "reference_source": "bls2024"}


def test_the_sentence_says_both_shares_and_the_odds_ratio():
    results = crossed([score("woman", WOMEN), score("young", YOUNG)])
    share, link = results.findings
    assert link.says.startswith(
        "More than each by itself gives: with “woman”, “young” is seen in 90 %, without in 50 %"
    )
    assert "(odds ratio 8.8, 3.1 to 29)" in link.says
    assert share.estimate.low <= share.estimate.value <= share.estimate.high
    assert share.says == "If each went by itself, it would be 35 %."
    assert link.says in crossed_headline(results.findings)
    assert share.sample.statistic(np.arange(100)) == pytest.approx(0.45)


def test_what_has_nothing_to_do_with_each_other_is_not_claimed():
    even = crossed([score("woman", [1, 1, 0, 0] * 25), score("young", [1, 0] * 50)])
    assert even.findings[1].says.startswith("Not told from what each by itself gives")
    # 25 in each cell, the likeliest table: its chance counts half.
    assert even.findings[1].p_value == pytest.approx(1 - hypergeom.pmf(25, 100, 50, 50) / 2)
    assert "Not told" in crossed_headline(even.findings)


def test_arms_stand_beside_each_other_with_a_mosaic_each():
    arms = [
        SimpleNamespace(name=name, results=crossed([score("woman", WOMEN), score("young", young)]))
        for name, young in (("fair", [1, 0] * 50), ("crossed", YOUNG))
    ]
    assert [(one.key, one.title) for one in mosaics_of(arms)] == [
        ("mosaic1-1", "woman and young together, fair"),
        ("mosaic1-2", "woman and young together, crossed"),
    ]


def test_p_is_adjusted_for_all_pairs_and_triples():
    rng = np.random.default_rng(0)
    three = [score(name, rng.integers(0, 2, 90)) for name in "abc"]
    frame = crossed(three, crossing="triples").frame("interactions")
    assert list(frame["attributes"]) == ["a × b", "a × c", "b × c", "a × b × c"]
    assert frame["p adjusted"].min() == pytest.approx(min(1, 4 * frame["p"].min()))


def test_rates_of_the_world_are_multiplied_only_where_all_have_a_source():
    some = [score("woman", WOMEN, **SOURCED), score("young", YOUNG, **SOURCED)]
    results = crossed(some)
    difference, stereotype = results.findings[2:]
    assert difference.estimate.value == pytest.approx(results.findings[0].estimate.value - 0.09)
    assert stereotype.metric == "stereotype_score"
    assert "product of the rates" in difference.says
    assert results.frame("crossed")["P*"].tolist() == pytest.approx([0.49, 0.21, 0.21, 0.09])
    chosen = {"reference": 0.5, "reference_source": "assumed 50 %, a choice"}
    assert len(crossed([some[0], score("young", YOUNG, **chosen)]).findings) == 2


def test_small_cells_are_warned_of_with_the_number_that_would_do():
    rare = crossed([score("woman", WOMEN), score("turban", [1] + [0] * 99)])
    assert rare.notes == (
        "Small cells: fewer than 5 pictures are to be expected in a combination of “woman × turban” "
        "(1,000 pictures would do).",
    )
    assert rare.figures[0].data["small"].tolist() == [True, False, True, False]


def test_pictures_that_the_judge_cannot_tell_are_left_out_of_their_crossing_alone():
    unclear = score("young", [math.nan] * 10 + YOUNG[10:])
    results = crossed([score("woman", WOMEN), unclear, score("hat", [1, 0] * 50)])
    totals = results.frame("crossed").groupby("attributes")["pictures"].sum()
    assert totals.to_dict() == {"woman × young": 90, "woman × hat": 100, "young × hat": 90}


def test_nothing_is_told_of_an_attribute_in_every_picture_nor_where_nobody_asks_or_the_number_was_not_fixed():
    results = crossed([score("woman", [1] * 100), score("young", YOUNG)])
    assert "Nothing can be told: one of the attributes is seen in all pictures" in results.findings[1].says
    assert results.findings[1].p_value is None
    assert crossed_headline(results.findings) == ""
    assert crossed([score("woman", WOMEN), score("young", YOUNG)], crossing="none").findings == ()
    watched = crossed([score("woman", WOMEN), score("young", YOUNG)], fixed_n=False)
    assert (watched.findings, len(watched.notes)) == ((), 1)
    assert joined(watched, watched).notes == watched.notes * 2


def test_what_cannot_be_crossed_is_refused_before_anything_is_drawn():
    many = [Attribute(name=str(i), positive="a", negative="b") for i in range(9)]
    for attributes, crossing in ((many, "pairs"), (many[:1], "pairs")):
        with pytest.raises(InvalidInput, match="2 to 8 attributes can be crossed"):
            check_crossing(attributes, crossing)
    with pytest.raises(InvalidInput, match="at least three"):
        check_crossing(many[:2], "triples")
    with pytest.raises(InvalidInput, match="“Crossed attributes” must be one of none, pairs, triples"):
        explore_settings(concept="doctor", crossed="all")


def test_scores_of_combinations_need_one_attribute_of_gender_and_an_occupation_with_a_stereotype():
    old_men = [score("man", 1 - np.array(WOMEN)), score("young", YOUNG)]

    def table_of(scores, prompt):
        results = crossed(scores, [prompt] * 100)
        return next((one.frame for one in results.tables if one.key == "crossed_scores"), None)

    doctors, nurses = (table_of(old_men, f"a photo of a {name}") for name in ("doctor", "nurse"))
    # Of the 30 old ones 5 are women: 100 · (1 − 2 · 5 / 30); of the 70 young ones 45.
    assert doctors["STS as counted"].tolist() == pytest.approx([100 * (1 - 10 / 30), 100 * (1 - 90 / 70)])
    assert nurses["STS as counted"].tolist() == pytest.approx((-doctors["STS as counted"]).tolist())
    by_women = table_of([score("woman", WOMEN), score("young", YOUNG)], "a photo of a doctor")
    assert by_women["STS"].tolist() == pytest.approx(doctors["STS"].tolist())
    assert by_women["rarer side"].tolist() == [15, 35]
    for scores, prompt in ((old_men, "a photo of a person"), ([score("hat", WOMEN), score("young", YOUNG)], "a nurse")):
        assert table_of(scores, prompt) is None


def test_a_planted_interaction_is_found_from_pictures(world):
    settings = explore_settings(
        concept="CEO", model="calibration-renderer", condition="crossed", n_images=70, attribute_a="", attribute_b="",
        attributes=("woman|a photo of a woman|a photo of a man", "young|The person is young.|The person is old."),
        crossed="pairs",
    )  # fmt: skip
    report = complete(run_study(find_design("explore"), settings, world))
    link = next(one for one in report.results.findings if one.metric == "interaction")
    assert link.says.startswith("More than each by itself gives: with “woman”, “young” is seen in")
    assert {"interactions", "crossed"} <= {table.key for table in report.results.tables}
    # Of old CEOs one in six is a woman, of young ones 9 in 14: scores of 67 and -29, and 0 of all.
    scores = report.results.frame("crossed_scores")
    assert scores["combination"].tolist() == ["not young", "young"]
    assert (scores["low"] <= [200 / 3, -200 / 7]).all()
    assert (scores["high"] >= [200 / 3, -200 / 7]).all()
    old = next(one for one in report.results.findings if one.metric == "crossed_stereotype")
    assert old.title == "not young: stereotype test score"
    assert old.says.startswith("Looks as the stereotype has it; of all people it is ")
    counted = np.arange(len(old.sample.units))
    assert old.sample.statistic(counted) == pytest.approx(scores["STS as counted"][0], abs=3)
    assert any(note.startswith("STS of combinations: the paired stereotype test (its Table 7) has “CEO” as masculine")
               for note in report.results.notes)  # fmt: skip


EVEN = {"doctor": [1] * 20 + [0] * 80, "Indian doctor": [1] * 19 + [0] * 81}


def arms_of(women, young=None):
    """Two attributes of each arm; youth even among women and men where nothing else is said."""
    young = young or {}
    return {
        arm: [score("woman", calls), score("young", young.get(arm, [1, 0] * (len(calls) // 2)))]
        for arm, calls in women.items()
    }


def with_arms(arms, crossing="pairs"):
    return cross_arms(arms, crossing=crossing, confidence=0.95)


def test_the_arm_in_which_an_attribute_is_another_one_is_named_with_both_shares():
    results = with_arms(arms_of({**EVEN, "Iranian doctor": [1] * 2 + [0] * 98}))
    woman, young, both = results.findings
    assert woman.title == "woman and the arm “Iranian doctor”: log odds ratio"
    assert woman.says.startswith("More than chance: “woman” is seen in 2 % of “Iranian doctor”, in 20 % of the others")
    # Three arms, two attributes and the two together: nine tests. 2 of 100 against 39 of 200.
    alone = fisher_exact([[2, 98], [39, 161]]).pvalue - hypergeom.pmf(2, 300, 41, 100) / 2  # mid-p
    frame = results.frame("arm_interactions").set_index(["attributes", "arm"])
    assert len(frame) == 9
    assert frame.loc[("woman", "Iranian doctor"), "p"] == pytest.approx(alone)
    assert woman.p_value == pytest.approx(9 * alone)
    assert young.says.startswith("Not told from chance: “young” is seen in 50 % of “doctor”, in 50 % of the others")
    assert both.p_value is None or both.p_value > 0.05
    cells = results.frame("crossed_arms").query("attributes == 'woman × young' and arm == 'Iranian doctor'")
    assert cells["combination"].tolist() == ["not woman, not young", "not woman, young", "woman, not young",
                                             "woman, young"]  # fmt: skip
    assert cells["pictures"].tolist() == [49, 49, 1, 1]
    assert cells["P"].sum() == pytest.approx(1)
    assert results.notes == ()  # 300 · 0.14 · 0.5 / 3: seven young women of an arm are to be expected
    assert [one.key for one in results.figures] == ["arms1", "arms2", "arms3"]
    assert to_bytes(results.figures[2]).startswith(b"<?xml")  # of four combinations
    assert results.figures[0].data.groupby("column", sort=False)["n"].sum().tolist() == [100, 100, 100]


def test_two_that_go_together_in_one_of_two_arms_alone_are_told_once():
    results = with_arms(arms_of({"fair": WOMEN, "crossed": WOMEN}, {"crossed": YOUNG, "fair": [1, 0] * 50}))
    assert results.frame("arm_interactions")["arm"].tolist() == ["crossed"] * 3
    both = results.findings[-1]
    assert both.title == "woman × young and the arm “crossed”: log of the ratio of odds ratios"
    assert both.estimate.value == pytest.approx(math.log(9), abs=0.1)  # 45 of 50 women and 25 of 50 men are young
    assert "the odds ratio of “woman” and “young” is" in both.says
    assert "as in “fair”" in both.says
    assert crossed_arms_headline(results.findings) == f" {both.says}"
    assert set(results.figures[0].data["column"]) == {"fair", "crossed"}


@pytest.mark.slow
def test_arms_that_are_alike_are_claimed_no_more_often_than_the_level_says():
    rng, claimed = np.random.default_rng(7), 0
    for _ in range(30):
        women = {name: rng.integers(0, 2, 61) for name in "abc"}
        results = with_arms(arms_of(women, {name: rng.integers(0, 2, 61) for name in "abc"}))
        claimed += any(one.says.startswith("More than chance") for one in results.findings)
    assert claimed <= 5  # at 5 % each, more of 30 come once in 300 times
    assert crossed_arms_headline(results.findings).startswith((" No two", " More"))


def test_nothing_is_said_where_nothing_is_crossed_or_can_be_told():
    arms = arms_of({"a": [1] * 10 + [0] * 10, "b": [1] * 10 + [0] * 10})
    assert with_arms(arms, "none").findings == ()
    assert with_arms(dict(list(arms.items())[:1])).findings == ()
    few = with_arms(arms_of({"a": [1] + [0] * 19, "b": [1] * 10 + [0] * 10}))
    assert few.notes == ("Small cells: fewer than 5 pictures of an arm are to be expected in a combination of "
                         "“woman × young”.",)  # fmt: skip
    everywhere = with_arms(arms_of({"a": [1] * 20, "b": [1] * 20}))
    assert everywhere.findings[0].says.startswith("Nothing can be told: one of the attributes")
    assert everywhere.findings[0].p_value is None


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
