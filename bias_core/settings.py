"""Where things are kept and how the program is served; every value can come from the environment."""

import math
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

ASSETS = Path(__file__).resolve().parent.parent / "assets"


def default_data_dir() -> Path:
    """``$XDG_DATA_HOME/t2i-bias-explorer``, by default under ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "t2i-bias-explorer"


def on_public_server() -> bool:
    """Whether strangers reach this process: on a Space, or where ``BIAS_PUBLIC`` says so."""
    return _on_space() or os.environ.get("BIAS_PUBLIC", "").lower() in {"1", "true", "t", "yes", "y", "on"}


def _on_space() -> bool:
    """Whether this is a Space of Hugging Face, where strangers share one machine."""
    return bool(os.environ.get("SPACE_ID"))


class Settings(BaseSettings):
    """Settings of one process, read from ``BIAS_*`` environment variables."""

    model_config = SettingsConfigDict(env_prefix="BIAS_", frozen=True)

    data_dir: Path = Field(default_factory=default_data_dir)  # pictures, embeddings and runs (``BIAS_DATA_DIR``)
    assets_dir: Path = ASSETS  # shipped weights and study data
    # size that the picture store may reach before the least recently used ones go
    cache_gb: float = Field(default=10.0, gt=0)
    # host, port: where the app listens
    host: str = "127.0.0.1"
    allowed_hosts: str = ""  # names under which it may be asked beside localhost, "name, name"
    port: int = Field(default=7860, ge=1, le=65535)
    offline: bool = False  # never ask a model hub; only what is on this machine
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # "auto" takes CUDA when there is one
    # whether the page shows pictures while they form: "auto" for small models without a safety checker, which does not
    # look at them
    forming: Literal["auto", "on", "off"] = "auto"
    compile_models: bool = False  # compile generators on a GPU; minutes at first, quicker pictures afterwards
    # strangers reach this server: no paths, only models that have a name; by default on a Space
    public: bool = Field(default_factory=on_public_server)
    allowed_models: str = ""  # hub ids that a public server takes beside the listed ones: "org/name, org/*"
    allowed_gb: float = Field(default=20.0, gt=0)  # most that such a model may weigh
    runs_at_once: int = Field(default=3, ge=1)  # runs at work together; they take turns at the models
    runs_waiting: int = Field(default=32, ge=1)  # runs that may wait for that
    # largest number of pictures that one run may ask for; on one's own machine several models at the papers' sizes fit
    max_images: int = Field(default_factory=lambda: 1000 if _on_space() else 50_000, ge=1)
    # the same for pictures x denoising steps x pixels of a picture, in millions
    max_megapixel_steps: float = Field(default_factory=lambda: 5000.0 if _on_space() else math.inf, gt=0)
    # that one run may work before it is ended; what it has drawn is kept
    max_minutes: float = Field(default_factory=lambda: 30.0 if _on_space() else math.inf, gt=0)
    # a folder (or a mounted volume) of finished runs, laid out as a data folder, which is only read; "" for none
    gallery: str = ""
    upload_mb: int = Field(default=50, ge=1)  # most that a visitor may upload at once
    label_pictures_gb: float = Field(default=5.0, gt=0)  # that the pictures of all labelling tasks may take together
    # room for the uploads of the last hour and those that pages still use; one address may take a quarter of it
    uploads_gb: float = Field(default=5.0, gt=0)
    # database of people's answers, as an SQLAlchemy URL; "" for a file under ``data_dir``
    labels_url: str = Field(default="", repr=False)  # may hold a password
    labels_repo: str = ""  # dataset of a hub that answers are copied to, "" for none; with the token of this machine
    labels_repo_minutes: int = Field(default=5, ge=5)  # between two such copies
    # llm_url, llm_model, llm_key: an OpenAI-compatible server, the name of a model there, and what opens it; offered as
    # the language model "endpoint" where the first two are given
    llm_url: str = Field(default="", repr=False)  # may hold a password
    llm_model: str = ""
    llm_key: SecretStr = SecretStr("")
    # judge_url, judge_model, judge_key: likewise of a model that looks at pictures, offered as the judge "endpoint"
    judge_url: str = Field(default="", repr=False)  # may hold a password
    judge_model: str = ""
    judge_key: SecretStr = SecretStr("")
    # images_url, images_key: an OpenAI-compatible server of pictures, for models named openai:MODEL, and what opens it
    images_url: str = Field(default="", repr=False)  # may hold a password
    images_key: SecretStr = SecretStr("")
    remote_at_once: int = Field(default=4, ge=1, le=64)  # requests of one run to hosted models on their way together
    remote_seconds: float = Field(default=180.0, gt=0)  # that one such request may take
