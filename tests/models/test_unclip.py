"""The prior of Kandinsky 2.2 apart from its decoder, on its own classes at tiny size."""

import numpy as np
import pytest
import torch

from bias_core.errors import InvalidInput
from bias_core.protocols import HasPrior
from bias_core.run.run import complete, run_study
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from tests.models.families import own, rows_of, shared
from tests.shared import RealServices


def test_the_embeddings_are_those_that_the_decoder_draws_the_pictures_from(request, monkeypatch):
    model, rows, given = own("kandinsky", request), rows_of("kandinsky", 3), []
    decoder = model.pipeline().decoder_pipe
    called = type(decoder).__call__

    def noted(self, **how):
        given.append(how["image_embeds"])
        return called(self, **how)

    monkeypatch.setattr(type(decoder), "__call__", noted)
    drawn = list(model.generate(rows))
    assert len(drawn) == len(rows)
    passed = torch.cat(given).numpy()[: len(rows)]
    embeddings = model.prior_embeddings(rows)
    np.testing.assert_allclose(embeddings, passed / np.linalg.norm(passed, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(model.prior_embeddings(rows[1:2]), embeddings[1:2], atol=1e-6)  # alone, too
    assert not np.allclose(embeddings[0], embeddings[1])


def test_texts_and_pictures_are_read_in_the_same_space(request):
    model = shared("kandinsky", request)
    images = [item.image for item in model.generate(rows_of("kandinsky", 3))]
    texts, seen = model.prior_texts(["a photo of a man", "a photo of a woman"]), model.prior_images(images)
    assert texts.shape == (2, 16)
    assert seen.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm([*texts, *seen], axis=1), 1, atol=1e-6)
    pipeline = model.pipeline()
    tokens = pipeline.prior_tokenizer("a photo of a man", padding="max_length", truncation=True, return_tensors="pt",
                                      max_length=pipeline.prior_tokenizer.model_max_length)  # fmt: skip
    bare = pipeline.prior_text_encoder(**tokens).text_embeds[0].detach().numpy()
    np.testing.assert_allclose(texts[0], bare / np.linalg.norm(bare), atol=1e-6)


def test_a_model_without_a_prior_says_so_before_it_loads(request):
    model = shared("sd2", request)
    assert isinstance(model, HasPrior)
    read = lambda: model.prior_embeddings(rows_of("sd2", 1))  # noqa: E731
    for call in (model.check_prior, lambda: model.prior_texts(["a man"]), read):
        with pytest.raises(InvalidInput, match="tiny-sd2 has no prior that draws the embedding of a picture"):
            call()
    shared("kandinsky", request).check_prior()


def test_a_whole_study_runs_on_these_classes(request, tmp_path, assets):
    services = RealServices(Settings(data_dir=tmp_path, assets_dir=assets, offline=True, device="cpu"))
    services._built["model", "calibration-diffusion"] = model = own(
        "kandinsky", request, options={"base_condition": "fair"}
    )
    settings = StudySettings(model="calibration-diffusion", condition="fair", num_inference_steps=2, scale=0.04)
    report = complete(run_study(find_design("causes-prior"), settings, services))
    rows = [stored.row for stored in report.stored.values()]
    assert report.n_images == len(rows) == 8
    present, absent = model.prior_texts(["a photo of a man", "a photo of a woman"])
    margins = model.prior_embeddings(rows) @ (present - absent)
    told = report.pictures.set_index("image_id").loc[[row.id for row in rows], "nearer by, prior"]
    np.testing.assert_allclose(told, margins, atol=1e-5)
    services.close()
