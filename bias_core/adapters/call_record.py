"""What a pipeline says of a call: its warnings, the settings that it drew with, and why it could not."""

from __future__ import annotations

import logging
import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bias_core.adapters.family_facts import facts_of, guidance_of
from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bias_core.types import ImageRow

_SCALARS = (str, int, float, bool, type(None))
_LONGEST = 300  # letters of an error that are passed on


@contextmanager
def warnings_of_diffusers() -> Iterator[list[str]]:
    """What diffusers warns of in this thread until the block ends, each once."""
    logger, found, thread = logging.getLogger("diffusers"), list[str](), threading.get_ident()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread and (text := record.getMessage().strip()) not in found:
                found.append(text)

    handler = Collector(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def records(
    pipeline: Any,
    arguments: Mapping[str, Any],
    output: Any,
    warnings: Sequence[str],
    rows: Sequence[ImageRow],
) -> list[dict[str, Any]]:
    """For each picture of a call: what was asked of the pipeline, and what it says it did.

    Returns
    -------
    ``asked`` are the plain arguments of the call, ``reported`` the guidance that the pipeline says it ran
    with, ``revised_prompt`` the text that was drawn in place of the prompt, ``warnings`` those of diffusers
    and a sentence where both disagree; what is not known is left out.
    """
    asked = {name: value for name, value in arguments.items() if isinstance(value, _SCALARS)}
    names = ("guidance_scale", "do_classifier_free_guidance")
    reported = {name: getattr(pipeline, name) for name in names if hasattr(pipeline, name)}
    reported = {name: value for name, value in reported.items() if isinstance(value, (bool, int, float))}
    common: dict[str, Any] = {"asked": asked, "reported": reported}
    if told := [*warnings, *_disagreement(pipeline, arguments, reported, rows[0])]:
        common["warnings"] = told
    revised = getattr(output, "revised_prompts", None) or [None] * len(rows)
    return [common | ({"revised_prompt": text} if text else {}) for text in revised[: len(rows)]]


def _disagreement(
    pipeline: Any, arguments: Mapping[str, Any], reported: Mapping[str, Any], row: ImageRow
) -> list[str]:
    guidance = guidance_of(facts_of(pipeline), arguments)
    if guidance.argument != "guidance_scale":
        return []
    wanted, found = row.guidance_scale, []
    if reported.get("guidance_scale", wanted) != wanted:
        found.append(f"guidance {wanted:g} was asked for, the pipeline says {reported['guidance_scale']:g}")
    runs = reported.get("do_classifier_free_guidance")
    if runs is not None and math.isfinite(guidance.least) and runs != (wanted > guidance.least):
        found.append(f"at guidance {wanted:g} the pipeline says that it was {'' if runs else 'not '}guided")
    return found


@contextmanager
def errors_in_a_sentence(pipeline: Any, model: str, row: ImageRow) -> Iterator[None]:
    """Word whatever a pipeline's own code raises as one sentence; running out of memory is left as it is.

    Raises
    ------
    InvalidInput
        It refused an argument.
    ModelUnavailable
        It broke.
    """
    import torch

    try:
        yield
    except (BiasCoreError, torch.OutOfMemoryError):
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        NameError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        kind = InvalidInput if isinstance(error, ValueError) else ModelUnavailable
        raise kind(
            f"{model} ({type(pipeline).__name__}) cannot draw {row.width}x{row.height} pixels in "
            f"{row.num_inference_steps} steps at guidance {row.guidance_scale:g}: {_first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:_LONGEST]
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__} {text}".strip()
