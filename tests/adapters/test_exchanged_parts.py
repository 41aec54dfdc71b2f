"""A text that is exchanged on the way, and an adapter in one part of a model: what is drawn then, family by family."""

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bias_core.adapters.diffusers_t2i import DiffusersTextToImage
from bias_core.adapters.pipeline_call import step_replaced
from bias_core.errors import Cancelled, InvalidInput
from bias_core.models.catalogue import WITHOUT_ADAPTER, check_condition
from bias_core.types import ImageRow, ModelInfo
from tests.adapters.families import build, folder_of, pixels, rows_of
from tests.adapters.newer_families import OTHER_PROMPT, model_of, row_of
from tests.adapters.test_diffusers_t2i import INFO, sd3_rows
from tests.adapters.tiny_parts import diffusers, safetensors, torch, transformers

N_STEPS = 4
OLDER = ["sd2", "sdxl", "flux", "pixart", "sana"]  # sd1 and sd3 above, bit for bit
# One of each way to encode a text and to guide; GLM-Image draws from tokens.
NEWER_KINDS = ["FLUX.2", "Qwen-Image", "Z-Image", "HiDream", "Chroma", "Kandinsky 5", "SANA-Sprint", "OmniGen"]
NEWER_KINDS += ["Ideogram 4", "HunyuanImage", "Krea 2"]
LATER = "a nurse"


def an_exchange(row, n_first_steps, later=LATER):
    return replace(row, later_prompt=later, n_first_steps=n_first_steps)


def with_callback(pipeline, row, n_first_steps, names, encode, **more):
    """The same by the pipeline's own callback, which puts embeddings of the later text in the place of the first's."""

    def exchange(_pipe, step, _timestep, kwargs):
        return kwargs | (encode() if step == n_first_steps - 1 else {})

    with torch.inference_mode():
        output = pipeline(
            prompt=row.prompt, generator=torch.Generator("cpu").manual_seed(row.seed),
            num_inference_steps=row.num_inference_steps, guidance_scale=row.guidance_scale, width=row.width,
            height=row.height, output_type="np", callback_on_step_end=exchange,
            callback_on_step_end_tensor_inputs=names, **more,
        )  # fmt: skip
    return (output.images[0] * 255).round().astype(np.uint8)


@pytest.fixture(scope="module")
def sd1(tiny_sd1):
    return build("sd1", tiny_sd1, options={"batch_size": 1})


def test_it_is_what_the_callback_of_stable_diffusion_draws(sd1):
    (row,) = rows_of("sd1", 1, num_inference_steps=N_STEPS)
    pipeline = sd1.pipeline()

    def encode():
        with torch.inference_mode():
            own, away = pipeline.encode_prompt(LATER, pipeline.device, 1, True)
        return {"prompt_embeds": torch.cat([away, own])}

    for n_first_steps in (1, 3):
        expected = with_callback(pipeline, row, n_first_steps, ["prompt_embeds"], encode)
        (drawn,) = pixels(sd1.generate([an_exchange(row, n_first_steps)]))
        np.testing.assert_array_equal(drawn, expected)


def test_it_is_what_the_callback_of_stable_diffusion_3_draws(tiny_sd3):
    info = replace(INFO, options=INFO.options | {"batch_size": 1})
    model = DiffusersTextToImage(info, str(tiny_sd3 / "pipeline"), device="cpu", offline=True)
    (row,) = sd3_rows(1, num_inference_steps=N_STEPS, guidance_scale=1.0)
    pipeline = model.pipeline()

    def encode():
        with torch.inference_mode():
            own, _, pooled, _ = pipeline.encode_prompt(
                LATER, None, None, do_classifier_free_guidance=False, max_sequence_length=1
            )
        return {"prompt_embeds": own, "pooled_prompt_embeds": pooled}

    names = ["latents", "prompt_embeds", "pooled_prompt_embeds"]
    pipeline.__class__ = type("Asked", (type(pipeline),), {"_callback_tensor_inputs": names})
    expected = with_callback(pipeline, row, 2, names, encode, max_sequence_length=1)
    (drawn,) = pixels(model.generate([an_exchange(row, 2)]))
    np.testing.assert_array_equal(drawn, expected)


def latents_of(model, row):
    """What the scheduler is given and goes to, step by step, of the call whose picture is kept."""
    calls = []

    def look(step):
        answer = step.answer()
        following = answer[0] if isinstance(answer, tuple) else answer.prev_sample
        calls.append((step.sample.clone(), following.clone()))
        return answer

    with step_replaced(model.pipeline().scheduler, look):
        (picture,) = pixels(model.generate([row]))
    return calls, picture


def check_exchange(model, row, later):
    """Until the exchange the latents are those of the first prompt; then they are those of neither."""
    n = 1
    first, first_picture = latents_of(model, row)
    second, second_picture = latents_of(model, replace(row, prompt=later))
    steps, _ = latents_of(model, an_exchange(row, n, later))
    steps = steps[-len(first) :]  # before these the first call, which was ended early
    for (_, expected), (_, following) in zip(first[:n], steps[:n], strict=True):
        np.testing.assert_array_equal(following.float().numpy(), expected.float().numpy())
    assert not np.array_equal(steps[n][1].float().numpy(), first[n][1].float().numpy())
    assert not np.array_equal(steps[n][1].float().numpy(), second[n][1].float().numpy())
    (same,) = pixels(model.generate([an_exchange(row, n, row.prompt)]))
    np.testing.assert_array_equal(same, first_picture)  # exchanged for itself
    (again,) = pixels(model.generate([replace(row, prompt=later)]))
    np.testing.assert_array_equal(again, second_picture)  # and nothing stays behind


@pytest.mark.parametrize("family", [*OLDER, *NEWER_KINDS])
def test_until_the_exchange_a_picture_is_the_first_prompt_s_and_then_the_later_one_s(family, request, newer_pipeline):
    if family in OLDER:
        model = build(family, folder_of(family, request), options={"batch_size": 1})
        check_exchange(model, *rows_of(family, 1), LATER)
    else:
        check_exchange(model_of(family, newer_pipeline(family)), row_of(family), OTHER_PROMPT)


def test_pictures_of_a_batch_are_exchanged_together_and_apart_from_others(request):
    model = build("sd1", folder_of("sd1", request))
    rows = rows_of("sd1", 3, num_inference_steps=N_STEPS)
    mixed = [an_exchange(rows[0], 1), an_exchange(rows[1], 1), an_exchange(rows[1], 3), rows[2]]
    seen = []
    together = pixels(model.generate(mixed, on_step=lambda *at: seen.append(at)))
    for row, expected in zip(mixed, together, strict=True):
        (alone,) = pixels(model.generate([row]))
        np.testing.assert_array_equal(alone, expected)
    assert seen == [(i, n) for n in (5, 7, 4) for i in range(1, n + 1)]


def test_it_stops_in_the_steps_before_the_exchange_too_and_what_cannot_be_exchanged_is_said(sd1, request):
    (row,) = rows_of("sd1", 1, num_inference_steps=N_STEPS)

    def on_step(*_):
        raise Cancelled

    with pytest.raises(Cancelled):
        list(sd1.generate([an_exchange(row, 2)], on_step=on_step))
    assert len(list(sd1.generate([row]))) == 1
    with pytest.raises(InvalidInput, match="after 1 to 3 of 4 steps; got 4"):
        list(sd1.generate([an_exchange(row, 4)]))
    stages = build("kandinsky", folder_of("kandinsky", request))
    with pytest.raises(InvalidInput, match="several stages"):
        list(stages.generate([an_exchange(rows_of("kandinsky", 1)[0], 1)]))


def test_a_row_is_stored_under_an_id_of_its_own_and_older_ones_keep_theirs():
    row = ImageRow(prompt="a doctor", seed=1, model="m", num_inference_steps=4)
    assert row.id == "2bd8f69a2a2e132b60d3"
    changes = [{"later_prompt": "a nurse", "n_first_steps": 1}, {"later_prompt": "a nurse", "n_first_steps": 2}]
    ids = {replace(row, **change).id for change in ({}, *changes, {"text_condition": "fair"})}
    assert len(ids) == 4


@pytest.fixture(scope="module")
def two_parts(tiny_sd3, tmp_path_factory):
    """LoRAs "texts" of the text encoder alone, "drawing" of the transformer alone, and "whole", which is both."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    folder = tmp_path_factory.mktemp("parts")
    text_encoder = transformers.CLIPTextModelWithProjection.from_pretrained(tiny_sd3 / "pipeline" / "text_encoder")
    torch.manual_seed(5)
    text_encoder.add_adapter(LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False), "texts")
    layers = get_peft_model_state_dict(text_encoder, adapter_name="texts")
    diffusers.StableDiffusion3Pipeline.save_lora_weights(
        folder / "texts", text_encoder_lora_layers={name: 20 * weight for name, weight in layers.items()}
    )
    file = "pytorch_lora_weights.safetensors"
    shutil.copytree(tiny_sd3 / "loras" / "published", folder / "drawing")
    (folder / "whole").mkdir()
    parts = safetensors.load_file(folder / "texts" / file) | safetensors.load_file(folder / "drawing" / file)
    safetensors.save_file(parts, folder / "whole" / file, metadata={"format": "pt"})
    return folder


def pictures_of(model, condition="", text_condition=""):
    rows = [replace(row, text_condition=text_condition) for row in sd3_rows(2, condition)]
    return np.stack(pixels(model.generate(rows)))


def test_an_adapter_in_one_part_is_that_part_of_it(tiny_sd3, two_parts):
    model = DiffusersTextToImage(INFO, str(tiny_sd3 / "pipeline"), loras=two_parts, device="cpu", offline=True)
    drawn = partial(pictures_of, model)
    pictures = {name: drawn(name) for name in ("fair", "texts", "drawing", "whole")}
    assert len({picture.tobytes() for picture in pictures.values()}) == 4
    np.testing.assert_array_equal(drawn("fair", "whole"), pictures["texts"])
    np.testing.assert_array_equal(drawn("whole", "fair"), pictures["drawing"])
    np.testing.assert_array_equal(drawn("drawing", "texts"), pictures["whole"])  # two adapters of one base
    np.testing.assert_array_equal(drawn("texts", "drawing"), pictures["fair"])  # neither has the other's part
    np.testing.assert_array_equal(drawn("whole", "whole"), pictures["whole"])
    np.testing.assert_array_equal(drawn("fair"), pictures["fair"])


def test_a_lora_that_is_always_on_can_be_taken_out_of_either_part(tiny_sd3, two_parts):
    folder = str(tiny_sd3 / "pipeline")

    def model_with(**options):
        info = ModelInfo(
            id="tiny", name="tiny", family="sd3", options={**INFO.options, "base_condition": "", **options}
        )
        return DiffusersTextToImage(info, folder, device="cpu", offline=True), info

    model, info = model_with(lora=str(two_parts / "whole"))
    plain, whole = pictures_of(model_with()[0]), pictures_of(model)
    texts, drawing = (pictures_of(model_with(lora=str(two_parts / part))[0]) for part in ("texts", "drawing"))
    np.testing.assert_array_equal(pictures_of(model, WITHOUT_ADAPTER), plain)
    np.testing.assert_array_equal(pictures_of(model, "", WITHOUT_ADAPTER), drawing)
    np.testing.assert_array_equal(pictures_of(model), whole)
    model.unload()
    np.testing.assert_array_equal(pictures_of(model, WITHOUT_ADAPTER), plain)
    assert check_condition(info, WITHOUT_ADAPTER) == WITHOUT_ADAPTER
    assert (texts != plain).any()
