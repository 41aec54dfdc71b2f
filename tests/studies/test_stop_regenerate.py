"""What a text draws beside its cluster, and OASIS's studies with words of one's own."""

from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import Cancelled, InvalidInput
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.origins.cells import own_concepts, without_names
from bias_core.studies.origins.stop import cluster_names, regenerate
from bias_core.studies.running.run import complete, followed, run_study
from bias_core.types import Attribute
from tests import shared
from tests.every import every

services = shared.fake_services

OPTIONS = {"prefix": "a photo of a person with", "n_tokens": 1, "n_clusters": 2, "n_generated": 3}
GLASSES = Attribute(name="glasses", positive="glasses", negative="without glasses")
BEARD = Attribute(name="beard", positive="beard", negative="without a beard", reference=0.2)


def own(study, **changes):
    asked = {"concepts": ["nurse", " ceo ", "nurse", ""], "template": "a photo of a {}", "n": 11}
    return own_concepts(find_design(study), **(asked | {"attributes": (GLASSES, BEARD)} | changes))


@pytest.fixture(scope="module")
def report(services):
    settings = without_names(StudySettings(options=OPTIONS))
    return complete(run_study(own("oasis-stop"), settings, services))


def drawn(report, services, **changes):
    found = []
    asked = {"cluster": "nurse, cluster 1", "prompt": "a photo of a person with glasses", "n": 5}
    for _ in followed(regenerate(report, services, **(asked | changes)), found):
        pass
    return found[0]


def test_similarities_are_mean_cosines_over_all_pairs(report, services):
    found = drawn(report, services)
    encoder = services.encoder("calibration-clip")
    frame = report.pictures
    inside = frame[(frame["group"] == "nurse") & (frame["cluster"] == "nurse, cluster 1")]
    own_rows = services.embeddings.images(encoder, [report.stored[i] for i in inside["image_id"]])
    new_rows = services.embeddings.images(encoder, list(found.drawn.pictures))
    pairs = [[float(a @ b) for b in own_rows] for a in new_rows]
    np.testing.assert_allclose(found.drawn.closeness, np.mean(pairs, axis=1), atol=1e-5)
    alone = [np.mean([a @ b for j, b in enumerate(own_rows) if j != i]) for i, a in enumerate(own_rows)]
    np.testing.assert_allclose(found.own.closeness, sorted(alone, reverse=True), atol=1e-5)
    assert found.drawn.mean.value == pytest.approx(np.mean(pairs), abs=1e-5)
    assert found.drawn.mean.low < found.drawn.mean.value < found.drawn.mean.high
    assert len(found.own.pictures) + len(found.others.pictures) == 11
    text = encoder.encode_texts(["a photo of a person with glasses"])[0]
    assert found.text_closeness == pytest.approx(float((own_rows @ text).mean()), abs=1e-5)


def test_new_pictures_have_seeds_that_the_cluster_has_not(report, services):
    found = drawn(report, services)
    assert sorted(stored.row.seed for stored in found.drawn.pictures) == [11, 12, 14, 15]  # 13 is blocked
    assert max(stored.row.seed for stored in found.own.pictures) < 11
    assert {stored.row.prompt for stored in found.drawn.pictures} == {"a photo of a person with glasses"}


def test_clusters_are_listed_by_concept_and_size(report):
    names = cluster_names(report)
    assert names == [f"{concept}, cluster {k}" for concept in ("ceo", "nurse") for k in (1, 2)]
    sizes = report.pictures[report.pictures["group"] == "nurse"]["cluster"].value_counts()
    assert sizes["nurse, cluster 1"] >= sizes["nurse, cluster 2"]
    assert report.pictures["similarity to its cluster"].between(-1, 1).all()


def test_drawing_can_be_stopped_and_what_cannot_be_drawn_is_refused(report, services):
    for changes, words in (
        ({"cluster": "nurse, cluster 9"}, "no cluster 'nurse, cluster 9'; there are ceo, cluster 1"),
        ({"prompt": "  "}, "the text is empty"),
        ({"n": 0}, "1 to 64 pictures"),
        ({"n": 65}, "got 65"),
    ):
        with pytest.raises(InvalidInput, match=words):
            drawn(report, services, **changes)
    with pytest.raises(Cancelled):
        drawn(report, services, prompt="another text", cancelled=lambda: True)
    brought = replace(report, settings=replace(report.settings, images="some.zip"))
    with pytest.raises(InvalidInput, match="brought along"):
        drawn(brought, services)


def test_a_text_is_drawn_within_the_limit(report, services, monkeypatch):
    monkeypatch.setattr(services, "settings", services.settings.model_copy(update={"max_images": 4}))
    with pytest.raises(InvalidInput, match="drawing a text asks for 5 pictures"):
        drawn(report, services, prompt="a text of one's own")


def test_own_concepts_are_measured_as_nationalities_are(services):
    design = own("oasis-nationalities", concepts=["nurse"])
    report = complete(run_study(design, without_names(StudySettings(scale=0.1)), services))
    assert report.n_images == 11
    assert report.design.name == "own-oasis-nationalities"
    frame = next(t.frame for t in report.results.tables if t.key == "table1").set_index("attribute")
    assert frame["n"].tolist() == [11, 11]
    assert np.isnan(frame["Ψ"]["glasses"])  # no P*
    assert frame["P*"]["beard"] == 0.2
    stereotypes = [f for f in report.results.figures if f.key == "map-stereotype"]
    assert stereotypes[0].data["row"].tolist() == ["beard"]
    assert "glasses: nearer by" in report.pictures


def test_options_that_name_the_shipped_content_are_left_out():
    settings = StudySettings(scale=0.1, options={"nationalities": "Iranian", "guided": "true"})
    assert without_names(settings).options == {"guided": "true"}
    assert without_names(settings).scale == 1.0
    assert own("oasis-stop", attributes=()).data["nationalities"]["ceo"]["attributes"] == []


@every([
    ("oasis-doctors", {}, "“Doctors and nationality” compares with printed numbers"),
    ("oasis-spi", {"concepts": [" ", ""]}, "there is no concept"),
    ("oasis-spi", {"template": "a photo"}, r"the prompt needs \{\}"),
    ("oasis-spi", {"attributes": ()}, "there is no attribute"),
    ("oasis-spi", {"attributes": (GLASSES, GLASSES)}, "two attributes have one name: glasses, glasses"),
    ("oasis-spi", {"attributes": (replace(GLASSES, negative=""),)}, "a sentence for its presence"),
    ("oasis-spi", {"attributes": (replace(GLASSES, reference=56.0),)}, r"P\* of glasses is a share"),
    ("oasis-spi", {"n": 0}, "1 to 500 pictures"),
])  # fmt: skip
def test_own_words_that_cannot_be_used_are_refused(study, changes, words):
    with pytest.raises(InvalidInput, match=words):
        own(study, **changes)


def test_spi_of_one_seed_has_no_interval_and_the_renderer_no_steps(services):
    design = own("oasis-spi", concepts=["nurse"], n=1)
    settings = without_names(StudySettings(model="calibration-diffusion", num_inference_steps=3))
    row = next(t.frame for t in complete(run_study(design, settings, services)).results.tables).iloc[0]
    assert row["SPI, first step"] == pytest.approx(0.5, abs=0.021)
    assert np.isnan(row["SPI, first step low"])
    assert row["first step low"] < 0 < row["first step"]  # of a share of one seed, as wide as can be
    assert np.isnan(row["first clear"])
    with pytest.raises(InvalidInput, match="calibration-renderer has no denoising steps"):
        complete(run_study(design, without_names(StudySettings()), services))


def test_a_concept_of_one_cluster_has_no_other_pictures_to_compare_with(services):
    settings = without_names(StudySettings(options=OPTIONS | {"n_clusters": 1}))
    found = drawn(complete(run_study(own("oasis-stop", concepts=["nurse"]), settings, services)), services)
    assert len(found.own.pictures) == 11
    assert (found.others.pictures, found.others.mean) == ((), None)
    assert np.isfinite(found.drawn.mean.value)
