"""The generic diffusers adapter on tiny SD3 and SD 1.x pipelines."""

import shutil

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.weights import drop_longest_unused
from bias_core.errors import ModelUnavailable, NotEnoughMemory
from bias_core.types import ImageRow, ModelInfo
from tests.adapters.families import pixels
from tests.adapters.tiny_parts import torch

INFO = ModelInfo(
    id="tiny-sd3",
    name="tiny",
    family="sd3",
    options={"base_condition": "fair", "call": {"max_sequence_length": 1}, "batch_size": 4},
)


def sd3_rows(n: int, condition: str = "fair", **settings) -> list[ImageRow]:
    prompts = ["a photo of a doctor", "a photo of a nurse", "a man"]
    settings = {"num_inference_steps": 3, "guidance_scale": 2.0, "width": 32, "height": 32} | settings
    return [
        ImageRow(prompt=prompts[i % 3], seed=i, model="tiny-sd3", condition=condition, **settings) for i in range(n)
    ]


@pytest.fixture(scope="module")
def sd3(tiny_sd3):
    return DiffusersTextToImage(INFO, str(tiny_sd3 / "pipeline"), loras=tiny_sd3 / "loras", device="cpu", offline=True)


@pytest.fixture(scope="module")
def sd1(tiny_sd1):
    info = ModelInfo(id="tiny-sd1", name="tiny", family="sd1", options={"batch_size": 2})
    return DiffusersTextToImage(info, str(tiny_sd1), device="cpu", offline=True)


def test_conditions_differ_and_leave_nothing_behind(sd3):
    def drawn(condition):
        return np.stack(pixels(sd3.generate(sd3_rows(2, condition))))

    fair, published, extreme = map(drawn, ("fair", "published", "extreme"))
    assert (fair[0] != published[0]).any()
    assert (published[0] != extreme[0]).any()
    np.testing.assert_array_equal(drawn("fair"), fair)
    np.testing.assert_array_equal(drawn("published"), published)
    while drop_longest_unused():  # it leaves for another model, and comes back fresh
        pass
    assert not sd3.loaded
    for condition, before in (("published", published), ("extreme", extreme), ("fair", fair)):
        np.testing.assert_array_equal(drawn(condition), before)


def test_a_missing_or_corrupt_adapter_is_said_and_the_base_still_works(sd3, tiny_sd3, tmp_path):
    with pytest.raises(ModelUnavailable, match=r"trigger.*missing"):
        list(sd3.generate(sd3_rows(1, "trigger")))
    shutil.copytree(tiny_sd3 / "loras" / "extreme", tmp_path / "extreme")
    (tmp_path / "extreme" / "pytorch_lora_weights.safetensors").write_bytes(b"not weights")
    broken = DiffusersTextToImage(INFO, str(tiny_sd3 / "pipeline"), loras=tmp_path, device="cpu")
    with pytest.raises(ModelUnavailable, match="extreme"):
        list(broken.generate(sd3_rows(1, "extreme")))
    assert len(list(broken.generate(sd3_rows(1, "fair")))) == 1


def test_stable_diffusion_1_draws_and_its_safety_checker_is_counted(sd1):
    rows = [
        ImageRow(
            prompt="a doctor", seed=i, model="tiny-sd1", num_inference_steps=2, guidance_scale=4.0, width=32, height=32
        )
        for i in range(3)
    ]
    checker = sd1.pipeline().safety_checker.requires_grad_(False)
    checker.special_care_embeds_weights.fill_(2.0)  # a threshold that no cosine reaches
    checker.concept_embeds_weights.fill_(2.0)
    assert [item.blocked for item in sd1.generate(rows)] == [False, False, False]
    checker.concept_embeds_weights.fill_(-2.0)
    blocked = list(sd1.generate(rows))
    assert [item.blocked for item in blocked] == [True, True, True]
    assert not np.asarray(blocked[0].image).any()


class Full:
    """A pipeline's denoiser runs out of memory at more than ``most`` pictures."""

    def __init__(self, model, most):
        self.most = most
        self.hook = model.pipeline().transformer.register_forward_pre_hook(self.check, with_kwargs=True)

    def check(self, _module, _args, kwargs):
        if len(kwargs["hidden_states"]) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_batches_shrink_until_memory_holds_them(tiny_sd3):
    model = DiffusersTextToImage(INFO, str(tiny_sd3 / "pipeline"), device="cpu", offline=True)
    rows = sd3_rows(3, guidance_scale=1.0)
    full = Full(model, most=2)
    assert [drawn.row for drawn in model.generate(rows)] == rows
    assert model.batch_size == 2  # 4 were too many
    full.most = 0
    with pytest.raises(NotEnoughMemory, match="1 pictures of 32x32"):
        list(model.generate(rows))
    full.hook.remove()
    assert len(list(model.generate(rows))) == 3
