"""Drawing in other processes: how services hand their generators to the workers of Ray."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bias_core.errors import ModelUnavailable
from bias_core.services import Services

if TYPE_CHECKING:
    from bias_core.protocols import TextToImage
    from bias_core.settings import Settings
    from bias_core.types import ImageRow


def draw_with_ray(services: Services, workers: int = 0) -> None:
    """Let ``services`` draw with Ray: by so many workers, 0 for one per GPU (per machine without GPUs).

    Raises
    ------
    InvalidInput
        Ray is not installed; the message has the command.
    """
    from bias_core.adapters.devices import cpu_threads
    from bias_core.engine.ray import RayEngine

    services.engine.close()
    services.engine = RayEngine(partial(worker_model, services.settings, cpu_threads()), workers=workers)


def worker_model(settings: Settings, threads: int, row: ImageRow) -> TextToImage:
    """The generator of a row in a process of its own, which draws as the first process would.

    Parameters
    ----------
    threads : that the first process computes with; with another number, single pixels would differ.

    Raises
    ------
    ModelUnavailable
        This machine has other weights, or another version of the program.
    """
    from bias_core.adapters.devices import use_cpu_threads

    use_cpu_threads(threads)
    services = Services(settings)
    if (here := services.revision(row.model)) != row.revision:
        raise ModelUnavailable(
            f"a worker has {row.model} at {here or 'no revision'}, and the run wants "
            f"{row.revision or 'no revision'}: all machines need the same weights and program"
        )
    return services.text_to_image(row.model)
