"""The prior against its decoder, on a model whose embeddings and pictures show a planted attribute on planted seeds."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.report.headlines import headline
from bias_core.run.plan import plan_study
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import GeneratedImage
from tests.shared import RealServices
from tests.study.oasis_runs import extremes, findings, run, table

NAME, MODEL = "causes-prior", "calibration-diffusion"
DOCTOR, PERSON = "a photo of a doctor", "a photo of a person"
SENTENCES = {"present": "The person is a man.", "absent": "The person is a woman."}
SETTINGS = {"model": MODEL, "num_inference_steps": 2, "scale": 0.12, "options": SENTENCES}
N_SEEDS = 12


class Planted:
    """Men among 12 seeds that the prior embeds, and that the decoder draws, by prompt."""

    batch_size = 4
    in_prior, in_pictures = {PERSON: 4, DOCTOR: 7}, {PERSON: 6, DOCTOR: 12}

    def __init__(self, man, woman):
        self.man, self.woman = man, woman

    def check_prior(self):
        pass

    def generate(self, rows, *, on_step=None):
        for row in rows:
            is_man = row.seed < self.in_pictures[row.prompt]
            yield GeneratedImage(row=row, image=(self.man if is_man else self.woman).copy())

    def prior_embeddings(self, rows):
        return np.array([[1.0, 0.0] if row.seed < self.in_prior[row.prompt] else [0.0, 1.0] for row in rows])

    def prior_texts(self, texts):
        return np.eye(2)[[0 if text == SENTENCES["present"] else 1 for text in texts]]

    def prior_images(self, images):
        man = np.asarray(self.man.convert("RGB"))
        return np.eye(2)[[0 if np.array_equal(np.asarray(image), man) else 1 for image in images]]


@pytest.fixture
def services(tmp_path, assets):
    """Over an empty folder: what was planted before would be found there."""
    built = RealServices(Settings(data_dir=tmp_path, assets_dir=assets, offline=True, device="cpu"))
    built._built["model", MODEL] = Planted(*extremes(built.encoder("calibration-clip"), **SENTENCES))
    yield built
    built.close()


def test_what_the_prior_decides_and_what_the_decoder_adds_are_found(services):
    # The prior: 7 of 12 men instead of 4, +3 of 12. The pictures: 12 instead of 6, +6; so the decoder adds 3 of 12.
    report = run(services, NAME, **SETTINGS)
    row = table(report, "prior effects").iloc[0]
    assert [row["effect"], row["prior"], row["decoder"]] == pytest.approx([0.5, 0.25, 0.25])
    assert row["seeds"] == N_SEEDS
    shares = table(report, "prior shares").set_index("prompt")
    shares = shares[["P prior", "P pictures", "difference"]]
    assert shares.loc[PERSON].tolist() == pytest.approx([4 / 12, 6 / 12, 2 / 12])
    assert shares.loc[DOCTOR].tolist() == pytest.approx([7 / 12, 1, 5 / 12])
    found = findings(report)
    assert found[f"{DOCTOR}: prior"].estimate.value == pytest.approx(0.25)
    assert found[f"{DOCTOR}: whole"].sample.statistic(np.arange(N_SEEDS)) == pytest.approx(0.5)
    assert report.pictures["nearer by, prior"].gt(0).sum() == 4 + 7
    said = headline(report)
    assert said.startswith(f"From “{PERSON}” to “{DOCTOR}”, the share of man changes by +0.25 [")
    assert "in the prior's embeddings and by +0.50 [" in said
    assert "; the decoder adds +0.25 [" in said


def test_a_decoder_that_draws_what_it_is_given_adds_nothing(services):
    model = services.text_to_image(MODEL)
    model.in_pictures = model.in_prior
    row = table(run(services, NAME, **SETTINGS), "prior effects").iloc[0]
    assert row["effect"] == row["prior"] == pytest.approx(0.25)
    assert row["decoder"] == 0
    assert row["decoder low"] < 0 < row["decoder high"]


def test_prompts_that_do_not_differ_and_models_without_a_prior_are_refused(services):
    design = find_design(NAME)
    with pytest.raises(InvalidInput, match="a comparison needs a prompt, others"):
        plan_study(design, StudySettings(**SETTINGS | {"options": {"other_texts": [PERSON]}}), services)
    with pytest.raises(InvalidInput, match="calibration-renderer has no prior that can be read here"):
        plan_study(design, StudySettings(**SETTINGS | {"model": "calibration-renderer"}), services)
