"""Facts that a stored picture records of its drawing: prompt, reason of a refusal, program and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bias_core.types import StoredImage

REFUSED = "refused"


def get_refusal_reason(image: StoredImage) -> str:
    """Return why there is no picture; "" if there is one."""
    if not image.blocked:
        return ""
    return str((image.drawn or {}).get(REFUSED) or "blanked by the model's safety checker")


def drawn_prompt(image: StoredImage) -> str:
    """Return the prompt that was drawn in the end: the row's, or the model's revision of it."""
    return str((image.drawn or {}).get("revised_prompt") or image.row.prompt)


def prompt_facts(image: StoredImage) -> dict[str, str]:
    """Return facts to show with a picture: the prompt as the model revised it, and its hosted or foreign model."""
    drawn, facts = image.drawn or {}, {}
    if drawn_prompt(image) != image.row.prompt:
        facts["Drawn from"] = drawn_prompt(image)
    if "provider" in drawn:
        facts["Drawn by"] = f"{drawn['provider']}, {drawn['model']}, {str(drawn['date'])[:10]}"
    return facts | {name.capitalize(): text for name, text in get_drawing_facts(image).items()}


def get_drawing_facts(image: StoredImage) -> dict[str, str]:
    """Return program, model, sampler and further texts that an imported picture records."""
    drawn = image.drawn or {}
    named = {"drawn by": drawn.get("program"), "drawn with model": drawn.get("model"), "sampler": drawn.get("sampler")}
    named["also shaped by"] = "; ".join(map(str, drawn.get("further", [])))
    return {name: str(text) for name, text in named.items() if text} if "program" in drawn else {}
