"""The environment in a report that can be shown to others: versions, machine, models that fit, settings that differ."""

import os
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bias_core import __version__
from bias_core.app.cli.common import MODEL, AsJson, open_services, option, user_errors
from bias_core.errors import BiasCoreError, get_error_message

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.settings import Settings

_LOGIN = ("HF_TOKEN", "BIAS_IMAGES_KEY")
_HUB_VARIABLES = ("HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HTTPS_PROXY")
_HUB_SECONDS = 5.0
_FAILED = "did not work"


def env(
    *,
    check: Annotated[
        bool, option(MODEL, "Also draw and classify a picture, and say how long each part took.", "--check")
    ] = False,
    model: Annotated[str, option(MODEL, "Model of --check (default: that of Explore).", "--model")] = "",
    as_json: AsJson = False,
) -> None:
    """Describe this installation: versions, GPU, memory, disk, which models and classifiers fit, settings that differ.

    Paste it into a bug report: keys, tokens and addresses of servers are only named as set.
    """
    from bias_core.run.programs import format_json

    with user_errors(), open_services() as services:
        facts = describe_environment(services)
        if check:
            facts["check"] = time_two_pictures(services.settings, model)
        if as_json:
            typer.echo(format_json(facts))
        else:  # no tables, for it is pasted elsewhere
            for title, values in facts.items():
                typer.echo("\n".join([title, *(f"  {name}: {value}" for name, value in values.items())]))
        if _FAILED in facts.get("check", {}):
            raise typer.Exit(1)


def describe_environment(services: "Services") -> dict[str, dict[str, Any]]:
    """Return the groups of facts by title; no value is a secret, and the home folder is written as ~."""
    return {
        "program": {
            "t2i-bias-explorer": __version__, "Python": platform.python_version(), "system": platform.platform(),
        },
        "machine": _describe_machine(services.settings),
        "libraries": _list_versions(),
        "data": _describe_data(services),
        "models": {info.id: _describe_fit(services, info.id) for info in services.models()},
        "encoders": _describe_encoders(services),
        "settings that differ": _list_changed(services.settings),
    }  # fmt: skip


def _describe_machine(settings: "Settings") -> dict[str, str]:
    from bias_core.models.model_sources import free_memory, get_machine
    from bias_core.models.weights import cpu_threads, get_cuda_version

    machine = get_machine()
    named = f"{machine.gpu}, {machine.gpu_memory / 1e9:.0f} GB" if machine.gpu else "none"
    cuda = get_cuda_version()
    seen = f"CUDA {cuda}" if cuda else "no CUDA"
    if machine.gpu and not cuda:
        seen += ": the driver names a GPU that torch does not see; install torch for CUDA (pytorch.org)"
    return {
        "GPU": named, "torch sees": seen, "device": settings.device,
        "memory": f"{machine.memory / 1e9:.1f} GB, {free_memory() / 1e9:.1f} GB free",
        "processors": f"{os.cpu_count()}, of which torch uses {cpu_threads()}",
    }  # fmt: skip


def _list_versions() -> dict[str, str]:
    from bias_core.models.weights import list_versions

    absent = {False: "not installed", True: "not installed (optional)"}
    return {
        required.name: (version if is_allowed else f"{version}, but {required.specifier} is needed")
        if version
        else absent[required.marker is not None]
        for required, version, is_allowed in list_versions()
    }


def _describe_data(services: "Services") -> dict[str, str]:
    from huggingface_hub.constants import HF_HUB_CACHE

    from bias_core.models.model_sources import free_bytes

    settings = services.settings
    data, cache = settings.data_dir, Path(HF_HUB_CACHE).absolute()
    size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    return {
        "data folder": f"{_without_home(data)}, {size / 1e9:.2f} GB, {free_bytes(data) / 1e9:.0f} GB free",
        "hub's files": f"{_without_home(cache)}, {free_bytes(cache) / 1e9:.0f} GB free",
        "hub": "not asked (BIAS_OFFLINE)" if settings.offline else _ask_hub(),
    }


def _ask_hub() -> str:
    """Return whether the hub answers, or why not."""
    import httpx
    from huggingface_hub.constants import ENDPOINT

    try:
        status = httpx.head(ENDPOINT, timeout=_HUB_SECONDS, follow_redirects=True).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"not reached: {type(error).__name__}"  # its words may have the address of a proxy, with a password
    return "answers" if status < 400 else f"answers with status {status}"


def _describe_fit(services: "Services", name: str) -> str:
    fit = services.model_fit(name)
    return "embedded" if not fit.short else fit.short if fit.works else f"{fit.short}: cannot be used here"


def _describe_encoders(services: "Services") -> dict[str, str]:
    here, fitting = services.installed_readers("encoder"), services.fitting_readers("encoder")
    there = dict.fromkeys(fitting, "fits, downloaded on first use") | dict.fromkeys(here, "on this machine")
    return {tool.id: there.get(tool.id, "does not fit") for tool in services.tools("encoder")}


def _list_changed(settings: "Settings") -> dict[str, str]:
    """Return settings and variables that differ from the default; secrets and servers are only named as set."""
    from pydantic import SecretStr

    changed = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.get_default(call_default_factory=True, validated_data={}):
            is_secret = isinstance(value, SecretStr) or not field.repr
            changed[f"BIAS_{name.upper()}"] = "set" if is_secret else _without_home(value)
    named = [name for name in (*_LOGIN, *_HUB_VARIABLES) if os.environ.get(name) and name not in changed]
    return changed | dict.fromkeys(named, "set") or {"none": ""}


def _without_home(value: object) -> str:
    return str(value).replace(str(Path.home()), "~")


def time_two_pictures(settings: "Settings", model: str) -> dict[str, str]:
    """Draw a doctor twice and classify both, with an empty data folder; return the seconds of each part.

    The first of two also loads the weights, and downloads them if they are not on this machine.
    """
    from bias_core.explore.options import explore_settings
    from bias_core.services import Services
    from bias_core.store.readings import open_pictures
    from bias_core.types import ImageRow

    took: dict[str, str] = {}
    with (
        TemporaryDirectory() as folder,
        closing(Services(settings.model_copy(update={"data_dir": Path(folder)}))) as new,
    ):
        try:
            info = new.model_info(model or explore_settings().model)
            reader = new.default_reader("encoder", new.pictures_world(info.id))
            took |= {"model": info.id, "encoder": reader}
            first = ImageRow(
                prompt="a photo of a doctor", seed=0, model=info.id, revision=new.revision(info.id),
                condition=next(iter(info.conditions), ""), num_inference_steps=info.default_steps,
                guidance_scale=info.default_guidance, width=info.width, height=info.height,
            )  # fmt: skip
            rows = {"first": first, "second": replace(first, seed=1)}
            for name, row in rows.items():
                with _timed(took, f"{name} picture drawn"):
                    deque(new.draw([row]), maxlen=0)
            encoder = new.encoder(reader)
            for name, row in rows.items():
                with _timed(took, f"{name} picture classified"), new.reading(encoder):
                    encoder.encode_images(open_pictures([new.images.get(row)]))
        except BiasCoreError as error:
            took[_FAILED] = get_error_message(error)
    return took


@contextmanager
def _timed(took: dict[str, str], name: str) -> Iterator[None]:
    """Note the seconds of this block under a name."""
    typer.echo(f"{name} ...", err=True)
    begun = time.perf_counter()
    yield
    took[name] = f"{time.perf_counter() - begun:.2f} s"
