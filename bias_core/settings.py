"""Settings of the process: where things are kept and how the program is served. Each can come from the environment.

``python -m bias_core.settings`` prints them as the table of ``docs/settings.md``.
"""

import math
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from bias_core.installed import ASSETS


def default_data_dir() -> Path:
    """``$XDG_DATA_HOME/t2i-bias-explorer``, by default under ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "t2i-bias-explorer"


def on_public_server() -> bool:
    """Return true on a Space, or if ``BIAS_PUBLIC`` says that strangers reach this process."""
    return _on_space() or os.environ.get("BIAS_PUBLIC", "").lower() in {"1", "true", "t", "yes", "y", "on"}


def on_zero_gpu() -> bool:
    """Return true on a Space with ZeroGPU, and false if ``spaces`` is absent."""
    asked_for = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return asked_for and find_spec("spaces") is not None


def _on_space() -> bool:
    """Return true on a Space of Hugging Face, where strangers share one machine."""
    return bool(os.environ.get("SPACE_ID"))


class Settings(BaseSettings):
    """Settings of one process, read from ``BIAS_*`` environment variables.

    A description that ends with a default gives the value of an unset setting.
    """

    model_config = SettingsConfigDict(env_prefix="BIAS_", frozen=True)

    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Folder for pictures, embeddings and runs (default: `~/.local/share/t2i-bias-explorer`)",
    )
    assets_dir: Path = Field(default=ASSETS, description="Folder of weights and study data (default: the program's)")
    cache_gb: float = Field(
        default=10.0,
        gt=0,
        description="Size limit of the picture store in GB; the least recently used pictures go first",
    )
    host: str = Field(default="127.0.0.1", description="Address on which the app listens")
    allowed_hosts: str = Field(
        default="", description="Host names of the server, in addition to localhost and IP addresses: `name, name`"
    )
    port: int = Field(default=7860, ge=1, le=65535, description="Port on which the app listens")
    offline: bool = Field(default=False, description="Never contact a model hub; use only local files")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        default="auto", description="`auto` (CUDA if there is one), `cpu`, `cuda` or `mps`"
    )
    # A safety checker does not look at pictures that are forming.
    forming: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Show pictures while they form: `auto` (for small models without a safety checker), `on` or `off`",
    )
    compile_models: bool = Field(
        default=False,
        description="Compile the blocks of generators on a GPU: about 8 % faster, but the first call takes 17 s longer",
    )
    public: bool = Field(
        default_factory=on_public_server,
        description="Strangers reach this server: only listed models, no paths (default: on a Space)",
    )
    allowed_models: str = Field(
        default="",
        description="Hub models allowed on a public server in addition to the listed ones: `org/name, org/*`",
    )
    allowed_gb: float = Field(default=20.0, gt=0, description="Largest download of such a model in GB")
    runs_at_once: int = Field(default=3, ge=1, description="Number of parallel runs, which take turns at the models")
    runs_waiting: int = Field(
        default=32, ge=1, description="Number of runs that may wait; later visitors have to try again"
    )
    # On one's own machine several models at the papers' sizes fit.
    max_images: int = Field(
        default_factory=lambda: 1000 if _on_space() else 50_000,
        ge=1,
        description="Largest number of pictures of one run (default: 50,000, more than any paper's study; "
        "1000 on a Space)",
    )
    max_megapixel_steps: float = Field(
        default_factory=lambda: 5000.0 if _on_space() else math.inf,
        gt=0,
        description="Largest product of pictures, steps and megapixels of one run (default: no limit; 5000 on a Space)",
    )
    max_minutes: float = Field(
        default_factory=lambda: 30.0 if _on_space() else math.inf,
        gt=0,
        description="Time limit of a run in minutes; finished pictures are kept, and the same settings resume "
        "(default: no limit; 30 on a Space)",
    )
    gallery: str = Field(
        default="",
        description="Folder of finished runs that the Runs tab lists for all visitors, read only (see below)",
    )
    upload_mb: int = Field(default=50, ge=1, description="Largest upload of a visitor in MB")
    label_pictures_gb: float = Field(
        default=5.0, gt=0, description="Size limit in GB for the pictures of all labelling tasks"
    )
    uploads_gb: float = Field(
        default=5.0,
        gt=0,
        description="Size limit in GB for the uploads of the last hour and those in use; one address may use a quarter",
    )
    # A URL may hold a password.
    labels_url: str = Field(
        default="",
        repr=False,
        description="Database of people's answers, such as `postgresql+psycopg://user:password@host/labels` "
        '(`pip install "psycopg[binary]"`) (default: a file in the data folder)',
    )
    labels_repo: str = Field(
        default="", description="Hub dataset for copies of the answers; for a machine without a lasting disk"
    )
    labels_repo_minutes: int = Field(default=5, ge=5, description="Minutes between two copies")
    llm_url: str = Field(
        default="",
        repr=False,
        description="An OpenAI-compatible server for the language model `endpoint`; StOP needs its `/v1/completions` "
        "with logprobs",
    )
    llm_model: str = Field(default="", description="Model on that server; `endpoint` needs both")
    llm_key: SecretStr = Field(default=SecretStr(""), description="Key of that server")
    judge_url: str = Field(default="", repr=False, description="An OpenAI-compatible server for the judge `endpoint`")
    judge_model: str = Field(default="", description="Vision-language model on that server")
    judge_key: SecretStr = Field(default=SecretStr(""), description="Key of that server")
    images_url: str = Field(
        default="", repr=False, description="An OpenAI-compatible server for pictures, for models named `openai:MODEL`"
    )
    images_key: SecretStr = Field(
        default=SecretStr(""), description="Key of that server; never used for visitors of a public server"
    )
    remote_at_once: int = Field(default=4, ge=1, le=64, description="Parallel requests of one run to hosted models")
    remote_seconds: float = Field(default=180.0, gt=0, description="Time limit of such a request in seconds")


def settings_markdown() -> str:
    """Return the table of all variables with their meaning and default."""
    lines = ["| variable | meaning | default |", "|---|---|---|"]
    for name, variable in Settings.model_fields.items():
        meaning, _, default = str(variable.description).removesuffix(")").partition(" (default: ")
        meaning = meaning if default else str(variable.description)
        value = variable.default.get_secret_value() if isinstance(variable.default, SecretStr) else variable.default
        default = default or (
            f"{value:g}" if isinstance(value, float) else str(value).lower() if value != "" else "none"
        )
        lines.append(f"| `BIAS_{name.upper()}` | {meaning} | {default} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(settings_markdown())
