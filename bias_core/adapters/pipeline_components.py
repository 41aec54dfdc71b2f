"""The components of a diffusers pipeline, each read whole from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.whole_weights import check_json, load_whole, read_json, variant_of
from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INDEX = "model_index.json"


def load_components(source: str, name: str, **how: Any) -> Any:
    """The pipeline of a hub id or a folder, as ``DiffusionPipeline.from_pretrained`` gives it.

    Each network is loaded here, with its weights checked, and handed in.

    Parameters
    ----------
    name : of the model, for messages.
    how : arguments of ``from_pretrained``; components among them are taken as they are, None for without.

    Raises
    ------
    ModelUnavailable
        A component is missing, of a class that is not known, or its weights are not whole.
    """
    from diffusers import DiffusionPipeline

    folder = Path(source)
    if not folder.is_dir():
        folder = _downloaded(source, how)
    index = read_json(folder / _INDEX)
    variant, dtype = how.pop("variant", None), how.get("dtype")
    for part, kind in _networks(folder, index, name, how):
        options: dict[str, Any] = {"dtype": dtype} if dtype is not None else {}
        how[part] = load_whole(
            kind,
            str(folder / part),
            name=f"{name}: {part}",
            variant=variant_of(folder / part, _stem(kind), variant),
            use_safetensors=True,
            local_files_only=True,
            **options,
        )
    return DiffusionPipeline.from_pretrained(folder, **how | {"revision": None, "local_files_only": True})


def _downloaded(repo: str, how: Mapping[str, Any]) -> Path:
    """Folder of the repository, downloaded where it is not here; in half precision where it has only that."""
    from diffusers import DiffusionPipeline

    options = {key: value for key, value in how.items() if key != "dtype"}
    try:
        return Path(DiffusionPipeline.download(repo, **options))
    except OSError as error:
        if "necessary `safetensors`" not in str(error) or how.get("variant"):
            raise
    return Path(DiffusionPipeline.download(repo, **options | {"variant": "fp16"}))


def _names_class(entry: object) -> bool:
    """Whether an entry of the index is a library and a class; a setting may be a list of two numbers."""
    return isinstance(entry, list) and len(entry) == 2 and not any(isinstance(x, int) for x in entry)


def _networks(
    folder: Path, index: Mapping[str, Any], name: str, given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Name and class of each component that has weights; all others are only looked at."""
    import torch

    for part, entry in index.items():
        if part.startswith("_") or part in given or not _names_class(entry):
            continue
        library, class_name = entry
        if class_name is None:
            continue
        if not (folder / part).is_dir():
            raise ModelUnavailable(
                f"{name} has no folder {part}, which its {_INDEX} names; download the model again"
            )
        kind = _class(str(library), str(class_name))
        if kind is None:
            raise ModelUnavailable(
                f"{name}: {part} is a {class_name} of {library}, which this version does not have; update "
                "diffusers and transformers, or choose another model"
            )
        check_json(folder / part)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            yield part, kind


def _class(library: str, name: str) -> Any:
    """The class of a component: of diffusers, of transformers, or of one of diffusers' pipelines."""
    import diffusers
    import transformers
    from diffusers import pipelines

    places = {"diffusers": diffusers, "transformers": transformers}
    place = places.get(library) or getattr(pipelines, library, None)
    return getattr(place, name, None)


def _stem(kind: Any) -> str:
    from transformers import PreTrainedModel

    return "model" if issubclass(kind, PreTrainedModel) else "diffusion_pytorch_model"
