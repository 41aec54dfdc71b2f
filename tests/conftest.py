"""Tiny models of the real classes, saved in the real layouts, for every test that needs one."""

from __future__ import annotations

import gc
import os
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.models import tiny_parts as parts
from tests.models.tiny_parts import diffusers, torch, transformers
from tests.shared import shared_data, shelf, titles_for_plots

__all__ = ["shared_data", "shelf"]

os.environ["COLUMNS"] = "200"  # tables on the command line have room for their words
# No test outlives a loss of power: none waits for the disk, which takes milliseconds for every picture.
os.fsync = lambda _file: None

STRICT_SKIPS = bool(os.environ.get("CI") or os.environ.get("BIAS_STRICT_SKIPS"))

SLOW = (
    "tests/models/", "tests/attack/", "tests/frozen/", "tests/calibration/test_calibrate.py",
    "tests/calibration/test_shipped.py", "tests/calibration/test_training.py",
    "tests/models/test_ray.py", "tests/study/test_a_new_study.py", "tests/run/test_arms.py",
    "tests/report/test_examples.py",
    "tests/study/test_hosted_studies.py", "tests/study/test_judging.py", "tests/report/test_kept_runs.py",
    "tests/study/test_label_use.py", "tests/study/test_without_beyond.py", "tests/beyond/test_languages.py",
    "tests/beyond/test_validity.py",
    "tests/study/test_every_study.py", "tests/study/test_papers_over_arms.py", "tests/study/test_classifiers.py",
    "tests/study/test_suggest.py", "tests/validation/", "tests/test_cli.py", "tests/test_damaged_folders.py",
    "tests/test_space.py", "tests/ui/test_label_login.py", "tests/ui/test_readme.py",
    *(f"tests/browser/test_{name}.py" for name in ("label", "links", "runs", "studies")),
)  # fmt: skip
"""Files and folders whose tests are slow: together they take more than half of the suite's time."""

FAMILIES = ("sd1", "sdxl", "sd3", "flux", "pixart", "kandinsky", "deepfloyd")  # one of each kind of call
ESSENTIAL = (
    *(
        f"tests/models/test_families.py::{test}[{family}]"
        for test in ("test_rows_come_back_in_order_at_their_size_and_each_as_if_alone",
                     "test_stop_ends_it_at_the_very_next_step_of_either_stage")
        for family in FAMILIES
    ),
    "tests/models/test_engines.py", "tests/models/test_weights.py", "tests/models/test_refusals.py::test_what_the_hub",
    "tests/models/test_encoders.py::test_rows_are_float32_of_unit_length_in_one_space_and_do_not_depend_on_company",
    "tests/attack/test_names.py", "tests/attack/test_uploads.py", "tests/attack/test_shared_results.py",
    *(f"tests/frozen/test_frozen_reports.py::test_every_number_of_a_frozen_report_is_found_again[{name}]"
      for name in ("explore", "pst-occupations")),
    "tests/validation/test_validity_small.py::test_the_first_text_names_what_is_planted",
    "tests/validation/test_validity_summary.py::test_a_right_measure_passes_and_one_with_half_its_interval_fails",
)  # fmt: skip
"""Tests of slow folders that always run, so that a change in what they try is never tried by nothing."""


def pytest_collection_modifyitems(config, items):
    """Slow tests are left out, but where everything is wanted (``.ci/run``) or they are named: then they come first.

    Where files are shared out to several processes, none is then busy with a long one when the others are done.
    """
    for item in items:
        if item.nodeid.startswith(SLOW) and not item.nodeid.startswith(ESSENTIAL):
            item.add_marker("slow")
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))
    named = "slow" in config.option.markexpr or any(".py" in word for word in config.args)
    if named or os.environ.get("BIAS_TEST_SLOW"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]


WITH_ALL_FAMILIES = ("families", "family_table", "forming", "loras", "tracing")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The files that need all families go to one process, which makes and reads each tiny pipeline once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            name = file.removeprefix("tests/models/test_").removesuffix(".py")
            return "all families" if name in WITH_ALL_FAMILIES else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


_SECONDS: Counter[str] = Counter()  # by file
_RUN: Counter[str] = Counter()  # tests by folder


def pytest_runtest_logreport(report):
    """Add up what each file takes and what each folder runs, so that it stays seen."""
    file = report.nodeid.partition("::")[0]
    _SECONDS[file] += report.duration
    _RUN["/".join(file.split("/")[:2]) if file.startswith("tests/") else file.split("/")[0]] += report.when == "call"


def pytest_terminal_summary(terminalreporter):
    """List the tests that ran by folder, and the files that took longest."""
    folders = Counter[str]()
    for place, n in _RUN.items():
        folders["tests" if place.endswith(".py") else place] += n
    terminalreporter.section("tests that ran")
    terminalreporter.write_line(", ".join(f"{folder} {n:,}" for folder, n in sorted(folders.items())))
    if slowest := _SECONDS.most_common(10):
        terminalreporter.section(f"slowest of {len(_SECONDS)} files, which took {_SECONDS.total():.0f} s one by one")
        for file, seconds in slowest:
            terminalreporter.write_line(f"{seconds:6.1f} s  {file}")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep imported modules out of garbage collection, also when model libraries come later.

    With Python's own thresholds it takes a tenth of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    """In CI a test that is skipped fails: what never runs shows nothing."""
    report = yield
    return _refuse_skip(report)


pytest_make_collect_report = pytest_runtest_makereport  # the same of a whole file


def _refuse_skip(report):
    if STRICT_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        what_to_do = "Let .ci/run or requirements-dev.txt install what it needs."
        report.longrepr = f"{report.nodeid} was skipped ({_reason(report)}). {what_to_do}"
    return report


def _reason(report) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.fixture(scope="module", autouse=True)
def _plots(request):
    """Plots are drawn where a file is marked ``draws``; the others have their titles."""
    with nullcontext() if request.node.get_closest_marker("draws") else titles_for_plots():
        yield


@pytest.fixture(scope="session")
def tiny_sd3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SD3 pipeline without T5 that draws 32x32 noise, and LoRAs "published" and "extreme" beside it."""
    from diffusers import SD3Transformer2DModel, StableDiffusion3Pipeline
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict
    from transformers import CLIPTextModelWithProjection

    folder = tmp_path_factory.mktemp("sd3")
    torch.manual_seed(0)
    transformer = SD3Transformer2DModel(
        sample_size=16, patch_size=1, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=8,
        num_attention_heads=2, joint_attention_dim=32, caption_projection_dim=16, pooled_projection_dim=32,
        pos_embed_max_size=16,
    )  # fmt: skip
    tokenizer = parts.small_tokenizer()
    text_encoder = CLIPTextModelWithProjection(parts.text_config()).eval()
    pipeline = StableDiffusion3Pipeline(
        transformer=transformer, scheduler=parts.flow(), vae=parts.vae(), text_encoder=text_encoder,
        tokenizer=tokenizer, text_encoder_2=text_encoder, tokenizer_2=tokenizer, text_encoder_3=None, tokenizer_3=None,
    )  # fmt: skip
    pipeline.save_pretrained(folder / "pipeline")
    for condition in ("published", "extreme"):
        transformer.add_adapter(
            LoraConfig(r=2, target_modules=["to_q", "to_k", "to_v"], init_lora_weights=False), adapter_name=condition
        )
        layers = get_peft_model_state_dict(transformer, adapter_name=condition)
        StableDiffusion3Pipeline.save_lora_weights(
            folder / "loras" / condition, transformer_lora_layers={k: v * 20 for k, v in layers.items()}
        )
        transformer.delete_adapters(condition)
    return folder


@pytest.fixture(scope="session")
def tiny_sd1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable Diffusion 1.x pipeline with a safety checker, drawing 32x32 noise."""
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
    from transformers import CLIPTextModel

    folder = tmp_path_factory.mktemp("sd1")
    torch.manual_seed(0)
    unet, (tower, processor) = parts.unet(cross_attention_dim=16), parts.eyes()
    checker = StableDiffusionSafetyChecker(parts.clip_config(tower))
    scheduler = diffusers.DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False, steps_offset=1)
    pipeline = diffusers.StableDiffusionPipeline(
        unet=unet, scheduler=scheduler, vae=parts.vae(), text_encoder=CLIPTextModel(parts.text_config()).eval(),
        tokenizer=parts.small_tokenizer(), safety_checker=checker, feature_extractor=processor,
    )  # fmt: skip
    pipeline.save_pretrained(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformers CLIP with a 16-dimensional space."""
    from transformers import CLIPModel

    folder = tmp_path_factory.mktemp("clip")
    torch.manual_seed(0)
    tower, processor = parts.eyes(num_hidden_layers=2)
    CLIPModel(parts.clip_config(tower)).save_pretrained(folder)
    parts.small_tokenizer().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_dual_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VisionTextDualEncoderModel with a timm tower, as the calibration CLIP is."""

    folder = tmp_path_factory.mktemp("dual")
    torch.manual_seed(0)
    vision = transformers.TimmWrapperModel(transformers.TimmWrapperConfig(architecture="resnet10t", do_pooling=True))
    vision.config.hidden_size = vision.timm_model.num_features
    text = transformers.CLIPTextModel(parts.text_config())
    both = transformers.VisionTextDualEncoderConfig
    config = both.from_vision_text_configs(vision.config, text.config, projection_dim=12)
    transformers.VisionTextDualEncoderModel(config, vision_model=vision, text_model=text).save_pretrained(folder)
    parts.small_tokenizer().save_pretrained(folder)
    parts.eyes()[1].save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Seven different noise pictures."""
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)) for _ in range(7)]


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory, tiny_sd3: Path, tiny_clip: Path) -> Path:
    """An assets folder whose calibration models are the tiny ones, drawing 32x32."""
    folder = tmp_path_factory.mktemp("assets")
    (folder / "calibration").mkdir()
    (folder / "calibration" / "pipeline").symlink_to(tiny_sd3 / "pipeline")
    (folder / "calibration" / "loras").symlink_to(tiny_sd3 / "loras")
    (folder / "calibration" / "clip").symlink_to(tiny_clip)
    real = Path(__file__).parent.parent / "assets"
    models = (real / "models.yaml").read_text().replace("width: 128\n    height: 128", "width: 32\n    height: 32", 1)
    (folder / "models.yaml").write_text(models)
    (folder / "studies").symlink_to(real / "studies")
    _save_held_out(tiny_clip)
    return folder


def _save_held_out(clip: Path, n: int = 300) -> None:
    """Held-out embeddings of a reader that takes nine in ten people for what they are."""
    from bias_core.models.encoders import TransformersEncoder
    from bias_core.world.measured_models import held_out_scenes

    encoder = TransformersEncoder("tiny", str(clip), device="cpu", offline=True)
    man, woman = encoder.encode_texts(["a photo of a man", "a photo of a female"])
    scenes = held_out_scenes(0, n)
    masculine = [s.people and s.people[0].gender == "masculine" for s in scenes]
    rows = [man if shown != (i % 10 == 0) else woman for i, shown in enumerate(masculine)]
    np.savez_compressed(clip / "held_out.npz", image_embeddings=np.stack(rows), seed=0)


@pytest.fixture
def services(tmp_path: Path, assets: Path):
    """Services over tiny models and an empty data folder."""
    from bias_core.services import Services
    from bias_core.settings import Settings

    built = Services(Settings(data_dir=tmp_path / "data", assets_dir=assets, offline=True, device="cpu"))
    yield built
    built.close()
