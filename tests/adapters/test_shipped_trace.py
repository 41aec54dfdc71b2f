"""The trace of the shipped diffusion model says what it said when its weights came."""

import numpy as np
import pytest

from bias_core.metrics.propagation import stereotype_propagation_index
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import Attribute, ImageRow

# SPI of "man" and "beard" at four steps, recorded when these weights came (revision e5e0f50dd65c-e1fced). With the
# first weights this tracer found what that of version 1 had found by hooks on the denoiser.
EARLIER = {
    (1.0, False): [[0.013027, 0.034087], [0.061822, 0.012608], [0.156119, 0.015903], [0.154255, 0.014018]],
    (3.0, False): [[0.013027, 0.034087], [0.075393, -0.058266], [0.008037, -0.001634], [0.015972, 0.076590]],
    (3.0, True): [[0.039728, 0.072727], [0.041977, -0.177136], [0.076005, 0.022367], [0.113660, 0.145106]],
}


@pytest.mark.slow
def test_the_shipped_model_keeps_its_spi(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True, device="cpu"))
    info = services.model_info("calibration-diffusion")
    assert info.traceable
    model = services.text_to_image(info.id)
    attributes = [
        Attribute(name="man", positive="a photo of a man", negative="a photo of a woman"),
        Attribute(
            name="beard", positive="a photo of a person with a beard", negative="a photo of a person without a beard"
        ),
    ]
    for (guidance_scale, guided), expected in EARLIER.items():
        row = ImageRow(
            prompt="a photo of a doctor", seed=3, model=info.id, condition="published", num_inference_steps=4,
            guidance_scale=guidance_scale, width=info.width, height=info.height,
        )  # fmt: skip
        (generated,) = model.generate([row])
        steps = list(model.trace(row, attributes, guided=guided))
        spi = [
            stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative)
            for step in steps
        ]
        np.testing.assert_allclose(spi, expected, atol=1e-4)
        difference = np.asarray(steps[-1].predicted, int) - np.asarray(generated.image, int)
        assert np.abs(difference).max() <= 1
        assert steps[0].sigma == 1
    services.close()
