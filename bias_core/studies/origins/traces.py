"""Traces of single generations: SPI of every step, and some of the predicted pictures; kept once made."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from bias_core.metrics.propagation import stereotype_propagation_index
from bias_core.store.files import write_atomically
from bias_core.studies.kit.derived_images import png_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bias_core.protocols import Traceable
    from bias_core.studies.kit.services import StudyServices
    from bias_core.types import Attribute, ImageRow, Step

_FORM = 1  # of what is kept; another number makes old files be left alone


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One generation seen from inside.

    Attributes
    ----------
    spi : ``(n_steps, n_attributes)``, in [-1, 1].
    sigmas : noise of each step, ``(n_steps,)``.
    space : of the velocities: "flow", "epsilon" or "v_prediction".
    guided : whether the velocities have classifier-free guidance in them.
    predicted : by step, the file of the picture that the step is heading for.
    """

    spi: np.ndarray
    sigmas: np.ndarray
    space: str
    guided: bool
    predicted: dict[int, Path]


def trace_row(
    services: StudyServices,
    model: Traceable,
    row: ImageRow,
    attributes: Sequence[Attribute],
    *,
    guided: bool,
    predicted_steps: Sequence[int],
    check: Callable[[], None],
) -> Trace:
    """The trace of a row, made under the model lock or read from where an earlier run kept it.

    ``check`` is called after every step; what it raises stops the trace.
    """
    asked = [row.id, [(a.positive, a.negative) for a in attributes], guided, _FORM]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:20]
    folder = services.settings.data_dir / "traces" / key[:2]
    pictures = {step: folder / f"{key}-{step}.png" for step in predicted_steps}
    if (kept := _read(folder / f"{key}.npz", pictures)) is not None:
        return kept
    with services.model_lock:
        steps = model.trace(row, attributes, guided=guided, predicted=bool(pictures), on_step=lambda *_: check())
        try:
            seen = [(_look(step, pictures), step.sigma, step.space, step.guided) for step in steps]
        finally:
            if isinstance(steps, Generator):  # whatever happened, the model is let go before the lock is
                steps.close()
    spi, sigmas, spaces, guidances = zip(*seen, strict=True)
    trace = Trace(spi=np.array(spi), sigmas=np.array(sigmas), space=spaces[0], guided=guidances[0], predicted=pictures)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in asdict(trace).items() if name != "predicted"})
    write_atomically(folder / f"{key}.npz", buffer.getvalue())
    return trace


def _look(step: Step, pictures: dict[int, Path]) -> np.ndarray:
    """SPI of a step, whose predicted picture is kept; velocities are far too large for that."""
    if step.index in pictures and step.predicted is not None:
        write_atomically(pictures[step.index], png_bytes(step.predicted))
    return np.asarray(stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative))


def _read(path: Path, pictures: dict[int, Path]) -> Trace | None:
    """A kept trace; None where it, or one of its pictures, is missing or broken."""
    if not path.is_file() or not all(picture.is_file() for picture in pictures.values()):
        return None
    try:
        with np.load(path) as kept:
            space, guided = str(kept["space"]), bool(kept["guided"])
            return Trace(spi=kept["spi"], sigmas=kept["sigmas"], space=space, guided=guided, predicted=pictures)
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
