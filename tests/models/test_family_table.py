"""docs/families.md, made of what these tests find: what each family of generators can do here."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models import weights as loras
from bias_core.models.family_facts import find_guidance, pipeline_facts
from bias_core.models.pipeline_call import to_image
from tests.models.families import FAMILIES, rows_of, shared
from tests.models.newer_families import AGAINST, NEWER, OTHER_PROMPT, draw_bare, model_of, row_of
from tests.models.tiny_parts import torch

PAGE = Path(__file__).parent.parent.parent / "docs" / "families.md"
HEAD = """# Look up the abilities of a model family

Made by `BIAS_WRITE_TABLES=1 python -m pytest tests/models/test_family_table.py`, which runs each family on a tiny
random pipeline of its own classes. A test fails if this page differs from the results.

- **equal**: on a CPU the picture equals, bit for bit, that of diffusers' bare pipeline with the same settings in
  this family's arguments.
- **at once**: pictures per call; "one" if other pictures in the call would change a picture's pixels.
- **guidance from**: up to this scale there is no guidance; "in the network" if the network itself takes the scale,
  "none" if nothing does.
- **negative**: use of negative prompts, if the guidance is above that scale. FLUX uses them only with
  `true_cfg_scale` among its call options.
- **trace**: velocities of a trace (SPI, predicted pictures): "conditional" on a text alone, or also "guided" with
  guidance; or the reason for none. The last predicted picture is the finished one.
- **LoRA**: support for an adapter on its attention.

| family | class | draws | equal | at once | guidance from | negative | trace | LoRA |
|---|---|---|---|---|---|---|---|---|
"""
CALL = {
    "kandinsky": {"prior_num_inference_steps": 2},
    "deepfloyd": {"upscaler_num_inference_steps": 2, "negative_prompt": [""]},
}


def bare_of(family, pipeline, row):
    """The picture of one of the first families by diffusers alone."""
    size = CALL.get(family, FAMILIES[family].options.get("call", {}))
    exact = {"use_resolution_binning": False} if family in {"pixart", "sana"} else {}
    exact |= {"clean_caption": False} if family in {"pixart", "sana"} else {}
    with torch.inference_mode():
        output = pipeline(
            prompt=[row.prompt], generator=[torch.Generator("cpu").manual_seed(row.seed)],
            num_inference_steps=row.num_inference_steps, guidance_scale=row.guidance_scale, width=row.width,
            height=row.height, output_type="np", **size, **exact,
        )  # fmt: skip
    return output.images[0]


def attempt(family, newer_pipeline, request):
    """The adapter of a family, a row, and what draws one with the bare pipeline."""
    if family in NEWER:
        return model_of(family, newer_pipeline(family)), row_of(family), draw_bare
    (row,) = rows_of(family, 1)
    return shared(family, request, options={"batch_size": 1}), row, bare_of


def equal_pictures(family, model, row, bare):
    """The first picture, and whether it and those of other seeds and texts are the bare pipeline's bit for bit."""
    if family in FAMILIES:
        rows = [row, replace(row, seed=8), replace(row, prompt=OTHER_PROMPT)]
    else:
        rows = [row, replace(row, seed=8, prompt=OTHER_PROMPT)]
        rows += [replace(row, negative_prompt=AGAINST)] * NEWER[family].negative
    pictures = list(model.generate(rows))
    ours = [np.asarray(picture.image) for picture in pictures]
    assert len({pixels.tobytes() for pixels in ours}) == len(rows)
    theirs = (np.asarray(to_image(bare(family, model.pipeline(), one), "bare")) for one in rows)
    return pictures[0], all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def takes_lora(pipeline, folder):
    """Return true if an adapter saved from the denoiser's attention goes onto the pipeline again."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict
    from safetensors.torch import save_file

    part = next((name for name in ("transformer", "unet") if hasattr(pipeline, name)), "")
    if not part or not hasattr(pipeline, "load_lora_weights"):
        return False
    network = getattr(pipeline, part)
    if not hasattr(network, "add_adapter"):
        return False
    linear = [name for name, m in network.named_modules() if isinstance(m, torch.nn.Linear)]
    attention = [name for name in linear if name.rpartition(".")[2] in {"to_q", "to_v", "to_qkv"}]
    network.add_adapter(LoraConfig(r=2, target_modules=attention or linear[-4:-1]), "made")
    weights = get_peft_model_state_dict(network, adapter_name="made")
    network.delete_adapters("made")
    save_file({f"{part}.{name}": w.contiguous() for name, w in weights.items()}, folder / "lora.safetensors")
    try:
        loras.put_on(pipeline, "tiny", str(folder), name="again")
    except ModelUnavailable:
        return False
    finally:
        pipeline.unload_lora_weights()
    return True


def guidance_in_words(facts):
    guidance = find_guidance(facts)
    if not guidance.argument:
        return "none", "no"
    start = f"{guidance.threshold:g}" if math.isfinite(guidance.threshold) else "in the network"
    if facts.name in {"OmniGenPipeline", "Ideogram4Pipeline"}:
        start = "any"
    return start, "yes" if guidance.negative else "no"


def traced(model, row, picture):
    """Name the velocities of a trace; check that its last predicted picture is the finished one."""
    try:
        model.check_traceable()
    except InvalidInput as error:
        return f"no: {str(error).split(': ')[2]}"
    *_, last = model.trace(row, [])
    difference = np.asarray(last.predicted, int) - np.asarray(picture.image, int)
    assert np.abs(difference).max() <= 1
    assert last.velocity.shape == last.xt.shape
    kinds = {False: "conditional", True: "guided"}
    (also,) = model.trace(replace(row, num_inference_steps=1), [], guided=True, predicted=False)
    return " and ".join(dict.fromkeys((kinds[last.guided], kinds[also.guided])))


def found(family, newer_pipeline, request, folder):
    """A line of the table."""
    model, row, bare = attempt(family, newer_pipeline, request)
    picture, equal = equal_pictures(family, model, row, bare)
    facts = pipeline_facts(model.pipeline())
    start, negative = guidance_in_words(facts)
    trace = traced(model, row, picture)
    several = "several" if facts.can_batch else "one"
    lora = "yes" if takes_lora(model.pipeline(), folder) else "no"
    cells = [family, facts.name, "yes", "yes" if equal else "no", several, start, negative, trace, lora]
    return f"| {' | '.join(cells)} |"


@pytest.fixture(scope="module")
def lines():
    return {}


@pytest.mark.parametrize("family", [*FAMILIES, *NEWER])
def test_a_family_does_what_the_page_says(family, newer_pipeline, request, lines, tmp_path):
    lines[family] = found(family, newer_pipeline, request, tmp_path)
    if not os.environ.get("BIAS_WRITE_TABLES"):
        assert lines[family] in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_has_these_families_and_no_others(lines):
    if os.environ.get("BIAS_WRITE_TABLES"):
        PAGE.write_text(HEAD + "\n".join(lines.values()) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(HEAD)
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.removeprefix(HEAD).splitlines()]
    assert rows == [*FAMILIES, *NEWER]
