"""A checkpoint in one file, as A1111 and ComfyUI take it, opened once as a folder in the layout of diffusers."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import huggingface_hub
import safetensors

from bias_core.adapters import diffusers, hub_errors, torch
from bias_core.adapters.weights import loading, some_of
from bias_core.errors import ModelUnavailable
from bias_core.models.catalogue import read_json

PREDICTIONS = ("epsilon", "v_prediction")
"""What a network of Stable Diffusion or SDXL predicts; files seldom say it."""

_NETWORKS = ("model.diffusion_model.", "double_blocks.", "joint_blocks.", "transformer_blocks.", "down_blocks.")
_SETTINGS = ["*.json", "*.txt", "*.model", "*/*.json", "*/*.txt", "*/*.model"]


def open_checkpoint(file: Path, prediction: str, folder: Path, *, offline: bool = False) -> None:
    """Write the pipeline of a file into ``folder``; ``prediction`` is one of :data:`PREDICTIONS`, or "".

    Its settings come from the folder of the same name beside it, or from the hub's model of its kind. Raises
    ModelUnavailable: no whole checkpoint, settings that are not here, or a prediction that must (or cannot) be named.
    """
    with loading(str(file), str(file)):
        keys, metadata = _header(file)
        if not any(key.startswith(_NETWORKS) for key in keys):
            raise ModelUnavailable(
                f"{file} is no checkpoint of a whole model (its weights are {some_of(keys) or 'none'})"
            )
        settings = _settings(file, offline=offline)
        name = str(read_json(settings / "model_index.json").get("_class_name"))
        kind: Any = getattr(diffusers, name, None)
        if not hasattr(kind, "from_single_file"):
            raise ModelUnavailable(f"{file} is a {name}, which diffusers does not open from one file; give a folder")
        scheduler = read_json(settings / "scheduler" / "scheduler_config.json")
        more = _scheduler_changes(file, prediction, scheduler, keys, metadata)
        diffusers.utils.logging.disable_progress_bar()
        try:
            pipeline = kind.from_single_file(str(file), config=str(settings), local_files_only=True)
        except NotImplementedError as error:  # a network that kept a tensor without numbers
            raise ModelUnavailable(f"{file} lacks weights of one of its networks; download it again") from error
        _check_whole(file, pipeline)
        if more:
            pipeline.scheduler = type(pipeline.scheduler).from_config(pipeline.scheduler.config, **more)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            whole = Path(unfinished) / "whole"
            pipeline.save_pretrained(whole, safe_serialization=True)
            shutil.rmtree(folder, ignore_errors=True)
            whole.rename(folder)


def _header(file: Path) -> tuple[set[str], dict[str, str]]:
    with safetensors.safe_open(file, framework="pt") as opened:
        return set(opened.keys()), opened.metadata() or {}


def _settings(file: Path, *, offline: bool) -> Path:
    beside = file.with_suffix("")
    if (beside / "model_index.json").is_file():
        return beside
    utils: Any = diffusers.loaders.single_file_utils
    repo = utils.fetch_diffusers_config(utils.load_single_file_checkpoint(str(file)))["pretrained_model_name_or_path"]
    try:
        return Path(huggingface_hub.snapshot_download(repo, allow_patterns=_SETTINGS, local_files_only=offline))
    except (hub_errors.HTTPError, OSError) as error:
        raise ModelUnavailable(
            f"{file} has weights alone, and the settings of its kind, {repo}, are not on this machine and were not "
            f"downloaded; put its small files (.json, .txt) into the folder {beside}"
        ) from error


def _scheduler_changes(
    file: Path, prediction: str, scheduler: Any, keys: set[str], metadata: dict[str, str]
) -> dict[str, Any]:
    """Settings of the scheduler that follow from what the network predicts."""
    if "FlowMatch" in str(scheduler.get("_class_name")):
        if prediction:
            raise ModelUnavailable(f"{file} is a flow model, which predicts a velocity; name it without @{prediction}")
        return {}
    said = metadata.get("modelspec.prediction_type", "").lower()
    own = "v_prediction" if "v_pred" in keys or said.startswith("v") else "epsilon" if said == "epsilon" else ""
    prediction = prediction or own
    if prediction not in PREDICTIONS:
        raise ModelUnavailable(
            f"{file} does not say what its network predicts; name it {file}@epsilon, as most are, or "
            f"{file}@v_prediction, as its makers say"
        )
    zero_snr = {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"} if "ztsnr" in keys else {}
    return {"prediction_type": prediction, **zero_snr}


def _check_whole(file: Path, pipeline: Any) -> None:
    """Refuse a file that lacks weights: diffusers leaves these without numbers."""
    for name, part in pipeline.components.items():
        if isinstance(part, torch.nn.Module):
            missing = [key for key, tensor in part.state_dict().items() if tensor.is_meta]
            if missing:
                raise ModelUnavailable(f"{file} lacks {len(missing)} weights of its {name} ({some_of(missing)})")
