"""StOP finds the words that a cluster was drawn with, and a text's own pictures are held against its cluster."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bias_core.errors import Cancelled, InvalidInput, ModelUnavailable, UnknownModel
from bias_core.papers.oasis.cells import own_concepts, without_names
from bias_core.papers.oasis.study_stop import Cluster, _decided, _shorten_title, cluster_names, regenerate
from bias_core.papers.oasis.tab import _verdict
from bias_core.report.figures import to_bytes
from bias_core.report.headlines import headline
from bias_core.run.run import complete, followed, run_study
from bias_core.store.readings import AnswerCache
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import Attribute
from tests import shared
from tests.every import every
from tests.study.oasis_runs import figures, findings, run, shots_of, table, without_seconds

NAME = "oasis-stop"
WORDS = [
    "with long blond hair", "with a beard", "wearing a sombrero", "holding a violin", "wearing modern Western clothing",
    "wearing $5",
]  # fmt: skip
OPTIONS = {
    "nationalities": ["Iranian"], "prefix": "A photo of a person", "n_tokens": 1, "n_clusters": 2,
    "contrast": False, "held_out": 0.0,
}  # fmt: skip


class Words:
    """A language model that proposes the same few phrases after everything."""

    name = "words"

    def __init__(self, words=WORDS):
        self.words = words
        self.asked = 0

    def propose(self, prefixes, n):
        self.asked += 1
        return [[f"{prefix} {word}" for word in self.words[:n]] for prefix in prefixes]

    def log_probabilities(self, texts, *, ends):
        return np.zeros(len(texts))

    def complete(self, prompt, max_new_tokens):
        raise NotImplementedError


class Missing(Words):
    """A language model whose weights are not there."""

    def propose(self, prefixes, n):
        raise ModelUnavailable("no weights; train them")


real = shared.real_services


@pytest.fixture(scope="module")
def world(real):
    real._built["language_model", "calibration-language"] = Words()
    return real


@pytest.fixture(scope="module")
def report(world):
    return run(world, NAME, scale=0.02, options=OPTIONS)


def test_the_planted_words_come_first(report):
    # Of SDv2's Iranian pictures 98 % are men and 96.6 % have a beard; 4 % wear a sombrero.
    prompts = table(report, "table3")
    first = prompts[prompts["rank"] == 1]
    assert (first["prompt"] == "A photo of a person with a beard").any()
    assert first["gain"].max() > 0
    assert prompts["cosine"].between(-1, 1).all()
    assert (prompts.groupby("cluster")["cosine"].diff().dropna() <= 0).all()


def test_specificity_compares_with_the_other_pictures(report):
    prompts = table(report, "table3")
    gains_outside = prompts["others"] - _prefix_outside(prompts)
    np.testing.assert_allclose(prompts["specificity"], prompts["gain"] - gains_outside, atol=1e-6)


def _prefix_outside(prompts):
    """With two clusters the pictures outside one are those of the other."""
    swapped = {1: 2, 2: 1}
    alone = prompts.groupby("cluster")["prefix alone"].first()
    return prompts["cluster"].map(lambda cluster: alone[swapped[cluster]])


def test_pictures_are_drawn_from_the_closest_text_with_new_seeds(report, world):
    assert len(world.manifests.get(report.run_id).rows) == 40
    sizes = table(report, "clusters")
    assert sizes["drawn"].tolist() == [4, 4]
    assert sizes["pictures"].sum() == 40
    assert sizes["share"].sum() == pytest.approx(1.0)
    assert report.n_images == report.n_planned == 48
    found = findings(report)
    pictures = found["Iranian 1 pictures"].estimate
    assert pictures.n == 4
    assert pictures.low < pictures.value < pictures.high < 1
    assert pictures.value == pytest.approx(sizes["drawn from its text"][0])
    assert '"A photo of a person' in found["Iranian 1 text"].says


def test_closeness_is_the_mean_over_all_pairs(tmp_path):
    rng = np.random.default_rng(0)
    rows, others = (_unit(rng.normal(size=(n, 7))) for n in (5, 3))
    cluster = Cluster(nationality="x", number=1, frame=None, rows=rows, other_rows=others, average=tmp_path, prompts=())
    pairs = [float(a @ b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
    assert cluster.own_closeness() == pytest.approx(np.mean(pairs))
    across = [float(a @ b) for a in others for b in rows]
    assert cluster.closeness(others, StudySettings()).value == pytest.approx(np.mean(across))
    single = Cluster(
        nationality="x", number=1, frame=None, rows=rows[:1], other_rows=others, average=tmp_path, prompts=()
    )
    assert math.isnan(single.own_closeness())


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_figures_show_averages_typical_and_drawn_pictures(report):
    shown = figures(report)["table3"].data
    assert shown.groupby("row")["column"].count().tolist() == [8, 8]  # average, 3 typical, 4 drawn
    assert to_bytes(figures(report)["table3"], "png")  # "$5" and letters that fonts lack
    attributes = figures(report)["attributes"].data
    assert set(attributes["row"]) == {"Iranian, cluster 1", "Iranian, cluster 2"}
    beard = attributes[attributes["column"] == "beard"]["value"]
    assert (beard > 0.5).all()


def test_published_prompts_stand_beside(report):
    printed = table(report, "published")
    assert printed["prompt"][2] == r"This is a photo of \u093f\u0935 Sheikh"


def test_titles_are_plain_letters():
    assert _shorten_title("with \u093f a beard, $5") == r"with \u093f a beard, \$5"
    assert len(_shorten_title("\u093f" * 30)) <= 26
    assert not _shorten_title("\u093f" * 30).removesuffix("...").endswith("\\")


def test_a_stopped_search_reports_the_clusters_that_were_searched_and_goes_on(world, report, tmp_path, monkeypatch):
    monkeypatch.setattr(world, "answers", AnswerCache(tmp_path / "answers.sqlite"))  # without the report's searches
    words = world._built["language_model", "calibration-language"] = Words()
    with pytest.raises(Cancelled, match="stopped after 0 of 2 clusters searched for texts, too few for a number"):
        run(world, NAME, scale=0.02, options=OPTIONS, cancelled=lambda: words.asked > 0)
    words.asked = 0
    one = run(world, NAME, scale=0.02, options=OPTIONS, cancelled=lambda: words.asked > 1)
    assert one.stopped_after == "1 of 2 clusters searched for texts"
    assert list(findings(one)) == ["Iranian 1 text"]
    assert findings(one)["Iranian 1 text"].estimate.value == findings(report)["Iranian 1 text"].estimate.value
    assert one.n_images == 40  # none is drawn from its text any more
    words.asked = 0
    again = run(world, NAME, scale=0.02, options=OPTIONS)
    assert words.asked == 1  # for the cluster that was not searched
    assert without_seconds(again) == without_seconds(report)


def test_one_cluster_has_nothing_to_be_compared_with(world):
    options = OPTIONS | {"n_clusters": 1, "n_generated": 0}
    report = run(world, NAME, scale=0.02, options=options)
    prompts = table(report, "table3")
    assert prompts[["others", "specificity"]].isna().all().all()
    assert list(findings(report)) == ["Iranian 1 text"]
    assert prompts["prompt"][0] == "A photo of a person with a beard"


def test_by_default_texts_tell_a_cluster_apart_and_are_scored_on_pictures_held_out(world):
    ours = {name: value for name, value in OPTIONS.items() if name not in ("contrast", "held_out")}
    report = run(world, NAME, scale=0.02, options=ours | {"n_generated": 0})
    assert (report.settings.options.contrast, report.settings.options.held_out) == (True, 0.5)
    sizes, prompts = table(report, "clusters").set_index("cluster"), table(report, "table3")
    assert (prompts["n"] == prompts["cluster"].map((sizes["pictures"] * 0.5).round())).all()
    assert "scored on the others" in " ".join(report.results.notes)


def test_contrast_ranks_by_what_tells_a_cluster_apart(world, report):
    options = OPTIONS | {"contrast": True, "n_generated": 0, "top_k": 6}
    prompts = table(run(world, NAME, scale=0.02, options=options), "table3")
    assert (prompts.groupby("cluster")["specificity"].diff().dropna() <= 1e-9).all()
    plain = table(report, "table3").groupby("cluster")["specificity"].first()
    assert (prompts.groupby("cluster")["specificity"].first() >= plain - 1e-9).all()
    alone = run(world, NAME, scale=0.02, options=options | {"n_clusters": 1})
    assert len(table(alone, "table3")) == 6


def test_a_cluster_is_picked_by_its_number_in_place_of_the_largest(report, world):
    picked = run(world, NAME, scale=0.02, options=OPTIONS | {"clusters": ["Iranian 2"]})
    assert table(picked, "clusters")["cluster"].tolist() == [2]
    second = table(report, "table3").query("cluster == 2").reset_index(drop=True)
    assert table(picked, "table3").equals(second)
    assert picked.n_planned == 44  # pictures of one text only
    refusals = {"3": "at most 2 clusters", "Martian 1": "Martian is none", "two": "by its number", "0": "by its number"}
    for text, words in refusals.items():
        with pytest.raises(InvalidInput, match=words):
            shots_of(NAME, options=OPTIONS | {"clusters": [text]})


def test_the_eigengap_chooses_where_no_number_is_given(world):
    report = run(world, NAME, scale=0.02, options=OPTIONS | {"n_clusters": 0, "n_generated": 0})
    assert any("by the largest eigengap" in note for note in report.results.notes)


def test_a_nationality_without_attributes_has_clusters_too(services):
    services._built["language_model", "calibration-language"] = Words()
    options = OPTIONS | {"nationalities": ["American"], "prefix": "a photo of a"}
    report = run(services, NAME, scale=0.004, model="calibration-diffusion", num_inference_steps=2, options=options)
    assert "attributes" not in figures(report)
    assert report.n_images == 8 + 4 * len(table(report, "clusters"))


def test_missing_weights_stop_the_study_before_pictures_are_read(services):
    services._built["language_model", "calibration-language"] = Missing()
    with pytest.raises(ModelUnavailable, match="train them"):
        run(services, NAME, scale=0.004, options=OPTIONS)
    with pytest.raises(UnknownModel, match="no-such"):
        run(services, NAME, scale=0.004, options=OPTIONS | {"language_model": "no-such"})


fakes = shared.fake_services

OF_OWN = {"prefix": "a photo of a person with", "n_tokens": 1, "n_clusters": 2, "n_generated": 3}
GLASSES = Attribute(name="glasses", positive="glasses", negative="without glasses")
BEARD = Attribute(name="beard", positive="beard", negative="without a beard", reference=0.2)


def own(study, **changes):
    asked = {"concepts": ["nurse", " ceo ", "nurse", ""], "template": "a photo of a {}", "n": 11}
    return own_concepts(find_design(study), **(asked | {"attributes": (GLASSES, BEARD)} | changes))


@pytest.fixture(scope="module")
def owned(fakes):
    settings = without_names(StudySettings(options=OF_OWN))
    return complete(run_study(own("oasis-stop"), settings, fakes))


def drawn(owned, fakes, **changes):
    found = []
    asked = {"cluster": "nurse, cluster 1", "prompt": "a photo of a person with glasses", "n": 5}
    for _ in followed(regenerate(owned, fakes, **(asked | changes)), found):
        pass
    return found[0]


def test_similarities_are_mean_cosines_over_all_pairs(owned, fakes):
    found = drawn(owned, fakes)
    encoder = fakes.encoder("calibration-clip")
    frame = owned.pictures
    inside = frame[(frame["group"] == "nurse") & (frame["cluster"] == "nurse, cluster 1")]
    own_rows = fakes.embeddings.images(encoder, [owned.stored[i] for i in inside["image_id"]])
    new_rows = fakes.embeddings.images(encoder, list(found.drawn.pictures))
    pairs = [[float(a @ b) for b in own_rows] for a in new_rows]
    np.testing.assert_allclose(found.drawn.closeness, np.mean(pairs, axis=1), atol=1e-5)
    alone = [np.mean([a @ b for j, b in enumerate(own_rows) if j != i]) for i, a in enumerate(own_rows)]
    np.testing.assert_allclose(found.own_side.closeness, sorted(alone, reverse=True), atol=1e-5)
    assert found.drawn.mean.value == pytest.approx(np.mean(pairs), abs=1e-5)
    assert found.drawn.mean.low < found.drawn.mean.value < found.drawn.mean.high
    assert len(found.own_side.pictures) + len(found.other_side.pictures) == 11
    text = encoder.encode_texts(["a photo of a person with glasses"])[0]
    assert found.text_closeness == pytest.approx(float((own_rows @ text).mean()), abs=1e-5)


def test_new_pictures_have_seeds_that_the_cluster_has_not(owned, fakes):
    found = drawn(owned, fakes)
    assert sorted(stored.row.seed for stored in found.drawn.pictures) == [11, 12, 14, 15]  # 13 is blocked
    assert max(stored.row.seed for stored in found.own_side.pictures) < 11
    assert {stored.row.prompt for stored in found.drawn.pictures} == {"a photo of a person with glasses"}


def test_clusters_are_listed_by_concept_and_size(owned):
    names = cluster_names(owned)
    assert names == [f"{concept}, cluster {k}" for concept in ("ceo", "nurse") for k in (1, 2)]
    sizes = owned.pictures[owned.pictures["group"] == "nurse"]["cluster"].value_counts()
    assert sizes["nurse, cluster 1"] >= sizes["nurse, cluster 2"]
    assert owned.pictures["similarity to its cluster"].between(-1, 1).all()


def test_drawing_can_be_stopped_and_what_cannot_be_drawn_is_refused(owned, fakes):
    for changes, words in (
        ({"cluster": "nurse, cluster 9"}, "no cluster 'nurse, cluster 9'; there are ceo, cluster 1"),
        ({"prompt": "  "}, "the text is empty"),
        ({"n": 0}, "1 to 64 pictures"),
        ({"n": 65}, "got 65"),
    ):
        with pytest.raises(InvalidInput, match=words):
            drawn(owned, fakes, **changes)
    with pytest.raises(Cancelled):
        drawn(owned, fakes, prompt="another text", cancelled=lambda: True)
    brought = replace(owned, settings=replace(owned.settings, images="some.zip"))
    with pytest.raises(InvalidInput, match="pictures are imported"):
        drawn(brought, fakes)


def test_a_text_is_drawn_within_the_limit(owned, fakes, monkeypatch):
    monkeypatch.setattr(fakes, "settings", fakes.settings.model_copy(update={"max_images": 4}))
    with pytest.raises(InvalidInput, match="drawing a text asks for 5 pictures"):
        drawn(owned, fakes, prompt="a text of one's own")


def test_options_that_name_the_shipped_content_are_left_out():
    settings = StudySettings(scale=0.1, options={"nationalities": "Iranian", "guided": "true"})
    assert without_names(settings).options == {"guided": "true"}
    assert without_names(settings).scale == 1.0
    assert own("oasis-stop", attributes=()).data["nationalities"]["ceo"]["attributes"] == []


@every([
    ("oasis-doctors", {}, "“Doctors and nationality” compares with the paper's numbers"),
    ("oasis-nationalities", {}, "write them into Explore"),
    ("oasis-spi", {"concepts": [" ", ""]}, "there is no concept"),
    ("oasis-spi", {"template": "a photo"}, r"the prompt needs \{\}"),
    ("oasis-spi", {"attributes": ()}, "there is no attribute"),
    ("oasis-spi", {"attributes": (GLASSES, GLASSES)}, "two attributes have the same name: glasses, glasses"),
    ("oasis-spi", {"attributes": (replace(GLASSES, negative=""),)}, "a sentence for its presence"),
    ("oasis-spi", {"attributes": (replace(GLASSES, reference=56.0),)}, r"P\* of glasses is a share"),
    ("oasis-spi", {"n": 0}, "1 to 500 pictures"),
])  # fmt: skip
def test_own_words_that_cannot_be_used_are_refused(study, changes, words):
    with pytest.raises(InvalidInput, match=words):
        own(study, **changes)


def test_spi_of_one_seed_has_no_interval_and_the_renderer_no_steps(fakes):
    design = own("oasis-spi", concepts=["nurse"], n=1)
    settings = without_names(
        StudySettings(model="calibration-diffusion", num_inference_steps=3, seed=3)
    )  # glasses at the first step
    row = next(t.frame for t in complete(run_study(design, settings, fakes)).results.tables).iloc[0]
    assert row["SPI, first step"] == pytest.approx(0.5, abs=0.021)
    assert np.isnan(row["SPI, first step low"])
    assert row["first step low"] < 0 < row["first step"]  # of a share of one seed, as wide as can be
    assert np.isnan(row["first clear"])
    with pytest.raises(InvalidInput, match="calibration-renderer has no denoising steps"):
        complete(run_study(design, StudySettings(model="calibration-renderer"), fakes))


def test_a_concept_of_one_cluster_has_no_other_pictures_to_compare_with(fakes):
    settings = without_names(StudySettings(options=OF_OWN | {"n_clusters": 1}))
    found = drawn(complete(run_study(own("oasis-stop", concepts=["nurse"]), settings, fakes)), fakes)
    assert len(found.own_side.pictures) == 11
    assert (found.other_side.pictures, found.other_side.mean) == ((), None)
    assert np.isfinite(found.drawn.mean.value)


@pytest.mark.parametrize(("closer", "than_own", "words"), [
    (0.3, 0.0, "reproduces the cluster: closer than the concept's other pictures (+0.296 ["),
    (0.3, -0.3, "partly reproduces the cluster: closer than"),
    (-0.3, -0.5, "does not reproduce the cluster: the concept's other pictures are closer to it"),
    (0.01, 0.0, "is not clearly closer to the cluster than the concept's other pictures"),
])  # fmt: skip
def test_the_verdict_on_drawn_pictures_follows_two_tests_of_one_family(closer, than_own, words):
    rng = np.random.default_rng(0)
    drawn, own, others = (rng.normal(at, 0.05, n) for at, n in ((0.5, 9), (0.5 - than_own, 20), (0.5 - closer, 30)))
    beyond_own, beyond_others = _decided(drawn, (own, others), StudySettings())
    assert beyond_own[1].n_tests == beyond_others[1].n_tests == 2
    both = SimpleNamespace(beyond_own=beyond_own, beyond_others=beyond_others, drawn=SimpleNamespace(closeness=drawn))
    assert words in _verdict(both)
    few = _decided(drawn[:1], (own, others), StudySettings())
    both = SimpleNamespace(beyond_own=few[0], beyond_others=few[1], drawn=SimpleNamespace(closeness=drawn[:1]))
    assert _verdict(both) == "These pictures are too few to compare the text with the cluster; draw more."
    alone = SimpleNamespace(beyond_own=beyond_own, beyond_others=None, drawn=both.drawn)
    assert "other pictures of the concept" in _verdict(alone) or "closer to each other" in _verdict(alone)


def test_words_of_texts_are_claims_of_one_family_and_too_few_pictures_say_how_many(world):
    few = run(world, NAME, scale=0.01, options={"nationalities": ["Iranian"], "n_generated": 0})
    prompts = table(few, "table3")
    assert "too few" in set(prompts["clear"])
    assert "Too few pictures to tell whether the best text fits better than for the other" in headline(few)
    assert headline(few).endswith("times as many pictures are needed.")
    paper = run(world, NAME, scale=0.01, options={"nationalities": ["Iranian"], "n_generated": 0, "held_out": 0.0})
    assert set(table(paper, "table3")["clear"]) == {""}
    assert headline(paper).startswith("Not tested, as the search saw all pictures or there are no others: Iranian")
