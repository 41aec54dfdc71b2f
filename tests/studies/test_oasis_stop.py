"""StOP finds the words that a cluster was drawn with, and shows pictures that they draw."""

import math

import numpy as np
import pytest

from bias_core.errors import Cancelled, ModelUnavailable, UnknownModel
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.origins.stop import Cluster, _plain
from bias_core.studies.reports.figures import to_bytes
from tests import shared
from tests.studies.oasis_runs import figures, findings, run, table, without_seconds

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
    cluster = Cluster(nationality="x", number=1, frame=None, rows=rows, others=others, average=tmp_path, prompts=())
    pairs = [float(a @ b) for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
    assert cluster.own_closeness() == pytest.approx(np.mean(pairs))
    across = [float(a @ b) for a in others for b in rows]
    assert cluster.closeness(others, StudySettings()).value == pytest.approx(np.mean(across))
    single = Cluster(nationality="x", number=1, frame=None, rows=rows[:1], others=others, average=tmp_path, prompts=())
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
    assert _plain("with \u093f a beard, $5") == r"with \u093f a beard, \$5"
    assert len(_plain("\u093f" * 30)) <= 26
    assert not _plain("\u093f" * 30).removesuffix("...").endswith("\\")


def test_a_stopped_search_reports_the_clusters_that_were_searched_and_goes_on(world, report):
    words = world._built["language_model", "calibration-language"] = Words()
    with pytest.raises(Cancelled, match="stopped after 0 of 2 clusters searched for texts, too few for a number"):
        run(world, NAME, scale=0.02, options=OPTIONS, cancelled=lambda: words.asked > 1)
    words.asked = 0
    one = run(world, NAME, scale=0.02, options=OPTIONS, cancelled=lambda: words.asked > 2)
    assert one.stopped_after == "1 of 2 clusters searched for texts"
    assert list(findings(one)) == ["Iranian 1 text"]
    assert findings(one)["Iranian 1 text"].estimate.value == findings(report)["Iranian 1 text"].estimate.value
    assert one.n_images == 40  # none is drawn from its text any more
    again = run(world, NAME, scale=0.02, options=OPTIONS)
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
    assert "which the search has not seen" in " ".join(report.results.notes)


def test_contrast_ranks_by_what_tells_a_cluster_apart(world, report):
    options = OPTIONS | {"contrast": True, "n_generated": 0, "top_k": 6}
    prompts = table(run(world, NAME, scale=0.02, options=options), "table3")
    assert (prompts.groupby("cluster")["specificity"].diff().dropna() <= 1e-9).all()
    plain = table(report, "table3").groupby("cluster")["specificity"].first()
    assert (prompts.groupby("cluster")["specificity"].first() >= plain - 1e-9).all()
    alone = run(world, NAME, scale=0.02, options=options | {"n_clusters": 1})
    assert len(table(alone, "table3")) == 6


def test_the_eigengap_chooses_where_no_number_is_given(world):
    report = run(world, NAME, scale=0.02, options=OPTIONS | {"n_clusters": 0, "n_generated": 0})
    assert "by the largest eigengap" in report.results.notes[0]


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
